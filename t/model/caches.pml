/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Threads' caches of a pool, and how blocks and whole caches go from one to another
 * (pool/cache-private.h): hits, misses, frees, threads that end, caches that are taken over, and
 * others that are emptied, because their threads have ended, are idle, or all are flushed.
 *
 *     - A block is in one place: the pool's bin, one cache, or with one thread.  Whoever takes it
 *       finds it where he looked, and nobody else has it.
 *     - None is lost: with the door closed all are found, by the lists as they are in memory.
 *     - Once the door is closed for good, caches are empty.
 *     - There are never more caches than there were threads at a time.
 *     - Nobody waits for ever: as in door.pml.
 *
 * Blocks are all of one size and one queue.  Not modelled: counters and capacity, and so neither how
 * many blocks are moved at a time nor who counts as idle (here: anybody, at any time); upstream (a
 * request that finds nothing fails); queues, events and the pool's end. */

#ifndef THREADS
#define THREADS 2
#endif
#ifndef BLOCKS
#define BLOCKS 2
#endif
#define CACHES THREADS
#define WORDS (CACHES + BLOCKS)
#define TOP(c) WORD (c)                  /* of struct _TarnCacheBin: a block's number; 0: none */
#define BELOW(b) WORD (CACHES + (b) - 1) /* of struct _TarnBlock */
#define NONE CACHES                      /* no cache */

#include "tso.pml"

/* Behind the lock, and so never in a buffer when somebody else looks */
bool is_listed[CACHES];    /* in pool->caches */
bool is_abandoned[CACHES]; /* of struct _TarnCache */
bool in_bin[BLOCKS + 1];   /* of the pool */
bool stop_holding;

byte threads_lock; /* "lock" of thread.c, which comes before those of pools */

/* What nobody in C knows: where each block is. */
#define IN_BIN 0
#define IN_CACHE(c) (1 + (c))
#define WITH(t) (1 + CACHES + (t))

byte place[BLOCKS + 1];
hidden byte n_found, n_kept, at; /* inside of one step */

/* Blocks: lib/core/pool/cache-private.h */

inline pop (c) /* _tarn_cache_pop (), where there is one */
{
  d_step
  {
    b = seen (me, TOP (c)); /* block = bin->top */
    assert (b != 0)
  }
  d_step { n = seen (me, BELOW (b)) } /* block->below */
  d_step
  {
    has_place (me) -> assert (place[b] == IN_CACHE (c));
    place[b] = WITH (me); /* _tarn_block_set_state (block, TARN_BLOCK_ACTIVE) */
    put (TOP (c), n);     /* _tarn_cache_bin_set () */
    b = 0;
    n = 0
  }
}

inline push (c) /* _tarn_cache_push () of b */
{
  d_step { n = seen (me, TOP (c)) } /* block->below = bin->top */
  store (BELOW (b), n);
  d_step
  {
    has_place (me) -> assert (place[b] == WITH (me));
    place[b] = IN_CACHE (c); /* _tarn_block_set_state (block, TARN_BLOCK_HELD) */
    put (TOP (c), b);        /* _tarn_cache_bin_set () */
    b = 0;
    n = 0
  }
}

/* Chooses a block that the thread has; 0: none. */
inline choose_own_block ()
{
  if
  :: place[1] == WITH (me) -> b = 1
  :: place[BLOCKS] == WITH (me) -> b = BLOCKS
  :: place[1] != WITH (me) && place[BLOCKS] != WITH (me)
  fi
}

/* Caches: lib/core/pool/cache.c and caches.c */

inline empty_cache (c) /* _tarn_cache_empty_bin (), move_rest () */
{
  d_step { b = seen (me, TOP (c)) } /* top = bin->top */
  if
  :: b != 0 ->
     do
     :: b != 0 ->
        d_step { n = seen (me, BELOW (b)) } /* last->below */
        d_step
        {
          assert (place[b] == IN_CACHE (c));
          place[b] = IN_BIN; /* _tarn_pool_put_batch () */
          in_bin[b] = true;
          b = n;
          n = 0
        }
     :: else -> break
     od;
     store (TOP (c), 0) /* _tarn_cache_bin_set () */
  :: else
  fi
}

/* Finds a cache for a thread that has none: it is the thread's from then on, but for being noted. */
inline take_over () /* take_over (), or else cache_new () */
{
#ifndef SEARCH_UNLOCKED
  find_abandoned ();
#endif
  if
  :: c < CACHES -> /* there is an abandoned one */
#ifdef TAKEN_OVER_EMPTY /* the cache is made anew: what was in it is lost */
     store (TOP (c), 0);
#endif
#ifndef STILL_ABANDONED /* the cache is not marked as in use again */
     is_abandoned[c] = false
#endif
     skip
  :: else ->
     d_step
     {
       c = 0;
       do
       :: c < CACHES && is_listed[c] -> c++
       :: else -> break
       od;
       assert (c < CACHES);
       is_listed[c] = true /* pool->caches = cache */
     }
  fi
}

