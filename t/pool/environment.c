/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * TARN_LIMIT and TARN_STATS: what the environment says to every pool.  It is read once, so that
 * each test is a process of its own. */

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tarn/debug.h>
#include <tarn/heap.h>
#include <unistd.h>

#include "lib/pool-fixture.h"

#define DEVICE (64 << 20)

static guint64 device_bytes = DEVICE; /* what the driver says */

static gboolean
get_memory (gpointer unused, guint64 *bytes, guint64 *free_bytes, GError **error)
{
  (void) unused;
  if (device_bytes == 0)
    {
      g_set_error_literal (error, TARN_ERROR, TARN_ERROR_FAILED, "the driver does not answer");
      return FALSE;
    }
  *bytes = device_bytes;
  *free_bytes = 0;
  return TRUE;
}

static GPtrArray *devices; /* of TarnTestingDevice, until the process ends */

/* Makes a pool over a device of its own. */
static TarnPool *
pool_new (gboolean is_host, const TarnPoolOptions *options, GError **error)
{
  TarnTestingDevice *device = tarn_testing_device_new (DEVICE);
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  g_autoptr (TarnAllocator) allocator = NULL, plain = NULL;

  if (devices == NULL)
    devices = g_ptr_array_new ();
  g_ptr_array_add (devices, device);
  plain = tarn_testing_device_allocator_new (device);
  tarn_allocator_get_ops (plain, &ops);
  if (!is_host)
    ops.get_memory = get_memory;
  allocator = tarn_allocator_new (&ops, tarn_allocator_get_user_data (plain), NULL);
  return tarn_pool_new (allocator, options, error);
}

static void
assert_limit (gboolean is_host, gsize own, gsize expected)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;
  g_autoptr (TarnPool) pool = NULL;

  options.limit_bytes = own;
  pool = pool_new (is_host, &options, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (tarn_pool_get_limit_bytes (pool), ==, expected);
}

/* The program sets a limit after the pool was made.  The lower one still counts. */
static void
assert_limit_set_later (gsize own, gsize expected)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnPool) pool = NULL;
  g_autoptr (GError) error = NULL;

  options.limit_bytes = 5000;
  pool = pool_new (FALSE, &options, &error);
  g_assert_no_error (error);
  tarn_pool_set_limit_bytes (pool, own);
  g_assert_cmpuint (tarn_pool_get_limit_bytes (pool), ==, expected);
}

/* The lower limit counts, whoever says it. */
static void
run_bytes (void)
{
  assert_limit_set_later (0, 2 << 20);
  assert_limit_set_later (3 << 20, 2 << 20);
  assert_limit_set_later (6000, 6000);
  assert_limit (FALSE, 0, 2 << 20);
  assert_limit (TRUE, 0, 2 << 20);
  assert_limit (FALSE, 5000, 5000);
  assert_limit (FALSE, 3 << 20, 2 << 20);
}

/* A share is of what the device has, and says nothing of the host's memory. */
static void
run_share (void)
{
  g_autoptr (GError) error = NULL;

  assert_limit (FALSE, 0, DEVICE / 4);
  assert_limit (TRUE, 0, 0);
  assert_limit (TRUE, 5000, 5000);
  device_bytes = G_MAXUINT64; /* the driver does not know */
  assert_limit (FALSE, 0, 0);
  device_bytes = 0;
  g_assert_null (pool_new (FALSE, NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_FAILED);
}

static void
run_bad (void)
{
  for (guint is_host = 0; is_host < 2; is_host++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_null (pool_new (is_host != 0, NULL, &error));
      g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
      g_assert_true (g_str_has_prefix (error->message, "TARN_LIMIT: '"));
      g_assert_nonnull (strstr (error->message, g_getenv ("TARN_LIMIT")));
    }
}

static void
run_empty (void)
{
  assert_limit (FALSE, 0, 0);
}

/* One pool ends, another one is there at exit, and of a third nobody but a block knows any more. */
static void
run_stats (void)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  TarnBlock *block;
  TarnPool *pool;

  for (guint i = 0; i < 3; i++)
    {
      g_autofree gchar *name = g_strdup_printf ("pool %u", i);

      options.name = name;
      pool = pool_new (FALSE, &options, NULL);
      block = tarn_pool_allocate (pool, 3000, NULL);
      if (i < 2)
        tarn_block_free (block);
      if (i != 1)
        tarn_pool_unref (pool);
    }
  if (fork () == 0)
    exit (0); /* its parent's pools are not its own */
  wait (NULL);
  exit (0);
}

/* Only the pool that was asked to. */
static void
run_flag (void)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;

  options.name = "silent";
  tarn_pool_unref (pool_new (FALSE, &options, NULL));
  options.name = "telling";
  options.flags = TARN_POOL_PRINTS_STATS;
  tarn_pool_unref (pool_new (FALSE, &options, NULL));
}

