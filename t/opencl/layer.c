/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The loader calls clInitLayer () once, before any other call, and from then on sends the functions
 * of FUNCTIONS here first.  All is under one lock, never held across a call of the driver: a
 * pthread mutex, because the layer has nothing of the library and ThreadSanitizer sees that one. */

#include "layer-private.h"

#include <pthread.h>
#include <string.h>

#define STRING(name) #name,
#define MEMBER(name) .name = layer_##name,
#define REACH(name) entries = MAX (entries, offsetof (cl_icd_dispatch, name) / sizeof (void *) + 1);

static const gchar *const function_names[] = { FUNCTIONS (STRING) };

typedef struct
{
  guint64 budget;
  OpenclLayerPoint budget_point;
  cl_int budget_status;
  Function fail_function;
  guint fail_in; /* the call to fail, 1 being the next one; 0: none */
  gboolean fail_for_ever;
  cl_int fail_status;
  const gchar *failed;
  guint calls[N_FUNCTIONS];
} Settings;

/* A release that was made to fail. */
typedef struct
{
  gpointer handle;
  cl_int (*release) (gpointer handle);
} Refused;

const cl_icd_dispatch *_layer_driver;

/* Guards all below, and all in layer-info.c. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static Settings settings = { .budget = G_MAXUINT64 };
static GHashTable *ledger; /* handle -> Object, owned */
static GArray *refused;    /* of Refused */
static guint64 live_bytes;
static guint64 resident_bytes; /* of live buffers and of those being created */

pthread_mutex_t *
_layer_lock (void)
{
  pthread_mutex_lock (&mutex);
  return &mutex;
}

void
_layer_unlock (pthread_mutex_t **locked)
{
  pthread_mutex_unlock (*locked);
}

#define GETTER(type, name, expression)                                                             \
  static type name (void)                                                                          \
  {                                                                                                \
    LOCKED;                                                                                        \
                                                                                                   \
    return expression;                                                                             \
  }

GETTER (gboolean, is_loaded, _layer_driver != NULL)
GETTER (const gchar *, get_failed, settings.failed)
GETTER (guint64, get_live_bytes, live_bytes)

/* So that nothing has to ask whether they are there. */
static void __attribute__ ((constructor)) make_ledger (void)
{
  ledger = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  refused = g_array_new (FALSE, FALSE, sizeof (Refused));
}

/* The ledger and the budget; these three are called locked. */

static void
list_object (gpointer handle, const Object *object)
{
  Object *listed = g_new (Object, 1);

  *listed = *object;
  listed->references = 1;
  live_bytes += object->size;
  /* Two live objects with one handle: a release was not seen. */
  if (!g_hash_table_insert (ledger, handle, listed))
    g_error ("%p was created twice", handle);
}

static cl_int
make_resident (Object *object)
{
  if (object->is_resident)
    return CL_SUCCESS;
  if (resident_bytes > settings.budget || object->size > settings.budget - resident_bytes)
    return settings.budget_status;
  resident_bytes += object->size;
  object->is_resident = TRUE;
  return CL_SUCCESS;
}

/* What is counted where a command uses a buffer: that, or what it is a part of; NULL: not known. */
static Object *
find_whole (cl_mem buffer)
{
  Object *object = g_hash_table_lookup (ledger, buffer);

  return object == NULL || object->whole == NULL ? object
                                                 : g_hash_table_lookup (ledger, object->whole);
}

static cl_int
make_buffers_resident (const cl_mem *buffers, cl_uint n)
{
  LOCKED;
  cl_int status = CL_SUCCESS;

  for (cl_uint i = 0; buffers != NULL && i < n && status == CL_SUCCESS; i++)
    {
      Object *object = find_whole (buffers[i]);

      status = object == NULL ? CL_SUCCESS : make_resident (object);
    }
  return status;
}

static void
note_refused (gpointer handle, cl_int (*release) (gpointer handle))
{
  LOCKED;
  const Refused one = { handle, release };

  g_array_append_val (refused, one);
}

