/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Memory of CUDA graphs.
 *
 * A graph keeps the addresses that its commands were captured with.  Each launch reads and writes
 * at these addresses, even after the program has freed the blocks.  So each graph has its own pool,
 * which serves the requests of streams that are being captured into the graph.  Below this pool is
 * a heap.  The heap gets memory from the program's pool (graph-pieces.c), and keeps this memory
 * until the program releases the graph.
 *
 * While a graph of the program's pool is being captured, the program's pool calls find_pool () for
 * each request of a stream (tarn_pool_set_redirect_func ()).  The function asks the driver which
 * capture the stream is in, and returns the pool of that capture's graph.
 *
 * A launch of the graph may run the commands of different streams side by side.  So in a graph's
 * pool, a stream reuses only memory that the same stream has freed. */

#include <tarn/cuda.h>
#include <tarn/heap.h>

#include "common/argument-private.h"
#include "graph-pieces-private.h"
#include "order-private.h"

typedef struct
{
  guint64 id;     /* no other graph ever gets this id */
  TarnPool *pool; /* a reference to the program's pool */
  /* The handle of the stream on which the capture begins.  The program may destroy the stream as
   * soon as tarn_cuda_pool_end_graph () returns.  So that function first waits until no thread asks
   * the driver about the stream (n_asking is 0). */
  gpointer handle;
  /* the driver's id of the capture; 0 if Tarn does not know the id yet, or the capture has ended */
  guint64 capture;
  /* TRUE from tarn_cuda_pool_begin_graph () until the program calls tarn_cuda_pool_end_graph () or
   * releases the graph */
  gboolean is_open;
  /* the number of threads that are asking the driver about the stream (the field handle) */
  guint n_asking;
  TarnAllocator *pieces; /* a reference to the allocator below the heap of the graph's pool */
  TarnPool *own;         /* a reference to the graph's own pool */
} Graph;

static TarnMutex lock = TARN_MUTEX_INIT; /* a thread that takes this lock holds no pool's lock */
static TarnCond asking_ended = TARN_COND_INIT; /* signalled when a Graph.n_asking becomes 0 */
static GPtrArray *graphs; /* an array of Graph: the graphs that the program has not released */
static guint64 latest_id;

static void __attribute__ ((constructor)) make_list (void) { graphs = g_ptr_array_new (); }

/* Functions that find graphs.  The caller of each of these functions holds the lock. */

/* Finds a pool's graph by the graph's id.  Returns NULL if there is none. */
static Graph *
find_by_id (const TarnPool *pool, guint64 id)
{
  _tarn_assert_locked (&lock);
  for (guint i = 0; i < graphs->len; i++)
    {
      Graph *graph = graphs->pdata[i];

      if (graph->id == id && graph->pool == pool)
        return graph;
    }
  return NULL;
}

/* Finds a pool's graph by the stream on which its capture begins.  Returns NULL if there is none,
 * or if the capture has ended. */
static Graph *
find_by_stream (const TarnPool *pool, gconstpointer handle)
{
  _tarn_assert_locked (&lock);
  for (guint i = 0; i < graphs->len; i++)
    {
      Graph *graph = graphs->pdata[i];

      if (graph->is_open && graph->pool == pool && graph->handle == handle)
        return graph;
    }
  return NULL;
}

/* Finds a pool's graph by the driver's id of the graph's capture.  Returns NULL if Tarn knows of no
 * such graph. */
static Graph *
find_by_capture (const TarnPool *pool, guint64 capture)
{
  _tarn_assert_locked (&lock);
  for (guint i = 0; i < graphs->len; i++)
    {
      Graph *graph = graphs->pdata[i];

      if (graph->is_open && graph->pool == pool && graph->capture == capture)
        return graph;
    }
  return NULL;
}

/* Finds the next of a pool's graphs whose capture has not ended, and whose capture id
 * (Graph.capture) Tarn does not know yet: the one with the lowest Graph.id above @after.  A caller
 * that passes the last result's Graph.id as @after finds one graph after the other.  Returns NULL
 * if there is none. */
