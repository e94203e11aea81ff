/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Logs a message if a program has passed a block of one backend to a function of another one. */

#ifndef TARN_OTHER_BLOCK_PRIVATE_H
#define TARN_OTHER_BLOCK_PRIVATE_H

#include <tarn/block.h>

#include "common/shorten-private.h"

/* Logs that the program has passed a block of the wrong allocator to the function @function.
 * @expected: a text that names the allocators whose blocks the function accepts. */
static inline void
_tarn_report_other_block (const gchar *function, const TarnBlock *block, const gchar *expected)
{
  const gchar *name = tarn_allocator_get_name (tarn_block_get_allocator (block));
  g_autofree gchar *quoted = name != NULL ? _tarn_shorten (name) : NULL;

  if (quoted != NULL)
    g_critical ("%s: the block is from allocator '%s', but must be from %s", function, quoted,
                expected);
  else
    g_critical ("%s: the block is from an unnamed allocator, but must be from %s", function,
                expected);
}

#endif
