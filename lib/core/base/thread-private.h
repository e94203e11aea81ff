/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The threads that call Tarn, and read sections, which a thread enters and leaves without an atomic
 * read-modify-write instruction.
 *
 * A door (TarnDoor) is a readers-writer lock with an asymmetric fence.  It guards data that many
 * threads use and that other threads seldom change: each thread's cache of a pool, or a memo's
 * table.  In the names of functions, a read section is a visit.
 *
 * A reader begins a read section: it makes its own counter of read sections odd, then reads the
 * state of the lock.  If the lock is open, the reader is in the read section, and uses the data.
 * If the lock is closed, the reader makes its counter even, and takes the mutex of the data
 * instead.
 *
 * A writer holds this mutex, closes the lock, then waits until every thread's counter is even or
 * has changed.  Then no thread is in a read section, and no thread can enter one before the writer
 * opens the lock.
 *
 * Each side stores one word and then loads the word of the other side.  At least one side must see
 * the other's store, so each side needs a full fence between its store and its load.  Readers are
 * many and writers are few, so the writer issues both fences: membarrier(2) makes every running
 * thread of the process execute one.  A reader then needs only a compiler barrier.
 *
 * There are three kinds of read sections.  When a writer opens a lock, it decides which kinds may
 * begin.  In a plain read section, the reader relies on the writer's membarrier.  In a fenced read
 * section, the reader stores its counter with an exchange, which is a fence.  Readers need fenced
 * read sections if the kernel has no membarrier or begins to refuse it, and under ThreadSanitizer,
 * which does not support separate fences.  In a traced read section, which is fenced too, the
 * reader also records or counts its request.
 *
 * Code in a read section must not wait for any thread except other readers, because a writer waits
 * for the reader.  The code must not begin a second read section, because that would make the
 * thread's only counter even.  To use the data of a second lock, too, the code only checks that the
 * second lock is open.  That is enough, because the writers of all locks wait for the thread's one
 * counter. */

#ifndef TARN_THREAD_PRIVATE_H
#define TARN_THREAD_PRIVATE_H

#include "base/aligned-private.h"
#include "common/lock-private.h"

/* Tarn's own G_LIKELY and G_UNLIKELY.  GLib's macros store the condition in a variable first, so
 * the compiler cannot predict the parts of a condition such as a && b. */
#define TARN_LIKELY(condition) __builtin_expect (!!(condition), 1)
#define TARN_UNLIKELY(condition) __builtin_expect (!!(condition), 0)

typedef struct _TarnThread TarnThread;

/* The record of a thread that has called Tarn.  Invariants:
 * - No record is ever freed.  When a thread ends, a later thread can take over its record, and with
 *   the record its number.  So the numbers are less than the largest number of threads that had
 *   records at one time.
 * - The list of living threads has the record of each thread that is in a read section or may enter
 *   one.  A writer, which forbids new read sections, holds the list's lock while it walks the list
 *   and waits for the readers.
 * - A thread that is ending and has given up its record gets no other record.  It uses locks
 *   instead of read sections.
 *
 * A thread may register while a writer forbids read sections.  Either the thread's record is in the
 * list before the writer walks the list: then the writer waits for the thread.  Or the thread takes
 * the list's lock after the writer has released it: then the thread sees that read sections are
 * forbidden. */
struct _TarnThread
{
  /* Atomic: the thread's counter of read sections.  It is odd if the thread is in a read section,
   * or is entering one.  Only this thread writes the counter. */
  guint visits;
  guint number;      /* the record's number: constant, counted from 0 */
  gboolean is_taken; /* TRUE if a living thread has the record; only that thread uses this field */

  /* Links of this record in its list, either the list of living threads, or the list of records
   * that ended threads have left.  The list's lock guards the links. */
  TarnThread *next;
  /* If this record is in the list of living threads: the address of the pointer in the list that
   * points to this record. */
  TarnThread **link;

  /* The items that pools keep for this thread, such as caches.  The index of a pool's item is the
   * pool's slot (_tarn_threads_take_slot ()).  This thread reads the array without a lock.  Two
   * threads write to the array, and each holds the lock of the lists of records meanwhile: this
   * thread, and a thread that clears the slot of a pool which nobody calls any more. */
  gpointer *items;
  guint n_items;

  /* Fields for the recorder (record/).  Only this thread uses them.  When the thread ends, it
   * resets all of them except the field stream: the thread that takes over this record continues
   * the stream. */
  guint64 system_number; /* the thread's number in the system; 0 if not read yet */
  struct _TarnStream *stream;
  /* The time in microseconds of the thread's latest step: a recorded call that the program made
   * (record/stream.c).  0 if the thread has made no step. */
  gint64 step_time;
  /* The thread's stack of tags (the program's names for requests): an array of guint32, the latest
   * tag last.  NULL if the thread never had a tag. */
  GArray *tags;
} __attribute__ ((aligned (TARN_CACHE_LINES)));

