/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads and writes structs with a size field.  A struct that a caller fills has its size at the
 * time that the caller was compiled, because later versions add fields at its end.  A caller may be
 * older or newer than the library.  All of the libraries include this file. */

#ifndef TARN_STRUCT_PRIVATE_H
#define TARN_STRUCT_PRIVATE_H

#include <string.h>
#include <tarn/error.h>
#include <tarn/version.h>

/* Copies a struct of the caller's, whose first field is its size, over one of ours that has the
 * defaults.  The defaults stay in fields that an older caller does not have.  Returns FALSE if the
 * caller's struct has no size, or sets fields that this version does not know: to ignore these
 * would be to do something else than the caller asked for.  Not inlined, because GCC would then
 * warn of reads beyond a struct that it can see, which never happen. */
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

/* Does as _tarn_struct_read (), and sets an error that names the type. */
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

/* Returns TRUE if the library can write to a struct of the caller's: if its size was set, by the
 * macro that initializes it. */
static inline gboolean
_tarn_struct_has_size (gconstpointer theirs)
{
  return theirs != NULL && *(const gsize *) theirs >= sizeof (gsize);
}

/* Copies a struct of ours to one of the caller's.  Copies the fields that both sides know, and sets
 * fields that only the caller knows to 0.  The caller's struct has a size, which does not
 * change. */
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
