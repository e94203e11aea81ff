/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Measures the host memory that a pool needs for each block.  Asks malloc () how many bytes are
 * allocated while the pool has many blocks.  The allocator below the pool needs no host memory. */

#include <config.h>

#include <malloc.h>

#include "measures.h"

#define N_BLOCKS 100000 /* many, so that the pool's fixed memory adds little for each block */

static gboolean
get_host_bytes (gdouble *bytes, GError **error)
{
#ifdef HAVE_MALLINFO2
  struct mallinfo2 info = mallinfo2 ();

  *bytes = (gdouble) info.uordblks + (gdouble) info.hblkhd;
  if (*bytes > 0)
    return TRUE;
#else
  (void) bytes;
#endif
  /* Some malloc () functions, such as a sanitizer's, do not count their bytes. */
  g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
               "the C library does not count its allocations");
  return FALSE;
}

/* Frees the blocks of an array, which ends at the first NULL. */
static void
free_blocks (TarnBlock **blocks)
{
  for (guint i = 0; i < N_BLOCKS && blocks[i] != NULL; i++)
    tarn_block_free (blocks[i]);
}

static gboolean
allocate_blocks (TarnPool *pool, TarnBlock **blocks, GError **error)
{
  for (guint i = 0; i < N_BLOCKS; i++)
    if ((blocks[i] = tarn_pool_allocate (pool, ONE_SIZE, error)) == NULL)
      return FALSE;
  return TRUE;
}

/* Measures the host memory, in bytes, that the pool needs for a block in use, and for a cached
 * block. */
static gboolean
weigh (const Source *source, gdouble *active, gdouble *held, GError **error)
{
  g_autofree TarnBlock **blocks = g_new0 (TarnBlock *, N_BLOCKS);
  g_autoptr (TarnPool) pool = NULL;
  gdouble before, during, after;
  gboolean is_known = get_host_bytes (&before, error);

  if (!is_known || (pool = tarn_pool_new (source->allocator, NULL, error)) == NULL)
    return FALSE;
  is_known = allocate_blocks (pool, blocks, error) && get_host_bytes (&during, error);
  free_blocks (blocks);
  if (!is_known || !get_host_bytes (&after, error))
    return FALSE;
  *active = (during - before) / N_BLOCKS;
  *held = (after - before) / N_BLOCKS;
  return TRUE;
}

/* Measures only once, without repetitions, because the result would be the same each time. */
void
measure_memory (const Bench *bench, const Source *source, const Measure *measure)
{
  Result *active
      = results_add (bench->results, source, measure->name, 1, g_strdup ("in use"), "bytes");
  Result *held = results_add (bench->results, source, measure->name, 1, g_strdup ("held"), "bytes");
  gdouble active_bytes, held_bytes;
  GError *error = NULL;

  if (weigh (source, &active_bytes, &held_bytes, &error))
    {
      result_set (active, spread_of_one (active_bytes));
      result_set (held, spread_of_one (held_bytes));
      return;
    }
  result_fail (active, g_error_copy (error));
  result_fail (held, error);
}
