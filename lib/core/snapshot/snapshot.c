/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The file of a snapshot.  Its text is made while all allocators are frozen, but for what stacks
 * are: to look symbols up takes locks of the loader, which a thread may have that calls Tarn. */

#define _GNU_SOURCE 1 /* dladdr () */

#include "snapshot/snapshot-private.h"

#include <dlfcn.h>
#include <string.h>
#include <tarn/error.h>
#include <tarn/version.h>
#include <unistd.h>

#include "allocator/block-private.h"
#include "base/fork-private.h"
#include "base/json-private.h"
#include "common/trace-names-private.h"
#include "record/record-private.h"

/* What is told, one allocator after the other: its blocks, then its pieces and extents. */
typedef struct
{
  TarnListener base; /* first */
  TarnJson json;
  guint64 time;
  const gchar *list;  /* that is open: of the allocator's blocks, say; NULL: none */
  gboolean is_open;   /* the allocator's object is */
  GHashTable *stacks; /* a set of numbers */
} Writer;

/* Has what follows be an item of a list; NULL: of none. */
static void
enter_list (Writer *self, const gchar *list)
{
  if (self->list == list)
    return;
  if (self->list != NULL)
    _tarn_json_close (&self->json, ']');
  if (list != NULL)
    _tarn_json_open (&self->json, list, '[');
  self->list = list;
}

static void
add_properties (TarnJson *json, const gchar *name, const guint64 *properties, gsize n_properties)
{
  _tarn_json_open (json, name, '{');
  for (gsize i = 0; i < n_properties; i++)
    {
      const gchar *key = _tarn_trace_name_property ((guint32) properties[2 * i]);

      g_assert (key != NULL);
      _tarn_json_add_number (json, key, properties[2 * i + 1]);
    }
  _tarn_json_close (json, '}');
}

static void
end_object (Writer *self)
{
  enter_list (self, NULL);
  if (self->is_open)
    _tarn_json_close (&self->json, '}');
  self->is_open = FALSE;
}

static void
add_object (TarnListener *listener, const TarnAllocator *allocator, const TarnAllocator *upstream,
            const guint64 *properties, gsize n_properties)
{
  Writer *self = (Writer *) listener;
  TarnJson *json = &self->json;

  end_object (self);
  _tarn_json_break (json);
  _tarn_json_open (json, NULL, '{');
  self->is_open = TRUE;
  _tarn_json_add_number (json, "id", allocator->id);
  _tarn_json_add_text (json, "class", _tarn_trace_name_class (allocator->klass->trace_class));
  _tarn_json_add_text (json, "name", allocator->ops.name);
  if (upstream != NULL)
    _tarn_json_add_number (json, "upstream", upstream->id);
  add_properties (json, "options", properties, n_properties);
}

static void
add_counters (TarnListener *listener, const TarnAllocator *allocator, const guint64 *properties,
              gsize n_properties)
{
  Writer *self = (Writer *) listener;

  (void) allocator;
  enter_list (self, NULL);
  add_properties (&self->json, "counters", properties, n_properties);
}

static void
add_origin (Writer *self, const TarnBlock *block)
{
  TarnOrigin origin = { .time = 0 };

  if (!block->source->klass->get_origin (block, &origin))
    return;
  _tarn_json_add_text (&self->json, "tag", _tarn_tag_get_text (origin.tag));
  _tarn_json_add_number (&self->json, "thread", origin.thread);
  _tarn_json_add_number (&self->json, "age",
                         self->time > origin.time ? self->time - origin.time : 0);
  if (origin.stack == 0)
    return;
  _tarn_json_add_number (&self->json, "stack", origin.stack);
  g_hash_table_add (self->stacks, GUINT_TO_POINTER (origin.stack));
}

static void
add_block (TarnListener *listener, const TarnBlock *block, gboolean is_active)
{
  Writer *self = (Writer *) listener;
  TarnJson *json = &self->json;

  enter_list (self, "blocks");
  _tarn_json_break (json);
  _tarn_json_open (json, NULL, '{');
  _tarn_json_add_address (json, "address", block->memory.address);
  _tarn_json_add_boolean (json, "active", is_active);
  if (is_active)
    _tarn_json_add_number (json, "size", block->size);
  _tarn_json_add_number (json, "alloc_size", block->alloc_size);
  if (block->n_uses > 0)
    _tarn_json_add_address (json, "queue", GPOINTER_TO_SIZE (block->uses[0].queue->handle));
  if (is_active)
    add_origin (self, block);
  _tarn_json_close (json, '}');
}

static void
add_piece (TarnListener *listener, const TarnAllocator *heap, guint64 start, gsize size,
           gconstpointer queue)
{
  Writer *self = (Writer *) listener;
  TarnJson *json = &self->json;

  (void) heap;
  enter_list (self, "pieces");
  _tarn_json_break (json);
  _tarn_json_open (json, NULL, '{');
  _tarn_json_add_address (json, "address", start);
  _tarn_json_add_number (json, "size", size);
  _tarn_json_add_address (json, "queue", GPOINTER_TO_SIZE (queue));
  _tarn_json_close (json, '}');
}

static void
add_extent (TarnListener *listener, const TarnAllocator *heap, guint64 start, gsize size)
{
  Writer *self = (Writer *) listener;
  TarnJson *json = &self->json;

  (void) heap;
  enter_list (self, "extents");
  _tarn_json_break (json);
  _tarn_json_open (json, NULL, '{');
  _tarn_json_add_address (json, "address", start);
  _tarn_json_add_number (json, "size", size);
  _tarn_json_close (json, '}');
}

