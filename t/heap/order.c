/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Queues over a heap: random operations, where the fake sees whether any byte is used, unmapped or
 * given back before those who had it before are done.  --seed=SEED, as it is printed, brings a run
 * back. */

#include <tarn/testing.h>

#include "heap-fixture.h"
#include "lib/pool-fixture.h"

#define N_QUEUES 6
#define N_BLOCKS 24
#define N_OPERATIONS 4000
#define MAX_BYTES (3 * MIB)

typedef struct
{
  TarnBlock *block;
  gsize size;
  gpointer queue;      /* that it was allocated for or moved to; NULL: the host */
  gboolean is_orphan;  /* the queue is gone */
  gboolean is_checked; /* the queue keeps to the order in which it is written and checked */
  guint value;         /* that was written */
} Live;

typedef struct
{
  gpointer handle;
  gboolean in_order;
} Queue;

typedef struct
{
  TarnTestingOrder *order;
  TarnTestingQueues *queues;
  TarnAllocator *heap;
  TarnPool *pool;
  GRand *rand;
  guint flags;
  Queue all[N_QUEUES];
  guint n_queues;
  Live live[N_BLOCKS];
  guint n_writes;
} Trace;

static guint
below (Trace *trace, guint end)
{
  return (guint) g_rand_int_range (trace->rand, 0, (gint32) end);
}

static Queue *
random_queue (Trace *trace)
{
  return &trace->all[below (trace, trace->n_queues)];
}

/* The owner has changed: whoever it is writes. */
static void
begin_use (Trace *trace, Live *live, const Queue *queue)
{
  TarnMemory memory = tarn_block_get_memory (live->block);

  live->queue = queue != NULL ? queue->handle : NULL;
  live->is_orphan = FALSE;
  live->is_checked = queue != NULL && queue->in_order;
  live->value = ++trace->n_writes;
  tarn_testing_order_own (trace->order, memory, live->size);
  if (queue != NULL)
    tarn_testing_order_put (trace->order, queue->handle, memory, live->size,
                            TARN_TESTING_COMMAND_WRITE, live->value);
  else
    tarn_testing_order_touch (trace->order, memory, live->size);
}

/* A few sizes come again, the others do not. */
static gsize
choose_bytes (Trace *trace)
{
  if (below (trace, 3) == 0)
    return TARN_TESTING_ORDER_GRANULE << below (trace, 5);
  return 1 + below (trace, below (trace, 2) == 0 ? MAX_BYTES : MAX_BYTES / 20);
}

static void
allocate_for (Trace *trace, Live *live, const Queue *queue)
{
  g_autoptr (GError) error = NULL;

  live->size = choose_bytes (trace);
  live->block = tarn_pool_allocate_ordered (trace->pool, live->size,
                                            queue != NULL ? queue->handle : NULL, &error);
  if (live->block != NULL)
    begin_use (trace, live, queue);
  else
    g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
}

static void
free_one (Live *live)
{
  tarn_block_free (g_steal_pointer (&live->block));
}

/* The owner has the other queue wait, as it must, and so this queue must be there. */
static void
record (Trace *trace, Live *live, const Queue *queue)
{
  g_autoptr (GError) error = NULL;

  if (live->is_orphan)
    return;
  if (live->queue != NULL)
    tarn_testing_queue_follow (trace->queues, queue->handle, live->queue);
  g_assert_true (tarn_block_record_use (live->block, queue->handle, &error));
  tarn_testing_order_put (trace->order, queue->handle, tarn_block_get_memory (live->block),
                          live->size, TARN_TESTING_COMMAND_USE, 0);
}

static void
move (Trace *trace, Live *live, const Queue *queue)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (queue != NULL ? tarn_block_move_to_queue (live->block, queue->handle, &error)
                               : tarn_block_wait (live->block, &error));
  begin_use (trace, live, queue);
}

static void
use_again (Trace *trace, Live *live)
{
  if (live->queue != NULL && !live->is_orphan)
    tarn_testing_order_put (
        trace->order, live->queue, tarn_block_get_memory (live->block), live->size,
        live->is_checked ? TARN_TESTING_COMMAND_CHECK : TARN_TESTING_COMMAND_USE, live->value);
}

static void
operate_on_live (Trace *trace, Live *live)
{
  guint kind = below (trace, 20);

  if (kind < 12)
    free_one (live);
  else if (kind < 15)
    use_again (trace, live);
  else if (kind < 18)
    record (trace, live, random_queue (trace));
  else
    move (trace, live, kind == 18 ? random_queue (trace) : NULL);
}

/* A queue ends, and another one begins.  Where queues are retained it need not be forgotten. */
static void
replace_queue (Trace *trace, Queue *queue)
{
  g_autoptr (GError) error = NULL;

  if ((trace->flags & TARN_TESTING_QUEUES_RECORDS_ALL) != 0 || below (trace, 2) == 0)
    g_assert_true (tarn_pool_forget_queue (trace->pool, queue->handle, &error));
  for (guint i = 0; i < N_BLOCKS; i++)
    if (trace->live[i].queue == queue->handle)
      trace->live[i].is_orphan = TRUE;
  tarn_testing_queue_destroy (trace->queues, queue->handle);
  queue->in_order = below (trace, 4) != 0;
  queue->handle = tarn_testing_queue_new (trace->queues, queue->in_order);
}