/* @lost, or NULL, is what _layer_drop_reference () returned. */
static void
add_reference (gpointer handle, const Object *lost)
{
  LOCKED;
  Object *object = g_hash_table_lookup (ledger, handle);

  if (object != NULL)
    object->references++;
  else if (lost != NULL && lost->references > 0)
    {
      list_object (handle, lost);
      resident_bytes += lost->is_resident ? lost->size : 0;
    }
}

Object
_layer_drop_reference (gpointer handle)
{
  LOCKED;
  Object *object = g_hash_table_lookup (ledger, handle);
  Object before = { .references = 0 };

  if (object == NULL)
    return before;
  before = *object;
  if (--object->references > 0)
    return before;
  live_bytes -= before.size;
  resident_bytes -= before.is_resident ? before.size : 0;
  g_hash_table_remove (ledger, handle);
  return before;
}

void
_layer_count (Function function)
{
  LOCKED;

  settings.calls[function]++;
}

cl_int
_layer_enter (Function function)
{
  LOCKED;

  settings.calls[function]++;
  if (settings.fail_in == 0
      || (settings.fail_function != function && settings.fail_function != N_FUNCTIONS))
    return CL_SUCCESS;
  if (settings.fail_in > 1)
    {
      settings.fail_in--;
      return CL_SUCCESS;
    }
  if (settings.failed == NULL)
    settings.failed = function_names[function];
  if (!settings.fail_for_ever)
    settings.fail_in = 0;
  return settings.fail_status;
}

cl_int
_layer_enter_create (Function function, Object *object)
{
  cl_int status = _layer_enter (function);
  LOCKED;

  if (status != CL_SUCCESS
      || (object->kind != OPENCL_LAYER_BUFFER && object->kind != OPENCL_LAYER_SVM)
      || settings.budget_point != OPENCL_LAYER_AT_CREATION)
    return status;
  return make_resident (object);
}

gpointer
_layer_leave_create (gpointer handle, const Object *object, cl_int status, cl_int *errcode_ret)
{
  LOCKED;

  if (handle != NULL)
    list_object (handle, object);
  else if (object->is_resident)
    resident_bytes -= object->size;
  if (errcode_ret != NULL)
    *errcode_ret = status;
  return handle;
}

/* The intercepted functions */

