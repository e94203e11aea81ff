/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "order-rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "order-crew.h"

typedef struct
{
  guint threads[MAX_THREADS]; /* numbers of threads, ascending from 1; 0 ends them */
  gboolean is_json;
  guint n_printed;
} Table;

static const gchar *program;

void
order_end_with (int status, const gchar *format, ...)
{
  va_list arguments;

  fprintf (stderr, "%s: ", program);
  va_start (arguments, format);
  vfprintf (stderr, format, arguments);
  va_end (arguments);
  fputc ('\n', stderr);
  exit (status);
}

/* Rows */

typedef struct
{
  const gchar *label;
  guint n_threads, n_queues;
  const gchar *reason; /* why there is no result; nullable */
  OrderResult result;
  gdouble malloc_time; /* nanoseconds, with as many threads */
  gdouble gain;        /* pairs a second relative to one thread; 0: none */
  gdouble share;       /* the gain relative to malloc's */
  gdouble ratio;       /* to malloc with as many threads */
} Row;

static void
print_number (gdouble value, gint width, gint precision)
{
  if (value > 0)
    printf (" %*.*f", width, precision, value);
  else
    printf (" %*s", width, "-");
}

static void
print_count (gboolean is_known, gdouble value)
{
  if (is_known)
    printf (" %6.3f", value);
  else
    printf (" %6s", "-");
}

static void
print_as_text (const Row *row)
{
  printf ("%-30s %7u %6u", row->label, row->n_threads, row->n_queues);
  if (row->reason != NULL)
    {
      printf (" (%s)\n", row->reason);
      return;
    }
  printf (" %8.1f %8.1f %8.1f", row->result.median, row->result.least, row->result.most);
  print_number (row->gain, 6, 2);
  print_number (row->share, 6, 2);
  printf (" %7.2f", row->ratio);
  print_count (row->result.has_pool, row->result.waits);
  print_count (row->result.has_pool, row->result.misses);
  print_count (row->result.has_calls, row->result.calls);
  printf ("\n");
}

static void
print_as_json (const Row *row, gboolean is_first)
{
  g_autofree gchar *reason = g_strdup (row->reason);

  printf ("%s\n  { \"name\": \"%s\", \"threads\": %u, \"queues\": %u", is_first ? "[" : ",",
          row->label, row->n_threads, row->n_queues);
  if (reason != NULL)
    printf (", \"error\": \"%s\"", g_strdelimit (reason, "\"\\\n\t", '\''));
  else
    printf (", \"median\": %.2f, \"min\": %.2f, \"max\": %.2f, \"ratio\": %.3f", row->result.median,
            row->result.least, row->result.most, row->ratio);
  if (reason == NULL && row->gain > 0)
    printf (", \"gain\": %.3f, \"share\": %.3f", row->gain, row->share);
  if (reason == NULL && row->result.has_pool)
    printf (", \"waits\": %.5f, \"misses\": %.5f", row->result.waits, row->result.misses);
  if (reason == NULL && row->result.has_calls)
    printf (", \"calls\": %.5f", row->result.calls);
  printf (" }");
}

static void
print_row (Table *table, const Row *row)
{
  if (table->is_json)
    print_as_json (row, table->n_printed == 0);
  else
    print_as_text (row);
  table->n_printed++;
  fflush (stdout);
}

static void
print_head (const Table *table)
{
  if (!table->is_json)
    printf ("%-30s %7s %6s %8s %8s %8s %6s %6s %7s %6s %6s %6s\n", "", "threads", "queues", "ns",
            "least", "most", "gain", "share", "x", "waits", "misses", "calls");
}

/* Measurement */

/* Computes the gain over @alone, the row of one thread, which may be NULL. */
static void
compare_row (Row *row, const Row *alone)
{
  row->ratio = row->result.median / row->malloc_time;
  if (alone == NULL)
    return;
  row->gain = row->n_threads * alone->result.median / row->result.median;
  row->share = alone->ratio / row->ratio;
}

/* Measures a row, and the yardstick just before it, because conditions change within seconds. */
static gboolean
measure_row (const OrderBench *bench, const Way *way, Row *row, GError **error)
{
  OrderResult yardstick;

  if (way != &ways[0]
      && !order_measure (bench, &ways[0], row->n_threads, row->n_queues, &yardstick, error))
    return FALSE;
  if (!order_measure (bench, way, row->n_threads, row->n_queues, &row->result, error))
    return FALSE;
  row->result.median = MAX (row->result.median, 0.1); /* some ratio must come out */
  row->malloc_time = way != &ways[0] ? MAX (yardstick.median, 0.1) : row->result.median;
  return TRUE;
}

/* Measures and prints a row.  Returns FALSE if it could not be measured. */
static gboolean
add_row (const OrderBench *bench, Table *table, const Way *way, Row *row, const Row *alone)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *direct = g_strconcat (bench->backend->direct,
                                          way->sizes == SIZES_MIXED ? ", mixed sizes" : NULL, NULL);

  row->label = way->label != NULL ? way->label : direct;
  if (way->round == NULL && bench->backend->why_no_direct != NULL)
    row->reason = bench->backend->why_no_direct ();
  if (row->reason == NULL && !measure_row (bench, way, row, &error))
    row->reason = error->message;
  if (row->reason == NULL)
    compare_row (row, alone);
  print_row (table, row);
  return row->reason == NULL;
}

