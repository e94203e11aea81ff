/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory that the program still retains when it frees it (TarnAllocatorOps.is_retained). */

#include <pthread.h>
#include <string.h>
#include <tarn/debug.h>

#include "lib/pool-fixture.h"
#include "pool/pool-private.h"

#define SIZE 5000
#define N_THREADS 4

/* A device whose memory a program may retain. */
typedef struct
{
  TarnTestingDevice *device;
  TarnAllocator *allocator;
  pthread_mutex_t lock; /* one that ThreadSanitizer knows */
  GHashTable *retained; /* addresses; behind the lock */
  guint n_asked;        /* there, too */
} World;

static World *world; /* of the test that runs */

static gboolean
is_retained (gpointer unused, TarnMemory memory)
{
  gboolean is_there;

  (void) unused;
  pthread_mutex_lock (&world->lock);
  world->n_asked++;
  is_there = g_hash_table_contains (world->retained, GSIZE_TO_POINTER ((gsize) memory.address));
  pthread_mutex_unlock (&world->lock);
  return is_there;
}

static void
retain (TarnMemory memory)
{
  pthread_mutex_lock (&world->lock);
  g_hash_table_add (world->retained, GSIZE_TO_POINTER ((gsize) memory.address));
  pthread_mutex_unlock (&world->lock);
}

static void
release (TarnMemory memory)
{
  gboolean was_there;

  pthread_mutex_lock (&world->lock);
  was_there = g_hash_table_remove (world->retained, GSIZE_TO_POINTER ((gsize) memory.address));
  pthread_mutex_unlock (&world->lock);
  g_assert_true (was_there);
}

static void
set_up (World *w, gconstpointer unused)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  g_autoptr (TarnAllocator) plain = NULL;

  (void) unused;
  world = w;
  pthread_mutex_init (&w->lock, NULL);
  w->device = tarn_testing_device_new (1 << 20);
  w->retained = g_hash_table_new (NULL, NULL);
  plain = tarn_testing_device_allocator_new (w->device);
  tarn_allocator_get_ops (plain, &ops);
  ops.is_retained = is_retained;
  w->allocator = tarn_allocator_new (&ops, tarn_allocator_get_user_data (plain), NULL);
}

static void
tear_down (World *w, gconstpointer unused)
{
  (void) unused;
  tarn_allocator_unref (w->allocator);
  tarn_testing_assert_no_leaks (w->device);
  tarn_testing_device_free (w->device);
  g_hash_table_unref (w->retained);
  pthread_mutex_destroy (&w->lock);
}

static TarnPool *
new_pool (TarnAllocator *upstream, TarnPoolFlags flags)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;
  TarnPool *pool;

  options.flags = flags;
  pool = tarn_pool_new (upstream, &options, &error);
  g_assert_no_error (error);
  return pool;
}

static TarnBlock *
take (TarnPool *pool, gsize size)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_pool_allocate (pool, size, &error);

  g_assert_no_error (error);
  return block;
}

static void
expect_critical (const gchar *pattern)
{
  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, pattern);
}

/* It is nobody's before the program releases it, and the next request's after that. */
static void
test_retained (World *w, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = new_pool (w->allocator, 0);
  TarnBlock *block = take (pool, SIZE), *other;
  TarnMemory memory = tarn_block_get_memory (block);
  guint n_asked;

  (void) unused;
  retain (memory);
  tarn_block_free (block);
  g_assert_cmpuint (tarn_pool_get_active_blocks (pool), ==, 1);
  for (guint i = 0; i < 5; i++)
    {
      other = take (pool, SIZE);
      g_assert_cmpuint (tarn_block_get_memory (other).address, !=, memory.address);
      tarn_block_free (other);
    }
  n_asked = w->n_asked;
  expect_critical ("tarn_block_free: block * was freed already");
  tarn_block_free (block);
  g_test_assert_expected_messages ();
  g_assert_cmpuint (w->n_asked, ==, n_asked); /* its memory may be gone */
  release (memory);
  tarn_block_free (take (pool, 2 * SIZE)); /* which looks for it */
  g_assert_cmpuint (tarn_pool_get_active_blocks (pool), ==, 0);
}

static void
test_retained_out_of_memory (World *w, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = new_pool (w->allocator, 0);
  TarnBlock *blocks[4];

  (void) unused;
  for (guint i = 0; i < 4; i++)
    blocks[i] = take (pool, 200000);
  for (guint i = 0; i < 4; i++)
    {
      retain (tarn_block_get_memory (blocks[i]));
      tarn_block_free (blocks[i]);
    }
  g_hash_table_remove_all (w->retained);
  blocks[0] = take (pool, 900000);
  tarn_block_free (blocks[0]);
}

