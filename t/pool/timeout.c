/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Requests that wait until other threads free memory: who wakes them, when they give up, and when
 * they do not wait at all. */

#include "common/lock-private.h"
#include "lib/pool-fixture.h"
#include "pool/pool-private.h"

#define SIZE ((gsize) 1023) /* the largest of its bin */
#define LITTLE (20 * G_TIME_SPAN_MILLISECOND)
#define N_WORKERS 6

/* There is room for three blocks. */
static void
set_up (PoolFixture *fixture, gconstpointer unused)
{
  (void) unused;
  pool_fixture_init (fixture, 3 * SIZE);
}

static void
set_up_limited (PoolFixture *fixture, gconstpointer unused)
{
  (void) unused;
  pool_fixture_init_limited (fixture, 3 * SIZE);
}

static TarnBlock *
allocate_in_time (TarnPool *pool, gsize size)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_pool_allocate_timeout (pool, size, NULL, -1, &error);

  g_assert_no_error (error);
  g_assert_nonnull (block);
  assert_valid (pool);
  return block;
}

static void
assert_fails_in (TarnPool *pool, gsize size, gint64 microseconds, gint code)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (tarn_pool_allocate_timeout (pool, size, NULL, microseconds, &error));
  g_assert_error (error, TARN_ERROR, code);
  assert_valid (pool);
}

/* Nobody waits any more, and threads keep blocks again. */
static void
assert_is_as_before (TarnPool *pool)
{
  g_assert_cmpuint (pool->room.n_waiting, ==, 0);
  g_assert_false (_tarn_door_is_closed (&pool->door));
}

/* Another thread */

typedef void (*OtherFunc) (TarnPool *pool, TarnBlock **blocks);

typedef struct
{
  TarnPool *waited; /* until somebody waits for it */
  TarnPool *pool;
  TarnBlock *blocks[3];
  OtherFunc func;
  GThread *thread;
  gboolean is_user;  /* it uses the pool before, so that it may keep some */
  gboolean is_ready; /* atomic: it has */
} Other;

static void
await_waiting (TarnPool *pool)
{
  guint n_waiting;

  do
    {
      g_thread_yield ();
      _tarn_mutex_lock (&pool->lock);
      n_waiting = pool->room.n_waiting;
      _tarn_mutex_unlock (&pool->lock);
    }
  while (n_waiting == 0);
}

static gpointer
run_other (gpointer data)
{
  Other *other = data;

  if (other->is_user)
    tarn_block_free (allocate (other->pool, 1));
  __atomic_store_n (&other->is_ready, TRUE, __ATOMIC_RELEASE);
  await_waiting (other->waited);
  other->func (other->pool, other->blocks);
  for (guint i = 0; i < G_N_ELEMENTS (other->blocks); i++)
    g_clear_pointer (&other->blocks[i], tarn_block_free);
  return NULL;
}

static void
other_begin (Other *other)
{
  other->thread = g_thread_new ("other", run_other, other);
  while (!__atomic_load_n (&other->is_ready, __ATOMIC_ACQUIRE))
    g_thread_yield ();
}

static void
free_one (TarnPool *pool, TarnBlock **blocks)
{
  (void) pool;
  g_clear_pointer (&blocks[0], tarn_block_free);
}

/* What they free */

/* A thread frees a block that it would keep for itself, and goes on to use the others until the
 * request has it. */
static gpointer
free_and_go_on (gpointer data)
{
  Other *other = data;
  TarnBlock *blocks[3];

  for (guint i = 0; i < 3; i++) /* of which the thread keeps some */
    blocks[i] = allocate (other->pool, SIZE);
  for (guint i = 0; i < 3; i++)
    tarn_block_free (blocks[i]);
  for (guint i = 0; i < 3; i++)
    blocks[i] = allocate (other->pool, SIZE);
  __atomic_store_n (&other->blocks[0], blocks[0], __ATOMIC_RELEASE); /* the device is full */
  await_waiting (other->pool);
  tarn_block_free (blocks[1]);
  while (__atomic_load_n (&other->blocks[0], __ATOMIC_ACQUIRE) != NULL)
    g_thread_yield ();
  tarn_block_free (blocks[0]);
  tarn_block_free (blocks[2]);
  return NULL;
}

