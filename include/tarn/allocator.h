/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Allocators: objects from which memory is allocated, and the functions of a backend.
 */

#ifndef TARN_ALLOCATOR_H
#define TARN_ALLOCATOR_H

#include <tarn/error.h>

G_BEGIN_DECLS

/**
 * An object that allocates memory: by a backend's functions, as a heap, or as a pool. It is
 * reference-counted. Any thread may call any function of an allocator at any time.
 *
 * @since 0.1
 */
typedef struct _TarnAllocator TarnAllocator;

/**
 * Memory in use, allocated from an allocator or a pool. It belongs to the caller that allocated it
 * until tarn_block_free(). Any thread may free it. Any thread may call its other functions, too,
 * but functions that change the block must not run at the same time.
 *
 * @since 0.1
 */
typedef struct _TarnBlock TarnBlock;

/**
 * The driver's name of some memory: a handle or an address. It owns nothing: the memory belongs to
 * the allocator or the block that it comes from.
 *
 * @since 0.1
 */
typedef union
{
  gpointer pointer; /**< a cl_mem, shared virtual memory or host memory */
  guint64 address;  /**< a CUdeviceptr */
} TarnMemory;

/**
 * The functions of a backend. tarn_allocator_new() makes an allocator from them. Tarn calls them
 * from any thread, several at a time. It holds no lock during a call, except during
 * backing_stays(). The functions may call Tarn, even the pool or heap that called them. Such a
 * nested call never waits for a thread that may be waiting for the outer call. Instead the nested
 * call fails: a request fails if it could succeed only after another thread has freed memory, and
 * tarn_pool_forget_queue() fails with TARN_ERROR_RECURSION.
 *
 * The functions from queue_ref() to event_release() order the use of memory on several queues (a
 * cl_command_queue, a CUstream). A backend has all six or none. An event is done when all commands
 * that its queue had at the time of recording are done. Tarn calls the six functions only after the
 * program has allocated or recorded memory with a queue. As long as the program uses a single
 * in-order queue, Tarn usually calls only queue_ref() and queue_unref(). It calls the others, too,
 * if a heap has memory that another queue could use.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnAllocatorOps), as TARN_ALLOCATOR_OPS_INIT sets it */

  const gchar *name; /**< nullable; for messages, such as "opencl-immediate"; copied */

  /** TRUE: allocate() may succeed although no memory is left, as clCreateBuffer () does. */
  gboolean deferred;

  /**
   * TRUE: the program does not know of this allocator, because it belongs to a layer between the
   * program and a driver. TARN_FAULTS neither counts its requests nor makes them fail.
   */
  gboolean is_hidden;

  /**
   * Allocates @p size bytes, and stores their handle or address in @p memory, which is all zero
   * bytes before the call. After TARN_ERROR_OUT_OF_MEMORY and TARN_ERROR_LIMIT, a pool returns held
   * blocks and tries again. After any other error, the pool only tries the exact size, if rounding
   * had added bytes. Like the other functions of this struct, this one must return: if a thread
   * leaves it by pthread_exit(), longjmp() or cancellation, other threads may wait for ever.
   */
  gboolean (*allocate) (gpointer user_data, gsize size, TarnMemory *memory, GError **error);

  /**
   * Frees memory of allocate(), which got the same @p size. It must not wait for another thread
   * that allocates from a pool or drops a pool's last reference, because that thread may be waiting
   * for this call.
   */
  void (*free) (gpointer user_data, TarnMemory memory, gsize size);

  /**
   * Nullable. Frees memory of the backend's own when the device has run out of memory. Returns TRUE
   * if it freed some. Tarn calls it at most once for each request to this allocator. To serve one
   * request, a heap may make several requests to the allocator.
   */
  gboolean (*reclaim) (gpointer user_data);

  /**
   * Nullable. The allocator or pool from which the functions of this struct allocate memory, if the
   * new allocator is an adaptor. If an adaptor leaves this field NULL, an allocation from the other
   * allocator fails where it would have to wait for another thread. tarn_allocator_new() reads the
   * field, and takes no reference.
   */
  TarnAllocator *below;

  /* Ordering functions: the next six, all or none. */

  /**
   * Keeps @p queue alive, if the driver can. Stores in @p in_order whether the queue's commands run
   * in order.
   */
  gboolean (*queue_ref) (gpointer user_data, gpointer queue, gboolean *in_order, GError **error);

  /** Undoes queue_ref(). Tarn calls it once for each successful call of queue_ref(). */
  void (*queue_unref) (gpointer user_data, gpointer queue);

  /**
   * Records an event after the present commands of @p queue. The event is valid until
   * event_release(). Returns NULL with an error on failure. The error is TARN_ERROR_NOT_SUPPORTED
   * if the driver must not be called now, as during a capture, and this function has not called it.
   */
  gpointer (*event_record) (gpointer user_data, gpointer queue, GError **error);

  /** Returns TRUE if all commands before @p event are done. The function does not wait. */
  gboolean (*event_is_done) (gpointer user_data, gpointer event);

  /** Makes @p queue wait for @p event. If @p queue is NULL, makes the host wait. */
  gboolean (*event_wait) (gpointer user_data, gpointer event, gpointer queue, GError **error);

  /** Releases an event of event_record() or event_record_all(). */
  void (*event_release) (gpointer user_data, gpointer event);

  /* Each of the next five fields is optional. They need the ordering functions. */

  /**
   * Records an event after all commands that all queues have now. The function is for a backend
   * that cannot keep queues alive: if a backend has it, Tarn calls event_record() only for a queue
   * that the program names in the current call. If a new queue has the handle of an earlier queue,
   * Tarn assumes that the new queue is in order if the earlier one was.
   */
  gpointer (*event_record_all) (gpointer user_data, GError **error);

  /**
   * Returns the queue whose commands make memory of allocate() ready; NULL: there is none. Requests
   * that name no queue are for this queue, unless frees_in_order is TRUE.
   */
  gpointer (*fresh_queue) (gpointer user_data);

  /**
   * Returns TRUE if memory can be allocated now for use on @p queue. If not, the request fails with
   * the error. Tarn calls this function before allocate().
   */
  gboolean (*check_queue) (gpointer user_data, gpointer queue, GError **error);

  /** TRUE: Tarn may call free() while commands on queues still use the memory. */
  gboolean frees_in_order;

  /**
   * Frees memory after the present commands of @p queue. The host does not wait. Returns FALSE if
   * the backend cannot do this. If it returns FALSE, or the function is NULL, Tarn waits for the
   * commands, and then calls free().
   */
  gboolean (*free_on_queue) (gpointer user_data, TarnMemory memory, gsize size, gpointer queue);

  /* For heaps: suballocations (parts), or virtual memory. A heap prefers virtual memory. */

  /**
   * The alignment of parts: bytes, a power of two; 0 without part_new(). Each part's offset is a
   * multiple of it.
   */
  gsize part_alignment;

  /**
   * Nullable. Makes a part: a suballocation of memory of allocate(), from @p offset on. The part
   * can be used like memory of allocate(), at the same time as other parts that do not overlap it.
   * @p part is all zero bytes before the call. Tarn releases all parts before it frees the memory.
   */
  gboolean (*part_new) (gpointer user_data, TarnMemory memory, gsize offset, gsize size,
                        TarnMemory *part, GError **error);

  /**
   * Releases a part of part_new(). NULL: parts need no release, because a part is only an address,
   * @p offset bytes above the memory's address. Then Tarn may compute this address without
   * part_new().
   */
  void (*part_release) (gpointer user_data, TarnMemory part, gsize size);

  /* Virtual memory: the next six functions, all or none. An address is a number in
   * TarnMemory.address, to which Tarn may add bytes. Every size and address is a multiple of the
   * granularity. */

  /** Bytes, a power of two; 0: the backend has no virtual memory. */
  gsize virtual_granularity;

  /**
   * Reserves addresses without memory. The size may be as large as the device's memory, or larger.
   */
  gboolean (*addresses_reserve) (gpointer user_data, gsize size, TarnMemory *addresses,
                                 GError **error);

  /**
   * Releases addresses of addresses_reserve(), after all memory at these addresses was unmapped.
   */
  void (*addresses_release) (gpointer user_data, TarnMemory addresses, gsize size);

  /**
   * Allocates a backing: memory of the device that has no address yet. @p backing is the driver's
   * handle. Fails with TARN_ERROR_OUT_OF_MEMORY if there is too little memory.
   */
  gboolean (*backing_new) (gpointer user_data, gsize size, TarnMemory *backing, GError **error);

  /** Frees a backing, which is not mapped any more. */
  void (*backing_release) (gpointer user_data, TarnMemory backing, gsize size);

  /** Maps all of a backing at reserved addresses. Afterwards commands can use the addresses. */
  gboolean (*backing_map) (gpointer user_data, TarnMemory backing, gsize size, TarnMemory address,
                           GError **error);

  /**
   * TRUE: backing_map() can map a backing that is mapped elsewhere already, so that the same bytes
   * have two addresses. A heap can then move freed memory of a queue while commands on that queue
   * still use the old address. Later commands on the queue use the new address, and see what the
   * earlier ones wrote. FALSE: the heap allocates more memory instead.
   */
  gboolean backing_aliases;

  /**
   * Undoes backing_map(). No command uses the addresses any more. The function must not wait for
   * commands.
   */
  void (*backing_unmap) (gpointer user_data, TarnMemory address, gsize size);

  /**
   * Returns TRUE if mapped memory must keep its address for now, even if it is free, because
   * commands that use it may run again: for example, the commands of a captured graph. As long as
   * it returns TRUE, a heap neither moves nor frees memory that a block has used. The heap calls it
   * with a lock held, so it must not call Tarn. NULL: always FALSE.
   */
  gboolean (*backing_stays) (gpointer user_data);

  /* Contents, for TARN_DEBUG: read() and fill(), or neither. The memory is memory of allocate(), a
   * part, a mapped address, or an address in one of these. No command that Tarn knows of uses
   * it. */

  /** Copies @p size bytes of memory, from @p offset on, to the host, and waits for the copy. */
  gboolean (*read) (gpointer user_data, TarnMemory memory, gsize offset, gsize size, gpointer bytes,
                    GError **error);

  /** Sets @p size bytes of memory, from @p offset on, to @p byte, before later commands run. */
  gboolean (*fill) (gpointer user_data, TarnMemory memory, gsize offset, gsize size, guint8 byte,
                    GError **error);

  /**
   * Nullable. Searches @p size bytes of memory, from @p offset on, for a byte other than @p byte.
   * Stores the offset of the first such byte in the memory, or @p offset + @p size if there is
   * none. NULL: Tarn searches with read().
   */
  gboolean (*find_other) (gpointer user_data, TarnMemory memory, gsize offset, gsize size,
                          guint8 byte, gsize *first, GError **error);

  /**
   * Nullable. For memory that is a handle with a reference count: tells whether the program has
   * references of its own. A pool does not reuse such memory before the program has dropped these
   * references. Tarn calls the function for each block that is freed, so it has to be fast.
   */
  gboolean (*is_retained) (gpointer user_data, TarnMemory memory);

  /**
   * Nullable. Stores how many bytes of memory the device has, and how many of them are free. A
   * number is G_MAXUINT64 if the driver does not say. NULL: neither is known, as for memory of the
   * host.
   */
  gboolean (*get_memory) (gpointer user_data, guint64 *device_bytes, guint64 *free_bytes,
                          GError **error);

  /**
   * Nullable. Returns the address at which the host can read @p size bytes of memory without a
   * driver call, for example if the device is the CPU. Returns NULL if the host cannot. Tarn calls
   * the function if TARN_DEBUG is set, for memory that is not used yet. It tests whether the host
   * sees at this address the bytes that fill() has written. If so, Tarn reads guards at this
   * address, also when a signal ends the program.
   */
  gconstpointer (*find_host) (gpointer user_data, TarnMemory memory, gsize size);
} TarnAllocatorOps;

