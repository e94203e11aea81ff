/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reclaim groups: pools that free cached memory for each other. */

#ifndef TARN_RECLAIM_GROUP_PRIVATE_H
#define TARN_RECLAIM_GROUP_PRIVATE_H

#include "pool/pool-private.h"

/* A group of pools with memory of one device.
 *
 * Invariant: a pool is among the members exactly if this is the pool's group.  A thread that
 * changes either holds the lock of the group and the lock of the pool.  It takes the group's lock
 * before those of pools, and give_backs_lock after them.
 *
 * A pool has a reference to its group.  A group has none to its members: a pool leaves its group
 * when the last reference to the pool is gone. */
struct _TarnReclaimGroup
{
  gint ref_count; /* atomic */

  TarnMutex lock;
  GPtrArray *members; /* in the order of their ids */

  TarnMutex give_backs_lock;
  TarnTickets give_backs; /* those of all members */
  guint level;            /* the highest that a member ever had */
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
