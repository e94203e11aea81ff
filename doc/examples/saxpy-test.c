/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Tests one kernel, once for each OpenCL device: a complete test program.
 *
 *     ./saxpy-test                      on every device
 *     TARN_TEST=0:1 ./saxpy-test        on device 1 of platform 0
 *     PYOPENCL_TEST=intel ./saxpy-test  on the devices that PyOpenCL's tests choose
 *     tarn-test ./saxpy-test            once for each device, in processes of their own */

#include <tarn/opencl.h>

#define N 1000

#define assert_ok(status) g_assert_cmpint (status, ==, CL_SUCCESS)

static const char *const source
    = "kernel void saxpy (float a, global const float *x, global float *y)"
      "{ y[get_global_id (0)] += a * x[get_global_id (0)]; }";

static void
run_saxpy (cl_context context, cl_device_id device, cl_float a, const cl_float *x, cl_float *y)
{
  const cl_mem_flags flags = CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR;
  const size_t size = N * sizeof (cl_float), length = N;
  cl_command_queue queue = clCreateCommandQueue (context, device, 0, NULL);
  cl_program program = clCreateProgramWithSource (context, 1, (const char **) &source, NULL, NULL);
  cl_mem x_buffer = clCreateBuffer (context, flags, size, (void *) x, NULL);
  cl_mem y_buffer = clCreateBuffer (context, flags, size, y, NULL);
  cl_kernel kernel;

  g_assert_true (queue != NULL && program != NULL && x_buffer != NULL && y_buffer != NULL);
  assert_ok (clBuildProgram (program, 1, &device, NULL, NULL, NULL));
  kernel = clCreateKernel (program, "saxpy", NULL);
  g_assert_true (kernel != NULL);
  assert_ok (clSetKernelArg (kernel, 0, sizeof a, &a));
  assert_ok (clSetKernelArg (kernel, 1, sizeof x_buffer, &x_buffer));
  assert_ok (clSetKernelArg (kernel, 2, sizeof y_buffer, &y_buffer));
  assert_ok (clEnqueueNDRangeKernel (queue, kernel, 1, NULL, &length, NULL, 0, NULL, NULL));
  assert_ok (clEnqueueReadBuffer (queue, y_buffer, CL_TRUE, 0, size, y, 0, NULL, NULL));

  clReleaseKernel (kernel);
  clReleaseMemObject (y_buffer);
  clReleaseMemObject (x_buffer);
  clReleaseProgram (program);
  clReleaseCommandQueue (queue);
}

static void
test_saxpy (const TarnOpenclTest *test, gconstpointer data)
{
  const cl_float a = *(const cl_float *) data;
  cl_float x[N], y[N];
  g_autoptr (GError) error = NULL;
  cl_context context = tarn_opencl_test_create_context (test, &error);

  g_assert_no_error (error);
  for (int i = 0; i < N; i++)
    {
      x[i] = (cl_float) i;
      y[i] = (cl_float) -i;
    }
  run_saxpy (context, test->device, a, x, y);
  for (int i = 0; i < N; i++)
    g_assert_cmpfloat (y[i], ==, a * (cl_float) i - (cl_float) i); /* whole numbers: exact */
  clReleaseContext (context);
}

/* All devices of a platform share a context. */
static void
test_context (const TarnOpenclTest *test, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  cl_context context = tarn_opencl_test_create_context (test, &error);
  cl_uint n_devices = 0;

  (void) data;
  g_assert_no_error (error);
  assert_ok (
      clGetContextInfo (context, CL_CONTEXT_NUM_DEVICES, sizeof n_devices, &n_devices, NULL));
  g_assert_cmpuint (n_devices, ==, test->n_devices);
  clReleaseContext (context);
}

int
main (int argc, char **argv)
{
  static const cl_float two = 2, three = 3;

  g_test_init (&argc, &argv, NULL);
  tarn_opencl_test_add ("saxpy/two", test_saxpy, &two);
  tarn_opencl_test_add ("saxpy/three", test_saxpy, &three);
  tarn_opencl_test_add_per_platform ("context", test_context, NULL);
  return g_test_run ();
}
