/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * TARN_DEBUG, an environment variable with which Tarn finds mistakes that programs make with
 * memory.
 *
 *     settings.c    reads the value of TARN_DEBUG
 *     guarded.c     an allocator that Tarn puts between a pool and its upstream allocator
 *     look.c        checks blocks while other threads use the pool
 *     guards.c      the guards around a block in use
 *     quarantine.c  keeps freed blocks for a while, and then returns their memory upstream
 *     gaps.c        blocks that are followed by unmapped addresses
 *     dying.c       checks guards that the host can read when a signal ends the program
 *     contents.c    fills and compares memory through the backend
 *     finding.c     findings: messages about mistakes
 *     leaks.c       lists the blocks in use when a pool or the program ends
 *
 * A debugged pool does not cache.  For each request, it allocates a new block from the allocator of
 * guarded.c, with exactly the bytes that the program asks for.  When the program frees a block, the
 * host waits for the queues that use the block, and then the pool frees the block to that allocator
 * at once.  So the allocator sees each allocation and each free of the program, and no commands use
 * a block that it gets back.  The memory of a block has four ranges:
 *
 *     margin | user's part: the bytes asked for | rest | margin
 *
 * While the block is in use, the margins and the rest (the guards) are filled with the guard byte.
 * If the setting "poison" is on, Tarn fills the user's part with the poison byte when the block is
 * allocated, and again when it is freed. */

#ifndef TARN_DEBUG_PRIVATE_H
#define TARN_DEBUG_PRIVATE_H

#include "allocator/allocator-private.h"
#include "common/debug-words-private.h"
#include "common/lock-private.h"

/* Tarn fills memory that has no valid contents with the poison byte.  All bits of this byte are
 * set, so a floating-point number of any type in such memory is a NaN.  Tarn fills the guards
 * around a block with the guard byte. */
#define TARN_DEBUG_POISON_BYTE 0xff
#define TARN_DEBUG_GUARD_BYTE 0xbd

/* Functions of settings.c */

/* Returns the settings of the variable TARN_DEBUG.  They apply to each pool without settings of its
 * own. */
const TarnDebugSettings *_tarn_debug_get_settings (void);
/* Reads the debug settings of a pool from @text, which is the value of TarnPoolOptions.debug and
 * has the syntax of TARN_DEBUG.  If @text is NULL, the pool gets the settings of the variable
 * TARN_DEBUG.  Returns FALSE with an error if a word of @text is wrong. */
gboolean _tarn_debug_read (const gchar *text, TarnDebugSettings *settings, GError **error);

/* Returns N if a pool checks its invariants at each Nth request; 0 if it never checks them. */
static inline guint
_tarn_debug_get_check_interval (const TarnDebugSettings *settings)
{
  return (settings->flags & TARN_DEBUG_CHECK) != 0 ? settings->check_interval : 0;
}

/* A slot: the description of a block's guards that the signal handler reads (dying.c). */
typedef struct _TarnDyingSlot TarnDyingSlot;
typedef GPtrArray TarnFindings; /* an array of messages, which the array owns */

/* A block of a debugged pool.  The struct exists until the block's memory is returned upstream. */
typedef struct
{
  /* memory: the user's part, which the program gets.  whole: all memory of the block, which Tarn
   * got from upstream: the user's part and the guards. */
  TarnMemory memory, whole;
  gsize size, whole_size; /* the bytes of @memory and of @whole */
  gsize alignment;        /* requested alignment of the user's part; 0 for the default */
  gsize margin;           /* bytes before the user's part; 0 if the block has no guards */
  /* TRUE if the guards are not filled: a stream was being captured when the block was allocated. */
  gboolean is_unguarded;
  /* TRUE if Tarn has reported that the guards were overwritten.  TarnGuarded.lock guards this
   * field. */
  gboolean is_said;
  gconstpointer host;  /* address at which the host can read @whole; NULL if there is none */
  TarnDyingSlot *slot; /* the slot that describes the block's guards (dying.c); nullable */
  /* TRUE if unmapped addresses follow the block (gaps.c).  If so, @backing is the block's physical
   * memory. */
  gboolean has_gap;
  TarnMemory backing;
  guint32 tag, stack, thread;
  guint32 freed_stack, freed_thread; /* who freed the block, or gave it up; 0: nobody */
  gboolean is_freed;                 /* TRUE if the block is in quarantine */
  /* TRUE if the program has freed the block, but commands may still use it.  The block's memory
   * then stays allocated. */
  gboolean is_stuck;
  GList link;       /* the link in the queue TarnGuarded.quarantine */
  guint n_looks;    /* number of threads that read the memory now, without TarnGuarded.lock */
  gboolean is_left; /* TRUE if the last thread that reads the block has to free it */
} TarnDebugBlock;

