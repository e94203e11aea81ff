/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Smooths an image of numbers on an OpenCL device, in tiles of as many rows as there is memory for:
 *
 *     tiles [MEBIBYTES]
 *
 * The pool has a limit, of 4 MiB by default.  The program begins with one tile, which is the whole
 * image. When memory runs out, within the limit or on the device, it goes on with tiles of half the
 * rows.  The result is the same whatever the tiles are, and the program compares it with the host's
 * own. */

#define CL_TARGET_OPENCL_VERSION 120

#include <tarn/opencl.hpp>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{

constexpr std::size_t width = 1000, height = 1000;

/* A row of the result is made of the row above, the row itself and the row below. */
constexpr const char *source
    = "kernel void smooth (global const float *from, global float *to, ulong width)\n"
      "{\n"
      "  size_t x = get_global_id (0), y = get_global_id (1);\n"
      "  to[y * width + x] = (from[y * width + x] + from[(y + 1) * width + x]\n"
      "                       + from[(y + 2) * width + x]) / 3;\n"
      "}\n";

/* Throws for any other status than CL_SUCCESS.  A driver may find out in a command, and not before,
 * that memory has run out: that is a std::bad_alloc here as well. */
void
check (cl_int status, const char *call)
{
  if (status == CL_MEM_OBJECT_ALLOCATION_FAILURE)
    throw std::bad_alloc ();
  if (status != CL_SUCCESS)
    throw std::runtime_error (std::string (call) + ": " + tarn_opencl_status_name (status));
}

/* Owns one OpenCL object. */
struct release
{
  void
  operator() (cl_context context) const
  {
    clReleaseContext (context);
  }

  void
  operator() (cl_command_queue queue) const
  {
    clReleaseCommandQueue (queue);
  }

  void
  operator() (cl_program program) const
  {
    clReleaseProgram (program);
  }

  void
  operator() (cl_kernel kernel) const
  {
    clReleaseKernel (kernel);
  }
};

template <typename Object> using owner = std::unique_ptr<std::remove_pointer_t<Object>, release>;

/* A device with its queue and kernel. */
class smoother
{
public:
  explicit smoother (cl_device_id device)
  {
    const char *text = source;
    cl_int status;

    m_context.reset (clCreateContext (nullptr, 1, &device, nullptr, nullptr, &status));
    check (status, "clCreateContext");
    m_queue.reset (clCreateCommandQueue (m_context.get (), device, 0, &status));
    check (status, "clCreateCommandQueue");
    m_program.reset (clCreateProgramWithSource (m_context.get (), 1, &text, nullptr, &status));
    check (status, "clCreateProgramWithSource");
    check (clBuildProgram (m_program.get (), 1, &device, "", nullptr, nullptr), "clBuildProgram");
    m_kernel.reset (clCreateKernel (m_program.get (), "smooth", &status));
    check (status, "clCreateKernel");
  }

  cl_command_queue
  queue () const
  {
    return m_queue.get ();
  }

  /* Smooths some rows.  @from begins with the row above them and ends with the row below. */
  void
  run (const tarn::opencl::pool &pool, const float *from, float *to, std::size_t n_rows) const
  {
    const std::size_t row_bytes = width * sizeof (float), items[] = { width, n_rows };
    const cl_ulong row_length = width;
    tarn::opencl::buffer input = pool.allocate ((n_rows + 2) * row_bytes, queue ());
    tarn::opencl::buffer output = pool.allocate (n_rows * row_bytes, queue ());
    cl_mem buffers[] = { input.handle (), output.handle () };

    check (clEnqueueWriteBuffer (queue (), buffers[0], CL_TRUE, 0, (n_rows + 2) * row_bytes, from,
                                 0, nullptr, nullptr),
           "clEnqueueWriteBuffer");
    check (clSetKernelArg (m_kernel.get (), 0, sizeof buffers[0], &buffers[0]), "clSetKernelArg");
    check (clSetKernelArg (m_kernel.get (), 1, sizeof buffers[1], &buffers[1]), "clSetKernelArg");
    check (clSetKernelArg (m_kernel.get (), 2, sizeof row_length, &row_length), "clSetKernelArg");
    check (clEnqueueNDRangeKernel (queue (), m_kernel.get (), 2, nullptr, items, nullptr, 0,
                                   nullptr, nullptr),
           "clEnqueueNDRangeKernel");
    check (clEnqueueReadBuffer (queue (), buffers[1], CL_TRUE, 0, n_rows * row_bytes, to, 0,
                                nullptr, nullptr),
           "clEnqueueReadBuffer");
  } /* the buffers are freed here: the next tile gets their memory */

private:
  owner<cl_context> m_context;
  owner<cl_command_queue> m_queue;
  owner<cl_program> m_program;
  owner<cl_kernel> m_kernel;
};

