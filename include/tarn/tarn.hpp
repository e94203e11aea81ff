/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * libtarn for C++17: owners of blocks, pools and allocators, and errors as exceptions. The header
 * only wraps the functions of <tarn/tarn.h>; their documentation also applies here.
 *
 * A function that can fail has two forms, such as allocate() and try_allocate(). allocate() throws
 * tarn::out_of_memory, a std::bad_alloc, if there is no memory, and tarn::error for any other
 * error. try_allocate() never throws, and returns a tarn::result. With -fno-exceptions only the
 * functions with try_ exist.
 *
 * - tarn/tarn.hpp: any driver
 * - tarn/opencl.hpp: OpenCL's buffers and shared virtual memory
 * - tarn/cuda.hpp: CUDA's device memory and page-locked memory
 * - tarn/memory-resource.hpp: containers of the standard library in memory that a device can use
 * - tarn/cuda-resource.hpp: a memory resource for libraries over NVIDIA's CCCL
 * - tarn/thrust.hpp: vectors of Thrust
 */

#ifndef TARN_TARN_HPP
#define TARN_TARN_HPP

#include <tarn/tarn.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <type_traits>
#include <utility>
#include <variant>

#if defined(__cpp_exceptions)
/**
 * 1 if the compiler has exceptions, so that this header has the functions that throw; otherwise 0.
 */
#define TARN_HAS_EXCEPTIONS 1
#else
#define TARN_HAS_EXCEPTIONS 0
#endif

/** C++17 owners and errors for <tarn/tarn.h>. */
namespace tarn
{

/**
 * An error of Tarn or of a driver: a class that owns a GError. It can be copied and thrown. After
 * its contents were moved to another object, what() is empty.
 *
 * @since 0.1
 */
class error : public std::exception
{
public:
  /** Takes over an error that a function of C set. */
  explicit error (GError *taken) noexcept : m_error (taken) {}

  /** Copies the error. */
  error (const error &other) noexcept : std::exception (other), m_error (copy (other.m_error)) {}

  /** Takes over the contents of another error. */
  error (error &&other) noexcept : std::exception (other),
                                   m_error (std::exchange (other.m_error, nullptr))
  {
  }

  /** Replaces the error. */
  error &
  operator= (error other) noexcept
  {
    std::swap (m_error, other.m_error);
    return *this;
  }

  /** Frees the error. */
  ~error () override { g_clear_error (&m_error); }

  /** Gets the message, which names the call that failed and its status. */
  const char *
  what () const noexcept override
  {
    return m_error != nullptr ? m_error->message : "";
  }

  /**
   * Gets the domain: TARN_ERROR, or a driver's domain such as TARN_OPENCL_ERROR or TARN_CUDA_ERROR.
   */
  GQuark
  domain () const noexcept
  {
    return m_error != nullptr ? m_error->domain : 0;
  }

  /** Gets the code: a TarnError, or the driver's status (a cl_int, a CUresult). */
  int
  code () const noexcept
  {
    return m_error != nullptr ? m_error->code : 0;
  }

  /** Tells whether the error has this domain and this code. */
  bool
  matches (GQuark domain, int code) const noexcept
  {
    return g_error_matches (m_error, domain, code) != FALSE;
  }

  /**
   * Tells whether there is too little memory, in the device or within a limit, as
   * tarn_error_is_no_memory() does. If so, the program may succeed after it has freed memory, or
   * with a smaller request.
   */
  bool
  is_no_memory () const noexcept
  {
    return tarn_error_is_no_memory (m_error) != FALSE;
  }

  /** Gets the GError, for functions of C (transfer none). */
  const GError *
  get () const noexcept
  {
    return m_error;
  }

private:
  static GError *
  copy (const GError *other) noexcept
  {
    return other != nullptr ? g_error_copy (other) : nullptr;
  }

