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
 * - tarn/thrust.hpp: vectors of Thrust's
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
/** 1 if the compiler has exceptions, so that the functions that throw are there; otherwise 0. */
#define TARN_HAS_EXCEPTIONS 1
#else
#define TARN_HAS_EXCEPTIONS 0
#endif

/** C++17 owners and errors for <tarn/tarn.h>. */
namespace tarn
{

/**
 * An error of Tarn's or of a driver's: a GError that C++ owns. It can be copied and thrown. After
 * it was moved from, its what() is empty.
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

  /** Takes over the error of another. */
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

  /** The message, which names the call that failed and its status. */
  const char *
  what () const noexcept override
  {
    return m_error != nullptr ? m_error->message : "";
  }

  /** TARN_ERROR, or a driver's: TARN_OPENCL_ERROR, TARN_CUDA_ERROR. */
  GQuark
  domain () const noexcept
  {
    return m_error != nullptr ? m_error->domain : 0;
  }

  /** A TarnError, or the driver's status: a cl_int, a CUresult. */
  int
  code () const noexcept
  {
    return m_error != nullptr ? m_error->code : 0;
  }

  /** Tells whether domain() and code() are these. */
  bool
  matches (GQuark domain, int code) const noexcept
  {
    return g_error_matches (m_error, domain, code) != FALSE;
  }

  /**
   * Tells whether there is too little memory, in the device or within a limit, as
   * tarn_error_is_no_memory() does. A program that frees some, or asks for less, may succeed then.
   */
  bool
  is_no_memory () const noexcept
  {
    return tarn_error_is_no_memory (m_error) != FALSE;
  }

  /** (transfer none): the error as C has it. */
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
 * The exception for an error of which error::is_no_memory() is true.
 *
 * @since 0.1
 */
class out_of_memory : public std::bad_alloc
{
public:
  /** Takes over the error that says why. */
  explicit out_of_memory (error reason) noexcept : m_reason (std::move (reason)) {}

  /** The error's message. */
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
 * Throws out_of_memory if error::is_no_memory() is true, and otherwise the error itself.
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
 * A value, or the error that explains why there is none, like std::expected of C++23. Use the value
 * only if there is one.
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

  /** The value: there is one. */
  T &
      operator* ()
      & noexcept
  {
    return *std::get_if<0> (&m_state);
  }

  /** The value: there is one. */
  const T &
  operator* () const &noexcept
  {
    return *std::get_if<0> (&m_state);
  }

  /** The value, to be moved from: there is one. */
  T &&
      operator* ()
      && noexcept
  {
    return std::move (*std::get_if<0> (&m_state));
  }

  /** The value: there is one. */
  T *
  operator->() noexcept
  {
    return std::get_if<0> (&m_state);
  }

  /** The value: there is one. */
  const T *
  operator->() const noexcept
  {
    return std::get_if<0> (&m_state);
  }

  /** The error: there is no value. */
  const tarn::error &
  error () const noexcept
  {
    return *std::get_if<1> (&m_state);
  }

#if TARN_HAS_EXCEPTIONS
  /** The value; throws where there is none. */
  T &
  value () &
  {
    if (!has_value ())
      throw_error (error ());
    return **this;
  }

  /** The value, to be moved from; throws where there is none. */
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

  /** Tells whether it succeeded. */
  bool
  has_value () const noexcept
  {
    return m_error.get () == nullptr;
  }

  /** Tells whether it succeeded. */
  explicit operator bool () const noexcept { return has_value (); }

  /** The error: it did not succeed. */
  const tarn::error &
  error () const noexcept
  {
    return m_error;
  }

#if TARN_HAS_EXCEPTIONS
  /** Throws unless it succeeded. */
  void
  value ()
  {
    if (!has_value ())
      throw_error (m_error);
  }
#endif

private:
  tarn::error m_error{ nullptr }; /* none: it succeeded */
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

  memory.address = 0; /* all of it, where a pointer has half of its bytes */
  memory.pointer = pointer;
  return memory;
}

/** The headers of Tarn use this. Programs use the members of counted only, which pools inherit. */
namespace detail
{

/* Where a function of C stores its error. */
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

