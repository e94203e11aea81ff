/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memos in children of fork (): they do nothing there, and never hang. */

#include "lib/fake-function.h"
#include "lib/in-child.h"

/* A value that is kept, and one that another thread computes at the moment of the fork. */

#define KEPT 1
#define COMPUTING 7

typedef struct
{
  FakeFunction function;
  FakeFirstArg first_arg;
  TarnMemoOps ops;
  TarnMemo *memo;
  gint is_over; /* for hammer () */
} State;

static gpointer
compute_one_at_gate (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  FakeFunction *function = user_data;

  (void) error;
  if (GPOINTER_TO_INT (key) == COMPUTING)
    gate_pass (function->data);
  return fake_value_new (function, first_arg, GPOINTER_TO_INT (key));
}

static void
state_init (State *state)
{
  *state = (State){ .first_arg = { 0, 1 } };
  fake_function_init (&state->function);
  fake_function_ops_init (&state->ops);
  state->ops.value_for_thread = fake_value_for_thread;
  state->memo = fake_function_memo_new (&state->function, &state->ops);
}

static void
state_clear (State *state)
{
  tarn_memo_unref (state->memo);
  g_assert_cmpuint (state->first_arg.n_refs, ==, 0);
  fake_function_clear (&state->function);
}

static void
use_memo_in_fresh_child (gpointer unused)
{
  State state;
  gpointer value;

  (void) unused;
  state_init (&state);
  STEP (1, tarn_memo_get (state.memo, &state.first_arg, NULL, &value, NULL));
  fake_value_unref (value);
  STEP (2, tarn_memo_get (state.memo, &state.first_arg, NULL, NULL, NULL));
  STEP (3, state.function.n_computed == 1);
  state_clear (&state);
}

/* A daemon forks first and asks afterwards.  This test must be the first one. */
static void
test_before_first_memo (void)
{
  in_child (use_memo_in_fresh_child, NULL);
}

/* No step allocates anything: an allocator's lock may have been held, too. */
static void
use_memo_in_child (gpointer data)
{
  State *state = data;
  TarnMemoStats stats = TARN_MEMO_STATS_INIT;
  gpointer value = state;
  guint n_gone = state->function.n_gone, n_computed = state->function.n_computed;
  gint numbers[] = { KEPT, COMPUTING, 2 };

  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    STEP (1, !tarn_memo_get (state->memo, &state->first_arg, GINT_TO_POINTER (numbers[i]), &value,
                             NULL));
  STEP (2, value == state);
  tarn_memo_get_stats (state->memo, &stats);
  tarn_memo_forget (state->memo, &state->first_arg);
  tarn_memo_clear (state->memo);
  tarn_memo_forget_everywhere (&state->first_arg);
  tarn_memo_clear_kind (state->ops.first_arg_kind);
  tarn_memo_clear_all ();
  tarn_memo_unref (state->memo);
  STEP (3, !state->function.is_destroyed);
  STEP (4, state->function.n_gone == n_gone);
  STEP (5, state->function.n_computed == n_computed);
}

static void
ask_memo_in_child (gpointer data)
{
  State *state = data;
  GError *error = NULL;
  TarnMemo *anew;

  STEP (6,
        !tarn_memo_get (state->memo, &state->first_arg, GINT_TO_POINTER (COMPUTING), NULL, &error));
  STEP (7, take_forked (&error));
  anew = tarn_memo_new (NULL, compute_one_at_gate, NULL, NULL);
  STEP (8, !tarn_memo_get (anew, NULL, NULL, NULL, &error));
  STEP (9, take_forked (&error));
  tarn_memo_unref (anew);
  use_memo_in_child (state);
}

static void
test_in_child (void)
{
  State state;
  Asker asker;
  Gate gate;

  state_init (&state);
  gate_init (&gate, 0);
  state.function.compute = compute_one_at_gate;
  state.function.data = &gate;
  ask_and_unref (state.memo, &state.first_arg, KEPT);
  asker_start (&asker, state.memo, &state.first_arg, COMPUTING);
  gate_await (&gate, 1);
  in_child (ask_memo_in_child, &state);
  gate_open (&gate);
  asker_finish (&asker);
  in_child (ask_memo_in_child, &state); /* whose reference is the last one now */
  ask_and_unref (state.memo, &state.first_arg, KEPT);
  assert_calls (state.memo, 1, 2, 0);
  state_clear (&state);
  gate_clear (&gate);
}

static gpointer
hammer (gpointer data)
{
  State *state = data;

  for (gint i = 0; !g_atomic_int_get (&state->is_over); i++)
    {
      ask_and_unref (state->memo, &state->first_arg, i % 3);
      if (i % 5 == 0)
        tarn_memo_forget (state->memo, &state->first_arg);
      if (i % 7 == 0)
        tarn_memo_clear_all ();
    }
  return NULL;
}

/* With whatever locks other threads hold when it happens. */
static void
test_in_use (void)
{
  State state;
  GThread *threads[4];

  state_init (&state);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("hammer", hammer, &state);
  for (guint i = 0; i < 50; i++)
    in_child (use_memo_in_child, &state);
  g_atomic_int_set (&state.is_over, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  state_clear (&state);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  watch (120);
  g_test_add_func ("/core/memo/fork/before-first-memo", test_before_first_memo);
  g_test_add_func ("/core/memo/fork/in-child", test_in_child);
  g_test_add_func ("/core/memo/fork/in-use", test_in_use);
  return g_test_run ();
}
