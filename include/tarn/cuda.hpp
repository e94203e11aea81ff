/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * libtarn-cuda for C++17: owners of device memory, page-locked memory and managed memory, and
 * pools of such memory. The header only wraps the functions of <tarn/cuda.h>; their documentation
 * also applies here. <tarn/tarn.hpp> documents how errors are reported. Like <tarn/cuda.h>, this
 * header does not need CUDA's toolkit.
 */

#ifndef TARN_CUDA_HPP
#define TARN_CUDA_HPP

#include <tarn/cuda.h>
#include <tarn/tarn.hpp>

/** C++17 owners for <tarn/cuda.h>. */
namespace tarn::cuda
{

/**
 * TarnCudaDeviceOptions, which have their default values at first.
 *
 * @since 0.1
 */
struct device_options : TarnCudaDeviceOptions
{
  /** Sets the defaults: TARN_CUDA_DEVICE_OPTIONS_INIT. */
  device_options () noexcept : TarnCudaDeviceOptions TARN_CUDA_DEVICE_OPTIONS_INIT {}
};

/**
 * The owner of a context from tarn_cuda_make_default_context(). It can be moved.
 *
 * @since 0.1
 */
class default_context
{
public:
  /** Owns nothing. */
  default_context () noexcept = default;

  /** Takes over the context of another owner, which owns nothing afterwards. */
  default_context (default_context &&other) noexcept
      : m_context (std::exchange (other.m_context, nullptr)),
        m_device (other.m_device)
  {
  }

  /** Releases the context, if there is one, and takes over the context of another owner. */
  default_context &
  operator= (default_context &&other) noexcept
  {
    default_context moved (std::move (other));

    std::swap (m_context, moved.m_context);
    std::swap (m_device, moved.m_device);
    return *this;
  }

  /** Releases the context: tarn_cuda_context_release(). */
  ~default_context ()
  {
    if (m_context != nullptr)
      tarn_cuda_context_release (m_context);
  }

  /**
   * Makes the default device's primary context current in this thread:
   * tarn_cuda_make_default_context().
   */
  static result<default_context>
  try_make () noexcept
  {
    detail::error_slot error;
    default_context made;

    made.m_context = tarn_cuda_make_default_context (&made.m_device, error.out ());
    if (made.m_context == nullptr)
      return error.take ();
    return made;
  }

#if TARN_HAS_EXCEPTIONS
  /** Calls try_make(), and throws its error. */
  static default_context
  make ()
  {
    return try_make ().value ();
  }
#endif

  /** Gets the context. */
  CUcontext
  get () const noexcept
  {
    return m_context;
  }

  /** Gets the device of the context. */
  CUdevice
  device () const noexcept
  {
    return m_device;
  }

private:
  CUcontext m_context = nullptr;
  CUdevice m_device = 0;
};

/**
 * Makes an allocator of device memory with options: tarn_cuda_device_allocator_new_with_options().
 * NULL: the current context.
 *
 * @since 0.1
 */
inline result<allocator>
try_make_device_allocator (CUcontext context = nullptr,
                           const TarnCudaDeviceOptions &options = device_options ()) noexcept
{
  detail::error_slot error;

  return error.owner_of<allocator> (
      tarn_cuda_device_allocator_new_with_options (context, &options, error.out ()));
}

/**
 * Makes an allocator of page-locked host memory (cuMemHostAlloc): tarn_cuda_host_allocator_new().
 * NULL: the current context.
 *
 * @since 0.1
 */
inline result<allocator>
try_make_host_allocator (CUcontext context = nullptr, unsigned flags = 0) noexcept
{
  detail::error_slot error;

  return error.owner_of<allocator> (tarn_cuda_host_allocator_new (context, flags, error.out ()));
}

/**
 * Makes an allocator of managed memory (cuMemAllocManaged): tarn_cuda_managed_allocator_new().
 *
 * @since 0.1
 */
inline result<allocator>
try_make_managed_allocator (CUcontext context = nullptr, unsigned flags = 0) noexcept
{
  detail::error_slot error;

  return error.owner_of<allocator> (tarn_cuda_managed_allocator_new (context, flags, error.out ()));
}

/**
 * Makes an allocator of memory from CUDA's own pools (cuMemAllocAsync):
 * tarn_cuda_async_allocator_new(). @p pool is a pool of CUDA's; NULL: the device's current one.
 *
 * @since 0.1
 */
inline result<allocator>
try_make_async_allocator (CUcontext context = nullptr, CUmemoryPool pool = nullptr) noexcept
{
  detail::error_slot error;

  return error.owner_of<allocator> (tarn_cuda_async_allocator_new (context, pool, error.out ()));
}

#if TARN_HAS_EXCEPTIONS
/**
 * Calls try_make_device_allocator(), and throws its error.
 *
 * @since 0.1
 */
inline allocator
make_device_allocator (CUcontext context = nullptr,
                       const TarnCudaDeviceOptions &options = device_options ())
{
  return try_make_device_allocator (context, options).value ();
}

/**
 * Calls try_make_host_allocator(), and throws its error.
 *
 * @since 0.1
 */
inline allocator
make_host_allocator (CUcontext context = nullptr, unsigned flags = 0)
{
  return try_make_host_allocator (context, flags).value ();
}

/**
 * Calls try_make_managed_allocator(), and throws its error.
 *
 * @since 0.1
 */
inline allocator
make_managed_allocator (CUcontext context = nullptr, unsigned flags = 0)
{
  return try_make_managed_allocator (context, flags).value ();
}

/**
 * Calls try_make_async_allocator(), and throws its error.
 *
 * @since 0.1
 */
inline allocator
make_async_allocator (CUcontext context = nullptr, CUmemoryPool pool = nullptr)
{
  return try_make_async_allocator (context, pool).value ();
}
#endif

/**
 * The owner of a block of CUDA's memory of any kind. For its functions, NULL is the default stream.
 *
 * @since 0.1
 */
class stream_block : public block
{
public:
  using block::block;

