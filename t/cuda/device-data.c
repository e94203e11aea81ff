/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What a driver is asked about a device and about a function, on drivers that are made up here. */

#include "cuda/occupancy-private.h"

#include <string.h>

#define INVALID_DEVICE 101
#define LAUNCH_FAILED 719
#define N_ATTRIBUTES 128

/* The driver's answers; a test changes some and resets all. */
static gint values[N_ATTRIBUTES];
static guint statuses[N_ATTRIBUTES];
static gint function_values[16];
static guint function_statuses[16];
static guint context_status, occupancy_status;
static gint blocks, grid_size, block_size;
static gsize asked_bytes;

static gint the_function;
static const CUfunction function = (CUfunction) (gpointer) &the_function;

static unsigned int
get_attribute (int *value, unsigned int attribute, CUdevice device)
{
  if (device != 3)
    return INVALID_DEVICE;
  g_assert_cmpuint (attribute, <, N_ATTRIBUTES);
  *value = values[attribute];
  return statuses[attribute];
}

static unsigned int
get_device (CUdevice *device)
{
  *device = 3;
  return context_status;
}

static unsigned int
get_function_attribute (int *value, unsigned int attribute, CUfunction asked)
{
  g_assert_true (asked == function);
  *value = function_values[attribute];
  return function_statuses[attribute];
}

static unsigned int
get_blocks (int *n, CUfunction asked, int threads, size_t bytes)
{
  g_assert_true (asked == function);
  g_assert_cmpint (threads, >, 0);
  asked_bytes = bytes;
  *n = blocks;
  return occupancy_status;
}

static unsigned int
get_block_size (int *grid, int *block, CUfunction asked, size_t (*bytes_of) (int), size_t bytes,
                int limit)
{
  g_assert_true (asked == function);
  g_assert_null (bytes_of);
  g_assert_cmpint (limit, ==, 0);
  asked_bytes = bytes;
  *grid = grid_size;
  *block = block_size;
  return occupancy_status;
}

static TarnCudaDriver driver;

/* An H200, and a function of 40 registers that declares 1,000 bytes and has opted in to 100,000. */
static void
reset (void)
{
  static const gint attributes[][2]
      = { { 1, 1024 }, { 8, 49152 },   { 10, 32 },    { 12, 65536 },  { 39, 2048 }, { 75, 9 },
          { 76, 0 },   { 81, 233472 }, { 82, 65536 }, { 97, 232448 }, { 106, 32 },  { 111, 1024 } };
  static const gint of_function[16] = { [0] = 1024, [1] = 1000, [4] = 40, [8] = 100000 };

  memset (values, 0x55, sizeof values);
  memset (statuses, 0, sizeof statuses);
  memset (function_statuses, 0, sizeof function_statuses);
  memcpy (function_values, of_function, sizeof of_function);
  for (gsize i = 0; i < G_N_ELEMENTS (attributes); i++)
    values[attributes[i][0]] = attributes[i][1];
  context_status = occupancy_status = TARN_CUDA_SUCCESS;
  blocks = 6;
  grid_size = 264;
  block_size = 768;
  driver = (TarnCudaDriver){ .cuDeviceGetAttribute = get_attribute,
                             .cuCtxGetDevice = get_device,
                             .cuFuncGetAttribute = get_function_attribute,
                             .cuOccupancyMaxActiveBlocksPerMultiprocessor = get_blocks,
                             .cuOccupancyMaxPotentialBlockSize = get_block_size };
}

static TarnCudaDeviceData
ask_data (void)
{
  TarnCudaDeviceData data = TARN_CUDA_DEVICE_DATA_INIT;
  g_autoptr (GError) error = NULL;
  gboolean is_known = _tarn_cuda_ask_device_data (&driver, 3, &data, &error);

  g_assert_no_error (error);
  g_assert_true (is_known);
  return data;
}

