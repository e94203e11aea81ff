/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Kernels that cannot be made, on each device: sources and names that are no good, and, with a
 * layer above the driver, each call failing in turn: what a failure becomes, and that nothing is
 * lost but what the driver does not take back. */

#include <string.h>

#include "device.h"
#include "kernels.h"
#include "layer.h"

static const OpenclLayer *layer;

static const gchar good[] = "kernel void first (int a) { }\nkernel void second (int a) { }\n";

/* Bad keys, on the driver as it is */

static GError *
fail_to_get (TarnMemo *kernels, cl_context context, const TarnOpenclKernelKey *key)
{
  GError *error = NULL;
  gpointer kernel = &error;

  g_assert_false (tarn_memo_get (kernels, context, key, &kernel, &error));
  g_assert_nonnull (error);
  g_assert_true (kernel == &error);
  return error;
}

static void
test_bad_source (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnMemo) kernels = tarn_opencl_kernel_memo_new ();
  TarnOpenclKernelKey key
      = opencl_kernel_key (device, "kernel void f () { undeclared_4711 (); }", "f");
  cl_context context = opencl_context_new (device);
  TarnMemoStats stats = TARN_MEMO_STATS_INIT;

  (void) state;
  opencl_calls_reset ();
  for (guint i = 1; i <= 20; i++)
    {
      g_autoptr (GError) error = fail_to_get (kernels, context, &key);

      g_assert_error (error, TARN_OPENCL_ERROR, CL_BUILD_PROGRAM_FAILURE);
      g_assert_true (g_str_has_prefix (error->message, "clBuildProgram: CL_BUILD_PROGRAM_FAILURE"));
      g_assert_nonnull (strstr (error->message, "undeclared_4711"));
      g_assert_cmpuint (opencl_calls_get_builds (), ==, i); /* an error is not kept */
      opencl_assert_sole_reference (context);
    }
  tarn_memo_get_stats (kernels, &stats);
  g_assert_cmpuint (stats.entries, ==, 0);
  g_assert_cmpuint (stats.failures, ==, 20);
  key.source = "kernel void f () { }";
  opencl_touch_kernel (kernels, context, &key);
  tarn_memo_forget_everywhere (context);
  opencl_context_release (context);
}

#define MAX_LOG (64 * 1024)

static void
assert_cut (const GError *error, const gchar *beginning, const gchar *note)
{
  g_assert_error (error, TARN_OPENCL_ERROR, CL_BUILD_PROGRAM_FAILURE);
  g_assert_nonnull (strstr (error->message, beginning));
  g_assert_nonnull (strstr (error->message, note));
  g_assert_cmpuint (strlen (error->message), >=, MAX_LOG);
  g_assert_cmpuint (strlen (error->message), <, MAX_LOG + 200);
}

/* Compilers stop after some errors, but have been seen to repeat long lines. */
static void
test_long_log (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnMemo) kernels = tarn_opencl_kernel_memo_new ();
  g_autofree gchar *words = g_strnfill (2 * MAX_LOG, 'w');
  g_autofree gchar *text = g_strdup_printf ("#error first_words %s\nkernel void f () { }", words);
  g_autofree gchar *log = g_strdup_printf ("first_words %s", words);
  TarnOpenclKernelKey key = opencl_kernel_key (device, text, "f");
  GError *error = fail_to_get (kernels, state->context, &key);

  g_test_message ("the compiler's own: %" G_GSIZE_FORMAT " bytes", strlen (error->message));
  if (strlen (error->message) > MAX_LOG)
    assert_cut (error, "first_words", " more bytes of the build log are left out]");
  g_clear_error (&error);

  opencl_calls_pretend_log (log);
  error = fail_to_get (kernels, state->context, &key);
  opencl_calls_pretend_log (NULL);
  assert_cut (error, "first_words", "www\n[65548 more bytes of the build log are left out]");
  g_clear_error (&error);
  words[MAX_LOG] = '\0';
  opencl_calls_pretend_log (words);
  error = fail_to_get (kernels, state->context, &key);
  opencl_calls_pretend_log (NULL);
  g_assert_true (g_str_has_suffix (error->message, words));
  g_clear_error (&error);
}

