/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The functions by which an OpenCL loader starts this layer (cl_loader_layers, the extension for
 * layers), the table of the functions that the layer intercepts, and messages. */

#define _GNU_SOURCE /* makes <dlfcn.h> declare dladdr () */
#include "faults-private.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

const cl_icd_dispatch *_tarn_layer_functions;
LayerCounts _tarn_layer_counts;

static gboolean is_blind; /* atomic; the value that _tarn_layer_is_blind () returns */

/* Functions that print messages and statistics, and answer queries */

void
_tarn_layer_warn (gboolean *once, const gchar *format, ...)
{
  g_autofree gchar *message = NULL;
  va_list arguments;

  if (__atomic_exchange_n (once, TRUE, __ATOMIC_RELAXED))
    return;
  va_start (arguments, format);
  message = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_printerr ("libtarn-layer: %s\n", message);
}

/* Returns the value of a counter in LayerCounts. */
static gsize
get_count (const gsize *count)
{
  return __atomic_load_n (count, __ATOMIC_RELAXED);
}

/* Prints the numbers of images, and the total size of the images as a percentage of the total size
 * of the program's images and buffers. */
static void
print_image_stats (void)
{
  const LayerCounts *counts = &_tarn_layer_counts;
  guint64 images = __atomic_load_n (&counts->image_bytes, __ATOMIC_RELAXED);
  guint64 buffers = __atomic_load_n (&counts->buffer_bytes, __ATOMIC_RELAXED);

  g_printerr ("%12s %12s %12s %12s %12s %12s\n"
              "%12" G_GSIZE_FORMAT " %12" G_GSIZE_FORMAT " %12" G_GSIZE_FORMAT " %12" G_GSIZE_FORMAT
              " %12" G_GSIZE_FORMAT " %11.1f%%\n",
              "images", "from a pool", "driver's own", "pool's", "failed", "of all bytes",
              get_count (&counts->images_created), get_count (&counts->images_served),
              get_count (&counts->images_passed_on), get_count (&counts->pool_images),
              get_count (&counts->images_failed),
              100.0 * (gdouble) images / MAX (1.0, (gdouble) images + (gdouble) buffers));
}

/* Prints for each reason the number of the program's buffers that the driver, not a pool, made for
 * this reason.  Prints nothing if TARN_LAYER_POOL turns pools off. */
static void
print_reasons (void)
{
  for (guint i = 0; i < LAYER_N_REASONS && _tarn_layer_get_settings ()->uses_pool; i++)
    {
      gsize n = get_count (&_tarn_layer_counts.reasons[i]);

      if (n > 0)
        g_printerr ("driver's own: %" G_GSIZE_FORMAT " %s\n", n,
                    _tarn_layer_describe_reason ((LayerReason) i));
    }
}

/* Runs at exit: prints the table of TARN_LAYER_STATS.  Prints nothing in a child of fork (). */
static void
print_stats (void)
{
  const LayerCounts *counts = &_tarn_layer_counts;
  gsize svm_failed = get_count (&counts->svm_failed);

  if (!tarn_check_fork (NULL))
    return;
  g_printerr ("Tarn: OpenCL buffers\n"
              "%12s %12s %12s %12s %12s\n"
              "%12" G_GSIZE_FORMAT " %12" G_GSIZE_FORMAT " %12" G_GSIZE_FORMAT " %12" G_GSIZE_FORMAT
              " %12" G_GSIZE_FORMAT "\n",
              "made", "from a pool", "driver's own", "pool's", "failed",
              get_count (&counts->created), get_count (&counts->served),
              get_count (&counts->passed_on), get_count (&counts->pieces),
              get_count (&counts->failed));
  print_reasons ();
  if (svm_failed > 0)
    g_printerr ("failed requests for shared virtual memory: %" G_GSIZE_FORMAT "\n", svm_failed);
  if (get_count (&counts->images_created) > 0 || get_count (&counts->images_failed) > 0)
    print_image_stats ();
}

cl_int
_tarn_layer_answer (gconstpointer from, gsize from_size, gsize size, gpointer value,
                    size_t *size_ret)
{
  if (value != NULL && size < from_size)
    return CL_INVALID_VALUE;
  if (value != NULL)
    memcpy (value, from, from_size);
  if (size_ret != NULL)
    *size_ret = from_size;
  return CL_SUCCESS;
}

/* Functions that answer when the program asks for a function by its name */

gboolean
_tarn_layer_is_blind (void)
{
  return __atomic_load_n (&is_blind, __ATOMIC_ACQUIRE);
}

#define STRING(name) #name,
#define ADDRESS(name) (void *) layer_##name,

static gboolean has_faults;      /* TRUE if fault injection is on; constant after clInitLayer () */
static cl_icd_dispatch dispatch; /* the layer's functions; constant after clInitLayer () */

/* Returns the layer's function with this name.  Returns NULL if the layer does not intercept the
 * function. */
static void *
find_layer_function (const gchar *name)
{
  static const gchar *const names[] = { LAYER_FUNCTIONS (STRING) };
  static void *const functions[] = { LAYER_FUNCTIONS (ADDRESS) };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (g_str_equal (name, names[i]))
      return functions[i];
  return NULL;
}

/* Returns the function that the program gets instead of the driver's function with this name.  If
 * fault injection has such a function, returns that function, which may fail.  Otherwise returns
 * the layer's function, or NULL if the layer has none. */
