/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * First the program runs twice without a fault ("good runs").  These runs show which calls the
 * program makes, and if it prints the same each time.  If its output varies, more good runs follow.
 * More good runs also follow before a trial's output is called wrong for the first time.
 *
 * Then each call fails in a run of its own (a trial).  The order is fixed: the first call of each
 * name, then the second call of each name, and so on.  So the first few trials cover all names. */

#include "every.h"

#include <glib/gstdio.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../exit-status.h"
#include "../interrupt.h"
#include "../tap.h"
#include "../terminal.h"
#include "../text.h"
#include "agreement.h"
#include "trial.h"
#include "verdict.h"

#define MAX_ERROR_LINES 8  /* lines shown of a failed program's standard error */
#define MAX_FOUND_LINES 30 /* lines of standard error shown if TARN_DEBUG found mistakes */

/* Numbers of good runs.  FEW_GOOD is the number at first.  MORE_GOOD is for output that varies, or
 * a trial's output that seems to be wrong.  MOST_GOOD is for both at once. */
#define FEW_GOOD 2
#define MORE_GOOD 5
#define MOST_GOOD 10

/* All trials of a program.
 *
 * Invariant: n_printed <= n_started <= trials->len.  Trials before n_printed are freed and NULL.
 * The index of a running trial is at least n_printed, and less than n_started.  n_running counts
 * the running trials and a running good run. */
typedef struct
{
  const EverySettings *settings;
  gchar *folder;        /* path of the folder that has the reports */
  GPtrArray *good;      /* Trials: the good runs */
  Agreement *agreement; /* learned from the output of good runs; NULL before these have run */
  gboolean is_over;     /* standard output is closed: nobody reads the results */
  Verdict verdict;
  GPtrArray *trials; /* Trials in the order in which they are printed; a printed Trial is NULL */
  guint n_started, n_running, n_printed;
  guint n[3]; /* number of trials with each TapResult */
  gboolean has_color;
} Session;

static void on_ended (Trial *trial, gpointer data);

static void
start (Session *session, Trial *trial, const gchar *name)
{
  const EverySettings *settings = session->settings;
  const TrialSettings trial_settings = { .program = settings->program,
                                         .environment = settings->environment,
                                         .budget = settings->budget,
                                         .debug = settings->debug,
                                         .timeout = settings->timeout };
  g_autofree gchar *report = g_build_filename (session->folder, name, NULL);

  session->n_running++;
  trial_start (trial, &trial_settings, report, on_ended, session);
}

/* Functions that plan the trials, and print the plan */

static gint
compare_ranks (gconstpointer a, gconstpointer b)
{
  return (gint) faults_get_rank (a) - (gint) faults_get_rank (b);
}

static GList *
remove_requests (GList *names)
{
  GList *link = g_list_find_custom (names, FAULTS_REQUESTS, (GCompareFunc) strcmp);

  return g_list_delete_link (names, link);
}

/* Lists the names of the calls that can fail, sorted by their rank: the names on the command line,
 * or else all names.  Leaves out requests to the layer's own pool, because they are not the
 * program's.  The names are borrowed. */
static GList *
list_calls (const Session *session)
{
  gchar **calls = session->settings->calls;
  GList *names = NULL;

  if (calls == NULL)
    names = g_hash_table_get_keys (session->verdict.good->calls);
  if (calls == NULL && session->verdict.good->has_pool)
    names = remove_requests (names);
  for (gsize i = 0; calls != NULL && calls[i] != NULL; i++)
    names = g_list_prepend (names, calls[i]);
  return g_list_sort (names, compare_ranks);
}

/* Tells whether all later calls of the name fail, too.  A pool retries a request that fails once.
 * So the program sees a failed request only if all later ones fail. */
static gboolean
fails_for_ever (const Session *session, const gchar *call)
{
  return session->settings->all || g_str_equal (call, FAULTS_REQUESTS);
}

/* Adds, for each name of a call, the trial in which its call @number fails.  Returns FALSE if the
 * program made fewer calls of every name. */
static gboolean
plan_number (Session *session, const GList *calls, guint64 number)
{
  gboolean has_some = FALSE;

  for (const GList *l = calls; l != NULL; l = l->next)
    if (number <= trial_get_count (session->verdict.good->calls, l->data))
      {
        has_some = TRUE;
        g_ptr_array_add (session->trials,
                         trial_new (l->data, number, fails_for_ever (session, l->data)));
      }
  return has_some;
}

