/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Recordings that lose events, or whose file cannot be written: a pipe that nobody reads, a
 * full disk, links, other errors. */

#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/pool-fixture.h"
#include "record-fixture.h"

/* Too little room: a pipe that nobody reads from */

static gpointer
read_pipe (gpointer data)
{
  const Place *place = data;
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  guint8 part[4096];
  gint file = open (place->path, O_RDONLY);
  gssize n;

  while (file >= 0 && (n = read (file, part, sizeof part)) > 0)
    g_byte_array_append (bytes, part, (guint) n);
  close (file);
  return g_byte_array_free_to_bytes (g_steal_pointer (&bytes));
}

static void
test_lost (void)
{
  enum
  {
    N_REQUESTS = 500000
  };
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = pool_new_named (allocator, NULL);
  TarnTraceOptions options = TARN_TRACE_OPTIONS_INIT;
  TarnTraceStats stats = TARN_TRACE_STATS_INIT;
  g_autoptr (Recording) recording = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = NULL;
  g_auto (Place) place = { NULL, NULL };
  RecordedEvent event;
  GThread *thread;
  guint64 n = 0;
  gint file;

  place_init (&place, "trace");
  g_assert_cmpint (mkfifo (place.path, 0600), ==, 0);
  file = open (place.path, O_RDONLY | O_NONBLOCK); /* else start would wait for a reader */
  options.buffer_bytes = 0;
  record_start (&place, &options);
  for (guint i = 0; i < N_REQUESTS; i++)
    tarn_block_free (pool_take (pool, 64));
  tarn_trace_get_stats (&stats);
  g_assert_cmpuint (stats.lost_events, >, N_REQUESTS);
  thread = g_thread_new ("reader", read_pipe, &place);
  g_usleep (1000); /* it may open the pipe before we close ours, or after */
  g_assert_true (tarn_trace_stop (&error));
  g_assert_no_error (error);
  tarn_trace_get_stats (&stats);
  close (file);
  bytes = g_thread_join (thread);
  recording = recording_open_bytes (bytes, "pipe", &error);
  g_assert_no_error (error);
  while (record_next (recording, &event))
    n += event.kind == TARN_TRACE_HIT || event.kind == TARN_TRACE_FREE
         || event.kind == TARN_TRACE_MISS;
  g_assert_cmpuint (recording_get_n_lost (recording), ==, stats.lost_events);
  g_assert_cmpuint (n + stats.lost_events, >=, 2 * N_REQUESTS);
  g_assert_cmpuint (n + stats.lost_events, <, 2 * N_REQUESTS + 10);
}

/* The reader of a pipe ends before the recording does: that is an error, and no signal that ends
 * the program. */
static void
test_closed (void)
{
  g_autoptr (GError) error = NULL;
  g_auto (Place) place = { NULL, NULL };
  gint file;

  place_init (&place, "trace");
  g_assert_cmpint (mkfifo (place.path, 0600), ==, 0);
  file = open (place.path, O_RDONLY | O_NONBLOCK);
  record_start (&place, NULL);
  close (file);
  g_assert_false (tarn_trace_stop (&error));
  g_assert_error (error, G_FILE_ERROR, G_FILE_ERROR_PIPE);
}

/* Files that cannot be written */

