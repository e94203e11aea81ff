/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Prints JSON, row by row, so that results appear as soon as they are known. */

#include <config.h>

#include <json-glib/json-glib.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "print.h"

static void
build_string (JsonBuilder *builder, const gchar *key, const gchar *value /* nullable */)
{
  json_builder_set_member_name (builder, key);
  if (value == NULL)
    json_builder_add_null_value (builder);
  else
    {
      g_autofree gchar *valid = g_utf8_make_valid (value, -1);

      json_builder_add_string_value (builder, valid);
    }
}

static void
build_number (JsonBuilder *builder, const gchar *key, gdouble value)
{
  json_builder_set_member_name (builder, key);
  if (isfinite (value))
    json_builder_add_double_value (builder, value);
  else
    json_builder_add_null_value (builder);
}

static void
build_integer (JsonBuilder *builder, const gchar *key, guint64 value)
{
  json_builder_set_member_name (builder, key);
  json_builder_add_int_value (builder, (gint64) MIN (value, G_MAXINT64));
}

static void
build_row (JsonBuilder *builder, const Result *row)
{
  const Spread none = { NAN, NAN, NAN };
  const Spread *value = row->has_value ? &row->value : &none;
  const Spread *yardstick = row->has_yardstick ? &row->yardstick : &none;

  json_builder_begin_object (builder);
  build_string (builder, "device", row->device);
  build_string (builder, "name", row->name);
  build_string (builder, "kind", row->kind);
  build_string (builder, "measure", row->measure);
  build_integer (builder, "threads", row->threads);
  build_string (builder, "parameter", row->parameter);
  build_string (builder, "unit", row->unit);
  build_number (builder, "median", value->median);
  build_number (builder, "min", value->min);
  build_number (builder, "max", value->max);
  build_number (builder, "malloc_median", yardstick->median);
  build_number (builder, "malloc_min", yardstick->min);
  build_number (builder, "malloc_max", yardstick->max);
  build_number (builder, "ratio", row->ratio);
  build_number (builder, "gain", row->gain);
  build_number (builder, "malloc_gain", row->yardstick_gain);
  build_number (builder, "hit_share", row->hit_share);
  build_string (builder, "error", row->error);
  json_builder_end_object (builder);
}

static void
build_trace (JsonBuilder *builder, const TraceResult *trace)
{
  json_builder_begin_object (builder);
  build_string (builder, "device", trace->device);
  build_string (builder, "kind", trace->kind);
  build_string (builder, "name", trace->name);
  build_integer (builder, "allocations", trace->n_allocations);
  build_integer (builder, "peak_managed_bytes", trace->peak_managed);
  build_integer (builder, "peak_active_bytes", trace->peak_active);
  json_builder_end_object (builder);
}

static void
build_what_if_row (JsonBuilder *builder, const WhatIfRow *row)
{
  const Spread none = { NAN, NAN, NAN };
  const Spread *ns = row->has_time ? &row->ns : &none;

  json_builder_begin_object (builder);
  build_string (builder, "alternative", row->label);
  build_integer (builder, "peak_managed_bytes", row->peak_managed);
  build_integer (builder, "peak_active_bytes", row->peak_active);
  build_number (builder, "ratio", row->ratio);
  build_number (builder, "idle_share", row->idle_share);
  build_number (builder, "hit_share", row->hit_share);
  build_integer (builder, "calls", row->calls);
  build_integer (builder, "failures", row->failures);
  build_number (builder, "ns", ns->median);
  build_number (builder, "ns_min", ns->min);
  build_number (builder, "ns_max", ns->max);
  build_string (builder, "error", row->error);
  json_builder_end_object (builder);
}

static void
build_difference (JsonBuilder *builder, const Difference *difference)
{
  json_builder_begin_object (builder);
  build_string (builder, "object", difference->object);
  build_string (builder, "counter", difference->counter);
  build_integer (builder, "recorded", difference->recorded);
  build_integer (builder, "replayed", difference->replayed);
  json_builder_end_object (builder);
}

