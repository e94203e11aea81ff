/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Spares: sub-buffers that no buffer of the program has any more.  The layer keeps each for the
 * next buffer that gets the same memory, because a new sub-buffer needs a call of the driver, which
 * may wait for calls of other threads.
 *
 * A spare's memory is free in the pool: when the program's buffer ended, the layer freed its block.
 * So the pool may give the memory to a buffer of another size, or return its piece, the driver's
 * large buffer, to the driver.  Before the piece is released, the layer releases the piece's
 * spares.
 *
 * A spare's time is that at which the layer last looked at the age of spares, so that no release of
 * a buffer has to read the clock.
 *
 * The context's spares_lock guards the spares.  Invariants: each spare is in the hash table and in
 * the list spares_by_age, the youngest first; spare_bytes is the sum of the spares' sizes. */

#include "layer-private.h"

/* The sizes of a context's spares add up to at most OVERLAP times the size of its pieces.  So at
 * most this number of spares share a byte, on average. */
#define OVERLAP 4
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

/* Returns TRUE if the lengths of the table and the list are equal, and spare_bytes may be right.
 * The caller holds spares_lock. */
static gboolean G_GNUC_UNUSED
are_counts_valid_locked (LayerContext *context)
{
  _tarn_assert_locked (&context->spares_lock);
  return g_hash_table_size (context->spares) == context->spares_by_age.length
         && (context->spare_bytes == 0) == (context->spares_by_age.length == 0);
}

/* Removes a spare from the list.  The caller holds spares_lock, and has removed it from the
 * table. */
static void
unlink_locked (LayerContext *context, LayerSub *spare)
{
  _tarn_assert_locked (&context->spares_lock);
  g_assert (context->spare_bytes >= spare->place.size);
  g_queue_unlink (&context->spares_by_age, &spare->by_age);
  context->spare_bytes -= spare->place.size;
  g_assert (are_counts_valid_locked (context));
}

/* Removes a spare from the table and the list.  The caller holds spares_lock. */
static void
remove_locked (LayerContext *context, LayerSub *spare)
{
  gboolean was_there = g_hash_table_remove (context->spares, &spare->place);

  g_assert (was_there);
  (void) was_there;
  unlink_locked (context, spare);
}

/* Removes and returns the oldest spare, if its time is before @not_before, or if the spares have
 * more than @most_bytes bytes in all.  Otherwise returns NULL. */
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

/* Sets the time that sub-buffers get when they become spares from now on. */
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

/* Removes and returns the spares whose address is at least @start and less than @end. */
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

/* Adds a spare, and sets *bytes to the size of all spares, in bytes.  Returns FALSE if the context
 * keeps no spares any more, because it has ended or because the layer is blind
 * (_tarn_layer_is_blind ()). */
static gboolean
put (LayerContext *context, LayerSub *spare, gsize *bytes)
{
  LAYER_LOCKED (&context->spares_lock);

  if (__atomic_load_n (&context->ended, __ATOMIC_ACQUIRE) || _tarn_layer_is_blind ())
    return FALSE;
  /* The buffer still has its memory, so no other buffer can have left a spare with this key. */
  g_assert (!g_hash_table_contains (context->spares, &spare->place));
  spare->time = context->spares_time;
  spare->by_age.data = spare;
  g_hash_table_insert (context->spares, &spare->place, spare);
  g_queue_push_head_link (&context->spares_by_age, &spare->by_age);
  context->spare_bytes += spare->place.size;
  *bytes = context->spare_bytes;
  g_assert (are_counts_valid_locked (context));
  return TRUE;
}

void
_tarn_layer_keep_spare (LayerContext *context, LayerSub *sub)
{
  gsize bytes, most = OVERLAP * __atomic_load_n (&context->piece_bytes, __ATOMIC_RELAXED);

  if (!put (context, sub, &bytes))
    spare_free (sub);
  else if (bytes > most)
    _tarn_layer_drop_spares (context, most);
}