static void
test_retained_trim (World *w, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = new_pool (w->allocator, 0);
  TarnBlock *block = take (pool, SIZE);
  TarnMemory memory = tarn_block_get_memory (block);

  (void) unused;
  retain (memory);
  tarn_block_free (block);
  tarn_pool_free_held (pool);
  g_assert_cmpuint (tarn_testing_device_get_live (w->device), ==, 1);
  release (memory);
  tarn_pool_free_held (pool);
  g_assert_cmpuint (tarn_testing_device_get_live (w->device), ==, 0);
}

/* Builds that check all blocks after each operation take minutes for so many. */
#if defined(TARN_DEBUG_LEVEL) && TARN_DEBUG_LEVEL >= 2
#define N_MANY 2000
#else
#define N_MANY 50000
#endif

static gpointer
free_released (gpointer pool)
{
  guint n = 0;

  while (tarn_pool_get_active_blocks (pool) > 0 && n++ < N_MANY)
    tarn_block_free (take (pool, 100));
  g_assert_cmpuint (n, <=, N_MANY / 2 + 1);
  return NULL;
}

/* Blocks that are released at once are freed a few at a time, on a small stack, too. */
static void
test_retained_many (World *w, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = new_pool (w->allocator, 0);
  pthread_attr_t attributes;
  pthread_t thread;

  (void) unused;
  tarn_testing_device_set_budget (w->device, G_MAXUINT64);
  for (guint i = 0; i < N_MANY; i++)
    {
      TarnBlock *block = take (pool, 100);

      retain (tarn_block_get_memory (block));
      tarn_block_free (block);
    }
  g_hash_table_remove_all (w->retained);
  pthread_attr_init (&attributes);
  pthread_attr_setstacksize (&attributes, 512 << 10);
  g_assert_cmpint (pthread_create (&thread, &attributes, free_released, pool), ==, 0);
  pthread_join (thread, NULL);
  pthread_attr_destroy (&attributes);
}

/* The end of the pool gives all of it back: the driver keeps what the program retains. */
static void
test_retained_end (World *w, gconstpointer unused)
{
  TarnPool *pool = new_pool (w->allocator, 0);
  TarnBlock *early = take (pool, SIZE), *late = take (pool, SIZE);

  (void) unused;
  retain (tarn_block_get_memory (early));
  retain (tarn_block_get_memory (late));
  tarn_block_free (early);
  tarn_pool_unref (pool);
  g_assert_cmpuint (tarn_testing_device_get_live (w->device), ==, 1);
  tarn_block_free (late);
  g_assert_cmpuint (tarn_testing_device_get_live (w->device), ==, 0);
}

#define LONG (20 * G_TIME_SPAN_SECOND)

/* Takes all memory of the device as soon as it can. */
static gpointer
wait_for_all (gpointer pool)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_pool_allocate_timeout (pool, 1 << 20, NULL, LONG, &error);

  g_assert_no_error (error);
  return block;
}

/* A request waits for memory that the program has freed, and still retains.  The program releases
 * it, and makes no call that could wake the request. */
static void
wait_for_release (World *w, gboolean frees_first)
{
  g_autoptr (TarnPool) pool = new_pool (w->allocator, 0);
  TarnBlock *block = take (pool, SIZE);
  TarnMemory memory = tarn_block_get_memory (block);
  gint64 start = g_get_monotonic_time ();
  guint n_waiting = 0;
  GThread *thread;

  retain (memory);
  if (frees_first)
    tarn_block_free (g_steal_pointer (&block));
  thread = g_thread_new ("waiting", wait_for_all, pool);
  while (n_waiting == 0)
    {
      g_usleep (10 * G_TIME_SPAN_MILLISECOND); /* the request may be asleep after that */
      _tarn_mutex_lock (&pool->lock);
      n_waiting = pool->room.n_waiting;
      _tarn_mutex_unlock (&pool->lock);
    }
  tarn_block_free (block);
  g_usleep (10 * G_TIME_SPAN_MILLISECOND);
  release (memory);
  tarn_block_free (g_thread_join (thread));
  g_assert_cmpint (g_get_monotonic_time () - start, <, LONG / 2);
}

static void
test_retained_awaited (World *w, gconstpointer unused)
{
  (void) unused;
  wait_for_release (w, TRUE);
  wait_for_release (w, FALSE);
}

