/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Snapshots on a signal, and signals that Tarn refuses. */

#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "lib/pool-fixture.h"
#include "snapshot-fixture.h"

static void
handle (int number)
{
  (void) number;
}

static void
assert_refuses (gint number, const gchar *message)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (tarn_snapshot_on_signal (number, "unused", &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, message));
}

/* Waits until a file is there, which appears with all that is in it. */
static JsonNode *
await_file (const gchar *path)
{
  gint64 end = g_get_monotonic_time () + 60 * G_TIME_SPAN_SECOND;

  while (!g_file_test (path, G_FILE_TEST_EXISTS))
    {
      g_assert_cmpint (g_get_monotonic_time (), <, end);
      g_usleep (1000);
    }
  return snapshot_read (path);
}

static void
test_signal (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = pool_new_named (allocator, "tagged");
  g_autofree gchar *pattern = NULL;
  g_auto (Place) place = { NULL, NULL };
  g_autoptr (GError) error = NULL;
  struct sigaction action;
  TarnBlock *block;

  place_init (&place, "snapshot.json");
  pattern = g_build_filename (place.folder, "%p-%n.json", NULL);
  for (gint watch = 0; watch < 2; watch++)
    {
      g_assert_true (tarn_snapshot_on_signal (SIGUSR2, pattern, &error));
      g_assert_no_error (error);
      block = pool_take_tagged (pool, 100, "signalled");
      for (guint n = 1; n <= 3; n++)
        {
          g_autofree gchar *path
              = g_strdup_printf ("%s/%ld-%u.json", place.folder, (glong) getpid (), n);
          g_autoptr (JsonNode) snapshot = NULL;

          kill (getpid (), SIGUSR2);
          snapshot = await_file (path);
          g_assert_cmpstr (
              json_object_get_string_member (json_node_get_object (snapshot), "reason"), ==,
              "signal");
          g_assert_cmpstr (
              json_object_get_string_member (
                  snapshot_find_block (snapshot_find (snapshot, "tagged"), 100), "tag"),
              ==, "signalled");
          g_unlink (path);
        }
      tarn_block_free (block);
      assert_refuses (12345, "12345 is no signal");
      assert_refuses (SIGKILL, "signal 9");
      sigaction (SIGUSR2, NULL, &action);
      g_assert_true (action.sa_handler != SIG_DFL);
      g_assert_true (tarn_snapshot_on_signal (SIGUSR2, pattern, NULL));
      g_assert_true (tarn_snapshot_on_signal (SIGUSR2, NULL, NULL));
      sigaction (SIGUSR2, NULL, &action);
      g_assert_true (action.sa_handler == SIG_DFL);
    }
  assert_refuses (0, "0 is no signal");
  assert_refuses (12345, "12345 is no signal");
  assert_refuses (SIGKILL, "signal 9");
  signal (SIGUSR2, handle);
  assert_refuses (SIGUSR2, "has a handler already");
  signal (SIGUSR2, SIG_DFL);
}

static void
assert_handler (void (*handler) (gint))
{
  struct sigaction action;

  g_assert_cmpint (sigaction (SIGUSR2, NULL, &action), ==, 0);
  g_assert_true (action.sa_handler == handler);
}

/* Afterwards the signal has the effect that it had before: here the process ignores it. */
static void
test_ignored (void)
{
  g_autoptr (GError) error = NULL;

  signal (SIGUSR2, SIG_IGN);
  for (guint i = 0; i < 2; i++)
    {
      g_assert_true (tarn_snapshot_on_signal (SIGUSR2, "unused", &error));
      g_assert_no_error (error);
    }
  g_assert_true (tarn_snapshot_on_signal (0, NULL, &error));
  g_assert_no_error (error);
  assert_handler (SIG_IGN);
  signal (SIGUSR2, SIG_DFL);
}

/* The program installs a handler of its own for the signal that the library handles. */
static void
test_other_handler (void)
{
  g_assert_true (tarn_snapshot_on_signal (SIGUSR2, "unused", NULL));
  signal (SIGUSR2, handle);
  assert_refuses (SIGUSR2, "has a handler already");
  assert_handler (handle);
  g_assert_true (tarn_snapshot_on_signal (0, NULL, NULL));
  assert_handler (handle);
  signal (SIGUSR2, SIG_DFL);
}

static gint has_changed; /* atomic */

static gpointer
send_signals (gpointer unused)
{
  (void) unused;
  while (!g_atomic_int_get (&has_changed))
    kill (getpid (), SIGUSR2);
  return NULL;
}

/* A signal that comes while the program changes the file has its handler: without one, it would end
 * the process. */
static void
test_change (void)
{
  gchar *paths[2];
  g_auto (Place) place = { NULL, NULL };
  GThread *thread;

  place_init (&place, "snapshot.json");
  for (guint i = 0; i < 2; i++)
    paths[i] = g_strdup_printf ("%s/%u.json", place.folder, i);
  g_assert_true (tarn_snapshot_on_signal (SIGUSR2, paths[0], NULL));
  thread = g_thread_new ("signals", send_signals, NULL);
  for (guint i = 0; i < 100; i++)
    g_assert_true (tarn_snapshot_on_signal (SIGUSR2, paths[i % 2], NULL));
  g_atomic_int_set (&has_changed, TRUE);
  g_thread_join (thread);
  g_assert_true (tarn_snapshot_on_signal (SIGUSR2, NULL, NULL));
  for (guint i = 0; i < 2; i++)
    {
      g_unlink (paths[i]);
      g_free (paths[i]);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/core/snapshot/signal", test_signal);
  g_test_add_func ("/core/snapshot/signal/change", test_change);
  g_test_add_func ("/core/snapshot/signal/ignored", test_ignored);
  g_test_add_func ("/core/snapshot/signal/other-handler", test_other_handler);
  return g_test_run ();
}
