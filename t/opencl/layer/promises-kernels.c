/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What kernels keep of their arguments. */

#include "promises.h"

/* Set once, launched often; set again, launched again. */
static void
arguments (World *world)
{
  static const gsize sizes[] = { 1, 513, 4097, 70001 };
  cl_kernel add = promise_kernel (world, "add");

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      cl_mem first = promise_filled (world, sizes[i], i),
             other = promise_filled (world, sizes[i], i);

      promise_set (add, first, sizes[i], 1);
      for (guint k = 0; k < 100; k++)
        promise_launch (world->queue, add, 0, NULL, NULL);
      OK (clSetKernelArg (add, 0, sizeof other, &other));
      for (guint k = 0; k < 50; k++)
        promise_launch (world->queue, add, 0, NULL, NULL);
      printf ("%zu, %zu wrong", promise_read_wrong (world->queue, first, 0, sizes[i], i, 100),
              promise_read_wrong (world->queue, other, 0, sizes[i], i, 50));
      printf (", held by %u, %u\n", promise_wait_count (first, 1), promise_wait_count (other, 1));
      /* A kernel holds no reference. */
      promise_expect (world, promise_get_count (first) == 1 && promise_get_count (other) == 1);
      OK (clReleaseMemObject (first));
      OK (clReleaseMemObject (other));
    }
  OK (clReleaseKernel (add));
}

/* Buffers come and go while the kernel's argument stays the same: none of them is changed by it. */
static void
arguments_stay (World *world)
{
  cl_kernel add = promise_kernel (world, "add");
  cl_mem buffer = promise_filled (world, 3000, 1);
  gsize wrong = 0;

  promise_set (add, buffer, 3000, 1);
  for (guint i = 0; i < 300; i++)
    {
      cl_mem other = promise_filled (world, 1 + i * 17 % 3000, i);

      promise_launch (world->queue, add, 0, NULL, NULL);
      wrong += promise_read_wrong (world->queue, other, 0, 1 + i * 17 % 3000, i, 0);
      OK (clReleaseMemObject (other));
    }
  printf ("%zu wrong, %zu wrong\n", wrong,
          promise_read_wrong (world->queue, buffer, 0, 3000, 1, 300));
  OK (clReleaseMemObject (buffer));
  OK (clReleaseKernel (add));
}

/* What a launch uses is what was set before it was enqueued, whenever it runs. */
static void
arguments_behind (World *world)
{
  cl_kernel add = promise_kernel (world, "add");
  cl_mem buffers[20];
  cl_event gate = promise_gate (world);

  for (guint i = 0; i < G_N_ELEMENTS (buffers); i++)
    buffers[i] = promise_filled (world, 1000 + i, i);
  for (guint i = 0; i < G_N_ELEMENTS (buffers); i++)
    {
      cl_mem value = buffers[i];

      promise_set (add, value, 1000 + i, 1 + i);
      value = NULL;
      promise_launch (world->queue, add, 1, &gate, NULL);
    }
  OK (clReleaseKernel (add));
  promise_open (gate);
  OK (clFinish (world->queue));
  for (guint i = 0; i < G_N_ELEMENTS (buffers); i++)
    {
      printf ("%zu wrong\n", promise_read_wrong (world->queue, buffers[i], 0, 1000 + i, i, 1 + i));
      OK (clReleaseMemObject (buffers[i]));
    }
}

