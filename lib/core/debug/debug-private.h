/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * TARN_DEBUG: finds mistakes that programs make with memory.
 *
 *     settings.c        reads the value of TARN_DEBUG
 *     guarded.c         an allocator that Tarn puts between a pool and its upstream allocator
 *     guarded-queues.c  functions of that allocator for queues; they call the backend's
 *     guards.c          the guards around a block in use
 *     quarantine.c      freed blocks, before their memory is returned upstream
 *     gaps.c            blocks that are followed by unmapped addresses
 *     dying.c           checks guards that the host can read when a signal ends the program
 *     contents.c        fills and compares memory through the backend
 *     finding.c         findings: messages about mistakes
 *     leaks.c           lists the blocks in use when a pool or the program ends
 *
 * A debugged pool does not cache.  It allocates each block upstream, with exactly the bytes that
 * the program asks for.  When the program frees a block, the host waits for the queues that use it,
 * and the pool returns it at once.  So guarded.c sees each allocation and each free, and nobody
 * else uses the memory:
 *
 *     margin | user's part: the bytes asked for | rest | margin
 *
 * While the block is in use, the margins and the rest (the guards) are filled with the guard byte.
 * The user's part is filled with the poison byte ("POISON") when the block is allocated and again
 * when it is freed. */

#ifndef TARN_DEBUG_PRIVATE_H
#define TARN_DEBUG_PRIVATE_H

#include "allocator/allocator-private.h"
#include "common/debug-words-private.h"
#include "common/lock-private.h"

/* A floating-point number of any type with all bits set is a NaN. */
#define TARN_DEBUG_POISON_BYTE 0xff
#define TARN_DEBUG_GUARD_BYTE 0xbd

/* settings.c */

/* Returns the settings of TARN_DEBUG.  They apply to pools that have no settings of their own. */
const TarnDebugSettings *_tarn_debug_get_settings (void);
/* Reads a pool's settings.  @text: the option TarnPoolOptions.debug, in the syntax of TARN_DEBUG;
 * NULL: the settings of TARN_DEBUG. */
gboolean _tarn_debug_read (const gchar *text, TarnDebugSettings *settings, GError **error);

/* Returns the number of requests after which a pool checks its invariants again; 0: never. */
static inline guint
_tarn_debug_get_check_interval (const TarnDebugSettings *settings)
{
  return (settings->flags & TARN_DEBUG_CHECK) != 0 ? settings->check_interval : 0;
}

typedef struct _TarnDyingSlot TarnDyingSlot; /* dying.c */
typedef GPtrArray TarnFindings;              /* owned texts */

/* A block of a debugged pool.  The struct exists until the block's memory is returned upstream. */
typedef struct
{
  TarnMemory memory, whole; /* the user's part, and the whole memory, from upstream */
  gsize size, whole_size;   /* bytes */
  gsize alignment;          /* that the program wants of the user's part; 0: any will do */
  gsize margin;             /* bytes before the user's part; 0: the block has no guards */
  gboolean is_unguarded; /* the guards could not be filled, because a stream was being captured */
  gboolean is_said;      /* a finding about the guards was reported; guarded by the lock */
  gconstpointer host;    /* address at which the host can read whole; NULL: it cannot */
  TarnDyingSlot *slot;   /* nullable */
  gboolean has_gap;      /* unmapped addresses follow (gaps.c); only then is backing set */
  TarnMemory backing;
  guint32 tag, stack, thread;
  guint32 freed_stack, freed_thread; /* thread 0: it was not freed yet */
  gboolean is_freed;                 /* in quarantine */
  gboolean is_stuck;                 /* the program freed it, but Tarn does not know that all
                                        commands that use it are done */
  GList link;                        /* in TarnGuarded.quarantine */
  guint n_looks;                     /* threads that are reading its memory, without the lock */
  gboolean is_left;                  /* the last of these threads has to free it */
} TarnDebugBlock;

/* The allocator that Tarn puts between a debugged pool and its upstream allocator.
 *
 * Invariants, under the lock: the table has each block that is in use or in quarantine, by the
 * address of the user's part.  The queue has the blocks in quarantine, too, the oldest first.  A
 * block that was freed while another thread was reading it is still in the table.
 *
 * No thread waits for a thread that reads a block.  The reader's backend may wait for commands, and
 * these commands may wait for the thread that frees the block.  If that thread waited for the
 * reader, there would be a deadlock. */
