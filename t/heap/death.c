/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Every order of death, with a heap between the pools and the driver. */

#include <tarn/testing.h>

#include "heap-fixture.h"
#include "lib/death-matrix.h"

typedef struct
{
  gboolean is_virtual;
  guint flags; /* of TarnTestingQueuesFlags */
} Kind;

static void
add (const gchar *path, gconstpointer data)
{
  g_test_add_data_func (path, data, (GTestDataFunc) (void (*) (void)) death_run);
}

static gboolean
open_order (DeathWorld *world)
{
  const Kind *kind = world->backend->kind;
  TarnTestingOrder *order = tarn_testing_order_new (G_MAXUINT64, kind->is_virtual, kind->flags);

  world->own = order;
  world->a = tarn_testing_queue_new (tarn_testing_order_get_queues (order), TRUE);
  world->b = tarn_testing_queue_new (tarn_testing_order_get_queues (order), TRUE);
  return TRUE;
}

static void
close_order (DeathWorld *world)
{
  TarnTestingQueues *queues = tarn_testing_order_get_queues (world->own);

  tarn_testing_queue_destroy (queues, world->b);
  tarn_testing_queues_run_all (queues);
  tarn_testing_order_free (world->own);
}

static TarnAllocator *
allocator_new (DeathWorld *world, GError **error)
{
  g_autoptr (TarnAllocator) upstream = tarn_testing_order_allocator_new (world->own);
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;

  options.alignment = TARN_TESTING_ORDER_GRANULE;
  return tarn_heap_allocator_new (upstream, &options, error);
}

static void
release_queue (DeathWorld *world)
{
  tarn_testing_queue_destroy (tarn_testing_order_get_queues (world->own), world->a);
}

static void
own (DeathWorld *world, TarnBlock *block)
{
  tarn_testing_order_own (world->own, tarn_block_get_memory (block), tarn_block_get_size (block));
}

static void
use (DeathWorld *world, TarnBlock *block, gpointer queue)
{
  tarn_testing_order_put (world->own, queue, tarn_block_get_memory (block),
                          tarn_block_get_size (block), TARN_TESTING_COMMAND_USE, 0);
}

/* Memory that is not mapped, or no part, ends the test. */
static void
check (DeathWorld *world, TarnBlock *block)
{
  use (world, block, world->b);
}

static guint
get_calls (DeathWorld *world)
{
  guint n = tarn_testing_pages_get_calls (tarn_testing_order_get_pages (world->own));

  for (TarnTestingCall call = 0; call <= TARN_TESTING_CALL_EVENT_RELEASE; call++)
    n += tarn_testing_queues_get_calls (tarn_testing_order_get_queues (world->own), call);
  return n;
}

#define BACKEND(its_name, is_virtual, flags)                                                       \
  .name = its_name, .kind = &(const Kind){ is_virtual, flags }, .add = add, .open = open_order,    \
  .close = close_order, .allocator_new = allocator_new, .memo_new = tarn_memo_new,                 \
  .release_queue = release_queue, .own = own, .use = use, .check = check, .get_calls = get_calls,  \
  .n_orders = 100

static const DeathBackend backends[] = {
  { BACKEND ("virtual", TRUE, 0) },
  { BACKEND ("virtual-streams", TRUE,
             TARN_TESTING_QUEUES_RECORDS_ALL | TARN_TESTING_QUEUES_CHECKS_QUEUES),
    .forgets_queues = TRUE },
  { BACKEND ("parts", FALSE, 0) },
  { BACKEND ("parts-in-order-frees", FALSE, TARN_TESTING_QUEUES_FREES_IN_ORDER) },
  { BACKEND ("parts-streams", FALSE,
             TARN_TESTING_QUEUES_RECORDS_ALL | TARN_TESTING_QUEUES_CHECKS_QUEUES),
    .forgets_queues = TRUE },
};

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  death_init ();
  for (gsize i = 0; i < G_N_ELEMENTS (backends); i++)
    death_add ("/core/heap/death", &backends[i]);
  return g_test_run ();
}
