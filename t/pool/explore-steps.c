/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What the explorer's program does, one step at a time, and what it may expect of each. */

#include "explore.h"

#include <stdlib.h>
#include <string.h>

#include "lib/conformance.h"

/* Each the largest of its bin. */
#define SIZE 1023
#define BIG_SIZE 2047

static const gchar *const names[]
    = { "alloc",   "big",  "none", "second", "direct", "free",  "use",
        "record",  "move", "wait", "sync",   "forget", "renew", "replace",
        "capture", "held", "trim", "stop",   "limit",  "full",  "drop" };

static guint
kind_of (const Step *step)
{
  return BIT (step->kind);
}

const gchar *
name_step (Step step, gchar *text, gsize size)
{
  const gboolean is_allocation = (kind_of (&step) & (STEP_ALLOCATE | STEP_BIG)) != 0;
  const gboolean names_queue = step.queue != NO_QUEUE;
  gchar queue[3] = "", block[3] = "";

  if (names_queue)
    g_snprintf (queue, sizeof queue, " %c",
                step.queue == NO_LETTER ? '-' : world.config->queues[step.queue]);
  if (step.number != NO_QUEUE)
    g_snprintf (block, sizeof block, " %u", (step.number + 1) % 10);
  g_snprintf (text, size, "%s%s%s%s%s", names[step.kind], is_allocation && step.pool > 0 ? "2" : "",
              block, queue, step.is_elsewhere ? " elsewhere" : "");
  return text;
}

/* Calls */

static void
begin_call (Call *call, guint32 named)
{
  call->outer = world.call;
  call->named = named | (call->outer != NULL ? call->outer->named : 0);
  if ((world.config->flags & IS_FRESH) != 0)
    call->named |= BIT (0);
  call->number = ++world.n_calls;
  call->n_calls = call->n_host_waits = call->n_waits = 0;
  call->has_failed = call->was_full = call->has_nested = FALSE;
  call->memory = call->pool = -1;
  call->forgotten = NO_QUEUE;
  world.call = call;
}

/* What has happened inside has happened in what is around it, too. */
static void
end_call (Call *call)
{
  Call *outer = call->outer;

  world.call = outer;
  if (outer == NULL)
    return;
  outer->has_nested = TRUE;
  outer->has_failed |= call->has_failed;
  outer->was_full |= call->was_full;
}

static gboolean
is_any_capturing (void)
{
  for (guint i = 0; i < world.n_queues; i++)
    if (world.queues[i].is_capturing)
      return TRUE;
  return FALSE;
}

/* Bytes that must stay. */
static gsize
get_active_bytes (void)
{
  gsize bytes = 0;

  for (guint i = 0; i < world.n_memories; i++)
    if (world.memories[i].is_active
        || (!world.memories[i].is_live && !clock_is_in (&world.memories[i].gone, &world.host)))
      bytes += world.memories[i].size;
  return bytes;
}

/* A request may be refused only where nothing that is held would make room.  What a pool over it
 * holds is in use for the pool below. */
static void
check_refusal (const Call *call, gsize size, guint64 room)
{
  if (world.has_failed || world.has_captured || call->has_nested || call->outer != NULL
      || ((world.config->flags & POOL_OVER) != 0 && call->pool == 0))
    return;
  if (get_active_bytes () + size <= room)
    fault ("a request is refused although what is held would make room");
}

/* Checks the error of a call that failed, and forgets it; @size: of a request, else 0. */
static void
check_error (const Call *call, gsize size, GError **error)
{
  tell ("%s", *error != NULL ? (*error)->message : "no error");
  if (g_error_matches (*error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY) && size > 0 && call->was_full)
    check_refusal (call, size, world.budget);
  else if (g_error_matches (*error, TARN_ERROR, TARN_ERROR_LIMIT) && size > 0 && world.limit > 0)
    check_refusal (call, size, world.limit);
  else if (!(g_error_matches (*error, TARN_ERROR, TARN_ERROR_FAILED) && call->has_failed)
           && !(g_error_matches (*error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED)
                && is_any_capturing ()))
    fault ("a call fails for no reason");
  g_clear_error (error);
}

