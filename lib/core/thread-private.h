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

#include "lock-private.h"

typedef struct _TarnThread TarnThread;

/* What one thread writes is this far from what others do: processors fetch lines by pairs. */
#define TARN_CACHE_LINES 128

/* Records are never freed: a thread that ends leaves its record, with its number, to a later one.
 * Thus numbers stay as small as the most threads that there were at a time. */
struct _TarnThread
{
  guint visits;      /* atomic, written by the thread alone; odd: it is inside */
  guint number;      /* constant, from 0 on */
  gboolean is_taken; /* behind the lock of the list */
  TarnThread *next;  /* constant */

  /* memo-compute.c */
  struct _TarnComputation *innermost;         /* the thread's own: what it is computing */
  const struct _TarnComputation *waiting_for; /* behind the lock of all computations */
} __attribute__ ((aligned (TARN_CACHE_LINES)));

extern _Thread_local TarnThread *_tarn_current_thread
    __attribute__ ((visibility ("hidden"), tls_model ("initial-exec")));

/* Constant once there is a thread: whether a plain store is enough. */
extern gboolean _tarn_has_membarrier __attribute__ ((visibility ("hidden")));

TarnThread *_tarn_thread_register (void);

/* Waits until no thread but this one is inside what it entered before this call. */
void _tarn_threads_await (void);

static inline TarnThread *
_tarn_thread_self (void)
{
  return G_LIKELY (_tarn_current_thread != NULL) ? _tarn_current_thread : _tarn_thread_register ();
}

static inline void
_tarn_thread_leave (TarnThread *thread)
{
  __atomic_store_n (&thread->visits, thread->visits + 1, __ATOMIC_RELEASE);
}

/* Whether the door is open; then the thread is inside until _tarn_thread_leave (), and must not
 * wait, nor enter anything else, before. */
static inline gboolean
_tarn_thread_enter (TarnThread *thread, const gint *is_closed)
{
#ifdef TARN_THREAD_SANITIZER
  __atomic_store_n (&thread->visits, thread->visits + 1, __ATOMIC_SEQ_CST);
  if (!__atomic_load_n (is_closed, __ATOMIC_SEQ_CST))
    return TRUE;
#else
  __atomic_store_n (&thread->visits, thread->visits + 1, __ATOMIC_RELAXED);
  if (G_LIKELY (_tarn_has_membarrier))
    __atomic_signal_fence (__ATOMIC_SEQ_CST);
  else
    __atomic_thread_fence (__ATOMIC_SEQ_CST);
  if (!__atomic_load_n (is_closed, __ATOMIC_ACQUIRE))
    return TRUE;
#endif
  _tarn_thread_leave (thread);
  return FALSE;
}

/* Nobody is inside afterwards, until it is opened.  The mutex that goes with the door is held. */
static inline void
_tarn_door_close (gint *is_closed)
{
  __atomic_store_n (is_closed, TRUE, __ATOMIC_SEQ_CST);
  _tarn_threads_await ();
}

static inline void
_tarn_door_open (gint *is_closed)
{
  __atomic_store_n (is_closed, FALSE, __ATOMIC_RELEASE);
}

#endif