  /** Takes over a block of one of libtarn-cuda's allocators, or of a pool over one. */
  explicit stream_block (block &&other) noexcept : block (std::move (other)) {}

  /**
   * Sets the stream that uses the block last, as block::set_last_queue() does. CU_STREAM_PER_THREAD
   * means the default stream of the thread that frees the block.
   */
  void
  set_last_queue (CUstream stream) noexcept
  {
    set_free_on ([] (TarnBlock *freed, void *last)
                     noexcept { tarn_cuda_block_free_on (freed, static_cast<CUstream> (last)); },
                 stream);
  }

  /** Records that commands on a stream use a block: tarn_cuda_block_record_use(). */
  result<void>
  try_record_use (CUstream stream) noexcept
  {
    detail::error_slot error;

    return error.success_if (tarn_cuda_block_record_use (get (), stream, error.out ()));
  }

  /** Moves a block to one stream, which waits for the others: tarn_cuda_block_move_to_stream(). */
  result<void>
  try_move_to (CUstream stream) noexcept
  {
    detail::error_slot error;

    return error.success_if (tarn_cuda_block_move_to_stream (get (), stream, error.out ()));
  }

#if TARN_HAS_EXCEPTIONS
  /** Calls try_record_use(), and throws its error. */
  void
  record_use (CUstream stream)
  {
    try_record_use (stream).value ();
  }

  /** Calls try_move_to(), and throws its error. */
  void
  move_to (CUstream stream)
  {
    try_move_to (stream).value ();
  }
#endif
};

/**
 * The owner of a block of device memory.
 *
 * @since 0.1
 */
class memory : public stream_block
{
public:
  using stream_block::stream_block;

  /** Makes another owner of the memory. */
  memory
  share () const noexcept
  {
    return memory (block::share ());
  }

  /** Gets the address, as the driver's functions take it. */
  CUdeviceptr
  address () const noexcept
  {
    return tarn_cuda_block_get_device_pointer (get ());
  }
};

/**
 * The owner of a block of page-locked or managed memory.
 *
 * @since 0.1
 */
class host_memory : public stream_block
{
public:
  using stream_block::stream_block;

  /** Makes another owner of the memory. */
  host_memory
  share () const noexcept
  {
    return host_memory (block::share ());
  }

