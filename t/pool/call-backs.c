/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Functions of the program that Tarn calls, such as a backend's, and that call Tarn back.  Each of
 * them calls each public function, for the pool and the heap that have just called it.  Some of
 * these calls fail; none hangs, and nothing is lost. */

#include <signal.h>
#include <string.h>
#include <tarn/tarn.h>
#include <tarn/testing.h>
#include <unistd.h>

#include "lib/conformance.h"
#include "lib/step.h"

/* Seconds after which one script counts as hanging.  It takes milliseconds, but the machine may be
 * busy. */
#define N_PATIENT 60

/* How often a function calls back in one script, so that it ends soon. */
#define MAX_CALLS 30

#define GRANULARITY ((gsize) 4096)
#define BUDGET ((gsize) 1 << 20)

/* What calls back. */
typedef enum
{
  BY_ALLOCATE,
  BY_FREE,
  BY_RECLAIM,
  BY_QUEUE_REF,
  BY_QUEUE_UNREF,
  BY_EVENT_RECORD,
  BY_EVENT_RECORD_ALL,
  BY_EVENT_IS_DONE,
  BY_EVENT_WAIT,
  BY_EVENT_RELEASE,
  BY_FRESH_QUEUE,
  BY_CHECK_QUEUE,
  BY_FREE_ON_QUEUE,
  BY_PART_NEW,
  BY_PART_RELEASE,
  BY_ADDRESSES_RESERVE,
  BY_ADDRESSES_RELEASE,
  BY_BACKING_NEW,
  BY_BACKING_RELEASE,
  BY_BACKING_MAP,
  BY_BACKING_UNMAP,
  BY_READ,
  BY_FILL,
  BY_FIND_OTHER,
  BY_FIND_HOST,
  BY_RECLAIM_FUNC,
  BY_DESTROY,
  BY_MESSAGE, /* a log handler: events fail, so that there are messages; but none inside of
                 another, because GLib ends the process then */
  N_CALLERS
} Caller;

static const gchar *const caller_names[N_CALLERS] = {
  [BY_ALLOCATE] = "allocate",
  [BY_FREE] = "free",
  [BY_RECLAIM] = "reclaim",
  [BY_QUEUE_REF] = "queue-ref",
  [BY_QUEUE_UNREF] = "queue-unref",
  [BY_EVENT_RECORD] = "event-record",
  [BY_EVENT_RECORD_ALL] = "event-record-all",
  [BY_EVENT_IS_DONE] = "event-is-done",
  [BY_EVENT_WAIT] = "event-wait",
  [BY_EVENT_RELEASE] = "event-release",
  [BY_FRESH_QUEUE] = "fresh-queue",
  [BY_CHECK_QUEUE] = "check-queue",
  [BY_FREE_ON_QUEUE] = "free-on-queue",
  [BY_PART_NEW] = "part-new",
  [BY_PART_RELEASE] = "part-release",
  [BY_ADDRESSES_RESERVE] = "addresses-reserve",
  [BY_ADDRESSES_RELEASE] = "addresses-release",
  [BY_BACKING_NEW] = "backing-new",
  [BY_BACKING_RELEASE] = "backing-release",
  [BY_BACKING_MAP] = "backing-map",
  [BY_BACKING_UNMAP] = "backing-unmap",
  [BY_READ] = "read",
  [BY_FILL] = "fill",
  [BY_FIND_OTHER] = "find-other",
  [BY_FIND_HOST] = "find-host",
  [BY_RECLAIM_FUNC] = "reclaim-func",
  [BY_DESTROY] = "destroy",
  [BY_MESSAGE] = "message",
};

/* A pool, and the allocators below it. */
typedef struct
{
  const gchar *name;
  gboolean has_heap, is_virtual, has_parts, records_all, is_fresh, frees_on_queue, is_debugged;
  gsize limit_bytes;
} Kind;

