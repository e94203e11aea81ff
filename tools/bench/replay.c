/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Replays traces in one thread. */

#include "replay.h"

#include <stdlib.h>

#include "crew.h"

static guint64
count_places (const Replay *replay)
{
  return replay->has_queues ? replay->trace->n_allocations : replay->trace->n_slots;
}

static gboolean
make_queues (Replay *replay, GError **error)
{
  const Trace *trace = replay->trace;

  replay->queues = g_new0 (gpointer, trace->n_queues + 1);
  for (guint i = 0; i < trace->n_queues; i++)
    if ((replay->queues[i + 1] = source_get_queue (replay->source, i, error)) == NULL)
      return FALSE;
  if (replay->source->simulated != NULL)
    simulated_queues_begin (replay->source->simulated, trace->n_threads);
  return TRUE;
}

gboolean
replay_init (Replay *replay, const Trace *trace, const Source *source, gboolean has_queues,
             GError **error)
{
  replay_init_malloc (replay, trace, has_queues);
  replay->source = source;
  return (!has_queues || make_queues (replay, error))
         && (replay->allocator = source_make_allocator (source, error)) != NULL
         && (replay->pool = tarn_pool_new (replay->allocator, NULL, error)) != NULL;
}

void
replay_init_malloc (Replay *replay, const Trace *trace, gboolean has_queues)
{
  *replay = (Replay){ .trace = trace, .has_queues = has_queues };
  replay->blocks = g_new0 (gpointer, MAX (count_places (replay), 1));
}

void
replay_clear (Replay *replay)
{
  guint64 n_places = count_places (replay);

  for (guint64 i = 0; i < n_places; i++)
    if (replay->pool != NULL)
      tarn_block_free (replay->blocks[i]);
    else
      free (replay->blocks[i]);
  g_free (replay->blocks);
  g_free (replay->queues);
  g_clear_pointer (&replay->pool, tarn_pool_unref);
  g_clear_pointer (&replay->allocator, tarn_allocator_unref);
  g_clear_error (&replay->error);
}

/* Functions for a replay in one thread, without queues */

static gboolean
make_event (Replay *replay, const TraceEvent *event, GError **error)
{
  TarnBlock **block = (TarnBlock **) &replay->blocks[event->slot];

  if (event->is_free)
    g_clear_pointer (block, tarn_block_free);
  else
    *block = tarn_pool_allocate (replay->pool, event->size, error);
  return event->is_free || *block != NULL;
}

static gboolean
make_all (Replay *replay, ReplayFunc func, gpointer data, GError **error)
{
  const GArray *events = replay->trace->events;

  for (guint i = 0; i < events->len; i++)
    {
      if (!make_event (replay, &g_array_index (events, TraceEvent, i), error))
        return FALSE;
      if (func != NULL)
        func (replay, i, data);
    }
  return TRUE;
}

static void
malloc_all (Replay *replay)
{
  const GArray *events = replay->trace->events;

  for (guint i = 0; i < events->len; i++)
    {
      const TraceEvent *event = &g_array_index (events, TraceEvent, i);

      if (event->is_free)
        g_clear_pointer (&replay->blocks[event->slot], free);
      else
        replay->blocks[event->slot] = malloc (64);
    }
}

static gboolean
time_all (Replay *replay, gint64 *ns, GError **error)
{
  gint64 start = clock_now ();

  if (replay->pool == NULL)
    malloc_all (replay);
  else if (!make_all (replay, NULL, NULL, error))
    return FALSE;
  *ns = clock_now () - start;
  return TRUE;
}

/* Functions for replays with and without queues */

gboolean
replay_in_order (Replay *replay, ReplayFunc func, gpointer data, GError **error)
{
  return replay->has_queues ? replay_take_turns (replay, func, data, error)
                            : make_all (replay, func, data, error);
}

gboolean
replay_time (Replay *replay, gdouble *ns, GError **error)
{
  gint64 all;

  if (!(replay->has_queues ? replay_together (replay, &all, error)
                           : time_all (replay, &all, error)))
    return FALSE;
  *ns = (gdouble) all / (gdouble) replay->trace->n_allocations;
  return TRUE;
}
