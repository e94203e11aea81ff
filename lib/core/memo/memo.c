/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memos, which cache the results of functions.  This file makes and frees memos, finds entries
 * (hits), and counts hits.  Usually a hit takes no lock, and writes only to the thread's own
 * counter and to the reference count of the value. */

#include "common/argument-private.h"
#include "memo/memo-private.h"

#include <stdlib.h>
#include <string.h>
#include <tarn/allocator.h>

#include "base/fork-private.h"
#include "common/struct-private.h"
#include "memo/tuple-private.h"

/* Functions for lookups, and for changes of the table of entries */

static guint
hash_probe (gconstpointer probe)
{
  return ((const TarnMemoProbe *) probe)->hash;
}

/* Returns TRUE if two probes (lookups) have equal first arguments, ids and keys. */
gboolean
_tarn_memo_probes_equal (gconstpointer a, gconstpointer b)
{
  const TarnMemoProbe *left = a, *right = b;

  return left->hash == right->hash && left->first_arg == right->first_arg && left->id == right->id
         && left->equal (left->key, right->key);
}

/* Begins a change of a memo: takes the memo's lock, and waits until no thread is in a read section.
 * No thread can enter a read section again before _tarn_memo_open ().  (In a memo with max_entries,
 * no thread ever enters one.) */
void
_tarn_memo_close (TarnMemo *memo)
{
  _tarn_mutex_lock (&memo->lock);
  if (memo->ops.max_entries == 0)
    _tarn_door_close (&memo->door);
}

/* Ends a change of a memo: allows read sections again, and releases the memo's lock. */
void
_tarn_memo_open (TarnMemo *memo)
{
  _tarn_assert_locked (&memo->lock);
  _tarn_memo_check_if_full_debug (memo);
  if (memo->ops.max_entries == 0)
    _tarn_door_open (&memo->door);
  _tarn_mutex_unlock (&memo->lock);
}

/* Makes a probe, the first argument and the key of a lookup.  If @first_arg is NULL, and the memo
 * has a function current_first_arg, calls that function to get the first argument.  Returns FALSE
 * with an error if that function returns NULL, or if the first argument was destroyed. */
static gboolean
make_probe (TarnMemo *memo, TarnMemoProbe *probe, gpointer first_arg, gconstpointer key,
            GError **error)
{
  const TarnMemoOps *ops = &memo->ops;
  guint64 mixed;

  *probe = (TarnMemoProbe){ .first_arg = first_arg, .key = key, .equal = ops->equal };
  if (first_arg == NULL && ops->current_first_arg != NULL
      && (probe->first_arg = ops->current_first_arg (memo->user_data, error)) == NULL)
    return FALSE;
  if (ops->first_arg_id != NULL
      && (probe->id = ops->first_arg_id (memo->user_data, probe->first_arg)) == 0)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST, "%s %p was destroyed",
                   ops->first_arg_kind != NULL ? ops->first_arg_kind : "first argument",
                   probe->first_arg);
      return FALSE;
    }
  mixed = ((guintptr) probe->first_arg ^ (probe->id << 48) ^ ops->hash (key))
          * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);
  probe->hash = (guint) (mixed >> 32);
  return TRUE;
}

/* Functions that find entries, and take references to their values */

/* Takes a reference to a value with the memo's function ref_value, and stores the reference in
 * *ref.  If the memo has no ref_value, stores the value.  Returns FALSE if ref_value returned
 * NULL. */
gboolean
_tarn_memo_ref_value (TarnMemo *memo, gpointer value, gpointer *ref)
{
  *ref = value;
  if (value != NULL && memo->ops.ref_value != NULL)
    *ref = memo->ops.ref_value (memo->user_data, value);
  return value == NULL || *ref != NULL;
}

/* Sets the error that says that ref_value returned NULL instead of a reference.  Returns FALSE. */
gboolean
_tarn_memo_set_unreferenced (GError **error)
{
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_FAILED,
                       "the memo could not take a reference to the value for the caller, because "
                       "ref_value returned NULL: call tarn_memo_forget () to compute it again");
  return FALSE;
}

/* Returns TRUE if the first argument with the id @id was destroyed. */
gboolean
_tarn_memo_is_dead (TarnMemo *memo, gpointer first_arg, guint64 id)
{
  return memo->ops.first_arg_id != NULL
         && memo->ops.first_arg_id (memo->user_data, first_arg) != id;
}

