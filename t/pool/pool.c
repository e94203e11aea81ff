/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A pool's own behaviour, on the callback fake: which blocks it reuses, what it returns, sizes
 * that no counter can hold, wrong calls; and the conformance tests. */

#include <string.h>

#include "lib/nothing.h"
#include "lib/null-argument.h"
#include "lib/pool-fixture.h"
#include "pool/pool-private.h"

/* The fake as a backend of the conformance tests */

static gpointer
open_fake (gconstpointer unused, gchar **reason)
{
  (void) unused;
  (void) reason;
  return tarn_testing_device_new (G_MAXUINT64);
}

static void
close_fake (gpointer state)
{
  tarn_testing_device_free (state);
}

static TarnAllocator *
fake_allocator_new (gpointer state, GError **error)
{
  (void) error;
  return tarn_testing_device_allocator_new (state);
}

static void
set_budget (gpointer state, guint64 bytes)
{
  tarn_testing_device_set_budget (state, bytes);
}

static void
fail (gpointer state, guint nth, gboolean for_ever)
{
  tarn_testing_device_fail (state, nth, for_ever);
}

static gboolean
stop_failing (gpointer state)
{
  gboolean failed = tarn_testing_device_has_failed (state);

  tarn_testing_device_fail (state, 0, FALSE);
  return failed;
}

static guint
live (gpointer state)
{
  return tarn_testing_device_get_live (state);
}

static const Backend fake_backend = {
  .open = open_fake,
  .close = close_fake,
  .allocator_new = fake_allocator_new,
  .set_budget = set_budget,
  .fail = fail,
  .stop_failing = stop_failing,
  .live = live,
};

typedef PoolFixture Fixture;

static void
set_up (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  pool_fixture_init (fixture, G_MAXUINT64);
}

static void
test_last_in_first_out (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[5];

  (void) unused;
  for (guint i = 0; i < 5; i++)
    blocks[i] = allocate (fixture->pool, 1000 + i);
  for (guint i = 0; i < 5; i++)
    tarn_block_free (blocks[i]);
  for (guint i = 0; i < 5; i++)
    {
      TarnBlock *block = allocate (fixture->pool, 1023 - i);

      g_assert_true (block == blocks[4 - i]);
      g_assert_cmpuint (tarn_block_get_size (block), ==, 1023 - i);
    }
  for (guint i = 0; i < 5; i++)
    tarn_block_free (blocks[i]);
}

static void
test_double_free (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *block = allocate (fixture->pool, 1000);
  TarnMemory memory = tarn_block_get_memory (block);

  (void) unused;
  tarn_block_free (block);
  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, "*freed already*");
  tarn_block_free (block);
  g_test_assert_expected_messages ();
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), ==, 1);
  assert_valid (fixture->pool);

  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, "*not in use*");
  tarn_allocator_free_memory (TARN_ALLOCATOR (fixture->pool), memory, 1000);
  g_test_assert_expected_messages ();
  assert_valid (fixture->pool);
}

/* A pool whose last reference is gone gives back what it holds, and lives on. */
static void
test_unref_in_use (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[3];

  (void) unused;
  for (guint i = 0; i < 3; i++)
    blocks[i] = allocate (fixture->pool, 1000);
  tarn_block_free (blocks[0]);
  tarn_pool_unref (g_steal_pointer (&fixture->pool));
  g_assert_cmpuint (tarn_testing_device_get_live (fixture->device), ==, 2);
  tarn_block_free (blocks[2]);
  g_assert_cmpuint (tarn_testing_device_get_live (fixture->device), ==, 1);
  g_assert_cmpuint (tarn_block_get_size (blocks[1]), ==, 1000);
  tarn_block_free (blocks[1]);
  g_assert_cmpuint (tarn_testing_device_get_live (fixture->device), ==, 0);
}

static void
test_free_held (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *block = allocate (fixture->pool, 10);

  (void) unused;
  for (gsize size = 1; size < 1 << 20; size *= 3)
    tarn_block_free (allocate (fixture->pool, size));
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), ==, 13);
  tarn_pool_free_held (fixture->pool);
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), ==, 0);
  g_assert_cmpuint (tarn_testing_device_get_live (fixture->device), ==, 1);
  tarn_block_free (block);
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), ==, 1);
  tarn_pool_stop_holding (fixture->pool);
  tarn_block_free (allocate (fixture->pool, 10));
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), ==, 0);
}

