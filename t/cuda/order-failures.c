/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Every call of the fake driver failing in turn, once and for ever, while several streams use a
 * pool.  Nobody gets memory that is still in use, what is lost is told, and all is well afterwards.
 */

#include <stdlib.h>
#include <string.h>

#include "lib/step.h"
#include "order-fixture.h"

/* What a pool does from its beginning to its end. */
typedef struct
{
  const Fixture *fixture;
  TarnAllocator *allocator;
  TarnPool *pool;
  guint64 busy; /* the address of memory that the first stream still uses; 0: none */
} State;

/* Where the host waits, because nothing else is left, the device comes to an end. */
static void
finish_if_awaited (const gchar *function, gpointer data)
{
  State *state = data;

  if (!cuda_is_wait (function))
    return;
  fake->finish_all_work ();
  state->busy = 0;
}

/* Memory that is in use is another stream's only if that waits. */
static TarnBlock *
allocate (State *state, gsize size, CUstream stream, GError **error)
{
  TarnBlock *block = tarn_cuda_pool_allocate (state->pool, size, stream, error);

  assert_valid (state->pool);
  if (block != NULL && state->busy != 0 && get_address (block) == state->busy
      && stream != state->fixture->a)
    g_assert_false (fake->is_idle (stream));
  return block;
}

static gboolean
use_briefly (State *state, gsize size, CUstream stream, GError **error)
{
  TarnBlock *block = allocate (state, size, stream, error);

  tarn_block_free (block);
  return block != NULL;
}

/* Steps; each is FALSE with an error if it cannot go on. */

static gboolean
begin (State *state, GError **error)
{
  state->allocator
      = cuda_allocator_new (state->fixture->kind, state->fixture->test->context, error);
  if (state->allocator == NULL)
    return FALSE;
  state->pool = tarn_pool_new (state->allocator, NULL, error);
  return TRUE;
}

static gboolean
meet_streams (State *state, GError **error)
{
  const Fixture *fixture = state->fixture;

  return use_briefly (state, SIZE, fixture->a, error)
         && use_briefly (state, OTHER_SIZE, fixture->a, error)
         && use_briefly (state, OTHER_SIZE, fixture->b, error);
}

/* A block of an exact size is not held, and its free would wait. */
static gboolean
leave_in_use (State *state, GError **error)
{
  const Fixture *fixture = state->fixture;
  TarnBlock *block = allocate (state, SIZE, fixture->a, error);
  gboolean is_recorded;

  if (block == NULL)
    return FALSE;
  is_recorded = tarn_cuda_block_record_use (block, fixture->c, error);
  if (!block->exact)
    {
      fake->put_work (fixture->a);
      state->busy = get_address (block);
    }
  tarn_block_free (block);
  assert_valid (state->pool);
  return is_recorded;
}

static gboolean
use_again (State *state, GError **error)
{
  const Fixture *fixture = state->fixture;

  return use_briefly (state, SIZE, fixture->b, error)
         && use_briefly (state, SIZE, fixture->c, error);
}

static gboolean
forget (State *state, GError **error)
{
  gboolean is_forgotten;

  fake->finish_all_work ();
  state->busy = 0;
  is_forgotten = tarn_cuda_pool_forget_stream (state->pool, state->fixture->c, error);
  assert_valid (state->pool);
  return is_forgotten;
}

static gboolean
move (State *state, GError **error)
{
  TarnBlock *block = allocate (state, 2 * SIZE, state->fixture->a, error);
  gboolean is_moved;

  if (block == NULL)
    return FALSE;
  is_moved = tarn_cuda_block_move_to_stream (block, state->fixture->b, error);
  tarn_block_free (block);
  assert_valid (state->pool);
  return is_moved;
}

static gboolean
use_on_host (State *state, GError **error)
{
  TarnBlock *block = tarn_pool_allocate (state->pool, SIZE, error);

  tarn_block_free (block);
  assert_valid (state->pool);
  return block != NULL;
}

/* Memory for which all that is held has to go, and the host waits for what uses it; there is as
 * much more as may be lost then.  A block that was to be held and has an exact size is not. */
static gboolean
run_short (State *state, GError **error)
{
  const gsize size = 4 * SIZE - 1; /* which is not rounded up */
  const CUdevice device = state->fixture->test->device;
  guint64 others = fake->get_live_bytes (TARN_TESTING_CUDA_DEVICE_MEMORY)
                   + fake->get_live_bytes (TARN_TESTING_CUDA_MANAGED_MEMORY);
  gboolean is_fine;

  if (state->fixture->kind != TARN_TESTING_CUDA_HOST_MEMORY)
    {
      others -= tarn_pool_get_managed_bytes (state->pool);
      fake->set_budget (device, others + size + 5 * SIZE / 2);
    }
  is_fine = use_briefly (state, size, state->fixture->b, error);
  fake->set_budget (device, G_MAXUINT64);
  return is_fine;
}

