/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Adds to an error's message the tags with the most bytes in use in a pool.  A tag is a text that
 * the program gives its blocks with tarn_tag_push (). */

#include "snapshot/snapshot-private.h"

#include "allocator/block-private.h"
#include "record/record-private.h"

/* The largest number of tags that a message names. */
#define N_NAMED 3

typedef struct
{
  guint32 tag;
  gsize bytes; /* requested bytes of the tag's blocks in use */
  gsize n_blocks;
} Holder;

typedef struct
{
  TarnListener base;   /* must be the first field: count_block () casts it to a Counter */
  GHashTable *holders; /* maps a tag to its Holder */
} Counter;

static void
count_block (TarnListener *listener, const TarnBlock *block, gboolean is_active)
{
  Counter *self = (Counter *) listener;
  TarnOrigin origin;
  Holder *holder;

  if (!is_active || !block->source->klass->get_origin (block, &origin) || origin.tag == 0)
    return;
  holder = g_hash_table_lookup (self->holders, GUINT_TO_POINTER (origin.tag));
  if (holder == NULL)
    {
      holder = g_new0 (Holder, 1);
      holder->tag = origin.tag;
      g_hash_table_insert (self->holders, GUINT_TO_POINTER (origin.tag), holder);
    }
  holder->bytes += block->size;
  holder->n_blocks++;
}

static void
ignore_object (TarnListener *listener, const TarnAllocator *allocator,
               const TarnAllocator *upstream, const guint64 *properties, gsize n_properties)
{
  (void) listener, (void) allocator, (void) upstream, (void) properties, (void) n_properties;
}

static gint
compare_holders (gconstpointer a, gconstpointer b)
{
  const Holder *left = a, *right = b;

  if (left->bytes != right->bytes)
    return left->bytes < right->bytes ? 1 : -1;
  return left->tag < right->tag ? -1 : left->tag > right->tag;
}

/* Returns a text that names the tags whose blocks have the most bytes, such as "'weights' has 300
 * bytes in 2 blocks".  Returns NULL if no block has a tag. */
static gchar *
name_holders (GHashTable *holders)
{
  GString *text = g_string_new (NULL);
  GList *sorted = g_list_sort (g_hash_table_get_values (holders), compare_holders);
  guint n = 0;

  for (const GList *link = sorted; link != NULL && n < N_NAMED; link = link->next, n++)
    {
      const Holder *holder = link->data;
      g_autofree gchar *tag = _tarn_tag_quote (holder->tag);

      g_string_append_printf (text,
                              "%s'%s' has %" G_GSIZE_FORMAT " bytes in %" G_GSIZE_FORMAT " block%s",
                              n > 0 ? ", " : "", tag, holder->bytes, holder->n_blocks,
                              holder->n_blocks == 1 ? "" : "s");
    }
  g_list_free (sorted);
  return g_string_free (text, n == 0);
}

void
_tarn_holders_append (TarnAllocator *pool, GError *error)
{
  Counter self = { .base = { .object = ignore_object, .block = count_block },
                   .holders = g_hash_table_new_full (NULL, NULL, NULL, g_free) };
  g_autofree gchar *text = NULL;

  pool->klass->freeze (pool);
  pool->klass->tell (pool, &self.base);
  pool->klass->thaw (pool);
  text = name_holders (self.holders);
  g_hash_table_unref (self.holders);
  if (text != NULL)
    {
      gchar *message = g_strconcat (error->message, "; ", text, NULL);

      g_free (error->message);
      error->message = message;
    }
}
