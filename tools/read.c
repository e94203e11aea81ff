/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads texts, and refuses those that are too long. */

#include "read.h"

/* Sets the error for a text that is too long.  The error names the line at the limit. */
static void
refuse_length (const GByteArray *text, GError **error)
{
  guint line = 1;

  for (guint i = 0; i < text->len; i++)
    line += text->data[i] == '\n';
  g_set_error (error, G_FILE_ERROR, G_FILE_ERROR_FAILED,
               "line %u: more than %" G_GSIZE_FORMAT " MiB of text", line, READ_MAX_TEXT >> 20);
}

gchar *
read_stream (GInputStream *stream, gsize *length, GError **error)
{
  g_autoptr (GByteArray) text = g_byte_array_new ();
  g_autofree guint8 *part = g_malloc (1 << 16);
  gssize n;

  while ((n = g_input_stream_read (stream, part, 1 << 16, NULL, error)) > 0)
    {
      g_byte_array_append (text, part, (guint) n);
      if (text->len <= READ_MAX_TEXT)
        continue;
      refuse_length (text, error);
      return NULL;
    }
  if (n < 0)
    return NULL;
  *length = text->len;
  g_byte_array_append (text, (const guint8 *) "", 1);
  return (gchar *) g_byte_array_free (g_steal_pointer (&text), FALSE);
}

gchar *
read_text_file (const gchar *path, gsize *length, GError **error)
{
  g_autoptr (GFile) file = g_file_new_for_path (path);
  g_autoptr (GFileInputStream) stream = g_file_read (file, NULL, error);

  return stream != NULL ? read_stream (G_INPUT_STREAM (stream), length, error) : NULL;
}
