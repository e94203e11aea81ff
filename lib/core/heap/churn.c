/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Bounds how often pieces move, and how often pools return the blocks in thread caches.  A heap
 * that has hardly more memory than its peak of bytes in use does both again and again if several
 * threads or queues take memory in turn.  Each move costs driver calls, and threads have to
 * allocate again what their caches returned.
 *
 * So a heap has a budget of each, which grows as its peak rises and as time goes by.  When the
 * budget is spent, the heap had too little memory: the room that it may have besides its peak grows
 * by what the request needs, up to a bound.  At that bound memory is worth more than time, and
 * moves and returns go on.  The room shrinks again while few of them are needed.
 *
 * The lock is held in all functions here. */

#include "heap/heap-private.h"

#define MIB ((gsize) 1 << 20)

/* The budget of each: at first, which is also the most that it reaches as time passes, */
#define FIRST 64
/* plus 1 for each PEAK_STEP bytes by which the peak rises, and 1 for each TIME_STEP. */
#define PEAK_STEP (8 * MIB)
#define TIME_STEP G_TIME_SPAN_SECOND

/* The bound on the room's growth: the peak divided by EXTRA_SHARE.  If the heap has several queues,
 * EXTRA_OF_ARENA for each, but at most the peak divided by EXTRA_SHARE_OF_QUEUES. */
#define EXTRA_SHARE 32
#define EXTRA_OF_ARENA (48 * MIB)
#define EXTRA_SHARE_OF_QUEUES 4

/* If the heap has several arenas, one in BEYOND requests lets the room grow beyond that bound, up
 * to EXTRA_PEAKS times the peak.  Queues that take turns have their peaks at different times, and
 * the sum of these may be that much. */
#define BEYOND 8
#define EXTRA_PEAKS 2

/* The time after which half of the room's growth is gone. */
#define HALF_LIFE (10 * G_TIME_SPAN_SECOND)

void
_tarn_heap_init_churn (TarnHeap *heap)
{
  heap->churn = (TarnHeapChurn){ .n_moves = FIRST, .n_flushes = FIRST, .at = _tarn_clock_now () };
}

/* Adds @n to both budgets. */
static void
add (TarnHeapChurn *churn, guint64 n)
{
  churn->n_moves = (guint) MIN (churn->n_moves + n, FIRST);
  churn->n_flushes = (guint) MIN (churn->n_flushes + n, FIRST);
}

/* Adds to the budgets for the time that has passed, and shrinks the room. */
static void
note_time (TarnHeapChurn *churn)
{
  gint64 passed = MAX (_tarn_clock_now () - churn->at, 0);
  gint64 steps = passed / TIME_STEP, halves = passed / HALF_LIFE;

  if (steps == 0)
    return;
  add (churn, (guint64) steps);
  churn->extra = halves < 64 ? churn->extra >> halves : 0;
  churn->at += steps * TIME_STEP;
}

/* Adds to the budgets for a peak that has risen.  The peak takes the place of the room's growth. */
static void
note_peak (TarnHeapChurn *churn, guint64 peak)
{
  guint64 risen = peak - churn->peak;

  if (risen < PEAK_STEP)
    return;
  if (churn->extra == 0)
    add (churn, risen / PEAK_STEP);
  churn->extra -= MIN (churn->extra, risen);
  churn->peak = peak;
}

/* Returns TRUE if the room may grow to @extra bytes although that exceeds its bound, once in BEYOND
 * calls. */
static gboolean
go_beyond (TarnHeap *heap, guint64 extra)
{
  return heap->arenas.length > 2 && ++heap->churn.n_beyond % BEYOND == 0
         && extra <= EXTRA_PEAKS * (guint64) heap->stats.peak_used_bytes;
}

/* Adds the bytes that a request is missing to the room.  Returns FALSE if the room must not grow
 * any more. */
static gboolean
add_room (TarnHeap *heap, gsize missing, gsize target)
{
  guint64 peak = heap->stats.peak_used_bytes;
  guint64 of_queues = MIN (_tarn_heap_count_for_room (heap) * (guint64) EXTRA_OF_ARENA,
                           peak / EXTRA_SHARE_OF_QUEUES);
  guint64 most = MAX (peak / EXTRA_SHARE, of_queues);
  gsize all = heap->stats.upstream_bytes;
  guint64 more = (guint64) missing + (target < all ? all - target : 0);

  if (heap->churn.extra + more > most && !go_beyond (heap, heap->churn.extra + more))
    return FALSE;
  heap->churn.extra += more;
  return TRUE;
}

static void
add_some (TarnHeap *heap)
{
  note_time (&heap->churn);
  note_peak (&heap->churn, heap->stats.peak_used_bytes);
}

/* Decides whether a request that is missing @missing bytes moves pieces.  If not, the room grows
 * instead.  @target: the bytes that the heap may have by now. */
gboolean
_tarn_heap_pay_for_moves (TarnHeap *heap, gsize missing, gsize target)
{
  add_some (heap);
  if (heap->churn.n_moves == 0)
    return !add_room (heap, missing, target);
  heap->churn.n_moves--;
  return TRUE;
}

/* Gets the most bytes that the heap can have, as far as it knows. */
static gsize
get_most (const TarnHeap *heap)
{
  gsize limit = _tarn_heap_get_limit (heap);

  return heap->is_short ? 0 : limit != 0 ? limit : G_MAXSIZE;
}

/* Computes the number of bytes that the heap may still take from upstream.  Beyond that it uses the
 * free memory of its arenas. */
gsize
_tarn_heap_get_room (const TarnHeap *heap)
{
  gsize target = MIN (heap->growth->get_target (heap, 0), get_most (heap));
  gsize all = heap->stats.upstream_bytes;

  return target > all ? target - all : 0;
}

/* Decides which cached blocks a pool returns before the heap grows for a request of @size bytes.
 * @keeps: its threads cache blocks that only they use; if not, a flush costs nothing. */
static TarnSparing
choose_sparing (TarnHeap *heap, gsize size, gboolean keeps)
{
  gsize target = heap->growth->get_target (heap, size), all = heap->stats.upstream_bytes;
  gboolean has_room = target >= all && target - all >= size;
  gsize most = get_most (heap);

  if (all > most || size > most - all)
    return TARN_SPARING_ALL;
  if (keeps)
    {
      add_some (heap);
      if (heap->churn.n_flushes == 0 && (has_room || add_room (heap, size, target)))
        return TARN_SPARING_HELD;
      heap->churn.n_flushes -= heap->churn.n_flushes > 0;
    }
  return has_room ? TARN_SPARING_QUEUE : TARN_SPARING_ALL;
}

TarnSparing
_tarn_heap_choose_sparing (TarnHeap *heap, gsize size, gboolean keeps)
{
  TarnSparing sparing;

  _tarn_heap_lock (heap);
  sparing = choose_sparing (heap, size, keeps);
  _tarn_heap_unlock (heap);
  return sparing;
}
