/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Modules of the fake CUDA driver, and their functions.  A function has only a name, and cannot
 * run.  An image is one of these:
 *
 *     PTX      text that begins, after white space and comments, with ".version N.N". It has the
 *              functions that its lines ".entry NAME" name. A line "#error TEXT" makes the image
 *              fail to compile, even if the text is no PTX. All other lines are ignored.
 *     cubin    "\177ELF", then the functions' names, each ended by a NUL, then another NUL, for
 *              example "\177ELFadd\0multiply\0". The byte that follows in a real ELF header cannot
 *              begin a name.
 *
 * Anything else is not an image.  If a name occurs twice, both name the same function.
 *
 * Statuses, logs and the effect on captures are as observed on an H200.  A program can look up a
 * module's functions, and unload the module, even if another context is current, or none.  If an
 * image is invalid, the error log says so.  Looking up an unknown name sets the function to
 * NULL. */

#include "testing/cuda/fake-private.h"

#include <string.h>

/* Values of CUjit_option */
enum
{
  INFO_LOG_BUFFER = 3,
  INFO_LOG_BUFFER_SIZE_BYTES = 4,
  ERROR_LOG_BUFFER = 5,
  ERROR_LOG_BUFFER_SIZE_BYTES = 6,
  N_OPTIONS = 34
};

#define ELF "\177ELF"
#define NAME "[A-Za-z_$%][A-Za-z0-9_$]*"

typedef struct
{
  CUfunction handle;
  gchar *name; /* the name of the function, owned */
} Kernel;

typedef struct
{
  CUmodule handle;
  guint64 context_id;
  GPtrArray *kernels; /* an array of Kernel, owned */
} Module;

/* The caller's buffer for a log. */
typedef struct
{
  gchar *buffer; /* the caller's buffer; NULL if the caller wants no log */
  /* The option for the size of the log's buffer: the caller stores the size here, and the driver
   * overwrites it with the number of bytes that it has written. */
  void **bytes;
} Log;

typedef struct
{
  Log info;
  Log errors;
} Logs;

/* The lock of the fake driver guards these variables. */
static HandleTable module_handles = { .base = FAKE_HANDLES (5) };
static HandleTable kernel_handles = { .base = FAKE_HANDLES (6) };
static GPtrArray *modules; /* an array of Module, owned */
/* a set: the handles of modules that were destroyed with their context; when a new module gets
 * one of these handles, the handle is removed from the set */
static GHashTable *went_along;

static void
free_kernel (gpointer data)
{
  Kernel *kernel = data;

  fake_handle_free (&kernel_handles, kernel->handle);
  g_free (kernel->name);
  g_free (kernel);
}

static void
free_module (gpointer data)
{
  Module *module = data;

  fake_handle_free (&module_handles, module->handle);
  g_ptr_array_unref (module->kernels);
  g_free (module);
}

static void __attribute__ ((constructor)) make_modules (void)
{
  modules = g_ptr_array_new_with_free_func (free_module);
  went_along = g_hash_table_new (NULL, NULL);
}

/* Functions that only the fake driver calls.  The caller of each of these functions holds the
 * lock. */

void
fake_free_modules_of (guint64 context_id)
{
  for (guint i = modules->len; i > 0; i--)
    {
      Module *module = g_ptr_array_index (modules, i - 1);

      if (module->context_id != context_id)
        continue;
      g_hash_table_add (went_along, module->handle);
      g_ptr_array_remove_index_fast (modules, i - 1);
    }
}

guint
fake_count_modules (void)
{
  return modules->len;
}

const gchar *
fake_find_kernel (CUfunction handle)
{
  const Kernel *kernel = fake_handle_get (&kernel_handles, handle);

  return kernel != NULL ? kernel->name : NULL;
}

static Status
find_module (const gchar *function, CUmodule handle, Module **module)
{
  *module = fake_handle_get (&module_handles, handle);
  if (*module != NULL)
    return FAKE_CUDA_SUCCESS;
  if (g_hash_table_contains (went_along, handle))
    return FAKE_CUDA_CONTEXT_IS_DESTROYED;
  if (handle != NULL && !fake_handle_was (&module_handles, handle))
    g_error ("%s: %p never was a module: a driver crashes here", function, (gpointer) handle);
  return FAKE_CUDA_INVALID_HANDLE;
}

