/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Prints results as tables for people. */

#include <math.h>
#include <stdio.h>

#include "../text.h"
#include "print.h"

#define SURELY_HITS 0.995 /* larger shares of hits are not printed: they are the usual case */

/* Formats a number, as in "1.23", "12.3", "1234", or "-" for NaN. */
static gchar *
format_number (gdouble value)
{
  if (isnan (value))
    return g_strdup ("-");
  return g_strdup_printf ("%.*f", fabs (value) < 9.995 ? 2 : fabs (value) < 99.95 ? 1 : 0, value);
}

/* The lines of the table, each of 80 columns. */
#define HEAD                                                                                       \
  "                                                           times speed-up of\n"                 \
  "measure  threads blocks        median     min     max unit  malloc  pool malloc\n"
#define CELLS "%-8s %7u %-12s "
#define VALUES "%7s %7s %7s %-5s %7s %5s %6s\n"

/* Chooses ns, us or ms as the unit of a time, so that the median has few digits. */
static const gchar *
choose_scale (const Result *result, gdouble *scale)
{
  *scale = 1;
  if (!g_str_equal (result->unit, "ns") || result->value.median < 9999.5)
    return result->unit;
  *scale = result->value.median < 9999.5e3 ? 1e3 : 1e6;
  return *scale < 1e6 ? "us" : "ms";
}

static void
print_value (const Result *result)
{
  gdouble scale;
  const gchar *unit = choose_scale (result, &scale);
  g_autofree gchar *median = format_number (result->value.median / scale);
  g_autofree gchar *min = format_number (result->value.min / scale);
  g_autofree gchar *max = format_number (result->value.max / scale);
  g_autofree gchar *ratio = format_number (result->ratio);
  g_autofree gchar *gain = format_number (result->gain);
  g_autofree gchar *yardstick_gain = format_number (result->yardstick_gain);

  printf (VALUES, median, min, max, unit, ratio, gain, yardstick_gain);
}

static void
print_error (const Result *result)
{
  g_autofree gchar *why = text_make_printable (result->error, -1);

  printf ("(%s)\n", why);
}

static void
print_cells (const Result *result)
{
  /* A trace's name may be long, so only its first 12 characters are printed. */
  g_autofree gchar *parameter
      = g_utf8_substring (result->parameter, 0, MIN (g_utf8_strlen (result->parameter, -1), 12));

  printf (CELLS, result->measure, result->threads, parameter);
  if (result->has_value)
    print_value (result);
  else
    print_error (result);
  if (result->hit_share < SURELY_HITS && !g_str_equal (result->measure, "miss"))
    printf ("%-16s (%.1f %% of these were hits)\n", "", result->hit_share * 100);
}

static gboolean
is_same_source (const Result *left, const Result *right)
{
  return left->kind == right->kind && g_str_equal (left->device, right->device);
}

static void
print_source (const Result *result, gboolean has_color)
{
  g_autofree gchar *name
      = result->name != NULL ? text_make_printable (result->name, -1) : g_strdup ("no device");

  printf ("%s%s  %s%s%s%s\n", has_color ? "\033[1m" : "", result->kind,
          result->name != NULL ? result->device : "", result->name != NULL ? "  " : "", name,
          has_color ? "\033[0m" : "");
  if (result->threads == 0)
    return;
  printf (HEAD);
}

static void
begin (const PrintHead *head)
{
  (void) head;
}

static void
print_row (const PrintHead *head, const Result *row, const Result *last)
{
  if (last == NULL || !is_same_source (row, last))
    {
      printf ("%s", last != NULL ? "\n" : "");
      print_source (row, head->has_color);
    }
  if (row->threads > 0)
    print_cells (row);
  else
    print_error (row); /* the source could not be opened */
}

static void
end (const PrintHead *head, const Results *results)
{
  if (results->rows->len == 0)
    return;
  printf ("\nTimes are per block, allocated and freed, as a thread sees it; %u repetition%s.\n"
          "times malloc: the ratio to malloc (64) + free, measured in the same run.\n"
          "speed-up: blocks a second relative to one thread, of the pool and of malloc.\n",
          head->n_repetitions, head->n_repetitions == 1 ? "" : "s");
}

const Printer text_printer = { begin, print_row, print_table_text, end };