static void
test_odd_logs (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnMemo) kernels = tarn_opencl_kernel_memo_new ();
  TarnOpenclKernelKey key = opencl_kernel_key (device, "#error none\n", "f");
  GError *error;

  opencl_calls_pretend_log (" \n"); /* no log */
  error = fail_to_get (kernels, state->context, &key);
  g_assert_cmpstr (error->message, ==, "clBuildProgram: CL_BUILD_PROGRAM_FAILURE (-11)");
  g_clear_error (&error);
  opencl_calls_pretend_log ("\nbad \xff byte\n");
  error = fail_to_get (kernels, state->context, &key);
  g_assert_cmpstr (error->message, ==,
                   "clBuildProgram: CL_BUILD_PROGRAM_FAILURE (-11): bad \xef\xbf\xbd byte");
  g_clear_error (&error);
  opencl_calls_pretend_log (NULL);
}

/* The program is good, and stays; a kernel that is not in it does not become an entry. */
static void
test_no_kernel (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnMemo) kernels = tarn_opencl_kernel_memo_new ();
  TarnOpenclKernelKey key = opencl_kernel_key (device, good, NULL);
  cl_context context = opencl_context_new (device);

  (void) state;
  opencl_calls_reset ();
  for (guint i = 0; i < 100; i++)
    {
      g_autofree gchar *name = g_strdup_printf ("absent_%u", i);
      g_autoptr (GError) error = NULL;

      key.kernel_name = name;
      error = fail_to_get (kernels, context, &key);
      g_assert_error (error, TARN_OPENCL_ERROR, CL_INVALID_KERNEL_NAME);
      g_assert_true (g_str_has_prefix (error->message, "clCreateKernel: CL_INVALID_KERNEL_NAME"));
      g_assert_true (g_str_has_suffix (error->message, name));
    }
  g_assert_cmpuint (opencl_calls_get_builds (), ==, 1);
  g_assert_cmpuint (opencl_count_entries (kernels), ==, 0);
  key.kernel_name = "first";
  opencl_touch_kernel (kernels, context, &key);
  g_assert_cmpuint (opencl_calls_get_builds (), ==, 1);
  tarn_memo_forget_everywhere (context);
  opencl_context_release (context);
}

static void
test_bad_keys (const TarnOpenclDevice *device, OpenclState *state)
{
  static const gchar *const missing[] = { "source", "kernel_name", "device" };
  g_autoptr (TarnMemo) kernels = tarn_opencl_kernel_memo_new ();

  opencl_calls_reset ();
  for (gsize i = 0; i < G_N_ELEMENTS (missing); i++)
    {
      TarnOpenclKernelKey key
          = opencl_kernel_key (device, i == 0 ? NULL : good, i == 1 ? NULL : "first");
      g_autoptr (GError) error = NULL;

      key.device = i == 2 ? NULL : key.device;
      error = fail_to_get (kernels, state->context, &key);
      g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
      g_assert_true (g_str_has_suffix (error->message, missing[i]));
    }
  g_assert_cmpuint (opencl_calls_get_builds (), ==, 0);
  g_assert_cmpuint (opencl_count_entries (kernels), ==, 0);
}

/* Scenarios: all that is taken is given back, but for what cannot be; FALSE with an error if not
 * everything is there. */

typedef struct
{
  const TarnOpenclDevice *device;
  cl_context context;
} Place;

static gboolean
use_kernel (TarnMemo *kernels, const Place *place, const gchar *source, const gchar *name,
            GError **error)
{
  TarnOpenclKernelKey key = opencl_kernel_key (place->device, source, name);
  gpointer kernel;

  if (!tarn_memo_get (kernels, place->context, &key, &kernel, error))
    return FALSE;
  /* As the library does. */
  if (clReleaseKernel (kernel) != CL_SUCCESS)
    g_log ("Tarn-OpenCL", G_LOG_LEVEL_MESSAGE, "the test's release");
  return TRUE;
}

