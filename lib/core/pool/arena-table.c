/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A pool's table of the queues whose arenas it may use.  An arena is memory of the heap below the
 * pool, from which threads allocate for one queue without a lock.  The table is a hash table with
 * linear probing.  Threads look up a queue by its handle in a read section.  So a thread that
 * changes the table holds the pool's lock and has stopped the pool's read sections.
 *
 * The pool has a reference to each queue in the table.  When the pool removes a queue from the
 * table, it turns the blocks of the queue's arenas into ordinary blocks of the pool.
 *
 * A table that is too small costs time: a request for a queue outside it takes the pool's lock.  A
 * table that is too large keeps queues alive that the program has released.  So the table may have
 * FIRST_MOST queues at first.  When the table is full, the pool removes the queues that came last,
 * and keeps the older ones as a sample of the queues that the program uses.
 *
 * The pool adapts this maximum after each period.  A period ends after a certain number of
 * shortages (SHORTAGES_PER_QUEUE).  A shortage shows that the heap has too little memory for queues
 * that take turns, or that the table is too small (TarnMet.n_shortages tells which events count).
 * If threads use more than half of the sample in two periods in succession, the maximum number of
 * queues (TarnMet.most) doubles.  If they use fewer queues than an eighth of the maximum, the
 * maximum halves.
 *
 * Invariants: the table has a free slot.  A queue stands in its home slot (given by the hash of its
 * handle), or in a later slot.  If it stands in a later slot, all slots from the home slot to that
 * slot are taken. */

#include "pool/cache-private.h"

/* The number of slots in a new table of arenas. */
#define FIRST_PLACES 16

/* The lowest and the highest value of TarnMet.most, the most queues that the table may have.  With
 * many more queues, the pool would have to stop read sections so often that the table would cost
 * more time than it saves. */
#define FIRST_MOST 72
#define LAST_MOST (FIRST_MOST << 2)

/* If no thread uses a queue while the table of arenas becomes full MAX_UNUSED times, the pool
 * removes the queue from the table. */
#define MAX_UNUSED 32

/* A period ends after SHORTAGES_PER_QUEUE * TarnMet.most shortages (TarnMet.n_shortages).  Then the
 * pool adapts TarnMet.most to the number of queues that threads used (end_period ()). */
#define SHORTAGES_PER_QUEUE 4

/* Turns a block that belongs to an arena (is_own) into an ordinary block of the pool: adds the
 * block's queue to the block's uses, and the block's extent (a range of the heap's memory) to the
 * heap's table of extents.  The caller holds the pool's lock.  If other threads can access the
 * block, the caller has also stopped the pool's read sections. */
void
_tarn_pool_settle (TarnPool *pool, TarnBlock *block)
{
  TarnExtent *extent = block->extent;
  TarnQueue *queue;

  _tarn_assert_locked (&pool->lock);
  if (!block->is_own)
    return;
  __atomic_store_n (&block->is_own, FALSE, __ATOMIC_RELAXED);
  block->uses = NULL;
  _tarn_arena_name (pool->heap, extent, block->memory);
  queue = block->share != NULL ? g_hash_table_lookup (pool->queues.table, block->share) : NULL;
  g_assert (block->share == NULL || queue != NULL);
  if (queue != NULL)
    _tarn_block_add_use (block, queue);
  _tarn_block_update_share (block);
}

/* Inserts a queue into the pool's table of arenas.  The caller makes sure that the table has a free
 * slot. */
static void
insert (TarnPool *pool, const TarnMetQueue *met)
{
  guint i = _tarn_spread (0, met->handle);

  while (pool->met.places[i & pool->met.mask].ref.queue != NULL)
    i++;
  pool->met.places[i & pool->met.mask] = *met;
  pool->met.n++;
}

/* Replaces the pool's table of arenas by a table with @n_places slots.  Copies all queues to the
 * new table, except those whose is_going is TRUE. */
static void
make_table (TarnPool *pool, guint n_places)
{
  g_autofree TarnMetQueue *old = pool->met.places;
  guint n_old = old != NULL ? pool->met.mask + 1 : 0;

  pool->met.places = g_new0 (TarnMetQueue, n_places);
  pool->met.mask = n_places - 1;
  pool->met.n = 0;
  for (guint i = 0; i < n_old; i++)
    if (old[i].ref.queue != NULL && !old[i].is_going)
      insert (pool, &old[i]);
    else if (old[i].queue != NULL)
      g_ptr_array_add (pool->queues.released, old[i].queue);
}

static gboolean
is_going (const TarnPool *pool, gpointer handle)
{
  const TarnMetQueue *met = _tarn_pool_find_met (pool, handle);

  return met != NULL && met->is_going;
}

