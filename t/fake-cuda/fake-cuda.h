/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A libcuda.so.1 without a GPU: devices with settable attributes, memory with a budget and a
 * ledger, contexts, streams and events, calls that fail or take their time on demand.  It takes the
 * place of the driver in a program that is linked with it, or that finds it through
 * LD_LIBRARY_PATH.
 *
 * A linked program controls it through tarn_fake_cuda (), any other through its environment, which
 * is read by the first call and by reset ():
 *
 *     FAKE_CUDA_DEVICES=N               how many devices there are (2)
 *     FAKE_CUDA_TOTAL_MEMORY=BYTES      of each device
 *     FAKE_CUDA_FAIL=NAME:CODE[;...]    these functions return these statuses, always
 *     FAKE_CUDA_REFUSE_CONTEXTS=D[,...] no context can be made on these devices
 *
 * What it makes easy to get wrong, as the real driver does: a new context, stream or event has the
 * handle of the one destroyed last; new memory has the address of what was freed last, in whichever
 * context; a context's memory, streams, events and modules die with it.  An address in device
 * memory is none of the host's, nor is a handle.  A new module and its functions, too, have handles
 * of those gone last, which an H200 was not seen to do.  modules.c says what is an image.
 *
 * It answers as an H200 was seen to.  Where that crashed, a message says so and ends the test: what
 * is asked of a destroyed stream, or of a module that never was; what is still on a stream and
 * uses memory that was freed, which a driver would have waited for; a context that was made current
 * when it was destroyed already (a success), and is then taken off the thread's stack, or asked for
 * its device.
 *
 * Virtual memory belongs to no context, needs none, and disturbs no capture.  What is mapped is the
 * host's memory at the same address, and a backing keeps its bytes wherever it is mapped.  What an
 * H200 lets pass although it is not allowed, to map more than was reserved and to unmap what is not
 * mapped, ends the test here, as does a handle that never was, which crashes there.
 *
 * Only today's functions are exported: cuMemAlloc_v2 and no cuMemAlloc, whose size has 32 bits.  A
 * function's name is here what a user of <cuda.h> writes, cuMemAlloc.
 *
 * Any thread may call any of these.  Mistakes of the test, such as a name that no function has, end
 * it. */

#ifndef TARN_FAKE_CUDA_H
#define TARN_FAKE_CUDA_H

#include <glib.h>
#include <stddef.h>

G_BEGIN_DECLS

/* As in <cuda.h>; CUresult and enums are unsigned int. */
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
#if GLIB_SIZEOF_VOID_P == 8
typedef unsigned long long CUdeviceptr;
#else
typedef unsigned int CUdeviceptr;
#endif

typedef unsigned long long CUmemGenericAllocationHandle;

typedef struct
{
  unsigned int type; /* CU_MEM_LOCATION_TYPE_DEVICE: 1 */
  int id;
} CUmemLocation;

typedef struct
{
  unsigned int type;                 /* CU_MEM_ALLOCATION_TYPE_PINNED: 1 */
  unsigned int requestedHandleTypes; /* CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR: 1; or none: 0 */
  CUmemLocation location;
  void *win32HandleMetaData;
  struct
  {
    unsigned char compressionType;
    unsigned char gpuDirectRDMACapable;
    unsigned short usage;
    unsigned char reserved[4];
  } allocFlags;
} CUmemAllocationProp;

typedef struct
{
  CUmemLocation location;
  unsigned int flags; /* CU_MEM_ACCESS_FLAGS_PROT_NONE: 0, _READ: 1, _READWRITE: 3 */
} CUmemAccessDesc;

/* Bytes that virtual memory is a multiple of, as an H200's. */
#define FAKE_CUDA_GRANULARITY ((gsize) 2 << 20)

/* Bytes of each device: an H200's, or what a size of 32 bits can count. */
#define FAKE_CUDA_MEMORY_SIZE                                                                      \
  (sizeof (size_t) > 4 ? G_GUINT64_CONSTANT (150109880320) : G_GUINT64_CONSTANT (3221225472))

