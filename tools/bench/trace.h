/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A trace: the allocations and frees of a program with their times, read from a file or made up. */

#ifndef TRACE_H
#define TRACE_H

#include <glib.h>

/* An event: an allocation or a free. */
typedef struct
{
  guint64 time;          /* nanoseconds */
  guint64 id;            /* the block's id in the file */
  guint64 size;          /* bytes; in the file only allocations have a size */
  guint64 thread, queue; /* 0: none */
  guint line;            /* line number in the file; 0: the trace was made up */
  guint slot;            /* the block's slot, unique among blocks in use; below n_slots */
  guint block;           /* the block's index, unique among all blocks; below n_allocations */
  guint thread_index;    /* an index below n_threads */
  guint queue_index;     /* from 1 to n_queues; 0: the event has no queue */
  gboolean is_free;
  /* TRUE if one thread allocates the block, and another one frees it */
  gboolean is_handed_on;
  /* TRUE if the event is a free that names a queue, but not the queue of the allocation */
  gboolean has_other_queue;
} TraceEvent;

/* A trace: the events of a program, in the order of their times. */
typedef struct
{
  gchar *name;
  GArray *events; /* TraceEvents, in the order of their times */
  guint n_slots;
  /* Threads that have events.  All events that name no thread count as one more thread. */
  guint n_threads;
  guint n_queues; /* number of queues that events name */
  guint64 n_allocations;
  guint64 peak_active; /* the most bytes that are in use at a time */
} Trace;

/* Reads a file with the columns time,thread,action,id,size,queue, which may be compressed with
 * gzip.  An error names the file and the line. */
Trace *trace_read (const gchar *path, GError **error);

/* Weaves traces into one, as if their programs ran at the same time.  Stretches all traces to the
 * duration of the longest one.  Traces do not share threads or queues.  For each trace, one more
 * queue serves the blocks that name no queue.  An error names the traces. */
Trace *traces_weave (const GPtrArray *traces, GError **error);

/* Makes up traces: an array of Traces. */
GPtrArray *traces_make (void);
Trace *trace_make_model (void); /* makes the language model's trace for traces_make () */

void trace_free (Trace *trace);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Trace, trace_free)

/* Most bytes that a trace may have in use at a time.  The limit keeps sums of bytes from
 * overflowing. */
#define TRACE_MAX_ACTIVE (G_MAXINT64 / 4)

/* Creates a trace, and takes over @events, an array of TraceEvents in any order.  Sorts them by
 * time; events with the same time stay in their order.  An error names the line of the file. */
Trace *trace_new (const gchar *name, GArray *events, GError **error);

#endif
