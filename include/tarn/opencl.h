/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Everything of libtarn-opencl: allocators, queues, memos, tests and facts about devices.
 *
 * It includes <CL/cl.h>. OpenCL 1.2 is enough: define CL_TARGET_OPENCL_VERSION before the include.
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
 * Gets the domain of OpenCL's errors: write TARN_OPENCL_ERROR. The code of such an error is
 * OpenCL's status, a cl_int. Three statuses always become TARN_ERROR_OUT_OF_MEMORY instead, also
 * where a function's error is documented as TARN_OPENCL_ERROR: CL_MEM_OBJECT_ALLOCATION_FAILURE,
 * CL_OUT_OF_RESOURCES and CL_OUT_OF_HOST_MEMORY.
 *
 * @return the quark, the same for the life of the process; any thread may call it
 * @since 0.1
 */
GQuark tarn_opencl_error_quark (void);

/**
 * Gets the name of an OpenCL status, such as "CL_INVALID_VALUE".
 *
 * @param status  the status of an OpenCL function
 * @return (transfer none): a constant string; "unknown status" for a number without a name; any
 *         thread may call it
 * @since 0.1
 */
const gchar *tarn_opencl_status_name (cl_int status);

/**
 * Converts an error to an OpenCL status. Use it in functions that return a cl_int.
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
 * Sets the OpenCL functions that Tarn calls. A program that opens the OpenCL library itself calls
 * this once, before any other function of libtarn-opencl. Other programs need not call it: Tarn
 * calls the functions with OpenCL's names in the process, from a library that the program is linked
 * with or from the program itself. If there are none, Tarn opens libOpenCL.so.1.
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
 * @param find       returns a function by its name, such as "clCreateBuffer", or NULL if there is
 *                   none. It must find the functions of OpenCL 1.2. Tarn calls it during this call,
 *                   and later in tarn_opencl_get_function(), from any thread.
 * @param user_data  for @p find; it must be valid until the process ends
 * @param error      return location, or NULL: TARN_ERROR_NO_DRIVER, naming a function that @p find
 *                   did not find; TARN_ERROR_INVALID_ARGUMENT if Tarn already has OpenCL's
 *                   functions; TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing changed; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_set_functions (TarnOpenclFindFunc find, gpointer user_data, GError **error);

/**
 * Gets an OpenCL function. Tarn looks it up where it finds the functions that it calls itself. With
 * this, a program that is not linked with OpenCL can call OpenCL.
 *
 *     cl_int (*finish) (cl_command_queue) = tarn_opencl_get_function ("clFinish", &error);
 *
 * @param name   the function's name
 * @param error  return location, or NULL: TARN_ERROR_NO_DRIVER if there is no OpenCL, with the
 *               reason; TARN_ERROR_NOT_SUPPORTED if OpenCL has no such function; TARN_ERROR_FORKED
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
 * A part of a buffer (TarnAllocatorOps.part_new) is a sub-buffer. The allocator passes to
 * clCreateSubBuffer those of @p flags that it accepts; the sub-buffer inherits the others. Kernels
 * and commands use a sub-buffer like any other buffer, but:
 *
 * - clCreateSubBuffer fails on it.
 * - Its CL_MEM_ASSOCIATED_MEMOBJECT is the whole buffer.
 * - It is aligned only to CL_DEVICE_MEM_BASE_ADDR_ALIGN, the largest of the context's devices.
 * - Several commands at a time may use parts that do not overlap. They may use a part and the whole
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
 * Makes an allocator that places buffers on the device at once. The device is that of @p queue. If
 * the device has no memory left, the allocation fails, and not a later command. After
 * clCreateBuffer, the allocator enqueues a command that makes the driver place the buffer, and does
 * not wait for the command:
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
 *               buffer, it must first wait for @p queue. A pool makes the other queue wait if the
 *               request names it: see tarn_opencl_pool_allocate().
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
 * Makes an allocator of shared virtual memory (clSVMAlloc). Every device of the context must have
 * OpenCL 2.0 or later, and coarse-grain shared virtual memory.
 *
 * With @p queue, each block belongs to that queue unless its request names another one. If such a
 * block does not belong to a pool, its free enqueues clEnqueueSVMFree on the queue. Without
 * @p queue, a block that was neither allocated nor recorded with a queue is freed at once
 * (clSVMFree). So the caller must first wait for the commands that use it.
 *
 * If no memory is left, an allocation waits for commands on queues that will free memory. If a
 * queue frees nothing for a second, the allocation does not wait for it any longer, because the
 * queue may be waiting for the host.
 *
 * A part of a block (TarnAllocatorOps.part_new) is an address within the block, with the same
 * alignment. Kernels and commands accept it like the block's address, but clSVMFree and
 * clEnqueueSVMFree do not.
 *
 * @param context    the context of the memory; retained
 * @param alignment  bytes, for clSVMAlloc; 0: the largest that any type of OpenCL C needs
 * @param flags      for clSVMAlloc; without CL_MEM_WRITE_ONLY or CL_MEM_READ_ONLY, 0 for example,
 *                   with CL_MEM_READ_WRITE
 * @param queue      nullable: an in-order queue of the context; retained
 * @param error      return location, or NULL: TARN_ERROR_NOT_SUPPORTED, naming the device and what
 *                   it lacks; TARN_ERROR_INVALID_ARGUMENT for a queue of another context;
 *                   TARN_ERROR_OUT_OF_MEMORY; TARN_OPENCL_ERROR with the driver's other statuses,
 *                   and with CL_INVALID_VALUE for an out-of-order queue; TARN_ERROR_FORKED
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
 * @return (transfer none): valid until tarn_block_free(), which releases the buffer or lets the
 *         pool reuse it; NULL for a block of 0 bytes without a buffer. For 0 bytes, a pool
 *         allocates a buffer of 1 byte if it can.
 * @since 0.1
 */
