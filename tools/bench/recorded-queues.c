/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Finds out how much work each queue of a recorded program had completed at a step.  If a block of
 * queue A is freed, and then serves queue B without a wait, then A must have completed an event
 * that was recorded on it after the free.  This file assumes that it was the first such event. */

#include "recorded.h"

/* The events of all queues. */
struct _RecordedQueues
{
  /* For each queue, an array with a guint32 for each of its events: the number of steps that had
   * begun when the event was recorded.  NULL: the queue has no event. */
  GPtrArray *marks;
};

static void
free_marks (gpointer marks)
{
  if (marks != NULL)
    g_array_unref (marks);
}

RecordedQueues *
recorded_queues_new (void)
{
  RecordedQueues *self = g_new0 (RecordedQueues, 1);

  self->marks = g_ptr_array_new_with_free_func (free_marks);
  return self;
}

void
recorded_queues_free (RecordedQueues *self)
{
  g_ptr_array_unref (self->marks);
  g_free (self);
}

void
recorded_queues_mark (RecordedQueues *self, guint queue, guint32 n_steps)
{
  if (queue >= self->marks->len)
    g_ptr_array_set_size (self->marks, (gint) queue + 1);
  if (self->marks->pdata[queue] == NULL)
    self->marks->pdata[queue] = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_array_append_val ((GArray *) self->marks->pdata[queue], n_steps);
}

guint32
recorded_queues_get_reached (const RecordedQueues *self, guint queue, guint32 since)
{
  const GArray *marks = queue < self->marks->len ? self->marks->pdata[queue] : NULL;
  guint low = 0, high = marks != NULL ? marks->len : 0;

  while (low < high)
    {
      guint middle = low + (high - low) / 2;

      if (g_array_index (marks, guint32, middle) < since)
        low = middle + 1;
      else
        high = middle;
    }
  return marks != NULL && low < marks->len ? g_array_index (marks, guint32, low) : since;
}
