/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Recordings and processes: children of fork (), programs that are recorded from outside, and a
 * program that is killed. */

#include <fcntl.h>
#include <glib/gstdio.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/in-child.h"
#include "lib/pool-fixture.h"
#include "record-fixture.h"

static gchar *program; /* the path of this program */

/* Children of fork () */

static void
record_in_child (gpointer data)
{
  TarnBlock **block = data;
  g_autoptr (GError) error = NULL;

  tarn_block_free (*block);
  STEP (1, !tarn_trace_stop (&error));
  STEP (2, take_forked (&error));
  STEP (3, !tarn_trace_start ("/dev/null", NULL, &error));
  STEP (4, take_forked (&error));
  tarn_tag_push ("child");
  tarn_tag_pop ();
}

static void
test_fork (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = pool_new_named (allocator, NULL);
  g_autoptr (Recording) recording = NULL;
  g_autofree gchar *log = NULL;
  g_auto (Place) place = { NULL, NULL };
  TarnBlock *block;

  place_init (&place, "trace");
  record_start (&place, NULL);
  block = pool_take (pool, 1);
  in_child (record_in_child, &block);
  tarn_block_free (block);
  record_stop ();
  recording = record_open (&place);
  log = record_read_log (recording);
  g_assert_cmpstr (log, ==, "miss a 1 1 -\nfree a\n");
}

/* A child gets the number of the recording's file for a file of its own, which its children keep.
 */
static void
fork_with_files (gpointer unused)
{
  gint files[8], status = 1;
  pid_t child;

  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (files); i++)
    STEP (1, (files[i] = open ("/dev/null", O_WRONLY)) >= 0);
  child = fork ();
  if (child == 0)
    {
      for (guint i = 0; i < G_N_ELEMENTS (files); i++)
        if (fcntl (files[i], F_GETFD) < 0)
          _exit (1);
      _exit (0);
    }
  STEP (2, waitpid (child, &status, 0) == child);
  STEP (3, WIFEXITED (status) && WEXITSTATUS (status) == 0);
}

static void
test_fork_twice (void)
{
  g_auto (Place) place = { NULL, NULL };

  place_init (&place, "trace");
  record_start (&place, NULL);
  in_child (fork_with_files, NULL);
  record_stop ();
}

/* The child of fork () is held before the library has seen it, by a handler that was there first.
 */
static gint held_child[2] = { -1, -1 };

static void
hold_child (void)
{
  gchar byte;

  if (held_child[0] < 0)
    return;
  close (held_child[1]);
  if (read (held_child[0], &byte, 1) != 1) /* its parent has failed */
    _exit (1);
}

/* A child that lives on does not keep its parent from the file, nor does one that has not yet run.
 */
static void
test_fork_lives_on (void)
{
  g_auto (Place) place = { NULL, NULL };
  gint status;
  pid_t child;

  place_init (&place, "trace");
  record_start (&place, NULL);
  g_assert_cmpint (pipe (held_child), ==, 0);
  child = fork ();
  g_assert_cmpint (child, >=, 0);
  if (child == 0)
    {
      alarm (20);
      pause ();
      _exit (0);
    }
  record_stop ();
  record_start (&place, NULL);
  record_stop ();
  g_assert_cmpint (write (held_child[1], "", 1), ==, 1);
  close (held_child[0]);
  close (held_child[1]);
  held_child[0] = held_child[1] = -1;
  record_start (&place, NULL);
  record_stop ();
  kill (child, SIGKILL);
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_true (WIFSIGNALED (status) && WTERMSIG (status) == SIGKILL);
}

/* A program that forks while it begins a recording, and is killed.  Its child lives on, and does
 * not keep other processes from the file. */

#define FORK_AND_DIE "--fork-while-starting"

static gboolean forks_at_lock; /* TRUE: the next call of flock () forks first */
static int ready[2];           /* a pipe: the child writes to it when fork () has returned there */

/* Lives as long as the test has the other end of standard input open. */
static void
live_on (void)
{
  gchar byte = 0;

  alarm (60);
  g_assert_cmpint (write (ready[1], &byte, 1), ==, 1);
  while (read (STDIN_FILENO, &byte, 1) > 0)
    ;
  _exit (0);
}

/* The library calls this in place of the C library's function. */
int
flock (int file, int operation)
{
  if (forks_at_lock)
    {
      forks_at_lock = FALSE;
      if (fork () == 0)
        live_on ();
    }
  return (int) syscall (SYS_flock, file, operation);
}