static const Kind kinds[] = {
  { .name = "plain" },
  { .name = "limit", .limit_bytes = 100000 },
  { .name = "records-all", .records_all = TRUE, .is_fresh = TRUE },
  { .name = "frees-on-queue", .frees_on_queue = TRUE },
  { .name = "parts", .has_heap = TRUE, .has_parts = TRUE },
  { .name = "parts/limit", .has_heap = TRUE, .has_parts = TRUE, .limit_bytes = 200000 },
  { .name = "parts/records-all",
    .has_heap = TRUE,
    .has_parts = TRUE,
    .records_all = TRUE,
    .is_fresh = TRUE },
  { .name = "virtual", .has_heap = TRUE, .is_virtual = TRUE },
  { .name = "virtual/limit", .has_heap = TRUE, .is_virtual = TRUE, .limit_bytes = 200000 },
  { .name = "debugged", .is_debugged = TRUE, .has_parts = TRUE },
  { .name = "debugged/heap", .is_debugged = TRUE, .has_parts = TRUE, .has_heap = TRUE },
};

#define N_QUEUES 4
#define N_EXTRA 16

typedef struct _World World;
typedef void (*Action) (World *world);

struct _World
{
  const Kind *kind;
  Caller caller;
  Action action; /* atomic; NULL: none any more */

  TarnAllocator *direct;
  TarnAllocator *heap; /* what the pool stands on; atomic: an action drops the reference */
  TarnPool *pool;
  TarnReclaimGroup *group;
  gchar queues[N_QUEUES];

  guint n_calls;      /* atomic: that called back */
  guint n_live;       /* atomic: pieces of memory, events, references, mappings */
  gsize n_bytes;      /* atomic: of memory */
  guint n_asked;      /* atomic: whether an event is done */
  gsize last_address; /* atomic: of what is reserved */

  TarnBlock *extra[N_EXTRA]; /* atomic: what an action has left */
};

/* What the handler of SIGALRM says. */
static gchar doing[200];

static _Thread_local gboolean is_inside = FALSE;

static void
call_back (World *world, Caller caller)
{
  Action action = g_atomic_pointer_get (&world->action);

  if (world->caller != caller || action == NULL || is_inside
      || g_atomic_int_add (&world->n_calls, 1) >= MAX_CALLS)
    return;
  is_inside = TRUE;
  action (world);
  is_inside = FALSE;
}

/* The backend */

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

static gboolean
back_allocate (gpointer data, gsize size, TarnMemory *memory, GError **error)
{
  World *world = data;

  call_back (world, BY_ALLOCATE);
  if (!take_bytes (world, size, error))
    return FALSE;
  begin_life (world);
  memory->pointer = g_malloc (MAX (size, 1));
  return TRUE;
}

static void
back_free (gpointer data, TarnMemory memory, gsize size)
{
  World *world = data;

  call_back (world, BY_FREE);
  __atomic_sub_fetch (&world->n_bytes, size, __ATOMIC_RELAXED);
  g_free (memory.pointer);
  end_life (world);
}

static gboolean
back_reclaim (gpointer data)
{
  call_back (data, BY_RECLAIM);
  return TRUE;
}

static gboolean
back_queue_ref (gpointer data, gpointer queue, gboolean *in_order, GError **error)
{
  World *world = data;

  (void) error;
  call_back (world, BY_QUEUE_REF);
  *in_order = queue != &world->queues[N_QUEUES - 1];
  begin_life (world);
  return TRUE;
}

static void
back_queue_unref (gpointer data, gpointer queue)
{
  (void) queue;
  call_back (data, BY_QUEUE_UNREF);
  end_life (data);
}

static gpointer
record (World *world, Caller caller, GError **error)
{
  call_back (world, caller);
  if (world->caller == BY_MESSAGE && g_atomic_pointer_get (&world->action) != NULL && !is_inside)
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
  call_back (world, BY_EVENT_IS_DONE);
  return g_atomic_int_add (&world->n_asked, 1) % 3 == 0;
}

static gboolean
back_event_wait (gpointer data, gpointer event, gpointer queue, GError **error)
{
  (void) event;
  (void) queue;
  (void) error;
  call_back (data, BY_EVENT_WAIT);
  return TRUE;
}

static void
back_event_release (gpointer data, gpointer event)
{
  call_back (data, BY_EVENT_RELEASE);
  g_free (event);
  end_life (data);
}

static gpointer
back_fresh_queue (gpointer data)
{
  World *world = data;

  call_back (world, BY_FRESH_QUEUE);
  return &world->queues[0];
}

static gboolean
back_check_queue (gpointer data, gpointer queue, GError **error)
{
  (void) queue;
  (void) error;
  call_back (data, BY_CHECK_QUEUE);
  return TRUE;
}

