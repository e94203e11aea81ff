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
 * A memory resource over a pool whose memory the host can access by its address: a cuda::host_pool,
 * or an opencl::svm_pool with memory that need not be mapped (fine-grained). The pool needs
 * TARN_POOL_FINDABLE, because a container frees memory by its address.
 *
 * If there is too little memory, allocate() throws out_of_memory, which is a std::bad_alloc;
 * without exceptions it ends the program. If an alignment is larger than the usual one of the
 * pool's memory, the pool must be over a heap. Any thread may use the resource.
 *
 * A container knows no queue. So before a container is destroyed or grows, the program must wait
 * for the commands that use its memory.
 *
 * @since 0.1
 */
class memory_resource : public std::pmr::memory_resource
{
public:
  /** Makes a resource over a pool. Throws an error if the pool is without TARN_POOL_FINDABLE. */
  explicit memory_resource (tarn::pool pool) : m_pool (std::move (pool))
  {
    result<void> checked = detail::check_findable (m_pool);

    if (!checked)
      detail::fail (checked.error ());
  }

  /** Gets the pool. */
  const tarn::pool &
  pool () const noexcept
  {
    return m_pool;
  }

protected:
  /** Allocates memory from the pool. allocate() calls this function. */
  void *
  do_allocate (std::size_t bytes, std::size_t alignment) override
  {
    /* The resource finds memory by its address when it is freed, and memory of 0 bytes has no
     * address of its own. So a request of 0 bytes gets 1 byte. */
    result<block> made = m_pool.try_allocate_aligned (bytes > 0 ? bytes : 1, alignment);

    if (!made)
      detail::fail (made.error ());
    return tarn_block_get_memory (made->release ()).pointer;
  }

  /** Frees the block that has the memory. deallocate() calls this function. */
  void
  do_deallocate (void *pointer, std::size_t, std::size_t) override
  {
    detail::free_memory (m_pool, memory_at (pointer));
  }

  /**
   * Tells whether both resources are over the same pool, so that each can free the other's memory.
   */
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
