/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The queues that are lists: each hazard is found, and says which queue did what to which memory;
 * and where there is none, none is found. */

#include <tarn/testing.h>

#define SIZE 1000

typedef struct
{
  TarnTestingQueues *queues;
  TarnAllocator *allocator;
  gpointer a, b;     /* in-order queues: 0 and 1 */
  gpointer loose;    /* an out-of-order one: 2 */
  TarnMemory memory; /* 0x1001 */
} Fixture;

static void
set_up (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  fixture->queues = tarn_testing_queues_new (G_MAXUINT64, 0);
  fixture->allocator = tarn_testing_queues_allocator_new (fixture->queues);
  fixture->a = tarn_testing_queue_new (fixture->queues, TRUE);
  fixture->b = tarn_testing_queue_new (fixture->queues, TRUE);
  fixture->loose = tarn_testing_queue_new (fixture->queues, FALSE);
  g_assert_true (tarn_allocator_allocate_memory (fixture->allocator, SIZE, &fixture->memory, NULL));
}

/* After a test that found what it planted. */
static void
tear_down (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  tarn_allocator_free_memory (fixture->allocator, fixture->memory, SIZE);
  g_free (tarn_testing_queues_steal_fault (fixture->queues));
  tarn_testing_queues_run_all (fixture->queues);
  tarn_allocator_unref (fixture->allocator);
  g_free (tarn_testing_queues_steal_fault (fixture->queues));
  tarn_testing_queues_free (fixture->queues);
}

static void
put (Fixture *fixture, gpointer queue, TarnTestingCommand command)
{
  tarn_testing_queue_put (fixture->queues, queue, fixture->memory, command, 0);
}

static void
assert_fault (Fixture *fixture, const gchar *expected)
{
  g_autofree gchar *fault = tarn_testing_queues_steal_fault (fixture->queues);

  g_assert_cmpstr (fault, ==, expected);
}

static void
test_write_after_write (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  put (fixture, fixture->a, TARN_TESTING_COMMAND_WRITE);
  put (fixture, fixture->a, TARN_TESTING_COMMAND_WRITE);
  assert_fault (fixture, NULL);
  put (fixture, fixture->b, TARN_TESTING_COMMAND_WRITE);
  assert_fault (fixture, "queue 1 writes memory 0x1001 of 1000 bytes, which queue 0 may still "
                         "write: nothing waits for that");
}

static void
test_read_after_write (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  put (fixture, fixture->b, TARN_TESTING_COMMAND_WRITE);
  put (fixture, fixture->a, TARN_TESTING_COMMAND_READ);
  assert_fault (fixture,
                "queue 0 reads memory 0x1001 of 1000 bytes, which queue 1 may still write: "
                "nothing waits for that");
  put (fixture, fixture->loose, TARN_TESTING_COMMAND_CHECK);
  assert_fault (fixture,
                "queue 2 reads memory 0x1001 of 1000 bytes, which queue 1 may still write: "
                "nothing waits for that");
}

/* What both read is nobody's hazard. */
static void
test_write_after_read (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  put (fixture, fixture->a, TARN_TESTING_COMMAND_READ);
  put (fixture, fixture->b, TARN_TESTING_COMMAND_READ);
  assert_fault (fixture, NULL);
  put (fixture, fixture->a, TARN_TESTING_COMMAND_WRITE);
  assert_fault (fixture,
                "queue 0 writes memory 0x1001 of 1000 bytes, which queue 1 may still read: "
                "nothing waits for that");
}

/* An out-of-order queue has no order of its own. */
static void
test_loose (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  put (fixture, fixture->loose, TARN_TESTING_COMMAND_WRITE);
  put (fixture, fixture->loose, TARN_TESTING_COMMAND_READ);
  assert_fault (fixture,
                "queue 2 reads memory 0x1001 of 1000 bytes, which queue 2 may still write: "
                "nothing waits for that");
}

/* It is no excuse that the commands have run: nobody was told. */
static void
test_run_but_not_waited_for (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  put (fixture, fixture->a, TARN_TESTING_COMMAND_WRITE);
  tarn_testing_queues_run_all (fixture->queues);
  put (fixture, fixture->b, TARN_TESTING_COMMAND_WRITE);
  assert_fault (fixture, "queue 1 writes memory 0x1001 of 1000 bytes, which queue 0 may still "
                         "write: nothing waits for that");
}

