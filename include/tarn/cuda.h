/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Everything of libtarn-cuda: allocators, contexts, streams, memos, tests and occupancy.
 *
 * It needs no <cuda.h>, and may stand before or after it: what both declare is the same (C11 or C++
 * is needed then, as C99 allows no typedef twice).
 */

#ifndef TARN_CUDA_H
#define TARN_CUDA_H

#include <tarn/tarn.h>

G_BEGIN_DECLS

/* As <cuda.h> has them: the driver's types, not Tarn's. */
/** @cond */
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
#if defined(__LP64__) || defined(_WIN64)
typedef unsigned long long CUdeviceptr;
#else
typedef unsigned int CUdeviceptr;
#endif

typedef struct CUstream_st *CUstream;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
/** @endcond */

/**
 * The domain of errors whose code is CUDA's own status, a CUresult.
 *
 * @since 0.1
 */
#define TARN_CUDA_ERROR (tarn_cuda_error_quark ())

/**
 * Gets the domain of CUDA's errors: write TARN_CUDA_ERROR. Their code is CUDA's status, a CUresult.
 * Two statuses are errors of Tarn's own, wherever a function says that it gives TARN_CUDA_ERROR:
 * CUDA_ERROR_OUT_OF_MEMORY is TARN_ERROR_OUT_OF_MEMORY, and CUDA_ERROR_CONTEXT_IS_DESTROYED is
 * TARN_ERROR_CONTEXT_LOST.
 *
 * @return the quark, the same for the life of the process; any thread may call it
 * @since 0.1
 */
GQuark tarn_cuda_error_quark (void);

/**
 * A device that was chosen. The strings are its own, and nothing in it changes.
 *
 * @since 0.1
 */
typedef struct
{
  CUdevice device;      /**< the driver's number for it */
  guint device_index;   /**< its place among the devices, as cuDeviceGet() takes it */
  gchar *name;          /**< as the driver has it */
  gchar *uuid;          /**< nullable; as nvidia-smi writes it: "GPU-9f2c5c3a-..." */
  gchar *pci;           /**< nullable; "0000:65:00.0" */
  gchar *selector;      /**< a text that chooses it: see tarn_selection_make_selector() */
  gsize bytes;          /**< all of its memory; 0: the driver does not say */
  gpointer reserved[4]; /**< for later */
} TarnCudaDevice;

/**
 * Chooses the CUDA devices that tests are to run on. They are those that a text chooses, in the
 * strict syntax of tarn_selection_resolve(), whose platform `cuda` they are; without one, what
 * TARN_TEST says; else every device, unless PYOPENCL_TEST is set, which is about OpenCL alone.
 *
 * Where there is no driver, or it has no device, nothing is chosen, which is no error, whatever the
 * text. A driver that answers with an error is reported in a g_message().
 *
 * @param selection  nullable: the environment
 * @param error      return location, or NULL: TARN_ERROR_INVALID_SELECTION, saying where the text
 *                   is from and what there was to choose from; TARN_ERROR_FORKED in a child of
 *                   fork ()
 * @return (transfer full): an array of TarnCudaDevice, which may be empty, for g_ptr_array_unref(),
 *         or NULL with @p error set. Any thread may call it, while none changes the environment.
 * @since 0.1
 */
