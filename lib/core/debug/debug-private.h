/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Finding what programs do wrong with memory: TARN_DEBUG.
 *
 *     settings.c   what TARN_DEBUG asks for
 *     guarded.c    an allocator that stands between a pool and its upstream allocator
 *     gaps.c       blocks behind which nothing is mapped
 *     dying.c      guards in the host's memory, when a signal ends the program
 *     contents.c   reading, filling and comparing memory, through the backend
 *     finding.c    messages
 *     leaks.c      what is in use when a pool ends, or the program
 *
 * A pool that is debugged has each block from upstream, with exactly the bytes that are asked for,
 * and gives it back as soon as it is freed, once the host has waited for the queues that use it.
 * So whatever stands below sees each block by itself, while nobody else uses it:
 *
 *     margin | what was asked for | the rest, and another margin
 *
 * Margins and the rest are filled with GUARD while the block is in use, what was asked for with
 * POISON before and after. */

#ifndef TARN_DEBUG_PRIVATE_H
#define TARN_DEBUG_PRIVATE_H

#include "allocator/allocator-private.h"
#include "common/debug-words-private.h"
#include "common/lock-private.h"

/* What all bits set is in each type of floating-point number: not a number. */
#define TARN_DEBUG_POISON_BYTE 0xff
#define TARN_DEBUG_GUARD_BYTE 0xbd

/* settings.c */

/* Gets what TARN_DEBUG asks for, of all pools that do not say otherwise. */
const TarnDebugSettings *_tarn_debug_get_settings (void);
/* Reads what a pool's option asks for, nullable: what TARN_DEBUG does. */
gboolean _tarn_debug_read (const gchar *text, TarnDebugSettings *settings, GError **error);

/* Gets how many requests a pool serves from one check to the next; 0: it is not checked. */
static inline guint
_tarn_debug_get_check_interval (const TarnDebugSettings *settings)
{
  return (settings->flags & TARN_DEBUG_CHECK) != 0 ? settings->check_interval : 0;
}

typedef struct _TarnDyingSlot TarnDyingSlot; /* dying.c */

/* A block, from its request until its memory goes back. */
typedef struct
{
  TarnMemory memory, whole; /* its user's, and all of it, from upstream */
  gsize size, whole_size;   /* bytes */
  gsize margin;             /* before its user's; 0: it has no guards */
  gboolean is_unguarded;    /* they could not be written, because a stream was being captured */
  gboolean is_said;         /* a finding has named its guards; behind the lock */
  gconstpointer host;       /* where the host sees all of it; NULL: nowhere */
  TarnDyingSlot *slot;      /* nullable */
  gboolean has_gap;         /* gaps.c; then: */
  TarnMemory backing;
  guint32 tag, stack, thread;
  guint32 freed_stack, freed_thread; /* thread 0: not known yet */
  gboolean is_freed;                 /* in quarantine */
  gboolean is_stuck;                 /* freed, but commands may use it still, as far as is known */
  GList link;                        /* there */
  guint n_looks;                     /* calls that look at it without the lock */
  gboolean is_left; /* to the last of them, which does what is left to be done at its end */
} TarnDebugBlock;

/* Made for a pool.
 *
 * Invariants, behind the lock: each block that is in use or in quarantine is in the table by the
 * address that its user has, and those in quarantine are in the queue, too, the oldest first.  A
 * block that was freed while somebody looked at it is still in the table.
 *
 * Nobody waits for a call that looks at a block.  To read its memory, the backend may wait for
 * commands, and these for the thread that frees the block: if that thread waited, too, neither
 * would go on. */
typedef struct
{
  TarnAllocator *self;   /* that it is the user_data of */
  TarnAllocator *given;  /* a reference: what the pool was to stand on */
  TarnAllocator *below;  /* that memory is from: the same, or its direct one */
  TarnAllocator *direct; /* whose functions are called */
  gchar *label;          /* for messages */
  TarnDebugSettings settings;
  gsize margin;          /* bytes of each block, if there is room; 0: no guards */
  gboolean has_contents; /* memory can be read and filled */
  GList all_link;        /* of leaks.c, behind its lock */

  TarnMutex lock;
  GHashTable *blocks; /* of TarnDebugBlock */
  GQueue quarantine;  /* of TarnDebugBlock */
  gsize quarantined_bytes;
  gsize taken_bytes;     /* of all blocks, and of those that are being asked for */
  gsize limit_bytes;     /* of these; 0: none */
  gboolean has_ended;    /* the pool has */
  gint shows_host;       /* atomic: whether the host sees such memory; -1: not known yet */
  gint is_captured_said; /* atomic: a message said that a capture is in the way */
  gboolean is_nameless;  /* blocks were at the same address at once: not all are in the table */
} TarnGuarded;

