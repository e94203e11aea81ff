/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The queues.  A event is the number of things on each queue that come before it, and so one is
 * before another where no number is greater. */

#include "fake-queues-private.h"

/* Handles are neither NULL nor what a test might make up. */
#define FIRST_HANDLE 0x5100

/* Clocks */

FakeClock *
_fake_clock_new (void)
{
  return g_array_new (FALSE, TRUE, sizeof (guint));
}

static guint
clock_get (const FakeClock *clock, guint number)
{
  return number < clock->len ? g_array_index (clock, guint, number) : 0;
}

static void
clock_raise (FakeClock *clock, guint number, guint count)
{
  if (clock->len <= number)
    g_array_set_size (clock, number + 1);
  g_array_index (clock, guint, number) = MAX (g_array_index (clock, guint, number), count);
}

void
_fake_clock_join (FakeClock *clock, const FakeClock *other)
{
  for (guint i = 0; i < other->len; i++)
    clock_raise (clock, i, clock_get (other, i));
}

gboolean
_fake_clock_is_in (const FakeClock *clock, const FakeClock *other)
{
  for (guint i = 0; i < clock->len; i++)
    if (clock_get (clock, i) > clock_get (other, i))
      return FALSE;
  return TRUE;
}

/* Everything put on the queue so far; on every queue where it is NULL. */
FakeClock *
_fake_queues_now (FakeQueues *queues, const FakeQueue *queue)
{
  FakeClock *clock = _fake_clock_new ();

  for (guint i = 0; i < queues->queues->len; i++)
    {
      const FakeQueue *other = g_ptr_array_index (queues->queues, i);

      if (queue != NULL && queue != other)
        continue;
      _fake_clock_join (clock, other->start);
      clock_raise (clock, i, other->items->len);
    }
  return clock;
}

gboolean
_fake_queues_is_done (FakeQueues *queues, const FakeClock *clock)
{
  for (guint i = 0; i < clock->len; i++)
    if (((FakeQueue *) g_ptr_array_index (queues->queues, i))->n_done < clock_get (clock, i))
      return FALSE;
  return TRUE;
}

/* Faults */

void
_fake_queues_fault (FakeQueues *queues, const gchar *format, ...)
{
  va_list arguments;

  if (queues->fault != NULL)
    return;
  va_start (arguments, format);
  queues->fault = g_strdup_vprintf (format, arguments);
  va_end (arguments);
}

gchar *
fake_queues_steal_fault (FakeQueues *queues)
{
  gchar *fault;

  _tarn_mutex_lock (&queues->lock);
  fault = g_steal_pointer (&queues->fault);
  _tarn_mutex_unlock (&queues->lock);
  return fault;
}

/* Queues */

/* NULL for what never was a handle. */
FakeSlot *
_fake_queues_get_slot (FakeQueues *queues, gpointer handle)
{
  guint i = GPOINTER_TO_UINT (handle) - FIRST_HANDLE;

  return i < queues->slots->len ? g_ptr_array_index (queues->slots, i) : NULL;
}

/* A fault, and NULL, if it is not alive. */
FakeQueue *
_fake_queues_look_up (FakeQueues *queues, gpointer handle, const gchar *what)
{
  FakeSlot *slot = _fake_queues_get_slot (queues, handle);

  if (slot != NULL && slot->queue->is_alive)
    return slot->queue;
  _fake_queues_fault (queues, "%s: queue %p is gone", what, handle);
  return NULL;
}

/* A queue that is referenced outlives its destruction, where there is no event_record_all. */
void
_fake_queues_end_if_unused (FakeQueues *queues, FakeSlot *slot)
{
  if (slot->is_destroyed && (slot->refs == 0 || (queues->flags & FAKE_RECORDS_ALL) != 0))
    slot->queue->is_alive = FALSE;
}

static FakeQueue *
queue_new (FakeQueues *queues, gboolean in_order)
{
  FakeQueue *queue = g_new0 (FakeQueue, 1);

  queue->number = queues->queues->len;
  queue->in_order = in_order;
  queue->is_alive = TRUE;
  queue->items = g_array_new (FALSE, FALSE, sizeof (FakeItem));
  queue->start = _fake_clock_new ();
  g_ptr_array_add (queues->queues, queue);
  return queue;
}

