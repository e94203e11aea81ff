/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Writes a snapshot, a description of all allocators and their blocks at one moment, to a file.
 *
 * Copies the state of all allocators while they are locked, and makes the text from the copy after
 * they are unlocked.  There are two reasons.  Making the text takes far longer than copying.  And
 * making the text takes a lock of the dynamic loader, to find the files of stack frames.  A thread
 * that holds the loader's lock may wait for an allocator's lock, so making the text while
 * allocators are locked could deadlock. */

#define _GNU_SOURCE 1 /* makes <errno.h> declare program_invocation_short_name */

#include "snapshot/snapshot-private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <tarn/error.h>
#include <tarn/version.h>
#include <unistd.h>

#include "allocator/block-private.h"
#include "base/fork-private.h"
#include "base/json-private.h"
#include "common/shorten-private.h"
#include "common/trace-names-private.h"
#include "record/record-private.h"

/* A copy of a block's state, made while all allocators are locked. */
typedef struct
{
  guint64 address;
  gsize size; /* the bytes that the program requested; 0 for a cached block */
  gsize alloc_size;
  guint64 queue; /* the handle of a queue that has used the block; 0 if there is none */
  TarnOrigin origin;
  gboolean is_active;
} ToldBlock;

typedef struct
{
  guint64 start;
  gsize size;
  guint64 queue; /* for a segment: the handle of its queue; 0 if there is none */
  /* For an extent (a range of a heap's memory that serves a request): the address or handle that
   * the program sees.  0 if the program sees the field start. */
  guint64 part;
} ToldStretch;

typedef struct
{
  guint64 id, upstream; /* upstream: the id of the upstream allocator; 0 if there is none */
  TarnTraceClass class;
  gchar *name;      /* the allocator's name; NULL: it has none */
  GArray *options;  /* guint64 pairs: a property and its value */
  GArray *counters; /* guint64 pairs: a counter and its value; NULL if there are no counters */
  GArray *blocks;   /* an array of ToldBlock: a pool's blocks */
  GArray *pieces;   /* an array of ToldStretch: a heap's segments */
  GArray *extents;  /* an array of ToldStretch: a heap's extents in use */
} Told;

typedef struct
{
  TarnListener base; /* must be the first field: the listener's functions cast it to a Collector */
  GPtrArray *all;    /* an array of Told, one for each allocator */
} Collector;

static GArray *
copy_properties (const guint64 *properties, gsize n_properties)
{
  GArray *copy = g_array_new (FALSE, FALSE, sizeof *properties);

  return g_array_append_vals (copy, properties, 2 * (guint) n_properties);
}

static void
told_free (gpointer data)
{
  Told *self = data;

  g_free (self->name);
  g_array_unref (self->options);
  g_clear_pointer (&self->counters, g_array_unref);
  g_array_unref (self->blocks);
  g_array_unref (self->pieces);
  g_array_unref (self->extents);
  g_free (self);
}

static Told *
get_latest (TarnListener *listener)
{
  const GPtrArray *all = ((Collector *) listener)->all;

  return g_ptr_array_index (all, all->len - 1);
}

static void
collect_object (TarnListener *listener, const TarnAllocator *allocator,
                const TarnAllocator *upstream, const guint64 *properties, gsize n_properties)
{
  Told *told = g_new0 (Told, 1);

  told->id = allocator->id;
  told->upstream = upstream != NULL ? upstream->id : 0;
  told->class = allocator->klass->trace_class;
  told->name = g_strdup (allocator->ops.name);
  told->options = copy_properties (properties, n_properties);
  told->blocks = g_array_new (FALSE, FALSE, sizeof (ToldBlock));
  told->pieces = g_array_new (FALSE, FALSE, sizeof (ToldStretch));
  told->extents = g_array_new (FALSE, FALSE, sizeof (ToldStretch));
  g_ptr_array_add (((Collector *) listener)->all, told);
}

static void
collect_counters (TarnListener *listener, const TarnAllocator *allocator, const guint64 *properties,
                  gsize n_properties)
{
  (void) allocator;
  get_latest (listener)->counters = copy_properties (properties, n_properties);
}