/* guarded.c */

/* Gets what a pool stands on that is to stand on an allocator: a new reference, to that allocator
 * itself where nothing is debugged. */
TarnAllocator *_tarn_debug_stand_on (TarnAllocator *upstream, const gchar *pool_name,
                                     const TarnDebugSettings *settings);
/* Limits the bytes of a pool's blocks, with their guards and in quarantine; 0: no limit.  Tells
 * whether they, or a heap that follows the limit, have more now. */
gboolean _tarn_debug_set_limit (TarnAllocator *upstream, gsize limit_bytes);
/* Looks at what is in quarantine, and says what is in use, as the pool ends. */
void _tarn_debug_end_pool (TarnAllocator *upstream);
/* Notes that the calling thread freed a block in use, here, for findings to say so. */
void _tarn_debug_note_free (TarnAllocator *upstream, TarnMemory memory);
/* Notes that a block was freed, but cannot go back yet, so that it counts as no leak. */
void _tarn_debug_note_stuck (TarnAllocator *upstream, TarnMemory memory);
/* Says that a block was freed that was freed before; FALSE: nothing is known of it any more. */
gboolean _tarn_debug_report_double_free (TarnAllocator *upstream, TarnMemory memory);
/* Looks at all blocks, in use and in quarantine. */
void _tarn_guarded_check (TarnGuarded *self, GPtrArray *findings);

/* dying.c */

/* Has the guards of a block that the host sees looked at when a signal ends the program; @front:
 * where they begin.  NULL: they are not. */
TarnDyingSlot *_tarn_dying_watch (const TarnGuarded *self, const TarnDebugBlock *block,
                                  gsize front);
void _tarn_dying_forget (TarnDyingSlot *slot);
/* Reads the process's own memory; FALSE: there is none, or the system does not allow it. */
gboolean _tarn_dying_read (gconstpointer from, gpointer to, gsize size);

/* gaps.c */

/* Whether blocks can be had so. */
gboolean _tarn_gaps_are_there (const TarnGuarded *self);
/* Finds how much a block of a known size takes, and what of it is before the block. */
void _tarn_gaps_measure (const TarnGuarded *self, TarnDebugBlock *block);
/* Gets memory for a block that was measured. */
gboolean _tarn_gaps_take (const TarnGuarded *self, TarnDebugBlock *block, GError **error);
void _tarn_gaps_give_back (const TarnGuarded *self, const TarnDebugBlock *block);

/* contents.c.  FALSE with an error: the backend could not. */
gboolean _tarn_contents_fill (const TarnGuarded *self, TarnMemory memory, gsize offset, gsize size,
                              guint8 byte, GError **error);
/* Finds the first byte that is another one, and the last, by their offsets in memory. */
typedef struct
{
  gsize first, last;
  guint8 byte; /* the first */
} TarnContentsChange;
gboolean _tarn_contents_compare (const TarnGuarded *self, TarnMemory memory, gsize offset,
                                 gsize size, guint8 byte, gboolean *is_changed,
                                 TarnContentsChange *change, GError **error);

/* finding.c.  What is found is described while nobody changes it, and said without a lock: who
 * handles messages may call Tarn. */
typedef GPtrArray TarnFindings; /* of texts, owned */

TarnFindings *_tarn_findings_new (void);
void _tarn_findings_add (TarnFindings *findings, const TarnGuarded *self,
                         const TarnDebugBlock *block, const gchar *format, ...)
    G_GNUC_PRINTF (4, 5);
void _tarn_findings_add_unknown (TarnFindings *findings, const TarnGuarded *self, TarnMemory memory,
                                 gsize size);
/* Says them, and frees the list. */
void _tarn_findings_report (TarnFindings *findings);

/* Counts a finding, whose message is said by the caller, and adds it to TARN_FAULTS_REPORT. */
void _tarn_finding_count (gboolean is_leak, const gchar *text);
gsize _tarn_findings_get_n (void);
/* Makes the program end with TarnDebugSettings.exit_status although nothing was found: TARN_DEBUG
 * cannot be read, so nothing was looked for. */
void _tarn_finding_fail_at_exit (void);

/* Ends the program with TarnDebugSettings.exit_status if something was found before its end, or by
 * a function that is registered with atexit () after this call. */
void _tarn_finding_watch_exit (void);
void _tarn_finding_append_stack (GString *text, guint32 stack);

/* leaks.c */
void _tarn_leaks_watch (TarnGuarded *self);
void _tarn_leaks_forget (TarnGuarded *self);
/* Says what is in use, when something happens that ends it. */
void _tarn_leaks_report (TarnGuarded *self, const gchar *when);

#endif
