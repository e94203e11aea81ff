/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Every order of death on the fake CUDA driver: of memory in a primary context, which allocators
 * keep alive, and in another, which its owner destroys when it likes. */

#include <tarn/cuda.h>

#include "driver.h"
#include "lib/death-matrix.h"

static const TarnTestingCuda *fake;

typedef enum
{
  PRIMARY,
  SHARED, /* the same, which somebody else goes on to use: nothing dies with it */
  OWN
} ContextKind;

typedef struct
{
  TarnTestingCudaKind memory;
  ContextKind context;
  gboolean has_heap;
} Kind;

static const Kind *
get_kind (const DeathWorld *world)
{
  return world->backend->kind;
}

static void
run (gconstpointer data)
{
  death_run (data, NULL);
}

static void
add (const gchar *path, gconstpointer data)
{
  g_test_add_data_func (path, data, run);
}

#define SUCCEED(call) g_assert_cmpuint (call, ==, FAKE_CUDA_SUCCESS)

static guint n_waiting; /* atomic: threads that wait for the device in a call of the driver */
static _Thread_local gboolean is_waiting;

/* Runs the commands on streams only when a thread waits for them, as one does that frees memory. */
static void
finish_if_awaited (const gchar *function, gpointer unused)
{
  gboolean waits
      = g_str_equal (function, "cuEventSynchronize") || g_str_has_prefix (function, "cuMemFree");

  (void) unused;
  if (waits != is_waiting)
    __atomic_add_fetch (&n_waiting, waits ? 1 : -1, __ATOMIC_SEQ_CST);
  is_waiting = waits;
  if (waits)
    fake->finish_all_work ();
}

/* The context is current in no thread when it dies. */
static gboolean
open_context (DeathWorld *world)
{
  g_autoptr (GError) error = NULL;
  CUcontext context = NULL;
  CUstream streams[2];

  fake->reset ();
  is_waiting = FALSE;
  __atomic_store_n (&n_waiting, 0, __ATOMIC_SEQ_CST);
  fake->set_hook (finish_if_awaited, NULL);
  SUCCEED (cuInit (0));
  if (get_kind (world)->context == SHARED)
    SUCCEED (cuDevicePrimaryCtxRetain (&context, 0));
  if (get_kind (world)->context == OWN)
    SUCCEED (cuCtxCreate_v2 (&context, 0, 0));
  else
    context = tarn_cuda_make_default_context (NULL, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (streams); i++)
    SUCCEED (cuStreamCreate (&streams[i], 1));
  SUCCEED (cuCtxPopCurrent_v2 (&context));
  world->context = context;
  world->a = streams[0];
  world->b = streams[1];
  return TRUE;
}

/* The other stream has died with the context, unless that is shared. */
static void
close_context (DeathWorld *world)
{
  if (get_kind (world)->context == SHARED)
    {
      fake->finish_all_work ();
      SUCCEED (cuStreamDestroy_v2 (world->b));
      for (TarnTestingCudaKind kind = 0; kind < FAKE_CUDA_N_KINDS; kind++)
        g_assert_cmpuint (fake->get_live (kind), ==, kind == TARN_TESTING_CUDA_CONTEXT);
      SUCCEED (cuDevicePrimaryCtxRelease_v2 (0));
    }
  for (TarnTestingCudaKind kind = 0; kind < FAKE_CUDA_N_KINDS; kind++)
    g_assert_cmpuint (fake->get_live (kind), ==, 0);
  g_assert_cmpuint (fake->get_primary_references (0), ==, 0);
  g_assert_cmpuint (fake->get_strangers_freed (NULL, 0), ==, 0);
  g_assert_cmpuint (fake->get_context_stack_depth (), ==, 0);
}

static TarnAllocator *
allocator_new (DeathWorld *world, GError **error)
{
  g_autoptr (TarnAllocator) driver
      = cuda_allocator_new (get_kind (world)->memory, world->context, error);

  if (driver == NULL || !get_kind (world)->has_heap)
    return g_steal_pointer (&driver);
  return tarn_heap_allocator_new (driver, NULL, error);
}

