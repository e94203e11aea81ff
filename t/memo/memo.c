/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memos in one thread: what is kept, and what goes where only so many entries are; errors;
 * what is counted. */

#include "lib/fake-function.h"

/* What is kept */

static void
test_hit (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = memo_fixture_make (fixture);
  FakeFirstArg *a = &fixture->first_args[0];
  FakeValue *first, *again, *else_where;

  (void) unused;
  assert_calls (memo, 0, 0, 0);
  first = ask (memo, a, 7);
  g_assert_cmpuint (first->n_refs, ==, 2);
  again = ask (memo, a, 7);
  g_assert_true (again == first);
  g_assert_cmpuint (first->n_refs, ==, 3);
  assert_calls (memo, 1, 1, 0);
  else_where = ask (memo, a, 8);
  g_assert_true (else_where != first);
  assert_calls (memo, 1, 2, 0);
  assert_entries (memo, 2);
  g_assert_cmpuint (a->n_refs, >, 0);
  g_assert_cmpuint (fixture->function.n_computed, ==, 2);

  fake_value_unref (first);
  fake_value_unref (again);
  fake_value_unref (else_where);
  g_assert_cmpuint (live (fixture), ==, 2);
}

static void
test_first_args (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = memo_fixture_make (fixture);
  FakeFirstArg *args = fixture->first_args;

  (void) unused;
  for (guint round = 0; round < 2; round++)
    for (guint i = 0; i < G_N_ELEMENTS (fixture->first_args); i++)
      {
        FakeValue *value = ask (memo, &args[i], 7);

        g_assert_true (value->first_arg == &args[i]);
        fake_value_unref (value);
      }
  assert_calls (memo, 3, 3, 0);
  assert_entries (memo, 3);
}

/* What a caller has a reference on outlives the entry, and the memo. */
static void
test_value_outlives_memo (MemoFixture *fixture, gconstpointer unused)
{
  FakeValue *value = ask (memo_fixture_make (fixture), &fixture->first_args[0], 7);

  (void) unused;
  tarn_memo_clear (fixture->memo);
  g_assert_cmpuint (value->n_refs, ==, 1);
  tarn_memo_unref (g_steal_pointer (&fixture->memo));
  g_assert_true (fixture->function.is_destroyed);
  g_assert_false (value->is_gone);
  fake_value_unref (value);
}

static void
test_memo_references (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = memo_fixture_make (fixture);

  (void) unused;
  tarn_memo_unref (NULL);
  g_assert_true (tarn_memo_ref (memo) == memo);
  ask_and_unref (memo, &fixture->first_args[0], 7);
  tarn_memo_unref (memo);
  g_assert_false (fixture->function.is_destroyed);
  ask_and_unref (memo, &fixture->first_args[0], 7);
  assert_calls (memo, 1, 1, 0);
  tarn_memo_unref (g_steal_pointer (&fixture->memo));
  g_assert_true (fixture->function.is_destroyed);
  g_assert_cmpuint (live (fixture), ==, 0);
}

static gpointer
compute_null (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  (void) first_arg;
  (void) key;
  (void) user_data;
  (void) error;
  return NULL;
}

static void
test_null_value (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = memo_fixture_make (fixture);

  (void) unused;
  fixture->function.compute = compute_null;
  for (guint i = 0; i < 3; i++)
    {
      g_autoptr (GError) error = NULL;
      gpointer value = memo;

      g_assert_true (tarn_memo_get (memo, &fixture->first_args[0], NULL, &value, &error));
      g_assert_no_error (error);
      g_assert_null (value);
    }
  assert_calls (memo, 2, 1, 0);
  assert_entries (memo, 1);
  tarn_memo_clear (memo);
  assert_entries (memo, 0);
  g_assert_true (tarn_memo_get (memo, &fixture->first_args[0], NULL, NULL, NULL));
  assert_calls (memo, 2, 2, 0);
}

/* Fails on even keys. */
static gpointer
compute_odd (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  gint number = GPOINTER_TO_INT (key);

  if (number % 2 != 0)
    return fake_value_new (user_data, first_arg, number);
  g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED, "%d is even", number);
  return NULL;
}