static gboolean
use_and_clear (const Place *place, GError **error)
{
  g_autoptr (TarnMemo) kernels = tarn_opencl_kernel_memo_new ();
  gboolean ok = use_kernel (kernels, place, good, "first", error)
                && use_kernel (kernels, place, good, "first", error)
                && use_kernel (kernels, place, good, "second", error);

  tarn_memo_forget_everywhere (place->context);
  return ok;
}

static gboolean
use_and_unref (const Place *place, GError **error)
{
  g_autoptr (TarnMemo) kernels = tarn_opencl_kernel_memo_new ();

  return use_kernel (kernels, place, good, "first", error);
}

static gboolean
use_bad_name (const Place *place, GError **error)
{
  g_autoptr (TarnMemo) kernels = tarn_opencl_kernel_memo_new ();

  return use_kernel (kernels, place, good, "third", error);
}

static gboolean
use_bad_source (const Place *place, GError **error)
{
  g_autoptr (TarnMemo) kernels = tarn_opencl_kernel_memo_new ();

  return use_kernel (kernels, place, "kernel void first () { undeclared_4711 (); }", "first",
                     error);
}

typedef struct
{
  gboolean (*run) (const Place *place, GError **error);
  cl_int status; /* of its error, if no call is made to fail */
} Scenario;

static const Scenario scenarios[] = {
  { use_and_clear, CL_SUCCESS },
  { use_and_unref, CL_SUCCESS },
  { use_bad_name, CL_INVALID_KERNEL_NAME },
  { use_bad_source, CL_BUILD_PROGRAM_FAILURE },
};

/* What a failure becomes. */
typedef enum
{
  AN_ERROR,  /* with the call's name and status */
  A_MESSAGE, /* it is a release */
  NO_ENTRY   /* it is a retain: TARN_ERROR_FAILED, or nothing but that nothing is kept */
} Outcome;

static const struct
{
  const gchar *name;
  Outcome outcome;
} functions[] = {
  { "clCreateProgramWithSource", AN_ERROR },
  { "clBuildProgram", AN_ERROR },
  { "clCreateKernel", AN_ERROR },
  { "clGetKernelInfo", AN_ERROR },
  { "clReleaseKernel", A_MESSAGE },
  { "clReleaseProgram", A_MESSAGE },
  { "clReleaseContext", A_MESSAGE },
  { "clRetainKernel", NO_ENTRY },
  { "clRetainProgram", NO_ENTRY },
  { "clRetainContext", NO_ENTRY },
};

/* The layer's books */

/* References on all objects of a kind; with @release they are given back. */
static guint
count_kind (OpenclLayerKind kind, cl_int (*release) (gpointer object))
{
  gpointer objects[16];
  guint n = layer->get_live (kind, objects, G_N_ELEMENTS (objects)), references = 0;

  g_assert_cmpuint (n, <=, G_N_ELEMENTS (objects));
  for (guint i = 0; i < n; i++)
    {
      guint its = layer->get_references (objects[i]);

      references += its;
      while (release != NULL && its-- > 0)
        g_assert_cmpint (release (objects[i]), ==, CL_SUCCESS);
    }
  return references;
}

static cl_int
release_kernel (gpointer kernel)
{
  return clReleaseKernel (kernel);
}

static cl_int
release_program (gpointer program)
{
  return clReleaseProgram (program);
}

static guint
count_lost (const Place *place)
{
  return count_kind (OPENCL_LAYER_KERNEL, NULL) + count_kind (OPENCL_LAYER_PROGRAM, NULL)
         + layer->get_references (place->context) - 1;
}

static void
give_back_lost (const Place *place)
{
  count_kind (OPENCL_LAYER_KERNEL, release_kernel);
  count_kind (OPENCL_LAYER_PROGRAM, release_program);
  while (layer->get_references (place->context) > 1)
    g_assert_cmpint (clReleaseContext (place->context), ==, CL_SUCCESS);
  g_assert_cmpuint (count_lost (place), ==, 0);
}

/* Failures */

static void
count_message (const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer data)
{
  (void) domain;
  (void) level;
  g_assert_true (strstr (message, "(-59)") != NULL || strstr (message, "the test's") != NULL);
  ++*(guint *) data;
}

