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

void tarn_cuda_test_add (const gchar *path, TarnCudaTestFunc func, gconstpointer data);

/* Contexts */

CUcontext tarn_cuda_make_default_context (CUdevice *device,
                                          GError **error) G_GNUC_WARN_UNUSED_RESULT;
void tarn_cuda_context_release (CUcontext context);
gboolean tarn_cuda_autoinit (CUdevice *device, CUcontext *context, GError **error);
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

TarnAllocator *tarn_cuda_device_allocator_new (CUcontext context,
                                               GError **error) G_GNUC_WARN_UNUSED_RESULT;
TarnAllocator *
tarn_cuda_device_allocator_new_with_options (CUcontext context,
                                             const TarnCudaDeviceOptions *options,
                                             GError **error) G_GNUC_WARN_UNUSED_RESULT;
TarnAllocator *tarn_cuda_host_allocator_new (CUcontext context, guint flags,
                                             GError **error) G_GNUC_WARN_UNUSED_RESULT;
TarnAllocator *tarn_cuda_managed_allocator_new (CUcontext context, guint flags,
                                                GError **error) G_GNUC_WARN_UNUSED_RESULT;
TarnAllocator *tarn_cuda_async_allocator_new (CUcontext context, CUmemoryPool pool,
                                              GError **error) G_GNUC_WARN_UNUSED_RESULT;
guint64 tarn_cuda_allocator_get_lost_bytes (TarnAllocator *allocator);
CUdeviceptr tarn_cuda_block_get_device_pointer (const TarnBlock *block);
gpointer tarn_cuda_block_get_host_pointer (const TarnBlock *block);

/* Pools, and memory that several streams use */

TarnPool *tarn_cuda_pool_new (CUcontext context, const TarnPoolOptions *options,
                              GError **error) G_GNUC_WARN_UNUSED_RESULT;
TarnBlock *tarn_cuda_pool_allocate (TarnPool *pool, gsize size, CUstream stream,
                                    GError **error) G_GNUC_WARN_UNUSED_RESULT;
TarnBlock *tarn_cuda_pool_find (TarnPool *pool, CUdeviceptr address);
gboolean tarn_cuda_block_record_use (TarnBlock *block, CUstream stream, GError **error);
void tarn_cuda_block_free_on (TarnBlock *block, CUstream stream);
gboolean tarn_cuda_block_move_to_stream (TarnBlock *block, CUstream stream, GError **error);
gboolean tarn_cuda_block_get_stream (const TarnBlock *block, CUstream *stream);
gboolean tarn_cuda_pool_forget_stream (TarnPool *pool, CUstream stream, GError **error);
TarnPool *tarn_cuda_get_shared_pool (CUdevice device, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Memory of CUDA graphs */

gboolean tarn_cuda_pool_begin_graph (TarnPool *pool, CUstream stream, guint64 *graph,
                                     GError **error);
gboolean tarn_cuda_pool_end_graph (TarnPool *pool, guint64 graph, GError **error);
gboolean tarn_cuda_pool_release_graph (TarnPool *pool, guint64 graph, GError **error);

/* Memory for frameworks that take an allocator as C functions */

void *tarn_cuda_torch_malloc (gssize size, int device, CUstream stream);
void tarn_cuda_torch_free (void *memory, gssize size, int device, CUstream stream);
void tarn_cuda_torch_record_stream (void *memory, CUstream stream);
void tarn_cuda_torch_empty_cache (void);
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

void tarn_cuda_torch_begin_allocate_to_pool (int device, TarnCudaTorchPoolId id, void *filter);
void tarn_cuda_torch_end_allocate_to_pool (int device, TarnCudaTorchPoolId id);
void tarn_cuda_torch_release_pool (int device, TarnCudaTorchPoolId id);

/**
 * Tells which stream the calling thread's memory is for.
 *
 * @since 0.1
 */
typedef CUstream (*TarnCudaStreamFunc) (void);

void *tarn_cuda_cupy_malloc (void *param, gsize size, int device);
void tarn_cuda_cupy_free (void *param, void *memory, int device);

/* Results that are computed once for each context */

TarnMemo *tarn_cuda_context_memo_new (const TarnMemoOps *ops, TarnMemoFunc func, gpointer user_data,
                                      GDestroyNotify destroy) G_GNUC_WARN_UNUSED_RESULT;
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

TarnMemo *tarn_cuda_module_memo_new (void) G_GNUC_WARN_UNUSED_RESULT;
gboolean tarn_cuda_module_memo_get (TarnMemo *memo, CUcontext context, GBytes *image,
                                    CUmodule *module, GError **error);
TarnMemo *tarn_cuda_function_memo_new (TarnMemo *modules) G_GNUC_WARN_UNUSED_RESULT;
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

gboolean tarn_cuda_host_array_allocate (TarnPool *pool, guint rank, const gsize *shape,
                                        gsize item_size, gchar order, TarnCudaHostArray *array,
                                        GError **error);
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

gboolean tarn_cuda_device_data_init (TarnCudaDeviceData *data, CUdevice device, GError **error);
gboolean tarn_cuda_device_data_align_bytes (const TarnCudaDeviceData *data, guint word_size,
                                            gsize *bytes, GError **error);
gboolean tarn_cuda_device_data_align (const TarnCudaDeviceData *data, gsize bytes, guint word_size,
                                      gsize *aligned, GError **error);
gboolean tarn_cuda_device_data_align_words (const TarnCudaDeviceData *data, guint word_size,
                                            gsize *words, GError **error);
gboolean tarn_cuda_device_data_align_dtype (const TarnCudaDeviceData *data, gsize elements,
                                            guint word_size, gsize *aligned, GError **error);
gboolean tarn_cuda_device_data_coalesce (const TarnCudaDeviceData *data, guint threads,
                                         guint *coalesced, GError **error);
gboolean tarn_cuda_device_data_make_valid_tex_channel_count (const TarnCudaDeviceData *data,
                                                             guint channels, guint *valid,
                                                             GError **error);
guint tarn_cuda_device_data_smem_granularity (const TarnCudaDeviceData *data);
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

gboolean tarn_cuda_occupancy (const TarnCudaDeviceData *data, guint threads, gsize shared_bytes,
                              guint registers, TarnCudaOccupancyMode mode,
                              TarnCudaOccupancy *occupancy, GError **error);
gboolean tarn_cuda_occupancy_for_function (CUfunction function, guint threads,
                                           gsize dynamic_shared_bytes, TarnCudaOccupancy *occupancy,
                                           GError **error);
gboolean tarn_cuda_suggest_block_size (CUfunction function, gsize dynamic_shared_bytes,
                                       guint *min_grid_size, guint *block_size, GError **error);

G_END_DECLS

#endif
