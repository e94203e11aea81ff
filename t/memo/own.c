/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Values that each thread has its own of. */

#include "lib/fake-function.h"
#include "lib/last-round.h"

/* A thread that has its own. */
typedef struct
{
  MemoFixture *fixture;
  gint number;
  Gate *gate; /* where it waits before it ends; nullable */
  FakeValue *value;
  GThread *thread;
} Owner;

/* n_uses is not atomic, so that ThreadSanitizer sees two threads that have the same. */
static gpointer
own (gpointer data)
{
  Owner *owner = data;
  MemoFixture *fixture = owner->fixture;
  FakeValue *again;

  owner->value = ask (fixture->memo, &fixture->first_args[0], owner->number);
  g_assert_nonnull (owner->value->of);
  owner->value->n_uses++;
  again = ask (fixture->memo, &fixture->first_args[0], owner->number);
  g_assert_true (again == owner->value);
  fake_value_unref (again);
  if (owner->gate != NULL)
    gate_pass (owner->gate);
  owner->value->n_uses++;
  fake_value_unref (owner->value);
  return NULL;
}

static void
owner_start (Owner *owner, MemoFixture *fixture, Gate *gate)
{
  *owner = (Owner){ .fixture = fixture, .number = 1, .gate = gate };
  owner->thread = g_thread_new ("owner", own, owner);
}

static TarnMemo *
make_owned (MemoFixture *fixture)
{
  fixture->ops.value_for_thread = fake_value_for_thread;
  return memo_fixture_make (fixture);
}

/* So many threads at once, and what each has. */
static void
own_together (MemoFixture *fixture, Owner *owners, guint n_owners)
{
  Gate gate;

  gate_init (&gate, 0);
  for (guint i = 0; i < n_owners; i++)
    owner_start (&owners[i], fixture, &gate);
  gate_await (&gate, n_owners);
  gate_open (&gate);
  for (guint i = 0; i < n_owners; i++)
    {
      g_thread_join (owners[i].thread);
      for (guint j = 0; j < i; j++)
        g_assert_true (owners[i].value != owners[j].value);
    }
  gate_clear (&gate);
}

#define N_OWNERS 16

static void
test_own (MemoFixture *fixture, gconstpointer unused)
{
  Owner owners[N_OWNERS + 1];
  FakeFunction *function = &fixture->function;

  (void) unused;
  make_owned (fixture);
  own_together (fixture, owners, N_OWNERS);
  g_assert_cmpuint (function->n_on_thread, ==, N_OWNERS);
  own_together (fixture, owners, N_OWNERS);
  g_assert_cmpuint (function->n_on_thread, ==, N_OWNERS);
  own_together (fixture, owners, N_OWNERS + 1);
  g_assert_cmpuint (function->n_on_thread, ==, N_OWNERS + 1);
  g_assert_cmpuint (function->n_computed, ==, 1);
  g_assert_cmpuint (live (fixture), ==, N_OWNERS + 2);
  assert_entries (fixture->memo, 1);
  tarn_memo_forget (fixture->memo, &fixture->first_args[0]);
  g_assert_cmpuint (live (fixture), ==, 0);
  g_assert_cmpuint (function->n_dead, ==, 0);
  assert_no_references (fixture);
}

static void
test_short_lived (MemoFixture *fixture, gconstpointer unused)
{
  Owner owners[2];

  (void) unused;
  make_owned (fixture);
  for (guint i = 0; i < 100; i++)
    {
      owner_start (&owners[0], fixture, NULL);
      g_thread_join (owners[0].thread);
    }
  g_assert_cmpuint (fixture->function.n_on_thread, ==, 1);
  g_assert_cmpuint (live (fixture), ==, 2);
  own_together (fixture, owners, G_N_ELEMENTS (owners));
  g_assert_cmpuint (fixture->function.n_on_thread, ==, 2);
}

static void
ask_early (gpointer data)
{
  MemoFixture *fixture = data;

  ask_and_unref (fixture->memo, &fixture->first_args[0], 1);
}

static void
ask_late (gpointer data)
{
  MemoFixture *fixture = data;

  ask_and_unref (fixture->memo, &fixture->first_args[0], 1);
  ask_and_unref (fixture->memo, &fixture->first_args[0], 2);
  ask_and_unref (fixture->other_memo, &fixture->first_args[0], 1);
}