static gboolean
back_free_on_queue (gpointer data, TarnMemory memory, gsize size, gpointer queue)
{
  World *world = data;

  (void) queue;
  call_back (world, BY_FREE_ON_QUEUE);
  __atomic_sub_fetch (&world->n_bytes, size, __ATOMIC_RELAXED);
  g_free (memory.pointer);
  end_life (world);
  return TRUE;
}

static gboolean
back_part_new (gpointer data, TarnMemory memory, gsize offset, gsize size, TarnMemory *part,
               GError **error)
{
  (void) size;
  (void) error;
  call_back (data, BY_PART_NEW);
  begin_life (data);
  part->pointer = (gchar *) memory.pointer + offset;
  return TRUE;
}

static void
back_part_release (gpointer data, TarnMemory part, gsize size)
{
  (void) part;
  (void) size;
  call_back (data, BY_PART_RELEASE);
  end_life (data);
}

static gboolean
back_addresses_reserve (gpointer data, gsize size, TarnMemory *addresses, GError **error)
{
  World *world = data;

  (void) error;
  call_back (world, BY_ADDRESSES_RESERVE);
  begin_life (world);
  addresses->address = __atomic_fetch_add (&world->last_address, size, __ATOMIC_RELAXED);
  return TRUE;
}

static void
back_addresses_release (gpointer data, TarnMemory addresses, gsize size)
{
  (void) addresses;
  (void) size;
  call_back (data, BY_ADDRESSES_RELEASE);
  end_life (data);
}

static gboolean
back_backing_new (gpointer data, gsize size, TarnMemory *backing, GError **error)
{
  World *world = data;

  call_back (world, BY_BACKING_NEW);
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
  call_back (world, BY_BACKING_RELEASE);
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
  call_back (data, BY_BACKING_MAP);
  begin_life (data);
  return TRUE;
}

static void
back_backing_unmap (gpointer data, TarnMemory address, gsize size)
{
  (void) address;
  (void) size;
  call_back (data, BY_BACKING_UNMAP);
  end_life (data);
}

static gboolean
back_read (gpointer data, TarnMemory memory, gsize offset, gsize size, gpointer bytes,
           GError **error)
{
  (void) error;
  call_back (data, BY_READ);
  memcpy (bytes, (gchar *) memory.pointer + offset, size);
  return TRUE;
}

static gboolean
back_fill (gpointer data, TarnMemory memory, gsize offset, gsize size, guint8 byte, GError **error)
{
  (void) error;
  call_back (data, BY_FILL);
  memset ((gchar *) memory.pointer + offset, byte, size);
  return TRUE;
}

static gboolean
back_find_other (gpointer data, TarnMemory memory, gsize offset, gsize size, guint8 byte,
                 gsize *first, GError **error)
{
  const guint8 *bytes = memory.pointer;

  (void) error;
  call_back (data, BY_FIND_OTHER);
  for (*first = offset; *first < offset + size && bytes[*first] == byte;)
    ++*first;
  return TRUE;
}