/**
 * The type of TarnAllocatorOps.free. A backend recognizes its own allocators by this function: see
 * tarn_allocator_is_of().
 *
 * @param user_data  as given to tarn_allocator_new()
 * @param memory     the memory that TarnAllocatorOps.allocate stored
 * @param size       bytes, as in the allocation
 * @since 0.1
 */
typedef void (*TarnAllocatorFreeFunc) (gpointer user_data, TarnMemory memory, gsize size);

/**
 * A TarnAllocatorOps to start from: no functions. It sets every field, so that -Wextra -pedantic
 * does not warn in C and C++.
 *
 * @since 0.1
 */
#define TARN_ALLOCATOR_OPS_INIT                                                                    \
  {                                                                                                \
    sizeof (TarnAllocatorOps), /* struct_size */                                                   \
        NULL,                  /* name */                                                          \
        FALSE,                 /* deferred */                                                      \
        FALSE,                 /* is_hidden */                                                     \
        NULL,                  /* allocate */                                                      \
        NULL,                  /* free */                                                          \
        NULL,                  /* reclaim */                                                       \
        NULL,                  /* below */                                                         \
        NULL,                  /* queue_ref */                                                     \
        NULL,                  /* queue_unref */                                                   \
        NULL,                  /* event_record */                                                  \
        NULL,                  /* event_is_done */                                                 \
        NULL,                  /* event_wait */                                                    \
        NULL,                  /* event_release */                                                 \
        NULL,                  /* event_record_all */                                              \
        NULL,                  /* fresh_queue */                                                   \
        NULL,                  /* check_queue */                                                   \
        FALSE,                 /* frees_in_order */                                                \
        NULL,                  /* free_on_queue */                                                 \
        0,                     /* part_alignment */                                                \
        NULL,                  /* part_new */                                                      \
        NULL,                  /* part_release */                                                  \
        0,                     /* virtual_granularity */                                           \
        NULL,                  /* addresses_reserve */                                             \
        NULL,                  /* addresses_release */                                             \
        NULL,                  /* backing_new */                                                   \
        NULL,                  /* backing_release */                                               \
        NULL,                  /* backing_map */                                                   \
        FALSE,                 /* backing_aliases */                                               \
        NULL,                  /* backing_unmap */                                                 \
        NULL,                  /* backing_stays */                                                 \
        NULL,                  /* read */                                                          \
        NULL,                  /* fill */                                                          \
        NULL,                  /* find_other */                                                    \
        NULL,                  /* is_retained */                                                   \
        NULL,                  /* get_memory */                                                    \
        NULL                   /* find_host */                                                     \
  }

