/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Each public function in a child of fork (), where another thread of the parent may have had any
 * lock: it returns, and calls nothing of the backend.  libtarn.map says which functions there are.
 */

#include <stdlib.h>
#include <tarn/tarn.h>

#include "heap/heap-private.h"
#include "lib/fork-functions.h"
#include "memo/memo-private.h"
#include "pool/pool-private.h"
#include "record/record-private.h"

#define N_ALLOCATORS 300 /* so that going through all of them takes its time */

/* What there is in the parent */

typedef struct
{
  TarnAllocator *allocator, *heap;
  TarnPool *pool, *over_heap;
  TarnBlock *block, *direct, *other;
  TarnMemory bare;
  TarnMemo *memo;
  TarnReclaimGroup *group;
  TarnAllocator *many[N_ALLOCATORS];
  gint queue;
} World;

static guint n_calls; /* of the backend, in this process; atomic */

static void
count (void)
{
  g_atomic_int_inc (&n_calls);
}

static gboolean
allocate (gpointer data, gsize size, TarnMemory *memory, GError **error)
{
  (void) data;
  (void) error;
  count ();
  memory->pointer = malloc (MAX (size, 1));
  return TRUE;
}

static void
release (gpointer data, TarnMemory memory, gsize size)
{
  (void) data;
  (void) size;
  count ();
  free (memory.pointer);
}

static gboolean
make_part (gpointer data, TarnMemory memory, gsize offset, gsize size, TarnMemory *part,
           GError **error)
{
  (void) data;
  (void) size;
  (void) error;
  count ();
  part->address = memory.address + offset;
  return TRUE;
}

static gboolean
ref_queue (gpointer data, gpointer queue, gboolean *in_order, GError **error)
{
  (void) data;
  (void) queue;
  (void) error;
  count ();
  *in_order = TRUE;
  return TRUE;
}

static void
unref_queue (gpointer data, gpointer queue)
{
  (void) data;
  (void) queue;
  count ();
}

static gpointer
record (gpointer data, gpointer queue, GError **error)
{
  (void) data;
  (void) queue;
  (void) error;
  count ();
  return g_malloc (1);
}

static gboolean
is_done (gpointer data, gpointer event)
{
  (void) data;
  (void) event;
  count ();
  return TRUE;
}

static gboolean
wait_for (gpointer data, gpointer event, gpointer queue, GError **error)
{
  (void) data;
  (void) event;
  (void) queue;
  (void) error;
  count ();
  return TRUE;
}

static void
release_event (gpointer data, gpointer event)
{
  (void) data;
  count ();
  g_free (event);
}

static gpointer
get_fresh_queue (gpointer data)
{
  (void) data;
  count ();
  return NULL;
}

static gboolean
reclaim (TarnPool *pool, gsize wanted, gpointer data)
{
  (void) pool;
  (void) wanted;
  (void) data;
  return FALSE;
}

static TarnPool *
redirect (TarnPool *pool, gpointer queue, gpointer data, GError **error)
{
  (void) pool;
  (void) queue;
  (void) data;
  (void) error;
  return NULL;
}

static gpointer
compute (gpointer first_arg, gconstpointer key, gpointer data, GError **error)
{
  (void) first_arg;
  (void) data;
  (void) error;
  count ();
  return (gpointer) key;
}

static TarnAllocatorOps
make_ops (void)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

  ops.allocate = allocate;
  ops.free = release;
  ops.queue_ref = ref_queue;
  ops.queue_unref = unref_queue;
  ops.event_record = record;
  ops.event_is_done = is_done;
  ops.event_wait = wait_for;
  ops.event_release = release_event;
  ops.fresh_queue = get_fresh_queue;
  ops.part_alignment = 512;
  ops.part_new = make_part;
  return ops;
}

static TarnAllocator *
make_allocator (void)
{
  TarnAllocatorOps ops = make_ops ();

  return tarn_allocator_new (&ops, NULL, NULL);
}

static TarnMemo *
make_memo (void)
{
  TarnMemoOps ops = TARN_MEMO_OPS_INIT;

  ops.hash = g_str_hash;
  ops.equal = g_str_equal;
  return tarn_memo_new (&ops, compute, NULL, NULL);
}

