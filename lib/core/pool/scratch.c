/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A thread's scratch: one stretch of a heap's memory, from which the thread has temporaries of any
 * size without a lock.  Bins serve sizes that come again; a program whose temporaries have sizes
 * that vary would take the pool's lock, and the heap's, twice for each of them.
 *
 * A scratch is made of a block that the thread frees, and that it was the last to allocate.  Blocks
 * are lent from its beginning, one behind the other, and what is behind them all is the rest.  A
 * lent block that is freed, by whichever thread, joins the rest when those behind it have, which is
 * seen by the next request.
 *
 * A thread has one for each range of the heap's, so that no small block lies among large ones.
 *
 * When a scratch ends, the heap is told where its parts are: lent blocks in use are like any others
 * from then on, and what is between them goes to the pool's bins.  So it ends whenever all caches
 * are emptied, as before a heap grows; with its thread; and before a lent block has other queues.
 *
 * Whoever is served from a scratch looks after the pool and the heap now and then, as those do who
 * take their locks: whether memory can go back, or to other queues. */

#include "pool/cache-private.h"

/* After so many temporaries a thread looks after the pool. */
#define LENT_IN_TURN 1000

static TarnScratch *
get_scratch (TarnCache *cache, gsize size)
{
  return &cache->scratches[MAX (size, 1) > cache->pool->scratch_max_small];
}

/* Threads, inside a visit */

/* Has lent blocks that were freed, and that only the rest is behind, join the rest. */
static void
take_back (TarnScratch *scratch)
{
  TarnBlock *rest = scratch->rest;

  while (scratch->n_lent > 0)
    {
      TarnBlock *last = scratch->blocks[scratch->n_lent - 1];

      if (__atomic_load_n (&last->state, __ATOMIC_ACQUIRE) != TARN_BLOCK_HELD)
        return;
      _tarn_block_set_state (last, TARN_BLOCK_RETIRED);
      if (rest->alloc_size == 0)
        _tarn_block_set_state (rest, TARN_BLOCK_HELD);
      rest->memory = last->memory;
      rest->alloc_size += last->alloc_size;
      scratch->n_lent--;
    }
}

/* Lends the first bytes of the rest.  NULL: there are not as many, or enough are lent. */
static TarnBlock *
lend (TarnCache *cache, TarnScratch *scratch, gsize size)
{
  TarnBlock *rest = scratch->rest, *block;
  gsize unit = cache->pool->scratch_unit;

  take_back (scratch);
  if (scratch->n_lent == TARN_MAX_LENT || rest->alloc_size == 0 || size > rest->alloc_size)
    return NULL;
  block = scratch->blocks[scratch->n_lent++];
  block->memory = rest->memory;
  block->alloc_size = MIN ((MAX (size, 1) + unit - 1) & ~(unit - 1), rest->alloc_size);
  rest->memory.address += block->alloc_size;
  rest->alloc_size -= block->alloc_size;
  if (rest->alloc_size == 0)
    _tarn_block_set_state (rest, TARN_BLOCK_RETIRED);
  scratch->is_used = TRUE;
  return block;
}

/* Serves a request from the thread's scratch.  NULL: the lock has to be taken.  *is_due: the caller
 * is to look after the pool and the heap. */
static inline __attribute__ ((always_inline)) TarnBlock *
take_lent (TarnPool *pool, gsize size, gpointer handle, gboolean *is_due, TarnEnter enter)
{
  TarnThread *thread = _tarn_current_thread;
  TarnCache *cache = _tarn_cache_of (thread, pool);
  TarnBlock *block = NULL;
  TarnScratch *scratch;

  if (pool->scratch_unit == 0 || cache == NULL || !enter (thread, &pool->door))
    return NULL;
  scratch = get_scratch (cache, size);
  if (scratch->rest != NULL && scratch->handle == handle)
    block = lend (cache, scratch, size);
  *is_due = block != NULL && ++cache->n_lent_in_turn == LENT_IN_TURN;
  if (*is_due)
    cache->n_lent_in_turn = 0;
  if (block != NULL)
    _tarn_cache_activate (cache, block, size);
  _tarn_thread_leave (thread);
  return block;
}

