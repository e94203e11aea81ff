/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * The fake CUDA driver: a libcuda.so.1 without a GPU, and how a test controls it.
 *
 * It has devices whose attributes can be set, memory with a budget and a ledger, virtual memory,
 * memory pools (cuMemAllocAsync), contexts, streams, events, captures and modules. A test can make
 * calls fail, or take longer. The fake runs no kernels. A program uses it instead of the driver if
 * LD_LIBRARY_PATH begins with the folder that `pkg-config --variable=fakecudadir tarn-testing`
 * prints. The first call reads these variables:
 *
 * - TARN_TESTING_CUDA_DEVICES: how many devices there are; 2
 * - TARN_TESTING_CUDA_TOTAL_MEMORY: the bytes of each device, as digits only; an H200's
 * - TARN_TESTING_CUDA_FAIL: NAME:CODE;...: these functions always return these statuses
 * - TARN_TESTING_CUDA_REFUSE_CONTEXTS: N,...: no context can be made on these devices
 *
 * It reuses handles and addresses like the real driver. A new context, stream or event has the
 * handle of the one that was destroyed last. New memory has the address of the memory that was
 * freed last, in any context. A context's memory, streams, events and modules are destroyed with
 * it. Calls return what an H200 returned, and those of memory pools what CUDA documents. Calls that
 * crashed the H200's driver end the test with a message: a call with a destroyed stream, a command
 * that is still on a stream and uses freed memory, and use of a context that was made current after
 * it was destroyed.
 */

#ifndef TARN_TESTING_CUDA_H
#define TARN_TESTING_CUDA_H

#include <tarn/cuda.h>
#include <tarn/testing.h>

G_BEGIN_DECLS

/**
 * The most devices that there may be.
 *
 * @since 0.1
 */
#define TARN_TESTING_CUDA_MAX_DEVICES 16

/**
 * A kind of object that a program gets from the driver.
 *
 * @since 0.1
 */
typedef enum
{
  TARN_TESTING_CUDA_DEVICE_MEMORY = 0,  /**< from cuMemAlloc(), and from cuMemAllocAsync() until a
                                           stream frees it */
  TARN_TESTING_CUDA_HOST_MEMORY = 1,    /**< from cuMemHostAlloc() */
  TARN_TESTING_CUDA_MANAGED_MEMORY = 2, /**< from cuMemAllocManaged() */
  TARN_TESTING_CUDA_CONTEXT = 3,        /**< contexts, and primary ones that are active */
  TARN_TESTING_CUDA_STREAM = 4,         /**< streams */
  TARN_TESTING_CUDA_EVENT = 5,          /**< events */
  TARN_TESTING_CUDA_MODULE = 6,         /**< modules */
  TARN_TESTING_CUDA_ADDRESSES = 7,      /**< from cuMemAddressReserve() */
  TARN_TESTING_CUDA_BACKING = 8, /**< from cuMemCreate(), until it is released and not mapped */
  TARN_TESTING_CUDA_MAPPING = 9  /**< from cuMemMap() */
} TarnTestingCudaKind;

/**
 * An entry of the ledger: one allocation of memory.
 *
 * @since 0.1
 */
typedef struct
{
  TarnTestingCudaKind kind; /**< its kind */
  CUdevice device;          /**< the device that it is on */
  CUdeviceptr address;      /**< its first byte's; the host's for host memory and mappings */
  gsize size;               /**< bytes, as asked for */
  guint64 context_id;       /**< that it was allocated in, never used twice; 0: a mapping's */
  guint64 freed_by;         /**< the one that was current at its free; 0: it is alive */
  gpointer reserved[2];     /**< for later */
} TarnTestingCudaMemory;

/**
 * A function that is called before each function of the driver.
 *
 * @param function   the name, as a user of cuda.h writes it: "cuMemAlloc"
 * @param user_data  as given with it
 * @since 0.1
 */
typedef void (*TarnTestingCudaHook) (const gchar *function, gpointer user_data);

