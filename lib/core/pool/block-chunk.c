/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Chunks: arrays of block structs, from which pools take the structs of their blocks.  A struct is
 * vacant if it belongs to no block. */

#include "pool/block-chunk-private.h"

#include "base/aligned-private.h"
#include "record/record-private.h"

static gboolean
is_full (const TarnBlockChunk *chunk)
{
  return chunk->vacant == NULL;
}

/* Makes a chunk of block structs.  All structs are vacant (belong to no block).  Threads take them
 * in the order of their addresses. */
static TarnBlockChunk *
chunk_new (void)
{
  TarnBlockChunk *chunk = _tarn_aligned_new0 (TarnBlockChunk);

  chunk->link.data = chunk;
  for (guint i = TARN_CHUNK_BLOCKS; i-- > 0;)
    {
      chunk->blocks[i].number = (guint16) i;
      chunk->blocks[i].below = chunk->vacant;
      chunk->vacant = &chunk->blocks[i];
    }
  return chunk;
}

static void
chunk_free (TarnBlockChunk *chunk)
{
  g_free (chunk->ages);
  free (chunk->origins);
  free (chunk);
}

/* Gets the chunk that contains the struct of a block. */
static TarnBlockChunk *
chunk_of (const TarnBlock *block)
{
  const TarnBlock *first = block - block->number;
  gpointer chunk = (gchar *) first - G_STRUCT_OFFSET (TarnBlockChunk, blocks);

  return chunk;
}

/* Returns TRUE if a thread that needs a new chunk may take this one: no thread has it, and it has
 * vacant structs.  @chunk may be NULL. */
static gboolean
is_open (const TarnBlockChunk *chunk)
{
  return chunk != NULL && !chunk->is_taken && !is_full (chunk);
}

/* Gets a chunk with vacant structs for a thread.  @full is the thread's full chunk, which the new
 * one replaces, or NULL if the thread has no chunk.  Chunks that a thread has, and full chunks, are
 * at the end of the pool's list of chunks. */
static TarnBlockChunk *
take_chunk (GQueue *chunks, TarnBlockChunk *full)
{
  TarnBlockChunk *chunk = g_queue_peek_head (chunks);

  g_assert (full == NULL || (full->is_taken && is_full (full)));
  if (full != NULL)
    full->is_taken = FALSE;
  if (is_open (chunk))
    g_queue_unlink (chunks, &chunk->link);
  else
    chunk = chunk_new ();
  chunk->is_taken = TRUE;
  g_queue_push_tail_link (chunks, &chunk->link);
  return chunk;
}

/* Takes a vacant struct from a thread's chunk of block structs.  All fields of the struct are zero,
 * except its number. */
TarnBlock *
_tarn_block_chunks_take (GQueue *chunks, TarnBlockChunk **own)
{
  TarnBlock *block;
  guint16 number;

  if (*own == NULL || is_full (*own))
    *own = take_chunk (chunks, *own);
  block = (*own)->vacant;
  number = block->number;
  (*own)->vacant = block->below;
  (*own)->n_used++;
  *block = (TarnBlock){ .number = number };
  return block;
}

/* Offers a chunk to threads that need a new one: moves it to the head of the pool's list of chunks.
 * The caller makes sure that no thread has the chunk, and that the chunk has a vacant struct.  If
 * all structs of the chunk are vacant, and there already is another chunk to take, frees the chunk
 * instead. */
static void
offer (GQueue *chunks, TarnBlockChunk *chunk)
{
  g_assert (!chunk->is_taken && !is_full (chunk));
  g_queue_unlink (chunks, &chunk->link);
  if (chunk->n_used == 0 && is_open (g_queue_peek_head (chunks)))
    chunk_free (chunk);
  else
    g_queue_push_head_link (chunks, &chunk->link);
}

/* Makes the struct of a block vacant, after the block's memory was returned to upstream.  The state
 * stays TARN_BLOCK_RETIRED until the struct is taken again.  So the pool notices if the program
 * frees the block a second time. */
void
_tarn_block_chunks_put (GQueue *chunks, TarnBlock *block)
{
  TarnBlockChunk *chunk = chunk_of (block);

  g_assert (block->state == TARN_BLOCK_RETIRED && block->n_uses == 0);
  g_clear_pointer (&block->uses, g_free);
  block->is_told = FALSE;
  block->below = chunk->vacant;
  chunk->vacant = block;
  chunk->n_used--;
  if (!chunk->is_taken)
    offer (chunks, chunk);
}

/* Gives a thread's chunk of block structs back, so that other threads can take it.  If @own is
 * NULL, the thread has no chunk, and the function does nothing. */
