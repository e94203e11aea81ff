/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Evaluates an expression over large vectors as an array package does: operator by operator, with
 * a fresh vector for every intermediate result.  It does so twice, once with memory straight from
 * the driver and once with a pool in between, checks both results, and prints what the
 * allocations cost.
 *
 * To see how Tarn is used, read vector_new(), drop(), and compare().  vector-expression.h declares
 * the functions of a driver; a file for each driver defines them. */

#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "vector-expression.h"

#define EXPRESSION "w sqrt (x x + y y) + x y - (x + y) / 4"

#define PROGRESS_WIDTH 60 /* longer than any progress line */

#define EXIT_WRONG 1 /* a wrong result, or an error of the driver */
#define EXIT_USAGE 2 /* bad usage, or no such device */

/* The vectors of a step, which is one evaluation: two inputs, and ten temporaries.  A driver may
 * keep the memory of each until the kernels that use it are done. */
#define N_VECTORS 12

/* Every operator rounds by up to 2^-24 of its result, and OpenCL's sqrt() may be off by 3 times
 * 2^-23 (OpenCL 1.2 specification, table 7.4).  Nothing in the expression cancels leading digits,
 * so a right result is within 1e-6 of one that was computed in double precision. */
#define TOLERANCE 4e-6

typedef struct
{
  guint64 length; /* floats in a vector */
  guint64 n_steps;
  gchar *selector; /* PLATFORM:DEVICE; nullable */
  gchar *backend;  /* its name; NULL or "auto": whichever has a device */
  gboolean pipeline;
  gboolean list;
} Options;

/* Devices */

/* The backends that are built, the preferred one first. */
static const Backend *const backends[] = {
#ifdef WITH_CUDA
  &cuda_backend,
#endif
#ifdef WITH_OPENCL
  &opencl_backend,
#endif
};

/* Tells whether a selector is for a backend: CUDA's selectors begin with "cuda:". */
static gboolean
is_wanted (const Backend *backend, const Options *options)
{
  gboolean is_cuda = strcmp (backend->name, "cuda") == 0;

  if (options->backend != NULL && strcmp (options->backend, "auto") != 0)
    return strcmp (options->backend, backend->name) == 0;
  if (options->selector == NULL || options->list)
    return TRUE;
  return g_str_has_prefix (options->selector, "cuda:") == is_cuda;
}

/* Gets the devices of all chosen backends.  If a driver does not work, this is an error unless
 * another backend has a device; then the backend is left out, and *left_out says why. */
static GArray *
find_devices (const Options *options, GError **left_out, GError **error)
{
  g_autoptr (GArray) devices = g_array_new (FALSE, FALSE, sizeof (Device));
  g_autoptr (GString) without = g_string_new (NULL);
  g_autoptr (GError) reason = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (backends); i++)
    {
      if (!is_wanted (backends[i], options))
        continue;
      g_string_append_printf (without, "%s%s", without->len > 0 ? "; " : "",
                              backends[i]->without_device);
      backends[i]->find_devices (devices, reason == NULL ? &reason : NULL);
    }
  if (devices->len > 0 || without->len == 0)
    {
      *left_out = g_steal_pointer (&reason);
      return g_steal_pointer (&devices);
    }
  if (reason != NULL)
    g_propagate_error (error, g_steal_pointer (&reason));
  else
    g_set_error_literal (error, G_OPTION_ERROR, G_OPTION_ERROR_FAILED, without->str);
  if (options->selector != NULL)
    g_prefix_error (error, "--select '%s': ", options->selector);
  return NULL;
}

/* Finds the device of that selector; without one the first GPU, or else the first device. */
static const Device *
select_device (GArray *devices, const gchar *selector, GError **error)
{
  for (guint i = 0; i < devices->len; i++)
    {
      const Device *device = &g_array_index (devices, Device, i);

      if (selector != NULL ? strcmp (device->selector, selector) == 0 : device->is_gpu)
        return device;
    }
  if (selector == NULL)
    return &g_array_index (devices, Device, 0);
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
               "--select '%s': must be PLATFORM:DEVICE, one of those that --list shows", selector);
  return NULL;
}

