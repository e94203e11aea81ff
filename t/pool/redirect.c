/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Requests that another pool serves (tarn_pool_set_redirect_func ()). */

#include "lib/conformance.h"
#include "lib/in-child.h"
#include "lib/order-fixture.h"
#include "pool/pool-private.h"

#define SIZE 5000
#define N_THREADS 4
#define N_ROUNDS 2000

/* Who gets what, and what was asked. */
typedef struct
{
  Order *order;
  TarnPool *pool;    /* with TARN_POOL_FINDABLE; of its own, so that the fixture's is plain */
  TarnPool *other;   /* too */
  gpointer handle;   /* of the queue whose requests are the other pool's; NULL: no queue's */
  gboolean fails;    /* instead */
  gint n_calls;      /* atomic */
  gint n_destroyed;  /* atomic */
  GDestroyNotify at; /* called once, within a call; nullable */
} World;

static TarnPool *
redirect (TarnPool *pool, gpointer queue, gpointer data, GError **error)
{
  World *w = data;
  GDestroyNotify at = w->at;

  g_assert_nonnull (queue);
  g_atomic_int_inc (&w->n_calls);
  if (at != NULL)
    {
      w->at = NULL;
      at (w);
    }
  if (queue != w->handle)
    return NULL;
  if (!w->fails)
    return tarn_pool_ref (w->other != NULL ? w->other : pool);
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_FAILED, "no pool has it");
  return NULL;
}

static void
note_destroyed (gpointer data)
{
  g_atomic_int_inc (&((World *) data)->n_destroyed);
}

static TarnPool *
new_pool (const Order *order, TarnPoolFlags flags)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;
  TarnPool *pool;

  options.flags = flags;
  pool = tarn_pool_new (order->allocator, &options, &error);
  g_assert_no_error (error);
  return pool;
}

static void
world_init (World *w, Order *order)
{
  *w = (World){ .order = order, .handle = order->a };
  w->pool = new_pool (order, TARN_POOL_FINDABLE);
  w->other = new_pool (order, TARN_POOL_FINDABLE);
}

static void
world_clear (World *w)
{
  g_clear_pointer (&w->pool, tarn_pool_unref);
  g_clear_pointer (&w->other, tarn_pool_unref);
}

static TarnBlock *
take (TarnPool *pool, gpointer queue)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_pool_allocate_ordered (pool, SIZE, queue, &error);

  g_assert_no_error (error);
  return block;
}

#define assert_active(pool, n) g_assert_cmpuint (tarn_pool_get_active_blocks (pool), ==, (n))

/* Requests of the queue are the other pool's, and others are not; whatever the pool holds, in the
 * thread's cache, too. */
static void
run_served (World *w, TarnPool *pool)
{
  TarnBlock *held = take (pool, w->order->a), *blocks[4];

  tarn_block_free (held);
  blocks[0] = take (pool, w->order->a);
  g_assert_true (blocks[0] == held);
  tarn_block_free (held);
  tarn_pool_set_redirect_func (pool, redirect, w, note_destroyed);
  blocks[0] = take (pool, w->order->a);
  blocks[1] = take (pool, w->order->a);
  blocks[2] = take (pool, w->order->b);
  blocks[3] = allocate (pool, 1);
  g_assert_cmpint (w->n_calls, ==, 3);
  assert_active (w->other, 2);
  assert_active (pool, 2);
  g_assert_true (blocks[2] != held);
  tarn_block_free (blocks[0]);
  tarn_block_free (blocks[1]);
  assert_active (w->other, 0);
  g_assert_true (take (pool, w->order->a) == blocks[1]); /* freed last */
  tarn_block_free (blocks[1]);

  g_assert_cmpint (w->n_destroyed, ==, 0);
  tarn_pool_set_redirect_func (pool, NULL, NULL, NULL);
  g_assert_cmpint (w->n_destroyed, ==, 1);
  blocks[0] = take (pool, w->order->a);
  g_assert_true (blocks[0] == held);
  g_assert_cmpint (w->n_calls, ==, 4);
  assert_active (w->other, 0);
  for (guint i = 0; i < 4; i++)
    if (i != 1)
      tarn_block_free (blocks[i]);
  assert_valid (pool);
  assert_valid (w->other);
}