/* Removes from the pool's table of arenas the queues that the caller has marked (is_going).  Later
 * _tarn_pool_unlock_and_sweep () drops the table's references to these queues.  The caller has
 * stopped the pool's read sections. */
static void
drop_going (TarnPool *pool)
{
  for (TarnCache *cache = pool->caches.first; cache != NULL; cache = cache->next)
    for (guint i = 0; i < TARN_CACHE_KEPT; i++)
      if (cache->kept[i] != NULL && is_going (pool, cache->kept[i]->share))
        _tarn_cache_return_kept (cache, cache->kept[i]->share);
  /* The loop skips blocks in state ENDING: the thread that frees such a block returns the block to
   * its arena, and does not look up the queue in the table again. */
  TARN_FOR_EACH_BLOCK (block, &pool->blocks.chunks)
    if (block->is_own && is_going (pool, block->share) && block->state != TARN_BLOCK_ENDING)
      _tarn_pool_settle (pool, block);
  make_table (pool, pool->met.mask + 1);
}

/* Marks queues (sets is_going), so that the caller removes them from the pool's table of arenas.
 * Stops when only @n_kept queues are left unmarked.  *n_left is the number of unmarked queues.  If
 * @only_new is TRUE, marks only new queues, which were inserted since the table was last full. */
static void
mark (TarnPool *pool, guint *n_left, guint n_kept, gboolean only_new)
{
  for (guint i = 0; i <= pool->met.mask && *n_left > n_kept; i++)
    {
      TarnMetQueue *met = &pool->met.places[i];

      if (met->ref.queue == NULL || met->is_going || (only_new && !met->is_new))
        continue;
      met->is_going = TRUE;
      --*n_left;
    }
}

/* Removes queues from the pool's table of arenas, which is full: first the queues that no thread
 * has used while the table became full MAX_UNUSED times.  Then removes new queues until
 * TarnMet.most / 2 queues are left, or no new queue is left.  A queue is new if it was inserted
 * since the table was last full.  The caller has stopped the pool's read sections. */
static void
make_room (TarnPool *pool)
{
  guint n_left = pool->met.n;

  for (guint i = 0; i <= pool->met.mask; i++)
    {
      TarnMetQueue *met = &pool->met.places[i];

      met->n_unused = (met->used & TARN_USED_SINCE_FULL) != 0 ? 0 : met->n_unused + 1;
      met->is_going = met->ref.queue != NULL && met->n_unused >= MAX_UNUSED;
      met->used &= ~TARN_USED_SINCE_FULL;
      n_left -= met->is_going ? 1 : 0;
    }
  mark (pool, &n_left, pool->met.most / 2, TRUE);
  /* If too many queues are left, marks older ones, too.  This happens if end_period () has lowered
   * TarnMet.most. */
  mark (pool, &n_left, pool->met.most - 1, FALSE);
  for (guint i = 0; i <= pool->met.mask; i++)
    pool->met.places[i].is_new = FALSE;
  pool->met.was_full = TRUE;
  drop_going (pool);
}

/* Makes sure that the pool's table of arenas has room for another queue.  The caller has stopped
 * the pool's read sections. */
static void
ensure_room (TarnPool *pool)
{
  if (pool->met.places == NULL)
    {
      pool->met.most = FIRST_MOST;
      make_table (pool, FIRST_PLACES);
    }
  if (pool->met.n >= pool->met.most)
    make_room (pool);
  if (pool->met.n > pool->met.mask / 2)
    make_table (pool, 2 * (pool->met.mask + 1));
}

/* Ends a period, a number of shortages (SHORTAGES_PER_QUEUE).  Doubles, halves or keeps
 * TarnMet.most, the most queues that the table may have.  Returns the number of queues in the table
 * that threads used in this period and also in the period before.  Does not count a queue that
 * threads used in only one of these periods, because a queue that serves a single task is usually
 * used in one period only. */
static guint
end_period (TarnPool *pool)
{
  guint n = 0, n_old = 0, n_old_used = 0;

  for (guint i = 0; pool->met.places != NULL && i <= pool->met.mask; i++)
    {
      TarnMetQueue *met = &pool->met.places[i];
      guint used = __atomic_fetch_and (&met->used, ~TARN_USED_IN_PERIOD, __ATOMIC_RELAXED);
      gboolean is_used = (used & TARN_USED_IN_PERIOD) != 0;
      gboolean is_old = met->ref.queue != NULL && !met->is_new;

      n += is_used && met->was_used ? 1 : 0;
      n_old += is_old ? 1 : 0;
      n_old_used += is_old && is_used && met->was_used ? 1 : 0;
      met->was_used = is_used;
    }
  if (pool->met.was_full && n_old_used > n_old / 2)
    pool->met.most = MIN (2 * pool->met.most, LAST_MOST);
  else if (n < pool->met.most / 8)
    pool->met.most = MAX (pool->met.most / 2, FIRST_MOST);
  pool->met.was_full = FALSE;
  pool->met.n_shortages = 0;
  return n;
}