/* The calling thread's record, never NULL.  Points to _tarn_no_thread if the thread has not
 * registered, and to _tarn_ended_thread if the thread is ending and has given up its record.
 * These two records have no items and so no caches, so the code for cache hits need not check
 * for these records. */
extern _Thread_local TarnThread *_tarn_current_thread
    __attribute__ ((visibility ("hidden"), tls_model ("initial-exec")));
extern TarnThread _tarn_no_thread, _tarn_ended_thread __attribute__ ((visibility ("hidden")));

typedef enum
{
  TARN_DOOR_OPEN,   /* a plain or fenced read section may begin */
  TARN_DOOR_CLOSED, /* no read section may begin */
  /* Only a fenced read section may begin, because the kernel has no membarrier. */
  TARN_DOOR_OPEN_WITH_FENCE,
  /* Only a fenced read section may begin, so every request takes the slow path.  In the slow path,
   * the pool can add blocks to its index, or let another pool serve the request. */
  TARN_DOOR_OPEN_WATCHED,
  /* Only a traced read section may begin, in which the reader also records or counts its
   * request. */
  TARN_DOOR_OPEN_FOLLOWED
} TarnDoorState;

typedef gint TarnDoor; /* a TarnDoorState, accessed atomically */

TarnThread *_tarn_thread_register (void);

/* Starts a thread of the library.  Blocks all signals in that thread, so that no signal handler of
 * the program runs there. */
GThread *_tarn_own_thread_new (const gchar *name, GThreadFunc func, gpointer data, GError **error);

/* The type of a function that frees an item which a pool keeps with a thread.  When the thread
 * ends, it calls this function, and holds the lock of the threads' records during the call. */
typedef void (*TarnThreadEndFunc) (gpointer item);

guint _tarn_threads_take_slot (TarnThreadEndFunc at_end);
void _tarn_threads_give_slot (guint slot);
void _tarn_thread_set_item (TarnThread *thread, guint slot, gpointer item);

/* Returns the calling thread's record, and registers the thread if it has none.  Returns NULL if
 * the thread is ending and has given up its record, because nobody would free an item that the
 * thread stored in a record now. */
static inline TarnThread *
_tarn_thread_self (void)
{
  TarnThread *thread = _tarn_current_thread;

  return TARN_LIKELY (thread->is_taken) ? thread : _tarn_thread_register ();
}

/* Ends a read section.  @visit: the odd number that thread->visits has now.  The caller passes it,
 * because to load it here, right after the store that began the read section, would take time. */
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

/* Begins a plain read section, the cheapest kind.  Returns TRUE if the thread is in the read
 * section now; then the thread must call _tarn_thread_end_visit () later.  Returns FALSE if the
 * lock @door is closed, or allows no plain read sections.  The caller's slow path then finds out
 * whether the lock is closed. */
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

/* Begins a traced read section if @is_followed is TRUE.  Otherwise begins a plain read section, or
 * a fenced one if the lock @door allows no plain read sections.  Returns TRUE if the thread is in
 * the read section now; then the thread must call _tarn_thread_leave () later. */
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

/* Close and open a lock for read sections.  While the lock is closed, no read section begins.  The
 * caller holds the mutex of the data, unless no other thread knows the lock yet. */
void _tarn_door_close (TarnDoor *door);
void _tarn_door_open (TarnDoor *door);
void _tarn_door_open_as (TarnDoor *door, TarnDoorState state);

static inline gboolean
_tarn_door_needs_fence (const TarnDoor *door)
{
  gint state = __atomic_load_n (door, __ATOMIC_RELAXED);

  return state == TARN_DOOR_OPEN_WITH_FENCE || state == TARN_DOOR_OPEN_WATCHED;
}

/* Returns TRUE if the lock @door allows no plain read sections, the cheapest kind.  Then the caller
 * checks which kinds the lock allows. */
static inline gboolean
_tarn_door_is_unusual (const TarnDoor *door)
{
  return __atomic_load_n (door, __ATOMIC_RELAXED) != TARN_DOOR_OPEN;
}

/* Returns TRUE if the lock @door allows read sections that are not traced. */
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

/* Returns TRUE if the lock @door is open for at least one kind of read section.  Call this outside
 * read sections, and hold a mutex that writers take before they close the lock.  If the lock is
 * open, the caller sees all data that was written before a writer opened it. */
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
