/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Simulates queues by counting steps. */

#include "simulated-queues.h"

#include "ring.h"

/* A counter of the steps that a thread has begun.  Only that thread writes it. */
typedef struct
{
  guint64 n_steps; /* atomic */
  gchar apart[CACHE_LINE_PAIR];
} Steps;

/* The queues of a replay. */
struct _SimulatedQueues
{
  GPtrArray *queues; /* elements of type Queue */
  Steps *steps;      /* an array with an element for each thread */
  guint n_threads;
  guint64 lag; /* number of steps by which the device is behind the host */
};

/* A simulated queue. */
typedef struct
{
  const SimulatedQueues *of;
  /* Atomic.  All work that was put on the queue within the first @awaited steps is complete. */
  guint64 awaited;
} Queue;

/* An event.  It is complete when all earlier work of a queue, or of all queues, is complete. */
typedef struct
{
  const SimulatedQueues *of;
  Queue *queue; /* NULL if the event is on all queues */
  guint64 step; /* number of steps that had begun when the event was recorded */
} Event;

SimulatedQueues *
simulated_queues_new (guint64 lag)
{
  SimulatedQueues *queues = g_new0 (SimulatedQueues, 1);

  queues->lag = lag;
  queues->queues = g_ptr_array_new_with_free_func (g_free);
  return queues;
}

void
simulated_queues_free (SimulatedQueues *queues)
{
  g_ptr_array_unref (queues->queues);
  g_free (queues->steps);
  g_free (queues);
}

gpointer
simulated_queues_add (SimulatedQueues *queues)
{
  Queue *queue = g_new0 (Queue, 1);

  queue->of = queues;
  g_ptr_array_add (queues->queues, queue);
  return queue;
}

void
simulated_queues_begin (SimulatedQueues *queues, guint n_threads)
{
  g_free (queues->steps);
  queues->steps = g_new0 (Steps, n_threads);
  queues->n_threads = n_threads;
  for (guint i = 0; i < queues->queues->len; i++)
    ((Queue *) g_ptr_array_index (queues->queues, i))->awaited = 0;
}

void
simulated_queues_step (SimulatedQueues *queues, guint thread)
{
  Steps *steps = &queues->steps[thread];

  __atomic_store_n (&steps->n_steps, steps->n_steps + 1, __ATOMIC_RELAXED);
}

void
simulated_queues_reach (gpointer data, guint64 n_steps)
{
  guint64 *awaited = &((Queue *) data)->awaited;
  guint64 before = __atomic_load_n (awaited, __ATOMIC_RELAXED);

  while (before < n_steps
         && !__atomic_compare_exchange_n (awaited, &before, n_steps, FALSE, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED))
    ;
}

static guint64
count_steps (const SimulatedQueues *queues)
{
  guint64 n = 0;

  for (guint i = 0; i < queues->n_threads; i++)
    n += __atomic_load_n (&queues->steps[i].n_steps, __ATOMIC_RELAXED);
  return n;
}

/* Functions for TarnAllocatorOps */

static gboolean
queue_ref (gpointer unused, gpointer queue, gboolean *in_order, GError **error)
{
  (void) unused;
  (void) queue;
  (void) error;
  *in_order = TRUE;
  return TRUE;
}

static void
queue_unref (gpointer unused, gpointer queue)
{
  (void) unused;
  (void) queue;
}

static gpointer
event_record (gpointer unused, gpointer queue, GError **error)
{
  Event *event = g_new (Event, 1);

  (void) unused;
  (void) error;
  event->queue = queue;
  event->of = event->queue->of;
  event->step = count_steps (event->of);
  return event;
}

gpointer
simulated_queues_record_all (SimulatedQueues *queues)
{
  Event *event = g_new (Event, 1);

  *event = (Event){ queues, NULL, count_steps (queues) };
  return event;
}

static gboolean
has_reached (const Queue *queue, guint64 n_steps)
{
  return n_steps <= __atomic_load_n (&queue->awaited, __ATOMIC_RELAXED);
}

static gboolean
have_all_reached (const SimulatedQueues *queues, guint64 n_steps)
{
  for (guint i = 0; i < queues->queues->len; i++)
    if (!has_reached (g_ptr_array_index (queues->queues, i), n_steps))
      return FALSE;
  return TRUE;
}

static gboolean
event_is_done (gpointer unused, gpointer data)
{
  const Event *event = data;

  (void) unused;
  if (count_steps (event->of) - event->step >= event->of->lag)
    return TRUE;
  return event->queue != NULL ? has_reached (event->queue, event->step)
                              : have_all_reached (event->of, event->step);
}

static gboolean
event_wait (gpointer unused, gpointer data, gpointer queue, GError **error)
{
  const Event *event = data;

  (void) unused;
  (void) error;
  for (guint i = 0; i < event->of->queues->len && queue == NULL; i++)
    if (event->queue == NULL || event->queue == g_ptr_array_index (event->of->queues, i))
      simulated_queues_reach (g_ptr_array_index (event->of->queues, i), event->step);
  return TRUE;
}

static void
event_release (gpointer unused, gpointer event)
{
  (void) unused;
  g_free (event);
}

void
simulated_queues_set_ops (TarnAllocatorOps *ops)
{
  ops->queue_ref = queue_ref;
  ops->queue_unref = queue_unref;
  ops->event_record = event_record;
  ops->event_is_done = event_is_done;
  ops->event_wait = event_wait;
  ops->event_release = event_release;
}
