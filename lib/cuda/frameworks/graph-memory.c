/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory for graphs that PyTorch captures (torch.cuda.graph).  A graph keeps the addresses of its
 * tensors: each launch writes there, even after the tensors were freed.  So a request in a capture
 * is served from a store of its own, which PyTorch names by two numbers.  No other request gets
 * memory of that store until its last graph is gone.
 *
 * Within a store, freed memory is allocated again, because the graph's commands run in the order of
 * the capture; but only for the same stream, because branches of a graph run side by side.  Each
 * stream has a pool there, over a heap, over memory of the pool that the process shares
 * (cuda/graph-pieces.c).  The store keeps it, at its addresses, as long as it lives.
 *
 * While PyTorch captures, the host must not wait for the device.  So memory is returned only once
 * no capture is under way. */

#include "common/lock-private.h"
#include "frameworks-private.h"

/* The memory of one of PyTorch's pools.
 *
 * Invariant: it is in the list of stores while n_uses > 0, and only then. */
typedef struct
{
  CUdevice device;
  TarnCudaTorchPoolId id;
  guint n_uses;          /* captures that have begun, minus those whose graphs are gone */
  TarnAllocator *pieces; /* a reference */
  GHashTable *pools;     /* CUstream -> TarnPool, a reference */
  GPtrArray *kept; /* TarnBlocks that were freed, but are used by other streams of the graph */
} Store;

/* A capture in progress, as far as PyTorch says.  It does not say when one fails; the next one that
 * its thread begins replaces it. */
typedef struct
{
  Store *store;
  const GThread *thread; /* the thread that began it */
} Capture;

/* Each capture's store is in the list of stores. */
static TarnMutex lock = TARN_MUTEX_INIT;
static GPtrArray *stores;    /* Stores */
static GArray *captures;     /* Captures, the oldest first */
static GHashTable *recorded; /* TarnBlock in use that several streams of a graph use -> its Store */
static guint n_counted;      /* their number, as passed to _tarn_cuda_count_captures () */

static void __attribute__ ((constructor)) make_lists (void)
{
  stores = g_ptr_array_new ();
  captures = g_array_new (FALSE, FALSE, sizeof (Capture));
  recorded = g_hash_table_new (NULL, NULL);
}

/* Passes the number of captures on.  The lock is held. */
static void
count (void)
{
  _tarn_assert_locked (&lock);
  _tarn_cuda_count_captures ((gint) captures->len - (gint) n_counted);
  n_counted = captures->len;
}

/* Captures and threads */

gboolean
_tarn_cuda_is_capturing (CUstream stream)
{
  const TarnCudaDriver *driver = stream != NULL ? _tarn_cuda_get_driver (NULL) : NULL;
  unsigned int capturing = 0;

  return driver != NULL && driver->cuStreamIsCapturing != NULL
         && driver->cuStreamIsCapturing (stream, &capturing) == TARN_CUDA_SUCCESS && capturing != 0;
}

/* Stores */

/* Finds the store of a name.  Returns NULL if there is none.  The lock is held. */
static Store *
find_store (CUdevice device, TarnCudaTorchPoolId id)
{
  _tarn_assert_locked (&lock);
  for (guint i = 0; i < stores->len; i++)
    {
      Store *store = stores->pdata[i];

      if (store->device == device && store->id.first == id.first && store->id.second == id.second)
        return store;
    }
  return NULL;
}

static Store *
store_new (CUdevice device, TarnCudaTorchPoolId id, TarnAllocator *pieces)
{
  Store *store = g_new0 (Store, 1);

  store->device = device;
  store->id = id;
  store->pieces = tarn_allocator_ref (pieces);
  store->pools = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) tarn_pool_unref);
  store->kept = g_ptr_array_new_with_free_func ((GDestroyNotify) tarn_block_free);
  return store;
}

