/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Removes (forgets) entries of memos, which are caches of functions' results.  The functions of
 * this file remove entries while they hold the memo's lock, and free the entries after they have
 * released the lock.  They also remove computations in progress from the memo's table.  The
 * threads that wait for a removed computation still get its result, but the memo does not keep
 * the result. */

#include "memo/memo-private.h"

#include "base/fork-private.h"

/* A set of first arguments (objects, such as contexts).  A call forgets the entries of all first
 * arguments in the set.  If all flags are FALSE, the set contains one object: the one at the
 * address first_arg with the id @id.  The id tells the object apart from earlier objects at this
 * address. */
typedef struct
{
  gpointer first_arg;
  guint64 id;
  gboolean is_any;      /* TRUE if the set contains all first arguments */
  gboolean is_any_id;   /* TRUE if the set contains first_arg with any id */
  gboolean is_other_id; /* TRUE if the set contains first_arg with any id except @id */
} Which;

/* Returns TRUE if a first argument is in the set @which. */
static gboolean
matches (const Which *which, gpointer first_arg, guint64 id)
{
  if (which->is_any || which->first_arg != first_arg)
    return which->is_any;
  return which->is_any_id || (which->id != id) == which->is_other_id;
}

/* Functions that forget and free the entries of one memo */

/* Frees an entry that is not in the memo any more.  The caller does not hold the memo's lock. */
void
_tarn_memo_entry_free (TarnMemo *memo, TarnMemoEntry *entry)
{
  _tarn_assert_not_locked (&memo->lock);
  for (guint i = 0; i < entry->n_own; i++)
    _tarn_memo_unref_value (memo, entry->own[i], &entry->probe);
  g_free (entry->own);
  _tarn_memo_unref_value (memo, entry->value, &entry->probe);
  if (memo->ops.free_key != NULL)
    memo->ops.free_key ((gpointer) entry->probe.key);
  g_free (entry);
}

/* Makes a group for the first argument of the lookup @probe.  A group is the set of entries that
 * have the same first argument; the new group is empty.  Returns NULL if the memo's function
 * ref_first_arg returns NULL. */
TarnMemoGroup *
_tarn_memo_group_new (TarnMemo *memo, const TarnMemoProbe *probe)
{
  gpointer first_arg = probe->first_arg;
  TarnMemoGroup *group;

  if (first_arg != NULL && memo->ops.ref_first_arg != NULL
      && (first_arg = memo->ops.ref_first_arg (memo->user_data, first_arg)) == NULL)
    return NULL;
  group = g_new0 (TarnMemoGroup, 1);
  group->first_arg = first_arg;
  group->id = probe->id;
  return group;
}

/* Frees a group and its entries.  The caller does not hold the memo's lock. */
void
_tarn_memo_group_free (TarnMemo *memo, TarnMemoGroup *group)
{
  gboolean is_dead = _tarn_memo_is_dead (memo, group->first_arg, group->id);
  GList *link;

  _tarn_assert_not_locked (&memo->lock);
  while ((link = g_queue_pop_head_link (&group->entries)) != NULL)
    _tarn_memo_entry_free (memo, link->data);
  if (memo->ops.unref_first_arg != NULL && group->first_arg != NULL && !is_dead)
    memo->ops.unref_first_arg (memo->user_data, group->first_arg);
  g_free (group);
}

/* Moves the groups of a set of first arguments from the list *chain to the list @taken, and removes
 * their entries from the memo's table.  Both lists are linked by TarnMemoGroup.next.  Returns
 * @taken. */
static TarnMemoGroup *
take_of_chain (TarnMemo *memo, const Which *which, TarnMemoGroup **chain, TarnMemoGroup *taken)
{
  TarnMemoGroup *group;

  while ((group = *chain) != NULL)
    if (!matches (which, group->first_arg, group->id))
      chain = &group->next;
    else
      {
        *chain = group->next;
        group->next = taken;
        taken = group;
        for (GList *entry = group->entries.head; entry != NULL; entry = entry->next)
          g_hash_table_remove (memo->entries, entry->data);
      }
  return taken;
}