  GError *m_error;
};

/**
 * The exception for an error whose error::is_no_memory() is true.
 *
 * @since 0.1
 */
class out_of_memory : public std::bad_alloc
{
public:
  /** Takes over the error with the reason. */
  explicit out_of_memory (error reason) noexcept : m_reason (std::move (reason)) {}

  /** Gets the error's message. */
  const char *
  what () const noexcept override
  {
    return m_reason.what ();
  }

  /** The error. */
  const error &
  reason () const noexcept
  {
    return m_reason;
  }

private:
  error m_reason;
};

#if TARN_HAS_EXCEPTIONS
/**
 * Throws out_of_memory if error::is_no_memory() is true; otherwise throws the error itself.
 *
 * @since 0.1
 */
[[noreturn]] inline void
throw_error (error reason)
{
  if (reason.is_no_memory ())
    throw out_of_memory (std::move (reason));
  throw reason;
}
#endif

/**
 * A value, or an error that explains why there is no value, like std::expected of C++23. Use the
 * value only if there is one.
 *
 * @tparam T  the value's type
 *
 * @since 0.1
 */
template <typename T> class [[nodiscard]] result
{
public:
  /** A value. */
  result (T value) noexcept : m_state (std::in_place_index<0>, std::move (value)) {}

  /** An error. */
  result (tarn::error reason) noexcept : m_state (std::in_place_index<1>, std::move (reason)) {}

  /** Tells whether there is a value. */
  bool
  has_value () const noexcept
  {
    return m_state.index () == 0;
  }

  /** Tells whether there is a value. */
  explicit operator bool () const noexcept { return has_value (); }

  /** Gets the value. Call this only if there is a value. */
  T &
      operator* ()
      & noexcept
  {
    return *std::get_if<0> (&m_state);
  }

  /** Gets the value. Call this only if there is a value. */
  const T &
  operator* () const &noexcept
  {
    return *std::get_if<0> (&m_state);
  }

  /** Gets the value, which the caller may move away. Call this only if there is a value. */
  T &&
      operator* ()
      && noexcept
  {
    return std::move (*std::get_if<0> (&m_state));
  }

  /** Gets the value. Call this only if there is a value. */
  T *
  operator->() noexcept
  {
    return std::get_if<0> (&m_state);
  }

  /** Gets the value. Call this only if there is a value. */
  const T *
  operator->() const noexcept
  {
    return std::get_if<0> (&m_state);
  }

  /** Gets the error. Call this only if there is no value. */
  const tarn::error &
  error () const noexcept
  {
    return *std::get_if<1> (&m_state);
  }

#if TARN_HAS_EXCEPTIONS
  /** Gets the value, or throws the error if there is no value. */
  T &
  value () &
  {
    if (!has_value ())
      throw_error (error ());
    return **this;
  }

  /** Gets the value, which the caller may move away, or throws the error if there is no value. */
  T &&
  value () &&
  {
    if (!has_value ())
      throw_error (std::move (*std::get_if<1> (&m_state)));
    return *std::move (*this);
  }
#endif

private:
  std::variant<T, tarn::error> m_state;
};

/**
 * Success, or an error.
 *
 * @since 0.1
 */
template <> class [[nodiscard]] result<void>
{
public:
  /** Success. */
  result () noexcept = default;

  /** An error. */
  result (tarn::error reason) noexcept : m_error (std::move (reason)) {}

  /** Tells whether the function succeeded. */
  bool
  has_value () const noexcept
  {
    return m_error.get () == nullptr;
  }

  /** Tells whether the function succeeded. */
  explicit operator bool () const noexcept { return has_value (); }

  /** Gets the error. Call this only if the function did not succeed. */
  const tarn::error &
  error () const noexcept
  {
    return m_error;
  }

#if TARN_HAS_EXCEPTIONS
  /** Throws the error if the function did not succeed. */
  void
  value ()
  {
    if (!has_value ())
      throw_error (m_error);
  }
#endif

private:
  tarn::error m_error{ nullptr }; /* owns no GError after success */
};

/**
 * Makes a TarnMemory of a pointer or a handle, such as a cl_mem: for pool::free_memory().
 *
 * @since 0.1
 */
inline TarnMemory
memory_at (void *pointer) noexcept
{
  TarnMemory memory;

  memory.address = 0; /* sets all 8 bytes; a pointer may have only 4 */
  memory.pointer = pointer;
  return memory;
}

/** For use by Tarn's headers. Programs use only the members of counted, which pools inherit. */
namespace detail
{

/* The place where a function of C stores its error. */
class error_slot
{
public:
  error_slot () noexcept = default;
  error_slot (const error_slot &) = delete;
  error_slot &operator= (const error_slot &) = delete;
  ~error_slot () { g_clear_error (&m_error); }