/* The error is that of the call that failed, or else the scenario's own. */
static void
assert_blamed (const GError *error, const gchar *failed, cl_int status)
{
  if (failed != NULL)
    {
      g_assert_error (error, TARN_OPENCL_ERROR, CL_INVALID_OPERATION);
      g_assert_true (g_str_has_prefix (error->message, failed));
    }
  else if (status != CL_SUCCESS)
    g_assert_error (error, TARN_OPENCL_ERROR, status);
  else
    g_assert_no_error (error);
}

static void
fail_nth (const Place *place, const Scenario *scenario, guint function, guint nth,
          gboolean for_ever)
{
  guint n_messages = 0;
  guint handler
      = g_log_set_handler ("Tarn-OpenCL", G_LOG_LEVEL_MESSAGE, count_message, &n_messages);
  g_autoptr (GError) error = NULL;
  const gchar *failed;
  gboolean ok;

  layer->fail (functions[function].name, nth, for_ever, CL_INVALID_OPERATION);
  ok = scenario->run (place, &error);
  failed = layer->get_failed ();
  layer->fail (NULL, 0, FALSE, CL_SUCCESS);
  g_log_remove_handler ("Tarn-OpenCL", handler);
  g_test_message ("%s %u%s: %s; %u lost, %u messages", functions[function].name, nth,
                  for_ever ? " and all others" : "", ok ? "no error" : error->message,
                  count_lost (place), n_messages);

  g_assert_nonnull (failed);
  g_assert_true (ok == (error == NULL));
  if (!g_error_matches (error, TARN_ERROR, TARN_ERROR_FAILED)
      || functions[function].outcome != NO_ENTRY)
    assert_blamed (error, functions[function].outcome == AN_ERROR ? failed : NULL,
                   scenario->status);
  g_assert_cmpuint (count_lost (place), ==, n_messages);
  give_back_lost (place);
}

/* As it is where nothing is made to fail. */
static void
run_well (const Place *place, const Scenario *scenario)
{
  g_autoptr (GError) error = NULL;

  scenario->run (place, &error);
  assert_blamed (error, NULL, scenario->status);
  g_assert_cmpuint (count_lost (place), ==, 0);
}

/* Each call of a function, once and for ever; after it, all is well again. */
static guint
fail_function (const Place *place, const Scenario *scenario, guint function)
{
  guint n;

  layer->reset ();
  run_well (place, scenario);
  n = layer->get_calls (functions[function].name);
  for (gint for_ever = FALSE; for_ever <= TRUE; for_ever++)
    for (guint nth = 1; nth <= n; nth++)
      fail_nth (place, scenario, function, nth, for_ever);
  return 2 * n;
}

static void
test_scenarios (const TarnOpenclDevice *device, OpenclState *state)
{
  const Place place = { device, state->context };
  guint n_failures = 0;

  /* So that nobody else holds on to the context. */
  g_assert_cmpint (clReleaseCommandQueue (state->queue), ==, CL_SUCCESS);
  for (gsize i = 0; i < G_N_ELEMENTS (scenarios); i++)
    {
      for (gsize j = 0; j < G_N_ELEMENTS (functions); j++)
        n_failures += fail_function (&place, &scenarios[i], j);
      run_well (&place, &scenarios[i]);
    }
  g_test_message ("%u failures", n_failures);
  g_assert_cmpuint (n_failures, >, 60);
  state->queue = clCreateCommandQueue (state->context, device->device, 0, NULL);
}

/* What means that memory is out is that error, whichever call says it. */
static void
test_out_of_memory (const TarnOpenclDevice *device, OpenclState *state)
{
  static const cl_int statuses[]
      = { CL_OUT_OF_HOST_MEMORY, CL_OUT_OF_RESOURCES, CL_MEM_OBJECT_ALLOCATION_FAILURE };
  const Place place = { device, state->context };

  layer->reset ();
  for (gsize i = 0; i < G_N_ELEMENTS (functions) && functions[i].outcome == AN_ERROR; i++)
    {
      g_autoptr (GError) error = NULL;

      layer->fail (functions[i].name, 1, FALSE, statuses[i % G_N_ELEMENTS (statuses)]);
      g_assert_false (use_and_clear (&place, &error));
      g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
      g_assert_true (g_str_has_prefix (error->message, functions[i].name));
      g_assert_cmpuint (count_lost (&place), ==, 0);
    }
}