static void
test_error (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = memo_fixture_make (fixture);
  FakeFirstArg *a = &fixture->first_args[0];
  TarnMemoStats stats = TARN_MEMO_STATS_INIT;
  g_autoptr (GError) error = NULL;

  (void) unused;
  fixture->function.compute = compute_odd;
  ask_in_vain (memo, a, 2, TARN_ERROR_NOT_SUPPORTED); /* which asks twice */
  g_assert_cmpuint (fixture->function.n_computed, ==, 2);
  ask_and_unref (memo, a, 3);
  g_assert_false (tarn_memo_get (memo, a, GINT_TO_POINTER (4), NULL, &error));
  g_assert_cmpstr (error->message, ==, "4 is even");
  tarn_memo_get_stats (memo, &stats);
  g_assert_cmpuint (stats.misses, ==, 4);
  g_assert_cmpuint (stats.failures, ==, 3);
  g_assert_cmpuint (stats.entries, ==, 1);

  fixture->function.compute = NULL;
  ask_and_unref (memo, a, 2);
  ask_and_unref (memo, a, 2);
  assert_calls (memo, 1, 5, 0);
}

/* Nothing that failed keeps a reference on its first argument. */
static void
test_error_references (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = memo_fixture_make (fixture);

  (void) unused;
  fixture->function.compute = compute_odd;
  ask_in_vain (memo, &fixture->first_args[0], 2, TARN_ERROR_NOT_SUPPORTED);
  tarn_memo_clear (memo);
  assert_no_references (fixture);
}

static gpointer
compute_both (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_LIMIT, "and yet it gives a value");
  return fake_value_new (user_data, first_arg, GPOINTER_TO_INT (key));
}

static void
test_error_and_value (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = memo_fixture_make (fixture);
  g_autoptr (GError) error = NULL;
  gpointer value = memo;

  (void) unused;
  fixture->function.compute = compute_both;
  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, "*");
  g_assert_false (tarn_memo_get (memo, &fixture->first_args[0], NULL, &value, &error));
  g_test_assert_expected_messages ();
  g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
  g_assert_true (value == memo);
  g_assert_cmpuint (fixture->function.n_values, ==, 1);
  g_assert_cmpuint (live (fixture), ==, 0);
  g_assert_cmpuint (fixture->function.n_dead, ==, 0);
  assert_entries (memo, 0);
}

/* Without a place for the value, there is no reference to give back. */
static void
test_warm (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = memo_fixture_make (fixture);
  FakeFirstArg *a = &fixture->first_args[0];
  FakeValue *value;

  (void) unused;
  g_assert_true (tarn_memo_get (memo, a, GINT_TO_POINTER (7), NULL, NULL));
  g_assert_true (tarn_memo_get (memo, a, GINT_TO_POINTER (7), NULL, NULL));
  assert_calls (memo, 1, 1, 0);
  value = ask (memo, a, 7);
  g_assert_cmpuint (value->n_refs, ==, 2);
  fake_value_unref (value);
}

static void
test_borrowed (MemoFixture *fixture, gconstpointer unused)
{
  FakeFirstArg *a = &fixture->first_args[0];
  TarnMemo *memo;
  FakeValue *value;

  (void) unused;
  fixture->ops.ref_value = NULL;
  memo = memo_fixture_make (fixture);
  value = ask (memo, a, 7);
  g_assert_true (ask (memo, a, 7) == value);
  g_assert_cmpuint (value->n_refs, ==, 1);
  tarn_memo_forget (memo, a);
  g_assert_true (value->is_gone);
  g_assert_true (ask (memo, a, 7) != value);
}

static gpointer
compute_sum (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  guint *n_computed = user_data;

  (void) error;
  (*n_computed)++;
  return (gchar *) first_arg + GPOINTER_TO_SIZE (key);
}

/* Keys and values as they are, and a first argument of NULL like any other. */
static void
test_plain (void)
{
  guint n_computed = 0;
  g_autoptr (TarnMemo) memo = tarn_memo_new (NULL, compute_sum, &n_computed, NULL);
  gchar first_arg[8];
  gpointer value;

  for (guint i = 0; i < 4; i++)
    {
      g_assert_true (tarn_memo_get (memo, first_arg, GSIZE_TO_POINTER (i % 2), &value, NULL));
      g_assert_true (value == first_arg + i % 2);
      g_assert_true (tarn_memo_get (memo, NULL, GSIZE_TO_POINTER (i % 2 + 5), &value, NULL));
      g_assert_true (value == GSIZE_TO_POINTER (i % 2 + 5));
    }
  assert_calls (memo, 4, 4, 0);
  tarn_memo_forget (memo, NULL);
  assert_entries (memo, 2);
  g_assert_true (tarn_memo_get (memo, NULL, GSIZE_TO_POINTER (5), NULL, NULL));
  g_assert_true (tarn_memo_get (memo, first_arg, NULL, NULL, NULL));
  assert_calls (memo, 5, 5, 0);
  g_assert_cmpuint (n_computed, ==, 5);
}

