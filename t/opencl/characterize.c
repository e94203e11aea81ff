/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What devices can do: facts that hold on every device, and drivers that fail.  Devices that are
 * said to be others are in pretend.c. */

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/in-child.h"
#include "pretend.h"

static const OpenclLayer *layer;

/* All the functions, to be called in one way */

typedef struct
{
  cl_device_id device;
  cl_platform_id platform;
  cl_context context; /* nullable */
} Target;

typedef struct
{
  gboolean yes;
  guint first, second;
  gsize size;
  gchar *text, *guess; /* owned once a function has written them */
  const gchar *bug;
  TarnOpenclAnswer answer;
} Values;

/* Where a function is to store them; each is nullable. */
typedef struct
{
  gboolean *yes;
  guint *first, *second;
  gsize *size;
  gchar **text, **guess;
  const gchar **bug;
  TarnOpenclAnswer *answer;
} Places;

static const gsize shape[] = { 16, 16 };

#define CALLS(F)                                                                                   \
  F (has_double_support, (target->device, to->yes, error))                                         \
  F (has_amd_double_support, (target->device, to->yes, error))                                     \
  F (nv_compute_capability, (target->device, to->first, to->second, error))                        \
  F (reasonable_work_group_size_multiple, (target->device, target->context, to->size, error))      \
  F (get_simd_group_size, (target->device, to->first, error))                                      \
  F (simultaneous_work_items_on_local_access, (target->device, to->first, to->guess, error))       \
  F (local_memory_access_granularity, (target->device, to->first, error))                          \
  F (local_memory_bank_count, (target->device, to->first, to->guess, error))                       \
  F (usable_local_mem_size, (target->device, -1, to->size, error))                                 \
  F (why_not_local_access_conflict_free,                                                           \
     (target->device, 8, 2, shape, NULL, to->first, to->text, to->guess, error))                   \
  F (get_pocl_version, (target->platform, 1, 2, to->first, to->second, to->guess, error))          \
  F (has_struct_arg_count_bug, (target->device, target->context, to->bug, error))                  \
  F (has_src_build_cache, (target->device, to->answer, error))                                     \
  F (has_coarse_grain_buffer_svm, (target->device, to->yes, error))                                \
  F (has_fine_grain_buffer_svm, (target->device, to->yes, error))                                  \
  F (has_fine_grain_system_svm, (target->device, to->yes, error))                                  \
  F (has_fine_grain_buffer_svm_atomics, (target->device, to->yes, error))                          \
  F (has_fine_grain_system_svm_atomics, (target->device, to->yes, error))

#define DEFINE(name, arguments)                                                                    \
  static gboolean call_##name (const Target *target, const Places *to, GError **error)             \
  {                                                                                                \
    return tarn_opencl_##name arguments;                                                           \
  }
#define ROW(name, arguments) { #name, call_##name },

CALLS (DEFINE)

static gboolean
call_get_fast_inaccurate_build_options (const Target *target, const Places *to, GError **error)
{
  g_autofree gchar *options = tarn_opencl_get_fast_inaccurate_build_options (target->device, error);
  gboolean done = options != NULL;

  if (done && to->text != NULL)
    *to->text = g_steal_pointer (&options);
  return done;
}

static const struct
{
  const gchar *name;
  gboolean (*call) (const Target *target, const Places *to, GError **error);
} calls[] = { CALLS (ROW) ROW (get_fast_inaccurate_build_options, ()) };

static Places
places_in (Values *values)
{
  return (Places){ &values->yes,  &values->first, &values->second, &values->size,
                   &values->text, &values->guess, &values->bug,    &values->answer };
}

/* What a function may do without. */
static const Places nowhere;

static Target
target_of (const TarnOpenclDevice *device, cl_context context)
{
  return (Target){ device->device, device->platform, context };
}

/* Facts that hold on every device */

static cl_device_type
get_type (cl_device_id device)
{
  cl_device_type type;

  g_assert_cmpint (clGetDeviceInfo (device, CL_DEVICE_TYPE, sizeof type, &type, NULL), ==,
                   CL_SUCCESS);
  return type;
}

