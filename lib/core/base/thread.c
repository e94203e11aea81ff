/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The records of the threads that call Tarn, and the locks for read sections (TarnDoor), at which
 * writers wait until no reader is in a read section (thread-private.h). */

#define _GNU_SOURCE 1 /* makes <sched.h> declare cpu_set_t */

#include "base/thread-private.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/fork-private.h"

#ifdef __linux__
#include <linux/membarrier.h>
#include <sched.h>
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

/* Guards the threads' records, and the slots that pools have in the records.  A thread takes this
 * lock before the lock of a pool. */
static TarnMutex lock = TARN_MUTEX_INIT;
/* A list of the records that ended threads have left, linked by TarnThread.next. */
static TarnThread *left_threads;
static guint n_threads; /* the number of all records, of living and of ended threads */
/* An array of TarnThreadEndFunc, one function for each slot.  (Each thread can keep an item for a
 * pool in the slot of the pool.)  NULL if no slot was ever taken. */
static GArray *end_funcs;
/* An array of guint: the numbers of the slots that no pool uses.  NULL if end_funcs is NULL. */
static GArray *free_slots;

/* Guards the list of living threads.  A thread that reads the list holds this lock, or the lock of
 * the threads' records.  A thread that changes the list holds both locks.  A thread that stops read
 * sections takes this lock after the locks of pools and memos.  While a thread holds this lock, it
 * takes no other lock. */
static TarnMutex living_lock = TARN_MUTEX_INIT;
static TarnThread *living_threads; /* the list of living threads, linked by TarnThread.next */

/* Adds a record to the list of living threads.  The caller holds the lock of the threads'
 * records. */
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

/* Moves a record from the list of living threads to the list of records that later threads can
 * take.  The caller holds the lock of the threads' records. */
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

/* Runs when the calling thread ends.  Frees the items that pools keep with the thread, and leaves
 * the thread's record to a later thread. */
