/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What a recorded program did with its pools, heaps and allocators, as steps that can be made
 * again; and what these were, and had counted. */

#ifndef RECORDED_H
#define RECORDED_H

#include "common/trace-format-private.h"

/* Programs with more are refused. */
#define RECORDED_MAX_THREADS 1024
#define RECORDED_MAX_QUEUES 4096
#define RECORDED_MAX_OBJECTS 65535

#define RECORDED_N_PROPERTIES (TARN_TRACE_UPSTREAM_FREES + 1)
#define RECORDED_NONE G_MAXUINT32

/* Numbers by their TarnTraceProperty */
typedef struct
{
  guint64 number[RECORDED_N_PROPERTIES];
  gboolean is_known[RECORDED_N_PROPERTIES];
} RecordedNumbers;

/* A pool, a heap or an allocator. */
typedef struct
{
  guint64 number;                 /* the recording's */
  TarnTraceClass object_class;    /* 0: the recording does not say, and so it is an allocator */
  guint upstream;                 /* index of an object before it; RECORDED_NONE: there is none */
  gchar *name;                    /* such as "cuda-device"; nullable */
  RecordedNumbers options;        /* as it was made */
  RecordedNumbers counters;       /* the last ones */
  guint64 hits, misses, failures; /* in the recording */
  guint64 n_skipped;              /* requests that failed for what cannot be had again */
  gboolean has_ended;
  gboolean was_there; /* it had blocks before recording began */

  /* An allocator's: bytes that it had given at most, and with which it gave no more at least */
  guint64 given, most_given, least_refused;
  guint64 room; /* that it has, as its last calls tell; 0: it has not refused any */
} RecordedObject;

typedef enum
{
  STEP_MAKE, /* an object */
  STEP_ALLOCATE,
  STEP_FREE,
  STEP_RECORD_USE,
  STEP_MOVE,
  STEP_FORGET,
  STEP_TRIM,
  STEP_STOP_HOLDING,
  STEP_LIMIT,
  STEP_END /* of an object */
} StepKind;

typedef struct
{
  guint64 time;  /* nanoseconds */
  guint64 size;  /* bytes: of a request, to keep, or the limit */
  guint32 block; /* below n_blocks; RECORDED_NONE: the request failed */
  guint16 object, thread;
  guint16 queue;       /* up to n_queues; 0: none */
  guint8 kind;         /* StepKind */
  guint8 is_handed_on; /* one thread allocates the block, and others do something with it */
} Step;

/* Before a step it is seen that all which was put on a queue before another one is done. */
typedef struct
{
  guint32 step;
  guint32 reached; /* steps */
  guint16 queue;
} Reach;

/* From a step on a backend has so many bytes; 0: as many as are asked for. */
typedef struct
{
  guint32 step;
  guint16 object;
  guint64 bytes;
} Room;

typedef struct
{
  gchar *name;
  GPtrArray *objects; /* of RecordedObject, each behind what it is over */
  GArray *steps;      /* of Step, in the order of their times */
  GArray *reaches;    /* of Reach, in the order of their steps */
  GArray *rooms;      /* of Room, in the order of their steps */
  guint n_threads, n_queues;
  guint32 n_blocks;
  guint64 n_requests;
  guint64 n_lost;       /* events */
  guint64 n_waits;      /* of queues or the host for other queues */
  gboolean is_complete; /* recording was ended */
} Recorded;

/* Whether a file begins as recordings do. */
gboolean recorded_is_meant (const gchar *path);

/* An error names the path and the place, or what cannot be replayed. */
Recorded *recorded_read (const gchar *path, GError **error);
void recorded_free (Recorded *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Recorded, recorded_free)

/* Whether it gave more once than it had another time, when it had no more. */
gboolean recorded_has_varying_room (const RecordedObject *object);

/* An option that the recording does not have is @otherwise. */
guint64 recorded_get_option (const RecordedObject *object, TarnTraceProperty property,
                             guint64 otherwise);

/* In recorded-queues.c: what recordings tell of how far queues are. */
typedef struct _RecordedQueues RecordedQueues;

RecordedQueues *recorded_queues_new (void);
void recorded_queues_free (RecordedQueues *self);
/* An event was recorded on a queue behind so many steps. */
void recorded_queues_mark (RecordedQueues *self, guint queue, guint32 n_steps);
/* So many steps come before the event by which it is known that a queue is done with what came
 * before step @since. */
guint32 recorded_queues_get_reached (const RecordedQueues *self, guint queue, guint32 since);

#endif
