/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The limit of a pool and what is under it: pools that have one themselves, and queues that give
 * memory back when they come to it. */

#include <string.h>

#include "lib/pool-fixture.h"
#include "pool/pool-private.h"

#define LIMIT 4096

typedef PoolFixture Fixture;

static void
set_up (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  pool_fixture_init_limited (fixture, LIMIT);
}

/* A pool over a pool with a limit: what it holds goes back, as if that were a device, then the
 * exact size is tried, and then it is what upstream says. */
static void
test_held (Fixture *fixture, gconstpointer unused)
{
  static const gsize sizes[] = { 1023, 511, 1023, 127 };
  g_autoptr (TarnPool) outer = pool_new_limited (TARN_ALLOCATOR (fixture->pool), 0);
  g_autoptr (GError) error = NULL;
  TarnBlock *block, *other;

  (void) unused;
  pool_hold (outer, sizes, G_N_ELEMENTS (sizes)); /* 2,684 */
  block = allocate (outer, 2047);
  g_assert_cmpuint (get_stats (outer).held_blocks, ==, 1); /* both of 1,023, and 511 */
  g_assert_cmpuint (get_stats (outer).failures, ==, 0);
  other = allocate (outer, 2048); /* 2,303, if rounded by either */
  g_assert_cmpuint (tarn_block_get_alloc_size (other), ==, 2048);
  g_assert_cmpuint (get_stats (outer).held_blocks, ==, 0);
  tarn_block_free (other);

  g_assert_null (tarn_pool_allocate (outer, 2050, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
  g_assert_nonnull (strstr (error->message, "2050 bytes asked for, 2047 active, 0 held: pool"));
  tarn_block_free (block);
}

/* The upper pool's own limit is none of upstream's: it gives back what it has to, and no more. */
static void
test_two_limits (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) outer = pool_new_limited (TARN_ALLOCATOR (fixture->pool), 2047);
  TarnBlock *block = allocate (outer, 1023), *other;

  (void) unused;
  tarn_block_free (allocate (outer, 127));
  assert_fails (outer, 1025, TARN_ERROR_LIMIT);
  g_assert_cmpuint (get_stats (outer).held_blocks, ==, 1);
  g_assert_cmpuint (get_stats (outer).upstream_failures, ==, 0);
  other = allocate (fixture->pool, 2559);
  assert_fails (outer, 1024, TARN_ERROR_LIMIT); /* for which upstream was asked */
  g_assert_cmpuint (get_stats (outer).held_blocks, ==, 0);
  tarn_block_free (other);
  tarn_block_free (block);
}

/* A queue on which memory goes back only when somebody waits for it */

typedef struct
{
  TarnAllocator *allocator;
  TarnMemory memory; /* that is to go back */
  gsize size;        /* 0: none is */
  guint n_waits;
} Lazy;

static gboolean
lazy_allocate (gpointer data, gsize size, TarnMemory *memory, GError **error)
{
  return tarn_allocator_allocate_memory (((Lazy *) data)->allocator, size, memory, error);
}

static void
lazy_free (gpointer data, TarnMemory memory, gsize size)
{
  tarn_allocator_free_memory (((Lazy *) data)->allocator, memory, size);
}

static gboolean
lazy_free_on_queue (gpointer data, TarnMemory memory, gsize size, gpointer queue)
{
  Lazy *lazy = data;

  g_assert_true (queue == lazy);
  g_assert_cmpuint (lazy->size, ==, 0);
  lazy->memory = memory;
  lazy->size = size;
  return TRUE;
}

static gboolean
lazy_ref (gpointer data, gpointer queue, gboolean *in_order, GError **error)
{
  (void) error;
  *in_order = TRUE;
  return queue == data;
}

static void
lazy_forget (gpointer data, gpointer item)
{
  g_assert_true (item == data);
}

static gpointer
lazy_record (gpointer data, gpointer queue, GError **error)
{
  (void) queue;
  (void) error;
  return data;
}

static gboolean
lazy_is_done (gpointer data, gpointer event)
{
  (void) data;
  (void) event;
  return FALSE;
}

static gboolean
lazy_wait (gpointer data, gpointer event, gpointer queue, GError **error)
{
  Lazy *lazy = data;

  (void) event;
  (void) error;
  if (queue == NULL)
    lazy->n_waits++;
  return TRUE;
}

static TarnAllocator *
lazy_allocator_new (Lazy *lazy)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

  ops.name = "lazy";
  ops.allocate = lazy_allocate;
  ops.free = lazy_free;
  ops.queue_ref = lazy_ref;
  ops.queue_unref = lazy_forget;
  ops.event_record = lazy_record;
  ops.event_is_done = lazy_is_done;
  ops.event_wait = lazy_wait;
  ops.event_release = lazy_forget;
  ops.free_on_queue = lazy_free_on_queue;
  return tarn_allocator_new (&ops, lazy, NULL);
}