static void
test_waits (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  put (fixture, fixture->a, TARN_TESTING_COMMAND_WRITE);
  tarn_testing_queue_follow (fixture->queues, fixture->loose, fixture->a);
  tarn_testing_queue_follow (fixture->queues, fixture->b, fixture->loose); /* and so a */
  put (fixture, fixture->b, TARN_TESTING_COMMAND_WRITE);
  assert_fault (fixture, NULL);
}

/* A wait is for what was there when it began. */
static void
test_wait_too_early (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  tarn_testing_queue_follow (fixture->queues, fixture->b, fixture->a);
  put (fixture, fixture->a, TARN_TESTING_COMMAND_WRITE);
  put (fixture, fixture->b, TARN_TESTING_COMMAND_READ);
  assert_fault (fixture,
                "queue 1 reads memory 0x1001 of 1000 bytes, which queue 0 may still write: "
                "nothing waits for that");
}

static void
test_owner (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  put (fixture, fixture->a, TARN_TESTING_COMMAND_READ);
  tarn_testing_queues_own (fixture->queues, fixture->memory);
  put (fixture, fixture->b, TARN_TESTING_COMMAND_READ);
  assert_fault (fixture, "queue 1 reads memory 0x1001 of 1000 bytes, which queue 0 may still use: "
                         "nothing waits for that");
}

static void
test_host (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  tarn_testing_queues_touch (fixture->queues, fixture->memory);
  assert_fault (fixture, NULL);
  put (fixture, fixture->a, TARN_TESTING_COMMAND_READ);
  tarn_testing_queues_touch (fixture->queues, fixture->memory);
  assert_fault (fixture, "the host uses memory 0x1001 of 1000 bytes, which queue 0 may still use: "
                         "nothing waits for that");
}

/* A device that is given memory back which a command uses. */
static void
test_free (Fixture *fixture, gconstpointer unused)
{
  TarnMemory memory;

  (void) unused;
  g_assert_true (tarn_allocator_allocate_memory (fixture->allocator, 8, &memory, NULL));
  tarn_testing_queue_put (fixture->queues, fixture->b, memory, TARN_TESTING_COMMAND_USE, 0);
  tarn_allocator_free_memory (fixture->allocator, memory, 8);
  assert_fault (fixture, "the host frees memory 0x1002 of 8 bytes, which queue 1 may still use: "
                         "nothing waits for that");
  tarn_testing_queue_put (fixture->queues, fixture->b, memory, TARN_TESTING_COMMAND_USE, 0);
  assert_fault (fixture, "queue 1 uses memory 0x1002 of 8 bytes, which was freed");
}

/* What is there when a command runs, not when it is put on its queue. */
static void
test_contents (Fixture *fixture, gconstpointer unused)
{
  (void) unused;
  tarn_testing_queue_put (fixture->queues, fixture->a, fixture->memory, TARN_TESTING_COMMAND_WRITE,
                          5);
  tarn_testing_queue_put (fixture->queues, fixture->a, fixture->memory, TARN_TESTING_COMMAND_CHECK,
                          5);
  tarn_testing_queue_put (fixture->queues, fixture->a, fixture->memory, TARN_TESTING_COMMAND_CHECK,
                          6);
  g_assert_true (tarn_testing_queue_run_one (fixture->queues, fixture->a));
  g_assert_true (tarn_testing_queue_run_one (fixture->queues, fixture->a));
  assert_fault (fixture, NULL);
  g_assert_cmpuint (tarn_testing_queue_run (fixture->queues, fixture->a), ==, 1);
  assert_fault (fixture, "queue 0 finds 5 in memory 0x1001 of 1000 bytes, and not 6");
}

static void
test_gone (Fixture *fixture, gconstpointer unused)
{
  g_autofree gchar *fault = NULL;

  (void) unused;
  tarn_testing_queue_destroy (fixture->queues, fixture->a);
  put (fixture, fixture->a, TARN_TESTING_COMMAND_WRITE);
  fault = tarn_testing_queues_steal_fault (fixture->queues);
  g_assert_true (g_str_has_prefix (fault, "command: queue ")
                 && g_str_has_suffix (fault, " is gone"));
}

/* A pool that hands a block on from queue to queue makes the second one wait, whoever owns it; what
 * goes by it does not. */
