/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The TarnAllocatorOps of an allocator with fake queues.  Each function for queues and events
 * counts its calls, and fails when the test asks for that. */

#include "testing/queues-private.h"

/* Functions that count calls, make calls fail, and look up queues and events.  The caller of each
 * of these functions holds the lock. */

static gboolean
take_failure (TarnTestingQueues *queues, TarnTestingCall call)
{
  if (queues->fail_nth == 0 || call > TARN_TESTING_CALL_ANY
      || (queues->fail_call != call && queues->fail_call != TARN_TESTING_CALL_ANY))
    return FALSE;
  if (queues->fail_nth > 1)
    {
      queues->fail_nth--;
      return FALSE;
    }
  queues->fail_nth = queues->fail_for_ever;
  queues->n_failed++;
  return TRUE;
}

/* Counts a call.  If the test wants the call to fail, returns FALSE and sets an error.  Sets no
 * error if the test has set the flag TARN_TESTING_QUEUES_SAYS_NOTHING. */
static gboolean
count (TarnTestingQueues *queues, TarnTestingCall call, GError **error)
{
  queues->calls[call]++;
  if (call < TARN_TESTING_CALL_ANY)
    queues->calls[TARN_TESTING_CALL_ANY]++;
  if (!take_failure (queues, call))
    return TRUE;
  if ((queues->flags & TARN_TESTING_QUEUES_SAYS_NOTHING) == 0)
    g_set_error (error, TARN_ERROR, TARN_ERROR_FAILED, "fake: call %u fails", (guint) call);
  return FALSE;
}

static gboolean
check_capturing (const TarnTestingQueue *queue, GError **error)
{
  if (!queue->is_capturing)
    return TRUE;
  g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED, "fake: queue %u is capturing",
               queue->number);
  return FALSE;
}

static gboolean
check_none_capturing (TarnTestingQueues *queues, GError **error)
{
  for (guint i = 0; i < queues->queues->len; i++)
    if (!check_capturing (g_ptr_array_index (queues->queues, i), error))
      return FALSE;
  return TRUE;
}

/* Looks up a queue by its handle.  If the queue is not alive, reports a fault, sets an error, and
 * returns NULL. */
static TarnTestingQueue *
look_up (TarnTestingQueues *queues, gpointer handle, const gchar *what, GError **error)
{
  TarnTestingQueue *queue = _tarn_testing_queues_look_up (queues, handle, what);

  if (queue == NULL)
    g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, "fake: %s: no queue %p", what,
                 handle);
  return queue;
}

static gpointer
event_new (TarnTestingQueues *queues, const TarnTestingQueue *queue)
{
  TarnTestingClock *event = _tarn_testing_queues_now (queues, queue);

  g_hash_table_add (queues->events, event);
  return event;
}

static const TarnTestingClock *
look_up_event (TarnTestingQueues *queues, gpointer event, const gchar *what)
{
  if (event != NULL && g_hash_table_contains (queues->events, event))
    return event;
  _tarn_testing_queues_fault (queues, "%s: event %p is gone", what, event);
  return NULL;
}

/* Functions that implement TarnAllocatorOps with fake queues.  Their callers do not hold the lock.
 */

static void
run_hook (TarnTestingQueues *queues, TarnTestingCall call)
{
  TarnTestingHook hook = NULL;

  _tarn_mutex_lock (&queues->lock);
  if (queues->hook_call == call
      || (queues->hook_call == TARN_TESTING_CALL_ANY && call < TARN_TESTING_CALL_ANY))
    hook = g_steal_pointer (&queues->hook);
  _tarn_mutex_unlock (&queues->lock);
  if (hook != NULL)
    hook (queues->hook_data);
}

