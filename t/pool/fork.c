/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Children of fork (): what they are told, and that they never hang. */

#include <tarn/testing.h>

#include "lib/in-child.h"
#include "pool/pool-private.h"

typedef struct
{
  TarnTestingDevice *device;
  TarnAllocator *allocator;
  TarnPool *pool;
  TarnBlock *block, *direct;
} State;

static void
state_init (State *state)
{
  state->device = tarn_testing_device_new (G_MAXUINT64);
  state->allocator = tarn_testing_device_allocator_new (state->device);
  state->pool = tarn_pool_new (state->allocator, NULL, NULL);
  state->block = tarn_pool_allocate (state->pool, 1000, NULL);
  state->direct = tarn_allocator_allocate (state->allocator, 1000, NULL);
  tarn_block_free (tarn_pool_allocate (state->pool, 5000, NULL));
}

static void
state_clear (State *state)
{
  tarn_block_free (state->block);
  tarn_block_free (state->direct);
  tarn_pool_unref (state->pool);
  tarn_allocator_unref (state->allocator);
  tarn_testing_device_free (state->device);
}

static void
use_in_fresh_child (gpointer unused)
{
  State state;

  (void) unused;
  state_init (&state);
  STEP (1, state.block != NULL && state.direct != NULL);
  state_clear (&state);
}

/* A daemon forks first and opens its device afterwards.  This test must be the first one. */
static void
test_before_first_allocator (void)
{
  in_child (use_in_fresh_child, NULL);
}

static gboolean
reclaim_nothing (TarnPool *pool, gsize wanted, gpointer unused)
{
  (void) pool;
  (void) wanted;
  (void) unused;
  return FALSE;
}

static void
use_in_child (State *state)
{
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  GError *error = NULL;
  TarnMemory memory;

  STEP (1, tarn_pool_allocate (state->pool, 1000, &error) == NULL);
  STEP (2, g_error_matches (error, TARN_ERROR, TARN_ERROR_FORKED));
  STEP (3, tarn_pool_allocate (state->pool, 5000, NULL) == NULL);
  STEP (4, tarn_allocator_allocate (state->allocator, 1000, NULL) == NULL);
  STEP (5, !tarn_allocator_allocate_memory (state->allocator, 1000, &memory, NULL));
  tarn_pool_get_stats (state->pool, &stats);
  STEP (6, stats.ignored_frees == 0 && stats.active_blocks == 1 && stats.held_blocks == 1);
  tarn_block_free (state->block);
  tarn_block_free (state->direct);
  tarn_pool_get_stats (state->pool, &stats);
  STEP (7, stats.ignored_frees == 1 && stats.active_blocks == 1);
  tarn_allocator_free_memory (TARN_ALLOCATOR (state->pool), tarn_block_get_memory (state->block),
                              1000);
  tarn_pool_get_stats (state->pool, &stats);
  STEP (11, stats.ignored_frees == 2);
  STEP (12, tarn_pool_add_reclaim_func (state->pool, reclaim_nothing, NULL, NULL) == 0);
  STEP (13, !tarn_pool_remove_reclaim_func (state->pool, 1));
  tarn_pool_free_held (state->pool);
  tarn_pool_trim (state->pool, 0);
  tarn_pool_stop_holding (state->pool);
  STEP (8, tarn_pool_get_held_blocks (state->pool) == 1);
  tarn_pool_unref (state->pool);
  tarn_allocator_unref (state->allocator);
  STEP (9, state->device != NULL);
}

static guint n_driver_calls;

static void
count_driver_call (gpointer unused)
{
  (void) unused;
  n_driver_calls++;
}

static void
use_in_child_without_driver (gpointer state)
{
  use_in_child (state);
  STEP (10, n_driver_calls == 0);
}

/* While the pool's lock is held, as if another thread had it at the moment of the fork. */
static void
test_in_child (void)
{
  State state;

  state_init (&state);
  n_driver_calls = 0;
  tarn_testing_device_set_free_hook (state.device, count_driver_call, NULL);
  _tarn_mutex_lock (&state.pool->lock);
  in_child (use_in_child_without_driver, &state);
  _tarn_mutex_unlock (&state.pool->lock);
  state_clear (&state);
  g_assert_cmpuint (n_driver_calls, ==, 3);
}

static void
use_anew_in_child (gpointer unused)
{
  TarnTestingDevice *device = tarn_testing_device_new (G_MAXUINT64);
  TarnAllocator *allocator = tarn_testing_device_allocator_new (device);
  GError *error = NULL;

  (void) unused;
  STEP (1, tarn_allocator_allocate (allocator, 1000, &error) == NULL);
  STEP (2, g_error_matches (error, TARN_ERROR, TARN_ERROR_FORKED));
}

/* The driver is no better for an allocator that is made in the child. */
static void
test_new_allocator_in_child (void)
{
  TarnTestingDevice *device = tarn_testing_device_new (G_MAXUINT64);

  tarn_allocator_unref (tarn_testing_device_allocator_new (device)); /* the parent had one */
  tarn_testing_device_free (device);
  in_child (use_anew_in_child, NULL);
}

/* Somebody looks at all allocators, and has their lock, when another thread forks. */

typedef struct
{
  TarnListener base; /* first */
  TarnMutex lock;
  TarnCond changed;
  gboolean is_looking, may_end;
} Look;

static void
look (TarnListener *listener, const TarnAllocator *allocator, const TarnAllocator *upstream,
      const guint64 *properties, gsize n_properties)
{
  Look *self = (Look *) listener;

  (void) allocator, (void) upstream, (void) properties, (void) n_properties;
  _tarn_mutex_lock (&self->lock);
  self->is_looking = TRUE;
  _tarn_cond_broadcast (&self->changed);
  while (!self->may_end)
    _tarn_cond_wait (&self->changed, &self->lock);
  _tarn_mutex_unlock (&self->lock);
}

static gpointer
look_at_all (gpointer data)
{
  _tarn_allocators_tell_frozen (data);
  return NULL;
}

static void
test_while_others_look (void)
{
  TarnTestingDevice *device = tarn_testing_device_new (G_MAXUINT64);
  TarnAllocator *allocator = tarn_testing_device_allocator_new (device);
  Look self = { .base = { .object = look } };
  GThread *thread;

  _tarn_mutex_init (&self.lock);
  _tarn_cond_init (&self.changed);
  thread = g_thread_new ("look", look_at_all, &self);
  _tarn_mutex_lock (&self.lock);
  while (!self.is_looking)
    _tarn_cond_wait (&self.changed, &self.lock);
  _tarn_mutex_unlock (&self.lock);
  in_child (use_anew_in_child, NULL);
  _tarn_mutex_lock (&self.lock);
  self.may_end = TRUE;
  _tarn_cond_broadcast (&self.changed);
  _tarn_mutex_unlock (&self.lock);
  g_thread_join (thread);
  _tarn_mutex_clear (&self.lock);
  _tarn_cond_clear (&self.changed);
  tarn_allocator_unref (allocator);
  tarn_testing_device_free (device);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/core/fork/before-first-allocator", test_before_first_allocator);
  g_test_add_func ("/core/fork/in-child", test_in_child);
  g_test_add_func ("/core/fork/new-allocator-in-child", test_new_allocator_in_child);
  g_test_add_func ("/core/fork/while-others-look", test_while_others_look);
  return g_test_run ();
}
