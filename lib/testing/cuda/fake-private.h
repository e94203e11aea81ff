/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Types and functions that the files of the fake driver share.
 *
 *     fake-cuda.c  control by the test: settings, counts of calls, failures
 *     settings.c   default settings
 *     errors.c     names of statuses
 *     devices.c    devices and their attributes
 *     contexts.c   contexts, and each thread's stack of contexts
 *     ledger.c     allocations of memory, and their contents
 *     memory.c     the driver's functions for memory
 *     pools.c      CUDA's memory pools: stream-ordered allocations and frees
 *     virtual.c    virtual memory: addresses, backings, mappings
 *     streams.c    streams, and the commands on them
 *     commands.c   commands that access memory or call functions of the host
 *     captures.c   captures of streams, and graphs
 *     events.c     events
 *     modules.c    modules and their functions
 *     handles.c    handles of contexts, streams, events, modules, functions
 *
 * One lock guards everything.  A function of the driver calls fake_enter () first, without the
 * lock, and then holds the lock until it returns. */

#ifndef TARN_FAKE_PRIVATE_H
#define TARN_FAKE_PRIVATE_H

#include "common/lock-private.h"
#include "testing/cuda/fake-cuda.h"

typedef guint Status; /* a CUresult, which is an enum in <cuda.h> */

#define FAKE_INDEX(name, symbol, arguments) FUNCTION_##name,

typedef enum
{
  /* N_FUNCTIONS is the number of functions.  As a setting, it stands for any function. */
  FAKE_CUDA_FUNCTIONS (FAKE_INDEX) N_FUNCTIONS
} Function;

/* Functions that take the lock and begin calls of the driver */

TarnMutex *fake_get_mutex (void);
TarnMutex *fake_lock (void);
void fake_unlock (TarnMutex **locked);

/* LOCKED takes the lock, and releases it at the end of the enclosing block. */
#define LOCKED __attribute__ ((cleanup (fake_unlock), unused)) TarnMutex *locked = fake_lock ()

/* Counts a call of a function of the driver.  Returns the status with which the test wants the call
 * to fail, or 0 if the test wants no failure.  The caller does not hold the lock. */
Status fake_enter (Function function);

/* Counts the call of the enclosing function of the driver.  If the test wants the call to fail, the
 * enclosing function returns the status with which the call has to fail. */
