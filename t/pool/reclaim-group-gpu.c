/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * One GPU, as OpenCL and CUDA see it: pools of both in a group, and then a pool of page-locked
 * memory with a limit.  At random states a request succeeds exactly if it fits into what could be
 * had at the start beside what is in use, whoever holds the rest; over heaps, if it fits beside the
 * pieces that are in use.  It fills the GPU. */

#include <tarn/cuda.h>
#include <tarn/opencl.h>

#include "lib/conformance.h"
#include "lib/filled.h"

/* What the driver gives memory in, as far as requests above it go. */
#define GRANULE ((gsize) 2 << 20)
#define LIMIT ((gsize) 4 << 30)
#define N_STATES 200
/* Of page-locked memory a gigabyte takes a quarter of a second. */
#define N_PAGE_STATES (g_test_slow () ? N_STATES : 20)

/* A pool, what is in use of it, and the largest request that its driver does not refuse. */
typedef struct
{
  TarnPool *pool;
  GPtrArray *blocks;
  gsize max_size;
} Part;

static void
part_init (Part *part, TarnAllocator *allocator, gsize limit_bytes, gsize max_size)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;

  options.limit_bytes = limit_bytes;
  part->pool = tarn_pool_new (allocator, &options, NULL);
  part->blocks = g_ptr_array_new_with_free_func ((GDestroyNotify) tarn_block_free);
  part->max_size = max_size;
  tarn_allocator_unref (allocator);
  tarn_block_free (allocate (part->pool, GRANULE)); /* so that the driver has made itself at home */
  tarn_pool_free_held (part->pool);
}

static void
part_clear (Part *part)
{
  g_ptr_array_unref (part->blocks);
  assert_valid (part->pool);
  tarn_pool_unref (part->pool);
}

/* In units, each block rounded up for itself. */
static gsize
get_used (const Part *part, gsize unit)
{
  gsize used = 0;

  for (guint i = 0; i < part->blocks->len; i++)
    used += (tarn_block_get_alloc_size (part->blocks->pdata[i]) + unit - 1) / unit;
  return used;
}

static gsize
random_up_to (gsize max)
{
  return (gsize) (g_test_rand_double () * (gdouble) max);
}

/* Half of them are about what is left. */
static gsize
choose_size (const Part *part, gsize unit, gsize left)
{
  gsize size = g_test_rand_bit () ? left * unit - 1 + random_up_to (3)
                                  : GRANULE + random_up_to (part->max_size / 2);

  return CLAMP (size, GRANULE, part->max_size);
}

static void
free_some (Part *part)
{
  while (part->blocks->len > 0 && g_test_rand_int_range (0, 3) > 0)
    g_ptr_array_remove_index_fast (part->blocks,
                                   (guint) g_test_rand_int_range (0, (gint32) part->blocks->len));
}

/* One request of a part, where so many units are there and so many are in use; TRUE if it fits. */
static gboolean
request (Part *part, gsize unit, gsize there, gsize used, gint code)
{
  gsize size = choose_size (part, unit, there - used);
  gboolean fits = (size + unit - 1) / unit <= there - used;
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_pool_allocate (part->pool, size, &error);

  if ((block != NULL) != fits)
    g_error ("%" G_GSIZE_FORMAT " bytes, where %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT
             " units of %" G_GSIZE_FORMAT " are in use: %s",
             size, used, there, unit, error != NULL ? error->message : "there was room");
  if (block != NULL)
    g_ptr_array_add (part->blocks, block);
  else
    g_assert_error (error, TARN_ERROR, code);
  return fits;
}

/* How many granules the driver gives in one piece where nothing is in use; it keeps one of those
 * that it calls free. */
static gsize
count_granules (const TarnCudaTest *test)
{
  TarnAllocator *allocator = tarn_cuda_device_allocator_new (test->context, NULL);
  gsize least = 0, most = test->info->bytes / GRANULE;

  while (least < most)
    {
      gsize middle = least + (most - least + 1) / 2;
      TarnBlock *block = tarn_allocator_allocate (allocator, middle * GRANULE, NULL);

      if (block != NULL)
        least = middle;
      else
        most = middle - 1;
      tarn_block_free (block);
    }
  tarn_allocator_unref (allocator);
  return least;
}

/* The same GPU among OpenCL's devices; NULL: it is not there. */
static const TarnOpenclDevice *
find_device (const GPtrArray *devices, const TarnCudaDevice *wanted)
{
  for (guint i = 0; i < devices->len; i++)
    {
      const TarnOpenclDevice *device = devices->pdata[i];

      if (device->pci != NULL && g_strcmp0 (device->pci, wanted->pci) == 0)
        return device;
    }
  return NULL;
}

