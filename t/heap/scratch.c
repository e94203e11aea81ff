/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A thread's scratch: what it has temporaries of any size from, over a heap whose memory is
 * addresses. */

#include <tarn/testing.h>

#include "heap-fixture.h"
#include "lib/in-child.h"
#include "lib/last-round.h"
#include "lib/players.h"
#include "lib/pool-fixture.h"
#include "pool/cache-private.h"

#define ALIGNMENT ((gsize) 512)
#define SCRATCH (4 * MIB) /* the largest that there is */
#define N_SIZES 64

typedef struct
{
  gsize alignment;    /* from a granule on the fake queues know what is used */
  gboolean has_queue; /* which requests name */
  guint flags;
  TarnTestingPagesKind kind;
} Way;

/* A block in use. */
typedef struct
{
  TarnBlock *block;
  guint64 start;
  gsize size;
  gpointer queue; /* with a command that wrote the value; NULL: the host */
  guint value;
} Use;

typedef struct
{
  const Way *way;
  TarnTestingOrder *order;
  TarnTestingQueues *queues;
  TarnTestingPages *pages;
  TarnAllocator *heap;
  TarnPool *pool; /* NULL: it was dropped */
  gpointer first, second;
  GArray *uses;
  guint last_value;
} Fixture;

/* A pool whose threads have one scratch for blocks of any size, and soon. */
static TarnPool *
pool_new (TarnAllocator *heap, const TarnPoolOptions *options)
{
  TarnPool *pool = tarn_pool_new (heap, options, NULL);

  pool->max_held = pool->max_kept = G_MAXSIZE; /* as over virtual memory */
  pool->scratch_max_small = 0;
  pool->scratch_min_temporaries = 2;
  return pool;
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  g_autoptr (TarnAllocator) upstream = NULL;

  fixture->way = data;
  fixture->order = tarn_testing_order_new (G_MAXUINT64, fixture->way->kind, fixture->way->flags);
  fixture->queues = tarn_testing_order_get_queues (fixture->order);
  fixture->pages = tarn_testing_order_get_pages (fixture->order);
  upstream = tarn_testing_order_allocator_new (fixture->order);
  options.alignment = fixture->way->alignment;
  options.growth_bytes = 4 * TARN_TESTING_PAGES_GRANULARITY;
  fixture->heap = tarn_heap_allocator_new (upstream, &options, NULL);
  fixture->pool = pool_new (fixture->heap, NULL);
  fixture->second = tarn_testing_queue_new (fixture->queues, TRUE);
  fixture->first = fixture->way->has_queue ? tarn_testing_queue_new (fixture->queues, TRUE) : NULL;
  fixture->uses = g_array_new (FALSE, FALSE, sizeof (Use));
  fixture->last_value = 0;
}

static TarnHeapStats
get_heap_stats (Fixture *fixture)
{
  TarnHeapStats stats = TARN_HEAP_STATS_INIT;

  g_assert_true (tarn_heap_get_stats (fixture->heap, &stats));
  return stats;
}

/* Everything goes back. */
static void
tear_down (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  g_assert_cmpuint (fixture->uses->len, ==, 0);
  g_array_unref (fixture->uses);
  g_clear_pointer (&fixture->pool, tarn_pool_unref);
  g_assert_cmpuint (get_heap_stats (fixture).used_bytes, ==, 0);
  tarn_allocator_unref (fixture->heap);
  tarn_testing_queues_run_all (fixture->queues);
  tarn_testing_order_free (fixture->order);
}

/* Another pool. */
static void
renew (Fixture *fixture, const TarnPoolOptions *options)
{
  tarn_pool_unref (fixture->pool);
  fixture->pool = pool_new (fixture->heap, options);
}

/* What the pool says of itself is so at every moment. */
static void
assert_stats (Fixture *fixture)
{
  TarnPoolStats stats = get_stats (fixture->pool);
  gsize active = 0, taken = 0;

  for (guint i = 0; i < fixture->uses->len; i++)
    {
      const Use *use = &g_array_index (fixture->uses, Use, i);

      active += use->size;
      taken += tarn_block_get_alloc_size (use->block);
    }
  g_assert_cmpuint (stats.active_blocks, ==, fixture->uses->len);
  g_assert_cmpuint (stats.active_bytes, ==, active);
  g_assert_cmpuint (stats.held_bytes + taken, ==, stats.managed_bytes);
  g_assert_cmpuint (stats.peak_active_bytes, >=, active);
  g_assert_cmpuint (get_heap_stats (fixture).used_bytes, >=, stats.managed_bytes);
}

static void
assert_all_valid (Fixture *fixture)
{
  TarnHeap *heap = _tarn_heap_of (fixture->heap);

  if (fixture->pool != NULL)
    {
      assert_valid (fixture->pool);
      assert_stats (fixture);
    }
  _tarn_mutex_lock (&heap->lock);
  _tarn_heap_assert_valid (heap);
  _tarn_mutex_unlock (&heap->lock);
}

/* No two blocks have a byte in common, as large as they say they are. */
static void
assert_apart (Fixture *fixture, const Use *use)
{
  gsize size = tarn_block_get_alloc_size (use->block);

  g_assert_cmpuint (use->start % fixture->way->alignment, ==, 0);
  g_assert_cmpuint (size, >=, use->size);
  g_assert_true (tarn_testing_pages_is_usable (fixture->pages, tarn_block_get_memory (use->block),
                                               MAX (size, 1)));
  for (guint i = 0; i < fixture->uses->len; i++)
    {
      const Use *other = &g_array_index (fixture->uses, Use, i);
      gsize other_size = tarn_block_get_alloc_size (other->block);

      g_assert_true (use->start + size <= other->start || other->start + other_size <= use->start);
    }
}

static gboolean
knows_order (Fixture *fixture)
{
  return fixture->way->alignment % TARN_TESTING_ORDER_GRANULE == 0;
}

/* Has a queue, or else the host, write to a block. */
static void
write_to (Fixture *fixture, Use *use)
{
  TarnMemory memory = tarn_block_get_memory (use->block);

  use->value = ++fixture->last_value;
  if (!knows_order (fixture))
    return;
  tarn_testing_order_own (fixture->order, memory, use->size);
  if (use->queue != NULL)
    tarn_testing_order_put (fixture->order, use->queue, memory, use->size,
                            TARN_TESTING_COMMAND_WRITE, use->value);
  else
    tarn_testing_order_touch (fixture->order, memory, use->size);
}

/* A block, as one of those in use. */
static TarnBlock *
add_use (Fixture *fixture, TarnBlock *block, gsize size, gpointer queue)
{
  Use use = { block, tarn_block_get_memory (block).address, size, queue, 0 };

  g_assert_cmpuint (tarn_block_get_size (block), ==, size);
  assert_apart (fixture, &use);
  write_to (fixture, &use);
  g_array_append_val (fixture->uses, use);
  assert_all_valid (fixture);
  return block;
}

static TarnBlock *
use_on (Fixture *fixture, gsize size, gpointer queue)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_pool_allocate_ordered (fixture->pool, size, queue, &error);

  g_assert_no_error (error);
  return add_use (fixture, block, size, queue);
}

static TarnBlock *
use (Fixture *fixture, gsize size)
{
  return use_on (fixture, size, fixture->first);
}

static guint
find_use (Fixture *fixture, const TarnBlock *block)
{
  for (guint i = 0; i < fixture->uses->len; i++)
    if (g_array_index (fixture->uses, Use, i).block == block)
      return i;
  g_assert_not_reached ();
}

/* A block is no more in use; what was written is there still. */
static void
leave_use (Fixture *fixture, const TarnBlock *block)
{
  guint i = find_use (fixture, block);
  const Use *left = &g_array_index (fixture->uses, Use, i);

  if (left->queue != NULL && knows_order (fixture))
    tarn_testing_order_put (fixture->order, left->queue, tarn_block_get_memory (block), left->size,
                            TARN_TESTING_COMMAND_CHECK, left->value);
  g_array_remove_index (fixture->uses, i);
}

static void
end (Fixture *fixture, TarnBlock *block)
{
  leave_use (fixture, block);
  tarn_block_free (block);
  assert_all_valid (fixture);
}

/* Frees blocks from the first on, or from the last on, or in an order that a number says. */
static void
end_all (Fixture *fixture, TarnBlock **blocks, guint n, guint number)
{
  for (guint left = n; left > 0; left--)
    {
      guint i = number == 0 ? 0 : number == 1 ? left - 1 : number / 2 % left;
      TarnBlock *block = blocks[i];

      number = number < 2 ? number : 2 + number / (2 * left) * 2;
      memmove (blocks + i, blocks + i + 1, (left - i - 1) * sizeof *blocks);
      end (fixture, block);
    }
}