/* The most entries */

/* Whether an entry is kept; asking makes it the one asked for last. */
static gboolean
is_kept (MemoFixture *fixture, gpointer first_arg, gint number)
{
  guint before = fixture->function.n_computed;

  ask_and_unref (fixture->memo, first_arg, number);
  return fixture->function.n_computed == before;
}

static void
test_max_entries (MemoFixture *fixture, gconstpointer unused)
{
  FakeFirstArg *a = &fixture->first_args[0], *b = &fixture->first_args[1];

  (void) unused;
  fixture->ops.max_entries = 3;
  memo_fixture_make (fixture);
  for (gint i = 1; i <= 3; i++)
    {
      g_assert_false (is_kept (fixture, a, i));
      g_assert_false (is_kept (fixture, b, i));
    }
  assert_evictions (fixture->memo, 6, 0);
  g_assert_true (is_kept (fixture, a, 1));
  g_assert_false (is_kept (fixture, a, 4)); /* 2 goes */
  assert_evictions (fixture->memo, 6, 1);
  g_assert_cmpuint (live (fixture), ==, 6);
  g_assert_true (is_kept (fixture, a, 3));
  g_assert_true (is_kept (fixture, a, 1));
  g_assert_true (is_kept (fixture, a, 4));
  g_assert_false (is_kept (fixture, a, 2)); /* 3 goes */
  g_assert_true (is_kept (fixture, a, 1));
  g_assert_true (is_kept (fixture, a, 4));
  g_assert_false (is_kept (fixture, a, 3)); /* 2 goes */
  assert_evictions (fixture->memo, 6, 3);
  for (gint i = 1; i <= 3; i++)
    g_assert_true (is_kept (fixture, b, i));
  g_assert_cmpuint (fixture->function.n_dead, ==, 0);
}

/* Only to warm counts as asking. */
static void
test_max_entries_warm (MemoFixture *fixture, gconstpointer unused)
{
  FakeFirstArg *a = &fixture->first_args[0];

  (void) unused;
  fixture->ops.max_entries = 2;
  memo_fixture_make (fixture);
  ask_and_unref (fixture->memo, a, 1);
  ask_and_unref (fixture->memo, a, 2);
  g_assert_true (tarn_memo_get (fixture->memo, a, GINT_TO_POINTER (1), NULL, NULL));
  ask_and_unref (fixture->memo, a, 3);
  g_assert_true (is_kept (fixture, a, 1));
  g_assert_false (is_kept (fixture, a, 2));
}

static void
test_one_entry (MemoFixture *fixture, gconstpointer unused)
{
  FakeFirstArg *a = &fixture->first_args[0];
  FakeValue *value;

  (void) unused;
  fixture->ops.max_entries = 1;
  memo_fixture_make (fixture);
  fixture->function.compute = compute_odd;
  value = ask (fixture->memo, a, 1);
  g_assert_true (is_kept (fixture, a, 1));
  ask_in_vain (fixture->memo, a, 2, TARN_ERROR_NOT_SUPPORTED);
  g_assert_true (is_kept (fixture, a, 1)); /* a failure takes nobody's place */
  assert_evictions (fixture->memo, 1, 0);
  ask_and_unref (fixture->memo, a, 3);
  assert_evictions (fixture->memo, 1, 1);
  g_assert_cmpuint (value->n_refs, ==, 1);
  g_assert_false (is_kept (fixture, a, 1));
  fake_value_unref (value);
  assert_evictions (fixture->memo, 1, 2);
}

