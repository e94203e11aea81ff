/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory of a pool that several OpenCL queues use one after the other: no command may see what
 * another queue's is still doing.
 *
 * A queue stands behind a gate, so its command has not run when its memory is freed and handed to
 * another queue: whatever that one runs before the gate opens is wrong, and seen every time. */

#include "lib/conformance.h"
#include "queues.h"

#define SIZE 4096
#define OLD 0xa1a1a1a1
#define NEW 0xb2b2b2b2

/* From which queue memory goes to which. */
typedef struct
{
  gboolean from_out_of_order;
  gboolean to_out_of_order;
  gboolean is_same_queue;
  gboolean is_recorded;  /* allocated for a third queue, and only recorded with the first */
  gboolean has_met;      /* the pool has met the second queue before the memory is freed */
  gboolean is_handed_on; /* as other memory of its size was before; else only if the pool has to */
} Race;

/* The queue's commands on the block wait until the gate opens. */
static cl_event
use_behind_gate (OpenclState *state, cl_command_queue queue, TarnBlock *block, cl_event *event)
{
  cl_event gate = opencl_gate_new (state);

  *event = opencl_fill (queue, block, OLD, gate);
  return gate;
}

static TarnBlock *
allocate_first (TarnPool *pool, const Race *race, cl_command_queue from, cl_command_queue third)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = opencl_allocate (pool, SIZE, race->is_recorded ? third : from);

  if (race->is_recorded)
    tarn_opencl_block_record_use (block, from, &error);
  g_assert_no_error (error);
  return block;
}

/* The second queue's command on the block, which is to come after the first one's. */
static void
use_after_gate (OpenclState *state, cl_command_queue from, cl_command_queue to, TarnBlock *block,
                cl_event gate)
{
  cl_event written = opencl_fill (to, block, NEW, NULL);

  opencl_pass_time (state);
  g_assert_false (opencl_is_complete (written));
  opencl_gate_open (gate);
  opencl_await (written);
  g_assert_cmpint (clFinish (from), ==, CL_SUCCESS);
  opencl_assert_content (to, block, NEW);
}

static void
test_race (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  const Race *race = data;
  cl_command_queue from = opencl_queue_new (state, race->from_out_of_order);
  cl_command_queue to
      = race->is_same_queue ? from : opencl_queue_new (state, race->to_out_of_order);
  cl_command_queue third = opencl_queue_new (state, FALSE);
  TarnPool *pool = opencl_pool_new (state, memory);
  TarnBlock *small = race->has_met ? opencl_allocate (pool, 4, to) : NULL;
  TarnBlock *block = allocate_first (pool, race, from, third);
  gpointer pointer = tarn_block_get_memory (block).pointer;
  cl_event old, gate = use_behind_gate (state, from, block, &old);

  if (race->is_handed_on)
    hand_on (pool, SIZE);
  tarn_block_free (block);
  block = opencl_allocate (pool, SIZE, to);
  g_assert_true (tarn_block_get_memory (block).pointer == pointer);
  g_assert_true (tarn_opencl_block_get_queue (block) == to);
  use_after_gate (state, from, to, block, gate);
  opencl_await (old);

  tarn_block_free (block);
  tarn_block_free (small);
  tarn_pool_unref (pool);
  opencl_queue_free (third);
  if (to != from)
    opencl_queue_free (to);
  opencl_queue_free (from);
}

/* What another queue alone has used is nobody else's before it is idle: the second queue has fresh
 * memory, which it can use at once, however often it asks, and that of the first one afterwards. */
static void
test_meanwhile (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  const Race *race = data;
  cl_command_queue from = opencl_queue_new (state, FALSE);
  cl_command_queue to = opencl_queue_new (state, race->to_out_of_order);
  TarnPool *pool = opencl_pool_new (state, memory);
  TarnBlock *small = race->has_met ? opencl_allocate (pool, 4, to) : NULL;
  TarnBlock *block = opencl_allocate (pool, SIZE, from), *fresh[2];
  gpointer pointer = tarn_block_get_memory (block).pointer;
  cl_event old, gate = use_behind_gate (state, from, block, &old);

  tarn_block_free (block);
  for (guint i = 0; i < G_N_ELEMENTS (fresh); i++)
    {
      fresh[i] = opencl_allocate (pool, SIZE, to);
      g_assert_true (tarn_block_get_memory (fresh[i]).pointer != pointer);
      opencl_await (opencl_fill (to, fresh[i], NEW, NULL));
    }
  g_assert_false (opencl_is_complete (old));
  opencl_gate_open (gate);
  opencl_await (old);
  opencl_settle (from);
  block = opencl_allocate (pool, SIZE, to);
  g_assert_true (tarn_block_get_memory (block).pointer == pointer);
  opencl_assert_content (to, block, OLD);

  for (guint i = 0; i < G_N_ELEMENTS (fresh); i++)
    {
      opencl_assert_content (to, fresh[i], NEW);
      tarn_block_free (fresh[i]);
    }
  tarn_block_free (block);
  tarn_block_free (small);
  tarn_pool_unref (pool);
  opencl_queue_free (to);
  opencl_queue_free (from);
}

