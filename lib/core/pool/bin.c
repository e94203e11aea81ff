/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Bins: free lists that each have the blocks of one size class.  In all sizes in a bin, the leading
 * bit has the same position, and the leading_bits bits directly below it are equal.  The bin's
 * number is that position followed by those bits:
 *
 *     size 1000 = 1 1111 01000 in binary, leading_bits 4:  position 9, bits 1111: bin 9 * 16 + 15
 *
 * The allocation size, which all blocks in a bin have, is the largest size in it: 1 1111 11111 =
 * 1023 here.
 *
 * In a pool over a heap, the allocation sizes of bins for small sizes are multiples of 512 bytes,
 * which is a heap's usual alignment, so that few distinct sizes serve all requests.  Each larger
 * size has its own bin (TARN_HEAP_BINS). */

#include "pool/bin-private.h"

/* Gets the largest size in a bin.  @bin is the number of the bin.  Returns 0 if no size has this
 * number.  Such numbers exist because a size below 2^leading_bits has fewer than leading_bits bits
 * after its leading bit. */
gsize
_tarn_bin_alloc_size (guint32 bin, guint leading_bits)
{
  guint exponent;
  gsize head;

  if (leading_bits > TARN_MAX_LEADING_BITS)
    {
      if (bin < TARN_N_HEAP_BINS)
        return _tarn_heap_bin_alloc_size (bin);
      leading_bits = TARN_MAX_LEADING_BITS;
    }
  exponent = (guint) ((guint64) bin >> leading_bits);
  head = (gsize) 1 << leading_bits | (bin & (((gsize) 1 << leading_bits) - 1));
  if (exponent >= TARN_SIZE_BITS)
    return 0;
  if (exponent >= leading_bits)
    {
      guint shift = exponent - leading_bits;

      return head << shift | (((gsize) 1 << shift) - 1);
    }
  guint shift = leading_bits - exponent;

  return (head & (((gsize) 1 << shift) - 1)) == 0 ? head >> shift : 0;
}
