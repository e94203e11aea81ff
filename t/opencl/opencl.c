/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Buffers on every OpenCL device, through the drivers as they are. */

#include <string.h>

#include "device.h"
#include "lib/pool-fixture.h"

static const Backend deferred = {
  .add = opencl_add_conformance,
  .open = opencl_open,
  .close = opencl_close,
  .allocator_new = opencl_deferred_new,
  .no_threads = opencl_no_threads,
};

static const Backend immediate = {
  .add = opencl_add_conformance,
  .open = opencl_open,
  .close = opencl_close,
  .allocator_new = opencl_immediate_new,
  .no_threads = opencl_no_threads_on_queue,
};

static TarnPool *
pool_new (OpenclState *state)
{
  g_autoptr (TarnAllocator) allocator = opencl_allocator (state);

  return tarn_pool_new (allocator, NULL, NULL);
}

static cl_ulong
device_ulong (const TarnOpenclDevice *device, cl_device_info info)
{
  cl_ulong value = 0;

  g_assert_cmpint (clGetDeviceInfo (device->device, info, sizeof value, &value, NULL), ==,
                   CL_SUCCESS);
  return value;
}

/* What the device grants as one buffer, a pool grants, although rounded up it is refused. */
static void
test_largest (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnPool) pool = pool_new (state);
  g_autoptr (GError) error = NULL;
  g_autoptr (TarnBlock) block = NULL;
  gsize size = device_ulong (device, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  size_t buffer_size = 0;
  cl_int status;
  cl_mem buffer = clCreateBuffer (state->context, 0, size, NULL, &status);

  if (status != CL_SUCCESS)
    {
      g_test_skip ("the device itself refuses CL_DEVICE_MAX_MEM_ALLOC_SIZE bytes now");
      return;
    }
  clReleaseMemObject (buffer);

  block = tarn_pool_allocate (pool, size, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (tarn_block_get_size (block), ==, size);
  clGetMemObjectInfo (tarn_opencl_block_get_buffer (block), CL_MEM_SIZE, sizeof buffer_size,
                      &buffer_size, NULL);
  g_assert_cmpuint (buffer_size, ==, tarn_block_get_alloc_size (block));
  g_assert_cmpuint (buffer_size, >=, size);
}

static void
test_too_large (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnAllocator) allocator = opencl_allocator (state);
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnPool) pool = NULL;
  g_autoptr (GError) error = NULL;
  gsize size = device_ulong (device, CL_DEVICE_MAX_MEM_ALLOC_SIZE) + 1;
  g_autofree gchar *expected
      = g_strdup_printf ("clCreateBuffer: CL_INVALID_BUFFER_SIZE (-61): %" G_GSIZE_FORMAT
                         " bytes, where CL_DEVICE_MAX_MEM_ALLOC_SIZE is %" G_GSIZE_FORMAT,
                         size, size - 1);
  g_autofree gchar *expected_of_pool = g_strdup_printf (
      "pool 'temporaries': %" G_GSIZE_FORMAT " bytes asked for: %s", size, expected);
  g_autoptr (TarnBlock) granted = tarn_allocator_allocate (allocator, size, &error);

  if (granted != NULL)
    {
      g_test_skip ("the driver grants more than CL_DEVICE_MAX_MEM_ALLOC_SIZE bytes");
      return;
    }
  g_assert_error (error, TARN_OPENCL_ERROR, CL_INVALID_BUFFER_SIZE);
  g_assert_cmpstr (error->message, ==, expected);
  g_clear_error (&error);
  options.name = "temporaries";
  pool = tarn_pool_new (allocator, &options, NULL);
  g_assert_null (tarn_pool_allocate (pool, size, &error));
  g_assert_error (error, TARN_OPENCL_ERROR, CL_INVALID_BUFFER_SIZE);
  g_assert_cmpstr (error->message, ==, expected_of_pool);
}