/* Counts a shortage (TarnMet.n_shortages).  If this shortage ends a period, returns TRUE, and sets
 * *n_used to the number of queues that threads used in this period and in the period before. */
static gboolean
count_shortage (TarnPool *pool, guint *n_used)
{
  _tarn_assert_locked (&pool->lock);
  if (++pool->met.n_shortages < SHORTAGES_PER_QUEUE * MAX (pool->met.most, FIRST_MOST))
    return FALSE;
  *n_used = end_period (pool);
  return TRUE;
}

/* Adds a queue and its arenas to the pool's table of arenas.  @handle is the queue's handle.  For
 * the arenas that serve requests without a queue, @handle and @queue are NULL.  The table takes
 * over the caller's reference to @queue.  If the table has outdated arenas for the queue, replaces
 * them. */
void
_tarn_pool_add_met (TarnPool *pool, gpointer handle, TarnQueue *queue, const TarnArenaRef *ref)
{
  TarnMetQueue met
      = { .handle = handle, .queue = queue, .ref = *ref, .used = TARN_MET_USED, .is_new = TRUE };
  gboolean was_open = _tarn_pool_close (pool);
  TarnMetQueue *former = _tarn_pool_find_met (pool, handle);
  guint n_used;

  _tarn_assert_locked (&pool->lock);
  if (former != NULL)
    {
      met.is_new = former->is_new;
      met.was_used = former->was_used;
      former->is_going = TRUE;
      drop_going (pool);
    }
  ensure_room (pool);
  insert (pool, &met);
  /* In this period, this queue or an earlier one found the table full.  So the table is too small:
   * count a shortage.  If the shortage ends a period, do not pass n_used to the heap, because the
   * heap has enough memory. */
  if (pool->met.was_full)
    count_shortage (pool, &n_used);
  _tarn_pool_open (pool, was_open);
}

/* Counts a turn of a queue as a shortage (TarnMet.n_shortages).  Call this for each request for
 * which the heap has no free memory.  Such a request is a turn of its queue if the preceding such
 * request was of another queue, because then these queues need memory alternately.  The first turn
 * of a queue does not count.
 *
 * If the turn ends a period, tells the heap how many queues need memory alternately.  The heap may
 * then grow, so that each of these queues has memory (heap/churn.c). */
void
_tarn_pool_note_turn (TarnPool *pool, TarnQueue *queue)
{
  gboolean is_over = FALSE;
  guint n_used;

  _tarn_mutex_lock (&pool->lock);
  if (pool->has_arenas && pool->met.in_turn != queue && queue->has_had_turn)
    is_over = count_shortage (pool, &n_used);
  pool->met.in_turn = queue;
  queue->has_had_turn = TRUE;
  _tarn_mutex_unlock (&pool->lock);
  if (is_over)
    _tarn_heap_note_turns (pool->heap, n_used);
}

/* Removes a queue and its arenas from the pool's table of arenas.  @handle is the queue's handle,
 * or NULL for the arenas that serve requests without a queue.  Does nothing if the table does not
 * have the queue. */
void
_tarn_pool_drop_met (TarnPool *pool, gpointer handle)
{
  TarnMetQueue *met = _tarn_pool_find_met (pool, handle);
  gboolean was_open;

  _tarn_assert_locked (&pool->lock);
  if (met == NULL)
    return;
  was_open = _tarn_pool_close (pool);
  met->is_going = TRUE;
  drop_going (pool);
  _tarn_pool_open (pool, was_open);
}

/* Stops threads from allocating from the heap's arenas.  Removes all queues from the pool's table
 * of arenas.  Also ends the grants of all threads (the bytes that a thread may allocate without the
 * pool's lock). */
void
_tarn_pool_end_arenas (TarnPool *pool)
{
  gboolean was_open;

  _tarn_assert_locked (&pool->lock);
  if (!pool->has_arenas)
    return;
  was_open = _tarn_pool_close (pool);
  if (pool->met.places != NULL)
    {
      for (guint i = 0; i <= pool->met.mask; i++)
        pool->met.places[i].is_going = TRUE;
      drop_going (pool);
    }
  _tarn_pool_end_grants (pool);
  __atomic_store_n (&pool->has_arenas, FALSE, __ATOMIC_RELAXED);
  _tarn_pool_open (pool, was_open);
}
