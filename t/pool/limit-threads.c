/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The limit of a pool, with threads: no two of them exceed it together, and a request waits for
 * what another one reserves or frees.  Limits that change meanwhile. */

#include "common/lock-private.h"
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

/* Reservations: an allocator that does something before it answers. */

typedef struct
{
  TarnPool *pool;
  TarnAllocator *allocator; /* that it is over */
  gboolean succeed;
  gint stage; /* atomic; see below */
} Slow;

static gboolean
allocate_with_another (gpointer data, gsize size, TarnMemory *memory, GError **error)
{
  Slow *slow = data;

  if (slow->stage++ == 0)
    {
      TarnBlock *block = allocate (slow->pool, LIMIT - 2047);

      assert_fails (slow->pool, 1, TARN_ERROR_LIMIT);
      tarn_block_free (block);
    }
  return tarn_allocator_allocate_memory (slow->allocator, size, memory, error);
}

static void
free_slow (gpointer data, TarnMemory memory, gsize size)
{
  Slow *slow = data;

  tarn_allocator_free_memory (slow->allocator, memory, size);
}

static void
slow_init (Slow *slow, TarnTestingDevice *device,
           gboolean (*func) (gpointer, gsize, TarnMemory *, GError **))
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  g_autoptr (TarnAllocator) upstream = NULL;

  slow->allocator = tarn_testing_device_allocator_new (device);
  ops.name = "slow";
  ops.allocate = func;
  ops.free = free_slow;
  upstream = tarn_allocator_new (&ops, slow, NULL);
  slow->pool = pool_new_limited (upstream, LIMIT);
}

static void
slow_clear (Slow *slow)
{
  assert_valid (slow->pool);
  tarn_pool_unref (slow->pool);
  tarn_allocator_unref (slow->allocator);
}

/* What is being asked for counts as if it were there already; who asks does not wait for itself. */
static void
test_reserved (Fixture *fixture, gconstpointer unused)
{
  Slow slow = { .stage = 0 };
  TarnBlock *block;

  (void) unused;
  slow_init (&slow, fixture->device, allocate_with_another);
  block = allocate (slow.pool, 2047);
  tarn_block_free (block);
  slow_clear (&slow);
}

/* The first call waits until another thread wants memory, too, goes on waiting for a while, and
 * then gives none. */
static gboolean
fail_slowly (gpointer data, gsize size, TarnMemory *memory, GError **error)
{
  Slow *slow = data;

  if (!g_atomic_int_compare_and_exchange (&slow->stage, 0, 1))
    return tarn_allocator_allocate_memory (slow->allocator, size, memory, error);
  while (g_atomic_int_get (&slow->stage) == 1)
    g_thread_yield ();
  for (guint i = 0; i < 1000; i++)
    g_thread_yield ();
  if (slow->succeed)
    return tarn_allocator_allocate_memory (slow->allocator, size, memory, error);
  g_set_error (error, TARN_ERROR, TARN_ERROR_FAILED, "slow: no %" G_GSIZE_FORMAT " bytes", size);
  return FALSE;
}

static gpointer
allocate_first (gpointer data)
{
  Slow *slow = data;
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_pool_allocate (slow->pool, 3071, &error);

  if (block == NULL)
    g_assert_error (error, TARN_ERROR, TARN_ERROR_FAILED);
  return block;
}

/* A request is refused for what another thread has, and not for what it only asked for.  Whether it
 * does wait for the other thread depends on the scheduler; what becomes of it does not. */
static void
await_reservation (Fixture *fixture, gboolean succeed)
{
  Slow slow = { .succeed = succeed };
  TarnBlock *first, *second;
  g_autoptr (GError) error = NULL;
  GThread *thread;

  slow_init (&slow, fixture->device, fail_slowly);
  thread = g_thread_new ("first", allocate_first, &slow);
  while (g_atomic_int_get (&slow.stage) == 0)
    g_thread_yield ();
  g_atomic_int_set (&slow.stage, 2);
  second = tarn_pool_allocate (slow.pool, 2047, &error);
  first = g_thread_join (thread);
  if (succeed)
    g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
  else
    g_assert_no_error (error);
  g_assert_true ((first != NULL) == succeed);
  tarn_block_free (first);
  tarn_block_free (second);
  slow_clear (&slow);
}

