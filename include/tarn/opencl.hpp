/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * libtarn-opencl for C++17: owners of buffers, images and shared virtual memory, and pools of them.
 * The header only wraps the functions of <tarn/opencl.h>; their documentation also applies here.
 * <tarn/tarn.hpp> documents how errors are reported.
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
 * As try_make_deferred_allocator(), but throws the error.
 *
 * @since 0.1
 */
inline allocator
make_deferred_allocator (cl_context context, cl_mem_flags flags = 0)
{
  return try_make_deferred_allocator (context, flags).value ();
}

/**
 * As try_make_immediate_allocator(), but throws the error.
 *
 * @since 0.1
 */
inline allocator
make_immediate_allocator (cl_command_queue queue, cl_mem_flags flags = 0)
{
  return try_make_immediate_allocator (queue, flags).value ();
}

/**
 * As try_make_svm_allocator(), but throws the error.
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
 * The owner of a block that is a buffer.
 *
 * @since 0.1
 */
class buffer : public block
{
public:
  using block::block;

  /** A block of an allocator of buffers, or of a pool over one. */
  explicit buffer (block &&other) noexcept : block (std::move (other)) {}

  /** Another owner of the buffer. */
  buffer
  share () const noexcept
  {
    return buffer (block::share ());
  }

  /** The buffer, as OpenCL's functions take it. It is valid as long as the block is in use. */
  cl_mem
  handle () const noexcept
  {
    return tarn_opencl_block_get_buffer (get ());
  }

  /** block::set_last_queue() for a queue of OpenCL's. */
  void
  set_last_queue (cl_command_queue queue) noexcept
  {
    block::set_last_queue (queue);
  }

  /**
   * Makes a cl_mem of a part of a block: tarn_opencl_block_create_sub_buffer().
   *
   * @param origin  its first byte: a multiple of CL_DEVICE_MEM_BASE_ADDR_ALIGN, which is in bits
   * @param size    bytes
   * @param flags for clCreateSubBuffer; 0: the buffer's
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
  /** As try_create_sub_buffer(), but throws the error. */
  cl_mem
  create_sub_buffer (std::size_t origin, std::size_t size, cl_mem_flags flags = 0) const
  {
    return try_create_sub_buffer (origin, size, flags).value ();
  }
#endif
};

/**
 * A reference on a pool of buffers.
 *
 * @since 0.1
 */
class pool : public tarn::pool
{
public:
  using tarn::pool::pool;

  /** A pool over an allocator of buffers. */
  explicit pool (tarn::pool other) noexcept : tarn::pool (std::move (other)) {}

  /** Takes a reference of its own. */
  static pool
  share (TarnPool *borrowed) noexcept
  {
    return pool (ref (borrowed));
  }

  /** Makes a pool of buffers as most programs want it: tarn_opencl_pool_new(). */
  static result<pool>
  try_make (cl_command_queue queue, cl_mem_flags flags = 0,
            const TarnPoolOptions &options = pool_options ()) noexcept
  {
    detail::error_slot error;

    return error.owner_of<pool> (tarn_opencl_pool_new (queue, flags, &options, error.out ()));
  }

  /**
   * Makes a pool for a device, without a queue of the program's:
   * tarn_opencl_pool_new_for_device().
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
   * Makes a pool of buffers as most programs want it: tarn_opencl_pool_new(). It throws the error.
   */
  explicit pool (cl_command_queue queue, cl_mem_flags flags = 0,
                 const TarnPoolOptions &options = pool_options ())
      : pool (try_make (queue, flags, options).value ())
  {
  }

  /**
   * Makes a pool for a device, without a queue of the program's:
   * tarn_opencl_pool_new_for_device(). It throws the error.
   */
  pool (cl_context context, cl_device_id device, cl_mem_flags flags = 0,
        const TarnPoolOptions &options = pool_options ())
      : pool (try_make (context, device, flags, options).value ())
  {
  }

  /** As try_allocate(), but throws the error. */
  buffer
  allocate (std::size_t size) const
  {
    return try_allocate (size).value ();
  }

  /** As try_allocate(), but throws the error. */
  buffer
  allocate (std::size_t size, cl_command_queue queue) const
  {
    return try_allocate (size, queue).value ();
  }

  /** As try_allocate_aligned(), but throws the error. */
  buffer
  allocate_aligned (std::size_t size, std::size_t alignment, cl_command_queue queue = nullptr) const
  {
    return try_allocate_aligned (size, alignment, queue).value ();
  }

