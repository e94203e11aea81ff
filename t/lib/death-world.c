/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The parts of a world: how each is made, and how its owner gives it up. */

#include "death-matrix.h"

#define SIZE 4096       /* bytes, of most blocks */
#define OTHER_SIZE 1024 /* of those that are held */

#define KEY GUINT_TO_POINTER (1)

static void
assert_destroyed (const gint *counter, gint n)
{
  g_assert_cmpint (g_atomic_int_get (counter), ==, n);
}

/* The context has taken the memory with it. */
static gboolean
is_lost (const DeathWorld *world)
{
  return world->backend->context_takes_all && world->context == NULL;
}

static void
own_and_use (DeathWorld *world, TarnBlock *block, gpointer queue)
{
  if (world->backend->own != NULL)
    world->backend->own (world, block);
  world->backend->use (world, block, queue);
}

static TarnBlock *
take (DeathWorld *world, TarnPool *pool, gsize size, gpointer queue)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_pool_allocate_ordered (pool, size, queue, &error);

  g_assert_no_error (error);
  own_and_use (world, block, queue);
  return block;
}

/* The reclaim function's data owns blocks of the very pool that has the function. */

static gboolean
give_up_hoard (TarnPool *pool, gsize wanted, gpointer data)
{
  (void) pool;
  (void) wanted;
  (void) data;
  return FALSE;
}

static void
destroy_hoard (gpointer data)
{
  DeathHoard *hoard = data;

  for (guint i = 0; i < G_N_ELEMENTS (hoard->blocks); i++)
    tarn_block_free (g_steal_pointer (&hoard->blocks[i]));
  g_atomic_int_inc (&hoard->n_destroyed);
}

/* The memo's values are blocks, of the pool as long as it is the world's. */

static gpointer
compute_block (gpointer first_arg, gconstpointer key, gpointer data, GError **error)
{
  DeathWorld *world = data;

  (void) first_arg;
  (void) key;
  (void) error;
  g_atomic_int_inc (&world->n_values);
  return take (world, world->pool, SIZE, world->a);
}

static void
unref_block (gpointer data, gpointer value, gpointer first_arg, gboolean is_dead)
{
  DeathWorld *world = data;

  (void) first_arg;
  (void) is_dead;
  tarn_block_free (value);
  g_atomic_int_add (&world->n_values, -1);
}

static void
destroy_memo_data (gpointer data)
{
  DeathWorld *world = data;

  assert_destroyed (&world->n_values, 0);
  g_atomic_int_inc (&world->n_memo_destroyed);
}

/* Making, in the table's order */

static void
make_allocator (DeathWorld *world)
{
  g_autoptr (GError) error = NULL;

  world->allocator = world->backend->allocator_new (world, &error);
  g_assert_no_error (error);
}

static TarnPool *
pool_new (TarnAllocator *upstream)
{
  g_autoptr (GError) error = NULL;
  TarnPool *pool = tarn_pool_new (upstream, NULL, &error);

  g_assert_no_error (error);
  return pool;
}

static void
make_pool (DeathWorld *world)
{
  world->pool = pool_new (world->allocator);
}

static void
make_upper (DeathWorld *world)
{
  g_autoptr (TarnReclaimGroup) group = tarn_reclaim_group_new (); /* the pools keep it */

  world->upper = pool_new (TARN_ALLOCATOR (world->pool));
  tarn_pool_set_reclaim_group (world->upper, group);
  tarn_pool_set_reclaim_group (world->pool, group);
  if (!world->backend->forgets_queues)
    return;
  world->mourners[0] = tarn_pool_ref (world->pool);
  world->mourners[1] = tarn_pool_ref (world->upper);
}

static void
use_on_both (DeathWorld *world, TarnBlock *block)
{
  g_autoptr (GError) error = NULL;

  tarn_block_record_use (block, world->b, &error);
  g_assert_no_error (error);
  world->backend->use (world, block, world->b);
}

