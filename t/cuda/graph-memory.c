/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory of captures, as PyTorch asks for it (tarn_cuda_torch_begin_allocate_to_pool () and its
 * companions).  The pool and its context are the process's: what is in use before a test is in use
 * after it. */

#include <string.h>

#include "lib/in-child.h"
#include "order-fixture.h"

#define MIB ((gsize) 1 << 20)
#define N_BLOCKS 16

typedef struct
{
  CUcontext primary;
  CUstream a, b; /* neither waits for the default stream */
  TarnPool *shared;
  gsize active_before; /* bytes: get_used () */
} World;

static const TarnCudaTorchPoolId one = { 1, 0 }, two = { 0, 1 };

/* Gets the bytes in use of what the process shares: those of graphs, which the pool's heap lends,
 * as well. */
static gsize
get_used (TarnPool *shared)
{
  TarnPoolStats pool = TARN_POOL_STATS_INIT;
  TarnHeapStats heap = TARN_HEAP_STATS_INIT;

  tarn_pool_get_stats (shared, &pool);
  if (!tarn_heap_get_stats (tarn_pool_get_upstream (shared), &heap))
    return pool.active_bytes;
  return heap.used_bytes - (pool.managed_bytes - pool.active_bytes);
}

static gsize
get_active (const World *world)
{
  return get_used (world->shared) - world->active_before;
}

static void
world_init (World *world, const TarnCudaTest *test)
{
  g_autoptr (GError) error = NULL;

  order_load ();
  SUCCEED (tarn->cuDevicePrimaryCtxRetain (&world->primary, test->device));
  SUCCEED (tarn->cuCtxPushCurrent (world->primary));
  world->a = order_stream_new ();
  world->b = order_stream_new ();
  world->shared = tarn_cuda_get_shared_pool (test->device, &error);
  g_assert_no_error (error);
  tarn_pool_free_held (world->shared);
  world->active_before = get_used (world->shared);
}

/* All that graphs had is back. */
static void
world_clear (World *world, const TarnCudaTest *test)
{
  CUcontext popped;

  tarn_pool_free_held (world->shared);
  g_assert_cmpuint (get_active (world), ==, 0);
  tarn_pool_unref (world->shared);
  order_stream_free (world->a);
  order_stream_free (world->b);
  SUCCEED (tarn->cuCtxPopCurrent (&popped));
  SUCCEED (tarn->cuDevicePrimaryCtxRelease (test->device));
}

static void
begin (const TarnCudaTest *test, TarnCudaTorchPoolId id, CUstream stream)
{
  tarn_cuda_torch_begin_allocate_to_pool (test->device, id, NULL);
  SUCCEED (cuda.cuStreamBeginCapture (stream, 0)); /* mode global */
}

/* Nothing has ended the capture before. */
static void
end (const TarnCudaTest *test, TarnCudaTorchPoolId id, CUstream stream)
{
  CUgraph graph = NULL;

  SUCCEED (cuda.cuStreamEndCapture (stream, &graph));
  g_assert_nonnull (graph);
  SUCCEED (cuda.cuGraphDestroy (graph));
  tarn_cuda_torch_end_allocate_to_pool (test->device, id);
}

static guint64
take_memory (const TarnCudaTest *test, gsize size, CUstream stream)
{
  void *memory = tarn_cuda_torch_malloc ((gssize) size, test->device, stream);

  g_assert_nonnull (memory);
  return GPOINTER_TO_SIZE (memory);
}

static void
give_memory (const TarnCudaTest *test, guint64 address, CUstream stream)
{
  tarn_cuda_torch_free (GSIZE_TO_POINTER ((gsize) address), 0, test->device, stream);
}

static gboolean
overlap (guint64 a, gsize a_size, guint64 b, gsize b_size)
{
  return a < b + b_size && b < a + a_size;
}

/* Takes and gives back memory of many sizes on a stream; none of it is what is not to be had. */
static void
assert_apart (const TarnCudaTest *test, CUstream stream, const guint64 *addresses, guint n,
              gsize size)
{
  for (guint round = 0; round < 20; round++)
    {
      guint64 taken[N_BLOCKS];
      gsize wanted = size >> round % 5;

      for (guint i = 0; i < N_BLOCKS; i++)
        {
          taken[i] = take_memory (test, wanted, stream);
          for (guint j = 0; j < n; j++)
            g_assert_false (overlap (taken[i], wanted, addresses[j], size));
        }
      for (guint i = 0; i < N_BLOCKS; i++)
        give_memory (test, taken[i], stream);
    }
}