static TarnAllocator *
opencl_allocator_new (cl_context context, cl_device_id device)
{
  cl_int status;
  cl_command_queue queue = clCreateCommandQueue (context, device, 0, &status);
  g_autoptr (GError) error = NULL;
  TarnAllocator *allocator = tarn_opencl_immediate_allocator_new (queue, 0, &error);

  g_assert_no_error (error);
  clReleaseCommandQueue (queue);
  return allocator;
}

static void
run (const TarnCudaTest *test, cl_context context, cl_device_id device)
{
  g_autoptr (TarnReclaimGroup) group = tarn_reclaim_group_new ();
  cl_ulong max_size = 0;
  guint n_fit = 0;
  Part parts[2];
  gsize there;

  clGetDeviceInfo (device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof max_size, &max_size, NULL);
  part_init (&parts[0], opencl_allocator_new (context, device), 0, max_size);
  part_init (&parts[1], tarn_cuda_device_allocator_new (test->context, NULL), 0, test->info->bytes);
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    tarn_pool_set_reclaim_group (parts[i].pool, group);

  there = count_granules (test);
  for (guint i = 0; i < N_STATES; i++)
    {
      gsize used = get_used (&parts[0], GRANULE) + get_used (&parts[1], GRANULE);

      n_fit += (guint) request (&parts[g_test_rand_bit ()], GRANULE, there, used,
                                TARN_ERROR_OUT_OF_MEMORY);
      free_some (&parts[g_test_rand_bit ()]);
    }
  g_test_message ("%" G_GSIZE_FORMAT " granules: %u of %d requests fitted, the others failed",
                  there, n_fit, N_STATES);
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    part_clear (&parts[i]);
  g_assert_cmpuint (count_granules (test), ==, there);
}

/* The same over a heap each: one of parts, and one of virtual memory. */
static void
run_over_heaps (const TarnCudaTest *test, cl_context context, cl_device_id device)
{
  g_autoptr (TarnReclaimGroup) group = tarn_reclaim_group_new ();
  cl_ulong max_size = 0;
  FilledPart parts[2];
  gsize there;

  clGetDeviceInfo (device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof max_size, &max_size, NULL);
  filled_part_init (&parts[0], opencl_allocator_new (context, device), group, max_size);
  filled_part_init (&parts[1], tarn_cuda_device_allocator_new (test->context, NULL), group,
                    test->info->bytes);
  there = count_granules (test);
  filled_run (parts, G_N_ELEMENTS (parts), there, N_STATES);
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    filled_part_clear (&parts[i]);
  g_assert_cmpuint (count_granules (test), ==, there);
}

/* By itself: what the GPU needs to know of page-locked memory is in memory of its own. */
static void
test_limit (const TarnCudaTest *test, gconstpointer unused)
{
  guint n_fit = 0;
  Part pages;

  (void) unused;
  part_init (&pages, tarn_cuda_host_allocator_new (test->context, 0, NULL), LIMIT, 2 * LIMIT);
  for (guint i = 0; i < N_PAGE_STATES; i++)
    {
      n_fit += (guint) request (&pages, 1, LIMIT, get_used (&pages, 1), TARN_ERROR_LIMIT);
      free_some (&pages);
    }
  g_test_message ("%u of %d requests fitted, the others failed", n_fit, N_PAGE_STATES);
  part_clear (&pages);
}

typedef void (*RunFunc) (const TarnCudaTest *test, cl_context context, cl_device_id device);

static void
run_on_gpu (const TarnCudaTest *test, RunFunc func)
{
  g_autoptr (GPtrArray) devices = tarn_opencl_select_test_devices (NULL, NULL);
  const TarnOpenclDevice *device = devices != NULL ? find_device (devices, test->info) : NULL;
  cl_context context;
  cl_int status;

  if (device == NULL)
    {
      g_test_skip ("none of OpenCL's devices is this GPU");
      return;
    }
  context = clCreateContext (NULL, 1, &device->device, NULL, NULL, &status);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  func (test, context, device->device);
  clReleaseContext (context);
}

static void
test_exactly_what_fits (const TarnCudaTest *test, gconstpointer unused)
{
  (void) unused;
  run_on_gpu (test, run);
}

static void
test_what_fits_over_heaps (const TarnCudaTest *test, gconstpointer unused)
{
  (void) unused;
  run_on_gpu (test, run_over_heaps);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  tarn_cuda_test_add ("reclaim-group/exactly-what-fits", test_exactly_what_fits, NULL);
  tarn_cuda_test_add ("reclaim-group/what-fits-over-heaps", test_what_fits_over_heaps, NULL);
  tarn_cuda_test_add ("limit/exactly-what-fits", test_limit, NULL);
  return g_test_run ();
}
