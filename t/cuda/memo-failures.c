/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memos of CUDA contexts where the driver fails: each call of the fake one in turn, once and for
 * ever; a driver that is gone when the process ends; children of fork (). */

#include <stdlib.h>
#include <string.h>
#include <tarn/cuda.h>
#include <unistd.h>

#include "cuda/driver-private.h"
#include "lib/in-child.h"
#include "testing/cuda/fake-cuda.h"

static const TarnTestingCuda *fake;

static const gchar ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                           ".visible .entry one () { ret; }\n.visible .entry two () { ret; }\n";

static CUcontext
context_new (void)
{
  CUcontext context;

  g_assert_cmpuint (_tarn_cuda_get_driver (NULL)->cuCtxCreate (&context, 0, 1), ==, 0);
  return context;
}

static void
context_destroy (CUcontext context)
{
  g_assert_cmpuint (_tarn_cuda_get_driver (NULL)->cuCtxDestroy (context), ==, 0);
}

/* NULL with an error. */
static gpointer
get_function (TarnMemo *functions, CUcontext context, const gchar *name, GError **error)
{
  g_autoptr (GBytes) image = g_bytes_new_static (ptx, sizeof ptx - 1);
  TarnCudaFunctionKey key = TARN_CUDA_FUNCTION_KEY_INIT;
  gpointer function = NULL;

  key.image = image;
  key.name = name;
  return tarn_memo_get (functions, context, &key, &function, error) ? function : NULL;
}

/* Failures.  The context is current, or another one is. */

static gboolean
use_and_clear (CUcontext context, GError **error)
{
  g_autoptr (TarnMemo) functions = tarn_cuda_function_memo_new (NULL);
  gboolean ok = get_function (functions, context, "one", error) != NULL
                && get_function (functions, context, "two", error) != NULL
                && get_function (functions, context, "one", error) != NULL;

  tarn_cuda_clear_context_caches ();
  return ok;
}

static gboolean
use_and_unref (CUcontext context, GError **error)
{
  g_autoptr (TarnMemo) modules = tarn_cuda_module_memo_new ();
  g_autoptr (TarnMemo) functions = tarn_cuda_function_memo_new (modules);

  return get_function (functions, context, "two", error) != NULL;
}

typedef struct
{
  const gchar *path;
  gboolean (*run) (CUcontext context, GError **error);
  gboolean is_given; /* else NULL, and it is current */
} Scenario;

static const Scenario scenarios[] = {
  { "current", use_and_clear, FALSE },
  { "given", use_and_clear, TRUE },
  { "unref", use_and_unref, TRUE },
};

static void
count_message (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer data)
{
  (void) domain;
  (void) level;
  g_assert_nonnull (strstr (message, "(400)"));
  ++*(guint *) data;
}

/* A context that cannot be identified is taken for one that is gone. */
static void
assert_blamed (const GError *error, const gchar *failed, gboolean for_ever)
{
  if (g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST))
    {
      g_assert_true (for_ever || g_str_equal (failed, "cuCtxGetId"));
      return;
    }
  g_assert_error (error, TARN_CUDA_ERROR, FAKE_CUDA_INVALID_HANDLE);
  if (!for_ever) /* no other call can be the reason */
    g_assert_nonnull (strstr (error->message, failed));
}

/* What a failing call leaves is told. */
static void
assert_told (guint n_lost, guint n_messages)
{
  g_assert_cmpuint (n_lost, <=, n_messages);
}

static void
restore (guint depth)
{
  CUcontext popped;

  while (fake->get_context_stack_depth () > depth)
    g_assert_cmpuint (_tarn_cuda_get_driver (NULL)->cuCtxPopCurrent (&popped), ==, 0);
}

