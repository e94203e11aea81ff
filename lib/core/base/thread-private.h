/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The threads that call Tarn, and read sections, which a thread enters and leaves without an atomic
 * read-modify-write instruction.
 *
 * A door is a readers-writer lock with an asymmetric fence.  It guards data that many threads use
 * and that other threads seldom change: each thread's cache of a pool, or a memo's table.
 *
 *     reader   begins a read section ("visit"): makes its own counter of visits odd, then reads
 *              the state of the door. If the door is open, the reader is inside, and uses the
 *              data. If the door is closed, the reader ends the visit, and takes the door's mutex
 *              instead.
 *     writer   holds the door's mutex, closes the door, then waits until every thread's counter
 *              is even or has changed. Then nobody is inside, and nobody can enter before the
 *              writer opens the door.
 *
 * Each side stores one word and then loads the word of the other side.  At least one side must see
 * the other's store, so each needs a full fence between its store and its load.  Readers are many
 * and writers are few, so the writer issues both fences: membarrier(2) makes every running thread
 * of the process execute one, and a reader needs only a compiler barrier.  That is a plain visit.
 * In a fenced visit, the reader stores with an exchange, which is a fence of its own.  Readers use
 * fenced visits if the kernel has no membarrier or begins to refuse it, and under ThreadSanitizer,
 * which does not support fences.  When a writer opens a door, it decides whether the door takes
 * plain or only fenced visits.  A traced visit is a fenced visit whose reader also records, or
 * counts, the request.
 *
 * Inside, a reader must not wait for any thread except other readers, because a writer waits for
 * the reader.  A reader must not begin a second visit inside a visit, because that would make its
 * only counter even.  Inside, it may check further doors instead, because the writers of these
 * doors wait for the same counter. */

#ifndef TARN_THREAD_PRIVATE_H
#define TARN_THREAD_PRIVATE_H

#include "base/aligned-private.h"
#include "common/lock-private.h"

/* Replace G_LIKELY and G_UNLIKELY, which store the condition in a variable: the compiler then loses
 * what is likely of the parts of a condition. */
#define TARN_LIKELY(condition) __builtin_expect (!!(condition), 1)
#define TARN_UNLIKELY(condition) __builtin_expect (!!(condition), 0)

typedef struct _TarnThread TarnThread;

/* The record of a thread that has called Tarn.
 *
 * Invariants:
 *
 *     no record is ever freed: when a thread ends, a later thread takes over the record and its
 *     number, so numbers stay below the largest number of threads that existed at one time
 *     the list of living threads has the record of each thread that is, or may begin to be, in a
 *     read section; a writer that closes a door holds the list's lock while it walks the list and
 *     waits for the readers
 *     a thread that is ending and has left its record gets no other record: it uses locks instead
 *
 * If a thread registers while a writer closes a door, there are two cases.  Either the thread's
 * record is in the list before the writer walks the list.  Or the thread takes the list's lock
 * after the writer has released it, and so sees that the door is closed. */
struct _TarnThread
{
  guint visits;      /* atomic; only this thread writes it; odd: inside, or at a door */
  guint number;      /* constant; counts from 0 */
  gboolean is_taken; /* the record belongs to a living thread; only that thread uses this field */

  /* Links in the list of living threads, or of records left by ended ones; guarded by their
   * locks. */
  TarnThread *next;
  TarnThread **link; /* list of living threads: the pointer that points to this record */

  /* The items that pools keep with each thread, indexed by the pools' slots
   * (_tarn_threads_take_slot ()).  The thread itself reads the array without a lock.  The lock of
   * the records guards writes: by the thread itself, or by a thread that clears the slot of a pool
   * which nobody calls any more. */
  gpointer *items;
  guint n_items;

  /* Fields of record/, for the thread only.  All except the stream are reset when the thread
   * ends. */
  guint64 system_number; /* number from the system; 0: not read yet */
  struct _TarnStream *stream;
  gint64 step_time; /* time of the latest event that is a step (record/stream.c); 0: none */
  GArray *tags;     /* the stack of tags, guint32 each, the latest last; NULL: there never was
                       one */
} __attribute__ ((aligned (TARN_CACHE_LINES)));

