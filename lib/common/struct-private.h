/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Structs that a caller fills say how large they were when the caller was compiled, because later
 * versions add fields at their end.  A caller may be older than the library, and newer. */

#ifndef TARN_STRUCT_PRIVATE_H
#define TARN_STRUCT_PRIVATE_H

#include <glib.h>
#include <string.h>

/* Copies a struct of the caller's, whose first field is its size, to one of ours that holds the
 * defaults.  FALSE if it is smaller than the first version ever was, or sets fields that this
 * version does not know: to ignore those would be to do something else than what was asked. */
static inline gboolean
_tarn_struct_read (gpointer ours, gsize size, gsize first_size, gconstpointer theirs)
{
  const guint8 *bytes = theirs;
  gsize their_size = *(const gsize *) theirs;

  if (their_size < first_size)
    return FALSE;
  for (gsize i = size; i < their_size; i++)
    if (bytes[i] != 0)
      return FALSE;
  memcpy (ours, theirs, MIN (size, their_size));
  *(gsize *) ours = size;
  return TRUE;
}

/* Fills a struct of the caller's as far as both sides know it; what only the caller knows is 0. */
static inline void
_tarn_struct_write (gpointer theirs, gconstpointer ours, gsize size)
{
  guint8 *bytes = theirs;
  gsize their_size = *(gsize *) theirs;

  memcpy (theirs, ours, MIN (size, their_size));
  if (their_size > size)
    memset (bytes + size, 0, their_size - size);
  if (their_size >= sizeof (gsize))
    *(gsize *) theirs = their_size;
}

#endif
