/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What the order of queues costs: which driver calls are made, and which are not, counted by a
 * layer above the driver. */

#include "lib/conformance.h"
#include "queues.h"

#define SIZE 4096

static const OpenclLayer *layer;

typedef struct
{
  guint markers, barriers, flushes, finishes, waits, questions, retains;
  guint references; /* questions about buffers' reference counts, */
  guint all;        /* and all other calls */
} Calls;

static Calls
count (void)
{
  return (Calls){
    .markers = layer->get_calls ("clEnqueueMarkerWithWaitList"),
    .barriers = layer->get_calls ("clEnqueueBarrierWithWaitList"),
    .flushes = layer->get_calls ("clFlush"),
    .finishes = layer->get_calls ("clFinish"),
    .waits = layer->get_calls ("clWaitForEvents"),
    .questions = layer->get_calls ("clGetEventInfo"),
    .retains = layer->get_calls ("clRetainCommandQueue") + layer->get_calls ("clRetainEvent"),
    .references = layer->get_calls ("clGetMemObjectInfo"),
    .all = layer->get_calls (NULL) - layer->get_calls ("clGetMemObjectInfo"),
  };
}

static void
assert_nothing_left (const OpenclState *state)
{
  g_assert_cmpuint (layer->get_live (OPENCL_LAYER_EVENT, NULL, 0), ==, 0);
  g_assert_cmpuint (layer->get_live (OPENCL_LAYER_BUFFER, NULL, 0), ==, 0);
  g_assert_cmpuint (layer->get_references (state->queue), ==, 1);
  g_assert_cmpuint (layer->get_references (state->context), ==, 1);
}

static void
record_use (TarnBlock *block, cl_command_queue queue)
{
  g_autoptr (GError) error = NULL;

  tarn_opencl_block_record_use (block, queue, &error);
  g_assert_no_error (error);
}

/* With one in-order queue, order costs nothing but for the first meeting. */
static void
test_one_queue (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  TarnPool *pool = opencl_pool_new (state, memory);
  Calls before, after;

  (void) data;
  layer->reset ();
  tarn_block_free (opencl_allocate (pool, SIZE, state->queue));
  clFinish (state->queue); /* a command that uses a buffer may be in its count */
  before = count ();
  g_assert_cmpuint (before.retains, ==, 1);
  g_assert_cmpuint (before.markers + before.barriers + before.flushes, ==, 0);
  for (guint i = 0; i < 1000; i++)
    {
      TarnBlock *block = opencl_allocate (pool, SIZE + i % 20, state->queue);

      record_use (block, state->queue);
      tarn_block_free (block);
    }
  after = count ();
  g_assert_cmpuint (after.all, ==, before.all);
  g_assert_cmpuint (
      after.references - before.references, ==,
      memory->allocator_new == opencl_immediate_new && opencl_counts_references (state) ? 1000 : 0);
  tarn_pool_unref (pool);
  assert_nothing_left (state);
}

/* So with two, each of which has what it freed, in whatever order they come. */
static void
test_two_queues (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  cl_command_queue queues[] = { state->queue, opencl_queue_new (state, FALSE) };
  TarnPool *pool = opencl_pool_new (state, memory);
  TarnBlock *blocks[2];
  Calls before;

  (void) data;
  for (guint i = 0; i < 2; i++)
    blocks[i] = opencl_allocate (pool, SIZE, queues[i]);
  before = count ();
  for (guint i = 0; i < 1000; i++)
    {
      tarn_block_free (blocks[i % 2]);
      blocks[i % 2] = opencl_allocate (pool, SIZE, queues[i % 2]);
    }
  g_assert_cmpuint (count ().all, ==, before.all);
  for (guint i = 0; i < 2; i++)
    tarn_block_free (blocks[i]);
  g_assert_cmpuint (count ().all, ==, before.all);
  tarn_pool_unref (pool);
  opencl_queue_free (queues[1]);
  assert_nothing_left (state);
}

/* Where one block goes back and forth, a free is a marker and a flush, and a hit a question and a
 * barrier at most. */
