/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Finding what programs do wrong with memory: TARN_DEBUG.
 *
 *     settings.c        what TARN_DEBUG asks for
 *     guarded.c         an allocator that stands between a pool and its upstream allocator
 *     guarded-queues.c  its queues, which are the backend's
 *     guards.c          the guards around a block in use
 *     quarantine.c      freed blocks, before their memory is returned
 *     gaps.c            blocks behind which nothing is mapped
 *     dying.c           guards in the host's memory, when a signal ends the program
 *     contents.c        reading, filling and comparing memory, through the backend
 *     finding.c         messages
 *     leaks.c           what is in use when a pool ends, or the program
 *
 * A pool that is debugged has each block from upstream, with exactly the bytes that are asked for,
 * and returns it as soon as it is freed, once the host has waited for the queues that use it.
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

/* With all bits set, each type of floating-point number is no number (NaN). */
#define TARN_DEBUG_POISON_BYTE 0xff
#define TARN_DEBUG_GUARD_BYTE 0xbd

/* settings.c */

/* Returns the settings of TARN_DEBUG, for pools without their own. */
const TarnDebugSettings *_tarn_debug_get_settings (void);
/* Reads the settings in a pool's option.  @text: nullable: as in TARN_DEBUG. */
gboolean _tarn_debug_read (const gchar *text, TarnDebugSettings *settings, GError **error);

/* Returns the number of requests from one check of a pool to the next; 0: it is not checked. */
static inline guint
_tarn_debug_get_check_interval (const TarnDebugSettings *settings)
{
  return (settings->flags & TARN_DEBUG_CHECK) != 0 ? settings->check_interval : 0;
}

typedef struct _TarnDyingSlot TarnDyingSlot; /* dying.c */
typedef GPtrArray TarnFindings;              /* texts, owned */

/* A block, from its request until its memory is returned to upstream. */
typedef struct
{
  TarnMemory memory, whole; /* the user's part, and all of it, from upstream */
  gsize size, whole_size;   /* bytes */
  gsize margin;             /* bytes in front of the user's part; 0: no guards */
  gboolean is_unguarded; /* its guards could not be written, because a stream was being captured */
  gboolean is_said;      /* a finding has named its guards; under the lock */
  gconstpointer host;    /* the host's address of all of it; NULL: none */
  TarnDyingSlot *slot;   /* nullable */
  gboolean has_gap;      /* gaps.c; in that case: */
  TarnMemory backing;
  guint32 tag, stack, thread;
  guint32 freed_stack, freed_thread; /* thread 0: not known yet */
  gboolean is_freed;                 /* in quarantine */
  gboolean is_stuck;                 /* freed, but commands may still use it, as far as is known */
  GList link;                        /* in the quarantine */
  guint n_looks;                     /* calls that read it without the lock */
  gboolean is_left;                  /* the last of them is to free it */
} TarnDebugBlock;

/* The allocator between a pool and its upstream allocator.
 *
 * Invariants, under the lock: each block in use or in quarantine is in the table, by the address of
 * its user's part.  Blocks in quarantine are in the queue as well, the oldest first.  A block that
 * was freed while a call was reading it is still in the table.
 *
 * No thread waits for a call that reads a block.  To read its memory, the backend may wait for
 * commands, and these for the thread that frees the block: if that thread waited, too, neither
 * would go on. */
typedef struct
{
  TarnAllocator *self;   /* the allocator with this as user_data */
  TarnAllocator *given;  /* a reference: the allocator that the pool was given */
  TarnAllocator *below;  /* the source of memory: the same, or its direct one */
  TarnAllocator *direct; /* its functions are called */
  gchar *label;          /* for messages */
  TarnDebugSettings settings;
  gsize margin;          /* bytes of each block, if there is room; 0: no guards */
  gboolean has_contents; /* memory can be read and filled */
  GList all_link;        /* in the list of leaks.c, under its lock */

  TarnMutex lock;
  GHashTable *blocks; /* of TarnDebugBlock */
  GQueue quarantine;  /* of TarnDebugBlock */
  gsize quarantined_bytes;
  gsize taken_bytes;     /* bytes of all blocks, also those being allocated */
  gsize limit_bytes;     /* limit of taken_bytes; 0: none */
  gboolean has_ended;    /* the pool has ended */
  gint shows_host;       /* atomic: the host sees such memory; -1: not known yet */
  gint is_captured_said; /* atomic: a message about a capture was logged */
  gboolean is_nameless;  /* blocks had the same address at a time: not all are in the table */
} TarnGuarded;

/* guarded.c */

/* Returns a new reference to the allocator for a pool that was given @upstream: that itself if
 * nothing is debugged. */
TarnAllocator *_tarn_debug_stand_on (TarnAllocator *upstream, const gchar *pool_name,
                                     const TarnDebugSettings *settings);
/* Limits the bytes of a pool's blocks, with their guards and in quarantine; 0: no limit.  Returns
 * TRUE if they, or a heap that follows the limit, have more now. */
