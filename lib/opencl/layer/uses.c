/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Uses: records of the commands that use a buffer.  A buffer keeps the latest command of each queue
 * in order, and every command of queues out of order. */

#include "layer-private.h"

/* Releases what a use refers to.  A replaced use may have no queue. */
static void
use_clear (LayerUse *use)
{
  if (use->event != NULL)
    _tarn_layer_release_event (use->event);
  _tarn_layer_unref (use->queue);
}

/* The number of uses of a buffer at which those that are done are dropped. */
#define MANY_USES 16

/* Returns TRUE if the commands of a use are done. */
static gboolean
is_over (const LayerUse *use)
{
  cl_int state = CL_QUEUED;

  if (_tarn_layer_queue_is_done (use->queue, use->number))
    return TRUE;
  return use->event != NULL
         && _tarn_layer_driver->clGetEventInfo (use->event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                                sizeof state, &state, NULL)
                == CL_SUCCESS
         && state <= CL_COMPLETE;
}

/* Adds a use.  If there are many by now, takes all out and returns them, for drop_done_uses (). */
static GArray *
add_use (LayerBuffer *self, const LayerUse *use)
{
  LAYER_LOCKED (&self->lock);
  GArray *all = NULL;

  self->uses = g_renew (LayerUse, self->uses, self->n_uses + 1);
  self->uses[self->n_uses++] = *use;
  if (self->n_uses >= MANY_USES && self->n_uses % MANY_USES == 0)
    {
      all = g_array_new (FALSE, FALSE, sizeof *use);
      g_array_append_vals (all, self->uses, self->n_uses);
      self->n_uses = 0;
    }
  return all;
}

/* Adds a use again that was taken out. */
static void
put_back (LayerBuffer *self, const LayerUse *use)
{
  LAYER_LOCKED (&self->lock);

  self->uses = g_renew (LayerUse, self->uses, self->n_uses + 1);
  self->uses[self->n_uses++] = *use;
}

/* Drops the uses that are done, and puts the others back.  Without it, uses of short-lived queues
 * and of those out of order would add up. */
static void
drop_done_uses (LayerBuffer *self, GArray *uses)
{
  for (guint i = 0; i < uses->len; i++)
    {
      LayerUse *use = &g_array_index (uses, LayerUse, i);

      if (is_over (use))
        use_clear (use);
      else
        put_back (self, use);
    }
  g_array_unref (uses);
}

/* Replaces an earlier use of the same queue, if the later one stands for both.  The one that is not
 * needed is left in @use.  Returns FALSE if there is none to replace. */
static gboolean
replace_use (LayerBuffer *self, LayerUse *use, gboolean in_order)
{
  LAYER_LOCKED (&self->lock);

  for (guint i = 0; i < self->n_uses; i++)
    if (self->uses[i].queue == use->queue && (in_order || self->uses[i].event == NULL))
      {
        LayerUse older = self->uses[i];

        if (older.number < use->number)
          {
            self->uses[i] = *use;
            *use = older;
          }
        return TRUE;
      }
  return FALSE;
}

/* Returns the event that a use keeps, with a reference.  Returns NULL if it needs none: on a queue
 * in order, the number of the command is enough. */
static cl_event
get_event (LayerBuffer *self, gboolean in_order, cl_event event, gboolean takes)
{
  if (event == NULL)
    return NULL;
  if (in_order && !__atomic_load_n (&self->is_watched, __ATOMIC_RELAXED))
    {
      if (takes)
        _tarn_layer_release_event (event);
      return NULL;
    }
  return takes || _tarn_layer_driver->clRetainEvent (event) == CL_SUCCESS ? event : NULL;
}

void
_tarn_layer_buffer_use (LayerBuffer *self, LayerQueue *queue, guint64 number, cl_event event,
                        gboolean takes)
{
  gboolean in_order = __atomic_load_n (&queue->in_order, __ATOMIC_ACQUIRE);
  LayerUse use = { _tarn_layer_ref (queue), number, get_event (self, in_order, event, takes) };
  GArray *all;

  if ((in_order || use.event == NULL) && replace_use (self, &use, in_order))
    {
      use_clear (&use);
      return;
    }
  all = add_use (self, &use);
  if (all != NULL)
    drop_done_uses (self, all);
}

void
_tarn_layer_buffer_forget_uses (LayerBuffer *self)
{
  for (guint i = 0; i < self->n_uses; i++)
    use_clear (&self->uses[i]);
  g_free (self->uses);
}
