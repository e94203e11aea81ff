/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Values that are kept for CUDA contexts, the same tests on a real driver and on the fake one,
 * which gives a new context the address of one that is gone.  memo-modules.c has modules and
 * functions. */

#include "driver.h"

static const TarnTestingCuda *fake;

/* A memo that counts what it computes and what it gets back: each value is a box of its own, with a
 * reference count. */

typedef struct
{
  guint computed, released, dead, for_threads;
  CUcontext first_arg; /* what it must be, and be current; NULL: any */
} Counts;

typedef struct
{
  gint references;
} Box;

static void
check_context (const Counts *counts, gpointer first_arg)
{
  g_assert_true (cuda_get_current () == first_arg);
  if (counts->first_arg != NULL)
    g_assert_true (first_arg == counts->first_arg);
}

static Box *
box_new (void)
{
  Box *box = g_new (Box, 1);

  box->references = 1;
  return box;
}

static gpointer
compute (gpointer first_arg, gconstpointer key, gpointer data, GError **error)
{
  Counts *counts = data;

  check_context (counts, first_arg);
  if (g_strcmp0 (key, "bad") == 0)
    {
      g_set_error_literal (error, TARN_ERROR, TARN_ERROR_FAILED, "bad key");
      return NULL;
    }
  counts->computed++;
  return box_new ();
}

static gpointer
ref_box (gpointer data, gpointer value)
{
  Box *box = value;

  (void) data;
  box->references++;
  return box;
}

/* The last reference of a box is that of an entry, unless a test has one longer. */
static void
unref_box (gpointer data, gpointer value, gpointer first_arg, gboolean is_dead)
{
  Counts *counts = data;
  Box *box = value;

  if (!is_dead)
    check_context (counts, first_arg);
  if (--box->references > 0)
    return;
  counts->released++;
  counts->dead += is_dead ? 1 : 0;
  g_free (box);
}

static gpointer
make_box_for_thread (gpointer data, gpointer value, gpointer first_arg, gconstpointer key,
                     GError **error)
{
  Counts *counts = data;

  (void) key;
  (void) error;
  check_context (counts, first_arg);
  g_assert_cmpint (((Box *) value)->references, >, 0);
  counts->for_threads++;
  return box_new ();
}

static TarnMemo *
memo_new (Counts *counts, gboolean for_threads)
{
  TarnMemoOps ops = TARN_MEMO_OPS_INIT;

  ops.key_type = TARN_MEMO_KEY_STRING;
  ops.ref_value = ref_box;
  ops.unref_value = unref_box;
  ops.value_for_thread = for_threads ? make_box_for_thread : NULL;
  return tarn_cuda_context_memo_new (&ops, compute, counts, NULL);
}

/* The reference goes back at once. */
static void
touch (TarnMemo *memo, CUcontext context)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (tarn_memo_get (memo, context, "key", NULL, &error));
  g_assert_no_error (error);
}

static gint
fail_to_get (TarnMemo *memo, CUcontext context, gconstpointer key)
{
  g_autoptr (GError) error = NULL;
  gpointer value = &error;

  g_assert_false (tarn_memo_get (memo, context, key, &value, &error));
  g_assert_true (value == &error);
  g_assert_true (error != NULL && error->domain == TARN_ERROR);
  return error->code;
}

/* Contexts */

/* PyCUDA's context_dependent_memoize: NULL is whichever is current. */
static void
test_current (const TarnCudaTest *test, gconstpointer unused)
{
  Counts counts = { 0 };
  g_autoptr (TarnMemo) memo = memo_new (&counts, FALSE);
  CUcontext other, popped;

  (void) unused;
  touch (memo, NULL);
  touch (memo, test->context);
  touch (memo, NULL);
  g_assert_cmpuint (counts.computed, ==, 1);
  g_assert_cmpuint (cuda_get_driver ()->cuCtxCreate (&other, 0, test->device), ==, 0);
  touch (memo, NULL);
  touch (memo, test->context);
  g_assert_cmpuint (counts.computed, ==, 2);
  g_assert_cmpuint (cuda_memo_count_entries (memo), ==, 2);
  tarn_memo_forget (memo, NULL);
  g_assert_cmpuint (counts.released, ==, 1);
  touch (memo, test->context);
  g_assert_cmpuint (counts.computed, ==, 2);
  touch (memo, other);
  g_assert_cmpuint (counts.computed, ==, 3);
  tarn_cuda_clear_context_caches ();
  g_assert_cmpuint (counts.released, ==, 3);
  g_assert_cmpuint (cuda_get_driver ()->cuCtxPopCurrent (&popped), ==, 0);
  cuda_context_destroy (other);
}

