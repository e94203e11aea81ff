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
 *     an own block is in use, or in a thread's cache or on its way between two; never in a bin
 *     the queue of an own block is known, and the pool has met its arenas (arena-table.c), unless
 *     the block is ending
 *     what a cache has in TarnCache.spare is vacant, or retired, and in no list but that
 *
 * The structs that threads need for this stand in the pool's chunks, like all others; each thread
 * has some to spare. */

#include "pool/cache-private.h"

#include "base/clock-private.h"
#include "record/record-private.h"

/* After so many blocks from arenas a thread looks at the clock.  If it did not look after the pool
 * and the heap for so many microseconds, it does, as those do who take their locks: what nobody has
 * used for long goes back. */
#define TAKEN_IN_TURN 256
#define LOOK_TIME G_TIME_SPAN_SECOND

/* After so many temporaries it looks whether others want memory of the queue. */
#define KEPT_IN_TURN 256

/* How often a thread that finds a door closed waits for it to open before it takes the locks. */
#define MAX_TRIES 16

/* How many large blocks a thread frees, each before it takes the next, before it keeps one, and the
 * most bytes of that. */
#define FEW_TEMPORARIES 16
#define MAX_KEPT ((gsize) 4 << 20)

/* In a pool with a limit a thread may take this share of the limit, and at most so many bytes,
 * before it asks again. */
#define GRANT_SHARE 64
#define MAX_GRANT ((gsize) 64 << 20)

/* How many structs a thread gets at a time, and the most that it keeps. */
#define N_SPARE 32
#define MAX_SPARE 128

/* Structs.  The lock is held, and the cache is this thread's, or the door is closed. */

/* Gives structs back until a cache has so many. */
void
_tarn_cache_give_spare (TarnCache *cache, guint n_kept)
{
  while (cache->n_spare > n_kept)
    {
      TarnBlock *block = cache->spare;

      cache->spare = block->below;
      cache->n_spare--;
      block->uses = NULL;
      block->state = TARN_BLOCK_RETIRED;
      _tarn_block_chunks_put (&cache->pool->chunks, block);
    }
}

/* Sees to it that a thread has structs to spare, and not too many. */
void
_tarn_cache_refill_spare (TarnCache *cache)
{
  _tarn_assert_locked (&cache->pool->lock);
  _tarn_cache_give_spare (cache, MAX_SPARE / 2);
  while (cache->n_spare < N_SPARE)
    {
      TarnBlock *block = _tarn_block_chunks_take (&cache->pool->chunks, &cache->chunk);

      block->below = cache->spare;
      cache->spare = block;
      cache->n_spare++;
    }
}

/* Sizes.  The lock is held. */

/* Has each size have blocks of its own from now on, because memory is short; or small ones share
 * some. */
void
_tarn_pool_set_exact (TarnPool *pool, gboolean is_exact)
{
  guint bits = is_exact ? TARN_HEAP_EXACT_BINS : TARN_HEAP_BINS;

  _tarn_assert_locked (&pool->lock);
  if (pool->has_arenas)
    __atomic_store_n (&pool->leading_bits, bits, __ATOMIC_RELAXED);
}

/* Bytes of a pool with a limit, of which a thread may take some before it takes the lock again. The
 * lock is held. */

/* Ends all grants, so that threads come for others. */
void
_tarn_pool_end_grants (TarnPool *pool)
{
  gboolean was_open;

  if (!pool->has_arenas)
    return;
  was_open = _tarn_pool_close (pool);
  for (TarnCache *cache = pool->caches; cache != NULL; cache = cache->next)
    cache->granted_bytes = (gssize) cache->managed_bytes;
  _tarn_pool_open (pool, was_open);
}

/* Grants this thread some of what is left below the limit. */
void
_tarn_cache_grant (TarnCache *cache)
{
  const TarnPool *pool = cache->pool;
  gssize managed = (gssize) cache->managed_bytes;
  gsize most = MIN (pool->limit_bytes / GRANT_SHARE, MAX_GRANT), committed, left;

  if (!pool->has_arenas || pool->limit_bytes == 0
      || cache->granted_bytes - managed >= (gssize) most)
    return;
  cache->granted_bytes = managed;
  committed = _tarn_pool_get_committed (pool) + pool->reserved_bytes + pool->returning_bytes;
  left = pool->limit_bytes - MIN (committed, pool->limit_bytes);
  cache->granted_bytes += (gssize) MIN (most, left / 2);
}

