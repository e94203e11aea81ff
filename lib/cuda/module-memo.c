/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memos (caches) of modules and of functions.  A memo finds a module by the module's image (PTX, a
 * cubin or a fat binary), and a function by the image and the function's name.  Each module is
 * loaded once in each context. */

#include <string.h>

#include "common/argument-private.h"
#include "common/lock-private.h"
#include "common/struct-private.h"
#include "driver-private.h"

/* The most bytes of the driver's log that an error contains.  A failed compilation can log much
 * more, and the cause is at the beginning. */
#define LOG_SIZE (64 * 1024)

/* Copies an image, and appends a 0 byte, because PTX must be a string.  Other images, cubins and
 * fat binaries, contain their own size. */
static gpointer
copy_with_end (GBytes *image)
{
  gsize size;
  const guint8 *data = g_bytes_get_data (image, &size);
  guint8 *copy = g_malloc (size + 1);

  memcpy (copy, data != NULL ? data : (const guint8 *) "", size);
  copy[size] = '\0';
  return copy;
}

static gpointer
load_module (gpointer context, gconstpointer image, gpointer unused, GError **error)
{
  const TarnCudaDriver *driver = _tarn_cuda_get_driver (error);
  g_autofree gchar *log = g_malloc0 (LOG_SIZE);
  g_autofree gpointer data = copy_with_end ((GBytes *) image);
  unsigned int options[]
      = { TARN_CUDA_JIT_ERROR_LOG_BUFFER, TARN_CUDA_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
  void *values[] = { log, GSIZE_TO_POINTER (LOG_SIZE) };
  CUmodule module = NULL;
  unsigned int status;

  (void) context;
  (void) unused;
  if (driver == NULL)
    return NULL;
  status = driver->cuModuleLoadDataEx (&module, data, G_N_ELEMENTS (options), options, values);
  if (status == TARN_CUDA_SUCCESS)
    return module;
  log[LOG_SIZE - 1] = '\0';
  g_strstrip (log);
  if (log[0] != '\0')
    _tarn_cuda_set_error_with_text (error, driver, "cuModuleLoadDataEx", status, log);
  else
    _tarn_cuda_set_error (error, driver, "cuModuleLoadDataEx", status);
  return NULL;
}

static void
unload (const TarnCudaDriver *driver, CUmodule module)
{
  g_autoptr (GError) error = NULL;

  if (!_tarn_cuda_check (driver, "cuModuleUnload", driver->cuModuleUnload (module), &error))
    g_message ("%s: a module may be lost", error->message);
}

/* Lookups of functions
 *
 * A lookup gets a module from a memo, and then asks the driver for a function of the module.
 * Between these two steps, another thread may make the memo forget the module.  The module must
 * stay loaded until the lookup ends.  So if a memo forgets a module while threads look up functions
 * in the module's context, the last of these lookups unloads the module. */

/* A CUDA context in which one or more threads are looking up functions (kernels) of modules. */
typedef struct
{
  gpointer context;
  guint n_lookups;   /* the number of lookups in progress, at least 1 */
  GSList *forgotten; /* a list of CUmodule: the modules to unload when the last lookup ends */
} Busy;

static TarnMutex lock = TARN_MUTEX_INIT; /* guards busy_contexts, and the structs in it */
static GSList *busy_contexts;            /* a list of Busy: the contexts with lookups */

/* Finds the Busy struct of a context in which threads look up functions.  Returns NULL if no thread
 * looks up a function in the context.  The caller holds this file's lock. */
static Busy *
find_busy (gpointer context)
{
  GSList *link = busy_contexts;

  _tarn_assert_locked (&lock);
  while (link != NULL && ((const Busy *) link->data)->context != context)
    link = link->next;
  return link != NULL ? link->data : NULL;
}

static void
begin_lookup (gpointer context)
{
  Busy *busy;

  _tarn_mutex_lock (&lock);
  busy = find_busy (context);
  if (busy == NULL)
    {
      busy = g_new0 (Busy, 1);
      busy->context = context;
      busy_contexts = g_slist_prepend (busy_contexts, busy);
    }
  busy->n_lookups++;
  _tarn_mutex_unlock (&lock);
}

/* Marks a lookup of a function as ended.  If no other lookup is in progress in the context, unloads
 * the modules that memos have forgotten during the lookups.  @module: the function's module, or
 * NULL if the lookup found none.  Returns TRUE if a memo has forgotten @module during the lookup;
 * the caller then must not use the function.  The caller has made the context current. */
static gboolean
end_lookup (gpointer context, CUmodule module)
{
  const TarnCudaDriver *driver = _tarn_cuda_get_driver (NULL);
  GSList *forgotten = NULL;
  gboolean was_forgotten;
  Busy *busy;

  _tarn_mutex_lock (&lock);
  busy = find_busy (context);
  was_forgotten = g_slist_find (busy->forgotten, module) != NULL;
  if (--busy->n_lookups == 0)
    {
      forgotten = busy->forgotten;
      busy_contexts = g_slist_remove (busy_contexts, busy);
      g_free (busy);
    }
  _tarn_mutex_unlock (&lock);

  for (GSList *link = forgotten; link != NULL; link = link->next)
    unload (driver, link->data);
  g_slist_free (forgotten);
  return was_forgotten;
}

/* If threads look up functions in a module's context, postpones the unloading of the module until
 * the last of these lookups ends, and returns TRUE.  Otherwise returns FALSE. */
static gboolean
postpone_unload (gpointer context, CUmodule module)
{
  Busy *busy;

  _tarn_mutex_lock (&lock);
  busy = find_busy (context);
  if (busy != NULL)
    busy->forgotten = g_slist_prepend (busy->forgotten, module);
  _tarn_mutex_unlock (&lock);
  return busy != NULL;
}

/* Functions for the memo of modules */

static void
unload_module (gpointer unused, gpointer module, gpointer context, gboolean is_dead)
{
  const TarnCudaDriver *driver = _tarn_cuda_get_driver (NULL);

  (void) unused;
  /* If the context or the driver is gone, the module is gone, too, so there is nothing to
   * unload. */
  if (is_dead || driver == NULL || postpone_unload (context, module))
    return;
  unload (driver, module);
}

TarnMemo *
tarn_cuda_module_memo_new (void)
{
  TarnMemoOps ops = TARN_MEMO_OPS_INIT;

  ops.key_type = TARN_MEMO_KEY_BYTES;
  ops.unref_value = unload_module;
  return tarn_cuda_context_memo_new (&ops, load_module, NULL, NULL);
}

gboolean
tarn_cuda_module_memo_get (TarnMemo *memo, CUcontext context, GBytes *image, CUmodule *module,
                           GError **error)
{
  gpointer value;

  g_return_val_if_fail (image != NULL, FALSE);
  g_return_val_if_fail (module != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (memo, FALSE);

  if (!tarn_memo_get (memo, context, image, &value, error))
    return FALSE;
  *module = value;
  return TRUE;
}

/* Functions for the memo of CUDA functions */

static gboolean
read_key (TarnCudaFunctionKey *key, gconstpointer theirs, GError **error)
{
  *key = (TarnCudaFunctionKey) TARN_CUDA_FUNCTION_KEY_INIT;
  return _tarn_struct_read_or_set_error (key, sizeof *key, theirs, "TarnCudaFunctionKey", error);
}

/* Reads the parts of a function's key: the image and the name.  Returns FALSE if this version of
 * Tarn cannot read the caller's struct.  Then the key counts as equal only to itself, and the memo
 * stores no value for the key. */
static gboolean
get_parts (gconstpointer theirs, TarnMemoKeyPart parts[2])
{
  TarnCudaFunctionKey key;

  if (!read_key (&key, theirs, NULL))
    return FALSE;
  parts[0] = tarn_memo_key_bytes (key.image);
  parts[1] = tarn_memo_key_string (key.name);
  return TRUE;
}

static guint
key_hash (gconstpointer key)
{
  TarnMemoKeyPart parts[2];
  TarnMemoKeyTuple tuple = { parts, 2 };

  return get_parts (key, parts) ? tarn_memo_key_tuple_hash (&tuple) : 0;
}

static gboolean
key_equal (gconstpointer a, gconstpointer b)
{
  TarnMemoKeyPart left[2], right[2];
  TarnMemoKeyTuple tuple = { left, 2 }, other = { right, 2 };

  if (!get_parts (a, left) || !get_parts (b, right))
    return a == b;
  return tarn_memo_key_tuple_equal (&tuple, &other);
}

/* Copies a function's key.  Reading the key cannot fail, because find_function () has read it
 * before the memo copies it. */
static gpointer
key_copy (gconstpointer key)
{
  TarnCudaFunctionKey *copy = g_new (TarnCudaFunctionKey, 1);

  read_key (copy, key, NULL);
  copy->image = g_bytes_ref (copy->image);
  copy->name = g_strdup (copy->name);
  return copy;
}

static void
key_free (gpointer key)
{
  TarnCudaFunctionKey *copy = key;

  g_bytes_unref (copy->image);
  g_free ((gchar *) copy->name);
  g_free (copy);
}

/* Gets a module from the memo of modules, and a function of the module from the driver.  Stores the
 * module in *module, if there is one.  Returns NULL with an error if there is no such function. */
static CUfunction
ask_for_function (const TarnCudaDriver *driver, TarnMemo *modules, CUcontext context,
                  const TarnCudaFunctionKey *key, CUmodule *module, GError **error)
{
  CUfunction function = NULL;
  unsigned int status;

  if (!tarn_cuda_module_memo_get (modules, context, key->image, module, error))
    return NULL;
  status = driver->cuModuleGetFunction (&function, *module, key->name);
  if (status == TARN_CUDA_SUCCESS)
    return function;
  _tarn_cuda_set_error_with_text (error, driver, "cuModuleGetFunction", status, key->name);
  return NULL;
}

/* Finds a function.  During the lookup, the memo of modules may forget the function's module.  The
 * module is then unloaded, so the function is not valid.  If the memo forgets the module already
 * while a thread loads the module, the memo fails with TARN_ERROR_FAILED; it does so for no other
 * reason.  In both cases, repeats the lookup, in which the memo loads the module again. */
static gpointer
find_function (gpointer context, gconstpointer data, gpointer modules, GError **error)
{
  const TarnCudaDriver *driver = _tarn_cuda_get_driver (error);
  GError *local = NULL;
  TarnCudaFunctionKey key;
  CUfunction function;
  CUmodule module;
  gboolean was_forgotten;

  if (driver == NULL || !read_key (&key, data, error))
    return NULL;
  if (key.image == NULL || key.name == NULL)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                   "the key of a function has no %s", key.image == NULL ? "image" : "name");
      return NULL;
    }
  do
    {
      module = NULL;
      g_clear_error (&local);
      begin_lookup (context);
      function = ask_for_function (driver, modules, context, &key, &module, &local);
      was_forgotten = end_lookup (context, module);
    }
  while ((function != NULL && was_forgotten)
         || g_error_matches (local, TARN_ERROR, TARN_ERROR_FAILED));
  if (local != NULL)
    g_propagate_error (error, local);
  return function;
}

TarnMemo *
tarn_cuda_function_memo_new (TarnMemo *modules)
{
  TarnMemoOps ops = TARN_MEMO_OPS_INIT;
  g_autoptr (TarnMemo) own = modules == NULL ? tarn_cuda_module_memo_new () : NULL;

  ops.upstream = modules != NULL ? modules : own;
  ops.key_type = TARN_MEMO_KEY_STRUCT;
  ops.hash = key_hash;
  ops.equal = key_equal;
  ops.copy_key = key_copy;
  ops.free_key = key_free;
  return tarn_cuda_context_memo_new (&ops, find_function, ops.upstream, NULL);
}

gboolean
tarn_cuda_function_memo_get (TarnMemo *memo, CUcontext context, const TarnCudaFunctionKey *key,
                             CUfunction *function, GError **error)
{
  TarnCudaFunctionKey known;
  gpointer value;

  g_return_val_if_fail (key != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (memo, FALSE);
  g_return_val_if_fail (function != NULL, FALSE);

  if (!read_key (&known, key, error))
    return FALSE;
  if (!tarn_memo_get (memo, context, &known, &value, error))
    return FALSE;
  *function = value;
  return TRUE;
}
