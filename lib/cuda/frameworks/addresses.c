/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Finds blocks by their addresses, because a framework (PyTorch or CuPy) passes only the address
 * when it frees memory.  The blocks in use are in 64 hash tables, so two threads seldom use the
 * same table at the same time.  A thread holds a table's lock only while it reads or changes the
 * table. */

#include "common/lock-private.h"
#include "frameworks-private.h"

#define N_TABLES 64

typedef struct
{
  TarnMutex lock;
  GHashTable *blocks; /* maps the address of a block in use to the TarnBlock */
} __attribute__ ((aligned (64))) Table;

static Table tables[N_TABLES];

static void __attribute__ ((constructor)) make_tables (void)
{
  for (guint i = 0; i < N_TABLES; i++)
    {
      _tarn_mutex_init (&tables[i].lock);
      tables[i].blocks = g_hash_table_new (NULL, NULL);
    }
}

/* Returns the hash table that contains the block at @address while the block is in use.  Blocks
 * begin at multiples of 512 bytes.  Two addresses that are exactly 512 bytes apart always have
 * different tables, so two threads that use neighbouring small blocks do not wait for the same
 * lock. */
static Table *
table_of (gconstpointer address)
{
  guint64 mixed = (guint64) GPOINTER_TO_SIZE (address) * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);

  return &tables[mixed >> 58];
}

static void
remember (TarnBlock *block)
{
  gpointer address = _tarn_cuda_framework_address (block);
  Table *table = table_of (address);

  _tarn_mutex_lock (&table->lock);
  g_hash_table_insert (table->blocks, address, block);
  _tarn_mutex_unlock (&table->lock);
}

TarnBlock *
_tarn_cuda_framework_find (gconstpointer address)
{
  Table *table = table_of (address);
  TarnBlock *block;

  _tarn_mutex_lock (&table->lock);
  block = g_hash_table_lookup (table->blocks, address);
  _tarn_mutex_unlock (&table->lock);
  return block;
}

static TarnBlock *
take (gconstpointer address)
{
  Table *table = table_of (address);
  gpointer block = NULL;

  _tarn_mutex_lock (&table->lock);
  g_hash_table_steal_extended (table->blocks, address, NULL, &block);
  _tarn_mutex_unlock (&table->lock);
  return block;
}

/* Allocates from a shared pool.  Returns NULL with an error if the allocation fails.  If @shared is
 * NULL, returns NULL, and leaves @error as it is: the caller could not get the pool, and has set
 * @error. */
static TarnBlock *
allocate_shared (TarnCudaShared *shared, gsize size, CUstream stream, GError **error)
{
  return shared != NULL ? tarn_cuda_pool_allocate (shared->pool, size, stream, error) : NULL;
}

static TarnBlock *
allocate (gsize size, CUdevice device, CUstream stream, GError **error)
{
  GError *local = NULL;
  TarnBlock *block;

  if (_tarn_cuda_is_capturing (stream))
    return _tarn_cuda_graph_memory_allocate (size, device, stream, error);
  block = allocate_shared (_tarn_cuda_shared_get (device, &local), size, stream, &local);
  if (g_error_matches (local, TARN_ERROR, TARN_ERROR_CONTEXT_LOST))
    {
      /* A reset of the device has destroyed the shared pool's context.  So make a new pool. */
      g_clear_error (&local);
      block = allocate_shared (_tarn_cuda_shared_renew (device, &local), size, stream, &local);
    }
  if (local != NULL)
    g_propagate_error (error, local);
  return block;
}

TarnBlock *
_tarn_cuda_framework_allocate (gsize size, CUdevice device, CUstream stream, GError **error)
{
  TarnBlock *block;

  if (!tarn_check_fork (error))
    return NULL;
  block = allocate (size, device, stream, error);
  if (block != NULL)
    remember (block);
  return block;
}

/* Frees a block that the caller has removed from the hash tables.  If several streams of a captured
 * graph use the block, keeps it instead, as long as the graph exists. */
static void
free_block (TarnBlock *block)
{
  if (_tarn_cuda_graph_memory_keep (block))
    return;
  tarn_block_free (block);
  _tarn_cuda_graph_pieces_settle ();
}

void
_tarn_cuda_framework_free (const gchar *function, gconstpointer address)
{
  TarnBlock *block;

  if (address == NULL
      /* a child of fork () must not take the lock: a thread of the parent may have held it */
      || !tarn_check_fork (NULL))
    return;
  block = take (address);
  if (block != NULL)
    free_block (block);
  else
    g_critical ("%s: %p is not in use", function, address);
}