/* Two kernels share a buffer, one of them has it twice. */
static void
arguments_shared (World *world)
{
  gsize size = 5000;
  cl_kernel fill = promise_kernel (world, "fill"), add = promise_kernel (world, "add");
  cl_kernel check = promise_kernel (world, "check"), copy = promise_kernel (world, "copy");
  cl_mem buffer = promise_filled (world, size, 1), wrong = promise_buffer (world, 0, 4, NULL);
  cl_ulong n = size;
  cl_uint zero = 0, seed = 77, got = 99;

  promise_set (fill, buffer, size, seed);
  promise_set (add, buffer, size, 10);
  OK (clSetKernelArg (copy, 0, sizeof buffer, &buffer));
  OK (clSetKernelArg (copy, 1, sizeof buffer, &buffer));
  OK (clSetKernelArg (copy, 2, sizeof n, &n));
  OK (clSetKernelArg (check, 0, sizeof buffer, &buffer));
  OK (clSetKernelArg (check, 1, sizeof n, &n));
  OK (clSetKernelArg (check, 2, sizeof seed, &seed));
  OK (clSetKernelArg (check, 3, sizeof wrong, &wrong));
  OK (clEnqueueFillBuffer (world->queue, wrong, &zero, 4, 0, 4, 0, NULL, NULL));
  promise_launch (world->queue, fill, 0, NULL, NULL);
  promise_launch (world->queue, copy, 0, NULL, NULL);
  promise_launch (world->queue, check, 0, NULL, NULL);
  promise_launch (world->queue, add, 0, NULL, NULL);
  OK (clReleaseKernel (check));
  OK (clReleaseKernel (fill));
  OK (clReleaseKernel (copy));
  OK (clReleaseKernel (add));
  OK (clEnqueueReadBuffer (world->queue, wrong, CL_TRUE, 0, 4, &got, 0, NULL, NULL));
  printf ("%u wrong, then %zu wrong\n", got,
          promise_read_wrong (world->queue, buffer, 0, size, seed, 10));
  OK (clReleaseMemObject (wrong));
  OK (clReleaseMemObject (buffer));
}

static void
show_set (cl_kernel kernel, cl_uint index, gsize size, gconstpointer value, const gchar *what)
{
  printf ("argument %u of %zu bytes, %s: %s\n", index, size, what,
          promise_status (clSetKernelArg (kernel, index, size, value)));
}

/* Arguments that are refused leave what was set. */
static void
arguments_wrong (World *world)
{
  static const gsize sizes[] = { 0, 1, 4, 7, 9, 16, 1000 };
  cl_kernel add = promise_kernel (world, "add");
  cl_mem buffer = promise_filled (world, 1000, 1), other = promise_filled (world, 1000, 2);
  cl_mem row[200] = { other };
  cl_ulong n = 1000;

  promise_set (add, buffer, 1000, 1);
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      show_set (add, 0, sizes[i], row, "a buffer");
      show_set (add, 0, sizes[i], NULL, "NULL");
    }
  show_set (add, 1, 4, &n, "a number");
  show_set (add, 1, 8, NULL, "NULL");
  show_set (add, 3, sizeof other, &other, "a buffer");
  show_set (add, G_MAXUINT, sizeof other, &other, "a buffer");
  show_set (NULL, 0, sizeof other, &other, "no kernel");
  promise_launch (world->queue, add, 0, NULL, NULL);
  printf ("%zu, %zu wrong\n", promise_read_wrong (world->queue, buffer, 0, 1000, 1, 1),
          promise_read_wrong (world->queue, other, 0, 1000, 2, 0));
  OK (clReleaseMemObject (buffer));
  OK (clReleaseMemObject (other));
  OK (clReleaseKernel (add));
}

/* A kernel without an argument, or with none set. */
static void
arguments_missing (World *world)
{
  const size_t global = 64, local = 16;
  cl_kernel kernel = promise_kernel (world, "is_null"), twin = promise_kernel (world, "is_null");
  cl_mem answer = promise_buffer (world, 0, 4, NULL);

  printf ("nothing set: %s\n", promise_status (clEnqueueNDRangeKernel (
                                   world->queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL)));
  OK (clSetKernelArg (kernel, 1, sizeof answer, &answer));
  printf ("one set: %s\n", promise_status (clEnqueueNDRangeKernel (
                               world->queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL)));
  OK (clSetKernelArg (twin, 0, sizeof answer, &answer));
  printf ("the other set: %s\n", promise_status (clEnqueueNDRangeKernel (
                                     world->queue, twin, 1, NULL, &global, &local, 0, NULL, NULL)));
  OK (clFinish (world->queue));
  OK (clReleaseMemObject (answer));
  OK (clReleaseKernel (kernel));
  OK (clReleaseKernel (twin));
}

static void
show_null (World *world, cl_kernel kernel, cl_mem answer, const gchar *what)
{
  cl_uint got = 99;

  promise_launch (world->queue, kernel, 0, NULL, NULL);
  OK (clEnqueueReadBuffer (world->queue, answer, CL_TRUE, 0, 4, &got, 0, NULL, NULL));
  printf ("%s: %u\n", what, got);
}

