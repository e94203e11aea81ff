/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Contexts: buffers that outlive the program's reference to one, several at a time, and their end.
 */

#include "promises.h"

/* Buffers outlive the program's hold on queue and context. */
static void
contexts_first (World *world)
{
  for (guint i = 0; i < 20; i++)
    {
      World own = { .device = world->device };
      gsize size = 1 + 997 * i;
      cl_context context = NULL;
      cl_mem buffer, part, other;

      own.context = promise_context (world);
      own.queue = promise_queue (&own, 0);
      buffer = promise_filled (&own, size + promise_get_alignment (world), i);
      part = promise_part (buffer, 0, promise_get_alignment (world), size);
      OK (clReleaseContext (own.context));
      other = promise_filled (&own, size, 7); /* the queue has the context still */
      OK (clGetMemObjectInfo (buffer, CL_MEM_CONTEXT, sizeof context, &context, NULL));
      printf ("%zu, %zu wrong, %s", promise_read_wrong (own.queue, other, 0, size, 7, 0),
              promise_read_wrong (own.queue, buffer, 0, size, i, 0),
              context == own.context ? "the context" : "another");
      OK (clReleaseMemObject (other));
      OK (clReleaseCommandQueue (own.queue));
      OK (clRetainMemObject (buffer));
      OK (clReleaseMemObject (buffer));
      printf (", counts %u, %u", promise_wait_count (buffer, 2), promise_wait_count (part, 1));
      OK (clReleaseMemObject (buffer));
      OK (clGetMemObjectInfo (part, CL_MEM_CONTEXT, sizeof context, &context, NULL));
      printf (", %s", context == own.context ? "the context" : "another");
      own.queue = promise_queue (&own, 0); /* and so has the part */
      promise_write (own.queue, part, 0, size, 8);
      printf (", %zu wrong\n", promise_read_wrong (own.queue, part, 0, size, 8, 0));
      OK (clReleaseMemObject (part));
      OK (clReleaseCommandQueue (own.queue));
    }
}

/* Makes 200 contexts one after another, but at most as many as the driver makes in 10 seconds. */
static void
contexts_many (World *world)
{
  gint64 end = g_get_monotonic_time () + 10 * G_TIME_SPAN_SECOND;
  gsize wrong = 0;

  for (guint i = 0; i < 200 && (i < 10 || g_get_monotonic_time () < end); i++)
    {
      World own = { .device = world->device };
      cl_mem buffers[10];

      own.context = promise_context (world);
      own.queue = promise_queue (&own, 0);
      for (guint k = 0; k < G_N_ELEMENTS (buffers); k++)
        buffers[k] = promise_filled (&own, 1 + 100 * k, i + k);
      if (i % 2 == 0)
        OK (clReleaseContext (own.context));
      for (guint k = 0; k < G_N_ELEMENTS (buffers); k++)
        {
          wrong += promise_read_wrong (own.queue, buffers[k], 0, 1 + 100 * k, i + k, 0);
          OK (clReleaseMemObject (buffers[k]));
        }
      OK (clReleaseCommandQueue (own.queue));
      if (i % 2 != 0)
        OK (clReleaseContext (own.context));
    }
  printf ("%zu wrong\n", wrong);
}

/* Several contexts live side by side, each with buffers of its own. */
static void
contexts_beside (World *world)
{
  World own[8] = { { .device = NULL } };
  cl_mem buffers[8][20];
  gsize wrong = 0;

  for (guint i = 0; i < G_N_ELEMENTS (own); i++)
    {
      own[i].device = world->device;
      own[i].context = promise_context (world);
      own[i].queue = promise_queue (&own[i], 0);
    }
  for (guint k = 0; k < 20; k++)
    for (guint i = 0; i < G_N_ELEMENTS (own); i++)
      buffers[i][k] = promise_filled (&own[i], 1 + 50 * k, 20 * i + k);
  for (guint i = 0; i < G_N_ELEMENTS (own); i++)
    {
      for (guint k = 0; k < 20; k++)
        {
          wrong += promise_read_wrong (own[i].queue, buffers[i][k], 0, 1 + 50 * k, 20 * i + k, 0);
          OK (clReleaseMemObject (buffers[i][k]));
        }
      OK (clReleaseCommandQueue (own[i].queue));
      OK (clReleaseContext (own[i].context));
    }
  printf ("%zu wrong\n", wrong);
}

