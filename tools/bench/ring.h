/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A ring: a bounded lock-free queue from one thread, the producer, to another one, the consumer.
 * Each thread counts its items, and keeps a copy of the other thread's count.  A thread reads the
 * other thread's count again only if the ring seems to be full or empty.  The two threads write
 * their counts to different cache lines. */

#ifndef RING_H
#define RING_H

#include <glib.h>

#define RING_ITEMS 256      /* a power of two */
#define RING_SPINS 64       /* number of calls of ring_wait () between two yields */
#define CACHE_LINE_PAIR 128 /* bytes of two cache lines: some processors fetch two at a time */

/* A ring.
 *
 * Invariant: taken <= put <= taken + RING_ITEMS, modulo 2^32. */
typedef struct
{
  gchar before[CACHE_LINE_PAIR];
  guint put; /* atomic; number of items put so far; only the producer writes it */
  guint seen_taken;
  gchar between[CACHE_LINE_PAIR];
  guint taken; /* atomic; number of items taken so far; only the consumer writes it */
  guint seen_put;
  gchar after[CACHE_LINE_PAIR];
  gpointer items[RING_ITEMS];
} Ring;

/* Waits a short time.  Every RING_SPINS calls, yields the processor to other threads. */
static inline void
ring_wait (guint *spins)
{
  if (++*spins % RING_SPINS == 0)
    g_thread_yield ();
}

/* Puts an item, and waits while the ring is full. */
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

/* Takes an item, and waits while the ring is empty. */
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
