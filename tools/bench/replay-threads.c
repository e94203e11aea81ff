/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Replays traces with a thread for each of the trace's threads. */

#include <stdlib.h>

#include "play.h"
#include "replay.h"
#include "ring.h"

/* A replay, and the callback for its events. */
typedef struct
{
  Replay *replay;
  ReplayFunc func; /* nullable */
  gpointer data;
} Performance;

static const TraceEvent *
get_event (const Replay *replay, guint i)
{
  return &g_array_index (replay->trace->events, TraceEvent, i);
}

static gboolean
has_failed (const Replay *replay)
{
  return __atomic_load_n (&replay->error, __ATOMIC_RELAXED) != NULL;
}

/* Ends the replay with an error, and takes over @error.  Keeps only the first error. */
static gboolean
fail (Replay *replay, GError *error)
{
  GError *none = NULL;

  if (!__atomic_compare_exchange_n (&replay->error, &none, error, FALSE, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED))
    g_error_free (error);
  return FALSE;
}

static gboolean
allocate (Replay *replay, const TraceEvent *event)
{
  gpointer *place = &replay->blocks[event->block], block;
  GError *error = NULL;

  if (replay->pool == NULL)
    block = malloc (64);
  else
    block = tarn_pool_allocate_ordered (replay->pool, event->size,
                                        replay->queues[event->queue_index], &error);
  if (error != NULL)
    return fail (replay, error);
  if (event->is_handed_on)
    __atomic_store_n (place, block, __ATOMIC_RELEASE);
  else
    *place = block;
  return TRUE;
}

/* Waits for a block that another thread allocates.  Returns NULL if a thread has failed. */
static gpointer
await_block (const Replay *replay, const TraceEvent *event)
{
  gpointer block;
  guint spins = 0;

  while ((block = __atomic_load_n (&replay->blocks[event->block], __ATOMIC_ACQUIRE)) == NULL
         && !has_failed (replay))
    ring_wait (&spins);
  return block;
}

static gboolean
free_block (Replay *replay, const TraceEvent *event)
{
  gpointer block = event->is_handed_on ? await_block (replay, event) : replay->blocks[event->block];
  GError *error = NULL;

  if (block == NULL)
    return FALSE;
  replay->blocks[event->block] = NULL;
  if (replay->pool == NULL)
    {
      free (block);
      return TRUE;
    }
  if (event->has_other_queue)
    tarn_block_record_use (block, replay->queues[event->queue_index], &error);
  tarn_block_free (block);
  return error == NULL || fail (replay, error);
}

/* Makes an event.  Returns FALSE if this thread or another one has failed. */
static gboolean
make_event (Replay *replay, const TraceEvent *event)
{
  if (replay->pool != NULL && replay->source->simulated != NULL)
    simulated_queues_step (replay->source->simulated, event->thread_index);
  return event->is_free ? free_block (replay, event) : allocate (replay, event);
}

/* Callbacks by which play.h makes the events of a replay */

static guint
get_thread (gconstpointer data, guint i)
{
  return get_event (((const Performance *) data)->replay, i)->thread_index;
}

static gboolean
make (gpointer data, guint i)
{
  const Performance *performance = data;

  if (!make_event (performance->replay, get_event (performance->replay, i)))
    return FALSE;
  if (performance->func != NULL)
    performance->func (performance->replay, i, performance->data);
  return TRUE;
}

static Play
get_play (Performance *performance)
{
  const Trace *trace = performance->replay->trace;

  return (Play){ trace->n_threads, trace->events->len, get_thread, make, performance, FALSE };
}

/* Moves the error of the step that failed to @error, and returns FALSE.  If no step failed, a
 * thread could not be created, and @error is set already. */
static gboolean
hand_over_error (Replay *replay, GError **error)
{
  if (replay->error != NULL)
    g_propagate_error (error, g_steal_pointer (&replay->error));
  return FALSE;
}

gboolean
replay_take_turns (Replay *replay, ReplayFunc func, gpointer data, GError **error)
{
  Performance performance = { replay, func, data };
  const Play play = get_play (&performance);

  return play_in_turns (&play, error) || hand_over_error (replay, error);
}

gboolean
replay_together (Replay *replay, gint64 *ns, GError **error)
{
  Performance performance = { replay, NULL, NULL };
  const Play play = get_play (&performance);

  return play_together (&play, ns, error) || hand_over_error (replay, error);
}
