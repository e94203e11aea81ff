/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Types and functions that the parts of a memo share:
 *
 *     memo.c          making and freeing memos, hits, counters
 *     compute.c       computing once, waiting, recursion
 *     forget.c        forgetting a first argument, or a dead one
 *     own.c           values that are different for each thread
 *     memo-check.c    checks the invariants
 *     tuple.c         keys of several values */

#ifndef TARN_MEMO_PRIVATE_H
#define TARN_MEMO_PRIVATE_H

#include <tarn/memo.h>

#include "base/thread-private.h"
#include "common/whole-private.h"

/* The key by which an entry is found: its first argument and the caller's key. */
typedef struct
{
  gpointer first_arg;
  guint64 id; /* its id, if memos of this kind have ids; else 0 */
  gconstpointer key;
  GEqualFunc equal; /* compares keys */
  guint hash;       /* over all fields */
} TarnMemoProbe;

typedef struct _TarnComputation TarnComputation;

/* The state of a thread that computes or waits, in all memos; threads that are ending have one,
 * too. */
typedef struct
{
  TarnComputation *innermost;         /* its latest computation; only the thread reads it */
  const TarnComputation *waiting_for; /* under the lock of all computations */
} TarnComputer;

/* A call that computes an entry.  The call has a reference, and so has each thread that waits. */
struct _TarnComputation
{
  TarnMemoProbe probe;            /* first: see TarnMemo.computations; the key is the caller's */
  gint ref_count;                 /* atomic */
  TarnMemo *memo;                 /* no reference, because the callers have one */
  TarnComputer *thread;           /* the thread that computes; valid until it is done */
  struct _TarnComputation *outer; /* the one that thread was in before; only it reads this */

  /* Written by the thread that computes, and constant once is_done, which the lock of all
   * computations guards. */
  gpointer value;
  gboolean owns_value; /* value is a reference, or the only one that there is */
  GError *error;
  gboolean is_done;
  TarnCond done; /* signalled when is_done changes */
};

/* The entries of one first argument. */
typedef struct
{
  gpointer first_arg; /* a reference, if they can be referenced */
  guint64 id;
  GQueue entries; /* TarnMemoEntrys; in a memo with max_entries, the most recently used first */
} TarnMemoGroup;

typedef struct
{
  TarnMemoProbe probe; /* first: see TarnMemo.entries; the key is its own */
  gpointer value;      /* a reference, or the only one that there is */
  gpointer *own;       /* references, indexed by the thread's number; NULL: none yet */
  guint n_own;
  TarnMemoGroup *group;
  GList link; /* in group->entries */
} TarnMemoEntry;

/* A memo's counters for one thread number, in a cache line of their own. */
typedef struct
{
  guint64 hits TARN_WHOLE; /* atomic, written by that thread alone */
} __attribute__ ((aligned (TARN_CACHE_LINES))) TarnMemoLocal;

/* A memo.
 *
 * Hits only read: they are read sections (thread-private.h), and the fields that they read change
 * only while the door is closed.  In a memo where each hit changes the order of entries, the door
 * is always closed, and hits take the lock. hash, equal and ref_value are called in a read section,
 * or under the lock.
 *
 * Invariants, whenever the lock can be taken; _tarn_memo_check () checks them: each entry is in the
 * table once, by its probe, and in the queue of its group.  No group is empty, and no two have the
 * same first argument and id.  With max_entries, no group has more.  No entry in the table is also
 * in the table of computations. */
struct _TarnMemo
{
  /* Constant */
  TarnMemoOps ops; /* ops.first_arg_kind is ours, ops.upstream a reference */
  TarnMemoFunc func;
  gpointer user_data;
  GDestroyNotify destroy;

  /* Fields that hits read */
  TarnDoor door;
  GHashTable *entries; /* set of TarnMemoEntry, owned */
  TarnMemoLocal **locals;
  guint n_locals;

  TarnMutex lock;           /* guards the fields below, and changes of the fields that hits read */
  GHashTable *computations; /* computations whose result should be kept */
  GSList *groups;           /* TarnMemoGroups */
  TarnMemoStats stats;      /* without the number of entries, and the hits that took no lock */

  gint ref_count;            /* atomic; each call that computes or waits has a reference */
  TarnMemo *previous, *next; /* in the list of all memos, under its lock */
};

typedef enum
{
  TARN_MEMO_ABSENT, /* not there, or being computed */
  TARN_MEMO_HIT,
  TARN_MEMO_NONE_OF_OWN,  /* it is there, but has no value for this thread */
  TARN_MEMO_UNREFERENCED, /* it is there, but cannot be referenced for the caller */
  TARN_MEMO_NEWCOMER      /* this thread has no TarnMemoLocal yet */
} TarnMemoLookup;

/* memo.c */
void _tarn_memo_close (TarnMemo *memo); /* takes the lock; no thread is inside then */
void _tarn_memo_open (TarnMemo *memo);
gboolean _tarn_memo_probes_equal (gconstpointer a, gconstpointer b);
gboolean _tarn_memo_ref_value (TarnMemo *memo, gpointer value, gpointer *ref);
gboolean _tarn_memo_set_unreferenced (GError **error);
void _tarn_memo_unref_value (TarnMemo *memo, gpointer value, const TarnMemoProbe *probe);
gboolean _tarn_memo_is_dead (TarnMemo *memo, gpointer first_arg, guint64 id);

/* Keep a memo alive during a callback, in which its last owner may drop it.  The first returns
 * FALSE if that has happened already; the memo is then not kept alive. */
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

/* Checks the invariants, in builds with --enable-debug=full.  Called after every operation except
 * hits, with the lock held. */
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