/* No buffer is NULL in a kernel, set in either way, before and after a buffer. */
static void
arguments_null (World *world)
{
  cl_kernel kernel = promise_kernel (world, "is_null");
  cl_mem answer = promise_buffer (world, 0, 4, NULL), null = NULL;
  cl_mem buffer = promise_buffer (world, 0, 1, NULL);

  OK (clSetKernelArg (kernel, 1, sizeof answer, &answer));
  OK (clSetKernelArg (kernel, 0, sizeof null, NULL));
  show_null (world, kernel, answer, "no value");
  OK (clSetKernelArg (kernel, 0, sizeof buffer, &buffer));
  show_null (world, kernel, answer, "a buffer");
  OK (clSetKernelArg (kernel, 0, sizeof null, &null));
  show_null (world, kernel, answer, "a value of NULL");
  OK (clSetKernelArg (kernel, 0, sizeof answer, &answer));
  show_null (world, kernel, answer, "the answer itself");
  OK (clReleaseMemObject (buffer));
  OK (clReleaseMemObject (answer));
  OK (clReleaseKernel (kernel));
}

/* A number that happens to be a buffer's handle is a number. */
static void
arguments_numbers (World *world)
{
  cl_kernel kernel = promise_kernel (world, "value");
  cl_mem answer = promise_buffer (world, 0, 8, NULL);

  OK (clSetKernelArg (kernel, 1, sizeof answer, &answer));
  for (guint i = 0; i < 20; i++)
    {
      cl_mem buffer = promise_buffer (world, 0, 1 + 300 * i, NULL);
      cl_ulong value = i % 5 == 0 ? GPOINTER_TO_SIZE (answer) : GPOINTER_TO_SIZE (buffer), got = 0;

      OK (clSetKernelArg (kernel, 0, sizeof value, &value));
      promise_launch (world->queue, kernel, 0, NULL, NULL);
      OK (clEnqueueReadBuffer (world->queue, answer, CL_TRUE, 0, 8, &got, 0, NULL, NULL));
      printf ("%s\n", got == value ? "the same" : "another");
      OK (clReleaseMemObject (buffer));
    }
  OK (clReleaseMemObject (answer));
  OK (clReleaseKernel (kernel));
}

/* Nor is local memory a buffer, of whatever size: a handle's, too. */
static void
arguments_local (World *world)
{
  cl_kernel kernel = promise_kernel (world, "scratch");
  cl_mem answer = promise_buffer (world, 0, 4, NULL);

  OK (clSetKernelArg (kernel, 2, sizeof answer, &answer));
  printf ("a buffer: %s\n", promise_status (clSetKernelArg (kernel, 0, sizeof answer, &answer)));
  printf ("0 bytes: %s\n", promise_status (clSetKernelArg (kernel, 0, 0, NULL)));
  for (cl_uint n = 2; n <= 16; n++)
    {
      cl_uint got = 99;

      OK (clSetKernelArg (kernel, 0, n * sizeof n, NULL));
      OK (clSetKernelArg (kernel, 1, sizeof n, &n));
      promise_launch (world->queue, kernel, 0, NULL, NULL);
      OK (clEnqueueReadBuffer (world->queue, answer, CL_TRUE, 0, 4, &got, 0, NULL, NULL));
      printf ("%u ", got);
    }
  printf ("\n");
  OK (clReleaseMemObject (answer));
  OK (clReleaseKernel (kernel));
}

/* The program lets go of buffers and kernel after launches that wait; what comes has their sizes.
 */
static void
arguments_released (World *world)
{
  enum
  {
    N = 50
  };
  cl_event gate = promise_gate (world);
  cl_mem kept[N];

  for (guint i = 0; i < N; i++)
    {
      gsize size = 1 + 113 * i;
      cl_mem buffer = promise_buffer (world, 0, size, NULL);
      cl_kernel fill = promise_kernel (world, "fill"), copy = promise_kernel (world, "copy");
      cl_ulong n = size;

      kept[i] = promise_buffer (world, 0, size, NULL);
      promise_set (fill, buffer, size, i);
      OK (clSetKernelArg (copy, 0, sizeof buffer, &buffer));
      OK (clSetKernelArg (copy, 1, sizeof kept[i], &kept[i]));
      OK (clSetKernelArg (copy, 2, sizeof n, &n));
      promise_launch (world->queue, fill, 1, &gate, NULL);
      promise_launch (world->queue, copy, 0, NULL, NULL);
      OK (clReleaseMemObject (buffer));
      OK (clReleaseKernel (i % 2 == 0 ? fill : copy));
      OK (clReleaseKernel (i % 2 == 0 ? copy : fill));
      OK (clReleaseMemObject (promise_buffer (world, 0, size, NULL)));
    }
  promise_open (gate);
  OK (clFinish (world->queue));
  for (guint i = 0; i < N; i++)
    {
      printf ("%zu ", promise_read_wrong (world->queue, kept[i], 0, 1 + 113 * i, i, 0));
      OK (clReleaseMemObject (kept[i]));
    }
  printf ("wrong\n");
}

