/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * First arguments of memos: forgetting them here and upstream, dead ones, the current one. */

#include <string.h>

#include "lib/fake-function.h"

/* Forgetting */

static void
fill (TarnMemo *memo, MemoFixture *fixture)
{
  for (guint i = 0; i < G_N_ELEMENTS (fixture->first_args); i++)
    for (gint number = 1; number <= 3; number++)
      ask_and_unref (memo, &fixture->first_args[i], number);
}

static void
test_forget (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = memo_fixture_make (fixture);
  FakeFirstArg *args = fixture->first_args;

  (void) unused;
  tarn_memo_forget (memo, &args[0]);
  fill (memo, fixture);
  tarn_memo_forget (memo, &args[1]);
  g_assert_cmpuint (args[1].n_refs, ==, 0);
  g_assert_cmpuint (live (fixture), ==, 6);
  assert_entries (memo, 6);
  tarn_memo_forget (memo, &args[1]);
  fill (memo, fixture);
  assert_calls (memo, 6, 12, 0);
  assert_evictions (memo, 9, 0);
  g_assert_cmpuint (fixture->function.n_dead, ==, 0);
}

static void
test_clear (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = memo_fixture_make (fixture);

  (void) unused;
  tarn_memo_clear (memo);
  fill (memo, fixture);
  tarn_memo_clear (memo);
  assert_no_references (fixture);
  g_assert_cmpuint (live (fixture), ==, 0);
  assert_evictions (memo, 0, 0);
  assert_calls (memo, 0, 9, 0);
  fill (memo, fixture);
  assert_calls (memo, 0, 18, 0);
  g_assert_cmpuint (fixture->function.n_dead, ==, 0);
}

static void
test_clear_first_arg (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = memo_fixture_make (fixture);
  TarnMemo *other = memo_fixture_make_other (fixture);
  FakeFirstArg *args = fixture->first_args;

  (void) unused;
  fill (memo, fixture);
  fill (other, fixture);
  tarn_memo_forget_everywhere (&args[2]);
  g_assert_cmpuint (args[2].n_refs, ==, 0);
  assert_entries (memo, 6);
  assert_entries (other, 6);
  tarn_memo_clear_all ();
  assert_no_references (fixture);
  assert_entries (memo, 0);
  assert_entries (other, 0);
  g_assert_cmpuint (live (fixture), ==, 0);
  g_assert_cmpuint (fake_function_get_live (&fixture->other), ==, 0);
  tarn_memo_forget_everywhere (&args[2]);
  tarn_memo_clear_all ();
}

static void
test_clear_kind (MemoFixture *fixture, gconstpointer unused)
{
  g_autofree gchar *kind = g_strdup ("first-kind");
  TarnMemo *memo, *other;

  (void) unused;
  fixture->ops.first_arg_kind = kind;
  memo = memo_fixture_make (fixture);
  memset (kind, 'x', strlen (kind)); /* it was copied */
  fixture->ops.first_arg_kind = NULL;
  other = memo_fixture_make_other (fixture);
  fill (memo, fixture);
  fill (other, fixture);

  tarn_memo_clear_kind ("first");
  tarn_memo_clear_kind ("");
  tarn_memo_clear_kind (kind);
  assert_entries (memo, 9);
  tarn_memo_clear_kind ("first-kind");
  assert_entries (memo, 0);
  assert_entries (other, 9);
  tarn_memo_clear_all ();
  assert_entries (other, 0);
  assert_no_references (fixture);
}

/* Upstream: the memo asks the other one for the same first argument and key. */

static gpointer
compute_from_upstream (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  FakeFunction *function = user_data;
  gpointer below;

  if (!tarn_memo_get (function->data, first_arg, key, &below, error))
    return NULL;
  fake_value_unref (below);
  return fake_value_new (function, first_arg, GPOINTER_TO_INT (key));
}

static void
make_upstream (MemoFixture *fixture)
{
  fixture->ops.upstream = memo_fixture_make_other (fixture);
  fixture->function.compute = compute_from_upstream;
  fixture->function.data = fixture->other_memo;
  memo_fixture_make (fixture);
}

static void
test_upstream (MemoFixture *fixture, gconstpointer unused)
{
  FakeFirstArg *args = fixture->first_args;

  (void) unused;
  make_upstream (fixture);
  fill (fixture->memo, fixture);
  assert_entries (fixture->other_memo, 9);
  ask_and_unref (fixture->other_memo, &args[0], 100);
  tarn_memo_forget (fixture->memo, &args[0]);
  assert_entries (fixture->memo, 6);
  assert_entries (fixture->other_memo, 6);
  tarn_memo_forget (fixture->other_memo, &args[1]); /* upstream of nothing */
  assert_entries (fixture->memo, 6);
  assert_entries (fixture->other_memo, 3);
  tarn_memo_forget (fixture->memo, &args[1]);
  tarn_memo_forget (fixture->memo, &args[2]);
  assert_no_references (fixture);

  ask_and_unref (fixture->other_memo, &args[1], 5); /* of which the memo knows nothing */
  tarn_memo_forget (fixture->memo, &args[1]);
  assert_entries (fixture->other_memo, 0);
}

