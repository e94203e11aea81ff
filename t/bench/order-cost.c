/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What a hit and its free cost when a CUDA pool has several streams to keep in order, beside a pool
 * that has none, and the driver's own pool.  Times depend on the machine: read the ratios.
 *
 *     t/bench/order-cost                  on the first device that gives a context
 *     CUDA_DEVICE=1 t/bench/order-cost    on device 1 */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <tarn/cuda.h>

#define N_STREAMS 8
#define REPETITIONS 7
#define SIZE ((gsize) 64 << 10) /* bytes */

#define EXIT_WRONG 1
#define EXIT_USAGE 2
#define EXIT_SKIP 77 /* there is nothing to measure on */

/* The driver */

typedef struct CUmemPoolHandle_st *CUmemoryPool;

/* X (name, "symbol", arguments) */
#define REQUIRED(X)                                                                                \
  X (cuStreamCreate, "cuStreamCreate", (CUstream * stream, unsigned int flags))                    \
  X (cuStreamDestroy, "cuStreamDestroy_v2", (CUstream stream))                                     \
  X (cuCtxSynchronize, "cuCtxSynchronize", (void) )

/* NULL in a driver before CUDA 11.2. */
#define OPTIONAL(X)                                                                                \
  X (cuMemAllocAsync, "cuMemAllocAsync", (CUdeviceptr * pointer, size_t size, CUstream stream))    \
  X (cuMemFreeAsync, "cuMemFreeAsync", (CUdeviceptr pointer, CUstream stream))                     \
  X (cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool",                                       \
     (CUmemoryPool * pool, CUdevice device))                                                       \
  X (cuMemPoolSetAttribute, "cuMemPoolSetAttribute",                                               \
     (CUmemoryPool pool, unsigned int attribute, void *value))

#define NON_BLOCKING 1              /* CU_STREAM_NON_BLOCKING in <cuda.h> */
#define MEMPOOL_RELEASE_THRESHOLD 4 /* CU_MEMPOOL_ATTR_RELEASE_THRESHOLD */

static struct
{
#define X(name, symbol, arguments) unsigned int (*name) arguments;
  REQUIRED (X)
  OPTIONAL (X)
#undef X
} cuda;

static void G_GNUC_NORETURN G_GNUC_PRINTF (2, 3) end_with (int status, const gchar *format, ...)
{
  va_list arguments;

  fputs ("order-cost: ", stderr);
  va_start (arguments, format);
  vfprintf (stderr, format, arguments);
  va_end (arguments);
  fputc ('\n', stderr);
  exit (status);
}

static void
check (const gchar *call, unsigned int status)
{
  if (G_UNLIKELY (status != 0))
    end_with (EXIT_WRONG, "%s: status %u", call, status);
}

#define CHECK(call) check (#call, call)

/* Tarn has made a context, and so has opened the library, which it never closes. */
static void
load_functions (void)
{
  gpointer library = dlopen ("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const gchar *missing = NULL;

  g_assert (library != NULL);
#define X(name, symbol, arguments)                                                                 \
  if ((*(gpointer *) &cuda.name = dlsym (library, symbol)) == NULL)                                \
    missing = symbol;
  OPTIONAL (X)
  missing = NULL; /* those may be */
  REQUIRED (X)
#undef X
  if (missing != NULL)
    end_with (EXIT_WRONG, "the CUDA driver has no function %s", missing);
}

/* Ways.  A round of each is N_STREAMS requests, each freed at once. */

typedef struct
{
  CUdevice device;
  CUcontext context; /* current in this thread */
  TarnAllocator *allocator;
  TarnPool *pool; /* a new one for each way */
  CUstream streams[N_STREAMS];
} Bench;

static inline void
use (Bench *bench, gsize size, CUstream stream)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_cuda_pool_allocate (bench->pool, size, stream, &error);

  if (G_UNLIKELY (block == NULL))
    end_with (EXIT_WRONG, "%s", error->message);
  tarn_block_free (block);
}

static void
round_without_order (Bench *bench)
{
  for (guint i = 0; i < N_STREAMS; i++)
    tarn_block_free (tarn_pool_allocate (bench->pool, SIZE, NULL));
}

static void
round_on_one (Bench *bench)
{
  for (guint i = 0; i < N_STREAMS; i++)
    use (bench, SIZE, bench->streams[0]);
}

/* Each has a size of its own, and so a block. */
static void
round_with_own (Bench *bench)
{
  for (guint i = 0; i < N_STREAMS; i++)
    use (bench, SIZE << i, bench->streams[i]);
}

static void
round_of_one_size (Bench *bench)
{
  for (guint i = 0; i < N_STREAMS; i++)
    use (bench, SIZE, bench->streams[i]);
}

static void
use_async (CUstream stream)
{
  CUdeviceptr pointer;

  CHECK (cuda.cuMemAllocAsync (&pointer, SIZE, stream));
  CHECK (cuda.cuMemFreeAsync (pointer, stream));
}

static void
round_of_async_on_one (Bench *bench)
{
  for (guint i = 0; i < N_STREAMS; i++)
    use_async (bench->streams[0]);
}

static void
round_of_async (Bench *bench)
{
  for (guint i = 0; i < N_STREAMS; i++)
    use_async (bench->streams[i]);
}

/* What a way finds; NULL, or why it cannot be measured. */

static const gchar *
hold_nothing (Bench *bench)
{
  (void) bench;
  return NULL;
}

/* A block for each stream, of one size. */
static const gchar *
hold_for_each (Bench *bench)
{
  TarnBlock *blocks[N_STREAMS];

  for (guint i = 0; i < N_STREAMS; i++)
    blocks[i] = tarn_cuda_pool_allocate (bench->pool, SIZE, bench->streams[i], NULL);
  for (guint i = 0; i < N_STREAMS; i++)
    tarn_block_free (blocks[i]);
  return NULL;
}

/* One block, and one of another size by which the pool remembers each stream. */
static const gchar *
hold_one (Bench *bench)
{
  round_with_own (bench);
  return NULL;
}

/* The driver keeps all memory, as Tarn's pool does. */
static const gchar *
keep_memory (Bench *bench)
{
  guint64 threshold = G_MAXUINT64;
  CUmemoryPool pool;

  if (cuda.cuMemAllocAsync == NULL || cuda.cuMemFreeAsync == NULL
      || cuda.cuDeviceGetDefaultMemPool == NULL || cuda.cuMemPoolSetAttribute == NULL)
    return "the driver has no cuMemAllocAsync";
  CHECK (cuda.cuDeviceGetDefaultMemPool (&pool, bench->device));
  CHECK (cuda.cuMemPoolSetAttribute (pool, MEMPOOL_RELEASE_THRESHOLD, &threshold));
  return NULL;
}

static const struct
{
  const gchar *label;
  const gchar *(*prepare) (Bench *bench);
  void (*round) (Bench *bench);
} ways[] = {
  { "pool without order", hold_nothing, round_without_order },
  { "pool, one stream", hold_nothing, round_on_one },
  { "pool, 8 streams, each its own size", hold_nothing, round_with_own },
  { "pool, 8 streams, 8 blocks", hold_for_each, round_of_one_size },
  { "pool, 8 streams, 1 block handed on", hold_one, round_of_one_size },
  { "cuMemAllocAsync, one stream", keep_memory, round_of_async_on_one },
  { "cuMemAllocAsync, 8 streams", keep_memory, round_of_async },
};

/* Measurement */

static int
compare (const void *a, const void *b)
{
  gdouble left = *(const gdouble *) a, right = *(const gdouble *) b;

  return left < right ? -1 : left > right;
}

/* Nanoseconds of one request and its free. */
static gdouble
run_once (Bench *bench, void (*round) (Bench *bench), guint n_rounds)
{
  gint64 start = g_get_monotonic_time ();

  for (guint i = 0; i < n_rounds; i++)
    round (bench);
  return (gdouble) (g_get_monotonic_time () - start) * 1000 / n_rounds / N_STREAMS;
}

/* In ascending order; what is still on a stream is no business of the next repetition. */
static void
measure (Bench *bench, void (*round) (Bench *bench), guint n_rounds, gdouble *times)
{
  run_once (bench, round, 1 + n_rounds / 10);
  for (guint i = 0; i < REPETITIONS; i++)
    {
      CHECK (cuda.cuCtxSynchronize ());
      times[i] = run_once (bench, round, n_rounds);
    }
  CHECK (cuda.cuCtxSynchronize ());
  qsort (times, REPETITIONS, sizeof *times, compare);
}

static void
print_row (Bench *bench, gsize way, guint n_rounds, gdouble *yardstick)
{
  gdouble times[REPETITIONS];
  const gchar *reason;

  bench->pool = tarn_pool_new (bench->allocator, NULL, NULL);
  reason = ways[way].prepare (bench);
  if (reason != NULL)
    printf ("%-36s (%s)\n", ways[way].label, reason);
  else
    {
      gdouble median;

      measure (bench, ways[way].round, n_rounds, times);
      median = MAX (times[REPETITIONS / 2], 0.1); /* some ratio must come out */
      if (way == 0)
        *yardstick = median;
      printf ("%-36s %9.1f %9.1f %9.1f %9.2f\n", ways[way].label, median, times[0],
              times[REPETITIONS - 1], median / *yardstick);
      fflush (stdout);
    }
  tarn_pool_unref (bench->pool);
}

static void
bench_init (Bench *bench)
{
  g_autoptr (GError) error = NULL;

  bench->context = tarn_cuda_make_default_context (&bench->device, &error);
  if (g_error_matches (error, TARN_ERROR, TARN_ERROR_NO_DRIVER)
      || g_error_matches (error, TARN_ERROR, TARN_ERROR_NO_DEVICE))
    end_with (EXIT_SKIP, "%s", error->message);
  if (error == NULL)
    bench->allocator = tarn_cuda_device_allocator_new (bench->context, &error);
  if (error != NULL)
    end_with (EXIT_WRONG, "%s", error->message);
  load_functions ();
  for (guint i = 0; i < N_STREAMS; i++)
    CHECK (cuda.cuStreamCreate (&bench->streams[i], NON_BLOCKING));
}

static void
bench_clear (Bench *bench)
{
  for (guint i = 0; i < N_STREAMS; i++)
    CHECK (cuda.cuStreamDestroy (bench->streams[i]));
  tarn_allocator_unref (bench->allocator);
  tarn_cuda_context_release (bench->context);
}

static guint
read_options (int argc, char **argv)
{
  gint n_rounds = 20000;
  const GOptionEntry entries[] = { { "rounds", 'n', 0, G_OPTION_ARG_INT, &n_rounds,
                                     "N rounds of 8 requests each (20000)", "N" },
                                   { NULL, 0, 0, 0, NULL, NULL, NULL } };
  g_autoptr (GOptionContext) context = g_option_context_new ("- what the order of streams costs");
  g_autoptr (GError) error = NULL;

  g_option_context_set_summary (
      context, "Nanoseconds of a hit and its free: the median of 7 repetitions, the least, the\n"
               "most, and the median as a multiple of the first row's.");
  g_option_context_set_description (
      context, "CUDA_DEVICE is the number of the device to use [the first that can be used].\n"
               "Exit status: 77 where there is none.");
  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error))
    end_with (EXIT_USAGE, "%s", error->message);
  if (argc > 1 || n_rounds < 1)
    end_with (EXIT_USAGE, "at least 1 round, and nothing else");
  return (guint) n_rounds;
}

int
main (int argc, char **argv)
{
  guint n_rounds = read_options (argc, argv);
  Bench bench = { 0 };
  gdouble yardstick = 1;

  bench_init (&bench);
  printf ("%-36s %9s %9s %9s %9s\n", "", "ns", "least", "most", "x");
  for (gsize i = 0; i < G_N_ELEMENTS (ways); i++)
    print_row (&bench, i, n_rounds, &yardstick);
  bench_clear (&bench);
  return EXIT_SUCCESS;
}