/* This thread's. */
static TarnScratch *
get_scratch (Fixture *fixture)
{
  TarnCache *cache = _tarn_cache_of (_tarn_current_thread, fixture->pool);

  g_assert_nonnull (cache);
  return &cache->scratches[1];
}

static gboolean
is_lent (const TarnBlock *block)
{
  return block->bin == TARN_LENT;
}

/* Has this thread have a scratch of so many bytes.  Gets where it begins. */
static guint64
make_scratch_on (Fixture *fixture, gsize bytes, gpointer queue)
{
  const TarnScratch *scratch;

  end (fixture, use_on (fixture, bytes / 2 + 100, queue));
  end (fixture, use_on (fixture, bytes, queue));
  scratch = get_scratch (fixture);
  g_assert_nonnull (scratch->rest);
  g_assert_cmpuint (scratch->bytes, ==, bytes);
  g_assert_cmpuint (scratch->rest->alloc_size, ==, bytes);
  g_assert_true (scratch->handle == queue);
  return scratch->rest->memory.address;
}

static guint64
make_scratch (Fixture *fixture, gsize bytes)
{
  return make_scratch_on (fixture, bytes, fixture->first);
}

/* Blocks that the scratch has lent. */
static void
lend (Fixture *fixture, gsize size, TarnBlock **blocks, guint n)
{
  for (guint i = 0; i < n; i++)
    {
      blocks[i] = use (fixture, size);
      g_assert_true (is_lent (blocks[i]));
    }
}

static guint64
get_misses (Fixture *fixture)
{
  return get_stats (fixture->pool).misses;
}

/* Temporaries */

static gsize
get_size (guint i)
{
  gsize octave = (gsize) 256 << i * 14 / (N_SIZES - 1);

  return i == N_SIZES - 1 ? SCRATCH : octave + octave / 64 * (i * 37 % 64);
}

/* Each is freed before the next, and once all sizes have come not one more is a miss. */
static void
test_temporaries (Fixture *fixture, gconstpointer unused)
{
  TarnPoolStats before, now;
  TarnHeapStats heap;

  (void) unused;
  for (guint i = 0; i < N_SIZES; i++)
    end (fixture, use (fixture, get_size (i)));
  before = get_stats (fixture->pool);
  heap = get_heap_stats (fixture);
  for (guint i = 1; i <= 8 * N_SIZES; i++)
    {
      end (fixture, use (fixture, get_size (i * 29 % N_SIZES)));
      now = get_stats (fixture->pool);
      g_assert_cmpuint (now.hits, ==, before.hits + i);
      g_assert_cmpuint (now.misses, ==, before.misses);
      g_assert_cmpuint (now.driver_calls, ==, before.driver_calls);
      g_assert_cmpuint (now.managed_bytes, ==, before.managed_bytes);
      g_assert_cmpuint (now.held_bytes, ==, before.held_bytes);
    }
  g_assert_cmpuint (get_heap_stats (fixture).driver_calls, ==, heap.driver_calls);
  g_assert_cmpuint (now.peak_active_bytes, ==, SCRATCH);
  g_assert_cmpuint (get_scratch (fixture)->bytes, ==, SCRATCH);
}

/* A thread that frees others than those that it allocated last has no temporaries, and neither has
 * one whose blocks are too large. */
static void
test_no_temporaries (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[2] = { NULL };

  (void) unused;
  for (guint i = 0; i < 20; i++)
    {
      TarnBlock *before = blocks[i % 2];

      blocks[i % 2] = use (fixture, MIB + i * ALIGNMENT);
      if (before != NULL)
        end (fixture, before);
      g_assert_null (get_scratch (fixture)->rest);
    }
  end_all (fixture, blocks, 2, 0);
  g_assert_null (get_scratch (fixture)->rest);
  for (guint i = 0; i < 6; i++)
    end (fixture, use (fixture, SCRATCH + 1 + i * ALIGNMENT));
  g_assert_null (get_scratch (fixture)->rest);
}

/* The peak is what was lent at a time. */
static void
test_peak (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[4];

  (void) unused;
  make_scratch (fixture, SCRATCH);
  tarn_pool_reset_peaks (fixture->pool);
  for (guint i = 1; i <= 4; i++)
    {
      lend (fixture, 100 * KIB, blocks, i);
      end_all (fixture, blocks, i, i % 2);
      g_assert_cmpuint (get_stats (fixture->pool).peak_active_bytes, ==, i * 100 * KIB);
    }
  g_assert_cmpuint (get_stats (fixture->pool).peak_managed_bytes, ==,
                    get_stats (fixture->pool).managed_bytes);
}

/* Takes so many blocks, of which as many are lent as can be, and frees them. */
static void
nest_once (Fixture *fixture, guint n, guint order)
{
  TarnBlock *blocks[12];

  for (guint i = 0; i < n; i++)
    {
      blocks[i] = use (fixture, 300 * KIB + i * 1000 + order);
      g_assert_true (is_lent (blocks[i]) == (i < TARN_MAX_LENT));
    }
  end_all (fixture, blocks, n, order < 2 ? order : (guint) g_test_rand_int () / 2 + 2);
}

/* Nested ones in whatever order they are freed: all of the scratch is there again afterwards. */
static void
test_nested (Fixture *fixture, gconstpointer unused)
{
  guint64 start = make_scratch (fixture, SCRATCH), misses = get_misses (fixture);
  TarnBlock *whole;

  (void) unused;
  for (guint n = 1; n <= TARN_MAX_LENT; n++)
    for (guint order = 0; order < 8; order++)
      {
        nest_once (fixture, n, order);
        whole = use (fixture, SCRATCH);
        g_assert_cmpuint (tarn_block_get_memory (whole).address, ==, start);
        end (fixture, whole);
        g_assert_cmpuint (get_misses (fixture), ==, misses);
      }
}

/* ... and more than can be lent at a time. */
static void
test_too_many (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  for (guint n = TARN_MAX_LENT + 1; n <= 12; n++)
    for (guint order = 0; order < 4; order++)
      {
        make_scratch (fixture, SCRATCH);
        nest_once (fixture, n, order);
        tarn_pool_free_held (fixture->pool);
        g_assert_cmpuint (get_heap_stats (fixture).used_bytes, ==, 0);
      }
}

/* What is freed in front of one that is in use is not lent meanwhile, and what is freed behind it
 * is. */
static void
test_one_stays (Fixture *fixture, gconstpointer unused)
{
  guint64 start = make_scratch (fixture, SCRATCH);
  TarnBlock *front, *stays, *behind;

  (void) unused;
  front = use (fixture, MIB);
  stays = use (fixture, MIB);
  end (fixture, front);
  for (guint i = 1; i <= 20; i++)
    {
      behind = use (fixture, i * 100 * KIB);
      g_assert_cmpuint (tarn_block_get_memory (behind).address, ==, start + 2 * MIB);
      end (fixture, behind);
    }
  end (fixture, stays);
  front = use (fixture, SCRATCH);
  g_assert_cmpuint (tarn_block_get_memory (front).address, ==, start);
  end (fixture, front);
}

/* Sizes at the edges of what there is, for a scratch that is no multiple of the alignment. */
static void
test_edges (Fixture *fixture, gconstpointer unused)
{
  gsize unit = fixture->way->alignment, bytes = 8 * unit + unit / 2 + 1;
  guint64 start = make_scratch (fixture, bytes), misses = get_misses (fixture);
  TarnBlock *blocks[3];

  (void) unused;
  blocks[0] = use (fixture, 0);
  g_assert_cmpuint (tarn_block_get_memory (blocks[0]).address, ==, start);
  g_assert_cmpuint (tarn_block_get_alloc_size (blocks[0]), ==, unit);
  blocks[1] = use (fixture, unit + 1);
  g_assert_cmpuint (tarn_block_get_alloc_size (blocks[1]), ==, 2 * unit);
  blocks[2] = use (fixture, bytes - 3 * unit); /* all the rest */
  g_assert_cmpuint (tarn_block_get_alloc_size (blocks[2]), ==, bytes - 3 * unit);
  g_assert_cmpuint (get_misses (fixture), ==, misses);
  g_assert_cmpuint (get_scratch (fixture)->rest->alloc_size, ==, 0);
  end (fixture, use (fixture, 0)); /* there is no rest */
  g_assert_cmpuint (get_misses (fixture), ==, misses + 1);
  end (fixture, blocks[2]);
  blocks[2] = use (fixture, bytes - 3 * unit + 1); /* one byte too much */
  g_assert_false (is_lent (blocks[2]));
  g_assert_cmpuint (get_misses (fixture), ==, misses + 2);
  end_all (fixture, blocks, 3, 0);
}

