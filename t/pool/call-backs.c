/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Functions of the program that Tarn calls, such as a backend's, and that call Tarn back.  Each
 * of them calls each public function, for the pool and the heap that have just called it.  Some
 * of these calls fail; none hangs, and nothing is lost. */

#include "call-backs.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "lib/conformance.h"
#include "lib/step.h"

/* Seconds after which one script counts as hanging.  It takes milliseconds, but the machine may be
 * busy. */
#define N_PATIENT 60

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

/* What the handler of SIGALRM says. */
static gchar doing[200];

/* A program, which comes by each function of the backend */

static gboolean
reclaim (TarnPool *pool, gsize wanted, gpointer data)
{
  (void) pool;
  (void) wanted;
  world_call_back (data, BY_RECLAIM_FUNC);
  return FALSE;
}

static void
destroy (gpointer data)
{
  world_call_back (data, BY_DESTROY);
}

static void
handle_message (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer data)
{
  (void) domain;
  (void) message;
  g_assert_false (level & (G_LOG_LEVEL_CRITICAL | G_LOG_LEVEL_WARNING));
  world_call_back (data, BY_MESSAGE);
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
  _tarn_mutex_init (&world->lock);
  world->memory = g_hash_table_new_full (NULL, NULL, g_free, NULL);
  world->direct = world_allocator_new (world);
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
  while ((block = world_take_left (world)) != NULL)
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
  g_hash_table_unref (world->memory);
  _tarn_mutex_clear (&world->lock);
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
              world_actions[i].name, has_other ? " beside another thread" : "");
  alarm (N_PATIENT);
  world_set_up (&world, kind, caller);
  handler = g_log_set_handler ("Tarn", G_LOG_LEVEL_MASK, handle_message, &world);
  g_atomic_pointer_set (&world.action, world_actions[i].act);
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

      for (guint i = caller % get_step (); i < world_n_actions; i += get_step ())
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
  return g_test_run ();
}
