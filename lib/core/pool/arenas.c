/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Blocks straight from a heap's arenas, and back.  A thread that has no block of the right size in
 * its cache takes memory from the arena of its queue, without the pool's lock or the heap's
 * (heap/arena-private.h); and what its cache has no room for goes back there.
 *
 * Such a block is an arena's own (TarnBlock.is_own).  It says which queue alone has used it by
 * TarnBlock.share, and has no uses; and the heap does not know it by its memory, as the block has
 * the extent.  Where the heap's memory is parts that upstream makes, one is made of the extent
 * between two visits, and released between two as well (order/arena.c): until then the block is
 * ending, and active for all counters.  When anything else is to become of it, it is settled: its
 * use is noted, and the heap remembers its memory.  From then on it is a block like any other of a
 * pool over a heap.
 *
 * Invariants, whenever the lock is held and the door is closed:
 *
 *     an own block is in use, or in a thread's cache or on its way between two; never in a bin of
 * the pool the queue of an own block is known, and the pool has met its arenas (arena-table.c),
 * unless the block is ending what a cache has in TarnCache.spare is vacant, or retired, and in no
 * list but that
 *
 * The structs that threads need for this stand in the pool's chunks, like all others; each thread
 * has some to spare. */

#include "pool/arenas-private.h"

#include "base/clock-private.h"

/* After so many blocks from arenas a thread looks at the clock.  If it did not look after the pool
 * and the heap for so many microseconds, it does, as those do who take their locks: what nobody has
 * used for long goes back. */
#define TAKEN_IN_TURN 256
#define LOOK_TIME G_TIME_SPAN_SECOND

/* After so many temporaries it looks whether others want memory of the queue. */
#define KEPT_IN_TURN 256

/* How often a thread that finds a door closed waits for it to open before it takes the locks. */
#define MAX_TRIES 16

/* Visits.  The thread is in none. */

/* Waits until the pool's door and the heap's are open, which others may have closed for a moment.
 * Returns FALSE if one stays closed. */
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

/* Begins the next visit.  Returns FALSE if the locks have to be taken. */
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

/* Requests.  The thread is inside, or has the lock. */

/* Reads a request.  Returns FALSE if it must not be served from an arena, as far as can be seen
 * from outside of a visit, because a block that was handed over could serve it as well. */
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

/* Takes what a thread keeps for its temporaries. */
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

/* Takes a block from the arenas of a queue, or what the thread keeps of it.  Returns NULL if there
 * is none; or a part is to be made of an extent, for it to be one. */
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
  if (TARN_UNLIKELY (!__atomic_load_n (&met->is_used, __ATOMIC_RELAXED)))
    __atomic_store_n (&met->is_used, TRUE, __ATOMIC_RELAXED);
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

/* Counts a block that the thread has taken.  Returns TRUE if it is to look after the pool. */
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

/* Serves a request from the arena of its queue in one visit.  Nearly all are served so.  Returns
 * NULL if this one is not, and the caller is to ask why. *is_due: the caller is to look after the
 * pool. */
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

/* Serves a request with the locks, because what is done is followed. */
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

/* Serves a request in visits, and waits for doors that others have closed for a moment. */
static TarnBlock *
take_in_visits (TarnPool *pool, TarnCache *cache, const TarnWanted *wanted, gboolean *is_due)
{
  TarnVisits visits = { .pool = pool };
  TarnTaken taken = { .extent = NULL };
  TarnBlock *block = NULL;
  gboolean is_shut = TRUE; /* as far as is known: other threads may have closed a door */
  gboolean has_none;

  while (block == NULL && is_shut && _tarn_visits_begin (&visits))
    {
      block = take (pool, cache, wanted, _tarn_arena_take, &taken, is_due);
      has_none = block == NULL && cache->spare == NULL;
      is_shut = block == NULL && taken.extent == NULL
                && (has_none || _tarn_heap_refuses_visits (pool->heap));
      _tarn_visits_end (&visits);
      if (TARN_UNLIKELY (has_none))
        _tarn_cache_change_spare (cache);
    }
  return taken.extent != NULL ? _tarn_pool_finish_part (pool, cache, wanted, &taken) : block;
}

