/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * An allocator made of the fake queues (queues.c) and the fake device with pages (pages.c).  For
 * each granule (TARN_TESTING_ORDER_GRANULE bytes) of the device's memory, the queues track the
 * commands that use the granule. */

#include "testing/pages-private.h"
#include "testing/queues-private.h"

struct _TarnTestingOrder
{
  TarnTestingPages *pages;
  TarnTestingQueues *queues;
  /* the functions of the pages' allocator, and the functions of the queues' allocator; this file's
   * allocator calls both */
  TarnAllocatorOps on_pages, on_queues;
};

TarnTestingOrder *
tarn_testing_order_new (guint64 bytes, TarnTestingPagesKind kind, guint flags)
{
  TarnTestingOrder *order;

  g_return_val_if_fail (kind != TARN_TESTING_PAGES_VIRTUAL
                            || (flags & TARN_TESTING_QUEUES_FREES_IN_ORDER) == 0,
                        NULL);

  order = g_new (TarnTestingOrder, 1);
  order->pages = tarn_testing_pages_new (bytes, kind);
  order->queues = tarn_testing_queues_new (0, flags);
  _tarn_testing_pages_ops_init (order->pages, &order->on_pages);
  _tarn_testing_queues_ops_init (order->queues, &order->on_queues);
  return order;
}

void
tarn_testing_order_free (TarnTestingOrder *order)
{
  if (order == NULL)
    return;
  tarn_testing_pages_free (order->pages);
  tarn_testing_queues_free (order->queues);
  g_free (order);
}

TarnTestingPages *
tarn_testing_order_get_pages (TarnTestingOrder *order)
{
  return order->pages;
}

TarnTestingQueues *
tarn_testing_order_get_queues (TarnTestingOrder *order)
{
  return order->queues;
}

/* The queues track the uses of two kinds of granules.  A granule of bytes is a part of the device's
 * memory, at whatever addresses it is mapped; its TarnMemory.address is even.  A granule of
 * addresses is a range of addresses, whatever bytes are mapped there; its TarnMemory.address is
 * odd. */

static TarnMemory
get_granule_of_bytes (guint64 place)
{
  return (TarnMemory){ .address = place / TARN_TESTING_ORDER_GRANULE * 2 };
}

static TarnMemory
get_granule (TarnTestingOrder *order, TarnMemory memory, gsize offset)
{
  return get_granule_of_bytes (tarn_testing_pages_locate (order->pages, memory, offset));
}

static TarnMemory
get_granule_of_addresses (TarnMemory memory, gsize offset)
{
  return (TarnMemory){ .address = (memory.address + offset) / TARN_TESTING_ORDER_GRANULE * 2 + 1 };
}

/* Records that the latest command on a queue uses a granule of addresses, independent of the bytes
 * that are mapped there. */
static void
note_use_of_addresses (TarnTestingQueues *queues, gpointer handle, TarnMemory granule)
{
  TarnTestingQueue *queue;

  _tarn_mutex_lock (&queues->lock);
  queue = _tarn_testing_queues_look_up (queues, handle, "command");
  if (queue != NULL)
    _tarn_testing_clock_raise (_tarn_testing_queues_get_memory (queues, granule)->uses,
                               queue->number, queue->items->len);
  _tarn_mutex_unlock (&queues->lock);
}

void
tarn_testing_order_own (TarnTestingOrder *order, TarnMemory memory, gsize size)
{
  for (gsize at = 0; at < size; at += TARN_TESTING_ORDER_GRANULE)
    tarn_testing_queues_own (order->queues, get_granule (order, memory, at));
}

void
tarn_testing_order_put (TarnTestingOrder *order, gpointer queue, TarnMemory memory, gsize size,
                        TarnTestingCommand command, guint value)
{
  for (gsize at = 0; at < size; at += TARN_TESTING_ORDER_GRANULE)
    {
      tarn_testing_queue_put (order->queues, queue, get_granule (order, memory, at), command,
                              value);
      if (order->on_pages.virtual_granularity > 0)
        note_use_of_addresses (order->queues, queue, get_granule_of_addresses (memory, at));
    }
}

void
tarn_testing_order_touch (TarnTestingOrder *order, TarnMemory memory, gsize size)
{
  for (gsize at = 0; at < size; at += TARN_TESTING_ORDER_GRANULE)
    tarn_testing_queues_touch (order->queues, get_granule (order, memory, at));
}