static gboolean
allocate (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  TarnTestingQueues *queues = user_data;
  TarnTestingMemory *fresh;
  TarnTestingQueue *queue;

  if (!_tarn_testing_device_allocate (queues->device, size, memory, error))
    return FALSE;
  _tarn_mutex_lock (&queues->lock);
  fresh = _tarn_testing_queues_get_memory (queues, *memory);
  fresh->size = size;
  if (queues->fresh != NULL
      && (queue = _tarn_testing_queues_look_up (queues, queues->fresh, "allocate")) != NULL)
    _tarn_testing_queues_put (queues, queue, fresh, TARN_TESTING_COMMAND_WRITE,
                              _TARN_TESTING_GARBAGE);
  _tarn_mutex_unlock (&queues->lock);
  return TRUE;
}

static gboolean
is_known_idle (TarnTestingQueues *queues, const TarnTestingMemory *memory)
{
  return _tarn_testing_clock_is_in (memory->past, queues->host)
         && _tarn_testing_clock_is_in (memory->uses, queues->host);
}

static void
free_memory (gpointer user_data, TarnMemory memory, gsize size)
{
  TarnTestingQueues *queues = user_data;
  TarnTestingMemory *known;

  _tarn_mutex_lock (&queues->lock);
  known = _tarn_testing_queues_get_memory (queues, memory);
  if ((queues->flags & TARN_TESTING_QUEUES_FREES_IN_ORDER) == 0 && !is_known_idle (queues, known)
      && ++queues->n_freed_in_use > queues->n_failed)
    _tarn_testing_queues_check_free (queues, known);
  known->is_live = FALSE;
  _tarn_mutex_unlock (&queues->lock);
  _tarn_testing_device_release (queues->device, memory, size);
}

static gboolean
reclaim (gpointer user_data)
{
  TarnTestingQueues *queues = user_data;

  return _tarn_testing_device_reclaim (queues->device);
}

static gboolean
queue_ref (gpointer user_data, gpointer handle, gboolean *in_order, GError **error)
{
  TarnTestingQueues *queues = user_data;
  TarnTestingQueue *queue = NULL;

  run_hook (queues, TARN_TESTING_CALL_QUEUE_REF);
  _tarn_mutex_lock (&queues->lock);
  if (count (queues, TARN_TESTING_CALL_QUEUE_REF, error))
    queue = look_up (queues, handle, "queue_ref", error);
  if (queue != NULL)
    {
      _tarn_testing_queues_get_slot (queues, handle)->refs++;
      *in_order = queue->in_order;
    }
  _tarn_mutex_unlock (&queues->lock);
  return queue != NULL;
}

static void
queue_unref (gpointer user_data, gpointer handle)
{
  TarnTestingQueues *queues = user_data;
  TarnTestingSlot *slot;

  run_hook (queues, TARN_TESTING_CALL_QUEUE_UNREF);
  _tarn_mutex_lock (&queues->lock);
  count (queues, TARN_TESTING_CALL_QUEUE_UNREF, NULL);
  slot = _tarn_testing_queues_get_slot (queues, handle);
  if (slot == NULL || slot->refs == 0)
    _tarn_testing_queues_fault (queues, "queue_unref: nobody has a reference on queue %p", handle);
  else
    {
      slot->refs--;
      _tarn_testing_queues_end_if_unused (queues, slot);
    }
  _tarn_mutex_unlock (&queues->lock);
}

static gpointer
event (gpointer user_data, gpointer handle, GError **error)
{
  TarnTestingQueues *queues = user_data;
  gpointer event = NULL;
  TarnTestingQueue *queue;

  run_hook (queues, TARN_TESTING_CALL_EVENT_RECORD);
  _tarn_mutex_lock (&queues->lock);
  if (count (queues, TARN_TESTING_CALL_EVENT_RECORD, error)
      && (queue = look_up (queues, handle, "event", error)) != NULL
      && check_capturing (queue, error))
    event = event_new (queues, queue);
  _tarn_mutex_unlock (&queues->lock);
  return event;
}

static gpointer
event_record_all (gpointer user_data, GError **error)
{
  TarnTestingQueues *queues = user_data;
  gpointer event = NULL;

  run_hook (queues, TARN_TESTING_CALL_EVENT_RECORD_ALL);
  _tarn_mutex_lock (&queues->lock);
  if (count (queues, TARN_TESTING_CALL_EVENT_RECORD_ALL, error)
      && check_none_capturing (queues, error))
    event = event_new (queues, NULL);
  _tarn_mutex_unlock (&queues->lock);
  return event;
}

