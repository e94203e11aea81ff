/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Makes the page from the template page.html, which has the marks @TITLE@, @STYLE@, @SCRIPT@ and
 * @DATA@.  The data begin with a line of JSON that describes the columns.  The bytes of all columns
 * follow.  The data are compressed, and then encoded in base64.  So the HTML contains no text of a
 * recording except the title, which is escaped. */

#include "page.h"

#include <gio/gio.h>
#include <string.h>

#include "../text.h"
#include "texts.h"

/* Functions that append JSON */

static void
append_string (GString *json, const gchar *text)
{
  g_autofree gchar *printable = text_make_printable (text != NULL ? text : "", -1);

  g_string_append_c (json, '"');
  for (const gchar *c = printable; *c != '\0'; c++)
    if (*c == '"' || *c == '\\')
      g_string_append_printf (json, "\\%c", *c);
    else if ((guchar) *c < 0x20)
      g_string_append_printf (json, "\\u%04x", (guint) *c);
    else
      g_string_append_c (json, *c);
  g_string_append_c (json, '"');
}

static void
append_key (GString *json, const gchar *key)
{
  if (json->str[json->len - 1] != '{')
    g_string_append_c (json, ',');
  append_string (json, key);
  g_string_append_c (json, ':');
}

static void
append_number (GString *json, const gchar *key, guint64 number)
{
  append_key (json, key);
  g_string_append_printf (json, "%" G_GUINT64_FORMAT, number);
}

static void
append_text (GString *json, const gchar *key, const gchar *text)
{
  append_key (json, key);
  append_string (json, text);
}

static void
append_hex (GString *json, guint64 number)
{
  g_string_append_printf (json, "\"0x%" G_GINT64_MODIFIER "x\"", number);
}

/* Appends an item of a list. */
typedef void (*AppendItem) (GString *json, const History *history, const Recording *recording,
                            guint64 number);

static void
append_list (GString *json, const gchar *key, const History *history, const Recording *recording,
             const HistoryList *list, AppendItem append_item)
{
  append_key (json, key);
  g_string_append (json, "[null");
  for (guint i = 1; i < list->numbers->len; i++)
    {
      g_string_append_c (json, ',');
      append_item (json, history, recording, g_array_index (list->numbers, guint64, i));
    }
  g_string_append_c (json, ']');
}

static guint
list_place (const HistoryList *list, guint64 number)
{
  return GPOINTER_TO_UINT (g_hash_table_lookup (list->places, &number));
}

static void
append_tag (GString *json, const History *history, const Recording *recording, guint64 number)
{
  const gchar *text = recording_get_string (recording, number);

  (void) history;
  append_string (json, text != NULL ? text : "(lost)");
}

static void
append_queue (GString *json, const History *history, const Recording *recording, guint64 number)
{
  (void) history, (void) recording;
  append_hex (json, number);
}

static void
append_thread (GString *json, const History *history, const Recording *recording, guint64 number)
{
  guint i = list_place (&history->threads, number);

  (void) recording;
  g_string_append_c (json, '{');
  append_number (json, "number", number);
  append_text (json, "name", g_ptr_array_index (history->thread_names, i));
  g_string_append_c (json, '}');
}

static const HistoryObject *
get_object (const History *history, guint64 number)
{
  guint place = list_place (&history->objects, number);

  return place < history->object_details->len ? g_ptr_array_index (history->object_details, place)
                                              : NULL;
}

static void
append_properties (GString *json, const HistoryObject *object)
{
  append_key (json, "properties");
  g_string_append_c (json, '[');
  for (gsize i = 0; i < object->n_properties; i++)
    g_string_append_printf (json, "%s[%u,%" G_GUINT64_FORMAT "]", i > 0 ? "," : "",
                            object->properties[i].property, object->properties[i].number);
  g_string_append_c (json, ']');
}

static void
append_object (GString *json, const History *history, const Recording *recording, guint64 number)
{
  guint64 real = number & ~HISTORY_BLOCKS_OF_HEAP;
  const HistoryObject *object = get_object (history, real);

  (void) recording;
  g_string_append_c (json, '{');
  append_number (json, "number", real);
  if (object != NULL)
    append_text (json, "name", object->name);
  if (number != real)
    {
      append_text (json, "kind", "blocks of heap");
      append_number (json, "class", TARN_TRACE_POOL);
      append_number (json, "upstream", list_place (&history->objects, real));
    }
  else if (object != NULL)
    {
      append_text (json, "kind", object->kind);
      append_number (json, "class", object->class);
      append_number (json, "upstream", object->upstream);
      append_properties (json, object);
    }
  g_string_append_c (json, '}');
}