/* The image has a row more than the result, above and below. */
std::vector<float>
make_image ()
{
  std::vector<float> image ((height + 2) * width);

  for (std::size_t i = 0; i < image.size (); i++)
    image[i] = static_cast<float> (i * 7919 % 1000);
  return image;
}

std::vector<float>
smooth_in_tiles (const smoother &smoother, const tarn::opencl::pool &pool,
                 const std::vector<float> &image)
{
  std::vector<float> result (height * width);
  std::size_t n_rows = height;

  for (std::size_t first = 0; first < height;)
    {
      std::size_t n = std::min (n_rows, height - first);

      try
        {
          smoother.run (pool, &image[first * width], &result[first * width], n);
          first += n;
        }
      catch (const std::bad_alloc &)
        {
          if (n == 1)
            throw; /* there is not even memory for one row */
          n_rows = (n + 1) / 2;
          std::cerr << "no memory for " << n << " rows: " << n_rows << " at a time\n";
        }
    }
  return result;
}

bool
is_right (const std::vector<float> &image, const std::vector<float> &result)
{
  for (std::size_t i = 0; i < result.size (); i++)
    {
      float expected = (image[i] + image[i + width] + image[i + 2 * width]) / 3;

      if (result[i] < expected - 0.01f || result[i] > expected + 0.01f)
        return false;
    }
  return true;
}

cl_device_id
find_device ()
{
  g_autoptr (GError) error = nullptr;
  g_autoptr (GPtrArray) devices = tarn_opencl_select_test_devices (nullptr, &error);

  if (devices == nullptr)
    throw std::runtime_error (error->message);
  if (devices->len == 0)
    throw std::runtime_error ("there is no OpenCL device");
  return static_cast<TarnOpenclDevice *> (g_ptr_array_index (devices, 0))->device;
}

void
run (std::size_t mebibytes)
{
  const smoother smoother (find_device ());
  tarn::pool_options options;

  options.name = "tiles";
  options.limit_bytes = mebibytes << 20;
  const tarn::opencl::pool pool (smoother.queue (), CL_MEM_READ_WRITE, options);
  const std::vector<float> image = make_image ();
  const std::vector<float> result = smooth_in_tiles (smoother, pool, image);

  if (!is_right (image, result))
    throw std::runtime_error ("the result is wrong");
  std::cout << height << " rows of " << width << " numbers are smooth\n";
}

} // namespace

int
main (int argc, char **argv)
{
  const int mebibytes = argc > 1 ? std::atoi (argv[1]) : 4;

  if (argc > 2 || mebibytes <= 0)
    {
      std::cerr << "usage: tiles [MEBIBYTES]\n";
      return 1;
    }
  try
    {
      run (static_cast<std::size_t> (mebibytes));
      std::cout.flush ();
      if (!std::cout)
        throw std::runtime_error ("cannot write the output");
    }
  catch (const std::exception &exception)
    {
      std::cerr << "tiles: " << exception.what () << '\n';
      return 1;
    }
  return 0;
}
