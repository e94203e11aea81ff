/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What is kept for CUDA contexts on each device, the same tests on a real driver and on the fake
 * one, which has a ledger and gives a new context the address of one that is gone.  What runs has
 * cuda-memo-running.c. */

#include <string.h>

#include "driver.h"

static const TarnTestingCuda *fake;

static void
context_destroy (CUcontext context)
{
  g_assert_cmpuint (cuda_get_driver ()->cuCtxDestroy (context), ==, 0);
}

static guint
count_calls (const gchar *function)
{
  return fake != NULL ? fake->get_calls (function) : 0;
}

static gboolean
can_tell_contexts (void)
{
  if (cuda_get_driver ()->cuCtxGetId != NULL)
    return TRUE;
  g_test_skip ("this driver cannot tell a context from a later one at its address");
  return FALSE;
}

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

static gsize
count_entries (TarnMemo *memo)
{
  TarnMemoStats stats = TARN_MEMO_STATS_INIT;

  tarn_memo_get_stats (memo, &stats);
  return stats.entries;
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
  g_assert_cmpuint (count_entries (memo), ==, 2);
  tarn_memo_forget (memo, NULL);
  g_assert_cmpuint (counts.released, ==, 1);
  touch (memo, test->context);
  g_assert_cmpuint (counts.computed, ==, 2);
  touch (memo, other);
  g_assert_cmpuint (counts.computed, ==, 3);
  tarn_cuda_clear_context_caches ();
  g_assert_cmpuint (counts.released, ==, 3);
  g_assert_cmpuint (cuda_get_driver ()->cuCtxPopCurrent (&popped), ==, 0);
  context_destroy (other);
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
  g_assert_cmpuint (count_entries (memo), ==, 1);
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
  context_destroy (own.counts.first_arg);
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
  if (!can_tell_contexts ())
    {
      context_destroy (first);
      return;
    }
  touch (memo, first);
  touch (memo, test->context);
  context_destroy (first);
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
  g_assert_cmpuint (count_entries (memo), ==, 2);
  tarn_memo_forget (memo, second);
  g_assert_cmpuint (counts.released, ==, 2);
  g_assert_cmpuint (counts.dead, ==, 1);
  context_destroy (second);
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
      context_destroy (doomed);
      for (guint i = 0; i < 2; i++)
        g_assert_cmpint (fail_to_get (memo, doomed, "key"), ==, TARN_ERROR_CONTEXT_LOST);
      tarn_memo_forget (memo, doomed);
      g_assert_cmpuint (counts.dead, ==, 1);
    }
  else
    {
      tarn_cuda_clear_context_caches ();
      context_destroy (doomed);
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
  if (!can_tell_contexts ())
    return;
  for (guint i = 0; i < n; i++)
    {
      CUcontext context = cuda_context_new (test->device);

      touch (memo, context);
      g_assert_cmpint (fail_to_get (memo, context, "bad"), ==, TARN_ERROR_FAILED);
      g_assert_cmpuint (count_entries (memo), ==, 1);
      if (fake == NULL)
        tarn_memo_forget_everywhere (context);
      context_destroy (context);
    }
  g_assert_cmpuint (counts.computed, ==, n);
  g_assert_cmpuint (counts.released, ==, fake != NULL ? 2 * (n - 1) : 2 * n);
  g_assert_cmpuint (counts.dead, ==, fake != NULL ? 2 * (n - 1) : 0);
}

/* Modules */

/* Old enough for every driver and GPU of the last years, as doc/examples/vector-expression-cuda.c
 * says. */
#define START ".version 6.0\n.target sm_50\n.address_size 64\n"

static const gchar ptx[]
    = START ".visible .entry one ()\n{\n  ret;\n}\n.visible .entry two ()\n{\n  ret;\n}\n";

static GBytes *
image_new (const gchar *text, gboolean with_end)
{
  return g_bytes_new (text, strlen (text) + (with_end ? 1 : 0));
}

