/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reclaim groups: a pool that runs out of memory returns cached blocks of other pools of its group
 * to their upstream allocators.
 *
 * For this, a thread locks all pools of the group, so that it sees at one moment which pools have
 * cached blocks.  The thread takes blocks of one pool out of the bins, unlocks all pools, and then
 * returns the blocks to upstream without holding a lock.  The thread has no reference to that pool.
 * So if the pool's last reference is dropped meanwhile, pool_dispose () waits until the thread has
 * returned the blocks, unless the caller of pool_dispose () must not wait (base/duty-private.h). */

#include "upstream/reclaim-group-private.h"
#include "upstream/upstream-private.h"

#include "base/fork-private.h"
#include "base/ref-private.h"
#include "pool/cache-private.h"

TarnReclaimGroup *
tarn_reclaim_group_new (void)
{
  TarnReclaimGroup *group = g_new0 (TarnReclaimGroup, 1);

  _tarn_watch_fork ();
  g_atomic_int_set (&group->ref_count, 1);
  _tarn_mutex_init (&group->lock);
  _tarn_mutex_init (&group->give_backs_lock);
  _tarn_cond_init (&group->give_backs.changed);
  group->members = g_ptr_array_new ();
  return group;
}

TarnReclaimGroup *
tarn_reclaim_group_ref (TarnReclaimGroup *group)
{
  g_return_val_if_fail (group != NULL, NULL);
  g_atomic_int_inc (&group->ref_count);
  return group;
}

void
tarn_reclaim_group_unref (TarnReclaimGroup *group)
{
  if (group == NULL || !g_atomic_int_dec_and_test (&group->ref_count) || _tarn_forked ())
    return;
  g_assert (group->members->len == 0 && group->give_backs.oldest == NULL);
  g_ptr_array_unref (group->members);
  _tarn_cond_clear (&group->give_backs.changed);
  _tarn_mutex_clear (&group->give_backs_lock);
  _tarn_mutex_clear (&group->lock);
  g_free (group);
}

/* Returns a reference to a pool's group, or NULL if the pool is in no group. */
TarnReclaimGroup *
_tarn_pool_get_group (TarnPool *pool)
{
  TARN_LOCKED (&pool->lock);

  return pool->reclaim.group != NULL ? tarn_reclaim_group_ref (pool->reclaim.group) : NULL;
}

/* Functions that add pools to a group, and remove them.  To read a pool's reclaim.group, a thread
 * holds the pool's lock; to change it, the thread also holds the group's lock. */

static TarnPool *
get_member (const TarnReclaimGroup *group, guint i)
{
  return g_ptr_array_index (group->members, i);
}

/* Adds a pool to the members of a group, which are sorted by the pools' ids.  A thread that locks
 * all members locks them in this order.  A snapshot locks all pools in the same order, so no
 * deadlock occurs. */
static void
add_member (TarnReclaimGroup *group, TarnPool *pool)
{
  guint i = group->members->len;

  while (i > 0 && get_member (group, i - 1)->base.id > pool->base.id)
    i--;
  g_ptr_array_insert (group->members, (gint) i, pool);
}

/* Raises the level of a group to the level of a new member, if the group's level is lower.  (Levels
 * decide which threads may wait: base/duty-private.h.) */
static void
note_level (TarnReclaimGroup *group, guint level)
{
  TARN_LOCKED (&group->give_backs_lock);

  group->level = MAX (group->level, level);
}

/* Puts a pool into a group.  Returns FALSE if the pool is in a group already, because another
 * thread has put it there. */
static gboolean
try_join (TarnPool *pool, TarnReclaimGroup *group)
{
  gboolean joins;

  _tarn_mutex_lock (&group->lock);
  _tarn_mutex_lock (&pool->lock);
  joins = pool->reclaim.group == NULL;
  if (joins)
    {
      pool->reclaim.group = tarn_reclaim_group_ref (group);
      note_level (group, pool->base.level);
      add_member (group, pool);
    }
  _tarn_mutex_unlock (&pool->lock);
  _tarn_mutex_unlock (&group->lock);
  return joins;
}

/* Removes a pool from a group, unless another thread has already removed it. */
static void
leave_group (TarnPool *pool, TarnReclaimGroup *group)
{
  gboolean leaves;

  _tarn_mutex_lock (&group->lock);
  _tarn_mutex_lock (&pool->lock);
  leaves = pool->reclaim.group == group;
  if (leaves)
    {
      pool->reclaim.group = NULL;
      g_ptr_array_remove (group->members, pool);
    }
  _tarn_mutex_unlock (&pool->lock);
  _tarn_mutex_unlock (&group->lock);
  if (leaves)
    tarn_reclaim_group_unref (group);
}

void
tarn_pool_set_reclaim_group (TarnPool *pool, TarnReclaimGroup *group)
{
  gboolean is_done = FALSE;

  g_return_if_fail (pool != NULL);

  while (!is_done && !_tarn_forked ())
    {
      g_autoptr (TarnReclaimGroup) before = _tarn_pool_get_group (pool);

      is_done = before == group;
      if (!is_done && before != NULL)
        leave_group (pool, before);
      if (!is_done)
        is_done = group == NULL || try_join (pool, group);
    }
}

