/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A pool over queues that are lists, and what the tests of order do with it. */

#ifndef TARN_ORDER_FIXTURE_H
#define TARN_ORDER_FIXTURE_H

#include <tarn/testing.h>

typedef struct
{
  TarnTestingQueues *queues;
  TarnAllocator *allocator;
  TarnPool *pool;
  gpointer a, b, c; /* in-order queues */
  gpointer loose;   /* an out-of-order one */
  guint n_writes;
} Order;

/* @flags: TarnTestingQueuesFlags, as GUINT_TO_POINTER ().  Queues that are not used are as good as
 * none.
 */
void order_set_up (Order *order, gconstpointer flags);
void order_tear_down (Order *order, gconstpointer unused);

/* A block for a queue, which then writes it; for the host where that is NULL. */
TarnBlock *order_take (Order *order, gsize size, gpointer queue);

/* From here on frees of a size record events, as where blocks of it were handed on from queue to
 * queue. */
void order_hand_on (Order *order, gsize size);

/* The pool knows two queues afterwards, which hand on blocks of @size.  It holds none of this size.
 */
void order_meet_second_queue (Order *order, gsize size);

/* Blocks of so many bytes that are held, each after it was used on the queue. */
void order_hold (Order *order, gsize size, gpointer queue, guint n);

/* Tells the block that the queue uses it, too, and puts a command there, after those on the queue
 * that the block was allocated for. */
void order_record (Order *order, TarnBlock *block, gpointer queue);

/* Puts a command on a queue that has the block already. */
void order_put (Order *order, TarnBlock *block, gpointer queue);

/* The block is another owner's from here on. */
void order_own (Order *order, TarnBlock *block);

TarnPoolStats order_get_stats (Order *order);
void order_drop_pool (Order *order);

/* How often a function of the backend was called, from the start. */
#define assert_calls(order, call, n)                                                               \
  g_assert_cmpuint (tarn_testing_queues_get_calls ((order)->queues, (call)), ==, (n))
#define assert_calls_at_most(order, call, n)                                                       \
  g_assert_cmpuint (tarn_testing_queues_get_calls ((order)->queues, (call)), <=, (n))
#define assert_pending(order, queue, n)                                                            \
  g_assert_cmpuint (tarn_testing_queue_get_pending ((order)->queues, (queue)), ==, (n))
#define assert_live(order, n)                                                                      \
  g_assert_cmpuint (                                                                               \
      tarn_testing_device_get_live (tarn_testing_queues_get_device ((order)->queues)), ==, (n))

#endif
