/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Runs a test program, and collects its results: the points that it printed, and one more if the
 * run itself went wrong. */

#include "run.h"

#include <signal.h>
#include <string.h>

Run *
run_new (const gchar *program, const gchar *path, const Device *device)
{
  Run *run = g_new0 (Run, 1);

  run->program = program;
  run->path = path;
  run->device = device;
  run->name
      = device != NULL ? g_strdup_printf ("%s on %s", program, device->place) : g_strdup (program);
  run->tap = tap_new ();
  run->errors = g_string_new (NULL);
  return run;
}

void
run_free (Run *run)
{
  g_free (run->name);
  tap_free (run->tap);
  g_string_free (run->errors, TRUE);
  g_clear_pointer (&run->start, g_date_time_unref);
  g_free (run->problem);
  g_free (run);
}

static void
on_output (gpointer data, gboolean is_error, const gchar *bytes, gsize length, gdouble seconds)
{
  Run *run = data;

  if (is_error)
    g_string_append_len (run->errors, bytes, (gssize) length);
  else
    tap_feed (run->tap, bytes, length, seconds);
}

/* Tells whether a failed point explains how the run ended, so that one cause is reported once.
 * When a test fails, g_test prints "not ok" and "Bail out!", and aborts.  Then the points planned
 * after the test are missing. */
static gboolean
is_explained (const Run *run, ProcessEnd end, gint code)
{
  const TapPoint *last = run->tap->last;

  if (last == NULL || last->result != TAP_FAILED || run->tap->broken != NULL)
    return FALSE;
  return (end == PROCESS_SIGNALLED && code == SIGABRT) || (end == PROCESS_EXITED && code != 0)
         || (end == PROCESS_EXITED && run->tap->bail_out != NULL);
}

static gchar *
describe_signal (gint number)
{
  const gchar *name = strsignal (number);

  return g_strdup_printf ("killed by signal %d (%s)", number, name != NULL ? name : "unknown");
}

/* Finds a problem with the run itself, such as a crash.  @broken is an error in the run's TAP, or
 * NULL; takes @broken over.  Returns NULL if there is no problem. */
static gchar *
find_problem (const Run *run, ProcessEnd end, gint code, gdouble seconds, gchar *broken)
{
  g_autofree gchar *owned = broken;

  if (end == PROCESS_TIMED_OUT)
    return g_strdup_printf ("timed out after %g s", run->timeout);
  if (end == PROCESS_STUCK)
    return g_strdup_printf ("could not be killed after %.0f s", seconds);
  if (end == PROCESS_TOO_LOUD)
    return g_strdup_printf ("printed more than %d MiB", PROCESS_MAX_OUTPUT >> 20);
  if (end == PROCESS_TOO_MANY_LINES)
    return g_strdup_printf ("printed more than %d lines", PROCESS_MAX_LINES);
  if (is_explained (run, end, code))
    return NULL;
  if (end == PROCESS_SIGNALLED)
    return describe_signal (code);
  if (run->tap->bail_out != NULL)
    return g_strconcat ("bailed out", run->tap->bail_out[0] != '\0' ? ": " : "", run->tap->bail_out,
                        NULL);
  if (owned != NULL)
    return g_steal_pointer (&owned);
  if (code != 0 && run->tap->n[TAP_FAILED] == 0)
    return g_strdup_printf ("exit status %d", code);
  return NULL;
}

static void
finish (Run *run, gchar *problem, gdouble seconds)
{
  g_assert (run->problem == NULL);
  run->process = NULL;
  run->seconds = seconds;
  run->problem = problem;
  if (problem != NULL)
    {
      g_autofree gchar *text = g_strdup_printf ("%s: %s", run->name, problem);

      tap_add_point (run->tap, FALSE, tap_escape (text), NULL, seconds);
    }
  else if (run->tap->n_points == 0)
    run_skip (run, run->tap->skip_reason);
  run->ended (run, run->user_data);
}

static void
on_ended (gpointer data, ProcessEnd end, gint code, gdouble seconds)
{
  Run *run = data;
  gchar *broken = tap_end (run->tap, seconds);

  finish (run, find_problem (run, end, code, seconds, broken), seconds);
}

/* Gets an environment that selects only @device, for Tarn's tests and for tests with PyOpenCL or
 * PyCUDA. */
static GStrv
environment_for (const Device *device)
{
  GStrv environment = g_environ_setenv (g_get_environ (), "TARN_TEST", device->place, TRUE);

  if (g_str_equal (device->kind, "opencl"))
    return g_environ_setenv (environment, "PYOPENCL_TEST", device->place, TRUE);
  return g_environ_setenv (environment, "CUDA_DEVICE", device->place + strlen ("cuda:"), TRUE);
}

void
run_start (Run *run, gdouble timeout, void (*ended) (Run *run, gpointer user_data),
           gpointer user_data)
{
  static const ProcessFuncs funcs = { on_output, on_ended };
  g_auto (GStrv) environment = environment_for (run->device);
  gchar *arguments[] = { (gchar *) run->path, NULL };
  g_autoptr (GError) error = NULL;

  run->timeout = timeout;
  run->ended = ended;
  run->user_data = user_data;
  run->start = g_date_time_new_now_utc ();
  run->process = process_start (arguments, environment, timeout, &funcs, run, &error);
  if (run->process == NULL)
    finish (run, g_strdup (error->message), 0);
}

void
run_skip (Run *run, const gchar *reason)
{
  gboolean has_reason = reason != NULL && reason[0] != '\0';

  if (run->start == NULL)
    run->start = g_date_time_new_now_utc ();
  tap_add_point (run->tap, TRUE, tap_escape (run->name),
                 g_strconcat ("SKIP", has_reason ? " " : "", reason, NULL), 0);
}

void
run_forget_output (Run *run)
{
  run->tap->last = NULL;
  g_ptr_array_set_size (run->tap->lines, 0);
  g_string_set_size (run->errors, 0);
}

gboolean
run_has_failed (const Run *run)
{
  return run->tap->n[TAP_FAILED] > 0;
}

const gchar *
run_get_skip_reason (const Run *run)
{
  const gchar *directive;

  if (run->tap->n_points == 0 || run->tap->n[TAP_SKIPPED] != run->tap->n_points)
    return NULL;
  g_assert (run->tap->last != NULL && run->tap->last->directive != NULL);
  directive = run->tap->last->directive;
  directive += strcspn (directive, " ");
  return directive + strspn (directive, " ");
}