static void
fork_and_die (const gchar *path)
{
  g_autoptr (GError) error = NULL;
  gchar byte;

  g_assert_cmpint (pipe (ready), ==, 0);
  forks_at_lock = TRUE;
  if (!tarn_trace_start (path, NULL, &error))
    g_error ("%s", error->message);
  /* The child's handlers of fork () have run before it writes. */
  if (!forks_at_lock && read (ready[0], &byte, 1) == 1)
    kill (getpid (), SIGKILL);
  _exit (0);
}

static void
test_fork_while_starting (void)
{
  g_auto (Place) place = { NULL, NULL };
  const gchar *arguments[] = { program, FORK_AND_DIE, NULL, NULL };
  g_autoptr (GError) error = NULL;
  gint status, input;
  GPid child;

  place_init (&place, "trace");
  arguments[2] = place.path;
  g_spawn_async_with_pipes (NULL, (gchar **) arguments, NULL, G_SPAWN_DO_NOT_REAP_CHILD, NULL, NULL,
                            &child, &input, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_true (WIFSIGNALED (status) && WTERMSIG (status) == SIGKILL);
  record_start (&place, NULL);
  record_stop ();
  close (input);
}

/* A program that is recorded from outside, and ends as it likes */

static void
be_recorded (void)
{
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);
  g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);
  g_autoptr (TarnPool) pool = pool_new_named (allocator, NULL);

  for (guint i = 0; i < 10; i++)
    tarn_block_free (pool_take (pool, 64));
}

static void
test_environment (void)
{
  g_autoptr (Recording) recording = NULL;
  g_autofree gchar *pattern = NULL, *log = NULL;
  g_auto (Place) place = { NULL, NULL };
  const gchar *name;
  GDir *folder;

  if (g_test_subprocess ())
    {
      be_recorded ();
      return;
    }
  place_init (&place, "trace");
  pattern = g_build_filename (place.folder, "%p.trace", NULL);
  g_setenv ("TARN_TRACE", pattern, TRUE);
  g_test_trap_subprocess (NULL, 0, 0);
  g_unsetenv ("TARN_TRACE");
  g_test_trap_assert_passed ();
  folder = g_dir_open (place.folder, 0, NULL);
  name = g_dir_read_name (folder);
  g_assert_true (g_str_has_suffix (name, ".trace"));
  g_free (place.path);
  place.path = g_build_filename (place.folder, name, NULL);
  g_assert_null (g_dir_read_name (folder));
  g_dir_close (folder);
  recording = record_open (&place);
  g_assert_true (recording_is_complete (recording));
  log = record_read_log (recording);
  g_assert_true (g_str_has_prefix (log, "miss a 64 67 -\nfree a\nhit a 64 -\nfree a\n"));
  g_assert_true (g_str_has_suffix (log, "hit a 64 -\nfree a\ngone a\n"));
}

/* Who is recorded from outside is told at the end what is missing. */
static void
test_environment_full (void)
{
  const struct rlimit limit = { 20000, 20000 };
  g_auto (Place) place = { NULL, NULL };

  if (g_test_subprocess ())
    {
      signal (SIGXFSZ, SIG_IGN);
      g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &limit), ==, 0);
      for (guint i = 0; i < 2000; i++)
        be_recorded ();
      return;
    }
  place_init (&place, "trace");
  g_setenv ("TARN_TRACE", place.path, TRUE);
  g_test_trap_subprocess (NULL, 0, 0);
  g_unsetenv ("TARN_TRACE");
  g_test_trap_assert_passed ();
  g_test_trap_assert_stderr ("*recording: *events were not written: *");
  g_test_trap_assert_stderr ("*recording: *events were lost*");
}

/* Killed at any moment: all is there but the last second. */

typedef struct
{
  guint64 n_events; /* atomic: recorded before time */
  gint64 time;
} Checkpoint;

#define N_CHECKPOINTS (1U << 20)
#define KILL_ME "--record-until-killed"

