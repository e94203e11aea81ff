/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The fake driver's modules.  What is expected was seen on an H200, but for the images, which are
 * the fake's own, and for handles that are used again. */

#include "cuda-fixture.h"

#include <sys/wait.h>
#include <unistd.h>

#define PTX                                                                                        \
  "// .entry in_a_comment\n/* .entry in_another\n */\n\t.version 7.0\n.target sm_70\n"             \
  ".visible .entry add(.param .u64 x);\n.visible .entry add(.param .u64 x) { ret; }\n"             \
  ".entry\n  $multiply_2() { ret; }\n.func helper() { ret; }\n"

/* What no call gives. */
#define UNCHANGED(type) ((type) (guintptr) 7)

static const gchar no_image[] = "error   : Binary format for key='0', ident='' is not recognized";

static CUmodule
load (gconstpointer image)
{
  CUmodule module;

  SUCCEED (cuModuleLoadData (&module, image));
  return module;
}

static CUfunction
get_function (CUmodule module, const gchar *name)
{
  CUfunction function;

  SUCCEED (cuModuleGetFunction (&function, module, name));
  return function;
}

/* A module that is gone, and what says so. */
static void
assert_gone (CUmodule module, guint status)
{
  CUfunction function = UNCHANGED (CUfunction);

  ASSERT_STATUS (cuModuleGetFunction (&function, module, "add"), status);
  g_assert_true (function == UNCHANGED (CUfunction));
  ASSERT_STATUS (cuModuleUnload (module), status);
}

static void
test_before_init (void)
{
  CUmodule module = UNCHANGED (CUmodule);

  ASSERT_STATUS (cuModuleLoadData (&module, PTX), FAKE_CUDA_NOT_INITIALIZED);
  ASSERT_STATUS (cuModuleLoadDataEx (&module, PTX, 0, NULL, NULL), FAKE_CUDA_NOT_INITIALIZED);
  g_assert_true (module == UNCHANGED (CUmodule));
  assert_gone (module, FAKE_CUDA_NOT_INITIALIZED);
}

/* Functions */

static void
test_functions (void)
{
  CUcontext context = create_context ();
  CUmodule a = load (PTX), b = load (PTX);
  CUfunction add = get_function (a, "add"), multiply = get_function (a, "$multiply_2");

  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_MODULE), ==, 2);
  g_assert_true (a != b && add != multiply);
  g_assert_true (get_function (a, "add") == add && get_function (b, "add") != add);
  g_assert_cmpstr (fake->find_kernel (add), ==, "add");
  g_assert_cmpstr (fake->find_kernel (multiply), ==, "$multiply_2");
  SUCCEED (cuModuleUnload (b));
  g_assert_cmpstr (fake->find_kernel (add), ==, "add");
  SUCCEED (cuModuleUnload (a));
  g_assert_null (fake->find_kernel (add));
  g_assert_null (fake->find_kernel (multiply));
  g_assert_null (fake->find_kernel (NULL));
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_MODULE), ==, 0);
  SUCCEED (cuCtxDestroy_v2 (context));
}

static void
test_function_not_found (void)
{
  static const gchar *const names[] = { "Add", "ad", "helper", "in_a_comment", "in_another" };
  CUcontext context = create_context ();
  CUmodule module = load (PTX);
  CUfunction function;

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      function = UNCHANGED (CUfunction);
      ASSERT_STATUS (cuModuleGetFunction (&function, module, names[i]), FAKE_CUDA_NOT_FOUND);
      g_assert_null (function);
    }
  function = UNCHANGED (CUfunction);
  ASSERT_STATUS (cuModuleGetFunction (&function, module, NULL), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuModuleGetFunction (&function, module, ""), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuModuleGetFunction (NULL, module, "add"), FAKE_CUDA_INVALID_VALUE);
  g_assert_true (function == UNCHANGED (CUfunction));
  SUCCEED (cuCtxDestroy_v2 (context));
}

static void
test_cubin (void)
{
  CUcontext context = create_context ();
  CUmodule module = load ("\177ELFadd\0$multiply_2\0");
  CUfunction function;

  g_assert_cmpstr (fake->find_kernel (get_function (module, "add")), ==, "add");
  g_assert_cmpstr (fake->find_kernel (get_function (module, "$multiply_2")), ==, "$multiply_2");
  ASSERT_STATUS (cuModuleGetFunction (&function, module, "ELFadd"), FAKE_CUDA_NOT_FOUND);
  SUCCEED (cuCtxDestroy_v2 (context));
}

