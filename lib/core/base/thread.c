/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The list of threads that call Tarn, and waiting for them (thread-private.h). */

#include "base/thread-private.h"

#include <stdlib.h>
#include <string.h>

#include "base/fork-private.h"

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

_Thread_local TarnThread *_tarn_current_thread = &_tarn_no_thread;
TarnThread _tarn_no_thread;

/* Of is_taken, of slots, and for adding to the list.  It is taken before the locks of pools. */
static TarnMutex lock = TARN_MUTEX_INIT;
static TarnThread *threads; /* atomic: the latest; nothing is ever taken out */
static GArray *end_funcs;   /* of TarnThreadEndFunc, by slots; NULL: there never was one */
static GArray *free_slots;  /* of guint; made with end_funcs */

/* Ends what others keep with a thread, as it ends, and leaves its record to a later one. */
static void
end_thread (gpointer data)
{
  TarnThread *thread = data;

  _tarn_current_thread = &_tarn_no_thread;
  if (_tarn_forked ())
    return;
  _tarn_mutex_lock (&lock);
  for (guint i = 0; i < thread->n_items; i++)
    if (thread->items[i] != NULL)
      {
        g_array_index (end_funcs, TarnThreadEndFunc, i) (thread->items[i]);
        thread->items[i] = NULL;
      }
  thread->is_taken = FALSE;
  _tarn_mutex_unlock (&lock);
}

/* Adds a record to the list.  The lock is held. */
static TarnThread *
add_thread (void)
{
  TarnThread *first = threads;
  TarnThread *thread = _tarn_aligned_new0 (TarnThread);

  _tarn_assert_locked (&lock);
  thread->number = first != NULL ? first->number + 1 : 0;
  thread->next = first;
  __atomic_store_n (&threads, thread, __ATOMIC_SEQ_CST);
  return thread;
}

/* Gives the calling thread a record: one that an ended thread has left, or a fresh one. */
TarnThread *
_tarn_thread_register (void)
{
  static GPrivate at_end = G_PRIVATE_INIT (end_thread);
  TarnThread *thread;

  g_assert (_tarn_current_thread == &_tarn_no_thread);
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

/* Slots of what threads keep */

/* Takes a slot, from 0 on, no larger than need be. */
guint
_tarn_threads_take_slot (TarnThreadEndFunc at_end)
{
  guint slot;

  _tarn_mutex_lock (&lock);
  if (end_funcs == NULL)
    {
      end_funcs = g_array_new (FALSE, FALSE, sizeof (TarnThreadEndFunc));
      free_slots = g_array_new (FALSE, FALSE, sizeof (guint));
    }
  slot = end_funcs->len;
  if (free_slots->len > 0)
    {
      slot = g_array_index (free_slots, guint, free_slots->len - 1);
      g_array_set_size (free_slots, free_slots->len - 1);
    }
  else
    g_array_set_size (end_funcs, slot + 1);
  g_array_index (end_funcs, TarnThreadEndFunc, slot) = at_end;
  _tarn_mutex_unlock (&lock);
  return slot;
}

/* Gives a slot back.  No thread has anything there afterwards, nor is the end function of one that
 * has ended still running. */
void
_tarn_threads_give_slot (guint slot)
{
  _tarn_mutex_lock (&lock);
  for (TarnThread *thread = threads; thread != NULL; thread = thread->next)
    if (slot < thread->n_items)
      thread->items[slot] = NULL;
  g_array_append_val (free_slots, slot);
  _tarn_mutex_unlock (&lock);
}

/* Has the calling thread keep an item. */
void
_tarn_thread_set_item (TarnThread *thread, guint slot, gpointer item)
{
  g_assert (thread == _tarn_current_thread);
  _tarn_mutex_lock (&lock);
  if (slot >= thread->n_items)
    {
      guint n = MAX (slot + 1, 2 * thread->n_items);

      thread->items = g_renew (gpointer, thread->items, n);
      memset (thread->items + thread->n_items, 0, (n - thread->n_items) * sizeof (gpointer));
      thread->n_items = n;
    }
  thread->items[slot] = item;
  _tarn_mutex_unlock (&lock);
}

/* Doors */

/* Tells whether the kernel executes fences for readers; the first call asks it to be ready to.
 * Never with ThreadSanitizer, which knows no fences: there loads and stores themselves are in one
 * order. */
static gboolean
has_membarrier (void)
{
#ifdef TARN_THREAD_SANITIZER
  return FALSE;
#else
  static gsize answer = 0; /* 1: no; 2: yes */

  if (g_once_init_enter (&answer))
    g_once_init_leave (&answer,
                       1 + (call_membarrier (MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0));
  return answer == 2;
#endif
}

/* Begins a visit with a fence of the reader's own.  TRUE: the thread is inside. */
gboolean
_tarn_thread_begin_fenced_visit (TarnThread *thread, guint visit, const TarnDoor *door)
{
  g_assert (visit % 2 == 1);
  __atomic_store_n (&thread->visits, visit, __ATOMIC_SEQ_CST);
  if (__atomic_load_n (door, __ATOMIC_SEQ_CST) != TARN_DOOR_CLOSED)
    return TRUE;
  _tarn_thread_end_visit (thread, visit);
  return FALSE;
}

/* Waits until a thread has left whatever it is inside of now.  It may enter again meanwhile, but
 * not by the door that was closed before. */
static void
await_thread (const TarnThread *thread)
{
  guint visits = __atomic_load_n (&thread->visits, __ATOMIC_SEQ_CST);

  while (visits % 2 != 0 && __atomic_load_n (&thread->visits, __ATOMIC_ACQUIRE) == visits)
    g_thread_yield ();
}

/* Closes a door, and waits until no thread but this one is inside.  A thread whose record is added
 * after the list was read comes in later than the store below, and sees the door closed. */
void
_tarn_door_close (TarnDoor *door)
{
  const TarnThread *self = _tarn_current_thread;
  const TarnThread *thread;

  g_assert (!_tarn_door_is_closed (door));
  __atomic_store_n (door, TARN_DOOR_CLOSED, __ATOMIC_SEQ_CST);
  if (has_membarrier () && call_membarrier (MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0)
    g_error ("membarrier worked before, and does not now");
  for (thread = __atomic_load_n (&threads, __ATOMIC_SEQ_CST); thread != NULL; thread = thread->next)
    if (thread != self)
      await_thread (thread);
}

/* Opens a door, and publishes what was written while it was closed. */
void
_tarn_door_open (TarnDoor *door)
{
  __atomic_store_n (door, has_membarrier () ? TARN_DOOR_OPEN : TARN_DOOR_OPEN_WITH_FENCE,
                    __ATOMIC_RELEASE);
}