/* What a pool that is over another one asks it for counts there, too. */
static void
check_counters (guint pool)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  gsize n_blocks = 0, bytes = 0;

  for (guint i = 0; i < N_BLOCKS; i++)
    if (world.blocks[i].block != NULL && world.blocks[i].pool == (gint) pool)
      {
        n_blocks++;
        bytes += world.memories[world.blocks[i].memory].size;
      }
  world.peak[pool] = MAX (world.peak[pool], bytes);
  tarn_pool_get_stats (world.pools[pool], &stats);
  if (stats.active_blocks != n_blocks || stats.active_bytes != bytes
      || stats.hits + stats.misses != world.n_served[pool]
      || stats.failures != world.n_refused[pool])
    fault ("a counter is wrong");
  if (stats.peak_active_bytes > world.peak[pool] && world.config->n_nested == 0)
    fault ("a peak is higher than it ever was");
}

static void
check_pools (void)
{
  for (guint i = 0; i < N_POOLS; i++)
    if (world.pools[i] != NULL)
      {
        assert_valid (world.pools[i]);
        if (i > 0 || (world.config->flags & POOL_OVER) == 0)
          check_counters (i);
      }
}

/* Blocks */

static Block *
get_empty (void)
{
  for (guint i = 0; i < N_BLOCKS; i++)
    if (world.blocks[i].block == NULL)
      return &world.blocks[i];
  return NULL;
}

/* From here on commands on a memory are another owner's. */
static void
own (Memory *memory)
{
  clock_join (&memory->past, &memory->present);
  memset (&memory->present, 0, sizeof memory->present);
}

/* The block is one queue's alone, which uses it; NO_QUEUE: the host's. */
static void
begin_use (Block *block, guint8 queue)
{
  own (&world.memories[block->memory]);
  block->first = queue;
  block->users = queue != NO_QUEUE ? BIT (queue) : 0;
  block->is_orphan = FALSE;
  block->is_recent = TRUE;
  if (queue != NO_QUEUE)
    device_command (queue, block->memory);
  else
    device_touch (block->memory);
}

/* Tells whether there is held memory that the queue alone has used: it is to have it for nothing.
 */
static gboolean
has_own (guint pool, guint8 queue, gsize size)
{
  if ((world.config->flags & POOL_OVER) != 0 || world.config->has_threads)
    return FALSE; /* the lower pool has it, or another thread */
  for (guint i = 0; i < world.n_memories; i++)
    {
      const Memory *memory = &world.memories[i];

      if (memory->is_live && !memory->is_active && memory->size == size && memory->pool == pool
          && memory->sole == queue)
        return TRUE;
    }
  return FALSE;
}

static void
check_request (const Call *call, const Memory *memory, gboolean has_own, gboolean names_queue)
{
  const gboolean must_not_wait
      = names_queue && world.limit == 0 && (world.config->flags & POOL_OVER) == 0;

  if (call->has_nested || call->has_failed || call->outer != NULL)
    return;
  if (has_own && call->n_calls > 0 && !world.has_stopped)
    fault ("a queue's own memory costs it a call");
  if (must_not_wait && call->n_host_waits > 0 && !call->was_full)
    fault ("the host waits although there is room");
  for (guint i = 0; i < call->n_waits; i++)
    if (!clock_is_in (&call->waits[i], &memory->freed) && !world.allows_late)
      fault ("a queue waits for what came after the free");
}

/* Makes a block of a request the program's. */
static void
begin_block (TarnBlock *new, gint pool, guint8 queue)
{
  const guint i = (guint) tarn_block_get_memory (new).address - 1;
  Block *block = get_empty ();
  Memory *memory = &world.memories[i];

  g_assert_nonnull (block);
  if (memory->is_active)
    fault ("memory is handed out twice");
  block->block = new;
  block->memory = i;
  block->pool = pool;
  memory->is_active = TRUE;
  memory->may_be_lost = FALSE;
  if (queue != NO_QUEUE && tarn_block_get_queue (new) != device_get_handle (queue))
    fault ("a block is not its queue's");
  begin_use (block, queue);
}

/* A request without a queue is for the queue that makes memory ready, if somebody waits for that.
 */