  /** Gets the host address. */
  void *
  data () const noexcept
  {
    return tarn_cuda_block_get_host_pointer (get ());
  }
};

/**
 * The base of pools of CUDA's memory.
 *
 * @tparam Block  memory or host_memory
 *
 * @since 0.1
 */
template <typename Block> class stream_pool : public tarn::pool
{
public:
  using tarn::pool::pool;

  /** Allocates a block from a pool, without naming a stream: tarn_pool_allocate(). */
  result<Block>
  try_allocate (std::size_t size) const noexcept
  {
    return try_block<Block> (size, nullptr);
  }

  /**
   * Allocates a block from a pool, for use on a stream: tarn_cuda_pool_allocate(). NULL: the
   * default stream.
   */
  result<Block>
  try_allocate (std::size_t size, CUstream stream) const noexcept
  {
    detail::error_slot error;

    return error.owner_of<Block> (tarn_cuda_pool_allocate (get (), size, stream, error.out ()));
  }

  /**
   * Allocates a block whose memory is aligned: tarn_pool_allocate_aligned(). The memory is for any
   * stream.
   */
  result<Block>
  try_allocate_aligned (std::size_t size, std::size_t alignment) const noexcept
  {
    detail::error_slot error;

    return error.owner_of<Block> (
        tarn_pool_allocate_aligned (get (), size, alignment, nullptr, error.out ()));
  }

  /**
   * Allocates a block, and waits until other threads have freed enough:
   * tarn_pool_allocate_timeout(). The request names no stream.
   */
  result<Block>
  try_allocate_timeout (std::size_t size, std::int64_t microseconds) const noexcept
  {
    return try_block_timeout<Block> (size, microseconds, nullptr);
  }

  /**
   * Allocates a block for use on a stream, and waits until other threads have freed enough:
   * tarn_pool_allocate_timeout(). NULL: the default stream.
   */
  result<Block>
  try_allocate_timeout (std::size_t size, std::int64_t microseconds, CUstream stream) const noexcept
  {
    return try_block_timeout<Block> (size, microseconds, tarn_cuda_stream_get_queue (stream));
  }

  /** Frees the block in use that has a given address: tarn_pool_free_memory(). */
  result<void>
  try_free_memory (TarnMemory memory) const noexcept
  {
    return tarn::pool::try_free_memory (memory);
  }

  /**
   * Frees the block in use that has a given address, and that a stream may still use:
   * tarn_pool_free_memory(). NULL: the default stream.
   */
  result<void>
  try_free_memory (TarnMemory memory, CUstream stream) const noexcept
  {
    return tarn::pool::try_free_memory (memory, tarn_cuda_stream_get_queue (stream));
  }

  /** Reserves memory in a pool for requests that name no stream: tarn_pool_reserve(). */
  result<void>
  try_reserve (std::size_t bytes) const noexcept
  {
    return tarn::pool::try_reserve (bytes);
  }

  /** Reserves memory for a stream: tarn_pool_reserve(). NULL: the default stream. */
  result<void>
  try_reserve (std::size_t bytes, CUstream stream) const noexcept
  {
    return tarn::pool::try_reserve (bytes, tarn_cuda_stream_get_queue (stream));
  }

  /**
   * Tells a pool that a stream will be destroyed before it is idle:
   * tarn_cuda_pool_forget_stream().
   */
  result<void>
  try_forget_stream (CUstream stream) const noexcept
  {
    detail::error_slot error;

    return error.success_if (tarn_cuda_pool_forget_stream (get (), stream, error.out ()));
  }

#if TARN_HAS_EXCEPTIONS
  /** Calls try_allocate(), and throws its error. */
  Block
  allocate (std::size_t size) const
  {
    return try_allocate (size).value ();
  }

  /** Calls try_allocate(), and throws its error. */
  Block
  allocate (std::size_t size, CUstream stream) const
  {
    return try_allocate (size, stream).value ();
  }

  /** Calls try_allocate_aligned(), and throws its error. */
  Block
  allocate_aligned (std::size_t size, std::size_t alignment) const
  {
    return try_allocate_aligned (size, alignment).value ();
  }

  /** Calls try_allocate_timeout(), and throws its error. */
  Block
  allocate_timeout (std::size_t size, std::int64_t microseconds) const
  {
    return try_allocate_timeout (size, microseconds).value ();
  }

  /** Calls try_allocate_timeout(), and throws its error. */
  Block
  allocate_timeout (std::size_t size, std::int64_t microseconds, CUstream stream) const
  {
    return try_allocate_timeout (size, microseconds, stream).value ();
  }

  /** Calls try_free_memory(), and throws its error. */
  void
  free_memory (TarnMemory memory) const
  {
    try_free_memory (memory).value ();
  }

  /** Calls try_free_memory(), and throws its error. */
  void
  free_memory (TarnMemory memory, CUstream stream) const
  {
    try_free_memory (memory, stream).value ();
  }

  /** Calls try_reserve(), and throws its error. */
  void
  reserve (std::size_t bytes) const
  {
    try_reserve (bytes).value ();
  }

  /** Calls try_reserve(), and throws its error. */
  void
  reserve (std::size_t bytes, CUstream stream) const
  {
    try_reserve (bytes, stream).value ();
  }

  /** Calls try_forget_stream(), and throws its error. */
  void
  forget_stream (CUstream stream) const
  {
    try_forget_stream (stream).value ();
  }
#endif
};

/**
 * The owner of a graph's memory. Its destructor returns the memory to the pool, and waits as
 * tarn_cuda_pool_release_graph() does. The owner can be moved. It must live until the last launch
 * of the graph.
 *
 * @since 0.1
 */
class graph_memory
{
public:
  /** Owns nothing. */
  graph_memory () noexcept = default;

