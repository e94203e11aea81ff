/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Measures the same as order-cost.c for in-order queues of an OpenCL device, beside clCreateBuffer
 * () and clReleaseMemObject ().
 *
 *     t/bench/opencl-order-cost                     on the first device
 *     TARN_TEST=pocl t/bench/opencl-order-cost      on one of PoCL's */

#include <tarn/opencl.h>

#include "order-rows.h"

static cl_context context;
static cl_device_id device;
static cl_command_queue ready; /* allocates buffers at once */
static gboolean is_deferred;

static void
check (const gchar *call, cl_int status)
{
  if (G_UNLIKELY (status != CL_SUCCESS))
    order_end_with (EXIT_WRONG, "%s: %s (%d)", call, tarn_opencl_status_name (status), status);
}

static gpointer
queue_new (void)
{
  cl_int status;
  cl_command_queue queue = clCreateCommandQueue (context, device, 0, &status);

  check ("clCreateCommandQueue", status);
  return queue;
}

static void
queue_free (gpointer queue)
{
  check ("clReleaseCommandQueue", clReleaseCommandQueue (queue));
}

static cl_device_id
choose_device (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) devices = tarn_opencl_select_test_devices (NULL, &error);

  if (error != NULL && !g_error_matches (error, TARN_ERROR, TARN_ERROR_NO_DEVICE))
    order_end_with (EXIT_WRONG, "%s", error->message);
  if (devices == NULL || devices->len == 0)
    order_end_with (EXIT_SKIP, "there is no OpenCL device");
  return ((const TarnOpenclDevice *) g_ptr_array_index (devices, 0))->device;
}

static TarnAllocator *
open_device (void)
{
  g_autoptr (GError) error = NULL;
  TarnAllocator *allocator;
  cl_int status;

  device = choose_device ();
  context = clCreateContext (NULL, 1, &device, NULL, NULL, &status);
  check ("clCreateContext", status);
  ready = queue_new ();
  allocator = is_deferred ? tarn_opencl_deferred_allocator_new (context, 0, &error)
                          : tarn_opencl_immediate_allocator_new (ready, 0, &error);
  if (allocator == NULL)
    order_end_with (EXIT_WRONG, "%s", error->message);
  return allocator;
}

static void
close_device (void)
{
  queue_free (ready);
  check ("clReleaseContext", clReleaseContext (context));
}

static void
settle (gpointer queue)
{
  check ("clFinish", clFinish (queue));
}

static void
use_driver (Lane *lane)
{
  for (guint i = 0; i < ROUND_PAIRS; i++)
    {
      cl_int status;
      cl_mem buffer = clCreateBuffer (context, 0, lane->sizes[i], NULL, &status);

      check ("clCreateBuffer", status);
      check ("clReleaseMemObject", clReleaseMemObject (buffer));
    }
}

/* Hides the message that the pool is over a deferred allocator, which was asked for. */
static void
ignore_message (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer unused)
{
  (void) domain;
  (void) level;
  (void) message;
  (void) unused;
}

int
main (int argc, char **argv)
{
  static const GOptionEntry options[] = { { "deferred", 'd', 0, G_OPTION_ARG_NONE, &is_deferred,
                                            "Over a deferred allocator", NULL },
                                          { NULL, 0, 0, 0, NULL, NULL, NULL } };
  static const OrderBackend backend = {
    .program = "opencl-order-cost",
    .summary = "- what the order of OpenCL queues costs",
    .description = "TARN_TEST and PYOPENCL_TEST choose the device: the first one [of all].\n"
                   "Exit status: 77 where there is none.",
    .options = options,
    .direct = "clCreateBuffer",
    .open = open_device,
    .close = close_device,
    .queue_new = queue_new,
    .queue_free = queue_free,
    .settle = settle,
    .use_direct = use_driver,
  };

  g_log_set_handler ("Tarn", G_LOG_LEVEL_MESSAGE, ignore_message, NULL);
  return order_run (argc, argv, &backend);
}