/* Images and logs */

typedef struct
{
  const gchar *image;
  guint status;
  const gchar *log;
} Image;

static const Image images[] = {
  { PTX, 0, "" },
  { ".version 8.0", 0, "" },
  { "\177ELFadd\0", 0, "" },
  { ".version", 218, "ptxas fatal : Ptx assembly aborted due to errors" },
  { ".version seven\n", 218, "ptxas fatal : Ptx assembly aborted due to errors" },
  { ".version 7.0x\n", 218, "ptxas fatal : Ptx assembly aborted due to errors" },
  { PTX "#error two words\nmore\n", 218, "ptxas fatal : two words" },
  { "#error no PTX\r\n", 218, "ptxas fatal : no PTX" },
  { PTX "// #error none\n", 0, "" },
  { "", 200, no_image },
  { " \n", 200, no_image },
  { "hello", 200, no_image },
  { ".versions 7.0\n", 200, no_image },
  { ".target sm_70\n.version 7.0\n", 200, no_image },
  { "// .version 7.0\n", 200, no_image },
  { "\1\2\3\4", 200, no_image },
  { "\177ELF\0", 200, no_image },
  { "\177ELF\2\1\1\0", 200, no_image },
  { "\177ELFadd\0"
    "1\0",
    200, no_image },
  { "\177ELFadd\n\0", 200, no_image },
};

static void
test_images (void)
{
  CUcontext context = create_context ();

  for (guint i = 0; i < G_N_ELEMENTS (images); i++)
    {
      CUmodule module = UNCHANGED (CUmodule);
      gboolean is_valid = images[i].status == FAKE_CUDA_SUCCESS;

      ASSERT_STATUS (cuModuleLoadData (&module, images[i].image), images[i].status);
      g_assert_true ((module != UNCHANGED (CUmodule)) == is_valid);
      g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_MODULE), ==, is_valid);
      if (is_valid)
        SUCCEED (cuModuleUnload (module));
    }
  SUCCEED (cuCtxDestroy_v2 (context));
}

static void
test_logs (void)
{
  CUcontext context = create_context ();

  for (guint i = 0; i < G_N_ELEMENTS (images); i++)
    {
      unsigned int options[] = { 7, 6, 3, 5, 4 };
      gchar info[10] = "info", errors[100] = "errors";
      void *values[] = { (void *) 4, (void *) sizeof errors, info, errors, (void *) sizeof info };
      CUmodule module = UNCHANGED (CUmodule);

      ASSERT_STATUS (cuModuleLoadDataEx (&module, images[i].image, 5, options, values),
                     images[i].status);
      g_assert_cmpstr (errors, ==, images[i].log);
      g_assert_cmpuint ((guintptr) values[1], ==, strlen (images[i].log));
      g_assert_cmpstr (info, ==, "");
      g_assert_cmpuint ((guintptr) values[4], ==, 0);
      g_assert_true (values[2] == info && values[3] == errors && values[0] == (void *) 4);
    }
  SUCCEED (cuCtxDestroy_v2 (context));
}

/* The log "ptxas fatal : x", which has 15 bytes, in buffers of all sizes about that. */
static void
test_log_sizes (void)
{
  CUcontext context = create_context ();

  for (gsize size = 0; size < 20; size++)
    {
      unsigned int options[] = { 5, 6 };
      gchar buffer[21], expected[21];
      void *values[] = { buffer, (void *) size };
      gsize cleared = MAX (size, 1);
      CUmodule module;

      memset (buffer, '#', sizeof buffer);
      memset (expected, '#', sizeof expected);
      memset (expected, 0, cleared);
      memcpy (expected, "ptxas fatal : x", MIN (15, cleared - 1));
      ASSERT_STATUS (cuModuleLoadDataEx (&module, "#error x", 2, options, values),
                     FAKE_CUDA_INVALID_PTX);
      g_assert_cmpmem (buffer, sizeof buffer, expected, sizeof expected);
      g_assert_cmpuint ((guintptr) values[1], ==, size <= 1 ? 0 : MIN (size, 15));
    }
  SUCCEED (cuCtxDestroy_v2 (context));
}

