/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Chunks, against an array of what is taken. */

#include "pool/block-chunk-private.h"

#define N_BLOCKS (TARN_CHUNK_BLOCKS * 5 + 7)
#define N_THREADS 3

static TarnBlock *
take (GQueue *chunks, TarnBlockChunk **own, gsize size)
{
  TarnBlock *block = _tarn_block_chunks_take (chunks, own);

  g_assert_cmpuint (GPOINTER_TO_SIZE (block) % TARN_CACHE_LINE, ==, 0);
  g_assert_cmpuint (block->state, ==, TARN_BLOCK_VACANT);
  g_assert_true (block->size == 0 && block->below == NULL && block->uses == NULL);
  block->state = TARN_BLOCK_ACTIVE;
  block->size = size;
  return block;
}

static void
put (GQueue *chunks, TarnBlock *block)
{
  block->state = TARN_BLOCK_RETIRED;
  block->uses = g_new (TarnUse, 1); /* room that it kept */
  _tarn_block_chunks_put (chunks, block);
}

/* What is taken, each once, has the size that it was given; and so many chunks are there for it. */
static void
assert_taken (const GQueue *chunks, const GPtrArray *taken, guint max_chunks)
{
  g_autoptr (GHashTable) blocks = g_hash_table_new (NULL, NULL);
  guint n_empty = 0;
  gboolean may_be_open = TRUE;

  TARN_FOR_EACH_BLOCK (block, chunks)
    g_assert_true (g_hash_table_add (blocks, block));
  g_assert_cmpuint (g_hash_table_size (blocks), ==, taken->len);
  for (guint i = 0; i < taken->len; i++)
    g_assert_true (g_hash_table_contains (blocks, taken->pdata[i]));

  g_assert_cmpuint (chunks->length, <=, max_chunks);
  for (const GList *link = chunks->head; link != NULL; link = link->next)
    {
      const TarnBlockChunk *chunk = link->data;
      gboolean is_open = chunk->vacant != NULL && !chunk->is_taken;

      n_empty += chunk->n_used == 0 && is_open;
      g_assert_true (may_be_open || !is_open);
      may_be_open = is_open;
    }
  g_assert_cmpuint (n_empty, <=, 1);
}

static void
test_random (void)
{
  GQueue chunks = G_QUEUE_INIT;
  TarnBlockChunk *own[N_THREADS] = { NULL };
  g_autoptr (GPtrArray) taken = g_ptr_array_new ();
  guint n_most = 0;

  assert_taken (&chunks, taken, 0);
  for (guint i = 0; i < 20000; i++)
    {
      /* Now more and more of them, now fewer. */
      gboolean grows = g_test_rand_int_range (0, 10) < (i / 2000 % 2 ? 3 : 7);

      if (grows && taken->len < N_BLOCKS)
        g_ptr_array_add (taken, take (&chunks, &own[g_test_rand_int_range (0, N_THREADS)], i));
      else if (taken->len > 0)
        put (&chunks, g_ptr_array_steal_index_fast (
                          taken, (guint) g_test_rand_int_range (0, (gint32) taken->len)));
      n_most = MAX (n_most, taken->len);
      if (i % 100 == 0)
        assert_taken (&chunks, taken, n_most / TARN_CHUNK_BLOCKS + N_THREADS + 1);
    }
  while (taken->len > 0)
    put (&chunks, g_ptr_array_steal_index_fast (taken, taken->len - 1));
  assert_taken (&chunks, taken, N_THREADS + 1);
  _tarn_block_chunks_clear (&chunks);
  g_assert_cmpuint (chunks.length, ==, 0);
}

/* As many as fit into so many chunks are in no more, however they come and go. */
static void
test_full (void)
{
  GQueue chunks = G_QUEUE_INIT;
  TarnBlockChunk *own = NULL;
  g_autoptr (GPtrArray) taken = g_ptr_array_new ();

  for (gsize i = 0; i < 3 * TARN_CHUNK_BLOCKS; i++)
    g_ptr_array_add (taken, take (&chunks, &own, i));
  assert_taken (&chunks, taken, 3);
  for (guint i = 0; i < taken->len; i++)
    {
      TarnBlock *block = taken->pdata[i];

      g_assert_cmpuint (block->size, ==, i);
      put (&chunks, block);
      taken->pdata[i] = take (&chunks, &own, i);
    }
  assert_taken (&chunks, taken, 3);
  for (guint i = 0; i < taken->len; i++)
    put (&chunks, taken->pdata[i]);
  g_assert_cmpuint (chunks.length, <=, 2);
  _tarn_block_chunks_clear (&chunks);
}

/* What threads take by turns is a page apart, for each its own. */
static void
test_apart (void)
{
  GQueue chunks = G_QUEUE_INIT;
  TarnBlockChunk *own[N_THREADS] = { NULL };
  g_autoptr (GPtrArray) taken = g_ptr_array_new ();

  for (gsize i = 0; i < N_THREADS * TARN_CHUNK_BLOCKS; i++)
    g_ptr_array_add (taken, take (&chunks, &own[i % N_THREADS], i));
  for (guint i = 0; i < taken->len; i++)
    {
      TarnBlockChunk *chunk = own[i % N_THREADS];

      g_assert_true ((TarnBlock *) taken->pdata[i] >= chunk->blocks
                     && (TarnBlock *) taken->pdata[i] < chunk->blocks + TARN_CHUNK_BLOCKS);
      put (&chunks, taken->pdata[i]);
    }
  _tarn_block_chunks_clear (&chunks);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/chunk/random", test_random);
  g_test_add_func ("/chunk/full", test_full);
  g_test_add_func ("/chunk/apart", test_apart);
  return g_test_run ();
}