static void
make_block (DeathWorld *world)
{
  world->block = take (world, world->upper, SIZE, world->a);
  use_on_both (world, world->block);
}

static void
make_direct (DeathWorld *world)
{
  g_autoptr (GError) error = NULL;

  world->direct = tarn_allocator_allocate (world->allocator, SIZE, &error);
  g_assert_no_error (error);
  if (!world->backend->forgets_queues)
    {
      g_assert_true (tarn_block_record_use (world->direct, world->a, &error));
      world->backend->use (world, world->direct, world->a);
    }
  use_on_both (world, world->direct);
}

static void
make_held (DeathWorld *world)
{
  TarnPool *pools[] = { world->pool, world->upper };

  for (guint i = 0; i < G_N_ELEMENTS (pools); i++)
    {
      TarnBlock *first = take (world, pools[i], OTHER_SIZE, world->a);

      tarn_block_free (take (world, pools[i], OTHER_SIZE, world->a));
      tarn_block_free (first);
      g_assert_cmpuint (tarn_pool_get_held_blocks (pools[i]), ==, 2);
    }
  world->is_held = TRUE;
}

static void
make_reclaim (DeathWorld *world)
{
  for (guint i = 0; i < G_N_ELEMENTS (world->hoard.blocks); i++)
    world->hoard.blocks[i] = take (world, world->pool, SIZE, world->a);
  world->reclaim_id
      = tarn_pool_add_reclaim_func (world->pool, give_up_hoard, &world->hoard, destroy_hoard);
}

static gpointer
get_first_arg (const DeathWorld *world)
{
  return world->context != NULL ? world->context : world->own;
}

static void
make_memo (DeathWorld *world)
{
  TarnMemoOps ops = TARN_MEMO_OPS_INIT;
  g_autoptr (GError) error = NULL;

  ops.unref_value = unref_block;
  world->memo = world->backend->memo_new (&ops, compute_block, world, destroy_memo_data);
  tarn_memo_get (world->memo, get_first_arg (world), KEY, NULL, &error);
  g_assert_no_error (error);
}

/* Releasing: what its owner does, whatever else is gone.  What died with a pool is left alone. */

static void
release_context (DeathWorld *world)
{
  world->backend->release_context (world);
  world->context = NULL;
}

static void
release_queue (DeathWorld *world)
{
  for (guint i = 0; i < G_N_ELEMENTS (world->mourners) && world->mourners[i] != NULL; i++)
    {
      g_autoptr (GError) error = NULL;

      /* Which a pool may have forgotten by itself, when nothing was left that the queue used. */
      if (!tarn_pool_forget_queue (world->mourners[i], world->a, &error) && is_lost (world))
        g_assert_error (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST);
      else
        g_assert_no_error (error);
    }
  world->backend->release_queue (world);
  world->a = NULL;
  for (guint i = 0; i < G_N_ELEMENTS (world->mourners); i++)
    tarn_pool_unref (g_steal_pointer (&world->mourners[i]));
}

static void
release_allocator (DeathWorld *world)
{
  tarn_allocator_unref (g_steal_pointer (&world->allocator));
}

static void
release_pool (DeathWorld *world)
{
  tarn_pool_unref (g_steal_pointer (&world->pool));
}

static void
release_upper (DeathWorld *world)
{
  tarn_pool_unref (g_steal_pointer (&world->upper));
}

static void
release_block (DeathWorld *world)
{
  tarn_block_free (g_steal_pointer (&world->block));
}

static void
release_direct (DeathWorld *world)
{
  tarn_block_free (g_steal_pointer (&world->direct));
}

static void
release_held (DeathWorld *world)
{
  if (world->upper != NULL)
    tarn_pool_free_held (world->upper);
  if (world->pool != NULL)
    tarn_pool_free_held (world->pool);
  world->is_held = FALSE;
}

static void
release_reclaim (DeathWorld *world)
{
  if (world->pool != NULL)
    tarn_pool_remove_reclaim_func (world->pool, world->reclaim_id);
  world->reclaim_id = 0;
}

