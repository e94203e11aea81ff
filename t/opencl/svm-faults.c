/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Shared virtual memory with a layer above the driver that runs out of it, knows how long it lasts,
 * and has devices say that they can do less; and a loader that is older. */

#include <string.h>

#include "opencl/driver-private.h"
#include "queues.h"

/* Later than OpenCL 1.2. */
#define MEM_SVM_FINE_GRAIN_BUFFER (1 << 10)
#define MEM_SVM_ATOMICS (1 << 11)
#define DEVICE_SVM_CAPABILITIES 0x1053
#define COARSE_GRAIN (1 << 0)
#define FINE_GRAIN (1 << 1)

#define SIZE 4096

/* Bytes that are enough for each test, and are all that there is: how much more the device has, and
 * how late it gets to what it is to free, is another matter then. */
#define ROOM (1 << 20)

static const OpenclLayer *layer;

/* What clSVMAlloc was called with last, while it is watched. */
static struct
{
  cl_context context;
  cl_bitfield flags;
  size_t size;
  cl_uint alignment;
  gpointer (*alloc) (cl_context context, cl_bitfield flags, size_t size, cl_uint alignment);
} latest;

static gpointer
watch_alloc (cl_context context, cl_bitfield flags, size_t size, cl_uint alignment)
{
  latest.context = context;
  latest.flags = flags;
  latest.size = size;
  latest.alignment = alignment;
  return latest.alloc (context, flags, size, alignment);
}

/* The layer as a backend of the conformance tests */

static void
set_budget (gpointer unused, guint64 bytes)
{
  (void) unused;
  layer->set_budget (bytes, OPENCL_LAYER_AT_CREATION, CL_MEM_OBJECT_ALLOCATION_FAILURE);
}

static gpointer
open_svm (gconstpointer device, gchar **reason)
{
  OpenclState *state = opencl_open (device, reason);

  layer->reset ();
  set_budget (state, ROOM);
  if (state == NULL || (*reason = opencl_why_not (device, state, OPENCL_NEEDS_SVM)) == NULL)
    return state;
  opencl_close (state);
  return NULL;
}

/* What a command frees is alive until it has run. */
static guint
live (gpointer data)
{
  OpenclState *state = data;

  g_assert_cmpint (clFinish (state->queue), ==, CL_SUCCESS);
  return layer->get_live (OPENCL_LAYER_SVM, NULL, 0);
}

static void
close_svm (gpointer data)
{
  OpenclState *state = data;

  g_assert_cmpuint (live (state), ==, 0);
  g_assert_cmpuint (layer->get_live (OPENCL_LAYER_EVENT, NULL, 0), ==, 0);
  g_assert_cmpuint (layer->get_references (state->context), ==, 1);
  g_assert_cmpuint (layer->get_references (state->queue), ==, 1);
  opencl_close (state);
}

static void
fail (gpointer unused, guint nth, gboolean for_ever)
{
  (void) unused;
  layer->fail ("clSVMAlloc", nth, for_ever, CL_OUT_OF_RESOURCES);
}

#define BACKEND(name, constructor)                                                                 \
  static const Backend name = {                                                                    \
    .add = opencl_add_conformance,                                                                 \
    .open = open_svm,                                                                              \
    .close = close_svm,                                                                            \
    .allocator_new = constructor,                                                                  \
    .no_threads = opencl_no_threads_on_queue,                                                      \
    .set_budget = set_budget,                                                                      \
    .fail = fail,                                                                                  \
    .stop_failing = opencl_layer_stop_failing,                                                     \
    .live = live,                                                                                  \
  }

/* What is freed on a queue counts against the budget until that has run. */
BACKEND (unbound, opencl_svm_unbound_new);
BACKEND (bound, opencl_svm_bound_new);