/**
 * Makes an allocator from a backend's functions. This is all that a backend outside this library
 * needs.
 *
 * @param ops        the functions; start from TARN_ALLOCATOR_OPS_INIT. Copied. These are
 *                   programming errors: allocate() or free() is missing; some but not all functions
 *                   of a group (ordering, virtual memory, contents) are set; an alignment or
 *                   granularity is no power of two; a field that this version of the library does
 *                   not have is set.
 * @param user_data  for the functions
 * @param destroy    nullable; called with @p user_data when the last reference and the last block
 *                   are gone, by the thread that dropped the last of them
 * @return (transfer full): the allocator; any thread may use it
 * @since 0.1
 */
TarnAllocator *tarn_allocator_new (const TarnAllocatorOps *ops, gpointer user_data,
                                   GDestroyNotify destroy) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Takes a reference on an allocator.
 *
 * @param allocator  an allocator, or a pool seen as one
 * @return (transfer full): @p allocator; any thread may call it
 * @since 0.1
 */
TarnAllocator *tarn_allocator_ref (TarnAllocator *allocator);

/**
 * Drops a reference on an allocator. Blocks still in use keep what they need alive.
 *
 * @param allocator  an allocator, or a pool seen as one; NULL is allowed. Any thread may call it.
 * @since 0.1
 */