/* A thread that is ending gets values as others do, and nothing of it stays. */
static void
test_last_round (MemoFixture *fixture, gconstpointer unused)
{
  guint n_rounds = 20;

  (void) unused;
  make_owned (fixture);
  fixture->ops.value_for_thread = NULL;
  memo_fixture_make_other (fixture);
  for (guint i = 0; i < n_rounds; i++)
    if (!in_last_round (ask_early, ask_late, fixture))
      return;
  g_assert_cmpuint (live (fixture), ==, 3); /* two that all share, and one of those who live */
  g_assert_cmpuint (fixture->function.n_on_thread, ==, 1 + 2 * n_rounds);
  assert_calls (fixture->memo, 3 * n_rounds - 2, 2, 0);
  assert_entries (fixture->memo, 2);
  assert_entries (fixture->other_memo, 1);
}

static gpointer
ask_at_gate (gpointer data)
{
  Owner *owner = data;

  ask_and_unref (owner->fixture->other_memo, &owner->fixture->first_args[0], 1);
  gate_pass (owner->gate);
  return NULL;
}

/* Threads that never ask for it do not make more of it than there were threads at a time. */
static void
test_other_threads (MemoFixture *fixture, gconstpointer unused)
{
  Owner owner, others[3];

  (void) unused;
  make_owned (fixture);
  memo_fixture_make_other (fixture);
  for (guint i = 0; i < 20; i++)
    {
      Gate gate;

      owner_start (&owner, fixture, NULL);
      g_thread_join (owner.thread);
      gate_init (&gate, i % G_N_ELEMENTS (others) + 1);
      for (guint j = 0; j < gate.opens_at; j++)
        {
          others[j] = (Owner){ .fixture = fixture, .gate = &gate };
          others[j].thread = g_thread_new ("other", ask_at_gate, &others[j]);
        }
      for (guint j = 0; j < gate.opens_at; j++)
        g_thread_join (others[j].thread);
      gate_clear (&gate);
    }
  g_assert_cmpuint (fixture->function.n_on_thread, <=, G_N_ELEMENTS (others));
}

static void
test_own_per_entry (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = make_owned (fixture);
  FakeValue *values[4];

  (void) unused;
  values[0] = ask (memo, &fixture->first_args[0], 1);
  values[1] = ask (memo, &fixture->first_args[0], 2);
  values[2] = ask (memo, &fixture->first_args[1], 1);
  values[3] = ask (memo, &fixture->first_args[0], 1);
  g_assert_true (values[3] == values[0]);
  g_assert_true (values[1]->of != values[0]->of);
  g_assert_true (values[2]->of != values[0]->of);
  g_assert_true (values[2]->first_arg == &fixture->first_args[1]);
  tarn_memo_forget (memo, &fixture->first_args[0]);
  g_assert_cmpuint (values[0]->n_refs, ==, 2);
  g_assert_cmpuint (values[1]->n_refs, ==, 1);
  g_assert_cmpuint (values[2]->n_refs, ==, 2);
  for (guint i = 0; i < 4; i++)
    fake_value_unref (values[i]);
  g_assert_cmpuint (live (fixture), ==, 2);
}

static gpointer
fail_on_thread (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  (void) first_arg;
  (void) key;
  (void) user_data;
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_LIMIT, "not on this thread");
  return NULL;
}

static void
test_own_error (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = make_owned (fixture);

  (void) unused;
  fixture->function.on_thread = fail_on_thread;
  ask_in_vain (memo, &fixture->first_args[0], 1, TARN_ERROR_LIMIT);
  g_assert_cmpuint (fixture->function.n_computed, ==, 1);
  assert_entries (memo, 1);
  fixture->function.on_thread = NULL;
  ask_and_unref (memo, &fixture->first_args[0], 1);
  g_assert_cmpuint (fixture->function.n_computed, ==, 1);
  g_assert_cmpuint (live (fixture), ==, 2);
}

/* A thread that has its own of what is forgotten gets a new one with the new entry, and ends after
 * the memo. */
static gpointer
own_twice (gpointer data)
{
  Owner *owner = data;
  MemoFixture *fixture = owner->fixture;
  TarnMemo *memo = fixture->memo;
  FakeValue *value = ask (memo, &fixture->first_args[0], 1), *later;

  tarn_memo_clear (memo);
  g_assert_cmpuint (value->n_refs, ==, 1);
  later = ask (memo, &fixture->first_args[0], 1);
  g_assert_true (later != value);
  fake_value_unref (value);
  fake_value_unref (later);
  gate_pass (owner->gate); /* where the memo goes */
  return NULL;
}

