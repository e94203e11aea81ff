/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Charts: lines over two axes, as SVG for light and dark backgrounds. */

#ifndef CHART_H
#define CHART_H

#include <glib.h>

/* A point.
 *
 * Invariant: low <= y <= high. */
typedef struct
{
  gdouble x, y;
  /* The least and the greatest of the measured values; y is their median.  Both are y if the point
   * has only one value. */
  gdouble low, high;
} ChartPoint;

/* A line of a chart: points, in the order of their x. */
typedef struct
{
  gchar *name;
  GArray *points; /* elements of type ChartPoint */
  /* draws the line dashed: it is not a result, but a cost to compare results with */
  gboolean is_yardstick;
} ChartLine;

/* A chart: lines over two axes. */
typedef struct
{
  gchar *title;
  const gchar *x_label, *y_label; /* the axes' labels, with units */
  /* The x axis is logarithmic with base 2, the y axis with base 10.  All values must be above 0. */
  gboolean is_logarithmic;
  gboolean has_marks;  /* draws a mark at each point */
  gboolean is_stepped; /* each value holds until the next point */
  GPtrArray *lines;    /* elements of type ChartLine */
} Chart;

/* Creates a chart without lines.  Takes over @title. */
Chart *chart_new (gchar *title, const gchar *x_label, const gchar *y_label);
void chart_free (Chart *chart);

/* Adds a line without points.  The chart owns it. */
ChartLine *chart_add_line (Chart *chart, const gchar *name);
void chart_line_add (ChartLine *line, gdouble x, gdouble y);
void chart_line_add_spread (ChartLine *line, gdouble x, gdouble y, gdouble low, gdouble high);

/* Returns the text of an SVG drawing: the Charts one below the other, and the caption at the
 * bottom.  Free the text with g_free (). */
gchar *charts_format (const GPtrArray *charts, const gchar *caption);

#endif
