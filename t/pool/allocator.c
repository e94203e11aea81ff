/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Allocators without a pool: names, optional functions, memory whose value says nothing, and
 * functions that do not keep to the rules. */

#include "lib/nothing.h"
#include "lib/pool-fixture.h"

static gboolean
fail_silently (gpointer unused, gsize size, TarnMemory *memory, GError **error)
{
  (void) unused;
  (void) size;
  (void) memory;
  (void) error;
  return FALSE;
}

static void
forget_queue (gpointer unused, gpointer queue)
{
  (void) unused;
  (void) queue;
}

static void
test_no_error (void)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  g_autoptr (TarnAllocator) allocator = NULL;
  g_autoptr (TarnPool) pool = NULL;
  g_autoptr (GError) error = NULL;

  nothing_ops_init (&ops);
  ops.name = "silent";
  ops.allocate = fail_silently;
  allocator = tarn_allocator_new (&ops, NULL, NULL);
  pool = tarn_pool_new (allocator, NULL, NULL);
  g_assert_null (tarn_pool_allocate (pool, 1000, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_FAILED);
  g_assert_cmpstr (error->message, ==,
                   "an unnamed pool: 1000 bytes asked for: allocator 'silent' failed without "
                   "saying why, for 1000 bytes");
  g_assert_null (tarn_pool_allocate (pool, 1000, NULL));
}

/* What has no name is not called by one. */
static void
test_names (void)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnAllocator) unnamed = NULL;
  g_autoptr (TarnAllocator) named = NULL;
  g_autoptr (TarnPool) pool = NULL;
  g_autoptr (TarnPool) outer = NULL;
  g_autoptr (GError) error = NULL;

  nothing_ops_init (&ops);
  ops.allocate = fail_silently;
  unnamed = tarn_allocator_new (&ops, NULL, NULL);
  ops.name = "named";
  named = tarn_allocator_new (&ops, NULL, NULL);
  options.name = "inner";
  pool = tarn_pool_new (unnamed, &options, NULL);
  outer = tarn_pool_new (TARN_ALLOCATOR (pool), NULL, NULL);
  g_assert_null (tarn_allocator_get_name (unnamed));
  g_assert_cmpstr (tarn_allocator_get_name (named), ==, "named");
  g_assert_cmpstr (tarn_allocator_get_name (TARN_ALLOCATOR (pool)), ==, "inner");
  g_assert_null (tarn_allocator_get_name (TARN_ALLOCATOR (outer)));
  g_assert_null (tarn_pool_allocate (outer, 1000, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_FAILED);
  g_assert_cmpstr (error->message, ==,
                   "an unnamed pool: 1000 bytes asked for: pool 'inner': 1000 bytes asked for: an "
                   "unnamed allocator failed without saying why, for 1000 bytes");
}

/* Messages quote names: at most 60 characters, and none that a terminal acts on. */
static void
test_quoted_names (void)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autofree gchar *xs = g_strnfill (100, 'x');
  g_autofree gchar *name = g_strconcat ("\x1b[2J\n", xs, NULL);
  g_autofree gchar *expected
      = g_strdup_printf ("pool '\\x1b[2J\\x0a%.55s...': 1000 bytes asked for: allocator "
                         "'silent\\x07' failed without saying why, for 1000 bytes",
                         xs);
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  g_autoptr (TarnAllocator) allocator = NULL;
  g_autoptr (TarnPool) pool = NULL;
  g_autoptr (GError) error = NULL;

  nothing_ops_init (&ops);
  ops.name = "silent\a";
  ops.allocate = fail_silently;
  allocator = tarn_allocator_new (&ops, NULL, NULL);
  options.name = name;
  pool = tarn_pool_new (allocator, &options, NULL);
  g_assert_null (tarn_pool_allocate (pool, 1000, &error));
  g_assert_cmpstr (error->message, ==, expected);
  g_assert_cmpstr (tarn_pool_get_name (pool), ==, name);
}

static void
test_is_of (void)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) other = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnAllocator) allocator = NULL;
  g_autoptr (TarnPool) pool = NULL;

  nothing_ops_init (&ops);
  allocator = tarn_allocator_new (&ops, NULL, NULL);
  pool = tarn_pool_new (allocator, NULL, NULL);
  g_assert_true (tarn_allocator_is_of (allocator, ops.free));
  g_assert_false (tarn_allocator_is_of (other, ops.free));
  g_assert_false (tarn_allocator_is_of (TARN_ALLOCATOR (pool), ops.free));
}

