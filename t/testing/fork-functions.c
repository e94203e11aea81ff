/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Calls each public function of libtarn-testing in children of fork (), on objects that the child
 * makes: the parent's are the parent's alone. */

#include <tarn/testing.h>
#include <tarn/testing/cuda.h>

#include "lib/fork-functions.h"

#define N_ASKED 50 /* in a row, so that a fork often falls into it */

/* What a child makes */

typedef struct
{
  TarnTestingDevice *device;
  TarnTestingQueues *queues;
  TarnTestingPages *pages;
  TarnTestingOrder *order;
  gpointer queue, other;
  TarnMemory memory; /* none */
} World;

static void
make (gpointer world)
{
  World *w = world;

  w->device = tarn_testing_device_new (G_MAXUINT64);
  w->queues = tarn_testing_queues_new (G_MAXUINT64, 0);
  w->queue = tarn_testing_queue_new (w->queues, TRUE);
  w->other = tarn_testing_queue_new (w->queues, TRUE);
  w->pages = tarn_testing_pages_new (G_MAXUINT64, TARN_TESTING_PAGES_PARTS);
  w->order = tarn_testing_order_new (G_MAXUINT64, TARN_TESTING_PAGES_PARTS, 0);
}

static const ForkHooks hooks = { .enter = make, .may_lock = TRUE };

#define FUNCTIONS(X)                                                                               \
  X (tarn_testing_assert_no_hazards, QUIET, (w->queues))                                           \
  X (tarn_testing_assert_no_leaks, QUIET, (w->device))                                             \
  X (tarn_testing_cuda_assert_no_leaks, QUIET, ())                                                 \
  X (tarn_testing_cuda_get, QUIET, ())                                                             \
  X (tarn_testing_device_allocator_new, QUIET, (w->device))                                        \
  X (tarn_testing_device_describe_leaks, QUIET, (w->device))                                       \
  X (tarn_testing_device_fail, QUIET, (w->device, 1, FALSE))                                       \
  X (tarn_testing_device_fail_share, QUIET, (w->device, 0.5))                                      \
  X (tarn_testing_device_free, QUIET, (w->device))                                                 \
  X (tarn_testing_device_get_allocate_calls, QUIET, (w->device))                                   \
  X (tarn_testing_device_get_free_calls, QUIET, (w->device))                                       \
  X (tarn_testing_device_get_last_size, QUIET, (w->device))                                        \
  X (tarn_testing_device_get_live, QUIET, (w->device))                                             \
  X (tarn_testing_device_get_used_bytes, QUIET, (w->device))                                       \
  X (tarn_testing_device_has_failed, QUIET, (w->device))                                           \
  X (tarn_testing_device_new, QUIET, (100))                                                        \
  X (tarn_testing_device_set_budget, QUIET, (w->device, 100))                                      \
  X (tarn_testing_device_set_free_hook, QUIET, (w->device, NULL, NULL))                            \
  X (tarn_testing_device_set_max_size, QUIET, (w->device, 100))                                    \
  X (tarn_testing_device_set_reclaim, QUIET, (w->device, NULL, NULL))                              \
  X (tarn_testing_device_steal_fault, QUIET, (w->device))                                          \
  X (tarn_testing_order_allocator_new, QUIET, (w->order))                                          \
  X (tarn_testing_order_free, QUIET, (w->order))                                                   \
  X (tarn_testing_order_get_pages, QUIET, (w->order))                                              \
  X (tarn_testing_order_get_queues, QUIET, (w->order))                                             \
  X (tarn_testing_order_new, QUIET, (100, TARN_TESTING_PAGES_PARTS, 0))                            \
  X (tarn_testing_order_own, PARENT_ONLY, (w->order, w->memory, 1))                                \
  X (tarn_testing_order_put, PARENT_ONLY,                                                          \
     (w->order, w->queue, w->memory, 1, TARN_TESTING_COMMAND_USE, 0))                              \
  X (tarn_testing_order_touch, PARENT_ONLY, (w->order, w->memory, 1))                              \
  X (tarn_testing_pages_allocator_new, QUIET, (w->pages))                                          \
  X (tarn_testing_pages_fail, QUIET, (w->pages, 1, FALSE))                                         \
  X (tarn_testing_pages_free, QUIET, (w->pages))                                                   \
  X (tarn_testing_pages_get_allocations, QUIET, (w->pages))                                        \
  X (tarn_testing_pages_get_calls, QUIET, (w->pages))                                              \
  X (tarn_testing_pages_get_reserved, QUIET, (w->pages))                                           \
  X (tarn_testing_pages_get_used_bytes, QUIET, (w->pages))                                         \
  X (tarn_testing_pages_has_failed, QUIET, (w->pages))                                             \
  X (tarn_testing_pages_is_usable, QUIET, (w->pages, w->memory, 1))                                \
  X (tarn_testing_pages_locate, PARENT_ONLY, (w->pages, w->memory, 0))                             \
  X (tarn_testing_pages_locate_in_piece, PARENT_ONLY, (w->pages, w->memory, 0))                    \
  X (tarn_testing_pages_new, QUIET, (100, TARN_TESTING_PAGES_PARTS))                               \
  X (tarn_testing_pages_set_budget, QUIET, (w->pages, 100))                                        \
  X (tarn_testing_pages_set_hook, QUIET, (w->pages, NULL, NULL))                                   \
  X (tarn_testing_pages_refuse_aliases, QUIET, (w->pages))                                         \
  X (tarn_testing_pages_set_max_addresses, QUIET, (w->pages, 100))                                 \
  X (tarn_testing_queue_destroy, QUIET, (w->queues, w->queue))                                     \
  X (tarn_testing_queue_follow, QUIET, (w->queues, w->queue, w->other))                            \
  X (tarn_testing_queue_get_pending, QUIET, (w->queues, w->queue))                                 \
  X (tarn_testing_queue_new, QUIET, (w->queues, FALSE))                                            \
  X (tarn_testing_queue_put, PARENT_ONLY,                                                          \
     (w->queues, w->queue, w->memory, TARN_TESTING_COMMAND_USE, 0))                                \
  X (tarn_testing_queue_run, QUIET, (w->queues, w->queue))                                         \
  X (tarn_testing_queue_run_one, QUIET, (w->queues, w->queue))                                     \
  X (tarn_testing_queue_set_capturing, QUIET, (w->queues, w->queue, TRUE))                         \
  X (tarn_testing_queues_allocator_new, QUIET, (w->queues))                                        \
  X (tarn_testing_queues_fail, QUIET, (w->queues, TARN_TESTING_CALL_ANY, 1, FALSE))                \
  X (tarn_testing_queues_free, QUIET, (w->queues))                                                 \
  X (tarn_testing_queues_get_calls, QUIET, (w->queues, TARN_TESTING_CALL_ANY))                     \
  X (tarn_testing_queues_get_device, QUIET, (w->queues))                                           \
  X (tarn_testing_queues_get_events, QUIET, (w->queues))                                           \
  X (tarn_testing_queues_get_failed, QUIET, (w->queues))                                           \
  X (tarn_testing_queues_get_refs, QUIET, (w->queues))                                             \
  X (tarn_testing_queues_new, QUIET, (100, 0))                                                     \
  X (tarn_testing_queues_own, PARENT_ONLY, (w->queues, w->memory))                                 \
  X (tarn_testing_queues_run_all, QUIET, (w->queues))                                              \
  X (tarn_testing_queues_run_one, QUIET, (w->queues))                                              \
  X (tarn_testing_queues_set_fresh, QUIET, (w->queues, w->queue))                                  \
  X (tarn_testing_queues_set_hook, QUIET, (w->queues, TARN_TESTING_CALL_ANY, NULL, NULL))          \
  X (tarn_testing_queues_steal_fault, QUIET, (w->queues))                                          \
  X (tarn_testing_queues_touch, PARENT_ONLY, (w->queues, w->memory))

