/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The limit of a pool over a heap bounds what the heap allocates from the driver.  Requests that
 * fit are served, on a full device as well. */

#include "heap-fixture.h"
#include "lib/pool-fixture.h"

/* Takes blocks of a size, and keeps them, until that fails at the pool's limit, which bounds what
 * the heap has. */
static void
take_all (TarnPool *pool, HeapFixture *fixture, gsize size, GPtrArray *blocks)
{
  gsize limit = tarn_pool_get_limit_bytes (pool);
  g_autoptr (GError) error = NULL;
  TarnBlock *block;

  while ((block = tarn_pool_allocate (pool, size, &error)) != NULL)
    {
      g_ptr_array_add (blocks, block);
      g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, <=, limit);
    }
  g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
  assert_valid (pool);
  heap_assert_valid (fixture);
}

/* A heap keeps to the limit of a pool over it, if it is to, and to its own if that is less. */
static void
test_limit (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (GPtrArray) blocks = g_ptr_array_new_with_free_func ((GDestroyNotify) tarn_block_free);
  TarnHeapOptions heap_options = TARN_HEAP_OPTIONS_INIT;
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnPool) pool = NULL;

  (void) unused;
  heap_options.follows_pool_limit = TRUE;
  heap_options.limit_bytes = 200 * MIB;
  options.limit_bytes = 70 * MIB;
  heap_renew (fixture, &heap_options);
  pool = tarn_pool_new (fixture->heap, &options, NULL);
  g_assert_true (tarn_pool_get_upstream (pool) == fixture->heap);
  take_all (pool, fixture, 3 * MIB, blocks);
  g_assert_cmpuint (blocks->len, >=, fixture->is_virtual ? 23 : 20);

  g_ptr_array_set_size (blocks, 2);
  tarn_pool_set_limit_bytes (pool, 30 * MIB);
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, <=, 30 * MIB);
  take_all (pool, fixture, MIB, blocks);

  tarn_pool_set_limit_bytes (pool, 250 * MIB);
  take_all (pool, fixture, 5 * MIB, blocks);
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, >, 190 * MIB);
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, <=, 200 * MIB);
}

/* With the least limit there is something to be had. */
static void
test_least_limit (HeapFixture *fixture, gconstpointer unused)
{
  TarnHeapOptions heap_options = TARN_HEAP_OPTIONS_INIT;
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnPool) pool = NULL;

  (void) unused;
  heap_options.follows_pool_limit = TRUE;
  heap_renew (fixture, &heap_options);
  options.limit_bytes = 512;
  pool = tarn_pool_new (fixture->heap, &options, NULL);
  tarn_block_free (allocate (pool, 512));
  tarn_pool_set_limit_bytes (pool, G_MAXSIZE);
  tarn_block_free (allocate (pool, 50 * MIB));
}

/* The limit of a pool that is released bounds the heap no longer, with the pool's charges or
 * without, although a block of the pool is in use. */
static void
test_released (HeapFixture *fixture, gconstpointer unused)
{
  TarnHeapOptions heap_options = TARN_HEAP_OPTIONS_INIT;
  g_autoptr (TarnPool) pool = NULL;
  TarnBlock *block;

  (void) unused;
  heap_options.follows_pool_limit = TRUE;
  heap_renew (fixture, &heap_options);
  pool = tarn_pool_new (fixture->heap, NULL, NULL);
  for (guint i = 0; i < 2; i++)
    {
      TarnPool *limited = tarn_pool_new (fixture->heap, NULL, NULL);

      tarn_pool_set_limit_bytes (limited, 16 * MIB);
      g_assert_true (tarn_pool_charge (limited, (1 + 7 * i) * MIB, NULL));
      block = allocate (limited, MIB);
      g_assert_null (tarn_pool_allocate (pool, 20 * MIB, NULL));
      tarn_pool_unref (limited);
      tarn_block_free (allocate (pool, 20 * MIB));
      tarn_block_free (block);
      tarn_block_free (allocate (pool, 20 * MIB));
    }
}

/* A charge of a pool whose limit the heap does not follow leaves the heap's limit as it is. */
static void
test_charge_of_other (HeapFixture *fixture, gconstpointer unused)
{
  TarnHeapOptions heap_options = TARN_HEAP_OPTIONS_INIT;
  g_autoptr (TarnPool) pool = NULL, other = NULL;

  (void) unused;
  heap_options.follows_pool_limit = TRUE;
  heap_renew (fixture, &heap_options);
  other = tarn_pool_new (fixture->heap, NULL, NULL);
  tarn_pool_set_limit_bytes (other, 16 * MIB);
  pool = tarn_pool_new (fixture->heap, NULL, NULL);
  g_assert_true (tarn_pool_charge (other, MIB, NULL));
  tarn_block_free (allocate (pool, 20 * MIB));
  tarn_pool_uncharge (other, MIB);
  tarn_block_free (allocate (pool, 20 * MIB));
}