static void
world_init (World *w)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  gpointer value;

  options.flags = TARN_POOL_FINDABLE;
  w->allocator = make_allocator ();
  w->heap = tarn_heap_allocator_new (w->allocator, NULL, NULL);
  w->pool = tarn_pool_new (w->allocator, &options, NULL);
  w->over_heap = tarn_pool_new (w->heap, NULL, NULL);
  w->block = tarn_pool_allocate_ordered (w->pool, 1000, &w->queue, NULL);
  w->other = tarn_pool_allocate_ordered (w->over_heap, 1000, &w->queue, NULL);
  w->direct = tarn_allocator_allocate (w->allocator, 1000, NULL);
  g_assert_true (tarn_allocator_allocate_memory (w->allocator, 100, &w->bare, NULL));
  tarn_block_free (tarn_pool_allocate (w->pool, 5000, NULL));
  w->group = tarn_reclaim_group_new ();
  tarn_pool_set_reclaim_group (w->pool, w->group);
  w->memo = make_memo ();
  for (guint i = 0; i < N_ALLOCATORS; i++)
    w->many[i] = make_allocator ();
  g_assert_true (tarn_memo_get (w->memo, w, "there", &value, NULL));
}

/* The functions */

static const TarnSelectionDevice device = { .name = "D", .vendor = "V" };
static const TarnSelectionPlatform platform
    = { .name = "P", .vendor = "V", .devices = &device, .n_devices = 1 };
static TarnAllocatorOps ops_of_allocator = TARN_ALLOCATOR_OPS_INIT;
static TarnPoolStats pool_stats = TARN_POOL_STATS_INIT;
static TarnBudget budget = TARN_BUDGET_INIT;
static TarnHeapStats heap_stats = TARN_HEAP_STATS_INIT;
static TarnMemoStats memo_stats = TARN_MEMO_STATS_INIT;
static TarnTraceStats trace_stats = TARN_TRACE_STATS_INIT;
static const TarnLocalMemory local = { sizeof (TarnLocalMemory), 32, 4, 16, 0 };
static const TarnMemoKeyTuple tuple = { NULL, 0 };
static const gsize shape[] = { 4 };
static TarnMemory memory;
static gpointer value;

