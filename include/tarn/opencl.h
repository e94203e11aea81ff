/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Everything of libtarn-opencl: allocators, queues, memos, tests and what devices are like.
 *
 * It includes <CL/cl.h>, of which OpenCL 1.2 is enough: define CL_TARGET_OPENCL_VERSION before.
 */

#ifndef TARN_OPENCL_H
#define TARN_OPENCL_H

#include <CL/cl.h>
#include <tarn/tarn.h>

G_BEGIN_DECLS

/**
 * The domain of errors whose code is OpenCL's own status, a cl_int.
 *
 * @since 0.1
 */
#define TARN_OPENCL_ERROR (tarn_opencl_error_quark ())

/**
 * Gets the domain of OpenCL's errors: write TARN_OPENCL_ERROR. Their code is OpenCL's status, a
 * cl_int.
 *
 * @return the quark, the same for the life of the process; any thread may call it
 * @since 0.1
 */
GQuark tarn_opencl_error_quark (void);

/**
 * Gets the name of an OpenCL status, such as "CL_INVALID_VALUE".
 *
 * @param status  the status of an OpenCL function
 * @return (transfer none): a constant string, "unknown status" for what has no name; any thread may
 *         call it
 * @since 0.1
 */
const gchar *tarn_opencl_status_name (cl_int status);

/**
 * Converts an error to an OpenCL status. It is for functions that return a cl_int.
 *
 * The code of a TARN_OPENCL_ERROR is a status already. The codes of TARN_ERROR become:
 *
 * - OUT_OF_MEMORY, LIMIT: CL_MEM_OBJECT_ALLOCATION_FAILURE
 * - INVALID_SIZE: CL_INVALID_BUFFER_SIZE
 * - INVALID_ARGUMENT, INVALID_SELECTION: CL_INVALID_VALUE
 * - NO_DEVICE: CL_DEVICE_NOT_FOUND
 * - NO_DRIVER: CL_PLATFORM_NOT_FOUND_KHR, which is -1001
 * - NO_CONTEXT, CONTEXT_LOST: CL_INVALID_CONTEXT
 * - NOT_SUPPORTED, FORKED, RECURSION: CL_INVALID_OPERATION
 *
 * @param error  nullable: what a function has set; any thread may call this
 * @return the status; CL_SUCCESS for NULL, CL_OUT_OF_RESOURCES for any other error
 * @since 0.1
 */
cl_int tarn_opencl_error_to_status (const GError *error);

/**
 * Finds an OpenCL function for Tarn. Any thread may call it.
 *
 * @param name       the function's name, such as "clCreateBuffer"
 * @param user_data  as given to tarn_opencl_set_functions()
 * @return the function, or NULL where there is none
 * @since 0.1
 */
typedef gpointer (*TarnOpenclFindFunc) (const gchar *name, gpointer user_data);

/**
 * Gives Tarn the OpenCL functions that it is to call. A program that opens OpenCL itself calls this
 * once, before any other function of libtarn-opencl. Other programs need not call it: Tarn calls
 * the functions that the process has under OpenCL's names, from a library that the program is
 * linked with or from the program itself. If there are none, Tarn opens libOpenCL.so.1.
 *
 *     static gpointer
 *     find (const gchar *name, gpointer library)
 *     {
 *       gpointer function = NULL;
 *
 *       g_module_symbol (library, name, &function);
 *       return function;
 *     }
 *
 *     tarn_opencl_set_functions (find, library, &error);
 *
 * @param find       finds a function by its name, such as "clCreateBuffer"; NULL where there is
 *                   none. OpenCL 1.2's must be there. It is called in this call, and later for
 *                   tarn_opencl_get_function(), from any thread.
 * @param user_data  for @p find; it must be valid until the process ends
 * @param error      return location, or NULL: TARN_ERROR_NO_DRIVER, naming a function that
 *                   @p find did not find; TARN_ERROR_INVALID_ARGUMENT if Tarn has OpenCL's
 *                   functions already; TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing changed; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_set_functions (TarnOpenclFindFunc find, gpointer user_data, GError **error);

/**
 * Gets an OpenCL function where Tarn has its own from. A program that is not linked with OpenCL
 * calls OpenCL with it.
 *
 *     cl_int (*finish) (cl_command_queue) = tarn_opencl_get_function ("clFinish", &error);
 *
 * @param name   the function's name
 * @param error  return location, or NULL: TARN_ERROR_NO_DRIVER where there is no OpenCL, with the
 *               reason; TARN_ERROR_NOT_SUPPORTED where it has no such function; TARN_ERROR_FORKED
 * @return the function, valid until the process ends, or NULL with @p error set; any thread may
 *         call it
 * @since 0.1
 */
gpointer tarn_opencl_get_function (const gchar *name, GError **error);

/**
 * Makes an allocator that only calls clCreateBuffer. Many drivers look for memory only when a
 * command first uses the buffer, and that command then fails. For a pool, use
 * tarn_opencl_immediate_allocator_new(). A block of 0 bytes has no buffer.
 *
 * A part of a buffer (TarnAllocatorOps.part_new) is a sub-buffer. clCreateSubBuffer gets those of
 * the flags that it accepts; the sub-buffer inherits the others. Kernels and commands use a
 * sub-buffer like any other buffer, but:
 *
 * - clCreateSubBuffer fails on it.
 * - Its CL_MEM_ASSOCIATED_MEMOBJECT is the whole buffer.
 * - It is aligned only to CL_DEVICE_MEM_BASE_ADDR_ALIGN, the largest of the context's devices.
 * - Commands may use parts that do not overlap at the same time. They may use a part and the whole
 *   buffer at the same time only if all of them read.
 *
 * @param context  the context of the buffers; retained
 * @param flags    for clCreateBuffer; without CL_MEM_WRITE_ONLY or CL_MEM_READ_ONLY, 0 for example,
 *                 with CL_MEM_READ_WRITE
 * @param error    return location, or NULL: TARN_ERROR_FORKED, or TARN_OPENCL_ERROR, with
 *                 CL_INVALID_VALUE for CL_MEM_USE_HOST_PTR or CL_MEM_COPY_HOST_PTR
 * @return (transfer full): the allocator, which any thread may use, or NULL with @p error set
 * @since 0.1
 */