static void
test_kept (PoolFixture *fixture, gconstpointer unused)
{
  Other other = { .pool = fixture->pool };
  GThread *thread = g_thread_new ("other", free_and_go_on, &other);

  (void) unused;
  while (__atomic_load_n (&other.blocks[0], __ATOMIC_ACQUIRE) == NULL)
    g_thread_yield ();
  tarn_block_free (allocate_in_time (fixture->pool, SIZE));
  __atomic_store_n (&other.blocks[0], NULL, __ATOMIC_RELEASE);
  g_thread_join (thread);
  assert_is_as_before (fixture->pool);
  g_assert_cmpuint (get_stats (fixture->pool).failures, ==, 0);
}

/* What threads have kept until then is there for everybody. */
static void
test_flushed (PoolFixture *fixture, gconstpointer unused)
{
  g_autoptr (GPtrArray) pools = g_ptr_array_new ();
  TarnRoomWait wait;

  (void) unused;
  for (guint i = 0; i < 3; i++)
    tarn_block_free (allocate (fixture->pool, SIZE >> i));
  g_assert_cmpuint (fixture->pool->stats.held_blocks, ==, 0); /* in bins */
  g_ptr_array_add (pools, fixture->pool);
  _tarn_room_begin (&wait, pools);
  g_assert_cmpuint (fixture->pool->stats.held_blocks, ==, 3);
  assert_valid (fixture->pool);
  _tarn_room_end (&wait);
  assert_is_as_before (fixture->pool);
}

/* A block of another size: it has to go back first. */
static void
test_other_size (PoolFixture *fixture, gconstpointer unused)
{
  Other other = { fixture->pool, fixture->pool, { NULL }, free_one, NULL, FALSE, FALSE };

  (void) unused;
  other.blocks[0] = allocate (fixture->pool, 2 * SIZE + 1);
  other.blocks[1] = allocate (fixture->pool, 63);
  other_begin (&other);
  tarn_block_free (allocate_in_time (fixture->pool, SIZE));
  g_thread_join (other.thread);
  assert_is_as_before (fixture->pool);
}

/* As many as it takes: the request is tried again after each. */
static void
free_all (TarnPool *pool, TarnBlock **blocks)
{
  guint64 reclaims;

  for (guint i = 0; i < 3; i++)
    {
      reclaims = get_stats (pool).reclaims;
      g_clear_pointer (&blocks[i], tarn_block_free);
      while (i == 0 && get_stats (pool).reclaims == reclaims)
        g_thread_yield ();
    }
}

static void
test_several (PoolFixture *fixture, gconstpointer unused)
{
  Other other = { fixture->pool, fixture->pool, { NULL }, free_all, NULL, FALSE, FALSE };

  (void) unused;
  for (guint i = 0; i < 3; i++)
    other.blocks[i] = allocate (fixture->pool, SIZE);
  other_begin (&other);
  tarn_block_free (allocate_in_time (fixture->pool, 2 * SIZE + 1));
  g_thread_join (other.thread);
  g_assert_cmpuint (get_stats (fixture->pool).failures, ==, 0);
  g_assert_cmpuint (get_stats (fixture->pool).hits + get_stats (fixture->pool).misses, ==, 4);
}

static void
uncharge (TarnPool *pool, TarnBlock **blocks)
{
  (void) blocks;
  tarn_pool_uncharge (pool, 2 * SIZE);
  while (get_stats (pool).active_blocks == 0)
    g_thread_yield ();
}

/* A charge that is taken back makes room; nothing else was in use. */
static void
test_charge (PoolFixture *fixture, gconstpointer unused)
{
  Other other = { fixture->pool, fixture->pool, { NULL }, uncharge, NULL, FALSE, FALSE };
  TarnBlock *block;

  (void) unused;
  g_assert_true (tarn_pool_charge (fixture->pool, 3 * SIZE, NULL));
  other_begin (&other);
  block = allocate_in_time (fixture->pool, SIZE);
  g_thread_join (other.thread);
  tarn_block_free (block);
  tarn_pool_uncharge (fixture->pool, SIZE);
  assert_is_as_before (fixture->pool);
}

static void
raise_limit (TarnPool *pool, TarnBlock **blocks)
{
  (void) blocks;
  tarn_pool_set_limit_bytes (pool, 4 * SIZE);
  while (get_stats (pool).active_blocks < 4)
    g_thread_yield ();
}

