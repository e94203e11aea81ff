/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memos that many threads ask, forget and clear at random, for a second, or 10 with -m slow.  What
 * is left to see is that nobody hangs and that every reference was given back. */

#include "lib/fake-function.h"

#define N_MEMOS 3
#define N_FIRST_ARGS 4
#define N_NUMBERS 12
#define N_WORKERS 8
#define N_GENERATIONS 4
#define N_SLOTS 8

/* 0 has no limit, and ids in place of references; 1, which asks it, has room for 5 entries; 2,
 * which asks both, gives each thread its own. */
enum
{
  BELOW,
  BOUNDED,
  OWNED
};

typedef struct
{
  FakeFunction functions[N_MEMOS];
  TarnMemo *memos[N_MEMOS];
  guint n_calls[N_MEMOS];
  FakeFirstArg first_args[N_FIRST_ARGS];
  guint n_random;
  gboolean has_cycles; /* entries ask for any other; else only for what is below */
  gint64 end;
} Stress;

static gint64
end_after (guint milliseconds)
{
  return g_get_monotonic_time () + (gint64) milliseconds * (g_test_slow () ? 10000 : 1000);
}

/* Numbers that threads share without being ordered by it. */
static guint
any (Stress *stress, guint below)
{
  guint number = __atomic_fetch_add (&stress->n_random, 0x9e3779b9, __ATOMIC_RELAXED);

  number ^= number >> 16;
  number *= 0x85ebca6b;
  number ^= number >> 13;
  return number % below;
}

/* NULL is a value of BELOW's, and LIMIT an error of everybody's. */
static FakeValue *
request (Stress *stress, guint memo, gpointer first_arg, guint number, GError **error)
{
  gpointer value = NULL;
  GError *failure = NULL;

  count (&stress->n_calls[memo]);
  if (!tarn_memo_get (stress->memos[memo], first_arg, GUINT_TO_POINTER (number), &value, &failure))
    {
      if (!stress->has_cycles || !g_error_matches (failure, TARN_ERROR, TARN_ERROR_RECURSION))
        g_assert_error (failure, TARN_ERROR, TARN_ERROR_LIMIT);
      g_propagate_error (error, failure);
      return NULL;
    }
  g_assert_no_error (failure);
  if (value == NULL)
    {
      g_assert_true (memo == BELOW && number == 0);
      return NULL;
    }
  g_assert_false (((FakeValue *) value)->is_gone);
  g_assert_true (((FakeValue *) value)->function == &stress->functions[memo]);
  g_assert_true (((FakeValue *) value)->first_arg == first_arg);
  g_assert_cmpuint ((guint) ((FakeValue *) value)->number, ==, number);
  if (memo == OWNED)
    ((FakeValue *) value)->n_uses++; /* this thread's own: no other writes here */
  return value;
}

static void
unref_any (FakeValue *value)
{
  if (value != NULL)
    fake_value_unref (value);
}

/* Computations */

/* Whether a computation asks for another entry, and which. */
static gboolean
find_next (Stress *stress, guint *memo, guint *number)
{
  if (any (stress, 3) == 0)
    return FALSE;
  if (stress->has_cycles)
    {
      *memo = any (stress, N_MEMOS);
      *number = any (stress, N_NUMBERS);
    }
  else if (*memo > 0 && any (stress, 2) == 0)
    *memo = any (stress, *memo);
  else if (*number > 0)
    *number = any (stress, *number);
  else
    return FALSE;
  return TRUE;
}