/* The same by moving a block in use: of a pool, or of none. */
static void
race_bound (OpenclState *state, TarnBlock *block, cl_command_queue from, cl_command_queue to)
{
  g_autoptr (GError) error = NULL;
  cl_event old, gate;

  tarn_opencl_block_move_to_queue (block, from, &error);
  g_assert_no_error (error);
  gate = use_behind_gate (state, from, block, &old);
  tarn_opencl_block_move_to_queue (block, to, &error);
  g_assert_no_error (error);
  g_assert_true (tarn_opencl_block_get_queue (block) == to);
  use_after_gate (state, from, to, block, gate);
  opencl_await (old);
}

static void
test_bind (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  cl_command_queue from = opencl_queue_new (state, FALSE), to = opencl_queue_new (state, FALSE);
  g_autoptr (TarnAllocator) allocator = memory->allocator_new (state, NULL);
  g_autoptr (TarnPool) pool = opencl_pool_new (state, memory);
  TarnBlock *blocks[] = { tarn_allocator_allocate (allocator, SIZE, NULL),
                          opencl_allocate (pool, SIZE, from), opencl_allocate (pool, SIZE, NULL) };

  (void) data;
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    {
      race_bound (state, blocks[i], from, to);
      tarn_block_free (blocks[i]);
    }
  assert_valid (pool);
  tarn_pool_free_held (pool);
  opencl_queue_free (to);
  opencl_queue_free (from);
}

/* A legal program: one queue waits for the host, which waits for another queue.  That one asks for
 * memory of the size of what the first has freed before: what came after the free must not keep it
 * waiting.  It has the same memory where an event was recorded at the free, else other memory. */
static void
test_host_between (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  cl_command_queue from = opencl_queue_new (state, FALSE), to = opencl_queue_new (state, FALSE);
  TarnPool *pool = opencl_pool_new (state, memory);
  TarnBlock *small = opencl_allocate (pool, 4, to);
  TarnBlock *block = opencl_allocate (pool, SIZE, from);
  TarnBlock *later = opencl_allocate (pool, 10 * SIZE, from);
  gpointer pointer = tarn_block_get_memory (block).pointer;
  gboolean is_handed_on = GPOINTER_TO_INT (data);
  cl_event old, gate;

  opencl_await (opencl_fill (from, block, OLD, NULL));
  if (is_handed_on)
    hand_on (pool, SIZE);
  tarn_block_free (block);
  gate = use_behind_gate (state, from, later, &old);
  block = opencl_allocate (pool, SIZE, to);
  g_assert_true ((tarn_block_get_memory (block).pointer == pointer) == is_handed_on);
  opencl_await (opencl_fill (to, block, NEW, NULL));
  g_assert_false (opencl_is_complete (old));
  opencl_gate_open (gate);
  opencl_await (old);
  opencl_assert_content (to, block, NEW);

  tarn_block_free (later);
  tarn_block_free (block);
  tarn_block_free (small);
  tarn_pool_unref (pool);
  opencl_queue_free (to);
  opencl_queue_free (from);
}