#define CREATE(name, type, kind, size, parameters, arguments)                                      \
  static type layer_##name parameters                                                              \
  {                                                                                                \
    Object object = { kind, size, FALSE, 0, NULL };                                                \
    cl_int status = _layer_enter_create (FUNCTION_##name, &object);                                \
    type handle = status == CL_SUCCESS ? _layer_driver->name arguments : NULL;                     \
                                                                                                   \
    return _layer_leave_create (handle, &object, status, errcode_ret);                             \
  }

#define RETAIN_RELEASE(noun, type)                                                                 \
  static cl_int layer_clRetain##noun (type handle)                                                 \
  {                                                                                                \
    cl_int status = _layer_enter (FUNCTION_clRetain##noun);                                        \
                                                                                                   \
    if (status == CL_SUCCESS && (status = _layer_driver->clRetain##noun (handle)) == CL_SUCCESS)   \
      add_reference (handle, NULL);                                                                \
    return status;                                                                                 \
  }                                                                                                \
                                                                                                   \
  static cl_int release_##noun (gpointer handle)                                                   \
  {                                                                                                \
    Object before = _layer_drop_reference (handle);                                                \
    cl_int status = _layer_driver->clRelease##noun (handle);                                       \
                                                                                                   \
    if (status != CL_SUCCESS)                                                                      \
      add_reference (handle, &before);                                                             \
    return status;                                                                                 \
  }                                                                                                \
                                                                                                   \
  static cl_int layer_clRelease##noun (type handle)                                                \
  {                                                                                                \
    cl_int status = _layer_enter (FUNCTION_clRelease##noun);                                       \
                                                                                                   \
    if (status == CL_SUCCESS)                                                                      \
      return release_##noun (handle);                                                              \
    note_refused (handle, release_##noun);                                                         \
    return status;                                                                                 \
  }

#define USE(name, buffers, n_buffers, parameters, arguments)                                       \
  static cl_int layer_##name parameters                                                            \
  {                                                                                                \
    cl_int status = _layer_enter (FUNCTION_##name);                                                \
                                                                                                   \
    if (status == CL_SUCCESS)                                                                      \
      status = make_buffers_resident (buffers, n_buffers);                                         \
    return status == CL_SUCCESS ? _layer_driver->name arguments : status;                          \
  }

typedef void (CL_CALLBACK *ContextNotify) (const char *, const void *, size_t, void *);
typedef void (CL_CALLBACK *BuildNotify) (cl_program, void *);

CREATE (clCreateBuffer, cl_mem, OPENCL_LAYER_BUFFER, size,
        (cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *errcode_ret),
        (context, flags, size, host, &status))
CREATE (clCreateContext, cl_context, OPENCL_LAYER_CONTEXT, 0,
        (const cl_context_properties *properties, cl_uint n, const cl_device_id *devices,
         ContextNotify notify, void *user_data, cl_int *errcode_ret),
        (properties, n, devices, notify, user_data, &status))
CREATE (clCreateContextFromType, cl_context, OPENCL_LAYER_CONTEXT, 0,
        (const cl_context_properties *properties, cl_device_type type, ContextNotify notify,
         void *user_data, cl_int *errcode_ret),
        (properties, type, notify, user_data, &status))
CREATE (clCreateCommandQueue, cl_command_queue, OPENCL_LAYER_QUEUE, 0,
        (cl_context context, cl_device_id device, cl_command_queue_properties properties,
         cl_int *errcode_ret),
        (context, device, properties, &status))
CREATE (clCreateCommandQueueWithProperties, cl_command_queue, OPENCL_LAYER_QUEUE, 0,
        (cl_context context, cl_device_id device, const cl_queue_properties *properties,
         cl_int *errcode_ret),
        (context, device, properties, &status))
CREATE (clCreateProgramWithSource, cl_program, OPENCL_LAYER_PROGRAM, 0,
        (cl_context context, cl_uint n, const char **sources, const size_t *lengths,
         cl_int *errcode_ret),
        (context, n, sources, lengths, &status))
CREATE (clCreateKernel, cl_kernel, OPENCL_LAYER_KERNEL, 0,
        (cl_program program, const char *name, cl_int *errcode_ret), (program, name, &status))

static cl_mem
layer_clCreateSubBuffer (cl_mem buffer, cl_mem_flags flags, cl_buffer_create_type type,
                         const void *info, cl_int *errcode_ret)
{
  Object object = { .kind = OPENCL_LAYER_PART, .whole = buffer };
  cl_int status = _layer_enter_create (FUNCTION_clCreateSubBuffer, &object);
  cl_mem part = status == CL_SUCCESS
                    ? _layer_driver->clCreateSubBuffer (buffer, flags, type, info, &status)
                    : NULL;

  return _layer_leave_create (part, &object, status, errcode_ret);
}

/* Counts a new image's bytes against the budget, if it is time for that. */
static cl_int
count_image (cl_mem image, Object *object)
{
  size_t size = 0;
  cl_int status = _layer_driver->clGetMemObjectInfo (image, CL_MEM_SIZE, sizeof size, &size, NULL);
  LOCKED;

  object->size = size;
  if (status == CL_SUCCESS && settings.budget_point == OPENCL_LAYER_AT_CREATION)
    status = make_resident (object);
  return status;
}

static cl_mem
layer_clCreateImage (cl_context context, cl_mem_flags flags, const cl_image_format *format,
                     const cl_image_desc *desc, void *host, cl_int *errcode_ret)
{
  Object object = { .kind = OPENCL_LAYER_IMAGE };
  cl_int status = _layer_enter_create (FUNCTION_clCreateImage, &object);
  cl_mem image = status == CL_SUCCESS
                     ? _layer_driver->clCreateImage (context, flags, format, desc, host, &status)
                     : NULL;

  if (image != NULL && (status = count_image (image, &object)) != CL_SUCCESS)
    {
      _layer_driver->clReleaseMemObject (image);
      image = NULL;
    }
  return _layer_leave_create (image, &object, status, errcode_ret);
}

RETAIN_RELEASE (Context, cl_context)
RETAIN_RELEASE (CommandQueue, cl_command_queue)
RETAIN_RELEASE (Event, cl_event)
RETAIN_RELEASE (Kernel, cl_kernel)
RETAIN_RELEASE (MemObject, cl_mem)
RETAIN_RELEASE (Program, cl_program)

USE (clBuildProgram, NULL, 0,
     (cl_program program, cl_uint n, const cl_device_id *devices, const char *options,
      BuildNotify notify, void *user_data),
     (program, n, devices, options, notify, user_data))
USE (clEnqueueFillBuffer, &buffer, 1,
     (cl_command_queue queue, cl_mem buffer, const void *pattern, size_t pattern_size,
      size_t offset, size_t size, cl_uint n_waits, const cl_event *waits, cl_event *event),
     (queue, buffer, pattern, pattern_size, offset, size, n_waits, waits, event))
USE (clEnqueueFillImage, &image, 1,
     (cl_command_queue queue, cl_mem image, const void *color, const size_t *origin,
      const size_t *region, cl_uint n_waits, const cl_event *waits, cl_event *event),
     (queue, image, color, origin, region, n_waits, waits, event))
USE (clEnqueueMigrateMemObjects, buffers, n,
     (cl_command_queue queue, cl_uint n, const cl_mem *buffers, cl_mem_migration_flags flags,
      cl_uint n_waits, const cl_event *waits, cl_event *event),
     (queue, n, buffers, flags, n_waits, waits, event))
USE (clEnqueueWriteBuffer, &buffer, 1,
     (cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size,
      const void *host, cl_uint n_waits, const cl_event *waits, cl_event *event),
     (queue, buffer, blocking, offset, size, host, n_waits, waits, event))
USE (clEnqueueReadBuffer, &buffer, 1,
     (cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size,
      void *host, cl_uint n_waits, const cl_event *waits, cl_event *event),
     (queue, buffer, blocking, offset, size, host, n_waits, waits, event))
USE (clSetEventCallback, NULL, 0,
     (cl_event event, cl_int type, void (CL_CALLBACK *notify) (cl_event, cl_int, void *),
      void *user_data),
     (event, type, notify, user_data))
USE (clGetCommandQueueInfo, NULL, 0,
     (cl_command_queue queue, cl_command_queue_info name, size_t size, void *value,
      size_t *size_ret),
     (queue, name, size, value, size_ret))

USE (clGetDeviceIDs, NULL, 0,
     (cl_platform_id platform, cl_device_type type, cl_uint n, cl_device_id *devices,
      cl_uint *n_ret),
     (platform, type, n, devices, n_ret))
USE (clWaitForEvents, NULL, 0, (cl_uint n, const cl_event *events), (n, events))

static cl_int
layer_clEnqueueNDRangeKernel (cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const size_t *offset, const size_t *global, const size_t *local,
                              cl_uint n_waits, const cl_event *waits, cl_event *event)
{
  const Object object = { .kind = OPENCL_LAYER_EVENT };
  cl_int status = _layer_enter (FUNCTION_clEnqueueNDRangeKernel);

  if (status == CL_SUCCESS)
    status = _layer_driver->clEnqueueNDRangeKernel (queue, kernel, dimensions, offset, global,
                                                    local, n_waits, waits, event);
  if (status == CL_SUCCESS && event != NULL)
    _layer_leave_create (*event, &object, status, NULL);
  return status;
}

/* What tests call */

Function
_layer_find_function (const gchar *name)
{
  Function function = 0;

  if (name == NULL)
    return N_FUNCTIONS;
  while (function < N_FUNCTIONS && strcmp (function_names[function], name) != 0)
    function++;
  if (function == N_FUNCTIONS)
    g_error ("%s is not intercepted", name);
  return function;
}

static void
reset (void)
{
  LOCKED;

  _layer_forget_answers ();
  settings = (Settings){ .budget = G_MAXUINT64 };
}

static void
set_budget (guint64 bytes, OpenclLayerPoint point, cl_int status)
{
  LOCKED;

  settings.budget = bytes;
  settings.budget_point = point;
  settings.budget_status = status;
}

static void
fail (const gchar *name, guint nth, gboolean for_ever, cl_int status)
{
  LOCKED;

  settings.fail_function = _layer_find_function (name);
  settings.fail_in = nth;
  settings.fail_for_ever = for_ever;
  settings.fail_status = status;
  settings.failed = NULL;
}

static guint
get_calls (const gchar *name)
{
  LOCKED;
  Function function = _layer_find_function (name);
  guint calls = 0;

  for (guint i = 0; i < N_FUNCTIONS; i++)
    calls += function == i || function == N_FUNCTIONS ? settings.calls[i] : 0;
  return calls;
}

static guint
get_live (OpenclLayerKind kind, gpointer *objects, guint n)
{
  LOCKED;
  GHashTableIter iter;
  gpointer handle, object;
  guint live = 0;

  g_hash_table_iter_init (&iter, ledger);
  while (g_hash_table_iter_next (&iter, &handle, &object))
    if (((Object *) object)->kind == kind && live++ < n)
      objects[live - 1] = handle;
  return live;
}

static gboolean
take_refused (Refused *one)
{
  LOCKED;

  if (refused->len == 0)
    return FALSE;
  *one = g_array_index (refused, Refused, refused->len - 1);
  g_array_set_size (refused, refused->len - 1);
  return TRUE;
}

static guint
release_refused (void)
{
  guint n = 0;
  Refused one;

  while (take_refused (&one))
    n += one.release (one.handle) == CL_SUCCESS;
  return n;
}

static guint
get_references (gconstpointer handle)
{
  LOCKED;
  const Object *object = g_hash_table_lookup (ledger, handle);

  return object == NULL ? 0 : object->references;
}

const OpenclLayer *
tarn_opencl_layer (void)
{
  static const OpenclLayer layer = {
    .is_loaded = is_loaded,
    .reset = reset,
    .set_budget = set_budget,
    .fail = fail,
    .get_failed = get_failed,
    .get_calls = get_calls,
    .set_device_info = _layer_set_device_info,
    .set_platform_info = _layer_set_platform_info,
    .set_info = _layer_set_info,
    .refuse_info = _layer_refuse_info,
    .set_clock = _layer_set_clock,
    .get_live = get_live,
    .get_live_bytes = get_live_bytes,
    .get_references = get_references,
    .release_refused = release_refused,
  };

  return &layer;
}

/* What the loader calls */

cl_int
clGetLayerInfo (cl_layer_info name, size_t size, void *value, size_t *size_ret)
{
  static const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
  static const gchar layer_name[] = "tarn-test";

  if (name == CL_LAYER_API_VERSION)
    return _layer_answer (&version, sizeof version, size, value, size_ret);
  if (name == CL_LAYER_NAME)
    return _layer_answer (layer_name, sizeof layer_name, size, value, size_ret);
  return CL_INVALID_VALUE;
}

/* A loader has as many entries as its own version of the header, and takes its own for one that is
 * NULL or beyond the end: the table need not be complete, nor longer than the functions here. */
cl_int
clInitLayer (cl_uint n, const cl_icd_dispatch *target, cl_uint *n_ret,
             const cl_icd_dispatch **dispatch)
{
  static const cl_icd_dispatch intercepted = { FUNCTIONS (MEMBER) };
  LOCKED;
  cl_uint entries = 0;

  FUNCTIONS (REACH);
  if (n < entries)
    return CL_INVALID_VALUE;
  _layer_driver = target;
  *n_ret = entries;
  *dispatch = &intercepted;
  return CL_SUCCESS;
}
