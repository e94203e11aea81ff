/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The backend of call-backs.h: each of its functions may call back, and counts what is alive. */

#include "call-backs.h"

/* How often a function calls back in one script, so that it ends soon. */
#define MAX_CALLS 30

_Thread_local gboolean world_is_inside = FALSE;

void
world_call_back (World *world, Caller caller)
{
  Action action = g_atomic_pointer_get (&world->action);

  if (world->caller != caller || action == NULL || world_is_inside
      || g_atomic_int_add (&world->n_calls, 1) >= MAX_CALLS)
    return;
  world_is_inside = TRUE;
  action (world);
  world_is_inside = FALSE;
}

static void
begin_life (World *world)
{
  g_atomic_int_inc (&world->n_live);
}

static void
end_life (World *world)
{
  g_assert_cmpuint (g_atomic_int_add (&world->n_live, (guint) -1), >, 0);
}

static gboolean
take_bytes (World *world, gsize size, GError **error)
{
  if (__atomic_add_fetch (&world->n_bytes, size, __ATOMIC_RELAXED) <= BUDGET)
    return TRUE;
  __atomic_sub_fetch (&world->n_bytes, size, __ATOMIC_RELAXED);
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY, "no memory");
  return FALSE;
}

/* Allocates memory, and adds it to the world's. */
static gpointer
memory_new (World *world, gsize size)
{
  gpointer memory = g_malloc (MAX (size, 1));

  _tarn_mutex_lock (&world->lock);
  g_hash_table_add (world->memory, memory);
  _tarn_mutex_unlock (&world->lock);
  return memory;
}

static void
memory_free (World *world, gpointer memory)
{
  gboolean is_known;

  _tarn_mutex_lock (&world->lock);
  is_known = g_hash_table_remove (world->memory, memory);
  _tarn_mutex_unlock (&world->lock);
  g_assert_true (is_known);
}

static gboolean
back_allocate (gpointer data, gsize size, TarnMemory *memory, GError **error)
{
  World *world = data;

  world_call_back (world, BY_ALLOCATE);
  if (!take_bytes (world, size, error))
    return FALSE;
  begin_life (world);
  memory->pointer = memory_new (world, size);
  return TRUE;
}

static void
back_free (gpointer data, TarnMemory memory, gsize size)
{
  World *world = data;

  world_call_back (world, BY_FREE);
  __atomic_sub_fetch (&world->n_bytes, size, __ATOMIC_RELAXED);
  memory_free (world, memory.pointer);
  end_life (world);
}

static gboolean
back_reclaim (gpointer data)
{
  world_call_back (data, BY_RECLAIM);
  return TRUE;
}

static gboolean
back_queue_ref (gpointer data, gpointer queue, gboolean *in_order, GError **error)
{
  World *world = data;

  (void) error;
  world_call_back (world, BY_QUEUE_REF);
  *in_order = queue != &world->queues[N_QUEUES - 1];
  begin_life (world);
  return TRUE;
}

static void
back_queue_unref (gpointer data, gpointer queue)
{
  (void) queue;
  world_call_back (data, BY_QUEUE_UNREF);
  end_life (data);
}

static gpointer
record (World *world, Caller caller, GError **error)
{
  world_call_back (world, caller);
  if (world->caller == BY_MESSAGE && g_atomic_pointer_get (&world->action) != NULL
      && !world_is_inside)
    {
      g_set_error_literal (error, TARN_ERROR, TARN_ERROR_FAILED, "no event");
      return NULL;
    }
  begin_life (world);
  return g_malloc (1);
}

static gpointer
back_event_record (gpointer data, gpointer queue, GError **error)
{
  (void) queue;
  return record (data, BY_EVENT_RECORD, error);
}

static gpointer
back_event_record_all (gpointer data, GError **error)
{
  return record (data, BY_EVENT_RECORD_ALL, error);
}

static gboolean
back_event_is_done (gpointer data, gpointer event)
{
  World *world = data;

  (void) event;
  world_call_back (world, BY_EVENT_IS_DONE);
  return g_atomic_int_add (&world->n_asked, 1) % 3 == 0;
}

static gboolean
back_event_wait (gpointer data, gpointer event, gpointer queue, GError **error)
{
  (void) event;
  (void) queue;
  (void) error;
  world_call_back (data, BY_EVENT_WAIT);
  return TRUE;
}

static void
back_event_release (gpointer data, gpointer event)
{
  world_call_back (data, BY_EVENT_RELEASE);
  g_free (event);
  end_life (data);
}

static gpointer
back_fresh_queue (gpointer data)
{
  World *world = data;

  world_call_back (world, BY_FRESH_QUEUE);
  return &world->queues[0];
}

static gboolean
back_check_queue (gpointer data, gpointer queue, GError **error)
{
  (void) queue;
  (void) error;
  world_call_back (data, BY_CHECK_QUEUE);
  return TRUE;
}

static gboolean
back_free_on_queue (gpointer data, TarnMemory memory, gsize size, gpointer queue)
{
  World *world = data;

  (void) queue;
  world_call_back (world, BY_FREE_ON_QUEUE);
  __atomic_sub_fetch (&world->n_bytes, size, __ATOMIC_RELAXED);
  memory_free (world, memory.pointer);
  end_life (world);
  return TRUE;
}

