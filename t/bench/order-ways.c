/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "order-ways.h"

#include <math.h>
#include <stdlib.h>

#define MIN_MIXED_SIZE 256
#define MAX_MIXED_SIZE ((gsize) 4 << 20)
#define BINS_PER_OCTAVE 16 /* in a pool with default options */

/* A backend's own functions do no more than these of the core: only a default stream has another
 * name. */

static void
use_malloc (Lane *lane)
{
  for (guint i = 0; i < ROUND_PAIRS; i++)
    {
      gpointer block = malloc (64);

      /* Makes the compiler look up the size, as for other subjects, and keeps it from removing the
       * allocation. */
      __asm__ volatile("" : "+r"(block) : "r"(lane->sizes[i]) : "memory");
      free (block);
    }
}

static void
use_without_order (Lane *lane)
{
  for (guint i = 0; i < ROUND_PAIRS; i++)
    {
      TarnBlock *block = tarn_pool_allocate (lane->pool, lane->sizes[i], &lane->error);

      if (G_UNLIKELY (block == NULL))
        return;
      tarn_block_free (block);
    }
}

static inline TarnBlock *
take (Lane *lane, guint i)
{
  return tarn_pool_allocate_ordered (lane->pool, lane->sizes[i], lane->queues[i], &lane->error);
}

static void
use (Lane *lane)
{
  for (guint i = 0; i < ROUND_PAIRS; i++)
    {
      TarnBlock *block = take (lane, i);

      if (G_UNLIKELY (block == NULL))
        return;
      tarn_block_free (block);
    }
}

/* Allocates on one queue and frees on the next one. */
static void
use_moved (Lane *lane)
{
  for (guint i = 0; i < ROUND_PAIRS && lane->error == NULL; i++)
    {
      TarnBlock *block = take (lane, i);

      if (G_UNLIKELY (block == NULL))
        return;
      tarn_block_move_to_queue (block, lane->queues[(i + 1) % ROUND_PAIRS], &lane->error);
      tarn_block_free (block);
    }
}

/* Frees each block while two queues use it. */
static void
use_recorded (Lane *lane)
{
  for (guint i = 0; i < ROUND_PAIRS && lane->error == NULL; i++)
    {
      TarnBlock *block = take (lane, i);

      if (G_UNLIKELY (block == NULL))
        return;
      tarn_block_record_use (block, lane->queues[(i + 1) % ROUND_PAIRS], &lane->error);
      tarn_block_free (block);
    }
}

const Way ways[] = {
  { "malloc (64)", use_malloc, SIZES_ONE, POOL_NONE, TRUE, 1, 1 },
  { "pool without order", use_without_order, SIZES_ONE, POOL_ONE, FALSE, 1, 1 },
  { "pool, each its own size", use, SIZES_OWN, POOL_ONE, FALSE, 1, ROUND_PAIRS },
  { "pool, one size", use, SIZES_ONE, POOL_ONE, FALSE, 2, ROUND_PAIRS },
  { "pool, within one block's limit", use, SIZES_ONE, POOL_LIMITED, FALSE, 2, ROUND_PAIRS },
  { "pool, moved to the next", use_moved, SIZES_ONE, POOL_ONE, FALSE, 2, ROUND_PAIRS },
  { "pool, recorded on the next", use_recorded, SIZES_ONE, POOL_ONE, FALSE, 2, ROUND_PAIRS },
  { NULL, NULL, SIZES_ONE, POOL_NONE, FALSE, 1, ROUND_PAIRS },
  { "one pool", use, SIZES_ONE, POOL_ONE, TRUE, 1, 1 },
  { "one pool, mixed sizes", use, SIZES_MIXED, POOL_ONE, TRUE, 1, 1 },
  { "a pool for each", use, SIZES_ONE, POOL_FOR_EACH, TRUE, 1, 1 },
  { "a pool for each, mixed sizes", use, SIZES_MIXED, POOL_FOR_EACH, TRUE, 1, 1 },
  { NULL, NULL, SIZES_ONE, POOL_NONE, TRUE, 1, 1 },
  { NULL, NULL, SIZES_MIXED, POOL_NONE, TRUE, 1, 1 },
};
const gsize n_ways = G_N_ELEMENTS (ways);

static gsize
get_size (Sizes which, guint i, guint n_queues)
{
  guint queue = i % n_queues;

  if (which == SIZES_ONE)
    return REQUEST_SIZE;
  if (which == SIZES_OWN)
    return REQUEST_SIZE / BINS_PER_OCTAVE * (BINS_PER_OCTAVE + queue % BINS_PER_OCTAVE)
           << queue / BINS_PER_OCTAVE;
  return (gsize) lrint (
      exp2 (log2 ((gdouble) MAX_MIXED_SIZE / MIN_MIXED_SIZE) * i / (ROUND_PAIRS - 1))
      * MIN_MIXED_SIZE);
}

/* Fills in sizes.  Mixed ones are in another order for each thread, but the same in every run. */
void
order_fill_sizes (gsize *sizes, Sizes which, guint thread, guint n_queues)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (thread);

  for (guint i = 0; i < ROUND_PAIRS; i++)
    {
      guint other = which == SIZES_MIXED ? (guint) g_rand_int_range (random, 0, (gint32) i + 1) : i;

      /* The shuffle of Fisher and Yates, while the array is filled. */
      sizes[i] = sizes[other];
      sizes[other] = get_size (which, i, n_queues);
    }
}
