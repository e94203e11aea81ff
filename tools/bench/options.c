/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads and checks the command line of tarn-bench. */

#include "options.h"

#include <string.h>

#include "../file.h"
#include "trace.h"

#define HEAP "+heap" /* the end of the name of a kind with a heap */
#define MAX_THREADS 256
#define MAX_DEFAULT_THREADS 16
#define MAX_SECONDS 3600
#define MAX_REPETITIONS 1000
#define MAX_QUEUES 256    /* the most queues that a trace may have */
#define WHAT_IF "what-if" /* the name of the measure for recordings */

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
options_have_only_what_if (const Options *options)
{
  gboolean has_what_if = FALSE, has_other = FALSE;

  for (gsize i = 0; i < n_measures; i++)
    if (g_str_equal (measures[i].name, WHAT_IF))
      has_what_if = options->has_measure[i];
    else
      has_other |= options->has_measure[i];
  return has_what_if && !has_other;
}

/* Functions that parse lists of names */

typedef const gchar *(*GetName) (gsize i);

static const gchar *
get_kind_name (gsize i)
{
  return kinds[i].name;
}

static const gchar *
get_measure_name (gsize i)
{
  return measures[i].name;
}

/* Tells whether a word selects a name.  "opencl" selects all names that begin with "opencl-" and
 * have no heap; "opencl+heap" selects those with a heap.  "null" selects only itself. */
static gboolean
is_selected (const gchar *word, const gchar *name)
{
  gboolean has_heap = g_str_has_suffix (word, HEAP);
  gsize length = strlen (word) - (has_heap ? strlen (HEAP) : 0);

  if (g_str_equal (word, "null") || g_str_equal (word, "null" HEAP))
    return g_str_equal (word, name);
  return strncmp (name, word, length) == 0 && g_str_has_suffix (name, HEAP) == has_heap
         && (name[length] == '\0' || name[length] == '-' || name[length] == '+');
}

static gchar *
join_names (GetName get_name, gsize n)
{
  GString *text = g_string_new (NULL);

  for (gsize i = 0; i < n; i++)
    if (i == 0 || !g_str_equal (get_name (i), get_name (i - 1)))
      g_string_append_printf (text, "%s%s", i > 0 ? ", " : "", get_name (i));
  return g_string_free (text, FALSE);
}

/* Parses a list of names.  If @list is NULL, selects all names without heaps.  Returns an array
 * with a boolean for each of the @n names, TRUE if it is selected; or NULL with an error. */
static gboolean *
parse_names (const gchar *option, const gchar *list, GetName get_name, gsize n, GError **error)
{
  g_autofree gboolean *chosen = g_new0 (gboolean, n);
  g_auto (GStrv) words = g_strsplit (list != NULL ? list : "", ",", -1);

  for (gsize i = 0; i < n; i++)
    chosen[i] = list == NULL && !g_str_has_suffix (get_name (i), HEAP);
  for (gsize w = 0; list != NULL && (w == 0 || words[w] != NULL); w++)
    {
      const gchar *word = words[w] != NULL ? g_strstrip (words[w]) : "";
      gboolean is_found = FALSE;

      for (gsize i = 0; i < n && word[0] != '\0'; i++)
        if (is_selected (word, get_name (i)))
          is_found = chosen[i] = TRUE;
      if (!is_found)
        {
          g_autofree gchar *names = join_names (get_name, n);

          refuse (error, "%s '%s': '%s' is none of these: %s", option, list, word, names);
          return NULL;
        }
      if (words[w] == NULL)
        break;
    }
  return g_steal_pointer (&chosen);
}

/* Functions that parse the numbers of threads */

static GArray *
make_default_threads (void)
{
  GArray *threads = g_array_new (FALSE, FALSE, sizeof (guint));
  guint most = MIN (g_get_num_processors (), MAX_DEFAULT_THREADS);

  for (guint n = 1; n <= most; n *= 2)
    g_array_append_val (threads, n);
  return threads;
}

