/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Replays traces.  Without queues, one thread makes all events.  With queues, the replay has as
 * many threads and queues as the trace.  The queues never get work. */

#ifndef REPLAY_H
#define REPLAY_H

#include "kinds.h"
#include "trace.h"

/* The replay of a trace. */
typedef struct
{
  const Trace *trace;
  const Source *source;
  gboolean has_queues; /* TRUE if the replay has as many queues and threads as the trace */
  /* The upstream of the pool, which only this replay uses.  If it and the pool are NULL,
   * malloc (64) serves all requests. */
  TarnAllocator *allocator;
  TarnPool *pool;
  /* TarnBlocks, or pointers from malloc ().  Indexed by TraceEvent.block if has_queues, otherwise
   * by TraceEvent.slot. */
  gpointer *blocks;
  gpointer *queues; /* indexed by TraceEvent.queue_index */
  GError *error;    /* the error of the thread that failed first; atomic; nullable */
} Replay;

/* A callback, which is called after event @i, in the thread that made the event. */
typedef void (*ReplayFunc) (const Replay *replay, guint i, gpointer data);

/* Initialises a replay with an empty pool. */
gboolean replay_init (Replay *replay, const Trace *trace, const Source *source, gboolean has_queues,
                      GError **error);

/* Initialises a replay that allocates each block with malloc (64).  Its time is the yardstick for
 * the time of a replay with a pool. */
void replay_init_malloc (Replay *replay, const Trace *trace, gboolean has_queues);

void replay_clear (Replay *replay);

/* Makes all events in the trace's order, once.  @func is nullable. */
gboolean replay_in_order (Replay *replay, ReplayFunc func, gpointer data, GError **error);

/* Makes all events, and stores the nanoseconds for each allocation.  With queues, each thread makes
 * its events in their order, and waits only for blocks that another thread allocates. */
gboolean replay_time (Replay *replay, gdouble *ns, GError **error);

/* Make all events of a replay with queues: in the trace's order, or with all threads at the same
 * time.  replay_together () stores in @ns the time of the whole replay.  In replay-threads.c. */
gboolean replay_take_turns (Replay *replay, ReplayFunc func, gpointer data, GError **error);
gboolean replay_together (Replay *replay, gint64 *ns, GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Replay, replay_clear)

#endif
