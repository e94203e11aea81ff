/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The functions of the CUDA driver that Tarn calls.  Tarn neither links with the driver nor
 * includes CUDA's headers.  It opens the driver by dlopen () at the first need, so the library
 * builds and loads on a machine without CUDA.
 *
 * Each row of the lists below is X (name, symbol, arguments): the name by which Tarn calls a
 * function, the symbol that the driver exports, and the arguments.  Some symbols have a suffix such
 * as _v2.  The driver also has the symbol without the suffix: an older function with other
 * arguments.  (cuda.h hides the suffix by a macro.)  Where cuda.h has CUresult or an enum, these
 * lists have unsigned int. */

#ifndef TARN_CUDA_DRIVER_PRIVATE_H
#define TARN_CUDA_DRIVER_PRIVATE_H

#include <tarn/cuda.h>

typedef struct CUevent_st *CUevent; /* the same declaration as in <cuda.h> */

#ifdef CUDA_VERSION
/* <cuda.h> is included only by a test, which compares the functions below with it */
typedef CUuuid TarnCudaUuid;
#else
typedef struct
{
  char bytes[16];
} TarnCudaUuid;
#endif

/* Structs for virtual memory, as CUDA 10.2 defines them.  The driver takes the addresses of these
 * structs, so later versions of CUDA cannot enlarge the structs. */
typedef struct
{
  unsigned int type; /* CU_MEM_LOCATION_TYPE_DEVICE: the memory is on a device */
  int id;            /* the device's number */
} TarnCudaOwnLocation;

typedef struct
{
  unsigned int type;
  /* TARN_CUDA_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR if the memory can be exported as a file
   * descriptor; 0 if it cannot be exported */
  unsigned int handle_types;
  TarnCudaOwnLocation location;
  void *windows; /* win32HandleMetaData of <cuda.h>, for Windows only; always NULL */
  unsigned char compression;
  unsigned char rdma; /* nonzero if GPUDirect RDMA can access the memory */
  unsigned short usage;
  unsigned char reserved[4];
} TarnCudaOwnProperties;

typedef struct
{
  TarnCudaOwnLocation location;
  unsigned int flags;
} TarnCudaOwnAccess;

/* The struct types in the arguments of the driver's functions: the structs above, or the structs of
 * <cuda.h> if <cuda.h> is included.  The test t/cuda/headers.t includes <cuda.h>, to compare the
 * functions, and the structs above, with <cuda.h>. */
#ifdef CUDA_VERSION
typedef CUmemAllocationProp TarnCudaProperties;
typedef CUmemAccessDesc TarnCudaAccess;
#else
typedef TarnCudaOwnProperties TarnCudaProperties;
typedef TarnCudaOwnAccess TarnCudaAccess;
#endif

/* Functions that Tarn requires.  If the driver lacks one of them, loading the driver fails. */
#define TARN_CUDA_REQUIRED(X)                                                                      \
  X (cuInit, cuInit, (unsigned int flags))                                                         \
  X (cuDeviceGet, cuDeviceGet, (CUdevice * device, int ordinal))                                   \
  X (cuDeviceGetCount, cuDeviceGetCount, (int *count))                                             \
  X (cuDeviceGetName, cuDeviceGetName, (char *name, int length, CUdevice device))                  \
  X (cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))   \
  X (cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (CUdevice device))                   \
  X (cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState,                                       \
     (CUdevice device, unsigned int *flags, int *active))                                          \
  X (cuCtxCreate, cuCtxCreate_v2, (CUcontext * context, unsigned int flags, CUdevice device))      \
  X (cuCtxDestroy, cuCtxDestroy_v2, (CUcontext context))                                           \
  X (cuCtxGetCurrent, cuCtxGetCurrent, (CUcontext * context))                                      \
  X (cuCtxPushCurrent, cuCtxPushCurrent_v2, (CUcontext context))                                   \
  X (cuCtxPopCurrent, cuCtxPopCurrent_v2, (CUcontext * context))                                   \
  X (cuCtxGetDevice, cuCtxGetDevice, (CUdevice * device))                                          \
  X (cuMemAlloc, cuMemAlloc_v2, (CUdeviceptr * pointer, size_t size))                              \
  X (cuMemFree, cuMemFree_v2, (CUdeviceptr pointer))                                               \
  X (cuMemHostAlloc, cuMemHostAlloc, (void **pointer, size_t size, unsigned int flags))            \
  X (cuMemFreeHost, cuMemFreeHost, (void *pointer))                                                \
  X (cuMemcpyDtoH, cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t size))                     \
  X (cuMemsetD8, cuMemsetD8_v2, (CUdeviceptr to, unsigned char value, size_t n))                   \
  X (cuEventCreate, cuEventCreate, (CUevent * event, unsigned int flags))                          \
  X (cuEventDestroy, cuEventDestroy_v2, (CUevent event))                                           \
  X (cuEventRecord, cuEventRecord, (CUevent event, CUstream stream))                               \
  X (cuEventQuery, cuEventQuery, (CUevent event))                                                  \
  X (cuEventSynchronize, cuEventSynchronize, (CUevent event))                                      \
  X (cuStreamWaitEvent, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags))   \
  X (cuModuleLoadDataEx, cuModuleLoadDataEx,                                                       \
     (CUmodule * module, const void *image, unsigned int n_options, unsigned int *options,         \
      void **values))                                                                              \
  X (cuModuleUnload, cuModuleUnload, (CUmodule module))                                            \
  X (cuModuleGetFunction, cuModuleGetFunction,                                                     \
     (CUfunction * function, CUmodule module, const char *name))