#define FUNCTIONS(X)                                                                               \
  X (tarn_allocator_allocate, FORKED, (w->allocator, 100, error))                                  \
  X (tarn_allocator_allocate_memory, FORKED, (w->allocator, 100, &memory, error))                  \
  X (tarn_allocator_free_memory, QUIET, (w->allocator, w->bare, 100))                              \
  X (tarn_allocator_get_direct, QUIET, (w->allocator))                                             \
  X (tarn_allocator_get_name, QUIET, (w->allocator))                                               \
  X (tarn_allocator_get_ops, QUIET, (w->allocator, &ops_of_allocator))                             \
  X (tarn_allocator_get_user_data, QUIET, (w->allocator))                                          \
  X (tarn_allocator_is_deferred, QUIET, (w->allocator))                                            \
  X (tarn_allocator_is_of, QUIET, (w->allocator, release))                                         \
  X (tarn_allocator_new, QUIET, (&ops, NULL, NULL))                                                \
  X (tarn_allocator_ref, QUIET, (w->allocator))                                                    \
  X (tarn_allocator_unref, QUIET, (w->allocator))                                                  \
  X (tarn_block_free, QUIET, (w->block))                                                           \
  X (tarn_block_free_on, QUIET, (w->block, &w->bare))                                              \
  X (tarn_block_ref, QUIET, (w->block))                                                            \
  X (tarn_block_get_alloc_size, QUIET, (w->block))                                                 \
  X (tarn_block_get_allocator, QUIET, (w->block))                                                  \
  X (tarn_block_get_memory, QUIET, (w->block))                                                     \
  X (tarn_block_get_queue, QUIET, (w->block))                                                      \
  X (tarn_block_get_size, QUIET, (w->block))                                                       \
  X (tarn_block_hide, QUIET, (w->block))                                                           \
  X (tarn_block_move_to_queue, FORKED, (w->block, &w->bare, error))                                \
  X (tarn_block_record_use, FORKED, (w->block, &w->bare, error))                                   \
  X (tarn_block_wait, FORKED, (w->block, error))                                                   \
  X (tarn_check_fork, FORKED, (error))                                                             \
  X (tarn_clock_set, QUIET, (NULL))                                                                \
  X (tarn_debug_check, QUIET, ())                                                                  \
  X (tarn_debug_note_free, QUIET, (w->block))                                                      \
  X (tarn_debug_report_use, QUIET, (w->block))                                                     \
  X (tarn_error_is_no_memory, QUIET, (NULL))                                                       \
  X (tarn_error_quark, QUIET, ())                                                                  \
  X (tarn_get_version, QUIET, ())                                                                  \
  X (tarn_heap_allocator_new, FORKED, (w->allocator, NULL, error))                                 \
  X (tarn_heap_get_stats, QUIET, (w->heap, &heap_stats))                                           \
  X (tarn_heap_set_idle_seconds, QUIET, (w->heap, 1))                                              \
  X (tarn_local_memory_conflict, QUIET, (&local, 4, 1, shape, NULL, NULL, NULL, NULL))             \
  X (tarn_memo_clear, QUIET, (w->memo))                                                            \
  X (tarn_memo_clear_all, QUIET, ())                                                               \
  X (tarn_memo_clear_kind, QUIET, ("kind"))                                                        \
  X (tarn_memo_forget, QUIET, (w->memo, w))                                                        \
  X (tarn_memo_forget_everywhere, QUIET, (w))                                                      \
  X (tarn_memo_get, FORKED, (w->memo, w, "not there", &value, error))                              \
  X (tarn_memo_get_stats, QUIET, (w->memo, &memo_stats))                                           \
  X (tarn_memo_key_tuple_copy, QUIET, (&tuple))                                                    \
  X (tarn_memo_key_tuple_equal, QUIET, (&tuple, &tuple))                                           \
  X (tarn_memo_key_tuple_free, QUIET, (NULL))                                                      \
  X (tarn_memo_key_tuple_hash, QUIET, (&tuple))                                                    \
  X (tarn_memo_new, QUIET, (&memo_ops, compute, NULL, NULL))                                       \
  X (tarn_memo_ref, QUIET, (w->memo))                                                              \
  X (tarn_memo_unref, QUIET, (w->memo))                                                            \
  X (tarn_pool_add_reclaim_func, QUIET, (w->pool, reclaim, NULL, NULL))                            \
  X (tarn_pool_alloc_size, QUIET, (w->pool, 100))                                                  \
  X (tarn_pool_allocate, FORKED, (w->over_heap, 1000, error))                                      \
  X (tarn_pool_allocate_aligned, FORKED, (w->pool, 1000, 4096, &w->queue, error))                  \
  X (tarn_pool_allocate_ordered, FORKED, (w->pool, 1000, &w->queue, error))                        \
  X (tarn_pool_allocate_timeout, FORKED, (w->pool, 1000, &w->queue, -1, error))                    \
  X (tarn_pool_bin_number, QUIET, (w->pool, 1000))                                                 \
  X (tarn_pool_charge, FORKED, (w->pool, 1000, error))                                             \
  X (tarn_pool_find, QUIET, (w->pool, tarn_block_get_memory (w->block)))                           \
  X (tarn_pool_forget_queue, QUIET, (w->pool, &w->queue, error))                                   \
  X (tarn_pool_free_held, QUIET, (w->pool))                                                        \
  X (tarn_pool_free_memory, QUIET, (w->pool, tarn_block_get_memory (w->block), NULL, error))       \
  X (tarn_pool_get_active_blocks, QUIET, (w->pool))                                                \
  X (tarn_pool_get_active_bytes, QUIET, (w->pool))                                                 \
  X (tarn_pool_get_budget, FORKED, (w->pool, &budget, error))                                      \
  X (tarn_pool_get_charged_bytes, QUIET, (w->pool))                                                \
  X (tarn_pool_get_generation, QUIET, (w->over_heap))                                              \
  X (tarn_pool_get_held_blocks, QUIET, (w->pool))                                                  \
  X (tarn_pool_get_hold_bytes, QUIET, (w->pool))                                                   \
  X (tarn_pool_get_limit_bytes, QUIET, (w->pool))                                                  \
  X (tarn_pool_get_managed_bytes, QUIET, (w->pool))                                                \
  X (tarn_pool_get_name, QUIET, (w->pool))                                                         \
  X (tarn_pool_get_reclaim_group, QUIET, (w->pool))                                                \
  X (tarn_pool_get_stats, QUIET, (w->pool, &pool_stats))                                           \
  X (tarn_pool_get_upstream, QUIET, (w->pool))                                                     \
  X (tarn_pool_is_debugged, QUIET, (w->pool))                                                      \
  X (tarn_pool_new, FORKED, (w->allocator, NULL, error))                                           \
  X (tarn_pool_ref, QUIET, (w->pool))                                                              \
  X (tarn_pool_remove_reclaim_func, QUIET, (w->pool, 1))                                           \
  X (tarn_pool_reserve, FORKED, (w->pool, 1000, &w->queue, error))                                 \
  X (tarn_pool_reset_peaks, QUIET, (w->pool))                                                      \
  X (tarn_pool_set_hold_bytes, QUIET, (w->over_heap, 1))                                           \
  X (tarn_pool_set_limit_bytes, QUIET, (w->over_heap, 1))                                          \
  X (tarn_pool_set_reclaim_group, QUIET, (w->over_heap, w->group))                                 \
  X (tarn_pool_set_redirect_func, QUIET, (w->pool, redirect, NULL, NULL))                          \
  X (tarn_pool_stats_to_string, QUIET, (&pool_stats))                                              \
  X (tarn_pool_stop_holding, QUIET, (w->pool))                                                     \
  X (tarn_pool_trim, QUIET, (w->pool, 0))                                                          \
  X (tarn_pool_uncharge, QUIET, (w->pool, 1000))                                                   \
  X (tarn_pool_unref, QUIET, (w->pool))                                                            \
  X (tarn_reclaim_group_new, QUIET, ())                                                            \
  X (tarn_reclaim_group_ref, QUIET, (w->group))                                                    \
  X (tarn_reclaim_group_unref, QUIET, (w->group))                                                  \
  X (tarn_selection_add_kind, QUIET, ("child"))                                                    \
  X (tarn_selection_format_uuid, QUIET, ((const guint8 *) "0123456789abcdef"))                     \
  X (tarn_selection_make_selector, QUIET, (&platform, 1, (TarnSelectionItem){ 0, 0 }))             \
  X (tarn_selection_resolve, QUIET, ("kind:0", TARN_SELECTION_STRICT, &platform, 1, NULL))         \
  X (tarn_snapshot_on_signal, FORKED, (SIGUSR2, "/nowhere/at/all", error))                         \
  X (tarn_snapshot_set_follow, QUIET, (TRUE))                                                      \
  X (tarn_snapshot_write, FORKED, ("/nowhere/at/all", error))                                      \
  X (tarn_tag_pop, QUIET, ())                                                                      \
  X (tarn_tag_push, QUIET, ("child"))                                                              \
  X (tarn_trace_get_stats, QUIET, (&trace_stats))                                                  \
  X (tarn_trace_start, FORKED, ("/dev/null", NULL, error))                                         \
  X (tarn_trace_stop, FORKED, (error))