static void
assert_data_error (CUdevice device, GQuark domain, gint code, const gchar *text)
{
  TarnCudaDeviceData data = TARN_CUDA_DEVICE_DATA_INIT;
  TarnCudaDeviceData untouched = data;
  g_autoptr (GError) error = NULL;

  g_assert_false (_tarn_cuda_ask_device_data (&driver, device, &data, &error));
  g_assert_error (error, domain, code);
  g_assert_nonnull (strstr (error->message, text));
  g_assert_cmpmem (&data, sizeof data, &untouched, sizeof untouched);
}

static void
test_data (void)
{
  TarnCudaDeviceData data;

  reset ();
  data = ask_data ();
  g_assert_cmpuint (data.struct_size, ==, sizeof data);
  g_assert_cmpint (data.major, ==, 9);
  g_assert_cmpint (data.minor, ==, 0);
  g_assert_cmpuint (data.max_threads_per_block, ==, 1024);
  g_assert_cmpuint (data.warp_size, ==, 32);
  g_assert_cmpuint (data.warps_per_mp, ==, 64);
  g_assert_cmpuint (data.blocks_per_mp, ==, 32);
  g_assert_cmpuint (data.registers_per_block, ==, 65536);
  g_assert_cmpuint (data.registers_per_mp, ==, 65536);
  g_assert_cmpuint (data.registers_per_thread, ==, 255);
  g_assert_cmpuint (data.shared_per_block, ==, 49152);
  g_assert_cmpuint (data.shared_per_block_optin, ==, 232448);
  g_assert_cmpuint (data.shared_per_mp, ==, 233472);
  g_assert_cmpuint (data.shared_reserved_per_block, ==, 1024);
  g_assert_cmpuint (data.register_allocation_unit, ==, 256);
  g_assert_cmpuint (data.warp_allocation_granularity, ==, 4);
  g_assert_cmpuint (data.shared_allocation_unit, ==, 128);
}

/* The driver is believed, whatever the compute capability. */
static void
test_data_asked (void)
{
  TarnCudaDeviceData data;

  reset ();
  values[75] = 99;
  values[39] = 1536;
  values[106] = 17;
  values[111] = 0;
  data = ask_data ();
  g_assert_cmpuint (data.warps_per_mp, ==, 48);
  g_assert_cmpuint (data.blocks_per_mp, ==, 17);
  g_assert_cmpuint (data.shared_reserved_per_block, ==, 0);
  g_assert_cmpuint (data.registers_per_thread, ==, 0);
  g_assert_cmpuint (data.register_allocation_unit, ==, 0);
  g_assert_cmpuint (data.warp_allocation_granularity, ==, 0);
  g_assert_cmpuint (data.shared_allocation_unit, ==, 0);
}

static void
test_data_old_driver (void)
{
  TarnCudaDeviceData data;

  reset ();
  statuses[97] = statuses[106] = statuses[111] = TARN_CUDA_ERROR_INVALID_VALUE;
  values[75] = 3;
  values[76] = 5;
  values[81] = 49152;
  data = ask_data ();
  g_assert_cmpuint (data.blocks_per_mp, ==, 16);
  g_assert_cmpuint (data.shared_per_block_optin, ==, 0);
  g_assert_cmpuint (data.shared_reserved_per_block, ==, 0);
  g_assert_cmpuint (data.shared_allocation_unit, ==, 256);
  values[75] = 42;
  g_assert_cmpuint (ask_data ().blocks_per_mp, ==, 0);
  reset ();
  statuses[111] = TARN_CUDA_ERROR_INVALID_VALUE;
  g_assert_cmpuint (ask_data ().shared_reserved_per_block, ==, 1024);
}