enum
{
  FAKE_CUDA_SUCCESS = 0,
  FAKE_CUDA_INVALID_VALUE = 1,
  FAKE_CUDA_OUT_OF_MEMORY = 2,
  FAKE_CUDA_NOT_INITIALIZED = 3,
  FAKE_CUDA_DEINITIALIZED = 4,
  FAKE_CUDA_DEVICE_UNAVAILABLE = 46,
  FAKE_CUDA_NO_DEVICE = 100,
  FAKE_CUDA_INVALID_DEVICE = 101,
  FAKE_CUDA_INVALID_IMAGE = 200,
  FAKE_CUDA_INVALID_CONTEXT = 201,
  FAKE_CUDA_INVALID_PTX = 218,
  FAKE_CUDA_INVALID_HANDLE = 400,
  FAKE_CUDA_ILLEGAL_STATE = 401,
  FAKE_CUDA_NOT_FOUND = 500,
  FAKE_CUDA_NOT_READY = 600,
  FAKE_CUDA_CONTEXT_IS_DESTROYED = 709,
  FAKE_CUDA_NOT_SUPPORTED = 801,
  FAKE_CUDA_STREAM_CAPTURE_UNSUPPORTED = 900,
  FAKE_CUDA_STREAM_CAPTURE_INVALIDATED = 901,
  FAKE_CUDA_STREAM_CAPTURE_UNMATCHED = 903,
  FAKE_CUDA_STREAM_CAPTURE_ISOLATION = 905,
  FAKE_CUDA_CAPTURED_EVENT = 907
};

/* The version of CUDA that it is, as cuDriverGetVersion () says it, and what older ones lack: a
 * second library is built of the same sources, for a program that is compiled with the same
 * version. */
#ifndef FAKE_CUDA_VERSION
#define FAKE_CUDA_VERSION 12090
#endif
#if FAKE_CUDA_VERSION >= 10020
#define FAKE_CUDA_IF_10_2(row) row
#else
#define FAKE_CUDA_IF_10_2(row)
#endif
#if FAKE_CUDA_VERSION >= 11000
#define FAKE_CUDA_IF_11_0(row) row
#else
#define FAKE_CUDA_IF_11_0(row)
#endif
#if FAKE_CUDA_VERSION >= 11040
#define FAKE_CUDA_IF_11_4(row) row
#else
#define FAKE_CUDA_IF_11_4(row)
#endif
#if FAKE_CUDA_VERSION >= 12000
#define FAKE_CUDA_IF_12_0(row) row
#else
#define FAKE_CUDA_IF_12_0(row)
#endif
#if FAKE_CUDA_VERSION >= 12050
#define FAKE_CUDA_IF_12_5(row) row
#else
#define FAKE_CUDA_IF_12_5(row)
#endif

