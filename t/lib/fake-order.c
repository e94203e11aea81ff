/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "fake-order.h"

#include "allocator/allocator-private.h"

struct _FakeOrder
{
  FakePages *pages;
  FakeQueues *queues;
  TarnAllocator *on_pages, *on_queues; /* whose functions the allocator has */
};

FakeOrder *
fake_order_new (guint64 bytes, FakePagesKind kind, guint flags)
{
  FakeOrder *order = g_new (FakeOrder, 1);

  g_assert_true (kind != FAKE_PAGES_VIRTUAL || (flags & FAKE_FREES_IN_ORDER) == 0);
  order->pages = fake_pages_new (bytes, kind);
  order->queues = fake_queues_new (0, flags);
  order->on_pages = fake_pages_allocator_new (order->pages);
  order->on_queues = fake_queues_allocator_new (order->queues);
  return order;
}

void
fake_order_free (FakeOrder *order)
{
  tarn_allocator_unref (order->on_pages);
  tarn_allocator_unref (order->on_queues);
  fake_pages_free (order->pages);
  fake_queues_free (order->queues);
  g_free (order);
}

FakePages *
fake_order_get_pages (FakeOrder *order)
{
  return order->pages;
}

FakeQueues *
fake_order_get_queues (FakeOrder *order)
{
  return order->queues;
}

/* The memory that a granule is for the queues. */
static TarnMemory
get_granule (FakeOrder *order, TarnMemory memory, gsize offset)
{
  TarnMemory granule
      = { .address = fake_pages_locate (order->pages, memory, offset) / FAKE_ORDER_GRANULE };

  return granule;
}

void
fake_order_own (FakeOrder *order, TarnMemory memory, gsize size)
{
  for (gsize at = 0; at < size; at += FAKE_ORDER_GRANULE)
    fake_queues_own (order->queues, get_granule (order, memory, at));
}

void
fake_order_put (FakeOrder *order, gpointer queue, TarnMemory memory, gsize size,
                FakeCommand command, guint value)
{
  for (gsize at = 0; at < size; at += FAKE_ORDER_GRANULE)
    fake_queue_put (order->queues, queue, get_granule (order, memory, at), command, value);
}

void
fake_order_touch (FakeOrder *order, TarnMemory memory, gsize size)
{
  for (gsize at = 0; at < size; at += FAKE_ORDER_GRANULE)
    fake_queues_touch (order->queues, get_granule (order, memory, at));
}

/* The allocator's functions */

static const TarnAllocatorOps *
pages_of (gpointer user_data, gpointer *pages)
{
  *pages = ((FakeOrder *) user_data)->on_pages->user_data;
  return &((FakeOrder *) user_data)->on_pages->ops;
}

static const TarnAllocatorOps *
queues_of (gpointer user_data, gpointer *queues)
{
  *queues = ((FakeOrder *) user_data)->on_queues->user_data;
  return &((FakeOrder *) user_data)->on_queues->ops;
}