static void
test_upstream_clear (MemoFixture *fixture, gconstpointer unused)
{
  (void) unused;
  make_upstream (fixture);
  fill (fixture->memo, fixture);
  tarn_memo_clear (fixture->memo);
  assert_entries (fixture->memo, 0);
  assert_entries (fixture->other_memo, 0);
  assert_no_references (fixture);
}

/* What is downstream goes first: it may use what is upstream. */
static void
assert_upstream_is_live (FakeFunction *function, FakeValue *value)
{
  MemoFixture *fixture = function->data;

  (void) value;
  g_assert_cmpuint (fake_function_get_live (&fixture->other), ==, 9);
}

static void
test_upstream_order (MemoFixture *fixture, gconstpointer unused)
{
  FakeFirstArg *args = fixture->first_args;

  (void) unused;
  make_upstream (fixture);
  fill (fixture->memo, fixture);
  fixture->function.on_unref = assert_upstream_is_live;
  fixture->function.data = fixture;
  tarn_memo_forget (fixture->memo, &args[0]);
  g_assert_cmpuint (live (fixture), ==, 6);
  g_assert_cmpuint (fake_function_get_live (&fixture->other), ==, 6);
  fixture->function.on_unref = NULL;
}

static void
test_upstream_reference (MemoFixture *fixture, gconstpointer unused)
{
  (void) unused;
  make_upstream (fixture);
  tarn_memo_unref (g_steal_pointer (&fixture->other_memo));
  g_assert_false (fixture->other.is_destroyed);
  fill (fixture->memo, fixture);
  tarn_memo_unref (g_steal_pointer (&fixture->memo));
  g_assert_true (fixture->function.is_destroyed);
  g_assert_true (fixture->other.is_destroyed);
}

/* Upstream's upstream. */
static void
test_upstream_chain (MemoFixture *fixture, gconstpointer unused)
{
  FakeFunction third;
  TarnMemo *memo;

  (void) unused;
  make_upstream (fixture);
  fake_function_init (&third);
  third.compute = compute_from_upstream;
  third.data = fixture->memo;
  fixture->ops.upstream = fixture->memo;
  memo = fake_function_memo_new (&third, &fixture->ops);
  fill (memo, fixture);
  tarn_memo_forget (memo, &fixture->first_args[1]);
  assert_entries (memo, 6);
  assert_entries (fixture->memo, 6);
  assert_entries (fixture->other_memo, 6);
  tarn_memo_unref (memo);
  fake_function_clear (&third);
}

/* First arguments that have an id in place of references */

static TarnMemo *
make_with_ids (MemoFixture *fixture)
{
  fixture->ops.ref_first_arg = NULL;
  fixture->ops.unref_first_arg = NULL;
  fixture->ops.first_arg_id = fake_first_arg_id;
  return memo_fixture_make (fixture);
}

static void
test_id (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = make_with_ids (fixture);

  (void) unused;
  fill (memo, fixture);
  fill (memo, fixture);
  assert_calls (memo, 9, 9, 0);
  tarn_memo_forget (memo, &fixture->first_args[0]);
  assert_entries (memo, 6);
  tarn_memo_forget_everywhere (&fixture->first_args[1]);
  assert_entries (memo, 3);
  tarn_memo_clear (memo);
  g_assert_cmpuint (live (fixture), ==, 0);
  g_assert_cmpuint (fixture->function.n_dead, ==, 0);
}

/* Another first argument at the address of one that is gone. */
static void
test_same_address (MemoFixture *fixture, gconstpointer unused)
{
  FakeFirstArg *a = &fixture->first_args[0];
  TarnMemo *memo = make_with_ids (fixture);
  FakeValue *value;

  (void) unused;
  value = ask (memo, a, 1);
  ask_and_unref (memo, a, 2);
  a->id = 100;
  g_assert_true (ask (memo, a, 1) != value);
  assert_calls (memo, 0, 3, 0);
  assert_entries (memo, 1);
  g_assert_cmpuint (fixture->function.n_dead, ==, 2);
  g_assert_cmpuint (value->n_refs, ==, 1);
  fake_value_unref (value);
  fake_value_unref (ask (memo, a, 1));
  assert_calls (memo, 1, 3, 0);
  value = ask (memo, a, 1);
  g_assert_cmpuint (value->n_refs, ==, 3);
  fake_value_unref (value);
  fake_value_unref (value); /* the first one's reference */
}