TarnBlock *
_tarn_pool_take_lent (TarnPool *pool, gsize size, gpointer handle, gboolean *is_due)
{
  return take_lent (pool, size, handle, is_due, _tarn_thread_enter);
}

TarnBlock *
_tarn_pool_take_lent_followed (TarnPool *pool, gsize size, gpointer handle, gboolean *is_due)
{
  return take_lent (pool, size, handle, is_due, _tarn_thread_enter_followed);
}

/* Ends the use of a block that some thread's scratch has lent.  FALSE: the lock has to be taken,
 * and nothing was done. */
static inline __attribute__ ((always_inline)) gboolean
put_lent (TarnPool *pool, TarnBlock *block, TarnEnter enter)
{
  TarnThread *thread = _tarn_current_thread;
  TarnCache *cache = _tarn_cache_of (thread, pool);
  gboolean is_lent;

  if (pool->scratch_unit == 0 || cache == NULL || !enter (thread, &pool->door))
    return FALSE;
  is_lent = block->bin == TARN_LENT && block->state == TARN_BLOCK_ACTIVE;
  if (is_lent)
    {
      _tarn_cache_count_free (cache, block);
      g_assert (_tarn_block_state_may_follow (block->state, TARN_BLOCK_HELD));
      __atomic_store_n (&block->state, (gint) TARN_BLOCK_HELD, __ATOMIC_RELEASE);
    }
  _tarn_thread_leave (thread);
  return is_lent;
}

gboolean
_tarn_pool_put_lent (TarnPool *pool, TarnBlock *block)
{
  return put_lent (pool, block, _tarn_thread_enter);
}

gboolean
_tarn_pool_put_lent_followed (TarnPool *pool, TarnBlock *block)
{
  return put_lent (pool, block, _tarn_thread_enter_followed);
}

/* The lock is held in all that follows. */

/* Makes a block's struct, and its reference on a queue, one that can be lent. */
static TarnBlock *
lendable_new (TarnPool *pool, TarnCache *cache, const TarnBlock *like)
{
  TarnBlock *block = _tarn_block_chunks_take (&pool->chunks, &cache->chunk);

  block->state = TARN_BLOCK_RETIRED;
  block->source = &pool->base;
  block->bin = TARN_LENT;
  block->is_hit = TRUE;
  block->called_driver = FALSE;
  if (like->n_uses > 0)
    _tarn_block_add_use (block, like->uses->queue);
  _tarn_block_update_share (block);
  return block;
}

/* Makes the struct of a block that is neither held nor active vacant, which is not the last one
 * with a reference on its queue. */
static void
drop_struct (TarnPool *pool, TarnBlock *block)
{
  if (block->n_uses > 0)
    {
      g_assert (block->n_uses == 1 && block->uses->queue->n_refs > 1);
      block->uses->queue->n_refs--;
      block->n_uses = 0;
    }
  _tarn_block_chunks_put (&pool->chunks, block);
}

/* Has a thread's scratch be of a block that is being freed. */
static void
begin (TarnCache *cache, TarnScratch *scratch, TarnBlock *block)
{
  g_assert (scratch->rest == NULL && block->share != TARN_NO_SHARE);
  for (guint i = 0; i < TARN_MAX_LENT; i++)
    scratch->blocks[i] = lendable_new (cache->pool, cache, block);
  _tarn_block_set_state (block, TARN_BLOCK_HELD);
  scratch->rest = block;
  scratch->handle = block->share;
  scratch->bytes = block->alloc_size;
  scratch->n_lent = 0;
  scratch->is_used = TRUE;
}

/* Tells the heap that a stretch of memory is one by itself, beside what comes after it. */
static void
split_off (TarnPool *pool, TarnMemory memory, gsize size, const TarnBlock *after)
{
  if (after != NULL)
    pool->upstream->klass->split (pool->upstream, memory, size);
}

/* Puts a held block that is no scratch any more into the pool's bin. */
static void
put_away (TarnPool *pool, TarnBlock *block)
{
  block->bin = _tarn_bin_number (block->alloc_size, pool->leading_bits);
  pool->n_blocks++;
  _tarn_pool_put_batch (pool, block, block, 1);
}

/* Joins a freed block with those behind it that are freed as well.  Gets the number of the first
 * that is not. */