/* Results in a child end with it. */
#pragma GCC diagnostic ignored "-Wunused-result"
#define DEFINE(name, expected, arguments)                                                          \
  static void call_##name (gpointer world, GError **error)                                         \
  {                                                                                                \
    World *w = world;                                                                              \
    TarnAllocatorOps ops = make_ops ();                                                            \
    TarnMemoOps memo_ops = TARN_MEMO_OPS_INIT;                                                     \
                                                                                                   \
    (void) w;                                                                                      \
    (void) error;                                                                                  \
    (void) ops;                                                                                    \
    (void) memo_ops;                                                                               \
    (void) name arguments;                                                                         \
  }
FUNCTIONS (DEFINE)

#define ROW(name, expected, arguments) { #name, call_##name, expected },
static const ForkFunction functions[] = { FUNCTIONS (ROW) };

/* The children */

static guint
count_calls (void)
{
  return (guint) g_atomic_int_get (&n_calls);
}

static gboolean is_ending; /* atomic */

static const ForkHooks hooks = { .count_calls = count_calls };

/* Takes each lock of the library's own, over and over. */
static gpointer
be_busy (gpointer data)
{
  World *w = data;
  gpointer computed;

  while (!g_atomic_int_get (&is_ending))
    {
      tarn_trace_start ("/dev/null", NULL, NULL);
      tarn_allocator_unref (make_allocator ());
      tarn_tag_push ("busy");
      tarn_tag_pop ();
      tarn_debug_check ();
      tarn_memo_get (w->memo, w, "busy", &computed, NULL);
      tarn_memo_unref (make_memo ());
      tarn_selection_add_kind ("busy");
      tarn_snapshot_on_signal (SIGUSR1, NULL, NULL);
      tarn_trace_stop (NULL);
      fork_functions_use_glib ();
    }
  return NULL;
}

