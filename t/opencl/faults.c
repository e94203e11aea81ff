/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Buffers on every OpenCL device, with a layer above the driver that runs out of memory and has
 * calls fail. */

#include <string.h>

#include "device.h"
#include "layer.h"

static const OpenclLayer *layer;

/* The call that puts a new buffer on the device at once: which one depends on the device. */
static const gchar *residency_call;

static void
pretend_nvidia (void)
{
  const cl_uint vendor = 0x10de;

  layer->set_device_info (CL_DEVICE_VENDOR_ID, &vendor, sizeof vendor);
}

static void
pretend_old (void)
{
  layer->set_device_info (CL_DEVICE_VERSION, "OpenCL 1.1 of old", 18);
}

/* The layer as a backend of the conformance tests: once where memory runs out in clCreateBuffer,
 * and once for each call in which a device may find out later. */

static void
find_residency_call (OpenclState *state)
{
  static const gchar *const calls[]
      = { "clEnqueueFillBuffer", "clEnqueueMigrateMemObjects", "clEnqueueWriteBuffer" };
  g_autoptr (TarnAllocator) allocator = opencl_immediate_new (state, NULL);

  tarn_block_free (tarn_allocator_allocate (allocator, 100, NULL));
  residency_call = NULL;
  for (guint i = 0; i < G_N_ELEMENTS (calls); i++)
    if (layer->get_calls (calls[i]) > 0)
      {
        g_assert_null (residency_call);
        g_assert_cmpuint (layer->get_calls (calls[i]), ==, 1);
        residency_call = calls[i];
      }
  g_assert_nonnull (residency_call);
}

static gpointer
open_pretending (gconstpointer device, void (*pretend) (void), gchar **reason)
{
  gpointer state = opencl_open (device, reason);

  layer->reset ();
  if (state == NULL)
    return NULL;
  if (pretend != NULL)
    pretend ();
  find_residency_call (state);
  return state;
}

static gpointer
open_with_layer (gconstpointer device, gchar **reason)
{
  return open_pretending (device, NULL, reason);
}

static gpointer
open_nvidia (gconstpointer device, gchar **reason)
{
  return open_pretending (device, pretend_nvidia, reason);
}

static gpointer
open_old (gconstpointer device, gchar **reason)
{
  return open_pretending (device, pretend_old, reason);
}

static void
close_with_layer (gpointer state)
{
  g_assert_cmpuint (layer->get_live (OPENCL_LAYER_BUFFER, NULL, 0), ==, 0);
  g_assert_cmpuint (layer->get_references (((OpenclState *) state)->context), ==, 1);
  g_assert_cmpuint (layer->get_references (((OpenclState *) state)->queue), ==, 1);
  opencl_close (state);
  layer->reset ();
  g_assert_cmpuint (layer->get_live (OPENCL_LAYER_QUEUE, NULL, 0), ==, 0);
  g_assert_cmpuint (layer->get_live (OPENCL_LAYER_CONTEXT, NULL, 0), ==, 0);
}

static void
set_budget_at_creation (gpointer unused, guint64 bytes)
{
  (void) unused;
  layer->set_budget (bytes, OPENCL_LAYER_AT_CREATION, CL_MEM_OBJECT_ALLOCATION_FAILURE);
}

static void
set_budget_at_migration (gpointer unused, guint64 bytes)
{
  (void) unused;
  layer->set_budget (bytes, OPENCL_LAYER_AT_MIGRATION, CL_OUT_OF_RESOURCES);
}

static void
fail_creation (gpointer unused, guint nth, gboolean for_ever)
{
  (void) unused;
  layer->fail ("clCreateBuffer", nth, for_ever, CL_OUT_OF_HOST_MEMORY);
}

static void
fail_migration (gpointer unused, guint nth, gboolean for_ever)
{
  (void) unused;
  layer->fail (residency_call, nth, for_ever, CL_OUT_OF_RESOURCES);
}

static guint
live (gpointer unused)
{
  (void) unused;
  return layer->get_live (OPENCL_LAYER_BUFFER, NULL, 0);
}

#define BACKEND(name, open_it, budget, fail_it)                                                    \
  static const Backend name = {                                                                    \
    .add = opencl_add_conformance,                                                                 \
    .open = open_it,                                                                               \
    .close = close_with_layer,                                                                     \
    .allocator_new = opencl_immediate_new,                                                         \
    .no_threads = opencl_no_threads_on_queue,                                                      \
    .set_budget = budget,                                                                          \
    .fail = fail_it,                                                                               \
    .stop_failing = opencl_layer_stop_failing,                                                     \
    .live = live,                                                                                  \
  }

