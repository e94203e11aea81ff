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
 * Gets the memory of a block: a handle or an address of its backend. A backend has an accessor with
 * its own type, such as tarn_opencl_block_get_buffer().
 *
 * @param block  a block in use; any thread may call it
 * @return (transfer none): valid until tarn_block_free()
 * @since 0.1
 */
TarnMemory tarn_block_get_memory (const TarnBlock *block);

/**
 * Gets the size that the request for a block asked for.
 *
 * @param block  a block in use; any thread may call it
 * @return bytes
 * @since 0.1
 */
gsize tarn_block_get_size (const TarnBlock *block);

/**
 * Gets the size of a block's memory. It is at least the requested size. The program may use all of
 * it.
 *
 * @param block  a block in use; any thread may call it
 * @return bytes
 * @since 0.1
 */
gsize tarn_block_get_alloc_size (const TarnBlock *block);

/**
 * Gets the direct allocator that a block's memory comes from. This allocator is below all pools and
 * heaps.
 *
 * @param block  a block in use; any thread may call it
 * @return (transfer none): valid until tarn_block_free(), and longer with tarn_allocator_ref()
 * @since 0.1
 */
TarnAllocator *tarn_block_get_allocator (const TarnBlock *block);

/**
 * Records that commands on a queue use a block. Call this for each queue except the one for which
 * the block was allocated. After the program has freed the block, Tarn reuses the block's memory
 * only when all commands that the queue had at the free are done.
 *
 * @param block  a block in use
 * @param queue  a cl_command_queue or CUstream, alive until the block is freed; a backend has a
 *               function with its own type, such as tarn_opencl_block_record_use()
 * @param error  return location, or NULL: TARN_ERROR_NOT_SUPPORTED if the block's allocator has no
 *               queues; the backend's error for the queue; TARN_ERROR_FORKED in a child of fork ()
 * @return TRUE, or FALSE with @p error set and nothing changed; any thread may call it, but only
 *         one at a time for the same block
 * @since 0.1
 */
gboolean tarn_block_record_use (TarnBlock *block, gpointer queue, GError **error);

/**
 * Moves a block to a queue, which waits for the block's other queues. The queue waits for all
 * commands that these other queues have at the time of the call. Afterwards the block belongs to
 * this queue alone. To make the host wait instead, use tarn_block_wait().
 *
 * @param block  a block in use
 * @param queue  as for tarn_block_record_use(); a backend has a function with its own type, such as
 *               tarn_cuda_block_move_to_stream()
 * @param error  return location, or NULL: as tarn_block_record_use()
 * @return TRUE, or FALSE with @p error set; any thread may call it, but only one at a time for the
 *         same block
 * @since 0.1
 */
gboolean tarn_block_move_to_queue (TarnBlock *block, gpointer queue, GError **error);

/**
 * Makes the host wait for the queues that use a block. These are the queues that the block was
 * allocated for, moved to or recorded with. The host waits for all commands that these queues have
 * at the time of the call. Afterwards the block belongs to no queue.
 *
 * @param block  a block in use
 * @param error  return location, or NULL: the backend's error; TARN_ERROR_FORKED in a child of fork
 *               ()
 * @return TRUE, also for a block without a queue, or FALSE with @p error set; any thread may call
 *         it, but only one at a time for the same block
 * @since 0.1
 */
gboolean tarn_block_wait (TarnBlock *block, GError **error);

/**
 * Gets the queue that a block is used on.
 *
 * @param block  a block in use; any thread may call it, while no thread moves the block or records
 *               a use
 * @return (transfer none): the queue that it was allocated for, moved to or first recorded with;
 *         NULL: none. With CUDA, call tarn_cuda_block_get_stream() instead: for a default stream,
 *         this result may be no CUstream.
 * @since 0.1
 */
gpointer tarn_block_get_queue (const TarnBlock *block);

/**
 * Hides a block from tarn_pool_find(). The call is for adaptors that suballocate from a pool's
 * blocks: the first suballocation of a block has the block's address, so the pool would find the
 * whole block instead.
 *
 * @param block  a block in use; a block without a pool, or of a pool without TARN_POOL_FINDABLE, is
 *               hidden anyway. Any thread may call it, but not while another thread frees the
 *               block.
 * @since 0.1
 */
void tarn_block_hide (TarnBlock *block);

/**
 * Takes a reference on a block. Each owner of a reference frees the block, and the last free
 * returns the memory. It is for programs whose own handles are reference-counted. A block with one
 * owner needs no reference, and its free is faster.
 *
 * @param block  a block in use, of which the caller has a reference; any thread may call it
 * @return (transfer full): @p block, for tarn_block_free(); in a child of fork () the call does
 *         nothing, and neither does the free
 * @since 0.1
 */
TarnBlock *tarn_block_ref (TarnBlock *block);

/**
 * Frees a block: returns its memory to the pool or to the allocator it is from. The last reference
 * to the pool or allocator may be gone already: a block keeps alive what it needs. If
 * tarn_block_ref() has added references, only the last free returns the memory. To free a block
 * twice is a programming error. Tarn usually reports it by g_critical (), but not if two threads
 * free the block at the same moment. In a child of fork () the call does nothing, but a pool counts
 * it.
 *
 * @param block  (transfer full): a block; NULL is allowed. Any thread may call it.
 * @since 0.1
 */
void tarn_block_free (TarnBlock *block);

/**
 * Frees a block that a queue may still use. The function records the queue as
 * tarn_block_record_use() does, unless the block belongs to that queue anyway, and frees the block.
 * Tarn reuses the memory only after the queue's present commands. Use this function if the program
 * knows only at the end which queue it used.
 *
 * If the queue cannot be recorded, the block stays in use, because Tarn could not find out when its
 * memory may be reused. A message has the driver's error.
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