cl_mem tarn_opencl_block_get_buffer (const TarnBlock *block);

/**
 * Gets the address of a block of shared virtual memory. The address is the same on host and
 * devices.
 *
 * @param block  a block in use; a block of another kind of memory is a programming error. Any
 *               thread may call it.
 * @return valid until tarn_block_free(); NULL for a block of 0 bytes without memory. For 0 bytes, a
 *         pool allocates 1 byte if it can.
 * @since 0.1
 */
gpointer tarn_opencl_block_get_svm (const TarnBlock *block);

/* Pools, and memory that several queues use */

/**
 * Makes a pool of buffers that suits most programs. The pool is over a heap, and the heap is over
 * tarn_opencl_immediate_allocator_new(). For requests of any sizes, the heap takes little more
 * memory than is in use, and seldom calls the driver.
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
 *                 of this queue. tarn_opencl_pool_new_for_device() makes a separate queue for that.
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
 * tarn_opencl_pool_new(). The pool makes a queue of its own, which makes fresh memory ready. With a
 * heap, the host waits for that queue. Without a heap, the queue that first uses the memory waits
 * for it. Name your queue in each request, or in each free (tarn_opencl_block_free_on()). Otherwise
 * wait for your queue before you free a block.
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
 * Allocates a block from a pool, for use on a queue. This is tarn_pool_allocate_ordered() for a
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
 *               1.2, or TARN_OPENCL_ERROR with the driver's other statuses
 * @return (transfer full): the block, for tarn_block_free(), or NULL with @p error set
 * @since 0.1
 */
