/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Values that are different for each thread.  An entry of a memo has an array of these values,
 * indexed by the number of the thread.  When a thread ends, a later thread gets its number, and
 * uses its values.  So Tarn keeps the values when a thread ends: to free them, it would have to
 * call the driver.  An entry has at most as many values as there were threads at the same time. */

#include "memo/memo-private.h"

/* Stores a reference to the calling thread's own value in a memo's entry, for later calls of this
 * thread.  Does nothing if the thread is ending, or if the program has forgotten the entry
 * meanwhile. */
static void
keep_own (TarnMemo *memo, const TarnMemoProbe *probe, gconstpointer shared, gpointer own)
{
  const TarnThread *thread = _tarn_thread_self ();
  TarnMemoEntry *entry;
  guint number;

  _tarn_assert_not_locked (&memo->lock);
  if (thread == NULL)
    return;
  number = thread->number;
  _tarn_memo_close (memo);
  entry = g_hash_table_lookup (memo->entries, probe);
  /* The caller's reference keeps the shared value alive, so no new value can get the address
   * @shared.  Therefore, if entry->value equals @shared, the entry still has the value from which
   * the caller made @own. */
  if (entry != NULL && entry->value == shared)
    {
      if (number >= entry->n_own)
        {
          entry->own = g_renew (gpointer, entry->own, number + 1);
          while (entry->n_own <= number)
            entry->own[entry->n_own++] = NULL;
        }
      if (entry->own[number] == NULL)
        _tarn_memo_ref_value (memo, own, &entry->own[number]);
    }
  _tarn_memo_open (memo);
}

/* Makes this thread's own value from the shared value, and stores it in *value for the caller.
 * Releases the caller's reference to the shared value in any case.  Returns FALSE with an error if
 * the program's function fails to make the value. */
gboolean
_tarn_memo_give_own_value (TarnMemo *memo, const TarnMemoProbe *probe, gpointer shared,
                           gpointer *value, GError **error)
{
  GError *local = NULL;
  gpointer own
      = memo->ops.value_for_thread (memo->user_data, shared, probe->first_arg, probe->key, &local);

  _tarn_memo_check_result (memo, probe, &own, local);
  if (own == NULL && local == NULL)
    g_set_error_literal (&local, TARN_ERROR, TARN_ERROR_FAILED, "there is no value for a thread");
  if (own != NULL)
    keep_own (memo, probe, shared, own);
  _tarn_memo_unref_value (memo, shared, probe);
  if (local != NULL)
    {
      g_propagate_error (error, local);
      return FALSE;
    }
  if (value != NULL)
    *value = own;
  else
    _tarn_memo_unref_value (memo, own, probe);
  return TRUE;
}
