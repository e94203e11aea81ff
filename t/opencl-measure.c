/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The banks of local memory: from times that are made up, for every memory there might be and for
 * none, and from each device as it is and as the layer's clock makes it look. */

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bank-analysis-private.h"
#include "opencl-device.h"

#define WARP_SIZE_NV 0x4003
#define LOCAL_BYTES 32768 /* what OpenCL devices have at least, and TarnBankPattern is made for */

static const OpenclLayer *layer;
static gboolean shows_times;
static const guint all_lanes[] = { 16, 32, 64 };

/* Times that are made up */

typedef struct
{
  guint lanes;
  guint n;
  TarnBankPattern patterns[TARN_BANK_MAX_PATTERNS];
  gdouble times[TARN_BANK_MAX_PATTERNS];
} Bench;

static Bench
make_bench (guint lanes)
{
  Bench bench = { .lanes = lanes };

  bench.n = _tarn_opencl_list_bank_patterns (lanes, LOCAL_BYTES, bench.patterns);
  g_assert_cmpuint (bench.n, ==, 32);
  return bench;
}

static gdouble
count_passes (const Bench *bench, const TarnLocalMemory *memory, guint i)
{
  return _tarn_opencl_count_bank_passes (memory, &bench->patterns[i], bench->lanes);
}

/* A device with this memory.  @start is what a launch takes beside its passes, @floor the least
 * time of a pattern, both in multiples of the fastest; @noise the standard deviation of each time.
 */
static void
set_times (Bench *bench, const TarnLocalMemory *memory, gdouble start, gdouble floor, gdouble noise)
{
  gdouble least = G_MAXDOUBLE;

  for (guint i = 0; i < bench->n; i++)
    least = MIN (least, count_passes (bench, memory, i));
  for (guint i = 0; i < bench->n; i++)
    {
      gdouble passes = MAX (count_passes (bench, memory, i), floor * least);
      gdouble error = 0; /* near to normal, by the central limit theorem */

      for (guint j = 0; j < 12; j++)
        error += g_test_rand_double_range (-0.5, 0.5);
      bench->times[i] = (start * least + passes) * (1 + noise * error) * 1e-3;
    }
}

static TarnOpenclLocalMemory
analyze (const Bench *bench)
{
  TarnOpenclLocalMemory result;

  _tarn_opencl_analyze_banks (bench->patterns, bench->times, bench->n, bench->lanes, &result);
  g_assert_cmpuint (result.struct_size, ==, sizeof result);
  g_assert_cmpfloat (result.confidence, >=, 0);
  g_assert_cmpfloat (result.confidence, <=, 1);
  if (!result.has_banks)
    g_assert_cmpuint (result.bank_count + result.bank_bytes + result.work_items, ==, 0);
  return result;
}

static void
assert_found (const Bench *bench, const TarnLocalMemory *memory, gdouble confidence)
{
  TarnOpenclLocalMemory result = analyze (bench);

  g_assert_true (result.has_banks);
  g_assert_cmpuint (result.bank_count, ==, memory->bank_count);
  g_assert_cmpuint (result.bank_bytes, ==, memory->bank_bytes);
  g_assert_cmpuint (result.work_items, ==, memory->work_items);
  g_assert_cmpfloat (result.confidence, >=, confidence);
}

typedef void (*MemoryFunc) (Bench *bench, const TarnLocalMemory *memory);

/* Every memory there might be; returns how many there are. */
static guint
for_each_memory (MemoryFunc func)
{
  guint n = 0;

  for (guint i = 0; i < G_N_ELEMENTS (all_lanes); i++)
    {
      Bench bench = make_bench (all_lanes[i]);
      TarnLocalMemory memory;

      for (guint j = 0; _tarn_opencl_get_bank_hypothesis (j, all_lanes[i], &memory); j++, n++)
        func (&bench, &memory);
    }
  return n;
}

static void
check_exact (Bench *bench, const TarnLocalMemory *memory)
{
  set_times (bench, memory, 0, 0, 0);
  assert_found (bench, memory, 1 - 1e-9);
  set_times (bench, memory, 1.5, 0, 0);
  assert_found (bench, memory, 1 - 1e-9);
}

static void
test_exact (void)
{
  g_assert_cmpuint (for_each_memory (check_exact), ==, 14 + 28 + 28);
}

