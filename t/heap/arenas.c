/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What threads take from a heap's arenas without a lock, and give back: what they keep for
 * temporaries, what a limit grants them, which sizes are rounded, blocks that another thread frees,
 * several arenas of one queue, and what they share out. */

#include "heap-fixture.h"
#include "lib/pool-fixture.h"
#include "pool/cache-private.h"
#include "pool/pool-private.h"

#include <tarn/snapshot.h>

#define N_THREADS 4
#define N_ROUNDS 3000
#define N_LIVE 8
#define N_SLOTS 16
#define LARGEST (512 * KIB)

static TarnPool *
pool_new (HeapFixture *fixture, gsize limit_bytes)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;

  options.limit_bytes = limit_bytes;
  return tarn_pool_new (fixture->heap, &options, NULL);
}

/* Takes and frees one block after the other, larger by @step each. */
static void
have_temporaries (TarnPool *pool, gsize size, gsize step, guint n)
{
  for (guint i = 0; i < n; i++)
    tarn_block_free (allocate (pool, size + i * step));
}

/* A thread whose large blocks are temporaries has one for all of their sizes, and no longer than
 * anything else is held. */
static void
test_temporaries (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = pool_new (fixture, 0);
  TarnPoolStats stats;
  TarnBlock *first, *second;

  (void) unused;
  have_temporaries (pool, MIB, 4 * KIB, 40);
  stats = get_stats (pool);
  g_assert_cmpuint (stats.held_blocks, ==, 1);
  have_temporaries (pool, 300 * KIB, 7 * KIB, 100);
  g_assert_cmpuint (get_stats (pool).hits, ==, stats.hits + 100);
  g_assert_cmpuint (get_stats (pool).held_bytes, ==, stats.held_bytes);

  first = allocate (pool, MIB);
  second = allocate (pool, MIB);
  g_assert_cmpuint (get_stats (pool).hits, ==, stats.hits + 101);
  g_assert_cmpuint (tarn_block_get_alloc_size (first), ==, stats.held_bytes);
  g_assert_cmpuint (tarn_block_get_alloc_size (second), ==, MIB);
  tarn_block_free (first); /* which is not the latest: no temporary */
  tarn_block_free (second);
  assert_valid (pool);
  g_assert_cmpuint (get_stats (pool).held_blocks, ==, 0);

  have_temporaries (pool, MIB, 0, 40);
  g_assert_cmpuint (get_stats (pool).held_blocks, ==, 1);
  tarn_pool_free_held (pool);
  g_assert_cmpuint (get_stats (pool).held_blocks, ==, 0);
  g_assert_cmpuint (heap_get_stats (fixture).used_bytes, ==, 0);
  assert_valid (pool);
}

/* More than 4 MiB is kept for nobody, and neither is what is small. */
static void
test_not_kept (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = pool_new (fixture, 0);

  (void) unused;
  have_temporaries (pool, 4 * MIB + 1, 0, 40);
  g_assert_cmpuint (get_stats (pool).held_blocks, ==, 0);
  have_temporaries (pool, 4 * MIB, 0, 40);
  g_assert_cmpuint (get_stats (pool).held_blocks, ==, 1);
}

/* Small sizes are rounded, by less than 1/32; not below a limit, whenever that is set. */
static void
test_sizes (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = pool_new (fixture, 0);
  g_autoptr (TarnPool) limited = pool_new (fixture, 64 * MIB);

  (void) unused;
  for (gsize size = 1; pool->has_arenas && size <= 400 * KIB; size += 1 + size / 7)
    {
      TarnBlock *rounded = allocate (pool, size), *exact = allocate (limited, size), *later;
      gsize bytes = tarn_block_get_alloc_size (rounded);

      g_assert_cmpuint (bytes, >=, size);
      g_assert_cmpuint (bytes, <=, size <= 256 * KIB ? MAX (size + 511, size + size / 32) : size);
      g_assert_cmpuint (tarn_block_get_alloc_size (exact), ==, size == 1 ? 512 : size);
      tarn_pool_set_limit_bytes (pool, GIB);
      later = allocate (pool, size);
      g_assert_cmpuint (tarn_block_get_alloc_size (later), ==, size == 1 ? 512 : size);
      tarn_block_free (later);
      tarn_pool_set_limit_bytes (pool, 0);
      tarn_block_free (rounded);
      tarn_block_free (exact);
      assert_valid (pool);
    }
}

