/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Kernels from a memo of functions, run on each CUDA device there is: in several contexts and
 * threads, and again after they were cleared.  Needs a GPU, and nothing of CUDA's to be built. */

#include <dlfcn.h>
#include <string.h>
#include <tarn/cuda.h>

/* Old enough for every driver and GPU of the last years, as doc/examples/vector-expression-cuda.c
 * says.  Each kernel stores the sum of a number and what it is given. */
#define START ".version 6.0\n.target sm_50\n.address_size 64\n"
#define KERNEL(name, number)                                                                       \
  ".visible .entry " name " (.param .u64 out, .param .u32 given)\n{\n"                             \
  "  .reg .u64 address;\n  .reg .u32 value;\n"                                                     \
  "  ld.param.u64 address, [out];\n  cvta.to.global.u64 address, address;\n"                       \
  "  ld.param.u32 value, [given];\n  add.u32 value, value, " number ";\n"                          \
  "  st.global.u32 [address], value;\n  ret;\n}\n"

static const gchar ptx[] = START KERNEL ("one", "100") KERNEL ("two", "200");
static const gchar other_ptx[] = START KERNEL ("one", "300");

/* The driver's functions, as far as they are needed here. */
typedef struct CUstream_st *Stream;

typedef struct
{
  unsigned int (*launch) (CUfunction function, unsigned int grid_x, unsigned int grid_y,
                          unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                          unsigned int block_z, unsigned int shared_bytes, Stream stream,
                          void **arguments, void **extra);
  unsigned int (*copy_back) (void *to, CUdeviceptr from, size_t size);
  unsigned int (*create) (CUcontext *context, unsigned int flags, CUdevice device);
  unsigned int (*destroy) (CUcontext context);
  unsigned int (*push) (CUcontext context);
  unsigned int (*pop) (CUcontext *context);
} Driver;

static Driver driver;

static void
find_symbol (gpointer library, const gchar *symbol, gpointer function)
{
  gpointer found = dlsym (library, symbol);

  if (found == NULL)
    g_error ("the CUDA driver has no %s", symbol);
  memcpy (function, &found, sizeof found);
}

static void
load_driver (void)
{
  gpointer library = dlopen ("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

  g_assert_nonnull (library); /* there is a device */
  find_symbol (library, "cuLaunchKernel", &driver.launch);
  find_symbol (library, "cuMemcpyDtoH_v2", &driver.copy_back);
  find_symbol (library, "cuCtxCreate_v2", &driver.create);
  find_symbol (library, "cuCtxDestroy_v2", &driver.destroy);
  find_symbol (library, "cuCtxPushCurrent_v2", &driver.push);
  find_symbol (library, "cuCtxPopCurrent_v2", &driver.pop);
}

/* In the current context; its image is never the same GBytes. */
static guint32
run (TarnMemo *functions, const gchar *text, const gchar *name, guint32 given)
{
  g_autoptr (GBytes) image = g_bytes_new (text, strlen (text) + given % 2);
  g_autoptr (TarnAllocator) allocator = tarn_cuda_device_allocator_new (NULL, NULL);
  g_autoptr (TarnBlock) block = tarn_allocator_allocate (allocator, sizeof (guint32), NULL);
  CUdeviceptr out = tarn_cuda_block_get_device_pointer (block);
  TarnCudaFunctionKey key = TARN_CUDA_FUNCTION_KEY_INIT;
  g_autoptr (GError) error = NULL;
  void *arguments[] = { &out, &given };
  guint32 result = 0;
  gpointer function;

  key.image = image;
  key.name = name;
  g_assert_true (tarn_memo_get (functions, NULL, &key, &function, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (driver.launch (function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL), ==, 0);
  g_assert_cmpuint (driver.copy_back (&result, out, sizeof result), ==, 0);
  return result;
}

typedef struct
{
  TarnMemo *functions;
  CUcontext context;
} Place;

static gpointer
run_all (gpointer data)
{
  const Place *place = data;
  CUcontext popped;

  g_assert_cmpuint (driver.push (place->context), ==, 0);
  for (guint32 i = 0; i < 100; i++)
    {
      g_assert_cmpuint (run (place->functions, ptx, "one", i), ==, 100 + i);
      g_assert_cmpuint (run (place->functions, ptx, "two", i), ==, 200 + i);
      g_assert_cmpuint (run (place->functions, other_ptx, "one", i), ==, 300 + i);
    }
  g_assert_cmpuint (driver.pop (&popped), ==, 0);
  g_assert_true (popped == place->context);
  return NULL;
}

static void
test_running (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (TarnMemo) functions = tarn_cuda_function_memo_new (NULL);
  Place places[] = { { functions, test->context }, { functions, NULL } };
  GThread *threads[8];
  CUcontext popped;

  (void) unused;
  load_driver ();
  g_assert_cmpuint (driver.create (&places[1].context, 0, test->device), ==, 0);
  g_assert_cmpuint (driver.pop (&popped), ==, 0);
  for (guint round = 0; round < 3; round++)
    {
      for (gsize i = 0; i < G_N_ELEMENTS (threads); i++)
        threads[i] = g_thread_new ("run", run_all, &places[i % G_N_ELEMENTS (places)]);
      for (gsize i = 0; i < G_N_ELEMENTS (threads); i++)
        g_thread_join (threads[i]);
      tarn_cuda_clear_context_caches ();
    }
  g_assert_cmpuint (driver.destroy (places[1].context), ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  tarn_cuda_test_add ("memo/running", test_running, NULL);
  return g_test_run ();
}
