/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads and checks the command line of tarn-run. */

#include <config.h>

#include "tarn-run-options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/debug-words-private.h"
#include "common/limit-private.h"
#include "file.h"
#include "output.h"

#define PROGRAM "tarn-run"

#define NOT_GIVEN G_MININT /* value of a number that was not given */
#define DEFAULT_TIMEOUT 60 /* seconds of each run with --every */

static gboolean G_GNUC_PRINTF (2, 3) refuse (GError **error, const gchar *format, ...)
{
  va_list args;

  va_start (args, format);
  if (error != NULL)
    *error = g_error_new_valist (G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, format, args);
  va_end (args);
  return FALSE;
}

gboolean
options_run_every (const Options *options)
{
  return options->every || options->every_calls != NULL;
}

/* Checks the options for a single run.  Refuses options that are only for --every. */
static gboolean
check_single (const Options *options, GError **error)
{
  const EverySettings *each = &options->each;

  if (each->jobs != NOT_GIVEN || each->max != NOT_GIVEN || each->timeout != NOT_GIVEN
      || options->expected != NULL || each->ignores_leaks)
    return refuse (error, "--jobs, --max, --timeout, --expect-status and --no-leaks are for "
                          "--every");
  if (options->faults.all && options->faults.calls == NULL)
    return refuse (error, "--fail-all is for --fail, or --every");
  return TRUE;
}

static gboolean
check_numbers (const EverySettings *each, GError **error)
{
  if (each->jobs != NOT_GIVEN && each->jobs < 1)
    return refuse (error, "--jobs %d: must be at least 1", each->jobs);
  if (each->max != NOT_GIVEN && each->max < 1)
    return refuse (error, "--max %d: must be at least 1", each->max);
  /* The limit is 11 days, because a guint must hold the milliseconds.  This form of the comparison
   * also refuses NaN. */
  if (each->timeout != NOT_GIVEN && !(each->timeout >= 0 && each->timeout <= 1e6))
    return refuse (error, "--timeout %g: must be from 0 to 1000000", each->timeout);
  return TRUE;
}

/* Reads exit statuses with commas between them.  Returns NULL with an error if one is wrong. */
static GArray *
read_statuses (const gchar *text, GError **error)
{
  g_auto (GStrv) words = g_strsplit (text, ",", -1);
  g_autoptr (GArray) statuses = g_array_new (FALSE, FALSE, sizeof (gint));
  gsize n = MAX (1, g_strv_length (words));

  for (gsize i = 0; i < n; i++)
    {
      const gchar *word = words[i] != NULL ? words[i] : "";
      guint64 number;
      gint status;

      if (!g_ascii_string_to_unsigned (word, 10, 0, 255, &number, NULL))
        {
          refuse (error, "--expect-status: '%s' is no exit status, from 0 to 255", word);
          return NULL;
        }
      status = (gint) number;
      g_array_append_val (statuses, status);
    }
  return g_steal_pointer (&statuses);
}

static gboolean
check_names (const gchar *text, GError **error)
{
  g_auto (GStrv) names = g_strsplit (text, ",", -1);

  if (names[0] == NULL)
    return faults_check_name ("--every", "", error);
  for (gsize i = 0; names[i] != NULL; i++)
    if (!faults_check_name ("--every", names[i], error))
      return FALSE;
  return TRUE;
}

/* Completes the settings of --every: with defaults, and with options that single runs have, too. */
static gboolean
complete_every (Options *options, GError **error)
{
  EverySettings *each = &options->each;

  each->jobs = each->jobs != NOT_GIVEN ? each->jobs : 1;
  each->max = each->max != NOT_GIVEN ? each->max : 0;
  each->timeout = each->timeout != NOT_GIVEN ? each->timeout : DEFAULT_TIMEOUT;
  each->all = options->faults.all;
  each->budget = options->faults.budget;
  each->debug = options->debug;
  each->program = options->program;
  if (options->every_calls != NULL && !check_names (options->every_calls, error))
    return FALSE;
  if (options->every_calls != NULL)
    each->calls = g_strsplit (options->every_calls, ",", -1);
  if (options->expected != NULL)
    each->statuses = read_statuses (options->expected, error);
  return options->expected == NULL || each->statuses != NULL;
}

static gboolean
check_every (Options *options, GError **error)
{
  if (options->limit != NULL || options->stats || options->trace != NULL
      || options->faults.calls != NULL || options->faults.loss != NULL)
    return refuse (error, "--limit, --stats, --trace, --fail and --device-loss cannot be used with "
                          "--every");
  return check_numbers (&options->each, error) && complete_every (options, error);
}

static gboolean
check_debug (const gchar *text, GError **error)
{
  g_auto (GStrv) words = g_strsplit (text, ",", -1);
  TarnDebugSettings settings = TARN_DEBUG_SETTINGS_INIT;

  for (gsize i = 0; words[i] != NULL; i++)
    if (!_tarn_debug_read_word (&settings, words[i]))
      return refuse (error, "--debug: '%s' is none of these: " TARN_DEBUG_WORDS, words[i]);
  return settings.flags != 0 || refuse (error, "--debug names nothing to look for, such as all");
}

/* Checks the name of a recording.  A name with %p is not checked, because each process has a file
 * of its own. */
static gboolean
check_trace (const gchar *name, GError **error)
{
  return strstr (name, "%p") != NULL || file_check_writable ("--trace", name, error);
}

/* Checks the program last: if an option lacks its value, the option has taken the program's name,
 * and the message should be about the option. */
