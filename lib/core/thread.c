/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The list of threads that call Tarn, and waiting for them (thread-private.h). */

#include "thread-private.h"

#include <stdlib.h>
#include <string.h>

#include "fork-private.h"

#ifdef __linux__
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#define call_membarrier(command) syscall (SYS_membarrier, (command), 0, 0)
#else
#define MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED 0
#define MEMBARRIER_CMD_PRIVATE_EXPEDITED 0
#define call_membarrier(command) (-1)
#endif

_Thread_local TarnThread *_tarn_current_thread;
gboolean _tarn_has_membarrier;

static TarnMutex lock = TARN_MUTEX_INIT; /* of is_taken, and for adding to the list */
static TarnThread *threads;              /* atomic: the latest; nothing is ever taken out */

static void
end_thread (gpointer data)
{
  TarnThread *thread = data;

  _tarn_current_thread = NULL;
  if (_tarn_forked ())
    return;
  _tarn_mutex_lock (&lock);
  thread->is_taken = FALSE;
  _tarn_mutex_unlock (&lock);
}

static void
find_membarrier (void)
{
#ifndef TARN_THREAD_SANITIZER
  _tarn_has_membarrier = call_membarrier (MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
#endif
}

/* The lock is held. */
static TarnThread *
add_thread (void)
{
  TarnThread *first = threads;
  TarnThread *thread = aligned_alloc (G_ALIGNOF (TarnThread), sizeof *thread);

  if (thread == NULL)
    g_error ("no memory for what is known of a thread");
  memset (thread, 0, sizeof *thread);
  thread->number = first != NULL ? first->number + 1 : 0;
  thread->next = first;
  if (first == NULL)
    find_membarrier ();
  __atomic_store_n (&threads, thread, __ATOMIC_RELEASE);
  return thread;
}

TarnThread *
_tarn_thread_register (void)
{
  static GPrivate at_end = G_PRIVATE_INIT (end_thread);
  TarnThread *thread;

  _tarn_mutex_lock (&lock);
  thread = threads;
  while (thread != NULL && thread->is_taken)
    thread = thread->next;
  if (thread == NULL)
    thread = add_thread ();
  thread->is_taken = TRUE;
  _tarn_mutex_unlock (&lock);

  _tarn_current_thread = thread;
  g_private_set (&at_end, thread);
  return thread;
}

/* With ThreadSanitizer, which knows no fences, the loads and stores themselves are in one order. */
static void
make_stores_visible (void)
{
#ifndef TARN_THREAD_SANITIZER
  if (!_tarn_has_membarrier)
    __atomic_thread_fence (__ATOMIC_SEQ_CST);
  else if (call_membarrier (MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0)
    g_error ("membarrier worked before, and does not now");
#endif
}

static void
await_thread (const TarnThread *thread)
{
  guint visits = __atomic_load_n (&thread->visits, __ATOMIC_SEQ_CST);

  while (visits % 2 != 0 && __atomic_load_n (&thread->visits, __ATOMIC_ACQUIRE) == visits)
    g_thread_yield ();
}

void
_tarn_threads_await (void)
{
  TarnThread *self = _tarn_thread_self ();
  TarnThread *thread;

  make_stores_visible ();
  for (thread = __atomic_load_n (&threads, __ATOMIC_ACQUIRE); thread != NULL; thread = thread->next)
    if (thread != self)
      await_thread (thread);
}
