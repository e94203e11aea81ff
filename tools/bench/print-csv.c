/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * As RFC 4180 has it, but for the ends of lines, which are this system's. */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../text.h"
#include "print.h"

static void
print_field (const gchar *text)
{
  g_autofree gchar *printable = text_make_printable (text, -1);
  g_auto (GStrv) parts = g_strsplit (printable, "\"", -1);
  g_autofree gchar *doubled = g_strjoinv ("\"\"", parts);
  const gchar *quote = strpbrk (printable, ",\"\n") != NULL ? "\"" : "";

  printf ("%s%s%s,", quote, doubled, quote);
}

/* With a point, whatever the locale; empty: there is none. */
static void
print_number (gdouble value, const gchar *end)
{
  gchar text[G_ASCII_DTOSTR_BUF_SIZE];

  printf ("%s%s", isfinite (value) ? g_ascii_formatd (text, sizeof text, "%.6g", value) : "", end);
}

static void
begin (const PrintHead *head)
{
  (void) head;
  printf ("device,kind,measure,threads,parameter,median,min,max,unit,ratio,malloc,gain,"
          "malloc_gain\n");
}

static void
print_row (const PrintHead *head, const Result *row, const Result *last)
{
  (void) head;
  (void) last;
  print_field (row->device);
  print_field (row->kind);
  print_field (row->measure);
  printf ("%u,", row->threads);
  print_field (row->parameter);
  print_number (row->has_value ? row->value.median : NAN, ",");
  print_number (row->has_value ? row->value.min : NAN, ",");
  print_number (row->has_value ? row->value.max : NAN, ",");
  print_field (row->unit);
  print_number (row->ratio, ",");
  print_number (row->has_yardstick ? row->yardstick.median : NAN, ",");
  print_number (row->gain, ",");
  print_number (row->yardstick_gain, "\n");
}

static void
end (const PrintHead *head, const Results *results)
{
  (void) head;
  (void) results;
}

const Printer csv_printer = { begin, print_row, end };
