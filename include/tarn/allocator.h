/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Allocators: objects that hand out memory, and the functions of a backend.
 */

#ifndef TARN_ALLOCATOR_H
#define TARN_ALLOCATOR_H

#include <tarn/error.h>

G_BEGIN_DECLS

/**
 * An object that hands out memory: a driver's own allocation, or a pool over one. It is
 * reference-counted. Any function of an allocator may be called from any thread at any time.
 *
 * @since 0.1
 */
typedef struct _TarnAllocator TarnAllocator;

/**
 * A piece of memory in use, as an allocator or a pool gave it. It belongs to whoever allocated it
 * until tarn_block_free(), and may be freed by another thread than the one that allocated it. Any
 * thread may call its other functions, too, but only one at a time those that change it.
 *
 * @since 0.1
 */
typedef struct _TarnBlock TarnBlock;

/**
 * A piece of memory, as its driver names it. It is no more than the name: the memory belongs to the
 * allocator or the block that it is from.
 *
 * @since 0.1
 */
typedef union
{
  gpointer pointer; /**< a cl_mem, shared virtual memory or host memory */
  guint64 address;  /**< a CUdeviceptr */
} TarnMemory;

/**
 * The functions that a backend is made of. tarn_allocator_new() makes an allocator from them. They
 * may be called from any thread, several at a time, and never with a lock of Tarn held. They may
 * call Tarn back, even for the pool or heap that called them. Such a call never waits for another
 * call that may be waiting for it. Instead a request fails, for example if it would exceed a limit
 * until another thread has freed memory; and tarn_pool_forget_queue() may fail with
 * TARN_ERROR_RECURSION.
 *
 * The functions from queue_ref() to event_release() order the use of memory on several queues (a
 * cl_command_queue, a CUstream). A backend has all of these or none. An event stands for everything
 * put on a queue so far. Tarn calls them only once memory was allocated or recorded with a queue.
 * As long as that is a single in-order queue, it calls queue_ref() and queue_unref() alone, unless
 * a heap has memory that could go to another queue. The functions after these are nullable, and
 * need them.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnAllocatorOps), as TARN_ALLOCATOR_OPS_INIT sets it */

  const gchar *name; /**< nullable; for messages, such as "opencl-immediate"; copied */

  /** TRUE: allocate() may succeed without memory behind it, as clCreateBuffer () does. */
  gboolean deferred;

  /**
   * Stores @p size bytes in @p memory. TARN_ERROR_OUT_OF_MEMORY and TARN_ERROR_LIMIT, and no other
   * error, make a pool return its held blocks and try again. @p memory is all zero bytes before the
   * call. This and the other functions must return: a thread that leaves one by pthread_exit (),
   * longjmp () or cancellation leaves what it was in as it is, so that others may wait for ever.
   */
  gboolean (*allocate) (gpointer user_data, gsize size, TarnMemory *memory, GError **error);

  /**
   * Gives back what allocate() stored; @p size is the one asked for then. It must not wait for
   * another thread that allocates from a pool or drops the pool's last reference: that thread may
   * be waiting for this call.
   */
  void (*free) (gpointer user_data, TarnMemory memory, gsize size);

  /** Nullable. Frees memory when it has run out; returns TRUE if it did. Called once for a request.
   */
  gboolean (*reclaim) (gpointer user_data);

  /**
   * Nullable. In an adaptor: the allocator or pool that its functions take memory from, so that
   * they may wait there for other threads. tarn_allocator_new() reads it, and takes no reference.
   */
  TarnAllocator *below;

  /* Order: all of these or none. */

  /** Keeps @p queue alive, if it can be, and says whether its commands run one after the other. */
  gboolean (*queue_ref) (gpointer user_data, gpointer queue, gboolean *in_order, GError **error);

  /** Undoes queue_ref(), once for each time that it succeeded. */
  void (*queue_unref) (gpointer user_data, gpointer queue);

  /**
   * An event for everything put on @p queue so far, until event_release(); NULL with an error:
   * TARN_ERROR_NOT_SUPPORTED where no call can be made at the moment, and none was made.
   */
  gpointer (*event_record) (gpointer user_data, gpointer queue, GError **error);

  /** Returns TRUE if everything that @p event stands for is done; it does not wait. */
  gboolean (*event_is_done) (gpointer user_data, gpointer event);

  /** Makes @p queue wait for @p event; the host if @p queue is NULL. */
  gboolean (*event_wait) (gpointer user_data, gpointer event, gpointer queue, GError **error);

  /** Releases an event of event_record() or event_record_all(). */
  void (*event_release) (gpointer user_data, gpointer event);

  /* Nullable, and of use only with those above. */

  /**
   * An event for everything put on any queue so far, for a backend whose queues may be gone
   * although queue_ref() was called: event_record() is then called only for a queue that the caller
   * has just named. What queue_ref() said of a queue is taken for a later one that has its handle,
   * too.
   */
  gpointer (*event_record_all) (gpointer user_data, GError **error);

  /**
   * The queue on which memory that allocate() has just given is made ready; NULL: none. Unless it
   * frees_in_order, requests that name no queue are for this one.
   */
  gpointer (*fresh_queue) (gpointer user_data);

  /** Returns TRUE if memory can be allocated now for use on @p queue: called before allocate(). */
  gboolean (*check_queue) (gpointer user_data, gpointer queue, GError **error);

  /** TRUE: free() may be called while commands on queues still use the memory. */
  gboolean frees_in_order;

  /**
   * Frees memory once everything put on @p queue so far is done; the host does not wait. FALSE if
   * it cannot. Where the function is missing, the host waits, and then calls free().
   */
  gboolean (*free_on_queue) (gpointer user_data, TarnMemory memory, gsize size, gpointer queue);

  /* Memory that a heap makes blocks of: parts, or virtual memory. Where there are both, a heap
   * uses virtual memory. */

  /**
   * Offsets of parts are multiples of this: bytes, a power of two. With part_new().
   */
  gsize part_alignment;

  /**
   * Nullable. Makes a part of what allocate() gave, from @p offset on, which can be used as if
   * allocate() had given it, beside others of the same memory that do not overlap it. @p part is
   * all zero bytes before the call. The memory is freed after its parts are released.
   */
  gboolean (*part_new) (gpointer user_data, TarnMemory memory, gsize offset, gsize size,
                        TarnMemory *part, GError **error);

  /**
   * Undoes part_new(). Nullable: there is nothing to undo, and the address of a part is that of the
   * memory and @p offset bytes more, so that part_new() need not be called for each.
   */
  void (*part_release) (gpointer user_data, TarnMemory part, gsize size);

  /* Virtual memory: all of these or none. Memory is TarnMemory.address, to which bytes can be
   * added, and every size and address is a multiple of the granularity. */

  /** Bytes, a power of two; 0: there is none of these. */
  gsize virtual_granularity;

  /** Reserves addresses, with nothing behind them; of the order of what the device has, and more.
   */
  gboolean (*addresses_reserve) (gpointer user_data, gsize size, TarnMemory *addresses,
                                 GError **error);

  /** Releases addresses of addresses_reserve(); nothing is mapped there. */
  void (*addresses_release) (gpointer user_data, TarnMemory addresses, gsize size);

  /**
   * Takes memory of the device, which has no address: @p backing is the driver's name for it.
   * TARN_ERROR_OUT_OF_MEMORY where there is too little.
   */
  gboolean (*backing_new) (gpointer user_data, gsize size, TarnMemory *backing, GError **error);

  /** Frees memory of backing_new(); it is not mapped. */
  void (*backing_release) (gpointer user_data, TarnMemory backing, gsize size);

  /** Puts all of a backing behind addresses that were reserved, ready to be used. */
  gboolean (*backing_map) (gpointer user_data, TarnMemory backing, gsize size, TarnMemory address,
                           GError **error);

  /**
   * TRUE: backing_map() can map a backing that is mapped elsewhere already, so that the same bytes
   * have two addresses. A heap then moves freed memory within a queue although commands on
   * that queue still use the old address. Commands that are put on the queue later use the new
   * address, and see what the earlier ones wrote. FALSE: the heap takes more memory instead.
   */
  gboolean backing_aliases;

  /** Undoes backing_map(). No command uses the addresses any more. It does not wait for others. */
  void (*backing_unmap) (gpointer user_data, TarnMemory address, gsize size);

  /**
   * Returns TRUE if mapped memory has to stay where it is for now, even if it is free. Commands may
   * run again that use it, as those of a captured graph do. As long as this returns TRUE, a heap
   * moves no memory and frees none. The heap asks with its lock held, so the function must not call
   * this library. Nullable: FALSE.
   */
  gboolean (*backing_stays) (gpointer user_data);

  /* Contents, for what TARN_DEBUG finds: the first two of these or none. Memory is what allocate()
   * gave, or an address in it; no command that anybody was told of uses it. */

  /** Copies bytes of memory, from @p offset on, to @p bytes on the host, and waits for that. */
  gboolean (*read) (gpointer user_data, TarnMemory memory, gsize offset, gsize size, gpointer bytes,
                    GError **error);

  /** Sets each of these bytes to @p byte, before commands that come later use the memory. */
  gboolean (*fill) (gpointer user_data, TarnMemory memory, gsize offset, gsize size, guint8 byte,
                    GError **error);

  /** Nullable: then memory is read. Stores the offset in memory of the first of these bytes that is
   * another one than @p byte; where none is, @p offset and @p size together. */
  gboolean (*find_other) (gpointer user_data, TarnMemory memory, gsize offset, gsize size,
                          guint8 byte, gsize *first, GError **error);

  /**
   * Tells whether the program has references of its own on memory that it frees, where memory is a
   * handle with a reference count. A pool reuses no such memory as long as that is so. It is called
   * for each block that is freed, so it has to be fast. Nullable.
   */
  gboolean (*is_retained) (gpointer user_data, TarnMemory memory);

  /**
   * Stores how many bytes of memory the device has, and how many of them are free; each is
   * G_MAXUINT64 if the driver does not say. Nullable: neither is known, as for memory of the host.
   */
  gboolean (*get_memory) (gpointer user_data, guint64 *device_bytes, guint64 *free_bytes,
                          GError **error);

  /**
   * Gets where the host can read memory of so many bytes without a call, as it may be where the
   * device is the host's processor. TARN_DEBUG calls it for memory that nobody uses yet, and does
   * not rely on it before it has seen there what fill() writes. It looks at guards there when a
   * signal ends the program. Nullable, and so is what it returns: the host cannot.
   */
  gconstpointer (*find_host) (gpointer user_data, TarnMemory memory, gsize size);
} TarnAllocatorOps;

