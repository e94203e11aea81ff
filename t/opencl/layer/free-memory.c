/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A program that releases memory on the drivers that below.c stands for.  For shared virtual memory
 * and for a buffer, it prints the status of the release, and then whether there is memory for
 * another one of this size: after the release, and after a second release if the first one has
 * failed or another thread has the memory.
 *
 * With the argument "finish" or "wait": waits for commands, prints the status of the wait and
 * whether the commands are done, and frees memory that they use.  With the argument "unset": does
 * the same with a command that waits for a user event, which it never sets. */

#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE 4096

static cl_context context;
static cl_command_queue queue;

static int
begin (void)
{
  cl_platform_id platform;
  cl_device_id device;

  if (clGetPlatformIDs (1, &platform, NULL) != CL_SUCCESS
      || clGetDeviceIDs (platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS)
    return 0;
  context = clCreateContext (NULL, 1, &device, NULL, NULL, NULL);
  queue = clCreateCommandQueue (context, device, 0, NULL);
  return queue != NULL;
}

static int
has_svm (void)
{
  void *memory = clSVMAlloc (context, CL_MEM_READ_WRITE, SIZE, 0);

  clSVMFree (context, memory);
  return memory != NULL;
}

static cl_int
free_svm (void)
{
  void *memory = clSVMAlloc (context, CL_MEM_READ_WRITE, SIZE, 0);
  cl_int status = clEnqueueSVMFree (queue, 1, &memory, NULL, NULL, 0, NULL, NULL);

  printf ("%d %d", status, has_svm ());
  clSVMFree (context, memory);
  printf (" %d\n", has_svm ());
  return status;
}

static int
has_buffer (void)
{
  cl_mem buffer = clCreateBuffer (context, CL_MEM_READ_WRITE, SIZE, NULL, NULL);

  return buffer != NULL && clReleaseMemObject (buffer) == CL_SUCCESS;
}

static void
free_object (cl_mem object)
{
  cl_int status = clReleaseMemObject (object);

  printf ("%d %d", status, has_buffer ());
  if (status != CL_SUCCESS)
    clReleaseMemObject (object);
  printf (" %d\n", has_buffer ());
}

/* A part of a buffer that the program has released already. */
static cl_mem
make_last_part (void)
{
  cl_mem buffer = clCreateBuffer (context, CL_MEM_READ_WRITE, SIZE, NULL, NULL);
  cl_buffer_region region = { 0, SIZE / 2 };
  cl_mem part
      = clCreateSubBuffer (buffer, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, NULL);

  clReleaseMemObject (buffer);
  return part;
}

#define LARGE (32 << 20)
/* The number of writes that together take longer than a second. */
#ifdef __SANITIZE_THREAD__
#define WRITES 50
#else
#define WRITES 500
#endif

/* Frees the memory of the host that commands read as soon as it has waited for them, even if the
 * wait failed.  The wait is what submits the commands to the device. */
static void
wait_and_free (int finishes)
{
  cl_mem buffer = clCreateBuffer (context, CL_MEM_READ_WRITE, LARGE, NULL, NULL);
  void *bytes = malloc (LARGE);
  cl_event event = NULL;
  cl_int status, state = CL_QUEUED;

  for (int i = 0; i < WRITES; i++)
    clEnqueueWriteBuffer (queue, buffer, CL_FALSE, 0, LARGE, bytes, 0, NULL,
                          i == WRITES - 1 ? &event : NULL);
  status = finishes ? clFinish (queue) : clWaitForEvents (1, &event);
  clGetEventInfo (event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
  printf ("%d, %s\n", status, state == CL_COMPLETE ? "done" : "not done");
  free (bytes);
  clReleaseEvent (event);
  clReleaseMemObject (buffer);
}

/* Ends the process at once: at exit, the driver would wait for the command, too. */
static void
wait_for_unset (void)
{
  cl_event first = clCreateUserEvent (context, NULL), event = NULL;
  cl_mem buffer = clCreateBuffer (context, CL_MEM_READ_WRITE, SIZE, NULL, NULL);
  char bytes[SIZE] = { 0 };
  cl_int status, state = CL_COMPLETE;

  clEnqueueWriteBuffer (queue, buffer, CL_FALSE, 0, SIZE, bytes, 1, &first, &event);
  status = clFinish (queue);
  clGetEventInfo (event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
  printf ("%d, %s\n", status, state == CL_COMPLETE ? "done" : "not done");
  fflush (stdout);
  _exit (0);
}

int
main (int argc, char **argv)
{
  cl_int status;
  cl_mem part;

  if (!begin ())
    return 2;
  if (argc > 1 && strcmp (argv[1], "unset") == 0)
    wait_for_unset ();
  if (argc > 1)
    {
      wait_and_free (strcmp (argv[1], "finish") == 0);
      return 0;
    }
  status = free_svm ();
  free_object (clCreateBuffer (context, CL_MEM_READ_WRITE, SIZE, NULL, NULL));
  part = make_last_part ();
  if (status != CL_SUCCESS) /* on such a driver, the release after this call fails */
    clEnqueueSVMFree (queue, 0, NULL, NULL, NULL, 0, NULL, NULL);
  free_object (part);
  clReleaseCommandQueue (queue);
  clReleaseContext (context);
  return 0;
}
