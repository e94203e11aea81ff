/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Blocks that are followed by unmapped addresses (a gap).  Each block has a virtual memory mapping
 * of its own, and lies at the end of that mapping:
 *
 *     margin | user's part | rest, up to a multiple of the alignment | unmapped addresses
 *
 * If a kernel accesses addresses after the rest, the device reports a fault.  The same happens if a
 * kernel uses a freed block whose memory was returned to the driver. */

#include "debug/debug-private.h"

static const TarnAllocatorOps *
ops_of (const TarnGuarded *self)
{
  return &self->direct->ops;
}

gboolean
_tarn_gaps_are_there (const TarnGuarded *self)
{
  return self->margin > 0 && ops_of (self)->virtual_granularity >= self->margin
         && ops_of (self)->backing_stays == NULL;
}

static gsize
get_reserved (const TarnGuarded *self, const TarnDebugBlock *block)
{
  return block->whole_size + ops_of (self)->virtual_granularity;
}

/* Releases a block's reserved addresses.  If @is_mapped is TRUE, unmaps the block's backing
 * (physical memory) first.  If @has_backing is TRUE, releases the backing, too. */
static void
release (const TarnGuarded *self, const TarnDebugBlock *block, gboolean has_backing,
         gboolean is_mapped)
{
  if (is_mapped)
    _tarn_call (self->direct, backing_unmap, block->whole, block->whole_size);
  if (has_backing)
    _tarn_direct_release_backing (self->direct, block->whole_size, block->backing);
  _tarn_call (self->direct, addresses_release, block->whole, get_reserved (self, block));
}

void
_tarn_gaps_measure (const TarnGuarded *self, TarnDebugBlock *block)
{
  gsize end = _tarn_round_up (MAX (block->size, 1), MAX (self->margin, block->alignment));

  block->whole_size = _tarn_round_up (self->margin + end, ops_of (self)->virtual_granularity);
  block->margin = block->whole_size - end;
}

gboolean
_tarn_gaps_take (const TarnGuarded *self, TarnDebugBlock *block, GError **error)
{
  if (!_tarn_call (self->direct, addresses_reserve, get_reserved (self, block), &block->whole,
                   error))
    return FALSE;
  if (!_tarn_direct_take_backing (self->direct, block->whole_size, &block->backing, error))
    {
      release (self, block, FALSE, FALSE);
      return FALSE;
    }
  block->has_gap = _tarn_call (self->direct, backing_map, block->backing, block->whole_size,
                               block->whole, error);
  if (!block->has_gap)
    release (self, block, TRUE, FALSE);
  return block->has_gap;
}

void
_tarn_gaps_give_back (const TarnGuarded *self, const TarnDebugBlock *block)
{
  release (self, block, TRUE, TRUE);
}