static guint8
get_default_queue (void)
{
  return (world.config->flags & IS_FRESH) != 0 && (world.config->flags & FREES_IN_ORDER) == 0
             ? 0
             : NO_QUEUE;
}

static void
do_allocate (guint pool, gsize size, guint8 named)
{
  const guint8 queue = named != NO_QUEUE ? named : get_default_queue ();
  const gboolean has_one = queue != NO_QUEUE && has_own (pool, queue, size);
  GError *error = NULL;
  TarnBlock *block;
  Call call;

  begin_call (&call, named != NO_QUEUE ? BIT (named) : 0);
  call.pool = (gint) pool;
  block = tarn_pool_allocate_ordered (world.pools[pool], size, device_get_handle (named), &error);
  end_call (&call);
  (block != NULL ? world.n_served : world.n_refused)[pool]++;
  if (block == NULL)
    {
      check_error (&call, size, &error);
      return;
    }
  check_request (&call, &world.memories[tarn_block_get_memory (block).address - 1], has_one,
                 queue != NO_QUEUE);
  begin_block (block, (gint) pool, queue);
}

static void
do_allocate_directly (void)
{
  GError *error = NULL;
  TarnBlock *block;
  Call call;

  begin_call (&call, 0);
  block = tarn_allocator_allocate (world.allocator, SIZE, &error);
  end_call (&call);
  if (block != NULL)
    begin_block (block, -1, get_default_queue ());
  else
    check_error (&call, SIZE, &error);
}

static void
do_free (Block *block)
{
  Memory *memory = &world.memories[block->memory];
  TarnBlock *old = g_steal_pointer (&block->block);
  Call call;

  memory->is_active = FALSE;
  memory->pool = (guint) block->pool;
  memory->sole = NO_QUEUE;
  memory->freed = device_now ();
  for (guint8 i = 0; i < world.n_queues && block->pool >= 0 && !block->is_orphan; i++)
    if (block->users == BIT (i) && world.queues[i].is_in_order)
      memory->sole = i;
  begin_call (&call, block->users);
  call.memory = (gint) block->memory;
  tarn_block_free (old);
  end_call (&call);
  if (!memory->is_active)
    memory->freed = device_now ();
}

/* The owner orders its queues. */
static void
do_record (Block *block, guint8 queue)
{
  GError *error = NULL;
  gboolean is_fine;
  Call call;

  begin_call (&call, block->users | BIT (queue));
  call.memory = (gint) block->memory;
  is_fine = tarn_block_record_use (block->block, device_get_handle (queue), &error);
  end_call (&call);
  if (!is_fine)
    {
      check_error (&call, 0, &error);
      return;
    }
  if (block->first == NO_QUEUE)
    block->first = queue;
  else
    device_follow (queue, block->first);
  block->users |= BIT (queue);
  device_command (queue, block->memory);
}

/* NO_QUEUE: the host waits. */
static void
do_move (Block *block, guint8 queue)
{
  GError *error = NULL;
  gboolean is_fine;
  Call call;

  begin_call (&call, block->users | (queue != NO_QUEUE ? BIT (queue) : 0));
  call.memory = (gint) block->memory;
  is_fine = queue != NO_QUEUE
                ? tarn_block_move_to_queue (block->block, device_get_handle (queue), &error)
                : tarn_block_wait (block->block, &error);
  end_call (&call);
  if (!is_fine)
    check_error (&call, 0, &error);
  else
    {
      if (tarn_block_get_queue (block->block) != device_get_handle (queue))
        fault ("a block is not its queue's");
      begin_use (block, queue);
    }
}

/* Queues */

/* Blocks that were used on a queue are not any more. */
static void
make_orphans (guint8 queue, gint pool)
{
  for (guint i = 0; i < N_BLOCKS; i++)
    {
      Block *block = &world.blocks[i];

      if (block->block == NULL || block->pool != pool || (block->users & BIT (queue)) == 0)
        continue;
      block->users &= ~BIT (queue);
      block->is_orphan = TRUE;
      if (block->first == queue)
        block->first = NO_QUEUE;
    }
  for (guint i = 0; i < world.n_memories; i++)
    if (world.memories[i].sole == queue && (gint) world.memories[i].pool == pool)
      world.memories[i].sole = NO_QUEUE;
}