/* Memory that is idle, or was last used on the same queue, comes before memory to wait for. */
static void
test_preference (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  cl_command_queue from = opencl_queue_new (state, FALSE), to = opencl_queue_new (state, FALSE);
  TarnPool *pool = opencl_pool_new (state, memory);
  TarnBlock *own = opencl_allocate (pool, SIZE, to), *busy = opencl_allocate (pool, SIZE, from);
  gpointer own_pointer = tarn_block_get_memory (own).pointer;
  gpointer busy_pointer = tarn_block_get_memory (busy).pointer;
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  cl_event old, gate = use_behind_gate (state, from, busy, &old);
  guint64 waits;

  if (GPOINTER_TO_INT (data))
    hand_on (pool, SIZE);
  tarn_pool_get_stats (pool, &stats);
  waits = stats.queue_waits;
  tarn_block_free (own);
  tarn_block_free (busy);
  own = opencl_allocate (pool, SIZE, to);
  g_assert_true (tarn_block_get_memory (own).pointer == own_pointer);
  opencl_await (opencl_fill (to, own, NEW, NULL));
  tarn_pool_get_stats (pool, &stats);
  g_assert_cmpuint (stats.queue_waits, ==, waits);

  busy = opencl_allocate (pool, SIZE, from);
  g_assert_true (tarn_block_get_memory (busy).pointer == busy_pointer);
  opencl_gate_open (gate);
  opencl_await (old);
  opencl_assert_content (from, busy, OLD);
  tarn_block_free (own);
  tarn_block_free (busy);
  tarn_pool_unref (pool);
  opencl_queue_free (to);
  opencl_queue_free (from);
}

/* Fresh memory comes with a command on the allocator's queue, where it has one: another queue must
 * not use it before that. */
static void
test_fresh (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  cl_command_queue to = opencl_queue_new (state, FALSE);
  g_autoptr (TarnAllocator) allocator = memory->allocator_new (state, NULL);
  TarnPool *pool = opencl_pool_new (state, memory);
  TarnBlock *before = tarn_allocator_allocate (allocator, SIZE, NULL), *block;
  cl_event old, gate = use_behind_gate (state, state->queue, before, &old), written;
  gboolean has_queue = memory->allocator_new == opencl_immediate_new
                       || memory->allocator_new == opencl_svm_bound_new;

  (void) data;
  block = opencl_allocate (pool, SIZE, to);
  if (!has_queue)
    opencl_await (opencl_fill (to, block, NEW, NULL));
  written = opencl_fill (to, block, NEW, NULL);
  opencl_pass_time (state);
  g_assert_false (has_queue && opencl_is_complete (written));
  opencl_gate_open (gate);
  opencl_await (old);
  opencl_await (written);
  opencl_assert_content (to, block, NEW);
  tarn_block_free (block);
  tarn_block_free (before);
  tarn_pool_unref (pool);
  opencl_queue_free (to);
}

