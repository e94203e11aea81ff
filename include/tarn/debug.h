/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Finding what a program does wrong with memory: TARN_DEBUG.
 */

#ifndef TARN_DEBUG_H
#define TARN_DEBUG_H

#include <glib.h>
#include <tarn/block.h>
#include <tarn/pool.h>

G_BEGIN_DECLS

gsize tarn_debug_check (void);
void tarn_debug_note_free (TarnBlock *block);
gboolean tarn_pool_is_debugged (TarnPool *pool);

G_END_DECLS

#endif
