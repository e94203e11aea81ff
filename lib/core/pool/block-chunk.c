/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Chunks of block structs, from which pools take the structs of their blocks. */

#include "pool/block-chunk-private.h"

#include "base/aligned-private.h"
#include "record/record-private.h"

static gboolean
is_full (const TarnBlockChunk *chunk)
{
  return chunk->vacant == NULL;
}

/* Makes a chunk.  All of its blocks are vacant, in the order of their addresses. */
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

/* Finds the chunk that a block is in. */
static TarnBlockChunk *
chunk_of (const TarnBlock *block)
{
  const TarnBlock *first = block - block->number;
  gpointer chunk = (gchar *) first - G_STRUCT_OFFSET (TarnBlockChunk, blocks);

  return chunk;
}

/* Returns TRUE if a thread that needs a chunk may take this one. */
static gboolean
is_open (const TarnBlockChunk *chunk)
{
  return chunk != NULL && !chunk->is_taken && !is_full (chunk);
}

/* Gets a chunk for a thread, in place of its full one.  Chunks that are full stand at the end of
 * the list until one of their blocks is put back, as do chunks that a thread has. */
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

/* Takes a vacant block from a thread's chunk.  The block is zero except for its number. */
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

/* Makes a chunk, which has vacant blocks and which no thread has, the next one to be taken.  Frees
 * it instead if none of its blocks is in use, and there is another one to take. */
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

/* Makes a retired block vacant.  Its state still tells what it was, until it is taken again. */
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

/* Makes a thread's chunk (NULL: it had none) available to other threads. */
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

/* Finds the next block after another one (NULL: the first block) that is neither vacant nor
 * retired. */
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

/* Frees all chunks.  All blocks are vacant. */
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

/* Gets the age of a block, which is valid only while the block is in a list by age. */
TarnAge *
_tarn_block_get_age (const TarnBlock *block)
{
  TarnBlockChunk *chunk = chunk_of (block);

  if (chunk->ages == NULL)
    chunk->ages = g_new0 (TarnAge, TARN_CHUNK_BLOCKS);
  return &chunk->ages[block->number];
}

/* Origins.  A thread reads an origin only while no thread frees or allocates; but another thread
 * may be writing the origin of a block that it already has.  So time is written last. */

/* Gets the place of a block's origin.  Returns NULL if there is no memory for it. */
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

/* Gets a block's origin.  Returns FALSE if it was written before the present recording of origins,
 * because it may be that of an earlier use of the struct. */
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