/* NULL takes a place as any value does; what was forgotten takes none. */
static void
test_max_entries_null (MemoFixture *fixture, gconstpointer unused)
{
  FakeFirstArg *a = &fixture->first_args[0];

  (void) unused;
  fixture->ops.max_entries = 2;
  memo_fixture_make (fixture);
  fixture->function.compute = compute_null;
  for (gint i = 1; i <= 3; i++)
    g_assert_true (tarn_memo_get (fixture->memo, a, GINT_TO_POINTER (i), NULL, NULL));
  assert_evictions (fixture->memo, 2, 1);
  tarn_memo_forget (fixture->memo, a);
  fixture->function.compute = NULL;
  ask_and_unref (fixture->memo, a, 1);
  ask_and_unref (fixture->memo, a, 2);
  assert_evictions (fixture->memo, 2, 1);
}

/* Statistics */

static void
test_stats_of_other_versions (MemoFixture *fixture, gconstpointer unused)
{
  struct
  {
    TarnMemoStats stats;
    guint64 later;
  } newer = { TARN_MEMO_STATS_INIT, 77 };
  TarnMemoStats older = TARN_MEMO_STATS_INIT;
  TarnMemo *memo = memo_fixture_make (fixture);

  (void) unused;
  ask_and_unref (memo, &fixture->first_args[0], 1);
  newer.stats.struct_size = sizeof newer;
  tarn_memo_get_stats (memo, &newer.stats);
  g_assert_cmpuint (newer.stats.struct_size, ==, sizeof newer);
  g_assert_cmpuint (newer.stats.misses, ==, 1);
  g_assert_cmpuint (newer.later, ==, 0);

  older.struct_size = G_STRUCT_OFFSET (TarnMemoStats, misses);
  older.misses = 4711;
  tarn_memo_get_stats (memo, &older);
  g_assert_cmpuint (older.struct_size, ==, G_STRUCT_OFFSET (TarnMemoStats, misses));
  g_assert_cmpuint (older.entries, ==, 1);
  g_assert_cmpuint (older.misses, ==, 4711);
}

static gpointer
compute_for_a_while (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  gint64 end = g_get_monotonic_time () + 1000;

  while (g_get_monotonic_time () <= end)
    ;
  return compute_odd (first_arg, key, user_data, error);
}

/* Also of a computation that fails; a hit takes none. */
static void
test_compute_seconds (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = memo_fixture_make (fixture);
  TarnMemoStats stats[4]
      = { TARN_MEMO_STATS_INIT, TARN_MEMO_STATS_INIT, TARN_MEMO_STATS_INIT, TARN_MEMO_STATS_INIT };

  (void) unused;
  fixture->function.compute = compute_for_a_while;
  tarn_memo_get_stats (memo, &stats[0]);
  g_assert_cmpfloat (stats[0].compute_seconds, ==, 0);
  ask_and_unref (memo, &fixture->first_args[0], 1);
  tarn_memo_get_stats (memo, &stats[1]);
  g_assert_cmpfloat (stats[1].compute_seconds, >, 0);
  g_assert_cmpfloat (stats[1].compute_seconds, <, 60);
  ask_and_unref (memo, &fixture->first_args[0], 1);
  tarn_memo_get_stats (memo, &stats[2]);
  g_assert_cmpfloat (stats[2].compute_seconds, ==, stats[1].compute_seconds);
  ask_in_vain (memo, &fixture->first_args[0], 2, TARN_ERROR_NOT_SUPPORTED);
  tarn_memo_get_stats (memo, &stats[3]);
  g_assert_cmpfloat (stats[3].compute_seconds, >, stats[2].compute_seconds);
}

/* What a memo is made of */

static void
refuse (const TarnMemoOps *ops, const gchar *pattern)
{
  guint n_computed = 0;

  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, pattern);
  g_assert_null (tarn_memo_new (ops, compute_sum, &n_computed, NULL));
  g_test_assert_expected_messages ();
}

static void
test_ops_of_other_versions (void)
{
  struct
  {
    TarnMemoOps ops;
    gpointer later;
  } newer = { TARN_MEMO_OPS_INIT, NULL };
  TarnMemoOps older = TARN_MEMO_OPS_INIT;
  guint n_computed = 0;
  TarnMemo *memo;

  newer.ops.struct_size = sizeof newer;
  memo = tarn_memo_new (&newer.ops, compute_sum, &n_computed, NULL);
  g_assert_nonnull (memo);
  tarn_memo_unref (memo);
  newer.later = &newer;
  refuse (&newer.ops, "*");

  older.struct_size = 0;
  refuse (&older, "*");
  older.struct_size = sizeof older.struct_size - 1;
  refuse (&older, "*");
}

