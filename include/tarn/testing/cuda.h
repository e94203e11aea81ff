/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * The fake CUDA driver: a libcuda.so.1 without a GPU, and how a test controls it.
 *
 * It has devices whose attributes can be set, memory with a budget, virtual memory, memory pools
 * (cuMemAllocAsync), contexts, streams, events, captures and modules. A ledger lists all
 * allocations. A test can make calls fail, or take longer. The fake runs no kernels. A program uses
 * the fake instead of the real driver if LD_LIBRARY_PATH begins with the folder that this command
 * prints:
 *
 *     pkg-config --variable=fakecudadir tarn-testing
 *
 * The fake reads these variables at its first call, and at each reset():
 *
 * - TARN_TESTING_CUDA_DEVICES: the number of devices; the default is 2
 * - TARN_TESTING_CUDA_TOTAL_MEMORY: the bytes of each device, as a decimal number; the default is
 *   an H200's
 * - TARN_TESTING_CUDA_FAIL: NAME:CODE;...: these functions always return these statuses
 * - TARN_TESTING_CUDA_REFUSE_CONTEXTS: N,...: no context can be made on these devices
 *
 * It reuses handles and addresses like the real driver. A new context, stream or event has the
 * handle of the one that was destroyed last. New device memory has the address of the memory of
 * about the same size that was freed last, in any context. A context's memory, streams, events and
 * modules are destroyed with it. Calls return the same statuses as on an H200; calls for memory
 * pools return those that CUDA documents. Mistakes that crashed the H200's driver end the test with
 * a message: a call with a destroyed stream, a command that is still on a stream and uses freed
 * memory, and use of a context that was made current after it was destroyed.
 */

#ifndef TARN_TESTING_CUDA_H
#define TARN_TESTING_CUDA_H

#include <tarn/cuda.h>
#include <tarn/testing.h>

G_BEGIN_DECLS

/**
 * The most devices of the fake driver.
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
  TARN_TESTING_CUDA_CONTEXT = 3,        /**< contexts; and primary contexts that are active */
  TARN_TESTING_CUDA_STREAM = 4,         /**< streams */
  TARN_TESTING_CUDA_EVENT = 5,          /**< events */
  TARN_TESTING_CUDA_MODULE = 6,         /**< modules */
  TARN_TESTING_CUDA_ADDRESSES = 7,      /**< from cuMemAddressReserve() */
  TARN_TESTING_CUDA_BACKING = 8, /**< from cuMemCreate(), until it is released and unmapped */
  TARN_TESTING_CUDA_MAPPING = 9  /**< from cuMemMap() */
} TarnTestingCudaKind;

/**
 * An entry of the ledger, which is one allocation or mapping.
 *
 * @since 0.1
 */
typedef struct
{
  TarnTestingCudaKind kind; /**< its kind */
  CUdevice device;          /**< the device of the memory */
  CUdeviceptr address;      /**< its first address; on the host unless it is device memory */
  gsize size;               /**< bytes, as requested */
  guint64 context_id;       /**< the unique ID of the memory's context; 0 for a mapping */
  guint64 freed_by;         /**< the ID of the context current at the free; 0: not freed */
  gpointer reserved[2];     /**< for later versions */
} TarnTestingCudaMemory;

/**
 * A function that a test wants called before each function of the driver.
 *
 * @param function   the name of the function in cuda.h, such as "cuMemAlloc"
 * @param user_data  the data that set_hook() got
 * @since 0.1
 */
typedef void (*TarnTestingCudaHook) (const gchar *function, gpointer user_data);

/**
 * The functions by which a test controls the fake driver. tarn_testing_cuda_get() returns them. Any
 * thread may call any of these. A mistake of the test, such as an unknown function's name, ends the
 * test. Functions of the driver have the names that cuda.h has, such as "cuMemAlloc".
 *
 * @since 0.1
 */
