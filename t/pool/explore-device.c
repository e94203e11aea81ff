/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The explorer's device: memory that is numbers, queues that are clocks. */

#include "explore.h"

#include <stdio.h>
#include <string.h>

/* Neither NULL nor what is of another kind. */
#define FIRST_HANDLE 0x5100
#define FIRST_EVENT 0x9000

World world;

/* Keeps the first thing that went wrong. */
void
fault (const gchar *what)
{
  if (world.fault == NULL)
    world.fault = what;
  tell ("FAULT: %s", what);
}

/* Prints what happens, where one sequence is run. */
void
tell (const gchar *format, ...)
{
  va_list arguments;

  if (!world.is_told)
    return;
  printf ("#     ");
  va_start (arguments, format);
  vprintf (format, arguments);
  va_end (arguments);
  printf ("\n");
  fflush (stdout);
}

/* Clocks */

void
clock_join (Clock *clock, const Clock *other)
{
  for (guint i = 0; i < N_QUEUES; i++)
    clock->at[i] = MAX (clock->at[i], other->at[i]);
}

gboolean
clock_is_in (const Clock *clock, const Clock *other)
{
  guint8 above = 0;

  for (guint i = 0; i < N_QUEUES; i++)
    above |= clock->at[i] > other->at[i];
  return !above;
}

/* All that there is on any queue. */
Clock
device_now (void)
{
  Clock clock = { { 0 } };

  for (guint i = 0; i < world.n_queues; i++)
    clock.at[i] = world.queues[i].count;
  return clock;
}

/* All that there is on a queue, and what that comes after. */
static Clock
now_on (guint8 queue)
{
  Clock clock = world.queues[queue].start;

  clock.at[queue] = world.queues[queue].count;
  return clock;
}

/* Queues */

gpointer
device_get_handle (guint8 queue)
{
  return queue != NO_QUEUE ? GUINT_TO_POINTER (FIRST_HANDLE + world.queues[queue].handle) : NULL;
}

/* The first handle that is no queue's, since a handle that comes again is the worst. */
guint8
device_add_queue (gchar letter)
{
  Queue *queue = &world.queues[world.n_queues];
  guint handle = 0;

  g_assert_cmpuint (world.n_queues, <, N_QUEUES);
  while (world.handles[handle] != 0 && world.queues[world.handles[handle] - 1].is_alive)
    handle++;
  world.handles[handle] = world.n_queues + 1;
  queue->letter = letter;
  queue->is_in_order = g_ascii_isupper (letter);
  queue->is_alive = TRUE;
  queue->handle = handle;
  return (guint8) world.n_queues++;
}

/* A queue that is referenced outlives its destruction, unless events are recorded on all. */
static void
end_if_unused (Queue *queue)
{
  if (queue->is_destroyed
      && ((world.config->flags & RECORDS_ALL) != 0 || world.refs[queue->handle] == 0))
    queue->is_alive = FALSE;
}

void
device_destroy_queue (guint8 queue)
{
  world.queues[queue].is_destroyed = TRUE;
  end_if_unused (&world.queues[queue]);
}

/* The queue that a call names, or NO_QUEUE, which is a fault. */
static guint8
look_up (gpointer handle)
{
  guint i = GPOINTER_TO_UINT (handle) - FIRST_HANDLE;

  if (i >= N_HANDLES || world.handles[i] == 0 || !world.queues[world.handles[i] - 1].is_alive)
    {
      fault ("a call names a queue that is gone");
      return NO_QUEUE;
    }
  return (guint8) (world.handles[i] - 1);
}

/* The same for a call on which an event may depend.  Where nothing keeps queues alive, those that
 * the program has just named are the only ones that are known to live. */
static guint8
look_up_named (gpointer handle)
{
  guint8 queue = look_up (handle);

  if (queue != NO_QUEUE && (world.config->flags & RECORDS_ALL) != 0
      && (world.call->named & BIT (queue)) == 0)
    fault ("a call names a queue that the program did not name");
  return queue;
}

/* What a program does with queues */

