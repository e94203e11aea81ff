/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Structs that a caller fills say how large they were when the caller was compiled, because later
 * versions add fields at their end.  A caller may be older than the library, and newer.  All of the
 * libraries include this. */

#ifndef TARN_STRUCT_PRIVATE_H
#define TARN_STRUCT_PRIVATE_H

#include <string.h>
#include <tarn/error.h>
#include <tarn/version.h>

/* Copies a struct of the caller's, whose first field is its size, over one of ours that holds the
 * defaults, which stay where the caller is older.  FALSE if the caller's has no size, or sets
 * fields that this version does not know: to ignore those would be to do something else than what
 * was asked.  Not inlined, because GCC then warns of bytes beyond a struct that it can see, which
 * are never read. */
static __attribute__ ((noinline, unused)) gboolean
_tarn_struct_read (gpointer ours, gsize size, gconstpointer theirs)
{
  const guint8 *bytes = theirs;
  gsize their_size = *(const gsize *) theirs;

  if (their_size < sizeof their_size)
    return FALSE;
  for (gsize i = size; i < their_size; i++)
    if (bytes[i] != 0)
      return FALSE;
  memcpy (ours, theirs, MIN (size, their_size));
  *(gsize *) ours = size;
  return TRUE;
}

/* As _tarn_struct_read (), with an error that names the type. */
static inline gboolean
_tarn_struct_read_or_set_error (gpointer ours, gsize size, gconstpointer theirs, const gchar *type,
                                GError **error)
{
  if (_tarn_struct_read (ours, size, theirs))
    return TRUE;
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
               "%s of struct_size %" G_GSIZE_FORMAT
               " is not initialized, or sets fields that Tarn %s does not have",
               type, *(const gsize *) theirs, tarn_get_version ());
  return FALSE;
}

/* Returns TRUE if a struct of the caller's can be written to: the macro that it starts from sets
 * its size. */
static inline gboolean
_tarn_struct_has_size (gconstpointer theirs)
{
  return theirs != NULL && *(const gsize *) theirs >= sizeof (gsize);
}

/* Fills a struct of the caller's as far as both sides know it; what only the caller knows is 0.  It
 * has a size, which stays as it is. */
static inline void
_tarn_struct_write (gpointer theirs, gconstpointer ours, gsize size)
{
  guint8 *bytes = theirs;
  gsize their_size = *(gsize *) theirs;

  g_assert (_tarn_struct_has_size (theirs));
  memcpy (theirs, ours, MIN (size, their_size));
  if (their_size > size)
    memset (bytes + size, 0, their_size - size);
  *(gsize *) theirs = their_size;
}

#endif