/* What a graph has written to is nobody else's, freed or not, until the graph is gone. */
static void
test_apart (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  guint64 addresses[N_BLOCKS];

  (void) unused;
  world_init (&world, test);
  begin (test, one, world.a);
  for (guint i = 0; i < N_BLOCKS; i++)
    addresses[i] = take_memory (test, MIB, world.a);
  for (guint i = 0; i < N_BLOCKS; i += 2)
    give_memory (test, addresses[i], world.a);
  assert_apart (test, world.b, addresses, N_BLOCKS, MIB);
  end (test, one, world.a);
  for (guint i = 1; i < N_BLOCKS; i += 2)
    give_memory (test, addresses[i], world.a);
  g_assert_cmpuint (get_active (&world), >=, N_BLOCKS * MIB);
  tarn_cuda_torch_empty_cache ();
  assert_apart (test, world.a, addresses, N_BLOCKS, MIB);
  assert_apart (test, NULL, addresses, N_BLOCKS, MIB);
  g_assert_cmpuint (get_active (&world), >=, N_BLOCKS * MIB);
  tarn_cuda_torch_release_pool (test->device, one);
  world_clear (&world, test);
}

/* What is freed is allocated again by the same stream of the graph, in other sizes, too, but not by
 * another branch. */
static void
test_again (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  guint64 first, second;

  (void) unused;
  world_init (&world, test);
  begin (test, one, world.a);
  first = take_memory (test, MIB, world.a);
  give_memory (test, first, world.a);
  second = take_memory (test, MIB, world.a);
  g_assert_cmpuint (second, ==, first);
  give_memory (test, second, world.a);
  for (guint i = 0; i < 1000; i++)
    give_memory (test, take_memory (test, MIB - i * 1024, world.a), world.a);
  g_assert_cmpuint (get_active (&world), <=, 16 * MIB);
  SUCCEED (cuda.cuStreamBeginCapture (world.b, 0));
  second = take_memory (test, MIB, world.b);
  g_assert_false (overlap (first, MIB, second, MIB));
  give_memory (test, second, world.b);
  end (test, one, world.b);
  tarn_cuda_torch_end_allocate_to_pool (test->device, one); /* once too often is nothing */
  tarn_cuda_torch_begin_allocate_to_pool (test->device, one, NULL);
  end (test, one, world.a);
  tarn_cuda_torch_release_pool (test->device, one);
  tarn_cuda_torch_release_pool (test->device, one);
  tarn_cuda_torch_release_pool (test->device, one); /* once too often is nothing */
  world_clear (&world, test);
}

/* What several branches use is not handed out again in the graph. */
static void
test_recorded (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  guint64 address;

  (void) unused;
  world_init (&world, test);
  begin (test, one, world.a);
  address = take_memory (test, MIB, world.a);
  tarn_cuda_torch_record_stream (GSIZE_TO_POINTER ((gsize) address), world.b);
  tarn_cuda_torch_record_stream (GSIZE_TO_POINTER ((gsize) address), world.b);
  give_memory (test, address, world.a);
  assert_apart (test, world.a, &address, 1, MIB);
  end (test, one, world.a);
  tarn_cuda_torch_release_pool (test->device, one);
  world_clear (&world, test);
}

/* Graphs of one name share memory, and it stays until the last is gone; those of others do not. */
static void
test_names (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  guint64 address, other;

  (void) unused;
  world_init (&world, test);
  begin (test, one, world.a);
  address = take_memory (test, MIB, world.a);
  give_memory (test, address, world.a);
  end (test, one, world.a);
  begin (test, one, world.a);
  other = take_memory (test, MIB, world.a);
  g_assert_cmpuint (other, ==, address);
  give_memory (test, other, world.a);
  end (test, one, world.a);
  begin (test, two, world.a);
  assert_apart (test, world.a, &address, 1, MIB);
  end (test, two, world.a);
  tarn_cuda_torch_release_pool (test->device, two);
  tarn_cuda_torch_release_pool (test->device, one);
  g_assert_cmpuint (get_active (&world), >=, MIB);
  assert_apart (test, world.a, &address, 1, MIB);
  tarn_cuda_torch_release_pool (test->device, one);
  world_clear (&world, test);
}

