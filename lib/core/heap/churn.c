/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * How often pieces may move.  A heap that has hardly more than what was in use at most moves pieces
 * again and again where several queues take memory in turn; each move costs calls of the driver.
 * So a heap has a number of moves, and more of them as its peak rises and as time goes by.  When
 * they are spent it had too little memory: the room that it may have besides its peak grows by what
 * the request needs, up to a bound.  At that bound memory is worth more than time, and pieces move
 * again.  What was added to the room goes while few pieces move.
 *
 * The lock is held in all of this. */

#include "heap/heap-private.h"

#define MIB ((gsize) 1 << 20)

/* Requests that may move pieces: at first, which is also the most that time adds up to, */
#define FIRST 64
/* one more for so many bytes by which the peak has risen, and one for so much time. */
#define PEAK_STEP (8 * MIB)
#define TIME_STEP G_TIME_SPAN_SECOND

/* The most that the room grows by: one byte in EXTRA_SHARE of the peak; with several queues so many
 * for each, but no more than one in EXTRA_SHARE_OF_QUEUES. */
#define EXTRA_SHARE 32
#define EXTRA_OF_QUEUE (48 * MIB)
#define EXTRA_SHARE_OF_QUEUES 2

/* After so much time half of what was added to the room is gone. */
#define HALF_LIFE (10 * G_TIME_SPAN_SECOND)

void
_tarn_heap_init_churn (TarnHeap *heap)
{
  heap->churn = (TarnHeapChurn){ .n_left = FIRST, .at = _tarn_clock_now () };
}

/* Adds moves for the time that has passed, in which the room gets smaller, too. */
static void
note_time (TarnHeapChurn *churn)
{
  gint64 passed = MAX (_tarn_clock_now () - churn->at, 0);
  gint64 steps = passed / TIME_STEP, halves = passed / HALF_LIFE;

  if (steps == 0)
    return;
  churn->n_left = (guint) MIN (churn->n_left + steps, FIRST);
  churn->extra = halves < 64 ? churn->extra >> halves : 0;
  churn->at += steps * TIME_STEP;
}

/* Adds moves for a peak that has risen, which takes the place of what was added to the room. */
static void
note_peak (TarnHeapChurn *churn, guint64 peak)
{
  guint64 risen = peak - churn->peak;

  if (risen < PEAK_STEP)
    return;
  if (churn->extra == 0)
    churn->n_left = (guint) MIN (churn->n_left + risen / PEAK_STEP, FIRST);
  churn->extra -= MIN (churn->extra, risen);
  churn->peak = peak;
}

/* Adds what a request is missing to the room.  FALSE: it has grown by as much as it may. */
static gboolean
add_room (TarnHeap *heap, gsize missing, gsize target)
{
  guint64 peak = heap->stats.peak_used_bytes;
  guint64 of_queues
      = MIN (heap->all_queues.length * (guint64) EXTRA_OF_QUEUE, peak / EXTRA_SHARE_OF_QUEUES);
  guint64 most = MAX (peak / EXTRA_SHARE, of_queues);
  gsize all = heap->stats.upstream_bytes;
  guint64 more = missing + (target < all ? all - target : 0);

  if (heap->churn.extra + more > most)
    return FALSE;
  heap->churn.extra += more;
  return TRUE;
}

/* Decides whether a request that is missing so many bytes moves pieces, or else has the room grow,
 * where the heap may have @target bytes by now. */
gboolean
_tarn_heap_pay_for_moves (TarnHeap *heap, gsize missing, gsize target)
{
  TarnHeapChurn *churn = &heap->churn;

  note_time (churn);
  note_peak (churn, heap->stats.peak_used_bytes);
  if (churn->n_left == 0)
    return !add_room (heap, missing, target);
  churn->n_left--;
  return TRUE;
}
