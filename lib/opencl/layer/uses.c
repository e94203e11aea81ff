/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Uses: the records of the commands that use a buffer.  After the program has released the buffer,
 * the layer destroys the buffer only when the commands of its uses are done.  A use has the queue
 * and number of its command, and perhaps the command's event.  The buffer keeps these uses:
 *
 * - For an in-order queue, usually only the use of the latest command.
 * - For an out-of-order queue, the uses of all commands.
 * - If the buffer has destructor callbacks, the uses of all commands of any queue, each with its
 *   event.  The reason is that a command that fails may be done before earlier commands of its
 *   queue.  With PoCL 3.1, even a marker after the failed command completes before those earlier
 *   commands. */

#include "layer-private.h"

/* Releases a use's references.  A use whose queue is NULL has no references. */
static void
use_clear (LayerUse *use)
{
  if (use->event != NULL)
    _tarn_layer_release_event (use->event);
  _tarn_layer_unref (use->queue);
}

/* The number of a buffer's uses (records of commands that use the buffer) at which the layer drops
 * the uses whose commands are done.  It does so again at 32 uses, 64 uses, and so on.  So if a
 * buffer has many unfinished commands, the layer does not ask the driver about all of them at each
 * new use. */
#define MANY_USES 16

/* Returns TRUE if the commands that a use stands for are done. */
static gboolean
is_over (const LayerUse *use)
{
  return _tarn_layer_queue_is_done (use->queue, use->number)
         || (use->event != NULL && _tarn_layer_get_state (use->event) <= CL_COMPLETE);
}

/* Adds a use to a buffer.  The caller holds the buffer's lock. */
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

/* Adds a use to a buffer again, after take_many_locked () has removed it. */
static void
put_back (LayerBuffer *self, const LayerUse *use)
{
  TARN_LOCKED (&self->lock);

  add_locked (self, use);
}

/* Removes all uses (records of commands) from a buffer and returns them, if their number is a power
 * of two and at least MANY_USES.  Otherwise returns NULL.  The caller holds the buffer's lock. */
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

/* Drops each use in the array @uses whose commands are done, and adds the other uses to the buffer
 * again.  A use records commands that use the buffer.  Without this function a buffer would collect
 * the uses of short-lived queues and of out-of-order queues. */
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

/* Merges *use, the record of a command, with the buffer's use of the same queue, if there is one.
 * Only uses without an event are merged: such a use stands for all commands of its queue up to its
 * number, so the buffer needs only one for each queue.  Keeps the later of the two uses, sets *use
 * to the earlier one, and returns TRUE.  Returns FALSE if there is nothing to merge.  The caller
 * holds the buffer's lock. */
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

/* Adds *use, the record of a command, to a buffer, and sets *use to an empty record.  But if the
 * buffer has a use that can be merged with *use (see replace_locked ()), the buffer keeps the later
 * of these two, and *use becomes the earlier one.  In both cases the caller must clear *use.
 *
 * Returns all uses of the buffer if it is time to drop uses (see MANY_USES); the caller must pass
 * them to drop_done_uses ().  Otherwise returns NULL. */
static GArray *
note_use (LayerBuffer *self, LayerUse *use)
{
  TARN_LOCKED (&self->lock);

  if (replace_locked (self, use))
    return NULL;
  add_locked (self, use);
  *use = (LayerUse){ .queue = NULL };
  return take_many_locked (self);
}

/* Returns a reference to the event that a use (the record of a command) shall have.  Returns NULL
 * if the queue is in order and the buffer has no destructor callbacks: then the use needs only the
 * command's number, no event.  @takes: TRUE if the function takes over the caller's reference to
 * @event. */
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