  /* The error that a function of C set, or one for a mistake that the function only logged. */
  error
  take () noexcept
  {
    if (m_error == nullptr)
      g_set_error_literal (&m_error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                           "a wrong argument, which a critical message names");
    return error (std::exchange (m_error, nullptr));
  }

  /* A reference or block that a function of C returned, or the error that it set instead. */
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
 * The owner of one reference of an object of C. Each copy owns a reference of its own. An empty one
 * owns nothing.
 *
 * @tparam T      the object's type
 * @tparam Ref    adds a reference
 * @tparam Unref  releases one
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

  /** Takes over the reference of another, which owns nothing afterwards. */
  counted (counted &&other) noexcept : m_object (std::exchange (other.m_object, nullptr)) {}

  /** Releases the reference, and adds one to the other's object. */
  counted &
  operator= (const counted &other) noexcept
  {
    counted copy (other);

    swap (copy);
    return *this;
  }

  /** Releases the reference, and takes over that of another, which owns nothing afterwards. */
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

  /** (transfer none): the object, for functions of C. */
  T *
  get () const noexcept
  {
    return m_object;
  }

  /** (transfer full): the object; this owns nothing afterwards. */
  T *
  release () noexcept
  {
    return std::exchange (m_object, nullptr);
  }

  /** Releases the reference; this owns nothing afterwards. */
  void
  reset () noexcept
  {
    counted ().swap (*this);
  }

  /** Tells whether it owns anything. */
  explicit operator bool () const noexcept { return m_object != nullptr; }

  /** Exchanges the references of two. */
  void
  swap (counted &other) noexcept
  {
    std::swap (m_object, other.m_object);
  }

  /** Tells whether both own references of the same object, or nothing. */
  friend bool
  operator== (const counted &a, const counted &b) noexcept
  {
    return a.m_object == b.m_object;
  }

  /** Tells whether they own references of different objects. */
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
 * The owner of a block: its destructor frees the block. It can be moved; share() makes another
 * owner.
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

  /** Takes over the block of another, which owns nothing afterwards. */
  block (block &&other) noexcept : m_block (std::exchange (other.m_block, nullptr)),
                                   m_free_on (std::exchange (other.m_free_on, nullptr)),
                                   m_queue (std::exchange (other.m_queue, nullptr))
  {
  }

  /** Frees the block, if there is one, and takes over that of another. */
  block &
  operator= (block &&other) noexcept
  {
    block moved (std::move (other));

    swap (moved);
    return *this;
  }

  /** Frees the block, if there is one: on the queue of set_last_queue(). */
  ~block ()
  {
    if (m_free_on != nullptr)
      m_free_on (m_block, m_queue);
    else
      tarn_block_free (m_block);
  }

  /** Makes another owner of the block. The last owner frees its memory. */
  block
  share () const noexcept
  {
    block other (m_block != nullptr ? tarn_block_ref (m_block) : nullptr);

    other.set_free_on (m_free_on, m_queue);
    return other;
  }

  /**
   * Sets the queue that uses the block last. The destructor, or reset(), then frees the block on
   * this queue, as tarn_block_free_on() does. Without this call, it frees a block on the queue for
   * which the block was allocated.
   *
   * @param queue  lives until the block is freed; NULL: the queue is not known
   */
  void
  set_last_queue (void *queue) noexcept
  {
    set_free_on (queue != nullptr ? tarn_block_free_on : nullptr, queue);
  }

  /** Frees the block, if there is one. This owns nothing afterwards. */
  void
  reset () noexcept
  {
    block ().swap (*this);
  }

  /** (transfer none): the block, for functions of C. */
  TarnBlock *
  get () const noexcept
  {
    return m_block;
  }

  /** (transfer full): the block; this owns nothing afterwards. */
  TarnBlock *
  release () noexcept
  {
    set_free_on (nullptr, nullptr);
    return std::exchange (m_block, nullptr);
  }

  /** Tells whether it owns a block. */
  explicit operator bool () const noexcept { return m_block != nullptr; }

  /** The driver's handle or address. */
  TarnMemory
  memory () const noexcept
  {
    return tarn_block_get_memory (m_block);
  }