  GError **
  out () noexcept
  {
    return &m_error;
  }

  /* Returns the error that a function of C has set. If the function has only logged a mistake,
   * makes an error. */
  error
  take () noexcept
  {
    if (m_error == nullptr)
      g_set_error_literal (&m_error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                           "a wrong argument, which a critical message names");
    return error (std::exchange (m_error, nullptr));
  }

  /* Makes the owner of a reference or block that a function of C has returned. If that is NULL,
   * returns the error that the function has set. */
  template <typename Owner, typename T>
  result<Owner>
  owner_of (T *made) noexcept
  {
    if (made == nullptr)
      return take ();
    return Owner (made);
  }

  result<void>
  success_if (gboolean succeeded) noexcept
  {
    if (!succeeded)
      return take ();
    return {};
  }

private:
  GError *m_error = nullptr;
};

/**
 * The owner of one reference to an object of C. Each copy of an owner has a reference of its own.
 * An empty owner has no reference.
 *
 * @tparam T      the object's type
 * @tparam Ref    adds a reference to the object
 * @tparam Unref  releases a reference to the object
 *
 * @since 0.1
 */
template <typename T, T *(*Ref) (T *), void (*Unref) (T *)> class counted
{
public:
  /** Owns nothing. */
  counted () noexcept = default;

  /** Takes over a reference, as functions of C return it. */
  explicit counted (T *taken) noexcept : m_object (taken) {}

  /** Adds a reference for the copy. */
  counted (const counted &other) noexcept : m_object (ref (other.m_object)) {}

  /** Takes over the reference of another owner, which is empty afterwards. */
  counted (counted &&other) noexcept : m_object (std::exchange (other.m_object, nullptr)) {}

  /** Releases the reference, and adds a reference to the object of another owner. */
  counted &
  operator= (const counted &other) noexcept
  {
    counted copy (other);

    swap (copy);
    return *this;
  }

  /** Releases the reference, and takes over that of another owner, which is empty afterwards. */
  counted &
  operator= (counted &&other) noexcept
  {
    counted moved (std::move (other));

    swap (moved);
    return *this;
  }

  /** Releases the reference. */
  ~counted ()
  {
    if (m_object != nullptr)
      Unref (m_object);
  }

  /** Gets the object, for functions of C (transfer none). */
  T *
  get () const noexcept
  {
    return m_object;
  }

  /** Gets the object with the reference (transfer full). This owner is empty afterwards. */
  T *
  release () noexcept
  {
    return std::exchange (m_object, nullptr);
  }

  /** Releases the reference. This owner is empty afterwards. */
  void
  reset () noexcept
  {
    counted ().swap (*this);
  }

  /** Tells whether this owner has a reference. */
  explicit operator bool () const noexcept { return m_object != nullptr; }

  /** Exchanges the references of two owners. */
  void
  swap (counted &other) noexcept
  {
    std::swap (m_object, other.m_object);
  }

  /** Tells whether two owners have references to the same object, or are both empty. */
  friend bool
  operator== (const counted &a, const counted &b) noexcept
  {
    return a.m_object == b.m_object;
  }

  /** Tells whether two owners do not have references to the same object. */
  friend bool
  operator!= (const counted &a, const counted &b) noexcept
  {
    return a.m_object != b.m_object;
  }

protected:
  /** Adds a reference to an object, if there is one, and returns it. */
  static T *
  ref (T *object) noexcept
  {
    return object != nullptr ? Ref (object) : nullptr;
  }

private:
  T *m_object = nullptr;
};

} // namespace detail

/**
 * The owner of a block. Its destructor frees the block. An owner can be moved; share() makes
 * another owner of the same block.
 *
 * @since 0.1
 */
class block
{
public:
  /** Owns nothing. */
  block () noexcept = default;