static GArray *
parse_threads (const gchar *list, GError **error)
{
  g_autoptr (GArray) threads = g_array_new (FALSE, FALSE, sizeof (guint));
  g_auto (GStrv) words = NULL;

  if (list == NULL)
    return make_default_threads ();
  words = g_strsplit (list, ",", -1);
  for (gsize i = 0; words[i] != NULL || i == 0; i++)
    {
      guint64 number;
      guint n, last;

      if (words[i] == NULL
          || !g_ascii_string_to_unsigned (g_strstrip (words[i]), 10, 1, MAX_THREADS, &number, NULL))
        {
          refuse (error, "--threads '%s': '%s' is not a number from 1 to %d", list,
                  words[i] != NULL ? words[i] : "", MAX_THREADS);
          return NULL;
        }
      n = (guint) number;
      last = threads->len > 0 ? g_array_index (threads, guint, threads->len - 1) : 0;
      if (n <= last)
        {
          refuse (error, "--threads '%s': must go up, and %u comes after %u", list, n, last);
          return NULL;
        }
      g_array_append_val (threads, n);
    }
  return g_steal_pointer (&threads);
}

/* Functions that read traces, and check all options */

/* Refuses a trace with more threads or queues than a replay can create. */
static gboolean
check_trace (const gchar *name, const Trace *trace, GError **error)
{
  if (trace->n_threads > MAX_THREADS)
    return refuse (error, "%s: its %u threads are too many for --queues: at most %d", name,
                   trace->n_threads, MAX_THREADS);
  if (trace->n_queues > MAX_QUEUES)
    return refuse (error, "%s: its %u queues are too many for --queues: at most %d", name,
                   trace->n_queues, MAX_QUEUES);
  return TRUE;
}

static gboolean
weave_traces (Options *options, GError **error)
{
  Trace *woven;

  if (options->traces->len < 2)
    return options->traces->len == 0
               ? refuse (error, "--weave: there is no --trace")
               : refuse (error, "--weave: there is only one --trace, %s", options->trace_paths[0]);
  if ((woven = traces_weave (options->traces, error)) == NULL)
    {
      g_prefix_error (error, "--weave ");
      return FALSE;
    }
  g_ptr_array_set_size (options->traces, 0);
  g_ptr_array_add (options->traces, woven);
  return TRUE;
}

/* Reads a file, and adds it to options->recordings if it is a recording, otherwise to
 * options->traces. */
static gboolean
read_trace (Options *options, const gchar *path, GError **error)
{
  gpointer read;

  if (recorded_recognizes (path))
    {
      if ((read = recorded_read (path, error)) != NULL)
        g_ptr_array_add (options->recordings, read);
      return read != NULL;
    }
  if ((read = trace_read (path, error)) == NULL)
    return FALSE;
  g_ptr_array_add (options->traces, read);
  return !options->queues || check_trace (path, read, error);
}

static gboolean
read_traces (Options *options, GError **error)
{
  options->traces = g_ptr_array_new_with_free_func ((GDestroyNotify) trace_free);
  options->recordings = g_ptr_array_new_with_free_func ((GDestroyNotify) recorded_free);
  for (gsize i = 0; options->trace_paths != NULL && options->trace_paths[i] != NULL; i++)
    if (!read_trace (options, options->trace_paths[i], error))
      {
        g_prefix_error (error, "--trace ");
        return FALSE;
      }
  return TRUE;
}

static gboolean
check_recordings (const Options *options, GError **error)
{
  if (options->recordings->len > 0 && options->weave)
    return refuse (error, "--weave: recordings cannot be woven");
  if (options->recordings->len > 0 || !options->what_if)
    return TRUE;
  return refuse (error, "--what-if: no --trace is a recording, which TARN_TRACE makes");
}

/* Weaves the traces if --weave was given.  Then checks the woven trace, which has the threads and
 * queues of all traces. */
