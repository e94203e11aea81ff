/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A fuzz target for libFuzzer, run by .ci/run: whatever the text, there are devices that exist or
 * an error, and never both. */

#include <tarn/tarn.h>

int LLVMFuzzerTestOneInput (const guint8 *data, size_t size);

static const TarnSelectionDevice devices[] = {
  { "cpu:basic", "GenuineIntel", NULL, NULL, { NULL } },
  { "NVIDIA H200", "NVIDIA \xc3\x84", "GPU-9f2c", "0000:65:00.0", { NULL } },
  { NULL, "\xff", "", "65:00", { NULL } },
};
static const TarnSelectionPlatform platforms[] = {
  { "Portable Computing Language", "pocl", devices, 1, NULL, { NULL } },
  { "NVIDIA CUDA", NULL, devices, 3, "opencl", { NULL } },
  { "Clover", "Mesa", NULL, 0, NULL, { NULL } },
  { "CUDA", "NVIDIA", devices + 1, 2, "cuda", { NULL } },
};

static void
check (const gchar *text, TarnSelectionSyntax syntax, gsize n_platforms)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GArray) items = tarn_selection_resolve (text, syntax, platforms, n_platforms, &error);

  g_assert_true ((items == NULL) == (error != NULL));
  for (guint i = 0; items != NULL && i < items->len; i++)
    {
      TarnSelectionItem item = g_array_index (items, TarnSelectionItem, i);

      g_assert_cmpuint (item.platform, <, n_platforms);
      g_assert_cmpuint (item.device, <, platforms[item.platform].n_devices);
    }
}

int
LLVMFuzzerTestOneInput (const guint8 *data, size_t size)
{
  g_autofree gchar *text = g_strndup ((const gchar *) data, size);

  for (gsize n = 0; n <= G_N_ELEMENTS (platforms); n++)
    {
      check (text, TARN_SELECTION_PYOPENCL, n);
      check (text, TARN_SELECTION_STRICT, n);
    }
  return 0;
}
