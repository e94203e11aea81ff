/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Runs test programs once for each selected device, each time in a process of its own.  A driver
 * that crashes or hangs ends only one run. */

#include <config.h>

#include <errno.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "devices.h"
#include "file.h"
#include "interrupt.h"
#include "junit.h"
#include "output.h"
#include "report.h"
#include "run.h"
#include "terminal.h"
#include "text.h"

#define PROGRAM "tarn-test"

#define EXIT_USAGE 2

/* The command line. */
typedef struct
{
  gchar *selection; /* NULL: an environment variable selects the devices */
  gint jobs;
  gdouble timeout; /* seconds; 0: none */
  gchar *junit;    /* a file; nullable */
  gboolean list, flat, verbose, version;
  gchar **programs;
} Options;

/* All runs of the command line.
 *
 * Invariant, between iterations of the main loop: each run is in exactly one of waiting, running
 * and done.  No two elements of running are on the same hardware. */
typedef struct
{
  const Options *options;
  GPtrArray *runs; /* owns all Runs */
  GPtrArray *waiting;
  GPtrArray *running;
  GPtrArray *done; /* in the order in which they ended and were reported */
  Report report;
} Session;

static gboolean G_GNUC_PRINTF (2, 3) refuse (GError **error, const gchar *format, ...)
{
  va_list args;

  va_start (args, format);
  if (error != NULL)
    *error = g_error_new_valist (G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, format, args);
  va_end (args);
  return FALSE;
}

static gboolean
check_options (const Options *options, GError **error)
{
  if (options->jobs < 1)
    return refuse (error, "--jobs %d: must be at least 1", options->jobs);
  /* The limit is 11 days, because a guint must hold the milliseconds.  This form of the comparison
   * also refuses NaN. */
  if (!(options->timeout >= 0 && options->timeout <= 1e6))
    return refuse (error, "--timeout %g: must be from 0 to 1000000", options->timeout);
  if (!options->list && options->programs == NULL)
    return refuse (error, "no program to run; see %s --help", PROGRAM);
  if (options->list && options->programs != NULL)
    return refuse (error, "--list takes no program: '%s'", options->programs[0]);
  return TRUE;
}

/* Splits "-j4" into "-j 4": people type "-j4", but GOption reads only "-j 4". */
static GStrv
split_attached (gchar **argv)
{
  GPtrArray *words = g_ptr_array_new ();
  gboolean is_rest = FALSE;

  for (gsize i = 0; argv[i] != NULL; i++)
    {
      const gchar *word = argv[i];

      is_rest |= g_str_equal (word, "--");
      if (is_rest || i == 0 || word[0] != '-' || word[1] == '\0' || strchr ("sjt", word[1]) == NULL
          || word[2] == '\0')
        g_ptr_array_add (words, g_strdup (word));
      else
        {
          g_ptr_array_add (words, g_strndup (word, 2));
          g_ptr_array_add (words, g_strdup (word + 2));
        }
    }
  g_ptr_array_add (words, NULL);
  return (GStrv) g_ptr_array_free (words, FALSE);
}

static gboolean
parse_options (Options *options, gchar **argv, GError **error)
{
  const GOptionEntry entries[] = {
    { "select", 's', 0, G_OPTION_ARG_STRING, &options->selection,
      "Devices, such as 0:0, intel:i5 or *:h200", "SPEC" },
    { "list", 'l', 0, G_OPTION_ARG_NONE, &options->list, "List the devices and their selectors",
      NULL },
    { "jobs", 'j', 0, G_OPTION_ARG_INT, &options->jobs, "Number of devices that run at once (1)",
      "N" },
    { "timeout", 't', 0, G_OPTION_ARG_DOUBLE, &options->timeout,
      "Seconds per run (300; 0: no limit)", "S" },
    { "junit", 0, 0, G_OPTION_ARG_FILENAME, &options->junit, "Also write the results as JUnit XML",
      "FILE" },
    { "flat", 0, 0, G_OPTION_ARG_NONE, &options->flat,
      "Print no subtests, but each point at the top", NULL },
    { "verbose", 'v', 0, G_OPTION_ARG_NONE, &options->verbose, "Also print the output of good runs",
      NULL },
    { "version", 0, 0, G_OPTION_ARG_NONE, &options->version, "Print the version", NULL },
    { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &options->programs, NULL, NULL },
    { NULL, 0, 0, 0, NULL, NULL, NULL },
  };
  g_autoptr (GOptionContext) context = g_option_context_new ("PROGRAM...");
  g_auto (GStrv) words = split_attached (argv);

  g_option_context_set_summary (context, "Runs each test program once for each device.");
  g_option_context_set_description (
      context, "Without --select, TARN_TEST or PYOPENCL_TEST selects devices; by default all.\n"
               "Exit status: 0 if nothing failed, 1 if something did, 2 for wrong usage.\n");
  g_option_context_add_main_entries (context, entries, NULL);
  return g_option_context_parse_strv (context, &words, error)
         && (options->version || check_options (options, error));
}