/**
 * The type of TarnAllocatorOps.free. A backend knows its own allocators by it: see
 * tarn_allocator_is_of().
 *
 * @param user_data  as given to tarn_allocator_new()
 * @param memory     the memory that TarnAllocatorOps.allocate stored
 * @param size       bytes, as asked for then
 * @since 0.1
 */
typedef void (*TarnAllocatorFreeFunc) (gpointer user_data, TarnMemory memory, gsize size);

/**
 * A TarnAllocatorOps with nothing in it. It names every field, so that it is silent under -Wextra
 * -pedantic in C and C++.
 *
 * @since 0.1
 */
#define TARN_ALLOCATOR_OPS_INIT                                                                    \
  {                                                                                                \
    sizeof (TarnAllocatorOps), /* struct_size */                                                   \
        NULL,                  /* name */                                                          \
        FALSE,                 /* deferred */                                                      \
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
 * @param ops        the functions; start from TARN_ALLOCATOR_OPS_INIT. Copied. It is a programming
 *                   error to leave out allocate or free, or some only of the ordering functions,
 *                   or of those of virtual memory or of contents, to have an alignment or
 *                   granularity that is no power of two, or to set what this version of the
 *                   library does not know.
 * @param user_data  for the functions
 * @param destroy    nullable; called with @p user_data when the last reference and the last block
 *                   are gone, by the thread that dropped it
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
 * Tells whether an allocation may succeed without memory behind it. With clCreateBuffer alone it
 * does: out-of-memory then comes from a later command, when it is too late to return cached memory
 * and retry. A pool is as deferred as its upstream allocator.
 *
 * @param allocator  an allocator, or a pool seen as one; any thread may call it
 * @return whether it is deferred
 * @since 0.1
 */
gboolean tarn_allocator_is_deferred (TarnAllocator *allocator);

/**
 * Tells whether an allocator is a backend's own. It is if its memory is freed by a function that
 * only this backend has. An accessor of blocks asks it of tarn_block_get_allocator(), which is the
 * direct allocator, whatever pools are in between.
 *
 * @param allocator  an allocator, or a pool seen as one, which is no backend's; any thread may call
 *                   it
 * @param func       TarnAllocatorOps.free, as the backend gave it to tarn_allocator_new()
 * @return whether it was made with that function; then tarn_allocator_get_user_data() is the
 *         backend's, too
 * @since 0.1
 */
gboolean tarn_allocator_is_of (TarnAllocator *allocator, TarnAllocatorFreeFunc func);

/**
 * Gets the allocator at the bottom, where memory comes from in the end. Of a pool or a heap that is
 * the backend's, of a backend's itself. It is for backends, which know their own by
 * tarn_allocator_is_of().
 *
 * @param allocator  an allocator, or a pool seen as one; any thread may call it
 * @return (transfer none): a direct allocator, valid as long as @p allocator; for a block in use
 *         tarn_block_get_allocator() gets the same
 * @since 0.1
 */
TarnAllocator *tarn_allocator_get_direct (TarnAllocator *allocator);

/**
 * Gets the name of an allocator. It is for messages, not to know one by; tarn_allocator_is_of() is
 * for that.
 *
 * @param allocator  an allocator, or a pool seen as one; any thread may call it
 * @return (transfer none): TarnAllocatorOps.name or TarnPoolOptions.name, valid as long as
 *         @p allocator; NULL: it was given none
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
 * Gets the functions of an allocator. They are for an adaptor that passes calls on to it. Those of
 * a heap over virtual memory lend virtual memory of the heap's upstream allocator. Memory that is
 * lent counts as the heap's: its limit holds for both, and the heap returns idle memory when there
 * is no more.
 *
 * @param allocator  an allocator, or a pool seen as one; any thread may call it. It has to live
 *                   until the memory of its functions was returned to them.
 * @param ops        out: start from TARN_ALLOCATOR_OPS_INIT; what this version of the library does
 *                   not know becomes 0
 * @since 0.1
 */
void tarn_allocator_get_ops (TarnAllocator *allocator, TarnAllocatorOps *ops);

/**
 * Allocates a block, from a pool or without one. A direct allocator that is out of memory asks its
 * own reclaim function and tries once more; a pool does what tarn_pool_allocate() says.
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
 * Allocates bare memory, without a block. It is for an allocator that is built on another one;
 * everybody else works with blocks.
 *
 * @param allocator  an allocator, or a pool seen as one; any thread may call it
 * @param size       bytes; 0 is allowed
 * @param memory     out: the memory; written on success only
 * @param error      return location, or NULL: as tarn_allocator_allocate()
 * @return whether there was memory; give it back with tarn_allocator_free_memory()
 * @since 0.1
 */
gboolean tarn_allocator_allocate_memory (TarnAllocator *allocator, gsize size, TarnMemory *memory,
                                         GError **error);

/**
 * Gives back what tarn_allocator_allocate_memory() stored. In a child of fork () it does nothing,
 * and a pool counts it.
 *
 * @param allocator  where the memory is from; any thread may call it
 * @param memory     the memory, all of the union as it was stored
 * @param size       bytes, as asked for then
 * @since 0.1
 */
void tarn_allocator_free_memory (TarnAllocator *allocator, TarnMemory memory, gsize size);

/**
 * Tells whether this process may call the driver. A backend asks before it calls it from anywhere
 * but the functions of TarnAllocatorOps, before which Tarn has asked already. Drivers do not
 * survive fork (): their calls hang in a child. A process that forks before it first asks is not
 * concerned.
 *
 * @param error  return location, or NULL: TARN_ERROR_FORKED. GLib before 2.76 may hang when it
 *               makes an error in a child of a process whose other threads make errors, too: pass
 *               NULL there, to this function and all others.
 * @return FALSE with @p error set in a child of a process that was told TRUE, or had an allocator;
 *         any thread may call it
 * @since 0.1
 */
gboolean tarn_check_fork (GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnAllocator, tarn_allocator_unref)

G_END_DECLS

#endif
