/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Calls each public function of libtarn-opencl in children of fork ().  There the code of the
 * OpenCL loader cannot be run, so that each call of OpenCL is seen.
 *
 * The functions of libtarn-layer.so are not among them: the loader calls both, before any other. */

#define _GNU_SOURCE 1 /* dl_iterate_phdr () */

#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device.h"
#include "lib/fork-functions.h"

/* The loader's code */

static guintptr code_start, code_end; /* pages */

/* Takes the segment that @function lies in; 1 ends the search. */
static int
find_code (struct dl_phdr_info *info, size_t size, void *function)
{
  const guintptr page = (guintptr) sysconf (_SC_PAGESIZE), address = (guintptr) function;

  (void) size;
  for (guint i = 0; i < info->dlpi_phnum; i++)
    {
      guintptr start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
      guintptr end = start + info->dlpi_phdr[i].p_memsz;

      if (info->dlpi_phdr[i].p_type != PT_LOAD || address < start || address >= end)
        continue;
      code_start = start / page * page;
      code_end = (end + page - 1) / page * page;
      return 1;
    }
  return 0;
}

static void
end_child (int signal_number, siginfo_t *info, void *unused)
{
  guintptr address = (guintptr) info->si_addr;

  (void) unused;
  if (address >= code_start && address < code_end)
    _exit (FORK_CALLED);
  signal (signal_number, SIG_DFL); /* it crashes again, and ends */
}

static void
forbid_calls (gpointer unused)
{
  const struct sigaction action = { .sa_sigaction = end_child, .sa_flags = SA_SIGINFO };

  (void) unused;
  sigaction (SIGSEGV, &action, NULL);
  if (mprotect ((gpointer) code_start, code_end - code_start, PROT_NONE) != 0)
    _exit (99);
}

static const ForkHooks hooks = { .enter = forbid_calls };

/* What there is in the parent */

typedef struct
{
  cl_platform_id platform;
  cl_device_id device;
  cl_context context;
  cl_command_queue queue, other;
  TarnOpenclTest test;
  TarnPool *pool, *svm_pool; /* svm_pool: NULL where the device has no such memory */
  TarnBlock *block, *svm, *image;
  TarnOpenclImagePool *images; /* NULL where the device has none */
  TarnMemo *memo, *kernels;
  TarnOpenclKernelKey key;
} World;

static gpointer
compute (gpointer first_arg, gconstpointer key, gpointer data, GError **error)
{
  (void) first_arg;
  (void) data;
  (void) error;
  return (gpointer) key;
}

static void
run_test (const TarnOpenclTest *test, gconstpointer data)
{
  (void) test;
  (void) data;
}

static gpointer
find_function (const gchar *name, gpointer data)
{
  (void) name;
  return data;
}

static void
init_svm (World *w)
{
  g_autoptr (TarnAllocator) allocator
      = tarn_opencl_svm_allocator_new (w->context, 0, 0, w->queue, NULL);

  if (allocator == NULL)
    return;
  w->svm_pool = tarn_pool_new (allocator, NULL, NULL);
  w->svm = tarn_opencl_pool_allocate (w->svm_pool, 1000, w->queue, NULL);
}

static const cl_image_format format = { CL_RGBA, CL_FLOAT };
static const cl_image_desc desc
    = { .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 20, .image_height = 10 };

static void
init_images (World *w)
{
  w->images = tarn_opencl_image_pool_new (w->queue, w->pool, NULL, NULL);
  if (w->images != NULL)
    w->image = tarn_opencl_image_pool_allocate (w->images, 0, &format, &desc, w->queue, NULL);
}

