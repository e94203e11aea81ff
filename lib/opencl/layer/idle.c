/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Returns memory that pools cache without need.  The layer's pools cache much: a cached block may
 * have a sub-buffer of the driver already, or is an image.  But a cached block also keeps its piece
 * from returning to the driver.  So the layer looks now and then how many bytes are cached.  No
 * request has needed the least number that it saw within ten seconds, so the pool frees as many
 * bytes. */

#include "layer-private.h"

#define MAX_AGE (10 * G_TIME_SPAN_SECOND)
#define LOOKS 64 /* within MAX_AGE */

/* Returns TRUE to one thread whenever it is time for a look, and sets the time of the next. */
static gboolean
try_begin_look (LayerIdle *self, gint64 now)
{
  gint64 look_at = __atomic_load_n (&self->look_at, __ATOMIC_RELAXED);

  return now >= look_at
         && __atomic_compare_exchange_n (&self->look_at, &look_at, now + MAX_AGE / LOOKS, FALSE,
                                         __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Notes how many bytes are cached.  At the end of each MAX_AGE, returns how many of them no request
 * has needed within it; returns 0 before. */
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
