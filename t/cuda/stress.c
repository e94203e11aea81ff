/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Threads that do all that a program may do, at random, on the fake CUDA driver:
 *
 *     stress.t [--seed=N] [--seconds=N] [--threads=N] [--verbose-messages]
 *
 * The run is divided into epochs.  Each has a context, pools and threads of its own, and leaves
 * nothing behind.  An epoch is divided into rounds.  Between two rounds no call is in flight.  The
 * test checks these things:
 *
 *     - each command finds what was written to its block before, and no two blocks in use overlap
 *     - a pool manages no more than its limit, and without a shared heap the driver has given it no
 *       more; a limit at what it manages is kept, and a request that fits in a raised one succeeds
 *     - between rounds, and after a request, a pool holds no more than TarnPoolOptions.hold_bytes
 *       allows
 *     - no call ends the capture of a stream
 *     - nothing that the driver has is left after an epoch, and the process does not grow
 *     - a child of fork () makes no pool and no heap, and frees nothing
 *     - no call hangs, and nothing is g_critical ()
 *
 * A seed repeats the epochs of a run, but not the run: threads run as the machine schedules them.
 */

#include "stress.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdio.h>
#include <string.h>
#include <tarn/clock.h>
#include <tarn/trace.h>
#include <unistd.h>

#define GROWTH (4 * 1024)         /* KiB, by which the process may grow */
#define HANG (G_TIME_SPAN_MINUTE) /* a call that takes as long */

const TarnTestingCuda *fake;
gint n_threads = 4;
gint64 seed = -1;
Worker workers[MAX_THREADS];
gint clock_ahead;
gchar *folder;
gint n_done, n_errors, n_captures;

static gint seconds = 3;
static gboolean shows_messages;
static gint is_over; /* atomic: the threads beside the workers are to end */

static gint64
get_time (void)
{
  return g_get_monotonic_time () + g_atomic_int_get (&clock_ahead) * G_TIME_SPAN_SECOND;
}

/* Beside the workers */

/* Ends work now and then, as a device does. */
static gpointer
run_device (gpointer unused)
{
  (void) unused;
  while (!g_atomic_int_get (&is_over))
    {
      g_usleep (1000);
      fake->finish_all_work ();
    }
  return NULL;
}

static gpointer
watch (gpointer unused)
{
  (void) unused;
  while (!g_atomic_int_get (&is_over))
    {
      g_usleep (100 * 1000);
      for (gint i = 0; i < n_threads; i++)
        {
          const gchar *what = __atomic_load_n (&workers[i].what, __ATOMIC_ACQUIRE);
          gint64 since = __atomic_load_n (&workers[i].since, __ATOMIC_RELAXED);
          gint64 taken = g_get_monotonic_time () - since;

          if (what != NULL && taken > HANG)
            g_error ("seed %" G_GINT64_FORMAT ": thread %d: %s has taken %.1f s", seed, i, what,
                     (gdouble) taken / 1e6);
        }
    }
  return NULL;
}

/* Gets the KiB that the process has in memory, without what malloc () keeps. */
static gulong
get_resident (void)
{
  g_autofree gchar *text = NULL;
  gulong pages = 0;

#ifdef __GLIBC__
  malloc_trim (0);
#endif
  if (g_file_get_contents ("/proc/self/statm", &text, NULL, NULL))
    sscanf (text, "%*u %lu", &pages);
  return pages * (gulong) sysconf (_SC_PAGESIZE) / 1024;
}

/* Sanitizers and valgrind keep what was freed. */
static gboolean
is_watched (void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return TRUE;
#else
  const gchar *preloaded = g_getenv ("LD_PRELOAD");

  return preloaded != NULL && strstr (preloaded, "valgrind") != NULL;
#endif
}

static void
remove_folder (void)
{
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  const gchar *name;

  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree gchar *path = g_build_filename (folder, name, NULL);

      remove (path);
    }
  rmdir (folder);
}

static void
test_stress (void)
{
  gint64 start = g_get_monotonic_time (), end = start + seconds * G_TIME_SPAN_SECOND;
  GThread *device = g_thread_new ("device", run_device, NULL);
  GThread *watchdog = g_thread_new ("watchdog", watch, NULL);
  gulong resident = 0, most = 0;
  gint64 number = 0;

  for (; number == 0 || g_get_monotonic_time () < end; number++)
    {
      run_epoch (number);
      if (g_get_monotonic_time () < start + (end - start) / 2)
        resident = get_resident ();
      most = get_resident ();
    }
  tarn_trace_stop (NULL);
  g_atomic_int_set (&is_over, TRUE);
  g_thread_join (device);
  g_thread_join (watchdog);
  g_test_message (
      "seed %" G_GINT64_FORMAT ": %" G_GINT64_FORMAT
      " epochs, %d operations, %d errors, %d captures; %lu KiB, %lu KiB half way, %" G_GSIZE_FORMAT
      " KiB of the device lost to calls that failed",
      seed, number, n_done, n_errors, n_captures, most, resident, count_given () / 1024);
  if (resident > 0 && !is_watched ())
    g_assert_cmpuint (most, <=, resident + GROWTH + count_given () / 1024);
}

/* Of calls that fail, say. */
static void
ignore_message (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer unused)
{
  (void) unused;
  if (shows_messages)
    g_printerr ("%s %d: %s\n", domain, (gint) level, message);
}

static void
read_options (int *argc, char ***argv)
{
  const GOptionEntry entries[]
      = { { "seed", 0, 0, G_OPTION_ARG_INT64, &seed, NULL, NULL },
          { "seconds", 0, 0, G_OPTION_ARG_INT, &seconds, NULL, NULL },
          { "threads", 0, 0, G_OPTION_ARG_INT, &n_threads, NULL, NULL },
          { "verbose-messages", 0, 0, G_OPTION_ARG_NONE, &shows_messages, NULL, NULL },
          { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL } };
  GOptionContext *context = g_option_context_new (NULL);

  g_option_context_add_main_entries (context, entries, NULL);
  g_option_context_set_ignore_unknown_options (context, TRUE);
  g_option_context_set_help_enabled (context, FALSE);
  g_option_context_parse (context, argc, argv, NULL);
  g_option_context_free (context);
  n_threads = CLAMP (n_threads, 1, MAX_THREADS);
  if (seed < 0)
    seed = g_random_int_range (0, G_MAXINT);
}

int
main (int argc, char **argv)
{
  gint status;

#ifdef __GLIBC__
  mallopt (M_ARENA_MAX, 1); /* others than the first keep what was freed */
#endif
  read_options (&argc, &argv);
  g_test_init (&argc, &argv, NULL);
  fake = tarn_fake_cuda ();
  tarn_clock_set (get_time);
  g_assert_cmpuint (cuInit (0), ==, FAKE_CUDA_SUCCESS);
  folder = g_dir_make_tmp ("tarn-stress-XXXXXX", NULL);
  g_assert_nonnull (folder);
  g_log_set_handler ("Tarn", G_LOG_LEVEL_MESSAGE, ignore_message, NULL);
  g_log_set_handler ("Tarn-CUDA", G_LOG_LEVEL_MESSAGE, ignore_message, NULL);
  g_test_add_func ("/cuda/stress", test_stress);
  status = g_test_run ();
  remove_folder ();
  return status;
}
