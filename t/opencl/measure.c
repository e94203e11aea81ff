/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The banks of local memory, measured: of each device as it is, as the layer's clock makes it look,
 * and with calls that fail. */

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"
#include "lib/in-child.h"
#include "opencl/bank-analysis-private.h"

#define WARP_SIZE_NV 0x4003

static const OpenclLayer *layer;
static gboolean shows_times;

/* Devices as they are */

static gboolean
is_cpu (cl_device_id device)
{
  cl_device_type type = 0;

  g_assert_cmpint (clGetDeviceInfo (device, CL_DEVICE_TYPE, sizeof type, &type, NULL), ==,
                   CL_SUCCESS);
  return (type & CL_DEVICE_TYPE_CPU) != 0;
}

static gboolean
is_nvidia (cl_device_id device)
{
  cl_uint warp = 0;

  return clGetDeviceInfo (device, WARP_SIZE_NV, sizeof warp, &warp, NULL) == CL_SUCCESS
         && warp == 32;
}

static void
assert_legal (const TarnOpenclLocalMemory *result)
{
  g_assert_cmpfloat (result->confidence, >=, 0);
  g_assert_cmpfloat (result->confidence, <=, 1);
  if (result->has_banks)
    {
      g_assert_cmpuint (result->bank_count, >=, 8);
      g_assert_cmpuint (result->bank_count, <=, 128);
      g_assert_cmpuint (result->bank_bytes, >=, 4);
      g_assert_cmpuint (result->bank_bytes, <=, 16);
      g_assert_cmpuint (result->work_items, >=, 16);
      g_assert_cmpuint (result->work_items, <=, 64);
    }
  else
    g_assert_cmpuint (result->bank_count + result->bank_bytes + result->work_items, ==, 0);
}

static void
test_device (gconstpointer data)
{
  cl_device_id device = ((const TarnOpenclDevice *) data)->device;
  TarnOpenclLocalMemory result = TARN_OPENCL_LOCAL_MEMORY_INIT;
  g_autoptr (GError) error = NULL;

  if (layer != NULL)
    layer->reset ();
  shows_times = TRUE;
  tarn_opencl_measure_local_memory (device, &result, &error);
  shows_times = FALSE;
  if (error != NULL)
    {
      g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
      g_test_skip (error->message);
      return;
    }
  g_test_message ("%u banks of %u bytes, %u work items, confidence %.3f", result.bank_count,
                  result.bank_bytes, result.work_items, result.confidence);
  g_assert_cmpuint (result.struct_size, ==, sizeof result);
  assert_legal (&result);
  if (is_cpu (device))
    g_assert_false (result.has_banks);
  if (is_nvidia (device))
    {
      g_assert_cmpuint (result.bank_count, ==, 32);
      g_assert_cmpuint (result.bank_bytes, ==, 4);
      g_assert_cmpuint (result.work_items, ==, 32);
    }
}

/* Devices as the layer's clock makes them look */

/* A launch takes 30 us, and each pass 100 us: few steps are enough, also where a device is slow. */
static guint64
take_time (const cl_uint *arguments, guint banks, guint bytes)
{
  const guint lanes = arguments[2], steps = arguments[6];
  const TarnBankPattern pattern = { arguments[3], arguments[4], arguments[5] };
  const TarnLocalMemory memory = { sizeof memory, banks, bytes, lanes, 0 };
  const guint64 passes = _tarn_opencl_count_bank_passes (&memory, &pattern, lanes);

  return 30000 + steps * passes * 100000;
}

static guint64
clock_of_gpu (const cl_uint *arguments)
{
  return take_time (arguments, 32, 4);
}

static guint64
clock_of_wide_banks (const cl_uint *arguments)
{
  return take_time (arguments, 16, 8);
}

/* The first launches are slow, as before a device has woken up; then every eleventh is, which is
 * another pattern in each round. */
static guint n_launches;

static guint64
clock_with_hiccups (const cl_uint *arguments)
{
  n_launches++;
  return take_time (arguments, 32, 4) * (n_launches < 40 ? 3 : n_launches % 11 == 0 ? 20 : 1);
}

static guint64
clock_that_stands (const cl_uint *arguments)
{
  (void) arguments;
  return 0;
}