static gpointer
get (TarnMemo *memo, CUcontext context, gconstpointer key)
{
  g_autoptr (GError) error = NULL;
  gpointer value = NULL;

  g_assert_true (tarn_memo_get (memo, context, key, &value, &error));
  g_assert_no_error (error);
  g_assert_nonnull (value);
  return value;
}

static void
assert_modules (guint n)
{
  if (fake != NULL)
    g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_MODULE), ==, n);
}

/* Text with its 0 at the end is another GBytes, and so another module. */
static void
test_modules (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (TarnMemo) modules = tarn_cuda_module_memo_new ();
  g_autoptr (GBytes) image = image_new (ptx, FALSE);
  g_autoptr (GBytes) same = image_new (ptx, FALSE);
  g_autoptr (GBytes) ended = image_new (ptx, TRUE);
  guint loads = count_calls ("cuModuleLoadDataEx");
  gpointer module = get (modules, NULL, image);

  (void) unused;
  g_assert_true (get (modules, NULL, same) == module);
  g_assert_true (get (modules, test->context, image) == module);
  g_assert_true (get (modules, NULL, ended) != module);
  g_assert_cmpuint (count_entries (modules), ==, 2);
  assert_modules (2);
  if (fake != NULL)
    g_assert_cmpuint (count_calls ("cuModuleLoadDataEx"), ==, loads + 2);
  tarn_memo_forget (modules, test->context);
  assert_modules (0);
  get (modules, NULL, same);
  assert_modules (1);
}

/* A text that ends where its GBytes do, in the middle of a name: that is not read on.  A driver's
 * compiler takes no such thing. */
static void
test_end_of_text (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (TarnMemo) modules = tarn_cuda_module_memo_new ();
  g_autoptr (GBytes) image = image_new (START ".entry one", FALSE);
  CUfunction found = NULL;
  gpointer module = get (modules, test->context, image);

  (void) unused;
  g_assert_cmpuint (cuda_get_driver ()->cuModuleGetFunction (&found, module, "one"), ==, 0);
}

static void
test_clear (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (TarnMemo) functions = tarn_cuda_function_memo_new (NULL);
  g_autoptr (GBytes) image = image_new (ptx, FALSE);
  TarnCudaFunctionKey key = TARN_CUDA_FUNCTION_KEY_INIT;
  CUcontext other = cuda_context_new (test->device);
  void (*const clear[]) (void) = { tarn_cuda_clear_context_caches, tarn_memo_clear_all };

  (void) unused;
  key.image = image;
  key.name = "one";
  for (gsize i = 0; i < G_N_ELEMENTS (clear); i++)
    {
      g_assert_true (get (functions, other, &key) != get (functions, NULL, &key));
      assert_modules (2);
      clear[i]();
      assert_modules (0);
      g_assert_cmpuint (count_entries (functions), ==, 0);
      g_assert_true (cuda_get_current () == test->context);
    }
  get (functions, other, &key);
  get (functions, NULL, &key);
  tarn_memo_forget_everywhere (other);
  assert_modules (1);
  context_destroy (other);
}

/* A module dies with its context: the driver is not asked to unload it, nor another in its place.
 */
static void
test_lost_modules (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (TarnMemo) functions = tarn_cuda_function_memo_new (NULL);
  g_autoptr (GBytes) image = image_new (ptx, FALSE);
  TarnCudaFunctionKey key = TARN_CUDA_FUNCTION_KEY_INIT;
  guint unloads = count_calls ("cuModuleUnload");

  (void) unused;
  key.image = image;
  key.name = "one";
  if (fake == NULL)
    {
      g_test_skip ("a real driver must not be asked about contexts that are long gone");
      return;
    }
  if (!can_tell_contexts ())
    return;
  for (guint i = 0; i < 10; i++)
    {
      CUcontext context = cuda_context_new (test->device);

      get (functions, context, &key);
      g_assert_cmpuint (count_entries (functions), ==, 1);
      assert_modules (1);
      context_destroy (context);
    }
  assert_modules (0);
  tarn_cuda_clear_context_caches ();
  g_assert_cmpuint (count_calls ("cuModuleUnload"), ==, unloads);
}

