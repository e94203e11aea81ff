/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Modules and functions that are kept for CUDA contexts, the same tests on a real driver and on the
 * fake one, which has a ledger: each is loaded once, and unloaded with its context; images and keys
 * that are refused.  memo-running.c runs what they have. */

#include <string.h>

#include "driver.h"

static const TarnTestingCuda *fake;

static guint
count_calls (const gchar *function)
{
  return fake != NULL ? fake->get_calls (function) : 0;
}

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
  g_assert_cmpuint (cuda_memo_count_entries (modules), ==, 2);
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
      g_assert_cmpuint (cuda_memo_count_entries (functions), ==, 0);
      g_assert_true (cuda_get_current () == test->context);
    }
  get (functions, other, &key);
  get (functions, NULL, &key);
  tarn_memo_forget_everywhere (other);
  assert_modules (1);
  cuda_context_destroy (other);
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
  if (!cuda_can_tell_contexts ())
    return;
  for (guint i = 0; i < 10; i++)
    {
      CUcontext context = cuda_context_new (test->device);

      get (functions, context, &key);
      g_assert_cmpuint (cuda_memo_count_entries (functions), ==, 1);
      assert_modules (1);
      cuda_context_destroy (context);
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
  g_assert_cmpuint (cuda_memo_count_entries (functions), ==, 2);
  module = get (modules, NULL, same); /* shared */
  g_assert_cmpuint (cuda_get_driver ()->cuModuleGetFunction (&found, module, "two"), ==, 0);
  g_assert_true (found == two);
  g_assert_cmpuint (cuda_memo_count_entries (modules), ==, 1);
  if (fake != NULL)
    g_assert_cmpuint (count_calls ("cuModuleLoadDataEx"), ==, loads + 1);
  tarn_memo_forget (functions, test->context);
  g_assert_cmpuint (cuda_memo_count_entries (modules), ==, 0);
  assert_modules (0);
}

/* Forgetting while another thread looks up a function */

static const gchar other_ptx[] = START ".visible .entry other ()\n{\n  ret;\n}\n";

/* Forgets the functions of a context in another thread, before a thread calls a function of the
 * driver.  Then loads another image, which gets the handle of a module that was unloaded. */
typedef struct
{
  const gchar *before; /* the driver's function; NULL after the hook has forgotten */
  TarnMemo *functions, *others;
  CUcontext context;
  gint n_threads; /* atomic: threads that look up functions */
} Forgetter;

static gpointer
forget_and_load (gpointer data)
{
  const Forgetter *self = data;
  g_autoptr (GBytes) image = image_new (other_ptx, FALSE);

  tarn_memo_forget (self->functions, self->context);
  get (self->others, self->context, image);
  return NULL;
}

static void
forget_before (const gchar *function, gpointer data)
{
  Forgetter *self = data;

  if (g_strcmp0 (function, self->before) != 0)
    return;
  self->before = NULL;
  g_thread_join (g_thread_new ("forget", forget_and_load, self));
}

static void
test_forgotten_meanwhile (const TarnCudaTest *test, gconstpointer unused)
{
  const gchar *const before[] = { "cuModuleLoadDataEx", "cuModuleGetFunction" };
  g_autoptr (GBytes) image = image_new (ptx, FALSE);
  TarnCudaFunctionKey key = TARN_CUDA_FUNCTION_KEY_INIT;

  (void) unused;
  key.image = image;
  key.name = "one";
  for (gsize i = 0; i < G_N_ELEMENTS (before); i++)
    {
      g_autoptr (TarnMemo) functions = tarn_cuda_function_memo_new (NULL);
      g_autoptr (TarnMemo) others = tarn_cuda_module_memo_new ();
      Forgetter forgetter = { before[i], functions, others, test->context, 0 };
      gpointer function;

      fake->set_hook (forget_before, &forgetter);
      function = get (functions, NULL, &key);
      fake->set_hook (NULL, NULL);
      g_assert_null (forgetter.before);
      g_assert_cmpstr (fake->find_kernel (function), ==, "one");
      g_assert_true (get (functions, NULL, &key) == function);
      assert_modules (2);
      tarn_memo_forget (functions, test->context);
      assert_modules (1);
    }
  assert_modules (0);
}

