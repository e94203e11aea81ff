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

/**
 * Gets the memory of a block, in its backend's terms. A backend has an accessor with its own type,
 * such as tarn_opencl_block_get_buffer().
 *
 * @param block  a block in use; any thread may call it
 * @return (transfer none): valid until tarn_block_free()
 * @since 0.1
 */
TarnMemory tarn_block_get_memory (const TarnBlock *block);

/**
 * Gets the size that was asked for when a block was allocated.
 *
 * @param block  a block in use; any thread may call it
 * @return bytes
 * @since 0.1
 */
gsize tarn_block_get_size (const TarnBlock *block);

/**
 * Gets the size of the memory behind a block. It is at least what was asked for, and all of it may
 * be used.
 *
 * @param block  a block in use; any thread may call it
 * @return bytes
 * @since 0.1
 */
gsize tarn_block_get_alloc_size (const TarnBlock *block);

/**
 * Gets the direct allocator that a block's memory comes from. Pools in between are passed over.
 *
 * @param block  a block in use; any thread may call it
 * @return (transfer none): valid until tarn_block_free(), and longer with tarn_allocator_ref()
 * @since 0.1
 */
TarnAllocator *tarn_block_get_allocator (const TarnBlock *block);

/**
 * Records that commands on a queue use a block. It is for queues other than the one that the block
 * was allocated for. After the block is freed, its memory is not used again until all commands that
 * the queue had at the free are done.
 *
 * @param block  a block in use
 * @param queue  a cl_command_queue or CUstream, alive until the block is freed; a backend has a
 *               function with its own type, such as tarn_opencl_block_record_use()
 * @param error  return location, or NULL: TARN_ERROR_NOT_SUPPORTED if its allocator has no queues;
 *               what the backend says of the queue; TARN_ERROR_FORKED in a child of fork ()
 * @return TRUE, or FALSE with @p error set and nothing changed; any thread may call it, one at a
 *         time for a block
 * @since 0.1
 */
gboolean tarn_block_record_use (TarnBlock *block, gpointer queue, GError **error);

/**
 * Moves a block to one queue, which waits for the others. The queue waits for all commands that
 * they have at the call. Afterwards the block belongs to this queue alone. tarn_block_wait() makes
 * the host wait.
 *
 * @param block  a block in use
 * @param queue  as for tarn_block_record_use(); a backend has a function with its own type, such as
 *               tarn_cuda_block_move_to_stream()
 * @param error  return location, or NULL: as tarn_block_record_use()
 * @return TRUE, or FALSE with @p error set; any thread may call it, one at a time for a block
 * @since 0.1
 */
gboolean tarn_block_move_to_queue (TarnBlock *block, gpointer queue, GError **error);

/**
 * Makes the host wait for the queues that use a block. These are the queues that the block was
 * allocated for, moved to or recorded with. The host waits for all commands that they have at the
 * call. Afterwards the block belongs to no queue.
 *
 * @param block  a block in use
 * @param error  return location, or NULL: what the backend says; TARN_ERROR_FORKED in a child of
 *               fork ()
 * @return TRUE, also for a block that was no queue's, or FALSE with @p error set; any thread may
 *         call it, one at a time for a block
 * @since 0.1
 */
gboolean tarn_block_wait (TarnBlock *block, GError **error);

/**
 * Gets the queue that a block is used on.
 *
 * @param block  a block in use; any thread may call it, while none moves the block or records a use
 * @return (transfer none): the queue that it was allocated for, moved to or first recorded with;
 *         NULL: none. Of CUDA's default streams, only tarn_cuda_block_get_stream() tells which
 *         it is.
 * @since 0.1
 */
gpointer tarn_block_get_queue (const TarnBlock *block);

/**
 * Hides a block from tarn_pool_find(). It is for adaptors that take blocks of a pool and hand out
 * parts of them, of which one has the memory that the whole has.
 *
 * @param block  a block in use; of a pool without TARN_POOL_FINDABLE, and of no pool, it is hidden
 *               anyway. Any thread may call it, but not while another one frees the block.
 * @since 0.1
 */
void tarn_block_hide (TarnBlock *block);

/**
 * Takes a reference on a block. Each holder of a reference frees the block, and the last of them
 * returns its memory. It is for handles that are counted; a block that has one owner needs none,
 * and its free is faster.
 *
 * @param block  a block in use, of which the caller has a reference; any thread may call it
 * @return (transfer full): @p block, for tarn_block_free(); in a child of fork () no reference is
 *         taken, as none is dropped there
 * @since 0.1
 */
TarnBlock *tarn_block_ref (TarnBlock *block);

/**
 * Frees a block: returns its memory to the pool or to the allocator it is from. The pool's or
 * allocator's last reference may be gone; a block's memory keeps what it needs alive. To free a
 * block twice is a programming error, and reported as g_critical wherever it can be seen, which it
 * is not where two threads do it at the same moment. In a child of fork () nothing is done, and a
 * pool counts it. Where tarn_block_ref() has given out references, the last one frees the block.
 *
 * @param block  (transfer full): a block; NULL is allowed. Any thread may call it.
 * @since 0.1
 */
void tarn_block_free (TarnBlock *block);

/**
 * Frees a block that a queue may still use. It records the queue as tarn_block_record_use() does,
 * unless the block is that queue's anyway, and frees the block. The memory is not used again before
 * everything put on the queue so far is done. It is for programs that know only at the end which
 * queue they used.
 *
 * If the queue cannot be recorded, the block stays in use, and a message says why: Tarn could not
 * tell when its memory may be used again.
 *
 * @param block  (transfer full): a block; NULL is allowed. Any thread may call it.
 * @param queue  nullable: as for tarn_block_record_use(); NULL: as tarn_block_free(). A backend has
 *               a function with its own type, such as tarn_opencl_block_free_on().
 * @since 0.1
 */
void tarn_block_free_on (TarnBlock *block, gpointer queue);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TarnBlock, tarn_block_free)

G_END_DECLS

#endif
