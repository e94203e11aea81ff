/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Random traces: a pool over the fake device and its model do the same, and are compared after
 * every operation.  A mismatch says the seed, which --seed=SEED brings back. */

#include "lib/pool-model.h"
#include "pool/pool-private.h"

#include <string.h>
#include <tarn/testing.h>

/* Sizes are below 2 to the power of this. */
#define SIZE_BITS (GLIB_SIZEOF_SIZE_T == 8 ? 40 : 20)

#define PHASE 1000 /* operations between two changes of what is typical */
#define N_COMMON 4

typedef struct
{
  guint operations;
  guint size_bits;
  guint64 bytes; /* the device's budget */
  gsize max_size;
  gsize limit_bytes;     /* the pool's */
  gboolean stop_holding; /* near the end */
  gboolean orphan;       /* blocks outlive the last reference on the pool */

  /* So many requests at the least: */
  guint min_out_of_memory; /* met out-of-memory */
  guint min_rescued;       /* were served because something was given back */
  guint min_exact;         /* were served with an exact-size block */
  guint min_rescued_exact; /* both */
  guint min_failed;        /* failed with out-of-memory */
  guint min_refused;       /* failed with another error */
  guint min_over_limit;    /* failed because of the pool's limit */
} TraceOptions;

typedef struct
{
  TarnBlock *block;
  PoolModelBlock *expected;
} LiveBlock;

typedef struct
{
  const TraceOptions *options;
  PoolModel *model;
  TarnTestingDevice *device;
  TarnPool *pool; /* NULL once it is orphaned */
  GArray *live;   /* of LiveBlock */

  GArray *addresses; /* guint64, by PoolModelBlock.memory */
  GHashTable *known; /* the same as a set */

  /* What is typical at the moment. */
  guint live_target;
  guint size_bits;
  gsize common[N_COMMON];

  /* For messages. */
  guint operation;
  const gchar *what;
  gsize size;

  guint max_live, rescued, exact, rescued_exact, failed, refused, over_limit;
} Trace;

static const gchar *seed; /* as --seed takes it */

static G_GNUC_NORETURN void
fail_trace (Trace *trace, const gchar *difference)
{
  const PoolModel *model = trace->model;

  g_error ("seed %s, device of %" G_GUINT64_FORMAT " bytes, %u leading bits, operation %u, "
           "%s %" G_GSIZE_FORMAT ": %s",
           seed, model->bytes, model->leading_bits, trace->operation, trace->what, trace->size,
           difference);
}

static void
compare (Trace *trace, const gchar *name, guint64 value, guint64 expected)
{
  g_autofree gchar *difference = NULL;

  if (value == expected)
    return;
  difference = g_strdup_printf ("%s is %" G_GUINT64_FORMAT ", not %" G_GUINT64_FORMAT, name, value,
                                expected);
  fail_trace (trace, difference);
}