/* Then stands. */
static guint64
clock_for_one_pattern (const cl_uint *arguments)
{
  return arguments[4] == 1 ? G_GUINT64_CONSTANT (1000000000) : 0;
}

static TarnOpenclLocalMemory
measure_with_clock (gconstpointer data, OpenclLayerClock clock, cl_uint warp)
{
  cl_device_id device = ((const TarnOpenclDevice *) data)->device;
  TarnOpenclLocalMemory result = TARN_OPENCL_LOCAL_MEMORY_INIT;
  g_autoptr (GError) error = NULL;

  layer->reset ();
  layer->set_clock (clock);
  layer->set_device_info (WARP_SIZE_NV, &warp, sizeof warp);
  tarn_opencl_measure_local_memory (device, &result, &error);
  g_assert_no_error (error);
  layer->reset ();
  return result;
}

static void
test_clock (gconstpointer data)
{
  /* What is no power of two, or out of range, is rounded. */
  static const guint warps[][2] = { { 32, 32 }, { 64, 64 }, { 1, 16 }, { 48, 32 }, { 1000, 64 } };
  /* Seen of rusticl on llvmpipe: a work-group of this kernel may have 32 items. */
  const gchar *platform = ((const TarnOpenclDevice *) data)->platform_name;
  const guint limit = strcmp (platform, "rusticl") == 0 ? 32 : 64;
  TarnOpenclLocalMemory result;

  for (guint i = 0; i < G_N_ELEMENTS (warps); i++)
    {
      result = measure_with_clock (data, clock_of_gpu, warps[i][0]);
      g_assert_true (result.has_banks);
      g_assert_cmpuint (result.bank_count, ==, 32);
      g_assert_cmpuint (result.bank_bytes, ==, 4);
      g_assert_cmpuint (result.work_items, ==, MIN (warps[i][1], limit));
      g_assert_cmpfloat (result.confidence, >, 0.99);
    }
  /* A simulator may have time for one round only, in which nothing can be made up for. */
  n_launches = 0;
  result = measure_with_clock (data, clock_with_hiccups, 32);
  if (n_launches > 40 + 4 * TARN_BANK_MAX_PATTERNS)
    {
      g_assert_cmpuint (result.bank_count, ==, 32);
      g_assert_cmpfloat (result.confidence, >, 0.99);
    }
  result = measure_with_clock (data, clock_of_wide_banks, 32);
  g_assert_cmpuint (result.bank_count, ==, 16);
  g_assert_cmpuint (result.bank_bytes, ==, 8);
}

/* Older and newer callers than the library. */
static void
test_struct_size (gconstpointer data)
{
  cl_device_id device = ((const TarnOpenclDevice *) data)->device;
  const gsize sizes[] = { sizeof (gsize), G_STRUCT_OFFSET (TarnOpenclLocalMemory, bank_bytes),
                          sizeof (TarnOpenclLocalMemory), sizeof (TarnOpenclLocalMemory) + 24 };

  layer->reset ();
  layer->set_clock (clock_of_gpu);
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      struct
      {
        TarnOpenclLocalMemory result;
        guint8 more[32];
      } caller;
      const guint8 *bytes = (const guint8 *) &caller;

      memset (&caller, 0xAA, sizeof caller);
      caller.result.struct_size = sizes[i];
      g_assert_true (tarn_opencl_measure_local_memory (device, &caller.result, NULL));
      g_assert_cmpuint (caller.result.struct_size, ==, sizes[i]);
      for (gsize j = sizeof (gsize); j < sizeof caller; j++)
        if (j >= sizes[i])
          g_assert_cmpuint (bytes[j], ==, 0xAA);
        else if (j >= sizeof caller.result)
          g_assert_cmpuint (bytes[j], ==, 0);
      if (sizes[i] > G_STRUCT_OFFSET (TarnOpenclLocalMemory, bank_count))
        g_assert_cmpuint (caller.result.bank_count, ==, 32);
    }
  layer->reset ();
}

/* Errors */

static guint
count_live (void)
{
  guint live = 0;

  for (guint kind = 0; kind < OPENCL_LAYER_N_KINDS; kind++)
    live += layer->get_live (kind, NULL, 0);
  return live;
}