/* A scratch whose memory is all lent ends, with blocks of it in use or not. */
static void
test_no_rest (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[4];

  (void) unused;
  for (guint freed = 0; freed < 16; freed++)
    {
      make_scratch (fixture, SCRATCH);
      lend (fixture, MIB, blocks, 4);
      for (guint i = 0; i < 4; i++)
        if ((freed >> i & 1) != 0)
          end (fixture, blocks[i]);
      tarn_pool_free_held (fixture->pool);
      assert_all_valid (fixture);
      for (guint i = 0; i < 4; i++)
        if ((freed >> i & 1) == 0)
          end (fixture, blocks[i]);
      tarn_pool_free_held (fixture->pool);
      g_assert_cmpuint (get_heap_stats (fixture).used_bytes, ==, 0);
    }
}

/* Pieces of the heap end inside of what is lent, between lent blocks, and in the rest. */
static void
test_pieces (Fixture *fixture, gconstpointer unused)
{
  static const gsize sizes[][3] = { { 2 * MIB, MIB, MIB },
                                    { MIB, MIB, 2 * MIB },
                                    { MIB, MIB, 512 * KIB },
                                    { 3 * MIB, 512 * KIB, 256 * KIB },
                                    { 64 * KIB, 64 * KIB, 64 * KIB } };
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;

  (void) unused;
  g_clear_pointer (&fixture->pool, tarn_pool_unref);
  options.alignment = fixture->way->alignment;
  options.growth_bytes = TARN_TESTING_PAGES_GRANULARITY;
  {
    g_autoptr (TarnAllocator) upstream = tarn_testing_order_allocator_new (fixture->order);

    tarn_allocator_unref (fixture->heap);
    fixture->heap = tarn_heap_allocator_new (upstream, &options, NULL);
  }
  renew (fixture, NULL);
  for (guint i = 0; i < 6 * G_N_ELEMENTS (sizes); i++)
    {
      TarnBlock *first = use (fixture, MIB + i % 3 * 512 * KIB), *blocks[4];

      make_scratch (fixture, SCRATCH);
      for (guint j = 0; j < 3; j++)
        blocks[j] = use (fixture, sizes[i / 6][j]);
      tarn_pool_free_held (fixture->pool);
      assert_all_valid (fixture);
      blocks[3] = use (fixture, 5 * MIB); /* grows behind it */
      end_all (fixture, blocks, 4, (guint) g_test_rand_int ());
      end (fixture, first);
      tarn_pool_free_held (fixture->pool);
      g_assert_cmpuint (get_heap_stats (fixture).used_bytes, ==, 0);
      tarn_testing_queues_run_all (fixture->queues);
    }
}

/* Threads that free what another one was lent */

typedef struct
{
  Fixture *fixture;
  TarnBlock **blocks;
  guint n;
} Others;

static void
free_all (gpointer data)
{
  Others *others = data;

  for (guint i = 0; i < others->n; i++)
    tarn_block_free (others->blocks[i]);
}

static gpointer
free_first (gpointer others)
{
  free_all (others);
  return NULL;
}

static void
get_cache (gpointer data)
{
  Others *others = data;

  tarn_block_free (tarn_pool_allocate (others->fixture->pool, 3000, NULL));
}

static gpointer
free_with_cache (gpointer others)
{
  get_cache (others);
  free_all (others);
  return NULL;
}

/* It joins the rest when this thread asks for more. */
static void
test_freed_elsewhere (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[4], *whole;
  Others others = { fixture, blocks + 1, 2 };
  guint64 start;

  (void) unused;
  end (fixture, use_on (fixture, 600 * MIB, NULL)); /* for room, or the other thread's request */
  end (fixture, use_on (fixture, 5000, NULL));      /* would take the scratch back */
  start = make_scratch (fixture, SCRATCH);
  for (guint i = 0; i < 4; i++)
    {
      lend (fixture, 700 * KIB, blocks, 4);
      leave_use (fixture, blocks[1]);
      leave_use (fixture, blocks[2]);
      g_thread_join (g_thread_new ("other", free_with_cache, &others));
      assert_all_valid (fixture);
      g_assert_true (is_lent (blocks[0]));
      blocks[1] = blocks[3];
      end_all (fixture, blocks, 2, i);
      whole = use (fixture, SCRATCH);
      g_assert_cmpuint (tarn_block_get_memory (whole).address, ==, start);
      end (fixture, whole);
    }
}

/* A thread whose first call that is. */
static void
test_freed_first (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[4];
  Others others = { fixture, blocks + 1, 2 };

  (void) unused;
  for (guint i = 0; i < 4; i++)
    {
      make_scratch (fixture, SCRATCH);
      lend (fixture, 700 * KIB, blocks, 4);
      leave_use (fixture, blocks[1]);
      leave_use (fixture, blocks[2]);
      g_thread_join (g_thread_new ("other", free_first, &others));
      assert_all_valid (fixture);
      blocks[1] = blocks[3];
      end_all (fixture, blocks, 2, i);
      tarn_pool_free_held (fixture->pool);
      g_assert_cmpuint (get_heap_stats (fixture).used_bytes, ==, 0);
    }
}

/* A thread that is ending, and has no cache any more. */
static void
test_freed_late (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[4];
  Others others = { fixture, blocks + 1, 2 };

  (void) unused;
  make_scratch (fixture, SCRATCH);
  lend (fixture, 700 * KIB, blocks, 4);
  leave_use (fixture, blocks[1]);
  leave_use (fixture, blocks[2]);
  if (!in_last_round (get_cache, free_all, &others))
    free_all (&others);
  assert_all_valid (fixture);
  blocks[1] = blocks[3];
  end_all (fixture, blocks, 2, 0);
}

static gpointer
borrow (gpointer data)
{
  Others *others = data;

  make_scratch (others->fixture, SCRATCH);
  lend (others->fixture, 500 * KIB, others->blocks, others->n);
  return NULL;
}

/* The thread that was lent blocks ends before they are freed, and others of its scratch are. */
static void
test_thread_ends (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[5];
  Others others = { fixture, blocks, 5 };

  (void) unused;
  for (guint i = 0; i < 12; i++)
    {
      g_thread_join (g_thread_new ("borrower", borrow, &others));
      assert_all_valid (fixture);
      for (guint j = 0; j < 5; j++)
        g_assert_false (is_lent (blocks[j]));
      end_all (fixture, blocks, 5, (guint) g_test_rand_int ());
      tarn_pool_free_held (fixture->pool);
      g_assert_cmpuint (get_heap_stats (fixture).used_bytes, ==, 0);
    }
}

/* Borrows, says so, and stays until it is told to go on. */
typedef struct
{
  Others others;
  TarnMutex lock;
  TarnCond changed;
  gboolean has_borrowed, may_end;
} Stayer;

static void
set_and_tell (Stayer *stayer, gboolean *flag)
{
  _tarn_mutex_lock (&stayer->lock);
  *flag = TRUE;
  _tarn_cond_broadcast (&stayer->changed);
  _tarn_mutex_unlock (&stayer->lock);
}

static void
await_flag (Stayer *stayer, const gboolean *flag)
{
  _tarn_mutex_lock (&stayer->lock);
  while (!*flag)
    _tarn_cond_wait (&stayer->changed, &stayer->lock);
  _tarn_mutex_unlock (&stayer->lock);
}

static gpointer
borrow_and_stay (gpointer data)
{
  Stayer *stayer = data;

  borrow (&stayer->others);
  set_and_tell (stayer, &stayer->has_borrowed);
  await_flag (stayer, &stayer->may_end);
  g_assert_null (get_scratch (stayer->others.fixture)->rest);
  return NULL;
}

/* Another thread needs more of the same queue's memory than the heap has. */
static void
test_others_need (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[5], *large;
  Stayer stayer = { .others = { fixture, blocks, 5 } };
  GThread *thread;

  (void) unused;
  _tarn_mutex_init (&stayer.lock);
  _tarn_cond_init (&stayer.changed);
  thread = g_thread_new ("stayer", borrow_and_stay, &stayer);
  await_flag (&stayer, &stayer.has_borrowed);
  large = use (fixture, 20 * MIB);
  for (guint j = 0; j < 5; j++)
    g_assert_false (is_lent (blocks[j]));
  set_and_tell (&stayer, &stayer.may_end);
  g_thread_join (thread);
  end_all (fixture, blocks, 5, (guint) g_test_rand_int ());
  end (fixture, large);
  _tarn_cond_clear (&stayer.changed);
  _tarn_mutex_clear (&stayer.lock);
}

/* A thread ends with the pool. */
static gpointer
borrow_and_drop (gpointer data)
{
  Others *others = data;

  borrow (others);
  g_clear_pointer (&others->fixture->pool, tarn_pool_unref);
  return NULL;
}

