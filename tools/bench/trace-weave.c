/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Weaves several traces into one. */

#include <string.h>
#include <tarn/tarn.h>

#include "trace.h"

static const TraceEvent *
get_event (const Trace *trace, guint i)
{
  return &g_array_index (trace->events, TraceEvent, i);
}

/* Gets the nanoseconds from the first event to the last. */
static guint64
get_length (const Trace *trace)
{
  return get_event (trace, trace->events->len - 1)->time - get_event (trace, 0)->time;
}

static guint64
get_greatest_length (const GPtrArray *traces)
{
  guint64 greatest = 0;

  for (guint i = 0; i < traces->len; i++)
    greatest = MAX (greatest, get_length (g_ptr_array_index (traces, i)));
  return greatest;
}

/* Joins names: "resnet.csv" and "gpt.csv.gz" become "resnet+gpt". */
static gchar *
join_names (const GPtrArray *traces)
{
  static const gchar *const endings[] = { ".gz", ".csv" };
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < traces->len; i++)
    {
      const Trace *trace = g_ptr_array_index (traces, i);

      g_string_append_printf (text, "%s%s", i > 0 ? "+" : "", trace->name);
      for (guint j = 0; j < G_N_ELEMENTS (endings); j++)
        if (g_str_has_suffix (text->str, endings[j]))
          g_string_truncate (text, text->len - strlen (endings[j]));
    }
  return g_string_free (text, FALSE);
}

/* The numbers that the first block, thread and queue of a trace get in the woven trace. */
typedef struct
{
  guint64 block, thread, queue;
} Numbers;

/* Returns the time that an event at @time gets if its trace is stretched from @own to @length
 * nanoseconds. */
static guint64
scale_time (guint64 time, guint64 own, guint64 length)
{
  gdouble scaled = own > 0 ? (gdouble) time / (gdouble) own * (gdouble) length : 0;

  return scaled >= (gdouble) length ? length : (guint64) scaled;
}

/* Returns the event of the woven trace for an event of @trace, with its new time, block, thread and
 * queue.  Stretches @trace to @length nanoseconds.  Events of one trace keep their order. */
static TraceEvent
move_event (const TraceEvent *event, const Trace *trace, guint64 length, const Numbers *first)
{
  guint64 time = event->time - get_event (trace, 0)->time;
  TraceEvent moved = { .time = scale_time (time, get_length (trace), length),
                       .id = first->block + event->block,
                       .size = event->size,
                       .thread = first->thread + event->thread_index,
                       .queue = first->queue + event->queue_index,
                       .is_free = event->is_free };

  if (event->is_free && event->queue_index == 0)
    moved.queue = 0; /* a free without a queue is a free on the block's queue */
  return moved;
}

static gboolean
check_sizes (const GPtrArray *traces, const gchar *name, GError **error)
{
  guint64 room = TRACE_MAX_ACTIVE;

  for (guint i = 0; i < traces->len; i++)
    {
      const Trace *trace = g_ptr_array_index (traces, i);

      if (trace->peak_active > room)
        {
          g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                       "%s: the %" G_GUINT64_FORMAT " bytes that %s has in use are too many for one"
                       " trace",
                       name, trace->peak_active, trace->name);
          return FALSE;
        }
      room -= trace->peak_active;
    }
  return TRUE;
}

Trace *
traces_weave (const GPtrArray *traces, GError **error)
{
  g_autofree gchar *name = join_names (traces);
  guint64 length = get_greatest_length (traces);
  Numbers first = { 0, 1, 1 };
  GArray *events;

  if (!check_sizes (traces, name, error))
    return NULL;
  events = g_array_new (FALSE, FALSE, sizeof (TraceEvent));
  for (guint i = 0; i < traces->len; i++)
    {
      const Trace *trace = g_ptr_array_index (traces, i);

      for (guint j = 0; j < trace->events->len; j++)
        {
          TraceEvent moved = move_event (get_event (trace, j), trace, length, &first);

          g_array_append_val (events, moved);
        }
      first.block += trace->n_allocations;
      first.thread += trace->n_threads;
      first.queue += trace->n_queues + 1;
    }
  return trace_new (name, events, error);
}
