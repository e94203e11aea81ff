/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memos for the contexts, queues and devices of OpenCL, on each device: how often a value is
 * computed, and that no memo keeps an object once it is cleared.  memo-faults.c tests errors, and
 * memo-threads.c threads. */

#define _GNU_SOURCE 1 /* RTLD_DEFAULT */

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "device.h"
#include "kernels.h"

static const gchar source[]
    = "kernel void fill (global int *out, int a) { out[get_global_id (0)] = a; }\n"
      "kernel void scale (global int *out, int a) { out[get_global_id (0)] *= a; }\n";

#define N_ITEMS 64

/* Memos that count */

typedef struct
{
  guint computed, released;
} Counts;

static gpointer
count_computation (gpointer first_arg, gconstpointer key, gpointer data, GError **error)
{
  Counts *counts = data;

  (void) key;
  (void) error;
  g_assert_nonnull (first_arg);
  counts->computed++;
  return counts;
}

static void
count_release (gpointer data, gpointer value, gpointer first_arg, gboolean is_dead)
{
  Counts *counts = data;

  g_assert_true (value == counts);
  g_assert_nonnull (first_arg);
  g_assert_false (is_dead);
  counts->released++;
}

typedef TarnMemo *(*Constructor) (const TarnMemoOps *ops, TarnMemoFunc func, gpointer user_data,
                                  GDestroyNotify destroy);

static TarnMemo *
counting_memo_new (Constructor constructor, Counts *counts)
{
  TarnMemoOps ops = TARN_MEMO_OPS_INIT;

  ops.unref_value = count_release;
  return constructor (&ops, count_computation, counts, NULL);
}

static void
get_counts (TarnMemo *memo, gpointer first_arg, const Counts *counts)
{
  g_autoptr (GError) error = NULL;
  gpointer value = NULL;

  g_assert_true (tarn_memo_get (memo, first_arg, NULL, &value, &error));
  g_assert_no_error (error);
  g_assert_true (value == counts);
}

/* PyOpenCL's test_context_dep_memoize. */
static void
test_context_dep_memoize (const TarnOpenclDevice *device, OpenclState *state)
{
  Counts counts = { 0 };
  g_autoptr (TarnMemo) memo = counting_memo_new (tarn_opencl_context_memo_new, &counts);
  cl_context other = opencl_context_new (device);

  for (guint i = 0; i < 2; i++)
    get_counts (memo, state->context, &counts);
  g_assert_cmpuint (counts.computed, ==, 1);
  for (guint i = 0; i < 2; i++)
    get_counts (memo, other, &counts);
  g_assert_cmpuint (counts.computed, ==, 2);
  g_assert_cmpuint (counts.released, ==, 0);
  tarn_memo_clear_all ();
  g_assert_cmpuint (counts.released, ==, 2);
  opencl_context_release (other);
  get_counts (memo, state->context, &counts);
  g_assert_cmpuint (counts.computed, ==, 3);
}

/* A memo without functions of its own is of pointers, which are nobody's. */
static void
test_no_ops (const TarnOpenclDevice *device, OpenclState *state)
{
  Counts counts = { 0 };
  g_autoptr (TarnMemo) memo = tarn_opencl_context_memo_new (NULL, count_computation, &counts, NULL);

  (void) device;
  get_counts (memo, state->context, &counts);
  get_counts (memo, state->context, &counts);
  g_assert_cmpuint (counts.computed, ==, 1);
  /* Also where nobody wants the value. */
  g_assert_true (tarn_memo_get (memo, state->context, NULL, NULL, NULL));
  g_assert_cmpuint (counts.computed, ==, 1);
}

static gpointer
ref_anything (gpointer unused, gpointer first_arg)
{
  (void) unused;
  return first_arg;
}

/* What a first argument is, is not the caller's to say. */
static void
test_foreign_ops (const TarnOpenclDevice *device, OpenclState *state)
{
  static const Constructor constructors[]
      = { tarn_opencl_context_memo_new, tarn_opencl_queue_memo_new, tarn_opencl_device_memo_new };

  (void) device;
  (void) state;
  for (gsize i = 0; i < 2 * G_N_ELEMENTS (constructors); i++)
    {
      TarnMemoOps ops = TARN_MEMO_OPS_INIT;

      if (i % 2 == 0)
        ops.first_arg_kind = "mine";
      else
        ops.ref_first_arg = ref_anything;
      g_test_expect_message ("Tarn-OpenCL", G_LOG_LEVEL_CRITICAL, "*has_only_keys_and_values*");
      g_assert_null (constructors[i / 2](&ops, count_computation, NULL, NULL));
      g_test_assert_expected_messages ();
    }
}

