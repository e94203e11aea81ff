/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * How long memos and what they keep live: functions of a memo that call it back, or drop it. */

#include "lib/fake-function.h"

/* Memos that go while they are used */

static void
test_unref_meanwhile (MemoFixture *fixture, gconstpointer unused)
{
  Asker askers[5];
  Gate gate;

  (void) unused;
  gate_init (&gate, 0);
  fixture->function.compute = compute_at_gate;
  fixture->function.data = &gate;
  memo_fixture_make (fixture);
  for (guint i = 0; i < G_N_ELEMENTS (askers); i++)
    asker_start (&askers[i], fixture->memo, &fixture->first_args[0], 1);
  await_waits (fixture->memo, G_N_ELEMENTS (askers) - 1);
  tarn_memo_unref (g_steal_pointer (&fixture->memo));
  g_assert_false (fixture->function.is_destroyed);
  gate_open (&gate);
  for (guint i = 0; i < G_N_ELEMENTS (askers); i++)
    asker_finish (&askers[i]);
  g_assert_true (fixture->function.is_destroyed);
  g_assert_cmpuint (fixture->function.n_computed, ==, 1);
  assert_no_references (fixture);
  gate_clear (&gate);
}

static void
drop_memo (FakeFunction *function)
{
  tarn_memo_unref (g_steal_pointer (&function->data));
}

static gpointer
compute_and_drop (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  (void) error;
  drop_memo (user_data);
  return fake_value_new (user_data, first_arg, GPOINTER_TO_INT (key));
}

static void
test_unref_in_compute (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = memo_fixture_make (fixture);
  FakeValue *value;

  (void) unused;
  ask_and_unref (memo, &fixture->first_args[0], 1);
  fixture->function.compute = compute_and_drop;
  fixture->function.data = g_steal_pointer (&fixture->memo);
  value = ask (memo, &fixture->first_args[0], 2);
  g_assert_true (fixture->function.is_destroyed);
  g_assert_cmpuint (value->n_refs, ==, 1);
  fake_value_unref (value);
}

static gpointer
fail_and_drop (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  (void) first_arg;
  (void) key;
  drop_memo (user_data);
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_LIMIT, "no");
  return NULL;
}

