/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What the models of this folder run on: processors that hold stores back, mutexes, and the door of
 * lib/core/base/thread.c, by which a few writers keep many readers out (base/thread-private.h).
 *
 * A thread's stores go into a buffer of its own, oldest first, and reach memory some time later, at
 * steps of another process, Drain.  The thread itself sees them at once.  That is x86's total store
 * order, whose one surprise is the one that the fence is for: a load overtakes the thread's earlier
 * stores.  What the C compiles to there:
 *
 *     store          a relaxed or release store
 *     store_fenced   a sequentially consistent one: an exchange, which empties the buffer first
 *     seen           a load, of whatever order
 *     take, give     a mutex; each empties the buffer
 *     membarrier     empties everybody's, one after another
 *
 * What is not modelled, in any of the models:
 *
 *     - weaker processors and the compiler.  Release, acquire and the compiler's barrier are what
 *       makes these keep the order that is taken for granted here; a model in which they are left
 *       out would find nothing.  The litmus tests of this folder are for that (doc/memory-order).
 *     - the number of a visit, but for whether it is odd.  It is 32 bits long, and a writer does not
 *       sleep through 2^31 visits: so a number that it has seen once never comes back.  "Still
 *       the number that I saw" is the bit unmoved.
 *     - how a writer waits (it yields), and that mutexes are fair or not.  Somebody who waits goes on
 *       at some time after he may, and a thread that can go on does, at some time.
 *     - fork (), pools and memos that end while others call them, which is the caller's mistake, and
 *       more threads than there are here.
 *
 * A model includes this after it has defined THREADS, and WORDS of memory of its own, which are at
 * WORD (0) and so on.  Each step has the C beside it that it stands for; a process is a thread, and
 * once it has ended and begun again, another one, with the record that the first left.
 *
 * What the C may be, as -D:
 *     FENCED_DOOR      the kernel has no membarrier, so that readers bring their own fence
 *     WALK_UNLOCKED    the writer walks the list of threads without its lock, as it was at one
 *                      moment; else it has the lock meanwhile, which comes after all others
 * and what it must not be, for model.t to see that Spin finds it, where #ifdef says so: NO_FENCE,
 * NO_WAIT, LOOK_FIRST, LIST_READ_FIRST, CLOSED_LATE, AWAIT_EVEN, and others in the models. */

#define VISITS(t) (t) /* of struct _TarnThread */
#define DOOR THREADS
#define WORD(i) (THREADS + 1 + (i))

#define OPEN 0 /* TarnDoorState */
#define CLOSED 1
#define OPEN_WITH_FENCE 2

#ifdef FENCED_DOOR
#define OPENED OPEN_WITH_FENCE
#else
#define OPENED OPEN
#endif

#define STORES 3 /* that a buffer holds: a thread with another one waits */

typedef Buffer
{
  byte length;
  byte address[STORES];
  byte value[STORES]
};

Buffer buffer[THREADS];
byte memory[THREADS + 1 + WORDS];
byte lock;      /* the mutex of a pool or memo: 1 + its owner; 0: free */
byte list_lock; /* of the list of threads; it comes after the other where both are held */

bool is_live[THREADS]; /* the thread has a record in the list; behind list_lock */
bool unmoved[THREADS]; /* its visits are still what a writer saw who waits for them to move on */

/* What nobody in C knows: for assertions. */
bool inside[THREADS];  /* by the door, not by another one */
bool closing[THREADS]; /* waits until nobody is */

hidden byte door; /* what look () sees; 0 between steps */

/* Processors */

#define holds(t, i, a) (buffer[t].length > i && buffer[t].address[i] == (a))

/* What thread t loads from a: its latest store there, or else what is in memory. */
#define seen(t, a)                                                                                 \
  (holds (t, 2, a) -> buffer[t].value[2]                                                           \
   : (holds (t, 1, a) -> buffer[t].value[1]                                                        \
      : (holds (t, 0, a) -> buffer[t].value[0] : memory[a])))

/* The oldest store of a buffer reaches memory. */
inline drain_one (t)
{
  if
  :: buffer[t].address[0] < THREADS -> unmoved[buffer[t].address[0]] = false
  :: else
  fi;
  memory[buffer[t].address[0]] = buffer[t].value[0];
  buffer[t].address[0] = buffer[t].address[1];
  buffer[t].value[0] = buffer[t].value[1];
  buffer[t].address[1] = buffer[t].address[2];
  buffer[t].value[1] = buffer[t].value[2];
  buffer[t].address[2] = 0;
  buffer[t].value[2] = 0;
  buffer[t].length--
}

inline drain_all (t)
{
  do
  :: buffer[t].length > 0 -> drain_one (t)
  :: else -> break
  od
}

proctype Drain (byte t)
{
end:
  do
  :: d_step { buffer[t].length > 0 -> drain_one (t) }
  od
}

/* For a step of more than a store: it is to be put into a d_step, whose guard is has_place. */
#define has_place(t) (buffer[t].length < STORES)

inline put (at, new)
{
  buffer[me].address[buffer[me].length] = at;
  buffer[me].value[buffer[me].length] = new;
  buffer[me].length++
}