static void
test_data_errors (void)
{
  reset ();
  assert_data_error (4, TARN_CUDA_ERROR, INVALID_DEVICE, "COMPUTE_CAPABILITY_MAJOR, device 4");
  statuses[106] = INVALID_DEVICE;
  assert_data_error (3, TARN_CUDA_ERROR, INVALID_DEVICE, "MAX_BLOCKS_PER_MULTIPROCESSOR");
  reset ();
  statuses[12] = TARN_CUDA_ERROR_INVALID_VALUE;
  assert_data_error (3, TARN_CUDA_ERROR, TARN_CUDA_ERROR_INVALID_VALUE, "MAX_REGISTERS_PER_BLOCK");
  reset ();
  values[10] = 0;
  assert_data_error (3, TARN_ERROR, TARN_ERROR_FAILED, "WARP_SIZE");
  values[10] = -32;
  assert_data_error (3, TARN_ERROR, TARN_ERROR_FAILED, "-32");
  values[10] = 4096;
  assert_data_error (3, TARN_ERROR, TARN_ERROR_FAILED, "warps of 4096");
  reset ();
  values[111] = -1;
  assert_data_error (3, TARN_ERROR, TARN_ERROR_FAILED, "RESERVED_SHARED_MEMORY");
  driver.cuDeviceGetAttribute = NULL;
  assert_data_error (3, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED, "cuDeviceGetAttribute");
}

static TarnCudaOccupancy
ask_occupancy (guint threads, gsize bytes)
{
  TarnCudaOccupancy found = TARN_CUDA_OCCUPANCY_INIT;
  g_autoptr (GError) error = NULL;
  gboolean is_known = _tarn_cuda_ask_occupancy (&driver, function, threads, bytes, &found, &error);

  g_assert_no_error (error);
  g_assert_true (is_known);
  g_assert_cmpuint (asked_bytes, ==, bytes);
  g_assert_cmpuint (found.blocks_per_mp, ==, blocks);
  return found;
}

static void
test_function (void)
{
  TarnCudaOccupancy found;

  reset ();
  found = ask_occupancy (250, 4096);
  g_assert_cmpuint (found.warps_per_mp, ==, 48);
  g_assert_cmpfloat (found.occupancy, ==, 0.75);
  g_assert_cmpint (found.limited_by, ==, TARN_CUDA_LIMIT_REGISTERS); /* 12 * 4 / 8 */
  g_assert_cmpuint (ask_occupancy (256, 4096).warps_per_mp, ==, 48);
  blocks = 2;
  found = ask_occupancy (256, 76000); /* 3 without the function's own 1,000 */
  g_assert_cmpint (found.limited_by, ==, TARN_CUDA_LIMIT_SHARED);
  found = ask_occupancy (256, 99000); /* 99000 + 1000 + 1024; 233472 / 101120 */
  g_assert_cmpint (found.limited_by, ==, TARN_CUDA_LIMIT_SHARED);
  blocks = 0;
  found = ask_occupancy (256, G_MAXSIZE);
  g_assert_cmpint (found.limited_by, ==, TARN_CUDA_LIMIT_SHARED);
  g_assert_cmpfloat (found.occupancy, ==, 0);
}

/* Where the rules come to another number, nothing is said that only they would say. */
static void
test_function_limits (void)
{
  reset ();
  blocks = 5;
  g_assert_cmpint (ask_occupancy (256, 4096).limited_by, ==, TARN_CUDA_LIMIT_UNKNOWN);
  blocks = 6;
  g_assert_cmpint (ask_occupancy (250, G_MAXSIZE).limited_by, ==, TARN_CUDA_LIMIT_UNKNOWN);
  blocks = 0;
  g_assert_cmpint (ask_occupancy (256, 100000).limited_by, ==, TARN_CUDA_LIMIT_UNKNOWN);
  g_assert_cmpint (ask_occupancy (256, 100001).limited_by, ==, TARN_CUDA_LIMIT_SHARED);
  function_statuses[8] = TARN_CUDA_ERROR_INVALID_VALUE;
  g_assert_cmpint (ask_occupancy (256, 100001).limited_by, ==, TARN_CUDA_LIMIT_UNKNOWN);
  function_values[0] = 128;
  g_assert_cmpint (ask_occupancy (256, 0).limited_by, ==, TARN_CUDA_LIMIT_DEVICE);
  function_values[4] = 255; /* not by what the function says: 288 threads have too many */
  g_assert_cmpint (ask_occupancy (288, 0).limited_by, ==, TARN_CUDA_LIMIT_REGISTERS);
  reset ();
  values[75] = 99;
  g_assert_cmpint (ask_occupancy (256, 4096).limited_by, ==, TARN_CUDA_LIMIT_UNKNOWN);
}

