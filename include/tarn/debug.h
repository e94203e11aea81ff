/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Finds a program's mistakes in its use of memory: TARN_DEBUG.
 */

#ifndef TARN_DEBUG_H
#define TARN_DEBUG_H

#include <glib.h>
#include <tarn/block.h>
#include <tarn/pool.h>

G_BEGIN_DECLS

/**
 * Checks all memory that TARN_DEBUG or TarnPoolOptions.debug covers. It looks at the guards of each
 * block in use, and at the contents of freed blocks in quarantine. It logs a g_critical () for each
 * mistake, as the library does when it finds one by itself. An out-of-bounds write is logged and
 * counted once, and not again when the block is freed.
 *
 * The driver reads the memory after the commands that are now on the backend's queue. Only the
 * caller waits for this. Meanwhile other commands may write to blocks in use. If another thread
 * frees a block meanwhile, its memory is returned after the check.
 *
 * @return the number of mistakes found since the program began; any thread may call it
 * @since 0.1
 */
gsize tarn_debug_check (void);

/**
 * Notes the calling thread as the one that frees a block, for messages. Call it where the program
 * gives a block up, if another function or thread calls tarn_block_free() later. The block stays in
 * use until then. Messages of TARN_DEBUG about the block then name this thread and its stack as the
 * place of the free. If the pool is not debugged (tarn_pool_is_debugged()), the call does nothing.
 *
 * @param block  a block in use; NULL is allowed. Any thread may call it, while no thread frees the
 *               block.
 * @since 0.1
 */
void tarn_debug_note_free (TarnBlock *block);

/**
 * Reports that the program uses a block that it has already given up. A library that frees its
 * user's blocks later, and calls tarn_debug_note_free(), can report such uses. Logs a g_critical ()
 * that names the block, the calling thread and its stack, and the threads that allocated the block
 * and gave it up. The use counts as a mistake, as in tarn_debug_check(). If the pool is not
 * debugged (tarn_pool_is_debugged()), the call does nothing.
 *
 * @param block  a block in use; NULL is allowed. Any thread may call it, while no thread frees the
 *               block.
 * @since 0.1
 */
void tarn_debug_report_use (TarnBlock *block);

/**
 * Returns TRUE if a pool's blocks are debugged. TARN_DEBUG or TarnPoolOptions.debug turns debugging
 * on. Such a pool holds no blocks, and it reads and fills memory when a block is allocated and
 * freed.
 *
 * @param pool  a pool; any thread may call it
 * @return TRUE if guards, poison or leaks are enabled; otherwise FALSE, even if check is enabled
 * @since 0.1
 */
gboolean tarn_pool_is_debugged (TarnPool *pool);

G_END_DECLS

#endif