static void
test_handed_on (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  const guint n = 200;
  cl_command_queue other = opencl_queue_new (state, FALSE);
  TarnPool *pool = opencl_pool_new (state, memory);
  TarnBlock *kept[] = { opencl_allocate (pool, 4, state->queue), opencl_allocate (pool, 4, other) };
  Calls before, after;

  (void) data;
  hand_on (pool, SIZE);
  tarn_block_free (opencl_allocate (pool, SIZE, state->queue));
  before = count ();
  for (guint i = 0; i < n; i++)
    {
      TarnBlock *block = opencl_allocate (pool, SIZE, i % 2 == 0 ? other : state->queue);

      tarn_block_free (block);
      g_assert_cmpuint (layer->get_live (OPENCL_LAYER_EVENT, NULL, 0), ==, 1);
    }
  after = count ();
  g_assert_cmpuint (after.markers - before.markers, ==, n);
  g_assert_cmpuint (after.flushes - before.flushes, ==, n);
  g_assert_cmpuint (after.barriers - before.barriers, <=, n);
  g_assert_cmpuint (after.questions - before.questions, <=, n);
  g_assert_cmpuint (after.retains, ==, before.retains);
  g_assert_cmpuint (after.finishes + after.waits, ==, before.finishes + before.waits);
  g_test_message ("%u barriers for %u hits", after.barriers - before.barriers, n);
  tarn_block_free (kept[0]);
  tarn_block_free (kept[1]);
  tarn_pool_unref (pool);
  opencl_queue_free (other);
  assert_nothing_left (state);
}

/* Exactly, while a queue is busy: a hit on another queue is a barrier, a hit on its own is nothing,
 * and what a third queue was recorded for is a marker more. */
static void
test_busy_queue (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  cl_command_queue from = opencl_queue_new (state, FALSE), to = opencl_queue_new (state, FALSE);
  TarnPool *pool = opencl_pool_new (state, memory);
  TarnBlock *kept = opencl_allocate (pool, 4, to), *block = opencl_allocate (pool, SIZE, from);
  cl_event gate = opencl_gate_new (state), old = opencl_fill (from, block, 1, gate);
  Calls before = count (), after;

  (void) data;
  hand_on (pool, SIZE);
  tarn_block_free (block);
  after = count ();
  g_assert_cmpuint (after.all - before.all, ==, 2);
  g_assert_cmpuint (after.markers - before.markers, ==, 1);
  g_assert_cmpuint (after.flushes - before.flushes, ==, 1);

  before = after;
  block = opencl_allocate (pool, SIZE, from);
  after = count ();
  g_assert_cmpuint (after.all - before.all, ==, 1);
  g_assert_cmpuint (layer->get_live (OPENCL_LAYER_EVENT, NULL, 0), ==, 0);

  record_use (block, to);
  tarn_block_free (block);
  before = count ();
  g_assert_cmpuint (before.markers - after.markers, ==, 2);
  block = opencl_allocate (pool, SIZE, to);
  after = count ();
  g_assert_cmpuint (after.barriers - before.barriers, ==, 1);
  g_assert_cmpuint (after.questions - before.questions, ==, 1);
  opencl_gate_open (gate);
  opencl_await (old);
  tarn_block_free (block);
  tarn_block_free (kept);
  tarn_pool_unref (pool);
  opencl_queue_free (to);
  opencl_queue_free (from);
  assert_nothing_left (state);
}

/* Exactly, where a queue asks for what another one has freed and that is still used: a marker,
 * however much that is, and then a question for each request, beside a marker and a barrier where
 * fresh memory is made ready on a queue.  The other one has its memory again for nothing. */