/* Defines a function that is one of another allocator's. */
#define PASS_ON(of, type, name, parameters, ...)                                                   \
  static type name parameters                                                                      \
  {                                                                                                \
    gpointer its;                                                                                  \
    const TarnAllocatorOps *ops = of (user_data, &its);                                            \
                                                                                                   \
    return ops->name (its, ##__VA_ARGS__);                                                         \
  }

PASS_ON (pages_of, gboolean, allocate,
         (gpointer user_data, gsize size, TarnMemory *memory, GError **error), size, memory, error)
PASS_ON (pages_of, gboolean, part_new,
         (gpointer user_data, TarnMemory memory, gsize offset, gsize size, TarnMemory *part,
          GError **error),
         memory, offset, size, part, error)
PASS_ON (pages_of, void, part_release, (gpointer user_data, TarnMemory part, gsize size), part,
         size)
PASS_ON (pages_of, gboolean, addresses_reserve,
         (gpointer user_data, gsize size, TarnMemory *addresses, GError **error), size, addresses,
         error)
PASS_ON (pages_of, void, addresses_release, (gpointer user_data, TarnMemory addresses, gsize size),
         addresses, size)
PASS_ON (pages_of, gboolean, backing_new,
         (gpointer user_data, gsize size, TarnMemory *memory, GError **error), size, memory, error)
PASS_ON (pages_of, void, backing_release, (gpointer user_data, TarnMemory memory, gsize size),
         memory, size)
PASS_ON (pages_of, gboolean, backing_map,
         (gpointer user_data, TarnMemory memory, gsize size, TarnMemory address, GError **error),
         memory, size, address, error)
PASS_ON (queues_of, gboolean, queue_ref,
         (gpointer user_data, gpointer queue, gboolean *in_order, GError **error), queue, in_order,
         error)
PASS_ON (queues_of, void, queue_unref, (gpointer user_data, gpointer queue), queue)
PASS_ON (queues_of, gpointer, event_record, (gpointer user_data, gpointer queue, GError **error),
         queue, error)
PASS_ON (queues_of, gpointer, event_record_all, (gpointer user_data, GError **error), error)
PASS_ON (queues_of, gboolean, event_is_done, (gpointer user_data, gpointer event), event)
PASS_ON (queues_of, gboolean, event_wait,
         (gpointer user_data, gpointer event, gpointer queue, GError **error), event, queue, error)
PASS_ON (queues_of, void, event_release, (gpointer user_data, gpointer event), event)
PASS_ON (queues_of, gboolean, check_queue, (gpointer user_data, gpointer queue, GError **error),
         queue, error)

/* Nobody may use it any more. */
static void
backing_unmap (gpointer user_data, TarnMemory address, gsize size)
{
  FakeOrder *order = user_data;

  fake_order_own (order, address, size);
  fake_order_touch (order, address, size);
  order->on_pages->ops.backing_unmap (order->on_pages->user_data, address, size);
}

static void
free_memory (gpointer user_data, TarnMemory memory, gsize size)
{
  FakeOrder *order = user_data;
  gboolean may_be_used = order->on_queues->ops.frees_in_order;

  for (gsize at = 0; at < size && !may_be_used; at += FAKE_ORDER_GRANULE)
    {
      guint64 place = fake_pages_locate_in_piece (order->pages, memory, at);
      TarnMemory granule = { .address = place / FAKE_ORDER_GRANULE };

      fake_queues_own (order->queues, granule);
      fake_queues_touch (order->queues, granule);
    }
  order->on_pages->ops.free (order->on_pages->user_data, memory, size);
}

/* For the test to ask what was waited for. */
static gpointer
fresh_queue (gpointer user_data)
{
  const FakeOrder *order = user_data;

  return order->on_queues->ops.fresh_queue (order->on_queues->user_data);
}

TarnAllocator *
fake_order_allocator_new (FakeOrder *order)
{
  const TarnAllocatorOps *pages = &order->on_pages->ops, *queues = &order->on_queues->ops;
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

  ops.name = "fake order";
  ops.allocate = allocate;
  ops.free = free_memory;
  ops.part_alignment = pages->part_alignment;
  ops.part_new = pages->part_new != NULL ? part_new : NULL;
  ops.part_release = pages->part_release != NULL ? part_release : NULL;
  ops.virtual_granularity = pages->virtual_granularity;
  if (ops.virtual_granularity > 0)
    {
      ops.addresses_reserve = addresses_reserve;
      ops.addresses_release = addresses_release;
      ops.backing_new = backing_new;
      ops.backing_release = backing_release;
      ops.backing_map = backing_map;
      ops.backing_unmap = backing_unmap;
    }
  ops.queue_ref = queue_ref;
  ops.queue_unref = queue_unref;
  ops.event_record = event_record;
  ops.event_record_all = queues->event_record_all != NULL ? event_record_all : NULL;
  ops.event_is_done = event_is_done;
  ops.event_wait = event_wait;
  ops.event_release = event_release;
  ops.check_queue = queues->check_queue != NULL ? check_queue : NULL;
  ops.frees_in_order = queues->frees_in_order;
  ops.fresh_queue = fresh_queue;
  return tarn_allocator_new (&ops, order, NULL);
}
