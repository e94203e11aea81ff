/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * How messages quote what a user or a driver wrote. */

#ifndef TARN_SHORTEN_PRIVATE_H
#define TARN_SHORTEN_PRIVATE_H

#include <glib.h>

#define TARN_MAX_QUOTED 60 /* characters of a text */

/* Gets a text as messages quote it: valid, and only its beginning if it is long. */
static inline gchar *
_tarn_shorten (const gchar *text)
{
  g_autofree gchar *valid = g_utf8_make_valid (text, -1);

  if (g_utf8_strlen (valid, -1) <= TARN_MAX_QUOTED)
    return g_steal_pointer (&valid);
  *g_utf8_offset_to_pointer (valid, TARN_MAX_QUOTED) = '\0';
  return g_strconcat (valid, "...", NULL);
}

#endif