static void
test_functions (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (TarnMemo) modules = tarn_cuda_module_memo_new ();
  g_autoptr (TarnMemo) functions = tarn_cuda_function_memo_new (modules);
  g_autoptr (GBytes) image = image_new (ptx, FALSE);
  g_autoptr (GBytes) same = image_new (ptx, FALSE);
  guint loads = count_calls ("cuModuleLoadDataEx");
  TarnCudaFunctionKey key = TARN_CUDA_FUNCTION_KEY_INIT;
  gpointer one, two, module;
  CUfunction found;

  (void) unused;
  key.image = image;
  key.name = "one";
  one = get (functions, NULL, &key);
  key.name = "two";
  two = get (functions, NULL, &key);
  key.image = same;
  g_assert_true (get (functions, NULL, &key) == two && one != two);
  g_assert_cmpuint (count_entries (functions), ==, 2);
  module = get (modules, NULL, same); /* shared */
  g_assert_cmpuint (cuda_get_driver ()->cuModuleGetFunction (&found, module, "two"), ==, 0);
  g_assert_true (found == two);
  g_assert_cmpuint (count_entries (modules), ==, 1);
  if (fake != NULL)
    g_assert_cmpuint (count_calls ("cuModuleLoadDataEx"), ==, loads + 1);
  tarn_memo_forget (functions, test->context);
  g_assert_cmpuint (count_entries (modules), ==, 0);
  assert_modules (0);
}

/* Errors */

static void
test_bad_image (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (TarnMemo) modules = tarn_cuda_module_memo_new ();
  g_autoptr (GBytes) bad
      = image_new (fake != NULL ? START "#error nonsense_4711\n"
                                : START ".visible .entry one ()\n{\n  nonsense_4711;\n}\n",
                   FALSE);
  g_autoptr (GBytes) none = g_bytes_new (NULL, 0);
  TarnMemoStats stats = TARN_MEMO_STATS_INIT;

  (void) test;
  (void) unused;
  for (guint i = 0; i < 100; i++)
    {
      g_autoptr (GError) error = NULL;
      gpointer module = NULL;

      g_assert_false (tarn_memo_get (modules, NULL, i == 0 ? none : bad, &module, &error));
      g_assert_true (error->domain == TARN_CUDA_ERROR);
      g_assert_true (g_str_has_prefix (error->message, "cuModuleLoadDataEx: CUDA_ERROR_"));
      if (i == 0)
        continue;
      g_assert_error (error, TARN_CUDA_ERROR, FAKE_CUDA_INVALID_PTX);
      g_assert_nonnull (strstr (error->message, "nonsense_4711"));
      g_assert_null (module);
    }
  tarn_memo_get_stats (modules, &stats);
  g_assert_cmpuint (stats.entries, ==, 0);
  g_assert_cmpuint (stats.failures, ==, 100);
  assert_modules (0);
}