  /** Takes over a block, as functions of C return it. */
  explicit block (TarnBlock *taken) noexcept : m_block (taken) {}

  /** Takes over the block of another owner, which owns nothing afterwards. */
  block (block &&other) noexcept : m_block (std::exchange (other.m_block, nullptr)),
                                   m_free_on (std::exchange (other.m_free_on, nullptr)),
                                   m_queue (std::exchange (other.m_queue, nullptr))
  {
  }

  /** Frees the block, if there is one, and takes over the block of another owner. */
  block &
  operator= (block &&other) noexcept
  {
    block moved (std::move (other));

    swap (moved);
    return *this;
  }

  /** Frees the block, if there is one, on the queue of set_last_queue(). */
  ~block ()
  {
    if (m_free_on != nullptr)
      m_free_on (m_block, m_queue);
    else
      tarn_block_free (m_block);
  }

  /** Makes another owner of the block. The last owner frees the block's memory. */
  block
  share () const noexcept
  {
    block other (m_block != nullptr ? tarn_block_ref (m_block) : nullptr);

    other.set_free_on (m_free_on, m_queue);
    return other;
  }

  /**
   * Sets the queue that uses the block last. The destructor, or reset(), then frees the block on
   * this queue, as tarn_block_free_on() does. Without this call, the block is freed on the queue
   * for which it was allocated.
   *
   * @param queue  the queue, alive until the block is freed; NULL: the queue is not known
   */
  void
  set_last_queue (void *queue) noexcept
  {
    set_free_on (queue != nullptr ? tarn_block_free_on : nullptr, queue);
  }

  /** Frees the block, if there is one. This owner has no block afterwards. */
  void
  reset () noexcept
  {
    block ().swap (*this);
  }

  /** Gets the block, for functions of C (transfer none). */
  TarnBlock *
  get () const noexcept
  {
    return m_block;
  }

  /** Gets the block (transfer full). This owner has no block afterwards. */
  TarnBlock *
  release () noexcept
  {
    set_free_on (nullptr, nullptr);
    return std::exchange (m_block, nullptr);
  }

  /** Tells whether this owner has a block. */
  explicit operator bool () const noexcept { return m_block != nullptr; }

  /** Gets the memory: the driver's handle or address. */
  TarnMemory
  memory () const noexcept
  {
    return tarn_block_get_memory (m_block);
  }

  /** Gets the number of bytes that the program requested. */
  std::size_t
  size () const noexcept
  {
    return tarn_block_get_size (m_block);
  }

  /**
   * Gets the number of bytes that the block has: at least size(). The program may use all of them.
   */
  std::size_t
  alloc_size () const noexcept
  {
    return tarn_block_get_alloc_size (m_block);
  }

  /** Records that commands on a queue use a block: tarn_block_record_use(). */
  result<void>
  try_record_use (void *queue) noexcept
  {
    detail::error_slot error;

    return error.success_if (tarn_block_record_use (m_block, queue, error.out ()));
  }

  /** Moves a block to one queue, which waits for the others: tarn_block_move_to_queue(). */
  result<void>
  try_move_to (void *queue) noexcept
  {
    detail::error_slot error;

    return error.success_if (tarn_block_move_to_queue (m_block, queue, error.out ()));
  }