static Graph *
find_unknown (const TarnPool *pool, guint64 after)
{
  Graph *found = NULL;

  _tarn_assert_locked (&lock);
  for (guint i = 0; i < graphs->len; i++) /* the graphs are not sorted by id */
    {
      Graph *graph = graphs->pdata[i];

      if (graph->is_open && graph->pool == pool && graph->capture == 0 && graph->id > after
          && (found == NULL || graph->id < found->id))
        found = graph;
    }
  return found;
}

/* Functions that find out which graph a stream is being captured into */

/* Asks the driver for the id of the capture that a stream is in.  Returns 0 if the stream is in no
 * capture, if the capture or the call has failed, or if this is the legacy stream.  Also returns 0
 * for another thread's default stream, because this thread has no CUstream for it. */
static guint64
ask_capture (const TarnCudaContext *context, gpointer handle)
{
  unsigned int status, capturing = 0;
  TarnCudaScope scope;
  guint64 capture = 0;

  if (_tarn_cuda_handle_is_legacy (handle) || !_tarn_cuda_handle_is_known (handle)
      || !_tarn_cuda_context_enter (context, &scope, NULL))
    return 0;
  status = context->driver->cuStreamGetCaptureInfo (_tarn_cuda_stream_of_handle (handle),
                                                    &capturing, &capture);
  _tarn_cuda_context_leave (context, &scope);
  return status == TARN_CUDA_SUCCESS && capturing == TARN_CUDA_STREAM_CAPTURE_STATUS_ACTIVE
             ? capture
             : 0;
}

/* Asks the driver for the id of a graph's capture, and stores the id in the graph.  Releases the
 * lock during the driver call.  If another thread ends or releases the graph meanwhile, that thread
 * waits in await_askers () until the call has ended.  So the graph stays in the list, and the
 * program keeps the graph's stream alive. */
static void
learn_capture (Graph *graph, const TarnCudaContext *context)
{
  guint64 capture;

  _tarn_assert_locked (&lock);
  graph->n_asking++;
  _tarn_mutex_unlock (&lock);
  capture = ask_capture (context, graph->handle);
  _tarn_mutex_lock (&lock);
  if (graph->is_open && graph->capture == 0)
    graph->capture = capture;
  if (--graph->n_asking == 0)
    _tarn_cond_broadcast (&asking_ended);
}

/* Asks the driver for the missing capture ids of a pool's graphs.  Tarn does not know the capture
 * id of a graph if the program has begun the capture only after tarn_cuda_pool_begin_graph () had
 * returned. */
static void
learn_captures (const TarnPool *pool, const TarnCudaContext *context)
{
  Graph *graph;
  guint64 id = 0;

  _tarn_mutex_lock (&lock);
  while ((graph = find_unknown (pool, id)) != NULL)
    {
      id = graph->id;
      learn_capture (graph, context);
    }
  _tarn_mutex_unlock (&lock);
}

/* Returns a reference to a graph's own pool.  The graph belongs to @pool, and its capture has the
 * id @capture.  Returns NULL if Tarn knows of no such graph. */
static TarnPool *
ref_own_pool (const TarnPool *pool, guint64 capture)
{
  const Graph *graph;
  TarnPool *own = NULL;

  _tarn_mutex_lock (&lock);
  graph = find_by_capture (pool, capture);
  if (graph != NULL)
    own = tarn_pool_ref (graph->own);
  _tarn_mutex_unlock (&lock);
  return own;
}

/* Implements TarnPoolRedirectFunc: returns the pool of the graph that a stream is being captured
 * into.  Returns NULL if the stream is not being captured into a graph of @pool.  Then @pool serves
 * the request itself. */
static TarnPool *
find_pool (TarnPool *pool, gpointer handle, gpointer unused, GError **error)
{
  const TarnCudaContext *context = _tarn_cuda_pool_get_context (pool);
  guint64 capture = ask_capture (context, handle);
  TarnPool *own;

  (void) unused;
  (void) error;
  if (capture == 0)
    return NULL;
  own = ref_own_pool (pool, capture);
  if (own != NULL)
    return own;
  learn_captures (pool, context);
  return ref_own_pool (pool, capture);
}

