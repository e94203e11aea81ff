/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Each public function of libtarn-cuda in a child of fork (), on the fake driver, which counts the
 * calls.  libtarn-cuda.map says which functions there are. */

#include <tarn/cuda.h>

#include "driver.h"
#include "lib/fork-functions.h"

typedef struct
{
  CUcontext context;
  TarnAllocator *allocator;
  TarnPool *pool, *host_pool;
  TarnBlock *block, *host_block;
  TarnCudaHostArray array;
  TarnCudaDeviceData data;
  TarnMemo *modules, *functions;
  GBytes *image;
  TarnCudaFunctionKey key;
  gpointer torch, cupy;
} World;

static const gsize shape[] = { 10 };

static guint
count_calls (void)
{
  return cuda_get_fake ()->get_calls_after_fork ();
}

static void
world_init (World *w)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnAllocator) host = NULL;
  g_autoptr (GError) error = NULL;

  w->context = tarn_cuda_make_default_context (NULL, &error);
  g_assert_no_error (error);
  tarn_cuda_autoinit (NULL, NULL, &error);
  g_assert_no_error (error);
  w->allocator = tarn_cuda_device_allocator_new (w->context, &error);
  g_assert_no_error (error);
  host = tarn_cuda_host_allocator_new (w->context, 0, &error);
  g_assert_no_error (error);
  w->host_pool = tarn_pool_new (host, NULL, NULL);
  options.flags = TARN_POOL_FINDABLE;
  w->pool = tarn_cuda_pool_new (w->context, &options, &error);
  g_assert_no_error (error);
  w->block = tarn_cuda_pool_allocate (w->pool, 1000, NULL, &error);
  w->host_block = tarn_pool_allocate (w->host_pool, 1000, &error);
  w->array = (TarnCudaHostArray) TARN_CUDA_HOST_ARRAY_INIT;
  tarn_cuda_host_array_allocate (w->host_pool, 1, shape, 4, 'C', &w->array, &error);
  w->data = (TarnCudaDeviceData) TARN_CUDA_DEVICE_DATA_INIT;
  tarn_cuda_device_data_init (&w->data, 0, &error);
  g_assert_no_error (error);
  w->modules = tarn_cuda_module_memo_new ();
  w->functions = tarn_cuda_function_memo_new (w->modules);
  w->image = g_bytes_new_static ("x", 1);
  w->key = (TarnCudaFunctionKey) TARN_CUDA_FUNCTION_KEY_INIT;
  w->key.image = w->image;
  w->key.name = "f";
  w->torch = tarn_cuda_torch_malloc (1000, 0, NULL);
  w->cupy = tarn_cuda_cupy_malloc (NULL, 1000, 0);
}

static void
world_clear (World *w)
{
  tarn_cuda_torch_free (w->torch, 1000, 0, NULL);
  tarn_cuda_cupy_free (NULL, w->cupy, 0);
  tarn_memo_unref (w->functions);
  tarn_memo_unref (w->modules);
  g_bytes_unref (w->image);
  tarn_cuda_host_array_clear (&w->array);
  tarn_block_free (w->host_block);
  tarn_block_free (w->block);
  tarn_pool_unref (w->pool);
  tarn_pool_unref (w->host_pool);
  tarn_allocator_unref (w->allocator);
  tarn_cuda_context_release (w->context);
}

/* The functions */

static void
run_test (const TarnCudaTest *test, gconstpointer data)
{
  (void) test;
  (void) data;
}

static gpointer
compute (gpointer first_arg, gconstpointer key, gpointer data, GError **error)
{
  (void) first_arg;
  (void) key;
  (void) data;
  (void) error;
  return NULL;
}

static CUdevice device;
static CUcontext context;
static CUstream stream;
static CUmodule module;
static CUfunction function;
static gsize size = 100;
static guint number = 1;
static guint64 graph;
static TarnCudaOccupancy occupancy = TARN_CUDA_OCCUPANCY_INIT;
static const TarnCudaTorchPoolId id = { 1, 2 };