  /** Makes the host wait for the queues that use a block: tarn_block_wait(). */
  result<void>
  try_wait () noexcept
  {
    detail::error_slot error;

    return error.success_if (tarn_block_wait (m_block, error.out ()));
  }

#if TARN_HAS_EXCEPTIONS
  /** Calls try_record_use(), and throws its error. */
  void
  record_use (void *queue)
  {
    try_record_use (queue).value ();
  }

  /** Calls try_move_to(), and throws its error. */
  void
  move_to (void *queue)
  {
    try_move_to (queue).value ();
  }

  /** Calls try_wait(), and throws its error. */
  void
  wait ()
  {
    try_wait ().value ();
  }
#endif

  /** Exchanges the blocks of two owners. */
  void
  swap (block &other) noexcept
  {
    std::swap (m_block, other.m_block);
    std::swap (m_free_on, other.m_free_on);
    std::swap (m_queue, other.m_queue);
  }

protected:
  /** The type of a function that frees a block on a queue. */
  using free_on_func = void (*) (TarnBlock *block, void *queue);

  /** Sets the function that frees the block, and its argument @p queue. NULL: tarn_block_free(). */
  void
  set_free_on (free_on_func func, void *queue) noexcept
  {
    m_free_on = func;
    m_queue = queue;
  }

private:
  TarnBlock *m_block = nullptr;
  free_on_func m_free_on = nullptr; /* NULL: tarn_block_free() */
  void *m_queue = nullptr;          /* the queue that m_free_on gets */
};

/**
 * The owner of a reference to an allocator.
 *
 * @since 0.1
 */
class allocator : public detail::counted<TarnAllocator, tarn_allocator_ref, tarn_allocator_unref>
{
public:
  using counted::counted;

  /** Adds a reference, and makes an owner of this reference. */
  static allocator
  share (TarnAllocator *borrowed) noexcept
  {
    return allocator (ref (borrowed));
  }

  /** Allocates a block: tarn_allocator_allocate(). */
  result<block>
  try_allocate (std::size_t size) const noexcept
  {
    detail::error_slot error;

    return error.owner_of<block> (tarn_allocator_allocate (get (), size, error.out ()));
  }

  /** Gets the name of an allocator: tarn_allocator_get_name(). */
  const char *
  name () const noexcept
  {
    return tarn_allocator_get_name (get ());
  }

#if TARN_HAS_EXCEPTIONS
  /** Calls try_allocate(), and throws its error. */
  block
  allocate (std::size_t size) const
  {
    return try_allocate (size).value ();
  }
#endif
};

/**
 * TarnHeapOptions, which have their default values at first.
 *
 * @since 0.1
 */
struct heap_options : TarnHeapOptions
{
  /** Sets the defaults: TARN_HEAP_OPTIONS_INIT. */
  heap_options () noexcept : TarnHeapOptions TARN_HEAP_OPTIONS_INIT {}
};

/**
 * TarnPoolOptions, which have their default values at first.
 *
 * @since 0.1
 */
struct pool_options : TarnPoolOptions
{
  /** Sets the defaults: TARN_POOL_OPTIONS_INIT. */
  pool_options () noexcept : TarnPoolOptions TARN_POOL_OPTIONS_INIT {}
};

/**
 * Makes a heap over an allocator: tarn_heap_allocator_new().
 *
 * @since 0.1
 */
inline result<allocator>
try_make_heap (const allocator &upstream, const TarnHeapOptions &options = heap_options ()) noexcept
{
  detail::error_slot error;

  return error.owner_of<allocator> (
      tarn_heap_allocator_new (upstream.get (), &options, error.out ()));
}

#if TARN_HAS_EXCEPTIONS
/**
 * Calls try_make_heap(), and throws its error.
 *
 * @since 0.1
 */
inline allocator
make_heap (const allocator &upstream, const TarnHeapOptions &options = heap_options ())
{
  return try_make_heap (upstream, options).value ();
}
#endif

/**
 * The owner of a reference to a group of pools, which return held blocks when one of them runs out
 * of memory.
 *
 * @since 0.1
 */
class reclaim_group
    : public detail::counted<TarnReclaimGroup, tarn_reclaim_group_ref, tarn_reclaim_group_unref>
{
public:
  /** Makes a group of pools that return held blocks for one another: tarn_reclaim_group_new(). */
  reclaim_group () : counted (tarn_reclaim_group_new ()) {}

  using counted::counted;
};

/**
 * The owner of a reference to a pool. A block may outlive the owner.
 *
 * @since 0.1
 */
class pool : public detail::counted<TarnPool, tarn_pool_ref, tarn_pool_unref>
{
public:
  using counted::counted;

