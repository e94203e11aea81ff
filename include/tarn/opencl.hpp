/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * libtarn-opencl for C++17: owners of buffers and of shared virtual memory, and pools of them. It
 * is a header alone, over <tarn/opencl.h>, whose documentation holds here, too; <tarn/tarn.hpp>
 * says how errors are told.
 */

#ifndef TARN_OPENCL_HPP
#define TARN_OPENCL_HPP

#include <tarn/opencl.h>
#include <tarn/tarn.hpp>

namespace tarn::opencl
{

/** tarn_opencl_deferred_allocator_new(). */
inline result<allocator>
try_make_deferred_allocator (cl_context context, cl_mem_flags flags = 0) noexcept
{
  detail::error_slot error;

  return error.owner_of<allocator> (
      tarn_opencl_deferred_allocator_new (context, flags, error.out ()));
}

/** tarn_opencl_immediate_allocator_new(). */
inline result<allocator>
try_make_immediate_allocator (cl_command_queue queue, cl_mem_flags flags = 0) noexcept
{
  detail::error_slot error;

  return error.owner_of<allocator> (
      tarn_opencl_immediate_allocator_new (queue, flags, error.out ()));
}

/** tarn_opencl_svm_allocator_new(). */
inline result<allocator>
try_make_svm_allocator (cl_context context, cl_uint alignment = 0, cl_bitfield flags = 0,
                        cl_command_queue queue = nullptr) noexcept
{
  detail::error_slot error;

  return error.owner_of<allocator> (
      tarn_opencl_svm_allocator_new (context, alignment, flags, queue, error.out ()));
}

#if TARN_HAS_EXCEPTIONS
/** try_make_deferred_allocator(), or throws. */
inline allocator
make_deferred_allocator (cl_context context, cl_mem_flags flags = 0)
{
  return try_make_deferred_allocator (context, flags).value ();
}

/** try_make_immediate_allocator(), or throws. */
inline allocator
make_immediate_allocator (cl_command_queue queue, cl_mem_flags flags = 0)
{
  return try_make_immediate_allocator (queue, flags).value ();
}

/** try_make_svm_allocator(), or throws. */
inline allocator
make_svm_allocator (cl_context context, cl_uint alignment = 0, cl_bitfield flags = 0,
                    cl_command_queue queue = nullptr)
{
  return try_make_svm_allocator (context, alignment, flags, queue).value ();
}
#endif

/** The owner of a block that is a buffer. */
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

  /** block::free_on() for a queue of OpenCL's. */
  void
  free_on (cl_command_queue queue) noexcept
  {
    block::free_on (queue);
  }

  /**
   * tarn_opencl_block_create_sub_buffer(): @p size bytes of the buffer from @p origin on.
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
  /** try_create_sub_buffer(), or throws. */
  cl_mem
  create_sub_buffer (std::size_t origin, std::size_t size, cl_mem_flags flags = 0) const
  {
    return try_create_sub_buffer (origin, size, flags).value ();
  }
#endif
};

/** A reference on a pool of buffers. */
class pool : public tarn::pool
{
public:
  using tarn::pool::pool;

  /** A pool over an allocator of buffers. */
  explicit pool (tarn::pool other) noexcept : tarn::pool (std::move (other)) {}

  /** tarn_opencl_pool_new(). */
  static result<pool>
  try_make (cl_command_queue queue, cl_mem_flags flags = 0,
            const TarnPoolOptions &options = pool_options ()) noexcept
  {
    detail::error_slot error;

    return error.owner_of<pool> (tarn_opencl_pool_new (queue, flags, &options, error.out ()));
  }

  /** tarn_opencl_pool_new_for_device(). */
  static result<pool>
  try_make (cl_context context, cl_device_id device, cl_mem_flags flags = 0,
            const TarnPoolOptions &options = pool_options ()) noexcept
  {
    detail::error_slot error;

    return error.owner_of<pool> (
        tarn_opencl_pool_new_for_device (context, device, flags, &options, error.out ()));
  }

  /** tarn_pool_allocate(): the buffer is for commands of any queue. */
  result<buffer>
  try_allocate (std::size_t size) const noexcept
  {
    return try_block<buffer> (size, nullptr);
  }

  /** tarn_opencl_pool_allocate(): the buffer is for commands of one queue. */
  result<buffer>
  try_allocate (std::size_t size, cl_command_queue queue) const noexcept
  {
    detail::error_slot error;

    return error.owner_of<buffer> (tarn_opencl_pool_allocate (get (), size, queue, error.out ()));
  }

  /** tarn_pool_allocate_aligned(). */
  result<buffer>
  try_allocate_aligned (std::size_t size, std::size_t alignment,
                        cl_command_queue queue = nullptr) const noexcept
  {
    detail::error_slot error;

    return error.owner_of<buffer> (
        tarn_pool_allocate_aligned (get (), size, alignment, queue, error.out ()));
  }

