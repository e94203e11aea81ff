/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory resources for CCCL, and vectors of Thrust's, compiled against the CCCL that is installed.
 * On the fake driver, whose page-locked memory the host can use. */

#ifdef HAVE_CCCL

#include <tarn/cuda-resource.hpp>
#include <tarn/testing/cuda.h>
#include <tarn/thrust.hpp>

#include <thrust/reduce.h>
#include <thrust/sort.h>

#include <string>

using device_accessible = ::cuda::mr::device_accessible;
using host_accessible = ::cuda::mr::host_accessible;
using tarn::cuda::host_resource;
using tarn::cuda::resource;

/* A concept takes what it is told to take, and nothing else. */
#if CCCL_VERSION >= 3001000
static_assert (::cuda::mr::synchronous_resource<resource>);
static_assert (::cuda::mr::resource<resource>);
static_assert (::cuda::mr::resource_with<resource, device_accessible>);
static_assert (!::cuda::mr::resource_with<resource, host_accessible>);
static_assert (::cuda::mr::resource_with<host_resource, device_accessible, host_accessible>);
static_assert (!::cuda::mr::resource<tarn::cuda::pool>);
#else
static_assert (::cuda::mr::resource<resource>);
static_assert (::cuda::mr::async_resource<resource>);
static_assert (::cuda::mr::async_resource_with<resource, device_accessible>);
static_assert (!::cuda::mr::async_resource_with<resource, host_accessible>);
static_assert (::cuda::mr::async_resource_with<host_resource, device_accessible, host_accessible>);
static_assert (!::cuda::mr::resource<tarn::cuda::pool>);
#endif

namespace
{

constexpr std::size_t size = 100000;
const TarnTestingCuda *fake;

template <typename Exception, typename Function>
void
catch_from (Function function)
{
  try
    {
      function ();
    }
  catch (const std::exception &exception)
    {
      g_assert_nonnull (dynamic_cast<const Exception *> (&exception));
      return;
    }
  g_assert_not_reached ();
}

tarn::pool_options
findable (std::size_t limit_bytes = 0)
{
  tarn::pool_options options;

  options.flags = TARN_POOL_FINDABLE;
  options.limit_bytes = limit_bytes;
  return options;
}

void
assert_nothing_is_alive ()
{
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_DEVICE_MEMORY), ==, 0);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_HOST_MEMORY), ==, 0);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_ADDRESSES), ==, 0);
}

template <typename Resource>
void
check_resource (Resource tested)
{
  ::cuda::stream_ref stream{ cudaStream_t (nullptr) };
  Resource copy = tested;

  g_assert_true (copy == tested && !(copy != tested));
  for (std::size_t alignment = 1; alignment <= 4096; alignment *= 2)
    for (std::size_t bytes : { std::size_t (0), size })
      {
        void *pointers[]
            = { tested.allocate (stream, bytes, alignment),
                tested.allocate_async (bytes, alignment, stream),
                tested.allocate_sync (bytes, alignment), tested.allocate (bytes, alignment) };

        for (void *pointer : pointers)
          g_assert_cmpuint (reinterpret_cast<std::uintptr_t> (pointer) % alignment, ==, 0);
        g_assert_cmpuint (tested.pool ().stats ().active_blocks, ==, 4);
        copy.deallocate (stream, pointers[0], bytes, alignment);
        copy.deallocate_async (pointers[1], bytes, alignment, stream);
        copy.deallocate_sync (pointers[2], bytes, alignment);
        copy.deallocate (pointers[3], bytes, alignment);
        g_assert_cmpuint (tested.pool ().stats ().active_blocks, ==, 0);
      }
  void *pointer = tested.allocate (stream, size);
  tested.pool ().set_limit_bytes (4 * size);
  catch_from<std::bad_alloc> ([&] { tested.allocate (stream, 400 * size); });
  catch_from<std::bad_alloc> ([&] { tested.allocate_sync (400 * size); });
  g_assert_cmpuint (tested.pool ().stats ().active_blocks, ==, 1);
  tested.deallocate (stream, pointer, size);
  g_test_expect_message (G_LOG_DOMAIN, G_LOG_LEVEL_CRITICAL, "*is that of no block in use*");
  tested.deallocate (stream, pointer, size);
  g_test_assert_expected_messages ();
}

