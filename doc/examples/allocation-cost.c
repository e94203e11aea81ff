/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Measures the cost of allocating and freeing CUDA memory in one run: with the driver, the driver's
 * own pool, Tarn's pool, and malloc() for comparison.
 *
 *     ./allocation-cost                  on the first device that gives a context
 *     CUDA_DEVICE=1 ./allocation-cost    on device 1
 *     ./allocation-cost --size 1048576   blocks of that size alone
 *
 * A round allocates one block of each size and then frees them all, so no more than their sum is in
 * use.  Each way to allocate has its own function for a round, which calls the measured functions
 * directly. */

#include <dlfcn.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/cuda.h>
#include <time.h>
#include <unistd.h>

#define PROGRAM "allocation-cost"

#define EXIT_WRONG 1 /* no device, or an error of the driver */
#define EXIT_USAGE 2

#define KIB ((gsize) 1 << 10)
#define MIB ((gsize) 1 << 20)

static const gsize mixed_sizes[]
    = { 256, 4 * KIB, 64 * KIB, 256 * KIB, 1 * MIB, 4 * MIB, 16 * MIB, 64 * MIB };
#define MAX_SIZES G_N_ELEMENTS (mixed_sizes)

/* The driver */

typedef struct CUstream_st *CUstream;

/* X (name, "symbol", arguments): the driver functions that are measured, and those that they need.
 */
#define REQUIRED(X)                                                                                \
  X (cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr * pointer, size_t size))                            \
  X (cuMemFree, "cuMemFree_v2", (CUdeviceptr pointer))                                             \
  X (cuMemHostAlloc, "cuMemHostAlloc", (void **pointer, size_t size, unsigned int flags))          \
  X (cuMemFreeHost, "cuMemFreeHost", (void *pointer))                                              \
  X (cuCtxSynchronize, "cuCtxSynchronize", (void) )                                                \
  X (cuGetErrorName, "cuGetErrorName", (unsigned int status, const char **name))

/* NULL in a driver before CUDA 11.2. */
#define OPTIONAL(X)                                                                                \
  X (cuMemAllocAsync, "cuMemAllocAsync", (CUdeviceptr * pointer, size_t size, CUstream stream))    \
  X (cuMemFreeAsync, "cuMemFreeAsync", (CUdeviceptr pointer, CUstream stream))                     \
  X (cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool",                                       \
     (CUmemoryPool * pool, CUdevice device))                                                       \
  X (cuMemPoolSetAttribute, "cuMemPoolSetAttribute",                                               \
     (CUmemoryPool pool, unsigned int attribute, void *value))

#define MEMPOOL_RELEASE_THRESHOLD 4 /* CU_MEMPOOL_ATTR_RELEASE_THRESHOLD in <cuda.h> */
#define NOT_SUPPORTED 801           /* CUDA_ERROR_NOT_SUPPORTED */

static struct
{
#define X(name, symbol, arguments) unsigned int (*name) arguments;
  REQUIRED (X)
  OPTIONAL (X)
#undef X
} cuda;

/* Tarn has made a context, and so has opened the library, which it never closes. */
static gboolean
load_functions (GError **error)
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
  if (missing == NULL)
    return TRUE;
  g_set_error (error, TARN_ERROR, TARN_ERROR_NO_DRIVER, "the CUDA driver has no function %s",
               missing);
  return FALSE;
}

static gboolean
check_status (unsigned int status, const gchar *call, GError **error)
{
  const char *name = NULL;

  if (status == 0)
    return TRUE;
  if (cuda.cuGetErrorName (status, &name) != 0)
    name = "unknown status";
  g_set_error (error, TARN_CUDA_ERROR, (gint) status, "%s: %s (%u)", call, name, status);
  return FALSE;
}

/* Rounds */

/* The state of the rounds.  A block that could not be allocated is all zero.  The first error is
 * kept; later measurements do not count. */