static gpointer
retain_at_random (gpointer data)
{
  g_autoptr (TarnPool) pool = tarn_pool_ref (data);
  g_autoptr (GRand) random = g_rand_new_with_seed (GPOINTER_TO_UINT (g_thread_self ()));
  TarnMemory retained[8] = { { .address = 0 } };

  for (guint i = 0; i < 2000; i++)
    {
      TarnMemory *one = &retained[g_rand_int_range (random, 0, G_N_ELEMENTS (retained))];
      TarnBlock *block;

      if (one->address != 0)
        release (*one);
      block = take (pool, (gsize) g_rand_int_range (random, 1, 5000));
      *one = tarn_block_get_memory (block);
      retain (*one);
      tarn_block_free (block);
    }
  return NULL;
}

/* The pool hands out no memory that is retained, or release () would fail.  All of it goes back
 * when the pool ends. */
static void
test_retained_threads (World *w, gconstpointer unused)
{
  TarnPool *pool = new_pool (w->allocator, 0);
  GThread *threads[N_THREADS];

  (void) unused;
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("retainer", retain_at_random, pool);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  g_assert_cmpuint (w->n_asked, >=, N_THREADS * 2000);
  g_assert_cmpuint (tarn_pool_get_active_blocks (pool), >=, N_THREADS);
  tarn_pool_unref (pool);
  g_assert_cmpuint (tarn_testing_device_get_live (w->device), ==, 0);
}

static void
test_retained_shared (World *w, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = new_pool (w->allocator, TARN_POOL_FINDABLE);
  TarnBlock *block = take (pool, SIZE);
  TarnMemory memory = tarn_block_get_memory (block);

  (void) unused;
  tarn_block_ref (block);
  retain (memory);
  tarn_block_free (block);
  g_assert_cmpuint (w->n_asked, ==, 0);
  tarn_block_free (block);
  g_assert_cmpuint (w->n_asked, ==, 1);
  g_assert_null (tarn_pool_find (pool, memory));
  release (memory);
}

/* The program may say that it never does so. */
static void
test_trusted (World *w, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = new_pool (w->allocator, TARN_POOL_TRUSTS_HANDLES);
  TarnBlock *block = take (pool, SIZE);
  TarnMemory memory = tarn_block_get_memory (block);

  (void) unused;
  retain (memory);
  tarn_block_free (block);
  block = take (pool, SIZE);
  g_assert_cmpuint (tarn_block_get_memory (block).address, ==, memory.address);
  tarn_block_free (block);
  g_assert_cmpuint (w->n_asked, ==, 0);
  release (memory);
}

static void
test_retained_debug (World *w, gconstpointer unused)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnPool) pool = NULL;
  TarnBlock *block;
  TarnMemory memory;

  (void) unused;
  options.debug = "leaks";
  pool = tarn_pool_new (w->allocator, &options, NULL);
  block = take (pool, SIZE);
  memory = tarn_block_get_memory (block);
  retain (memory);
  expect_critical ("*of 5000 bytes is freed, but the program still retains it*");
  tarn_block_free (block);
  g_test_assert_expected_messages ();
  release (memory);
  tarn_pool_free_held (pool);
  g_assert_cmpuint (tarn_pool_get_active_blocks (pool), ==, 0);
}

static void
expect_violation (TarnPool *pool, const gchar *text)
{
  g_autofree gchar *violation = _tarn_pool_check (pool);

  g_assert_nonnull (violation);
  g_assert_nonnull (strstr (violation, text));
}

/* The checker finds what is planted. */
static void
test_checker (World *w, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = new_pool (w->allocator, 0);
  TarnBlock *aside = take (pool, SIZE), *shared = take (pool, SIZE);

  (void) unused;
  retain (tarn_block_get_memory (aside));
  tarn_block_free (aside);
  tarn_block_ref (shared);
  g_assert_null (_tarn_pool_check (pool));
  pool->blocks.n_aside++;
  expect_violation (pool, "n_aside");
  pool->blocks.n_aside--;
  aside->state = TARN_BLOCK_ACTIVE;
  expect_violation (pool, "aside");
  aside->state = TARN_BLOCK_ENDING;
  shared->state = TARN_BLOCK_ACTIVE;
  expect_violation (pool, "shared");
  shared->state = TARN_BLOCK_SHARED;
  g_assert_null (_tarn_pool_check (pool));
  tarn_block_free (shared);
  tarn_block_free (shared);
}

#define ADD(path, func) g_test_add ("/core/retained/" path, World, NULL, set_up, func, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("kept", test_retained);
  ADD ("out-of-memory", test_retained_out_of_memory);
  ADD ("trim", test_retained_trim);
  ADD ("many", test_retained_many);
  ADD ("end", test_retained_end);
  ADD ("awaited", test_retained_awaited);
  ADD ("threads", test_retained_threads);
  ADD ("shared", test_retained_shared);
  ADD ("trusted", test_trusted);
  ADD ("debug", test_retained_debug);
  ADD ("checker", test_checker);
  return g_test_run ();
}