/* Sets find_pool () as a pool's redirect function if any graph of the pool is being captured.
 * Otherwise removes the redirect function. */
static void
update_redirect (TarnPool *pool)
{
  gboolean is_captured = FALSE;

  _tarn_assert_locked (&lock);
  for (guint i = 0; i < graphs->len; i++)
    {
      const Graph *graph = graphs->pdata[i];

      is_captured |= graph->is_open && graph->pool == pool;
    }
  tarn_pool_set_redirect_func (pool, is_captured ? find_pool : NULL, NULL, NULL);
}

/* Waits until no thread is asking the driver about the stream of a graph.  Releases the lock while
 * it waits.  Returns the graph, or NULL if another thread has released the graph meanwhile. */
static Graph *
await_askers (Graph *graph)
{
  const TarnPool *pool = graph->pool;
  guint64 id = graph->id;

  _tarn_assert_locked (&lock);
  while (graph != NULL && graph->n_asking > 0)
    {
      _tarn_cond_wait (&asking_ended, &lock);
      graph = find_by_id (pool, id);
    }
  return graph;
}

/* Marks a graph's capture as ended, unless it is marked already, and waits until no thread asks the
 * driver about the graph's stream.  Afterwards the program may destroy the stream.  Releases the
 * lock while it waits.  Returns the graph, or NULL if another thread has released the graph
 * meanwhile. */
static Graph *
close_graph (Graph *graph)
{
  _tarn_assert_locked (&lock);
  if (graph->is_open)
    {
      graph->is_open = FALSE;
      graph->capture = 0;
      _tarn_cuda_count_captures (-1);
      update_redirect (graph->pool);
    }
  return await_askers (graph);
}

/* Functions that make and free graphs, and the public functions */

/* Makes the pool of a graph.  The graph's pool has the flag TARN_POOL_FINDABLE, because it serves
 * requests to the program's pool, which may have this flag.  (With the flag, the program can find
 * blocks by address.) */
static TarnPool *
own_pool_new (TarnAllocator *pieces, GError **error)
{
  TarnHeapOptions heap_options = TARN_HEAP_OPTIONS_INIT;
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnAllocator) heap = NULL;

  heap_options.idle_seconds = G_MAXSIZE;
  heap = tarn_heap_allocator_new (pieces, &heap_options, error);
  options.name = "CUDA graph";
  options.flags = TARN_POOL_FINDABLE;
  return heap != NULL ? tarn_pool_new (heap, &options, error) : NULL;
}

/* Frees a graph that the caller has removed from the list.  Blocks of the graph's pool that are in
 * use keep their memory until the program frees them. */
static void
graph_free (Graph *graph)
{
  if (graph->own != NULL)
    {
      _tarn_cuda_graph_pieces_release (graph->pieces);
      tarn_pool_stop_holding (graph->own);
      tarn_pool_unref (graph->own);
    }
  tarn_allocator_unref (graph->pieces);
  tarn_pool_unref (graph->pool);
  g_free (graph);
}

/* Makes a graph.  If the program has begun the capture already, the graph gets the capture's id
 * now: if the stream is this thread's default stream, other threads cannot ask for the id later. */
static Graph *
graph_new (TarnPool *pool, const TarnCudaContext *context, gpointer handle, GError **error)
{
  Graph *graph = g_new0 (Graph, 1);

  graph->pool = tarn_pool_ref (pool);
  graph->handle = handle;
  graph->capture = ask_capture (context, handle);
  graph->is_open = TRUE;
  graph->pieces = _tarn_cuda_graph_pieces_new (pool);
  graph->own = own_pool_new (graph->pieces, error);
  if (graph->own != NULL)
    return graph;
  graph_free (graph);
  return NULL;
}

static gboolean
check_driver (const TarnCudaDriver *driver, GError **error)
{
  if (driver->cuStreamGetCaptureInfo != NULL && driver->cuThreadExchangeStreamCaptureMode != NULL)
    return TRUE;
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
                       "the CUDA driver is too old to allocate in a capture: it lacks "
                       "cuStreamGetCaptureInfo or cuThreadExchangeStreamCaptureMode");
  return FALSE;
}