typedef struct
{
  CUdevice device;
  CUcontext context; /* current in this thread */
  TarnPool *device_pool, *host_pool;
  gsize sizes[MAX_SIZES]; /* bytes */
  guint n_sizes;
  GError *error;
} Bench;

typedef void (*Round) (Bench *bench);

static inline void
note_status (Bench *bench, unsigned int status, const gchar *call)
{
  if (G_UNLIKELY (status != 0 && bench->error == NULL))
    check_status (status, call, &bench->error);
}

/* For comparison: as many blocks, but of 64 bytes each. */
static void
round_of_malloc (Bench *bench)
{
  /* Volatile, so that the compiler cannot leave out allocations that nobody uses. */
  gpointer volatile blocks[MAX_SIZES];

  for (guint i = 0; i < bench->n_sizes; i++)
    blocks[i] = malloc (64);
  for (guint i = 0; i < bench->n_sizes; i++)
    free (blocks[i]);
}

static void
round_of_pool (Bench *bench, TarnPool *pool)
{
  TarnBlock *blocks[MAX_SIZES];

  for (guint i = 0; i < bench->n_sizes; i++)
    blocks[i]
        = tarn_pool_allocate (pool, bench->sizes[i], bench->error == NULL ? &bench->error : NULL);
  for (guint i = 0; i < bench->n_sizes; i++)
    tarn_block_free (blocks[i]);
}

static void
round_of_device_pool (Bench *bench)
{
  round_of_pool (bench, bench->device_pool);
}

static void
round_of_host_pool (Bench *bench)
{
  round_of_pool (bench, bench->host_pool);
}

static void
round_of_device_memory (Bench *bench)
{
  CUdeviceptr blocks[MAX_SIZES] = { 0 };

  for (guint i = 0; i < bench->n_sizes; i++)
    note_status (bench, cuda.cuMemAlloc (&blocks[i], bench->sizes[i]), "cuMemAlloc");
  for (guint i = 0; i < bench->n_sizes; i++)
    if (blocks[i] != 0)
      note_status (bench, cuda.cuMemFree (blocks[i]), "cuMemFree");
}

static void
round_of_host_memory (Bench *bench)
{
  gpointer blocks[MAX_SIZES] = { NULL };

  for (guint i = 0; i < bench->n_sizes; i++)
    note_status (bench, cuda.cuMemHostAlloc (&blocks[i], bench->sizes[i], 0), "cuMemHostAlloc");
  for (guint i = 0; i < bench->n_sizes; i++)
    if (blocks[i] != NULL)
      note_status (bench, cuda.cuMemFreeHost (blocks[i]), "cuMemFreeHost");
}

/* Uses the default stream. */
static void
round_of_async_memory (Bench *bench)
{
  CUdeviceptr blocks[MAX_SIZES] = { 0 };

  for (guint i = 0; i < bench->n_sizes; i++)
    note_status (bench, cuda.cuMemAllocAsync (&blocks[i], bench->sizes[i], NULL),
                 "cuMemAllocAsync");
  for (guint i = 0; i < bench->n_sizes; i++)
    if (blocks[i] != 0)
      note_status (bench, cuda.cuMemFreeAsync (blocks[i], NULL), "cuMemFreeAsync");
}

/* By default, the driver's pool returns its memory to the device when the host waits for the
 * stream, which every program does now and then.  The wait frees the memory, so it is measured too.
 */
static void
round_of_async_memory_and_wait (Bench *bench)
{
  round_of_async_memory (bench);
  note_status (bench, cuda.cuCtxSynchronize (), "cuCtxSynchronize");
}

/* Prepare a way to allocate for its rounds.  All return NULL, or why it cannot be measured. */

static const gchar *
prepare_async (Bench *bench)
{
  CUdeviceptr pointer;
  unsigned int status;

  if (cuda.cuMemAllocAsync == NULL || cuda.cuMemFreeAsync == NULL)
    return "the driver has no cuMemAllocAsync";
  status = cuda.cuMemAllocAsync (&pointer, 1, NULL);
  if (status == NOT_SUPPORTED)
    return "the device does not support it";
  note_status (bench, status, "cuMemAllocAsync");
  if (status == 0)
    note_status (bench, cuda.cuMemFreeAsync (pointer, NULL), "cuMemFreeAsync");
  return NULL;
}

