/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Prints a summary of a recording: its size, the counters of each object, and who held the memory
 * at the peak. */

#include <string.h>

#include "holders.h"
#include "names.h"
#include "print.h"
#include "write.h"

#define MAX_OBJECTS 10 /* objects that are shown to people: those with the highest peaks */
#define MAX_HOLDERS 10
#define MIN_WIDTH 20       /* least width of wrapped text, even on a narrower terminal */
#define NAME_COLUMN 13     /* the column where a name begins, from 0 */
#define NAME_WIDTH 12      /* fits "host buffers"; a longer name is followed by a new line */
#define HOLDER_COLUMN 36   /* the column where a tag or stack begins */
#define MAX_HOLDER_LINES 4 /* limit for a wrapped tag or stack, which may have any length */

/* The counters of an object at the end. */
typedef struct
{
  const Object *object;
  guint64 requests, hits, misses, failures, frees, peak, in_use;
} Row;

static const gchar *
get_state (const Recording *recording)
{
  if (recording_is_complete (recording))
    return "complete";
  return recording_get_cut (recording) != 0 ? "cut" : "not ended";
}

static gint
compare_rows (gconstpointer a, gconstpointer b)
{
  const Row *left = a, *right = b;

  if (left->peak != right->peak)
    return left->peak > right->peak ? -1 : 1;
  return left->object->number < right->object->number ? -1 : 1;
}

/* Copies the objects' counters, because peak_init () resets them to find the holders. */
static GArray *
make_rows (const Objects *objects)
{
  const GPtrArray *all = objects_get_all (objects);
  GArray *rows = g_array_new (FALSE, FALSE, sizeof (Row));

  for (guint i = 0; i < all->len; i++)
    {
      const Object *object = all->pdata[i];
      guint64 served = object->object_class == TARN_TRACE_HEAP ? object->extents
                                                               : object->hits + object->misses;
      Row row = { object,
                  served + object->failures,
                  object->hits,
                  object->misses,
                  object->failures,
                  object->frees,
                  object->peak_active_bytes,
                  object->active_bytes };

      g_array_append_val (rows, row);
    }
  return rows;
}

/* Describes a holder.  Returns NULL for the blocks without a tag or stack. */
static gchar *
describe_holder (const Output *output, const Holder *holder, gboolean is_tag)
{
  if (holder->key == 0)
    return NULL;
  return is_tag ? g_strdup (recording_get_string (output->recording, holder->key))
                : format_stack (output, holder->key, !output->is_json);
}

/* Functions that print text for people */

static void
print_heading (const Output *output, const gchar *text)
{
  fprintf (output->file, "%s%s%s\n", output->has_color ? "\033[1m" : "", text,
           output->has_color ? "\033[0m" : "");
}

static void
print_head (const Output *output)
{
  const Recording *recording = output->recording;
  g_autofree gchar *base = g_path_get_basename (output->path);
  g_autofree gchar *name = format_text (base);
  g_autofree gchar *n_events = format_count (recording_get_n_events (recording));
  g_autofree gchar *n_lost = format_count (recording_get_n_lost (recording));
  g_autofree gchar *heading
      = g_strdup_printf ("%s  process %u", name, recording_get_pid (recording));

  print_heading (output, heading);
  fprintf (output->file, "%.6f s, %s %s, %s lost, %s", (gdouble) output->end_time / 1e9, n_events,
           recording_get_n_events (recording) == 1 ? "event" : "events", n_lost,
           get_state (recording));
  if (recording_get_cut (recording) != 0)
    fprintf (output->file, " at byte %" G_GINT64_FORMAT, (gint64) recording_get_cut (recording));
  fputs ("\n", output->file);
}

/* Formats a number in six columns.  A larger number is rounded. */
static gchar *
format_short_count (guint64 n)
{
  static const gchar units[] = { 'k', 'M', 'G', 'T', 'P', 'E' };
  gdouble rest = (gdouble) n / 1000;
  guint i = 0;

  if (n < 1000000)
    return g_strdup_printf ("%u", (guint) n);
  for (; rest >= 1000 && i + 1 < G_N_ELEMENTS (units); i++)
    rest /= 1000;
  return g_strdup_printf ("%.1f%c", rest, units[i]);
}

static void
print_count (const Output *output, gint width, gboolean is_known, guint64 n)
{
  g_autofree gchar *text = is_known ? format_short_count (n) : g_strdup ("-");

  fprintf (output->file, " %*s", width, text);
}

/* Finds where to break a line: after the last space that fits, or else after @width characters. */
static glong
find_break (const gchar *text, glong width)
{
  glong n = 0, last = 0;

  for (const gchar *c = text; n < width && *c != '\0'; c = g_utf8_next_char (c))
    {
      n++;
      last = *c == ' ' ? n : last;
    }
  return last > width / 2 ? last : n;
}

/* Prints a text from a column on.  On a terminal, wraps the text into at most @max_lines, and cuts
 * a longer text with "...".  In a file, prints one line.  Prints no newline at the end. */