typedef struct
{
  TarnPool *pool;
  GPtrArray *blocks;
} Lowered;

/* Frees some blocks, and checks that no request gets their bytes while the pool is above its
 * limit. */
static gpointer
free_above_limit (gpointer data)
{
  const Lowered *lowered = data;
  TarnPool *pool = lowered->pool;
  GPtrArray *blocks = lowered->blocks;

  while (get_stats (pool).active_bytes > 3 * MIB)
    {
      g_autoptr (GError) error = NULL;

      g_ptr_array_set_size (blocks, (gint) blocks->len - 1);
      g_assert_null (tarn_pool_allocate (pool, 700 * KIB, &error));
      g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
      g_clear_error (&error);
      g_assert_null (tarn_pool_allocate (pool, 100 * KIB, &error));
      g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
      assert_valid (pool);
    }
  g_ptr_array_set_size (blocks, 1);
  g_ptr_array_add (blocks, allocate (pool, 700 * KIB));
  return NULL;
}

/* If the blocks in use are above a limit that was lowered, no request gets memory until they are
 * below it, although the heap has free memory. */
static void
test_lowered (HeapFixture *fixture, gconstpointer unused)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;

  (void) unused;
  for (guint i = 0; i < 4; i++)
    {
      g_autoptr (GPtrArray) blocks
          = g_ptr_array_new_with_free_func ((GDestroyNotify) tarn_block_free);
      g_autoptr (TarnPool) pool = NULL;
      Lowered lowered;

      options.limit_bytes = i % 2 * GIB;
      pool = tarn_pool_new (fixture->heap, &options, NULL);
      for (guint j = 0; j < 32; j++)
        g_ptr_array_add (blocks, allocate (pool, 800 * KIB));
      tarn_pool_set_limit_bytes (pool, 2 * MIB);
      lowered = (Lowered){ pool, blocks };
      if (i / 2 > 0)
        g_thread_join (g_thread_new ("other", free_above_limit, &lowered));
      else
        free_above_limit (&lowered);
    }
}

/* The heap returns its idle segments after their time, although the pool is above its limit and
 * asks the heap for nothing. */
static void
test_expires (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = NULL;
  TarnBlock *block;

  (void) unused;
  heap_stop_clock (G_TIME_SPAN_DAY);
  heap_renew (fixture, NULL);
  pool = tarn_pool_new (fixture->heap, NULL, NULL);
  block = allocate (pool, 40 * MIB);
  tarn_block_free (allocate (pool, 60 * MIB));
  tarn_pool_set_limit_bytes (pool, 10 * MIB);
  g_assert_null (tarn_pool_allocate (pool, MIB, NULL));
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, >=, 100 * MIB);
  heap_pass_time (11 * G_TIME_SPAN_SECOND);
  g_assert_null (tarn_pool_allocate (pool, MIB, NULL));
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, <=, 64 * MIB);
  tarn_block_free (block);
  tarn_clock_set (NULL);
}

/* Otherwise the heap may have more. */
static void
test_own_limit (HeapFixture *fixture, gconstpointer unused)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnPool) pool = NULL, other = NULL;

  (void) unused;
  options.limit_bytes = 1;
  pool = tarn_pool_new (fixture->heap, &options, NULL);
  other = tarn_pool_new (fixture->heap, NULL, NULL);
  tarn_block_free (allocate (other, MIB));
}

/* A pool over a new heap, with a limit of both. */
static TarnPool *
limited_pool_new (HeapFixture *fixture, gsize limit)
{
  TarnHeapOptions heap_options = TARN_HEAP_OPTIONS_INIT;
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;

  heap_options.follows_pool_limit = TRUE;
  heap_renew (fixture, &heap_options);
  options.limit_bytes = limit;
  return tarn_pool_new (fixture->heap, &options, NULL);
}

/* A charge counts within the limit of the heap, too: the heap returns idle pieces for it, and then
 * grows only to what the charge leaves of the limit. */
