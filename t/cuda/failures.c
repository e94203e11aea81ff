/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Every call of the fake driver failing in turn, once and for ever, where a primary context is in
 * the game: what it counts must come out even, but for what a failing release keeps, which is told.
 * And a driver that is gone when the process ends. */

#include <stdlib.h>
#include <string.h>
#include <tarn/cuda.h>
#include <unistd.h>

#include "driver.h"

static const TarnTestingCuda *fake;

#define DEVICE 1

/* What a test starts from: the default context, in most of them, and then another one over it. */
typedef struct
{
  CUcontext primary, other; /* NULL: there is none */
  TarnTestingCudaKind kind;
} State;

/* Scenarios.  Each gives back all that it takes, and FALSE with an error if it cannot go on. */

static gboolean
use_allocator (const State *state, CUcontext context, GError **error)
{
  g_autoptr (TarnAllocator) allocator = cuda_allocator_new (state->kind, context, error);
  g_autoptr (TarnPool) pool = NULL;
  g_autoptr (TarnBlock) block = NULL;
  g_autoptr (TarnBlock) direct = NULL;

  if (allocator == NULL)
    return FALSE;
  pool = tarn_pool_new (allocator, NULL, NULL);
  if ((block = tarn_pool_allocate (pool, 1000, error)) == NULL)
    return FALSE;
  tarn_block_free (g_steal_pointer (&block));
  tarn_pool_free_held (pool);
  if ((block = tarn_pool_allocate (pool, 2000, error)) == NULL)
    return FALSE;
  direct = tarn_allocator_allocate (allocator, 3000, error);
  return direct != NULL;
}

static gboolean
use_current (const State *state, GError **error)
{
  return use_allocator (state, NULL, error);
}

static gboolean
use_primary (const State *state, GError **error)
{
  return use_allocator (state, state->primary, error);
}

static gboolean
open_and_use (const State *state, GError **error)
{
  CUcontext context = tarn_cuda_make_default_context (NULL, error);
  gboolean is_used;

  if (context == NULL)
    return FALSE;
  is_used = use_allocator (state, NULL, error);
  tarn_cuda_context_release (context);
  return is_used;
}

static gboolean
open_and_release (const State *state, GError **error)
{
  CUcontext context = tarn_cuda_make_default_context (NULL, error);

  (void) state;
  tarn_cuda_context_release (context);
  return context != NULL;
}

typedef struct
{
  const gchar *path;
  gboolean has_primary, has_other;
  gboolean (*run) (const State *state, GError **error);
} Scenario;

static const Scenario scenarios[] = {
  { "primary-current", TRUE, FALSE, use_current },    { "primary-given", TRUE, TRUE, use_primary },
  { "other-current", TRUE, TRUE, use_current },       { "open", FALSE, FALSE, open_and_use },
  { "open-over-another", FALSE, TRUE, open_and_use }, { "release", FALSE, FALSE, open_and_release },
};

/* The fake driver's books */

typedef struct
{
  guint memory, references, depth;
} Books;

static Books
read_books (void)
{
  Books books = { .references = fake->get_primary_references (DEVICE),
                  .depth = fake->get_context_stack_depth () };

  for (TarnTestingCudaKind i = TARN_TESTING_CUDA_DEVICE_MEMORY;
       i <= TARN_TESTING_CUDA_MANAGED_MEMORY; i++)
    books.memory += fake->get_live (i);
  return books;
}

/* How many things are there that were not. */
static guint
count_lost (Books before, Books after)
{
  g_assert_cmpuint (after.memory, >=, before.memory);
  g_assert_cmpuint (after.references, >=, before.references);
  g_assert_cmpuint (after.depth, >=, before.depth);
  return after.memory - before.memory + after.references - before.references + after.depth
         - before.depth;
}

static void
state_init (State *state, const Scenario *scenario, TarnTestingCudaKind kind)
{
  g_autoptr (GError) error = NULL;

  *state = (State){ .kind = kind };
  if (scenario->has_primary)
    state->primary = tarn_cuda_make_default_context (NULL, &error);
  g_assert_no_error (error);
  if (scenario->has_other)
    g_assert_cmpuint (_tarn_cuda_get_driver (NULL)->cuCtxCreate (&state->other, 0, DEVICE), ==, 0);
}