void tarn_allocator_unref (TarnAllocator *allocator);

/**
 * Tells whether an allocation may succeed without memory behind it. If memory runs out, a later
 * command then fails, when it is too late to return cached memory and retry. An allocator that only
 * calls clCreateBuffer is deferred. A pool is deferred if its upstream allocator is.
 *
 * @param allocator  an allocator, or a pool seen as one; any thread may call it
 * @return whether it is deferred
 * @since 0.1
 */
gboolean tarn_allocator_is_deferred (TarnAllocator *allocator);

/**
 * Tells whether an allocator is a backend's own. This is so if the allocator's free function is @p
 * func, which only this backend has. To check a block, a backend passes the result of
 * tarn_block_get_allocator(): the direct allocator, below all pools and heaps.
 *
 * @param allocator  an allocator, or a pool seen as one (then the result is FALSE); any thread may
 *                   call it
 * @param func       TarnAllocatorOps.free, as the backend gave it to tarn_allocator_new()
 * @return TRUE if it was made with @p func; then tarn_allocator_get_user_data() returns the
 *         backend's data
 * @since 0.1
 */
gboolean tarn_allocator_is_of (TarnAllocator *allocator, TarnAllocatorFreeFunc func);

/**
 * Gets the direct allocator, which calls the backend. For a pool or a heap, this is the allocator
 * at the bottom of the stack. For a direct allocator, it is the allocator itself. The function is
 * for backends, which recognize their own allocators by tarn_allocator_is_of().
 *
 * @param allocator  an allocator, or a pool seen as one; any thread may call it
 * @return (transfer none): a direct allocator, valid as long as @p allocator; for a block in use
 *         tarn_block_get_allocator() gets the same
 * @since 0.1
 */