static void
test_options (void)
{
  static const struct
  {
    guint n;
    unsigned int options[2];
    gboolean has_buffer;
    guint status;
  } rows[] = {
    { 0, { 99, 99 }, TRUE, 0 }, { 1, { 33, 99 }, TRUE, 0 }, { 1, { 34, 0 }, TRUE, 1 },
    { 1, { 5, 6 }, TRUE, 1 },   { 1, { 6, 5 }, TRUE, 1 },   { 2, { 5, 6 }, TRUE, 0 },
    { 2, { 5, 6 }, FALSE, 1 },  { 2, { 5, 4 }, TRUE, 1 },   { 2, { 3, 4 }, TRUE, 0 },
    { 1, { 3, 4 }, TRUE, 1 },   { 2, { 3, 6 }, TRUE, 1 },   { 2, { 3, 4 }, FALSE, 1 },
  };
  CUcontext context = create_context ();
  CUmodule module;

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      unsigned int options[] = { rows[i].options[0], rows[i].options[1] };
      gchar buffer[10] = "untouched";
      void *values[] = { rows[i].has_buffer ? buffer : NULL, (void *) sizeof buffer };

      ASSERT_STATUS (cuModuleLoadDataEx (&module, PTX, rows[i].n, options, values), rows[i].status);
      g_assert_cmpstr (buffer, ==, rows[i].n == 2 && rows[i].status == 0 ? "" : "untouched");
    }
  SUCCEED (cuModuleLoadDataEx (&module, PTX, 0, NULL, NULL));
  ASSERT_STATUS (cuModuleLoadDataEx (&module, PTX, 1, NULL, NULL), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuModuleLoadDataEx (&module, NULL, 0, NULL, NULL), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuModuleLoadDataEx (NULL, PTX, 0, NULL, NULL), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuModuleLoadData (&module, NULL), FAKE_CUDA_INVALID_VALUE);
  ASSERT_STATUS (cuModuleLoadData (NULL, PTX), FAKE_CUDA_INVALID_VALUE);
  SUCCEED (cuCtxDestroy_v2 (context));
}

/* What is gone */

static void
test_unload (void)
{
  CUcontext context = create_context ();
  CUmodule a = load (PTX), b = load (PTX);
  CUfunction of_a = get_function (a, "add"), of_b = get_function (b, "add");

  SUCCEED (cuModuleUnload (b));
  SUCCEED (cuModuleUnload (a));
  assert_gone (a, FAKE_CUDA_INVALID_HANDLE);
  assert_gone (b, FAKE_CUDA_INVALID_HANDLE);
  assert_gone (NULL, FAKE_CUDA_INVALID_HANDLE);
  g_assert_true (load (PTX) == a && load (PTX) == b);
  g_assert_true (fake->find_kernel (of_a) != NULL && fake->find_kernel (of_b) != NULL);
  SUCCEED (cuCtxDestroy_v2 (context));
}

static void
test_never_a_module (void)
{
  CUcontext context;

  if (!g_test_subprocess ())
    {
      assert_crash ("*cuModuleUnload: 0x* never was a module: a driver crashes here*");
      return;
    }
  context = create_context ();
  cuModuleUnload ((CUmodule) context);
}

static void
test_no_context (void)
{
  CUmodule module = UNCHANGED (CUmodule);
  CUcontext context;

  ASSERT_STATUS (cuModuleLoadData (&module, PTX), FAKE_CUDA_INVALID_CONTEXT);
  ASSERT_STATUS (cuModuleLoadData (&module, NULL), FAKE_CUDA_INVALID_CONTEXT);
  ASSERT_STATUS (cuModuleLoadData (&module, "hello"), FAKE_CUDA_INVALID_CONTEXT);
  ASSERT_STATUS (cuModuleLoadDataEx (&module, PTX, 1, NULL, NULL), FAKE_CUDA_INVALID_CONTEXT);
  g_assert_true (module == UNCHANGED (CUmodule));
  context = create_context ();
  module = load (PTX);
  SUCCEED (cuCtxPopCurrent_v2 (NULL));
  g_assert_nonnull (get_function (module, "add"));
  SUCCEED (cuModuleUnload (module));
  assert_gone (module, FAKE_CUDA_INVALID_HANDLE);
  SUCCEED (cuCtxDestroy_v2 (context));
}

