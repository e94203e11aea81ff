/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Spares: sub-buffers that no buffer of the program's needs any more, with their memory, for the
 * next buffer of the same size and flags.  A driver's call may wait for all that other threads ask
 * of the driver meanwhile, and a buffer that finds a spare needs none.
 *
 * Invariants, under the context's spares_lock: each spare is in by_age and in the queue of its size
 * and flags, both with the youngest first; spare_bytes is the sum of their sizes. */

#include "layer-private.h"

#define MIN_BYTES ((gsize) 32 << 20) /* that are kept however little there is */
#define SHARE 8                      /* of the pieces' bytes: one in so many */
#define MAX_AGE (10 * G_TIME_SPAN_SECOND)

static guint
hash_kind (gconstpointer data)
{
  const LayerSpareKind *kind = data;

  return (guint) (kind->size * 31 + kind->asked);
}

static gboolean
equal_kinds (gconstpointer a, gconstpointer b)
{
  const LayerSpareKind *first = a, *second = b;

  return first->size == second->size && first->asked == second->asked;
}

static void
free_queue (gpointer queue)
{
  g_queue_free (queue);
}

void
_tarn_layer_spares_init (LayerContext *context)
{
  _tarn_mutex_init (&context->spares_lock);
  context->spares = g_hash_table_new_full (hash_kind, equal_kinds, g_free, free_queue);
  g_queue_init (&context->spares_by_age);
}

void
_tarn_layer_spares_clear (LayerContext *context)
{
  g_assert (context->spares_by_age.length == 0);
  g_hash_table_unref (context->spares);
  _tarn_mutex_clear (&context->spares_lock);
}

/* Takes one out that is at an end of its queue. */
static void
remove_locked (LayerContext *context, LayerSpare *spare, GQueue *queue, gboolean is_youngest)
{
  G_GNUC_UNUSED gpointer removed
      = is_youngest ? g_queue_pop_head (queue) : g_queue_pop_tail (queue);

  g_assert (removed == spare);
  g_queue_unlink (&context->spares_by_age, &spare->by_age);
  context->spare_bytes -= spare->kind.size;
  if (queue->length == 0)
    g_hash_table_remove (context->spares, &spare->kind);
}

/* Takes the oldest out if there are more bytes, or if it is too old; NULL: neither. */
static LayerSpare *
take_oldest (LayerContext *context, gsize most_bytes, gint64 not_before)
{
  LAYER_LOCKED (&context->spares_lock);
  LayerSpare *oldest = g_queue_peek_tail (&context->spares_by_age);

  if (oldest == NULL || (context->spare_bytes <= most_bytes && oldest->time >= not_before))
    return NULL;
  remove_locked (context, oldest, g_hash_table_lookup (context->spares, &oldest->kind), FALSE);
  return oldest;
}

static void
spare_free (LayerSpare *spare)
{
  static gboolean once;

  if (_tarn_layer_driver->clReleaseMemObject (spare->handle) != CL_SUCCESS)
    _tarn_layer_warn (&once, "clReleaseMemObject failed: a sub-buffer may be lost");
  tarn_block_free (spare->block);
  g_free (spare);
}

gboolean
_tarn_layer_drop_spares (LayerContext *context, gsize most_bytes)
{
  gint64 not_before = g_get_monotonic_time () - MAX_AGE;
  gboolean dropped = FALSE;
  LayerSpare *spare;

  while ((spare = take_oldest (context, most_bytes, not_before)) != NULL)
    {
      spare_free (spare);
      dropped = TRUE;
    }
  return dropped;
}

LayerSpare *
_tarn_layer_take_spare (LayerContext *context, gsize size, cl_mem_flags asked)
{
  const LayerSpareKind kind = { size, asked };
  LAYER_LOCKED (&context->spares_lock);
  GQueue *queue = g_hash_table_lookup (context->spares, &kind);
  LayerSpare *spare = queue != NULL ? g_queue_peek_head (queue) : NULL;

  if (spare != NULL)
    remove_locked (context, spare, queue, TRUE);
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
  GQueue *queue;

  if (__atomic_load_n (&context->ended, __ATOMIC_ACQUIRE) || _tarn_layer_is_blind ())
    return FALSE;
  queue = g_hash_table_lookup (context->spares, &spare->kind);
  if (queue == NULL)
    {
      LayerSpareKind *key = g_new (LayerSpareKind, 1);

      *key = spare->kind;
      queue = g_queue_new ();
      g_hash_table_insert (context->spares, key, queue);
    }
  g_queue_push_head (queue, spare);
  g_queue_push_head_link (&context->spares_by_age, &spare->by_age);
  context->spare_bytes += spare->kind.size;
  return TRUE;
}

void
_tarn_layer_keep_spare (LayerContext *context, const LayerBuffer *buffer)
{
  LayerSpare *spare = g_new0 (LayerSpare, 1);

  spare->kind.size = buffer->size;
  spare->kind.asked = buffer->asked;
  spare->handle = buffer->base.handle;
  spare->block = buffer->block;
  spare->offset = buffer->offset;
  spare->flags = buffer->flags;
  spare->time = g_get_monotonic_time ();
  spare->by_age.data = spare;
  if (!put (context, spare))
    spare_free (spare);
  else
    _tarn_layer_drop_spares (
        context,
        MAX (MIN_BYTES, __atomic_load_n (&context->piece_bytes, __ATOMIC_RELAXED) / SHARE));
}
