/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Converts a snapshot, a file of tarn_snapshot_write (), to a recording. */

#include "snapshot.h"

#include <string.h>

#include "common/trace-names-private.h"
#include "json-item.h"
#include "recording-writer.h"

/* A block in use, or a cached block.  A cached block has no requested size. */
typedef struct
{
  /* event.time is the block's age in nanoseconds; write_blocks () replaces it by the time */
  RecordedEvent event;
  gboolean has_age;
} SnapshotBlock;

/* A snapshot that is being read. */
typedef struct
{
  RecordingWriter *writer;
  GArray *blocks;     /* elements of type SnapshotBlock */
  GHashTable *ids;    /* a set of the allocators' ids */
  GHashTable *stacks; /* a set of the stacks' numbers */
  GHashTable *tags;   /* maps a text to its number */
  guint64 max_age, n_blocks;
  /* The fields below are about the current allocator. */
  guint64 object;
  GHashTable *seen[3]; /* sets of addresses: of blocks, segments, extents */
} Reader;

enum
{
  BLOCKS,
  PIECES,
  EXTENTS
};

static gpointer
copy_number (guint64 number)
{
  guint64 *copy = g_new (guint64, 1);

  *copy = number;
  return copy;
}

static GHashTable *
new_set (void)
{
  return g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
}

/* Checks that no two items of an allocator's list have the same address.  Exception: several blocks
 * may have the address 0, because some drivers have no addresses.  Only one segment, and only one
 * extent, may have the address 0. */
static gboolean
check_address (Reader *reader, guint list, const JsonItem *item, guint64 address, guint64 size,
               GError **error)
{
  if (size > G_MAXUINT64 - address)
    return json_item_refuse (
        item, error, "no memory has %" G_GUINT64_FORMAT " bytes at 0x%" G_GINT64_MODIFIER "x", size,
        address);
  return (address == 0 && list == BLOCKS)
         || g_hash_table_add (reader->seen[list], copy_number (address))
         || json_item_refuse (item, error, "address 0x%" G_GINT64_MODIFIER "x is there twice",
                              address);
}

/* Functions that read blocks */

static guint64
get_tag (Reader *reader, const gchar *text)
{
  guint64 *number = text != NULL ? g_hash_table_lookup (reader->tags, text) : NULL;

  if (text == NULL || number != NULL)
    return text != NULL ? *number : 0;
  number = copy_number (g_hash_table_size (reader->tags) + 1);
  g_hash_table_insert (reader->tags, g_strdup (text), number);
  recording_writer_add_string (reader->writer, *number, text);
  return *number;
}

/* Reads the origin of a block: tag, thread, stack and age, if it was traced. */
static gboolean
read_origin (Reader *reader, const JsonItem *item, SnapshotBlock *block, GError **error)
{
  RecordedEvent *event = &block->event;
  const gchar *tag;

  if (!json_item_get_text (item, "tag", &tag, error)
      || !json_item_get_number_if_there (item, "thread", &event->thread, error)
      || !json_item_get_number_if_there (item, "stack", &event->stack, error)
      || !json_item_get_number_if_there (item, "age", &event->time, error))
    return FALSE;
  if (event->stack != 0 && !g_hash_table_contains (reader->stacks, &event->stack))
    return json_item_refuse (item, error, "there is no stack %" G_GUINT64_FORMAT, event->stack);
  event->tag = get_tag (reader, tag);
  block->has_age = json_object_has_member (item->object, "age");
  if (block->has_age)
    reader->max_age = MAX (reader->max_age, event->time);
  return TRUE;
}

static gboolean
read_block (const JsonItem *item, gpointer data, GError **error)
{
  Reader *reader = data;
  SnapshotBlock block = { .has_age = FALSE };
  RecordedEvent *event = &block.event;
  gboolean is_active;

  if (!json_item_get_truth (item, "active", &is_active, error)
      || !json_item_get_address (item, "address", &event->address, error)
      || !json_item_get_number (item, "alloc_size", &event->alloc_size, error)
      || !json_item_get_address (item, "queue", &event->queue, error)
      || (is_active && !json_item_get_number (item, "size", &event->size, error))
      || (is_active && !read_origin (reader, item, &block, error)))
    return FALSE;
  if (event->size > event->alloc_size)
    return json_item_refuse (
        item, error, "size %" G_GUINT64_FORMAT " is more than alloc_size %" G_GUINT64_FORMAT,
        event->size, event->alloc_size);
  event->object = reader->object;
  event->block = ++reader->n_blocks;
  event->other = (guint64) is_active;
  g_array_append_val (reader->blocks, block);
  return check_address (reader, BLOCKS, item, event->address, event->alloc_size, error);
}