static void
print_wrapped (const Output *output, const gchar *text, guint column, guint max_lines)
{
  glong width = MAX ((glong) output->columns - (glong) column, MIN_WIDTH);

  for (guint i = 1; output->columns > 0 && g_utf8_strlen (text, -1) > width; i++)
    {
      gboolean is_cut = i == max_lines;
      glong n = is_cut ? width - 3 : find_break (text, width);
      g_autofree gchar *line = g_utf8_substring (text, 0, n);

      fprintf (output->file, "%s", is_cut ? line : g_strchomp (line));
      if (is_cut)
        {
          fputs ("...", output->file);
          return;
        }
      fprintf (output->file, "\n%*s", (gint) column, "");
      text = g_utf8_offset_to_pointer (text, n);
    }
  fputs (text, output->file);
}

/* Prints an object's name, padded by its characters, not its bytes. */
static void
print_name (const Output *output, const Object *object)
{
  g_autofree gchar *name = objects_describe (output->objects, object);
  g_autofree gchar *text = format_text (name);
  glong length = g_utf8_strlen (text, -1);

  fprintf (output->file, "%2" G_GUINT64_FORMAT " %-9s ", object->number,
           name_class (object->object_class));
  print_wrapped (output, text, NAME_COLUMN, G_MAXUINT);
  if (length > NAME_WIDTH)
    fprintf (output->file, "\n%*s", NAME_COLUMN + NAME_WIDTH, "");
  else
    fprintf (output->file, "%*s", (gint) (NAME_WIDTH - length), "");
}

static void
print_row (const Output *output, const Row *row)
{
  gboolean is_pool = row->object->object_class == TARN_TRACE_POOL;
  g_autofree gchar *peak = format_bytes (row->peak), *in_use = format_bytes (row->in_use);

  print_name (output, row->object);
  print_count (output, 7, TRUE, row->requests);
  print_count (output, 6, is_pool, row->hits);
  print_count (output, 6, is_pool, row->misses);
  print_count (output, 5, TRUE, row->failures);
  print_count (output, 6, TRUE, row->frees);
  fprintf (output->file, " %9s %9s\n", peak, in_use);
}

static void
print_rows (const Output *output, GArray *rows)
{
  g_autofree gchar *heading = NULL;

  if (rows->len == 0)
    return;
  /* The heading "requests" is one character wider than its column, so the heading of the names is
   * one character narrower. */
  heading
      = g_strdup_printf ("%2s %-9s %-*s %8s %6s %6s %5s %6s %9s %9s", "", "class", NAME_WIDTH - 1,
                         "name", "requests", "hits", "misses", "fails", "frees", "peak", "in use");
  print_heading (output, heading);
  g_array_sort (rows, compare_rows);
  for (guint i = 0; i < rows->len && i < MAX_OBJECTS; i++)
    print_row (output, &g_array_index (rows, Row, i));
  if (rows->len > MAX_OBJECTS)
    fprintf (output->file, "   and %u more, with lower peaks\n", rows->len - MAX_OBJECTS);
}

static void
print_holder (const Output *output, const Holder *holder, const Peak *peak, gboolean is_tag)
{
  g_autofree gchar *what = describe_holder (output, holder, is_tag);
  g_autofree gchar *line = format_text (what != NULL ? what : is_tag ? "(no tag)" : "(no stack)");
  g_autofree gchar *bytes = format_bytes (holder->bytes);

  fprintf (output->file, "%10s %5.1f %% %8" G_GUINT64_FORMAT " %-6s  ", bytes,
           100 * (gdouble) holder->bytes / (gdouble) MAX (peak->bytes, 1), holder->n_blocks,
           holder->n_blocks == 1 ? "block" : "blocks");
  print_wrapped (output, line, HOLDER_COLUMN, MAX_HOLDER_LINES);
  fputs ("\n", output->file);
}

/* Tells whether any holder has a tag or stack.  If none has, the list would only repeat the sum. */
static gboolean
has_names (const GArray *holders)
{
  for (guint i = 0; i < holders->len; i++)
    if (g_array_index (holders, Holder, i).key != 0)
      return TRUE;
  return FALSE;
}

static void
print_holders (const Output *output, const Peak *peak, const GArray *holders, gboolean is_tag)
{
  g_autofree gchar *bytes = format_bytes (peak->bytes);
  g_autofree gchar *heading
      = g_strdup_printf ("At the peak, %s after %.6f s, by %s", bytes, (gdouble) peak->time / 1e9,
                         is_tag ? "tag" : "stack");

  if (!has_names (holders))
    return;
  print_heading (output, heading);
  for (guint i = 0; i < holders->len && i < MAX_HOLDERS; i++)
    print_holder (output, &g_array_index (holders, Holder, i), peak, is_tag);
  if (holders->len > MAX_HOLDERS)
    fprintf (output->file, "           and %u more\n", holders->len - MAX_HOLDERS);
}