/* Releases a value, or a reference to it, with the program's function unref_value. */
void
_tarn_memo_unref_value (TarnMemo *memo, gpointer value, const TarnMemoProbe *probe)
{
  if (value != NULL && memo->ops.unref_value != NULL)
    memo->ops.unref_value (memo->user_data, value, probe->first_arg,
                           _tarn_memo_is_dead (memo, probe->first_arg, probe->id));
}

/* If the memo has max_entries, makes an entry the most recently used one of its group.  The caller
 * holds the memo's lock. */
static void
touch (const TarnMemo *memo, TarnMemoEntry *entry)
{
  GQueue *entries = &entry->group->entries;

  if (memo->ops.max_entries == 0 || entries->head == &entry->link)
    return;
  g_queue_unlink (entries, &entry->link);
  g_queue_push_head_link (entries, &entry->link);
}

/* Finds an entry, and stores a reference to the entry's value in *value for the caller.  In a memo
 * whose values are different for each thread, takes the value of @thread.  Takes the value that
 * threads share if @thread has no value of its own yet, or if @thread is NULL because the calling
 * thread is ending.  The caller is in a read section, or holds the memo's lock. */
static TarnMemoLookup
find_entry (TarnMemo *memo, const TarnThread *thread, const TarnMemoProbe *probe, gpointer *value)
{
  TarnMemoEntry *entry = g_hash_table_lookup (memo->entries, probe);
  TarnMemoLookup result = TARN_MEMO_HIT;
  gpointer found;

  if (entry == NULL)
    return TARN_MEMO_ABSENT;
  touch (memo, entry);
  found = entry->value;
  if (memo->ops.value_for_thread != NULL && found != NULL)
    {
      if (thread != NULL && thread->number < entry->n_own && entry->own[thread->number] != NULL)
        found = entry->own[thread->number];
      else
        result = TARN_MEMO_NONE_OF_OWN;
    }
  return _tarn_memo_ref_value (memo, found, value) ? result : TARN_MEMO_UNREFERENCED;
}

/* Finds an entry without the memo's lock.  If the memo has the entry, counts a hit.  The calling
 * thread is in a read section. */
static TarnMemoLookup
find_inside (TarnMemo *memo, const TarnThread *thread, const TarnMemoProbe *probe, gpointer *value)
{
  TarnMemoLocal *local = thread->number < memo->n_locals ? memo->locals[thread->number] : NULL;
  TarnMemoLookup result;

  if (local == NULL)
    return TARN_MEMO_NEWCOMER;
  result = find_entry (memo, thread, probe, value);
  if (result != TARN_MEMO_ABSENT)
    __atomic_store_n (&local->hits, local->hits + 1, __ATOMIC_RELAXED);
  return result;
}

/* Takes the memo's lock and finds an entry.  If the memo has the entry, counts a hit. */
static TarnMemoLookup
find_locked (TarnMemo *memo, const TarnThread *thread, const TarnMemoProbe *probe, gpointer *value)
{
  TarnMemoLookup result;

  _tarn_assert_not_locked (&memo->lock);
  _tarn_mutex_lock (&memo->lock);
  result = find_entry (memo, thread, probe, value);
  if (result != TARN_MEMO_ABSENT)
    memo->stats.hits++;
  _tarn_mutex_unlock (&memo->lock);
  return result;
}

/* Makes a thread's counter of hits in a memo.  Without this counter, the thread cannot find entries
 * in read sections. */
static void
admit (TarnMemo *memo, const TarnThread *thread)
{
  TarnMemoLocal *local = _tarn_aligned_new0 (TarnMemoLocal);

  g_assert (memo->ops.max_entries == 0);
  _tarn_memo_close (memo);
  if (thread->number >= memo->n_locals)
    {
      memo->locals = g_renew (TarnMemoLocal *, memo->locals, thread->number + 1);
      while (memo->n_locals <= thread->number)
        memo->locals[memo->n_locals++] = NULL;
    }
  memo->locals[thread->number] = local;
  _tarn_memo_open (memo);
}

