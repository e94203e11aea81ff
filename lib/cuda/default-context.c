/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Opens the primary context of the device that the user chose, as
 * pycuda.tools.make_default_context() and pycuda.autoinit do.  CUDA's runtime uses the primary
 * context, too, so Tarn and libraries that use the runtime can access each other's memory. */

#define _GNU_SOURCE 1 /* makes <stdlib.h> declare secure_getenv () */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/lock-private.h"
#include "common/shorten-private.h"
#include "context-private.h"

#define MAX_FILE_BYTES 64 /* the greatest size of a file that names a device */

/* The user's choice of a device.  The field text is the choice itself, for example "1".  The field
 * source is the place where Tarn found the choice, for example "CUDA_DEVICE".  Both fields are NULL
 * if the user has chosen no device. */
typedef struct
{
  gchar *text;
  gchar *source;
} Choice;

static void
choice_clear (Choice *choice)
{
  g_free (choice->text);
  g_free (choice->source);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Choice, choice_clear)

/* Returns the text of a small regular file.  The file's path comes from HOME, which may point
 * anywhere.  So for any other file, such as a pipe, a device or a large file, reads nothing, and
 * returns NULL with an error. */
static gchar *
read_file (int fd, const gchar *source, GError **error)
{
  struct stat info;
  gchar text[MAX_FILE_BYTES + 1];
  gssize n = -1;

  if (fstat (fd, &info) == 0 && S_ISREG (info.st_mode) && info.st_size <= MAX_FILE_BYTES)
    n = read (fd, text, sizeof text);
  if (n >= 0 && n <= MAX_FILE_BYTES)
    return g_strndup (text, (gsize) n);
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
               "%s: must be a file that can be read, of at most %d bytes", source, MAX_FILE_BYTES);
  return NULL;
}

/* Reads the user's choice of a device from a file in the home folder.  Leaves @choice as it is if
 * the file does not exist.  Messages say ~ instead of the path in HOME, which may be long. */
static gboolean
read_home (const gchar *name, Choice *choice, GError **error)
{
  g_autofree gchar *path = g_build_filename (g_get_home_dir (), name, NULL);
  g_autofree gchar *source = g_strconcat ("~/", name, NULL);
  int fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

  if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
    return TRUE;
  if (fd < 0)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, "%s: %s", source,
                   g_strerror (errno));
      return FALSE;
    }
  choice->text = read_file (fd, source, error);
  close (fd);
  if (choice->text != NULL)
    choice->source = g_steal_pointer (&source);
  return choice->text != NULL;
}

/* Finds the user's choice of a device, in the environment variable CUDA_DEVICE or in a file in the
 * home folder.  PyCUDA's documentation names this file .cuda-device, and its code reads
 * .cuda_device, so Tarn looks for both names.  A file that exists but cannot be read is an error.
 * A set-user-ID program reads neither the environment nor these files.  Its caller could otherwise
 * set HOME, and thus name a file that only the program may read. */
static gboolean
find_choice (Choice *choice, GError **error)
{
  static const gchar *const names[] = { ".cuda_device", ".cuda-device" };

  *choice = (Choice){ g_strdup (secure_getenv ("CUDA_DEVICE")), NULL };
  if (choice->text != NULL)
    choice->source = g_strdup ("CUDA_DEVICE");
  if (getauxval (AT_SECURE) != 0)
    return TRUE;
  for (gsize i = 0; i < G_N_ELEMENTS (names) && choice->text == NULL; i++)
    if (!read_home (names[i], choice, error))
      return FALSE;
  return TRUE;
}

/* Reads a decimal number, which may have blanks around it.  Returns FALSE for any other text. */
static gboolean
parse_device_number (const gchar *text, guint64 *number)
{
  g_autofree gchar *stripped = g_strstrip (g_strdup (text));

  return g_ascii_string_to_unsigned (stripped, 10, 0, G_MAXINT, number, NULL);
}

/* Converts the user's choice to a device's index.  Fails if the choice is no index of a device. */
static gboolean
take_choice (const Choice *choice, int n_devices, int *index, GError **error)
{
  g_autofree gchar *stripped = g_strstrip (g_strdup (choice->text));
  g_autofree gchar *text = _tarn_shorten (stripped);
  guint64 number;

  if (!parse_device_number (stripped, &number))
    g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                 "%s: '%s' is not a device's number; there are %d CUDA devices, from 0 on",
                 choice->source, text, n_devices);
  else if (number >= (guint64) n_devices)
    g_set_error (error, TARN_ERROR, TARN_ERROR_NO_DEVICE,
                 "%s: there is no CUDA device %s; there are %d, from 0 on", choice->source, text,
                 n_devices);
  else
    {
      *index = (int) number;
      return TRUE;
    }
  return FALSE;
}