static void
test_own_after_memo (MemoFixture *fixture, gconstpointer unused)
{
  Owner owner;
  Gate gate;

  (void) unused;
  gate_init (&gate, 0);
  make_owned (fixture);
  owner = (Owner){ .fixture = fixture, .gate = &gate };
  owner.thread = g_thread_new ("owner", own_twice, &owner);
  gate_await (&gate, 1);
  g_assert_cmpuint (live (fixture), ==, 2);
  tarn_memo_unref (g_steal_pointer (&fixture->memo));
  g_assert_true (fixture->function.is_destroyed);
  g_assert_cmpuint (live (fixture), ==, 0);
  gate_open (&gate);
  g_thread_join (owner.thread);
  gate_clear (&gate);
}

/* Forgotten while a thread's own is made: by that thread, and by another. */

static gpointer
clear_on_thread (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  FakeFunction *function = user_data;

  (void) error;
  tarn_memo_clear (function->data);
  tarn_memo_clear_all ();
  return fake_value_new (function, first_arg, GPOINTER_TO_INT (key));
}

static void
test_clear_on_thread (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemo *memo = make_owned (fixture);

  (void) unused;
  fixture->function.on_thread = clear_on_thread;
  fixture->function.data = memo;
  for (guint i = 0; i < 3; i++)
    {
      ask_and_unref (memo, &fixture->first_args[0], 1);
      g_assert_cmpuint (live (fixture), ==, 0);
      assert_no_references (fixture);
    }
  assert_calls (memo, 0, 3, 0);
}

static void
test_clear_meanwhile (MemoFixture *fixture, gconstpointer unused)
{
  Asker asker;
  Gate gate;

  (void) unused;
  gate_init (&gate, 0);
  fixture->function.on_thread = compute_at_gate;
  fixture->function.data = &gate;
  make_owned (fixture);
  asker_start (&asker, fixture->memo, &fixture->first_args[0], 1);
  gate_await (&gate, 1);
  tarn_memo_clear (fixture->memo);
  assert_entries (fixture->memo, 0);
  gate_open (&gate);
  asker_finish (&asker);
  g_assert_cmpuint (live (fixture), ==, 0);
  assert_no_references (fixture);
  ask_and_unref (fixture->memo, &fixture->first_args[0], 1);
  g_assert_cmpuint (fixture->function.n_computed, ==, 2);
  gate_clear (&gate);
}

/* ... and computed anew: what was made of the old value is for nobody else. */

static gpointer
wait_once (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  FakeFunction *function = user_data;

  if (counted (&function->n_on_thread) == 1)
    return compute_at_gate (first_arg, key, user_data, error);
  return fake_value_new (function, first_arg, GPOINTER_TO_INT (key));
}

static void
test_anew_meanwhile (MemoFixture *fixture, gconstpointer unused)
{
  Asker asker;
  Owner owner;
  FakeValue *value;
  Gate gate;

  (void) unused;
  gate_init (&gate, 0);
  fixture->function.on_thread = wait_once;
  fixture->function.data = &gate;
  make_owned (fixture);
  asker_start (&asker, fixture->memo, &fixture->first_args[0], 1);
  gate_await (&gate, 1);
  tarn_memo_clear (fixture->memo);
  value = ask (fixture->memo, &fixture->first_args[0], 1);
  gate_open (&gate);
  asker_finish (&asker);
  owner_start (&owner, fixture, NULL); /* may well stand where the other thread stood */
  g_thread_join (owner.thread);
  g_assert_true (owner.value->of == value->of);
  fake_value_unref (value);
  g_assert_cmpuint (live (fixture), ==, 3);
  gate_clear (&gate);
}

static void
test_unref_on_thread (MemoFixture *fixture, gconstpointer unused)
{
  Asker asker;
  Gate gate;

  (void) unused;
  gate_init (&gate, 0);
  fixture->function.on_thread = compute_at_gate;
  fixture->function.data = &gate;
  make_owned (fixture);
  asker_start (&asker, fixture->memo, &fixture->first_args[0], 1);
  gate_await (&gate, 1);
  tarn_memo_unref (g_steal_pointer (&fixture->memo));
  g_assert_false (fixture->function.is_destroyed);
  gate_open (&gate);
  asker_finish (&asker);
  g_assert_true (fixture->function.is_destroyed);
  gate_clear (&gate);
}

/* ... and while there is an entry already. */
static void
test_unref_on_later_thread (MemoFixture *fixture, gconstpointer unused)
{
  Asker asker;
  Gate gate;

  (void) unused;
  gate_init (&gate, 0);
  make_owned (fixture);
  ask_and_unref (fixture->memo, &fixture->first_args[0], 1);
  fixture->function.on_thread = compute_at_gate;
  fixture->function.data = &gate;
  asker_start (&asker, fixture->memo, &fixture->first_args[0], 1);
  gate_await (&gate, 1);
  tarn_memo_unref (g_steal_pointer (&fixture->memo));
  g_assert_false (fixture->function.is_destroyed);
  gate_open (&gate);
  asker_finish (&asker);
  g_assert_true (fixture->function.is_destroyed);
  g_assert_cmpuint (fixture->function.n_computed, ==, 1);
  gate_clear (&gate);
}

