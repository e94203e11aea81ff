/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Stores the definitions of a recording in hash tables: strings, stacks and frames by their
 * numbers or addresses, and a set of modules. */

#include "definitions.h"

/* A string and the number that the recording gives it.  The number is the key in
 * Definitions.strings. */
typedef struct
{
  guint64 number;
  const gchar *text;
} String;

/* A stack and the number that the recording gives it.  The number is the key in
 * Definitions.stacks. */
typedef struct
{
  guint64 number;
  GArray *addresses;
} Stack;

/* The definitions.  Strings, frames and stacks are in tables; the first member of each value is its
 * key.  Modules are in a set. */
struct _Definitions
{
  GStringChunk *texts;
  GHashTable *strings, *frames, *stacks, *modules;
};

static void
stack_free (gpointer stack)
{
  g_array_unref (((Stack *) stack)->addresses);
  g_free (stack);
}

static GHashTable *
table_new (GDestroyNotify value_free)
{
  return g_hash_table_new_full (g_int64_hash, g_int64_equal, NULL, value_free);
}

/* Hashes a module by its address and path.  The path must be interned, because paths are
 * compared as pointers. */
static guint
hash_module (gconstpointer key)
{
  const RecordedModule *module = key;

  return g_int64_hash (&module->load_address) ^ g_direct_hash (module->path);
}

static gboolean
equal_modules (gconstpointer a, gconstpointer b)
{
  const RecordedModule *left = a, *right = b;

  return left->load_address == right->load_address && left->path == right->path;
}

Definitions *
definitions_new (void)
{
  Definitions *self = g_new (Definitions, 1);

  *self = (Definitions){ .texts = g_string_chunk_new (4096),
                         .strings = table_new (g_free),
                         .frames = table_new (g_free),
                         .stacks = table_new (stack_free),
                         .modules
                         = g_hash_table_new_full (hash_module, equal_modules, g_free, NULL) };
  return self;
}

void
definitions_free (Definitions *self)
{
  if (self == NULL)
    return;
  g_string_chunk_free (self->texts);
  g_hash_table_unref (self->strings);
  g_hash_table_unref (self->frames);
  g_hash_table_unref (self->stacks);
  g_hash_table_unref (self->modules);
  g_free (self);
}

const gchar *
definitions_intern (Definitions *self, const gchar *bytes, gsize length)
{
  g_autofree gchar *text = g_strndup (bytes, length);

  return g_string_chunk_insert_const (self->texts, text);
}

void
definitions_add_string (Definitions *self, guint64 string, const gchar *text)
{
  String *value;

  if (g_hash_table_contains (self->strings, &string))
    return;
  value = g_new (String, 1);
  *value = (String){ string, text };
  g_hash_table_insert (self->strings, &value->number, value);
}

void
definitions_add_frame (Definitions *self, const RecordedFrame *frame)
{
  RecordedFrame *value;

  if (g_hash_table_contains (self->frames, &frame->address))
    return;
  value = g_new (RecordedFrame, 1);
  *value = *frame;
  g_hash_table_insert (self->frames, &value->address, value);
}

void
definitions_add_module (Definitions *self, const RecordedModule *module)
{
  RecordedModule *value;

  if (g_hash_table_contains (self->modules, module))
    return;
  value = g_new (RecordedModule, 1);
  *value = *module;
  g_hash_table_add (self->modules, value);
}

void
definitions_add_stack (Definitions *self, guint64 stack, GArray *addresses)
{
  Stack *value = g_new (Stack, 1);

  *value = (Stack){ stack, addresses };
  if (g_hash_table_contains (self->stacks, &stack))
    stack_free (value);
  else
    g_hash_table_insert (self->stacks, &value->number, value);
}

const gchar *
definitions_get_string (const Definitions *self, guint64 string)
{
  const String *value = g_hash_table_lookup (self->strings, &string);

  return value != NULL ? value->text : NULL;
}

const RecordedFrame *
definitions_get_frame (const Definitions *self, guint64 address)
{
  return g_hash_table_lookup (self->frames, &address);
}

const RecordedModule *
definitions_get_module (const Definitions *self, const RecordedFrame *frame)
{
  const RecordedModule key
      = { .load_address = frame->address - frame->module_offset, .path = frame->module };

  return g_hash_table_lookup (self->modules, &key);
}

const guint64 *
definitions_get_stack (const Definitions *self, guint64 stack, gsize *n_frames)
{
  const Stack *value = g_hash_table_lookup (self->stacks, &stack);

  *n_frames = value != NULL ? value->addresses->len : 0;
  return value != NULL ? (const guint64 *) (gconstpointer) value->addresses->data : NULL;
}