/* F (name, symbol, arguments) */
#define FAKE_CUDA_FUNCTIONS(F)                                                                     \
  F (cuInit, cuInit, (unsigned int flags))                                                         \
  F (cuDriverGetVersion, cuDriverGetVersion, (int *version))                                       \
  F (cuGetErrorName, cuGetErrorName, (unsigned int status, const char **name))                     \
  F (cuGetErrorString, cuGetErrorString, (unsigned int status, const char **text))                 \
  F (cuDeviceGet, cuDeviceGet, (CUdevice * device, int ordinal))                                   \
  F (cuDeviceGetCount, cuDeviceGetCount, (int *count))                                             \
  F (cuDeviceGetName, cuDeviceGetName, (char *name, int length, CUdevice device))                  \
  F (cuDeviceGetUuid, cuDeviceGetUuid, (char *uuid, CUdevice device))                              \
  FAKE_CUDA_IF_11_4 (F (cuDeviceGetUuid_v2, cuDeviceGetUuid_v2, (char *uuid, CUdevice device)))    \
  F (cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, (char *id, int length, CUdevice device))            \
  F (cuDeviceGetAttribute, cuDeviceGetAttribute,                                                   \
     (int *value, unsigned int attribute, CUdevice device))                                        \
  F (cuDeviceTotalMem, cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device))                     \
  F (cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))   \
  F (cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (CUdevice device))                   \
  F (cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState,                                       \
     (CUdevice device, unsigned int *flags, int *active))                                          \
  F (cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, (CUdevice device))                       \
  F (cuCtxCreate, cuCtxCreate_v2, (CUcontext * context, unsigned int flags, CUdevice device))      \
  F (cuCtxDestroy, cuCtxDestroy_v2, (CUcontext context))                                           \
  F (cuCtxGetCurrent, cuCtxGetCurrent, (CUcontext * context))                                      \
  F (cuCtxSetCurrent, cuCtxSetCurrent, (CUcontext context))                                        \
  F (cuCtxPushCurrent, cuCtxPushCurrent_v2, (CUcontext context))                                   \
  F (cuCtxPopCurrent, cuCtxPopCurrent_v2, (CUcontext * context))                                   \
  F (cuCtxGetDevice, cuCtxGetDevice, (CUdevice * device))                                          \
  FAKE_CUDA_IF_12_0 (F (cuCtxGetId, cuCtxGetId, (CUcontext context, unsigned long long *id)))      \
  F (cuCtxSynchronize, cuCtxSynchronize, (void) )                                                  \
  F (cuMemGetInfo, cuMemGetInfo_v2, (size_t * available, size_t * total))                          \
  F (cuMemAlloc, cuMemAlloc_v2, (CUdeviceptr * address, size_t size))                              \
  F (cuMemFree, cuMemFree_v2, (CUdeviceptr address))                                               \
  F (cuMemHostAlloc, cuMemHostAlloc, (void **pointer, size_t size, unsigned int flags))            \
  F (cuMemFreeHost, cuMemFreeHost, (void *pointer))                                                \
  F (cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2,                                      \
     (CUdeviceptr * address, void *pointer, unsigned int flags))                                   \
  F (cuMemAllocManaged, cuMemAllocManaged,                                                         \
     (CUdeviceptr * address, size_t size, unsigned int flags))                                     \
  F (cuMemcpyHtoD, cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t size))               \
  F (cuMemcpyDtoH, cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t size))                     \
  F (cuMemcpyDtoD, cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t size))               \
  F (cuMemsetD8, cuMemsetD8_v2, (CUdeviceptr to, unsigned char value, size_t n))                   \
  F (cuMemsetD32, cuMemsetD32_v2, (CUdeviceptr to, unsigned int value, size_t n))                  \
  F (cuMemsetD32Async, cuMemsetD32Async,                                                           \
     (CUdeviceptr to, unsigned int value, size_t n, CUstream stream))                              \
  F (cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2,                                                      \
     (void *to, CUdeviceptr from, size_t size, CUstream stream))                                   \
  F (cuLaunchHostFunc, cuLaunchHostFunc, (CUstream stream, void (*function) (void *), void *data)) \
  F (cuStreamCreate, cuStreamCreate, (CUstream * stream, unsigned int flags))                      \
  F (cuStreamDestroy, cuStreamDestroy_v2, (CUstream stream))                                       \
  F (cuStreamSynchronize, cuStreamSynchronize, (CUstream stream))                                  \
  F (cuStreamQuery, cuStreamQuery, (CUstream stream))                                              \
  F (cuStreamGetCtx, cuStreamGetCtx, (CUstream stream, CUcontext * context))                       \
  F (cuStreamWaitEvent, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags))   \
  F (cuStreamBeginCapture, cuStreamBeginCapture_v2, (CUstream stream, unsigned int mode))          \
  F (cuStreamEndCapture, cuStreamEndCapture, (CUstream stream, CUgraph * graph))                   \
  F (cuStreamIsCapturing, cuStreamIsCapturing, (CUstream stream, unsigned int *capturing))         \
  F (cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, (unsigned int *mode))   \
  F (cuGraphDestroy, cuGraphDestroy, (CUgraph graph))                                              \
  F (cuEventCreate, cuEventCreate, (CUevent * event, unsigned int flags))                          \
  F (cuEventDestroy, cuEventDestroy_v2, (CUevent event))                                           \
  F (cuEventRecord, cuEventRecord, (CUevent event, CUstream stream))                               \
  FAKE_CUDA_IF_12_5 (F (cuCtxRecordEvent, cuCtxRecordEvent, (CUcontext context, CUevent event)))   \
  F (cuEventQuery, cuEventQuery, (CUevent event))                                                  \
  F (cuEventSynchronize, cuEventSynchronize, (CUevent event))                                      \
  FAKE_CUDA_IF_10_2 (                                                                              \
      F (cuMemGetAllocationGranularity, cuMemGetAllocationGranularity,                             \
         (size_t * bytes, const CUmemAllocationProp *properties, unsigned int option)))            \
  FAKE_CUDA_IF_10_2 (F (cuMemAddressReserve, cuMemAddressReserve,                                  \
                        (CUdeviceptr * address, size_t size, size_t alignment, CUdeviceptr hint,   \
                         unsigned long long flags)))                                               \
  FAKE_CUDA_IF_10_2 (F (cuMemAddressFree, cuMemAddressFree, (CUdeviceptr address, size_t size)))   \
  FAKE_CUDA_IF_10_2 (F (cuMemCreate, cuMemCreate,                                                  \
                        (CUmemGenericAllocationHandle * handle, size_t size,                       \
                         const CUmemAllocationProp *properties, unsigned long long flags)))        \
  FAKE_CUDA_IF_10_2 (F (cuMemRelease, cuMemRelease, (CUmemGenericAllocationHandle handle)))        \
  FAKE_CUDA_IF_10_2 (F (cuMemMap, cuMemMap,                                                        \
                        (CUdeviceptr address, size_t size, size_t offset,                          \
                         CUmemGenericAllocationHandle handle, unsigned long long flags)))          \
  FAKE_CUDA_IF_10_2 (F (cuMemUnmap, cuMemUnmap, (CUdeviceptr address, size_t size)))               \
  FAKE_CUDA_IF_10_2 (                                                                              \
      F (cuMemSetAccess, cuMemSetAccess,                                                           \
         (CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t n)))             \
  FAKE_CUDA_IF_10_2 (                                                                              \
      F (cuMemGetAccess, cuMemGetAccess,                                                           \
         (unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address)))         \
  FAKE_CUDA_IF_10_2 (F (cuMemGetAllocationPropertiesFromHandle,                                    \
                        cuMemGetAllocationPropertiesFromHandle,                                    \
                        (CUmemAllocationProp * properties, CUmemGenericAllocationHandle handle)))  \
  FAKE_CUDA_IF_10_2 (F (cuMemExportToShareableHandle, cuMemExportToShareableHandle,                \
                        (void *shared, CUmemGenericAllocationHandle handle, unsigned int type,     \
                         unsigned long long flags)))                                               \
  FAKE_CUDA_IF_11_0 (F (cuMemRetainAllocationHandle, cuMemRetainAllocationHandle,                  \
                        (CUmemGenericAllocationHandle * handle, void *address)))                   \
  F (cuDeviceCanAccessPeer, cuDeviceCanAccessPeer,                                                 \
     (int *can_access, CUdevice device, CUdevice peer))                                            \
  F (cuModuleLoadData, cuModuleLoadData, (CUmodule * module, const void *image))                   \
  F (cuModuleLoadDataEx, cuModuleLoadDataEx,                                                       \
     (CUmodule * module, const void *image, unsigned int n_options, unsigned int *options,         \
      void **values))                                                                              \
  F (cuModuleUnload, cuModuleUnload, (CUmodule module))                                            \
  F (cuModuleGetFunction, cuModuleGetFunction,                                                     \
     (CUfunction * function, CUmodule module, const char *name))                                   \
  F (cuPointerGetAttribute, cuPointerGetAttribute,                                                 \
     (void *value, unsigned int attribute, CUdeviceptr address))