/* Finds a program as prove does: in the current folder, then in PATH.  Returns NULL with an error
 * if there is none. */
static gchar *
find_program (const gchar *name, GError **error)
{
  g_autofree gchar *path
      = strchr (name, '/') != NULL ? g_strdup (name) : g_build_filename (".", name, NULL);

  if (!g_file_test (path, G_FILE_TEST_EXISTS) && strchr (name, '/') == NULL)
    {
      g_free (path);
      path = g_find_program_in_path (name);
    }
  if (path == NULL || !g_file_test (path, G_FILE_TEST_EXISTS))
    refuse (error, "there is no program '%s'", name);
  else if (g_file_test (path, G_FILE_TEST_IS_DIR))
    refuse (error, "'%s' is a folder", name);
  else if (!g_file_test (path, G_FILE_TEST_IS_EXECUTABLE))
    refuse (error, "'%s' is not executable", name);
  else
    return g_steal_pointer (&path);
  return NULL;
}

static GPtrArray *
find_programs (gchar **names, GError **error)
{
  g_autoptr (GPtrArray) paths = g_ptr_array_new_with_free_func (g_free);

  for (gsize i = 0; names[i] != NULL; i++)
    {
      gchar *path = find_program (names[i], error);

      if (path == NULL)
        return NULL;
      g_ptr_array_add (paths, path);
    }
  return g_steal_pointer (&paths);
}

static void
show_progress (const Session *session)
{
  g_autoptr (GString) text = g_string_new (NULL);
  const guint *n = session->report.n;

  if (!terminal_shows_progress ())
    return;
  g_string_printf (text, "[%u/%u] %u passed, %u failed", session->done->len, session->runs->len,
                   n[TAP_PASSED], n[TAP_FAILED]);
  for (guint i = 0; i < session->running->len; i++)
    g_string_append_printf (text, "%s %s", i == 0 ? ":" : ",",
                            ((const Run *) g_ptr_array_index (session->running, i))->name);
  terminal_set_progress (text->str);
}

static gboolean
is_busy (const Session *session, const Device *device)
{
  for (guint i = 0; i < session->running->len; i++)
    if (devices_are_one (((const Run *) g_ptr_array_index (session->running, i))->device, device))
      return TRUE;
  return FALSE;
}

/* Takes the first waiting run whose device is idle, because two programs at once on one device
 * would take memory from each other.  Returns NULL if there is no such run. */
static Run *
take_next (Session *session)
{
  for (guint i = 0; i < session->waiting->len; i++)
    if (!is_busy (session, ((const Run *) g_ptr_array_index (session->waiting, i))->device))
      return g_ptr_array_steal_index (session->waiting, i);
  return NULL;
}

static void
take_result (Session *session, Run *run)
{
  g_ptr_array_add (session->done, run);
  terminal_set_progress (NULL);
  report_run (&session->report, run);
  if (session->options->junit == NULL)
    run_forget_output (run);
}

static void
on_run_ended (Run *run, gpointer data)
{
  Session *session = data;

  if (!g_ptr_array_remove_fast (session->running, run))
    g_assert_not_reached ();
  take_result (session, run);
}

static void
start_runs (Session *session)
{
  Run *run;

  while (session->running->len < (guint) session->options->jobs
         && (run = take_next (session)) != NULL)
    {
      if (run->device == NULL)
        {
          run_skip (run, "there is no device");
          take_result (session, run);
          continue;
        }
      g_ptr_array_add (session->running, run);
      run_start (run, session->options->timeout, on_run_ended, session);
    }
}

/* Kills all programs that run, so that none outlives tarn-test. */
static void
kill_all (const Session *session)
{
  for (guint i = 0; i < session->running->len; i++)
    process_kill (((const Run *) g_ptr_array_index (session->running, i))->process);
}

static void
die_of_signal (const Session *session)
{
  kill_all (session);
  terminal_set_progress (NULL);
  interrupt_die ();
}

/* Checks standard output.  If it cannot be written, kills all programs and returns FALSE.  When
 * tarn-test ends, output_guard () reports that the output could not be written. */
static gboolean
check_output (const Session *session)
{
  if (!ferror (stdout))
    return TRUE;
  kill_all (session);
  terminal_set_progress (NULL);
  return FALSE;
}

