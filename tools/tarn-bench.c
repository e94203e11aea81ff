/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Measures the cost of allocations for each selected device and kind of memory: allocations by the
 * driver, and by a pool over the driver.  The yardstick is malloc (64) + free in the same run. */

#include <config.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/measures.h"
#include "bench/options.h"
#include "bench/report.h"
#include "bench/trace.h"
#include "devices.h"
#include "output.h"
#include "terminal.h"
#include "text.h"

#define EXIT_USAGE 2

/* A target: a kind of memory of a device. */
typedef struct
{
  const Kind *kind;
  const Device *device; /* NULL: the kind needs none */
} Target;

static gboolean
needs_devices (const Options *options)
{
  for (gsize i = 0; i < n_kinds; i++)
    if (options->has_kind[i] && kinds[i].backend != NULL)
      return TRUE;
  return FALSE;
}

static void
add_targets (GArray *targets, const Options *options, const Device *device)
{
  for (gsize i = 0; i < n_kinds; i++)
    {
      const Target target = { &kinds[i], device };
      const gchar *backend = kinds[i].backend != NULL ? kinds[i].backend->name : NULL;

      if (options->has_kind[i] && g_strcmp0 (backend, device != NULL ? device->kind : NULL) == 0)
        g_array_append_val (targets, target);
    }
}

static GArray *
make_targets (const Options *options, const GPtrArray *devices)
{
  GArray *targets = g_array_new (FALSE, FALSE, sizeof (Target));

  add_targets (targets, options, NULL);
  for (guint i = 0; i < devices->len; i++)
    add_targets (targets, options, g_ptr_array_index (devices, i));
  return targets;
}

static void
measure_source (Bench *bench, const Options *options, const Source *source, const gchar *prefix)
{
  for (gsize i = 0; i < n_measures; i++)
    {
      g_autofree gchar *step = g_strdup_printf ("%s: %s", prefix, measures[i].name);

      if (!options->has_measure[i] || !measure_applies (&measures[i], bench, source->kind))
        continue;
      bench->step = step;
      bench_show_progress (bench, 0);
      measures[i].run (bench, source, &measures[i]);
      bench_hand_over (bench);
    }
}

static void
measure_targets (Bench *bench, const Options *options, const GArray *targets)
{
  for (guint i = 0; i < targets->len; i++)
    {
      const Target *target = &g_array_index (targets, Target, i);
      GError *error = NULL;
      g_autoptr (Source) source
          = source_open (target->kind, target->device, bench->has_queues, bench->lag, &error);
      g_autofree gchar *prefix
          = g_strdup_printf ("[%u/%u] %s%s%s", i + 1, targets->len,
                             target->device != NULL ? target->device->place : "",
                             target->device != NULL ? " " : "", target->kind->name);

      if (source != NULL)
        measure_source (bench, options, source, prefix);
      else
        results_add_failure (bench->results, target->kind, target->device, error);
      bench_hand_over (bench);
    }
}

/* Functions that handle signals */

static Report
    report; /* static, because the thread that waits for signals uses it until the process ends */

/* Ends this program by a signal: unblocks the signal and raises it. */
static void
die_of (gint number)
{
  sigset_t signals;

  signal (number, SIG_DFL);
  sigemptyset (&signals);
  sigaddset (&signals, number);
  pthread_sigmask (SIG_UNBLOCK, &signals, NULL);
  raise (number);
}

/* Completes the report, so that its JSON is valid, and then ends this program by a signal. */
static gpointer
end_and_die (gpointer number)
{
  report_end (&report);
  die_of (GPOINTER_TO_INT (number));
  return NULL;
}

/* After a signal, the program waits for the complete report, but no longer than this.  If the
 * reader of standard output has stopped, the thread that prints is blocked and holds the report's
 * lock, so the report cannot be completed.  A second signal ends the wait. */
static const struct timespec patience = { 5, 0 };

/* Waits for a signal, in a thread of its own, and ends this program. */
static gpointer
wait_for_signal (gpointer data)
{
  const sigset_t *signals = data;
  gint number, second;
  GThread *ending;

  if (sigwait (signals, &number) != 0)
    return NULL;
  ending = g_thread_try_new ("end", end_and_die, GINT_TO_POINTER (number), NULL);
  /* If no thread can be created, ends at once with an incomplete report: this thread must not wait
   * for the report's lock. */
  if (ending == NULL)
    die_of (number);
  g_thread_unref (ending);
  second = sigtimedwait (signals, NULL, &patience);
  die_of (second > 0 ? second : number);
  return NULL;
}