/* Checks that the device has memory for vectors of that length. */
static gboolean
check_length (const Device *device, guint64 length, GError **error)
{
  guint64 size = length * sizeof (gfloat);

  if (size <= device->max_bytes && size <= device->total_bytes / N_VECTORS)
    return TRUE;
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
               "--size %" G_GUINT64_FORMAT ": a vector would have %" G_GUINT64_FORMAT
               " bytes, but the device allocates at most %" G_GUINT64_FORMAT
               " bytes at once, and has %" G_GUINT64_FORMAT " bytes for the %d vectors of a step",
               length, size, device->max_bytes, device->total_bytes, N_VECTORS);
  return FALSE;
}

/* An evaluator of operators on a device.  It does not know whether its allocator is a pool.  It
 * keeps the first error, and does nothing more from then on. */
typedef struct
{
  const Backend *backend;
  Session *session;
  gsize length;  /* floats in a vector */
  gboolean wait; /* after every kernel */
  TarnAllocator *allocator;
  GError *error;

  gint64 spent_ns; /* in allocations and frees of this step, including the time to read the clock */
  guint n_calls;   /* allocations and frees in this step */
  gsize n_made;    /* vectors in this run */
  gsize n_alive;   /* vectors in use */
  gsize n_at_peak; /* the most that were in use at a time */
} Calculator;

static void
calculator_clear (Calculator *calc)
{
  if (calc->session != NULL)
    calc->backend->close (calc->session);
  g_clear_error (&calc->error);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Calculator, calculator_clear)

/* Vectors */

static gint64
now_ns (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return (gint64) now.tv_sec * 1000000000 + now.tv_nsec;
}

static TarnBlock *
vector_new (Calculator *calc)
{
  gsize size = calc->length * sizeof (gfloat);
  TarnBlock *vector;
  gint64 start;

  if (calc->error != NULL)
    return NULL;
  start = now_ns ();
  vector = tarn_allocator_allocate (calc->allocator, size, &calc->error);
  calc->spent_ns += now_ns () - start;
  calc->n_calls++;
  if (vector == NULL)
    return NULL;
  calc->n_made++;
  calc->n_alive++;
  calc->n_at_peak = MAX (calc->n_at_peak, calc->n_alive);
  return vector;
}

/* Frees a vector that is not needed any more, though kernels that use it may still wait in the
 * queue.  A driver keeps the memory until they are done, or waits for them.  A pool may hand it out
 * again at once, which is safe because the queue is in order: the next kernel to write to it runs
 * after the last one to read it. */
static void
drop (Calculator *calc, TarnBlock *vector)
{
  gint64 start;

  if (vector == NULL)
    return;
  start = now_ns ();
  tarn_block_free (vector);
  calc->spent_ns += now_ns () - start;
  calc->n_calls++;
  calc->n_alive--;
}

static gboolean
finish (Calculator *calc)
{
  return calc->error == NULL && calc->backend->finish (calc->session, &calc->error);
}

/* Makes a vector with an operator's result; returns NULL after an error, now or before.  Arguments
 * that an operator does not use are NULL or 0. */
static TarnBlock *
apply (Calculator *calc, Operator op, const TarnBlock *a, const TarnBlock *b, gfloat c)
{
  TarnBlock *out = vector_new (calc);

  if (out == NULL)
    return NULL;
  if (calc->backend->launch (calc->session, op, a, b, c, out, calc->length, &calc->error)
      && (!calc->wait || finish (calc)))
    return out;
  drop (calc, out);
  return NULL;
}

/* Evaluates the expression: it makes ten vectors, and needs three at a time.  There is no early
 * return, so nothing can leak: after an error all later vectors are NULL, and drop() ignores them.
 */
