/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Fake queues, which detect commands that use memory too early.  These files share the types and
 * functions here:
 *
 *     clock.c       moments, and their order
 *     queues.c      queues, memory, commands and faults
 *     queues-run.c  decides which commands run when, and runs them
 *     queues-ops.c  an allocator with these queues
 *
 * The lock guards all fields of TarnTestingQueues after device. */

#ifndef TARN_TESTING_QUEUES_PRIVATE_H
#define TARN_TESTING_QUEUES_PRIVATE_H

#include <tarn/testing.h>

#include "common/lock-private.h"
#include "testing/device-private.h"

#define TARN_TESTING_N_CALLS (TARN_TESTING_CALL_EVENT_RELEASE + 1)

/* The content of new memory before a command writes it. */
#define _TARN_TESTING_GARBAGE 0xdead

/* A moment: a vector clock.  For each queue, indexed by the queue's number, the moment has the
 * number of items on the queue that come before it.  If one of these items waited for a moment, the
 * items before that moment come before, too. */
typedef GArray TarnTestingClock; /* guint each */

/* Memory, allocated or freed.  Invariant: the items in reads and writes are in uses, too. */
typedef struct
{
  guint64 address;
  gsize size; /* bytes; 0: unknown */
  gboolean is_live;
  guint value;
  TarnTestingClock *past;   /* commands that earlier owners of the memory put on queues */
  TarnTestingClock *uses;   /* all commands of the present owner */
  TarnTestingClock *reads;  /* those of them that are known to read */
  TarnTestingClock *writes; /* those of them that are known to write */
} TarnTestingMemory;

typedef struct
{
  TarnTestingMemory *memory; /* the memory that a command uses; NULL: the item is a wait */
  TarnTestingCommand command;
  guint value;
  TarnTestingClock *clock; /* the moment for which a wait waits; owned */
  gboolean is_done;
} TarnTestingItem;

typedef struct
{
  guint number; /* index in TarnTestingQueues.queues; never reused */
  gboolean in_order;
  gboolean is_alive; /* calls may name the queue */
  gboolean is_capturing;
  GArray *items;           /* of TarnTestingItem: all commands and waits, also finished ones */
  guint n_done;            /* the first n_done items are done; later ones may be, too */
  TarnTestingClock *start; /* the moment after which later commands on the queue run */
} TarnTestingQueue;

/* A handle, and the queue that it names now.  Handles of dead queues are reused. */
typedef struct
{
  TarnTestingQueue *queue; /* NULL: no queue yet */
  gboolean is_destroyed;
  guint refs; /* number of references by queue_ref () */
} TarnTestingSlot;

struct _TarnTestingQueues
{
  TarnMutex lock;
  guint flags;
  TarnTestingDevice *device;

  GPtrArray *slots;       /* of TarnTestingSlot, indexed by handle */
  GPtrArray *queues;      /* of TarnTestingQueue, indexed by number */
  GHashTable *memories;   /* address -> TarnTestingMemory, allocated or freed; owned */
  GHashTable *events;     /* of TarnTestingClock, owned: the moments of events */
  TarnTestingClock *host; /* the moment before which the host knows all items to be done */
  gpointer fresh;
  guint n_allocators;
  GRand *rand;

  guint calls[TARN_TESTING_N_CALLS];
  TarnTestingCall fail_call;
  guint fail_nth; /* the call that fails, counted from now; 0: none */
  gboolean fail_for_ever;
  guint n_failed;
  guint n_freed_in_use; /* number of frees of memory in use; allowed up to n_failed */
  TarnTestingCall hook_call;
  TarnTestingHook hook; /* nullable */
  gpointer hook_data;
  gchar *fault;
};

/* The caller of these functions holds the lock. */
void _tarn_testing_queues_fault (TarnTestingQueues *queues, const gchar *format, ...)
    G_GNUC_PRINTF (2, 3);
TarnTestingQueue *_tarn_testing_queues_look_up (TarnTestingQueues *queues, gpointer handle,
                                                const gchar *what);
TarnTestingSlot *_tarn_testing_queues_get_slot (TarnTestingQueues *queues, gpointer handle);
void _tarn_testing_queues_end_if_unused (TarnTestingQueues *queues, TarnTestingSlot *slot);

TarnTestingMemory *_tarn_testing_queues_get_memory (TarnTestingQueues *queues, TarnMemory memory);
gchar *_tarn_testing_describe_memory (const TarnTestingMemory *memory); /* the caller frees it */
void _tarn_testing_queues_put (TarnTestingQueues *queues, TarnTestingQueue *queue,
                               TarnTestingMemory *memory, TarnTestingCommand command, guint value);
/* Reports a fault unless the host knows that all commands that use the memory are done. */
void _tarn_testing_queues_check_free (TarnTestingQueues *queues, const TarnTestingMemory *memory);
void _tarn_testing_queues_put_wait (TarnTestingQueue *queue, const TarnTestingClock *clock);

/* Sets the functions of the allocator, whose user_data is @queues.  The callers of these functions
 * do not hold the lock. */
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
