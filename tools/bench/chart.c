/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Draws charts as SVG. */

#include "chart.h"

#include <math.h>

#include "../text.h"

/* The sizes of a chart and its parts, in pixels */
#define WIDTH 760
#define HEIGHT 340 /* height of one chart */
#define LEFT 90
#define RIGHT 180 /* right margin, which has the legend */
#define TOP 40
#define BOTTOM 55
#define LEGEND_STEP 20
#define CAPTION 60
#define CAPTION_STEP 18
#define CAP 3    /* half the length of the short line at the end of a bar */
#define DODGE 3  /* distance between the marks of two lines at the same x */
#define INSET 20 /* free space at both ends of the x axis if the chart has marks */
#define LABEL 16 /* a label's height with its margin */

#define MAX_TICKS 80

/* Colours that all kinds of colour vision can tell apart (Okabe and Ito). */
static const gchar *const colors[]
    = { "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a8a" };

static const gchar style[]
    = "<style>\n"
      "svg { background: #ffffff; color: #202020; font: 13px sans-serif }\n"
      "text { fill: currentColor }\n"
      ".title { font-weight: bold; font-size: 15px }\n"
      ".axis { stroke: currentColor; fill: none }\n"
      ".grid { stroke: currentColor; stroke-opacity: 0.25 }\n"
      ".minor { stroke: currentColor; stroke-opacity: 0.1 }\n"
      ".caption { font-size: 12px; fill-opacity: 0.75 }\n"
      ".line { fill: none; stroke-width: 2 }\n"
      ".spread { stroke-width: 1.2; stroke-opacity: 0.7 }\n"
      ".yardstick { stroke-dasharray: 6 4 }\n"
      "@media (prefers-color-scheme: dark) { svg { background: #181818; color: #e8e8e8 } }\n"
      "</style>\n";

/* An axis.
 *
 * Invariant, after axis_round () has rounded it: min < max; min > 0 if base is not 0. */
typedef struct
{
  gdouble min, max;
  guint base;          /* base of the logarithm; 0: the axis is linear */
  gdouble first, last; /* both ends of the axis, in pixels */
  gdouble inset;       /* pixels left free at both ends of the axis */
} Axis;

/* A tick of an axis. */
typedef struct
{
  gdouble value;
  gboolean is_major, has_label;
} Tick;

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
  chart_line_add_spread (line, x, y, y, y);
}

void
chart_line_add_spread (ChartLine *line, gdouble x, gdouble y, gdouble low, gdouble high)
{
  ChartPoint point = { x, y, low, high };

  g_assert (low <= y && y <= high);
  g_array_append_val (line->points, point);
}

/* Functions that append elements of SVG */

static void
append_text (GString *svg, const gchar *text)
{
  g_autofree gchar *printable = text_make_printable (text, -1);
  g_autofree gchar *escaped = g_markup_escape_text (printable, -1);

  g_string_append (svg, escaped);
}

/* Appends @before and a number.  Writes a decimal point in every locale. */
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

/* Functions that choose, place and draw axes */

static gdouble
axis_place (const Axis *axis, gdouble value)
{
  gdouble share = axis->base != 0 ? log (value / axis->min) / log (axis->max / axis->min)
                                  : (value - axis->min) / (axis->max - axis->min);

  return axis->first + axis->inset + share * (axis->last - axis->first - 2 * axis->inset);
}

/* Chooses the distance between two ticks of a linear axis: 1, 2 or 5 times a power of ten. */
static gdouble
choose_step (gdouble range)
{
  gdouble power = pow (10, floor (log10 (range / 4)));
  gdouble factor = range / 4 / power;

  return power * (factor < 2 ? 1 : factor < 5 ? 2 : 5);
}

/* Rounds a value down.  The result is a power of two if @base is 2.  Otherwise it is 1, 2 or 5
 * times a power of ten. */
static gdouble
round_down (gdouble value, guint base)
{
  gdouble power = pow (base, floor (log (value) / log (base) + 1e-9));
  gdouble factor = value / power * (1 + 1e-9);

  if (base == 2)
    return power;
  return power * (factor < 2 ? 1 : factor < 5 ? 2 : 5);
}

static gdouble
round_up (gdouble value, guint base)
{
  gdouble down = round_down (value, base);
  gdouble step = base == 2 || round_down (down * 2, base) > down * 1.5 ? 2 : 2.5;

  return value <= down * (1 + 1e-9) ? down : down * step;
}

