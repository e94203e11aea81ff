/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Finds the functions, files and lines of a recording's addresses, and keeps them in a table. */

#include "symbols.h"

#include <string.h>

#include "../demangle.h"
#include "../text.h"
#include "debug-info.h"

struct _Symbols
{
  const Recording *recording;
  const gchar *program;
  GHashTable *modules;    /* maps a RecordedModule to its DebugInfo, or to NULL if there is none */
  GHashTable *complaints; /* a set of the messages that were printed */
  GHashTable *known;      /* maps an address (guint64) to a GArray of NamedFrame */
  GStringChunk *texts;
};

static void
close_module (gpointer debug_info)
{
  debug_info_free (debug_info);
}

Symbols *
symbols_new (const Recording *recording, const gchar *program)
{
  Symbols *self = g_new (Symbols, 1);

  *self = (Symbols){
    .recording = recording,
    .program = program,
    .modules = g_hash_table_new_full (NULL, NULL, NULL, close_module),
    .complaints = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL),
    .known
    = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, (GDestroyNotify) g_array_unref),
    .texts = g_string_chunk_new (4096),
  };
  return self;
}

void
symbols_free (Symbols *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->modules);
  g_hash_table_unref (self->complaints);
  g_hash_table_unref (self->known);
  g_string_chunk_free (self->texts);
  g_free (self);
}

/* Stores a text, and makes its control characters printable: names of files and symbols may have
 * any bytes.  The stored text lives as long as the Symbols. */
static const gchar *
keep_text (Symbols *self, const gchar *text)
{
  g_autofree gchar *printable = text_make_printable (text, -1);

  return g_string_chunk_insert_const (self->texts, printable);
}

static const gchar *
keep_function (Symbols *self, const gchar *symbol)
{
  g_autofree gchar *name = demangle (symbol);

  return keep_text (self, name);
}

/* Prints a message about a module.  Prints each message only once, because a library may be loaded
 * twice. */
static void
complain (Symbols *self, const RecordedModule *module, const gchar *message)
{
  gchar *text = g_strdup_printf ("%s: %s", module->path, message);

  if (g_hash_table_add (self->complaints, text))
    text_complain (self->program, "%s", text);
}

/* Gets the debugging information of a module.  Returns NULL if there is none.  Opens no file if the
 * path is not absolute: such a module is the vDSO, which the kernel maps into each process without
 * a file. */
static DebugInfo *
get_debug_info (Symbols *self, const RecordedModule *module)
{
  g_autoptr (GError) error = NULL;
  DebugInfo *debug_info = NULL;

  g_assert (module->path != NULL && module->build_id != NULL);
  if (g_hash_table_contains (self->modules, module))
    return g_hash_table_lookup (self->modules, module);
  if (debug_info_is_supported () && g_path_is_absolute (module->path))
    debug_info = debug_info_open (module->path, module->build_id, &error);
  if (error != NULL)
    complain (self, module, error->message);
  g_hash_table_insert (self->modules, (gpointer) module, debug_info);
  return debug_info;
}

/* Adds the frames of a return address.  A return address comes after the call, and the call may be
 * the last instruction of its function.  So this function looks up the address minus one. */
static void
add_places (Symbols *self, const RecordedModule *module, const NamedFrame *frame, GArray *frames)
{
  DebugInfo *debug_info = get_debug_info (self, module);
  g_autoptr (GArray) places = g_array_new (FALSE, FALSE, sizeof (DebugPlace));

  if (debug_info != NULL && frame->module_offset > 0)
    debug_info_find (debug_info, frame->module_offset - 1, places);
  for (guint i = 0; i < places->len; i++)
    {
      DebugPlace *place = &g_array_index (places, DebugPlace, i);
      NamedFrame named = *frame;

      if (place->function != NULL)
        {
          named.function = keep_function (self, place->function);
          named.offset = place->offset + 1;
        }
      if (place->file != NULL && place->line > 0)
        {
          named.file = keep_text (self, place->file);
          named.line = place->line;
        }
      g_array_append_val (frames, named);
      g_free (place->function);
      g_free (place->file);
    }
}

static GArray *
look_up (Symbols *self, guint64 address)
{
  GArray *frames = g_array_new (FALSE, FALSE, sizeof (NamedFrame));
  const RecordedFrame *recorded = recording_get_frame (self->recording, address);
  const RecordedModule *module
      = recorded != NULL ? recording_get_module (self->recording, recorded) : NULL;
  NamedFrame frame = { .address = address, .module = "" };

  if (recorded != NULL)
    {
      frame.module = keep_text (self, recorded->module);
      frame.module_offset = recorded->module_offset;
    }
  if (recorded != NULL && recorded->symbol[0] != '\0')
    {
      frame.function = keep_function (self, recorded->symbol);
      frame.offset = recorded->symbol_offset;
    }
  else if (module != NULL)
    add_places (self, module, &frame, frames);
  if (frames->len == 0)
    g_array_append_val (frames, frame);
  g_assert (frames->len > 0);
  return frames;
}

const NamedFrame *
symbols_get (Symbols *self, guint64 address, guint *n_frames)
{
  GArray *frames = g_hash_table_lookup (self->known, &address);

  if (frames == NULL)
    {
      guint64 *key = g_new (guint64, 1);

      *key = address;
      frames = look_up (self, address);
      g_hash_table_insert (self->known, key, frames);
    }
  *n_frames = frames->len;
  return (const NamedFrame *) (gconstpointer) frames->data;
}