static TarnBlock *
evaluate (Calculator *calc, const TarnBlock *x, const TarnBlock *y, gfloat weight)
{
  TarnBlock *xx = apply (calc, MULTIPLY, x, x, 0);
  TarnBlock *yy = apply (calc, MULTIPLY, y, y, 0);
  TarnBlock *sum = apply (calc, ADD, xx, yy, 0);
  drop (calc, xx);
  drop (calc, yy);
  TarnBlock *root = apply (calc, SQUARE_ROOT, sum, NULL, 0);
  drop (calc, sum);
  TarnBlock *weighted = apply (calc, SCALE, root, NULL, weight);
  drop (calc, root);
  TarnBlock *product = apply (calc, MULTIPLY, x, y, 0);
  TarnBlock *left = apply (calc, ADD, weighted, product, 0);
  drop (calc, weighted);
  drop (calc, product);
  TarnBlock *both = apply (calc, ADD, x, y, 0);
  TarnBlock *quarter = apply (calc, SCALE, both, NULL, 0.25f);
  drop (calc, both);
  TarnBlock *result = apply (calc, SUBTRACT, left, quarter, 0);
  drop (calc, left);
  drop (calc, quarter);
  return result;
}

/* The elements of the inputs repeat after this many.  They go from 1 to 2, and are exact in single
 * precision. */
#define X_PERIOD 1021
#define Y_PERIOD 4093

/* Gets the largest relative error of the result: computes every element again on the host. */
static gdouble
check_result (Calculator *calc, const TarnBlock *result, gdouble weight)
{
  gfloat part[4096]; /* a part of the result, so that any size fits into the host's memory */
  gdouble worst = 0;

  for (gsize i = 0; i < calc->length && calc->error == NULL; i++)
    {
      gdouble x = 1 + (gdouble) (i % X_PERIOD) / 4096;
      gdouble y = 1 + (gdouble) (i % Y_PERIOD) / 4096;
      gdouble expected = weight * sqrt (x * x + y * y) + x * y - (x + y) / 4;
      gdouble off;

      if (i % G_N_ELEMENTS (part) == 0)
        {
          gsize size = MIN (G_N_ELEMENTS (part), calc->length - i) * sizeof *part;

          if (!calc->backend->read (calc->session, result, i * sizeof *part, size, part,
                                    &calc->error))
            break;
        }
      off = fabs (part[i % G_N_ELEMENTS (part)] - expected) / expected;
      worst = isnan (off) ? INFINITY : MAX (worst, off);
    }
  return worst;
}

/* Measurement
 *
 * Allocations and frees are measured between kernels, as the host sees them.  The host waits for
 * every kernel, so that each call finds the device idle and the figures hardly vary.  A driver call
 * then includes the time to wake the driver's threads, which the next kernel would otherwise take.
 * So compare the time per step to see the whole gain.  With --pipeline the device is busy.  Driver
 * calls may then be faster, because the threads are awake, or much slower, because memory is
 * returned to the system. */

typedef struct
{
  const gchar *label;  /* for the progress line */
  gdouble clock_ns;    /* subtracted from every measured call */
  gdouble step_ns;     /* one evaluation: the median, as below, of all steps but the first */
  gdouble pair_ns;     /* one allocation and one free: the median of the steps' means */
  gdouble first_ns;    /* the same in the first step, when the pool is empty */
  gdouble all_ns;      /* all allocations and frees of all steps */
  TarnPoolStats stats; /* after the last step */
  gdouble kept_bytes;  /* then: not in use, and not returned to the driver */
  gdouble peak_bytes;  /* the most bytes from the driver */
  gdouble worst;       /* relative error */
} Report;

static gint
compare_doubles (gconstpointer a, gconstpointer b)
{
  gdouble left = *(const gdouble *) a, right = *(const gdouble *) b;

  return left < right ? -1 : left > right;
}

static gdouble
median (gdouble *values, gsize n)
{
  qsort (values, n, sizeof *values, compare_doubles);
  return values[n / 2];
}