static void
test_no_context (const TarnCudaTest *test, gconstpointer unused)
{
  Counts counts = { 0 };
  g_autoptr (TarnMemo) memo = memo_new (&counts, FALSE);
  CUcontext popped;

  (void) unused;
  touch (memo, NULL);
  g_assert_cmpuint (cuda_get_driver ()->cuCtxPopCurrent (&popped), ==, 0);
  g_assert_cmpint (fail_to_get (memo, NULL, "key"), ==, TARN_ERROR_NO_CONTEXT);
  tarn_memo_forget (memo, NULL); /* which is none */
  g_assert_cmpuint (cuda_memo_count_entries (memo), ==, 1);
  touch (memo, test->context);
  g_assert_cmpuint (counts.computed, ==, 1);
  g_assert_null (cuda_get_current ());
  g_assert_cmpuint (cuda_get_driver ()->cuCtxPushCurrent (test->context), ==, 0);
}

typedef struct
{
  TarnMemo *memo;
  Counts counts;
} Visit;

/* All that may be called with a context, in a thread that has another one, or none. */
static void
visit (Visit *own)
{
  CUcontext before = cuda_get_current ();
  guint for_threads = own->counts.for_threads;

  touch (own->memo, own->counts.first_arg);
  g_assert_true (cuda_get_current () == before);
  g_assert_cmpuint (own->counts.for_threads, ==, for_threads + 1);
  g_assert_cmpint (fail_to_get (own->memo, own->counts.first_arg, "bad"), ==, TARN_ERROR_FAILED);
  g_assert_true (cuda_get_current () == before);
  tarn_memo_forget (own->memo, own->counts.first_arg);
  g_assert_true (cuda_get_current () == before);
  g_assert_cmpuint (own->counts.released, ==, own->counts.computed + own->counts.for_threads);
}

static gpointer
visit_in_thread (gpointer data)
{
  g_assert_null (cuda_get_current ());
  visit (data);
  return NULL;
}

static void
test_made_current (const TarnCudaTest *test, gconstpointer unused)
{
  Visit own = { .counts = { .first_arg = cuda_context_new (test->device) } };

  (void) unused;
  own.memo = memo_new (&own.counts, TRUE);
  visit (&own);
  g_assert_true (cuda_get_current () == test->context);
  g_thread_join (g_thread_new ("visit", visit_in_thread, &own));
  g_assert_cmpuint (own.counts.computed, ==, 2);
  g_assert_cmpuint (own.counts.dead, ==, 0);
  tarn_memo_unref (own.memo);
  cuda_context_destroy (own.counts.first_arg);
  if (fake != NULL)
    g_assert_cmpuint (fake->get_context_stack_depth (), ==, 1);
}

/* Contexts that are gone */

/* Without a call of the driver's for what is theirs, and without one taken for another. */
static void
test_reused_address (const TarnCudaTest *test, gconstpointer unused)
{
  Counts counts = { 0 };
  g_autoptr (TarnMemo) memo = memo_new (&counts, FALSE);
  CUcontext first = cuda_context_new (test->device), second;

  (void) unused;
  if (!cuda_can_tell_contexts ())
    {
      cuda_context_destroy (first);
      return;
    }
  touch (memo, first);
  touch (memo, test->context);
  cuda_context_destroy (first);
  second = cuda_context_new (test->device);
  if (second != first)
    {
      g_test_skip ("the next context has another address");
      return;
    }
  touch (memo, second);
  g_assert_cmpuint (counts.computed, ==, 3);
  g_assert_cmpuint (counts.released, ==, 1);
  g_assert_cmpuint (counts.dead, ==, 1);
  g_assert_cmpuint (cuda_memo_count_entries (memo), ==, 2);
  tarn_memo_forget (memo, second);
  g_assert_cmpuint (counts.released, ==, 2);
  g_assert_cmpuint (counts.dead, ==, 1);
  cuda_context_destroy (second);
}

static void
test_lost (const TarnCudaTest *test, gconstpointer unused)
{
  Counts counts = { 0 };
  g_autoptr (TarnMemo) memo = memo_new (&counts, FALSE);
  CUcontext doomed = cuda_context_new (test->device);

  (void) unused;
  touch (memo, doomed);
  if (cuda_get_driver ()->cuCtxGetId != NULL)
    {
      cuda_context_destroy (doomed);
      for (guint i = 0; i < 2; i++)
        g_assert_cmpint (fail_to_get (memo, doomed, "key"), ==, TARN_ERROR_CONTEXT_LOST);
      tarn_memo_forget (memo, doomed);
      g_assert_cmpuint (counts.dead, ==, 1);
    }
  else
    {
      tarn_cuda_clear_context_caches ();
      cuda_context_destroy (doomed);
      g_assert_cmpuint (counts.dead, ==, 0);
    }
  g_assert_cmpuint (counts.computed, ==, 1);
  g_assert_cmpuint (counts.released, ==, 1);
}

