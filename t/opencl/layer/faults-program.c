/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The program of the tests of the layer over a driver that fails. */

#include "faults.h"

#include <time.h>

#include "common/whole-private.h"

void
make_buffer (Program *self, guint i, gsize size, cl_int *status)
{
  if (*status == CL_SUCCESS)
    self->buffers[i] = clCreateBuffer (self->context, CL_MEM_READ_WRITE, size, NULL, status);
}

void
make_queue (Program *self, guint i, cl_device_id device, cl_int *status)
{
  if (*status == CL_SUCCESS)
    self->queues[i] = clCreateCommandQueue (self->context, device, 0, status);
}

void
program_release (cl_mem *buffer, cl_int *status)
{
  if (*status == CL_SUCCESS)
    *status = clReleaseMemObject (g_steal_pointer (buffer));
}

void
program_fill (Program *self, guint queue, guint i, gsize size, guint8 value, cl_int *status)
{
  if (*status == CL_SUCCESS)
    *status = clEnqueueFillBuffer (self->queues[queue], self->buffers[i], &value, 1, 0, size, 0,
                                   NULL, NULL);
}

cl_mem
make_image (Program *self, gsize width, cl_int *status)
{
  const cl_image_format format = { CL_RGBA, CL_UNSIGNED_INT8 };
  const cl_image_desc desc
      = { .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = width, .image_height = 256 };

  return *status == CL_SUCCESS
             ? clCreateImage (self->context, CL_MEM_READ_WRITE, &format, &desc, NULL, status)
             : NULL;
}

void
program_end (Program *self)
{
  for (guint i = 0; i < G_N_ELEMENTS (self->buffers); i++)
    if (self->buffers[i] != NULL)
      clReleaseMemObject (self->buffers[i]);
  if (self->part != NULL)
    clReleaseMemObject (self->part);
  for (guint i = 0; i < G_N_ELEMENTS (self->queues); i++)
    if (self->queues[i] != NULL)
      clReleaseCommandQueue (self->queues[i]);
  if (self->context != NULL)
    clReleaseContext (self->context);
}

gboolean
has_images (const TarnOpenclDevice *device)
{
  cl_bool has = CL_FALSE;

  g_assert_cmpint (
      clGetDeviceInfo (device->device, CL_DEVICE_IMAGE_SUPPORT, sizeof has, &has, NULL), ==,
      CL_SUCCESS);
  if (!has)
    g_test_skip ("the device has no images");
  return has;
}

/* The ledger */

guint
count_live (void)
{
  guint n = 0;

  for (guint kind = 0; kind < OPENCL_LAYER_N_KINDS; kind++)
    n += layer->get_live (kind, NULL, 0);
  return n;
}

guint
wait_live (guint expected, gint64 wait)
{
  gint64 deadline = g_get_monotonic_time () + wait;

  while (count_live () > expected && g_get_monotonic_time () < deadline)
    g_thread_yield ();
  return count_live ();
}

/* Whether the driver was made to fail where there is nothing left to do about it. */
static gboolean
may_lose (const gchar *function)
{
  return g_str_has_prefix (function, "clRelease");
}

static void
show_live (void)
{
  for (guint kind = 0; kind < OPENCL_LAYER_N_KINDS; kind++)
    g_test_message ("kind %u: %u", kind, layer->get_live (kind, NULL, 0));
}

/* NVIDIA's driver makes about 130 contexts, and an object that a failing release has lost keeps its
 * context.  So when there is no context, the failed releases are made.  Returns TRUE if any was.
 *
 * They are made only then, because a command that nobody could wait for may still use an object. */
static gboolean
make_room_for_contexts (void)
{
  return layer->release_refused () > 0;
}

/* Makes sure that later tests can make a few contexts. */
static void
leave_contexts (const TarnOpenclDevice *device)
{
  cl_context contexts[4];
  gboolean lacks = FALSE;
  cl_int status;

  for (guint i = 0; i < G_N_ELEMENTS (contexts); i++)
    {
      contexts[i] = clCreateContext (NULL, 1, &device->device, NULL, NULL, &status);
      lacks |= contexts[i] == NULL;
    }
  for (guint i = 0; i < G_N_ELEMENTS (contexts); i++)
    if (contexts[i] != NULL)
      clReleaseContext (contexts[i]);
  if (lacks)
    make_room_for_contexts ();
}

void
fail_each (const TarnOpenclDevice *device, gboolean for_ever,
           cl_int (*run_program) (Program *program, cl_device_id device))
{
  guint lost = count_live ();

  for (guint nth = 1;; nth++)
    {
      Program program = { .context = NULL };
      gboolean has_context;
      const gchar *failed;
      cl_int status;

      layer->reset ();
      layer->fail (NULL, nth, for_ever, CL_OUT_OF_HOST_MEMORY);
      status = run_program (&program, device->device);
      failed = layer->get_failed ();
      layer->fail (NULL, 0, FALSE, CL_SUCCESS);
      has_context = program.context != NULL;
      program_end (&program);
      if (failed == NULL && !has_context && make_room_for_contexts ())
        {
          lost = count_live ();
          nth--;
          continue;
        }
      if (failed == NULL)
        {
          g_assert_cmpint (status, ==, CL_SUCCESS);
          break;
        }
      if (for_ever)
        continue;
      if (may_lose (failed))
        lost = MAX (lost, wait_live (lost, SHORT_WAIT));
      else if (wait_live (lost, WAIT) > lost)
        {
          show_live ();
          g_error ("call %u, %s: %u objects are lost", nth, failed, count_live () - lost);
        }
    }
  leave_contexts (device);
}

/* The clock */

static gint64 ahead TARN_WHOLE; /* microseconds; atomic */

/* In place of GLib's, for the layer. */
gint64
g_get_monotonic_time (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return (gint64) now.tv_sec * G_USEC_PER_SEC + now.tv_nsec / 1000
         + __atomic_load_n (&ahead, __ATOMIC_RELAXED);
}

void
faults_advance_clock (gint64 microseconds)
{
  __atomic_add_fetch (&ahead, microseconds, __ATOMIC_RELAXED);
}