static gboolean
done (gpointer user_data, gpointer event)
{
  TarnTestingQueues *queues = user_data;
  gboolean is_done = FALSE;
  const TarnTestingClock *clock;

  run_hook (queues, TARN_TESTING_CALL_EVENT_IS_DONE);
  _tarn_mutex_lock (&queues->lock);
  count (queues, TARN_TESTING_CALL_EVENT_IS_DONE, NULL);
  clock = look_up_event (queues, event, "done");
  if (clock != NULL && _tarn_testing_queues_is_done (queues, clock))
    {
      _tarn_testing_clock_join (queues->host, clock);
      is_done = TRUE;
    }
  _tarn_mutex_unlock (&queues->lock);
  return is_done;
}

static gboolean
host_wait (TarnTestingQueues *queues, const TarnTestingClock *clock, GError **error)
{
  if (!count (queues, TARN_TESTING_CALL_HOST_WAIT, error))
    return FALSE;
  _tarn_testing_queues_reach (queues, clock);
  _tarn_testing_clock_join (queues->host, clock);
  return TRUE;
}

static gboolean
queue_wait (TarnTestingQueues *queues, const TarnTestingClock *clock, gpointer handle,
            GError **error)
{
  TarnTestingQueue *queue;

  if (!count (queues, TARN_TESTING_CALL_EVENT_WAIT, error)
      || (queue = look_up (queues, handle, "wait", error)) == NULL
      || !check_capturing (queue, error))
    return FALSE;
  _tarn_testing_queues_put_wait (queue, clock);
  return TRUE;
}

static gboolean
wait_for (gpointer user_data, gpointer event, gpointer handle, GError **error)
{
  TarnTestingQueues *queues = user_data;
  const TarnTestingClock *clock;
  gboolean is_fine;

  run_hook (queues, handle != NULL ? TARN_TESTING_CALL_EVENT_WAIT : TARN_TESTING_CALL_HOST_WAIT);
  _tarn_mutex_lock (&queues->lock);
  clock = look_up_event (queues, event, "wait");
  is_fine = clock == NULL
            || (handle != NULL ? queue_wait (queues, clock, handle, error)
                               : host_wait (queues, clock, error));
  _tarn_mutex_unlock (&queues->lock);
  return is_fine;
}

static void
event_release (gpointer user_data, gpointer event)
{
  TarnTestingQueues *queues = user_data;

  run_hook (queues, TARN_TESTING_CALL_EVENT_RELEASE);
  _tarn_mutex_lock (&queues->lock);
  count (queues, TARN_TESTING_CALL_EVENT_RELEASE, NULL);
  if (look_up_event (queues, event, "event_release") != NULL)
    g_hash_table_remove (queues->events, event);
  _tarn_mutex_unlock (&queues->lock);
}

static gpointer
fresh_queue (gpointer user_data)
{
  TarnTestingQueues *queues = user_data;
  gpointer fresh;

  _tarn_mutex_lock (&queues->lock);
  fresh = queues->fresh;
  _tarn_mutex_unlock (&queues->lock);
  return fresh;
}

static gboolean
check_queue (gpointer user_data, gpointer handle, GError **error)
{
  TarnTestingQueues *queues = user_data;
  TarnTestingQueue *queue;
  gboolean is_fine;

  run_hook (queues, TARN_TESTING_CALL_CHECK_QUEUE);
  _tarn_mutex_lock (&queues->lock);
  is_fine = count (queues, TARN_TESTING_CALL_CHECK_QUEUE, error)
            && (queue = look_up (queues, handle, "check_queue", error)) != NULL
            && check_capturing (queue, error);
  _tarn_mutex_unlock (&queues->lock);
  return is_fine;
}

static void
allocator_gone (gpointer user_data)
{
  TarnTestingQueues *queues = user_data;

  _tarn_mutex_lock (&queues->lock);
  queues->n_allocators--;
  _tarn_mutex_unlock (&queues->lock);
}