inline store (at, new)
{
  d_step { has_place (me) -> put (at, new) }
}

inline store_fenced (at, new)
{
  d_step
  {
    has_place (me);
    put (at, new);
    drain_all (me)
  }
}

inline take (mutex)
{
  d_step
  {
    mutex == 0 -> mutex = me + 1;
    drain_all (me)
  }
}

inline give (mutex)
{
  d_step
  {
    assert (mutex == me + 1);
    drain_all (me);
    mutex = 0
  }
}

/* Threads: lib/core/base/thread.c */

inline register_thread () /* _tarn_thread_register () */
{
  take (list_lock);
  is_live[me] = true;
  give (list_lock)
}

inline leave_list () /* end_thread () */
{
  take (list_lock);
  is_live[me] = false;
  give (list_lock)
}

/* Visits: lib/core/base/thread-private.h */

inline end_visit () /* _tarn_thread_end_visit () */
{
  store (VISITS (me), 0)
}

/* Looks at the door, and is inside from then on if it lets one in. */
inline look (lets_in)
{
  d_step
  {
    door = seen (me, DOOR); /* __atomic_load_n (door) */
    inside[me] = lets_in;
    door = 0
  }
  if
  :: inside[me]
  :: else -> end_visit ()
  fi
}

inline begin_visit () /* _tarn_thread_begin_visit () */
{
#ifdef LOOK_FIRST /* the door is looked at before the visit begins, and not again */
  if
  :: seen (me, DOOR) == OPEN ->
     store (VISITS (me), 1);
     inside[me] = true
  :: else
  fi
#else
  store (VISITS (me), 1);
  look (door == OPEN)
#endif
}

inline begin_fenced_visit () /* _tarn_thread_begin_fenced_visit () */
{
#ifdef NO_FENCE /* neither the readers' nor, below, the kernel's */
  store (VISITS (me), 1);
#else
  store_fenced (VISITS (me), 1);
#endif
  look (door != CLOSED)
}

inline enter () /* _tarn_thread_enter () */
{
  begin_visit ();
  if
  :: inside[me]
  :: else -> begin_fenced_visit ()
  fi
}

/* The end of a visit.  The step before was the last that is done inside. */
inline leave () /* _tarn_thread_leave () */
{
  d_step
  {
    has_place (me) -> put (VISITS (me), 0);
    inside[me] = false
  }
}

/* The door: lib/core/base/thread.c */

inline membarrier () /* MEMBARRIER_CMD_PRIVATE_EXPEDITED */
{
  d_step
  {
    drain_all (me);
    k = 0
  }
  do
  :: k < THREADS ->
     d_step
     {
       drain_all (k);
       k++
     }
  :: else -> break
  od;
  k = 0
}

inline await_thread (t) /* await_thread () */
{
  if /* visits % 2 != 0 */
  :: d_step { memory[VISITS (t)] == 1 -> unmoved[t] = true };
#ifdef AWAIT_EVEN /* until it is out: it may be in by another door each time one looks */
     memory[VISITS (t)] == 0
#else
     !unmoved[t]
#endif
  :: else
  fi
}

/* Waits for the threads of the list: the loop of _tarn_door_close ().  It must be read after the door was closed: who is added
 * later comes in later, and sees it closed. */
inline await_threads ()
{
#ifndef WALK_UNLOCKED
  take (list_lock);
#endif
  closing[me] = true;
#ifndef LIST_READ_FIRST
  read_list ();
#endif
  k = 0;
  do /* for (thread = threads; thread != NULL; thread = thread->next) */
  :: k < THREADS && k != me && in_list[k] -> await_thread (k); k++
  :: k < THREADS && !(k != me && in_list[k]) -> k++
  :: k == THREADS -> break
  od;
  k = 0;
  closing[me] = false;
#ifndef WALK_UNLOCKED
  give (list_lock);
#endif
  forget_list ()
}

inline read_list () /* the threads that there are at this moment */
{
  d_step
  {
    do
    :: k < THREADS -> in_list[k] = is_live[k]; k++
    :: else -> break
    od;
    k = 0
  }
}

inline forget_list ()
{
  d_step
  {
    do
    :: k < THREADS -> in_list[k] = false; k++
    :: else -> break
    od;
    k = 0
  }
}

/* Closes the door, and waits until no thread but this one is inside.  The lock is held. */
inline close () /* _tarn_door_close () */
{
  assert (lock == me + 1);
#ifdef LIST_READ_FIRST /* the list is read before the door is closed */
  read_list ();
#endif
#ifdef CLOSED_LATE /* the store that closes is not fenced: readers may not see it for a while */
  store (DOOR, CLOSED);
#else
  store_fenced (DOOR, CLOSED);
#endif
#if !defined(FENCED_DOOR) && !defined(NO_FENCE)
  membarrier ();
#endif
#ifndef NO_WAIT /* for those who are inside */
  await_threads ();
#endif
}

inline open () /* _tarn_door_open () */
{
  store (DOOR, OPENED)
}