/* A thread's own value has to be given back by somebody. */
static void
test_for_thread_needs (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemoOps ops = fixture->ops;

  (void) unused;
  ops.value_for_thread = fake_value_for_thread;
  ops.ref_value = NULL;
  refuse (&ops, "*value_for_thread*");
  ops.unref_value = NULL;
  refuse (&ops, "*value_for_thread*");
  ops.ref_value = fixture->ops.ref_value;
  refuse (&ops, "*value_for_thread*");
}

/* The nth time that a value or first argument is referenced, and all others, it cannot be. */
static guint n_references, n_left;

static gpointer
refuse_later (gpointer unused, gpointer object)
{
  (void) unused;
  if (n_left == 0)
    return NULL;
  n_left--;
  n_references++;
  return object;
}

static void
release_value (gpointer unused, gpointer value, gpointer first_arg, gboolean is_dead)
{
  (void) unused;
  (void) value;
  (void) first_arg;
  (void) is_dead;
  n_references--;
}

static void
release_first_arg (gpointer unused, gpointer first_arg)
{
  (void) unused;
  (void) first_arg;
  n_references--;
}

static gpointer
compute_reference (gpointer first_arg, gconstpointer key, gpointer unused, GError **error)
{
  (void) key;
  (void) unused;
  (void) error;
  n_references++;
  return first_arg;
}

/* What cannot be referenced is not kept, and not given; what is kept stays. */
static void
test_no_reference (void)
{
  TarnMemoOps ops = TARN_MEMO_OPS_INIT;
  TarnMemo *memo;
  gint context;

  ops.ref_value = ops.ref_first_arg = refuse_later;
  ops.unref_value = release_value;
  ops.unref_first_arg = release_first_arg;
  memo = tarn_memo_new (&ops, compute_reference, NULL, NULL);
  for (guint n = 0; n < 4; n++)
    {
      TarnMemoStats stats = TARN_MEMO_STATS_INIT;
      g_autoptr (GError) error = NULL;
      gpointer value = NULL;

      n_references = 0;
      n_left = n; /* the first argument's, the entry's and the caller's are three */
      if (tarn_memo_get (memo, &context, NULL, &value, &error))
        release_value (NULL, value, NULL, FALSE);
      else
        {
          g_assert_error (error, TARN_ERROR, TARN_ERROR_FAILED);
          g_assert_cmpstr (error->message, ==,
                           "the memo could not take a reference to the value for the caller, "
                           "because ref_value returned NULL: call tarn_memo_forget () to compute "
                           "it again");
        }
      g_assert_true ((error == NULL) == (n == 3));
      tarn_memo_get_stats (memo, &stats);
      g_assert_cmpuint (stats.entries, ==, n >= 2);
      tarn_memo_clear (memo);
      g_assert_cmpuint (n_references, ==, 0);
    }
  tarn_memo_unref (memo);
}

int
main (int argc, char **argv)
{
#define ADD(path, func)                                                                            \
  g_test_add ("/core/memo/" path, MemoFixture, NULL, memo_fixture_set_up, func,                    \
              memo_fixture_tear_down)
  g_test_init (&argc, &argv, NULL);
  ADD ("hit", test_hit);
  ADD ("first-args", test_first_args);
  ADD ("value-outlives-memo", test_value_outlives_memo);
  ADD ("references", test_memo_references);
  ADD ("null-value", test_null_value);
  ADD ("error", test_error);
  ADD ("error-references", test_error_references);
  ADD ("error-and-value", test_error_and_value);
  ADD ("warm", test_warm);
  ADD ("borrowed", test_borrowed);
  g_test_add_func ("/core/memo/plain", test_plain);
  ADD ("max-entries", test_max_entries);
  ADD ("max-entries-warm", test_max_entries_warm);
  ADD ("max-entries-null", test_max_entries_null);
  ADD ("one-entry", test_one_entry);
  ADD ("stats-of-other-versions", test_stats_of_other_versions);
  ADD ("compute-seconds", test_compute_seconds);
  g_test_add_func ("/core/memo/ops-of-other-versions", test_ops_of_other_versions);
  ADD ("for-thread-needs", test_for_thread_needs);
  g_test_add_func ("/core/memo/no-reference", test_no_reference);
  return g_test_run ();
}