static void
collect_block (TarnListener *listener, const TarnBlock *block, gboolean is_active)
{
  ToldBlock told = { .address = block->memory.address,
                     .alloc_size = block->alloc_size,
                     .is_active = is_active };

  if (block->n_uses > 0)
    told.queue = GPOINTER_TO_SIZE (block->uses[0].queue->handle);
  if (is_active)
    {
      told.size = block->size;
      if (!block->source->klass->get_origin (block, &told.origin))
        told.origin.time = 0;
    }
  g_array_append_val (get_latest (listener)->blocks, told);
}

static void
collect_piece (TarnListener *listener, const TarnAllocator *heap, guint64 start, gsize size,
               gconstpointer queue)
{
  ToldStretch told = { .start = start, .size = size, .queue = GPOINTER_TO_SIZE (queue) };

  (void) heap;
  g_array_append_val (get_latest (listener)->pieces, told);
}

static void
collect_extent (TarnListener *listener, const TarnAllocator *heap, guint64 start, gsize size,
                guint64 address)
{
  ToldStretch told = { .start = start, .size = size, .part = address != start ? address : 0 };

  (void) heap;
  g_array_append_val (get_latest (listener)->extents, told);
}

static const TarnListener collector_listener = {
  .object = collect_object,
  .counters = collect_counters,
  .block = collect_block,
  .piece = collect_piece,
  .extent = collect_extent,
};

/* Functions that write the JSON text of allocators and their blocks */

typedef struct
{
  TarnJson json;
  guint64 time;        /* the time of the snapshot */
  GHashTable *stacks;  /* a set: the numbers of the call stacks of requests */
  GHashTable *modules; /* maps a text (load address and path) to a TarnModule */
} Writer;

static void
add_properties (TarnJson *json, const gchar *name, const GArray *properties)
{
  _tarn_json_open (json, name, '{');
  for (guint i = 0; i < properties->len; i += 2)
    {
      const gchar *key
          = _tarn_trace_name_property ((guint32) g_array_index (properties, guint64, i));

      g_assert (key != NULL);
      _tarn_json_add_number (json, key, g_array_index (properties, guint64, i + 1));
    }
  _tarn_json_close (json, '}');
}

static void
add_origin (Writer *self, const TarnOrigin *origin)
{
  TarnJson *json = &self->json;

  _tarn_json_add_text (json, "tag", _tarn_tag_get_text (origin->tag));
  _tarn_json_add_number (json, "thread", origin->thread);
  _tarn_json_add_number (json, "age", self->time > origin->time ? self->time - origin->time : 0);
  if (origin->stack == 0)
    return;
  _tarn_json_add_number (json, "stack", origin->stack);
  g_hash_table_add (self->stacks, GUINT_TO_POINTER (origin->stack));
}

static void
add_block (Writer *self, const ToldBlock *block)
{
  TarnJson *json = &self->json;

  _tarn_json_break (json);
  _tarn_json_open (json, NULL, '{');
  _tarn_json_add_address (json, "address", block->address);
  _tarn_json_add_boolean (json, "active", block->is_active);
  if (block->is_active)
    _tarn_json_add_number (json, "size", block->size);
  _tarn_json_add_number (json, "alloc_size", block->alloc_size);
  if (block->queue != 0)
    _tarn_json_add_address (json, "queue", block->queue);
  if (block->origin.time != 0)
    add_origin (self, &block->origin);
  _tarn_json_close (json, '}');
}

static void
add_stretches (TarnJson *json, const gchar *name, const GArray *stretches)
{
  _tarn_json_open (json, name, '[');
  for (guint i = 0; i < stretches->len; i++)
    {
      const ToldStretch *stretch = &g_array_index (stretches, ToldStretch, i);

      _tarn_json_break (json);
      _tarn_json_open (json, NULL, '{');
      _tarn_json_add_address (json, "address", stretch->start);
      _tarn_json_add_number (json, "size", stretch->size);
      if (stretch->part != 0)
        _tarn_json_add_address (json, "part", stretch->part);
      if (stretch->queue != 0)
        _tarn_json_add_address (json, "queue", stretch->queue);
      _tarn_json_close (json, '}');
    }
  _tarn_json_close (json, ']');
}

