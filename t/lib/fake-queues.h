/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Queues that are lists, over the fake device: nothing on them runs until the test says so, and
 * what is ordered before what is known of every command.  Any thread may use them.
 *
 * Mistakes of whoever orders memory are faults: the first one is kept for the test to look at, and
 * ends it when the queues are freed.  A fault is
 *
 *     a command on memory that is not ordered after each command of its owners before, either on
 *     the queues, or because the host was told that they are done
 *     memory that is freed before the host was told so, but for FAKE_FREES_IN_ORDER, and once for
 *     each call that was told to fail
 *     a command that finds other contents than the owner wrote
 *     a call for a queue or event that is no more
 *
 * That it would have gone well this time is no excuse. */

#ifndef TARN_FAKE_QUEUES_H
#define TARN_FAKE_QUEUES_H

#include "fake-device.h"

typedef struct _FakeQueues FakeQueues;

/* What the allocator's functions do. */
typedef enum
{
  FAKE_RECORDS_ALL = 1 << 0, /* event_record_all is there; a queue that is referenced can be
                              destroyed, and the next one has its handle */
  FAKE_FREES_IN_ORDER = 1 << 1,
  FAKE_CHECKS_QUEUES = 1 << 2, /* check_queue is there */
  FAKE_SAYS_NOTHING = 1 << 3   /* calls that are told to fail set no error */
} FakeQueuesFlags;

typedef enum
{
  FAKE_QUEUE_REF,
  FAKE_EVENT_RECORD,
  FAKE_EVENT_RECORD_ALL,
  FAKE_EVENT_WAIT, /* of a queue */
  FAKE_HOST_WAIT,  /* of the host, which has the device do what is needed, and no more */
  FAKE_CHECK_QUEUE,
  FAKE_ANY_CALL, /* of those above, which can fail */
  FAKE_QUEUE_UNREF,
  FAKE_EVENT_IS_DONE,
  FAKE_EVENT_RELEASE,
  FAKE_N_CALLS
} FakeCall;

typedef enum
{
  FAKE_USE,   /* the contents do not matter */
  FAKE_WRITE, /* of a value */
  FAKE_CHECK  /* that it is there */
} FakeCommand;

/* @bytes as for fake_device_new (), @flags of FakeQueuesFlags. */
FakeQueues *fake_queues_new (guint64 bytes, guint flags);

/* Ends the test if there is a fault, an event, a reference on a queue, memory, or an allocator. */
void fake_queues_free (FakeQueues *queues);

/* The queues must outlive it. */
TarnAllocator *fake_queues_allocator_new (FakeQueues *queues);
FakeDevice *fake_queues_get_device (FakeQueues *queues); /* under the allocator */

/* The test destroys each queue that it made, or else fake_queues_free () does.  What is on a queue
 * runs all the same. */
gpointer fake_queue_new (FakeQueues *queues, gboolean in_order);
void fake_queue_destroy (FakeQueues *queues, gpointer queue);

/* A queue that can be neither recorded nor made to wait, nor be allocated for: these calls say
 * TARN_ERROR_NOT_SUPPORTED meanwhile, and so does event_record_all. */
void fake_queue_set_capturing (FakeQueues *queues, gpointer queue, gboolean is_capturing);

/* Memory is made ready by a command on this queue from now on; NULL: by none. */
void fake_queues_set_fresh (FakeQueues *queues, gpointer queue);

/* From here on commands on the memory are another owner's. */
void fake_queues_own (FakeQueues *queues, TarnMemory memory);

/* Puts a command on a queue. */
void fake_queue_put (FakeQueues *queues, gpointer queue, TarnMemory memory, FakeCommand command,
                     guint value);

/* The owner of memory orders its own queues: what is put on one from now on comes after what is on
 * the other. */
void fake_queue_follow (FakeQueues *queues, gpointer queue, gpointer other);

/* The host uses the memory, now. */
void fake_queues_touch (FakeQueues *queues, TarnMemory memory);

/* Running.  What one call may choose, it chooses at random. */
gboolean fake_queue_run_one (FakeQueues *queues, gpointer queue); /* FALSE: nothing can run there */
guint fake_queue_run (FakeQueues *queues, gpointer queue); /* until nothing can: how many ran */
gboolean fake_queues_run_one (FakeQueues *queues);         /* of any queue, gone ones as well */
void fake_queues_run_all (FakeQueues *queues);

guint fake_queue_get_pending (FakeQueues *queues, gpointer queue); /* commands and waits */
guint fake_queues_get_events (FakeQueues *queues);                 /* not unmarked yet */
guint fake_queues_get_refs (FakeQueues *queues);                   /* of queues, from queue_ref */
guint fake_queues_get_calls (FakeQueues *queues, FakeCall call);   /* failing ones as well */

/* The nth call of this kind from now on fails with TARN_ERROR_FAILED, 1 being the next one; if
 * @for_ever, so do all that follow.  0: none fails. */
void fake_queues_fail (FakeQueues *queues, FakeCall call, guint nth, gboolean for_ever);
guint fake_queues_get_failed (FakeQueues *queues); /* how many have, since then */

/* Called at the next call of this kind, before that does anything, with no lock held: what other
 * threads might do just then. */
void fake_queues_set_hook (FakeQueues *queues, FakeCall call, void (*func) (gpointer),
                           gpointer user_data);

/* The first fault, which is forgotten then; NULL: none. */
gchar *fake_queues_steal_fault (FakeQueues *queues);

#endif