#define ENTER(function)                                                                            \
  G_STMT_START                                                                                     \
  {                                                                                                \
    Status entered = fake_enter (FUNCTION_##function);                                             \
                                                                                                   \
    if (entered != FAKE_CUDA_SUCCESS)                                                              \
      return entered;                                                                              \
  }                                                                                                \
  G_STMT_END

/* Returns @status from the enclosing function if @condition is FALSE. */
#define REQUIRE(condition, status)                                                                 \
  G_STMT_START                                                                                     \
  {                                                                                                \
    if (!(condition))                                                                              \
      return (status);                                                                             \
  }                                                                                                \
  G_STMT_END

/* The settings of a device. */
typedef struct
{
  guint64 total_memory;
  guint64 budget;
  Status refusal;   /* the status with which making a context fails; 0 if it does not fail */
  gboolean is_part; /* TRUE if the device is a part of a GPU (MIG), with its own UUID */
  /* maps an attribute's number to the value that the test has set, both as integers; owned; NULL if
   * the test has set no attribute */
  GHashTable *attributes;
} DeviceSettings;

typedef struct
{
  guint n_devices;
  DeviceSettings devices[TARN_TESTING_CUDA_MAX_DEVICES];
  Function fail_function;
  /* the number of the call of fail_function that has to fail, counted from now: 1 is the next call;
   * 0 if no call has to fail */
  guint fail_in;
  gboolean fail_for_ever;
  Status fail_status;
  const gchar *failed;
  /* for each function, the status with which all calls of the function fail
   * (TARN_TESTING_CUDA_FAIL); 0 if they do not fail */
  Status always[N_FUNCTIONS];
  guint latency[N_FUNCTIONS]; /* the microseconds that each call of a function takes */
  guint calls[N_FUNCTIONS];
  TarnTestingCudaHook hook; /* a function that each driver call calls first; NULL if none */
  gpointer hook_data;
} Settings;

/* Sets the default settings, which TarnTestingCuda.reset () restores, too. */
void fake_settings_init (Settings *settings);
Function fake_find_function (const gchar *name); /* ends the test if the name is unknown */
const gchar *fake_get_function_name (Function function);

/* Functions for devices and their settings.  The caller of each of these functions holds the
 * lock. */
guint fake_count_devices (void);
DeviceSettings *fake_get_settings (CUdevice device);
void fake_device_settings_init (DeviceSettings *settings);
gboolean fake_is_device (CUdevice device);
gboolean fake_get_attribute (gint *value, guint attribute,
                             CUdevice device); /* returns FALSE if there is no such attribute */
/* Returns TRUE if @device can access the memory of @peer, also if both are one device. */
gboolean fake_can_access (CUdevice device, CUdevice peer);

/* The first number in the nth range of numbers for handles.  In a 64-bit process, these ranges are
 * above all addresses that a process has on today's machines.  A 32-bit process has no such
 * numbers, so there a handle may also be an address. */
#if GLIB_SIZEOF_VOID_P == 8
#define FAKE_HANDLES(n) (((guintptr) 1 << 52) * (n))
#else
#define FAKE_HANDLES(n) ((guintptr) 0xc0000000 + ((guintptr) (n) << 24))
#endif

/* A table of handles, such as those of streams.  Handles are numbers that are not addresses of the
 * host.  A new object gets the handle that was freed last. */
typedef struct
{
  guintptr base;
  /* the object of each handle, by the handle's index; not owned; NULL if the handle is free */
  GPtrArray *objects;
  GArray *vacant; /* the indices (guint) of the free handles, last in, first out */
} HandleTable;

gpointer fake_handle_new (HandleTable *table, gpointer object);
void fake_handle_free (HandleTable *table, gpointer handle);
/* Returns the object of a handle, or NULL if no object has this handle now. */
gpointer fake_handle_get (const HandleTable *table, gpointer handle);
/* Returns TRUE if the table has or had an object with this handle. */
gboolean fake_handle_was (const HandleTable *table, gpointer handle);

/* Functions for contexts.  The caller of each of these functions holds the lock. */
typedef struct
{
  CUcontext handle;
  guint64 id;
  CUdevice device;
  guint flags;
  /* TRUE if this is a device's primary context; then the struct is never freed, and gets a
   * new id each time the context is activated */
  gboolean is_primary;
  /* TRUE if the context was destroyed; the struct stays while the context is primary, or in a
   * thread's stack of contexts */
  gboolean is_destroyed;
  /* The number of entries for this context in all threads' stacks.  Does not count entries that
   * were pushed with the same handle before this context was made (Entry.is_dangling). */
  guint n_stacked;
} Context;

/* Finds the calling thread's current context.  Returns an error status if there is none. */
Status fake_get_context (Context **context);
Status fake_find_handle (CUcontext handle, Context **context);
Context *fake_find_context (guint64 id); /* returns NULL if no context has this id */
guint fake_count_contexts (void);
guint fake_get_primary_references (CUdevice device);
guint fake_get_stack_depth (void);

/* Functions for memory.  The caller of each of these functions holds the lock. */
void fake_free_memory_of (guint64 context_id);
guint fake_count_memory (TarnTestingCudaKind kind, guint64 *bytes);
gboolean fake_find_memory (CUdeviceptr address, TarnTestingCudaMemory *memory);
guint64 fake_count_available (CUdevice device);
Status fake_allocate (TarnTestingCudaKind kind, gsize size, CUdeviceptr *address);
Status fake_release (CUdeviceptr address, gboolean is_host);
Status fake_reach (CUdeviceptr address, gsize size, guint8 **bytes);
gboolean fake_find_bytes (CUdeviceptr address, gsize size, CUdevice device, guint8 **bytes);
guint fake_get_strangers (TarnTestingCudaMemory *memory, guint n);
void fake_forget_strangers (void);
/* Describes the allocations in use: lists at most ten of them, and states the number of the
 * others. */
void fake_describe_memory (GString *text);

/* Functions for virtual memory, which CUDA has since version 10.2.  The caller of each of these
 * functions holds the lock. */
#if FAKE_CUDA_VERSION >= 10020
guint fake_count_virtual (TarnTestingCudaKind kind, guint64 *bytes);
/* Returns the total size of a device's backings, in bytes. */
guint64 fake_count_backed (CUdevice device);
gboolean fake_find_mapping (CUdeviceptr address, TarnTestingCudaMemory *memory);
gboolean fake_find_mapped_bytes (CUdeviceptr address, gsize size, CUdevice device, guint8 **bytes);
#else
static inline guint
fake_count_virtual (TarnTestingCudaKind kind, guint64 *bytes)
{
  (void) kind;
  *bytes = 0;
  return 0;
}

static inline guint64
fake_count_backed (CUdevice device)
{
  (void) device;
  return 0;
}

static inline gboolean
fake_find_mapping (CUdeviceptr address, TarnTestingCudaMemory *memory)
{
  (void) address;
  (void) memory;
  return FALSE;
}

static inline gboolean
fake_find_mapped_bytes (CUdeviceptr address, gsize size, CUdevice device, guint8 **bytes)
{
  (void) address;
  (void) size;
  (void) device;
  (void) bytes;
  return FALSE;
}
#endif

/* Functions for streams, events and captures.  The caller of each of these functions holds the
 * lock. */

/* A point in the order of a stream's commands.  The stream reaches the point when all earlier
 * commands are done.  An event stands for a point, and a stream or the host waits until a point is
 * reached. */
typedef struct
{
  guint references;
  gboolean is_reached;
  /* TRUE if the stream will never reach the point, because the stream's context was destroyed; then
   * is_reached is TRUE, too, so that nobody waits */
  gboolean is_dropped;
} Mark;

typedef struct
{
  /* the stream's handle; NULL for a default stream, and for a destroyed stream with commands */
  CUstream handle;
  gboolean is_default;
  /* TRUE if cuStreamCreate () made this stream without CU_STREAM_NON_BLOCKING: the legacy default
   * stream and this stream wait for each other.  FALSE for default streams. */
  gboolean is_blocking;
  /* the number of the only thread that can name this stream (a per-thread default stream); 0 if any
   * thread can */
  guint thread;
  guint64 context_id;
  GQueue commands; /* a queue of Command (streams.c), owned */
} Stream;

typedef struct _Capture Capture;

/* Functions that allocate and free memory in the order of a stream.  The caller of each of these
 * functions holds the lock. */

/* Allocates memory of a pool.  The memory is ready when the stream reaches the allocation.  @pool:
 * the pool's number, not 0. */
Status fake_allocate_ordered (guint pool, CUdevice device, gsize size, Stream *stream,
                              CUdeviceptr *address);
Status fake_release_ordered (CUdeviceptr address, Stream *stream);
/* Returns the number of bytes that a pool has allocated, including memory whose free is pending. */
guint64 fake_count_pool (guint pool);

/* Returns the unique number of the allocation that has the memory at an address, or 0 if the memory
 * is not a pool's.  Ends the test if the program has already put a free of the memory on a stream.
 * @function: the caller's name, for the message that ends the test. */
guint64 fake_get_allocation (const gchar *function, CUdeviceptr address);
/* Ends the test if a command accesses memory before the stream that allocates the memory has
 * reached the allocation.  @allocation: the number of the allocation that had the memory when the
 * command was put on its stream. */
void fake_check_ready (const gchar *function, CUdeviceptr address, guint64 allocation);

Mark *fake_mark_ref (Mark *mark);
void fake_mark_unref (Mark *mark); /* @mark may be NULL */
void fake_mark_wait (Mark *mark);  /* releases the lock during the wait */
Mark *fake_mark_new (void);        /* returns a reference, which the caller owns */
void fake_mark_reach (Mark *mark);

Status fake_find_stream (const gchar *function, CUstream handle, Stream **stream);
Mark *fake_stream_record (Stream *stream); /* returns a reference, which the caller owns */
/* makes @legacy wait for the blocking and default streams of its context */
void fake_wait_for_blocking (Stream *legacy);
/* makes the blocking and default streams of @legacy's context wait for @mark */
void fake_let_blocking_wait (const Stream *legacy, Mark *mark);
void fake_stream_wait (Stream *stream, Mark *mark);
/* Puts a command on a stream.  When the stream reaches the command, it calls @function with @data,
 * and then frees @data. */
void fake_stream_do (Stream *stream, void (*function) (gpointer), gpointer data);
/* Returns a point that is reached when all present commands of a context's streams are done.  The
 * caller owns the reference. */
Mark *fake_context_record (guint64 context_id);
void fake_free_streams_of (guint64 context_id);
void fake_wait_for_context (guint64 context_id);
guint fake_count_streams (void);
void fake_put_work (CUstream handle);
void fake_finish_work (CUstream handle);
void fake_finish_all_work (void);
gboolean fake_is_idle (CUstream handle);

void fake_free_events_of (guint64 context_id);
void fake_forget_captured_events (const Capture *capture);
guint fake_count_events (void);

Capture *fake_get_capture (const Stream *stream); /* returns NULL if the stream is in no capture */
void fake_join_capture (Stream *stream, Capture *capture);
void fake_leave_capture (Stream *stream);
void fake_invalidate_capture (Capture *capture);
/* Adds a command to the graph of a capture.  Each launch of the graph runs the command with a copy
 * of @data, and frees the copy. */
void fake_capture_do (Capture *capture, void (*function) (gpointer), gconstpointer data,
                      gsize size);
Status fake_end_captures (void);
Status fake_end_captures_of (guint64 context_id); /* invalidates captures of any mode */
Status fake_end_blocking_captures_of (guint64 context_id);
/* Calls fake_end_blocking_captures_of () if @stream is the legacy stream. */
Status fake_check_legacy (const Stream *stream);
gboolean fake_is_legacy (const Stream *stream);
gboolean fake_is_legacy_captured (const Stream *stream);

/* Functions that free and count modules, and find kernels.  The caller of each of these functions
 * holds the lock. */
void fake_free_modules_of (guint64 context_id);
guint fake_count_modules (void);
const gchar *fake_find_kernel (CUfunction handle); /* returns NULL if no function has the handle */

#endif