/* With what was lost, which is more than Tarn knows of. */
static void
state_clear (State *state)
{
  const TarnCudaDriver *driver = _tarn_cuda_get_driver (NULL);
  CUcontext popped;

  while (fake->get_context_stack_depth () > 0)
    g_assert_cmpuint (driver->cuCtxPopCurrent (&popped), ==, 0);
  if (state->other != NULL)
    g_assert_cmpuint (driver->cuCtxDestroy (state->other), ==, 0);
  tarn_cuda_context_release (state->primary);
  while (fake->get_primary_references (DEVICE) > 0)
    g_assert_cmpuint (driver->cuDevicePrimaryCtxRelease (DEVICE), ==, 0);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_CONTEXT), ==, 0);
  g_assert_cmpuint (read_books ().memory, ==, 0);
}

/* Failures */

/* How calls fail. */
typedef struct
{
  gboolean for_ever;
  guint status;
  const gchar *number; /* as messages have it */
} Failing;

typedef struct
{
  const Failing *failing;
  guint n;
} Messages;

static void
count_message (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer data)
{
  Messages *messages = data;

  (void) domain;
  (void) level;
  g_assert_nonnull (strstr (message, messages->failing->number));
  messages->n++;
}

/* What nobody has to be told of: a context that is not known to be current is made so; memory is
 * asked for again, also where the context could not be entered. */
static gboolean
may_be_silent (const gchar *failed)
{
  static const gchar *const silent[] = { "cuCtxGetCurrent",
                                         "cuCtxGetId",
                                         "cuCtxPushCurrent",
                                         "cuMemAlloc",
                                         "cuMemAllocManaged",
                                         "cuMemHostAlloc",
                                         "cuThreadExchangeStreamCaptureMode",
                                         NULL };

  return g_strv_contains (silent, failed);
}

/* Each message is about one thing that is lost, unless it went with its context after all. */
static void
assert_told (const Scenario *scenario, guint n_lost, guint n_messages)
{
  if (scenario->has_primary)
    g_assert_cmpuint (n_lost, ==, n_messages);
  else
    g_assert_cmpuint (n_lost, <=, n_messages);
}

/* FALSE: there are not so many calls. */
static gboolean
fail_nth (const Scenario *scenario, TarnTestingCudaKind kind, guint nth, const Failing *failing)
{
  Messages messages = { .failing = failing };
  guint handler = g_log_set_handler ("Tarn-CUDA", G_LOG_LEVEL_MESSAGE, count_message, &messages);
  g_autoptr (GError) error = NULL;
  State state;
  Books before, after;
  const gchar *failed;
  gboolean ok;

  state_init (&state, scenario, kind);
  before = read_books ();
  fake->fail (NULL, nth, failing->for_ever, failing->status);
  ok = scenario->run (&state, &error);
  failed = fake->get_failed ();
  fake->fail (NULL, 0, FALSE, 0);
  g_log_remove_handler ("Tarn-CUDA", handler);
  after = read_books ();

  g_test_message (
      "%u%s %s: %s: %s; lost: %u of memory, %u references, %u on the stack; %u messages", nth,
      failing->for_ever ? " and all others" : "", failing->number, failed != NULL ? failed : "none",
      ok ? "no error" : error->message, after.memory - before.memory,
      after.references - before.references, after.depth - before.depth, messages.n);
  g_assert_true (ok == (error == NULL));
  if (!ok)
    cuda_assert_blamed (error, failed, failing->status, failing->for_ever);
  else if (failed != NULL && messages.n == 0)
    g_assert_true (may_be_silent (failed));
  assert_told (scenario, count_lost (before, after), messages.n);

  g_assert_true (scenario->run (&state, NULL)); /* all is well again */
  g_assert_cmpuint (count_lost (after, read_books ()), ==, 0);
  g_assert_cmpuint (fake->get_strangers_freed (NULL, 0), ==, 0);
  state_clear (&state);
  return failed != NULL;
}

static void
test_scenario (gconstpointer data)
{
  static const Failing failings[] = {
    { FALSE, FAKE_CUDA_INVALID_HANDLE, "(400)" },
    { TRUE, FAKE_CUDA_INVALID_HANDLE, "(400)" },
    { FALSE, FAKE_CUDA_OUT_OF_MEMORY, "(2)" },
    { TRUE, FAKE_CUDA_OUT_OF_MEMORY, "(2)" },
  };
  const Scenario *scenario = data;

  for (TarnTestingCudaKind kind = TARN_TESTING_CUDA_DEVICE_MEMORY;
       kind <= TARN_TESTING_CUDA_MANAGED_MEMORY; kind++)
    for (gsize i = 0; i < G_N_ELEMENTS (failings); i++)
      {
        guint nth = 1;

        while (fail_nth (scenario, kind, nth, &failings[i]))
          nth++;
        g_assert_cmpuint (nth, >, 5);
      }
}

