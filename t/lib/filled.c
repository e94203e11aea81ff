/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "filled.h"

#include "conformance.h"
#include "heap/heap-private.h"
#include "pool/pool-private.h"

void
filled_part_init (FilledPart *part, TarnAllocator *upstream, TarnReclaimGroup *group,
                  gsize max_size)
{
  g_autoptr (GError) error = NULL;
  TarnAllocator *heap = tarn_heap_allocator_new (upstream, NULL, &error);

  g_assert_no_error (error);
  part->pool = tarn_pool_new (heap, NULL, &error);
  g_assert_no_error (error);
  tarn_pool_set_reclaim_group (part->pool, group);
  part->blocks = g_ptr_array_new_with_free_func ((GDestroyNotify) tarn_block_free);
  part->max_size = max_size;
  part->tight = NULL;
  tarn_allocator_unref (heap);
  tarn_allocator_unref (upstream);
  tarn_block_free (allocate (part->pool, FILLED_GRANULE)); /* so that the driver is at home */
  tarn_pool_free_held (part->pool);
}

void
filled_part_clear (FilledPart *part)
{
  g_ptr_array_unref (part->blocks);
  assert_valid (part->pool);
  tarn_pool_unref (part->pool);
}

static gsize
count_granules (gsize bytes)
{
  return bytes / FILLED_GRANULE + (bytes % FILLED_GRANULE > 0);
}

/* Adds the pieces of a range of virtual memory that a block lies in. */
static void
add_by_address (GHashTable *used, const TarnHeapRange *range, const TarnBlock *block)
{
  for (const GList *link = range->pieces.head; link != NULL; link = link->next)
    {
      const TarnPiece *piece = link->data;

      if (piece->start < block->memory.address + block->alloc_size
          && block->memory.address < piece->start + piece->size)
        g_hash_table_add (used, link->data);
    }
}

/* Adds the pieces that a block lies in, of which a heap of parts knows one. */
static void
add_pieces (GHashTable *used, TarnHeap *heap, const TarnBlock *block)
{
  const TarnExtent *extent;

  if (heap->growth == &_tarn_heap_parts_growth)
    {
      extent = block->is_own ? block->extent : g_hash_table_lookup (heap->table, &block->memory);
      g_assert_nonnull (extent);
      g_hash_table_add (used, extent->piece);
      return;
    }
  for (guint i = 0; i < TARN_N_RANGES; i++)
    add_by_address (used, &heap->nobody->arenas[0]->ranges[i], block);
}

/* Counts the granules of pieces that blocks in use lie in. */
static gsize
get_used (const FilledPart *part)
{
  TarnHeap *heap = _tarn_heap_of (part->pool->upstream);
  g_autoptr (GHashTable) used = g_hash_table_new (NULL, NULL);
  GHashTableIter iter;
  gpointer piece;
  gsize n = 0;

  for (guint i = 0; i < part->blocks->len; i++)
    add_pieces (used, heap, part->blocks->pdata[i]);
  g_hash_table_iter_init (&iter, used);
  while (g_hash_table_iter_next (&iter, &piece, NULL))
    n += count_granules (((const TarnPiece *) piece)->size);
  return n;
}

/* Half of them are about what is left. */
static gsize
choose_size (const FilledPart *part, gsize left)
{
  gdouble max = (gdouble) part->max_size / 2;
  gsize size = g_test_rand_bit () ? left * FILLED_GRANULE - 1 + (gsize) g_test_rand_int_range (0, 3)
                                  : FILLED_GRANULE + (gsize) (g_test_rand_double () * max);

  return CLAMP (size, FILLED_GRANULE, part->max_size);
}

/* One request of a part, where so many granules are left.  TRUE: it succeeds. */
static gboolean
request (FilledPart *part, gsize left)
{
  gsize size = choose_size (part, left);
  g_autoptr (GError) error = NULL;
  TarnBlock *block;

  if (part->tight != NULL)
    tarn_testing_pages_set_max_addresses (part->tight, count_granules (size) * FILLED_GRANULE);
  block = tarn_pool_allocate (part->pool, size, &error);
  assert_valid (part->pool);
  if (block != NULL)
    {
      g_ptr_array_add (part->blocks, block);
      return TRUE;
    }
  g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
  if (count_granules (size) <= left)
    g_error ("%" G_GSIZE_FORMAT " bytes, where %" G_GSIZE_FORMAT " granules are left: %s", size,
             left, error->message);
  return FALSE;
}

static void
free_some (FilledPart *part)
{
  while (part->blocks->len > 0 && g_test_rand_int_range (0, 3) > 0)
    g_ptr_array_remove_index_fast (part->blocks,
                                   (guint) g_test_rand_int_range (0, (gint32) part->blocks->len));
}

void
filled_run (FilledPart *parts, guint n_parts, gsize there, guint n_requests)
{
  guint n_served = 0;

  for (guint i = 0; i < n_requests; i++)
    {
      gsize used = 0;

      for (guint k = 0; k < n_parts; k++)
        used += get_used (&parts[k]);
      n_served += (guint) request (&parts[g_test_rand_int_range (0, (gint32) n_parts)],
                                   there - MIN (used, there));
      free_some (&parts[g_test_rand_int_range (0, (gint32) n_parts)]);
    }
  g_test_message ("%" G_GSIZE_FORMAT " granules: %u of %u requests succeeded, none of the others "
                  "fitted",
                  there, n_served, n_requests);
}