/* What a queue is yet to give back is there: with a limit the host waits for it, or the device
 * would run out below the limit. */
static void
test_on_queue (Fixture *fixture, gconstpointer has_limit)
{
  Lazy lazy = { .allocator = tarn_testing_device_allocator_new (fixture->device) };
  g_autoptr (TarnAllocator) allocator = lazy_allocator_new (&lazy);
  TarnPool *pool = pool_new_limited (allocator, has_limit != NULL ? LIMIT : 0);
  g_autoptr (GError) error = NULL;
  TarnBlock *block;

  block = tarn_pool_allocate_ordered (pool, 3071, &lazy, &error);
  g_assert_no_error (error);
  tarn_pool_stop_holding (pool);
  tarn_block_free (block);
  if (has_limit != NULL)
    {
      g_assert_cmpuint (lazy.n_waits, ==, 1);
      tarn_block_free (allocate (pool, LIMIT - 1));
      g_assert_cmpuint (get_stats (pool).upstream_failures, ==, 0);
    }
  else
    {
      g_assert_cmpuint (lazy.n_waits, ==, 0);
      g_assert_cmpuint (lazy.size, ==, 3071);
      lazy_free (&lazy, lazy.memory, lazy.size);
    }
  tarn_pool_unref (pool);
  tarn_allocator_unref (lazy.allocator);
}

/* An adaptor over a pool with a limit, whose memory another thread is just giving back */

typedef struct
{
  TarnAllocator *allocator;
  TarnMutex lock;
  TarnCond changed;
  gboolean is_freeing, may_free;
  TarnPool *pool;  /* over this */
  TarnPool *outer; /* over an adaptor over that */
  TarnBlock *block;
} Slow;

static gboolean
slow_allocate (gpointer data, gsize size, TarnMemory *memory, GError **error)
{
  return tarn_allocator_allocate_memory (((Slow *) data)->allocator, size, memory, error);
}

static void
slow_free (gpointer data, TarnMemory memory, gsize size)
{
  Slow *slow = data;

  _tarn_mutex_lock (&slow->lock);
  slow->is_freeing = TRUE;
  _tarn_cond_broadcast (&slow->changed);
  while (!slow->may_free)
    _tarn_cond_wait (&slow->changed, &slow->lock);
  _tarn_mutex_unlock (&slow->lock);
  tarn_allocator_free_memory (slow->allocator, memory, size);
}

static TarnAllocator *
slow_allocator_new (Slow *slow)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

  ops.allocate = slow_allocate;
  ops.free = slow_free;
  return tarn_allocator_new (&ops, slow, NULL);
}

static gboolean
adaptor_allocate (gpointer data, gsize size, TarnMemory *memory, GError **error)
{
  return tarn_allocator_allocate_memory (data, size, memory, error);
}