static void
test_other_context (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  cl_device_id device = opencl_get_device (state);
  cl_int status;
  OpenclState other = { clCreateContext (NULL, 1, &device, NULL, NULL, &status), NULL };
  g_autoptr (TarnAllocator) allocator = memory->allocator_new (state, NULL);
  TarnPool *pool = opencl_pool_new (state, memory);
  TarnBlock *blocks[]
      = { opencl_allocate (pool, SIZE, NULL), opencl_allocate (pool, SIZE, state->queue),
          tarn_allocator_allocate (allocator, SIZE, NULL) };
  g_autoptr (GError) error = NULL;

  (void) data;
  g_assert_cmpint (status, ==, CL_SUCCESS);
  other.queue = clCreateCommandQueue (other.context, device, 0, &status);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  g_assert_null (tarn_opencl_pool_allocate (pool, SIZE, other.queue, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);
  assert_valid (pool);
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    {
      cl_command_queue before = tarn_opencl_block_get_queue (blocks[i]);

      g_assert_false (tarn_opencl_block_record_use (blocks[i], other.queue, &error));
      g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
      g_clear_error (&error);
      g_assert_false (tarn_opencl_block_move_to_queue (blocks[i], other.queue, &error));
      g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
      g_clear_error (&error);
      g_assert_true (tarn_opencl_block_get_queue (blocks[i]) == before);
      tarn_block_free (blocks[i]);
    }
  assert_valid (pool);
  opencl_queue_free (other.queue);
  clReleaseContext (other.context);
  tarn_pool_unref (pool);
}

/* The caller may release a queue while held blocks remember it, and with work still to do. */
static void
test_released_queue (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  cl_command_queue from = opencl_queue_new (state, FALSE), to = opencl_queue_new (state, FALSE);
  const Race *race = data;
  TarnPool *pool = opencl_pool_new (state, memory);
  TarnBlock *small = race->has_met ? opencl_allocate (pool, 4, to) : NULL;
  TarnBlock *block = opencl_allocate (pool, SIZE, from);
  gpointer pointer = tarn_block_get_memory (block).pointer;
  cl_event old, gate = use_behind_gate (state, from, block, &old), written;

  if (race->is_handed_on)
    hand_on (pool, SIZE);
  tarn_block_free (block);
  g_assert_cmpint (clReleaseCommandQueue (from), ==, CL_SUCCESS);
  block = opencl_allocate (pool, SIZE, to);
  g_assert_true ((tarn_block_get_memory (block).pointer == pointer) == race->is_handed_on);
  if (!race->is_handed_on)
    opencl_await (opencl_fill (to, block, NEW, NULL));
  written = opencl_fill (to, block, NEW, NULL);
  opencl_pass_time (state);
  g_assert_false (race->is_handed_on && opencl_is_complete (written));
  opencl_gate_open (gate);
  opencl_await (old);
  opencl_await (written);
  opencl_assert_content (to, block, NEW);
  tarn_block_free (small);
  tarn_block_free (block);
  tarn_pool_unref (pool);
  opencl_queue_free (to);
}

#define GATE OPENCL_NEEDS_GATE
#define OUT_OF_ORDER (OPENCL_NEEDS_GATE | OPENCL_NEEDS_OUT_OF_ORDER)

int
main (int argc, char **argv)
{
  static const Race in_order = { .has_met = TRUE, .is_handed_on = TRUE },
                    late = { .is_handed_on = TRUE }, from_out = { .from_out_of_order = TRUE },
                    to_out = { .to_out_of_order = TRUE, .has_met = TRUE, .is_handed_on = TRUE },
                    late_to_out = { .to_out_of_order = TRUE, .is_handed_on = TRUE },
                    both_out = { .from_out_of_order = TRUE, .to_out_of_order = TRUE },
                    same_out = { .from_out_of_order = TRUE, .is_same_queue = TRUE },
                    recorded = { .is_recorded = TRUE, .has_met = TRUE },
                    late_recorded = { .is_recorded = TRUE },
                    recorded_out = { .is_recorded = TRUE, .from_out_of_order = TRUE },
                    apart = { .has_met = TRUE }, late_apart = { .has_met = FALSE },
                    apart_out = { .to_out_of_order = TRUE };
  static const OpenclQueueCase cases[] = {
    { "order/race/in-order", test_race, GATE, &in_order },
    { "order/race/late", test_race, GATE, &late },
    { "order/race/from-out-of-order", test_race, OUT_OF_ORDER, &from_out },
    { "order/race/to-out-of-order", test_race, OUT_OF_ORDER, &to_out },
    { "order/race/late-to-out-of-order", test_race, OUT_OF_ORDER, &late_to_out },
    { "order/race/out-of-order", test_race, OUT_OF_ORDER, &both_out },
    { "order/race/same-out-of-order", test_race, OUT_OF_ORDER, &same_out },
    { "order/race/recorded", test_race, GATE, &recorded },
    { "order/race/late-recorded", test_race, GATE, &late_recorded },
    { "order/race/recorded-out-of-order", test_race, OUT_OF_ORDER, &recorded_out },
    { "order/race/bind", test_bind, GATE, NULL },
    { "order/meanwhile/in-order", test_meanwhile, GATE, &apart },
    { "order/meanwhile/late", test_meanwhile, GATE, &late_apart },
    { "order/meanwhile/to-out-of-order", test_meanwhile, OUT_OF_ORDER, &apart_out },
    { "order/host-between", test_host_between, GATE, GINT_TO_POINTER (FALSE) },
    { "order/host-between-handed-on", test_host_between, GATE, GINT_TO_POINTER (TRUE) },
    { "order/preference", test_preference, GATE, GINT_TO_POINTER (FALSE) },
    { "order/preference-handed-on", test_preference, GATE, GINT_TO_POINTER (TRUE) },
    { "order/fresh", test_fresh, GATE, NULL },
    { "order/other-context", test_other_context, 0, NULL },
    { "order/released-queue", test_released_queue, GATE, &in_order },
    { "order/released-queue-late", test_released_queue, GATE, &late },
    { "order/released-queue-meanwhile", test_released_queue, GATE, &apart },
    { "order/released-queue-late-meanwhile", test_released_queue, GATE, &late_apart },
  };

  g_test_init (&argc, &argv, NULL);
  /* Each pool over a deferred allocator has one, which t/pool/allocator.c is about. */
  opencl_ignore_messages ();
  opencl_add_for_memories (cases, G_N_ELEMENTS (cases));
  return g_test_run ();
}