static void
test_pool_ends_in_thread (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[5];
  Others others = { fixture, blocks, 5 };

  (void) unused;
  g_thread_join (g_thread_new ("borrower", borrow_and_drop, &others));
  end_all (fixture, blocks, 5, (guint) g_test_rand_int ());
  g_assert_cmpuint (get_heap_stats (fixture).used_bytes, ==, 0);
}

/* What is said of blocks that are lent */

/* They are like any others from then on, and others have their memory when both queues are done. */
static void
end_released (Fixture *fixture, TarnBlock **blocks, guint n)
{
  gsize size;

  for (guint i = 0; i < n; i++)
    g_assert_false (is_lent (blocks[i]));
  assert_all_valid (fixture);
  end_all (fixture, blocks, n, (guint) g_test_rand_int ());
  for (size = 3 * MIB; size > 100 * KIB; size -= 300 * KIB)
    {
      end (fixture, use (fixture, size));
      end (fixture, use_on (fixture, size, fixture->second));
    }
  tarn_testing_pages_set_budget (fixture->pages,
                                 tarn_testing_pages_get_used_bytes (fixture->pages));
  end (fixture, use_on (fixture, 5 * MIB, fixture->second));
  end (fixture, use_on (fixture, 6 * MIB, NULL));
}

static void
test_record_use (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[3];

  (void) unused;
  for (guint i = 0; i < 3; i++)
    {
      make_scratch (fixture, SCRATCH);
      lend (fixture, 700 * KIB, blocks, 3);
      if (fixture->first != NULL)
        {
          g_assert_true (tarn_block_record_use (blocks[i], fixture->first, NULL));
          g_assert_true (is_lent (blocks[i])); /* which it was known to use */
          tarn_testing_queue_follow (fixture->queues, fixture->second, fixture->first);
        }
      g_assert_true (tarn_block_record_use (blocks[i], fixture->second, NULL));
      if (knows_order (fixture))
        tarn_testing_order_put (fixture->order, fixture->second, tarn_block_get_memory (blocks[i]),
                                700 * KIB, TARN_TESTING_COMMAND_USE, 0);
      end_released (fixture, blocks, 3);
      tarn_pool_free_held (fixture->pool);
      tarn_testing_pages_set_budget (fixture->pages, G_MAXUINT64);
    }
}

/* Has a queue, or the host, go on with a block. */
static void
go_on (Fixture *fixture, TarnBlock *block, gpointer queue)
{
  Use *moved = &g_array_index (fixture->uses, Use, find_use (fixture, block));

  if (queue != NULL)
    g_assert_true (tarn_block_move_to_queue (block, queue, NULL));
  else
    g_assert_true (tarn_block_wait (block, NULL));
  moved->queue = queue;
  write_to (fixture, moved);
  assert_all_valid (fixture);
}

static void
test_move (Fixture *fixture, gconstpointer unused)
{
  gpointer queues[] = { fixture->second, NULL, fixture->first };
  TarnBlock *blocks[3];

  (void) unused;
  for (guint i = 0; i < 9; i++)
    {
      make_scratch (fixture, SCRATCH);
      lend (fixture, 700 * KIB, blocks, 3);
      go_on (fixture, blocks[i % 3], queues[i / 3]);
      g_assert_true (is_lent (blocks[i % 3]) == (queues[i / 3] == fixture->first));
      if (queues[i / 3] == fixture->first) /* which has it already */
        end_all (fixture, blocks, 3, i);
      else
        end_released (fixture, blocks, 3);
      tarn_pool_free_held (fixture->pool);
      tarn_testing_pages_set_budget (fixture->pages, G_MAXUINT64);
    }
}

/* Blocks of a queue that is gone. */
static void
forget_first (Fixture *fixture)
{
  if (fixture->first == NULL)
    return;
  g_assert_true (tarn_pool_forget_queue (fixture->pool, fixture->first, NULL));
  tarn_testing_queue_destroy (fixture->queues, fixture->first);
  for (guint i = 0; i < fixture->uses->len; i++)
    g_array_index (fixture->uses, Use, i).queue = NULL;
  fixture->first = tarn_testing_queue_new (fixture->queues, TRUE);
}

/* Some of them are lent, and some that were are freed already. */
static void
test_forget (Fixture *fixture, gconstpointer data)
{
  TarnBlock *blocks[3];
  const Way *way = data;

  if (!way->has_queue)
    return;
  for (guint freed = 0; freed < 8; freed++)
    {
      guint n = 0;

      make_scratch (fixture, SCRATCH);
      lend (fixture, 700 * KIB, blocks, 3);
      for (guint i = 0; i < 3; i++)
        if ((freed >> i & 1) != 0)
          end (fixture, blocks[i]);
        else
          blocks[n++] = blocks[i];
      forget_first (fixture);
      g_assert_null (get_scratch (fixture)->rest);
      end_released (fixture, blocks, n);
      tarn_pool_free_held (fixture->pool);
      tarn_testing_pages_set_budget (fixture->pages, G_MAXUINT64);
    }
}

/* A queue that is used no more says nothing of what another one was lent; it is forgotten in
 * vain. */
static void
test_forget_other (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[3];

  (void) unused;
  end (fixture, use_on (fixture, 700 * KIB, fixture->second));
  make_scratch (fixture, SCRATCH);
  lend (fixture, 700 * KIB, blocks, 3);
  g_assert_true (tarn_pool_forget_queue (fixture->pool, fixture->second, NULL));
  assert_all_valid (fixture);
  end_all (fixture, blocks, 3, (guint) g_test_rand_int ());
  end (fixture, use (fixture, SCRATCH));
}

/* The pool while blocks are lent */

static void
drop_pool (TarnPool *pool)
{
  tarn_pool_unref (pool);
}

static void
trim (TarnPool *pool)
{
  tarn_pool_trim (pool, MIB);
}

static void
trim_nothing (TarnPool *pool)
{
  TarnPoolStats before = get_stats (pool);

  tarn_pool_trim (pool, G_MAXSIZE);
  g_assert_cmpuint (get_stats (pool).held_bytes, ==, before.held_bytes);
  g_assert_cmpuint (get_stats (pool).managed_bytes, ==, before.managed_bytes);
}

static void
set_limit (TarnPool *pool)
{
  tarn_pool_set_limit_bytes (pool, 3 * MIB);
  g_assert_cmpuint (get_stats (pool).managed_bytes, <=, 3 * MIB);
}

/* The scratch ends, what is held goes back, and blocks in use stay as they are; whatever was freed,
 * and in whatever order the others are. */
static void
end_meanwhile (Fixture *fixture, void (*func) (TarnPool *), guint freed)
{
  TarnBlock *blocks[4];
  guint n = 0;

  make_scratch (fixture, SCRATCH);
  lend (fixture, 600 * KIB, blocks, 4);
  for (guint i = 0; i < 4; i++)
    if ((freed >> i & 1) != 0)
      end (fixture, blocks[i]);
    else
      blocks[n++] = blocks[i];
  if (func == drop_pool)
    g_clear_pointer (&fixture->pool, drop_pool);
  else
    func (fixture->pool);
  assert_all_valid (fixture);
  for (guint i = 0; i < n; i++)
    g_assert_false (is_lent (blocks[i]));
  if (func != trim_nothing && func != set_limit && func != trim)
    g_assert_cmpuint (get_heap_stats (fixture).used_bytes, <=, n * 640 * KIB);
  end_all (fixture, blocks, n, (guint) g_test_rand_int ());
}

static void
test_meanwhile (Fixture *fixture, gconstpointer unused)
{
  static void (*const funcs[]) (TarnPool *)
      = { tarn_pool_free_held, trim, trim_nothing, set_limit, tarn_pool_stop_holding, drop_pool };

  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (funcs); i++)
    for (guint freed = 0; freed < 16; freed++)
      {
        end_meanwhile (fixture, funcs[i], freed);
        if (fixture->pool != NULL && funcs[i] == tarn_pool_stop_holding)
          g_assert_cmpuint (get_stats (fixture->pool).held_blocks, ==, 0);
        renew (fixture, NULL);
        g_assert_cmpuint (get_heap_stats (fixture).used_bytes, ==, 0);
      }
}

/* Before the heap grows it has what the scratch does not need; what is lent stays. */
static void
test_heap_grows (Fixture *fixture, gconstpointer unused)
{
  guint64 n;
  TarnBlock *block, *large;

  (void) unused;
  end (fixture, use (fixture, 8 * MIB));
  tarn_pool_free_held (fixture->pool);
  end (fixture, use (fixture, 2 * MIB)); /* one piece, or some, of 8 MiB */
  make_scratch (fixture, SCRATCH);
  n = get_heap_stats (fixture).driver_calls;
  large = use (fixture, get_heap_stats (fixture).upstream_bytes - 16 * KIB * 4);
  g_assert_null (get_scratch (fixture)->rest);
  g_assert_cmpuint (get_heap_stats (fixture).driver_calls, ==, n);
  end (fixture, large);

  make_scratch (fixture, SCRATCH);
  lend (fixture, 100 * KIB, &block, 1);
  large = use (fixture, 30 * MIB);
  g_assert_null (get_scratch (fixture)->rest);
  g_assert_false (is_lent (block));
  g_assert_cmpuint (get_stats (fixture->pool).held_blocks, ==, 0);
  g_assert_cmpuint (get_heap_stats (fixture).driver_calls, >, n);
  end (fixture, block);
  end (fixture, large);
}

