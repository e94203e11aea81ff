/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Makes charts of results. */

#include <config.h>

#include "plot.h"

#include "chart.h"
#include "machine.h"

/* Tells whether a row is drawn as a cost.  Costs are rows that have a yardstick, except replays of
 * traces. */
static gboolean
is_cost (const Result *row)
{
  return row->has_yardstick && !g_str_equal (row->measure, "replay");
}

static ChartLine *
find_line (Chart *chart, const gchar *name)
{
  for (guint i = 0; i < chart->lines->len; i++)
    {
      ChartLine *line = g_ptr_array_index (chart->lines, i);

      if (g_str_equal (line->name, name))
        return line;
    }
  return chart_add_line (chart, name);
}

static gboolean
is_same_source (const Result *left, const Result *right)
{
  return left->kind == right->kind && g_str_equal (left->device, right->device);
}

/* Returns the name of the line to which a row belongs.  The measure "driver" has two lines, one for
 * each choice of block sizes, so their names include row->parameter. */
static gchar *
name_line (const Result *row)
{
  return g_str_equal (row->measure, "driver")
             ? g_strdup_printf ("%s, %s", row->measure, row->parameter)
             : g_strdup (row->measure);
}

/* Adds a cost, at least 0.1 ns: a logarithmic axis has no place for 0. */
static void
add_cost (ChartLine *line, guint threads, const Spread *ns)
{
  chart_line_add_spread (line, threads, MAX (ns->median, 0.1), MAX (ns->min, 0.1),
                         MAX (ns->max, 0.1));
}

/* Adds a line for the yardstick: the cost of malloc (64) and free ().  This cost is the same in all
 * measures, so the line shows the yardstick of only one: the first measure that is not "driver",
 * because "driver" was measured with one thread only. */
static void
add_yardstick (Chart *chart, const GPtrArray *rows, guint first)
{
  const Result *source = g_ptr_array_index (rows, first), *chosen = NULL;
  ChartLine *line = chart_add_line (chart, "malloc (64) + free");

  line->is_yardstick = TRUE;
  for (guint i = first; i < rows->len; i++)
    {
      const Result *row = g_ptr_array_index (rows, i);

      if (!is_cost (row) || !is_same_source (row, source) || g_str_equal (row->measure, "driver"))
        continue;
      chosen = chosen != NULL ? chosen : row;
      if (row->measure == chosen->measure)
        add_cost (line, row->threads, &row->yardstick);
    }
  if (chosen == NULL) /* only the driver was measured */
    add_cost (line, source->threads, &source->yardstick);
}

static Chart *
make_costs (const GPtrArray *rows, guint first)
{
  const Result *source = g_ptr_array_index (rows, first);
  Chart *chart = chart_new (source->name != NULL ? g_strdup_printf ("%s, %s %s", source->kind,
                                                                    source->device, source->name)
                                                 : g_strdup (source->kind),
                            "threads", "a block as a thread sees it (ns)");

  chart->is_logarithmic = chart->has_marks = TRUE;
  for (guint i = first; i < rows->len; i++)
    {
      const Result *row = g_ptr_array_index (rows, i);
      g_autofree gchar *name = name_line (row);

      if (is_cost (row) && is_same_source (row, source))
        add_cost (find_line (chart, name), row->threads, &row->value);
    }
  add_yardstick (chart, rows, first);
  return chart;
}

/* Adds a chart of costs for each kind of memory of each device (a source).  All rows of a source
 * must follow one another in @rows. */
static void
add_costs (GPtrArray *charts, const GPtrArray *rows)
{
  const Result *last = NULL;

  for (guint i = 0; i < rows->len; i++)
    {
      const Result *row = g_ptr_array_index (rows, i);

      if (!is_cost (row) || (last != NULL && is_same_source (row, last)))
        continue;
      g_ptr_array_add (charts, make_costs (rows, i));
      last = row;
    }
}

/* A unit of an axis.  choose_unit () chooses the largest unit in which the greatest value of the
 * axis is at least 2, or else the smallest unit. */
typedef struct
{
  gdouble scale;
  const gchar *label;
} Unit;

static const Unit time_units[]
    = { { 1, "time (ns)" }, { 1e3, "time (us)" }, { 1e6, "time (ms)" }, { 1e9, "time (s)" } };
static const Unit byte_units[] = { { 1, "bytes" },
                                   { 1024, "memory (KiB)" },
                                   { 1024 * 1024, "memory (MiB)" },
                                   { 1024 * 1024 * 1024, "memory (GiB)" } };

static const Unit *
choose_unit (const Unit *units, gsize n, gdouble largest)
{
  gsize i = 0;

  while (i + 1 < n && largest >= 2 * units[i + 1].scale)
    i++;
  return &units[i];
}

static Chart *
make_trace (const TraceResult *trace)
{
  const TracePoint *points = (const TracePoint *) (gconstpointer) trace->points->data;
  const Unit *time
      = choose_unit (time_units, G_N_ELEMENTS (time_units), points[trace->points->len - 1].time);
  const Unit *bytes
      = choose_unit (byte_units, G_N_ELEMENTS (byte_units), (gdouble) trace->peak_managed);
  Chart *chart = chart_new (g_strdup_printf ("trace %s, %s", trace->name, trace->kind), time->label,
                            bytes->label);
  ChartLine *managed = chart_add_line (chart, "managed");
  ChartLine *active = chart_add_line (chart, "active");

  chart->is_stepped = TRUE;
  for (guint i = 0; i < trace->points->len; i++)
    {
      chart_line_add (managed, points[i].time / time->scale, points[i].managed / bytes->scale);
      chart_line_add (active, points[i].time / time->scale, points[i].active / bytes->scale);
    }
  return chart;
}

static gchar *
make_caption (const PrintHead *head)
{
  g_autofree gchar *machine = machine_describe ();
  gchar seconds[G_ASCII_DTOSTR_BUF_SIZE];

  return g_strdup_printf (
      "Tarn %s on %s\n"
      "Medians of %u repetition%s, %s s each; bars: from the least to the greatest",
      PACKAGE_VERSION, machine, head->n_repetitions, head->n_repetitions == 1 ? "" : "s",
      g_ascii_formatd (seconds, sizeof seconds, "%g", head->seconds));
}

gchar *
plot_format (const Results *results, const PrintHead *head)
{
  g_autoptr (GPtrArray) charts = g_ptr_array_new_with_free_func ((GDestroyNotify) chart_free);
  g_autofree gchar *caption = make_caption (head);

  add_costs (charts, results->rows);
  for (guint i = 0; i < results->traces->len; i++)
    g_ptr_array_add (charts, make_trace (g_ptr_array_index (results->traces, i)));
  return charts_format (charts, caption);
}