/* What the driver says of the flags of a buffer from an allocator that was made with these. */
static cl_mem_flags
read_flags_back (TarnAllocator *allocator)
{
  g_autoptr (TarnBlock) block = tarn_allocator_allocate (allocator, 100, NULL);
  cl_mem_flags flags = 0;

  g_assert_cmpint (clGetMemObjectInfo (tarn_opencl_block_get_buffer (block), CL_MEM_FLAGS,
                                       sizeof flags, &flags, NULL),
                   ==, CL_SUCCESS);
  return flags;
}

static void
test_flags (const TarnOpenclDevice *device, OpenclState *state)
{
  static const cl_mem_flags bad[]
      = { CL_MEM_USE_HOST_PTR, CL_MEM_COPY_HOST_PTR, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR };
  static const struct
  {
    cl_mem_flags flags, access;
  } good[] = {
    { 0, CL_MEM_READ_WRITE },
    { CL_MEM_ALLOC_HOST_PTR, CL_MEM_READ_WRITE },
    { CL_MEM_READ_ONLY, CL_MEM_READ_ONLY },
    { CL_MEM_WRITE_ONLY, CL_MEM_WRITE_ONLY },
  };
  g_autoptr (GError) error = NULL;
  const cl_mem_flags access = CL_MEM_READ_WRITE | CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY;

  (void) device;
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_assert_null (tarn_opencl_deferred_allocator_new (state->context, bad[i], &error));
      g_assert_error (error, TARN_OPENCL_ERROR, CL_INVALID_VALUE);
      g_clear_error (&error);
      g_assert_null (tarn_opencl_immediate_allocator_new (state->queue, bad[i], &error));
      g_assert_error (error, TARN_OPENCL_ERROR, CL_INVALID_VALUE);
      g_clear_error (&error);
    }

  for (guint i = 0; i < G_N_ELEMENTS (good); i++)
    {
      g_autoptr (TarnAllocator) now
          = tarn_opencl_immediate_allocator_new (state->queue, good[i].flags, &error);
      g_autoptr (TarnAllocator) later
          = tarn_opencl_deferred_allocator_new (state->context, good[i].flags, &error);

      g_assert_no_error (error);
      g_assert_cmpuint (read_flags_back (now) & access, ==, good[i].access);
      g_assert_cmpuint (read_flags_back (later) & access, ==, good[i].access);
    }
}

/* Whatever access the host has, each allocator has memory. */
static void
test_host_access (const TarnOpenclDevice *device, OpenclState *state)
{
  static const cl_mem_flags flags[]
      = { CL_MEM_READ_WRITE,     CL_MEM_WRITE_ONLY,     CL_MEM_ALLOC_HOST_PTR,
          CL_MEM_HOST_NO_ACCESS, CL_MEM_HOST_READ_ONLY, CL_MEM_HOST_WRITE_ONLY };

  (void) device;
  for (guint i = 0; i < G_N_ELEMENTS (flags); i++)
    for (gsize size = 1; size < 100; size *= 3)
      {
        g_autoptr (GError) error = NULL;
        g_autoptr (TarnAllocator) allocator
            = tarn_opencl_immediate_allocator_new (state->queue, flags[i], &error);
        g_autoptr (TarnBlock) block = NULL;

        g_assert_no_error (error);
        block = tarn_allocator_allocate (allocator, size, &error);
        g_assert_no_error (error);
      }
}

static void
test_empty (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnAllocator) direct = opencl_allocator (state);
  g_autoptr (TarnAllocator) lazy = opencl_deferred_new (state, NULL);
  g_autoptr (TarnPool) pool = pool_new (state);
  g_autoptr (TarnBlock) none = tarn_allocator_allocate (direct, 0, NULL);
  g_autoptr (TarnBlock) none_either = tarn_allocator_allocate (lazy, 0, NULL);
  g_autoptr (TarnBlock) one_byte = tarn_pool_allocate (pool, 0, NULL);

  (void) device;
  g_assert_false (tarn_allocator_is_deferred (direct));
  g_assert_true (tarn_allocator_is_deferred (lazy));
  g_assert_null (tarn_opencl_block_get_buffer (none));
  g_assert_null (tarn_opencl_block_get_buffer (none_either));
  g_assert_nonnull (tarn_opencl_block_get_buffer (one_byte));
}

