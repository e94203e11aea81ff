/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Lines over two axes, written as SVG that is read on light and on dark ground. */

#ifndef CHART_H
#define CHART_H

#include <glib.h>

typedef struct
{
  gdouble x, y;
  gdouble low, high; /* y, or around it: how far it can be trusted */
} ChartPoint;

typedef struct
{
  gchar *name;
  GArray *points;        /* of ChartPoint, x going up */
  gboolean is_yardstick; /* dashed */
} ChartLine;

typedef struct
{
  gchar *title;
  const gchar *x_label, *y_label; /* with units */
  gboolean is_logarithmic;        /* both axes, of base 2 and 10; values above 0 only */
  gboolean has_marks;             /* at each point */
  gboolean is_stepped;            /* what a point says holds until the next */
  GPtrArray *lines;               /* of ChartLine */
} Chart;

/* Takes over @title. */
Chart *chart_new (gchar *title, const gchar *x_label, const gchar *y_label);
void chart_free (Chart *chart);

/* A line without points yet; of a logarithmic chart, values are above 0. */
ChartLine *chart_add_line (Chart *chart, const gchar *name);
void chart_line_add (ChartLine *line, gdouble x, gdouble y);
void chart_line_add_spread (ChartLine *line, gdouble x, gdouble y, gdouble low, gdouble high);

/* One below the other, an array of Chart, and the lines of the caption below all. */
gchar *charts_format (const GPtrArray *charts, const gchar *caption);

#endif