/* Removes all groups from a memo.  Returns a list of them, as take_groups () does. */
static TarnMemoGroup *
take_all_groups (TarnMemo *memo, const Which *which)
{
  TarnMemoGroup *taken = NULL;
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, memo->groups);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      TarnMemoGroup *chain = value;

      taken = take_of_chain (memo, which, &chain, taken);
    }
  g_hash_table_remove_all (memo->groups);
  return taken;
}

/* Removes the groups of all first arguments in a set from a memo, and the entries of these groups
 * from the memo's table.  Returns a list of the groups, linked by TarnMemoGroup.next, which the
 * caller frees.  The caller has called _tarn_memo_close (), which takes the memo's lock. */
static TarnMemoGroup *
take_groups (TarnMemo *memo, const Which *which)
{
  TarnMemoGroup *taken, *chain;

  g_assert (memo->ops.max_entries > 0 || _tarn_door_is_closed (&memo->door));
  _tarn_assert_locked (&memo->lock);
  if (which->is_any)
    return take_all_groups (memo, which);
  chain = g_hash_table_lookup (memo->groups, which->first_arg);
  taken = take_of_chain (memo, which, &chain, NULL);
  if (chain != NULL)
    g_hash_table_insert (memo->groups, which->first_arg, chain);
  else
    g_hash_table_remove (memo->groups, which->first_arg);
  return taken;
}

static gboolean
is_of (gpointer key, gpointer unused, gpointer which)
{
  const TarnMemoProbe *probe = key;

  (void) unused;
  return matches (which, probe->first_arg, probe->id);
}

/* Forgets the entries of a set of first arguments.  If a thread is computing an entry for one of
 * these first arguments, the memo will not keep the result. */
static void
forget (TarnMemo *memo, Which *which)
{
  TarnMemoGroup *groups, *group;

  _tarn_memo_close (memo);
  groups = take_groups (memo, which);
  g_hash_table_foreach_remove (memo->computations, is_of, which);
  _tarn_memo_open (memo);

  while ((group = groups) != NULL)
    {
      groups = group->next;
      _tarn_memo_group_free (memo, group);
    }
}

/* Forgets all entries of a memo. */
void
_tarn_memo_forget_all (TarnMemo *memo)
{
  forget (memo, &(Which){ .is_any = TRUE });
}

/* Returns TRUE if a memo has entries for destroyed objects in the set @which.  The set has all
 * earlier objects at the address of an object (is_other_id).  If the result is FALSE, the caller
 * need not call _tarn_memo_close (), which is slow. */
static gboolean
has_dead (TarnMemo *memo, const Which *which)
{
  const TarnMemoGroup *group;

  _tarn_mutex_lock (&memo->lock);
  group = g_hash_table_lookup (memo->groups, which->first_arg);
  while (group != NULL && !matches (which, group->first_arg, group->id))
    group = group->next;
  _tarn_mutex_unlock (&memo->lock);
  return group != NULL;
}

/* Forgets the entries of destroyed objects that had the same address as the first argument of the
 * lookup @probe.  Does not look for destroyed objects at other addresses: for that, it would have
 * to call first_arg_id (), the function that returns an object's id, for objects that may be
 * destroyed. */
void
_tarn_memo_forget_dead (TarnMemo *memo, const TarnMemoProbe *probe)
{
  Which which = { .first_arg = probe->first_arg, .id = probe->id, .is_other_id = TRUE };

  if (memo->ops.first_arg_id != NULL && has_dead (memo, &which))
    forget (memo, &which);
}

void
tarn_memo_forget (TarnMemo *memo, gpointer first_arg)
{
  gboolean has_begun;

  g_return_if_fail (memo != NULL);

  if (_tarn_forked ())
    return;
  if (first_arg == NULL && memo->ops.current_first_arg != NULL
      && (first_arg = memo->ops.current_first_arg (memo->user_data, NULL)) == NULL)
    return;
  has_begun = _tarn_try_ref (&memo->ref_count);
  forget (memo, &(Which){ .first_arg = first_arg, .is_any_id = TRUE });
  if (memo->ops.upstream != NULL)
    {
      tarn_memo_forget (memo->ops.upstream, first_arg);
      /* Forget again.  The memo's function gets values from the upstream memo.  Before the upstream
       * memo forgot its entries, threads may have computed new entries of this memo from them. */
      forget (memo, &(Which){ .first_arg = first_arg, .is_any_id = TRUE });
    }
  _tarn_memo_end_call (memo, has_begun);
}

