/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The layer's answers: what clGet...Info () is pretended to say, and the time that a clock says
 * that a command takes. */

#include "layer-private.h"

#include <string.h>

/* An answer that the test wants clGet...Info () to give.  The key is made by choose_key (). */
typedef struct
{
  gint64 key;
  GBytes *bytes; /* owned; NULL: status is the answer */
  cl_int status;
} Answer;

static GHashTable *answers;         /* a set of Answer, owned; NULL: all the driver's */
static OpenclLayerClock test_clock; /* NULL: the driver's times */
static cl_uint arguments[OPENCL_LAYER_ARGUMENTS];

void
_layer_forget_answers (void)
{
  g_clear_pointer (&answers, g_hash_table_unref);
  test_clock = NULL;
  memset (arguments, 0, sizeof arguments);
}

cl_int
layer_clSetKernelArg (cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
  cl_int status = _layer_enter (FUNCTION_clSetKernelArg);

  if (status == CL_SUCCESS)
    status = _layer_driver->clSetKernelArg (kernel, index, size, value);
  if (status == CL_SUCCESS && index < OPENCL_LAYER_ARGUMENTS && size == sizeof (cl_uint)
      && value != NULL)
    {
      LOCKED;

      memcpy (&arguments[index], value, size);
    }
  return status;
}

/* Reads the test's clock at the start or the @end of a command: at its end, gets the time that a
 * command with the latest arguments takes, before it 0.  Returns FALSE if there is no clock. */
static gboolean
read_clock (gboolean end, guint64 *nanoseconds)
{
  LOCKED;

  if (test_clock == NULL)
    return FALSE;
  *nanoseconds = end ? test_clock (arguments) : 0;
  return TRUE;
}

cl_int
_layer_answer (gconstpointer from, gsize from_size, gsize size, gpointer value, size_t *size_ret)
{
  if (value != NULL && size < from_size)
    return CL_INVALID_VALUE;
  if (value != NULL)
    memcpy (value, from, from_size);
  if (size_ret != NULL)
    *size_ret = from_size;
  return CL_SUCCESS;
}

cl_int
layer_clGetEventProfilingInfo (cl_event event, cl_profiling_info name, size_t size, void *value,
                               size_t *size_ret)
{
  cl_int status = _layer_enter (FUNCTION_clGetEventProfilingInfo);
  guint64 nanoseconds;

  if (status == CL_SUCCESS)
    status = _layer_driver->clGetEventProfilingInfo (event, name, size, value, size_ret);
  if (status != CL_SUCCESS || !read_clock (name == CL_PROFILING_COMMAND_END, &nanoseconds))
    return status;
  return _layer_answer (&nanoseconds, sizeof nanoseconds, size, value, size_ret);
}

static gint64
choose_key (Function function, cl_uint name)
{
  return (gint64) function << 32 | name;
}

/* Looks up the answer that the test wants: returns a status, or gets bytes, which the caller
 * releases, or does neither. */
static cl_int
look_up (Function function, cl_uint name, GBytes **bytes)
{
  LOCKED;
  gint64 key = choose_key (function, name);
  const Answer *pretended = NULL;

  if (answers != NULL)
    pretended = g_hash_table_lookup (answers, &key);
  if (pretended == NULL)
    return CL_SUCCESS;
  *bytes = pretended->bytes != NULL ? g_bytes_ref (pretended->bytes) : NULL;
  return pretended->status;
}

/* clGet...Info () of an object, or of two; whether there are such objects is for the driver to say,
 * asked for what every driver knows. */
#define SPLICE(...) __VA_ARGS__
#define ASK(function, known, objects, ...)                                                         \
  cl_int layer_##function (__VA_ARGS__, cl_uint name, size_t size, void *value, size_t *size_ret)  \
  {                                                                                                \
    g_autoptr (GBytes) bytes = NULL;                                                               \
    cl_int status = _layer_enter (FUNCTION_##function);                                            \
                                                                                                   \
    if (status == CL_SUCCESS)                                                                      \
      status = look_up (FUNCTION_##function, name, &bytes);                                        \
    if (status != CL_SUCCESS)                                                                      \
      return status;                                                                               \
    if (bytes == NULL)                                                                             \
      return _layer_driver->function (SPLICE objects, name, size, value, size_ret);                \
    status = _layer_driver->function (SPLICE objects, known, 0, NULL, NULL);                       \
    if (status != CL_SUCCESS)                                                                      \
      return status;                                                                               \
    return _layer_answer (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), size, value,   \
                          size_ret);                                                               \
  }

ASK (clGetDeviceInfo, CL_DEVICE_TYPE, (device), cl_device_id device)
ASK (clGetKernelInfo, CL_KERNEL_NUM_ARGS, (kernel), cl_kernel kernel)
ASK (clGetKernelWorkGroupInfo, CL_KERNEL_WORK_GROUP_SIZE, (kernel, device), cl_kernel kernel,
     cl_device_id device)
ASK (clGetMemObjectInfo, CL_MEM_TYPE, (object), cl_mem object)
ASK (clGetPlatformInfo, CL_PLATFORM_NAME, (platform), cl_platform_id platform)
ASK (clGetProgramBuildInfo, CL_PROGRAM_BUILD_STATUS, (program, device), cl_program program,
     cl_device_id device)

static void
answer_free (gpointer item)
{
  Answer *pretended = item;

  g_clear_pointer (&pretended->bytes, g_bytes_unref);
  g_free (pretended);
}

/* Takes bytes. */
static void
pretend (Function function, cl_uint name, GBytes *bytes, cl_int status)
{
  LOCKED;
  Answer *pretended = g_new (Answer, 1);

  *pretended = (Answer){ choose_key (function, name), bytes, status };
  if (answers == NULL)
    answers = g_hash_table_new_full (g_int64_hash, g_int64_equal, NULL, answer_free);
  g_hash_table_replace (answers, &pretended->key, pretended);
}

void
_layer_set_info (const gchar *function, cl_uint name, gconstpointer value, gsize size)
{
  pretend (_layer_find_function (function), name, g_bytes_new (value, size), CL_SUCCESS);
}

void
_layer_refuse_info (const gchar *function, cl_uint name, cl_int status)
{
  pretend (_layer_find_function (function), name, NULL, status);
}

void
_layer_set_device_info (cl_device_info name, gconstpointer value, gsize size)
{
  _layer_set_info ("clGetDeviceInfo", name, value, size);
}

void
_layer_set_platform_info (cl_platform_info name, gconstpointer value, gsize size)
{
  _layer_set_info ("clGetPlatformInfo", name, value, size);
}

void
_layer_set_clock (OpenclLayerClock clock)
{
  LOCKED;

  test_clock = clock;
}
