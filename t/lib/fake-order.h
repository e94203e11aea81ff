/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The fake queues over the fake pages: an allocator that has what heaps need, and queues.  It knows
 * what commands use byte for byte, or nearly so, whatever blocks the memory was split into.  It is
 * a fault of the queues if memory is unmapped, or goes back, before the host was told that no
 * command uses it. */

#ifndef TARN_FAKE_ORDER_H
#define TARN_FAKE_ORDER_H

#include "fake-pages.h"
#include "fake-queues.h"

typedef struct _FakeOrder FakeOrder;

/* Blocks' addresses, and offsets, have to be multiples of this. */
#define FAKE_ORDER_GRANULE ((gsize) 64 << 10)

/* As fake_pages_new () and fake_queues_new (); the flags may have FAKE_FREES_IN_ORDER only where
 * memory is not virtual. */
FakeOrder *fake_order_new (guint64 bytes, FakePagesKind kind, guint flags);
void fake_order_free (FakeOrder *order);

FakePages *fake_order_get_pages (FakeOrder *order);
FakeQueues *fake_order_get_queues (FakeOrder *order);

TarnAllocator *fake_order_allocator_new (FakeOrder *order);

/* As fake_queues_own () and so on, for all of some memory. */
void fake_order_own (FakeOrder *order, TarnMemory memory, gsize size);
void fake_order_put (FakeOrder *order, gpointer queue, TarnMemory memory, gsize size,
                     FakeCommand command, guint value);
void fake_order_touch (FakeOrder *order, TarnMemory memory, gsize size);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (FakeOrder, fake_order_free)

#endif