static gboolean
weave_if_asked (Options *options, GError **error)
{
  const Trace *woven;

  if (!options->weave)
    return TRUE;
  if (!weave_traces (options, error))
    return FALSE;
  woven = g_ptr_array_index (options->traces, 0);
  if (!options->queues || check_trace (woven->name, woven, error))
    return TRUE;
  g_prefix_error (error, "--weave ");
  return FALSE;
}

static gboolean
check_numbers (const Options *options, GError **error)
{
  if (options->late < 0)
    return refuse (error, "--late %" G_GINT64_FORMAT ": must not be negative", options->late);
  /* This form of the comparison also refuses NaN. */
  if (!(options->seconds > 0 && options->seconds <= MAX_SECONDS))
    return refuse (error, "--seconds %g: must be more than 0, and at most %d", options->seconds,
                   MAX_SECONDS);
  if (options->repetitions < 1 || options->repetitions > MAX_REPETITIONS)
    return refuse (error, "--repetitions %d: must be from 1 to %d", options->repetitions,
                   MAX_REPETITIONS);
  return TRUE;
}

/* Returns the name of a chosen measure that needs --queues, or NULL if none does. */
static const gchar *
get_measure_with_queues (const Options *options)
{
  for (gsize i = 0; i < n_measures; i++)
    if (options->has_measure[i] && measures[i].n_queues > 0)
      return measures[i].name;
  return NULL;
}

/* Selects the measures.  If there are recordings and no --measure, only recordings are replayed. */
static gboolean
choose_measures (Options *options, GError **error)
{
  gboolean has_recording = options->recordings->len > 0;
  const gchar *list = options->measure_list;

  if (list == NULL && has_recording)
    list = WHAT_IF;
  options->has_measure = parse_names ("--measure", list, get_measure_name, n_measures, error);
  if (options->has_measure == NULL)
    return FALSE;
  if (list != NULL && !options->queues && get_measure_with_queues (options) != NULL)
    return refuse (error, "--measure %s: only with --queues", get_measure_with_queues (options));
  if (options->plot != NULL && options_have_only_what_if (options))
    return refuse (error, "--plot %s: tables of recordings are not drawn", options->plot);
  if (options->csv && has_recording && !options_have_only_what_if (options))
    return refuse (error, "--csv: recordings have columns of their own: measure what-if alone, or "
                          "no recording");
  return TRUE;
}

/* Checks that the file of --plot can be written, and that it is not also the file of a --trace. */
static gboolean
check_plot (const Options *options, GError **error)
{
  if (options->plot == NULL)
    return TRUE;
  for (gsize i = 0; options->trace_paths != NULL && options->trace_paths[i] != NULL; i++)
    if (file_is_same (options->trace_paths[i], options->plot))
      return refuse (error, "--plot is the file of --trace %s", options->trace_paths[i]);
  return file_check_writable ("--plot", options->plot, error);
}

static gboolean
check_options (Options *options, GError **error)
{
  options->queues |= options->one_queue;
  if (options->surplus != NULL)
    return refuse (error, "'%s' is not an option; devices are selected with --select",
                   options->surplus[0]);
  if (options->json && options->csv)
    return refuse (error, "only one of --json and --csv can be given");
  return check_numbers (options, error)
         && (options->has_kind
             = parse_names ("--kinds", options->kind_list, get_kind_name, n_kinds, error))
                != NULL
         && (options->threads = parse_threads (options->thread_list, error)) != NULL
         && check_plot (options, error)
         && (!options->what_if
             || (options->alternatives = alternatives_parse (options->what_if_list, error)) != NULL)
         && read_traces (options, error) && check_recordings (options, error)
         && choose_measures (options, error) && weave_if_asked (options, error);
}