/* The allocator that Tarn puts between a debugged pool and its upstream allocator.
 *
 * Invariants, whenever no thread holds the lock:
 *
 * - The table @blocks has each block that is in use or in quarantine.  The key is the address of
 *   the user's part.
 * - The queue @quarantine has the blocks in quarantine, the oldest first.
 * - If the program frees a block while a thread is reading the block for a check, the block stays
 *   in the table until the last of its readers has finished.
 *
 * A thread that frees a block never waits for a reader of the block, because that could deadlock.
 * In the backend, the reader may wait for commands, and these commands may wait for something that
 * the freeing thread does later. */
typedef struct
{
  TarnAllocator *self;   /* the TarnAllocator whose user_data is this struct */
  TarnAllocator *given;  /* owned: the allocator that the program gave the pool */
  TarnAllocator *below;  /* the allocator that allocates memory for blocks: @given or @direct */
  TarnAllocator *direct; /* the allocator below @given that calls the backend; may be @given */
  gchar *label;          /* the text by which messages name the pool */
  TarnDebugSettings settings;
  /* The number of guard bytes on each side of a block.  0: no block has guards.  If memory is too
   * short for guards, Tarn allocates a block without them, even if this number is not 0. */
  gsize margin;
  gboolean has_contents; /* TRUE if the backend can read and fill memory */
  GList all_link;        /* the link in the list "all" of leaks.c; the lock in leaks.c guards it */

  TarnMutex lock;
  GHashTable *blocks; /* maps the address of a block's user's part to the TarnDebugBlock */
  GQueue quarantine;  /* a queue of TarnDebugBlock, linked by TarnDebugBlock.link */
  gsize quarantined_bytes;
  gsize taken_bytes;     /* the bytes of all blocks, including blocks that are being allocated */
  gsize limit_bytes;     /* largest allowed taken_bytes; 0 if there is no limit */
  gboolean has_ended;    /* TRUE if the pool has ended (_tarn_debug_end_pool ()) */
  gint shows_host;       /* atomic: TRUE if the host sees devices' writes; -1 if not tested yet */
  gint is_captured_said; /* atomic: TRUE if a message about a captured stream was logged */
  /* TRUE if several blocks have had the same address, so that the table has only one of them.  Then
   * a free of a block that is not in the table need not be a mistake. */
  gboolean is_nameless;
} TarnGuarded;

/* Functions of guarded.c */

/* Returns the upstream allocator for a new pool.  @upstream: the allocator that the program gave.
 * If the settings ask for no checks of blocks, or if @upstream is debugged already, returns a new
 * reference to @upstream.  Otherwise returns a new allocator over @upstream, which checks
 * blocks. */
TarnAllocator *_tarn_debug_stand_on (TarnAllocator *upstream, const gchar *pool_name,
                                     const TarnDebugSettings *settings);
/* Allocates memory for a block of a debugged pool, with an alignment.  @alignment: a power of two.
 * If the pool's upstream is a heap, the memory's address is a multiple of @alignment.  If the
 * memory is a handle, such as a cl_mem, its offset in the parent buffer is a multiple of
 * @alignment. */
gboolean _tarn_debug_allocate_aligned (TarnAllocator *upstream, gsize size, gsize alignment,
                                       TarnMemory *memory, GError **error);
/* Limits the total bytes of a pool's blocks, including their guards and the blocks in quarantine.
 * @limit_bytes: 0 for no limit.  Returns TRUE if the pool already has more bytes than the limit. */
gboolean _tarn_debug_set_limit (TarnAllocator *upstream, gsize limit_bytes);
/* Ends the checks of blocks for a pool that the program has released: checks and frees the blocks
 * in quarantine.  If the setting "leaks" is on, reports the blocks in use as leaks. */
void _tarn_debug_end_pool (TarnAllocator *upstream);
/* Stores, for messages, that the calling thread frees the block at @memory, and its call stack.
 * The block stays in use until the program really frees it (tarn_debug_note_free ()).  Does nothing
 * if the pool is not debugged, or if the block is unknown or freed already. */
