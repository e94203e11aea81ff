/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The driver's sub-buffers for the blocks of a pool.  Each is a buffer of the program, or a spare:
 * a sub-buffer that no buffer of the program has any more.  The layer keeps spares, because a new
 * sub-buffer needs a call of the driver, which may wait for calls of other threads.
 *
 * A spare's memory is free in the pool: when the program's buffer ended, the layer freed its block.
 * The pool may give this memory to a buffer of another size, or return its piece, the driver's
 * large buffer, to the driver.  Before the layer makes a sub-buffer of the memory, or releases the
 * piece, it releases the spares there.  So no two sub-buffers overlap.  NVIDIA's driver 580 needs
 * that: it crashes when a sub-buffer is released if a later one has a part of its memory, and
 * commands used both.
 *
 * A spare's time is that at which the layer last looked at the age of spares, so that no release of
 * a buffer has to read the clock.
 *
 * The context's subs_lock guards the sub-buffers.  Invariants: each is in the tree until it is
 * released; the list spares has those with is_spare, the youngest first. */

#include "layer-private.h"

#define MAX_AGE (10 * G_TIME_SPAN_SECOND)

/* Compares places by their addresses.  Places that overlap are equal. */
static gint
compare_places (gconstpointer a, gconstpointer b)
{
  const LayerPlace *first = a, *second = b;

  if (first->address + first->size <= second->address)
    return -1;
  return second->address + second->size <= first->address;
}

void
_tarn_layer_subs_init (LayerContext *context)
{
  _tarn_mutex_init (&context->subs_lock);
  context->subs = g_tree_new (compare_places);
  g_queue_init (&context->spares);
}

void
_tarn_layer_subs_clear (LayerContext *context)
{
  g_assert (context->spares.length == 0 && g_tree_nnodes (context->subs) == 0);
  g_tree_unref (context->subs);
  _tarn_mutex_clear (&context->subs_lock);
}

/* The end */

static void
forget (LayerContext *context, const LayerSub *self)
{
  LAYER_LOCKED (&context->subs_lock);

  g_assert (!self->is_spare);
  g_tree_remove (context->subs, &self->place);
}

void
_tarn_layer_release_object (cl_mem handle)
{
  static gboolean once;

  if (_tarn_layer_driver->clReleaseMemObject (handle) != CL_SUCCESS)
    _tarn_layer_warn (&once, "clReleaseMemObject failed: memory may be lost");
}

void
_tarn_layer_sub_free (LayerContext *context, LayerSub *self)
{
  /* Forget it only after its release: meanwhile, no thread may make a sub-buffer of its memory. */
  _tarn_layer_release_object (self->handle);
  forget (context, self);
  g_free (self);
}

/* Makes a spare a sub-buffer that the calling thread is going to use or release. */
static void
take_locked (LayerContext *context, LayerSub *spare)
{
  _tarn_assert_locked (&context->subs_lock);
  g_queue_unlink (&context->spares, &spare->by_age);
  spare->is_spare = FALSE;
}

/* Takes the oldest spare, if its time is before @not_before.  Otherwise returns NULL. */
static LayerSub *
take_oldest (LayerContext *context, gint64 not_before)
{
  LAYER_LOCKED (&context->subs_lock);
  LayerSub *oldest = g_queue_peek_tail (&context->spares);

  if (oldest == NULL || oldest->time >= not_before)
    return NULL;
  take_locked (context, oldest);
  return oldest;
}

static void
drop_before (LayerContext *context, gint64 not_before)
{
  LayerSub *spare;

  while ((spare = take_oldest (context, not_before)) != NULL)
    _tarn_layer_sub_free (context, spare);
}

void
_tarn_layer_drop_spares (LayerContext *context)
{
  drop_before (context, G_MAXINT64);
}

/* Sets the time that sub-buffers get when they become spares from now on. */
static void
set_time (LayerContext *context, gint64 now)
{
  LAYER_LOCKED (&context->subs_lock);

  context->spares_time = now;
}

void
_tarn_layer_drop_old_spares (LayerContext *context, gint64 now)
{
  set_time (context, now);
  drop_before (context, now - MAX_AGE);
}

/* Takes the spares whose address is at least @start and less than @end. */
static GSList *
take_between (LayerContext *context, guint64 start, guint64 end)
{
  LAYER_LOCKED (&context->subs_lock);
  GSList *taken = NULL;
  GList *next;

  for (GList *link = context->spares.head; link != NULL; link = next)
    {
      LayerSub *spare = link->data;

      next = link->next;
      if (spare->place.address < start || spare->place.address >= end)
        continue;
      take_locked (context, spare);
      taken = g_slist_prepend (taken, spare);
    }
  return taken;
}

