/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What a queue has of a heap: handed to it again without a call, and to others when it is done. */

#include <tarn/debug.h>
#include <tarn/testing.h>

#include "heap-fixture.h"
#include "lib/pool-fixture.h"
#include "lib/step.h"
#include "pool/pool-private.h"

/* A pool remembers the first number of queues, and forgets some of the second. */
#define N_REMEMBERED 64
#define N_MANY 200

typedef struct
{
  TarnTestingOrder *order;
  TarnTestingQueues *queues;
  TarnTestingPages *pages;
  TarnAllocator *heap;
  TarnPool *pool;
  gpointer first, second;
} Fixture;

typedef struct
{
  gboolean is_virtual;
  guint flags;
} Way;

static void
assert_heap_valid (gpointer heap)
{
  _tarn_heap_lock (heap);
  _tarn_heap_assert_valid (heap);
  _tarn_heap_unlock (heap);
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  const Way *way = data;
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  g_autoptr (TarnAllocator) upstream = NULL;

  fixture->order = tarn_testing_order_new (G_MAXUINT64, way->is_virtual, way->flags);
  fixture->queues = tarn_testing_order_get_queues (fixture->order);
  fixture->pages = tarn_testing_order_get_pages (fixture->order);
  upstream = tarn_testing_order_allocator_new (fixture->order);
  options.alignment = TARN_TESTING_ORDER_GRANULE;
  fixture->heap = tarn_heap_allocator_new (upstream, &options, NULL);
  /* Others have the lock while the heap calls upstream. */
  tarn_testing_pages_set_hook (fixture->pages, assert_heap_valid, _tarn_heap_of (fixture->heap));
  fixture->pool = tarn_pool_new (fixture->heap, NULL, NULL);
  fixture->first = tarn_testing_queue_new (fixture->queues, TRUE);
  fixture->second = tarn_testing_queue_new (fixture->queues, TRUE);
}

static void
tear_down (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  g_clear_pointer (&fixture->pool, tarn_pool_unref);
  tarn_allocator_unref (fixture->heap);
  tarn_testing_queues_run_all (fixture->queues);
  tarn_testing_order_free (fixture->order);
}

static void
assert_all_valid (Fixture *fixture)
{
  assert_valid (fixture->pool);
  assert_heap_valid (fixture->heap);
}

/* A block with a command on it; NULL: that the host uses. */
static TarnBlock *
use_unchecked (Fixture *fixture, gsize size, gpointer queue)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_pool_allocate_ordered (fixture->pool, size, queue, &error);

  g_assert_no_error (error);
  tarn_testing_order_own (fixture->order, tarn_block_get_memory (block), size);
  if (queue != NULL)
    tarn_testing_order_put (fixture->order, queue, tarn_block_get_memory (block), size,
                            TARN_TESTING_COMMAND_WRITE, 1);
  else
    tarn_testing_order_touch (fixture->order, tarn_block_get_memory (block), size);
  return block;
}

static TarnBlock *
use (Fixture *fixture, gsize size, gpointer queue)
{
  TarnBlock *block = use_unchecked (fixture, size, queue);

  assert_all_valid (fixture);
  return block;
}

static void
end (Fixture *fixture, TarnBlock *block)
{
  tarn_block_free (block);
  assert_all_valid (fixture);
}

static TarnHeapStats
get_heap_stats (Fixture *fixture)
{
  TarnHeapStats stats = TARN_HEAP_STATS_INIT;

  g_assert_true (tarn_heap_get_stats (fixture->heap, &stats));
  return stats;
}

/* Those that order something, but for marks of what is idle. */
static guint
get_calls (Fixture *fixture)
{
  return tarn_testing_queues_get_calls (fixture->queues, TARN_TESTING_CALL_EVENT_WAIT)
         + tarn_testing_queues_get_calls (fixture->queues, TARN_TESTING_CALL_HOST_WAIT);
}

static TarnHeapQueue *
get_queue (Fixture *fixture, gpointer handle)
{
  return g_hash_table_lookup (_tarn_heap_of (fixture->heap)->queues, handle);
}

/* Memory goes back without a wait: then nothing has to stay where it is. */
static gboolean
is_freed_in_order (const Way *way)
{
  if ((way->flags & TARN_TESTING_QUEUES_FREES_IN_ORDER) != 0)
    g_test_skip ("what is freed may still be used");
  return (way->flags & TARN_TESTING_QUEUES_FREES_IN_ORDER) != 0;
}

/* Sizes that never come again are no reason to take memory for ever, nor to call the driver: what
 * a queue has freed it has again in any size, although nothing it was given has run. */
static void
test_any_size (Fixture *fixture, gconstpointer unused)
{
  guint calls;

  (void) unused;
  for (guint i = 0; i < 40; i++)
    end (fixture, use (fixture, MIB + i * TARN_TESTING_ORDER_GRANULE, fixture->first));
  calls = get_calls (fixture);
  for (guint i = 0; i < 400; i++)
    end (fixture, use (fixture, 4 * MIB - i * TARN_TESTING_ORDER_GRANULE / 8, fixture->first));
  g_assert_cmpuint (get_stats (fixture->pool).managed_bytes, <=, 16 * MIB);
  g_assert_cmpuint (get_heap_stats (fixture).upstream_bytes, <=, 24 * MIB);
  g_assert_cmpuint (get_calls (fixture) - calls, <=, 2);
  g_assert_cmpuint (tarn_testing_queue_get_pending (fixture->queues, fixture->first), >=, 440);
}

/* Names a queue, until a call does so that calls the driver for what its queue has freed. */
static void
name_queue (Fixture *fixture, gpointer queue)
{
  for (guint i = 0; i < 2 * 256; i++)
    tarn_block_free (tarn_pool_allocate_ordered (fixture->pool, MIB, queue, NULL));
}

/* A block is its queue's, wherever its memory is from. */
static void
test_named (Fixture *fixture, gconstpointer unused)
{
  const gpointer queues[] = { fixture->first, NULL, fixture->second };

  (void) unused;
  for (guint i = 0; i < 30; i++)
    {
      TarnBlock *block = use (fixture, 1000 << i % 8, queues[i % 3]);

      g_assert_true (tarn_block_get_queue (block) == queues[i % 3]);
      if (i % 3 == 0 && i > 10)
        {
          g_assert_true (tarn_block_record_use (block, fixture->second, NULL));
          g_assert_true (tarn_block_get_queue (block) == fixture->first);
        }
      end (fixture, block);
    }
}

