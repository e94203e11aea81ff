/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Threads with queues over a heap: arenas of a queue that several threads use, memory that
 * other threads get while the host waits, and blocks that one thread allocates and another one
 * frees. */

#include "queues-fixture.h"

/* Another thread takes memory while the host waits for a queue. */
typedef struct
{
  QueuesFixture *fixture;
  TarnMutex lock;
  TarnCond ended;
  gboolean has_ended;
} Other;

static gpointer
take_beside (gpointer data)
{
  Other *other = data;
  TarnMemory memory;

  if (tarn_allocator_allocate_memory (other->fixture->heap, 40 * MIB, &memory, NULL))
    tarn_allocator_free_memory (other->fixture->heap, memory, 40 * MIB);
  _tarn_mutex_lock (&other->lock);
  other->has_ended = TRUE;
  _tarn_cond_broadcast (&other->ended);
  _tarn_mutex_unlock (&other->lock);
  return NULL;
}

/* Makes the queue wait until another thread has used the heap. */
static void
await_other (gpointer data)
{
  Other *other = data;
  gint64 end = g_get_monotonic_time () + 20 * G_TIME_SPAN_SECOND;

  g_thread_unref (g_thread_new ("other", take_beside, other));
  _tarn_mutex_lock (&other->lock);
  while (!other->has_ended && g_get_monotonic_time () < end)
    {
      _tarn_mutex_unlock (&other->lock);
      g_thread_yield ();
      _tarn_mutex_lock (&other->lock);
    }
  g_assert_true (other->has_ended);
  _tarn_mutex_unlock (&other->lock);
}

/* While the host waits for a queue, which may wait for what other threads do next, these get new
 * pieces. */
static void
wait_alone (QueuesFixture *fixture, void (*act) (QueuesFixture *))
{
  Other other = { .fixture = fixture };

  _tarn_mutex_init (&other.lock);
  _tarn_cond_init (&other.ended);
  queues_put (fixture, queues_take (fixture, 60 * MIB, fixture->first));
  tarn_testing_queues_set_hook (fixture->queues, TARN_TESTING_CALL_HOST_WAIT, await_other, &other);
  act (fixture);
  g_assert_true (other.has_ended);
  _tarn_cond_clear (&other.ended);
  _tarn_mutex_clear (&other.lock);
}

static void
trim (QueuesFixture *fixture)
{
  tarn_pool_free_held (fixture->pool);
}

static void
test_trim_waits_alone (QueuesFixture *fixture, gconstpointer data)
{
  if (!queues_skip_in_order (data))
    wait_alone (fixture, trim);
}

static void
run_short (QueuesFixture *fixture)
{
  tarn_testing_pages_set_budget (fixture->pages, 110 * MIB);
  queues_put (fixture, queues_take (fixture, 90 * MIB, fixture->second));
}

static void
test_grow_waits_alone (QueuesFixture *fixture, gconstpointer data)
{
  if (!queues_skip_in_order (data))
    wait_alone (fixture, run_short);
}

typedef struct
{
  QueuesFixture *fixture;
  gsize size;
  gpointer queue;
} Use;

static gpointer
use_in_thread (gpointer data)
{
  const Use *what = data;

  return queues_take (what->fixture, what->size, what->queue);
}

static guint
count_arenas_with_pieces (const TarnHeapQueue *queue)
{
  guint n = 0;

  for (guint i = 0; i < queue->n_arenas; i++)
    n += queue->arenas[i]->n_pieces > 0;
  return n;
}

/* Two threads use one queue, and each has an arena.  Each may have what the other has freed, and
 * waits for nothing.  A second queue may have it when the commands of the first are done.  When the
 * queue is forgotten, so are both arenas. */
