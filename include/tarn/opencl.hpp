/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * libtarn-opencl for C++17: owners of buffers, images and shared virtual memory, and pools of such
 * memory. The header only wraps the functions of <tarn/opencl.h>; their documentation also applies
 * here. <tarn/tarn.hpp> documents how errors are reported.
 */

#ifndef TARN_OPENCL_HPP
#define TARN_OPENCL_HPP

#include <tarn/opencl.h>
#include <tarn/tarn.hpp>

/** C++17 owners for <tarn/opencl.h>. */
namespace tarn::opencl
{

/**
 * Makes an allocator of buffers by clCreateBuffer alone: tarn_opencl_deferred_allocator_new().
 *
 * @since 0.1
 */
inline result<allocator>
try_make_deferred_allocator (cl_context context, cl_mem_flags flags = 0) noexcept
{
  detail::error_slot error;

  return error.owner_of<allocator> (
      tarn_opencl_deferred_allocator_new (context, flags, error.out ()));
}

/**
 * Makes an allocator of buffers that are on the device at once:
 * tarn_opencl_immediate_allocator_new().
 *
 * @since 0.1
 */
inline result<allocator>
try_make_immediate_allocator (cl_command_queue queue, cl_mem_flags flags = 0) noexcept
{
  detail::error_slot error;

  return error.owner_of<allocator> (
      tarn_opencl_immediate_allocator_new (queue, flags, error.out ()));
}

/**
 * Makes an allocator of shared virtual memory (clSVMAlloc): tarn_opencl_svm_allocator_new().
 *
 * @since 0.1
 */
inline result<allocator>
try_make_svm_allocator (cl_context context, cl_uint alignment = 0, cl_bitfield flags = 0,
                        cl_command_queue queue = nullptr) noexcept
{
  detail::error_slot error;

  return error.owner_of<allocator> (
      tarn_opencl_svm_allocator_new (context, alignment, flags, queue, error.out ()));
}

#if TARN_HAS_EXCEPTIONS
/**
 * Calls try_make_deferred_allocator(), and throws its error.
 *
 * @since 0.1
 */
inline allocator
make_deferred_allocator (cl_context context, cl_mem_flags flags = 0)
{
  return try_make_deferred_allocator (context, flags).value ();
}

/**
 * Calls try_make_immediate_allocator(), and throws its error.
 *
 * @since 0.1
 */
inline allocator
make_immediate_allocator (cl_command_queue queue, cl_mem_flags flags = 0)
{
  return try_make_immediate_allocator (queue, flags).value ();
}

/**
 * Calls try_make_svm_allocator(), and throws its error.
 *
 * @since 0.1
 */
inline allocator
make_svm_allocator (cl_context context, cl_uint alignment = 0, cl_bitfield flags = 0,
                    cl_command_queue queue = nullptr)
{
  return try_make_svm_allocator (context, alignment, flags, queue).value ();
}
#endif

/**
 * The owner of a block that has a buffer.
 *
 * @since 0.1
 */
class buffer : public block
{
public:
  using block::block;

  /** Takes over a block of an allocator of buffers, or of a pool over one. */
  explicit buffer (block &&other) noexcept : block (std::move (other)) {}

  /** Makes another owner of the buffer. */
  buffer
  share () const noexcept
  {
    return buffer (block::share ());
  }

  /**
   * Gets the buffer, as OpenCL's functions take it. The buffer is valid as long as the block is in
   * use.
   */
  cl_mem
  handle () const noexcept
  {
    return tarn_opencl_block_get_buffer (get ());
  }

  /** Sets the queue that uses the block last, as block::set_last_queue() does. */
  void
  set_last_queue (cl_command_queue queue) noexcept
  {
    block::set_last_queue (queue);
  }

