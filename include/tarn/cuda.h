/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * The API of libtarn-cuda: allocators, contexts, streams, memos, tests and occupancy.
 *
 * This header does not need <cuda.h>. A program may include both headers, in either order, because
 * the declarations that are in both are the same. Such a program needs C11 or C++, because C99
 * forbids a second typedef of the same name.
 */

#ifndef TARN_CUDA_H
#define TARN_CUDA_H

#include <tarn/tarn.h>

G_BEGIN_DECLS

/* The driver's types, declared as in <cuda.h>. */
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
 * Gets the domain of CUDA's errors. A program writes TARN_CUDA_ERROR. The error's code is CUDA's
 * status, a CUresult. Two statuses always become errors of the domain TARN_ERROR instead, also
 * where a function's error is documented as TARN_CUDA_ERROR: CUDA_ERROR_OUT_OF_MEMORY becomes
 * TARN_ERROR_OUT_OF_MEMORY, and CUDA_ERROR_CONTEXT_IS_DESTROYED becomes TARN_ERROR_CONTEXT_LOST.
 *
 * @return the quark, the same for the life of the process; any thread may call it
 * @since 0.1
 */
GQuark tarn_cuda_error_quark (void);

/**
 * A CUDA device that tarn_cuda_select_test_devices() has chosen. The struct owns its strings, and
 * is constant.
 *
 * @since 0.1
 */
typedef struct
{
  CUdevice device;      /**< the driver's handle of the device */
  guint device_index;   /**< the index of the device, the argument of cuDeviceGet() */
  gchar *name;          /**< the name that the driver states */
  gchar *uuid;          /**< nullable; in nvidia-smi's format: "GPU-9f2c5c3a-..." */
  gchar *pci;           /**< nullable; "0000:65:00.0" */
  gchar *selector;      /**< a text that chooses this device: see tarn_selection_make_selector() */
  gsize bytes;          /**< the size of the device's memory; 0 if the driver does not state it */
  gpointer reserved[4]; /**< for later versions */
} TarnCudaDevice;

/**
 * Chooses the CUDA devices on which tests run. The parameter @p selection chooses them, by the
 * strict syntax of tarn_selection_resolve(), where the platform of CUDA devices is `cuda`. If it is
 * NULL, the environment variable TARN_TEST chooses them. If that is not set either, all devices are
 * chosen, or none if PYOPENCL_TEST is set, because this variable chooses OpenCL devices only.
 *
 * If there is no driver, or no device, the result is empty for any selection, and this is no error.
 * If the driver returns an error for a device, or for the list of devices, the function logs it
 * with g_message() and leaves the device or all devices out.
 *
 * @param selection  nullable: the environment variable TARN_TEST
 * @param error      return location, or NULL: TARN_ERROR_INVALID_SELECTION with a message that
 *                   names TARN_TEST if the text is from there, and lists the devices to choose
 *                   from; TARN_ERROR_FORKED in a child of fork ()
 * @return (transfer full): an array of TarnCudaDevice, which may be empty, for g_ptr_array_unref(),
 *         or NULL with @p error set. Any thread may call it, while no thread changes the
 *         environment.
 * @since 0.1
 */