  /** Adds a reference, and makes an owner of this reference. */
  static pool
  share (TarnPool *borrowed) noexcept
  {
    return pool (ref (borrowed));
  }

  /** Makes a pool over an allocator: tarn_pool_new(). */
  static result<pool>
  try_make (const allocator &upstream, const TarnPoolOptions &options = pool_options ()) noexcept
  {
    detail::error_slot error;

    return error.owner_of<pool> (tarn_pool_new (upstream.get (), &options, error.out ()));
  }

  /**
   * Allocates a block from a pool: tarn_pool_allocate(). With a queue, a cl_command_queue or a
   * CUstream, this is tarn_pool_allocate_ordered().
   */
  result<block>
  try_allocate (std::size_t size, void *queue = nullptr) const noexcept
  {
    return try_block<block> (size, queue);
  }

  /** Allocates a block whose memory is aligned: tarn_pool_allocate_aligned(). */
  result<block>
  try_allocate_aligned (std::size_t size, std::size_t alignment,
                        void *queue = nullptr) const noexcept
  {
    detail::error_slot error;

    return error.owner_of<block> (
        tarn_pool_allocate_aligned (get (), size, alignment, queue, error.out ()));
  }

  /**
   * Allocates a block, and waits until other threads have freed enough:
   * tarn_pool_allocate_timeout().
   */
  result<block>
  try_allocate_timeout (std::size_t size, std::int64_t microseconds,
                        void *queue = nullptr) const noexcept
  {
    return try_block_timeout<block> (size, microseconds, queue);
  }

  /**
   * Frees the block in use that has a given handle or address: tarn_pool_free_memory(). The pool
   * must have TARN_POOL_FINDABLE.
   */
  result<void>
  try_free_memory (TarnMemory memory, void *queue = nullptr) const noexcept
  {
    detail::error_slot error;

    return error.success_if (tarn_pool_free_memory (get (), memory, queue, error.out ()));
  }

#if TARN_HAS_EXCEPTIONS
  /** Calls try_make(), and throws its error. */
  explicit pool (const allocator &upstream, const TarnPoolOptions &options = pool_options ())
      : pool (try_make (upstream, options).value ())
  {
  }

  /** Calls try_allocate(), and throws its error. */
  block
  allocate (std::size_t size, void *queue = nullptr) const
  {
    return try_allocate (size, queue).value ();
  }

  /** Calls try_allocate_aligned(), and throws its error. */
  block
  allocate_aligned (std::size_t size, std::size_t alignment, void *queue = nullptr) const
  {
    return try_allocate_aligned (size, alignment, queue).value ();
  }

  /** Calls try_allocate_timeout(), and throws its error. */
  block
  allocate_timeout (std::size_t size, std::int64_t microseconds, void *queue = nullptr) const
  {
    return try_allocate_timeout (size, microseconds, queue).value ();
  }

  /** Calls try_free_memory(), and throws its error. */
  void
  free_memory (TarnMemory memory, void *queue = nullptr) const
  {
    try_free_memory (memory, queue).value ();
  }
#endif

  /** Gets all counters of a pool as they were at one moment: tarn_pool_get_stats(). */
  TarnPoolStats
  stats () const noexcept
  {
    TarnPoolStats stats = TARN_POOL_STATS_INIT;

    tarn_pool_get_stats (get (), &stats);
    return stats;
  }