static void
test_pool (Fixture *fixture, gconstpointer bypasses)
{
  TarnPool *pool = tarn_pool_new (fixture->allocator, NULL, NULL);
  TarnBlock *block = tarn_pool_allocate_ordered (pool, SIZE, fixture->a, NULL);
  TarnMemory memory = tarn_block_get_memory (block);
  g_autofree gchar *fault = NULL;

  tarn_testing_queue_put (fixture->queues, fixture->a, memory, TARN_TESTING_COMMAND_WRITE, 1);
  if (!GPOINTER_TO_INT (bypasses))
    g_assert_true (tarn_block_move_to_queue (block, fixture->b, NULL));
  tarn_testing_queue_put (fixture->queues, fixture->b, memory, TARN_TESTING_COMMAND_CHECK, 1);
  fault = tarn_testing_queues_steal_fault (fixture->queues);
  g_assert_cmpint (fault != NULL, ==, GPOINTER_TO_INT (bypasses));
  tarn_block_free (block);
  tarn_testing_queues_run_all (fixture->queues);
  tarn_pool_unref (pool);
}

static void
test_ending (void)
{
  Fixture fixture;

  if (g_test_subprocess ())
    {
      set_up (&fixture, NULL);
      test_run_but_not_waited_for (&fixture, NULL);
      put (&fixture, fixture.a, TARN_TESTING_COMMAND_WRITE);
      tarn_testing_assert_no_hazards (fixture.queues);
      return;
    }
  g_test_trap_subprocess (NULL, 0, 0);
  g_test_trap_assert_failed ();
  g_test_trap_assert_stderr (
      "*tarn_testing_assert_no_hazards: queue 0 writes memory 0x1001 of 1000 "
      "bytes, which queue 1 may still write: nothing waits for that*");
}

static void
note_hook (gpointer n)
{
  ++*(guint *) n;
}

/* Every kind of call runs its hook, once. */
static void
test_hooks (Fixture *fixture, gconstpointer unused)
{
  static const TarnTestingCall calls[]
      = { TARN_TESTING_CALL_QUEUE_REF,     TARN_TESTING_CALL_ANY,
          TARN_TESTING_CALL_EVENT_RECORD,  TARN_TESTING_CALL_EVENT_IS_DONE,
          TARN_TESTING_CALL_EVENT_WAIT,    TARN_TESTING_CALL_HOST_WAIT,
          TARN_TESTING_CALL_EVENT_RELEASE, TARN_TESTING_CALL_QUEUE_UNREF };
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

  (void) unused;
  tarn_allocator_get_ops (fixture->allocator, &ops);
  for (guint i = 0; i < G_N_ELEMENTS (calls); i++)
    {
      gpointer data = tarn_allocator_get_user_data (fixture->allocator), event;
      gboolean in_order;
      guint n = 0;

      tarn_testing_queues_set_hook (fixture->queues, calls[i], note_hook, &n);
      for (guint time = 0; time < 2; time++)
        {
          g_assert_true (ops.queue_ref (data, fixture->a, &in_order, NULL));
          event = ops.event_record (data, fixture->a, NULL);
          g_assert_true (ops.event_wait (data, event, fixture->b, NULL));
          g_assert_true (ops.event_wait (data, event, NULL, NULL));
          g_assert_true (ops.event_is_done (data, event));
          ops.event_release (data, event);
          ops.queue_unref (data, fixture->a);
        }
      g_assert_cmpuint (n, ==, 1);
    }
}

#define ADD(path, data, test) g_test_add (path, Fixture, data, set_up, test, tear_down)

int
main (int argc, char **argv)
{
  tarn_testing_queues_free (tarn_testing_queues_new (0, 0)); /* which needs no g_test_init () */
  g_test_init (&argc, &argv, NULL);
  ADD ("/testing/queues/write-after-write", NULL, test_write_after_write);
  ADD ("/testing/queues/read-after-write", NULL, test_read_after_write);
  ADD ("/testing/queues/write-after-read", NULL, test_write_after_read);
  ADD ("/testing/queues/out-of-order", NULL, test_loose);
  ADD ("/testing/queues/run-but-not-waited-for", NULL, test_run_but_not_waited_for);
  ADD ("/testing/queues/waits", NULL, test_waits);
  ADD ("/testing/queues/wait-too-early", NULL, test_wait_too_early);
  ADD ("/testing/queues/owner", NULL, test_owner);
  ADD ("/testing/queues/host", NULL, test_host);
  ADD ("/testing/queues/free", NULL, test_free);
  ADD ("/testing/queues/contents", NULL, test_contents);
  ADD ("/testing/queues/gone", NULL, test_gone);
  ADD ("/testing/queues/pool", GINT_TO_POINTER (FALSE), test_pool);
  ADD ("/testing/queues/pool-bypassed", GINT_TO_POINTER (TRUE), test_pool);
  ADD ("/testing/queues/hooks", NULL, test_hooks);
  g_test_add_func ("/testing/queues/ends", test_ending);
  return g_test_run ();
}