inline find_abandoned () /* the loop of take_over () */
{
  d_step
  {
    c = 0;
    do
    :: c < CACHES && !(is_listed[c] && is_abandoned[c]) -> c++
    :: else -> break
    od
  }
}

/* Takes the lock.  A thread without a cache gets one, unless it has ended, and unless the door is
 * closed for good. */
inline lock_pool () /* _tarn_pool_lock () */
{
#ifdef SEARCH_UNLOCKED /* for an abandoned cache: two may find the same */
  find_abandoned ();
#endif
  take (lock);
#ifdef NO_RECHECK
  was_closed = seen (me, DOOR) == CLOSED;
#endif
  if
  :: cache == NONE && !is_ended && seen (me, DOOR) != CLOSED ->
     take_over ();
#ifndef ITEM_SET_LOCKED /* the lock is kept while the one that comes before it is taken */
     give (lock);
#endif
     take (threads_lock); /* _tarn_thread_self (), _tarn_thread_set_item () */
     if
     :: !is_live[me] -> register_thread ()
     :: else
     fi;
     cache = c;
     c = 0;
     give (threads_lock);
#ifndef ITEM_SET_LOCKED
     take (lock)
#endif
     skip
  :: else -> c = 0
  fi
}

inline take_from_abandoned () /* _tarn_pool_take_from_abandoned () */
{
  do
  :: c < CACHES ->
     if
     :: is_listed[c] && is_abandoned[c] -> empty_cache (c)
     :: else
     fi;
     c++
  :: else -> break
  od;
  c = 0
}

inline take_from_idle () /* _tarn_pool_take_from_idle_threads () */
{
  do
  :: c < CACHES ->
     if
     :: is_listed[c] && !is_abandoned[c] && c != cache ->
#ifndef IDLE_UNCLOSED /* the lock is all that is taken */
        if
        :: seen (me, DOOR) != CLOSED -> close ()
        :: else
        fi;
#endif
        empty_cache (c)
     :: true
     fi;
     c++
  :: else -> break
  od;
  c = 0;
  if
  :: seen (me, DOOR) == CLOSED -> open ()
  :: else
  fi
}

/* Whoever gave up the lock meanwhile looks again. */
#ifdef NO_RECHECK /* he goes by what he saw before */
#define door_is_closed was_closed
#else
#define door_is_closed (seen (me, DOOR) == CLOSED)
#endif

#define bin_is_empty (!in_bin[1] && (BLOCKS == 1 || !in_bin[BLOCKS]))

/* Takes a block from the pool's bin: it is with this thread, but for being noted there. */
inline take_held () /* _tarn_pool_take_held (), _tarn_pool_take_for_cache () */
{
  atomic
  {
    if
    :: in_bin[1] -> b = 1
    :: BLOCKS > 1 && in_bin[BLOCKS] -> b = BLOCKS
    :: bin_is_empty
    fi;
    if
    :: b != 0 ->
       assert (place[b] == IN_BIN);
       in_bin[b] = false;
       place[b] = WITH (me)
    :: else
    fi
  }
}

/* Every block that is in a cache is in the list of that cache, and once.  The door is closed. */
inline check () /* _tarn_pool_check () */
{
  d_step
  {
    n_found = 0;
    c = 0;
    do
    :: c < CACHES ->
       at = (is_listed[c] -> seen (me, TOP (c)) : 0);
       do
       :: at != 0 ->
          assert (place[at] == IN_CACHE (c));
          n_found++;
          assert (n_found <= BLOCKS);
          at = seen (me, BELOW (at))
       :: else -> break
       od;
       c++
    :: else -> break
    od;
    n_kept = 0;
    b = 1;
    do
    :: b <= BLOCKS ->
       n_kept = n_kept + (place[b] != IN_BIN && place[b] < WITH (0) -> 1 : 0);
       assert (in_bin[b] == (place[b] == IN_BIN));
       b++
    :: else -> break
    od;
    assert (n_found == n_kept);
    n_found = 0;
    n_kept = 0;
    b = 0;
    c = 0
  }
}