/* If the heap has the pool's limit, too, a pool rounds small sizes as the heap does, unless the
 * limit is small. */
static void
test_limited_sizes (HeapFixture *fixture, gconstpointer unused)
{
  const gsize limits[] = { 127 * MIB, 128 * MIB, GIB };
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;

  (void) unused;
  options.follows_pool_limit = TRUE;
  heap_renew (fixture, &options);
  for (gsize i = 0; i < G_N_ELEMENTS (limits); i++)
    {
      g_autoptr (TarnPool) pool = pool_new (fixture, limits[i]);
      gboolean is_rounded
          = pool->has_arenas && i > 0 && _tarn_heap_get_alignment (pool->heap) >= 512;

      for (gsize size = 2; size <= 17 * KIB; size += 1 + size / 7)
        {
          g_autoptr (TarnBlock) block = allocate (pool, size);
          gsize rounded = is_rounded && size <= 16 * KIB ? (size + 511) / 512 * 512 : size;

          g_assert_cmpuint (tarn_block_get_alloc_size (block), ==, rounded);
        }
    }
}

/* Asserts that the thread caches a block of @size bytes that it frees. */
static void
assert_cached (TarnPool *pool, gsize size)
{
  gsize held;
  TarnBlock *block = allocate (pool, size);

  held = get_stats (pool).held_bytes;
  size = tarn_block_get_alloc_size (block);
  tarn_block_free (block);
  g_assert_cmpuint (get_stats (pool).held_bytes, ==, held + size);
}

/* A thread that had many blocks of other sizes, and whose cache is full of them, caches blocks of
 * the sizes that it uses now. */
static void
test_other_sizes (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = pool_new (fixture, 0);

  (void) unused;
  for (gsize size = 16 * KIB; size <= 256 * KIB; size += 8 * KIB)
    for (guint i = 0; i < 6; i++)
      pool_have_at_once (pool, size, 32);
  for (gsize size = 4 * KIB; size <= 256 * KIB; size *= 2)
    {
      for (guint i = 0; i < 1500; i++)
        pool_have_at_once (pool, size - KIB, 2);
      assert_cached (pool, size - KIB);
      assert_valid (pool);
    }
  tarn_pool_free_held (pool);
  g_assert_cmpuint (get_stats (pool).held_bytes, ==, 0);
}

/* Large blocks that do not all fit into a thread's cache leave room there for a size that the
 * thread uses often, one block at a time. */
static void
test_often_used (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = pool_new (fixture, 0);
  guint64 n_misses = 0, before;

  (void) unused;
  for (guint i = 0; i < 2000; i++)
    {
      before = get_stats (pool).misses;
      have_temporaries (pool, 4 * KIB, 0, 10);
      if (i >= 100)
        n_misses += get_stats (pool).misses - before;
      pool_have_at_once (pool, i % 1000 < 500 ? 256 * KIB : 128 * KIB, 40);
    }
  g_assert_cmpuint (n_misses, <=, 100);
  assert_valid (pool);
}

/* A size of which the thread caches as many blocks as of any size takes no room from others. */
static void
test_full_bin (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = pool_new (fixture, 0);
  gsize held;

  (void) unused;
  tarn_block_free (allocate (pool, 64 * MIB));
  for (guint i = 0; i < 3; i++)
    for (gsize size = KIB; size <= 40 * KIB; size += KIB)
      pool_have_at_once (pool, size, 4);
  held = get_stats (pool).held_bytes;
  for (guint i = 0; i < 100; i++)
    pool_have_at_once (pool, 512, 64);
  g_assert_cmpuint (get_stats (pool).held_bytes, >=, held);
}

/* A thread that uses more sizes than its cache has places for does not keep replacing them. */
static void
test_many_sizes (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = pool_new (fixture, GIB); /* with a limit, sizes are not rounded */
  const TarnCache *cache;

  (void) unused;
  for (guint i = 0; i < 20000; i++)
    tarn_block_free (allocate (pool, 1 + i * 7919 % (4 * KIB)));
  cache = _tarn_cache_of (_tarn_current_thread, pool);
  g_assert_nonnull (cache);
  g_assert_cmpuint (cache->n_replaced, >, 0);
  g_assert_cmpuint (cache->n_replaced, <=, 20000 / 50);
  assert_valid (pool);
}

