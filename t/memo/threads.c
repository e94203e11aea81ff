/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memos that several threads ask: who waits for whom, and who must not; forgetting what is being
 * computed; computations that ask for their own result. */

#include "lib/fake-function.h"

#define N_ASKERS 8
#define SEVEN 7

/* Memos whose computations wait at a gate, which is the function's data: compute_at_gate () and
 * those that follow. */

static gpointer
compute_seven_at_gate (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  if (GPOINTER_TO_INT (key) == SEVEN)
    return compute_at_gate (first_arg, key, user_data, error);
  return fake_value_new (user_data, first_arg, GPOINTER_TO_INT (key));
}

static gpointer
fail_at_gate (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  (void) first_arg;
  gate_pass (((FakeFunction *) user_data)->data);
  g_set_error (error, TARN_ERROR, TARN_ERROR_LIMIT, "no %d", GPOINTER_TO_INT (key));
  return NULL;
}

static gpointer
compute_null_at_gate (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  (void) first_arg;
  (void) key;
  (void) error;
  gate_pass (((FakeFunction *) user_data)->data);
  return NULL;
}

static TarnMemo *
make_at_gate (MemoFixture *fixture, Gate *gate, TarnMemoFunc compute)
{
  fixture->function.compute = compute;
  fixture->function.data = gate;
  return memo_fixture_make (fixture);
}

/* So many threads that ask for SEVEN: one of them computes, at the gate, and all others wait. */
static void
start_all (Asker *askers, guint n_askers, MemoFixture *fixture, Gate *gate)
{
  for (guint i = 0; i < n_askers; i++)
    asker_start (&askers[i], fixture->memo, &fixture->first_args[0], SEVEN);
  gate_await (gate, 1);
  await_waits (fixture->memo, n_askers - 1);
}

/* One computation */

static void
test_once (MemoFixture *fixture, gconstpointer unused)
{
  Asker askers[N_ASKERS];
  Gate gate;

  (void) unused;
  gate_init (&gate, 0);
  make_at_gate (fixture, &gate, compute_at_gate);
  start_all (askers, N_ASKERS, fixture, &gate);
  assert_calls (fixture->memo, 0, 1, N_ASKERS - 1);
  assert_entries (fixture->memo, 0); /* none is kept yet */
  gate_open (&gate);
  for (guint i = 0; i < N_ASKERS; i++)
    {
      asker_finish (&askers[i]);
      g_assert_true (askers[i].value == askers[0].value);
    }
  g_assert_cmpuint (fixture->function.n_computed, ==, 1);
  assert_calls (fixture->memo, 0, 1, N_ASKERS - 1);
  ask_and_unref (fixture->memo, &fixture->first_args[0], SEVEN);
  assert_calls (fixture->memo, 1, 1, N_ASKERS - 1);
  gate_clear (&gate);
}

static void
test_warming (MemoFixture *fixture, gconstpointer unused)
{
  Asker askers[N_ASKERS];
  Gate gate;

  (void) unused;
  gate_init (&gate, 0);
  make_at_gate (fixture, &gate, compute_at_gate);
  for (guint i = 0; i < N_ASKERS; i++)
    asker_start_warming (&askers[i], fixture->memo, &fixture->first_args[0], SEVEN);
  await_waits (fixture->memo, N_ASKERS - 1);
  gate_open (&gate);
  for (guint i = 0; i < N_ASKERS; i++)
    {
      asker_join (&askers[i]);
      g_assert_no_error (askers[i].error);
    }
  g_assert_cmpuint (fixture->function.values->n_refs, ==, 1);
  gate_clear (&gate);
}

