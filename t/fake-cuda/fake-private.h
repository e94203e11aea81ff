/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What the parts of the fake driver share.
 *
 *     fake-cuda.c  control: settings, calls, failures
 *     errors.c     names of statuses
 *     devices.c    what devices are
 *     contexts.c   contexts, each thread's stack of them
 *     memory.c     the ledger of memory, and what lies in it
 *
 * All is under one lock.  A driver's function calls fake_enter () first, without it, then takes it
 * until its end.  Functions that are called with the lock held say so. */

#ifndef TARN_FAKE_PRIVATE_H
#define TARN_FAKE_PRIVATE_H

#include "fake-cuda.h"
#include "lock-private.h"

typedef guint Status; /* a CUresult */

#define FAKE_INDEX(name, symbol, arguments) FUNCTION_##name,

typedef enum
{
  FAKE_CUDA_FUNCTIONS (FAKE_INDEX) N_FUNCTIONS /* also: any of them */
} Function;

/* Control */

TarnMutex *fake_lock (void);
void fake_unlock (TarnMutex **locked);

/* Until the end of the block that it stands in. */
#define LOCKED __attribute__ ((cleanup (fake_unlock), unused)) TarnMutex *locked = fake_lock ()

/* Counts a call; what it is to return before it does anything. */
Status fake_enter (Function function);

/* Returns from a driver's function with what it is to return before it does anything. */
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
  Status refusal;         /* of contexts; 0: none */
  GHashTable *attributes; /* number -> value, as integers: what was set; owned, nullable */
} DeviceSettings;

guint fake_count_devices (void);                           /* locked */
DeviceSettings *fake_get_settings (CUdevice device);       /* locked */
void fake_device_settings_init (DeviceSettings *settings); /* locked */
gboolean fake_is_device (CUdevice device);                 /* locked */

/* Handles, which are no addresses: the one that was given back last is the next to be used. */
typedef struct
{
  guintptr base;
  GPtrArray *objects; /* not owned; NULL where a handle is vacant */
  GArray *vacant;     /* of guint: indices into objects, last in, first out */
} HandleTable;

gpointer fake_handle_new (HandleTable *table, gpointer object);
void fake_handle_free (HandleTable *table, gpointer handle);
gpointer fake_handle_get (const HandleTable *table, gpointer handle); /* nullable */
gboolean fake_handle_was (const HandleTable *table, gpointer handle); /* ever given out */

/* Contexts; all are called locked. */
typedef struct
{
  CUcontext handle;
  guint64 id;
  CUdevice device;
  guint flags;
  gboolean is_primary;
} Context;

/* This thread's current one, or a status that is not 0. */
Status fake_get_context (Context **context);
Context *fake_find_context (guint64 id); /* nullable: it is no more */
guint fake_count_contexts (void);
guint fake_get_primary_references (CUdevice device);
guint fake_get_stack_depth (void);

/* Memory; all are called locked. */
void fake_free_memory_of (guint64 context_id);
guint fake_count_memory (FakeCudaKind kind, guint64 *bytes);
gboolean fake_find_memory (CUdeviceptr address, FakeCudaMemory *memory);
guint fake_get_strangers (FakeCudaMemory *memory, guint n);
void fake_forget_strangers (void);

#endif
