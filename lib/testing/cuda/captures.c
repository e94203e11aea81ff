/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Captures of streams into graphs, in the fake CUDA driver.  A call that ends a capture on an H200
 * also ends a capture in the fake driver, and returns the same status.  A graph is a list of the
 * captured commands that access memory, in the order of their calls.  A launch runs all commands of
 * the graph on one stream. */

#include "testing/cuda/fake-private.h"

#include <string.h>

enum
{
  GLOBAL,
  THREAD_LOCAL,
  RELAXED
};

struct _Capture
{
  Stream *origin;
  GThread *thread;
  guint mode;
  guint status; /* CU_STREAM_CAPTURE_STATUS_ACTIVE or _INVALIDATED */
  guint64 id;   /* the capture's number, which no other capture gets */
  GArray *nodes;
};

#define ACTIVE 1
#define INVALIDATED 2

/* A captured command: a node of a graph. */
typedef struct
{
  void (*function) (gpointer);
  gpointer data; /* the argument of @function; owned; each launch gets a copy */
  gsize size;    /* the number of bytes of @data */
} Node;

static HandleTable graph_handles = { .base = FAKE_HANDLES (4) }; /* graphs (GArray of Node) */
static HandleTable exec_handles
    = { .base = FAKE_HANDLES (9) }; /* executable graphs (GArray of Node) */

/* The calling thread's capture mode (cuThreadExchangeStreamCaptureMode). */
static _Thread_local guint thread_mode = GLOBAL;

/* The lock of the fake driver guards these variables. */
/* maps each stream that is being captured to its Capture; a Capture lives until the capture ends,
 * or until the context of the stream at which it began (origin) is destroyed */
static GHashTable *captures;
static guint64 latest_id; /* the id of the latest capture */

static void __attribute__ ((constructor)) make_captures (void)
{
  captures = g_hash_table_new (NULL, NULL);
}

/* Functions that only the fake driver calls.  The caller of each of these functions holds the
 * lock. */

Capture *
fake_get_capture (const Stream *stream)
{
  return g_hash_table_lookup (captures, stream);
}

static void
clear_node (gpointer data)
{
  g_free (((Node *) data)->data);
}

static GArray *
nodes_new (void)
{
  GArray *nodes = g_array_new (FALSE, FALSE, sizeof (Node));

  g_array_set_clear_func (nodes, clear_node);
  return nodes;
}

static void
add_node (GArray *nodes, void (*function) (gpointer), gconstpointer data, gsize size)
{
  Node node = { function, g_malloc (size), size };

  memcpy (node.data, data, size);
  g_array_append_val (nodes, node);
}

void
fake_capture_do (Capture *capture, void (*function) (gpointer), gconstpointer data, gsize size)
{
  add_node (capture->nodes, function, data, size);
}

static gboolean
is_of (gpointer stream, gpointer capture, gpointer wanted)
{
  (void) stream;
  return capture == wanted;
}

static void
end_capture (Capture *capture)
{
  g_hash_table_foreach_remove (captures, is_of, capture);
  fake_forget_captured_events (capture);
  g_array_unref (capture->nodes);
  g_free (capture);
}

void
fake_leave_capture (Stream *stream)
{
  Capture *capture = fake_get_capture (stream);

  if (capture != NULL && capture->origin == stream)
    end_capture (capture);
  g_hash_table_remove (captures, stream);
}

void
fake_join_capture (Stream *stream, Capture *capture)
{
  g_hash_table_insert (captures, stream, capture);
}

void
fake_invalidate_capture (Capture *capture)
{
  capture->status = INVALIDATED;
}

/* Invalidates captures because of a call that CUDA forbids during captures.  Returns an error
 * status if it has invalidated a capture.
 *     - A thread in mode global invalidates all captures of mode global, and the captures of mode
 *       thread-local that this thread began.
 *     - A thread in mode thread-local invalidates only captures that this thread began.
 *     - A thread in mode relaxed invalidates no capture, and no thread invalidates a capture of
 *       mode relaxed. */
Status
fake_end_captures (void)
{
  GHashTableIter iter;
  gpointer value;
  Status status = FAKE_CUDA_SUCCESS;

  g_hash_table_iter_init (&iter, captures);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      Capture *capture = value;

      if (capture->mode == RELAXED || thread_mode == RELAXED
          || ((capture->mode == THREAD_LOCAL || thread_mode == THREAD_LOCAL)
              && capture->thread != g_thread_self ()))
        continue;
      capture->status = INVALIDATED;
      status = FAKE_CUDA_STREAM_CAPTURE_UNSUPPORTED;
    }
  return status;
}