static gint64 test_time;

static gint64
get_test_time (void)
{
  return test_time;
}

/* A program that takes no lock gives back as well what nobody has used for ten seconds. */
static void
test_expire (HeapFixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnPool) pool = pool_new (fixture, 0);
  gsize upstream_bytes;

  (void) unused;
  test_time = G_TIME_SPAN_SECOND;
  tarn_clock_set (get_test_time);
  have_temporaries (pool, 300 * KIB, 0, 40);
  tarn_block_free (allocate (pool, 200 * MIB));
  have_temporaries (pool, 300 * KIB, 0, 600); /* one looks after the heap because that has grown */
  upstream_bytes = heap_get_stats (fixture).upstream_bytes;
  g_assert_cmpuint (upstream_bytes, >=, 200 * MIB);
  for (guint i = 0; i < 4; i++)
    {
      test_time += 11 * G_TIME_SPAN_SECOND;
      have_temporaries (pool, 300 * KIB, 0, 300);
    }
  /* After the peak a piece that stays where it is has 128 MiB. */
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, <=,
                    fixture->is_virtual ? 64 * MIB : 130 * MIB);
  tarn_clock_set (NULL);
}

/* Threads */

typedef struct
{
  TarnPool *pool;
  guint32 seed;
  gsize limit_bytes;
  gint n_served;             /* atomic */
  gint n_ended;              /* atomic: threads that have nothing more to do */
  gboolean exchanges;        /* threads free each other's blocks */
  TarnBlock *slots[N_SLOTS]; /* atomic: what is to be freed */
} World;

static void
free_some (World *world, GRand *rand, TarnBlock **block)
{
  TarnBlock *other = g_steal_pointer (block);

  if (world->exchanges && other != NULL)
    other = __atomic_exchange_n (&world->slots[g_rand_int_range (rand, 0, N_SLOTS)], other,
                                 __ATOMIC_ACQ_REL);
  tarn_block_free (other);
}

static gpointer
work (gpointer data)
{
  World *world = data;
  g_autoptr (GRand) rand = g_rand_new_with_seed ((guint32) g_atomic_int_add (&world->seed, 1));
  TarnBlock *live[N_LIVE] = { NULL };

  for (guint i = 0; i < N_ROUNDS; i++)
    {
      TarnBlock **block = &live[g_rand_int_range (rand, 0, N_LIVE)];
      g_autoptr (GError) error = NULL;

      free_some (world, rand, block);
      *block
          = tarn_pool_allocate (world->pool, (gsize) g_rand_int_range (rand, 1, LARGEST), &error);
      if (*block == NULL)
        g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
      else
        g_atomic_int_inc (&world->n_served);
      if (world->limit_bytes != 0 && i % 16 == 0)
        g_assert_cmpuint (tarn_pool_get_managed_bytes (world->pool), <=, world->limit_bytes);
    }
  for (guint i = 0; i < N_LIVE; i++)
    free_some (world, rand, &live[i]);
  /* Each has been a thread of its own, rather than the next one in the place of the first. */
  g_atomic_int_inc (&world->n_ended);
  while (g_atomic_int_get (&world->n_ended) < N_THREADS)
    g_thread_yield ();
  return NULL;
}

static void
run (World *world)
{
  GThread *threads[N_THREADS];

  world->n_ended = 0;
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("worker", work, world);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
}

/* Threads that are granted bytes of a limit never have more together, and nothing of it is lost. */
static void
test_limit (HeapFixture *fixture, gconstpointer unused)
{
  World world = { .limit_bytes = 4 * MIB };
  TarnBlock *all;

  (void) unused;
  world.pool = pool_new (fixture, world.limit_bytes);
  for (guint round = 0; round < 3; round++)
    {
      run (&world);
      g_assert_cmpint (world.n_served, >, N_ROUNDS);
      assert_valid (world.pool);
      g_assert_cmpuint (get_stats (world.pool).active_blocks, ==, 0);
      all = allocate (world.pool, world.limit_bytes);
      tarn_block_free (all);
      world.limit_bytes += MIB;
      tarn_pool_set_limit_bytes (world.pool, world.limit_bytes);
      world.n_served = 0;
    }
  tarn_pool_unref (world.pool);
}

