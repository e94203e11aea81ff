/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Formats texts and numbers for output. */

#include "write.h"

#include "../text.h"

/* Writes a character of a JSON string.  Escapes it if RFC 8259, section 7, requires this, or if a
 * terminal would act on the character. */
static void
write_json_character (FILE *file, gunichar c, const gchar *bytes, gsize length)
{
  if (c == '"' || c == '\\')
    fprintf (file, "\\%c", (gchar) c);
  else if (c < 0x20 || (c >= 0x7f && c < 0xa0))
    fprintf (file, "\\u%04x", c);
  else
    fwrite (bytes, 1, length, file);
}

void
write_json_text (FILE *file, const gchar *text)
{
  if (text == NULL)
    {
      fputs ("null", file);
      return;
    }
  fputc ('"', file);
  for (const gchar *c = text; *c != '\0'; c = g_utf8_next_char (c))
    write_json_character (file, g_utf8_get_char (c), c, (gsize) (g_utf8_next_char (c) - c));
  fputc ('"', file);
}

void
write_microseconds (FILE *file, guint64 nanoseconds)
{
  fprintf (file, "%" G_GUINT64_FORMAT ".%03u", nanoseconds / 1000, (guint) (nanoseconds % 1000));
}

gchar *
format_bytes (guint64 bytes)
{
  static const gchar *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
  gdouble n = (gdouble) bytes / 1024;
  guint i = 0;

  if (bytes < 1024)
    return g_strdup_printf ("%u B", (guint) bytes);
  for (; n >= 1024 && i + 1 < G_N_ELEMENTS (units); i++)
    n /= 1024;
  return g_strdup_printf ("%.*f %s", n < 1000 ? 1 : 0, n, units[i]);
}

gchar *
format_text (const gchar *text)
{
  return g_strdelimit (text_make_printable (text, -1), "\n\t", ' ');
}

gchar *
format_count (guint64 n)
{
  g_autofree gchar *digits = g_strdup_printf ("%" G_GUINT64_FORMAT, n);
  GString *text = g_string_new (digits);

  for (gssize i = (gssize) text->len - 3; i > 0; i -= 3)
    g_string_insert_c (text, i, ',');
  return g_string_free (text, FALSE);
}