static void
end_thread (gpointer data)
{
  TarnThread *thread = data;

  _tarn_current_thread = &_tarn_ended_thread;
  thread->is_taken = FALSE;
  thread->system_number = 0;
  thread->step_time = 0;
  g_clear_pointer (&thread->tags, g_array_unref);
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

/* Returns a record that an ended thread has left, or a new record if there is none.  The caller
 * holds the lock of the threads' records. */
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

/* Gives the calling thread a record.  Returns NULL if the thread is ending and has given up its
 * record already. */
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

/* Functions that assign slots, in which threads keep items for pools */

/* Returns the number of a slot, in which each thread can keep an item for one pool.  Takes a free
 * slot if there is one, and makes a new slot otherwise.  The numbers count from 0.  @at_end frees
 * such an item when the thread ends. */
guint
_tarn_threads_take_slot (TarnThreadEndFunc at_end)
{
  guint slot;
  TARN_LOCKED (&lock);

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
  return slot;
}

/* Frees a slot, in which threads keep items for one pool.  Afterwards no thread has an item in the
 * slot, and no TarnThreadEndFunc of an ended thread is still running for the slot. */
void
_tarn_threads_give_slot (guint slot)
{
  TARN_LOCKED (&lock);

  for (TarnThread *thread = living_threads; thread != NULL; thread = thread->next)
    if (slot < thread->n_items)
      thread->items[slot] = NULL;
  g_array_append_val (free_slots, slot);
}

/* Stores an item of a pool with the calling thread, in the pool's slot. */
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

/* Functions that close and open the locks of read sections (TarnDoor), and begin read sections that
 * need a fence */

/* The number of times that a writer yields the processor while it waits for a reader to leave its
 * read section.  After that, the writer sleeps between its checks. */
#define N_YIELDS 20

/* A time in microseconds after which the other processors see every earlier store of a processor.
 * No known processor delays a store for more than a thousandth of this time. */
#define STORING_TIME (10 * G_TIME_SPAN_MILLISECOND)

/* Atomic: TRUE if the kernel refuses membarrier now, although membarrier worked at first.  This
 * happens if the program enters a sandbox. */
static gboolean membarrier_is_gone;

/* Returns TRUE if membarrier works.  The first call registers the process for membarrier with the
 * kernel.  Returns FALSE under ThreadSanitizer, which does not support fences; instead, all loads
 * and stores of readers and writers are then sequentially consistent. */
static gboolean
has_membarrier (void)
{
#ifdef TARN_THREAD_SANITIZER
  return FALSE;
#else
  static gsize answer = 0; /* 0: not known yet; 1: membarrier does not work; 2: membarrier works */

  if (g_once_init_enter (&answer))
    g_once_init_leave (&answer,
                       1 + (call_membarrier (MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0));
  return answer == 2 && !__atomic_load_n (&membarrier_is_gone, __ATOMIC_RELAXED);
#endif
}

/* Moves this thread to each processor that it may use, one after another, as a substitute for
 * membarrier.  A processor executes a full fence when the kernel switches threads there.  So
 * afterwards every reader has executed a fence.  If a reader ran on a processor when this thread
 * came there, the kernel switched from the reader to this thread.  If the reader had already left
 * that processor, the kernel switched from the reader when it left.
 *
 * Returns FALSE if this thread could not run on one of the processors. */
static gboolean
visit_processors (void)
{
#ifdef __linux__
  gboolean has_been_there = TRUE;
  cpu_set_t before, one;

  if (sched_getaffinity (0, sizeof before, &before) != 0)
    return FALSE;
  for (guint i = 0; i < CPU_SETSIZE && has_been_there; i++)
    {
      CPU_ZERO (&one);
      CPU_SET (i, &one);
      /* EINVAL: the processor does not exist, or this process may not use it. */
      has_been_there = sched_setaffinity (0, sizeof one, &one) == 0 || errno == EINVAL;
    }
  return sched_setaffinity (0, sizeof before, &before) == 0 && has_been_there;
#else
  return FALSE;
#endif
}

/* Makes every reader execute a fence after all stores of this thread, usually by membarrier.
 *
 * If the kernel begins to refuse membarrier, this function uses substitutes.  It needs them only
 * for locks that a writer opened before the refusal (see thread-private.h), because their readers
 * may rely on the writer's membarrier.  If a writer opens a lock after the refusal, it allows only
 * read sections in which the reader executes the fence itself.
 *
 * The first substitute is visit_processors ().  If it fails, this function waits for STORING_TIME.
 * This is enough in practice: a processor executes a fence when it switches to another thread, and
 * a processor that does not switch delays a store by some microseconds at most.  No architecture
 * guarantees such a maximum, but no processor is known that exceeds it. */
static void
fence_readers (void)
{
  if (has_membarrier () && call_membarrier (MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0)
    return;
  __atomic_store_n (&membarrier_is_gone, TRUE, __ATOMIC_RELAXED);
  if (!visit_processors ())
    g_usleep (STORING_TIME);
}

/* Makes the counter of this thread odd by a store that is also a fence, and returns the state of
 * @door.  If the state allows the caller's kind of read section, the thread is in one now.
 * Otherwise the caller makes the counter even again. */
static TarnDoorState
begin_fenced (TarnThread *thread, guint visit, const TarnDoor *door)
{
  g_assert (visit % 2 == 1);
  __atomic_store_n (&thread->visits, visit, __ATOMIC_SEQ_CST);
  return __atomic_load_n (door, __ATOMIC_SEQ_CST);
}

/* Begins a fenced read section, in which the reader executes a fence.  Returns TRUE if the thread
 * is in the read section now.  Returns FALSE if the lock @door is closed, or allows only traced
 * read sections. */
gboolean
_tarn_thread_begin_fenced_visit (TarnThread *thread, guint visit, const TarnDoor *door)
{
  TarnDoorState state = begin_fenced (thread, visit, door);

  if (state != TARN_DOOR_CLOSED && state != TARN_DOOR_OPEN_FOLLOWED)
    return TRUE;
  _tarn_thread_end_visit (thread, visit);
  return FALSE;
}

/* Begins a traced read section, in which the reader executes a fence, and also records or counts
 * its request.  Returns TRUE if the thread is in the read section now.  Returns FALSE if the lock
 * @door does not allow traced read sections. */
gboolean
_tarn_thread_begin_followed_visit (TarnThread *thread, guint visit, const TarnDoor *door)
{
  if (begin_fenced (thread, visit, door) == TARN_DOOR_OPEN_FOLLOWED)
    return TRUE;
  _tarn_thread_end_visit (thread, visit);
  return FALSE;
}

#ifdef TARN_THREAD_SANITIZER
/* Replaces the function for plain read sections under ThreadSanitizer: begins a fenced read section
 * instead.  Returns TRUE if the thread is in the read section now.  Returns FALSE if the lock @door
 * is closed, or if its state makes all requests take the slow path. */
gboolean
_tarn_thread_begin_sanitized_visit (TarnThread *thread, guint visit, const TarnDoor *door)
{
  TarnDoorState state = begin_fenced (thread, visit, door);

  if (state == TARN_DOOR_OPEN || state == TARN_DOOR_OPEN_WITH_FENCE)
    return TRUE;
  _tarn_thread_end_visit (thread, visit);
  return FALSE;
}
#endif

/* Waits until another thread has left its current read section, if it is in one.  The thread may
 * enter another read section meanwhile, but not a read section of the lock that the caller has
 * closed.  Yields the processor a few times, then sleeps: the other thread may need the caller's
 * processor, and a yield does not give the processor to a thread of lower priority. */
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

/* Waits until each other thread has left its current read section.  Holds the lock of the list of
 * living threads.  A thread that registers meanwhile takes this lock later, and then sees that read
 * sections are stopped, so this function need not wait for the new thread. */
static void
await_threads (void)
{
  const TarnThread *self = _tarn_current_thread;
  TARN_LOCKED (&living_lock);

  for (TarnThread *thread = living_threads; thread != NULL; thread = thread->next)
    if (thread != self)
      await_thread (thread);
}

/* Returns TRUE if the process has other threads that may be in a read section.  This function holds
 * the lock of the list of living threads.  A thread that registers afterwards takes this lock
 * later, and so sees all earlier stores. */
static gboolean
has_others (void)
{
  gboolean is_alone;

  _tarn_mutex_lock (&living_lock);
  is_alone = living_threads == NULL
             || (living_threads == _tarn_current_thread && living_threads->next == NULL);
  _tarn_mutex_unlock (&living_lock);
  return !is_alone;
}

/* Closes a lock for read sections, so that no reader can enter, and waits until no other thread is
 * in a read section. */
void
_tarn_door_close (TarnDoor *door)
{
  gboolean needs_fence = !_tarn_door_is_unusual (door);

  g_assert (!_tarn_door_is_closed (door));
  __atomic_store_n (door, TARN_DOOR_CLOSED, __ATOMIC_SEQ_CST);
  if (!has_others ())
    return;
  if (needs_fence)
    fence_readers ();
  await_threads ();
}

/* Allows only the read sections that may begin in @state, one of the open states.  A reader that
 * enters sees all that was written before this call. */
void
_tarn_door_open_as (TarnDoor *door, TarnDoorState state)
{
  __atomic_store_n (door, state, __ATOMIC_RELEASE);
}

/* Allows plain read sections, the cheapest kind.  If the kernel has no membarrier, allows fenced
 * read sections instead, in which the reader executes a fence.  A thread that enters sees all that
 * was written while the lock @door was closed. */
void
_tarn_door_open (TarnDoor *door)
{
  _tarn_door_open_as (door, has_membarrier () ? TARN_DOOR_OPEN : TARN_DOOR_OPEN_WITH_FENCE);
}

GThread *
_tarn_own_thread_new (const gchar *name, GThreadFunc func, gpointer data, GError **error)
{
  sigset_t all, before;
  GThread *thread;

  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &before);
  thread = g_thread_try_new (name, func, data, error);
  pthread_sigmask (SIG_SETMASK, &before, NULL);
  return thread;
}