static void
operate_on_pool (Trace *trace)
{
  guint kind = below (trace, 4);

  if (kind == 0)
    tarn_pool_free_held (trace->pool);
  else if (kind == 1)
    tarn_testing_pages_set_budget (tarn_testing_order_get_pages (trace->order),
                                   below (trace, 2) == 0 ? G_MAXUINT64 : 24 * MIB);
  else
    replace_queue (trace, random_queue (trace));
}

static void
operate (Trace *trace)
{
  Live *live = &trace->live[below (trace, N_BLOCKS)];
  guint kind = below (trace, 1000);

  if (kind < 12)
    operate_on_pool (trace);
  else if (kind < 300)
    tarn_testing_queues_run_one (trace->queues);
  else if (live->block != NULL)
    operate_on_live (trace, live);
  else
    allocate_for (trace, live, kind < 340 ? NULL : random_queue (trace));
}

static void
trace_begin (Trace *trace, guint n_queues, gboolean is_virtual, guint flags)
{
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;
  TarnPoolOptions pool_options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnAllocator) upstream = NULL;

  memset (trace, 0, sizeof *trace);
  trace->rand = g_rand_new_with_seed ((guint32) g_test_rand_int ());
  trace->flags = flags;
  trace->order = tarn_testing_order_new (G_MAXUINT64, is_virtual, flags);
  trace->queues = tarn_testing_order_get_queues (trace->order);
  upstream = tarn_testing_order_allocator_new (trace->order);
  options.alignment = TARN_TESTING_ORDER_GRANULE;
  trace->heap = tarn_heap_allocator_new (upstream, &options, NULL);
  pool_options.hold_bytes = below (trace, 2) == 0 ? 0 : MIB;
  trace->pool = tarn_pool_new (trace->heap, &pool_options, NULL);
  trace->n_queues = n_queues;
  for (guint i = 0; i < n_queues; i++)
    {
      trace->all[i].in_order = n_queues == 1 || below (trace, 4) != 0;
      trace->all[i].handle = tarn_testing_queue_new (trace->queues, trace->all[i].in_order);
    }
}

/* Half of the blocks outlive the pool. */
static void
trace_end (Trace *trace)
{
  for (guint i = 0; i < N_BLOCKS; i++)
    {
      if (i == N_BLOCKS / 2)
        {
          tarn_pool_unref (trace->pool);
          tarn_allocator_unref (trace->heap);
        }
      free_one (&trace->live[i]);
    }
  tarn_testing_queues_run_all (trace->queues);
  tarn_testing_order_free (trace->order);
  g_rand_free (trace->rand);
}

static void
assert_heap_valid (Trace *trace)
{
  TarnHeap *heap = _tarn_heap_of (trace->heap);

  _tarn_heap_lock (heap);
  _tarn_heap_assert_valid (heap);
  _tarn_heap_unlock (heap);
}

static void
assert_no_fault (TarnTestingQueues *queues, guint operation)
{
  g_autofree gchar *fault = tarn_testing_queues_steal_fault (queues);

  if (fault != NULL)
    g_error ("operation %u: %s", operation, fault);
}

static void
run_trace (guint n_queues, gboolean is_virtual, guint flags)
{
  Trace trace;

  trace_begin (&trace, n_queues, is_virtual, flags);
  for (guint i = 0; i < N_OPERATIONS; i++)
    {
      operate (&trace);
      assert_valid (trace.pool);
      assert_heap_valid (&trace);
      assert_no_fault (trace.queues, i);
    }
  trace_end (&trace);
}

typedef struct
{
  gboolean is_virtual;
  guint flags;
} Way;

static void
test_trace (gconstpointer data)
{
  const Way *way = data;

  for (guint n_queues = 1; n_queues <= N_QUEUES; n_queues++)
    run_trace (n_queues, way->is_virtual, way->flags);
}

int
main (int argc, char **argv)
{
  static const Way virtual = { TRUE, 0 };
  static const Way virtual_all = { TRUE, TARN_TESTING_QUEUES_RECORDS_ALL };
  static const Way parts = { FALSE, 0 };
  static const Way parts_all = { FALSE, TARN_TESTING_QUEUES_RECORDS_ALL };
  static const Way parts_in_order = { FALSE, TARN_TESTING_QUEUES_FREES_IN_ORDER };

  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/core/heap/order/trace/virtual", &virtual, test_trace);
  g_test_add_data_func ("/core/heap/order/trace/virtual/events-all", &virtual_all, test_trace);
  g_test_add_data_func ("/core/heap/order/trace/parts", &parts, test_trace);
  g_test_add_data_func ("/core/heap/order/trace/parts/events-all", &parts_all, test_trace);
  g_test_add_data_func ("/core/heap/order/trace/parts/frees-in-order", &parts_in_order, test_trace);
  return g_test_run ();
}