/* A driver that says how it rounds doubles has them. */
static void
test_doubles (const TarnOpenclDevice *device, OpenclState *state)
{
  cl_device_fp_config config = 0;
  gboolean doubles = -1, amd_doubles = -1;

  (void) state;
  OK (has_double_support, device->device, &doubles);
  OK (has_amd_double_support, device->device, &amd_doubles);
  g_assert_true (amd_doubles == TRUE || amd_doubles == FALSE);
  if (clGetDeviceInfo (device->device, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof config, &config, NULL)
      == CL_SUCCESS)
    g_assert_cmpint (doubles, ==, config != 0);
}

static void
test_sizes (const TarnOpenclDevice *device, OpenclState *state)
{
  guint major = 99, minor = 99, simd = 99;
  gsize multiple = 0, same = 0, most = 0;

  OK (nv_compute_capability, device->device, &major, &minor);
  g_assert_cmpuint (major, <, 99);
  g_assert_true (major > 0 || minor == 0);
  OK (reasonable_work_group_size_multiple, device->device, NULL, &multiple);
  OK (reasonable_work_group_size_multiple, device->device, state->context, &same);
  g_assert_cmpuint (multiple, ==, same);
  g_assert_cmpuint (multiple, >, 0);
  clGetDeviceInfo (device->device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof most, &most, NULL);
  g_assert_cmpuint (multiple, <=, most);
  OK (get_simd_group_size, device->device, &simd);
  if (major > 0)
    g_assert_cmpuint (simd, ==, multiple);
  else if (get_type (device->device) & CL_DEVICE_TYPE_CPU)
    g_assert_cmpuint (simd, ==, 1);
}

/* Banks are asked for in two ways, which agree. */
static void
test_local_memory (const TarnOpenclDevice *device, OpenclState *state)
{
  const gsize one = 1;
  guint items = 0, banks = 0, bytes = 0, major = 99, multiplicity = 0;
  gsize usable = 0;
  cl_ulong all = 0;
  gchar unset[] = "";
  gchar *explanation = unset;
  g_autoptr (GError) error = NULL;
  g_autoptr (GError) same_error = NULL;
  gboolean has_banks;

  (void) state;
  OK (simultaneous_work_items_on_local_access, device->device, &items, NULL);
  g_assert_cmpuint (items, >=, 1);
  OK (local_memory_access_granularity, device->device, &bytes);
  g_assert_cmpuint (bytes, ==, 4);
  OK (nv_compute_capability, device->device, &major, NULL);
  OK (usable_local_mem_size, device->device, -1, &usable);
  clGetDeviceInfo (device->device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof all, &all, NULL);
  if (major != 1)
    g_assert_cmpuint (usable, ==, all);

  has_banks = tarn_opencl_local_memory_bank_count (device->device, &banks, NULL, &error);
  g_assert_cmpint (has_banks, ==,
                   tarn_opencl_why_not_local_access_conflict_free (device->device, 4, 1, &one, NULL,
                                                                   &multiplicity, &explanation,
                                                                   NULL, &same_error));
  if (has_banks)
    {
      g_assert_cmpuint (multiplicity, ==, 1);
      g_assert_null (explanation);
    }
  else
    {
      g_assert_true (explanation == unset);
      g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
      g_assert_error (same_error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
      g_assert_true (get_type (device->device) & CL_DEVICE_TYPE_CPU);
    }
}

/* The device's own compiler takes the options. */
static void
test_build_options (const TarnOpenclDevice *device, OpenclState *state)
{
  const gchar *source = "kernel void k (global float *a) { a[0] = sin (a[1]) * a[2] + a[3]; }";
  g_autoptr (GError) error = NULL;
  g_autofree gchar *options
      = tarn_opencl_get_fast_inaccurate_build_options (device->device, &error);
  cl_int status;
  cl_program program;

  g_assert_no_error (error);
  program = clCreateProgramWithSource (state->context, 1, &source, NULL, &status);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  g_assert_cmpint (clBuildProgram (program, 1, &device->device, options, NULL, NULL), ==,
                   CL_SUCCESS);
  g_assert_cmpint (clReleaseProgram (program), ==, CL_SUCCESS);
}

static void
test_platform (const TarnOpenclDevice *device, OpenclState *state)
{
  gboolean is_pocl = g_str_equal (device->platform_name, POCL);
  guint major = 99, minor = 99;
  const gchar *bug = "unset";
  TarnOpenclAnswer answer = 99;
  g_autofree gchar *guess = NULL;

  OK (get_pocl_version, device->platform, 99, 99, &major, &minor, &guess);
  g_assert_null (guess);
  g_assert_cmpuint (major, <, 99);
  g_assert_cmpint (is_pocl, ==, major + minor > 0);
  OK (has_struct_arg_count_bug, device->device, state->context, &bug);
  g_assert_null (bug);
  OK (has_src_build_cache, device->device, &answer);
  if (is_pocl)
    g_assert_cmpint (answer, ==, TARN_OPENCL_YES);
  g_assert_cmpint (answer, <, 99);
}

/* What the device itself says, if it is new enough to be asked. */
static void
test_svm (const TarnOpenclDevice *device, OpenclState *state)
{
  cl_bitfield capabilities = 0;
  gchar version[256] = "";

  (void) state;
  clGetDeviceInfo (device->device, CL_DEVICE_VERSION, sizeof version, version, NULL);
  if (!g_str_has_prefix (version, "OpenCL 1."))
    g_assert_cmpint (clGetDeviceInfo (device->device, SVM_CAPABILITIES, sizeof capabilities,
                                      &capabilities, NULL),
                     ==, CL_SUCCESS);
  opencl_assert_svm (device->device, capabilities);
}

/* Every function with nowhere to store anything; all that they make is released. */
static void
test_no_outputs (const TarnOpenclDevice *device, OpenclState *state)
{
  Target target = target_of (device, state->context);

  for (guint i = 0; i < G_N_ELEMENTS (calls); i++)
    {
      g_autoptr (GError) error = NULL;

      if (!calls[i].call (&target, &nowhere, &error))
        g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED); /* no banks */
    }
}