  /**
   * Makes a cl_mem of a part of a block: tarn_opencl_block_create_sub_buffer().
   *
   * @param origin  the offset of the part's first byte: a multiple of
   *                CL_DEVICE_MEM_BASE_ADDR_ALIGN, which is in bits
   * @param size    bytes
   * @param flags   for clCreateSubBuffer; 0: the flags of the larger buffer
   *
   * @return (transfer full): for clReleaseMemObject()
   */
  result<cl_mem>
  try_create_sub_buffer (std::size_t origin, std::size_t size,
                         cl_mem_flags flags = 0) const noexcept
  {
    detail::error_slot error;

    return error.owner_of<cl_mem> (
        tarn_opencl_block_create_sub_buffer (get (), flags, origin, size, error.out ()));
  }

#if TARN_HAS_EXCEPTIONS
  /** Calls try_create_sub_buffer(), and throws its error. */
  cl_mem
  create_sub_buffer (std::size_t origin, std::size_t size, cl_mem_flags flags = 0) const
  {
    return try_create_sub_buffer (origin, size, flags).value ();
  }
#endif
};

/**
 * The owner of a reference to a pool of buffers.
 *
 * @since 0.1
 */
class pool : public tarn::pool
{
public:
  using tarn::pool::pool;

  /** Takes over a reference to a pool over an allocator of buffers. */
  explicit pool (tarn::pool other) noexcept : tarn::pool (std::move (other)) {}

  /** Adds a reference to the pool, and makes an owner of this reference. */
  static pool
  share (TarnPool *borrowed) noexcept
  {
    return pool (ref (borrowed));
  }

  /** Makes a pool of buffers that suits most programs: tarn_opencl_pool_new(). */
  static result<pool>
  try_make (cl_command_queue queue, cl_mem_flags flags = 0,
            const TarnPoolOptions &options = pool_options ()) noexcept
  {
    detail::error_slot error;

    return error.owner_of<pool> (tarn_opencl_pool_new (queue, flags, &options, error.out ()));
  }

  /**
   * Makes a pool for a device, without a queue of the program: tarn_opencl_pool_new_for_device().
   */
  static result<pool>
  try_make (cl_context context, cl_device_id device, cl_mem_flags flags = 0,
            const TarnPoolOptions &options = pool_options ()) noexcept
  {
    detail::error_slot error;

    return error.owner_of<pool> (
        tarn_opencl_pool_new_for_device (context, device, flags, &options, error.out ()));
  }

  /**
   * Allocates a block from a pool: tarn_pool_allocate(). The buffer is for commands of any queue.
   */
  result<buffer>
  try_allocate (std::size_t size) const noexcept
  {
    return try_block<buffer> (size, nullptr);
  }

  /** Allocates a block from a pool, for use on a queue: tarn_opencl_pool_allocate(). */
  result<buffer>
  try_allocate (std::size_t size, cl_command_queue queue) const noexcept
  {
    detail::error_slot error;

    return error.owner_of<buffer> (tarn_opencl_pool_allocate (get (), size, queue, error.out ()));
  }

  /** Allocates a block whose memory is aligned: tarn_pool_allocate_aligned(). */
  result<buffer>
  try_allocate_aligned (std::size_t size, std::size_t alignment,
                        cl_command_queue queue = nullptr) const noexcept
  {
    detail::error_slot error;

    return error.owner_of<buffer> (
        tarn_pool_allocate_aligned (get (), size, alignment, queue, error.out ()));
  }

  /**
   * Allocates a block, and waits until other threads have freed enough:
   * tarn_pool_allocate_timeout().
   */
  result<buffer>
  try_allocate_timeout (std::size_t size, std::int64_t microseconds,
                        cl_command_queue queue = nullptr) const noexcept
  {
    return try_block_timeout<buffer> (size, microseconds, queue);
  }

  /** Allocates a block and fills it with bytes of the host: tarn_opencl_pool_allocate_copy(). */
  result<buffer>
  try_allocate_copy (const void *bytes, std::size_t size, cl_command_queue queue) const noexcept
  {
    detail::error_slot error;

    return error.owner_of<buffer> (
        tarn_opencl_pool_allocate_copy (get (), bytes, size, queue, error.out ()));
  }

#if TARN_HAS_EXCEPTIONS
  /**
   * Makes a pool of buffers that suits most programs: tarn_opencl_pool_new(). The constructor
   * throws the error.
   */
  explicit pool (cl_command_queue queue, cl_mem_flags flags = 0,
                 const TarnPoolOptions &options = pool_options ())
      : pool (try_make (queue, flags, options).value ())
  {
  }