/* A thread may take some bytes below a limit without asking.  When the pool stops holding, it takes
 * them back, and one request can have the whole limit. */
static void
test_limit_at_end (HeapFixture *fixture, gconstpointer unused)
{
  const gsize limit_bytes = 256 * MIB;
  g_autoptr (TarnPool) pool = pool_new (fixture, limit_bytes);

  (void) unused;
  have_temporaries (pool, 300 * KIB, 0, 40);
  tarn_pool_stop_holding (pool);
  tarn_block_free (allocate (pool, limit_bytes));
  assert_valid (pool);
}

/* Far below its limit a heap serves threads without its lock, as one without a limit does. */
static void
test_far_from_limit (HeapFixture *fixture, gconstpointer unused)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  g_autoptr (TarnAllocator) heap = NULL;
  g_autoptr (TarnPool) pool = NULL;
  TarnBlock *blocks[8] = { NULL };
  guint64 n_with_lock = 0;

  (void) unused;
  options.limit_bytes = GIB;
  heap = tarn_heap_allocator_new (fixture->upstream, &options, NULL);
  pool = tarn_pool_new (heap, NULL, NULL);
  for (guint i = 0; i < 600; i++)
    {
      TarnBlock **block = &blocks[i % G_N_ELEMENTS (blocks)];

      tarn_block_free (*block);
      *block = allocate (pool, 257 * KIB + i % 101 * 8 * KIB); /* of many sizes, none kept */
      if (i == 200)
        n_with_lock = pool->stats.misses;
    }
  g_assert_cmpuint (pool->stats.misses - n_with_lock, <=, 8);
  assert_valid (pool);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    tarn_block_free (blocks[i]);
  tarn_block_free (allocate (pool, GIB)); /* and nothing else of the limit is left */
  assert_valid (pool);
}

/* Another thread frees a block: its memory goes back to the arena that it came from. */
static void
test_freed_by_others (HeapFixture *fixture, gconstpointer unused)
{
  World world = { .exchanges = TRUE };
  TarnPoolStats stats;

  (void) unused;
  world.pool = pool_new (fixture, 0);
  run (&world);
  for (guint i = 0; i < N_SLOTS; i++)
    tarn_block_free (world.slots[i]);
  assert_valid (world.pool);
  heap_assert_valid (fixture);
  stats = get_stats (world.pool);
  g_assert_cmpuint (stats.active_blocks, ==, 0);
  g_assert_cmpuint (stats.active_bytes, ==, 0);
  g_assert_cmpuint (stats.managed_bytes, ==, stats.held_bytes);
  g_assert_cmpuint (stats.hits + stats.misses, ==, N_THREADS * N_ROUNDS);
  tarn_pool_free_held (world.pool);
  g_assert_cmpuint (heap_get_stats (fixture).used_bytes, ==, 0);
  tarn_pool_unref (world.pool);
}

/* Has a queue have as many arenas as there can be, as if each of many threads had met another one.
 */
static void
add_arenas (TarnHeapQueue *queue)
{
  TarnHeap *heap = queue->heap;

  _tarn_heap_lock (heap);
  queue->threads = queue->has_shared_arena = G_MAXUINT16;
  while (queue->n_arenas < TARN_QUEUE_ARENAS)
    _tarn_queue_add_arenas (queue);
  g_assert_false (queue->has_shared_arena);
  _tarn_heap_unlock (heap);
}

/* The same if each thread has an arena. */
static void
test_several (HeapFixture *fixture, gconstpointer unused)
{
  World world = { .exchanges = TRUE };
  TarnHeap *heap = _tarn_heap_of (fixture->heap);
  gsize upstream_bytes, n_used = 0;
  guint n_with_pieces = 0;
  TarnBlock *all;

  (void) unused;
  world.pool = pool_new (fixture, 0);
  add_arenas (heap->nobody);
  run (&world);
  assert_valid (world.pool);
  heap_assert_valid (fixture);
  for (guint i = 0; i < TARN_QUEUE_ARENAS; i++)
    {
      n_with_pieces += heap->nobody->arenas[i]->n_pieces > 0;
      n_used += heap->nobody->arenas[i]->n_used;
    }
  g_assert_cmpuint (n_with_pieces, >=, 2);
  g_assert_cmpuint (n_used, >=, N_SLOTS);
  for (guint i = 0; i < N_SLOTS; i++)
    tarn_block_free (world.slots[i]);
  tarn_pool_free_held (world.pool);
  g_assert_cmpuint (heap_get_stats (fixture).used_bytes, ==, 0);

  /* Arenas grow as long as the heap has room.  After that threads take memory of other arenas. */
  upstream_bytes = heap_get_stats (fixture).upstream_bytes;
  all = allocate (world.pool, 512 * MIB);
  tarn_block_free (all);
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, >=, 512 * MIB);
  upstream_bytes = heap_get_stats (fixture).upstream_bytes;
  world.exchanges = FALSE;
  run (&world);
  heap_assert_valid (fixture);
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, <=, upstream_bytes + 256 * MIB);
  tarn_pool_unref (world.pool);
}

