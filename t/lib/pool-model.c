/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "pool-model.h"

#define FOR_EACH(block, model)                                                                     \
  for (PoolModelBlock *block = (model)->blocks; block < (model)->blocks + (model)->n_blocks;       \
       block++)

/* A bin does not look at the bits that follow the leading one and the leading_bits next to it:
 * they are all ones in the largest of its sizes. */
gsize
pool_model_round (gsize size, guint leading_bits)
{
  guint bits = 0;

  for (gsize rest = size; rest != 0; rest /= 2)
    bits++;
  for (guint bit = 0; bit + leading_bits + 1 < bits; bit++)
    size |= (gsize) 1 << bit;
  return MAX (size, 1);
}

/* Often enough for the peaks: neither kind of bytes rises and falls within one operation. */
static void
count (PoolModel *model)
{
  TarnPoolStats *stats = &model->stats;

  stats->held_blocks = stats->active_blocks = 0;
  stats->held_bytes = stats->active_bytes = stats->managed_bytes = 0;
  FOR_EACH (block, model)
  {
    stats->held_blocks += block->state == POOL_MODEL_HELD;
    stats->active_blocks += block->state == POOL_MODEL_ACTIVE;
    stats->held_bytes += block->state == POOL_MODEL_HELD ? block->alloc_size : 0;
    stats->active_bytes += block->state == POOL_MODEL_ACTIVE ? block->size : 0;
    stats->managed_bytes += block->state != POOL_MODEL_GONE ? block->alloc_size : 0;
  }
  stats->peak_managed_bytes = MAX (stats->peak_managed_bytes, stats->managed_bytes);
  stats->peak_active_bytes = MAX (stats->peak_active_bytes, stats->active_bytes);
}

/* The one freed last, of those with @alloc_size bytes; if that is 0, of the largest ones. */
static PoolModelBlock *
find_held (PoolModel *model, gsize alloc_size)
{
  PoolModelBlock *found = NULL;

  FOR_EACH (block, model)
  if (block->state == POOL_MODEL_HELD && (alloc_size == 0 || block->alloc_size == alloc_size))
    if (found == NULL || block->alloc_size > found->alloc_size
        || (block->alloc_size == found->alloc_size && block->freed_at > found->freed_at))
      found = block;
  return found;
}

/* The largest first, as many as make up the bytes wanted. */
static gsize
give_back (PoolModel *model, gsize wanted)
{
  gsize given = 0;

  for (PoolModelBlock *held; given < wanted && (held = find_held (model, 0)) != NULL;)
    {
      given += held->alloc_size;
      held->state = POOL_MODEL_GONE;
      model->stats.upstream_frees++;
    }
  count (model);
  return given;
}

/* The pool's limit is looked at first.  Held blocks are given back if that is enough. */
static gint
ask_device (PoolModel *model, gsize size)
{
  const gsize limit = model->limit_bytes;

  if (limit != 0 && size > limit - model->stats.managed_bytes + model->stats.held_bytes)
    return TARN_ERROR_LIMIT;
  if (limit != 0 && size > limit - model->stats.managed_bytes)
    give_back (model, size - (limit - model->stats.managed_bytes));
  model->device_calls++;
  model->stats.driver_calls++;
  model->last_size = size;
  model->stats.upstream_failures++;
  if (size > model->max_size)
    return TARN_ERROR_NOT_SUPPORTED;
  if (size > model->bytes - model->stats.managed_bytes)
    return TARN_ERROR_OUT_OF_MEMORY;
  model->stats.upstream_failures--;
  return POOL_MODEL_NO_ERROR;
}

/* @alloc_size is the bin's size, and becomes the exact one where that is asked for. */
static gint
allocate_miss (PoolModel *model, gsize size, gsize *alloc_size)
{
  gint error = ask_device (model, *alloc_size);

  model->stats.reclaims += error == TARN_ERROR_LIMIT;
  if ((error == TARN_ERROR_NOT_SUPPORTED || error == TARN_ERROR_LIMIT) && *alloc_size != size)
    error = ask_device (model, *alloc_size = size);
  model->stats.reclaims += error == TARN_ERROR_OUT_OF_MEMORY;
  while (error == TARN_ERROR_OUT_OF_MEMORY && give_back (model, *alloc_size) > 0)
    error = ask_device (model, *alloc_size);
  if (error == TARN_ERROR_OUT_OF_MEMORY && *alloc_size != size)
    error = ask_device (model, *alloc_size = size);
  return error;
}

/* Two sizes are of one bin if they are rounded to the same. */
gint
pool_model_allocate (PoolModel *model, gsize size, PoolModelBlock **block)
{
  gsize alloc_size = pool_model_round (size, model->leading_bits);
  PoolModelBlock *place = find_held (model, alloc_size);
  gint error = place != NULL ? POOL_MODEL_NO_ERROR : allocate_miss (model, size, &alloc_size);

  model->stats.hits += place != NULL;
  model->stats.served_without_driver += place != NULL;
  model->stats.failures += error != POOL_MODEL_NO_ERROR;
  if (error != POOL_MODEL_NO_ERROR)
    return error;
  if (place == NULL)
    {
      for (place = model->blocks; place->state != POOL_MODEL_GONE;)
        g_assert_true (++place < model->blocks + POOL_MODEL_MAX_BLOCKS);
      model->n_blocks = MAX (model->n_blocks, (guint) (place - model->blocks) + 1);
      place->memory = model->stats.misses++;
    }
  place->state = POOL_MODEL_ACTIVE;
  place->size = size;
  place->alloc_size = alloc_size;
  *block = place;
  count (model);
  return error;
}

/* A block of another size than its bin's is an exact-size block. */
void
pool_model_free (PoolModel *model, PoolModelBlock *block)
{
  gboolean exact = block->alloc_size != pool_model_round (block->size, model->leading_bits);

  block->state = exact || model->stop_holding ? POOL_MODEL_GONE : POOL_MODEL_HELD;
  block->freed_at = model->clock++;
  model->stats.upstream_frees += block->state == POOL_MODEL_GONE;
  count (model);
}

void
pool_model_trim (PoolModel *model, gsize keep_bytes)
{
  if (model->stats.held_bytes > keep_bytes)
    give_back (model, model->stats.held_bytes - keep_bytes);
}

void
pool_model_stop_holding (PoolModel *model)
{
  model->stop_holding = TRUE;
  pool_model_trim (model, 0);
}