  /** As try_allocate_timeout(), but throws the error. */
  buffer
  allocate_timeout (std::size_t size, std::int64_t microseconds,
                    cl_command_queue queue = nullptr) const
  {
    return try_allocate_timeout (size, microseconds, queue).value ();
  }

  /** As try_allocate_copy(), but throws the error. */
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
 * The owner of a block that is an image.
 *
 * @since 0.1
 */
class image : public block
{
public:
  using block::block;

  /** A block of a pool of images. */
  explicit image (block &&other) noexcept : block (std::move (other)) {}

  /** Another owner of the image. */
  image
  share () const noexcept
  {
    return image (block::share ());
  }

  /** The image, as OpenCL's functions take it. It is valid as long as the block is in use. */
  cl_mem
  handle () const noexcept
  {
    return tarn_opencl_block_get_image (get ());
  }

  /** block::set_last_queue() for a queue of OpenCL's. */
  void
  set_last_queue (cl_command_queue queue) noexcept
  {
    block::set_last_queue (queue);
  }
};

/**
 * A reference on a pool of images.
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
  /** As try_make(), but throws the error. */
  explicit image_pool (cl_command_queue queue, const tarn::pool &buffers = tarn::pool (),
                       const TarnPoolOptions &options = pool_options ())
      : image_pool (try_make (queue, buffers, options).value ())
  {
  }

  /** As try_allocate(), but throws the error. */
  image
  allocate (const cl_image_format &format, const cl_image_desc &desc,
            cl_command_queue queue = nullptr, cl_mem_flags flags = 0) const
  {
    return try_allocate (format, desc, queue, flags).value ();
  }
#endif

  /**
   * Gets the pool behind a pool of images: tarn_opencl_image_pool_get_pool(). It has the counters,
   * the limit, and the images that are held.
   */
  tarn::pool
  pool () const noexcept
  {
    return tarn::pool::share (tarn_opencl_image_pool_get_pool (get ()));
  }
};

/**
 * The owner of a block that is shared virtual memory.
 *
 * @since 0.1
 */
class svm : public block
{
public:
  using block::block;

  /** A block of an allocator of shared virtual memory, or of a pool over one. */
  explicit svm (block &&other) noexcept : block (std::move (other)) {}

  /** Another owner of the memory. */
  svm
  share () const noexcept
  {
    return svm (block::share ());
  }

  /** The address, as clSetKernelArgSVMPointer() takes it. */
  void *
  data () const noexcept
  {
    return tarn_opencl_block_get_svm (get ());
  }

  /** block::set_last_queue() for a queue of OpenCL's. */
  void
  set_last_queue (cl_command_queue queue) noexcept
  {
    block::set_last_queue (queue);
  }
};

/**
 * A reference on a pool of shared virtual memory.
 *
 * @since 0.1
 */
class svm_pool : public tarn::pool
{
public:
  using tarn::pool::pool;

  /** A pool over an allocator of shared virtual memory. */
  explicit svm_pool (tarn::pool other) noexcept : tarn::pool (std::move (other)) {}

  /** Takes a reference of its own. */
  static svm_pool
  share (TarnPool *borrowed) noexcept
  {
    return svm_pool (ref (borrowed));
  }

  /** A pool over a heap over tarn_opencl_svm_allocator_new(). */
  static result<svm_pool>
  try_make (cl_context context, cl_bitfield flags = 0, cl_command_queue queue = nullptr,
            const TarnPoolOptions &options = pool_options ()) noexcept
  {
    return detail::pool_over_heap<svm_pool> (try_make_svm_allocator (context, 0, flags, queue),
                                             options);
  }

  /** As tarn::pool::try_allocate(). */
  result<svm>
  try_allocate (std::size_t size, cl_command_queue queue = nullptr) const noexcept
  {
    return try_block<svm> (size, queue);
  }

  /** As tarn::pool::try_allocate_timeout(). */
  result<svm>
  try_allocate_timeout (std::size_t size, std::int64_t microseconds,
                        cl_command_queue queue = nullptr) const noexcept
  {
    return try_block_timeout<svm> (size, microseconds, queue);
  }

#if TARN_HAS_EXCEPTIONS
  /** As try_make(), but throws the error. */
  explicit svm_pool (cl_context context, cl_bitfield flags = 0, cl_command_queue queue = nullptr,
                     const TarnPoolOptions &options = pool_options ())
      : svm_pool (try_make (context, flags, queue, options).value ())
  {
  }

  /** As try_allocate(), but throws the error. */
  svm
  allocate (std::size_t size, cl_command_queue queue = nullptr) const
  {
    return try_allocate (size, queue).value ();
  }

  /** As try_allocate_timeout(), but throws the error. */
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