/* Functions that older drivers lack.  If the driver lacks a function, the function's pointer is
 * NULL. */
#define TARN_CUDA_OPTIONAL(X)                                                                      \
  X (cuDriverGetVersion, cuDriverGetVersion, (int *version))                                       \
  X (cuGetErrorName, cuGetErrorName, (unsigned int status, const char **name))                     \
  X (cuDeviceTotalMem, cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device))                     \
  X (cuMemGetInfo, cuMemGetInfo_v2, (size_t * available, size_t * total))                          \
  X (cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, (char *id, int length, CUdevice device))            \
  X (cuDeviceGetUuid, cuDeviceGetUuid_v2, (TarnCudaUuid * uuid, CUdevice device))                  \
  X (cuDeviceGetUuid_v1, cuDeviceGetUuid, (TarnCudaUuid * uuid, CUdevice device))                  \
  X (cuCtxGetId, cuCtxGetId, (CUcontext context, unsigned long long *id))                          \
  X (cuStreamCreate, cuStreamCreate, (CUstream * stream, unsigned int flags))                      \
  X (cuStreamDestroy, cuStreamDestroy_v2, (CUstream stream))                                       \
  X (cuStreamSynchronize, cuStreamSynchronize, (CUstream stream))                                  \
  X (cuStreamGetCtx, cuStreamGetCtx, (CUstream stream, CUcontext * context))                       \
  X (cuStreamIsCapturing, cuStreamIsCapturing, (CUstream stream, unsigned int *capturing))         \
  X (cuStreamGetCaptureInfo, cuStreamGetCaptureInfo,                                               \
     (CUstream stream, unsigned int *capturing, guint64 *id))                                      \
  X (cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, (unsigned int *mode))   \
  X (cuMemAllocManaged, cuMemAllocManaged,                                                         \
     (CUdeviceptr * pointer, size_t size, unsigned int flags))                                     \
  X (cuMemAllocAsync, cuMemAllocAsync, (CUdeviceptr * pointer, size_t size, CUstream stream))      \
  X (cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync,                                             \
     (CUdeviceptr * pointer, size_t size, CUmemoryPool pool, CUstream stream))                     \
  X (cuMemFreeAsync, cuMemFreeAsync, (CUdeviceptr pointer, CUstream stream))                       \
  X (cuMemGetAllocationGranularity, cuMemGetAllocationGranularity,                                 \
     (size_t * bytes, const TarnCudaProperties *properties, unsigned int option))                  \
  X (cuMemAddressReserve, cuMemAddressReserve,                                                     \
     (CUdeviceptr * pointer, size_t size, size_t alignment, CUdeviceptr hint,                      \
      unsigned long long flags))                                                                   \
  X (cuMemAddressFree, cuMemAddressFree, (CUdeviceptr pointer, size_t size))                       \
  X (cuMemCreate, cuMemCreate,                                                                     \
     (unsigned long long *handle, size_t size, const TarnCudaProperties *properties,               \
      unsigned long long flags))                                                                   \
  X (cuMemRelease, cuMemRelease, (unsigned long long handle))                                      \
  X (cuMemMap, cuMemMap,                                                                           \
     (CUdeviceptr pointer, size_t size, size_t offset, unsigned long long handle,                  \
      unsigned long long flags))                                                                   \
  X (cuMemUnmap, cuMemUnmap, (CUdeviceptr pointer, size_t size))                                   \
  X (cuMemSetAccess, cuMemSetAccess,                                                               \
     (CUdeviceptr pointer, size_t size, const TarnCudaAccess *access, size_t n))                   \
  X (cuDeviceCanAccessPeer, cuDeviceCanAccessPeer,                                                 \
     (int *can_access, CUdevice device, CUdevice peer))                                            \
  X (cuDeviceGetAttribute, cuDeviceGetAttribute,                                                   \
     (int *value, unsigned int attribute, CUdevice device))                                        \
  X (cuLaunchKernel, cuLaunchKernel,                                                               \
     (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,          \
      unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, \
      CUstream stream, void **parameters, void **extra))                                           \
  X (cuFuncGetAttribute, cuFuncGetAttribute,                                                       \
     (int *value, unsigned int attribute, CUfunction function))                                    \
  X (cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor,     \
     (int *blocks, CUfunction function, int block_size, size_t dynamic_shared_bytes))              \
  X (cuOccupancyMaxPotentialBlockSize, cuOccupancyMaxPotentialBlockSize,                           \
     (int *min_grid_size, int *block_size, CUfunction function,                                    \
      size_t (*dynamic_shared_bytes_of) (int), size_t dynamic_shared_bytes, int block_size_limit))

