/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Functions by which a pool uses its upstream allocator, from which it gets its memory:
 *
 *     miss.c           allocates from upstream, and recovers when upstream is out of memory
 *     give-back.c      returns memory to upstream
 *     limit.c          keeps a pool's bytes within the limit that the program sets
 *     budget.c         tells how much memory a pool can have
 *     charge.c         counts, toward a pool's limit, bytes that the program allocates itself
 *     aside.c          keeps freed blocks to whose memory the program still has references
 *     reclaim.c        calls the program's reclaim functions, which free memory
 *     reclaim-group.c  returns cached blocks of other pools of the same reclaim group */

#ifndef TARN_UPSTREAM_PRIVATE_H
#define TARN_UPSTREAM_PRIVATE_H

#include "base/duty-private.h"
#include "pool/pool-private.h"

/* A reservation: bytes within a pool's limit that a thread reserves for a request, before it asks
 * the upstream allocator for this memory. */
typedef struct
{
  /* The number of bytes.  The caller sets this field before it calls _tarn_pool_reserve (). */
  gsize size;
  gboolean is_limited; /* TRUE if the pool had a limit during _tarn_pool_reserve () */
  /* TRUE if an attempt to reserve the bytes failed, or took cached blocks to make room. */
  gboolean was_short;
  /* The value of _tarn_pool_get_ended (), the number of finished calls that have returned memory,
   * at the time when _tarn_pool_reserve () reserved the bytes. */
  guint64 ended_give_backs;
} TarnReservation;

/* Functions of miss.c, which allocates memory from upstream.  Their callers do not hold the pool's
 * lock. */
TarnBlock *_tarn_pool_allocate_own (TarnPool *pool, gsize size, guint32 bin, TarnQueue *queue);
TarnBlock *_tarn_pool_allocate_miss (TarnPool *pool, gsize size, gsize alignment, guint32 bin,
                                     TarnQueue *queue, gboolean *was_short, GError **error);
void _tarn_pool_tell_holders (TarnPool *pool, GError *error);

/* Functions of give-back.c, which returns memory to upstream.  Callers of the first three functions
 * hold the pool's lock, and the third one releases it; callers of the others do not hold the
 * lock. */
guint64 _tarn_pool_get_ended (const TarnPool *pool);
void _tarn_pool_begin_give_back (TarnPool *pool, TarnGiveBack *give_back, TarnBlock *blocks);
gsize _tarn_pool_unlock_and_give_back (TarnPool *pool, TarnBlock *blocks, gboolean is_wanted);
gsize _tarn_pool_give_back (TarnPool *pool, TarnGiveBack *give_back, gboolean is_wanted);
gsize _tarn_pool_give_back_held (TarnPool *pool, gsize wanted);
void _tarn_pool_trim (TarnPool *pool, gsize keep_bytes, gboolean stop_holding);

/* Asks the backend for the device's total and free bytes (budget.c).  If the backend does not
 * know one of these numbers, sets this number to G_MAXUINT64. */
gboolean _tarn_pool_get_device_memory (TarnAllocator *upstream, guint64 *device_bytes,
                                       guint64 *free_bytes, GError **error);

/* Functions of aside.c, for blocks that the program frees while it still has references to their
 * memory.  The callers do not hold the pool's lock. */
gboolean _tarn_pool_is_retained (const TarnPool *pool, const TarnBlock *block);
gboolean _tarn_pool_set_aside (TarnPool *pool, TarnBlock *block);
TarnBlock *_tarn_pool_end_aside (TarnPool *pool);

/* Checks all blocks that are set aside: the program freed them while it still had references to
 * their memory (aside.c).  Frees each block whose memory the program does not refer to any more.
 * Returns TRUE if it has freed a block. */
gboolean _tarn_pool_free_aside (TarnPool *pool);
/* Checks a few of the blocks that are set aside (freed while the program still had references to
 * their memory).  Calls @free_block for each block whose memory the program does not refer to any
 * more.  @free_block must not call _tarn_pool_look_aside (). */
typedef void (*TarnFreeBlock) (TarnBlock *block);
void _tarn_pool_look_aside (TarnPool *pool, TarnFreeBlock free_block);

/* Functions of limit.c, which keeps a pool's bytes within its limit.  The callers of
 * _tarn_pool_reserve () and _tarn_pool_try_upstream () do not hold the pool's lock.  The callers of
 * the other functions hold the lock, unless the pool is new or its last reference was dropped. */
void _tarn_pool_end_limit (TarnPool *pool);
gboolean _tarn_pool_tell_limit (TarnPool *pool, gboolean is_latest);
gboolean _tarn_pool_reserve (TarnPool *pool, TarnReservation *reservation, GError **error);
void _tarn_pool_end_reservation (TarnPool *pool, const TarnReservation *reservation);
void _tarn_pool_drop_reservation (TarnPool *pool, const TarnReservation *reservation);
void _tarn_pool_fit_ceiling (TarnPool *pool);
void _tarn_pool_note_limit_room (TarnPool *pool);
gboolean _tarn_pool_try_upstream (TarnPool *pool, const TarnReservation *reservation,
                                  gsize alignment, const TarnQueue *queue, TarnMemory *memory,
                                  guint64 *owner, GError **error);

/* Functions of reclaim.c, which calls the program's reclaim functions.  Their callers do not hold
 * the pool's lock. */
GPtrArray *_tarn_reclaim_funcs_new (void);
gboolean _tarn_pool_reclaim (TarnPool *pool, gsize wanted, gboolean ask_upstream);

#endif
