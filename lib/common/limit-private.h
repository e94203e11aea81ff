/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory limits: reads them from environment variables, and combines two of them. */

#ifndef TARN_LIMIT_PRIVATE_H
#define TARN_LIMIT_PRIVATE_H

#include <errno.h>
#include <string.h>
#include <tarn/error.h>

#include "common/shorten-private.h"

/* Returns the lower of two limits in bytes.  A limit of 0 means that there is no limit. */
static inline gsize
_tarn_limit_get_lower (gsize one, gsize other)
{
  if (one == 0 || other == 0)
    return MAX (one, other);
  return MIN (one, other);
}

/* Reads the unit that follows a number of bytes: K, M, G or T, which may be written as KiB, MiB,
 * GiB or TiB.  Returns the unit's factor, 1 if there is no unit, or 0 if the unit is unknown. */
static inline guint64
_tarn_parse_unit (const gchar *text)
{
  static const gchar units[] = { 'K', 'M', 'G', 'T', '\0' };
  const gchar *unit = *text != '\0' ? strchr (units, g_ascii_toupper (*text)) : NULL;

  if (*text == '\0')
    return 1;
  if (unit == NULL || (text[1] != '\0' && g_ascii_strcasecmp (text + 1, "iB") != 0))
    return 0;
  return G_GUINT64_CONSTANT (1) << 10 * (unit - units + 1);
}

static inline gboolean
_tarn_parse_bytes (const gchar *text, gsize *limit)
{
  gchar *end;
  guint64 number, unit;

  if (!g_ascii_isdigit (*text))
    return FALSE;
  errno = 0;
  number = g_ascii_strtoull (text, &end, 10);
  unit = _tarn_parse_unit (end);
  if (errno != 0 || unit == 0 || number == 0 || number > G_MAXSIZE / unit)
    return FALSE;
  *limit = (gsize) (number * unit);
  return TRUE;
}

static inline gboolean
_tarn_parse_share (const gchar *text, gdouble *share)
{
  gchar *end;

  if (!g_ascii_isdigit (*text))
    return FALSE;
  *share = g_ascii_strtod (text, &end) / 100;
  return g_str_equal (end, "%") && *share > 0 && *share <= 1;
}

/* Reads a limit of memory.  @text: a number of bytes, such as "8G" (K, M, G and T are powers of
 * 1,024), or a percentage of the device's memory, such as "80%".  @name: the name of the
 * environment variable, for messages.  @total_bytes: the size of the device's memory; 0 if the
 * driver does not report it.  Returns FALSE with an error if @text is invalid, or if it is a
 * percentage, but @total_bytes is 0. */
static inline gboolean
_tarn_parse_limit (const gchar *name, const gchar *text, gsize total_bytes, gsize *limit,
                   GError **error)
{
  g_autofree gchar *stripped = g_strstrip (g_strdup (text));
  g_autofree gchar *quoted = _tarn_shorten (text);
  gdouble share;

  if (_tarn_parse_bytes (stripped, limit))
    return TRUE;
  if (!_tarn_parse_share (stripped, &share))
    {
      g_set_error (
          error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
          "%s: '%s' is neither a number of bytes above 0, such as 8000000000 or 8G, nor a share "
          "of the device's memory, such as 80%%",
          name, quoted);
      return FALSE;
    }
  if (total_bytes == 0)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
                   "%s: '%s': the driver does not say how much memory there is", name, quoted);
      return FALSE;
    }
  *limit = MAX (1, (gsize) (share * (gdouble) total_bytes));
  return TRUE;
}

#endif