static void
test_charge (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (GPtrArray) blocks = g_ptr_array_new_with_free_func ((GDestroyNotify) tarn_block_free);
  g_autoptr (TarnPool) pool = limited_pool_new (fixture, 64 * MIB);
  g_autoptr (GError) error = NULL;

  (void) unused;
  take_all (pool, fixture, MIB, blocks);
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, >, 40 * MIB);
  g_ptr_array_set_size (blocks, 0);
  g_assert_true (tarn_pool_charge (pool, 40 * MIB, &error));
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, <=, 24 * MIB);
  take_all (pool, fixture, MIB, blocks);
  g_assert_cmpuint (blocks->len, >, 10);
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, <=, 24 * MIB);

  tarn_pool_uncharge (pool, 40 * MIB);
  take_all (pool, fixture, MIB, blocks);
  g_assert_cmpuint (blocks->len, >, 40);
}

/* Replaces a block by one of another size.  FALSE: it was refused, although what is in use and it
 * are no more than @there. */
static gboolean
replace (TarnPool *pool, TarnBlock **block, gsize size, gsize there)
{
  g_autoptr (GError) error = NULL;
  gsize used;

  g_clear_pointer (block, tarn_block_free);
  used = get_stats (pool).active_bytes;
  *block = tarn_pool_allocate (pool, size, &error);
  if (*block != NULL || used > there || size > there - used)
    return TRUE;
  g_test_message ("%" G_GSIZE_FORMAT " bytes, beside %" G_GSIZE_FORMAT " in use: %s", size, used,
                  error->message);
  return FALSE;
}

/* Makes 2,000 requests, with @n_blocks blocks in use at a time, of sizes that are large compared
 * with @limit.  Gets how many of them failed although no more than @there was to be in use. */
static guint
replace_many (TarnPool *pool, HeapFixture *fixture, guint n_blocks, gsize limit, gsize there,
              GRand *random)
{
  g_autofree TarnBlock **blocks = g_new0 (TarnBlock *, n_blocks);
  guint n_wrong = 0;

  for (guint i = 0; i < 2000; i++)
    {
      guint which = (guint) g_rand_int_range (random, 0, (gint32) n_blocks);
      gsize size = (gsize) g_rand_int_range (random, 200000, 8000000);

      n_wrong += !replace (pool, &blocks[which], MAX (limit / (64 * MIB), 1) * size, there);
    }
  heap_assert_valid (fixture);
  for (guint i = 0; i < n_blocks; i++)
    tarn_block_free (blocks[i]);
  return n_wrong;
}

/* The same with one sequence each time. */
static guint
replace_known (TarnPool *pool, HeapFixture *fixture, guint n_blocks, gsize limit)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (n_blocks);

  return replace_many (pool, fixture, n_blocks, limit, limit, random);
}

/* The same with another sequence each time. */
static guint
replace_any (TarnPool *pool, HeapFixture *fixture, guint n_blocks, gsize limit, gsize there)
{
  g_autoptr (GRand) random = g_rand_new_with_seed ((guint32) g_test_rand_int ());

  return replace_many (pool, fixture, n_blocks, limit, there, random);
}

static gboolean
skips_virtual (const HeapFixture *fixture)
{
  if (fixture->is_virtual)
    g_test_skip ("virtual memory is given in multiples of 2 MiB");
  return fixture->is_virtual;
}

/* A request that fits into the limit is served, although pieces cannot move: always if it leaves a
 * little of the limit, which may be stranded, and mostly if it leaves nothing. */
static void
test_limit_fits (HeapFixture *fixture, gconstpointer unused)
{
  (void) unused;
  if (skips_virtual (fixture))
    return;
  for (guint n_blocks = 8; n_blocks <= 16; n_blocks += 2)
    {
      g_autoptr (TarnPool) pool = limited_pool_new (fixture, 64 * MIB);

      g_assert_cmpuint (replace_known (pool, fixture, n_blocks, 64 * MIB), ==, 0);
      g_assert_cmpuint (replace_any (pool, fixture, n_blocks, 64 * MIB, 63 * MIB), ==, 0);
    }
  for (guint n_blocks = 8; n_blocks <= 16; n_blocks += 2)
    {
      g_autoptr (TarnPool) pool = limited_pool_new (fixture, 64 * MIB);

      g_assert_cmpuint (replace_any (pool, fixture, n_blocks, 64 * MIB, 63 * MIB), ==, 0);
    }
}

/* A program whose limit is a few times what it uses has its large blocks from idle pieces mostly,
 * although none is of just their size. */
static void
test_limit_is_quick (HeapFixture *fixture, gconstpointer unused)
{
  (void) unused;
  if (skips_virtual (fixture))
    return;
  for (gsize limit = 256 * MIB; limit <= 1024 * MIB; limit *= 2)
    {
      g_autoptr (TarnPool) pool = limited_pool_new (fixture, limit);

      g_assert_cmpuint (replace_known (pool, fixture, 12, 64 * MIB), ==, 0);
      g_assert_cmpuint (heap_get_stats (fixture).upstream_frees, <, 2000 / 8);
    }
}

