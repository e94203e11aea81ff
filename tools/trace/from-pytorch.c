/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Converts the result of torch.cuda.memory._snapshot (), as JSON, to a trace for tarn-bench.
 * PyTorch keeps only the latest entries of a device.  So a block may be freed, or be there at the
 * end, without an entry that allocates it.  Such a block was in use at the start. */

#include <json-glib/json-glib.h>
#include <string.h>
#include <tarn/error.h>

#include "../read.h"
#include "print.h"

/* A block in use; the address is the key. */
typedef struct
{
  guint64 address, id;
} Live;

/* A line of the trace. */
typedef struct
{
  guint64 time, id, size, stream;
  gboolean is_free;
} Line;

struct _PytorchTrace
{
  GArray *first; /* Lines at time 0, one for each block that was in use at the start */
  GArray *lines; /* Lines, one for each later allocation or free */
};

/* A snapshot that is being read. */
typedef struct
{
  const gchar *path;
  PytorchTrace *trace;
  GHashTable *live; /* maps an address to its block in use (Live) */
  GHashTable *seen; /* a set of the addresses in all entries */
  /* n_ids: the number of ids of blocks so far; start, latest: times of the first and the latest
   * entry, in microseconds */
  guint64 n_ids, start, latest;
  gboolean has_start;
} Reader;

static gboolean G_GNUC_PRINTF (3, 4)
    refuse (const Reader *reader, GError **error, const gchar *format, ...)
{
  g_autofree gchar *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, "%s: %s", reader->path, text);
  return FALSE;
}

/* Functions that get members of JSON objects */

static JsonNode *
get_node (JsonObject *object, const gchar *key)
{
  return object != NULL ? json_object_get_member (object, key) : NULL;
}

static JsonArray *
get_array (JsonObject *object, const gchar *key)
{
  JsonNode *node = get_node (object, key);

  return node != NULL && JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;
}

static const gchar *
get_text (JsonObject *object, const gchar *key)
{
  JsonNode *node = get_node (object, key);

  return node != NULL && JSON_NODE_HOLDS_VALUE (node) ? json_node_get_string (node) : NULL;
}

static gboolean
get_number (JsonObject *object, const gchar *key, guint64 *number)
{
  JsonNode *node = get_node (object, key);

  if (node == NULL || !JSON_NODE_HOLDS_VALUE (node)
      || json_node_get_value_type (node) != G_TYPE_INT64)
    return FALSE;
  *number = (guint64) json_node_get_int (node);
  return TRUE;
}

static JsonObject *
get_element (JsonArray *array, guint i)
{
  JsonNode *node = json_array_get_element (array, i);

  return JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
}

/* Functions that add blocks and lines of the trace */

static void
insert_live (Reader *reader, guint64 address, guint64 id)
{
  Live *live = g_new (Live, 1);

  *live = (Live){ address, id };
  g_hash_table_replace (reader->live, &live->address, live);
}

static void
note_seen (Reader *reader, guint64 address)
{
  guint64 *key = g_new (guint64, 1);

  *key = address;
  g_hash_table_add (reader->seen, key);
}

static void
add_line (Reader *reader, const Line *line)
{
  g_array_append_val (reader->trace->lines, *line);
}

/* Adds a block that no entry allocates.  Returns its id. */
static guint64
add_first (Reader *reader, guint64 size, guint64 stream)
{
  const Line line = { 0, ++reader->n_ids, size, stream, FALSE };

  g_array_append_val (reader->trace->first, line);
  return line.id;
}

static void
add_free (Reader *reader, guint64 time, guint64 address, guint64 size, guint64 stream)
{
  Live *live = g_hash_table_lookup (reader->live, &address);
  Line line = { time, 0, 0, stream, TRUE };

  line.id = live != NULL ? live->id : add_first (reader, size, stream);
  add_line (reader, &line);
  g_hash_table_remove (reader->live, &address);
}

static void
add_allocation (Reader *reader, guint64 time, guint64 address, guint64 size, guint64 stream)
{
  const Line line = { time, ++reader->n_ids, size, stream, FALSE };

  if (g_hash_table_contains (reader->live, &address))
    add_free (reader, time, address, size, stream);
  add_line (reader, &line);
  insert_live (reader, address, line.id);
}

