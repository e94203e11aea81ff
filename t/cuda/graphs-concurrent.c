/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Captures of CUDA graphs beside each other and beside allocations: in one thread, in several, and
 * at random. */

#include "graphs-fixture.h"

#define N_THREADS 4

/* A capture does not mind what others allocate meanwhile: with events to look at, fresh memory, and
 * memory that goes back. */
static void
test_meanwhile (const TarnCudaTest *test, gconstpointer way)
{
  World world;
  guint64 graph;

  world_init (&world, test, GPOINTER_TO_UINT (way));
  for (guint i = 0; i < N_BLOCKS; i++)
    {
      TarnBlock *block = take_block (world.pool, (i + 1) * MIB, world.b);

      g_assert_true (tarn_cuda_block_record_use (block, NULL, NULL));
      tarn_block_free (block);
    }
  graph = begin_graph (world.pool, world.a);
  for (guint i = 0; i < N_BLOCKS; i++)
    {
      TarnBlock *blocks[3] = { take_block (world.pool, (i + 2) * MIB, NULL),
                               take_block (world.pool, (i + 3) * MIB, world.b),
                               take_block (world.pool, (i + 1) * 1000, world.a) };

      for (guint j = 0; j < 3; j++)
        tarn_block_free (blocks[j]);
    }
  end_graph (world.pool, graph, world.a);
  release_memory (world.pool, graph);
  world_clear (&world);
}

/* Two captures at once, in one thread, and the release of one while the other goes on: memory
 * waits for that one's end. */
static void
test_two (const TarnCudaTest *test, gconstpointer way)
{
  World world;
  TarnBlock *blocks[2];
  guint64 graphs[2];

  world_init (&world, test, GPOINTER_TO_UINT (way));
  graphs[0] = begin_memory (world.pool, world.a);
  graphs[1] = begin_memory (world.pool, world.b);
  SUCCEED (cuda.cuStreamBeginCapture (world.b, GLOBAL_MODE));
  SUCCEED (cuda.cuStreamBeginCapture (world.a, GLOBAL_MODE));
  blocks[0] = take_block (world.pool, MIB, world.a);
  blocks[1] = take_block (world.pool, MIB, world.b);
  g_assert_false (overlap (get_address (blocks[0]), MIB, get_address (blocks[1]), MIB));
  for (guint i = 0; i < 2; i++)
    tarn_block_free (blocks[i]);
  end_graph (world.pool, graphs[0], world.a);
  release_memory (world.pool, graphs[0]);
  tarn_block_free (take_block (world.pool, 2 * MIB, world.b));
  g_assert_cmpuint (get_used (world.pool), >=, 2 * MIB);
  end_graph (world.pool, graphs[1], world.b);
  release_memory (world.pool, graphs[1]);
  g_assert_cmpuint (get_used (world.pool), ==, 0);
  world_clear (&world);
}

/* Whichever of many that have begun captures first. */
static void
test_many (const TarnCudaTest *test, gconstpointer unused)
{
  guint64 graphs[N_BLOCKS];
  CUstream streams[N_BLOCKS];
  World world;

  (void) unused;
  world_init (&world, test, WHOLE);
  for (guint i = 0; i < N_BLOCKS; i++)
    {
      streams[i] = order_stream_new ();
      graphs[i] = begin_memory (world.pool, streams[i]);
    }
  for (guint i = 0; i < N_BLOCKS; i++)
    {
      guint k = i * 7 % N_BLOCKS; /* each once, in another order */

      SUCCEED (cuda.cuStreamBeginCapture (streams[k], GLOBAL_MODE));
      tarn_block_free (take_block (world.pool, MIB, streams[k]));
      end_graph (world.pool, graphs[k], streams[k]);
      release_memory (world.pool, graphs[k]);
    }
  g_assert_cmpuint (get_used (world.pool), ==, 0);
  for (guint i = 0; i < N_BLOCKS; i++)
    order_stream_free (streams[i]);
  world_clear (&world);
}

/* Sizes, frees, streams and graphs at random, beside what is no graph's. */
typedef struct
{
  TarnBlock *block; /* NULL: none */
  CUstream stream;
} Slot;

static void
use_slot (const World *world, Slot *slots, guint n, guint i)
{
  gsize size = (gsize) g_random_int_range (1, 3 * (gint) MIB);

  if (slots[i].block != NULL && g_random_int_range (0, 20) == 0)
    g_assert_true (tarn_cuda_block_record_use (slots[i].block, world->b, NULL));
  tarn_block_free (slots[i].block);
  slots[i].stream = g_random_int_range (0, 3) == 0 ? world->b : world->a;
  slots[i].block = take_block (world->pool, size, slots[i].stream);
  for (guint j = 0; j < n; j++)
    g_assert_true (j == i || slots[j].block == NULL
                   || !overlap (get_address (slots[i].block), size, get_address (slots[j].block),
                                tarn_block_get_size (slots[j].block)));
}

