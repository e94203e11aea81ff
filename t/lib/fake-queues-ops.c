/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The allocator over the queues: TarnAllocatorOps, counted, and failing on demand. */

#include "allocator/allocator-private.h"
#include "fake-queues-private.h"

/* What memory that was just made ready has in it. */
#define GARBAGE 0xdead

/* Counting and failing.  The lock is held in what follows, up to the allocator's functions. */

static gboolean
is_to_fail (FakeQueues *queues, FakeCall call)
{
  if (queues->fail_nth == 0 || call > FAKE_ANY_CALL
      || (queues->fail_call != call && queues->fail_call != FAKE_ANY_CALL))
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

/* FALSE with an error if the call is one that fails. */
static gboolean
count (FakeQueues *queues, FakeCall call, GError **error)
{
  queues->calls[call]++;
  if (call < FAKE_ANY_CALL)
    queues->calls[FAKE_ANY_CALL]++;
  if (!is_to_fail (queues, call))
    return TRUE;
  if ((queues->flags & FAKE_SAYS_NOTHING) == 0)
    g_set_error (error, TARN_ERROR, TARN_ERROR_FAILED, "fake: call %u fails", (guint) call);
  return FALSE;
}

static gboolean
check_capturing (const FakeQueue *queue, GError **error)
{
  if (!queue->is_capturing)
    return TRUE;
  g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED, "fake: queue %u is capturing",
               queue->number);
  return FALSE;
}

static gboolean
check_none_capturing (FakeQueues *queues, GError **error)
{
  for (guint i = 0; i < queues->queues->len; i++)
    if (!check_capturing (g_ptr_array_index (queues->queues, i), error))
      return FALSE;
  return TRUE;
}

/* As _fake_queues_look_up (), with an error. */
static FakeQueue *
look_up (FakeQueues *queues, gpointer handle, const gchar *what, GError **error)
{
  FakeQueue *queue = _fake_queues_look_up (queues, handle, what);

  if (queue == NULL)
    g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, "fake: %s: no queue %p", what,
                 handle);
  return queue;
}

static gpointer
event_new (FakeQueues *queues, const FakeQueue *queue)
{
  FakeClock *event = _fake_queues_now (queues, queue);

  g_hash_table_add (queues->events, event);
  return event;
}

static const FakeClock *
look_up_event (FakeQueues *queues, gpointer event, const gchar *what)
{
  if (event != NULL && g_hash_table_contains (queues->events, event))
    return event;
  _fake_queues_fault (queues, "%s: event %p is gone", what, event);
  return NULL;
}

/* The allocator's functions, which begin without the lock */

static void
run_hook (FakeQueues *queues, FakeCall call)
{
  void (*hook) (gpointer) = NULL;

  _tarn_mutex_lock (&queues->lock);
  if (queues->hook_call == call)
    hook = g_steal_pointer (&queues->hook);
  _tarn_mutex_unlock (&queues->lock);
  if (hook != NULL)
    hook (queues->hook_data);
}

static gboolean
allocate (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  FakeQueues *queues = user_data;
  FakeMemory *fresh;
  FakeQueue *queue;

  if (!_tarn_allocator_try (queues->upstream, size, memory, error))
    return FALSE;
  _tarn_mutex_lock (&queues->lock);
  fresh = _fake_queues_get_memory (queues, *memory);
  if (queues->fresh != NULL
      && (queue = _fake_queues_look_up (queues, queues->fresh, "allocate")) != NULL)
    _fake_queues_put (queues, queue, fresh, FAKE_WRITE, GARBAGE);
  _tarn_mutex_unlock (&queues->lock);
  return TRUE;
}

static gboolean
is_known_idle (FakeQueues *queues, const FakeMemory *memory)
{
  return _fake_clock_is_in (memory->past, queues->host)
         && _fake_clock_is_in (memory->present, queues->host);
}

static void
free_memory (gpointer user_data, TarnMemory memory, gsize size)
{
  FakeQueues *queues = user_data;
  FakeMemory *known;

  _tarn_mutex_lock (&queues->lock);
  known = _fake_queues_get_memory (queues, memory);
  if ((queues->flags & FAKE_FREES_IN_ORDER) == 0 && !is_known_idle (queues, known)
      && ++queues->n_freed_in_use > queues->n_failed)
    _fake_queues_fault (queues, "memory is freed that may be in use");
  known->is_live = FALSE;
  _tarn_mutex_unlock (&queues->lock);
  tarn_allocator_free_memory (queues->upstream, memory, size);
}