/* Results in a child end with it. */
#pragma GCC diagnostic ignored "-Wunused-result"
#define DEFINE(name, expected, arguments)                                                          \
  static void call_##name (gpointer world, GError **error)                                         \
  {                                                                                                \
    World *w = world;                                                                              \
                                                                                                   \
    (void) w;                                                                                      \
    (void) error;                                                                                  \
    (void) name arguments;                                                                         \
  }
FUNCTIONS (DEFINE)

#define ROW(name, expected, arguments) { #name, call_##name, expected },
static const ForkFunction functions[] = { FUNCTIONS (ROW) };

static gboolean is_ending; /* atomic */

/* Takes each lock that all objects share: the fake driver's, and Tarn's. */
static gpointer
be_busy (gpointer unused)
{
  const TarnTestingCuda *fake = tarn_testing_cuda_get ();
  g_autoptr (TarnTestingDevice) device = tarn_testing_device_new (G_MAXUINT64);

  (void) unused;
  while (!g_atomic_int_get (&is_ending))
    {
      g_autoptr (TarnAllocator) allocator = tarn_testing_device_allocator_new (device);

      tarn_block_free (tarn_allocator_allocate (allocator, 100, NULL));
      for (guint i = 0; i < N_ASKED; i++)
        g_free (fake->describe_live ());
      fork_functions_use_glib ();
    }
  return NULL;
}

static void
test_functions (void)
{
  World w = { .queues = NULL };
  GThread *busy = fork_functions_start_busy (be_busy, NULL);
  guint n_wrong = fork_functions_try (functions, G_N_ELEMENTS (functions), &w, &hooks);

  g_atomic_int_set (&is_ending, TRUE);
  g_thread_join (busy);
  g_assert_cmpuint (n_wrong, ==, 0);
}

static void
test_map (void)
{
  fork_functions_check_map ("testing", "libtarn-testing.map", functions, G_N_ELEMENTS (functions));
}

int
main (int argc, char **argv)
{
  fork_functions_init (&argc, &argv);
  g_test_add_func ("/testing/fork/map", test_map);
  g_test_add_func ("/testing/fork/functions", test_functions);
  return g_test_run ();
}