static void
test_await_reservation (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  await_reservation (fixture, FALSE);
  await_reservation (fixture, TRUE);
}

/* Called where a thread gives back: it does not go on before another one counts on that. */
static void
await_claim (gpointer data)
{
  TarnPool *pool = data;
  gsize reserved_bytes;

  do
    {
      g_thread_yield ();
      _tarn_mutex_lock (&pool->lock);
      reserved_bytes = pool->limit.reserved_bytes;
      _tarn_mutex_unlock (&pool->lock);
    }
  while (reserved_bytes == 0);
}

static gpointer
free_held (gpointer pool)
{
  tarn_pool_free_held (pool);
  return NULL;
}

/* What another thread is giving back counts until it has gone, and is waited for. */
static void
test_await_give_back (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *block;
  GThread *thread;

  (void) unused;
  tarn_block_free (allocate (fixture->pool, 3071));
  tarn_testing_device_set_free_hook (fixture->device, await_claim, fixture->pool);
  thread = g_thread_new ("free-held", free_held, fixture->pool);
  while (tarn_pool_get_held_blocks (fixture->pool) > 0)
    g_thread_yield ();
  block = allocate (fixture->pool, 2047);
  g_thread_join (thread);
  tarn_testing_device_set_free_hook (fixture->device, NULL, NULL);
  g_assert_cmpuint (get_stats (fixture->pool).upstream_failures, ==, 0);
  tarn_block_free (block);
}

/* A free function that allocates does not wait for itself. */
static void
allocate_in_free (gpointer data)
{
  Fixture *fixture = data;

  tarn_testing_device_set_free_hook (fixture->device, NULL, NULL);
  assert_fails (fixture->pool, 2047, TARN_ERROR_LIMIT);
  tarn_block_free (allocate (fixture->pool, 1023));
  g_string_append_c (fixture->log, 'F');
}

static void
test_allocate_in_free (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  tarn_block_free (allocate (fixture->pool, 3071));
  tarn_testing_device_set_free_hook (fixture->device, allocate_in_free, fixture);
  tarn_pool_free_held (fixture->pool);
  g_assert_cmpstr (fixture->log->str, ==, "F");
}

/* Calls of the upstream allocator wait until they are let go. */
static gboolean
allocate_when_let_go (gpointer data, gsize size, TarnMemory *memory, GError **error)
{
  Slow *slow = data;

  if (g_atomic_int_compare_and_exchange (&slow->stage, 0, 1))
    while (g_atomic_int_get (&slow->stage) == 1)
      g_thread_yield ();
  return tarn_allocator_allocate_memory (slow->allocator, size, memory, error);
}

static gpointer
allocate_second (gpointer data)
{
  return allocate (((Slow *) data)->pool, 2047);
}

static guint
count_awaiting (TarnPool *pool)
{
  guint n;

  _tarn_mutex_lock (&pool->lock);
  n = pool->limit.n_awaiting;
  _tarn_mutex_unlock (&pool->lock);
  return n;
}