/* A tensor may outlive its graph; and its memory goes back when it is freed, though not while
 * somebody captures. */
static void
test_outlives (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  guint64 address, kept;

  (void) unused;
  world_init (&world, test);
  begin (test, one, world.a);
  address = take_memory (test, MIB, world.a);
  kept = take_memory (test, MIB, world.a);
  end (test, one, world.a);
  tarn_cuda_torch_release_pool (test->device, one);
  tarn_cuda_torch_record_stream (GSIZE_TO_POINTER ((gsize) kept), world.b);
  g_assert_cmpuint (get_active (&world), >=, 2 * MIB);
  begin (test, two, world.a);
  give_memory (test, address, world.a);
  give_memory (test, kept, world.a);
  g_assert_cmpuint (get_active (&world), >=, 2 * MIB);
  end (test, two, world.a);
  g_assert_cmpuint (get_active (&world), ==, 0);
  tarn_cuda_torch_release_pool (test->device, two);
  world_clear (&world, test);
}

/* A tensor that outlives its graph keeps the piece that it is in, and no other. */
static void
test_survivor (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  guint64 addresses[N_BLOCKS], survivor;

  (void) unused;
  world_init (&world, test);
  begin (test, one, world.a);
  survivor = take_memory (test, 1000, world.a);
  for (guint i = 0; i < N_BLOCKS; i++)
    addresses[i] = take_memory (test, 64 * MIB, world.a);
  for (guint i = 0; i < N_BLOCKS; i++)
    give_memory (test, addresses[i], world.a);
  end (test, one, world.a);
  g_assert_cmpuint (get_active (&world), >=, N_BLOCKS * 64 * MIB);
  tarn_cuda_torch_release_pool (test->device, one);
  g_assert_cmpuint (get_active (&world), <=, 2 * 64 * MIB);
  assert_apart (test, world.a, &survivor, 1, 1000);
  give_memory (test, survivor, world.a);
  world_clear (&world, test);
}

/* A capture that failed is not said to be over; the next one's end is the end of both.  A graph
 * that is gone before its capture is over takes that along. */
static void
test_failed (const TarnCudaTest *test, gconstpointer unused)
{
  World world;

  (void) unused;
  world_init (&world, test);
  tarn_cuda_torch_begin_allocate_to_pool (test->device, one, NULL);
  begin (test, two, world.a);
  give_memory (test, take_memory (test, MIB, world.a), world.a);
  tarn_cuda_torch_empty_cache ();
  end (test, two, world.a);
  tarn_cuda_torch_release_pool (test->device, two);
  g_assert_cmpuint (get_active (&world), ==, 0);
  tarn_cuda_torch_begin_allocate_to_pool (test->device, two, NULL);
  tarn_cuda_torch_release_pool (test->device, two);
  tarn_cuda_torch_end_allocate_to_pool (test->device, two);
  tarn_cuda_torch_release_pool (test->device, one);
  world_clear (&world, test);
}

/* A capture does not mind what others allocate meanwhile: with events to look at, fresh memory, and
 * memory that goes back. */
static void
test_meanwhile (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  guint64 address;

  (void) unused;
  world_init (&world, test);
  for (guint i = 0; i < N_BLOCKS; i++)
    {
      address = take_memory (test, (i + 1) * MIB, world.b);
      tarn_cuda_torch_record_stream (GSIZE_TO_POINTER ((gsize) address), NULL);
      give_memory (test, address, world.b);
    }
  begin (test, one, world.a);
  give_memory (test, take_memory (test, MIB, world.a), world.a);
  for (guint i = 0; i < N_BLOCKS; i++)
    {
      guint64 blocks[3]
          = { take_memory (test, (i + 2) * MIB, NULL), take_memory (test, (i + 3) * MIB, world.b),
              take_memory (test, (i + 1) * 1000, world.a) };

      give_memory (test, blocks[0], NULL);
      give_memory (test, blocks[1], world.b);
      give_memory (test, blocks[2], world.a);
    }
  end (test, one, world.a);
  tarn_cuda_torch_release_pool (test->device, one);
  world_clear (&world, test);
}

typedef struct
{
  const TarnCudaTest *test;
  World *world;
  guint64 address;
} Other;

static gpointer
take_in_thread (gpointer data)
{
  Other *other = data;

  SUCCEED (tarn->cuCtxPushCurrent (other->world->primary));
  other->address = take_memory (other->test, MIB, other->world->a);
  return NULL;
}