/* Functions that append stacks, and describe the page's data */

/* Appends the key of a frame: its address.  If several frames have the address, all except the
 * first also get a number. */
static void
append_frame_key (GString *json, guint64 address, guint i)
{
  g_string_append_printf (json, "\"0x%" G_GINT64_MODIFIER "x", address);
  if (i > 0)
    g_string_append_printf (json, ".%u", i);
  g_string_append_c (json, '"');
}

static void
append_stack (GString *json, const Recording *recording, Symbols *symbols, guint64 number)
{
  gsize n = 0;
  const guint64 *addresses = recording_get_stack (recording, number, &n);

  g_string_append_c (json, '[');
  for (gsize i = 0; i < n; i++)
    {
      guint n_frames;

      symbols_get (symbols, addresses[i], &n_frames);
      for (guint j = 0; j < n_frames; j++)
        {
          if (i + j > 0)
            g_string_append_c (json, ',');
          append_frame_key (json, addresses[i], j);
        }
    }
  g_string_append_c (json, ']');
}

static void
append_stacks (GString *json, const History *history, const Recording *recording, Symbols *symbols)
{
  const GArray *numbers = history->stacks.numbers;

  append_key (json, "stacks");
  g_string_append (json, "[null");
  for (guint i = 1; i < numbers->len; i++)
    {
      g_string_append_c (json, ',');
      append_stack (json, recording, symbols, g_array_index (numbers, guint64, i));
    }
  g_string_append_c (json, ']');
}

static void
append_frame (GString *json, const NamedFrame *frame, guint i)
{
  if (json->str[json->len - 1] != '{')
    g_string_append_c (json, ',');
  append_frame_key (json, frame->address, i);
  g_string_append (json, ":[");
  append_string (json, frame->function);
  g_string_append_printf (json, ",%" G_GUINT64_FORMAT ",", frame->offset);
  append_string (json, frame->module);
  g_string_append_printf (json, ",%" G_GUINT64_FORMAT ",", frame->module_offset);
  append_string (json, frame->file);
  g_string_append_printf (json, ",%u]", frame->line);
}

/* Appends the frames of an address, if @seen does not have them yet. */
static void
append_address (GString *json, Symbols *symbols, guint64 address, GHashTable *seen)
{
  guint n_frames;
  const NamedFrame *frames = symbols_get (symbols, address, &n_frames);

  if (!g_hash_table_add (seen, (gpointer) frames))
    return;
  for (guint i = 0; i < n_frames; i++)
    append_frame (json, &frames[i], i);
}

static void
append_frames (GString *json, const History *history, const Recording *recording, Symbols *symbols)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL); /* a set of NamedFrames */

  append_key (json, "frames");
  g_string_append_c (json, '{');
  for (guint i = 1; i < history->stacks.numbers->len; i++)
    {
      gsize n = 0;
      const guint64 *addresses = recording_get_stack (
          recording, g_array_index (history->stacks.numbers, guint64, i), &n);

      for (gsize j = 0; j < n; j++)
        append_address (json, symbols, addresses[j], seen);
    }
  g_string_append_c (json, '}');
}

static void
append_columns (GString *json, const History *history)
{
  append_key (json, "columns");
  g_string_append_c (json, '[');
  for (guint i = 0; i < HISTORY_N_COLUMNS; i++)
    {
      if (i > 0)
        g_string_append_c (json, ',');
      column_describe (&history->columns[i], json);
    }
  g_string_append_c (json, ']');
}

/* Appends the page's names for the kinds of calls, in the order of TarnTraceKind. */
static void
append_kinds (GString *json)
{
  static const gchar *const kinds[TARN_TRACE_N_KINDS] = {
    [TARN_TRACE_FAIL] = "fail",
    [TARN_TRACE_ALLOCATED] = "allocated",
    [TARN_TRACE_FREED] = "freed",
    [TARN_TRACE_MARK] = "mark",
    [TARN_TRACE_WAIT] = "wait",
    [TARN_TRACE_RECORD_USE] = "use",
    [TARN_TRACE_MOVE] = "move",
    [TARN_TRACE_FORGET] = "forget",
    [TARN_TRACE_TRIM] = "trim",
    [TARN_TRACE_LIMIT] = "limit",
    [TARN_TRACE_RECLAIM] = "reclaim",
    [TARN_TRACE_OUT_OF_MEMORY] = "oom",
    [TARN_TRACE_PIECE_MOVED] = "moved",
    [TARN_TRACE_LOST] = "lost",
    [TARN_TRACE_LIMIT_REACHED] = "at-limit",
  };

  append_key (json, "kinds");
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_string_append_c (json, i == 0 ? '[' : ',');
      append_string (json, kinds[i]);
    }
  g_string_append_c (json, ']');
}

