/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Prints a recorded trace for people and programs, and converts it to the formats of other
 * programs. */

#include <config.h>

#include <errno.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "file.h"
#include "output.h"
#include "read.h"
#include "terminal.h"
#include "text.h"
#include "trace/debug-info.h"
#include "trace/print.h"

#define PROGRAM "tarn-trace"

#define EXIT_USAGE 2

/* The command line. */
typedef struct
{
  gboolean print, json, csv, chrome, pytorch, help, version;
  gchar *from_pytorch; /* path of a PyTorch snapshot to convert; nullable */
  gchar *output;       /* NULL: standard output */
  FilterTexts filter;
  gchar **files;
} Options;

static void G_GNUC_PRINTF (1, 2) say (const gchar *format, ...)
{
  g_autofree gchar *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  text_complain (PROGRAM, "%s", text);
}

/* Functions that read and check the options */

static GOptionContext *
describe_options (Options *options)
{
  FilterTexts *filter = &options->filter;
  const GOptionEntry entries[] = {
    { "print", 'p', 0, G_OPTION_ARG_NONE, &options->print, "Print all events, one per line", NULL },
    { "json", 'j', 0, G_OPTION_ARG_NONE, &options->json,
      "Print JSON; with --print, an object per line", NULL },
    { "csv", 0, 0, G_OPTION_ARG_NONE, &options->csv, "Print requests and frees as CSV", NULL },
    { "chrome", 0, 0, G_OPTION_ARG_NONE, &options->chrome,
      "Make JSON for Perfetto and Chrome's viewer", NULL },
    { "pytorch", 0, 0, G_OPTION_ARG_NONE, &options->pytorch,
      "Make JSON like PyTorch's memory snapshots", NULL },
    { "from-pytorch", 0, 0, G_OPTION_ARG_FILENAME, &options->from_pytorch,
      "Make a trace for tarn-bench from a snapshot", "JSON" },
    { "object", 0, 0, G_OPTION_ARG_STRING, &filter->object,
      "Only events of this pool, heap or allocator", "NAME" },
    { "thread", 0, 0, G_OPTION_ARG_STRING, &filter->thread, "Only events of this thread", "N" },
    { "queue", 0, 0, G_OPTION_ARG_STRING, &filter->queue, "Only events of this queue", "N" },
    { "tag", 0, 0, G_OPTION_ARG_STRING, &filter->tag, "Only requests with this tag", "TAG" },
    { "kind", 0, 0, G_OPTION_ARG_STRING, &filter->kinds, "Only events of these kinds: hit,miss,...",
      "LIST" },
    { "from", 0, 0, G_OPTION_ARG_STRING, &filter->from, "Only events from this time on",
      "SECONDS" },
    { "to", 0, 0, G_OPTION_ARG_STRING, &filter->to, "Only events until this time", "SECONDS" },
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &options->output, "Write to a file", "FILE" },
    { "version", 0, 0, G_OPTION_ARG_NONE, &options->version, "Print the version", NULL },
    { "help", 'h', 0, G_OPTION_ARG_NONE, &options->help, "Print this help", NULL },
    { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &options->files, NULL, NULL },
    { NULL, 0, 0, 0, NULL, NULL, NULL },
  };
  GOptionContext *context = g_option_context_new ("FILE");

  /* The remark about libdw has no line of its own: with one more line, the help would not fit a
   * screen. */
  g_option_context_set_summary (
      context,
      debug_info_is_supported ()
          ? "Sums up, prints or converts a recorded trace."
          : "Sums up, prints or converts a recorded trace. Without libdw: no function names.");
  g_option_context_set_description (
      context, "Exit status: 0, 1 if a file cannot be read or written, 2 for wrong usage.");
  /* With GLib's own --help, the help would have one more section, for that option.  The help would
   * then not fit a screen. */
  g_option_context_set_help_enabled (context, FALSE);
  g_option_context_add_main_entries (context, entries, NULL);
  return context;
}