static void
test_limit (PoolFixture *fixture, gconstpointer unused)
{
  Other other = { fixture->pool, fixture->pool, { NULL }, raise_limit, NULL, FALSE, FALSE };
  TarnBlock *block;

  (void) unused;
  tarn_testing_device_set_budget (fixture->device, 4 * SIZE);
  for (guint i = 0; i < 3; i++)
    other.blocks[i] = allocate (fixture->pool, SIZE);
  other_begin (&other);
  block = allocate_in_time (fixture->pool, SIZE);
  g_thread_join (other.thread);
  tarn_block_free (block);
  tarn_pool_set_limit_bytes (fixture->pool, 0);
}

/* Another pool of the group, where threads keep what they free. */
static void
test_group (PoolFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnReclaimGroup) group = tarn_reclaim_group_new ();
  g_autoptr (TarnPool) second = tarn_pool_new (tarn_pool_get_upstream (fixture->pool), NULL, NULL);
  Other other = { fixture->pool, second, { NULL }, free_one, NULL, FALSE, FALSE };

  (void) unused;
  tarn_pool_set_reclaim_group (fixture->pool, group);
  tarn_pool_set_reclaim_group (second, group);
  tarn_block_free (allocate (second, SIZE));
  for (guint i = 0; i < 3; i++)
    other.blocks[i] = allocate (second, SIZE);
  other_begin (&other);
  tarn_block_free (allocate_in_time (fixture->pool, SIZE));
  g_thread_join (other.thread);
  assert_is_as_before (fixture->pool);
  assert_is_as_before (second);
}

/* A pool of the group may lose its last reference meanwhile. */
static void
drop_pool (TarnPool *pool, TarnBlock **blocks)
{
  tarn_pool_unref (pool);
  g_clear_pointer (&blocks[0], tarn_block_free);
}

static void
test_group_ends (PoolFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnReclaimGroup) group = tarn_reclaim_group_new ();
  TarnPool *second = tarn_pool_new (tarn_pool_get_upstream (fixture->pool), NULL, NULL);
  Other other = { fixture->pool, second, { NULL }, drop_pool, NULL, FALSE, FALSE };

  (void) unused;
  tarn_pool_set_reclaim_group (fixture->pool, group);
  tarn_pool_set_reclaim_group (second, group);
  for (guint i = 0; i < 3; i++)
    other.blocks[i] = allocate (second, SIZE);
  other_begin (&other);
  tarn_block_free (allocate_in_time (fixture->pool, SIZE));
  g_thread_join (other.thread);
  assert_is_as_before (fixture->pool);
}

/* A pool that is told to hold nothing any more does not begin again after the wait. */
static void
stop_holding (TarnPool *pool, TarnBlock **blocks)
{
  tarn_pool_stop_holding (pool);
  g_clear_pointer (&blocks[0], tarn_block_free);
}

static void
test_stops_holding (PoolFixture *fixture, gconstpointer unused)
{
  Other other = { fixture->pool, fixture->pool, { NULL }, stop_holding, NULL, FALSE, FALSE };

  (void) unused;
  for (guint i = 0; i < 3; i++)
    other.blocks[i] = allocate (fixture->pool, SIZE);
  other_begin (&other);
  tarn_block_free (allocate_in_time (fixture->pool, SIZE));
  g_thread_join (other.thread);
  g_assert_cmpuint (fixture->pool->room.n_waiting, ==, 0);
  g_assert_cmpuint (get_stats (fixture->pool).held_blocks, ==, 0);
}

/* Over heaps, where threads take memory and give it back without the pool's lock. */
static void
test_heap (gconstpointer kind)
{
  g_autoptr (TarnTestingPages) pages
      = tarn_testing_pages_new (64 << 20, (TarnTestingPagesKind) GPOINTER_TO_UINT (kind));
  g_autoptr (TarnAllocator) driver = tarn_testing_pages_allocator_new (pages);
  g_autoptr (TarnAllocator) heap = tarn_heap_allocator_new (driver, NULL, NULL);
  g_autoptr (TarnPool) pool = tarn_pool_new (heap, NULL, NULL);
  TarnBlock *mine = NULL;

  for (guint round = 0; round < 20; round++)
    {
      Other other = { pool, pool, { NULL }, free_one, NULL, FALSE, FALSE };

      other.blocks[0] = allocate (pool, 24 << 20);
      other.blocks[1] = allocate (pool, 24 << 20);
      other_begin (&other);
      mine = allocate_in_time (pool, 24 << 20);
      g_thread_join (other.thread);
      tarn_block_free (mine);
      assert_is_as_before (pool);
      assert_valid (pool);
    }
  g_assert_cmpuint (get_stats (pool).failures, ==, 0);
  g_clear_pointer (&pool, tarn_pool_unref);
  g_clear_pointer (&heap, tarn_allocator_unref);
  g_clear_pointer (&driver, tarn_allocator_unref);
}