/* Frees a store that was taken out of the list.  Only pieces with blocks in use stay. */
static void
store_free (Store *store)
{
  GHashTableIter iter;
  gpointer pool;

  g_ptr_array_unref (store->kept);
  _tarn_cuda_graph_pieces_release (store->pieces);
  g_hash_table_iter_init (&iter, store->pools);
  while (g_hash_table_iter_next (&iter, NULL, &pool))
    tarn_pool_stop_holding (pool);
  g_hash_table_unref (store->pools);
  tarn_allocator_unref (store->pieces);
  g_free (store);
}

/* Ends captures: those of a store, or those that this thread began on a device.  The lock is held.
 */
static void
end_captures (const Store *store, CUdevice device)
{
  _tarn_assert_locked (&lock);
  for (guint i = captures->len; i > 0; i--)
    {
      const Capture *capture = &g_array_index (captures, Capture, i - 1);

      if (store != NULL ? capture->store == store
                        : capture->store->device == device && capture->thread == g_thread_self ())
        g_array_remove_index (captures, i - 1);
    }
}

gboolean
_tarn_cuda_graph_memory_begin (CUdevice device, TarnCudaTorchPoolId id, GError **error)
{
  TarnCudaShared *shared = _tarn_cuda_shared_renew (device, error);
  g_autoptr (TarnAllocator) pieces = NULL;
  Capture capture = { NULL, g_thread_self () };

  if (shared == NULL)
    return FALSE;
  if (shared->context.driver->cuThreadExchangeStreamCaptureMode == NULL)
    {
      g_set_error_literal (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
                           "the CUDA driver is too old to allocate in a capture");
      return FALSE;
    }
  pieces = _tarn_cuda_graph_pieces_new (shared->pool);
  _tarn_mutex_lock (&lock);
  capture.store = find_store (device, id);
  if (capture.store == NULL)
    {
      capture.store = store_new (device, id, pieces);
      g_ptr_array_add (stores, capture.store);
    }
  capture.store->n_uses++;
  end_captures (NULL, device);
  g_array_append_val (captures, capture);
  count ();
  _tarn_mutex_unlock (&lock);
  return TRUE;
}

void
_tarn_cuda_graph_memory_end (CUdevice device, TarnCudaTorchPoolId id)
{
  const Store *store;

  _tarn_mutex_lock (&lock);
  store = find_store (device, id);
  for (guint i = captures->len; i > 0; i--)
    if (g_array_index (captures, Capture, i - 1).store == store)
      {
        g_array_remove_index (captures, i - 1);
        break;
      }
  count ();
  _tarn_mutex_unlock (&lock);
  _tarn_cuda_graph_pieces_settle ();
}

static gboolean
is_of (gpointer block, gpointer store, gpointer wanted)
{
  (void) block;
  return store == wanted;
}

void
_tarn_cuda_graph_memory_release (CUdevice device, TarnCudaTorchPoolId id)
{
  Store *store;

  _tarn_mutex_lock (&lock);
  store = find_store (device, id);
  if (store != NULL && --store->n_uses == 0)
    {
      end_captures (store, device);
      g_ptr_array_remove_fast (stores, store);
      g_hash_table_foreach_remove (recorded, is_of, store);
    }
  else
    store = NULL;
  count ();
  _tarn_mutex_unlock (&lock);
  if (store != NULL)
    store_free (store);
  _tarn_cuda_graph_pieces_settle ();
}

/* Allocating */

/* Finds the store of the capture of this thread on a device, or else of the only capture there,
 * because gradients are computed in other threads.  Returns NULL if there is none, or several.  The
 * lock is held. */
static Store *
find_captured (CUdevice device)
{
  Store *found = NULL;

  _tarn_assert_locked (&lock);
  for (guint i = captures->len; i > 0; i--)
    {
      const Capture *capture = &g_array_index (captures, Capture, i - 1);

      if (capture->store->device == device && capture->thread == g_thread_self ())
        return capture->store;
    }
  for (guint i = 0; i < captures->len; i++)
    {
      Store *store = g_array_index (captures, Capture, i).store;

      if (store->device != device || store == found)
        continue;
      if (found != NULL)
        return NULL;
      found = store;
    }
  return found;
}