static void
test_errors (void)
{
  g_autoptr (GError) error = NULL;
  TarnTraceOptions options = TARN_TRACE_OPTIONS_INIT;
  g_auto (Place) place = { NULL, NULL };

  place_init (&place, "trace");
  g_assert_false (tarn_trace_stop (&error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);
  g_assert_false (tarn_trace_start ("/nowhere/at/all", NULL, &error));
  g_assert_error (error, G_FILE_ERROR, G_FILE_ERROR_NOENT);
  g_assert_nonnull (strstr (error->message, "/nowhere/at/all"));
  g_clear_error (&error);
  if (g_access ("/dev/full", W_OK) == 0)
    {
      g_assert_false (tarn_trace_start ("/dev/full", NULL, &error));
      g_assert_error (error, G_FILE_ERROR, G_FILE_ERROR_NOSPC);
      g_clear_error (&error);
    }
  options.stack_depth = TARN_TRACE_MAX_STACK_DEPTH + 1;
  g_assert_false (tarn_trace_start (place.path, &options, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "65"));
  g_clear_error (&error);
  record_start (&place, NULL);
  g_assert_false (tarn_trace_start (place.path, NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);
  record_stop ();
  g_assert_false (tarn_trace_start ("/nowhere/\x1b[2J\n", NULL, &error));
  g_assert_nonnull (strstr (error->message, "/nowhere/\\x1b[2J\\x0a: "));
}

/* A recording is its owner's alone, and goes to no file that a symbolic link of others names. */
static void
test_private (void)
{
  g_autoptr (GError) error = NULL;
  g_auto (Place) place = { NULL, NULL };
  g_autofree gchar *target = NULL, *text = NULL;
  mode_t mask = umask (0);
  struct stat info;

  place_init (&place, "trace");
  target = g_build_filename (place.folder, "target", NULL);
  record_start (&place, NULL);
  record_stop ();
  umask (mask);
  g_assert_cmpint (stat (place.path, &info), ==, 0);
  g_assert_cmphex (info.st_mode & 0777, ==, 0600);
  g_assert_cmpint (g_unlink (place.path), ==, 0);
  g_assert_true (g_file_set_contents (target, "precious", -1, NULL));
  g_assert_cmpint (symlink (target, place.path), ==, 0);
  g_assert_false (tarn_trace_start (place.path, NULL, &error));
  g_assert_error (error, G_FILE_ERROR, G_FILE_ERROR_LOOP);
  g_assert_true (g_file_get_contents (target, &text, NULL, NULL));
  g_assert_cmpstr (text, ==, "precious");
  g_assert_cmpint (g_unlink (target), ==, 0);
}

/* The disk is full later on: the program goes on, and is told in the end. */
static void
test_full (void)
{
  g_autoptr (TarnTestingDevice) device = NULL;
  g_autoptr (TarnAllocator) allocator = NULL;
  g_autoptr (TarnPool) pool = NULL;
  const struct rlimit limit = { 100000, 100000 };
  TarnTraceStats stats = TARN_TRACE_STATS_INIT;
  g_autoptr (GError) error = NULL;
  g_auto (Place) place = { NULL, NULL };

  if (!g_test_subprocess ())
    {
      g_test_trap_subprocess (NULL, 0, 0);
      g_test_trap_assert_passed ();
      return;
    }
  place_init (&place, "trace");
  device = tarn_testing_device_new (G_MAXUINT64);
  allocator = tarn_testing_device_allocator_new (device);
  pool = pool_new_named (allocator, NULL);
  signal (SIGXFSZ, SIG_IGN);
  g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &limit), ==, 0);
  record_start (&place, NULL);
  for (guint i = 0; i < 200000; i++)
    tarn_block_free (pool_take (pool, 64));
  g_assert_false (tarn_trace_stop (&error));
  g_assert_cmpint (error->domain, ==, G_FILE_ERROR);
  tarn_trace_get_stats (&stats);
  g_assert_cmpuint (stats.lost_events, >, 300000);
  g_assert_cmpuint (stats.events, >, 1000);
}

/* A device is no process's own: another one may have locked it. */
static void
test_device (void)
{
  gint file = open ("/dev/null", O_WRONLY | O_CLOEXEC);
  g_autoptr (GError) error = NULL;

  g_assert_cmpint (file, >=, 0);
  flock (file, LOCK_EX | LOCK_NB); /* else another process has */
  tarn_trace_start ("/dev/null", NULL, &error);
  g_assert_no_error (error);
  tarn_trace_stop (&error);
  g_assert_no_error (error);
  close (file);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/core/record/device", test_device);
  g_test_add_func ("/core/record/lost", test_lost);
  g_test_add_func ("/core/record/closed", test_closed);
  g_test_add_func ("/core/record/errors", test_errors);
  g_test_add_func ("/core/record/private", test_private);
  g_test_add_func ("/core/record/full", test_full);
  return g_test_run ();
}