static void
test_null (MemoFixture *fixture, gconstpointer unused)
{
  Asker askers[N_ASKERS];
  Gate gate;

  (void) unused;
  gate_init (&gate, 0);
  make_at_gate (fixture, &gate, compute_null_at_gate);
  start_all (askers, N_ASKERS, fixture, &gate);
  gate_open (&gate);
  for (guint i = 0; i < N_ASKERS; i++)
    {
      asker_join (&askers[i]);
      g_assert_no_error (askers[i].error);
      g_assert_null (askers[i].value);
    }
  g_assert_cmpuint (fixture->function.n_computed, ==, 1);
  gate_clear (&gate);
}

/* Everybody that waited gets an error of their own. */
static void
finish_in_vain (Asker *askers, guint n_askers)
{
  for (guint i = 0; i < n_askers; i++)
    {
      asker_join (&askers[i]);
      g_assert_error (askers[i].error, TARN_ERROR, TARN_ERROR_LIMIT);
      g_assert_cmpstr (askers[i].error->message, ==, "no 7");
      g_assert_null (askers[i].value);
      for (guint j = 0; j < i; j++)
        g_assert_true (askers[i].error != askers[j].error);
    }
  for (guint i = 0; i < n_askers; i++)
    g_error_free (askers[i].error);
}

static void
test_error (MemoFixture *fixture, gconstpointer unused)
{
  Asker askers[N_ASKERS];
  TarnMemoStats stats = TARN_MEMO_STATS_INIT;
  Gate gate;

  (void) unused;
  gate_init (&gate, 0);
  make_at_gate (fixture, &gate, fail_at_gate);
  start_all (askers, N_ASKERS, fixture, &gate);
  gate_open (&gate);
  finish_in_vain (askers, N_ASKERS);
  tarn_memo_get_stats (fixture->memo, &stats);
  g_assert_cmpuint (stats.failures, ==, 1);
  g_assert_cmpuint (stats.entries, ==, 0);
  ask_in_vain (fixture->memo, &fixture->first_args[0], SEVEN, TARN_ERROR_LIMIT);
  fixture->function.compute = NULL;
  ask_and_unref (fixture->memo, &fixture->first_args[0], SEVEN);
  assert_calls (fixture->memo, 0, 4, N_ASKERS - 1);
  gate_clear (&gate);
}

/* Other entries */

/* So many entries, whose computations are all under way at once. */
static void
compute_together (MemoFixture *fixture, guint n_entries)
{
  g_autofree Asker *askers = g_new (Asker, n_entries);
  guint n_first_args = G_N_ELEMENTS (fixture->first_args);
  Gate gate;

  gate_init (&gate, n_entries);
  make_at_gate (fixture, &gate, compute_at_gate);
  for (guint i = 0; i < n_entries; i++)
    asker_start (&askers[i], fixture->memo, &fixture->first_args[i % n_first_args],
                 (gint) (i / n_first_args));
  for (guint i = 0; i < n_entries; i++)
    asker_finish (&askers[i]);
  assert_calls (fixture->memo, 0, n_entries, 0);
  assert_entries (fixture->memo, n_entries);
  gate_clear (&gate);
}

static void
test_two_entries (MemoFixture *fixture, gconstpointer unused)
{
  (void) unused;
  compute_together (fixture, 2);
}

static void
test_many_entries (MemoFixture *fixture, gconstpointer unused)
{
  (void) unused;
  compute_together (fixture, 64);
}

/* All but the entry itself goes on. */
static void
test_meanwhile (MemoFixture *fixture, gconstpointer unused)
{
  FakeFirstArg *a = &fixture->first_args[0];
  Asker asker;
  Gate gate;
  TarnMemo *memo;

  (void) unused;
  gate_init (&gate, 0);
  memo = make_at_gate (fixture, &gate, compute_seven_at_gate);
  ask_and_unref (memo, a, 1);
  asker_start (&asker, memo, a, SEVEN);
  gate_await (&gate, 1);
  ask_and_unref (memo, a, 1);
  ask_and_unref (memo, a, 2);
  ask_and_unref (memo, &fixture->first_args[1], 1);
  tarn_memo_forget (memo, &fixture->first_args[1]);
  assert_calls (memo, 1, 4, 0);
  assert_entries (memo, 2);
  gate_open (&gate);
  asker_finish (&asker);
  assert_entries (memo, 3);
  gate_clear (&gate);
}