/* There is no more memory than what a scratch has, which others need. */
/* What another queue needs fresh memory for is no reason to end a scratch: its memory would not
 * help that one.  Once pieces are to move, it would. */
static void
test_others_grow (Fixture *fixture, gconstpointer unused)
{
  gboolean is_virtual = fixture->way->kind == TARN_TESTING_PAGES_VIRTUAL;
  TarnBlock *block, *other;
  guint64 n;

  (void) unused;
  end (fixture, use_on (fixture, 100 * MIB, fixture->first));
  make_scratch (fixture, SCRATCH);
  lend (fixture, 100 * KIB, &block, 1);
  n = get_heap_stats (fixture).driver_calls;
  other = use_on (fixture, 6 * MIB, fixture->second);
  g_assert_cmpuint (get_heap_stats (fixture).driver_calls, >, n);
  g_assert_nonnull (get_scratch (fixture)->rest);
  g_assert_true (is_lent (block));
  end (fixture, other);
  /* More than there is room for. */
  other = use_on (fixture, is_virtual ? 60 * MIB : 200 * MIB, fixture->second);
  g_assert_null (get_scratch (fixture)->rest);
  g_assert_false (is_lent (block));
  end (fixture, other);
  end (fixture, block);
}

static void
test_out_of_memory (Fixture *fixture, gconstpointer unused)
{
  gpointer queues[] = { fixture->first, fixture->second, NULL };
  g_autoptr (GError) error = NULL;
  TarnBlock *block;

  (void) unused;
  tarn_testing_pages_set_budget (fixture->pages, 8 * MIB);
  for (guint i = 0; i < 3; i++)
    {
      make_scratch (fixture, SCRATCH);
      end (fixture, use_on (fixture, 7 * MIB, queues[i]));
      make_scratch (fixture, SCRATCH);
      lend (fixture, MIB, &block, 1);
      end (fixture, use_on (fixture, 4 * MIB, queues[i])); /* beside what is lent */
      g_assert_null (tarn_pool_allocate_ordered (fixture->pool, 8 * MIB, queues[i], &error));
      g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
      g_clear_error (&error);
      assert_all_valid (fixture);
      end (fixture, block);
      end (fixture, use_on (fixture, 8 * MIB, queues[i]));
      tarn_pool_free_held (fixture->pool);
    }
}

/* The pool's limit is reached, and the scratch holds what is needed. */
static void
test_limit (Fixture *fixture, gconstpointer unused)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;
  TarnBlock *block;

  (void) unused;
  options.limit_bytes = 7 * MIB;
  renew (fixture, &options);
  make_scratch (fixture, SCRATCH);
  end (fixture, use_on (fixture, 7 * MIB, fixture->second));
  make_scratch (fixture, SCRATCH);
  lend (fixture, MIB, &block, 1);
  g_assert_null (tarn_pool_allocate (fixture->pool, 6 * MIB + 1, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
  end (fixture, use_on (fixture, 6 * MIB, fixture->second));
  end (fixture, block);
}

/* Memory has run out for another pool of the group, over the same heap. */
static void
test_group (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (TarnReclaimGroup) group = tarn_reclaim_group_new ();
  g_autoptr (TarnPool) other = pool_new (fixture->heap, NULL);
  TarnBlock *lent, *large;

  (void) unused;
  tarn_pool_set_reclaim_group (fixture->pool, group);
  tarn_pool_set_reclaim_group (other, group);
  tarn_testing_pages_set_budget (fixture->pages, 8 * MIB);
  make_scratch (fixture, SCRATCH);
  lend (fixture, MIB, &lent, 1);
  large = tarn_pool_allocate_ordered (other, 4 * MIB + 256 * KIB, fixture->first, NULL);
  g_assert_nonnull (large);
  g_assert_false (is_lent (lent));
  assert_valid (fixture->pool);
  g_assert_cmpuint (get_stats (fixture->pool).held_bytes, ==, 0);
  end (fixture, lent);
  tarn_block_free (large);
}

/* Memory without a block, as allocators built on the pool have it. */
static void
test_bare (Fixture *fixture, gconstpointer unused)
{
  TarnAllocator *allocator = TARN_ALLOCATOR (fixture->pool);
  guint64 start = make_scratch_on (fixture, SCRATCH, NULL), misses = get_misses (fixture);
  TarnMemory memories[3];

  (void) unused;
  for (guint i = 0; i < 9; i++)
    {
      for (guint j = 0; j < 3; j++)
        {
          memories[j] = (TarnMemory){ .address = 0 };
          g_assert_true (tarn_allocator_allocate_memory (allocator, MIB, &memories[j], NULL));
          g_assert_cmpuint (memories[j].address, ==, start + j * MIB);
        }
      if (i == 8)
        tarn_pool_free_held (fixture->pool);
      for (guint j = 0; j < 3; j++)
        tarn_allocator_free_memory (allocator, memories[(i + j) % 3], MIB);
      assert_all_valid (fixture);
    }
  g_assert_cmpuint (get_misses (fixture), ==, misses);
}

/* Queues */

static gboolean
is_inside (const TarnBlock *block, guint64 start)
{
  return start <= tarn_block_get_memory (block).address
         && tarn_block_get_memory (block).address < start + SCRATCH;
}

/* What one queue is lent from is not for another one, nor for requests that name none. */
static void
test_other_queue (Fixture *fixture, gconstpointer unused)
{
  gpointer others[] = { fixture->second, fixture->first == NULL ? fixture->second : NULL };
  TarnBlock *lent, *other;
  guint64 start;

  (void) unused;
  end (fixture, use_on (fixture, 600 * MIB, NULL)); /* for room, or the others' requests */
  for (guint i = 0; i < 2; i++)
    end (fixture, use_on (fixture, MIB, others[i])); /* would take the scratch back */
  start = make_scratch (fixture, SCRATCH);
  for (guint i = 0; i < 8; i++)
    {
      lend (fixture, 700 * KIB + i, &lent, 1);
      g_assert_true (is_inside (lent, start));
      other = use_on (fixture, 300 * KIB + i * 7000, others[i % 2]);
      g_assert_false (is_inside (other, start) || is_lent (other));
      end (fixture, i % 2 == 0 ? lent : other);
      end (fixture, i % 2 == 0 ? other : lent);
    }
  g_assert_true (get_scratch (fixture)->handle == fixture->first);
}

/* A thread that has turned to another queue for good has its scratch there. */
static void
test_turns (Fixture *fixture, gconstpointer unused)
{
  gpointer queues[] = { fixture->second, fixture->first };
  guint64 misses;

  (void) unused;
  make_scratch (fixture, SCRATCH);
  for (guint i = 0; i < 6; i++)
    {
      for (guint j = 0; j < 6; j++)
        end (fixture, use_on (fixture, 2 * MIB + (6 * i + j) * 6000, queues[i % 2]));
      g_assert_true (get_scratch (fixture)->handle == queues[i % 2]);
      misses = get_misses (fixture);
      for (guint j = 0; j < 6; j++)
        end (fixture, use_on (fixture, MIB + (6 * i + j) * 6000, queues[i % 2]));
      g_assert_cmpuint (get_misses (fixture), ==, misses);
    }
}

/* Two temporaries in turn are enough, if the other queue is not named meanwhile. */
static void
test_turns_soon (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *other = use_on (fixture, 2 * MIB, fixture->second); /* or the heap would grow */
  const TarnScratch *scratch;

  (void) unused;
  make_scratch (fixture, SCRATCH);
  scratch = get_scratch (fixture);
  for (guint i = 0; i < 4; i++)
    {
      end (fixture, use_on (fixture, 1500 * KIB, fixture->second));
      g_assert_true (scratch->handle == fixture->first);
      end (fixture, use (fixture, 700 * KIB + i * 9000));
    }
  for (guint i = 0; i < 2; i++)
    {
      g_assert_true (scratch->handle == fixture->first);
      end (fixture, use_on (fixture, 1500 * KIB, fixture->second));
    }
  g_assert_true (scratch->handle == fixture->second);
  g_assert_cmpuint (scratch->bytes, ==, 1500 * KIB);
  end (fixture, other);
}

/* A scratch that has lent something stays, although there is a larger one, which takes its place
 * later. */
static void
test_larger (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *other = use (fixture, 2 * MIB), *lent; /* or the heap would grow */

  (void) unused;
  make_scratch (fixture, MIB);
  lend (fixture, 256 * KIB, &lent, 1);
  for (guint i = 0; i < 4; i++)
    {
      end (fixture, use (fixture, 1500 * KIB));
      g_assert_true (is_lent (lent));
    }
  end (fixture, lent);
  end (fixture, use (fixture, 1500 * KIB));
  g_assert_cmpuint (get_scratch (fixture)->bytes, ==, 1500 * KIB);
  end (fixture, other);
}

/* Out-of-order queues have none. */
static void
test_out_of_order (Fixture *fixture, gconstpointer unused)
{
  gpointer queue = tarn_testing_queue_new (fixture->queues, FALSE);

  (void) unused;
  for (guint i = 0; i < 8; i++)
    {
      tarn_block_free (tarn_pool_allocate_ordered (fixture->pool, MIB + i * 7000, queue, NULL));
      assert_all_valid (fixture);
      g_assert_null (get_scratch (fixture)->rest);
    }
}

/* Mistakes, and children of fork () */

static void
free_again (Fixture *fixture, TarnBlock *block)
{
  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, "*freed already*");
  tarn_block_free (block);
  g_test_assert_expected_messages ();
  assert_all_valid (fixture);
}

