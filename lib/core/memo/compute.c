/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Computes the value of an entry only once, even if several threads need it at the same time.  (An
 * entry of a memo is a cached result of a function.)  The first thread adds a computation to the
 * memo's table, and computes the value while it holds no lock.  Other threads find the computation
 * in the table, and wait until it is done.
 *
 * Such a wait could last for ever: the computing thread may itself wait, possibly through other
 * threads, for a computation of the waiting thread.  So each thread stores the computation that it
 * waits for (TarnComputer.waiting_for), guarded by one lock, and a call that would wait for ever
 * fails with an error instead. */

#include "memo/memo-private.h"

/* Guards TarnComputer.waiting_for and TarnComputation.is_done in all memos. */
static TarnMutex lock = TARN_MUTEX_INIT;

static _Thread_local TarnComputer current; /* the computations of the calling thread */

/* Creates the struct of a computation that the calling thread is to do.  If the memo has the entry
 * by now, or another thread is computing it, the caller releases the struct without using it. */
static TarnComputation *
computation_new (TarnMemo *memo, const TarnMemoProbe *probe)
{
  TarnComputation *computation = g_new0 (TarnComputation, 1);

  computation->probe = *probe;
  computation->ref_count = 1;
  computation->memo = memo;
  computation->thread = &current;
  computation->outer = current.innermost;
  _tarn_cond_init (&computation->done);
  return computation;
}

/* Releases a reference to a computation.  With the last reference, frees the computation, and
 * releases its value if the computation owns the value. */
static void
computation_unref (TarnComputation *computation)
{
  TarnMemo *memo = computation->memo;

  g_assert (g_atomic_int_get (&computation->ref_count) > 0);
  if (!g_atomic_int_dec_and_test (&computation->ref_count))
    return;
  if (computation->owns_value && computation->value != NULL)
    _tarn_memo_unref_value (memo, computation->value, &computation->probe);
  g_clear_error (&computation->error);
  _tarn_cond_clear (&computation->done);
  g_free (computation);
}

/* Functions that refuse calls which would wait for ever */

/* Sets the error for a call that would wait for ever: for a computation that waits for this call,
 * directly or through other threads. */
static gboolean
refuse_recursion (GError **error)
{
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_RECURSION,
                       "the computation of an entry asks for that entry itself");
  return FALSE;
}

/* Returns TRUE if the calling thread is computing the entry of @probe (a first argument and a key).
 * Searches the thread's own computations, not the memo's table: if the program forgets an entry
 * while the entry is computed, the table lacks the computation. */
static gboolean
is_computing (const TarnMemo *memo, const TarnMemoProbe *probe)
{
  const TarnComputation *computation = current.innermost;

  while (computation != NULL
         && (computation->memo != memo || !_tarn_memo_probes_equal (&computation->probe, probe)))
    computation = computation->outer;
  return computation != NULL;
}

/* Returns TRUE if @computation cannot end before @thread continues.  This is so if @thread itself
 * is the computing thread.  It is also so if the computing thread waits, possibly through other
 * threads, for a computation of @thread.  The caller holds this file's lock. */
static gboolean
depends_on (const TarnComputation *computation, const TarnComputer *thread)
{
  _tarn_assert_locked (&lock);
  while (computation != NULL && !computation->is_done && computation->thread != thread)
    computation = computation->thread->waiting_for;
  return computation != NULL && !computation->is_done;
}

/* Waits until another thread's computation is done.  If the computing thread waits for the calling
 * thread, directly or through other threads, returns FALSE with an error at once. */
static gboolean
await (const TarnComputation *computation, GError **error)
{
  gboolean is_endless;

  _tarn_mutex_lock (&lock);
  is_endless = depends_on (computation, &current);
  if (!is_endless)
    current.waiting_for = computation;
  while (!is_endless && !computation->is_done)
    _tarn_cond_wait ((TarnCond *) &computation->done, &lock);
  current.waiting_for = NULL;
  _tarn_mutex_unlock (&lock);
  return is_endless ? refuse_recursion (error) : TRUE;
}

/* Functions that compute an entry, or wait for the call that computes it */

/* Checks the result of a function of the program.  If the function returned both a value and an
 * error, logs this mistake, releases the value, and sets *value to NULL. */
void
_tarn_memo_check_result (TarnMemo *memo, const TarnMemoProbe *probe, gpointer *value,
                         const GError *error)
{
  if (*value == NULL || error == NULL)
    return;
  g_critical ("a function of a memo gave a value and an error: %s", error->message);
  _tarn_memo_unref_value (memo, *value, probe);
  *value = NULL;
}

/* Makes an entry from the value of a computation.  Returns NULL if the memo's function ref_value or
 * ref_first_arg returned NULL instead of a reference. */