static const Kernel *
find_kernel (const Module *module, const gchar *name)
{
  for (guint i = 0; i < module->kernels->len; i++)
    {
      const Kernel *kernel = g_ptr_array_index (module->kernels, i);

      if (strcmp (kernel->name, name) == 0)
        return kernel;
    }
  return NULL;
}

static void
add_kernel (Module *module, const gchar *name)
{
  Kernel *kernel;

  if (find_kernel (module, name) != NULL)
    return;
  kernel = g_new0 (Kernel, 1);
  kernel->handle = fake_handle_new (&kernel_handles, kernel);
  kernel->name = g_strdup (name);
  g_ptr_array_add (module->kernels, kernel);
}

static CUmodule
make_module (guint64 context_id, const GPtrArray *names)
{
  Module *module = g_new0 (Module, 1);

  module->handle = fake_handle_new (&module_handles, module);
  module->context_id = context_id;
  module->kernels = g_ptr_array_new_with_free_func (free_kernel);
  g_hash_table_remove (went_along, module->handle);
  g_ptr_array_add (modules, module);
  for (guint i = 0; i < names->len; i++)
    add_kernel (module, g_ptr_array_index (names, i));
  return module->handle;
}

/* Functions that read the image of a module, and report mistakes in the image */

/* Searches a text from @start on for a regular expression.  Returns the first group of the first
 * match, or NULL if nothing matches.  If @end is not NULL, sets *end to the end of the
 * match. */
static gchar *
match (const gchar *pattern, const gchar *start, const gchar **end)
{
  g_autoptr (GRegex) regex = g_regex_new (pattern, G_REGEX_RAW, 0, NULL);
  g_autoptr (GMatchInfo) info = NULL;
  gint position;

  if (!g_regex_match (regex, start, 0, &info))
    return NULL;
  g_match_info_fetch_pos (info, 0, NULL, &position);
  if (end != NULL)
    *end = start + position;
  return g_match_info_fetch (info, 1);
}

static gchar *
remove_comments (const gchar *text)
{
  g_autoptr (GRegex) regex = g_regex_new ("(?s)/\\*.*?\\*/|//[^\\n]*", G_REGEX_RAW, 0, NULL);

  return g_regex_replace_literal (regex, text, -1, 0, " ", 0, NULL);
}

static Status
refuse_image (gchar **error)
{
  *error = g_strdup ("error   : Binary format for key='0', ident='' is not recognized");
  return FAKE_CUDA_INVALID_IMAGE;
}

static Status
refuse_ptx (const gchar *why, gchar **error)
{
  *error = g_strdup_printf ("ptxas fatal : %s", why);
  return FAKE_CUDA_INVALID_PTX;
}

static Status
read_ptx (const gchar *commented, GPtrArray *names, gchar **error)
{
  g_autofree gchar *text = remove_comments (commented);
  g_autofree gchar *why = match ("#error\\b[ \\t]*([^\\r\\n]*)", text, NULL);
  g_autofree gchar *directive = match ("^\\s*(\\.version)\\b", text, NULL);
  g_autofree gchar *version = match ("^\\s*\\.version\\s+(\\d+\\.\\d+)(?!\\S)", text, NULL);
  const gchar *rest = text;
  gchar *name;

  if (why != NULL)
    return refuse_ptx (why, error);
  if (directive == NULL)
    return refuse_image (error);
  if (version == NULL)
    return refuse_ptx ("Ptx assembly aborted due to errors", error);
  while ((name = match ("\\.entry\\s+(" NAME ")", rest, &rest)) != NULL)
    g_ptr_array_add (names, name);
  return FAKE_CUDA_SUCCESS;
}

static Status
read_cubin (const gchar *name, GPtrArray *names, gchar **error)
{
  for (; *name != '\0'; name += strlen (name) + 1)
    {
      if (!g_regex_match_simple ("^" NAME "\\z", name, G_REGEX_RAW, 0))
        break;
      g_ptr_array_add (names, g_strdup (name));
    }
  return *name == '\0' && names->len > 0 ? FAKE_CUDA_SUCCESS : refuse_image (error);
}