static void
test_double_free (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[3];

  (void) unused;
  make_scratch (fixture, SCRATCH);
  lend (fixture, MIB, blocks, 3);
  end (fixture, blocks[0]);
  free_again (fixture, blocks[0]); /* which waits for the others */
  end (fixture, blocks[2]);
  free_again (fixture, blocks[2]);
  end (fixture, blocks[1]);
  end (fixture, use (fixture, SCRATCH)); /* which takes them back, and is the first one */
  for (guint i = 0; i < 3; i++)
    free_again (fixture, blocks[i]);
  lend (fixture, MIB, blocks, 3);
  end (fixture, blocks[1]);
  tarn_pool_free_held (fixture->pool);
  free_again (fixture, blocks[1]);
  end (fixture, blocks[2]);
  end (fixture, blocks[0]);
}

typedef struct
{
  TarnPool *pool;
  TarnBlock *blocks[3];
} Forked;

static void
use_in_child (gpointer data)
{
  Forked *forked = data;
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  GError *error = NULL;

  tarn_pool_get_stats (forked->pool, &stats);
  STEP (1, stats.active_blocks == 2 && stats.ignored_frees == 0);
  STEP (2, stats.managed_bytes == stats.held_bytes + 2 * MIB);
  STEP (3, tarn_pool_allocate (forked->pool, MIB, &error) == NULL && take_forked (&error));
  tarn_block_free (forked->blocks[0]);
  tarn_block_free (forked->blocks[2]);
  tarn_pool_free_held (forked->pool);
  tarn_pool_get_stats (forked->pool, &stats);
  STEP (4, stats.active_blocks == 2 && stats.ignored_frees == 2);
  STEP (5, is_lent (forked->blocks[0]) && forked->blocks[0]->state == TARN_BLOCK_ACTIVE);
}

/* There a free is counted, and no more, whoever had the lock. */
static void
test_fork (Fixture *fixture, gconstpointer unused)
{
  Forked forked = { .pool = fixture->pool };

  (void) unused;
  make_scratch (fixture, SCRATCH);
  lend (fixture, MIB, forked.blocks, 3);
  end (fixture, forked.blocks[1]);
  _tarn_mutex_lock (&fixture->pool->lock);
  in_child (use_in_child, &forked);
  _tarn_mutex_unlock (&fixture->pool->lock);
  end (fixture, forked.blocks[0]);
  end (fixture, forked.blocks[2]);
}

/* Where there is none */

static void
assert_none (TarnAllocator *heap, const TarnPoolOptions *options)
{
  g_autoptr (TarnPool) pool = tarn_pool_new (heap, options, NULL);

  for (guint i = 0; i < 8; i++)
    {
      TarnBlock *block = allocate (pool, 200 * KIB + i * 3000);

      g_assert_false (is_lent (block));
      tarn_block_free (block);
      assert_valid (pool);
    }
  for (TarnCache *cache = pool->caches; cache != NULL; cache = cache->next)
    g_assert_false (_tarn_cache_has_scratch (cache));
}

/* Parts are split by nobody but the heap; a program that says how much is to be held has as much;
 * and threads may be told to keep nothing. */
static void
test_none (HeapFixture *fixture, gconstpointer unused)
{
  TarnPoolOptions holding = TARN_POOL_OPTIONS_INIT, without = TARN_POOL_OPTIONS_INIT;

  (void) unused;
  holding.hold_bytes = 16 * MIB;
  assert_none (fixture->heap, &holding);
  without.thread_cache_blocks = 0;
  assert_none (fixture->heap, &without);
  if (!fixture->is_virtual)
    assert_none (fixture->heap, NULL);
}

/* All of that at random */

#define N_RANDOM 1500
#define MAX_USES 14

/* Has another queue use a block as well, after its own; but not where that is gone, so that nothing
 * can come after it. */
static void
share (Fixture *fixture, const Use *shared)
{
  if (shared->queue == NULL && fixture->first != NULL)
    return;
  if (shared->queue != NULL)
    tarn_testing_queue_follow (fixture->queues, fixture->second, shared->queue);
  g_assert_true (tarn_block_record_use (shared->block, fixture->second, NULL));
  if (knows_order (fixture))
    tarn_testing_order_put (fixture->order, fixture->second, tarn_block_get_memory (shared->block),
                            shared->size, TARN_TESTING_COMMAND_USE, 0);
}

/* Does something rare to a block in use. */
static void
disturb_block (Fixture *fixture)
{
  guint i = (guint) g_test_rand_int_range (0, (gint32) fixture->uses->len);
  const Use *use = &g_array_index (fixture->uses, Use, i);

  switch (g_test_rand_int_range (0, 3))
    {
    case 0:
      go_on (fixture, use->block, fixture->second);
      break;
    case 1:
      go_on (fixture, use->block, NULL);
      break;
    default:
      share (fixture, use);
    }
}

/* ... or to the pool. */
static void
disturb (Fixture *fixture)
{
  switch (g_test_rand_int_range (0, 6))
    {
    case 0:
      tarn_pool_free_held (fixture->pool);
      break;
    case 1:
      tarn_pool_trim (fixture->pool, MIB);
      break;
    case 2:
      forget_first (fixture);
      break;
    case 3:
      tarn_testing_queues_run_all (fixture->queues);
      break;
    default:
      if (fixture->uses->len > 0)
        disturb_block (fixture);
    }
  assert_all_valid (fixture);
}

static gsize
choose_size (GRand *rand)
{
  return (gsize) g_rand_int_range (rand, 0, 1000) << g_rand_int_range (rand, 0, 13);
}

static void
test_random (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed ((guint32) g_test_rand_int ());
  guint n_lent = 0;

  (void) unused;
  for (guint i = 0; i < N_RANDOM; i++)
    {
      guint n = fixture->uses->len;
      gint chance = g_rand_int_range (rand, 0, 100);

      if (chance == 0)
        disturb (fixture);
      else if (n == 0 || (n < MAX_USES && chance < 46))
        n_lent += is_lent (
            use_on (fixture, choose_size (rand), chance < 4 ? fixture->second : fixture->first));
      else if (chance < 90)
        end (fixture, g_array_index (fixture->uses, Use, n - 1).block);
      else
        end (fixture,
             g_array_index (fixture->uses, Use, (guint) g_rand_int_range (rand, 0, (gint32) n))
                 .block);
    }
  while (fixture->uses->len > 0)
    end (fixture, g_array_index (fixture->uses, Use, 0).block);
  g_assert_cmpuint (n_lent, >, N_RANDOM / 20);
}

/* Threads */

#define N_THREADS 4
#define N_EXCHANGED 8
#define N_ROUNDS 500
#define MAX_DEPTH 10

/* A thread's queue, until it has another one. */
typedef struct
{
  gpointer handle;
  gboolean is_retired; /* it is given no more commands; behind the lock */
} Queue;

typedef struct
{
  TarnBlock *block;
  gsize size;
  guint value;
  Queue *queue;
} Held;

typedef struct
{
  Fixture *fixture;
  TarnMutex lock; /* guards what stands below it */
  Held exchanged[N_EXCHANGED];
  guint n_playing;
  GQueue retired; /* of Queue, to be forgotten */
  guint n_lent;
} Shared;

/* Another thread may free what it gets from a queue that is about to be forgotten. */
static void
drop (Shared *shared, const Held *held)
{
  if (held->block == NULL)
    return;
  _tarn_mutex_lock (&shared->lock);
  if (!held->queue->is_retired)
    tarn_testing_order_put (shared->fixture->order, held->queue->handle,
                            tarn_block_get_memory (held->block), held->size,
                            TARN_TESTING_COMMAND_CHECK, held->value);
  _tarn_mutex_unlock (&shared->lock);
  tarn_block_free (held->block);
}