static cl_kernel
clone (cl_kernel kernel)
{
  cl_int status = 99;
  cl_kernel copy = clCloneKernel (kernel, &status);

  if (status == CL_INVALID_OPERATION || status == CL_OUT_OF_RESOURCES)
    promise_skip ("clCloneKernel does not work here");
  promise_check (status, "clCloneKernel");
  return copy;
}

/* A clone has the arguments that the kernel has when it is made, and each sets its own after. */
static void
clones (World *world)
{
  gsize size = 1500;
  cl_mem a = promise_filled (world, size, 1), b = promise_filled (world, size, 2);
  cl_kernel kernel, copy, third;

  if (promise_get_version (world->device) < 21)
    promise_skip ("clCloneKernel is of OpenCL 2.1");
  kernel = promise_kernel (world, "add");
  promise_set (kernel, a, size, 1);
  copy = clone (kernel);
  promise_launch (world->queue, copy, 0, NULL, NULL);
  OK (clSetKernelArg (copy, 0, sizeof b, &b));
  third = clone (copy);
  OK (clReleaseKernel (copy));
  promise_launch (world->queue, kernel, 0, NULL, NULL);
  OK (clReleaseKernel (kernel));
  promise_launch (world->queue, third, 0, NULL, NULL);
  OK (clReleaseMemObject (promise_filled (world, size, 3)));
  promise_launch (world->queue, third, 0, NULL, NULL);
  OK (clSetKernelArg (third, 0, sizeof a, &a));
  promise_launch (world->queue, third, 0, NULL, NULL);
  OK (clReleaseKernel (third));
  printf ("%zu, %zu wrong\n", promise_read_wrong (world->queue, a, 0, size, 1, 3),
          promise_read_wrong (world->queue, b, 0, size, 2, 2));
  OK (clReleaseMemObject (a));
  OK (clReleaseMemObject (b));
}

/* Native kernels */

typedef struct
{
  gsize from_size;
  const guchar *from;
  guint filler; /* handles need not be side by side, nor aligned to anything but themselves */
  guchar *to;
  guint *n_calls;
} NativeArguments;

static void CL_CALLBACK
native_copy (void *data)
{
  NativeArguments *self = data;

  for (gsize i = 0; i < self->from_size; i++)
    self->to[i] = self->from[i] + 1;
  ++*self->n_calls;
}

static void
need_native (World *world)
{
  cl_device_exec_capabilities can = 0;

  OK (clGetDeviceInfo (world->device, CL_DEVICE_EXECUTION_CAPABILITIES, sizeof can, &can, NULL));
  if (!(can & CL_EXEC_NATIVE_KERNEL))
    promise_skip ("the device runs no native kernels");
}

/* The driver puts addresses where the arguments have buffers: the host's function uses these. */
static void
try_native (World *world, gboolean to_part)
{
  gsize alignment = promise_get_alignment (world);
  guint n_calls = 0;

  need_native (world);
  for (guint i = 0; i < 20; i++)
    {
      gsize size = 1 + 331 * i;
      cl_mem from = promise_filled (world, size, i), to = promise_filled (world, size, 99);
      cl_mem whole = promise_filled (world, size + alignment, 50);
      cl_mem buffers[2] = { from, to_part ? promise_part (whole, 0, alignment, size) : to };
      NativeArguments values = { .from_size = size, .n_calls = &n_calls };
      const void *places[2] = { &values.from, &values.to };
      cl_event gate = promise_gate (world);

      OK (clEnqueueNativeKernel (world->queue, native_copy, &values, sizeof values, 2, buffers,
                                 places, 1, &gate, NULL));
      memset (&values, 0, sizeof values);
      OK (clReleaseMemObject (from));
      promise_open (gate);
      promise_expect (world, promise_read_wrong (world->queue, buffers[1], 0, size, i, 1) == 0);
      promise_expect (world, promise_read_wrong (world->queue, whole, 0, alignment, 50, 0) == 0);
      if (to_part)
        OK (clReleaseMemObject (buffers[1]));
      OK (clReleaseMemObject (to));
      OK (clReleaseMemObject (whole));
    }
  printf ("%u calls\n", n_calls);
}

