/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Bins: free lists that each have the blocks of one size class.  This file computes the number of
 * the bin for a size, and the size of the blocks in a bin. */

#ifndef TARN_BIN_PRIVATE_H
#define TARN_BIN_PRIVATE_H

#include <glib.h>

/* Functions here have a parameter leading_bits: the number of bits, directly below the leading bit
 * of a size, that become part of the number of the size's bin.  TARN_MAX_LEADING_BITS is the
 * highest value of this parameter: a bin number has 32 bits, and 6 of them are for the position of
 * the leading bit in a 64-bit size. */
#define TARN_MAX_LEADING_BITS 26

#define TARN_SIZE_BITS (8 * GLIB_SIZEOF_SIZE_T)

G_STATIC_ASSERT (sizeof (gsize) == sizeof (gulong));

/* Three special values of the parameter leading_bits, above TARN_MAX_LEADING_BITS.  They select the
 * size classes of a pool over a heap (bin.c).  Small sizes share bins, and each larger size has its
 * own.
 *
 * - TARN_HEAP_BINS: sizes up to TARN_HEAP_MAX_ROUNDED share bins.
 * - TARN_HEAP_ALIGNED_BINS, for pools with a limit: sizes up to 16 KiB share bins, one bin for each
 *   multiple of 512 bytes.  A pool uses this value only if the heap rounds all sizes up to a
 *   multiple of 512 bytes, so these bins waste no memory.
 * - TARN_HEAP_EXACT_BINS: each size has its own bin.  If memory has run out lately, a pool uses
 *   this value, so that threads cache few small blocks and free memory can merge.
 *
 * Each value tells the largest size that shares a bin: 2^(value - TARN_HEAP_EXACT_BINS) bytes.
 * When a pool changes from one value to another, the blocks in its bins stay there. */
#define TARN_HEAP_EXACT_BINS (TARN_MAX_LEADING_BITS + 1)
#define TARN_HEAP_ALIGNED_BINS (TARN_HEAP_EXACT_BINS + 14)
#define TARN_HEAP_BINS (TARN_HEAP_EXACT_BINS + 18)

/* The largest size, in bytes, that shares a bin with other sizes in a pool over a heap. */
#define TARN_HEAP_MAX_ROUNDED ((gsize) 256 << 10)
#define TARN_N_HEAP_BINS 160 /* the number of bins for sizes up to TARN_HEAP_MAX_ROUNDED */

G_STATIC_ASSERT (TARN_HEAP_MAX_ROUNDED == (gsize) 1 << (TARN_HEAP_BINS - TARN_HEAP_EXACT_BINS));

/* Gets the number of the bin for a size of at most TARN_HEAP_MAX_ROUNDED bytes, in a pool over a
 * heap.  There is a bin for each multiple of 512 bytes.  But if more than 32 multiples lie between
 * two powers of two, the sizes between the two powers share 32 bins of equal width. */
static inline guint32
_tarn_heap_bin_number (gsize size)
{
  gsize units = ((size + 511) >> 9) - (size != 0);
  guint exponent = (guint) (TARN_SIZE_BITS - 1) - (guint) __builtin_clzl (units | 32);

  return ((exponent - 5) << 5) + (guint32) (units >> (exponent - 5));
}

/* Gets the number of the bin for a size.  Size 0 shares bin 0 with size 1. */
static inline guint32
_tarn_bin_number (gsize size, guint leading_bits)
{
  if (leading_bits > TARN_MAX_LEADING_BITS)
    {
      if (size <= (gsize) 1 << (leading_bits - TARN_HEAP_EXACT_BINS))
        return _tarn_heap_bin_number (size);
      leading_bits = TARN_MAX_LEADING_BITS;
    }

  gsize counted = size + (size == 0);
  guint shift = (guint) __builtin_clzl (counted);
  /* The leading bit of the size, and the leading_bits bits directly below it. */
  gsize head = counted << shift >> (TARN_SIZE_BITS - 1 - leading_bits);

  /* Subtracts 2, not 1, because the leading bit in head adds 1 << leading_bits. */
  return ((TARN_SIZE_BITS - 2 - shift) << leading_bits) + (guint32) head;
}

gsize _tarn_bin_alloc_size (guint32 bin, guint leading_bits);

/* Gets the largest size in a bin, in a pool over a heap.  @bin must be below TARN_N_HEAP_BINS. */
static inline gsize
_tarn_heap_bin_alloc_size (guint32 bin)
{
  guint shift = bin < 64 ? 0 : (bin >> 5) - 1;
  gsize head = bin < 64 ? bin : (bin & 31) + 32;

  return ((head + 1) << shift) << 9;
}

/* If leading_bits is TARN_MAX_LEADING_BITS, each size of at most this many bytes has its own
 * bin. */
#define TARN_MAX_EXACT (((gsize) 2 << TARN_MAX_LEADING_BITS) - 1)

/* Gets the allocation size of a request, in a pool over a heap: the number of bytes that each block
 * in the request's bin has.  @bin is the number of the bin for @size. */
static inline gsize
_tarn_heap_alloc_size (gsize size, guint32 bin)
{
  if (bin < TARN_N_HEAP_BINS)
    return _tarn_heap_bin_alloc_size (bin);
  return size <= TARN_MAX_EXACT ? size : _tarn_bin_alloc_size (bin, TARN_HEAP_BINS);
}

#endif