/* Where there is no room left, what is being computed stays what others wait for. */
static void
test_no_room (MemoFixture *fixture, gconstpointer unused)
{
  FakeFirstArg *a = &fixture->first_args[0];
  Asker askers[2];
  Gate gate;

  (void) unused;
  gate_init (&gate, 0);
  fixture->ops.max_entries = 1;
  make_at_gate (fixture, &gate, compute_seven_at_gate);
  asker_start (&askers[0], fixture->memo, a, SEVEN);
  gate_await (&gate, 1);
  ask_and_unref (fixture->memo, a, 1);
  ask_and_unref (fixture->memo, a, 2);
  assert_entries (fixture->memo, 1);
  asker_start (&askers[1], fixture->memo, a, SEVEN);
  await_waits (fixture->memo, 1);
  gate_open (&gate);
  asker_finish (&askers[0]);
  asker_finish (&askers[1]);
  g_assert_true (askers[0].value == askers[1].value);
  assert_calls (fixture->memo, 0, 3, 1);
  assert_entries (fixture->memo, 1);
  g_assert_cmpuint (live (fixture), ==, 1);
  gate_clear (&gate);
}

/* Forgetting what is being computed */

typedef struct
{
  const gchar *name;
  void (*forget) (MemoFixture *fixture);
} Way;

static void
forget (MemoFixture *fixture)
{
  tarn_memo_forget (fixture->memo, &fixture->first_args[0]);
}

static void
clear (MemoFixture *fixture)
{
  tarn_memo_clear (fixture->memo);
}

static void
clear_first_arg (MemoFixture *fixture)
{
  tarn_memo_forget_everywhere (&fixture->first_args[0]);
}

static void
clear_kind (MemoFixture *fixture)
{
  tarn_memo_clear_kind (fixture->ops.first_arg_kind);
}

static void
clear_all (MemoFixture *fixture)
{
  (void) fixture;
  tarn_memo_clear_all ();
}

static const Way ways[] = {
  { "forget", forget },         { "clear", clear },         { "clear-first-arg", clear_first_arg },
  { "clear-kind", clear_kind }, { "clear-all", clear_all },
};

static void
test_forget_meanwhile (MemoFixture *fixture, gconstpointer data)
{
  const Way *way = data;
  Asker askers[N_ASKERS];
  Gate gate;

  gate_init (&gate, 0);
  make_at_gate (fixture, &gate, compute_at_gate);
  start_all (askers, N_ASKERS, fixture, &gate);
  way->forget (fixture);
  way->forget (fixture);
  gate_open (&gate);
  for (guint i = 0; i < N_ASKERS; i++)
    asker_finish (&askers[i]);
  g_assert_cmpuint (fixture->function.n_computed, ==, 1);
  g_assert_cmpuint (live (fixture), ==, 0);
  assert_no_references (fixture);
  assert_evictions (fixture->memo, 0, 0);
  ask_and_unref (fixture->memo, &fixture->first_args[0], SEVEN);
  g_assert_cmpuint (fixture->function.n_computed, ==, 2);
  assert_entries (fixture->memo, 1);
  gate_clear (&gate);
}

static void
test_forget_failing (MemoFixture *fixture, gconstpointer data)
{
  const Way *way = data;
  Asker askers[N_ASKERS];
  Gate gate;

  gate_init (&gate, 0);
  make_at_gate (fixture, &gate, fail_at_gate);
  start_all (askers, N_ASKERS, fixture, &gate);
  way->forget (fixture);
  gate_open (&gate);
  finish_in_vain (askers, N_ASKERS);
  assert_no_references (fixture);
  assert_entries (fixture->memo, 0);
  gate_clear (&gate);
}

