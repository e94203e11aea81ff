/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Children of fork () on the fake driver, which counts the calls that they make: a real one would
 * hang, or answer nonsense. */

#include <string.h>
#include <tarn/cuda.h>

#include "driver.h"
#include "lib/in-child.h"
#include "pool/pool-private.h"

static const TarnTestingCuda *fake;

#define DEVICE 1

#define N_KINDS (TARN_TESTING_CUDA_MANAGED_MEMORY + 1)

/* What lives when the process forks. */
typedef struct
{
  CUcontext automatic, context; /* the same, retained twice */
  TarnAllocator *allocators[N_KINDS];
  TarnPool *pools[N_KINDS];
  TarnBlock *blocks[N_KINDS], *direct[N_KINDS];
  TarnCudaHostArray array; /* of pools[TARN_TESTING_CUDA_HOST_MEMORY] */
} State;

static const gsize shape[] = { 10, 20 };

static void
memory_init (State *state)
{
  g_autoptr (GError) error = NULL;

  for (TarnTestingCudaKind i = 0; i < N_KINDS; i++)
    {
      state->allocators[i] = cuda_allocator_new (i, state->context, &error);
      g_assert_no_error (error);
      state->pools[i] = tarn_pool_new (state->allocators[i], NULL, NULL);
      state->blocks[i] = tarn_pool_allocate (state->pools[i], 1000, &error);
      g_assert_no_error (error);
      state->direct[i] = tarn_allocator_allocate (state->allocators[i], 1000, &error);
      g_assert_no_error (error);
      tarn_block_free (tarn_pool_allocate (state->pools[i], 5000, &error));
      g_assert_no_error (error);
    }
  state->array = (TarnCudaHostArray) TARN_CUDA_HOST_ARRAY_INIT;
  tarn_cuda_host_array_allocate (state->pools[TARN_TESTING_CUDA_HOST_MEMORY], 2, shape, 8, 'C',
                                 &state->array, &error);
  g_assert_no_error (error);
}

static void
state_init (State *state)
{
  g_autoptr (GError) error = NULL;

  g_setenv ("CUDA_DEVICE", G_STRINGIFY (DEVICE), TRUE);
  tarn_cuda_autoinit (NULL, &state->automatic, &error);
  g_assert_no_error (error);
  state->context = tarn_cuda_make_default_context (NULL, &error);
  g_assert_no_error (error);
  memory_init (state);
}

static void
state_clear (State *state)
{
  tarn_cuda_host_array_clear (&state->array);
  for (TarnTestingCudaKind i = 0; i < N_KINDS; i++)
    {
      tarn_block_free (state->blocks[i]);
      tarn_block_free (state->direct[i]);
      tarn_pool_unref (state->pools[i]);
      tarn_allocator_unref (state->allocators[i]);
    }
  tarn_cuda_context_release (state->context);
}

static void
never_run (const TarnCudaTest *test, gconstpointer unused)
{
  (void) unused;
  g_assert_null (test);
}

/* Steps 1 to 39: every function that asks a driver for something new. */
static void
ask_in_child (CUcontext context)
{
  CUfunction function = (CUfunction) &context; /* nobody looks into it */
  TarnCudaDeviceData data = TARN_CUDA_DEVICE_DATA_INIT;
  TarnCudaOccupancy occupancy = TARN_CUDA_OCCUPANCY_INIT;
  GError *error = NULL;
  CUdevice device = -1;
  CUcontext found = NULL;

  STEP (1, !tarn_cuda_autoinit (&device, &found, &error));
  STEP (2, take_forked (&error));
  STEP (3, tarn_cuda_make_default_context (&device, &error) == NULL);
  STEP (4, take_forked (&error));
  STEP (5, !tarn_cuda_get_default_device (0, &device, &error));
  STEP (6, take_forked (&error));
  STEP (7, device == -1 && found == NULL);
  STEP (8, !tarn_cuda_device_data_init (&data, DEVICE, &error));
  STEP (9, take_forked (&error));
  STEP (10, !tarn_cuda_occupancy_for_function (function, 32, 0, &occupancy, &error));
  STEP (11, take_forked (&error));
  STEP (12, !tarn_cuda_suggest_block_size (function, 0, NULL, NULL, &error));
  STEP (13, take_forked (&error));
  STEP (14, tarn_cuda_select_test_devices ("cuda", &error) == NULL);
  STEP (15, take_forked (&error));
  for (TarnTestingCudaKind i = 0; i < N_KINDS; i++)
    {
      STEP (20 + i, cuda_allocator_new (i, context, &error) == NULL);
      STEP (24 + i, take_forked (&error));
      STEP (28 + i, cuda_allocator_new (i, NULL, &error) == NULL);
      STEP (32 + i, take_forked (&error));
    }
  tarn_cuda_context_release (context);
  tarn_cuda_context_release (NULL);
  tarn_cuda_test_add ("forked", never_run, NULL);
}

