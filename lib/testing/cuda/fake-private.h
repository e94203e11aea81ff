/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Types and functions that the parts of the fake driver share.
 *
 *     fake-cuda.c  control: settings, calls, failures
 *     settings.c   as they are at the start
 *     errors.c     names of statuses
 *     devices.c    devices and their attributes
 *     contexts.c   contexts, each thread's stack of them
 *     ledger.c     memory, and what lies in it; memory.c
 *     pools.c      CUDA's memory pools; what is allocated and freed in the order of streams
 *     virtual.c    virtual memory: addresses, backings, mappings
 *     streams.c    streams, and work on them; commands.c; captures.c; events.c
 *     modules.c    modules, and their functions
 *     handles.c    handles for a context, a stream, an event, a module, a function
 *
 * All is under one lock.  A driver's function calls fake_enter () first, without it, then takes it
 * until its end.  Functions that are called with the lock held say so. */

#ifndef TARN_FAKE_PRIVATE_H
#define TARN_FAKE_PRIVATE_H

#include "common/lock-private.h"
#include "testing/cuda/fake-cuda.h"

typedef guint Status; /* a CUresult */

#define FAKE_INDEX(name, symbol, arguments) FUNCTION_##name,

typedef enum
{
  FAKE_CUDA_FUNCTIONS (FAKE_INDEX) N_FUNCTIONS /* also: any of them */
} Function;

/* Control */

TarnMutex *fake_get_mutex (void);
TarnMutex *fake_lock (void);
void fake_unlock (TarnMutex **locked);

/* LOCKED holds the lock until the end of the enclosing block. */
#define LOCKED __attribute__ ((cleanup (fake_unlock), unused)) TarnMutex *locked = fake_lock ()

/* Counts a call.  Returns the status with which it is to fail at once, or 0. */
Status fake_enter (Function function);

