/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Runs on OpenCV with Tarn and without, and has to print the same: images and copies, in threads
 * with queues of their own; a free while another context is current; what the interface of OpenCV's
 * pools says of their sizes. */

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS

#include <CL/cl.h>
#include <opencv2/core.hpp>
#include <opencv2/core/bufferpool.hpp>
#include <opencv2/core/ocl.hpp>

#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

static const cv::ocl::ProgramSource
    source ("kernel void twice (read_only image2d_t image, global uchar *out, int step, int offset,"
            "                   int rows, int columns)\n"
            "{\n"
            "  const sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE"
            "                            | CLK_FILTER_NEAREST;\n"
            "  int x = get_global_id (0), y = get_global_id (1);\n"
            "  if (x < columns && y < rows)"
            "    out[y * step + x + offset] = 2 * read_imageui (image, nearest, (int2) (x, y)).x;\n"
            "}\n");

/* Goes through buffers and an image, of sizes that vary; nothing waits before the end. */
static double
go_through_image (int side, int value)
{
  cv::UMat first (side, side, CV_8UC1, cv::Scalar (value)), copy, out (side, side, CV_8UC1);
  cv::ocl::Kernel kernel ("twice", source);
  size_t items[2] = { (size_t) side, (size_t) side };

  cv::add (first, cv::Scalar (1), first);
  first.copyTo (copy);
  first.release ();
  cv::ocl::Image2D image (copy);
  kernel.args (image, cv::ocl::KernelArg::WriteOnly (out));
  if (!kernel.run (2, items, NULL, false))
    return -1;
  return cv::sum (out)[0] - 2.0 * (value + 1) * side * side;
}

static double
run_thread (int number, bool own_queue)
{
  double wrong = 0;

  if (own_queue)
    cv::ocl::OpenCLExecutionContext::getCurrent ().cloneWithNewQueue ().bind ();
  for (int i = 0; i < 100; i++)
    wrong += go_through_image (64 + (31 * number + 17 * i) % 200, i) != 0;
  return wrong;
}

static void
run_threads (bool own_queues)
{
  std::vector<std::thread> threads;
  std::vector<double> wrong (4);

  for (int i = 0; i < 4; i++)
    threads.emplace_back ([&wrong, i, own_queues] { wrong[i] = run_thread (i, own_queues); });
  for (int i = 0; i < 4; i++)
    {
      threads[i].join ();
      printf ("thread %d: %.0f of 100 wrong\n", i, wrong[i]);
    }
}

static void
free_in_other_context ()
{
  cl_device_id device = (cl_device_id) cv::ocl::Device::getDefault ().ptr ();
  cl_platform_id platform;
  cl_context context;
  cv::UMat first (100, 100, CV_8UC1, cv::Scalar (1));

  clGetDeviceInfo (device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
  context = clCreateContext (NULL, 1, &device, NULL, NULL, NULL); /* OpenCV releases it */
  {
    cv::ocl::OpenCLExecutionContextScope scope (cv::ocl::OpenCLExecutionContext::create (
        cv::ocl::PlatformInfo (&platform).name (), platform, context, device));

    first.release ();
    printf ("other context: %.0f\n", cv::sum (cv::UMat (10, 10, CV_8UC1, cv::Scalar (2)))[0]);
  }
}

static void
show_sizes (const char *id)
{
  const size_t bounds[] = { SIZE_MAX, 1000000, 100000, 0 };
  cv::BufferPoolController *pool = cv::ocl::getOpenCLAllocator ()->getBufferPoolController (id);
  size_t before = pool->getMaxReservedSize ();
  cv::UMatUsageFlags usage = id == NULL ? cv::USAGE_DEFAULT : cv::USAGE_ALLOCATE_HOST_MEMORY;

  for (size_t bound : bounds)
    {
      pool->setMaxReservedSize (bound);
      for (int i = 0; i < 50; i++)
        cv::UMat (100, 40 * (i + 1), CV_8UC1, cv::Scalar (i), usage);
      cv::ocl::finish ();
      printf ("%s: bound %zu is %zu: %s", id == NULL ? "OCL" : id, bound,
              pool->getMaxReservedSize (),
              pool->getReservedSize () <= bound ? "within the bound" : "beyond the bound");
      pool->freeAllReservedBuffers ();
      printf (", then %zu\n", pool->getReservedSize ());
    }
  pool->setMaxReservedSize (before);
}

int
main ()
{
  if (!cv::ocl::useOpenCL () || !cv::ocl::Device::getDefault ().imageSupport ())
    {
      printf ("OpenCV uses no OpenCL device with images\n");
      return 1;
    }
  printf ("main: %.0f of 100 wrong\n", run_thread (5, false));
  run_threads (false);
  run_threads (true);
  free_in_other_context ();
  show_sizes (NULL);
  show_sizes ("HOST_ALLOC");
  return 0;
}