/* Gradients are computed in a thread of their own, on the stream that captures. */
static void
test_thread (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  Other other = { test, &world, 0 };
  guint64 own;

  (void) unused;
  world_init (&world, test);
  begin (test, one, world.a);
  own = take_memory (test, MIB, world.a);
  g_thread_join (g_thread_new ("gradients", take_in_thread, &other));
  g_assert_false (overlap (own, MIB, other.address, MIB));
  give_memory (test, own, world.a);
  give_memory (test, other.address, world.a);
  end (test, one, world.a);
  assert_apart (test, world.a, &other.address, 1, MIB);
  tarn_cuda_torch_release_pool (test->device, one);
  world_clear (&world, test);
}

/* Without the hooks nothing is recorded wrongly. */
static void
test_no_hooks (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  CUgraph graph = NULL;

  (void) unused;
  world_init (&world, test);
  give_memory (test, take_memory (test, MIB, world.a), world.a); /* it would be a hit */
  SUCCEED (cuda.cuStreamBeginCapture (world.a, 0));
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_WARNING, "*captures a graph*set_begin_allocate*");
  g_assert_null (tarn_cuda_torch_malloc (MIB, test->device, world.a));
  g_test_assert_expected_messages ();
  SUCCEED (cuda.cuStreamEndCapture (world.a, &graph));
  SUCCEED (cuda.cuGraphDestroy (graph));
  world_clear (&world, test);
}

/* A limit counts what graphs have, and no memory is an error like any other. */
static void
test_limit (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  guint64 address;

  (void) unused;
  world_init (&world, test);
  tarn_pool_set_limit_bytes (world.shared, tarn_pool_get_managed_bytes (world.shared) + 64 * MIB);
  begin (test, one, world.a);
  address = take_memory (test, 20 * MIB, world.a);
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_WARNING, "*CUDA out of memory*");
  g_assert_null (tarn_cuda_torch_malloc (100 * MIB, test->device, world.a));
  g_test_assert_expected_messages ();
  give_memory (test, address, world.a);
  assert_apart (test, world.b, &address, 1, MIB);
  end (test, one, world.a);
  tarn_cuda_torch_release_pool (test->device, one);
  tarn_pool_set_limit_bytes (world.shared, 0);
  world_clear (&world, test);
}

static gsize
get_taken (const World *world)
{
  TarnHeapStats stats = TARN_HEAP_STATS_INIT;

  g_assert_true (tarn_heap_get_stats (tarn_pool_get_upstream (world->shared), &stats));
  return stats.upstream_bytes;
}

/* Takes what a step of a training takes, and gives it back in the order in which gradients are
 * computed. */
static void
take_step (const TarnCudaTest *test, CUstream stream)
{
  guint64 addresses[N_BLOCKS];

  for (guint i = 0; i < N_BLOCKS; i++)
    {
      addresses[i] = take_memory (test, (10 + i % 3 * 10) * MIB, stream);
      give_memory (test, take_memory (test, (5 + i % 5) * MIB, stream), stream);
    }
  for (guint i = N_BLOCKS; i > 0; i--)
    {
      guint64 gradient = take_memory (test, 10 * MIB, stream);

      give_memory (test, addresses[i - 1], stream);
      give_memory (test, gradient, stream);
    }
}

/* PyTorch runs a few steps on another stream, gives its cache back, and captures a step: the graph
 * has the room that the steps had, and the device is no fuller than with either. */
static void
test_room (const TarnCudaTest *test, gconstpointer unused)
{
  gsize before, steps, captured;
  World world;

  (void) unused;
  world_init (&world, test);
  before = get_taken (&world);
  for (guint i = 0; i < 3; i++)
    take_step (test, world.b);
  steps = get_taken (&world) - before;
  tarn_cuda_torch_empty_cache ();
  g_assert_cmpuint (get_taken (&world), <=, before + 4 * MIB);
  begin (test, one, world.a);
  take_step (test, world.a);
  end (test, one, world.a);
  captured = get_taken (&world) - before;
  g_assert_cmpuint (captured, <=, steps + steps / 4);
  for (guint i = 0; i < 3; i++) /* a second graph that shares the memory adds none */
    {
      begin (test, one, world.a);
      take_step (test, world.a);
      end (test, one, world.a);
      g_assert_cmpuint (get_taken (&world) - before, ==, captured);
    }
  for (guint i = 0; i < 4; i++)
    tarn_cuda_torch_release_pool (test->device, one);
  tarn_pool_free_held (world.shared);
  g_assert_cmpuint (get_taken (&world), <=, before + 4 * MIB);
  world_clear (&world, test);
}