static void
check_noisy (Bench *bench, const TarnLocalMemory *memory)
{
  for (guint i = 0; i < 15; i++)
    {
      gdouble factors[] = { 0.5, 3, 10 };
      guint outlier = (guint) g_test_rand_int_range (0, (gint32) bench->n);

      set_times (bench, memory, g_test_rand_double_range (0, 2), 0, 0.05);
      bench->times[outlier] *= factors[i % G_N_ELEMENTS (factors)];
      assert_found (bench, memory, 0.5);
    }
}

static void
test_noisy (void)
{
  for_each_memory (check_noisy);
}

/* Where a load takes longer than the fastest patterns need for all of theirs, these look alike. */
static void
check_latency (Bench *bench, const TarnLocalMemory *memory)
{
  for (guint i = 0; i < 10; i++)
    {
      set_times (bench, memory, 0.1, 1.4, 0.02);
      assert_found (bench, memory, 0.2);
    }
}

static void
test_latency (void)
{
  for_each_memory (check_latency);
}

/* A shift of all times, such as a device that runs slower, changes nothing. */
static void
check_scaled (Bench *bench, const TarnLocalMemory *memory)
{
  set_times (bench, memory, 1, 0, 0);
  for (guint i = 0; i < bench->n; i++)
    bench->times[i] *= 1e6;
  assert_found (bench, memory, 1 - 1e-9);
}

static void
test_scaled (void)
{
  for_each_memory (check_scaled);
}

/* Nothing that banks explain */

/* In each, @i is the pattern, and @random a number from 0 to 1. */
typedef gdouble (*TimeFunc) (const Bench *bench, guint i, gdouble random);

static gdouble
flat_time (const Bench *bench, guint i, gdouble random)
{
  (void) bench;
  (void) i;
  return 0.9 + 0.2 * random;
}

static gdouble
random_time (const Bench *bench, guint i, gdouble random)
{
  (void) bench;
  (void) i;
  return 1 + 9 * random;
}

static gdouble
wildly_random_time (const Bench *bench, guint i, gdouble random)
{
  (void) bench;
  (void) i;
  return 1 + 50 * random * random * random * random;
}

static gdouble
hiccuping_time (const Bench *bench, guint i, gdouble random)
{
  return i % 10 == 3 ? 5 : flat_time (bench, i, random);
}

/* The cache lines of 64 bytes that the lanes touch */
static gdouble
cache_time (const Bench *bench, guint i, gdouble random)
{
  g_autoptr (GHashTable) lines = g_hash_table_new (NULL, NULL);

  for (guint lane = 0; lane < bench->lanes; lane++)
    g_hash_table_add (
        lines, GUINT_TO_POINTER (_tarn_opencl_get_pattern_word (&bench->patterns[i], lane) / 16));
  return g_hash_table_size (lines) * (0.98 + 0.04 * random);
}

static gdouble
span_time (const Bench *bench, guint i, gdouble random)
{
  return (100 + _tarn_opencl_get_pattern_word (&bench->patterns[i], bench->lanes - 1))
         * (0.98 + 0.04 * random);
}

/* Less time for more passes */
static gdouble
reversed_time (const Bench *bench, guint i, gdouble random)
{
  const TarnLocalMemory memory = { sizeof memory, 32, 4, bench->lanes };

  return 200 - count_passes (bench, &memory, i) + random;
}

static void
assert_no_banks (TimeFunc func, gdouble confidence)
{
  for (guint i = 0; i < G_N_ELEMENTS (all_lanes); i++)
    for (guint round = 0; round < 30; round++)
      {
        Bench bench = make_bench (all_lanes[i]);
        TarnOpenclLocalMemory result;

        for (guint j = 0; j < bench.n; j++)
          bench.times[j] = func (&bench, j, g_test_rand_double ());
        result = analyze (&bench);
        g_assert_false (result.has_banks);
        g_assert_cmpfloat (result.confidence, >=, confidence);
      }
}

static void
test_none (void)
{
  assert_no_banks (flat_time, 0.6);
  assert_no_banks (random_time, 0.1);
  assert_no_banks (wildly_random_time, 0.1);
  assert_no_banks (hiccuping_time, 0.1);
  assert_no_banks (cache_time, 0.1);
  assert_no_banks (span_time, 0.1);
  assert_no_banks (reversed_time, 0.1);
}