/* What another queue has freed is taken when that has done its work, and not before. */
static void
test_moves (Fixture *fixture, gconstpointer data)
{
  TarnHeapStats before;

  if (is_freed_in_order (data))
    return;
  for (guint i = 0; i < 2; i++)
    end (fixture, use (fixture, 300 * MIB, fixture->first));
  tarn_block_free (use (fixture, 300 * MIB, fixture->second));
  before = get_heap_stats (fixture);
  g_assert_cmpuint (before.moves, ==, 0);
  g_assert_cmpuint (before.upstream_bytes, >=, 600 * MIB);
  tarn_pool_free_held (fixture->pool); /* and so the host waits */
  g_assert_cmpuint (get_heap_stats (fixture).upstream_bytes, ==, 0);

  end (fixture, use (fixture, 300 * MIB, fixture->first));
  tarn_testing_queues_run_all (fixture->queues);
  name_queue (fixture, fixture->first);
  tarn_testing_queues_run_all (fixture->queues);
  tarn_block_free (use (fixture, 300 * MIB, fixture->second));
  g_assert_cmpuint (get_heap_stats (fixture).moves, >, 0);
  g_assert_cmpuint (get_heap_stats (fixture).upstream_bytes, <, 500 * MIB);
}

/* Memory that a queue has freed serves its next request at once, wherever that is: commands that
 * use it are still to run.  It stays where they use it until they have.  Returns the old address.
 */
static TarnMemory
move_early (Fixture *fixture, TarnBlock **moved)
{
  TarnBlock *block = use (fixture, 100 * MIB, fixture->first);
  TarnMemory memory = tarn_block_get_memory (block);
  TarnBlock *between = use (fixture, MIB, fixture->first);

  end (fixture, block);
  *moved = use (fixture, 150 * MIB, fixture->first);
  end (fixture, between);
  return memory;
}

static void
test_moves_early (Fixture *fixture, gconstpointer data)
{
  TarnTestingPages *pages = tarn_testing_order_get_pages (fixture->order);
  TarnMemory memory;
  TarnBlock *block;
  TarnHeapStats stats;

  if (!((const Way *) data)->is_virtual)
    {
      g_test_skip ("parts do not move");
      return;
    }
  memory = move_early (fixture, &block);
  stats = get_heap_stats (fixture);
  g_assert_cmpuint (stats.moves, >=, 3); /* pieces of 16 or 32 MiB */
  g_assert_cmpuint (stats.upstream_bytes, <=, 165 * MIB);
  g_assert_cmpuint (tarn_testing_queues_get_calls (fixture->queues, TARN_TESTING_CALL_EVENT_WAIT),
                    ==, 0);
  g_assert_true (tarn_testing_pages_is_usable (pages, memory, 64 * MIB));
  end (fixture, block);

  /* Others wait for both. */
  end (fixture, use (fixture, 100 * MIB, fixture->second));
  g_assert_cmpuint (get_heap_stats (fixture).moves, ==, stats.moves);
  tarn_testing_queues_run_all (fixture->queues);
  name_queue (fixture, fixture->first);
  tarn_testing_queues_run_all (fixture->queues);
  end (fixture, use (fixture, 300 * MIB, fixture->second));
  g_assert_cmpuint (get_heap_stats (fixture).moves, >, stats.moves);
  g_assert_false (tarn_testing_pages_is_usable (pages, memory, 64 * MIB));
}

static gint64
get_later_time (void)
{
  return g_get_monotonic_time () + 2 * G_TIME_SPAN_SECOND;
}

/* The number by which a program learns that memory went is the same as long as memory that has
 * moved can be used at its old address as well, and another one once it cannot. */
static void
test_moved_generation (Fixture *fixture, gconstpointer data)
{
  guint64 generation = tarn_pool_get_generation (fixture->pool);
  TarnMemory memory;
  TarnBlock *block;
  TarnHeapStats stats;

  if (!((const Way *) data)->is_virtual)
    {
      g_test_skip ("parts do not move");
      return;
    }
  memory = move_early (fixture, &block);
  stats = get_heap_stats (fixture);
  g_assert_cmpuint (stats.moves, >=, 3);
  g_assert_true (tarn_testing_pages_is_usable (fixture->pages, memory, 64 * MIB));
  g_assert_cmpuint (tarn_pool_get_generation (fixture->pool), ==, generation);

  end (fixture, block);
  name_queue (fixture, fixture->first);
  tarn_testing_queues_run_all (fixture->queues);
  tarn_clock_set (get_later_time); /* when the heap looks for what has been idle for long */
  name_queue (fixture, fixture->first);
  tarn_clock_set (NULL);
  g_assert_cmpuint (get_heap_stats (fixture).moves, ==, stats.moves);
  g_assert_cmpuint (get_heap_stats (fixture).upstream_frees, ==, 0);
  g_assert_false (tarn_testing_pages_is_usable (fixture->pages, memory, 64 * MIB));
  g_assert_cmpuint (tarn_pool_get_generation (fixture->pool), !=, generation);
}

/* Addresses that memory has moved away from go back, however often it moves. */
static void
test_moves_on (Fixture *fixture, gconstpointer data)
{
  TarnTestingPages *pages = tarn_testing_order_get_pages (fixture->order);
  guint64 moves = 0;

  if (!((const Way *) data)->is_virtual)
    {
      g_test_skip ("parts do not move");
      return;
    }
  tarn_testing_pages_set_max_addresses (pages, 400 * MIB);
  for (guint i = 0; i < 40; i++)
    {
      TarnBlock *block = use (fixture, 100 * MIB, fixture->first), *between, *moved;

      between = use (fixture, (12 + i) * MIB, fixture->first); /* a size that no gap has */
      end (fixture, block);
      moved = use (fixture, (150 + i) * MIB, fixture->first);
      end (fixture, between);
      end (fixture, moved);
      tarn_testing_queues_run_all (fixture->queues);
    }
  moves = get_heap_stats (fixture).moves;
  g_assert_cmpuint (moves, >=, 60);
  g_test_message ("%u reservations", tarn_testing_pages_get_reserved (pages));
  g_assert_cmpuint (tarn_testing_pages_get_reserved (pages), <=, 8);
}

