/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The fake queues, the memory that commands on them use, and the detection of faults: commands that
 * use memory too early, or after it was freed. */

#include "testing/queues-private.h"

/* The first handle of a queue.  The number is not NULL, and no test uses it by chance. */
#define FIRST_HANDLE 0x5100

/* Returns the moment after all items on a queue.  If @queue is NULL, returns the moment after all
 * items on all queues. */
TarnTestingClock *
_tarn_testing_queues_now (TarnTestingQueues *queues, const TarnTestingQueue *queue)
{
  TarnTestingClock *clock = _tarn_testing_clock_new ();

  for (guint i = 0; i < queues->queues->len; i++)
    {
      const TarnTestingQueue *other = g_ptr_array_index (queues->queues, i);

      if (queue != NULL && queue != other)
        continue;
      _tarn_testing_clock_join (clock, other->start);
      _tarn_testing_clock_raise (clock, i, other->items->len);
    }
  return clock;
}

gboolean
_tarn_testing_queues_is_done (TarnTestingQueues *queues, const TarnTestingClock *clock)
{
  for (guint i = 0; i < clock->len; i++)
    if (((TarnTestingQueue *) g_ptr_array_index (queues->queues, i))->n_done
        < _tarn_testing_clock_get (clock, i))
      return FALSE;
  return TRUE;
}

/* Functions that store the first fault, and return it to the test */

void
_tarn_testing_queues_fault (TarnTestingQueues *queues, const gchar *format, ...)
{
  va_list arguments;

  if (queues->fault != NULL)
    return;
  va_start (arguments, format);
  queues->fault = g_strdup_vprintf (format, arguments);
  va_end (arguments);
}

gchar *
tarn_testing_queues_steal_fault (TarnTestingQueues *queues)
{
  gchar *fault;

  _tarn_mutex_lock (&queues->lock);
  fault = g_steal_pointer (&queues->fault);
  _tarn_mutex_unlock (&queues->lock);
  return fault;
}

/* Functions that make, find and destroy queues */

/* Returns the slot of a handle: the struct with the queue that the handle names now.  Returns NULL
 * if there never was such a handle. */
TarnTestingSlot *
_tarn_testing_queues_get_slot (TarnTestingQueues *queues, gpointer handle)
{
  guint i = GPOINTER_TO_UINT (handle) - FIRST_HANDLE;

  return i < queues->slots->len ? g_ptr_array_index (queues->slots, i) : NULL;
}

/* Looks up a queue by its handle.  Reports a fault and returns NULL if the queue is not alive. */
TarnTestingQueue *
_tarn_testing_queues_look_up (TarnTestingQueues *queues, gpointer handle, const gchar *what)
{
  TarnTestingSlot *slot = _tarn_testing_queues_get_slot (queues, handle);

  if (slot != NULL && slot->queue->is_alive)
    return slot->queue;
  _tarn_testing_queues_fault (queues, "%s: queue %p is gone", what, handle);
  return NULL;
}

/* Makes a queue dead if the test has destroyed it and the allocator has no reference to it.
 * Exception: an allocator with the callback event_record_all () stands for a backend that cannot
 * keep queues alive (see TarnAllocatorOps), so its references do not count. */
void
_tarn_testing_queues_end_if_unused (TarnTestingQueues *queues, TarnTestingSlot *slot)
{
  if (slot->is_destroyed
      && (slot->refs == 0 || (queues->flags & TARN_TESTING_QUEUES_RECORDS_ALL) != 0))
    slot->queue->is_alive = FALSE;
}

static TarnTestingQueue *
queue_new (TarnTestingQueues *queues, gboolean in_order)
{
  TarnTestingQueue *queue = g_new0 (TarnTestingQueue, 1);

  queue->number = queues->queues->len;
  queue->in_order = in_order;
  queue->is_alive = TRUE;
  queue->items = g_array_new (FALSE, FALSE, sizeof (TarnTestingItem));
  queue->start = _tarn_testing_clock_new ();
  g_ptr_array_add (queues->queues, queue);
  return queue;
}

