/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Requests that wait until other threads free memory, while the only calls from which memory can
 * come end without freeing any: a request that fails, and a return of memory that fails.  The
 * requests must not go on to wait. */

#include <tarn/heap.h>

#include "common/lock-private.h"
#include "lib/order-fixture.h"
#include "lib/pool-fixture.h"
#include "pool/pool-private.h"

#define SIZE ((gsize) 1023) /* the largest of its bin */
#define LONG (20 * G_TIME_SPAN_SECOND)

/* A device on which a large request holds all memory until the test lets it fail. */
typedef struct
{
  TarnMutex lock;
  TarnCond changed;
  gboolean is_held;  /* a large request is in allocate () */
  gboolean may_fail; /* it may fail now */
} Device;

static gboolean
device_allocate (gpointer data, gsize size, TarnMemory *memory, GError **error)
{
  Device *device = data;
  gboolean has_memory;

  _tarn_mutex_lock (&device->lock);
  device->is_held |= size > SIZE;
  _tarn_cond_broadcast (&device->changed);
  while (size > SIZE && !device->may_fail)
    _tarn_cond_wait (&device->changed, &device->lock);
  device->is_held = device->is_held && size <= SIZE;
  has_memory = size <= SIZE && !device->is_held;
  _tarn_mutex_unlock (&device->lock);
  if (has_memory)
    memory->pointer = g_malloc (size);
  else
    g_set_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY, "the device is full");
  return has_memory;
}

static void
device_free (gpointer data, TarnMemory memory, gsize size)
{
  (void) data;
  (void) size;
  g_free (memory.pointer);
}

static gpointer
fail_large (gpointer pool)
{
  assert_fails (pool, 2 * SIZE + 1, TARN_ERROR_OUT_OF_MEMORY);
  return NULL;
}

static void
await_waiting (TarnPool *pool)
{
  guint n_waiting;

  do
    {
      g_usleep (10 * G_TIME_SPAN_MILLISECOND); /* the request may be asleep after that */
      _tarn_mutex_lock (&pool->lock);
      n_waiting = pool->room.n_waiting;
      _tarn_mutex_unlock (&pool->lock);
    }
  while (n_waiting == 0);
}

/* Requests a block, and returns it. */
static gpointer
wait_for_block (gpointer pool)
{
  return tarn_pool_allocate_timeout (pool, SIZE - 100, NULL, LONG, NULL);
}

/* A request waits only because another one has all memory.  That one fails, so that the memory is
 * free again. */
static void
test_request (void)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
  g_autoptr (TarnAllocator) allocator = NULL;
  g_autoptr (TarnPool) pool = NULL;
  gint64 start = g_get_monotonic_time ();
  GThread *failing, *waiting;
  Device device = { .is_held = FALSE };
  TarnBlock *block;

  _tarn_mutex_init (&device.lock);
  _tarn_cond_init (&device.changed);
  ops.allocate = device_allocate;
  ops.free = device_free;
  allocator = tarn_allocator_new (&ops, &device, NULL);
  pool = tarn_pool_new (allocator, NULL, NULL);

  failing = g_thread_new ("failing", fail_large, pool);
  _tarn_mutex_lock (&device.lock);
  while (!device.is_held)
    _tarn_cond_wait (&device.changed, &device.lock);
  _tarn_mutex_unlock (&device.lock);
  waiting = g_thread_new ("waiting", wait_for_block, pool);
  await_waiting (pool);
  _tarn_mutex_lock (&device.lock);
  device.may_fail = TRUE;
  _tarn_cond_broadcast (&device.changed);
  _tarn_mutex_unlock (&device.lock);

  g_thread_join (failing);
  block = g_thread_join (waiting);
  g_assert_cmpint (g_get_monotonic_time () - start, <, LONG / 2);
  g_assert_nonnull (block);
  tarn_block_free (block);
  assert_valid (pool);
  _tarn_cond_clear (&device.changed);
  _tarn_mutex_clear (&device.lock);
}

/* A thread that returns the only block, of a queue that nobody can wait for. */
typedef struct
{
  Order *order;
  TarnBlock *block;
  GThread *waiting;
} Stuck;

static void
begin_waiting (gpointer data)
{
  Stuck *stuck = data;

  stuck->waiting = g_thread_new ("waiting", wait_for_block, stuck->order->pool);
  await_waiting (stuck->order->pool);
}

static void
count_message (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer n)
{
  (void) domain;
  (void) level;
  (void) message;
  ++*(guint *) n;
}

/* A request waits only because another thread is returning a block.  The block cannot be returned,
 * so the request cannot be served, and does not wait for that. */
static void
test_give_back (Order *order, gconstpointer unused)
{
  Stuck stuck = { .order = order };
  TarnTestingDevice *device = tarn_testing_queues_get_device (order->queues);
  gint64 start = g_get_monotonic_time ();
  guint n_messages = 0, handler;

  (void) unused;
  handler = g_log_set_handler ("Tarn", G_LOG_LEVEL_MESSAGE, count_message, &n_messages);
  tarn_testing_device_set_max_size (device, SIZE - 100); /* only the exact size, not held */
  stuck.block = order_take (order, SIZE - 100, order->a);
  tarn_testing_device_set_budget (device, SIZE);
  tarn_testing_queues_fail (order->queues, TARN_TESTING_CALL_EVENT_RECORD, 1, TRUE);
  tarn_testing_queues_set_hook (order->queues, TARN_TESTING_CALL_EVENT_RECORD, begin_waiting,
                                &stuck);
  tarn_block_free (stuck.block);
  g_assert_null (g_thread_join (stuck.waiting));
  g_assert_cmpint (g_get_monotonic_time () - start, <, LONG / 2);
  tarn_testing_queues_fail (order->queues, TARN_TESTING_CALL_ANY, 0, FALSE);
  g_log_remove_handler ("Tarn", handler);
  assert_valid (order->pool);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/core/timeout/ends/request", test_request);
  g_test_add ("/core/timeout/ends/give-back", Order, NULL, order_set_up, test_give_back,
              order_tear_down);
  return g_test_run ();
}