static void
options_clear (Options *options)
{
  g_free (options->from_pytorch);
  g_free (options->output);
  g_free (options->filter.object);
  g_free (options->filter.thread);
  g_free (options->filter.queue);
  g_free (options->filter.tag);
  g_free (options->filter.kinds);
  g_free (options->filter.from);
  g_free (options->filter.to);
  g_strfreev (options->files);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

static gboolean
refuse (GError **error, const gchar *text)
{
  g_set_error_literal (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, text);
  return FALSE;
}

/* Refuses an output without a name, and one that would destroy the input. */
static gboolean
check_output (const Options *options, GError **error)
{
  const gchar *input = options->from_pytorch != NULL ? options->from_pytorch : options->files[0];

  if (options->output == NULL)
    return TRUE;
  if (options->output[0] == '\0')
    return refuse (error, "--output: there is no name");
  return !file_is_same (input, options->output)
         || refuse (error, "--output is the file that is read");
}

static gboolean
check_files (const Options *options, GError **error)
{
  guint n = options->files != NULL ? g_strv_length (options->files) : 0;

  if (options->from_pytorch != NULL && n > 0)
    return refuse (error, "--from-pytorch reads a snapshot, and no other file");
  if (options->from_pytorch == NULL && n == 0)
    return refuse (error, "no file to read; see " PROGRAM " --help");
  if (n > 1)
    return refuse (error, "only one file can be read at a time");
  return check_output (options, error);
}

/* Refuses options that exclude each other, so that no option is given without an effect. */
static gboolean
check_options (const Options *options, const Filter *filter, GError **error)
{
  guint n_formats = options->csv + options->chrome + options->pytorch;

  if (n_formats + options->print > 1)
    return refuse (error, "only one of --print, --csv, --chrome and --pytorch can be given");
  if (options->from_pytorch != NULL
      && (options->print || options->json || options->chrome || options->pytorch))
    return refuse (error, "--from-pytorch makes only a trace for tarn-bench");
  if (options->json && n_formats > 0)
    return refuse (error, "--json is for the summary and --print");
  if (!options->print && n_formats == 0 && options->from_pytorch == NULL
      && !filter_is_empty (filter))
    return refuse (error, "the summary is of all events; to select some, add --print, --csv, "
                          "--chrome or --pytorch");
  if (!options->print && filter->has_kinds)
    return refuse (error, "--kind is for --print");
  if (options->from_pytorch != NULL
      && (filter->has_thread || filter->has_queue || filter->tag != NULL || filter->from > 0
          || filter->to < G_MAXUINT64))
    return refuse (error, "--from-pytorch takes only --object, the number of a device");
  return check_files (options, error);
}

/* Functions that write the output */

static FILE *
open_output (const Options *options, GError **error)
{
  FILE *file = options->output != NULL ? g_fopen (options->output, "w") : stdout;
  gint code = errno;

  if (file == NULL)
    g_set_error (error, G_FILE_ERROR, g_file_error_from_errno (code), "%s: %s", options->output,
                 g_strerror (code));
  return file;
}

/* Closes the file.  output_guard () checks standard output at the end. */
static gboolean
close_output (const Options *options, FILE *file, GError **error)
{
  gboolean is_fine = !ferror (file);

  if (file == stdout)
    return TRUE;
  if (fclose (file) == 0 && is_fine)
    return TRUE;
  g_set_error (error, G_FILE_ERROR, G_FILE_ERROR_FAILED, "%s: it could not be written completely",
               options->output);
  return FALSE;
}

static gboolean
print_to (const Options *options, const Output *output, GError **error)
{
  if (options->csv)
    return print_csv (output, error);
  if (options->chrome)
    return print_chrome (output, error);
  if (options->pytorch)
    return print_pytorch (output, error);
  return options->print ? print_events (output, error) : print_summary (output, error);
}

static void
warn (const Recording *recording, const gchar *path)
{
  if (recording_get_cut (recording) != 0)
    say ("%s: the file ends inside a packet, at byte %" G_GINT64_FORMAT
         ": the rest of the packet was not written",
         path, (gint64) recording_get_cut (recording));
}

static gboolean
print_recording (const Options *options, Output *output, GError **error)
{
  gboolean is_printed;

  output->file = open_output (options, error);
  if (output->file == NULL)
    return FALSE;
  output->has_color = options->output == NULL && terminal_has_color (STDOUT_FILENO);
  output->columns = options->output == NULL ? terminal_get_columns (STDOUT_FILENO) : 0;
  is_printed = print_to (options, output, error);
  return close_output (options, output->file, is_printed ? error : NULL) && is_printed;
}

static gint
show (const Options *options, const Filter *filter, GError **error)
{
  const gchar *path = options->files[0];
  g_autoptr (GBytes) bytes = read_file (path, error);
  g_autoptr (Recording) recording
      = bytes != NULL ? recording_open_bytes (bytes, path, error) : NULL;
  g_autoptr (Objects) objects = NULL;
  g_autoptr (Symbols) symbols = NULL;
  Output output = { .recording = recording, .path = path, .filter = filter };

  if (recording == NULL)
    return EXIT_FAILURE;
  warn (recording, path);
  objects = objects_new (recording, &output.end_time, error);
  if (objects == NULL)
    return EXIT_FAILURE;
  if (!filter_check_objects (filter, objects, error))
    return EXIT_USAGE;
  output.objects = objects;
  output.symbols = symbols = symbols_new (recording, PROGRAM);
  output.is_json = options->json;
  return print_recording (options, &output, error) ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Converts a PyTorch snapshot.  The value of --object is the number of a device.  Opens the output
 * last, so that an error leaves an existing file as it is. */
static gint
convert_snapshot (const Options *options, const Filter *filter, GError **error)
{
  g_autoptr (PytorchTrace) trace = NULL;
  guint64 device = 0;
  FILE *file;

  if (filter->object != NULL
      && !g_ascii_string_to_unsigned (filter->object, 10, 0, G_MAXUINT16, &device, NULL))
    {
      refuse (error, "--object: with --from-pytorch it must be the number of a device");
      return EXIT_USAGE;
    }
  trace = pytorch_trace_read (options->from_pytorch, filter->object != NULL ? (gint64) device : -1,
                              error);
  if (trace == NULL || (file = open_output (options, error)) == NULL)
    return EXIT_FAILURE;
  print_csv_from_pytorch (trace, file);
  return close_output (options, file, error) ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void
print_about (const Options *options, GOptionContext *context)
{
  g_autofree gchar *help = g_option_context_get_help (context, TRUE, NULL);

  if (options->version)
    printf ("%s %s\n", PROGRAM, PACKAGE_VERSION);
  else
    g_print ("%s", help); /* unlike printf (), converts UTF-8 to the locale's encoding */
}

static gint
run (const Options *options, GError **error)
{
  g_auto (Filter) filter = { 0 };

  if (!filter_init (&filter, &options->filter, error) || !check_options (options, &filter, error))
    return EXIT_USAGE;
  return options->from_pytorch != NULL ? convert_snapshot (options, &filter, error)
                                       : show (options, &filter, error);
}

gint
main (gint argc, gchar **argv)
{
  g_auto (Options) options = { 0 };
  g_autoptr (GOptionContext) context = describe_options (&options);
  g_autoptr (GError) error = NULL;
  gint status = EXIT_USAGE;

  output_guard (PROGRAM);
  text_set_locale ();
  g_set_prgname (PROGRAM);
  if (g_option_context_parse (context, &argc, &argv, &error))
    {
      status = EXIT_SUCCESS;
      if (options.help || options.version)
        print_about (&options, context);
      else
        status = run (&options, &error);
    }
  if (error != NULL)
    say ("%s", error->message);
  return status;
}
