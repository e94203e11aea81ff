/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * CLBlast's temporary buffers from pools, one for each context. clblast.patch declares and calls
 * these functions. */

#define CL_TARGET_OPENCL_VERSION 120
#include <tarn/opencl.h>

static GMutex lock;
static GHashTable *pools; /* of each context */
void (*const clblast_tarn_unref_pool) (TarnPool *) = tarn_pool_unref;

TarnPool *
clblast_tarn_ref_pool (cl_context context, cl_command_queue queue)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&lock);
  TarnPool *pool;

  if (pools == NULL)
    pools = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) tarn_pool_unref);
  pool = g_hash_table_lookup (pools, context);
  options.flags = TARN_POOL_FINDABLE;
  if (pool == NULL && (pool = tarn_opencl_pool_new (queue, 0, &options, NULL)) != NULL)
    g_hash_table_insert (pools, context, pool);
  return pool != NULL ? tarn_pool_ref (pool) : NULL;
}

void
clblast_tarn_clear (void)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&lock);

  g_clear_pointer (&pools, g_hash_table_unref);
}

cl_mem
clblast_tarn_allocate (TarnPool *pool, cl_command_queue queue, gsize size, cl_int *status)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_opencl_pool_allocate (pool, size, queue, &error);

  *status = tarn_opencl_error_to_status (error);
  return block != NULL ? tarn_opencl_block_get_buffer (block) : NULL;
}

void
clblast_tarn_free (TarnPool *pool, cl_mem buffer)
{
  tarn_block_free (tarn_opencl_pool_find (pool, buffer));
}
