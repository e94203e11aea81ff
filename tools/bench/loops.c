/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The loops that are timed.  Keep all other code out of these loops, because it would be timed,
 * too. */

#include "loops.h"

#include <stdlib.h>

/* Makes the compiler inline a function.  A loop then has the code of its pattern and the functions
 * of its subject (loops.h), and no call that would add to the measured time. */
#define INLINE static inline __attribute__ ((always_inline))

typedef gboolean (*Take) (Lane *lane, gsize size, TarnMemory *memory);
typedef void (*Give) (Lane *lane, TarnMemory memory, gsize size);

/* Functions that allocate and free a block of each subject */

INLINE gboolean
take_malloc (Lane *lane, gsize size, TarnMemory *memory)
{
  gpointer block = malloc (64);

  (void) lane;
  /* This statement makes the compiler look up the size, as it must for other subjects.  It also
   * keeps the compiler from removing the allocation. */
  __asm__ volatile("" : "+r"(block) : "r"(size) : "memory");
  memory->pointer = block;
  return TRUE;
}

INLINE void
give_malloc (Lane *lane, TarnMemory memory, gsize size)
{
  (void) lane;
  (void) size;
  free (memory.pointer);
}

INLINE gboolean
take_pool (Lane *lane, gsize size, TarnMemory *memory)
{
  return (memory->pointer = tarn_pool_allocate (lane->pool, size, &lane->error)) != NULL;
}

INLINE void
give_pool (Lane *lane, TarnMemory memory, gsize size)
{
  (void) lane;
  (void) size;
  tarn_block_free (memory.pointer);
}

INLINE gboolean
take_ordered (Lane *lane, gsize size, TarnMemory *memory)
{
  memory->pointer = tarn_pool_allocate_ordered (lane->pool, size, lane->queue, &lane->error);
  return memory->pointer != NULL;
}

INLINE void
give_ordered (Lane *lane, TarnMemory memory, gsize size)
{
  give_pool (lane, memory, size);
}

INLINE gboolean
take_turns (Lane *lane, gsize size, TarnMemory *memory)
{
  gpointer queue = lane->queues[lane->next_queue++ & (lane->n_queues - 1)];

  memory->pointer = tarn_pool_allocate_ordered (lane->pool, size, queue, &lane->error);
  return memory->pointer != NULL;
}

INLINE gboolean
take_driver (Lane *lane, gsize size, TarnMemory *memory)
{
  return tarn_allocator_allocate_memory (lane->driver, size, memory, &lane->error);
}

INLINE void
give_driver (Lane *lane, TarnMemory memory, gsize size)
{
  tarn_allocator_free_memory (lane->driver, memory, size);
}

/* Functions that run each pattern of allocating and freeing */

INLINE gboolean
is_stopped (const Lane *lane)
{
  return __atomic_load_n (lane->stop, __ATOMIC_RELAXED);
}

INLINE guint64
do_pairs (Lane *lane, Take take, Give give)
{
  guint64 count = 0;
  guint next = lane->next;

  do
    for (guint i = 0; i < lane->chunk; i++)
      {
        gsize size = lane->sizes[next++ % N_SIZES];
        TarnMemory memory;

        if (G_UNLIKELY (!take (lane, size, &memory)))
          return count;
        give (lane, memory, size);
        count++;
      }
  while (!is_stopped (lane));
  lane->next = next;
  return count;
}

/* The window is an array of blocks; an empty place is NULL. */
INLINE guint64
do_window (Lane *lane, Take take, Give give)
{
  guint64 count = 0;
  guint next = lane->next;

  do
    for (guint i = 0; i < lane->chunk; i++)
      {
        gsize size = lane->sizes[next % N_SIZES];
        TarnMemory *place = &lane->window[next++ % WINDOW_BLOCKS];

        if (G_LIKELY (place->pointer != NULL))
          give (lane, *place, 0);
        place->pointer = NULL;
        if (G_UNLIKELY (!take (lane, size, place)))
          return count;
        count++;
      }
  while (!is_stopped (lane));
  lane->next = next;
  return count;
}

