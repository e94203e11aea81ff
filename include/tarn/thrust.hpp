/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Vectors of Thrust's in a pool's memory, and the temporary memory of its algorithms. It needs
 * Thrust's headers.
 *
 *     tarn::cuda::thrust_resource resource (pool, stream);
 *     tarn::cuda::thrust_vector<float> numbers (1000, &resource);
 *     tarn::cuda::thrust_allocator<char> temporaries (&resource);
 *     thrust::sort (thrust::cuda::par (temporaries).on (stream), numbers.begin (), numbers.end ());
 */

#ifndef TARN_THRUST_HPP
#define TARN_THRUST_HPP

#include <tarn/cuda.hpp>

#include <thrust/device_ptr.h>
#include <thrust/device_vector.h>
#include <thrust/mr/allocator.h>
#include <thrust/mr/memory_resource.h>

namespace tarn::cuda
{

/**
 * A memory resource of Thrust's over a pool of CUDA's memory, which finds blocks by their memory
 * (TARN_POOL_FINDABLE). Where there is no memory, it throws out_of_memory, a std::bad_alloc.
 * Vectors refer to it, so it outlives them. Any thread may use it.
 *
 * @since 0.1
 */
class thrust_resource : public ::thrust::mr::memory_resource< ::thrust::device_ptr<void> >
{
public:
  /**
   * A resource for the stream that Thrust's algorithms run on; NULL: the default one. Memory that
   * is freed waits for that stream and for no other. It fails for a pool without
   * TARN_POOL_FINDABLE, as do_allocate() does.
   */
  explicit thrust_resource (tarn::pool pool, CUstream stream = nullptr)
      : m_pool (std::move (pool)), m_stream (stream)
  {
    result<void> checked = tarn::detail::check_findable (m_pool);

    if (!checked)
      tarn::detail::fail (checked.error ());
  }

  /** The pool. */
  const tarn::pool &
  pool () const noexcept
  {
    return m_pool;
  }

  /** Allocates memory for commands that come later on the stream. */
  ::thrust::device_ptr<void>
  do_allocate (std::size_t bytes, std::size_t alignment) override
  {
    /* Memory of no bytes would have no address of its own, by which it is found again. */
    std::size_t size = bytes > 0 ? bytes : 1;
    tarn::detail::error_slot error;
    block made (tarn_cuda_pool_allocate (m_pool.get (), size, m_stream, error.out ()));

    if (made && alignment != 0 && made.memory ().address % alignment != 0)
      made = block (
          tarn_pool_allocate_aligned (m_pool.get (), size, alignment, nullptr, error.out ()));
    if (!made)
      tarn::detail::fail (error.take ());
    return ::thrust::device_ptr<void> (reinterpret_cast<void *> (
        static_cast<std::uintptr_t> (tarn_block_get_memory (made.release ()).address)));
  }

  /** Frees memory that commands on the stream may still use. */
  void
  do_deallocate (::thrust::device_ptr<void> freed, std::size_t, std::size_t) override
  {
    tarn::detail::free_on_stream (m_pool, memory_at (freed.get ()), m_stream);
  }

  /** Tells whether either can free the other's memory. */
  bool
  do_is_equal (const memory_resource &other) const noexcept override
  {
#if defined(__cpp_rtti)
    auto same = dynamic_cast<const thrust_resource *> (&other);

    return same != nullptr && same->m_pool == m_pool && same->m_stream == m_stream;
#else
    return this == &other;
#endif
  }

private:
  tarn::pool m_pool;
  CUstream m_stream;
};

/**
 * Thrust's allocator over a thrust_resource, of which it takes the address.
 *
 * @since 0.1
 */
template <typename T> using thrust_allocator = ::thrust::mr::allocator<T, thrust_resource>;

/**
 * A device vector of Thrust's in memory of a thrust_resource.
 *
 * @since 0.1
 */
template <typename T> using thrust_vector = ::thrust::device_vector<T, thrust_allocator<T> >;

} // namespace tarn::cuda

#endif