TarnAllocator *tarn_opencl_deferred_allocator_new (cl_context context, cl_mem_flags flags,
                                                   GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Makes an allocator of buffers that are on the device at once. It is the queue's device. If the
 * device has no memory left, the allocation fails, and not a later command. After clCreateBuffer,
 * the allocator enqueues a command that makes the driver place the buffer, and does not wait for
 * it:
 *
 * - clEnqueueMigrateMemObjects with CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED
 * - on NVIDIA's devices, where that is not thread-safe, a fill of up to 4 bytes
 * - on a device older than OpenCL 1.2, a write of up to 4 bytes
 *
 * A block of 0 bytes has no buffer. Parts are sub-buffers, as for
 * tarn_opencl_deferred_allocator_new(), and are on the device with their buffer.
 *
 * A program may retain the buffer of a block (clRetainMemObject), as reference-counted wrappers do.
 * When the block is freed, the pool reads CL_MEM_REFERENCE_COUNT. It does not reuse the buffer
 * until the program has released it; until then its bytes count as in use. The pool does so with
 * NVIDIA's driver, and with PoCL for blocks of a heap. With other drivers, the count may include
 * the driver's own references, so the program must not use a buffer after its block was freed.
 *
 * @param queue  the queue of that command; retained, and so is its context. If another queue uses a
 *               buffer, it must wait for this one. A pool makes it wait if the request names the
 *               other queue: see tarn_opencl_pool_allocate().
 * @param flags  for clCreateBuffer; without CL_MEM_WRITE_ONLY or CL_MEM_READ_ONLY, 0 for example,
 *               with CL_MEM_READ_WRITE
 * @param error  return location, or NULL: TARN_ERROR_FORKED, or TARN_OPENCL_ERROR, with
 *               CL_INVALID_VALUE for CL_MEM_USE_HOST_PTR or CL_MEM_COPY_HOST_PTR
 * @return (transfer full): the allocator, which any thread may use, or NULL with @p error set
 * @since 0.1
 */
TarnAllocator *tarn_opencl_immediate_allocator_new (cl_command_queue queue, cl_mem_flags flags,
                                                    GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Makes an allocator of shared virtual memory (clSVMAlloc). Every device of the context must be of
 * OpenCL 2.0 or later and have it coarse-grain.
 *
 * With a queue, blocks are bound to it from the start: freed without a pool, they go as the last
 * command on it (clEnqueueSVMFree), and a pool hands them out for it where a request names no
 * queue. Without one the memory of a block that no queue was named for goes at once (clSVMFree):
 * the caller has waited for what uses it.
 *
 * Where there is no memory left, an allocation waits for what queues have still to free, as long as
 * they do: one that frees nothing for a second may be waiting for the host, and is not waited for.
 *
 * A part of a block (TarnAllocatorOps.part_new) is an address within it, aligned as the block is.
 * It goes to kernels and commands as the block's address does, but not to clSVMFree or
 * clEnqueueSVMFree.
 *
 * @param context    where memory belongs; retained
 * @param alignment  bytes, for clSVMAlloc; 0: the largest that any type of OpenCL C needs
 * @param flags      for clSVMAlloc; without CL_MEM_WRITE_ONLY or CL_MEM_READ_ONLY, 0 for example,
 *                   with CL_MEM_READ_WRITE
 * @param queue      nullable: of the context, in order; retained
 * @param error      return location, or NULL: TARN_ERROR_NOT_SUPPORTED, naming the device and what
 *                   it lacks; TARN_ERROR_INVALID_ARGUMENT for a queue of another context;
 *                   TARN_OPENCL_ERROR with the driver's status, and with CL_INVALID_VALUE for an
 *                   out-of-order queue; TARN_ERROR_FORKED
 * @return (transfer full): the allocator, which any thread may use, or NULL with @p error set
 * @since 0.1
 */
TarnAllocator *tarn_opencl_svm_allocator_new (cl_context context, cl_uint alignment,
                                              cl_bitfield flags, cl_command_queue queue,
                                              GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Gets the buffer of a block. The block is from an allocator of buffers, or from a pool over one.
 *
 * @param block  a block in use; a block of another kind of memory is a programming error. Any
 *               thread may call it.
 * @return (transfer none): valid until tarn_block_free(), which releases it or lets the pool hand
 *         it out again; NULL for a block of 0 bytes, but a pool has one of 1 byte for it if it can
 * @since 0.1
 */
cl_mem tarn_opencl_block_get_buffer (const TarnBlock *block);

/**
 * Gets the address of a block of shared virtual memory. It is the same on host and devices.
 *
 * @param block  a block in use; a block of another kind of memory is a programming error. Any
 *               thread may call it.
 * @return valid until tarn_block_free(); NULL for a block of 0 bytes, but a pool has one of 1 byte
 *         for it if it can
 * @since 0.1
 */
gpointer tarn_opencl_block_get_svm (const TarnBlock *block);

/* Pools, and memory that several queues use */

/**
 * Makes a pool of buffers that suits most programs. The pool is over a heap, and the heap is over
 * tarn_opencl_immediate_allocator_new(). The heap takes little more memory than is in use, for
 * requests of any sizes, and seldom calls the driver.
 *
 * The pool's buffers are sub-buffers of larger ones. Kernels and commands use them like any other
 * buffers, but:
 *
 * - clCreateSubBuffer fails on them; tarn_opencl_block_create_sub_buffer() makes a part of a block.
 * - Their CL_MEM_ASSOCIATED_MEMOBJECT is the larger buffer.
 * - They are aligned only to CL_DEVICE_MEM_BASE_ADDR_ALIGN.
 * - Some drivers fail at copies between sub-buffers and images (PoCL 3.1 to 6.0, also at
 *   clEnqueueCopyBufferRect; rusticl of Mesa 22.3).
 *
 * With TARN_POOL_WHOLE_BUFFERS the pool has no heap, and its buffers are no sub-buffers.
 *
 * In a context of several devices, name a queue in each request (tarn_opencl_pool_allocate()). Then
 * blocks of two queues are never in one larger buffer, which some drivers would move as a whole.
 *
 * @param queue    a queue of the device; retained, and so is its context. When the heap gets memory
 *                 from the driver, this queue makes it ready, and the host waits for all commands
 *                 of this queue. tarn_opencl_pool_new_for_device() makes a queue for that.
 * @param flags    for clCreateBuffer, as for tarn_opencl_immediate_allocator_new(); 0 for
 *                 CL_MEM_READ_WRITE
 * @param options  nullable: the defaults; start from TARN_POOL_OPTIONS_INIT. The limit also bounds
 *                 the memory that the heap takes from the driver. tarn_pool_set_limit_bytes()
 *                 changes it for both. TarnPoolOptions.heap has other options of the heap.
 * @param error    return location, or NULL: as tarn_opencl_immediate_allocator_new(),
 *                 tarn_heap_allocator_new() and tarn_pool_new()
 * @return (transfer full): an empty pool, which any thread may use, or NULL with @p error set
 * @since 0.1
 */
TarnPool *tarn_opencl_pool_new (cl_command_queue queue, cl_mem_flags flags,
                                const TarnPoolOptions *options,
                                GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Makes a pool for a device, without a queue of the program. Otherwise it is like
 * tarn_opencl_pool_new(). The pool makes a queue of its own, which makes fresh memory ready: with a
 * heap the host waits for that queue, without a heap the queue that first uses the memory does.
 * Name a queue in each request or free, or wait for the queue before you free a block.
 *
 * @param context  the context of the buffers; retained
 * @param device   a device of the context, which gets the memory
 * @param flags    as for tarn_opencl_pool_new()
 * @param options  as for tarn_opencl_pool_new()
 * @param error    return location, or NULL: as tarn_opencl_pool_new(); TARN_OPENCL_ERROR where no
 *                 queue can be made, such as for a device of another context
 * @return (transfer full): an empty pool, which any thread may use, or NULL with @p error set
 * @since 0.1
 */
TarnPool *tarn_opencl_pool_new_for_device (cl_context context, cl_device_id device,
                                           cl_mem_flags flags, const TarnPoolOptions *options,
                                           GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Allocates a block from a pool, for use on a queue. It is tarn_pool_allocate_ordered() for a
 * cl_command_queue. The pool retains the queue as long as it remembers the queue, so the caller may
 * release it at any time.
 *
 * The pool orders queues by markers, barriers and waits for events. If a driver breaks OpenCL's
 * promises about these, commands are not ordered, and there is no error.
 *
 * @param pool   a pool over one of libtarn-opencl's allocators; any thread may call it
 * @param size   bytes; 0 is allowed
 * @param queue  nullable: a queue of the allocator's context. NULL: as tarn_pool_allocate(). An
 *               out-of-order queue may have to wait for its own commands too.
 * @param error  return location, or NULL: as tarn_pool_allocate(), TARN_ERROR_INVALID_ARGUMENT for
 *               a queue of another context, TARN_ERROR_NOT_SUPPORTED for a device before OpenCL
 *               1.2, or TARN_OPENCL_ERROR with the driver's status
 * @return (transfer full): the block, for tarn_block_free(), or NULL with @p error set
 * @since 0.1
 */
TarnBlock *tarn_opencl_pool_allocate (TarnPool *pool, gsize size, cl_command_queue queue,
                                      GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Allocates a block and fills it with bytes of the host. It replaces clCreateBuffer with
 * CL_MEM_COPY_HOST_PTR. The function copies the bytes before it returns, so the caller may then
 * change them. The host does not wait for commands on the queue. Later commands on the queue find
 * the bytes in the block; another queue must wait for this one.
 *
 * @param pool   a pool over one of libtarn-opencl's allocators; any thread may call it
 * @param bytes  the block's contents; may be NULL for 0 bytes
 * @param size   bytes
 * @param queue  the queue that the block is allocated for, and that fills it
 * @param error  return location, or NULL: as tarn_opencl_pool_allocate(), and what OpenCL says of
 *               the command, such as CL_INVALID_OPERATION where the pool's flags are
 *               CL_MEM_HOST_READ_ONLY or CL_MEM_HOST_NO_ACCESS
 * @return (transfer full): the block, for tarn_block_free(), or NULL with @p error set
 * @since 0.1
 */
TarnBlock *tarn_opencl_pool_allocate_copy (TarnPool *pool, gconstpointer bytes, gsize size,
                                           cl_command_queue queue,
                                           GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Finds the block in use that has a buffer. It is tarn_pool_find() for a cl_mem.
 *
 * @param pool    a pool with TARN_POOL_FINDABLE, over an allocator of buffers
 * @param buffer  the result of tarn_opencl_block_get_buffer()
 * @return (transfer none): the block, or NULL where no block in use has that buffer; valid until
 *         tarn_block_free(). Any thread may call it.
 * @since 0.1
 */
TarnBlock *tarn_opencl_pool_find (TarnPool *pool, cl_mem buffer);

/**
 * Makes a cl_mem of a part of a block. The block may be a sub-buffer itself. clCreateSubBuffer
 * accepts no sub-buffer, so the part is then a sub-buffer of the larger buffer. The caller releases
 * the part before it frees the block. A pool that reads reference counts
 * (tarn_opencl_immediate_allocator_new()) keeps the block aside until the part is released.
 *
 * @param block   a block in use, of an allocator of buffers or of a pool over one; any thread may
 *                call it
 * @param flags   for clCreateSubBuffer; 0: the larger buffer's
 * @param origin  bytes from the beginning of the block: a multiple of
 *                CL_DEVICE_MEM_BASE_ADDR_ALIGN, which is in bits
 * @param size    bytes, more than 0
 * @param error   return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for a part that is not
 * within the block; TARN_OPENCL_ERROR with clCreateSubBuffer's status; TARN_ERROR_OUT_OF_MEMORY;
 * TARN_ERROR_FORKED
 * @return (transfer full): the part, for clReleaseMemObject (), or NULL with @p error set
 * @since 0.1
 */
cl_mem tarn_opencl_block_create_sub_buffer (TarnBlock *block, cl_mem_flags flags, gsize origin,
                                            gsize size, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Records that commands on a queue use a block. It is tarn_block_record_use() for a
 * cl_command_queue.
 *
 * @param block  a block in use, of one of libtarn-opencl's allocators or of a pool over one
 * @param queue  a queue of the allocator's context; retained
 * @param error  return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for a queue of another
 *               context, TARN_ERROR_NOT_SUPPORTED for a device before OpenCL 1.2,
 *               TARN_ERROR_FORKED, or TARN_OPENCL_ERROR with the driver's status
 * @return TRUE, or FALSE with @p error set and nothing changed; any thread may call it, one at a
 *         time for a block
 * @since 0.1
 */
gboolean tarn_opencl_block_record_use (TarnBlock *block, cl_command_queue queue, GError **error);

/**
 * Frees a block that a queue may still use. It is tarn_block_free_on() for a cl_command_queue.
 *
 * @param block  (transfer full): a block of one of libtarn-opencl's allocators or of a pool over
 *               one; NULL is allowed. Any thread may call it.
 * @param queue  nullable: of the allocator's context; retained
 * @since 0.1
 */
void tarn_opencl_block_free_on (TarnBlock *block, cl_command_queue queue);

/**
 * Moves a block to one queue, which waits for the others. It waits for everything that
 * they have been given so far; the block is that queue's alone afterwards. PyOpenCL calls this
 * SVMAllocation.bind_to_queue(), and tarn_block_wait() unbind_from_queue().
 *
 * @param block  a block in use, of one of libtarn-opencl's allocators or of a pool over one; a
 *               block of 0 bytes, too, although there is nothing to wait for
 * @param queue  a queue of the allocator's context; for shared virtual memory in order, as in
 * PyOpenCL; retained
 * @param error  return location, or NULL: as tarn_opencl_block_record_use(), and TARN_OPENCL_ERROR
 *               with CL_INVALID_VALUE for shared virtual memory and an out-of-order queue
 * @return TRUE, or FALSE with @p error set; any thread may call it, one at a time for a block
 * @since 0.1
 */
gboolean tarn_opencl_block_move_to_queue (TarnBlock *block, cl_command_queue queue, GError **error);

/**
 * Gets the queue that a block is used on. It is the queue that the block was allocated for, moved
 * to or first recorded with. A block of 0 bytes has a queue like any other.
 *
 * @param block  a block in use, of one of libtarn-opencl's allocators or of a pool over one; any
 *               thread may call it, while none moves the block or records a use
 * @return (transfer none): valid as long as the block is its own; NULL: none
 * @since 0.1
 */
cl_command_queue tarn_opencl_block_get_queue (const TarnBlock *block);

/* Images */

/**
 * A pool of images. It holds freed images and hands them out again, as a pool of buffers does. Any
 * thread may call any function of it at any time.
 *
 * @since 0.1
 */
typedef struct _TarnOpenclImagePool TarnOpenclImagePool;

/**
 * Makes a pool of images. It holds freed images, and hands one out again if a request has the same
 * flags, format and descriptor. Queues, threads, limits, out of memory, recordings and snapshots
 * work as for a pool of buffers: see tarn_opencl_image_pool_get_pool().
 *
 * For a new image, the pool calls clCreateImage, and then clEnqueueMigrateMemObjects to move it to
 * the queue's device at once. On NVIDIA's devices, where that is not thread-safe, it fills one
 * pixel instead. The host waits for neither.
 *
 * The bytes of an image are those of its pixels, and a few more if other kinds of images would have
 * the same number. A driver may take more, because it pads rows or stores an image in tiles; OpenCL
 * does not say how much.
 *
 * @param queue    a queue of the device, which must support images; retained, and so is its
 *                 context. It makes memory ready.
 * @param buffers  nullable: a pool that shares its limit and its reclaim group with the images. The
 *                 function takes a reference. The bytes of all images, also held ones, are charged
 *                 to the pool (tarn_pool_charge()), so its limit bounds both. Near the limit, and
 *                 if memory runs out, held buffers make room for images, and held images for
 *                 buffers. If the pool is in no group, it and the images get a new one.
 * @param options  nullable: the defaults; start from TARN_POOL_OPTIONS_INIT. limit_bytes bounds the
 *                 images alone. A hold_bytes of 0 means an eighth of the device's memory
 *                 (CL_DEVICE_GLOBAL_MEM_SIZE), because held images of a size that does not come
 *                 again are of no use; G_MAXSIZE: there is no bound. leading_bits_in_bin_id is
 *                 ignored.
 * @param error    return location, or NULL: TARN_ERROR_NOT_SUPPORTED for a device without images or
 *                 older than OpenCL 1.2; TARN_ERROR_FORKED; TARN_ERROR_NO_DRIVER;
 *                 TARN_ERROR_INVALID_ARGUMENT; or TARN_OPENCL_ERROR
 * @return (transfer full): an empty pool, which any thread may use, or NULL with @p error set
 * @since 0.1
 */
TarnOpenclImagePool *tarn_opencl_image_pool_new (cl_command_queue queue, TarnPool *buffers,
                                                 const TarnPoolOptions *options,
                                                 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Takes a reference on a pool of images.
 *
 * @param pool  a pool of images; any thread may call it
 * @return (transfer full): @p pool
 * @since 0.1
 */
TarnOpenclImagePool *tarn_opencl_image_pool_ref (TarnOpenclImagePool *pool);

/**
 * Releases a reference on a pool of images. With the last one, held images are released; images in
 * use stay valid until their blocks are freed.
 *
 * @param pool  (transfer full): a pool of images; NULL is allowed. Any thread may call it. In a
 *              child of fork () it does nothing.
 * @since 0.1
 */
void tarn_opencl_image_pool_unref (TarnOpenclImagePool *pool);

/**
 * Allocates an image from a pool. Its content is undefined. A held image serves the request if it
 * has the same flags, format and descriptor. Fields of the descriptor that the type of image does
 * not use, such as the height of a 1D image, do not matter.
 *
 * @param pool    a pool of images; any thread may call it
 * @param flags   for clCreateImage; without CL_MEM_WRITE_ONLY or CL_MEM_READ_ONLY, 0 for example,
 *                with CL_MEM_READ_WRITE
 * @param format  for clCreateImage
 * @param desc    for clCreateImage: a 1D, 2D or 3D image, or an array of 1D or 2D images. Pitches,
 *                num_mip_levels, num_samples and buffer must be 0.
 * @param queue   nullable: the queue that uses the image, as for tarn_opencl_pool_allocate()
 * @param error   return location, or NULL: as tarn_opencl_pool_allocate();
 *                TARN_ERROR_INVALID_ARGUMENT for a descriptor that a pool cannot serve;
 *                TARN_ERROR_INVALID_SIZE for more bytes than can be counted; TARN_OPENCL_ERROR with
 *                CL_INVALID_VALUE for CL_MEM_USE_HOST_PTR or CL_MEM_COPY_HOST_PTR, and with
 *                clCreateImage's status, such as CL_IMAGE_FORMAT_NOT_SUPPORTED
 * @return (transfer full): a block for tarn_block_free(), whose image is
 *         tarn_opencl_block_get_image(), or NULL with @p error set
 * @since 0.1
 */
TarnBlock *tarn_opencl_image_pool_allocate (TarnOpenclImagePool *pool, cl_mem_flags flags,
                                            const cl_image_format *format,
                                            const cl_image_desc *desc, cl_command_queue queue,
                                            GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Gets the pool behind a pool of images. It is for counters, limits and trimming:
 * tarn_pool_get_stats(), tarn_pool_trim(), tarn_pool_set_limit_bytes(), tarn_pool_find() and other
 * functions work on the images. Do not allocate from it: tarn_pool_allocate() fails with
 * TARN_ERROR_INVALID_SIZE, or returns an image that happens to have as many bytes.
 *
 * @param pool  a pool of images; any thread may call it
 * @return (transfer none): valid as long as @p pool; take a reference to keep it longer
 * @since 0.1
 */
TarnPool *tarn_opencl_image_pool_get_pool (TarnOpenclImagePool *pool);

/**
 * Gets the image of a block. The block is from a pool of images.
 *
 * @param block  a block in use; a block of another kind of memory is a programming error. Any
 *               thread may call it.
 * @return (transfer none): valid until tarn_block_free(), which releases it or lets the pool hand
 *         it out again
 * @since 0.1
 */
cl_mem tarn_opencl_block_get_image (const TarnBlock *block);

/* Results that are computed once for each context, queue or device */

/**
 * Makes a memo whose first argument is a cl_context. It is like tarn_memo_new(), but it retains a
 * context as long as it has an entry for it. So call tarn_memo_forget_everywhere() or a similar
 * function before you release the last reference to a context. OpenCL has no current context, so
 * NULL as the first argument is a programming error.
 *
 * @param ops        nullable: for keys and values; its fields for first arguments must be NULL
 * @param func       computes a value
 * @param user_data  for @p func and the functions of @p ops
 * @param destroy    nullable: of @p user_data
 * @return (transfer full): the memo, for tarn_memo_unref(); any thread may use it
 * @since 0.1
 */
TarnMemo *tarn_opencl_context_memo_new (const TarnMemoOps *ops, TarnMemoFunc func,
                                        gpointer user_data,
                                        GDestroyNotify destroy) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Makes a memo whose first argument is a cl_command_queue. Otherwise it is like
 * tarn_opencl_context_memo_new().
 *
 * @param ops        nullable: for keys and values; its fields for first arguments must be NULL
 * @param func       computes a value
 * @param user_data  for @p func and the functions of @p ops
 * @param destroy    nullable: of @p user_data
 * @return (transfer full): the memo, for tarn_memo_unref(); any thread may use it
 * @since 0.1
 */
TarnMemo *tarn_opencl_queue_memo_new (const TarnMemoOps *ops, TarnMemoFunc func, gpointer user_data,
                                      GDestroyNotify destroy) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Makes a memo whose first argument is a cl_device_id. Otherwise it is like
 * tarn_opencl_context_memo_new().
 *
 * @param ops        nullable: for keys and values; its fields for first arguments must be NULL
 * @param func       computes a value
 * @param user_data  for @p func and the functions of @p ops
 * @param destroy    nullable: of @p user_data
 * @return (transfer full): the memo, for tarn_memo_unref(); any thread may use it
 * @since 0.1
 */
TarnMemo *tarn_opencl_device_memo_new (const TarnMemoOps *ops, TarnMemoFunc func,
                                       gpointer user_data,
                                       GDestroyNotify destroy) G_GNUC_WARN_UNUSED_RESULT;

/**
 * The key of a kernel, for a memo of kernels. tarn_opencl_kernel_memo_new() makes the memo, which
 * copies the key.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size;    /**< sizeof (TarnOpenclKernelKey), as TARN_OPENCL_KERNEL_KEY_INIT sets it */
  const gchar *source;  /**< the program's source, in OpenCL C */
  const gchar *options; /**< for clBuildProgram (); nullable */
  const gchar *kernel_name; /**< the kernel's name in the program */
  cl_device_id device;      /**< the device that it is to run on */
} TarnOpenclKernelKey;

/**
 * A TarnOpenclKernelKey to start from: every field at its default.
 *
 * @since 0.1
 */
#define TARN_OPENCL_KERNEL_KEY_INIT                                                                \
  {                                                                                                \
    sizeof (TarnOpenclKernelKey), /* struct_size */                                                \
        NULL,                     /* source */                                                     \
        NULL,                     /* options */                                                    \
        NULL,                     /* kernel_name */                                                \
        NULL                      /* device */                                                     \
  }

/**
 * Makes a memo of kernels, which builds each program once. Its first argument is a cl_context, its
 * key is a TarnOpenclKernelKey, and its value is a cl_kernel. Each thread has a cl_kernel of its
 * own, so it can set the arguments without a lock. The memo builds a program once for each context,
 * device, source and options, for all kernels in it and for all threads.
 *
 *     TarnOpenclKernelKey key = TARN_OPENCL_KERNEL_KEY_INIT;
 *     cl_kernel kernel;
 *
 *     key.source = source;
 *     key.kernel_name = "scale";
 *     key.device = device;
 *     if (!tarn_opencl_kernel_memo_get (kernels, context, &key, &kernel, &error))
 *       ...
 *     clSetKernelArg (kernel, 0, sizeof x, &x);
 *     ...
 *     clReleaseKernel (kernel);
 *
 * When a thread has ended, a later one gets its kernel. Programs and kernels retain their context;
 * tarn_memo_forget_everywhere() releases them. tarn_memo_get() also returns these kernels, as a
 * gpointer. A key without source, kernel_name or device fails there with
 * TARN_ERROR_INVALID_ARGUMENT.
 *
 * @return (transfer full): the memo, for tarn_memo_unref(); any thread may use it
 * @since 0.1
 */
TarnMemo *tarn_opencl_kernel_memo_new (void) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Gets the kernel of the calling thread. It is tarn_memo_get() for a memo of
 * tarn_opencl_kernel_memo_new().
 *
 * @param memo     the memo
 * @param context  where the kernel is built
 * @param key      the kernel; source, kernel_name and device must be set
 * @param kernel   out: the kernel, with a reference for clReleaseKernel ()
 * @param error    return location, or NULL: as tarn_memo_get(); TARN_OPENCL_ERROR with the driver's
 *                 status, and with up to 64 KiB of the build log if the program does not compile;
 *                 TARN_ERROR_INVALID_ARGUMENT for a key that sets fields that this version of the
 *                 library does not have
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_kernel_memo_get (TarnMemo *memo, cl_context context,
                                      const TarnOpenclKernelKey *key, cl_kernel *kernel,
                                      GError **error);

/**
 * A device that was chosen. The strings are its own, and nothing in it changes.
 *
 * @since 0.1
 */
typedef struct
{
  cl_platform_id platform; /**< its platform */
  cl_device_id device;     /**< the device */
  guint platform_index;    /**< the platform's place among those that the loader lists */
  guint device_index;      /**< the device's place among those of its platform */
  gchar *platform_name;    /**< CL_PLATFORM_NAME */
  gchar *name;             /**< CL_DEVICE_NAME */
  gchar *vendor;           /**< CL_DEVICE_VENDOR */
  gchar *uuid;             /**< nullable; as cl_khr_device_uuid gives it */
  gchar *pci;              /**< nullable; as cl_khr_pci_bus_info gives it: "0000:65:00.0" */
  gchar *selector;         /**< a text that chooses it: see tarn_selection_make_selector() */
  gpointer reserved[4];    /**< for later */
} TarnOpenclDevice;

/**
 * Chooses the OpenCL devices that tests run on. @p selection chooses them, in the strict syntax of
 * tarn_selection_resolve(). If it is NULL, TARN_TEST in the environment does, in the same syntax,
 * or else PYOPENCL_TEST in PyOpenCL's syntax. If neither is set, every device is chosen.
 *
 * The function skips platforms without a device. Without OpenCL there is no device. If a driver
 * returns an error, a g_message() names it. Devices that the driver does not describe are left out.
 *
 * @param selection  nullable: the text, such as "0:0"; NULL: use the environment
 * @param error      return location, or NULL: TARN_ERROR_INVALID_SELECTION, with the source of the
 *                   text and the available devices; TARN_ERROR_FORKED in a child of fork ()
 * @return (transfer full): an array of TarnOpenclDevice, which may be empty, for
 *         g_ptr_array_unref(), or NULL with @p error set. Any thread may call it, while none
 *         changes the environment.
 * @since 0.1
 */
GPtrArray *tarn_opencl_select_test_devices (const gchar *selection,
                                            GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * The devices that a test is to run on. All of it is valid during the test.
 *
 * @since 0.1
 */
typedef struct
{
  cl_platform_id platform;      /**< the platform of the devices */
  cl_device_id device;          /**< the device; in a test per platform: the first one */
  const cl_device_id *devices;  /**< the device; in a test per platform: all chosen ones */
  guint n_devices;              /**< how many devices there are */
  const TarnOpenclDevice *info; /**< about the device */
  gpointer reserved[4];         /**< for later */
} TarnOpenclTest;

/**
 * The function of a test. It runs in the thread that calls g_test_run ().
 *
 * @param test  the device, context and queue to run on
 * @param data  as given to tarn_opencl_test_add() or tarn_opencl_test_add_per_platform()
 * @since 0.1
 */
typedef void (*TarnOpenclTestFunc) (const TarnOpenclTest *test, gconstpointer data);

/**
 * Adds a test to g_test's once for each chosen OpenCL device. Devices are chosen by TARN_TEST, else
 * by PYOPENCL_TEST, else they are all: see tarn_opencl_select_test_devices(). The path says which
 * one it is: test "pool/reuse" is "/opencl/0:1/pool/reuse" on device 1 of platform 0. A device that
 * is named twice is one test.
 *
 * Where no device is chosen, one test of the whole program, "/opencl/no-device", is skipped and
 * says so; a choice that cannot be made is one that fails and says why.
 *
 * Call it in the thread that calls g_test_run (), after g_test_init ().
 *
 * @param path  where the test stands among those of its device; a `/` before it changes nothing
 * @param func  the test
 * @param data  for @p func; nullable, not freed
 * @since 0.1
 */
void tarn_opencl_test_add (const gchar *path, TarnOpenclTestFunc func, gconstpointer data);

/**
 * Adds a test once for each platform with a chosen device. Otherwise it is as
 * tarn_opencl_test_add(). The path has the platform alone, as in "/opencl/0/pool/reuse"; the test
 * is given all chosen devices of it.
 *
 * Call it in the thread that calls g_test_run (), after g_test_init ().
 *
 * @param path  where the test stands among those of its platform; a `/` before it changes nothing
 * @param func  the test
 * @param data  for @p func; nullable, not freed
 * @since 0.1
 */
void tarn_opencl_test_add_per_platform (const gchar *path, TarnOpenclTestFunc func,
                                        gconstpointer data);

/**
 * Makes a context on all devices of a test. What earlier tests have left in memos is cleared
 * before, as tarn_memo_clear_all() does: some drivers have few contexts.
 *
 * @param test   the argument of the test function
 * @param error  return location, or NULL: TARN_OPENCL_ERROR with the driver's status;
 *               TARN_ERROR_FORKED in a child of fork ()
 * @return (transfer full): for clReleaseContext (), or NULL with @p error set. Any thread may call
 *         it.
 * @since 0.1
 */
cl_context tarn_opencl_test_create_context (const TarnOpenclTest *test,
                                            GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Abilities of devices, and how they are best used, as in PyOpenCL's pyopencl.characterize. */

/**
 * An answer that may be unknown.
 *
 * @since 0.1
 */
typedef enum
{
  TARN_OPENCL_UNKNOWN = -1, /**< it cannot be told */
  TARN_OPENCL_NO = 0,       /**< it is not so */
  TARN_OPENCL_YES = 1       /**< it is so */
} TarnOpenclAnswer;

/**
 * Tells whether kernels for a device can have doubles. They can if it has the extension
 * cl_khr_fp64.
 *
 * @param device     the device
 * @param supported  out, nullable
 * @param error      return location, or NULL: TARN_OPENCL_ERROR of a failing query,
 *                   TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_has_double_support (cl_device_id device, gboolean *supported, GError **error);

/**
 * Tells whether a device has doubles as AMD's first drivers did. They had them as the extension
 * cl_amd_fp64.
 *
 * @param device     the device
 * @param supported  out, nullable
 * @param error      return location, or NULL: TARN_OPENCL_ERROR of a failing query,
 *                   TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_has_amd_double_support (cl_device_id device, gboolean *supported,
                                             GError **error);

/**
 * Gets the compute capability of an NVIDIA device. It is asked for by cl_nv_device_attribute_query,
 * and has two parts, as in 9.0 for an H100.
 *
 * @param device  the device
 * @param major   out, nullable: its first part
 * @param minor   out, nullable: its second part; both are 0 if the device has none
 * @param error   return location, or NULL: TARN_OPENCL_ERROR of a query that failed otherwise than
 *                because the driver does not know it; TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_nv_compute_capability (cl_device_id device, guint *major, guint *minor,
                                            GError **error);

/**
 * Gets the best multiple for a work-group's size. It is the size of a warp, if the device says it
 * (cl_nv_device_attribute_query), else CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE of a small
 * kernel that is built for it.
 *
 * @param device    the device
 * @param context   nullable: one is made, and released; where the kernel is built
 * @param multiple  out, nullable: work items
 * @param error     return location, or NULL: TARN_OPENCL_ERROR of what failed, with the build log
 *                  if the kernel could not be built; TARN_ERROR_OUT_OF_MEMORY, TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_reasonable_work_group_size_multiple (cl_device_id device, cl_context context,
                                                          gsize *multiple, GError **error);

/**
 * Gets the number of work items that run in step. It is the size of a warp, if the device says it;
 * 32 on NVIDIA's; what tarn_opencl_reasonable_work_group_size_multiple() says on AMD's GPUs; 1 on
 * CPUs.
 *
 * @param device  the device
 * @param size    out, nullable: work items; 0 if it is not known
 * @param error   return location, or NULL: TARN_OPENCL_ERROR of what failed,
 *                TARN_ERROR_OUT_OF_MEMORY, TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_get_simd_group_size (cl_device_id device, guint *size, GError **error);

/**
 * Gets how many work items one access serves. So many access local memory at the same time. It is
 * known of NVIDIA's devices: 16 before compute capability 2.0, 32 from there on, which is a guess
 * from 3.0 on. It is 1 on CPUs; elsewhere 16, which is a guess.
 *
 * @param device  the device
 * @param count   out, nullable: work items
 * @param guess   out, nullable, (transfer full): why that is a guess, a sentence for g_free(); NULL
 *                if it is none
 * @param error   return location, or NULL: TARN_OPENCL_ERROR of a failing query, TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_simultaneous_work_items_on_local_access (cl_device_id device, guint *count,
                                                              gchar **guess, GError **error);

/**
 * Gets the width of a bank of local memory, in bytes. It is 4, whatever the device: 4 bytes in a
 * row are in the same bank.
 *
 * @param device  the device
 * @param bytes   out, nullable
 * @param error   return location, or NULL: TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_local_memory_access_granularity (cl_device_id device, guint *bytes,
                                                      GError **error);

/**
 * Gets the number of banks of local memory. Known of NVIDIA's devices: 16 before compute capability
 * 2.0, 32 from there on; it is a guess from 3.0 on. Elsewhere 16, which is a guess.
 *
 * @param device  the device
 * @param count   out, nullable: banks
 * @param guess   out, nullable, (transfer full): why that is a guess, a sentence for g_free(); NULL
 *                if it is none
 * @param error   return location, or NULL: TARN_ERROR_NOT_SUPPORTED for a CPU whose local memory is
 *                global memory; TARN_OPENCL_ERROR of a failing query, TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_local_memory_bank_count (cl_device_id device, guint *count, gchar **guess,
                                              GError **error);

/**
 * Gets the bytes of local memory that a kernel can use for itself. NVIDIA's devices before compute
 * capability 2.0 pass arguments in it: 4 bytes are taken off for each, and 256 if their number is
 * not known.
 *
 * @param device  the device
 * @param n_args  how many arguments the kernel has; negative: not known
 * @param bytes   out, nullable
 * @param error   return location, or NULL: TARN_OPENCL_ERROR of a failing query, TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_usable_local_mem_size (cl_device_id device, gint n_args, gsize *bytes,
                                            GError **error);

/**
 * Computes how often local memory accesses take turns. It is tarn_local_memory_conflict() with what
 * tarn_opencl_simultaneous_work_items_on_local_access() and tarn_opencl_local_memory_bank_count()
 * say of the device.
 *
 * @param device        the device
 * @param item_size     bytes of an element
 * @param rank          axes, at least 1
 * @param shape         elements along each axis, in C order, at least 1
 * @param stored_shape  nullable: @p shape; the elements that there is room for along each axis
 * @param multiplicity  out, nullable: how often; 1 if there is no conflict
 * @param explanation   out, nullable, (transfer full): which work items access the same bank, for
 *                      g_free(); NULL if there is no conflict
 * @param guess         out, nullable, (transfer full): what of it is a guess and why, for g_free();
 *                      NULL if nothing is. An @p item_size that is not
 *                      tarn_opencl_local_memory_access_granularity() makes it one.
 * @param error         return location, or NULL: TARN_ERROR_NOT_SUPPORTED for a CPU whose local
 *                      memory is global memory; TARN_OPENCL_ERROR of a failing query,
 *                      TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_why_not_local_access_conflict_free (cl_device_id device, gsize item_size,
                                                         guint rank, const gsize *shape,
                                                         const gsize *stored_shape,
                                                         guint *multiplicity, gchar **explanation,
                                                         gchar **guess, GError **error);

/**
 * Gets build options that trade accuracy for speed. They are for clBuildProgram(), and make kernels
 * faster and their floating-point results less accurate (OpenCL 3.0 specification, section 5.8.6.3,
 * "Options Controlling Math Intrinsics").
 *
 * @param device  the device
 * @param error   return location, or NULL: TARN_OPENCL_ERROR of a failing query, TARN_ERROR_FORKED
 * @return (transfer full): options with a space between them, for g_free(), or NULL with @p error
 *         set; any thread may call it
 * @since 0.1
 */
gchar *tarn_opencl_get_fast_inaccurate_build_options (cl_device_id device,
                                                      GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Gets the version of PoCL, if a platform is PoCL.
 *
 * @param platform        the platform
 * @param fallback_major   stored if its version cannot be read
 * @param fallback_minor   stored if its version cannot be read
 * @param major           out, nullable: the first part
 * @param minor           out, nullable: the second part; both are 0 if the platform is not PoCL
 * @param guess           out, nullable, (transfer full): that the version could not be read, a
 *                        sentence for g_free(); NULL if it could, or the platform is not PoCL
 * @param error           return location, or NULL: TARN_OPENCL_ERROR of a failing query,
 *                        TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_get_pocl_version (cl_platform_id platform, guint fallback_major,
                                       guint fallback_minor, guint *major, guint *minor,
                                       gchar **guess, GError **error);

/**
 * Tells whether a driver miscounts a kernel's arguments. If a structure is passed by value, the
 * arguments after it have other numbers than they should then. Apple's driver for CPUs does so,
 * PoCL's up to 0.13, and 0.14 if a kernel that is built for the device shows it; so does a PoCL
 * whose version cannot be read.
 *
 * @param device   the device
 * @param context  nullable: one is made, and released; where the kernel is built, if one is
 * @param bug      out, nullable, (transfer none): "apple", "pocl" or NULL, constant strings
 * @param error    return location, or NULL: TARN_OPENCL_ERROR of what failed, with the build log if
 *                 the kernel could not be built; TARN_ERROR_OUT_OF_MEMORY, TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_has_struct_arg_count_bug (cl_device_id device, cl_context context,
                                               const gchar **bug, GError **error);

/**
 * Tells whether a driver keeps the programs that it builds. It has what clBuildProgram() makes of a
 * source then, and a program need not keep it itself: PoCL and NVIDIA's do, AMD's "Accelerated
 * Parallel Processing" does not.
 *
 * @param device  the device
 * @param answer  out, nullable: TARN_OPENCL_UNKNOWN for others
 * @param error   return location, or NULL: TARN_OPENCL_ERROR of a failing query, TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_has_src_build_cache (cl_device_id device, TarnOpenclAnswer *answer,
                                          GError **error);

/**
 * Tells whether a device has coarse-grain SVM in buffers. Host and device take turns with such a
 * buffer, by mapping it: CL_DEVICE_SVM_COARSE_GRAIN_BUFFER. A device older than OpenCL 2.0 has no
 * SVM of any kind.
 *
 * @param device     the device
 * @param supported  out, nullable
 * @param error      return location, or NULL: TARN_OPENCL_ERROR of a failing query,
 *                   TARN_ERROR_FAILED if the device's version cannot be read, TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_has_coarse_grain_buffer_svm (cl_device_id device, gboolean *supported,
                                                  GError **error);

/**
 * Tells whether a device has fine-grain SVM in buffers. Host and device may access such a buffer at
 * the same time, without mapping it: CL_DEVICE_SVM_FINE_GRAIN_BUFFER. A device older than OpenCL
 * 2.0 has not.
 *
 * @param device     the device
 * @param supported  out, nullable
 * @param error      return location, or NULL: TARN_OPENCL_ERROR of a failing query,
 *                   TARN_ERROR_FAILED if the device's version cannot be read, TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_has_fine_grain_buffer_svm (cl_device_id device, gboolean *supported,
                                                GError **error);

/**
 * Tells whether a device can access all of the host's memory. It need not be allocated as SVM, but
 * may come from malloc(): CL_DEVICE_SVM_FINE_GRAIN_SYSTEM. A device older than OpenCL 2.0 cannot.
 *
 * @param device     the device
 * @param supported  out, nullable
 * @param error      return location, or NULL: TARN_OPENCL_ERROR of a failing query,
 *                   TARN_ERROR_FAILED if the device's version cannot be read, TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_has_fine_grain_system_svm (cl_device_id device, gboolean *supported,
                                                GError **error);

/**
 * Tells whether fine-grain SVM in buffers has atomics. Host and device both see them, on SVM as
 * tarn_opencl_has_fine_grain_buffer_svm() asks for: CL_DEVICE_SVM_ATOMICS beside
 * CL_DEVICE_SVM_FINE_GRAIN_BUFFER.
 *
 * @param device     the device
 * @param supported  out, nullable
 * @param error      return location, or NULL: TARN_OPENCL_ERROR of a failing query,
 *                   TARN_ERROR_FAILED if the device's version cannot be read, TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_has_fine_grain_buffer_svm_atomics (cl_device_id device, gboolean *supported,
                                                        GError **error);

/**
 * Tells whether a device has atomics on host memory. Host and device both see them, on SVM as
 * tarn_opencl_has_fine_grain_system_svm() asks for: CL_DEVICE_SVM_ATOMICS beside
 * CL_DEVICE_SVM_FINE_GRAIN_SYSTEM.
 *
 * @param device     the device
 * @param supported  out, nullable
 * @param error      return location, or NULL: TARN_OPENCL_ERROR of a failing query,
 *                   TARN_ERROR_FAILED if the device's version cannot be read, TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_has_fine_grain_system_svm_atomics (cl_device_id device, gboolean *supported,
                                                        GError **error);

/**
 * Banks of local memory, as they were measured. With has_banks, the next three fields are those
 * that a TarnLocalMemory needs.
 *
 * @since 0.1
 */
typedef struct
{
  gsize
      struct_size; /**< sizeof (TarnOpenclLocalMemory), as TARN_OPENCL_LOCAL_MEMORY_INIT sets it */
  gboolean has_banks; /**< FALSE: banks do not explain the times; the next three are 0 */
  guint bank_count;   /**< how many banks there are */
  guint bank_bytes;   /**< how many bytes in a row are in the same bank */
  guint work_items;   /**< how many work items access the memory at the same time */
  gdouble confidence; /**< 0 to 1: see tarn_opencl_measure_local_memory() */
} TarnOpenclLocalMemory;

/**
 * A TarnOpenclLocalMemory to start from: every field at its default.
 *
 * @since 0.1
 */
#define TARN_OPENCL_LOCAL_MEMORY_INIT                                                              \
  {                                                                                                \
    sizeof (TarnOpenclLocalMemory), /* struct_size */                                              \
        FALSE,                      /* has_banks */                                                \
        0,                          /* bank_count */                                               \
        0,                          /* bank_bytes */                                               \
        0,                          /* work_items */                                               \
        0                           /* confidence */                                               \
  }

/**
 * Measures the banks of a device's local memory. Whether it has any, how many, and how wide they
 * are, no OpenCL device says: a kernel accesses it in some thirty patterns, and the banks whose
 * conflicts explain best how long they took are the answer. It makes a context and a queue of its
 * own, and takes up to about two seconds beside compiling; what else the device does meanwhile
 * makes the answer worse. With G_MESSAGES_DEBUG=Tarn-OpenCL it says the times.
 *
 * Known are 8 to 128 banks, in powers of two, of 4, 8 or 16 bytes, together at most 1024 bytes,
 * that all work items of a warp (sub-group, wave; at most 64) access at a time, or half of them.
 *
 * A memory explains a share, 0 to 1: of how the patterns' times vary, relative to each
 * time, the part that goes in proportion to the conflicts that they have in this memory (R squared
 * of a least-squares line, whose worst twentieth of patterns is left out). There are banks if the
 * best memory explains 0.9 or more, and the slowest pattern takes at least 1.5 times as long as the
 * fastest. The confidence then is what it explains, times 1 - its unexplained part / that of the
 * next best: 0 if the two cannot be told apart. Without banks it is 1 - what the best one explains,
 * times the slowest pattern's slowdown (0 if it is as fast as the fastest, 1 from 1.5 times on).
 *
 * @param device  the device
 * @param result  out: start from TARN_OPENCL_LOCAL_MEMORY_INIT, whose struct_size says how much is
 *                filled; unchanged on failure
 * @param error   return location, or NULL: TARN_ERROR_NOT_SUPPORTED for a device that cannot time
 *                commands, or says that they take no time, has no compiler, takes fewer than 16
 *                work items in a work-group, or has too little local memory;
 *                TARN_ERROR_OUT_OF_MEMORY; TARN_OPENCL_ERROR for what else fails, with the build
 *                log if it is the build; TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set. Any thread may call it, one at a time for a device if
 *         the answer is to be good.
 * @since 0.1
 */
gboolean tarn_opencl_measure_local_memory (cl_device_id device, TarnOpenclLocalMemory *result,
                                           GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnOpenclImagePool, tarn_opencl_image_pool_unref)

G_END_DECLS

#endif
