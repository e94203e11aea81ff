/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Prints tables of alternatives as text and CSV. */

#include <math.h>
#include <stdio.h>

#include "../text.h"
#include "print-csv.h"
#include "print.h"

#define MIB ((gdouble) (1 << 20))
#define CELLS "%-18s %8s %8s %6s %6s %6s %7s %6s %7s\n" /* 80 columns */

/* Formats a share, as in "12.3 %", "100 %", or "-" for NaN. */
static gchar *
format_share (gdouble share)
{
  if (isnan (share))
    return g_strdup ("-");
  return g_strdup_printf (share > 0.9995 ? "%.0f %%" : "%.1f %%", 100 * share);
}

static gchar *
format_ratio (gdouble ratio)
{
  return isnan (ratio) ? g_strdup ("-") : g_strdup_printf ("%.2f", ratio);
}

static gchar *
format_mib (gsize bytes)
{
  gdouble mib = (gdouble) bytes / MIB;

  return g_strdup_printf ("%.*f", mib < 100 ? 2 : 0, mib);
}

static void
print_row (const WhatIfRow *row)
{
  g_autofree gchar *managed = format_mib (row->peak_managed);
  g_autofree gchar *active = format_mib (row->peak_active);
  g_autofree gchar *ratio = format_ratio (row->ratio);
  g_autofree gchar *idle = format_share (row->idle_share);
  g_autofree gchar *hits = format_share (row->hit_share);
  g_autofree gchar *calls = g_strdup_printf ("%" G_GUINT64_FORMAT, row->calls);
  g_autofree gchar *failures = g_strdup_printf ("%" G_GUINT64_FORMAT, row->failures);
  g_autofree gchar *ns = row->has_time ? g_strdup_printf ("%.1f", row->ns.median) : g_strdup ("-");

  printf (CELLS, row->label, managed, active, ratio, idle, hits, calls, failures, ns);
}

static void
print_error (const WhatIfRow *row)
{
  g_autofree gchar *why = text_make_printable (row->error, -1);

  printf ("%-18s (%s)\n", row->label, why);
}

static void
print_difference (const Difference *difference)
{
  gboolean is_more = difference->replayed > difference->recorded;
  guint64 by = is_more ? difference->replayed - difference->recorded
                       : difference->recorded - difference->replayed;

  printf ("  %s: %s: %" G_GUINT64_FORMAT " replayed, %" G_GUINT64_FORMAT
          " recorded (%s%" G_GUINT64_FORMAT ")\n",
          difference->object, difference->counter, difference->replayed, difference->recorded,
          is_more ? "+" : "-", by);
}

static void
print_comparison (const WhatIf *table)
{
  guint n = table->differences->len;

  if (table->n_compared > 0 && n == 0)
    printf ("same as recorded: %u counter%s\n", table->n_compared,
            table->n_compared == 1 ? "" : "s");
  else if (n > 0)
    printf ("not as recorded: %u of %u counters\n", n, table->n_compared);
  for (guint i = 0; i < n; i++)
    print_difference (table->differences->pdata[i]);
  for (guint i = 0; i < table->notes->len; i++)
    printf ("note: %s\n", (const gchar *) table->notes->pdata[i]);
}

void
print_table_text (const PrintHead *head, const WhatIf *table, gboolean is_first)
{
  g_autofree gchar *name
      = table->name != NULL ? text_make_printable (table->name, -1) : g_strdup ("no device");

  printf ("%s%s%s  %s%s%s%s\n", is_first ? "" : "\n", head->has_color ? "\033[1m" : "", table->kind,
          table->name != NULL ? table->device : "", table->name != NULL ? "  " : "", name,
          head->has_color ? "\033[0m" : "");
  printf ("%s: %u step%s, %u thread%s\n", table->recording, table->n_steps,
          table->n_steps == 1 ? "" : "s", table->n_threads, table->n_threads == 1 ? "" : "s");
  printf (CELLS, "alternative", "peak MiB", "in use", "ratio", "idle", "hits", "calls", "failed",
          "ns/step");
  for (guint i = 0; i < table->rows->len; i++)
    {
      const WhatIfRow *row = table->rows->pdata[i];

      if (row->error != NULL)
        print_error (row);
      else
        print_row (row);
    }
  if (table->rows->len > 2)
    printf ("best first: fewest failed, least peak, fewest calls\n");
  print_comparison (table);
}

void
print_table_head_csv (void)
{
  printf ("device,kind,recording,threads,steps,alternative,peak_managed_bytes,peak_active_bytes,"
          "ratio,idle_share,hit_share,calls,failures,ns,ns_min,ns_max,error\n");
}

static void
print_row_csv (const WhatIfRow *row)
{
  csv_print_text (row->label);
  printf ("%" G_GSIZE_FORMAT ",%" G_GSIZE_FORMAT ",", row->peak_managed, row->peak_active);
  csv_print_number (row->ratio, ",");
  csv_print_number (row->idle_share, ",");
  csv_print_number (row->hit_share, ",");
  printf ("%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT ",", row->calls, row->failures);
  csv_print_number (row->has_time ? row->ns.median : NAN, ",");
  csv_print_number (row->has_time ? row->ns.min : NAN, ",");
  csv_print_number (row->has_time ? row->ns.max : NAN, ",\n");
}

/* Prints the row of an alternative that could not be tried: its label and the error.  All cells
 * between them are empty. */
static void
print_error_csv (const WhatIfRow *row)
{
  csv_print_text (row->label);
  printf (",,,,,,,,,,");
  csv_print_text (row->error);
  printf ("\n");
}

void
print_table_csv (const PrintHead *head, const WhatIf *table, gboolean is_first)
{
  (void) head;
  (void) is_first;
  for (guint i = 0; i < table->rows->len; i++)
    {
      const WhatIfRow *row = table->rows->pdata[i];

      csv_print_text (table->device);
      csv_print_text (table->kind);
      csv_print_text (table->recording);
      printf ("%u,%u,", table->n_threads, table->n_steps);
      if (row->error != NULL)
        print_error_csv (row);
      else
        print_row_csv (row);
    }
}