#define N_BLOCKS 400
#define N_OWN 160

/* A thread that begins when the queue has several arenas. */
typedef struct
{
  TarnPool *pool;
  TarnArena *arena;
  TarnBlock *left[N_OWN]; /* that it did not free */
} Later;

/* Takes and frees blocks that threads do not keep, a few at a time; in a thread that does not use
 * the first arena. */
static gpointer
come_later (gpointer data)
{
  Later *later = data;
  const TarnHeapQueue *queue = _tarn_heap_of (later->pool->upstream)->nobody;
  TarnBlock *blocks[N_OWN];

  tarn_block_free (allocate (later->pool, KIB));
  later->arena = _tarn_queue_get_arena (queue);
  if (later->arena == queue->arenas[0])
    return g_thread_join (g_thread_new ("another", come_later, later));
  for (guint round = 0; round < 20; round++)
    {
      for (guint i = 0; i < N_OWN; i++)
        blocks[i] = allocate (later->pool, 300 * KIB + (i * 7 + round) % 16 * 8 * KIB);
      for (guint i = 0; i < N_OWN; i++)
        tarn_block_free (blocks[i]);
    }
  for (guint i = 0; i < N_OWN; i++)
    later->left[i] = allocate (later->pool, 300 * KIB);
  return NULL;
}

/* A thread whose arena has nothing has it get memory of the queue's others, with what is in use
 * there, and hardly anything of upstream. */
static void
test_shared_out (HeapFixture *fixture, gconstpointer unused)
{
  Later later = { .pool = pool_new (fixture, 0) };
  TarnHeap *heap = _tarn_heap_of (fixture->heap);
  TarnBlock *blocks[N_BLOCKS];
  gsize upstream_bytes;
  TarnArena *rich;
  guint n_own = 0;

  (void) unused;
  if (!fixture->is_virtual)
    {
      g_test_skip ("a heap of parts has room for all threads");
      tarn_pool_unref (later.pool);
      return;
    }
  for (guint i = 0; i < N_BLOCKS; i++)
    blocks[i] = allocate (later.pool, 256 * KIB + i % 50 * 16 * KIB);
  for (guint i = 0; i < N_BLOCKS; i++)
    if (i % 2 == 0)
      tarn_block_free (g_steal_pointer (&blocks[i]));
  rich = heap->nobody->arenas[0];
  add_arenas (heap->nobody);
  upstream_bytes = heap_get_stats (fixture).upstream_bytes;
  g_thread_join (g_thread_new ("later", come_later, &later));
  assert_valid (later.pool);
  heap_assert_valid (fixture);
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, <=, upstream_bytes + 40 * MIB);
  g_assert_cmpuint (later.arena->n_shared, >=, 1);
  g_assert_cmpuint (_tarn_arena_get_bytes (later.arena), >=, _tarn_arena_get_bytes (rich) / 2);
  for (guint i = 0; i < N_OWN; i++)
    n_own += later.left[i]->extent->piece->range->arena == later.arena;
  g_assert_cmpuint (n_own, >=, N_OWN / 2);

  for (guint i = 0; i < N_OWN; i++)
    tarn_block_free (later.left[i]);
  for (guint i = 0; i < N_BLOCKS; i++)
    tarn_block_free (blocks[i]);
  tarn_pool_free_held (later.pool);
  heap_assert_valid (fixture);
  g_assert_cmpuint (heap_get_stats (fixture).used_bytes, ==, 0);
  g_assert_cmpuint (heap_get_stats (fixture).upstream_bytes, ==, 0);
  tarn_pool_unref (later.pool);
}