/* The figures that tarn_opencl_measure_local_memory () documents */
static void
test_confidence (void)
{
  const TarnLocalMemory memory = { sizeof memory, 32, 4, 32 };
  Bench bench = make_bench (32);
  TarnOpenclLocalMemory result;

  for (guint i = 0; i < bench.n; i++)
    bench.times[i] = 1;
  result = analyze (&bench);
  g_assert_false (result.has_banks);
  g_assert_cmpfloat (result.confidence, ==, 1);

  /* Explained in full, but the slowest takes only 1.25 times as long: half way to what counts. */
  for (guint i = 0; i < bench.n; i++)
    bench.times[i] = 1 + 0.25 * (count_passes (&bench, &memory, i) - 1) / 31;
  result = analyze (&bench);
  g_assert_false (result.has_banks);
  g_assert_cmpfloat_with_epsilon (result.confidence, 0.5, 1e-9);

  /* The first patterns are strides that are powers of two, and do not show how wide banks are. */
  set_times (&bench, &memory, 0, 0, 0);
  bench.n = 8;
  result = analyze (&bench);
  g_assert_true (result.has_banks);
  g_assert_cmpfloat (result.confidence, ==, 0);
}

/* Patterns and passes */

/* Banks of 4 bytes and strides: what another part of the library says of a two-dimensional array
 * that is read by columns. */
static void
test_passes (void)
{
  Bench bench = make_bench (32);
  guint n_strides = 0;

  for (guint banks = 8; banks <= 128; banks *= 2)
    for (guint i = 0; i < bench.n; i++)
      {
        const TarnLocalMemory memory = { sizeof memory, banks, 4, 32 };
        const gsize shape[] = { 32, 1 }, stored_shape[] = { 32, bench.patterns[i].stride };

        if (bench.patterns[i].shift != 0)
          continue;
        g_assert_cmpuint (
            _tarn_opencl_count_bank_passes (&memory, &bench.patterns[i], 32), ==,
            tarn_local_memory_conflict (&memory, 4, 2, shape, stored_shape, NULL, NULL, NULL));
        n_strides++;
      }
  g_assert_cmpuint (n_strides, ==, 5 * 14);
}