/* A dead first argument's are given back as such, each thread's. */
static void
test_own_dead (MemoFixture *fixture, gconstpointer unused)
{
  Owner owners[3];

  (void) unused;
  fixture->ops.ref_first_arg = NULL;
  fixture->ops.unref_first_arg = NULL;
  fixture->ops.first_arg_id = fake_first_arg_id;
  make_owned (fixture);
  own_together (fixture, owners, G_N_ELEMENTS (owners));
  fixture->first_args[0].id = 100;
  ask_and_unref (fixture->memo, &fixture->first_args[0], 1);
  g_assert_cmpuint (fixture->function.n_dead, ==, G_N_ELEMENTS (owners) + 1);
  g_assert_cmpuint (live (fixture), ==, 2);
}

/* From the death of the first argument on, all that goes is told. */

static void
count_of_first (FakeFunction *function, FakeValue *value)
{
  MemoFixture *fixture = function->data;

  if (value->first_arg == &fixture->first_args[0])
    count (&function->n_hooked);
}

static gpointer
die_on_thread (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  FakeFunction *function = user_data;
  MemoFixture *fixture = function->data;

  (void) error;
  function->on_thread = NULL;
  function->on_unref = count_of_first;
  ((FakeFirstArg *) first_arg)->id = 0;
  tarn_memo_forget (fixture->memo, first_arg);
  ask_and_unref (fixture->memo, &fixture->first_args[1], 1);
  return fake_value_new (function, first_arg, GPOINTER_TO_INT (key));
}

static void
test_own_dies (MemoFixture *fixture, gconstpointer unused)
{
  FakeFunction *function = &fixture->function;
  gpointer value = NULL;

  (void) unused;
  fixture->ops.ref_first_arg = NULL;
  fixture->ops.unref_first_arg = NULL;
  fixture->ops.first_arg_id = fake_first_arg_id;
  make_owned (fixture);
  function->on_thread = fail_on_thread;
  ask_in_vain (fixture->memo, &fixture->first_args[0], 1, TARN_ERROR_LIMIT); /* makes an entry */
  function->on_thread = die_on_thread;
  function->data = fixture;
  if (tarn_memo_get (fixture->memo, &fixture->first_args[0], GINT_TO_POINTER (1), &value, NULL))
    fake_value_unref (value);
  g_assert_cmpuint (function->n_hooked, >=, 1);
  g_assert_cmpuint (function->n_dead, ==, function->n_hooked);
  assert_entries (fixture->memo, 1);
}

/* Two threads have one; where the entry goes, so do both. */
static void
test_own_evicted (MemoFixture *fixture, gconstpointer unused)
{
  Owner owners[2];

  (void) unused;
  fixture->ops.max_entries = 1;
  make_owned (fixture);
  own_together (fixture, owners, G_N_ELEMENTS (owners));
  g_assert_cmpuint (live (fixture), ==, 3);
  ask_and_unref (fixture->memo, &fixture->first_args[0], 2);
  g_assert_cmpuint (live (fixture), ==, 2);
  assert_evictions (fixture->memo, 1, 1);
}

int
main (int argc, char **argv)
{
#define ADD(path, func)                                                                            \
  g_test_add ("/core/memo/own/" path, MemoFixture, NULL, memo_fixture_set_up, func,                \
              memo_fixture_tear_down)
  g_test_init (&argc, &argv, NULL);
  ADD ("own", test_own);
  ADD ("short-lived", test_short_lived);
  ADD ("last-round", test_last_round);
  ADD ("other-threads", test_other_threads);
  ADD ("per-entry", test_own_per_entry);
  ADD ("error", test_own_error);
  ADD ("after-memo", test_own_after_memo);
  ADD ("clear-on-thread", test_clear_on_thread);
  ADD ("clear-meanwhile", test_clear_meanwhile);
  ADD ("anew-meanwhile", test_anew_meanwhile);
  ADD ("unref-on-thread", test_unref_on_thread);
  ADD ("unref-on-later-thread", test_unref_on_later_thread);
  ADD ("dead", test_own_dead);
  ADD ("dies", test_own_dies);
  ADD ("evicted", test_own_evicted);
  return g_test_run ();
}
