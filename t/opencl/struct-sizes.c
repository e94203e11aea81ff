/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Callers of libtarn-opencl that were compiled with other versions of its structs; what is measured
 * of local memory has measure.c. */

#include "lib/struct-sizes.h"
#include "device.h"
#include "kernels.h"

static const gchar source[] = "kernel void one (global int *x) { x[0] = 1; }\n";

/* All but the last field of each */

typedef struct
{
  gsize struct_size;
  const gchar *source;
  const gchar *options;
  const gchar *kernel_name;
} OldTarnOpenclKernelKey;

STRUCT_SIZES_VERSIONS (TarnOpenclKernelKey, cl_device_id device, device);

typedef struct
{
  gsize struct_size;
  gboolean has_banks;
  guint bank_count;
  guint bank_bytes;
  guint work_items;
} OldTarnOpenclLocalMemory;

STRUCT_SIZES_VERSIONS (TarnOpenclLocalMemory, gdouble confidence, confidence);

static void
test_defaults (const TarnOpenclDevice *device, OpenclState *state)
{
  (void) device;
  (void) state;
  struct_sizes_check_defaults (TarnOpenclKernelKey, TARN_OPENCL_KERNEL_KEY_INIT);
  struct_sizes_check_defaults (TarnOpenclLocalMemory, TARN_OPENCL_LOCAL_MEMORY_INIT);
}

/* Fails both ways, and nothing is kept. */
static void
refuse (TarnMemo *kernels, cl_context context, gconstpointer key, const gchar *text)
{
  g_autoptr (GError) error = NULL;
  gpointer kernel = NULL;
  gsize n_entries = opencl_count_entries (kernels);

  g_assert_false (tarn_memo_get (kernels, context, key, &kernel, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, text));
  g_assert_null (kernel);
  g_assert_cmpuint (opencl_count_entries (kernels), ==, n_entries);
}

static void
test_older_key (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnMemo) kernels = tarn_opencl_kernel_memo_new ();
  TarnOpenclKernelKey key = opencl_kernel_key (device, source, "one");
  OlderTarnOpenclKernelKey older;
  cl_kernel kernel = NULL;
  g_autoptr (GError) error = NULL;

  struct_sizes_begin_from (&older, &key);
  refuse (kernels, state->context, &older, "no device");
  struct_sizes_check (&older);
  g_assert_false (
      tarn_opencl_kernel_memo_get (kernels, state->context, (gpointer) &older, &kernel, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_null (kernel);
}

static void
test_newer_key (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnMemo) kernels = tarn_opencl_kernel_memo_new ();
  TarnOpenclKernelKey key = opencl_kernel_key (device, source, "one");
  g_autoptr (GError) error = NULL;
  NewerTarnOpenclKernelKey newer;
  cl_kernel kernel = NULL;

  /* The same entry as that of a caller of this version. */
  struct_sizes_begin_from (&newer, &key);
  opencl_touch_kernel (kernels, state->context, &newer.as.known);
  opencl_touch_kernel (kernels, state->context, &key);
  g_assert_cmpuint (opencl_count_entries (kernels), ==, 1);

  newer.as.later = &newer;
  refuse (kernels, state->context, &newer, "TarnOpenclKernelKey");
  g_assert_false (
      tarn_opencl_kernel_memo_get (kernels, state->context, &newer.as.known, &kernel, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_null (kernel);
  newer.as.known.struct_size = 0;
  refuse (kernels, state->context, &newer, "TarnOpenclKernelKey");
}

int
main (int argc, char **argv)
{
  static const OpenclCase cases[] = {
    { "struct-sizes/defaults", test_defaults },
    { "struct-sizes/older-key", test_older_key },
    { "struct-sizes/newer-key", test_newer_key },
  };

  g_test_init (&argc, &argv, NULL);
  opencl_add (cases, G_N_ELEMENTS (cases));
  return g_test_run ();
}