static void
test_unref_in_failing (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = memo_fixture_make (fixture);
  g_autoptr (GError) error = NULL;

  (void) unused;
  fixture->function.compute = fail_and_drop;
  fixture->function.data = g_steal_pointer (&fixture->memo);
  g_assert_false (tarn_memo_get (memo, &fixture->first_args[0], NULL, NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_LIMIT);
  g_assert_true (fixture->function.is_destroyed);
}

static void
drop_on_unref (FakeFunction *function, FakeValue *unused)
{
  (void) unused;
  drop_memo (function);
}

static void
test_unref_in_unref_value (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = memo_fixture_make (fixture);

  (void) unused;
  for (gint number = 1; number <= 3; number++)
    ask_and_unref (memo, &fixture->first_args[0], number);
  fixture->function.on_unref = drop_on_unref;
  fixture->function.data = g_steal_pointer (&fixture->memo);
  tarn_memo_forget (memo, &fixture->first_args[0]);
  g_assert_true (fixture->function.is_destroyed);
}

static void
clear_everything_of (FakeFunction *function)
{
  MemoFixture *fixture = function->data;

  tarn_memo_clear_all ();
  tarn_memo_forget_everywhere (&fixture->first_args[0]);
  ask_and_unref (fixture->other_memo, &fixture->first_args[1], 5);
  tarn_memo_unref (g_steal_pointer (&fixture->other_memo));
}

static void
test_destroy_calls (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = memo_fixture_make (fixture);
  TarnMemo *other = memo_fixture_make_other (fixture);

  (void) unused;
  ask_and_unref (memo, &fixture->first_args[0], 1);
  ask_and_unref (other, &fixture->first_args[0], 1);
  fixture->function.on_destroy = clear_everything_of;
  fixture->function.data = fixture;
  tarn_memo_unref (g_steal_pointer (&fixture->memo));
  g_assert_true (fixture->function.is_destroyed);
  g_assert_true (fixture->other.is_destroyed);
}

/* Functions that call back */

static void
look_and_clear (FakeFunction *function, FakeValue *value)
{
  TarnMemoStats stats = TARN_MEMO_STATS_INIT;
  MemoFixture *fixture = function->data;

  tarn_memo_get_stats (fixture->memo, &stats);
  tarn_memo_forget_everywhere (value->first_arg);
  tarn_memo_clear_all ();
  tarn_memo_clear_kind (fixture->ops.first_arg_kind);
  tarn_memo_forget (fixture->memo, value->first_arg);
  tarn_memo_clear (fixture->other_memo);
}

static void
fill (MemoFixture *fixture, TarnMemo *memo)
{
  for (guint i = 0; i < G_N_ELEMENTS (fixture->first_args); i++)
    for (gint number = 1; number <= 5; number++)
      ask_and_unref (memo, &fixture->first_args[i], number);
}

static void
test_unref_value_clears (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = memo_fixture_make (fixture);
  TarnMemo *other = memo_fixture_make_other (fixture);

  (void) unused;
  fill (fixture, memo);
  fill (fixture, other);
  fixture->function.on_unref = fixture->other.on_unref = look_and_clear;
  fixture->function.data = fixture->other.data = fixture;
  tarn_memo_forget (memo, &fixture->first_args[1]);
  g_assert_cmpuint (live (fixture), ==, 0);
  g_assert_cmpuint (fake_function_get_live (&fixture->other), ==, 0);
  assert_no_references (fixture);
  fixture->function.on_unref = fixture->other.on_unref = NULL;
}

/* Each entry that goes, by eviction also, asks for one of another first argument. */
static void
ask_elsewhere (FakeFunction *function, FakeValue *value)
{
  MemoFixture *fixture = function->data;

  if (value->first_arg == &fixture->first_args[0] && counted (&value->n_refs) == 1)
    ask_and_unref (fixture->memo, &fixture->first_args[1], value->number + 10);
}

static void
test_unref_value_asks (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo;

  (void) unused;
  fixture->ops.max_entries = 3;
  fixture->function.on_unref = ask_elsewhere;
  fixture->function.data = fixture;
  memo = memo_fixture_make (fixture);
  for (gint number = 1; number <= 4; number++)
    ask_and_unref (memo, &fixture->first_args[0], number);
  assert_evictions (memo, 4, 1);
  tarn_memo_forget (memo, &fixture->first_args[0]);
  g_assert_cmpuint (fixture->first_args[0].n_refs, ==, 0);
  assert_evictions (memo, 3, 2);
  assert_calls (memo, 0, 8, 0);
  fixture->function.on_unref = NULL;
}

static gpointer
compute_and_forget (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  MemoFixture *fixture = ((FakeFunction *) user_data)->data;

  (void) error;
  tarn_memo_forget (fixture->memo, first_arg);
  tarn_memo_forget_everywhere (first_arg);
  return fake_value_new (user_data, first_arg, GPOINTER_TO_INT (key));
}

static void
test_compute_forgets (MemoFixture *fixture, gconstpointer unused)
{
  FakeFirstArg *a = &fixture->first_args[0];
  TarnMemo *memo = memo_fixture_make (fixture);

  (void) unused;
  ask_and_unref (memo, a, 1);
  ask_and_unref (memo, &fixture->first_args[1], 1);
  fixture->function.compute = compute_and_forget;
  fixture->function.data = fixture;
  for (guint i = 0; i < 3; i++)
    {
      FakeValue *value = ask (memo, a, 2);

      g_assert_cmpuint (value->n_refs, ==, 1);
      fake_value_unref (value);
      g_assert_cmpuint (a->n_refs, ==, 0);
      assert_entries (memo, 1);
    }
  assert_calls (memo, 0, 5, 0);
}

static gpointer
compute_and_clear (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  MemoFixture *fixture = ((FakeFunction *) user_data)->data;
  FakeValue *value = fake_value_new (user_data, first_arg, GPOINTER_TO_INT (key));

  (void) error;
  ask_and_unref (fixture->other_memo, first_arg, 1);
  tarn_memo_clear (fixture->memo);
  ask_and_unref (fixture->other_memo, first_arg, 1);
  tarn_memo_clear_all ();
  ask_and_unref (fixture->other_memo, first_arg, 1);
  return value;
}

static void
test_compute_clears (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = memo_fixture_make (fixture);
  TarnMemo *other = memo_fixture_make_other (fixture);

  (void) unused;
  fill (fixture, memo);
  fill (fixture, other);
  fixture->function.compute = compute_and_clear;
  fixture->function.data = fixture;
  ask_and_unref (memo, &fixture->first_args[0], 100);
  g_assert_cmpuint (live (fixture), ==, 0);
  assert_entries (memo, 0);
  assert_entries (other, 1);
  assert_calls (other, 2, 16, 0);
}

static gpointer
compute_with_memo (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  TarnMemoOps ops;
  FakeFunction inner;
  TarnMemo *memo;

  (void) error;
  fake_function_ops_init (&ops);
  fake_function_init (&inner);
  memo = fake_function_memo_new (&inner, &ops);
  ask_and_unref (memo, first_arg, 1);
  tarn_memo_forget_everywhere (first_arg);
  ask_and_unref (memo, first_arg, 1);
  tarn_memo_unref (memo);
  fake_function_clear (&inner);
  return fake_value_new (user_data, first_arg, GPOINTER_TO_INT (key));
}

static void
test_compute_makes_memo (MemoFixture *fixture, gconstpointer unused)
{
  (void) unused;
  fixture->function.compute = compute_with_memo;
  ask_and_unref (memo_fixture_make (fixture), &fixture->first_args[0], 1);
  assert_entries (fixture->memo, 0);
}

/* What is given back with the last reference on the memo still finds it. */
static void
test_last_unref_clears (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = memo_fixture_make (fixture);

  (void) unused;
  memo_fixture_make_other (fixture);
  fill (fixture, memo);
  fixture->function.on_unref = look_and_clear;
  fixture->function.data = fixture;
  tarn_memo_unref (memo);
  g_assert_true (fixture->function.is_destroyed);
  fixture->memo = NULL;
}

/* ... may get something or nothing there, and leaves nothing. */
static void
ask_last (FakeFunction *function, FakeValue *value)
{
  MemoFixture *fixture = function->data;
  gpointer late;

  if (value->first_arg == &fixture->first_args[0]
      && tarn_memo_get (fixture->memo, &fixture->first_args[1], GINT_TO_POINTER (100), &late, NULL))
    fake_value_unref (late);
}

static void
test_last_unref_asks (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = memo_fixture_make (fixture);

  (void) unused;
  fill (fixture, memo);
  fixture->function.on_unref = ask_last;
  fixture->function.data = fixture;
  tarn_memo_unref (memo);
  fixture->memo = NULL;
  g_assert_true (fixture->function.is_destroyed);
  g_assert_cmpuint (live (fixture), ==, 0);
}

/* What has to go for a new entry is given back when those that wait for that can have it: here by a
 * function that asks for what one of them is computing. */

static gpointer
compute_from_memo (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  MemoFixture *fixture = ((FakeFunction *) user_data)->data;

  (void) error;
  ask_and_unref (fixture->memo, first_arg, 2);
  return fake_value_new (user_data, first_arg, GPOINTER_TO_INT (key));
}

static void
ask_other (FakeFunction *function, FakeValue *value)
{
  /* the first of a fixture's two functions; data is the gate */
  MemoFixture *fixture = (MemoFixture *) function;

  if (value->number == 1)
    ask_and_unref (fixture->other_memo, value->first_arg, 5);
}

static void
test_evicted_asks (MemoFixture *fixture, gconstpointer unused)
{
  Asker asker, other_asker;
  Gate gate;

  (void) unused;
  gate_init (&gate, 0);
  fixture->ops.max_entries = 1;
  ask_and_unref (memo_fixture_make (fixture), &fixture->first_args[0], 1);
  memo_fixture_make_other (fixture);
  fixture->function.compute = compute_at_gate;
  fixture->function.data = &gate;
  fixture->function.on_unref = ask_other;
  fixture->other.compute = compute_from_memo;
  fixture->other.data = fixture;
  asker_start (&asker, fixture->memo, &fixture->first_args[0], 2);
  gate_await (&gate, 1);
  asker_start (&other_asker, fixture->other_memo, &fixture->first_args[0], 5);
  await_waits (fixture->memo, 1);
  gate_open (&gate);
  asker_finish (&asker);
  asker_finish (&other_asker);
  gate_clear (&gate);
}

/* A hit that has found a value still has to take a reference: what forgets it lets that happen. The
 * hit goes on when it is forgotten, or after a while, as it must not wait for that. */

typedef struct
{
  gint is_found, is_forgotten; /* atomic */
} Moment;

static void
linger (FakeFunction *function)
{
  Moment *moment = function->data;
  gint64 end = g_get_monotonic_time () + 20000;

  g_atomic_int_set (&moment->is_found, TRUE);
  while (!g_atomic_int_get (&moment->is_forgotten) && g_get_monotonic_time () < end)
    g_thread_yield ();
}

static void
test_hit_meanwhile (MemoFixture *fixture, gconstpointer max_entries)
{
  Moment moment = { FALSE, FALSE };
  Asker asker;

  fixture->ops.max_entries = GPOINTER_TO_UINT (max_entries);
  ask_and_unref (memo_fixture_make (fixture), &fixture->first_args[0], 1);
  fixture->function.on_ref = linger;
  fixture->function.data = &moment;
  asker_start (&asker, fixture->memo, &fixture->first_args[0], 1);
  while (!g_atomic_int_get (&moment.is_found))
    g_thread_yield ();
  tarn_memo_forget (fixture->memo, &fixture->first_args[0]);
  g_atomic_int_set (&moment.is_forgotten, TRUE);
  asker_finish (&asker);
  g_assert_cmpuint (live (fixture), ==, 0);
  assert_calls (fixture->memo, 1, 1, 0);
}

/* Nobody has a reference on a value that is forgotten meanwhile: it goes, once, and nobody gets
 * it. */
static void
test_borrowed_meanwhile (MemoFixture *fixture, gconstpointer unused)
{
  Asker askers[5];
  Gate gate;

  (void) unused;
  gate_init (&gate, 0);
  fixture->ops.ref_value = NULL;
  fixture->function.compute = compute_at_gate;
  fixture->function.data = &gate;
  memo_fixture_make (fixture);
  for (guint i = 0; i < G_N_ELEMENTS (askers); i++)
    asker_start (&askers[i], fixture->memo, &fixture->first_args[0], 1);
  await_waits (fixture->memo, G_N_ELEMENTS (askers) - 1);
  tarn_memo_clear (fixture->memo);
  gate_open (&gate);
  for (guint i = 0; i < G_N_ELEMENTS (askers); i++)
    {
      asker_join (&askers[i]);
      g_assert_error (askers[i].error, TARN_ERROR, TARN_ERROR_FAILED);
      g_assert_null (askers[i].value);
      g_clear_error (&askers[i].error);
    }
  g_assert_cmpuint (live (fixture), ==, 0);
  g_assert_cmpuint (fixture->function.n_unrefs, ==, 1);
  gate_clear (&gate);
}

static gpointer
refuse_reference (gpointer unused, gpointer first_arg)
{
  (void) unused;
  (void) first_arg;
  return NULL;
}

/* Nor does anybody get a value that is released because its first argument cannot be kept. */
static void
test_borrowed_unkept (MemoFixture *fixture, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  gpointer value = NULL;
  gint64 key = 1;

  (void) unused;
  fixture->ops.ref_value = NULL;
  fixture->ops.ref_first_arg = refuse_reference;
  memo_fixture_make (fixture);
  g_assert_false (tarn_memo_get (fixture->memo, &fixture->first_args[0], &key, &value, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_FAILED);
  g_assert_null (value);
  g_assert_true (tarn_memo_get (fixture->memo, &fixture->first_args[0], &key, NULL, NULL));
  g_assert_cmpuint (live (fixture), ==, 0);
  g_assert_cmpuint (fixture->function.n_unrefs, ==, 2);
}

int
main (int argc, char **argv)
{
#define ADD_WITH(path, data, func)                                                                 \
  g_test_add ("/core/memo/lifetime/" path, MemoFixture, data, memo_fixture_set_up, func,           \
              memo_fixture_tear_down)
#define ADD(path, func) ADD_WITH (path, NULL, func)
  g_test_init (&argc, &argv, NULL);
  ADD ("unref-meanwhile", test_unref_meanwhile);
  ADD ("unref-in-compute", test_unref_in_compute);
  ADD ("unref-in-failing", test_unref_in_failing);
  ADD ("unref-in-unref-value", test_unref_in_unref_value);
  ADD ("destroy-calls", test_destroy_calls);
  ADD ("unref-value-clears", test_unref_value_clears);
  ADD ("unref-value-asks", test_unref_value_asks);
  ADD ("compute-forgets", test_compute_forgets);
  ADD ("compute-clears", test_compute_clears);
  ADD ("compute-makes-memo", test_compute_makes_memo);
  ADD ("last-unref-clears", test_last_unref_clears);
  ADD ("last-unref-asks", test_last_unref_asks);
  ADD ("evicted-asks", test_evicted_asks);
  ADD_WITH ("hit-meanwhile", GUINT_TO_POINTER (0), test_hit_meanwhile);
  ADD_WITH ("hit-meanwhile-max-entries", GUINT_TO_POINTER (5), test_hit_meanwhile);
  ADD ("borrowed-meanwhile", test_borrowed_meanwhile);
  ADD ("borrowed-unkept", test_borrowed_unkept);
  return g_test_run ();
}