/* The largest first, and no more than needed. */
static void
test_trim (Fixture *fixture, gconstpointer unused)
{
  static const gsize sizes[] = { 1023, 255, 2047, 511 };
  static const struct
  {
    gsize keep_bytes, held_bytes;
  } steps[] = {
    { G_MAXSIZE, 3836 }, { 3836, 3836 }, { 3835, 1789 }, { 767, 766 },
    { 766, 766 },        { 256, 255 },   { 1, 0 },       { 0, 0 },
  };
  TarnBlock *blocks[4];

  (void) unused;
  for (guint i = 0; i < 4; i++)
    blocks[i] = allocate (fixture->pool, sizes[i]);
  for (guint i = 0; i < 4; i++)
    tarn_block_free (blocks[i]);
  for (guint i = 0; i < G_N_ELEMENTS (steps); i++)
    {
      TarnPoolStats stats = TARN_POOL_STATS_INIT;

      tarn_pool_trim (fixture->pool, steps[i].keep_bytes);
      tarn_pool_get_stats (fixture->pool, &stats);
      g_assert_cmpuint (stats.held_bytes, ==, steps[i].held_bytes);
      assert_valid (fixture->pool);
    }
  blocks[0] = allocate (fixture->pool, 255); /* it goes on holding */
  tarn_block_free (blocks[0]);
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), ==, 1);
}

/* Sizes whose sum no counter can hold: nothing changes. */
static void
test_invalid_size (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *half = allocate (fixture->pool, G_MAXSSIZE);
  TarnBlock *most = allocate (fixture->pool, G_MAXSSIZE - 1000);
  TarnPoolStats before = TARN_POOL_STATS_INIT, after = TARN_POOL_STATS_INIT;
  g_autoptr (GError) error = NULL;
  TarnBlock *block;

  (void) unused;
  g_assert_cmpuint (tarn_block_get_alloc_size (half), ==, G_MAXSSIZE);
  g_assert_cmpuint (tarn_block_get_alloc_size (most), ==, G_MAXSSIZE);
  tarn_pool_get_stats (fixture->pool, &before);
  block = tarn_pool_allocate (fixture->pool, 2, &error);
  g_assert_null (block);
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_SIZE);
  tarn_pool_get_stats (fixture->pool, &after);
  g_assert_cmpuint (after.failures, ==, before.failures + 1);
  after.failures = before.failures;
  g_assert_cmpmem (&after, sizeof after, &before, sizeof before);
  g_assert_cmpuint (tarn_testing_device_get_allocate_calls (fixture->device), ==, 2);
  tarn_block_free (most);
  tarn_block_free (half);
}

/* Where only rounding overflows, the exact size is what is left to try. */
static void
test_rounding_overflows (Fixture *fixture, gconstpointer unused)
{
  const gsize quarter = G_MAXSSIZE / 2 + 1;
  TarnBlock *first = allocate (fixture->pool, G_MAXSSIZE);
  TarnBlock *other = allocate (fixture->pool, quarter - 1);
  TarnBlock *second = allocate (fixture->pool, quarter + 1);

  (void) unused;
  g_assert_cmpuint (tarn_block_get_alloc_size (second), ==, quarter + 1);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (fixture->pool), ==, G_MAXSIZE);
  tarn_block_free (other);
  tarn_block_free (first);
  tarn_block_free (second);
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), ==, 2);
}

/* Bytes that are only held do not stand in the way. */
static void
test_held_bytes_overflow (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *block;

  (void) unused;
  tarn_block_free (allocate (fixture->pool, 100));
  tarn_block_free (allocate (fixture->pool, G_MAXSSIZE));
  tarn_block_free (allocate (fixture->pool, G_MAXSSIZE / 16 * 15));
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), ==, 3);
  block = allocate (fixture->pool, G_MAXSSIZE / 2);
  g_assert_cmpuint (tarn_block_get_alloc_size (block), ==, G_MAXSSIZE / 2);
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), ==, 2);
  tarn_block_free (block);
}

static void
assert_invalid (TarnPool *pool)
{
  g_autofree gchar *violation = _tarn_pool_check (pool);

  g_assert_nonnull (violation);
}

