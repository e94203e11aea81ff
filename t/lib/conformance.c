/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "conformance.h"

#include "common/lock-private.h"
#include "order/order-private.h"

typedef void (*TestFunc) (const Backend *backend, gpointer state);

typedef struct
{
  const Backend *backend;
  TestFunc func;
} Case;

static TarnAllocator *
allocator_new (const Backend *backend, gpointer state, GError **error)
{
  TarnAllocator *allocator = backend->allocator_new (state, error), *heap;

  if (!backend->has_heap || allocator == NULL)
    return allocator;
  heap = tarn_heap_allocator_new (allocator, NULL, error);
  tarn_allocator_unref (allocator);
  return heap;
}

static TarnPool *
pool_new (const Backend *backend, gpointer state)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TarnAllocator) allocator = allocator_new (backend, state, &error);
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  TarnPool *pool;

  g_assert_no_error (error);
  options.name = "test";
  pool = tarn_pool_new (allocator, &options, &error);
  g_assert_no_error (error);
  return pool;
}

void
assert_valid (TarnPool *pool)
{
  g_autofree gchar *violation = _tarn_pool_check (pool);

  g_assert_cmpstr (violation, ==, NULL);
}

void
hand_on (TarnPool *pool, gsize size)
{
  _tarn_mutex_lock (&pool->lock);
  _tarn_pool_hand_on (pool, tarn_pool_bin_number (pool, size));
  _tarn_mutex_unlock (&pool->lock);
  assert_valid (pool);
}

TarnBlock *
allocate (TarnPool *pool, gsize size)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_pool_allocate (pool, size, &error);

  g_assert_no_error (error);
  assert_valid (pool);
  return block;
}

void
assert_fails (TarnPool *pool, gsize size, gint code)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (tarn_pool_allocate (pool, size, &error));
  g_assert_error (error, TARN_ERROR, code);
  assert_valid (pool);
}

static void
assert_counters (TarnPool *pool, gsize held, gsize active, gsize managed_bytes, gsize active_bytes)
{
  g_assert_cmpuint (tarn_pool_get_held_blocks (pool), ==, held);
  g_assert_cmpuint (tarn_pool_get_active_blocks (pool), ==, active);
  g_assert_cmpuint (tarn_pool_get_managed_bytes (pool), ==, managed_bytes);
  g_assert_cmpuint (tarn_pool_get_active_bytes (pool), ==, active_bytes);
  assert_valid (pool);
}

static void
test_counters (const Backend *backend, gpointer state)
{
  g_autoptr (TarnPool) pool = pool_new (backend, state);
  TarnBlock *first, *second, *empty;
  TarnMemory memory;

  first = allocate (pool, 1000);
  memory = tarn_block_get_memory (first);
  g_assert_cmpuint (tarn_block_get_size (first), ==, 1000);
  g_assert_cmpuint (tarn_block_get_alloc_size (first), ==, 1023);
  assert_counters (pool, 0, 1, 1023, 1000);
  tarn_block_free (first);
  assert_counters (pool, 1, 0, 1023, 0);
  first = allocate (pool, 1023);
  g_assert_cmpuint (tarn_block_get_memory (first).address, ==, memory.address);
  assert_counters (pool, 0, 1, 1023, 1023);
  tarn_block_free (first);
  second = allocate (pool, 1024);
  assert_counters (pool, 1, 1, 2110, 1024);
  empty = allocate (pool, 0);
  assert_counters (pool, 1, 2, 2111, 1024);
  tarn_pool_stop_holding (pool);
  assert_counters (pool, 0, 2, 1088, 1024);
  tarn_block_free (second);
  assert_counters (pool, 0, 1, 1, 0);
  tarn_block_free (empty);
  assert_counters (pool, 0, 0, 0, 0);
}

/* PyOpenCL's test_mempool: a window of at most 10 blocks over 100, for two sizes. */
static void
test_window (const Backend *backend, gpointer state)
{
  g_autoptr (TarnPool) pool = pool_new (backend, state);
  TarnPoolStats stats = TARN_POOL_STATS_INIT;

  for (guint exponent = 6; exponent <= 7; exponent++)
    {
      TarnBlock *window[10] = { NULL };

      for (guint i = 0; i < 100; i++)
        {
          tarn_block_free (window[i % 10]);
          window[i % 10] = allocate (pool, (gsize) 1 << exponent);
        }
      for (guint i = 0; i < 10; i++)
        tarn_block_free (window[i]);
    }
  tarn_pool_get_stats (pool, &stats);
  g_assert_cmpuint (stats.misses, ==, 20);
  g_assert_cmpuint (stats.hits, ==, 180);
  g_assert_cmpuint (stats.held_blocks, ==, 20);
  if (backend->live != NULL)
    g_assert_cmpuint (backend->live (state), ==, 20);
  tarn_pool_stop_holding (pool);
  assert_counters (pool, 0, 0, 0, 0);
  if (backend->live != NULL)
    g_assert_cmpuint (backend->live (state), ==, 0);
}

