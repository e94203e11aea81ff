/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Allocates blocks directly from a heap's arenas, and returns them there.  An arena is memory of a
 * heap from which threads allocate for one queue, without the locks of the pool and the heap
 * (heap/arena-private.h).  A thread allocates there if its cache has no block of the right size,
 * and returns blocks there if its cache has no room for them.
 *
 * Such a block is called an arena's own block (TarnBlock.is_own).  Only one queue has used the
 * block: TarnBlock.share is its handle.  So the block needs no list of uses.  The block has a
 * pointer to its extent (a range of the heap's memory), so the heap's table of memory does not
 * contain the extent.  If the heap's memory has no addresses, the upstream allocator makes an
 * object for each extent, called its part: for example, a sub-buffer.  A thread asks upstream to
 * make or release a part only between two read sections (order/arena.c).
 *
 * To free a block with a part, a thread sets the block's state to ENDING in a first read section,
 * then asks upstream to release the part, and returns the extent to the arena in a second read
 * section.  Until the second one, all counters count the block as active.
 *
 * A thread may allocate, cache and free an own block.  Before any other operation, it turns the
 * block into an ordinary block of the pool (_tarn_pool_settle ()): it adds the queue to the block's
 * uses, and the memory to the heap's table.
 *
 * Invariants, whenever a thread holds the pool's lock and has stopped the read sections of the
 * pool:
 *
 *     An own block is in use, in a thread's cache, or on its way between two caches. It is never
 *     in a bin of the pool.
 *     The pool knows the queue of an own block, and has a reference to the queue's arenas, unless
 *     the block's state is ENDING (arena-table.c).
 *     TarnCache.spare is a thread's list of unused block structs. They are vacant or retired, and
 *     in no other list.
 *
 * The structs of own blocks are in the pool's chunks (arrays of block structs), like all others.
 * Each thread keeps some unused structs, so that it can make own blocks without the lock. */

#include "pool/arenas-private.h"

#include "base/clock-private.h"

/* After each TAKEN_IN_TURN blocks that a thread takes from arenas, it checks the clock.  If
 * LOOK_TIME, in microseconds, has passed since the thread last did the periodic work, it does this
 * work: it returns memory of the pool and the heap to upstream if the memory was not used for a
 * long time.  Threads that take the locks of the pool and the heap do the periodic work, too.  But
 * if all threads allocate from arenas, no thread takes the locks. */
#define TAKEN_IN_TURN 256
#define LOOK_TIME G_TIME_SPAN_SECOND

/* If a thread allocates and frees a large block again and again, its cache keeps the block for the
 * next request (TarnCache.kept).  After each KEPT_IN_TURN requests that such blocks have served,
 * the thread checks whether the heap has had to grow meanwhile.  If so, other queues may need idle
 * memory of this queue's arena, and the thread does the periodic work
 * (_tarn_pool_look_after ()). */
#define KEPT_IN_TURN 256

/* The most times that a thread tries to enter a read section for one request or free.  Before each
 * further try, the thread waits until read sections are allowed.  If all tries fail, it takes the
 * locks of the pool and the heap instead. */
#define MAX_TRIES 16

/* Functions that enter read sections.  The caller is not in a read section. */

/* Waits until read sections of the pool and of the heap are allowed.  Other threads may have
 * stopped these read sections for a short time.  Returns FALSE if the read sections stay
 * stopped. */
static gboolean
await_doors (TarnPool *pool)
{
  if (!_tarn_door_takes_visits (&pool->door))
    {
      _tarn_mutex_lock_adaptively (&pool->lock);
      _tarn_mutex_unlock (&pool->lock);
      if (!_tarn_door_takes_visits (&pool->door))
        return FALSE;
    }
  return _tarn_heap_await_door (pool->heap);
}

/* Enters a read section for a request or a free.  @visits counts the tries of this request or free.
 * Before each try except the first, waits until read sections of the pool and the heap are
 * allowed.  Returns FALSE if the caller has to take the locks of the pool and the heap. */
gboolean
_tarn_visits_begin (TarnVisits *visits)
{
  TarnThread *thread = _tarn_current_thread;

  while (visits->n < MAX_TRIES && (visits->n == 0 || await_doors (visits->pool)))
    {
      visits->n++;
      if (_tarn_thread_enter (thread, &visits->pool->door, FALSE))
        return TRUE;
    }
  return FALSE;
}

/* Functions that serve requests.  Unless a comment says otherwise, the calling thread is in a read
 * section, or holds the pool's lock. */

/* Fills in *wanted for a request.  Returns FALSE if no arena of the heap may serve the request:
 * - The thread has no cache of the pool.
 * - The size is too large.
 * - The pool has no arenas.
 * - The pool may have a cached block for the request in a recorded bin, whose blocks can be reused
 *   when their events have completed.
 *
 * The caller need not be in a read section. */
static inline __attribute__ ((always_inline)) gboolean
read_request (const TarnPool *pool, const TarnCache *cache, gsize size, guint32 bin,
              gpointer handle, TarnWanted *wanted)
{
  if (cache == NULL || size > G_MAXSSIZE / 2
      || !__atomic_load_n (&pool->has_arenas, __ATOMIC_RELAXED))
    return FALSE;
  wanted->size = size;
  wanted->handle = handle;
  wanted->bin = bin;
  wanted->alloc_size = _tarn_heap_alloc_size (size, bin);
  return __atomic_load_n (&pool->store.n_recorded[bin % TARN_RECORDED_COUNTS], __ATOMIC_RELAXED)
         == 0;
}

/* Serves a request with the block in @place, the element of TarnCache.kept for the request's
 * queue.  Removes the block from the array, makes it active, and counts a hit. */
static inline TarnBlock *
take_kept (TarnCache *cache, TarnBlock **place, gsize size)
{
  TarnBlock *block = *place;

  __atomic_store_n (place, NULL, __ATOMIC_RELAXED);
  block->is_hit = TRUE;
  _tarn_cache_activate (cache, block, size);
  __atomic_store_n (&cache->hits, cache->hits + 1, __ATOMIC_RELAXED);
  return block;
}

typedef TarnExtent *(*TakeExtent) (const TarnArenaRef *ref, gsize size, TarnMemory *memory,
                                   gboolean *is_due);

/* Takes a block for a request.  If the thread's cache keeps a block of the queue that is large
 * enough (TarnCache.kept), takes this block.  Otherwise makes a new block from the queue's arenas.
 * Returns NULL if neither is possible now.
 *
 * Also returns NULL if upstream must first make an object (a part) for the memory of the new block.
 * In this case, stores the range of memory in *taken.  In all other cases, does not change
 * *taken. */
static inline __attribute__ ((always_inline)) TarnBlock *
take (TarnPool *pool, TarnCache *cache, const TarnWanted *wanted, TakeExtent take_extent,
      TarnTaken *taken, gboolean *is_due)
{
  TarnMetQueue *met = _tarn_pool_find_met (pool, wanted->handle);
  TarnBlock **kept = _tarn_cache_get_kept_place (cache, wanted->handle);
  gsize size = wanted->size;
  TarnBlock *block = NULL;
  TarnExtent *extent;
  TarnMemory memory;

  if (met == NULL || cache->spare == NULL)
    return NULL;
  if (TARN_UNLIKELY (__atomic_load_n (&met->used, __ATOMIC_RELAXED) != TARN_MET_USED))
    __atomic_store_n (&met->used, TARN_MET_USED, __ATOMIC_RELAXED);
  if (*kept != NULL && (*kept)->share == wanted->handle && size > TARN_HEAP_MAX_ROUNDED
      && size <= (*kept)->alloc_size)
    {
      block = take_kept (cache, kept, size);
      *is_due |= ++cache->n_taken_kept % KEPT_IN_TURN == 0 && _tarn_arena_is_due (&met->ref);
    }
  else if (_tarn_cache_is_granted (pool, cache, wanted->alloc_size)
           && (extent = take_extent (&met->ref, wanted->alloc_size, &memory, is_due)) != NULL)
    {
      if (TARN_LIKELY (pool->policy.has_addresses))
        block = _tarn_cache_make_block (pool, cache, wanted, extent, memory);
      else
        *taken = (TarnTaken){ extent, met->ref };
    }
  cache->latest_own = block;
  return block;
}

/* Counts a block that the thread has taken from an arena.  Returns TRUE if the thread should now
 * call _tarn_pool_look_after (), which does the periodic work for the pool. */
static inline gboolean
take_turn (TarnPool *pool, TarnCache *cache)
{
  gint64 now;

  if (TARN_UNLIKELY (__atomic_load_n (&pool->store.has_late, __ATOMIC_RELAXED)))
    return TRUE;
  if (++cache->n_taken_in_turn < TAKEN_IN_TURN)
    return FALSE;
  cache->n_taken_in_turn = 0;
  now = _tarn_clock_now ();
  if (now - cache->looked_at < LOOK_TIME)
    return FALSE;
  cache->looked_at = now;
  return TRUE;
}

/* Serves a request from its queue's arena (memory of the heap for this queue) in one read section.
 * This succeeds for most requests.  If the function returns NULL, the caller tries slower
 * functions.  Sets *is_due to TRUE if the caller should call _tarn_pool_look_after (), which does
 * the periodic work.  Call this outside read sections. */
TarnBlock *
_tarn_pool_take_from_arena_at_once (TarnPool *pool, gsize size, guint32 bin, gpointer handle,
                                    gboolean *is_due)
{
  TarnThread *thread = _tarn_current_thread;
  TarnCache *cache = _tarn_cache_of (thread, pool);
  guint visit = thread->visits + 1;
  TarnTaken taken;
  TarnBlock *block;
  TarnWanted wanted;

  taken.extent = NULL;
  if (!read_request (pool, cache, size, bin, handle, &wanted)
      || !_tarn_thread_begin_visit (thread, visit, &pool->door))
    return NULL;
  block = take (pool, cache, &wanted, _tarn_arena_take, &taken, is_due);
  _tarn_thread_end_visit (thread, visit);
  if (TARN_UNLIKELY (taken.extent != NULL))
    block = _tarn_pool_finish_part (pool, cache, &wanted, &taken);
  if (block != NULL)
    *is_due |= take_turn (pool, cache);
  return block;
}

/* Serves a traced request from its queue's arena (memory of the heap for this queue).  Takes the
 * locks of the pool and the heap instead of entering a read section. */
static TarnBlock *
take_with_locks (TarnPool *pool, TarnCache *cache, const TarnWanted *wanted, gboolean *is_due)
{
  TarnBlock *block = NULL;

  if (!pool->policy.has_addresses)
    return NULL;
  _tarn_mutex_lock (&pool->lock);
  if (!_tarn_door_is_closed (&pool->door))
    block = take (pool, cache, wanted, _tarn_arena_take_with_lock, NULL, is_due);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
  return block;
}

/* Serves a request from its queue's arena (memory of the heap for this queue) in read sections.  If
 * another thread has stopped read sections for a short time, waits until they are allowed, and
 * tries again.  But if the pool's table has no arenas of the queue, does not wait for the heap's
 * read sections, because no arena can serve the request. */
static TarnBlock *
take_in_visits (TarnPool *pool, TarnCache *cache, const TarnWanted *wanted, gboolean *is_due)
{
  TarnVisits visits = { .pool = pool };
  TarnTaken taken = { .extent = NULL };
  TarnBlock *block = NULL;
  gboolean is_shut = TRUE; /* TRUE at first, so that the loop runs at least one time */
  gboolean has_none;

  while (block == NULL && is_shut && _tarn_visits_begin (&visits))
    {
      block = take (pool, cache, wanted, _tarn_arena_take, &taken, is_due);
      has_none = block == NULL && cache->spare == NULL;
      is_shut = block == NULL && taken.extent == NULL
                && (has_none
                    || (_tarn_heap_refuses_visits (pool->heap)
                        && _tarn_pool_find_met (pool, wanted->handle) != NULL));
      _tarn_visits_end (&visits);
      if (TARN_UNLIKELY (has_none))
        _tarn_cache_change_spare (cache);
    }
  return taken.extent != NULL ? _tarn_pool_finish_part (pool, cache, wanted, &taken) : block;
}

/* Serves a request from its queue's arena (memory of the heap for this queue).  @is_followed is
 * TRUE if the request is traced.  Returns NULL if the caller has to take the pool's lock.  Sets
 * *is_due to TRUE if the caller should do the periodic work (_tarn_pool_look_after ()). */
TarnBlock *
_tarn_pool_take_from_arena (TarnPool *pool, gsize size, gpointer handle, gboolean is_followed,
                            gboolean *is_due)
{
  TarnCache *cache = _tarn_cache_of (_tarn_current_thread, pool);
  TarnWanted wanted;
  TarnBlock *block;

  if (!read_request (pool, cache, size, _tarn_pool_get_bin (pool, size), handle, &wanted))
    return NULL;
  block = is_followed ? take_with_locks (pool, cache, &wanted, is_due)
                      : take_in_visits (pool, cache, &wanted, is_due);
  if (block != NULL)
    *is_due |= take_turn (pool, cache);
  return block;
}

/* Functions that free blocks.  Unless a comment says otherwise, the calling thread is in a read
 * section, or holds the pool's lock. */

/* Counts the free of @block.  @goes is the block that returns to its arena because of this free:
 * @block itself, or a block that the thread's cache kept until now, or NULL if no block returns.
 * If @goes is not @block, puts @block into the cache (TarnCache.kept). */
static inline void
note_freed (TarnCache *cache, TarnBlock *block, const TarnBlock *goes)
{
  _tarn_cache_count_free (cache, block);
  cache->n_own_temporaries = block == cache->latest_own ? cache->n_own_temporaries + 1 : 0;
  if (goes == block)
    return;
  _tarn_block_set_state (block, TARN_BLOCK_HELD);
  __atomic_store_n (_tarn_cache_get_kept_place (cache, block->share), block, __ATOMIC_RELAXED);
}

/* Returns a block to its arena (the heap's memory for the block's queue).  The caller holds the
 * locks of the pool and the heap. */
static void
end_with_lock (TarnCache *cache, TarnBlock *block)
{
  TarnExtent *extent = block->extent;

  if (_tarn_records ())
    _tarn_record_numbers (TARN_TRACE_GONE, cache->pool->base.id, GPOINTER_TO_SIZE (block));
  _tarn_cache_end_block (cache, block);
  _tarn_arena_put_with_lock (extent);
  cache->pool->returning.n_to_arenas++;
}

/* Takes the blocks that belong to an arena (is_own) out of a chain, and returns them to the arena.
 * Returns the chain of the other blocks.  If the arena cannot take blocks now, returns the whole
 * chain.  All blocks of the chain are cached and have the same queue.  The caller holds the pool's
 * lock.  If @cache is not the calling thread's, the caller has also stopped the pool's read
 * sections. */
TarnBlock *
_tarn_cache_return_own (TarnCache *cache, TarnBlock *blocks)
{
  const TarnMetQueue *met = _tarn_pool_find_met (cache->pool, blocks->share);
  TarnBlock *others = NULL, *block;
  TarnBlock **end = &others;

  _tarn_assert_locked (&cache->pool->lock);
  if (!cache->pool->policy.has_addresses || met == NULL || !_tarn_arena_begin_put (&met->ref))
    /* The arena cannot take the blocks now.  If the heap's memory has no addresses, the arena can
     * never take blocks here: a thread must first ask upstream to release the object of each block,
     * and the thread must hold no lock meanwhile. */
    return blocks;
  while ((block = blocks) != NULL)
    {
      blocks = block->below;
      if (block->is_own)
        end_with_lock (cache, block);
      else
        {
          *end = block;
          end = &block->below;
        }
    }
  *end = NULL;
  _tarn_arena_end_put (&met->ref);
  _tarn_cache_give_spare (cache, TARN_MAX_SPARE);
  return others;
}

/* Returns the block that @cache keeps for the next request of a queue (TarnCache.kept), or NULL if
 * it keeps none.  The caller holds the pool's lock.  If @cache is not the calling thread's, the
 * caller has also stopped the pool's read sections. */
TarnBlock *
_tarn_cache_get_kept (const TarnCache *cache, gpointer handle)
{
  TarnBlock *block = *_tarn_cache_get_kept_place ((TarnCache *) cache, handle);

  return block != NULL && block->share == handle ? block : NULL;
}

/* Returns to its arena (the heap's memory for a queue) the block that @cache keeps for the next
 * request of this queue (TarnCache.kept).  If the arena cannot take the block, puts the block into
 * the pool's bin.  Does nothing if the cache keeps no block for the queue. */
void
_tarn_cache_return_kept (TarnCache *cache, gpointer handle)
{
  TarnBlock *block = _tarn_cache_get_kept (cache, handle);

  _tarn_assert_locked (&cache->pool->lock);
  if (block == NULL)
    return;
  __atomic_store_n (_tarn_cache_get_kept_place (cache, handle), NULL, __ATOMIC_RELAXED);
  block->below = NULL;
  if (_tarn_cache_return_own (cache, block) != NULL)
    _tarn_pool_put_batch (cache->pool, block, block, 1);
}

/* Returns to their arenas (the heap's memory for each queue) all blocks that @cache keeps for the
 * next requests of queues (TarnCache.kept).  If an arena cannot take its block, puts the block into
 * the pool's bin. */
void
_tarn_cache_return_all_kept (TarnCache *cache)
{
  for (guint i = 0; i < TARN_CACHE_KEPT; i++)
    if (cache->kept[i] != NULL)
      _tarn_cache_return_kept (cache, cache->kept[i]->share);
}

/* Returns @block to its arena (the heap's memory for the block's queue).  @met is an entry of the
 * table of arenas.  If it is the entry of another queue, looks up the entry of the queue of
 * @block.  Returns FALSE if the caller has to take the pool's lock. */
static inline gboolean
put (const TarnPool *pool, const TarnMetQueue *met, const TarnBlock *block)
{
  if (TARN_UNLIKELY (block->share != met->handle))
    met = _tarn_pool_find_met (pool, block->share);
  return met != NULL && _tarn_arena_put (&met->ref, block->extent);
}

/* Frees @block.  Usually returns @block to its arena (the heap's memory for the block's queue), and
 * sets *goes to @block.
 *
 * But if the thread allocates and frees a large block again and again, its cache may keep @block
 * for the next request.  Then the block that the cache kept until now returns to its arena, and
 * *goes is this block, or NULL if the cache kept none.
 *
 * Returns FALSE if the caller has to take the pool's lock.  The thread is in a read section. */
static inline gboolean
free_inside (const TarnPool *pool, TarnCache *cache, TarnBlock *block, TarnBlock **goes)
{
  const TarnMetQueue *met = _tarn_cache_find_met_for (pool, cache, block);
  gboolean is_back;

  *goes = met != NULL ? _tarn_cache_choose_to_go (cache, block) : NULL;
  is_back = met != NULL && (*goes == NULL || put (pool, met, *goes));
  if (TARN_UNLIKELY (!is_back && *goes != NULL && *goes != block))
    is_back = put (pool, met, *goes = block);
  if (TARN_UNLIKELY (!is_back))
    return FALSE;
  note_freed (cache, block, *goes);
  if (*goes != NULL)
    _tarn_cache_end_block (cache, *goes);
  return TRUE;
}

/* Frees @block in one read section: returns @block to its arena (the heap's memory for the block's
 * queue), or keeps it in the thread's cache (free_inside ()).  Returns FALSE if it has freed
 * nothing.  The caller then tries slower functions.  The caller must not be in a read section. */
gboolean
_tarn_pool_put_to_arena_at_once (TarnPool *pool, TarnCache *cache, TarnBlock *block)
{
  TarnThread *thread = _tarn_current_thread;
  guint visit = thread->visits + 1;
  TarnBlock *goes;
  gboolean is_back;

  if (!_tarn_thread_begin_visit (thread, visit, &pool->door))
    return FALSE;
  is_back = free_inside (pool, cache, block, &goes);
  _tarn_thread_end_visit (thread, visit);
  return is_back;
}

/* Frees a block whose free is traced.  Returns @block to its arena, or puts it into the thread's
 * cache (TarnCache.kept).  Holds the locks of the pool and the heap instead of entering a read
 * section.  Returns FALSE if it has freed nothing. */
static gboolean
put_with_locks (TarnPool *pool, TarnCache *cache, TarnBlock *block)
{
  const TarnMetQueue *met;
  gboolean is_back;
  TarnBlock *goes;

  if (!pool->policy.has_addresses)
    return FALSE;
  _tarn_mutex_lock (&pool->lock);
  met = _tarn_door_is_closed (&pool->door) ? NULL : _tarn_cache_find_met_for (pool, cache, block);
  goes = met != NULL ? _tarn_cache_choose_to_go (cache, block) : NULL;
  /* The cache may keep a block of another queue in the same element of TarnCache.kept.  Then the
   * other block stays there, and @block returns to its arena.  The reason: the code below prepares
   * only the arena of @block (_tarn_arena_begin_put ()). */
  if (goes != NULL && goes->share != block->share)
    goes = block;
  is_back = met != NULL && _tarn_arena_begin_put (&met->ref);
  if (is_back)
    {
      note_freed (cache, block, goes);
      if (goes != NULL)
        end_with_lock (cache, goes);
      _tarn_arena_end_put (&met->ref);
    }
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
  return is_back;
}

/* Frees a block in a read section: enters the read section, and calls @inside, which frees the
 * block.  If another thread has stopped read sections for a short time, waits until they are
 * allowed, and tries again.  Returns FALSE if the caller has to take the pool's lock. */
gboolean
_tarn_cache_free_in_visits (TarnCache *cache, TarnBlock *block, TarnFreeInside inside,
                            TarnBlock **goes)
{
  TarnPool *pool = cache->pool;
  TarnVisits visits = { .pool = pool };
  gboolean is_done = FALSE, is_shut = TRUE, has_many;

  while (!is_done && is_shut && _tarn_visits_begin (&visits))
    {
      is_done = inside (pool, cache, block, goes);
      has_many = !is_done && cache->n_spare >= TARN_MAX_SPARE;
      is_shut = !is_done && (has_many || _tarn_heap_refuses_visits (pool->heap));
      _tarn_visits_end (&visits);
      if (TARN_UNLIKELY (has_many))
        _tarn_cache_change_spare (cache);
    }
  return is_done;
}

/* Frees @block: returns it to its arena, or keeps it in the thread's cache (free_inside ()).
 * @is_followed is TRUE if the free is traced.  Returns FALSE if the caller has to take the pool's
 * lock.
 *
 * If @is_followed is FALSE, the heap's memory must have addresses (TarnPoolPolicy.has_addresses).
 * Other memory has an object that upstream must release.  A thread in a read section cannot call
 * upstream, so _tarn_pool_put_part () frees blocks with such memory. */
gboolean
_tarn_pool_put_to_arena (TarnPool *pool, TarnCache *cache, TarnBlock *block, gboolean is_followed)
{
  TarnBlock *goes;

  return is_followed ? put_with_locks (pool, cache, block)
                     : _tarn_cache_free_in_visits (cache, block, free_inside, &goes);
}
