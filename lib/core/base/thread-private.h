/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The threads that call Tarn, and read sections that cost them no atomic read-modify-write.
 *
 * This is a readers-writer lock with an asymmetric fence.  A door guards data that many threads use
 * and that other threads seldom change: each thread's cache of a pool, a memo's table.
 *
 *     reader   begins a visit: makes its own counter of visits odd, then looks at the door.  Open:
 *              it is inside, and uses the data.  Closed: it ends the visit, and takes the mutex
 *              that goes with the door instead.
 *     writer   holds that mutex, closes the door, then waits until every thread's counter is even,
 *              or has changed: nobody is inside, and nobody comes in before the door is opened.
 *
 * Each side stores one word and then loads the other's.  At least one of them must see the other's
 * store, so each needs a full fence between its store and its load.  Readers are many and writers
 * few, so the writer pays for both: membarrier(2) makes every running thread of the process execute
 * a fence, and readers need a compiler barrier only.  If the kernel has no membarrier, or begins to
 * refuse it, and under ThreadSanitizer, which does not support fences, readers order their own
 * store and load at the cost of an exchange: a fenced visit.  Each door is set to plain or to
 * fenced visits when it is opened.
 *
 * Inside, a reader must wait for no thread except other readers, because a writer waits for it.  A
 * reader begins no visit inside a visit, because its only counter would become even; but inside it
 * may check further doors, because their writers wait for the same counter. */

#ifndef TARN_THREAD_PRIVATE_H
#define TARN_THREAD_PRIVATE_H

#include "base/aligned-private.h"
#include "common/lock-private.h"

/* GLib's macros store the condition in a variable, and the compiler loses the expectations for its
 * parts. */
#define TARN_LIKELY(condition) __builtin_expect (!!(condition), 1)
#define TARN_UNLIKELY(condition) __builtin_expect (!!(condition), 0)

typedef struct _TarnThread TarnThread;

/* The record of a thread that has called Tarn.
 *
 * Invariants:
 *
 *     a record is never freed: a thread that ends leaves its own, with its number, to one that
 *     comes later, so that numbers stay as small as the most threads that there were at a time
 *     the list of living threads has the record of each thread that is, or may come, inside; a
 *     writer walks it under its lock, and waits there
 *     a thread that has left its record gets no other: it does without, and takes locks
 *
 * A thread that registers while a door is being closed is in the list before it is walked; or it
 * takes the list's lock after the writer has given that up, and sees the door closed. */
struct _TarnThread
{
  guint visits; /* atomic, written by the thread alone; odd: it is inside, or looks at a door */
  guint number; /* constant, from 0 on */
  gboolean is_taken; /* by a thread that has not ended; no other reads or writes this */

  /* In the list of living threads, or of records that were left; behind the lists' locks. */
  TarnThread *next;
  TarnThread **link; /* the pointer to it, in the former */

  /* The items that pools keep with each thread, by the pools' slots (_tarn_threads_take_slot ()).
   * The thread itself reads the array without a lock.  Who writes to it holds the records' lock:
   * the thread itself, or a thread that clears the slot of a pool which nobody calls any more. */
  gpointer *items;
  guint n_items;

  /* record/: the thread's own, except the stream, which stays with the record. */
  guint64 system_number; /* 0: not asked for yet */
  struct _TarnStream *stream;
  gint64 step_time; /* the latest event's that is a step (record/stream.c); 0: none yet */
  GArray *tags;     /* guint32 each: the latest is last; NULL: it never had any */
} __attribute__ ((aligned (TARN_CACHE_LINES)));

/* The calling thread's record.  Never NULL: a thread that has not registered has _tarn_no_thread,
 * and one that is ending and has left its record _tarn_ended_thread.  Both have no items, so that a
 * hit needs one check less. */
extern _Thread_local TarnThread *_tarn_current_thread
    __attribute__ ((visibility ("hidden"), tls_model ("initial-exec")));
extern TarnThread _tarn_no_thread, _tarn_ended_thread __attribute__ ((visibility ("hidden")));

typedef enum
{
  TARN_DOOR_OPEN,            /* to all visits */
  TARN_DOOR_CLOSED,          /* to all */
  TARN_DOOR_OPEN_WITH_FENCE, /* to fenced visits only: there is no membarrier */
  TARN_DOOR_OPEN_WATCHED,    /* to fenced visits only, so that no thread takes the fast path: the
                                slower one indexes or redirects */
  TARN_DOOR_OPEN_FOLLOWED    /* to traced visits only, which are fenced, so that no thread takes the
                                fast path */
} TarnDoorState;

typedef gint TarnDoor; /* atomic: TarnDoorState */

TarnThread *_tarn_thread_register (void);

/* Starts a thread of the library, with all signals blocked. */
GThread *_tarn_own_thread_new (const gchar *name, GThreadFunc func, gpointer data, GError **error);

/* Frees an item that was kept with a thread.  The ending thread calls it with the lock of records
 * held. */