/* Measures the time of one clock reading, which each measured call includes.  It takes means,
 * because the clock may tick more slowly than that, and the least mean, because interrupts may add
 * time. */
static gdouble
measure_clock (void)
{
  gint64 least = G_MAXINT64;

  for (guint i = 0; i < 100; i++)
    {
      gint64 start = now_ns (), end = start;

      for (guint j = 0; j < 100; j++)
        end = now_ns ();
      least = MIN (least, end - start);
    }
  return (gdouble) least / 100;
}

/* Shows the next step on a terminal, at most five times a second.  A step beyond the last one
 * clears the line. */
static void
show_progress (const gchar *label, gsize step, gsize n_steps)
{
  static gint64 shown_at = G_MININT64;
  gint64 now = now_ns ();

  if (!isatty (STDERR_FILENO))
    return;
  if (step > n_steps)
    fprintf (stderr, "\r%*s\r", PROGRESS_WIDTH, "");
  else if (step == 0 || now - shown_at >= 200000000)
    {
      fprintf (stderr, "\r%s: %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT, label, step, n_steps);
      shown_at = now;
    }
}

/* Gets the weight of a step.  Each step has another one, so that an old result is noticed. */
static gfloat
weight_of_step (gsize step)
{
  return 0.5f + (gfloat) (step % 64) / 128;
}

/* Runs a first step, and n_steps for the medians.  Returns the last result. */
static TarnBlock *
run_steps (Calculator *calc, const TarnBlock *x, const TarnBlock *y, gsize n_steps, Report *report)
{
  g_autofree gdouble *steps = g_new0 (gdouble, n_steps + 1);
  g_autofree gdouble *pairs = g_new0 (gdouble, n_steps + 1);
  TarnBlock *result = NULL;

  report->all_ns = 0;
  for (gsize step = 0; step <= n_steps && calc->error == NULL; step++)
    {
      gint64 start;
      gdouble ns;

      show_progress (report->label, step, n_steps);
      start = now_ns ();
      calc->spent_ns = calc->n_calls = 0;
      drop (calc, result);
      result = evaluate (calc, x, y, weight_of_step (step));
      finish (calc); /* otherwise the queue would grow with every step */
      steps[step] = (gdouble) (now_ns () - start);

      /* At least 1 ns, to avoid a division by zero. */
      ns = MAX ((gdouble) calc->spent_ns - calc->n_calls * report->clock_ns, 1);
      pairs[step] = 2 * ns / MAX (calc->n_calls, 1);
      report->all_ns += ns;
    }
  show_progress (report->label, n_steps + 1, n_steps);
  report->first_ns = pairs[0];
  report->step_ns = median (steps + 1, n_steps);
  report->pair_ns = median (pairs + 1, n_steps);
  return result;
}

/* Stores the counters of a pool, and the bytes that it or its heap keeps. */
static void
report_pool (TarnPool *pool, Report *report)
{
  TarnPoolStats *stats = &report->stats;
  TarnHeapStats heap = TARN_HEAP_STATS_INIT;

  tarn_pool_get_stats (pool, stats);
  report->kept_bytes = (gdouble) stats->held_bytes;
  report->peak_bytes = (gdouble) stats->peak_managed_bytes;
  if (!tarn_heap_get_stats (tarn_pool_get_upstream (pool), &heap))
    return;
  report->kept_bytes += (gdouble) (heap.upstream_bytes - heap.used_bytes);
  report->peak_bytes = (gdouble) heap.peak_upstream_bytes;
}

/* Stores the counters of the driver: every vector is an allocation of its own. */
static void
report_allocator (const Calculator *calc, Report *report)
{
  const gsize size = calc->length * sizeof (gfloat);

  report->stats.misses = report->stats.driver_calls = calc->n_made;
  report->stats.active_bytes = calc->n_alive * size;
  report->peak_bytes = (gdouble) (calc->n_at_peak * size);
}

/* Makes the inputs, measures, and fills in the report, with a pool or without. */
static void
run (Calculator *calc, TarnAllocator *allocator, TarnPool *pool, gsize n_steps, Report *report)
{
  TarnBlock *x, *y, *result;

  calc->allocator = allocator;
  calc->n_made = calc->n_at_peak = 0;
  x = apply (calc, RAMP, NULL, NULL, X_PERIOD);
  y = apply (calc, RAMP, NULL, NULL, Y_PERIOD);
  result = run_steps (calc, x, y, n_steps, report);

  report->stats = (TarnPoolStats) TARN_POOL_STATS_INIT;
  if (pool != NULL)
    report_pool (pool, report);
  else
    report_allocator (calc, report);
  report->worst = check_result (calc, result, weight_of_step (n_steps));
  drop (calc, x);
  drop (calc, y);
  drop (calc, result);
}

static gboolean
compare (const Device *device, const Options *options, Report *alone, Report *pooled,
         GError **error)
{
  g_auto (Calculator) calc
      = { .backend = device->backend, .length = options->length, .wait = !options->pipeline };
  g_autoptr (TarnAllocator) allocator = NULL;
  g_autoptr (TarnPool) pool = NULL;

  calc.session = device->backend->open (device, &calc.error);
  if (calc.session != NULL)
    allocator = device->backend->allocator_new (calc.session, &calc.error);
  if (allocator != NULL)
    pool = device->backend->pool_new (calc.session, &calc.error);
  if (pool != NULL)
    {
      alone->clock_ns = pooled->clock_ns = measure_clock ();
      run (&calc, allocator, NULL, 1, alone); /* warms up: drivers compile at the first launch */
      run (&calc, allocator, NULL, options->n_steps, alone);
      run (&calc, TARN_ALLOCATOR (pool), pool, options->n_steps, pooled);
    }
  if (calc.error == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&calc.error));
  return FALSE;
}