/* The check itself: each lie is found. */
static void
test_check (Fixture *fixture, gconstpointer unused)
{
  TarnPool *pool = fixture->pool;
  g_autoptr (TarnBlock) active = allocate (pool, 1000);
  TarnBlock *held = allocate (pool, 5000);
  const struct
  {
    gsize *where;
    gssize by;
  } lies[] = {
    { &pool->stats.managed_bytes, 1 },
    { &pool->stats.active_bytes, -1 },
    { &pool->stats.held_bytes, 1 },
    { &pool->stats.held_blocks, 1 },
    { &pool->blocks.n, 1 },
    { &pool->stats.peak_managed_bytes, -1000 },
    { &active->alloc_size, 1 },
    { &held->alloc_size, 1000 },
  };

  (void) unused;
  tarn_block_free (held);
  assert_valid (pool);
  for (guint i = 0; i < G_N_ELEMENTS (lies); i++)
    {
      *lies[i].where += (gsize) lies[i].by;
      assert_invalid (pool);
      *lies[i].where -= (gsize) lies[i].by;
      assert_valid (pool);
    }

  held->bin++;
  assert_invalid (pool);
  held->bin--;
  pool->store.n_recorded[1]++;
  assert_invalid (pool);
  pool->store.n_recorded[1]--;
  held->state = TARN_BLOCK_ACTIVE;
  assert_invalid (pool);
  held->state = TARN_BLOCK_HELD;
  held->exact = TRUE;
  assert_invalid (pool);
  held->exact = FALSE;
  pool->store.has_ended = TRUE;
  assert_invalid (pool);
  pool->store.has_ended = FALSE;
}

/* An error that somebody forgot is told of by hits, too, and nothing is handed out. */
static void
test_error_left (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (GError) error = g_error_new_literal (TARN_ERROR, TARN_ERROR_FAILED, "left");

  (void) unused;
  for (guint i = 0; i < 3; i++)
    tarn_block_free (allocate (fixture->pool, 1000));
  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, "*error == NULL*");
  g_assert_null (tarn_pool_allocate (fixture->pool, 1000, &error));
  g_test_assert_expected_messages ();
  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, "*error == NULL*");
  g_assert_null (tarn_pool_allocate_ordered (fixture->pool, 1000, fixture, &error));
  g_test_assert_expected_messages ();
  g_assert_cmpuint (tarn_pool_get_active_blocks (fixture->pool), ==, 0);
}

/* An allocator that asks the pool for other memory before its own huge piece is taken in. */
typedef struct
{
  TarnPool *pool;
  guint n_live;
} Slow;

static gboolean
allocate_slowly (gpointer data, gsize size, TarnMemory *memory, GError **error)
{
  Slow *slow = data;

  memory->address = ++slow->n_live;
  (void) error;
  if (slow->n_live == 1)
    tarn_block_free (allocate (slow->pool, G_MAXSSIZE - 1000));
  else if (size > 1023)
    assert_fails (slow->pool, 1000, TARN_ERROR_INVALID_SIZE);
  return TRUE;
}

static void
free_slow (gpointer data, TarnMemory memory, gsize size)
{
  Slow *slow = data;

  (void) memory;
  (void) size;
  slow->n_live--;
}

/* What is being asked for counts already, also without a limit. */
static void
test_overflow_meanwhile (void)
{
  Slow slow = { NULL, 0 };
  TarnBlock *block;
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  g_autoptr (TarnAllocator) allocator = NULL;
  g_autoptr (GError) error = NULL;

  ops.allocate = allocate_slowly;
  ops.free = free_slow;
  allocator = tarn_allocator_new (&ops, &slow, NULL);
  slow.pool = tarn_pool_new (allocator, NULL, NULL);
  block = tarn_pool_allocate (slow.pool, G_MAXSSIZE, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (slow.n_live, ==, 2);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (slow.pool), ==, G_MAXSIZE - 1);
  assert_valid (slow.pool);
  tarn_block_free (block);
  tarn_pool_unref (slow.pool);
  g_assert_cmpuint (slow.n_live, ==, 0);
}

static void
test_name (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (fixture->device);
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  gchar name[] = "scratch";
  g_autoptr (TarnPool) named = NULL;
  g_autoptr (TarnPool) unnamed = tarn_pool_new (allocator, &options, NULL);

  (void) unused;
  options.name = name;
  named = tarn_pool_new (allocator, &options, NULL);
  name[0] = 'S';
  g_assert_cmpstr (tarn_pool_get_name (named), ==, "scratch");
  g_assert_null (tarn_pool_get_name (unnamed));
}