static void
assert_function_error (guint threads, GQuark domain, gint code, const gchar *text)
{
  TarnCudaOccupancy found = TARN_CUDA_OCCUPANCY_INIT;
  TarnCudaOccupancy untouched = found;
  g_autoptr (GError) error = NULL;

  g_assert_false (_tarn_cuda_ask_occupancy (&driver, function, threads, 0, &found, &error));
  g_assert_error (error, domain, code);
  g_assert_nonnull (strstr (error->message, text));
  g_assert_cmpmem (&found, sizeof found, &untouched, sizeof untouched);
}

static void
test_function_errors (void)
{
  static const gint asked[] = { 0, 1, 4, 8 };

  reset ();
  assert_function_error (0, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, "0 threads");
  assert_function_error (G_MAXUINT, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, "4294967295");
  context_status = TARN_CUDA_ERROR_INVALID_CONTEXT;
  assert_function_error (32, TARN_ERROR, TARN_ERROR_NO_CONTEXT, "cuCtxGetDevice");
  reset ();
  occupancy_status = LAUNCH_FAILED;
  assert_function_error (32, TARN_CUDA_ERROR, LAUNCH_FAILED, "cuOccupancyMaxActiveBlocks");
  reset ();
  blocks = -1;
  assert_function_error (32, TARN_ERROR, TARN_ERROR_FAILED, "-1");
  for (gsize i = 0; i < G_N_ELEMENTS (asked); i++)
    {
      reset ();
      function_statuses[asked[i]] = LAUNCH_FAILED;
      assert_function_error (32, TARN_CUDA_ERROR, LAUNCH_FAILED, "cuFuncGetAttribute");
      function_statuses[asked[i]] = TARN_CUDA_SUCCESS;
      function_values[asked[i]] = -2;
      assert_function_error (32, TARN_ERROR, TARN_ERROR_FAILED, "-2");
    }
  reset ();
  statuses[1] = LAUNCH_FAILED;
  assert_function_error (32, TARN_CUDA_ERROR, LAUNCH_FAILED, "MAX_THREADS_PER_BLOCK");
  driver.cuOccupancyMaxActiveBlocksPerMultiprocessor = NULL;
  assert_function_error (32, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED, "too old");
}

static void
test_block_size (void)
{
  guint grid = 1, block = 2;
  g_autoptr (GError) error = NULL;

  reset ();
  g_assert_true (_tarn_cuda_ask_block_size (&driver, function, 77, &grid, &block, NULL));
  g_assert_cmpuint (grid, ==, 264);
  g_assert_cmpuint (block, ==, 768);
  g_assert_cmpuint (asked_bytes, ==, 77);
  g_assert_true (_tarn_cuda_ask_block_size (&driver, function, 77, NULL, NULL, NULL));
  occupancy_status = TARN_CUDA_ERROR_INVALID_CONTEXT;
  g_assert_false (_tarn_cuda_ask_block_size (&driver, function, 0, &grid, &block, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NO_CONTEXT);
  g_clear_error (&error);
  reset ();
  block_size = -7;
  g_assert_false (_tarn_cuda_ask_block_size (&driver, function, 0, &grid, &block, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_FAILED);
  g_clear_error (&error);
  driver.cuOccupancyMaxPotentialBlockSize = NULL;
  g_assert_false (_tarn_cuda_ask_block_size (&driver, function, 0, &grid, &block, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
  g_assert_cmpuint (grid, ==, 264);
  g_assert_cmpuint (block, ==, 768);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda/device-data/attributes", test_data);
  g_test_add_func ("/cuda/device-data/asked", test_data_asked);
  g_test_add_func ("/cuda/device-data/old-driver", test_data_old_driver);
  g_test_add_func ("/cuda/device-data/errors", test_data_errors);
  g_test_add_func ("/cuda/device-data/function", test_function);
  g_test_add_func ("/cuda/device-data/function-limits", test_function_limits);
  g_test_add_func ("/cuda/device-data/function-errors", test_function_errors);
  g_test_add_func ("/cuda/device-data/block-size", test_block_size);
  return g_test_run ();
}