TarnAllocator *tarn_allocator_get_direct (TarnAllocator *allocator);

/**
 * Gets the name of an allocator, for messages. To recognize an allocator, use
 * tarn_allocator_is_of().
 *
 * @param allocator  an allocator, or a pool seen as one; any thread may call it
 * @return (transfer none): TarnAllocatorOps.name or TarnPoolOptions.name, valid as long as
 *         @p allocator; NULL if the allocator has no name
 * @since 0.1
 */
const gchar *tarn_allocator_get_name (TarnAllocator *allocator);

/**
 * Gets the user_data that tarn_allocator_new() was given.
 *
 * @param allocator  an allocator that the caller made; any thread may call it
 * @return (transfer none): the user_data
 * @since 0.1
 */
gpointer tarn_allocator_get_user_data (TarnAllocator *allocator);

/**
 * Gets the functions of an allocator. An adaptor can call them, to pass its own calls on to the
 * allocator. The functions of a heap over virtual memory lend virtual memory from the heap's
 * upstream allocator. Lent memory counts as the heap's: the heap's limit also bounds lent memory,
 * and the heap returns idle memory if there is too little to lend.
 *
 * @param allocator  an allocator, or a pool seen as one; any thread may call it. It must live until
 *                   all memory from its functions has been freed.
 * @param ops        out: start from TARN_ALLOCATOR_OPS_INIT; fields that this version of the
 *                   library does not know become 0
 * @since 0.1
 */
void tarn_allocator_get_ops (TarnAllocator *allocator, TarnAllocatorOps *ops);

/**
 * Allocates a block, from a pool or without one. If a direct allocator is out of memory, it calls
 * its backend's reclaim function and tries once more. For a pool, see tarn_pool_allocate().
 *
 * @param allocator  an allocator, or a pool seen as one; any thread may call it
 * @param size       bytes; 0 is allowed
 * @param error      return location, or NULL: TARN_ERROR_OUT_OF_MEMORY, TARN_ERROR_INVALID_SIZE
 *                   for more than G_MAXSSIZE bytes, TARN_ERROR_FORKED in a child of fork (), or
 *                   what the backend says
 * @return (transfer full): the block, for tarn_block_free(), or NULL with @p error set
 * @since 0.1
 */
TarnBlock *tarn_allocator_allocate (TarnAllocator *allocator, gsize size,
                                    GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Allocates memory without a block. The call is for adaptors: allocators that are built on another
 * one. Programs use blocks instead.
 *
 * @param allocator  an allocator, or a pool seen as one; any thread may call it
 * @param size       bytes; 0 is allowed
 * @param memory     out: the memory; written on success only
 * @param error      return location, or NULL: as tarn_allocator_allocate()
 * @return TRUE, and the caller frees the memory by tarn_allocator_free_memory(); FALSE with
 *         @p error set
 * @since 0.1
 */
gboolean tarn_allocator_allocate_memory (TarnAllocator *allocator, gsize size, TarnMemory *memory,
                                         GError **error);

/**
 * Frees memory of tarn_allocator_allocate_memory(). In a child of fork () it does nothing, but a
 * pool counts the call in TarnPoolStats.ignored_frees.
 *
 * @param allocator  the allocator that allocated the memory; any thread may call it
 * @param memory     the memory, the whole union as it was stored
 * @param size       bytes, as in the allocation
 * @since 0.1
 */
void tarn_allocator_free_memory (TarnAllocator *allocator, TarnMemory memory, gsize size);

/**
 * Tells whether this process may call the driver. A backend calls it before it calls the driver,
 * except in functions of TarnAllocatorOps, for which Tarn has checked already. In a child of
 * fork(), calls to a driver hang, if the parent had called the driver. So a process should fork
 * before it makes an allocator or calls this function: its children may then call the driver.
 *
 * @param error  return location, or NULL: TARN_ERROR_FORKED. In a child of a process whose other
 *               threads make errors, too, GLib before 2.76 may hang when it makes an error. So pass
 *               NULL in such a child, to this function and all others.
 * @return TRUE, or FALSE with @p error set in a child of fork(), if the parent had made an
 *         allocator, or if this function had returned TRUE in the parent; any thread may call it
 * @since 0.1
 */
gboolean tarn_check_fork (GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnAllocator, tarn_allocator_unref)

G_END_DECLS

#endif
