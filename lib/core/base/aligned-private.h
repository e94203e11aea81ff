/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Allocates structs that share no cache line with other data.  So writes to a struct do not slow
 * down threads that use other data (false sharing). */

#ifndef TARN_ALIGNED_PRIVATE_H
#define TARN_ALIGNED_PRIVATE_H

#include <glib.h>
#include <stdlib.h>
#include <string.h>

/* TARN_CACHE_LINE: the number of bytes of a cache line.  TARN_CACHE_LINES: the number of bytes that
 * should lie between the starts of two structs which different threads often write.  It is two
 * lines, because processors fetch lines in pairs. */
#define TARN_CACHE_LINE 64
#define TARN_CACHE_LINES 128

static inline gpointer
_tarn_aligned_alloc0 (gsize alignment, gsize size)
{
  gpointer memory = aligned_alloc (alignment, size);

  if (memory == NULL)
    g_error ("no memory for %" G_GSIZE_FORMAT " bytes", size);
  return memset (memory, 0, size);
}

/* Allocates a struct filled with zeros.  The caller frees the struct with free (), not g_free
 * (). */
#define _tarn_aligned_new0(Type) ((Type *) _tarn_aligned_alloc0 (G_ALIGNOF (Type), sizeof (Type)))

#endif
