/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Splits lines of output into text and numbers, and finds numbers that cannot be compared, such as
 * durations. */

#include "line.h"

#include <math.h>
#include <string.h>

#define DAY 86400.0 /* seconds */

/* Words after a number, in lower case, that make the number a duration or a rate. */
static const gchar *const units[] = {
  "s",           "ms",           "us",         "\xc2\xb5s",   "\xce\xbcs",   "ns",
  "sec",         "secs",         "msec",       "msecs",       "usec",        "usecs",
  "nsec",        "nsecs",        "second",     "seconds",     "millisecond", "milliseconds",
  "microsecond", "microseconds", "nanosecond", "nanoseconds", "minutes",     "hz",
  "khz",         "mhz",          "ghz",        "fps",         "flops",       "mflops",
  "gflops",      "tflops",
};

/* Words that make a number a duration or a rate if they come before the number, and after the
 * previous number of the line. */
static const gchar *const quantities[] = {
  "times",  "timing",    "timings",    "elapsed", "took",    "duration",    "seconds", "latency",
  "sec",    "bandwidth", "throughput", "speed",   "speedup", "flops",       "mflops",  "gflops",
  "tflops", "fps",       "ms",         "us",      "ns",      "performance",
};

/* A line that is being split.
 *
 * Invariant: start <= text <= rest. */
typedef struct
{
  const gchar *start;
  const gchar *rest; /* the part of the line that is not read yet */
  const gchar *text; /* the end of the last number: the text before the next number begins here */
  GString *key, *skeleton;
  GArray *numbers;
} Reader;

static void
clear_number (gpointer data)
{
  g_free (((LineNumber *) data)->text);
}

/* Functions that measure the length of numbers */

static gsize
count_digits (const gchar *text)
{
  return strspn (text, G_CSET_DIGITS);
}

/* Gets the length of a time of day: 12:34, 12:34:56 or 12:34:56.789.  Returns 0 if @text does not
 * begin with one. */
static gsize
measure_clock (const gchar *text)
{
  gsize length = count_digits (text);
  guint n_parts = 1;

  if (length < 1 || length > 2)
    return 0;
  while (n_parts < 3 && text[length] == ':' && count_digits (text + length + 1) == 2)
    {
      length += 3;
      n_parts++;
    }
  if (n_parts == 3 && text[length] == '.')
    length += 1 + count_digits (text + length + 1);
  return n_parts > 1 && !g_ascii_isdigit (text[length]) ? length : 0;
}

/* Gets the length of a date: 2026-11-24 or 2026/11/24.  Returns 0 if @text does not begin with
 * one. */
static gsize
measure_date (const gchar *text)
{
  gchar between = count_digits (text) == 4 ? text[4] : '\0';

  if ((between != '-' && between != '/') || count_digits (text + 5) != 2 || text[7] != between
      || count_digits (text + 8) != 2)
    return 0;
  return 10;
}

static gsize
measure_hexadecimal (const gchar *text)
{
  gsize n;

  if (text[0] != '0' || (text[1] != 'x' && text[1] != 'X'))
    return 0;
  n = strspn (text + 2, G_CSET_DIGITS "abcdefABCDEF");
  return n > 0 ? n + 2 : 0;
}

/* Gets the length of "infinity", "inf" or "nan".  Returns 0 if @text does not begin with one of
 * them as a whole word. */
static gsize
measure_special (const gchar *text)
{
  static const gchar *const names[] = { "infinity", "inf", "nan" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      gsize length = strlen (names[i]);

      if (g_ascii_strncasecmp (text, names[i], length) == 0 && !g_ascii_isalnum (text[length])
          && text[length] != '_')
        return length;
    }
  return 0;
}

/* Gets the length of a decimal number without a sign.  Returns 0 if there is none. */
static gsize
measure_decimal (const gchar *text, gboolean *is_decimal)
{
  gsize n = count_digits (text), n_behind = text[n] == '.' ? count_digits (text + n + 1) : 0;
  gsize length = n + (n_behind > 0 ? 1 + n_behind : 0);
  gsize sign;

  if (length == 0)
    return 0;
  *is_decimal = n_behind > 0;
  if (text[length] != 'e' && text[length] != 'E')
    return length;
  sign = text[length + 1] == '-' || text[length + 1] == '+' ? 1 : 0;
  n = count_digits (text + length + 1 + sign);
  if (n == 0)
    return length;
  *is_decimal = TRUE;
  return length + 1 + sign + n;
}

/* Gets the length of a number with its sign.  Returns 0 if there is none. */
static gsize
measure_number (const Reader *reader, gboolean *is_decimal)
{
  const gchar *text = reader->rest;
  gchar before = text > reader->start ? text[-1] : ' ';
  gboolean is_within = g_ascii_isalnum (before) || before == '_' || before == '.' || before == ')';
  gsize sign = !is_within && (*text == '-' || *text == '+') ? 1 : 0;
  gsize length = measure_hexadecimal (text + sign);

  *is_decimal = FALSE;
  if (length == 0 && !is_within)
    length = measure_special (text + sign);
  if (length == 0 && (text[sign] != '.' || !is_within))
    length = measure_decimal (text + sign, is_decimal);
  return length > 0 ? sign + length : 0;
}

/* Functions that find durations, rates and times */

static gboolean
has_word (const gchar *const *words, gsize n, const gchar *word)
{
  for (gsize i = 0; i < n; i++)
    if (g_str_equal (words[i], word))
      return TRUE;
  return FALSE;
}

/* Gets the length of a unit after a number, with the blanks before the unit.  Returns 0 if the unit
 * is neither a unit of time nor a unit of a rate. */
