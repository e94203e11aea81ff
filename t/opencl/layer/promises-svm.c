/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Shared virtual memory: buffers over it, and kernels that use it beside buffers. */

#include "promises.h"

static void
need_svm (World *world)
{
  cl_device_svm_capabilities can = 0;

  if (promise_get_version (world->device) < 20
      || clGetDeviceInfo (world->device, CL_DEVICE_SVM_CAPABILITIES, sizeof can, &can, NULL)
             != CL_SUCCESS
      || !(can & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER))
    promise_skip ("the device has no shared virtual memory");
}

static void
print_uses_svm (cl_mem buffer, const guchar *expected)
{
  cl_bool uses = 99;
  gpointer host = NULL;

  OK (clGetMemObjectInfo (buffer, CL_MEM_USES_SVM_POINTER, sizeof uses, &uses, NULL));
  OK (clGetMemObjectInfo (buffer, CL_MEM_HOST_PTR, sizeof host, &host, NULL));
  printf ("uses SVM: %u, host pointer: %s\n", uses,
          host == NULL                  ? "NULL"
          : host == (gpointer) expected ? "its own"
                                        : "another");
}

/* Buffers over shared memory, at its start and within, beside buffers that are not. */
static void
svm (World *world)
{
  gsize alignment = promise_get_alignment (world), size = 4096;
  cl_kernel add;
  guchar *memory;

  need_svm (world);
  add = promise_kernel (world, "add");
  memory = clSVMAlloc (world->context, CL_MEM_READ_WRITE, size, 0);
  if (memory == NULL)
    g_error ("clSVMAlloc failed");
  for (gsize offset = 0; offset < size; offset += 8 * alignment)
    {
      cl_mem buffer = promise_buffer (world, CL_MEM_USE_HOST_PTR, size - offset, memory + offset);
      cl_mem plain = promise_filled (world, size, 3), part = promise_part (buffer, 0, alignment, 9);

      print_uses_svm (buffer, memory + offset);
      print_uses_svm (part, memory + offset + alignment);
      print_uses_svm (plain, NULL);
      promise_write (world->queue, buffer, 0, size - offset, 1);
      promise_run (world->queue, add, buffer, size - offset, 2);
      printf ("%zu wrong, ", promise_read_wrong (world->queue, buffer, 0, size - offset, 1, 2));
      OK (clEnqueueSVMMap (world->queue, CL_TRUE, CL_MAP_READ, memory, size, 0, NULL, NULL));
      printf ("%zu wrong\n", promise_count_wrong (memory + offset, size - offset, 1, 2));
      OK (clEnqueueSVMUnmap (world->queue, memory, 0, NULL, NULL));
      OK (clFinish (world->queue));
      OK (clReleaseMemObject (part));
      OK (clReleaseMemObject (buffer));
      OK (clReleaseMemObject (plain));
    }
  clSVMFree (world->context, memory);
  OK (clReleaseKernel (add));
}

/* A kernel with a buffer and a pointer, each of which may take the other's place. */
static void
svm_arguments (World *world)
{
  gsize size = 3000;
  cl_ulong n = size;
  cl_kernel copy, fill;
  cl_mem buffer;
  guchar *memory;

  need_svm (world);
  copy = promise_kernel (world, "copy");
  fill = promise_kernel (world, "fill");
  buffer = promise_filled (world, size, 1);
  memory = clSVMAlloc (world->context, CL_MEM_READ_WRITE, size, 0);
  OK (clSetKernelArg (copy, 0, sizeof buffer, &buffer));
  OK (clSetKernelArgSVMPointer (copy, 1, memory));
  OK (clSetKernelArg (copy, 2, sizeof n, &n));
  promise_launch (world->queue, copy, 0, NULL, NULL);
  OK (clEnqueueSVMMap (world->queue, CL_TRUE, CL_MAP_READ, memory, size, 0, NULL, NULL));
  printf ("%zu wrong\n", promise_count_wrong (memory, size, 1, 0));
  OK (clEnqueueSVMUnmap (world->queue, memory, 0, NULL, NULL));
  promise_set (fill, buffer, size, 2);
  OK (clSetKernelArgSVMPointer (fill, 0, memory));
  promise_launch (world->queue, fill, 0, NULL, NULL);
  OK (clSetKernelArgSVMPointer (copy, 0, memory));
  OK (clSetKernelArg (copy, 1, sizeof buffer, &buffer));
  promise_launch (world->queue, copy, 0, NULL, NULL);
  printf ("%zu wrong\n", promise_read_wrong (world->queue, buffer, 0, size, 2, 0));
  OK (clReleaseMemObject (buffer));
  OK (clReleaseKernel (copy));
  OK (clReleaseKernel (fill));
  OK (clFinish (world->queue));
  clSVMFree (world->context, memory);
}

const Promise promises_svm[]
    = { { "svm", svm, FALSE }, { "svm-arguments", svm_arguments, FALSE }, { NULL, NULL, FALSE } };