static gboolean
count_devices (const TarnCudaDriver *driver, int *n, GError **error)
{
  if (!_tarn_cuda_check (driver, "cuDeviceGetCount", driver->cuDeviceGetCount (n), error))
    return FALSE;
  if (*n > 0)
    return TRUE;
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_NO_DEVICE, "there is no CUDA device");
  return FALSE;
}

/* Finds the local rank: the number of this process among the processes of an MPI job on this
 * machine.  MPI launchers set this number in environment variables.  Returns 0 if none of these
 * variables has a number. */
static int
find_local_rank (void)
{
  static const gchar *const variables[]
      = { "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "PMI_LOCAL_RANK" };

  for (gsize i = 0; i < G_N_ELEMENTS (variables); i++)
    {
      const gchar *text = secure_getenv (variables[i]);
      guint64 number;

      if (text != NULL && parse_device_number (text, &number))
        return (int) number;
    }
  return 0;
}

static gboolean
retain_context (TarnCudaContext *context, GError **error)
{
  const TarnCudaDriver *driver = context->driver;

  if (!_tarn_cuda_check (driver, "cuDevicePrimaryCtxRetain",
                         driver->cuDevicePrimaryCtxRetain (&context->handle, context->device),
                         error))
    return FALSE;
  context->is_primary = TRUE;
  if (_tarn_cuda_context_identify (context, error)
      && _tarn_cuda_check (driver, "cuCtxPushCurrent", driver->cuCtxPushCurrent (context->handle),
                           error))
    return TRUE;
  _tarn_cuda_context_clear (context);
  return FALSE;
}

static gboolean
open_index (TarnCudaContext *context, int index, GError **error)
{
  const TarnCudaDriver *driver = context->driver;

  return _tarn_cuda_check (driver, "cuDeviceGet", driver->cuDeviceGet (&context->device, index),
                           error)
         && retain_context (context, error);
}

/* Opens the primary context of any device.  Tries the devices one after another, beginning at the
 * index that is this process's local rank (see find_local_rank ()) modulo the number of devices.
 * The driver may refuse a device that another process uses (compute mode EXCLUSIVE_PROCESS).  If it
 * refuses all devices, the error contains the reason for each device. */
static gboolean
open_any (TarnCudaContext *context, int n_devices, GError **error)
{
  g_autoptr (GString) reasons = g_string_new (NULL);
  int first = find_local_rank () % n_devices;

  for (int i = 0; i < n_devices; i++)
    {
      int index = (first + i) % n_devices;
      g_autoptr (GError) reason = NULL;

      if (open_index (context, index, &reason))
        return TRUE;
      g_string_append_printf (reasons, "%s device %d: %s", i > 0 ? ";" : "", index,
                              reason->message);
    }
  g_set_error (error, TARN_ERROR, TARN_ERROR_NO_CONTEXT, "no CUDA device gives a context:%s",
               reasons->str);
  return FALSE;
}

static gboolean
open_default (TarnCudaContext *context, GError **error)
{
  g_auto (Choice) choice = { NULL, NULL };
  int n_devices = 0, index;

  *context = (TarnCudaContext){ .driver = _tarn_cuda_get_driver (error) };
  if (context->driver == NULL || !count_devices (context->driver, &n_devices, error)
      || !find_choice (&choice, error))
    return FALSE;
  if (choice.text == NULL)
    return open_any (context, n_devices, error);
  if (!take_choice (&choice, n_devices, &index, error))
    return FALSE;
  if (open_index (context, index, error))
    return TRUE;
  g_prefix_error (error, "%s: device %d: ", choice.source, index);
  return FALSE;
}

/* The contexts that tarn_cuda_make_default_context () has returned, and that callers have not
 * released yet. tarn_cuda_context_release () looks for its argument in this list, and refuses any
 * other handle, so the driver never sees an invalid handle. */
/* an array of TarnCudaContext; NULL until first needed; guarded by given_lock */
static GArray *given;
static TarnMutex given_lock = TARN_MUTEX_INIT;

static void
remember (const TarnCudaContext *context)
{
  _tarn_mutex_lock (&given_lock);
  if (given == NULL)
    given = g_array_new (FALSE, FALSE, sizeof (TarnCudaContext));
  g_array_append_val (given, *context);
  _tarn_mutex_unlock (&given_lock);
}

/* Removes a context from the list of contexts that callers have not released, and stores the
 * context in *context.  If several entries have the same handle, removes the latest entry, because
 * only the latest context can be alive.  Returns FALSE if no entry has the handle. */
static gboolean
take_back (CUcontext handle, TarnCudaContext *context)
{
  gboolean is_found = FALSE;

  _tarn_mutex_lock (&given_lock);
  for (guint i = given != NULL ? given->len : 0; i > 0 && !is_found; i--)
    {
      *context = g_array_index (given, TarnCudaContext, i - 1);
      is_found = context->handle == handle;
      if (is_found)
        g_array_remove_index (given, i - 1);
    }
  _tarn_mutex_unlock (&given_lock);
  return is_found;
}

CUcontext
tarn_cuda_make_default_context (CUdevice *device, GError **error)
{
  TarnCudaContext context;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!open_default (&context, error))
    return NULL;
  remember (&context);
  if (device != NULL)
    *device = context.device;
  return context.handle;
}