static gconstpointer
back_find_host (gpointer data, TarnMemory memory, gsize size)
{
  (void) size;
  call_back (data, BY_FIND_HOST);
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

static TarnAllocator *
allocator_new (World *world)
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

/* What is called */

/* Leaves a block to a later action, or to the end. */
static void
leave (World *world, TarnBlock *block)
{
  for (guint i = 0; i < N_EXTRA && block != NULL; i++)
    if (g_atomic_pointer_compare_and_exchange (&world->extra[i], NULL, block))
      block = NULL;
  tarn_block_free (block);
}

/* Gets what an action has left; NULL: nothing. */
static TarnBlock *
take_left (World *world)
{
  TarnBlock *block = NULL;

  for (guint i = 0; i < N_EXTRA && block == NULL; i++)
    block = g_atomic_pointer_exchange (&world->extra[i], NULL);
  return block;
}

static void
act_allocate (World *world)
{
  leave (world, tarn_pool_allocate (world->pool, 3000, NULL));
}

static void
act_allocate_ordered (World *world)
{
  leave (world, tarn_pool_allocate_ordered (world->pool, 3000, &world->queues[1], NULL));
}

static void
act_allocate_much (World *world)
{
  tarn_block_free (tarn_pool_allocate (world->pool, BUDGET / 2, NULL));
  tarn_block_free (tarn_pool_allocate_ordered (world->pool, BUDGET, &world->queues[2], NULL));
}

static void
act_free (World *world)
{
  leave (world, tarn_pool_allocate_ordered (world->pool, 500, &world->queues[0], NULL));
  tarn_block_free (take_left (world));
  tarn_block_free (take_left (world));
}

static gpointer
free_left (gpointer world)
{
  is_inside = TRUE;
  tarn_block_free (take_left (world));
  tarn_block_free (take_left (world));
  return NULL;
}

/* Frees blocks in another thread, and waits for it.  A free must wait for nobody, because a
 * backend's function may wait for it. */
static void
act_free_elsewhere (World *world)
{
  leave (world, tarn_pool_allocate_ordered (world->pool, 600, &world->queues[1], NULL));
  g_thread_join (g_thread_new ("frees", free_left, world));
}

/* A free that records events. */
static void
act_free_used (World *world)
{
  TarnBlock *block = tarn_pool_allocate_ordered (world->pool, 700, &world->queues[0], NULL);

  if (block == NULL)
    return;
  tarn_block_record_use (block, &world->queues[1], NULL);
  tarn_block_record_use (block, &world->queues[3], NULL);
  tarn_block_free (block);
}

static void
act_move (World *world)
{
  TarnBlock *block = tarn_pool_allocate_ordered (world->pool, 900, &world->queues[0], NULL);

  if (block == NULL)
    return;
  tarn_block_move_to_queue (block, &world->queues[2], NULL);
  tarn_block_wait (block, NULL);
  tarn_block_free (block);
}

static void
act_free_held (World *world)
{
  tarn_pool_free_held (world->pool);
}

static void
act_trim (World *world)
{
  tarn_pool_trim (world->pool, 1000);
}

static void
act_stop_holding (World *world)
{
  tarn_pool_stop_holding (world->pool);
}

static void
act_get_stats (World *world)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  TarnHeapStats heap_stats = TARN_HEAP_STATS_INIT;

  tarn_pool_get_stats (world->pool, &stats);
  tarn_pool_reset_peaks (world->pool);
  tarn_pool_get_held_blocks (world->pool);
  tarn_pool_get_active_blocks (world->pool);
  tarn_pool_get_managed_bytes (world->pool);
  tarn_pool_get_active_bytes (world->pool);
  tarn_pool_get_limit_bytes (world->pool);
  tarn_heap_get_stats (tarn_pool_get_upstream (world->pool), &heap_stats);
}

/* Lowers the limit, and asks for more than it leaves, in a thread that may itself have reserved
 * some of it.  Such a request must not wait for its own thread. */
static void
act_limit (World *world)
{
  tarn_pool_set_limit_bytes (world->pool, 20000);
  leave (world, tarn_pool_allocate (world->pool, 15000, NULL));
  leave (world, tarn_pool_allocate_ordered (world->pool, 6000, &world->queues[1], NULL));
  tarn_pool_set_limit_bytes (world->pool, world->kind->limit_bytes);
}

/* More than there may be, and less. */
static void
act_charge (World *world)
{
  for (gsize bytes = 100000; bytes > 100; bytes /= 10)
    if (tarn_pool_charge (world->pool, bytes, NULL))
      tarn_pool_uncharge (world->pool, bytes);
  tarn_pool_get_charged_bytes (world->pool);
}

static void
act_forget (World *world)
{
  for (guint i = 0; i < N_QUEUES; i++)
    tarn_pool_forget_queue (world->pool, &world->queues[i], NULL);
}

static gboolean
give_nothing (TarnPool *pool, gsize wanted, gpointer data)
{
  (void) pool;
  (void) wanted;
  (void) data;
  return FALSE;
}

static void
act_reclaim_func (World *world)
{
  tarn_pool_remove_reclaim_func (
      world->pool, tarn_pool_add_reclaim_func (world->pool, give_nothing, NULL, NULL));
}

static void
act_group (World *world)
{
  tarn_reclaim_group_unref (tarn_pool_get_reclaim_group (world->pool));
  tarn_pool_set_reclaim_group (world->pool, NULL);
  tarn_pool_set_reclaim_group (world->pool, world->group);
}