/* A buffer of one context in the queue of another. */
static void
contexts_mixed (World *world)
{
  const size_t zero[3] = { 0, 0, 0 }, region[3] = { 10, 1, 1 }, global = 64, local = 16;
  World own = { .device = world->device };
  cl_command_queue queue = world->queue;
  guchar host[10] = { 0 };
  cl_kernel kernel = promise_kernel (world, "add");
  cl_int status = 99;
  cl_mem a = promise_filled (world, 10, 1), b;

  own.context = promise_context (world);
  own.queue = promise_queue (&own, 0);
  b = promise_filled (&own, 10, 2);
#define SHOW(call) printf (#call ": %s\n", promise_status (call))
  SHOW (clEnqueueReadBuffer (queue, b, CL_TRUE, 0, 10, host, 0, NULL, NULL));
  SHOW (clEnqueueWriteBuffer (queue, b, CL_TRUE, 0, 10, host, 0, NULL, NULL));
  SHOW (clEnqueueFillBuffer (queue, b, host, 1, 0, 10, 0, NULL, NULL));
  SHOW (clEnqueueCopyBuffer (queue, a, b, 0, 0, 10, 0, NULL, NULL));
  SHOW (clEnqueueCopyBuffer (queue, b, a, 0, 0, 10, 0, NULL, NULL));
  SHOW (clEnqueueReadBufferRect (queue, b, CL_TRUE, zero, zero, region, 0, 0, 0, 0, host, 0, NULL,
                                 NULL));
  SHOW (clEnqueueWriteBufferRect (queue, b, CL_TRUE, zero, zero, region, 0, 0, 0, 0, host, 0, NULL,
                                  NULL));
  SHOW (clEnqueueCopyBufferRect (queue, b, a, zero, zero, region, 0, 0, 0, 0, 0, NULL, NULL));
  SHOW (clEnqueueMigrateMemObjects (queue, 1, &b, 0, 0, NULL, NULL));
  SHOW (clEnqueueMapBuffer (queue, b, CL_TRUE, CL_MAP_READ, 0, 10, 0, NULL, NULL, &status) == NULL
            ? status
            : CL_SUCCESS);
  promise_set (kernel, a, 10, 1);
  SHOW (clSetKernelArg (kernel, 0, sizeof b, &b));
  SHOW (clEnqueueNDRangeKernel (queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL));
#undef SHOW
  OK (clFinish (queue));
  OK (clReleaseKernel (kernel));
  OK (clReleaseMemObject (a));
  OK (clReleaseMemObject (b));
  OK (clReleaseCommandQueue (own.queue));
  OK (clReleaseContext (own.context));
}

typedef struct
{
  GMutex mutex; /* guards n */
  GCond called;
  guint n;
} Ends;

static void CL_CALLBACK
on_end (cl_context context, void *data)
{
  Ends *ends = data;

  (void) context;
  g_mutex_lock (&ends->mutex);
  ends->n++;
  g_cond_broadcast (&ends->called);
  g_mutex_unlock (&ends->mutex);
}

static void
print_ends (Ends *ends, guint n, const gchar *when)
{
  gint64 end = g_get_monotonic_time () + 5 * G_TIME_SPAN_SECOND;

  g_mutex_lock (&ends->mutex);
  while (ends->n < n && g_cond_wait_until (&ends->called, &ends->mutex, end))
    ;
  printf ("%s: %u\n", when, ends->n);
  g_mutex_unlock (&ends->mutex);
}

/* A context ends with the last of its buffers: nothing keeps it, no pool either. */
static void
contexts_end (World *world)
{
  World own = { .device = world->device };
  Ends ends = { .n = 0 };
  cl_mem buffer, part;
  cl_int status;

  if (promise_get_version (world->device) < 30)
    promise_skip ("clSetContextDestructorCallback is of OpenCL 3.0");
  g_mutex_init (&ends.mutex);
  g_cond_init (&ends.called);
  own.context = promise_context (world);
  status = clSetContextDestructorCallback (own.context, on_end, &ends);
  if (status == CL_INVALID_OPERATION)
    promise_skip ("clSetContextDestructorCallback does not work here");
  promise_check (status, "clSetContextDestructorCallback");
  own.queue = promise_queue (&own, 0);
  for (guint i = 0; i < 50; i++)
    OK (clReleaseMemObject (promise_filled (&own, 1 + 300 * i, i)));
  buffer = promise_filled (&own, 1000, 1);
  part = promise_part (buffer, 0, 0, 100);
  OK (clReleaseContext (own.context));
  print_ends (&ends, 0, "the context is released");
  OK (clReleaseCommandQueue (own.queue));
  print_ends (&ends, 0, "the queue, too");
  OK (clReleaseMemObject (buffer));
  print_ends (&ends, 0, "the buffer, too");
  OK (clReleaseMemObject (part));
  print_ends (&ends, 1, "its part, too");
  g_mutex_clear (&ends.mutex);
  g_cond_clear (&ends.called);
}

const Promise promises_contexts[]
    = { { "contexts-first", contexts_first, FALSE },   { "contexts-many", contexts_many, FALSE },
        { "contexts-beside", contexts_beside, FALSE }, { "contexts-mixed", contexts_mixed, FALSE },
        { "contexts-end", contexts_end, FALSE },       { NULL, NULL, FALSE } };