static void
compare_stats (Trace *trace)
{
  const TarnPoolStats *expected = &trace->model->stats;
  TarnPoolStats stats = TARN_POOL_STATS_INIT;

  tarn_pool_get_stats (trace->pool, &stats);
#define COMPARE(field) compare (trace, "stats." #field, stats.field, expected->field)
  COMPARE (held_blocks);
  COMPARE (active_blocks);
  COMPARE (managed_bytes);
  COMPARE (active_bytes);
  COMPARE (held_bytes);
  COMPARE (peak_managed_bytes);
  COMPARE (peak_active_bytes);
  COMPARE (hits);
  COMPARE (misses);
  COMPARE (failures);
  COMPARE (served_without_driver);
  COMPARE (driver_calls);
  COMPARE (upstream_failures);
  COMPARE (upstream_frees);
  COMPARE (reclaims);
  COMPARE (ignored_frees);
#undef COMPARE
#define COMPARE(field)                                                                             \
  compare (trace, "tarn_pool_get_" #field, tarn_pool_get_##field (trace->pool), expected->field)
  COMPARE (held_blocks);
  COMPARE (active_blocks);
  COMPARE (managed_bytes);
  COMPARE (active_bytes);
#undef COMPARE
}

static void
compare_device (Trace *trace)
{
  const PoolModel *model = trace->model;
  TarnTestingDevice *device = trace->device;

  compare (trace, "allocate calls", tarn_testing_device_get_allocate_calls (device),
           model->device_calls);
  compare (trace, "last size", tarn_testing_device_get_last_size (device), model->last_size);
  compare (trace, "free calls", tarn_testing_device_get_free_calls (device),
           model->stats.upstream_frees);
  compare (trace, "live allocations", tarn_testing_device_get_live (device),
           model->stats.held_blocks + model->stats.active_blocks);
  if (model->bytes != G_MAXUINT64)
    compare (trace, "used bytes", tarn_testing_device_get_used_bytes (device),
             model->stats.managed_bytes);
}

static void
compare_all (Trace *trace)
{
  g_autofree gchar *violation = _tarn_pool_check (trace->pool);

  if (violation != NULL)
    fail_trace (trace, violation);
  compare_stats (trace);
  compare_device (trace);
}

static void
compare_block (Trace *trace, const LiveBlock *live)
{
  compare (trace, "block's size", tarn_block_get_size (live->block), live->expected->size);
  compare (trace, "block's alloc_size", tarn_block_get_alloc_size (live->block),
           live->expected->alloc_size);
  compare (trace, "block's memory", tarn_block_get_memory (live->block).address,
           g_array_index (trace->addresses, guint64, live->expected->memory));
}

static void
learn_address (Trace *trace, guint64 address)
{
  if (!g_hash_table_add (trace->known, GSIZE_TO_POINTER (address)))
    fail_trace (trace, "a miss gave memory that had been given before");
  g_array_append_val (trace->addresses, address);
}

static void
count_outcome (Trace *trace, gint error, const PoolModelBlock *block, guint64 frees_before)
{
  gboolean rescued = trace->model->stats.upstream_frees > frees_before;
  gboolean exact;

  trace->failed += error == TARN_ERROR_OUT_OF_MEMORY;
  trace->refused += error == TARN_ERROR_NOT_SUPPORTED;
  trace->over_limit += error == TARN_ERROR_LIMIT;
  if (error != POOL_MODEL_NO_ERROR)
    return;
  exact = block->alloc_size != pool_model_round (block->size, trace->model->leading_bits);
  trace->exact += exact;
  trace->rescued += rescued;
  trace->rescued_exact += exact && rescued;
}

static void
allocate (Trace *trace, gsize size)
{
  guint64 frees_before = trace->model->stats.upstream_frees;
  g_autoptr (GError) error = NULL;
  LiveBlock live = { NULL, NULL };
  gint expected_error;

  trace->what = "allocate";
  trace->size = size;
  expected_error = pool_model_allocate (trace->model, size, &live.expected);
  live.block = tarn_pool_allocate (trace->pool, size, &error);
  count_outcome (trace, expected_error, live.expected, frees_before);

  if ((live.block == NULL) != (error != NULL))
    fail_trace (trace, "not either a block or an error");
  if (live.block == NULL && expected_error == POOL_MODEL_NO_ERROR)
    fail_trace (trace, error->message);
  if (live.block != NULL && expected_error != POOL_MODEL_NO_ERROR)
    fail_trace (trace, "succeeded");
  if (error != NULL && error->domain != TARN_ERROR)
    fail_trace (trace, error->message);
  if (error != NULL)
    {
      compare (trace, "error's code", (guint64) error->code, (guint64) expected_error);
      return;
    }
  if (live.expected->memory == trace->addresses->len)
    learn_address (trace, tarn_block_get_memory (live.block).address);
  compare_block (trace, &live);
  g_array_append_val (trace->live, live);
  trace->max_live = MAX (trace->max_live, trace->live->len);
}

static void
free_one (Trace *trace)
{
  guint i = (guint) g_test_rand_int_range (0, (gint32) trace->live->len);
  LiveBlock live = g_array_index (trace->live, LiveBlock, i);

  trace->what = "free";
  trace->size = live.expected->size;
  compare_block (trace, &live);
  g_array_remove_index_fast (trace->live, i);
  pool_model_free (trace->model, live.expected);
  tarn_block_free (live.block);
}

static void
free_held (Trace *trace)
{
  trace->what = "free_held";
  trace->size = 0;
  pool_model_trim (trace->model, 0);
  tarn_pool_free_held (trace->pool);
}

static void
trim (Trace *trace, gsize keep_bytes)
{
  trace->what = "trim";
  trace->size = keep_bytes;
  pool_model_trim (trace->model, keep_bytes);
  tarn_pool_trim (trace->pool, keep_bytes);
}

static void
stop_holding (Trace *trace)
{
  trace->what = "stop_holding";
  trace->size = 0;
  pool_model_stop_holding (trace->model);
  tarn_pool_stop_holding (trace->pool);
}

/* Below @end, which may be any guint64 but 0. */
static guint64
random_below (guint64 end)
{
  guint64 high = (guint32) g_test_rand_int ();

  return (high << 32 | (guint32) g_test_rand_int ()) % end;
}

static gsize
random_power_of_two (Trace *trace)
{
  return (gsize) 1 << g_test_rand_int_range (0, (gint32) trace->size_bits);
}

static gsize
random_log_uniform (Trace *trace)
{
  gsize power = random_power_of_two (trace);

  return power + (gsize) random_below (power);
}

/* About as much as the device, or the limit, has left if nothing is held any more. */
static gsize
random_remainder (Trace *trace)
{
  const TarnPoolStats *stats = &trace->model->stats;
  gsize limit = trace->options->limit_bytes;
  gsize all = limit != 0 ? limit : (gsize) trace->model->bytes;
  gsize left = all - (stats->managed_bytes - stats->held_bytes);

  return left - (gsize) random_below (left / 16 + 1) + (gsize) random_below (2);
}

/* From where sizes are rounded up beyond the limit to a little above it. */
static gsize
random_near_limit (Trace *trace)
{
  gsize limit = trace->options->max_size;

  return limit - (gsize) random_below (limit / 8) + (gsize) random_below (limit / 64);
}

static gsize
random_size (Trace *trace)
{
  const TraceOptions *options = trace->options;
  guint kind = (guint) g_test_rand_int_range (0, 32);

  if (kind == 0)
    return (gsize) random_below (2);
  if (kind == 1 && (options->bytes != G_MAXUINT64 || options->limit_bytes != 0))
    return random_remainder (trace);
  if (kind <= 3 && options->max_size != G_MAXSIZE)
    return random_near_limit (trace);
  if (kind <= 8)
    return random_power_of_two (trace) - 1 + (gsize) random_below (3);
  if (kind <= 18)
    return trace->common[random_below (N_COMMON)];
  return random_log_uniform (trace);
}

static void
begin_phase (Trace *trace)
{
  static const guint live_targets[] = { 3, 12, 50, 400 };

  trace->live_target = live_targets[random_below (G_N_ELEMENTS (live_targets))];
  trace->size_bits = trace->options->size_bits;
  if (g_test_rand_bit ())
    trace->size_bits = (guint) g_test_rand_int_range (6, (gint32) trace->size_bits);
  for (guint i = 0; i < N_COMMON; i++)
    trace->common[i] = random_log_uniform (trace);
}

static void
operate (Trace *trace)
{
  gboolean grow = trace->live->len < trace->live_target;

  if (random_below (2000) == 0)
    free_held (trace);
  else if (random_below (1000) == 0)
    trim (trace, (gsize) random_below (2 * trace->model->stats.held_bytes + 1));
  else if (trace->live->len == 0 || random_below (4) < (grow ? 3 : 1))
    allocate (trace, random_size (trace));
  else
    free_one (trace);
}

static Trace *
trace_new (const TraceOptions *options, guint leading_bits)
{
  Trace *trace = g_new0 (Trace, 1);
  TarnPoolOptions pool_options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnAllocator) allocator = NULL;
  g_autoptr (GError) error = NULL;

  trace->options = options;
  trace->model = g_new0 (PoolModel, 1);
  trace->model->leading_bits = leading_bits;
  trace->model->bytes = options->bytes;
  trace->model->max_size = options->max_size;
  trace->model->limit_bytes = options->limit_bytes;

  trace->device = tarn_testing_device_new (options->bytes);
  tarn_testing_device_set_max_size (trace->device, options->max_size);
  allocator = tarn_testing_device_allocator_new (trace->device);
  pool_options.leading_bits_in_bin_id = leading_bits;
  pool_options.limit_bytes = options->limit_bytes;
  trace->pool = tarn_pool_new (allocator, &pool_options, &error);
  g_assert_no_error (error);

  trace->live = g_array_new (FALSE, FALSE, sizeof (LiveBlock));
  trace->addresses = g_array_new (FALSE, FALSE, sizeof (guint64));
  trace->known = g_hash_table_new (NULL, NULL);
  return trace;
}

