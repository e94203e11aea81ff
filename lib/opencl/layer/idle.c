/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Returns to the driver the cached memory that the pools do not need.  The layer lets its pools
 * cache many bytes: a cached block is an image, or may have a sub-buffer, so the layer may reuse it
 * without a call of the driver.  But as long as a block is cached, its piece, a large buffer of the
 * driver, cannot return to the driver.  So the layer looks at the number of cached bytes LOOKS
 * times within MAX_AGE.  The least number that it saw is a number of bytes that no request needed
 * in that time, so the layer frees that many cached bytes. */

#include "layer-private.h"

#define MAX_AGE (10 * G_TIME_SPAN_SECOND)
/* Within MAX_AGE, the layer looks at the number of cached bytes LOOKS times. */
#define LOOKS 64

/* Returns TRUE if a look at the number of cached bytes is due, and sets the time of the next look.
 * If several threads ask at once, returns TRUE to only one. */
static gboolean
try_begin_look (LayerIdle *self, gint64 now)
{
  gint64 look_at = __atomic_load_n (&self->look_at, __ATOMIC_RELAXED);

  return now >= look_at
         && __atomic_compare_exchange_n (&self->look_at, &look_at, now + MAX_AGE / LOOKS, FALSE,
                                         __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Records that a pool caches @held bytes now.  After each MAX_AGE, returns the least number of
 * bytes recorded in this time: requests did not need these cached bytes.  Otherwise returns 0. */
static gsize
note_held (LayerContext *context, LayerIdle *self, gsize held, gint64 now)
{
  TARN_LOCKED (&context->lock);
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