/* Starts the thread that waits for signals.  Returns FALSE with an error if the thread cannot be
 * created.
 *
 * Call it before any driver is loaded.  Then signals are blocked in all threads of the driver, and
 * do not reach its handlers (LLVM has some).  A signal that was ignored when the program began
 * stays ignored, as nohup(1) expects. */
static gboolean
watch_signals (GError **error)
{
  static const gint numbers[] = { SIGINT, SIGTERM, SIGHUP };
  static sigset_t signals;
  struct sigaction action;
  GThread *thread;

  sigemptyset (&signals);
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    if (sigaction (numbers[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
      sigaddset (&signals, numbers[i]);
  pthread_sigmask (SIG_BLOCK, &signals, NULL);
  thread = g_thread_try_new ("signals", wait_for_signal, &signals, error);
  if (thread == NULL)
    return FALSE;
  g_thread_unref (thread);
  return TRUE;
}

/* Functions that run the measures */

static const Printer *
choose_printer (const Options *options)
{
  if (options->json)
    return &json_printer;
  return options->csv ? &csv_printer : &text_printer;
}

static gint
measure_devices (const Options *options, const GPtrArray *devices)
{
  g_autoptr (GArray) targets = make_targets (options, devices);
  g_autoptr (GPtrArray) made_traces = traces_make ();
  g_autoptr (Results) results = results_new ();
  const PrintHead head
      = { options->seconds, (guint) options->repetitions, options->queues,
          terminal_has_color (STDOUT_FILENO), options_have_only_what_if (options) };
  Bench bench = { .seconds = options->seconds,
                  .n_repetitions = (guint) options->repetitions,
                  .threads = options->threads,
                  .made_traces = made_traces,
                  .read_traces = options->traces,
                  .recordings = options->recordings,
                  .alternatives = options->alternatives,
                  .has_all_alternatives
                  = options->what_if_list != NULL && !g_str_equal (options->what_if_list, "all"),
                  .has_queues = options->queues,
                  .has_one_queue = options->one_queue,
                  .lag = (guint64) options->late,
                  .results = results,
                  .report = &report };
  gboolean is_missing = devices->len == 0 && options->selection != NULL;
  gboolean is_plotted;

  if (is_missing || targets->len == 0)
    {
      text_complain (PROGRAM, "there is no device%s%s", is_missing ? " that --select selects" : "",
                     is_missing ? "" : " with such memory");
      devices_explain_none ();
      return EXIT_FAILURE;
    }
  report_begin (&report, choose_printer (options), &head, options->plot);
  measure_targets (&bench, options, targets);
  is_plotted = report_end (&report);
  return is_plotted && !results_have_errors (report.results) ? EXIT_SUCCESS : EXIT_FAILURE;
}

static gint
run (const Options *options, GError **error)
{
  g_autoptr (GPtrArray) devices = NULL;

  if (options->version)
    {
      printf ("%s %s\n", PROGRAM, PACKAGE_VERSION);
      return EXIT_SUCCESS;
    }
  if (!watch_signals (error))
    return EXIT_FAILURE;
  if (!needs_devices (options) && options->selection == NULL)
    devices = g_ptr_array_new ();
  else if ((devices = devices_select (options->selection, error)) == NULL)
    return EXIT_USAGE;
  return measure_devices (options, devices);
}

/* Hides the library's message that a pool is over a deferred OpenCL allocator (one whose buffers
 * get memory when a command first uses them), because the user chose that kind of memory.  Shows
 * other messages, such as those about TARN_TRACE. */
static void
ignore_deferred (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer data)
{
  if (strstr (message, "which is deferred") == NULL)
    g_log_default_handler (domain, level, message, data);
}

gint
main (gint argc, gchar **argv)
{
  Options options = { .seconds = 0.02, .repetitions = 5, .late = SIMULATED_LAG };
  g_autoptr (GError) error = NULL;
  gint status = EXIT_USAGE;

  output_guard (PROGRAM);
  report_init (&report);
  text_set_locale ();
  g_set_prgname (PROGRAM);
  g_log_set_handler ("Tarn", G_LOG_LEVEL_MESSAGE, ignore_deferred, NULL);
  if (options_parse (&options, &argc, &argv, &error))
    status = run (&options, &error);
  if (error != NULL)
    text_complain (PROGRAM, "%s", error->message);
  options_clear (&options);
  return status;
}