static void
world_init (World *w, const TarnOpenclDevice *device, const OpenclState *state)
{
  TarnMemoOps ops = TARN_MEMO_OPS_INIT;
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;
  cl_int status;
  gpointer value;

  w->platform = device->platform;
  w->device = device->device;
  w->context = state->context;
  w->queue = state->queue;
  w->other = clCreateCommandQueue (w->context, w->device, 0, &status);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  w->test.n_devices = 1;
  w->test.devices = &w->device;
  options.flags = TARN_POOL_FINDABLE;
  w->pool = tarn_opencl_pool_new (w->queue, 0, &options, &error);
  g_assert_no_error (error);
  w->block = tarn_opencl_pool_allocate (w->pool, 1000, w->queue, &error);
  g_assert_no_error (error);
  init_svm (w);
  init_images (w);
  w->memo = tarn_opencl_context_memo_new (&ops, compute, NULL, NULL);
  tarn_memo_get (w->memo, w->context, "there", &value, &error);
  g_assert_no_error (error);
  w->kernels = tarn_opencl_kernel_memo_new ();
  w->key = (TarnOpenclKernelKey) TARN_OPENCL_KERNEL_KEY_INIT;
  w->key.source = "kernel void f (void) { }";
  w->key.kernel_name = "f";
  w->key.device = w->device;
}

static void
world_clear (World *w)
{
  tarn_memo_unref (w->kernels);
  tarn_memo_unref (w->memo);
  g_clear_pointer (&w->image, tarn_block_free);
  g_clear_pointer (&w->images, tarn_opencl_image_pool_unref);
  g_clear_pointer (&w->svm, tarn_block_free);
  g_clear_pointer (&w->svm_pool, tarn_pool_unref);
  tarn_block_free (w->block);
  tarn_pool_unref (w->pool);
  g_assert_cmpint (clFinish (w->other), ==, CL_SUCCESS);
  g_assert_cmpint (clReleaseCommandQueue (w->other), ==, CL_SUCCESS);
}

/* The functions */

static gboolean is_so;
static guint number, other_number;
static gsize bytes;
static const gchar *text;
static cl_kernel kernel;
static const gsize shape[] = { 4 };
static TarnOpenclAnswer answer;
static TarnOpenclLocalMemory local = TARN_OPENCL_LOCAL_MEMORY_INIT;

