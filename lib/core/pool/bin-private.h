/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#ifndef TARN_BIN_PRIVATE_H
#define TARN_BIN_PRIVATE_H

#include <glib.h>

/* 6 bits for the position of a 64-bit size's leading bit leave 26 of a 32-bit bin number. */
#define TARN_MAX_LEADING_BITS 26

#define TARN_SIZE_BITS (8 * GLIB_SIZEOF_SIZE_T)

G_STATIC_ASSERT (sizeof (gsize) == sizeof (gulong));

/* The bin of a size, size 0 included, which shares bin 0 with size 1. */
static inline guint32
_tarn_bin_number (gsize size, guint leading_bits)
{
  gsize counted = size + (size == 0);
  guint shift = (guint) __builtin_clzl (counted);
  gsize head
      = counted << shift >> (TARN_SIZE_BITS - 1 - leading_bits); /* the leading one as well */

  return ((TARN_SIZE_BITS - 1 - shift) << leading_bits) + (guint32) head - (1U << leading_bits);
}

gsize _tarn_bin_alloc_size (guint32 bin, guint leading_bits);

#endif