static void
take_on (Shared *shared, Queue *queue, gsize size, guint value, Held *held)
{
  g_autoptr (GError) error = NULL;
  TarnMemory memory;

  *held = (Held){ NULL, size, value, queue };
  held->block = tarn_pool_allocate_ordered (shared->fixture->pool, size, queue->handle, &error);
  if (held->block == NULL)
    {
      g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
      return;
    }
  memory = tarn_block_get_memory (held->block);
  tarn_testing_order_own (shared->fixture->order, memory, size);
  tarn_testing_order_put (shared->fixture->order, queue->handle, memory, size,
                          TARN_TESTING_COMMAND_WRITE, value);
}

/* Leaves a block to whichever thread comes next to that place, and frees the one that was there. */
static void
exchange (Shared *shared, guint place, const Held *held)
{
  Held other;

  _tarn_mutex_lock (&shared->lock);
  other = shared->exchanged[place];
  shared->exchanged[place] = *held;
  _tarn_mutex_unlock (&shared->lock);
  drop (shared, &other);
}

static Queue *
queue_new (Shared *shared)
{
  Queue *queue = g_new0 (Queue, 1);

  queue->handle = tarn_testing_queue_new (shared->fixture->queues, TRUE);
  return queue;
}

static void
retire (Shared *shared, Queue *queue)
{
  _tarn_mutex_lock (&shared->lock);
  queue->is_retired = TRUE;
  g_queue_push_tail (&shared->retired, queue);
  _tarn_mutex_unlock (&shared->lock);
}

/* As what is lent is, and nothing else.  Whether it is lent still would be a race. */
static gboolean
is_rounded (const TarnBlock *block)
{
  return tarn_block_get_alloc_size (block) > tarn_block_get_size (block);
}

/* Temporaries in one another, one of which may live on. */
static guint
nest (Shared *shared, Queue *queue, GRand *rand, guint value)
{
  guint n = (guint) g_rand_int_range (rand, 1, MAX_DEPTH + 1), n_lent = 0;
  Held held[MAX_DEPTH];

  for (guint i = 0; i < n; i++)
    {
      gsize most = g_rand_int_range (rand, 0, 8) == 0 ? 2 * MIB : 256 * KIB;

      take_on (shared, queue, (gsize) g_rand_int_range (rand, 1, (gint32) most), value + i,
               &held[i]);
      n_lent += held[i].block != NULL && is_rounded (held[i].block);
    }
  while (n > 0)
    {
      guint i = g_rand_int_range (rand, 0, 6) == 0 ? (guint) g_rand_int_range (rand, 0, (gint32) n)
                                                   : n - 1;

      if (g_rand_int_range (rand, 0, 12) == 0)
        exchange (shared, (guint) g_rand_int_range (rand, 0, N_EXCHANGED), &held[i]);
      else
        drop (shared, &held[i]);
      held[i] = held[--n];
    }
  return n_lent;
}

static gpointer
play (gpointer data)
{
  Shared *shared = data;
  Queue *queue = queue_new (shared);
  g_autoptr (GRand) rand = g_rand_new_with_seed ((guint32) g_random_int ());
  guint n_lent = 0;

  for (guint i = 0; i < N_ROUNDS; i++)
    {
      n_lent += nest (shared, queue, rand, 1 + i * MAX_DEPTH);
      tarn_testing_queue_run (shared->fixture->queues, queue->handle);
      if (i % 50 == 49)
        {
          retire (shared, queue);
          queue = queue_new (shared);
        }
    }
  retire (shared, queue);
  _tarn_mutex_lock (&shared->lock);
  shared->n_lent += n_lent;
  shared->n_playing--;
  _tarn_mutex_unlock (&shared->lock);
  return NULL;
}

/* Forgets the queue that was retired first.  FALSE: there is none. */
static gboolean
forget_retired (Shared *shared, GPtrArray *forgotten)
{
  Fixture *fixture = shared->fixture;
  Queue *queue;

  _tarn_mutex_lock (&shared->lock);
  queue = g_queue_pop_head (&shared->retired);
  _tarn_mutex_unlock (&shared->lock);
  if (queue == NULL)
    return FALSE;
  g_assert_true (tarn_pool_forget_queue (fixture->pool, queue->handle, NULL));
  tarn_testing_queue_destroy (fixture->queues, queue->handle);
  g_ptr_array_add (forgotten, queue);
  return TRUE;
}

/* Does what stops all threads now and then, until they have played.  Blocks may know the queues
 * that it has forgotten. */
static void
interfere (Shared *shared, GPtrArray *forgotten)
{
  gboolean are_playing = TRUE;

  for (guint i = 0; are_playing; i++)
    {
      TarnPoolStats stats = get_stats (shared->fixture->pool);

      g_assert_cmpuint (stats.active_blocks, <=, N_THREADS * MAX_DEPTH + N_EXCHANGED);
      g_assert_cmpuint (stats.active_bytes + stats.held_bytes, <=, stats.managed_bytes);
      forget_retired (shared, forgotten);
      if (i % 8 == 0)
        tarn_pool_free_held (shared->fixture->pool);
      if (i % 16 == 0)
        assert_valid (shared->fixture->pool);
      g_usleep (500);
      _tarn_mutex_lock (&shared->lock);
      are_playing = shared->n_playing > 0;
      _tarn_mutex_unlock (&shared->lock);
    }
  while (forget_retired (shared, forgotten))
    ;
}

static void
test_threads (Fixture *fixture, gconstpointer data)
{
  Shared shared = { .fixture = fixture, .n_playing = N_THREADS, .retired = G_QUEUE_INIT };
  g_autoptr (GPtrArray) forgotten = g_ptr_array_new_with_free_func (g_free);
  GThread *threads[N_THREADS];

  if (!knows_order (fixture) || !((const Way *) data)->has_queue)
    return;
  _tarn_mutex_init (&shared.lock);
  tarn_testing_pages_set_budget (fixture->pages, 64 * MIB);
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("player", play, &shared);
  interfere (&shared, forgotten);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  for (guint i = 0; i < N_EXCHANGED; i++)
    drop (&shared, &shared.exchanged[i]);
  assert_all_valid (fixture);
  g_assert_cmpuint (shared.n_lent, >, 0);
  tarn_pool_free_held (fixture->pool);
  g_assert_cmpuint (get_stats (fixture->pool).managed_bytes, ==, 0);
  tarn_testing_queues_run_all (fixture->queues);
  g_assert_null (tarn_testing_queues_steal_fault (fixture->queues));
  _tarn_mutex_clear (&shared.lock);
}

/* Threads without queues, whose bytes are really there, one word for each unit. */

/* In a row; there are two rows. */
#define MAX_ADDRESSES ((gsize) MIN ((guint64) 4 * GIB, G_MAXSIZE / 8 + 1))
#define N_WORDS (2 * (MAX_ADDRESSES + TARN_TESTING_PAGES_GRANULARITY) / ALIGNMENT)
#define N_BYTE_ROUNDS 8000

typedef struct
{
  Fixture *fixture;
  guint32 *words;
  gint last_value;                 /* atomic */
  gint n_playing;                  /* atomic */
  gpointer exchanged[N_EXCHANGED]; /* atomic: TarnBlock */
} Bytes;

static guint32 *
get_words (Bytes *bytes, const TarnBlock *block, gsize *n)
{
  gsize first = tarn_block_get_memory (block).address / ALIGNMENT;

  *n = (tarn_block_get_alloc_size (block) + ALIGNMENT - 1) / ALIGNMENT;
  g_assert_cmpuint (first + *n, <=, N_WORDS);
  return bytes->words + first;
}

/* Frees a block that nobody else has written to. */
static void
free_written (Bytes *bytes, TarnBlock *block)
{
  guint32 *words, value;
  gsize n;

  if (block == NULL)
    return;
  words = get_words (bytes, block, &n);
  value = words[0];
  g_assert_cmpuint (value, !=, 0);
  for (gsize i = 0; i < n; i++)
    {
      g_assert_cmpuint (words[i], ==, value);
      words[i] = 0;
    }
  tarn_block_free (block);
}

/* A block with a number all over it that no other has, where there was none. */
static TarnBlock *
take_written (Bytes *bytes, gsize size)
{
  TarnBlock *block = tarn_pool_allocate (bytes->fixture->pool, size, NULL);
  guint32 value = (guint32) g_atomic_int_add (&bytes->last_value, 1) + 1, *words;
  gsize n;

  g_assert_nonnull (block);
  words = get_words (bytes, block, &n);
  for (gsize i = 0; i < n; i++)
    {
      g_assert_cmpuint (words[i], ==, 0);
      words[i] = value;
    }
  return block;
}