/* Tells whether a thread may take so many bytes without the lock. */
static inline gboolean
is_granted (const TarnPool *pool, const TarnCache *cache, gsize bytes)
{
  return TARN_LIKELY (pool->limit_bytes == 0)
         || (gssize) (cache->managed_bytes + bytes) <= cache->granted_bytes;
}

/* Threads, inside a visit */

/* Counts bytes that come to the pool or, modulo 2^64, leave it. */
static inline void
count (TarnCache *cache, gsize bytes, gsize n_blocks)
{
  gsize managed = cache->managed_bytes + bytes;

  __atomic_store_n (&cache->managed_bytes, managed, __ATOMIC_RELAXED);
  if ((gssize) managed > cache->managed_peak)
    cache->managed_peak = (gssize) managed;
  cache->n_blocks += n_blocks;
}

/* A request. */
typedef struct
{
  gsize size;
  gsize alloc_size; /* of its bin */
  guint32 bin;
  gpointer handle; /* of the queue; NULL: nobody */
} Wanted;

/* Makes a block of an extent. */
static TarnBlock *
make_block (TarnPool *pool, TarnCache *cache, const Wanted *wanted, TarnExtent *extent,
            TarnMemory memory)
{
  TarnBlock *block = cache->spare;
  guint16 number = block->number;

  cache->spare = block->below;
  cache->n_spare--;
  *block = (TarnBlock){ .memory = memory,
                        .alloc_size = wanted->alloc_size,
                        .source = &pool->base,
                        .bin = wanted->bin,
                        .number = number,
                        .share = wanted->handle,
                        .is_own = TRUE };
  block->extent = extent;
  _tarn_cache_activate (cache, block, wanted->size);
  __atomic_store_n (&cache->misses, cache->misses + 1, __ATOMIC_RELAXED);
  count (cache, wanted->alloc_size, 1);
  return block;
}

/* Reads a request.  FALSE: it must not be served from an arena, as far as can be seen from outside
 * of a visit, because a block that was handed on could serve it as well. */
static inline __attribute__ ((always_inline)) gboolean
read_request (const TarnPool *pool, const TarnCache *cache, gsize size, guint32 bin,
              gpointer handle, Wanted *wanted)
{
  if (cache == NULL || size > G_MAXSSIZE / 2
      || !__atomic_load_n (&pool->has_arenas, __ATOMIC_RELAXED))
    return FALSE;
  wanted->size = size;
  wanted->handle = handle;
  wanted->bin = bin;
  wanted->alloc_size = _tarn_heap_alloc_size (size, bin);
  return __atomic_load_n (&pool->n_recorded[bin % TARN_RECORDED_COUNTS], __ATOMIC_RELAXED) == 0;
}

/* An extent that a request has, of which a part is yet to be made; NULL: none. */
typedef struct
{
  TarnExtent *extent;
  TarnArenaRef ref;
} Taken;

typedef TarnExtent *(*TakeExtent) (const TarnArenaRef *ref, gsize size, TarnMemory *memory,
                                   gboolean *is_due);

