/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Blocks: memory in use.
 */

#ifndef TARN_BLOCK_H
#define TARN_BLOCK_H

#include <tarn/allocator.h>

G_BEGIN_DECLS

TarnMemory tarn_block_get_memory (const TarnBlock *block);
gsize tarn_block_get_size (const TarnBlock *block);
gsize tarn_block_get_alloc_size (const TarnBlock *block);
TarnAllocator *tarn_block_get_allocator (const TarnBlock *block);
gboolean tarn_block_record_use (TarnBlock *block, gpointer queue, GError **error);
gboolean tarn_block_move_to_queue (TarnBlock *block, gpointer queue, GError **error);
gboolean tarn_block_wait (TarnBlock *block, GError **error);
gpointer tarn_block_get_queue (const TarnBlock *block);
void tarn_block_hide (TarnBlock *block);
TarnBlock *tarn_block_ref (TarnBlock *block);
void tarn_block_free (TarnBlock *block);
void tarn_block_free_on (TarnBlock *block, gpointer queue);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnBlock, tarn_block_free)

G_END_DECLS

#endif