void
_tarn_layer_drop_spares_between (LayerContext *context, guint64 start, guint64 end)
{
  GSList *taken = take_between (context, start, end);

  for (GSList *link = taken; link != NULL; link = link->next)
    _tarn_layer_sub_free (context, link->data);
  g_slist_free (taken);
}

guint
_tarn_layer_count_spares (LayerContext *context)
{
  LAYER_LOCKED (&context->subs_lock);

  return context->spares.length;
}

/* The beginning */

/* Takes a spare that overlaps a place.  Returns NULL if there is none.  Sets *is_busy if another
 * thread has yet to release a sub-buffer there. */
static LayerSub *
take_overlapping (LayerContext *context, const LayerPlace *place, gboolean *is_busy)
{
  LAYER_LOCKED (&context->subs_lock);
  LayerSub *found = g_tree_lookup (context->subs, place);

  *is_busy = found != NULL && !found->is_spare;
  if (found == NULL || *is_busy)
    return NULL;
  take_locked (context, found);
  return found;
}

static gboolean
are_equal (const LayerPlace *a, const LayerPlace *b)
{
  return a->address == b->address && a->size == b->size && a->asked == b->asked;
}

/* Takes the spare of a place, if there is one.  Otherwise returns NULL, and releases the spares
 * that overlap the place.  Sets *is_busy if another thread has yet to release a sub-buffer there.
 */
static LayerSub *
take_spare (LayerContext *context, const LayerPlace *place, gboolean *is_busy)
{
  LayerSub *spare;

  while ((spare = take_overlapping (context, place, is_busy)) != NULL
         && !are_equal (&spare->place, place))
    _tarn_layer_sub_free (context, spare);
  return spare;
}

/* Makes the driver's sub-buffer.  Returns NULL if the driver refuses it. */
static cl_mem
make_handle (LayerContext *context, const TarnBlock *block, const LayerPlace *place)
{
  cl_buffer_region region = { 0, place->size };
  cl_mem piece = _tarn_layer_find_piece (context, block, &region.origin);
  cl_int status;

  return _tarn_layer_driver->clCreateSubBuffer (
      piece, place->asked & (LAYER_ACCESS_FLAGS | LAYER_HOST_FLAGS), CL_BUFFER_CREATE_TYPE_REGION,
      &region, &status);
}

static void
add (LayerContext *context, LayerSub *self)
{
  LAYER_LOCKED (&context->subs_lock);

  g_assert (g_tree_lookup (context->subs, &self->place) == NULL);
  g_tree_insert (context->subs, &self->place, self);
}

/* Makes a sub-buffer for a block.  Returns NULL if the driver refuses it. */
static LayerSub *
make (LayerContext *context, const TarnBlock *block, const LayerPlace *place)
{
  cl_mem handle = make_handle (context, block, place);
  LayerSub *made;

  if (handle == NULL)
    return NULL;
  LAYER_COUNT (sub_buffers);
  made = g_new0 (LayerSub, 1);
  made->place = *place;
  made->handle = handle;
  made->by_age.data = made;
  add (context, made);
  if (_tarn_layer_ask_flags (context, place->asked, &made->flags) == CL_SUCCESS)
    return made;
  _tarn_layer_sub_free (context, made);
  return NULL;
}

LayerSub *
_tarn_layer_sub_get (LayerContext *context, const TarnBlock *block, cl_mem_flags asked)
{
  LayerPlace place = _tarn_layer_get_place (context, block, asked);
  gboolean is_busy;
  LayerSub *spare = take_spare (context, &place, &is_busy);

  /* Check whether the layer is blind after the allocation, not before.  If it is not blind now, it
   * has seen all commands that used the block. */
  if (spare != NULL || is_busy || _tarn_layer_is_blind ())
    return spare;
  return make (context, block, &place);
}

/* Makes a sub-buffer a spare.  Returns FALSE if the context keeps no spares any more, because it
 * has ended or because the layer is blind (_tarn_layer_is_blind ()). */
static gboolean
try_keep (LayerContext *context, LayerSub *self)
{
  LAYER_LOCKED (&context->subs_lock);

  if (__atomic_load_n (&context->ended, __ATOMIC_ACQUIRE) || _tarn_layer_is_blind ())
    return FALSE;
  g_assert (!self->is_spare);
  self->is_spare = TRUE;
  self->time = context->spares_time;
  g_queue_push_head_link (&context->spares, &self->by_age);
  return TRUE;
}

void
_tarn_layer_sub_keep (LayerContext *context, LayerSub *self)
{
  if (!try_keep (context, self))
    _tarn_layer_sub_free (context, self);
}
