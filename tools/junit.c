/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Writes JUnit XML.  Elements and attributes, and their order, are valid by two schemas: that of
 * Ant's task and that of Jenkins' plug-in. */

#include "junit.h"

#include <string.h>

#include "text.h"

/* Escapes text for an element or an attribute.  Also escapes newlines, because XML readers turn
 * unescaped newlines of attributes into blanks. */
static gchar *
escape (const gchar *text, gssize length, gboolean is_attribute)
{
  g_autofree gchar *printable = text_make_printable (text, length);
  g_autofree gchar *escaped = g_markup_escape_text (printable, -1);
  g_auto (GStrv) lines = NULL;

  if (!is_attribute)
    return g_steal_pointer (&escaped);
  lines = g_strsplit (escaped, "\n", -1);
  return g_strjoinv ("&#10;", lines);
}

static void
append_attribute (GString *xml, const gchar *name, const gchar *value)
{
  g_autofree gchar *escaped = escape (value, -1, TRUE);

  g_string_append_printf (xml, " %s=\"%s\"", name, escaped);
}

static void
append_number (GString *xml, const gchar *name, guint value)
{
  g_string_append_printf (xml, " %s=\"%u\"", name, value);
}

/* Appends seconds with a point in every locale. */
static void
append_seconds (GString *xml, gdouble seconds)
{
  gchar text[G_ASCII_DTOSTR_BUF_SIZE];

  append_attribute (xml, "time", g_ascii_formatd (text, sizeof text, "%.3f", seconds));
}

static void
append_element (GString *xml, const gchar *name, const gchar *text, gsize length)
{
  g_autofree gchar *escaped = escape (text, (gssize) length, FALSE);

  g_string_append_printf (xml, "    <%s>%s</%s>\n", name, escaped, name);
}

/* Gets the reason of a directive, without the word "SKIP" or "TODO". */
static const gchar *
directive_reason (const gchar *directive)
{
  const gchar *reason = directive + strcspn (directive, " ");

  return reason + strspn (reason, " ");
}

static void
append_point (GString *xml, const Run *run, const TapPoint *point, guint number, gboolean is_run)
{
  g_autofree gchar *unnamed = g_strdup_printf ("test %u", number);

  g_string_append (xml, "    <testcase");
  append_attribute (xml, "classname", run->name);
  append_attribute (xml, "name", point->description[0] != '\0' ? point->description : unnamed);
  append_seconds (xml, point->seconds);
  if (point->result == TAP_PASSED)
    {
      g_string_append (xml, "/>\n");
      return;
    }
  g_string_append (xml, ">\n      ");
  g_string_append (xml, point->result == TAP_FAILED ? "<failure" : "<skipped");
  if (point->result == TAP_FAILED)
    append_attribute (xml, "type", is_run ? "run" : "not ok");
  append_attribute (xml, "message",
                    point->result == TAP_SKIPPED && point->directive != NULL
                        ? directive_reason (point->directive)
                        : (is_run ? run->problem : point->description));
  g_string_append (xml, "/>\n    </testcase>\n");
}

static void
append_output (GString *xml, const Run *run)
{
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = 0; i < run->tap->lines->len; i++)
    {
      const TapLine *line = g_ptr_array_index (run->tap->lines, i);

      if (line->text != NULL)
        g_string_append_printf (text, "%s\n", line->text);
    }
  append_element (xml, "system-out", text->str, text->len);
  append_element (xml, "system-err", run->errors->str, run->errors->len);
}

static void
append_run (GString *xml, const Run *run, guint id)
{
  g_autofree gchar *timestamp = g_date_time_format (run->start, "%Y-%m-%dT%H:%M:%S");
  const Tap *tap = run->tap;
  guint n = 0;

  g_string_append (xml, "  <testsuite");
  append_attribute (xml, "package", "tarn-test");
  append_number (xml, "id", id);
  append_attribute (xml, "name", run->name);
  append_attribute (xml, "timestamp", timestamp);
  append_attribute (xml, "hostname", g_get_host_name ());
  append_number (xml, "tests", tap->n_points);
  append_number (xml, "failures", tap->n[TAP_FAILED]);
  append_number (xml, "errors", 0);
  append_number (xml, "skipped", tap->n[TAP_SKIPPED]);
  append_seconds (xml, run->seconds);
  g_string_append (xml, ">\n    <properties>\n");
  if (run->device != NULL)
    {
      g_string_append (xml, "      <property name=\"device\"");
      append_attribute (xml, "value", run->device->name);
      g_string_append (xml, "/>\n");
    }
  g_string_append (xml, "    </properties>\n");
  for (guint i = 0; i < tap->lines->len; i++)
    {
      const TapLine *line = g_ptr_array_index (tap->lines, i);

      if (line->point != NULL)
        append_point (xml, run, line->point, ++n, run->problem != NULL && line->point == tap->last);
    }
  append_output (xml, run);
  g_string_append (xml, "  </testsuite>\n");
}

gchar *
junit_format (const GPtrArray *runs)
{
  GString *xml = g_string_new ("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");

  for (guint i = 0; i < runs->len; i++)
    append_run (xml, g_ptr_array_index (runs, i), i);
  g_string_append (xml, "</testsuites>\n");
  return g_string_free (xml, FALSE);
}