typedef struct
{
  const TarnCudaTest *test;
  CUstream stream;
  guint64 address; /* 0: it was given back */
} Cached;

static gboolean
give_cached (TarnPool *pool, gsize size, gpointer data)
{
  Cached *cached = data;

  (void) pool;
  (void) size;
  if (cached->address == 0)
    return FALSE;
  give_memory (cached->test, cached->address, cached->stream);
  cached->address = 0;
  return TRUE;
}

/* A program that keeps memory for later gives it back for a graph, too. */
static void
test_reclaim (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  Cached cached = { .test = test };
  guint64 address;
  guint id;

  (void) unused;
  world_init (&world, test);
  id = tarn_pool_add_reclaim_func (world.shared, give_cached, &cached, NULL);
  tarn_pool_set_limit_bytes (world.shared, tarn_pool_get_managed_bytes (world.shared) + 128 * MIB);
  cached.stream = world.b;
  cached.address = take_memory (test, 100 * MIB, world.b);
  begin (test, one, world.a);
  address = take_memory (test, 100 * MIB, world.a);
  g_assert_cmpuint (cached.address, ==, 0);
  give_memory (test, address, world.a);
  end (test, one, world.a);
  tarn_cuda_torch_release_pool (test->device, one);
  g_assert_true (tarn_pool_remove_reclaim_func (world.shared, id));
  tarn_pool_set_limit_bytes (world.shared, 0);
  world_clear (&world, test);
}

/* Sizes, frees and graphs at random, beside what is no graph's. */
static void
test_random (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  struct
  {
    guint64 address;
    gsize size;
    CUstream stream;
  } blocks[64] = { { 0 } };

  (void) unused;
  world_init (&world, test);
  for (guint graph = 0; graph < 10; graph++)
    {
      begin (test, graph % 3 == 0 ? one : two, world.a);
      for (guint round = 0; round < 300; round++)
        {
          guint i = (guint) g_random_int_range (0, G_N_ELEMENTS (blocks));

          if (blocks[i].address != 0)
            give_memory (test, blocks[i].address, blocks[i].stream);
          blocks[i].size = (gsize) g_random_int_range (1, 3 * (gint) MIB);
          blocks[i].stream = g_random_boolean () ? world.a : NULL;
          blocks[i].address = take_memory (test, blocks[i].size, blocks[i].stream);
          for (guint j = 0; j < G_N_ELEMENTS (blocks); j++)
            g_assert_true (
                j == i || blocks[j].address == 0
                || !overlap (blocks[i].address, blocks[i].size, blocks[j].address, blocks[j].size));
        }
      end (test, graph % 3 == 0 ? one : two, world.a);
      if (graph >= 4)
        tarn_cuda_torch_release_pool (test->device, (graph - 4) % 3 == 0 ? one : two);
    }
  for (guint graph = 6; graph < 10; graph++)
    tarn_cuda_torch_release_pool (test->device, graph % 3 == 0 ? one : two);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    if (blocks[i].address != 0)
      give_memory (test, blocks[i].address, blocks[i].stream);
  world_clear (&world, test);
}

static void
end_in_child (gpointer data)
{
  const TarnCudaTest *test = data;

  tarn_cuda_torch_end_allocate_to_pool (test->device, one);
  tarn_cuda_torch_release_pool (test->device, one);
  tarn_cuda_torch_free (NULL, 0, test->device, NULL);
}

/* A child of fork () leaves everything as it is. */
static void
test_fork (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  guint64 address;

  (void) unused;
  world_init (&world, test);
  begin (test, one, world.a);
  address = take_memory (test, MIB, world.a);
  in_child (end_in_child, (gpointer) test);
  give_memory (test, address, world.a);
  end (test, one, world.a);
  tarn_cuda_torch_release_pool (test->device, one);
  world_clear (&world, test);
}

/* Two threads whose graphs share memory: the one named first ends its capture, and begins another
 * one, while the test's thread still captures. */
typedef struct
{
  const World *world;
  CUdevice device;
  TarnMutex lock;
  TarnCond changed;
  guint turn; /* guarded by the lock: even: the test's thread goes on; odd: the other one */
} Sharing;

