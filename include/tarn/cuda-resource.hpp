/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Memory resources for libraries over NVIDIA's CCCL (libcu++, Thrust, CUB). Such libraries take
 * any type that satisfies the concept cuda::mr::resource. This header needs the headers of CCCL
 * 2.2 or later, and of the CUDA runtime. The program need not be linked with a library of CUDA for
 * it.
 *
 * Before CCCL 3.1 the concepts of memory resources were experimental. This header enables them by
 * LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE. So include it before any header of CCCL, or
 * define that macro yourself for the whole program.
 */

#ifndef TARN_CUDA_RESOURCE_HPP
#define TARN_CUDA_RESOURCE_HPP

#ifndef LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#endif

#include <cuda/memory_resource>
#include <cuda/stream_ref>

#include <tarn/cuda.hpp>

namespace tarn::cuda
{

/**
 * A memory resource over a pool, which needs TARN_POOL_FINDABLE. Copies of a resource share the
 * pool. Any thread may use a resource. If there is too little memory, allocate() and similar
 * functions throw out_of_memory, a std::bad_alloc.
 *
 * The class satisfies these concepts of cuda::mr: from CCCL 3.1 on, resource and
 * synchronous_resource; before CCCL 3.1, async_resource and resource.
 *
 * @tparam Pool        cuda::pool or cuda::host_pool
 * @tparam Properties  who can access the memory: cuda::mr::device_accessible, host_accessible
 *
 * @since 0.1
 */
template <typename Pool, typename... Properties> class basic_resource
{
public:
  /**
   * The alignment in bytes that a pool's memory always has, even for a request of a smaller one.
   */
  static constexpr std::size_t default_alignment = 256;

  /** Makes a resource over a pool. Throws an error if the pool is without TARN_POOL_FINDABLE. */
  explicit basic_resource (Pool pool) : m_pool (std::move (pool))
  {
    result<void> checked = tarn::detail::check_findable (m_pool);

    if (!checked)
      tarn::detail::fail (checked.error ());
  }

  /** Gets the pool. */
  const Pool &
  pool () const noexcept
  {
    return m_pool;
  }

  /** Allocates memory for commands that come later on a stream. */
  void *
  allocate (::cuda::stream_ref stream, std::size_t bytes, std::size_t alignment = default_alignment)
  {
    CUstream queue = stream.get ();
    auto made = m_pool.try_allocate (at_least_one (bytes), queue);

    if (made && !is_aligned (*made, alignment))
      made = m_pool.try_allocate_aligned (at_least_one (bytes), alignment);
    return give (std::move (made));
  }

  /** Frees memory that commands on a stream may still use. */
  void
  deallocate (::cuda::stream_ref stream, void *pointer, std::size_t,
              std::size_t = default_alignment) noexcept
  {
    tarn::detail::free_on_stream (m_pool, tarn::memory_at (pointer), stream.get ());
  }

  /** Allocates memory that any stream may use at once. */
  void *
  allocate_sync (std::size_t bytes, std::size_t alignment = default_alignment)
  {
    return give (m_pool.try_allocate_aligned (at_least_one (bytes), alignment));
  }

  /**
   * Frees memory that commands may still use, but only on the stream for which it was allocated.
   */
  void
  deallocate_sync (void *pointer, std::size_t, std::size_t = default_alignment) noexcept
  {
    tarn::detail::free_memory (m_pool, tarn::memory_at (pointer));
  }

  /* The same functions, under the names that CCCL had before 3.1. */

  /** Calls allocate_sync(). */
  void *
  allocate (std::size_t bytes, std::size_t alignment = default_alignment)
  {
    return allocate_sync (bytes, alignment);
  }

  /** Calls deallocate_sync(). */
  void
  deallocate (void *pointer, std::size_t bytes, std::size_t alignment = default_alignment) noexcept
  {
    deallocate_sync (pointer, bytes, alignment);
  }

  /** Calls allocate() with a stream. */
  void *
  allocate_async (std::size_t bytes, std::size_t alignment, ::cuda::stream_ref stream)
  {
    return allocate (stream, bytes, alignment);
  }

  /** Calls allocate() with a stream. */
  void *
  allocate_async (std::size_t bytes, ::cuda::stream_ref stream)
  {
    return allocate (stream, bytes);
  }

  /** Calls deallocate() with a stream. */
  void
  deallocate_async (void *pointer, std::size_t bytes, std::size_t alignment,
                    ::cuda::stream_ref stream) noexcept
  {
    deallocate (stream, pointer, bytes, alignment);
  }

  /** Calls deallocate() with a stream. */
  void
  deallocate_async (void *pointer, std::size_t bytes, ::cuda::stream_ref stream) noexcept
  {
    deallocate (stream, pointer, bytes);
  }

  /**
   * Tells whether two resources are over the same pool, so that each can free the other's memory.
   */
  friend bool
  operator== (const basic_resource &a, const basic_resource &b) noexcept
  {
    return a.m_pool == b.m_pool;
  }

  /** Tells whether two resources are over different pools. */
  friend bool
  operator!= (const basic_resource &a, const basic_resource &b) noexcept
  {
    return !(a == b);
  }

  /** Tells CCCL that the resource has the property. */
  template <typename Property,
            std::enable_if_t<(std::is_same_v<Property, Properties> || ...), int> = 0>
  friend constexpr void
  get_property (const basic_resource &, Property) noexcept
  {
  }

private:
  /* The resource finds memory by its address when it is freed, and memory of 0 bytes has no address
   * of its own. So a request of 0 bytes gets 1 byte. */
  static std::size_t
  at_least_one (std::size_t bytes) noexcept
  {
    return bytes > 0 ? bytes : 1;
  }

  static bool
  is_aligned (const block &made, std::size_t alignment) noexcept
  {
    return alignment == 0 || made.memory ().address % alignment == 0;
  }

  template <typename Result>
  static void *
  give (Result made)
  {
    if (!made)
      tarn::detail::fail (made.error ());
    return reinterpret_cast<void *> (
        static_cast<std::uintptr_t> (tarn_block_get_memory (made->release ()).address));
  }

  Pool m_pool;
};

/**
 * A memory resource of device memory.
 *
 * @since 0.1
 */
using resource = basic_resource<pool, ::cuda::mr::device_accessible>;

/**
 * A memory resource of page-locked or managed memory.
 *
 * @since 0.1
 */
using host_resource
    = basic_resource<host_pool, ::cuda::mr::device_accessible, ::cuda::mr::host_accessible>;

} // namespace tarn::cuda

#endif
