/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A bounded queue between one thread that puts in and one that takes out, without a lock.  Each
 * keeps what it last saw of the other's position, and looks again only where that is not enough;
 * what one of them writes is in no cache line of the other's. */

#ifndef RING_H
#define RING_H

#include <glib.h>

#define RING_ITEMS 256      /* a power of two */
#define RING_SPINS 64       /* before another thread may have the processor */
#define CACHE_LINE_PAIR 128 /* bytes: some processors fetch two lines at a time */

typedef struct
{
  gchar before[CACHE_LINE_PAIR];
  guint put; /* atomic; items that were ever put in: written by the one thread ... */
  guint seen_taken;
  gchar between[CACHE_LINE_PAIR];
  guint taken; /* atomic; ... and by the other */
  guint seen_put;
  gchar after[CACHE_LINE_PAIR];
  gpointer items[RING_ITEMS];
} Ring;

static inline void
ring_wait (guint *spins)
{
  if (++*spins % RING_SPINS == 0)
    g_thread_yield ();
}

static inline void
ring_put (Ring *ring, gpointer item)
{
  guint put = ring->put, spins = 0;

  while (G_UNLIKELY (put - ring->seen_taken == RING_ITEMS))
    {
      ring->seen_taken = __atomic_load_n (&ring->taken, __ATOMIC_ACQUIRE);
      if (put - ring->seen_taken == RING_ITEMS)
        ring_wait (&spins);
    }
  ring->items[put % RING_ITEMS] = item;
  __atomic_store_n (&ring->put, put + 1, __ATOMIC_RELEASE);
}

static inline gpointer
ring_take (Ring *ring)
{
  guint taken = ring->taken, spins = 0;
  gpointer item;

  while (G_UNLIKELY (taken == ring->seen_put))
    {
      ring->seen_put = __atomic_load_n (&ring->put, __ATOMIC_ACQUIRE);
      if (taken == ring->seen_put)
        ring_wait (&spins);
    }
  item = ring->items[taken % RING_ITEMS];
  __atomic_store_n (&ring->taken, taken + 1, __ATOMIC_RELEASE);
  return item;
}

#endif