static guint
join_freed (TarnPool *pool, TarnScratch *scratch, guint i)
{
  TarnBlock *first = scratch->blocks[i++];

  for (; i < scratch->n_lent && scratch->blocks[i]->state == TARN_BLOCK_HELD; i++)
    {
      TarnBlock *block = scratch->blocks[i];

      first->alloc_size += block->alloc_size;
      _tarn_block_set_state (block, TARN_BLOCK_RETIRED);
      drop_struct (pool, block);
    }
  return i;
}

/* Has the blocks that a scratch has lent stand for themselves. */
static void
release_lent (TarnPool *pool, TarnScratch *scratch)
{
  for (guint i = 0; i < scratch->n_lent;)
    {
      TarnBlock *block = scratch->blocks[i];
      gboolean is_freed = block->state == TARN_BLOCK_HELD;

      i = is_freed ? join_freed (pool, scratch, i) : i + 1;
      split_off (pool, block->memory, block->alloc_size,
                 i < scratch->n_lent             ? scratch->blocks[i]
                 : scratch->rest->alloc_size > 0 ? scratch->rest
                                                 : NULL);
      if (is_freed)
        put_away (pool, block);
      else
        {
          block->bin = _tarn_bin_number (block->alloc_size, pool->leading_bits);
          pool->n_blocks++;
        }
    }
}

/* Ends one of a thread's scratches, if it is there.  The door is closed; or nothing is lent, and
 * the cache is this thread's, or abandoned. */
static void
end_scratch (TarnCache *cache, TarnScratch *scratch)
{
  TarnPool *pool = cache->pool;
  TarnBlock *rest = scratch->rest;

  _tarn_assert_locked (&pool->lock);
  if (rest == NULL)
    return;
  take_back (scratch);
  g_assert (_tarn_door_is_closed (&pool->door)
            || (scratch->n_lent == 0
                && (cache->is_abandoned || cache == _tarn_cache_of (_tarn_current_thread, pool))));
  release_lent (pool, scratch);
  for (guint i = scratch->n_lent; i < TARN_MAX_LENT; i++)
    drop_struct (pool, scratch->blocks[i]);
  pool->n_blocks--; /* the rest, which is counted anew */
  if (rest->alloc_size > 0)
    put_away (pool, rest);
  else
    drop_struct (pool, rest);
  *scratch = (TarnScratch){ .rest = NULL };
}

/* Ends a thread's scratches, under the same conditions. */
void
_tarn_cache_end_scratches (TarnCache *cache)
{
  for (guint i = 0; i < TARN_N_SCRATCHES; i++)
    end_scratch (cache, &cache->scratches[i]);
}

/* Does so with those of a queue; NULL: nobody's. */
void
_tarn_cache_end_scratches_of (TarnCache *cache, gconstpointer handle)
{
  for (guint i = 0; i < TARN_N_SCRATCHES; i++)
    if (cache->scratches[i].handle == handle)
      end_scratch (cache, &cache->scratches[i]);
}

/* Tells whether a cache has a scratch. */
gboolean
_tarn_cache_has_scratch (const TarnCache *cache)
{
  return cache->scratches[0].rest != NULL || cache->scratches[1].rest != NULL;
}

/* Tells whether some is lent of a cache's scratches.  What its own thread has back by now is not,
 * so that a thread whose temporaries grow need not close the door. */
gboolean
_tarn_cache_has_lent (TarnCache *cache)
{
  if (cache == _tarn_cache_of (_tarn_current_thread, cache->pool))
    for (guint i = 0; i < TARN_N_SCRATCHES; i++)
      if (cache->scratches[i].rest != NULL)
        take_back (&cache->scratches[i]);
  return cache->scratches[0].n_lent > 0 || cache->scratches[1].n_lent > 0;
}

gboolean
_tarn_cache_has_scratch_of (const TarnCache *cache, gconstpointer handle)
{
  for (guint i = 0; i < TARN_N_SCRATCHES; i++)
    if (cache->scratches[i].rest != NULL && cache->scratches[i].handle == handle)
      return TRUE;
  return FALSE;
}

