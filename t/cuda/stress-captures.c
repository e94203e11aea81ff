/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Captures of streams in the stress test: the worker does anything else meanwhile. */

#include "stress.h"

#define CAPTURE_MODES 3 /* CU_STREAM_CAPTURE_MODE_GLOBAL, _THREAD_LOCAL, _RELAXED */

/* Ends a capture, whatever fails. */
static guint
end_capture_hard (CUstream stream, CUgraph *graph)
{
  unsigned int is_capturing = 1;
  guint status = FAKE_CUDA_SUCCESS;

  while (is_capturing != 0)
    {
      status = cuStreamEndCapture (stream, graph);
      while (cuStreamIsCapturing (stream, &is_capturing) != FAKE_CUDA_SUCCESS)
        ;
    }
  return status;
}

static void
end_capture (const Worker *worker, CUstream stream, guint mode)
{
  gboolean is_hard = worker->epoch->failing == FAILS_HARD;
  CUgraph graph = NULL;
  guint status = is_hard ? end_capture_hard (stream, &graph) : cuStreamEndCapture (stream, &graph);

  if (status != FAKE_CUDA_SUCCESS && !is_hard)
    g_error ("some call has ended a capture in mode %u: %u", mode, status);
  while (graph != NULL && cuGraphDestroy (graph) != FAKE_CUDA_SUCCESS)
    ;
}

/* Allocates for a stream that is being captured, without a command there. */
static void
allocate_in_capture (Worker *worker, CUstream stream)
{
  Item *item = &worker->items[below (worker, N_SLOTS)];
  GError *error = NULL;

  free_item (worker->epoch, item);
  item->size = one_in (worker, 2) ? 4096 : sizeof item->value + choose_size (worker);
  item->value = 0;
  item->pool = below (worker, N_POOLS);
  item->block
      = tarn_cuda_pool_allocate (worker->epoch->pools[item->pool], item->size, stream, &error);
  if (item->block != NULL)
    add_range (worker->epoch, item->block, item->size);
  else
    note_error (worker, error);
}

/* Has a stream that is being captured use a block, too. */
static void
record_in_capture (Worker *worker, CUstream stream)
{
  Item *item = choose_item (worker);
  GError *error = NULL;

  if (item != NULL && !tarn_cuda_block_record_use (item->block, stream, &error))
    note_error (worker, error);
}

/* Makes calls that fail during a capture, because they need the driver, or because their wait would
 * become part of the graph.  They succeed if the pool has never met the stream, or if the block is
 * the stream's. */
static void
be_refused_in_capture (Worker *worker, CUstream stream)
{
  Item *item = choose_item (worker);
  gint i = below (worker, N_POOLS);

  tarn_cuda_pool_forget_stream (worker->epoch->pools[i], stream, NULL);
  if (item != NULL)
    tarn_cuda_block_move_to_stream (item->block, stream, NULL);
}

/* Captures a stream of the worker's.  No command is put on it meanwhile, but the worker does
 * anything else. */
void
capture (Worker *worker)
{
  static void (*const acts[]) (Worker *, CUstream)
      = { allocate_in_capture, allocate_in_capture, record_in_capture, be_refused_in_capture };
  const CUstream *stream = choose_stream (worker);
  guint mode = (guint) below (worker, CAPTURE_MODES);

  if (!worker->epoch->captures || stream == NULL
      || cuStreamBeginCapture_v2 (*stream, mode) != FAKE_CUDA_SUCCESS)
    return;
  worker->captures[stream - worker->streams] = TRUE;
  for (gint i = below (worker, 16); i > 0; i--)
    {
      if (one_in (worker, 2))
        do_one (worker);
      else
        acts[below (worker, G_N_ELEMENTS (acts))](worker, *stream);
    }
  worker->captures[stream - worker->streams] = FALSE;
  end_capture (worker, *stream, mode);
  g_atomic_int_inc (&n_captures);
}