  /**
   * Makes a pool for a device, without a queue of the program: tarn_opencl_pool_new_for_device().
   * The constructor throws the error.
   */
  pool (cl_context context, cl_device_id device, cl_mem_flags flags = 0,
        const TarnPoolOptions &options = pool_options ())
      : pool (try_make (context, device, flags, options).value ())
  {
  }

  /** Calls try_allocate(), and throws its error. */
  buffer
  allocate (std::size_t size) const
  {
    return try_allocate (size).value ();
  }

  /** Calls try_allocate(), and throws its error. */
  buffer
  allocate (std::size_t size, cl_command_queue queue) const
  {
    return try_allocate (size, queue).value ();
  }

  /** Calls try_allocate_aligned(), and throws its error. */
  buffer
  allocate_aligned (std::size_t size, std::size_t alignment, cl_command_queue queue = nullptr) const
  {
    return try_allocate_aligned (size, alignment, queue).value ();
  }

  /** Calls try_allocate_timeout(), and throws its error. */
  buffer
  allocate_timeout (std::size_t size, std::int64_t microseconds,
                    cl_command_queue queue = nullptr) const
  {
    return try_allocate_timeout (size, microseconds, queue).value ();
  }

  /** Calls try_allocate_copy(), and throws its error. */
  buffer
  allocate_copy (const void *bytes, std::size_t size, cl_command_queue queue) const
  {
    return try_allocate_copy (bytes, size, queue).value ();
  }
#endif

  /**
   * Finds the block in use that has a buffer: tarn_opencl_pool_find(). The pool has
   * TARN_POOL_FINDABLE.
   *
   * @return (transfer none): the block, or NULL
   */
  TarnBlock *
  find (cl_mem buffer) const noexcept
  {
    return tarn_opencl_pool_find (get (), buffer);
  }
};

/**
 * The owner of a block that has an image.
 *
 * @since 0.1
 */
class image : public block
{
public:
  using block::block;

  /** Takes over a block of a pool of images. */
  explicit image (block &&other) noexcept : block (std::move (other)) {}

  /** Makes another owner of the image. */
  image
  share () const noexcept
  {
    return image (block::share ());
  }

  /**
   * Gets the image, as OpenCL's functions take it. The image is valid as long as the block is in
   * use.
   */
  cl_mem
  handle () const noexcept
  {
    return tarn_opencl_block_get_image (get ());
  }

  /** Sets the queue that uses the block last, as block::set_last_queue() does. */
  void
  set_last_queue (cl_command_queue queue) noexcept
  {
    block::set_last_queue (queue);
  }
};

/**
 * The owner of a reference to a pool of images.
 *
 * @since 0.1
 */
class image_pool : public detail::counted<TarnOpenclImagePool, tarn_opencl_image_pool_ref,
                                          tarn_opencl_image_pool_unref>
{
public:
  using counted::counted;

  /**
   * Makes a pool of images: tarn_opencl_image_pool_new(). Without a pool of buffers the images
   * have a limit of their own.
   */
  static result<image_pool>
  try_make (cl_command_queue queue, const tarn::pool &buffers = tarn::pool (),
            const TarnPoolOptions &options = pool_options ()) noexcept
  {
    detail::error_slot error;

    return error.owner_of<image_pool> (
        tarn_opencl_image_pool_new (queue, buffers.get (), &options, error.out ()));
  }

  /**
   * Allocates an image from a pool: tarn_opencl_image_pool_allocate(). Without a queue, commands
   * of any queue may use the image.
   */
  result<image>
  try_allocate (const cl_image_format &format, const cl_image_desc &desc,
                cl_command_queue queue = nullptr, cl_mem_flags flags = 0) const noexcept
  {
    detail::error_slot error;

    return error.owner_of<image> (
        tarn_opencl_image_pool_allocate (get (), flags, &format, &desc, queue, error.out ()));
  }

#if TARN_HAS_EXCEPTIONS
  /** Calls try_make(), and throws its error. */
  explicit image_pool (cl_command_queue queue, const tarn::pool &buffers = tarn::pool (),
                       const TarnPoolOptions &options = pool_options ())
      : image_pool (try_make (queue, buffers, options).value ())
  {
  }

  /** Calls try_allocate(), and throws its error. */
  image
  allocate (const cl_image_format &format, const cl_image_desc &desc,
            cl_command_queue queue = nullptr, cl_mem_flags flags = 0) const
  {
    return try_allocate (format, desc, queue, flags).value ();
  }
#endif

  /**
   * Gets the pool behind a pool of images: tarn_opencl_image_pool_get_pool(). Use it for counters,
   * limits and trimming.
   */
  tarn::pool
  pool () const noexcept
  {
    return tarn::pool::share (tarn_opencl_image_pool_get_pool (get ()));
  }
};

/**
 * The owner of a block that has shared virtual memory.
 *
 * @since 0.1
 */
class svm : public block
{
public:
  using block::block;