void
_tarn_testing_queues_ops_init (TarnTestingQueues *queues, TarnAllocatorOps *ops)
{
  *ops = (TarnAllocatorOps) TARN_ALLOCATOR_OPS_INIT;
  ops->name = "fake queues";
  ops->allocate = allocate;
  ops->free = free_memory;
  ops->reclaim = reclaim;
  ops->queue_ref = queue_ref;
  ops->queue_unref = queue_unref;
  ops->event_record = event;
  ops->event_is_done = done;
  ops->event_wait = wait_for;
  ops->event_release = event_release;
  if ((queues->flags & TARN_TESTING_QUEUES_RECORDS_ALL) != 0)
    ops->event_record_all = event_record_all;
  ops->fresh_queue = fresh_queue;
  if ((queues->flags & TARN_TESTING_QUEUES_CHECKS_QUEUES) != 0)
    ops->check_queue = check_queue;
  ops->frees_in_order = (queues->flags & TARN_TESTING_QUEUES_FREES_IN_ORDER) != 0;
}

TarnAllocator *
tarn_testing_queues_allocator_new (TarnTestingQueues *queues)
{
  TarnAllocatorOps ops;

  g_return_val_if_fail (queues != NULL, NULL);

  _tarn_testing_queues_ops_init (queues, &ops);
  _tarn_mutex_lock (&queues->lock);
  queues->n_allocators++;
  _tarn_mutex_unlock (&queues->lock);
  return tarn_allocator_new (&ops, queues, allocator_gone);
}

/* Functions by which a test changes settings and asks questions */

void
tarn_testing_queues_set_fresh (TarnTestingQueues *queues, gpointer handle)
{
  _tarn_mutex_lock (&queues->lock);
  queues->fresh = handle;
  _tarn_mutex_unlock (&queues->lock);
}

void
tarn_testing_queues_set_hook (TarnTestingQueues *queues, TarnTestingCall call, TarnTestingHook func,
                              gpointer user_data)
{
  _tarn_mutex_lock (&queues->lock);
  queues->hook_call = call;
  queues->hook = func;
  queues->hook_data = user_data;
  _tarn_mutex_unlock (&queues->lock);
}

void
tarn_testing_queues_fail (TarnTestingQueues *queues, TarnTestingCall call, guint nth,
                          gboolean for_ever)
{
  g_assert_cmpuint (call, <=, TARN_TESTING_CALL_ANY);
  _tarn_mutex_lock (&queues->lock);
  queues->fail_call = call;
  queues->fail_nth = nth;
  queues->fail_for_ever = for_ever;
  queues->n_failed = queues->n_freed_in_use = 0;
  _tarn_mutex_unlock (&queues->lock);
}

static guint
sum_refs (TarnTestingQueues *queues)
{
  guint n = 0;

  for (guint i = 0; i < queues->slots->len; i++)
    n += ((TarnTestingSlot *) g_ptr_array_index (queues->slots, i))->refs;
  return n;
}

guint
tarn_testing_queues_get_events (TarnTestingQueues *queues)
{
  guint n;

  _tarn_mutex_lock (&queues->lock);
  n = g_hash_table_size (queues->events);
  _tarn_mutex_unlock (&queues->lock);
  return n;
}

guint
tarn_testing_queues_get_refs (TarnTestingQueues *queues)
{
  guint n;

  _tarn_mutex_lock (&queues->lock);
  n = sum_refs (queues);
  _tarn_mutex_unlock (&queues->lock);
  return n;
}

guint
tarn_testing_queues_get_failed (TarnTestingQueues *queues)
{
  guint n;

  _tarn_mutex_lock (&queues->lock);
  n = queues->n_failed;
  _tarn_mutex_unlock (&queues->lock);
  return n;
}

guint
tarn_testing_queues_get_calls (TarnTestingQueues *queues, TarnTestingCall call)
{
  guint n;

  _tarn_mutex_lock (&queues->lock);
  n = queues->calls[call];
  _tarn_mutex_unlock (&queues->lock);
  return n;
}