/* There is no current object, so NULL stands for none. */
static void
test_null_first_arg (const TarnOpenclDevice *device, OpenclState *state)
{
  static const Constructor constructors[]
      = { tarn_opencl_context_memo_new, tarn_opencl_queue_memo_new, tarn_opencl_device_memo_new };

  (void) device;
  (void) state;
  for (gsize i = 0; i < G_N_ELEMENTS (constructors); i++)
    {
      Counts counts = { 0 };
      g_autoptr (TarnMemo) memo = counting_memo_new (constructors[i], &counts);
      g_autoptr (GError) error = NULL;
      gpointer value = &counts;

      g_assert_false (tarn_memo_get (memo, NULL, NULL, &value, &error));
      g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
      g_assert_true (value == &counts);
      g_assert_cmpuint (counts.computed, ==, 0);
    }
}

static void
test_null_kernel_key (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnMemo) kernels = tarn_opencl_kernel_memo_new ();

  (void) device;
  g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, "*key != NULL*");
  g_assert_false (tarn_memo_get (kernels, state->context, NULL, NULL, NULL));
  g_test_assert_expected_messages ();
  g_assert_cmpuint (opencl_count_entries (kernels), ==, 0);
}

/* References */

static cl_uint
queue_references (cl_command_queue queue)
{
  cl_uint references = 0;

  g_assert_cmpint (
      clGetCommandQueueInfo (queue, CL_QUEUE_REFERENCE_COUNT, sizeof references, &references, NULL),
      ==, CL_SUCCESS);
  return references;
}

static void
test_queue_memo (const TarnOpenclDevice *device, OpenclState *state)
{
  Counts counts = { 0 };
  g_autoptr (TarnMemo) memo = counting_memo_new (tarn_opencl_queue_memo_new, &counts);

  (void) device;
  get_counts (memo, state->queue, &counts);
  get_counts (memo, state->queue, &counts);
  g_assert_cmpuint (counts.computed, ==, 1);
  g_assert_cmpuint (queue_references (state->queue), ==, 2);
  tarn_memo_clear_kind ("opencl-context");
  g_assert_cmpuint (counts.released, ==, 0);
  tarn_memo_clear_kind ("opencl-queue");
  g_assert_cmpuint (counts.released, ==, 1);
  g_assert_cmpuint (queue_references (state->queue), ==, 1);
}

/* Mesa's rusticl, which cannot, has no clCreateSubDevices () to be called. */
static gboolean
can_be_parted (const TarnOpenclDevice *device)
{
  cl_device_partition_property ways[16] = { 0 };
  gboolean is_found = FALSE;

  clGetDeviceInfo (device->device, CL_DEVICE_PARTITION_PROPERTIES, sizeof ways, ways, NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (ways); i++)
    is_found = is_found || ways[i] == CL_DEVICE_PARTITION_EQUALLY;
  return is_found;
}

/* One that has references: those of the whole device count nothing.  NULL: it cannot be parted. */
static cl_device_id
sub_device_new (const TarnOpenclDevice *device)
{
  const cl_device_partition_property properties[] = { CL_DEVICE_PARTITION_EQUALLY, 1, 0 };
  cl_device_id parts[1024];
  cl_uint n = 0;

  if (!can_be_parted (device)
      || clCreateSubDevices (device->device, properties, G_N_ELEMENTS (parts), parts, &n)
             != CL_SUCCESS
      || n == 0)
    {
      g_test_skip ("this device cannot be parted");
      return NULL;
    }
  for (cl_uint i = 1; i < n; i++)
    clReleaseDevice (parts[i]);
  return parts[0];
}

static cl_uint
device_references (cl_device_id device)
{
  cl_uint references = 0;

  g_assert_cmpint (
      clGetDeviceInfo (device, CL_DEVICE_REFERENCE_COUNT, sizeof references, &references, NULL), ==,
      CL_SUCCESS);
  return references;
}

