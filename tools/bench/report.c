/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Prints results under a lock. */

#include "report.h"

#include <stdio.h>

#include "../file.h"
#include "../terminal.h"
#include "../text.h"
#include "plot.h"

void
report_init (Report *report)
{
  *report = (Report){ .is_plotted = TRUE };
  pthread_mutex_init (&report->lock, NULL);
}

void
report_begin (Report *report, const Printer *printer, const PrintHead *head, const gchar *plot)
{
  pthread_mutex_lock (&report->lock);
  report->printer = printer;
  report->head = *head;
  report->plot = plot;
  report->results = results_new ();
  if (!report->has_ended)
    printer->begin (head);
  fflush (stdout);
  pthread_mutex_unlock (&report->lock);
}

static void
take_row (Report *report, Result *row)
{
  GPtrArray *rows = report->results->rows;

  report->printer->row (&report->head, row,
                        rows->len > 0 ? g_ptr_array_index (rows, rows->len - 1) : NULL);
  g_ptr_array_add (rows, row);
}

static void
take_table (Report *report, WhatIf *table)
{
  GPtrArray *tables = report->results->tables;

  report->printer->table (&report->head, table, tables->len == 0);
  g_ptr_array_add (tables, table);
}

void
report_take (Report *report, Results *measured)
{
  pthread_mutex_lock (&report->lock);
  if (!report->has_ended)
    {
      terminal_set_progress (NULL);
      while (measured->rows->len > 0)
        take_row (report, g_ptr_array_steal_index (measured->rows, 0));
      while (measured->tables->len > 0)
        take_table (report, g_ptr_array_steal_index (measured->tables, 0));
      while (measured->traces->len > 0)
        g_ptr_array_add (report->results->traces, g_ptr_array_steal_index (measured->traces, 0));
      fflush (stdout);
    }
  pthread_mutex_unlock (&report->lock);
}

static gboolean
draw (const Report *report)
{
  g_autofree gchar *svg = NULL;
  g_autoptr (GError) error = NULL;

  if (report->plot == NULL || report->results->rows->len == 0)
    return TRUE;
  svg = plot_format (report->results, &report->head);
  if (file_write (report->plot, svg, &error))
    return TRUE;
  text_complain (g_get_prgname (), "--plot: %s", error->message);
  return FALSE;
}

gboolean
report_end (Report *report)
{
  gboolean is_plotted;

  pthread_mutex_lock (&report->lock);
  if (!report->has_ended && report->printer != NULL)
    {
      terminal_set_progress (NULL);
      report->printer->end (&report->head, report->results);
      fflush (stdout);
      report->is_plotted = draw (report);
    }
  report->has_ended = TRUE;
  is_plotted = report->is_plotted;
  pthread_mutex_unlock (&report->lock);
  return is_plotted;
}
