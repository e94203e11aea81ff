/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads and writes structs of the API whose first field is their size in bytes.  Later versions of
 * a struct have more fields at the end.  A program sets the field to the size of the version with
 * which the program was compiled.  That version may be older or newer than the library.  All
 * libraries include this file. */

#ifndef TARN_STRUCT_PRIVATE_H
#define TARN_STRUCT_PRIVATE_H

#include <string.h>
#include <tarn/error.h>
#include <tarn/version.h>

/* Copies the program's struct @theirs over the library's struct @ours, which contains the defaults
 * and has @size bytes.  Fields that an older program does not have keep their defaults.  Returns
 * FALSE if the program has not set the size.  Also returns FALSE if a newer program sets fields
 * that this library does not know, because the library cannot obey these fields.
 *
 * The function is not inlined, because GCC would warn of reads past the end of a smaller struct,
 * which never happen. */
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

/* Calls _tarn_struct_read ().  If that fails, sets an error that names the struct's type, @type. */
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

/* Returns TRUE if the size of the program's struct is set, so that the library can write to it. */
static inline gboolean
_tarn_struct_has_size (gconstpointer theirs)
{
  return theirs != NULL && *(const gsize *) theirs >= sizeof (gsize);
}

/* Calls _tarn_struct_has_size ().  If that function returns FALSE, sets an error that names the
 * struct's type, @type. */
static inline gboolean
_tarn_struct_has_size_or_set_error (gconstpointer theirs, const gchar *type, GError **error)
{
  if (_tarn_struct_has_size (theirs))
    return TRUE;
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, "%s is %s", type,
               theirs == NULL ? "NULL" : "not initialized: its struct_size is 0");
  return FALSE;
}

/* Copies the fields of the library's struct, @ours, to the program's struct, @theirs, except the
 * size.  If @theirs has fields that the library does not know, sets them to 0.  The caller has
 * checked that the size of @theirs is set. */
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