/* A driver that cannot have memory at two addresses is asked for that once. */
static void
test_moves_refused (Fixture *fixture, gconstpointer data)
{
  TarnTestingPages *pages = tarn_testing_order_get_pages (fixture->order);
  TarnBlock *block;
  guint calls;

  if (!((const Way *) data)->is_virtual)
    {
      g_test_skip ("parts do not move");
      return;
    }
  tarn_testing_pages_refuse_aliases (pages);
  move_early (fixture, &block);
  g_assert_cmpuint (get_heap_stats (fixture).moves, ==, 0);
  end (fixture, block);
  calls = tarn_testing_pages_get_calls (pages);
  block = use (fixture, 200 * MIB, fixture->first);
  g_assert_cmpuint (tarn_testing_pages_get_calls (pages) - calls, <=, 2 * (200 / 32 + 1));
  end (fixture, block);
  assert_all_valid (fixture);
}

/* A request that names a queue is the occasion to record an event for what it has freed, and a free
 * calls the driver for nothing, as its queue may be capturing. */
static void
test_marked (Fixture *fixture, gconstpointer data)
{
  TarnBlock *block;
  guint64 n_begun;
  guint calls;

  if (is_freed_in_order (data))
    return;
  block = use (fixture, 20 * MIB, fixture->first);
  calls = tarn_testing_queues_get_calls (fixture->queues, TARN_TESTING_CALL_ANY);
  end (fixture, block);
  g_assert_cmpuint (tarn_testing_queues_get_calls (fixture->queues, TARN_TESTING_CALL_ANY), ==,
                    calls);
  g_assert_cmpuint (
      tarn_testing_queues_get_calls (fixture->queues, TARN_TESTING_CALL_EVENT_IS_DONE), ==, 0);
  n_begun = get_queue (fixture, fixture->first)->n_begun;
  for (guint i = 0; i < 16; i++)
    end (fixture, use (fixture, 32 * KIB, fixture->first));
  g_assert_cmpuint (get_queue (fixture, fixture->first)->n_begun, >, n_begun);
}

/* Where there is no more memory the host waits for another queue, as often as it takes. */
static void
test_out_of_memory (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *small;

  (void) unused;
  tarn_testing_pages_set_budget (fixture->pages, 64 * MIB);
  end (fixture, use (fixture, 60 * MIB, fixture->first));
  end (fixture, use (fixture, 60 * MIB, fixture->second));
  small = use (fixture, TARN_TESTING_ORDER_GRANULE, fixture->second);
  end (fixture, use (fixture, 50 * MIB, fixture->first));
  end (fixture, use (fixture, 50 * MIB, NULL));
  end (fixture, small);
  g_assert_cmpuint (get_heap_stats (fixture).peak_upstream_bytes, <=, 64 * MIB);
}

/* What the time is where a test sets it. */
static gint64 test_time = G_TIME_SPAN_SECOND;

static gint64
get_test_time (void)
{
  return test_time;
}

/* Eleven seconds pass. */
static void
age (void)
{
  test_time += 11 * G_TIME_SPAN_SECOND;
}

/* What several queues have used goes back after seconds as well, though some of it is in use for
 * long: the driver is asked about what was freed first. */
static void
test_shared_expires (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[3];

  (void) unused;
  tarn_clock_set (get_test_time);
  for (guint i = 0; i < 3; i++)
    {
      blocks[i] = use (fixture, 2 * MIB, fixture->first);
      g_assert_true (tarn_block_record_use (blocks[i], fixture->second, NULL));
    }
  for (guint i = 0; i < 3; i++)
    {
      end (fixture, blocks[i]);
      if (i == 1)
        tarn_testing_queues_run_all (fixture->queues);
      tarn_testing_order_put (fixture->order, fixture->first, tarn_block_get_memory (blocks[2]),
                              MIB, TARN_TESTING_COMMAND_USE, 0);
    }
  for (guint i = 0; i < 4; i++)
    {
      age ();
      end (fixture, use (fixture, (6 + i) * MIB, NULL));
      name_queue (fixture, NULL); /* one of so many requests looks after the pool */
    }
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), >=, 1);
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), <=,
                    2); /* one that this thread keeps */
  tarn_testing_queues_run_all (fixture->queues);
  for (guint i = 0; i < 4; i++)
    {
      age ();
      end (fixture, use (fixture, (6 + i) * MIB, NULL));
      name_queue (fixture, NULL); /* one of so many requests looks after the pool */
    }
  /* That one, and of parts the one that it kept when somebody looked last. */
  g_assert_cmpuint (tarn_pool_get_held_blocks (fixture->pool), <=,
                    fixture->pool->policy.has_addresses ? 1 : 2);
  tarn_clock_set (NULL);
}

/* Another thread takes memory while the host waits for a queue. */
typedef struct
{
  Fixture *fixture;
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

/* What the queue waits for. */
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
wait_alone (Fixture *fixture, void (*act) (Fixture *))
{
  Other other = { .fixture = fixture };

  _tarn_mutex_init (&other.lock);
  _tarn_cond_init (&other.ended);
  end (fixture, use (fixture, 60 * MIB, fixture->first));
  tarn_testing_queues_set_hook (fixture->queues, TARN_TESTING_CALL_HOST_WAIT, await_other, &other);
  act (fixture);
  g_assert_true (other.has_ended);
  _tarn_cond_clear (&other.ended);
  _tarn_mutex_clear (&other.lock);
}

static void
trim (Fixture *fixture)
{
  tarn_pool_free_held (fixture->pool);
}

static void
test_trim_waits_alone (Fixture *fixture, gconstpointer data)
{
  if (!is_freed_in_order (data))
    wait_alone (fixture, trim);
}

static void
run_short (Fixture *fixture)
{
  tarn_testing_pages_set_budget (fixture->pages, 110 * MIB);
  end (fixture, use (fixture, 90 * MIB, fixture->second));
}

static void
test_grow_waits_alone (Fixture *fixture, gconstpointer data)
{
  if (!is_freed_in_order (data))
    wait_alone (fixture, run_short);
}

/* Memory that a pool below hands on, and that a queue makes ready, is ready. */
static void
test_ready (Fixture *fixture, gconstpointer data)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  g_autoptr (TarnAllocator) heap = NULL;
  TarnMemory memory;
  TarnPool *lower;

  if (((const Way *) data)->is_virtual)
    {
      g_test_skip ("a pool has no virtual memory");
      return;
    }
  lower = tarn_pool_new (_tarn_heap_of (fixture->heap)->upstream, NULL, NULL);
  options.alignment = TARN_TESTING_ORDER_GRANULE;
  heap = tarn_heap_allocator_new (TARN_ALLOCATOR (lower), &options, NULL);
  tarn_testing_queues_set_fresh (fixture->queues, fixture->first);
  g_assert_true (tarn_allocator_allocate_memory (heap, MIB, &memory, NULL));
  g_assert_cmpuint (tarn_testing_queues_get_calls (fixture->queues, TARN_TESTING_CALL_HOST_WAIT),
                    ==, 1);
  tarn_allocator_free_memory (heap, memory, MIB);
  g_clear_pointer (&heap, tarn_allocator_unref);
  tarn_pool_unref (lower);
  tarn_testing_queues_set_fresh (fixture->queues, NULL);
}