static gboolean
give_back (State *state, GError **error)
{
  tarn_pool_free_held (state->pool);
  assert_valid (state->pool);
  return use_briefly (state, SIZE, state->fixture->c, error)
         && use_briefly (state, SIZE, PER_THREAD, error);
}

static void
end (State *state)
{
  tarn_pool_unref (state->pool);
  if (state->allocator != NULL)
    tarn_allocator_unref (state->allocator);
}

/* Without the pool. */
static gboolean
use_direct (State *state, GError **error)
{
  const Fixture *fixture = state->fixture;
  g_autoptr (TarnBlock) block = tarn_allocator_allocate (state->allocator, SIZE, error);

  return block != NULL && tarn_cuda_block_record_use (block, fixture->a, error)
         && tarn_cuda_block_move_to_stream (block, fixture->b, error)
         && tarn_cuda_block_record_use (block, fixture->c, error);
}

/* From the first step on, or with a pool that there is. */
static gboolean
run_steps (State *state, GError **error)
{
  gboolean (*const steps[]) (State *, GError **)
      = { meet_streams, leave_in_use, use_again, forget,    move,
          use_on_host,  run_short,    give_back, use_direct };
  gboolean is_fine = state->pool != NULL || begin (state, error);

  for (gsize i = 0; i < G_N_ELEMENTS (steps) && is_fine; i++)
    is_fine = steps[i](state, error);
  fake->finish_all_work ();
  state->busy = 0;
  return is_fine;
}

static void
assert_all_is_well (const Fixture *fixture)
{
  State state = { .fixture = fixture };
  g_autoptr (GError) error = NULL;

  run_steps (&state, &error);
  g_assert_no_error (error);
  end (&state);
}

/* The fake driver's books */

typedef struct
{
  guint memory, events, depth;
} Books;

static Books
read_books (void)
{
  Books books = { .events = fake->get_live (TARN_TESTING_CUDA_EVENT),
                  .depth = fake->get_context_stack_depth () };

  for (TarnTestingCudaKind i = TARN_TESTING_CUDA_DEVICE_MEMORY;
       i <= TARN_TESTING_CUDA_MANAGED_MEMORY; i++)
    books.memory += fake->get_live (i);
  return books;
}

static guint
count_lost (Books before, Books after)
{
  g_assert_cmpuint (after.memory, >=, before.memory);
  g_assert_cmpuint (after.events, >=, before.events);
  g_assert_cmpuint (after.depth, >=, before.depth);
  return after.memory - before.memory + after.events - before.events + after.depth - before.depth;
}

/* How calls fail. */
typedef struct
{
  gboolean for_ever;
  guint status;
  const gchar *number; /* as messages have it */
  gboolean is_kept;    /* the pool goes on afterwards */
} Failing;

/* What nobody has to be told of: a context that is not known to be current is made so; an event is
 * taken for one that is not reached, also where the context cannot be entered to ask; memory is
 * asked for again, and so is an event for what goes back; a wait of the host's that fails is as
 * good if the event is done; a status has a number beside its name. */
static gboolean
may_be_silent (const gchar *failed)
{
  static const gchar *const silent[] = { "cuCtxGetCurrent",
                                         "cuCtxGetId",
                                         "cuCtxPushCurrent",
                                         "cuEventCreate",
                                         "cuEventQuery",
                                         "cuEventSynchronize",
                                         "cuMemAlloc",
                                         "cuMemAllocManaged",
                                         "cuMemHostAlloc",
                                         "cuMemFree",
                                         "cuMemFreeHost",
                                         "cuGetErrorName",
                                         "cuThreadExchangeStreamCaptureMode",
                                         NULL };

  return g_strv_contains (silent, failed);
}

/* As a program goes on: with the context that it had. */
static void
restore_stack (guint depth)
{
  CUcontext popped;

  while (fake->get_context_stack_depth () > depth)
    SUCCEED (tarn->cuCtxPopCurrent (&popped));
}

typedef struct
{
  const Failing *failing;
  guint n;
} Messages;

/* Counts the blocks that could not be freed according to a message; one message may name several.
 */
static guint
count_stuck (const gchar *message)
{
  const gchar *number = strstr (message, " bytes in ");

  return number != NULL && strstr (message, "does not return") != NULL
             ? (guint) atoi (number + strlen (" bytes in "))
             : 1;
}

/* Each message is about one thing, except for events and blocks. */
static void
count_message (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer data)
{
  Messages *messages = data;
  const gchar *number = messages->failing->number;
  const gchar *status = strstr (message, number);

  (void) domain;
  (void) level;
  g_assert_nonnull (status);
  messages->n += strstr (message, "events may be lost") != NULL
                     ? (guint) atoi (status + strlen (number) + strlen (": "))
                     : count_stuck (message);
}

/* With the same pool, if it has come to be. */
static void
go_on (State *state)
{
  g_autoptr (GError) error = NULL;

  if (state->pool != NULL)
    run_steps (state, &error);
  g_assert_no_error (error);
  end (state);
}

