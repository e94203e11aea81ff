/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Containers of the standard library in memory that a device can use: a std::pmr::memory_resource
 * over a pool of page-locked memory, managed memory, or shared virtual memory.
 */

#ifndef TARN_MEMORY_RESOURCE_HPP
#define TARN_MEMORY_RESOURCE_HPP

#include <tarn/tarn.hpp>

#include <memory_resource>

namespace tarn
{

/**
 * A memory resource over a pool whose memory is an address that the host can use, too: of
 * cuda::host_pool, or of opencl::svm_pool with memory that need not be mapped (fine-grained). The
 * pool has TARN_POOL_FINDABLE, since a container frees memory by its address.
 *
 * Where there is no memory, allocate() throws out_of_memory, which is a std::bad_alloc; without
 * exceptions it ends the program. Alignment beyond what the pool's memory has anyway needs a pool
 * over a heap. Any thread may use it.
 *
 * A container knows no queue. Before it is destroyed or grows, the program waits for the commands
 * that use it.
 *
 * @since 0.1
 */
class memory_resource : public std::pmr::memory_resource
{
public:
  /** A resource over a pool; fails for one without TARN_POOL_FINDABLE, as allocate() does. */
  explicit memory_resource (tarn::pool pool) : m_pool (std::move (pool))
  {
    result<void> checked = detail::check_findable (m_pool);

    if (!checked)
      detail::fail (checked.error ());
  }

  /** The pool. */
  const tarn::pool &
  pool () const noexcept
  {
    return m_pool;
  }

protected:
  /** Allocates memory from the pool, as allocate() does. */
  void *
  do_allocate (std::size_t bytes, std::size_t alignment) override
  {
    /* Memory of no bytes would have no address of its own, by which it is found again. */
    result<block> made = m_pool.try_allocate_aligned (bytes > 0 ? bytes : 1, alignment);

    if (!made)
      detail::fail (made.error ());
    return tarn_block_get_memory (made->release ()).pointer;
  }

  /** Frees the block that has the memory, as deallocate() does. */
  void
  do_deallocate (void *pointer, std::size_t, std::size_t) override
  {
    detail::free_memory (m_pool, memory_at (pointer));
  }

  /** Tells whether either can free the other's memory: they are over the same pool. */
  bool
  do_is_equal (const std::pmr::memory_resource &other) const noexcept override
  {
#if defined(__cpp_rtti)
    auto same = dynamic_cast<const memory_resource *> (&other);

    return same != nullptr && same->m_pool == m_pool;
#else
    return this == &other;
#endif
  }

private:
  tarn::pool m_pool;
};

} // namespace tarn

#endif