static const TarnListener writer_listener = {
  .object = add_object,
  .counters = add_counters,
  .block = add_block,
  .piece = add_piece,
  .extent = add_extent,
};

/* Stacks */

static void
add_frame (TarnJson *json, gconstpointer address)
{
  guint64 number = GPOINTER_TO_SIZE (address);
  Dl_info info;

  /* A return address stands behind the call, which may be the last of its function. */
  if (dladdr ((const gchar *) address - 1, &info) == 0)
    memset (&info, 0, sizeof info);
  _tarn_json_open (json, NULL, '{');
  _tarn_json_add_address (json, "address", number);
  if (info.dli_fname != NULL)
    {
      _tarn_json_add_text (json, "module", info.dli_fname);
      _tarn_json_add_number (json, "module_offset", number - GPOINTER_TO_SIZE (info.dli_fbase));
    }
  if (info.dli_sname != NULL)
    {
      _tarn_json_add_text (json, "symbol", info.dli_sname);
      _tarn_json_add_number (json, "symbol_offset", number - GPOINTER_TO_SIZE (info.dli_saddr));
    }
  _tarn_json_close (json, '}');
}

static void
add_stack (TarnJson *json, guint32 number)
{
  guint n_frames = 0;
  const gpointer *frames = _tarn_stack_get_frames (number, &n_frames);

  _tarn_json_break (json);
  _tarn_json_open (json, NULL, '{');
  _tarn_json_add_number (json, "stack", number);
  _tarn_json_open (json, "frames", '[');
  for (guint i = 0; i < n_frames; i++)
    add_frame (json, frames[i]);
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
    add_stack (&self->json, GPOINTER_TO_UINT (number));
  _tarn_json_close (&self->json, ']');
}

/* The whole */

static void
add_head (Writer *self, const gchar *reason, const gchar *message)
{
  g_autoptr (GDateTime) now = g_date_time_new_now_utc ();
  g_autofree gchar *date = g_date_time_format (now, "%Y-%m-%dT%H:%M:%SZ");
  TarnJson *json = &self->json;

  _tarn_json_add_number (json, "tarn_snapshot", 1);
  _tarn_json_add_text (json, "version", tarn_get_version ());
  _tarn_json_add_text (json, "date", date);
  _tarn_json_add_number (json, "pid", (guint64) getpid ());
  _tarn_json_add_text (json, "program", g_get_prgname ());
  _tarn_json_add_text (json, "reason", reason);
  if (message != NULL)
    _tarn_json_add_text (json, "message", message);
  _tarn_json_add_boolean (json, "followed", _tarn_follows ());
}

static GString *
make_text (const gchar *reason, const gchar *message)
{
  Writer self = { .base = writer_listener,
                  .json = { .text = g_string_new (NULL) },
                  .stacks = g_hash_table_new (NULL, NULL) };
  TarnJson *json = &self.json;

  _tarn_json_open (json, NULL, '{');
  add_head (&self, reason, message);
  _tarn_json_open (json, "allocators", '[');
  self.time = _tarn_record_get_time ();
  _tarn_allocators_tell_frozen (&self.base);
  end_object (&self);
  _tarn_json_close (json, ']');
  add_stacks (&self);
  _tarn_json_close (json, '}');
  g_string_append_c (json->text, '\n');
  g_hash_table_unref (self.stacks);
  return json->text;
}

gboolean
_tarn_snapshot_write (const gchar *path, const gchar *reason, const gchar *message, GError **error)
{
  GString *text;
  gboolean is_written;

  if (_tarn_forked ())
    {
      g_set_error_literal (error, TARN_ERROR, TARN_ERROR_FORKED,
                           "a child of fork () has no snapshots: its pools are its parent's");
      return FALSE;
    }
  text = make_text (reason, message);
  is_written = g_file_set_contents (path, text->str, (gssize) text->len, error);
  g_string_free (text, TRUE);
  return is_written;
}

/**
 * Writes what memory all pools and heaps of the process have at one moment. In the file are each
 * pool's blocks, with their sizes and the queue that uses them; each heap's pieces, and what is in
 * use in them; options and counters. tarn-view draws it, and the guide describes its form, which is
 * JSON. Other threads that allocate or free wait meanwhile: some 0.2 microseconds
 * for each block there is.
 *
 * Blocks in use have a tag (tarn_tag_push()), a thread and an age if they were asked for while
 * blocks were followed: since tarn_snapshot_set_follow(), tarn_snapshot_on_signal(),
 * tarn_trace_start(), or the program's start where TARN_SNAPSHOT_ON_OOM or TARN_TRACE was in its
 * environment; and the stack if TARN_TRACE_STACKS, or a recording, asks for it.
 *
 * With TARN_SNAPSHOT_ON_OOM=FILE in its environment (%p is the number of the process) a program
 * leaves one when a pool fails a request with TARN_ERROR_OUT_OF_MEMORY or TARN_ERROR_LIMIT: the
 * latest, but none within a second of another. It is not read in a set-user-ID program.
 *
 * @param path   the file, which is replaced once all is written
 * @param error  return location, or NULL: G_FILE_ERROR for the file; TARN_ERROR_FORKED in a child
 *               of fork ()
 * @return whether the file is written; any thread may call it, also in a reclaim function
 * @since 0.1
 */
gboolean
tarn_snapshot_write (const gchar *path, GError **error)
{
  g_return_val_if_fail (path != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  return _tarn_snapshot_write (path, "asked", NULL, error);
}