/* The fake ends the test where memory has leaked. */
static void
trace_free (Trace *trace)
{
  g_clear_pointer (&trace->pool, tarn_pool_unref);
  compare (trace, "free calls at the end", tarn_testing_device_get_free_calls (trace->device),
           trace->model->stats.driver_calls - trace->model->stats.upstream_failures);
  tarn_testing_device_free (trace->device);
  g_array_unref (trace->live);
  g_array_unref (trace->addresses);
  g_hash_table_unref (trace->known);
  g_free (trace->model);
  g_free (trace);
}

/* Once the pool is orphaned, it has no counters that could be asked for. */
static void
free_all (Trace *trace)
{
  guint orphan_at = trace->options->orphan ? (trace->live->len + 1) / 2 : 0;

  for (; trace->live->len > 0; trace->operation++)
    {
      if (trace->live->len == orphan_at)
        g_clear_pointer (&trace->pool, tarn_pool_unref);
      free_one (trace);
      if (trace->pool != NULL)
        compare_all (trace);
    }
}

static void
check_that_it_happened (Trace *trace)
{
  const TraceOptions *options = trace->options;
  const TarnPoolStats *stats = &trace->model->stats;

  g_test_message ("%u leading bits: up to %u blocks, %" G_GUINT64_FORMAT " hits, %" G_GUINT64_FORMAT
                  " misses, "
                  "%" G_GUINT64_FORMAT " times out of memory, %u rescued, %u exact, "
                  "%u rescued and exact, %u failed, %u refused, %u over the limit",
                  trace->model->leading_bits, trace->max_live, stats->hits, stats->misses,
                  stats->reclaims, trace->rescued, trace->exact, trace->rescued_exact,
                  trace->failed, trace->refused, trace->over_limit);
  g_assert_cmpuint (stats->hits, >=, options->operations / 100);
  g_assert_cmpuint (stats->misses, >=, options->operations / 200);
  g_assert_cmpuint (stats->reclaims, >=, options->min_out_of_memory);
  g_assert_cmpuint (trace->rescued, >=, options->min_rescued);
  g_assert_cmpuint (trace->exact, >=, options->min_exact);
  g_assert_cmpuint (trace->rescued_exact, >=, options->min_rescued_exact);
  g_assert_cmpuint (trace->failed, >=, options->min_failed);
  g_assert_cmpuint (trace->refused, >=, options->min_refused);
  g_assert_cmpuint (trace->over_limit, >=, options->min_over_limit);
}