static void
test_random (const TarnCudaTest *test, gconstpointer way)
{
  World world;
  Slot slots[64] = { { NULL, NULL } };
  guint64 graphs[10];

  world_init (&world, test, GPOINTER_TO_UINT (way));
  for (guint i = 0; i < G_N_ELEMENTS (graphs); i++)
    {
      graphs[i] = begin_graph (world.pool, world.a);
      if (i % 2 == 0)
        follow (world.b, world.a);
      for (guint round = 0; round < 300; round++)
        use_slot (&world, slots, G_N_ELEMENTS (slots),
                  (guint) g_random_int_range (0, G_N_ELEMENTS (slots)));
      if (i % 2 == 0)
        follow (world.a, world.b);
      end_graph (world.pool, graphs[i], world.a);
      for (guint round = 0; round < 50; round++)
        use_slot (&world, slots, G_N_ELEMENTS (slots),
                  (guint) g_random_int_range (0, G_N_ELEMENTS (slots)));
      if (i >= 4)
        release_memory (world.pool, graphs[i - 4]);
    }
  for (guint i = G_N_ELEMENTS (graphs) - 4; i < G_N_ELEMENTS (graphs); i++)
    release_memory (world.pool, graphs[i]);
  for (guint i = 0; i < G_N_ELEMENTS (slots); i++)
    tarn_block_free (slots[i].block);
  world_clear (&world);
}

/* Threads */

typedef struct
{
  World *world;
  TarnMutex lock;
  GHashTable *owners; /* address -> GThread; behind the lock */
} Crew;

static void
own (Crew *crew, const TarnBlock *block, gboolean begins)
{
  gpointer key = GSIZE_TO_POINTER ((gsize) get_address (block));

  _tarn_mutex_lock (&crew->lock);
  if (begins)
    g_assert_true (g_hash_table_insert (crew->owners, key, g_thread_self ()));
  else
    g_assert_true (g_hash_table_remove (crew->owners, key));
  _tarn_mutex_unlock (&crew->lock);
}

static gpointer
capture_in_thread (gpointer data)
{
  Crew *crew = data;
  TarnPool *pool = crew->world->pool;
  CUstream stream;
  CUcontext popped;

  SUCCEED (tarn->cuCtxPushCurrent (crew->world->test->context));
  stream = order_stream_new ();
  for (guint round = 0; round < 10; round++)
    {
      guint64 graph = begin_memory (pool, stream);
      guint64 address = 0;

      SUCCEED (cuda.cuStreamBeginCapture (stream, THREAD_LOCAL_MODE));
      for (guint i = 0; i < 50; i++)
        {
          TarnBlock *blocks[3];

          for (guint j = 0; j < 3; j++)
            {
              blocks[j] = take_block (pool, 1000 << (i + j) % 8, stream);
              own (crew, blocks[j], TRUE);
            }
          if (i == 0)
            address = get_address (blocks[0]);
          for (guint j = 0; j < 3; j++)
            {
              own (crew, blocks[j], FALSE);
              tarn_block_free (blocks[j]);
            }
        }
      end_capture (stream);
      end_memory (pool, graph);
      assert_apart (pool, stream, &address, 1, 1000);
      release_memory (pool, graph);
    }
  order_stream_free (stream);
  SUCCEED (tarn->cuCtxPopCurrent (&popped));
  return NULL;
}

static void
test_threads (const TarnCudaTest *test, gconstpointer way)
{
  GThread *threads[N_THREADS];
  World world;
  Crew crew = { .world = &world };

  world_init (&world, test, GPOINTER_TO_UINT (way));
  _tarn_mutex_init (&crew.lock);
  crew.owners = g_hash_table_new (NULL, NULL);
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("capture", capture_in_thread, &crew);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  g_assert_cmpuint (get_used (world.pool), ==, 0);
  g_hash_table_unref (crew.owners);
  _tarn_mutex_clear (&crew.lock);
  world_clear (&world);
}

/* A thread that ends a graph, and destroys its stream, while another asks the driver about it. */
typedef struct
{
  TarnPool *pool;
  CUstream stream;
  guint64 graph;
  guint n_calls; /* of cuStreamGetCaptureInfo () before the one that asks about the stream */
  GThread *thread;
  TarnMutex lock;
  TarnCond destroyed;
  gboolean is_destroyed; /* behind the lock */
} Ending;

static gpointer
end_in_thread (gpointer data)
{
  Ending *self = data;

  end_memory (self->pool, self->graph);
  release_memory (self->pool, self->graph);
  order_stream_free (self->stream);
  _tarn_mutex_lock (&self->lock);
  self->is_destroyed = TRUE;
  _tarn_cond_broadcast (&self->destroyed);
  _tarn_mutex_unlock (&self->lock);
  return NULL;
}