void
_tarn_block_chunks_leave (GQueue *chunks, TarnBlockChunk *own)
{
  if (own == NULL)
    return;
  g_assert (own->is_taken);
  own->is_taken = FALSE;
  if (!is_full (own))
    offer (chunks, own);
}

/* Finds the struct that follows @block in the pool's list of chunks.  If @block is NULL, finds the
 * first struct.  Skips vacant and retired structs, because they belong to no block of the pool. */
TarnBlock *
_tarn_block_chunks_next (const GQueue *chunks, const TarnBlock *block)
{
  GList *link = block != NULL ? &chunk_of (block)->link : chunks->head;
  guint number = block != NULL ? block->number + 1 : 0;

  for (; link != NULL; link = link->next, number = 0)
    for (TarnBlockChunk *chunk = link->data; number < TARN_CHUNK_BLOCKS; number++)
      if (chunk->blocks[number].state != TARN_BLOCK_VACANT
          && chunk->blocks[number].state != TARN_BLOCK_RETIRED)
        return &chunk->blocks[number];
  return NULL;
}

/* Frees all chunks of block structs.  The caller makes sure that no block uses a struct. */
void
_tarn_block_chunks_clear (GQueue *chunks)
{
  TarnBlockChunk *chunk;

  while ((chunk = g_queue_peek_head (chunks)) != NULL)
    {
      g_assert (chunk->n_used == 0);
      g_queue_unlink (chunks, &chunk->link);
      chunk_free (chunk);
    }
}

/* Gets the struct with the age of a cached block.  The contents of this struct are valid only while
 * the block is in a list by age. */
TarnAge *
_tarn_block_get_age (const TarnBlock *block)
{
  TarnBlockChunk *chunk = chunk_of (block);

  if (chunk->ages == NULL)
    chunk->ages = g_new0 (TarnAge, TARN_CHUNK_BLOCKS);
  return &chunk->ages[block->number];
}

/* Functions for the origin of a block, which tells which request got the block.  A thread that
 * makes a snapshot reads origins while no thread can allocate or free.  But even then, a thread
 * that has just allocated a block may still be writing the block's origin.  So the writer stores
 * the field time last, and the reader ignores an origin whose time is 0. */

/* Gets the address at which to store a block's origin.  Allocates the chunk's array of origins if
 * it has none.  Returns NULL if there is no memory for the array. */
static TarnOrigin *
make_origin (const TarnBlock *block)
{
  TarnBlockChunk *chunk = chunk_of (block);
  TarnOrigin *origins = __atomic_load_n (&chunk->origins, __ATOMIC_ACQUIRE);
  TarnOrigin *ours;

  if (origins != NULL)
    return &origins[block->number];
  ours = calloc (TARN_CHUNK_BLOCKS, sizeof *ours);
  if (ours != NULL
      && !__atomic_compare_exchange_n (&chunk->origins, &origins, ours, FALSE, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE))
    free (ours);
  else
    origins = ours;
  return origins != NULL ? &origins[block->number] : NULL;
}

void
_tarn_block_set_origin (TarnBlock *block, guint64 time, guint32 stack)
{
  TarnOrigin *origin = make_origin (block);

  if (origin == NULL)
    return;
  __atomic_store_n (&origin->tag, _tarn_tag_get_current (), __ATOMIC_RELAXED);
  __atomic_store_n (&origin->stack, stack, __ATOMIC_RELAXED);
  __atomic_store_n (&origin->thread, _tarn_record_get_thread (), __ATOMIC_RELAXED);
  __atomic_store_n (&origin->time, time, __ATOMIC_RELEASE);
}

void
_tarn_block_forget_origin (TarnBlock *block)
{
  TarnOrigin *origins = __atomic_load_n (&chunk_of (block)->origins, __ATOMIC_ACQUIRE);

  if (origins != NULL)
    __atomic_store_n (&origins[block->number].time, 0, __ATOMIC_RELAXED);
}

/* Gets a block's origin: the request that got the block.  Returns FALSE if the origin was written
 * before the program last started to trace blocks.  Such an origin may be that of an earlier block
 * with the same struct. */
gboolean
_tarn_block_get_origin (const TarnBlock *block, TarnOrigin *origin)
{
  const TarnOrigin *origins = __atomic_load_n (&chunk_of (block)->origins, __ATOMIC_ACQUIRE);

  if (origins == NULL)
    return FALSE;
  origins += block->number;
  origin->time = __atomic_load_n (&origins->time, __ATOMIC_ACQUIRE);
  origin->tag = __atomic_load_n (&origins->tag, __ATOMIC_RELAXED);
  origin->stack = __atomic_load_n (&origins->stack, __ATOMIC_RELAXED);
  origin->thread = __atomic_load_n (&origins->thread, __ATOMIC_RELAXED);
  return origin->time != 0 && origin->time >= _tarn_follow_get_start ();
}