/* Makes requests that fail, because nobody can wait until their memory is ready.  Gets how many
 * times the driver allocated memory for them. */
static guint
fail_to_be_ready (Fixture *fixture, TarnTestingCall call, guint n_requests)
{
  gsize before = tarn_testing_pages_get_used_bytes (fixture->pages);

  tarn_testing_queues_fail (fixture->queues, call, 1, TRUE);
  for (guint i = 0; i < n_requests; i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_null (tarn_pool_allocate_ordered (fixture->pool, 2 * MIB, fixture->second, &error));
      g_assert_error (error, TARN_ERROR, TARN_ERROR_FAILED);
      assert_all_valid (fixture);
    }
  tarn_testing_queues_fail (fixture->queues, call, 0, FALSE);
  g_assert_null (tarn_testing_queues_steal_fault (fixture->queues));
  return (guint) ((tarn_testing_pages_get_used_bytes (fixture->pages) - before) / (2 * MIB));
}

/* Tells whether memory can always be freed at once: virtual memory is ready without a command, and
 * some backends free in order. */
static gboolean
is_always_ready (const Way *way)
{
  if (way->is_virtual)
    g_test_skip ("no queue makes virtual memory ready");
  return way->is_virtual || is_freed_in_order (way);
}

/* A heap keeps memory that a queue may not have made ready yet, and asks for no more, however often
 * a request fails because nobody can wait for the queue.  Others get the memory once it is ready.
 */
static void
test_unready (Fixture *fixture, gconstpointer data)
{
  const TarnTestingCall calls[] = { TARN_TESTING_CALL_HOST_WAIT, TARN_TESTING_CALL_EVENT_RECORD };
  gpointer fresh = tarn_testing_queue_new (fixture->queues, TRUE);
  gboolean records_all = (((const Way *) data)->flags & TARN_TESTING_QUEUES_RECORDS_ALL) != 0;

  if (is_always_ready (data))
    return;
  end (fixture, use (fixture, 2 * MIB, fixture->second)); /* both queues are known */
  tarn_testing_queues_set_fresh (fixture->queues, fresh);
  for (guint i = 0; i < (records_all ? 1 : G_N_ELEMENTS (calls)); i++)
    {
      TarnBlock *busy = use (fixture, 2 * MIB, fixture->second), *block;

      g_assert_cmpuint (fail_to_be_ready (fixture, calls[i], 10), ==, 1);
      block = use (fixture, 2 * MIB, fixture->second);
      end (fixture, use (fixture, 2 * MIB, fixture->second));
      end (fixture, block);
      end (fixture, busy);
      tarn_pool_free_held (fixture->pool);
      g_assert_cmpuint (tarn_testing_pages_get_used_bytes (fixture->pages), ==, 0);
    }
  tarn_testing_queues_set_fresh (fixture->queues, NULL);
}

/* A request of the backend itself fails, because its queue cannot be referenced.  No block may be
 * freed then while the queue makes it ready. */