/* Lets the other thread go on, and waits for this one's turn.  @turn: that turn. */
static void
await_turn (Sharing *self, guint turn)
{
  _tarn_mutex_lock (&self->lock);
  self->turn = turn - 1;
  _tarn_cond_broadcast (&self->changed);
  while (self->turn != turn)
    _tarn_cond_wait (&self->changed, &self->lock);
  _tarn_mutex_unlock (&self->lock);
}

static void
end_turn (Sharing *self, guint turn)
{
  _tarn_mutex_lock (&self->lock);
  self->turn = turn;
  _tarn_cond_broadcast (&self->changed);
  _tarn_mutex_unlock (&self->lock);
}

static gpointer
capture_beside (gpointer data)
{
  Sharing *self = data;

  tarn_cuda_torch_begin_allocate_to_pool (self->device, one, NULL);
  await_turn (self, 3);
  tarn_cuda_torch_end_allocate_to_pool (self->device, one);
  tarn_cuda_torch_begin_allocate_to_pool (self->device, two, NULL);
  await_turn (self, 5);
  tarn_cuda_torch_end_allocate_to_pool (self->device, two);
  tarn_cuda_torch_release_pool (self->device, two);
  tarn_cuda_torch_release_pool (self->device, one);
  end_turn (self, 6);
  return NULL;
}

static void
test_sharing (const TarnCudaTest *test, gconstpointer unused)
{
  GThread *thread;
  World world;
  Sharing self = { .world = &world, .device = test->device };
  gpointer memory;

  (void) unused;
  world_init (&world, test);
  _tarn_mutex_init (&self.lock);
  _tarn_cond_init (&self.changed);
  self.turn = 1;
  thread = g_thread_new ("beside", capture_beside, &self);
  _tarn_mutex_lock (&self.lock);
  while (self.turn != 2)
    _tarn_cond_wait (&self.changed, &self.lock);
  _tarn_mutex_unlock (&self.lock);
  tarn_cuda_torch_begin_allocate_to_pool (test->device, one, NULL);
  SUCCEED (cuda.cuStreamBeginCapture (world.a, 1));
  await_turn (&self, 4); /* the other thread has ended its capture, and begun another */
  memory = tarn_cuda_torch_malloc (MIB, test->device, world.a);
  g_assert_nonnull (memory);
  tarn_cuda_torch_free (memory, MIB, test->device, world.a);
  end (test, one, world.a);
  await_turn (&self, 6); /* the other graphs are gone */
  tarn_pool_free_held (world.shared);
  g_assert_cmpuint (get_active (&world), >=, MIB);
  tarn_cuda_torch_release_pool (test->device, one);
  g_thread_join (thread);
  _tarn_cond_clear (&self.changed);
  _tarn_mutex_clear (&self.lock);
  world_clear (&world, test);
}

int
main (int argc, char **argv)
{
  order_init (cuda_get_fake ());
  g_test_init (&argc, &argv, NULL);
  tarn_cuda_test_add ("graph-memory/apart", test_apart, NULL);
  tarn_cuda_test_add ("graph-memory/again", test_again, NULL);
  tarn_cuda_test_add ("graph-memory/recorded", test_recorded, NULL);
  tarn_cuda_test_add ("graph-memory/names", test_names, NULL);
  tarn_cuda_test_add ("graph-memory/sharing", test_sharing, NULL);
  tarn_cuda_test_add ("graph-memory/outlives", test_outlives, NULL);
  tarn_cuda_test_add ("graph-memory/survivor", test_survivor, NULL);
  tarn_cuda_test_add ("graph-memory/failed", test_failed, NULL);
  tarn_cuda_test_add ("graph-memory/meanwhile", test_meanwhile, NULL);
  tarn_cuda_test_add ("graph-memory/thread", test_thread, NULL);
  tarn_cuda_test_add ("graph-memory/no-hooks", test_no_hooks, NULL);
  tarn_cuda_test_add ("graph-memory/limit", test_limit, NULL);
  tarn_cuda_test_add ("graph-memory/room", test_room, NULL);
  tarn_cuda_test_add ("graph-memory/reclaim", test_reclaim, NULL);
  tarn_cuda_test_add ("graph-memory/random", test_random, NULL);
  tarn_cuda_test_add ("graph-memory/fork", test_fork, NULL);
  return g_test_run ();
}
