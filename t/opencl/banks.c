/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The banks of local memory, from times that are made up: for every memory there might be, and for
 * what no banks explain.  No device is needed. */

#include <glib.h>

#include "opencl/bank-analysis-private.h"

#define LOCAL_BYTES 32768 /* what OpenCL devices have at least, and TarnBankPattern is made for */

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
  const TarnLocalMemory memory = { sizeof memory, 32, 4, bench->lanes, 0 };

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
  const TarnLocalMemory memory = { sizeof memory, 32, 4, 32, 0 };
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
        const TarnLocalMemory memory = { sizeof memory, banks, 4, 32, 0 };
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
    { { 32, 1, 0 }, { 0, 32, 4, 32, 0 }, 1 },
    { { 32, 1, 0 }, { 0, 32, 4, 16, 0 }, 2 },
    { { 32, 1, 0 }, { 0, 16, 4, 32, 0 }, 2 },
    { { 32, 1, 0 }, { 0, 16, 8, 32, 0 }, 1 }, /* two lanes for each word of 8 bytes */
    { { 32, 2, 0 }, { 0, 16, 8, 32, 0 }, 2 },
    { { 2, 513, 2 }, { 0, 32, 4, 32, 0 }, 1 }, /* even words, and odd ones of another row */
    { { 2, 513, 2 }, { 0, 16, 8, 32, 0 }, 2 },
    { { 2, 513, 2 }, { 0, 8, 16, 32, 0 }, 2 },
    { { 4, 513, 4 }, { 0, 16, 8, 32, 0 }, 2 },
    { { 4, 513, 4 }, { 0, 8, 16, 32, 0 }, 4 },
    { { 16, 128, 4 }, { 0, 32, 4, 32, 0 }, 16 }, /* each half in a bank of its own */
    { { 16, 128, 4 }, { 0, 32, 4, 16, 0 }, 32 },
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

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/opencl/banks/exact", test_exact);
  g_test_add_func ("/opencl/banks/noisy", test_noisy);
  g_test_add_func ("/opencl/banks/latency", test_latency);
  g_test_add_func ("/opencl/banks/scaled", test_scaled);
  g_test_add_func ("/opencl/banks/none", test_none);
  g_test_add_func ("/opencl/banks/confidence", test_confidence);
  g_test_add_func ("/opencl/banks/passes", test_passes);
  g_test_add_func ("/opencl/banks/known-passes", test_known_passes);
  g_test_add_func ("/opencl/banks/patterns", test_patterns);
  return g_test_run ();
}