static void
test_bad_keys (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (TarnMemo) functions = tarn_cuda_function_memo_new (NULL);
  g_autoptr (GBytes) image = image_new (ptx, FALSE);
  TarnCudaFunctionKey key = TARN_CUDA_FUNCTION_KEY_INIT;
  g_autoptr (GError) error = NULL;

  (void) test;
  (void) unused;
  key.name = "one";
  g_assert_false (tarn_memo_get (functions, NULL, &key, NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_true (g_str_has_suffix (error->message, "no image"));
  g_clear_error (&error);
  key.name = NULL;
  key.image = image;
  g_assert_false (tarn_memo_get (functions, NULL, &key, NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_true (g_str_has_suffix (error->message, "no name"));
  g_clear_error (&error);
  assert_modules (0);
  key.name = "absent_4711";
  g_assert_false (tarn_memo_get (functions, NULL, &key, NULL, &error));
  g_assert_error (error, TARN_CUDA_ERROR, FAKE_CUDA_NOT_FOUND);
  g_assert_true (g_str_has_prefix (error->message, "cuModuleGetFunction: CUDA_ERROR_NOT_FOUND"));
  g_assert_true (g_str_has_suffix (error->message, "absent_4711"));
  g_assert_cmpuint (count_entries (functions), ==, 0);
}

/* What a caller of tarn_cuda_module_memo_get () and its like must not leave out */
static void
test_incomplete_keys (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (TarnMemo) modules = tarn_cuda_module_memo_new ();
  g_autoptr (TarnMemo) functions = tarn_cuda_function_memo_new (modules);
  g_autoptr (GBytes) image = image_new (ptx, FALSE);
  TarnCudaFunctionKey key = TARN_CUDA_FUNCTION_KEY_INIT;
  const gchar *missing[]
      = { "*key != NULL*", "*image != NULL*", "*name != NULL*", "*function != NULL*" };
  CUfunction function = NULL;
  CUmodule module = NULL;

  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (missing); i++)
    {
      key.image = i > 1 ? image : NULL;
      key.name = i > 2 ? "one" : NULL;
      g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_CRITICAL, missing[i]);
      g_assert_false (tarn_cuda_function_memo_get (functions, NULL, i > 0 ? &key : NULL,
                                                   i < 3 ? &function : NULL, NULL));
      g_test_assert_expected_messages ();
    }
  g_assert_null (function);
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_CRITICAL, "*image != NULL*");
  g_assert_false (tarn_cuda_module_memo_get (modules, NULL, NULL, &module, NULL));
  g_test_assert_expected_messages ();
  g_assert_null (module);

  g_assert_true (tarn_cuda_module_memo_get (modules, test->context, image, &module, NULL));
  g_assert_true (module == get (modules, NULL, image));
  g_assert_true (tarn_cuda_function_memo_get (functions, NULL, &key, &function, NULL));
  g_assert_true (function == get (functions, test->context, &key));
}

static void
test_null_keys (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (TarnMemo) modules = tarn_cuda_module_memo_new ();
  g_autoptr (TarnMemo) functions = tarn_cuda_function_memo_new (NULL);
  TarnMemo *const memos[] = { modules, functions };

  (void) test;
  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (memos); i++)
    {
      g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, "*key != NULL*");
      g_assert_false (tarn_memo_get (memos[i], NULL, NULL, NULL, NULL));
      g_test_assert_expected_messages ();
      g_assert_cmpuint (count_entries (memos[i]), ==, 0);
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
  g_assert_cmpuint (count_entries (left_memo), ==, 1);
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
  g_assert_cmpuint (count_entries (left_memo), ==, 0);
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
  tarn_cuda_test_add ("memo/modules", test_modules, NULL);
  if (fake != NULL)
    tarn_cuda_test_add ("memo/end-of-text", test_end_of_text, NULL);
  tarn_cuda_test_add ("memo/clear", test_clear, NULL);
  tarn_cuda_test_add ("memo/lost-modules", test_lost_modules, NULL);
  tarn_cuda_test_add ("memo/functions", test_functions, NULL);
  tarn_cuda_test_add ("memo/bad-image", test_bad_image, NULL);
  tarn_cuda_test_add ("memo/bad-keys", test_bad_keys, NULL);
  tarn_cuda_test_add ("memo/incomplete-keys", test_incomplete_keys, NULL);
  tarn_cuda_test_add ("memo/null-keys", test_null_keys, NULL);
  tarn_cuda_test_add ("memo/leave", test_leave, NULL);
  tarn_cuda_test_add ("memo/find-none", test_find_none, NULL);
  status = g_test_run ();
  tarn_memo_unref (left_memo);
  return status;
}