/* PyOpenCL's test_allocator, with a pool and without one. */
static void
test_allocator (const Backend *backend, gpointer state)
{
  static const gsize sizes[] = { 15, 0, 1, 4096 };
  g_autoptr (GError) error = NULL;
  g_autoptr (TarnAllocator) direct = allocator_new (backend, state, &error);
  g_autoptr (TarnPool) pool = pool_new (backend, state);
  TarnAllocator *allocators[] = { direct, TARN_ALLOCATOR (pool) };

  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (allocators); i++)
    for (guint j = 0; j < G_N_ELEMENTS (sizes); j++)
      {
        TarnBlock *block = tarn_allocator_allocate (allocators[i], sizes[j], &error);
        TarnAllocator *from;

        g_assert_no_error (error);
        g_assert_cmpuint (tarn_block_get_size (block), ==, sizes[j]);
        g_assert_cmpuint (tarn_block_get_alloc_size (block), >=, sizes[j]);
        from = tarn_block_get_allocator (block);
        g_assert_true (tarn_allocator_is_of (from, direct->direct->ops.free));
        tarn_block_free (block);
      }
}

/* Every allocator refuses a size above G_MAXSSIZE, which may be a negative number, before it does
 * anything. */
static void
test_invalid_sizes (const Backend *backend, gpointer state)
{
  static const gsize sizes[]
      = { (gsize) -1, (gsize) -1000, (gsize) -5000000, (gsize) G_MAXSSIZE + 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (TarnAllocator) direct = allocator_new (backend, state, &error);
  g_autoptr (TarnPool) pool = pool_new (backend, state);
  g_autoptr (TarnPool) outer = tarn_pool_new (TARN_ALLOCATOR (pool), NULL, NULL);
  TarnAllocator *allocators[] = { direct, TARN_ALLOCATOR (pool), TARN_ALLOCATOR (outer) };
  TarnPoolStats before = TARN_POOL_STATS_INIT, after = TARN_POOL_STATS_INIT;
  TarnMemory memory;

  g_assert_no_error (error);
  tarn_block_free (allocate (pool, 1000));
  tarn_pool_get_stats (pool, &before);
  for (guint i = 0; i < G_N_ELEMENTS (allocators); i++)
    for (guint j = 0; j < G_N_ELEMENTS (sizes); j++)
      {
        g_assert_null (tarn_allocator_allocate (allocators[i], sizes[j], &error));
        g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_SIZE);
        g_clear_error (&error);
        g_assert_false (tarn_allocator_allocate_memory (allocators[i], sizes[j], &memory, &error));
        g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_SIZE);
        g_clear_error (&error);
        assert_fails (pool, sizes[j], TARN_ERROR_INVALID_SIZE);
      }
  tarn_pool_get_stats (pool, &after);
  g_assert_cmpuint (after.held_bytes, ==, before.held_bytes);
  g_assert_cmpuint (after.driver_calls, ==, before.driver_calls);
  g_assert_cmpuint (after.upstream_failures, ==, before.upstream_failures);
}

static void
test_bare_memory (const Backend *backend, gpointer state)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TarnPool) inner = pool_new (backend, state);
  g_autoptr (TarnPool) outer = tarn_pool_new (TARN_ALLOCATOR (inner), NULL, &error);
  TarnMemory memory[3];
  TarnBlock *block;

  g_assert_no_error (error);
  for (guint i = 0; i < 3; i++)
    g_assert_true (
        tarn_allocator_allocate_memory (TARN_ALLOCATOR (inner), 100, &memory[i], &error));
  assert_counters (inner, 0, 3, 309, 300);
  tarn_allocator_free_memory (TARN_ALLOCATOR (inner), memory[1], 100);
  assert_counters (inner, 1, 2, 309, 200);

  block = allocate (outer, 100);
  g_assert_cmpuint (tarn_block_get_memory (block).address, ==, memory[1].address);
  assert_counters (inner, 0, 3, 309, 303);
  tarn_block_free (block);
  assert_counters (outer, 1, 0, 103, 0);
  tarn_pool_free_held (outer);
  assert_counters (inner, 1, 2, 309, 200);
  tarn_allocator_free_memory (TARN_ALLOCATOR (inner), memory[0], 100);
  tarn_allocator_free_memory (TARN_ALLOCATOR (inner), memory[2], 100);
  assert_counters (inner, 3, 0, 309, 0);
}