/* The calling thread's record, never NULL.  It points to _tarn_no_thread if the thread has not
 * registered, and to _tarn_ended_thread if the thread is ending and has left its record.  Neither
 * has items, so that a cache hit needs no check for them. */
extern _Thread_local TarnThread *_tarn_current_thread
    __attribute__ ((visibility ("hidden"), tls_model ("initial-exec")));
extern TarnThread _tarn_no_thread, _tarn_ended_thread __attribute__ ((visibility ("hidden")));

typedef enum
{
  TARN_DOOR_OPEN,            /* to all visits that are not traced */
  TARN_DOOR_CLOSED,          /* to all visits */
  TARN_DOOR_OPEN_WITH_FENCE, /* to fenced visits only, because there is no membarrier */
  TARN_DOOR_OPEN_WATCHED, /* to fenced visits only, so that every thread leaves the fast path, which
                             neither indexes nor redirects blocks */
  TARN_DOOR_OPEN_FOLLOWED /* to traced visits only, so that every thread leaves the fast path */
} TarnDoorState;

typedef gint TarnDoor; /* atomic: TarnDoorState */

TarnThread *_tarn_thread_register (void);

/* Starts a thread of the library.  All signals are blocked there, so that none of the program's
 * signal handlers runs in it. */
GThread *_tarn_own_thread_new (const gchar *name, GThreadFunc func, gpointer data, GError **error);

/* Frees an item kept with a thread.  The ending thread calls this, with the records' lock held. */
typedef void (*TarnThreadEndFunc) (gpointer item);

guint _tarn_threads_take_slot (TarnThreadEndFunc at_end);
void _tarn_threads_give_slot (guint slot);
void _tarn_thread_set_item (TarnThread *thread, guint slot, gpointer item);

/* Gets the calling thread's record, and registers the thread if it has none.  Returns NULL if the
 * thread is ending and has left its record: nobody would free an item that it stored now. */
static inline TarnThread *
_tarn_thread_self (void)
{
  TarnThread *thread = _tarn_current_thread;

  return TARN_LIKELY (thread->is_taken) ? thread : _tarn_thread_register ();
}

/* Ends a visit.  @visit: the odd number of this visit.  The next visit has the number
 * thread->visits + 1.  The caller passes the number so that the processor need not load a value
 * that it has just stored. */
static inline void
_tarn_thread_end_visit (TarnThread *thread, guint visit)
{
  __atomic_store_n (&thread->visits, visit + 1, __ATOMIC_RELEASE);
}

gboolean _tarn_thread_begin_fenced_visit (TarnThread *thread, guint visit, const TarnDoor *door);
gboolean _tarn_thread_begin_followed_visit (TarnThread *thread, guint visit, const TarnDoor *door);
#ifdef TARN_THREAD_SANITIZER
gboolean _tarn_thread_begin_sanitized_visit (TarnThread *thread, guint visit, const TarnDoor *door);
#endif

/* Begins a plain visit.  Returns TRUE if the thread is inside; it then calls _tarn_thread_end_visit
 * () later.  Returns FALSE if the door is closed or takes no plain visits; the caller finds out
 * which, off the fast path. */
static inline gboolean
_tarn_thread_begin_visit (TarnThread *thread, guint visit, const TarnDoor *door)
{
#ifdef TARN_THREAD_SANITIZER
  return _tarn_thread_begin_sanitized_visit (thread, visit, door);
#else
  __atomic_store_n (&thread->visits, visit, __ATOMIC_RELAXED);
  __atomic_signal_fence (__ATOMIC_SEQ_CST);
  if (TARN_LIKELY (__atomic_load_n (door, __ATOMIC_ACQUIRE) == TARN_DOOR_OPEN))
    return TRUE;
  _tarn_thread_end_visit (thread, visit);
  return FALSE;
#endif
}

/* Begins a traced visit if @is_followed, otherwise a plain or, if need be, a fenced one.  Returns
 * TRUE if the thread is inside; it then calls _tarn_thread_leave () later. */
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

/* Close or open a door.  The caller holds its mutex, unless no other thread knows the door yet. */
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

/* Returns TRUE if a door takes no plain visits, so that the caller checks which it takes. */
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

/* Returns TRUE if a door is open.  For a caller that is not inside, but holds a lock that writers
 * take before they close the door.  The caller sees all that was written before it was opened. */
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