void
tarn_memo_clear (TarnMemo *memo)
{
  gboolean has_begun;

  g_return_if_fail (memo != NULL);

  if (_tarn_forked ())
    return;
  has_begun = _tarn_try_ref (&memo->ref_count);
  _tarn_memo_forget_all (memo);
  if (memo->ops.upstream != NULL)
    {
      tarn_memo_clear (memo->ops.upstream);
      _tarn_memo_forget_all (memo);
    }
  _tarn_memo_end_call (memo, has_begun);
}

/* Functions that forget entries in all memos of the process */

static TarnMutex lock = TARN_MUTEX_INIT; /* guards the list of all memos */
static GQueue memos;                     /* all memos, linked by all_link, the newest first */

/* Adds a memo to the list of all memos of the process. */
void
_tarn_memo_register (TarnMemo *memo)
{
  memo->all_link.data = memo;
  _tarn_mutex_lock (&lock);
  g_queue_push_head_link (&memos, &memo->all_link);
  _tarn_mutex_unlock (&lock);
}

/* Removes a memo from the list of all memos of the process. */
void
_tarn_memo_unregister (TarnMemo *memo)
{
  _tarn_mutex_lock (&lock);
  g_queue_unlink (&memos, &memo->all_link);
  _tarn_mutex_unlock (&lock);
}

/* Returns a list of all memos whose first argument has the kind @kind, with a reference to each
 * memo.  If @kind is NULL, the list has all memos.  The newest memo is first.  The caller frees the
 * list with g_ptr_array_unref (). */
static GPtrArray *
list_memos (const gchar *kind)
{
  GPtrArray *list = g_ptr_array_new_with_free_func ((GDestroyNotify) tarn_memo_unref);

  _tarn_mutex_lock (&lock);
  for (GList *link = memos.head; link != NULL; link = link->next)
    {
      TarnMemo *memo = link->data;

      if ((kind == NULL || g_strcmp0 (memo->ops.first_arg_kind, kind) == 0)
          && _tarn_try_ref (&memo->ref_count))
        g_ptr_array_add (list, memo);
    }
  _tarn_mutex_unlock (&lock);
  return list;
}

/* Forgets a set of first arguments once more, in each memo of @list whose function gets values from
 * another memo, its upstream memo.  The caller has already forgotten the set once in each memo.
 * Since then, threads may have computed results from entries that the upstream memo had not
 * forgotten yet.  Goes from the list's end to its start, that is, from the oldest memo to the
 * newest, because an upstream memo is older than the memos that use it. */
static void
forget_downstream (const GPtrArray *list, Which *which)
{
  for (guint i = list->len; i > 0; i--)
    {
      TarnMemo *memo = g_ptr_array_index (list, i - 1);

      if (memo->ops.upstream != NULL)
        forget (memo, which);
    }
}

/* Forgets all entries of the memos of a kind, or of all memos if @kind is NULL. */
static void
clear_kind (const gchar *kind)
{
  g_autoptr (GPtrArray) list = NULL;

  if (_tarn_forked ())
    return;
  list = list_memos (kind);
  for (guint i = 0; i < list->len; i++)
    tarn_memo_clear (g_ptr_array_index (list, i));
  forget_downstream (list, &(Which){ .is_any = TRUE });
}

void
tarn_memo_forget_everywhere (gpointer first_arg)
{
  g_autoptr (GPtrArray) list = NULL;

  g_return_if_fail (first_arg != NULL);

  if (_tarn_forked ())
    return;
  list = list_memos (NULL);
  for (guint i = 0; i < list->len; i++)
    tarn_memo_forget (g_ptr_array_index (list, i), first_arg);
  forget_downstream (list, &(Which){ .first_arg = first_arg, .is_any_id = TRUE });
}

void
tarn_memo_clear_kind (const gchar *kind)
{
  g_return_if_fail (kind != NULL);

  clear_kind (kind);
}

void
tarn_memo_clear_all (void)
{
  clear_kind (NULL);
}