TarnReclaimGroup *
tarn_pool_get_reclaim_group (TarnPool *pool)
{
  g_return_val_if_fail (pool != NULL, NULL);

  return _tarn_forked () ? NULL : _tarn_pool_get_group (pool);
}

/* Removes a pool from its group, after the pool's last reference was dropped.  In the same critical
 * section, takes all cached blocks out of the pool's bins, so that no other member of the group
 * takes them.  Announces in @give_back that the caller returns these blocks to upstream
 * afterwards. */
void
_tarn_pool_leave_group (TarnPool *pool, TarnGiveBack *give_back)
{
  /* Reads reclaim.group without a lock, because no other thread changes this field any more. */
  TarnReclaimGroup *group = pool->reclaim.group;

  _tarn_assert_not_locked (&pool->lock);
  if (group != NULL)
    _tarn_mutex_lock (&group->lock);
  _tarn_mutex_lock (&pool->lock);
  _tarn_pool_end_arenas (pool);
  pool->store.has_ended = TRUE;
  _tarn_pool_flush (pool);
  _tarn_pool_begin_give_back (pool, give_back, _tarn_pool_take_largest (pool, G_MAXSIZE));
  pool->reclaim.group = NULL;
  if (group != NULL)
    g_ptr_array_remove (group->members, pool);
  _tarn_mutex_unlock (&pool->lock);
  if (group != NULL)
    _tarn_mutex_unlock (&group->lock);
  tarn_reclaim_group_unref (group);
}

/* Functions for calls that return memory of a group's pools to upstream */

/* Adds a call to the group's list of calls that are returning memory of a member to upstream. */
void
_tarn_group_begin_give_back (TarnReclaimGroup *group, TarnTicket *ticket)
{
  TARN_LOCKED (&group->give_backs_lock);

  _tarn_tickets_begin (&group->give_backs, ticket);
}

/* Removes a finished call from the group's list of calls that are returning memory of a member to
 * upstream.  @has_given: TRUE if the call has returned any memory. */
void
_tarn_group_end_give_back (TarnReclaimGroup *group, TarnTicket *ticket, gboolean has_given)
{
  TARN_LOCKED (&group->give_backs_lock);

  _tarn_tickets_end (&group->give_backs, ticket, has_given);
}

/* Returns the number of finished calls that have returned memory of any member of a group. */
guint64
_tarn_group_get_ended (TarnReclaimGroup *group)
{
  TARN_LOCKED (&group->give_backs_lock);

  return group->give_backs.ended;
}

/* Waits until every call that is now returning memory of a member has ended.  Returns at once if
 * the calling thread must not wait for such calls (base/duty-private.h). */
void
_tarn_group_await_give_backs (TarnReclaimGroup *group)
{
  TARN_LOCKED (&group->give_backs_lock);

  if (_tarn_may_await (group->level, TARN_DUTY_GIVE_BACK))
    _tarn_tickets_await (&group->give_backs, group->give_backs.last, &group->give_backs_lock);
}

/* Adds the members of a group to @pools, with references, unless @pools has them already.  Leaves
 * out a member whose last reference was dropped, because it is about to leave the group. */
void
_tarn_group_list (TarnReclaimGroup *group, GPtrArray *pools)
{
  gboolean was_empty = pools->len == 0;
  TARN_LOCKED (&group->lock);

  for (guint i = 0; i < group->members->len; i++)
    if ((was_empty || !g_ptr_array_find (pools, get_member (group, i), NULL))
        && _tarn_try_ref (&get_member (group, i)->base.ref_count))
      g_ptr_array_add (pools, get_member (group, i));
}

/* Takes the locks of a group and all its members. */
static void
lock_members (TarnReclaimGroup *group)
{
  _tarn_assert_not_locked (&group->lock);
  _tarn_mutex_lock (&group->lock);
  for (guint i = 0; i < group->members->len; i++)
    _tarn_mutex_lock (&get_member (group, i)->lock);
}

/* Moves the blocks in thread caches of all members into the members' bins.  First closes the doors
 * (the readers-writer locks of the thread caches) of all members, and only then opens the doors
 * again one by one.  So there is one moment at which all cached blocks of the group are in bins. */
static void
flush_members (TarnReclaimGroup *group)
{
  _tarn_assert_locked (&group->lock);
  for (guint i = 0; i < group->members->len; i++)
    get_member (group, i)->was_open = _tarn_pool_close (get_member (group, i));
  for (guint i = 0; i < group->members->len; i++)
    {
      TarnPool *pool = get_member (group, i);

      if (pool->was_open)
        _tarn_pool_flush_closed (pool);
      _tarn_pool_open (pool, pool->was_open);
    }
}

