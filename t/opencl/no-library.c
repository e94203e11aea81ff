/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What every function says where there is no OpenCL, or one of no use: libraries.t runs this there.
 * It is linked with no OpenCL, and starts all the same.
 *
 *     no-library MESSAGES TEXT
 *
 * MESSAGES is how many g_message() a look for devices ends in: no OpenCL at all is normal.  TEXT is
 * in each error. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/opencl.h>

static const gchar *text;
static guint n_messages;

/* Nobody looks into them. */
static const cl_context context = (cl_context) &n_messages;
static const cl_command_queue queue = (cl_command_queue) &n_messages;
static const cl_device_id device = (cl_device_id) &n_messages;
static const cl_platform_id platform = (cl_platform_id) &n_messages;

static void
count_message (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer unused)
{
  (void) unused;
  g_assert_cmpstr (domain, ==, "Tarn-OpenCL");
  g_assert_cmpint (level & G_LOG_LEVEL_MASK, ==, G_LOG_LEVEL_MESSAGE);
  g_assert_nonnull (strstr (message, text));
  n_messages++;
}

/* A call that fails, and says why. */
#define TELLS(call)                                                                                \
  do                                                                                               \
    {                                                                                              \
      GError *error = NULL;                                                                        \
                                                                                                   \
      g_assert_false (call);                                                                       \
      g_assert_error (error, TARN_ERROR, TARN_ERROR_NO_DRIVER);                                    \
      g_assert_nonnull (strstr (error->message, text));                                            \
      g_clear_error (&error);                                                                      \
    }                                                                                              \
  while (0)

static void
ask_for_memory (void)
{
  TELLS (tarn_opencl_deferred_allocator_new (context, 0, &error));
  TELLS (tarn_opencl_immediate_allocator_new (queue, 0, &error));
  TELLS (tarn_opencl_svm_allocator_new (context, 0, 0, NULL, &error));
  TELLS (tarn_opencl_pool_new (queue, 0, NULL, &error));
  TELLS (tarn_opencl_image_pool_new (queue, NULL, NULL, &error));
}

static gpointer
compute (gpointer first_arg, gconstpointer key, gpointer unused, GError **error)
{
  (void) key;
  (void) unused;
  (void) error;
  return first_arg;
}

/* A memo of the program's computes, but keeps nothing, because no object can be retained. */
static void
ask_memos (void)
{
  g_autoptr (TarnMemo) memo = tarn_opencl_context_memo_new (NULL, compute, NULL, NULL);
  g_autoptr (TarnMemo) kernels = tarn_opencl_kernel_memo_new ();
  TarnOpenclKernelKey key = TARN_OPENCL_KERNEL_KEY_INIT;
  cl_kernel kernel;
  gpointer value = NULL;

  key.source = "kernel void f (void) { }";
  key.kernel_name = "f";
  key.device = device;
  TELLS (tarn_opencl_kernel_memo_get (kernels, context, &key, &kernel, &error));
  TELLS (tarn_memo_get (kernels, context, &key, &value, &error));
  g_assert_true (tarn_memo_get (memo, context, NULL, &value, NULL));
  g_assert_true (value == context);
}

static void
ask_about_devices (void)
{
  const gsize shape[] = { 4 };
  TarnOpenclLocalMemory local = TARN_OPENCL_LOCAL_MEMORY_INIT;
  TarnOpenclAnswer answer;
  const gchar *bug;
  gboolean is_so;
  guint major, minor;
  gsize bytes;

  TELLS (tarn_opencl_get_fast_inaccurate_build_options (device, &error) != NULL);
  TELLS (tarn_opencl_get_pocl_version (platform, 0, 0, &major, &minor, NULL, &error));
  TELLS (tarn_opencl_get_simd_group_size (device, &major, &error));
  TELLS (tarn_opencl_has_amd_double_support (device, &is_so, &error));
  TELLS (tarn_opencl_has_coarse_grain_buffer_svm (device, &is_so, &error));
  TELLS (tarn_opencl_has_double_support (device, &is_so, &error));
  TELLS (tarn_opencl_has_fine_grain_buffer_svm (device, &is_so, &error));
  TELLS (tarn_opencl_has_fine_grain_buffer_svm_atomics (device, &is_so, &error));
  TELLS (tarn_opencl_has_fine_grain_system_svm (device, &is_so, &error));
  TELLS (tarn_opencl_has_fine_grain_system_svm_atomics (device, &is_so, &error));
  TELLS (tarn_opencl_has_src_build_cache (device, &answer, &error));
  TELLS (tarn_opencl_has_struct_arg_count_bug (device, context, &bug, &error));
  TELLS (tarn_opencl_local_memory_access_granularity (device, &major, &error));
  TELLS (tarn_opencl_local_memory_bank_count (device, &major, NULL, &error));
  TELLS (tarn_opencl_measure_local_memory (device, &local, &error));
  TELLS (tarn_opencl_nv_compute_capability (device, &major, &minor, &error));
  TELLS (tarn_opencl_reasonable_work_group_size_multiple (device, context, &bytes, &error));
  TELLS (tarn_opencl_simultaneous_work_items_on_local_access (device, &major, NULL, &error));
  TELLS (tarn_opencl_usable_local_mem_size (device, 1, &bytes, &error));
  TELLS (tarn_opencl_why_not_local_access_conflict_free (device, 4, 1, shape, shape, &major, NULL,
                                                         NULL, &error));
}

/* Nothing to choose from is no error; one that is chosen is not there, and the error says why. */
static void
choose_devices (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) devices = tarn_opencl_select_test_devices ("", &error);

  g_assert_no_error (error);
  g_assert_cmpuint (devices->len, ==, 0);
  g_assert_null (tarn_opencl_select_test_devices ("0:0", &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_SELECTION);
  g_assert_nonnull (strstr (error->message, text));
}

int
main (int argc, char **argv)
{
  TarnOpenclTest test = { .devices = &device, .n_devices = 1 };

  if (argc != 3)
    {
      fprintf (stderr, "usage: no-library MESSAGES TEXT\n");
      return 2;
    }
  text = argv[2];
  g_log_set_default_handler (count_message, NULL);
  for (guint i = 0; i < 2; i++) /* the error is kept */
    {
      TELLS (tarn_opencl_get_function ("clFinish", &error) != NULL);
      TELLS (tarn_opencl_test_create_context (&test, &error));
      ask_for_memory ();
      ask_memos ();
      ask_about_devices ();
    }
  g_assert_cmpuint (n_messages, ==, 0);
  choose_devices ();
  g_assert_cmpuint (n_messages, ==, 2 * (guint) atoi (argv[1]));
  return 0;
}