  /** tarn_opencl_pool_allocate_copy(): a buffer with a copy of host memory. */
  result<buffer>
  try_allocate_copy (const void *bytes, std::size_t size, cl_command_queue queue) const noexcept
  {
    detail::error_slot error;

    return error.owner_of<buffer> (
        tarn_opencl_pool_allocate_copy (get (), bytes, size, queue, error.out ()));
  }

#if TARN_HAS_EXCEPTIONS
  /** tarn_opencl_pool_new(), or throws. */
  explicit pool (cl_command_queue queue, cl_mem_flags flags = 0,
                 const TarnPoolOptions &options = pool_options ())
      : pool (try_make (queue, flags, options).value ())
  {
  }

  /** tarn_opencl_pool_new_for_device(), or throws. */
  pool (cl_context context, cl_device_id device, cl_mem_flags flags = 0,
        const TarnPoolOptions &options = pool_options ())
      : pool (try_make (context, device, flags, options).value ())
  {
  }

  /** try_allocate(), or throws. */
  buffer
  allocate (std::size_t size) const
  {
    return try_allocate (size).value ();
  }

  /** try_allocate(), or throws. */
  buffer
  allocate (std::size_t size, cl_command_queue queue) const
  {
    return try_allocate (size, queue).value ();
  }

  /** try_allocate_aligned(), or throws. */
  buffer
  allocate_aligned (std::size_t size, std::size_t alignment, cl_command_queue queue = nullptr) const
  {
    return try_allocate_aligned (size, alignment, queue).value ();
  }

  /** try_allocate_copy(), or throws. */
  buffer
  allocate_copy (const void *bytes, std::size_t size, cl_command_queue queue) const
  {
    return try_allocate_copy (bytes, size, queue).value ();
  }
#endif

  /** tarn_opencl_pool_find(), of a pool with TARN_POOL_FINDABLE: (transfer none), or NULL. */
  TarnBlock *
  find (cl_mem buffer) const noexcept
  {
    return tarn_opencl_pool_find (get (), buffer);
  }
};

/** The owner of a block that is an image. */
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

  /** block::free_on() for a queue of OpenCL's. */
  void
  free_on (cl_command_queue queue) noexcept
  {
    block::free_on (queue);
  }
};

/** A reference on a pool of images. */
class image_pool : public detail::counted<TarnOpenclImagePool, tarn_opencl_image_pool_ref,
                                          tarn_opencl_image_pool_unref>
{
public:
  using counted::counted;

  /** tarn_opencl_image_pool_new(); without a pool of buffers the images have a limit of their own.
   */
  static result<image_pool>
  try_make (cl_command_queue queue, const tarn::pool &buffers = tarn::pool (),
            const TarnPoolOptions &options = pool_options ()) noexcept
  {
    detail::error_slot error;

    return error.owner_of<image_pool> (
        tarn_opencl_image_pool_new (queue, buffers.get (), &options, error.out ()));
  }

  /** tarn_opencl_image_pool_allocate(); without a queue the image is for commands of any. */
  result<image>
  try_allocate (const cl_image_format &format, const cl_image_desc &desc,
                cl_command_queue queue = nullptr, cl_mem_flags flags = 0) const noexcept
  {
    detail::error_slot error;

    return error.owner_of<image> (
        tarn_opencl_image_pool_allocate (get (), flags, &format, &desc, queue, error.out ()));
  }

#if TARN_HAS_EXCEPTIONS
  /** try_make(), or throws. */
  explicit image_pool (cl_command_queue queue, const tarn::pool &buffers = tarn::pool (),
                       const TarnPoolOptions &options = pool_options ())
      : image_pool (try_make (queue, buffers, options).value ())
  {
  }

  /** try_allocate(), or throws. */
  image
  allocate (const cl_image_format &format, const cl_image_desc &desc,
            cl_command_queue queue = nullptr, cl_mem_flags flags = 0) const
  {
    return try_allocate (format, desc, queue, flags).value ();
  }
#endif

  /** tarn_opencl_image_pool_get_pool(): for its counters, limit, and what it holds. */
  tarn::pool
  pool () const noexcept
  {
    return tarn::pool::share (tarn_opencl_image_pool_get_pool (get ()));
  }
};

/** The owner of a block that is shared virtual memory. */
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

  /** block::free_on() for a queue of OpenCL's. */
  void
  free_on (cl_command_queue queue) noexcept
  {
    block::free_on (queue);
  }
};

/** A reference on a pool of shared virtual memory. */
class svm_pool : public tarn::pool
{
public:
  using tarn::pool::pool;

  /** A pool over an allocator of shared virtual memory. */
  explicit svm_pool (tarn::pool other) noexcept : tarn::pool (std::move (other)) {}

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

#if TARN_HAS_EXCEPTIONS
  /** try_make(), or throws. */
  explicit svm_pool (cl_context context, cl_bitfield flags = 0, cl_command_queue queue = nullptr,
                     const TarnPoolOptions &options = pool_options ())
      : svm_pool (try_make (context, flags, queue, options).value ())
  {
  }

  /** try_allocate(), or throws. */
  svm
  allocate (std::size_t size, cl_command_queue queue = nullptr) const
  {
    return try_allocate (size, queue).value ();
  }
#endif
};

} // namespace tarn::opencl

#endif