  /** Returns every held block to the upstream allocator: tarn_pool_free_held(). */
  void
  free_held () const noexcept
  {
    tarn_pool_free_held (get ());
  }

  /**
   * Returns held blocks to the upstream allocator until at most keep_bytes are held:
   * tarn_pool_trim().
   */
  void
  trim (std::size_t keep_bytes) const noexcept
  {
    tarn_pool_trim (get (), keep_bytes);
  }

  /**
   * Returns held blocks to the upstream allocator: tarn_pool_stop_holding(). From now on the pool
   * returns each block when the program frees it.
   */
  void
  stop_holding () const noexcept
  {
    tarn_pool_stop_holding (get ());
  }

  /** Reserves memory in a pool: tarn_pool_reserve(). */
  result<void>
  try_reserve (std::size_t bytes, void *queue = nullptr) const noexcept
  {
    detail::error_slot error;

    return error.success_if (tarn_pool_reserve (get (), bytes, queue, error.out ()));
  }

#if TARN_HAS_EXCEPTIONS
  /** Calls try_reserve(), and throws its error. */
  void
  reserve (std::size_t bytes, void *queue = nullptr) const
  {
    try_reserve (bytes, queue).value ();
  }
#endif

  /**
   * Gets a number that changes when a pool returns memory to the driver:
   * tarn_pool_get_generation().
   */
  std::uint64_t
  generation () const noexcept
  {
    return tarn_pool_get_generation (get ());
  }

  /** Gets how much memory a pool can have: tarn_pool_get_budget(). */
  result<TarnBudget>
  try_get_budget () const noexcept
  {
    TarnBudget budget = TARN_BUDGET_INIT;
    detail::error_slot error;

    if (!tarn_pool_get_budget (get (), &budget, error.out ()))
      return error.take ();
    return budget;
  }

  /**
   * Charges memory that the program allocates itself to a pool's limit: tarn_pool_charge().
   */
  result<void>
  try_charge (std::size_t bytes) const noexcept
  {
    detail::error_slot error;

    return error.success_if (tarn_pool_charge (get (), bytes, error.out ()));
  }

  /** Subtracts bytes from the charged ones: tarn_pool_uncharge(). */
  void
  uncharge (std::size_t bytes) const noexcept
  {
    tarn_pool_uncharge (get (), bytes);
  }

#if TARN_HAS_EXCEPTIONS
  /** Calls try_get_budget(), and throws its error. */
  TarnBudget
  get_budget () const
  {
    return try_get_budget ().value ();
  }

  /** Calls try_charge(), and throws its error. */
  void
  charge (std::size_t bytes) const
  {
    try_charge (bytes).value ();
  }
#endif

  /** Gets the most bytes that a pool holds: tarn_pool_get_hold_bytes(). */
  std::size_t
  hold_bytes () const noexcept
  {
    return tarn_pool_get_hold_bytes (get ());
  }

  /** Sets the most bytes that a pool holds from now on: tarn_pool_set_hold_bytes(). */
  void
  set_hold_bytes (std::size_t bytes) const noexcept
  {
    tarn_pool_set_hold_bytes (get (), bytes);
  }

  /** Gets the limit of a pool: tarn_pool_get_limit_bytes(). */
  std::size_t
  limit_bytes () const noexcept
  {
    return tarn_pool_get_limit_bytes (get ());
  }

  /** Sets the limit of a pool: tarn_pool_set_limit_bytes(). */
  void
  set_limit_bytes (std::size_t bytes) const noexcept
  {
    tarn_pool_set_limit_bytes (get (), bytes);
  }

  /**
   * Puts a pool in a reclaim group, and removes it from its previous one:
   * tarn_pool_set_reclaim_group(). If @p group is empty, the pool is in no group afterwards.
   */
  void
  set_reclaim_group (const reclaim_group &group) const noexcept
  {
    tarn_pool_set_reclaim_group (get (), group.get ());
  }