/* Every order of the last releases of an allocator, its pool, a block of each, with a held block
 * beside them. */
static void
test_release_orders (const Backend *backend, gpointer state)
{
  for (guint order = 0; order < 4 * 3 * 2; order++)
    {
      g_autoptr (GError) error = NULL;
      TarnAllocator *allocator = allocator_new (backend, state, &error);
      TarnPool *pool = tarn_pool_new (allocator, NULL, &error);
      TarnBlock *block = tarn_pool_allocate (pool, 1000, &error);
      TarnBlock *direct = tarn_allocator_allocate (allocator, 1000, &error);
      guint left[] = { 0, 1, 2, 3 };

      g_assert_no_error (error);
      tarn_block_free (tarn_pool_allocate (pool, 5000, &error));
      for (guint n_left = 4, rest = order; n_left > 0; rest /= n_left, n_left--)
        {
          guint pick = rest % n_left;

          switch (left[pick])
            {
            case 0:
              tarn_allocator_unref (allocator);
              break;
            case 1:
              tarn_pool_unref (pool);
              break;
            case 2:
              tarn_block_free (block);
              break;
            default:
              tarn_block_free (direct);
            }
          left[pick] = left[n_left - 1];
        }
      if (backend->live != NULL)
        g_assert_cmpuint (backend->live (state), ==, 0);
    }
}

/* Threads: each frees what others allocated, through slots that they share. */

#define N_THREADS 8
#define N_SLOTS 64
#define N_ROUNDS 400

typedef struct
{
  TarnPool *pool;
  TarnMutex lock;
  TarnBlock *slots[N_SLOTS];
} Exchange;

typedef struct
{
  Exchange *exchange;
  guint32 seed;
} Worker;

static gpointer
exchange_blocks (gpointer data)
{
  Worker *worker = data;
  Exchange *exchange = worker->exchange;
  g_autoptr (GRand) rand = g_rand_new_with_seed (worker->seed);

  for (guint i = 0; i < N_ROUNDS; i++)
    {
      gsize size = (gsize) 1 << g_rand_int_range (rand, 4, 14);
      guint slot = (guint) g_rand_int_range (rand, 0, N_SLOTS);
      g_autoptr (GError) error = NULL;
      TarnBlock *block = tarn_pool_allocate (exchange->pool, size, &error);
      TarnBlock *other;

      g_assert_no_error (error);
      _tarn_mutex_lock (&exchange->lock);
      other = exchange->slots[slot];
      exchange->slots[slot] = block;
      _tarn_mutex_unlock (&exchange->lock);
      tarn_block_free (other);
      if (i % 100 == 0)
        tarn_pool_free_held (exchange->pool);
      if (i % 32 == 0)
        assert_valid (exchange->pool);
    }
  return NULL;
}

static void
test_threads (const Backend *backend, gpointer state)
{
  Exchange exchange = { .pool = pool_new (backend, state) };
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  GThread *threads[N_THREADS];
  Worker workers[N_THREADS];

  _tarn_mutex_init (&exchange.lock);
  for (guint i = 0; i < N_THREADS; i++)
    {
      workers[i] = (Worker){ &exchange, g_test_rand_int () };
      threads[i] = g_thread_new ("exchange", exchange_blocks, &workers[i]);
    }
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  for (guint i = 0; i < N_SLOTS; i++)
    tarn_block_free (exchange.slots[i]);
  _tarn_mutex_clear (&exchange.lock);

  assert_valid (exchange.pool);
  tarn_pool_get_stats (exchange.pool, &stats);
  g_assert_cmpuint (stats.hits + stats.misses, ==, N_THREADS * N_ROUNDS);
  g_assert_cmpuint (stats.active_blocks, ==, 0);
  if (!backend->has_heap) /* which splits what it has */
    g_assert_cmpuint (stats.driver_calls - stats.upstream_failures - stats.upstream_frees, ==,
                      stats.held_blocks);
  if (!backend->has_heap && backend->live != NULL)
    g_assert_cmpuint (backend->live (state), ==, stats.held_blocks);
  tarn_pool_unref (exchange.pool);
  if (backend->live != NULL)
    g_assert_cmpuint (backend->live (state), ==, 0);
}

/* PyCUDA's test_mempool, over a budget: windows of blocks of 1/64, 1/32, 1/16 and 1/8 of it, so
 * that it lives on the out-of-memory path once the pool holds all of it in smaller blocks. */