static void
test_served (Order *order, gconstpointer unused)
{
  World w;

  (void) unused;
  world_init (&w, order);
  run_served (&w, w.pool);
  w.n_calls = w.n_destroyed = 0;
  run_served (&w, order->pool);
  world_clear (&w);
}

/* Aligned memory is the other pool's as well. */
static void
test_aligned (Order *order, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block;
  World w;

  (void) unused;
  world_init (&w, order);
  tarn_pool_set_redirect_func (w.pool, redirect, &w, NULL);
  block = tarn_pool_allocate_aligned (w.pool, SIZE, 1, order->a, &error);
  g_assert_no_error (error);
  assert_active (w.other, 1);
  assert_active (w.pool, 0);
  tarn_block_free (block);
  world_clear (&w);
}

/* Blocks are found in the pool that was asked, if both find theirs, until they are freed. */
static void
test_find (Order *order, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *blocks[2];
  TarnMemory memory[2];
  World w;

  (void) unused;
  world_init (&w, order);
  tarn_pool_set_redirect_func (w.pool, redirect, &w, NULL);
  for (guint i = 0; i < 2; i++)
    {
      blocks[i] = take (w.pool, order->a);
      memory[i] = tarn_block_get_memory (blocks[i]);
      g_assert_true (tarn_pool_find (w.pool, memory[i]) == blocks[i]);
      g_assert_true (tarn_pool_find (w.other, memory[i]) == blocks[i]);
    }
  tarn_pool_set_redirect_func (w.pool, NULL, NULL, NULL);
  g_assert_true (tarn_pool_free_memory (w.pool, memory[0], order->a, &error));
  g_assert_no_error (error);
  g_assert_null (tarn_pool_find (w.pool, memory[0]));
  g_assert_null (tarn_pool_find (w.other, memory[0]));
  tarn_block_free (blocks[1]);
  g_assert_null (tarn_pool_find (w.pool, memory[1]));
  assert_active (w.other, 0);
  world_clear (&w);
}

/* A pool that does not find its own blocks is found nothing of; and one that serves two pools is
 * found in the first. */
static void
test_find_not (Order *order, gconstpointer unused)
{
  TarnPool *third = new_pool (order, TARN_POOL_FINDABLE);
  TarnBlock *block;
  World w;

  (void) unused;
  world_init (&w, order);
  tarn_pool_set_redirect_func (w.pool, redirect, &w, NULL);
  tarn_pool_set_redirect_func (third, redirect, &w, NULL);
  block = take (w.pool, order->a);
  tarn_block_free (block);
  block = take (third, order->a);
  g_assert_null (tarn_pool_find (third, tarn_block_get_memory (block)));
  g_assert_null (tarn_pool_find (w.pool, tarn_block_get_memory (block)));
  g_assert_true (tarn_pool_find (w.other, tarn_block_get_memory (block)) == block);
  tarn_block_free (block);
  tarn_pool_unref (w.other);
  w.other = new_pool (order, TARN_POOL_NO_FLAGS);
  block = take (w.pool, order->a);
  g_assert_null (tarn_pool_find (w.pool, tarn_block_get_memory (block)));
  tarn_block_free (block);
  tarn_pool_unref (third);
  world_clear (&w);
}