/* TARN_STATS counts the free bytes of the heap as held. */
static void
run_heap (void)
{
  TarnTestingPages *pages = tarn_testing_pages_new (DEVICE, TARN_TESTING_PAGES_VIRTUAL);
  TarnAllocator *driver = tarn_testing_pages_allocator_new (pages);
  TarnAllocator *heap = tarn_heap_allocator_new (driver, NULL, NULL);
  TarnPool *pool = tarn_pool_new (heap, NULL, NULL);

  tarn_block_free (tarn_pool_allocate (pool, 3000, NULL));
  tarn_pool_unref (pool);
  tarn_allocator_unref (heap);
  tarn_allocator_unref (driver);
  tarn_testing_pages_free (pages);
}

static void
run (const gchar *path, const gchar *limit, const gchar *stats)
{
  g_unsetenv ("TARN_LIMIT");
  g_unsetenv ("TARN_STATS");
  if (limit != NULL)
    g_setenv ("TARN_LIMIT", limit, TRUE);
  if (stats != NULL)
    g_setenv ("TARN_STATS", stats, TRUE);
  g_test_trap_subprocess (path, 0, 0);
  g_test_trap_assert_passed ();
}

static void
test_limit (void)
{
  static const gchar *const bad[]
      = { "8X", "-1", "0", "120%", "%", "1 G%", "99999999999999999999" };

  run ("/core/environment/subprocess/bytes", "2M", NULL);
  run ("/core/environment/subprocess/bytes", " 2097152 ", NULL);
  run ("/core/environment/subprocess/share", "25%", NULL);
  run ("/core/environment/subprocess/empty", "", NULL);
  run ("/core/environment/subprocess/empty", NULL, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    run ("/core/environment/subprocess/bad", bad[i], NULL);
}

static gint
run_for_status (const gchar *path)
{
  gchar *words[] = { (gchar *) "/proc/self/exe", (gchar *) "--GTestSubprocess", (gchar *) "-p",
                     (gchar *) path, NULL };
  gint status;

  g_assert_true (g_spawn_sync (NULL, words, NULL,
                               G_SPAWN_STDOUT_TO_DEV_NULL | G_SPAWN_STDERR_TO_DEV_NULL, NULL, NULL,
                               NULL, NULL, &status, NULL));
  g_assert_true (WIFEXITED (status));
  return WEXITSTATUS (status);
}

/* A program that is to be checked, and is not, fails where it says with which status. */
static void
test_debug (void)
{
  const struct
  {
    const gchar *words;
    gint status;
  } cases[] = { { "guards,exit=9", 0 },
                { "guards,lekas,exit=9", 9 },
                { "nonsense,exit=8", 8 },
                { "nonsense", 0 },
                { "", 0 } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_setenv ("TARN_DEBUG", cases[i].words, TRUE);
      g_unsetenv ("TARN_LIMIT");
      g_assert_cmpint (run_for_status ("/core/environment/subprocess/empty"), ==, cases[i].status);
    }
  g_unsetenv ("TARN_DEBUG");
}

#define LINE(name, in_use, held)                                                                   \
  "Tarn: pool '" name "': 1 request: 0 served without the driver, 1 driver call; " in_use          \
  " bytes in use, " held " bytes held; at most 3000 bytes in use, 3071 bytes taken\n"

static void
test_stats (void)
{
  run ("/core/environment/subprocess/stats", NULL, "1");
  g_test_trap_assert_stderr (LINE ("pool 0", "0", "3071") LINE ("pool 2", "3000", "0")
                                 LINE ("pool 1", "0", "3071"));
  run ("/core/environment/subprocess/stats", NULL, "0");
  g_test_trap_assert_stderr ("");
  run ("/core/environment/subprocess/stats", NULL, NULL);
  g_test_trap_assert_stderr ("");
  run ("/core/environment/subprocess/flag", NULL, NULL);
  g_test_trap_assert_stderr (
      "Tarn: pool 'telling': 0 requests: 0 served without the driver, 0 driver calls; 0 bytes in "
      "use, 0 bytes held; at most 0 bytes in use, 0 bytes taken\n");
  run ("/core/environment/subprocess/heap", NULL, "1");
  g_test_trap_assert_stderr ("*; 0 bytes in use, 2048 KiB held; at most *, 2048 KiB taken\n");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/core/environment/subprocess/bytes", run_bytes);
  g_test_add_func ("/core/environment/subprocess/share", run_share);
  g_test_add_func ("/core/environment/subprocess/heap", run_heap);
  g_test_add_func ("/core/environment/subprocess/bad", run_bad);
  g_test_add_func ("/core/environment/subprocess/empty", run_empty);
  g_test_add_func ("/core/environment/subprocess/stats", run_stats);
  g_test_add_func ("/core/environment/subprocess/flag", run_flag);
  g_test_add_func ("/core/environment/limit", test_limit);
  g_test_add_func ("/core/environment/stats", test_stats);
  g_test_add_func ("/core/environment/debug", test_debug);
  return g_test_run ();
}