static void
test_small_budget (const Backend *backend, gpointer state)
{
  const gsize budget = 1 << 20;
  g_autoptr (TarnPool) pool = NULL;
  TarnPoolStats stats = TARN_POOL_STATS_INIT;

  backend->set_budget (state, budget);
  pool = pool_new (backend, state);
  for (guint exponent = 14; exponent <= 17; exponent++)
    {
      TarnBlock *window[6] = { NULL };

      for (guint i = 0; i < 100; i++)
        {
          tarn_block_free (g_steal_pointer (&window[i % 6]));
          window[i % 6] = allocate (pool, ((gsize) 1 << exponent) - 1);
          g_assert_cmpuint (tarn_pool_get_managed_bytes (pool), <=, budget);
        }
      for (guint i = 0; i < 6; i++)
        tarn_block_free (window[i]);
    }
  tarn_pool_get_stats (pool, &stats);
  g_assert_cmpuint (stats.failures, ==, 0);
  g_assert_cmpuint (stats.upstream_failures, >, 0);
  backend->set_budget (state, G_MAXUINT64);
}

/* What a budget grants, a pool grants: rounded up, all of it would not fit. */
static void
test_whole_budget (const Backend *backend, gpointer state)
{
  const gsize budget = (1 << 20) + 1;
  g_autoptr (GError) error = NULL;
  g_autoptr (TarnPool) pool = NULL;
  TarnBlock *all, *more;

  backend->set_budget (state, budget);
  pool = pool_new (backend, state);
  for (guint i = 0; i < 10; i++)
    tarn_block_free (allocate (pool, (gsize) 1000 << i));
  all = allocate (pool, budget);
  g_assert_cmpuint (tarn_block_get_alloc_size (all), ==, budget);
  assert_counters (pool, 0, 1, budget, budget);

  more = tarn_pool_allocate (pool, 1000, &error);
  g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
  g_assert_null (more);
  g_assert_nonnull (strstr (error->message, "1000 bytes asked for"));
  g_assert_nonnull (strstr (error->message, "1048577 active"));
  g_assert_nonnull (strstr (error->message, " 0 held"));
  assert_counters (pool, 0, 1, budget, budget);

  tarn_block_free (all);
  assert_counters (pool, 0, 0, 0, 0);
  tarn_block_free (allocate (pool, 1000));
  backend->set_budget (state, G_MAXUINT64);
}

/* A bit of everything.  FALSE with the first error; what was allocated is freed either way. */
static gboolean
use_everything (const Backend *backend, gpointer state, GError **error)
{
  g_autoptr (TarnAllocator) direct = allocator_new (backend, state, error);
  g_autoptr (TarnPool) pool = NULL;
  g_autoptr (TarnBlock) first = NULL;
  g_autoptr (TarnBlock) second = NULL;
  g_autoptr (TarnBlock) third = NULL;
  g_autoptr (TarnBlock) without_pool = NULL;

  if (direct == NULL || (pool = tarn_pool_new (direct, NULL, error)) == NULL)
    return FALSE;
  /* 1023 is the largest size of its bin: rounding adds nothing that could be left out. */
  if ((first = tarn_pool_allocate (pool, 1023, error)) == NULL)
    return FALSE;
  if ((second = tarn_pool_allocate (pool, 3000, error)) == NULL)
    return FALSE;
  tarn_block_free (g_steal_pointer (&first));
  assert_valid (pool);
  if ((third = tarn_pool_allocate (pool, 2000, error)) == NULL)
    {
      assert_valid (pool);
      return FALSE;
    }
  if ((first = tarn_pool_allocate (pool, 1001, error)) == NULL)
    return FALSE;
  assert_valid (pool);
  without_pool = tarn_allocator_allocate (direct, 500, error);
  return without_pool != NULL;
}

static gboolean
is_injected (const GError *error)
{
  return error->domain == TARN_ERROR && error->code == TARN_ERROR_OUT_OF_MEMORY;
}