TarnBlock *tarn_opencl_pool_allocate (TarnPool *pool, gsize size, cl_command_queue queue,
                                      GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Allocates a block and fills it with bytes of the host. Use it in place of clCreateBuffer with
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
 * Finds the block in use that has a buffer. This is tarn_pool_find() for a cl_mem.
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
 * @param flags   for clCreateSubBuffer; 0: the flags of the larger buffer
 * @param origin  bytes from the beginning of the block: a multiple of
 *                CL_DEVICE_MEM_BASE_ADDR_ALIGN, which is in bits
 * @param size    bytes, more than 0
 * @param error   return location, or NULL: TARN_ERROR_INVALID_ARGUMENT if @p size is 0 or the part
 *                exceeds the block; TARN_OPENCL_ERROR with clCreateSubBuffer's status;
 *                TARN_ERROR_OUT_OF_MEMORY; TARN_ERROR_FORKED
 * @return (transfer full): the part, for clReleaseMemObject (), or NULL with @p error set
 * @since 0.1
 */
cl_mem tarn_opencl_block_create_sub_buffer (TarnBlock *block, cl_mem_flags flags, gsize origin,
                                            gsize size, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Records that commands on a queue use a block. This is tarn_block_record_use() for a
 * cl_command_queue.
 *
 * @param block  a block in use, of one of libtarn-opencl's allocators or of a pool over one
 * @param queue  a queue of the allocator's context; retained
 * @param error  return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for a queue of another
 *               context, TARN_ERROR_NOT_SUPPORTED for a device before OpenCL 1.2,
 *               TARN_ERROR_FORKED, TARN_ERROR_OUT_OF_MEMORY, or TARN_OPENCL_ERROR with the
 *               driver's other statuses
 * @return TRUE, or FALSE with @p error set and nothing changed; any thread may call it, but only
 *         one at a time for the same block
 * @since 0.1
 */
gboolean tarn_opencl_block_record_use (TarnBlock *block, cl_command_queue queue, GError **error);

/**
 * Frees a block that a queue may still use. This is tarn_block_free_on() for a cl_command_queue.
 *
 * @param block  (transfer full): a block of one of libtarn-opencl's allocators or of a pool over
 *               one; NULL is allowed. Any thread may call it.
 * @param queue  nullable: a queue of the allocator's context; retained
 * @since 0.1
 */
void tarn_opencl_block_free_on (TarnBlock *block, cl_command_queue queue);

/**
 * Moves a block to a queue, which waits for the block's other queues. The queue waits for all
 * commands that these other queues have at the time of the call. Afterwards the block belongs to
 * this queue alone. PyOpenCL calls this SVMAllocation.bind_to_queue(), and calls tarn_block_wait()
 * unbind_from_queue().
 *
 * @param block  a block in use, of one of libtarn-opencl's allocators or of a pool over one; may
 *               have 0 bytes
 * @param queue  a queue of the allocator's context; for shared virtual memory, it must be in order,
 *               as in PyOpenCL; retained
 * @param error  return location, or NULL: as tarn_opencl_block_record_use(), and TARN_OPENCL_ERROR
 *               with CL_INVALID_VALUE for shared virtual memory and an out-of-order queue
 * @return TRUE, or FALSE with @p error set; any thread may call it, but only one at a time for the
 *         same block
 * @since 0.1
 */
gboolean tarn_opencl_block_move_to_queue (TarnBlock *block, cl_command_queue queue, GError **error);

/**
 * Gets the queue that a block is used on. This is the queue that the block was allocated for, moved
 * to or first recorded with. A block of 0 bytes has a queue like any other.
 *
 * @param block  a block in use, of one of libtarn-opencl's allocators or of a pool over one; any
 *               thread may call it, while no thread moves the block or records a use
 * @return (transfer none): valid as long as the block belongs to it; NULL: none
 * @since 0.1
 */
cl_command_queue tarn_opencl_block_get_queue (const TarnBlock *block);

/* Images */

/**
 * A pool of images. It holds freed images, and reuses them for later requests, as a pool of buffers
 * does. Any thread may call any function of it at any time.
 *
 * @since 0.1
 */
typedef struct _TarnOpenclImagePool TarnOpenclImagePool;

/**
 * Makes a pool of images. It holds freed images, and reuses one if a request has the same flags,
 * format and descriptor. For queues, threads, limits, lack of memory, recordings and snapshots, it
 * works like a pool of buffers: see tarn_opencl_image_pool_get_pool().
 *
 * For a new image, the pool calls clCreateImage, and then clEnqueueMigrateMemObjects to move it to
 * the queue's device at once. On NVIDIA's devices, where that is not thread-safe, it fills one
 * pixel instead. The host waits for neither.
 *
 * In counters and limits, an image has the bytes of its pixels. Images of different kinds (flags,
 * format or descriptor) always have different numbers of bytes in the pool. So if the pixels of two
 * kinds have the same number of bytes, images of one kind count a few bytes more. A driver may
 * allocate more than the pool counts, because it pads rows or stores an image in tiles. OpenCL does
 * not tell how much.
 *
 * @param queue    a queue of the device, which must support images; retained, and so is its
 *                 context. Its commands make new images ready.
 * @param buffers  nullable: a pool that shares its limit and its reclaim group with the images. The
 *                 function takes a reference. The bytes of all images, also held ones, are charged
 *                 to the pool (tarn_pool_charge()), so its limit bounds both. Near the limit, and
 *                 if memory runs out, held buffers make room for images, and held images for
 *                 buffers. If the pool is in no group, it and the images get a new one.
 * @param options  nullable: the defaults; start from TARN_POOL_OPTIONS_INIT. limit_bytes bounds the
 *                 images alone. A hold_bytes of 0 means an eighth of the device's memory
 *                 (CL_DEVICE_GLOBAL_MEM_SIZE), because held images are useless if no request has
 *                 their size; G_MAXSIZE: no bound. leading_bits_in_bin_id is ignored.
 * @param error    return location, or NULL: TARN_ERROR_NOT_SUPPORTED for a device without images or
 *                 older than OpenCL 1.2; TARN_ERROR_FORKED; TARN_ERROR_NO_DRIVER;
 *                 TARN_ERROR_INVALID_ARGUMENT; TARN_ERROR_OUT_OF_MEMORY; or TARN_OPENCL_ERROR
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
 * Releases a reference on a pool of images. When the last reference is released, the pool releases
 * held images. Images in use stay valid until their blocks are freed.
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
 * Gets the pool behind a pool of images. Use it for counters, limits and trimming:
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
 * @return (transfer none): valid until tarn_block_free(), which releases the image or lets the pool
 *         reuse it
 * @since 0.1
 */
cl_mem tarn_opencl_block_get_image (const TarnBlock *block);

/* Memos: results that are computed once for each context, queue or device */

/**
 * Makes a memo whose first argument is a cl_context. The memo is like that of tarn_memo_new(), but
 * it retains a context as long as it has an entry for this context. So call
 * tarn_memo_forget_everywhere() or a similar function before you release the last reference to a
 * context. OpenCL has no current context, so NULL as the first argument is a programming error.
 *
 * @param ops        nullable: functions for keys and values; its fields for first arguments must be
 *                   NULL
 * @param func       computes a value
 * @param user_data  for @p func and the functions of @p ops
 * @param destroy    nullable: frees @p user_data
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
 * @param ops        nullable: functions for keys and values; its fields for first arguments must be
 *                   NULL
 * @param func       computes a value
 * @param user_data  for @p func and the functions of @p ops
 * @param destroy    nullable: frees @p user_data
 * @return (transfer full): the memo, for tarn_memo_unref(); any thread may use it
 * @since 0.1
 */
TarnMemo *tarn_opencl_queue_memo_new (const TarnMemoOps *ops, TarnMemoFunc func, gpointer user_data,
                                      GDestroyNotify destroy) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Makes a memo whose first argument is a cl_device_id. Otherwise it is like
 * tarn_opencl_context_memo_new().
 *
 * @param ops        nullable: functions for keys and values; its fields for first arguments must be
 *                   NULL
 * @param func       computes a value
 * @param user_data  for @p func and the functions of @p ops
 * @param destroy    nullable: frees @p user_data
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
  cl_device_id device;      /**< the device that the kernel is to run on */
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
 * Makes a memo of kernels, which builds each program once. The memo's first argument is a
 * cl_context, its key is a TarnOpenclKernelKey, and its value is a cl_kernel. Each thread has a
 * cl_kernel of its own, so it can set the arguments without a lock. The memo builds a program once
 * for each context, device, source and options, for all kernels in it and for all threads.
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
 * After a thread has ended, a later thread gets its kernels. Programs and kernels retain their
 * context; tarn_memo_forget_everywhere() releases programs and kernels. tarn_memo_get() also
 * returns these kernels, as a gpointer; it fails with TARN_ERROR_INVALID_ARGUMENT if the key has no
 * source, kernel_name or device.
 *
 * @return (transfer full): the memo, for tarn_memo_unref(); any thread may use it
 * @since 0.1
 */
TarnMemo *tarn_opencl_kernel_memo_new (void) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Gets the kernel of the calling thread. This is like tarn_memo_get(), with the types of a memo of
 * tarn_opencl_kernel_memo_new().
 *
 * @param memo     the memo
 * @param context  the context in which the kernel is built
 * @param key      the kernel; source, kernel_name and device must be set
 * @param kernel   out: the kernel, with a reference for clReleaseKernel ()
 * @param error    return location, or NULL: as tarn_memo_get(); TARN_OPENCL_ERROR with the driver's
 *                 status, and with up to 64 KiB of the build log if the program does not compile;
 *                 TARN_ERROR_OUT_OF_MEMORY if that status means a lack of memory, also of the
 *                 compiler's;
 *                 TARN_ERROR_INVALID_ARGUMENT for a key that sets fields that this version of the
 *                 library does not have
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_kernel_memo_get (TarnMemo *memo, cl_context context,
                                      const TarnOpenclKernelKey *key, cl_kernel *kernel,
                                      GError **error);

/**
 * A device that was chosen. The struct owns its strings, and is constant.
 *
 * @since 0.1
 */
typedef struct
{
  cl_platform_id platform; /**< its platform */
  cl_device_id device;     /**< the device */
  guint platform_index;    /**< the platform's index in the loader's list */
  guint device_index;      /**< the device's index in its platform's list */
  gchar *platform_name;    /**< CL_PLATFORM_NAME */
  gchar *name;             /**< CL_DEVICE_NAME */
  gchar *vendor;           /**< CL_DEVICE_VENDOR */
  gchar *uuid;             /**< nullable; from cl_khr_device_uuid */
  gchar *pci;              /**< nullable; from cl_khr_pci_bus_info, such as "0000:65:00.0" */
  gchar *selector;         /**< chooses the device: see tarn_selection_make_selector() */
  gpointer reserved[4];    /**< for later versions */
} TarnOpenclDevice;

/**
 * Chooses the OpenCL devices that tests run on. @p selection chooses them, in the strict syntax of
 * tarn_selection_resolve(). If @p selection is NULL, the environment variable TARN_TEST chooses the
 * devices, in the same syntax. If TARN_TEST is not set, PYOPENCL_TEST chooses them, in PyOpenCL's
 * syntax. If neither is set, every device is chosen.
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
 * The devices that a test is to run on. The struct and its fields are valid during the test.
 *
 * @since 0.1
 */
typedef struct
{
  cl_platform_id platform;      /**< the platform of the devices */
  cl_device_id device;          /**< the device; in a test per platform: the first one */
  const cl_device_id *devices;  /**< the device; in a test per platform: all chosen ones */
  guint n_devices;              /**< how many devices there are */
  const TarnOpenclDevice *info; /**< facts about the device */
  gpointer reserved[4];         /**< for later versions */
} TarnOpenclTest;

/**
 * The function of a test. It runs in the thread that calls g_test_run ().
 *
 * @param test  the devices to run on
 * @param data  as given to tarn_opencl_test_add() or tarn_opencl_test_add_per_platform()
 * @since 0.1
 */
typedef void (*TarnOpenclTestFunc) (const TarnOpenclTest *test, gconstpointer data);

/**
 * Adds a test to g_test for each chosen OpenCL device. The environment variable TARN_TEST chooses
 * the devices, or else PYOPENCL_TEST. If neither is set, all devices are chosen: see
 * tarn_opencl_select_test_devices(). The path names the device: test "pool/reuse" is
 * "/opencl/0:1/pool/reuse" on device 1 of platform 0. A device that is named twice has one test.
 *
 * If no device is chosen, the program has one test instead, "/opencl/no-device", which is skipped
 * and says why. If the choice is invalid, the test is "/opencl/selection-error", which fails and
 * says why.
 *
 * Call it in the thread that calls g_test_run (), after g_test_init ().
 *
 * @param path  the test's path after that of the device; a `/` at its beginning changes nothing
 * @param func  the test
 * @param data  for @p func; nullable, not freed
 * @since 0.1
 */
void tarn_opencl_test_add (const gchar *path, TarnOpenclTestFunc func, gconstpointer data);

/**
 * Adds a test for each platform with a chosen device. Otherwise it is like tarn_opencl_test_add().
 * The path names only the platform, as in "/opencl/0/pool/reuse". The test gets all chosen devices
 * of the platform.
 *
 * Call it in the thread that calls g_test_run (), after g_test_init ().
 *
 * @param path  the test's path after that of the platform; a `/` at its beginning changes nothing
 * @param func  the test
 * @param data  for @p func; nullable, not freed
 * @since 0.1
 */
void tarn_opencl_test_add_per_platform (const gchar *path, TarnOpenclTestFunc func,
                                        gconstpointer data);

/**
 * Makes a context on all devices of a test. The function first calls tarn_memo_clear_all(), because
 * some drivers allow few contexts, and memos of earlier tests may retain some.
 *
 * @param test   the argument of the test function
 * @param error  return location, or NULL: TARN_ERROR_OUT_OF_MEMORY if the driver's status means a
 *               lack of memory, such as CL_OUT_OF_HOST_MEMORY; TARN_OPENCL_ERROR with any other
 *               status of the driver; TARN_ERROR_FORKED in a child of fork ()
 * @return (transfer full): for clReleaseContext (), or NULL with @p error set. Any thread may call
 *         it.
 * @since 0.1
 */
cl_context tarn_opencl_test_create_context (const TarnOpenclTest *test,
                                            GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Facts about devices, for example how to use them best, as in PyOpenCL's pyopencl.characterize. */

/**
 * An answer that may be unknown.
 *
 * @since 0.1
 */
typedef enum
{
  TARN_OPENCL_UNKNOWN = -1, /**< it is not known */
  TARN_OPENCL_NO = 0,       /**< no */
  TARN_OPENCL_YES = 1       /**< yes */
} TarnOpenclAnswer;

/**
 * Tells whether kernels for a device can use doubles. They can if the device has the extension
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
 * Tells whether a device has the extension cl_amd_fp64. With this extension, AMD's first drivers
 * supported doubles.
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
 * Gets the compute capability of an NVIDIA device. It has two numbers, such as 9 and 0 for an H100,
 * and comes from cl_nv_device_attribute_query.
 *
 * @param device  the device
 * @param major   out, nullable: the first number
 * @param minor   out, nullable: the second number; both are 0 if the device has no compute
 *                capability
 * @param error   return location, or NULL: TARN_OPENCL_ERROR of a query that fails, except if the
 *                driver does not know the query; TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_nv_compute_capability (cl_device_id device, guint *major, guint *minor,
                                            GError **error);

/**
 * Gets the best multiple for a work-group's size. It is the warp size if the device states it
 * (cl_nv_device_attribute_query). Otherwise the function builds a small kernel, and gets its
 * CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE.
 *
 * @param device    the device
 * @param context   nullable: the context in which the kernel is built; NULL: a temporary one
 * @param multiple  out, nullable: work items
 * @param error     return location, or NULL: TARN_OPENCL_ERROR of what failed, with the build log
 *                  if the kernel could not be built; TARN_ERROR_OUT_OF_MEMORY, TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_reasonable_work_group_size_multiple (cl_device_id device, cl_context context,
                                                          gsize *multiple, GError **error);

/**
 * Gets the number of work items that run in lockstep. It is the warp size if the device states it.
 * Otherwise it is 32 on NVIDIA's devices, tarn_opencl_reasonable_work_group_size_multiple() on
 * AMD's GPUs, and 1 on CPUs.
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
 * Gets the number of simultaneous local accesses. This is the number of work items that access
 * local memory at the same time. On NVIDIA's devices it is 16 before compute capability 2.0, and 32
 * from 2.0 on, which is a guess from 3.0 on. On CPUs it is 1. On other devices it is 16, which is a
 * guess.
 *
 * @param device  the device
 * @param count   out, nullable: work items
 * @param guess   out, nullable, (transfer full): why the number is a guess, a sentence for
 *                g_free(); NULL if it is no guess
 * @param error   return location, or NULL: TARN_OPENCL_ERROR of a failing query, TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_simultaneous_work_items_on_local_access (cl_device_id device, guint *count,
                                                              gchar **guess, GError **error);

/**
 * Gets the width of a bank of local memory, in bytes. It is 4 for all devices: 4 consecutive bytes
 * are in the same bank.
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
 * Gets the number of banks of local memory. On NVIDIA's devices it is 16 before compute capability
 * 2.0, and 32 from 2.0 on, which is a guess from 3.0 on. On other devices it is 16, which is a
 * guess.
 *
 * @param device  the device
 * @param count   out, nullable: banks
 * @param guess   out, nullable, (transfer full): why the number is a guess, a sentence for
 *                g_free(); NULL if it is no guess
 * @param error   return location, or NULL: TARN_ERROR_NOT_SUPPORTED for a CPU whose local memory is
 *                global memory; TARN_OPENCL_ERROR of a failing query, TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_local_memory_bank_count (cl_device_id device, guint *count, gchar **guess,
                                              GError **error);

/**
 * Gets the bytes of local memory that a kernel can use. NVIDIA's devices before compute capability
 * 2.0 pass arguments in local memory. For these, the function subtracts 4 bytes for each argument,
 * or 256 if the number of arguments is not known.
 *
 * @param device  the device
 * @param n_args  the number of the kernel's arguments; negative: not known
 * @param bytes   out, nullable
 * @param error   return location, or NULL: TARN_OPENCL_ERROR of a failing query, TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_usable_local_mem_size (cl_device_id device, gint n_args, gsize *bytes,
                                            GError **error);

/**
 * Computes how many turns local memory accesses take. It calls tarn_local_memory_conflict() with
 * the device's tarn_opencl_simultaneous_work_items_on_local_access() and
 * tarn_opencl_local_memory_bank_count().
 *
 * @param device        the device
 * @param item_size     bytes of an element
 * @param rank          axes, at least 1
 * @param shape         elements along each axis, in C order, at least 1
 * @param stored_shape  nullable: the elements along each axis for which there is room; NULL:
 *                      @p shape
 * @param multiplicity  out, nullable: the number of turns; 1 if there is no conflict
 * @param explanation   out, nullable, (transfer full): which work items access the same bank, for
 *                      g_free(); NULL if there is no conflict
 * @param guess         out, nullable, (transfer full): why the result is a guess, for g_free();
 *                      NULL if it is no guess. The result is also a guess if @p item_size is not
 *                      tarn_opencl_local_memory_access_granularity().
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
 * @param fallback_major   stored if PoCL's version cannot be read
 * @param fallback_minor   stored if PoCL's version cannot be read
 * @param major           out, nullable: the first number
 * @param minor           out, nullable: the second number; both are 0 if the platform is not PoCL
 * @param guess           out, nullable, (transfer full): a sentence for g_free() if the version
 *                        could not be read; NULL if it could, or if the platform is not PoCL
 * @param error           return location, or NULL: TARN_OPENCL_ERROR of a failing query,
 *                        TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_get_pocl_version (cl_platform_id platform, guint fallback_major,
                                       guint fallback_minor, guint *major, guint *minor,
                                       gchar **guess, GError **error);

/**
 * Tells whether a driver miscounts a kernel's arguments. A driver with this bug counts a structure
 * that is passed by value as several arguments, so the arguments after it have wrong numbers.
 * Apple's driver for CPUs has the bug, and so has PoCL up to 0.13. For PoCL 0.14, and if PoCL's
 * version cannot be read, the function builds a kernel to find out.
 *
 * @param device   the device
 * @param context  nullable: the context in which the kernel is built, if necessary; NULL: a
 *                 temporary one
 * @param bug      out, nullable, (transfer none): "apple", "pocl" or NULL, constant strings
 * @param error    return location, or NULL: TARN_OPENCL_ERROR of what failed, with the build log if
 *                 the kernel could not be built; TARN_ERROR_OUT_OF_MEMORY, TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_opencl_has_struct_arg_count_bug (cl_device_id device, cl_context context,
                                               const gchar **bug, GError **error);

/**
 * Tells whether a driver caches the programs that it builds. Such a driver keeps the result of
 * clBuildProgram() for each source, so an application need not keep it. PoCL and NVIDIA's driver do
 * so; AMD's "Accelerated Parallel Processing" does not.
 *
 * @param device  the device
 * @param answer  out, nullable: TARN_OPENCL_UNKNOWN for other drivers
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
 * 2.0 has no SVM of any kind.
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
 * Tells whether a device can access all of the host's memory. The memory need not be allocated as
 * SVM, but may come from malloc(): CL_DEVICE_SVM_FINE_GRAIN_SYSTEM. A device older than OpenCL 2.0
 * cannot.
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
 * Tells whether fine-grain SVM in buffers has atomics. The atomics work between host and device.
 * The device needs CL_DEVICE_SVM_ATOMICS and CL_DEVICE_SVM_FINE_GRAIN_BUFFER
 * (tarn_opencl_has_fine_grain_buffer_svm()).
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
 * Tells whether a device has atomics on host memory. The atomics work between host and device. The
 * device needs CL_DEVICE_SVM_ATOMICS and CL_DEVICE_SVM_FINE_GRAIN_SYSTEM
 * (tarn_opencl_has_fine_grain_system_svm()).
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
 * The measured banks of local memory. If has_banks is TRUE, the next three fields are the values
 * for a TarnLocalMemory.
 *
 * @since 0.1
 */
typedef struct
{
  gsize
      struct_size; /**< sizeof (TarnOpenclLocalMemory), as TARN_OPENCL_LOCAL_MEMORY_INIT sets it */
  gboolean has_banks; /**< FALSE: banks do not explain the times; the next three fields are 0 */
  guint bank_count;   /**< how many banks there are */
  guint bank_bytes;   /**< how many consecutive bytes are in the same bank */
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
 * Measures the banks of a device's local memory. OpenCL has no query for them. So the function
 * times a kernel that accesses local memory in about thirty patterns, and chooses the layout of
 * banks whose conflicts explain the times best. It makes a context and a queue of its own, and
 * takes up to about two seconds, plus the time to compile the kernel. Other work of the device
 * meanwhile makes the result worse. With G_MESSAGES_DEBUG=Tarn-OpenCL in the environment, the
 * function logs the times.
 *
 * The function knows layouts of 8 to 128 banks (a power of two) of 4, 8 or 16 bytes, together at
 * most 1024 bytes. In a layout, all work items of a warp (sub-group, wave; at most 64), or half of
 * them, access the memory at the same time.
 *
 * For each layout, the function fits a line to the times over the numbers of conflicts, by least
 * squares of relative errors. It leaves out the worst twentieth of the patterns. R squared, 0 to 1,
 * is the share of the variation of times that the layout explains. The device has banks if the best
 * layout explains 0.9 or more, and the slowest pattern takes at least 1.5 times as long as the
 * fastest.
 *
 * With banks, the confidence is this share, times 1 - u1 / u2. Here u1 is the unexplained variation
 * for the best layout, and u2 for the second best. So the confidence is 0 if the two explain the
 * same. Without banks, the confidence is 1 - this share * s. Here s is 0 if all patterns take the
 * same time, and 1 if the slowest takes at least 1.5 times as long as the fastest.
 *
 * @param device  the device
 * @param result  out: start from TARN_OPENCL_LOCAL_MEMORY_INIT, whose struct_size says how much is
 *                filled; unchanged on failure
 * @param error   return location, or NULL: TARN_ERROR_NOT_SUPPORTED for a device that cannot time
 *                commands, reports that they take no time, has no compiler, allows fewer than 16
 *                work items in a work-group, or has too little local memory;
 *                TARN_ERROR_OUT_OF_MEMORY; TARN_OPENCL_ERROR for other failures, with the build log
 *                if the build fails; TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set. Any thread may call it. For a good result, let only one
 *         thread at a time measure a device.
 * @since 0.1
 */
gboolean tarn_opencl_measure_local_memory (cl_device_id device, TarnOpenclLocalMemory *result,
                                           GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnOpenclImagePool, tarn_opencl_image_pool_unref)

G_END_DECLS

#endif
