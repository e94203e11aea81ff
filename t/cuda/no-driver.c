/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What every function says where there is no driver, or one of no use: cuda-drivers.t runs this
 * there.
 *
 *     cuda-no-driver MESSAGES TEXT
 *
 * @MESSAGES is how many g_message() a look for devices ends in: no driver at all is normal.  @TEXT
 * is in each error. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/cuda.h>

#include "lib/null-argument.h"

static const gchar *text;
static guint n_messages;

static void
count_message (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer unused)
{
  (void) unused;
  g_assert_cmpstr (domain, ==, "Tarn-CUDA");
  g_assert_cmpint (level & G_LOG_LEVEL_MASK, ==, G_LOG_LEVEL_MESSAGE);
  g_assert_nonnull (strstr (message, text));
  n_messages++;
}

/* The error is forgotten. */
static void
assert_told (GError **error)
{
  g_assert_error (*error, TARN_ERROR, TARN_ERROR_NO_DRIVER);
  g_assert_nonnull (strstr ((*error)->message, text));
  g_clear_error (error);
}

static void
ask_for_contexts (void)
{
  GError *error = NULL;
  CUdevice device = -1;
  CUcontext context = NULL;

  g_assert_null (tarn_cuda_make_default_context (&device, &error));
  assert_told (&error);
  g_assert_false (tarn_cuda_autoinit (&device, &context, &error));
  assert_told (&error);
  g_assert_false (tarn_cuda_get_default_device (0, &device, &error));
  assert_told (&error);
  g_assert_cmpint (device, ==, -1);
  g_assert_null (context);
  tarn_cuda_context_release (NULL);
}

static void
ask_for_allocators (CUcontext context)
{
  GError *error = NULL;

  g_assert_null (tarn_cuda_device_allocator_new (context, &error));
  assert_told (&error);
  g_assert_null (tarn_cuda_device_allocator_new_with_options (context, NULL, &error));
  assert_told (&error);
  g_assert_null (tarn_cuda_host_allocator_new (context, 0, &error));
  assert_told (&error);
  g_assert_null (tarn_cuda_managed_allocator_new (context, 0, &error));
  assert_told (&error);
  g_assert_null (tarn_cuda_async_allocator_new (context, NULL, &error));
  assert_told (&error);
}

static void
ask_for_numbers (void)
{
  CUfunction function = (CUfunction) &n_messages; /* nobody looks into it */
  TarnCudaDeviceData data = TARN_CUDA_DEVICE_DATA_INIT;
  TarnCudaOccupancy occupancy = TARN_CUDA_OCCUPANCY_INIT;
  GError *error = NULL;

  g_assert_false (tarn_cuda_device_data_init (&data, 0, &error));
  assert_told (&error);
  g_assert_false (tarn_cuda_occupancy_for_function (function, 32, 0, &occupancy, &error));
  assert_told (&error);
  g_assert_false (tarn_cuda_suggest_block_size (function, 0, NULL, NULL, &error));
  assert_told (&error);
}

/* The error names the argument that is NULL, with a driver and without one. */
static void
pass_null (void)
{
  TarnCudaOccupancy occupancy = TARN_CUDA_OCCUPANCY_INIT;
  TarnCudaFunctionKey key = TARN_CUDA_FUNCTION_KEY_INIT;
  g_autoptr (GBytes) image = g_bytes_new_static ("", 1);
  CUfunction function;
  CUmodule module;
  guint64 graph;

  REFUSES_NULL (tarn_cuda_pool_allocate (NULL, 1, NULL, &error) != NULL, "pool");
  REFUSES_NULL (tarn_cuda_pool_forget_stream (NULL, NULL, &error), "pool");
  REFUSES_NULL (tarn_cuda_pool_begin_graph (NULL, NULL, &graph, &error), "pool");
  REFUSES_NULL (tarn_cuda_pool_end_graph (NULL, 1, &error), "pool");
  REFUSES_NULL (tarn_cuda_pool_release_graph (NULL, 1, &error), "pool");
  REFUSES_NULL (tarn_cuda_block_record_use (NULL, NULL, &error), "block");
  REFUSES_NULL (tarn_cuda_block_move_to_stream (NULL, NULL, &error), "block");
  REFUSES_NULL (tarn_cuda_module_memo_get (NULL, NULL, image, &module, &error), "memo");
  REFUSES_NULL (tarn_cuda_function_memo_get (NULL, NULL, &key, &function, &error), "memo");
  REFUSES_NULL (tarn_cuda_occupancy_for_function (NULL, 32, 0, &occupancy, &error), "function");
  REFUSES_NULL (tarn_cuda_suggest_block_size (NULL, 0, NULL, NULL, &error), "function");
}

/* Nothing to choose from is no error, and no name is wrong. */
static void
choose_devices (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) devices = tarn_cuda_select_test_devices ("cuda:3", &error);

  g_assert_no_error (error);
  g_assert_cmpuint (devices->len, ==, 0);
}

int
main (int argc, char **argv)
{
  if (argc != 3)
    {
      fprintf (stderr, "usage: cuda-no-driver MESSAGES TEXT\n");
      return 2;
    }
  text = argv[2];
  g_log_set_default_handler (count_message, NULL);
  for (guint i = 0; i < 2; i++) /* the error is kept */
    {
      ask_for_contexts ();
      ask_for_allocators (NULL);
      ask_for_allocators ((CUcontext) &n_messages); /* nobody looks into it, either */
      ask_for_numbers ();
    }
  pass_null ();
  g_assert_cmpuint (n_messages, ==, 0);
  choose_devices ();
  g_assert_cmpuint (n_messages, ==, (guint) atoi (argv[1]));
  return 0;
}