BACKEND (creation_backend, open_with_layer, set_budget_at_creation, fail_creation);
BACKEND (migration_backend, open_with_layer, set_budget_at_migration, fail_migration);
BACKEND (nvidia_backend, open_nvidia, set_budget_at_migration, fail_migration);
BACKEND (old_backend, open_old, set_budget_at_migration, fail_migration);

/* Every call that making an allocator needs, failing in turn: the error says which one it was, and
 * no reference is left on context or queue. */
static void
test_constructors (const TarnOpenclDevice *device, OpenclState *state)
{
  guint failures = 0;

  (void) device;
  layer->reset ();
  for (guint nth = 1;; nth++)
    {
      g_autoptr (GError) error = NULL;
      TarnAllocator *allocator;

      layer->fail (NULL, nth, FALSE, CL_INVALID_OPERATION);
      allocator = tarn_opencl_immediate_allocator_new (state->queue, 0, &error);
      if (layer->get_failed () == NULL)
        {
          g_assert_no_error (error);
          layer->fail (NULL, 0, FALSE, CL_SUCCESS);
          tarn_allocator_unref (allocator);
          break;
        }
      failures++;
      g_assert_null (allocator);
      g_assert_error (error, TARN_OPENCL_ERROR, CL_INVALID_OPERATION);
      g_assert_true (g_str_has_prefix (error->message, layer->get_failed ()));
      g_assert_cmpuint (layer->get_references (state->context), ==, 1);
      g_assert_cmpuint (layer->get_references (state->queue), ==, 1);
    }
  g_assert_cmpuint (failures, ==, 21);
  g_assert_cmpuint (layer->get_references (state->context), ==, 1);
  g_assert_cmpuint (layer->get_references (state->queue), ==, 1);
}

/* Each status of each call that allocates: which error it becomes, and that no buffer leaks. */
static void
test_statuses (const TarnOpenclDevice *device, OpenclState *state)
{
  static const struct
  {
    gboolean of_creation;
    cl_int status;
    gboolean out_of_memory;
    const gchar *text;
  } rows[] = {
    { TRUE, CL_MEM_OBJECT_ALLOCATION_FAILURE, TRUE, "CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)" },
    { TRUE, CL_OUT_OF_RESOURCES, TRUE, "CL_OUT_OF_RESOURCES (-5)" },
    { TRUE, CL_OUT_OF_HOST_MEMORY, TRUE, "CL_OUT_OF_HOST_MEMORY (-6)" },
    { TRUE, CL_INVALID_CONTEXT, FALSE, "CL_INVALID_CONTEXT (-34)" },
    { FALSE, CL_MEM_OBJECT_ALLOCATION_FAILURE, TRUE, "CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)" },
    { FALSE, -9999, FALSE, "unknown status (-9999)" },
  };
  g_autoptr (TarnAllocator) allocator = NULL;

  (void) device;
  layer->reset ();
  find_residency_call (state);
  allocator = opencl_allocator (state);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      const gchar *function = rows[i].of_creation ? "clCreateBuffer" : residency_call;
      g_autofree gchar *message = g_strdup_printf ("%s: %s for 4711 bytes", function, rows[i].text);
      g_autoptr (GError) error = NULL;

      layer->fail (function, 1, TRUE, rows[i].status);
      g_assert_null (tarn_allocator_allocate (allocator, 4711, &error));
      if (rows[i].out_of_memory)
        g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
      else
        g_assert_error (error, TARN_OPENCL_ERROR, rows[i].status);
      g_assert_cmpint (tarn_error_is_no_memory (error), ==, rows[i].out_of_memory);
      g_assert_cmpstr (error->message, ==, message);
      g_assert_cmpuint (layer->get_live (OPENCL_LAYER_BUFFER, NULL, 0), ==, 0);
      layer->fail (NULL, 0, FALSE, CL_SUCCESS);
      tarn_block_free (tarn_allocator_allocate (allocator, 4711, NULL));
    }
}

/* Before OpenCL 1.2 there is no migration: the first bytes are written instead. */
static void
test_old_device (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnAllocator) allocator = NULL;
  g_autoptr (GError) error = NULL;

  (void) device;
  layer->reset ();
  pretend_old ();
  allocator = opencl_allocator (state);
  for (gsize size = 0; size <= 8; size++)
    {
      TarnBlock *block = tarn_allocator_allocate (allocator, size, &error);

      g_assert_no_error (error);
      tarn_block_free (block);
    }
  g_assert_cmpuint (layer->get_calls ("clEnqueueWriteBuffer"), ==, 8);
  g_assert_cmpuint (layer->get_calls ("clEnqueueMigrateMemObjects"), ==, 0);

  layer->fail ("clEnqueueWriteBuffer", 1, TRUE, CL_INVALID_OPERATION);
  g_assert_null (tarn_allocator_allocate (allocator, 100, &error));
  g_assert_error (error, TARN_OPENCL_ERROR, CL_INVALID_OPERATION);
  g_assert_cmpuint (layer->get_live (OPENCL_LAYER_BUFFER, NULL, 0), ==, 0);
  layer->reset ();
}