static void
release_context (DeathWorld *world)
{
  if (get_kind (world)->context == OWN)
    SUCCEED (cuCtxDestroy_v2 (world->context));
  else
    tarn_cuda_context_release (world->context);
}

/* Which is not idle.  It dies with its context, too. */
static void
release_stream (DeathWorld *world)
{
  if (world->context != NULL || get_kind (world)->context != OWN)
    SUCCEED (cuStreamDestroy_v2 (world->a));
}

static void
use (DeathWorld *world, TarnBlock *block, gpointer stream)
{
  (void) world;
  fake->put_work (stream);
  SUCCEED (cuMemsetD32Async ((CUdeviceptr) tarn_block_get_memory (block).address, 0,
                             tarn_block_get_size (block) / 4, stream));
  if (__atomic_load_n (&n_waiting, __ATOMIC_SEQ_CST) > 0)
    fake->finish_all_work (); /* else a thread that waits already might do so for ever */
}

static void
check (DeathWorld *world, TarnBlock *block)
{
  TarnTestingCudaMemory memory;

  g_assert_true (fake->find_memory ((CUdeviceptr) tarn_block_get_memory (block).address, &memory));
  g_assert_true (memory.kind == get_kind (world)->memory
                 || (get_kind (world)->has_heap && memory.kind == TARN_TESTING_CUDA_MAPPING));
}

static guint
get_calls (DeathWorld *world)
{
  (void) world;
  return fake->get_calls (NULL);
}

#define BACKEND(path, memory, owner) BACKEND_OVER (path, memory, owner, FALSE)
#define HEAP(path, memory, owner) BACKEND_OVER (path, memory, owner, TRUE)
#define BACKEND_OVER(path, memory, owner, has_heap)                                                \
  {                                                                                                \
    .name = path, .kind = &(const Kind){ memory, owner, has_heap }, .add = add,                    \
    .open = open_context, .close = close_context, .allocator_new = allocator_new,                  \
    .memo_new = tarn_cuda_context_memo_new, .release_context = release_context,                    \
    .release_queue = release_stream, .use = use, .check = check, .get_calls = get_calls,           \
    .forgets_queues = TRUE, .context_takes_all = owner == OWN, .n_orders = 10                      \
  }

static const DeathBackend backends[] = {
  BACKEND ("device/primary", TARN_TESTING_CUDA_DEVICE_MEMORY, PRIMARY),
  BACKEND ("device/shared", TARN_TESTING_CUDA_DEVICE_MEMORY, SHARED),
  BACKEND ("device/own", TARN_TESTING_CUDA_DEVICE_MEMORY, OWN),
  BACKEND ("page-locked/shared", TARN_TESTING_CUDA_HOST_MEMORY, SHARED),
  BACKEND ("page-locked/own", TARN_TESTING_CUDA_HOST_MEMORY, OWN),
  BACKEND ("managed/primary", TARN_TESTING_CUDA_MANAGED_MEMORY, PRIMARY),
  BACKEND ("managed/own", TARN_TESTING_CUDA_MANAGED_MEMORY, OWN),
  HEAP ("device-heap/primary", TARN_TESTING_CUDA_DEVICE_MEMORY, PRIMARY),
  HEAP ("device-heap/own", TARN_TESTING_CUDA_DEVICE_MEMORY, OWN),
  HEAP ("page-locked-heap/own", TARN_TESTING_CUDA_HOST_MEMORY, OWN),
};

int
main (int argc, char **argv)
{
  g_setenv ("TARN_TESTING_CUDA_DEVICES", "1", TRUE);
  g_setenv ("CUDA_DEVICE", "0", TRUE);
  fake = tarn_fake_cuda ();
  g_test_init (&argc, &argv, NULL);
  death_init ();
  for (gsize i = 0; i < G_N_ELEMENTS (backends); i++)
    death_add ("/cuda/death", &backends[i]);
  return g_test_run ();
}
