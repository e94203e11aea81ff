/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Keeps the set of reasons for which pools trace blocks.  As long as the set is not empty, pools
 * take no fast path, and store with each block the thread, time, tag and call stack of its
 * request. */

#include "record/record-private.h"

gint _tarn_is_following; /* atomic: a set of TarnFollowReason bits */
static guint64 start;    /* atomic: the time when pools last began to trace blocks, in ns */

gboolean
_tarn_follow (TarnFollowReason reason, gboolean follows)
{
  gint before = __atomic_load_n (&_tarn_is_following, __ATOMIC_SEQ_CST);

  do
    if (before == 0 && follows)
      __atomic_store_n (&start, _tarn_record_get_time (), __ATOMIC_RELEASE);
  while (!__atomic_compare_exchange_n (&_tarn_is_following, &before,
                                       follows ? before | (gint) reason : before & ~(gint) reason,
                                       FALSE, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return follows ? before == 0 : before == (gint) reason;
}

guint64
_tarn_follow_get_start (void)
{
  return _tarn_follows () ? __atomic_load_n (&start, __ATOMIC_ACQUIRE) : G_MAXUINT64;
}
