/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Gives back memory that pools hold without need.  The layer's pools hold much: a held block has a
 * sub-buffer of the driver's already, or is an image.  But a held block also keeps its piece from
 * going back.  So the layer looks now and then how much is held.  No request has needed the least
 * amount that it saw within ten seconds, so that amount goes back. */

#include "layer-private.h"

#define MAX_AGE (10 * G_TIME_SPAN_SECOND)
#define LOOKS 64 /* in that time */

/* Tells whether it is time for a look; of several threads that come then, one looks. */
static gboolean
begin_look (LayerIdle *self, gint64 now)
{
  gint64 look_at = __atomic_load_n (&self->look_at, __ATOMIC_RELAXED);

  return now >= look_at
         && __atomic_compare_exchange_n (&self->look_at, &look_at, now + MAX_AGE / LOOKS, FALSE,
                                         __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Notes how many bytes are held.  Gets how many of them no request has needed for a while, which
 * begins anew; 0: it is not over. */
static gsize
note_held (LayerContext *context, LayerIdle *self, gsize held, gint64 now)
{
  LAYER_LOCKED (&context->lock);
  gsize unneeded;

  self->least_bytes = MIN (self->least_bytes, held);
  if (now - self->since < MAX_AGE)
    return 0;
  unneeded = self->least_bytes;
  self->since = now;
  self->least_bytes = held;
  return unneeded;
}

gsize
_tarn_layer_get_held_bytes (TarnPool *pool)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;

  tarn_pool_get_stats (pool, &stats);
  return stats.held_bytes;
}

void
_tarn_layer_drop_unneeded (LayerContext *context, TarnPool *pool, LayerIdle *self)
{
  gint64 now = g_get_monotonic_time ();
  gsize held, unneeded;

  if (!begin_look (self, now))
    return;
  held = _tarn_layer_get_held_bytes (pool);
  unneeded = note_held (context, self, held, now);
  if (unneeded > 0)
    tarn_pool_trim (pool, held - unneeded);
}