/* Of both processes, in a file. */
static Checkpoint *
map_checkpoints (const gchar *path)
{
  gsize size = N_CHECKPOINTS * sizeof (Checkpoint);
  gint file = open (path, O_RDWR | O_CREAT, 0600);
  gpointer checkpoints;

  g_assert_cmpint (ftruncate (file, (off_t) size), ==, 0);
  checkpoints = mmap (NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  g_assert_true (checkpoints != MAP_FAILED);
  close (file);
  return checkpoints;
}

/* What the program does that is killed: a program of its own, for a child of fork () does not
 * record. */
static void
record_until_killed (const gchar *path, const gchar *checkpoints_path)
{
  Checkpoint *checkpoints = map_checkpoints (checkpoints_path);
  TarnTestingDevice *device = tarn_testing_device_new (G_MAXUINT64);
  TarnAllocator *allocator = tarn_testing_device_allocator_new (device);
  TarnPool *pool = pool_new_named (allocator, NULL);
  g_autoptr (GError) error = NULL;

  if (!tarn_trace_start (path, NULL, &error))
    g_error ("%s", error->message);
  for (guint64 i = 0; i < N_CHECKPOINTS; i++)
    {
      for (guint k = 0; k < 100; k++)
        tarn_block_free (pool_take (pool, 64));
      checkpoints[i].time = g_get_monotonic_time ();
      __atomic_store_n (&checkpoints[i].n_events, 200 * (i + 1), __ATOMIC_RELEASE);
      if (i % 64 == 0)
        g_usleep (100);
    }
  pause ();
}

static GPid
spawn (const Place *place, const gchar *checkpoints_path)
{
  const gchar *arguments[] = { program, KILL_ME, place->path, checkpoints_path, NULL };
  g_autoptr (GError) error = NULL;
  GPid child = 0;

  g_spawn_async (NULL, (gchar **) arguments, NULL, G_SPAWN_DO_NOT_REAP_CHILD, NULL, NULL, &child,
                 &error);
  g_assert_no_error (error);
  return child;
}

static void
check_killed (const Place *place, const Checkpoint *checkpoints, gint64 killed)
{
  g_autoptr (Recording) recording = record_open (place);
  guint64 n = 0, least = 0, all = 0;
  RecordedEvent event;

  while (record_next (recording, &event))
    n += event.kind == TARN_TRACE_HIT || event.kind == TARN_TRACE_MISS
         || event.kind == TARN_TRACE_FREE;
  g_assert_false (recording_is_complete (recording));
  for (guint i = 0; i < N_CHECKPOINTS && checkpoints[i].n_events != 0; i++)
    {
      all = checkpoints[i].n_events;
      if (checkpoints[i].time < killed - G_USEC_PER_SEC)
        least = checkpoints[i].n_events;
    }
  g_test_message ("%" G_GUINT64_FORMAT " events of about %" G_GUINT64_FORMAT ", %" G_GUINT64_FORMAT
                  " of them a second before",
                  n, all, least);
  g_assert_cmpuint (n + recording_get_n_lost (recording), >=, least);
}

static void
test_killed (void)
{
  guint n_rounds = g_test_slow () ? 100 : 3;

  for (guint round = 0; round < n_rounds; round++)
    {
      g_auto (Place) place = { NULL, NULL };
      g_autofree gchar *path = NULL;
      Checkpoint *checkpoints;
      gint64 killed;
      gint status;
      GPid child;

      place_init (&place, "trace");
      path = g_build_filename (place.folder, "checkpoints", NULL);
      checkpoints = map_checkpoints (path);
      child = spawn (&place, path);
      while (__atomic_load_n (&checkpoints[0].n_events, __ATOMIC_ACQUIRE) == 0)
        g_usleep (1000);
      g_usleep ((gulong) g_test_rand_int_range (0, 2 * G_USEC_PER_SEC));
      kill (child, SIGKILL);
      killed = g_get_monotonic_time ();
      g_assert_cmpint (waitpid (child, &status, 0), ==, child);
      g_assert_true (WIFSIGNALED (status));
      check_killed (&place, checkpoints, killed);
      munmap (checkpoints, N_CHECKPOINTS * sizeof (Checkpoint));
      g_unlink (path);
    }
}

int
main (int argc, char **argv)
{
  program = g_file_read_link ("/proc/self/exe", NULL);
  if (argc == 4 && g_str_equal (argv[1], KILL_ME))
    record_until_killed (argv[2], argv[3]);
  if (argc == 3 && g_str_equal (argv[1], FORK_AND_DIE))
    fork_and_die (argv[2]);
  g_test_init (&argc, &argv, NULL);
  g_assert_cmpint (pthread_atfork (NULL, NULL, hold_child), ==, 0);
  g_test_add_func ("/core/record/fork", test_fork);
  g_test_add_func ("/core/record/fork-twice", test_fork_twice);
  g_test_add_func ("/core/record/fork-lives-on", test_fork_lives_on);
  g_test_add_func ("/core/record/fork-while-starting", test_fork_while_starting);
  g_test_add_func ("/core/record/environment", test_environment);
  g_test_add_func ("/core/record/environment-full", test_environment_full);
  g_test_add_func ("/core/record/killed", test_killed);
  return g_test_run ();
}
