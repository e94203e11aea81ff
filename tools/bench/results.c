/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Stores results. */

#include "results.h"

#include <math.h>

static void
result_free (gpointer data)
{
  Result *result = data;

  g_free (result->device);
  g_free (result->name);
  g_free (result->parameter);
  g_free (result->error);
  g_free (result);
}

static void
trace_result_free (gpointer data)
{
  TraceResult *trace = data;

  g_free (trace->device);
  g_free (trace->name);
  g_array_unref (trace->points);
  g_free (trace);
}

Results *
results_new (void)
{
  Results *results = g_new0 (Results, 1);

  results->rows = g_ptr_array_new_with_free_func (result_free);
  results->traces = g_ptr_array_new_with_free_func (trace_result_free);
  results->tables = g_ptr_array_new_with_free_func ((GDestroyNotify) what_if_free);
  return results;
}

void
results_free (Results *results)
{
  g_ptr_array_unref (results->rows);
  g_ptr_array_unref (results->traces);
  g_ptr_array_unref (results->tables);
  g_free (results);
}

static Result *
add_row (Results *results, const Kind *kind, const Device *device)
{
  Result *result = g_new0 (Result, 1);

  result->device = g_strdup (device != NULL ? device->place : "none");
  result->name = device != NULL ? g_strdup (device->name) : NULL;
  result->kind = kind->name;
  result->ratio = result->gain = result->yardstick_gain = result->hit_share = NAN;
  g_ptr_array_add (results->rows, result);
  return result;
}

Result *
results_add (Results *results, const Source *source, const gchar *measure, guint threads,
             gchar *parameter, const gchar *unit)
{
  Result *result = add_row (results, source->kind, source->device);

  result->measure = measure;
  result->threads = threads;
  result->parameter = parameter;
  result->unit = unit;
  return result;
}

void
results_add_failure (Results *results, const Kind *kind, const Device *device, GError *error)
{
  Result *result = add_row (results, kind, device);

  result->measure = "all";
  result->unit = "";
  result->parameter = g_strdup ("");
  result_fail (result, error);
}

TraceResult *
results_add_trace (Results *results, const Source *source, const gchar *name)
{
  TraceResult *trace = g_new0 (TraceResult, 1);

  trace->device = g_strdup (source_get_place (source));
  trace->kind = source->kind->name;
  trace->name = g_strdup (name);
  trace->points = g_array_new (FALSE, FALSE, sizeof (TracePoint));
  g_ptr_array_add (results->traces, trace);
  return trace;
}

void
result_set (Result *result, Spread value)
{
  g_assert (!result->has_value && result->error == NULL);
  result->has_value = TRUE;
  result->value = value;
}

void
result_set_beside (Result *result, gdouble *values, gdouble *yardsticks, guint n)
{
  g_autofree gdouble *ratios = g_new (gdouble, n);

  for (guint i = 0; i < n; i++)
    ratios[i] = yardsticks[i] > 0 ? values[i] / yardsticks[i] : (gdouble) INFINITY;
  result->ratio = spread_of (ratios, n).median;
  result_set (result, spread_of (values, n));
  result->has_yardstick = TRUE;
  result->yardstick = spread_of (yardsticks, n);
}

void
result_fail (Result *result, GError *error)
{
  g_assert (!result->has_value && result->error == NULL);
  result->error = g_strdup (error->message);
  result->is_unsupported = g_error_matches (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
  g_error_free (error);
}

/* Finds the row that was measured like @result, but with one thread.  The gain of @result is
 * relative to this row.  Returns NULL if there is none. */
static const Result *
find_single (const Results *results, const Result *result)
{
  for (guint i = 0; i < results->rows->len; i++)
    {
      const Result *row = g_ptr_array_index (results->rows, i);

      if (row->threads == 1 && row->has_yardstick && row->kind == result->kind
          && row->measure == result->measure && g_str_equal (row->device, result->device)
          && g_str_equal (row->parameter, result->parameter))
        return row;
    }
  return NULL;
}

void
results_compute_gains (Results *results)
{
  for (guint i = 0; i < results->rows->len; i++)
    {
      Result *row = g_ptr_array_index (results->rows, i);
      const Result *single;

      if (!row->has_yardstick || row->threads < 2 || (single = find_single (results, row)) == NULL)
        continue;
      row->gain = row->threads * single->value.median / row->value.median;
      row->yardstick_gain = row->threads * single->yardstick.median / row->yardstick.median;
    }
}

gboolean
results_have_errors (const Results *results)
{
  for (guint i = 0; i < results->rows->len; i++)
    {
      const Result *row = g_ptr_array_index (results->rows, i);

      if (row->error != NULL && !row->is_unsupported)
        return TRUE;
    }
  for (guint i = 0; i < results->tables->len; i++)
    if (what_if_has_errors (results->tables->pdata[i]))
      return TRUE;
  return FALSE;
}