/* Orders blocks by their times, and then by their numbers. */
static gint
compare_blocks (gconstpointer a, gconstpointer b)
{
  const SnapshotBlock *left = a, *right = b;

  if (left->event.time != right->event.time)
    return left->event.time < right->event.time ? -1 : 1;
  return left->event.block < right->event.block ? -1 : left->event.block > right->event.block;
}

static void
write_blocks (Reader *reader)
{
  for (guint i = 0; i < reader->blocks->len; i++)
    {
      SnapshotBlock *block = &g_array_index (reader->blocks, SnapshotBlock, i);

      g_assert (!block->has_age || block->event.time <= reader->max_age);
      block->event.kind = block->has_age ? TARN_TRACE_MISS : TARN_TRACE_BLOCK;
      block->event.time = block->has_age ? reader->max_age - block->event.time : 0;
    }
  g_array_sort (reader->blocks, compare_blocks);
  for (guint i = 0; i < reader->blocks->len; i++)
    recording_writer_add_block (reader->writer,
                                &g_array_index (reader->blocks, SnapshotBlock, i).event);
}

/* Functions that read the memory of heaps */

static gboolean
read_range (Reader *reader, guint list, const JsonItem *item, RecordedEvent *event, GError **error)
{
  event->object = reader->object;
  return json_item_get_address (item, "address", &event->address, error)
         && json_item_get_number (item, "size", &event->size, error)
         && check_address (reader, list, item, event->address, event->size, error);
}

static gboolean
read_piece (const JsonItem *item, gpointer data, GError **error)
{
  Reader *reader = data;
  RecordedEvent event = { .time = 0 };

  if (!read_range (reader, PIECES, item, &event, error)
      || !json_item_get_address (item, "queue", &event.queue, error))
    return FALSE;
  recording_writer_add_piece (reader->writer, &event);
  return TRUE;
}

static gboolean
read_extent (const JsonItem *item, gpointer data, GError **error)
{
  Reader *reader = data;
  RecordedEvent event = { .time = 0 };

  if (!read_range (reader, EXTENTS, item, &event, error)
      || !json_item_get_address (item, "part", &event.other, error))
    return FALSE;
  recording_writer_add_extent (reader->writer, &event);
  if (event.other != 0 && event.other != event.address)
    recording_writer_add_part (reader->writer, &event);
  return TRUE;
}

/* Functions that read allocators */

/* Reads the properties whose names the library knows, and ignores all others. */
static gboolean
read_properties (const JsonItem *item, const gchar *key, GArray *properties, GError **error)
{
  JsonItem inner = { .outer = item, .list = key };

  if (!json_item_get_object (item, key, &inner.object, error))
    return FALSE;
  for (guint32 i = 0; inner.object != NULL && i <= TARN_TRACE_UPSTREAM_FREES; i++)
    {
      const gchar *name = _tarn_trace_name_property (i);
      RecordedProperty property = { .property = i };

      if (name == NULL || !json_object_has_member (inner.object, name)
          || json_object_get_null_member (inner.object, name)) /* null stands for no limit */
        continue;
      if (!json_item_get_number (&inner, name, &property.number, error))
        return FALSE;
      g_array_append_val (properties, property);
    }
  return TRUE;
}

static gboolean
read_class (const JsonItem *item, TarnTraceClass *class, GError **error)
{
  const gchar *text;

  if (!json_item_get_text (item, "class", &text, error))
    return FALSE;
  for (*class = TARN_TRACE_DIRECT; *class <= TARN_TRACE_POOL; (*class)++)
    if (g_strcmp0 (_tarn_trace_name_class (*class), text) == 0)
      return TRUE;
  return json_item_refuse (item, error, "class '%s' is unknown", text != NULL ? text : "");
}