void _tarn_debug_note_free (TarnAllocator *upstream, TarnMemory memory);
/* Reports a mistake: the calling thread uses the block at @memory after the program has given the
 * block up.  A program gives a block up by tarn_debug_note_free (), some time before it frees the
 * block.  Does nothing if the pool is not debugged, or if the block is unknown or freed already. */
void _tarn_debug_report_use (TarnAllocator *upstream, TarnMemory memory);
/* Marks a block as stuck: the program has freed it, but its memory cannot be returned upstream.  So
 * the block is not reported as a leak. */
void _tarn_debug_note_stuck (TarnAllocator *upstream, TarnMemory memory);
/* If the block at @memory was freed before, reports a double free and returns TRUE.  If the block
 * is in use or unknown, returns FALSE. */
gboolean _tarn_debug_report_double_free (TarnAllocator *upstream, TarnMemory memory);

/* Logs that the backend could not read or fill memory.  @what: the consequence, such as "a block
 * has no guards".  @error: the reason.  Logs nothing if the context is lost.  While a stream is
 * being captured, every such call of the backend fails, so only the first of these failures is
 * logged for each allocator. */
void _tarn_guarded_say_unreachable (TarnGuarded *self, const gchar *what, const GError *error);
/* Stores who frees a block in the block's struct: the calling thread and its call stack. */
void _tarn_guarded_note_free (TarnDebugBlock *block);
/* Returns a block's memory upstream, and frees the struct. */
void _tarn_guarded_give_back (TarnGuarded *self, TarnDebugBlock *block);
/* Puts a block into the quarantine, or returns its memory upstream.  The program has freed the
 * block, and the caller has checked the block's guards. */
void _tarn_guarded_end_block (TarnGuarded *self, TarnDebugBlock *block);

/* Functions of look.c */

/* Checks all blocks of an allocator, in use and in quarantine. */
void _tarn_guarded_check (TarnGuarded *self, GPtrArray *findings);
/* If threads are reading a block, sets block->is_left, so that the last of them frees the block,
 * and returns TRUE.  If no thread is reading it, returns FALSE, and the caller frees the block.
 * The caller holds the lock. */
gboolean _tarn_guarded_leave_to_look (TarnDebugBlock *block);

/* Functions of guards.c */

/* Fills the guards of a block. */
gboolean _tarn_guards_fill (const TarnGuarded *self, const TarnDebugBlock *block, GError **error);
/* Sets block->host to the address at which the host can read the block.  Sets it to NULL if the
 * host cannot read the block or does not see what the device writes.  To test this, the function
 * may write other bytes to the guards, so the caller fills the guards afterwards. */
void _tarn_guards_find_host (TarnGuarded *self, TarnDebugBlock *block);
/* _tarn_guards_watch () registers a block's guards with dying.c, which checks them if a signal ends
 * the program.  Guards that the host cannot read are not registered.  The caller has filled the
 * guards.  _tarn_guards_forget () unregisters the guards. */
void _tarn_guards_watch (const TarnGuarded *self, TarnDebugBlock *block);
void _tarn_guards_forget (TarnDebugBlock *block);
/* Checks a block's guards, the bytes around the user's part.  Adds a finding (a message) if a
 * program has written to them, unless the block already has such a finding. */
void _tarn_guards_check (TarnGuarded *self, TarnDebugBlock *block, TarnFindings *findings);

/* Functions of quarantine.c */

/* Fills the user's part of a freed block with the poison byte.  Returns FALSE if the backend
 * fails. */
gboolean _tarn_quarantine_poison (TarnGuarded *self, const TarnDebugBlock *block);
/* Adds a freed block to the quarantine.  The caller has filled the block with the poison byte. */
void _tarn_quarantine_put (TarnGuarded *self, TarnDebugBlock *block);
/* Adds a finding if a program wrote to a block in quarantine. */
void _tarn_quarantine_check (TarnGuarded *self, const TarnDebugBlock *block,
                             TarnFindings *findings);
/* Frees the oldest blocks of the quarantine until the quarantine has at most @max_bytes bytes.
 * Returns the number of bytes freed.  Frees at most as many blocks as the quarantine has when the
 * call begins, so that the call ends even if other threads add blocks at the same time. */
gsize _tarn_quarantine_shorten (TarnGuarded *self, gsize max_bytes);

/* Functions of dying.c */

/* Registers a block's guards, so that Tarn checks them if a signal ends the program.  The host must
 * be able to read the guards.  @front: the offset of the first guard byte in the block's memory.
 * Returns the slot that describes the guards, or NULL if all slots are in use. */