/* The same if the program also has many small blocks.  They leave more free bytes in their pieces
 * than large requests may strand, which does not concern large requests. */
static void
test_limit_is_quick_beside_small (HeapFixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[128] = { NULL };

  (void) unused;
  if (skips_virtual (fixture))
    return;
  for (gsize limit = 22 * MIB; limit <= 88 * MIB; limit *= 2)
    {
      g_autoptr (TarnPool) pool = limited_pool_new (fixture, limit);
      g_autoptr (GRand) random = g_rand_new_with_seed (1);
      guint64 before = heap_get_stats (fixture).upstream_frees;

      for (guint i = 0; i < 4000; i++)
        {
          gsize size = (gsize) g_rand_int_range (random, 1, 160 << 10);
          guint which = (guint) g_rand_int_range (random, 0, G_N_ELEMENTS (blocks));

          g_assert_true (replace (pool, &blocks[which], size, limit));
          g_assert_nonnull (blocks[which]);
        }
      heap_assert_valid (fixture);
      for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
        g_clear_pointer (&blocks[i], tarn_block_free);
      g_assert_cmpuint (heap_get_stats (fixture).upstream_frees - before, <, 4000 / 16);
    }
}

/* Pieces of virtual memory can move, except those with something in use.  They are a small share of
 * the limit, so few requests fail that fit. */
static void
test_limit_of_virtual (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = NULL;

  (void) unused;
  if (!fixture->is_virtual || sizeof (gsize) < sizeof (guint64))
    {
      g_test_skip ("there is no virtual memory of 6 GiB");
      return;
    }
  pool = limited_pool_new (fixture, 6400 * MIB);
  g_assert_cmpuint (replace_any (pool, fixture, 12, 6400 * MIB, 6400 * MIB), <, 15);
}

/* Random sizes of 4 KiB to 16 MiB fill 90 % of a limit.  Very few requests fail, although each
 * segment with a block in use must stay where it is.  How many fail depends on how the heap grew
 * before; 82 failed when segments were mapped only at the end of the addresses. */
static void
test_limit_filled (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (1);
  TarnBlock *blocks[600] = { NULL };
  gsize sizes[G_N_ELEMENTS (blocks)] = { 0 }, limit = GIB, used = 0;
  g_autoptr (TarnPool) pool = NULL;
  guint n_failures = 0;

  (void) unused;
  if (!fixture->is_virtual)
    {
      g_test_skip ("parts do not move");
      return;
    }
  pool = limited_pool_new (fixture, limit);
  for (guint i = 0; i < 20000; i++)
    {
      guint which = (guint) g_rand_int_range (random, 0, G_N_ELEMENTS (blocks));
      gsize size = (gsize) (4 * KIB) << g_rand_int_range (random, 0, 12);

      size += (gsize) (g_rand_double (random) * (gdouble) size);
      used -= sizes[which];
      sizes[which] = used + size <= limit / 10 * 9 ? size : 0;
      g_clear_pointer (&blocks[which], tarn_block_free);
      if (sizes[which] == 0)
        continue;
      used += size;
      blocks[which] = tarn_pool_allocate (pool, size, NULL);
      n_failures += blocks[which] == NULL;
    }
  g_test_message ("%u failures", n_failures);
  g_assert_cmpuint (n_failures, <=, 12);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    g_clear_pointer (&blocks[i], tarn_block_free);
}

/* The same once a limit was lowered, and raised again. */
static void
test_limit_moves (HeapFixture *fixture, gconstpointer unused)
{
  static const gsize limits[] = { 64 * MIB, 40 * MIB, 100 * MIB, 64 * MIB };
  g_autoptr (TarnPool) pool = NULL;

  (void) unused;
  if (skips_virtual (fixture))
    return;
  pool = limited_pool_new (fixture, 64 * MIB);
  for (guint i = 0; i < G_N_ELEMENTS (limits); i++)
    {
      tarn_pool_set_limit_bytes (pool, limits[i]);
      g_assert_cmpuint (replace_known (pool, fixture, 8 + i, limits[i]), ==, 0);
      g_assert_cmpuint (replace_any (pool, fixture, 8 + i, limits[i], limits[i] - limits[i] / 64),
                        ==, 0);
    }
}

/* A request that fits at the end of the addresses, with the free bytes there, is served: the heap
 * maps it nowhere else, where it would need more memory than the limit allows. */
