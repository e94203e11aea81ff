/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Frees blocks of pools that inspect each block when it is freed.  Such a pool has one or both of
 * these properties:
 * - The program can look up a block by its memory (TARN_POOL_FINDABLE).
 * - The memory of its blocks is a handle with a reference count, such as a cl_mem.  The program may
 *   still have a reference to the handle when it frees the block (upstream/aside.c). */

#include "base/fork-private.h"
#include "common/argument-private.h"
#include "debug/debug-private.h"
#include "order/order-private.h"
#include "upstream/upstream-private.h"

/* Reports a mistake: the program has freed a block, but still has a reference to the handle that is
 * the block's memory.  Only debugged pools (TARN_DEBUG) report this. */
static void
report_retained (const TarnPool *pool, const TarnBlock *block)
{
  g_autofree gchar *text
      = g_strdup_printf ("%s: memory 0x%" G_GINT64_MODIFIER "x of %" G_GSIZE_FORMAT
                         " bytes is freed, but the program still retains it",
                         pool->base.label, block->memory.address, block->size);

  _tarn_finding_count (FALSE, text);
  g_critical ("%s", text);
}

/* Makes a block unfindable: removes it from the index in which its pool finds blocks by their
 * memory.  If another pool redirects requests to this pool (redirect.c), removes the block from the
 * index of that pool, too. */
static void
unfind (TarnPool *pool, TarnBlock *block)
{
  TarnPool *finder = g_atomic_pointer_get (&pool->finder);

  _tarn_index_remove (&pool->index, block);
  if (finder != NULL)
    _tarn_index_remove (&finder->index, block);
}

/* Frees a block of a pool that inspects each block when it is freed.  Sets the block aside if the
 * program still has references to its memory.  Also checks a few of the blocks that earlier frees
 * have set aside. */
void
_tarn_pool_free_watched (TarnBlock *block)
{
  TarnPool *pool = _tarn_pool_of (block->source);

  if (_tarn_forked ())
    {
      _tarn_pool_free_block (block);
      return;
    }
  if (TARN_UNLIKELY (block->state == TARN_BLOCK_SHARED) && _tarn_pool_drop_reference (pool, block))
    return;
  if (pool->policy.is_findable)
    unfind (pool, block);
  if (!pool->policy.asks_retained || block->state != TARN_BLOCK_ACTIVE)
    {
      _tarn_pool_free_block (block); /* frees the block, or reports a double free */
      return;
    }
  _tarn_pool_look_aside (pool, _tarn_pool_free_block);
  if (TARN_UNLIKELY (_tarn_pool_is_retained (pool, block)))
    {
      if (pool->policy.is_debugged)
        report_retained (pool, block);
      if (_tarn_pool_set_aside (pool, block))
        return;
    }
  _tarn_pool_free_block (block);
}

TarnBlock *
tarn_pool_find (TarnPool *pool, TarnMemory memory)
{
  g_return_val_if_fail (pool != NULL, NULL);
  g_return_val_if_fail (pool->policy.is_findable, NULL);

  return memory.address != 0 && !_tarn_forked () ? _tarn_index_find (&pool->index, memory) : NULL;
}

void
tarn_block_hide (TarnBlock *block)
{
  TarnPool *pool;

  g_return_if_fail (block != NULL);

  if (_tarn_forked () || block->source->klass->trace_class != TARN_TRACE_POOL)
    return;
  pool = _tarn_pool_of (block->source);
  if (pool->policy.is_findable)
    unfind (pool, block);
}

static void
set_not_found_error (const TarnPool *pool, TarnMemory memory, GError **error)
{
  if (!pool->policy.is_findable)
    g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
                 "%s finds no blocks by their memory: it was made without "
                 "TARN_POOL_FINDABLE",
                 pool->base.label);
  else
    g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                 "%s: memory 0x%" G_GINT64_MODIFIER "x is that of no block in use",
                 pool->base.label, memory.address);
}

gboolean
tarn_pool_free_memory (TarnPool *pool, TarnMemory memory, gpointer queue, GError **error)
{
  TarnBlock *block;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (pool, FALSE);

  if (_tarn_pool_ignore_free (pool))
    return TRUE;
  block = pool->policy.is_findable && memory.address != 0 ? _tarn_index_find (&pool->index, memory)
                                                          : NULL;
  if (block == NULL)
    {
      set_not_found_error (pool, memory, error);
      return FALSE;
    }
  if (!_tarn_block_use_last (block, queue, error))
    return FALSE;
  tarn_block_free (block);
  return TRUE;
}
