/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Returns to the driver the cached memory that the pools do not need.  The layer lets its pools
 * cache many bytes: a cached block is an image, or may have a sub-buffer, so the layer may reuse it
 * without a call of the driver.  But as long as a block is cached, its piece, a large buffer of the
 * driver, cannot return to the driver.  So the layer looks at the number of cached bytes LOOKS
 * times within MAX_AGE.  The least number that it saw is a number of bytes that no request needed
 * in that time, so the layer frees that many cached bytes.  The layer looks at the pools of a
 * context when the program requests memory there.  At the same time it trims the pools of other
 * contexts in which the program has requested nothing for MAX_AGE. */

#include "layer-private.h"

/* The layer frees cached memory that no request has needed for MAX_AGE microseconds.  Within this
 * time, it looks LOOKS times at the number of cached bytes. */
#define MAX_AGE (10 * G_TIME_SPAN_SECOND)
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

/* Returns the record of a context's pool number @i.  The last one is the pool of images. */
static LayerIdle *
get_idle (LayerContext *context, guint i)
{
  return i < LAYER_N_KINDS ? &context->idle[i] : &context->image_idle;
}

/* Returns TRUE if a context's pools have served requests, but none for MAX_AGE.  The caller then
 * trims the pools.  Before it returns TRUE, sets the time of each pool's next look (look_at) to 0,
 * which stands for a pool without requests.  So the next call returns FALSE, unless a request has
 * set look_at meanwhile.  If a request in another thread sets look_at during this function, that
 * value may be lost.  This only makes the next look early. */
static gboolean
try_end_use (LayerContext *context, gint64 now)
{
  gint64 latest = 0;

  for (guint i = 0; i <= LAYER_N_KINDS; i++)
    {
      gint64 look_at = __atomic_load_n (&get_idle (context, i)->look_at, __ATOMIC_RELAXED);

      latest = MAX (latest, look_at);
    }
  if (latest == 0 || now - latest < MAX_AGE)
    return FALSE;
  for (guint i = 0; i <= LAYER_N_KINDS; i++)
    __atomic_store_n (&get_idle (context, i)->look_at, 0, __ATOMIC_RELAXED);
  return TRUE;
}

/* Trims the pools of the contexts in which the program has requested no memory for MAX_AGE: such a
 * context does not look at its own pools.  Does not trim pools whose buffers TARN_DEBUG checks,
 * because TARN_DEBUG finds the use of a released buffer only as long as the pool keeps the buffer's
 * memory. */
static void
trim_idle_contexts (gint64 now)
{
  g_autoptr (GPtrArray) contexts = _tarn_layer_list_all (LAYER_CONTEXT);

  for (guint i = 0; i < contexts->len; i++)
    {
      LayerContext *context = g_ptr_array_index (contexts, i);

      if (!_tarn_layer_is_debugged (context) && try_end_use (context, now))
        _tarn_layer_context_trim (context);
    }
}

void
_tarn_layer_drop_unneeded (LayerContext *context, TarnPool *pool, LayerIdle *self, gint64 now)
{
  gsize held, unneeded;

  if (!try_begin_look (self, now))
    return;
  trim_idle_contexts (now);
  _tarn_layer_drop_old_spares (context, now);
  held = _tarn_layer_get_held_bytes (pool);
  unneeded = note_held (context, self, held, now);
  if (unneeded > 0)
    tarn_pool_trim (pool, held - unneeded);
}
