/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Every order of death in the core, over queues that are lists. */

#include <tarn/testing.h>

#include "lib/death-matrix.h"

static void
add (const gchar *path, gconstpointer data)
{
  g_test_add_data_func (path, data, (GTestDataFunc) (void (*) (void)) death_run);
}

static gboolean
open_queues (DeathWorld *world)
{
  TarnTestingQueues *queues
      = tarn_testing_queues_new (G_MAXUINT64, GPOINTER_TO_UINT (world->backend->kind));

  world->own = queues;
  world->a = tarn_testing_queue_new (queues, TRUE);
  world->b = tarn_testing_queue_new (queues, TRUE);
  return TRUE;
}

static void
close_queues (DeathWorld *world)
{
  tarn_testing_queue_destroy (world->own, world->b);
  tarn_testing_queues_run_all (world->own);
  tarn_testing_queues_free (world->own);
}

static TarnAllocator *
allocator_new (DeathWorld *world, GError **error)
{
  (void) error;
  return tarn_testing_queues_allocator_new (world->own);
}

static void
release_queue (DeathWorld *world)
{
  tarn_testing_queue_destroy (world->own, world->a);
}

static void
own (DeathWorld *world, TarnBlock *block)
{
  tarn_testing_queues_own (world->own, tarn_block_get_memory (block));
}

static void
use (DeathWorld *world, TarnBlock *block, gpointer queue)
{
  tarn_testing_queue_put (world->own, queue, tarn_block_get_memory (block),
                          TARN_TESTING_COMMAND_USE, 0);
}

/* A command on memory that was freed is a fault. */
static void
check (DeathWorld *world, TarnBlock *block)
{
  use (world, block, world->b);
}

static guint
get_calls (DeathWorld *world)
{
  TarnTestingDevice *device = tarn_testing_queues_get_device (world->own);
  guint n = tarn_testing_device_get_allocate_calls (device)
            + tarn_testing_device_get_free_calls (device);

  for (TarnTestingCall call = 0; call <= TARN_TESTING_CALL_EVENT_RELEASE; call++)
    n += tarn_testing_queues_get_calls (world->own, call);
  return n;
}

#define BACKEND                                                                                    \
  .add = add, .open = open_queues, .close = close_queues, .allocator_new = allocator_new,          \
  .memo_new = tarn_memo_new, .release_queue = release_queue, .own = own, .use = use,               \
  .check = check, .get_calls = get_calls, .n_orders = 100

static const DeathBackend backends[] = {
  { .name = "queues", BACKEND },
  { .name = "in-order-frees",
    .kind = GUINT_TO_POINTER (TARN_TESTING_QUEUES_FREES_IN_ORDER),
    BACKEND },
  { .name = "streams",
    .kind = GUINT_TO_POINTER (TARN_TESTING_QUEUES_RECORDS_ALL | TARN_TESTING_QUEUES_CHECKS_QUEUES),
    .forgets_queues = TRUE,
    BACKEND },
};

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  death_init ();
  for (gsize i = 0; i < G_N_ELEMENTS (backends); i++)
    death_add ("/core/death", &backends[i]);
  return g_test_run ();
}