/* Memory whose value says nothing: a pool above tells the pieces apart by their size. */
static void
test_nameless_memory (gconstpointer debug)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnAllocator) allocator = NULL;
  g_autoptr (TarnPool) pool = NULL;
  TarnMemory memory = { .address = 1 };

  nothing_ops_init (&ops);
  allocator = tarn_allocator_new (&ops, NULL, NULL);
  options.debug = debug;
  pool = tarn_pool_new (allocator, &options, NULL);
  for (gsize size = 100; size <= 500; size += 100)
    g_assert_true (tarn_allocator_allocate_memory (TARN_ALLOCATOR (pool), size, &memory, NULL));
  for (guint i = 0; i < 5; i++)
    {
      static const gsize order[] = { 300, 500, 100, 200, 400 };

      tarn_allocator_free_memory (TARN_ALLOCATOR (pool), memory, order[i]);
      g_assert_cmpuint (tarn_pool_get_active_blocks (pool), ==, 4 - i);
      assert_valid (pool);
    }
}

static void
test_ops (void)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, "*allocate != NULL*");
  g_assert_null (tarn_allocator_new (&ops, NULL, NULL));
  nothing_ops_init (&ops);
  ops.queue_unref = forget_queue;
  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, "*ordering_is_all_or_none*");
  g_assert_null (tarn_allocator_new (&ops, NULL, NULL));
  ops.queue_unref = NULL;
  ops.struct_size = 0;
  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL,
                         "tarn_allocator_new: struct_size of TarnAllocatorOps is 0, but *");
  g_assert_null (tarn_allocator_new (&ops, NULL, NULL));
  g_test_assert_expected_messages ();
}

/* Of a later version, which sets what this one does not know. */
static void
test_later_ops (void)
{
  struct
  {
    TarnAllocatorOps ops;
    gpointer later;
  } theirs = { TARN_ALLOCATOR_OPS_INIT, NULL };
  g_autofree gchar *message = g_strdup_printf ("*TarnAllocatorOps is %u, but * to %u bytes*",
                                               (guint) sizeof theirs, (guint) sizeof theirs.ops);

  nothing_ops_init (&theirs.ops);
  theirs.ops.struct_size = sizeof theirs;
  tarn_allocator_unref (tarn_allocator_new (&theirs.ops, NULL, NULL));
  theirs.later = &theirs;
  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, message);
  g_assert_null (tarn_allocator_new (&theirs.ops, NULL, NULL));
  g_test_assert_expected_messages ();
}

static void
test_deferred (void)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnAllocator) allocator = NULL;
  g_autoptr (TarnPool) pool = NULL;
  g_autoptr (TarnPool) outer = NULL;
  g_autoptr (GError) error = NULL;

  nothing_ops_init (&ops);
  ops.name = "lazy";
  ops.deferred = TRUE;
  allocator = tarn_allocator_new (&ops, NULL, NULL);
  g_assert_true (tarn_allocator_is_deferred (allocator));

  options.name = "over";
  g_test_expect_message ("Tarn", G_LOG_LEVEL_MESSAGE, "*'over'*'lazy'*");
  pool = tarn_pool_new (allocator, &options, &error);
  g_test_assert_expected_messages ();
  g_assert_no_error (error);
  g_assert_true (tarn_allocator_is_deferred (TARN_ALLOCATOR (pool)));
  outer = tarn_pool_new (TARN_ALLOCATOR (pool), NULL, &error);
  g_assert_no_error (error);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/core/allocator/no-error", test_no_error);
  g_test_add_data_func ("/core/allocator/nameless-memory", "", test_nameless_memory);
  g_test_add_data_func ("/core/allocator/nameless-memory-debugged", "all", test_nameless_memory);
  g_test_add_func ("/core/allocator/names", test_names);
  g_test_add_func ("/core/allocator/names/quoted", test_quoted_names);
  g_test_add_func ("/core/allocator/is-of", test_is_of);
  g_test_add_func ("/core/allocator/ops", test_ops);
  g_test_add_func ("/core/allocator/later-ops", test_later_ops);
  g_test_add_func ("/core/allocator/deferred", test_deferred);
  return g_test_run ();
}