static void
test_device_memo (const TarnOpenclDevice *device, OpenclState *state)
{
  Counts counts = { 0 };
  g_autoptr (TarnMemo) memo = counting_memo_new (tarn_opencl_device_memo_new, &counts);
  cl_device_id part = sub_device_new (device);

  (void) state;
  get_counts (memo, device->device, &counts);
  tarn_memo_forget (memo, device->device);
  g_assert_cmpuint (counts.released, ==, 1);
  if (part == NULL)
    return;
  get_counts (memo, part, &counts);
  g_assert_cmpuint (device_references (part), ==, 2);
  tarn_memo_forget_everywhere (part);
  g_assert_cmpuint (counts.released, ==, 2);
  g_assert_cmpuint (device_references (part), ==, 1);
  g_assert_cmpint (clReleaseDevice (part), ==, CL_SUCCESS);
}

/* Kernels */

/* Fills a buffer on a queue, each of its own. */
static void
run_fill (TarnMemo *kernels, cl_context context, const TarnOpenclDevice *device, cl_int a)
{
  const gsize n = N_ITEMS;
  TarnOpenclKernelKey key = opencl_kernel_key (device, source, "fill");
  cl_kernel kernel = opencl_get_kernel (kernels, context, &key);
  cl_int status, out[N_ITEMS];
  cl_command_queue queue = clCreateCommandQueue (context, device->device, 0, &status);
  cl_mem buffer = clCreateBuffer (context, CL_MEM_READ_WRITE, sizeof out, NULL, &status);

  g_assert_cmpint (status, ==, CL_SUCCESS);
  g_assert_cmpint (clSetKernelArg (kernel, 0, sizeof buffer, &buffer), ==, CL_SUCCESS);
  g_assert_cmpint (clSetKernelArg (kernel, 1, sizeof a, &a), ==, CL_SUCCESS);
  status = clEnqueueNDRangeKernel (queue, kernel, 1, NULL, &n, NULL, 0, NULL, NULL);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  status = clEnqueueReadBuffer (queue, buffer, CL_TRUE, 0, sizeof out, out, 0, NULL, NULL);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  for (guint i = 0; i < N_ITEMS; i++)
    g_assert_cmpint (out[i], ==, a);
  g_assert_cmpint (clReleaseMemObject (buffer), ==, CL_SUCCESS);
  g_assert_cmpint (clReleaseCommandQueue (queue), ==, CL_SUCCESS);
  g_assert_cmpint (clReleaseKernel (kernel), ==, CL_SUCCESS);
}

typedef struct
{
  TarnMemo *kernels;
  cl_context context;
  const TarnOpenclDevice *device;
} Use;

static gpointer
use_in_thread (gpointer data)
{
  const Use *use = data;

  for (cl_int i = 0; i < 3; i++)
    run_fill (use->kernels, use->context, use->device, i);
  return NULL;
}

/* From here and, where the driver can, from other threads at the same time. */
static void
use_kernels (TarnMemo *kernels, cl_context context, const TarnOpenclDevice *device)
{
  Use use = { kernels, context, device };
  GThread *threads[4];
  guint n = opencl_no_threads (device) == NULL ? G_N_ELEMENTS (threads) : 0;

  for (guint i = 0; i < n; i++)
    threads[i] = g_thread_new ("use", use_in_thread, &use);
  use_in_thread (&use);
  for (guint i = 0; i < n; i++)
    g_thread_join (threads[i]);
}

static void
clear_context (TarnMemo *kernels, cl_context context)
{
  (void) kernels;
  tarn_memo_forget_everywhere (context);
}

static void
clear_kind (TarnMemo *kernels, cl_context context)
{
  (void) kernels;
  (void) context;
  tarn_memo_clear_kind ("opencl-context");
}

static void
clear_all (TarnMemo *kernels, cl_context context)
{
  (void) kernels;
  (void) context;
  tarn_memo_clear_all ();
}

static void
clear_memo (TarnMemo *kernels, cl_context context)
{
  (void) context;
  tarn_memo_clear (kernels);
}

static void
forget_context (TarnMemo *kernels, cl_context context)
{
  tarn_memo_forget (kernels, context);
}