static void
queue_free (gpointer data)
{
  TarnTestingQueue *queue = data;

  for (guint i = 0; i < queue->items->len; i++)
    g_clear_pointer (&g_array_index (queue->items, TarnTestingItem, i).clock, g_array_unref);
  g_array_unref (queue->items);
  g_array_unref (queue->start);
  g_free (queue);
}

gpointer
tarn_testing_queue_new (TarnTestingQueues *queues, gboolean in_order)
{
  TarnTestingSlot *slot;
  guint i = 0;

  _tarn_mutex_lock (&queues->lock);
  while (i < queues->slots->len
         && ((TarnTestingSlot *) g_ptr_array_index (queues->slots, i))->queue->is_alive)
    i++;
  if (i == queues->slots->len)
    g_ptr_array_add (queues->slots, g_new0 (TarnTestingSlot, 1));
  slot = g_ptr_array_index (queues->slots, i);
  slot->queue = queue_new (queues, in_order);
  slot->is_destroyed = FALSE;
  _tarn_mutex_unlock (&queues->lock);
  return GUINT_TO_POINTER (FIRST_HANDLE + i);
}

void
tarn_testing_queue_destroy (TarnTestingQueues *queues, gpointer handle)
{
  TarnTestingSlot *slot;

  _tarn_mutex_lock (&queues->lock);
  slot = _tarn_testing_queues_get_slot (queues, handle);
  g_assert_true (slot != NULL && !slot->is_destroyed);
  slot->is_destroyed = TRUE;
  _tarn_testing_queues_end_if_unused (queues, slot);
  _tarn_mutex_unlock (&queues->lock);
}

void
tarn_testing_queue_set_capturing (TarnTestingQueues *queues, gpointer handle, gboolean is_capturing)
{
  TarnTestingQueue *queue;

  _tarn_mutex_lock (&queues->lock);
  queue = _tarn_testing_queues_look_up (queues, handle, "capture");
  if (queue != NULL)
    queue->is_capturing = is_capturing;
  _tarn_mutex_unlock (&queues->lock);
}

/* Functions that note which commands use memory, and report faults in these uses */

static void
memory_free (gpointer data)
{
  TarnTestingMemory *memory = data;

  g_array_unref (memory->past);
  g_array_unref (memory->uses);
  g_array_unref (memory->reads);
  g_array_unref (memory->writes);
  g_free (memory);
}

TarnTestingMemory *
_tarn_testing_queues_get_memory (TarnTestingQueues *queues, TarnMemory memory)
{
  TarnTestingMemory *known
      = g_hash_table_lookup (queues->memories, GSIZE_TO_POINTER (memory.address));

  if (known != NULL)
    return known;
  known = g_new0 (TarnTestingMemory, 1);
  known->address = memory.address;
  known->is_live = TRUE;
  known->past = _tarn_testing_clock_new ();
  known->uses = _tarn_testing_clock_new ();
  known->reads = _tarn_testing_clock_new ();
  known->writes = _tarn_testing_clock_new ();
  g_hash_table_insert (queues->memories, GSIZE_TO_POINTER (memory.address), known);
  return known;
}

/* Describes memory for messages.  The caller frees the text. */
gchar *
_tarn_testing_describe_memory (const TarnTestingMemory *memory)
{
  GString *text = g_string_new (NULL);

  g_string_printf (text, "memory 0x%" G_GINT64_MODIFIER "x", memory->address);
  if (memory->size > 0)
    g_string_append_printf (text, " of %" G_GSIZE_FORMAT " bytes", memory->size);
  return g_string_free (text, FALSE);
}

/* Returns a text for messages, such as "queue 1 writes", or "the host writes" if @queue is NULL. */
static gchar *
describe_user (const TarnTestingQueue *queue, const gchar *verb)
{
  return queue != NULL ? g_strdup_printf ("queue %u %s", queue->number, verb)
                       : g_strdup_printf ("the host %s", verb);
}

/* Checks that the next command of @queue is ordered after every command that used the memory before
 * the moment @clock.  If @queue is NULL, checks that the host is ordered after those commands.  If
 * the check fails, reports a fault and returns FALSE. */