static void
run_trace (const TraceOptions *options, guint leading_bits)
{
  Trace *trace = trace_new (options, leading_bits);

  for (; trace->operation < options->operations; trace->operation++)
    {
      if (trace->operation % PHASE == 0)
        begin_phase (trace);
      if (options->stop_holding && trace->operation == options->operations / 20 * 19)
        stop_holding (trace);
      else
        operate (trace);
      compare_all (trace);
    }
  free_all (trace);
  check_that_it_happened (trace);
  trace_free (trace);
}

static void
test_trace (gconstpointer data)
{
  TraceOptions options = *(const TraceOptions *) data;
#ifdef TARN_THREAD_SANITIZER
  guint *minima[] = { &options.min_out_of_memory, &options.min_rescued, &options.min_exact,
                      &options.min_rescued_exact, &options.min_failed,  &options.min_refused,
                      &options.min_over_limit };

  /* Of a single thread it has nothing to say, and takes 30 times as long. */
  options.operations /= 5;
  for (guint i = 0; i < G_N_ELEMENTS (minima); i++)
    *minima[i] /= 10;
#endif
  run_trace (&options, 4);
}

static void
test_leading_bits (void)
{
  static const guint leading_bits[] = { 0, 1, 2, 3, 5, 8, 12, 26 };
  TraceOptions options = {
    .operations = 10000,
    .size_bits = SIZE_BITS,
    .max_size = G_MAXSIZE,
  };

  for (guint i = 0; i < G_N_ELEMENTS (leading_bits); i++)
    {
      options.bytes = G_MAXUINT64;
      options.stop_holding = i % 2 == 1;
      options.orphan = FALSE;
      options.min_out_of_memory = options.min_exact = 0;
      run_trace (&options, leading_bits[i]);

      options.bytes = ((guint64) 5 << SIZE_BITS) / 3;
      options.stop_holding = i % 2 == 0;
      options.orphan = TRUE;
      options.min_out_of_memory = 10;
      options.min_exact = leading_bits[i] <= 3 ? 5 : 0;
      run_trace (&options, leading_bits[i]);
    }
}