static void
add_allocator (Writer *self, const Told *told)
{
  TarnJson *json = &self->json;

  _tarn_json_break (json);
  _tarn_json_open (json, NULL, '{');
  _tarn_json_add_number (json, "id", told->id);
  _tarn_json_add_text (json, "class", _tarn_trace_name_class (told->class));
  _tarn_json_add_text (json, "name", told->name);
  if (told->upstream != 0)
    _tarn_json_add_number (json, "upstream", told->upstream);
  add_properties (json, "options", told->options);
  if (told->counters != NULL)
    add_properties (json, "counters", told->counters);
  if (told->class == TARN_TRACE_HEAP)
    {
      add_stretches (json, "pieces", told->pieces);
      add_stretches (json, "extents", told->extents);
    }
  if (told->class == TARN_TRACE_POOL)
    {
      _tarn_json_open (json, "blocks", '[');
      for (guint i = 0; i < told->blocks->len; i++)
        add_block (self, &g_array_index (told->blocks, ToldBlock, i));
      _tarn_json_close (json, ']');
    }
  _tarn_json_close (json, '}');
}

/* Functions that write the JSON text of call stacks, and of the files with their code */

/* Adds a copy of a module to self->modules if that table does not have the module yet. */
static void
keep_module (Writer *self, const TarnModule *module)
{
  g_autofree gchar *key = _tarn_module_get_key (module);
  TarnModule *copy;

  if (g_hash_table_contains (self->modules, key))
    return;
  copy = g_new (TarnModule, 1);
  *copy = *module;
  g_hash_table_insert (self->modules, g_steal_pointer (&key), copy);
}

static void
add_frame (Writer *self, gconstpointer address)
{
  TarnJson *json = &self->json;
  guint64 number = GPOINTER_TO_SIZE (address);
  TarnModule module;

  _tarn_json_open (json, NULL, '{');
  _tarn_json_add_address (json, "address", number);
  if (_tarn_module_find (address, &module))
    {
      _tarn_json_add_text (json, "module", module.path);
      _tarn_json_add_number (json, "module_offset", number - module.load_address);
      keep_module (self, &module);
    }
  _tarn_json_close (json, '}');
}

static void
add_stack (Writer *self, guint32 number)
{
  TarnJson *json = &self->json;
  guint n_frames = 0;
  const gpointer *frames = _tarn_stack_get_frames (number, &n_frames);

  _tarn_json_break (json);
  _tarn_json_open (json, NULL, '{');
  _tarn_json_add_number (json, "stack", number);
  _tarn_json_open (json, "frames", '[');
  for (guint i = 0; i < n_frames; i++)
    add_frame (self, frames[i]);
  _tarn_json_close (json, ']');
  _tarn_json_close (json, '}');
}

static void
add_stacks (Writer *self)
{
  GHashTableIter iter;
  gpointer number;

  _tarn_json_open (&self->json, "stacks", '[');
  g_hash_table_iter_init (&iter, self->stacks);
  while (g_hash_table_iter_next (&iter, &number, NULL))
    add_stack (self, GPOINTER_TO_UINT (number));
  _tarn_json_close (&self->json, ']');
}

static void
add_modules (Writer *self)
{
  TarnJson *json = &self->json;
  GHashTableIter iter;
  gpointer value;

  _tarn_json_open (json, "modules", '[');
  g_hash_table_iter_init (&iter, self->modules);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      const TarnModule *module = value;

      _tarn_json_break (json);
      _tarn_json_open (json, NULL, '{');
      _tarn_json_add_text (json, "path", module->path);
      _tarn_json_add_address (json, "load_address", module->load_address);
      _tarn_json_add_text (json, "build_id", module->build_id);
      _tarn_json_close (json, '}');
    }
  _tarn_json_close (json, ']');
}

/* Functions that make the text of a whole snapshot, and write it to a file */

/* Returns the name that the program has set with g_set_prgname ().  If it has set none, returns the
 * name that the C library knows.  Returns NULL if there is neither. */
static const gchar *
get_program (void)
{
  const gchar *name = g_get_prgname ();

#ifdef __GLIBC__
  if (name == NULL)
    name = program_invocation_short_name;
#endif
  return name;
}

static void
add_head (Writer *self, const gchar *reason, const gchar *message)
{
  g_autoptr (GDateTime) now = g_date_time_new_now_utc ();
  g_autofree gchar *date = g_date_time_format (now, "%Y-%m-%dT%H:%M:%SZ");
  TarnJson *json = &self->json;

  _tarn_json_add_number (json, "tarn-snapshot", 1);
  _tarn_json_add_text (json, "version", tarn_get_version ());
  _tarn_json_add_text (json, "date", date);
  _tarn_json_add_number (json, "pid", (guint64) getpid ());
  _tarn_json_add_text (json, "program", get_program ());
  _tarn_json_add_text (json, "reason", reason);
  if (message != NULL)
    _tarn_json_add_text (json, "message", message);
  _tarn_json_add_boolean (json, "followed", _tarn_follows ());
}