GPtrArray *tarn_cuda_select_test_devices (const gchar *selection,
                                          GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * The device and the context on which a test runs. They are valid until the test ends.
 *
 * @since 0.1
 */
typedef struct
{
  CUdevice device;            /**< the device */
  CUcontext context;          /**< a context of this test alone, current in the test's thread */
  const TarnCudaDevice *info; /**< facts about the device */
  gpointer reserved[4];       /**< for later versions */
} TarnCudaTest;

/**
 * The function of a test. It runs in the thread that calls g_test_run ().
 *
 * @param test  the device and the context on which the test runs
 * @param data  the data that tarn_cuda_test_add() got
 * @since 0.1
 */
typedef void (*TarnCudaTestFunc) (const TarnCudaTest *test, gconstpointer data);

/**
 * Adds a test to g_test, once for each chosen CUDA device. TARN_TEST chooses the devices; the
 * default is all: see tarn_cuda_select_test_devices(). The path contains the device: on device 1,
 * test "pool/reuse" is "/cuda/1/pool/reuse". Each run has its own context, which is current. After
 * the run, Tarn calls tarn_cuda_clear_context_caches() and destroys the context. If TARN_TEST names
 * a device twice, the test runs there once.
 *
 * If no device is chosen, the program has one test, "/cuda/no-device", which is skipped with the
 * reason. If TARN_TEST is invalid, the program has one test, "/cuda/selection-error", which fails.
 *
 * Call this function in the thread that calls g_test_run (), after g_test_init ().
 *
 * @param path  the path after the device; a leading `/` changes nothing
 * @param func  the test
 * @param data  the argument of @p func; nullable, not freed
 * @since 0.1
 */
void tarn_cuda_test_add (const gchar *path, TarnCudaTestFunc func, gconstpointer data);

/* Contexts */

/**
 * Makes the default device's primary context current in this thread. The function retains the
 * context. The default device is the user's choice: its number is in the environment variable
 * CUDA_DEVICE, or else in the file .cuda_device or .cuda-device in the home folder. Without such a
 * choice, it is the first device on which a context can be made. Under mpirun or srun, the
 * processes of a machine begin this search at different devices:
 *
 *     mpirun -n 4 ./program
 *     srun --ntasks-per-node=4 ./program
 *
 * A process begins at its local rank (OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID, SLURM_LOCALID or
 * PMI_LOCAL_RANK) modulo the number of devices. A file may have at most 64 bytes. A set-user-ID
 * program reads neither the files nor the variables.
 *
 * @param device  out, nullable: the device
 * @param error   return location, or NULL: TARN_ERROR_INVALID_ARGUMENT if the user's choice is not
 *                a number, or its file cannot be read; TARN_ERROR_NO_DEVICE if that device does not
 *                exist, or there is no device at all; TARN_ERROR_NO_CONTEXT if no context can be
 *                made on any device, with each device's reason; TARN_ERROR_NO_DRIVER,
 *                TARN_ERROR_FORKED, TARN_ERROR_OUT_OF_MEMORY, or TARN_CUDA_ERROR with the driver's
 *                status
 * @return (transfer full): the context, for tarn_cuda_context_release(), or NULL with @p error set.
 *         Any thread may call it, while no thread changes the environment.
 * @since 0.1
 */
CUcontext tarn_cuda_make_default_context (CUdevice *device,
                                          GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Undoes tarn_cuda_make_default_context(). If the context is current in this thread, it is popped.
 * Then the reference is released. If the driver fails, the function logs a g_message(). In a child
 * of fork () it does nothing.
 *
 * A reset of the device destroys the context. The function then releases the reference but leaves
 * the context current, because the driver crashes if a destroyed context is popped (seen with
 * driver 580).
 *
 * @param context  a context from tarn_cuda_make_default_context(), which is released once for each
 *                 time that it was returned. Another context, or a further release, is a
 *                 programming error. NULL is allowed. Any thread may call it.
 * @since 0.1
 */
void tarn_cuda_context_release (CUcontext context);

/**
 * Makes the default context current, chosen once for the process. The function acts like
 * tarn_cuda_make_default_context(), but each call stores the same device and context, or sets the
 * same error. Afterwards the context is current in this thread. Tarn never releases the context,
 * not even at exit, when the driver may be gone.
 *
 * @param device   out, nullable
 * @param context  out, nullable: (transfer none)
 * @param error    return location, or NULL: as for tarn_cuda_make_default_context(), and
 *                 TARN_ERROR_CONTEXT_LOST after a reset of the device
 * @return TRUE, or FALSE with @p error set and nothing stored. Any thread may call it.
 * @since 0.1
 */
gboolean tarn_cuda_autoinit (CUdevice *device, CUcontext *context, GError **error);

/**
 * Gets the user's choice of a device. The number of the device is in the environment variable
 * CUDA_DEVICE, or else in the file .cuda_device or .cuda-device in the home folder. Otherwise it is
 * @p fallback. The function makes no context. PyCUDA calls it get_default_device().
 *
 * @param fallback  the number of the device if neither the variable nor a file exists
 * @param device    out
 * @param error     return location, or NULL: as for tarn_cuda_make_default_context(), except the
 *                  errors about contexts
 * @return TRUE, or FALSE with @p error set and nothing stored. Any thread may call it, while no
 *         thread changes the environment.
 * @since 0.1
 */
gboolean tarn_cuda_get_default_device (gint fallback, CUdevice *device, GError **error);

/* Memory */

/**
 * Options for allocators of device memory.
 *
 * All options except plain_memory are about virtual memory. A heap over the allocator may make its
 * blocks of virtual memory; tarn_allocator_allocate() on the allocator itself never allocates
 * virtual memory.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnCudaDeviceOptions), as its initializer sets it */

  /** TRUE: the allocator calls only cuMemAlloc, and offers no virtual memory. This is for programs
   * that call cuIpcGetMemHandle, and for libraries from before CUDA 10.2. */
  gboolean plain_memory;

  /** TRUE: the program can share virtual memory with other processes, as a file descriptor
   * (CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR). To share a block, call cuMemRetainAllocationHandle
   * with the block's address, and then cuMemExportToShareableHandle. This exports the whole segment
   * that contains the address. A block may be in several segments: export each of them. */
  gboolean exportable;

  /** Nullable: further devices that can access the virtual memory, at the same addresses
   * (cuMemSetAccess). The allocator's own device always can. */
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
 * Makes an allocator of device memory (cuMemAlloc). The allocator makes each driver call in its
 * context, from any thread, and then restores the thread's current context. A block of 0 bytes has
 * no memory. The function is tarn_cuda_device_allocator_new_with_options() with NULL for the
 * options.
 *
 * A primary context is retained until the allocator and all its blocks are freed. Any other context
 * belongs to the program. If the program destroys it, its memory is gone. Then allocating fails
 * with TARN_ERROR_CONTEXT_LOST, and freeing only counts the bytes
 * (tarn_cuda_allocator_get_lost_bytes()).
 *
 * Before you destroy the context, call tarn_pool_stop_holding() for each of its pools. While the
 * context is being destroyed, no thread may be in a call for one of their blocks. A pool does not
 * check the context at each request, because that would take as long as the request itself. It
 * notices the loss, and stops holding, only when it asks the driver for memory. Until then it still
 * hands out cached blocks.
 *
 * A driver before CUDA 12.0 cannot tell a destroyed context from a later one at the same address.
 * With such a driver, free all memory before you destroy the context.
 *
 * @param context  nullable: the thread's current context
 * @param error    return location, or NULL: TARN_ERROR_NO_DRIVER, TARN_ERROR_NO_DEVICE,
 *                 TARN_ERROR_NO_CONTEXT if @p context is NULL and none is current,
 *                 TARN_ERROR_CONTEXT_LOST, TARN_ERROR_FORKED, or TARN_CUDA_ERROR with the driver's
 *                 status
 * @return (transfer full): the allocator, which any thread may use, or NULL with @p error set
 * @since 0.1
 */
TarnAllocator *tarn_cuda_device_allocator_new (CUcontext context,
                                               GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Makes an allocator of device memory with options. For contexts, the same rules hold as for
 * tarn_cuda_device_allocator_new().
 *
 * If the driver and the device have virtual memory (CUDA 10.2, and
 * CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), the allocator offers it to heaps
 * (TarnAllocatorOps.virtual_granularity). Virtual memory belongs to the device, not to the context.
 * Every context of the device can access it, and it can be freed after the context was destroyed;
 * new memory then still fails with TARN_ERROR_CONTEXT_LOST. GPUDirect RDMA can register virtual
 * memory if the driver supports that. cuIpcGetMemHandle does not accept virtual memory. To share
 * memory between processes, use TarnCudaDeviceOptions.plain_memory or exportable.
 *
 * @param context  nullable: the thread's current context
 * @param options  nullable: TARN_CUDA_DEVICE_OPTIONS_INIT. The options and the array of peers are
 *                 copied.
 * @param error    return location, or NULL: as for tarn_cuda_device_allocator_new().
 *                 TARN_ERROR_INVALID_ARGUMENT for plain_memory together with peers or exportable,
 *                 for n_peers without peers, or for fields of a later version of the library.
 *                 TARN_ERROR_NOT_SUPPORTED if the device cannot export memory, if a peer cannot
 *                 access the device's memory, or for exportable or peers if the device has no
 *                 virtual memory.
 * @return (transfer full): the allocator, which any thread may use, or NULL with @p error set
 * @since 0.1
 */
TarnAllocator *
tarn_cuda_device_allocator_new_with_options (CUcontext context,
                                             const TarnCudaDeviceOptions *options,
                                             GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Makes an allocator of page-locked host memory (cuMemHostAlloc). A device copies from and to such
 * memory without the host's help. Otherwise the allocator is like that of
 * tarn_cuda_device_allocator_new().
 *
 * @param context  nullable: the thread's current context
 * @param flags    for cuMemHostAlloc, 0 for none
 * @param error    return location, or NULL: as for tarn_cuda_device_allocator_new()
 * @return (transfer full): the allocator, which any thread may use, or NULL with @p error set
 * @since 0.1
 */
TarnAllocator *tarn_cuda_host_allocator_new (CUcontext context, guint flags,
                                             GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Makes an allocator of managed memory (cuMemAllocManaged). The host and the devices use the same
 * address for it. Otherwise the allocator is like that of tarn_cuda_device_allocator_new().
 *
 * @param context  nullable: the thread's current context
 * @param flags    for cuMemAllocManaged, 0 for CU_MEM_ATTACH_GLOBAL
 * @param error    return location, or NULL: as for tarn_cuda_device_allocator_new(), and
 *                 TARN_ERROR_NOT_SUPPORTED if the driver has no managed memory
 * @return (transfer full): the allocator, which any thread may use, or NULL with @p error set
 * @since 0.1
 */
TarnAllocator *tarn_cuda_managed_allocator_new (CUcontext context, guint flags,
                                                GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Makes an allocator of memory from CUDA's own pools (cuMemAllocAsync). Use it in a program whose
 * libraries call cudaMallocAsync(): the program and the libraries then share one pool of CUDA's,
 * and each can reuse memory that the other has freed. Put a pool of Tarn's over the allocator:
 * Tarn's pool serves most requests, and CUDA's pool the others. Otherwise the allocator is like
 * that of tarn_cuda_device_allocator_new().
 *
 * All streams can use a block as soon as it is allocated. The allocator has a stream of its own for
 * allocations, and the host waits for this stream. The wait is long only if CUDA's pool has to take
 * memory that a library has freed but commands still use.
 *
 * If a block was allocated without a pool of Tarn's, its free is put on the stream that used the
 * block first, after the commands of the other streams, and the host does not wait
 * (cuMemFreeAsync()). If one of these streams is being captured then, or another thread begins the
 * capture during the free, the memory is never freed, and a g_message() says so. Before a pool of
 * Tarn's returns memory, the host waits only for the streams that used this memory.
 *
 * CUDA's pool decides when it returns memory to the device: see CU_MEMPOOL_ATTR_RELEASE_THRESHOLD.
 * cuIpcGetMemHandle() does not accept such memory. A heap over the allocator divides it into blocks
 * that are aligned to 256 bytes.
 *
 * @param context  nullable: the thread's current context
 * @param pool     CUDA's pool, which must exist until the allocator and its blocks are freed. NULL:
 *                 the pool that is current for the device (cuDeviceSetMemPool()) at each
 *                 allocation.
 * @param error    return location, or NULL: as for tarn_cuda_device_allocator_new(), and
 *                 TARN_ERROR_NOT_SUPPORTED if the driver lacks a function (CUDA before 11.2), which
 *                 the error names, or the device has no memory pools
 * @return (transfer full): the allocator, which any thread may use, or NULL with @p error set
 * @since 0.1
 */
TarnAllocator *tarn_cuda_async_allocator_new (CUcontext context, CUmemoryPool pool,
                                              GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Gets the bytes that an allocator has lost with its context.
 *
 * @param allocator  an allocator of libtarn-cuda; any other is a programming error
 * @return the bytes of all blocks that were freed after their context was destroyed; any thread may
 *         call it
 * @since 0.1
 */
guint64 tarn_cuda_allocator_get_lost_bytes (TarnAllocator *allocator);

/**
 * Gets the device address of a block. The block's memory is device memory, managed memory, or
 * memory of CUDA's pools.
 *
 * @param block  a block in use; a block of other memory is a programming error. Any thread may call
 *               it.
 * @return the address, valid until tarn_block_free(). It is 0 for a block of 0 bytes, except that a
 *         pool usually allocates 1 byte for it.
 * @since 0.1
 */
CUdeviceptr tarn_cuda_block_get_device_pointer (const TarnBlock *block);

/**
 * Gets the host address of a block. The block's memory is page-locked or managed.
 *
 * @param block  a block in use; a block of other memory is a programming error. Any thread may call
 *               it.
 * @return the address, valid until tarn_block_free(). It is NULL for a block of 0 bytes, except
 *         that a pool usually allocates 1 byte for it.
 * @since 0.1
 */
gpointer tarn_cuda_block_get_host_pointer (const TarnBlock *block);

/* Pools, and memory that several streams use */

/**
 * Makes a pool of device memory with the defaults for most programs. The pool is over a heap, and
 * the heap is over tarn_cuda_device_allocator_new(). For requests of any sizes, the pool takes
 * little more memory than the program uses, and seldom calls the driver.
 *
 * Blocks are of virtual memory, unless it does not work on the device, or the environment has
 * TARN_CUDA_PLAIN=1. The first pool of a device makes and maps a little virtual memory, to find out
 * whether it works. cuIpcGetMemHandle() needs an address from cuMemAlloc: for that, set
 * TARN_POOL_WHOLE_BUFFERS.
 *
 * @param context  the context of the memory; NULL: the thread's current context
 * @param options  nullable: the defaults; start from TARN_POOL_OPTIONS_INIT. A limit also limits
 *                 the memory that the heap takes from the driver. tarn_pool_set_limit_bytes()
 *                 changes both limits. TarnPoolOptions.heap has other options of the heap.
 * @param error    return location, or NULL: as for tarn_cuda_device_allocator_new(),
 *                 tarn_heap_allocator_new() and tarn_pool_new()
 * @return (transfer full): an empty pool, which any thread may use, or NULL with @p error set
 * @since 0.1
 */
TarnPool *tarn_cuda_pool_new (CUcontext context, const TarnPoolOptions *options,
                              GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Allocates a block from a pool, for use on a stream. This is tarn_pool_allocate_ordered() for a
 * CUDA stream.
 *
 * The pool does not keep a stream alive. Call tarn_cuda_pool_forget_stream() before you destroy a
 * stream that is not idle: the next stream may get the same handle, and the pool cannot tell the
 * two streams apart.
 *
 * While a stream is being captured, its requests get memory of the graph if
 * tarn_cuda_pool_begin_graph() was called. Otherwise the pool can only reuse memory that the same
 * stream used last, or that is idle, because it must not call the driver. Any other request of the
 * stream fails with TARN_ERROR_NOT_SUPPORTED. So allocate before the capture, and free after the
 * last launch of the graph. Calls for other streams work as usual, in all threads, and do not end
 * the capture.
 *
 * If another thread frees or moves a block of CU_STREAM_PER_THREAD, or requests one for that
 * stream's queue, the pool may record an event on the legacy stream, or make the legacy stream wait
 * for an event. Like any command on the legacy stream, this makes all blocking streams wait for
 * each other.
 *
 * @param pool    a pool over one of libtarn-cuda's allocators; any thread may call it
 * @param size    bytes; 0 is allowed
 * @param stream  a stream of the allocator's context. NULL and CU_STREAM_LEGACY are the default
 *                stream that all threads share; CU_STREAM_PER_THREAD is the default stream of the
 *                calling thread.
 * @param error   return location, or NULL: as for tarn_pool_allocate(); TARN_ERROR_INVALID_ARGUMENT
 *                for a stream of another context, TARN_ERROR_NOT_SUPPORTED in a capture, or
 *                TARN_CUDA_ERROR with the driver's status
 * @return (transfer full): the block, or NULL with @p error set. Free the block while the stream
 *         exists, or after tarn_cuda_pool_forget_stream().
 * @since 0.1
 */
TarnBlock *tarn_cuda_pool_allocate (TarnPool *pool, gsize size, CUstream stream,
                                    GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Gets the queue of a stream, for functions that take a queue. Such functions are
 * tarn_pool_reserve(), tarn_pool_allocate_timeout(), tarn_pool_allocate_aligned() and others. These
 * functions know no default streams: for them, NULL means no queue, and they refuse
 * CU_STREAM_PER_THREAD with TARN_ERROR_INVALID_ARGUMENT. Functions of this header take the stream
 * itself.
 *
 * @param stream  a stream, as for tarn_cuda_pool_allocate()
 * @return (transfer none): its queue, never NULL. For CU_STREAM_PER_THREAD, it is the queue of the
 *         calling thread's default stream. Any thread may call it.
 * @since 0.1
 */
gpointer tarn_cuda_stream_get_queue (CUstream stream);

/**
 * Finds the block in use that has an address of device memory. This is tarn_pool_find() for a
 * CUdeviceptr.
 *
 * @param pool     a pool with TARN_POOL_FINDABLE, over an allocator of device or managed memory
 * @param address  the result of tarn_cuda_block_get_device_pointer()
 * @return (transfer none): the block, or NULL if no block in use has this address; valid until
 *         tarn_block_free(). Any thread may call it.
 * @since 0.1
 */
TarnBlock *tarn_cuda_pool_find (TarnPool *pool, CUdeviceptr address);

/**
 * Records that commands on a stream use a block. This is tarn_block_record_use() for a CUDA stream.
 *
 * @param block   a block in use, of one of libtarn-cuda's allocators or of a pool over one
 * @param stream  a stream of the allocator's context, alive until the block is freed, or until
 *                tarn_cuda_pool_forget_stream(); as for tarn_cuda_pool_allocate()
 * @param error   return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for a stream of another
 *                context, TARN_ERROR_CONTEXT_LOST, TARN_ERROR_FORKED, or TARN_CUDA_ERROR with the
 *                driver's status
 * @return TRUE, or FALSE with @p error set and nothing changed. Any thread may call it, but only
 *         one at a time for the same block.
 * @since 0.1
 */
gboolean tarn_cuda_block_record_use (TarnBlock *block, CUstream stream, GError **error);

/**
 * Frees a block that a stream may still use. This is tarn_block_free_on() for a CUDA stream, and
 * Tarn's counterpart of cuMemFreeAsync().
 *
 * @param block   (transfer full): a block of one of libtarn-cuda's allocators or of a pool over
 *                one; NULL is allowed. Any thread may call it.
 * @param stream  a stream of the allocator's context, alive during the call. NULL is a stream, as
 *                for tarn_cuda_pool_allocate().
 * @since 0.1
 */
void tarn_cuda_block_free_on (TarnBlock *block, CUstream stream);

/**
 * Moves a block to one stream, which waits for the others. The stream waits for all commands that
 * are on the block's other streams now. Afterwards only this stream uses the block. To make the
 * host wait instead, call tarn_block_wait().
 *
 * @param block   a block in use, of one of libtarn-cuda's allocators or of a pool over one
 * @param stream  a stream of the allocator's context, alive until the block is freed, or until
 *                tarn_cuda_pool_forget_stream(). NULL is a stream, as for
 *                tarn_cuda_pool_allocate().
 * @param error   return location, or NULL: as for tarn_cuda_block_record_use(), and
 *                TARN_ERROR_NOT_SUPPORTED in a capture
 * @return TRUE, or FALSE with @p error set. Any thread may call it, but only one at a time for the
 *         same block.
 * @since 0.1
 */
gboolean tarn_cuda_block_move_to_stream (TarnBlock *block, CUstream stream, GError **error);

/**
 * Gets the stream on which a block is used. This is the stream to which the block was moved last.
 * If the block was never moved, this is the stream for which the block was allocated, or else the
 * stream of the first recorded use. After tarn_block_wait(), the block has no stream until it is
 * moved, or a use is recorded.
 *
 * @param block   a block in use, of one of libtarn-cuda's allocators or of a pool over one. Any
 *                thread may call it, while no thread moves the block or records a use of it.
 * @param stream  out: the stream. The default stream that all threads share is always
 *                CU_STREAM_LEGACY, never NULL, because the meaning of NULL depends on how a program
 *                is compiled. The calling thread's default stream is CU_STREAM_PER_THREAD.
 * @return TRUE, or FALSE with nothing stored: either the block has no stream, or it has another
 *         thread's default stream, for which this thread has no CUstream
 * @since 0.1
 */
gboolean tarn_cuda_block_get_stream (const TarnBlock *block, CUstream *stream);

/**
 * Tells a pool that a stream will be destroyed before it is idle. Commands on the stream may still
 * use memory of the pool. Without this call, the pool would mistake a later stream with the same
 * handle for the destroyed one, and the later stream would not wait for these commands. After this
 * call, you may destroy the stream before you free or move its blocks.
 *
 * The call is not needed if the stream is idle and no block in use was allocated for it, moved to
 * it or recorded with it. Without the call, though, other streams get memory that was freed on the
 * stream only in three cases, and in each of them the host waits for the context:
 *
 * - Memory runs out.
 * - A limit is reached.
 * - A heap below the pool has very much of such memory: more than twice the size that the heap aims
 *   at for all its memory. A stream's memory counts only after the heap has got 288 newer streams.
 *
 * @param pool    a pool over one of libtarn-cuda's allocators; any thread may call it
 * @param stream  the stream, which is alive and not being captured
 * @param error   return location, or NULL: TARN_ERROR_NOT_SUPPORTED in a capture,
 *                TARN_ERROR_CONTEXT_LOST, or TARN_CUDA_ERROR with the driver's status
 * @return TRUE, also if the pool does not know the stream, or FALSE with @p error set and nothing
 *         changed
 * @since 0.1
 */
gboolean tarn_cuda_pool_forget_stream (TarnPool *pool, CUstream stream, GError **error);

/**
 * Gets the pool of a device that the whole process shares. The first call for a device makes the
 * pool, as tarn_cuda_pool_new() does, in the device's primary context, which CUDA's runtime uses,
 * too. tarn_cuda_torch_malloc() and tarn_cuda_cupy_malloc() allocate from this pool. Other devices
 * can access its memory if cuDeviceCanAccessPeer allows it.
 *
 * Two environment variables are read once, but not in set-user-ID programs. TARN_CUDA_LIMIT is the
 * most memory that the pool of each device may take: bytes ("8000000000", or "8G" for 8 times
 * 1,024^3), or a share of the device's memory ("80%"). With TARN_CUDA_STATS=1, a table of the
 * pools' counters is written to standard error at exit.
 *
 * The pool and the context stay until the process ends. After a reset of the device
 * (cuDevicePrimaryCtxReset), the next call makes a new pool.
 *
 * @param device  a device from cuDeviceGet()
 * @param error   return location, or NULL: TARN_ERROR_NO_DEVICE, TARN_ERROR_INVALID_ARGUMENT if
 *                TARN_CUDA_LIMIT cannot be read; TARN_ERROR_NO_DRIVER, TARN_ERROR_FORKED,
 *                TARN_ERROR_OUT_OF_MEMORY, or TARN_CUDA_ERROR with the driver's status
 * @return (transfer full): the pool, or NULL with @p error set. Any thread may call it.
 * @since 0.1
 */
TarnPool *tarn_cuda_get_shared_pool (CUdevice device, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Memory of CUDA graphs */

/**
 * Begins the memory of a CUDA graph that a stream captures. Call it right before
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
 * Until tarn_cuda_pool_end_graph(), the pool gives memory of the graph to requests for this stream
 * while it is being captured, and for other streams that have joined the capture. All other
 * requests are served as usual. The graph's memory is taken from the pool, in any capture mode, and
 * counts towards the pool's limit. A launch of the graph uses its memory again, so only the graph
 * uses this memory until tarn_cuda_pool_release_graph().
 *
 * If another thread is the first to allocate in a capture of CU_STREAM_PER_THREAD, on a stream that
 * has joined the capture, call tarn_cuda_pool_begin_graph() right after cuStreamBeginCapture().
 *
 * During the capture, memory that a stream has freed is reused only by the same stream. A block
 * that several streams of the capture use (tarn_cuda_block_record_use()) is not reused in the
 * graph. If the graph uses a block that was allocated before the capture, free the block after the
 * graph's last launch. A block of the graph, such as its result, may be used after the capture. It
 * may be freed at any time, also after tarn_cuda_pool_release_graph().
 *
 * The graph cannot take memory that the pool holds for other streams. To free such memory, call
 * tarn_pool_free_held() before the capture.
 *
 * @param pool    a pool over one of libtarn-cuda's allocators; any thread may call it. The graph
 *                holds a reference to the pool.
 * @param stream  a stream of the allocator's context. This stream, and the streams that join the
 *                capture, must exist until tarn_cuda_pool_end_graph().
 * @param graph   out: the graph's number, never 0
 * @param error   return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for the default stream that
 *                all threads share, a stream of another context, a stream for which the pool has a
 *                graph that was not ended, or a pool of another backend; TARN_ERROR_NOT_SUPPORTED
 *                for a driver older than CUDA 10.1; TARN_ERROR_CONTEXT_LOST, TARN_ERROR_FORKED, or
 *                TARN_CUDA_ERROR with the driver's status
 * @return TRUE, or FALSE with @p error set and nothing begun
 * @since 0.1
 */
gboolean tarn_cuda_pool_begin_graph (TarnPool *pool, CUstream stream, guint64 *graph,
                                     GError **error);

/**
 * Ends the memory of a CUDA graph that was captured. Call it after cuStreamEndCapture(), also if
 * the capture failed. Afterwards the pool serves all requests as usual. The graph keeps its memory
 * until tarn_cuda_pool_release_graph().
 *
 * @param pool   the pool that tarn_cuda_pool_begin_graph() got; any thread may call it
 * @param graph  the number that tarn_cuda_pool_begin_graph() stored
 * @param error  return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for a graph that was ended or
 *               released before, or belongs to another pool; TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set
 * @since 0.1
 */
gboolean tarn_cuda_pool_end_graph (TarnPool *pool, guint64 graph, GError **error);

/**
 * Releases the memory of a CUDA graph, which returns to its pool. Call it after the last launch of
 * the graph, right before or after cuGraphExecDestroy(). Launches may still run: the host waits
 * until all commands in the context are done. If another graph is being captured with Tarn's
 * memory, the host does not wait, and the memory is returned when the last such capture ends. If
 * another thread is returning memory of graphs at this moment, this call waits for that thread.
 *
 * Segments with blocks in use stay. When the last of these blocks is freed, the host waits for the
 * context, and the memory is returned.
 *
 * If the graph was not ended, this call ends it. A graph that is never released keeps its memory,
 * and a reference to its pool.
 *
 * @param pool   the pool that tarn_cuda_pool_begin_graph() got; the program may have released its
 *               own reference. Any thread may call it.
 * @param graph  the number that tarn_cuda_pool_begin_graph() stored
 * @param error  return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for a graph that was released
 *               before, or belongs to another pool; TARN_ERROR_FORKED
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
 * These lines must run before PyTorch allocates memory on the GPU. The memory comes from
 * tarn_cuda_get_shared_pool(). A program that uses several streams also needs
 * tarn_cuda_torch_record_stream(). The guide shows how to set that function and others.
 *
 * On failure, the function throws torch.OutOfMemoryError or, for other errors, RuntimeError. In a
 * process without PyTorch's libraries, it logs a g_warning() and returns NULL instead.
 *
 * @param size    bytes; for 0 or less the function returns NULL
 * @param device  a device from cuDeviceGet()
 * @param stream  a stream of the device's primary context, on which the memory is used and freed;
 *                NULL is the default stream. It may be captured only between
 *                tarn_cuda_torch_begin_allocate_to_pool() and
 *                tarn_cuda_torch_end_allocate_to_pool().
 * @return the address, for tarn_cuda_torch_free(), or NULL. Any thread may call it.
 * @since 0.1
 */
void *tarn_cuda_torch_malloc (gssize size, int device, CUstream stream);

/**
 * Frees memory of tarn_cuda_torch_malloc(). The memory can be allocated again at once for the same
 * stream. Any thread may call it.
 *
 * @param memory  the address; NULL is allowed; an address that is not in use causes a g_critical()
 * @param size    ignored
 * @param device  ignored
 * @param stream  ignored: memory is freed on the stream for which it was allocated
 * @since 0.1
 */
void tarn_cuda_torch_free (void *memory, gssize size, int device, CUstream stream);

/**
 * Records that a stream uses PyTorch's memory. Pass it to CUDAPluggableAllocator's
 * set_record_stream_fn(); tensor.record_stream() then calls it. After the memory is freed, Tarn
 * reuses it only when the commands that were on the stream at the free are done. Any thread may
 * call it.
 *
 * @param memory  an address from tarn_cuda_torch_malloc(); NULL is allowed
 * @param stream  a stream of the device's primary context
 * @since 0.1
 */
void tarn_cuda_torch_record_stream (void *memory, CUstream stream);

/**
 * Returns memory that is not in use to the driver. Pass it to CUDAPluggableAllocator's
 * set_reset_fn(); torch.cuda.empty_cache() then calls it. While a graph is being captured with
 * Tarn's memory, it does nothing, because the host would have to wait for the device. Any thread
 * may call it.
 *
 * @since 0.1
 */
void tarn_cuda_torch_empty_cache (void);

/**
 * Limits the memory that PyTorch may take of a device. Pass it to CUDAPluggableAllocator's
 * set_memory_fraction_fn(); torch.cuda.set_per_process_memory_fraction() then calls it. It sets the
 * limit of tarn_cuda_get_shared_pool(), and so replaces TARN_CUDA_LIMIT. If the fraction is
 * invalid, or if the driver does not report the size of the device's memory, it fails as
 * tarn_cuda_torch_malloc() does, and the limit stays. Any thread may call it.
 *
 * @param fraction  the share of the device's memory, above 0 and at most 1
 * @param device    a device from cuDeviceGet()
 * @since 0.1
 */
void tarn_cuda_torch_set_memory_fraction (double fraction, int device);

/**
 * PyTorch's name of a pool from which CUDA graphs get memory. PyTorch's type is MempoolId_t, a
 * std::pair, which is passed to functions in the same way as this struct.
 *
 * @since 0.1
 */
typedef struct
{
  unsigned long long first;  /**< the pair's first number */
  unsigned long long second; /**< the pair's second number */
} TarnCudaTorchPoolId;

/**
 * Says which of PyTorch's pools the next capture uses. Pass it to CUDAPluggableAllocator's
 * set_begin_allocate_to_pool(); torch.cuda.graph() then calls it before a capture. Any thread may
 * call it.
 *
 * Until tarn_cuda_torch_end_allocate_to_pool(), requests for streams that are being captured get
 * memory of PyTorch's pool @p id. Nothing else uses this memory until
 * tarn_cuda_torch_release_pool() was called for the last graph of the pool. CUDA graphs need this
 * function, tarn_cuda_torch_end_allocate_to_pool() and tarn_cuda_torch_release_pool(). Without
 * them, an allocation in a capture is an error.
 *
 * @param device  a device from cuDeviceGet()
 * @param id      PyTorch's name of the pool: the same for graphs that share memory
 * @param filter  ignored: the address of a std::function that tells the streams of the capture.
 *                Tarn asks the driver instead. If a device has several captures at a time, a
 *                request belongs to the capture that its thread began.
 * @since 0.1
 */
void tarn_cuda_torch_begin_allocate_to_pool (int device, TarnCudaTorchPoolId id, void *filter);

/**
 * Says that a capture has ended. Pass it to CUDAPluggableAllocator's set_end_allocate_to_pool_fn().
 * Any thread may call it.
 *
 * @param device  the device that tarn_cuda_torch_begin_allocate_to_pool() got
 * @param id      the name that tarn_cuda_torch_begin_allocate_to_pool() got
 * @since 0.1
 */
void tarn_cuda_torch_end_allocate_to_pool (int device, TarnCudaTorchPoolId id);

/**
 * Says that a graph was destroyed. Pass it to CUDAPluggableAllocator's set_release_pool(). Any
 * thread may call it. If the graph was the last one of its pool, the host waits until the device
 * has completed the commands that it has now. Then the pool's memory can serve any request. If
 * another graph is being captured during the call, the host waits, and the memory is released, when
 * the last capture ends.
 *
 * @param device  the device that tarn_cuda_torch_begin_allocate_to_pool() got
 * @param id      the name that tarn_cuda_torch_begin_allocate_to_pool() got
 * @since 0.1
 */
void tarn_cuda_torch_release_pool (int device, TarnCudaTorchPoolId id);

/**
 * Returns the stream for which the calling thread allocates memory.
 *
 * @since 0.1
 */
typedef CUstream (*TarnCudaStreamFunc) (void);

/**
 * Allocates for CuPy, as cupy.cuda.CFunctionAllocator calls it. The memory comes from
 * tarn_cuda_get_shared_pool(). The guide has the few lines of Python that a program needs; they
 * turn NULL into CuPy's OutOfMemoryError.
 *
 * @param param   the address of a TarnCudaStreamFunc that returns CuPy's current stream. NULL: the
 *                memory is for the default stream.
 * @param size    bytes; for 0 the function returns NULL
 * @param device  a device from cuDeviceGet()
 * @return the address, for tarn_cuda_cupy_free(). On failure NULL, with a g_message() that says
 *         why. Any thread may call it.
 * @since 0.1
 */
void *tarn_cuda_cupy_malloc (void *param, gsize size, int device);

/**
 * Frees memory of tarn_cuda_cupy_malloc(). The memory can be allocated again at once for the same
 * stream. Any thread may call it.
 *
 * @param param   ignored
 * @param memory  the address; NULL is allowed; an address that is not in use causes a g_critical()
 * @param device  ignored
 * @since 0.1
 */
void tarn_cuda_cupy_free (void *param, void *memory, int device);

/* Results that are computed once for each context */

/**
 * Makes a memoized function of a CUDA context and a key. PyCUDA calls this
 * context_dependent_memoize. The first argument of tarn_memo_get() is a CUcontext. NULL means the
 * thread's current context; if there is none, tarn_memo_get() fails with TARN_ERROR_NO_CONTEXT. The
 * memo makes the context current while it calls @p func, unref_value or value_for_thread.
 *
 * The memo never returns values of a destroyed context for a later context. The memo frees such
 * values when it is cleared, or when it computes a value for a later context with the same handle.
 * It does not call the driver for such values (is_dead). A driver before CUDA 12.0 cannot tell the
 * two contexts apart: with such a driver, call tarn_cuda_clear_context_caches() before you destroy
 * a context.
 *
 * At exit, the memo releases nothing, because the driver may be gone already. To release the
 * values, call tarn_cuda_clear_context_caches() before the end of main().
 *
 * @param ops        nullable: functions for keys and values; its fields for first arguments must be
 *                   NULL
 * @param func       computes a value
 * @param user_data  an argument of @p func and of the functions in @p ops
 * @param destroy    nullable: frees @p user_data
 * @return (transfer full): the memo, for tarn_memo_unref(); any thread may use it. This works
 *         without a driver; tarn_memo_get() then fails with TARN_ERROR_NO_DRIVER.
 * @since 0.1
 */
TarnMemo *tarn_cuda_context_memo_new (const TarnMemoOps *ops, TarnMemoFunc func, gpointer user_data,
                                      GDestroyNotify destroy) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Clears all memos whose first arguments are CUDA contexts. PyCUDA calls this clear_context_caches.
 * Any thread may call it.
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
  GBytes *image;     /**< the module: PTX, with or without a 0 byte at the end, or a cubin */
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
 * Makes a memo of modules, which loads each module once in a context. The memo's first argument is
 * a CUcontext; NULL means the current one. The memo's keys are GBytes with PTX or a cubin, and its
 * values CUmodules. A module and its functions are valid until the memo forgets the module, and so
 * unloads it.
 *
 * @return (transfer full): the memo, for tarn_memo_unref(); any thread may use it
 * @since 0.1
 */
TarnMemo *tarn_cuda_module_memo_new (void) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Gets the module of an image. This is tarn_memo_get() for a memo of tarn_cuda_module_memo_new().
 *
 * @param memo     the memo
 * @param context  nullable: the thread's current context
 * @param image    PTX, with or without a 0 byte at the end, or a cubin
 * @param module   out: the module, valid until the memo forgets it
 * @param error    return location, or NULL: as for tarn_memo_get() with a memo of
 *                 tarn_cuda_context_memo_new(); TARN_CUDA_ERROR with the driver's status and its
 *                 compiler's log, up to 64 KiB
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_cuda_module_memo_get (TarnMemo *memo, CUcontext context, GBytes *image,
                                    CUmodule *module, GError **error);

/**
 * Makes a memo of functions, by their module and name. The memo's first argument is a CUcontext;
 * NULL means the current one. The memo's keys are TarnCudaFunctionKeys, and its values CUfunctions.
 * A function is valid as long as its module. A module is loaded once in each context, even if
 * several threads ask for several of its functions.
 *
 * If this memo forgets a function, the memo of modules forgets the module, too. The reverse does
 * not hold. If a module is forgotten only in the memo of modules, or through another memo of
 * functions over that memo, this memo still has the module's functions, which are invalid.
 * tarn_memo_forget_everywhere() forgets all of them.
 *
 * @param modules  nullable: a memo from tarn_cuda_module_memo_new(), which the program may also use
 *                 itself; NULL: a new memo of modules
 * @return (transfer full): the memo, for tarn_memo_unref(); any thread may use it
 * @since 0.1
 */
TarnMemo *tarn_cuda_function_memo_new (TarnMemo *modules) G_GNUC_WARN_UNUSED_RESULT;

/**
 * Gets the function of an image and a name. This is tarn_memo_get() for a memo of
 * tarn_cuda_function_memo_new().
 *
 * @param memo      the memo
 * @param context   nullable: the thread's current context
 * @param key       the function; its image and name must be set
 * @param function  out: the function, valid until its module is forgotten
 * @param error     return location, or NULL: as for tarn_cuda_module_memo_get(), and
 *                  TARN_ERROR_INVALID_ARGUMENT if the key has no image or no name, or sets fields
 *                  of a later version of the library
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_cuda_function_memo_get (TarnMemo *memo, CUcontext context,
                                      const TarnCudaFunctionKey *key, CUfunction *function,
                                      GError **error);

/**
 * An array in page-locked or managed memory. tarn_cuda_host_array_allocate() fills the struct, and
 * tarn_cuda_host_array_clear() empties it. Only one thread may use it at a time.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnCudaHostArray), as TARN_CUDA_HOST_ARRAY_INIT sets it */
  TarnBlock *block;  /**< the block with the elements; owned by the array */
  gpointer data;     /**< the element at [0, 0, ...]; may be NULL if there are no elements */
  guint rank;        /**< the number of axes */
  gsize *shape;      /**< elements along each axis; owned by the array */
  gsize *strides;    /**< bytes from one element to the next along each axis; owned by the array */
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
 * @param pool       a pool over tarn_cuda_host_allocator_new() or tarn_cuda_managed_allocator_new()
 * @param rank       the number of axes; an array with 0 axes has one element
 * @param shape      elements along each axis; copied
 * @param item_size  bytes of an element, at least 1
 * @param order      'C': elements along the last axis are adjacent; 'F': elements along the first
 *                   axis are
 * @param array      out: start from TARN_CUDA_HOST_ARRAY_INIT, whose struct_size says how many
 *                   bytes are filled; for tarn_cuda_host_array_clear()
 * @param error      return location, or NULL: TARN_ERROR_INVALID_ARGUMENT; TARN_ERROR_INVALID_SIZE
 *                   if a gsize cannot hold the bytes of all elements; or as for
 *                   tarn_pool_allocate()
 * @return TRUE, or FALSE with @p error set and @p array unchanged. Any thread may call it.
 * @since 0.1
 */
gboolean tarn_cuda_host_array_allocate (TarnPool *pool, guint rank, const gsize *shape,
                                        gsize item_size, gchar order, TarnCudaHostArray *array,
                                        GError **error);

/**
 * Frees the memory of an array, which returns to the array's pool.
 *
 * @param array  an array, which may be empty; afterwards it is empty. Any thread may call it.
 * @since 0.1
 */
void tarn_cuda_host_array_clear (TarnCudaHostArray *array);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TarnCudaHostArray, tarn_cuda_host_array_clear)

/**
 * The resources of a device for blocks of threads. tarn_cuda_device_data_init() fills the struct,
 * or a program fills it with numbers of its own. If registers_per_thread or one of the last three
 * fields is 0, tarn_cuda_occupancy() uses the value that is known for the compute capability. No
 * driver states these four values.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnCudaDeviceData), as TARN_CUDA_DEVICE_DATA_INIT sets it */

  gint major;                  /**< the major number of the compute capability: 9 of 9.0 */
  gint minor;                  /**< the minor number of the compute capability: 0 of 9.0 */
  guint max_threads_per_block; /**< threads */
  guint warp_size;             /**< threads */
  guint warps_per_mp;          /**< the most warps on a multiprocessor (mp) at a time */
  guint blocks_per_mp;         /**< the most blocks on a multiprocessor at a time */
  guint registers_per_block;   /**< 32-bit registers */
  guint registers_per_mp;      /**< 32-bit registers */
  guint registers_per_thread;  /**< the most registers of a thread; or 0 */

  gsize shared_per_block;          /**< bytes, for a kernel that does not opt in to more */
  gsize shared_per_block_optin;    /**< bytes, for a kernel that opts in; 0: there is no opt-in */
  gsize shared_per_mp;             /**< bytes */
  gsize shared_reserved_per_block; /**< bytes of shared memory that the driver reserves in each
                                      block */

  guint register_allocation_unit;    /**< a warp's registers are a multiple of this; or 0 */
  guint warp_allocation_granularity; /**< the number of parts of a multiprocessor, each with its own
                                        warps and registers; or 0 */
  gsize shared_allocation_unit;      /**< a block's shared memory is a multiple of this; or 0 */
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
 * Stores the resources of a device, as its driver states them. registers_per_thread and the last
 * three fields come from a table, because no driver states them. They are 0 if the table does not
 * have the compute capability. If the driver is too old to state another value, Tarn derives it
 * from the other values or the table; a value that remains unknown is 0.
 *
 * @param data    out: start from TARN_CUDA_DEVICE_DATA_INIT, whose struct_size says how many bytes
 *                are filled
 * @param device  the device
 * @param error   return location, or NULL: TARN_CUDA_ERROR if the driver fails, TARN_ERROR_FAILED
 *                if it returns an impossible value, TARN_ERROR_NOT_SUPPORTED if it cannot state
 *                attributes, TARN_ERROR_NO_DRIVER, TARN_ERROR_NO_DEVICE, TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored. Any thread may call it; no context
 *         is needed.
 * @since 0.1
 */
gboolean tarn_cuda_device_data_init (TarnCudaDeviceData *data, CUdevice device, GError **error);

/**
 * Gets the best alignment for the rows of an array, in bytes. It depends on the words that a kernel
 * reads: 64 for words of 4 bytes, 128 for words of 8 or 16. PyCUDA calls this
 * DeviceData.align_bytes.
 *
 * @param data       the device
 * @param word_size  bytes of a word: 4, 8 or 16
 * @param bytes      out: the alignment
 * @param error      return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for another size of words
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_cuda_device_data_align_bytes (const TarnCudaDeviceData *data, guint word_size,
                                            gsize *bytes, GError **error);

/**
 * Rounds the bytes of a row up to the best alignment. The result is a multiple of
 * tarn_cuda_device_data_align_bytes(). PyCUDA calls this DeviceData.align.
 *
 * @param data       the device
 * @param bytes      the bytes of a row
 * @param word_size  bytes of a word: 4, 8 or 16
 * @param aligned    out: the result
 * @param error      return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for another size of
 *                   words, or if the result does not fit a gsize
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_cuda_device_data_align (const TarnCudaDeviceData *data, gsize bytes, guint word_size,
                                      gsize *aligned, GError **error);

/**
 * Gets the best alignment for the rows of an array, in words. This is
 * tarn_cuda_device_data_align_bytes() in words: 16 for words of 4 or 8 bytes, 8 for words of 16.
 * PyCUDA calls this DeviceData.align_words.
 *
 * @param data       the device
 * @param word_size  bytes of a word: 4, 8 or 16
 * @param words      out: the alignment
 * @param error      return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for another size of words
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_cuda_device_data_align_words (const TarnCudaDeviceData *data, guint word_size,
                                            gsize *words, GError **error);

/**
 * Rounds the elements of a row up to the best alignment. The result is a multiple of
 * tarn_cuda_device_data_align_words(). PyCUDA calls this DeviceData.align_dtype.
 *
 * @param data       the device
 * @param elements   the elements of a row
 * @param word_size  bytes of an element: 4, 8 or 16
 * @param aligned    out: the result
 * @param error      return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for another size of
 *                   elements, or if the result does not fit a gsize
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_cuda_device_data_align_dtype (const TarnCudaDeviceData *data, gsize elements,
                                            guint word_size, gsize *aligned, GError **error);

/**
 * Rounds a number of threads up to a multiple of 16. The first CUDA devices combined the memory
 * accesses of 16 threads into one. PyCUDA calls this DeviceData.coalesce.
 *
 * @param data       the device
 * @param threads    threads
 * @param coalesced  out: the result
 * @param error      return location, or NULL: TARN_ERROR_INVALID_ARGUMENT if the result does not
 *                   fit a guint
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_cuda_device_data_coalesce (const TarnCudaDeviceData *data, guint threads,
                                         guint *coalesced, GError **error);

/**
 * Rounds a texture's channels up to 1, 2 or 4. A texture's elements cannot have another number of
 * channels. PyCUDA calls this DeviceData.make_valid_tex_channel_count.
 *
 * @param data      the device
 * @param channels  the number of channels that are needed
 * @param valid     out: the result
 * @param error     return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for more than 4
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_cuda_device_data_make_valid_tex_channel_count (const TarnCudaDeviceData *data,
                                                             guint channels, guint *valid,
                                                             GError **error);

/**
 * Gets the threads that access shared memory together. The number is 32, or 16 below compute
 * capability 2.0. PyCUDA calls this DeviceData.smem_granularity.
 *
 * @param data  the device
 * @return a number of threads; any thread may call it
 * @since 0.1
 */
guint tarn_cuda_device_data_smem_granularity (const TarnCudaDeviceData *data);

/**
 * Gets PyCUDA's unit of a block's shared memory. By PyCUDA's rules of 2012, it is 128 bytes, or 512
 * below compute capability 2.0. The real unit is TarnCudaDeviceData.shared_allocation_unit. PyCUDA
 * calls this DeviceData.smem_alloc_granularity.
 *
 * @param data  the device
 * @return bytes; any thread may call it
 * @since 0.1
 */
gsize tarn_cuda_device_data_smem_alloc_granularity (const TarnCudaDeviceData *data);

/**
 * The rules by which tarn_cuda_occupancy() computes.
 *
 * @since 0.1
 */
typedef enum
{
  TARN_CUDA_OCCUPANCY_EXACT, /**< the driver's rules, with the resources of the device */
  TARN_CUDA_OCCUPANCY_PYCUDA /**< PyCUDA's rules of 2012, which depend on the compute capability */
} TarnCudaOccupancyMode;

/**
 * The limit that allows the fewest blocks. Of several equal limits, it is the first in this list.
 *
 * @since 0.1
 */
typedef enum
{
  TARN_CUDA_LIMIT_UNKNOWN = -1,  /**< unknown; only tarn_cuda_occupancy_for_function() returns it */
  TARN_CUDA_LIMIT_DEVICE = 0,    /**< blocks per multiprocessor, or threads per block */
  TARN_CUDA_LIMIT_REGISTERS = 1, /**< registers */
  TARN_CUDA_LIMIT_SHARED = 2,    /**< shared memory */
  TARN_CUDA_LIMIT_WARPS = 3      /**< warps per multiprocessor */
} TarnCudaLimit;

/**
 * The share of a multiprocessor that blocks fill.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< sizeof (TarnCudaOccupancy), as TARN_CUDA_OCCUPANCY_INIT sets it */

  guint blocks_per_mp;      /**< blocks on a multiprocessor at a time; 0: no launch is possible */
  guint warps_per_mp;       /**< the warps of these blocks_per_mp blocks */
  gdouble occupancy;        /**< warps_per_mp, divided by the most warps that fit: 0 to 1 */
  TarnCudaLimit limited_by; /**< the limit that allows no more blocks */
  guint reserved;           /**< for later versions: 0 */
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
 * Computes how many blocks of a kernel a multiprocessor can run at a time. It also finds what
 * limits this number. The function computes with @p data and its other arguments only, and does not
 * call the driver.
 *
 * TARN_CUDA_OCCUPANCY_EXACT computes the driver's result for such a kernel and device. Each warp
 * gets its registers from one part of the multiprocessor. Each block also gets reserved shared
 * memory. The warps and blocks are limited, too. For a block that the device cannot run, the result
 * is 0 blocks, and this is no error. registers_per_thread and the last three fields of @p data may
 * be 0: the function then uses the values of the compute capability instead.
 *
 * TARN_CUDA_OCCUPANCY_PYCUDA computes the result of PyCUDA's OccupancyRecord, which knows GPUs up
 * to 2012. It reads only major, minor, max_threads_per_block, registers_per_block and
 * shared_per_block from @p data. A block that the device cannot run is an error.
 *
 * @param data          the device, from tarn_cuda_device_data_init() or TARN_CUDA_DEVICE_DATA_INIT
 * @param threads       threads in a block, at least 1
 * @param shared_bytes  bytes of shared memory of a block: those that the kernel declares, plus
 *                      those of its launch
 * @param registers     registers of a thread; 0: registers do not limit the result
 * @param mode          the rules
 * @param occupancy     out: start from TARN_CUDA_OCCUPANCY_INIT, whose struct_size says how many
 *                      bytes are filled
 * @param error         return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for 0 threads, for a
 *                      field of @p data that must not be 0, for fields of a later version of the
 *                      library, and by PyCUDA's rules ("too many threads", "too many registers",
 *                      "too much smem"); TARN_ERROR_NOT_SUPPORTED if a field of @p data is 0 that
 *                      depends on the compute capability, and this capability is unknown
 * @return TRUE, or FALSE with @p error set and nothing stored; any thread may call it
 * @since 0.1
 */
gboolean tarn_cuda_occupancy (const TarnCudaDeviceData *data, guint threads, gsize shared_bytes,
                              guint registers, TarnCudaOccupancyMode mode,
                              TarnCudaOccupancy *occupancy, GError **error);

/**
 * Asks the driver how many blocks run on a multiprocessor at a time. The device is the current
 * context's. The result is 0 if a block of this size cannot be launched.
 *
 * The driver does not say what limits the number. If tarn_cuda_occupancy() with
 * TARN_CUDA_OCCUPANCY_EXACT computes the same number, limited_by is its result. Otherwise there are
 * three cases. If the driver's number is 0 and the block has more threads than the function allows,
 * limited_by is TARN_CUDA_LIMIT_DEVICE. If the number is 0 and the launch has more dynamic shared
 * memory than the function opted in to, limited_by is TARN_CUDA_LIMIT_SHARED. In all other cases,
 * limited_by is TARN_CUDA_LIMIT_UNKNOWN.
 *
 * @param function              a function of the current context
 * @param threads               threads in a block, at least 1
 * @param dynamic_shared_bytes  bytes of shared memory of the launch, besides those that the
 *                              function declares
 * @param occupancy             out: start from TARN_CUDA_OCCUPANCY_INIT, whose struct_size says how
 *                              many bytes are filled
 * @param error                 return location, or NULL: TARN_ERROR_INVALID_ARGUMENT for 0 threads,
 *                              TARN_ERROR_NO_CONTEXT, TARN_CUDA_ERROR if the driver fails,
 *                              TARN_ERROR_FAILED if it returns an impossible value,
 *                              TARN_ERROR_NOT_SUPPORTED if it is too old, TARN_ERROR_NO_DRIVER,
 *                              TARN_ERROR_NO_DEVICE, TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored. Any thread that has the context
 *         current may call it.
 * @since 0.1
 */
gboolean tarn_cuda_occupancy_for_function (CUfunction function, guint threads,
                                           gsize dynamic_shared_bytes, TarnCudaOccupancy *occupancy,
                                           GError **error);

/**
 * Suggests the size of blocks with which a function fills a device best. This is the driver's
 * suggestion for the current context's device, if each block has the same dynamic shared memory.
 *
 * @param function              a function of the current context
 * @param dynamic_shared_bytes  bytes of shared memory of the launch, besides those that the
 *                              function declares
 * @param min_grid_size         out, nullable: the fewest blocks that fill the device; 0 if no size
 *                              can be launched
 * @param block_size            out, nullable: threads in a block; 0 if no size can be launched
 * @param error                 return location, or NULL: TARN_ERROR_NO_CONTEXT, TARN_CUDA_ERROR if
 *                              the driver fails, TARN_ERROR_FAILED if it returns an impossible
 *                              value, TARN_ERROR_NOT_SUPPORTED if it is too old,
 *                              TARN_ERROR_NO_DRIVER, TARN_ERROR_NO_DEVICE, TARN_ERROR_FORKED
 * @return TRUE, or FALSE with @p error set and nothing stored. Any thread that has the context
 *         current may call it.
 * @since 0.1
 */
gboolean tarn_cuda_suggest_block_size (CUfunction function, gsize dynamic_shared_bytes,
                                       guint *min_grid_size, guint *block_size, GError **error);

G_END_DECLS

#endif