/* The function may refuse, and may say that the pool itself serves the request. */
static void
test_answers (Order *order, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  TarnBlock *block;
  World w;

  (void) unused;
  world_init (&w, order);
  tarn_pool_set_redirect_func (w.pool, redirect, &w, NULL);
  w.fails = TRUE;
  g_assert_null (tarn_pool_allocate_ordered (w.pool, SIZE, order->a, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_FAILED);
  g_clear_error (&error);
  g_assert_null (tarn_pool_allocate_aligned (w.pool, SIZE, 64, order->a, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_FAILED);
  tarn_pool_get_stats (w.pool, &stats);
  g_assert_cmpuint (stats.failures, ==, 2);
  w.fails = FALSE;
  g_clear_pointer (&w.other, tarn_pool_unref);
  block = take (w.pool, order->a);
  assert_active (w.pool, 1);
  tarn_block_free (block);
  world_clear (&w);
}

/* The other pool's errors are the request's. */
static void
test_fails (Order *order, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  World w;

  (void) unused;
  world_init (&w, order);
  tarn_pool_set_limit_bytes (w.other, SIZE / 2);
  tarn_pool_set_redirect_func (w.pool, redirect, &w, NULL);
  g_assert_null (tarn_pool_allocate_ordered (w.pool, SIZE, order->a, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
  world_clear (&w);
}

/* Nothing is ended under a call that runs, nor twice. */
static void
remove_within (gpointer data)
{
  World *w = data;

  tarn_pool_set_redirect_func (w->pool, NULL, NULL, NULL);
  g_assert_cmpint (w->n_destroyed, ==, 0);
}

static void
test_removed_within (Order *order, gconstpointer unused)
{
  World w;

  (void) unused;
  world_init (&w, order);
  w.at = remove_within;
  tarn_pool_set_redirect_func (w.pool, redirect, &w, note_destroyed);
  tarn_block_free (take (w.pool, order->a));
  g_assert_cmpint (w.n_destroyed, ==, 1);
  tarn_block_free (take (w.pool, order->a));
  g_assert_cmpint (w.n_calls, ==, 1);
  tarn_pool_set_redirect_func (w.pool, redirect, &w, note_destroyed);
  tarn_pool_set_redirect_func (w.pool, redirect, &w, note_destroyed);
  g_assert_cmpint (w.n_destroyed, ==, 2);
  world_clear (&w);
  g_assert_cmpint (w.n_destroyed, ==, 3);
}

/* Either pool may be gone before the block. */
static void
test_ends (Order *order, gconstpointer unused)
{
  World w;

  (void) unused;
  for (guint i = 0; i < 2; i++)
    {
      TarnBlock *block;

      world_init (&w, order);
      tarn_pool_set_redirect_func (w.pool, redirect, &w, note_destroyed);
      block = take (w.pool, order->a);
      g_clear_pointer (i == 0 ? &w.pool : &w.other, tarn_pool_unref);
      if (i == 0)
        tarn_block_free (block);
      world_clear (&w);
      if (i == 1)
        tarn_block_free (block);
      g_assert_cmpint (w.n_destroyed, ==, 1);
    }
}

/* Memory without a block goes the same way, and back. */
static void
test_bare (Order *order, gconstpointer flags)
{
  TarnMemory memory = { .address = 0 };
  g_autoptr (GError) error = NULL;
  World w;

  world_init (&w, order);
  tarn_pool_unref (w.pool);
  tarn_pool_unref (w.other);
  w.pool = new_pool (order, GPOINTER_TO_UINT (flags));
  w.other = new_pool (order, TARN_POOL_NO_FLAGS);
  w.pool->default_queue = order->a; /* as with backends that have one */
  tarn_pool_set_redirect_func (w.pool, redirect, &w, NULL);
  tarn_allocator_allocate_memory (TARN_ALLOCATOR (w.pool), SIZE, &memory, &error);
  g_assert_no_error (error);
  assert_active (w.other, 1);
  tarn_allocator_free_memory (TARN_ALLOCATOR (w.pool), memory, SIZE);
  assert_active (w.other, 0);
  world_clear (&w);
}

static void
test_bare_plain (Order *order, gconstpointer unused)
{
  (void) unused;
  test_bare (order, GUINT_TO_POINTER (TARN_POOL_NO_FLAGS));
}

static void
test_bare_findable (Order *order, gconstpointer unused)
{
  (void) unused;
  test_bare (order, GUINT_TO_POINTER (TARN_POOL_FINDABLE));
}

/* Threads allocate and free while the function comes and goes; whoever is done sees what another
 * thread has set. */
typedef struct
{
  World *w;
  gboolean is_toggling;
  gint *is_over; /* atomic */
} Worker;

static gpointer
work (gpointer data)
{
  const Worker *worker = data;
  World *w = worker->w;

  for (guint i = 0; !worker->is_toggling && i < N_ROUNDS; i++)
    {
      TarnBlock *blocks[3];

      for (guint j = 0; j < 3; j++)
        blocks[j] = take (w->pool, i % 2 == 0 ? w->order->a : w->order->b);
      for (guint j = 0; j < 3; j++)
        tarn_block_free (blocks[j]);
    }
  if (!worker->is_toggling)
    return NULL;
  do
    {
      tarn_pool_set_redirect_func (w->pool, redirect, w, note_destroyed);
      tarn_pool_set_redirect_func (w->pool, NULL, NULL, NULL);
    }
  while (!g_atomic_int_get (worker->is_over));
  return NULL;
}

static void
test_threads (Order *order, gconstpointer unused)
{
  GThread *threads[N_THREADS], *toggling;
  gint is_over = FALSE;
  World w;
  Worker worker = { &w, FALSE, &is_over }, toggler = { &w, TRUE, &is_over };
  TarnBlock *block;

  (void) unused;
  world_init (&w, order);
  tarn_pool_set_redirect_func (w.pool, redirect, &w, note_destroyed);
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("worker", work, &worker);
  toggling = g_thread_new ("toggler", work, &toggler);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  g_atomic_int_set (&is_over, TRUE);
  g_thread_join (toggling);
  g_assert_cmpint (w.n_destroyed, >=, 1);
  assert_active (w.pool, 0);
  assert_active (w.other, 0);
  tarn_pool_set_redirect_func (w.pool, redirect, &w, NULL);
  block = take (w.pool, order->a);
  assert_active (w.other, 1);
  tarn_block_free (block);
  world_clear (&w);
}

/* In a child of fork () the function is neither asked nor set, nor is its data destroyed. */
static void
use_in_child (gpointer data)
{
  World *w = data;
  g_autoptr (GError) error = NULL;
  gint n_calls = w->n_calls;

  g_assert_null (tarn_pool_allocate_ordered (w->pool, SIZE, w->order->a, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_FORKED);
  tarn_pool_set_redirect_func (w->pool, NULL, NULL, NULL);
  g_assert_cmpint (w->n_calls, ==, n_calls);
  g_assert_cmpint (w->n_destroyed, ==, 0);
}

static void
test_fork (Order *order, gconstpointer unused)
{
  World w;

  (void) unused;
  world_init (&w, order);
  tarn_pool_set_redirect_func (w.pool, redirect, &w, note_destroyed);
  tarn_block_free (take (w.pool, order->a));
  _tarn_mutex_lock (&w.pool->lock);
  in_child (use_in_child, &w);
  _tarn_mutex_unlock (&w.pool->lock);
  world_clear (&w);
}

int
main (int argc, char **argv)
{
#define ADD(path, func)                                                                            \
  g_test_add ("/core/redirect/" path, Order, NULL, order_set_up, func, order_tear_down)
  g_test_init (&argc, &argv, NULL);
  ADD ("served", test_served);
  ADD ("aligned", test_aligned);
  ADD ("find", test_find);
  ADD ("find/not", test_find_not);
  ADD ("answers", test_answers);
  ADD ("fails", test_fails);
  ADD ("removed-within", test_removed_within);
  ADD ("ends", test_ends);
  ADD ("bare", test_bare_plain);
  ADD ("bare/findable", test_bare_findable);
  ADD ("threads", test_threads);
  ADD ("fork", test_fork);
  return g_test_run ();
}