static void
test_several_arenas (QueuesFixture *fixture, gconstpointer data)
{
  const QueuesWay *way = data;
  Use what = { fixture, 20 * MIB, fixture->first };
  TarnBlock *own = queues_take (fixture, 8 * MIB, fixture->first), *other;
  TarnHeapQueue *queue = queues_find (fixture, fixture->first);
  gsize upstream_bytes;
  guint n_waits;
  gpointer next;

  _tarn_heap_lock (queue->heap);
  queue->threads = G_MAXUINT16;
  queue->has_shared_arena = TRUE;
  while (queue->n_arenas < TARN_QUEUE_ARENAS)
    _tarn_queue_add_arenas (queue);
  g_assert_false (queue->has_shared_arena);
  _tarn_heap_unlock (queue->heap);
  other = g_thread_join (g_thread_new ("other", use_in_thread, &what));
  g_assert_cmpuint (count_arenas_with_pieces (queue), ==, 2);
  queues_put (fixture, own);
  queues_put (fixture, other);

  tarn_testing_pages_set_budget (fixture->pages, queues_get_heap_stats (fixture).upstream_bytes);
  n_waits = queues_get_waits (fixture);
  queues_put (fixture,
              queues_take (fixture, 19 * MIB, fixture->first)); /* that is the other thread's */
  g_assert_cmpuint (queues_get_waits (fixture), ==, n_waits);
  queues_put (fixture, queues_take (fixture, 19 * MIB, fixture->second));
  tarn_testing_pages_set_budget (fixture->pages, G_MAXUINT64);
  queues_put (fixture, queues_take (fixture, 19 * MIB, fixture->first));

  tarn_testing_queues_run_all (fixture->queues);
  g_assert_true (tarn_pool_forget_queue (fixture->pool, fixture->first, NULL));
  next = tarn_testing_queue_new (fixture->queues, TRUE);
  upstream_bytes = queues_get_heap_stats (fixture).upstream_bytes;
  queues_put (fixture, queues_take (fixture, 7 * MIB, next));
  if (way->is_virtual) /* else large requests have pieces of their own since memory ran out */
    g_assert_cmpuint (queues_get_heap_stats (fixture).upstream_bytes, ==, upstream_bytes);
}

/* Threads: each has queues of its own, and what one allocates another one frees. */

#define N_THREADS 4
#define N_EXCHANGED 8
#define N_ROUNDS 400

typedef struct
{
  QueuesFixture *fixture;
  TarnMutex lock; /* guards what stands below it */
  TarnBlock *exchanged[N_EXCHANGED];
} Shared;

static gpointer
play (gpointer data)
{
  Shared *shared = data;
  QueuesFixture *fixture = shared->fixture;
  gpointer queue = tarn_testing_queue_new (fixture->queues, TRUE);
  GRand *rand = g_rand_new_with_seed ((guint32) g_random_int ());

  for (guint i = 0; i < N_ROUNDS; i++)
    {
      gsize size = TARN_TESTING_ORDER_GRANULE * (gsize) g_rand_int_range (rand, 1, 40);
      g_autoptr (GError) error = NULL;
      TarnBlock *block = tarn_pool_allocate_ordered (fixture->pool, size, queue, &error);

      if (block != NULL)
        {
          tarn_testing_order_own (fixture->order, tarn_block_get_memory (block), size);
          tarn_testing_order_put (fixture->order, queue, tarn_block_get_memory (block), size,
                                  TARN_TESTING_COMMAND_WRITE, i);
        }
      else
        g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
      tarn_testing_queue_run_one (fixture->queues, queue);
      if (block != NULL)
        {
          guint slot = (guint) g_rand_int_range (rand, 0, N_EXCHANGED);
          TarnBlock *other;

          _tarn_mutex_lock (&shared->lock);
          other = shared->exchanged[slot];
          shared->exchanged[slot] = block;
          _tarn_mutex_unlock (&shared->lock);
          tarn_block_free (other);
        }
      if (i % 100 == 99)
        tarn_pool_free_held (fixture->pool);
    }
  g_rand_free (rand);
  return queue;
}

static void
test_threads (QueuesFixture *fixture, gconstpointer unused)
{
  Shared shared = { .fixture = fixture };
  GThread *threads[N_THREADS];

  (void) unused;
  _tarn_mutex_init (&shared.lock);
  tarn_testing_pages_set_budget (fixture->pages, 32 * MIB);
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("player", play, &shared);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  for (guint i = 0; i < N_EXCHANGED; i++)
    tarn_block_free (shared.exchanged[i]);
  queues_assert_valid (fixture);
  g_assert_null (tarn_testing_queues_steal_fault (fixture->queues));
  _tarn_mutex_clear (&shared.lock);
}

/* Two owners of a block of an arena free it at the same time, each on the queue that it used. */

#define N_SHARED 50

typedef struct
{
  TarnBlock *block;
  gpointer queue;
  gint *n_ready; /* atomic */
} Owner;