static gboolean is_locked; /* atomic */

/* Has the locks of what there is for as long as there are children. */
static gpointer
hold_locks (gpointer data)
{
  World *w = data;

  _tarn_mutex_lock (&w->pool->lock);
  _tarn_mutex_lock (&w->over_heap->lock);
  _tarn_mutex_lock (&_tarn_heap_of (w->heap)->lock);
  g_atomic_int_set (&is_locked, TRUE);
  while (!g_atomic_int_get (&is_ending))
    g_usleep (1000);
  _tarn_mutex_unlock (&_tarn_heap_of (w->heap)->lock);
  _tarn_mutex_unlock (&w->over_heap->lock);
  _tarn_mutex_unlock (&w->pool->lock);
  return NULL;
}

/* Waits for a pool's lock, and has the lock of the list of all allocators. */
static gpointer
wait_for_lock (gpointer unused)
{
  (void) unused;
  tarn_snapshot_write ("/nowhere/at/all", NULL);
  return NULL;
}

static void
world_clear (World *w)
{
  tarn_block_free (w->block);
  tarn_block_free (w->other);
  tarn_block_free (w->direct);
  tarn_allocator_free_memory (w->allocator, w->bare, 100);
  tarn_pool_unref (w->over_heap);
  tarn_pool_unref (w->pool);
  tarn_reclaim_group_unref (w->group);
  tarn_memo_unref (w->memo);
  for (guint i = 0; i < N_ALLOCATORS; i++)
    tarn_allocator_unref (w->many[i]);
  tarn_allocator_unref (w->heap);
  tarn_allocator_unref (w->allocator);
}

static void
check (gboolean has_locks)
{
  World w = { .heap = NULL };
  GThread *holder = NULL, *busy;
  guint n_wrong;

  world_init (&w);
  is_ending = is_locked = FALSE;
  if (has_locks)
    holder = g_thread_new ("locks", hold_locks, &w);
  while (has_locks && !g_atomic_int_get (&is_locked))
    g_usleep (100);
  busy = fork_functions_start_busy (has_locks ? wait_for_lock : be_busy, &w);
  if (has_locks)
    _tarn_follow (TARN_FOLLOW_FOR_RECORDING, TRUE); /* as in the middle of tarn_trace_stop () */
  n_wrong = fork_functions_try (functions, G_N_ELEMENTS (functions), &w, &hooks);
  if (has_locks)
    _tarn_follow (TARN_FOLLOW_FOR_RECORDING, FALSE);
  g_atomic_int_set (&is_ending, TRUE);
  if (has_locks)
    g_thread_join (holder);
  g_thread_join (busy);
  world_clear (&w);
  g_assert_cmpuint (n_wrong, ==, 0);
}

/* The busy thread begins and ends what it does over and over. */
static void
test_busy (void)
{
  check (FALSE);
}

/* Other threads have locks all the time: the pools', the heap's, and that of the list of all. */
static void
test_locked (void)
{
  check (TRUE);
}

/* Each function that libtarn exports is tried. */
static void
test_map (void)
{
  fork_functions_check_map ("core", "libtarn.map", functions, G_N_ELEMENTS (functions));
}

int
main (int argc, char **argv)
{
  fork_functions_init (&argc, &argv);
  g_test_add_func ("/core/fork/map", test_map);
  g_test_add_func ("/core/fork/functions/busy", test_busy);
  g_test_add_func ("/core/fork/functions/locked", test_locked);
  return g_test_run ();
}
