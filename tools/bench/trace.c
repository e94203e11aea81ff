/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "trace.h"

#include <tarn/tarn.h>

/* While a trace is checked: what is allocated, and which slots are not taken. */
typedef struct
{
  GHashTable *live; /* from the id of a block to its TraceEvent */
  GArray *unused;   /* of guint: slots */
  guint64 active;   /* bytes */
} State;

static void
state_clear (State *state)
{
  g_hash_table_unref (state->live);
  g_array_unref (state->unused);
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
  /* So that no sum of what a pool makes of it overflows. */
  if (event->size > G_MAXINT64 / 4 || state->active + event->size > G_MAXINT64 / 4)
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
  trace->n_allocations++;
  return TRUE;
}

/* The event is told its block's size, too. */
static gboolean
add_free (State *state, TraceEvent *event, GError **error)
{
  const TraceEvent *allocation = g_hash_table_lookup (state->live, &event->id);

  if (allocation == NULL)
    return refuse (event, error, "block %" G_GUINT64_FORMAT " is not allocated", event->id);
  event->slot = allocation->slot;
  event->size = allocation->size;
  g_array_append_val (state->unused, event->slot);
  state->active -= event->size;
  g_hash_table_remove (state->live, &event->id);
  return TRUE;
}

Trace *
trace_new (const gchar *name, GArray *events, GError **error)
{
  g_autoptr (Trace) trace = g_new0 (Trace, 1);
  g_auto (State) state = { g_hash_table_new (g_int64_hash, g_int64_equal),
                           g_array_new (FALSE, FALSE, sizeof (guint)), 0 };

  trace->name = g_strdup (name);
  trace->events = events;
  g_array_sort (events, compare_times); /* stable */
  for (guint i = 0; i < events->len; i++)
    {
      TraceEvent *event = &g_array_index (events, TraceEvent, i);

      if (!(event->is_free ? add_free (&state, event, error)
                           : add_allocation (trace, &state, event, error)))
        return NULL;
    }
  return g_steal_pointer (&trace);
}
