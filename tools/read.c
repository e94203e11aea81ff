/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads files, expands those that gzip has compressed, and refuses texts that are too long. */

#include "read.h"

#include <stdio.h>
#include <string.h>

#include "trace/map.h"

/* Largest expanded recording in bytes: 2 GiB, and less where addresses have 32 bits.  A larger one
 * would not fit into a GByteArray, or not into memory. */
#define MAX_EXPANDED MIN (G_MAXSIZE / 16, (gsize) 1 << 31)

/* Bytes that expand () expands at a time. */
#define PART ((gsize) 1 << 16)

/* Tells whether gzip has compressed the data (RFC 1952, section 2.3.1). */
static gboolean
is_compressed (gconstpointer data, gsize length)
{
  const guchar *bytes = data;

  return length >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

/* Replaces GLib's message by a clearer one, if the end of the compressed data is missing. */
static void
explain (GError **error)
{
  if (error == NULL || !g_error_matches (*error, G_IO_ERROR, G_IO_ERROR_PARTIAL_INPUT))
    return;
  g_clear_error (error);
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_PARTIAL_INPUT, "the compressed file is cut off");
}

/* Expands data that gzip has compressed.  Stops when there are more than @most bytes, which the
 * caller refuses. */
static GByteArray *
expand (gconstpointer data, gsize length, gsize most, GError **error)
{
  g_autoptr (GZlibDecompressor) gzip = g_zlib_decompressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP);
  g_autoptr (GByteArray) expanded = g_byte_array_new ();
  g_autofree guint8 *part = g_malloc (PART);
  GConverterResult result = G_CONVERTER_CONVERTED;

  /* A gzip file may have several compressed members, one after another. */
  while (expanded->len <= most && (result != G_CONVERTER_FINISHED || is_compressed (data, length)))
    {
      gsize n_read = 0, n = 0;

      if (result == G_CONVERTER_FINISHED)
        g_converter_reset (G_CONVERTER (gzip));
      result = g_converter_convert (G_CONVERTER (gzip), data, length, part, PART,
                                    G_CONVERTER_INPUT_AT_END, &n_read, &n, error);
      if (result == G_CONVERTER_ERROR)
        {
          explain (error);
          return NULL;
        }
      data = (const guint8 *) data + n_read;
      length -= n_read;
      g_byte_array_append (expanded, part, (guint) n);
    }
  return g_steal_pointer (&expanded);
}

/* Gets the first bytes of a regular file, without expanding them. */
static gsize
read_first (const gchar *path, gpointer bytes, gsize n)
{
  FILE *file = g_file_test (path, G_FILE_TEST_IS_REGULAR) ? fopen (path, "re") : NULL;

  if (file == NULL)
    return 0;
  n = fread (bytes, 1, n, file);
  fclose (file);
  return n;
}

gsize
read_start (const gchar *path, gpointer start, gsize n)
{
  g_autoptr (GZlibDecompressor) gzip = g_zlib_decompressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP);
  guint8 bytes[4096];
  gsize n_bytes = read_first (path, bytes, sizeof bytes), n_read, n_start = 0;

  if (is_compressed (bytes, n_bytes))
    {
      if (g_converter_convert (G_CONVERTER (gzip), bytes, n_bytes, start, n, G_CONVERTER_NO_FLAGS,
                               &n_read, &n_start, NULL)
          == G_CONVERTER_ERROR)
        return 0;
      return n_start;
    }
  n = MIN (n, n_bytes);
  memcpy (start, bytes, n);
  return n;
}

static GBytes *
expand_file (const gchar *path, GError **error)
{
  g_autofree gchar *data = NULL;
  g_autoptr (GByteArray) expanded = NULL;
  gsize length;

  if (!g_file_get_contents (path, &data, &length, error))
    return NULL;
  expanded = expand (data, length, MAX_EXPANDED, error);
  if (expanded != NULL && expanded->len <= MAX_EXPANDED)
    return g_byte_array_free_to_bytes (g_steal_pointer (&expanded));
  if (expanded != NULL)
    g_set_error (error, G_FILE_ERROR, G_FILE_ERROR_FAILED,
                 "it expands to more than %" G_GSIZE_FORMAT " MiB", MAX_EXPANDED >> 20);
  g_prefix_error (error, "%s: ", path);
  return NULL;
}

GBytes *
read_file (const gchar *path, GError **error)
{
  guint8 start[2];
  gsize n = read_first (path, start, sizeof start);

  return is_compressed (start, n) ? expand_file (path, error) : map_file (path, error);
}

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

/* Expands the @length bytes of @text into a new text, and sets *length to its length. */
static gchar *
expand_text (const gchar *text, gsize *length, GError **error)
{
  g_autoptr (GByteArray) expanded = expand (text, *length, READ_MAX_TEXT, error);

  if (expanded == NULL)
    return NULL;
  if (expanded->len > READ_MAX_TEXT)
    {
      refuse_length (expanded, error);
      return NULL;
    }
  *length = expanded->len;
  g_byte_array_append (expanded, (const guint8 *) "", 1);
  return (gchar *) g_byte_array_free (g_steal_pointer (&expanded), FALSE);
}

gchar *
read_text_file (const gchar *path, gsize *length, GError **error)
{
  g_autoptr (GFile) file = g_file_new_for_path (path);
  g_autoptr (GFileInputStream) stream = g_file_read (file, NULL, error);

  g_autofree gchar *text = NULL;

  if (stream == NULL || (text = read_stream (G_INPUT_STREAM (stream), length, error)) == NULL)
    return NULL;
  return is_compressed (text, *length) ? expand_text (text, length, error)
                                       : g_steal_pointer (&text);
}
