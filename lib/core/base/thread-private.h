/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The threads that call Tarn, and a lock that costs them no atomic read-modify-write.
 *
 * Many threads read what seldom changes.  A reader says so in a word of its own, with a plain
 * store, and looks whether the door is closed.  Who changes something holds a mutex, closes the
 * door, makes every processor see that (membarrier), and waits until each thread that was inside
 * has left.  Readers that find the door closed take the mutex instead. */

#ifndef TARN_THREAD_PRIVATE_H
#define TARN_THREAD_PRIVATE_H

#include "base/aligned-private.h"
#include "common/lock-private.h"

/* GLib's go through a variable, in which the compiler loses what is expected of each part. */
#define TARN_LIKELY(condition) __builtin_expect (!!(condition), 1)
#define TARN_UNLIKELY(condition) __builtin_expect (!!(condition), 0)

typedef struct _TarnThread TarnThread;

/* Records are never freed: a thread that ends leaves its record, with its number, to a later one.
 * Thus numbers stay as small as the most threads that there were at a time. */
struct _TarnThread
{
  guint visits;      /* atomic, written by the thread alone; odd: it is inside */
  guint number;      /* constant, from 0 on */
  gboolean is_taken; /* behind the lock of the list */
  TarnThread *next;  /* constant */

  /* The thread's own items, by the slots of those who keep some with each thread; behind the lock
   * of the list, too, where it grows, and where another thread clears a slot. */
  gpointer *items;
  guint n_items;

  /* memo-compute.c */
  struct _TarnComputation *innermost;         /* the thread's own: what it is computing */
  const struct _TarnComputation *waiting_for; /* behind the lock of all computations */
} __attribute__ ((aligned (TARN_CACHE_LINES)));

/* Never NULL: what is not registered is _tarn_no_thread, which has no items. */
extern _Thread_local TarnThread *_tarn_current_thread
    __attribute__ ((visibility ("hidden"), tls_model ("initial-exec")));
extern TarnThread _tarn_no_thread __attribute__ ((visibility ("hidden")));

typedef enum
{
  TARN_DOOR_OPEN,
  TARN_DOOR_CLOSED,
  TARN_DOOR_OPEN_WITH_FENCE /* where there is no membarrier: a plain store is not enough */
} TarnDoorState;

typedef gint TarnDoor; /* atomic: TarnDoorState */

TarnThread *_tarn_thread_register (void);

/* Called with the item of a thread that has ended, inside the lock of the list. */
typedef void (*TarnThreadEndFunc) (gpointer item);

guint _tarn_threads_take_slot (TarnThreadEndFunc at_end);
void _tarn_threads_give_slot (guint slot);
void _tarn_thread_set_item (TarnThread *thread, guint slot, gpointer item);

static inline TarnThread *
_tarn_thread_self (void)
{
  TarnThread *thread = _tarn_current_thread;

  return TARN_LIKELY (thread != &_tarn_no_thread) ? thread : _tarn_thread_register ();
}

/* Visits have numbers, the one after the last is thread->visits + 1: whoever keeps it spares the
 * processor a load of what it has just stored. */
static inline void
_tarn_thread_end_visit (TarnThread *thread, guint visit)
{
  __atomic_store_n (&thread->visits, visit + 1, __ATOMIC_RELEASE);
}

gboolean _tarn_thread_begin_fenced_visit (TarnThread *thread, guint visit, const TarnDoor *door);

/* Whether the door is open; then the thread is inside until _tarn_thread_end_visit (), and must not
 * wait, nor enter anything else, before.  FALSE, too, where there must be a fence: whoever calls
 * this one calls that one then, where it costs those nothing that need no fence. */
static inline gboolean
_tarn_thread_begin_visit (TarnThread *thread, guint visit, const TarnDoor *door)
{
#ifdef TARN_THREAD_SANITIZER
  return _tarn_thread_begin_fenced_visit (thread, visit, door);
#else
  __atomic_store_n (&thread->visits, visit, __ATOMIC_RELAXED);
  __atomic_signal_fence (__ATOMIC_SEQ_CST);
  if (TARN_LIKELY (__atomic_load_n (door, __ATOMIC_ACQUIRE) == TARN_DOOR_OPEN))
    return TRUE;
  _tarn_thread_end_visit (thread, visit);
  return FALSE;
#endif
}

static inline gboolean
_tarn_thread_enter (TarnThread *thread, const TarnDoor *door)
{
  guint visit = thread->visits + 1;

  return _tarn_thread_begin_visit (thread, visit, door)
         || _tarn_thread_begin_fenced_visit (thread, visit + 2, door);
}

static inline void
_tarn_thread_leave (TarnThread *thread)
{
  _tarn_thread_end_visit (thread, thread->visits);
}

/* Nobody is inside after it is closed, until it is opened.  The mutex that goes with the door is
 * held. */
void _tarn_door_close (TarnDoor *door);
void _tarn_door_open (TarnDoor *door);

static inline gboolean
_tarn_door_needs_fence (const TarnDoor *door)
{
  return __atomic_load_n (door, __ATOMIC_RELAXED) == TARN_DOOR_OPEN_WITH_FENCE;
}

static inline gboolean
_tarn_door_is_closed (const TarnDoor *door)
{
  return __atomic_load_n (door, __ATOMIC_RELAXED) == TARN_DOOR_CLOSED;
}

#endif
