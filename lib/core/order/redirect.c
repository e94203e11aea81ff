/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Redirects requests to other pools.  A function of the program, the redirect function, gets the
 * queue of each request and chooses the pool that serves the request.  The block then belongs to
 * the chosen pool.  The program can still find the block by its memory in the pool from which it
 * requested the block.  This works if both pools have TARN_POOL_FINDABLE, and if no third pool
 * redirected requests to the chosen pool first.
 *
 * The redirect function must see each request before a thread's cache serves the request.  But a
 * pool without a redirect function must not spend time on a check.  So the check is a part of a
 * lock that each request takes anyway: the pool's door, a readers-writer lock.  While there is a
 * redirect function, the door admits threads only to read sections with a fence.  The fast path
 * uses read sections without a fence, so it cannot serve requests.  A slower path calls the
 * redirect function, and then begins a read section with a fence. */

#include "base/fork-private.h"
#include "order/order-private.h"
#include "pool/cache-private.h"

struct _TarnRedirect
{
  TarnPoolRedirectFunc func;
  gpointer user_data;
  GDestroyNotify destroy; /* destroys user_data; nullable */
  /* Guarded by the pool's lock: the number of references to this struct.  The pool has one, and
   * each running call of @func has one. */
  guint n_refs;
};

/* The record of the calling thread's next request.  It stores the pool that redirect functions have
 * chosen for the request.  NULL if the thread needs no record. */
static _Thread_local TarnServer *followed;

/* Sets the record of the calling thread's next request, a request to the pool @server->asked.  If
 * redirect functions choose another pool for this request, Tarn stores that pool in @server->other.
 * @server is the new record; if it is NULL, the thread has no record from now on.  Returns the
 * former record, which the caller restores after its request: functions of the program, such as a
 * redirect function, may make requests within a request. */
TarnServer *
_tarn_server_follow (TarnServer *server)
{
  TarnServer *before = followed;

  followed = server;
  return before;
}

/* Stores in the thread's record that @pool redirects the request to @other.  (@other may then
 * redirect the request to a third pool.)  @other is NULL if @pool itself serves the request.  Then
 * the record is complete, and the thread has no record any more, so that further requests that this
 * request causes do not change the record.  Does nothing if the thread has no record, or if the
 * record is not about a request to @pool. */
static void
note_server (const TarnPool *pool, TarnPool *other)
{
  TarnServer *server = followed;

  if (server == NULL || pool != _tarn_server_get (server))
    return;
  if (other == NULL)
    {
      followed = NULL;
      return;
    }
  tarn_pool_unref (server->other);
  server->other = tarn_pool_ref (other);
}

/* Returns a pool's redirect function, with a reference.  The caller calls the function and then
 * drops the reference.  Returns NULL if the pool has no redirect function any more, because the
 * program may remove it at any time. */
static TarnRedirect *
begin_call (TarnPool *pool)
{
  TarnRedirect *redirect;
  TARN_LOCKED (&pool->lock);

  redirect = pool->redirect;
  if (redirect != NULL)
    redirect->n_refs++;
  return redirect;
}

/* Drops a reference to a redirect function.  If this was the last reference, destroys the
 * function's user_data. */
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

/* Calls the redirect function to find out which pool serves a request.  If the function chooses
 * another pool than @pool, returns the other pool, with a reference.  If @pool itself serves the
 * request, returns NULL without an error.  If the function refuses the request, returns NULL with
 * an error. */
static TarnPool *
ask (TarnPool *pool, gpointer handle, GError **error)
{
  TarnRedirect *redirect = begin_call (pool);
  TarnServer *before;
  GError *local = NULL;
  TarnPool *other;

  if (redirect == NULL)
    return NULL;
  /* The redirect function may make requests of its own, which must not change this request's
   * record. */
  before = _tarn_server_follow (NULL);
  other = redirect->func (pool, handle, redirect->user_data, &local);
  _tarn_server_follow (before);
  drop (pool, redirect);
  g_assert (other == NULL || local == NULL);
  if (local != NULL)
    g_propagate_error (error, local);
  if (other != pool)
    return other;
  tarn_pool_unref (other);
  return NULL;
}

/* Adds a block of another pool to the index of @pool, the pool from which the program requested the
 * block, so that tarn_pool_find () finds the block there.  The other pool adds its blocks to the
 * index of one pool only: the first pool whose requests were redirected to it (TarnPool.finder).
 * Does nothing if that pool is not @pool.  When the block is freed, the other pool removes it from
 * this index. */
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

/* Makes another pool serve a request of a queue, if the redirect function chooses another pool.
 * @alignment is in bytes, or 0 if the request asks for no alignment.  Returns TRUE if the request
 * is done, and sets *block, or sets *error if the request failed.  Returns FALSE if @pool itself
 * has to serve the request. */
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
  note_server (pool, other);
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

/* Removes the redirect function of a pool whose last reference was dropped. */
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