static gboolean
check_before (TarnTestingQueues *queues, const TarnTestingMemory *memory,
              const TarnTestingQueue *queue, const gchar *verb, const TarnTestingClock *clock,
              const gchar *what)
{
  g_autofree gchar *who = NULL, *text = NULL;
  guint other;

  if (!_tarn_testing_clock_find (clock, queue != NULL ? queue->start : queues->host, &other))
    return TRUE;
  who = describe_user (queue, verb);
  text = _tarn_testing_describe_memory (memory);
  _tarn_testing_queues_fault (queues, "%s %s, which queue %u may still %s: nothing waits for that",
                              who, text, other, what);
  return FALSE;
}

static void
check_live (TarnTestingQueues *queues, const TarnTestingMemory *memory,
            const TarnTestingQueue *queue, const gchar *verb)
{
  g_autofree gchar *who = NULL, *text = NULL;

  if (memory->is_live)
    return;
  who = describe_user (queue, verb);
  text = _tarn_testing_describe_memory (memory);
  _tarn_testing_queues_fault (queues, "%s %s, which was freed", who, text);
}

void
tarn_testing_queues_own (TarnTestingQueues *queues, TarnMemory memory)
{
  TarnTestingMemory *known;

  _tarn_mutex_lock (&queues->lock);
  known = _tarn_testing_queues_get_memory (queues, memory);
  _tarn_testing_clock_join (known->past, known->uses);
  g_array_set_size (known->uses, 0);
  g_array_set_size (known->reads, 0);
  g_array_set_size (known->writes, 0);
  _tarn_mutex_unlock (&queues->lock);
}

void
tarn_testing_queues_touch (TarnTestingQueues *queues, TarnMemory memory)
{
  TarnTestingMemory *known;

  _tarn_mutex_lock (&queues->lock);
  known = _tarn_testing_queues_get_memory (queues, memory);
  check_live (queues, known, NULL, "uses");
  if (check_before (queues, known, NULL, "uses", known->past, "use"))
    check_before (queues, known, NULL, "uses", known->uses, "use");
  _tarn_mutex_unlock (&queues->lock);
}

void
_tarn_testing_queues_check_free (TarnTestingQueues *queues, const TarnTestingMemory *memory)
{
  if (check_before (queues, memory, NULL, "frees", memory->past, "use"))
    check_before (queues, memory, NULL, "frees", memory->uses, "use");
}

/* Functions that put commands and waits on queues */

static void
check_order (TarnTestingQueues *queues, const TarnTestingQueue *queue,
             const TarnTestingMemory *memory, TarnTestingCommand command)
{
  static const gchar *const verbs[] = { "uses", "writes", "reads", "reads" };
  const gchar *verb = verbs[command];

  check_live (queues, memory, queue, verb);
  if (!check_before (queues, memory, queue, verb, memory->past, "use")
      || command == TARN_TESTING_COMMAND_USE)
    return;
  if (check_before (queues, memory, queue, verb, memory->writes, "write")
      && command == TARN_TESTING_COMMAND_WRITE)
    check_before (queues, memory, queue, verb, memory->reads, "read");
}

void
_tarn_testing_queues_put (TarnTestingQueues *queues, TarnTestingQueue *queue,
                          TarnTestingMemory *memory, TarnTestingCommand command, guint value)
{
  TarnTestingItem item = { .memory = memory, .command = command, .value = value };

  _tarn_testing_clock_join (queue->start, queues->host);
  if (queue->in_order)
    _tarn_testing_clock_raise (queue->start, queue->number, queue->items->len);
  check_order (queues, queue, memory, command);
  g_array_append_val (queue->items, item);
  _tarn_testing_clock_raise (memory->uses, queue->number, queue->items->len);
  if (command == TARN_TESTING_COMMAND_WRITE)
    _tarn_testing_clock_raise (memory->writes, queue->number, queue->items->len);
  else if (command != TARN_TESTING_COMMAND_USE)
    _tarn_testing_clock_raise (memory->reads, queue->number, queue->items->len);
}