/* g_test_init () makes up a seed where it is given none, and does not tell which. */
static GPtrArray *
arguments_with_seed (int argc, char **argv)
{
  GPtrArray *arguments = g_ptr_array_new ();

  for (int i = 0; i < argc; i++)
    {
      if (g_str_has_prefix (argv[i], "--seed="))
        seed = argv[i] + strlen ("--seed=");
      else if (strcmp (argv[i], "--seed") == 0 && i + 1 < argc)
        seed = argv[i + 1];
      g_ptr_array_add (arguments, argv[i]);
    }
  if (seed == NULL)
    {
      seed = g_strdup_printf ("R02S%08x%08x%08x%08x", g_random_int (), g_random_int (),
                              g_random_int (), g_random_int ());
      g_ptr_array_add (arguments, (gpointer) "--seed");
      g_ptr_array_add (arguments, (gpointer) seed);
    }
  g_ptr_array_add (arguments, NULL);
  return arguments;
}

int
main (int argc, char **argv)
{
  static const TraceOptions ample = {
    .operations = 100000,
    .size_bits = SIZE_BITS,
    .bytes = G_MAXUINT64,
    .max_size = G_MAXSIZE,
  };
  static const TraceOptions tight = {
    .operations = 100000,
    .size_bits = 18,
    .bytes = 1000003,
    .max_size = G_MAXSIZE,
    .stop_holding = TRUE,
    .orphan = TRUE,
    .min_out_of_memory = 1000,
    .min_rescued = 300,
    .min_exact = 100,
    .min_failed = 300,
  };
  static const TraceOptions limited = {
    .operations = 100000,
    .size_bits = 18,
    .bytes = 1000003,
    .max_size = 100000, /* from 98,304 on, sizes are rounded up to 102,399 */
    .min_out_of_memory = 1000,
    .min_rescued = 300,
    .min_exact = 100,
    .min_rescued_exact = 50,
    .min_failed = 300,
    .min_refused = 300,
  };
  static const TraceOptions with_limit = {
    .operations = 100000,
    .size_bits = 18,
    .bytes = G_MAXUINT64,
    .max_size = G_MAXSIZE,
    .limit_bytes = 1000003,
    .stop_holding = TRUE,
    .orphan = TRUE,
    .min_rescued = 300,
    .min_exact = 100,
    .min_over_limit = 300,
  };
  /* Now the one and now the other comes first: the device has room for what the limit allows, but
   * not for every size. */
  static const TraceOptions both = {
    .operations = 100000,
    .size_bits = 18,
    .bytes = 700001,
    .max_size = 100000,
    .limit_bytes = 700001,
    .min_rescued = 300,
    .min_exact = 100,
    .min_rescued_exact = 50,
    .min_refused = 300,
    .min_over_limit = 300,
  };
  GPtrArray *arguments = arguments_with_seed (argc, argv);
  int n_arguments = (int) arguments->len - 1;
  char **values = (char **) arguments->pdata;
  int status;

  g_test_init (&n_arguments, &values, NULL);
  g_test_add_data_func ("/core/trace/ample", &ample, test_trace);
  g_test_add_data_func ("/core/trace/tight", &tight, test_trace);
  g_test_add_data_func ("/core/trace/limited", &limited, test_trace);
  g_test_add_data_func ("/core/trace/with-limit", &with_limit, test_trace);
  g_test_add_data_func ("/core/trace/with-both", &both, test_trace);
  g_test_add_func ("/core/trace/leading-bits", test_leading_bits);
  status = g_test_run ();
  g_ptr_array_unref (arguments);
  return status;
}