static void
test_dead (MemoFixture *fixture, gconstpointer unused)
{
  FakeFirstArg *args = fixture->first_args;
  TarnMemo *memo = make_with_ids (fixture);

  (void) unused;
  fill (memo, fixture);
  args[1].id = 0;
  ask_in_vain (memo, &args[1], 1, TARN_ERROR_CONTEXT_LOST);
  ask_in_vain (memo, &args[1], 10, TARN_ERROR_CONTEXT_LOST);
  assert_calls (memo, 0, 9, 0); /* which did not get to looking it up */
  /* Nothing is asked of one that is not named: what is there may be anything by now. */
  ask_and_unref (memo, &args[0], 10);
  g_assert_cmpuint (fixture->function.n_dead, ==, 0);
  assert_entries (memo, 10);
  args[1].id = 100;
  ask_and_unref (memo, &args[1], 1);
  g_assert_cmpuint (fixture->function.n_computed, ==, 11);
  g_assert_cmpuint (live (fixture), ==, 8);
  g_assert_cmpuint (fixture->function.n_dead, ==, 3);
}

/* Whoever clears has dead ones given back as such. */
static void
test_clear_dead (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = make_with_ids (fixture);

  (void) unused;
  fill (memo, fixture);
  fixture->first_args[0].id = 0;
  fixture->first_args[1].id = 100;
  tarn_memo_clear (memo);
  g_assert_cmpuint (live (fixture), ==, 0);
  g_assert_cmpuint (fixture->function.n_dead, ==, 6);
}

static void
test_unref_dead (MemoFixture *fixture, gconstpointer unused)
{
  (void) unused;
  fill (make_with_ids (fixture), fixture);
  fixture->first_args[2].id = 0;
  tarn_memo_unref (g_steal_pointer (&fixture->memo));
  g_assert_cmpuint (fixture->function.n_dead, ==, 3);
}

static void
count_of_dying (FakeFunction *function, FakeValue *value)
{
  if (value->first_arg == function->data)
    count (&function->n_hooked);
}

static gpointer
compute_and_die (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  FakeFunction *function = user_data;

  (void) error;
  ((FakeFirstArg *) first_arg)->id = 0;
  function->data = first_arg;
  function->on_unref = count_of_dying;
  return fake_value_new (user_data, first_arg, GPOINTER_TO_INT (key));
}

/* Whoever asked may get the value or be told; nothing stays, and all that the memo gives back is
 * given back as a dead one's. */
static void
test_die_meanwhile (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = make_with_ids (fixture);
  gpointer value = NULL;

  (void) unused;
  fixture->function.compute = compute_and_die;
  if (tarn_memo_get (memo, &fixture->first_args[0], NULL, &value, NULL))
    fake_value_unref (value);
  fixture->function.compute = NULL;
  fixture->first_args[0].id = 200;
  ask_and_unref (memo, &fixture->first_args[0], 1);
  g_assert_cmpuint (live (fixture), ==, 1);
  g_assert_cmpuint (fixture->function.n_hooked, >=, 1);
  /* One is of the value that was computed last, whose first argument lives. */
  g_assert_cmpuint (fixture->function.n_dead + 1, ==, fixture->function.n_hooked);
  assert_entries (memo, 1);
}

/* NULL, where there is a current one */

static void
test_current (MemoFixture *fixture, gconstpointer unused)
{
  FakeFirstArg *a = &fixture->first_args[0], *b = &fixture->first_args[1];
  TarnMemo *memo;
  FakeValue *value;

  (void) unused;
  fixture->ops.current_first_arg = fake_current_first_arg;
  memo = memo_fixture_make (fixture);
  ask_in_vain (memo, NULL, 1, TARN_ERROR_NO_CONTEXT);
  assert_calls (memo, 0, 0, 0);
  fixture->function.current = a;
  value = ask (memo, NULL, 1);
  g_assert_true (value->first_arg == a);
  g_assert_true (ask (memo, a, 1) == value);
  assert_calls (memo, 1, 1, 0);
  fixture->function.current = b;
  ask_and_unref (memo, NULL, 1);
  assert_calls (memo, 1, 2, 0);
  g_assert_true (ask (memo, a, 1) == value);
  fixture->function.current = NULL;
  ask_in_vain (memo, NULL, 1, TARN_ERROR_NO_CONTEXT);
  ask_and_unref (memo, b, 1);
  assert_calls (memo, 3, 2, 0);
  for (guint i = 0; i < 3; i++)
    fake_value_unref (value);
  tarn_memo_forget (memo, a);
  g_assert_cmpuint (a->n_refs, ==, 0);
  assert_entries (memo, 1);
}

static void
test_current_dead (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo;

  (void) unused;
  fixture->ops.current_first_arg = fake_current_first_arg;
  memo = make_with_ids (fixture);
  fixture->function.current = &fixture->first_args[0];
  ask_and_unref (memo, NULL, 1);
  fixture->first_args[0].id = 0;
  ask_in_vain (memo, NULL, 1, TARN_ERROR_CONTEXT_LOST);
}

