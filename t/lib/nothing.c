/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "nothing.h"

static gboolean
allocate_nothing (gpointer unused, gsize size, TarnMemory *memory, GError **error)
{
  (void) unused;
  (void) size;
  (void) memory;
  (void) error;
  return TRUE;
}

static void
free_nothing (gpointer unused, TarnMemory memory, gsize size)
{
  (void) unused;
  (void) size;
  g_assert_cmpuint (memory.address, ==, 0);
}

void
nothing_ops_init (TarnAllocatorOps *ops)
{
  *ops = (TarnAllocatorOps) TARN_ALLOCATOR_OPS_INIT;
  ops->allocate = allocate_nothing;
  ops->free = free_nothing;
}