static void (*const ways_to_clear[]) (TarnMemo *kernels, cl_context context)
    = { clear_context, clear_kind, clear_all, clear_memo, forget_context };

/* However it is cleared, a context is its owner's alone, and a driver with few of them does not run
 * out. */
static void
test_references (const TarnOpenclDevice *device, OpenclState *state)
{
  (void) state;
  for (gsize i = 0; i < G_N_ELEMENTS (ways_to_clear); i++)
    {
      g_autoptr (TarnMemo) kernels = tarn_opencl_kernel_memo_new ();
      cl_context context = opencl_context_new (device);

      use_kernels (kernels, context, device);
      ways_to_clear[i](kernels, context);
      opencl_assert_sole_reference (context);
      g_assert_cmpuint (opencl_count_entries (kernels), ==, 0);
      use_kernels (kernels, context, device); /* as if nothing had been */
      ways_to_clear[i](kernels, context);
      opencl_context_release (context);
    }
}

static void
test_last_unref (const TarnOpenclDevice *device, OpenclState *state)
{
  TarnMemo *kernels = tarn_opencl_kernel_memo_new ();
  cl_context context = opencl_context_new (device);

  (void) state;
  use_kernels (kernels, context, device);
  tarn_memo_unref (kernels);
  opencl_context_release (context);
}

/* A kernel that the caller still has is what keeps its context, and is good for as long. */
static void
test_kernel_outlives (const TarnOpenclDevice *device, OpenclState *state)
{
  TarnMemo *kernels = tarn_opencl_kernel_memo_new ();
  TarnOpenclKernelKey key = opencl_kernel_key (device, source, "scale");
  cl_context context = opencl_context_new (device);
  cl_kernel kernel = opencl_get_kernel (kernels, context, &key);
  cl_uint n_arguments = 0;

  (void) state;
  tarn_memo_forget_everywhere (context);
  tarn_memo_unref (kernels);
  g_assert_cmpint (
      clGetKernelInfo (kernel, CL_KERNEL_NUM_ARGS, sizeof n_arguments, &n_arguments, NULL), ==,
      CL_SUCCESS);
  g_assert_cmpuint (n_arguments, ==, 2);
  g_assert_cmpint (clReleaseKernel (kernel), ==, CL_SUCCESS);
  opencl_context_release (context);
}

/* A part of a device is kept by the key, too. */
static void
test_sub_device_key (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnMemo) kernels = tarn_opencl_kernel_memo_new ();
  TarnOpenclKernelKey key = opencl_kernel_key (device, source, "fill");
  cl_context context;
  cl_uint before;
  cl_int status;

  (void) state;
  key.device = sub_device_new (device);
  if (key.device == NULL)
    return;
  context = clCreateContext (NULL, 1, &key.device, NULL, NULL, &status);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  before = device_references (key.device);
  opencl_touch_kernel (kernels, context, &key);
  g_assert_cmpuint (device_references (key.device), >=, before + 2); /* kernel's, program's key */
  tarn_memo_forget_everywhere (context);
  g_assert_cmpuint (device_references (key.device), ==, before);
  opencl_context_release (context);
  g_assert_cmpint (clReleaseDevice (key.device), ==, CL_SUCCESS);
}

/* The driver's own word that a context is gone: OpenCL 3.0, section 4.4.  Not with GLib's locks,
 * which ThreadSanitizer cannot see. */

typedef struct
{
  pthread_mutex_t lock;
  pthread_cond_t changed;
  gboolean is_destroyed; /* behind the lock */
} Watch;

static void CL_CALLBACK
note_destruction (cl_context context, void *data)
{
  Watch *watch = data;

  (void) context;
  pthread_mutex_lock (&watch->lock);
  watch->is_destroyed = TRUE;
  pthread_cond_broadcast (&watch->changed);
  pthread_mutex_unlock (&watch->lock);
}

/* FALSE: the driver, or the loader, is older. */
static gboolean
watch_context (Watch *watch, cl_context context)
{
  cl_int (*set_callback) (cl_context, void (CL_CALLBACK *) (cl_context, void *), void *);
  gpointer found = dlsym (RTLD_DEFAULT, "clSetContextDestructorCallback");

  memcpy (&set_callback, &found, sizeof found);
  return found != NULL && set_callback (context, note_destruction, watch) == CL_SUCCESS;
}