static void
add_rows_of_threads (const OrderBench *bench, Table *table, const Way *way)
{
  Row alone = { .n_threads = 1, .n_queues = 1 };
  gboolean has_alone = add_row (bench, table, way, &alone, &alone);

  for (guint i = 1; i < MAX_THREADS && table->threads[i] != 0; i++)
    {
      Row row = { .n_threads = table->threads[i], .n_queues = 1 };

      add_row (bench, table, way, &row, has_alone ? &alone : NULL);
    }
}

static void
add_rows_of_queues (const OrderBench *bench, Table *table, const Way *way)
{
  static const guint numbers[] = { 1, 2, 8, ROUND_PAIRS };

  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    {
      Row row = { .n_threads = 1, .n_queues = numbers[i] };

      if (numbers[i] >= way->min_queues && numbers[i] <= way->max_queues)
        add_row (bench, table, way, &row, NULL);
    }
}

static void
measure_all (const OrderBench *bench, Table *table, const gchar *part)
{
  print_head (table);
  for (gsize i = 0; i < n_ways; i++)
    {
      const gchar *label = ways[i].label != NULL ? ways[i].label : bench->backend->direct;

      if (label == NULL || (i > 0 && part != NULL && strstr (label, part) == NULL))
        continue;
      if (ways[i].has_threads)
        add_rows_of_threads (bench, table, &ways[i]);
      else
        add_rows_of_queues (bench, table, &ways[i]);
    }
  if (table->is_json)
    printf ("\n]\n");
}

/* Options */

/* Parses numbers of threads, such as "1,2,4": ascending, from 1. */
static gboolean
parse_threads (Table *table, const gchar *text)
{
  g_auto (GStrv) parts = g_strsplit (text, ",", -1);
  guint64 last = 0, number;

  for (guint i = 0; parts[i] != NULL; last = number, i++)
    {
      if (!g_ascii_string_to_unsigned (parts[i], 10, last + 1, MAX_THREADS, &number, NULL)
          || (i == 0 && number != 1))
        return FALSE;
      table->threads[i] = (guint) number;
    }
  return last > 0;
}

static void
read_options (int argc, char **argv, OrderBench *bench, Table *table, gchar **part)
{
  gint n_rounds = 0, n_repetitions = 7;
  g_autofree gchar *threads = NULL;
  const GOptionEntry entries[] = {
    { "seconds", 's', 0, G_OPTION_ARG_DOUBLE, &bench->seconds, "Of each repetition (0.05)", "S" },
    { "rounds", 'n', 0, G_OPTION_ARG_INT, &n_rounds, "N rounds of 64 requests instead", "N" },
    { "repetitions", 'r', 0, G_OPTION_ARG_INT, &n_repetitions, "N of them (7)", "N" },
    { "threads", 't', 0, G_OPTION_ARG_STRING, &threads, "How many (1,2,4,16)", "LIST" },
    { "only", 'o', 0, G_OPTION_ARG_STRING, part, "Rows whose name has TEXT, and malloc", "TEXT" },
    { "json", 'j', 0, G_OPTION_ARG_NONE, &table->is_json, "As JSON", NULL },
    { NULL, 0, 0, 0, NULL, NULL, NULL }
  };
  g_autoptr (GOptionContext) context = g_option_context_new (bench->backend->summary);
  g_autoptr (GError) error = NULL;

  g_option_context_set_summary (
      context, "Nanoseconds of a request and its free, as a thread sees them: the median, the\n"
               "least, the most; gain: over one thread; share: of what malloc gains; x: malloc's\n"
               "with as many threads; for each request: waits and misses of a pool, calls of a\n"
               "driver that counts them.");
  g_option_context_set_description (context, bench->backend->description);
  g_option_context_add_main_entries (context, entries, NULL);
  if (bench->backend->options != NULL)
    g_option_context_add_main_entries (context, bench->backend->options, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error))
    order_end_with (EXIT_USAGE, "%s", error->message);
  if (argc > 1 || n_rounds < 0 || n_repetitions < 1 || n_repetitions > MAX_REPETITIONS
      || !(bench->seconds > 0 && bench->seconds <= 60)
      || !parse_threads (table, threads != NULL ? threads : "1,2,4,16"))
    order_end_with (EXIT_USAGE,
                    "1 to %d repetitions of up to 60 seconds, 1 to %d threads, beginning with 1, "
                    "and nothing else",
                    MAX_REPETITIONS, MAX_THREADS);
  bench->n_rounds = (guint) n_rounds;
  bench->n_repetitions = (guint) n_repetitions;
}

int
order_run (int argc, char **argv, const OrderBackend *backend)
{
  OrderBench bench = { .backend = backend, .seconds = 0.05 };
  Table table = { 0 };
  g_autofree gchar *part = NULL;

  program = backend->program;
  read_options (argc, argv, &bench, &table, &part);
  bench.allocator = backend->open ();
  measure_all (&bench, &table, part);
  tarn_allocator_unref (bench.allocator);
  if (backend->close != NULL)
    backend->close ();
  return EXIT_SUCCESS;
}