static gboolean
back_part_new (gpointer data, TarnMemory memory, gsize offset, gsize size, TarnMemory *part,
               GError **error)
{
  (void) size;
  (void) error;
  world_call_back (data, BY_PART_NEW);
  begin_life (data);
  part->pointer = (gchar *) memory.pointer + offset;
  return TRUE;
}

static void
back_part_release (gpointer data, TarnMemory part, gsize size)
{
  (void) part;
  (void) size;
  world_call_back (data, BY_PART_RELEASE);
  end_life (data);
}

static gboolean
back_addresses_reserve (gpointer data, gsize size, TarnMemory *addresses, GError **error)
{
  World *world = data;

  (void) error;
  world_call_back (world, BY_ADDRESSES_RESERVE);
  begin_life (world);
  addresses->address = __atomic_fetch_add (&world->last_address, size, __ATOMIC_RELAXED);
  return TRUE;
}

static void
back_addresses_release (gpointer data, TarnMemory addresses, gsize size)
{
  (void) addresses;
  (void) size;
  world_call_back (data, BY_ADDRESSES_RELEASE);
  end_life (data);
}

static gboolean
back_backing_new (gpointer data, gsize size, TarnMemory *backing, GError **error)
{
  World *world = data;

  world_call_back (world, BY_BACKING_NEW);
  if (!take_bytes (world, size, error))
    return FALSE;
  begin_life (world);
  backing->address = 1;
  return TRUE;
}

static void
back_backing_release (gpointer data, TarnMemory backing, gsize size)
{
  World *world = data;

  (void) backing;
  world_call_back (world, BY_BACKING_RELEASE);
  __atomic_sub_fetch (&world->n_bytes, size, __ATOMIC_RELAXED);
  end_life (world);
}

static gboolean
back_backing_map (gpointer data, TarnMemory backing, gsize size, TarnMemory address, GError **error)
{
  (void) backing;
  (void) size;
  (void) address;
  (void) error;
  world_call_back (data, BY_BACKING_MAP);
  begin_life (data);
  return TRUE;
}

static void
back_backing_unmap (gpointer data, TarnMemory address, gsize size)
{
  (void) address;
  (void) size;
  world_call_back (data, BY_BACKING_UNMAP);
  end_life (data);
}

static gboolean
back_read (gpointer data, TarnMemory memory, gsize offset, gsize size, gpointer bytes,
           GError **error)
{
  (void) error;
  world_call_back (data, BY_READ);
  memcpy (bytes, (gchar *) memory.pointer + offset, size);
  return TRUE;
}

static gboolean
back_fill (gpointer data, TarnMemory memory, gsize offset, gsize size, guint8 byte, GError **error)
{
  (void) error;
  world_call_back (data, BY_FILL);
  memset ((gchar *) memory.pointer + offset, byte, size);
  return TRUE;
}

static gboolean
back_find_other (gpointer data, TarnMemory memory, gsize offset, gsize size, guint8 byte,
                 gsize *first, GError **error)
{
  const guint8 *bytes = memory.pointer;

  (void) error;
  world_call_back (data, BY_FIND_OTHER);
  for (*first = offset; *first < offset + size && bytes[*first] == byte;)
    ++*first;
  return TRUE;
}

static gconstpointer
back_find_host (gpointer data, TarnMemory memory, gsize size)
{
  (void) size;
  world_call_back (data, BY_FIND_HOST);
  return memory.pointer;
}

static void
set_heap_ops (const Kind *kind, TarnAllocatorOps *ops)
{
  if (kind->has_parts)
    {
      ops->part_alignment = 64;
      ops->part_new = back_part_new;
      ops->part_release = back_part_release;
    }
  if (!kind->is_virtual)
    return;
  ops->virtual_granularity = GRANULARITY;
  ops->addresses_reserve = back_addresses_reserve;
  ops->addresses_release = back_addresses_release;
  ops->backing_new = back_backing_new;
  ops->backing_release = back_backing_release;
  ops->backing_map = back_backing_map;
  ops->backing_unmap = back_backing_unmap;
}

TarnAllocator *
world_allocator_new (World *world)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  const Kind *kind = world->kind;

  ops.allocate = back_allocate;
  ops.free = back_free;
  ops.reclaim = back_reclaim;
  ops.queue_ref = back_queue_ref;
  ops.queue_unref = back_queue_unref;
  ops.event_record = back_event_record;
  ops.event_record_all = kind->records_all ? back_event_record_all : NULL;
  ops.event_is_done = back_event_is_done;
  ops.event_wait = back_event_wait;
  ops.event_release = back_event_release;
  ops.fresh_queue = kind->is_fresh ? back_fresh_queue : NULL;
  ops.check_queue = back_check_queue;
  ops.free_on_queue = kind->frees_on_queue ? back_free_on_queue : NULL;
  set_heap_ops (kind, &ops);
  if (kind->is_debugged)
    {
      ops.read = back_read;
      ops.fill = back_fill;
      ops.find_other = back_find_other;
      ops.find_host = back_find_host;
    }
  return tarn_allocator_new (&ops, world, NULL);
}
