/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Uses: records of the commands that use a buffer.  A buffer keeps the latest command of each queue
 * in order.  It keeps every command of queues out of order, and every one if it has callbacks: a
 * command that fails may be done before earlier ones of its queue.  With PoCL 3.1, even a marker
 * behind it is then complete before they are. */

#include "layer-private.h"

/* Releases what a use refers to, if it has a queue. */
static void
use_clear (LayerUse *use)
{
  if (use->event != NULL)
    _tarn_layer_release_event (use->event);
  _tarn_layer_unref (use->queue);
}

/* The number of uses of a buffer at which those that are done are dropped; also at each of its
 * doubles, so that a buffer with many commands in progress does not ask about all of them again and
 * again. */
#define MANY_USES 16

/* Returns TRUE if the commands of a use are done. */
static gboolean
is_over (const LayerUse *use)
{
  return _tarn_layer_queue_is_done (use->queue, use->number)
         || (use->event != NULL && _tarn_layer_get_state (use->event) <= CL_COMPLETE);
}

/* Adds a use, with the buffer's lock held. */
static void
add_locked (LayerBuffer *self, const LayerUse *use)
{
  _tarn_assert_locked (&self->lock);
  g_assert (!self->ended);
  if (self->n_uses == 1 && self->uses == NULL)
    {
      self->uses = g_new (LayerUse, 2);
      self->uses[0] = self->use;
    }
  else if (self->uses != NULL)
    self->uses = g_renew (LayerUse, self->uses, self->n_uses + 1);
  _tarn_layer_buffer_get_uses (self)[self->n_uses++] = *use;
}

/* Adds a use again that was taken out. */
static void
put_back (LayerBuffer *self, const LayerUse *use)
{
  LAYER_LOCKED (&self->lock);

  add_locked (self, use);
}

/* Takes all uses out if there are many, with the buffer's lock held.  Returns NULL if not. */
static GArray *
take_many_locked (LayerBuffer *self)
{
  GArray *all;

  _tarn_assert_locked (&self->lock);
  if (self->n_uses < MANY_USES || (self->n_uses & (self->n_uses - 1)) != 0)
    return NULL;
  all = g_array_new (FALSE, FALSE, sizeof (LayerUse));
  g_array_append_vals (all, self->uses, self->n_uses);
  self->n_uses = 0;
  return all;
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

/* Replaces an earlier use of the same queue if the later one stands for both: neither has an event.
 * The one that is not needed is left in @use.  Returns FALSE if there is none to replace.  The
 * buffer's lock is held. */
static gboolean
replace_locked (LayerBuffer *self, LayerUse *use)
{
  LayerUse *uses = _tarn_layer_buffer_get_uses (self);

  _tarn_assert_locked (&self->lock);
  for (guint i = 0; use->event == NULL && i < self->n_uses; i++)
    if (uses[i].queue == use->queue && uses[i].event == NULL)
      {
        LayerUse older = uses[i];

        if (older.number < use->number)
          {
            uses[i] = *use;
            *use = older;
          }
        return TRUE;
      }
  return FALSE;
}

/* Adds a use, or replaces an earlier one, which is left in @use then; otherwise no queue is left
 * there.  If there are many by now, takes all out and returns them, for drop_done_uses (). */
static GArray *
note_use (LayerBuffer *self, LayerUse *use)
{
  LAYER_LOCKED (&self->lock);

  if (replace_locked (self, use))
    return NULL;
  add_locked (self, use);
  *use = (LayerUse){ .queue = NULL };
  return take_many_locked (self);
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
  LayerUse use = { .queue = _tarn_layer_ref (queue),
                   .number = number,
                   .event = get_event (self, in_order, event, takes) };
  GArray *all = note_use (self, &use);

  use_clear (&use);
  if (all != NULL)
    drop_done_uses (self, all);
}

void
_tarn_layer_buffer_forget_uses (LayerBuffer *self)
{
  for (guint i = 0; i < self->n_uses; i++)
    use_clear (&_tarn_layer_buffer_get_uses (self)[i]);
  g_free (self->uses);
}
