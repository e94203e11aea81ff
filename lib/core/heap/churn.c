/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Bounds two costs of a heap whose memory is hardly more than its peak of bytes in use.  If several
 * threads or queues allocate alternately, such a heap does these two things again and again:
 * - It moves segments (memory that upstream allocated in one call) between queues or addresses.
 *   Each move costs driver calls.
 * - It makes pools flush thread caches, that is, return the blocks in the caches to the heap.
 *   After a flush, the threads have to allocate again.
 *
 * So the heap has a budget of moves and a budget of flushes.  Both budgets grow as the heap's peak
 * rises and as time passes.  A spent budget shows that the heap has too little memory.  Then the
 * heap's room grows by the bytes that the request needs, up to a bound.  The room is the bytes that
 * the heap may have above its peak.  If the bound is reached, memory is worth more than time, so
 * the heap moves segments and flushes caches although the budget is spent.  The room shrinks again
 * when requests have needed no moves or flushes for some time.
 *
 * If a heap has few bytes in use, but many queues, its room is too small for one segment per queue.
 * If these queues alternately need memory, each takes a segment from another queue.  So the pools
 * tell the heap how many queues their threads use alternately (pool/arena-table.c), and the heap
 * may have TARN_ARENA_ROOM bytes of room for each of these queues.
 *
 * The functions _tarn_heap_choose_sparing () and _tarn_heap_note_turns () take the heap's lock. The
 * caller of each other function here holds the lock. */

#include "heap/heap-private.h"

#define MIB ((gsize) 1 << 20)

/* A budget is the number of requests that may still move segments, or that may still make pools
 * flush thread caches.  FIRST is the value of each budget in a new heap, and also its largest
 * value.  With several queues, a request may subtract more than 1 from the budget of moves
 * (get_cost_of_moves ()). */
#define FIRST 64
/* A budget of moves or flushes grows by 1 with each TIME_STEP (in microseconds) that passes, and
 * with each PEAK_STEP bytes by which the heap's peak of bytes in use rises. */
#define PEAK_STEP (8 * MIB)
#define TIME_STEP G_TIME_SPAN_SECOND

/* Numbers that bound how much a heap's room may grow.  The room is the bytes that the heap may have
 * above its peak of bytes in use.  The bound is the larger one of two numbers:
 * - the peak divided by EXTRA_SHARE
 * - EXTRA_OF_ARENA bytes for each arena, but at most the peak divided by EXTRA_SHARE_OF_QUEUES
 *   (_tarn_heap_count_for_room () counts the arenas) */
#define EXTRA_SHARE 32
#define EXTRA_OF_ARENA (48 * MIB)
#define EXTRA_SHARE_OF_QUEUES 4

/* TarnHeapChurn.turns is the number of queues that need memory by turns.  A pool raises this
 * number.  With each TIME_STEP that passes, turns falls by turns / TURNS_FALL, rounded up. */
#define TURNS_FALL 8

/* The room of a heap is the bytes that the heap may have above its peak.  Usually the room grows up
 * to a bound.  In a heap with more than two arenas, every BEYOND-th request that needs more room
 * may exceed this bound, and let the room grow by up to EXTRA_PEAKS times the peak.  The reason is
 * that such a heap usually has several queues, which may need memory by turns.  Then each queue
 * reaches its own peak at another time.  The sum of the queues' peaks can be EXTRA_PEAKS times the
 * heap's peak. */
#define BEYOND 8
#define EXTRA_PEAKS 2

/* If no request needs moves or flushes for HALF_LIFE microseconds, the heap's room (the bytes that
 * it may have above its peak) loses half of what it has grown. */
#define HALF_LIFE (10 * G_TIME_SPAN_SECOND)

void
_tarn_heap_init_churn (TarnHeap *heap)
{
  heap->churn = (TarnHeapChurn){ .n_moves = FIRST, .n_flushes = FIRST, .at = _tarn_clock_now () };
}

/* Adds @n to both budgets of a heap: the numbers of requests that may still move segments, and that
 * may still make pools flush thread caches. */
static void
add (TarnHeapChurn *churn, guint64 n)
{
  churn->n_moves = (guint) MIN (churn->n_moves + n, FIRST);
  churn->n_flushes = (guint) MIN (churn->n_flushes + n, FIRST);
}

/* Adds 1 to each budget for each TIME_STEP that has passed since the last addition.  Halves the
 * growth of the heap's room (the bytes that it may have above its peak) for each HALF_LIFE in this
 * time.  Lowers churn->turns, the number of queues that alternately need memory (TURNS_FALL). */