static void
test_limit_at_end (HeapFixture *fixture, gconstpointer unused)
{
  const gsize size = 8 * MIB + 30 * KIB;
  const guint64 most = (guint64) 8 << 30; /* not as a gsize, which may have 32 bits */
  g_autoptr (GPtrArray) blocks = g_ptr_array_new_with_free_func ((GDestroyNotify) tarn_block_free);
  g_autoptr (TarnPool) pool = NULL;
  TarnBlock *freed = NULL;
  gsize all;

  (void) unused;
  if (!fixture->is_virtual || sizeof (gsize) < sizeof (guint64))
    {
      g_test_skip ("there is no virtual memory of 8 GiB");
      return;
    }
  pool = limited_pool_new (fixture, (gsize) (most + most / 8));
  while (heap_get_stats (fixture).upstream_bytes < most
         || heap_get_stats (fixture).largest_free_bytes > 600 * KIB)
    {
      if (freed == NULL && heap_get_stats (fixture).upstream_bytes > GIB)
        freed = allocate (pool, size);
      g_ptr_array_add (blocks, allocate (pool, 500 * KIB));
    }
  all = heap_get_stats (fixture).upstream_bytes;
  tarn_block_free (freed);
  tarn_pool_free_held (pool);
  tarn_pool_set_limit_bytes (pool, all);
  g_assert_null (tarn_pool_allocate (pool, size + 200 * KIB, NULL)); /* memory is short now */
  tarn_pool_set_limit_bytes (pool, all + 8 * MIB);
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, ==, all);
  g_ptr_array_add (blocks, allocate (pool, size + 8 * KIB));
}

/* A count of one is "1 byte". */
static void
test_one_byte (HeapFixture *fixture, gconstpointer unused)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;
  TarnMemory memory, other;

  (void) unused;
  if (skips_virtual (fixture))
    return;
  options.limit_bytes = 1;
  heap_renew (fixture, &options);
  memory = heap_take (fixture, 1);
  g_assert_false (tarn_allocator_allocate_memory (fixture->heap, 1, &other, &error));
  g_assert_true (g_str_has_suffix (
      error->message, " has 1 byte of a limit of 1, and needs 1 more: 0 bytes are free "
                      "in 1 segment, and the largest free range has 0"));
  heap_put (fixture, memory, 1);
}

/* A heap learns that a device is small and full: at first it does not know. */
static void
test_device_fits (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = NULL;

  (void) unused;
  if (skips_virtual (fixture))
    return;
  tarn_testing_pages_set_budget (fixture->pages, 64 * MIB);
  pool = tarn_pool_new (fixture->heap, NULL, NULL);
  replace_any (pool, fixture, 12, 64 * MIB, 64 * MIB);
  g_assert_cmpuint (replace_any (pool, fixture, 12, 64 * MIB, 64 * MIB), <, 40);
}

/* All of a limit can be used, also one that is no multiple of anything. */
static void
test_odd_limit (HeapFixture *fixture, gconstpointer unused)
{
  static const gsize limits[] = { 1, 3, 511, 513, 1000000, 64 * MIB - 1, 64 * MIB + 1 };

  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (limits); i++)
    {
      g_autoptr (TarnPool) pool = limited_pool_new (fixture, limits[i]);
      TarnBlock *first;

      tarn_block_free (allocate (pool, limits[i]));
      tarn_block_free (allocate (pool, limits[i] / 2 + 1));
      first = allocate (pool, limits[i]);
      heap_assert_valid (fixture);
      tarn_block_free (first);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  heap_add ("pool/limit", test_limit);
  heap_add ("pool/least-limit", test_least_limit);
  heap_add ("pool/charge", test_charge);
  heap_add ("pool/own-limit", test_own_limit);
  heap_add ("pool/released", test_released);
  heap_add ("pool/lowered", test_lowered);
  heap_add ("pool/expires", test_expires);
  heap_add ("pool/charge-of-other", test_charge_of_other);
  heap_add ("pool/limit-fits", test_limit_fits);
  heap_add ("pool/limit-is-quick", test_limit_is_quick);
  heap_add ("pool/limit-is-quick-beside-small", test_limit_is_quick_beside_small);
  heap_add ("pool/limit-of-virtual", test_limit_of_virtual);
  heap_add ("pool/limit-filled", test_limit_filled);
  heap_add ("pool/limit-moves", test_limit_moves);
  heap_add ("pool/device-fits", test_device_fits);
  heap_add ("pool/limit-at-end", test_limit_at_end);
  heap_add ("pool/one-byte", test_one_byte);
  heap_add ("pool/odd-limit", test_odd_limit);
  return g_test_run ();
}