static gsize
measure_unit (const gchar *text)
{
  gsize n_spaces = strspn (text, " \t([");
  gsize length = strcspn (text + n_spaces, " \t,;:()[]|=");
  g_autofree gchar *word = g_ascii_strdown (text + n_spaces, (gssize) length);

  while (length > 0 && word[length - 1] == '.')
    word[--length] = '\0';
  if (has_word (units, G_N_ELEMENTS (units), word) || g_str_has_suffix (word, "/s")
      || g_str_has_suffix (word, "/sec") || g_str_has_suffix (word, "/second"))
    return n_spaces + length;
  return 0;
}

/* Tells whether the text before a number calls it a duration or a rate, as "kernelTime=" and "took"
 * do. */
static gboolean
names_quantity (const gchar *text, gsize length)
{
  g_autofree gchar *lower = g_ascii_strdown (text, (gssize) length);
  gchar *word = lower;

  while (*(word += strcspn (word, G_CSET_a_2_z)) != '\0')
    {
      gsize n = strspn (word, G_CSET_a_2_z);
      g_autofree gchar *name = g_strndup (word, n);

      if (g_str_has_suffix (name, "time") || has_word (quantities, G_N_ELEMENTS (quantities), name))
        return TRUE;
      word += n;
    }
  return FALSE;
}

/* Tells whether a number is a time since 1970, in s, ms, us or ns, that is within a day of now. */
static gboolean
is_now (gdouble value)
{
  gdouble now = (gdouble) g_get_real_time () / G_USEC_PER_SEC;

  for (gdouble unit = 1; unit <= 1e9; unit *= 1000)
    if (fabs (value / unit - now) < DAY)
      return TRUE;
  return FALSE;
}

/* Functions that split a line */

static void
add_opaque (Reader *reader, gsize length)
{
  g_string_append_c (reader->key, LINE_OPAQUE);
  g_string_append_c (reader->skeleton, LINE_OPAQUE);
  reader->rest += length;
  reader->text = reader->rest;
}

static void
add_number (Reader *reader, gsize length, gboolean is_decimal)
{
  LineNumber number = { .text = g_strndup (reader->rest, length), .is_decimal = is_decimal };
  gsize unit = measure_unit (reader->rest + length);

  number.value = g_ascii_strtod (number.text, NULL);
  number.is_decimal &= isfinite (number.value);
  /* A duration or rate is not compared.  But NaN is compared even beside a unit, because a rate may
   * be infinite, but it is never NaN: the NaN is a wrong result. */
  if (!isnan (number.value)
      && (unit > 0 || is_now (number.value)
          || names_quantity (reader->text, (gsize) (reader->rest - reader->text))))
    {
      g_free (number.text);
      add_opaque (reader, length + unit);
      return;
    }
  g_array_append_val (reader->numbers, number);
  g_string_append (reader->key, number.text);
  g_string_append_c (reader->skeleton, LINE_NUMBER);
  reader->rest += length;
  reader->text = reader->rest;
}

static void
add_text (Reader *reader)
{
  gsize n_spaces = strspn (reader->rest, " \t\r");
  gchar c = n_spaces > 0 ? ' ' : *reader->rest;

  /* LINE_NUMBER and LINE_OPAQUE stand for numbers.  Binary output may have the same bytes, so they
   * are replaced there. */
  if (c == LINE_NUMBER || c == LINE_OPAQUE)
    c = '\x7f';
  g_string_append_c (reader->key, c);
  g_string_append_c (reader->skeleton, c);
  reader->rest += MAX (n_spaces, 1);
}

static void
read_next (Reader *reader)
{
  gchar before = reader->rest > reader->start ? reader->rest[-1] : ' ';
  gboolean is_decimal;
  gsize length = 0;

  if (!g_ascii_isalnum (before) && before != '.' && before != ':' && before != '-')
    length = MAX (measure_clock (reader->rest), measure_date (reader->rest));
  if (length > 0)
    add_opaque (reader, length);
  else if ((length = measure_number (reader, &is_decimal)) > 0)
    add_number (reader, length, is_decimal);
  else
    add_text (reader);
}

Line *
line_new (guint number, const gchar *text)
{
  Line *line = g_new0 (Line, 1);
  g_autofree gchar *stripped = g_strstrip (g_strdup (text));
  Reader reader = { .start = stripped,
                    .rest = stripped,
                    .text = stripped,
                    .key = g_string_new (NULL),
                    .skeleton = g_string_new (NULL),
                    .numbers = g_array_new (FALSE, FALSE, sizeof (LineNumber)) };

  g_array_set_clear_func (reader.numbers, clear_number);
  while (*reader.rest != '\0')
    read_next (&reader);
  line->number = number;
  line->text = g_strdup (text);
  line->key = g_string_free (reader.key, FALSE);
  line->skeleton = g_string_free (reader.skeleton, FALSE);
  line->numbers = reader.numbers;
  return line;
}

void
line_free (Line *line)
{
  g_free (line->text);
  g_free (line->key);
  g_free (line->skeleton);
  g_array_unref (line->numbers);
  g_free (line);
}

GPtrArray *
lines_new (const GString *output)
{
  GPtrArray *lines = g_ptr_array_new_with_free_func ((GDestroyNotify) line_free);
  const gchar *start = output->str, *end = output->str + output->len;

  while (start < end)
    {
      const gchar *newline = memchr (start, '\n', (gsize) (end - start));
      gsize length = (gsize) ((newline != NULL ? newline : end) - start);
      g_autofree gchar *text = g_malloc (length + 1);

      /* A zero byte in binary output would end the text, so it is replaced. */
      for (gsize i = 0; i < length; i++)
        text[i] = start[i] != '\0' ? start[i] : '\x7f';
      text[length] = '\0';
      g_ptr_array_add (lines, line_new (lines->len + 1, text));
      start += length + 1;
    }
  return lines;
}