static void
release_memo (DeathWorld *world)
{
  tarn_memo_unref (g_steal_pointer (&world->memo));
}

/* The table */

static const struct
{
  const gchar *name;
  void (*make) (DeathWorld *world); /* NULL: the backend's open () does */
  void (*release) (DeathWorld *world);
} parts[] = {
  [DEATH_CONTEXT] = { "context", NULL, release_context },
  [DEATH_QUEUE] = { "queue", NULL, release_queue },
  [DEATH_ALLOCATOR] = { "allocator", make_allocator, release_allocator },
  [DEATH_POOL] = { "pool", make_pool, release_pool },
  [DEATH_UPPER] = { "upper-pool", make_upper, release_upper },
  [DEATH_BLOCK] = { "block", make_block, release_block },
  [DEATH_DIRECT] = { "block-without-pool", make_direct, release_direct },
  [DEATH_HELD] = { "held-blocks", make_held, release_held },
  [DEATH_RECLAIM] = { "reclaim-function", make_reclaim, release_reclaim },
  [DEATH_MEMO] = { "memo", make_memo, release_memo },
};

const gchar *
death_part_get_name (DeathPart part)
{
  return parts[part].name;
}

gboolean
death_part_is_driver (DeathPart part)
{
  return parts[part].make == NULL;
}

DeathWorld *
death_world_new (const DeathBackend *backend, gconstpointer device)
{
  DeathWorld *world = g_new0 (DeathWorld, 1);

  world->backend = backend;
  world->device = device;
  if (!backend->open (world))
    {
      g_free (world);
      return NULL;
    }
  for (DeathPart part = 0; part < DEATH_N_PARTS; part++)
    if (parts[part].make != NULL)
      parts[part].make (world);
  return world;
}

void
death_world_release (DeathWorld *world, DeathPart part)
{
  parts[part].release (world);
}

void
death_use_pool (DeathWorld *world, TarnPool *pool)
{
  const gsize sizes[] = { SIZE, OTHER_SIZE };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (TarnBlock) block = tarn_pool_allocate_ordered (pool, sizes[i], world->b, &error);

      if (is_lost (world) && block == NULL)
        g_assert_error (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST);
      else
        g_assert_no_error (error);
      if (!is_lost (world))
        own_and_use (world, block, world->b);
    }
}

void
death_world_use (DeathWorld *world)
{
  if (world->upper != NULL)
    death_use_pool (world, world->upper);
  if (world->pool != NULL)
    death_use_pool (world, world->pool);
  if (world->block != NULL && !is_lost (world))
    world->backend->check (world, world->block);
  if (world->direct != NULL && !is_lost (world))
    world->backend->check (world, world->direct);
}

void
death_world_free (DeathWorld *world)
{
  g_assert_true (world->context == NULL && world->a == NULL);
  assert_destroyed (&world->hoard.n_destroyed, 1);
  assert_destroyed (&world->n_memo_destroyed, 1);
  assert_destroyed (&world->n_values, 0);
  world->backend->close (world);
  g_free (world);
}

gint
death_world_check_forked (DeathWorld *world)
{
  GError *error = NULL;

#define REFUSED(number, call)                                                                      \
  G_STMT_START                                                                                     \
  {                                                                                                \
    if ((call) || !g_error_matches (error, TARN_ERROR, TARN_ERROR_FORKED))                         \
      return number;                                                                               \
    g_clear_error (&error);                                                                        \
  }                                                                                                \
  G_STMT_END
  REFUSED (1, tarn_pool_allocate (world->pool, OTHER_SIZE, &error) != NULL);
  REFUSED (2, tarn_pool_allocate_ordered (world->upper, SIZE, world->a, &error) != NULL);
  REFUSED (3, tarn_allocator_allocate (world->allocator, SIZE, &error) != NULL);
  REFUSED (4, tarn_memo_get (world->memo, get_first_arg (world), KEY, NULL, &error));
  REFUSED (5, tarn_block_record_use (world->block, world->b, &error));
  return 0;
}
