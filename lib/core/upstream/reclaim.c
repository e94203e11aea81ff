/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reclaim functions: functions of the program that free some memory.  The program adds them to a
 * pool, and the pool calls them when it has run out of memory.
 *
 * To call the functions without holding a lock, the pool makes a copy of its list of functions.  So
 * a reclaim function may add and remove reclaim functions, and may free blocks of the same pool.
 * Several threads may call a function at the same time. */

#include "base/fork-private.h"
#include "record/record-private.h"
#include "upstream/upstream-private.h"

typedef struct
{
  guint id;
  TarnReclaimFunc func;
  gpointer user_data;
  GDestroyNotify destroy;
  /* Atomic: TRUE if the program has removed the reclaim function.  Then no thread calls the
   * function any more, even if it is in a thread's copy of the pool's list of reclaim functions. */
  gint removed;
  /* Atomic: the number of references.  The pool's list of reclaim functions has one, and each copy
   * of this list has one. */
  gint ref_count;
} ReclaimFunc;

static gpointer
reclaim_func_ref (gconstpointer item, gpointer unused)
{
  ReclaimFunc *func = (ReclaimFunc *) item;

  (void) unused;
  g_atomic_int_inc (&func->ref_count);
  return func;
}

/* Drops a reference to a reclaim function.  If it was the last reference, destroys the function's
 * user_data and frees the struct. */
static void
reclaim_func_unref (gpointer item)
{
  ReclaimFunc *func = item;

  g_assert (g_atomic_int_get (&func->ref_count) > 0);
  if (!g_atomic_int_dec_and_test (&func->ref_count))
    return;
  if (func->destroy != NULL)
    func->destroy (func->user_data);
  g_free (func);
}

GPtrArray *
_tarn_reclaim_funcs_new (void)
{
  return g_ptr_array_new_with_free_func (reclaim_func_unref);
}

guint
tarn_pool_add_reclaim_func (TarnPool *pool, TarnReclaimFunc func, gpointer user_data,
                            GDestroyNotify destroy)
{
  ReclaimFunc *item;
  guint id;

  g_return_val_if_fail (pool != NULL, 0);
  g_return_val_if_fail (func != NULL, 0);

  if (_tarn_forked ())
    return 0;
  item = g_new0 (ReclaimFunc, 1);
  item->func = func;
  item->user_data = user_data;
  item->destroy = destroy;
  item->ref_count = 1;

  _tarn_mutex_lock (&pool->lock);
  id = item->id = ++pool->reclaim.last_id;
  g_ptr_array_add (pool->reclaim.funcs, item);
  _tarn_mutex_unlock (&pool->lock);
  return id;
}

/* Removes the reclaim function with the number @id from a list, and returns it.  Returns NULL if
 * the list has no such function. */
static ReclaimFunc *
steal_by_id (GPtrArray *funcs, guint id)
{
  for (guint i = 0; i < funcs->len; i++)
    {
      ReclaimFunc *item = g_ptr_array_index (funcs, i);

      if (item->id == id)
        return g_ptr_array_steal_index (funcs, i);
    }
  return NULL;
}

gboolean
tarn_pool_remove_reclaim_func (TarnPool *pool, guint id)
{
  ReclaimFunc *item;

  g_return_val_if_fail (pool != NULL, FALSE);

  if (_tarn_forked ())
    return FALSE;
  _tarn_mutex_lock (&pool->lock);
  item = steal_by_id (pool->reclaim.funcs, id);
  _tarn_mutex_unlock (&pool->lock);
  if (item == NULL)
    return FALSE;
  g_atomic_int_set (&item->removed, TRUE);
  reclaim_func_unref (item);
  return TRUE;
}

/* Frees memory when a pool has run out of it.  First frees blocks that were set aside (aside.c), if
 * the program has no references to their memory any more.  Then asks the upstream allocator to
 * reclaim memory, if @ask_upstream is TRUE.  Then calls each reclaim function of the pool once.
 * Returns TRUE if any of these steps has freed memory.  Does nothing and returns FALSE if the
 * calling thread is already inside a reclaim function. */
gboolean
_tarn_pool_reclaim (TarnPool *pool, gsize wanted, gboolean ask_upstream)
{
  g_autoptr (GPtrArray) funcs = NULL;
  gboolean given_back;
  guint64 start;

  _tarn_assert_not_locked (&pool->lock);
  if (!_tarn_reclaim_begin ())
    return FALSE;

  start = _tarn_record_begin_call ();
  _tarn_mutex_lock (&pool->lock);
  pool->stats.reclaims++;
  funcs = g_ptr_array_copy (pool->reclaim.funcs, reclaim_func_ref, NULL);
  _tarn_mutex_unlock (&pool->lock);
  g_ptr_array_set_free_func (funcs, reclaim_func_unref);

  given_back = _tarn_pool_free_aside (pool);
  if (ask_upstream && _tarn_allocator_reclaim (pool->upstream))
    given_back = TRUE;
  for (guint i = 0; i < funcs->len; i++)
    {
      ReclaimFunc *item = g_ptr_array_index (funcs, i);

      if (!g_atomic_int_get (&item->removed) && item->func (pool, wanted, item->user_data))
        given_back = TRUE;
    }
  _tarn_reclaim_end ();
  TARN_EVENT_SINCE (start, reclaim, TARN_TRACE_RECLAIM, pool->base.id, wanted,
                    (guint64) given_back);
  return given_back;
}