static void
test_wanted (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  cl_command_queue from = opencl_queue_new (state, FALSE), to = opencl_queue_new (state, FALSE);
  TarnPool *pool = opencl_pool_new (state, memory);
  TarnBlock *kept = opencl_allocate (pool, 4, to), *blocks[10], *fresh[2];
  cl_event gate = opencl_gate_new (state), old;
  Calls before, after;

  (void) data;
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = opencl_allocate (pool, SIZE, from);
  old = opencl_fill (from, blocks[0], 1, gate);
  before = count ();
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    tarn_block_free (blocks[i]);
  g_assert_cmpuint (count ().all, ==, before.all);

  for (guint i = 0; i < G_N_ELEMENTS (fresh); i++)
    {
      fresh[i] = opencl_allocate (pool, SIZE, to);
      after = count ();
      g_assert_cmpuint (after.questions - before.questions, ==, i);
      g_assert_cmpuint (after.barriers - before.barriers, <=, i + 1);
      g_assert_cmpuint (after.markers - before.markers, ==, 1 + after.barriers - before.barriers);
      g_assert_cmpuint (after.flushes - before.flushes, ==, after.markers - before.markers);
      g_assert_cmpuint (after.finishes + after.waits, ==, before.finishes + before.waits);
    }
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = opencl_allocate (pool, SIZE, from);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    tarn_block_free (blocks[i]);
  g_assert_cmpuint (layer->get_live (OPENCL_LAYER_EVENT, NULL, 0), ==, 0);
  g_assert_cmpuint (count ().all - after.all, ==, 1); /* which releases the marker */
  opencl_gate_open (gate);
  opencl_await (old);
  for (guint i = 0; i < G_N_ELEMENTS (fresh); i++)
    tarn_block_free (fresh[i]);
  tarn_block_free (kept);
  tarn_pool_unref (pool);
  opencl_queue_free (to);
  opencl_queue_free (from);
  assert_nothing_left (state);
}

/* However many blocks are busy, the driver is asked about four at most. */
static void
test_asked (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  cl_command_queue from = opencl_queue_new (state, FALSE), to = opencl_queue_new (state, FALSE);
  TarnPool *pool = opencl_pool_new (state, memory);
  TarnBlock *kept = opencl_allocate (pool, 4, to), *blocks[10];
  cl_event gate, old;
  Calls before, after;

  (void) data;
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = opencl_allocate (pool, SIZE, from);
  gate = opencl_gate_new (state);
  old = opencl_fill (from, blocks[0], 1, gate);
  hand_on (pool, SIZE);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    tarn_block_free (blocks[i]);
  before = count ();
  blocks[0] = opencl_allocate (pool, SIZE, to);
  after = count ();
  g_assert_cmpuint (after.questions - before.questions, <=, 4);
  g_assert_cmpuint (after.barriers - before.barriers, ==, 1);
  opencl_gate_open (gate);
  opencl_await (old);
  tarn_block_free (blocks[0]);
  tarn_block_free (kept);
  tarn_pool_unref (pool);
  opencl_queue_free (to);
  opencl_queue_free (from);
  assert_nothing_left (state);
}

/* A pool has one reference on a queue that any of its blocks remembers, and none on others: what a
 * queue freed is its own until another one has it. */
static void
test_references (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  cl_command_queue first = opencl_queue_new (state, FALSE);
  cl_command_queue second = opencl_queue_new (state, FALSE);
  TarnPool *pool = opencl_pool_new (state, memory);
  TarnBlock *block = opencl_allocate (pool, SIZE, first);
  TarnBlock *other = opencl_allocate (pool, SIZE, first), *fresh;

  (void) data;
  g_assert_cmpuint (layer->get_references (first), ==, 2);
  tarn_block_free (other);
  tarn_block_free (block);
  g_assert_cmpuint (layer->get_references (first), ==, 2);

  fresh = opencl_allocate (pool, SIZE, second);
  g_assert_cmpuint (layer->get_references (first), ==, 2);
  opencl_settle (first);
  block = opencl_allocate (pool, SIZE, second);
  g_assert_cmpuint (layer->get_references (first), ==, 2);
  other = opencl_allocate (pool, SIZE, second);
  tarn_block_free (fresh);
  g_assert_cmpuint (layer->get_references (first), ==, 1);
  g_assert_cmpuint (layer->get_references (second), ==, 2);
  record_use (block, first);
  g_assert_cmpuint (layer->get_references (first), ==, 2);
  tarn_pool_unref (pool);
  tarn_block_free (block);
  g_assert_cmpuint (layer->get_references (first), ==, 1);
  g_assert_cmpuint (layer->get_references (second), ==, 2);
  tarn_block_free (other);
  g_assert_cmpuint (layer->get_references (second), ==, 1);
  opencl_queue_free (second);
  opencl_queue_free (first);
  assert_nothing_left (state);
}

