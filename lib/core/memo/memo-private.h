/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Types and functions that the files of this folder share.  A memo memoizes a function of a first
 * argument (a context, say) and a key: it keeps an entry with the value for each such pair.
 *
 *     memo.c          makes and frees memos; hits; counters
 *     compute.c       computes an entry once, lets other threads wait, refuses recursion
 *     forget.c        forgets the entries of a first argument, or of destroyed first arguments
 *     own.c           values that are different for each thread
 *     memo-check.c    checks the invariants
 *     tuple.c         keys of several values */

#ifndef TARN_MEMO_PRIVATE_H
#define TARN_MEMO_PRIVATE_H

#include <tarn/memo.h>

#include "base/thread-private.h"
#include "common/whole-private.h"

/* A probe: the first argument and the key by which a lookup finds an entry. */
typedef struct
{
  gpointer first_arg;
  guint64 id; /* the id of first_arg, or 0 if the memo has no first_arg_id function */
  gconstpointer key;
  GEqualFunc equal; /* the function that compares keys */
  guint hash;       /* the hash of first_arg, id and key */
} TarnMemoProbe;

typedef struct _TarnComputation TarnComputation;

/* The state of a thread that computes or waits, in all memos together.  A thread that is ending,
 * and has no TarnThread any more, still has this state. */
typedef struct
{
  /* The latest computation that the thread began, and has not ended; only the thread reads this. */
  TarnComputation *innermost;
  /* The computation that the thread waits for; guarded by the lock in compute.c. */
  const TarnComputation *waiting_for;
} TarnComputer;

/* A call that computes an entry.  That call and each waiting thread have a reference to the
 * struct. */
struct _TarnComputation
{
  /* First: a key of TarnMemo.computations.  probe.key belongs to the caller of tarn_memo_get (). */
  TarnMemoProbe probe;
  gint ref_count;       /* atomic */
  TarnMemo *memo;       /* without a reference, because the calls that compute or wait have one */
  TarnComputer *thread; /* the thread that computes; valid until is_done */
  /* The computation in which the same thread began this one; NULL: none.  Only that thread reads
   * it. */
  struct _TarnComputation *outer;

  /* The computing thread writes these fields; they are constant after is_done is set.  The lock in
   * compute.c guards is_done. */
  gpointer value;
  gboolean owns_value; /* TRUE: this struct owns value, or the reference to it */
  GError *error;
  gboolean is_done;
  TarnCond done; /* signalled when is_done changes */
};

/* A group: all entries of one first argument. */
typedef struct
{
  gpointer first_arg; /* with a reference, if the memo has ref_first_arg */
  guint64 id;
  /* A list of TarnMemoEntry.  In a memo with max_entries, the most recently used one is first. */
  GQueue entries;
} TarnMemoGroup;

typedef struct
{
  /* First: a key of TarnMemo.entries.  The entry owns probe.key. */
  TarnMemoProbe probe;
  gpointer value; /* a reference to the value, or the value itself if the memo has no ref_value */
  /* References to the threads' own values, indexed by TarnThread.number; NULL: there are none
   * yet. */
  gpointer *own;
  guint n_own;
  TarnMemoGroup *group;
  GList link; /* the link in group->entries */
} TarnMemoEntry;

/* A memo's counters for the thread with a certain number, in a cache line of their own. */
typedef struct
{
  guint64 hits TARN_WHOLE; /* atomic; only that thread writes it */
} __attribute__ ((aligned (TARN_CACHE_LINES))) TarnMemoLocal;

/* A memo.
 *
 * A hit is a read section (thread-private.h), which only reads.  The fields that hits read change
 * only while the door is closed: no thread is in a read section then.  In a memo with max_entries
 * each hit changes the order of entries, so the door stays closed, and hits take the lock.  The
 * program's functions hash, equal and ref_value are called in a read section or with the lock held.
 *
 * Invariants, at each moment when no thread holds the lock; _tarn_memo_check () checks them:
 *
 *     each entry is in the table entries once, by its probe, and in the queue of its group
 *     no group is empty, and no two groups have the same first argument and id
 *     no group has more than max_entries entries, if max_entries is not 0
 *     no entry has the same probe as a computation in the table computations */
struct _TarnMemo
{
  /* Constant fields */
  TarnMemoOps ops; /* ops.first_arg_kind is a copy; ops.upstream has a reference */
  TarnMemoFunc func;
  gpointer user_data;
  GDestroyNotify destroy;

  /* Fields that hits read, and that change only with the lock held and the door closed */
  TarnDoor door;
  GHashTable *entries; /* a set of TarnMemoEntry, which the memo owns */
  TarnMemoLocal **locals;
  guint n_locals;

  TarnMutex lock; /* guards the fields below */
  /* A set of TarnComputation: those in progress whose results the memo will keep. */
  GHashTable *computations;
  GSList *groups;      /* of TarnMemoGroup */
  TarnMemoStats stats; /* without the number of entries, and without the hits that took no lock */

  gint ref_count;            /* atomic; each call that computes or waits has a reference */
  TarnMemo *previous, *next; /* in the list of all memos; guarded by that list's lock */
};

typedef enum
{
  TARN_MEMO_ABSENT, /* the memo has no such entry, or a thread is still computing it */
  TARN_MEMO_HIT,
  TARN_MEMO_NONE_OF_OWN,  /* the memo has the entry, but no value for this thread */
  TARN_MEMO_UNREFERENCED, /* the memo has the entry, but ref_value could not reference its value */
  TARN_MEMO_NEWCOMER      /* this thread has no TarnMemoLocal in this memo yet */
} TarnMemoLookup;

/* memo.c */
void _tarn_memo_close (TarnMemo *memo);
void _tarn_memo_open (TarnMemo *memo);
gboolean _tarn_memo_probes_equal (gconstpointer a, gconstpointer b);
gboolean _tarn_memo_ref_value (TarnMemo *memo, gpointer value, gpointer *ref);
gboolean _tarn_memo_set_unreferenced (GError **error);
void _tarn_memo_unref_value (TarnMemo *memo, gpointer value, const TarnMemoProbe *probe);
gboolean _tarn_memo_is_dead (TarnMemo *memo, gpointer first_arg, guint64 id);

/* Take and drop a reference, which keeps a memo alive during a call of the program's functions: the
 * program may drop its last reference in these.  _tarn_memo_try_ref () returns FALSE if the last
 * reference is already gone; then it takes none. */
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

/* Checks the invariants, but only in builds with --enable-debug=full.  The caller holds the memo's
 * lock.  Every operation except a hit calls this at its end. */
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
