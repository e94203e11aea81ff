/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Bins: the size classes of a pool's blocks, and their numbers. */

#ifndef TARN_BIN_PRIVATE_H
#define TARN_BIN_PRIVATE_H

#include <glib.h>

/* 6 bits for the position of a 64-bit size's leading bit leave 26 of a 32-bit bin number. */
#define TARN_MAX_LEADING_BITS 26

#define TARN_SIZE_BITS (8 * GLIB_SIZEOF_SIZE_T)

G_STATIC_ASSERT (sizeof (gsize) == sizeof (gulong));

/* Values that take the place of leading_bits, for the bins of a pool over a heap (bin.c).  With
 * TARN_HEAP_EXACT_BINS, for when memory is short, each size has its own bin.  A change from one to
 * the other does not move blocks that are in bins. */
#define TARN_HEAP_EXACT_BINS (TARN_MAX_LEADING_BITS + 1)
#define TARN_HEAP_BINS (TARN_MAX_LEADING_BITS + 2)

/* The largest size in a pool over a heap that shares a bin with other sizes. */
#define TARN_HEAP_MAX_ROUNDED ((gsize) 128 << 10)
#define TARN_N_HEAP_BINS 128 /* for these sizes */

/* Gets the bin of a size in a pool over a heap.  Up to TARN_HEAP_MAX_ROUNDED there is a bin for
 * each multiple of 512 bytes, or 32 between one power of two and the next where there are more
 * multiples. */
static inline guint32
_tarn_heap_bin_number (gsize size)
{
  gsize units = ((size + 511) >> 9) - (size != 0);
  guint exponent = (guint) (TARN_SIZE_BITS - 1) - (guint) __builtin_clzl (units | 32);

  return ((exponent - 5) << 5) + (guint32) (units >> (exponent - 5));
}

/* Gets the bin of a size.  Size 0 shares bin 0 with size 1. */
static inline guint32
_tarn_bin_number (gsize size, guint leading_bits)
{
  if (leading_bits > TARN_MAX_LEADING_BITS)
    {
      if (size <= (leading_bits == TARN_HEAP_BINS ? TARN_HEAP_MAX_ROUNDED : 1))
        return _tarn_heap_bin_number (size);
      leading_bits = TARN_MAX_LEADING_BITS;
    }

  gsize counted = size + (size == 0);
  guint shift = (guint) __builtin_clzl (counted);
  gsize head
      = counted << shift >> (TARN_SIZE_BITS - 1 - leading_bits); /* including the leading one */

  return ((TARN_SIZE_BITS - 1 - shift) << leading_bits) + (guint32) head - (1U << leading_bits);
}

gsize _tarn_bin_alloc_size (guint32 bin, guint leading_bits);

/* Gets the largest size in a bin of small sizes, in a pool over a heap. */
static inline gsize
_tarn_heap_bin_alloc_size (guint32 bin)
{
  guint shift = bin < 64 ? 0 : (bin >> 5) - 1;
  gsize head = bin < 64 ? bin : (bin & 31) + 32;

  return ((head + 1) << shift) << 9;
}

/* The largest size that has a bin of its own with TARN_MAX_LEADING_BITS leading bits. */
#define TARN_MAX_EXACT (((gsize) 2 << TARN_MAX_LEADING_BITS) - 1)

/* Gets the allocation size for a size whose bin is known, in a pool over a heap. */
static inline gsize
_tarn_heap_alloc_size (gsize size, guint32 bin)
{
  if (bin < TARN_N_HEAP_BINS)
    return _tarn_heap_bin_alloc_size (bin);
  return size <= TARN_MAX_EXACT ? size : _tarn_bin_alloc_size (bin, TARN_HEAP_BINS);
}

#endif