INLINE guint64
do_rounds (Lane *lane, Take take, Give give, gboolean gives_back)
{
  guint64 count = 0;

  do
    {
      TarnMemory blocks[ROUND_BLOCKS];
      guint n = 0;

      while (n < ROUND_BLOCKS && take (lane, lane->sizes[n], &blocks[n]))
        n++;
      for (guint i = 0; i < n; i++)
        give (lane, blocks[i], lane->sizes[i]);
      if (gives_back)
        tarn_pool_free_held (lane->pool);
      count += n;
    }
  while (lane->error == NULL && !is_stopped (lane));
  return count;
}

INLINE guint64
do_produce (Lane *lane, Take take)
{
  guint64 count = 0;

  do
    for (guint i = 0; i < lane->chunk && lane->error == NULL; i++)
      {
        TarnMemory memory;

        if (G_LIKELY (take (lane, lane->sizes[i % N_SIZES], &memory)))
          ring_put (lane->ring, memory.pointer);
        count += lane->error == NULL;
      }
  while (lane->error == NULL && !is_stopped (lane));
  ring_put (lane->ring, NULL);
  return count;
}

INLINE guint64
do_consume (Lane *lane, Give give)
{
  guint64 count = 0;
  TarnMemory memory;

  while (G_LIKELY ((memory.pointer = ring_take (lane->ring)) != NULL))
    {
      give (lane, memory, 0);
      count++;
    }
  return count;
}

/* The loops: each pattern, compiled with each subject */

#define DEFINE_LOOPS(subject, gives_back)                                                          \
  static guint64 pairs_of_##subject (Lane *lane)                                                   \
  {                                                                                                \
    return do_pairs (lane, take_##subject, give_##subject);                                        \
  }                                                                                                \
  static guint64 window_of_##subject (Lane *lane)                                                  \
  {                                                                                                \
    return do_window (lane, take_##subject, give_##subject);                                       \
  }                                                                                                \
  static guint64 rounds_of_##subject (Lane *lane)                                                  \
  {                                                                                                \
    return do_rounds (lane, take_##subject, give_##subject, gives_back);                           \
  }                                                                                                \
  static guint64 produce_of_##subject (Lane *lane) { return do_produce (lane, take_##subject); }   \
  static guint64 consume_of_##subject (Lane *lane) { return do_consume (lane, give_##subject); }

DEFINE_LOOPS (malloc, FALSE)
DEFINE_LOOPS (pool, TRUE)
DEFINE_LOOPS (ordered, TRUE)

/* Runs PATTERN_WINDOW with SUBJECT_TURNS, which has no other pattern. */
static guint64
window_of_turns (Lane *lane)
{
  return do_window (lane, take_turns, give_pool);
}

/* Runs PATTERN_PAIRS with a driver.  A driver needs the size to free a block, and the other
 * patterns do not keep the size. */
static guint64
pairs_of_driver (Lane *lane)
{
  return do_pairs (lane, take_driver, give_driver);
}

const Loop loops[N_PATTERNS][N_SUBJECTS] = {
  [PATTERN_PAIRS] = { pairs_of_malloc, pairs_of_pool, pairs_of_ordered, NULL, pairs_of_driver },
  [PATTERN_WINDOW] = { window_of_malloc, window_of_pool, window_of_ordered, window_of_turns, NULL },
  [PATTERN_ROUNDS] = { rounds_of_malloc, rounds_of_pool, rounds_of_ordered, NULL, NULL },
  [PATTERN_PRODUCE] = { produce_of_malloc, produce_of_pool, produce_of_ordered, NULL, NULL },
  [PATTERN_CONSUME] = { consume_of_malloc, consume_of_pool, consume_of_ordered, NULL, NULL },
};

void
loops_clear_window (Lane *lane, Subject subject)
{
  for (guint i = 0; i < WINDOW_BLOCKS; i++)
    if (subject == SUBJECT_MALLOC)
      free (lane->window[i].pointer);
    else if (subject != SUBJECT_DRIVER)
      tarn_block_free (lane->window[i].pointer);
}