/* Who waits for another request, because both do not fit in, learns that now they do. */
static void
test_raised_meanwhile (Fixture *fixture, gconstpointer limit)
{
  Slow slow = { .stage = 0 };
  TarnBlock *blocks[2];
  GThread *first, *second;

  tarn_testing_device_set_budget (fixture->device, 2 * LIMIT);
  slow_init (&slow, fixture->device, allocate_when_let_go);
  first = g_thread_new ("first", allocate_first, &slow);
  while (g_atomic_int_get (&slow.stage) == 0)
    g_thread_yield ();
  second = g_thread_new ("second", allocate_second, &slow);
  while (count_awaiting (slow.pool) == 0)
    g_thread_yield ();
  tarn_pool_set_limit_bytes (slow.pool, GPOINTER_TO_SIZE (limit));
  blocks[1] = g_thread_join (second);
  g_assert_cmpint (g_atomic_int_get (&slow.stage), ==, 1);
  g_atomic_int_set (&slow.stage, 2);
  blocks[0] = g_thread_join (first);
  for (guint i = 0; i < 2; i++)
    {
      g_assert_nonnull (blocks[i]);
      tarn_block_free (blocks[i]);
    }
  slow_clear (&slow);
}

/* A request that asks upstream already goes by the limit that there was, or by none; others find
 * its bytes taken. */
static void
test_lowered_meanwhile (Fixture *fixture, gconstpointer had_limit)
{
  Slow slow = { .stage = 0 };
  TarnBlock *block;
  GThread *first;

  slow_init (&slow, fixture->device, allocate_when_let_go);
  if (!GPOINTER_TO_INT (had_limit))
    tarn_pool_set_limit_bytes (slow.pool, 0);
  first = g_thread_new ("first", allocate_first, &slow);
  while (g_atomic_int_get (&slow.stage) == 0)
    g_thread_yield ();
  tarn_pool_set_limit_bytes (slow.pool, 1000);
  assert_valid (slow.pool);
  g_atomic_int_set (&slow.stage, 2);
  block = g_thread_join (first);
  g_assert_nonnull (block);
  assert_valid (slow.pool);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (slow.pool), ==, 3071);
  assert_fails (slow.pool, 1, TARN_ERROR_LIMIT);
  tarn_block_free (block);
  block = allocate (slow.pool, 511);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (slow.pool), ==, 511);
  tarn_block_free (block);
  slow_clear (&slow);
}

#define N_THREADS 4
#define LARGEST 65535 /* of its bin, too */

typedef struct
{
  TarnPool *pool;
  guint32 seed;
  guint max_blocks; /* at a time */
  guint refused;
} Worker;

static gpointer
allocate_in_turn (gpointer data)
{
  Worker *worker = data;
  g_autoptr (GRand) rand = g_rand_new_with_seed (worker->seed);
  TarnBlock *blocks[2] = { NULL, NULL };

  for (guint i = 0; i < 4000; i++)
    {
      TarnBlock **place = &blocks[i % worker->max_blocks];
      gsize size = (gsize) g_rand_int_range (rand, 1024, LARGEST + 1);
      g_autoptr (GError) error = NULL;

      tarn_block_free (g_steal_pointer (place));
      *place = tarn_pool_allocate (worker->pool, size, &error);
      worker->refused += *place == NULL;
      if (*place == NULL)
        g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
    }
  tarn_block_free (blocks[0]);
  tarn_block_free (blocks[1]);
  return NULL;
}

/* The device has no byte more than the limit, and is never asked for one.  Gives the requests that
 * were refused. */
static guint
run_threads (guint max_blocks, gsize limit)
{
  TarnTestingDevice *device = tarn_testing_device_new (limit);
  TarnAllocator *allocator = tarn_testing_device_allocator_new (device);
  TarnPool *pool = pool_new_limited (allocator, limit);
  GThread *threads[N_THREADS];
  Worker workers[N_THREADS];
  TarnPoolStats stats;
  guint refused = 0;

  for (guint i = 0; i < N_THREADS; i++)
    {
      workers[i] = (Worker){ pool, g_test_rand_int (), max_blocks, 0 };
      threads[i] = g_thread_new ("share", allocate_in_turn, &workers[i]);
    }
  for (guint i = 0; i < N_THREADS; i++)
    {
      g_thread_join (threads[i]);
      refused += workers[i].refused;
    }
  assert_valid (pool);
  stats = get_stats (pool);
  g_test_message ("%" G_GUINT64_FORMAT " hits, %" G_GUINT64_FORMAT " misses, %u refused",
                  stats.hits, stats.misses, refused);
  g_assert_cmpuint (stats.upstream_failures, ==, 0);
  g_assert_cmpuint (stats.failures, ==, refused);
  g_assert_cmpuint (stats.peak_managed_bytes, <=, limit);
  g_assert_cmpuint (stats.upstream_frees, >, 1000);
  tarn_pool_unref (pool);
  tarn_allocator_unref (allocator);
  tarn_testing_device_free (device);
  return refused;
}