static gpointer
compute (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  FakeFunction *function = user_data;
  Stress *stress = function->data;
  guint self = (guint) (function - stress->functions);
  guint memo = self, number = GPOINTER_TO_UINT (key);

  if (any (stress, 4) == 0)
    g_thread_yield (); /* so that others come to wait */
  if (find_next (stress, &memo, &number))
    {
      GError *failure = NULL;

      unref_any (request (stress, memo, first_arg, number, &failure));
      if (failure != NULL && any (stress, 2) == 0)
        {
          g_propagate_error (error, failure);
          return NULL;
        }
      g_clear_error (&failure);
    }
  if (any (stress, 100) == 0)
    tarn_memo_forget (stress->memos[any (stress, N_MEMOS)], first_arg);
  if (any (stress, 20) == 0)
    {
      g_set_error_literal (error, TARN_ERROR, TARN_ERROR_LIMIT, "at random");
      return NULL;
    }
  if (self == BELOW && GPOINTER_TO_INT (key) == 0)
    return NULL;
  return fake_value_new (function, first_arg, GPOINTER_TO_INT (key));
}

static gpointer
compute_own (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  FakeFunction *function = user_data;

  if (any (function->data, 50) != 0)
    return fake_value_new (function, first_arg, GPOINTER_TO_INT (key));
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_LIMIT, "not for this thread");
  return NULL;
}

/* Threads */

typedef struct
{
  Stress *stress;
  gint64 end;
  GThread *thread;
} Worker;

static FakeValue *
request_any (Stress *stress)
{
  guint memo = any (stress, N_MEMOS);
  gpointer first_arg = &stress->first_args[any (stress, N_FIRST_ARGS)];

  return request (stress, memo, first_arg, any (stress, N_NUMBERS), NULL);
}

/* Lives for one value, so that threads' own ones change hands. */
static gpointer
live_shortly (gpointer stress)
{
  unref_any (request_any (stress));
  return NULL;
}

static void
warm_any (Stress *stress)
{
  guint memo = any (stress, N_MEMOS);

  count (&stress->n_calls[memo]);
  tarn_memo_get (stress->memos[memo], &stress->first_args[any (stress, N_FIRST_ARGS)],
                 GUINT_TO_POINTER (any (stress, N_NUMBERS)), NULL, NULL);
}

static void
look (Stress *stress)
{
  TarnMemoStats stats = TARN_MEMO_STATS_INIT;

  tarn_memo_get_stats (stress->memos[BOUNDED], &stats);
  g_assert_cmpuint (stats.entries, <=, 5 * N_FIRST_ARGS);
  g_assert_cmpuint (stats.failures, <=, stats.misses);
}

static void
disturb (Stress *stress)
{
  FakeFirstArg *first_arg = &stress->first_args[any (stress, N_FIRST_ARGS)];
  TarnMemo *memo = stress->memos[any (stress, N_MEMOS)];

  switch (any (stress, 12))
    {
    case 0:
      tarn_memo_clear_all ();
      break;
    case 1:
      tarn_memo_clear_kind ("fake-first-arg");
      break;
    case 2:
      tarn_memo_forget_everywhere (first_arg);
      break;
    case 3:
      tarn_memo_clear (memo);
      break;
    case 4:
      __atomic_add_fetch (&first_arg->id, N_FIRST_ARGS, __ATOMIC_RELAXED); /* another one */
      break;
    case 5:
      g_thread_join (g_thread_new ("short", live_shortly, stress));
      break;
    case 6:
    case 7:
      look (stress);
      break;
    case 8:
      warm_any (stress);
      break;
    default:
      tarn_memo_forget (memo, first_arg);
    }
}

static gpointer
work (gpointer data)
{
  Worker *worker = data;
  Stress *stress = worker->stress;
  FakeValue *slots[N_SLOTS] = { NULL };

  while (g_get_monotonic_time () < worker->end)
    {
      guint slot = any (stress, N_SLOTS);

      if (slots[slot] != NULL)
        g_assert_false (slots[slot]->is_gone);
      unref_any (slots[slot]);
      slots[slot] = request_any (stress);
      if (any (stress, 8) == 0)
        disturb (stress);
    }
  for (guint i = 0; i < N_SLOTS; i++)
    unref_any (slots[i]);
  return NULL;
}