#define FUNCTIONS(X)                                                                               \
  X (tarn_cuda_allocator_get_lost_bytes, QUIET, (w->allocator))                                    \
  X (tarn_cuda_async_allocator_new, FORKED, (w->context, NULL, error))                             \
  X (tarn_cuda_autoinit, FORKED, (&device, &context, error))                                       \
  X (tarn_cuda_block_get_device_pointer, QUIET, (w->block))                                        \
  X (tarn_cuda_block_get_host_pointer, QUIET, (w->host_block))                                     \
  X (tarn_cuda_block_get_stream, QUIET, (w->block, &stream))                                       \
  X (tarn_cuda_block_move_to_stream, FORKED, (w->block, NULL, error))                              \
  X (tarn_cuda_block_free_on, QUIET, (w->block, NULL))                                             \
  X (tarn_cuda_block_record_use, FORKED, (w->block, NULL, error))                                  \
  X (tarn_cuda_clear_context_caches, QUIET, ())                                                    \
  X (tarn_cuda_context_memo_new, QUIET, (&memo_ops, compute, NULL, NULL))                          \
  X (tarn_cuda_context_release, QUIET, (w->context))                                               \
  X (tarn_cuda_cupy_free, QUIET, (NULL, w->cupy, 0))                                               \
  X (tarn_cuda_cupy_malloc, QUIET, (NULL, 100, 0))                                                 \
  X (tarn_cuda_device_allocator_new, FORKED, (w->context, error))                                  \
  X (tarn_cuda_device_allocator_new_with_options, FORKED, (w->context, NULL, error))               \
  X (tarn_cuda_device_data_align, QUIET, (&w->data, 100, 4, &size, error))                         \
  X (tarn_cuda_device_data_align_bytes, QUIET, (&w->data, 4, &size, error))                        \
  X (tarn_cuda_device_data_align_dtype, QUIET, (&w->data, 100, 4, &size, error))                   \
  X (tarn_cuda_device_data_align_words, QUIET, (&w->data, 4, &size, error))                        \
  X (tarn_cuda_device_data_coalesce, QUIET, (&w->data, 32, &number, error))                        \
  X (tarn_cuda_device_data_init, FORKED, (&w->data, 0, error))                                     \
  X (tarn_cuda_device_data_make_valid_tex_channel_count, QUIET, (&w->data, 2, &number, error))     \
  X (tarn_cuda_device_data_smem_alloc_granularity, QUIET, (&w->data))                              \
  X (tarn_cuda_device_data_smem_granularity, QUIET, (&w->data))                                    \
  X (tarn_cuda_error_quark, QUIET, ())                                                             \
  X (tarn_cuda_function_memo_get, FORKED, (w->functions, w->context, &w->key, &function, error))   \
  X (tarn_cuda_function_memo_new, QUIET, (w->modules))                                             \
  X (tarn_cuda_get_default_device, FORKED, (0, &device, error))                                    \
  X (tarn_cuda_get_shared_pool, FORKED, (0, error))                                                \
  X (tarn_cuda_host_allocator_new, FORKED, (w->context, 0, error))                                 \
  X (tarn_cuda_host_array_allocate, FORKED, (w->host_pool, 1, shape, 4, 'C', &array, error))       \
  X (tarn_cuda_host_array_clear, QUIET, (&w->array))                                               \
  X (tarn_cuda_make_default_context, FORKED, (&device, error))                                     \
  X (tarn_cuda_managed_allocator_new, FORKED, (w->context, 0, error))                              \
  X (tarn_cuda_module_memo_get, FORKED, (w->modules, w->context, w->image, &module, error))        \
  X (tarn_cuda_module_memo_new, QUIET, ())                                                         \
  X (tarn_cuda_occupancy, QUIET,                                                                   \
     (&w->data, 256, 0, 0, TARN_CUDA_OCCUPANCY_EXACT, &occupancy, NULL))                           \
  X (tarn_cuda_occupancy_for_function, FORKED,                                                     \
     ((CUfunction) w->context, 256, 0, &occupancy, error))                                         \
  X (tarn_cuda_pool_allocate, FORKED, (w->pool, 100, NULL, error))                                 \
  X (tarn_cuda_pool_begin_graph, FORKED, (w->pool, NULL, &graph, error))                           \
  X (tarn_cuda_pool_end_graph, FORKED, (w->pool, 1, error))                                        \
  X (tarn_cuda_pool_find, QUIET, (w->pool, tarn_cuda_block_get_device_pointer (w->block)))         \
  X (tarn_cuda_pool_forget_stream, QUIET, (w->pool, NULL, error))                                  \
  X (tarn_cuda_pool_new, FORKED, (w->context, NULL, error))                                        \
  X (tarn_cuda_pool_release_graph, FORKED, (w->pool, 1, error))                                    \
  X (tarn_cuda_select_test_devices, FORKED, ("cuda:0", error))                                     \
  X (tarn_cuda_stream_get_queue, QUIET, (NULL))                                                    \
  X (tarn_cuda_suggest_block_size, FORKED, ((CUfunction) w->context, 0, &number, &number, error))  \
  X (tarn_cuda_test_add, QUIET, ("child", run_test, NULL))                                         \
  X (tarn_cuda_torch_begin_allocate_to_pool, QUIET, (0, id, NULL))                                 \
  X (tarn_cuda_torch_empty_cache, QUIET, ())                                                       \
  X (tarn_cuda_torch_end_allocate_to_pool, QUIET, (0, id))                                         \
  X (tarn_cuda_torch_free, QUIET, (w->torch, 1000, 0, NULL))                                       \
  X (tarn_cuda_torch_malloc, QUIET, (100, 0, NULL))                                                \
  X (tarn_cuda_torch_record_stream, QUIET, (w->torch, NULL))                                       \
  X (tarn_cuda_torch_release_pool, QUIET, (0, id))                                                 \
  X (tarn_cuda_torch_set_memory_fraction, QUIET, (0.5, 0))