/* Whether it is destroyed, or will be in the next @seconds. */
static gboolean
await_destruction (Watch *watch, guint seconds)
{
  struct timespec deadline = { .tv_sec = time (NULL) + seconds };
  gboolean is_destroyed;
  int status = 0;

  pthread_mutex_lock (&watch->lock);
  while (!watch->is_destroyed && status != ETIMEDOUT)
    status = pthread_cond_timedwait (&watch->changed, &watch->lock, &deadline);
  is_destroyed = watch->is_destroyed;
  pthread_mutex_unlock (&watch->lock);
  return is_destroyed;
}

static gboolean
is_opencl_3 (const TarnOpenclDevice *device)
{
  gchar version[256] = "";

  clGetDeviceInfo (device->device, CL_DEVICE_VERSION, sizeof version - 1, version, NULL);
  return g_str_has_prefix (version, "OpenCL 3.");
}

static void
test_destruction (const TarnOpenclDevice *device, OpenclState *state)
{
  /* For a callback that comes when the test has failed. */
  static Watch watch = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, FALSE };
  g_autoptr (TarnMemo) kernels = tarn_opencl_kernel_memo_new ();
  cl_context context = opencl_context_new (device);

  (void) state;
  if (!is_opencl_3 (device) || !watch_context (&watch, context))
    {
      g_test_skip ("this driver does not say when a context is gone");
      clReleaseContext (context);
      return;
    }
  use_kernels (kernels, context, device);
  tarn_memo_forget_everywhere (context);
  g_assert_false (await_destruction (&watch, 0));
  g_assert_cmpint (clReleaseContext (context), ==, CL_SUCCESS);
  g_assert_true (await_destruction (&watch, 20));
  watch.is_destroyed = FALSE;
}

/* Builds */

static void
test_builds (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnMemo) kernels = tarn_opencl_kernel_memo_new ();
  g_autofree gchar *same_text = g_strdup (source);
  TarnOpenclKernelKey fill = opencl_kernel_key (device, source, "fill");
  TarnOpenclKernelKey scale = opencl_kernel_key (device, same_text, "scale");

  opencl_calls_reset ();
  opencl_touch_kernel (kernels, state->context, &fill);
  opencl_touch_kernel (kernels, state->context, &scale);
  opencl_touch_kernel (kernels, state->context, &fill);
  g_assert_cmpuint (opencl_calls_get_builds (), ==, 1);
  g_assert_cmpuint (opencl_count_entries (kernels), ==, 2);
  fill.options = ""; /* as NULL */
  opencl_touch_kernel (kernels, state->context, &fill);
  g_assert_cmpuint (opencl_calls_get_builds (), ==, 1);
  fill.options = "-DWITH=1";
  opencl_touch_kernel (kernels, state->context, &fill);
  opencl_touch_kernel (kernels, state->context, &fill);
  g_assert_cmpuint (opencl_calls_get_builds (), ==, 2);
  fill.source = "kernel void fill (global int *out, int a) { out[0] = a; }";
  opencl_touch_kernel (kernels, state->context, &fill);
  g_assert_cmpuint (opencl_calls_get_builds (), ==, 3);
  tarn_memo_forget_everywhere (state->context);
  opencl_touch_kernel (kernels, state->context, &fill);
  g_assert_cmpuint (opencl_calls_get_builds (), ==, 4);
}

/* One of the same platform; NULL: there is none. */
static cl_device_id
find_another (const TarnOpenclDevice *device)
{
  cl_device_id devices[16] = { NULL };
  cl_uint n = 0;

  clGetDeviceIDs (device->platform, CL_DEVICE_TYPE_ALL, G_N_ELEMENTS (devices), devices, &n);
  for (cl_uint i = 0; i < MIN (n, G_N_ELEMENTS (devices)); i++)
    if (devices[i] != device->device)
      return devices[i];
  return NULL;
}

