/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Types and functions that the files of this folder share.  A memo caches the results of a function
 * that the program gives.  The function has two arguments: a first argument (a context, for
 * example) and a key.  For each pair of a first argument and a key, the memo keeps an entry with
 * the value.
 *
 *     memo.c          makes and frees memos; finds entries (hits); counts hits and misses
 *     compute.c       computes an entry once, lets other threads wait, refuses recursion
 *     forget.c        forgets the entries of a first argument, or of destroyed first arguments
 *     own.c           values that are different for each thread
 *     memo-check.c    checks the invariants
 *     tuple.c         keys of several values */

#ifndef TARN_MEMO_PRIVATE_H
#define TARN_MEMO_PRIVATE_H

#include <tarn/memo.h>

#include "base/ref-private.h"
#include "base/thread-private.h"
#include "common/whole-private.h"

/* A probe: the first argument (such as a context) and the key for which a caller looks up an entry
 * of a memo. */
typedef struct
{
  gpointer first_arg;
  guint64 id; /* unique id of first_arg; 0 if the memo has no function first_arg_id */
  gconstpointer key;
  GEqualFunc equal; /* the function that compares keys */
  guint hash;       /* the hash of first_arg, id and key */
} TarnMemoProbe;

typedef struct _TarnComputation TarnComputation;

/* The computations of one thread in all memos: those that the thread is computing, and the one that
 * it waits for.  This struct is not a part of TarnThread, because a thread that is ending has no
 * TarnThread any more. */
typedef struct
{
  /* The computation that the thread has begun last and has not finished, NULL if there is none.
   * Only this thread reads the field. */
  TarnComputation *innermost;
  /* The computation for which the thread waits, NULL if there is none.  The lock in compute.c
   * guards this field. */
  const TarnComputation *waiting_for;
} TarnComputer;

/* A computation: a call that computes the value of an entry.  That call and each thread that waits
 * for the result have a reference to the struct. */
struct _TarnComputation
{
  /* The first argument and the key of the entry.  Must be the first field of the struct, because
   * the table TarnMemo.computations uses a pointer to the struct as a pointer to this field.  The
   * caller of tarn_memo_get () owns probe.key. */
  TarnMemoProbe probe;
  gint ref_count; /* atomic */
  TarnMemo *memo; /* not owned: each call that computes the value, or waits for it, has its own
                     reference to the memo */
  TarnComputer *thread; /* the thread that computes the value; valid until is_done is TRUE */
  /* The computation that the same thread had in progress when it began this computation, NULL if
   * there was none.  Only this thread reads the field. */
  struct _TarnComputation *outer;

  /* The result.  The computing thread writes these fields before it sets is_done, and nobody
   * changes them afterwards.  The lock in compute.c guards is_done. */
  gpointer value;
  gboolean owns_value; /* TRUE if value is released together with this struct */
  GError *error;
  gboolean is_done;
  TarnCond done; /* the condition variable that is signalled when is_done changes */
};

/* A group: all entries of one first argument. */
typedef struct _TarnMemoGroup TarnMemoGroup;
struct _TarnMemoGroup
{
  gpointer first_arg; /* a reference to the object if the memo has a ref_first_arg () */
  guint64 id;
  /* A list of the group's entries (TarnMemoEntry).  In a memo with max_entries, the list is ordered
   * by last use, with the most recently used entry first. */
  GQueue entries;
  /* In a memo's table: the next group with the same first_arg and another id.  After the memo has
   * forgotten the group: the next group to free. */
  TarnMemoGroup *next;
};

typedef struct
{
  /* The first argument and the key for which the memo has this entry.  Must be the first field of
   * the struct, because the table TarnMemo.entries uses a pointer to the struct as a pointer to
   * this field.  The entry owns probe.key. */
  TarnMemoProbe probe;
  /* The entry's value: a reference to it, or the value itself if the memo has no ref_value. */
  gpointer value;
  /* The values that differ from thread to thread (own.c): an array of references, indexed by
   * TarnThread.number.  NULL if no thread has a value of its own yet. */
  gpointer *own;
  guint n_own;
  TarnMemoGroup *group;
  GList link; /* the link in group->entries */
} TarnMemoEntry;

/* A memo's counters for one thread, in cache lines that no other thread writes. */
typedef struct
{
  guint64 hits TARN_WHOLE; /* atomic: the hits of one thread, which alone writes the field */
} __attribute__ ((aligned (TARN_CACHE_LINES))) TarnMemoLocal;