static gboolean
read_object (Reader *reader, const JsonItem *item, RecordedEvent *event, GError **error)
{
  if (!json_item_get_number (item, "id", &event->object, error)
      || !read_class (item, &event->object_class, error)
      || !json_item_get_text (item, "name", &event->name, error)
      || !json_item_get_number_if_there (item, "upstream", &event->upstream, error))
    return FALSE;
  if (event->object == 0)
    return json_item_refuse (item, error, "id 0 is out of range");
  if (!g_hash_table_add (reader->ids, copy_number (event->object)))
    return json_item_refuse (item, error, "id %" G_GUINT64_FORMAT " is there twice", event->object);
  reader->object = event->object;
  return TRUE;
}

static gboolean
read_memory (Reader *reader, const JsonItem *item, GError **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (reader->seen); i++)
    g_hash_table_remove_all (reader->seen[i]);
  return json_item_for_each (item, "pieces", read_piece, reader, error)
         && json_item_for_each (item, "extents", read_extent, reader, error)
         && json_item_for_each (item, "blocks", read_block, reader, error);
}

static gboolean
read_allocator (const JsonItem *item, gpointer data, GError **error)
{
  Reader *reader = data;
  g_autoptr (GArray) properties = g_array_new (FALSE, FALSE, sizeof (RecordedProperty));
  RecordedEvent event = { .time = 0 };

  if (!read_object (reader, item, &event, error)
      || !read_properties (item, "options", properties, error)
      || !read_properties (item, "counters", properties, error))
    return FALSE;
  event.properties = (const RecordedProperty *) (gconstpointer) properties->data;
  event.n_properties = properties->len;
  recording_writer_add_object (reader->writer, &event);
  return read_memory (reader, item, error);
}

static gboolean
check_upstream (const JsonItem *item, gpointer data, GError **error)
{
  const Reader *reader = data;
  guint64 upstream = 0;

  return json_item_get_number_if_there (item, "upstream", &upstream, error)
         && (upstream == 0 || g_hash_table_contains (reader->ids, &upstream)
             || json_item_refuse (item, error,
                                  "there is no allocator %" G_GUINT64_FORMAT ", its upstream",
                                  upstream));
}

/* Functions that read stacks */

/* A stack that is being read. */
typedef struct
{
  Reader *reader;
  GArray *addresses;
} StackReader;

static gboolean
read_frame (const JsonItem *item, gpointer data, GError **error)
{
  StackReader *self = data;
  RecordedFrame frame = { .address = 0 };

  if (!json_item_get_address (item, "address", &frame.address, error)
      || !json_item_get_text (item, "module", &frame.module, error)
      || !json_item_get_number_if_there (item, "module_offset", &frame.module_offset, error)
      || !json_item_get_text (item, "symbol", &frame.symbol, error)
      || !json_item_get_number_if_there (item, "symbol_offset", &frame.symbol_offset, error))
    return FALSE;
  g_array_append_val (self->addresses, frame.address);
  recording_writer_add_frame (self->reader->writer, &frame);
  return TRUE;
}

static gboolean
read_module (const JsonItem *item, gpointer data, GError **error)
{
  Reader *reader = data;
  RecordedModule module = { .load_address = 0 };

  if (!json_item_get_text (item, "path", &module.path, error)
      || !json_item_get_address (item, "load_address", &module.load_address, error)
      || !json_item_get_text (item, "build_id", &module.build_id, error))
    return FALSE;
  recording_writer_add_module (reader->writer, &module);
  return TRUE;
}

static gboolean
read_stack (const JsonItem *item, gpointer data, GError **error)
{
  Reader *reader = data;
  g_autoptr (GArray) addresses = g_array_new (FALSE, FALSE, sizeof (guint64));
  StackReader frames = { reader, addresses };
  guint64 number;

  if (!json_item_get_number (item, "stack", &number, error)
      || !json_item_for_each (item, "frames", read_frame, &frames, error))
    return FALSE;
  if (number == 0 || !g_hash_table_add (reader->stacks, copy_number (number)))
    return json_item_refuse (item, error, "stack %" G_GUINT64_FORMAT " is %s", number,
                             number == 0 ? "none" : "there twice");
  recording_writer_add_stack (reader->writer, number, addresses);
  return TRUE;
}

/* Functions that read the whole file */