/* Functions that read the entries */

/* Gets the nanoseconds from the first entry to an entry at @time, in microseconds.  If @time is
 * before the previous entry, the previous entry's time counts instead.  Otherwise tarn-bench, which
 * sorts by time, might free a block before it allocates the block. */
static guint64
pass_time (Reader *reader, guint64 time)
{
  if (!reader->has_start)
    reader->start = reader->latest = time;
  reader->has_start = TRUE;
  reader->latest = MAX (reader->latest, time);
  return MIN (reader->latest - reader->start, G_MAXUINT64 / 1000) * 1000;
}

/* Reads an entry.  A block is freed at "free_requested", when the program frees it.  Ignores
 * "free_completed", which comes when other streams have completed their work with the block.  A
 * pool finds out by itself when that work is completed. */
static gboolean
read_entry (Reader *reader, JsonObject *entry, guint i, GError **error)
{
  const gchar *action = get_text (entry, "action");
  guint64 address, size, stream = 0, time = i;
  gboolean is_allocation = g_strcmp0 (action, "alloc") == 0;

  if (action == NULL)
    return refuse (reader, error, "entry %u of the trace has no action", i);
  if (!is_allocation && !g_str_equal (action, "free_requested") && !g_str_equal (action, "free"))
    return TRUE;
  if (!get_number (entry, "addr", &address) || !get_number (entry, "size", &size))
    return refuse (reader, error, "entry %u of the trace has no addr or no size", i);
  get_number (entry, "stream", &stream);
  get_number (entry, "time_us", &time);
  note_seen (reader, address);
  time = pass_time (reader, time);
  if (is_allocation)
    add_allocation (reader, time, address, size, stream);
  else
    add_free (reader, time, address, size, stream);
  return TRUE;
}

static gboolean
read_trace (Reader *reader, JsonArray *trace, GError **error)
{
  for (guint i = 0; i < json_array_get_length (trace); i++)
    if (!read_entry (reader, get_element (trace, i), i, error))
      return FALSE;
  return TRUE;
}

/* Functions that read the blocks that exist at the time of the snapshot */

static void
read_blocks (Reader *reader, JsonObject *segment)
{
  JsonArray *blocks = get_array (segment, "blocks");
  guint64 address = 0, stream = 0;

  get_number (segment, "address", &address);
  get_number (segment, "stream", &stream);
  for (guint i = 0; blocks != NULL && i < json_array_get_length (blocks); i++)
    {
      JsonObject *block = get_element (blocks, i);
      guint64 size = 0, asked;

      get_number (block, "address", &address); /* older snapshots have no addresses of blocks */
      get_number (block, "size", &size);
      asked = size;
      get_number (block, "requested_size", &asked);
      if (g_strcmp0 (get_text (block, "state"), "active_allocated") == 0
          && !g_hash_table_contains (reader->seen, &address))
        add_first (reader, asked, stream);
      address += size;
    }
}

static void
read_segments (Reader *reader, JsonArray *segments, guint64 device)
{
  for (guint i = 0; segments != NULL && i < json_array_get_length (segments); i++)
    {
      JsonObject *segment = get_element (segments, i);
      guint64 number = 0;

      get_number (segment, "device", &number);
      if (number == device)
        read_blocks (reader, segment);
    }
}

/* Functions that choose the device, and load the file */

static JsonArray *
get_trace (JsonArray *traces, guint i)
{
  JsonNode *node = json_array_get_element (traces, i);

  return JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;
}

static JsonArray *
choose_trace (const Reader *reader, JsonArray *traces, gint64 *device, GError **error)
{
  guint n = json_array_get_length (traces);
  JsonArray *trace;

  for (guint i = 0; *device < 0 && i < n; i++)
    if ((trace = get_trace (traces, i)) != NULL && json_array_get_length (trace) > 0)
      *device = i;
  if (*device < 0)
    {
      refuse (reader, error, "its device_traces are empty");
      return NULL;
    }
  trace = *device < n ? get_trace (traces, (guint) *device) : NULL;
  if (trace == NULL)
    refuse (reader, error, "there is no device %" G_GINT64_FORMAT " in its device_traces", *device);
  return trace;
}

