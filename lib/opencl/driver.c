/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Loads OpenCL once in a process: finds OpenCL's functions by their names.  Prefers functions that
 * the process already has: those of the OpenCL library that the program is linked with, or
 * functions of the same names that the program itself defines.  Otherwise takes the functions of
 * libOpenCL.so.1.  Never closes this library, because it has loaded drivers, and the drivers'
 * threads and exit handlers still need the drivers' code. */

#include "driver-private.h"

#include <dlfcn.h>

#include "common/lock-private.h"

#define LIBRARY "libOpenCL.so.1"

TarnOpenclDriver _tarn_cl; /* OpenCL's functions; constant once is_loaded is TRUE */

/* A function that finds OpenCL's functions by their names, and its user data. */
typedef struct
{
  /* The function that finds OpenCL's functions by name: find_in_process (), or one that the program
   * passed. */
  TarnOpenclFindFunc find;
  /* The user data that Tarn passes to the function find.  For find_in_process (), this is the
   * handle of the OpenCL library.  It is NULL if the library could not be opened, but the process
   * itself has OpenCL's functions. */
  gpointer user_data;
} Finder;

static gint is_loaded; /* atomic */
/* atomic; TRUE if an OpenCL library was found, even if it lacks functions that Tarn requires */
static gint has_library;

static TarnMutex lock = TARN_MUTEX_INIT;
/* The lock guards the two variables below. */
/* the error of the first attempt to load OpenCL that failed; NULL if none failed */
static GError *load_error;
static Finder finder; /* finds OpenCL's functions; constant once is_loaded is TRUE */

static gpointer
find_in_process (const gchar *name, gpointer library)
{
  gpointer function = dlsym (RTLD_DEFAULT, name);

  return function != NULL || library == NULL ? function : dlsym (library, name);
}

/* Finds a function that Tarn requires.  If it is missing, stores its name in *missing, unless
 * *missing already has the name of another missing function. */
static gpointer
find_required (const Finder *from, const gchar *name, const gchar **missing)
{
  gpointer function = from->find (name, from->user_data);

  if (function == NULL && *missing == NULL)
    *missing = name;
  return function;
}

static gboolean
find_functions (const Finder *from, const gchar *where, TarnOpenclDriver *driver, GError **error)
{
  const gchar *missing = NULL;

#define X(name) *(gpointer *) &driver->name = find_required (from, #name, &missing);
  TARN_OPENCL_REQUIRED (X)
#undef X
#define X(result, name, arguments)                                                                 \
  *(gpointer *) &driver->name = from->find (#name, from->user_data);
  TARN_OPENCL_OPTIONAL (X)
#undef X
  if (missing == NULL)
    return TRUE;
  g_set_error (error, TARN_ERROR, TARN_ERROR_NO_DRIVER, "%s has no function %s of OpenCL 1.2",
               where, missing);
  return FALSE;
}

/* Stores OpenCL's functions (@driver) in _tarn_cl.  Stores the Finder with which Tarn found these
 * functions (@from) in the static variable finder.  Returns FALSE and stores nothing if another
 * thread or an earlier call has already stored functions. */
static gboolean
take (const TarnOpenclDriver *driver, const Finder *from)
{
  gboolean is_first;

  _tarn_mutex_lock (&lock);
  is_first = !g_atomic_int_get (&is_loaded);
  if (is_first)
    {
      _tarn_cl = *driver;
      finder = *from;
      g_atomic_int_set (&is_loaded, TRUE);
    }
  _tarn_mutex_unlock (&lock);
  return is_first;
}

static gboolean
open_library (TarnOpenclDriver *driver, Finder *from, GError **error)
{
  gpointer library = dlopen (LIBRARY, RTLD_NOW | RTLD_LOCAL);
  g_autofree gchar *why = library == NULL ? g_strdup (dlerror ()) : NULL;

  *from = (Finder){ find_in_process, library };
  if (library != NULL || dlsym (RTLD_DEFAULT, "clGetPlatformIDs") != NULL)
    {
      g_atomic_int_set (&has_library, TRUE);
      return find_functions (from, LIBRARY, driver, error);
    }
  g_set_error (error, TARN_ERROR, TARN_ERROR_NO_DRIVER, "there is no OpenCL: %s", why);
  return FALSE;
}

/* Stores the error of a failed attempt to load OpenCL.  If another thread has already stored an
 * error, keeps that error instead.  Takes over @error.  Returns a copy of the stored error. */
static GError *
keep_error (GError *error)
{
  GError *copy;

  _tarn_mutex_lock (&lock);
  if (load_error == NULL)
    load_error = error;
  else
    g_error_free (error);
  copy = g_error_copy (load_error);
  _tarn_mutex_unlock (&lock);
  return copy;
}

static gboolean
try_to_load (GError **error)
{
  TarnOpenclDriver driver;
  GError *failure = NULL;
  Finder from;

  /* Register the error domain now: the first call of tarn_opencl_error_quark () may hang if it
   * takes place in a child of fork (). */
  tarn_opencl_error_quark ();
  if (open_library (&driver, &from, &failure))
    {
      take (&driver, &from);
      return TRUE;
    }
  g_propagate_error (error, keep_error (failure));
  return FALSE;
}

static GError *
copy_load_error (void)
{
  GError *copy;

  _tarn_mutex_lock (&lock);
  copy = load_error != NULL ? g_error_copy (load_error) : NULL;
  _tarn_mutex_unlock (&lock);
  return copy;
}

gboolean
_tarn_opencl_load (GError **error)
{
  GError *known;

  if (!tarn_check_fork (error))
    return FALSE;
  if (G_LIKELY (g_atomic_int_get (&is_loaded)))
    return TRUE;
  known = copy_load_error ();
  if (known == NULL)
    return try_to_load (error);
  g_propagate_error (error, known);
  return FALSE;
}

gboolean
_tarn_opencl_is_absent (const GError *error)
{
  return g_error_matches (error, TARN_ERROR, TARN_ERROR_NO_DRIVER)
         && !g_atomic_int_get (&has_library);
}

gboolean
tarn_opencl_set_functions (TarnOpenclFindFunc find, gpointer user_data, GError **error)
{
  const Finder from = { find, user_data };
  TarnOpenclDriver driver;

  g_return_val_if_fail (find != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  if (!tarn_check_fork (error))
    return FALSE;
  /* Register the error domain now: the first call of tarn_opencl_error_quark () may hang if it
   * takes place in a child of fork (). */
  tarn_opencl_error_quark ();
  if (!find_functions (&from, "the program", &driver, error))
    return FALSE;
  if (take (&driver, &from))
    return TRUE;
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                       "Tarn has found OpenCL's functions already, and cannot use others");
  return FALSE;
}

gpointer
tarn_opencl_get_function (const gchar *name, GError **error)
{
  gpointer function;

  g_return_val_if_fail (name != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!_tarn_opencl_load (error))
    return NULL;
  function = finder.find (name, finder.user_data);
  if (function == NULL)
    g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED, "OpenCL has no function '%s' here",
                 name);
  return function;
}