static void
test_out_of_memory (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  g_autoptr (TarnAllocator) allocator = memory->allocator_new (state, NULL);
  g_autoptr (GError) error = NULL;

  (void) data;
  layer->reset ();
  layer->fail ("clSVMAlloc", 1, TRUE, CL_OUT_OF_RESOURCES);
  g_assert_null (tarn_allocator_allocate (allocator, 4711, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
  g_assert_cmpstr (error->message, ==, "clSVMAlloc: NULL for 4711 bytes");
  layer->fail (NULL, 0, FALSE, CL_SUCCESS);
  tarn_block_free (tarn_allocator_allocate (allocator, 4711, NULL));
}

/* What the driver is asked for. */
static void
assert_asked (const OpenclState *state, cl_uint alignment, cl_bitfield flags, cl_bitfield expected)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TarnAllocator) allocator
      = tarn_opencl_svm_allocator_new (state->context, alignment, flags, NULL, &error);

  g_assert_no_error (error);
  tarn_block_free (tarn_allocator_allocate (allocator, 1234, &error));
  g_assert_no_error (error);
  g_assert_true (latest.context == state->context);
  g_assert_cmpuint (latest.size, ==, 1234);
  g_assert_cmpuint (latest.alignment, ==, alignment);
  g_assert_cmphex (latest.flags, ==, expected);
}

static void
test_arguments (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  (void) memory;
  (void) data;
  latest.alloc = _tarn_cl.clSVMAlloc;
  _tarn_cl.clSVMAlloc = watch_alloc;
  assert_asked (state, 0, 0, CL_MEM_READ_WRITE);
  assert_asked (state, 64, 0, CL_MEM_READ_WRITE);
  assert_asked (state, 128, CL_MEM_READ_ONLY, CL_MEM_READ_ONLY);
  _tarn_cl.clSVMAlloc = latest.alloc;
}

/* What devices and loaders lack */