/* The table */

static gchar *
format_bytes (gdouble bytes)
{
  return g_strdup_printf ("%.1f MiB (%.0f)", bytes / (1 << 20), bytes);
}

static gchar *
format_time (gdouble ns)
{
  if (ns < 1e3)
    return g_strdup_printf ("%.0f ns", ns);
  if (ns < 1e6)
    return g_strdup_printf ("%.1f us", ns / 1e3);
  return g_strdup_printf ("%.1f ms", ns / 1e6);
}

static gchar *
format_count (gdouble count)
{
  return g_strdup_printf ("%.0f", count);
}

static void
print_row (const gchar *label, gchar *(*format) (gdouble), gdouble left, gdouble right)
{
  g_autofree gchar *left_cell = format (left), *right_cell = format (right);

  printf ("%-28s %24s %24s\n", label, left_cell, right_cell);
}

static void
print_table (const Report *left, const Report *right)
{
  const TarnPoolStats *a = &left->stats, *b = &right->stats;

  printf ("%-28s %24s %24s\n", "", "allocator alone", "pool");
  print_row ("time per step", format_time, left->step_ns, right->step_ns);
  print_row ("one allocation and free", format_time, left->pair_ns, right->pair_ns);
  print_row ("  in the first step", format_time, left->first_ns, right->first_ns);
  print_row ("  all of them, in sum", format_time, left->all_ns, right->all_ns);
  print_row ("requests", format_count, a->hits + a->misses, b->hits + b->misses);
  print_row ("  without a driver call", format_count, a->served_without_driver,
             b->served_without_driver);
  print_row ("driver calls", format_count, a->driver_calls, b->driver_calls);
  print_row ("bytes in use", format_bytes, a->active_bytes, b->active_bytes);
  print_row ("bytes kept for reuse", format_bytes, left->kept_bytes, right->kept_bytes);
  print_row ("peak of the driver's bytes", format_bytes, left->peak_bytes, right->peak_bytes);
  printf ("%-28s %24.1e %24.1e\n", "largest relative error", left->worst, right->worst);
}