#define FUNCTIONS(X)                                                                               \
  X (tarn_opencl_block_create_sub_buffer, FORKED, (w->block, 0, 0, 500, error))                    \
  X (tarn_opencl_block_free_on, QUIET, (w->block, w->other))                                       \
  X (tarn_opencl_block_get_buffer, QUIET, (w->block))                                              \
  X (tarn_opencl_block_get_image, QUIET, (w->image))                                               \
  X (tarn_opencl_block_get_queue, QUIET, (w->block))                                               \
  X (tarn_opencl_block_get_svm, QUIET, (w->svm))                                                   \
  X (tarn_opencl_block_move_to_queue, FORKED, (w->block, w->other, error))                         \
  X (tarn_opencl_block_record_use, FORKED, (w->block, w->other, error))                            \
  X (tarn_opencl_context_memo_new, QUIET, (&memo_ops, compute, NULL, NULL))                        \
  X (tarn_opencl_deferred_allocator_new, FORKED, (w->context, 0, error))                           \
  X (tarn_opencl_device_memo_new, QUIET, (&memo_ops, compute, NULL, NULL))                         \
  X (tarn_opencl_error_quark, QUIET, ())                                                           \
  X (tarn_opencl_get_fast_inaccurate_build_options, FORKED, (w->device, error))                    \
  X (tarn_opencl_get_function, FORKED, ("clFinish", error))                                        \
  X (tarn_opencl_get_pocl_version, FORKED,                                                         \
     (w->platform, 0, 0, &number, &other_number, NULL, error))                                     \
  X (tarn_opencl_get_simd_group_size, FORKED, (w->device, &number, error))                         \
  X (tarn_opencl_has_amd_double_support, FORKED, (w->device, &is_so, error))                       \
  X (tarn_opencl_has_coarse_grain_buffer_svm, FORKED, (w->device, &is_so, error))                  \
  X (tarn_opencl_has_double_support, FORKED, (w->device, &is_so, error))                           \
  X (tarn_opencl_has_fine_grain_buffer_svm, FORKED, (w->device, &is_so, error))                    \
  X (tarn_opencl_has_fine_grain_buffer_svm_atomics, FORKED, (w->device, &is_so, error))            \
  X (tarn_opencl_has_fine_grain_system_svm, FORKED, (w->device, &is_so, error))                    \
  X (tarn_opencl_has_fine_grain_system_svm_atomics, FORKED, (w->device, &is_so, error))            \
  X (tarn_opencl_has_src_build_cache, FORKED, (w->device, &answer, error))                         \
  X (tarn_opencl_has_struct_arg_count_bug, FORKED, (w->device, w->context, &text, error))          \
  X (tarn_opencl_image_pool_allocate, FORKED, (w->images, 0, &format, &desc, w->queue, error))     \
  X (tarn_opencl_image_pool_get_pool, QUIET, (w->images))                                          \
  X (tarn_opencl_image_pool_new, FORKED, (w->queue, w->pool, NULL, error))                         \
  X (tarn_opencl_image_pool_ref, QUIET, (w->images))                                               \
  X (tarn_opencl_image_pool_unref, QUIET, (w->images))                                             \
  X (tarn_opencl_immediate_allocator_new, FORKED, (w->queue, 0, error))                            \
  X (tarn_opencl_kernel_memo_get, FORKED, (w->kernels, w->context, &w->key, &kernel, error))       \
  X (tarn_opencl_kernel_memo_new, QUIET, ())                                                       \
  X (tarn_opencl_local_memory_access_granularity, FORKED, (w->device, &number, error))             \
  X (tarn_opencl_local_memory_bank_count, FORKED, (w->device, &number, NULL, error))               \
  X (tarn_opencl_measure_local_memory, FORKED, (w->device, &local, error))                         \
  X (tarn_opencl_nv_compute_capability, FORKED, (w->device, &number, &other_number, error))        \
  X (tarn_opencl_pool_allocate, FORKED, (w->pool, 1 << 20, w->queue, error))                       \
  X (tarn_opencl_pool_allocate_copy, FORKED, (w->pool, "", 1, w->queue, error))                    \
  X (tarn_opencl_pool_find, QUIET, (w->pool, tarn_opencl_block_get_buffer (w->block)))             \
  X (tarn_opencl_pool_new_for_device, FORKED, (w->context, w->device, 0, NULL, error))             \
  X (tarn_opencl_pool_new, FORKED, (w->queue, 0, NULL, error))                                     \
  X (tarn_opencl_queue_memo_new, QUIET, (&memo_ops, compute, NULL, NULL))                          \
  X (tarn_opencl_reasonable_work_group_size_multiple, FORKED,                                      \
     (w->device, w->context, &bytes, error))                                                       \
  X (tarn_opencl_select_test_devices, FORKED, (NULL, error))                                       \
  X (tarn_opencl_set_functions, FORKED, (find_function, NULL, error))                              \
  X (tarn_opencl_simultaneous_work_items_on_local_access, FORKED,                                  \
     (w->device, &number, NULL, error))                                                            \
  X (tarn_opencl_error_to_status, QUIET, (NULL))                                                   \
  X (tarn_opencl_status_name, QUIET, (CL_INVALID_VALUE))                                           \
  X (tarn_opencl_svm_allocator_new, FORKED, (w->context, 0, 0, w->queue, error))                   \
  X (tarn_opencl_test_add, QUIET, ("child", run_test, NULL))                                       \
  X (tarn_opencl_test_add_per_platform, QUIET, ("child", run_test, NULL))                          \
  X (tarn_opencl_test_create_context, FORKED, (&w->test, error))                                   \
  X (tarn_opencl_usable_local_mem_size, FORKED, (w->device, 1, &bytes, error))                     \
  X (tarn_opencl_why_not_local_access_conflict_free, FORKED,                                       \
     (w->device, 4, 1, shape, shape, &number, NULL, NULL, error))