static void
append_snapshot (GString *json, const Snapshot *snapshot)
{
  append_text (json, "version", snapshot->version);
  append_text (json, "program", snapshot->program);
  append_text (json, "reason", snapshot->reason);
  append_text (json, "message", snapshot->message);
  append_number (json, "followed", snapshot->follows ? 1 : 0);
}

static GString *
describe (const History *history, const Recording *recording, Symbols *symbols,
          const Snapshot *snapshot, const gchar *name)
{
  GString *json = g_string_new ("{");

  append_text (json, "kind", snapshot != NULL ? "snapshot" : "trace");
  append_text (json, "name", name);
  if (snapshot != NULL)
    append_snapshot (json, snapshot);
  append_number (json, "pid", recording_get_pid (recording));
  append_number (json, "real_time", recording_get_real_time (recording) / 1000000);
  append_number (json, "duration", history->duration);
  append_number (json, "events", recording_get_n_events (recording));
  append_number (json, "lost", recording_get_n_lost (recording));
  append_number (json, "unknown", history->n_unknown);
  append_number (json, "complete", recording_is_complete (recording) ? 1 : 0);
  append_number (json, "cut", (guint64) recording_get_cut (recording));
  append_list (json, "objects", history, recording, &history->objects, append_object);
  append_list (json, "tags", history, recording, &history->tags, append_tag);
  append_list (json, "queues", history, recording, &history->queues, append_queue);
  append_list (json, "threads", history, recording, &history->threads, append_thread);
  append_stacks (json, history, recording, symbols);
  append_frames (json, history, recording, symbols);
  append_kinds (json);
  append_columns (json, history);
  g_string_append (json, "}\n");
  return json;
}

/* Functions that write the data, and fill in the template */

static gboolean
write_data (GOutputStream *stream, const History *history, const GString *json, GError **error)
{
  if (!g_output_stream_write_all (stream, json->str, json->len, NULL, NULL, error))
    return FALSE;
  for (guint i = 0; i < HISTORY_N_COLUMNS; i++)
    {
      const GByteArray *bytes = history->columns[i].bytes;

      if (bytes->len > 0
          && !g_output_stream_write_all (stream, bytes->data, bytes->len, NULL, NULL, error))
        return FALSE;
    }
  return g_output_stream_close (stream, NULL, error);
}

static gchar *
encode_data (const History *history, const GString *json, GError **error)
{
  g_autoptr (GOutputStream) memory = g_memory_output_stream_new_resizable ();
  g_autoptr (GZlibCompressor) compressor = g_zlib_compressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP, 6);
  g_autoptr (GOutputStream) stream
      = g_converter_output_stream_new (memory, G_CONVERTER (compressor));
  GMemoryOutputStream *bytes = G_MEMORY_OUTPUT_STREAM (memory);

  if (!write_data (stream, history, json, error))
    return NULL;
  return g_base64_encode (g_memory_output_stream_get_data (bytes),
                          g_memory_output_stream_get_data_size (bytes));
}

/* Fills in the template. */
static gchar *
fill_in (const gchar *title, const gchar *data)
{
  const struct
  {
    const gchar *mark, *text;
  } parts[] = { { "@TITLE@", title },
                { "@STYLE@", view_page_css },
                { "@SCRIPT@", view_page_js },
                { "@DATA@", data } };
  GString *page = g_string_new (NULL);
  const gchar *rest = view_page_html;

  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    {
      const gchar *mark = strstr (rest, parts[i].mark);

      g_assert (mark != NULL);
      g_string_append_len (page, rest, mark - rest);
      g_string_append (page, parts[i].text);
      rest = mark + strlen (parts[i].mark);
    }
  g_string_append (page, rest);
  return g_string_free (page, FALSE);
}

gchar *
page_make (const History *history, const Recording *recording, Symbols *symbols,
           const Snapshot *snapshot, const gchar *name, GError **error)
{
  GString *json = describe (history, recording, symbols, snapshot, name);
  g_autofree gchar *data = encode_data (history, json, error);
  g_autofree gchar *printable = text_make_printable (name, -1);
  g_autofree gchar *title = g_markup_escape_text (printable, -1);

  g_string_free (json, TRUE);
  return data != NULL ? fill_in (title, data) : NULL;
}
