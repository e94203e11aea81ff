/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Charges: bytes that the program allocates on the device without a pool, and charges to a pool, so
 * that they count toward the pool's limit.  To charge bytes, a thread reserves them as a request
 * for memory does (limit.c), and then ends the reservation without asking the upstream
 * allocator. */

#include "base/fork-private.h"
#include "common/argument-private.h"
#include "pool/cache-private.h"
#include "upstream/upstream-private.h"

/* Charges bytes to a pool if they fit within its limit.  Frees cached blocks to make room.  Returns
 * FALSE with an error in two cases.  If the bytes would exceed the pool's limit, *is_limited is
 * TRUE.  If the pool has no limit, but a gsize cannot count all its bytes, *is_limited is FALSE. */
static gboolean
try_charge (TarnPool *pool, gsize bytes, gboolean *is_limited, GError **error)
{
  TarnReservation reservation = { .size = bytes };
  gboolean is_reserved = _tarn_pool_reserve (pool, &reservation, error);
  gboolean has_more;

  *is_limited = reservation.is_limited;
  if (!is_reserved)
    return FALSE;
  _tarn_mutex_lock (&pool->lock);
  _tarn_pool_end_reservation (pool, &reservation);
  pool->limit.charged_bytes += bytes;
  has_more = pool->limit.bytes != 0 && _tarn_pool_tell_limit (pool, FALSE);
  _tarn_pool_check_if_full_debug (pool);
  _tarn_mutex_unlock (&pool->lock);
  if (has_more)
    _tarn_pool_trim (pool, 0, FALSE);
  return TRUE;
}

gboolean
tarn_pool_charge (TarnPool *pool, gsize bytes, GError **error)
{
  GError *local = NULL;
  gboolean is_limited;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (pool, FALSE);

  if (!tarn_check_fork (error))
    return FALSE;
  if (bytes == 0 || try_charge (pool, bytes, &is_limited, &local))
    return TRUE;
  if (is_limited)
    {
      _tarn_pool_reclaim (pool, bytes, FALSE);
      g_clear_error (&local);
      if (try_charge (pool, bytes, &is_limited, &local))
        return TRUE;
    }
  if (is_limited)
    _tarn_pool_tell_holders (pool, local);
  g_propagate_error (error, local);
  return FALSE;
}

void
tarn_pool_uncharge (TarnPool *pool, gsize bytes)
{
  gboolean is_charged;

  g_return_if_fail (pool != NULL);

  if (_tarn_forked () || bytes == 0)
    return;
  _tarn_mutex_lock (&pool->lock);
  is_charged = bytes <= pool->limit.charged_bytes;
  if (is_charged)
    {
      pool->limit.charged_bytes -= bytes;
      if (pool->limit.bytes != 0)
        _tarn_pool_tell_limit (pool, FALSE);
      _tarn_pool_note_limit_room (pool);
      _tarn_pool_check_if_full_debug (pool);
    }
  _tarn_mutex_unlock (&pool->lock);
  g_return_if_fail (is_charged);
}

gsize
tarn_pool_get_charged_bytes (TarnPool *pool)
{
  gsize bytes;

  g_return_val_if_fail (pool != NULL, 0);

  if (_tarn_forked ())
    return pool->limit.charged_bytes;
  _tarn_mutex_lock (&pool->lock);
  bytes = pool->limit.charged_bytes;
  _tarn_mutex_unlock (&pool->lock);
  return bytes;
}
