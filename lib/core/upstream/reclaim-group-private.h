/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reclaim groups: pools whose memory is on the same device.  A pool that runs out of memory returns
 * cached blocks of the other pools of its group to their upstream allocators. */

#ifndef TARN_RECLAIM_GROUP_PRIVATE_H
#define TARN_RECLAIM_GROUP_PRIVATE_H

#include "pool/pool-private.h"

/* A reclaim group: pools whose memory is on the same device, and which free cached blocks for each
 * other.
 *
 * Invariant: the array members has a pool if and only if the pool's reclaim.group is this group.
 * To change members or reclaim.group, a thread holds the group's lock and the pool's lock.
 *
 * A thread takes locks in this order: the group's lock, the locks of pools, give_backs_lock.
 *
 * A pool has a reference to its group.  A group has no references to its members: a pool leaves its
 * group when the last reference to the pool is dropped. */
struct _TarnReclaimGroup
{
  gint ref_count; /* atomic: the number of references */

  TarnMutex lock;
  GPtrArray *members; /* an array of TarnPool, sorted by the pools' ids */

  TarnMutex give_backs_lock;
  TarnTickets give_backs; /* the calls that are returning memory of any member to upstream now */
  guint level;            /* the highest level (base/duty-private.h) of a member so far */
};

void _tarn_group_begin_give_back (TarnReclaimGroup *group, TarnTicket *ticket);
void _tarn_group_end_give_back (TarnReclaimGroup *group, TarnTicket *ticket, gboolean has_given);

TarnReclaimGroup *_tarn_pool_get_group (TarnPool *pool);
void _tarn_group_list (TarnReclaimGroup *group, GPtrArray *pools);
gsize _tarn_group_get_managed_bytes (TarnReclaimGroup *group);
gsize _tarn_group_give_back_held (TarnReclaimGroup *group, gsize wanted);
guint64 _tarn_group_get_ended (TarnReclaimGroup *group);
void _tarn_group_await_give_backs (TarnReclaimGroup *group);
void _tarn_pool_leave_group (TarnPool *pool, TarnGiveBack *give_back);

#endif