/* While a memo forgets, and its upstream has not yet, another call may make an entry of what
 * upstream still has: here, what gives the old one back does. */
static TarnMemo *asked_again;

static gpointer
compute_upstream (gpointer first_arg, gconstpointer key, gpointer unused, GError **error)
{
  (void) key;
  (void) unused;
  (void) error;
  return first_arg;
}

static gpointer
ask_upstream (gpointer first_arg, gconstpointer key, gpointer upstream, GError **error)
{
  gpointer value;

  return tarn_memo_get (upstream, first_arg, key, &value, error) ? value : NULL;
}

static void
ask_again (gpointer unused, gpointer value, gpointer first_arg, gboolean is_dead)
{
  TarnMemo *memo = g_steal_pointer (&asked_again);

  (void) unused;
  (void) value;
  (void) is_dead;
  if (memo != NULL)
    g_assert_true (tarn_memo_get (memo, first_arg, NULL, NULL, NULL));
}

static void
test_upstream_meanwhile (void)
{
  g_autoptr (TarnMemo) upstream = tarn_memo_new (NULL, compute_upstream, NULL, NULL);
  TarnMemoOps ops = TARN_MEMO_OPS_INIT;
  TarnMemoStats stats = TARN_MEMO_STATS_INIT;
  g_autoptr (TarnMemo) memo = NULL;
  gint context;

  ops.upstream = upstream;
  ops.unref_value = ask_again;
  memo = tarn_memo_new (&ops, ask_upstream, upstream, NULL);
  for (guint i = 0; i < 2; i++)
    {
      g_assert_true (tarn_memo_get (memo, &context, NULL, NULL, NULL));
      asked_again = memo;
      if (i == 0)
        tarn_memo_forget (memo, &context);
      else
        tarn_memo_clear (memo);
      tarn_memo_get_stats (memo, &stats);
      g_assert_cmpuint (stats.entries, ==, 0);
    }
}

/* The functions for all memos forget a memo before its upstream.  In between, another call may make
 * an entry of what upstream has: here, the release of the value of a third memo does. */
static void
test_everywhere_meanwhile (void)
{
  TarnMemoOps ops = TARN_MEMO_OPS_INIT;
  g_autoptr (TarnMemo) upstream = NULL;
  g_autoptr (TarnMemo) third = NULL;
  g_autoptr (TarnMemo) memo = NULL;
  gint context;

  ops.first_arg_kind = "everywhere";
  upstream = tarn_memo_new (&ops, compute_upstream, NULL, NULL);
  ops.unref_value = ask_again;
  third = tarn_memo_new (&ops, compute_upstream, NULL, NULL);
  ops.unref_value = NULL;
  ops.upstream = upstream;
  memo = tarn_memo_new (&ops, ask_upstream, upstream, NULL);
  for (guint i = 0; i < 3; i++)
    {
      g_assert_true (tarn_memo_get (third, &context, NULL, NULL, NULL));
      asked_again = memo;
      if (i == 0)
        tarn_memo_forget_everywhere (&context);
      else if (i == 1)
        tarn_memo_clear_kind ("everywhere");
      else
        tarn_memo_clear_all ();
      g_assert_null (asked_again);
      assert_entries (upstream, 0);
      assert_entries (memo, 0);
    }
}

int
main (int argc, char **argv)
{
#define ADD(path, func)                                                                            \
  g_test_add ("/core/memo/first-args/" path, MemoFixture, NULL, memo_fixture_set_up, func,         \
              memo_fixture_tear_down)
  g_test_init (&argc, &argv, NULL);
  ADD ("forget", test_forget);
  ADD ("clear", test_clear);
  ADD ("clear-first-arg", test_clear_first_arg);
  ADD ("clear-kind", test_clear_kind);
  ADD ("upstream", test_upstream);
  ADD ("upstream-clear", test_upstream_clear);
  ADD ("upstream-order", test_upstream_order);
  ADD ("upstream-reference", test_upstream_reference);
  ADD ("upstream-chain", test_upstream_chain);
  ADD ("id", test_id);
  ADD ("same-address", test_same_address);
  ADD ("dead", test_dead);
  ADD ("clear-dead", test_clear_dead);
  ADD ("unref-dead", test_unref_dead);
  ADD ("die-meanwhile", test_die_meanwhile);
  ADD ("current", test_current);
  ADD ("current-dead", test_current_dead);
  g_test_add_func ("/core/memo/upstream-meanwhile", test_upstream_meanwhile);
  g_test_add_func ("/core/memo/everywhere-meanwhile", test_everywhere_meanwhile);
  return g_test_run ();
}