/* Serves a request from the arena of its queue.  Returns NULL if the lock has to be taken. *is_due:
 * the caller is to look after the pool. */
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

/* Frees.  The thread is inside, or has the lock. */

/* Counts a block that is freed, and keeps it unless it goes back itself (@goes). */
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

/* Gives a block back to its arena, with the pool's lock and the heap's. */
static void
end_with_lock (TarnCache *cache, TarnBlock *block)
{
  TarnExtent *extent = block->extent;

  if (_tarn_records ())
    _tarn_record_numbers (TARN_TRACE_GONE, cache->pool->base.id, GPOINTER_TO_SIZE (block));
  _tarn_cache_end_block (cache, block);
  _tarn_arena_put_with_lock (extent);
}

/* Gives those of a chain of held blocks of one queue that are its arena's own back to it.  Gets the
 * others.  The lock is held, and the cache is this thread's, or the door is closed. */
TarnBlock *
_tarn_cache_return_own (TarnCache *cache, TarnBlock *blocks)
{
  const TarnMetQueue *met = _tarn_pool_find_met (cache->pool, blocks->share);
  TarnBlock *others = NULL, *block;
  TarnBlock **end = &others;

  _tarn_assert_locked (&cache->pool->lock);
  if (!cache->pool->policy.has_addresses || met == NULL || !_tarn_arena_begin_put (&met->ref))
    return blocks; /* parts are released without locks */
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

/* Gets what a thread keeps for temporaries of a queue.  Returns NULL if there is nothing.  The lock
 * is held, and the cache is this thread's, or the door is closed. */
TarnBlock *
_tarn_cache_get_kept (const TarnCache *cache, gpointer handle)
{
  TarnBlock *block = *_tarn_cache_get_kept_place ((TarnCache *) cache, handle);

  return block != NULL && block->share == handle ? block : NULL;
}

/* Gives that back. */
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

/* Gives back what a thread keeps for temporaries of all queues. */
void
_tarn_cache_return_all_kept (TarnCache *cache)
{
  for (guint i = 0; i < TARN_CACHE_KEPT; i++)
    if (cache->kept[i] != NULL)
      _tarn_cache_return_kept (cache, cache->kept[i]->share);
}

/* Gives a block back to its arena; @met is the queue of the block that is being freed, mostly the
 * same one.  Returns FALSE if the lock has to be taken. */
static inline gboolean
put (const TarnPool *pool, const TarnMetQueue *met, const TarnBlock *block)
{
  if (TARN_UNLIKELY (block->share != met->handle))
    met = _tarn_pool_find_met (pool, block->share);
  return met != NULL && _tarn_arena_put (&met->ref, block->extent);
}

/* Gives a block that is being freed back to its arena, or the one that the thread kept instead.
 * Returns FALSE if the lock has to be taken.  The thread is inside. */
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

/* Gives a block that is being freed back to its arena in one visit.  Returns FALSE if it could not
 * go, and the caller is to ask why. */
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

/* Gives it back with the locks, because what is done is followed. */
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
  if (goes != NULL && goes->share != block->share)
    goes = block; /* rather than a block of another queue */
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

/* Frees a block in visits, and waits for doors that others have closed for a moment. */
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

/* Gives a block that is being freed back to its arena, of a heap whose memory is an address where
 * that is not followed.  Returns FALSE if the lock has to be taken. */
gboolean
_tarn_pool_put_to_arena (TarnPool *pool, TarnCache *cache, TarnBlock *block, gboolean is_followed)
{
  TarnBlock *goes;

  return is_followed ? put_with_locks (pool, cache, block)
                     : _tarn_cache_free_in_visits (cache, block, free_inside, &goes);
}