static void
act_unref (World *world)
{
  tarn_pool_unref (tarn_pool_ref (world->pool));
  tarn_allocator_unref (g_atomic_pointer_exchange (&world->heap, NULL));
}

/* Past the pool. */
static void
act_upstream (World *world)
{
  TarnAllocator *upstream = tarn_pool_get_upstream (world->pool);
  TarnMemory memory;

  tarn_block_free (tarn_allocator_allocate (upstream, 5000, NULL));
  if (tarn_allocator_allocate_memory (upstream, 70000, &memory, NULL))
    tarn_allocator_free_memory (upstream, memory, 70000);
  if (tarn_allocator_allocate_memory (TARN_ALLOCATOR (world->pool), 300, &memory, NULL))
    tarn_allocator_free_memory (TARN_ALLOCATOR (world->pool), memory, 300);
}

/* Another pool over the same. */
static void
act_other_pool (World *world)
{
  g_autoptr (TarnPool) other = tarn_pool_new (tarn_pool_get_upstream (world->pool), NULL, NULL);

  tarn_pool_set_reclaim_group (other, world->group);
  tarn_block_free (tarn_pool_allocate (other, 3000, NULL));
  tarn_block_free (tarn_pool_allocate_ordered (other, 3000, &world->queues[2], NULL));
  tarn_pool_forget_queue (other, &world->queues[2], NULL);
}

static void
act_debug (World *world)
{
  TarnBlock *block = take_left (world);

  tarn_debug_check ();
  tarn_debug_note_free (block);
  tarn_block_free (block);
  tarn_pool_is_debugged (world->pool);
}

static void
act_snapshot (World *world)
{
  (void) world;
  tarn_snapshot_write ("/dev/null", NULL);
  tarn_snapshot_set_follow (TRUE);
  tarn_snapshot_set_follow (FALSE);
}

static const struct
{
  const gchar *name;
  Action act;
} actions[] = {
  { "allocate", act_allocate },
  { "allocate-ordered", act_allocate_ordered },
  { "allocate-much", act_allocate_much },
  { "free", act_free },
  { "free-elsewhere", act_free_elsewhere },
  { "free-used", act_free_used },
  { "move", act_move },
  { "free-held", act_free_held },
  { "trim", act_trim },
  { "stop-holding", act_stop_holding },
  { "get-stats", act_get_stats },
  { "limit", act_limit },
  { "charge", act_charge },
  { "forget", act_forget },
  { "reclaim-func", act_reclaim_func },
  { "group", act_group },
  { "unref", act_unref },
  { "upstream", act_upstream },
  { "other-pool", act_other_pool },
  { "debug", act_debug },
  { "snapshot", act_snapshot },
};

/* A program, which comes by each function of the backend */

static gboolean
reclaim (TarnPool *pool, gsize wanted, gpointer data)
{
  (void) pool;
  (void) wanted;
  call_back (data, BY_RECLAIM_FUNC);
  return FALSE;
}

static void
destroy (gpointer data)
{
  call_back (data, BY_DESTROY);
}

static void
handle_message (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer data)
{
  (void) domain;
  (void) message;
  g_assert_false (level & (G_LOG_LEVEL_CRITICAL | G_LOG_LEVEL_WARNING));
  call_back (data, BY_MESSAGE);
}

#define N_BLOCKS 12

static void
free_all (TarnBlock **blocks)
{
  for (guint i = 0; i < N_BLOCKS; i++)
    tarn_block_free (g_steal_pointer (&blocks[i]));
}

static void
take_all (World *world, TarnBlock **blocks, guint first_queue)
{
  static const gsize sizes[] = { 100, 1000, 6000, 30000 };

  for (guint i = 0; i < N_BLOCKS; i++)
    {
      gpointer queue = &world->queues[(first_queue + i / 4) % N_QUEUES];

      g_assert_null (blocks[i]);
      blocks[i] = tarn_pool_allocate_ordered (world->pool, sizes[i % 4], queue, NULL);
    }
}

static void
use_elsewhere (World *world, TarnBlock **blocks)
{
  for (guint i = 0; i < N_BLOCKS; i += 3)
    if (blocks[i] != NULL)
      tarn_block_record_use (blocks[i], &world->queues[(i + 1) % N_QUEUES], NULL);
  for (guint i = 1; i < N_BLOCKS; i += 3)
    if (blocks[i] != NULL)
      tarn_block_move_to_queue (blocks[i], &world->queues[(i + 2) % N_QUEUES], NULL);
  if (blocks[2] != NULL)
    tarn_block_wait (blocks[2], NULL);
}