/* Who asks after that gets nothing from before. */
static void
test_ask_after_forget (MemoFixture *fixture, gconstpointer data)
{
  FakeFirstArg *a = &fixture->first_args[0];
  const Way *way = data;
  Asker before, after;
  Gate gate;
  FakeValue *value;

  gate_init (&gate, 0);
  make_at_gate (fixture, &gate, compute_at_gate);
  asker_start (&before, fixture->memo, a, SEVEN);
  gate_await (&gate, 1);
  way->forget (fixture);
  asker_start (&after, fixture->memo, a, SEVEN);
  await_calls (fixture->memo, 2);
  gate_open (&gate);
  asker_finish (&before);
  asker_finish (&after);
  g_assert_true (before.value != after.value);
  g_assert_true (((FakeValue *) before.value)->is_gone);
  value = ask (fixture->memo, a, SEVEN);
  g_assert_true (value == after.value);
  fake_value_unref (value);
  g_assert_cmpuint (fixture->function.n_computed, ==, 2);
  g_assert_cmpuint (live (fixture), ==, 1);
  gate_clear (&gate);
}

/* Recursion: entry 1 asks for entry 2 and so on; the last asks for 1.  The computations that the
 * threads begin with meet at the gate. */

typedef struct
{
  const gchar *name;
  gint n_entries;
  gboolean in_two_memos;
  guint n_threads;
  gint starts[3];
} RingShape;

typedef struct
{
  const RingShape *shape;
  MemoFixture *fixture;
  Gate gate;
  gboolean is_tolerant; /* a computation does without what it does not get */
  guint n_refused;
} Ring;

static const RingShape shapes[] = {
  { "own", 1, FALSE, 1, { 1 } },
  { "indirectly", 5, FALSE, 1, { 1 } },
  { "two-memos", 2, TRUE, 1, { 1 } },
  { "two-memos-indirectly", 4, TRUE, 1, { 1 } },
  { "two-threads", 2, FALSE, 2, { 1, 2 } },
  { "two-threads-two-memos", 2, TRUE, 2, { 1, 2 } },
  { "two-threads-indirectly", 4, FALSE, 2, { 1, 4 } },
  { "two-threads-two-memos-indirectly", 6, TRUE, 2, { 1, 4 } },
  { "three-threads", 3, FALSE, 3, { 1, 2, 3 } },
  { "three-threads-two-memos", 8, TRUE, 3, { 1, 4, 6 } },
};

static TarnMemo *
memo_of (Ring *ring, gint number)
{
  MemoFixture *fixture = ring->fixture;

  return ring->shape->in_two_memos && number % 2 == 0 ? fixture->other_memo : fixture->memo;
}

static gpointer
compute_in_ring (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  Ring *ring = ((FakeFunction *) user_data)->data;
  gint number = GPOINTER_TO_INT (key);
  gint next = number % ring->shape->n_entries + 1;
  g_autoptr (GError) refused = NULL;
  gpointer value;

  gate_pass (&ring->gate);
  if (tarn_memo_get (memo_of (ring, next), first_arg, GINT_TO_POINTER (next), &value, &refused))
    fake_value_unref (value);
  else
    {
      g_assert_error (refused, TARN_ERROR, TARN_ERROR_RECURSION);
      count (&ring->n_refused);
      if (!ring->is_tolerant)
        {
          g_propagate_error (error, g_steal_pointer (&refused));
          return NULL;
        }
    }
  return fake_value_new (user_data, first_arg, number);
}

static void
ring_init (Ring *ring, MemoFixture *fixture, const RingShape *shape, gboolean is_tolerant)
{
  *ring = (Ring){ .shape = shape, .fixture = fixture, .is_tolerant = is_tolerant };
  gate_init (&ring->gate, shape->n_threads);
  fixture->function.compute = fixture->other.compute = compute_in_ring;
  fixture->function.data = fixture->other.data = ring;
  memo_fixture_make (fixture);
  memo_fixture_make_other (fixture);
}

