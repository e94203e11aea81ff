/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Makes N requests and frees in a way whose instructions instructions.t counts: their number does
 * not depend on the machine.
 *
 *     hit-path WAY N
 *
 * By default a pool serves N held blocks.  new-queues: N fresh blocks, each for another queue,
 * which is never used again.  forgotten-queues: N blocks, and each queue is forgotten.
 * failed-event: fresh blocks beside N queues, after an event could not be recorded on one.
 * heap-misses: blocks of varying sizes from a heap.  queues-in-turn: blocks of a heap, for 1,000
 * queues in turn.  first-arguments: entries of a memo for N first arguments, which it forgets one
 * by one. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/tarn.h>

#define N_SIZES 64
#define GRANULARITY ((gsize) 2 << 20)

static gboolean
allocate (gpointer next, gsize size, TarnMemory *memory, GError **error)
{
  (void) size;
  (void) error;
  memory->address = ++*(guint64 *) next;
  return TRUE;
}

static void
free_nothing (gpointer next, TarnMemory memory, gsize size)
{
  (void) next;
  (void) memory;
  (void) size;
}

static gboolean
ref_queue (gpointer next, gpointer queue, gboolean *in_order, GError **error)
{
  (void) next;
  (void) queue;
  (void) error;
  *in_order = TRUE;
  return TRUE;
}

static void
unref_queue (gpointer next, gpointer queue)
{
  (void) next;
  (void) queue;
}

static gboolean fails_to_record;

static gpointer
event_record (gpointer next, gpointer queue, GError **error)
{
  (void) queue;
  if (!fails_to_record)
    return next;
  g_set_error (error, TARN_ERROR, TARN_ERROR_FAILED, "told to fail");
  return NULL;
}

static gboolean
event_is_done (gpointer next, gpointer event)
{
  (void) next;
  (void) event;
  return TRUE;
}

static void
event_release (gpointer next, gpointer event)
{
  (void) next;
  (void) event;
}

/* The heap of queues-in-turn waits at its end.  No other way calls the next two functions. */

static gboolean
event_wait (gpointer next, gpointer event, gpointer queue, GError **error)
{
  (void) next;
  (void) event;
  (void) queue;
  (void) error;
  return TRUE;
}

static gpointer
event_record_all (gpointer next, GError **error)
{
  (void) error;
  return next;
}

/* Reserves virtual memory: no address is reserved twice. */

static gboolean
reserve (gpointer next, gsize size, TarnMemory *addresses, GError **error)
{
  (void) error;
  addresses->address = (*(guint64 *) next + 1) * GRANULARITY;
  *(guint64 *) next += size / GRANULARITY + 1;
  return TRUE;
}

static gboolean
map (gpointer next, TarnMemory backing, gsize size, TarnMemory address, GError **error)
{
  (void) next;
  (void) backing;
  (void) size;
  (void) address;
  (void) error;
  return TRUE;
}

static TarnPool *
pool_new (guint64 *next, gboolean has_heap)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  g_autoptr (TarnAllocator) allocator = NULL, heap = NULL;

  ops.name = "nothing";
  ops.allocate = allocate;
  ops.free = free_nothing;
  ops.queue_ref = ref_queue;
  ops.queue_unref = unref_queue;
  ops.event_record = event_record;
  ops.event_is_done = event_is_done;
  ops.event_wait = event_wait;
  ops.event_release = event_release;
  ops.event_record_all = event_record_all; /* or each request would record others' events */
  ops.frees_in_order = TRUE;               /* or it would be waited for at the end */
  ops.virtual_granularity = GRANULARITY;
  ops.addresses_reserve = reserve;
  ops.addresses_release = free_nothing;
  ops.backing_new = allocate;
  ops.backing_release = free_nothing;
  ops.backing_map = map;
  ops.backing_unmap = free_nothing;
  allocator = tarn_allocator_new (&ops, next, NULL);
  heap
      = has_heap ? tarn_heap_allocator_new (allocator, NULL, NULL) : tarn_allocator_ref (allocator);
  return tarn_pool_new (heap, NULL, NULL);
}

static void
use_one_size (TarnPool *pool, guint n)
{
  for (guint i = 0; i < n; i++)
    tarn_block_free (tarn_pool_allocate (pool, 4096, NULL));
}

/* 300 bytes to 150 MiB. */
static void
use_mixed_sizes (TarnPool *pool, guint n)
{
  for (guint i = 0; i < n; i++)
    tarn_block_free (tarn_pool_allocate (pool, (gsize) 300 << (i % N_SIZES * 20 / N_SIZES), NULL));
}

static void
use_queue (TarnPool *pool, guint n)
{
  gpointer queue = pool; /* any address will do */

  for (guint i = 0; i < n; i++)
    tarn_block_free (tarn_pool_allocate_ordered (pool, 4096, queue, NULL));
}

static gpointer
get_queue (guint i)
{
  return GSIZE_TO_POINTER ((gsize) (i + 1) * 512);
}

static void
use_new_queues (TarnPool *pool, guint n)
{
  for (guint i = 0; i < n; i++)
    tarn_block_free (tarn_pool_allocate_ordered (pool, 4096, get_queue (i), NULL));
}