/* A driver that does not even say what is wrong. */
static void
test_no_log (const TarnOpenclDevice *device, OpenclState *state)
{
  const Place place = { device, state->context };

  layer->reset ();
  for (guint nth = 1; nth <= 2; nth++)
    {
      g_autoptr (GError) error = NULL;

      layer->fail ("clGetProgramBuildInfo", nth, TRUE, CL_INVALID_VALUE);
      g_assert_false (use_bad_source (&place, &error));
      g_assert_nonnull (layer->get_failed ());
      g_assert_error (error, TARN_OPENCL_ERROR, CL_BUILD_PROGRAM_FAILURE);
      g_assert_cmpstr (error->message, ==, "clBuildProgram: CL_BUILD_PROGRAM_FAILURE (-11)");
      g_assert_cmpuint (count_lost (&place), ==, 0);
    }
  layer->reset ();
}

/* A hit makes one call of the driver's, for the caller's reference. */
static void
test_hits (const TarnOpenclDevice *device, OpenclState *state)
{
  const Place place = { device, state->context };
  g_autoptr (TarnMemo) kernels = tarn_opencl_kernel_memo_new ();
  guint calls;

  layer->reset ();
  g_assert_true (use_kernel (kernels, &place, good, "first", NULL));
  calls = layer->get_calls (NULL);
  for (guint i = 0; i < 1000; i++)
    g_assert_true (use_kernel (kernels, &place, good, "first", NULL));
  g_assert_cmpuint (layer->get_calls ("clBuildProgram"), ==, 1);
  g_assert_cmpuint (layer->get_calls (NULL), ==, calls + 2000); /* with the test's release */
}

static gpointer
compute (gpointer device, gconstpointer key, gpointer unused, GError **error)
{
  (void) device;
  (void) key;
  (void) unused;
  (void) error;
  return &layer;
}

/* A device older than OpenCL 1.2, whose driver has no function that retains devices. */
static void
test_old_device (const TarnOpenclDevice *device, OpenclState *state)
{
  const Place place = { device, state->context };

  for (guint is_old = 0; is_old < 2; is_old++)
    {
      g_autoptr (TarnMemo) kernels = tarn_opencl_kernel_memo_new ();
      g_autoptr (TarnMemo) devices = tarn_opencl_device_memo_new (NULL, compute, NULL, NULL);
      gpointer value;

      layer->reset ();
      if (is_old)
        layer->set_device_info (CL_DEVICE_VERSION, "OpenCL 1.1 of old", 18);
      opencl_calls_reset ();
      g_assert_true (use_kernel (kernels, &place, good, "first", NULL));
      g_assert_true (tarn_memo_get (devices, device->device, "key", &value, NULL));
      g_assert_cmpuint (opencl_count_entries (devices), ==, 1);
      g_assert_cmpint (opencl_calls_get_retained_devices () > 0, ==, !is_old);
      tarn_memo_clear (kernels);
      tarn_memo_clear (devices);
    }
  layer->reset ();
}

int
main (int argc, char **argv)
{
  static const OpenclCase cases[] = {
    { "memo/kernels/bad-source", test_bad_source }, { "memo/kernels/long-log", test_long_log },
    { "memo/kernels/odd-logs", test_odd_logs },     { "memo/kernels/no-kernel", test_no_kernel },
    { "memo/kernels/bad-keys", test_bad_keys },
  };
  static const OpenclCase layer_cases[] = {
    { "memo/faults/scenarios", test_scenarios },
    { "memo/faults/out-of-memory", test_out_of_memory },
    { "memo/faults/no-log", test_no_log },
    { "memo/faults/hits", test_hits },
    { "memo/faults/old-device", test_old_device },
  };

  g_test_init (&argc, &argv, NULL);
  layer = opencl_layer_load ();
  opencl_add (cases, G_N_ELEMENTS (cases));
  if (layer == NULL)
    opencl_add_no_layer ("/opencl/no-layer");
  else
    opencl_add (layer_cases, G_N_ELEMENTS (layer_cases));
  return g_test_run ();
}
