/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A recorded program: its objects (pools, heaps and allocators) with their counters, and the steps
 * that can be replayed.  A step is a call of the program, such as a request or a free, that the
 * recording has as an event. */

#ifndef RECORDED_H
#define RECORDED_H

#include "common/trace-format-private.h"

/* The most threads, queues and objects that a recorded program may have. */
#define RECORDED_MAX_THREADS 1024
#define RECORDED_MAX_QUEUES 4096
#define RECORDED_MAX_OBJECTS 65535

#define RECORDED_N_PROPERTIES (TARN_TRACE_UPSTREAM_FREES + 1)
#define RECORDED_NONE G_MAXUINT32

/* Options or counters of an object, indexed by TarnTraceProperty.  number[] is valid where
 * is_known[] is TRUE. */
typedef struct
{
  guint64 number[RECORDED_N_PROPERTIES];
  gboolean is_known[RECORDED_N_PROPERTIES];
} RecordedNumbers;

/* A recorded object: a pool, a heap or an allocator. */
typedef struct
{
  guint64 number;                 /* the object's number in the recording */
  TarnTraceClass object_class;    /* 0: unknown; the object is then taken for an allocator */
  guint upstream;                 /* index of an earlier object; RECORDED_NONE: none */
  gchar *name;                    /* such as "cuda-device"; nullable */
  RecordedNumbers options;        /* the options with which the object was created */
  RecordedNumbers counters;       /* the object's counters, as recorded last */
  guint64 hits, misses, failures; /* numbers of requests, counted from the events */
  guint64 n_skipped;              /* requests that failed with an error that is not replayed */
  gboolean has_ended;
  gboolean was_there; /* the object had blocks before recording began */

  /* Bytes of an allocator.  given: allocated now.  most_given: the highest value of given.
   * least_refused: the smallest value that given would have reached with a refused request. */
  guint64 given, most_given, least_refused;
  /* The most bytes that the allocator can have allocated at the same time, judged by its latest
   * calls.  0: unknown, because it has not refused a request yet. */
  guint64 room;
} RecordedObject;

/* The kind of a step: the call that a replay makes. */
typedef enum
{
  STEP_MAKE, /* creates an object */
  STEP_ALLOCATE,
  STEP_FREE,
  STEP_RECORD_USE,
  STEP_MOVE,
  STEP_FORGET,
  STEP_TRIM,
  STEP_STOP_HOLDING,
  STEP_LIMIT,
  STEP_END /* ends an object */
} StepKind;

/* A step: a recorded call that a replay repeats. */
typedef struct
{
  guint64 time; /* nanoseconds since the start of the recording */
  /* Bytes.  STEP_ALLOCATE: the requested size.  STEP_TRIM: the bytes to keep.  STEP_LIMIT: the
   * limit. */
  guint64 size;
  /* The index of a block, below n_blocks.  RECORDED_NONE: the step has no block, such as a request
   * that failed. */
  guint32 block;
  guint16 object, thread;
  guint16 queue; /* the queue's index, from 1 up to n_queues; 0: the step has no queue */
  guint8 kind;   /* a StepKind */
  /* TRUE if the step allocates or uses a block that one thread allocates and another one uses */
  guint8 is_handed_on;
} Step;

/* A reach: how far a queue has come when the step with the index @step begins.  The queue has then
 * completed all work that was put on it within the first @reached steps. */
typedef struct
{
  guint32 step;
  guint32 reached; /* a number of steps; at most @step */
  guint16 queue;
} Reach;

/* A change of a backend's room, the most bytes that it can have allocated at the same time.  The
 * new room holds from this step on. */
typedef struct
{
  guint32 step;
  guint16 object;
  guint64 bytes; /* 0: no limit */
} Room;

/* A recorded program.
 *
 * Invariant: an object comes after its upstream.  Steps are in the order of their times.  Reaches
 * and rooms are in the order of their steps. */
typedef struct
{
  gchar *name;
  GPtrArray *objects; /* elements of type RecordedObject */
  GArray *steps;      /* elements of type Step */
  GArray *reaches;    /* elements of type Reach */
  GArray *rooms;      /* elements of type Room */
  guint n_threads, n_queues;
  guint32 n_blocks;
  guint64 n_requests;
  guint64 n_lost;       /* number of events that the recording has lost */
  guint64 n_waits;      /* how many times queues or the host waited for other queues */
  gboolean is_complete; /* TRUE if the whole recording is there, up to its end */
} Recorded;

/* Tells whether a regular file begins like a recording or a snapshot.  Does not read a pipe, whose
 * bytes can be read only once. */
gboolean recorded_recognizes (const gchar *path);

/* Reads a recording.  An error names the path, and says where the file is wrong, or what in it
 * cannot be replayed. */
Recorded *recorded_read (const gchar *path, GError **error);
void recorded_free (Recorded *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Recorded, recorded_free)

/* Returns TRUE if a backend's room varied: the backend refused to reach some total of bytes at one
 * time, and reached a larger total at another time. */
gboolean recorded_has_varying_room (const RecordedObject *object);

/* Gets an option.  Returns @otherwise if the recording does not have it. */
guint64 recorded_get_option (const RecordedObject *object, TarnTraceProperty property,
                             guint64 otherwise);

/* The events that were recorded on each queue, from which recorded-queues.c finds out how much work
 * a queue had completed. */
typedef struct _RecordedQueues RecordedQueues;

RecordedQueues *recorded_queues_new (void);
void recorded_queues_free (RecordedQueues *self);
/* Notes that an event was recorded on a queue when @n_steps steps had begun. */
void recorded_queues_mark (RecordedQueues *self, guint queue, guint32 n_steps);
/* Finds the first event that was recorded on a queue when at least @since steps had begun.  Returns
 * the number of steps that had begun when the event was recorded, or @since if there is no such
 * event.  If the event is complete, so is the work of the first @since steps on the queue. */
guint32 recorded_queues_get_reached (const RecordedQueues *self, guint queue, guint32 since);

#endif
