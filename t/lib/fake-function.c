/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "fake-function.h"

#include <string.h>
#include <unistd.h>

/* Values */

FakeValue *
fake_value_new (FakeFunction *function, gpointer first_arg, gint number)
{
  FakeValue *value = g_new0 (FakeValue, 1);

  value->function = function;
  value->first_arg = first_arg;
  value->number = number;
  value->n_refs = 1;
  value->next = __atomic_load_n (&function->values, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n (&function->values, &value->next, value, TRUE,
                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    ;
  count (&function->n_values);
  return value;
}

FakeValue *
fake_value_ref (FakeValue *value)
{
  g_assert_nonnull (value);
  g_assert_false (value->is_gone);
  g_assert_cmpuint (__atomic_fetch_add (&value->n_refs, 1, __ATOMIC_RELAXED), >, 0);
  return value;
}

void
fake_value_unref (FakeValue *value)
{
  guint before;

  g_assert_nonnull (value);
  g_assert_false (value->is_gone);
  before = __atomic_fetch_sub (&value->n_refs, 1, __ATOMIC_ACQ_REL);
  g_assert_cmpuint (before, >, 0);
  if (before > 1)
    return;
  value->is_gone = TRUE;
  count (&value->function->n_gone);
}

/* What a memo calls.  is_destroyed is read and written as if one thread did: that destroy () comes
 * after everything is what the memo has to see to. */

static gpointer
compute (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  FakeFunction *function = user_data;

  g_assert_false (function->is_destroyed);
  count (&function->n_computed);
  if (function->compute != NULL)
    return function->compute (first_arg, key, function, error);
  return fake_value_new (function, first_arg, GPOINTER_TO_INT (key));
}

static gpointer
ref_value (gpointer user_data, gpointer value)
{
  FakeFunction *function = user_data;

  g_assert_false (function->is_destroyed);
  g_assert_true (((FakeValue *) value)->function == function);
  if (function->on_ref != NULL)
    function->on_ref (function);
  return fake_value_ref (value);
}

static void
unref_value (gpointer user_data, gpointer value, gpointer first_arg, gboolean is_dead)
{
  FakeFunction *function = user_data;

  g_assert_false (function->is_destroyed);
  g_assert_nonnull (value);
  g_assert_true (((FakeValue *) value)->function == function);
  g_assert_true (((FakeValue *) value)->first_arg == first_arg);
  count (&function->n_unrefs);
  if (is_dead)
    count (&function->n_dead);
  if (function->on_unref != NULL)
    function->on_unref (function, value);
  fake_value_unref (value);
}

static gpointer
ref_first_arg (gpointer user_data, gpointer first_arg)
{
  FakeFunction *function = user_data;

  g_assert_false (function->is_destroyed);
  count (&((FakeFirstArg *) first_arg)->n_refs);
  return first_arg;
}

static void
unref_first_arg (gpointer user_data, gpointer first_arg)
{
  FakeFunction *function = user_data;
  guint *n_refs = &((FakeFirstArg *) first_arg)->n_refs;

  g_assert_false (function->is_destroyed);
  g_assert_cmpuint (__atomic_fetch_sub (n_refs, 1, __ATOMIC_RELAXED), >, 0);
}

guint64
fake_first_arg_id (gpointer user_data, gpointer first_arg)
{
  FakeFunction *function = user_data;

  g_assert_false (function->is_destroyed);
  return __atomic_load_n (&((FakeFirstArg *) first_arg)->id, __ATOMIC_RELAXED);
}

gpointer
fake_current_first_arg (gpointer user_data, GError **error)
{
  FakeFunction *function = user_data;

  g_assert_false (function->is_destroyed);
  if (function->current == NULL)
    g_set_error_literal (error, TARN_ERROR, TARN_ERROR_NO_CONTEXT, "nothing is current");
  return function->current;
}

gpointer
fake_value_for_thread (gpointer user_data, gpointer value, gpointer first_arg, gconstpointer key,
                       GError **error)
{
  FakeFunction *function = user_data;
  FakeValue *of = value, *own;

  g_assert_false (function->is_destroyed);
  g_assert_true (of->function == function && of->first_arg == first_arg);
  g_assert_false (of->is_gone);
  g_assert_null (of->of);
  count (&function->n_on_thread);
  if (function->on_thread != NULL)
    own = function->on_thread (first_arg, key, function, error);
  else
    own = fake_value_new (function, first_arg, of->number);
  if (own != NULL)
    own->of = of;
  return own;
}

static void
destroy (gpointer user_data)
{
  FakeFunction *function = user_data;

  g_assert_false (function->is_destroyed);
  if (function->on_destroy != NULL)
    function->on_destroy (function);
  function->is_destroyed = TRUE;
}

/* Functions */

void
fake_function_init (FakeFunction *function)
{
  memset (function, 0, sizeof *function);
}

guint
fake_function_get_live (FakeFunction *function)
{
  return counted (&function->n_values) - counted (&function->n_gone);
}

void
fake_function_clear (FakeFunction *function)
{
  FakeValue *next;

  g_assert_cmpuint (fake_function_get_live (function), ==, 0);
  g_assert_true (function->is_destroyed == function->is_used);
  for (FakeValue *value = function->values; value != NULL; value = next)
    {
      next = value->next;
      g_assert_true (value->is_gone);
      g_free (value);
    }
}

void
fake_function_ops_init (TarnMemoOps *ops)
{
  *ops = (TarnMemoOps) TARN_MEMO_OPS_INIT;
  ops->first_arg_kind = "fake-first-arg";
  ops->ref_value = ref_value;
  ops->unref_value = unref_value;
  ops->ref_first_arg = ref_first_arg;
  ops->unref_first_arg = unref_first_arg;
}

TarnMemo *
fake_function_memo_new (FakeFunction *function, const TarnMemoOps *ops)
{
  TarnMemo *memo = tarn_memo_new (ops, compute, function, destroy);

  g_assert_nonnull (memo);
  g_assert_false (function->is_used);
  function->is_used = TRUE;
  return memo;
}

/* Asking */

FakeValue *
ask (TarnMemo *memo, gpointer first_arg, gint number)
{
  g_autoptr (GError) error = NULL;
  gpointer value = NULL;
  gboolean is_given = tarn_memo_get (memo, first_arg, GINT_TO_POINTER (number), &value, &error);

  g_assert_no_error (error);
  g_assert_true (is_given);
  g_assert_nonnull (value);
  g_assert_false (((FakeValue *) value)->is_gone);
  g_assert_cmpint (((FakeValue *) value)->number, ==, number);
  return value;
}

void
ask_and_unref (TarnMemo *memo, gpointer first_arg, gint number)
{
  fake_value_unref (ask (memo, first_arg, number));
}

void
ask_in_vain (TarnMemo *memo, gpointer first_arg, gint number, TarnError code)
{
  g_autoptr (GError) error = NULL;
  gpointer value = memo;

  g_assert_false (tarn_memo_get (memo, first_arg, GINT_TO_POINTER (number), &value, &error));
  g_assert_error (error, TARN_ERROR, (gint) code);
  g_assert_true (value == memo);
  g_assert_false (tarn_memo_get (memo, first_arg, GINT_TO_POINTER (number), NULL, NULL));
}

void
assert_calls (TarnMemo *memo, guint64 hits, guint64 misses, guint64 waits)
{
  TarnMemoStats stats = TARN_MEMO_STATS_INIT;

  tarn_memo_get_stats (memo, &stats);
  g_assert_cmpuint (stats.hits, ==, hits);
  g_assert_cmpuint (stats.misses, ==, misses);
  g_assert_cmpuint (stats.waits, ==, waits);
}

void
assert_entries (TarnMemo *memo, gsize entries)
{
  TarnMemoStats stats = TARN_MEMO_STATS_INIT;

  tarn_memo_get_stats (memo, &stats);
  g_assert_cmpuint (stats.entries, ==, entries);
}

void
assert_evictions (TarnMemo *memo, gsize entries, guint64 evictions)
{
  TarnMemoStats stats = TARN_MEMO_STATS_INIT;

  tarn_memo_get_stats (memo, &stats);
  g_assert_cmpuint (stats.entries, ==, entries);
  g_assert_cmpuint (stats.evictions, ==, evictions);
}

static gpointer
ask_in_thread (gpointer data)
{
  Asker *asker = data;
  gboolean is_given = tarn_memo_get (asker->memo, asker->first_arg, GINT_TO_POINTER (asker->number),
                                     asker->only_warms ? NULL : &asker->value, &asker->error);

  g_assert_true (is_given == (asker->error == NULL));
  return NULL;
}

static void
start (Asker *asker)
{
  asker->thread = g_thread_new ("asker", ask_in_thread, asker);
}

void
asker_start (Asker *asker, TarnMemo *memo, gpointer first_arg, gint number)
{
  *asker = (Asker){ .memo = memo, .first_arg = first_arg, .number = number };
  start (asker);
}

void
asker_start_warming (Asker *asker, TarnMemo *memo, gpointer first_arg, gint number)
{
  *asker = (Asker){ .memo = memo, .first_arg = first_arg, .number = number, .only_warms = TRUE };
  start (asker);
}

void
asker_join (Asker *asker)
{
  g_thread_join (asker->thread);
}

void
asker_finish (Asker *asker)
{
  asker_join (asker);
  g_assert_no_error (asker->error);
  g_assert_nonnull (asker->value);
  g_assert_cmpint (((FakeValue *) asker->value)->number, ==, asker->number);
  fake_value_unref (asker->value);
}

/* Nothing tells from outside that a thread has begun to wait but what the memo says of itself. */
static void
await (TarnMemo *memo, guint64 calls, gboolean only_waits)
{
  TarnMemoStats stats = TARN_MEMO_STATS_INIT;
  gint64 end = g_get_monotonic_time () + 30 * G_USEC_PER_SEC;
  guint64 now;

  for (;;)
    {
      tarn_memo_get_stats (memo, &stats);
      now = stats.waits + (only_waits ? 0 : stats.hits + stats.misses);
      if (now >= calls)
        break;
      g_assert_cmpint (g_get_monotonic_time (), <, end);
      g_usleep (200);
    }
  g_assert_cmpuint (now, ==, calls);
}

void
await_waits (TarnMemo *memo, guint64 waits)
{
  await (memo, waits, TRUE);
}

void
await_calls (TarnMemo *memo, guint64 calls)
{
  await (memo, calls, FALSE);
}

/* Gates */

void
gate_init (Gate *gate, guint opens_at)
{
  memset (gate, 0, sizeof *gate);
  _tarn_mutex_init (&gate->lock);
  _tarn_cond_init (&gate->changed);
  gate->opens_at = opens_at;
}

void
gate_clear (Gate *gate)
{
  _tarn_cond_clear (&gate->changed);
  _tarn_mutex_clear (&gate->lock);
}

void
gate_pass (Gate *gate)
{
  _tarn_mutex_lock (&gate->lock);
  gate->n_come++;
  if (gate->n_come == gate->opens_at)
    gate->is_open = TRUE;
  _tarn_cond_broadcast (&gate->changed);
  while (!gate->is_open)
    _tarn_cond_wait (&gate->changed, &gate->lock);
  _tarn_mutex_unlock (&gate->lock);
}

void
gate_open (Gate *gate)
{
  _tarn_mutex_lock (&gate->lock);
  gate->is_open = TRUE;
  _tarn_cond_broadcast (&gate->changed);
  _tarn_mutex_unlock (&gate->lock);
}

void
gate_await (Gate *gate, guint n_come)
{
  _tarn_mutex_lock (&gate->lock);
  while (gate->n_come < n_come)
    _tarn_cond_wait (&gate->changed, &gate->lock);
  _tarn_mutex_unlock (&gate->lock);
}

gpointer
compute_at_gate (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  FakeFunction *function = user_data;

  (void) error;
  gate_pass (function->data);
  return fake_value_new (function, first_arg, GPOINTER_TO_INT (key));
}

/* Fixtures */

void
watch (guint seconds)
{
  alarm (seconds);
}

void
memo_fixture_set_up (MemoFixture *fixture, gconstpointer unused)
{
  (void) unused;
  watch (60);
  fake_function_init (&fixture->function);
  fake_function_init (&fixture->other);
  fake_function_ops_init (&fixture->ops);
  for (guint i = 0; i < G_N_ELEMENTS (fixture->first_args); i++)
    fixture->first_args[i] = (FakeFirstArg){ 0, i + 1 };
}

void
assert_no_references (MemoFixture *fixture)
{
  for (guint i = 0; i < G_N_ELEMENTS (fixture->first_args); i++)
    g_assert_cmpuint (fixture->first_args[i].n_refs, ==, 0);
}

void
memo_fixture_tear_down (MemoFixture *fixture, gconstpointer unused)
{
  (void) unused;
  tarn_memo_unref (fixture->memo);
  tarn_memo_unref (fixture->other_memo);
  assert_no_references (fixture);
  fake_function_clear (&fixture->function);
  fake_function_clear (&fixture->other);
  watch (0);
}

TarnMemo *
memo_fixture_make (MemoFixture *fixture)
{
  fixture->memo = fake_function_memo_new (&fixture->function, &fixture->ops);
  return fixture->memo;
}

TarnMemo *
memo_fixture_make_other (MemoFixture *fixture)
{
  fixture->other_memo = fake_function_memo_new (&fixture->other, &fixture->ops);
  return fixture->other_memo;
}

guint
live (MemoFixture *fixture)
{
  return fake_function_get_live (&fixture->function);
}