static void
forget_queues (TarnPool *pool, guint n)
{
  TarnBlock **blocks = g_new (TarnBlock *, n);

  for (guint i = 0; i < n; i++)
    blocks[i] = tarn_pool_allocate (pool, 4096, NULL);
  for (guint i = 0; i < n; i++)
    {
      tarn_block_free (tarn_pool_allocate_ordered (pool, 8192, get_queue (i), NULL));
      tarn_pool_forget_queue (pool, get_queue (i), NULL);
    }
  for (guint i = 0; i < n; i++)
    tarn_block_free (blocks[i]);
  g_free (blocks);
}

static void
ignore (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer unused)
{
  (void) domain;
  (void) level;
  (void) message;
  (void) unused;
}

/* Uses fresh blocks.  The queue on which no event could be recorded is not used again. */
static void
use_after_failed_event (TarnPool *pool, guint n)
{
  TarnBlock *failed = tarn_pool_allocate_ordered (pool, 4096, get_queue (0), NULL);
  TarnBlock **blocks = g_new (TarnBlock *, n);

  g_log_set_handler ("Tarn", G_LOG_LEVEL_MESSAGE, ignore, NULL);
  tarn_block_record_use (failed, get_queue (1), NULL);
  fails_to_record = TRUE;
  tarn_block_free (failed);
  fails_to_record = FALSE;
  for (guint i = 0; i < n; i++)
    tarn_block_free (tarn_pool_allocate_ordered (pool, 8192, get_queue (i + 2), NULL));
  for (guint i = 0; i < n; i++)
    blocks[i] = tarn_pool_allocate_ordered (pool, 16384, get_queue (1), NULL);
  for (guint i = 0; i < n; i++)
    tarn_block_free (blocks[i]);
  g_free (blocks);
}

/* Queues in turn, each of which has memory of its own. */
static void
use_queues_in_turn (TarnPool *pool, guint n)
{
  TarnBlock *blocks[1000];

  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = tarn_pool_allocate_ordered (pool, 4096, get_queue (i), NULL);
  for (guint i = 0; i < n; i++)
    tarn_block_free (
        tarn_pool_allocate_ordered (pool, 4096, get_queue (i % G_N_ELEMENTS (blocks)), NULL));
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    tarn_block_free (blocks[i]);
}

/* 512 bytes to 8 MiB, of which N_SIZES are in use; the first one is freed first.  Hardly any size
 * comes again. */
static void
use_many_sizes (TarnPool *pool, guint n)
{
  TarnBlock *blocks[N_SIZES] = { NULL };
  guint32 chance = 1;

  for (guint i = 0; i < n + N_SIZES; i++)
    {
      tarn_block_free (blocks[i % N_SIZES]);
      chance = chance * 1664525 + 1013904223;
      blocks[i % N_SIZES]
          = i < n ? tarn_pool_allocate (pool, (chance >> 18) * (gsize) 512, NULL) : NULL;
    }
}

static gpointer
compute (gpointer first_arg, gconstpointer key, gpointer unused, GError **error)
{
  (void) key;
  (void) unused;
  (void) error;
  return first_arg;
}

static void
use_first_arguments (TarnPool *pool, guint n)
{
  TarnMemo *memo = tarn_memo_new (NULL, compute, NULL, NULL);

  for (guint i = 0; i < n; i++)
    tarn_memo_get (memo, get_queue (i), pool, NULL, NULL);
  for (guint i = 0; i < n; i++)
    tarn_memo_forget (memo, get_queue (i));
  tarn_memo_unref (memo);
}

static const struct
{
  const gchar *name;
  void (*use) (TarnPool *pool, guint n);
  gboolean has_heap;
} ways[] = {
  { "one-size", use_one_size, FALSE },
  { "mixed-sizes", use_mixed_sizes, FALSE },
  { "one-queue", use_queue, FALSE },
  { "new-queues", use_new_queues, FALSE },
  { "forgotten-queues", forget_queues, FALSE },
  { "failed-event", use_after_failed_event, FALSE },
  { "heap-misses", use_many_sizes, TRUE },
  { "queues-in-turn", use_queues_in_turn, TRUE },
  { "first-arguments", use_first_arguments, FALSE },
};

/* The time stands still: what a pool or a heap does after some seconds would count, too. */
static gint64
get_time (void)
{
  return G_TIME_SPAN_SECOND;
}

int
main (int argc, char **argv)
{
  guint64 next = 0;

  tarn_clock_set (get_time);
  for (guint i = 0; argc == 3 && i < G_N_ELEMENTS (ways); i++)
    if (strcmp (argv[1], ways[i].name) == 0)
      {
        g_autoptr (TarnPool) pool = pool_new (&next, ways[i].has_heap);

        ways[i].use (pool, N_SIZES); /* which are held afterwards */
        ways[i].use (pool, (guint) strtoul (argv[2], NULL, 10));
        return EXIT_SUCCESS;
      }
  fprintf (stderr, "hit-path: a way, such as one-size, and a number\n");
  return 2;
}