/* Steps 40 to 79: what is there already.  Frees are counted by pools, and do nothing. */
static void
use_memory_in_child (State *state, TarnTestingCudaKind kind)
{
  TarnPool *pool = state->pools[kind];
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  GError *error = NULL;
  guint64 ignored;

  STEP (40, tarn_pool_allocate (pool, 5000, &error) == NULL);
  STEP (41, take_forked (&error));
  STEP (42, tarn_pool_allocate (pool, 1 << 20, &error) == NULL);
  STEP (43, take_forked (&error));
  STEP (44, tarn_allocator_allocate (state->allocators[kind], 1000, &error) == NULL);
  STEP (45, take_forked (&error));
  STEP (46, tarn_cuda_allocator_get_lost_bytes (state->allocators[kind]) == 0);
  if (kind != TARN_TESTING_CUDA_HOST_MEMORY)
    STEP (47, tarn_cuda_block_get_device_pointer (state->blocks[kind]) != 0);
  if (kind != TARN_TESTING_CUDA_DEVICE_MEMORY)
    STEP (48, tarn_cuda_block_get_host_pointer (state->blocks[kind]) != NULL);

  tarn_pool_get_stats (pool, &stats);
  ignored = stats.ignored_frees;
  STEP (49, stats.held_blocks == 1);
  tarn_pool_free_held (pool);
  tarn_pool_stop_holding (pool);
  tarn_block_free (state->blocks[kind]);
  tarn_block_free (state->direct[kind]);
  tarn_pool_get_stats (pool, &stats);
  STEP (50, stats.ignored_frees == ignored + 1 && stats.held_blocks == 1);
  tarn_pool_unref (pool);
  tarn_allocator_unref (state->allocators[kind]);
}

/* Steps 80 to 99 */
static void
use_array_in_child (State *state)
{
  TarnPool *pool = state->pools[TARN_TESTING_CUDA_HOST_MEMORY];
  TarnCudaHostArray array = TARN_CUDA_HOST_ARRAY_INIT;
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  GError *error = NULL;

  STEP (80, !tarn_cuda_host_array_allocate (pool, 2, shape, 8, 'F', &array, &error));
  STEP (81, take_forked (&error));
  STEP (82, array.block == NULL);
  STEP (83, state->array.data != NULL);
  tarn_cuda_host_array_clear (&state->array);
  STEP (84, state->array.block == NULL);
  tarn_pool_get_stats (pool, &stats);
  STEP (85, stats.ignored_frees == 1);
}

/* Steps 100 to 109: no driver is needed for these. */
static void
calculate_in_child (void)
{
  TarnCudaDeviceData data = TARN_CUDA_DEVICE_DATA_INIT;
  GError *error = NULL;
  gsize bytes = 0;

  STEP (100, tarn_cuda_device_data_align (&data, 65, 4, &bytes, &error));
  STEP (101, bytes == 128);
  STEP (102, tarn_cuda_error_quark () != 0);
  STEP (103, tarn_cuda_device_data_smem_granularity (&data) != 0);
}

static void
use_everything_in_child (gpointer data)
{
  State *state = data;

  ask_in_child (state->context);
  use_array_in_child (state);
  for (TarnTestingCudaKind i = 0; i < N_KINDS; i++)
    use_memory_in_child (state, i);
  calculate_in_child ();
  ask_in_child (state->automatic);
  STEP (110, fake->get_calls_after_fork () == 0);
  STEP (111, fake->get_primary_references (DEVICE) == 2 + N_KINDS);
}