/* At exit */

/* What a program may have at its end. */
static struct
{
  TarnAllocator *allocators[3];
  TarnPool *pools[3];
  TarnBlock *blocks[3], *direct[3];
  CUcontext context;
} left;

static void
leave_everything (void)
{
  left.context = tarn_cuda_make_default_context (NULL, NULL);
  for (TarnTestingCudaKind i = TARN_TESTING_CUDA_DEVICE_MEMORY;
       i <= TARN_TESTING_CUDA_MANAGED_MEMORY; i++)
    {
      left.allocators[i] = cuda_allocator_new (i, NULL, NULL);
      left.pools[i] = tarn_pool_new (left.allocators[i], NULL, NULL);
      left.blocks[i] = tarn_pool_allocate (left.pools[i], 1000, NULL);
      left.direct[i] = tarn_allocator_allocate (left.allocators[i], 1000, NULL);
      tarn_block_free (tarn_pool_allocate (left.pools[i], 5000, NULL)); /* held */
      g_assert_true (left.blocks[i] != NULL && left.direct[i] != NULL);
    }
}

/* The message about memory that could not be freed names the call once. */
static void
test_lost_memory (void)
{
  CUcontext context = tarn_cuda_make_default_context (NULL, NULL);
  g_autoptr (TarnAllocator) allocator
      = cuda_allocator_new (TARN_TESTING_CUDA_HOST_MEMORY, context, NULL);
  TarnBlock *block = tarn_allocator_allocate (allocator, 1000, NULL);

  g_assert_nonnull (block);
  fake->fail ("cuMemFreeHost", 1, FALSE, FAKE_CUDA_OUT_OF_MEMORY);
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_MESSAGE,
                         "cuMemFreeHost: CUDA_ERROR_OUT_OF_MEMORY (2): 1000 bytes may be lost");
  tarn_block_free (block);
  g_test_assert_expected_messages ();
  fake->fail (NULL, 0, FALSE, 0);
  tarn_cuda_context_release (context);
}

/* The driver's own handlers were the first, as they are if a library opens it. */
static void
clear_what_is_left (void)
{
  fake->fail (NULL, 1, TRUE, FAKE_CUDA_DEINITIALIZED);
  for (guint i = 0; i < G_N_ELEMENTS (left.pools); i++)
    {
      if (tarn_pool_allocate (left.pools[i], 1 << 20, NULL) != NULL)
        _exit (3);
      tarn_block_free (left.blocks[i]);
      tarn_pool_free_held (left.pools[i]);
      tarn_pool_unref (left.pools[i]);
      tarn_block_free (left.direct[i]);
      tarn_allocator_unref (left.allocators[i]);
    }
  tarn_cuda_context_release (left.context);
  if (fake->get_failed () == NULL)
    _exit (4); /* it was not asked: this has tested nothing */
  left.context = NULL;
}

static void __attribute__ ((destructor)) finish (void)
{
  if (left.context != NULL)
    clear_what_is_left ();
}

static void
test_at_exit (gconstpointer is_handler)
{
  if (!g_test_subprocess ())
    {
      g_test_trap_subprocess (NULL, 0, 0);
      g_test_trap_assert_passed ();
      g_test_trap_assert_stdout_unmatched ("*Tarn-CUDA*");
      g_test_trap_assert_stderr ("");
      return;
    }
  leave_everything ();
  if (GPOINTER_TO_INT (is_handler))
    g_assert_cmpint (atexit (clear_what_is_left), ==, 0);
}

int
main (int argc, char **argv)
{
  g_setenv ("CUDA_DEVICE", G_STRINGIFY (DEVICE), TRUE);
  fake = tarn_fake_cuda ();
  _tarn_cuda_get_driver (NULL); /* what fails there stays so: selection.c has that */
  g_test_init (&argc, &argv, NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (scenarios); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/cuda/failures/%s", scenarios[i].path);

      g_test_add_data_func (path, &scenarios[i], test_scenario);
    }
  g_test_add_func ("/cuda/failures/lost-memory", test_lost_memory);
  g_test_add_data_func ("/cuda/at-exit/handler", GINT_TO_POINTER (TRUE), test_at_exit);
  g_test_add_data_func ("/cuda/at-exit/destructor", GINT_TO_POINTER (FALSE), test_at_exit);
  return g_test_run ();
}