/* Makes the driver's pool keep all memory, as Tarn's does. */
static const gchar *
prepare_keeping_async (Bench *bench)
{
  const gchar *reason = prepare_async (bench);
  guint64 threshold = G_MAXUINT64;
  CUmemoryPool pool = NULL;
  unsigned int status;

  if (reason != NULL)
    return reason;
  if (cuda.cuDeviceGetDefaultMemPool == NULL || cuda.cuMemPoolSetAttribute == NULL)
    return "the driver has no cuMemPoolSetAttribute";
  status = cuda.cuDeviceGetDefaultMemPool (&pool, bench->device);
  note_status (bench, status, "cuDeviceGetDefaultMemPool");
  if (status == 0)
    note_status (bench, cuda.cuMemPoolSetAttribute (pool, MEMPOOL_RELEASE_THRESHOLD, &threshold),
                 "cuMemPoolSetAttribute");
  return NULL;
}

/* The rows of the table, in order; malloc comes first.  Tarn's pools run before the driver and keep
 * their memory.  So the driver finds memory in use, as in a real program, which makes small
 * allocations cheaper than in an empty context.  The driver's pool comes last, because nobody else
 * can use the memory that it keeps. */
static const struct
{
  const gchar *label;
  Round round;
  const gchar *(*prepare) (Bench *bench); /* nullable */
} ways[] = {
  { "malloc (64) + free", round_of_malloc, NULL },
  { "Tarn's pool, device memory", round_of_device_pool, NULL },
  { "Tarn's pool, page-locked memory", round_of_host_pool, NULL },
  { "cuMemAlloc + cuMemFree", round_of_device_memory, NULL },
  { "cuMemHostAlloc + cuMemFreeHost", round_of_host_memory, NULL },
  { "cuMemAllocAsync + cuMemFreeAsync", round_of_async_memory_and_wait, prepare_async },
  { "... with freed memory kept", round_of_async_memory, prepare_keeping_async },
};

/* Measurement */

/* The cost of one allocation and its free, in nanoseconds. */
typedef struct
{
  gdouble median, low, high; /* low and high: a tenth is below, or above */
} Cost;

static gint64
now_ns (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return (gint64) now.tv_sec * 1000000000 + now.tv_nsec;
}

static gint
compare_doubles (gconstpointer a, gconstpointer b)
{
  gdouble left = *(const gdouble *) a, right = *(const gdouble *) b;

  return left < right ? -1 : left > right;
}

static gdouble
time_rounds (Bench *bench, Round round, guint n)
{
  gint64 start = now_ns ();

  for (guint i = 0; i < n; i++)
    round (bench);
  return (gdouble) (now_ns () - start);
}

/* Gets a number of rounds for which reading the clock takes no time that counts.  The rounds that
 * find this number also fill the pools, and warm up everything else. */
static guint
count_rounds (Bench *bench, Round round)
{
  guint n = 1;

  time_rounds (bench, round, 2);
  while (bench->error == NULL && n < 1 << 20 && time_rounds (bench, round, n) < 50e3)
    n *= 2;
  return n;
}

static gboolean
measure (Bench *bench, Round round, guint n_repetitions, Cost *cost)
{
  g_autofree gdouble *costs = g_new (gdouble, n_repetitions);
  guint n_rounds = count_rounds (bench, round);

  for (guint i = 0; i < n_repetitions && bench->error == NULL; i++)
    {
      costs[i] = time_rounds (bench, round, n_rounds) / n_rounds / bench->n_sizes;
      /* The next repetition must not wait for commands of this one. */
      note_status (bench, cuda.cuCtxSynchronize (), "cuCtxSynchronize");
    }
  if (bench->error != NULL)
    return FALSE;
  qsort (costs, n_repetitions, sizeof *costs, compare_doubles);
  *cost = (Cost){ .median = costs[n_repetitions / 2],
                  .low = costs[n_repetitions / 10],
                  .high = costs[n_repetitions - 1 - n_repetitions / 10] };
  return TRUE;
}

