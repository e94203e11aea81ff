/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Prints TAP version 13, which every version of prove reads.  The points of a run (its lines "ok"
 * and "not ok") are indented.  Readers of version 13 skip indented points; readers of version 14
 * read them as a subtest. */

#include "report.h"

#include <stdio.h>
#include <string.h>

#include "text.h"

#define INDENT "    "

void
report_begin (Report *report)
{
  (void) report;
  printf ("TAP version 13\n");
}

static void
print_point (const Report *report, const gchar *indent, gboolean is_ok, guint number,
             const gchar *prefix, const gchar *description, const gchar *directive)
{
  gboolean is_expected = directive != NULL && g_ascii_strncasecmp (directive, "todo", 4) == 0;
  gboolean is_red = report->has_color && !is_ok && !is_expected;

  printf ("%s%s%s %u%s%s%s%s%s%s\n", indent, is_red ? "\033[31m" : "", is_ok ? "ok" : "not ok",
          number, prefix[0] != '\0' || description[0] != '\0' ? " - " : "", prefix, description,
          directive != NULL ? " # " : "", directive != NULL ? directive : "",
          is_red ? "\033[0m" : "");
}

static void
print_comment (const gchar *indent, const gchar *text)
{
  printf ("%s#%s%s\n", indent, text[0] != '\0' ? " " : "", text);
}

static void
print_errors (const gchar *indent, const Run *run)
{
  g_autofree gchar *text = text_make_printable (run->errors->str, (gssize) run->errors->len);
  g_auto (GStrv) lines = g_strsplit (g_strchomp (text), "\n", -1);

  for (gsize i = 0; lines[i] != NULL; i++)
    print_comment (indent, lines[i]);
}

static void
print_lines (Report *report, const Run *run)
{
  const gchar *indent = report->is_flat ? "" : INDENT;
  g_autofree gchar *name = tap_escape (run->name);
  g_autofree gchar *prefix = report->is_flat ? g_strconcat (name, ": ", NULL) : g_strdup ("");
  gboolean shows_all = report->is_verbose || run_has_failed (run);
  guint n = 0;

  for (guint i = 0; i < run->tap->lines->len; i++)
    {
      const TapLine *line = g_ptr_array_index (run->tap->lines, i);
      const TapPoint *point = line->point;

      n += point != NULL;
      /* A point about the run itself, such as a crash, is the run's last line.  Standard error
       * comes before it. */
      if (shows_all && i + 1 == run->tap->lines->len && run->errors->len > 0)
        print_errors (indent, run);
      if (point == NULL && shows_all)
        print_comment (indent, line->text);
      else if (point != NULL)
        print_point (report, indent, point->is_ok, report->is_flat ? ++report->n_top : n,
                     /* a point about the run itself begins with the run's name already */
                     g_str_has_prefix (point->description, name) ? "" : prefix, point->description,
                     point->directive);
    }
}

void
report_run (Report *report, const Run *run)
{
  const Tap *tap = run->tap;
  const gchar *reason = run_get_skip_reason (run);
  g_autofree gchar *name = tap_escape (run->name);
  g_autofree gchar *skip = reason != NULL ? g_strchomp (g_strconcat ("SKIP ", reason, NULL)) : NULL;
  g_autofree gchar *device
      = run->device != NULL ? text_make_printable (run->device->name, -1) : NULL;

  if (!report->is_flat && device != NULL)
    printf ("# Subtest: %s (%s)\n", name, device);
  if (report->is_flat || device != NULL)
    print_lines (report, run);
  if (!report->is_flat)
    {
      if (device != NULL)
        printf (INDENT "1..%u\n", tap->n_points);
      print_point (report, "", !run_has_failed (run), ++report->n_top, "", name, skip);
    }
  for (guint i = 0; i < G_N_ELEMENTS (report->n); i++)
    report->n[i] += tap->n[i];
  fflush (stdout);
}

void
report_end (Report *report)
{
  printf ("1..%u\n", report->n_top);
  printf ("%u passed, %u failed, %u skipped\n", report->n[TAP_PASSED], report->n[TAP_FAILED],
          report->n[TAP_SKIPPED]);
  fflush (stdout);
}
