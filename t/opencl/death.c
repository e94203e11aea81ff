/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Every order of death on every OpenCL device, with a layer above the driver that has a ledger.  No
 * kernel is run. */

#include "lib/death-matrix.h"
#include "queues.h"

static const OpenclLayer *layer;

static const gchar *
no_threads (gconstpointer device)
{
  return opencl_no_threads_on_queue (device);
}

static const OpenclMemory deferred = { "deferred", FALSE, opencl_deferred_new };
static const OpenclMemory immediate = { "immediate", FALSE, opencl_immediate_new };
static TarnAllocator *
heap_new (gpointer state, GError **error)
{
  g_autoptr (TarnAllocator) driver = opencl_immediate_new (state, error);

  return driver != NULL ? tarn_heap_allocator_new (driver, NULL, error) : NULL;
}

static const OpenclMemory heap = { "heap", FALSE, heap_new };
static const OpenclMemory svm = { "svm", TRUE, opencl_svm_unbound_new };
static const OpenclMemory bound = { "svm-bound", TRUE, opencl_svm_bound_new };

/* Contexts of GPUs may take so long that there is no time for each path. */
#define LONG_TIME (50 * G_TIME_SPAN_MILLISECOND)
#define ONE_IN 10

static gint64 context_time = 0; /* what the quickest took until now */

/* One path in ten where contexts take long, others with another --seed. */
static gboolean
is_left_out (void)
{
  static guint n_paths = 0;
  guint first = (guint) g_test_rand_int_range (0, ONE_IN);

  return context_time > LONG_TIME && !g_test_slow () && (first + n_paths++) % ONE_IN != 0;
}

static void
run (const TarnOpenclTest *test, gconstpointer data)
{
  if (is_left_out ())
    g_test_skip ("one path in ten, as contexts take long here: -m slow");
  else
    death_run (data, test->info);
}

static void
add (const gchar *path, gconstpointer data)
{
  tarn_opencl_test_add (path, run, data);
}

static void
note_context_time (gint64 time)
{
  context_time = context_time == 0 ? time : MIN (context_time, time);
}

static gboolean
open_device (DeathWorld *world)
{
  const OpenclMemory *memory = world->backend->kind;
  gint64 start = g_get_monotonic_time ();
  g_autofree gchar *reason = NULL;
  OpenclState *state = opencl_open (world->device, &reason);

  note_context_time (g_get_monotonic_time () - start);
  if (state != NULL && memory->is_svm
      && (reason = opencl_why_not (world->device, state, OPENCL_NEEDS_SVM)) != NULL)
    opencl_close (g_steal_pointer (&state));
  if (state == NULL)
    {
      g_test_skip (reason);
      return FALSE;
    }
  world->context = state->context;
  world->a = state->queue;
  world->b = opencl_queue_new (state, FALSE);
  g_free (state);
  return TRUE;
}

static guint
count_live (void)
{
  guint n = 0;

  for (OpenclLayerKind kind = 0; kind < OPENCL_LAYER_N_KINDS; kind++)
    n += layer->get_live (kind, NULL, 0);
  return n;
}

/* Memory that a queue frees goes in a thread of the driver's. */
static void
close_device (DeathWorld *world)
{
  gint64 deadline = g_get_monotonic_time () + 20 * G_TIME_SPAN_SECOND;

  g_assert_cmpint (clReleaseCommandQueue (world->b), ==, CL_SUCCESS);
  while (count_live () > 0 && g_get_monotonic_time () < deadline)
    g_thread_yield ();
  g_assert_cmpuint (count_live (), ==, 0);
}

static TarnAllocator *
allocator_new (DeathWorld *world, GError **error)
{
  OpenclState state = { world->context, world->a };

  return ((const OpenclMemory *) world->backend->kind)->allocator_new (&state, error);
}

static void
release_context (DeathWorld *world)
{
  g_assert_cmpint (clReleaseContext (world->context), ==, CL_SUCCESS);
}

static void
release_queue (DeathWorld *world)
{
  g_assert_cmpint (clReleaseCommandQueue (world->a), ==, CL_SUCCESS);
}

static cl_int
fill_svm (cl_command_queue queue, TarnBlock *block)
{
  static const guint32 value;
  cl_int (*fill) (cl_command_queue, gpointer, gconstpointer, size_t, size_t, cl_uint,
                  const cl_event *, cl_event *);

  *(gpointer *) &fill = opencl_find_function ("clEnqueueSVMMemFill");
  return fill (queue, tarn_opencl_block_get_svm (block), &value, sizeof value,
               tarn_block_get_size (block), 0, NULL, NULL);
}

/* What is there afterwards does not matter. */
static void
use (DeathWorld *world, TarnBlock *block, gpointer queue)
{
  const guint32 value = 0;
  cl_int status;

  if (((const OpenclMemory *) world->backend->kind)->is_svm)
    status = fill_svm (queue, block);
  else
    status = clEnqueueFillBuffer (queue, tarn_opencl_block_get_buffer (block), &value, sizeof value,
                                  0, tarn_block_get_size (block), 0, NULL, NULL);
  g_assert_cmpint (status, ==, CL_SUCCESS);
}

static void
check (DeathWorld *world, TarnBlock *block)
{
  (void) world;
  g_assert_cmpuint (layer->get_references (tarn_block_get_memory (block).pointer), ==, 1);
}

static guint
get_calls (DeathWorld *world)
{
  (void) world;
  return layer->get_calls (NULL);
}

#define BACKEND(path, memory)                                                                      \
  {                                                                                                \
    .name = path, .kind = &memory, .add = add, .no_threads = no_threads, .open = open_device,      \
    .close = close_device, .allocator_new = allocator_new,                                         \
    .memo_new = tarn_opencl_context_memo_new, .release_context = release_context,                  \
    .release_queue = release_queue, .use = use, .check = check, .get_calls = get_calls,            \
    .n_orders = 5                                                                                  \
  }

static const DeathBackend backends[] = {
  BACKEND ("deferred", deferred), BACKEND ("immediate", immediate), BACKEND ("heap", heap),
  BACKEND ("svm", svm),           BACKEND ("svm-bound", bound),
};

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  layer = opencl_layer_load ();
  if (layer == NULL)
    {
      opencl_add_no_layer ("/opencl/no-layer");
      return g_test_run ();
    }
  death_init ();
  for (gsize i = 0; i < G_N_ELEMENTS (backends); i++)
    death_add ("death", &backends[i]);
  return g_test_run ();
}