typedef void (*TarnThreadEndFunc) (gpointer item);

guint _tarn_threads_take_slot (TarnThreadEndFunc at_end);
void _tarn_threads_give_slot (guint slot);
void _tarn_thread_set_item (TarnThread *thread, guint slot, gpointer item);

/* Gets the calling thread's record, and registers the thread if it has none.  Returns NULL if it is
 * ending, and has left its record: an item that it kept then would never be freed. */
static inline TarnThread *
_tarn_thread_self (void)
{
  TarnThread *thread = _tarn_current_thread;

  return TARN_LIKELY (thread->is_taken) ? thread : _tarn_thread_register ();
}

/* Ends the visit with the odd number @visit; the next visit's is thread->visits + 1.  The caller
 * passes the number, so that the processor need not load a value that it has just stored. */
static inline void
_tarn_thread_end_visit (TarnThread *thread, guint visit)
{
  __atomic_store_n (&thread->visits, visit + 1, __ATOMIC_RELEASE);
}

gboolean _tarn_thread_begin_fenced_visit (TarnThread *thread, guint visit, const TarnDoor *door);
gboolean _tarn_thread_begin_followed_visit (TarnThread *thread, guint visit, const TarnDoor *door);

/* Begins a visit.  Returns TRUE if the thread is inside until _tarn_thread_end_visit ().  Returns
 * FALSE if the door is closed, or takes fenced visits only; the caller checks which, off the fast
 * path. */
static inline gboolean
_tarn_thread_begin_visit (TarnThread *thread, guint visit, const TarnDoor *door)
{
#ifdef TARN_THREAD_SANITIZER
  return __atomic_load_n (door, __ATOMIC_RELAXED) != TARN_DOOR_OPEN_WATCHED
         && _tarn_thread_begin_fenced_visit (thread, visit, door);
#else
  __atomic_store_n (&thread->visits, visit, __ATOMIC_RELAXED);
  __atomic_signal_fence (__ATOMIC_SEQ_CST);
  if (TARN_LIKELY (__atomic_load_n (door, __ATOMIC_ACQUIRE) == TARN_DOOR_OPEN))
    return TRUE;
  _tarn_thread_end_visit (thread, visit);
  return FALSE;
#endif
}

/* Begins a traced visit, or else a plain or fenced one.  Returns TRUE if the thread is inside until
 * _tarn_thread_leave (). */
static inline gboolean
_tarn_thread_enter (TarnThread *thread, const TarnDoor *door, gboolean is_followed)
{
  guint visit = thread->visits + 1;

  if (is_followed)
    return _tarn_thread_begin_followed_visit (thread, visit, door);
  return _tarn_thread_begin_visit (thread, visit, door)
         || _tarn_thread_begin_fenced_visit (thread, visit + 2, door);
}

static inline void
_tarn_thread_leave (TarnThread *thread)
{
  _tarn_thread_end_visit (thread, thread->visits);
}

/* The caller holds the door's mutex, unless no other thread knows the door yet. */
void _tarn_door_close (TarnDoor *door);
void _tarn_door_open (TarnDoor *door);
void _tarn_door_open_watched (TarnDoor *door);
void _tarn_door_open_followed (TarnDoor *door);

static inline gboolean
_tarn_door_needs_fence (const TarnDoor *door)
{
  gint state = __atomic_load_n (door, __ATOMIC_RELAXED);

  return state == TARN_DOOR_OPEN_WITH_FENCE || state == TARN_DOOR_OPEN_WATCHED;
}

/* Returns TRUE if a door takes no plain visits, so that callers have to check which it takes. */
static inline gboolean
_tarn_door_is_unusual (const TarnDoor *door)
{
  return __atomic_load_n (door, __ATOMIC_RELAXED) != TARN_DOOR_OPEN;
}

/* Returns TRUE if a door takes visits that are not traced. */
static inline gboolean
_tarn_door_takes_visits (const TarnDoor *door)
{
  gint state = __atomic_load_n (door, __ATOMIC_RELAXED);

  return state != TARN_DOOR_CLOSED && state != TARN_DOOR_OPEN_FOLLOWED;
}

static inline gboolean
_tarn_door_is_followed (const TarnDoor *door)
{
  return __atomic_load_n (door, __ATOMIC_RELAXED) == TARN_DOOR_OPEN_FOLLOWED;
}

/* Returns TRUE if a door is open.  The caller holds, in place of a visit, a lock that a writer
 * takes as well before it closes the door, and sees all that was written before the door was
 * opened. */
static inline gboolean
_tarn_door_is_open_to_others (const TarnDoor *door)
{
  return __atomic_load_n (door, __ATOMIC_ACQUIRE) != TARN_DOOR_CLOSED;
}

static inline gboolean
_tarn_door_is_closed (const TarnDoor *door)
{
  return __atomic_load_n (door, __ATOMIC_RELAXED) == TARN_DOOR_CLOSED;
}

#endif