static void
assert_refused (const OpenclState *state, cl_bitfield flags, const gchar *text)
{
  g_autoptr (GError) error = NULL;
  gchar name[1000] = "";
  guint n_calls = layer->get_calls ("clSVMAlloc");

  clGetDeviceInfo (opencl_get_device (state), CL_DEVICE_NAME, sizeof name, name, NULL);
  g_assert_null (tarn_opencl_svm_allocator_new (state->context, 0, flags, NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
  g_assert_nonnull (strstr (error->message, text));
  g_assert_true (_tarn_cl.clSVMAlloc == NULL || strstr (error->message, name) != NULL);
  g_assert_cmpuint (layer->get_calls ("clSVMAlloc"), ==, n_calls);
  g_assert_cmpuint (layer->get_references (state->context), ==, 1);
}

static void
set_capabilities (cl_bitfield capabilities)
{
  layer->set_device_info (DEVICE_SVM_CAPABILITIES, &capabilities, sizeof capabilities);
}

static void
test_capabilities (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  const gchar *fine = "has no fine-grain shared virtual memory (CL_MEM_SVM_FINE_GRAIN_BUFFER)";
  const gchar *atomics = "has no atomics in shared virtual memory (CL_MEM_SVM_ATOMICS)";
  const cl_bitfield all = MEM_SVM_FINE_GRAIN_BUFFER | MEM_SVM_ATOMICS;
  TarnAllocator *allocator;

  (void) memory;
  (void) data;
  layer->reset ();
  layer->set_device_info (CL_DEVICE_VERSION, "OpenCL 2.0 of young", 20);
  layer->set_platform_info (CL_PLATFORM_VERSION, "OpenCL 2.0 of young", 20);
  set_capabilities (0);
  assert_refused (state, 0, "has no shared virtual memory");
  set_capabilities (COARSE_GRAIN);
  assert_refused (state, MEM_SVM_FINE_GRAIN_BUFFER, fine);
  assert_refused (state, all, fine);
  set_capabilities (COARSE_GRAIN | FINE_GRAIN);
  assert_refused (state, all, atomics);
  allocator = tarn_opencl_svm_allocator_new (state->context, 0, CL_MEM_READ_WRITE, NULL, NULL);
  g_assert_nonnull (allocator);
  tarn_allocator_unref (allocator);
  layer->reset ();
}

/* Whatever it says of shared virtual memory: it is not asked. */
static void
test_old_device (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  (void) memory;
  (void) data;
  layer->reset ();
  set_capabilities (COARSE_GRAIN | FINE_GRAIN);
  layer->set_device_info (CL_DEVICE_VERSION, "OpenCL 1.2 of old", 18);
  assert_refused (state, 0, "has no shared virtual memory");
  layer->reset ();
}

static void
test_old_loader (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  const TarnOpenclDriver all = _tarn_cl;

  (void) memory;
  (void) data;
  _tarn_cl.clSVMAlloc = NULL;
  assert_refused (state, 0, "the OpenCL loader is older than OpenCL 2.0");
  _tarn_cl = all;
}

/* Memory that is freed while it is used */

typedef struct
{
  TarnBlock *(*allocate) (OpenclState *state, const OpenclMemory *memory);
} Source;

static TarnBlock *
allocate_direct (OpenclState *state, const OpenclMemory *memory)
{
  g_autoptr (TarnAllocator) allocator = memory->allocator_new (state, NULL);
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_allocator_allocate (allocator, SIZE, &error);

  g_assert_no_error (error);
  return block;
}

/* One that goes back as soon as it is freed. */
static TarnBlock *
allocate_from_dead_pool (OpenclState *state, const OpenclMemory *memory)
{
  g_autoptr (TarnPool) pool = opencl_pool_new (state, memory);
  TarnBlock *block = opencl_allocate (pool, SIZE, NULL);

  tarn_pool_stop_holding (pool);
  return block;
}

static TarnBlock *
allocate_from_pool (OpenclState *state, const OpenclMemory *memory)
{
  g_autoptr (TarnPool) pool = opencl_pool_new (state, memory);

  return opencl_allocate (pool, SIZE, NULL);
}

/* The host goes on, and the memory stays, until all of its queues are done with it. */
static void
check_busy_free (OpenclState *state, TarnBlock *block, cl_command_queue first,
                 cl_command_queue second)
{
  g_autoptr (GError) error = NULL;
  guint n_waits = layer->get_calls ("clWaitForEvents");
  cl_event gate = opencl_gate_new (state), event;

  tarn_opencl_block_move_to_queue (block, first, &error);
  g_assert_no_error (error);
  if (second != NULL)
    tarn_opencl_block_record_use (block, second, &error);
  g_assert_no_error (error);
  event = opencl_fill (second != NULL ? second : first, block, 1, gate);
  tarn_block_free (block);
  opencl_pass_time (state);
  g_assert_false (opencl_is_complete (event));
  g_assert_cmpuint (layer->get_live (OPENCL_LAYER_SVM, NULL, 0), ==, 1);
  g_assert_cmpuint (layer->get_calls ("clWaitForEvents"), ==, n_waits);
  opencl_gate_open (gate);
  opencl_await (event);
  g_assert_cmpint (clFinish (first), ==, CL_SUCCESS);
  g_assert_cmpuint (layer->get_live (OPENCL_LAYER_SVM, NULL, 0), ==, 0);
  g_assert_cmpuint (layer->get_live (OPENCL_LAYER_EVENT, NULL, 0), ==, 0);
}

static void
test_busy_free (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  cl_command_queue first = opencl_queue_new (state, FALSE);
  cl_command_queue second = opencl_queue_new (state, FALSE);
  const Source *source = data;

  layer->reset ();
  check_busy_free (state, source->allocate (state, memory), first, NULL);
  check_busy_free (state, source->allocate (state, memory), first, second);
  opencl_queue_free (second);
  opencl_queue_free (first);
  g_assert_cmpuint (layer->get_references (state->context), ==, 1);
}

/* Memory that a queue has still to free, while there is no other */

static TarnBlock *
allocate_for (TarnAllocator *allocator, cl_command_queue queue, GError **error)
{
  TarnBlock *block = tarn_allocator_allocate (allocator, SIZE, error);

  if (block != NULL)
    g_assert_true (tarn_opencl_block_move_to_queue (block, queue, NULL));
  return block;
}

/* All that there is, freed on a queue that waits for the gate. */
static cl_event
free_behind_gate (OpenclState *state, TarnAllocator *allocator, cl_command_queue queue)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = allocate_for (allocator, queue, &error);
  cl_event gate = opencl_gate_new (state);

  g_assert_no_error (error);
  g_assert_cmpint (clReleaseEvent (opencl_fill (queue, block, 1, gate)), ==, CL_SUCCESS);
  tarn_block_free (block);
  g_assert_cmpuint (layer->get_live_bytes (), ==, SIZE);
  return gate;
}

typedef struct
{
  cl_event gate;
  guint n_calls; /* of clSVMAlloc, before the one that is to wait */
} Opener;

/* Not before the driver has refused. */
static gpointer
open_when_refused (gpointer data)
{
  const Opener *opener = data;

  while (layer->get_calls ("clSVMAlloc") == opener->n_calls)
    g_thread_yield ();
  opencl_gate_open (opener->gate);
  return NULL;
}

/* What is not free yet, but will be, is waited for. */
static void
allocate_while_pending (OpenclState *state, TarnAllocator *allocator, cl_command_queue queue)
{
  Opener opener = { .gate = free_behind_gate (state, allocator, queue),
                    .n_calls = layer->get_calls ("clSVMAlloc") };
  GThread *thread = g_thread_new ("opener", open_when_refused, &opener);
  g_autoptr (GError) error = NULL;
  TarnBlock *block = allocate_for (allocator, queue, &error);

  g_assert_no_error (error);
  g_thread_join (thread);
  tarn_block_free (block);
}

/* A legal program: the gate is for the thread to open that allocates.  It has to wait once to find
 * out that it must not; so that is not where all of these have their time. */
static void
allocate_in_vain (OpenclState *state, TarnAllocator *allocator, cl_command_queue queue)
{
  cl_event gate = free_behind_gate (state, allocator, queue);
  gint64 begin = g_get_monotonic_time ();

  for (guint i = 0; i < 20; i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_null (allocate_for (allocator, queue, &error));
      g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
    }
  g_assert_cmpint (g_get_monotonic_time () - begin, <, 15 * G_TIME_SPAN_SECOND);
  opencl_gate_open (gate);
  g_assert_cmpint (clFinish (queue), ==, CL_SUCCESS);
  g_assert_cmpuint (layer->get_live_bytes (), ==, 0);
}

static void
test_pending (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  cl_command_queue first = opencl_queue_new (state, FALSE);
  cl_command_queue second = opencl_queue_new (state, FALSE);
  TarnAllocator *allocator = memory->allocator_new (state, NULL);

  (void) data;
  layer->reset ();
  set_budget (state, SIZE);
  allocate_while_pending (state, allocator, first);
  allocate_in_vain (state, allocator, first);
  allocate_while_pending (state, allocator, second);
  allocate_while_pending (state, allocator, first);
  tarn_allocator_unref (allocator);
  opencl_queue_free (second);
  opencl_queue_free (first);
  g_assert_cmpuint (layer->get_live (OPENCL_LAYER_SVM, NULL, 0), ==, 0);
  g_assert_cmpuint (layer->get_references (state->context), ==, 1);
  layer->reset ();
}

/* Threads that use a block each, and have their queue free it, where there is room for no more than
 * that: what one of them needs, others are giving back at that moment. */

#define N_THREADS 8
#define N_ROUNDS 200

static gpointer
use_one_block (gpointer data)
{
  TarnPool *pool = data;

  for (guint i = 0; i < N_ROUNDS; i++)
    {
      /* Rounding adds nothing to these. */
      tarn_block_free (allocate (pool, (SIZE >> (i % 5)) - 1));
      tarn_pool_free_held (pool);
    }
  return NULL;
}

static void
test_threads (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  GThread *threads[N_THREADS];
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  TarnPool *pool;

  (void) data;
  layer->reset ();
  set_budget (state, N_THREADS * SIZE);
  pool = opencl_pool_new (state, memory);
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("one-block", use_one_block, pool);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  tarn_pool_get_stats (pool, &stats);
  g_assert_cmpuint (stats.failures, ==, 0);
  tarn_pool_unref (pool);
  g_assert_cmpuint (live (state), ==, 0);
  layer->reset ();
}

/* A driver whose command fails, because an earlier one did.  The test calls the functions of the
 * program that the driver was given, as drivers do: only that of the event, or both. */

static struct
{
  void (CL_CALLBACK *command) (cl_command_queue, cl_uint, gpointer[], gpointer);
  gpointer command_data;
  void (CL_CALLBACK *notify) (cl_event event, cl_int status, void *user_data);
  gpointer user_data;
} failing;

static cl_int
enqueue_failing (cl_command_queue queue, cl_uint n, gpointer pointers[],
                 void (CL_CALLBACK *notify) (cl_command_queue, cl_uint, gpointer[], gpointer),
                 gpointer user_data, cl_uint n_waits, const cl_event *waits, cl_event *event)
{
  (void) n;
  (void) pointers;
  (void) n_waits;
  (void) waits;
  failing.command = notify;
  failing.command_data = user_data;
  return clEnqueueMarkerWithWaitList (queue, 0, NULL, event);
}

static cl_int
set_failing_callback (cl_event event, cl_int status,
                      void (CL_CALLBACK *notify) (cl_event, cl_int, void *), void *user_data)
{
  (void) event;
  g_assert_cmpint (status, ==, CL_COMPLETE);
  failing.notify = notify;
  failing.user_data = user_data;
  return CL_SUCCESS;
}

static cl_int
say_failed (cl_event event, cl_event_info name, size_t size, void *value, size_t *size_out)
{
  (void) event;
  (void) size_out;
  g_assert_cmpuint (name, ==, CL_EVENT_COMMAND_EXECUTION_STATUS);
  g_assert_cmpuint (size, ==, sizeof (cl_int));
  *(cl_int *) value = CL_OUT_OF_RESOURCES;
  return CL_SUCCESS;
}

static void
free_by_failing (OpenclState *state, gboolean calls_command)
{
  const OpenclMemory kind = { "svm-bound", TRUE, opencl_svm_bound_new };
  TarnBlock *block = allocate_direct (state, &kind);
  const TarnOpenclDriver all = _tarn_cl;

  layer->reset ();
  _tarn_cl.clEnqueueSVMFree = enqueue_failing;
  _tarn_cl.clSetEventCallback = set_failing_callback;
  tarn_block_free (block);
  g_assert_cmpuint (live (state), ==, 1);
  _tarn_cl.clGetEventInfo = say_failed;
  if (calls_command)
    failing.command (NULL, 1, NULL, failing.command_data);
  failing.notify (NULL, CL_COMPLETE, failing.user_data);
  _tarn_cl = all;
  g_assert_cmpuint (live (state), ==, 0);
  g_assert_cmpuint (layer->get_calls ("clSVMFree"), ==, 1);
  g_assert_cmpuint (layer->get_live (OPENCL_LAYER_EVENT, NULL, 0), ==, 0);
}

/* Memory is freed once even if the command that frees it fails. */
static void
test_failed_free (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  (void) memory;
  (void) data;
  free_by_failing (state, FALSE);
  free_by_failing (state, TRUE);
}

/* Nobody has to wait for memory that no queue was named for. */
static void
test_unbound_free (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  const OpenclMemory kind = { "svm", TRUE, opencl_svm_unbound_new };

  (void) memory;
  (void) data;
  layer->reset ();
  tarn_block_free (allocate_direct (state, &kind));
  tarn_block_free (allocate_from_dead_pool (state, &kind));
  g_assert_cmpuint (layer->get_calls ("clSVMFree"), ==, 2);
  g_assert_cmpuint (layer->get_calls ("clEnqueueSVMFree"), ==, 0);
  g_assert_cmpuint (layer->get_calls ("clEnqueueMarkerWithWaitList"), ==, 0);
  g_assert_cmpuint (layer->get_live (OPENCL_LAYER_SVM, NULL, 0), ==, 0);
}

/* To be bound to a second queue makes that wait for the first, with a marker and a barrier, and
 * leaves no events. */
static void
test_bind (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  cl_command_queue other = opencl_queue_new (state, FALSE);
  const OpenclMemory kind = { "svm-bound", TRUE, opencl_svm_bound_new };
  TarnBlock *blocks[] = { allocate_direct (state, &kind), allocate_from_pool (state, &kind) };

  (void) memory;
  (void) data;
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    {
      g_autoptr (GError) error = NULL;

      layer->reset ();
      tarn_opencl_block_move_to_queue (blocks[i], other, &error);
      g_assert_cmpuint (layer->get_calls ("clEnqueueMarkerWithWaitList"), ==, 1);
      g_assert_cmpuint (layer->get_calls ("clEnqueueBarrierWithWaitList"), ==, 1);
      tarn_opencl_block_move_to_queue (blocks[i], other, &error);
      g_assert_cmpuint (layer->get_calls ("clEnqueueMarkerWithWaitList"), ==, 1);
      g_assert_cmpuint (layer->get_calls ("clWaitForEvents"), ==, 0);
      tarn_block_wait (blocks[i], &error);
      g_assert_cmpuint (layer->get_calls ("clWaitForEvents"), <=, 1);
      g_assert_no_error (error);
      g_assert_cmpuint (layer->get_live (OPENCL_LAYER_EVENT, NULL, 0), ==, 0);
      g_assert_cmpuint (layer->get_references (other), ==, 1);
      tarn_block_free (blocks[i]);
    }
  opencl_queue_free (other);
}

#define SVM OPENCL_NEEDS_SVM
#define GATE (OPENCL_NEEDS_SVM | OPENCL_NEEDS_GATE)

int
main (int argc, char **argv)
{
  static const Source direct = { allocate_direct }, dead_pool = { allocate_from_dead_pool },
                      pool = { allocate_from_pool };
  static const OpenclQueueCase for_memories[] = {
    { "svm/out-of-memory", test_out_of_memory, SVM, NULL },
    { "svm/busy-free/direct", test_busy_free, GATE, &direct },
    { "svm/busy-free/no-holding", test_busy_free, GATE, &dead_pool },
    { "svm/busy-free/pool-gone", test_busy_free, GATE, &pool },
    { "svm/pending", test_pending, GATE, NULL },
    { "svm/pending/threads", test_threads, OPENCL_NEEDS_SVM | OPENCL_NEEDS_THREADS, NULL },
  };
  static const OpenclQueueCase cases[] = {
    { "svm/arguments", test_arguments, SVM, NULL },
    { "svm/capabilities", test_capabilities, 0, NULL },
    { "svm/old-device", test_old_device, 0, NULL },
    { "svm/old-loader", test_old_loader, SVM, NULL },
    { "svm/unbound-free", test_unbound_free, SVM, NULL },
    { "svm/failed-free", test_failed_free, SVM, NULL },
    { "svm/bind", test_bind, SVM, NULL },
  };

  g_test_init (&argc, &argv, NULL);
  layer = opencl_layer_load ();
  if (layer == NULL)
    {
      opencl_add_no_layer ("/opencl/no-layer");
      return g_test_run ();
    }
  conformance_add ("svm-full/unbound", &unbound);
  conformance_add ("svm-full/bound", &bound);
  conformance_add_over_heap ("svm-full/heap", &bound);
  opencl_add_for_memories (for_memories, G_N_ELEMENTS (for_memories));
  opencl_add_for_devices (cases, G_N_ELEMENTS (cases));
  return g_test_run ();
}