static GString *
make_text (const GPtrArray *all, guint64 time, const gchar *reason, const gchar *message)
{
  Writer self = { .json = { .text = g_string_new (NULL) },
                  .time = time,
                  .stacks = g_hash_table_new (NULL, NULL),
                  .modules = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free) };
  TarnJson *json = &self.json;

  _tarn_json_open (json, NULL, '{');
  add_head (&self, reason, message);
  _tarn_json_open (json, "allocators", '[');
  for (guint i = 0; i < all->len; i++)
    add_allocator (&self, g_ptr_array_index (all, i));
  _tarn_json_close (json, ']');
  add_stacks (&self);
  add_modules (&self);
  _tarn_json_close (json, '}');
  g_string_append_c (json->text, '\n');
  g_hash_table_unref (self.stacks);
  g_hash_table_unref (self.modules);
  return json->text;
}

/* Writes a snapshot to an existing device or pipe.  Does not replace the file, because a regular
 * file in place of /dev/null, for example, would harm all programs.  Fails if a pipe has no
 * reader, or if its last reader closes it. */
static gboolean
write_in_place (const gchar *path, const GString *text)
{
  gint file = open (path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK);
  gsize done = 0;
  gssize n = 0;
  gint code;

  if (file < 0)
    return FALSE;
  fcntl (file, F_SETFL,
         fcntl (file, F_GETFL) & ~O_NONBLOCK); /* writes wait if a pipe's reader is slow */
  while (done < text->len)
    {
      n = _tarn_record_write (file, text->str + done, text->len - done);
      if (n < 0 && errno != EINTR)
        break;
      done += n > 0 ? (gsize) n : 0;
    }
  code = errno;
  close (file);
  errno = code;
  return done == text->len;
}

/* Creates or replaces a regular file, with the text of a snapshot.  Only the owner may read the
 * file, because a snapshot describes the program. */
static gboolean
replace_file (const gchar *path, const GString *text, GError **error)
{
  g_autofree gchar *quoted = NULL;
  g_autoptr (GError) failure = NULL;

  if (g_file_set_contents_full (path, text->str, (gssize) text->len,
                                G_FILE_SET_CONTENTS_CONSISTENT | G_FILE_SET_CONTENTS_ONLY_EXISTING,
                                0600, &failure))
    return TRUE;
  quoted = _tarn_shorten_path (failure->message);
  g_set_error_literal (error, failure->domain, failure->code, quoted);
  return FALSE;
}

/* Writes the text of a snapshot to a file.  Fails if the path is a symbolic link, because in a
 * shared folder such as /tmp another user may have made the link, so that the program would
 * overwrite another file. */
static gboolean
write_file (const gchar *path, const GString *text, GError **error)
{
  struct stat info;

  if (lstat (path, &info) != 0 || S_ISREG (info.st_mode))
    return replace_file (path, text, error);
  return write_in_place (path, text) || _tarn_record_set_error (error, path);
}

gboolean
_tarn_snapshot_write (const gchar *path, const gchar *reason, const gchar *message, GError **error)
{
  Collector collector = { .base = collector_listener };
  GString *text;
  guint64 time;
  gboolean is_written;

  if (_tarn_forked ())
    {
      g_set_error_literal (error, TARN_ERROR, TARN_ERROR_FORKED,
                           "a child of fork () has no snapshots: its pools are its parent's");
      return FALSE;
    }
  collector.all = g_ptr_array_new_with_free_func (told_free);
  _tarn_allocators_tell_frozen (&collector.base);
  time = _tarn_record_get_time ();
  text = make_text (collector.all, time, reason, message);
  g_ptr_array_unref (collector.all);
  is_written = write_file (path, text, error);
  g_string_free (text, TRUE);
  return is_written;
}

gboolean
tarn_snapshot_write (const gchar *path, GError **error)
{
  g_return_val_if_fail (path != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  return _tarn_snapshot_write (path, "asked", NULL, error);
}