#define N_LOOKUPS 300

static gpointer
look_up_often (gpointer data)
{
  Forgetter *self = data;
  g_autoptr (GBytes) image = image_new (ptx, FALSE);
  TarnCudaFunctionKey key = TARN_CUDA_FUNCTION_KEY_INIT;

  key.image = image;
  for (guint i = 0; i < N_LOOKUPS; i++)
    {
      key.name = i % 2 == 0 ? "one" : "two";
      get (self->functions, self->context, &key);
    }
  g_atomic_int_add (&self->n_threads, -1);
  return NULL;
}

static void
test_forgotten_often (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (TarnMemo) functions = tarn_cuda_function_memo_new (NULL);
  GThread *threads[3];
  Forgetter forgetter
      = { .functions = functions, .context = test->context, .n_threads = G_N_ELEMENTS (threads) };

  (void) unused;
  fake->set_latency ("cuModuleGetFunction", 20); /* so that modules are forgotten meanwhile */
  for (gsize i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("look-up", look_up_often, &forgetter);
  while (g_atomic_int_get (&forgetter.n_threads) > 0)
    tarn_memo_forget (functions, test->context);
  for (gsize i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  fake->set_latency ("cuModuleGetFunction", 0);
  tarn_memo_forget (functions, test->context);
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
  g_assert_cmpuint (cuda_memo_count_entries (functions), ==, 0);
}

/* Each argument that callers of tarn_cuda_module_memo_get () and similar functions must pass is
 * missing once. */
static void
test_incomplete_keys (const TarnCudaTest *test, gconstpointer unused)
{
  g_autoptr (TarnMemo) modules = tarn_cuda_module_memo_new ();
  g_autoptr (TarnMemo) functions = tarn_cuda_function_memo_new (modules);
  g_autoptr (GBytes) image = image_new (ptx, FALSE);
  TarnCudaFunctionKey key = TARN_CUDA_FUNCTION_KEY_INIT;
  const gchar *missing[] = { "image", "name" };
  CUfunction function = NULL;
  CUmodule module = NULL;

  (void) unused;
  for (guint i = 0; i < G_N_ELEMENTS (missing); i++)
    {
      g_autoptr (GError) error = NULL;

      key.image = i > 0 ? image : NULL;
      g_assert_false (tarn_cuda_function_memo_get (functions, NULL, &key, &function, &error));
      g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
      g_assert_true (g_str_has_suffix (error->message, missing[i]));
    }
  key.name = "one";
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_CRITICAL, "*key != NULL*");
  g_assert_false (tarn_cuda_function_memo_get (functions, NULL, NULL, &function, NULL));
  g_test_expect_message ("Tarn-CUDA", G_LOG_LEVEL_CRITICAL, "*function != NULL*");
  g_assert_false (tarn_cuda_function_memo_get (functions, NULL, &key, NULL, NULL));
  g_test_assert_expected_messages ();
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
      g_assert_cmpuint (cuda_memo_count_entries (memos[i]), ==, 0);
    }
}

int
main (int argc, char **argv)
{
  fake = cuda_get_fake ();
  g_test_init (&argc, &argv, NULL);
  tarn_cuda_test_add ("memo/modules", test_modules, NULL);
  if (fake != NULL)
    {
      tarn_cuda_test_add ("memo/end-of-text", test_end_of_text, NULL);
      tarn_cuda_test_add ("memo/forgotten-meanwhile", test_forgotten_meanwhile, NULL);
      tarn_cuda_test_add ("memo/forgotten-often", test_forgotten_often, NULL);
    }
  tarn_cuda_test_add ("memo/clear", test_clear, NULL);
  tarn_cuda_test_add ("memo/lost-modules", test_lost_modules, NULL);
  tarn_cuda_test_add ("memo/functions", test_functions, NULL);
  tarn_cuda_test_add ("memo/bad-image", test_bad_image, NULL);
  tarn_cuda_test_add ("memo/bad-keys", test_bad_keys, NULL);
  tarn_cuda_test_add ("memo/incomplete-keys", test_incomplete_keys, NULL);
  tarn_cuda_test_add ("memo/null-keys", test_null_keys, NULL);
  return g_test_run ();
}
