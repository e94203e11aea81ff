/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads TAP line by line, as it comes.  Drivers print to the standard output of test programs, too,
 * so lines that are not TAP are kept as text.  Indented lines belong to a program's own subtests;
 * the program prints their result as a point. */

#include "tap.h"

#include <string.h>

#include "text.h"

static void
line_free (gpointer data)
{
  TapLine *line = data;

  if (line->point != NULL)
    {
      g_free (line->point->description);
      g_free (line->point->directive);
    }
  g_free (line->point);
  g_free (line->text);
  g_free (line);
}

Tap *
tap_new (void)
{
  Tap *tap = g_new0 (Tap, 1);

  tap->lines = g_ptr_array_new_with_free_func (line_free);
  tap->pending = g_string_new (NULL);
  return tap;
}

void
tap_free (Tap *tap)
{
  g_ptr_array_unref (tap->lines);
  g_string_free (tap->pending, TRUE);
  g_free (tap->skip_reason);
  g_free (tap->bail_out);
  g_free (tap->broken);
  g_free (tap);
}

gchar *
tap_escape (const gchar *text)
{
  g_autofree gchar *printable = text_make_printable (text, -1);
  g_auto (GStrv) parts = g_strsplit (g_strdelimit (printable, "\n", ' '), "#", -1);

  return g_strjoinv ("\\#", parts);
}

static void
add_text (Tap *tap, const gchar *text)
{
  TapLine *line = g_new0 (TapLine, 1);

  line->text = g_strdup (text);
  g_ptr_array_add (tap->lines, line);
}

/* Notes an error in the TAP that was read.  Keeps only the first error. */
static void G_GNUC_PRINTF (2, 3) set_broken (Tap *tap, const gchar *format, ...)
{
  va_list args;

  if (tap->broken != NULL)
    return;
  va_start (args, format);
  tap->broken = g_strdup_vprintf (format, args);
  va_end (args);
}

void
tap_add_point (Tap *tap, gboolean is_ok, gchar *description, gchar *directive, gdouble seconds)
{
  TapLine *line = g_new0 (TapLine, 1);
  TapPoint *point = line->point = g_new0 (TapPoint, 1);

  point->is_ok = is_ok;
  point->result = is_ok ? TAP_PASSED : TAP_FAILED;
  if (directive != NULL)
    point->result = g_ascii_strncasecmp (directive, "todo", 4) == 0 ? TAP_PASSED : TAP_SKIPPED;
  /* "not ok # SKIP" has no meaning.  It counts as a failure, so that no failure is lost. */
  if (point->result == TAP_SKIPPED && !is_ok)
    point->result = TAP_FAILED;
  point->description = description;
  point->directive = directive;
  point->seconds = seconds - tap->seconds;
  tap->seconds = seconds;
  tap->last = point;
  tap->n_points++;
  tap->n[point->result]++;
  g_assert (tap->n_points == tap->n[TAP_PASSED] + tap->n[TAP_FAILED] + tap->n[TAP_SKIPPED]);
  g_ptr_array_add (tap->lines, line);
}

/* Matches a regular expression, which is compiled on the first call. */
static gboolean
matches (GRegex **regex, const gchar *pattern, const gchar *text, GMatchInfo **match)
{
  if (*regex == NULL)
    *regex = g_regex_new (pattern, G_REGEX_OPTIMIZE | G_REGEX_DOTALL | G_REGEX_DOLLAR_ENDONLY, 0,
                          NULL);
  return g_regex_match (*regex, text, 0, match);
}

/* Cuts off the directive at the end of @text, and returns it.  Returns NULL if @text has no
 * directive. */
static gchar *
take_directive (gchar *text)
{
  static GRegex *regex;
  g_autoptr (GMatchInfo) match = NULL;
  gint start;
  gchar *directive;

  if (!matches (&regex, "(?i)(?:^|\\s+)#\\s*((?:skip\\w*|todo\\b).*)$", text, &match))
    return NULL;
  g_match_info_fetch_pos (match, 0, &start, NULL);
  directive = g_match_info_fetch (match, 1);
  text[start] = '\0';
  return g_strchomp (directive);
}