/* Once the door is closed for good, caches are empty.  The lock is held. */
inline check_stopped ()
{
  d_step
  {
    at = 1;
    do
    :: at <= BLOCKS ->
       assert (!stop_holding || place[at] == IN_BIN || place[at] >= WITH (0));
       at++
    :: else -> break
    od;
    at = 0
  }
}

/* What threads do */

/* The second, once the first was in vain: _tarn_pool_take_fast (), _tarn_pool_take_fenced () */
inline enter_fast ()
{
#ifdef FENCED_DOOR
  begin_fenced_visit ()
#else
  begin_visit ()
#endif
}

inline request_fast () /* _tarn_pool_take () */
{
  enter_fast ();
  if
  :: inside[me] ->
     if
     :: seen (me, TOP (cache)) != 0 -> pop (cache)
     :: else
     fi;
     leave ()
  :: else
  fi
}

inline free_fast () /* _tarn_pool_put () */
{
  enter_fast ();
  if
  :: inside[me] ->
     push (cache);
     leave ()
  :: else -> b = 0
  fi
}

inline request_locked () /* _tarn_pool_take_shared () */
{
#ifdef ABANDONED_UNLOCKED /* nobody has the caches of ended threads, one might think */
  take_from_abandoned ();
#endif
  lock_pool ();
  if
  :: door_is_closed -> take_held (); b = 0
  :: else ->
     if
     :: cache != NONE && seen (me, TOP (cache)) != 0 -> pop (cache)
     :: else ->
        if
        :: bin_is_empty -> take_from_abandoned ()
        :: else
        fi;
        if
        :: bin_is_empty -> take_from_idle ()
        :: else
        fi;
        take_held ();
        if
        :: b != 0 && cache != NONE -> push (cache); pop (cache) /* _tarn_cache_fill () */
        :: b = 0
        fi
     fi
  fi;
  check_stopped ();
  give (lock)
}

inline free_locked () /* _tarn_pool_end_use () */
{
  lock_pool ();
  if
  :: !door_is_closed && cache != NONE -> push (cache) /* _tarn_cache_keep () */
  :: d_step
     {
       assert (place[b] == WITH (me));
       place[b] = IN_BIN;
       in_bin[b] = true;
       b = 0
     }
  fi;
  check_stopped ();
  give (lock)
}

/* Has another thread own a block: after whatever the program does so that this one's stores are
 * seen. */
inline hand_over ()
{
  d_step
  {
    buffer[me].length == 0 -> place[b] = WITH ((me + 1) % THREADS);
    b = 0
  }
}

inline flush () /* _tarn_pool_flush () */
{
  take (lock);
  if
  :: !stop_holding ->
     close ();
     check ();
     do
     :: c < CACHES ->
        if
        :: is_listed[c] -> empty_cache (c)
        :: else
        fi;
        c++
     :: else -> break
     od;
     c = 0;
     check ();
     if
     :: open () /* _tarn_pool_open () */
     :: stop_holding = true /* the door stays closed, for good */
     fi
  :: else
  fi;
  give (lock)
}

inline end_thread () /* end_thread () of lib/core/base/thread.c, abandon () */
{
  take (threads_lock);
  if
  :: cache != NONE ->
     take (lock);
#ifndef NOT_ABANDONED /* the cache stays behind, and counts as in use */
     is_abandoned[cache] = true;
#endif
     give (lock)
  :: else
  fi;
#ifndef USED_AFTER_END /* the thread still finds its cache */
  cache = NONE; /* _tarn_current_thread = &_tarn_no_thread, thread->items[i] = NULL */
#endif
  leave_list ();
  is_ended = true;
  give (threads_lock)
}

proctype Thread (byte me)
{
  bool in_list[THREADS];
  bool is_ended; /* never registers again; but the process begins again, as another thread */
  byte cache = NONE, b, n, c, k;
#ifdef NO_RECHECK
  bool was_closed;
#endif

  do
  :: cache != NONE -> request_fast ()
  :: request_locked ()
  :: atomic { choose_own_block () }
     if
     :: b != 0 && cache != NONE -> free_fast ()
     :: b != 0 -> free_locked ()
     :: b != 0 -> hand_over ()
     :: b == 0
     fi
  :: flush ()
  :: is_live[me] -> end_thread ()
  :: d_step
     {
       is_ended -> is_ended = false; /* another thread, which has nothing yet */
       cache = NONE
     }
  :: break
  od
}

init
{
  byte t, b = 1;

  atomic
  {
    memory[DOOR] = OPENED;
    do
    :: b <= BLOCKS ->
       in_bin[b] = true;
       b++
    :: else -> break
    od;
    do
    :: t < THREADS ->
       run Thread (t);
       run Drain (t);
       t++
    :: else -> break
    od
  }
}