static void
queue_free (gpointer data)
{
  FakeQueue *queue = data;

  for (guint i = 0; i < queue->items->len; i++)
    g_clear_pointer (&g_array_index (queue->items, FakeItem, i).clock, g_array_unref);
  g_array_unref (queue->items);
  g_array_unref (queue->start);
  g_free (queue);
}

/* The first handle whose queue is gone, since that is the worst. */
gpointer
fake_queue_new (FakeQueues *queues, gboolean in_order)
{
  FakeSlot *slot;
  guint i = 0;

  _tarn_mutex_lock (&queues->lock);
  while (i < queues->slots->len
         && ((FakeSlot *) g_ptr_array_index (queues->slots, i))->queue->is_alive)
    i++;
  if (i == queues->slots->len)
    g_ptr_array_add (queues->slots, g_new0 (FakeSlot, 1));
  slot = g_ptr_array_index (queues->slots, i);
  slot->queue = queue_new (queues, in_order);
  slot->is_destroyed = FALSE;
  _tarn_mutex_unlock (&queues->lock);
  return GUINT_TO_POINTER (FIRST_HANDLE + i);
}

void
fake_queue_destroy (FakeQueues *queues, gpointer handle)
{
  FakeSlot *slot;

  _tarn_mutex_lock (&queues->lock);
  slot = _fake_queues_get_slot (queues, handle);
  g_assert_true (slot != NULL && !slot->is_destroyed);
  slot->is_destroyed = TRUE;
  _fake_queues_end_if_unused (queues, slot);
  _tarn_mutex_unlock (&queues->lock);
}

void
fake_queue_set_capturing (FakeQueues *queues, gpointer handle, gboolean is_capturing)
{
  FakeQueue *queue;

  _tarn_mutex_lock (&queues->lock);
  queue = _fake_queues_look_up (queues, handle, "capture");
  queue->is_capturing = is_capturing;
  _tarn_mutex_unlock (&queues->lock);
}

/* Memory */

static void
memory_free (gpointer data)
{
  FakeMemory *memory = data;

  g_array_unref (memory->past);
  g_array_unref (memory->present);
  g_free (memory);
}

FakeMemory *
_fake_queues_get_memory (FakeQueues *queues, TarnMemory memory)
{
  FakeMemory *known = g_hash_table_lookup (queues->memories, GSIZE_TO_POINTER (memory.address));

  if (known != NULL)
    return known;
  known = g_new0 (FakeMemory, 1);
  known->is_live = TRUE;
  known->past = _fake_clock_new ();
  known->present = _fake_clock_new ();
  g_hash_table_insert (queues->memories, GSIZE_TO_POINTER (memory.address), known);
  return known;
}

void
fake_queues_own (FakeQueues *queues, TarnMemory memory)
{
  FakeMemory *known;

  _tarn_mutex_lock (&queues->lock);
  known = _fake_queues_get_memory (queues, memory);
  _fake_clock_join (known->past, known->present);
  g_array_set_size (known->present, 0);
  _tarn_mutex_unlock (&queues->lock);
}

void
fake_queues_touch (FakeQueues *queues, TarnMemory memory)
{
  FakeMemory *known;

  _tarn_mutex_lock (&queues->lock);
  known = _fake_queues_get_memory (queues, memory);
  if (!known->is_live || !_fake_clock_is_in (known->past, queues->host))
    _fake_queues_fault (queues, "the host uses memory that an owner before may still use");
  _tarn_mutex_unlock (&queues->lock);
}

/* Commands */

static void
check_order (FakeQueues *queues, const FakeQueue *queue, const FakeMemory *memory)
{
  g_autoptr (GArray) before = _fake_clock_new ();

  _fake_clock_join (before, queue->start);
  if (queue->in_order)
    clock_raise (before, queue->number, queue->items->len);
  if (!memory->is_live)
    _fake_queues_fault (queues, "memory is used that was freed");
  if (!_fake_clock_is_in (memory->past, before))
    _fake_queues_fault (queues, "queue %u uses memory that an owner before may still use",
                        queue->number);
}