typedef struct
{
  TarnAllocator *self;   /* the TarnAllocator whose user_data is this struct */
  TarnAllocator *given;  /* owned: the allocator that the program gave the pool */
  TarnAllocator *below;  /* the source of memory: given, or given's direct allocator */
  TarnAllocator *direct; /* given's direct allocator, whose functions are called */
  gchar *label;          /* for messages */
  TarnDebugSettings settings;
  gsize margin;          /* bytes before and after each block, if memory suffices; 0: no guards */
  gboolean has_contents; /* the backend can read and fill memory */
  GList all_link;        /* in the list of leaks.c, under its lock */

  TarnMutex lock;
  GHashTable *blocks; /* of TarnDebugBlock */
  GQueue quarantine;  /* of TarnDebugBlock */
  gsize quarantined_bytes;
  gsize taken_bytes;     /* bytes of all blocks, including those that are being allocated */
  gsize limit_bytes;     /* limit of taken_bytes; 0: no limit */
  gboolean has_ended;    /* the pool has ended */
  gint shows_host;       /* atomic: the host sees what devices write there; -1: unknown */
  gint is_captured_said; /* atomic: a message about a captured stream was logged */
  gboolean is_nameless;  /* two blocks had the same address, so the table lacks some blocks */
} TarnGuarded;

/* guarded.c */

/* Returns the upstream for a pool to which the program gave @upstream: a new allocator for
 * debugging, or, if the settings ask for none, a new reference to @upstream. */
TarnAllocator *_tarn_debug_stand_on (TarnAllocator *upstream, const gchar *pool_name,
                                     const TarnDebugSettings *settings);
/* Allocates aligned memory for a block of a debugged pool over a heap, or of a debugged pool whose
 * memory is handles: then its offset is aligned.  @alignment: a power of two. */
gboolean _tarn_debug_allocate_aligned (TarnAllocator *upstream, gsize size, gsize alignment,
                                       TarnMemory *memory, GError **error);
/* Limits the bytes of all blocks of a pool, including their guards, and blocks in quarantine.  0:
 * no limit.  Returns TRUE if the pool has more bytes than the limit now. */
gboolean _tarn_debug_set_limit (TarnAllocator *upstream, gsize limit_bytes);
/* Checks the blocks in quarantine, and reports those in use as leaks, because the pool ends. */
void _tarn_debug_end_pool (TarnAllocator *upstream);
/* Records that the calling thread has freed a block, and its stack, for later findings. */
void _tarn_debug_note_free (TarnAllocator *upstream, TarnMemory memory);
/* Notes that the program freed a block that cannot be returned yet, so that it is no leak. */
void _tarn_debug_note_stuck (TarnAllocator *upstream, TarnMemory memory);
/* Reports that a block was freed twice.  Returns FALSE if the block is unknown, or in use. */
gboolean _tarn_debug_report_double_free (TarnAllocator *upstream, TarnMemory memory);
/* Checks all blocks, those in use and those in quarantine. */
void _tarn_guarded_check (TarnGuarded *self, GPtrArray *findings);

/* Logs why memory cannot be read or filled.  Logs nothing if the context is lost.  While a stream
 * is captured, no block can be reached, so logs that reason only once. */
void _tarn_guarded_say_unreachable (TarnGuarded *self, const gchar *what, const GError *error);
/* If other threads are reading a block, makes the last of them free it, and returns TRUE.  If none
 * is, returns FALSE, and the caller has to free the block.  The caller holds the lock. */
gboolean _tarn_guarded_leave_to_look (TarnDebugBlock *block);
/* Notes that the calling thread has freed a block, and the thread's stack. */
void _tarn_guarded_note_free (TarnDebugBlock *block);
/* Returns a block's memory upstream, and frees the struct. */
void _tarn_guarded_give_back (TarnGuarded *self, TarnDebugBlock *block);

/* guarded-queues.c */
void _tarn_guarded_set_queue_functions (TarnAllocatorOps *ops, const TarnAllocatorOps *direct);

/* guards.c */

/* Fills the guards of a block. */
gboolean _tarn_guards_fill (const TarnGuarded *self, const TarnDebugBlock *block, GError **error);
/* Finds the address at which the host can read a block.  Call this before the guards are filled,
 * because it may write to them. */
void _tarn_guards_find_host (TarnGuarded *self, TarnDebugBlock *block);
/* _tarn_guards_watch () registers a block's guards with dying.c, if the host can read them.  The
 * guards must be filled.  _tarn_guards_forget () unregisters them. */
void _tarn_guards_watch (const TarnGuarded *self, TarnDebugBlock *block);
void _tarn_guards_forget (TarnDebugBlock *block);
/* Checks a block's guards, unless a finding about them was reported before. */
void _tarn_guards_check (TarnGuarded *self, TarnDebugBlock *block, TarnFindings *findings);

