/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "chart.h"

#include <math.h>

#include "../text.h"

/* Pixels */
#define WIDTH 760
#define HEIGHT 340 /* of a chart */
#define LEFT 90
#define RIGHT 180 /* the legend's */
#define TOP 40
#define BOTTOM 55
#define LEGEND_STEP 20

#define MAX_TICKS 12

/* Told apart with any kind of colour vision (Okabe and Ito), and also by their marks' places in the
 * legend. */
static const gchar *const colors[]
    = { "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a8a" };

static const gchar style[]
    = "<style>\n"
      "svg { background: #ffffff; color: #202020; font: 13px sans-serif }\n"
      "text { fill: currentColor }\n"
      ".title { font-weight: bold; font-size: 15px }\n"
      ".axis { stroke: currentColor; fill: none }\n"
      ".grid { stroke: currentColor; stroke-opacity: 0.15 }\n"
      ".line { fill: none; stroke-width: 2 }\n"
      ".yardstick { stroke-dasharray: 6 4 }\n"
      "@media (prefers-color-scheme: dark) { svg { background: #181818; color: #e8e8e8 } }\n"
      "</style>\n";

typedef struct
{
  gdouble min, max;
  gboolean is_logarithmic;
  gdouble first, last; /* pixels */
} Axis;

static void
line_free (gpointer data)
{
  ChartLine *line = data;

  g_free (line->name);
  g_array_unref (line->points);
  g_free (line);
}

Chart *
chart_new (gchar *title, const gchar *x_label, const gchar *y_label)
{
  Chart *chart = g_new0 (Chart, 1);

  chart->title = title;
  chart->x_label = x_label;
  chart->y_label = y_label;
  chart->lines = g_ptr_array_new_with_free_func (line_free);
  return chart;
}

void
chart_free (Chart *chart)
{
  g_free (chart->title);
  g_ptr_array_unref (chart->lines);
  g_free (chart);
}

ChartLine *
chart_add_line (Chart *chart, const gchar *name)
{
  ChartLine *line = g_new0 (ChartLine, 1);

  line->name = g_strdup (name);
  line->points = g_array_new (FALSE, FALSE, sizeof (ChartPoint));
  g_ptr_array_add (chart->lines, line);
  return line;
}

void
chart_line_add (ChartLine *line, gdouble x, gdouble y)
{
  ChartPoint point = { x, y };

  g_array_append_val (line->points, point);
}

/* What is written */

static void
append_text (GString *svg, const gchar *text)
{
  g_autofree gchar *printable = text_make_printable (text, -1);
  g_autofree gchar *escaped = g_markup_escape_text (printable, -1);

  g_string_append (svg, escaped);
}

/* With a point, whatever the locale. */
static void
append_number (GString *svg, const gchar *before, gdouble value)
{
  gchar text[G_ASCII_DTOSTR_BUF_SIZE];

  g_string_append (svg, before);
  g_string_append (svg, g_ascii_formatd (text, sizeof text, "%.1f", value));
}

static void
append_label (GString *svg, gdouble x, gdouble y, const gchar *attributes, const gchar *text)
{
  append_number (svg, "<text x=\"", x);
  append_number (svg, "\" y=\"", y);
  g_string_append_printf (svg, "\" %s>", attributes);
  append_text (svg, text);
  g_string_append (svg, "</text>\n");
}

static void
append_line (GString *svg, const gchar *class, gdouble x1, gdouble y1, gdouble x2, gdouble y2)
{
  g_string_append_printf (svg, "<line class=\"%s\"", class);
  append_number (svg, " x1=\"", x1);
  append_number (svg, "\" y1=\"", y1);
  append_number (svg, "\" x2=\"", x2);
  append_number (svg, "\" y2=\"", y2);
  g_string_append (svg, "\"/>\n");
}

/* Axes */

static gdouble
axis_place (const Axis *axis, gdouble value)
{
  gdouble share = axis->is_logarithmic ? log (value / axis->min) / log (axis->max / axis->min)
                                       : (value - axis->min) / (axis->max - axis->min);

  return axis->first + share * (axis->last - axis->first);
}

static gdouble
get_coordinate (const ChartPoint *point, gboolean is_x)
{
  return is_x ? point->x : point->y;
}

/* From 0, or, if it is logarithmic, from the power of its base that is below all. */
static Axis
axis_of (const Chart *chart, gboolean is_x)
{
  Axis axis = { INFINITY, 0, chart->is_logarithmic, 0, 0 };
  gdouble base = is_x ? 2 : 10;

  for (guint i = 0; i < chart->lines->len; i++)
    {
      const GArray *points = ((const ChartLine *) g_ptr_array_index (chart->lines, i))->points;

      for (guint j = 0; j < points->len; j++)
        {
          gdouble value = get_coordinate (&g_array_index (points, ChartPoint, j), is_x);

          axis.min = MIN (axis.min, value);
          axis.max = MAX (axis.max, value);
        }
    }
  if (axis.is_logarithmic)
    {
      axis.min = pow (base, floor (log (axis.min) / log (base)));
      axis.max = MAX (pow (base, ceil (log (axis.max) / log (base))), axis.min * base);
    }
  else
    {
      axis.min = 0;
      axis.max = axis.max > 0 ? axis.max : 1;
    }
  return axis;
}

/* 1, 2 or 5 times a power of ten; of bytes, a power of two. */
static gdouble
choose_step (gdouble range)
{
  gdouble power = pow (10, floor (log10 (range / 4)));
  gdouble factor = range / 4 / power;

  return power * (factor < 2 ? 1 : factor < 5 ? 2 : 5);
}