static void *
find_own (const gchar *name)
{
  const gchar *known = g_str_equal (name, "clCreateCommandQueueWithPropertiesKHR")
                           ? "clCreateCommandQueueWithProperties"
                           : name;
  void *fault = has_faults ? _tarn_layer_find_fault_call (known) : NULL;

  return fault != NULL ? fault : find_layer_function (known);
}

/* Returns TRUE if an extension's function with this name may use buffers without the layer's
 * knowledge.  Such a name says that the function enqueues or records commands.  If the name also
 * says that the commands use other kinds of memory, such as SVM or OpenGL's objects, returns
 * FALSE. */
static gboolean
may_use_buffers (const gchar *name)
{
  static const gchar *const harmless[]
      = { "GL",     "EGL",    "D3D",     "DX9",       "VA_API",         "SVM",
          "Memcpy", "Memset", "MemFill", "MemAdvise", "MigrateMemINTEL" };

  if (!g_str_has_prefix (name, "clEnqueue") && !g_str_has_prefix (name, "clCommand")
      && !g_str_has_prefix (name, "clCreateCommand") && !g_str_has_prefix (name, "clCreatePerf"))
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (harmless); i++)
    if (strstr (name, harmless[i]) != NULL)
      return FALSE;
  return TRUE;
}

/* Returns the function that the program gets when it asks for a function by its name.  @function:
 * the driver's answer.  If the layer does not know the function, and the function may use buffers,
 * the driver makes all new buffers from now on (_tarn_layer_is_blind ()). */
static void *
choose (const char *name, void *function)
{
  static gboolean once;
  void *own = function != NULL && name != NULL ? find_own (name) : NULL;

  if (own != NULL || function == NULL || name == NULL || !may_use_buffers (name))
    return own != NULL ? own : function;
  __atomic_store_n (&is_blind, TRUE, __ATOMIC_RELEASE);
  _tarn_layer_warn (&once,
                    "the program uses %s, which the layer does not know: buffers are the "
                    "driver's from now on",
                    name);
  return function;
}

void *CL_API_CALL
layer_clGetExtensionFunctionAddressForPlatform (cl_platform_id platform, const char *name)
{
  return choose (name,
                 _tarn_layer_driver->clGetExtensionFunctionAddressForPlatform (platform, name));
}

/* Passes clGetExtensionFunctionAddress () on to the driver, and may replace the function that the
 * driver returns (see choose ()).  This call of OpenCL 1.1 has no argument for a platform. */
void *CL_API_CALL
layer_clGetExtensionFunctionAddress (const char *name)
{
  return choose (name, _tarn_layer_driver->clGetExtensionFunctionAddress (name));
}

/* The functions that the loader calls */

cl_int CL_API_CALL
clGetLayerInfo (cl_layer_info name, size_t size, void *value, size_t *size_ret)
{
  static const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
  static const gchar layer_name[] = "tarn";

  if (name == CL_LAYER_API_VERSION)
    return _tarn_layer_answer (&version, sizeof version, size, value, size_ret);
  if (name == CL_LAYER_NAME)
    return _tarn_layer_answer (layer_name, sizeof layer_name, size, value, size_ret);
  return CL_INVALID_VALUE;
}

#define MEMBER(name) dispatch.name = target->name != NULL ? layer_##name : NULL;
#define REACH(name) entries = MAX (entries, offsetof (cl_icd_dispatch, name) / sizeof (void *) + 1);

/* Keeps the library that contains an address loaded until the process ends. */
static void
keep_loaded (const void *address)
{
  Dl_info library;

  if (dladdr (address, &library) != 0 && library.dli_fname != NULL)
    (void) dlopen (library.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/* Sets up the layer, once in a process.  @target: the loader's functions, which call the driver. */
static void
begin (const cl_icd_dispatch *target)
{
  LAYER_FUNCTIONS (MEMBER);
  _tarn_layer_read_settings ();
  _tarn_layer_functions = target;
  has_faults = _tarn_layer_faults_begin ();
  if (has_faults)
    _tarn_layer_faults_cover (&dispatch, target);
  if (_tarn_layer_get_settings ()->prints_stats)
    atexit (print_stats);
  _tarn_layer_report_begin ();
}

/* Starts the layer: the loader passes its functions as @target, and gets the layer's functions in
 * *dispatch_ret.
 *
 * The number of entries in a table of functions depends on the version of the OpenCL headers, so
 * the loader's table may be longer or shorter than the layer's.  The loader uses its own function
 * if the layer's entry is NULL or missing.
 *
 * A program may unload the loader while commands still run.  The layer has work to do when these
 * commands are done, so it keeps the loader loaded, and any layer between the loader and this one.
 *
 * A process may have two loaders, and each calls this function.  The layer calls only the first
 * loader's functions.  They work with handles from both loaders, because each handle refers to its
 * own driver. */
cl_int CL_API_CALL
clInitLayer (cl_uint n, const cl_icd_dispatch *target, cl_uint *n_ret,
             const cl_icd_dispatch **dispatch_ret)
{
  static gsize has_begun;
  cl_uint entries = 0;

  if (target == NULL || n_ret == NULL || dispatch_ret == NULL)
    return CL_INVALID_VALUE;
  LAYER_FUNCTIONS (REACH);
  if (n < entries)
    return CL_INVALID_VALUE;
  keep_loaded (__builtin_return_address (0));
  keep_loaded ((const void *) target->clGetPlatformIDs);
  if (g_once_init_enter (&has_begun))
    {
      begin (target);
      g_once_init_leave (&has_begun, 1);
    }
  *n_ret = entries;
  *dispatch_ret = &dispatch;
  return CL_SUCCESS;
}