/* Runs all programs.  Returns FALSE if the results could not be written. */
static gboolean
run_all (Session *session)
{
  /* Also ignores SIGPIPE.  If nobody reads standard output, check_output () finds out instead. */
  interrupt_watch ();

  report_begin (&session->report);
  start_runs (session);
  while (session->running->len > 0)
    {
      show_progress (session);
      g_main_context_iteration (NULL, TRUE);
      if (interrupt_get_signal () != 0)
        die_of_signal (session);
      if (!check_output (session))
        return FALSE;
      start_runs (session);
      g_assert (session->waiting->len + session->running->len + session->done->len
                == session->runs->len);
    }
  g_assert (session->waiting->len == 0);
  terminal_set_progress (NULL);
  report_end (&session->report);
  return check_output (session);
}

static gboolean
write_junit (const Session *session)
{
  g_autofree gchar *xml = junit_format (session->done);
  g_autoptr (GError) error = NULL;

  if (file_write (session->options->junit, xml, &error))
    return TRUE;
  text_complain (PROGRAM, "--junit: %s", error->message);
  return FALSE;
}

static void
add_runs (GPtrArray *runs, gchar **programs, const GPtrArray *paths, const GPtrArray *devices)
{
  for (guint i = 0; i < paths->len; i++)
    {
      const gchar *path = g_ptr_array_index (paths, i);

      if (devices->len == 0)
        g_ptr_array_add (runs, run_new (programs[i], path, NULL));
      for (guint j = 0; j < devices->len; j++)
        g_ptr_array_add (runs, run_new (programs[i], path, g_ptr_array_index (devices, j)));
    }
}

static gint
run_programs (const Options *options, const GPtrArray *paths, const GPtrArray *devices)
{
  g_autoptr (GPtrArray) runs = g_ptr_array_new_with_free_func ((GDestroyNotify) run_free);
  g_autoptr (GPtrArray) waiting = g_ptr_array_new ();
  g_autoptr (GPtrArray) running = g_ptr_array_new ();
  g_autoptr (GPtrArray) done = g_ptr_array_new ();
  Session session = {
    .options = options,
    .runs = runs,
    .waiting = waiting,
    .running = running,
    .done = done,
    .report = { .is_flat = options->flat, .is_verbose = options->verbose },
  };
  gboolean is_written;

  session.report.has_color = terminal_has_color (STDOUT_FILENO);
  add_runs (runs, options->programs, paths, devices);
  for (guint i = 0; i < runs->len; i++)
    g_ptr_array_add (waiting, g_ptr_array_index (runs, i));
  is_written = run_all (&session);
  if (options->junit != NULL && is_written)
    is_written = write_junit (&session);
  return is_written && session.report.n[TAP_FAILED] == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static gint
list_devices (const GPtrArray *devices)
{
  if (devices->len == 0)
    {
      text_complain (PROGRAM, "there is no device");
      devices_explain_none ();
      return EXIT_FAILURE;
    }
  for (guint i = 0; i < devices->len; i++)
    {
      const Device *device = g_ptr_array_index (devices, i);

      printf ("%s\t%s\t%s, %s\n", device->place, device->selector, device->name, device->platform);
    }
  return EXIT_SUCCESS;
}

static gint
run (const Options *options, GError **error)
{
  g_autoptr (GPtrArray) devices = NULL;
  g_autoptr (GPtrArray) paths = NULL;

  if (options->version)
    {
      printf ("%s %s\n", PROGRAM, PACKAGE_VERSION);
      return EXIT_SUCCESS;
    }
  if (!options->list
      && ((paths = find_programs (options->programs, error)) == NULL
          || (options->junit != NULL && !file_check_writable ("--junit", options->junit, error))))
    return EXIT_USAGE;
  if ((devices = devices_select (options->selection, error)) == NULL)
    return EXIT_USAGE;
  return options->list ? list_devices (devices) : run_programs (options, paths, devices);
}

gint
main (gint argc, gchar **argv)
{
  Options options = { .jobs = 1, .timeout = 300 };
  g_autoptr (GError) error = NULL;
  gint status = EXIT_USAGE;

  output_guard (PROGRAM);
  interrupt_init ();
  /* The caller may have set SIGCHLD to be ignored.  Then exit statuses would be lost. */
  signal (SIGCHLD, SIG_DFL);
  text_set_locale ();
  g_set_prgname (PROGRAM);
  (void) argc;
  if (parse_options (&options, argv, &error))
    status = run (&options, &error);
  if (error != NULL)
    text_complain (PROGRAM, "%s", error->message);
  g_free (options.selection);
  g_free (options.junit);
  g_strfreev (options.programs);
  return status;
}