#define FAKE_CUDA_DECLARE(name, symbol, arguments)                                                 \
  __attribute__ ((visibility ("default"))) unsigned int symbol arguments;
FAKE_CUDA_FUNCTIONS (FAKE_CUDA_DECLARE)

typedef enum
{
  FAKE_CUDA_DEVICE_MEMORY,  /* cuMemAlloc */
  FAKE_CUDA_HOST_MEMORY,    /* cuMemHostAlloc */
  FAKE_CUDA_MANAGED_MEMORY, /* cuMemAllocManaged */
  FAKE_CUDA_CONTEXT,        /* active primary ones, too */
  FAKE_CUDA_STREAM,
  FAKE_CUDA_EVENT,
  FAKE_CUDA_MODULE,
  FAKE_CUDA_ADDRESSES, /* cuMemAddressReserve */
  FAKE_CUDA_BACKING,   /* cuMemCreate, until it is released and nowhere mapped */
  FAKE_CUDA_MAPPING,   /* cuMemMap */
  FAKE_CUDA_N_KINDS
} FakeCudaKind;

/* What the ledger has on memory.  A context's id is never used twice, as its handle is. */
typedef struct
{
  FakeCudaKind kind;
  CUdeviceptr address; /* its first byte's; for host memory the host's, and for mappings, too */
  gsize size;          /* bytes asked for */
  CUdevice device;
  guint64 context_id; /* that it was allocated in; 0: a mapping, which is no context's */
  guint64 freed_by;   /* the id of the context that was current at its free; 0: it is alive */
} FakeCudaMemory;

