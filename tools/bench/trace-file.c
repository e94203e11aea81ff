/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads traces from files of comma-separated values.  All values are numbers or one of two words,
 * so nothing is quoted. */

#include <gio/gio.h>
#include <string.h>
#include <tarn/tarn.h>

#include "../read.h"
#include "../text.h"
#include "trace.h"

#define HEADER "time,thread,action,id,size,queue"

enum
{
  TIME,
  THREAD,
  ACTION,
  ID,
  SIZE,
  QUEUE,
  N_COLUMNS
};

static gboolean G_GNUC_PRINTF (3, 4) refuse (guint line, GError **error, const gchar *format, ...)
{
  g_autofree gchar *text = NULL, *printable = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  printable = text_make_printable (text, -1);
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, "line %u: %s", line, printable);
  return FALSE;
}

static gboolean
read_number (const gchar *text, const gchar *column, guint line, guint64 *number, GError **error)
{
  if (text[0] == '\0')
    return refuse (line, error, "there is no %s", column);
  if (!g_ascii_string_to_unsigned (text, 10, 0, G_MAXUINT64, number, NULL))
    return refuse (line, error, "%s '%s' is not a number from 0 to %" G_GUINT64_FORMAT, column,
                   text, G_MAXUINT64);
  return TRUE;
}

/* Reads the number of a thread or a queue.  If the text is empty, the number is 0. */
static gboolean
read_optional (const gchar *text, const gchar *column, guint line, guint64 *number, GError **error)
{
  *number = 0;
  return text[0] == '\0' || read_number (text, column, line, number, error);
}

static gboolean
read_action (gchar **columns, TraceEvent *event, GError **error)
{
  if (g_str_equal (columns[ACTION], "allocate"))
    return read_number (columns[SIZE], "size", event->line, &event->size, error);
  if (!g_str_equal (columns[ACTION], "free"))
    return refuse (event->line, error, "action '%s' is neither allocate nor free", columns[ACTION]);
  event->is_free = TRUE;
  if (columns[SIZE][0] != '\0')
    return refuse (event->line, error, "size '%s': a free has none", columns[SIZE]);
  return TRUE;
}

static gboolean
read_line (const gchar *text, TraceEvent *event, GError **error)
{
  g_auto (GStrv) columns = g_strsplit (text, ",", -1);
  guint n = g_strv_length (columns);

  for (guint i = 0; i < n; i++)
    g_strstrip (columns[i]);
  if (n != N_COLUMNS)
    return refuse (event->line, error, "%u columns instead of %d: '%s'", n, N_COLUMNS, text);
  return read_number (columns[TIME], "time", event->line, &event->time, error)
         && read_optional (columns[THREAD], "thread", event->line, &event->thread, error)
         && read_number (columns[ID], "id", event->line, &event->id, error)
         && read_optional (columns[QUEUE], "queue", event->line, &event->queue, error)
         && read_action (columns, event, error);
}

/* Reads all lines, and skips empty ones. */
static gboolean
read_lines (gchar *text, GArray *events, GError **error)
{
  guint line = 0;
  gboolean has_header = FALSE;

  while (text != NULL)
    {
      TraceEvent event = { .line = ++line };
      gchar *start = text, *end = strchr (text, '\n');

      if (end != NULL)
        *end = '\0';
      text = end != NULL ? end + 1 : NULL;
      g_strstrip (start);
      if (start[0] == '\0')
        continue;
      if (!has_header && !g_str_equal (start, HEADER))
        return refuse (line, error, "'%.80s' is not the header, which is '" HEADER "'", start);
      if (has_header && !read_line (start, &event, error))
        return FALSE;
      if (has_header)
        g_array_append_val (events, event);
      has_header = TRUE;
    }
  return events->len > 0 || refuse (line, error, "it is empty");
}

static guint
count_lines (const gchar *text, const gchar *end)
{
  guint n = 1;

  for (; text < end; text++)
    n += *text == '\n';
  return n;
}

static Trace *
read_text (const gchar *name, gchar *text, gsize length, GError **error)
{
  g_autoptr (GArray) events = g_array_new (FALSE, FALSE, sizeof (TraceEvent));
  const gchar *zero = memchr (text, '\0', length);

  if (zero != NULL)
    {
      refuse (count_lines (text, zero), error, "it has a zero byte, so it is not text");
      return NULL;
    }
  if (!read_lines (text, events, error))
    return NULL;
  return trace_new (name, g_steal_pointer (&events), error);
}

Trace *
trace_read (const gchar *path, GError **error)
{
  g_autofree gchar *text = NULL, *base = g_path_get_basename (path);
  g_autofree gchar *name = text_make_printable (base, -1);
  gsize length = 0;
  Trace *trace = NULL;

  text = read_text_file (path, &length, error);
  if (text != NULL)
    trace = read_text (name, text, length, error);
  if (trace == NULL)
    g_prefix_error (error, "%s: ", path);
  return trace;
}
