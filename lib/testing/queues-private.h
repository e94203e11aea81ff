/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Types and functions that the queues' parts share:
 *
 *     clock.c       moments, and their order
 *     queues.c      queues and memory, commands on them, faults
 *     queues-run.c  ... which of them run, and when
 *     queues-ops.c  ... as an allocator
 *
 * All but the first fields of TarnTestingQueues are behind the lock. */

#ifndef TARN_TESTING_QUEUES_PRIVATE_H
#define TARN_TESTING_QUEUES_PRIVATE_H

#include <tarn/testing.h>

#include "common/lock-private.h"
#include "testing/device-private.h"

#define TARN_TESTING_N_CALLS (TARN_TESTING_CALL_EVENT_RELEASE + 1)

/* The content of memory that was just made ready. */
#define _TARN_TESTING_GARBAGE 0xdead

/* A moment: for each queue, by its number, how many of the first things on it come before.  Those
 * that they waited for come before, too. */
typedef GArray TarnTestingClock; /* guints */

/* Memory, live or not.  Invariant: reads and writes are in uses. */
typedef struct
{
  guint64 address;
  gsize size; /* 0: not known */
  gboolean is_live;
  guint value;
  TarnTestingClock *past;   /* commands of earlier owners */
  TarnTestingClock *uses;   /* all commands of this owner */
  TarnTestingClock *reads;  /* ... those that are known to read */
  TarnTestingClock *writes; /* ... those that are known to write */
} TarnTestingMemory;

typedef struct
{
  TarnTestingMemory *memory; /* the memory of a command; NULL: a wait */
  TarnTestingCommand command;
  guint value;
  TarnTestingClock *clock; /* the moment that is waited for; owned */
  gboolean is_done;
} TarnTestingItem;

typedef struct
{
  guint number; /* no other queue ever has it */
  gboolean in_order;
  gboolean is_alive; /* a call may name it */
  gboolean is_capturing;
  GArray *items;           /* TarnTestingItems, all so far */
  guint n_done;            /* all before this one are done */
  TarnTestingClock *start; /* later commands on the queue come after this */
} TarnTestingQueue;

/* A handle's queue. */
typedef struct
{
  TarnTestingQueue *queue; /* NULL: none yet */
  gboolean is_destroyed;
  guint refs; /* from queue_ref */
} TarnTestingSlot;

struct _TarnTestingQueues
{
  TarnMutex lock;
  guint flags;
  TarnTestingDevice *device;

  GPtrArray *slots;       /* of TarnTestingSlot, by handle */
  GPtrArray *queues;      /* of TarnTestingQueue, by number */
  GHashTable *memories;   /* address -> TarnTestingMemory, live or not, owned */
  GHashTable *events;     /* TarnTestingClock, owned */
  TarnTestingClock *host; /* the commands that the host knows to be done */
  gpointer fresh;
  guint n_allocators;
  GRand *rand;

  guint calls[TARN_TESTING_N_CALLS];
  TarnTestingCall fail_call;
  guint fail_nth; /* the call to fail, counted from now; 0: none */
  gboolean fail_for_ever;
  guint n_failed;
  guint n_freed_in_use; /* frees of memory in use, allowed because calls had failed */
  TarnTestingCall hook_call;
  TarnTestingHook hook; /* nullable */
  gpointer hook_data;
  gchar *fault;
};

/* The lock is held in these functions. */
void _tarn_testing_queues_fault (TarnTestingQueues *queues, const gchar *format, ...)
    G_GNUC_PRINTF (2, 3);
TarnTestingQueue *_tarn_testing_queues_look_up (TarnTestingQueues *queues, gpointer handle,
                                                const gchar *what);
TarnTestingSlot *_tarn_testing_queues_get_slot (TarnTestingQueues *queues, gpointer handle);
void _tarn_testing_queues_end_if_unused (TarnTestingQueues *queues, TarnTestingSlot *slot);

TarnTestingMemory *_tarn_testing_queues_get_memory (TarnTestingQueues *queues, TarnMemory memory);
gchar *_tarn_testing_describe_memory (const TarnTestingMemory *memory); /* the caller's */
void _tarn_testing_queues_put (TarnTestingQueues *queues, TarnTestingQueue *queue,
                               TarnTestingMemory *memory, TarnTestingCommand command, guint value);
/* Reports a fault unless the host knows that no command uses the memory any more. */
void _tarn_testing_queues_check_free (TarnTestingQueues *queues, const TarnTestingMemory *memory);
void _tarn_testing_queues_put_wait (TarnTestingQueue *queue, const TarnTestingClock *clock);

/* Sets the allocator's functions, whose user_data is the queues.  They are called without the
 * lock. */
void _tarn_testing_queues_ops_init (TarnTestingQueues *queues, TarnAllocatorOps *ops);

TarnTestingClock *_tarn_testing_clock_new (void);
guint _tarn_testing_clock_get (const TarnTestingClock *clock, guint number);
void _tarn_testing_clock_raise (TarnTestingClock *clock, guint number, guint count);
void _tarn_testing_clock_join (TarnTestingClock *clock, const TarnTestingClock *other);
gboolean _tarn_testing_clock_is_in (const TarnTestingClock *clock, const TarnTestingClock *other);
gboolean _tarn_testing_clock_find (const TarnTestingClock *clock, const TarnTestingClock *other,
                                   guint *number);

TarnTestingClock *_tarn_testing_queues_now (TarnTestingQueues *queues,
                                            const TarnTestingQueue *queue);
gboolean _tarn_testing_queues_is_done (TarnTestingQueues *queues, const TarnTestingClock *clock);
void _tarn_testing_queues_reach (TarnTestingQueues *queues, const TarnTestingClock *clock);

#endif