static void
begin_array (JsonBuilder *builder, const gchar *key)
{
  json_builder_set_member_name (builder, key);
  json_builder_begin_array (builder);
}

static void
build_what_if (JsonBuilder *builder, const WhatIf *table)
{
  json_builder_begin_object (builder);
  build_string (builder, "device", table->device);
  build_string (builder, "name", table->name);
  build_string (builder, "kind", table->kind);
  build_string (builder, "recording", table->recording);
  build_integer (builder, "threads", table->n_threads);
  build_integer (builder, "steps", table->n_steps);
  begin_array (builder, "alternatives");
  for (guint i = 0; i < table->rows->len; i++)
    build_what_if_row (builder, table->rows->pdata[i]);
  json_builder_end_array (builder);
  build_integer (builder, "compared", table->n_compared);
  begin_array (builder, "differences");
  for (guint i = 0; i < table->differences->len; i++)
    build_difference (builder, table->differences->pdata[i]);
  json_builder_end_array (builder);
  begin_array (builder, "notes");
  for (guint i = 0; i < table->notes->len; i++)
    json_builder_add_string_value (builder, table->notes->pdata[i]);
  json_builder_end_array (builder);
  json_builder_end_object (builder);
}

/* Returns the JSON text of the builder's object, without a newline at its end. */
static gchar *
format_object (JsonBuilder *builder)
{
  g_autoptr (JsonGenerator) generator = json_generator_new ();
  g_autoptr (JsonNode) root = json_builder_get_root (builder);

  json_generator_set_root (generator, root);
  json_generator_set_pretty (generator, TRUE);
  return json_generator_to_data (generator, NULL);
}

/* Prints the builder's object as an element of one of the document's arrays, indented by two
 * levels. */
static void
print_element (JsonBuilder *builder, gboolean is_first)
{
  g_autofree gchar *text = format_object (builder);
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  g_autofree gchar *indented = g_strjoinv ("\n    ", lines);

  printf ("%s\n    %s", is_first ? "" : ",", indented);
}

/* Begins the document.  Leaves the outermost object and the array of results open, because
 * print_row () adds elements to the array. */
static void
begin (const PrintHead *head)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autofree gchar *text = NULL;

  json_builder_begin_object (builder);
  build_string (builder, "tarn", PACKAGE_VERSION);
  build_integer (builder, "processors", g_get_num_processors ());
  build_number (builder, "seconds", head->seconds);
  build_integer (builder, "repetitions", head->n_repetitions);
  json_builder_set_member_name (builder, "queues");
  json_builder_add_boolean_value (builder, head->has_queues);
  json_builder_end_object (builder);
  text = format_object (builder);
  *strrchr (text, '\n') = '\0';
  printf ("%s,\n  \"results\" : [", text);
}

static void
print_row (const PrintHead *head, const Result *row, const Result *last)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();

  (void) head;
  build_row (builder, row);
  print_element (builder, last == NULL);
}

/* Prints nothing: tables are printed at the end. */
static void
skip_table (const PrintHead *head, const WhatIf *table, gboolean is_first)
{
  (void) head;
  (void) table;
  (void) is_first;
}

static void
end (const PrintHead *head, const Results *results)
{
  (void) head;
  printf ("\n  ],\n  \"traces\" : [");
  for (guint i = 0; i < results->traces->len; i++)
    {
      g_autoptr (JsonBuilder) builder = json_builder_new ();

      build_trace (builder, g_ptr_array_index (results->traces, i));
      print_element (builder, i == 0);
    }
  printf ("\n  ],\n  \"what_if\" : [");
  for (guint i = 0; i < results->tables->len; i++)
    {
      g_autoptr (JsonBuilder) builder = json_builder_new ();

      build_what_if (builder, results->tables->pdata[i]);
      print_element (builder, i == 0);
    }
  printf ("\n  ]\n}\n");
}

const Printer json_printer = { begin, print_row, skip_table, end };
