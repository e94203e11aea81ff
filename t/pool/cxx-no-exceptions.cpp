/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The header for C++ in a program that has neither exceptions nor run-time type information. */

#include <tarn/memory-resource.hpp>
#include <tarn/tarn.hpp>
#include <tarn/testing.h>

#if TARN_HAS_EXCEPTIONS || defined(__cpp_rtti)
#error "this is to be compiled with -fno-exceptions -fno-rtti"
#endif

namespace
{

constexpr std::size_t size = 5000;

void
test_results ()
{
  TarnTestingDevice *device = tarn_testing_device_new (1 << 20);
  {
    tarn::allocator allocator (tarn_testing_device_allocator_new (device));
    tarn::pool_options options;

    options.limit_bytes = 4 * size;
    tarn::result<tarn::pool> pool = tarn::pool::try_make (allocator, options);
    g_assert_true (pool.has_value ());
    tarn::result<tarn::block> block = pool->try_allocate (size);
    g_assert_true (block.has_value ());
    tarn::result<tarn::block> none = pool->try_allocate (5 * size);
    g_assert_false (none.has_value ());
    g_assert_true (none.error ().is_no_memory ());
    g_assert_false (tarn::try_make_heap (allocator).has_value ());
    g_assert_false (pool->try_free_memory (block->memory ()).has_value ());
    tarn::block kept = *std::move (block);
    pool->reset ();
    g_assert_cmpuint (kept.size (), ==, size);
  }
  tarn_testing_assert_no_leaks (device);
  tarn_testing_device_free (device);
}

/* Where nothing can be thrown, the program ends with the reason. */
void
test_resource_fails ()
{
  if (g_test_subprocess ())
    {
      tarn::memory_resource resource{ tarn::pool () };

      return;
    }
  g_test_trap_subprocess (nullptr, 0, static_cast<GTestSubprocessFlags> (0));
  g_test_trap_assert_failed ();
  g_test_trap_assert_stderr ("*ERROR*Tarn: *pool*");
}

} // namespace

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, nullptr);
  g_test_add_func ("/core/cxx/no-exceptions/results", test_results);
  g_test_add_func ("/core/cxx/no-exceptions/resource-fails", test_resource_fails);
  return g_test_run ();
}