static guint
axis_ticks (const Axis *axis, gdouble base, gdouble *ticks)
{
  gdouble step = axis->is_logarithmic ? base : choose_step (axis->max - axis->min);
  guint n = 0;

  for (gdouble value = axis->min; value <= axis->max * (1 + 1e-9) && n < MAX_TICKS;
       value = axis->is_logarithmic ? value * step : value + step)
    ticks[n++] = value;
  return n;
}

static void
append_axes (GString *svg, const Chart *chart, const Axis *x, const Axis *y)
{
  gdouble ticks[MAX_TICKS];
  guint n = axis_ticks (x, 2, ticks);
  g_autofree gchar *turn = NULL;

  for (guint i = 0; i < n; i++)
    {
      g_autofree gchar *text = g_strdup_printf ("%g", ticks[i]);

      append_label (svg, axis_place (x, ticks[i]), y->first + 20, "text-anchor=\"middle\"", text);
      append_line (svg, "grid", axis_place (x, ticks[i]), y->first, axis_place (x, ticks[i]),
                   y->last);
    }
  n = axis_ticks (y, 10, ticks);
  for (guint i = 0; i < n; i++)
    {
      g_autofree gchar *text = g_strdup_printf ("%g", ticks[i]);

      append_label (svg, x->first - 8, axis_place (y, ticks[i]) + 4, "text-anchor=\"end\"", text);
      append_line (svg, "grid", x->first, axis_place (y, ticks[i]), x->last,
                   axis_place (y, ticks[i]));
    }
  append_line (svg, "axis", x->first, y->first, x->last, y->first);
  append_line (svg, "axis", x->first, y->first, x->first, y->last);
  append_label (svg, (x->first + x->last) / 2, y->first + 42, "text-anchor=\"middle\"",
                chart->x_label);
  turn = g_strdup_printf ("text-anchor=\"middle\" transform=\"rotate(-90 20 %d)\"",
                          (gint) (y->first + y->last) / 2);
  append_label (svg, 20, (gint) (y->first + y->last) / 2, turn, chart->y_label);
}

/* Lines */

static void
append_marks (GString *svg, const ChartLine *line, const gchar *color, const Axis *x, const Axis *y)
{
  for (guint i = 0; i < line->points->len; i++)
    {
      const ChartPoint *point = &g_array_index (line->points, ChartPoint, i);

      append_number (svg, "<circle r=\"3.5\" cx=\"", axis_place (x, point->x));
      append_number (svg, "\" cy=\"", axis_place (y, point->y));
      g_string_append_printf (svg, "\" fill=\"%s\"/>\n", color);
    }
}

static void
append_chart_line (GString *svg, const Chart *chart, guint index, const Axis *x, const Axis *y)
{
  const ChartLine *line = g_ptr_array_index (chart->lines, index);
  const gchar *color = line->is_yardstick ? "currentColor" : colors[index % G_N_ELEMENTS (colors)];
  gdouble place = y->last + 10 + index * LEGEND_STEP;

  g_string_append_printf (svg, "<polyline class=\"line%s\" stroke=\"%s\" points=\"",
                          line->is_yardstick ? " yardstick" : "", color);
  for (guint i = 0; i < line->points->len; i++)
    {
      const ChartPoint *point = &g_array_index (line->points, ChartPoint, i);

      append_number (svg, i > 0 ? " " : "", axis_place (x, point->x));
      if (chart->is_stepped && i > 0)
        {
          append_number (svg, ",", axis_place (y, point[-1].y));
          append_number (svg, " ", axis_place (x, point->x));
        }
      append_number (svg, ",", axis_place (y, point->y));
    }
  g_string_append (svg, "\"/>\n");
  if (chart->has_marks)
    append_marks (svg, line, color, x, y);
  g_string_append_printf (svg, "<g stroke=\"%s\">", color);
  append_line (svg, line->is_yardstick ? "line yardstick" : "line", x->last + 15, place - 4,
               x->last + 40, place - 4);
  g_string_append (svg, "</g>\n");
  append_label (svg, x->last + 46, place, "text-anchor=\"start\"", line->name);
}

static void
append_chart (GString *svg, const Chart *chart, guint top)
{
  Axis x = axis_of (chart, TRUE), y = axis_of (chart, FALSE);

  x.first = LEFT;
  x.last = WIDTH - RIGHT;
  y.first = top + HEIGHT - BOTTOM;
  y.last = top + TOP;
  append_label (svg, LEFT, top + 24, "class=\"title\"", chart->title);
  append_axes (svg, chart, &x, &y);
  for (guint i = 0; i < chart->lines->len; i++)
    append_chart_line (svg, chart, i, &x, &y);
}

gchar *
charts_format (const GPtrArray *charts)
{
  GString *svg = g_string_new (NULL);
  guint height = MAX (charts->len, 1) * HEIGHT;

  g_string_append_printf (svg,
                          "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" "
                          "viewBox=\"0 0 %d %u\">\n%s",
                          WIDTH, height, WIDTH, height, style);
  if (charts->len == 0)
    append_label (svg, LEFT, TOP, "class=\"title\"", "Nothing that can be drawn was measured");
  for (guint i = 0; i < charts->len; i++)
    append_chart (svg, g_ptr_array_index (charts, i), i * HEIGHT);
  g_string_append (svg, "</svg>\n");
  return g_string_free (svg, FALSE);
}