/* What a thread may take without the lock, in a pool with a limit, is not missing for the request
 * that waits. */
static void
use_small_ones (TarnPool *pool, TarnBlock **blocks)
{
  for (guint i = 0; i < 10; i++)
    tarn_block_free (allocate (pool, 1000));
  g_clear_pointer (&blocks[0], tarn_block_free);
  while (get_stats (pool).active_bytes < 64 << 20)
    g_thread_yield ();
}

static void
test_heap_limited (gconstpointer kind)
{
  g_autoptr (TarnTestingPages) pages
      = tarn_testing_pages_new (G_MAXUINT64, (TarnTestingPagesKind) GPOINTER_TO_UINT (kind));
  g_autoptr (TarnAllocator) driver = tarn_testing_pages_allocator_new (pages);
  g_autoptr (TarnAllocator) heap = tarn_heap_allocator_new (driver, NULL, NULL);
  g_autoptr (TarnPool) pool = pool_new_limited (heap, 64 << 20);
  Other other = { pool, pool, { NULL }, use_small_ones, NULL, TRUE, FALSE };
  TarnBlock *block;

  other.blocks[0] = allocate (pool, 31 << 20);
  other.blocks[1] = allocate (pool, 32 << 20);
  other_begin (&other);
  block = allocate_in_time (pool, 32 << 20);
  g_thread_join (other.thread);
  tarn_block_free (block);
  assert_is_as_before (pool);
  g_clear_pointer (&pool, tarn_pool_unref);
  g_clear_pointer (&heap, tarn_allocator_unref);
  g_clear_pointer (&driver, tarn_allocator_unref);
}

/* Without success */

static void
test_timeout (PoolFixture *fixture, gconstpointer unused)
{
  gint64 start = g_get_monotonic_time ();
  TarnBlock *blocks[3];
  guint calls;

  (void) unused;
  for (guint i = 0; i < 3; i++)
    blocks[i] = allocate (fixture->pool, SIZE);
  calls = tarn_testing_device_get_allocate_calls (fixture->device);
  assert_fails_in (fixture->pool, SIZE, LITTLE, TARN_ERROR_OUT_OF_MEMORY);
  g_assert_cmpint (g_get_monotonic_time () - start, >=, LITTLE);
  g_assert_cmpuint (tarn_testing_device_get_allocate_calls (fixture->device), <=, calls + 4);
  g_assert_cmpuint (get_stats (fixture->pool).failures, ==, 1);
  assert_is_as_before (fixture->pool);
  for (guint i = 0; i < 3; i++)
    tarn_block_free (blocks[i]);
  tarn_block_free (allocate_in_time (fixture->pool, SIZE));
}

/* A request of a queue that another pool is to serve is that pool's failure.  Requests of other
 * queues are the pool's own. */

typedef struct
{
  TarnTestingQueues *queues;
  TarnAllocator *allocator;
  TarnPool *pool, *other;
  gpointer queue, own; /* whose requests are the other pool's, and whose are not */
  TarnBlock *blocks[2];
} Redirected;

static TarnPool *
redirect (TarnPool *pool, gpointer queue, gpointer data, GError **error)
{
  const Redirected *r = data;

  (void) pool;
  (void) error;
  return queue == r->queue ? tarn_pool_ref (r->other) : NULL;
}

static void
set_up_redirected (Redirected *r, gconstpointer unused)
{
  (void) unused;
  r->queues = tarn_testing_queues_new (2 * SIZE, 0);
  r->allocator = tarn_testing_queues_allocator_new (r->queues);
  r->pool = tarn_pool_new (r->allocator, NULL, NULL);
  r->other = tarn_pool_new (r->allocator, NULL, NULL);
  r->queue = tarn_testing_queue_new (r->queues, TRUE);
  r->own = tarn_testing_queue_new (r->queues, TRUE);
  r->blocks[0] = allocate (r->pool, SIZE);
  r->blocks[1] = allocate (r->other, SIZE);
  tarn_pool_set_redirect_func (r->pool, redirect, r, NULL);
}