/* The table */

static gchar *
format_time (gdouble ns)
{
  if (ns < 999.5)
    return g_strdup_printf (ns < 99.95 ? "%.1f ns" : "%.0f ns", ns);
  if (ns < 999.5e3)
    return g_strdup_printf ("%.1f us", ns / 1e3);
  return g_strdup_printf ("%.1f ms", ns / 1e6);
}

static gchar *
format_sizes (const Bench *bench)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < bench->n_sizes; i++)
    {
      gsize size = bench->sizes[i];
      gsize unit = size % MIB == 0 ? MIB : size % KIB == 0 ? KIB : 1;

      g_string_append_printf (text, "%s%" G_GSIZE_FORMAT " %s", i > 0 ? ", " : "", size / unit,
                              unit == MIB   ? "MiB"
                              : unit == KIB ? "KiB"
                                            : "B");
    }
  return g_string_free (text, FALSE);
}

static void
print_row (const gchar *label, const Cost *cost, gdouble yardstick)
{
  g_autofree gchar *median = format_time (cost->median);
  g_autofree gchar *low = format_time (cost->low), *high = format_time (cost->high);

  printf ("%-34s %10s %10s %10s %10.*f\n", label, median, low, high,
          cost->median / yardstick < 99.95, cost->median / yardstick);
}

static gboolean
print_table (Bench *bench, guint n_repetitions)
{
  gdouble yardstick = 1;

  printf ("%-34s %10s %10s %10s %10s\n", "", "median", "10 %", "90 %", "/ malloc");
  for (guint i = 0; i < G_N_ELEMENTS (ways); i++)
    {
      const gchar *reason = ways[i].prepare != NULL ? ways[i].prepare (bench) : NULL;
      Cost cost;

      if (reason != NULL)
        {
          printf ("%-34s (%s)\n", ways[i].label, reason);
          continue;
        }
      if (!measure (bench, ways[i].round, n_repetitions, &cost))
        return FALSE;
      if (i == 0)
        yardstick = MAX (cost.median, 0.1); /* avoids a division by zero */
      print_row (ways[i].label, &cost, yardstick);
      fflush (stdout); /* the driver is slow with page-locked memory */
    }
  if (cuda.cuMemAllocAsync != NULL)
    printf ("\ncuMemFreeAsync's memory goes back to the system when the host waits for the\n"
            "device: a round ends with a wait that counts.  Where it is kept, none is needed.\n");
  return TRUE;
}

static void
print_head (const Bench *bench, guint n_repetitions)
{
  g_autoptr (GPtrArray) devices = tarn_cuda_select_test_devices ("", NULL);
  g_autofree gchar *sizes = format_sizes (bench);

  for (guint i = 0; devices != NULL && i < devices->len; i++)
    {
      const TarnCudaDevice *info = g_ptr_array_index (devices, i);

      if (info->device == bench->device)
        printf ("device   cuda:%u %s\n", info->device_index, info->name);
    }
  printf ("blocks   %s\n"
          "times    of one allocation and its free, where one block of each size is\n"
          "         allocated, and then all are freed; %u repetitions, of which a tenth is\n"
          "         below 10 %%, and a tenth above 90 %%\n\n",
          sizes, n_repetitions);
}

/* The command line */

typedef struct
{
  gint64 size; /* bytes; 0: the mix */
  gint n_repetitions;
} Options;

static gboolean
check_options (const Options *options, GError **error)
{
  const gint64 max_size = 64 * MIB;

  if (options->n_repetitions < 1 || options->n_repetitions > 1000000)
    g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                 "--repetitions '%d': must be from 1 to 1000000", options->n_repetitions);
  else if (options->size < 0 || options->size > max_size)
    g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                 "--size '%" G_GINT64_FORMAT "': must be from 1 to %" G_GINT64_FORMAT
                 ", or 0 for the mix",
                 options->size, max_size);
  else
    return TRUE;
  return FALSE;
}