/* Fails with an error that begins with @text, and leaves everything as it was. */
static void
assert_not_measured (gconstpointer data, GQuark domain, gint code, const gchar *text)
{
  cl_device_id device = ((const TarnOpenclDevice *) data)->device;
  TarnOpenclLocalMemory result = TARN_OPENCL_LOCAL_MEMORY_INIT;
  g_autoptr (GError) error = NULL;

  result.bank_count = 4711;
  g_assert_false (tarn_opencl_measure_local_memory (device, &result, &error));
  g_assert_error (error, domain, code);
  g_assert_true (g_str_has_prefix (error->message, text));
  g_assert_cmpuint (result.bank_count, ==, 4711);
  g_assert_cmpuint (count_live (), ==, 0);
}

static void
assert_not_supported (gconstpointer data, const gchar *reason)
{
  g_autofree gchar *text
      = g_strdup_printf ("local memory cannot be measured on this device: %s", reason);

  assert_not_measured (data, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED, text);
  layer->reset ();
}

static void
test_not_supported (gconstpointer data)
{
  const cl_command_queue_properties properties = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
  const cl_bool has_compiler = CL_FALSE;
  const cl_ulong bytes[] = { 0, 100, 1024 };

  layer->reset ();
  layer->set_device_info (CL_DEVICE_QUEUE_PROPERTIES, &properties, sizeof properties);
  assert_not_supported (data, "its queues cannot time commands");
  layer->set_device_info (CL_DEVICE_COMPILER_AVAILABLE, &has_compiler, sizeof has_compiler);
  assert_not_supported (data, "it has no compiler");
  for (guint i = 0; i < G_N_ELEMENTS (bytes); i++)
    {
      layer->set_device_info (CL_DEVICE_LOCAL_MEM_SIZE, &bytes[i], sizeof bytes[i]);
      assert_not_supported (data, "it has too little local memory");
    }
  layer->set_clock (clock_that_stands);
  assert_not_supported (data, "it says that a long kernel took hardly any time");
  layer->set_clock (clock_for_one_pattern);
  assert_not_supported (data, "it says that a kernel took no time");
}