static void
test_unready_block (Fixture *fixture, gconstpointer data)
{
  TarnAllocator *upstream = _tarn_heap_of (fixture->heap)->upstream;
  g_autoptr (GError) error = NULL;

  if (is_always_ready (data))
    return;
  tarn_testing_queues_set_fresh (fixture->queues, fixture->first);
  tarn_testing_queues_fail (fixture->queues, TARN_TESTING_CALL_QUEUE_REF, 1, FALSE);
  g_assert_null (tarn_allocator_allocate (upstream, MIB, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_FAILED);
  g_assert_null (tarn_testing_queues_steal_fault (fixture->queues));
  g_assert_cmpuint (tarn_testing_pages_get_used_bytes (fixture->pages), ==, 0);

  tarn_testing_pages_set_budget (fixture->pages, get_heap_stats (fixture).upstream_bytes);
  g_assert_null (tarn_allocator_allocate (upstream, MIB, NULL));
  g_assert_cmpuint (tarn_testing_queues_get_refs (fixture->queues), ==, 0);
  tarn_testing_queues_set_fresh (fixture->queues, NULL);
}

/* What lies between blocks of another queue is had as well, and goes back there. */
static void
test_between (Fixture *fixture, gconstpointer unused)
{
  TarnBlock *blocks[8], *other;

  (void) unused;
  tarn_testing_pages_set_budget (fixture->pages, 16 * MIB);
  end (fixture, use (fixture, 16 * MIB, fixture->first)); /* one piece */
  for (guint i = 0; i < 8; i++)
    blocks[i] = use (fixture, 2 * MIB - TARN_TESTING_ORDER_GRANULE, fixture->first);
  for (guint i = 0; i < 8; i += 2)
    end (fixture, g_steal_pointer (&blocks[i]));
  other = use (fixture, MIB, fixture->second);
  g_assert_cmpuint (get_queue (fixture, fixture->first)->arenas[0]->n_used, >=,
                    5); /* what is held as well */
  end (fixture, other);
  for (guint i = 1; i < 8; i += 2)
    end (fixture, blocks[i]);
  tarn_pool_free_held (fixture->pool);
  g_assert_cmpuint (get_heap_stats (fixture).used_bytes, ==, 0);
}

/* A queue that captures cannot be asked: what it has stays, and others do without. */
static void
test_capture (Fixture *fixture, gconstpointer data)
{
  g_autoptr (GError) error = NULL;

  if (is_freed_in_order (data))
    return;
  tarn_testing_pages_set_budget (fixture->pages, 64 * MIB);
  end (fixture, use (fixture, 60 * MIB, fixture->first));
  tarn_testing_queue_set_capturing (fixture->queues, fixture->first, TRUE);
  g_assert_null (tarn_pool_allocate_ordered (fixture->pool, 60 * MIB, fixture->second, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
  assert_all_valid (fixture);
  tarn_testing_queue_set_capturing (fixture->queues, fixture->first, FALSE);
  end (fixture, use (fixture, 60 * MIB, fixture->second));
}

/* Runs a task on a queue of its own, which stays. */
static gpointer
run_task (Fixture *fixture, guint i)
{
  gpointer queue = tarn_testing_queue_new (fixture->queues, TRUE);
  TarnBlock *blocks[4];

  for (guint j = 0; j < G_N_ELEMENTS (blocks); j++)
    blocks[j] = use_unchecked (fixture, (1 + j) * MIB + i * TARN_TESTING_ORDER_GRANULE / 16, queue);
  for (guint j = 0; j < G_N_ELEMENTS (blocks); j++)
    tarn_block_free (blocks[j]);
  tarn_testing_queues_run_all (fixture->queues);
  assert_all_valid (fixture);
  return queue;
}

/* A program that makes a queue for each task, which it forgets, has one task's memory: the next
 * takes it over as it is. */
static void
test_task_after_task (Fixture *fixture, gconstpointer unused)
{
  guint allocations = 0;

  (void) unused;
  for (guint i = 0; i < 300; i++)
    {
      gpointer queue = run_task (fixture, i);

      g_assert_true (tarn_pool_forget_queue (fixture->pool, queue, NULL));
      tarn_testing_queue_destroy (fixture->queues, queue);
      assert_all_valid (fixture);
      if (i == 30)
        allocations = tarn_testing_pages_get_allocations (fixture->pages);
    }
  g_assert_cmpuint (tarn_testing_pages_get_allocations (fixture->pages), <=, allocations + 2);
  g_assert_cmpuint (get_heap_stats (fixture).upstream_bytes, <=, 80 * MIB);
  g_assert_cmpuint (_tarn_heap_of (fixture->heap)->all_queues.length, <=, 8);
}

/* Where queues are kept alive, one that is never forgotten is not kept for ever. */
static void
test_never_forgotten (Fixture *fixture, gconstpointer data)
{
  const Way *way = data;

  if ((way->flags & TARN_TESTING_QUEUES_RECORDS_ALL) != 0)
    {
      g_test_skip ("such queues have to be forgotten");
      return;
    }
  for (guint i = 0; i < 300; i++)
    {
      gpointer queue = run_task (fixture, i);

      tarn_testing_queue_destroy (fixture->queues, queue);
    }
  g_assert_cmpuint (get_heap_stats (fixture).upstream_bytes, <=, 400 * MIB);
  g_assert_cmpuint (tarn_testing_queues_get_refs (fixture->queues), <=, 80);
  g_assert_cmpuint (_tarn_heap_of (fixture->heap)->all_queues.length, <=, 40);
}

/* A block of each of many queues, some of which stay in use meanwhile. */
static void
use_each (Fixture *fixture, gpointer *queues, guint n)
{
  TarnBlock *blocks[N_MANY];

  for (guint i = 0; i < n; i++)
    blocks[i] = tarn_pool_allocate_ordered (fixture->pool, 256 * KIB, queues[i], NULL);
  assert_all_valid (fixture);
  for (guint i = 0; i < n; i++)
    tarn_block_free (blocks[i]);
  assert_all_valid (fixture);
}

/* With tens of queues a thread takes no lock for memory of each.  With more queues than a pool
 * remembers it takes the lock, and is served. */
static void
test_many (Fixture *fixture, gconstpointer unused)
{
  gpointer queues[N_MANY];
  guint64 n_with_lock;

  (void) unused;
  if (!fixture->pool->has_arenas)
    {
      g_test_skip ("this heap makes parts one by one");
      return;
    }
  for (guint i = 0; i < N_MANY; i++)
    queues[i] = tarn_testing_queue_new (fixture->queues, TRUE);
  use_each (fixture, queues, N_REMEMBERED);
  n_with_lock = fixture->pool->stats.hits + fixture->pool->stats.misses;
  g_assert_cmpuint (n_with_lock, >=, N_REMEMBERED);
  for (guint round = 0; round < 3; round++)
    use_each (fixture, queues, N_REMEMBERED);
  g_assert_cmpuint (fixture->pool->stats.hits + fixture->pool->stats.misses, ==, n_with_lock);

  for (guint round = 0; round < 3; round++)
    use_each (fixture, queues, N_MANY);
  g_assert_cmpuint (fixture->pool->met.n, <, N_MANY);
  g_assert_cmpuint (fixture->pool->met.n, >=, N_REMEMBERED / 2);
  tarn_testing_queues_run_all (fixture->queues);
  tarn_pool_free_held (fixture->pool);
  g_assert_cmpuint (get_heap_stats (fixture).used_bytes, ==, 0);
}

/* Queues in turn, of which each has ever other blocks: memory moves between them at first, and not
 * again and again. */
static void
test_turns (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (1);
  TarnBlock *blocks[64] = { NULL };
  gpointer queues[8];
  guint64 moves = 0;

  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (queues); i++)
    queues[i] = tarn_testing_queue_new (fixture->queues, TRUE);
  for (guint i = 0; i < 40000; i++)
    {
      TarnBlock **block = &blocks[i % G_N_ELEMENTS (blocks)];
      gsize size = (gsize) 256 << g_rand_int_range (random, 0, 14);

      tarn_block_free (*block);
      size += (gsize) g_rand_int_range (random, 0, (gint32) size);
      *block = tarn_pool_allocate_ordered (fixture->pool, size,
                                           queues[g_rand_int_range (random, 0, 8)], NULL);
      if (i % 64 == 0)
        tarn_testing_queues_run_all (fixture->queues);
      if (i == 20000)
        moves = get_heap_stats (fixture).moves;
    }
  g_test_message ("%" G_GUINT64_FORMAT " moves, then %" G_GUINT64_FORMAT, moves,
                  get_heap_stats (fixture).moves - moves);
  g_assert_cmpuint (get_heap_stats (fixture).moves - moves, <=, 100);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    tarn_block_free (blocks[i]);
}

/* Blocks of ever other sizes, one after the other, have the memory of few, although two pools hold
 * some in turn; one takes the locks for each, as where parts are made one by one. */
static void
test_one_after_another (Fixture *fixture, gconstpointer unused)
{
  TarnPool *locking = tarn_pool_new (fixture->heap, NULL, NULL);

  (void) unused;
  locking->has_arenas = FALSE;
  for (guint i = 0; i < 1000; i++)
    tarn_block_free (tarn_pool_allocate_ordered (i % 2 == 0 ? fixture->pool : locking,
                                                 MIB - i * TARN_TESTING_ORDER_GRANULE / 64,
                                                 fixture->first, NULL));
  assert_all_valid (fixture);
  assert_valid (locking);
  g_assert_cmpuint (get_heap_stats (fixture).peak_upstream_bytes, <=, 32 * MIB);
  tarn_pool_unref (locking);
}

typedef struct
{
  Fixture *fixture;
  gsize size;
  gpointer queue;
} Use;

static gpointer
use_in_thread (gpointer data)
{
  const Use *what = data;

  return use (what->fixture, what->size, what->queue);
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
test_several_arenas (Fixture *fixture, gconstpointer data)
{
  const Way *way = data;
  Use what = { fixture, 20 * MIB, fixture->first };
  TarnBlock *own = use (fixture, 8 * MIB, fixture->first), *other;
  TarnHeapQueue *queue = get_queue (fixture, fixture->first);
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
  end (fixture, own);
  end (fixture, other);

  tarn_testing_pages_set_budget (fixture->pages, get_heap_stats (fixture).upstream_bytes);
  n_waits = get_calls (fixture);
  end (fixture, use (fixture, 19 * MIB, fixture->first)); /* that is the other thread's */
  g_assert_cmpuint (get_calls (fixture), ==, n_waits);
  end (fixture, use (fixture, 19 * MIB, fixture->second));
  tarn_testing_pages_set_budget (fixture->pages, G_MAXUINT64);
  end (fixture, use (fixture, 19 * MIB, fixture->first));

  tarn_testing_queues_run_all (fixture->queues);
  g_assert_true (tarn_pool_forget_queue (fixture->pool, fixture->first, NULL));
  next = tarn_testing_queue_new (fixture->queues, TRUE);
  upstream_bytes = get_heap_stats (fixture).upstream_bytes;
  end (fixture, use (fixture, 7 * MIB, next));
  if (way->is_virtual) /* else large requests have pieces of their own since memory ran out */
    g_assert_cmpuint (get_heap_stats (fixture).upstream_bytes, ==, upstream_bytes);
}

/* A queue with the handle of one that was forgotten has none of its memory before that is done. */
static void
test_same_handle (Fixture *fixture, gconstpointer unused)
{
  gpointer queue = tarn_testing_queue_new (fixture->queues, TRUE), next;

  (void) unused;
  end (fixture, use (fixture, 20 * MIB, queue));
  g_assert_true (tarn_pool_forget_queue (fixture->pool, queue, NULL));
  tarn_testing_queue_destroy (fixture->queues, queue);
  next = tarn_testing_queue_new (fixture->queues, TRUE);
  end (fixture, use (fixture, 20 * MIB, next));
  end (fixture, use (fixture, 10 * MIB, next));
}

/* A queue that one pool over the heap has forgotten may go on with the memory of another one. */
static void
test_two_pools (Fixture *fixture, gconstpointer unused)
{
  TarnPool *forgetting = tarn_pool_new (fixture->heap, NULL, NULL);
  TarnBlock *block = use (fixture, 20 * MIB, fixture->first);

  (void) unused;
  tarn_block_free (tarn_pool_allocate_ordered (forgetting, MIB, fixture->first, NULL));
  g_assert_true (tarn_pool_forget_queue (forgetting, fixture->first, NULL));
  tarn_pool_unref (forgetting);
  tarn_testing_queues_run_all (fixture->queues);
  tarn_testing_order_put (fixture->order, fixture->first, tarn_block_get_memory (block), 20 * MIB,
                          TARN_TESTING_COMMAND_CHECK, 1);
  end (fixture, block);
  for (guint i = 0; i < 3; i++)
    end (fixture, use (fixture, 20 * MIB, i == 2 ? fixture->first : fixture->second));
}

static void
count_wait (gpointer n_waits)
{
  ++*(guint *) n_waits;
}

/* Two pools have memory of a queue that is busy, and are told to forget it.  The host waits for
 * neither. */
static void
test_forgotten_by_both (Fixture *fixture, gconstpointer unused)
{
  TarnPool *other = tarn_pool_new (fixture->heap, NULL, NULL);
  TarnBlock *block = use (fixture, MIB, fixture->first), *others;
  guint n_waits = 0;

  (void) unused;
  others = tarn_pool_allocate_ordered (other, MIB, fixture->first, NULL);
  tarn_testing_order_own (fixture->order, tarn_block_get_memory (others), MIB);
  tarn_testing_order_put (fixture->order, fixture->first, tarn_block_get_memory (others), MIB,
                          TARN_TESTING_COMMAND_WRITE, 1);
  end (fixture, block);
  tarn_block_free (others);
  tarn_testing_queues_set_hook (fixture->queues, TARN_TESTING_CALL_HOST_WAIT, count_wait, &n_waits);
  g_assert_true (tarn_pool_forget_queue (fixture->pool, fixture->first, NULL));
  g_assert_true (tarn_pool_forget_queue (other, fixture->first, NULL));
  tarn_testing_queues_set_hook (fixture->queues, TARN_TESTING_CALL_HOST_WAIT, NULL, NULL);
  g_assert_cmpuint (n_waits, ==, 0);
  assert_valid (other);
  end (fixture, use (fixture, MIB, fixture->second));
  tarn_pool_unref (other);
}

typedef struct
{
  Fixture *fixture;
  TarnPool *other;
  TarnBlock *block; /* of the second queue */
} Meanwhile;

static void
forget_and_take_over (gpointer data)
{
  Meanwhile *meanwhile = data;
  Fixture *fixture = meanwhile->fixture;

  g_assert_true (tarn_pool_forget_queue (meanwhile->other, fixture->first, NULL));
  tarn_testing_queues_run_all (fixture->queues);
  meanwhile->block = use (fixture, 20 * MIB, fixture->second);
}

/* A queue that two pools forget at once is taken over while one of them is yet to record its last
 * event: that is not the next queue's. */
static void
test_forgotten_twice (Fixture *fixture, gconstpointer unused)
{
  Meanwhile meanwhile = { fixture, tarn_pool_new (fixture->heap, NULL, NULL), NULL };
  gpointer third = tarn_testing_queue_new (fixture->queues, TRUE);

  (void) unused;
  end (fixture, use (fixture, 20 * MIB, fixture->first));
  tarn_testing_queues_set_hook (fixture->queues, TARN_TESTING_CALL_EVENT_RECORD,
                                forget_and_take_over, &meanwhile);
  g_assert_true (tarn_pool_forget_queue (fixture->pool, fixture->first, NULL));
  g_assert_nonnull (meanwhile.block);
  tarn_testing_pages_set_budget (fixture->pages,
                                 tarn_testing_pages_get_used_bytes (fixture->pages));
  end (fixture, meanwhile.block);
  end (fixture, use (fixture, 20 * MIB, third));
  tarn_pool_unref (meanwhile.other);
}

static void
take_meanwhile (gpointer data)
{
  Meanwhile *meanwhile = data;

  tarn_testing_queues_set_hook (meanwhile->fixture->queues, TARN_TESTING_CALL_EVENT_RECORD, NULL,
                                NULL);
  meanwhile->block = use (meanwhile->fixture, 20 * MIB, meanwhile->fixture->first);
}

/* A pool begins to use a queue while another pool has the heap forget it: it does not take for the
 * queue's own what is left behind. */
static void
test_used_while_forgotten (Fixture *fixture, gconstpointer unused)
{
  Meanwhile meanwhile = { fixture, tarn_pool_new (fixture->heap, NULL, NULL), NULL };

  (void) unused;
  tarn_block_free (tarn_pool_allocate_ordered (meanwhile.other, MIB, fixture->first, NULL));
  tarn_testing_queues_set_hook (fixture->queues, TARN_TESTING_CALL_EVENT_RECORD, take_meanwhile,
                                &meanwhile);
  g_assert_true (tarn_pool_forget_queue (meanwhile.other, fixture->first, NULL));
  g_assert_nonnull (meanwhile.block);
  end (fixture, meanwhile.block);
  end (fixture, use (fixture, 10 * MIB, fixture->first));
  tarn_pool_unref (meanwhile.other);
}

/* What several queues used goes back once all are done, and is no reason for more memory. */
static void
test_shared (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  for (guint i = 0; i < 400; i++)
    {
      TarnBlock *block
          = use (fixture, 2 * MIB + i * TARN_TESTING_ORDER_GRANULE / 4, fixture->first);

      tarn_testing_queue_follow (fixture->queues, fixture->second, fixture->first);
      g_assert_true (tarn_block_record_use (block, fixture->second, NULL));
      tarn_testing_order_put (fixture->order, fixture->second, tarn_block_get_memory (block),
                              2 * MIB, TARN_TESTING_COMMAND_USE, 0);
      end (fixture, block);
      tarn_testing_queues_run_all (fixture->queues);
    }
  g_assert_cmpuint (get_stats (fixture->pool).managed_bytes, <=, 40 * MIB);
  g_assert_cmpuint (get_heap_stats (fixture).upstream_bytes, <=, 80 * MIB);
}

/* Each call that can fail does: nothing is lost, and nothing used too early. */
static void
test_failures (Fixture *fixture, gconstpointer unused)
{
  guint n_failed = 0, round = 0;

  (void) unused;
  tarn_testing_pages_set_budget (fixture->pages, 48 * MIB);
  for (guint nth = 1; nth < 60; nth += get_step ())
    {
      tarn_testing_queues_fail (fixture->queues, TARN_TESTING_CALL_ANY, nth, ++round % 3 == 0);
      for (guint i = 0; i < 12; i++)
        {
          gpointer queue = i % 2 == 0 ? fixture->first : fixture->second;
          g_autoptr (GError) error = NULL;
          TarnBlock *block
              = tarn_pool_allocate_ordered (fixture->pool, (10 + i) * MIB, queue, &error);

          if (block == NULL)
            {
              g_assert_true (g_error_matches (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY)
                             || g_error_matches (error, TARN_ERROR, TARN_ERROR_FAILED));
              continue;
            }
          tarn_testing_order_own (fixture->order, tarn_block_get_memory (block), (10 + i) * MIB);
          tarn_testing_order_put (fixture->order, queue, tarn_block_get_memory (block),
                                  (10 + i) * MIB, TARN_TESTING_COMMAND_WRITE, i);
          end (fixture, block);
        }
      n_failed += tarn_testing_queues_get_failed (fixture->queues);
      tarn_testing_queues_fail (fixture->queues, TARN_TESTING_CALL_ANY, 0, FALSE);
      g_assert_null (tarn_testing_queues_steal_fault (fixture->queues));
      if (round % 4 == 0)
        tarn_pool_free_held (fixture->pool);
    }
  g_assert_cmpuint (n_failed, >, 0);
  end (fixture, use (fixture, 40 * MIB, fixture->first));
  end (fixture, use (fixture, 40 * MIB, fixture->second));
}

/* Nobody can tell when commands are done with some memory.  It is lost, with a message.  That is no
 * mistake of the program's, even if nothing else is in use when the heap ends. */

static guint n_lost_messages;

static void
count_lost_messages (const gchar *domain, GLogLevelFlags level, const gchar *message,
                     gpointer unused)
{
  (void) unused;
  g_assert_cmpstr (domain, ==, "Tarn");
  g_assert_true ((level & G_LOG_LEVEL_MESSAGE) != 0);
  g_assert_nonnull (strstr (message, "not given back"));
  n_lost_messages++;
}

/* Leaves the device with the lost memory behind, and makes a new one for the next test. */
static void
leave_order (Fixture *fixture, gconstpointer data)
{
  static GSList *left;

  left = g_slist_prepend (left, fixture->order);
  set_up (fixture, data);
}

/* Frees a block that two queues use, while no wait succeeds. */
static void
free_unwaited (Fixture *fixture, TarnBlock *block)
{
  g_assert_true (tarn_block_record_use (block, fixture->second, NULL));
  tarn_testing_queue_follow (fixture->queues, fixture->second, fixture->first);
  tarn_testing_order_put (fixture->order, fixture->second, tarn_block_get_memory (block), 3 * MIB,
                          TARN_TESTING_COMMAND_USE, 0);
  tarn_testing_queues_fail (fixture->queues, TARN_TESTING_CALL_HOST_WAIT, 1, TRUE);
  tarn_block_free (block);
}

/* Ends the pool and the heap.  Gets how many messages there were. */
static guint
end_heap (Fixture *fixture)
{
  guint handler = g_log_set_handler ("Tarn", G_LOG_LEVEL_MASK, count_lost_messages, NULL);

  n_lost_messages = 0;
  g_clear_pointer (&fixture->pool, tarn_pool_unref);
  g_clear_pointer (&fixture->heap, tarn_allocator_unref);
  g_log_remove_handler ("Tarn", handler);
  g_assert_cmpuint (tarn_testing_pages_get_used_bytes (fixture->pages), >, 0);
  return n_lost_messages;
}

static void
test_lost (Fixture *fixture, gconstpointer data)
{
  free_unwaited (fixture, use (fixture, 3 * MIB, fixture->first));
  g_assert_cmpuint (end_heap (fixture), ==, 2); /* the pool's and the heap's */
  leave_order (fixture, data);
}

/* The lost memory is a block's that has no pool. */
static void
test_lost_block (Fixture *fixture, gconstpointer data)
{
  TarnBlock *block = tarn_allocator_allocate (fixture->heap, 3 * MIB, NULL);

  g_assert_true (tarn_block_record_use (block, fixture->first, NULL));
  g_test_expect_message ("Tarn", G_LOG_LEVEL_MESSAGE, "*not given back*");
  free_unwaited (fixture, block);
  g_test_assert_expected_messages ();
  g_assert_cmpuint (end_heap (fixture), ==, 1);
  leave_order (fixture, data);
}

/* The lost memory is a piece's that a queue may not have made ready, because the backend does not
 * know the queue. */
static void
test_lost_unready (Fixture *fixture, gconstpointer data)
{
  if (is_always_ready (data))
    return;
  tarn_testing_queues_set_fresh (fixture->queues, fixture->first);
  tarn_testing_queues_fail (fixture->queues, TARN_TESTING_CALL_ANY, 1, TRUE);
  g_test_expect_message ("Tarn", G_LOG_LEVEL_MESSAGE, "*not given back*");
  for (guint i = 0; i < 10; i++)
    g_assert_false (
        tarn_allocator_allocate_memory (fixture->heap, 2 * MIB, &(TarnMemory){ 0 }, NULL));
  g_test_assert_expected_messages ();
  g_assert_cmpuint (tarn_testing_pages_get_used_bytes (fixture->pages), ==, 2 * MIB);
  g_assert_cmpuint (get_heap_stats (fixture).upstream_bytes, ==, 0);
  g_assert_cmpuint (end_heap (fixture), ==, 0);
  leave_order (fixture, data);
}

/* The search for leaks does not report lost memory. */
static void
test_lost_debugged (Fixture *fixture, gconstpointer data)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  gsize n_found = tarn_debug_check ();

  options.debug = "leaks";
  tarn_pool_unref (fixture->pool);
  fixture->pool = tarn_pool_new (fixture->heap, &options, NULL);
  g_test_expect_message ("Tarn", G_LOG_LEVEL_MESSAGE, "*not given back*");
  free_unwaited (fixture, use (fixture, 3 * MIB, fixture->first));
  g_test_assert_expected_messages ();
  g_assert_cmpuint (end_heap (fixture), ==, 1);
  g_assert_cmpuint (tarn_debug_check (), ==, n_found);
  leave_order (fixture, data);
}

/* Threads: each has queues of its own, and what one allocates another one frees. */

#define N_THREADS 4
#define N_EXCHANGED 8
#define N_ROUNDS 400

typedef struct
{
  Fixture *fixture;
  TarnMutex lock; /* guards what stands below it */
  TarnBlock *exchanged[N_EXCHANGED];
} Shared;

static gpointer
play (gpointer data)
{
  Shared *shared = data;
  Fixture *fixture = shared->fixture;
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
test_threads (Fixture *fixture, gconstpointer unused)
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
  assert_all_valid (fixture);
  g_assert_null (tarn_testing_queues_steal_fault (fixture->queues));
  _tarn_mutex_clear (&shared.lock);
}

static void
add (const gchar *name, void (*test) (Fixture *, gconstpointer))
{
  static const struct
  {
    const gchar *name;
    Way way;
  } ways[] = { { "virtual", { TRUE, 0 } },
               { "virtual/events-all", { TRUE, TARN_TESTING_QUEUES_RECORDS_ALL } },
               { "parts", { FALSE, 0 } },
               { "parts/events-all", { FALSE, TARN_TESTING_QUEUES_RECORDS_ALL } },
               { "parts/frees-in-order", { FALSE, TARN_TESTING_QUEUES_FREES_IN_ORDER } } };

  for (gsize i = 0; i < G_N_ELEMENTS (ways); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/core/heap/queues/%s/%s", name, ways[i].name);

      g_test_add (path, Fixture, &ways[i].way, set_up, test, tear_down);
    }
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
  add ("any-size", test_any_size);
  add ("named", test_named);
  add ("moves", test_moves);
  add ("moves-early", test_moves_early);
  add ("moved-generation", test_moved_generation);
  add ("moves-on", test_moves_on);
  add ("moves-refused", test_moves_refused);
  add ("marked", test_marked);
  add ("out-of-memory", test_out_of_memory);
  add ("trim-waits-alone", test_trim_waits_alone);
  add ("grow-waits-alone", test_grow_waits_alone);
  add ("ready", test_ready);
  add ("unready", test_unready);
  add ("unready/block", test_unready_block);
  add ("between", test_between);
  add ("capture", test_capture);
  add ("task-after-task", test_task_after_task);
  add ("never-forgotten", test_never_forgotten);
  add ("one-after-another", test_one_after_another);
  add ("several-arenas", test_several_arenas);
  add ("many", test_many);
  add ("turns", test_turns);
  add ("same-handle", test_same_handle);
  add ("two-pools", test_two_pools);
  add ("forgotten-by-both", test_forgotten_by_both);
  add ("forgotten-twice", test_forgotten_twice);
  add ("used-while-forgotten", test_used_while_forgotten);
  add ("shared", test_shared);
  add ("shared-expires", test_shared_expires);
  add ("failures", test_failures);
  add ("lost", test_lost);
  add ("lost/block", test_lost_block);
  add ("lost/unready", test_lost_unready);
  add ("lost/debugged", test_lost_debugged);
  add ("threads", test_threads);
  g_test_add_func ("/core/heap/queues/taken-meanwhile", test_taken_meanwhile);
  return g_test_run ();
}
