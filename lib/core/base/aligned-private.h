/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Structs that must not share a cache line with what another thread writes. */

#ifndef TARN_ALIGNED_PRIVATE_H
#define TARN_ALIGNED_PRIVATE_H

#include <glib.h>
#include <stdlib.h>
#include <string.h>

/* The line, and how far from one another threads' own are that are written all the time:
 * processors fetch lines by pairs. */
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

/* For free (). */
#define _tarn_aligned_new0(Type) ((Type *) _tarn_aligned_alloc0 (G_ALIGNOF (Type), sizeof (Type)))

#endif
