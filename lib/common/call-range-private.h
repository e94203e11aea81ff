/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads ranges of call numbers from texts.  "3" means the third call, "3-5" the third to the fifth
 * call, and "3+" the third call and all later ones. */

#ifndef TARN_CALL_RANGE_PRIVATE_H
#define TARN_CALL_RANGE_PRIVATE_H

#include <errno.h>
#include <glib.h>

/* A range of call numbers.  Invariant: either 1 <= first <= last, or first and last are 0 and the
 * range is empty. */
typedef struct
{
  guint64 first, last;
} TarnCallRange;

/* Reads a number, and sets *text to the first character after the number.  Returns FALSE if @text
 * does not begin with a number, or if the number is 0 or too large. */
static inline gboolean
_tarn_parse_call_number (const gchar **text, guint64 *number)
{
  gchar *end;

  if (!g_ascii_isdigit (**text))
    return FALSE;
  errno = 0;
  *number = g_ascii_strtoull (*text, &end, 10);
  *text = end;
  return errno == 0 && *number > 0;
}

static inline gboolean
_tarn_parse_call_range (const gchar *text, TarnCallRange *range)
{
  TarnCallRange read;

  if (!_tarn_parse_call_number (&text, &read.first))
    return FALSE;
  read.last = read.first;
  if (*text == '+')
    {
      read.last = G_MAXUINT64;
      text++;
    }
  else if (*text == '-')
    {
      text++;
      if (!_tarn_parse_call_number (&text, &read.last) || read.last < read.first)
        return FALSE;
    }
  if (*text != '\0')
    return FALSE;
  *range = read;
  return TRUE;
}

static inline gboolean
_tarn_call_range_has (const TarnCallRange *range, guint64 number)
{
  return number >= range->first && number <= range->last && range->first != 0;
}

#endif