/* Explains how to find out who held the memory. */
static void
print_unknown (const Output *output, const Peak *peak)
{
  g_autofree gchar *bytes = format_bytes (peak->bytes);
  g_autofree gchar *heading
      = g_strdup_printf ("At the peak, %s after %.6f s", bytes, (gdouble) peak->time / 1e9);

  print_heading (output, heading);
  fputs ("no request has a tag or a stack; TARN_TRACE_STACKS=16 records stacks\n", output->file);
}

static void
print_driver_bytes (const Output *output, guint64 bytes)
{
  g_autofree gchar *text = format_bytes (bytes);

  if (bytes > 0)
    fprintf (output->file, "taken from the driver: at most %s\n", text);
}

static void
print_text (const Output *output, GArray *rows, guint64 driver_bytes, const Peak *peak)
{
  print_head (output);
  print_rows (output, rows);
  print_driver_bytes (output, driver_bytes);
  print_holders (output, peak, peak->by_tag, TRUE);
  print_holders (output, peak, peak->by_stack, FALSE);
  if (peak->bytes > 0 && !has_names (peak->by_tag) && !has_names (peak->by_stack))
    print_unknown (output, peak);
}

/* Functions that print JSON for programs */

static void
write_number (const Output *output, const gchar *key, guint64 number)
{
  fprintf (output->file, ",\"%s\":%" G_GUINT64_FORMAT, key, number);
}

static void
write_json_row (const Output *output, const Row *row)
{
  fprintf (output->file,
           "{\"object\":%" G_GUINT64_FORMAT ",\"class\":\"%s\",\"type\":", row->object->number,
           name_class (row->object->object_class));
  write_json_text (output->file, row->object->kind);
  fputs (",\"name\":", output->file);
  write_json_text (output->file, row->object->name);
  write_number (output, "requests", row->requests);
  write_number (output, "hits", row->hits);
  write_number (output, "misses", row->misses);
  write_number (output, "failures", row->failures);
  write_number (output, "frees", row->frees);
  write_number (output, "peak_active_bytes", row->peak);
  write_number (output, "active_bytes", row->in_use);
  fputs ("}", output->file);
}

static void
write_json_holders (const Output *output, const gchar *key, const GArray *holders, gboolean is_tag)
{
  fprintf (output->file, ",\"%s\":[", key);
  for (guint i = 0; i < holders->len && i < MAX_HOLDERS; i++)
    {
      const Holder *holder = &g_array_index (holders, Holder, i);
      g_autofree gchar *text = describe_holder (output, holder, is_tag);

      fprintf (output->file, "%s{\"%s\":", i > 0 ? "," : "", is_tag ? "tag" : "stack");
      write_json_text (output->file, text);
      write_number (output, "bytes", holder->bytes);
      write_number (output, "blocks", holder->n_blocks);
      fputs ("}", output->file);
    }
  fputs ("]", output->file);
}

static void
print_json (const Output *output, const GArray *rows, guint64 driver_bytes, const Peak *peak)
{
  const Recording *recording = output->recording;

  fprintf (output->file, "{\"pid\":%u", recording_get_pid (recording));
  write_number (output, "real_time", recording_get_real_time (recording));
  write_number (output, "duration", output->end_time);
  write_number (output, "events", recording_get_n_events (recording));
  write_number (output, "lost", recording_get_n_lost (recording));
  write_number (output, "peak_driver_bytes", driver_bytes);
  fprintf (output->file, ",\"complete\":%s", recording_is_complete (recording) ? "true" : "false");
  write_number (output, "cut", (guint64) recording_get_cut (recording));
  fputs (",\"objects\":[", output->file);
  for (guint i = 0; i < rows->len; i++)
    {
      fputs (i > 0 ? ",\n" : "\n", output->file);
      write_json_row (output, &g_array_index (rows, Row, i));
    }
  fputs ("],\n\"peak\":{\"time\":", output->file);
  fprintf (output->file, "%" G_GUINT64_FORMAT, peak->time);
  write_number (output, "bytes", peak->bytes);
  write_json_holders (output, "by_tag", peak->by_tag, TRUE);
  write_json_holders (output, "by_stack", peak->by_stack, FALSE);
  fputs ("}}\n", output->file);
}

gboolean
print_summary (const Output *output, GError **error)
{
  g_autoptr (GArray) rows = NULL;
  g_auto (Peak) peak = { 0 };
  guint64 driver_bytes;
  PeakPlace place;

  if (!peak_find (output->recording, output->objects, &place, error))
    return FALSE;
  rows = make_rows (output->objects);
  driver_bytes = objects_get_peak_driver_bytes (output->objects);
  if (!peak_init (&peak, output->recording, output->objects, &place, error))
    return FALSE;
  if (output->is_json)
    print_json (output, rows, driver_bytes, &peak);
  else
    print_text (output, rows, driver_bytes, &peak);
  return TRUE;
}