  /**
   * Adds a function that frees memory when a pool has run out of it: tarn_pool_add_reclaim_func().
   * The pool passes to @p function the number of bytes that could not be allocated. The function
   * returns true if it freed something. Any thread that allocates may call the function. An
   * exception that leaves the function ends the program. The function must not own a reference to
   * the pool, because then neither is ever released.
   *
   * @param function  the function; the pool keeps a copy until remove_reclaim(), or as long as the
   *                  pool exists
   *
   * @return the function's number, for remove_reclaim()
   */
  template <typename Function>
  unsigned
  add_reclaim (Function function) const
  {
    static_assert (std::is_invocable_r_v<bool, Function &, std::size_t>,
                   "a reclaim function takes the bytes that are wanted, and returns a bool");
    return tarn_pool_add_reclaim_func (
        get (),
        [] (TarnPool *, gsize wanted, gpointer data) noexcept -> gboolean {
          return (*static_cast<Function *> (data)) (wanted) ? TRUE : FALSE;
        },
        new Function (std::move (function)),
        [] (gpointer data) noexcept { delete static_cast<Function *> (data); });
  }

  /** Removes a reclaim function from a pool: tarn_pool_remove_reclaim_func(). */
  bool
  remove_reclaim (unsigned id) const noexcept
  {
    return tarn_pool_remove_reclaim_func (get (), id) != FALSE;
  }

protected:
  /** Allocates a block as try_allocate() does, and returns it as a Block, such as a buffer. */
  template <typename Block>
  result<Block>
  try_block (std::size_t size, void *queue) const noexcept
  {
    detail::error_slot error;

    return error.owner_of<Block> (
        queue != nullptr ? tarn_pool_allocate_ordered (get (), size, queue, error.out ())
                         : tarn_pool_allocate (get (), size, error.out ()));
  }

  /**
   * Allocates a block as try_allocate_timeout() does, and returns it as a Block, such as a buffer.
   */
  template <typename Block>
  result<Block>
  try_block_timeout (std::size_t size, std::int64_t microseconds, void *queue) const noexcept
  {
    detail::error_slot error;

    return error.owner_of<Block> (
        tarn_pool_allocate_timeout (get (), size, queue, microseconds, error.out ()));
  }
};

/** @cond */
namespace detail
{

/* Returns an error if a pool finds no blocks by their memory (TARN_POOL_FINDABLE). */
inline result<void>
check_findable (const pool &pool) noexcept
{
  /* no block has the address NULL, so this call frees nothing */
  result<void> freed = pool.try_free_memory (memory_at (nullptr));

  if (pool && !freed && freed.error ().matches (TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT))
    return {};
  return freed;
}

/* Frees the block that has the given memory. If there is no such block, logs a critical message,
 * because this is a mistake of the program. */
inline void
free_memory (const pool &pool, TarnMemory memory) noexcept
{
  result<void> freed = pool.try_free_memory (memory);

  if (!freed)
    g_critical ("Tarn: %s", freed.error ().what ());
}

/* Throws an error. Ends the program instead if the compiler has no exceptions. */
[[noreturn]] inline void
fail (const error &reason)
{
#if TARN_HAS_EXCEPTIONS
  throw_error (reason);
#else
  g_error ("Tarn: %s", reason.what ());
#endif
}

/* Makes a pool over a heap over @upstream, or returns the error if @upstream is one. */
template <typename Pool>
result<Pool>
pool_over_heap (result<allocator> upstream, const TarnPoolOptions &options) noexcept
{
  heap_options heap;

  heap.follows_pool_limit = TRUE;
  if (!upstream)
    return upstream.error ();
  result<allocator> over = try_make_heap (*upstream, heap);
  if (!over)
    return over.error ();
  result<pool> made = pool::try_make (*over, options);
  if (!made)
    return made.error ();
  return Pool (*std::move (made));
}

} // namespace detail
/** @endcond */

} // namespace tarn

#endif
