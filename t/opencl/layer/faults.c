/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The layer over a driver that fails: each of its calls in turn, once and for ever, and budgets.
 * The program is told of what it cannot have and nothing is lost, but what a failing release loses.
 */

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "common/whole-private.h"
#include "opencl/device.h"

#define SIZE 4096
#define LARGE ((gsize) 1 << 20)
#define WAIT (10 * G_TIME_SPAN_SECOND)
#define SHORT_WAIT (G_TIME_SPAN_SECOND / 5) /* where there may be nothing to wait for */

static const OpenclLayer *layer;

/* What a program has of OpenCL; NULL: not made. */
typedef struct
{
  cl_context context;
  cl_command_queue queues[2];
  cl_mem buffers[3];
  cl_mem part; /* or an image */
} Program;

static gint n_destroyed; /* atomic */

static void CL_CALLBACK
on_destroyed (cl_mem buffer, void *unused)
{
  (void) buffer;
  (void) unused;
  g_atomic_int_inc (&n_destroyed);
}

/* Each goes on where the one before has left the status at CL_SUCCESS. */

static void
make_buffer (Program *self, guint i, gsize size, cl_int *status)
{
  if (*status == CL_SUCCESS)
    self->buffers[i] = clCreateBuffer (self->context, CL_MEM_READ_WRITE, size, NULL, status);
}

static void
release (cl_mem *buffer, cl_int *status)
{
  if (*status == CL_SUCCESS)
    *status = clReleaseMemObject (g_steal_pointer (buffer));
}

static void
fill (Program *self, guint queue, guint i, gsize size, guint8 value, cl_int *status)
{
  if (*status == CL_SUCCESS)
    *status = clEnqueueFillBuffer (self->queues[queue], self->buffers[i], &value, 1, 0, size, 0,
                                   NULL, NULL);
}

static void
map (Program *self, cl_int *status)
{
  gpointer pointer;

  if (*status != CL_SUCCESS)
    return;
  pointer = clEnqueueMapBuffer (self->queues[0], self->buffers[1], CL_TRUE, CL_MAP_READ, 0, SIZE, 0,
                                NULL, NULL, status);
  if (*status != CL_SUCCESS)
    return;
  g_assert_cmpint (*(guint8 *) pointer, ==, 2);
  *status = clEnqueueUnmapMemObject (self->queues[0], self->buffers[1], pointer, 0, NULL, NULL);
}

/* A buffer that is released as soon as a command has it, for another one. */
static void
pass_on (Program *self, guint queue, guint8 value, cl_int *status)
{
  make_buffer (self, 2, LARGE, status);
  fill (self, queue, 2, LARGE, value, status);
  release (&self->buffers[2], status);
}

static void
make_part (Program *self, cl_int *status)
{
  const cl_buffer_region region = { 0, SIZE / 2 };

  if (*status == CL_SUCCESS)
    self->part
        = clCreateSubBuffer (self->buffers[1], 0, CL_BUFFER_CREATE_TYPE_REGION, &region, status);
}

static void
make_queue (Program *self, guint i, cl_device_id device, cl_int *status)
{
  if (*status == CL_SUCCESS)
    self->queues[i] = clCreateCommandQueue (self->context, device, 0, status);
}

static void
check_contents (Program *self, cl_int *status)
{
  guint8 bytes[SIZE];

  if (*status == CL_SUCCESS && (*status = clFinish (self->queues[0])) == CL_SUCCESS)
    *status = clEnqueueReadBuffer (self->queues[1], self->buffers[1], CL_TRUE, 0, SIZE, bytes, 0,
                                   NULL, NULL);
  for (guint i = 0; *status == CL_SUCCESS && i < SIZE; i++)
    g_assert_cmpint (bytes[i], ==, 2);
}

static void
make_image_of (Program *self, guint i, cl_int *status)
{
  const cl_image_format format = { CL_R, CL_UNSIGNED_INT8 };
  cl_image_desc desc = { .image_type = CL_MEM_OBJECT_IMAGE1D_BUFFER, .image_width = SIZE };

  desc.buffer = self->buffers[i];
  if (*status == CL_SUCCESS)
    self->part = clCreateImage (self->context, CL_MEM_READ_WRITE, &format, &desc, NULL, status);
}

