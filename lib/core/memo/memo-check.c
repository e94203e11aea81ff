/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Checks the invariants of a memo (memo-private.h). */

#include "memo/memo-private.h"

/* Checks a group and its entries.  Returns a text about a violated invariant, or NULL. */
static const gchar *
check_group (const TarnMemo *memo, const TarnMemoGroup *group)
{
  if (group->entries.length == 0)
    return "a group is empty";
  if (memo->ops.max_entries > 0 && group->entries.length > memo->ops.max_entries)
    return "a group has more than max_entries";
  for (const TarnMemoGroup *other = group->next; other != NULL; other = other->next)
    if (other->first_arg != group->first_arg)
      return "a group is listed for another first argument";
    else if (other->id == group->id)
      return "two groups are of one first argument";
  for (const GList *node = group->entries.head; node != NULL; node = node->next)
    {
      const TarnMemoEntry *entry = node->data;

      if (g_hash_table_lookup (memo->entries, &entry->probe) != entry || entry->group != group
          || entry->probe.first_arg != group->first_arg || entry->probe.id != group->id)
        return "an entry does not belong in its group";
    }
  return NULL;
}

/* Checks the table of computations.  Returns a text about a violated invariant, or NULL. */
static const gchar *
check_computations (const TarnMemo *memo)
{
  GHashTableIter iter;
  gpointer computation;

  g_hash_table_iter_init (&iter, memo->computations);
  while (g_hash_table_iter_next (&iter, &computation, NULL))
    if (((const TarnComputation *) computation)->memo != memo)
      return "a computation is another memo's";
    else if (g_hash_table_contains (memo->entries, computation))
      return "what is kept is being computed";
  return NULL;
}

/* Returns a text about a violated invariant of a memo, or NULL.  The caller holds the memo's
 * lock. */
static const gchar *
find_violation (const TarnMemo *memo)
{
  const gchar *violation = check_computations (memo);
  gsize n_entries = 0;
  GHashTableIter iter;
  gpointer first_arg, first;

  g_hash_table_iter_init (&iter, memo->groups);
  while (violation == NULL && g_hash_table_iter_next (&iter, &first_arg, &first))
    {
      if (((const TarnMemoGroup *) first)->first_arg != first_arg)
        violation = "a group is listed for another first argument";
      for (const TarnMemoGroup *group = first; group != NULL && violation == NULL;
           group = group->next)
        {
          violation = check_group (memo, group);
          n_entries += group->entries.length;
        }
    }
  if (violation == NULL && g_hash_table_size (memo->entries) != n_entries)
    violation = "the table has other entries than the groups";
  return violation;
}

/* Aborts the program if an invariant of a memo is violated.  The caller holds the memo's lock. */
void
_tarn_memo_assert_valid (TarnMemo *memo)
{
  const gchar *violation = find_violation (memo);

  _tarn_assert_locked (&memo->lock);
  if (violation != NULL)
    g_error ("memo %p: %s", (void *) memo, violation);
}
