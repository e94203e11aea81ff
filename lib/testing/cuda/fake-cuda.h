/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The fake CUDA driver: declares its functions, and the types of <cuda.h> that <tarn/cuda.h> lacks.
 * This header is for the driver's own files, and for tests that are linked with the driver.
 * <tarn/testing/cuda.h> has the functions by which a test controls the driver.
 *
 * In general:
 * - Addresses of device memory are never valid addresses of the host.  Handles are no valid
 *   addresses of the host either, except in a 32-bit process.
 * - A call that crashed on an H200 ends the test with a message.  A call that
 *   names a module that never existed ends the test, too.
 * - A destroyed context can still be made current, with success, as on an H200.  Taking that
 *   context off the thread's stack, or asking for its device, ends the test.
 * - A new module or function gets the handle that was freed last.  This was not observed on an
 *   H200. modules.c describes the images that can be loaded.
 *
 * Virtual memory belongs to no context.  The driver's functions for virtual memory need no context,
 * and end no capture of a stream.  Mapped memory is the host's memory at the same address.  A
 * backing (memory from cuMemCreate ()) keeps its bytes when it is mapped at another address.  Two
 * mistakes that an H200 accepts end the test: mapping more than was reserved, and unmapping
 * addresses that are not mapped.  A call with a handle that never existed ends the test, too; on an
 * H200 it crashes.
 *
 * Memory of CUDA's pools (cuMemAllocAsync) becomes ready when a stream reaches the allocation, and
 * is freed when a stream reaches the free.  If no other memory is left, an allocation gets memory
 * whose free is still pending, and its stream waits for that free. <cuda.h> describes this
 * for CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, which is on by default.  Commands that use
 * such memory too early or too late end the test.  An allocation on a stream that is being captured
 * ends the test, too; a free on such a stream fails.  A pool caches no freed memory.  The rules for
 * CUDA's pools follow CUDA's documentation, and were not compared with a device.
 *
 * The driver exports only current symbols: cuMemAlloc_v2, for example, but not the old cuMemAlloc,
 * whose size has 32 bits. */

#ifndef TARN_FAKE_CUDA_H
#define TARN_FAKE_CUDA_H

#include <stddef.h>
#include <tarn/testing/cuda.h>

G_BEGIN_DECLS

/* Types as in <cuda.h>, except that CUresult and enums are unsigned int. */
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

typedef unsigned long long CUmemGenericAllocationHandle;

typedef struct
{
  unsigned int type; /* 1: CU_MEM_LOCATION_TYPE_DEVICE */
  int id;
} CUmemLocation;

typedef struct
{
  unsigned int type; /* 1: CU_MEM_ALLOCATION_TYPE_PINNED */
  /* 1: CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR; 0: no type of handle */
  unsigned int requestedHandleTypes;
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
  unsigned int flags; /* 0: CU_MEM_ACCESS_FLAGS_PROT_NONE; 1: _READ; 3: _READWRITE */
} CUmemAccessDesc;

typedef struct
{
  unsigned int allocType;   /* 1: CU_MEM_ALLOCATION_TYPE_PINNED */
  unsigned int handleTypes; /* 1: CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR; 0: no type */
  CUmemLocation location;
  void *win32SecurityAttributes;
  size_t maxSize; /* the largest size of the pool, in bytes; 0: no limit */
  unsigned short usage;
  unsigned char reserved[54];
} CUmemPoolProps;

/* The granularity of virtual memory, in bytes, as on an H200: sizes and addresses are multiples of
 * it. */
#define FAKE_CUDA_GRANULARITY ((gsize) 2 << 20)

/* The bytes of memory that each device has by default: as many as an H200 has.  In a 32-bit process
 * a device has only 1.75 GiB, so that a test can still request more bytes than the device has. */
#define FAKE_CUDA_MEMORY_SIZE                                                                      \
  (sizeof (size_t) > 4 ? G_GUINT64_CONSTANT (150109880320) : G_GUINT64_CONSTANT (1879048192))

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
  FAKE_CUDA_STREAM_CAPTURE_IMPLICIT = 906,
  FAKE_CUDA_CAPTURED_EVENT = 907
};

/* The version of CUDA that the fake driver implements, and that cuDriverGetVersion () returns.  The
 * driver lacks the functions that later versions of CUDA introduced.  From the same sources, the
 * build makes a second library with an older version, for tests with a driver that lacks these
 * functions. */
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
#if FAKE_CUDA_VERSION >= 11020
#define FAKE_CUDA_IF_11_2(row) row
#else
#define FAKE_CUDA_IF_11_2(row)
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

/* The functions of the driver.  Each row is F (name, symbol, arguments). */
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
  F (cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2,                                                      \
     (CUdeviceptr to, const void *from, size_t size, CUstream stream))                             \
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
  F (cuStreamGetCaptureInfo, cuStreamGetCaptureInfo,                                               \
     (CUstream stream, unsigned int *capturing, guint64 *id))                                      \
  F (cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, (unsigned int *mode))   \
  F (cuGraphDestroy, cuGraphDestroy, (CUgraph graph))                                              \
  FAKE_CUDA_IF_11_4 (F (cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags,                  \
                        (CUgraphExec * exec, CUgraph graph, unsigned long long flags)))            \
  F (cuGraphExecDestroy, cuGraphExecDestroy, (CUgraphExec exec))                                   \
  F (cuGraphLaunch, cuGraphLaunch, (CUgraphExec exec, CUstream stream))                            \
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
  FAKE_CUDA_IF_11_2 (                                                                              \
      F (cuMemAllocAsync, cuMemAllocAsync, (CUdeviceptr * address, size_t size, CUstream stream))) \
  FAKE_CUDA_IF_11_2 (F (cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync,                          \
                        (CUdeviceptr * address, size_t size, CUmemoryPool pool, CUstream stream))) \
  FAKE_CUDA_IF_11_2 (F (cuMemFreeAsync, cuMemFreeAsync, (CUdeviceptr address, CUstream stream)))   \
  FAKE_CUDA_IF_11_2 (                                                                              \
      F (cuMemPoolCreate, cuMemPoolCreate, (CUmemoryPool * pool, const CUmemPoolProps *props)))    \
  FAKE_CUDA_IF_11_2 (F (cuMemPoolDestroy, cuMemPoolDestroy, (CUmemoryPool pool)))                  \
  FAKE_CUDA_IF_11_2 (F (cuMemPoolGetAttribute, cuMemPoolGetAttribute,                              \
                        (CUmemoryPool pool, unsigned int attribute, void *value)))                 \
  FAKE_CUDA_IF_11_2 (F (cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool,                      \
                        (CUmemoryPool * pool, CUdevice device)))                                   \
  FAKE_CUDA_IF_11_2 (                                                                              \
      F (cuDeviceGetMemPool, cuDeviceGetMemPool, (CUmemoryPool * pool, CUdevice device)))          \
  FAKE_CUDA_IF_11_2 (                                                                              \
      F (cuDeviceSetMemPool, cuDeviceSetMemPool, (CUdevice device, CUmemoryPool pool)))            \
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

#define FAKE_CUDA_N_KINDS (TARN_TESTING_CUDA_MAPPING + 1)

/* Returns the functions that control the driver, for tarn_testing_cuda_get ().  Never returns
 * NULL. */
__attribute__ ((visibility ("default"))) const TarnTestingCuda *tarn_fake_cuda (void);

G_END_DECLS

#endif