static void
tear_down_redirected (Redirected *r, gconstpointer unused)
{
  (void) unused;
  tarn_pool_set_redirect_func (r->pool, NULL, NULL, NULL);
  for (guint i = 0; i < 2; i++)
    tarn_block_free (r->blocks[i]);
  tarn_pool_unref (r->pool);
  tarn_pool_unref (r->other);
  tarn_allocator_unref (r->allocator);
  tarn_testing_queues_free (r->queues);
}

static void
assert_failures (const Redirected *r, guint64 n, guint64 n_other)
{
  g_assert_cmpuint (get_stats (r->pool).failures, ==, n);
  g_assert_cmpuint (get_stats (r->other).failures, ==, n_other);
}

static void
fail_redirected (const Redirected *r, gpointer queue)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (tarn_pool_allocate_timeout (r->pool, SIZE, queue, LITTLE, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
}

static void
test_redirected (Redirected *r, gconstpointer unused)
{
  (void) unused;
  fail_redirected (r, r->queue);
  assert_failures (r, 0, 1);
  fail_redirected (r, r->own);
  assert_failures (r, 1, 1);
}

/* A request of @queue gets the block of @pool, which another thread frees with @func while the
 * request waits. */
static void
succeed_redirected (Redirected *r, gpointer queue, TarnPool *pool, OtherFunc func)
{
  TarnBlock **block = &r->blocks[pool == r->pool ? 0 : 1];
  Other other = { pool, pool, { *block }, func, NULL, FALSE, FALSE };
  g_autoptr (GError) error = NULL;

  other_begin (&other);
  *block = tarn_pool_allocate_timeout (r->pool, SIZE, queue, -1, &error);
  g_thread_join (other.thread);
  g_assert_no_error (error);
}

/* A request that has waited with success has not failed. */
static void
test_redirected_none (Redirected *r, gconstpointer unused)
{
  (void) unused;
  succeed_redirected (r, r->own, r->pool, free_one);
  assert_failures (r, 0, 0);
}

/* A free in the pool that serves the request wakes it, although the two pools are in no group. */
static void
test_redirected_freed (Redirected *r, gconstpointer unused)
{
  (void) unused;
  succeed_redirected (r, r->queue, r->other, free_one);
  assert_failures (r, 0, 0);
}

/* The function chooses the other pool only when a request waits already. */
static TarnPool *
redirect_later (TarnPool *pool, gpointer unused, gpointer data, GError **error)
{
  const Redirected *r = data;

  (void) unused;
  (void) error;
  return pool->room.n_waiting > 0 ? tarn_pool_ref (r->other) : NULL;
}

static void
test_redirected_later (Redirected *r, gconstpointer unused)
{
  (void) unused;
  tarn_pool_set_redirect_func (r->pool, redirect_later, r, NULL);
  succeed_redirected (r, r->queue, r->other, free_one);
  assert_failures (r, 0, 0);
}

/* The function itself makes requests: of its pool, which fail and which free, and that wait. */
static TarnPool *
redirect_and_request (TarnPool *pool, gpointer queue, gpointer data, GError **error)
{
  const Redirected *r = data;

  (void) error;
  if (queue == r->queue)
    return tarn_pool_ref (r->other);
  fail_redirected (r, r->queue);
  tarn_block_free (tarn_pool_allocate_ordered (pool, 0, NULL, NULL));
  return NULL;
}

static void
test_redirected_within (Redirected *r, gconstpointer unused)
{
  (void) unused;
  tarn_pool_set_redirect_func (r->pool, redirect_and_request, r, NULL);
  fail_redirected (r, r->own);
  g_assert_cmpuint (get_stats (r->pool).failures, ==, 1);
}

/* The function makes a request that waits, for which the function frees. */
static TarnPool *
redirect_nested (TarnPool *pool, gpointer queue, gpointer data, GError **error)
{
  const Redirected *r = data;

  (void) error;
  if (queue != r->queue)
    {
      fail_redirected (r, r->queue);
      return NULL;
    }
  tarn_block_free (tarn_pool_allocate_ordered (pool, 0, NULL, NULL));
  return tarn_pool_ref (r->other);
}

static void
test_redirected_nested (Redirected *r, gconstpointer unused)
{
  (void) unused;
  tarn_pool_set_redirect_func (r->pool, redirect_nested, r, NULL);
  fail_redirected (r, r->own);
}

/* The function chooses a new pool each time. */
static TarnPool *
redirect_to_new (TarnPool *pool, gpointer unused, gpointer data, GError **error)
{
  const Redirected *r = data;

  (void) pool;
  (void) unused;
  (void) error;
  return tarn_pool_new (r->allocator, NULL, NULL);
}

static void
test_redirected_new (Redirected *r, gconstpointer unused)
{
  (void) unused;
  tarn_pool_set_redirect_func (r->pool, redirect_to_new, r, NULL);
  fail_redirected (r, r->queue);
}

/* The function adds the pools to a group while the request waits for the first of them. */
static TarnPool *
redirect_in_group (TarnPool *pool, gpointer unused, gpointer data, GError **error)
{
  const Redirected *r = data;
  g_autoptr (TarnReclaimGroup) group = tarn_pool_get_reclaim_group (pool);

  (void) unused;
  (void) error;
  if (pool->room.n_waiting == 0)
    return NULL;
  g_assert_cmpuint (pool->room.n_waiting, ==, 1);
  if (group == NULL)
    {
      group = tarn_reclaim_group_new ();
      tarn_pool_set_reclaim_group (r->pool, group);
      tarn_pool_set_reclaim_group (r->other, group);
    }
  tarn_block_free (tarn_pool_allocate_ordered (pool, 0, NULL, NULL));
  return tarn_pool_ref (r->other);
}

static void
test_redirected_group (Redirected *r, gconstpointer unused)
{
  (void) unused;
  tarn_pool_set_redirect_func (r->pool, redirect_in_group, r, NULL);
  fail_redirected (r, r->queue);
  tarn_pool_set_reclaim_group (r->pool, NULL);
  tarn_pool_set_reclaim_group (r->other, NULL);
}

/* A request is larger than the limit of the pool that serves it: that is not waited for.  Then only
 * the pool that was asked has such a limit, which does not count. */
static void
test_redirected_limit (Redirected *r, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;

  (void) unused;
  tarn_pool_set_limit_bytes (r->other, SIZE / 2);
  g_assert_null (tarn_pool_allocate_timeout (r->pool, SIZE, r->queue, -1, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
  tarn_pool_set_limit_bytes (r->other, 0);
  tarn_pool_set_limit_bytes (r->pool, SIZE / 2);
  succeed_redirected (r, r->queue, r->other, free_one);
}

/* The function is removed while a request waits, which the pool then serves. */
static void
end_redirect (TarnPool *pool, TarnBlock **blocks)
{
  tarn_pool_set_redirect_func (pool, NULL, NULL, NULL);
  g_clear_pointer (&blocks[0], tarn_block_free);
}

static void
test_redirected_no_more (Redirected *r, gconstpointer unused)
{
  (void) unused;
  assert_fails (r->pool, SIZE, TARN_ERROR_OUT_OF_MEMORY);
  assert_failures (r, 1, 0);
  succeed_redirected (r, r->queue, r->pool, end_redirect);
  assert_failures (r, 1, 0);
}

/* What nobody can free is not waited for, however long the program would. */
static void
test_in_vain (PoolFixture *fixture, gconstpointer unused)
{
  TarnBlock *block;

  (void) unused;
  tarn_testing_device_set_budget (fixture->device, SIZE);
  assert_fails_in (fixture->pool, 2 * SIZE + 1, -1, TARN_ERROR_OUT_OF_MEMORY);
  block = allocate (fixture->pool, SIZE);
  assert_fails_in (fixture->pool, 3 * SIZE + 1, -1, TARN_ERROR_LIMIT); /* above the limit */
  assert_fails_in (fixture->pool, SIZE, 0, TARN_ERROR_OUT_OF_MEMORY);  /* that is no wait */
  assert_fails_in (fixture->pool, G_MAXSIZE, -1, TARN_ERROR_INVALID_SIZE);
  tarn_testing_device_set_max_size (fixture->device, 100);
  assert_fails_in (fixture->pool, SIZE - 300, -1, TARN_ERROR_NOT_SUPPORTED);
  tarn_testing_device_set_max_size (fixture->device, G_MAXSIZE);
  g_assert_cmpuint (get_stats (fixture->pool).failures, ==, 5);
  tarn_block_free (block);
}

/* Several who wait do not keep each other waiting when nothing is in use. */
static gpointer
fail_in_vain (gpointer pool)
{
  assert_fails_in (pool, 4 * SIZE, -1, TARN_ERROR_OUT_OF_MEMORY);
  return NULL;
}

static void
test_in_vain_together (PoolFixture *fixture, gconstpointer unused)
{
  GThread *threads[N_WORKERS];

  (void) unused;
  for (guint round = 0; round < 20; round++)
    {
      for (guint i = 0; i < N_WORKERS; i++)
        threads[i] = g_thread_new ("worker", fail_in_vain, fixture->pool);
      for (guint i = 0; i < N_WORKERS; i++)
        g_thread_join (threads[i]);
    }
  assert_is_as_before (fixture->pool);
}

/* Neither a reclaim function waits, nor a function of the backend. */
static gboolean
wait_inside (TarnPool *pool, gsize wanted, gpointer data)
{
  (void) wanted;
  assert_fails_in (pool, SIZE, -1, TARN_ERROR_OUT_OF_MEMORY);
  ++*(guint *) data;
  return FALSE;
}

static void
wait_in_free (gpointer data)
{
  PoolFixture *fixture = data;

  assert_fails_in (fixture->pool, 2 * SIZE, -1, TARN_ERROR_OUT_OF_MEMORY);
  g_string_append_c (fixture->log, 'F');
}

static void
test_inside (PoolFixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[3];
  guint n_calls = 0, id;

  (void) unused;
  for (guint i = 0; i < 3; i++)
    blocks[i] = allocate (fixture->pool, SIZE);
  id = tarn_pool_add_reclaim_func (fixture->pool, wait_inside, &n_calls, NULL);
  assert_fails (fixture->pool, SIZE, TARN_ERROR_OUT_OF_MEMORY);
  g_assert_cmpuint (n_calls, ==, 1);
  g_assert_true (tarn_pool_remove_reclaim_func (fixture->pool, id));

  tarn_testing_device_set_free_hook (fixture->device, wait_in_free, fixture);
  tarn_block_free (blocks[0]);
  tarn_pool_free_held (fixture->pool);
  tarn_testing_device_set_free_hook (fixture->device, NULL, NULL);
  g_assert_cmpstr (fixture->log->str, ==, "F");
  tarn_block_free (blocks[1]);
  tarn_block_free (blocks[2]);
}

/* What a reclaim function of the request's own frees is no reason to try again. */
static gboolean
use_some (TarnPool *pool, gsize wanted, gpointer data)
{
  (void) wanted;
  tarn_block_free (allocate (pool, 63));
  ++*(guint *) data;
  return FALSE;
}

static void
test_own_frees (PoolFixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[2];
  guint n_calls = 0, id;

  (void) unused;
  for (guint i = 0; i < 2; i++)
    blocks[i] = allocate (fixture->pool, SIZE);
  id = tarn_pool_add_reclaim_func (fixture->pool, use_some, &n_calls, NULL);
  assert_fails_in (fixture->pool, 2 * SIZE + 1, LITTLE, TARN_ERROR_OUT_OF_MEMORY);
  g_assert_cmpuint (n_calls, ==, 2);
  g_assert_true (tarn_pool_remove_reclaim_func (fixture->pool, id));
  for (guint i = 0; i < 2; i++)
    tarn_block_free (blocks[i]);
}

/* Threads */

static gpointer
work (gpointer data)
{
  TarnPool *pool = data;

  for (guint i = 0; i < 200; i++)
    {
      g_autoptr (GError) error = NULL;
      TarnBlock *block = tarn_pool_allocate_timeout (pool, i % 3 == 0 ? 3 * SIZE : SIZE - i % 5,
                                                     NULL, -1, &error);

      g_assert_no_error (error);
      if (i % 7 == 0)
        g_thread_yield ();
      tarn_block_free (block);
    }
  return NULL;
}

static void
run_workers (TarnPool *pool)
{
  GThread *threads[N_WORKERS];

  for (guint i = 0; i < N_WORKERS; i++)
    threads[i] = g_thread_new ("worker", work, pool);
  for (guint i = 0; i < N_WORKERS; i++)
    g_thread_join (threads[i]);
  assert_valid (pool);
  assert_is_as_before (pool);
  g_assert_cmpuint (get_stats (pool).failures, ==, 0);
}

/* More threads than there is memory for: none fails. */
static void
test_threads (PoolFixture *fixture, gconstpointer unused)
{
  (void) unused;
  tarn_testing_device_set_budget (fixture->device, 3 * SIZE + 100);
  tarn_pool_set_limit_bytes (fixture->pool, 0);
  run_workers (fixture->pool);
}

static void
test_threads_limited (PoolFixture *fixture, gconstpointer unused)
{
  (void) unused;
  run_workers (fixture->pool);
}

/* The same with requests of the driver that fail now and then. */
static void
test_threads_failing (PoolFixture *fixture, gconstpointer unused)
{
  TarnBlock *block = allocate (fixture->pool, 1);

  (void) unused;
  tarn_testing_device_set_budget (fixture->device, 3 * SIZE + 100);
  tarn_testing_device_fail_share (fixture->device, 0.02);
  for (guint i = 0; i < 3; i++)
    {
      g_autoptr (GError) error = NULL;
      TarnBlock *other = tarn_pool_allocate_timeout (fixture->pool, SIZE, NULL, LITTLE, &error);

      if (other == NULL)
        g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
      tarn_block_free (other);
    }
  tarn_testing_device_fail_share (fixture->device, 0);
  tarn_block_free (block);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(path, func)                                                                            \
  g_test_add ("/core/timeout/" path, PoolFixture, NULL, set_up, func, pool_fixture_tear_down)
#define ADD_LIMITED(path, func)                                                                    \
  g_test_add ("/core/timeout/" path, PoolFixture, NULL, set_up_limited, func,                      \
              pool_fixture_tear_down_limited)
#define ADD_REDIRECTED(path, func)                                                                 \
  g_test_add ("/core/timeout/" path, Redirected, NULL, set_up_redirected, func,                    \
              tear_down_redirected)
  ADD ("kept", test_kept);
  ADD_LIMITED ("kept-limited", test_kept);
  ADD ("flushed", test_flushed);
  ADD ("other-size", test_other_size);
  ADD ("several", test_several);
  ADD_LIMITED ("limit", test_limit);
  ADD_LIMITED ("charge", test_charge);
  ADD ("group", test_group);
  ADD ("group-ends", test_group_ends);
  ADD ("stops-holding", test_stops_holding);
  g_test_add_data_func ("/core/timeout/heap/virtual", GUINT_TO_POINTER (TARN_TESTING_PAGES_VIRTUAL),
                        test_heap);
  g_test_add_data_func ("/core/timeout/heap/parts", GUINT_TO_POINTER (TARN_TESTING_PAGES_PARTS),
                        test_heap);
  g_test_add_data_func ("/core/timeout/heap-limited/virtual",
                        GUINT_TO_POINTER (TARN_TESTING_PAGES_VIRTUAL), test_heap_limited);
  g_test_add_data_func ("/core/timeout/heap-limited/parts",
                        GUINT_TO_POINTER (TARN_TESTING_PAGES_PARTS), test_heap_limited);
  ADD ("timeout", test_timeout);
  ADD_REDIRECTED ("redirected", test_redirected);
  ADD_REDIRECTED ("redirected-none", test_redirected_none);
  ADD_REDIRECTED ("redirected-freed", test_redirected_freed);
  ADD_REDIRECTED ("redirected-later", test_redirected_later);
  ADD_REDIRECTED ("redirected-within", test_redirected_within);
  ADD_REDIRECTED ("redirected-nested", test_redirected_nested);
  ADD_REDIRECTED ("redirected-new", test_redirected_new);
  ADD_REDIRECTED ("redirected-group", test_redirected_group);
  ADD_REDIRECTED ("redirected-limit", test_redirected_limit);
  ADD_REDIRECTED ("redirected-no-more", test_redirected_no_more);
  ADD_LIMITED ("in-vain", test_in_vain);
  ADD ("in-vain-together", test_in_vain_together);
  ADD ("inside", test_inside);
  ADD ("own-frees", test_own_frees);
  ADD ("threads", test_threads);
  ADD_LIMITED ("threads-limited", test_threads_limited);
  ADD ("threads-failing", test_threads_failing);
  return g_test_run ();
}