void
_fake_queues_put (FakeQueues *queues, FakeQueue *queue, FakeMemory *memory, FakeCommand command,
                  guint value)
{
  FakeItem item = { .memory = memory, .command = command, .value = value };

  _fake_clock_join (queue->start, queues->host);
  check_order (queues, queue, memory);
  g_array_append_val (queue->items, item);
  clock_raise (memory->present, queue->number, queue->items->len);
}

void
_fake_queues_put_wait (FakeQueue *queue, const FakeClock *clock)
{
  FakeItem item = { .clock = _fake_clock_new () };

  _fake_clock_join (item.clock, clock);
  _fake_clock_join (queue->start, clock);
  g_array_append_val (queue->items, item);
}

void
fake_queue_put (FakeQueues *queues, gpointer handle, TarnMemory memory, FakeCommand command,
                guint value)
{
  FakeQueue *queue;

  _tarn_mutex_lock (&queues->lock);
  queue = _fake_queues_look_up (queues, handle, "command");
  if (queue != NULL)
    _fake_queues_put (queues, queue, _fake_queues_get_memory (queues, memory), command, value);
  _tarn_mutex_unlock (&queues->lock);
}

void
fake_queue_follow (FakeQueues *queues, gpointer handle, gpointer other)
{
  FakeQueue *queue, *followed;

  _tarn_mutex_lock (&queues->lock);
  queue = _fake_queues_look_up (queues, handle, "follow");
  followed = _fake_queues_look_up (queues, other, "follow");
  if (queue != NULL && followed != NULL)
    {
      g_autoptr (GArray) clock = _fake_queues_now (queues, followed);

      _fake_queues_put_wait (queue, clock);
    }
  _tarn_mutex_unlock (&queues->lock);
}

/* Running */

static FakeItem *
get_item (const FakeQueue *queue, guint i)
{
  return &g_array_index (queue->items, FakeItem, i);
}

static void
run_item (FakeQueues *queues, FakeQueue *queue, FakeItem *item)
{
  if (item->memory != NULL && item->command == FAKE_WRITE)
    item->memory->value = item->value;
  else if (item->memory != NULL && item->command == FAKE_CHECK
           && item->memory->value != item->value)
    _fake_queues_fault (queues, "queue %u finds %u in memory, and not %u", queue->number,
                        item->memory->value, item->value);
  g_clear_pointer (&item->clock, g_array_unref);
  item->is_done = TRUE;
  while (queue->n_done < queue->items->len && get_item (queue, queue->n_done)->is_done)
    queue->n_done++;
}

static gboolean
can_run (FakeQueues *queues, const FakeItem *item)
{
  return !item->is_done && (item->memory != NULL || _fake_queues_is_done (queues, item->clock));
}

/* Those that can run: on an out-of-order queue, all up to a wait that is to be run first.  What
 * came before a wait need not be done for it, as with clEnqueueBarrierWithWaitList. */
static GPtrArray *
list_runnable (FakeQueues *queues, const FakeQueue *queue)
{
  GPtrArray *items = g_ptr_array_new ();

  for (guint i = queue->n_done; i < queue->items->len; i++)
    {
      FakeItem *item = get_item (queue, i);

      if (can_run (queues, item))
        g_ptr_array_add (items, item);
      if (queue->in_order || (item->memory == NULL && !item->is_done))
        break;
    }
  return items;
}

static gboolean
run_one (FakeQueues *queues, FakeQueue *queue)
{
  g_autoptr (GPtrArray) items = list_runnable (queues, queue);
  guint i;

  if (items->len == 0)
    return FALSE;
  i = (guint) g_rand_int_range (queues->rand, 0, (gint32) items->len);
  run_item (queues, queue, g_ptr_array_index (items, i));
  return TRUE;
}

gboolean
fake_queue_run_one (FakeQueues *queues, gpointer handle)
{
  FakeQueue *queue;
  gboolean has_run;

  _tarn_mutex_lock (&queues->lock);
  queue = _fake_queues_look_up (queues, handle, "run");
  has_run = queue != NULL && run_one (queues, queue);
  _tarn_mutex_unlock (&queues->lock);
  return has_run;
}