/* A gate that is opened as soon as the host is seen to wait. */
typedef struct
{
  cl_event gate;
  guint waits_before;
  gboolean has_waited;
} Keeper;

static gpointer
keep_gate (gpointer data)
{
  Keeper *keeper = data;
  gint64 deadline = g_get_monotonic_time () + 20 * G_TIME_SPAN_SECOND;

  while (layer->get_calls ("clWaitForEvents") == keeper->waits_before
         && g_get_monotonic_time () < deadline)
    g_thread_yield ();
  keeper->has_waited = layer->get_calls ("clWaitForEvents") > keeper->waits_before;
  opencl_gate_open (keeper->gate);
  return NULL;
}

typedef enum
{
  ALLOCATE,      /* what is handed on, in a pool that has met one queue */
  ALLOCATE_LATE, /* in one that has met two */
  BLOCK_WAIT,
  BLOCK_WAIT_DIRECT
} Action;

static TarnBlock *
allocate_for (OpenclState *state, const OpenclMemory *memory, TarnPool *pool, Action action,
              cl_command_queue queue)
{
  g_autoptr (TarnAllocator) direct = NULL;
  g_autoptr (GError) error = NULL;
  TarnBlock *block;

  if (action != BLOCK_WAIT_DIRECT)
    return opencl_allocate (pool, SIZE, queue);
  direct = memory->allocator_new (state, NULL);
  block = tarn_allocator_allocate (direct, SIZE, &error);
  g_assert_no_error (error);
  g_assert_true (tarn_opencl_block_move_to_queue (block, queue, &error));
  return block;
}

static TarnBlock *
act (TarnPool *pool, Action action, TarnBlock *block)
{
  g_autoptr (GError) error = NULL;

  if (action == BLOCK_WAIT || action == BLOCK_WAIT_DIRECT)
    {
      tarn_block_wait (block, &error);
      g_assert_no_error (error);
      return block;
    }
  hand_on (pool, SIZE);
  tarn_block_free (block);
  return opencl_allocate (pool, SIZE, NULL);
}

/* The host waits where memory is asked for without a queue, or taken from its queues. */
static void
wait_on_host (OpenclState *state, const OpenclMemory *memory, Action action)
{
  cl_command_queue from = opencl_queue_new (state, FALSE);
  TarnPool *pool = opencl_pool_new (state, memory);
  TarnBlock *kept = action == ALLOCATE_LATE ? opencl_allocate (pool, 4, state->queue) : NULL;
  TarnBlock *block = allocate_for (state, memory, pool, action, from);
  gpointer pointer = tarn_block_get_memory (block).pointer;
  Keeper keeper = { opencl_gate_new (state), count ().waits, FALSE };
  cl_event old = opencl_fill (from, block, 1, keeper.gate);
  GThread *thread = g_thread_new ("keeper", keep_gate, &keeper);

  block = act (pool, action, block);
  g_assert_true (tarn_block_get_memory (block).pointer == pointer);
  g_assert_true (opencl_is_complete (old));
  g_assert_null (tarn_opencl_block_get_queue (block));
  g_thread_join (thread);
  g_assert_true (keeper.has_waited);
  opencl_await (old);
  tarn_block_free (block);
  tarn_block_free (kept);
  tarn_pool_unref (pool);
  opencl_queue_free (from);
  assert_nothing_left (state);
}

static void
test_host_waits (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  Action action = (Action) GPOINTER_TO_INT (data);

  if (memory->allocator_new == opencl_svm_bound_new
      && (action == ALLOCATE || action == ALLOCATE_LATE))
    g_test_skip ("a request that names no queue is for the allocator's own");
  else
    wait_on_host (state, memory, action);
}

/* The host waits, too, before what a queue still uses goes back because there is no room for what
 * another one asks for. */
