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

/**
 * Checks all memory that is debugged, by TARN_DEBUG or TarnPoolOptions.debug. It looks at the
 * guards of each block in use, and at the contents of freed blocks in quarantine. It logs a
 * g_critical () for each mistake, as the library does when it finds one by itself. What was written
 * beside a block is logged and counted once, and not again when the block is freed.
 *
 * The backend reads memory after the commands that were put on its queue, and only the caller waits
 * for that. Commands that write to blocks in use do not disturb it. If another thread frees a block
 * meanwhile, its memory goes back after the check.
 *
 * @return how many mistakes were found since the program began; any thread may call it
 * @since 0.1
 */
gsize tarn_debug_check (void);

/**
 * Notes that a block is freed here, for messages. Another thread, or another function, gives it
 * back later with tarn_block_free(), until which it stays in use. What TARN_DEBUG finds of it
 * afterwards names the calling thread, and its stack, as those that freed it. Without TARN_DEBUG in
 * the environment nothing is done.
 *
 * @param block  a block in use; NULL is allowed. Any thread may call it, but not while another one
 *               frees the block.
 * @since 0.1
 */
void tarn_debug_note_free (TarnBlock *block);

/**
 * Gets whether TARN_DEBUG or an option of its own looks at a pool's blocks. Then the pool holds
 * nothing, and reads and fills memory when a block is allocated and freed; see
 * TarnPoolOptions.debug.
 *
 * @param pool  a pool; any thread may call it
 * @return TRUE if guards, poison or leaks are looked for, FALSE with check alone and without any
 * @since 0.1
 */
gboolean tarn_pool_is_debugged (TarnPool *pool);

G_END_DECLS

#endif