guint
fake_queue_run (FakeQueues *queues, gpointer handle)
{
  guint n = 0;

  while (fake_queue_run_one (queues, handle))
    n++;
  return n;
}

/* Of the first queue that can, from a random one on. */
gboolean
fake_queues_run_one (FakeQueues *queues)
{
  gboolean has_run = FALSE;
  guint n, first;

  _tarn_mutex_lock (&queues->lock);
  n = queues->queues->len;
  first = n > 0 ? (guint) g_rand_int_range (queues->rand, 0, (gint32) n) : 0;
  for (guint i = 0; i < n && !has_run; i++)
    has_run = run_one (queues, g_ptr_array_index (queues->queues, (first + i) % n));
  _tarn_mutex_unlock (&queues->lock);
  return has_run;
}

void
fake_queues_run_all (FakeQueues *queues)
{
  while (fake_queues_run_one (queues))
    continue;
  for (guint i = 0; i < queues->queues->len; i++)
    {
      FakeQueue *queue = g_ptr_array_index (queues->queues, i);

      g_assert_cmpuint (queue->n_done, ==, queue->items->len); /* else they wait for one another */
    }
}

/* What of a queue comes before a moment, in the order in which it was put there. */
static gboolean
run_until (FakeQueues *queues, FakeQueue *queue, guint end)
{
  gboolean has_run = FALSE;

  while (queue->n_done < end && can_run (queues, get_item (queue, queue->n_done)))
    {
      run_item (queues, queue, get_item (queue, queue->n_done));
      has_run = TRUE;
    }
  return has_run;
}

/* The device does what comes before a moment, and no more. */
void
_fake_queues_reach (FakeQueues *queues, const FakeClock *clock)
{
  while (!_fake_queues_is_done (queues, clock))
    {
      gboolean has_run = FALSE;

      for (guint i = 0; i < clock->len; i++)
        has_run |= run_until (queues, g_ptr_array_index (queues->queues, i), clock_get (clock, i));
      g_assert_true (has_run);
    }
}

/* Life */

FakeQueues *
fake_queues_new (guint64 bytes, guint flags)
{
  FakeQueues *queues = g_new0 (FakeQueues, 1);

  _tarn_mutex_init (&queues->lock);
  queues->flags = flags;
  queues->device = fake_device_new (bytes);
  queues->upstream = fake_device_allocator_new (queues->device);
  queues->slots = g_ptr_array_new_with_free_func (g_free);
  queues->queues = g_ptr_array_new_with_free_func (queue_free);
  queues->memories = g_hash_table_new_full (NULL, NULL, NULL, memory_free);
  queues->events
      = g_hash_table_new_full (NULL, NULL, (GDestroyNotify) (void (*) (void)) g_array_unref, NULL);
  queues->host = _fake_clock_new ();
  queues->rand = g_rand_new_with_seed ((guint32) g_test_rand_int ());
  return queues;
}

void
fake_queues_free (FakeQueues *queues)
{
  g_assert_cmpstr (queues->fault, ==, NULL);
  g_assert_cmpuint (fake_queues_get_events (queues), ==, 0);
  g_assert_cmpuint (fake_queues_get_refs (queues), ==, 0);
  g_assert_cmpuint (queues->n_allocators, ==, 0);
  tarn_allocator_unref (queues->upstream);
  fake_device_free (queues->device);
  g_ptr_array_unref (queues->slots);
  g_ptr_array_unref (queues->queues);
  g_hash_table_unref (queues->memories);
  g_hash_table_unref (queues->events);
  g_array_unref (queues->host);
  g_rand_free (queues->rand);
  _tarn_mutex_clear (&queues->lock);
  g_free (queues);
}

FakeDevice *
fake_queues_get_device (FakeQueues *queues)
{
  return queues->device;
}

guint
fake_queue_get_pending (FakeQueues *queues, gpointer handle)
{
  FakeQueue *queue;
  guint n = 0;

  _tarn_mutex_lock (&queues->lock);
  queue = _fake_queues_look_up (queues, handle, "pending");
  for (guint i = queue->n_done; i < queue->items->len; i++)
    n += !get_item (queue, i)->is_done;
  _tarn_mutex_unlock (&queues->lock);
  return n;
}