/* An image of a buffer that the context's pool has served. */
static cl_int
run_image (Program *self, cl_device_id device)
{
  const size_t origin[3] = { 0, 0, 0 }, region[3] = { SIZE, 1, 1 };
  guint8 bytes[SIZE] = { 0 };
  cl_int status = CL_SUCCESS;

  self->context = clCreateContext (NULL, 1, &device, NULL, NULL, &status);
  make_queue (self, 0, device, &status);
  make_buffer (self, 0, SIZE, &status);
  make_buffer (self, 1, SIZE, &status);
  fill (self, 0, 1, SIZE, 7, &status);
  make_image_of (self, 1, &status);
  if (status == CL_SUCCESS)
    status = clEnqueueReadImage (self->queues[0], self->part, CL_TRUE, origin, region, 0, 0, bytes,
                                 0, NULL, NULL);
  for (guint i = 0; status == CL_SUCCESS && i < SIZE; i++)
    g_assert_cmpint (bytes[i], ==, 7);
  return status;
}

static cl_mem
make_image (Program *self, gsize width, cl_int *status)
{
  const cl_image_format format = { CL_RGBA, CL_UNSIGNED_INT8 };
  const cl_image_desc desc
      = { .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = width, .image_height = 256 };

  return *status == CL_SUCCESS
             ? clCreateImage (self->context, CL_MEM_READ_WRITE, &format, &desc, NULL, status)
             : NULL;
}

/* Fills an image, reads a pixel, and releases it if it is to be. */
static void
use_image (Program *self, guint queue, guint value, cl_mem image, cl_int *status)
{
  const size_t origin[3] = { 0, 0, 0 }, region[3] = { 16, 16, 1 }, one[3] = { 1, 1, 1 };
  const cl_uint colour[4] = { value, value, value, value };
  guint8 pixel[4] = { 0 };

  if (*status == CL_SUCCESS)
    *status
        = clEnqueueFillImage (self->queues[queue], image, colour, origin, region, 0, NULL, NULL);
  if (*status == CL_SUCCESS)
    *status = clEnqueueReadImage (self->queues[queue], image, CL_TRUE, origin, one, 0, 0, pixel, 0,
                                  NULL, NULL);
  if (*status == CL_SUCCESS)
    g_assert_cmpint (pixel[0], ==, value);
}

/* Images that the context's pool serves, on two queues. */
static cl_int
run_pooled_images (Program *self, cl_device_id device)
{
  cl_int status = CL_SUCCESS;

  self->context = clCreateContext (NULL, 1, &device, NULL, NULL, &status);
  make_queue (self, 0, device, &status);
  make_queue (self, 1, device, &status);
  for (guint i = 0; i < 6 && status == CL_SUCCESS; i++)
    {
      self->buffers[i % 2] = make_image (self, 16 + i / 2 % 2, &status);
      use_image (self, i % 2, 1 + i, self->buffers[i % 2], &status);
      release (&self->buffers[i % 2], &status);
    }
  self->part = make_image (self, 18, &status);
  use_image (self, 1, 9, self->part, &status);
  return status;
}

static cl_int
run (Program *self, cl_device_id device)
{
  cl_int status = CL_SUCCESS;

  self->context = clCreateContext (NULL, 1, &device, NULL, NULL, &status);
  make_queue (self, 0, device, &status);
  make_buffer (self, 0, SIZE, &status);
  make_buffer (self, 1, SIZE, &status);
  fill (self, 0, 0, SIZE, 1, &status);
  fill (self, 0, 1, SIZE, 2, &status);
  pass_on (self, 0, 3, &status);
  make_part (self, &status);
  map (self, &status);
  make_queue (self, 1, device, &status);
  for (guint i = 0; i < 3; i++)
    pass_on (self, i % 2, 4, &status);
  if (status == CL_SUCCESS)
    status = clSetMemObjectDestructorCallback (self->buffers[0], on_destroyed, NULL);
  fill (self, 1, 0, SIZE, 5, &status);
  release (&self->buffers[0], &status);
  check_contents (self, &status);
  return status;
}

static void
end (Program *self)
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

/* The ledger */

static guint
count_live (void)
{
  guint n = 0;

  for (guint kind = 0; kind < OPENCL_LAYER_N_KINDS; kind++)
    n += layer->get_live (kind, NULL, 0);
  return n;
}

/* A driver's own threads may let go a moment later. */
static guint
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

