/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The actions of call-backs.h: each calls some public functions of Tarn, for the pool that has
 * just called. */

#include "call-backs.h"

/* Leaves a block to a later action, or to the end. */
static void
leave (World *world, TarnBlock *block)
{
  for (guint i = 0; i < N_EXTRA && block != NULL; i++)
    if (g_atomic_pointer_compare_and_exchange (&world->extra[i], NULL, block))
      block = NULL;
  tarn_block_free (block);
}

TarnBlock *
world_take_left (World *world)
{
  TarnBlock *block = NULL;

  for (guint i = 0; i < N_EXTRA && block == NULL; i++)
    block = g_atomic_pointer_exchange (&world->extra[i], NULL);
  return block;
}

static void
act_allocate (World *world)
{
  leave (world, tarn_pool_allocate (world->pool, 3000, NULL));
}

static void
act_allocate_ordered (World *world)
{
  leave (world, tarn_pool_allocate_ordered (world->pool, 3000, &world->queues[1], NULL));
}

static void
act_allocate_much (World *world)
{
  tarn_block_free (tarn_pool_allocate (world->pool, BUDGET / 2, NULL));
  tarn_block_free (tarn_pool_allocate_ordered (world->pool, BUDGET, &world->queues[2], NULL));
}

static void
act_free (World *world)
{
  leave (world, tarn_pool_allocate_ordered (world->pool, 500, &world->queues[0], NULL));
  tarn_block_free (world_take_left (world));
  tarn_block_free (world_take_left (world));
}

static gpointer
free_left (gpointer world)
{
  world_is_inside = TRUE;
  tarn_block_free (world_take_left (world));
  tarn_block_free (world_take_left (world));
  return NULL;
}

/* Frees blocks in another thread, and waits for it.  A free must wait for nobody, because a
 * backend's function may wait for it. */
static void
act_free_elsewhere (World *world)
{
  leave (world, tarn_pool_allocate_ordered (world->pool, 600, &world->queues[1], NULL));
  g_thread_join (g_thread_new ("frees", free_left, world));
}

/* A free that records events. */
static void
act_free_used (World *world)
{
  TarnBlock *block = tarn_pool_allocate_ordered (world->pool, 700, &world->queues[0], NULL);

  if (block == NULL)
    return;
  tarn_block_record_use (block, &world->queues[1], NULL);
  tarn_block_record_use (block, &world->queues[3], NULL);
  tarn_block_free (block);
}

static void
act_move (World *world)
{
  TarnBlock *block = tarn_pool_allocate_ordered (world->pool, 900, &world->queues[0], NULL);

  if (block == NULL)
    return;
  tarn_block_move_to_queue (block, &world->queues[2], NULL);
  tarn_block_wait (block, NULL);
  tarn_block_free (block);
}

static void
act_free_held (World *world)
{
  tarn_pool_free_held (world->pool);
}

static void
act_trim (World *world)
{
  tarn_pool_trim (world->pool, 1000);
}

static void
act_stop_holding (World *world)
{
  tarn_pool_stop_holding (world->pool);
}

static void
act_get_stats (World *world)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  TarnHeapStats heap_stats = TARN_HEAP_STATS_INIT;

  tarn_pool_get_stats (world->pool, &stats);
  tarn_pool_reset_peaks (world->pool);
  tarn_pool_get_held_blocks (world->pool);
  tarn_pool_get_active_blocks (world->pool);
  tarn_pool_get_managed_bytes (world->pool);
  tarn_pool_get_active_bytes (world->pool);
  tarn_pool_get_limit_bytes (world->pool);
  tarn_heap_get_stats (tarn_pool_get_upstream (world->pool), &heap_stats);
}

/* Lowers the limit, and asks for more than it leaves, in a thread that may itself have reserved
 * some of it.  Such a request must not wait for its own thread. */
static void
act_limit (World *world)
{
  tarn_pool_set_limit_bytes (world->pool, 20000);
  leave (world, tarn_pool_allocate (world->pool, 15000, NULL));
  leave (world, tarn_pool_allocate_ordered (world->pool, 6000, &world->queues[1], NULL));
  tarn_pool_set_limit_bytes (world->pool, world->kind->limit_bytes);
}

