/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory for CUDA graphs that PyTorch captures (torch.cuda.graph).  A graph contains the addresses
 * of its tensors.  Each launch of the graph writes to these addresses, even after the program has
 * freed the tensors.  So memory that is allocated during a capture comes from a store, which keeps
 * the memory for the graph.  PyTorch names each store by two numbers.  Captures with the same two
 * numbers share a store.  Tarn frees the store when PyTorch has destroyed the last graph of these
 * captures.
 *
 * A graph runs the commands of one stream in the order of the capture, but may run commands of
 * different streams at the same time.  So in a store, each stream has its own pool, and reuses only
 * memory that was allocated for this stream.  Below each pool is a heap, which gets memory from the
 * device's shared pool (cuda/graph-pieces.c).  Until the store is freed, this memory stays at its
 * addresses.
 *
 * Before Tarn returns memory to the shared pool, the host waits for the device.  The host must not
 * wait during a capture, so Tarn returns memory only when no capture is in progress. */

#include "common/lock-private.h"
#include "frameworks-private.h"

/* A store: the memory for all captures that PyTorch names by the same two numbers.
 *
 * Invariant: a store is in the list of stores if and only if n_uses > 0. */
typedef struct
{
  CUdevice device;
  TarnCudaTorchPoolId id;
  /* the number of captures that began with this store, minus the captures whose graphs PyTorch has
   * destroyed */
  guint n_uses;
  /* a reference to the allocator of graph-pieces.c from which this store's heaps get memory; each
   * of the store's pools has its own heap */
  TarnAllocator *pieces;
  GHashTable *pools; /* maps a CUstream to a reference to its TarnPool */
  /* TarnBlocks that the program has freed, and that the store keeps because several streams of a
   * graph use them */
  GPtrArray *kept;
} Store;

/* A capture that PyTorch has begun and not yet ended.  PyTorch does not report that a capture has
 * failed.  So the struct of a failed capture stays in the list of captures until the same thread
 * begins its next capture on the device. */
typedef struct
{
  Store *store;
  const GThread *thread; /* the thread that began the capture */
} Capture;

/* The lock of this file guards the variables below.  Invariant: the store of each capture is in the
 * list of stores. */
static TarnMutex lock = TARN_MUTEX_INIT;
static GPtrArray *stores; /* an array of Store */
static GArray *captures;  /* an array of Capture, the oldest first */
/* maps a TarnBlock to its Store, for blocks that the program has not freed, and that several
 * streams of a graph use */
static GHashTable *recorded;
/* the number of captures at the latest call of _tarn_cuda_count_captures () */
static guint n_counted;

static void __attribute__ ((constructor)) make_lists (void)
{
  stores = g_ptr_array_new ();
  captures = g_array_new (FALSE, FALSE, sizeof (Capture));
  recorded = g_hash_table_new (NULL, NULL);
}

/* Reports the number of captures to graph-pieces.c: passes the change since the latest report to
 * _tarn_cuda_count_captures ().  The caller holds the lock. */
static void
count (void)
{
  _tarn_assert_locked (&lock);
  _tarn_cuda_count_captures ((gint) captures->len - (gint) n_counted);
  n_counted = captures->len;
}

/* A function that asks the driver whether a stream is being captured */

gboolean
_tarn_cuda_is_capturing (CUstream stream)
{
  const TarnCudaDriver *driver = stream != NULL ? _tarn_cuda_get_driver (NULL) : NULL;
  unsigned int capturing = 0;

  return driver != NULL && driver->cuStreamIsCapturing != NULL
         && driver->cuStreamIsCapturing (stream, &capturing) == TARN_CUDA_SUCCESS && capturing != 0;
}

/* Functions that make, find and free stores, and begin and end captures */

/* Finds a device's store (the memory of captures) by the two numbers that PyTorch has given it.
 * Returns NULL if there is none.  The caller holds the lock. */
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

/* Frees a store that the caller has removed from the list of stores.  If the program still uses
 * blocks of the store, their memory stays allocated until the program frees them. */
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

/* Removes captures from the list of captures.  If @store is not NULL, removes the captures whose
 * memory is in this store.  If @store is NULL, removes the captures that this thread began on
 * @device.  The caller holds the lock. */
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

/* Finds the capture that PyTorch ends now, among the captures of a store: the newest capture that
 * this thread began.  If this thread began none, finds the newest capture of any thread.  Returns
 * the index in the list of captures, or G_MAXUINT if the store has no capture.  The caller holds
 * the lock. */