/* Fails each call of the driver in turn until there is none that was to fail. */
static void
fail_each (const TarnOpenclDevice *device, gboolean for_ever,
           cl_int (*run_program) (Program *program, cl_device_id device))
{
  guint lost = count_live ();

  for (guint nth = 1;; nth++)
    {
      Program program = { .context = NULL };
      const gchar *failed;
      cl_int status;

      layer->reset ();
      layer->fail (NULL, nth, for_ever, CL_OUT_OF_HOST_MEMORY);
      status = run_program (&program, device->device);
      failed = layer->get_failed ();
      layer->fail (NULL, 0, FALSE, CL_SUCCESS);
      end (&program);
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
}

static void
once (const TarnOpenclDevice *device, OpenclState *state)
{
  (void) state;
  fail_each (device, FALSE, run);
}

static void
for_ever (const TarnOpenclDevice *device, OpenclState *state)
{
  (void) state;
  fail_each (device, TRUE, run);
}

/* Images of buffers */

/* Tells whether a device makes them.  FALSE: it does not, and the test is skipped. */
static gboolean
has_images_of_buffers (const TarnOpenclDevice *device)
{
  Program program = { .context = NULL };
  cl_bool has = CL_FALSE;
  cl_int status;

  layer->reset ();
  g_assert_cmpint (
      clGetDeviceInfo (device->device, CL_DEVICE_IMAGE_SUPPORT, sizeof has, &has, NULL), ==,
      CL_SUCCESS);
  status = has ? run_image (&program, device->device) : CL_INVALID_OPERATION;
  end (&program);
  if (status != CL_SUCCESS)
    g_test_skip ("the driver makes no images of buffers that are from a pool");
  return status == CL_SUCCESS;
}

static void
image_once (const TarnOpenclDevice *device, OpenclState *state)
{
  (void) state;
  if (has_images_of_buffers (device))
    fail_each (device, FALSE, run_image);
}

static void
image_for_ever (const TarnOpenclDevice *device, OpenclState *state)
{
  (void) state;
  if (has_images_of_buffers (device))
    fail_each (device, TRUE, run_image);
}

/* A driver that makes no images of sub-buffers, for a device that is not the host's processor: the
 * program has its error, and from then on buffers of which there are images. */
static void
image_later (const TarnOpenclDevice *device, OpenclState *state)
{
  const cl_device_type type = CL_DEVICE_TYPE_GPU;
  cl_int status = CL_SUCCESS;
  Program program = { .context = NULL };

  (void) state;
  if (!has_images_of_buffers (device))
    return;
  layer->set_device_info (CL_DEVICE_TYPE, &type, sizeof type);
  program.context = opencl_context_new (device);
  make_buffer (&program, 0, SIZE, &status);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  make_image_of (&program, 0, &status);
  if (status == CL_SUCCESS)
    g_test_skip ("the driver makes images of sub-buffers");
  else
    {
      g_assert_cmpint (status, ==, CL_INVALID_MEM_OBJECT);
      g_assert_null (program.part);
      status = CL_SUCCESS;
      make_buffer (&program, 1, SIZE, &status);
      make_image_of (&program, 1, &status);
      g_assert_cmpint (status, ==, CL_SUCCESS);
    }
  end (&program);
  layer->reset ();
}

/* Images from a pool */

static gboolean
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

static void
pooled_once (const TarnOpenclDevice *device, OpenclState *state)
{
  (void) state;
  if (has_images (device))
    fail_each (device, FALSE, run_pooled_images);
}

static void
pooled_for_ever (const TarnOpenclDevice *device, OpenclState *state)
{
  (void) state;
  if (has_images (device))
    fail_each (device, TRUE, run_pooled_images);
}

static guint
wait_images (guint expected)
{
  gint64 deadline = g_get_monotonic_time () + WAIT;

  while (layer->get_live (OPENCL_LAYER_IMAGE, NULL, 0) > expected
         && g_get_monotonic_time () < deadline)
    g_thread_yield ();
  return layer->get_live (OPENCL_LAYER_IMAGE, NULL, 0);
}

/* The same images are made again without the driver, and are all released with their context. */
static void
pooled_again (const TarnOpenclDevice *device, OpenclState *state)
{
  Program program = { .context = NULL };
  cl_int status = CL_SUCCESS;
  guint before, n_images;

  (void) state;
  if (!has_images (device))
    return;
  before = count_live ();
  n_images = layer->get_live (OPENCL_LAYER_IMAGE, NULL, 0);
  program.context = opencl_context_new (device);
  make_queue (&program, 0, device->device, &status);
  layer->reset ();
  for (guint i = 0; i < 100; i++)
    {
      program.buffers[0] = make_image (&program, 16 + i % 2, &status);
      use_image (&program, 0, i, program.buffers[0], &status);
      release (&program.buffers[0], &status);
      g_assert_cmpint (status, ==, CL_SUCCESS);
    }
  g_assert_cmpuint (layer->get_calls ("clCreateImage"), ==, 2);
  make_buffer (&program, 0, SIZE, &status);
  g_assert_cmpint (clReleaseContext (g_steal_pointer (&program.context)), ==, CL_SUCCESS);
  g_assert_cmpuint (wait_images (n_images), ==, n_images); /* though the buffer has the context */
  end (&program);
  g_assert_cmpuint (wait_live (before, WAIT), ==, before);
}

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

static void
make_and_release (Program *program, gsize width)
{
  cl_int status = CL_SUCCESS;
  cl_mem image = make_image (program, width, &status);

  g_assert_cmpint (status, ==, CL_SUCCESS);
  g_assert_cmpint (clReleaseMemObject (image), ==, CL_SUCCESS);
}

/* Images that are not needed for long go back, those that are do not. */
static void
pooled_idle (const TarnOpenclDevice *device, OpenclState *state)
{
  guint n_images = layer->get_live (OPENCL_LAYER_IMAGE, NULL, 0);
  Program program = { .context = state->context };

  if (!has_images (device))
    return;
  layer->reset ();
  for (guint i = 0; i < 10; i++)
    make_and_release (&program, 16 + i);
  g_assert_cmpuint (layer->get_calls ("clCreateImage"), ==, 10);
  for (guint i = 0; i < 4; i++)
    {
      __atomic_add_fetch (&ahead, 6 * G_TIME_SPAN_SECOND, __ATOMIC_RELAXED);
      make_and_release (&program, 16);
    }
  g_assert_cmpuint (layer->get_calls ("clCreateImage"), ==, 10);
  g_assert_cmpuint (wait_images (n_images + 1), ==, n_images + 1);
}

/* On a driver whose maps hold no references, an image that is released while it is mapped is not
 * handed out again. */
static void
pooled_mapped (const TarnOpenclDevice *device, OpenclState *state)
{
  const size_t origin[3] = { 0, 0, 0 }, region[3] = { 16, 16, 1 };
  const cl_uint one = 1;
  Program program = { .context = NULL };
  cl_int status = CL_SUCCESS;
  gpointer pointer;
  size_t row;
  cl_mem image;

  (void) state;
  if (!has_images (device))
    return;
  layer->reset ();
  program.context = opencl_context_new (device);
  make_queue (&program, 0, device->device, &status);
  layer->set_info ("clGetMemObjectInfo", CL_MEM_REFERENCE_COUNT, &one, sizeof one);
  for (guint i = 0; i < 3; i++)
    {
      image = make_image (&program, 16, &status);
      g_assert_cmpint (status, ==, CL_SUCCESS);
      pointer = clEnqueueMapImage (program.queues[0], image, CL_TRUE, CL_MAP_READ, origin, region,
                                   &row, NULL, 0, NULL, NULL, &status);
      g_assert_cmpint (status, ==, CL_SUCCESS);
      if (i == 2)
        g_assert_cmpint (clEnqueueUnmapMemObject (program.queues[0], image, pointer, 0, NULL, NULL),
                         ==, CL_SUCCESS);
      g_assert_cmpint (clReleaseMemObject (image), ==, CL_SUCCESS);
    }
  g_assert_cmpuint (layer->get_calls ("clCreateImage"), ==, 3);
  program.part = make_image (&program, 16, &status);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  g_assert_cmpuint (layer->get_calls ("clCreateImage"), ==, 3);
  end (&program);
  layer->reset ();
}

/* The layer has to be there for any of this to mean something. */
static void
is_at_work (const TarnOpenclDevice *device, OpenclState *state)
{
  Program program = { .context = NULL };
  guint before = count_live ();

  (void) state;
  layer->reset ();
  n_destroyed = 0;
  g_assert_cmpint (run (&program, device->device), ==, CL_SUCCESS);
  g_assert_cmpuint (layer->get_calls ("clCreateSubBuffer"), >, 4);
  end (&program);
  g_assert_cmpuint (wait_live (before, WAIT), ==, before);
  g_assert_cmpint (g_atomic_int_get (&n_destroyed), ==, 1);
}

/* No thread can be made */

static gint refuses_threads; /* atomic */

/* In place of the C library's, for GLib: a limit on threads does not bind root. */
int
pthread_create (pthread_t *thread, const pthread_attr_t *attributes, void *(*func) (void *),
                void *data)
{
  int (*create) (pthread_t *, const pthread_attr_t *, void *(*) (void *), void *);

  if (g_atomic_int_get (&refuses_threads))
    return EAGAIN;
  *(gpointer *) &create = dlsym (RTLD_NEXT, "pthread_create");
  return create (thread, attributes, func, data);
}

/* Those of use_and_watch (): buffers of the tests before may be destroyed late. */
static gint n_watched; /* atomic: that are gone */

static void CL_CALLBACK
on_watched_destroyed (cl_mem buffer, void *unused)
{
  (void) buffer;
  (void) unused;
  g_atomic_int_inc (&n_watched);
}

/* Fills a buffer whose end the driver must tell, and releases it. */
static void
use_and_watch (Program *program)
{
  cl_int status = CL_SUCCESS;

  make_buffer (program, 0, SIZE, &status);
  fill (program, 0, 0, SIZE, 0, &status);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  g_assert_cmpint (
      clSetMemObjectDestructorCallback (program->buffers[0], on_watched_destroyed, NULL), ==,
      CL_SUCCESS);
  release (&program->buffers[0], &status);
  g_assert_cmpint (status, ==, CL_SUCCESS);
}

/* Has the queue wait for an event, in a command of another buffer's. */
static cl_event
close_queue (Program *program, cl_int *status)
{
  cl_event gate = clCreateUserEvent (program->context, status);
  const guint8 zero = 0;

  make_buffer (program, 1, SIZE, status);
  g_assert_cmpint (*status, ==, CL_SUCCESS);
  *status = clEnqueueFillBuffer (program->queues[0], program->buffers[1], &zero, 1, 0, SIZE, 1,
                                 &gate, NULL);
  return gate;
}

/* A queue takes no marker, and no thread can be made to wait for it instead.  It goes on with the
 * next marker that it takes, and no buffer is lost. */
static void
no_thread (const TarnOpenclDevice *device, OpenclState *state)
{
  Program program = { .context = opencl_context_new (device) };
  gint64 deadline = g_get_monotonic_time () + WAIT;
  cl_int status = CL_SUCCESS;
  cl_event gate;

  (void) state;
  if (opencl_runs_in_caller (device))
    {
      g_test_skip ("the device runs commands in who flushes them");
      end (&program);
      return;
    }
  layer->reset ();
  n_watched = 0;
  make_queue (&program, 0, device->device, &status);
  gate = close_queue (&program, &status);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  layer->fail ("clEnqueueMarkerWithWaitList", 1, FALSE, CL_OUT_OF_HOST_MEMORY);
  g_atomic_int_set (&refuses_threads, TRUE);
  use_and_watch (&program);
  g_atomic_int_set (&refuses_threads, FALSE);
  g_assert_cmpstr (layer->get_failed (), ==, "clEnqueueMarkerWithWaitList");
  layer->fail (NULL, 0, FALSE, CL_SUCCESS);
  g_assert_cmpint (clSetUserEventStatus (gate, CL_COMPLETE), ==, CL_SUCCESS);
  use_and_watch (&program);
  g_assert_cmpint (clFlush (program.queues[0]), ==, CL_SUCCESS);
  while (g_atomic_int_get (&n_watched) < 2 && g_get_monotonic_time () < deadline)
    g_thread_yield ();
  g_assert_cmpint (g_atomic_int_get (&n_watched), ==, 2);
  g_assert_cmpint (clReleaseEvent (gate), ==, CL_SUCCESS);
  end (&program);
}

/* Budgets */

#define BUDGET (64 * LARGE)

/* Besides what failing releases have lost. */
static void
set_budget (guint64 bytes)
{
  guint64 lost = bytes == G_MAXUINT64 ? 0 : layer->get_live_bytes ();

  layer->set_budget (lost + bytes, OPENCL_LAYER_AT_CREATION, CL_MEM_OBJECT_ALLOCATION_FAILURE);
}

static void
release_buffer (gpointer buffer)
{
  g_assert_cmpint (clReleaseMemObject (buffer), ==, CL_SUCCESS);
}

/* Makes buffers until there is no memory, and releases them: how many bytes that were. */
static gsize
fill_budget (cl_context context, cl_mem_flags flags, gsize size)
{
  g_autoptr (GPtrArray) buffers = g_ptr_array_new_with_free_func (release_buffer);
  cl_int status = CL_SUCCESS;
  cl_mem buffer;

  while ((buffer = clCreateBuffer (context, flags, size, NULL, &status)) != NULL)
    g_ptr_array_add (buffers, buffer);
  g_assert_cmpint (status, ==, CL_MEM_OBJECT_ALLOCATION_FAILURE);
  return buffers->len * size;
}

/* Nearly as much as without the layer: a piece ends where another buffer of this size does not fit.
 */
static void
fits (const TarnOpenclDevice *device, OpenclState *state)
{
  static const gsize sizes[] = { LARGE / 4, LARGE, 3 * LARGE / 2, 5 * LARGE, 60 * LARGE };
  /* What goes later is beyond the budget: besides what is lost, and the test's own, there is none.
   */
  guint live = wait_live (0, 10 * SHORT_WAIT);

  (void) state;
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    for (guint k = 0; k < 2; k++)
      {
        gsize bytes, most = BUDGET / sizes[i] * sizes[i];
        cl_context context;

        g_assert_cmpuint (wait_live (live, WAIT), <=, live);
        context = opencl_context_new (device);
        layer->reset ();
        set_budget (BUDGET);
        bytes = fill_budget (context, k == 0 ? 0 : CL_MEM_ALLOC_HOST_PTR, sizes[i]);
        g_test_message ("%zu of %zu bytes in buffers of %zu: %u pieces", bytes, most, sizes[i],
                        layer->get_calls ("clCreateBuffer"));
        g_assert_cmpuint (bytes, <=, most);
        g_assert_cmpuint (bytes, >=, most / 4 * 3);
        set_budget (G_MAXUINT64);
        g_assert_cmpint (clReleaseContext (context), ==, CL_SUCCESS);
      }
}

static void
takes (cl_context context, cl_mem_flags flags, gsize size, gpointer host)
{
  cl_int status = 99;
  cl_mem buffer = clCreateBuffer (context, flags, size, host, &status);

  g_assert_cmpint (status, ==, CL_SUCCESS);
  g_assert_cmpint (clReleaseMemObject (buffer), ==, CL_SUCCESS);
}

/* What is idle in pools goes back to whoever else asks the driver. */
static void
makes_room (const TarnOpenclDevice *device, OpenclState *state)
{
  gsize size = 50 * LARGE;
  g_autofree gpointer host = g_malloc0 (size);
  cl_context other = opencl_context_new (device);

  layer->reset ();
  set_budget (BUDGET);
  for (guint i = 0; i < 3; i++)
    {
      g_assert_cmpuint (fill_budget (state->context, 0, LARGE), >, 0);
      takes (state->context, CL_MEM_COPY_HOST_PTR, size, host);
      g_assert_cmpuint (fill_budget (state->context, 0, LARGE), >, 0);
      takes (state->context, CL_MEM_ALLOC_HOST_PTR, size, NULL);
      g_assert_cmpuint (fill_budget (state->context, 0, LARGE), >, 0);
      takes (other, 0, size, NULL);
    }
  set_budget (G_MAXUINT64);
  g_assert_cmpint (clReleaseContext (other), ==, CL_SUCCESS);
}

/* Makes images until there is no memory, and releases them: how many bytes that were. */
static gsize
fill_with_images (cl_context context, gsize width)
{
  g_autoptr (GPtrArray) images = g_ptr_array_new_with_free_func (release_buffer);
  Program program = { .context = context };
  cl_int status = CL_SUCCESS;
  cl_mem image;

  while ((image = make_image (&program, width, &status)) != NULL)
    g_ptr_array_add (images, image);
  g_assert_cmpint (status, ==, CL_MEM_OBJECT_ALLOCATION_FAILURE);
  return images->len * width * 256 * 4;
}

/* Held images go for buffers, and for images of other kinds; held buffers for images. */
static void
images_make_room (const TarnOpenclDevice *device, OpenclState *state)
{
  gsize size = 50 * LARGE;
  g_autofree gpointer host = NULL;

  if (!has_images (device))
    return;
  host = g_malloc0 (size);
  layer->reset ();
  set_budget (BUDGET);
  for (guint i = 0; i < 3; i++)
    {
      g_assert_cmpuint (fill_with_images (state->context, 1024), >=, BUDGET / 4 * 3);
      g_assert_cmpuint (fill_budget (state->context, 0, LARGE), >=, BUDGET / 4 * 3);
      g_assert_cmpuint (fill_with_images (state->context, 1024), >=, BUDGET / 4 * 3);
      g_assert_cmpuint (fill_with_images (state->context, 1000), >=, BUDGET / 4 * 3);
      takes (state->context, CL_MEM_COPY_HOST_PTR, size, host);
    }
  set_budget (G_MAXUINT64);
}

/* Fills and releases buffers of several times the budget, each once it is filled. */
static void
fill_many (Program *program, cl_int *status)
{
  const guint8 zero = 0;
  cl_event event;

  for (guint i = 0; i < 200; i++)
    {
      make_buffer (program, 1, 4 * LARGE, status);
      g_assert_cmpint (*status, ==, CL_SUCCESS);
      g_assert_cmpint (clEnqueueFillBuffer (program->queues[0], program->buffers[1], &zero, 1, 0,
                                            4 * LARGE, 0, NULL, &event),
                       ==, CL_SUCCESS);
      g_assert_cmpint (clWaitForEvents (1, &event), ==, CL_SUCCESS);
      g_assert_cmpint (clReleaseEvent (event), ==, CL_SUCCESS);
      release (&program->buffers[1], status);
    }
}

/* NVIDIA's driver runs nothing behind a command that waits, out of order or not.  Buffers of the
 * host's pointers are the driver's own, so that it alone is asked.
 */
static gboolean
passes_waiting (const TarnOpenclDevice *device)
{
  cl_int status = CL_SUCCESS;
  cl_int state = CL_QUEUED;
  guint8 bytes[2] = { 0, 0 };
  const guint8 one = 1;
  cl_context context = opencl_context_new (device);
  cl_command_queue queue = clCreateCommandQueue (context, device->device,
                                                 CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &status);
  cl_event gate = clCreateUserEvent (context, &status);
  cl_event event = NULL;
  cl_mem buffers[2];

  for (guint i = 0; i < 2; i++)
    {
      buffers[i] = clCreateBuffer (context, CL_MEM_COPY_HOST_PTR, 1, &bytes[i], &status);
      g_assert_cmpint (status, ==, CL_SUCCESS);
      g_assert_cmpint (clEnqueueFillBuffer (queue, buffers[i], &one, 1, 0, 1, 1 - i,
                                            i == 0 ? &gate : NULL, &event),
                       ==, CL_SUCCESS);
      if (i == 0)
        g_assert_cmpint (clReleaseEvent (event), ==, CL_SUCCESS);
    }
  g_assert_cmpint (clFlush (queue), ==, CL_SUCCESS);
  for (guint i = 0; i < 2000 && state > CL_COMPLETE; i++)
    {
      g_assert_cmpint (
          clGetEventInfo (event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL), ==,
          CL_SUCCESS);
      g_usleep (1000);
    }
  g_assert_cmpint (clSetUserEventStatus (gate, CL_COMPLETE), ==, CL_SUCCESS);
  g_assert_cmpint (clFinish (queue), ==, CL_SUCCESS);
  g_assert_cmpint (clReleaseEvent (event), ==, CL_SUCCESS);
  g_assert_cmpint (clReleaseEvent (gate), ==, CL_SUCCESS);
  for (guint i = 0; i < 2; i++)
    g_assert_cmpint (clReleaseMemObject (buffers[i]), ==, CL_SUCCESS);
  g_assert_cmpint (clReleaseCommandQueue (queue), ==, CL_SUCCESS);
  g_assert_cmpint (clReleaseContext (context), ==, CL_SUCCESS);
  return state == CL_COMPLETE;
}

/* Out of order, a command that waits for long keeps what it uses, and nothing else. */
static void
out_of_order (const TarnOpenclDevice *device, OpenclState *state)
{
  cl_int status = CL_SUCCESS;
  Program program = { .context = opencl_context_new (device) };
  const guint8 zero = 0;
  cl_event gate;

  (void) state;
  program.queues[0] = clCreateCommandQueue (program.context, device->device,
                                            CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &status);
  if (program.queues[0] == NULL || opencl_runs_in_caller (device))
    {
      g_test_skip ("the device has no queues out of order, or runs commands in who flushes them");
      end (&program);
      return;
    }
  if (!passes_waiting (device))
    {
      g_test_skip ("the driver runs no command before one that waits");
      end (&program);
      return;
    }
  layer->reset ();
  gate = clCreateUserEvent (program.context, &status);
  make_buffer (&program, 0, LARGE, &status);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  g_assert_cmpint (clEnqueueFillBuffer (program.queues[0], program.buffers[0], &zero, 1, 0, LARGE,
                                        1, &gate, NULL),
                   ==, CL_SUCCESS);
  set_budget (BUDGET);
  fill_many (&program, &status);
  set_budget (G_MAXUINT64);
  g_assert_cmpint (clSetUserEventStatus (gate, CL_COMPLETE), ==, CL_SUCCESS);
  g_assert_cmpint (clReleaseEvent (gate), ==, CL_SUCCESS);
  g_assert_cmpint (clFinish (program.queues[0]), ==, CL_SUCCESS);
  end (&program);
}

/* Buffers of random sizes have blocks of a few sizes, which keep their places: the driver is seldom
 * asked for another sub-buffer. */
static void
sub_buffers_again (const TarnOpenclDevice *device, OpenclState *state)
{
  Program program = { .context = opencl_context_new (device) };
  g_autoptr (GRand) random = g_rand_new_with_seed (1);
  cl_mem buffers[16] = { NULL };
  const guint8 zero = 0;
  cl_int status;

  (void) state;
  program.queues[0] = clCreateCommandQueue (program.context, device->device, 0, &status);
  layer->reset ();
  for (guint i = 0; i < 4000; i++)
    {
      cl_mem *buffer = &buffers[i % G_N_ELEMENTS (buffers)];

      if (*buffer != NULL)
        clReleaseMemObject (*buffer);
      *buffer = clCreateBuffer (program.context, CL_MEM_READ_WRITE,
                                (gsize) g_rand_int_range (random, 64, 65600), NULL, &status);
      g_assert_cmpint (status, ==, CL_SUCCESS);
      g_assert_cmpint (
          clEnqueueFillBuffer (program.queues[0], *buffer, &zero, 1, 0, 64, 0, NULL, NULL), ==,
          CL_SUCCESS);
    }
  g_assert_cmpint (clFinish (program.queues[0]), ==, CL_SUCCESS);
  g_test_message ("%u sub-buffers", layer->get_calls ("clCreateSubBuffer"));
  g_assert_cmpuint (layer->get_calls ("clCreateSubBuffer"), <, 4000 / 8);
  for (guint i = 0; i < G_N_ELEMENTS (buffers); i++)
    clReleaseMemObject (buffers[i]);
  end (&program);
}

static const OpenclCase cases[] = { { "/layer/at-work", is_at_work },
                                    { "/layer/faults/once", once },
                                    { "/layer/faults/for-ever", for_ever },
                                    { "/layer/faults/image-once", image_once },
                                    { "/layer/faults/image-for-ever", image_for_ever },
                                    { "/layer/faults/image-later", image_later },
                                    { "/layer/faults/pooled-images-once", pooled_once },
                                    { "/layer/faults/pooled-images-for-ever", pooled_for_ever },
                                    { "/layer/pooled-images-again", pooled_again },
                                    { "/layer/pooled-images-idle", pooled_idle },
                                    { "/layer/pooled-images-mapped", pooled_mapped },
                                    { "/layer/sub-buffers-again", sub_buffers_again },
                                    { "/layer/faults/no-thread", no_thread },
                                    { "/layer/budget/fits", fits },
                                    { "/layer/budget/makes-room", makes_room },
                                    { "/layer/budget/images-make-room", images_make_room },
                                    { "/layer/budget/out-of-order", out_of_order } };

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  layer = opencl_layer_load_under ("libtarn-layer.so");
  if (layer == NULL)
    opencl_add_no_layer ("/layer/faults");
  else
    opencl_add (cases, G_N_ELEMENTS (cases));
  return g_test_run ();
}