static gpointer
free_on_own_queue (gpointer data)
{
  const Owner *owner = data;

  g_atomic_int_inc (owner->n_ready);
  while (g_atomic_int_get (owner->n_ready) < 2)
    g_thread_yield ();
  tarn_block_free_on (owner->block, owner->queue);
  return NULL;
}

static void
test_shared (QueuesFixture *fixture, gconstpointer unused)
{
  (void) unused;
  for (guint i = 0; i < N_SHARED; i++)
    {
      TarnBlock *block = queues_take_unchecked (fixture, i % 2 == 0 ? 5000 : MIB, fixture->first);
      gint n_ready = 0;
      Owner owners[]
          = { { block, fixture->first, &n_ready }, { block, fixture->second, &n_ready } };
      GThread *thread;

      tarn_block_ref (block);
      thread = g_thread_new ("owner", free_on_own_queue, &owners[1]);
      free_on_own_queue (&owners[0]);
      g_thread_join (thread);
      tarn_testing_queues_run_all (fixture->queues);
    }
  queues_assert_valid (fixture);
  g_assert_cmpuint (tarn_pool_get_active_blocks (fixture->pool), ==, 0);
}

/* A heap gives up its lock while it asks about events.  Another thread takes what was free at the
 * end of the reserved addresses.  The heap then has to reckon anew how much is missing. */

typedef struct
{
  TarnAllocator *heap;
  TarnMemory taken;
  gboolean is_done;
} Taker;

#define LAST ((gsize) 32 << 20)

static TarnMemory
take_bytes (TarnAllocator *heap, gsize size)
{
  g_autoptr (GError) error = NULL;
  TarnMemory memory;

  tarn_allocator_allocate_memory (heap, size, &memory, &error);
  g_assert_no_error (error);
  return memory;
}

static void
take_last (gpointer data)
{
  Taker *taker = data;

  if (!taker->is_done)
    taker->taken = take_bytes (taker->heap, LAST);
  taker->is_done = TRUE;
}

static void
test_taken_meanwhile (void)
{
  TarnTestingOrder *order
      = tarn_testing_order_new ((guint64) 4 << 30, TARN_TESTING_PAGES_VIRTUAL, 0);
  TarnTestingQueues *queues = tarn_testing_order_get_queues (order);
  TarnAllocator *allocator = tarn_testing_order_allocator_new (order);
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  gpointer queue = tarn_testing_queue_new (queues, TRUE);
  TarnMemory blocks[4];
  Taker taker = { .taken = { .address = 0 } };
  TarnBlock *block;
  TarnPool *pool;

  options.growth_bytes = (gsize) 2 << 20;
  tarn_testing_pages_set_max_addresses (tarn_testing_order_get_pages (order), 8 * LAST);
  taker.heap = tarn_heap_allocator_new (allocator, &options, NULL);
  pool = tarn_pool_new (taker.heap, NULL, NULL);
  tarn_pool_stop_holding (pool);
  block = tarn_pool_allocate_ordered (pool, (gsize) 40 << 20, queue, NULL);
  tarn_testing_order_put (order, queue, tarn_block_get_memory (block), (gsize) 40 << 20,
                          TARN_TESTING_COMMAND_USE, 0);
  tarn_block_free (block);
  for (guint i = 0; i < 3; i++)
    blocks[i] = take_bytes (taker.heap, 2 * LAST);
  tarn_allocator_free_memory (taker.heap, take_bytes (taker.heap, LAST), LAST);
  tarn_testing_queues_set_hook (queues, TARN_TESTING_CALL_EVENT_IS_DONE, take_last, &taker);
  blocks[3] = take_bytes (taker.heap, 2 * LAST);
  g_assert_true (taker.is_done);

  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    tarn_allocator_free_memory (taker.heap, blocks[i], 2 * LAST);
  tarn_allocator_free_memory (taker.heap, taker.taken, LAST);
  tarn_testing_queues_run_all (queues);
  tarn_pool_unref (pool);
  tarn_allocator_unref (taker.heap);
  tarn_allocator_unref (allocator);
  tarn_testing_order_free (order);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  queues_add ("trim-waits-alone", test_trim_waits_alone);
  queues_add ("grow-waits-alone", test_grow_waits_alone);
  queues_add ("several-arenas", test_several_arenas);
  queues_add ("threads", test_threads);
  queues_add ("shared", test_shared);
  g_test_add_func ("/core/heap/queues/taken-meanwhile", test_taken_meanwhile);
  return g_test_run ();
}