static gboolean
parse_options (Options *options, int argc, char **argv, GError **error)
{
  const GOptionEntry entries[] = {
    { "repetitions", 0, 0, G_OPTION_ARG_INT, &options->n_repetitions,
      "Times to measure each way [51]", "N" },
    { "size", 0, 0, G_OPTION_ARG_INT64, &options->size,
      "Size of each block; 0: a mix, 256 B to 64 MiB [0]", "BYTES" },
    { NULL, 0, 0, 0, NULL, NULL, NULL },
  };
  static const gchar summary[]
      = "Prints the cost of one allocation of CUDA memory and its free: by the driver,\n"
        "by the driver's own pool, and by Tarn's, beside malloc ().";
  static const gchar description[]
      = "CUDA_DEVICE is the number of the device to use [the first that can be used].\n\n"
        "Exit status: 0 all is well; 1 no CUDA device, or an error of the driver;\n"
        "2 bad usage.";
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);

  g_option_context_set_summary (context, summary);
  g_option_context_set_description (context, description);
  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, error))
    return FALSE;
  if (argc == 1)
    return check_options (options, error);
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_FAILED,
               "'%s': only options are expected; --help shows them", argv[1]);
  return FALSE;
}

static TarnPool *
pool_over (TarnAllocator *allocator, GError **error)
{
  g_autoptr (TarnAllocator) upstream = allocator;

  return upstream != NULL ? tarn_pool_new (upstream, NULL, error) : NULL;
}

static void
bench_clear (Bench *bench)
{
  if (bench->host_pool != NULL)
    tarn_pool_unref (bench->host_pool);
  if (bench->device_pool != NULL)
    tarn_pool_unref (bench->device_pool);
  tarn_cuda_context_release (bench->context);
  g_clear_error (&bench->error);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Bench, bench_clear)

static gboolean
bench_init (Bench *bench, gsize size)
{
  GError **error = &bench->error;

  bench->n_sizes = size != 0 ? 1 : MAX_SIZES;
  memcpy (bench->sizes, mixed_sizes, sizeof bench->sizes);
  if (size != 0)
    bench->sizes[0] = size;
  bench->context = tarn_cuda_make_default_context (&bench->device, error);
  if (bench->context == NULL || !load_functions (error))
    return FALSE;
  bench->device_pool = pool_over (tarn_cuda_device_allocator_new (bench->context, error), error);
  if (bench->device_pool == NULL)
    return FALSE;
  bench->host_pool = pool_over (tarn_cuda_host_allocator_new (bench->context, 0, error), error);
  return bench->host_pool != NULL;
}

static gboolean
execute (const Options *options, GError **error)
{
  g_auto (Bench) bench = { 0 };
  guint n_repetitions = (guint) options->n_repetitions;

  if (bench_init (&bench, (gsize) options->size))
    {
      print_head (&bench, n_repetitions);
      print_table (&bench, n_repetitions);
    }
  if (bench.error == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&bench.error));
  return FALSE;
}

/* Checks standard output: at the start, before a driver opens a file with the number of a closed
 * output, and at the end, which may be in GLib, after --help. */
static void
check_output (void)
{
  if (fcntl (STDOUT_FILENO, F_GETFD) >= 0 && fflush (stdout) == 0 && !ferror (stdout))
    return;
  fputs (PROGRAM ": cannot write to standard output\n", stderr);
  _Exit (EXIT_WRONG);
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  Options options = { .n_repetitions = 51 };
  int status = EXIT_SUCCESS;

  check_output ();
  atexit (check_output);
  setlocale (LC_CTYPE, ""); /* for --help */
  if (!parse_options (&options, argc, argv, &error))
    status = EXIT_USAGE;
  else if (!execute (&options, &error))
    status = EXIT_WRONG;
  if (error != NULL)
    fprintf (stderr, PROGRAM ": %s\n", error->message);
  return status;
}
