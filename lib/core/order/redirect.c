/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Redirects requests to another pool, which a function chooses by the queue.  A block is then the
 * other pool's in every respect; this one only finds it by its memory, if both have
 * TARN_POOL_FINDABLE.
 *
 * A hit must not bypass the function, and must cost no check if there is none.  So the door tells:
 * while there is a function, it opens to fenced visits only, which requests begin only after they
 * have asked the function. */

#include "base/fork-private.h"
#include "order/order-private.h"
#include "pool/cache-private.h"

struct _TarnRedirect
{
  TarnPoolRedirectFunc func;
  gpointer user_data;
  GDestroyNotify destroy; /* nullable */
  guint n_refs;           /* behind the pool's lock: the pool's, and one of each call */
};

/* Takes the reference for a call.  Returns NULL if there is no function any more. */
static TarnRedirect *
begin_call (TarnPool *pool)
{
  TarnRedirect *redirect;

  _tarn_mutex_lock (&pool->lock);
  redirect = pool->redirect;
  if (redirect != NULL)
    redirect->n_refs++;
  _tarn_mutex_unlock (&pool->lock);
  return redirect;
}

/* Drops a reference; with the last one the function's user_data is destroyed. */
static void
drop (TarnPool *pool, TarnRedirect *redirect)
{
  gboolean is_last;

  if (redirect == NULL)
    return;
  _tarn_mutex_lock (&pool->lock);
  g_assert (redirect->n_refs > 0);
  is_last = --redirect->n_refs == 0;
  _tarn_mutex_unlock (&pool->lock);
  if (!is_last)
    return;
  if (redirect->destroy != NULL)
    redirect->destroy (redirect->user_data);
  g_free (redirect);
}

/* Asks the function which pool serves a request.  Returns NULL if this pool does, or with an error
 * if none does. */
static TarnPool *
ask (TarnPool *pool, gpointer handle, GError **error)
{
  TarnRedirect *redirect = begin_call (pool);
  GError *local = NULL;
  TarnPool *other;

  if (redirect == NULL)
    return NULL;
  other = redirect->func (pool, handle, redirect->user_data, &local);
  drop (pool, redirect);
  g_assert (other == NULL || local == NULL);
  if (local != NULL)
    g_propagate_error (error, local);
  if (other != pool)
    return other;
  tarn_pool_unref (other);
  return NULL;
}

/* Adds a block of another pool to the index of the pool that was asked.  Its own pool removes it
 * from that index when it is freed. */
static void
add_to_index (TarnPool *pool, TarnBlock *block)
{
  TarnPool *other = _tarn_pool_of (block->source);

  if (!pool->policy.is_findable || !other->policy.is_findable || other == pool)
    return;
  if (g_atomic_pointer_get (&other->finder) == NULL)
    {
      tarn_pool_ref (pool);
      if (!g_atomic_pointer_compare_and_exchange (&other->finder, NULL, pool))
        tarn_pool_unref (pool);
    }
  if (g_atomic_pointer_get (&other->finder) == pool)
    _tarn_index_add (&pool->index, block);
}

static TarnBlock *
allocate_of (TarnPool *other, gsize size, gsize alignment, gpointer handle, GError **error)
{
  if (alignment > 0)
    return tarn_pool_allocate_aligned (other, size, alignment, handle, error);
  return tarn_pool_allocate_ordered (other, size, handle, error);
}

/* Makes another pool serve a request of a queue, if it is to; @alignment: 0 for none.  Returns
 * FALSE if the pool itself has to. */
gboolean
_tarn_pool_allocate_redirected (TarnPool *pool, gsize size, gsize alignment, gpointer handle,
                                TarnBlock **block, GError **error)
{
  g_autoptr (TarnPool) other = NULL;
  GError *local = NULL;

  if (handle == NULL || _tarn_forked ())
    return FALSE;
  _tarn_assert_not_locked (&pool->lock);
  other = ask (pool, handle, &local);
  if (other == NULL && local == NULL)
    return FALSE;
  *block = NULL;
  if (other != NULL)
    *block = allocate_of (other, size, alignment, handle, &local);
  else
    _tarn_pool_count_failure (pool);
  if (*block != NULL)
    add_to_index (pool, *block);
  if (local != NULL)
    g_propagate_error (error, local);
  return TRUE;
}

/* Drops the function of a pool whose last reference is gone. */
void
_tarn_pool_end_redirect (TarnPool *pool)
{
  TarnRedirect *redirect;

  _tarn_mutex_lock (&pool->lock);
  redirect = pool->redirect;
  __atomic_store_n (&pool->redirect, NULL, __ATOMIC_RELAXED);
  _tarn_mutex_unlock (&pool->lock);
  drop (pool, redirect);
}

void
tarn_pool_set_redirect_func (TarnPool *pool, TarnPoolRedirectFunc func, gpointer user_data,
                             GDestroyNotify destroy)
{
  TarnRedirect *redirect = NULL, *before;
  gboolean was_open;

  g_return_if_fail (pool != NULL);

  if (_tarn_forked ())
    return;
  if (func != NULL)
    {
      redirect = g_new (TarnRedirect, 1);
      *redirect = (TarnRedirect){ func, user_data, destroy, 1 };
    }
  _tarn_mutex_lock (&pool->lock);
  before = pool->redirect;
  was_open = _tarn_pool_close (pool);
  __atomic_store_n (&pool->redirect, redirect, __ATOMIC_RELAXED);
  _tarn_pool_open (pool, was_open);
  _tarn_mutex_unlock (&pool->lock);
  drop (pool, before);
}
