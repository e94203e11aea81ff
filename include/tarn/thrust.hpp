/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Vectors of Thrust in a pool's memory, and temporary memory for Thrust's algorithms. This header
 * needs Thrust's headers.
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
 * A memory resource of Thrust over a pool of CUDA's memory, which needs TARN_POOL_FINDABLE. If
 * there is too little memory, the resource throws out_of_memory, a std::bad_alloc. It must outlive
 * the vectors that use it. Any thread may use the resource.
 *
 * @since 0.1
 */
class thrust_resource : public ::thrust::mr::memory_resource< ::thrust::device_ptr<void> >
{
public:
  /**
   * Makes a resource for the stream on which Thrust's algorithms run; NULL: the default stream.
   * Before freed memory is reused, Tarn waits for this stream, and for no other one. Throws an
   * error if the pool is without TARN_POOL_FINDABLE.
   */
  explicit thrust_resource (tarn::pool pool, CUstream stream = nullptr)
      : m_pool (std::move (pool)), m_stream (stream)
  {
    result<void> checked = tarn::detail::check_findable (m_pool);

    if (!checked)
      tarn::detail::fail (checked.error ());
  }

  /** Gets the pool. */
  const tarn::pool &
  pool () const noexcept
  {
    return m_pool;
  }

  /** Allocates memory for commands that come later on the stream. */
  ::thrust::device_ptr<void>
  do_allocate (std::size_t bytes, std::size_t alignment) override
  {
    /* The resource finds memory by its address when it is freed, and memory of 0 bytes has no
     * address of its own. So a request of 0 bytes gets 1 byte. */
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

  /** Tells whether each of two resources can free the other's memory. */
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
 * Thrust's allocator over a thrust_resource. Its constructor takes the resource's address.
 *
 * @since 0.1
 */
template <typename T> using thrust_allocator = ::thrust::mr::allocator<T, thrust_resource>;

/**
 * A device vector of Thrust in memory of a thrust_resource.
 *
 * @since 0.1
 */
template <typename T> using thrust_vector = ::thrust::device_vector<T, thrust_allocator<T> >;

} // namespace tarn::cuda

#endif