  /** Takes over the graph of another owner, which owns no graph afterwards. */
  graph_memory (graph_memory &&other) noexcept : m_pool (std::move (other.m_pool)),
                                                 m_graph (std::exchange (other.m_graph, 0))
  {
  }

  /**
   * Releases the graph's memory, if there is a graph, and takes over the graph of another owner.
   */
  graph_memory &
  operator= (graph_memory &&other) noexcept
  {
    graph_memory moved (std::move (other));

    m_pool.swap (moved.m_pool);
    std::swap (m_graph, moved.m_graph);
    return *this;
  }

  /**
   * Returns the graph's memory to its pool: tarn_cuda_pool_release_graph(). If this fails, the
   * destructor logs a warning.
   */
  ~graph_memory ()
  {
    detail::error_slot error;

    if (m_graph != 0 && !tarn_cuda_pool_release_graph (m_pool.get (), m_graph, error.out ()))
      g_warning ("Tarn: %s", error.take ().what ());
  }

  /**
   * Begins the memory of a CUDA graph that a stream captures: tarn_cuda_pool_begin_graph(). Call
   * this right before or right after the beginning of the capture.
   */
  static result<graph_memory>
  try_begin (const tarn::pool &pool, CUstream stream) noexcept
  {
    detail::error_slot error;
    graph_memory made;

    made.m_pool = pool;
    if (!tarn_cuda_pool_begin_graph (pool.get (), stream, &made.m_graph, error.out ()))
      return error.take ();
    return made;
  }

  /**
   * Ends the memory of a CUDA graph that was captured: tarn_cuda_pool_end_graph(). Call it after
   * cuStreamEndCapture(), also if the capture failed.
   */
  result<void>
  try_end () noexcept
  {
    detail::error_slot error;

    return error.success_if (tarn_cuda_pool_end_graph (m_pool.get (), m_graph, error.out ()));
  }

#if TARN_HAS_EXCEPTIONS
  /** Calls try_begin(), and throws its error. */
  static graph_memory
  begin (const tarn::pool &pool, CUstream stream)
  {
    return try_begin (pool, stream).value ();
  }

  /** Calls try_end(), and throws its error. */
  void
  end ()
  {
    try_end ().value ();
  }
#endif

  /** Gets the graph's number, for functions of C; 0: this object owns no graph. */
  std::uint64_t
  id () const noexcept
  {
    return m_graph;
  }

private:
  tarn::pool m_pool;
  guint64 m_graph = 0;
};

/**
 * The owner of a reference to a pool of device memory.
 *
 * @since 0.1
 */
class pool : public stream_pool<memory>
{
public:
  using stream_pool::stream_pool;

  /** Takes over a reference to a pool over an allocator of device memory. */
  explicit pool (tarn::pool other) noexcept : stream_pool (other.release ()) {}

  /** Adds a reference to the pool, and makes an owner of this reference. */
  static pool
  share (TarnPool *borrowed) noexcept
  {
    return pool (ref (borrowed));
  }

  /**
   * Makes a pool of device memory with the defaults for most programs: tarn_cuda_pool_new(). NULL:
   * the current context.
   */
  static result<pool>
  try_make (CUcontext context = nullptr, const TarnPoolOptions &options = pool_options ()) noexcept
  {
    detail::error_slot error;

    return error.owner_of<pool> (tarn_cuda_pool_new (context, &options, error.out ()));
  }