static void
test_destroyed_context (void)
{
  CUcontext a = create_context (), b;
  CUmodule of_a = load (PTX), of_b, unchanged = UNCHANGED (CUmodule);
  CUfunction function = get_function (of_a, "add");

  b = create_context ();
  of_b = load (PTX);
  g_assert_nonnull (get_function (of_a, "add")); /* whose is not current */
  SUCCEED (cuCtxDestroy_v2 (a));
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_MODULE), ==, 1);
  g_assert_null (fake->find_kernel (function));
  assert_gone (of_a, FAKE_CUDA_CONTEXT_IS_DESTROYED);
  g_assert_cmpuint (fake->get_calls ("cuModuleUnload"), ==, 1);
  g_assert_nonnull (get_function (of_b, "add"));
  SUCCEED (cuCtxDestroy_v2 (b));
  g_assert_true (get_current () == a); /* it was below b */
  ASSERT_STATUS (cuModuleLoadData (&unchanged, PTX), FAKE_CUDA_CONTEXT_IS_DESTROYED);
  ASSERT_STATUS (cuModuleLoadData (&unchanged, NULL), FAKE_CUDA_CONTEXT_IS_DESTROYED);
  g_assert_true (unchanged == UNCHANGED (CUmodule));
  SUCCEED (cuCtxPopCurrent_v2 (NULL));
  assert_gone (of_a, FAKE_CUDA_CONTEXT_IS_DESTROYED);
  a = create_context ();
  g_assert_true (load (PTX) == of_b && load (PTX) == of_a);
  SUCCEED (cuModuleUnload (of_a));
  assert_gone (of_a, FAKE_CUDA_INVALID_HANDLE); /* it was another */
  SUCCEED (cuCtxDestroy_v2 (a));
}

/* Primary contexts have the same handle again, and none of what they had. */
static void
test_reset_context (void)
{
  CUcontext context;
  CUmodule module;

  SUCCEED (cuDevicePrimaryCtxRetain (&context, 0));
  SUCCEED (cuCtxPushCurrent_v2 (context));
  module = load (PTX);
  SUCCEED (cuDevicePrimaryCtxReset_v2 (0));
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_MODULE), ==, 0);
  assert_gone (module, FAKE_CUDA_CONTEXT_IS_DESTROYED);
  SUCCEED (cuDevicePrimaryCtxRelease_v2 (0));
  SUCCEED (cuCtxPopCurrent_v2 (NULL));
}

/* Modes: global, thread-local, relaxed. */
static void
test_captures (void)
{
  static const guint expected[] = { 900, 900, 0 };
  CUcontext context = create_context ();
  CUstream stream;

  SUCCEED (cuStreamCreate (&stream, 1));
  for (guint mode = 0; mode < G_N_ELEMENTS (expected); mode++)
    {
      CUmodule module;
      CUgraph graph;
      gboolean is_valid = expected[mode] == FAKE_CUDA_SUCCESS;

      SUCCEED (cuStreamBeginCapture_v2 (stream, mode));
      module = load (PTX);
      get_function (module, "add");
      SUCCEED (cuStreamEndCapture (stream, &graph));
      SUCCEED (cuStreamBeginCapture_v2 (stream, mode));
      ASSERT_STATUS (cuModuleUnload (module), expected[mode]);
      g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_MODULE), ==, !is_valid);
      ASSERT_STATUS (cuStreamEndCapture (stream, &graph),
                     is_valid ? FAKE_CUDA_SUCCESS : FAKE_CUDA_STREAM_CAPTURE_INVALIDATED);
      if (!is_valid)
        SUCCEED (cuModuleUnload (module));
    }
  SUCCEED (cuCtxDestroy_v2 (context));
}

/* Control */

static void
test_failures (void)
{
  CUcontext context = create_context ();
  CUmodule module = UNCHANGED (CUmodule);
  CUfunction function = UNCHANGED (CUfunction);

  fake->fail ("cuModuleLoadData", 1, FALSE, FAKE_CUDA_OUT_OF_MEMORY);
  ASSERT_STATUS (cuModuleLoadData (&module, PTX), FAKE_CUDA_OUT_OF_MEMORY);
  g_assert_cmpstr (fake->get_failed (), ==, "cuModuleLoadData");
  fake->fail ("cuModuleLoadDataEx", 1, FALSE, 222);
  ASSERT_STATUS (cuModuleLoadDataEx (&module, PTX, 0, NULL, NULL), 222);
  g_assert_true (module == UNCHANGED (CUmodule));
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_MODULE), ==, 0);
  module = load (PTX);
  fake->fail ("cuModuleGetFunction", 1, FALSE, 700);
  ASSERT_STATUS (cuModuleGetFunction (&function, module, "add"), 700);
  g_assert_true (function == UNCHANGED (CUfunction));
  fake->fail ("cuModuleUnload", 1, FALSE, 719);
  ASSERT_STATUS (cuModuleUnload (module), 719);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_MODULE), ==, 1);
  SUCCEED (cuModuleUnload (module));
  g_assert_cmpuint (fake->get_calls ("cuModuleLoadData"), ==, 2);
  g_assert_cmpuint (fake->get_calls ("cuModuleLoadDataEx"), ==, 1);
  g_assert_cmpuint (fake->get_calls ("cuModuleGetFunction"), ==, 1);
  g_assert_cmpuint (fake->get_calls ("cuModuleUnload"), ==, 2);
  SUCCEED (cuCtxDestroy_v2 (context));
}