/* quarantine.c */

/* Fills a freed block with the poison byte.  Returns FALSE if the memory cannot be reached. */
gboolean _tarn_quarantine_poison (TarnGuarded *self, const TarnDebugBlock *block);
/* Adds a freed block to the quarantine.  The caller has filled it with the poison byte. */
void _tarn_quarantine_put (TarnGuarded *self, TarnDebugBlock *block);
/* Checks that a block in quarantine has not been written. */
void _tarn_quarantine_check (TarnGuarded *self, const TarnDebugBlock *block,
                             TarnFindings *findings);
/* Frees blocks of the quarantine, the oldest first, until it has at most @max_bytes bytes.  Returns
 * the number of bytes freed.  Frees at most as many blocks as there are at the beginning, so that
 * it ends even if other threads add blocks. */
gsize _tarn_quarantine_shorten (TarnGuarded *self, gsize max_bytes);

/* dying.c */

/* Registers a block's guards for a check if a signal ends the program.  The host must be able to
 * read them.  @front: the offset at which they begin.  Returns NULL if there is no room. */
TarnDyingSlot *_tarn_dying_watch (const TarnGuarded *self, const TarnDebugBlock *block,
                                  gsize front);
void _tarn_dying_forget (TarnDyingSlot *slot);
/* Reads the process's own memory.  Returns FALSE if none is at @from, or the system refuses. */
gboolean _tarn_dying_read (gconstpointer from, gpointer to, gsize size);

/* gaps.c */

/* Returns TRUE if the backend can make blocks that are followed by unmapped addresses (gaps). */
gboolean _tarn_gaps_are_there (const TarnGuarded *self);
/* Computes, from a block's size, the bytes that the block takes with its guards, and the margin
 * before the user's part. */
void _tarn_gaps_measure (const TarnGuarded *self, TarnDebugBlock *block);
/* Allocates memory for a block, after _tarn_gaps_measure (). */
gboolean _tarn_gaps_take (const TarnGuarded *self, TarnDebugBlock *block, GError **error);
void _tarn_gaps_give_back (const TarnGuarded *self, const TarnDebugBlock *block);

/* contents.c.  Its functions return FALSE with an error if the backend fails. */
gboolean _tarn_contents_fill (const TarnGuarded *self, TarnMemory memory, gsize offset, gsize size,
                              guint8 byte, GError **error);
/* The first and the last byte of some memory that differ from the expected byte, as offsets. */
typedef struct
{
  gsize first, last;
  guint8 byte; /* the value at @first */
} TarnContentsChange;
gboolean _tarn_contents_compare (const TarnGuarded *self, TarnMemory memory, gsize offset,
                                 gsize size, guint8 byte, gboolean *is_changed,
                                 TarnContentsChange *change, GError **error);

/* finding.c.  A caller adds findings to a list under the lock, which keeps the block unchanged.  It
 * reports the list without the lock, because a log handler may call Tarn. */

TarnFindings *_tarn_findings_new (void);
void _tarn_findings_add (TarnFindings *findings, const TarnGuarded *self,
                         const TarnDebugBlock *block, const gchar *format, ...)
    G_GNUC_PRINTF (4, 5);
void _tarn_findings_add_unknown (TarnFindings *findings, const TarnGuarded *self, TarnMemory memory,
                                 gsize size);
/* Reports findings, and frees the list. */
void _tarn_findings_report (TarnFindings *findings);

/* Counts a finding, and adds it to TARN_FAULTS_REPORT.  The caller logs the finding. */
void _tarn_finding_count (gboolean is_leak, const gchar *text);
gsize _tarn_findings_get_n (void);
/* Makes the program end with TarnDebugSettings.exit_status although there is no finding: TARN_DEBUG
 * has a mistake, so Tarn has checked nothing. */
void _tarn_finding_fail_at_exit (void);

/* Makes the program end with TarnDebugSettings.exit_status if there are findings.  Functions that
 * are registered with atexit () after this call run earlier, so that their findings count, too. */
void _tarn_finding_watch_exit (void);
void _tarn_finding_append_stack (GString *text, guint32 stack);

/* leaks.c */
void _tarn_leaks_watch (TarnGuarded *self);
void _tarn_leaks_forget (TarnGuarded *self);
/* Reports the blocks in use as leaks.  @when: the reason, as a clause: "the pool ends". */
void _tarn_leaks_report (TarnGuarded *self, const gchar *when);

#endif
