/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Lets a request wait for shared virtual memory that enqueued commands will free
 * (clEnqueueSVMFree).  Such memory becomes free only when the command runs.  So if a request finds
 * no memory, its thread waits for such commands.  The thread must not wait for ever, because the
 * queue may itself wait for a user event that only this thread can complete.  OpenCL does not tell
 * whether this is so: a command that waits for a user event is CL_QUEUED or CL_SUBMITTED, and so is
 * a command that waits for a kernel, which ends by itself.
 *
 * So a request waits for a queue as long as the queue goes on freeing memory.  A queue that frees
 * no memory for PATIENCE counts as stuck.  Until a stuck queue frees memory again, requests wait
 * for it only for SHORT_PATIENCE.  This has two results:
 *
 * - A program that blocks a queue waits for PATIENCE only one time.
 * - A program that allocates in a callback, during which the driver cannot run commands, gets an
 *   error instead of waiting for ever. */

#include "svm-frees-private.h"

#include "common/lock-private.h"

/* A queue that frees no memory for PATIENCE counts as stuck.  A request waits for a stuck queue
 * only for SHORT_PATIENCE.  Both times are in microseconds. */
#define PATIENCE G_GINT64_CONSTANT (1000000)
#define SHORT_PATIENCE G_GINT64_CONSTANT (10000)

/* A queue with commands that will free memory.  The queue is in TarnOpenclFrees.queues as long as
 * it has references. */
struct _TarnOpenclFreeQueue
{
  cl_command_queue queue; /* borrowed; a valid handle only while the queue has memory to free */
  /* number of references: one for each command that will free memory, and one for each thread that
   * waits */
  guint n_refs;
  /* numbers of calls of _tarn_opencl_frees_begin () and of _tarn_opencl_frees_end () for this
   * queue */
  guint64 n_begun, n_ended;
  gboolean is_stuck;
};

struct _TarnOpenclFrees
{
  /* atomic; one reference for the allocator, and one for each command that will free memory */
  gint ref_count;
  TarnMutex lock;
  TarnCond changed;
  /* The lock guards the fields below. */
  /* an array of TarnOpenclFreeQueue: the queues with commands that will free memory */
  GPtrArray *queues;
  guint64 n_ended; /* number of calls of _tarn_opencl_frees_end () for all queues */
};

TarnOpenclFrees *
_tarn_opencl_frees_new (void)
{
  TarnOpenclFrees *frees = g_new0 (TarnOpenclFrees, 1);

  frees->ref_count = 1;
  frees->queues = g_ptr_array_new ();
  _tarn_mutex_init (&frees->lock);
  _tarn_cond_init (&frees->changed);
  return frees;
}

void
_tarn_opencl_frees_unref (TarnOpenclFrees *frees)
{
  if (!g_atomic_int_dec_and_test (&frees->ref_count))
    return;
  g_assert (frees->queues->len == 0);
  g_ptr_array_unref (frees->queues);
  _tarn_cond_clear (&frees->changed);
  _tarn_mutex_clear (&frees->lock);
  g_free (frees);
}

static TarnOpenclFreeQueue *
ref_queue_locked (TarnOpenclFrees *frees, cl_command_queue handle)
{
  TarnOpenclFreeQueue *queue;

  _tarn_assert_locked (&frees->lock);
  for (guint i = 0; i < frees->queues->len; i++)
    {
      queue = g_ptr_array_index (frees->queues, i);
      if (queue->queue != handle)
        continue;
      queue->n_refs++;
      return queue;
    }
  queue = g_new0 (TarnOpenclFreeQueue, 1);
  queue->queue = handle;
  queue->n_refs = 1;
  g_ptr_array_add (frees->queues, queue);
  return queue;
}

static void
unref_queue_locked (TarnOpenclFrees *frees, TarnOpenclFreeQueue *queue)
{
  _tarn_assert_locked (&frees->lock);
  if (--queue->n_refs > 0)
    return;
  g_ptr_array_remove_fast (frees->queues, queue);
  g_free (queue);
}

TarnOpenclFreeQueue *
_tarn_opencl_frees_begin (TarnOpenclFrees *frees, cl_command_queue handle)
{
  TarnOpenclFreeQueue *queue;

  g_atomic_int_inc (&frees->ref_count);
  _tarn_mutex_lock (&frees->lock);
  queue = ref_queue_locked (frees, handle);
  queue->n_begun++;
  _tarn_mutex_unlock (&frees->lock);
  return queue;
}

void
_tarn_opencl_frees_end (TarnOpenclFrees *frees, TarnOpenclFreeQueue *queue)
{
  _tarn_mutex_lock (&frees->lock);
  queue->n_ended++;
  queue->is_stuck = FALSE;
  frees->n_ended++;
  unref_queue_locked (frees, queue);
  _tarn_cond_broadcast (&frees->changed);
  _tarn_mutex_unlock (&frees->lock);
  _tarn_opencl_frees_unref (frees);
}

guint64
_tarn_opencl_frees_count (TarnOpenclFrees *frees)
{
  guint64 count;

  _tarn_mutex_lock (&frees->lock);
  count = frees->n_ended;
  _tarn_mutex_unlock (&frees->lock);
  return count;
}

/* Makes the host wait until a queue frees memory.  Returns FALSE if the queue frees none within
 * PATIENCE.  If the queue is already known to be stuck, returns FALSE after SHORT_PATIENCE.
 * Releases the caller's lock during the wait. */
static gboolean
await_one_locked (TarnOpenclFrees *frees, const TarnOpenclFreeQueue *queue)
{
  gint64 end_time = g_get_monotonic_time () + (queue->is_stuck ? SHORT_PATIENCE : PATIENCE);
  guint64 n_before = queue->n_ended;
  gboolean is_early = TRUE;

  _tarn_assert_locked (&frees->lock);
  while (queue->n_ended == n_before && is_early)
    is_early = _tarn_cond_wait_until (&frees->changed, &frees->lock, end_time);
  return queue->n_ended != n_before;
}

/* Makes the host wait until a queue has freed memory @n_wanted times in all, or until the queue is
 * found to be stuck.  Releases the caller's lock during the wait. */
static void
await_frees_of_queue_locked (TarnOpenclFrees *frees, TarnOpenclFreeQueue *queue, guint64 n_wanted)
{
  while (queue->n_ended < n_wanted)
    if (!await_one_locked (frees, queue))
      {
        queue->is_stuck = TRUE;
        return;
      }
}

gboolean
_tarn_opencl_frees_await (TarnOpenclFrees *frees, guint64 count)
{
  g_autoptr (GPtrArray) queues = NULL;
  g_autofree guint64 *wanted = NULL;
  gboolean is_any;

  _tarn_mutex_lock (&frees->lock);
  queues = g_ptr_array_copy (frees->queues, NULL, NULL);
  wanted = g_new (guint64, queues->len);
  for (guint i = 0; i < queues->len; i++)
    {
      TarnOpenclFreeQueue *queue = g_ptr_array_index (queues, i);

      queue->n_refs++;
      wanted[i] = queue->n_begun;
    }
  for (guint i = 0; i < queues->len; i++)
    {
      await_frees_of_queue_locked (frees, g_ptr_array_index (queues, i), wanted[i]);
      unref_queue_locked (frees, g_ptr_array_index (queues, i));
    }
  is_any = frees->n_ended != count;
  _tarn_mutex_unlock (&frees->lock);
  return is_any;
}
