/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memos: caches of the values that a function computes.  The first argument of the function is a
 * CUDA context; NULL means the thread's current context.
 *
 * CUDA has no references to contexts, so the owner of a context may destroy it.  A later context
 * may get the same handle, so a memo finds values by the context's id.  A memo frees the values of
 * a destroyed context when it computes a value for a later context with the same handle, or when
 * the memo is cleared.  It makes a value's context current before it calls the functions that
 * compute or free the value. */

#include "common/memo-ops-private.h"
#include "context-private.h"

#define KIND "cuda-context"

/* The functions that the creator of a memo passed, and their user data.  This file makes the
 * value's context current before it calls func, ops.unref_value or ops.value_for_thread. */
typedef struct
{
  TarnMemoOps ops;
  TarnMemoFunc func;
  gpointer user_data;
  GDestroyNotify destroy;
} ContextMemo;

static void
context_memo_free (gpointer data)
{
  ContextMemo *self = data;

  if (self->destroy != NULL)
    self->destroy (self->user_data);
  g_free (self);
}

/* Makes a context current until the caller calls _tarn_cuda_context_leave ().  If the context
 * cannot be made current, returns FALSE with an error.  Then the caller must not call
 * _tarn_cuda_context_leave (). */
static gboolean
enter_context (gpointer handle, TarnCudaContext *context, TarnCudaScope *scope, GError **error)
{
  *context = (TarnCudaContext){ .driver = _tarn_cuda_get_driver (error), .handle = handle };
  return context->driver != NULL && _tarn_cuda_context_identify (context, error)
         && _tarn_cuda_context_enter (context, scope, error);
}

static gpointer
get_current (gpointer unused, GError **error)
{
  const TarnCudaDriver *driver = _tarn_cuda_get_driver (error);
  CUcontext handle = NULL;

  (void) unused;
  if (driver == NULL || !_tarn_cuda_find_current (driver, &handle, error))
    return NULL;
  return handle;
}

/* Returns TRUE if an error means that the context was destroyed, or the driver is gone at exit. */
static gboolean
is_gone (const GError *error)
{
  return g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST)
         || g_error_matches (error, TARN_CUDA_ERROR, TARN_CUDA_ERROR_INVALID_CONTEXT)
         || g_error_matches (error, TARN_CUDA_ERROR, TARN_CUDA_ERROR_DEINITIALIZED);
}

/* Returns the id of a context, or 0 if the context is destroyed.  If the driver has no function for
 * ids, returns 1, so that all contexts count as alive. */
static guint64
get_id (gpointer unused, gpointer handle)
{
  const TarnCudaDriver *driver = _tarn_cuda_get_driver (NULL);
  g_autoptr (GError) error = NULL;
  unsigned long long id = 0;

  (void) unused;
  if (driver == NULL)
    return 0;
  if (driver->cuCtxGetId == NULL)
    return 1;
  if (_tarn_cuda_check (driver, "cuCtxGetId", driver->cuCtxGetId (handle, &id), &error))
    return id;
  if (!is_gone (error))
    g_message ("%s: the context is taken for dead", error->message);
  return 0;
}

static gpointer
compute_in_context (gpointer handle, gconstpointer key, gpointer data, GError **error)
{
  const ContextMemo *self = data;
  TarnCudaContext context;
  TarnCudaScope scope;
  gpointer value;

  if (!enter_context (handle, &context, &scope, error))
    return NULL;
  value = self->func (handle, key, self->user_data, error);
  _tarn_cuda_context_leave (&context, &scope);
  return value;
}

static gpointer
ref_value (gpointer data, gpointer value)
{
  const ContextMemo *self = data;

  return self->ops.ref_value (self->user_data, value);
}

static void
unref_value (gpointer data, gpointer value, gpointer handle, gboolean is_dead)
{
  const ContextMemo *self = data;
  TarnCudaContext context;
  g_autoptr (GError) error = NULL;
  TarnCudaScope scope;
  gboolean is_inside = !is_dead && enter_context (handle, &context, &scope, &error);

  if (error != NULL && !is_gone (error))
    g_message ("%s: a value of its context may be lost", error->message);
  self->ops.unref_value (self->user_data, value, handle, !is_inside);
  if (is_inside)
    _tarn_cuda_context_leave (&context, &scope);
}

static gpointer
make_value_for_thread (gpointer data, gpointer value, gpointer handle, gconstpointer key,
                       GError **error)
{
  const ContextMemo *self = data;
  TarnCudaContext context;
  TarnCudaScope scope;
  gpointer own;

  if (!enter_context (handle, &context, &scope, error))
    return NULL;
  own = self->ops.value_for_thread (self->user_data, value, handle, key, error);
  _tarn_cuda_context_leave (&context, &scope);
  return own;
}

TarnMemo *
tarn_cuda_context_memo_new (const TarnMemoOps *ops, TarnMemoFunc func, gpointer user_data,
                            GDestroyNotify destroy)
{
  TarnMemoOps theirs, ours;
  gboolean has_only_keys_and_values = _tarn_memo_ops_read (&theirs, ops);
  ContextMemo *self;

  g_return_val_if_fail (has_only_keys_and_values, NULL);
  g_return_val_if_fail (func != NULL, NULL);
  g_return_val_if_fail (theirs.value_for_thread == NULL
                            || (theirs.ref_value != NULL && theirs.unref_value != NULL),
                        NULL);

  self = g_new0 (ContextMemo, 1);
  self->ops = theirs;
  self->func = func;
  self->user_data = user_data;
  self->destroy = destroy;

  ours = theirs;
  ours.first_arg_kind = KIND;
  ours.first_arg_id = get_id;
  ours.current_first_arg = get_current;
  ours.ref_value = theirs.ref_value != NULL ? ref_value : NULL;
  ours.unref_value = theirs.unref_value != NULL ? unref_value : NULL;
  ours.value_for_thread = theirs.value_for_thread != NULL ? make_value_for_thread : NULL;
  return tarn_memo_new (&ours, compute_in_context, self, context_memo_free);
}

void
tarn_cuda_clear_context_caches (void)
{
  tarn_memo_clear_kind (KIND);
}