/* Counts a call of a driver's function, and returns from it if it is to fail. */
#define ENTER(function)                                                                            \
  G_STMT_START                                                                                     \
  {                                                                                                \
    Status entered = fake_enter (FUNCTION_##function);                                             \
                                                                                                   \
    if (entered != FAKE_CUDA_SUCCESS)                                                              \
      return entered;                                                                              \
  }                                                                                                \
  G_STMT_END

/* Returns @status if @condition does not hold. */
#define REQUIRE(condition, status)                                                                 \
  G_STMT_START                                                                                     \
  {                                                                                                \
    if (!(condition))                                                                              \
      return (status);                                                                             \
  }                                                                                                \
  G_STMT_END

/* Devices: settings. */
typedef struct
{
  guint64 total_memory;
  guint64 budget;
  Status refusal;         /* for new contexts; 0: none */
  gboolean is_part;       /* a part of a GPU, with its own UUID */
  GHashTable *attributes; /* number -> value that was set, as integers; owned, nullable */
} DeviceSettings;

typedef struct
{
  guint n_devices;
  DeviceSettings devices[TARN_TESTING_CUDA_MAX_DEVICES];
  Function fail_function;
  guint fail_in; /* the call to fail, 1 being the next one; 0: none */
  gboolean fail_for_ever;
  Status fail_status;
  const gchar *failed;
  Status always[N_FUNCTIONS]; /* TARN_TESTING_CUDA_FAIL; 0: it does not fail */
  guint latency[N_FUNCTIONS]; /* microseconds */
  guint calls[N_FUNCTIONS];
  TarnTestingCudaHook hook; /* NULL: none */
  gpointer hook_data;
} Settings;

/* The settings that reset () restores. */
void fake_settings_init (Settings *settings);
Function fake_find_function (const gchar *name); /* ends the test if there is none */
const gchar *fake_get_function_name (Function function);

guint fake_count_devices (void);                           /* locked */
DeviceSettings *fake_get_settings (CUdevice device);       /* locked */
void fake_device_settings_init (DeviceSettings *settings); /* locked */
gboolean fake_is_device (CUdevice device);                 /* locked */
gboolean fake_get_attribute (gint *value, guint attribute,
                             CUdevice device);             /* locked; FALSE if there is none */
gboolean fake_can_access (CUdevice device, CUdevice peer); /* locked; TRUE also for itself */

/* The nth range of numbers above all addresses of a process on today's machines.  A 32-bit process
 * has no such place. */
#if GLIB_SIZEOF_VOID_P == 8
#define FAKE_HANDLES(n) (((guintptr) 1 << 52) * (n))
#else
#define FAKE_HANDLES(n) ((guintptr) 0xc0000000 + ((guintptr) (n) << 24))
#endif

/* A table of handles, which are no addresses.  The handle freed last is the next to be used. */
typedef struct
{
  guintptr base;
  GPtrArray *objects; /* not owned; NULL where a handle is vacant */
  GArray *vacant;     /* guints: indices into objects, last in, first out */
} HandleTable;

gpointer fake_handle_new (HandleTable *table, gpointer object);
void fake_handle_free (HandleTable *table, gpointer handle);
gpointer fake_handle_get (const HandleTable *table, gpointer handle); /* nullable */
gboolean fake_handle_was (const HandleTable *table, gpointer handle); /* ever given out */

/* Contexts.  The lock is held in all functions. */
typedef struct
{
  CUcontext handle;
  guint64 id;
  CUdevice device;
  guint flags;
  gboolean is_primary; /* it is never freed, and gets another id when it is activated again */
  gboolean
      is_destroyed; /* it is kept because a thread's stack holds it, or because it is primary */
  guint n_stacked;  /* the number of times that it is on stacks, pushed while it was alive */
} Context;

/* Finds this thread's current context, or returns a status that is not 0. */
Status fake_get_context (Context **context);
Status fake_find_handle (CUcontext handle, Context **context);
Context *fake_find_context (guint64 id); /* NULL if it is gone */
guint fake_count_contexts (void);
guint fake_get_primary_references (CUdevice device);
guint fake_get_stack_depth (void);

/* Memory.  The lock is held in all functions. */
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
void
fake_describe_memory (GString *text); /* names up to ten that are alive, and the number of others */

/* Virtual memory.  The lock is held in all functions.  Before CUDA 10.2 there is none. */
#if FAKE_CUDA_VERSION >= 10020
guint fake_count_virtual (TarnTestingCudaKind kind, guint64 *bytes);
guint64 fake_count_backed (CUdevice device); /* bytes */
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

/* Streams, events and captures.  The lock is held in all functions. */

/* A mark: a point in a stream, for which events and waits stand. */
typedef struct
{
  guint references;
  gboolean is_reached;
  gboolean is_dropped; /* its stream is gone with its context before that; counts as reached */
} Mark;

typedef struct
{
  CUstream handle; /* NULL: a default stream, or destroyed with commands left */
  gboolean is_default;
  gboolean is_blocking; /* the legacy stream would wait for it, and it for that one */
  guint thread; /* the number of the only one that can name it; 0: all, if it is a default stream */
  guint64 context_id;
  GQueue commands; /* Commands of streams.c, owned */
} Stream;

typedef struct _Capture Capture;

/* Memory in the order of streams.  The lock is held in all functions. */

/* Allocates for a pool, whose number is not 0.  The memory is ready when the stream comes to it. */
Status fake_allocate_ordered (guint pool, CUdevice device, gsize size, Stream *stream,
                              CUdeviceptr *address);
Status fake_release_ordered (CUdeviceptr address, Stream *stream);
guint64 fake_count_pool (guint pool); /* bytes, also of memory that is still to be freed */

/* Returns the number of the allocation at an address, which is unique; 0: it is not of a pool.
 * Ends the test for memory that a stream has freed, or is to free. */
guint64 fake_get_allocation (const gchar *function, CUdeviceptr address);
/* Ends the test if a command comes before the memory that it was put there for is ready. */
void fake_check_ready (const gchar *function, CUdeviceptr address, guint64 allocation);

Mark *fake_mark_ref (Mark *mark);
void fake_mark_unref (Mark *mark); /* NULL is allowed */
void fake_mark_wait (Mark *mark);  /* releases the lock meanwhile */
Mark *fake_mark_new (void);        /* the caller's */
void fake_mark_reach (Mark *mark);

Status fake_find_stream (const gchar *function, CUstream handle, Stream **stream);
Mark *fake_stream_record (Stream *stream);    /* the caller's */
void fake_wait_for_blocking (Stream *legacy); /* it waits for all blocking streams of its context */
void fake_stream_wait (Stream *stream, Mark *mark);
void fake_stream_do (Stream *stream, void (*function) (gpointer), gpointer data); /* frees data */
Mark *fake_context_record (guint64 context_id); /* the caller's; all of its streams */
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

Capture *fake_get_capture (const Stream *stream); /* nullable */
void fake_join_capture (Stream *stream, Capture *capture);
void fake_leave_capture (Stream *stream);
void fake_invalidate_capture (Capture *capture);
/* Adds a command to a graph, whose launches free copies of its data. */
void fake_capture_do (Capture *capture, void (*function) (gpointer), gconstpointer data,
                      gsize size);
Status fake_end_captures (void);
Status fake_end_captures_of (guint64 context_id); /* in whatever mode */
Status fake_end_blocking_captures_of (guint64 context_id);
Status fake_check_legacy (const Stream *stream); /* any stream; as the function before */
gboolean fake_is_legacy (const Stream *stream);
gboolean fake_is_legacy_captured (const Stream *stream);

/* Modules.  The lock is held in all functions. */
void fake_free_modules_of (guint64 context_id);
guint fake_count_modules (void);
const gchar *fake_find_kernel (CUfunction handle); /* nullable */

#endif