/* Ends all scratches.  The door is closed. */
void
_tarn_pool_end_scratches (TarnPool *pool)
{
  g_assert (_tarn_door_is_closed (&pool->door));
  for (TarnCache *cache = pool->caches; cache != NULL; cache = cache->next)
    _tarn_cache_end_scratches (cache);
}

/* Tells whether a scratch has lent a block.  The door is closed. */
static gboolean
has_lent (const TarnScratch *scratch, const TarnBlock *block)
{
  for (guint i = 0; i < scratch->n_lent; i++)
    if (scratch->blocks[i] == block)
      return TRUE;
  return FALSE;
}

/* Sees to it that a block is no part of a scratch. */
void
_tarn_pool_release_lent (TarnPool *pool, const TarnBlock *block)
{
  gboolean was_open;

  _tarn_assert_locked (&pool->lock);
  if (pool->scratch_unit == 0 || block->bin != TARN_LENT)
    return;
  was_open = _tarn_pool_close (pool);
  for (TarnCache *cache = pool->caches; cache != NULL; cache = cache->next)
    for (guint i = 0; i < TARN_N_SCRATCHES; i++)
      if (has_lent (&cache->scratches[i], block))
        end_scratch (cache, &cache->scratches[i]);
  _tarn_pool_open (pool, was_open);
}

/* Tells whether a thread is better off with another block for its scratch: a larger one, or of the
 * queue that it names now. */
static gboolean
is_better (TarnScratch *scratch, const TarnBlock *block)
{
  gboolean was_used = scratch->is_used;

  if (scratch->rest == NULL)
    return TRUE;
  take_back (scratch);
  scratch->is_used = FALSE;
  if (scratch->n_lent > 0)
    return FALSE;
  return scratch->handle == block->share ? block->alloc_size > scratch->bytes : !was_used;
}

/* Notes that a thread (NULL: it has no cache) allocated a block with the lock. */
void
_tarn_cache_note_latest (TarnCache *cache, const TarnBlock *block)
{
  if (cache != NULL)
    cache->latest = block;
}

/* Notes that a thread frees a block with the lock.  TRUE: it seems to have temporaries, of which
 * this is one. */
gboolean
_tarn_cache_note_free (TarnCache *cache, const TarnBlock *block)
{
  cache->n_temporaries = block == cache->latest ? cache->n_temporaries + 1 : 0;
  return cache->n_temporaries >= TARN_FEW_TEMPORARIES;
}

/* Makes a temporary that is being freed, and that can be held, the thread's scratch.  FALSE, and
 * nothing was done: it has a better one, or the pool has none. */
gboolean
_tarn_cache_keep_as_scratch (TarnCache *cache, TarnBlock *block)
{
  TarnScratch *scratch = get_scratch (cache, block->alloc_size);
  const TarnPool *pool = cache->pool;

  _tarn_assert_locked (&pool->lock);
  if (pool->scratch_unit == 0 || block->alloc_size > pool->scratch_max_bytes
      || cache->n_temporaries < pool->scratch_min_temporaries
      || _tarn_pool_records_frees (pool, block->bin) || !is_better (scratch, block))
    return FALSE;
  end_scratch (cache, scratch);
  begin (cache, scratch, block);
  return TRUE;
}

/* Adds what a scratch holds, and has lent, to counters. */
static void
add_scratch (const TarnScratch *scratch, TarnPoolStats *stats, gsize *n_blocks)
{
  if (scratch->rest == NULL)
    return;
  stats->held_blocks += scratch->rest->alloc_size > 0;
  stats->held_bytes += scratch->rest->alloc_size;
  *n_blocks += scratch->n_lent - (scratch->rest->alloc_size == 0);
  for (guint i = 0; i < scratch->n_lent; i++)
    if (scratch->blocks[i]->state == TARN_BLOCK_HELD)
      {
        stats->held_blocks++;
        stats->held_bytes += scratch->blocks[i]->alloc_size;
      }
}

/* Does so for a cache's.  The door is closed; or this is a child of fork (). */
void
_tarn_cache_add_scratches (const TarnCache *cache, TarnPoolStats *stats, gsize *n_blocks)
{
  for (guint i = 0; i < TARN_N_SCRATCHES; i++)
    add_scratch (&cache->scratches[i], stats, n_blocks);
}
