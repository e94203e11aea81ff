/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Returns to the driver the memory that pools cache without need.  The layer lets its pools cache
 * much, because a cached block may already have the driver's sub-buffer, or is an image.  But a
 * cached block also keeps its piece, a large buffer of the driver, from returning to the driver.
 * So the layer looks at the number of cached bytes LOOKS times within MAX_AGE.  In that time no
 * request has needed the least number of bytes that the layer saw cached, so the layer frees that
 * number of bytes. */

#include "layer-private.h"

#define MAX_AGE (10 * G_TIME_SPAN_SECOND)
#define LOOKS 64 /* looks within MAX_AGE */

/* Returns TRUE if it is time for a look, to only one thread, and sets the time of the next look. */
static gboolean
try_begin_look (LayerIdle *self, gint64 now)
{
  gint64 look_at = __atomic_load_n (&self->look_at, __ATOMIC_RELAXED);

  return now >= look_at
         && __atomic_compare_exchange_n (&self->look_at, &look_at, now + MAX_AGE / LOOKS, FALSE,
                                         __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Records the number @held of cached bytes.  At the end of each MAX_AGE, returns the least number
 * that was recorded within it, which no request has needed.  Otherwise returns 0. */
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
_tarn_layer_drop_unneeded (LayerContext *context, TarnPool *pool, LayerIdle *self, gint64 now)
{
  gsize held, unneeded;

  if (!try_begin_look (self, now))
    return;
  _tarn_layer_drop_old_spares (context, now);
  held = _tarn_layer_get_held_bytes (pool);
  unneeded = note_held (context, self, held, now);
  if (unneeded > 0)
    tarn_pool_trim (pool, held - unneeded);
}