/* Prints the time that the pool saved in a step, and what to expect on other devices. */
static void
print_saving (const Device *device, const Report *alone, const Report *pooled)
{
  gdouble saved_ns = alone->step_ns - pooled->step_ns;
  g_autofree gchar *before = format_time (alone->step_ns), *after = format_time (pooled->step_ns);
  g_autofree gchar *saved = format_time (MAX (saved_ns, 0));

  printf ("a step took %s with the pool and %s without: %s saved, %.0f %%\n", after, before, saved,
          100 * MAX (saved_ns, 0) / alone->step_ns);
  if (!device->is_gpu)
    printf (
        "this device is no GPU: a GPU's driver takes longer to allocate, so a pool saves more\n");
}

static void
print_report (const Device *device, const Options *options, const Report *alone,
              const Report *pooled)
{
  g_autofree gchar *before = format_time (alone->pair_ns), *after = format_time (pooled->pair_ns);
  g_autofree gchar *line = tarn_pool_stats_to_string (&pooled->stats);
  gdouble ratio = alone->pair_ns / pooled->pair_ns;

  printf (
      "times    medians of %" G_GUINT64_FORMAT " steps after a first one; %s;\n"
      "         %.0f ns for looking at the clock are taken off each allocation and each free\n\n",
      options->n_steps,
      options->pipeline ? "each step is waited for" : "each operator is waited for",
      alone->clock_ns);
  print_table (alone, pooled);
  printf ("\nthe pool: %s\n", line);
  printf (
      "allocations were %.*f times faster with the pool (%s -> %s for one allocation and free)\n",
      ratio < 10, ratio, before, after);
  print_saving (device, alone, pooled);
}

/* The command line */

/* Parses a number from 1 to max, which K, M or G may follow. */
static gboolean
parse_number (const gchar *option, const gchar *text, guint64 max, guint64 *number, GError **error)
{
  static const gchar suffixes[] = "KMG";
  gsize n_digits = strspn (text, "0123456789");
  const gchar *suffix = text[n_digits] != '\0' ? strchr (suffixes, text[n_digits]) : NULL;
  guint shift = suffix != NULL ? 10 * (guint) (suffix - suffixes + 1) : 0;
  g_autofree gchar *digits = g_strndup (text, n_digits);

  if (text[n_digits + (suffix != NULL)] == '\0'
      && g_ascii_string_to_unsigned (digits, 10, 1, G_MAXUINT64 >> shift, number, NULL)
      && *number << shift <= max)
    {
      *number <<= shift;
      return TRUE;
    }
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
               "%s '%s': must be a whole number from 1 to %" G_GUINT64_FORMAT
               ", such as 5000, 64K or 1M",
               option, text, max);
  return FALSE;
}

/* Checks the name of a backend that is built, or "auto". */
static gboolean
check_backend (const gchar *name, GError **error)
{
  g_autoptr (GString) names = g_string_new ("auto");

  if (name == NULL || strcmp (name, "auto") == 0)
    return TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (backends); i++)
    {
      if (strcmp (name, backends[i]->name) == 0)
        return TRUE;
      g_string_append_printf (names, " or %s", backends[i]->name);
    }
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--backend '%s': must be %s", name,
               names->str);
  return FALSE;
}