static gboolean
read_snapshot (Reader *reader, JsonNode *root, gint64 device, GError **error)
{
  JsonObject *snapshot
      = root != NULL && JSON_NODE_HOLDS_OBJECT (root) ? json_node_get_object (root) : NULL;
  JsonArray *traces = get_array (snapshot, "device_traces");
  JsonArray *trace;

  if (traces == NULL)
    return refuse (reader, error, "this is no snapshot: it has no array device_traces");
  trace = choose_trace (reader, traces, &device, error);
  if (trace == NULL || !read_trace (reader, trace, error))
    return FALSE;
  read_segments (reader, get_array (snapshot, "segments"), (guint64) device);
  return TRUE;
}

static void
print_lines (FILE *file, const GArray *lines)
{
  for (guint i = 0; i < lines->len; i++)
    {
      const Line *line = &g_array_index (lines, Line, i);

      print_csv_line (file, line->time, 0, line->id, line->is_free ? NULL : &line->size,
                      line->stream);
    }
}

/* Limit for the levels of nested lists and objects in the file.  json-glib reads them
 * recursively, so deeper levels could overflow the stack. */
#define MAX_DEPTH 64

/* Skips a string, whose opening quotation mark is before @c. */
static const gchar *
pass_string (const gchar *c, const gchar *end, guint *line)
{
  for (; c < end && *c != '"'; c++)
    {
      if (*c == '\\' && c + 1 < end)
        c++;
      *line += *c == '\n';
    }
  return MIN (c + 1, end);
}

/* Checks how deeply lists are nested.  Also refuses text outside of strings that is not JSON,
 * such as comments, which json-glib would accept: a quotation mark in a comment would confuse
 * this check. */
static gboolean
check_depth (const Reader *reader, const gchar *text, gsize length, GError **error)
{
  const gchar *end = text + length;
  guint line = 1, depth = 0;

  for (const gchar *c = text; c < end;)
    {
      if (*c == '[' || *c == '{')
        depth++;
      else if (*c == ']' || *c == '}')
        depth -= MIN (depth, 1);
      else if (*c == '\n')
        line++;
      else if (*c != '"' && !g_ascii_isalnum (*c)
               && (*c == '\0' || strchr (" \t\r:,.+-", *c) == NULL))
        return refuse (reader, error, "line %u: byte 0x%02x has no place outside of a text", line,
                       (guchar) *c);
      if (depth > MAX_DEPTH)
        return refuse (reader, error, "line %u: more than %d lists in one another", line,
                       MAX_DEPTH);
      c = *c == '"' ? pass_string (c + 1, end, &line) : c + 1;
    }
  return TRUE;
}

static gboolean
load (const Reader *reader, JsonParser *parser, GError **error)
{
  gsize length = 0;
  g_autofree gchar *text = read_text_file (reader->path, &length, error);

  if (text != NULL && !check_depth (reader, text, length, error))
    return FALSE;
  if (text != NULL && json_parser_load_from_data (parser, text, (gssize) length, error))
    return TRUE;
  g_prefix_error (error, "%s: ", reader->path);
  return FALSE;
}

PytorchTrace *
pytorch_trace_read (const gchar *path, gint64 device, GError **error)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (PytorchTrace) trace = g_new (PytorchTrace, 1);
  g_autoptr (GHashTable) live = g_hash_table_new_full (g_int64_hash, g_int64_equal, NULL, g_free);
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  Reader reader = { .path = path, .trace = trace, .live = live, .seen = seen };

  trace->first = g_array_new (FALSE, FALSE, sizeof (Line));
  trace->lines = g_array_new (FALSE, FALSE, sizeof (Line));
  if (load (&reader, parser, error)
      && read_snapshot (&reader, json_parser_get_root (parser), device, error))
    return g_steal_pointer (&trace);
  return NULL;
}

void
pytorch_trace_free (PytorchTrace *self)
{
  g_array_unref (self->first);
  g_array_unref (self->lines);
  g_free (self);
}

void
print_csv_from_pytorch (const PytorchTrace *trace, FILE *file)
{
  print_csv_header (file);
  print_lines (file, trace->first);
  print_lines (file, trace->lines);
}