/* Reads a number.  A number that does not fit becomes G_MAXUINT. */
static guint
to_number (const gchar *digits)
{
  return (guint) MIN (g_ascii_strtoull (digits, NULL, 10), G_MAXUINT);
}

/* Reads a point, "ok 1 - description # SKIP reason", in which all but "ok" may be missing.  Returns
 * FALSE if the line is no point. */
static gboolean
read_point (Tap *tap, const gchar *line, gdouble seconds)
{
  static GRegex *regex;
  g_autoptr (GMatchInfo) match = NULL;
  g_autofree gchar *is_not = NULL;
  g_autofree gchar *number = NULL;
  gchar *description;
  gchar *directive;

  if (!matches (&regex, "^(not )?ok(?=\\s|$)(?:\\s+(\\d+)\\b)?\\s*(?:-(?=\\s|$))?\\s*(.*)$", line,
                &match))
    return FALSE;
  is_not = g_match_info_fetch (match, 1);
  number = g_match_info_fetch (match, 2);
  if (number[0] != '\0' && to_number (number) != tap->n_points + 1)
    set_broken (tap, "point %s where %u was due", number, tap->n_points + 1);
  description = g_match_info_fetch (match, 3);
  directive = take_directive (description);
  tap_add_point (tap, is_not[0] == '\0', g_strchomp (description), directive, seconds);
  return TRUE;
}

static gboolean
read_plan (Tap *tap, const gchar *line)
{
  static GRegex *regex;
  g_autoptr (GMatchInfo) match = NULL;
  g_autofree gchar *number = NULL;

  if (!matches (&regex, "(?i)^1\\.\\.(\\d+)\\s*(?:#\\s*(?:skip\\w*\\s*)?(.*))?$", line, &match))
    return FALSE;
  if (tap->has_plan)
    set_broken (tap, "a second plan");
  else
    {
      number = g_match_info_fetch (match, 1);
      tap->has_plan = TRUE;
      tap->planned = to_number (number);
      if (tap->planned == 0)
        {
          g_autofree gchar *reason = g_match_info_fetch (match, 2);

          tap->skip_reason = g_strdup (reason != NULL ? reason : "");
        }
    }
  return TRUE;
}

static gboolean
read_bail_out (Tap *tap, const gchar *line)
{
  if (!g_str_has_prefix (line, "Bail out!"))
    return FALSE;
  if (tap->bail_out == NULL)
    tap->bail_out = g_strstrip (g_strdup (line + strlen ("Bail out!")));
  return TRUE;
}

static void
read_line (Tap *tap, gdouble seconds)
{
  gsize length = tap->pending->len;
  gboolean has_return = length > 0 && tap->pending->str[length - 1] == '\r';
  g_autofree gchar *line = text_make_printable (tap->pending->str, (gssize) (length - has_return));

  g_string_truncate (tap->pending, 0);
  if (read_point (tap, line, seconds) || read_plan (tap, line)
      || g_str_has_prefix (line, "TAP version "))
    return;
  read_bail_out (tap, line);
  add_text (tap, g_str_has_prefix (line, "# ") ? line + 2 : line);
}

void
tap_feed (Tap *tap, const gchar *bytes, gsize length, gdouble seconds)
{
  const gchar *end;

  for (; (end = memchr (bytes, '\n', length)) != NULL; bytes = end + 1)
    {
      gsize n = (gsize) (end - bytes);

      g_string_append_len (tap->pending, bytes, (gssize) n);
      read_line (tap, seconds);
      length -= n + 1;
    }
  g_string_append_len (tap->pending, bytes, (gssize) length);
}

gchar *
tap_end (Tap *tap, gdouble seconds)
{
  if (tap->pending->len > 0)
    read_line (tap, seconds);
  if (tap->broken != NULL)
    return g_strdup (tap->broken);
  if (!tap->has_plan)
    return g_strdup ("no plan");
  if (tap->planned != tap->n_points)
    return g_strdup_printf ("planned %u points, printed %u", tap->planned, tap->n_points);
  return NULL;
}
