/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The threads that call Tarn, and waiting for them (thread-private.h). */

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
TarnThread _tarn_no_thread, _tarn_ended_thread;

/* Of records and slots.  It is taken before the locks of pools. */
static TarnMutex lock = TARN_MUTEX_INIT;
static TarnThread *left_threads; /* records that ended threads have left; through next */
static guint n_threads;          /* records that there are */
static GArray *end_funcs;        /* of TarnThreadEndFunc, by slots; NULL: there never was one */
static GArray *free_slots;       /* of guint; made with end_funcs */

/* Of the list of living threads, which changes with both locks held.  It is taken after the locks
 * of pools and memos, by those who close doors, and none is taken while it is held. */
static TarnMutex living_lock = TARN_MUTEX_INIT;
static TarnThread *living_threads; /* through next */

/* Adds a record to the list of living threads.  The lock is held. */
static void
add_living (TarnThread *thread)
{
  _tarn_assert_locked (&lock);
  _tarn_mutex_lock (&living_lock);
  thread->next = living_threads;
  thread->link = &living_threads;
  if (thread->next != NULL)
    thread->next->link = &thread->next;
  living_threads = thread;
  _tarn_mutex_unlock (&living_lock);
}

/* Takes a record out of the list of living threads, for a later thread.  The lock is held. */
static void
leave_record (TarnThread *thread)
{
  _tarn_assert_locked (&lock);
  g_assert (thread->visits % 2 == 0);
  _tarn_mutex_lock (&living_lock);
  *thread->link = thread->next;
  if (thread->next != NULL)
    thread->next->link = thread->link;
  _tarn_mutex_unlock (&living_lock);
  thread->next = left_threads;
  left_threads = thread;
}

/* Ends what others keep with a thread, as it ends, and leaves its record to a later one. */
static void
end_thread (gpointer data)
{
  TarnThread *thread = data;

  _tarn_current_thread = &_tarn_ended_thread;
  thread->is_taken = FALSE;
  if (_tarn_forked ())
    return;
  _tarn_mutex_lock (&lock);
  for (guint i = 0; i < thread->n_items; i++)
    if (thread->items[i] != NULL)
      {
        g_array_index (end_funcs, TarnThreadEndFunc, i) (thread->items[i]);
        thread->items[i] = NULL;
      }
  leave_record (thread);
  _tarn_mutex_unlock (&lock);
}

/* Takes a record that an ended thread has left, or makes one.  The lock is held. */
static TarnThread *
take_record (void)
{
  TarnThread *thread = left_threads;

  _tarn_assert_locked (&lock);
  if (thread != NULL)
    {
      left_threads = thread->next;
      return thread;
    }
  thread = _tarn_aligned_new0 (TarnThread);
  thread->number = n_threads++;
  return thread;
}

/* Gives the calling thread a record.  NULL: it has had one, and is ending. */
TarnThread *
_tarn_thread_register (void)
{
  static GPrivate at_end = G_PRIVATE_INIT (end_thread);
  TarnThread *thread;

  if (_tarn_current_thread == &_tarn_ended_thread)
    return NULL;
  g_assert (_tarn_current_thread == &_tarn_no_thread);
  _tarn_mutex_lock (&lock);
  thread = take_record ();
  thread->is_taken = TRUE;
  add_living (thread);
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
  for (TarnThread *thread = living_threads; thread != NULL; thread = thread->next)
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

/* How often one that closes a door yields to a thread inside before it sleeps. */
#define N_YIELDS 20

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
 * not by the door that was closed before.  It may need this very processor, and not get it as long
 * as this thread comes first there, so yielding is not enough. */
static void
await_thread (const TarnThread *thread)
{
  guint visits = __atomic_load_n (&thread->visits, __ATOMIC_SEQ_CST);
  guint round = 0;

  while (visits % 2 != 0 && __atomic_load_n (&thread->visits, __ATOMIC_ACQUIRE) == visits)
    if (round++ < N_YIELDS)
      g_thread_yield ();
    else
      g_usleep (MIN (10 * (round - N_YIELDS), 1000));
}

/* Waits until no thread but this one is inside of what it may be inside of now.  One that registers
 * meanwhile is in the list, or takes the list's lock after this, and sees all that was stored
 * before. */
static void
await_threads (void)
{
  const TarnThread *self = _tarn_current_thread;

  _tarn_mutex_lock (&living_lock);
  for (TarnThread *thread = living_threads; thread != NULL; thread = thread->next)
    if (thread != self)
      await_thread (thread);
  _tarn_mutex_unlock (&living_lock);
}

/* Closes a door, and waits until no thread but this one is inside. */
void
_tarn_door_close (TarnDoor *door)
{
  g_assert (!_tarn_door_is_closed (door));
  __atomic_store_n (door, TARN_DOOR_CLOSED, __ATOMIC_SEQ_CST);
  if (has_membarrier () && call_membarrier (MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0)
    g_error ("membarrier worked before, and does not now");
  await_threads ();
}

/* Opens a door, and publishes what was written while it was closed. */
void
_tarn_door_open (TarnDoor *door)
{
  __atomic_store_n (door, has_membarrier () ? TARN_DOOR_OPEN : TARN_DOOR_OPEN_WITH_FENCE,
                    __ATOMIC_RELEASE);
}