typedef struct
{
  gsize struct_size; /**< bytes of this struct that the driver fills; later versions have more
                        fields */

  /**
   * Resets all settings and counters to their values at the start, and reads the environment again.
   * Live objects stay: contexts, memory, streams, events, modules. The driver stays initialized.
   */
  void (*reset) (void);

  /** Sets the number of devices, up to #TARN_TESTING_CUDA_MAX_DEVICES. */
  void (*set_device_count) (guint n);
  /** Sets an attribute of a device, a CUdevice_attribute. */
  void (*set_attribute) (CUdevice device, guint attribute, gint value);
  /** Sets the total memory that a device reports, in bytes. */
  void (*set_total_memory) (CUdevice device, guint64 bytes);
  /** Sets whether a device is a part of a GPU (MIG). For a part, cuDeviceGetUuid_v2() returns
   * another UUID than cuDeviceGetUuid(). */
  void (*set_part) (CUdevice device, gboolean is_part);
  /**
   * Sets the budget of a device: the most bytes of its device memory, managed memory and memory of
   * cuMemCreate(), in all contexts. A larger request is out of memory. G_MAXUINT64, the default:
   * all memory of the device.
   */
  void (*set_budget) (CUdevice device, guint64 bytes);
  /** Sets the status of calls that make a context on a device, also its primary one; 0: they
   * succeed. */
  void (*refuse_contexts) (CUdevice device, guint status);

  /**
   * Makes the nth call of a function fail, counted from now: 1 is the next one. The call returns
   * the status, and has no effect. If for_ever is TRUE, all later calls fail, too. If the function
   * is NULL, calls of all functions count. If nth is 0, no call fails. A new call of fail()
   * replaces the earlier one.
   */
  void (*fail) (const gchar *function, guint nth, gboolean for_ever, guint status);
  /** Gets the first function that failed because of the latest fail(); NULL if none did. */
  const gchar *(*get_failed) (void);
  /** Counts the calls of a function since reset(), also failed ones; NULL: of all functions. */
  guint (*get_calls) (const gchar *function);
  /** Counts the driver calls of all related processes that were forked after cuInit(). */
  guint (*get_calls_after_fork) (void);
  /** Makes each call of a function sleep first; NULL: each call of any function. */
  void (*set_latency) (const gchar *function, guint microseconds);
  /** Sets a hook that each call runs first, in the same thread. Calls that the hook itself makes
   * run no hook. */
  void (*set_hook) (TarnTestingCudaHook hook, gpointer user_data);

  /** Counts the live objects of a kind. */
  guint (*get_live) (TarnTestingCudaKind kind);
  /** Gets the requested bytes of all live objects of a kind; 0 for kinds without a size. */
  guint64 (*get_live_bytes) (TarnTestingCudaKind kind);
  /** Finds the live memory that contains an address; FALSE: there is none. */
  gboolean (*find_memory) (CUdeviceptr address, TarnTestingCudaMemory *memory);
  /**
   * Counts the memory that was freed since reset() while another context than its own was current.
   * The driver allows this. The first n of these entries are written to an array.
   */
  guint (*get_strangers_freed) (TarnTestingCudaMemory *memory, guint n);

  /**
   * Puts work on a stream. The work, and all later commands of the stream, wait until finish_work()
   * ends it. cuMemFree() and cuMemFreeHost() free memory at once, and then wait for the work. (A
   * real driver waits first.)
   */
  void (*put_work) (CUstream stream);
  /** Ends the first command on a stream, which must be work of put_work(). */
  void (*finish_work) (CUstream stream);
  /** Ends the work on all streams, also on destroyed ones. */
  void (*finish_all_work) (void);
  /** Tells whether all commands on a stream are done. This does not count as a call. */
  gboolean (*is_idle) (CUstream stream);

  /** Gets the name of a function; NULL: there is no such function, or its module is unloaded. */
  const gchar *(*find_kernel) (CUfunction function);
  /** Counts the contexts on this thread's stack. */
  guint (*get_context_stack_depth) (void);
  /** Counts the references to a device's primary context. */
  guint (*get_primary_references) (CUdevice device);

  /** Describes all live objects: the address and size of each allocation, up to ten, and the number
   * of other objects. Returns a text for g_free (), or NULL if there are none. */
  gchar *(*describe_live) (void);
} TarnTestingCuda;

/**
 * Gets the functions that control the fake CUDA driver. They exist if libcuda.so.1, as the program
 * finds it, is the fake driver.
 *
 * @return (transfer none) (nullable) the functions, valid until the process ends; NULL if the
 *         driver is a real one, or there is none; any thread may call it
 * @since 0.1
 */
const TarnTestingCuda *tarn_testing_cuda_get (void);

/**
 * Ends the test if any object of the fake CUDA driver is alive. The message lists memory, modules,
 * events, streams and contexts. Memory that a pool holds is alive, so release the pool first. With
 * a real driver, or without one, the function does nothing. Any thread may call it.
 *
 * @since 0.1
 */
void tarn_testing_cuda_assert_no_leaks (void);

G_END_DECLS

#endif