static gboolean
parse_what_if (const gchar *name, const gchar *value, gpointer data, GError **error)
{
  Options *options = data;

  (void) name;
  (void) error;
  options->what_if = TRUE;
  g_free (options->what_if_list);
  options->what_if_list = g_strdup (value);
  return TRUE;
}

gboolean
options_parse (Options *options, gint *argc, gchar ***argv, GError **error)
{
  const GOptionEntry entries[] = {
    { "select", 's', 0, G_OPTION_ARG_STRING, &options->selection,
      "Devices: 0:0, *:h200 [TARN_TEST, PYOPENCL_TEST, all]", "SPEC" },
    { "kinds", 'k', 0, G_OPTION_ARG_STRING, &options->kind_list,
      "Kinds of memory, such as null,opencl,cuda-host", "LIST" },
    { "measure", 'm', 0, G_OPTION_ARG_STRING, &options->measure_list,
      "Measures, such as driver,hits,mixed,overhead", "LIST" },
    { "threads", 't', 0, G_OPTION_ARG_STRING, &options->thread_list, "Numbers of threads: 1,2,16",
      "LIST" },
    { "seconds", 0, 0, G_OPTION_ARG_DOUBLE, &options->seconds, "Seconds per repetition [0.02]",
      "S" },
    { "repetitions", 'r', 0, G_OPTION_ARG_INT, &options->repetitions,
      "Repetitions of each measurement [5]", "N" },
    { "trace", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &options->trace_paths,
      "Also replay this trace; can be repeated", "FILE" },
    { "what-if", 0, G_OPTION_FLAG_OPTIONAL_ARG, G_OPTION_ARG_CALLBACK, (gpointer) parse_what_if,
      "Replay recordings with changes: heap,limit=80%", "LIST" },
    { "weave", 0, 0, G_OPTION_ARG_NONE, &options->weave,
      "Weave all traces into one, by their times", NULL },
    { "queues", 0, 0, G_OPTION_ARG_NONE, &options->queues,
      "Use a queue per thread; in traces, their own", NULL },
    { "one-queue", 0, 0, G_OPTION_ARG_NONE, &options->one_queue, "Use one queue for all threads",
      NULL },
    { "late", 0, 0, G_OPTION_ARG_INT64, &options->late,
      "Delay of a queue without a device, in steps [1000]", "N" },
    { "json", 'j', 0, G_OPTION_ARG_NONE, &options->json, "Print JSON", NULL },
    { "csv", 'c', 0, G_OPTION_ARG_NONE, &options->csv, "Print CSV", NULL },
    { "plot", 'p', 0, G_OPTION_ARG_FILENAME, &options->plot, "Also draw the results as SVG",
      "FILE" },
    { "version", 0, 0, G_OPTION_ARG_NONE, &options->version, "Print the version", NULL },
    { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_STRING_ARRAY, &options->surplus, NULL, NULL },
    { NULL, 0, 0, 0, NULL, NULL, NULL },
  };
  g_autoptr (GOptionContext) context
      = g_option_context_new ("- measures the cost of a pool on each device");
  GOptionGroup *group = g_option_group_new (NULL, NULL, NULL, options, NULL);

  g_option_group_add_entries (group, entries);
  g_option_context_set_main_group (context, group);
  return g_option_context_parse (context, argc, argv, error)
         && (options->version || check_options (options, error));
}

void
options_clear (Options *options)
{
  g_free (options->selection);
  g_free (options->kind_list);
  g_free (options->measure_list);
  g_free (options->thread_list);
  g_strfreev (options->trace_paths);
  g_free (options->plot);
  g_strfreev (options->surplus);
  g_free (options->has_kind);
  g_free (options->has_measure);
  g_clear_pointer (&options->threads, g_array_unref);
  g_clear_pointer (&options->traces, g_ptr_array_unref);
  g_free (options->what_if_list);
  g_clear_pointer (&options->recordings, g_ptr_array_unref);
  g_clear_pointer (&options->alternatives, g_ptr_array_unref);
}