static gboolean
check_options (Options *options, GError **error)
{
  gsize bytes;

  if (options->trace != NULL && !check_trace (options->trace, error))
    return FALSE;
  if (options->debug != NULL && options->no_pool)
    return refuse (error, "--debug checks buffers of a pool: it cannot be used with --no-pool");
  if (options->debug != NULL && !check_debug (options->debug, error))
    return FALSE;
  if (!faults_check (&options->faults, error)
      || !(options_run_every (options) ? check_every (options, error)
                                       : check_single (options, error)))
    return FALSE;
  /* Checks only the syntax.  The layer computes a limit that is a share of each device's memory. */
  if (options->limit != NULL
      && !_tarn_parse_limit ("--limit", options->limit, G_MAXSIZE, &bytes, error))
    return FALSE;
  return options->program != NULL || refuse (error, "no program to run; see %s --help", PROGRAM);
}

static GOptionContext *
describe_options (Options *options)
{
  const GOptionEntry entries[] = {
    { "limit", 0, 0, G_OPTION_ARG_STRING, &options->limit,
      "Most device memory of a pool: 800M, 80%", "SIZE" },
    { "no-pool", 0, 0, G_OPTION_ARG_NONE, &options->no_pool,
      "Leave all buffers to the driver, and count them", NULL },
    { "stats", 0, 0, G_OPTION_ARG_NONE, &options->stats, "Print the numbers of buffers at the end",
      NULL },
    { "trace", 0, 0, G_OPTION_ARG_FILENAME, &options->trace,
      "Record memory events, for tarn-view and tarn-trace", "FILE" },
    { "debug", 0, 0, G_OPTION_ARG_STRING, &options->debug,
      "Look for mistakes: guards,poison,leaks or all", "WORDS" },
    { "budget", 0, 0, G_OPTION_ARG_STRING, &options->faults.budget,
      "Fail allocations beyond this total: 256M", "SIZE" },
    { "fail", 0, 0, G_OPTION_ARG_STRING_ARRAY, &options->faults.calls,
      "Fail the Nth call: clCreateBuffer:3, :3-5, :3+", "CALL:N" },
    { "fail-all", 0, 0, G_OPTION_ARG_NONE, &options->faults.all,
      "... and all later calls of that name", NULL },
    { "device-loss", 0, 0, G_OPTION_ARG_STRING, &options->faults.loss,
      "Lose the device at its Nth call", "N" },
    { "every", 0, 0, G_OPTION_ARG_NONE, &options->every,
      "Run once for each call that can fail, or =CALL,...", NULL },
    { "every", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &options->every_calls, NULL, NULL },
    { "jobs", 0, 0, G_OPTION_ARG_INT, &options->each.jobs, "... this many runs at once (1)", "N" },
    { "max", 0, 0, G_OPTION_ARG_INT, &options->each.max, "... this many runs at most", "N" },
    { "timeout", 0, 0, G_OPTION_ARG_DOUBLE, &options->each.timeout,
      "... seconds per run (60; 0: no limit)", "S" },
    { "expect-status", 0, 0, G_OPTION_ARG_STRING, &options->expected,
      "... accept these exit statuses only: 0,1", "LIST" },
    { "no-leaks", 0, 0, G_OPTION_ARG_NONE, &options->each.ignores_leaks, "... ignore leaks", NULL },
    { "version", 0, 0, G_OPTION_ARG_NONE, &options->version, "Print the version", NULL },
    { "help", 'h', 0, G_OPTION_ARG_NONE, &options->help, "Print this help", NULL },
    { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &options->program, NULL, NULL },
    { NULL, 0, 0, 0, NULL, NULL, NULL },
  };
  GOptionContext *context = g_option_context_new ("[--] PROGRAM [ARGUMENT...]");

  g_option_context_set_summary (
      context, "Runs an OpenCL program on a pool. Exit status: its own, or 125-127 as env(1).");
  /* GLib's own --help would print and exit before output_guard () is called. */
  g_option_context_set_help_enabled (context, FALSE);
  g_option_context_set_strict_posix (context, TRUE);
  g_option_context_add_main_entries (context, entries, NULL);
  return context;
}

gboolean
options_read (Options *options, gint *argc, gchar ***argv, GError **error)
{
  const EverySettings each = { .jobs = NOT_GIVEN, .max = NOT_GIVEN, .timeout = NOT_GIVEN };
  g_autoptr (GOptionContext) context = NULL;

  *options = (Options){ .each = each };
  context = describe_options (options);
  return g_option_context_parse (context, argc, argv, error)
         && (options->help || options->version || check_options (options, error));
}

gint
options_print_about (Options *options)
{
  g_autoptr (GOptionContext) context = describe_options (options);
  g_autofree gchar *help = NULL;

  /* main () does not call output_guard (), because tarn-run may run a program with standard output
   * closed. */
  output_guard (PROGRAM);
  if (options->version)
    {
      printf ("%s %s\n", PROGRAM, PACKAGE_VERSION);
      return EXIT_SUCCESS;
    }
  help = g_option_context_get_help (context, TRUE, NULL);
  g_print ("%s", help); /* unlike printf (), converts UTF-8 to the locale's encoding */
  return EXIT_SUCCESS;
}

void
options_clear (Options *options)
{
  g_free (options->limit);
  g_free (options->trace);
  g_free (options->debug);
  g_strfreev (options->faults.calls);
  g_free (options->faults.budget);
  g_free (options->faults.loss);
  g_free (options->every_calls);
  g_free (options->expected);
  g_strfreev (options->each.calls);
  g_clear_pointer (&options->each.statuses, g_array_unref);
  g_strfreev (options->program);
}
