/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Every order of death, with a heap between the pools and the driver. */

#include "heap-fixture.h"
#include "lib/death-matrix.h"
#include "lib/fake-order.h"

typedef struct
{
  gboolean is_virtual;
  guint flags; /* of FakeQueuesFlags */
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
  FakeOrder *order = fake_order_new (G_MAXUINT64, kind->is_virtual, kind->flags);

  world->own = order;
  world->a = fake_queue_new (fake_order_get_queues (order), TRUE);
  world->b = fake_queue_new (fake_order_get_queues (order), TRUE);
  return TRUE;
}

static void
close_order (DeathWorld *world)
{
  FakeQueues *queues = fake_order_get_queues (world->own);

  fake_queue_destroy (queues, world->b);
  fake_queues_run_all (queues);
  fake_order_free (world->own);
}

static TarnAllocator *
allocator_new (DeathWorld *world, GError **error)
{
  g_autoptr (TarnAllocator) upstream = fake_order_allocator_new (world->own);
  TarnHeapOptions options = TARN_HEAP_OPTIONS_INIT;

  options.alignment = FAKE_ORDER_GRANULE;
  return tarn_heap_allocator_new (upstream, &options, error);
}

static void
release_queue (DeathWorld *world)
{
  fake_queue_destroy (fake_order_get_queues (world->own), world->a);
}

static void
own (DeathWorld *world, TarnBlock *block)
{
  fake_order_own (world->own, tarn_block_get_memory (block), tarn_block_get_size (block));
}

static void
use (DeathWorld *world, TarnBlock *block, gpointer queue)
{
  fake_order_put (world->own, queue, tarn_block_get_memory (block), tarn_block_get_size (block),
                  FAKE_USE, 0);
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
  guint n = fake_pages_get_calls (fake_order_get_pages (world->own));

  for (FakeCall call = 0; call < FAKE_N_CALLS; call++)
    n += fake_queues_get_calls (fake_order_get_queues (world->own), call);
  return n;
}

#define BACKEND(its_name, is_virtual, flags)                                                       \
  .name = its_name, .kind = &(const Kind){ is_virtual, flags }, .add = add, .open = open_order,    \
  .close = close_order, .allocator_new = allocator_new, .memo_new = tarn_memo_new,                 \
  .release_queue = release_queue, .own = own, .use = use, .check = check, .get_calls = get_calls,  \
  .n_orders = 100

static const DeathBackend backends[] = {
  { BACKEND ("virtual", TRUE, 0) },
  { BACKEND ("virtual-streams", TRUE, FAKE_RECORDS_ALL | FAKE_CHECKS_QUEUES),
    .forgets_queues = TRUE },
  { BACKEND ("parts", FALSE, 0) },
  { BACKEND ("parts-in-order-frees", FALSE, FAKE_FREES_IN_ORDER) },
  { BACKEND ("parts-streams", FALSE, FAKE_RECORDS_ALL | FAKE_CHECKS_QUEUES),
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