/* Invalidates all captures, of any mode, of a context's streams.  If @are_blocking is TRUE,
 * invalidates only the captures of blocking streams.  Returns the status @refusal if it has
 * invalidated a capture, otherwise success. */
static Status
end_all (guint64 context_id, gboolean are_blocking, Status refusal)
{
  GHashTableIter iter;
  gpointer key, value;
  Status status = FAKE_CUDA_SUCCESS;

  g_hash_table_iter_init (&iter, captures);
  while (g_hash_table_iter_next (&iter, &key, &value))
    {
      const Stream *stream = key;

      if (stream->context_id != context_id || (are_blocking && !stream->is_blocking))
        continue;
      fake_invalidate_capture (value);
      status = refusal;
    }
  return status;
}

/* Invalidates the captures on all streams of a context.  CUDA does so in a call that waits for all
 * of these streams. */
Status
fake_end_captures_of (guint64 context_id)
{
  return end_all (context_id, FALSE, FAKE_CUDA_STREAM_CAPTURE_UNSUPPORTED);
}

/* Invalidates the captures on the blocking streams of a context.  CUDA does so in a call that puts
 * a command on the legacy stream, because the command would wait for these streams. */
Status
fake_end_blocking_captures_of (guint64 context_id)
{
  return end_all (context_id, TRUE, FAKE_CUDA_STREAM_CAPTURE_IMPLICIT);
}

gboolean
fake_is_legacy (const Stream *stream)
{
  return stream->is_default && stream->thread == 0;
}

Status
fake_check_legacy (const Stream *stream)
{
  return fake_is_legacy (stream) ? fake_end_blocking_captures_of (stream->context_id)
                                 : FAKE_CUDA_SUCCESS;
}

/* Returns TRUE if @stream is the legacy default stream, and a blocking stream of its context is
 * being captured.  (The legacy default stream waits for the blocking streams.) */
gboolean
fake_is_legacy_captured (const Stream *stream)
{
  GHashTableIter iter;
  gpointer key;

  g_hash_table_iter_init (&iter, captures);
  while (fake_is_legacy (stream) && g_hash_table_iter_next (&iter, &key, NULL))
    if (((Stream *) key)->is_blocking && ((Stream *) key)->context_id == stream->context_id)
      return TRUE;
  return FALSE;
}

/* Functions of CUDA's driver API, which the program calls */

Status
cuStreamBeginCapture_v2 (CUstream handle, unsigned int mode)
{
  Stream *stream;
  Capture *capture;
  ENTER (cuStreamBeginCapture);
  LOCKED;
  REQUIRE (mode <= RELAXED, FAKE_CUDA_INVALID_VALUE);
  REQUIRE ((guintptr) handle > 1, FAKE_CUDA_STREAM_CAPTURE_UNSUPPORTED);

  fake_find_stream ("cuStreamBeginCapture", handle, &stream);
  REQUIRE (fake_get_capture (stream) == NULL, FAKE_CUDA_ILLEGAL_STATE);
  capture = g_new0 (Capture, 1);
  *capture = (Capture){ stream, g_thread_self (), mode, ACTIVE, ++latest_id, nodes_new () };
  g_hash_table_insert (captures, stream, capture);
  return FAKE_CUDA_SUCCESS;
}

Status
cuStreamEndCapture (CUstream handle, CUgraph *graph)
{
  Stream *stream;
  Capture *capture;
  gboolean is_valid;
  Status status;
  ENTER (cuStreamEndCapture);
  LOCKED;
  REQUIRE (graph != NULL, FAKE_CUDA_INVALID_VALUE);

  status = fake_find_stream ("cuStreamEndCapture", handle, &stream);
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  capture = fake_get_capture (stream);
  REQUIRE (capture != NULL, FAKE_CUDA_ILLEGAL_STATE);
  REQUIRE (capture->origin == stream, FAKE_CUDA_STREAM_CAPTURE_UNMATCHED);
  is_valid = capture->status == ACTIVE;
  *graph = is_valid ? fake_handle_new (&graph_handles, g_array_ref (capture->nodes)) : NULL;
  end_capture (capture);
  return is_valid ? FAKE_CUDA_SUCCESS : FAKE_CUDA_STREAM_CAPTURE_INVALIDATED;
}