/* A program that opens one context after the other.  The fake one gives each the address of the
 * last one, so that nothing has to be cleared; a real driver does not, and must not be asked for
 * one that is long gone. */
static void
test_many_contexts (const TarnCudaTest *test, gconstpointer unused)
{
  Counts counts = { 0 };
  g_autoptr (TarnMemo) memo = memo_new (&counts, TRUE);
  guint n = fake != NULL ? 200 : 20;

  (void) unused;
  if (!cuda_can_tell_contexts ())
    return;
  for (guint i = 0; i < n; i++)
    {
      CUcontext context = cuda_context_new (test->device);

      touch (memo, context);
      g_assert_cmpint (fail_to_get (memo, context, "bad"), ==, TARN_ERROR_FAILED);
      g_assert_cmpuint (cuda_memo_count_entries (memo), ==, 1);
      if (fake == NULL)
        tarn_memo_forget_everywhere (context);
      cuda_context_destroy (context);
    }
  g_assert_cmpuint (counts.computed, ==, n);
  g_assert_cmpuint (counts.released, ==, fake != NULL ? 2 * (n - 1) : 2 * n);
  g_assert_cmpuint (counts.dead, ==, fake != NULL ? 2 * (n - 1) : 0);
}

static gpointer
ref_anything (gpointer unused, gpointer first_arg)
{
  (void) unused;
  return first_arg;
}

/* A caller cannot give functions or a kind for first arguments: the library gives them. */
static void
test_foreign_ops (const TarnCudaTest *test, gconstpointer unused)
{
  Counts counts = { 0 };

  (void) test;
  (void) unused;
  for (guint i = 0; i < 2; i++)
    {
      TarnMemoOps ops = TARN_MEMO_OPS_INIT;

      if (i == 0)
        ops.first_arg_kind = "mine";
      else
        ops.ref_first_arg = ref_anything;
      g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_CRITICAL, "*has_only_keys_and_values*");
      g_assert_null (tarn_cuda_context_memo_new (&ops, compute, &counts, NULL));
      g_test_assert_expected_messages ();
    }
}

/* What tarn_cuda_test_add () clears after a test, before its context goes */

static Counts left_counts;
static TarnMemo *left_memo;

static void
test_leave (const TarnCudaTest *test, gconstpointer unused)
{
  (void) unused;
  if (left_memo == NULL)
    left_memo = memo_new (&left_counts, TRUE);
  touch (left_memo, NULL);
  touch (left_memo, test->context);
  g_assert_cmpuint (cuda_memo_count_entries (left_memo), ==, 1);
}

static void
test_find_none (const TarnCudaTest *test, gconstpointer unused)
{
  (void) test;
  (void) unused;
  if (left_memo == NULL)
    {
      g_test_skip ("the test before this one has not run");
      return;
    }
  g_assert_cmpuint (cuda_memo_count_entries (left_memo), ==, 0);
  g_assert_cmpuint (left_counts.computed, >, 0);
  g_assert_cmpuint (left_counts.released, ==, left_counts.computed + left_counts.for_threads);
  g_assert_cmpuint (left_counts.dead, ==, 0);
}

int
main (int argc, char **argv)
{
  gint status;

  fake = cuda_get_fake ();
  g_test_init (&argc, &argv, NULL);
  tarn_cuda_test_add ("memo/current", test_current, NULL);
  tarn_cuda_test_add ("memo/no-context", test_no_context, NULL);
  tarn_cuda_test_add ("memo/made-current", test_made_current, NULL);
  tarn_cuda_test_add ("memo/reused-address", test_reused_address, NULL);
  tarn_cuda_test_add ("memo/lost", test_lost, NULL);
  tarn_cuda_test_add ("memo/many-contexts", test_many_contexts, NULL);
  tarn_cuda_test_add ("memo/foreign-ops", test_foreign_ops, NULL);
  tarn_cuda_test_add ("memo/leave", test_leave, NULL);
  tarn_cuda_test_add ("memo/find-none", test_find_none, NULL);
  status = g_test_run ();
  tarn_memo_unref (left_memo);
  return status;
}