/* Whatever the child has done, this is as it was. */
static void
use_everything_in_parent (State *state)
{
  g_autoptr (GError) error = NULL;

  g_assert_cmpuint (fake->get_primary_references (DEVICE), ==, 2 + N_KINDS);
  for (TarnTestingCudaKind i = 0; i < N_KINDS; i++)
    {
      g_autoptr (TarnBlock) held = tarn_pool_allocate (state->pools[i], 5000, &error);
      g_autoptr (TarnBlock) more = tarn_pool_allocate (state->pools[i], 1 << 20, &error);
      g_autoptr (TarnAllocator) another = cuda_allocator_new (i, NULL, &error);

      g_assert_no_error (error);
      g_assert_true (held != NULL && more != NULL && another != NULL);
    }
}

static void
assert_nothing_lives (void)
{
  for (TarnTestingCudaKind i = TARN_TESTING_CUDA_DEVICE_MEMORY;
       i <= TARN_TESTING_CUDA_MANAGED_MEMORY; i++)
    g_assert_cmpuint (fake->get_live (i), ==, 0);
}

/* While each pool's lock is held, as if another thread had it at the moment of the fork. */
static void
test_in_child (void)
{
  State state;

  state_init (&state);
  for (TarnTestingCudaKind i = 0; i < N_KINDS; i++)
    _tarn_mutex_lock (&state.pools[i]->lock);
  in_child (use_everything_in_child, &state);
  for (TarnTestingCudaKind i = 0; i < N_KINDS; i++)
    _tarn_mutex_unlock (&state.pools[i]->lock);
  g_assert_cmpuint (fake->get_calls_after_fork (), ==, 0);
  use_everything_in_parent (&state);
  state_clear (&state);
  assert_nothing_lives ();
  g_assert_cmpuint (fake->get_primary_references (DEVICE), ==, 1); /* autoinit's */
}

/* The child's own, from its start to its end. */
static void
use_fresh_driver (gpointer unused)
{
  State state;

  (void) unused;
  state_init (&state);
  use_everything_in_parent (&state);
  state_clear (&state);
  assert_nothing_lives ();
  STEP (1, fake->get_primary_references (DEVICE) == 1);
  STEP (2, fake->get_calls_after_fork () == 0); /* of one that cannot do it */
}

/* A daemon forks first and opens its device afterwards.  This test must be the first one. */
static void
test_before_first_call (void)
{
  in_child (use_fresh_driver, NULL);
}

static void
ask_in_strangers_child (gpointer unused)
{
  GError *error = NULL;

  (void) unused;
  STEP (120, tarn_cuda_make_default_context (NULL, &error) == NULL);
  STEP (121, g_error_matches (error, TARN_ERROR, TARN_ERROR_FORKED));
  STEP (122, strstr (error->message, "cuInit: CUDA_ERROR_NOT_INITIALIZED (3): ") != NULL);
  ask_in_child ((CUcontext) &error); /* nobody looks into it */
  STEP (123, fake->get_calls_after_fork () == 1);
}

/* Tarn knows nothing of the fork, because it was not there: the driver says so, once. */
static void
test_initialized_outside (void)
{
  State state;

  if (!g_test_subprocess ())
    {
      g_test_trap_subprocess (NULL, 0, 0);
      g_test_trap_assert_passed ();
      return;
    }
  g_assert_cmpuint (cuInit (0), ==, FAKE_CUDA_SUCCESS);
  in_child (ask_in_strangers_child, NULL);
  state_init (&state);
  use_everything_in_parent (&state);
  state_clear (&state);
  assert_nothing_lives ();
}

int
main (int argc, char **argv)
{
  fake = tarn_fake_cuda ();
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda/fork/before-first-call", test_before_first_call);
  g_test_add_func ("/cuda/fork/in-child", test_in_child);
  g_test_add_func ("/cuda/fork/initialized-outside", test_initialized_outside);
  return g_test_run ();
}