/* Each thread uses at most its share: whatever others hold and give back meanwhile, no request is
 * refused. */
static void
test_shares (void)
{
  g_assert_cmpuint (run_threads (1, N_THREADS * LARGEST), ==, 0);
}

/* Too little for a thread alone, should they run one after the other. */
static void
test_more_than_shares (void)
{
  g_assert_cmpuint (run_threads (2, 3 * LARGEST / 2), >, 0);
}

/* Limits that one thread sets while others allocate: what is refused is refused for the limit, and
 * in the end the last one holds. */
static void
test_changing (void)
{
  static const gsize limits[] = { 0, LARGEST / 2, 2 * LARGEST, 20 * LARGEST };
  TarnTestingDevice *device = tarn_testing_device_new (G_MAXUINT64);
  TarnAllocator *allocator = tarn_testing_device_allocator_new (device);
  TarnPool *pool = pool_new_limited (allocator, 0);
  GThread *threads[N_THREADS];
  Worker workers[N_THREADS];

  for (guint i = 0; i < N_THREADS; i++)
    {
      workers[i] = (Worker){ pool, g_test_rand_int (), 2, 0 };
      threads[i] = g_thread_new ("share", allocate_in_turn, &workers[i]);
    }
  for (guint i = 0; i < 2000; i++)
    {
      tarn_pool_set_limit_bytes (pool, limits[g_test_rand_int_range (0, G_N_ELEMENTS (limits))]);
      if (i % 10 == 0)
        assert_valid (pool);
    }
  tarn_pool_set_limit_bytes (pool, 2 * LARGEST);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  assert_valid (pool);
  g_assert_cmpuint (pool->limit.reserved_bytes, ==, 0);
  g_assert_cmpuint (get_stats (pool).upstream_failures, ==, 0);
  tarn_pool_set_limit_bytes (pool, LARGEST);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (pool), <=, LARGEST);
  tarn_pool_unref (pool);
  tarn_allocator_unref (allocator);
  tarn_testing_device_free (device);
}

int
main (int argc, char **argv)
{
#define ADD(path, func)                                                                            \
  g_test_add ("/core/limit/" path, Fixture, NULL, set_up, func, pool_fixture_tear_down_limited)
  g_test_init (&argc, &argv, NULL);
  ADD ("reserved", test_reserved);
  ADD ("await-reservation", test_await_reservation);
  ADD ("await-give-back", test_await_give_back);
  ADD ("allocate-in-free", test_allocate_in_free);
#define ADD_WITH(path, func, data)                                                                 \
  g_test_add ("/core/limit/" path, Fixture, data, set_up, func, pool_fixture_tear_down_limited)
  ADD_WITH ("raised-meanwhile", test_raised_meanwhile, GSIZE_TO_POINTER (2 * LIMIT));
  ADD_WITH ("removed-meanwhile", test_raised_meanwhile, NULL);
  ADD_WITH ("lowered-meanwhile", test_lowered_meanwhile, GINT_TO_POINTER (TRUE));
  ADD_WITH ("set-meanwhile", test_lowered_meanwhile, GINT_TO_POINTER (FALSE));
  g_test_add_func ("/core/limit/changing", test_changing);
  g_test_add_func ("/core/limit/shares", test_shares);
  g_test_add_func ("/core/limit/more-than-shares", test_more_than_shares);
  return g_test_run ();
}