  /** Bytes that were asked for. */
  std::size_t
  size () const noexcept
  {
    return tarn_block_get_size (m_block);
  }

  /** Bytes that the block has: size() or more, and all of them may be used. */
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
  /** As try_record_use(), but throws the error. */
  void
  record_use (void *queue)
  {
    try_record_use (queue).value ();
  }

  /** As try_move_to(), but throws the error. */
  void
  move_to (void *queue)
  {
    try_move_to (queue).value ();
  }

  /** As try_wait(), but throws the error. */
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
  /** Frees a block on a queue. */
  using free_on_func = void (*) (TarnBlock *block, void *queue);

  /** Chooses what frees the block: @p func with @p queue, or tarn_block_free() if it is NULL. */
  void
  set_free_on (free_on_func func, void *queue) noexcept
  {
    m_free_on = func;
    m_queue = queue;
  }

private:
  TarnBlock *m_block = nullptr;
  free_on_func m_free_on = nullptr; /* NULL: its queue is the one it was allocated for, if any */
  void *m_queue = nullptr;          /* for m_free_on */
};

/**
 * A reference on an allocator.
 *
 * @since 0.1
 */
class allocator : public detail::counted<TarnAllocator, tarn_allocator_ref, tarn_allocator_unref>
{
public:
  using counted::counted;

  /** Takes a reference of its own. */
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
  /** As try_allocate(), but throws the error. */
  block
  allocate (std::size_t size) const
  {
    return try_allocate (size).value ();
  }
#endif
};

/**
 * TarnHeapOptions, which begin with the defaults.
 *
 * @since 0.1
 */
struct heap_options : TarnHeapOptions
{
  /** As TARN_HEAP_OPTIONS_INIT. */
  heap_options () noexcept : TarnHeapOptions TARN_HEAP_OPTIONS_INIT {}
};

/**
 * TarnPoolOptions, which begin with the defaults.
 *
 * @since 0.1
 */
struct pool_options : TarnPoolOptions
{
  /** As TARN_POOL_OPTIONS_INIT. */
  pool_options () noexcept : TarnPoolOptions TARN_POOL_OPTIONS_INIT {}
};

/**
 * Makes an allocator that suballocates another's memory: tarn_heap_allocator_new().
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
 * As try_make_heap(), but throws the error.
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
 * A reference on a group of pools that return cached blocks to the driver when one of them runs out
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
 * A reference on a pool. A block may outlive it.
 *
 * @since 0.1
 */
class pool : public detail::counted<TarnPool, tarn_pool_ref, tarn_pool_unref>
{
public:
  using counted::counted;

  /** Takes a reference of its own. */
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
   * Frees the block in use that has a piece of memory: tarn_pool_free_memory(). The pool has
   * TARN_POOL_FINDABLE.
   */
  result<void>
  try_free_memory (TarnMemory memory, void *queue = nullptr) const noexcept
  {
    detail::error_slot error;

    return error.success_if (tarn_pool_free_memory (get (), memory, queue, error.out ()));
  }

#if TARN_HAS_EXCEPTIONS
  /** As try_make(), but throws the error. */
  explicit pool (const allocator &upstream, const TarnPoolOptions &options = pool_options ())
      : pool (try_make (upstream, options).value ())
  {
  }

  /** As try_allocate(), but throws the error. */
  block
  allocate (std::size_t size, void *queue = nullptr) const
  {
    return try_allocate (size, queue).value ();
  }

  /** As try_allocate_aligned(), but throws the error. */
  block
  allocate_aligned (std::size_t size, std::size_t alignment, void *queue = nullptr) const
  {
    return try_allocate_aligned (size, alignment, queue).value ();
  }

  /** As try_allocate_timeout(), but throws the error. */
  block
  allocate_timeout (std::size_t size, std::int64_t microseconds, void *queue = nullptr) const
  {
    return try_allocate_timeout (size, microseconds, queue).value ();
  }

  /** As try_free_memory(), but throws the error. */
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
   * Returns held blocks to the upstream allocator: tarn_pool_stop_holding(). From now on it
   * returns each block when it is freed.
   */
  void
  stop_holding () const noexcept
  {
    tarn_pool_stop_holding (get ());
  }

