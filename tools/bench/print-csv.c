/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Prints CSV as in RFC 4180, but with this system's line ends instead of CR LF. */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../text.h"
#include "print-csv.h"
#include "print.h"

void
csv_print_text (const gchar *text)
{
  g_autofree gchar *printable = text_make_printable (text, -1);
  g_auto (GStrv) parts = g_strsplit (printable, "\"", -1);
  g_autofree gchar *doubled = g_strjoinv ("\"\"", parts);
  const gchar *quote = strpbrk (printable, ",\"\n") != NULL ? "\"" : "";

  printf ("%s%s%s,", quote, doubled, quote);
}

void
csv_print_number (gdouble value, const gchar *end)
{
  gchar text[G_ASCII_DTOSTR_BUF_SIZE];

  printf ("%s%s", isfinite (value) ? g_ascii_formatd (text, sizeof text, "%.6g", value) : "", end);
}

static void
begin (const PrintHead *head)
{
  if (head->has_tables_only)
    {
      print_table_head_csv ();
      return;
    }
  printf ("device,kind,measure,threads,parameter,median,min,max,unit,ratio,malloc,gain,"
          "malloc_gain\n");
}

static void
print_row (const PrintHead *head, const Result *row, const Result *last)
{
  (void) head;
  (void) last;
  csv_print_text (row->device);
  csv_print_text (row->kind);
  csv_print_text (row->measure);
  printf ("%u,", row->threads);
  csv_print_text (row->parameter);
  csv_print_number (row->has_value ? row->value.median : NAN, ",");
  csv_print_number (row->has_value ? row->value.min : NAN, ",");
  csv_print_number (row->has_value ? row->value.max : NAN, ",");
  csv_print_text (row->unit);
  csv_print_number (row->ratio, ",");
  csv_print_number (row->has_yardstick ? row->yardstick.median : NAN, ",");
  csv_print_number (row->gain, ",");
  csv_print_number (row->yardstick_gain, "\n");
}

static void
end (const PrintHead *head, const Results *results)
{
  (void) head;
  (void) results;
}

const Printer csv_printer = { begin, print_row, print_table_csv, end };