/* A driver whose calls for parts call Tarn back. */
typedef struct
{
  TarnPool *pool; /* a reference that releasing a part drops; NULL: none */
  gboolean follows;
  guint n_parts;
} Meddler;

static gboolean
meddler_allocate (gpointer unused, gsize size, TarnMemory *memory, GError **error)
{
  (void) unused;
  (void) error;
  memory->pointer = g_malloc (size);
  return TRUE;
}

static void
meddler_free (gpointer unused, TarnMemory memory, gsize size)
{
  (void) unused;
  (void) size;
  g_free (memory.pointer);
}

static gboolean
meddler_part_new (gpointer user_data, TarnMemory memory, gsize offset, gsize size, TarnMemory *part,
                  GError **error)
{
  Meddler *meddler = user_data;

  (void) size;
  (void) error;
  part->pointer = (gchar *) memory.pointer + offset;
  meddler->n_parts++;
  if (meddler->follows)
    tarn_snapshot_set_follow (TRUE);
  return TRUE;
}

static void
meddler_part_release (gpointer user_data, TarnMemory part, gsize size)
{
  Meddler *meddler = user_data;

  (void) part;
  (void) size;
  meddler->n_parts--;
  if (meddler->follows)
    tarn_snapshot_set_follow (TRUE);
  g_clear_pointer (&meddler->pool, tarn_pool_unref);
}

/* Threads can use no arena any more when the driver has made or released a part: the request is
 * served with the locks, and the free ends with them, also that of a pool's last block. */
static void
test_meanwhile (void)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  Meddler meddler = { .follows = FALSE };
  TarnAllocator *driver, *heap;
  TarnHeapStats stats = TARN_HEAP_STATS_INIT;
  TarnBlock *first, *second;
  TarnPool *pool;

  ops.allocate = meddler_allocate;
  ops.free = meddler_free;
  ops.part_alignment = 1;
  ops.part_new = meddler_part_new;
  ops.part_release = meddler_part_release;
  driver = tarn_allocator_new (&ops, &meddler, NULL);
  g_assert_nonnull (driver);
  heap = tarn_heap_allocator_new (driver, NULL, NULL);
  pool = tarn_pool_new (heap, NULL, NULL);
  have_temporaries (pool, 300 * KIB, 0, 4);
  first = allocate (pool, 300 * KIB);
  g_assert_true (first->is_own);
  meddler.follows = TRUE;
  tarn_block_free (first);
  g_assert_cmpuint (meddler.n_parts, ==, 0);
  g_assert_cmpuint (get_stats (pool).active_bytes, ==, 0);
  tarn_snapshot_set_follow (FALSE);
  second = allocate (pool, 300 * KIB);
  g_assert_cmpuint (meddler.n_parts, ==, 1);
  meddler.follows = FALSE;
  tarn_snapshot_set_follow (FALSE);
  tarn_block_free (second);

  first = allocate (pool, 300 * KIB);
  g_assert_true (first->is_own);
  meddler.pool = pool;
  tarn_block_free (first);
  g_assert_cmpuint (meddler.n_parts, ==, 0);
  g_assert_true (tarn_heap_get_stats (heap, &stats));
  g_assert_cmpuint (stats.used_bytes, ==, 0);
  tarn_allocator_unref (heap);
  tarn_allocator_unref (driver);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  heap_add ("arenas/temporaries", test_temporaries);
  heap_add ("arenas/not-kept", test_not_kept);
  heap_add ("arenas/sizes", test_sizes);
  heap_add ("arenas/limited-sizes", test_limited_sizes);
  heap_add ("arenas/other-sizes", test_other_sizes);
  heap_add ("arenas/often-used", test_often_used);
  heap_add ("arenas/full-bin", test_full_bin);
  heap_add ("arenas/many-sizes", test_many_sizes);
  heap_add ("arenas/expire", test_expire);
  heap_add ("arenas/limit", test_limit);
  heap_add ("arenas/limit-at-end", test_limit_at_end);
  heap_add ("arenas/far-from-limit", test_far_from_limit);
  heap_add ("arenas/freed-by-others", test_freed_by_others);
  heap_add ("arenas/several", test_several);
  heap_add ("arenas/shared-out", test_shared_out);
  g_test_add_func ("/core/heap/arenas/meanwhile", test_meanwhile);
  return g_test_run ();
}
