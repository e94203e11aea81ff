/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Between a pool and its upstream allocator:
 *
 *     miss.c           allocates from upstream, and recovers when memory has run out
 *     give-back.c      returns memory to upstream
 *     limit.c          keeps a pool within its limit
 *     budget.c         tells how much memory there is for a pool
 *     charge.c         counts toward that limit the memory that the program takes beside the pool
 *     aside.c          keeps freed blocks whose memory the program still retains
 *     reclaim.c        calls reclaim functions
 *     reclaim-group.c  returns held blocks of other pools of a group */

#ifndef TARN_UPSTREAM_PRIVATE_H
#define TARN_UPSTREAM_PRIVATE_H

#include "base/duty-private.h"
#include "pool/pool-private.h"

/* A reservation: the bytes of the limit that a request takes before it asks the upstream
 * allocator. */
typedef struct
{
  gsize size;               /* bytes: set it before */
  gboolean is_limited;      /* whether there was a limit when it was made, or refused */
  gboolean was_short;       /* held blocks had to go for it */
  guint64 ended_give_backs; /* _tarn_pool_get_ended () as it was then */
} TarnReservation;

/* miss.c */
TarnBlock *_tarn_pool_allocate_own (TarnPool *pool, gsize size, guint32 bin, TarnQueue *queue);
TarnBlock *_tarn_pool_allocate_miss (TarnPool *pool, gsize size, gsize alignment, guint32 bin,
                                     TarnQueue *queue, gboolean *was_short, GError **error);

/* give-back.c; the caller of the first two holds the lock */
guint64 _tarn_pool_get_ended (const TarnPool *pool);
void _tarn_pool_begin_give_back (TarnPool *pool, TarnGiveBack *give_back, TarnBlock *blocks);
gsize _tarn_pool_give_back (TarnPool *pool, TarnGiveBack *give_back, gboolean is_wanted);
gsize _tarn_pool_give_back_held (TarnPool *pool, gsize wanted);
void _tarn_pool_trim (TarnPool *pool, gsize keep_bytes, gboolean stop_holding);

/* aside.c; the lock is not held */
/* In budget.c.  Asks the backend for the device's memory; each number is G_MAXUINT64 if unknown. */
gboolean _tarn_pool_get_device_memory (TarnAllocator *upstream, guint64 *device_bytes,
                                       guint64 *free_bytes, GError **error);
gboolean _tarn_pool_is_retained (const TarnPool *pool, const TarnBlock *block);
gboolean _tarn_pool_set_aside (TarnPool *pool, TarnBlock *block);
TarnBlock *_tarn_pool_end_aside (TarnPool *pool);

/* Frees all blocks that were set aside and whose memory the program does not retain any more.
 * Returns TRUE if it has freed any. */
gboolean _tarn_pool_free_aside (TarnPool *pool);
/* Checks a few of the blocks that were set aside.  Calls @free_block for each whose memory the
 * program does not retain any more.  @free_block must not check such blocks itself. */
typedef void (*TarnFreeBlock) (TarnBlock *block);
void _tarn_pool_look_aside (TarnPool *pool, TarnFreeBlock free_block);

/* limit.c */
gboolean _tarn_pool_tell_limit (TarnPool *pool);
gboolean _tarn_pool_reserve (TarnPool *pool, TarnReservation *reservation, GError **error);
void _tarn_pool_end_reservation (TarnPool *pool, const TarnReservation *reservation);
void _tarn_pool_fit_ceiling (TarnPool *pool); /* the lock is held, here and in the next */
void _tarn_pool_note_limit_room (TarnPool *pool);
gboolean _tarn_pool_try_upstream (TarnPool *pool, const TarnReservation *reservation,
                                  gsize alignment, const TarnQueue *queue, TarnMemory *memory,
                                  guint64 *owner, GError **error);

/* reclaim.c */
GPtrArray *_tarn_reclaim_funcs_new (void);
gboolean _tarn_pool_reclaim (TarnPool *pool, gsize wanted, gboolean ask_upstream);

#endif
