/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A function to memoize that is a ledger: of its computations, of its values and of who has a
 * reference on them and on first arguments.  Any thread may use it.  Mistakes of the memo end the
 * test: a reference given back that was not given out, a value used after its last, a call after
 * destroy (), something left over when the function is cleared.
 *
 * Counters are without order between threads, so that they do not hide from ThreadSanitizer what
 * the memo leaves unordered. */

#ifndef TARN_FAKE_FUNCTION_H
#define TARN_FAKE_FUNCTION_H

#include <tarn/memo.h>

#include "common/lock-private.h"

/* Counters */

static inline void
count (guint *counter)
{
  __atomic_add_fetch (counter, 1, __ATOMIC_RELAXED);
}

static inline guint
counted (const guint *counter)
{
  return __atomic_load_n (counter, __ATOMIC_RELAXED);
}

/* First arguments */

typedef struct
{
  guint n_refs;
  guint64 id;
} FakeFirstArg;

/* Values */

typedef struct _FakeFunction FakeFunction;

typedef struct _FakeValue
{
  struct _FakeValue *next; /* all that the function ever gave stay, so that none is used unseen */
  FakeFunction *function;
  gpointer first_arg;
  gint number;
  struct _FakeValue *of; /* the value that this is a thread's own of; not a reference */
  guint n_refs;
  gboolean is_gone;
  guint n_uses;
} FakeValue;

/* With one reference, which is the caller's. */
FakeValue *fake_value_new (FakeFunction *function, gpointer first_arg, gint number);
FakeValue *fake_value_ref (FakeValue *value);
void fake_value_unref (FakeValue *value);

/* Functions.  Keys are numbers: GINT_TO_POINTER (). */

struct _FakeFunction
{
  /* What the test has it do; NULL: what is said here.  Not to be changed while it is used. */
  TarnMemoFunc compute;   /* a value whose number is the key; user_data is the FakeFunction */
  TarnMemoFunc on_thread; /* a value of the same number for the thread */
  void (*on_ref) (FakeFunction *function); /* inside the memo: not to call Tarn, nor to wait */
  void (*on_unref) (FakeFunction *function, FakeValue *value); /* each reference */
  void (*on_destroy) (FakeFunction *function);
  gpointer data;
  gpointer current; /* first argument; NULL: TARN_ERROR_NO_CONTEXT */

  guint n_computed, n_on_thread;
  guint n_values, n_gone;
  guint n_unrefs, n_dead; /* calls of unref_value; those with is_dead */
  guint n_hooked;         /* the test's own */
  gboolean is_used, is_destroyed;
  FakeValue *values;
};

void fake_function_init (FakeFunction *function);
void fake_function_clear (FakeFunction *function);

/* What counts references; without value_for_thread, first_arg_id and current_first_arg. */
void fake_function_ops_init (TarnMemoOps *ops);
guint64 fake_first_arg_id (gpointer user_data, gpointer first_arg);
gpointer fake_current_first_arg (gpointer user_data, GError **error);
gpointer fake_value_for_thread (gpointer user_data, gpointer value, gpointer first_arg,
                                gconstpointer key, GError **error);

/* One memo of a function. */
TarnMemo *fake_function_memo_new (FakeFunction *function, const TarnMemoOps *ops);

/* Values that somebody has a reference on. */
guint fake_function_get_live (FakeFunction *function);

/* Asking a memo: ends the test on an error, or a value that is not the number's. */
FakeValue *ask (TarnMemo *memo, gpointer first_arg, gint number);
void ask_and_unref (TarnMemo *memo, gpointer first_arg, gint number);
/* Ends the test unless there is this error. */
void ask_in_vain (TarnMemo *memo, gpointer first_arg, gint number, TarnError code);

void assert_calls (TarnMemo *memo, guint64 hits, guint64 misses, guint64 waits);
void assert_entries (TarnMemo *memo, gsize entries);
void assert_evictions (TarnMemo *memo, gsize entries, guint64 evictions);

/* A thread that asks. */

typedef struct
{
  TarnMemo *memo;
  gpointer first_arg;
  gint number;
  gboolean only_warms;
  gpointer value; /* the reference is the caller's */
  GError *error;
  GThread *thread;
} Asker;

void asker_start (Asker *asker, TarnMemo *memo, gpointer first_arg, gint number);
/* ... without a place for the value. */
void asker_start_warming (Asker *asker, TarnMemo *memo, gpointer first_arg, gint number);
void asker_join (Asker *asker);
/* Joins one that must have got a value of its number, which is given back. */
void asker_finish (Asker *asker);

/* Until so many calls have waited in all; a memo that never gets there ends the test. */
void await_waits (TarnMemo *memo, guint64 waits);
/* ... so many have got as far as looking an entry up. */
void await_calls (TarnMemo *memo, guint64 calls);

/* Where threads wait for each other.  It opens when so many have come, or is opened. */

typedef struct
{
  TarnMutex lock;
  TarnCond changed;
  guint n_come, opens_at; /* 0: it does not open by itself */
  gboolean is_open;
} Gate;

void gate_init (Gate *gate, guint opens_at);
void gate_clear (Gate *gate);
void gate_pass (Gate *gate);
void gate_open (Gate *gate);
void gate_await (Gate *gate, guint n_come);

/* What a function computes that is held up at a gate, which is its data. */
gpointer compute_at_gate (gpointer first_arg, gconstpointer key, gpointer user_data,
                          GError **error);

/* A fixture: two functions, for a memo each. */

typedef struct
{
  FakeFunction function, other;
  FakeFirstArg first_args[3];
  TarnMemoOps ops;
  TarnMemo *memo, *other_memo;
} MemoFixture;

void memo_fixture_set_up (MemoFixture *fixture, gconstpointer unused);
void memo_fixture_tear_down (MemoFixture *fixture, gconstpointer unused);
/* Each a memo as the ops are by then. */
TarnMemo *memo_fixture_make (MemoFixture *fixture);
TarnMemo *memo_fixture_make_other (MemoFixture *fixture);
/* Nobody has a reference on a first argument. */
void assert_no_references (MemoFixture *fixture);
/* Values of the first function that somebody has a reference on. */
guint live (MemoFixture *fixture);

/* So long until a test that hangs is killed, in seconds. */
void watch (guint seconds);

#endif