/* A command of a block's owner. */
void
device_command (guint8 number, guint i)
{
  Queue *queue = &world.queues[number];
  Memory *memory = &world.memories[i];
  Clock before;

  clock_join (&queue->start, &world.host);
  before = queue->start;
  if (queue->is_in_order)
    before.at[number] = queue->count;
  if (!memory->is_live)
    fault ("memory is used that went back");
  else if (!clock_is_in (&memory->past, &before))
    fault ("a queue uses memory that an owner before may still use");
  else if (!clock_is_in (&memory->fill, &before))
    fault ("a queue uses memory that is yet to be made ready");
  queue->count++;
  memory->present.at[number] = queue->count;
  tell ("command %u on %c uses memory %u", queue->count, queue->letter, i);
}

/* The host uses memory now. */
void
device_touch (guint i)
{
  tell ("the host uses memory %u", i);
  if (!world.memories[i].is_live || !clock_is_in (&world.memories[i].past, &world.host))
    fault ("the host uses memory that an owner before may still use");
}

/* The program has a queue wait for all that is on another one. */
void
device_follow (guint8 queue, guint8 other)
{
  Clock clock = now_on (other);

  clock_join (&world.queues[queue].start, &clock);
}

/* The program waits for a queue. */
void
device_sync (guint8 queue)
{
  Clock clock = now_on (queue);

  clock_join (&world.host, &clock);
}

/* Memory */

/* Bytes of memory that has not gone: what is freed on a queue goes when that gets there. */
gsize
device_get_used (void)
{
  gsize used = 0;

  for (guint i = 0; i < world.n_memories; i++)
    if (world.memories[i].is_live || !clock_is_in (&world.memories[i].gone, &world.host))
      used += world.memories[i].size;
  return used;
}

static void
count_call (void)
{
  world.call->n_calls++;
  nest_step ();
}

/* Tells whether a call is one that fails, and has it do so. */
static gboolean
fails (const gchar *name, GError **error)
{
  if (world.n_failures == 0 || explore_choose (2) == 0)
    return FALSE;
  world.n_failures--;
  world.has_failed = world.call->has_failed = TRUE;
  world.failed = name;
  tell ("%s fails", name);
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_FAILED, name);
  return TRUE;
}

static gboolean
check_capture (guint8 queue, GError **error)
{
  if (!world.queues[queue].is_capturing)
    return TRUE;
  world.has_captured = TRUE;
  tell ("%c is capturing", world.queues[queue].letter);
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED, "capturing");
  return FALSE;
}

static gboolean
allocate (gpointer user_data, gsize size, TarnMemory *address, GError **error)
{
  Memory *memory = &world.memories[world.n_memories];

  (void) user_data;
  count_call ();
  if (device_get_used () + size > world.budget)
    {
      world.call->was_full = TRUE;
      tell ("the device is full");
      g_set_error_literal (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY, "full");
      return FALSE;
    }
  memory = &world.memories[world.n_memories];
  g_assert_cmpuint (world.n_memories, <, N_MEMORIES);
  memory->is_live = TRUE;
  memory->size = size;
  memory->sole = NO_QUEUE;
  if ((world.config->flags & IS_FRESH) != 0)
    {
      clock_join (&world.queues[0].start, &world.host);
      memory->fill.at[0] = ++world.queues[0].count;
    }
  memory->freed = device_now ();
  address->address = ++world.n_memories;
  tell ("memory %u is allocated", world.n_memories - 1);
  if (world.limit != 0 && device_get_used () > world.config->limit)
    fault ("there is more memory than the limit");
  return TRUE;
}

/* The memory that goes back; a fault if it cannot. */
static Memory *
take_back (TarnMemory address)
{
  Memory *memory = &world.memories[address.address - 1];

  g_assert_cmpuint (address.address - 1, <, world.n_memories);
  if (!memory->is_live)
    fault ("memory goes back twice");
  else if (memory->is_active)
    fault ("memory goes back whose block is in use");
  memory->is_live = FALSE;
  clock_join (&memory->past, &memory->present);
  clock_join (&memory->past, &memory->fill);
  return memory;
}

static void
free_memory (gpointer user_data, TarnMemory address, gsize size)
{
  Memory *memory;

  (void) user_data;
  count_call ();
  memory = take_back (address);
  tell ("memory %u goes back", (guint) address.address - 1);
  g_assert_cmpuint (memory->size, ==, size);
  if ((world.config->flags & FREES_IN_ORDER) == 0 && !clock_is_in (&memory->past, &world.host))
    fault ("memory goes back that may be in use");
}