static gboolean
read_date (const JsonItem *root, guint64 *real_time, GError **error)
{
  g_autoptr (GDateTime) date = NULL;
  const gchar *text;

  if (!json_item_get_text (root, "date", &text, error))
    return FALSE;
  if (text == NULL)
    return TRUE;
  date = g_date_time_new_from_iso8601 (text, NULL);
  if (date == NULL || g_date_time_to_unix (date) < 0)
    return json_item_refuse (root, error, "date '%s' is invalid", text);
  *real_time = (guint64) g_date_time_to_unix (date) * G_GUINT64_CONSTANT (1000000000);
  return TRUE;
}

static gboolean
read_head (Snapshot *self, const JsonItem *root, guint64 *pid, guint64 *real_time, GError **error)
{
  const gchar *version, *program, *reason, *message;
  guint64 form = 0;

  if (!json_item_get_number (root, "tarn-snapshot", &form, error))
    return FALSE;
  if (form != 1)
    return json_item_refuse (root, error,
                             "written by another version: form %" G_GUINT64_FORMAT ", not 1", form);
  if (!json_item_get_text (root, "version", &version, error)
      || !json_item_get_text (root, "program", &program, error)
      || !json_item_get_text (root, "reason", &reason, error)
      || !json_item_get_text (root, "message", &message, error)
      || !json_item_get_truth (root, "followed", &self->follows, error)
      || !json_item_get_number (root, "pid", pid, error) || !read_date (root, real_time, error))
    return FALSE;
  if (*pid > G_MAXUINT32)
    return json_item_refuse (root, error, "pid %" G_GUINT64_FORMAT " is out of range", *pid);
  self->version = g_strdup (version);
  self->program = g_strdup (program);
  self->reason = g_strdup (reason);
  self->message = g_strdup (message);
  return TRUE;
}

static void
reader_init (Reader *reader, RecordingWriter *writer)
{
  *reader = (Reader){ .writer = writer,
                      .blocks = g_array_new (FALSE, FALSE, sizeof (SnapshotBlock)),
                      .ids = new_set (),
                      .stacks = new_set (),
                      .tags = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free) };
  for (guint i = 0; i < G_N_ELEMENTS (reader->seen); i++)
    reader->seen[i] = new_set ();
}

static void
reader_clear (Reader *reader)
{
  g_array_unref (reader->blocks);
  g_hash_table_unref (reader->ids);
  g_hash_table_unref (reader->stacks);
  g_hash_table_unref (reader->tags);
  for (guint i = 0; i < G_N_ELEMENTS (reader->seen); i++)
    g_hash_table_unref (reader->seen[i]);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Reader, reader_clear)

static Recording *
read_all (const JsonItem *root, RecordingWriter *writer, const gchar *path, GError **error)
{
  g_auto (Reader) reader;

  reader_init (&reader, writer);
  if (!json_object_has_member (root->object, "allocators"))
    {
      json_item_refuse (root, error, "there is no list allocators");
      return NULL;
    }
  if (!json_item_for_each (root, "modules", read_module, &reader, error)
      || !json_item_for_each (root, "stacks", read_stack, &reader, error)
      || !json_item_for_each (root, "allocators", read_allocator, &reader, error)
      || !json_item_for_each (root, "allocators", check_upstream, &reader, error))
    return NULL;
  write_blocks (&reader);
  return recording_writer_end (writer, reader.max_age, path, error);
}

static gboolean
read_node (Snapshot *self, JsonNode *node, const gchar *path, GError **error)
{
  const JsonItem root = { .object = json_node_get_object (node) };
  g_autoptr (RecordingWriter) writer = NULL;
  guint64 pid = 0, real_time = 0;

  if (!read_head (self, &root, &pid, &real_time, error))
    return FALSE;
  writer = recording_writer_new ((guint32) pid, real_time);
  self->recording = read_all (&root, writer, path, error);
  return self->recording != NULL;
}

Snapshot *
snapshot_read (const gchar *path, GBytes *bytes, GError **error)
{
  g_autoptr (Snapshot) self = g_new0 (Snapshot, 1);
  gsize size;
  const gchar *text = g_bytes_get_data (bytes, &size);
  g_autoptr (JsonNode) node = json_item_parse (text, size, error);

  if (node != NULL && read_node (self, node, path, error))
    return g_steal_pointer (&self);
  g_prefix_error (error, "%s: ", path);
  return NULL;
}

void
snapshot_free (Snapshot *self)
{
  if (self == NULL)
    return;
  recording_free (self->recording);
  g_free (self->version);
  g_free (self->program);
  g_free (self->reason);
  g_free (self->message);
  g_free (self);
}