/* Releases the locks of all members of a group, and then the group's lock. */
static void
unlock_members (TarnReclaimGroup *group)
{
  _tarn_assert_locked (&group->lock);
  for (guint i = group->members->len; i-- > 0;)
    _tarn_mutex_unlock (&get_member (group, i)->lock);
  _tarn_mutex_unlock (&group->lock);
}

/* Returns the sum of the bytes that all members have from upstream, or G_MAXSIZE if the sum does
 * not fit into a gsize. */
gsize
_tarn_group_get_managed_bytes (TarnReclaimGroup *group)
{
  gsize bytes = 0;

  _tarn_assert_not_locked (&group->lock);
  lock_members (group);
  for (guint i = 0; i < group->members->len; i++)
    bytes += MIN (_tarn_pool_get_managed (get_member (group, i)), G_MAXSIZE - bytes);
  unlock_members (group);
  return bytes;
}

/* Finds the member of a group that has the most bytes of cached blocks, among those that are not in
 * the set @tried.  Returns NULL if none of these has a cached block.  The caller holds all members'
 * locks. */
static TarnPool *
find_richest (const TarnReclaimGroup *group, GHashTable *tried)
{
  TarnPool *richest = NULL;
  gsize most = 0;

  for (guint i = 0; i < group->members->len; i++)
    if (get_member (group, i)->stats.held_bytes > most
        && !g_hash_table_contains (tried, get_member (group, i)))
      {
        richest = get_member (group, i);
        most = richest->stats.held_bytes;
      }
  return richest;
}

/* Makes the members' upstream allocators return unused memory to the driver, one after another,
 * until they have returned @wanted bytes in total.  Returns the number of returned bytes. */
static gsize
trim_upstreams (TarnReclaimGroup *group, gsize wanted)
{
  g_autoptr (GPtrArray) upstreams
      = g_ptr_array_new_with_free_func ((GDestroyNotify) tarn_allocator_unref);
  gsize bytes = 0;

  _tarn_mutex_lock (&group->lock);
  for (guint i = 0; i < group->members->len; i++)
    g_ptr_array_add (upstreams, tarn_allocator_ref (get_member (group, i)->upstream));
  _tarn_mutex_unlock (&group->lock);
  for (guint i = 0; i < upstreams->len && bytes < wanted; i++)
    bytes += _tarn_allocator_trim (g_ptr_array_index (upstreams, i), 0);
  return bytes;
}

/* Returns cached blocks of one member to upstream.  Chooses the member that has the most bytes of
 * cached blocks among those that are not in the set @tried, and adds it to the set.  Returns blocks
 * of at least @wanted bytes, or all the member's cached blocks if they have fewer bytes.  Then
 * trims the member's upstream allocator.  Sets *bytes to the number of bytes of the returned
 * blocks.  Returns FALSE if no such member has cached blocks.
 *
 * Needs no reference to the member, because the member's struct lives until all calls that return
 * its memory have ended (give-back.c). */
static gboolean
give_back_of_richest (TarnReclaimGroup *group, gsize wanted, GHashTable *tried, gsize *bytes)
{
  g_autoptr (TarnAllocator) upstream = NULL;
  TarnGiveBack give_back;
  TarnPool *richest;

  _tarn_assert_not_locked (&group->lock);
  lock_members (group);
  flush_members (group);
  richest = find_richest (group, tried);
  if (richest != NULL)
    {
      upstream = tarn_allocator_ref (richest->upstream);
      g_hash_table_add (tried, richest);
      *bytes = richest->stats.held_bytes;
      _tarn_pool_begin_give_back (richest, &give_back, _tarn_pool_take_largest (richest, wanted));
      *bytes -= richest->stats.held_bytes;
      give_back.is_foreign = TRUE;
      richest->returning.n_foreign++;
      _tarn_pool_check_if_full_debug (richest);
    }
  unlock_members (group);
  if (richest == NULL)
    return FALSE;
  *bytes -= _tarn_pool_give_back (richest, &give_back, TRUE);
  _tarn_allocator_trim (upstream, 0);
  return TRUE;
}

/* Returns cached blocks of one member of the group to upstream.  Asks one member after another for
 * @wanted bytes, until one returns a block.  A member chooses blocks for that many bytes, but
 * perhaps it cannot return these blocks: for example, if they are blocks of a queue that is being
 * captured.  So if no member returns a block, asks one member after another for all of its cached
 * blocks.  If that fails, too, trims the upstream allocators of all members.  Returns the bytes of
 * the returned blocks, or else the bytes that the upstream allocators returned. */
gsize
_tarn_group_give_back_held (TarnReclaimGroup *group, gsize wanted)
{
  gsize wants[] = { wanted, G_MAXSIZE }, bytes = 0;

  for (guint i = 0; i < G_N_ELEMENTS (wants) && bytes == 0; i++)
    {
      g_autoptr (GHashTable) tried = g_hash_table_new (NULL, NULL);

      while (bytes == 0 && give_back_of_richest (group, wants[i], tried, &bytes))
        ;
    }
  return bytes > 0 ? bytes : trim_upstreams (group, wanted);
}
