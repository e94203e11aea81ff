/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Quotes texts from users and drivers in messages. */

#ifndef TARN_SHORTEN_PRIVATE_H
#define TARN_SHORTEN_PRIVATE_H

#include <glib.h>
#include <string.h>

/* The largest number of characters that a message quotes from a text. */
#define TARN_MAX_QUOTED 60
/* The largest number of characters that a message quotes from a file name, or from another message
 * that contains a file name. */
#define TARN_MAX_QUOTED_PATH 240

/* Returns TRUE if it may be harmful to print a character: control characters, which a terminal may
 * obey, and invisible ones, such as marks of text direction and line separators. */
static inline gboolean
_tarn_is_unprintable (gunichar c)
{
  GUnicodeType type = g_unichar_type (c);

  return type == G_UNICODE_CONTROL || type == G_UNICODE_FORMAT || type == G_UNICODE_LINE_SEPARATOR
         || type == G_UNICODE_PARAGRAPH_SEPARATOR;
}

/* Returns a copy of a text for a message.  The copy is valid UTF-8, and has at most the first @max
 * characters of the text.  Unprintable characters are written like "\x1b", except the ASCII
 * characters in @kept.  The caller frees the copy. */
static inline gchar *
_tarn_quote (const gchar *text, guint max, const gchar *kept)
{
  g_autofree gchar *valid = g_utf8_make_valid (text, -1);
  GString *quoted = g_string_new (NULL);
  const gchar *c = valid;

  for (guint n = 0; *c != '\0' && n < max; c = g_utf8_next_char (c), n++)
    if (_tarn_is_unprintable (g_utf8_get_char (c)) && strchr (kept, *c) == NULL)
      g_string_append_printf (quoted, "\\x%02x", g_utf8_get_char (c));
    else
      g_string_append_unichar (quoted, g_utf8_get_char (c));
  if (*c != '\0')
    g_string_append (quoted, "...");
  return g_string_free (quoted, FALSE);
}

/* Quotes a word for a message, such as a part of a variable's value or a device's name. */
static inline gchar *
_tarn_shorten (const gchar *text)
{
  return _tarn_quote (text, TARN_MAX_QUOTED, "");
}

/* Quotes the name of a file, or a message that contains one. */
static inline gchar *
_tarn_shorten_path (const gchar *path)
{
  return _tarn_quote (path, TARN_MAX_QUOTED_PATH, "");
}

/* Quotes the whole log of a compiler, with its line breaks. */
static inline gchar *
_tarn_quote_log (const gchar *log)
{
  return _tarn_quote (log, G_MAXUINT, "\n\t");
}

#endif