/* Finds an entry: in a read section if the memo allows it, otherwise with the memo's lock. */
static TarnMemoLookup
look_up (TarnMemo *memo, const TarnMemoProbe *probe, gpointer *value)
{
  TarnThread *thread = _tarn_thread_self ();
  TarnMemoLookup result;

  while (thread != NULL && _tarn_thread_enter (thread, &memo->door, FALSE))
    {
      result = find_inside (memo, thread, probe, value);
      _tarn_thread_leave (thread);
      if (result != TARN_MEMO_NEWCOMER)
        return result;
      admit (memo, thread);
    }
  return find_locked (memo, thread, probe, value);
}

/* Returns TRUE if a key is valid.  A hit needs no check, because no entry has an invalid key. */
static gboolean
is_fit (const TarnMemo *memo, gconstpointer key)
{
  return memo->ops.key_type != TARN_MEMO_KEY_TUPLE || _tarn_tuple_is_valid (key);
}

gboolean
tarn_memo_get (TarnMemo *memo, gpointer first_arg, gconstpointer key, gpointer *value,
               GError **error)
{
  gboolean has_begun, is_there;
  gpointer found = NULL;
  TarnMemoProbe probe;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (memo, FALSE);
  g_return_val_if_fail (key != NULL || memo->ops.key_type == TARN_MEMO_KEY_CUSTOM, FALSE);

  if (_tarn_forked () && !tarn_check_fork (error))
    return FALSE;
  if (!make_probe (memo, &probe, first_arg, key, error))
    return FALSE;
  switch (look_up (memo, &probe, &found))
    {
    case TARN_MEMO_HIT:
      if (value != NULL)
        *value = found;
      else if (memo->ops.ref_value != NULL)
        _tarn_memo_unref_value (memo, found, &probe);
      return TRUE;
    case TARN_MEMO_UNREFERENCED:
      return _tarn_memo_set_unreferenced (error);
    case TARN_MEMO_NONE_OF_OWN:
      has_begun = _tarn_try_ref (&memo->ref_count);
      is_there = _tarn_memo_give_own_value (memo, &probe, found, value, error);
      _tarn_memo_end_call (memo, has_begun);
      return is_there;
    case TARN_MEMO_ABSENT:
    case TARN_MEMO_NEWCOMER:
    default:
      return is_fit (memo, key) && _tarn_memo_get_slowly (memo, &probe, value, error);
    }
}

/* Functions that make and free memos */

/* Sets the functions in @ops that hash, compare, copy and free keys if the type of the keys is
 * predefined.  If @ops then lacks a function that hashes keys, sets one that hashes the pointer to
 * a key.  If @ops lacks a function that compares keys, sets one that compares pointers to keys. */
static void
choose_key_functions (TarnMemoOps *ops)
{
  static const struct
  {
    GHashFunc hash;
    GEqualFunc equal;
    gpointer (*copy) (gconstpointer);
    void (*free) (gpointer);
  } types[] = {
    [TARN_MEMO_KEY_CUSTOM] = { NULL, NULL, NULL, NULL },
    [TARN_MEMO_KEY_STRING] = { _tarn_hash_string, g_str_equal, _tarn_copy_string, g_free },
    [TARN_MEMO_KEY_INT64] = { g_int64_hash, g_int64_equal, _tarn_copy_int64, g_free },
    [TARN_MEMO_KEY_BYTES]
    = { _tarn_hash_bytes, _tarn_bytes_equal, _tarn_copy_bytes, _tarn_free_bytes },
    [TARN_MEMO_KEY_TUPLE] = { tarn_memo_key_tuple_hash, tarn_memo_key_tuple_equal,
                              tarn_memo_key_tuple_copy, tarn_memo_key_tuple_free },
    [TARN_MEMO_KEY_STRUCT] = { NULL, NULL, NULL, NULL },
  };

  if (types[ops->key_type].hash != NULL)
    {
      ops->hash = types[ops->key_type].hash;
      ops->equal = types[ops->key_type].equal;
      ops->copy_key = types[ops->key_type].copy;
      ops->free_key = types[ops->key_type].free;
    }
  if (ops->hash == NULL)
    ops->hash = g_direct_hash;
  if (ops->equal == NULL)
    ops->equal = g_direct_equal;
}