/* Which of a context's devices a program is for is part of what it is. */
static void
test_two_devices (const TarnOpenclDevice *device, OpenclState *state)
{
  const cl_device_id devices[] = { device->device, find_another (device) };
  g_autoptr (TarnMemo) kernels = tarn_opencl_kernel_memo_new ();
  TarnOpenclKernelKey key = opencl_kernel_key (device, source, "fill");
  cl_context context;
  cl_int status;

  (void) state;
  if (devices[1] == NULL)
    {
      g_test_skip ("the platform has one device");
      return;
    }
  context = clCreateContext (NULL, 2, devices, NULL, NULL, &status);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  opencl_calls_reset ();
  for (guint i = 0; i < 4; i++)
    {
      key.device = devices[i % 2];
      opencl_touch_kernel (kernels, context, &key);
    }
  g_assert_cmpuint (opencl_calls_get_builds (), ==, 2);
  tarn_memo_forget_everywhere (context);
  opencl_context_release (context);
}

/* Only so many programs are kept as there may be: of those that went nothing is left. */
static void
test_max_entries (const TarnOpenclDevice *device, OpenclState *state)
{
  Counts counts = { 0 };
  TarnMemoOps ops = TARN_MEMO_OPS_INIT;
  g_autoptr (TarnMemo) memo = NULL;
  cl_context context = opencl_context_new (device);

  (void) state;
  ops.key_type = TARN_MEMO_KEY_INT64;
  ops.max_entries = 3;
  ops.unref_value = count_release;
  memo = tarn_opencl_context_memo_new (&ops, count_computation, &counts, NULL);
  for (gint64 i = 0; i < 1000; i++)
    g_assert_true (tarn_memo_get (memo, context, &i, NULL, NULL));
  g_assert_cmpuint (counts.computed, ==, 1000);
  g_assert_cmpuint (counts.released, ==, 997);
  g_assert_cmpuint (opencl_count_entries (memo), ==, 3);
  tarn_memo_forget (memo, context);
  g_assert_cmpuint (counts.released, ==, 1000);
  opencl_context_release (context);
}

/* What a caller of tarn_opencl_kernel_memo_get () must not leave out */
static void
test_incomplete_keys (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnMemo) kernels = tarn_opencl_kernel_memo_new ();
  TarnOpenclKernelKey key = TARN_OPENCL_KERNEL_KEY_INIT;
  cl_kernel kernel = NULL;
  static const gchar *const missing[] = { "source", "kernel_name", "device" };

  for (guint i = 0; i < G_N_ELEMENTS (missing); i++)
    {
      g_autoptr (GError) error = NULL;

      key.source = i > 0 ? source : NULL;
      key.kernel_name = i > 1 ? "fill" : NULL;
      g_assert_false (tarn_opencl_kernel_memo_get (kernels, state->context, &key, &kernel, &error));
      g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
      g_assert_true (g_str_has_suffix (error->message, missing[i]));
    }
  key.device = device->device;
  for (guint i = 0; i < 2; i++)
    {
      g_test_expect_message ("Tarn-OpenCL", G_LOG_LEVEL_CRITICAL,
                             i == 0 ? "*key != NULL*" : "*kernel != NULL*");
      g_assert_false (tarn_opencl_kernel_memo_get (kernels, state->context, i > 0 ? &key : NULL,
                                                   i > 0 ? NULL : &kernel, NULL));
      g_test_assert_expected_messages ();
    }
  g_assert_null (kernel);
}

int
main (int argc, char **argv)
{
  static const OpenclCase cases[] = {
    { "memo/context-dep-memoize", test_context_dep_memoize },
    { "memo/no-ops", test_no_ops },
    { "memo/foreign-ops", test_foreign_ops },
    { "memo/null-first-arg", test_null_first_arg },
    { "memo/max-entries", test_max_entries },
    { "memo/queue", test_queue_memo },
    { "memo/device", test_device_memo },
    { "memo/kernels/null-key", test_null_kernel_key },
    { "memo/kernels/references", test_references },
    { "memo/kernels/last-unref", test_last_unref },
    { "memo/kernels/outlives", test_kernel_outlives },
    { "memo/kernels/sub-device", test_sub_device_key },
    { "memo/kernels/destruction", test_destruction },
    { "memo/kernels/builds", test_builds },
    { "memo/kernels/two-devices", test_two_devices },
    { "memo/kernels/incomplete-keys", test_incomplete_keys },
  };

  g_test_init (&argc, &argv, NULL);
  opencl_add (cases, G_N_ELEMENTS (cases));
  return g_test_run ();
}
