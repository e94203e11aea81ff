/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Finds the bin with the largest blocks, for a pool that returns its largest cached blocks to
 * upstream.  A pool at its limit does so for most requests, and can have as many bins as cached
 * blocks.  So the bins are in a binary heap, and a request does not look at all of them.
 *
 * The caller of each function here holds the pool's lock. */

#include "pool/store-private.h"

/* Returns TRUE if the pool takes blocks of @bin before blocks of @other.  Bins of larger sizes come
 * first.  Bins of the same size come in the order of TarnBinsKind: first idle bins, whose blocks no
 * commands use. */
static gboolean
comes_before (const TarnBin *bin, const TarnBin *other)
{
  return bin->number != other->number ? bin->number > other->number
                                      : bin->bins->kind < other->bins->kind;
}

static void
put (TarnLargest *self, gsize i, TarnBin *bin)
{
  self->bins[i] = bin;
  bin->place = i + 1;
}

/* Puts a bin at the index @i of the binary heap, or above this index in the tree. */
static void
put_up (TarnLargest *self, gsize i, TarnBin *bin)
{
  for (; i > 0 && comes_before (bin, self->bins[(i - 1) / 2]); i = (i - 1) / 2)
    put (self, i, self->bins[(i - 1) / 2]);
  put (self, i, bin);
}

/* Puts a bin at the index @i of the binary heap, or below this index in the tree. */
static void
put_down (TarnLargest *self, gsize i, TarnBin *bin)
{
  gsize child;

  for (; (child = 2 * i + 1) < self->n; i = child)
    {
      if (child + 1 < self->n && comes_before (self->bins[child + 1], self->bins[child]))
        child++;
      if (!comes_before (self->bins[child], bin))
        break;
      put (self, i, self->bins[child]);
    }
  put (self, i, bin);
}

/* Adds a bin to the binary heap, after the bin got its first block.  Does nothing if the binary
 * heap has the bin already. */
void
_tarn_largest_add (TarnLargest *self, TarnBin *bin)
{
  if (bin->place != 0)
    return;
  if (self->n == self->max)
    {
      self->max = 2 * self->max + 16;
      self->bins = g_renew (TarnBin *, self->bins, self->max);
    }
  put_up (self, self->n++, bin);
}

/* Removes a bin from the binary heap.  Does nothing if the binary heap does not have the bin. */
void
_tarn_largest_remove (TarnLargest *self, TarnBin *bin)
{
  gsize i = bin->place - 1;
  TarnBin *last;

  if (bin->place == 0)
    return;
  bin->place = 0;
  last = self->bins[--self->n];
  if (last == bin)
    return;
  if (comes_before (last, bin))
    put_up (self, i, last);
  else
    put_down (self, i, last);
}

/* Returns the bin with the largest blocks, or NULL if no bin has a block. */
TarnBin *
_tarn_largest_get (TarnLargest *self)
{
  while (self->n > 0 && self->bins[0]->length == 0)
    _tarn_largest_remove (self, self->bins[0]);
  return self->n > 0 ? self->bins[0] : NULL;
}

/* Returns TRUE if the binary heap is valid: the field place of each bin is right, and no bin comes
 * before its parent in the order of comes_before (). */
gboolean
_tarn_largest_is_ordered (const TarnLargest *self)
{
  for (gsize i = 0; i < self->n; i++)
    if (self->bins[i]->place != i + 1
        || (i > 0 && comes_before (self->bins[i], self->bins[(i - 1) / 2])))
      return FALSE;
  return TRUE;
}

void
_tarn_largest_clear (TarnLargest *self)
{
  g_assert (self->n == 0);
  g_free (self->bins);
}