static void
test_no_room (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  cl_command_queue from = opencl_queue_new (state, FALSE), to = opencl_queue_new (state, FALSE);
  TarnPool *pool = opencl_pool_new (state, memory);
  TarnBlock *block = opencl_allocate (pool, SIZE, from);
  Keeper keeper = { opencl_gate_new (state), count ().waits, FALSE };
  cl_event old = opencl_fill (from, block, 1, keeper.gate);
  GThread *thread;

  (void) data;
  tarn_block_free (block);
  tarn_pool_set_limit_bytes (pool, tarn_pool_get_managed_bytes (pool));
  thread = g_thread_new ("keeper", keep_gate, &keeper);
  block = opencl_allocate (pool, SIZE, to);
  g_assert_true (opencl_is_complete (old));
  g_thread_join (thread);
  g_assert_true (keeper.has_waited);
  opencl_await (old);
  tarn_block_free (block);
  tarn_pool_unref (pool);
  opencl_queue_free (to);
  opencl_queue_free (from);
  assert_nothing_left (state);
}

/* An allocator with a queue of its own has requests that name none wait there, and not the host. */
static void
test_default_queue (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  cl_command_queue from = opencl_queue_new (state, FALSE);
  OpenclMemory bound = { "svm-bound", TRUE, opencl_svm_bound_new };
  TarnPool *pool = opencl_pool_new (state, &bound);
  TarnBlock *block = opencl_allocate (pool, SIZE, from);
  cl_event gate = opencl_gate_new (state), old = opencl_fill (from, block, 1, gate), written;
  Calls before, after;

  (void) memory;
  (void) data;
  hand_on (pool, SIZE);
  tarn_block_free (block);
  before = count ();
  block = opencl_allocate (pool, SIZE, NULL);
  after = count ();
  g_assert_true (tarn_opencl_block_get_queue (block) == state->queue);
  g_assert_cmpuint (after.barriers - before.barriers, ==, 1);
  g_assert_cmpuint (after.waits, ==, before.waits);
  written = opencl_fill (state->queue, block, 2, NULL);
  opencl_gate_open (gate);
  opencl_await (old);
  opencl_await (written);
  opencl_assert_content (state->queue, block, 2);
  tarn_block_free (block);
  tarn_pool_unref (pool);
  opencl_queue_free (from);
  assert_nothing_left (state);
}

#define GATE OPENCL_NEEDS_GATE

int
main (int argc, char **argv)
{
  static const OpenclQueueCase cases[] = {
    { "order/calls/one-queue", test_one_queue, 0, NULL },
    { "order/calls/two-queues", test_two_queues, 0, NULL },
    { "order/calls/handed-on", test_handed_on, 0, NULL },
    { "order/calls/busy-queue", test_busy_queue, GATE, NULL },
    { "order/calls/wanted", test_wanted, GATE, NULL },
    { "order/calls/asked", test_asked, GATE, NULL },
    { "order/calls/references", test_references, 0, NULL },
    { "order/host-waits/block-wait", test_host_waits, GATE, GINT_TO_POINTER (BLOCK_WAIT) },
    { "order/host-waits/block-wait-direct", test_host_waits, GATE,
      GINT_TO_POINTER (BLOCK_WAIT_DIRECT) },
    { "order/host-waits/allocate", test_host_waits, GATE, GINT_TO_POINTER (ALLOCATE) },
    { "order/host-waits/allocate-late", test_host_waits, GATE, GINT_TO_POINTER (ALLOCATE_LATE) },
    { "order/host-waits/no-room", test_no_room, GATE | OPENCL_NEEDS_SVM, NULL },
  };
  static const OpenclQueueCase bound
      = { "order/default-queue", test_default_queue, OPENCL_NEEDS_GATE | OPENCL_NEEDS_SVM, NULL };

  g_test_init (&argc, &argv, NULL);
  layer = opencl_layer_load ();
  if (layer == NULL)
    {
      opencl_add_no_layer ("/opencl/no-layer");
      return g_test_run ();
    }
  /* Each pool over a deferred allocator has one, which t/pool/allocator.c is about. */
  opencl_ignore_messages ();
  opencl_add_for_memories (cases, G_N_ELEMENTS (cases));
  opencl_add_for_devices (&bound, 1);
  return g_test_run ();
}
