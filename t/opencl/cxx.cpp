/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The header for C++: buffers, their parts and copies, shared virtual memory in containers, and
 * what calls that fail leave. */

#include <tarn/memory-resource.hpp>
#include <tarn/opencl.hpp>

extern "C"
{
#include "queues.h"
}

#include <string>
#include <vector>

namespace
{

constexpr std::size_t size = 100000;
const OpenclLayer *layer;

template <typename Exception, typename Function>
std::string
catch_from (Function function)
{
  try
    {
      function ();
    }
  catch (const std::exception &exception)
    {
      g_assert_nonnull (dynamic_cast<const Exception *> (&exception));
      return exception.what ();
    }
  g_assert_not_reached ();
}

void
write_word (cl_command_queue queue, cl_mem buffer, std::size_t offset, cl_uint value)
{
  g_assert_cmpint (clEnqueueWriteBuffer (queue, buffer, CL_TRUE, offset, sizeof value, &value, 0,
                                         nullptr, nullptr),
                   ==, CL_SUCCESS);
}

cl_uint
read_word (cl_command_queue queue, cl_mem buffer, std::size_t offset)
{
  cl_uint value = 0;

  g_assert_cmpint (clEnqueueReadBuffer (queue, buffer, CL_TRUE, offset, sizeof value, &value, 0,
                                        nullptr, nullptr),
                   ==, CL_SUCCESS);
  return value;
}

void
use (const tarn::opencl::pool &pool, cl_command_queue queue)
{
  tarn::opencl::buffer buffer = pool.allocate (size, queue);
  tarn::opencl::buffer other = buffer.share ();
  tarn::opencl::buffer any = tarn::opencl::pool::share (pool.get ()).allocate_timeout (size, 0);

  g_assert_true (buffer.handle () == other.handle ());
  g_assert_true (any.handle () != buffer.handle ());
  buffer.reset ();
  write_word (queue, other.handle (), size - 4, 7);
  g_assert_cmpuint (read_word (queue, other.handle (), size - 4), ==, 7);
  other.set_last_queue (queue);
  any.set_last_queue (queue);
}

void
test_buffers (const TarnOpenclDevice *device, OpenclState *state)
{
  tarn::opencl::pool pools[] = {
    tarn::opencl::pool (state->queue),
    tarn::opencl::pool (state->context, device->device),
    tarn::opencl::pool (tarn::opencl::make_immediate_allocator (state->queue)),
    tarn::opencl::pool (tarn::opencl::make_deferred_allocator (state->context)),
  };
  tarn::opencl::buffer kept = pools[0].allocate (size);

  for (tarn::opencl::pool &pool : pools)
    {
      for (unsigned i = 0; i < 3; i++)
        use (pool, state->queue);
      pool.reset ();
    }
  g_assert_cmpuint (kept.size (), ==, size);
  write_word (state->queue, kept.handle (), 0, 1);
}

/* A buffer that another queue used last is freed there. */
void
test_free_on (OpenclState *state, const OpenclMemory *, gconstpointer)
{
  tarn::opencl::pool pool (state->queue);
  cl_command_queue other = opencl_queue_new (state, FALSE);
  cl_event gate = opencl_gate_new (state);
  tarn::opencl::buffer buffer = pool.allocate (size, state->queue);
  cl_event written = opencl_fill (other, buffer.get (), 1, gate);

  buffer.set_last_queue (other);
  buffer.reset ();
  buffer = pool.allocate (size, state->queue);
  cl_event again = opencl_fill (state->queue, buffer.get (), 2, nullptr);
  opencl_gate_open (gate);
  opencl_await (written);
  opencl_await (again);
  opencl_assert_content (state->queue, buffer.get (), 2);
  buffer.reset ();
  pool.reset ();
  opencl_queue_free (other);
}

void
test_parts (const TarnOpenclDevice *, OpenclState *state)
{
  tarn::pool_options options;

  options.flags = TARN_POOL_FINDABLE;
  tarn::opencl::pool pool (state->queue, CL_MEM_READ_WRITE, options);
  const cl_uint words[] = { 1, 2, 3 };
  tarn::opencl::buffer buffer = pool.allocate (size, state->queue);
  tarn::opencl::buffer copy = pool.allocate_copy (words, sizeof words, state->queue);
  tarn::opencl::buffer aligned = pool.allocate_aligned (size, 1 << 16, state->queue);
  cl_mem part = buffer.create_sub_buffer (4096, 1024);

  write_word (state->queue, part, 8, 4711);
  g_assert_cmpuint (read_word (state->queue, buffer.handle (), 4096 + 8), ==, 4711);
  clReleaseMemObject (part);
  g_assert_cmpuint (read_word (state->queue, copy.handle (), 8), ==, 3);
  g_assert_true (pool.find (copy.handle ()) == copy.get ());
  g_assert_true (pool.find (nullptr) == nullptr);
  catch_from<tarn::error> ([&] { buffer.create_sub_buffer (0, 0); });
  g_assert_false (buffer.try_create_sub_buffer (size, size).has_value ());
  pool.free_memory (tarn::memory_at (copy.handle ()), state->queue);
  static_cast<void> (copy.release ());
  g_assert_cmpuint (pool.stats ().active_blocks, ==, 2);
}

cl_image_desc
describe_image (std::size_t width)
{
  cl_image_desc desc = {};

  desc.image_type = CL_MEM_OBJECT_IMAGE2D;
  desc.image_width = width;
  desc.image_height = 50;
  return desc;
}

void
test_images (const TarnOpenclDevice *, OpenclState *state)
{
  const cl_image_format format = { CL_RGBA, CL_UNSIGNED_INT8 };
  tarn::opencl::pool buffers (state->queue);
  auto made = tarn::opencl::image_pool::try_make (state->queue, buffers);

  if (!made)
    {
      g_assert_true (made.error ().matches (TARN_ERROR, TARN_ERROR_NOT_SUPPORTED));
      g_test_skip ("the device has no images");
      return;
    }
  tarn::opencl::image_pool pool = *std::move (made), same = pool;
  tarn::opencl::image image = pool.allocate (format, describe_image (100), state->queue);
  tarn::opencl::image other = image.share ();
  cl_mem handle = image.handle ();

  g_assert_true (handle != nullptr && handle == other.handle () && same == pool);
  image.reset ();
  g_assert_cmpuint (pool.pool ().stats ().active_blocks, ==, 1);
  other.set_last_queue (state->queue);
  other.reset ();
  image = same.allocate (format, describe_image (100), state->queue);
  g_assert_true (image.handle () == handle);
  tarn::opencl::image any = pool.allocate (format, describe_image (200));
  g_assert_true (any.handle () != handle);
  cl_image_desc no_image = describe_image (0);
  no_image.buffer = handle;
  catch_from<tarn::error> ([&] { pool.allocate (format, no_image, state->queue); });
  buffers.set_limit_bytes (1 << 20);
  catch_from<std::bad_alloc> ([&] { pool.allocate (format, describe_image (8000), state->queue); });
  catch_from<tarn::error> ([&] { tarn::opencl::image_pool none{ cl_command_queue (nullptr) }; });
  pool.reset ();
  same.reset ();
  buffers.reset ();
}

/* Errors that are Tarn's own, whatever the driver. */
void
test_errors (const TarnOpenclDevice *, OpenclState *state)
{
  tarn::pool_options options;

  options.limit_bytes = 4 * size;
  tarn::opencl::pool pool (state->queue, 0, options);
  catch_from<std::bad_alloc> ([&] { pool.allocate (5 * size, state->queue); });
  catch_from<tarn::out_of_memory> ([&] { pool.allocate (5 * size); });
  catch_from<std::bad_alloc> ([&] { pool.allocate_aligned (5 * size, 4096); });
  catch_from<std::bad_alloc> (
      [&] { pool.allocate_copy (std::string (5 * size, 'x').data (), 5 * size, state->queue); });
  g_assert_true (pool.try_allocate (5 * size).error ().matches (TARN_ERROR, TARN_ERROR_LIMIT));
  catch_from<tarn::error> ([&] { tarn::opencl::pool none{ cl_command_queue (nullptr) }; });
  catch_from<tarn::error> ([&] { tarn::opencl::pool none (nullptr, nullptr); });
  catch_from<tarn::error> ([&] { tarn::opencl::make_immediate_allocator (nullptr); });
  catch_from<tarn::error> ([&] { tarn::opencl::make_svm_allocator (nullptr); });
  catch_from<tarn::error> ([&] { tarn::opencl::svm_pool none{ cl_context (nullptr) }; });
  try
    {
      tarn::opencl::make_deferred_allocator (state->context, CL_MEM_USE_HOST_PTR);
      g_assert_not_reached ();
    }
  catch (const tarn::error &error)
    {
      g_assert_true (error.matches (TARN_OPENCL_ERROR, CL_INVALID_VALUE));
    }
  g_assert_cmpuint (pool.stats ().active_blocks, ==, 0);
}

/* A container in memory that the host and the device share, where nothing needs to be mapped. */
void
test_containers (OpenclState *state)
{
  tarn::pool_options options;

  options.flags = TARN_POOL_FINDABLE;
  tarn::opencl::svm_pool pool (state->context, 1 << 10 /* CL_MEM_SVM_FINE_GRAIN_BUFFER */, nullptr,
                               options);
  tarn::memory_resource resource (pool);
  std::pmr::vector<cl_uint> numbers (&resource);

  for (cl_uint i = 0; i < 1000; i++)
    numbers.push_back (i);
  g_assert_true (tarn_pool_find (pool.get (), TarnMemory{ numbers.data () }) != nullptr);
  g_assert_cmpuint (numbers[999], ==, 999);
  catch_from<std::bad_alloc> ([&] {
    pool.set_limit_bytes (size);
    numbers.resize (size);
  });
  g_assert_cmpuint (numbers.size (), ==, 1000);
}

void
test_svm (OpenclState *state, const OpenclMemory *, gconstpointer)
{
  gboolean has_fine_grain = FALSE;
  tarn::opencl::svm_pool pool (state->context);
  tarn::opencl::svm block = pool.allocate (size, state->queue);
  tarn::opencl::svm other = block.share ();

  g_assert_true (block.data () == other.data () && block.data () != nullptr);
  block.set_last_queue (state->queue);
  block.reset ();
  other.reset ();
  g_assert_true (
      tarn_opencl_has_fine_grain_buffer_svm (opencl_get_device (state), &has_fine_grain, nullptr));
  if (has_fine_grain)
    test_containers (state);
}

/* All that a program does in one go; it leaves nothing, wherever it throws. */
void
run_program (const OpenclState *state)
{
  const cl_uint words[] = { 1, 2, 3 };
  tarn::opencl::pool pool (state->queue);
  std::vector<tarn::opencl::buffer> buffers;

  for (unsigned i = 1; i <= 4; i++)
    buffers.push_back (pool.allocate (i * size, state->queue));
  buffers.push_back (pool.allocate_copy (words, sizeof words, state->queue));
  clReleaseMemObject (buffers[0].create_sub_buffer (4096, 1024));
}

/* Waits until no buffer is there any more.  A driver may call a sub-buffer's destructor callback,
 * which lets go of the block's buffer, after its release has returned. */
void
await_no_buffer ()
{
  const gint64 end = g_get_monotonic_time () + 60 * G_USEC_PER_SEC;

  while (layer->get_live (OPENCL_LAYER_PART, nullptr, 0)
             + layer->get_live (OPENCL_LAYER_BUFFER, nullptr, 0)
         > 0)
    {
      g_assert_cmpint (g_get_monotonic_time (), <, end);
      g_usleep (100);
    }
}

void
test_failing_calls (const TarnOpenclDevice *, OpenclState *state)
{
  static const char *const functions[]
      = { "clCreateBuffer", "clCreateSubBuffer", "clEnqueueMigrateMemObjects",
          "clEnqueueWriteBuffer", "clGetCommandQueueInfo" };

  for (const char *function : functions)
    {
      unsigned n_thrown = 0;

      for (unsigned nth = 1;; nth++)
        {
          layer->fail (function, nth, TRUE, CL_OUT_OF_RESOURCES);
          try
            {
              run_program (state);
            }
          catch (const std::bad_alloc &)
            {
              n_thrown++;
            }
          catch (const tarn::error &)
            {
              n_thrown++;
            }
          bool has_failed = layer->get_failed () != nullptr;
          layer->fail (nullptr, 0, FALSE, CL_SUCCESS);
          clFinish (state->queue);
          await_no_buffer ();
          if (!has_failed)
            break;
        }
      g_test_message ("%s: %u times", function, n_thrown);
      g_assert_true (n_thrown > 0 || !g_str_has_prefix (function, "clCreate"));
    }
}

} // namespace

int
main (int argc, char **argv)
{
  static const OpenclCase cases[] = {
    { "cxx/buffers", test_buffers },
    { "cxx/parts", test_parts },
    { "cxx/images", test_images },
    { "cxx/errors", test_errors },
  };
  static const OpenclQueueCase queue_cases[] = {
    { "cxx/free-on", test_free_on, OPENCL_NEEDS_GATE, nullptr },
    { "cxx/svm", test_svm, OPENCL_NEEDS_SVM, nullptr },
  };
  static const OpenclCase layer_cases[] = { { "cxx/failing-calls", test_failing_calls } };

  g_test_init (&argc, &argv, nullptr);
  layer = opencl_layer_load ();
  opencl_add (cases, G_N_ELEMENTS (cases));
  opencl_add_for_devices (queue_cases, G_N_ELEMENTS (queue_cases));
  if (layer != nullptr)
    opencl_add (layer_cases, G_N_ELEMENTS (layer_cases));
  else
    opencl_add_no_layer ("/opencl/cxx/no-layer");
  return g_test_run ();
}