static void
ring_run (Ring *ring, Asker *askers)
{
  const RingShape *shape = ring->shape;

  for (guint i = 0; i < shape->n_threads; i++)
    asker_start (&askers[i], memo_of (ring, shape->starts[i]), &ring->fixture->first_args[0],
                 shape->starts[i]);
  for (guint i = 0; i < shape->n_threads; i++)
    asker_join (&askers[i]);
  g_assert_cmpuint (ring->n_refused, >=, 1);
}

/* Nothing of it is left in the way. */
static void
ring_finish (Ring *ring)
{
  MemoFixture *fixture = ring->fixture;

  fixture->function.compute = fixture->other.compute = NULL;
  for (gint number = 1; number <= ring->shape->n_entries; number++)
    ask_and_unref (memo_of (ring, number), &fixture->first_args[0], number);
  tarn_memo_clear_all ();
  assert_no_references (fixture);
  gate_clear (&ring->gate);
}

static void
test_recursion (MemoFixture *fixture, gconstpointer shape)
{
  Asker askers[3];
  Ring ring;

  ring_init (&ring, fixture, shape, FALSE);
  ring_run (&ring, askers);
  for (guint i = 0; i < ring.shape->n_threads; i++)
    {
      g_assert_error (askers[i].error, TARN_ERROR, TARN_ERROR_RECURSION);
      g_error_free (askers[i].error);
    }
  assert_entries (fixture->memo, 0);
  assert_entries (fixture->other_memo, 0);
  assert_no_references (fixture);
  ring_finish (&ring);
}

static void
test_tolerant_recursion (MemoFixture *fixture, gconstpointer shape)
{
  Asker askers[3];
  Ring ring;

  ring_init (&ring, fixture, shape, TRUE);
  ring_run (&ring, askers);
  for (guint i = 0; i < ring.shape->n_threads; i++)
    {
      g_assert_no_error (askers[i].error);
      g_assert_cmpint (((FakeValue *) askers[i].value)->number, ==, askers[i].number);
      fake_value_unref (askers[i].value);
    }
  ring_finish (&ring);
}

/* A call that is refused would have waited. */
static void
test_recursion_is_counted (MemoFixture *fixture, gconstpointer unused)
{
  TarnMemoStats stats = TARN_MEMO_STATS_INIT;
  Ring ring;

  (void) unused;
  ring_init (&ring, fixture, &shapes[0], TRUE);
  ask_and_unref (fixture->memo, &fixture->first_args[0], 1);
  assert_calls (fixture->memo, 0, 1, 1);
  ring.is_tolerant = FALSE;
  g_assert_false (
      tarn_memo_get (fixture->memo, &fixture->first_args[1], GINT_TO_POINTER (1), NULL, NULL));
  assert_calls (fixture->memo, 0, 2, 2);
  tarn_memo_get_stats (fixture->memo, &stats);
  g_assert_cmpuint (stats.failures, ==, 1);
  ring_finish (&ring);
}

/* What is no recursion */

/* Each entry asks for the one below; that of 0 is computed at the gate. */
typedef struct
{
  TarnMemo *memo;
  Gate gate;
} Line;

static gpointer
compute_from_below (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  FakeFunction *function = user_data;
  Line *line = function->data;
  gint number = GPOINTER_TO_INT (key);
  gpointer value;

  if (number == 0)
    gate_pass (&line->gate);
  else if (tarn_memo_get (line->memo, first_arg, GINT_TO_POINTER (number - 1), &value, error))
    fake_value_unref (value);
  else
    return NULL;
  return fake_value_new (function, first_arg, number);
}

static void
line_init (Line *line, MemoFixture *fixture, guint gate_opens_at)
{
  gate_init (&line->gate, gate_opens_at);
  fixture->function.compute = compute_from_below;
  fixture->function.data = line;
  line->memo = memo_fixture_make (fixture);
}