static void
stress_init (Stress *stress)
{
  TarnMemoOps ops;

  stress->n_random = g_test_rand_int ();
  for (guint i = 0; i < N_FIRST_ARGS; i++)
    stress->first_args[i].id = i + 1;
  for (guint i = 0; i < N_MEMOS; i++)
    {
      fake_function_init (&stress->functions[i]);
      stress->functions[i].compute = compute;
      stress->functions[i].on_thread = compute_own;
      stress->functions[i].data = stress;
      fake_function_ops_init (&ops);
      if (i == BELOW)
        {
          ops.ref_first_arg = NULL;
          ops.unref_first_arg = NULL;
          ops.first_arg_id = fake_first_arg_id;
        }
      else
        ops.upstream = stress->memos[i - 1];
      if (i == BOUNDED)
        ops.max_entries = 5;
      if (i == OWNED)
        ops.value_for_thread = fake_value_for_thread;
      stress->memos[i] = fake_function_memo_new (&stress->functions[i], &ops);
    }
}

/* Everything has been cleared. */
static void
assert_balanced (Stress *stress)
{
  for (guint i = 0; i < N_MEMOS; i++)
    {
      TarnMemoStats stats = TARN_MEMO_STATS_INIT;

      tarn_memo_get_stats (stress->memos[i], &stats);
      g_assert_cmpuint (stats.hits + stats.misses + stats.waits, ==, stress->n_calls[i]);
      g_assert_cmpuint (stats.misses, ==, stress->functions[i].n_computed);
      g_assert_cmpuint (stats.hits, >, 0);
      g_assert_cmpuint (stats.entries, ==, 0);
      g_assert_cmpuint (fake_function_get_live (&stress->functions[i]), ==, 0);
      if (i == BOUNDED)
        g_assert_cmpuint (stats.evictions, >, 0);
      else
        g_assert_cmpuint (stats.evictions, ==, 0);
    }
  for (guint i = 0; i < N_FIRST_ARGS; i++)
    g_assert_cmpuint (stress->first_args[i].n_refs, ==, 0);
}

static void
run_generation (Stress *stress, gint64 end)
{
  Worker workers[N_WORKERS];

  for (guint i = 0; i < N_WORKERS; i++)
    {
      workers[i] = (Worker){ stress, end, NULL };
      workers[i].thread = g_thread_new ("worker", work, &workers[i]);
    }
  for (guint i = 0; i < N_WORKERS; i++)
    g_thread_join (workers[i].thread);
}

static void
test_random (gconstpointer has_cycles)
{
  Stress *stress = g_new0 (Stress, 1);

  watch (180);
  stress->has_cycles = GPOINTER_TO_INT (has_cycles);
  stress_init (stress);
  for (guint i = 0; i < N_GENERATIONS; i++)
    run_generation (stress, end_after (350 / N_GENERATIONS));
  tarn_memo_clear_all ();
  assert_balanced (stress);
  for (guint i = 0; i < N_MEMOS; i++)
    tarn_memo_unref (stress->memos[i]);
  for (guint i = 0; i < N_MEMOS; i++)
    fake_function_clear (&stress->functions[i]);
  g_free (stress);
}

/* Memos that come and go while others clear all there are.  Who clears may be the last to have one,
 * so functions stay until all threads have ended. */

#define MAX_MEMOS 20000

typedef struct
{
  Stress *stress;
  GPtrArray *functions;
  GThread *thread;
} Maker;

static FakeFunction *
use_new_memo (Stress *stress)
{
  FakeFunction *function = g_new (FakeFunction, 1);
  TarnMemoOps ops;
  TarnMemo *memo;

  fake_function_init (function);
  fake_function_ops_init (&ops);
  if (any (stress, 2) == 0)
    ops.value_for_thread = fake_value_for_thread;
  memo = fake_function_memo_new (function, &ops);
  for (guint i = any (stress, 8); i > 0; i--)
    ask_and_unref (memo, &stress->first_args[any (stress, N_FIRST_ARGS)],
                   (gint) any (stress, N_NUMBERS));
  tarn_memo_unref (memo);
  return function;
}

static gpointer
come_and_go (gpointer data)
{
  Maker *maker = data;

  while (g_get_monotonic_time () < maker->stress->end && maker->functions->len < MAX_MEMOS)
    g_ptr_array_add (maker->functions, use_new_memo (maker->stress));
  return NULL;
}