static Status
read_image (const gchar *image, GPtrArray *names, gchar **error)
{
  if (g_str_has_prefix (image, ELF))
    return read_cubin (image + strlen (ELF), names, error);
  return read_ptx (image, names, error);
}

/* Functions that read the options of a call that loads a module, and write its logs */

/* Returns FALSE if the caller gave a buffer for a log without the buffer's size, or a size without
 * a buffer. */
static gboolean
is_log (const Log *log)
{
  return (log->buffer != NULL) == (log->bytes != NULL);
}

static gboolean
read_options (guint n, const guint *options, void **values, Logs *logs)
{
  if (n > 0 && (options == NULL || values == NULL))
    return FALSE;
  for (guint i = 0; i < n; i++)
    if (options[i] == INFO_LOG_BUFFER)
      logs->info.buffer = values[i];
    else if (options[i] == INFO_LOG_BUFFER_SIZE_BYTES)
      logs->info.bytes = &values[i];
    else if (options[i] == ERROR_LOG_BUFFER)
      logs->errors.buffer = values[i];
    else if (options[i] == ERROR_LOG_BUFFER_SIZE_BYTES)
      logs->errors.bytes = &values[i];
    else if (options[i] >= N_OPTIONS)
      return FALSE;
  return is_log (&logs->info) && is_log (&logs->errors);
}

/* Writes a log to the caller's buffer, and fills the rest of the buffer with zeros.  Writes a zero
 * to the first byte even if the buffer's size is 0.  Stores the number of bytes used, which
 * includes the final NUL only if the text was too long and had to be cut. */
static void
write_log (const Log *log, const gchar *text)
{
  gsize size, length = strlen (text);

  if (log->buffer == NULL)
    return;
  size = GPOINTER_TO_UINT (*log->bytes);
  memset (log->buffer, 0, MAX (size, 1));
  if (size > 0)
    g_strlcpy (log->buffer, text, size);
  *log->bytes = GUINT_TO_POINTER (size > 1 ? (guint) MIN (length, size) : 0);
}

static Status
load (CUmodule *module, const gchar *image, guint n, const guint *options, void **values)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_autofree gchar *error = NULL;
  Logs logs = { 0 };
  Context *context;
  Status status = fake_get_context (&context);

  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  REQUIRE (module != NULL && image != NULL, FAKE_CUDA_INVALID_VALUE);
  REQUIRE (read_options (n, options, values, &logs), FAKE_CUDA_INVALID_VALUE);
  status = read_image (image, names, &error);
  write_log (&logs.info, "");
  write_log (&logs.errors, error != NULL ? error : "");
  if (status == FAKE_CUDA_SUCCESS)
    *module = make_module (context->id, names);
  return status;
}

/* Functions of CUDA's driver API, which the program calls */

Status
cuModuleLoadData (CUmodule *module, const void *image)
{
  ENTER (cuModuleLoadData);
  LOCKED;

  return load (module, image, 0, NULL, NULL);
}

Status
cuModuleLoadDataEx (CUmodule *module, const void *image, unsigned int n_options,
                    unsigned int *options, void **values)
{
  ENTER (cuModuleLoadDataEx);
  LOCKED;

  return load (module, image, n_options, options, values);
}

Status
cuModuleUnload (CUmodule handle)
{
  Module *module;
  Status status;
  ENTER (cuModuleUnload);
  LOCKED;

  status = find_module ("cuModuleUnload", handle, &module);
  if (status == FAKE_CUDA_SUCCESS)
    status = fake_end_captures ();
  if (status == FAKE_CUDA_SUCCESS)
    g_ptr_array_remove_fast (modules, module);
  return status;
}

Status
cuModuleGetFunction (CUfunction *function, CUmodule handle, const char *name)
{
  Module *module;
  const Kernel *kernel;
  Status status;
  ENTER (cuModuleGetFunction);
  LOCKED;
  REQUIRE (function != NULL && name != NULL && *name != '\0', FAKE_CUDA_INVALID_VALUE);

  status = find_module ("cuModuleGetFunction", handle, &module);
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  kernel = find_kernel (module, name);
  *function = kernel != NULL ? kernel->handle : NULL;
  return kernel != NULL ? FAKE_CUDA_SUCCESS : FAKE_CUDA_NOT_FOUND;
}