/* A block works after everything that it came from was released, and what it holds stays. */
static void
test_outlives (const TarnOpenclDevice *device, OpenclState *state)
{
  OpenclState *own = opencl_open (device, NULL);
  TarnPool *pool = pool_new (own);
  TarnBlock *block = tarn_pool_allocate (pool, 4096, NULL);
  cl_command_queue queue = own->queue;
  guint8 written[4096], read[4096];

  (void) state;
  clRetainCommandQueue (queue);
  for (guint i = 0; i < sizeof written; i++)
    written[i] = (guint8) (i * 7);
  tarn_pool_unref (pool);
  clReleaseCommandQueue (own->queue);
  clReleaseContext (own->context);
  g_free (own);

  g_assert_cmpint (clEnqueueWriteBuffer (queue, tarn_opencl_block_get_buffer (block), CL_TRUE, 0,
                                         sizeof written, written, 0, NULL, NULL),
                   ==, CL_SUCCESS);
  g_assert_cmpint (clEnqueueReadBuffer (queue, tarn_opencl_block_get_buffer (block), CL_TRUE, 0,
                                        sizeof read, read, 0, NULL, NULL),
                   ==, CL_SUCCESS);
  g_assert_cmpmem (written, sizeof written, read, sizeof read);
  tarn_block_free (block);
  g_assert_cmpint (clReleaseCommandQueue (queue), ==, CL_SUCCESS);
}

/* A real device, really full: what is held makes room, for blocks of every size. */
static void
test_full_device (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnPool) pool = NULL;
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  gsize bytes = device_ulong (device, CL_DEVICE_GLOBAL_MEM_SIZE);
  cl_bool is_shared = CL_TRUE;
  guint n_large, n_small;

  clGetDeviceInfo (device->device, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof is_shared, &is_shared,
                   NULL);
  if (device_ulong (device, CL_DEVICE_TYPE) != CL_DEVICE_TYPE_GPU || is_shared)
    {
      g_test_skip ("only a GPU's own memory can be filled without harm");
      return;
    }
  pool = pool_new (state);
  pool_slide_window (pool, bytes / 64);
  pool_slide_window (pool, bytes / 32);
  n_large = pool_fill (pool, bytes / 16);
  n_small = pool_fill (pool, bytes / 40);
  g_test_message ("%u blocks of 1/16, %u of 1/40", n_large, n_small);
  g_assert_cmpuint (n_large, >=, 12);
  g_assert_cmpuint (n_large, <=, 16);
  g_assert_cmpuint (n_small, >=, 30);
  g_assert_cmpuint (n_small, <=, 40);
  g_assert_cmpuint (pool_fill (pool, bytes / 16), ==, n_large);
  tarn_pool_get_stats (pool, &stats);
  g_assert_cmpuint (stats.failures, ==, 3);
}

int
main (int argc, char **argv)
{
  static const OpenclCase cases[] = {
    { "buffers/largest", test_largest },
    { "buffers/too-large", test_too_large },
    { "buffers/flags", test_flags },
    { "buffers/host-access", test_host_access },
    { "buffers/empty", test_empty },
    { "buffers/outlives", test_outlives },
    { "buffers/full-device", test_full_device },
  };

  g_test_init (&argc, &argv, NULL);
  /* Each pool over a deferred allocator has one, which t/pool/allocator.c is about. */
  opencl_ignore_messages ();
  conformance_add ("deferred", &deferred);
  conformance_add ("immediate", &immediate);
  conformance_add_over_heap ("immediate-heap", &immediate);
  opencl_add (cases, G_N_ELEMENTS (cases));
  return g_test_run ();
}