static void
adaptor_free (gpointer data, TarnMemory memory, gsize size)
{
  tarn_allocator_free_memory (data, memory, size);
}

static TarnAllocator *
adaptor_new (TarnAllocator *below)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

  ops.allocate = adaptor_allocate;
  ops.free = adaptor_free;
  ops.below = below;
  return tarn_allocator_new (&ops, below, NULL);
}

static gpointer
free_held_slowly (gpointer data)
{
  tarn_pool_free_held (((Slow *) data)->pool);
  return NULL;
}

static gpointer
ask_through_adaptor (gpointer data)
{
  Slow *slow = data;

  g_atomic_pointer_set (&slow->block, tarn_pool_allocate (slow->outer, 3071, NULL));
  return NULL;
}

/* Has another thread free what the pool holds, and come as far as the backend. */
static GThread *
begin_to_free (Slow *slow)
{
  GThread *thread = g_thread_new ("free", free_held_slowly, slow);

  _tarn_mutex_lock (&slow->lock);
  while (!slow->is_freeing)
    _tarn_cond_wait (&slow->changed, &slow->lock);
  _tarn_mutex_unlock (&slow->lock);
  return thread;
}

static gboolean
is_awaited (TarnPool *pool)
{
  gboolean is_awaited;

  _tarn_mutex_lock (&pool->lock);
  is_awaited = pool->returning.calls.n_waiting > 0;
  _tarn_mutex_unlock (&pool->lock);
  return is_awaited;
}

/* A request waits for that memory, although it comes from inside a function of a backend. */
static void
test_below (Fixture *fixture, gconstpointer unused)
{
  Slow slow = { .allocator = tarn_testing_device_allocator_new (fixture->device) };
  g_autoptr (TarnAllocator) allocator = slow_allocator_new (&slow);
  g_autoptr (TarnAllocator) adaptor = NULL;
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  TarnPool *lowest;
  GThread *threads[2];

  (void) unused;
  _tarn_mutex_init (&slow.lock);
  _tarn_cond_init (&slow.changed);
  options.hold_bytes = 1;
  lowest = tarn_pool_new (allocator, &options, NULL); /* it holds nothing */
  slow.pool = pool_new_limited (TARN_ALLOCATOR (lowest), LIMIT);
  tarn_pool_unref (lowest);
  adaptor = adaptor_new (TARN_ALLOCATOR (slow.pool));
  slow.outer = pool_new_limited (adaptor, 2 * LIMIT);
  tarn_block_free (allocate (slow.pool, 2047));
  threads[0] = begin_to_free (&slow);
  threads[1] = g_thread_new ("ask", ask_through_adaptor, &slow);
  while (get_stats (slow.outer).failures == 0 && !is_awaited (slow.pool))
    g_thread_yield ();
  _tarn_mutex_lock (&slow.lock);
  slow.may_free = TRUE;
  _tarn_cond_broadcast (&slow.changed);
  _tarn_mutex_unlock (&slow.lock);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  g_assert_nonnull (slow.block);
  tarn_block_free (slow.block);
  tarn_pool_unref (slow.outer);
  g_clear_pointer (&adaptor, tarn_allocator_unref);
  tarn_pool_unref (slow.pool);
  tarn_allocator_unref (slow.allocator);
  _tarn_cond_clear (&slow.changed);
  _tarn_mutex_clear (&slow.lock);
}

int
main (int argc, char **argv)
{
#define ADD(path, func, data)                                                                      \
  g_test_add ("/core/limit-upstream/" path, Fixture, data, set_up, func,                           \
              pool_fixture_tear_down_limited)
  g_test_init (&argc, &argv, NULL);
  ADD ("held", test_held, NULL);
  ADD ("below", test_below, NULL);
  ADD ("two-limits", test_two_limits, NULL);
  ADD ("on-queue/limit", test_on_queue, "");
  ADD ("on-queue/no-limit", test_on_queue, NULL);
  return g_test_run ();
}
