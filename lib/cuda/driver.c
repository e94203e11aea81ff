/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Loads the CUDA driver, once in a process.  The driver is never unloaded, because its threads and
 * exit handlers need its code. */

#include "driver-private.h"

#include <dlfcn.h>
#include <pthread.h>

#include "common/quark-private.h"
#include "common/shorten-private.h"

GQuark
tarn_cuda_error_quark (void)
{
  static GQuark known; /* the quark of TARN_CUDA_ERROR; 0 until it is made; atomic */

  return _tarn_quark (&known, "tarn-cuda-error-quark");
}

static TarnCudaDriver the_driver;
/* the error of the first call of _tarn_cuda_get_driver (), or NULL if that call succeeded; each
 * later call returns a copy of this error */
static GError *load_error;
static gboolean has_library; /* TRUE if libcuda.so.1 was opened, even if it is unusable */

/* Returns the driver's version for an error message, such as "; it is of version 11.4".  Returns ""
 * if the driver states no version. */
static gchar *
describe_version (gpointer library)
{
  unsigned int (*get_version) (int *version);
  int version = 0;

  *(gpointer *) &get_version = dlsym (library, "cuDriverGetVersion");
  if (get_version == NULL || get_version (&version) != TARN_CUDA_SUCCESS)
    return g_strdup ("");
  return g_strdup_printf ("; it is of version %d.%d", version / 1000, version % 1000 / 10);
}

static gpointer
find_symbol (gpointer library, const gchar *symbol, gboolean is_required)
{
  gpointer function = dlsym (library, symbol);
  g_autofree gchar *version = NULL;

  if (function != NULL || !is_required || load_error != NULL)
    return function;
  version = describe_version (library);
  g_set_error (&load_error, TARN_ERROR, TARN_ERROR_NO_DRIVER,
               "the CUDA driver, libcuda.so.1, is too old: it has no function %s%s", symbol,
               version);
  return NULL;
}

static void
find_symbols (gpointer library)
{
#define X(name, symbol, arguments)                                                                 \
  *(gpointer *) &the_driver.name = find_symbol (library, #symbol, TRUE);
  TARN_CUDA_REQUIRED (X)
#undef X
#define X(name, symbol, arguments)                                                                 \
  *(gpointer *) &the_driver.name = find_symbol (library, #symbol, FALSE);
  TARN_CUDA_OPTIONAL (X)
#undef X
}

static void
initialize_driver (void)
{
  unsigned int status = the_driver.cuInit (0);

  if (status == TARN_CUDA_ERROR_NO_DEVICE)
    g_set_error (&load_error, TARN_ERROR, TARN_ERROR_NO_DEVICE, "cuInit: there is no CUDA device");
  else if (status == TARN_CUDA_ERROR_NOT_INITIALIZED)
    g_set_error (&load_error, TARN_ERROR, TARN_ERROR_FORKED,
                 "cuInit: CUDA_ERROR_NOT_INITIALIZED (%u): this process was forked from one that "
                 "had initialized CUDA",
                 status);
  else if (status != TARN_CUDA_SUCCESS)
    _tarn_cuda_set_error (&load_error, &the_driver, "cuInit", status);
}

static void
load (void)
{
  gpointer library = dlopen ("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

  /* Makes the quark of TARN_CUDA_ERROR now, because making it in a child of fork () may hang. */
  tarn_cuda_error_quark ();
  if (library == NULL)
    {
      g_set_error (&load_error, TARN_ERROR, TARN_ERROR_NO_DRIVER, "there is no CUDA driver: %s",
                   dlerror ());
      return;
    }
  has_library = TRUE;
  find_symbols (library);
  if (load_error == NULL)
    initialize_driver ();
}

const TarnCudaDriver *
_tarn_cuda_get_driver (GError **error)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;

  if (!tarn_check_fork (error))
    return NULL;
  pthread_once (&once, load);
  if (load_error == NULL)
    return &the_driver;
  if (error != NULL)
    *error = g_error_copy (load_error);
  return NULL;
}

gboolean
_tarn_cuda_is_absent (const GError *error)
{
  return g_error_matches (error, TARN_ERROR, TARN_ERROR_NO_DEVICE)
         || (g_error_matches (error, TARN_ERROR, TARN_ERROR_NO_DRIVER) && !has_library);
}

static const gchar *
name_status (const TarnCudaDriver *driver, unsigned int status)
{
  const char *name = NULL;

  if (driver->cuGetErrorName == NULL || driver->cuGetErrorName (status, &name) != TARN_CUDA_SUCCESS)
    name = NULL;
  return name != NULL ? name : "unknown status";
}

/* Sets the error for a driver call that failed with @status.  @message: the error's message, which
 * this function frees. */
static void
set_status_error (GError **error, unsigned int status, gchar *message)
{
  if (status == TARN_CUDA_ERROR_OUT_OF_MEMORY)
    g_set_error_literal (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY, message);
  else if (status == TARN_CUDA_ERROR_CONTEXT_IS_DESTROYED)
    g_set_error_literal (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST, message);
  else
    g_set_error_literal (error, TARN_CUDA_ERROR, (gint) status, message);
  g_free (message);
}

void
_tarn_cuda_set_error (GError **error, const TarnCudaDriver *driver, const gchar *call,
                      unsigned int status)
{
  set_status_error (error, status,
                    g_strdup_printf ("%s: %s (%u)", call, name_status (driver, status), status));
}

void
_tarn_cuda_set_error_for_size (GError **error, const TarnCudaDriver *driver, const gchar *call,
                               unsigned int status, gsize size)
{
  set_status_error (error, status,
                    g_strdup_printf ("%s: %s (%u) for %" G_GSIZE_FORMAT " bytes", call,
                                     name_status (driver, status), status, size));
}

/* Sets the error for a call that failed.  The error's message contains the status and @text, such
 * as the driver's log.  @text need not be UTF-8. */
void
_tarn_cuda_set_error_with_text (GError **error, const TarnCudaDriver *driver, const gchar *call,
                                unsigned int status, const gchar *text)
{
  g_autofree gchar *quoted = _tarn_quote_log (text);

  set_status_error (
      error, status,
      g_strdup_printf ("%s: %s (%u): %s", call, name_status (driver, status), status, quoted));
}

gboolean
_tarn_cuda_check (const TarnCudaDriver *driver, const gchar *call, unsigned int status,
                  GError **error)
{
  if (status == TARN_CUDA_SUCCESS)
    return TRUE;
  _tarn_cuda_set_error (error, driver, call, status);
  return FALSE;
}