TarnDyingSlot *_tarn_dying_watch (const TarnGuarded *self, const TarnDebugBlock *block,
                                  gsize front);
void _tarn_dying_forget (TarnDyingSlot *slot);
/* Copies @size bytes of the process's own memory from @from to @to.  Returns FALSE if no memory is
 * mapped at @from (this raises no signal), or if the system refuses the call. */
gboolean _tarn_dying_read (gconstpointer from, gpointer to, gsize size);

/* Functions of gaps.c */

/* Returns TRUE if the backend can make blocks that are followed by unmapped addresses (gaps). */
gboolean _tarn_gaps_are_there (const TarnGuarded *self);
/* Computes whole_size (the bytes of a block with its guards) and margin (the bytes before the
 * user's part) from the block's size and alignment. */
void _tarn_gaps_measure (const TarnGuarded *self, TarnDebugBlock *block);
/* Allocates memory for a block.  _tarn_gaps_measure () has set the block's whole_size and
 * margin. */
gboolean _tarn_gaps_take (const TarnGuarded *self, TarnDebugBlock *block, GError **error);
void _tarn_gaps_give_back (const TarnGuarded *self, const TarnDebugBlock *block);

/* Functions of contents.c: they fill memory with a byte, or find the bytes that differ from an
 * expected byte.  They return FALSE with an error if the backend fails. */
gboolean _tarn_contents_fill (const TarnGuarded *self, TarnMemory memory, gsize offset, gsize size,
                              guint8 byte, GError **error);
/* A change of memory: the offsets of the first and the last byte that differ from the expected
 * byte. */
typedef struct
{
  gsize first, last;
  guint8 byte; /* the value of the byte at the offset @first */
} TarnContentsChange;
/* Compares bytes that the host has read with the expected byte.  If some of them differ, extends
 * the range @change of changed bytes, so that it contains them.  @offset: the offset of @bytes in
 * the checked memory.  A signal handler may call this function. */
void _tarn_contents_compare_chunk (const guint8 *bytes, gsize offset, gsize size, guint8 byte,
                                   gboolean *is_changed, TarnContentsChange *change);
gboolean _tarn_contents_compare (const TarnGuarded *self, TarnMemory memory, gsize offset,
                                 gsize size, guint8 byte, gboolean *is_changed,
                                 TarnContentsChange *change, GError **error);

/* finding.c: findings are messages about mistakes in the use of memory.  A caller may add findings
 * to a list while it holds the allocator's lock.  It reports the list after it has released the
 * lock, because a log handler of the program may call Tarn. */

TarnFindings *_tarn_findings_new (void);
void _tarn_findings_add (TarnFindings *findings, const TarnGuarded *self,
                         const TarnDebugBlock *block, const gchar *format, ...)
    G_GNUC_PRINTF (4, 5);
/* Adds a finding: the calling thread uses a block that the program has given up by
 * tarn_debug_note_free (). */
void _tarn_findings_add_use (TarnFindings *findings, const TarnGuarded *self,
                             const TarnDebugBlock *block);
void _tarn_findings_add_unknown (TarnFindings *findings, const TarnGuarded *self, TarnMemory memory,
                                 gsize size);
/* Logs and counts all findings of a list, and frees the list. */
void _tarn_findings_report (TarnFindings *findings);

/* Counts a finding, and appends it to the file that the variable TARN_FAULTS_REPORT names.  The
 * caller logs the finding. */
void _tarn_finding_count (gboolean is_leak, const gchar *text);
gsize _tarn_findings_get_n (void);
/* Makes the program end with the status TarnDebugSettings.exit_status even without findings.  Call
 * this if a word in TARN_DEBUG is wrong, because Tarn then does not check all that the user
 * wants. */
void _tarn_finding_fail_at_exit (void);

/* Registers an atexit () function that ends the program with the status
 * TarnDebugSettings.exit_status if there are findings.  Functions that are registered later run
 * before it, so their findings count, too. */
void _tarn_finding_watch_exit (void);
void _tarn_finding_append_stack (GString *text, guint32 stack);

/* Functions of leaks.c */
void _tarn_leaks_watch (TarnGuarded *self);
void _tarn_leaks_forget (TarnGuarded *self);
/* Reports the blocks in use as leaks.  @when: the occasion, such as "the pool ends". */
void _tarn_leaks_report (TarnGuarded *self, const gchar *when);

#endif