static guint
find_ending (const Store *store)
{
  guint found = G_MAXUINT;

  _tarn_assert_locked (&lock);
  for (guint i = captures->len; i > 0; i--)
    {
      const Capture *capture = &g_array_index (captures, Capture, i - 1);

      if (capture->store != store)
        continue;
      if (capture->thread == g_thread_self ())
        return i - 1;
      if (found == G_MAXUINT)
        found = i - 1;
    }
  return found;
}

void
_tarn_cuda_graph_memory_end (CUdevice device, TarnCudaTorchPoolId id)
{
  guint ended;

  _tarn_mutex_lock (&lock);
  ended = find_ending (find_store (device, id));
  if (ended != G_MAXUINT)
    g_array_remove_index (captures, ended);
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

/* Functions that allocate blocks during a capture, and keep blocks as long as the graph exists */

/* Finds the store (the memory of captures) for a request of this thread on a device: the store of
 * the capture that this thread began on the device.  If this thread began none, finds the store of
 * the other threads' captures on the device, because PyTorch computes gradients in a thread that
 * does not begin the capture.  Returns NULL if the device has no capture, or if the other threads'
 * captures have different stores.  The caller holds the lock. */
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

/* Returns a reference to the pool of a stream that is being captured.  If the stream has no pool
 * yet, returns NULL, and sets *pieces to a reference to an allocator.  The caller then makes the
 * pool over this allocator.  If Tarn cannot tell which store (memory of captures) serves the
 * capture, returns NULL, and leaves *pieces as it is. */
static TarnPool *
get_pool (CUdevice device, CUstream stream, TarnAllocator **pieces)
{
  TarnPool *pool = NULL;
  Store *store;

  _tarn_mutex_lock (&lock);
  store = find_captured (device);
  if (store != NULL)
    pool = g_hash_table_lookup (store->pools, stream);
  if (pool != NULL)
    tarn_pool_ref (pool);
  else if (store != NULL)
    *pieces = tarn_allocator_ref (store->pieces);
  _tarn_mutex_unlock (&lock);
  return pool;
}

/* Makes @fresh the pool of a stream that is being captured, and returns a reference to it.  The
 * caller has made @fresh over the allocator @pieces.  If another thread has added a pool of this
 * stream meanwhile, ignores @fresh, and returns a reference to the other thread's pool.  Returns
 * NULL if @pieces is not the allocator of the capture's store any more, because captures have begun
 * or ended meanwhile. */
static TarnPool *
add_pool (CUdevice device, CUstream stream, const TarnAllocator *pieces, TarnPool *fresh)
{
  TarnPool *pool = NULL;
  Store *store;

  _tarn_mutex_lock (&lock);
  store = find_captured (device);
  if (store != NULL && store->pieces == pieces)
    {
      pool = g_hash_table_lookup (store->pools, stream);
      if (pool == NULL)
        {
          pool = fresh;
          g_hash_table_insert (store->pools, stream, tarn_pool_ref (pool));
        }
      tarn_pool_ref (pool);
    }
  _tarn_mutex_unlock (&lock);
  return pool;
}

static TarnPool *
get_or_make_pool (CUdevice device, CUstream stream, GError **error)
{
  for (;;) /* the loop repeats only if captures have begun or ended meanwhile */
    {
      g_autoptr (TarnAllocator) pieces = NULL;
      g_autoptr (TarnPool) fresh = NULL;
      TarnPool *pool = get_pool (device, stream, &pieces);

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
      if (fresh == NULL)
        return NULL;
      pool = add_pool (device, stream, pieces, fresh);
      if (pool != NULL)
        return pool;
    }
}

TarnBlock *
_tarn_cuda_graph_memory_allocate (gsize size, CUdevice device, CUstream stream, GError **error)
{
  g_autoptr (TarnPool) pool = get_or_make_pool (device, stream, error);

  return pool != NULL ? tarn_pool_allocate (pool, size, error) : NULL;
}

/* Returns TRUE if a block's memory came from a store.  The store may have been freed since. */
static gboolean
is_of_graph (const TarnBlock *block)
{
  return _tarn_cuda_is_graph_pieces (tarn_block_get_allocator (block));
}

/* Finds the store (the memory of captures) that a block is from.  Returns NULL if the store was
 * freed.  The caller holds the lock. */
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
