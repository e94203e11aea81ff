/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Mutexes, condition variables and one-time initialization.  Usually, GLib implements them.  In
 * builds with ThreadSanitizer, pthreads implement them, because ThreadSanitizer does not see the
 * locks of a GLib that is not instrumented, and would report races between accesses that a GMutex
 * guards. */

#ifndef TARN_LOCK_PRIVATE_H
#define TARN_LOCK_PRIVATE_H

#include <glib.h>

#if defined(__SANITIZE_THREAD__)
#define TARN_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TARN_THREAD_SANITIZER 1
#endif
#endif

#include <pthread.h>
#include <time.h>

#ifdef TARN_THREAD_SANITIZER

typedef pthread_mutex_t TarnPlainMutex;
typedef pthread_cond_t TarnCond;
typedef pthread_once_t TarnOnce;

#define TARN_PLAIN_MUTEX_INIT PTHREAD_MUTEX_INITIALIZER
#define TARN_COND_INIT PTHREAD_COND_INITIALIZER
#define TARN_ONCE_INIT PTHREAD_ONCE_INIT
#define _tarn_plain_init(mutex) ((void) pthread_mutex_init ((mutex), NULL))
#define _tarn_plain_clear(mutex) ((void) pthread_mutex_destroy (mutex))
#define _tarn_plain_lock(mutex) ((void) pthread_mutex_lock (mutex))
#define _tarn_plain_trylock(mutex) (pthread_mutex_trylock (mutex) == 0)
#define _tarn_plain_unlock(mutex) ((void) pthread_mutex_unlock (mutex))
#define _tarn_plain_wait(cond, mutex) ((void) pthread_cond_wait ((cond), (mutex)))
#define _tarn_cond_init(cond) ((void) pthread_cond_init ((cond), NULL))
#define _tarn_cond_clear(cond) ((void) pthread_cond_destroy (cond))
#define _tarn_cond_broadcast(cond) ((void) pthread_cond_broadcast (cond))
#define _tarn_once(once, func) ((void) pthread_once ((once), (func)))

/* Waits like g_cond_wait_until ().  A condition variable that PTHREAD_COND_INITIALIZER made waits
 * by the clock of g_get_real_time ().  @end_time is by the clock of g_get_monotonic_time (), so
 * this function converts it. */
static inline gboolean
_tarn_plain_wait_until (TarnCond *cond, TarnPlainMutex *mutex, gint64 end_time)
{
  gint64 left = end_time - g_get_monotonic_time ();
  /* Read the real-time clock after the monotonic clock.  A delay between the two calls then makes
   * the wait longer, not shorter: a wait must not end before @end_time. */
  gint64 now = g_get_real_time ();
  gint64 real = now + MIN (left, G_MAXINT64 - now);
  struct timespec end
      = { (time_t) (real / G_USEC_PER_SEC), (glong) (real % G_USEC_PER_SEC) * 1000 };

  return pthread_cond_timedwait (cond, mutex, &end) == 0;
}

#else

typedef GMutex TarnPlainMutex;
typedef GCond TarnCond;
typedef gsize TarnOnce;

/* clang-format off */
#define TARN_PLAIN_MUTEX_INIT { 0 }
#define TARN_COND_INIT { 0 }
/* clang-format on */
#define TARN_ONCE_INIT 0
#define _tarn_plain_init(mutex) g_mutex_init (mutex)
#define _tarn_plain_clear(mutex) g_mutex_clear (mutex)
#define _tarn_plain_lock(mutex) g_mutex_lock (mutex)
#define _tarn_plain_trylock(mutex) g_mutex_trylock (mutex)
#define _tarn_plain_unlock(mutex) g_mutex_unlock (mutex)
#define _tarn_plain_wait(cond, mutex) g_cond_wait ((cond), (mutex))
#define _tarn_plain_wait_until(cond, mutex, end_time)                                              \
  g_cond_wait_until ((cond), (mutex), (end_time))
#define _tarn_cond_init(cond) g_cond_init (cond)
#define _tarn_cond_clear(cond) g_cond_clear (cond)
#define _tarn_cond_broadcast(cond) g_cond_broadcast (cond)

static inline void
_tarn_once (TarnOnce *once, void (*func) (void))
{
  if (g_once_init_enter (once))
    {
      func ();
      g_once_init_leave (once, 1);
    }
}

#endif

/* A mutex.  In builds with assertions, the struct stores the thread that holds the mutex, so that a
 * function can assert that its caller holds the lock. */
typedef struct
{
  TarnPlainMutex plain;
  /* Atomic: the thread that holds the mutex; 0 if no thread holds it.  Builds without assertions do
   * not set this field. */
  guintptr owner;
} TarnMutex;

/* clang-format off */
#define TARN_MUTEX_INIT { TARN_PLAIN_MUTEX_INIT, 0 }
/* clang-format on */

#if defined(TARN_DEBUG_LEVEL) && TARN_DEBUG_LEVEL >= 1
/* The number of mutexes that the calling thread holds.  Every file defines the counter as weak, and
 * the linker keeps one definition for each library, so each library counts its own mutexes. */