/* Implements cuStreamIsCapturing () and cuStreamGetCaptureInfo (). */
static Status
get_info (const gchar *function, CUstream handle, unsigned int *capturing, guint64 *id)
{
  Stream *stream;
  Capture *capture;
  Status status;

  REQUIRE (capturing != NULL, FAKE_CUDA_INVALID_VALUE);
  status = fake_find_stream (function, handle, &stream);
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  REQUIRE (!fake_is_legacy_captured (stream), FAKE_CUDA_STREAM_CAPTURE_IMPLICIT);
  capture = fake_get_capture (stream);
  *capturing = capture != NULL ? capture->status : 0;
  if (id != NULL && *capturing == ACTIVE)
    *id = capture->id;
  return FAKE_CUDA_SUCCESS;
}

Status
cuStreamIsCapturing (CUstream handle, unsigned int *capturing)
{
  ENTER (cuStreamIsCapturing);
  LOCKED;

  return get_info ("cuStreamIsCapturing", handle, capturing, NULL);
}

Status
cuStreamGetCaptureInfo (CUstream handle, unsigned int *capturing, guint64 *id)
{
  ENTER (cuStreamGetCaptureInfo);
  LOCKED;

  return get_info ("cuStreamGetCaptureInfo", handle, capturing, id);
}

Status
cuThreadExchangeStreamCaptureMode (unsigned int *mode)
{
  guint before = thread_mode;
  ENTER (cuThreadExchangeStreamCaptureMode);
  REQUIRE (mode != NULL && *mode <= RELAXED, FAKE_CUDA_INVALID_VALUE);

  thread_mode = *mode;
  *mode = before;
  return FAKE_CUDA_SUCCESS;
}

static Status
destroy (HandleTable *table, gpointer handle)
{
  GArray *nodes = fake_handle_get (table, handle);

  REQUIRE (nodes != NULL, FAKE_CUDA_INVALID_VALUE);
  fake_handle_free (table, handle);
  g_array_unref (nodes);
  return FAKE_CUDA_SUCCESS;
}

Status
cuGraphDestroy (CUgraph graph)
{
  ENTER (cuGraphDestroy);
  LOCKED;

  return destroy (&graph_handles, graph);
}

/* Makes an executable graph from @graph.  The program still owns @graph, and may destroy it
 * immediately. */
#if FAKE_CUDA_VERSION >= 11040
Status
cuGraphInstantiateWithFlags (CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
  GArray *nodes;
  ENTER (cuGraphInstantiateWithFlags);
  LOCKED;
  REQUIRE (exec != NULL && flags == 0, FAKE_CUDA_INVALID_VALUE);

  nodes = fake_handle_get (&graph_handles, graph);
  REQUIRE (nodes != NULL, FAKE_CUDA_INVALID_VALUE);
  *exec = fake_handle_new (&exec_handles, g_array_ref (nodes));
  return FAKE_CUDA_SUCCESS;
}
#endif

Status
cuGraphExecDestroy (CUgraphExec exec)
{
  ENTER (cuGraphExecDestroy);
  LOCKED;

  return destroy (&exec_handles, exec);
}

/* Puts all commands of a graph on a stream.  If the stream is being captured, adds the commands to
 * that capture's graph instead. */
Status
cuGraphLaunch (CUgraphExec exec, CUstream handle)
{
  const GArray *nodes;
  Capture *capture;
  Stream *stream;
  Status status;
  ENTER (cuGraphLaunch);
  LOCKED;

  nodes = fake_handle_get (&exec_handles, exec);
  REQUIRE (nodes != NULL, FAKE_CUDA_INVALID_VALUE);
  status = fake_find_stream ("cuGraphLaunch", handle, &stream);
  if (status == FAKE_CUDA_SUCCESS)
    status = fake_check_legacy (stream);
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  capture = fake_get_capture (stream);
  for (guint i = 0; i < nodes->len; i++)
    {
      const Node *node = &g_array_index (nodes, Node, i);
      gpointer copy;

      if (capture != NULL)
        {
          fake_capture_do (capture, node->function, node->data, node->size);
          continue;
        }
      copy = g_malloc (node->size);
      memcpy (copy, node->data, node->size);
      fake_stream_do (stream, node->function, copy);
    }
  return FAKE_CUDA_SUCCESS;
}