typedef struct
{
  /* To how all of this is at the start, as the environment has it, but for what is alive: contexts,
   * memory, streams, events, modules, and that the driver is initialized. */
  void (*reset) (void);

  /* For what is set of a device: at most FAKE_CUDA_MAX_DEVICES. */
  void (*set_device_count) (guint n);
  void (*set_attribute) (CUdevice device, guint attribute, gint value);
  void (*set_total_memory) (CUdevice device, guint64 bytes);

  /* The device is a part of a GPU (MIG): its UUID is its own, but to cuDeviceGetUuid (), which says
   * the GPU's. */
  void (*set_part) (CUdevice device, gboolean is_part);

  /* The bytes for all live device, managed and created memory of the device, whatever its context;
   * what would exceed them is CUDA_ERROR_OUT_OF_MEMORY.  G_MAXUINT64: as much as there is in total,
   * as at the start. */
  void (*set_budget) (CUdevice device, guint64 bytes);

  /* What making a context on the device, also its primary one, returns; 0: a context. */
  void (*refuse_contexts) (CUdevice device, guint status);

  /* The nth call of @function from now on fails with @status and has no effect, 1 being the next
   * one; if @for_ever, so do all that follow.  NULL: of all functions together.  0: none fails.  It
   * takes the place of what was asked for before; FAKE_CUDA_FAIL stays. */
  void (*fail) (const gchar *function, guint nth, gboolean for_ever, guint status);

  /* The function that the latest fail () struck first; NULL: it has not come to that. */
  const gchar *(*get_failed) (void);

  /* Calls of @function since reset (), failing ones included; NULL: of all. */
  guint (*get_calls) (const gchar *function);

  /* Calls made in children of fork () since the start, by this process and every relative: a child
   * whose parent had initialized the driver is told CUDA_ERROR_NOT_INITIALIZED, and no more than
   * versions and names of errors. */
  guint (*get_calls_after_fork) (void);

  /* Each call of @function sleeps first; NULL: of each function. */
  void (*set_latency) (const gchar *function, guint microseconds);

  /* Each call of any function calls @hook with its name first, in the same thread, but not those
   * that the hook makes itself; NULL: none is called, as after reset (). */
  void (*set_hook) (void (*hook) (const gchar *function, gpointer data), gpointer data);

  guint (*get_live) (FakeCudaKind kind);
  guint64 (*get_live_bytes) (FakeCudaKind kind); /* as asked for; 0 but for memory and addresses */

  /* The live memory that @address lies in; FALSE: none. */
  gboolean (*find_memory) (CUdeviceptr address, FakeCudaMemory *memory);

  /* Memory that was freed while another context was current than it was allocated in, which the
   * driver lets pass: how often since reset (), and what the first @n were. */
  guint (*get_strangers_freed) (FakeCudaMemory *memory, guint n);

  /* Something on the stream that is not done, and all that comes after it waits, until
   * finish_work () ends the first of it; finish_all_work () ends that of all streams, also
   * destroyed ones.  A free of memory waits for nothing, unlike a driver's. */
  void (*put_work) (CUstream stream);
  void (*finish_work) (CUstream stream);
  void (*finish_all_work) (void);

  /* Whether all that was put on the stream is done; it takes no call. */
  gboolean (*is_idle) (CUstream stream);

  /* The name of the function, the module's; NULL: there is none, or its module is gone. */
  const gchar *(*find_kernel) (CUfunction function);

  guint (*get_context_stack_depth) (void); /* of this thread */
  guint (*get_primary_references) (CUdevice device);
} FakeCuda;

#define FAKE_CUDA_MAX_DEVICES 16

/* Never NULL. */
__attribute__ ((visibility ("default"))) const FakeCuda *tarn_fake_cuda (void);

G_END_DECLS

#endif