static gboolean
reclaim (gpointer user_data)
{
  FakeQueues *queues = user_data;

  return _tarn_allocator_reclaim (queues->upstream);
}

static gboolean
queue_ref (gpointer user_data, gpointer handle, gboolean *in_order, GError **error)
{
  FakeQueues *queues = user_data;
  FakeQueue *queue = NULL;

  run_hook (queues, FAKE_QUEUE_REF);
  _tarn_mutex_lock (&queues->lock);
  if (count (queues, FAKE_QUEUE_REF, error))
    queue = look_up (queues, handle, "queue_ref", error);
  if (queue != NULL)
    {
      _fake_queues_get_slot (queues, handle)->refs++;
      *in_order = queue->in_order;
    }
  _tarn_mutex_unlock (&queues->lock);
  return queue != NULL;
}

static void
queue_unref (gpointer user_data, gpointer handle)
{
  FakeQueues *queues = user_data;
  FakeSlot *slot;

  _tarn_mutex_lock (&queues->lock);
  count (queues, FAKE_QUEUE_UNREF, NULL);
  slot = _fake_queues_get_slot (queues, handle);
  if (slot == NULL || slot->refs == 0)
    _fake_queues_fault (queues, "queue_unref: nobody has a reference on queue %p", handle);
  else
    {
      slot->refs--;
      _fake_queues_end_if_unused (queues, slot);
    }
  _tarn_mutex_unlock (&queues->lock);
}

static gpointer
event (gpointer user_data, gpointer handle, GError **error)
{
  FakeQueues *queues = user_data;
  gpointer event = NULL;
  FakeQueue *queue;

  run_hook (queues, FAKE_EVENT_RECORD);
  _tarn_mutex_lock (&queues->lock);
  if (count (queues, FAKE_EVENT_RECORD, error)
      && (queue = look_up (queues, handle, "event", error)) != NULL
      && check_capturing (queue, error))
    event = event_new (queues, queue);
  _tarn_mutex_unlock (&queues->lock);
  return event;
}

static gpointer
event_record_all (gpointer user_data, GError **error)
{
  FakeQueues *queues = user_data;
  gpointer event = NULL;

  run_hook (queues, FAKE_EVENT_RECORD_ALL);
  _tarn_mutex_lock (&queues->lock);
  if (count (queues, FAKE_EVENT_RECORD_ALL, error) && check_none_capturing (queues, error))
    event = event_new (queues, NULL);
  _tarn_mutex_unlock (&queues->lock);
  return event;
}

static gboolean
done (gpointer user_data, gpointer event)
{
  FakeQueues *queues = user_data;
  gboolean is_done = FALSE;
  const FakeClock *clock;

  run_hook (queues, FAKE_EVENT_IS_DONE);
  _tarn_mutex_lock (&queues->lock);
  count (queues, FAKE_EVENT_IS_DONE, NULL);
  clock = look_up_event (queues, event, "done");
  if (clock != NULL && _fake_queues_is_done (queues, clock))
    {
      _fake_clock_join (queues->host, clock);
      is_done = TRUE;
    }
  _tarn_mutex_unlock (&queues->lock);
  return is_done;
}

static gboolean
host_wait (FakeQueues *queues, const FakeClock *clock, GError **error)
{
  if (!count (queues, FAKE_HOST_WAIT, error))
    return FALSE;
  _fake_queues_reach (queues, clock);
  _fake_clock_join (queues->host, clock);
  return TRUE;
}

static gboolean
queue_wait (FakeQueues *queues, const FakeClock *clock, gpointer handle, GError **error)
{
  FakeQueue *queue;

  if (!count (queues, FAKE_EVENT_WAIT, error)
      || (queue = look_up (queues, handle, "wait", error)) == NULL
      || !check_capturing (queue, error))
    return FALSE;
  _fake_queues_put_wait (queue, clock);
  return TRUE;
}

static gboolean
wait_for (gpointer user_data, gpointer event, gpointer handle, GError **error)
{
  FakeQueues *queues = user_data;
  const FakeClock *clock;
  gboolean is_fine;

  run_hook (queues, handle != NULL ? FAKE_EVENT_WAIT : FAKE_HOST_WAIT);
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
  FakeQueues *queues = user_data;

  _tarn_mutex_lock (&queues->lock);
  count (queues, FAKE_EVENT_RELEASE, NULL);
  if (look_up_event (queues, event, "event_release") != NULL)
    g_hash_table_remove (queues->events, event);
  _tarn_mutex_unlock (&queues->lock);
}