/* Gives the other thread time to destroy the stream, which it must not do before this call ends. */
static void
end_while_asked (const gchar *function, gpointer data)
{
  Ending *self = data;
  gint64 end = g_get_monotonic_time () + G_TIME_SPAN_SECOND / 10;

  if (strcmp (function, "cuStreamGetCaptureInfo") != 0 || self->thread != NULL
      || self->n_calls-- > 0)
    return;
  self->thread = g_thread_new ("end", end_in_thread, self);
  _tarn_mutex_lock (&self->lock);
  while (!self->is_destroyed && _tarn_cond_wait_until (&self->destroyed, &self->lock, end))
    continue;
  _tarn_mutex_unlock (&self->lock);
}

/* A request asks the driver about streams of other threads, and the stream of a graph stays alive
 * only until its thread has ended the graph: the fake driver ends the test if it is asked about a
 * stream that was destroyed. */
static void
test_asked (const TarnCudaTest *test, gconstpointer unused)
{
  Ending ending = { .n_calls = 1 };
  World world;
  guint64 graph;

  (void) unused;
  world_init (&world, test, WHOLE);
  _tarn_mutex_init (&ending.lock);
  _tarn_cond_init (&ending.destroyed);
  ending.pool = world.pool;
  ending.stream = order_stream_new ();
  ending.graph = begin_memory (world.pool, ending.stream);
  graph = begin_graph (world.pool, world.a);
  fake->set_hook (end_while_asked, &ending);
  tarn_block_free (take_block (world.pool, MIB, world.a));
  fake->set_hook (NULL, NULL);
  g_assert_nonnull (ending.thread);
  g_thread_join (ending.thread);
  end_graph (world.pool, graph, world.a);
  release_memory (world.pool, graph);
  g_assert_cmpuint (get_used (world.pool), ==, 0);
  _tarn_cond_clear (&ending.destroyed);
  _tarn_mutex_clear (&ending.lock);
  world_clear (&world);
}

/* Another thread allocates for the stream that captures, as one that computes gradients does. */
typedef struct
{
  World *world;
  TarnBlock *block;
} Other;

static gpointer
take_in_thread (gpointer data)
{
  Other *other = data;

  other->block = take_block (other->world->pool, MIB, other->world->a);
  return NULL;
}

static void
test_thread (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  Other other = { &world, NULL };
  TarnBlock *block;
  guint64 address, graph;

  (void) unused;
  world_init (&world, test, HEAP);
  graph = begin_graph (world.pool, world.a);
  block = take_block (world.pool, MIB, world.a);
  g_thread_join (g_thread_new ("gradients", take_in_thread, &other));
  address = get_address (other.block);
  g_assert_false (overlap (get_address (block), MIB, address, MIB));
  tarn_block_free (block);
  tarn_block_free (other.block);
  end_graph (world.pool, graph, world.a);
  assert_apart (world.pool, world.a, &address, 1, MIB);
  release_memory (world.pool, graph);
  world_clear (&world);
}

/* A thread captures its own default stream, and another thread allocates first, for a stream that
 * has joined the capture.  Tarn cannot ask for the default stream in the other thread. */
static void
test_thread_default (const TarnCudaTest *test, gconstpointer unused)
{
  World world;
  Other other = { &world, NULL };
  guint64 address, graph;

  (void) unused;
  world_init (&world, test, HEAP);
  SUCCEED (cuda.cuStreamBeginCapture (PER_THREAD, GLOBAL_MODE));
  graph = begin_memory (world.pool, PER_THREAD);
  follow (world.a, PER_THREAD);
  g_thread_join (g_thread_new ("joined", take_in_thread, &other));
  address = get_address (other.block);
  tarn_block_free (other.block);
  follow (PER_THREAD, world.a);
  end_graph (world.pool, graph, PER_THREAD);
  assert_apart (world.pool, world.b, &address, 1, MIB);
  release_memory (world.pool, graph);
  g_assert_cmpuint (get_used (world.pool), ==, 0);
  world_clear (&world);
}

int
main (int argc, char **argv)
{
  order_init (cuda_get_fake ());
  g_test_init (&argc, &argv, NULL);
  add_ways ("meanwhile", test_meanwhile, N_WAYS);
  add_ways ("two", test_two, N_WAYS);
  tarn_cuda_test_add ("graphs/many", test_many, NULL);
  add_ways ("random", test_random, N_WAYS);
  add_ways ("threads", test_threads, N_WAYS);
  tarn_cuda_test_add ("graphs/thread", test_thread, NULL);
  tarn_cuda_test_add ("graphs/thread-default", test_thread_default, NULL);
  if (fake != NULL)
    tarn_cuda_test_add ("graphs/asked", test_asked, NULL);
  return g_test_run ();
}