/**
 * Functions by which a test controls the fake driver: tarn_testing_cuda_get(). Any thread may call
 * any of these. A mistake of the test, such as an unknown name of a function, ends it. Names are
 * those that a user of cuda.h writes.
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< bytes of it that the driver fills in; a later driver has more fields */

  /**
   * Resets all of this to how it is at the start, as the environment has it. Objects that are alive
   * stay: contexts, memory, streams, events, modules. The driver stays initialized.
   */
  void (*reset) (void);

  /** Sets how many devices there are, up to #TARN_TESTING_CUDA_MAX_DEVICES. */
  void (*set_device_count) (guint n);
  /** Sets an attribute of a device, a CUdevice_attribute. */
  void (*set_attribute) (CUdevice device, guint attribute, gint value);
  /** Sets the bytes that a device says it has. */
  void (*set_total_memory) (CUdevice device, guint64 bytes);
  /** Sets whether a device is a part of a GPU, with a UUID that cuDeviceGetUuid() does not say. */
  void (*set_part) (CUdevice device, gboolean is_part);
  /**
   * Sets the bytes of all device, managed and created memory of a device, whatever its context:
   * what would exceed them is out of memory. G_MAXUINT64, as at the start: all that the device has.
   */
  void (*set_budget) (CUdevice device, guint64 bytes);
  /** Sets what making a context on a device returns, also its primary one; 0: a context. */
  void (*refuse_contexts) (CUdevice device, guint status);

  /**
   * Has the nth call of a function from now on fail with a status, and have no effect; 1 is the
   * next one; if for_ever, so do all that follow. NULL: of all functions together. 0: none fails.
   * It takes the place of what was asked for before.
   */
  void (*fail) (const gchar *function, guint nth, gboolean for_ever, guint status);
  /** Gets the function that the latest fail() struck first; NULL: it has not come to that. */
  const gchar *(*get_failed) (void);
  /** Counts the calls of a function since reset(), failing ones included; NULL: of all. */
  guint (*get_calls) (const gchar *function);
  /** Counts the calls in children of fork(), by this process and every relative. */
  guint (*get_calls_after_fork) (void);
  /** Has each call of a function sleep first; NULL: of each function. */
  void (*set_latency) (const gchar *function, guint microseconds);
  /** Sets what each call calls first, in the same thread, but not those that it makes itself. */
  void (*set_hook) (TarnTestingCudaHook hook, gpointer user_data);

  /** Counts what is alive. */
  guint (*get_live) (TarnTestingCudaKind kind);
  /** Gets the bytes of live objects, as asked for; 0 except for memory and addresses. */
  guint64 (*get_live_bytes) (TarnTestingCudaKind kind);
  /** Finds the live memory that an address lies in; FALSE: none. */
  gboolean (*find_memory) (CUdeviceptr address, TarnTestingCudaMemory *memory);
  /**
   * Counts the memory that was freed since reset() while another context was current than it was
   * allocated in, which the driver lets pass; the first n are written to an array.
   */
  guint (*get_strangers_freed) (TarnTestingCudaMemory *memory, guint n);

  /**
   * Puts something on a stream that is not done: it, and all that comes after it, waits until
   * finish_work() ends it. A free of memory waits for nothing, unlike a driver's.
   */
  void (*put_work) (CUstream stream);
  /** Ends the first of what put_work() put on a stream. */
  void (*finish_work) (CUstream stream);
  /** Ends what is on all streams, also destroyed ones. */
  void (*finish_all_work) (void);
  /** Tells whether all that was put on a stream is done; that counts as no call. */
  gboolean (*is_idle) (CUstream stream);

  /** Finds the name of a module's function; NULL: there is none, or its module is gone. */
  const gchar *(*find_kernel) (CUfunction function);
  /** Counts the contexts on this thread's stack. */
  guint (*get_context_stack_depth) (void);
  /** Counts the references on a device's primary context. */
  guint (*get_primary_references) (CUdevice device);

  /** Describes what is alive, for g_free (): what, how many, and memory's places; NULL: nothing. */
  gchar *(*describe_live) (void);
} TarnTestingCuda;

/**
 * Gets the control of the fake CUDA driver. There is one if that is the driver which the program
 * finds.
 *
 * @return (transfer none) (nullable) what it does for a test, for as long as the process runs;
 *         NULL: the driver is a real one, or there is none; any thread may call it
 * @since 0.1
 */
const TarnTestingCuda *tarn_testing_cuda_get (void);

/**
 * Ends the test if anything of the fake CUDA driver's is alive. A message names memory, sizes,
 * contexts, streams, events and modules. What a pool holds is alive; it goes first. On another
 * driver, and without one, it does nothing. Any thread may call it.
 *
 * @since 0.1
 */
void tarn_testing_cuda_assert_no_leaks (void);

G_END_DECLS

#endif