  /**
   * Reserves memory in a pool: tarn_pool_reserve(). Afterwards there is memory for that many bytes
   * of requests.
   */
  result<void>
  try_reserve (std::size_t bytes, void *queue = nullptr) const noexcept
  {
    detail::error_slot error;

    return error.success_if (tarn_pool_reserve (get (), bytes, queue, error.out ()));
  }

#if TARN_HAS_EXCEPTIONS
  /** As try_reserve(), but throws the error. */
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
   * Counts memory that the program takes beside a pool within the pool's limit:
   * tarn_pool_charge().
   */
  result<void>
  try_charge (std::size_t bytes) const noexcept
  {
    detail::error_slot error;

    return error.success_if (tarn_pool_charge (get (), bytes, error.out ()));
  }

  /** Takes back what tarn_pool_charge() counted: tarn_pool_uncharge(). */
  void
  uncharge (std::size_t bytes) const noexcept
  {
    tarn_pool_uncharge (get (), bytes);
  }

#if TARN_HAS_EXCEPTIONS
  /** As try_get_budget(), but throws the error. */
  TarnBudget
  get_budget () const
  {
    return try_get_budget ().value ();
  }

  /** As try_charge(), but throws the error. */
  void
  charge (std::size_t bytes) const
  {
    try_charge (bytes).value ();
  }
#endif

  /** Gets the most bytes that a pool is to hold: tarn_pool_get_hold_bytes(). */
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

  /** Gets the most bytes that a pool is to manage: tarn_pool_get_limit_bytes(). */
  std::size_t
  limit_bytes () const noexcept
  {
    return tarn_pool_get_limit_bytes (get ());
  }

  /** Sets the most bytes that a pool may manage from now on: tarn_pool_set_limit_bytes(). */
  void
  set_limit_bytes (std::size_t bytes) const noexcept
  {
    tarn_pool_set_limit_bytes (get (), bytes);
  }

  /**
   * Puts a pool in a reclaim group, in place of the one it was in: tarn_pool_set_reclaim_group().
   * An empty group: the pool is in none afterwards.
   */
  void
  set_reclaim_group (const reclaim_group &group) const noexcept
  {
    tarn_pool_set_reclaim_group (get (), group.get ());
  }

  /**
   * Adds a function that is asked to free memory when memory has run out:
   * tarn_pool_add_reclaim_func(). @p function is called with the bytes that are wanted, and returns
   * whether it freed anything. Any thread may call it. One that throws ends the program. It
   * must not own the pool, or neither is ever released.
   *
   * @param function  a copy of it lives until remove_reclaim(), or as long as the pool
   *
   * @return the number that remove_reclaim() takes
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
  /** try_allocate() for a kind of block. */
  template <typename Block>
  result<Block>
  try_block (std::size_t size, void *queue) const noexcept
  {
    detail::error_slot error;

    return error.owner_of<Block> (
        queue != nullptr ? tarn_pool_allocate_ordered (get (), size, queue, error.out ())
                         : tarn_pool_allocate (get (), size, error.out ()));
  }

  /** try_allocate_timeout() for a kind of block. */
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

/* Fails for a pool that finds no blocks by their memory. */
inline result<void>
check_findable (const pool &pool) noexcept
{
  result<void> freed = pool.try_free_memory (memory_at (nullptr)); /* no block has that memory */

  if (pool && !freed && freed.error ().matches (TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT))
    return {};
  return freed;
}

/* Frees the block that has a piece of memory; that there is none is a mistake of the program's. */
inline void
free_memory (const pool &pool, TarnMemory memory) noexcept
{
  result<void> freed = pool.try_free_memory (memory);

  if (!freed)
    g_critical ("Tarn: %s", freed.error ().what ());
}

/* Throws where that is possible, and ends the program where it is not. */
[[noreturn]] inline void
fail (const error &reason)
{
#if TARN_HAS_EXCEPTIONS
  throw_error (reason);
#else
  g_error ("Tarn: %s", reason.what ());
#endif
}

/* A pool over a heap over an allocator, if there is that one. */
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