/* FALSE: there are not so many calls. */
static gboolean
fail_nth (Fixture *fixture, guint nth, const Failing *failing)
{
  static const gchar *const domains[] = { "Tarn", "Tarn-CUDA" };
  Messages messages = { .failing = failing };
  guint handlers[G_N_ELEMENTS (domains)], n_lost;
  State state = { .fixture = fixture };
  Books before = read_books (), after;
  g_autoptr (GError) error = NULL;
  const gchar *failed;
  gboolean is_fine;

  for (gsize i = 0; i < G_N_ELEMENTS (domains); i++)
    handlers[i] = g_log_set_handler (domains[i], G_LOG_LEVEL_MESSAGE, count_message, &messages);
  fake->set_hook (finish_if_awaited, &state);
  fake->fail (NULL, nth, failing->for_ever, failing->status);
  is_fine = run_steps (&state, &error);
  if (!failing->is_kept)
    end (&state);
  failed = fake->get_failed ();
  fake->fail (NULL, 0, FALSE, 0);
  fake->set_hook (NULL, NULL);
  n_lost = fake->get_context_stack_depth () - before.depth;
  restore_stack (before.depth);
  if (failing->is_kept)
    go_on (&state);
  for (gsize i = 0; i < G_N_ELEMENTS (domains); i++)
    g_log_remove_handler (domains[i], handlers[i]);
  after = read_books ();
  n_lost += count_lost (before, after);
  g_test_message ("%u%s %s: %s: %s; %u lost, %u messages", nth,
                  failing->for_ever ? " and all others" : "", failing->number,
                  failed != NULL ? failed : "none", is_fine ? "no error" : error->message, n_lost,
                  messages.n);
  g_assert_true (is_fine == (error == NULL));
  if (!is_fine)
    cuda_assert_blamed (error, failed, failing->status, failing->for_ever);
  else if (failed != NULL && messages.n == 0)
    g_assert_true (may_be_silent (failed));
  g_assert_cmpuint (n_lost, <=, messages.n);
  assert_all_is_well (fixture);
  g_assert_cmpuint (count_lost (after, read_books ()), ==, 0);
  g_assert_cmpuint (fake->get_strangers_freed (NULL, 0), ==, 0);
  return failed != NULL;
}

/* What is lost goes with the context. */
static void
run_failures (const TarnCudaTest *test, TarnTestingCudaKind kind, gboolean is_elsewhere)
{
  TarnCudaTest inner = *test;
  Fixture fixture;
  CUcontext other = NULL;

  for (guint i = 0; i < 8; i++)
    {
      const gboolean is_full = (i & 4) != 0;
      const Failing failing
          = { .for_ever = (i & 1) != 0,
              .status = is_full ? FAKE_CUDA_OUT_OF_MEMORY : FAKE_CUDA_INVALID_HANDLE,
              .number = is_full ? "(2)" : "(400)",
              .is_kept = (i & 2) != 0 };
      const gint step = (gint) get_step ();
      guint nth = (guint) g_test_rand_int_range (1, step + 1);

      SUCCEED (_tarn_cuda_get_driver (NULL)->cuCtxCreate (&inner.context, 0, test->device));
      fixture_init (&fixture, &inner, kind);
      if (is_elsewhere)
        SUCCEED (tarn->cuCtxCreate (&other, 0, test->device));
      while (fail_nth (&fixture, nth, &failing))
        nth += (guint) step;
      g_assert_cmpuint (nth, >, 60);
      if (is_elsewhere)
        SUCCEED (tarn->cuCtxDestroy (other));
      tarn_pool_unref (fixture.pool);
      tarn_allocator_unref (fixture.allocator);
      gate_clear (&fixture.gate);
      SUCCEED (tarn->cuCtxDestroy (inner.context));
    }
}

static void
test_failures (const TarnCudaTest *test, gconstpointer kind)
{
  run_failures (test, (TarnTestingCudaKind) GPOINTER_TO_UINT (kind), FALSE);
}

static void
test_failures_elsewhere (const TarnCudaTest *test, gconstpointer kind)
{
  run_failures (test, (TarnTestingCudaKind) GPOINTER_TO_UINT (kind), TRUE);
}

int
main (int argc, char **argv)
{
  static const gchar *const names[] = { "device", "host", "managed" };

  order_init (cuda_get_fake ());
  g_test_init (&argc, &argv, NULL);
  for (TarnTestingCudaKind i = TARN_TESTING_CUDA_DEVICE_MEMORY;
       i <= TARN_TESTING_CUDA_MANAGED_MEMORY; i++)
    {
      g_autofree gchar *path = g_strdup_printf ("order/failures/%s", names[i]);
      g_autofree gchar *elsewhere = g_strdup_printf ("order/failures-elsewhere/%s", names[i]);

      tarn_cuda_test_add (path, test_failures, GUINT_TO_POINTER (i));
      tarn_cuda_test_add (elsewhere, test_failures_elsewhere, GUINT_TO_POINTER (i));
    }
  return g_test_run ();
}