static void
test_known_passes (void)
{
  static const struct
  {
    TarnBankPattern pattern;
    TarnLocalMemory memory;
    guint passes; /* of 32 lanes */
  } rows[] = {
    { { 32, 1, 0 }, { 0, 32, 4, 32 }, 1 },
    { { 32, 1, 0 }, { 0, 32, 4, 16 }, 2 },
    { { 32, 1, 0 }, { 0, 16, 4, 32 }, 2 },
    { { 32, 1, 0 }, { 0, 16, 8, 32 }, 1 }, /* two lanes for each word of 8 bytes */
    { { 32, 2, 0 }, { 0, 16, 8, 32 }, 2 },
    { { 2, 513, 2 }, { 0, 32, 4, 32 }, 1 }, /* even words, and odd ones of another row */
    { { 2, 513, 2 }, { 0, 16, 8, 32 }, 2 },
    { { 2, 513, 2 }, { 0, 8, 16, 32 }, 2 },
    { { 4, 513, 4 }, { 0, 16, 8, 32 }, 2 },
    { { 4, 513, 4 }, { 0, 8, 16, 32 }, 4 },
    { { 16, 128, 4 }, { 0, 32, 4, 32 }, 16 }, /* each half in a bank of its own */
    { { 16, 128, 4 }, { 0, 32, 4, 16 }, 32 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    g_assert_cmpuint (_tarn_opencl_count_bank_passes (&rows[i].memory, &rows[i].pattern, 32), ==,
                      rows[i].passes);
}

/* Lanes have words of their own, within the memory that there is; with less of it, fewer patterns.
 */
static void
test_patterns (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (all_lanes); i++)
    for (guint bytes = 1; bytes <= LOCAL_BYTES; bytes *= 2)
      {
        TarnBankPattern patterns[TARN_BANK_MAX_PATTERNS];
        guint n = _tarn_opencl_list_bank_patterns (all_lanes[i], bytes, patterns);

        for (guint j = 0; j < n; j++)
          {
            g_autoptr (GHashTable) words = g_hash_table_new (NULL, NULL);

            for (guint lane = 0; lane < all_lanes[i]; lane++)
              {
                guint word = _tarn_opencl_get_pattern_word (&patterns[j], lane);

                g_assert_cmpuint (4 * word + 4, <=, bytes);
                g_assert_true (g_hash_table_add (words, GUINT_TO_POINTER (word)));
              }
          }
        g_assert_cmpuint (n, <=, bytes);
        g_assert_true ((n == 0) == (bytes < 4 * all_lanes[i]));
      }
}

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
  const TarnLocalMemory memory = { sizeof memory, banks, bytes, lanes };
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
static guint64
clock_with_hiccups (const cl_uint *arguments)
{
  static guint n_launches;

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
  result = measure_with_clock (data, clock_with_hiccups, 32);
  g_assert_cmpuint (result.bank_count, ==, 32);
  g_assert_cmpfloat (result.confidence, >, 0.99);
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
assert_fails (gconstpointer data, GQuark domain, gint code, const gchar *text)
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

  assert_fails (data, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED, text);
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
  layer->set_device_info (CL_PROGRAM_BUILD_LOG, log, sizeof log);
  assert_fails (data, TARN_OPENCL_ERROR, CL_BUILD_PROGRAM_FAILURE,
                "clBuildProgram: CL_BUILD_PROGRAM_FAILURE (-11): line 1: no such word");
  layer->fail ("clCreateBuffer", 1, FALSE, CL_MEM_OBJECT_ALLOCATION_FAILURE);
  assert_fails (data, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY,
                "clCreateBuffer: CL_MEM_OBJECT_ALLOCATION_FAILURE (-4) for ");
  layer->fail ("clWaitForEvents", 3, FALSE, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
  assert_fails (data, TARN_OPENCL_ERROR, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
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

  layer->fail (function, nth, FALSE, CL_INVALID_OPERATION);
  ok = tarn_opencl_measure_local_memory (device, &result, &error);
  failed = layer->get_failed ();
  g_assert_true (ok == (failed == NULL || g_str_has_prefix (failed, "clRelease")));
  g_assert_true (ok == (error == NULL));
  if (failed == NULL)
    return FALSE;
  if (!ok)
    {
      g_assert_error (error, TARN_OPENCL_ERROR, CL_INVALID_OPERATION);
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

/* In a child of a process that has an allocator, no call is made. */
static void
test_fork (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnAllocator) allocator = opencl_allocator (state);
  gint status = -1;
  pid_t child = fork ();

  g_assert_cmpint (child, >=, 0);
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

static void
no_layer (void)
{
  g_test_skip ("the OpenCL loader takes no layers, or there is no OpenCL device");
}

static void
add_test (const TarnOpenclDevice *device, const gchar *rest, GTestDataFunc func)
{
  g_autofree gchar *path = opencl_path (device, rest);

  g_test_add_data_func (path, device, func);
}

static void
add_tests (const TarnOpenclDevice *device)
{
  add_test (device, "measure/device", test_device);
  opencl_add (device, "measure/fork", test_fork);
  if (layer == NULL)
    return;
  add_test (device, "measure/clock", test_clock);
  add_test (device, "measure/struct-size", test_struct_size);
  add_test (device, "measure/not-supported", test_not_supported);
  add_test (device, "measure/statuses", test_statuses);
  add_test (device, "measure/faults", test_faults);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_log_set_handler ("Tarn-OpenCL", G_LOG_LEVEL_DEBUG, log_times, NULL);
  g_test_add_func ("/opencl/banks/exact", test_exact);
  g_test_add_func ("/opencl/banks/noisy", test_noisy);
  g_test_add_func ("/opencl/banks/latency", test_latency);
  g_test_add_func ("/opencl/banks/scaled", test_scaled);
  g_test_add_func ("/opencl/banks/none", test_none);
  g_test_add_func ("/opencl/banks/confidence", test_confidence);
  g_test_add_func ("/opencl/banks/passes", test_passes);
  g_test_add_func ("/opencl/banks/known-passes", test_known_passes);
  g_test_add_func ("/opencl/banks/patterns", test_patterns);
  layer = opencl_layer_load ();
  if (layer == NULL)
    g_test_add_func ("/opencl/measure/no-layer", no_layer);
  for (guint i = 0; i < opencl_devices ()->len; i++)
    add_tests (g_ptr_array_index (opencl_devices (), i));
  return g_test_run ();
}
