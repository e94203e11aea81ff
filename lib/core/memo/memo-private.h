/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What the parts of a memo share:
 *
 *     memo.c          its life, hits, statistics
 *     compute.c       computing once, waiting, recursion
 *     forget.c        forgetting: a first argument, a dead one, the one asked for the longest ago
 *     own.c           values that each thread has its own of
 *     memo-check.c    the invariants, executed
 *     tuple.c         keys of several values */

#ifndef TARN_MEMO_PRIVATE_H
#define TARN_MEMO_PRIVATE_H

#include <tarn/memo.h>

#include "base/thread-private.h"
#include "common/whole-private.h"

/* What an entry is found by. */
typedef struct
{
  gpointer first_arg;
  guint64 id; /* of first_arg, if memos of its kind have ids; else 0 */
  gconstpointer key;
  GEqualFunc equal; /* of keys */
  guint hash;       /* of all of it */
} TarnMemoProbe;

typedef struct _TarnComputation TarnComputation;

/* What a thread does in all memos; of threads that are ending, too. */
typedef struct
{
  TarnComputation *innermost;         /* the thread's own: what it is computing */
  const TarnComputation *waiting_for; /* behind the lock of all computations */
} TarnComputer;

/* One call that computes an entry.  It has a reference, and so has each thread that waits. */
struct _TarnComputation
{
  TarnMemoProbe probe;            /* first: see TarnMemo.computations; the key is the caller's */
  gint ref_count;                 /* atomic */
  TarnMemo *memo;                 /* no reference: whoever is in a call has one */
  TarnComputer *thread;           /* that computes; valid until then */
  struct _TarnComputation *outer; /* what that thread was computing before; its own business */

  /* Written by the thread that computes, and constant once is_done, which the lock of all
   * computations guards. */
  gpointer value;
  gboolean owns_value; /* a reference, or the only one that there is */
  GError *error;
  gboolean is_done;
  TarnCond done; /* is_done has changed */
};

/* The entries of one first argument. */
typedef struct
{
  gpointer first_arg; /* a reference, if they can be referenced */
  guint64 id;
  GQueue entries; /* of TarnMemoEntry; in a memo with max_entries the one asked for last is first */
} TarnMemoGroup;

typedef struct
{
  TarnMemoProbe probe; /* first: see TarnMemo.entries; the key is its own */
  gpointer value;      /* a reference, or the only one that there is */
  gpointer *own;       /* references, by the thread's number; NULL: none yet */
  guint n_own;
  TarnMemoGroup *group;
  GList link; /* in group->entries */
} TarnMemoEntry;

/* What a memo has for a thread's number; in a cache line of its own. */
typedef struct
{
  guint64 hits TARN_WHOLE; /* atomic, written by that thread alone */
} __attribute__ ((aligned (TARN_CACHE_LINES))) TarnMemoLocal;

/* Hits only read: they enter by a door (thread-private.h), and what they read changes while it is
 * closed.  Where each hit changes the order of entries, it stays closed for good, and hits take
 * the lock.  hash, equal and ref_value are called inside, or under the lock.
 *
 * Invariants, whenever the lock can be taken; _tarn_memo_check () executes them:
 *
 *     every entry is in the table once, by its probe, and in the queue of its group
 *     no group is empty, and no two are of the same first argument and id
 *     with max_entries, no group has more
 *     nothing that is kept is being computed for being kept */
struct _TarnMemo
{
  /* Constant */
  TarnMemoOps ops; /* ops.first_arg_kind is ours, ops.upstream a reference */
  TarnMemoFunc func;
  gpointer user_data;
  GDestroyNotify destroy;

  /* What hits read */
  TarnDoor door;
  GHashTable *entries; /* set of TarnMemoEntry, owned */
  TarnMemoLocal **locals;
  guint n_locals;

  TarnMutex lock;           /* of all that follows, and of changing what hits read */
  GHashTable *computations; /* set of those whose result is to be kept */
  GSList *groups;           /* of TarnMemoGroup */
  TarnMemoStats stats;      /* but for entries, and the hits that took no lock */

  gint ref_count;            /* atomic; calls that compute or wait have one each */
  TarnMemo *previous, *next; /* every memo of the process; behind the lock of that list */
};

typedef enum
{
  TARN_MEMO_ABSENT, /* or being computed */
  TARN_MEMO_HIT,
  TARN_MEMO_NONE_OF_OWN,  /* it is there, but has no value for this thread */
  TARN_MEMO_UNREFERENCED, /* it is there, but the caller cannot have a reference */
  TARN_MEMO_NEWCOMER      /* this thread has no local yet */
} TarnMemoLookup;

/* memo.c */
void _tarn_memo_close (TarnMemo *memo); /* takes the lock; nobody is inside afterwards */
void _tarn_memo_open (TarnMemo *memo);
gboolean _tarn_memo_probes_equal (gconstpointer a, gconstpointer b);
gboolean _tarn_memo_ref_value (TarnMemo *memo, gpointer value, gpointer *ref);
gboolean _tarn_memo_set_unreferenced (GError **error);
void _tarn_memo_unref_value (TarnMemo *memo, gpointer value, const TarnMemoProbe *probe);
gboolean _tarn_memo_is_dead (TarnMemo *memo, gpointer first_arg, guint64 id);

/* Around what calls back: its last owner may let go of the memo there, or has done so already, and
 * then it is not kept from dying once more. */
gboolean _tarn_memo_try_ref (TarnMemo *memo);
void _tarn_memo_end_call (TarnMemo *memo, gboolean has_begun);

/* compute.c */
gboolean _tarn_memo_get_slowly (TarnMemo *memo, const TarnMemoProbe *probe, gpointer *value,
                                GError **error);
void _tarn_memo_check_result (TarnMemo *memo, const TarnMemoProbe *probe, gpointer *value,
                              const GError *error);

/* forget.c */
void _tarn_memo_register (TarnMemo *memo);
void _tarn_memo_unregister (TarnMemo *memo);
void _tarn_memo_forget_all (TarnMemo *memo);
void _tarn_memo_forget_dead (TarnMemo *memo, const TarnMemoProbe *probe);
void _tarn_memo_entry_free (TarnMemo *memo, TarnMemoEntry *entry);
gboolean _tarn_memo_groups_equal (const TarnMemoGroup *a, const TarnMemoGroup *b);
TarnMemoGroup *_tarn_memo_group_new (TarnMemo *memo, const TarnMemoProbe *probe);
void _tarn_memo_group_free (TarnMemo *memo, TarnMemoGroup *group);

/* own.c */
gboolean _tarn_memo_give_own_value (TarnMemo *memo, const TarnMemoProbe *probe, gpointer shared,
                                    gpointer *value, GError **error);

/* memo-check.c */
const gchar *_tarn_memo_check (TarnMemo *memo);
void _tarn_memo_assert_valid (TarnMemo *memo);

/* After every operation but hits, under the lock, in builds with --enable-debug=full. */
static inline void
_tarn_memo_check_if_full_debug (TarnMemo *memo)
{
#if defined(TARN_DEBUG_LEVEL) && TARN_DEBUG_LEVEL >= 2
  _tarn_memo_assert_valid (memo);
#else
  (void) memo;
#endif
}

#endif