/* Results in a child end with it. */
#pragma GCC diagnostic ignored "-Wunused-result"
#define DEFINE(name, expected, arguments)                                                          \
  static void call_##name (gpointer world, GError **error)                                         \
  {                                                                                                \
    World *w = world;                                                                              \
    TarnMemoOps memo_ops = TARN_MEMO_OPS_INIT;                                                     \
                                                                                                   \
    (void) w;                                                                                      \
    (void) error;                                                                                  \
    (void) memo_ops;                                                                               \
    (void) name arguments;                                                                         \
  }
FUNCTIONS (DEFINE)

#define ROW(name, expected, arguments) { #name, call_##name, expected },
static const ForkFunction functions[] = { FUNCTIONS (ROW) };

/* Tells whether there is what a function is called with. */
static gboolean
can_call (const World *w, const ForkFunction *function)
{
  if (function->call == call_tarn_opencl_block_get_svm)
    return w->svm != NULL;
  return w->image != NULL || strstr (function->name, "image") == NULL;
}

/* Lists those that can be called; gets how many there are. */
static guint
list_functions (const World *w, ForkFunction *list)
{
  guint n = 0;

  for (guint i = 0; i < G_N_ELEMENTS (functions); i++)
    if (can_call (w, &functions[i]))
      list[n++] = functions[i];
  return n;
}

static gboolean is_ending; /* atomic */

/* Takes each lock of the library's own, over and over.  It enqueues on a queue of its own, because
 * some drivers fail where threads share one. */
static gpointer
be_busy (gpointer data)
{
  World *w = data;
  gpointer value;

  while (!g_atomic_int_get (&is_ending))
    {
      tarn_block_free (tarn_opencl_pool_allocate (w->pool, 5000, w->other, NULL));
      if (w->svm_pool != NULL)
        {
          tarn_block_free (tarn_opencl_pool_allocate (w->svm_pool, 5000, w->other, NULL));
          tarn_pool_free_held (w->svm_pool);
        }
      if (w->images != NULL)
        tarn_block_free (
            tarn_opencl_image_pool_allocate (w->images, 0, &format, &desc, w->other, NULL));
      tarn_memo_get (w->memo, w->context, "busy", &value, NULL);
      tarn_memo_clear (w->memo);
      fork_functions_use_glib ();
    }
  return NULL;
}

static void
test_functions (const TarnOpenclDevice *device, OpenclState *state)
{
  ForkFunction list[G_N_ELEMENTS (functions)];
  World w = { .device = NULL };
  GThread *busy;
  guint n_wrong;

  world_init (&w, device, state);
  is_ending = FALSE;
  busy = fork_functions_start_busy (be_busy, &w);
  n_wrong = fork_functions_try (list, list_functions (&w, list), &w, &hooks);
  g_atomic_int_set (&is_ending, TRUE);
  g_thread_join (busy);
  world_clear (&w);
  g_assert_cmpuint (n_wrong, ==, 0);
}

/* A call of OpenCL in a child is seen. */
static void
call_opencl (gpointer world, GError **error)
{
  cl_uint n;

  (void) world;
  (void) error;
  clGetPlatformIDs (0, NULL, &n);
}

static void
test_seen (const TarnOpenclDevice *device, OpenclState *state)
{
  static const ForkFunction caller = { "clGetPlatformIDs", call_opencl, QUIET };

  (void) device;
  (void) state;
  g_assert_cmpuint (fork_functions_try (&caller, 1, NULL, &hooks), ==, 1);
}

static void
test_map (const TarnOpenclDevice *device, OpenclState *state)
{
  (void) device;
  (void) state;
  fork_functions_check_map ("opencl", "libtarn-opencl.map", functions, G_N_ELEMENTS (functions));
}

int
main (int argc, char **argv)
{
  static const OpenclCase cases[] = { { "fork/map", test_map },
                                      { "fork/seen", test_seen },
                                      { "fork/functions", test_functions } };

  fork_functions_init (&argc, &argv);
  dl_iterate_phdr (find_code, dlsym (RTLD_DEFAULT, "clGetPlatformIDs"));
  g_assert_cmpuint (code_end, >, 0);
  opencl_add (cases, G_N_ELEMENTS (cases));
  return g_test_run ();
}