static void
test_deep (MemoFixture *fixture, gconstpointer unused)
{
  Line line;

  (void) unused;
  line_init (&line, fixture, 1);
  ask_and_unref (fixture->memo, &fixture->first_args[0], 100);
  ask_and_unref (fixture->memo, &fixture->first_args[0], 50);
  ask_and_unref (fixture->memo, &fixture->first_args[0], 200);
  assert_calls (fixture->memo, 2, 201, 0);
  gate_clear (&line.gate);
}

/* Threads that wait for each other in a line, two at each place. */
static void
test_line (MemoFixture *fixture, gconstpointer unused)
{
  Asker askers[2][N_ASKERS];
  Line line;

  (void) unused;
  line_init (&line, fixture, 0);
  for (guint i = 0; i < 2; i++)
    for (gint j = 0; j < N_ASKERS; j++)
      {
        asker_start (&askers[i][j], fixture->memo, &fixture->first_args[0], j);
        gate_await (&line.gate, 1);
        await_waits (fixture->memo, i * N_ASKERS + (guint) j);
      }
  gate_open (&line.gate);
  for (guint i = 0; i < 2; i++)
    for (guint j = 0; j < N_ASKERS; j++)
      asker_finish (&askers[i][j]);
  assert_calls (fixture->memo, 0, N_ASKERS, 2 * N_ASKERS - 1);
  gate_clear (&line.gate);
}

static gpointer
compute_from_next_arg (gpointer first_arg, gconstpointer key, gpointer user_data, GError **error)
{
  FakeFunction *function = user_data;
  MemoFixture *fixture = function->data;
  gpointer value;

  if (first_arg == &fixture->first_args[0])
    {
      if (!tarn_memo_get (fixture->memo, &fixture->first_args[1], key, &value, error))
        return NULL;
      fake_value_unref (value);
    }
  return fake_value_new (function, first_arg, GPOINTER_TO_INT (key));
}

static void
test_other_first_arg (MemoFixture *fixture, gconstpointer unused)
{
  (void) unused;
  fixture->function.compute = compute_from_next_arg;
  fixture->function.data = fixture;
  memo_fixture_make (fixture);
  ask_and_unref (fixture->memo, &fixture->first_args[0], 1);
  assert_calls (fixture->memo, 0, 2, 0);
}

static void
add (const gchar *group, const gchar *name, gconstpointer data,
     void (*func) (MemoFixture *, gconstpointer))
{
  g_autofree gchar *path = g_strdup_printf ("/core/memo/threads/%s%s", group, name);

  g_test_add (path, MemoFixture, data, memo_fixture_set_up, func, memo_fixture_tear_down);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  add ("", "once", NULL, test_once);
  add ("", "warming", NULL, test_warming);
  add ("", "null", NULL, test_null);
  add ("", "error", NULL, test_error);
  add ("", "two-entries", NULL, test_two_entries);
  add ("", "many-entries", NULL, test_many_entries);
  add ("", "meanwhile", NULL, test_meanwhile);
  add ("", "no-room", NULL, test_no_room);
  for (guint i = 0; i < G_N_ELEMENTS (ways); i++)
    {
      add ("forget-meanwhile/", ways[i].name, &ways[i], test_forget_meanwhile);
      add ("forget-failing/", ways[i].name, &ways[i], test_forget_failing);
      add ("ask-after-forget/", ways[i].name, &ways[i], test_ask_after_forget);
    }
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    {
      add ("recursion/", shapes[i].name, &shapes[i], test_recursion);
      add ("tolerant-recursion/", shapes[i].name, &shapes[i], test_tolerant_recursion);
    }
  add ("", "recursion-is-counted", NULL, test_recursion_is_counted);
  add ("", "deep", NULL, test_deep);
  add ("", "line", NULL, test_line);
  add ("", "other-first-arg", NULL, test_other_first_arg);
  return g_test_run ();
}