static void
plan (Session *session)
{
  GList *calls = list_calls (session);
  guint max = (guint) session->settings->max;

  for (guint64 number = 1; plan_number (session, calls, number); number++)
    if (max > 0 && session->trials->len >= max)
      break;
  while (max > 0 && session->trials->len > max)
    trial_free (g_ptr_array_remove_index (session->trials, max));
  g_list_free (calls);
}

static void
print_count (gpointer name, gpointer count, gpointer unused)
{
  (void) unused;
  printf ("# %s: %" G_GUINT64_FORMAT "\n", (const gchar *) name, *(guint64 *) count);
}

static void
print_agreement (const Session *session)
{
  g_autofree gchar *text = agreement_describe (session->agreement);

  if (text != NULL && session->settings->statuses == NULL)
    printf ("# %s\n", text);
}

/* Explains why there are no trials. */
static const gchar *
explain_nothing (const Session *session)
{
  if (session->settings->calls != NULL)
    return "the program makes none of these calls";
  return session->verdict.good->has_layer ? "the program makes no call that can fail"
                                          : "the program has loaded no OpenCL loader that knows "
                                            "layers, and allocates nothing from Tarn";
}

static void
print_plan (const Session *session)
{
  GList *calls = list_calls (session);

  const Trial *good = session->verdict.good;
  gboolean is_empty = session->trials->len == 0;

  printf ("TAP version 13\n1..%u%s%s\n", session->trials->len, is_empty ? " # SKIP " : "",
          is_empty ? explain_nothing (session) : "");
  for (const GList *l = calls; l != NULL; l = l->next)
    {
      guint64 n = trial_get_count (session->verdict.good->calls, l->data);

      print_count (l->data, &n, NULL);
    }
  print_agreement (session);
  if (session->settings->debug != NULL && good->n_buffers > 0 && good->n_served == 0)
    printf ("# --debug checks no buffer: none is from a pool, see NOTES in tarn-run(1)\n");
  fflush (stdout);
  g_list_free (calls);
}

/* Functions that print the result of a trial */

static void
print_errors (const Trial *trial)
{
  g_autofree gchar *text = text_make_printable (trial->errors->str, (gssize) trial->errors->len);
  g_auto (GStrv) lines = g_strsplit (g_strchomp (text), "\n", -1);
  guint n = g_strv_length (lines);
  guint max = trial->mistake != NULL || trial->leak != NULL ? MAX_FOUND_LINES : MAX_ERROR_LINES;

  for (guint i = n > max ? n - max : 0; i < n; i++)
    printf ("# %s\n", lines[i]);
}

/* Prints the command that repeats the trial. */
static void
print_again (const Session *session, const Trial *trial)
{
  const EverySettings *settings = session->settings;
  g_autofree gchar *fault = trial_get_fault (trial);

  if (settings->debug != NULL)
    printf ("# again: tarn-run --debug %s --fail %s", settings->debug, fault);
  else
    printf ("# again: tarn-run --no-pool --fail %s", fault);
  if (settings->budget != NULL)
    printf (" --budget %s", settings->budget);
  printf (" --");
  for (gsize i = 0; settings->program[i] != NULL; i++)
    {
      const gchar *word = settings->program[i];
      gboolean is_plain
          = *word != '\0'
            && strspn (word, G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "/._-+=:,%@") == strlen (word);
      g_autofree gchar *quoted = is_plain ? g_strdup (word) : g_shell_quote (word);
      g_autofree gchar *printable = text_make_printable (quoted, -1);

      printf (" %s", g_strdelimit (printable, "\n", ' '));
    }
  printf ("\n");
}

static void
print_point (Session *session, const Trial *trial)
{
  g_autofree gchar *fault = trial_get_fault (trial);
  g_autofree gchar *problem = verdict_find (&session->verdict, trial);
  g_autofree gchar *escaped = problem != NULL ? tap_escape (problem) : NULL;
  TapResult result = problem != NULL ? TAP_FAILED : trial->has_failed ? TAP_PASSED : TAP_SKIPPED;
  gboolean is_red = problem != NULL && session->has_color;

  session->n[result]++;
  printf ("%s%s %u - %s", is_red ? "\033[31m" : "", problem != NULL ? "not ok" : "ok",
          session->n_printed + 1, fault);
  if (result == TAP_PASSED)
    printf (", %s %d", trial->end == PROCESS_SIGNALLED ? "signal" : "exit status", trial->code);
  else if (result == TAP_FAILED)
    printf (", %s", escaped);
  else
    printf (" # SKIP the program did not make that call");
  printf ("%s\n", is_red ? "\033[0m" : "");
  if (problem != NULL)
    {
      if (trial->difference != NULL)
        printf ("# %s\n", trial->difference);
      print_errors (trial);
      print_again (session, trial);
    }
}

