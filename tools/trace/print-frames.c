/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Formats stacks and their frames. */

#include <string.h>

#include "print.h"

static const gchar *
get_base (const gchar *path, gboolean is_short)
{
  const gchar *slash = is_short ? strrchr (path, '/') : NULL;

  return slash != NULL ? slash + 1 : path;
}

gchar *
format_frame (const NamedFrame *frame, gboolean is_short)
{
  if (frame->function != NULL && frame->file != NULL)
    return g_strdup_printf ("%s (%s:%u)", frame->function, get_base (frame->file, is_short),
                            frame->line);
  if (frame->function != NULL)
    return g_strdup_printf ("%s+0x%" G_GINT64_MODIFIER "x", frame->function, frame->offset);
  if (frame->module[0] != '\0')
    return g_strdup_printf ("%s+0x%" G_GINT64_MODIFIER "x", get_base (frame->module, is_short),
                            frame->module_offset);
  return g_strdup_printf ("0x%" G_GINT64_MODIFIER "x", frame->address);
}

/* Tells whether an address is in one of Tarn's libraries.  Each request's stack begins with frames
 * from there, which do not interest the user. */
static gboolean
is_ours (const Recording *recording, guint64 address)
{
  const RecordedFrame *frame = recording_get_frame (recording, address);
  g_autofree gchar *module = frame != NULL ? g_path_get_basename (frame->module) : NULL;

  return module != NULL && g_str_has_prefix (module, "libtarn");
}

gchar *
format_stack (const Output *output, guint64 stack, gboolean is_short)
{
  GString *text = g_string_new (NULL);
  gsize n, first = 0;
  const guint64 *addresses = recording_get_stack (output->recording, stack, &n);

  while (is_short && first < n && is_ours (output->recording, addresses[first]))
    first++;
  first = first < n ? first : 0;
  for (gsize i = first; i < n; i++)
    {
      guint n_frames;
      const NamedFrame *frames = symbols_get (output->symbols, addresses[i], &n_frames);

      for (guint j = 0; j < n_frames; j++)
        {
          g_autofree gchar *frame = format_frame (&frames[j], is_short);

          g_string_append_printf (text, "%s%s", text->len > 0 ? " < " : "", frame);
        }
    }
  return g_string_free (text, FALSE);
}