/* A child of fork () is told so, and asks the driver nothing. */
static void
test_fork (const TarnOpenclDevice *device, OpenclState *state)
{
  Target target = target_of (device, NULL);
  guint before;
  gint status;
  pid_t child;

  before = layer != NULL ? layer->get_calls (NULL) : 0;
  child = begin_child (20);
  (void) state;
  if (child == 0)
    {
      for (guint i = 0; i < G_N_ELEMENTS (calls); i++)
        {
          g_autoptr (GError) error = NULL;

          if (calls[i].call (&target, &nowhere, &error)
              || !g_error_matches (error, TARN_ERROR, TARN_ERROR_FORKED)
              || (layer != NULL && layer->get_calls (NULL) != before))
            _exit (1 + (gint) i);
        }
      _exit (0);
    }
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_true (WIFEXITED (status));
  g_assert_cmpint (WEXITSTATUS (status), ==, 0);
}

/* No device, or no platform, is the caller's mistake. */
static void
test_mistakes (const TarnOpenclDevice *device, OpenclState *state)
{
  const Target nothing = { NULL, NULL, NULL };
  const gsize empty[] = { 16, 0 };
  Values values;
  Places places = places_in (&values);

  (void) state;
  for (guint i = 0; i < G_N_ELEMENTS (calls); i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_false (calls[i].call (&nothing, &places, &error));
      g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
    }
  for (guint rank = 0; rank <= 2; rank += 2)
    {
      g_test_expect_message ("Tarn-OpenCL", G_LOG_LEVEL_CRITICAL, "* > 0*");
      g_assert_false (tarn_opencl_why_not_local_access_conflict_free (
          device->device, 4, rank, empty, NULL, NULL, NULL, NULL, NULL));
      g_test_assert_expected_messages ();
    }
}

/* Drivers that fail */

static void
count_message (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer data)
{
  (void) domain;
  (void) level;
  g_assert_nonnull (strstr (message, "clRelease"));
  g_assert_nonnull (strstr (message, "CL_INVALID_DEVICE (-33)"));
  ++*(guint *) data;
}