static void
native (World *world)
{
  try_native (world, FALSE);
}

/* PoCL 3.1 forgets where the part begins. */
static void
native_parts (World *world)
{
  try_native (world, TRUE);
}

/* Two buffers that are too large to be parts of one of the driver's; the later one's handle may
 * be the lower one: that of a buffer that was there before them. */
static void
native_large (World *world)
{
  static guchar host[64];
  gsize size = (gsize) 40 << 20;
  guint n_calls = 0;
  cl_mem others[64], from, to;
  cl_int status;

  need_native (world);
  for (guint i = 0; i < G_N_ELEMENTS (others); i++)
    {
      others[i] = clCreateBuffer (world->context, CL_MEM_USE_HOST_PTR, sizeof host, host, &status);
      OK (status);
    }
  from = promise_filled (world, size, 1);
  for (guint i = 0; i < G_N_ELEMENTS (others); i++)
    OK (clReleaseMemObject (others[i]));
  to = promise_filled (world, size + 1, 99);
  {
    NativeArguments values = { .from_size = size, .n_calls = &n_calls };
    const void *places[2] = { &values.from, &values.to };
    const cl_mem buffers[2] = { from, to };

    OK (clEnqueueNativeKernel (world->queue, native_copy, &values, sizeof values, 2, buffers,
                               places, 0, NULL, NULL));
  }
  printf ("%" G_GSIZE_FORMAT ", %" G_GSIZE_FORMAT " wrong\n",
          promise_read_wrong (world->queue, to, 0, size, 1, 1),
          promise_read_wrong (world->queue, from, 0, size, 1, 0));
  OK (clReleaseMemObject (from));
  OK (clReleaseMemObject (to));
}

/* What is wrong with native kernels' buffers. */
static void
native_errors (World *world)
{
  cl_device_exec_capabilities can = 0;
  cl_mem buffers[2] = { promise_buffer (world, 0, 10, NULL), NULL };
  NativeArguments values = { .from_size = 0 };
  const void *places[2] = { &values.from, &values.to };

  OK (clGetDeviceInfo (world->device, CL_DEVICE_EXECUTION_CAPABILITIES, sizeof can, &can, NULL));
  if (!(can & CL_EXEC_NATIVE_KERNEL))
    promise_skip ("the device runs no native kernels");
#define SHOW(what, function, arguments, size, n, list, where)                                      \
  printf (what ": %s\n",                                                                           \
          promise_status (clEnqueueNativeKernel (world->queue, function, arguments, size, n, list, \
                                                 where, 0, NULL, NULL)))
  SHOW ("a buffer that is NULL", native_copy, &values, sizeof values, 2, buffers, places);
  SHOW ("no function", NULL, &values, sizeof values, 1, buffers, places);
  SHOW ("no list", native_copy, &values, sizeof values, 1, NULL, places);
  SHOW ("no places", native_copy, &values, sizeof values, 1, buffers, NULL);
  SHOW ("no arguments, a size", native_copy, NULL, sizeof values, 1, buffers, places);
  SHOW ("a list of none", native_copy, &values, sizeof values, 0, buffers, places);
  SHOW ("arguments of no size", native_copy, &values, 0, 1, buffers, places);
#undef SHOW
  OK (clReleaseMemObject (buffers[0]));
}

const Promise promises_kernels[] = { { "arguments", arguments, FALSE },
                                     { "arguments-stay", arguments_stay, FALSE },
                                     { "arguments-behind", arguments_behind, FALSE },
                                     { "arguments-shared", arguments_shared, FALSE },
                                     { "arguments-wrong", arguments_wrong, FALSE },
                                     { "arguments-missing", arguments_missing, FALSE },
                                     { "arguments-null", arguments_null, FALSE },
                                     { "arguments-numbers", arguments_numbers, FALSE },
                                     { "arguments-local", arguments_local, FALSE },
                                     { "arguments-released", arguments_released, FALSE },
                                     { "clones", clones, FALSE },
                                     { "native", native, FALSE },
                                     { "native-parts", native_parts, FALSE },
                                     { "native-large", native_large, FALSE },
                                     { "native-errors", native_errors, FALSE },
                                     { NULL, NULL, FALSE } };