/* Checks that a graph of a pool can be captured on a stream.  Returns the context of the pool's
 * memory.  Returns NULL with an error if the pool's memory is not CUDA's, if the driver is too old,
 * or if the stream cannot be captured in this context. */
static const TarnCudaContext *
check_begin (TarnPool *pool, gpointer handle, GError **error)
{
  const TarnCudaContext *context = _tarn_cuda_pool_get_context (pool);
  const gchar *name = tarn_pool_get_name (pool);

  if (context == NULL)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                   "pool '%s' is over no allocator of libtarn-cuda's", name != NULL ? name : "");
      return NULL;
    }
  if (_tarn_cuda_handle_is_legacy (handle))
    {
      g_set_error_literal (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                           "the default stream that all threads share cannot be captured");
      return NULL;
    }
  return check_driver (context->driver, error) && _tarn_cuda_check_stream (context, handle, error)
             ? context
             : NULL;
}

/* Adds a graph to the list, and gives it an id.  Returns FALSE with an error if another graph of
 * the pool is being captured on the same stream. */
static gboolean
add (Graph *graph, guint64 *id, GError **error)
{
  const Graph *other;

  _tarn_mutex_lock (&lock);
  other = find_by_stream (graph->pool, graph->handle);
  if (other != NULL)
    g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                 "CUDA stream %p has graph %" G_GUINT64_FORMAT " of this pool, which was not ended",
                 graph->handle, other->id);
  else
    {
      *id = graph->id = ++latest_id;
      g_ptr_array_add (graphs, graph);
      _tarn_cuda_count_captures (1);
      update_redirect (graph->pool);
    }
  _tarn_mutex_unlock (&lock);
  return other == NULL;
}

gboolean
tarn_cuda_pool_begin_graph (TarnPool *pool, CUstream stream, guint64 *graph, GError **error)
{
  gpointer handle = _tarn_cuda_stream_to_handle (stream);
  const TarnCudaContext *context;
  Graph *fresh;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  g_return_val_if_fail (graph != NULL, FALSE);
  TARN_REFUSE_NULL (pool, FALSE);

  if (!tarn_check_fork (error) || (context = check_begin (pool, handle, error)) == NULL)
    return FALSE;
  fresh = graph_new (pool, context, handle, error);
  if (fresh == NULL)
    return FALSE;
  if (add (fresh, graph, error))
    return TRUE;
  graph_free (fresh);
  return FALSE;
}

static gboolean
set_unknown (guint64 graph, GError **error)
{
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
               "this pool has no CUDA graph %" G_GUINT64_FORMAT ": it was released, or is another "
               "pool's",
               graph);
  return FALSE;
}

gboolean
tarn_cuda_pool_end_graph (TarnPool *pool, guint64 graph, GError **error)
{
  gboolean was_open;
  Graph *found;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (pool, FALSE);

  if (!tarn_check_fork (error))
    return FALSE;
  _tarn_mutex_lock (&lock);
  found = find_by_id (pool, graph);
  was_open = found != NULL && found->is_open;
  if (was_open)
    close_graph (found);
  _tarn_mutex_unlock (&lock);
  if (found == NULL)
    return set_unknown (graph, error);
  if (!was_open)
    {
      g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                   "CUDA graph %" G_GUINT64_FORMAT " was ended before", graph);
      return FALSE;
    }
  _tarn_cuda_graph_pieces_settle_and_wait ();
  return TRUE;
}

gboolean
tarn_cuda_pool_release_graph (TarnPool *pool, guint64 graph, GError **error)
{
  Graph *found;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  TARN_REFUSE_NULL (pool, FALSE);

  if (!tarn_check_fork (error))
    return FALSE;
  _tarn_mutex_lock (&lock);
  found = find_by_id (pool, graph);
  if (found != NULL)
    found = close_graph (found);
  if (found != NULL)
    g_ptr_array_remove_fast (graphs, found);
  _tarn_mutex_unlock (&lock);
  if (found == NULL)
    return set_unknown (graph, error);
  graph_free (found);
  _tarn_cuda_graph_pieces_settle_and_wait ();
  return TRUE;
}