static gpointer
play_with_bytes (gpointer data)
{
  Bytes *bytes = data;
  g_autoptr (GRand) rand = g_rand_new_with_seed ((guint32) g_random_int ());
  TarnBlock *blocks[MAX_DEPTH];
  guint n = 0;

  for (guint i = 0; i < N_BYTE_ROUNDS; i++)
    {
      gsize size = (gsize) g_rand_int_range (rand, 0, 512) << g_rand_int_range (rand, 0, 13);

      if (n == 0 || (n < MAX_DEPTH && g_rand_boolean (rand)))
        blocks[n++] = take_written (bytes, size);
      else if (g_rand_int_range (rand, 0, 10) > 0)
        free_written (bytes, blocks[--n]);
      else
        {
          gpointer *place = &bytes->exchanged[g_rand_int_range (rand, 0, N_EXCHANGED)];

          free_written (bytes, __atomic_exchange_n (place, blocks[--n], __ATOMIC_ACQ_REL));
        }
    }
  while (n > 0)
    free_written (bytes, blocks[--n]);
  g_atomic_int_dec_and_test (&bytes->n_playing);
  return NULL;
}

static void
test_bytes (Fixture *fixture, gconstpointer data)
{
  Bytes bytes = { .fixture = fixture, .n_playing = N_THREADS };
  const Way *way = data;
  GThread *threads[N_THREADS];

  if (way->alignment != ALIGNMENT || way->has_queue)
    return;
  tarn_testing_pages_set_max_addresses (fixture->pages, MAX_ADDRESSES);
  bytes.words = g_new0 (guint32, N_WORDS);
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("player", play_with_bytes, &bytes);
  for (guint i = 1; g_atomic_int_get (&bytes.n_playing) > 0; i++)
    {
      assert_valid (fixture->pool);
      if (i % 4 == 0)
        tarn_pool_free_held (fixture->pool);
      g_usleep (200);
    }
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  for (guint i = 0; i < N_EXCHANGED; i++)
    free_written (&bytes, bytes.exchanged[i]);
  assert_all_valid (fixture);
  g_free (bytes.words);
}

/* Nothing that stays is lent of what large temporaries had: it would keep a large piece in use. */
static void
test_ranges (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *small[24];

  (void) unused;
  fixture->pool->scratch_max_small = 256 * KIB; /* as the heap has it */
  for (guint i = 0; i < G_N_ELEMENTS (small); i++)
    {
      for (guint j = 0; j < 4; j++)
        end (fixture, use (fixture, 3 * MIB + (i + j) * 1000));
      small[i] = use (fixture, 1000);
      end (fixture, use (fixture, 30 * MIB + i * MIB));
    }
  tarn_pool_free_held (fixture->pool);
  g_assert_cmpuint (get_heap_stats (fixture).upstream_bytes, <=, 8 * MIB); /* growth_bytes */
  end_all (fixture, small, G_N_ELEMENTS (small), 1);
}

/* Who is served from a scratch looks after the pool and the heap as others do: what was not used
 * for seconds goes back. */
static void
test_looks_after (Fixture *fixture, gconstpointer unused)
{
  TarnHeap *heap = _tarn_heap_of (fixture->heap);

  (void) unused;
  end (fixture, use (fixture, 6 * MIB)); /* the piece that the scratch will be in */
  end (fixture, use (fixture, 60 * MIB));
  tarn_testing_queues_run_all (fixture->queues);
  make_scratch (fixture, SCRATCH);
  for (guint i = 0; i < 4; i++)
    {
      for (GList *link = heap->idle.head; link != NULL; link = link->next)
        ((TarnPiece *) link->data)->idle_at -= 11 * G_TIME_SPAN_SECOND;
      heap->look_at = 0;
      for (guint j = 0; j < 1010; j++)
        tarn_block_free (
            tarn_pool_allocate_ordered (fixture->pool, 1000 + j, fixture->first, NULL));
      tarn_testing_queues_run_all (fixture->queues);
    }
  g_assert_nonnull (get_scratch (fixture)->rest);
  g_assert_cmpuint (get_heap_stats (fixture).upstream_bytes, <=, 24 * MIB);
}

static void
have_temporaries (gpointer data)
{
  Fixture *fixture = data;

  for (guint i = 0; i < 3000; i++)
    tarn_block_free (tarn_pool_allocate_ordered (fixture->pool, 1000 + i, fixture->first, NULL));
}

/* Who looks after them waits for no lock of theirs. */
static void
test_busy (Fixture *fixture, gconstpointer unused)
{
  TarnHeap *heap = _tarn_heap_of (fixture->heap);
  Player player;

  (void) unused;
  if (players_pools_are_checked ())
    {
      g_test_skip ("each operation takes the lock, to check the pool");
      return;
    }
  player_begin (&player);
  player_run (&player, have_temporaries, fixture);
  alarm (60);
  _tarn_mutex_lock (&fixture->pool->lock);
  player_run (&player, have_temporaries, fixture);
  _tarn_mutex_unlock (&fixture->pool->lock);
  _tarn_mutex_lock (&heap->lock);
  player_run (&player, have_temporaries, fixture);
  _tarn_mutex_unlock (&heap->lock);
  alarm (0);
  player_end (&player);
}

/* A part of memory that is an address is cut by its address, which is as long as a pointer only
 * where a pointer has 64 bits. */
static void
test_not_cut (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  g_assert_cmpuint (fixture->pool->scratch_unit, ==, 0);
}

static void
add (const gchar *name, void (*test) (Fixture *, gconstpointer))
{
  static const struct
  {
    const gchar *name;
    Way way;
  } ways[]
      = { { "host", { ALIGNMENT, FALSE, 0, TARN_TESTING_PAGES_VIRTUAL } },
          { "queue", { ALIGNMENT, TRUE, 0, TARN_TESTING_PAGES_VIRTUAL } },
          { "host/ordered", { TARN_TESTING_ORDER_GRANULE, FALSE, 0, TARN_TESTING_PAGES_VIRTUAL } },
          { "queue/ordered", { TARN_TESTING_ORDER_GRANULE, TRUE, 0, TARN_TESTING_PAGES_VIRTUAL } },
          { "queue/ordered/events-all",
            { TARN_TESTING_ORDER_GRANULE, TRUE, TARN_TESTING_QUEUES_RECORDS_ALL,
              TARN_TESTING_PAGES_VIRTUAL } },
          { "parts/host", { ALIGNMENT, FALSE, 0, TARN_TESTING_PAGES_ADDRESSES } },
          { "parts/queue/ordered",
            { TARN_TESTING_ORDER_GRANULE, TRUE, 0, TARN_TESTING_PAGES_ADDRESSES } } };

  for (gsize i = 0; i < G_N_ELEMENTS (ways); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/core/heap/scratch/%s/%s", name, ways[i].name);

      gboolean is_cut = ways[i].way.kind != TARN_TESTING_PAGES_ADDRESSES
                        || sizeof (gpointer) == sizeof (guint64);

      g_test_add (path, Fixture, &ways[i].way, set_up, is_cut ? test : test_not_cut, tear_down);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  add ("fork", test_fork);
  add ("temporaries", test_temporaries);
  add ("no-temporaries", test_no_temporaries);
  add ("peak", test_peak);
  add ("nested", test_nested);
  add ("too-many", test_too_many);
  add ("one-stays", test_one_stays);
  add ("edges", test_edges);
  add ("no-rest", test_no_rest);
  add ("pieces", test_pieces);
  add ("freed-elsewhere", test_freed_elsewhere);
  add ("freed-first", test_freed_first);
  add ("freed-late", test_freed_late);
  add ("thread-ends", test_thread_ends);
  add ("others-need", test_others_need);
  add ("pool-ends-in-thread", test_pool_ends_in_thread);
  add ("record-use", test_record_use);
  add ("move", test_move);
  add ("forget", test_forget);
  add ("forget-other", test_forget_other);
  add ("meanwhile", test_meanwhile);
  add ("heap-grows", test_heap_grows);
  add ("others-grow", test_others_grow);
  add ("ranges", test_ranges);
  add ("looks-after", test_looks_after);
  add ("busy", test_busy);
  add ("out-of-memory", test_out_of_memory);
  add ("limit", test_limit);
  add ("group", test_group);
  add ("bare", test_bare);
  add ("other-queue", test_other_queue);
  add ("turns", test_turns);
  add ("turns-soon", test_turns_soon);
  add ("larger", test_larger);
  add ("out-of-order", test_out_of_order);
  add ("double-free", test_double_free);
  heap_add ("scratch/none", test_none);
  add ("random", test_random);
  add ("threads", test_threads);
  add ("bytes", test_bytes);
  return g_test_run ();
}