static void
test_statuses (gconstpointer data)
{
  static const gchar log[] = "line 1: no such word\n";

  layer->reset ();
  layer->set_clock (clock_of_gpu);
  layer->fail ("clBuildProgram", 1, FALSE, CL_BUILD_PROGRAM_FAILURE);
  layer->set_info ("clGetProgramBuildInfo", CL_PROGRAM_BUILD_LOG, log, sizeof log);
  assert_not_measured (data, TARN_OPENCL_ERROR, CL_BUILD_PROGRAM_FAILURE,
                       "clBuildProgram: CL_BUILD_PROGRAM_FAILURE (-11): line 1: no such word");
  layer->fail ("clCreateBuffer", 1, FALSE, CL_MEM_OBJECT_ALLOCATION_FAILURE);
  assert_not_measured (data, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY,
                       "clCreateBuffer: CL_MEM_OBJECT_ALLOCATION_FAILURE (-4) for ");
  layer->fail ("clWaitForEvents", 3, FALSE, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
  assert_not_measured (data, TARN_OPENCL_ERROR, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
                       "clWaitForEvents: ");
  layer->reset ();
}

/* A release that was made to fail had no effect: the test makes up for it. */
static void
release_lost (const gchar *function)
{
  gpointer lost[OPENCL_LAYER_N_KINDS] = { NULL };

  layer->fail (NULL, 0, FALSE, CL_SUCCESS);
  if (!g_str_has_prefix (function, "clRelease"))
    return;
  g_assert_cmpuint (count_live (), ==, 1);
  for (guint kind = 0; kind < OPENCL_LAYER_N_KINDS; kind++)
    layer->get_live (kind, &lost[kind], 1);
  if (lost[OPENCL_LAYER_BUFFER] != NULL)
    clReleaseMemObject (lost[OPENCL_LAYER_BUFFER]);
  if (lost[OPENCL_LAYER_CONTEXT] != NULL)
    clReleaseContext (lost[OPENCL_LAYER_CONTEXT]);
  if (lost[OPENCL_LAYER_QUEUE] != NULL)
    clReleaseCommandQueue (lost[OPENCL_LAYER_QUEUE]);
  if (lost[OPENCL_LAYER_PROGRAM] != NULL)
    clReleaseProgram (lost[OPENCL_LAYER_PROGRAM]);
  if (lost[OPENCL_LAYER_KERNEL] != NULL)
    clReleaseKernel (lost[OPENCL_LAYER_KERNEL]);
  if (lost[OPENCL_LAYER_EVENT] != NULL)
    clReleaseEvent (lost[OPENCL_LAYER_EVENT]);
}

/* Fails the nth call; FALSE if there are not so many. */
static gboolean
check_nth_call (gconstpointer data, const gchar *function, guint nth)
{
  cl_device_id device = ((const TarnOpenclDevice *) data)->device;
  TarnOpenclLocalMemory result = TARN_OPENCL_LOCAL_MEMORY_INIT;
  g_autoptr (GError) error = NULL;
  const gchar *failed;
  gboolean ok;

  layer->fail (function, nth, FALSE, CL_INVALID_COMMAND_QUEUE);
  ok = tarn_opencl_measure_local_memory (device, &result, &error);
  failed = layer->get_failed ();
  g_assert_true (ok == (failed == NULL || g_str_has_prefix (failed, "clRelease")));
  g_assert_true (ok == (error == NULL));
  if (failed == NULL)
    return FALSE;
  if (!ok)
    {
      g_assert_error (error, TARN_OPENCL_ERROR, CL_INVALID_COMMAND_QUEUE);
      g_assert_true (g_str_has_prefix (error->message, failed));
    }
  release_lost (failed);
  g_assert_cmpuint (count_live (), ==, 0);
  return TRUE;
}

/* Every call up to the first launches; after that they repeat, and some do.  Then each of the last
 * releases. */
static void
test_faults (gconstpointer data)
{
  static const gchar *const releases[]
      = { "clReleaseMemObject", "clReleaseKernel", "clReleaseProgram", "clReleaseCommandQueue",
          "clReleaseContext" };
  guint nth = 1;

  layer->reset ();
  layer->set_clock (clock_of_gpu);
  while (check_nth_call (data, NULL, nth))
    nth += nth < 45 ? 1 : nth;
  g_assert_cmpuint (nth, >, 300);
  for (guint i = 0; i < G_N_ELEMENTS (releases); i++)
    g_assert_true (check_nth_call (data, releases[i], 1));
  layer->reset ();
}

/* In a child of a process that has called the driver, no call is made. */
static void
test_fork (const TarnOpenclDevice *device, OpenclState *state)
{
  gint status = -1;
  pid_t child = begin_child (20);

  (void) state;
  if (child == 0)
    {
      TarnOpenclLocalMemory result = TARN_OPENCL_LOCAL_MEMORY_INIT;
      GError *error = NULL;
      gboolean ok = tarn_opencl_measure_local_memory (device->device, &result, &error);

      _exit (!ok && g_error_matches (error, TARN_ERROR, TARN_ERROR_FORKED) ? 0 : 1);
    }
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_cmpint (status, ==, 0);
}

/* Those of the devices as they are, and not of the many runs with a clock that is made up. */
static void
log_times (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer unused)
{
  (void) domain;
  (void) level;
  (void) unused;
  if (shows_times)
    g_test_message ("%s", message);
}

typedef struct
{
  const gchar *path;
  void (*func) (gconstpointer device); /* a TarnOpenclDevice */
} Test;

/* A test that needs no state. */
static void
run_test (const TarnOpenclTest *test, gconstpointer data)
{
  const Test *item = data;

  item->func (test->info);
}

int
main (int argc, char **argv)
{
  static const OpenclCase cases[] = { { "measure/fork", test_fork } };
  static const Test tests[] = {
    { "measure/device", test_device },           { "measure/clock", test_clock },
    { "measure/struct-size", test_struct_size }, { "measure/not-supported", test_not_supported },
    { "measure/statuses", test_statuses },       { "measure/faults", test_faults },
  };

  g_test_init (&argc, &argv, NULL);
  g_log_set_handler ("Tarn-OpenCL", G_LOG_LEVEL_DEBUG, log_times, NULL);
  layer = opencl_layer_load ();
  if (layer == NULL)
    opencl_add_no_layer ("/opencl/measure/no-layer");
  opencl_add (cases, G_N_ELEMENTS (cases));
  /* The first is of the device as it is. */
  for (gsize i = 0; i < (layer != NULL ? G_N_ELEMENTS (tests) : 1); i++)
    tarn_opencl_test_add (tests[i].path, run_test, &tests[i]);
  return g_test_run ();
}