extern _Thread_local guint _tarn_n_locks;
_Thread_local guint _tarn_n_locks __attribute__ ((weak, visibility ("hidden")));

static inline void
_tarn_count_lock (guintptr owner)
{
  _tarn_n_locks += owner != 0 ? 1 : (guint) -1;
}

#define _tarn_mutex_set_owner(mutex, thread)                                                       \
  (_tarn_count_lock ((guintptr) (thread)),                                                         \
   __atomic_store_n (&(mutex)->owner, (guintptr) (thread), __ATOMIC_RELAXED))
#define _tarn_mutex_is_mine(mutex)                                                                 \
  (__atomic_load_n (&(mutex)->owner, __ATOMIC_RELAXED) == (guintptr) pthread_self ())
#define _tarn_assert_locked(mutex) g_assert (_tarn_mutex_is_mine (mutex))
#define _tarn_assert_not_locked(mutex) g_assert (!_tarn_mutex_is_mine (mutex))
/* Asserts that the calling thread holds no lock.  Functions use this before they wait or call a
 * callback. */
#define _tarn_assert_no_locks() g_assert (_tarn_n_locks == 0)
#else
#define _tarn_assert_no_locks() ((void) 0)
#define _tarn_mutex_set_owner(mutex, thread) ((void) (mutex))
#define _tarn_assert_locked(mutex) ((void) (mutex))
#define _tarn_assert_not_locked(mutex) ((void) (mutex))
#endif

static inline void
_tarn_mutex_init (TarnMutex *mutex)
{
  _tarn_plain_init (&mutex->plain);
  mutex->owner = 0;
}

static inline void
_tarn_mutex_clear (TarnMutex *mutex)
{
  _tarn_plain_clear (&mutex->plain);
}

static inline void
_tarn_mutex_lock (TarnMutex *mutex)
{
  _tarn_assert_not_locked (mutex);
  _tarn_plain_lock (&mutex->plain);
  _tarn_mutex_set_owner (mutex, pthread_self ());
}

static inline gboolean
_tarn_mutex_trylock (TarnMutex *mutex)
{
  if (!_tarn_plain_trylock (&mutex->plain))
    return FALSE;
  _tarn_mutex_set_owner (mutex, pthread_self ());
  return TRUE;
}

static inline void
_tarn_mutex_unlock (TarnMutex *mutex)
{
  _tarn_assert_locked (mutex);
  _tarn_mutex_set_owner (mutex, 0);
  _tarn_plain_unlock (&mutex->plain);
}

static inline void
_tarn_mutex_end_scope (TarnMutex **mutex)
{
  _tarn_mutex_unlock (*mutex);
}

static inline TarnMutex *
_tarn_mutex_begin_scope (TarnMutex *mutex)
{
  _tarn_mutex_lock (mutex);
  return mutex;
}

/* TARN_LOCKED (mutex) locks a mutex.  At the end of the enclosing block it unlocks the mutex. */
#define TARN_LOCKED(mutex)                                                                         \
  __attribute__ ((cleanup (_tarn_mutex_end_scope), unused)) TarnMutex *locked                      \
      = _tarn_mutex_begin_scope (mutex)

static inline void
_tarn_cond_wait (TarnCond *cond, TarnMutex *mutex)
{
  _tarn_assert_locked (mutex);
  _tarn_mutex_set_owner (mutex, 0);
  _tarn_plain_wait (cond, &mutex->plain);
  _tarn_mutex_set_owner (mutex, pthread_self ());
}

/* Waits until a condition is signalled, or until the time @end_time by the clock of
 * g_get_monotonic_time ().  Returns FALSE if no signal came before that time. */
static inline gboolean
_tarn_cond_wait_until (TarnCond *cond, TarnMutex *mutex, gint64 end_time)
{
  gboolean is_early;

  _tarn_assert_locked (mutex);
  _tarn_mutex_set_owner (mutex, 0);
  is_early = _tarn_plain_wait_until (cond, &mutex->plain, end_time);
  _tarn_mutex_set_owner (mutex, pthread_self ());
  return is_early;
}

/* The longest pause between two attempts to take a lock, in iterations of _tarn_pause ().  All
 * pauses together take a few microseconds, about as long as a thread needs to sleep and be
 * woken. */
#define TARN_MAX_PAUSE 32

static inline void
_tarn_pause (guint n)
{
  for (guint i = 0; i < n; i++)
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause ();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#else
    __atomic_signal_fence (__ATOMIC_SEQ_CST);
#endif
}

/* Takes a lock; spins for a few microseconds before it sleeps.  Use this for a lock that threads
 * hold for less time than a thread needs to sleep and be woken. */
static inline void
_tarn_mutex_lock_adaptively (TarnMutex *mutex)
{
  for (guint pause = 1; pause <= TARN_MAX_PAUSE; pause *= 2)
    {
      if (_tarn_mutex_trylock (mutex))
        return;
      _tarn_pause (pause);
    }
  _tarn_mutex_lock (mutex);
}

#endif
