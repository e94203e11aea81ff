/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Fake queues, which detect commands that use memory too early.  The files that implement them are:
 *
 *     clock.c       moments, and their order
 *     queues.c      queues, memory, commands and faults
 *     queues-run.c  decides which commands run when, and runs them
 *     queues-ops.c  an allocator with these queues
 *
 * The mutex TarnTestingQueues.lock guards all fields that come after TarnTestingQueues.device. */

#ifndef TARN_TESTING_QUEUES_PRIVATE_H
#define TARN_TESTING_QUEUES_PRIVATE_H

#include <tarn/testing.h>

#include "common/lock-private.h"
#include "testing/device-private.h"

#define TARN_TESTING_N_CALLS (TARN_TESTING_CALL_EVENT_RELEASE + 1)

/* The content of new memory before a command writes it. */
#define _TARN_TESTING_GARBAGE 0xdead

/* A moment in the order of the queues: a vector clock.  It is an array, indexed by the numbers of
 * the queues.  A queue's entry is the number of the queue's items (commands and waits) that come
 * before the moment.  If one of these items is a wait for another moment, then all items before
 * that other moment also come before this one. */
typedef GArray TarnTestingClock; /* an array of guint */

/* Memory that was allocated, and perhaps freed.  The moments @past, @uses, @reads and @writes tell
 * which commands use the memory.  Each time a test hands the memory out again, the memory gets a
 * new owner (tarn_testing_queues_own ()).  Invariant: an item that comes before the moment @reads,
 * or before the moment @writes, also comes before the moment @uses. */
typedef struct
{
  guint64 address;
  gsize size; /* the size of the memory in bytes; 0 if unknown */
  gboolean is_live;
  guint value;
  TarnTestingClock *past; /* the moment after all commands of the memory's earlier owners */
  TarnTestingClock *uses; /* the moment after all commands of the memory's present owner */
  /* the moment after the reads of the present owner, as far as they are known */
  TarnTestingClock *reads;
  /* the moment after the writes of the present owner, as far as they are known */
  TarnTestingClock *writes;
} TarnTestingMemory;

typedef struct
{
  TarnTestingMemory *memory; /* the memory that a command uses; NULL if the item is a wait */
  TarnTestingCommand command;
  guint value;
  /* the moment for which the queue waits; owned; NULL if the item is a command */
  TarnTestingClock *clock;
  gboolean is_done;
} TarnTestingItem;

typedef struct
{
  guint number; /* index in TarnTestingQueues.queues; never reused */
  gboolean in_order;
  gboolean is_alive; /* FALSE if the queue is dead: then no call may name it */
  gboolean is_capturing;
  /* an array of TarnTestingItem: all commands and waits on the queue, also finished ones */
  GArray *items;
  /* the first n_done items are done; later items may be done, too */
  guint n_done;
  /* The items before this moment come before each command that a test puts on the queue later. */
  TarnTestingClock *start;
} TarnTestingQueue;

/* A slot: a handle, and the queue that the handle names now.  A new queue gets the handle of a dead
 * queue if there is one. */
typedef struct
{
  TarnTestingQueue *queue; /* the queue of the handle; NULL until it is made */
  gboolean is_destroyed;
  guint refs; /* the number of references that queue_ref () has taken */
} TarnTestingSlot;

struct _TarnTestingQueues
{
  TarnMutex lock;
  guint flags;
  TarnTestingDevice *device;

  GPtrArray *slots;     /* an array of TarnTestingSlot, in the order of the handles */
  GPtrArray *queues;    /* an array of TarnTestingQueue, indexed by number */
  GHashTable *memories; /* maps an address to its TarnTestingMemory, which the table owns */
  GHashTable *events;   /* a set of TarnTestingClock, owned: the moments of events */
  /* a moment: the host knows that all items (commands and waits) that come before this moment are
   * done */
  TarnTestingClock *host;
  gpointer fresh;
  guint n_allocators;
  GRand *rand;

  guint calls[TARN_TESTING_N_CALLS];
  TarnTestingCall fail_call;
  /* the number of the call of fail_call that fails, counted from now: 1 is the next call; 0 if no
   * call fails */
  guint fail_nth;
  gboolean fail_for_ever;
  guint n_failed;
  /* The number of times that the allocator has freed memory that commands may still use.  Up to
   * n_failed times, this is no fault: n_failed calls have failed because the test wanted that, and
   * Tarn could perhaps not wait for the commands. */
  guint n_freed_in_use;
  TarnTestingCall hook_call;
  /* the test's function, which the next call of the kind hook_call calls first; NULL if none */
  TarnTestingHook hook;
  gpointer hook_data;
  gchar *fault;
};

/* Functions for queues, memory and commands.  The caller of each of these functions holds the
 * lock. */
void _tarn_testing_queues_fault (TarnTestingQueues *queues, const gchar *format, ...)
    G_GNUC_PRINTF (2, 3);
TarnTestingQueue *_tarn_testing_queues_look_up (TarnTestingQueues *queues, gpointer handle,
                                                const gchar *what);
TarnTestingSlot *_tarn_testing_queues_get_slot (TarnTestingQueues *queues, gpointer handle);
void _tarn_testing_queues_end_if_unused (TarnTestingQueues *queues, TarnTestingSlot *slot);

TarnTestingMemory *_tarn_testing_queues_get_memory (TarnTestingQueues *queues, TarnMemory memory);
/* Describes memory for messages.  The caller frees the text. */
gchar *_tarn_testing_describe_memory (const TarnTestingMemory *memory);
void _tarn_testing_queues_put (TarnTestingQueues *queues, TarnTestingQueue *queue,
                               TarnTestingMemory *memory, TarnTestingCommand command, guint value);
/* Reports a fault if the host does not know that all commands that use the memory are done. */
void _tarn_testing_queues_check_free (TarnTestingQueues *queues, const TarnTestingMemory *memory);
void _tarn_testing_queues_put_wait (TarnTestingQueue *queue, const TarnTestingClock *clock);

/* Sets the functions of an allocator whose user data is @queues.  The callers of the allocator's
 * functions do not hold the lock. */
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
