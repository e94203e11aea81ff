/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What the fake's two halves share: fake-queues.c is the queues, and fake-queues-ops.c what an
 * allocator makes of them.  All but the first fields of FakeQueues are behind the lock. */

#ifndef TARN_FAKE_QUEUES_PRIVATE_H
#define TARN_FAKE_QUEUES_PRIVATE_H

#include "common/lock-private.h"
#include "fake-queues.h"

/* A moment: of each queue, by its number, so many of the first things put on it.  Whatever these
 * waited for is in it, too. */
typedef GArray FakeClock; /* of guint */

typedef struct
{
  gboolean is_live;
  guint value;
  FakeClock *past;    /* what the owners before have put on queues */
  FakeClock *present; /* what this one has */
} FakeMemory;

typedef struct
{
  FakeMemory *memory; /* of a command; NULL: a wait */
  FakeCommand command;
  guint value;
  FakeClock *clock; /* that is waited for; owned */
  gboolean is_done;
} FakeItem;

typedef struct
{
  guint number; /* no other queue ever has it */
  gboolean in_order;
  gboolean is_alive; /* a call may name it */
  gboolean is_capturing;
  GArray *items;    /* of FakeItem, all there ever were */
  guint n_done;     /* all before this one are done */
  FakeClock *start; /* whatever is put on the queue now comes after this */
} FakeQueue;

/* Where a handle leads. */
typedef struct
{
  FakeQueue *queue; /* NULL: there was none yet */
  gboolean is_destroyed;
  guint refs; /* from queue_ref */
} FakeSlot;

struct _FakeQueues
{
  TarnMutex lock;
  guint flags;
  FakeDevice *device;
  TarnAllocator *upstream; /* on the device */

  GPtrArray *slots;     /* of FakeSlot, by handle */
  GPtrArray *queues;    /* of FakeQueue, by number */
  GHashTable *memories; /* address -> FakeMemory, live or not, owned */
  GHashTable *events;   /* FakeClock, owned */
  FakeClock *host;      /* what the host was told is done */
  gpointer fresh;
  guint n_allocators;
  GRand *rand;

  guint calls[FAKE_N_CALLS];
  FakeCall fail_call;
  guint fail_nth; /* how many calls from now; 0: none */
  gboolean fail_for_ever;
  guint n_failed;
  guint n_freed_in_use; /* excused by calls that failed */
  FakeCall hook_call;
  void (*hook) (gpointer); /* nullable */
  gpointer hook_data;
  gchar *fault;
};

/* All of these are called under the lock. */
void _fake_queues_fault (FakeQueues *queues, const gchar *format, ...) G_GNUC_PRINTF (2, 3);
FakeQueue *_fake_queues_look_up (FakeQueues *queues, gpointer handle, const gchar *what);
FakeSlot *_fake_queues_get_slot (FakeQueues *queues, gpointer handle);
void _fake_queues_end_if_unused (FakeQueues *queues, FakeSlot *slot);

FakeMemory *_fake_queues_get_memory (FakeQueues *queues, TarnMemory memory);
void _fake_queues_put (FakeQueues *queues, FakeQueue *queue, FakeMemory *memory,
                       FakeCommand command, guint value);
void _fake_queues_put_wait (FakeQueue *queue, const FakeClock *clock);

FakeClock *_fake_clock_new (void);
void _fake_clock_join (FakeClock *clock, const FakeClock *other);
gboolean _fake_clock_is_in (const FakeClock *clock, const FakeClock *other);
FakeClock *_fake_queues_now (FakeQueues *queues, const FakeQueue *queue);
gboolean _fake_queues_is_done (FakeQueues *queues, const FakeClock *clock);
void _fake_queues_reach (FakeQueues *queues, const FakeClock *clock);

#endif