static gboolean
parse_options (Options *options, int argc, char **argv, GError **error)
{
  g_autofree gchar *size = NULL, *steps = NULL;
  /* FILENAME: as it was given, in whatever encoding. */
  const GOptionEntry entries[] = {
    { "size", 0, 0, G_OPTION_ARG_FILENAME, &size, "Floats in a vector [128K]", "N" },
    { "steps", 0, 0, G_OPTION_ARG_FILENAME, &steps, "Times to evaluate it [500]", "N" },
    { "select", 0, 0, G_OPTION_ARG_FILENAME, &options->selector,
      "Where to run [the first GPU, or else 0:0]", "PLATFORM:DEVICE" },
    { "backend", 0, 0, G_OPTION_ARG_FILENAME, &options->backend,
      "opencl, cuda, or auto, CUDA first [auto]", "NAME" },
    { "pipeline", 0, 0, G_OPTION_ARG_NONE, &options->pipeline,
      "Wait for each step, not for each operator", NULL },
    { "list", 0, 0, G_OPTION_ARG_NONE, &options->list, "List the devices instead", NULL },
    { NULL, 0, 0, 0, NULL, NULL, NULL },
  };
  static const gchar summary[]
      = "Evaluates " EXPRESSION " over large vectors,\n"
        "operator by operator, without a memory pool and with one, and prints the\n"
        "cost of the allocations.";
  static const gchar description[]
      = "N may end in K, M or G: 2^10, 2^20 or 2^30.\n\n"
        "Exit status: 0 all is well; 1 a wrong result, or an error of the driver;\n"
        "2 bad usage, or no such device.";
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);

  g_option_context_set_summary (context, summary);
  g_option_context_set_description (context, description);
  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, error)
      || !parse_number ("--size", size != NULL ? size : "128K", G_GUINT64_CONSTANT (1) << 40,
                        &options->length, error)
      || !parse_number ("--steps", steps != NULL ? steps : "500", 1000000, &options->n_steps, error)
      || !check_backend (options->backend, error))
    return FALSE;
  if (argc == 1)
    return TRUE;
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_FAILED,
               "'%s': only options are expected; --help shows them", argv[1]);
  return FALSE;
}

static void
list_devices (const GArray *devices)
{
  for (guint i = 0; i < devices->len; i++)
    {
      const Device *device = &g_array_index (devices, Device, i);

      printf ("%s  %s\n", device->selector, device->name);
    }
}

static gboolean
run_on (const Device *device, const Options *options, GError **error)
{
  Report alone = { .label = "without the pool" }, pooled = { .label = "with the pool" };

  printf ("device   %s %s\n"
          "step     r = " EXPRESSION ", in %d operators\n"
          "vectors  %" G_GUINT64_FORMAT " floats, %" G_GUINT64_FORMAT " bytes\n",
          device->selector, device->name, N_VECTORS - 2, options->length,
          options->length * sizeof (gfloat));
  fflush (stdout); /* the measurement may take minutes */
  if (!compare (device, options, &alone, &pooled, error))
    return FALSE;
  print_report (device, options, &alone, &pooled);
  if (MAX (alone.worst, pooled.worst) <= TOLERANCE)
    return TRUE;
  g_set_error (error, TARN_ERROR, TARN_ERROR_FAILED, "wrong result: off by %.1e, more than %.1e",
               MAX (alone.worst, pooled.worst), TOLERANCE);
  return FALSE;
}

static gboolean
execute (const Options *options, GError **error)
{
  g_autoptr (GError) left_out = NULL;
  g_autoptr (GArray) devices = find_devices (options, &left_out, error);
  const Device *device = NULL;

  if (devices == NULL)
    return FALSE;
  if (!options->list && (device = select_device (devices, options->selector, error)) == NULL)
    return FALSE;
  if (device != NULL && !check_length (device, options->length, error))
    return FALSE;
  if (left_out != NULL)
    fprintf (stderr, PROGRAM ": left out: %s\n", left_out->message);
  if (device != NULL)
    return run_on (device, options, error);
  list_devices (devices);
  return TRUE;
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
  Options options = { 0 };
  int status = EXIT_SUCCESS;

  check_output ();
  atexit (check_output);
  setlocale (LC_CTYPE, ""); /* for --help */
  if (!parse_options (&options, argc, argv, &error))
    status = EXIT_USAGE;
  else if (!execute (&options, &error))
    status = error->domain == G_OPTION_ERROR ? EXIT_USAGE : EXIT_WRONG;
  if (error != NULL)
    fprintf (stderr, PROGRAM ": %s\n", error->message);
  g_free (options.selector);
  g_free (options.backend);
  return status;
}
