/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Spares: sub-buffers that no buffer of the program's needs any more, for the next buffer that gets
 * the same memory.  Their memory is the pool's again: each buffer of the program is one request and
 * one free there, and what has a spare may go to a buffer of another size, too, or to the driver
 * with its piece, before which the piece's spares go.  A driver's call may wait for all that other
 * threads ask of the driver meanwhile, and a buffer that finds a spare needs none.
 *
 * Invariants, under the context's spares_lock: each spare is in the table and in by_age, the
 * youngest first; spare_bytes is the sum of their sizes. */

#include "layer-private.h"

#define OVERLAP 4 /* number of spares that may have the same byte of a piece, on average */
#define MAX_AGE (10 * G_TIME_SPAN_SECOND)

static guint
hash_place (gconstpointer data)
{
  const LayerPlace *place = data;

  return g_int64_hash (&place->address) ^ (guint) (place->size * 31 + place->asked);
}

static gboolean
equal_places (gconstpointer a, gconstpointer b)
{
  const LayerPlace *first = a, *second = b;

  return first->address == second->address && first->size == second->size
         && first->asked == second->asked;
}

void
_tarn_layer_spares_init (LayerContext *context)
{
  _tarn_mutex_init (&context->spares_lock);
  context->spares = g_hash_table_new (hash_place, equal_places);
  g_queue_init (&context->spares_by_age);
}

void
_tarn_layer_spares_clear (LayerContext *context)
{
  g_assert (context->spares_by_age.length == 0);
  g_hash_table_unref (context->spares);
  _tarn_mutex_clear (&context->spares_lock);
}

static void
remove_locked (LayerContext *context, LayerSpare *spare)
{
  g_hash_table_remove (context->spares, &spare->place);
  g_queue_unlink (&context->spares_by_age, &spare->by_age);
  context->spare_bytes -= spare->place.size;
}

/* Takes the oldest out if there are more bytes, or if it is too old; NULL: neither. */
static LayerSpare *
take_oldest (LayerContext *context, gsize most_bytes, gint64 not_before)
{
  LAYER_LOCKED (&context->spares_lock);
  LayerSpare *oldest = g_queue_peek_tail (&context->spares_by_age);

  if (oldest == NULL || (context->spare_bytes <= most_bytes && oldest->time >= not_before))
    return NULL;
  remove_locked (context, oldest);
  return oldest;
}

static void
spare_free (gpointer data)
{
  static gboolean once;
  LayerSpare *spare = data;

  if (_tarn_layer_driver->clReleaseMemObject (spare->handle) != CL_SUCCESS)
    _tarn_layer_warn (&once, "clReleaseMemObject failed: a sub-buffer may be lost");
  g_free (spare);
}

void
_tarn_layer_drop_spares (LayerContext *context, gsize most_bytes)
{
  gint64 not_before = g_get_monotonic_time () - MAX_AGE;
  LayerSpare *spare;

  while ((spare = take_oldest (context, most_bytes, not_before)) != NULL)
    spare_free (spare);
}

static GSList *
take_between (LayerContext *context, guint64 start, guint64 end)
{
  LAYER_LOCKED (&context->spares_lock);
  GSList *taken = NULL;
  GList *next;

  for (GList *link = context->spares_by_age.head; link != NULL; link = next)
    {
      LayerSpare *spare = link->data;

      next = link->next;
      if (spare->place.address < start || spare->place.address >= end)
        continue;
      remove_locked (context, spare);
      taken = g_slist_prepend (taken, spare);
    }
  return taken;
}

void
_tarn_layer_drop_spares_between (LayerContext *context, guint64 start, guint64 end)
{
  g_slist_free_full (take_between (context, start, end), spare_free);
}

LayerSpare *
_tarn_layer_take_spare (LayerContext *context, const LayerPlace *place)
{
  LAYER_LOCKED (&context->spares_lock);
  LayerSpare *spare = g_hash_table_lookup (context->spares, place);

  if (spare != NULL)
    remove_locked (context, spare);
  return spare;
}

guint
_tarn_layer_count_spares (LayerContext *context)
{
  LAYER_LOCKED (&context->spares_lock);

  return context->spares_by_age.length;
}

/* FALSE: nothing is kept any more. */
static gboolean
put (LayerContext *context, LayerSpare *spare)
{
  LAYER_LOCKED (&context->spares_lock);

  if (__atomic_load_n (&context->ended, __ATOMIC_ACQUIRE) || _tarn_layer_is_blind ())
    return FALSE;
  /* The memory is still the buffer's, so that nobody else can have left one. */
  g_assert (!g_hash_table_contains (context->spares, &spare->place));
  g_hash_table_insert (context->spares, &spare->place, spare);
  g_queue_push_head_link (&context->spares_by_age, &spare->by_age);
  context->spare_bytes += spare->place.size;
  return TRUE;
}

void
_tarn_layer_keep_spare (LayerContext *context, const LayerBuffer *buffer)
{
  LayerSpare *spare = g_new0 (LayerSpare, 1);

  spare->place = _tarn_layer_get_place (context, buffer->block, buffer->asked);
  spare->handle = buffer->base.handle;
  spare->flags = buffer->flags;
  spare->time = g_get_monotonic_time ();
  spare->by_age.data = spare;
  if (!put (context, spare))
    spare_free (spare);
  else
    _tarn_layer_drop_spares (context,
                             OVERLAP * __atomic_load_n (&context->piece_bytes, __ATOMIC_RELAXED));
}