static gboolean
do_forget (guint8 queue)
{
  gboolean is_fine = TRUE;

  for (gint i = 0; i < N_POOLS; i++)
    {
      GError *error = NULL;
      Call call;

      if (world.pools[i] == NULL)
        continue;
      begin_call (&call, BIT (queue));
      call.forgotten = queue;
      if (tarn_pool_forget_queue (world.pools[i], device_get_handle (queue), &error))
        make_orphans (queue, i);
      else
        {
          check_error (&call, 0, &error);
          is_fine = FALSE;
        }
      end_call (&call);
    }
  return is_fine;
}

static void
replace (guint letter)
{
  guint8 queue = world.letters[letter];

  for (gint i = -1; i < N_POOLS; i++)
    make_orphans (queue, i);
  device_destroy_queue (queue);
  world.letters[letter] = device_add_queue (world.queues[queue].letter);
}

/* Pools */

static void
do_drop (void)
{
  Call call;

  begin_call (&call, 0);
  for (guint i = N_POOLS; i-- > 0;)
    tarn_pool_unref (g_steal_pointer (&world.pools[i]));
  end_call (&call);
  world.has_dropped = TRUE;
}

/* What a pool over the other one gives back is held there. */
static void
do_with_pools (guint kind)
{
  const guint first = (world.config->flags & POOL_OVER) != 0 ? 1 : 0;
  Call call;

  begin_call (&call, 0);
  for (guint i = N_POOLS; i-- > first;)
    if (world.pools[i] == NULL)
      continue;
    else if (kind == STEP_FREE_HELD)
      tarn_pool_free_held (world.pools[i]);
    else if (kind == STEP_TRIM)
      tarn_pool_trim (world.pools[i], SIZE);
    else
      tarn_pool_stop_holding (world.pools[i]);
  world.has_stopped |= kind == STEP_STOP;
  end_call (&call);
}

static void
do_limit (void)
{
  Call call;

  world.limit = world.limit == world.config->limit ? SIZE : world.config->limit;
  begin_call (&call, 0);
  tarn_pool_set_limit_bytes (world.pools[0], world.limit);
  end_call (&call);
}

/* Steps */

static void
do_block_step (guint kind, Block *block, guint8 queue)
{
  switch (kind)
    {
    case STEP_FREE:
      do_free (block);
      break;
    case STEP_USE:
      device_command (block->first, block->memory);
      block->is_recent = TRUE;
      break;
    case STEP_RECORD:
      do_record (block, queue);
      break;
    default:
      do_move (block, queue);
    }
}

static void
do_queue_step (guint kind, guint letter, guint8 queue)
{
  switch (kind)
    {
    case STEP_SYNC:
      device_sync (queue);
      break;
    case STEP_FORGET:
      do_forget (queue);
      break;
    case STEP_RENEW:
      if (do_forget (queue))
        replace (letter);
      break;
    case STEP_REPLACE:
      if ((world.config->flags & RECORDS_ALL) != 0)
        device_sync (queue);
      replace (letter);
      break;
    default:
      world.queues[queue].is_capturing = !world.queues[queue].is_capturing;
    }
}

static void
do_other_step (guint kind)
{
  if (kind == STEP_DIRECT)
    do_allocate_directly ();
  else if (kind == STEP_LIMIT)
    do_limit ();
  else if (kind == STEP_FULL)
    world.budget = world.budget == G_MAXUINT64 ? device_get_used () : G_MAXUINT64;
  else if (kind == STEP_DROP)
    do_drop ();
  else
    do_with_pools (kind);
}

static void
do_any_step (Step step)
{
  const guint8 queue = step.queue < N_LETTERS ? world.letters[step.queue] : NO_QUEUE;

  if (queue != NO_QUEUE)
    world.met |= BIT (step.queue);
  if ((kind_of (&step) & (STEP_ALLOCATE | STEP_BIG)) != 0)
    do_allocate (step.pool, kind_of (&step) == STEP_BIG ? BIG_SIZE : SIZE, queue);
  else if (step.number != NO_QUEUE)
    do_block_step (kind_of (&step), &world.blocks[step.number], queue);
  else if (queue != NO_QUEUE)
    do_queue_step (kind_of (&step), step.queue, queue);
  else
    do_other_step (kind_of (&step));
}

