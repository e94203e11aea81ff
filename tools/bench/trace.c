/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Checks the events of a trace, and numbers its blocks, threads and queues. */

#include "trace.h"

#include <tarn/tarn.h>

/* The state while events are checked: blocks in use, free slots, and the threads and queues so
 * far. */
typedef struct
{
  GHashTable *live; /* maps a block's id to the TraceEvent that allocates the block */
  GArray *unused;   /* guints: free slots */
  guint64 active;   /* bytes of the blocks in use */
  /* Map the number of a thread or a queue to its index.  Indices count from 0, in the order in
   * which the numbers first appear. */
  GHashTable *threads, *queues;
} State;

static void
state_init (State *state)
{
  *state = (State){ .live = g_hash_table_new (g_int64_hash, g_int64_equal),
                    .unused = g_array_new (FALSE, FALSE, sizeof (guint)),
                    .threads = g_hash_table_new (g_int64_hash, g_int64_equal),
                    .queues = g_hash_table_new (g_int64_hash, g_int64_equal) };
}

static void
state_clear (State *state)
{
  g_hash_table_unref (state->live);
  g_array_unref (state->unused);
  g_hash_table_unref (state->threads);
  g_hash_table_unref (state->queues);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (State, state_clear)

void
trace_free (Trace *trace)
{
  g_free (trace->name);
  g_array_unref (trace->events);
  g_free (trace);
}

static gint
compare_times (gconstpointer a, gconstpointer b)
{
  const TraceEvent *left = a, *right = b;

  return left->time < right->time ? -1 : left->time > right->time;
}

static gboolean G_GNUC_PRINTF (3, 4)
    refuse (const TraceEvent *event, GError **error, const gchar *format, ...)
{
  g_autofree gchar *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, "line %u: %s", event->line, text);
  return FALSE;
}

static gboolean
add_allocation (Trace *trace, State *state, TraceEvent *event, GError **error)
{
  if (g_hash_table_contains (state->live, &event->id))
    return refuse (event, error, "block %" G_GUINT64_FORMAT " is allocated already", event->id);
  if (event->size > TRACE_MAX_ACTIVE || state->active + event->size > TRACE_MAX_ACTIVE)
    return refuse (event, error, "size %" G_GUINT64_FORMAT " is too large", event->size);
  if (state->unused->len > 0)
    {
      event->slot = g_array_index (state->unused, guint, state->unused->len - 1);
      g_array_set_size (state->unused, state->unused->len - 1);
    }
  else
    event->slot = trace->n_slots++;
  g_hash_table_insert (state->live, &event->id, event);
  state->active += event->size;
  trace->peak_active = MAX (trace->peak_active, state->active);
  event->block = (guint) trace->n_allocations++;
  return TRUE;
}

/* Adds an event that frees a block.  Sets the size of the event to that of the block. */
static gboolean
add_free (State *state, TraceEvent *event, GError **error)
{
  TraceEvent *allocation = g_hash_table_lookup (state->live, &event->id);

  if (allocation == NULL)
    return refuse (event, error, "block %" G_GUINT64_FORMAT " is not allocated", event->id);
  g_assert (allocation->slot < G_MAXUINT && allocation->size <= state->active);
  event->slot = allocation->slot;
  event->block = allocation->block;
  event->size = allocation->size;
  event->has_other_queue = event->queue != 0 && event->queue != allocation->queue;
  event->is_handed_on = allocation->is_handed_on = event->thread_index != allocation->thread_index;
  g_array_append_val (state->unused, event->slot);
  state->active -= event->size;
  g_hash_table_remove (state->live, &event->id);
  return TRUE;
}

/* Returns the index that @places has for the number of a thread or a queue.  Adds the number if it
 * is new.  Indices count from 0, in the order in which the numbers first appear. */
static guint
get_place (GHashTable *places, guint64 *number)
{
  gpointer place;

  if (!g_hash_table_lookup_extended (places, number, NULL, &place))
    {
      place = GUINT_TO_POINTER (g_hash_table_size (places));
      g_hash_table_insert (places, number, place);
    }
  return GPOINTER_TO_UINT (place);
}

Trace *
trace_new (const gchar *name, GArray *events, GError **error)
{
  g_autoptr (Trace) trace = g_new0 (Trace, 1);
  g_auto (State) state;

  state_init (&state);
  trace->name = g_strdup (name);
  trace->events = events;
  g_array_sort (events, compare_times); /* the sort is stable */
  for (guint i = 0; i < events->len; i++)
    {
      TraceEvent *event = &g_array_index (events, TraceEvent, i);

      event->thread_index = get_place (state.threads, &event->thread);
      event->queue_index = event->queue != 0 ? get_place (state.queues, &event->queue) + 1 : 0;
      if (!(event->is_free ? add_free (&state, event, error)
                           : add_allocation (trace, &state, event, error)))
        return NULL;
    }
  g_assert (state.unused->len + g_hash_table_size (state.live) == trace->n_slots);
  trace->n_threads = g_hash_table_size (state.threads);
  trace->n_queues = g_hash_table_size (state.queues);
  return g_steal_pointer (&trace);
}