static void
check_wait (const Clock *clock, const Memory *memory)
{
  if (!clock_is_in (clock, &memory->freed) && !clock_is_in (clock, &world.host)
      && !world.allows_late)
    fault ("a queue waits for what came after the free");
}

static gboolean
free_on_queue (gpointer user_data, TarnMemory address, gsize size, gpointer handle)
{
  guint8 queue = look_up (handle);
  Memory *memory;

  (void) user_data;
  count_call ();
  if (queue == NO_QUEUE || world.queues[queue].is_capturing)
    return FALSE;
  memory = take_back (address);
  g_assert_cmpuint (memory->size, ==, size);
  memory->gone = now_on (queue);
  clock_join (&memory->gone, &world.host); /* the host has waited before it calls */
  tell ("memory %u goes back on %c", (guint) address.address - 1, world.queues[queue].letter);
  if (!clock_is_in (&memory->past, &memory->gone) && !clock_is_in (&memory->past, &world.host))
    fault ("memory goes back on a queue while others may use it");
  for (guint i = 0; i < world.call->n_waits; i++)
    check_wait (&world.call->waits[i], memory);
  world.call->n_waits = 0;
  world.queues[queue].count++;
  memory->gone.at[queue] = world.queues[queue].count;
  return TRUE;
}

/* Others may free something just then. */
static gboolean
reclaim (gpointer user_data)
{
  (void) user_data;
  count_call ();
  return FALSE;
}

/* Order */

static gboolean
queue_ref (gpointer user_data, gpointer handle, gboolean *in_order, GError **error)
{
  guint8 queue;

  (void) user_data;
  count_call ();
  if (fails ("queue_ref", error))
    return FALSE;
  queue = look_up (handle);
  if (queue == NO_QUEUE)
    {
      g_set_error_literal (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, "no queue");
      return FALSE;
    }
  world.refs[world.queues[queue].handle]++;
  *in_order = world.queues[queue].is_in_order;
  tell ("queue_ref %c", world.queues[queue].letter);
  nest_step ();
  return TRUE;
}

static void
queue_unref (gpointer user_data, gpointer handle)
{
  guint i = GPOINTER_TO_UINT (handle) - FIRST_HANDLE;

  (void) user_data;
  tell ("queue_unref %u", i);
  if (i >= N_HANDLES || world.refs[i] == 0)
    {
      fault ("queue_unref of a queue that nobody has a reference on");
      return;
    }
  world.refs[i]--;
  end_if_unused (&world.queues[world.handles[i] - 1]);
}

static gpointer
event_new (const Clock *clock)
{
  Event *event = &world.events[world.n_events];

  g_assert_cmpuint (world.n_events, <, N_EVENTS);
  event->is_live = TRUE;
  event->clock = *clock;
  return GUINT_TO_POINTER (FIRST_EVENT + world.n_events++);
}

static Event *
look_up_event (gpointer handle)
{
  guint i = GPOINTER_TO_UINT (handle) - FIRST_EVENT;

  if (i < world.n_events && world.events[i].is_live)
    return &world.events[i];
  fault ("a call names an event that was released");
  return NULL;
}

/* What cannot be recorded now may stay in use for ever, as far as anybody can tell: all that is
 * held, and what the call is about. */
static gpointer
excuse (void)
{
  for (guint i = 0; i < world.n_memories; i++)
    if (!world.memories[i].is_active || world.call->memory == (gint) i)
      world.memories[i].may_be_lost = TRUE;
  return NULL;
}

static gpointer
event_record (gpointer user_data, gpointer handle, GError **error)
{
  gpointer event;
  guint8 queue;
  Clock clock;

  (void) user_data;
  nest_step ();
  queue = look_up_named (handle);
  if (queue == NO_QUEUE || fails ("event_record", error) || !check_capture (queue, error))
    return excuse ();
  clock = now_on (queue);
  if ((world.config->flags & BROKEN_EVENT) != 0 && clock.at[queue] > 0)
    clock.at[queue]--;
  event = event_new (&clock);
  tell ("event_record %c: event %u", world.queues[queue].letter, world.n_events - 1);
  nest_step ();
  return event;
}