/* Extends an axis, so that it begins and ends at a tick. */
static void
axis_round (Axis *axis)
{
  gdouble step;

  if (axis->base != 0)
    {
      axis->min = round_down (axis->min, axis->base);
      axis->max = MAX (round_up (axis->max, axis->base), axis->min * axis->base);
      return;
    }
  axis->min = 0;
  axis->max = axis->max > 0 ? axis->max : 1;
  step = choose_step (axis->max);
  axis->max = ceil (axis->max / step - 1e-9) * step;
}

static Axis
axis_of (const Chart *chart, gboolean is_x)
{
  Axis axis = { .min = INFINITY, .base = chart->is_logarithmic ? (is_x ? 2 : 10) : 0 };

  for (guint i = 0; i < chart->lines->len; i++)
    {
      const GArray *points = ((const ChartLine *) g_ptr_array_index (chart->lines, i))->points;

      for (guint j = 0; j < points->len; j++)
        {
          const ChartPoint *point = &g_array_index (points, ChartPoint, j);

          axis.min = MIN (axis.min, is_x ? point->x : point->low);
          axis.max = MAX (axis.max, is_x ? point->x : point->high);
        }
    }
  axis_round (&axis);
  g_assert (axis.min < axis.max);
  return axis;
}

/* Tells whether the ticks at @factor (1 to 9) times each power of ten get labels.  The ticks of
 * factor 1 always do.  Those of 2 and 5 do if there is room for labels at 1, 2 and 5; all others do
 * if there is room for labels at each factor. */
static gboolean
has_room (const Axis *axis, guint factor)
{
  gdouble decade = fabs (axis->last - axis->first) / log10 (axis->max / axis->min);

  if (factor == 1 || decade * log10 (10.0 / 9) >= LABEL)
    return TRUE;
  return (factor == 2 || factor == 5) && decade * log10 (2) >= LABEL;
}

/* Adds ticks at 1 to 9 times each power of ten. */
static guint
ticks_of_decades (const Axis *axis, Tick *ticks)
{
  gdouble power = pow (10, floor (log10 (axis->min) + 1e-9));
  guint n = 0, factor = 1;

  for (; power * factor <= axis->max * (1 + 1e-9) && n < MAX_TICKS; factor = factor % 9 + 1)
    {
      if (power * factor >= axis->min * (1 - 1e-9))
        ticks[n++] = (Tick){ power * factor, factor == 1, has_room (axis, factor) };
      if (factor == 9)
        power *= 10;
    }
  return n;
}

static guint
axis_ticks (const Axis *axis, Tick *ticks)
{
  gdouble step = axis->base != 0 ? axis->base : choose_step (axis->max - axis->min);
  guint n = 0;

  if (axis->base == 10)
    return ticks_of_decades (axis, ticks);
  for (gdouble value = axis->min; value <= axis->max * (1 + 1e-9) && n < MAX_TICKS;
       value = axis->base != 0 ? value * step : value + step)
    ticks[n++] = (Tick){ value, TRUE, TRUE };
  return n;
}

static void
append_ticks (GString *svg, const Axis *x, const Axis *y, gboolean is_x)
{
  const Axis *axis = is_x ? x : y;
  Tick ticks[MAX_TICKS];
  guint n = axis_ticks (axis, ticks);

  for (guint i = 0; i < n; i++)
    {
      gdouble place = axis_place (axis, ticks[i].value);
      gchar text[G_ASCII_DTOSTR_BUF_SIZE];

      append_line (svg, ticks[i].is_major ? "grid" : "minor", is_x ? place : x->first,
                   is_x ? y->first : place, is_x ? place : x->last, is_x ? y->last : place);
      if (!ticks[i].has_label)
        continue;
      g_ascii_formatd (text, sizeof text, "%.10g", ticks[i].value);
      if (is_x)
        append_label (svg, place, y->first + 20, "text-anchor=\"middle\"", text);
      else
        append_label (svg, x->first - 8, place + 4, "text-anchor=\"end\"", text);
    }
}