/* Makes a memo from options that the caller has checked. */
static TarnMemo *
new_with_ops (const TarnMemoOps *ops, TarnMemoFunc func, gpointer user_data, GDestroyNotify destroy)
{
  TarnMemo *memo = g_new0 (TarnMemo, 1);

  memo->ops = *ops;
  memo->ops.first_arg_kind = g_strdup (ops->first_arg_kind);
  choose_key_functions (&memo->ops);
  if (ops->upstream != NULL)
    tarn_memo_ref (ops->upstream);
  memo->func = func;
  memo->user_data = user_data;
  memo->destroy = destroy;
  if (ops->max_entries == 0)
    _tarn_door_open (&memo->door);
  else
    memo->door = TARN_DOOR_CLOSED;
  memo->entries = g_hash_table_new (hash_probe, _tarn_memo_probes_equal);
  memo->computations = g_hash_table_new (hash_probe, _tarn_memo_probes_equal);
  memo->groups = g_hash_table_new (g_direct_hash, g_direct_equal);
  memo->ref_count = 1;
  _tarn_mutex_init (&memo->lock);
  return memo;
}

TarnMemo *
tarn_memo_new (const TarnMemoOps *ops, TarnMemoFunc func, gpointer user_data,
               GDestroyNotify destroy)
{
  TarnMemoOps known = TARN_MEMO_OPS_INIT;
  gboolean is_read = ops == NULL || _tarn_struct_read (&known, sizeof known, ops);
  TarnMemo *memo;

  g_return_val_if_fail (is_read, NULL);
  g_return_val_if_fail (known.key_type <= TARN_MEMO_KEY_STRUCT, NULL);
  g_return_val_if_fail (known.value_for_thread == NULL
                            || (known.ref_value != NULL && known.unref_value != NULL),
                        NULL);
  g_return_val_if_fail (func != NULL, NULL);

  _tarn_watch_fork ();
  memo = new_with_ops (&known, func, user_data, destroy);
  if (!_tarn_forked ())
    _tarn_memo_register (memo);
  return memo;
}

TarnMemo *
tarn_memo_ref (TarnMemo *memo)
{
  g_return_val_if_fail (memo != NULL, NULL);

  g_atomic_int_inc (&memo->ref_count);
  return memo;
}

/* If @has_begun is TRUE, releases the reference that _tarn_try_ref () took when the call began. */
void
_tarn_memo_end_call (TarnMemo *memo, gboolean has_begun)
{
  if (has_begun)
    tarn_memo_unref (memo);
}

/* Frees a memo and its entries after the last reference was released. */
static void
memo_free (TarnMemo *memo)
{
  g_assert (g_atomic_int_get (&memo->ref_count) == 0);
  _tarn_memo_unregister (memo);
  /* One pass may not be enough: a function that releases a value may call the memo, which then
   * computes and keeps another value. */
  while (g_hash_table_size (memo->groups) > 0)
    _tarn_memo_forget_all (memo);
  g_hash_table_unref (memo->entries);
  g_hash_table_unref (memo->computations);
  g_hash_table_unref (memo->groups);
  for (guint i = 0; i < memo->n_locals; i++)
    free (memo->locals[i]);
  g_free (memo->locals);
  _tarn_mutex_clear (&memo->lock);
  tarn_memo_unref (memo->ops.upstream);
  if (memo->destroy != NULL)
    memo->destroy (memo->user_data);
  g_free ((gchar *) memo->ops.first_arg_kind);
  g_free (memo);
}

void
tarn_memo_unref (TarnMemo *memo)
{
  if (memo == NULL || _tarn_forked ())
    return;
  if (g_atomic_int_dec_and_test (&memo->ref_count))
    memo_free (memo);
}

/* Reads a memo's counters.  The hits are the sum over all threads. */
static void
read_stats (TarnMemo *memo, TarnMemoStats *stats)
{
  _tarn_assert_not_locked (&memo->lock);
  _tarn_mutex_lock (&memo->lock);
  *stats = memo->stats;
  stats->entries = g_hash_table_size (memo->entries);
  for (guint i = 0; i < memo->n_locals; i++)
    if (memo->locals[i] != NULL)
      stats->hits += __atomic_load_n (&memo->locals[i]->hits, __ATOMIC_RELAXED);
  _tarn_mutex_unlock (&memo->lock);
}

void
tarn_memo_get_stats (TarnMemo *memo, TarnMemoStats *stats)
{
  TarnMemoStats known = TARN_MEMO_STATS_INIT;

  g_return_if_fail (memo != NULL);
  g_return_if_fail (_tarn_struct_has_size (stats));

  if (!_tarn_forked ())
    read_stats (memo, &known);
  _tarn_struct_write (stats, &known, sizeof known);
}
