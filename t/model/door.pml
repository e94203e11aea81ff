/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Threads that come and go, visit by a door, work with the lock that goes with it, and close it
 * (base/thread-private.h).  Each has a word that it writes inside, as a thread writes its cache of a
 * pool; who has closed the door writes all of them.
 *
 *     - Nobody is inside where the writer is, and what one finds is what the last one left.
 *     - Nobody waits for ever: any thread may stop for good where it needs nothing, so if some wait
 *       for one another, Spin sees that these are all that is left.
 *     - Closing ends: closing_ends, which Spin is told to look at by itself.
 *
 * Nothing is bounded but the threads, and how many stores a buffer holds: they go on for ever. */

#ifndef THREADS
#define THREADS 2
#endif
#define WORDS THREADS
#define DATA(t) WORD (t)

#include "tso.pml"

bit written[THREADS]; /* what was stored last in each word */

/* Loads a word, and stores another value. */
inline use (t)
{
  d_step
  {
    v = seen (me, DATA (t));
    assert (v == written[t])
  }
  d_step
  {
    has_place (me) -> assert (v == written[t]);
    written[t] = 1 - v;
    put (DATA (t), 1 - v);
    v = 0
  }
}

/* As a hit does. */
inline visit ()
{
  enter ();
  if
  :: inside[me] ->
     use (me);
     leave ()
  :: else
  fi
}

/* A visit by another door, which nobody closes: a thread has one counter for all. */
inline visit_elsewhere ()
{
  store (VISITS (me), 1);
#ifdef LOCK_INSIDE /* it waits inside for what a writer has */
  take (lock);
  give (lock);
#endif
  store (VISITS (me), 0)
}

/* As a miss does, whether the door is open or not. */
inline work_locked ()
{
#ifndef NO_LOCK /* not even that */
  take (lock);
#endif
  use (me);
#ifndef NO_LOCK
  give (lock)
#endif
}

inline work_closed ()
{
  take (lock);
  close ();
  do
  :: k < THREADS ->
     assert (k == me || !inside[k]);
     use (k);
     k++
  :: else -> break
  od;
  k = 0;
  open ();
  give (lock)
}

proctype Thread (byte me)
{
  bool in_list[THREADS];
  byte k;
  bit v;

  do
  :: is_live[me] -> visit ()
  :: is_live[me] -> visit_elsewhere ()
  :: work_locked ()
  :: work_closed ()
  :: !is_live[me] -> register_thread ()
  :: is_live[me] -> leave_list ()
  :: break
  od
}

init
{
  byte t;

  atomic
  {
    memory[DOOR] = OPENED;
    do
    :: t < THREADS ->
       run Thread (t);
       run Drain (t);
       t++
    :: else -> break
    od
  }
}

#ifdef LIVENESS
ltl closing_ends { always (closing[0] implies eventually !closing[0]) }
#endif