/* FALSE: there are not so many calls. */
static gboolean
fail_nth (const Scenario *scenario, CUcontext context, guint nth, gboolean for_ever)
{
  guint n_messages = 0, depth = fake->get_context_stack_depth ();
  guint modules = fake->get_live (TARN_TESTING_CUDA_MODULE), n_lost;
  guint handler = g_log_set_handler ("Tarn-CUDA", G_LOG_LEVEL_MESSAGE, count_message, &n_messages);
  g_autoptr (GError) error = NULL;
  const gchar *failed;
  gboolean ok;

  fake->fail (NULL, nth, for_ever, FAKE_CUDA_INVALID_HANDLE);
  ok = scenario->run (context, &error);
  failed = fake->get_failed ();
  fake->fail (NULL, 0, FALSE, 0);
  g_log_remove_handler ("Tarn-CUDA", handler);
  n_lost = fake->get_live (TARN_TESTING_CUDA_MODULE) - modules + fake->get_context_stack_depth ()
           - depth;

  g_test_message ("%u%s: %s: %s; %u lost, %u messages", nth, for_ever ? " and all others" : "",
                  failed != NULL ? failed : "none", ok ? "no error" : error->message, n_lost,
                  n_messages);
  g_assert_true (ok == (error == NULL));
  if (!ok)
    assert_blamed (error, failed, for_ever);
  assert_told (n_lost, n_messages);
  restore (depth);

  modules = fake->get_live (TARN_TESTING_CUDA_MODULE);
  g_assert_true (scenario->run (context, NULL)); /* all is well again */
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_MODULE), ==, modules);
  g_assert_cmpuint (fake->get_context_stack_depth (), ==, depth);
  return failed != NULL;
}

static void
test_scenario (gconstpointer data)
{
  const Scenario *scenario = data;
  CUcontext context = context_new ();
  CUcontext other = scenario->is_given ? context_new () : NULL;

  for (gint for_ever = FALSE; for_ever <= TRUE; for_ever++)
    {
      guint nth = 1;

      while (fail_nth (scenario, scenario->is_given ? context : NULL, nth, for_ever))
        nth++;
      g_assert_cmpuint (nth, >, 5);
    }
  if (other != NULL)
    context_destroy (other);
  context_destroy (context);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_MODULE), ==, 0);
}

/* What a program may leave, and what a child has of its parent's */

typedef struct
{
  guint computed, released, dead;
} Counts;

static struct
{
  CUcontext contexts[2]; /* the second one is current */
  Counts counts;
  TarnMemo *values, *modules, *functions;
} left;

static gpointer
compute (gpointer context, gconstpointer key, gpointer data, GError **error)
{
  Counts *counts = data;

  (void) context;
  (void) key;
  (void) error;
  counts->computed++;
  return counts;
}

static gpointer
ref_value (gpointer data, gpointer value)
{
  ((Counts *) data)->computed++;
  return value;
}

static void
unref_value (gpointer data, gpointer value, gpointer context, gboolean is_dead)
{
  Counts *counts = data;

  (void) value;
  (void) context;
  counts->released++;
  counts->dead += is_dead ? 1 : 0;
}

static gpointer
make_for_thread (gpointer data, gpointer value, gpointer context, gconstpointer key, GError **error)
{
  (void) value;
  return compute (context, key, data, error);
}

static TarnMemo *
values_new (void)
{
  TarnMemoOps ops = TARN_MEMO_OPS_INIT;

  ops.ref_value = ref_value;
  ops.unref_value = unref_value;
  ops.value_for_thread = make_for_thread;
  return tarn_cuda_context_memo_new (&ops, compute, &left.counts, NULL);
}

static void
leave_everything (void)
{
  left.values = values_new ();
  left.modules = tarn_cuda_module_memo_new ();
  left.functions = tarn_cuda_function_memo_new (left.modules);
  for (gsize i = 0; i < G_N_ELEMENTS (left.contexts); i++)
    {
      left.contexts[i] = context_new ();
      g_assert_true (tarn_memo_get (left.values, left.contexts[i], NULL, NULL, NULL));
      g_assert_nonnull (get_function (left.functions, left.contexts[i], "one", NULL));
    }
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_MODULE), ==, 2);
}

/* At exit */

/* The driver's own handlers were the first, as they are if a library opens it. */
static void
clear_what_is_left (void)
{
  guint unloads = fake->get_calls ("cuModuleUnload");

  fake->fail (NULL, 1, TRUE, FAKE_CUDA_DEINITIALIZED);
  if (get_function (left.functions, left.contexts[0], "two", NULL) != NULL
      || tarn_memo_get (left.values, NULL, "key", NULL, NULL))
    _exit (3);
  tarn_memo_forget (left.functions, left.contexts[0]);
  tarn_memo_unref (left.values);
  tarn_memo_unref (left.modules);
  tarn_memo_unref (left.functions);
  if (fake->get_failed () == NULL)
    _exit (4); /* it was not asked: this has tested nothing */
  if (left.counts.released != left.counts.computed || left.counts.dead == 0)
    _exit (5);
  if (fake->get_calls ("cuModuleUnload") != unloads)
    _exit (6);
  left.functions = NULL;
}

