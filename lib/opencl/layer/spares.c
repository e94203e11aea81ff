/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Spares: sub-buffers that no buffer of the program needs any more, kept for the next buffer that
 * gets the same memory.  Their memory is free in the pool: each buffer of the program is one
 * allocation and one free there.  So the memory of a spare may also go to a buffer of another size,
 * or back to the driver with its piece; the piece's spares are released before.  A spare saves a
 * call of the driver, which may wait for calls of other threads.
 *
 * The time of a spare is that of the last look at their age, so that no release asks for the time.
 *
 * The context's spares_lock guards them.  Invariants: each spare is in the table and in by_age, the
 * youngest first; spare_bytes is the sum of their sizes. */

#include "layer-private.h"

#define OVERLAP 4 /* the most spares that have the same byte of a piece, on average */
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
  g_assert (context->spares_by_age.length == 0 && context->spare_bytes == 0);
  g_hash_table_unref (context->spares);
  _tarn_mutex_clear (&context->spares_lock);
}

/* Returns TRUE if the table, the list and the sum of bytes may agree.  spares_lock is held. */
static gboolean G_GNUC_UNUSED
are_counts_valid_locked (LayerContext *context)
{
  _tarn_assert_locked (&context->spares_lock);
  return g_hash_table_size (context->spares) == context->spares_by_age.length
         && (context->spare_bytes == 0) == (context->spares_by_age.length == 0);
}

/* Removes a spare from the list, with spares_lock held.  It is out of the table already. */
static void
unlink_locked (LayerContext *context, LayerSub *spare)
{
  _tarn_assert_locked (&context->spares_lock);
  g_assert (context->spare_bytes >= spare->place.size);
  g_queue_unlink (&context->spares_by_age, &spare->by_age);
  context->spare_bytes -= spare->place.size;
  g_assert (are_counts_valid_locked (context));
}

/* Removes a spare from the table and the list, with spares_lock held. */
static void
remove_locked (LayerContext *context, LayerSub *spare)
{
  gboolean was_there = g_hash_table_remove (context->spares, &spare->place);

  g_assert (was_there);
  (void) was_there;
  unlink_locked (context, spare);
}

/* Takes the oldest spare out if it is too old, or if there are more than @most_bytes.  Returns NULL
 * if neither. */
static LayerSub *
take_oldest (LayerContext *context, gsize most_bytes, gint64 not_before)
{
  LAYER_LOCKED (&context->spares_lock);
  LayerSub *oldest = g_queue_peek_tail (&context->spares_by_age);

  if (oldest == NULL || (context->spare_bytes <= most_bytes && oldest->time >= not_before))
    return NULL;
  remove_locked (context, oldest);
  return oldest;
}

static void
spare_free (gpointer data)
{
  static gboolean once;
  LayerSub *spare = data;

  if (_tarn_layer_driver->clReleaseMemObject (spare->handle) != CL_SUCCESS)
    _tarn_layer_warn (&once, "clReleaseMemObject failed: a sub-buffer may be lost");
  g_free (spare);
}

void
_tarn_layer_drop_spares (LayerContext *context, gsize most_bytes)
{
  LayerSub *spare;

  while ((spare = take_oldest (context, most_bytes, G_MININT64)) != NULL)
    spare_free (spare);
}

/* Sets the time of spares from now on. */
static void
set_time (LayerContext *context, gint64 now)
{
  LAYER_LOCKED (&context->spares_lock);

  context->spares_time = now;
}

void
_tarn_layer_drop_old_spares (LayerContext *context, gint64 now)
{
  LayerSub *spare;

  set_time (context, now);
  while ((spare = take_oldest (context, G_MAXSIZE, now - MAX_AGE)) != NULL)
    spare_free (spare);
}

/* Takes out the spares of memory between two addresses. */
static GSList *
take_between (LayerContext *context, guint64 start, guint64 end)
{
  LAYER_LOCKED (&context->spares_lock);
  GSList *taken = NULL;
  GList *next;

  for (GList *link = context->spares_by_age.head; link != NULL; link = next)
    {
      LayerSub *spare = link->data;

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

LayerSub *
_tarn_layer_take_spare (LayerContext *context, const LayerPlace *place)
{
  LAYER_LOCKED (&context->spares_lock);
  gpointer spare = NULL;

  if (g_hash_table_steal_extended (context->spares, place, NULL, &spare))
    unlink_locked (context, spare);
  return spare;
}

guint
_tarn_layer_count_spares (LayerContext *context)
{
  LAYER_LOCKED (&context->spares_lock);

  return context->spares_by_age.length;
}

/* Adds a spare.  Returns FALSE if the context keeps none any more. */
static gboolean
put (LayerContext *context, LayerSub *spare)
{
  LAYER_LOCKED (&context->spares_lock);

  if (__atomic_load_n (&context->ended, __ATOMIC_ACQUIRE) || _tarn_layer_is_blind ())
    return FALSE;
  /* The memory is still the buffer's, so no other buffer can have left a spare there. */
  g_assert (!g_hash_table_contains (context->spares, &spare->place));
  spare->time = context->spares_time;
  spare->by_age.data = spare;
  g_hash_table_insert (context->spares, &spare->place, spare);
  g_queue_push_head_link (&context->spares_by_age, &spare->by_age);
  context->spare_bytes += spare->place.size;
  g_assert (are_counts_valid_locked (context));
  return TRUE;
}

void
_tarn_layer_keep_spare (LayerContext *context, LayerSub *sub)
{
  if (!put (context, sub))
    spare_free (sub);
  else
    _tarn_layer_drop_spares (context,
                             OVERLAP * __atomic_load_n (&context->piece_bytes, __ATOMIC_RELAXED));
}