/* A migration on NVIDIA's devices is not safe in threads: the first bytes are filled instead, also
 * where the host has no access. */
static void
test_nvidia (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnAllocator) allocator = NULL;
  g_autoptr (GError) error = NULL;

  (void) device;
  layer->reset ();
  pretend_nvidia ();
  allocator = tarn_opencl_immediate_allocator_new (state->queue, CL_MEM_HOST_NO_ACCESS, &error);
  g_assert_no_error (error);
  for (gsize size = 0; size <= 8; size++)
    {
      TarnBlock *block = tarn_allocator_allocate (allocator, size, &error);

      g_assert_no_error (error);
      tarn_block_free (block);
    }
  g_assert_cmpuint (layer->get_calls ("clEnqueueFillBuffer"), ==, 8);
  g_assert_cmpuint (layer->get_calls ("clEnqueueMigrateMemObjects"), ==, 0);
  layer->reset ();
}

static void
test_bad_version (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (GError) error = NULL;

  (void) device;
  layer->reset ();
  layer->set_device_info (CL_DEVICE_VERSION, "not OpenCL at all", 18);
  g_assert_null (tarn_opencl_immediate_allocator_new (state->queue, 0, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_FAILED);
  g_assert_nonnull (strstr (error->message, "'not OpenCL at all'"));
  g_assert_cmpuint (layer->get_references (state->queue), ==, 1);
  layer->reset ();
}

/* A platform that is older than its device lacks the device's functions. */
static void
test_old_platform (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnAllocator) allocator = NULL;
  g_autoptr (GError) error = NULL;
  gboolean svm;

  layer->reset ();
  layer->set_platform_info (CL_PLATFORM_VERSION, "OpenCL 1.1 of old", 18);
  allocator = opencl_allocator (state);
  tarn_block_free (tarn_allocator_allocate (allocator, 100, NULL));
  g_assert_cmpuint (layer->get_calls ("clEnqueueWriteBuffer"), ==, 1);
  g_assert_true (tarn_opencl_has_coarse_grain_buffer_svm (device->device, &svm, &error));
  g_assert_no_error (error);
  g_assert_false (svm);

  layer->set_platform_info (CL_PLATFORM_VERSION, "none", 5);
  g_clear_pointer (&allocator, tarn_allocator_unref);
  g_assert_null (tarn_opencl_immediate_allocator_new (state->queue, 0, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_FAILED);
  g_assert_nonnull (strstr (error->message, "clGetPlatformInfo: 'none'"));
  layer->reset ();
}

/* OpenCL 1.0 has no sub-buffers. */
static void
test_too_old (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (GError) error = NULL;

  (void) device;
  layer->reset ();
  layer->set_platform_info (CL_PLATFORM_VERSION, "OpenCL 1.0 of old", 18);
  g_assert_null (tarn_opencl_immediate_allocator_new (state->queue, 0, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
  g_assert_nonnull (strstr (error->message, "OpenCL 1.0"));
  g_clear_error (&error);
  g_assert_null (tarn_opencl_deferred_allocator_new (state->context, 0, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
  g_assert_cmpuint (layer->get_references (state->context), ==, 1);
  g_assert_cmpuint (layer->get_references (state->queue), ==, 1);
  layer->reset ();
}

/* But for the question who has references on a buffer. */
static guint
count_calls (void)
{
  return layer->get_calls (NULL) - layer->get_calls ("clGetMemObjectInfo");
}

/* A hit makes no driver call. */
static void
test_hits (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnAllocator) allocator = NULL;
  g_autoptr (TarnPool) pool = NULL;
  TarnBlock *block;
  guint calls;

  (void) device;
  layer->reset ();
  allocator = opencl_allocator (state);
  pool = tarn_pool_new (allocator, NULL, NULL);
  block = tarn_pool_allocate (pool, 1000, NULL);
  clFinish (state->queue); /* some drivers count that a command uses the buffer */
  tarn_block_free (block);
  calls = count_calls ();
  g_assert_cmpuint (layer->get_calls ("clCreateBuffer"), ==, 1);
  for (guint i = 0; i < 1000; i++)
    tarn_block_free (tarn_pool_allocate (pool, 1000 + i % 20, NULL));
  g_assert_cmpuint (count_calls (), ==, calls);
}

/* A release that fails is a message and not the end; the pool's counters stay right. */
static void
test_failing_release (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnAllocator) allocator = NULL;
  g_autoptr (TarnPool) pool = NULL;
  gpointer lost = NULL;

  (void) device;
  layer->reset ();
  allocator = opencl_allocator (state);
  pool = tarn_pool_new (allocator, NULL, NULL);
  tarn_block_free (tarn_pool_allocate (pool, 1000, NULL));
  layer->fail ("clReleaseMemObject", 1, FALSE, CL_INVALID_MEM_OBJECT);
  g_test_expect_message ("Tarn-OpenCL", G_LOG_LEVEL_MESSAGE,
                         "clReleaseMemObject: CL_INVALID_MEM_OBJECT (-38)*1023 bytes*");
  tarn_pool_free_held (pool);
  g_test_assert_expected_messages ();
  g_assert_cmpuint (tarn_pool_get_managed_bytes (pool), ==, 0);
  g_assert_cmpuint (layer->get_live (OPENCL_LAYER_BUFFER, &lost, 1), ==, 1);
  clReleaseMemObject (lost);
  tarn_block_free (tarn_pool_allocate (pool, 1000, NULL));
}

/* What the driver says of the device's memory: all of it, and of AMD's drivers what is free. */
static void
test_budget (const TarnOpenclDevice *device, OpenclState *state)
{
  static const gchar amd[] = "cl_khr_icd cl_amd_device_attribute_query";
  const size_t free_kib[] = { 3 << 10, 1 << 10 };
  const cl_ulong total = 64 << 20;
  g_autoptr (TarnPool) pool = NULL;
  g_autoptr (GError) error = NULL;
  TarnBudget budget = TARN_BUDGET_INIT;
  TarnBlock *block;

  (void) device;
  layer->reset ();
  pool = tarn_opencl_pool_new (state->queue, 0, NULL, NULL);
  layer->set_device_info (CL_DEVICE_GLOBAL_MEM_SIZE, &total, sizeof total);
  layer->set_device_info (CL_DEVICE_EXTENSIONS, "cl_khr_icd", sizeof "cl_khr_icd");
  g_assert_true (tarn_pool_get_budget (pool, &budget, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (budget.device_bytes, ==, total);
  g_assert_cmpuint (budget.free_bytes, ==, G_MAXUINT64);
  g_assert_cmpuint (budget.budget_bytes, ==, total);

  layer->set_device_info (CL_DEVICE_EXTENSIONS, amd, sizeof amd);
  layer->set_device_info (0x4039, free_kib, sizeof free_kib);
  block = tarn_opencl_pool_allocate (pool, 1 << 20, state->queue, NULL);
  g_assert_true (tarn_pool_get_budget (pool, &budget, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (budget.free_bytes, ==, 3 << 20);
  g_assert_cmpuint (budget.taken_bytes, >=, 1 << 20);
  g_assert_cmpuint (budget.budget_bytes, ==, budget.taken_bytes + (3 << 20));
  tarn_block_free (block);

  layer->reset ();
  layer->set_device_info (CL_DEVICE_EXTENSIONS, amd, sizeof amd);
  layer->refuse_info ("clGetDeviceInfo", 0x4039, CL_INVALID_VALUE); /* an older driver */
  g_assert_true (tarn_pool_get_budget (pool, &budget, &error));
  g_assert_cmpuint (budget.free_bytes, ==, G_MAXUINT64);
  layer->refuse_info ("clGetDeviceInfo", CL_DEVICE_GLOBAL_MEM_SIZE, CL_INVALID_DEVICE);
  g_assert_false (tarn_pool_get_budget (pool, &budget, &error));
  g_assert_error (error, TARN_OPENCL_ERROR, CL_INVALID_DEVICE);
  layer->reset ();
}

int
main (int argc, char **argv)
{
  static const OpenclCase cases[] = {
    { "faults/constructors", test_constructors },
    { "faults/statuses", test_statuses },
    { "faults/old-device", test_old_device },
    { "faults/nvidia", test_nvidia },
    { "faults/bad-version", test_bad_version },
    { "faults/old-platform", test_old_platform },
    { "faults/too-old", test_too_old },
    { "faults/hits", test_hits },
    { "faults/failing-release", test_failing_release },
    { "faults/budget", test_budget },
  };

  g_test_init (&argc, &argv, NULL);
  layer = opencl_layer_load ();
  if (layer == NULL)
    {
      opencl_add_no_layer ("/opencl/no-layer");
      return g_test_run ();
    }
  conformance_add ("full-at-creation", &creation_backend);
  conformance_add ("full-at-migration", &migration_backend);
  conformance_add ("full-at-fill", &nvidia_backend);
  conformance_add_over_heap ("full-at-fill/heap", &nvidia_backend);
  conformance_add ("full-at-write", &old_backend);
  opencl_add (cases, G_N_ELEMENTS (cases));
  return g_test_run ();
}