static void __attribute__ ((destructor)) finish (void)
{
  if (left.functions != NULL)
    clear_what_is_left ();
}

static void
test_at_exit (gconstpointer is_handler)
{
  if (!g_test_subprocess ())
    {
      g_test_trap_subprocess (NULL, 0, 0);
      g_test_trap_assert_passed ();
      g_test_trap_assert_stdout_unmatched ("*Tarn*");
      g_test_trap_assert_stderr ("");
      return;
    }
  leave_everything ();
  if (GPOINTER_TO_INT (is_handler))
    g_assert_cmpint (atexit (clear_what_is_left), ==, 0);
}

/* After fork () */

static void
use_memos_in_child (gpointer unused)
{
  TarnMemo *const memos[] = { left.values, left.modules, left.functions };
  TarnMemoStats stats = TARN_MEMO_STATS_INIT;
  GError *error = NULL;

  (void) unused;
  STEP (1, get_function (left.functions, left.contexts[0], "one", &error) == NULL);
  STEP (2, g_error_matches (error, TARN_ERROR, TARN_ERROR_FORKED));
  g_clear_error (&error);
  STEP (3, get_function (left.functions, NULL, "two", &error) == NULL);
  STEP (4, g_error_matches (error, TARN_ERROR, TARN_ERROR_FORKED));
  g_clear_error (&error);
  STEP (5, !tarn_memo_get (left.values, left.contexts[0], NULL, NULL, &error));
  STEP (6, g_error_matches (error, TARN_ERROR, TARN_ERROR_FORKED));
  g_clear_error (&error);
  tarn_cuda_clear_context_caches ();
  tarn_memo_forget_everywhere (left.contexts[0]);
  for (gsize i = 0; i < G_N_ELEMENTS (memos); i++)
    {
      tarn_memo_forget (memos[i], NULL);
      tarn_memo_clear (memos[i]);
      tarn_memo_get_stats (memos[i], &stats);
      STEP (7, stats.entries == 0);
      tarn_memo_unref (memos[i]);
    }
  STEP (8, left.counts.released == left.counts.computed - 4);
  STEP (9, fake->get_calls_after_fork () == 0);
}

/* Each entry has a shared value and this thread's. */
static void
test_fork (void)
{
  leave_everything ();
  g_assert_cmpuint (left.counts.computed - left.counts.released, ==, 4);
  in_child (use_memos_in_child, NULL);
  g_assert_cmpuint (fake->get_calls_after_fork (), ==, 0);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_MODULE), ==, 2);
  g_assert_nonnull (get_function (left.functions, left.contexts[0], "two", NULL));
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_MODULE), ==, 2);
  tarn_cuda_clear_context_caches ();
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_MODULE), ==, 0);
  g_assert_cmpuint (left.counts.released, ==, left.counts.computed);
  g_assert_cmpuint (left.counts.dead, ==, 0);
  tarn_memo_unref (left.values);
  tarn_memo_unref (left.modules);
  tarn_memo_unref (g_steal_pointer (&left.functions));
  for (gsize i = G_N_ELEMENTS (left.contexts); i > 0; i--)
    context_destroy (left.contexts[i - 1]);
}

int
main (int argc, char **argv)
{
  fake = tarn_fake_cuda ();
  _tarn_cuda_get_driver (NULL); /* what fails there stays so: selection.c has that */
  g_test_init (&argc, &argv, NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (scenarios); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/cuda/memo/failures/%s", scenarios[i].path);

      g_test_add_data_func (path, &scenarios[i], test_scenario);
    }
  g_test_add_func ("/cuda/memo/fork", test_fork);
  g_test_add_data_func ("/cuda/memo/at-exit/handler", GINT_TO_POINTER (TRUE), test_at_exit);
  g_test_add_data_func ("/cuda/memo/at-exit/destructor", GINT_TO_POINTER (FALSE), test_at_exit);
  return g_test_run ();
}
