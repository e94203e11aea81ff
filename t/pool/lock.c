/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Mutexes that know their owner, where there are assertions. */

#include "common/lock-private.h"
#include "pool/pool-private.h"

#if defined(TARN_DEBUG_LEVEL) && TARN_DEBUG_LEVEL >= 1

static TarnMutex mutex = TARN_MUTEX_INIT;
static TarnCond changed;
static gboolean is_set;

static void
assert_locked (gconstpointer unused)
{
  (void) unused;
  _tarn_assert_locked (&mutex);
}

static void
lock_twice (gconstpointer unused)
{
  (void) unused;
  _tarn_mutex_lock (&mutex);
  _tarn_mutex_lock (&mutex);
}

static void
unlock_what_is_not_locked (gconstpointer unused)
{
  (void) unused;
  _tarn_mutex_unlock (&mutex);
}

static gpointer
unlock (gpointer unused)
{
  _tarn_mutex_unlock (&mutex);
  return unused;
}

static void
unlock_what_is_anothers (gconstpointer unused)
{
  (void) unused;
  _tarn_mutex_lock (&mutex);
  g_thread_join (g_thread_new ("other", unlock, NULL));
}

/* With --enable-debug, calling the backend while the thread holds a lock is a failed assertion. */
static gboolean
allocate_nothing (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  (void) user_data;
  (void) size;
  (void) memory;
  (void) error;
  return TRUE;
}

static void
free_nothing (gpointer user_data, TarnMemory memory, gsize size)
{
  (void) user_data;
  (void) memory;
  (void) size;
}

static void
call_with_lock (gconstpointer unused)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  g_autoptr (TarnAllocator) allocator = NULL;
  TarnMemory memory;

  (void) unused;
  ops.allocate = allocate_nothing;
  ops.free = free_nothing;
  allocator = tarn_allocator_new (&ops, NULL, NULL);
  g_assert_true (tarn_allocator_allocate_memory (allocator, 1, &memory, NULL));
  _tarn_mutex_lock (&mutex);
  tarn_allocator_free_memory (allocator, memory, 1);
}

/* What has gone back is not held again. */
static void
take_a_wrong_turn (gconstpointer unused)
{
  TarnBlock block = { .state = TARN_BLOCK_VACANT };

  (void) unused;
  _tarn_block_set_state (&block, TARN_BLOCK_HELD);
}

static gpointer
set (gpointer unused)
{
  _tarn_mutex_lock (&mutex);
  is_set = TRUE;
  _tarn_cond_broadcast (&changed);
  _tarn_mutex_unlock (&mutex);
  return unused;
}

static void
test_owner (void)
{
  GThread *thread;

  g_assert_false (_tarn_mutex_is_mine (&mutex));
  _tarn_mutex_lock (&mutex);
  _tarn_assert_locked (&mutex);
  thread = g_thread_new ("set", set, NULL);
  while (!is_set)
    _tarn_cond_wait (&changed, &mutex);
  _tarn_assert_locked (&mutex);
  _tarn_mutex_unlock (&mutex);
  _tarn_assert_not_locked (&mutex);
  g_thread_join (thread);
  g_assert_true (_tarn_mutex_trylock (&mutex));
  _tarn_assert_locked (&mutex);
  _tarn_mutex_unlock (&mutex);
}

static void
test_wait_until (void)
{
  GThread *thread;
  gint64 end_time = g_get_monotonic_time () + 10000;
  gboolean is_early = TRUE;

  is_set = FALSE;
  _tarn_mutex_lock (&mutex);
  while (is_early)
    is_early = _tarn_cond_wait_until (&changed, &mutex, end_time);
  _tarn_assert_locked (&mutex);
  g_assert_cmpint (g_get_monotonic_time (), >=, end_time);
  thread = g_thread_new ("set", set, NULL);
  end_time += 60 * G_USEC_PER_SEC;
  while (!is_set)
    g_assert_true (_tarn_cond_wait_until (&changed, &mutex, end_time));
  _tarn_assert_locked (&mutex);
  _tarn_mutex_unlock (&mutex);
  g_thread_join (thread);
}

typedef void (*Mistake) (gconstpointer unused);

static void
test_mistake (gconstpointer mistake)
{
  if (g_test_subprocess ())
    {
      ((Mistake) mistake) (NULL);
      return;
    }
  g_test_trap_subprocess (NULL, 0, 0);
  g_test_trap_assert_failed ();
  g_test_trap_assert_stderr ("*assertion failed*");
}

#define ADD_MISTAKE(mistake)                                                                       \
  g_test_add_data_func ("/core/lock/" #mistake, (gconstpointer) (mistake), test_mistake)

static void
add_tests (void)
{
  _tarn_cond_init (&changed);
  g_test_add_func ("/core/lock/owner", test_owner);
  g_test_add_func ("/core/lock/wait-until", test_wait_until);
  ADD_MISTAKE (assert_locked);
  ADD_MISTAKE (lock_twice);
  ADD_MISTAKE (unlock_what_is_not_locked);
  ADD_MISTAKE (unlock_what_is_anothers);
  ADD_MISTAKE (take_a_wrong_turn);
  ADD_MISTAKE (call_with_lock);
}

#else

static void
test_nothing (void)
{
  g_test_skip ("locks know their owner in builds with --enable-debug only");
}

static void
add_tests (void)
{
  g_test_add_func ("/core/lock/owner", test_nothing);
}

#endif

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  add_tests ();
  return g_test_run ();
}