static void
run (World *world)
{
  TarnBlock *blocks[N_BLOCKS] = { NULL };
  guint id = tarn_pool_add_reclaim_func (world->pool, reclaim, world, destroy);

  for (guint i = 0; i < 2; i++)
    {
      take_all (world, blocks, i);
      use_elsewhere (world, blocks);
      free_all (blocks);
    }
  take_all (world, blocks, 2);
  tarn_block_free (tarn_pool_allocate (world->pool, BUDGET - 1000, NULL));
  tarn_block_free (tarn_pool_allocate_ordered (world->pool, BUDGET, &world->queues[0], NULL));
  free_all (blocks);
  tarn_pool_set_limit_bytes (world->pool, 50000);
  tarn_block_free (tarn_pool_allocate_ordered (world->pool, 40000, &world->queues[1], NULL));
  tarn_block_free (tarn_pool_allocate (world->pool, 60000, NULL));
  tarn_pool_set_limit_bytes (world->pool, world->kind->limit_bytes);
  tarn_debug_check ();
  take_all (world, blocks, 0);
  tarn_pool_forget_queue (world->pool, &world->queues[0], NULL);
  free_all (blocks);
  tarn_pool_free_held (world->pool);
  take_all (world, blocks, 1);
  free_all (blocks);
  tarn_pool_remove_reclaim_func (world->pool, id);
}

static void
world_set_up (World *world, const Kind *kind, Caller caller)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  TarnHeapOptions heap_options = TARN_HEAP_OPTIONS_INIT;

  *world = (World){ .kind = kind, .caller = caller, .last_address = GRANULARITY };
  world->direct = allocator_new (world);
  heap_options.growth_bytes = 16 * GRANULARITY;
  heap_options.follows_pool_limit = TRUE;
  world->heap = kind->has_heap ? tarn_heap_allocator_new (world->direct, &heap_options, NULL)
                               : tarn_allocator_ref (world->direct);
  options.limit_bytes = kind->limit_bytes;
  options.debug = kind->is_debugged ? "guards,poison,quarantine=200000" : "";
  options.thread_cache_blocks = 2;
  world->pool = tarn_pool_new (world->heap, &options, NULL);
  world->group = tarn_reclaim_group_new ();
  tarn_pool_set_reclaim_group (world->pool, world->group);
}

static void
world_tear_down (World *world)
{
  TarnBlock *block;

  g_atomic_pointer_set (&world->action, NULL);
  while ((block = take_left (world)) != NULL)
    tarn_block_free (block);
  assert_valid (world->pool);
  g_assert_cmpuint (tarn_pool_get_active_blocks (world->pool), ==, 0);
  tarn_pool_free_held (world->pool);
  tarn_pool_unref (world->pool);
  tarn_reclaim_group_unref (world->group);
  tarn_allocator_unref (world->heap);
  tarn_allocator_unref (world->direct);
  if (world->caller != BY_MESSAGE) /* without events, memory of another pool may be lost */
    {
      g_assert_cmpuint (world->n_live, ==, 0);
      g_assert_cmpuint (world->n_bytes, ==, 0);
    }
}

static gpointer
run_in_thread (gpointer world)
{
  run (world);
  return NULL;
}

static guint
run_with (const Kind *kind, Caller caller, guint i, gboolean has_other)
{
  GThread *other = NULL;
  World world;
  guint handler;

  g_snprintf (doing, sizeof doing, "%s: %s calls %s%s hangs\n", kind->name, caller_names[caller],
              actions[i].name, has_other ? " beside another thread" : "");
  alarm (N_PATIENT);
  world_set_up (&world, kind, caller);
  handler = g_log_set_handler ("Tarn", G_LOG_LEVEL_MASK, handle_message, &world);
  g_atomic_pointer_set (&world.action, actions[i].act);
  if (has_other)
    other = g_thread_new ("other", run_in_thread, &world);
  run (&world);
  if (other != NULL)
    g_thread_join (other);
  world_tear_down (&world);
  g_log_remove_handler ("Tarn", handler);
  alarm (0);
  return world.n_calls;
}