/* Does a step inside of a call of the backend's: memory that is freed is used once more before. */
void
do_nested_step (Step step)
{
  const Block *block = step.number != NO_QUEUE ? &world.blocks[step.number] : NULL;
  gchar text[32];

  tell ("-- inside of that: %s", name_step (step, text, sizeof text));
  if (block != NULL && block->first != NO_QUEUE)
    device_command (block->first, block->memory);
  do_any_step (step);
}

void
do_step (Step step)
{
  gchar text[32];

  tell ("-- %s", name_step (step, text, sizeof text));
  for (guint i = 0; i < N_BLOCKS; i++)
    world.blocks[i].is_recent = FALSE;
  if (step.is_elsewhere)
    do_elsewhere (0, do_any_step, step);
  else
    do_any_step (step);
  check_pools ();
}

/* Beginning and end */

static TarnPool *
pool_new (TarnAllocator *upstream, gsize limit)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;

  options.limit_bytes = limit;
  if (world.config->cache_blocks > 0)
    options.thread_cache_blocks = world.config->cache_blocks - 1;
  return tarn_pool_new (upstream, &options, NULL);
}

static void
make_pools (void)
{
  const guint flags = world.config->flags;

  world.allocator = device_allocator_new ();
  world.pools[0] = pool_new (world.allocator, world.config->limit);
  if ((flags & POOL_OVER) != 0)
    world.pools[1] = pool_new (TARN_ALLOCATOR (world.pools[0]), 0);
  if ((flags & POOL_GROUP) == 0)
    return;
  world.pools[1] = pool_new (world.allocator, 0);
  world.group = tarn_reclaim_group_new ();
  for (guint i = 0; i < N_POOLS; i++)
    tarn_pool_set_reclaim_group (world.pools[i], world.group);
}

void
begin_world (const Config *config)
{
  const gboolean is_told = world.is_told, allows_late = world.allows_late;
  Call call;

  memset (&world, 0, sizeof world);
  world.is_told = is_told;
  world.allows_late = allows_late;
  world.config = config;
  world.budget = G_MAXUINT64;
  world.limit = config->limit;
  world.is_fixed = TRUE;
  for (guint i = 0; config->queues[i] != '\0'; i++)
    world.letters[i] = device_add_queue (config->queues[i]);
  begin_call (&call, 0);
  make_pools ();
  end_call (&call);
}

/* All that there is goes: nothing may be left. */
static void
check_nothing_is_lost (void)
{
  gboolean may_be_lost = FALSE;

  for (guint i = 0; i < world.n_memories; i++)
    {
      may_be_lost |= world.memories[i].is_live && world.memories[i].may_be_lost;
      if (world.memories[i].is_live && !world.memories[i].may_be_lost)
        fault ("memory is lost");
    }
  for (guint i = 0; i < world.n_events && !may_be_lost; i++)
    if (world.events[i].is_live)
      fault ("an event is lost");
  for (guint i = 0; i < N_HANDLES && !may_be_lost; i++)
    if (world.refs[i] != 0)
      fault ("a reference on a queue is lost");
  if (!may_be_lost && !world.is_allocator_gone)
    fault ("the allocator is lost");
}

void
end_world (void)
{
  Call call;

  tell ("-- the end");
  world.is_fixed = TRUE;
  world.n_failures = world.n_nested = 0;
  for (guint i = 0; i < world.n_queues; i++)
    world.queues[i].is_capturing = FALSE;
  for (guint i = 0; i < N_BLOCKS; i++)
    if (world.blocks[i].block != NULL)
      do_free (&world.blocks[i]);
  check_pools ();
  do_drop ();
  begin_call (&call, 0);
  tarn_reclaim_group_unref (world.group);
  tarn_allocator_unref (world.allocator);
  end_call (&call);
  check_nothing_is_lost ();
}