static TarnPool *
pool_new (TarnAllocator *pieces, GError **error)
{
  TarnHeapOptions heap_options = TARN_HEAP_OPTIONS_INIT;
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnAllocator) heap = NULL;

  heap_options.idle_seconds = G_MAXSIZE;
  heap = tarn_heap_allocator_new (pieces, &heap_options, error);
  options.name = "CUDA graph";
  return heap != NULL ? tarn_pool_new (heap, &options, error) : NULL;
}

/* Returns a reference to the pool of a stream that is being captured.  Returns NULL if it has none
 * yet; then @pieces is a reference to the memory to make one of, or NULL if no capture is known. */
static TarnPool *
get_pool (CUdevice device, CUstream stream, TarnPool *fresh, TarnAllocator **pieces)
{
  TarnPool *pool = NULL;
  Store *store;

  _tarn_mutex_lock (&lock);
  store = find_captured (device);
  if (store != NULL)
    {
      pool = g_hash_table_lookup (store->pools, stream);
      if (pool == NULL && fresh != NULL)
        {
          pool = fresh;
          g_hash_table_insert (store->pools, stream, tarn_pool_ref (pool));
        }
      *pieces = pool == NULL ? tarn_allocator_ref (store->pieces) : NULL;
    }
  if (pool != NULL)
    tarn_pool_ref (pool);
  _tarn_mutex_unlock (&lock);
  return pool;
}

static TarnPool *
get_or_make_pool (CUdevice device, CUstream stream, GError **error)
{
  g_autoptr (TarnAllocator) pieces = NULL;
  g_autoptr (TarnPool) fresh = NULL;
  TarnAllocator *none = NULL;
  TarnPool *pool = get_pool (device, stream, NULL, &pieces);

  if (pool != NULL)
    return pool;
  if (pieces == NULL)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
                   "stream %p captures a graph, and it is not known which: the allocator needs "
                   "set_begin_allocate_to_pool () and its like, and one capture at a time",
                   (const void *) stream);
      return NULL;
    }
  fresh = pool_new (pieces, error);
  return fresh != NULL ? get_pool (device, stream, fresh, &none) : NULL;
}

TarnBlock *
_tarn_cuda_graph_memory_allocate (gsize size, CUdevice device, CUstream stream, GError **error)
{
  g_autoptr (TarnPool) pool = get_or_make_pool (device, stream, error);

  return pool != NULL ? tarn_pool_allocate (pool, size, error) : NULL;
}

/* Returns TRUE if a block is of a graph's memory; its store may be gone. */
static gboolean
is_of_graph (const TarnBlock *block)
{
  return _tarn_cuda_is_graph_pieces (tarn_block_get_allocator (block));
}

/* Finds the store of a block.  Returns NULL if it is gone.  The lock is held. */
static Store *
find_owner (const TarnBlock *block)
{
  _tarn_assert_locked (&lock);
  for (guint i = 0; i < stores->len; i++)
    if (((Store *) stores->pdata[i])->pieces == tarn_block_get_allocator (block))
      return stores->pdata[i];
  return NULL;
}

gboolean
_tarn_cuda_graph_memory_record (TarnBlock *block)
{
  Store *store;

  if (!is_of_graph (block))
    return FALSE;
  _tarn_mutex_lock (&lock);
  store = find_owner (block);
  if (store != NULL)
    g_hash_table_insert (recorded, block, store);
  _tarn_mutex_unlock (&lock);
  return TRUE;
}

gboolean
_tarn_cuda_graph_memory_keep (TarnBlock *block)
{
  gpointer store = NULL;

  if (!is_of_graph (block))
    return FALSE;
  _tarn_mutex_lock (&lock);
  g_hash_table_steal_extended (recorded, block, NULL, &store);
  if (store != NULL)
    g_ptr_array_add (((Store *) store)->kept, block);
  _tarn_mutex_unlock (&lock);
  return store != NULL;
}