static gpointer
fresh_queue (gpointer user_data)
{
  FakeQueues *queues = user_data;
  gpointer fresh;

  _tarn_mutex_lock (&queues->lock);
  fresh = queues->fresh;
  _tarn_mutex_unlock (&queues->lock);
  return fresh;
}

static gboolean
check_queue (gpointer user_data, gpointer handle, GError **error)
{
  FakeQueues *queues = user_data;
  FakeQueue *queue;
  gboolean is_fine;

  _tarn_mutex_lock (&queues->lock);
  is_fine = count (queues, FAKE_CHECK_QUEUE, error)
            && (queue = look_up (queues, handle, "check_queue", error)) != NULL
            && check_capturing (queue, error);
  _tarn_mutex_unlock (&queues->lock);
  return is_fine;
}

static void
allocator_gone (gpointer user_data)
{
  FakeQueues *queues = user_data;

  _tarn_mutex_lock (&queues->lock);
  queues->n_allocators--;
  _tarn_mutex_unlock (&queues->lock);
}

TarnAllocator *
fake_queues_allocator_new (FakeQueues *queues)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

  ops.name = "fake-queues";
  ops.allocate = allocate;
  ops.free = free_memory;
  ops.reclaim = reclaim;
  ops.queue_ref = queue_ref;
  ops.queue_unref = queue_unref;
  ops.event_record = event;
  ops.event_is_done = done;
  ops.event_wait = wait_for;
  ops.event_release = event_release;
  ops.event_record_all = (queues->flags & FAKE_RECORDS_ALL) != 0 ? event_record_all : NULL;
  ops.fresh_queue = fresh_queue;
  ops.check_queue = (queues->flags & FAKE_CHECKS_QUEUES) != 0 ? check_queue : NULL;
  ops.frees_in_order = (queues->flags & FAKE_FREES_IN_ORDER) != 0;
  _tarn_mutex_lock (&queues->lock);
  queues->n_allocators++;
  _tarn_mutex_unlock (&queues->lock);
  return tarn_allocator_new (&ops, queues, allocator_gone);
}

/* For the test.  The lock is not held. */

void
fake_queues_set_fresh (FakeQueues *queues, gpointer handle)
{
  _tarn_mutex_lock (&queues->lock);
  queues->fresh = handle;
  _tarn_mutex_unlock (&queues->lock);
}

void
fake_queues_set_hook (FakeQueues *queues, FakeCall call, void (*func) (gpointer),
                      gpointer user_data)
{
  _tarn_mutex_lock (&queues->lock);
  queues->hook_call = call;
  queues->hook = func;
  queues->hook_data = user_data;
  _tarn_mutex_unlock (&queues->lock);
}

void
fake_queues_fail (FakeQueues *queues, FakeCall call, guint nth, gboolean for_ever)
{
  g_assert_cmpuint (call, <=, FAKE_ANY_CALL);
  _tarn_mutex_lock (&queues->lock);
  queues->fail_call = call;
  queues->fail_nth = nth;
  queues->fail_for_ever = for_ever;
  queues->n_failed = queues->n_freed_in_use = 0;
  _tarn_mutex_unlock (&queues->lock);
}

static guint
sum_refs (FakeQueues *queues)
{
  guint n = 0;

  for (guint i = 0; i < queues->slots->len; i++)
    n += ((FakeSlot *) g_ptr_array_index (queues->slots, i))->refs;
  return n;
}

#define GETTER(name, expression)                                                                   \
  guint name (FakeQueues *queues)                                                                  \
  {                                                                                                \
    guint value;                                                                                   \
                                                                                                   \
    _tarn_mutex_lock (&queues->lock);                                                              \
    value = (expression);                                                                          \
    _tarn_mutex_unlock (&queues->lock);                                                            \
    return value;                                                                                  \
  }

GETTER (fake_queues_get_events, g_hash_table_size (queues->events))
GETTER (fake_queues_get_refs, sum_refs (queues))
GETTER (fake_queues_get_failed, queues->n_failed)

guint
fake_queues_get_calls (FakeQueues *queues, FakeCall call)
{
  guint n;

  _tarn_mutex_lock (&queues->lock);
  n = queues->calls[call];
  _tarn_mutex_unlock (&queues->lock);
  return n;
}