  /** Takes over a block of an allocator of shared virtual memory, or of a pool over one. */
  explicit svm (block &&other) noexcept : block (std::move (other)) {}

  /** Makes another owner of the memory. */
  svm
  share () const noexcept
  {
    return svm (block::share ());
  }

  /** Gets the address, as clSetKernelArgSVMPointer() takes it. */
  void *
  data () const noexcept
  {
    return tarn_opencl_block_get_svm (get ());
  }

  /** Sets the queue that uses the block last, as block::set_last_queue() does. */
  void
  set_last_queue (cl_command_queue queue) noexcept
  {
    block::set_last_queue (queue);
  }
};

/**
 * The owner of a reference to a pool of shared virtual memory.
 *
 * @since 0.1
 */
class svm_pool : public tarn::pool
{
public:
  using tarn::pool::pool;

  /** Takes over a reference to a pool over an allocator of shared virtual memory. */
  explicit svm_pool (tarn::pool other) noexcept : tarn::pool (std::move (other)) {}

  /** Adds a reference to the pool, and makes an owner of this reference. */
  static svm_pool
  share (TarnPool *borrowed) noexcept
  {
    return svm_pool (ref (borrowed));
  }

  /** Makes a pool over a heap over tarn_opencl_svm_allocator_new(). */
  static result<svm_pool>
  try_make (cl_context context, cl_bitfield flags = 0, cl_command_queue queue = nullptr,
            const TarnPoolOptions &options = pool_options ()) noexcept
  {
    return detail::pool_over_heap<svm_pool> (try_make_svm_allocator (context, 0, flags, queue),
                                             options);
  }

  /** Allocates a block, as tarn::pool::try_allocate() does. */
  result<svm>
  try_allocate (std::size_t size, cl_command_queue queue = nullptr) const noexcept
  {
    return try_block<svm> (size, queue);
  }

  /** Allocates a block, and waits for memory, as tarn::pool::try_allocate_timeout() does. */
  result<svm>
  try_allocate_timeout (std::size_t size, std::int64_t microseconds,
                        cl_command_queue queue = nullptr) const noexcept
  {
    return try_block_timeout<svm> (size, microseconds, queue);
  }

#if TARN_HAS_EXCEPTIONS
  /** Calls try_make(), and throws its error. */
  explicit svm_pool (cl_context context, cl_bitfield flags = 0, cl_command_queue queue = nullptr,
                     const TarnPoolOptions &options = pool_options ())
      : svm_pool (try_make (context, flags, queue, options).value ())
  {
  }

  /** Calls try_allocate(), and throws its error. */
  svm
  allocate (std::size_t size, cl_command_queue queue = nullptr) const
  {
    return try_allocate (size, queue).value ();
  }

  /** Calls try_allocate_timeout(), and throws its error. */
  svm
  allocate_timeout (std::size_t size, std::int64_t microseconds,
                    cl_command_queue queue = nullptr) const
  {
    return try_allocate_timeout (size, microseconds, queue).value ();
  }
#endif
};

} // namespace tarn::opencl

#endif