void
_tarn_testing_queues_put_wait (TarnTestingQueue *queue, const TarnTestingClock *clock)
{
  TarnTestingItem item = { .clock = _tarn_testing_clock_new () };

  _tarn_testing_clock_join (item.clock, clock);
  _tarn_testing_clock_join (queue->start, clock);
  g_array_append_val (queue->items, item);
}

void
tarn_testing_queue_put (TarnTestingQueues *queues, gpointer handle, TarnMemory memory,
                        TarnTestingCommand command, guint value)
{
  TarnTestingQueue *queue;

  _tarn_mutex_lock (&queues->lock);
  queue = _tarn_testing_queues_look_up (queues, handle, "command");
  if (queue != NULL)
    _tarn_testing_queues_put (queues, queue, _tarn_testing_queues_get_memory (queues, memory),
                              command, value);
  _tarn_mutex_unlock (&queues->lock);
}

void
tarn_testing_queue_follow (TarnTestingQueues *queues, gpointer handle, gpointer other)
{
  TarnTestingQueue *queue, *followed;

  _tarn_mutex_lock (&queues->lock);
  queue = _tarn_testing_queues_look_up (queues, handle, "follow");
  followed = _tarn_testing_queues_look_up (queues, other, "follow");
  if (queue != NULL && followed != NULL)
    {
      g_autoptr (GArray) clock = _tarn_testing_queues_now (queues, followed);

      _tarn_testing_queues_put_wait (queue, clock);
    }
  _tarn_mutex_unlock (&queues->lock);
}

/* Functions that make and free a set of fake queues, and answer a test's questions */

TarnTestingQueues *
tarn_testing_queues_new (guint64 bytes, guint flags)
{
  TarnTestingQueues *queues = g_new0 (TarnTestingQueues, 1);

  _tarn_mutex_init (&queues->lock);
  queues->flags = flags;
  queues->device = tarn_testing_device_new (bytes);
  queues->slots = g_ptr_array_new_with_free_func (g_free);
  queues->queues = g_ptr_array_new_with_free_func (queue_free);
  queues->memories = g_hash_table_new_full (NULL, NULL, NULL, memory_free);
  queues->events
      = g_hash_table_new_full (NULL, NULL, (GDestroyNotify) (void (*) (void)) g_array_unref, NULL);
  queues->host = _tarn_testing_clock_new ();
  queues->rand = g_rand_new_with_seed (_tarn_testing_seed ());
  return queues;
}

void
tarn_testing_queues_free (TarnTestingQueues *queues)
{
  if (queues == NULL)
    return;
  tarn_testing_assert_no_hazards (queues);
  g_assert_cmpuint (tarn_testing_queues_get_events (queues), ==, 0);
  g_assert_cmpuint (tarn_testing_queues_get_refs (queues), ==, 0);
  g_assert_cmpuint (queues->n_allocators, ==, 0);
  tarn_testing_device_free (queues->device);
  g_ptr_array_unref (queues->slots);
  g_ptr_array_unref (queues->queues);
  g_hash_table_unref (queues->memories);
  g_hash_table_unref (queues->events);
  g_array_unref (queues->host);
  g_rand_free (queues->rand);
  _tarn_mutex_clear (&queues->lock);
  g_free (queues);
}

void
tarn_testing_assert_no_hazards (TarnTestingQueues *queues)
{
  g_autofree gchar *fault = tarn_testing_queues_steal_fault (queues);

  if (fault != NULL)
    _tarn_testing_end (G_STRFUNC, fault);
}

TarnTestingDevice *
tarn_testing_queues_get_device (TarnTestingQueues *queues)
{
  return queues->device;
}

guint
tarn_testing_queue_get_pending (TarnTestingQueues *queues, gpointer handle)
{
  TarnTestingQueue *queue;
  guint n = 0;

  _tarn_mutex_lock (&queues->lock);
  queue = _tarn_testing_queues_look_up (queues, handle, "pending");
  for (guint i = queue != NULL ? queue->n_done : 0; queue != NULL && i < queue->items->len; i++)
    n += !g_array_index (queue->items, TarnTestingItem, i).is_done;
  _tarn_mutex_unlock (&queues->lock);
  return n;
}