/* A memo, which caches the results of a function.
 *
 * To look up an entry, a thread enters a read section (thread-private.h) without a lock, and only
 * reads.  (A lookup that finds the entry is a hit.)  If a thread changes a field that lookups read,
 * it first takes the memo's lock and closes the door, which is the lock for read sections.  While
 * the door is closed, no thread is in a read section, and none can enter one.  If the memo has
 * max_entries, the door is always closed, and each hit takes the memo's lock, because each hit
 * changes the order of entries.  The memo may call the program's functions equal and ref_value in a
 * read section, or while the calling thread holds the memo's lock.
 *
 * Invariants, whenever no thread holds the memo's lock (memo-check.c checks them):
 *
 *     each entry is in the table entries once, by its probe, and in the queue of its group
 *     no group is empty, and no two groups have the same first argument and id
 *     no group has more than max_entries entries, if max_entries is not 0
 *     no entry has the same probe as a computation in the table computations */
struct _TarnMemo
{
  /* Fields that never change */
  TarnMemoOps ops; /* the program's callbacks and options; the memo owns ops.first_arg_kind, and has
                      a reference to ops.upstream */
  TarnMemoFunc func;
  gpointer user_data;
  GDestroyNotify destroy;

  /* A hit (a lookup that finds an entry) reads these fields.  A thread changes them only while it
   * holds the lock and the door to read sections is closed. */
  TarnDoor door;
  GHashTable *entries; /* a set of TarnMemoEntry, which the memo owns */
  TarnMemoLocal **locals;
  guint n_locals;

  TarnMutex lock; /* guards the fields below */
  /* A set of the computations in progress (TarnComputation), without those whose entries the
   * program has forgotten meanwhile. */
  GHashTable *computations;
  GHashTable *groups; /* maps each first_arg to the first one of its groups (TarnMemoGroup.next) */
  /* The memo's counters, except two.  stats.entries is not set.  stats.hits counts only hits that
   * took the lock; TarnMemoLocal counts the others. */
  TarnMemoStats stats;

  gint ref_count; /* Atomic: the number of references.  Each call that computes a value, or waits
                     for it, has one. */
  GList all_link; /* the link in the list of all memos; that list's lock guards the link */
};

typedef enum
{
  TARN_MEMO_ABSENT, /* the memo lacks the entry; a thread may be computing it */
  TARN_MEMO_HIT,
  TARN_MEMO_NONE_OF_OWN,  /* the memo has the entry, but no value for this thread */
  TARN_MEMO_UNREFERENCED, /* the memo has the entry, but ref_value returned NULL for the value */
  TARN_MEMO_NEWCOMER      /* this thread has no TarnMemoLocal in this memo yet */
} TarnMemoLookup;

/* Functions of memo.c, for lookups and changes of a memo */
void _tarn_memo_close (TarnMemo *memo);
void _tarn_memo_open (TarnMemo *memo);
gboolean _tarn_memo_probes_equal (gconstpointer a, gconstpointer b);
gboolean _tarn_memo_ref_value (TarnMemo *memo, gpointer value, gpointer *ref);
gboolean _tarn_memo_set_unreferenced (GError **error);
void _tarn_memo_unref_value (TarnMemo *memo, gpointer value, const TarnMemoProbe *probe);
gboolean _tarn_memo_is_dead (TarnMemo *memo, gpointer first_arg, guint64 id);

/* Ends a call in which the memo calls functions of the program.  These functions may release the
 * program's last reference to the memo, so the call begins with _tarn_try_ref (), which keeps the
 * memo alive.  This function releases that reference.  @has_begun: the result of _tarn_try_ref ().
 */
void _tarn_memo_end_call (TarnMemo *memo, gboolean has_begun);

/* Functions of compute.c, which computes values that a memo lacks */
gboolean _tarn_memo_get_slowly (TarnMemo *memo, const TarnMemoProbe *probe, gpointer *value,
                                GError **error);
void _tarn_memo_check_result (TarnMemo *memo, const TarnMemoProbe *probe, gpointer *value,
                              const GError *error);

/* Functions of forget.c, which forgets and frees entries of memos */
void _tarn_memo_register (TarnMemo *memo);
void _tarn_memo_unregister (TarnMemo *memo);
void _tarn_memo_forget_all (TarnMemo *memo);
void _tarn_memo_forget_dead (TarnMemo *memo, const TarnMemoProbe *probe);
void _tarn_memo_entry_free (TarnMemo *memo, TarnMemoEntry *entry);
TarnMemoGroup *_tarn_memo_group_new (TarnMemo *memo, const TarnMemoProbe *probe);
void _tarn_memo_group_free (TarnMemo *memo, TarnMemoGroup *group);

/* A function of own.c, for values that differ from thread to thread */
gboolean _tarn_memo_give_own_value (TarnMemo *memo, const TarnMemoProbe *probe, gpointer shared,
                                    gpointer *value, GError **error);

/* A function of memo-check.c, which checks a memo's invariants */
void _tarn_memo_assert_valid (TarnMemo *memo);

/* Checks the memo's invariants in builds with --enable-debug=full; does nothing in other builds.
 * The caller holds the memo's lock.  Each operation except a hit calls this function at its end. */
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
