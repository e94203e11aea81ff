/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A log handler gets a message about a variable that is read once, and is the first to need its
 * value: it calls Tarn back, and does not hang. */

#include <tarn/testing.h>

/* Seconds after which a program counts as hanging. */
#define N_PATIENT 60

#define BUDGET ((gsize) 1 << 20)

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

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (wrongs); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/core/pool/call-backs/message-of-once/%u", i);

      g_test_add_data_func (path, &wrongs[i], test_message_of_once);
    }
  return g_test_run ();
}