static void
test_latency (void)
{
  CUcontext context = create_context ();
  gint64 start;

  fake->set_latency ("cuModuleLoadData", 20000);
  start = g_get_monotonic_time ();
  load (PTX);
  g_assert_cmpint (g_get_monotonic_time () - start, >=, 20000);
  SUCCEED (cuCtxDestroy_v2 (context));
}

static void
test_fork (void)
{
  CUcontext context = create_context ();
  CUmodule module = load (PTX), another;
  CUfunction function;
  guint calls = fake->get_calls_after_fork ();
  gint status;
  pid_t child = fork ();

  g_assert_cmpint (child, >=, 0);
  if (child == 0)
    _exit (cuModuleLoadData (&another, PTX) == FAKE_CUDA_NOT_INITIALIZED
                   && cuModuleLoadDataEx (&another, PTX, 0, NULL, NULL) == FAKE_CUDA_NOT_INITIALIZED
                   && cuModuleGetFunction (&function, module, "add") == FAKE_CUDA_NOT_INITIALIZED
                   && cuModuleUnload (module) == FAKE_CUDA_NOT_INITIALIZED
               ? 0
               : 1);
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_cmpint (status, ==, 0);
  g_assert_cmpuint (fake->get_calls_after_fork (), ==, calls + 4);
  SUCCEED (cuModuleUnload (module));
  SUCCEED (cuCtxDestroy_v2 (context));
}

static gpointer
load_and_unload (gpointer context)
{
  SUCCEED (cuCtxPushCurrent_v2 (context));
  for (guint i = 0; i < 200; i++)
    {
      CUmodule module = load (i % 2 == 0 ? PTX : "\177ELFadd\0");

      g_assert_nonnull (get_function (module, "add"));
      SUCCEED (cuModuleUnload (module));
    }
  SUCCEED (cuCtxPopCurrent_v2 (NULL));
  return NULL;
}

static void
test_threads (void)
{
  CUcontext context = create_context ();
  GThread *threads[4];

  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("user", load_and_unload, context);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  g_assert_cmpuint (fake->get_live (TARN_TESTING_CUDA_MODULE), ==, 0);
  SUCCEED (cuCtxDestroy_v2 (context));
}

int
main (int argc, char **argv)
{
  static const Case cases[] = {
    { "/cuda/fake/modules/functions", test_functions },
    { "/cuda/fake/modules/function-not-found", test_function_not_found },
    { "/cuda/fake/modules/cubin", test_cubin },
    { "/cuda/fake/modules/images", test_images },
    { "/cuda/fake/modules/logs", test_logs },
    { "/cuda/fake/modules/log-sizes", test_log_sizes },
    { "/cuda/fake/modules/options", test_options },
    { "/cuda/fake/modules/unload", test_unload },
    { "/cuda/fake/modules/never-one", test_never_a_module },
    { "/cuda/fake/modules/no-context", test_no_context },
    { "/cuda/fake/modules/destroyed-context", test_destroyed_context },
    { "/cuda/fake/modules/reset-context", test_reset_context },
    { "/cuda/fake/modules/captures", test_captures },
    { "/cuda/fake/modules/failures", test_failures },
    { "/cuda/fake/modules/latency", test_latency },
    { "/cuda/fake/modules/fork", test_fork },
    { "/cuda/fake/modules/threads", test_threads },
  };

  fake = tarn_fake_cuda ();
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda/fake/modules/before-init", test_before_init);
  add_cases (cases, G_N_ELEMENTS (cases));
  return g_test_run ();
}