static void
run_all (const Kind *kind, gboolean has_other)
{
  for (guint caller = 0; caller < N_CALLERS; caller++)
    {
      guint n_calls = 0;

      for (guint i = caller % get_step (); i < G_N_ELEMENTS (actions); i += get_step ())
        n_calls += run_with (kind, (Caller) caller, i, has_other);
      g_test_message ("%s %u", caller_names[caller], n_calls);
    }
}

static void
test_alone (gconstpointer kind)
{
  run_all (kind, FALSE);
}

static void
test_beside_another (gconstpointer kind)
{
  run_all (kind, TRUE);
}

/* Each function is called by at least one kind of pool. */
static void
test_callers (void)
{
  for (guint caller = 0; caller < N_CALLERS; caller++)
    {
      guint n_calls = 0;

      for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
        n_calls += run_with (&kinds[i], (Caller) caller, 0, FALSE);
      if (n_calls == 0)
        g_error ("nothing comes by %s", caller_names[caller]);
    }
}

/* A log handler gets a message about a variable that is read once, and is the first to need its
 * value. */

typedef struct
{
  const gchar *variable, *value;
  const gchar *pattern; /* of the message */
} Wrong;

static const Wrong wrongs[] = {
  { "TARN_DEBUG", "nonsense", "*TARN_DEBUG: 'nonsense' is none of these*" },
  { "TARN_DEBUG", "exit=9", "*TARN_DEBUG names nothing to look for*" },
  { "TARN_FAULTS", "nonsense", "*TARN_FAULTS: 'nonsense' is none of*" },
  { "TARN_TRACE", "/nonexistent/trace", "*TARN_TRACE: /nonexistent/trace*" },
  { "TARN_TRACE_STACKS", "nonsense", "*TARN_TRACE_STACKS is 'nonsense'*" },
  { "TARN_SNAPSHOT_ON_OOM", "/nonexistent/snapshot", "*TARN_SNAPSHOT_ON_OOM: *nonexistent*" },
};

/* Makes a pool, has memory run out, and begins and ends a recording. */
static void
use_all (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (BUDGET);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  TarnPool *pool = tarn_pool_new (allocator, NULL, NULL);

  tarn_block_free (tarn_pool_allocate (pool, 1, NULL));
  g_assert_null (tarn_pool_allocate (pool, 2 * BUDGET, NULL));
  g_assert_true (tarn_trace_start ("/dev/null", NULL, NULL));
  g_assert_true (tarn_trace_stop (NULL));
  tarn_pool_unref (pool);
}

static void
print_and_use_all (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer data)
{
  (void) domain, (void) level, (void) data;
  g_print ("%s\n", message);
  use_all ();
}

static void
test_message_of_once (gconstpointer data)
{
  const Wrong *wrong = data;

  if (g_test_subprocess ())
    {
      g_log_set_handler ("Tarn", G_LOG_LEVEL_MASK, print_and_use_all, NULL);
      use_all ();
      return;
    }
  g_setenv (wrong->variable, wrong->value, TRUE);
  g_test_trap_subprocess (NULL, N_PATIENT * G_TIME_SPAN_SECOND, 0);
  g_unsetenv (wrong->variable);
  g_test_trap_assert_passed ();
  g_test_trap_assert_stdout (wrong->pattern);
}

static void
say_what_hangs (gint number)
{
  (void) number;
  if (write (STDERR_FILENO, doing, strlen (doing)) < 0)
    _exit (2);
  _exit (1);
}

static void
add_for_kind (const Kind *kind)
{
  g_autofree gchar *alone = g_strdup_printf ("/core/pool/call-backs/%s", kind->name);
  g_autofree gchar *beside
      = g_strdup_printf ("/core/pool/call-backs/%s/beside-another", kind->name);

  g_test_add_data_func (alone, kind, test_alone);
  g_test_add_data_func (beside, kind, test_beside_another);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  signal (SIGALRM, say_what_hangs);
  g_test_add_func ("/core/pool/call-backs/callers", test_callers);
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    add_for_kind (&kinds[i]);
  for (guint i = 0; i < G_N_ELEMENTS (wrongs); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/core/pool/call-backs/message-of-once/%u", i);

      g_test_add_data_func (path, &wrongs[i], test_message_of_once);
    }
  return g_test_run ();
}
