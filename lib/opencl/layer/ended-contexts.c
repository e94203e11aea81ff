/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Ended contexts: contexts that the program has released, but in which the layer still has records
 * of queues or buffers.  The driver keeps such a context alive, so the program may still make
 * queues and user events in it, and the layer then needs the context's record.  The record is not
 * in the table of contexts, where a context's handle is its key, because the driver may give the
 * handle to a new context as soon as the ended one is gone. */

#include "layer-private.h"

static TarnMutex lock;
/* The records of ended contexts.  The array has no references to them.  NULL until the first
 * context is added. */
static GPtrArray *ended;

void
_tarn_layer_list_ended (LayerContext *self)
{
  TARN_LOCKED (&lock);

  if (ended == NULL)
    ended = g_ptr_array_new ();
  g_ptr_array_add (ended, self);
}

void
_tarn_layer_unlist_ended (LayerContext *self)
{
  TARN_LOCKED (&lock);

  if (ended != NULL)
    g_ptr_array_remove (ended, self);
}

/* Returns a reference to the record of the ended context that had the handle @handle.  If several
 * had it, chooses the newest.  Returns NULL if there is none. */
static LayerContext *
find_ended (cl_context handle)
{
  TARN_LOCKED (&lock);

  for (guint i = ended != NULL ? ended->len : 0; i > 0; i--)
    {
      LayerContext *self = g_ptr_array_index (ended, i - 1);

      if (self->base.handle == handle && _tarn_layer_try_ref (self))
        return self;
    }
  return NULL;
}

LayerContext *
_tarn_layer_find_context (cl_context handle)
{
  LayerContext *found = _tarn_layer_find (LAYER_CONTEXT, handle);

  return found != NULL ? found : find_ended (handle);
}