static void
append_axes (GString *svg, const Chart *chart, const Axis *x, const Axis *y)
{
  g_autofree gchar *turn = g_strdup_printf (
      "text-anchor=\"middle\" transform=\"rotate(-90 20 %d)\"", (gint) (y->first + y->last) / 2);

  append_ticks (svg, x, y, TRUE);
  append_ticks (svg, x, y, FALSE);
  append_line (svg, "axis", x->first, y->first, x->last, y->first);
  append_line (svg, "axis", x->first, y->first, x->first, y->last);
  append_label (svg, (x->first + x->last) / 2, y->first + 42, "text-anchor=\"middle\"",
                chart->x_label);
  append_label (svg, 20, (gint) (y->first + y->last) / 2, turn, chart->y_label);
}

/* Functions that draw lines and charts */

/* Returns the x coordinate, in pixels, at which a point of the chart's line @index is drawn.  If
 * the chart has marks, shifts each line by its own distance.  So the marks that several lines have
 * for the same x stand side by side. */
static gdouble
point_place (const Chart *chart, guint index, const ChartPoint *point, const Axis *x)
{
  gdouble shift = (index - (chart->lines->len - 1) / 2.0) * DODGE;

  return axis_place (x, point->x) + (chart->has_marks ? shift : 0);
}

/* Appends a point's mark, and a vertical bar from point->low to point->high. */
static void
append_mark (GString *svg, const ChartPoint *point, gdouble place, const gchar *color,
             const Axis *y)
{
  gdouble low = axis_place (y, point->low), high = axis_place (y, point->high);

  g_string_append_printf (svg, "<g stroke=\"%s\">\n", color);
  append_line (svg, "spread", place, low, place, high);
  append_line (svg, "spread", place - CAP, low, place + CAP, low);
  append_line (svg, "spread", place - CAP, high, place + CAP, high);
  append_number (svg, "</g>\n<circle r=\"3.5\" cx=\"", place);
  append_number (svg, "\" cy=\"", axis_place (y, point->y));
  g_string_append_printf (svg, "\" fill=\"%s\"/>\n", color);
}

static void
append_points (GString *svg, const Chart *chart, guint index, const Axis *x, const Axis *y)
{
  const GArray *points = ((const ChartLine *) g_ptr_array_index (chart->lines, index))->points;

  for (guint i = 0; i < points->len; i++)
    {
      const ChartPoint *point = &g_array_index (points, ChartPoint, i);
      gdouble place = point_place (chart, index, point, x);

      append_number (svg, i > 0 ? " " : "", place);
      if (chart->is_stepped && i > 0)
        {
          append_number (svg, ",", axis_place (y, point[-1].y));
          append_number (svg, " ", place);
        }
      append_number (svg, ",", axis_place (y, point->y));
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
  append_points (svg, chart, index, x, y);
  g_string_append (svg, "\"/>\n");
  for (guint i = 0; i < line->points->len && chart->has_marks; i++)
    {
      const ChartPoint *point = &g_array_index (line->points, ChartPoint, i);

      append_mark (svg, point, point_place (chart, index, point, x), color, y);
    }
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
  x.inset = chart->has_marks ? INSET : 0;
  y.first = top + HEIGHT - BOTTOM;
  y.last = top + TOP;
  append_label (svg, LEFT, top + 24, "class=\"title\"", chart->title);
  append_axes (svg, chart, &x, &y);
  for (guint i = 0; i < chart->lines->len; i++)
    append_chart_line (svg, chart, i, &x, &y);
}

static void
append_caption (GString *svg, const gchar *caption, guint top)
{
  g_auto (GStrv) lines = g_strsplit (caption, "\n", -1);

  for (guint i = 0; lines[i] != NULL; i++)
    append_label (svg, LEFT, top + (i + 1) * CAPTION_STEP, "class=\"caption\"", lines[i]);
}

gchar *
charts_format (const GPtrArray *charts, const gchar *caption)
{
  GString *svg = g_string_new (NULL);
  guint height = MAX (charts->len, 1) * HEIGHT;

  g_string_append_printf (svg,
                          "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" "
                          "viewBox=\"0 0 %d %u\">\n%s",
                          WIDTH, height + CAPTION, WIDTH, height + CAPTION, style);
  if (charts->len == 0)
    append_label (svg, LEFT, TOP, "class=\"title\"", "No measurement can be drawn");
  for (guint i = 0; i < charts->len; i++)
    append_chart (svg, g_ptr_array_index (charts, i), i * HEIGHT);
  append_caption (svg, caption, height);
  g_string_append (svg, "</svg>\n");
  return g_string_free (svg, FALSE);
}