static void
note_time (TarnHeapChurn *churn)
{
  gint64 passed = MAX (_tarn_clock_now () - churn->at, 0);
  gint64 steps = passed / TIME_STEP, halves = passed / HALF_LIFE;

  if (steps == 0)
    return;
  add (churn, (guint64) steps);
  churn->extra = halves < 64 ? churn->extra >> halves : 0;
  for (gint64 i = 0; i < steps && churn->turns > 0; i++)
    churn->turns -= (churn->turns + TURNS_FALL - 1) / TURNS_FALL;
  churn->at += steps * TIME_STEP;
}

/* Updates the budgets or the heap's room, if the heap's peak of bytes in use has risen by PEAK_STEP
 * or more.  The room is the number of bytes that the heap may have above its peak.  If the room has
 * its usual size, adds to the budgets of moves and flushes.  If the room has grown, reduces this
 * growth by as many bytes as the peak has risen: the higher peak lets the heap have these bytes. */
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

/* Returns TRUE if the heap's room (the bytes that the heap may have above its peak) may grow beyond
 * its usual bound for this call (see BEYOND).  @extra: all bytes by which the room would then have
 * grown. */
static gboolean
go_beyond (TarnHeap *heap, guint64 extra)
{
  return heap->arenas.length > 2 && ++heap->churn.n_beyond % BEYOND == 0
         && extra <= EXTRA_PEAKS * (guint64) heap->stats.peak_used_bytes;
}

/* Lets the heap's room grow, so that the heap may get @missing more bytes for a request.  The room
 * is the number of bytes that the heap may have above its peak of bytes in use.  @target is the
 * number of bytes that the heap may have if its room does not grow.  If the heap already has more
 * than @target, the room grows by the excess, too.  Returns FALSE if the room would exceed its
 * bound. */
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

/* Returns the number that a request which moves segments subtracts from the budget of moves.  In
 * virtual memory, this is the number of queues: a move needs driver calls, and the threads of all
 * queues wait meanwhile.  In other heaps, this is 1. */
static guint
get_cost_of_moves (const TarnHeap *heap)
{
  guint n_queues = _tarn_heap_has_addresses (heap) ? _tarn_heap_count_queues (heap) : 0;

  return MAX (n_queues, 1);
}

/* Returns TRUE if the heap should move segments for a request that lacks @missing bytes.  Usually
 * this uses up part of the budget of moves (get_cost_of_moves ()).  If the budget is spent, lets
 * the heap's room grow, and returns FALSE: the heap may then allocate fresh memory instead.  The
 * room is the bytes that the heap may have above its peak of bytes in use.  If the room must not
 * grow any more, returns TRUE nevertheless.  @target: the most bytes that the heap should have if
 * the room does not grow. */
gboolean
_tarn_heap_pay_for_moves (TarnHeap *heap, gsize missing, gsize target)
{
  guint cost = get_cost_of_moves (heap);

  add_some (heap);
  if (heap->churn.n_moves < cost)
    return !add_room (heap, missing, target);
  heap->churn.n_moves -= cost;
  return TRUE;
}

/* Gets the most bytes that the heap may have: its limit, or G_MAXSIZE if it has no limit.  Returns
 * 0 if upstream has run out of memory lately, so that the heap counts as having no room. */
static gsize
get_most (const TarnHeap *heap)
{
  gsize limit = _tarn_heap_get_limit (heap);

  return _tarn_heap_is_short (heap) ? 0 : limit != 0 ? limit : G_MAXSIZE;
}

/* Computes the most bytes that the heap should still get from upstream.  Threads use this number if
 * a request finds no extent in its thread's own arena, to choose between growth and the queue's
 * other arenas (TarnHeap.room_bytes). */
gsize
_tarn_heap_get_room (const TarnHeap *heap)
{
  gsize target = MIN (heap->growth->get_target (heap, 0), get_most (heap));
  gsize all = heap->stats.upstream_bytes;

  return target > all ? target - all : 0;
}

/* Chooses the cached blocks that a pool returns to the heap before the heap grows for a request of
 * @size bytes.  @keeps is TRUE if the pool's threads have caches of blocks.  If @keeps is FALSE,
 * there are no caches to flush, so the budget that limits such flushes does not apply. */
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

/* Records that @n queues need memory alternately: a pool calls this if its threads use @n queues by
 * turns, and the heap had no free memory for some of them.  The heap may then have extra memory,
 * TARN_ARENA_ROOM bytes for each of these queues, so that they need not take segments from each
 * other.  Does nothing if the number is @n or higher already.  note_time () lowers the number as
 * time passes. */
void
_tarn_heap_note_turns (TarnHeap *heap, guint n)
{
  _tarn_heap_lock_open (heap);
  note_time (&heap->churn);
  heap->churn.turns = MAX (heap->churn.turns, n);
  _tarn_heap_unlock (heap);
}