/* Functions that implement TarnAllocatorOps by those of the pages and the queues */

static const TarnAllocatorOps *
pages_of (gpointer user_data, gpointer *pages)
{
  *pages = ((TarnTestingOrder *) user_data)->pages;
  return &((TarnTestingOrder *) user_data)->on_pages;
}

static const TarnAllocatorOps *
queues_of (gpointer user_data, gpointer *queues)
{
  *queues = ((TarnTestingOrder *) user_data)->queues;
  return &((TarnTestingOrder *) user_data)->on_queues;
}

/* Defines a function of this file's allocator.  The function calls the function of the same name in
 * the allocator of the pages (@of is pages_of) or of the queues (@of is queues_of). */
#define PASS_ON(of, type, name, parameters, ...)                                                   \
  static type name parameters                                                                      \
  {                                                                                                \
    gpointer its;                                                                                  \
    const TarnAllocatorOps *ops = of (user_data, &its);                                            \
                                                                                                   \
    return ops->name (its, ##__VA_ARGS__);                                                         \
  }

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

/* Returns the TarnMemory by which the queues know a granule of a segment.  (A segment is memory
 * that the allocator of the pages has allocated.) */
static TarnMemory
get_granule_of_piece (TarnTestingOrder *order, TarnMemory piece, gsize offset)
{
  return get_granule_of_bytes (tarn_testing_pages_locate_in_piece (order->pages, piece, offset));
}

/* Checks that all commands that use a segment (allocated memory), or a backing (memory without an
 * address), are done.  If not, reports a fault. */
static void
end_piece (TarnTestingOrder *order, TarnMemory piece, gsize size)
{
  for (gsize at = 0; at < size; at += TARN_TESTING_ORDER_GRANULE)
    {
      TarnMemory granule = get_granule_of_piece (order, piece, at);

      tarn_testing_queues_own (order->queues, granule);
      tarn_testing_queues_touch (order->queues, granule);
    }
}

static gpointer
fresh_queue (gpointer user_data)
{
  const TarnTestingOrder *order = user_data;

  return order->on_queues.fresh_queue (order->queues);
}

static gboolean
allocate (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  TarnTestingOrder *order = user_data;
  gpointer fresh = fresh_queue (order);

  if (!order->on_pages.allocate (order->pages, size, memory, error))
    return FALSE;
  for (gsize at = 0; at < size && fresh != NULL; at += TARN_TESTING_ORDER_GRANULE)
    tarn_testing_queue_put (order->queues, fresh, get_granule_of_piece (order, *memory, at),
                            TARN_TESTING_COMMAND_WRITE, _TARN_TESTING_GARBAGE);
  return TRUE;
}

/* Unmaps a backing (memory without an address) from addresses.  First checks that all commands that
 * use these addresses are done.  If the backing is mapped at other addresses, too, commands may go
 * on using the backing's bytes at those other addresses. */
static void
backing_unmap (gpointer user_data, TarnMemory address, gsize size)
{
  TarnTestingOrder *order = user_data;

  for (gsize at = 0; at < size; at += TARN_TESTING_ORDER_GRANULE)
    {
      TarnMemory granule = get_granule_of_addresses (address, at);

      tarn_testing_queues_own (order->queues, granule);
      tarn_testing_queues_touch (order->queues, granule);
    }
  order->on_pages.backing_unmap (order->pages, address, size);
}

static void
backing_release (gpointer user_data, TarnMemory backing, gsize size)
{
  TarnTestingOrder *order = user_data;

  end_piece (order, backing, size);
  order->on_pages.backing_release (order->pages, backing, size);
}

static void
free_memory (gpointer user_data, TarnMemory memory, gsize size)
{
  TarnTestingOrder *order = user_data;

  if (!order->on_queues.frees_in_order)
    end_piece (order, memory, size);
  order->on_pages.free (order->pages, memory, size);
}

TarnAllocator *
tarn_testing_order_allocator_new (TarnTestingOrder *order)
{
  const TarnAllocatorOps *pages = &order->on_pages, *queues = &order->on_queues;
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

  ops.name = "fake queues over pages";
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
      ops.backing_aliases = pages->backing_aliases;
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