void
test_resource (const TarnCudaTest *test, gconstpointer)
{
  {
    check_resource (resource (tarn::cuda::pool (test->context, findable ())));
    check_resource (host_resource (tarn::cuda::host_pool (test->context, 0, findable ())));
    catch_from<tarn::error> ([&] { resource none{ tarn::cuda::pool (test->context) }; });
    g_assert_true (resource (tarn::cuda::pool (test->context, findable ()))
                   != resource (tarn::cuda::pool (test->context, findable ())));
  }
  assert_nothing_is_alive ();
}

/* What a library does that takes any resource. */
void
test_reference (const TarnCudaTest *test, gconstpointer)
{
  ::cuda::stream_ref stream{ cudaStream_t (nullptr) };
  resource own (tarn::cuda::pool (test->context, findable ()));
#if CCCL_VERSION >= 3001000
  ::cuda::mr::resource_ref<device_accessible> any = own;
  void *pointer = any.allocate (stream, size, 256);
  any.deallocate (stream, pointer, size, 256);
#else
  ::cuda::mr::async_resource_ref<device_accessible> any = own;
  void *pointer = any.allocate_async (size, 256, stream);
  any.deallocate_async (pointer, size, 256, stream);
#endif
  g_assert_nonnull (pointer);
  g_assert_cmpuint (own.pool ().stats ().hits + own.pool ().stats ().misses, ==, 1);
  g_assert_cmpuint (own.pool ().stats ().active_blocks, ==, 0);
}

/* Memory that a stream frees is used on another one when that is done. */
void
test_order (const TarnCudaTest *test, gconstpointer)
{
  resource own (tarn::cuda::pool (tarn::cuda::make_device_allocator (test->context), findable ()));
  CUstream per_thread = reinterpret_cast<CUstream> (2);
  ::cuda::stream_ref stream{ cudaStream_t (nullptr) }, other{ per_thread };
  void *pointer = own.allocate (other, size);

  fake->put_work (nullptr);
  own.deallocate (stream, pointer, size);
  void *second = own.allocate (other, size);
  g_assert_true (second != pointer || !fake->is_idle (per_thread));
  fake->finish_all_work ();
  own.deallocate (other, second, size);
}

void
test_thrust (const TarnCudaTest *test, gconstpointer)
{
  {
    tarn::cuda::host_pool pool (test->context, 0, findable (64 << 20));
    tarn::cuda::thrust_resource own (pool), same (pool);
    tarn::cuda::thrust_resource other{ tarn::cuda::host_pool (test->context, 0, findable ()) };
    tarn::cuda::thrust_vector<int> numbers (1000, &own);

    for (int i = 0; i < 1000; i++)
      numbers[static_cast<std::size_t> (i)] = (i * 7919) % 1000;
    thrust::sort (numbers.begin (), numbers.end ());
    for (int i = 0; i < 1000; i++)
      g_assert_cmpint (numbers[static_cast<std::size_t> (i)], ==, i);
    g_assert_cmpint (thrust::reduce (numbers.begin (), numbers.end ()), ==, 999 * 500);
    numbers.resize (2000, 1);
    tarn::cuda::thrust_vector<int> copy = numbers;
    g_assert_cmpint (copy[1999], ==, 1);
    g_assert_cmpuint (pool.stats ().active_blocks, ==, 2);
    catch_from<std::bad_alloc> ([&] { numbers.resize (64 << 20); });
    g_assert_cmpuint (numbers.size (), ==, 2000);
    auto aligned = own.allocate (size, 4096);
    g_assert_cmpuint (reinterpret_cast<std::uintptr_t> (aligned.get ()) % 4096, ==, 0);
    own.deallocate (aligned, size, 4096);
    g_assert_true (own.is_equal (same) && !own.is_equal (other));
    catch_from<tarn::error> (
        [&] { tarn::cuda::thrust_resource none{ tarn::cuda::host_pool (test->context) }; });
  }
  assert_nothing_is_alive ();
}

} // namespace

int
main (int argc, char **argv)
{
  fake = tarn_testing_cuda_get ();
  g_assert_nonnull (fake);
  g_test_init (&argc, &argv, nullptr);
  tarn_cuda_test_add ("cccl/resource", test_resource, nullptr);
  tarn_cuda_test_add ("cccl/reference", test_reference, nullptr);
  tarn_cuda_test_add ("cccl/order", test_order, nullptr);
  tarn_cuda_test_add ("cccl/thrust", test_thrust, nullptr);
  return g_test_run ();
}

#else

#include <glib.h>

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, nullptr);
  g_test_add_func ("/cuda/cccl/none",
                   [] { g_test_skip ("there was no CCCL when this was built: --with-cccl=DIR"); });
  return g_test_run ();
}

#endif