/* What a release that failed has left. */
static void
release_lost (const OpenclState *state)
{
  gpointer lost[2];

  if (layer->get_live (OPENCL_LAYER_KERNEL, lost, 1) > 0)
    clReleaseKernel (lost[0]);
  if (layer->get_live (OPENCL_LAYER_PROGRAM, lost, 1) > 0)
    clReleaseProgram (lost[0]);
  if (layer->get_live (OPENCL_LAYER_CONTEXT, lost, 2) > 1)
    clReleaseContext (lost[0] == state->context ? lost[1] : lost[0]);
}

/* Calls a function while the nth call of the driver fails; FALSE if it makes fewer.  A release that
 * fails is a message, and all others are errors. */
static gboolean
check_failure (guint index, const Target *target, const OpenclState *state, guint nth,
               gboolean for_ever)
{
  Values values, untouched;
  Places places = places_in (&values);
  guint n_messages = 0;
  guint handler
      = g_log_set_handler ("Tarn-OpenCL", G_LOG_LEVEL_MESSAGE, count_message, &n_messages);
  g_autoptr (GError) error = NULL;
  const gchar *failed;
  gboolean done;

  memset (&values, 0x5a, sizeof values);
  memset (&untouched, 0x5a, sizeof untouched);
  layer->fail (NULL, nth, for_ever, CL_INVALID_DEVICE);
  done = calls[index].call (target, &places, &error);
  failed = layer->get_failed ();
  layer->fail (NULL, 0, FALSE, CL_SUCCESS);
  g_log_remove_handler ("Tarn-OpenCL", handler);
  g_test_message ("%s, call %u: %s", calls[index].name, nth, failed != NULL ? failed : "success");

  g_assert_true (done == (error == NULL));
  if (!done)
    {
      g_assert_nonnull (failed);
      g_assert_error (error, TARN_OPENCL_ERROR, CL_INVALID_DEVICE);
      g_assert_true (g_str_has_prefix (error->message, failed));
      g_assert_cmpint (memcmp (&values, &untouched, sizeof values), ==, 0);
    }
  else
    g_assert_true (failed == NULL || g_str_has_prefix (failed, "clRelease"));
  if (done && values.text != untouched.text)
    g_free (values.text);
  if (done && values.guess != untouched.guess)
    g_free (values.guess);
  if (n_messages > 0)
    release_lost (state);
  g_assert_true (for_ever || n_messages == (failed != NULL && done ? 1 : 0));
  opencl_assert_nothing_leaked (state);
  return failed != NULL;
}

/* Every call of the driver that each function makes, failing in turn: it alone, or with all that
 * follow. */
static void
test_failures (const TarnOpenclDevice *device, OpenclState *state)
{
  Target target = target_of (device, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (calls); i++)
    for (guint for_ever = FALSE; for_ever <= TRUE; for_ever++)
      {
        gboolean asks = !g_str_equal (calls[i].name, "local_memory_access_granularity");
        guint nth = 1;

        opencl_pretend_to_be_asked ();
        while (check_failure (i, &target, state, nth, for_ever))
          nth++;
        g_assert_cmpint (nth > 1, ==, asks);
      }
  layer->reset ();
}

int
main (int argc, char **argv)
{
  static const OpenclCase cases[] = {
    { "characterize/doubles", test_doubles },
    { "characterize/sizes", test_sizes },
    { "characterize/local-memory", test_local_memory },
    { "characterize/build-options", test_build_options },
    { "characterize/platform", test_platform },
    { "characterize/svm", test_svm },
    { "characterize/no-outputs", test_no_outputs },
    { "characterize/fork", test_fork },
    { "characterize/mistakes", test_mistakes },
  };
  static const OpenclCase failures[] = { { "characterize/failures", test_failures } };

  g_test_init (&argc, &argv, NULL);
  layer = opencl_layer_load ();
  opencl_add (cases, G_N_ELEMENTS (cases));
  if (layer == NULL)
    {
      opencl_add_no_layer ("/opencl/characterize/no-layer");
      return g_test_run ();
    }
  opencl_add (failures, G_N_ELEMENTS (failures));
  opencl_pretend_add (layer);
  return g_test_run ();
}
