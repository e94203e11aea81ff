/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Runs the commands on the fake queues when the test asks for that.  If several commands can run,
 * chooses one of them at random. */

#include "testing/queues-private.h"

static TarnTestingItem *
get_item (const TarnTestingQueue *queue, guint i)
{
  return &g_array_index (queue->items, TarnTestingItem, i);
}

static void
check_contents (TarnTestingQueues *queues, const TarnTestingQueue *queue,
                const TarnTestingItem *item)
{
  g_autofree gchar *text = NULL;

  if (item->memory->value == item->value)
    return;
  text = _tarn_testing_describe_memory (item->memory);
  _tarn_testing_queues_fault (queues, "queue %u finds %u in %s, and not %u", queue->number,
                              item->memory->value, text, item->value);
}

static void
run_item (TarnTestingQueues *queues, TarnTestingQueue *queue, TarnTestingItem *item)
{
  if (item->memory != NULL && item->command == TARN_TESTING_COMMAND_WRITE)
    item->memory->value = item->value;
  else if (item->memory != NULL && item->command == TARN_TESTING_COMMAND_CHECK)
    check_contents (queues, queue, item);
  g_clear_pointer (&item->clock, g_array_unref);
  item->is_done = TRUE;
  while (queue->n_done < queue->items->len && get_item (queue, queue->n_done)->is_done)
    queue->n_done++;
}

static gboolean
can_run (TarnTestingQueues *queues, const TarnTestingItem *item)
{
  return !item->is_done
         && (item->memory != NULL || _tarn_testing_queues_is_done (queues, item->clock));
}

/* Lists the items of a queue that can run.  On an in-order queue, only the first item that is not
 * done can run.  On an out-of-order queue, all items up to the first wait that is not done can run;
 * later items run after that wait.  As with clEnqueueBarrierWithWaitList, a wait may run before
 * earlier commands are done. */
static GPtrArray *
list_runnable (TarnTestingQueues *queues, const TarnTestingQueue *queue)
{
  GPtrArray *items = g_ptr_array_new ();

  for (guint i = queue->n_done; i < queue->items->len; i++)
    {
      TarnTestingItem *item = get_item (queue, i);

      if (can_run (queues, item))
        g_ptr_array_add (items, item);
      if (queue->in_order || (item->memory == NULL && !item->is_done))
        break;
    }
  return items;
}

static gboolean
run_one (TarnTestingQueues *queues, TarnTestingQueue *queue)
{
  g_autoptr (GPtrArray) items = NULL;
  guint i;

  if (queue->n_done
      == queue->items->len) /* a fast path: in a test with a queue per task, most queues are done */
    return FALSE;
  items = list_runnable (queues, queue);
  if (items->len == 0)
    return FALSE;
  i = (guint) g_rand_int_range (queues->rand, 0, (gint32) items->len);
  run_item (queues, queue, g_ptr_array_index (items, i));
  return TRUE;
}

gboolean
tarn_testing_queue_run_one (TarnTestingQueues *queues, gpointer handle)
{
  TarnTestingQueue *queue;
  gboolean has_run;

  _tarn_mutex_lock (&queues->lock);
  queue = _tarn_testing_queues_look_up (queues, handle, "run");
  has_run = queue != NULL && run_one (queues, queue);
  _tarn_mutex_unlock (&queues->lock);
  return has_run;
}

guint
tarn_testing_queue_run (TarnTestingQueues *queues, gpointer handle)
{
  guint n = 0;

  while (tarn_testing_queue_run_one (queues, handle))
    n++;
  return n;
}

/* Runs an item of any queue.  Returns FALSE if no item can run.  The caller holds the lock. */
static gboolean
run_any (TarnTestingQueues *queues)
{
  gboolean has_run = FALSE;
  guint n = queues->queues->len;
  guint first = n > 0 ? (guint) g_rand_int_range (queues->rand, 0, (gint32) n) : 0;

  for (guint i = 0; i < n && !has_run; i++)
    has_run = run_one (queues, g_ptr_array_index (queues->queues, (first + i) % n));
  return has_run;
}

gboolean
tarn_testing_queues_run_one (TarnTestingQueues *queues)
{
  gboolean has_run;

  _tarn_mutex_lock (&queues->lock);
  has_run = run_any (queues);
  _tarn_mutex_unlock (&queues->lock);
  return has_run;
}

/* Ends the test if an item of a queue has not run, which means that queues wait for each other.
 * The caller holds the lock, and has found that no item can run. */
static void
assert_all_done (const TarnTestingQueues *queues)
{
  for (guint i = 0; i < queues->queues->len; i++)
    {
      const TarnTestingQueue *queue = g_ptr_array_index (queues->queues, i);

      g_assert_cmpuint (queue->n_done, ==, queue->items->len);
    }
}

void
tarn_testing_queues_run_all (TarnTestingQueues *queues)
{
  gboolean has_run;

  do
    {
      _tarn_mutex_lock (&queues->lock);
      has_run = run_any (queues);
      if (!has_run)
        assert_all_done (queues);
      _tarn_mutex_unlock (&queues->lock);
    }
  while (has_run);
}

/* Runs the first @end items of a queue, in order.  Stops at an item that cannot run.  Returns TRUE
 * if an item has run. */
static gboolean
run_until (TarnTestingQueues *queues, TarnTestingQueue *queue, guint end)
{
  gboolean has_run = FALSE;

  while (queue->n_done < end && can_run (queues, get_item (queue, queue->n_done)))
    {
      run_item (queues, queue, get_item (queue, queue->n_done));
      has_run = TRUE;
    }
  return has_run;
}

/* Runs the items that come before a moment, and no others. */
void
_tarn_testing_queues_reach (TarnTestingQueues *queues, const TarnTestingClock *clock)
{
  while (!_tarn_testing_queues_is_done (queues, clock))
    {
      gboolean has_run = FALSE;

      for (guint i = 0; i < clock->len; i++)
        has_run |= run_until (queues, g_ptr_array_index (queues->queues, i),
                              _tarn_testing_clock_get (clock, i));
      g_assert_true (has_run);
    }
}
