/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Makes a page of a recorded trace or a snapshot.  The page shows the memory that was in use at
 * each time, and its purpose.  A browser shows the page without a server. */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>

#include "file.h"
#include "output.h"
#include "read.h"
#include "text.h"
#include "trace/debug-info.h"
#include "view/page.h"

#define PROGRAM "tarn-view"

#define EXIT_USAGE 2

#define DESCRIPTION                                                                                \
  "A browser opens the page as it is, without a server or a network.\n"                            \
  "Exit status: 0, 1 if FILE cannot be read or PAGE cannot be written, 2 for\n"                    \
  "wrong usage.\n"

/* The command line. */
typedef struct
{
  gchar *output; /* not NULL after check_options () */
  gboolean version;
  gchar **files;
} Options;

static gboolean
fail (GError **error, const gchar *message)
{
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "%s", message);
  return FALSE;
}

static gboolean
check_options (Options *options, GError **error)
{
  if (options->files == NULL)
    return fail (error, "no file to read; see " PROGRAM " --help");
  if (options->files[1] != NULL)
    return fail (error, "more than one file to read");
  if (options->output == NULL)
    options->output = g_strconcat (options->files[0], ".html", NULL);
  if (file_is_same (options->files[0], options->output))
    return fail (error, "--output is the file that is read");
  return file_check_writable ("--output", options->output, error);
}

static gboolean
parse_options (Options *options, gint *argc, gchar ***argv, GError **error)
{
  const GOptionEntry entries[] = {
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &options->output,
      "Page to write; FILE.html by default", "PAGE" },
    { "version", 0, 0, G_OPTION_ARG_NONE, &options->version, "Print the version", NULL },
    { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &options->files, NULL, NULL },
    { NULL, 0, 0, 0, NULL, NULL, NULL },
  };
  g_autoptr (GOptionContext) context = g_option_context_new ("FILE");

  g_option_context_set_summary (
      context, "Makes an HTML page of a recorded trace or a snapshot, which shows the memory\n"
               "that was in use.");
  g_option_context_set_description (
      context, debug_info_is_supported () ? DESCRIPTION
                                          : DESCRIPTION
                   "Built without libdw: functions of stacks have no names.\n");
  g_option_context_add_main_entries (context, entries, NULL);
  return g_option_context_parse (context, argc, argv, error)
         && (options->version || check_options (options, error));
}

/* Warns of events that are missing.  The page says so, too. */
static void
warn (const Recording *recording)
{
  guint64 n_lost = recording_get_n_lost (recording);

  if (n_lost > 0)
    text_complain (PROGRAM, "%" G_GUINT64_FORMAT " %s lost while the program was recorded", n_lost,
                   n_lost == 1 ? "event was" : "events were");
  if (!recording_is_complete (recording))
    text_complain (PROGRAM, "recording was not ended: the last events may be missing");
}

static gboolean
write_page (const Options *options, Recording *recording, const Snapshot *snapshot, GError **error)
{
  g_autofree gchar *base = g_path_get_basename (options->files[0]);
  g_autofree gchar *name = g_filename_display_name (base);
  g_autoptr (History) history = history_new (recording, error);
  g_autoptr (Symbols) symbols = symbols_new (recording, PROGRAM);
  g_autofree gchar *page = NULL;

  if (history == NULL)
    return FALSE;
  page = page_make (history, recording, symbols, snapshot, name, error);
  return page != NULL && file_write (options->output, page, error);
}

static gboolean
view_recording (const Options *options, GBytes *bytes, GError **error)
{
  g_autoptr (Recording) recording = recording_open_bytes (bytes, options->files[0], error);

  if (recording == NULL || !write_page (options, recording, NULL, error))
    return FALSE;
  warn (recording);
  return TRUE;
}

static gboolean
view_snapshot (const Options *options, GBytes *bytes, GError **error)
{
  g_autoptr (Snapshot) snapshot = snapshot_read (options->files[0], bytes, error);

  return snapshot != NULL && write_page (options, snapshot->recording, snapshot, error);
}

static gboolean
view (const Options *options, GError **error)
{
  g_autoptr (GBytes) bytes = read_file (options->files[0], error);

  if (bytes == NULL)
    return FALSE;
  return recording_is_snapshot (bytes) ? view_snapshot (options, bytes, error)
                                       : view_recording (options, bytes, error);
}

gint
main (gint argc, gchar **argv)
{
  Options options = { 0 };
  g_autoptr (GError) error = NULL;
  gint status = EXIT_SUCCESS;

  output_guard (PROGRAM);
  text_set_locale ();
  g_set_prgname (PROGRAM);
  if (!parse_options (&options, &argc, &argv, &error))
    status = EXIT_USAGE;
  else if (options.version)
    printf ("%s %s\n", PROGRAM, PACKAGE_VERSION);
  else if (!view (&options, &error))
    status = EXIT_FAILURE;
  if (error != NULL)
    text_complain (PROGRAM, "%s", error->message);
  g_free (options.output);
  g_strfreev (options.files);
  return status;
}
