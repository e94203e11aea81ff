/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Traces, replayed: one event after the other in one thread and without a queue; or else with a
 * trace's queues, and by a thread for each of its threads.  Nothing is ever put on a queue. */

#ifndef REPLAY_H
#define REPLAY_H

#include "kinds.h"
#include "trace.h"

typedef struct
{
  const Trace *trace;
  const Source *source;
  gboolean has_queues;      /* and threads */
  TarnAllocator *allocator; /* of this replay alone; NULL: malloc (64) in its place */
  TarnPool *pool;
  gpointer *blocks; /* TarnBlock or malloc's: by slot, or by block if it has queues */
  gpointer *queues; /* by queue_index */
  GError *error;    /* of the thread that failed first; atomic */
} Replay;

/* Called after event @i, in the thread that made it. */
typedef void (*ReplayFunc) (const Replay *replay, guint i, gpointer data);

/* With a pool that has nothing as yet. */
gboolean replay_init (Replay *replay, const Trace *trace, const Source *source, gboolean has_queues,
                      GError **error);

/* With malloc (64) for each block: the yardstick. */
void replay_init_malloc (Replay *replay, const Trace *trace, gboolean has_queues);

void replay_clear (Replay *replay);

/* Makes all events in the trace's order, once.  @func is nullable. */
gboolean replay_in_order (Replay *replay, ReplayFunc func, gpointer data, GError **error);

/* The same, and stores how many nanoseconds it took for each allocation.  With queues each thread
 * makes its events in their order, and waits for none of another's but the allocations of what it
 * frees. */
gboolean replay_time (Replay *replay, gdouble *ns, GError **error);

/* In replay-threads.c, for those with queues; stores nanoseconds in all */
gboolean replay_take_turns (Replay *replay, ReplayFunc func, gpointer data, GError **error);
gboolean replay_together (Replay *replay, gint64 *ns, GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Replay, replay_clear)

#endif