/* Gets the place of a queue in TarnCache.kept. */
static inline TarnBlock **
get_kept_place (TarnCache *cache, gpointer handle)
{
  return &cache->kept[_tarn_spread (0, handle) % TARN_CACHE_KEPT];
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

/* Takes a block from the arenas of a queue, or what the thread keeps of it.  NULL: there is none;
 * or a part is to be made of an extent, for it to be one. */
static inline __attribute__ ((always_inline)) TarnBlock *
take (TarnPool *pool, TarnCache *cache, const Wanted *wanted, TakeExtent take_extent, Taken *taken,
      gboolean *is_due)
{
  TarnMetQueue *met = _tarn_pool_find_met (pool, wanted->handle);
  TarnBlock **kept = get_kept_place (cache, wanted->handle);
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
  else if (is_granted (pool, cache, wanted->alloc_size)
           && (extent = take_extent (&met->ref, wanted->alloc_size, &memory, is_due)) != NULL)
    {
      if (TARN_LIKELY (pool->has_addresses))
        block = make_block (pool, cache, wanted, extent, memory);
      else
        *taken = (Taken){ extent, met->ref };
    }
  cache->latest_own = block;
  return block;
}

/* Tells whether the thread is to look after the pool, since it has taken a block. */
static inline gboolean
is_its_turn (TarnPool *pool, TarnCache *cache)
{
  gint64 now;

  if (TARN_UNLIKELY (__atomic_load_n (&pool->has_late, __ATOMIC_RELAXED)))
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

/* Gets structs for a thread that has none left, or gives some back where it has too many.  Threads
 * whose blocks others free need that again and again.  The thread is in no visit. */
static void
change_spare (TarnCache *cache)
{
  _tarn_mutex_lock (&cache->pool->lock);
  _tarn_cache_refill_spare (cache);
  _tarn_mutex_unlock (&cache->pool->lock);
}

/* Waits until the pool's door and the heap's are open, which others may have closed for a moment.
 * FALSE: one stays closed. */
static gboolean
await_doors (TarnPool *pool)
{
  if (_tarn_door_is_unusual (&pool->door))
    {
      _tarn_mutex_lock_adaptively (&pool->lock);
      _tarn_mutex_unlock (&pool->lock);
      if (_tarn_door_is_unusual (&pool->door))
        return FALSE;
    }
  return _tarn_heap_await_door (pool->upstream);
}

/* Makes a block of an extent of which a part was made.  NULL: the queue is not what it was.  The
 * thread is inside. */
static TarnBlock *
make_block_of_part (TarnPool *pool, TarnCache *cache, const Wanted *wanted, const Taken *taken,
                    TarnMemory memory)
{
  const TarnMetQueue *met = _tarn_pool_find_met (pool, wanted->handle);
  TarnBlock *block;

  if (met == NULL || met->ref.number != taken->ref.number || cache->spare == NULL
      || !is_granted (pool, cache, wanted->alloc_size)
      || !_tarn_arena_begin_part (&taken->ref, taken->extent, memory))
    return NULL;
  block = make_block (pool, cache, wanted, taken->extent, memory);
  cache->latest_own = block;
  return block;
}

/* Has a part made of an extent that a request has, and makes a block of it.  NULL: the lock has to
 * be taken, and the extent was put back.  The thread is in no visit. */
static __attribute__ ((noinline)) TarnBlock *
finish (TarnPool *pool, TarnCache *cache, const Wanted *wanted, const Taken *taken)
{
  TarnThread *thread = _tarn_current_thread;
  TarnBlock *block = NULL;
  TarnMemory memory;
  guint visit;

  if (!_tarn_arena_make_part (pool->upstream, taken->extent, &memory))
    {
      _tarn_arena_return (pool->upstream, taken->extent);
      return NULL;
    }
  for (guint n = 0; block == NULL && n < MAX_TRIES && (n == 0 || await_doors (pool)); n++)
    {
      visit = thread->visits + 1;
      if (!_tarn_thread_begin_visit (thread, visit, &pool->door))
        continue;
      block = make_block_of_part (pool, cache, wanted, taken, memory);
      _tarn_thread_end_visit (thread, visit);
    }
  if (block != NULL)
    return block;
  _tarn_arena_release_part (pool->upstream, taken->extent, memory);
  _tarn_arena_return (pool->upstream, taken->extent);
  return NULL;
}

/* Serves a request from the arena of its queue in one visit.  Nearly all are served so.  NULL: this
 * one is not, and the caller is to ask why.  *is_due: the caller is to look after the pool. */
TarnBlock *
_tarn_pool_take_from_arena_at_once (TarnPool *pool, gsize size, guint32 bin, gpointer handle,
                                    gboolean *is_due)
{
  TarnThread *thread = _tarn_current_thread;
  TarnCache *cache = _tarn_cache_of (thread, pool);
  guint visit = thread->visits + 1;
  Taken taken;
  TarnBlock *block;
  Wanted wanted;

  taken.extent = NULL;
  if (!read_request (pool, cache, size, bin, handle, &wanted)
      || !_tarn_thread_begin_visit (thread, visit, &pool->door))
    return NULL;
  block = take (pool, cache, &wanted, _tarn_arena_take, &taken, is_due);
  _tarn_thread_end_visit (thread, visit);
  if (TARN_UNLIKELY (taken.extent != NULL))
    block = finish (pool, cache, &wanted, &taken);
  if (block != NULL)
    *is_due |= is_its_turn (pool, cache);
  return block;
}

/* Serves a request from the arena of its queue, and waits for doors that others have closed for a
 * moment.  NULL: the lock has to be taken.  *is_due: the caller is to look after the pool. */
TarnBlock *
_tarn_pool_take_from_arena (TarnPool *pool, gsize size, gpointer handle, gboolean *is_due)
{
  TarnThread *thread = _tarn_current_thread;
  TarnCache *cache = _tarn_cache_of (thread, pool);
  TarnBlock *block = NULL;
  gboolean is_shut = TRUE; /* as far as is known: other threads may have closed a door */
  gboolean has_none;
  Taken taken;
  Wanted wanted;
  guint visit;

  taken.extent = NULL;
  if (!read_request (pool, cache, size, _tarn_pool_get_bin (pool, size), handle, &wanted))
    return NULL;
  for (guint n = 0; block == NULL && is_shut && n < MAX_TRIES && (n == 0 || await_doors (pool));
       n++)
    {
      visit = thread->visits + 1;
      if (!_tarn_thread_begin_visit (thread, visit, &pool->door))
        continue;
      block = take (pool, cache, &wanted, _tarn_arena_take, &taken, is_due);
      has_none = block == NULL && cache->spare == NULL;
      is_shut = block == NULL && taken.extent == NULL
                && (has_none || _tarn_heap_is_closed (pool->upstream));
      _tarn_thread_end_visit (thread, visit);
      if (TARN_UNLIKELY (has_none))
        change_spare (cache);
    }
  if (taken.extent != NULL)
    block = finish (pool, cache, &wanted, &taken);
  if (block != NULL)
    *is_due |= is_its_turn (pool, cache);
  return block;
}

/* Does so where what is done is followed: with the locks. */
TarnBlock *
_tarn_pool_take_from_arena_followed (TarnPool *pool, gsize size, gpointer handle, gboolean *is_due)
{
  TarnCache *cache = _tarn_cache_of (_tarn_current_thread, pool);
  TarnBlock *block = NULL;
  Wanted wanted;

  if (!pool->has_addresses
      || !read_request (pool, cache, size, _tarn_pool_get_bin (pool, size), handle, &wanted))
    return NULL;
  _tarn_mutex_lock (&pool->lock);
  if (!_tarn_door_is_closed (&pool->door))
    block = take (pool, cache, &wanted, _tarn_arena_take_followed, NULL, is_due);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
  if (block != NULL)
    *is_due |= is_its_turn (pool, cache);
  return block;
}

/* Finds the queue to whose arenas a block that is being freed can go back; NULL: none. */
static inline TarnMetQueue *
find_met_for (const TarnPool *pool, const TarnCache *cache, const TarnBlock *block)
{
  return block->is_own && block->state == TARN_BLOCK_ACTIVE && cache->n_spare < MAX_SPARE
             ? _tarn_pool_find_met (pool, block->share)
             : NULL;
}

/* Has a block be none any more, whose memory has gone back. */
static inline void
end_block (TarnCache *cache, TarnBlock *block)
{
  TARN_PROBE (gone, cache->pool->base.id, block, block->alloc_size);
  count (cache, -block->alloc_size, (gsize) -1);
  _tarn_block_set_state (block, TARN_BLOCK_RETIRED);
  block->below = cache->spare;
  cache->spare = block;
  cache->n_spare++;
}

/* Chooses the block that goes back to its arena when @block is freed: @block itself, or the one
 * that the thread kept until now (NULL: none) if it keeps @block instead.  A thread keeps the
 * largest of a queue's temporaries.  These are large blocks, each of which it frees before it takes
 * the next. */
static inline TarnBlock *
choose_to_go (TarnCache *cache, TarnBlock *block)
{
  TarnBlock *kept;

  if (block != cache->latest_own || cache->n_own_temporaries < FEW_TEMPORARIES
      || block->alloc_size <= TARN_HEAP_MAX_ROUNDED
      || block->alloc_size > MIN (MAX_KEPT, cache->pool->asked_cache_bytes))
    return block;
  kept = *get_kept_place (cache, block->share);
  return kept != NULL && kept->share == block->share && kept->alloc_size >= block->alloc_size
             ? block
             : kept;
}

/* Counts a block that is freed, and keeps it unless it goes back itself (@goes). */
static inline void
note_freed (TarnCache *cache, TarnBlock *block, const TarnBlock *goes)
{
  _tarn_cache_count_free (cache, block);
  cache->n_own_temporaries = block == cache->latest_own ? cache->n_own_temporaries + 1 : 0;
  if (goes == block)
    return;
  _tarn_block_set_state (block, TARN_BLOCK_HELD);
  __atomic_store_n (get_kept_place (cache, block->share), block, __ATOMIC_RELAXED);
}

/* Gives a block back to its arena, with the pool's lock and the heap's. */
static void
end_with_lock (TarnCache *cache, TarnBlock *block)
{
  TarnExtent *extent = block->extent;

  if (_tarn_records ())
    _tarn_record_numbers (TARN_TRACE_GONE, cache->pool->base.id, GPOINTER_TO_SIZE (block));
  end_block (cache, block);
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
  if (!cache->pool->has_addresses || met == NULL || !_tarn_arena_begin_put (&met->ref))
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
  _tarn_cache_give_spare (cache, MAX_SPARE);
  return others;
}

/* Gets what a thread keeps for temporaries of a queue; NULL: nothing.  The lock is held, and the
 * cache is this thread's, or the door is closed. */
TarnBlock *
_tarn_cache_get_kept (const TarnCache *cache, gpointer handle)
{
  TarnBlock *block = *get_kept_place ((TarnCache *) cache, handle);

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
  __atomic_store_n (get_kept_place (cache, handle), NULL, __ATOMIC_RELAXED);
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

/* Chooses the block to return to its arena, and marks it as ending.  Counters have it as active
 * until it is back.  FALSE: the caller has to take the lock.  The thread is inside. */
static gboolean
begin_to_go (const TarnPool *pool, TarnCache *cache, TarnBlock *block, TarnBlock **goes)
{
  const TarnMetQueue *met = find_met_for (pool, cache, block);

  *goes = met != NULL ? choose_to_go (cache, block) : NULL;
  if (*goes != NULL && (*goes)->share != block->share)
    *goes = block;
  if (met == NULL || (*goes != NULL && !_tarn_arena_end_part (&met->ref, (*goes)->extent)))
    return FALSE;
  cache->n_own_temporaries = block == cache->latest_own ? cache->n_own_temporaries + 1 : 0;
  if (*goes != block)
    {
      _tarn_block_set_state (block, TARN_BLOCK_HELD);
      __atomic_store_n (get_kept_place (cache, block->share), block, __ATOMIC_RELAXED);
      _tarn_cache_count_free (cache, block);
    }
  if (*goes != NULL && *goes != block)
    {
      _tarn_block_set_state (*goes, TARN_BLOCK_ACTIVE);
      __atomic_store_n (&cache->active_bytes, cache->active_bytes + (*goes)->size,
                        __ATOMIC_RELAXED);
    }
  if (*goes != NULL)
    _tarn_block_set_state (*goes, TARN_BLOCK_ENDING);
  return TRUE;
}

/* Takes a block that is being freed out of sight, whose memory is a part that upstream made; or
 * else the one that the thread kept instead: *goes, of which the part is to be released next; NULL:
 * none. FALSE: the lock has to be taken, and nothing was done. */
gboolean
_tarn_pool_begin_to_go (TarnPool *pool, TarnCache *cache, TarnBlock *block, TarnBlock **goes)
{
  TarnThread *thread = _tarn_current_thread;
  gboolean has_begun = FALSE, is_shut = TRUE, has_many;
  guint visit;

  for (guint n = 0; !has_begun && is_shut && n < MAX_TRIES && (n == 0 || await_doors (pool)); n++)
    {
      visit = thread->visits + 1;
      if (!_tarn_thread_begin_visit (thread, visit, &pool->door))
        continue;
      has_begun = begin_to_go (pool, cache, block, goes);
      has_many = !has_begun && cache->n_spare >= MAX_SPARE;
      is_shut = !has_begun && (has_many || _tarn_heap_is_closed (pool->upstream));
      _tarn_thread_end_visit (thread, visit);
      if (TARN_UNLIKELY (has_many))
        change_spare (cache);
    }
  return has_begun;
}

/* Gives a block whose part was released back to its arena.  FALSE: a door stays closed. */
gboolean
_tarn_pool_go_without_part (TarnPool *pool, TarnCache *cache, TarnBlock *block)
{
  TarnThread *thread = _tarn_current_thread;
  gboolean is_back = FALSE;
  guint visit;

  for (guint n = 0; !is_back && n < MAX_TRIES && (n == 0 || await_doors (pool)); n++)
    {
      visit = thread->visits + 1;
      if (!_tarn_thread_begin_visit (thread, visit, &pool->door))
        continue;
      is_back = _tarn_arena_put_without_part (pool->upstream, block->extent);
      if (is_back)
        {
          _tarn_cache_count_free (cache, block);
          end_block (cache, block);
        }
      _tarn_thread_end_visit (thread, visit);
    }
  return is_back;
}

/* Gives a block back to its arena; @met is the queue of the block that is being freed, mostly the
 * same one.  FALSE: the lock has to be taken. */
static inline gboolean
put (const TarnPool *pool, const TarnMetQueue *met, const TarnBlock *block)
{
  if (TARN_UNLIKELY (block->share != met->handle))
    met = _tarn_pool_find_met (pool, block->share);
  return met != NULL && _tarn_arena_put (&met->ref, block->extent);
}

/* Gives a block that is being freed back to its arena, or the one that the thread kept instead.
 * FALSE: the lock has to be taken.  The thread is inside. */
static inline __attribute__ ((always_inline)) gboolean
free_inside (const TarnPool *pool, TarnCache *cache, TarnBlock *block)
{
  const TarnMetQueue *met = find_met_for (pool, cache, block);
  TarnBlock *goes = met != NULL ? choose_to_go (cache, block) : NULL;
  gboolean is_back = met != NULL && (goes == NULL || put (pool, met, goes));

  if (TARN_UNLIKELY (!is_back && goes != NULL && goes != block))
    is_back = put (pool, met, goes = block);
  if (TARN_UNLIKELY (!is_back))
    return FALSE;
  note_freed (cache, block, goes);
  if (goes != NULL)
    end_block (cache, goes);
  return TRUE;
}

/* Gives a block that is being freed back to its arena in one visit.  FALSE: it could not go, and
 * the caller is to ask why. */
gboolean
_tarn_pool_put_to_arena_at_once (TarnPool *pool, TarnCache *cache, TarnBlock *block)
{
  TarnThread *thread = _tarn_current_thread;
  guint visit = thread->visits + 1;
  gboolean is_back;

  if (!_tarn_thread_begin_visit (thread, visit, &pool->door))
    return FALSE;
  is_back = free_inside (pool, cache, block);
  _tarn_thread_end_visit (thread, visit);
  return is_back;
}

/* Gives it back, and waits for doors that others have closed for a moment.  FALSE: the lock has to
 * be taken. */
gboolean
_tarn_pool_put_to_arena (TarnPool *pool, TarnBlock *block)
{
  TarnThread *thread = _tarn_current_thread;
  TarnCache *cache = _tarn_cache_of (thread, pool);
  gboolean is_back = FALSE, is_shut = TRUE, has_many;
  guint visit;

  if (cache == NULL)
    return FALSE;
  for (guint n = 0; !is_back && is_shut && n < MAX_TRIES && (n == 0 || await_doors (pool)); n++)
    {
      visit = thread->visits + 1;
      if (!_tarn_thread_begin_visit (thread, visit, &pool->door))
        continue;
      is_back = free_inside (pool, cache, block);
      has_many = !is_back && cache->n_spare >= MAX_SPARE;
      is_shut = !is_back && (has_many || _tarn_heap_is_closed (pool->upstream));
      _tarn_thread_end_visit (thread, visit);
      if (TARN_UNLIKELY (has_many))
        change_spare (cache);
    }
  return is_back;
}

/* Does so where what is done is followed: with the locks. */
gboolean
_tarn_pool_put_to_arena_followed (TarnPool *pool, TarnBlock *block)
{
  TarnCache *cache = _tarn_cache_of (_tarn_current_thread, pool);
  const TarnMetQueue *met;
  gboolean is_back;
  TarnBlock *goes;

  if (cache == NULL || !pool->has_addresses)
    return FALSE;
  _tarn_mutex_lock (&pool->lock);
  met = _tarn_door_is_closed (&pool->door) ? NULL : find_met_for (pool, cache, block);
  goes = met != NULL ? choose_to_go (cache, block) : NULL;
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