/* Results in a child end with it. */
#pragma GCC diagnostic ignored "-Wunused-result"
#define DEFINE(name, expected, arguments)                                                          \
  static void call_##name (gpointer world, GError **error)                                         \
  {                                                                                                \
    World *w = world;                                                                              \
    TarnMemoOps memo_ops = TARN_MEMO_OPS_INIT;                                                     \
    TarnCudaHostArray array = TARN_CUDA_HOST_ARRAY_INIT;                                           \
                                                                                                   \
    (void) w;                                                                                      \
    (void) error;                                                                                  \
    (void) memo_ops;                                                                               \
    (void) array;                                                                                  \
    (void) name arguments;                                                                         \
  }
FUNCTIONS (DEFINE)

#define ROW(name, expected, arguments) { #name, call_##name, expected },
static const ForkFunction functions[] = { FUNCTIONS (ROW) };

static gboolean is_ending; /* atomic */

static const ForkHooks hooks = { .count_calls = count_calls };

/* Takes each lock of the library's own, over and over. */
static gpointer
be_busy (gpointer data)
{
  World *w = data;

  while (!g_atomic_int_get (&is_ending))
    {
      tarn_cuda_torch_free (tarn_cuda_torch_malloc (500, 0, NULL), 500, 0, NULL);
      tarn_cuda_cupy_free (NULL, tarn_cuda_cupy_malloc (NULL, 600, 0), 0);
      tarn_cuda_torch_record_stream (w->torch, NULL);
      tarn_cuda_torch_begin_allocate_to_pool (0, id, NULL);
      tarn_cuda_torch_end_allocate_to_pool (0, id);
      tarn_cuda_torch_release_pool (0, id);
      tarn_cuda_context_release (tarn_cuda_make_default_context (NULL, NULL));
      tarn_block_free (tarn_cuda_pool_allocate (w->pool, 700, NULL, NULL));
      tarn_cuda_clear_context_caches ();
      tarn_cuda_torch_empty_cache ();
      fork_functions_use_glib ();
    }
  return NULL;
}

static void
test_functions (void)
{
  World w = { .allocator = NULL };
  GThread *busy;
  guint n_wrong;

  world_init (&w);
  busy = fork_functions_start_busy (be_busy, &w);
  n_wrong = fork_functions_try (functions, G_N_ELEMENTS (functions), &w, &hooks);
  g_atomic_int_set (&is_ending, TRUE);
  g_thread_join (busy);
  world_clear (&w);
  g_assert_cmpuint (n_wrong, ==, 0);
}

static void
test_map (void)
{
  fork_functions_check_map ("cuda", "libtarn-cuda.map", functions, G_N_ELEMENTS (functions));
}

int
main (int argc, char **argv)
{
  fork_functions_init (&argc, &argv);
  g_setenv ("CUDA_DEVICE", "0", TRUE);
  g_test_add_func ("/cuda/fork/map", test_map);
  g_test_add_func ("/cuda/fork/functions", test_functions);
  return g_test_run ();
}