static gpointer
event_record_all (gpointer user_data, GError **error)
{
  gpointer event;
  Clock clock;

  (void) user_data;
  nest_step ();
  if (fails ("event_record_all", error))
    return excuse ();
  for (guint i = 0; i < world.n_queues; i++)
    if (world.queues[i].is_alive && !check_capture ((guint8) i, error))
      return excuse ();
  clock = device_now ();
  event = event_new (&clock);
  tell ("event_record_all: event %u", world.n_events - 1);
  nest_step ();
  return event;
}

/* Where both are possible, the explorer says; no time passes between two questions of a call. */
static gboolean
event_is_done (gpointer user_data, gpointer handle)
{
  Event *event;

  (void) user_data;
  count_call ();
  event = look_up_event (handle);
  if (event == NULL)
    return FALSE;
  if (!clock_is_in (&event->clock, &world.host)
      && (event->asked_in == world.call->number || explore_choose (2) == 0))
    {
      event->asked_in = world.call->number;
      tell ("event %u is not done", (guint) (event - world.events));
      return FALSE;
    }
  clock_join (&world.host, &event->clock);
  tell ("event %u is done", (guint) (event - world.events));
  return TRUE;
}

/* A wait of the host's that fails says that the commands have ended in an error. */
static gboolean
host_wait (const Event *event, GError **error)
{
  gboolean has_failed = fails ("event_wait of the host", error);

  world.call->n_host_waits++;
  clock_join (&world.host, &event->clock);
  tell ("the host waits for event %u", (guint) (event - world.events));
  return !has_failed;
}

static gboolean
queue_wait (const Event *event, gpointer handle, GError **error)
{
  guint8 queue = look_up_named (handle);
  Call *call = world.call;

  if (queue == NO_QUEUE || fails ("event_wait", error) || !check_capture (queue, error))
    return FALSE;
  tell ("%c waits for event %u", world.queues[queue].letter, (guint) (event - world.events));
  g_assert_cmpuint (call->n_waits, <, N_WAITS);
  call->waits[call->n_waits++] = event->clock;
  if ((world.config->flags & BROKEN_WAIT) == 0)
    clock_join (&world.queues[queue].start, &event->clock);
  return TRUE;
}

static gboolean
event_wait (gpointer user_data, gpointer handle, gpointer queue, GError **error)
{
  const Event *event;

  (void) user_data;
  count_call ();
  event = look_up_event (handle);
  if (event == NULL)
    return TRUE;
  return queue != NULL ? queue_wait (event, queue, error) : host_wait (event, error);
}

static void
event_release (gpointer user_data, gpointer handle)
{
  Event *event = look_up_event (handle);

  (void) user_data;
  if (event == NULL)
    return;
  tell ("event %u is released", (guint) (event - world.events));
  event->is_live = FALSE;
}

static gpointer
fresh_queue (gpointer user_data)
{
  (void) user_data;
  return device_get_handle (0);
}

static gboolean
check_queue (gpointer user_data, gpointer handle, GError **error)
{
  guint8 queue;

  (void) user_data;
  count_call ();
  queue = look_up_named (handle);
  return queue != NO_QUEUE && !fails ("check_queue", error) && check_capture (queue, error);
}

static void
allocator_gone (gpointer unused)
{
  (void) unused;
  world.is_allocator_gone = TRUE;
}

TarnAllocator *
device_allocator_new (void)
{
  const guint flags = world.config->flags;
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

  ops.allocate = allocate;
  ops.free = free_memory;
  ops.reclaim = reclaim;
  ops.queue_ref = queue_ref;
  ops.queue_unref = queue_unref;
  ops.event_record = event_record;
  ops.event_is_done = event_is_done;
  ops.event_wait = event_wait;
  ops.event_release = event_release;
  ops.event_record_all = (flags & RECORDS_ALL) != 0 ? event_record_all : NULL;
  ops.fresh_queue = (flags & IS_FRESH) != 0 ? fresh_queue : NULL;
  ops.check_queue = (flags & CHECKS_QUEUES) != 0 ? check_queue : NULL;
  ops.frees_in_order = (flags & FREES_IN_ORDER) != 0;
  ops.free_on_queue = (flags & FREES_ON_QUEUE) != 0 ? free_on_queue : NULL;
  return tarn_allocator_new (&ops, NULL, allocator_gone);
}
