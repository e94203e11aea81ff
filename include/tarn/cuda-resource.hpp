/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Memory resources for libraries over NVIDIA's CCCL (libcu++, Thrust, CUB), which take what
 * cuda::mr::resource describes. It needs the headers of CCCL 2.2 or later, and of the CUDA runtime;
 * nothing of CUDA's needs to be linked for it.
 *
 * Before CCCL 3.1 these concepts were experimental. This header switches them on, so it comes
 * before any of CCCL's, or LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE is defined for all.
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
 * A memory resource over a pool, which finds blocks by their memory (TARN_POOL_FINDABLE). Its
 * copies share the pool. Any thread may use it. allocate() and its like throw where there is no
 * memory: out_of_memory, a std::bad_alloc.
 *
 * It satisfies these concepts of cuda::mr: resource and synchronous_resource from CCCL 3.1 on,
 * async_resource and resource before.
 *
 * @tparam Pool        cuda::pool or cuda::host_pool
 * @tparam Properties  who can access its memory: cuda::mr::device_accessible, host_accessible
 *
 * @since 0.1
 */
template <typename Pool, typename... Properties> class basic_resource
{
public:
  /** The alignment in bytes that a pool's memory has, whatever was asked for. */
  static constexpr std::size_t default_alignment = 256;

  /** A resource over a pool; fails for one without TARN_POOL_FINDABLE, as allocate() does. */
  explicit basic_resource (Pool pool) : m_pool (std::move (pool))
  {
    result<void> checked = tarn::detail::check_findable (m_pool);

    if (!checked)
      tarn::detail::fail (checked.error ());
  }

  /** The pool. */
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

  /** Frees memory that only commands on the stream that it was allocated for may still use. */
  void
  deallocate_sync (void *pointer, std::size_t, std::size_t = default_alignment) noexcept
  {
    tarn::detail::free_memory (m_pool, tarn::memory_at (pointer));
  }

  /* By the names that CCCL had before 3.1. */

  /** allocate_sync(). */
  void *
  allocate (std::size_t bytes, std::size_t alignment = default_alignment)
  {
    return allocate_sync (bytes, alignment);
  }

  /** deallocate_sync(). */
  void
  deallocate (void *pointer, std::size_t bytes, std::size_t alignment = default_alignment) noexcept
  {
    deallocate_sync (pointer, bytes, alignment);
  }

  /** allocate() for a stream. */
  void *
  allocate_async (std::size_t bytes, std::size_t alignment, ::cuda::stream_ref stream)
  {
    return allocate (stream, bytes, alignment);
  }

  /** allocate() for a stream. */
  void *
  allocate_async (std::size_t bytes, ::cuda::stream_ref stream)
  {
    return allocate (stream, bytes);
  }

  /** deallocate() for a stream. */
  void
  deallocate_async (void *pointer, std::size_t bytes, std::size_t alignment,
                    ::cuda::stream_ref stream) noexcept
  {
    deallocate (stream, pointer, bytes, alignment);
  }

  /** deallocate() for a stream. */
  void
  deallocate_async (void *pointer, std::size_t bytes, ::cuda::stream_ref stream) noexcept
  {
    deallocate (stream, pointer, bytes);
  }

  /** Tells whether either can free the other's memory: they are over the same pool. */
  friend bool
  operator== (const basic_resource &a, const basic_resource &b) noexcept
  {
    return a.m_pool == b.m_pool;
  }

  /** Tells whether they are over different pools. */
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
  /* Memory of no bytes would have no address of its own, by which it is found again. */
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