static TarnMemoEntry *
entry_new (TarnMemo *memo, const TarnComputation *computation)
{
  TarnMemoGroup *group = _tarn_memo_group_new (memo, &computation->probe);
  TarnMemoEntry *entry;
  gpointer value;

  if (group == NULL)
    return NULL;
  if (!_tarn_memo_ref_value (memo, computation->value, &value))
    {
      _tarn_memo_group_free (memo, group);
      return NULL;
    }
  entry = g_new0 (TarnMemoEntry, 1);
  entry->probe = computation->probe;
  if (memo->ops.copy_key != NULL)
    entry->probe.key = memo->ops.copy_key (computation->probe.key);
  entry->value = value;
  entry->group = group;
  entry->link.data = entry;
  return entry;
}

/* Adds an entry to a group, the entries that have the same first argument.  @entry comes with a
 * new, empty group (entry->group).  If the memo already has a group for the first argument, adds
 * the entry to that group, and returns the new group, which the caller frees.  Otherwise adds the
 * new group to the memo, and returns NULL.  The caller holds the memo's lock. */
static TarnMemoGroup *
add_to_group (TarnMemo *memo, TarnMemoEntry *entry)
{
  TarnMemoGroup *fresh = entry->group;
  TarnMemoGroup *first = g_hash_table_lookup (memo->groups, fresh->first_arg), *group = first;

  _tarn_assert_locked (&memo->lock);
  while (group != NULL && group->id != fresh->id)
    group = group->next;
  if (group != NULL)
    entry->group = group;
  else
    {
      fresh->next = first;
      g_hash_table_insert (memo->groups, fresh->first_arg, fresh);
    }
  g_queue_push_head_link (&entry->group->entries, &entry->link);
  return group != NULL ? fresh : NULL;
}

/* If a group (the entries with the same first argument) has more than max_entries entries, removes
 * the least recently used entry from the memo and returns it, and the caller frees it.  Otherwise
 * returns NULL.  The caller holds the memo's lock. */
static TarnMemoEntry *
evict (TarnMemo *memo, TarnMemoGroup *group)
{
  GList *last = group->entries.tail;

  _tarn_assert_locked (&memo->lock);
  if (memo->ops.max_entries == 0 || group->entries.length <= memo->ops.max_entries)
    return NULL;
  g_queue_unlink (&group->entries, last);
  g_hash_table_remove (memo->entries, last->data);
  memo->stats.evictions++;
  return last->data;
}

/* Removes a computation from the memo's table.  Returns TRUE if the memo should keep the result,
 * that is, if the computation succeeded and the program has not forgotten the entry meanwhile.  The
 * caller holds the memo's lock. */
static gboolean
end_computation (TarnMemo *memo, TarnComputation *computation, gint64 elapsed)
{
  gboolean is_wanted = g_hash_table_lookup (memo->computations, computation) == computation;

  _tarn_assert_locked (&memo->lock);
  if (is_wanted)
    g_hash_table_remove (memo->computations, computation);
  if (computation->error != NULL)
    memo->stats.failures++;
  memo->stats.compute_seconds += (gdouble) elapsed / G_USEC_PER_SEC;
  return is_wanted && computation->error == NULL;
}

/* Marks a computation as done, and wakes all threads that wait for it. */
static void
finish (TarnComputation *computation)
{
  g_assert (!computation->is_done);
  _tarn_mutex_lock (&lock);
  computation->is_done = TRUE;
  _tarn_cond_broadcast (&computation->done);
  _tarn_mutex_unlock (&lock);
}

/* Ends a computation without adding its result to the memo. */
static void
drop_computation (TarnMemo *memo, TarnComputation *computation, gint64 elapsed)
{
  _tarn_mutex_lock (&memo->lock);
  end_computation (memo, computation, elapsed);
  _tarn_memo_check_if_full_debug (memo);
  _tarn_mutex_unlock (&memo->lock);
  finish (computation);
}

/* Ends a successful computation.  Adds an entry with the computed value to the memo, unless the
 * program has forgotten the entry meanwhile.  Then wakes the threads that wait for the value, and
 * frees the objects that the memo has not kept. */
static void
keep_result (TarnMemo *memo, TarnComputation *computation, gint64 elapsed)
{
  TarnMemoEntry *entry = entry_new (memo, computation), *left = NULL;
  TarnMemoGroup *group;
  gboolean is_kept;

  _tarn_assert_not_locked (&memo->lock);
  if (entry == NULL)
    {
      computation->owns_value = TRUE;
      drop_computation (memo, computation, elapsed);
      return;
    }
  group = entry->group;

  _tarn_memo_close (memo);
  is_kept = end_computation (memo, computation, elapsed);
  if (is_kept)
    {
      g_hash_table_add (memo->entries, entry);
      group = add_to_group (memo, entry);
      left = evict (memo, entry->group);
    }
  _tarn_memo_open (memo);

  computation->owns_value = memo->ops.ref_value != NULL || !is_kept;
  if (!is_kept)
    {
      if (memo->ops.ref_value == NULL)
        entry->value = NULL;
      left = entry;
    }
  finish (computation);
  if (left != NULL)
    _tarn_memo_entry_free (memo, left);
  if (group != NULL)
    _tarn_memo_group_free (memo, group);
}

