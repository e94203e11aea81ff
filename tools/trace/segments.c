/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Stores segments in a tree by their addresses. */

#include "segments.h"

struct _Segments
{
  GTree *tree; /* Segments, which are their own keys */
};

static gint
compare (gconstpointer a, gconstpointer b, gpointer data)
{
  const Segment *left = a, *right = b;

  (void) data;
  return left->address < right->address ? -1 : left->address > right->address;
}

Segments *
segments_new (void)
{
  Segments *self = g_new (Segments, 1);

  self->tree = g_tree_new_full (compare, NULL, NULL, g_free);
  return self;
}

void
segments_free (Segments *self)
{
  if (self == NULL)
    return;
  g_tree_unref (self->tree);
  g_free (self);
}

static gint
search (gconstpointer key, gconstpointer data)
{
  const Segment *segment = key;
  guint64 address = *(const guint64 *) data;

  if (address < segment->address)
    return -1;
  return address - segment->address >= segment->size && address != segment->address;
}

const Segment *
segments_find (const Segments *self, guint64 address)
{
  return g_tree_search (self->tree, search, &address);
}

gboolean
segments_add (Segments *self, const Segment *segment)
{
  Segment *copy;

  if (segments_find (self, segment->address) != NULL)
    return FALSE;
  copy = g_new (Segment, 1);
  *copy = *segment;
  g_tree_insert (self->tree, copy, copy);
  return TRUE;
}

void
segments_remove (Segments *self, guint64 address)
{
  const Segment key = { .address = address };

  g_tree_remove (self->tree, &key);
}

static gboolean
add_to_list (gpointer key, gpointer value, gpointer list)
{
  (void) key;
  g_array_append_vals (list, value, 1);
  return FALSE;
}

GArray *
segments_list (const Segments *self)
{
  GArray *list = g_array_new (FALSE, FALSE, sizeof (Segment));

  g_tree_foreach (self->tree, add_to_list, list);
  return list;
}