static gboolean
is_current (const TarnCudaContext *context)
{
  CUcontext current = NULL;

  return context->driver->cuCtxGetCurrent (&current) == TARN_CUDA_SUCCESS
         && current == context->handle;
}

/* Pops a context if it is the thread's current context, and alive.  Logs a message if the driver
 * cannot say whether the context is current and alive. */
static void
leave_if_current (const TarnCudaContext *context)
{
  CUcontext current = NULL;
  g_autoptr (GError) error = NULL;

  if (_tarn_cuda_check (context->driver, "cuCtxGetCurrent",
                        context->driver->cuCtxGetCurrent (&current), &error)
      && current == context->handle && _tarn_cuda_context_check (context, &error))
    _tarn_cuda_pop_context (context->driver);
  /* This function logs no message if the context is gone, or if the driver is gone at exit. */
  if (error != NULL && !g_error_matches (error, TARN_ERROR, TARN_ERROR_CONTEXT_LOST)
      && !g_error_matches (error, TARN_CUDA_ERROR, TARN_CUDA_ERROR_DEINITIALIZED))
    g_message ("%s: this thread may be left with the context that is released", error->message);
}

void
tarn_cuda_context_release (CUcontext context)
{
  TarnCudaContext taken;

  if (context == NULL || _tarn_cuda_get_driver (NULL) == NULL)
    return;
  if (!take_back (context, &taken))
    {
      g_critical ("tarn_cuda_context_release: %p is not from tarn_cuda_make_default_context(), or "
                  "was released already",
                  (const void *) context);
      return;
    }
  leave_if_current (&taken);
  _tarn_cuda_context_clear (&taken);
}

/* The default context of the process, which the first call of tarn_cuda_autoinit () opens.  The
 * field "error" has the error of that call, or NULL if the call succeeded. */
static struct
{
  TarnCudaContext context;
  GError *error;
} automatic;

static void
initialize_process (void)
{
  /* open_default () has made the context current in this thread, so pop it.  Each call of
   * tarn_cuda_autoinit () then makes the context current in the thread that calls it. */
  if (open_default (&automatic.context, &automatic.error))
    _tarn_cuda_pop_context (automatic.context.driver);
}

static gboolean
make_current (const TarnCudaContext *context, GError **error)
{
  if (!_tarn_cuda_context_check (context, error))
    return FALSE;
  return is_current (context)
         || _tarn_cuda_check (context->driver, "cuCtxPushCurrent",
                              context->driver->cuCtxPushCurrent (context->handle), error);
}

gboolean
tarn_cuda_autoinit (CUdevice *device, CUcontext *context, GError **error)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  if (!tarn_check_fork (error))
    return FALSE;
  pthread_once (&once, initialize_process);
  if (automatic.error != NULL)
    {
      if (error != NULL)
        *error = g_error_copy (automatic.error);
      return FALSE;
    }
  if (!make_current (&automatic.context, error))
    return FALSE;
  if (device != NULL)
    *device = automatic.context.device;
  if (context != NULL)
    *context = automatic.context.handle;
  return TRUE;
}

gboolean
tarn_cuda_get_default_device (gint fallback, CUdevice *device, GError **error)
{
  const TarnCudaDriver *driver;
  g_auto (Choice) choice = { NULL, NULL };
  int n_devices = 0, index;
  CUdevice found;

  g_return_val_if_fail (device != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  if ((driver = _tarn_cuda_get_driver (error)) == NULL
      || !count_devices (driver, &n_devices, error))
    return FALSE;
  if (!find_choice (&choice, error))
    return FALSE;
  if (choice.text == NULL)
    choice = (Choice){ g_strdup_printf ("%d", fallback), g_strdup ("the default") };
  if (!take_choice (&choice, n_devices, &index, error)
      || !_tarn_cuda_check (driver, "cuDeviceGet", driver->cuDeviceGet (&found, index), error))
    return FALSE;
  *device = found;
  return TRUE;
}
