/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The driver's sub-buffers for the blocks of a pool.  Each of them is either a buffer of the
 * program, or a spare: it was a buffer of the program, and the layer keeps it for a later buffer.
 * The layer keeps spares because making a new sub-buffer needs a call of the driver, which may wait
 * for calls of other threads.
 *
 * When the program's buffer ended, the layer freed the buffer's block but kept the sub-buffer.  So
 * the memory of a spare is free in the pool.  The pool may give this memory to a buffer of another
 * size, or return its piece, the driver's large buffer, to the driver.  Before the layer makes a
 * sub-buffer of the memory, or releases the piece, it releases the spares of that memory.  So no
 * two of the layer's sub-buffers overlap.  NVIDIA's driver 580 needs that.  If commands have used
 * two overlapping sub-buffers, the driver crashes when the older one is released.
 *
 * A spare's time is the time at which the layer last looked at the age of spares, not the time of
 * the buffer's release.  So the release of a buffer need not read the clock.
 *
 * The context's subs_lock guards the sub-buffers.  Invariants: each sub-buffer is in the tree until
 * it is released; the list of spares has the sub-buffers with is_spare, the youngest first. */

#include "layer-private.h"

#define MAX_AGE (10 * G_TIME_SPAN_SECOND)

/* Compares the keys (LayerPlace) of two sub-buffers by address.  Keys count as equal if their
 * ranges of bytes overlap, so a lookup in the tree finds a sub-buffer that overlaps the wanted
 * range. */
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

/* Functions that release sub-buffers */

static void
forget (LayerContext *context, const LayerSub *self)
{
  TARN_LOCKED (&context->subs_lock);

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
  /* Remove the sub-buffer from the tree only after its release.  As long as the sub-buffer is in
   * the tree, no other thread makes a sub-buffer of the same memory. */
  _tarn_layer_release_object (self->handle);
  forget (context, self);
  g_free (self);
}

/* Removes a spare sub-buffer from the list of spares, because the calling thread is going to use it
 * or release it.  The sub-buffer stays in the tree.  The caller holds subs_lock. */
static void
take_locked (LayerContext *context, LayerSub *spare)
{
  _tarn_assert_locked (&context->subs_lock);
  g_queue_unlink (&context->spares, &spare->by_age);
  spare->is_spare = FALSE;
}

/* If the time of the oldest spare sub-buffer is before @not_before, removes this spare from the
 * list of spares and returns it.  Otherwise returns NULL. */
static LayerSub *
take_oldest (LayerContext *context, gint64 not_before)
{
  TARN_LOCKED (&context->subs_lock);
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

/* Sets the time of the sub-buffers that become spares after this call.  The age of a spare counts
 * from its time. */
static void
set_time (LayerContext *context, gint64 now)
{
  TARN_LOCKED (&context->subs_lock);

  context->spares_time = now;
}

void
_tarn_layer_drop_old_spares (LayerContext *context, gint64 now)
{
  set_time (context, now);
  drop_before (context, now - MAX_AGE);
}

/* Removes the spares whose address is at least @start and less than @end from the list of spares,
 * and returns them. */
static GSList *
take_between (LayerContext *context, guint64 start, guint64 end)
{
  TARN_LOCKED (&context->subs_lock);
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
  TARN_LOCKED (&context->subs_lock);

  return context->spares.length;
}

/* Functions that make sub-buffers */

/* Removes a spare sub-buffer that overlaps the range of bytes of @place from the list of spares,
 * and returns the spare.  Returns NULL if no spare overlaps this range.  Sets *is_busy to TRUE if
 * another thread has yet to release a sub-buffer that overlaps this range, otherwise to FALSE. */
static LayerSub *
take_overlapping (LayerContext *context, const LayerPlace *place, gboolean *is_busy)
{
  TARN_LOCKED (&context->subs_lock);
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

/* Removes the spare sub-buffer with the key @place from the list of spares, and returns the spare.
 * If there is no such spare, releases the spares that overlap the range of bytes of @place, and
 * returns NULL.  Sets *is_busy to TRUE if another thread has yet to release a sub-buffer that
 * overlaps this range, otherwise to FALSE. */
static LayerSub *
take_spare (LayerContext *context, const LayerPlace *place, gboolean *is_busy)
{
  LayerSub *spare;

  while ((spare = take_overlapping (context, place, is_busy)) != NULL
         && !are_equal (&spare->place, place))
    _tarn_layer_sub_free (context, spare);
  return spare;
}

/* Makes the driver create a sub-buffer for a block.  Returns NULL if the driver refuses it. */
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
  TARN_LOCKED (&context->subs_lock);

  g_assert (g_tree_lookup (context->subs, &self->place) == NULL);
  g_tree_insert (context->subs, &self->place, self);
}

/* Makes a sub-buffer for a block, and adds it to the tree.  Returns NULL if the driver refuses
 * it. */
static LayerSub *
make (LayerContext *context, const TarnBlock *block, const LayerPlace *place)
{
  cl_mem handle = make_handle (context, block, place);
  LayerSub *made;

  if (handle == NULL)
    return NULL;
  LAYER_COUNT (sub_buffers);
  made = g_new (LayerSub, 1); /* g_new0 () would clear the struct needlessly */
  *made = (LayerSub){ .place = *place, .handle = handle, .by_age.data = made };
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

  /* The layer is blind if the program may use buffers by functions that the layer does not know.
   * Check this only now, after the pool has allocated the block: the program may have used the
   * block's former buffer by such a function until it released that buffer.  If the layer is not
   * blind now, it has seen every command that used the block. */
  if (spare != NULL || is_busy || _tarn_layer_is_blind ())
    return spare;
  return make (context, block, &place);
}

/* Makes a sub-buffer a spare: keeps it for a later buffer.  Returns FALSE if the context keeps no
 * spares any more, because the program has released the context, or because the program may use
 * buffers by functions that the layer does not know (_tarn_layer_is_blind ()). */
static gboolean
try_keep (LayerContext *context, LayerSub *self)
{
  TARN_LOCKED (&context->subs_lock);

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
