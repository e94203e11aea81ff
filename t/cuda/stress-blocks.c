/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The blocks of the stress test, and the streams of its workers: operations on them, the commands
 * that write and read blocks, and the memory ranges that are in use. */

#include "stress.h"

#define WRITTEN (8 * KIB)

gint
below (Worker *worker, gint end)
{
  return g_rand_int_range (worker->rand, 0, end);
}

gboolean
one_in (Worker *worker, gint n)
{
  return below (worker, n) == 0;
}

/* Ranges in use */

void
add_range (Epoch *epoch, const TarnBlock *block, gsize size)
{
  guint64 address = tarn_block_get_memory (block).address;

  _tarn_mutex_lock (&epoch->lock);
  for (guint i = 0; i < epoch->n_ranges; i++)
    if (address < epoch->ranges[i].address + epoch->ranges[i].size
        && epoch->ranges[i].address < address + size)
      g_error ("0x%" G_GINT64_MODIFIER "x, %zu bytes, overlaps 0x%" G_GINT64_MODIFIER
               "x, %zu bytes",
               address, size, epoch->ranges[i].address, epoch->ranges[i].size);
  g_assert_cmpuint (epoch->n_ranges, <, G_N_ELEMENTS (epoch->ranges));
  epoch->ranges[epoch->n_ranges++] = (Range){ address, size };
  _tarn_mutex_unlock (&epoch->lock);
}

static void
remove_range (Epoch *epoch, const TarnBlock *block)
{
  guint64 address = tarn_block_get_memory (block).address;
  guint i = 0;

  _tarn_mutex_lock (&epoch->lock);
  while (i < epoch->n_ranges && epoch->ranges[i].address != address)
    i++;
  g_assert_cmpuint (i, <, epoch->n_ranges);
  epoch->ranges[i] = epoch->ranges[--epoch->n_ranges];
  _tarn_mutex_unlock (&epoch->lock);
}

/* Commands, on a stream of the worker's that the block is for */

static void
write_item (Worker *worker, Item *item, CUstream stream)
{
  CUdeviceptr address = tarn_cuda_block_get_device_pointer (item->block);
  guint value = (worker->number << 24) + (++worker->n_writes & 0xffffff);
  gsize n = MIN (item->size, WRITTEN) / sizeof value;

  item->value = 0;
  if (n == 0 || cuMemsetD32Async (address, value, n, stream) != FAKE_CUDA_SUCCESS)
    return;
  n = item->size / sizeof value;
  if (cuMemsetD32Async (address + (n - 1) * sizeof value, value, 1, stream) == FAKE_CUDA_SUCCESS)
    item->value = value;
}

/* Has a command read one of the words that were written. */
static void
check_item (Worker *worker, const Item *item, CUstream stream)
{
  CUdeviceptr address = tarn_cuda_block_get_device_pointer (item->block);
  gsize n = item->size / sizeof item->value;
  gsize at = one_in (worker, 4)
                 ? n - 1
                 : (gsize) below (worker, (gint) MIN (n, WRITTEN / sizeof item->value));
  Check *check;

  if (item->value == 0)
    return;
  check = g_new (Check, 1);
  *check = (Check){ item->value, ~item->value };
  if (cuMemcpyDtoHAsync_v2 (&check->found, address + at * sizeof item->value, sizeof check->found,
                            stream)
      == FAKE_CUDA_SUCCESS)
    worker->checks = g_slist_prepend (worker->checks, check);
  else
    g_free (check);
}

/* When all commands are done. */
void
end_checks (Worker *worker)
{
  for (const GSList *link = worker->checks; link != NULL; link = link->next)
    {
      const Check *check = link->data;

      g_assert_cmphex (check->found, ==, check->expected);
    }
  g_slist_free_full (g_steal_pointer (&worker->checks), g_free);
}

/* Blocks */

gsize
choose_size (Worker *worker)
{
  switch (below (worker, 8))
    {
    case 0:
      return (gsize) below (worker, (gint) (3 * MIB));
    case 1:
    case 2:
      return (gsize) 4096 << below (worker, 6);
    default:
      return (gsize) below (worker, 16 << 10);
    }
}

/* Chooses a stream of the worker's own that lives and is not being captured; NULL: none. */
CUstream *
choose_stream (Worker *worker)
{
  gint i = below (worker, N_STREAMS);

  return worker->streams[i] != NULL && !worker->captures[i] ? &worker->streams[i] : NULL;
}

Item *
choose_item (Worker *worker)
{
  Item *item = &worker->items[below (worker, N_SLOTS)];

  return item->block != NULL ? item : NULL;
}