static gpointer
clear_everything (gpointer data)
{
  Stress *stress = data;

  while (g_get_monotonic_time () < stress->end)
    switch (any (stress, 3))
      {
      case 0:
        tarn_memo_clear_all ();
        break;
      case 1:
        tarn_memo_clear_kind ("fake-first-arg");
        break;
      default:
        tarn_memo_forget_everywhere (&stress->first_args[any (stress, N_FIRST_ARGS)]);
      }
  return NULL;
}

static void
finish_maker (Maker *maker)
{
  g_thread_join (maker->thread);
  for (guint i = 0; i < maker->functions->len; i++)
    fake_function_clear (maker->functions->pdata[i]);
  g_ptr_array_unref (maker->functions);
}

static void
test_come_and_go (void)
{
  Stress stress = { .n_random = g_test_rand_int (), .end = end_after (150) };
  GThread *clearers[2];
  Maker makers[3];

  watch (180);
  for (guint i = 0; i < G_N_ELEMENTS (makers); i++)
    {
      makers[i] = (Maker){ &stress, g_ptr_array_new_with_free_func (g_free), NULL };
      makers[i].thread = g_thread_new ("maker", come_and_go, &makers[i]);
    }
  for (guint i = 0; i < G_N_ELEMENTS (clearers); i++)
    clearers[i] = g_thread_new ("clearer", clear_everything, &stress);
  for (guint i = 0; i < G_N_ELEMENTS (clearers); i++)
    g_thread_join (clearers[i]);
  for (guint i = 0; i < G_N_ELEMENTS (makers); i++)
    finish_maker (&makers[i]);
  for (guint i = 0; i < N_FIRST_ARGS; i++)
    g_assert_cmpuint (stress.first_args[i].n_refs, ==, 0);
}

/* A memo that several threads have a reference on: any of them may be its last owner. */

typedef struct
{
  Stress *stress;
  TarnMemo *memo;
  GThread *thread;
} Owner;

static gpointer
use_and_unref (gpointer data)
{
  Owner *owner = data;
  Stress *stress = owner->stress;

  for (guint i = any (stress, 4); i > 0; i--)
    ask_and_unref (owner->memo, &stress->first_args[any (stress, N_FIRST_ARGS)],
                   (gint) any (stress, 3));
  tarn_memo_unref (owner->memo);
  return NULL;
}

static void
share_a_memo (Stress *stress)
{
  FakeFunction function;
  Owner owners[4];
  TarnMemoOps ops;
  TarnMemo *memo;

  fake_function_init (&function);
  fake_function_ops_init (&ops);
  if (any (stress, 2) == 0)
    ops.value_for_thread = fake_value_for_thread;
  memo = fake_function_memo_new (&function, &ops);
  for (guint i = 0; i < G_N_ELEMENTS (owners); i++)
    {
      owners[i] = (Owner){ stress, tarn_memo_ref (memo), NULL };
      owners[i].thread = g_thread_new ("owner", use_and_unref, &owners[i]);
    }
  tarn_memo_unref (memo);
  for (guint i = 0; i < G_N_ELEMENTS (owners); i++)
    g_thread_join (owners[i].thread);
  fake_function_clear (&function);
}

static void
test_shared (void)
{
  Stress stress = { .n_random = g_test_rand_int (), .end = end_after (150) };

  watch (180);
  while (g_get_monotonic_time () < stress.end)
    share_a_memo (&stress);
  for (guint i = 0; i < N_FIRST_ARGS; i++)
    g_assert_cmpuint (stress.first_args[i].n_refs, ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/core/memo/stress/random", GINT_TO_POINTER (FALSE), test_random);
  g_test_add_data_func ("/core/memo/stress/cycles", GINT_TO_POINTER (TRUE), test_random);
  g_test_add_func ("/core/memo/stress/come-and-go", test_come_and_go);
  g_test_add_func ("/core/memo/stress/shared", test_shared);
  return g_test_run ();
}