static void
fail_nth (const Backend *backend, gpointer state, gboolean for_ever)
{
  guint nth = 0, errors = 0;
  gboolean struck;

  do
    {
      g_autoptr (GError) error = NULL;
      gboolean done;

      backend->fail (state, ++nth, for_ever);
      done = use_everything (backend, state, &error);
      struck = backend->stop_failing (state);
      g_assert_true (done == (error == NULL));
      g_assert_true (done || (struck && is_injected (error)));
      errors += !done;
      if (backend->live != NULL)
        g_assert_cmpuint (backend->live (state), ==, 0);

      g_clear_error (&error);
      use_everything (backend, state, &error);
      g_assert_no_error (error);
    }
  while (struck);
  if (nth == 1)
    {
      g_assert_true (backend->has_heap);
      g_test_skip ("a heap makes no call that can be told to fail");
      return;
    }
  g_test_message ("%u calls that can fail, %u of them with an error for the caller", nth - 1,
                  errors);
  g_assert_true (backend->has_heap || nth > 4);
  g_assert_true (errors > 0 || (backend->has_heap && !for_ever)); /* a heap may try again */
}

static void
test_fail_once (const Backend *backend, gpointer state)
{
  fail_nth (backend, state, FALSE);
}

static void
test_fail_for_ever (const Backend *backend, gpointer state)
{
  fail_nth (backend, state, TRUE);
}

/* Tells whether there are heaps over a kind of memory, or none are wanted. */
static gboolean
can_have_heap (const Backend *backend, gpointer state)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TarnAllocator) allocator = allocator_new (backend, state, &error);

  return allocator != NULL || !g_error_matches (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
}

void
conformance_run (gconstpointer data, gconstpointer device)
{
  const Case *test = data;
  const Backend *backend = test->backend;
  g_autofree gchar *reason = NULL;
  gpointer state = NULL;

  if (test->func == test_threads && backend->no_threads != NULL)
    reason = g_strdup (backend->no_threads (device));
  if (reason == NULL)
    state = backend->open (device, &reason);
  if (state == NULL)
    {
      g_test_skip (reason);
      return;
    }
  if (can_have_heap (backend, state))
    test->func (backend, state);
  else
    g_test_skip ("no heap can be over it");
  backend->close (state);
}

static void
run_once (gconstpointer test)
{
  conformance_run (test, NULL);
}

/* Adds a test, for the rest of the process. */
static void
add (const gchar *prefix, const gchar *name, const Backend *backend, TestFunc func)
{
  g_autofree gchar *path = g_strdup_printf ("%s/%s", prefix, name);
  static GPtrArray *cases;
  Case *test = g_new (Case, 1);

  *test = (Case){ backend, func };
  if (cases == NULL)
    cases = g_ptr_array_new ();
  g_ptr_array_add (cases, test);
  if (backend->add != NULL)
    backend->add (path, test);
  else
    g_test_add_data_func (path, test, run_once);
}

/* Gets the same kind of memory with a heap over it, for the rest of the process. */
static const Backend *
add_heap (const Backend *backend)
{
  static GPtrArray *backends;
  Backend *with_heap = g_new (Backend, 1);

  *with_heap = *backend;
  with_heap->has_heap = TRUE;
  if (backends == NULL)
    backends = g_ptr_array_new ();
  g_ptr_array_add (backends, with_heap);
  return with_heap;
}

/* Adds those of the tests that can be made with a kind of memory. */
static void
add_all (const gchar *prefix, const Backend *backend)
{
  static const struct
  {
    const gchar *name;
    TestFunc func;
    gboolean counts; /* what a pool has, which is another thing over a heap */
    gboolean needs_budget, needs_faults;
  } tests[] = {
    { "allocator", test_allocator, FALSE, FALSE, FALSE },
    { "counters", test_counters, TRUE, FALSE, FALSE },
    { "window", test_window, TRUE, FALSE, FALSE },
    { "bare-memory", test_bare_memory, TRUE, FALSE, FALSE },
    { "invalid-sizes", test_invalid_sizes, FALSE, FALSE, FALSE },
    { "release-orders", test_release_orders, FALSE, FALSE, FALSE },
    { "threads", test_threads, FALSE, FALSE, FALSE },
    { "small-budget", test_small_budget, TRUE, TRUE, FALSE },
    { "whole-budget", test_whole_budget, TRUE, TRUE, FALSE },
    { "fail-once", test_fail_once, FALSE, FALSE, TRUE },
    { "fail-for-ever", test_fail_for_ever, FALSE, FALSE, TRUE },
  };

  for (guint i = 0; i < G_N_ELEMENTS (tests); i++)
    if (!(tests[i].counts && backend->has_heap)
        && !(tests[i].needs_budget && backend->set_budget == NULL)
        && !(tests[i].needs_faults && backend->fail == NULL))
      add (prefix, tests[i].name, backend, tests[i].func);
}

void
conformance_add (const gchar *prefix, const Backend *backend)
{
  add_all (prefix, backend);
}

void
conformance_add_over_heap (const gchar *prefix, const Backend *backend)
{
  add_all (prefix, add_heap (backend));
}