static void
show_progress (const Session *session)
{
  g_autofree gchar *text = NULL;

  if (!terminal_shows_progress ())
    return;
  text = g_strdup_printf ("[%u/%u] %u passed, %u failed", session->n_printed, session->trials->len,
                          session->n[TAP_PASSED], session->n[TAP_FAILED]);
  terminal_set_progress (text);
}

static void
on_ended (Trial *trial, gpointer data)
{
  Session *session = data;

  g_assert (session->n_running > 0 && trial->is_done);
  session->n_running--;
  if (trial->call != NULL && trial->output != NULL
      && (!verdict_compares_output (&session->verdict, trial)
          || g_string_equal (trial->output, session->verdict.good->output)))
    trial_drop_output (trial);
}

/* Functions that run the main loop, and kill programs */

static void
kill_trial (const Trial *trial)
{
  if (trial != NULL && trial->process != NULL)
    process_kill (trial->process);
}

/* Kills all programs that run, so that none outlives tarn-run. */
static void
kill_all (const Session *session)
{
  for (guint i = 0; i < session->good->len; i++)
    kill_trial (g_ptr_array_index (session->good, i));
  for (guint i = session->n_printed; i < session->n_started; i++)
    kill_trial (g_ptr_array_index (session->trials, i));
}

static void
session_clear (Session *session)
{
  g_ptr_array_set_size (session->good, 0);
  g_clear_pointer (&session->agreement, agreement_free);
  for (guint i = session->n_printed; i < session->trials->len; i++)
    trial_free (g_ptr_array_index (session->trials, i));
  g_ptr_array_set_size (session->trials, 0);
  if (session->folder != NULL)
    g_rmdir (session->folder);
  g_clear_pointer (&session->folder, g_free);
}

static void
die_of_signal (Session *session)
{
  kill_all (session);
  terminal_set_progress (NULL);
  session_clear (session);
  interrupt_die ();
}

/* Waits for an event of the main loop.  Returns FALSE if standard output is closed. */
static gboolean
wait_for_more (Session *session)
{
  g_main_context_iteration (NULL, TRUE);
  if (interrupt_get_signal () != 0)
    die_of_signal (session);
  if (!ferror (stdout))
    return TRUE;
  kill_all (session); /* output_guard () reports the closed output at the end */
  return FALSE;
}

/* Functions that run the program without a fault */

static void
bail_out (const gchar *problem)
{
  g_autofree gchar *escaped = tap_escape (problem);

  printf ("TAP version 13\nBail out! Without a fault: %s\n", escaped);
}

static gint
get_error_status (const Trial *trial)
{
  if (trial->error_code == G_SPAWN_ERROR_NOENT)
    return EXIT_NOT_FOUND;
  return trial->error_code >= 0 ? EXIT_NOT_EXECUTED : EXIT_OURS;
}

/* Runs the program without a fault.  Returns NULL if standard output is closed. */
static Trial *
run_good_once (Session *session)
{
  g_autofree gchar *name = g_strdup_printf ("good-%u", session->good->len + 1);
  Trial *trial = trial_new (NULL, 0, FALSE);

  g_ptr_array_add (session->good, trial);
  start (session, trial, name);
  while (!trial->is_done && !session->is_over)
    session->is_over = !wait_for_more (session);
  return session->is_over ? NULL : trial;
}

static void
learn (Session *session)
{
  g_autoptr (GPtrArray) outputs = g_ptr_array_new ();

  for (guint i = 0; i < session->good->len; i++)
    g_ptr_array_add (outputs, ((Trial *) session->good->pdata[i])->output);
  g_clear_pointer (&session->agreement, agreement_free);
  session->agreement = agreement_new (outputs);
}

/* Runs the program until there are @n good runs.  Returns EXIT_SUCCESS.  If one of these runs has a
 * problem, returns the exit status for tarn-run. */
static gint
run_good (Session *session, guint n)
{
  while (session->good->len < n)
    {
      const Trial *trial = run_good_once (session);
      g_autofree gchar *problem = NULL;

      if (trial == NULL)
        return EXIT_FAILURE;
      if (trial->error != NULL)
        {
          text_complain ("tarn-run", "%s", trial->error);
          return get_error_status (trial);
        }
      problem = verdict_find_in_good (&session->verdict, trial);
      if (problem != NULL)
        {
          bail_out (problem);
          print_errors (trial);
          return EXIT_FAILURE;
        }
    }
  session->verdict.good = session->good->pdata[0];
  learn (session);
  return EXIT_SUCCESS;
}

