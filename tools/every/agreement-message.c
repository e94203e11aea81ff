/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Messages about an agreement: how much of the output is compared, and how a line differs. */

#include <string.h>

#include "../text.h"
#include "agreement-private.h"

#define MAX_QUOTED 100 /* characters of a line in a message */

gsize
agreement_count_alike (const gchar *a, const gchar *b)
{
  gsize n = 0;

  while (a[n] != '\0' && a[n] == b[n])
    n++;
  return n;
}

gchar *
agreement_describe (const Agreement *self)
{
  guint n_whole = 0, n_part = 0;

  if (self->is_complete)
    return NULL;
  if (self->is_too_long)
    return g_strdup_printf ("standard output varies from run to run, and has more than %d lines: "
                            "it is not compared",
                            AGREEMENT_MAX_LINES);
  for (guint i = 0; i < self->expected->len; i++)
    {
      const Expected *expected = self->expected->pdata[i];

      n_whole += expected->kind == EXPECT_WHOLE;
      n_part += expected->kind != EXPECT_WHOLE;
    }
  return g_strdup_printf ("standard output varies from run to run; lines compared: %u whole, %u in "
                          "part, of %u",
                          n_whole, n_part, self->first->len);
}

/* Quotes a line for a message: printable, and shortened.  The line differs from another one after
 * @n_alike bytes.  The quotation of a long line begins shortly before this difference. */
static gchar *
quote (const gchar *text, gsize n_alike)
{
  g_autofree gchar *printable = NULL;
  gboolean fits = n_alike <= MAX_QUOTED / 2 || strlen (text) <= MAX_QUOTED;
  gsize skipped = fits ? 0 : n_alike - MAX_QUOTED / 4;
  glong length;

  while (skipped > 0 && ((guchar) text[skipped] & 0xc0) == 0x80)
    skipped--;
  printable = text_make_printable (text + skipped, -1);
  g_strchomp (printable);
  length = g_utf8_strlen (printable, -1);
  if (length > MAX_QUOTED)
    *g_utf8_offset_to_pointer (printable, MAX_QUOTED) = '\0';
  return g_strdup_printf ("'%s%s%s'", skipped > 0 ? "..." : "", printable,
                          length > MAX_QUOTED ? "..." : "");
}

gchar *
agreement_format_expected (const Agreement *self, const Expected *expected)
{
  GString *text = g_string_new (NULL);
  guint n = 0;

  if (expected->kind == EXPECT_WHOLE)
    g_string_append (text, ((Line *) self->first->pdata[expected->number - 1])->text);
  for (gsize i = 0; expected->words != NULL && expected->words[i] != NULL; i++)
    g_string_append_printf (text, "%s%s", i > 0 ? " " : "",
                            expected->words[i][0] != '\0' ? expected->words[i] : "...");
  for (const gchar *c = expected->skeleton; c != NULL && *c != '\0'; c++)
    {
      const ExpectNumber *number = NULL;

      g_assert (*c != LINE_NUMBER || n < expected->numbers->len);
      if (*c == LINE_NUMBER)
        number = &g_array_index (expected->numbers, ExpectNumber, n++);
      if (number == NULL && *c != LINE_OPAQUE)
        g_string_append_c (text, *c);
      else if (number == NULL || (number->text == NULL && !number->is_rounded))
        g_string_append (text, "...");
      else if (number->text != NULL)
        g_string_append (text, number->text);
      else
        g_string_append_printf (text, "%.9g to %.9g", number->min, number->max);
    }
  for (gchar *c = text->str; *c != '\0'; c++)
    *c = *c == LINE_OPAQUE ? '~' : *c;
  return g_string_free (text, FALSE);
}

gchar *
agreement_describe_difference (guint number, const gchar *line, const gchar *printed)
{
  gsize n_alike = line != NULL && printed != NULL ? agreement_count_alike (line, printed) : 0;
  g_autofree gchar *expected = line != NULL ? quote (line, n_alike) : NULL;
  g_autofree gchar *got = printed != NULL ? quote (printed, n_alike) : NULL;

  if (line == NULL)
    return g_strdup_printf ("line %u: nothing expected, %s printed", number, got);
  return g_strdup_printf ("line %u: %s expected, %s printed", number, expected,
                          got != NULL ? got : "nothing");
}