/* More than there may be, and less. */
static void
act_charge (World *world)
{
  for (gsize bytes = 100000; bytes > 100; bytes /= 10)
    if (tarn_pool_charge (world->pool, bytes, NULL))
      tarn_pool_uncharge (world->pool, bytes);
  tarn_pool_get_charged_bytes (world->pool);
}

static void
act_forget (World *world)
{
  for (guint i = 0; i < N_QUEUES; i++)
    tarn_pool_forget_queue (world->pool, &world->queues[i], NULL);
}

static gboolean
give_nothing (TarnPool *pool, gsize wanted, gpointer data)
{
  (void) pool;
  (void) wanted;
  (void) data;
  return FALSE;
}

static void
act_reclaim_func (World *world)
{
  tarn_pool_remove_reclaim_func (
      world->pool, tarn_pool_add_reclaim_func (world->pool, give_nothing, NULL, NULL));
}

static void
act_group (World *world)
{
  tarn_reclaim_group_unref (tarn_pool_get_reclaim_group (world->pool));
  tarn_pool_set_reclaim_group (world->pool, NULL);
  tarn_pool_set_reclaim_group (world->pool, world->group);
}

static void
act_unref (World *world)
{
  tarn_pool_unref (tarn_pool_ref (world->pool));
  tarn_allocator_unref (g_atomic_pointer_exchange (&world->heap, NULL));
}

/* Past the pool. */
static void
act_upstream (World *world)
{
  TarnAllocator *upstream = tarn_pool_get_upstream (world->pool);
  TarnMemory memory;

  tarn_block_free (tarn_allocator_allocate (upstream, 5000, NULL));
  if (tarn_allocator_allocate_memory (upstream, 70000, &memory, NULL))
    tarn_allocator_free_memory (upstream, memory, 70000);
  if (tarn_allocator_allocate_memory (TARN_ALLOCATOR (world->pool), 300, &memory, NULL))
    tarn_allocator_free_memory (TARN_ALLOCATOR (world->pool), memory, 300);
}

/* Another pool over the same. */
static void
act_other_pool (World *world)
{
  g_autoptr (TarnPool) other = tarn_pool_new (tarn_pool_get_upstream (world->pool), NULL, NULL);

  tarn_pool_set_reclaim_group (other, world->group);
  tarn_block_free (tarn_pool_allocate (other, 3000, NULL));
  tarn_block_free (tarn_pool_allocate_ordered (other, 3000, &world->queues[2], NULL));
  tarn_pool_forget_queue (other, &world->queues[2], NULL);
}

static void
act_debug (World *world)
{
  TarnBlock *block = world_take_left (world);

  tarn_debug_check ();
  tarn_debug_note_free (block);
  tarn_debug_report_use (block);
  tarn_block_free (block);
  tarn_pool_is_debugged (world->pool);
}

static void
act_snapshot (World *world)
{
  (void) world;
  tarn_snapshot_write ("/dev/null", NULL);
  tarn_snapshot_set_follow (TRUE);
  tarn_snapshot_set_follow (FALSE);
}

const NamedAction world_actions[] = {
  { "allocate", act_allocate },
  { "allocate-ordered", act_allocate_ordered },
  { "allocate-much", act_allocate_much },
  { "free", act_free },
  { "free-elsewhere", act_free_elsewhere },
  { "free-used", act_free_used },
  { "move", act_move },
  { "free-held", act_free_held },
  { "trim", act_trim },
  { "stop-holding", act_stop_holding },
  { "get-stats", act_get_stats },
  { "limit", act_limit },
  { "charge", act_charge },
  { "forget", act_forget },
  { "reclaim-func", act_reclaim_func },
  { "group", act_group },
  { "unref", act_unref },
  { "upstream", act_upstream },
  { "other-pool", act_other_pool },
  { "debug", act_debug },
  { "snapshot", act_snapshot },
};

const guint world_n_actions = G_N_ELEMENTS (world_actions);