static gint
begin (Session *session)
{
  gint status = run_good (session, FEW_GOOD);

  if (status == EXIT_SUCCESS && session->settings->statuses == NULL
      && !agreement_is_complete (session->agreement))
    status = run_good (session, MORE_GOOD);
  return status;
}

/* Learns from more good runs, because a trial's output seems to be wrong.  Returns FALSE if there
 * are enough good runs already, or if a new one has a problem. */
static gboolean
learn_more (Session *session)
{
  guint n = session->good->len < MORE_GOOD               ? MORE_GOOD
            : agreement_is_complete (session->agreement) ? 0
                                                         : MOST_GOOD;
  gboolean was_complete = agreement_is_complete (session->agreement);

  if (session->good->len >= n)
    return FALSE;
  while (session->good->len < n)
    {
      const Trial *trial = run_good_once (session);
      g_autofree gchar *problem = NULL;

      if (trial == NULL)
        return FALSE;
      problem = verdict_find_in_good (&session->verdict, trial);
      if (problem != NULL)
        {
          g_ptr_array_remove_index (session->good, session->good->len - 1);
          return FALSE;
        }
    }
  learn (session);
  if (was_complete)
    print_agreement (session);
  return TRUE;
}

/* Functions that run the trials, and print their points */

static void
find_difference (Session *session, Trial *trial)
{
  if (trial->output == NULL)
    return;
  do
    {
      g_free (trial->difference);
      trial->difference = agreement_find_difference (session->agreement, trial->output);
    }
  while (trial->difference != NULL && learn_more (session));
}

/* Prints the finished trials before the first trial that is not finished. */
static void
print_points (Session *session)
{
  terminal_set_progress (NULL);
  while (session->n_printed < session->trials->len)
    {
      Trial **trial = (Trial **) &session->trials->pdata[session->n_printed];

      g_assert (session->n_started <= session->trials->len);
      if (!(*trial)->is_done)
        break;
      g_assert (session->n_printed < session->n_started);
      find_difference (session, *trial);
      if (session->is_over)
        return;
      print_point (session, *trial);
      g_clear_pointer (trial, trial_free);
      session->n_printed++;
    }
  fflush (stdout);
}

static void
start_trials (Session *session)
{
  while (session->n_running < (guint) session->settings->jobs
         && session->n_started < session->trials->len)
    {
      g_autofree gchar *name = g_strdup_printf ("%u", session->n_started + 1);

      start (session, g_ptr_array_index (session->trials, session->n_started++), name);
    }
}

static gint
run_trials (Session *session)
{
  plan (session);
  print_plan (session);
  start_trials (session);
  while (session->n_printed < session->trials->len)
    {
      show_progress (session);
      if (session->n_running > 0 && !wait_for_more (session))
        return EXIT_FAILURE;
      print_points (session);
      if (session->is_over)
        return EXIT_FAILURE;
      start_trials (session);
    }
  terminal_set_progress (NULL);
  printf ("%u passed, %u failed, %u skipped\n", session->n[TAP_PASSED], session->n[TAP_FAILED],
          session->n[TAP_SKIPPED]);
  return session->n[TAP_FAILED] == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

gint
every_run (const EverySettings *settings)
{
  g_autoptr (GPtrArray) trials = g_ptr_array_new ();
  g_autoptr (GPtrArray) good = g_ptr_array_new_with_free_func ((GDestroyNotify) trial_free);
  g_autoptr (GError) error = NULL;
  Session session = {
    .settings = settings,
    .trials = trials,
    .good = good,
    .verdict = { .statuses = settings->statuses,
                 .ignores_leaks = settings->ignores_leaks,
                 .timeout = settings->timeout },
  };
  gint status;

  session.folder = g_dir_make_tmp ("tarn-run-XXXXXX", &error);
  if (session.folder == NULL)
    {
      text_complain ("tarn-run", "%s", error->message);
      return EXIT_OURS;
    }
  session.has_color = terminal_has_color (STDOUT_FILENO);
  interrupt_init ();
  /* Also ignores SIGPIPE.  If nobody reads standard output, wait_for_more () finds out instead. */
  interrupt_watch ();
  signal (SIGCHLD, SIG_DFL);
  status = begin (&session);
  if (status == EXIT_SUCCESS)
    status = run_trials (&session);
  session_clear (&session);
  return status;
}