  /** Gets the pool of a device that the whole process shares: tarn_cuda_get_shared_pool(). */
  static result<pool>
  try_get_shared (CUdevice device) noexcept
  {
    detail::error_slot error;

    return error.owner_of<pool> (tarn_cuda_get_shared_pool (device, error.out ()));
  }

#if TARN_HAS_EXCEPTIONS
  /**
   * Makes a pool of device memory with the defaults for most programs: tarn_cuda_pool_new(). NULL:
   * the current context. The constructor throws the error.
   */
  explicit pool (CUcontext context, const TarnPoolOptions &options = pool_options ())
      : pool (try_make (context, options).value ())
  {
  }

  /** Calls try_get_shared(), and throws its error. */
  static pool
  get_shared (CUdevice device)
  {
    return try_get_shared (device).value ();
  }

  /** Makes a pool in the current context, as pool (CUcontext, const TarnPoolOptions &) does. */
  explicit pool (std::nullptr_t, const TarnPoolOptions &options = pool_options ())
      : pool (CUcontext (nullptr), options)
  {
  }
#endif

  /**
   * Finds the block in use that has an address of device memory: tarn_cuda_pool_find(). The pool
   * has TARN_POOL_FINDABLE.
   *
   * @return (transfer none): the block, or NULL
   */
  TarnBlock *
  find (CUdeviceptr address) const noexcept
  {
    return tarn_cuda_pool_find (get (), address);
  }
};

/**
 * The owner of a reference to a pool of page-locked or managed memory.
 *
 * @since 0.1
 */
class host_pool : public stream_pool<host_memory>
{
public:
  using stream_pool::stream_pool;

  /** Takes over a reference to a pool over an allocator of page-locked or managed memory. */
  explicit host_pool (tarn::pool other) noexcept : stream_pool (other.release ()) {}

  /** Adds a reference to the pool, and makes an owner of this reference. */
  static host_pool
  share (TarnPool *borrowed) noexcept
  {
    return host_pool (ref (borrowed));
  }

  /** Makes a pool over a heap over tarn_cuda_host_allocator_new(). NULL: the current context. */
  static result<host_pool>
  try_make (CUcontext context = nullptr, unsigned flags = 0,
            const TarnPoolOptions &options = pool_options ()) noexcept
  {
    return detail::pool_over_heap<host_pool> (try_make_host_allocator (context, flags), options);
  }

  /** Makes a pool over a heap over tarn_cuda_managed_allocator_new(). NULL: the current context. */
  static result<host_pool>
  try_make_managed (CUcontext context = nullptr, unsigned flags = 0,
                    const TarnPoolOptions &options = pool_options ()) noexcept
  {
    return detail::pool_over_heap<host_pool> (try_make_managed_allocator (context, flags), options);
  }

#if TARN_HAS_EXCEPTIONS
  /** Calls try_make(), and throws its error. */
  explicit host_pool (CUcontext context, unsigned flags = 0,
                      const TarnPoolOptions &options = pool_options ())
      : host_pool (try_make (context, flags, options).value ())
  {
  }

  /** Calls try_make_managed(), and throws its error. */
  static host_pool
  make_managed (CUcontext context = nullptr, unsigned flags = 0,
                const TarnPoolOptions &options = pool_options ())
  {
    return try_make_managed (context, flags, options).value ();
  }

  /** Makes a pool in the current context, as the constructor with a CUcontext does. */
  explicit host_pool (std::nullptr_t, unsigned flags = 0,
                      const TarnPoolOptions &options = pool_options ())
      : host_pool (CUcontext (nullptr), flags, options)
  {
  }
#endif
};

} // namespace tarn::cuda

/** @cond */
namespace tarn::detail
{

/* Frees the block that has the given memory, and that a stream may still use. */
inline void
free_on_stream (const pool &pool, TarnMemory memory, CUstream stream) noexcept
{
  TarnBlock *found = tarn_pool_find (pool.get (), memory);

  if (found != nullptr)
    tarn_cuda_block_free_on (found, stream);
  else
    /* logs that there is no such block; in a child of fork (), does nothing */
    free_memory (pool, memory);
}

} // namespace tarn::detail
/** @endcond */

#endif