/* What mistakes a pool looks for; those that are the program's are none of a pool's. */
static void
test_debug (void)
{
  static const struct
  {
    const gchar *words;
    gboolean is_debugged;
  } right[] = { { NULL, FALSE }, { "", FALSE },        { "check=1", FALSE },
                { "all", TRUE }, { " leaks ,", TRUE }, { "quarantine=0", TRUE } };
  static const gchar *const wrong[] = { "x", "exit=9", "stacks=3", "leaks=1" };
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnAllocator) allocator = NULL;

  nothing_ops_init (&ops);
  allocator = tarn_allocator_new (&ops, NULL, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (right); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (TarnPool) pool = NULL;

      options.debug = right[i].words;
      pool = tarn_pool_new (allocator, &options, &error);
      g_assert_no_error (error);
      g_assert_cmpint (tarn_pool_is_debugged (pool), ==, right[i].is_debugged);
      tarn_block_free (tarn_pool_allocate (pool, 1000, &error));
      g_assert_no_error (error);
      g_assert_cmpuint (tarn_pool_get_held_blocks (pool), ==, !right[i].is_debugged);
    }
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree gchar *words = g_strdup_printf ("guards,%s", wrong[i]);
      g_autofree gchar *text = g_strdup_printf ("debug: '%s' is none of these: guards, ", wrong[i]);

      options.debug = words;
      g_assert_null (tarn_pool_new (allocator, &options, &error));
      g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
      g_assert_true (g_str_has_prefix (error->message, text));
    }
}

static void
test_null_arguments (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *block = tarn_pool_allocate (fixture->pool, 1, NULL);
  TarnMemory memory;

  (void) unused;
  REFUSES_NULL (tarn_pool_new (NULL, NULL, &error) != NULL, "upstream");
  REFUSES_NULL (tarn_heap_allocator_new (NULL, NULL, &error) != NULL, "upstream");
  REFUSES_NULL (tarn_pool_allocate (NULL, 1, &error) != NULL, "pool");
  REFUSES_NULL (tarn_pool_allocate_ordered (NULL, 1, &memory, &error) != NULL, "pool");
  REFUSES_NULL (tarn_pool_charge (NULL, 1, &error), "pool");
  REFUSES_NULL (tarn_pool_forget_queue (NULL, &memory, &error), "pool");
  REFUSES_NULL (tarn_pool_forget_queue (fixture->pool, NULL, &error), "queue");
  REFUSES_NULL (tarn_allocator_allocate (NULL, 1, &error) != NULL, "allocator");
  REFUSES_NULL (tarn_allocator_allocate_memory (NULL, 1, &memory, &error), "allocator");
  REFUSES_NULL (tarn_block_record_use (NULL, &memory, &error), "block");
  REFUSES_NULL (tarn_block_record_use (block, NULL, &error), "queue");
  REFUSES_NULL (tarn_block_move_to_queue (NULL, &memory, &error), "block");
  REFUSES_NULL (tarn_block_move_to_queue (block, NULL, &error), "queue");
  REFUSES_NULL (tarn_block_wait (NULL, &error), "block");
  REFUSES_NULL (tarn_memo_get (NULL, &memory, &memory, NULL, &error), "memo");
  g_assert_null (tarn_pool_new (NULL, NULL, NULL)); /* who wants no error has none */
  tarn_block_free (block);
}

int
main (int argc, char **argv)
{
#define ADD(path, func)                                                                            \
  g_test_add ("/core/pool/" path, Fixture, NULL, set_up, func, pool_fixture_tear_down)
  g_test_init (&argc, &argv, NULL);
  conformance_add ("/core/fake", &fake_backend);
  g_test_add_func ("/core/pool/debug", test_debug);
  ADD ("last-in-first-out", test_last_in_first_out);
  ADD ("double-free", test_double_free);
  ADD ("unref-in-use", test_unref_in_use);
  ADD ("free-held", test_free_held);
  ADD ("trim", test_trim);
  ADD ("name", test_name);
  ADD ("null-arguments", test_null_arguments);
  ADD ("invalid-size", test_invalid_size);
  ADD ("rounding-overflows", test_rounding_overflows);
  ADD ("held-bytes-overflow", test_held_bytes_overflow);
  ADD ("check", test_check);
  ADD ("error-left", test_error_left);
  g_test_add_func ("/core/pool/overflow-meanwhile", test_overflow_meanwhile);
  return g_test_run ();
}
