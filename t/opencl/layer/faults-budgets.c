/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The layer over a driver with a budget: as much fits as without the layer, and idle memory goes
 * back to whoever asks the driver, and with its context. */

#include "faults.h"

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
  /* Buffers that earlier tests still have would count within the budget.  So the test waits until
   * only those are left that are lost, or its own. */
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

/* Pools return idle memory to the driver if another request, which the driver serves, needs it. */
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
      program_release (&program->buffers[1], status);
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
      program_end (&program);
      return;
    }
  if (!passes_waiting (device))
    {
      g_test_skip ("the driver runs no command before one that waits");
      program_end (&program);
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
  program_end (&program);
}

/* A context that the program has released keeps no idle memory, although other objects of the
 * program keep the context: neither what was idle at its release, nor what is released later. */
static void
ends (const TarnOpenclDevice *device, OpenclState *state)
{
  cl_int status = CL_SUCCESS;
  Program program = { .context = opencl_context_new (device) };
  guint64 before, most;

  (void) state;
  layer->reset ();
  before = layer->get_live_bytes ();
  make_queue (&program, 0, device->device, &status);
  make_buffer (&program, 0, 10 * LARGE, &status);
  make_buffer (&program, 1, 10 * LARGE, &status);
  make_buffer (&program, 2, SIZE, &status);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  most = layer->get_live_bytes () - before;
  program_release (&program.buffers[0], &status);
  g_assert_cmpint (clReleaseContext (program.context), ==, CL_SUCCESS);
  program.context = NULL;
  g_assert_cmpuint (layer->get_live_bytes () - before, <=, most - 10 * LARGE);
  program_release (&program.buffers[1], &status);
  g_assert_cmpuint (layer->get_live_bytes () - before, <=, most - 20 * LARGE);
  program_release (&program.buffers[2], &status);
  g_assert_cmpuint (layer->get_live_bytes (), ==, before);
  program_end (&program);
}

/* A context in which the program requests nothing keeps no idle memory: the next request in another
 * context returns it. */
static void
idle_beside (const TarnOpenclDevice *device, OpenclState *state)
{
  cl_context other = opencl_context_new (device);
  guint64 before;

  layer->reset ();
  takes (state->context, 0, 10 * LARGE, NULL);
  takes (other, 0, LARGE, NULL);
  before = layer->get_live_bytes ();
  faults_advance_clock (11 * G_TIME_SPAN_SECOND);
  takes (other, 0, LARGE, NULL);
  g_assert_cmpuint (layer->get_live_bytes (), <=, before - 10 * LARGE);
  g_assert_cmpint (clReleaseContext (other), ==, CL_SUCCESS);
}

static const OpenclCase cases[] = { { "/layer/budget/fits", fits },
                                    { "/layer/budget/makes-room", makes_room },
                                    { "/layer/budget/ends", ends },
                                    { "/layer/budget/idle-beside", idle_beside },
                                    { "/layer/budget/images-make-room", images_make_room },
                                    { "/layer/budget/out-of-order", out_of_order } };

void
faults_add_budgets (void)
{
  opencl_add (cases, G_N_ELEMENTS (cases));
}
