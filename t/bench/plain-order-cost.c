/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Measures the same as order-cost.c without a driver: memory costs nothing, queues are always idle,
 * and their functions take no lock.  The rest is the pool's own cost. */

#include "order-rows.h"

static guint64 next_address; /* atomic, as are these */
static guint n_calls = 1; /* of functions that a driver would have; not 0, which means uncounted */
static gchar event;

static void
count_call (void)
{
  __atomic_fetch_add (&n_calls, 1, __ATOMIC_RELAXED);
}

static gboolean
allocate (gpointer unused, gsize size, TarnMemory *memory, GError **error)
{
  (void) unused;
  (void) size;
  (void) error;
  count_call ();
  memory->address = __atomic_add_fetch (&next_address, 1, __ATOMIC_RELAXED);
  return TRUE;
}

static void
free_nothing (gpointer unused, TarnMemory memory, gsize size)
{
  (void) unused;
  (void) memory;
  (void) size;
  count_call ();
}

static gboolean
queue_ref (gpointer unused, gpointer queue, gboolean *in_order, GError **error)
{
  (void) unused;
  (void) queue;
  (void) error;
  *in_order = TRUE;
  return TRUE;
}

static void
queue_unref (gpointer unused, gpointer queue)
{
  (void) unused;
  (void) queue;
}

static gpointer
event_record (gpointer unused, gpointer queue, GError **error)
{
  (void) unused;
  (void) queue;
  (void) error;
  count_call ();
  return &event;
}

static gpointer
event_record_all (gpointer unused, GError **error)
{
  (void) unused;
  (void) error;
  count_call ();
  return &event;
}

static gboolean
event_is_done (gpointer unused, gpointer which)
{
  (void) unused;
  (void) which;
  count_call ();
  return TRUE;
}

static gboolean
event_wait (gpointer unused, gpointer which, gpointer queue, GError **error)
{
  (void) unused;
  (void) which;
  (void) queue;
  (void) error;
  count_call ();
  return TRUE;
}

static void
event_release (gpointer unused, gpointer which)
{
  (void) unused;
  (void) which;
}

static TarnAllocator *
open_nothing (void)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

  ops.name = "nothing";
  ops.allocate = allocate;
  ops.free = free_nothing;
  ops.queue_ref = queue_ref;
  ops.queue_unref = queue_unref;
  ops.event_record = event_record;
  ops.event_record_all = event_record_all;
  ops.event_is_done = event_is_done;
  ops.event_wait = event_wait;
  ops.event_release = event_release;
  return tarn_allocator_new (&ops, NULL, NULL);
}

/* Makes up a queue: an address. */
static gpointer
queue_new (void)
{
  return g_new (gchar, 1);
}

static guint
count_calls (void)
{
  return __atomic_load_n (&n_calls, __ATOMIC_RELAXED);
}

int
main (int argc, char **argv)
{
  static const OrderBackend backend = {
    .program = "plain-order-cost",
    .summary = "- what the order of queues costs without a driver",
    .open = open_nothing,
    .queue_new = queue_new,
    .queue_free = g_free,
    .count_calls = count_calls,
  };

  return order_run (argc, argv, &backend);
}
