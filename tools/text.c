/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Makes text printable, and writes messages. */

#include "text.h"

#include <locale.h>
#include <stdarg.h>

/* Tells whether a character is printable.  Characters that XML 1.0 does not allow (section 2.2)
 * count as not printable. */
static gboolean
is_printable (gunichar c)
{
  if (c == '\t' || c == '\n')
    return TRUE;
  return c >= 0x20 && !(c >= 0x7f && c <= 0x9f) && c != 0xfffe && c != 0xffff;
}

gchar *
text_make_printable (const gchar *text, gssize length)
{
  g_autofree gchar *valid = g_utf8_make_valid (text, length);
  GString *printable = g_string_sized_new (64);

  for (const gchar *c = valid; *c != '\0'; c = g_utf8_next_char (c))
    {
      gunichar character = g_utf8_get_char (c);

      if (is_printable (character))
        g_string_append_unichar (printable, character);
      else
        g_string_append_printf (printable, "\\x%02x", character);
    }
  return g_string_free (printable, FALSE);
}

void
text_set_locale (void)
{
  setlocale (LC_ALL, "");
  setlocale (LC_NUMERIC, "C");
}

void
text_complain (const gchar *program, const gchar *format, ...)
{
  g_autofree gchar *text = NULL;
  g_autofree gchar *printable = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  printable = text_make_printable (text, -1);
  g_printerr ("%s: %s\n", program, printable);
}
