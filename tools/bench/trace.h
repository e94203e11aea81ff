/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What a program allocated and freed, and when: read from a file, or made. */

#ifndef TRACE_H
#define TRACE_H

#include <glib.h>

typedef struct
{
  guint64 time;          /* nanoseconds */
  guint64 id;            /* of the block */
  guint64 size;          /* bytes; of an allocation only */
  guint64 thread, queue; /* 0: none */
  guint line;            /* in the file; 0: it was made */
  guint slot;            /* of the block: one that no other block has at the time, below n_slots */
  guint block;           /* of the block: which one of all, below n_allocations */
  guint thread_index;    /* below n_threads */
  guint queue_index;     /* up to n_queues; 0: none */
  gboolean is_free;
  gboolean is_handed_on;    /* one thread allocates the block, and another one frees it */
  gboolean has_other_queue; /* of a free: it names one, and not the allocation's */
} TraceEvent;

typedef struct
{
  gchar *name;
  GArray *events; /* of TraceEvent, in the order of their times */
  guint n_slots;
  guint n_threads; /* that have events: 0 is one, too */
  guint n_queues;  /* that are named */
  guint64 n_allocations;
  guint64 peak_active; /* bytes */
} Trace;

/* A file with the columns time,thread,action,id,size,queue, which gzip may have compressed; an
 * error names the file and the line. */
Trace *trace_read (const gchar *path, GError **error);

/* Several programs at the same time: what was recorded is made equally long, and woven into one by
 * the times.  Each keeps threads and queues of its own; what was allocated for no queue is for one
 * of the program's.  An error names the traces. */
Trace *traces_weave (const GPtrArray *traces, GError **error);

/* Those that the program makes: an array of Trace. */
GPtrArray *traces_make (void);
Trace *trace_make_model (void); /* one of them */

void trace_free (Trace *trace);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Trace, trace_free)

/* Bytes of a trace that can be in use at a time: no sum of what a pool makes of it overflows. */
#define TRACE_MAX_ACTIVE (G_MAXINT64 / 4)

/* In trace.c, for those who make one: @events in any order, which are taken over. Events at the
 * same time stay in their order.  An error names the line. */
Trace *trace_new (const gchar *name, GArray *events, GError **error);

#endif