void
note_error (const Worker *worker, GError *error)
{
  const Epoch *epoch = worker->epoch;

  g_atomic_int_inc (&n_errors);
  if (epoch->failing == FAILS_NEVER
      && !(epoch->captures && g_error_matches (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED))
      && !(epoch->has_limit && g_error_matches (error, TARN_ERROR, TARN_ERROR_LIMIT))
      && !(epoch->has_budget && g_error_matches (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY)))
    g_error ("%s", error->message);
  g_error_free (error);
}

void
allocate_item (Worker *worker)
{
  Epoch *epoch = worker->epoch;
  Item *item = &worker->items[below (worker, N_SLOTS)];
  CUstream *stream = choose_stream (worker);
  GError *error = NULL;

  if (item->block != NULL || stream == NULL)
    return;
  item->pool = below (worker, N_POOLS);
  item->size = sizeof item->value + choose_size (worker);
  item->value = 0;
  item->block = tarn_cuda_pool_allocate (epoch->pools[item->pool], item->size, *stream, &error);
  if (item->block == NULL)
    {
      note_error (worker, error);
      return;
    }
  add_range (epoch, item->block, item->size);
  write_item (worker, item, *stream);
}

void
free_item (Epoch *epoch, Item *item)
{
  if (item->block == NULL)
    return;
  remove_range (epoch, item->block);
  tarn_block_free (g_steal_pointer (&item->block));
}

void
free_one (Worker *worker)
{
  Item *item = choose_item (worker);

  if (item != NULL)
    free_item (worker->epoch, item);
}

/* Exchanges a block for one that another thread has put into the epoch's list, or for none. */
void
exchange_item (Worker *worker)
{
  Item *own = &worker->items[below (worker, N_SLOTS)];
  Item *other = &worker->epoch->shared[below (worker, N_SHARED)], kept = *own;

  _tarn_mutex_lock (&worker->epoch->lock);
  *own = *other;
  *other = kept;
  _tarn_mutex_unlock (&worker->epoch->lock);
}

/* Moves a block, whoever has written it, to a stream of the worker's own. */
static gboolean
move_item (Worker *worker, Item *item, CUstream stream)
{
  GError *error = NULL;

  if (tarn_cuda_block_move_to_stream (item->block, stream, &error))
    return TRUE;
  note_error (worker, error);
  return FALSE;
}

void
use_item (Worker *worker)
{
  Item *item = choose_item (worker);
  CUstream *stream = choose_stream (worker);

  if (item == NULL || stream == NULL || !move_item (worker, item, *stream))
    return;
  check_item (worker, item, *stream);
  if (one_in (worker, 3))
    write_item (worker, item, *stream);
}

/* Lets a second stream read a block, after the commands on the first one. */
void
share_item (Worker *worker)
{
  Item *item = choose_item (worker);
  CUstream *first = choose_stream (worker), *second = choose_stream (worker);
  GError *error = NULL;
  CUevent event;

  if (item == NULL || first == NULL || second == NULL || first == second
      || !move_item (worker, item, *first))
    return;
  if (!tarn_cuda_block_record_use (item->block, *second, &error))
    {
      note_error (worker, error);
      return;
    }
  if (cuEventCreate (&event, 2) != FAKE_CUDA_SUCCESS)
    return;
  if (cuEventRecord (event, *first) == FAKE_CUDA_SUCCESS
      && cuStreamWaitEvent (*second, event, 0) == FAKE_CUDA_SUCCESS)
    check_item (worker, item, *second);
  while (cuEventDestroy_v2 (event) != FAKE_CUDA_SUCCESS)
    ;
}

void
wait_for_item (Worker *worker)
{
  Item *item = choose_item (worker);
  GError *error = NULL;

  if (item != NULL && !tarn_block_wait (item->block, &error))
    note_error (worker, error);
}

/* Streams */

void
make_stream (Worker *worker)
{
  CUstream *stream = &worker->streams[below (worker, N_STREAMS)];
  guint flags = worker->epoch->may_block && one_in (worker, 2) ? 0 : NON_BLOCKING;

  if (*stream == NULL && cuStreamCreate (stream, flags) != FAKE_CUDA_SUCCESS)
    *stream = NULL;
}

void
destroy_stream (CUstream *stream)
{
  while (*stream != NULL && cuStreamDestroy_v2 (*stream) != FAKE_CUDA_SUCCESS)
    ;
  *stream = NULL;
}

/* Forgets and destroys a stream that may have work; its blocks live on. */
void
end_stream (Worker *worker)
{
  CUstream *stream = choose_stream (worker);
  GError *error = NULL;

  if (stream == NULL)
    return;
  for (guint i = 0; i < N_POOLS; i++)
    if (!tarn_cuda_pool_forget_stream (worker->epoch->pools[i], *stream, &error))
      {
        note_error (worker, error);
        return;
      }
  destroy_stream (stream);
}

void
hold_stream_up (Worker *worker)
{
  const CUstream *stream = choose_stream (worker);

  if (stream != NULL)
    fake->put_work (*stream);
}
