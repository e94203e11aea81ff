/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A program that fills two buffers, copies one to the other and prints a byte of it; the first
 * argument says how it takes that a call fails:
 *
 *     good      says so, releases all and ends with status 1
 *     recover   ... but tries a buffer once more, and all commands
 *     crash     goes on without a look at a buffer that is to be mapped
 *     abort     aborts
 *     ignore    goes on without a look at commands, and prints what is there
 *     leak      ... like good, but keeps the first buffer when there is no second one
 *     hang      tries a buffer until it has one
 *     sanitize  says what a sanitizer would, and ends with status 1
 *     noise     ... like good, but prints something else each time
 *     vary      ... like ignore, but prints something else each time, too
 *     overrun   ... like good, but has a kernel write behind a buffer when commands fail
 *     always    ... and when none does */

#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SIZE 4096

typedef struct
{
  cl_device_id device;
  cl_context context;
  cl_command_queue queue;
  cl_mem from, to;
} Program;

static const char *way;

static int
is_way (const char *name)
{
  return strcmp (way, name) == 0;
}

static int
is_careless (void)
{
  return is_way ("ignore") || is_way ("vary");
}

static int
has_failed (cl_int status, const char *what)
{
  if (status == CL_SUCCESS)
    return 0;
  fprintf (stderr, "%s: %d\n", what, status);
  if (is_way ("abort"))
    abort ();
  if (is_way ("sanitize"))
    fprintf (stderr, "==1==ERROR: AddressSanitizer: heap-use-after-free\n");
  return 1;
}

static cl_mem
make_buffer (Program *self, cl_int *status)
{
  cl_mem buffer = NULL;
  int tries = is_way ("recover") ? 2 : 1;

  while (buffer == NULL && (tries-- > 0 || is_way ("hang")))
    buffer = clCreateBuffer (self->context, CL_MEM_READ_WRITE, SIZE, NULL, status);
  return buffer;
}

static int
find_device (Program *self)
{
  cl_platform_id platform;

  return !has_failed (clGetPlatformIDs (1, &platform, NULL), "platform")
         && !has_failed (clGetDeviceIDs (platform, CL_DEVICE_TYPE_ALL, 1, &self->device, NULL),
                         "device");
}

static int
begin (Program *self)
{
  cl_int status;

  self->context = clCreateContext (NULL, 1, &self->device, NULL, NULL, &status);
  if (has_failed (status, "context"))
    return 0;
  self->queue = clCreateCommandQueue (self->context, self->device, 0, &status);
  if (has_failed (status, "queue"))
    return 0;
  self->from = make_buffer (self, &status);
  if (!is_way ("crash") && has_failed (status, "buffer"))
    return 0;
  self->to = make_buffer (self, &status);
  if (is_way ("crash") || !has_failed (status, "buffer"))
    return 1;
  if (is_way ("leak-reference"))
    clRetainMemObject (self->from);
  if (is_way ("leak") || is_way ("leak-reference"))
    self->from = NULL;
  return 0;
}

static cl_int
fill (Program *self, cl_mem buffer, cl_uchar value)
{
  return clEnqueueFillBuffer (self->queue, buffer, &value, 1, 0, SIZE, 0, NULL, NULL);
}

static cl_int
compute (Program *self)
{
  cl_int status = fill (self, self->to, 1);

  if (status == CL_SUCCESS)
    status = fill (self, self->from, 2);
  if (status == CL_SUCCESS || is_careless ())
    status = clEnqueueCopyBuffer (self->queue, self->from, self->to, 0, 0, SIZE, 0, NULL, NULL);
  return is_careless () ? CL_SUCCESS : status;
}

/* A kernel adds 1 to each byte of a buffer, and to the one behind it. */
static void
overrun (Program *self)
{
  const char *source = "kernel void add (global uchar *x) { x[get_global_id (0)] += 1; }";
  const size_t length = SIZE + 1;
  cl_program program = clCreateProgramWithSource (self->context, 1, &source, NULL, NULL);
  cl_kernel kernel;

  clBuildProgram (program, 1, &self->device, NULL, NULL, NULL);
  kernel = clCreateKernel (program, "add", NULL);
  clSetKernelArg (kernel, 0, sizeof self->from, &self->from);
  clEnqueueNDRangeKernel (self->queue, kernel, 1, NULL, &length, NULL, 0, NULL, NULL);
  clFinish (self->queue);
  clReleaseKernel (kernel);
  clReleaseProgram (program);
}

static int
print (Program *self)
{
  cl_int status = CL_SUCCESS;
  cl_uchar *bytes = clEnqueueMapBuffer (self->queue, self->to, CL_TRUE, CL_MAP_READ, 0, SIZE, 0,
                                        NULL, NULL, &status);

  if (!is_way ("crash") && has_failed (status, "map"))
    return 0;
  printf ("%d\n", bytes[0]);
  return !has_failed (clEnqueueUnmapMemObject (self->queue, self->to, bytes, 0, NULL, NULL),
                      "unmap");
}

static int
run (Program *self)
{
  cl_int status;

  if (!find_device (self) || !begin (self))
    return 0;
  status = compute (self);
  if (status != CL_SUCCESS && is_way ("recover"))
    status = compute (self);
  if ((status != CL_SUCCESS && is_way ("overrun")) || is_way ("always"))
    overrun (self);
  if (is_way ("crash"))
    status = CL_SUCCESS;
  return !has_failed (status, "commands") && print (self)
         && !has_failed (clFinish (self->queue), "finish");
}

static void
end (Program *self)
{
  if (self->to != NULL)
    clReleaseMemObject (self->to);
  if (self->from != NULL)
    clReleaseMemObject (self->from);
  if (self->queue != NULL)
    clReleaseCommandQueue (self->queue);
  if (self->context != NULL)
    clReleaseContext (self->context);
}

int
main (int argc, char **argv)
{
  Program program = { NULL, NULL, NULL, NULL, NULL };
  struct timespec now;
  int is_good;

  if (argc != 2)
    return 2;
  way = argv[1];
  if (is_way ("noise") || is_way ("vary"))
    {
      clock_gettime (CLOCK_MONOTONIC, &now);
      printf ("%ld.%09ld\n", (long) now.tv_sec, now.tv_nsec);
    }
  is_good = run (&program);
  end (&program);
  return is_good ? 0 : 1;
}
