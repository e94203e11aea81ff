/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The layer over a driver that fails: each of its calls in turn, once and for ever.  The program
 * gets an error for what it cannot have, and nothing is lost, except what a failing release loses.
 * faults-*.c have images and budgets. */

#include "faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

const OpenclLayer *layer;

static gint n_destroyed; /* atomic */

static void CL_CALLBACK
on_destroyed (cl_mem buffer, void *unused)
{
  (void) buffer;
  (void) unused;
  g_atomic_int_inc (&n_destroyed);
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
  program_fill (self, queue, 2, LARGE, value, status);
  program_release (&self->buffers[2], status);
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
check_contents (Program *self, cl_int *status)
{
  guint8 bytes[SIZE];

  if (*status == CL_SUCCESS && (*status = clFinish (self->queues[0])) == CL_SUCCESS)
    *status = clEnqueueReadBuffer (self->queues[1], self->buffers[1], CL_TRUE, 0, SIZE, bytes, 0,
                                   NULL, NULL);
  for (guint i = 0; *status == CL_SUCCESS && i < SIZE; i++)
    g_assert_cmpint (bytes[i], ==, 2);
}

static cl_int
run (Program *self, cl_device_id device)
{
  cl_int status = CL_SUCCESS;

  self->context = clCreateContext (NULL, 1, &device, NULL, NULL, &status);
  make_queue (self, 0, device, &status);
  make_buffer (self, 0, SIZE, &status);
  make_buffer (self, 1, SIZE, &status);
  program_fill (self, 0, 0, SIZE, 1, &status);
  program_fill (self, 0, 1, SIZE, 2, &status);
  pass_on (self, 0, 3, &status);
  make_part (self, &status);
  map (self, &status);
  make_queue (self, 1, device, &status);
  for (guint i = 0; i < 3; i++)
    pass_on (self, i % 2, 4, &status);
  if (status == CL_SUCCESS)
    status = clSetMemObjectDestructorCallback (self->buffers[0], on_destroyed, NULL);
  program_fill (self, 1, 0, SIZE, 5, &status);
  program_release (&self->buffers[0], &status);
  check_contents (self, &status);
  return status;
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
  program_end (&program);
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
  program_fill (program, 0, 0, SIZE, 0, &status);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  g_assert_cmpint (
      clSetMemObjectDestructorCallback (program->buffers[0], on_watched_destroyed, NULL), ==,
      CL_SUCCESS);
  program_release (&program->buffers[0], &status);
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
      program_end (&program);
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
  program_end (&program);
}

/* Buffers of random sizes have blocks of a few sizes, which keep their places: the driver is seldom
 * asked for another sub-buffer.  Makes, uses and releases 4,000 of them on queues by turns. Returns
 * the number of sub-buffers that the driver made. */
static guint
count_sub_buffers (const TarnOpenclDevice *device, guint n_queues)
{
  Program program = { .context = opencl_context_new (device) };
  g_autoptr (GRand) random = g_rand_new_with_seed (1);
  cl_mem buffers[16] = { NULL };
  const guint8 zero = 0;
  cl_int status;

  for (guint i = 0; i < n_queues; i++)
    program.queues[i] = clCreateCommandQueue (program.context, device->device, 0, &status);
  layer->reset ();
  for (guint i = 0; i < 4000; i++)
    {
      cl_mem *buffer = &buffers[i % G_N_ELEMENTS (buffers)];

      if (*buffer != NULL)
        clReleaseMemObject (*buffer);
      *buffer = clCreateBuffer (program.context, CL_MEM_READ_WRITE,
                                (gsize) g_rand_int_range (random, 64, 65600), NULL, &status);
      g_assert_cmpint (status, ==, CL_SUCCESS);
      g_assert_cmpint (clEnqueueFillBuffer (program.queues[i % n_queues], *buffer, &zero, 1, 0, 64,
                                            0, NULL, NULL),
                       ==, CL_SUCCESS);
    }
  for (guint i = 0; i < n_queues; i++)
    g_assert_cmpint (clFinish (program.queues[i]), ==, CL_SUCCESS);
  for (guint i = 0; i < G_N_ELEMENTS (buffers); i++)
    clReleaseMemObject (buffers[i]);
  program_end (&program);
  return layer->get_calls ("clCreateSubBuffer");
}

static void
sub_buffers_again (const TarnOpenclDevice *device, OpenclState *state)
{
  (void) state;
  g_assert_cmpuint (count_sub_buffers (device, 1), <, 4000 / 8);
}

/* With two queues, memory is free once markers are done.  There is one for many buffers. */
static void
sub_buffers_of_queues (const TarnOpenclDevice *device, OpenclState *state)
{
  (void) state;
  g_assert_cmpuint (count_sub_buffers (device, 2), <, 4000 / 2);
  g_assert_cmpuint (layer->get_calls ("clEnqueueMarkerWithWaitList"), >, 0);
  g_assert_cmpuint (layer->get_calls ("clEnqueueMarkerWithWaitList"), <=, 4000 / 8);
}

/* A spare sub-buffer that no buffer needs for long is released; the memory stays with others. */
static void
old_spares (const TarnOpenclDevice *device, OpenclState *state)
{
  Program program = { .context = state->context };
  cl_int status = CL_SUCCESS;
  guint before;

  (void) device;
  layer->reset ();
  make_buffer (&program, 0, SIZE, &status);
  for (gsize size = 1; size <= 10; size++)
    {
      make_buffer (&program, 1, size * SIZE, &status);
      program_release (&program.buffers[1], &status);
    }
  g_assert_cmpint (status, ==, CL_SUCCESS);
  before = count_live ();
  for (guint i = 0; i < 4; i++)
    {
      faults_advance_clock (6 * G_TIME_SPAN_SECOND);
      make_buffer (&program, 1, SIZE, &status);
      program_release (&program.buffers[1], &status);
    }
  g_assert_cmpuint (wait_live (before - 9, WAIT), ==, before - 9);
  program_release (&program.buffers[0], &status);
  g_assert_cmpint (status, ==, CL_SUCCESS);
}

static const OpenclCase cases[] = { { "/layer/at-work", is_at_work },
                                    { "/layer/faults/once", once },
                                    { "/layer/faults/for-ever", for_ever },
                                    { "/layer/sub-buffers-again", sub_buffers_again },
                                    { "/layer/sub-buffers-of-queues", sub_buffers_of_queues },
                                    { "/layer/old-spares", old_spares },
                                    { "/layer/faults/no-thread", no_thread } };

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  layer = opencl_layer_load_under ("libtarn-layer.so");
  if (layer == NULL)
    opencl_add_no_layer ("/layer/faults");
  else
    {
      opencl_add (cases, G_N_ELEMENTS (cases));
      faults_add_images ();
      faults_add_budgets ();
    }
  return g_test_run ();
}