GPtrArray *tarn_cuda_select_test_devices (const gchar *selection,
                                          GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * The device and the context that a test is to run on. All of it is valid during the test.
 *
 * @since 0.1
 */
typedef struct
{
  CUdevice device;            /**< the device */
  CUcontext context;          /**< a context of the test alone; current in its thread */
  const TarnCudaDevice *info; /**< about the device */
  gpointer reserved[4];       /**< for later */
} TarnCudaTest;

/**
 * The function of a test. It runs in the thread that calls g_test_run ().
 *
 * @param test  the device and context to run on
 * @param data  as given to tarn_cuda_test_add()
 * @since 0.1
 */
typedef void (*TarnCudaTestFunc) (const TarnCudaTest *test, gconstpointer data);

/**
 * Adds a test to g_test's once for each chosen CUDA device. TARN_TEST chooses them, else they are
 * all: see tarn_cuda_select_test_devices(). The path says which one it is: test "pool/reuse" is
 * "/cuda/1/pool/reuse" on device 1. Each runs in a context of its own, which is current, and is
 * destroyed afterwards, once tarn_cuda_clear_context_caches() was called. A device that is named
 * twice is one test.
 *
 * Where no device is chosen, one test of the whole program, "/cuda/no-device", is skipped and says
 * why; a choice that cannot be made is one that fails.
 *
 * Call it in the thread that calls g_test_run (), after g_test_init ().
 *
 * @param path  where the test stands among those of its device; a `/` before it changes nothing
 * @param func  the test
 * @param data  for @p func; nullable, not freed
 * @since 0.1
 */
void tarn_cuda_test_add (const gchar *path, TarnCudaTestFunc func, gconstpointer data);

/* Contexts */

/**
 * Makes the default device's primary context current in this thread. The context is retained. The
 * device is the one that the user means: the one whose number CUDA_DEVICE has, else the file
 * .cuda_device or .cuda-device in the home folder; else the first that gives a context. Under
 * mpirun or srun the search starts at the process's place among those of its node, so that these
 * spread over its devices:
 *
 *     mpirun -n 4 ./program
 *     srun --ntasks-per-node=4 ./program
 *
 * (OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID, SLURM_LOCALID or PMI_LOCAL_RANK, modulo the number
 * of devices.) The files have at most 64 bytes. Neither files nor variables are read in a
 * set-user-ID program.
 *
 * @param device  out, nullable: which device it is
 * @param error   return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for a number that is none,
 *                TARN_ERROR_NO_DEVICE if there is no such device, or none at all;
 *                TARN_ERROR_NO_CONTEXT if none gives a context, with each one's reason;
 *                TARN_ERROR_NO_DRIVER, TARN_ERROR_FORKED, TARN_ERROR_OUT_OF_MEMORY, or
 *                TARN_CUDA_ERROR with the driver's status
 * @return (transfer full): for tarn_cuda_context_release(), or NULL with @p error set. Any thread
 *         may call it, while none changes the environment.
 * @since 0.1
 */
CUcontext tarn_cuda_make_default_context (CUdevice *device,
                                          GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Undoes tarn_cuda_make_default_context(). The context is current no more, if it is the current one
 * of this thread, and its reference is released. A failure of the driver's is a g_message(). In a
 * child of fork () nothing is done.
 *
 * A context that was destroyed by a reset of its device is released, too, but stays current: the
 * driver does not survive that it is taken away (seen with driver 580).
 *
 * @param context  the context from that function, once for each time that it returned it: another
 *                 context, or once more, is a programming error; NULL is allowed. Any thread may
 *                 call it.
 * @since 0.1
 */
void tarn_cuda_context_release (CUcontext context);

/**
 * Makes the default context current, once for the whole process. It is
 * tarn_cuda_make_default_context() with the same device and context, or the same error, each time.
 * The context is current in this thread afterwards. Nothing is released, also not at exit, when the
 * driver may be gone.
 *
 * @param device   out, nullable
 * @param context  out, nullable: (transfer none)
 * @param error    return location, or NULL: as tarn_cuda_make_default_context(), and
 *                 TARN_ERROR_CONTEXT_LOST once the device was reset
 * @return TRUE, or FALSE with @p error set and nothing stored. Any thread may call it.
 * @since 0.1
 */
gboolean tarn_cuda_autoinit (CUdevice *device, CUcontext *context, GError **error);

/**
 * Gets the device that the user means. CUDA_DEVICE has its number, else the file .cuda_device or
 * .cuda-device in the home folder, else the caller. No context is made. PyCUDA calls this
 * get_default_device().
 *
 * @param fallback  the number of the device to take where neither is there
 * @param device    out
 * @param error     return location, or NULL: as tarn_cuda_make_default_context(), less what is
 *                  about contexts
 * @return TRUE, or FALSE with @p error set and nothing stored. Any thread may call it, while none
 *         changes the environment.
 * @since 0.1
 */
gboolean tarn_cuda_get_default_device (gint fallback, CUdevice *device, GError **error);

/* Memory */

/**
 * Options for allocators of device memory.
 *
 * All but plain_memory is about virtual memory, of which a heap over the allocator may make its
 * blocks. What tarn_allocator_allocate() takes from the allocator itself is plain memory in any
 * case.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnCudaDeviceOptions), as its initializer sets it */

  /** TRUE: no virtual memory, only cuMemAlloc, for what takes nothing else: cuIpcGetMemHandle, or a
   * library from before CUDA 10.2. */
  gboolean plain_memory;

  /** TRUE: other processes can be given virtual memory, as a file descriptor. It is made as
   * cuMemCreate wants it for that (CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR); to send it,
   * cuMemRetainAllocationHandle of a block's address gives the handle of the piece that the block
   * is in, which cuMemExportToShareableHandle makes a descriptor of. */
  gboolean exportable;

  /** Nullable: devices that can use virtual memory, too, at the same addresses (cuMemSetAccess).
   * Its own device always can. */
  const CUdevice *peers;
  gsize n_peers; /**< how many peers there are */
} TarnCudaDeviceOptions;

/**
 * A TarnCudaDeviceOptions to start from: every field at its default.
 *
 * @since 0.1
 */
#define TARN_CUDA_DEVICE_OPTIONS_INIT                                                              \
  {                                                                                                \
    sizeof (TarnCudaDeviceOptions), /* struct_size */                                              \
        FALSE,                      /* plain_memory */                                             \
        FALSE,                      /* exportable */                                               \
        NULL,                       /* peers */                                                    \
        0                           /* n_peers */                                                  \
  }

/**
 * Makes an allocator of device memory (cuMemAlloc). Each call is made in the context, from any
 * thread, and leaves the thread's current one as it was. A block of 0 bytes has no memory. It is
 * tarn_cuda_device_allocator_new_with_options() with NULL for the options.
 *
 * A primary context is retained until the allocator and all its blocks are gone; any other is its
 * owner's. When that one destroys it, its memory is gone: allocating then is
 * TARN_ERROR_CONTEXT_LOST, and freeing does nothing but count
 * (tarn_cuda_allocator_get_lost_bytes()). A pool sees it only when it asks the driver for more, and
 * then stops holding; until then it hands out what it holds, since to ask the driver on each hit
 * would cost as much as the hit. So before a context is destroyed, call tarn_pool_stop_holding()
 * for each pool over it. No thread may be in a call for one of its blocks while it is destroyed. A
 * driver before CUDA 12.0 cannot tell a destroyed context from a later one at its address: there,
 * free everything first.
 *
 * @param context  nullable: the one that is current in this thread
 * @param error    return location, or NULL: TARN_ERROR_NO_DRIVER, TARN_ERROR_NO_DEVICE,
 *                 TARN_ERROR_NO_CONTEXT if none is given or current, TARN_ERROR_CONTEXT_LOST,
 *                 TARN_ERROR_FORKED, or TARN_CUDA_ERROR with the driver's status
 * @return (transfer full): the allocator, which any thread may use, or NULL with @p error set
 * @since 0.1
 */
TarnAllocator *tarn_cuda_device_allocator_new (CUcontext context,
                                               GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Makes an allocator of device memory with options. What tarn_cuda_device_allocator_new() says of
 * contexts holds for it, too.
 *
 * Where the driver and the device have virtual memory (CUDA 10.2, and
 * CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), the allocator offers it
 * (TarnAllocatorOps.virtual_granularity), for whatever makes blocks of it. Such memory is the
 * device's, not the context's: every context of the device can access it, and it can be freed after
 * the context is gone. Requests for new memory fail with TARN_ERROR_CONTEXT_LOST then, as without
 * it. It can be registered for GPUDirect RDMA if the driver supports that, but has no
 * cuIpcGetMemHandle; for that there is TarnCudaDeviceOptions.plain_memory, or exportable.
 *
 * @param context  nullable: the one that is current in this thread
 * @param options  nullable: TARN_CUDA_DEVICE_OPTIONS_INIT. Copied, and the peers, too.
 * @param error    return location, or NULL: as tarn_cuda_device_allocator_new(), and
 *                 TARN_ERROR_INVALID_ARGUMENT for peers or exportable beside plain_memory, n_peers
 *                 without peers, or fields that this version does not know;
 *                 TARN_ERROR_NOT_SUPPORTED for exportable where the device cannot export, for a
 *                 peer that cannot use the device's memory, and for both without virtual memory
 * @return (transfer full): the allocator, which any thread may use, or NULL with @p error set
 * @since 0.1
 */
TarnAllocator *
tarn_cuda_device_allocator_new_with_options (CUcontext context,
                                             const TarnCudaDeviceOptions *options,
                                             GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Makes an allocator of page-locked host memory (cuMemHostAlloc). A device copies from and to it
 * without the host's help. Otherwise as tarn_cuda_device_allocator_new().
 *
 * @param context  nullable: the one that is current in this thread
 * @param flags    for cuMemHostAlloc, 0 for none
 * @param error    return location, or NULL: as tarn_cuda_device_allocator_new()
 * @return (transfer full): the allocator, which any thread may use, or NULL with @p error set
 * @since 0.1
 */
TarnAllocator *tarn_cuda_host_allocator_new (CUcontext context, guint flags,
                                             GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Makes an allocator of managed memory (cuMemAllocManaged). Host and devices use it by the same
 * address. Otherwise as tarn_cuda_device_allocator_new().
 *
 * @param context  nullable: the one that is current in this thread
 * @param flags    for cuMemAllocManaged, 0 for CU_MEM_ATTACH_GLOBAL
 * @param error    return location, or NULL: as tarn_cuda_device_allocator_new(), and
 *                 TARN_ERROR_NOT_SUPPORTED if the driver has no managed memory
 * @return (transfer full): the allocator, which any thread may use, or NULL with @p error set
 * @since 0.1
 */
TarnAllocator *tarn_cuda_managed_allocator_new (CUcontext context, guint flags,
                                                GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Makes an allocator of memory of CUDA's own pools (cuMemAllocAsync). A program that shares a
 * device with libraries which call cudaMallocAsync() takes memory from the same place as they do,
 * so that what one of them has freed serves the others. Put a pool over it: Tarn's pool then serves
 * most requests, and CUDA's pool the others. Otherwise as tarn_cuda_device_allocator_new().
 *
 * A block is ready for all streams when it is allocated: the allocator has a stream of its own for
 * allocations, and the host waits for that. This takes long only if the device has no other memory
 * than what a library has freed and commands still use. What is freed without a pool goes on the
 * stream that used the block first, after the others, and the host does not wait
 * (cuMemFreeAsync()). If one of these streams is being captured then, also if another thread begins
 * the capture during the free, the memory is never freed, and a g_message() says so. Before a pool
 * returns memory, the host waits for the streams that used it, and for no other stream.
 *
 * CUDA's pool decides when it returns memory to the device: see
 * CU_MEMPOOL_ATTR_RELEASE_THRESHOLD. Such memory has no cuIpcGetMemHandle(), and a heap over the
 * allocator makes parts of it, aligned to 256 bytes.
 *
 * @param context  nullable: the one that is current in this thread
 * @param pool     the pool that memory is from, alive until the allocator and its blocks are gone;
 *                 NULL: whichever is the current one of the device (cuDeviceSetMemPool()) when
 *                 memory is allocated
 * @param error    return location, or NULL: as tarn_cuda_device_allocator_new(), and
 *                 TARN_ERROR_NOT_SUPPORTED if the driver lacks a function (CUDA before 11.2), which
 *                 the error names, or the device has no memory pools
 * @return (transfer full): the allocator, which any thread may use, or NULL with @p error set
 * @since 0.1
 */
TarnAllocator *tarn_cuda_async_allocator_new (CUcontext context, CUmemoryPool pool,
                                              GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Gets the bytes that went with a context before they were freed.
 *
 * @param allocator  one of libtarn-cuda's; another kind is a programming error
 * @return bytes, of blocks that were freed after the context was destroyed; any thread may call it
 * @since 0.1
 */
guint64 tarn_cuda_allocator_get_lost_bytes (TarnAllocator *allocator);

/**
 * Gets the address on the device of a block. It is one of device or managed memory, or of memory of
 * CUDA's pools.
 *
 * @param block  a block in use; one of another kind of memory is a programming error. Any thread
 *               may call it.
 * @return valid until tarn_block_free(); 0 for a block of 0 bytes, but a pool has one of 1 byte for
 *         it if it can
 * @since 0.1
 */
CUdeviceptr tarn_cuda_block_get_device_pointer (const TarnBlock *block);

/**
 * Gets the address on the host of a block. It is one of page-locked or managed memory.
 *
 * @param block  a block in use; one of another kind of memory is a programming error. Any thread
 *               may call it.
 * @return valid until tarn_block_free(); NULL for a block of 0 bytes, but a pool has one of 1 byte
 *         for it if it can
 * @since 0.1
 */
gpointer tarn_cuda_block_get_host_pointer (const TarnBlock *block);

/* Pools, and memory that several streams use */

/**
 * Makes a pool of device memory as most programs want it. The pool is over a heap, and the heap
 * over tarn_cuda_device_allocator_new(). It takes little more memory than the program uses, for any
 * sizes of requests, and seldom calls the driver. Blocks are of virtual memory, unless the device
 * has none that works, or TARN_CUDA_PLAIN is 1 in the environment. To see whether it works, the
 * first pool of a device makes and maps a little of it. cuIpcGetMemHandle() needs an address that
 * cuMemAlloc returned: set TARN_POOL_WHOLE_BUFFERS for that.
 *
 * @param context  where memory belongs; NULL: the current one
 * @param options  nullable: the defaults; start from TARN_POOL_OPTIONS_INIT. A limit is the
 *                 heap's, too: no more is taken of the driver. tarn_pool_set_limit_bytes()
 *                 changes both. TarnPoolOptions.heap has other options of the heap.
 * @param error    return location, or NULL: as tarn_cuda_device_allocator_new(),
 *                 tarn_heap_allocator_new() and tarn_pool_new()
 * @return (transfer full): an empty pool, which any thread may use, or NULL with @p error set
 * @since 0.1
 */
TarnPool *tarn_cuda_pool_new (CUcontext context, const TarnPoolOptions *options,
                              GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Allocates a block from a pool, for use on a stream. It is tarn_pool_allocate_ordered() for a CUDA
 * stream.
 *
 * Nothing keeps a stream alive. Call tarn_cuda_pool_forget_stream() before you destroy a stream
 * that is not idle: the next stream may get the same handle, and the pool cannot tell them apart.
 *
 * While the stream is being captured, the graph has memory of its own if
 * tarn_cuda_pool_begin_graph() was called. Without that, the pool serves requests from memory that
 * the stream used last, or that is idle, without a call of the driver. A request that needs the
 * driver fails with TARN_ERROR_NOT_SUPPORTED. So allocate before the capture, and free after the
 * last launch of the graph. Calls for other streams work as usual, in the same thread and in
 * others, and do not end the capture.
 *
 * If another thread frees or moves a block of CU_STREAM_PER_THREAD, the pool may record an event on
 * the legacy stream. Then all blocking streams wait for each other, as they do for any command
 * there.
 *
 * @param pool    a pool over one of libtarn-cuda's allocators; any thread may call it
 * @param size    bytes; 0 is allowed
 * @param stream  a stream of the allocator's context; NULL and CU_STREAM_LEGACY are the default
 *                stream that all threads share, CU_STREAM_PER_THREAD is the calling thread's
 * @param error   return location, or NULL: as tarn_pool_allocate(), TARN_ERROR_INVALID_ARGUMENT for
 *                a stream of another context, TARN_ERROR_NOT_SUPPORTED in a capture, or
 *                TARN_CUDA_ERROR with the driver's status
 * @return (transfer full): the block, for tarn_block_free() while the stream lives or after
 *         tarn_cuda_pool_forget_stream(), or NULL with @p error set
 * @since 0.1
 */
TarnBlock *tarn_cuda_pool_allocate (TarnPool *pool, gsize size, CUstream stream,
                                    GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Finds the block in use that has an address of device memory. It is tarn_pool_find() for a
 * CUdeviceptr.
 *
 * @param pool     a pool with TARN_POOL_FINDABLE, over an allocator of device or managed
 *                 memory
 * @param address  the result of tarn_cuda_block_get_device_pointer()
 * @return (transfer none): the block, or NULL where no block in use has that address; valid until
 *         tarn_block_free(). Any thread may call it.
 * @since 0.1
 */
TarnBlock *tarn_cuda_pool_find (TarnPool *pool, CUdeviceptr address);

/**
 * Records that commands on a stream use a block. It is tarn_block_record_use() for a CUDA stream.
 *
 * @param block   a block in use, of one of libtarn-cuda's allocators or of a pool over one
 * @param stream  a stream of the allocator's context, alive until the block is freed, or until
 *                tarn_cuda_pool_forget_stream(); as for tarn_cuda_pool_allocate()
 * @param error   return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for a stream of another
 *                context, TARN_ERROR_CONTEXT_LOST, TARN_ERROR_FORKED, or TARN_CUDA_ERROR with the
 *                driver's status
 * @return TRUE, or FALSE with @p error set and nothing changed; any thread may call it, one at a
 *         time for a block
 * @since 0.1
 */
gboolean tarn_cuda_block_record_use (TarnBlock *block, CUstream stream, GError **error);

/**
 * Frees a block that a stream may still use. It is tarn_block_free_on() for a CUDA stream, and what
 * cuMemFreeAsync() is to a program.
 *
 * @param block   (transfer full): a block of one of libtarn-cuda's allocators or of a pool over
 *                one; NULL is allowed. Any thread may call it.
 * @param stream  a stream of the allocator's context, alive during the call; as for
 *                tarn_cuda_pool_allocate(), so that NULL is a stream
 * @since 0.1
 */
void tarn_cuda_block_free_on (TarnBlock *block, CUstream stream);

/**
 * Moves a block to one stream, which waits for the others. It waits for all commands that were put
 * on them so far. Afterwards the block is used by that stream alone. tarn_block_wait() makes the
 * host wait instead.
 *
 * @param block   a block in use, of one of libtarn-cuda's allocators or of a pool over one
 * @param stream  a stream of the allocator's context, alive until the block is freed, or until
 *                tarn_cuda_pool_forget_stream(); as for tarn_cuda_pool_allocate(), so that NULL is
 *                a stream
 * @param error   return location, or NULL: as tarn_cuda_block_record_use(), and
 *                TARN_ERROR_NOT_SUPPORTED in a capture
 * @return TRUE, or FALSE with @p error set; any thread may call it, one at a time for a block
 * @since 0.1
 */
gboolean tarn_cuda_block_move_to_stream (TarnBlock *block, CUstream stream, GError **error);

/**
 * Gets the stream that a block is used on. It is what the block was allocated for, moved to or
 * first recorded with.
 *
 * @param block   a block in use, of one of libtarn-cuda's allocators or of a pool over one; any
 *                thread may call it, while none moves the block or records a use
 * @param stream  out: the stream. The default one that all threads share is CU_STREAM_LEGACY, also
 *                if NULL was given: what NULL is depends on how a program is compiled. The calling
 *                thread's own is CU_STREAM_PER_THREAD.
 * @return FALSE, with nothing stored, if the block is no stream's, or the default stream's of
 *         another thread, which has no name in this one
 * @since 0.1
 */
gboolean tarn_cuda_block_get_stream (const TarnBlock *block, CUstream *stream);

/**
 * Tells a pool that a stream will be destroyed before it is idle. Commands on it may still use
 * memory of the pool. Without this call, the pool would take a later stream with the same handle
 * for it, and that stream would not wait. After it, the stream may be destroyed before its blocks
 * are freed or moved. You may leave the call out if the stream is idle and no block in use needs
 * it. But then other streams get the memory that was freed on it only when memory runs out, or a
 * limit is reached.
 *
 * @param pool    a pool over one of libtarn-cuda's allocators; any thread may call it
 * @param stream  the stream, alive and not capturing
 * @param error   return location, or NULL: TARN_ERROR_NOT_SUPPORTED in a capture,
 *                TARN_ERROR_CONTEXT_LOST, or TARN_CUDA_ERROR with the driver's status
 * @return TRUE, also for a stream that the pool has never met, or FALSE with @p error set and
 *         nothing changed
 * @since 0.1
 */
gboolean tarn_cuda_pool_forget_stream (TarnPool *pool, CUstream stream, GError **error);

/**
 * Gets the pool that a process shares on a device. There is one for each device. It is made at the
 * first request, as tarn_cuda_pool_new() makes it, in the device's primary context, which CUDA's
 * runtime uses, too. What PyTorch and CuPy are given by tarn_cuda_torch_malloc() and
 * tarn_cuda_cupy_malloc() is of this pool. Other devices that can use this one's memory
 * (cuDeviceCanAccessPeer) may do so.
 *
 * Two variables of the environment are read once, and not in set-user-ID programs: TARN_CUDA_LIMIT
 * is the most memory of each device, in bytes ("8000000000", "8G" for 8 times 1,024^3) or as a
 * share of the device's ("80%"); with TARN_CUDA_STATS=1 a table of what was done is written to
 * standard error at exit.
 *
 * The pool and the context stay until the process ends. Once the device was reset
 * (cuDevicePrimaryCtxReset), the next call makes another pool.
 *
 * @param device  as cuDeviceGet() gives it
 * @param error   return location, or NULL: TARN_ERROR_NO_DEVICE, TARN_ERROR_INVALID_ARGUMENT if
 *                TARN_CUDA_LIMIT cannot be read; TARN_ERROR_NO_DRIVER, TARN_ERROR_FORKED,
 *                TARN_ERROR_OUT_OF_MEMORY, or TARN_CUDA_ERROR with the driver's status
 * @return (transfer full): the pool, or NULL with @p error set. Any thread may call it.
 * @since 0.1
 */
TarnPool *tarn_cuda_get_shared_pool (CUdevice device, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Memory of CUDA graphs */

/**
 * Begins memory of a CUDA graph that a stream captures. Call it right before
 * cuStreamBeginCapture(), or right after.
 *
 *     tarn_cuda_pool_begin_graph (pool, stream, &graph, &error);
 *     cuStreamBeginCapture (stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
 *     block = tarn_cuda_pool_allocate (pool, size, stream, &error);
 *     ...
 *     tarn_block_free (block);
 *     cuStreamEndCapture (stream, &captured);
 *     tarn_cuda_pool_end_graph (pool, graph, &error);
 *
 * Until tarn_cuda_pool_end_graph() requests of the pool that name this stream while it captures, or
 * another stream that has joined the capture, get memory of the graph. What is freed is allocated
 * again by the same stream of the capture. Nothing else gets memory of the graph until
 * tarn_cuda_pool_release_graph(), so that the graph may be launched again and again. The memory is
 * taken from the pool, and counts for its limit, in whichever capture mode. Requests of other
 * streams, and of no stream, are served as usual.
 *
 * A block that several streams of the capture use (tarn_cuda_block_record_use()) is not allocated
 * again in the graph. A block that was allocated before the capture and is used in it has to live
 * as long as the graph. A block of the graph may be used after the capture, such as its result; it
 * may be freed at any time, also after the graph was released.
 *
 * Before a capture, tarn_pool_free_held() makes the most room for the graph, because what the pool
 * holds for other streams is none that the graph can take.
 *
 * @param pool    a pool over one of libtarn-cuda's allocators; any thread may call it. The graph
 *                keeps a reference.
 * @param stream  a stream of the allocator's context, alive until tarn_cuda_pool_end_graph(), as
 *                are those that join the capture
 * @param graph   out: the graph's number, never 0
 * @param error   return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for the default stream that
 *                all threads share, a stream of another context, a stream for which the pool has
 *                begun a graph that was not ended, or a pool of another backend;
 *                TARN_ERROR_NOT_SUPPORTED for a driver older than CUDA 10.1;
 *                TARN_ERROR_CONTEXT_LOST, TARN_ERROR_FORKED, or TARN_CUDA_ERROR with the driver's
 *                status
 * @return TRUE, or FALSE with @p error set and nothing begun
 * @since 0.1
 */
gboolean tarn_cuda_pool_begin_graph (TarnPool *pool, CUstream stream, guint64 *graph,
                                     GError **error);

/**
 * Ends memory of a CUDA graph that was captured. Call it after cuStreamEndCapture(), also if the
 * capture failed. The pool serves all requests as before. What the graph has stays the graph's.
 *
 * @param pool   the pool that tarn_cuda_pool_begin_graph() was given; any thread may call it
 * @param graph  the number that it stored
 * @param error  return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for a graph that was ended or
 *               released, or is another pool's; TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set
 * @since 0.1
 */
gboolean tarn_cuda_pool_end_graph (TarnPool *pool, guint64 graph, GError **error);

/**
 * Gives the memory of a CUDA graph back to its pool. Call it when the graph is not launched any
 * more, right before or after cuGraphExecDestroy(). Launches may still run: the host waits until
 * all streams of the context are done with what they were given. While a graph is being captured
 * with memory of Tarn's, nobody waits, and the memory is returned when the last such capture ends.
 * If another thread is giving memory of graphs back just then, this call waits for it.
 *
 * Pieces with blocks in use stay. When the last of these blocks is freed, the host waits like
 * that, and the memory is returned.
 *
 * A graph that was not ended is ended. One that is never released keeps its memory, and its pool.
 *
 * @param pool   the pool that tarn_cuda_pool_begin_graph() was given; any thread may call it. The
 *               program's own reference may be gone.
 * @param graph  the number that it stored
 * @param error  return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for a graph that was released
 *               before, or is another pool's; TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set
 * @since 0.1
 */
gboolean tarn_cuda_pool_release_graph (TarnPool *pool, guint64 graph, GError **error);

/* Memory for frameworks that take an allocator as C functions */

/**
 * Allocates for PyTorch, as torch.cuda.memory.CUDAPluggableAllocator calls it:
 *
 *     import torch
 *     tarn = torch.cuda.memory.CUDAPluggableAllocator (
 *         "libtarn-cuda.so.0", "tarn_cuda_torch_malloc", "tarn_cuda_torch_free")
 *     torch.cuda.memory.change_current_allocator (tarn)
 *
 * before anything is on the GPU. The memory is of tarn_cuda_get_shared_pool(). What else PyTorch
 * takes is in the guide; a program that uses several streams needs tarn_cuda_torch_record_stream().
 *
 * In a process that has PyTorch's libraries it does not return if there is no memory, or if
 * anything else is wrong, but throws: torch.OutOfMemoryError, or RuntimeError.
 *
 * @param size    bytes; 0 or less gives NULL
 * @param device  as cuDeviceGet() gives it
 * @param stream  a stream of the device's primary context, on which the memory is used and freed;
 *                NULL is the default stream. It must not be capturing.
 * @return the address, for tarn_cuda_torch_free(), or NULL. Any thread may call it.
 * @since 0.1
 */
void *tarn_cuda_torch_malloc (gssize size, int device, CUstream stream);

/**
 * Frees what tarn_cuda_torch_malloc() gave, for what is put on its stream later. The address is
 * enough. Any thread may call it.
 *
 * @param memory  the address; NULL is allowed; one that is not in use is a g_critical()
 * @param size    not looked at
 * @param device  not looked at
 * @param stream  not looked at: memory is freed on the stream that it was allocated for
 * @since 0.1
 */
void tarn_cuda_torch_free (void *memory, gssize size, int device, CUstream stream);

/**
 * Records that a stream uses PyTorch's memory. It is for CUDAPluggableAllocator's
 * set_record_stream_fn(), and what tensor.record_stream() calls. The memory is not handed out again
 * before that stream is done with what was put on it until it is freed. Any thread may call it.
 *
 * @param memory  the address of what tarn_cuda_torch_malloc() gave; NULL is allowed
 * @param stream  a stream of the device's primary context
 * @since 0.1
 */
void tarn_cuda_torch_record_stream (void *memory, CUstream stream);

/**
 * Returns memory that is not in use to the driver. Give it to CUDAPluggableAllocator's
 * set_reset_fn(): then torch.cuda.empty_cache() calls it. While PyTorch captures a graph it does
 * nothing, because the host would have to wait for the device. Any thread may call it.
 *
 * @since 0.1
 */
void tarn_cuda_torch_empty_cache (void);

/**
 * Limits what PyTorch may have of a device. It is for CUDAPluggableAllocator's
 * set_memory_fraction_fn(), and what torch.cuda.set_per_process_memory_fraction() calls; it takes
 * the place of TARN_CUDA_LIMIT. Any thread may call it.
 *
 * @param fraction  the part of the device's memory, above 0 and at most 1
 * @param device    as cuDeviceGet() gives it
 * @since 0.1
 */
void tarn_cuda_torch_set_memory_fraction (double fraction, int device);

/**
 * A name of PyTorch's for a pool that graphs have memory from. It is a MempoolId_t there, a
 * std::pair, which is passed to functions as this is.
 *
 * @since 0.1
 */
typedef struct
{
  unsigned long long first;  /**< as PyTorch says */
  unsigned long long second; /**< as PyTorch says */
} TarnCudaTorchPoolId;

/**
 * Says which of PyTorch's pools the next capture takes. It is for
 * CUDAPluggableAllocator's set_begin_allocate_to_pool(), and what torch.cuda.graph() calls before a
 * capture. Any thread may call it and its companions. What is then allocated for a stream that
 * captures is apart from all else, and stays so until the last graph of that pool is gone. With its
 * two companions CUDA graphs work; without, an allocation in a capture is an error.
 *
 * @param device  as cuDeviceGet() gives it
 * @param id      PyTorch's name of the pool: the same for graphs that share memory
 * @param filter  not looked at: which streams are meant, as a std::function, of which the address
 *                is passed. It is those that capture; of several captures at once on a device,
 *                those that the calling thread began
 * @since 0.1
 */
void tarn_cuda_torch_begin_allocate_to_pool (int device, TarnCudaTorchPoolId id, void *filter);

/**
 * Says that a capture is over. It is for CUDAPluggableAllocator's set_end_allocate_to_pool_fn().
 * Any thread may call it.
 *
 * @param device  as was given to tarn_cuda_torch_begin_allocate_to_pool()
 * @param id      the same
 * @since 0.1
 */
void tarn_cuda_torch_end_allocate_to_pool (int device, TarnCudaTorchPoolId id);

/**
 * Says that a graph is gone. It is for CUDAPluggableAllocator's set_release_pool(). Any thread may
 * call it. When the last graph of a pool is gone, the host waits until the device has completed the
 * work that it was given. Then the memory serves requests of other pools.
 *
 * @param device  as was given to tarn_cuda_torch_begin_allocate_to_pool()
 * @param id      the same
 * @since 0.1
 */
void tarn_cuda_torch_release_pool (int device, TarnCudaTorchPoolId id);

/**
 * Tells which stream the calling thread's memory is for.
 *
 * @since 0.1
 */
typedef CUstream (*TarnCudaStreamFunc) (void);

/**
 * Allocates for CuPy, as cupy.cuda.CFunctionAllocator calls it. The guide has the few lines of
 * Python that a program needs, which turn NULL into CuPy's OutOfMemoryError. The memory is of
 * tarn_cuda_get_shared_pool().
 *
 * @param param   the address of a TarnCudaStreamFunc that tells CuPy's current stream, or NULL:
 *                what is allocated is for the default stream
 * @param size    bytes; 0 gives NULL
 * @param device  as cuDeviceGet() gives it
 * @return the address, for tarn_cuda_cupy_free(), or NULL with a g_message() that says why. Any
 *         thread may call it.
 * @since 0.1
 */
void *tarn_cuda_cupy_malloc (void *param, gsize size, int device);

/**
 * Frees what tarn_cuda_cupy_malloc() gave, for what is put on its stream later. The address is
 * enough. Any thread may call it.
 *
 * @param param   not looked at
 * @param memory  the address; NULL is allowed; one that is not in use is a g_critical()
 * @param device  not looked at
 * @since 0.1
 */
void tarn_cuda_cupy_free (void *param, void *memory, int device);

/* Results that are computed once for each context */

/**
 * Makes a memoized function of a CUDA context and a key. PyCUDA calls this
 * context_dependent_memoize. The first argument of tarn_memo_get() is a CUcontext, or NULL for the
 * one that is current in the thread; without one it is TARN_ERROR_NO_CONTEXT. The function is
 * called with the context current, and so are unref_value and value_for_thread.
 *
 * Values of a destroyed context are never taken for a later one's, and are freed when the memo
 * computes next; its driver is not called then (is_dead). A driver before CUDA 12.0 cannot
 * tell contexts apart: there, call tarn_cuda_clear_context_caches() before one is destroyed.
 *
 * At exit the driver may be gone before what is kept; nothing is done then. Whoever wants it given
 * back calls tarn_cuda_clear_context_caches() before the end of main().
 *
 * @param ops        nullable: for keys and values; what it has for first arguments must be NULL
 * @param func       computes a value
 * @param user_data  for @p func and the functions of @p ops
 * @param destroy    nullable: of @p user_data
 * @return (transfer full): the memo, for tarn_memo_unref(); any thread may use it. No driver is
 *         needed to make one: without it, tarn_memo_get() says TARN_ERROR_NO_DRIVER.
 * @since 0.1
 */
TarnMemo *tarn_cuda_context_memo_new (const TarnMemoOps *ops, TarnMemoFunc func, gpointer user_data,
                                      GDestroyNotify destroy) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Forgets everything that memos keep for CUDA contexts. They are all memos of the process. PyCUDA
 * calls this clear_context_caches. Any thread may call it.
 *
 * @since 0.1
 */
void tarn_cuda_clear_context_caches (void);

/**
 * The key of a function, for a memo of functions. tarn_cuda_function_memo_new() makes the memo,
 * which copies the key.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnCudaFunctionKey), as TARN_CUDA_FUNCTION_KEY_INIT sets it */
  GBytes *image;     /**< the module: PTX, with or without its 0 at the end, or a cubin */
  const gchar *name; /**< the function's name in the module */
} TarnCudaFunctionKey;

/**
 * A TarnCudaFunctionKey to start from: every field at its default.
 *
 * @since 0.1
 */
#define TARN_CUDA_FUNCTION_KEY_INIT                                                                \
  {                                                                                                \
    sizeof (TarnCudaFunctionKey), /* struct_size */                                                \
        NULL,                     /* image */                                                      \
        NULL                      /* name */                                                       \
  }

/**
 * Makes a memo of modules, which loads each once for a context. Its first argument is a CUcontext,
 * or NULL for the current one, its key a GBytes with PTX or a cubin, its value a CUmodule. A module
 * is unloaded when it is forgotten: until then it is valid, and so are its functions.
 *
 * @return (transfer full): the memo, for tarn_memo_unref(); any thread may use it
 * @since 0.1
 */
TarnMemo *tarn_cuda_module_memo_new (void) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Gets the module of an image. It is tarn_memo_get() for a memo of tarn_cuda_module_memo_new().
 *
 * @param memo     the memo
 * @param context  nullable: the current one
 * @param image    PTX, with or without its 0 at the end, or a cubin
 * @param module   out: the module, valid until it is forgotten
 * @param error    return location, or NULL: as tarn_memo_get() for a memo of
 *                 tarn_cuda_context_memo_new(); TARN_CUDA_ERROR with the driver's status and what
 *                 its compiler says, up to 64 KiB
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_cuda_module_memo_get (TarnMemo *memo, CUcontext context, GBytes *image,
                                    CUmodule *module, GError **error);

/**
 * Makes a memo of functions, by their module and name. Its first argument is a CUcontext, or NULL
 * for the current one, its key a TarnCudaFunctionKey, its value a CUfunction, valid as long as its
 * module. A module is loaded once for each context, whatever functions of it are asked for, and
 * however many threads ask.
 *
 * A function that is forgotten here is forgotten in the memo of modules, too. The reverse does not
 * hold: if a module is forgotten only in the memo of modules, or through another memo of functions
 * over it, then this memo keeps the functions, which are invalid. tarn_memo_forget_everywhere()
 * forgets all of them.
 *
 * @param modules  nullable: a memo of tarn_cuda_module_memo_new() to take modules from, which also
 *                 has them for other purposes; else it has one of its own
 * @return (transfer full): the memo, for tarn_memo_unref(); any thread may use it
 * @since 0.1
 */
TarnMemo *tarn_cuda_function_memo_new (TarnMemo *modules) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Gets the function of an image and a name. It is tarn_memo_get() for a memo of
 * tarn_cuda_function_memo_new().
 *
 * @param memo      the memo
 * @param context   nullable: the current one
 * @param key       the function; image and name must be set
 * @param function  out: the function, valid until its module is forgotten
 * @param error     return location, or NULL: as tarn_cuda_module_memo_get(), and
 *                  TARN_ERROR_INVALID_ARGUMENT for a key that sets fields that this version of the
 *                  library does not have
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_cuda_function_memo_get (TarnMemo *memo, CUcontext context,
                                      const TarnCudaFunctionKey *key, CUfunction *function,
                                      GError **error);

/**
 * An array in page-locked or managed memory. It is one from tarn_cuda_host_array_allocate() to
 * tarn_cuda_host_array_clear(). Any thread may use it, one at a time.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnCudaHostArray), as TARN_CUDA_HOST_ARRAY_INIT sets it */
  TarnBlock *block;  /**< the block with its memory; its own */
  gpointer data;     /**< the element at [0, 0, ...]; may be NULL if there is none */
  guint rank;        /**< how many axes it has */
  gsize *shape;      /**< elements along each axis; its own */
  gsize *strides;    /**< bytes from one element to the next along each axis; its own */
  gsize item_size;   /**< bytes of an element */
  gsize size;        /**< bytes of all elements */
} TarnCudaHostArray;

/**
 * A TarnCudaHostArray to start from: every field at its default.
 *
 * @since 0.1
 */
#define TARN_CUDA_HOST_ARRAY_INIT                                                                  \
  {                                                                                                \
    sizeof (TarnCudaHostArray), /* struct_size */                                                  \
        NULL,                   /* block */                                                        \
        NULL,                   /* data */                                                         \
        0,                      /* rank */                                                         \
        NULL,                   /* shape */                                                        \
        NULL,                   /* strides */                                                      \
        0,                      /* item_size */                                                    \
        0                       /* size */                                                         \
  }

/**
 * Allocates an array in page-locked or managed memory.
 *
 * @param pool       over tarn_cuda_host_allocator_new() or tarn_cuda_managed_allocator_new()
 * @param rank       how many axes; 0: one element
 * @param shape      elements along each axis; copied
 * @param item_size  bytes of an element, at least 1
 * @param order      'C': the last axis is the one whose elements are neighbours; 'F': the first
 * @param array      out: start from TARN_CUDA_HOST_ARRAY_INIT, whose struct_size says how much is
 *                   to be filled; for tarn_cuda_host_array_clear()
 * @param error      return location, or NULL: TARN_ERROR_INVALID_ARGUMENT, TARN_ERROR_INVALID_SIZE
 *                   if the bytes of all are more than a gsize holds, or as tarn_pool_allocate()
 * @return TRUE, or FALSE with @p error set and @p array as it was. Any thread may call it.
 * @since 0.1
 */
gboolean tarn_cuda_host_array_allocate (TarnPool *pool, guint rank, const gsize *shape,
                                        gsize item_size, gchar order, TarnCudaHostArray *array,
                                        GError **error);

/**
 * Frees the memory of an array. The pool of the array gets it back.
 *
 * @param array  may be empty, and is afterwards. Any thread may call it.
 * @since 0.1
 */
void tarn_cuda_host_array_clear (TarnCudaHostArray *array);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TarnCudaHostArray, tarn_cuda_host_array_clear)

/**
 * The resources of a device for blocks of kernels. tarn_cuda_device_data_init() fills it, and so
 * may a table or a test. No driver can be asked for the last three fields: 0 there, and in
 * registers_per_thread, stands for the value that the compute capability is known to have.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnCudaDeviceData), as TARN_CUDA_DEVICE_DATA_INIT sets it */

  gint major;                  /**< compute capability: 9 of 9.0 */
  gint minor;                  /**< compute capability: 0 of 9.0 */
  guint max_threads_per_block; /**< threads */
  guint warp_size;             /**< threads */
  guint warps_per_mp;          /**< warps on a multiprocessor (mp), at most at a time */
  guint blocks_per_mp;         /**< blocks on a multiprocessor, at most at a time */
  guint registers_per_block;   /**< registers of 32 bits */
  guint registers_per_mp;      /**< registers of 32 bits */
  guint registers_per_thread;  /**< the most that a thread can have; or 0 */

  gsize shared_per_block;          /**< bytes, unless a kernel opts in to more */
  gsize shared_per_block_optin;    /**< bytes, for a kernel that opts in; 0: none can */
  gsize shared_per_mp;             /**< bytes */
  gsize shared_reserved_per_block; /**< bytes that the driver takes for each block */

  guint register_allocation_unit;    /**< a warp's registers are a multiple of this; or 0 */
  guint warp_allocation_granularity; /**< a multiprocessor's parts, each with warps and registers of
                                          its own; or 0 */
  gsize shared_allocation_unit;      /**< a block's bytes are a multiple of this; or 0 */
} TarnCudaDeviceData;

/**
 * A TarnCudaDeviceData to start from: every field at its default.
 *
 * @since 0.1
 */
#define TARN_CUDA_DEVICE_DATA_INIT                                                                 \
  {                                                                                                \
    sizeof (TarnCudaDeviceData), /* struct_size */                                                 \
        0,                       /* major */                                                       \
        0,                       /* minor */                                                       \
        0,                       /* max_threads_per_block */                                       \
        0,                       /* warp_size */                                                   \
        0,                       /* warps_per_mp */                                                \
        0,                       /* blocks_per_mp */                                               \
        0,                       /* registers_per_block */                                         \
        0,                       /* registers_per_mp */                                            \
        0,                       /* registers_per_thread */                                        \
        0,                       /* shared_per_block */                                            \
        0,                       /* shared_per_block_optin */                                      \
        0,                       /* shared_per_mp */                                               \
        0,                       /* shared_reserved_per_block */                                   \
        0,                       /* register_allocation_unit */                                    \
        0,                       /* warp_allocation_granularity */                                 \
        0                        /* shared_allocation_unit */                                      \
  }

/**
 * Stores the resources of a device, as its driver says them. What no driver can be asked is from a
 * table: registers_per_thread and the last three fields; they are 0 if the compute capability is
 * not in it. What a driver is too old to be asked is as the device has it.
 *
 * @param data    out: start from TARN_CUDA_DEVICE_DATA_INIT, whose struct_size says how much is to
 *                be filled
 * @param device  the device
 * @param error   return location, or NULL: TARN_CUDA_ERROR of a failing query, TARN_ERROR_FAILED
 *                for an answer that makes no sense, TARN_ERROR_NO_DRIVER, TARN_ERROR_NO_DEVICE,
 *                TARN_ERROR_NOT_SUPPORTED for a driver that has no attributes, TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it, no context
 *         is needed
 * @since 0.1
 */
gboolean tarn_cuda_device_data_init (TarnCudaDeviceData *data, CUdevice device, GError **error);

/**
 * Gets the bytes that the address of a row is best a multiple of. They go by the size of the words
 * that a kernel reads: 64 for words of 4 bytes, 128 for those of 8 and 16. PyCUDA calls this
 * DeviceData.align_bytes.
 *
 * @param data       the device
 * @param word_size  bytes of a word
 * @param bytes      out
 * @param error      return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for another size of words
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_cuda_device_data_align_bytes (const TarnCudaDeviceData *data, guint word_size,
                                            gsize *bytes, GError **error);

/**
 * Rounds the bytes of a row up to its best alignment. That is a multiple of the bytes that
 * tarn_cuda_device_data_align_bytes() gives. PyCUDA calls this DeviceData.align.
 *
 * @param data       the device
 * @param bytes      bytes
 * @param word_size  bytes of a word
 * @param aligned    out: bytes, at least as many
 * @param error      return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for a size that words do
 *                   not have, or bytes that there are no counters for once they are rounded up
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_cuda_device_data_align (const TarnCudaDeviceData *data, gsize bytes, guint word_size,
                                      gsize *aligned, GError **error);

/**
 * Gets the words that a row best has a multiple of. They are the bytes of
 * tarn_cuda_device_data_align_bytes(): 16 words of 4 bytes or of 8, 8 of 16. PyCUDA calls this
 * DeviceData.align_words.
 *
 * @param data       the device
 * @param word_size  bytes of a word
 * @param words      out
 * @param error      return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for a size that words do
 *                   not have
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_cuda_device_data_align_words (const TarnCudaDeviceData *data, guint word_size,
                                            gsize *words, GError **error);

/**
 * Rounds the elements of a row up to its best length. That is a multiple of the words that
 * tarn_cuda_device_data_align_words() gives. PyCUDA calls this DeviceData.align_dtype.
 *
 * @param data       the device
 * @param elements   elements
 * @param word_size  bytes of an element
 * @param aligned    out: elements, at least as many
 * @param error      return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for a size that words do
 *                   not have, or elements that there are no counters for once they are rounded up
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_cuda_device_data_align_dtype (const TarnCudaDeviceData *data, gsize elements,
                                            guint word_size, gsize *aligned, GError **error);

/**
 * Rounds a number of threads up to a multiple of 16. On the first devices the accesses of 16
 * threads to memory were one. PyCUDA calls this DeviceData.coalesce.
 *
 * @param data       the device
 * @param threads    threads
 * @param coalesced  out: threads, at least as many
 * @param error      return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for threads that there
 *                   are no counters for once they are rounded up
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_cuda_device_data_coalesce (const TarnCudaDeviceData *data, guint threads,
                                         guint *coalesced, GError **error);

/**
 * Rounds a texture's channels up to 1, 2 or 4. Its elements can have no other number of them.
 * PyCUDA calls this DeviceData.make_valid_tex_channel_count.
 *
 * @param data      the device
 * @param channels  how many are needed
 * @param valid     out: channels, at least as many
 * @param error     return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for more than 4
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_cuda_device_data_make_valid_tex_channel_count (const TarnCudaDeviceData *data,
                                                             guint channels, guint *valid,
                                                             GError **error);

/**
 * Gets the threads whose accesses to shared memory are one. They are 32, or 16 below compute
 * capability 2.0. PyCUDA calls this DeviceData.smem_granularity.
 *
 * @param data  the device
 * @return threads; any thread may call it
 * @since 0.1
 */
guint tarn_cuda_device_data_smem_granularity (const TarnCudaDeviceData *data);

/**
 * Gets the unit of a block's shared memory for PyCUDA. By PyCUDA's rules of 2012 it is 128 bytes,
 * or 512 below compute capability 2.0. PyCUDA calls this DeviceData.smem_alloc_granularity. The
 * device's own unit is shared_allocation_unit.
 *
 * @param data  the device
 * @return bytes; any thread may call it
 * @since 0.1
 */
gsize tarn_cuda_device_data_smem_alloc_granularity (const TarnCudaDeviceData *data);

/**
 * The rules that tarn_cuda_occupancy() goes by.
 *
 * @since 0.1
 */
typedef enum
{
  TARN_CUDA_OCCUPANCY_EXACT, /**< as the driver says: by what the device has */
  TARN_CUDA_OCCUPANCY_PYCUDA /**< as PyCUDA says: by its rules of 2012 and the compute capability */
} TarnCudaOccupancyMode;

/**
 * The reason why there are no more blocks: of several, the first one here.
 *
 * @since 0.1
 */
typedef enum
{
  TARN_CUDA_LIMIT_UNKNOWN = -1,  /**< only tarn_cuda_occupancy_for_function() may say so */
  TARN_CUDA_LIMIT_DEVICE = 0,    /**< blocks per multiprocessor, or threads per block */
  TARN_CUDA_LIMIT_REGISTERS = 1, /**< registers */
  TARN_CUDA_LIMIT_SHARED = 2,    /**< shared memory */
  TARN_CUDA_LIMIT_WARPS = 3      /**< warps per multiprocessor */
} TarnCudaLimit;

/**
 * How much of a multiprocessor a kernel's blocks fill.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnCudaOccupancy), as TARN_CUDA_OCCUPANCY_INIT sets it */

  guint blocks_per_mp;      /**< blocks at a time; 0: such a kernel cannot be launched */
  guint warps_per_mp;       /**< the warps of those blocks */
  gdouble occupancy;        /**< the same as a part of the warps that fit, 0 to 1 */
  TarnCudaLimit limited_by; /**< why there are no more */
  guint reserved;           /**< for later: 0 */
} TarnCudaOccupancy;

/**
 * A TarnCudaOccupancy to start from: every field at its default.
 *
 * @since 0.1
 */
#define TARN_CUDA_OCCUPANCY_INIT                                                                   \
  {                                                                                                \
    sizeof (TarnCudaOccupancy), /* struct_size */                                                  \
        0,                      /* blocks_per_mp */                                                \
        0,                      /* warps_per_mp */                                                 \
        0,                      /* occupancy */                                                    \
        TARN_CUDA_LIMIT_DEVICE, /* limited_by */                                                   \
        0                       /* reserved */                                                     \
  }

/**
 * Computes how many blocks of a kernel a multiprocessor can have. It says how many there can be at
 * a time, and why no more, from numbers alone: no driver is asked.
 *
 * TARN_CUDA_OCCUPANCY_EXACT says what the driver says of such a kernel on such a device: by
 * registers for a warp at a time, from the part of the multiprocessor that it is in; by shared
 * memory with what is reserved for each block; by warps and blocks. A block that the device cannot
 * have is no error: 0 blocks. Fields of @p data that are 0, and may be, are as the compute
 * capability says.
 *
 * TARN_CUDA_OCCUPANCY_PYCUDA says what PyCUDA's OccupancyRecord says. It knows GPUs up to 2012 and
 * takes only major, minor, max_threads_per_block, registers_per_block and shared_per_block from
 * @p data. A block that the device cannot have is an error.
 *
 * @param data          the device, from tarn_cuda_device_data_init() or TARN_CUDA_DEVICE_DATA_INIT
 * @param threads       threads in a block, at least 1
 * @param shared_bytes  bytes of shared memory of a block, those that the kernel declares and those
 *                      that its launch adds
 * @param registers     registers of a thread; 0: do not limit by them
 * @param mode          the rules
 * @param occupancy     out: start from TARN_CUDA_OCCUPANCY_INIT, whose struct_size says how much is
 *                      to be filled
 * @param error         return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for no threads, for a
 *                      field of @p data that is 0 and may not be, or that this version of the
 *                      library does not have, and as PyCUDA's rules say ("too
 *                      many threads", "too many registers", "too much smem");
 *                      TARN_ERROR_NOT_SUPPORTED for a compute capability that is not known, if
 *                      @p data leaves open what only that could tell
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_cuda_occupancy (const TarnCudaDeviceData *data, guint threads, gsize shared_bytes,
                              guint registers, TarnCudaOccupancyMode mode,
                              TarnCudaOccupancy *occupancy, GError **error);

/**
 * Asks the driver how many blocks a multiprocessor can have. It is a multiprocessor of the current
 * context's device, and the blocks are those of a function that it can have at a time: 0 if such a
 * block cannot be launched. The reason why there are no more is the one of tarn_cuda_occupancy() in
 * mode TARN_CUDA_OCCUPANCY_EXACT; where that comes to another number, or does not know the device,
 * limited_by is TARN_CUDA_LIMIT_DEVICE for more threads than the function takes,
 * TARN_CUDA_LIMIT_SHARED for more dynamic shared memory than it opted in to, else
 * TARN_CUDA_LIMIT_UNKNOWN.
 *
 * @param function              the function, of the current context
 * @param threads               threads in a block, at least 1
 * @param dynamic_shared_bytes  bytes of shared memory that the launch adds to what the function
 *                              declares
 * @param occupancy             out: start from TARN_CUDA_OCCUPANCY_INIT, whose struct_size says how
 *                              much is to be filled
 * @param error                 return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for no
 *                              threads, TARN_ERROR_NO_CONTEXT, TARN_CUDA_ERROR of what failed,
 *                              TARN_ERROR_FAILED for an answer that makes no sense,
 *                              TARN_ERROR_NOT_SUPPORTED for a driver that cannot be asked,
 *                              TARN_ERROR_NO_DRIVER, TARN_ERROR_NO_DEVICE, TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it that has the
 *         context current
 * @since 0.1
 */
gboolean tarn_cuda_occupancy_for_function (CUfunction function, guint threads,
                                           gsize dynamic_shared_bytes, TarnCudaOccupancy *occupancy,
                                           GError **error);

/**
 * Suggests the size of blocks with which a function fills a device most. It is what the driver says
 * of the current context's device, if each block has the same dynamic shared memory.
 *
 * @param function              the function, of the current context
 * @param dynamic_shared_bytes  bytes of shared memory that the launch adds to what the function
 *                              declares
 * @param min_grid_size         out, nullable: the fewest blocks that fill the device; 0 if no size
 *                              can be launched
 * @param block_size            out, nullable: threads in a block; 0 likewise
 * @param error                 return location, or NULL: TARN_ERROR_NO_CONTEXT, TARN_CUDA_ERROR of
 *                              what failed, TARN_ERROR_FAILED for an answer that makes no sense,
 *                              TARN_ERROR_NOT_SUPPORTED for a driver that cannot be asked,
 *                              TARN_ERROR_NO_DRIVER, TARN_ERROR_NO_DEVICE, TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it that has the
 *         context current
 * @since 0.1
 */
gboolean tarn_cuda_suggest_block_size (CUfunction function, gsize dynamic_shared_bytes,
                                       guint *min_grid_size, guint *block_size, GError **error);

G_END_DECLS

#endif