gboolean _tarn_debug_set_limit (TarnAllocator *upstream, gsize limit_bytes);
/* Checks the blocks in quarantine, and reports those in use, as the pool ends. */
void _tarn_debug_end_pool (TarnAllocator *upstream);
/* Records that the calling thread freed a block in use, and where, for findings. */
void _tarn_debug_note_free (TarnAllocator *upstream, TarnMemory memory);
/* Notes that a block was freed, but cannot be returned yet, so that it counts as no leak. */
void _tarn_debug_note_stuck (TarnAllocator *upstream, TarnMemory memory);
/* Reports that a block was freed twice.  Returns FALSE if nothing is known of it any more. */
gboolean _tarn_debug_report_double_free (TarnAllocator *upstream, TarnMemory memory);
/* Checks all blocks, in use and in quarantine. */
void _tarn_guarded_check (TarnGuarded *self, GPtrArray *findings);

/* Logs why memory cannot be reached.  It logs nothing if the context is lost.  A capture of a
 * stream concerns all blocks at that time, so it is logged once. */
void _tarn_guarded_say_unreachable (TarnGuarded *self, const gchar *what, const GError *error);
/* Leaves a block that is to be freed to the threads that read it.  Returns FALSE if none does.  The
 * lock is held. */
gboolean _tarn_guarded_leave_to_look (TarnDebugBlock *block);
/* Notes the calling thread and its stack as those that free a block. */
void _tarn_guarded_note_free (TarnDebugBlock *block);
/* Returns the memory of a block, and frees its record. */
void _tarn_guarded_give_back (TarnGuarded *self, TarnDebugBlock *block);

/* guarded-queues.c */
void _tarn_guarded_set_queue_functions (TarnAllocatorOps *ops, const TarnAllocatorOps *direct);

/* guards.c */

/* Fills the guards of a block. */
gboolean _tarn_guards_fill (const TarnGuarded *self, const TarnDebugBlock *block, GError **error);
/* Finds the host's address of a block, before its guards are filled. */
void _tarn_guards_find_host (TarnGuarded *self, TarnDebugBlock *block);
/* Registers filled guards with dying.c, if the host sees them; and unregisters them. */
void _tarn_guards_watch (const TarnGuarded *self, TarnDebugBlock *block);
void _tarn_guards_forget (TarnDebugBlock *block);
/* Checks guards, unless they have been reported. */
void _tarn_guards_check (TarnGuarded *self, TarnDebugBlock *block, TarnFindings *findings);

/* quarantine.c */

/* Fills a freed block with POISON.  Returns FALSE if the memory cannot be reached. */
gboolean _tarn_quarantine_poison (TarnGuarded *self, const TarnDebugBlock *block);
/* Adds a freed block, which was filled. */
void _tarn_quarantine_put (TarnGuarded *self, TarnDebugBlock *block);
/* Checks that a block in quarantine has not been written. */
void _tarn_quarantine_check (TarnGuarded *self, const TarnDebugBlock *block,
                             TarnFindings *findings);
/* Frees blocks, the oldest first, until at most @max_bytes are left.  Frees no more blocks than
 * there were at first, so that it ends.  Returns their bytes. */
gsize _tarn_quarantine_shorten (TarnGuarded *self, gsize max_bytes);

/* dying.c */

/* Registers the guards of a block that the host sees, to be checked when a signal ends the program.
 * @front: where they begin.  Returns NULL if it fails. */
TarnDyingSlot *_tarn_dying_watch (const TarnGuarded *self, const TarnDebugBlock *block,
                                  gsize front);
void _tarn_dying_forget (TarnDyingSlot *slot);
/* Reads the process's own memory.  Returns FALSE if there is none, or the system does not allow
 * it. */
gboolean _tarn_dying_read (gconstpointer from, gpointer to, gsize size);

/* gaps.c */

/* Returns TRUE if there can be blocks with gaps. */
gboolean _tarn_gaps_are_there (const TarnGuarded *self);
/* Finds the bytes that a block of a known size takes, and those in front of its user's part. */
void _tarn_gaps_measure (const TarnGuarded *self, TarnDebugBlock *block);
/* Allocates memory for a block that was measured. */
gboolean _tarn_gaps_take (const TarnGuarded *self, TarnDebugBlock *block, GError **error);
void _tarn_gaps_give_back (const TarnGuarded *self, const TarnDebugBlock *block);

/* contents.c.  The functions return FALSE with an error if the backend fails. */
gboolean _tarn_contents_fill (const TarnGuarded *self, TarnMemory memory, gsize offset, gsize size,
                              guint8 byte, GError **error);
/* The range of bytes that differ from the expected one, by offsets in memory. */
typedef struct
{
  gsize first, last;
  guint8 byte; /* the value at @first */
} TarnContentsChange;
gboolean _tarn_contents_compare (const TarnGuarded *self, TarnMemory memory, gsize offset,
                                 gsize size, guint8 byte, gboolean *is_changed,
                                 TarnContentsChange *change, GError **error);

/* finding.c.  A finding is described while the lock keeps it unchanged, and reported without a
 * lock, because a handler of messages may call Tarn. */

TarnFindings *_tarn_findings_new (void);
void _tarn_findings_add (TarnFindings *findings, const TarnGuarded *self,
                         const TarnDebugBlock *block, const gchar *format, ...)
    G_GNUC_PRINTF (4, 5);
void _tarn_findings_add_unknown (TarnFindings *findings, const TarnGuarded *self, TarnMemory memory,
                                 gsize size);
/* Reports findings, and frees the list. */
void _tarn_findings_report (TarnFindings *findings);

/* Counts a finding, which the caller reports, and adds it to TARN_FAULTS_REPORT. */
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
/* Reports the blocks in use at an event that ends their use. */
void _tarn_leaks_report (TarnGuarded *self, const gchar *when);

#endif