/* Calls the program's function that computes the value, and ends the computation. */
static void
compute_entry (TarnMemo *memo, TarnComputation *computation)
{
  const TarnMemoProbe *probe = &computation->probe;
  gint64 start = g_get_monotonic_time (), elapsed;

  _tarn_assert_not_locked (&memo->lock);
  current.innermost = computation;
  computation->value
      = memo->func (probe->first_arg, probe->key, memo->user_data, &computation->error);
  current.innermost = computation->outer;
  elapsed = g_get_monotonic_time () - start;
  _tarn_memo_check_result (memo, probe, &computation->value, computation->error);
  if (computation->error != NULL)
    drop_computation (memo, computation, elapsed);
  else
    keep_result (memo, computation, elapsed);
}

/* Returns TRUE if a computation's value is released together with the computation, and the caller
 * cannot get a reference to the value. */
static gboolean
is_to_end (const TarnMemo *memo, const TarnComputation *computation)
{
  return computation->owns_value && computation->value != NULL && memo->ops.ref_value == NULL
         && memo->ops.unref_value != NULL;
}

/* Stores the result of a computation for the caller: a reference to the value in *value; or, if the
 * computation failed, a copy of its error in *error.  Returns FALSE if there is an error. */
static gboolean
take_result (TarnMemo *memo, const TarnMemoProbe *probe, const TarnComputation *computation,
             gpointer *value, GError **error)
{
  gpointer found;

  if (computation->error != NULL)
    {
      if (error != NULL)
        *error = g_error_copy (computation->error);
      return FALSE;
    }
  if (value == NULL && memo->ops.value_for_thread == NULL)
    return TRUE;
  if (is_to_end (memo, computation))
    {
      g_set_error_literal (error, TARN_ERROR, TARN_ERROR_FAILED,
                           "the memo released the value, because the entry was forgotten while the "
                           "value was computed, or ref_first_arg returned NULL");
      return FALSE;
    }
  if (!_tarn_memo_ref_value (memo, computation->value, &found))
    return _tarn_memo_set_unreferenced (error);
  if (memo->ops.value_for_thread != NULL && found != NULL)
    return _tarn_memo_give_own_value (memo, probe, found, value, error);
  if (value != NULL)
    *value = found;
  return TRUE;
}

/* Begins a computation if nobody else has computed the entry or is computing it.  If the memo has
 * the entry, returns NULL.  If another call is computing the entry, returns that call's
 * computation, with a new reference.  Otherwise adds the caller's computation @own to the memo's
 * table, and returns @own. */
static TarnComputation *
begin (TarnMemo *memo, TarnComputation *own)
{
  TarnComputation *computation = NULL;

  _tarn_mutex_lock (&memo->lock);
  if (!g_hash_table_contains (memo->entries, own))
    {
      computation = g_hash_table_lookup (memo->computations, own);
      if (computation != NULL)
        {
          g_atomic_int_inc (&computation->ref_count);
          memo->stats.waits++;
        }
      else
        {
          g_hash_table_add (memo->computations, own);
          memo->stats.misses++;
          computation = own;
        }
    }
  _tarn_memo_check_if_full_debug (memo);
  _tarn_mutex_unlock (&memo->lock);
  return computation;
}

/* Gets a value: computes it, or waits for the call that is computing it. */
static gboolean
compute_or_wait (TarnMemo *memo, const TarnMemoProbe *probe, gpointer *value, GError **error)
{
  TarnComputation *own = computation_new (memo, probe);
  TarnComputation *computation = begin (memo, own);
  gboolean is_there = TRUE;

  if (computation == own)
    compute_entry (memo, own);
  else
    computation_unref (own);
  /* If @computation is NULL, another thread has added the entry meanwhile.  Look it up again.  If
   * the program has forgotten the entry by then, tarn_memo_get () computes it. */
  if (computation == NULL)
    return tarn_memo_get (memo, probe->first_arg, probe->key, value, error);
  if (computation != own)
    is_there = await (computation, error);
  is_there = is_there && take_result (memo, probe, computation, value, error);
  computation_unref (computation);
  return is_there;
}

/* Counts a call that fails because its own thread is computing the entry that the call asks for.
 * The statistics count it as a wait. */
static void
count_refusal (TarnMemo *memo)
{
  _tarn_mutex_lock (&memo->lock);
  memo->stats.waits++;
  _tarn_mutex_unlock (&memo->lock);
}

/* Gets a value for which the memo has no entry: computes it, or waits for the call that is
 * computing it. */
gboolean
_tarn_memo_get_slowly (TarnMemo *memo, const TarnMemoProbe *probe, gpointer *value, GError **error)
{
  gboolean is_there, has_begun;

  if (is_computing (memo, probe))
    {
      count_refusal (memo);
      return refuse_recursion (error);
    }
  has_begun = _tarn_try_ref (&memo->ref_count);
  _tarn_memo_forget_dead (memo, probe);
  is_there = compute_or_wait (memo, probe, value, error);
  _tarn_memo_end_call (memo, has_begun);
  return is_there;
}