typedef struct
{
#define X(name, symbol, arguments) unsigned int (*name) arguments;
  TARN_CUDA_REQUIRED (X)
  TARN_CUDA_OPTIONAL (X)
#undef X
} TarnCudaDriver;

#define TARN_CUDA_SUCCESS 0
#define TARN_CUDA_ERROR_INVALID_VALUE 1
#define TARN_CUDA_ERROR_OUT_OF_MEMORY 2
#define TARN_CUDA_ERROR_NOT_INITIALIZED 3
#define TARN_CUDA_ERROR_DEINITIALIZED 4
#define TARN_CUDA_ERROR_NO_DEVICE 100
#define TARN_CUDA_ERROR_INVALID_CONTEXT 201
#define TARN_CUDA_ERROR_NOT_READY 600
#define TARN_CUDA_ERROR_CONTEXT_IS_DESTROYED 709
#define TARN_CUDA_ERROR_NOT_PERMITTED 800
#define TARN_CUDA_ERROR_NOT_SUPPORTED 801
#define TARN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED 900
#define TARN_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT 906
#define TARN_CUDA_STREAM_CAPTURE_STATUS_ACTIVE 1
#define TARN_CUDA_MEM_ATTACH_GLOBAL 1
#define TARN_CUDA_MEM_ALLOCATION_TYPE_PINNED 1
#define TARN_CUDA_MEM_LOCATION_TYPE_DEVICE 1
#define TARN_CUDA_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR 1
#define TARN_CUDA_MEM_ACCESS_FLAGS_PROT_READWRITE 3
#define TARN_CUDA_MEM_ALLOC_GRANULARITY_MINIMUM 0
#define TARN_CUDA_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED 102
#define TARN_CUDA_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED 103
#define TARN_CUDA_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED 110
#define TARN_CUDA_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED 115
#define TARN_CUDA_STREAM_NON_BLOCKING 1
#define TARN_CUDA_JIT_ERROR_LOG_BUFFER 5
#define TARN_CUDA_JIT_ERROR_LOG_BUFFER_SIZE_BYTES 6

/* Returns the driver.  The first call loads and initializes it.  If that fails, each call returns
 * NULL with the first call's error: TARN_ERROR_NO_DRIVER, TARN_ERROR_NO_DEVICE or TARN_CUDA_ERROR.
 * In a child of fork (), returns NULL with TARN_ERROR_FORKED. */
const TarnCudaDriver *_tarn_cuda_get_driver (GError **error);

/* Returns TRUE if an error of _tarn_cuda_get_driver () means that this machine has no CUDA driver
 * or no CUDA device.  Such a machine is normal, so callers need not report this error. */
gboolean _tarn_cuda_is_absent (const GError *error);

/* These functions set @error for a call of the driver that returned a status other than
 * TARN_CUDA_SUCCESS. */
void _tarn_cuda_set_error (GError **error, const TarnCudaDriver *driver, const gchar *call,
                           unsigned int status);
void _tarn_cuda_set_error_for_size (GError **error, const TarnCudaDriver *driver, const gchar *call,
                                    unsigned int status, gsize size);

void _tarn_cuda_set_error_with_text (GError **error, const TarnCudaDriver *driver,
                                     const gchar *call, unsigned int status, const gchar *text);

/* Returns TRUE if the status of a call is TARN_CUDA_SUCCESS.  Otherwise returns FALSE, and sets the
 * error as _tarn_cuda_set_error () does. */
gboolean _tarn_cuda_check (const TarnCudaDriver *driver, const gchar *call, unsigned int status,
                           GError **error);

#endif
