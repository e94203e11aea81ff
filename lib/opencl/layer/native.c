/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Functions of the host's as commands: OpenCL 3.0 specification, section 5.11, "Executing Native
 * Kernels".  Some drivers give them the address of the buffer that a sub-buffer is of, sort the
 * buffers by their handles, and leave out those that come again; so they are given pieces, sorted,
 * each once, and the addresses are put here where the program wants them. */

#include "layer-private.h"

#include <stdlib.h>
#include <string.h>

typedef struct
{
  gsize place;  /* of a pointer, in bytes from the start of the arguments */
  gsize offset; /* of the buffer in its piece */
  guint piece;  /* which of the pieces that is */
} Move;

/* What the driver copies, which takes it for the arguments: this, as many moves, as many addresses
 * of pieces, which the driver writes, and then the program's arguments, aligned as what is
 * allocated. */
typedef struct
{
  void (CL_CALLBACK *function) (void *);
  gsize n;
} Call;

static Move *
get_moves (Call *call)
{
  return (Move *) (call + 1);
}

static gchar **
get_addresses (Call *call)
{
  return (gchar **) (get_moves (call) + call->n);
}

static gsize
get_arguments_offset (gsize n)
{
  return (sizeof (Call) + n * (sizeof (Move) + sizeof (gchar *)) + 15) / 16 * 16;
}

static void CL_CALLBACK
run (void *data)
{
  Call *call = data;
  guchar *arguments = (guchar *) data + get_arguments_offset (call->n);

  for (gsize i = 0; i < call->n; i++)
    {
      const Move *move = &get_moves (call)[i];
      const gchar *address = get_addresses (call)[move->piece] + move->offset;

      memcpy (arguments + move->place, &address, sizeof address);
    }
  call->function (arguments);
}

/* Gets a buffer's piece; an object that is none of ours is its own. */
static cl_mem
get_piece (cl_mem object, gsize *offset)
{
  LAYER_AUTO LayerBuffer *buffer = _tarn_layer_find (LAYER_BUFFER, object);

  *offset = 0;
  if (buffer == NULL || buffer->is_image)
    return object;
  return _tarn_layer_buffer_find_piece (buffer, offset);
}

static int
compare_pieces (const void *a, const void *b)
{
  guintptr first = (guintptr) * (const cl_mem *) a, second = (guintptr) * (const cl_mem *) b;

  return (first > second) - (first < second);
}

/* Sorts pieces, each once. */
static guint
sort_pieces (cl_mem *pieces, guint n)
{
  guint n_sorted = 0;

  qsort (pieces, n, sizeof *pieces, compare_pieces);
  for (guint i = 0; i < n; i++)
    if (n_sorted == 0 || pieces[n_sorted - 1] != pieces[i])
      pieces[n_sorted++] = pieces[i];
  return n_sorted;
}

/* Whether the call is as the specification wants it, as far as that matters here. */
static gboolean
is_right (void (CL_CALLBACK *function) (void *), const void *arguments, gsize size, guint n,
          const cl_mem *objects, const void **places)
{
  if (function == NULL || arguments == NULL || n == 0 || objects == NULL || places == NULL)
    return FALSE;
  for (guint i = 0; i < n; i++)
    {
      gsize place = (gsize) ((guintptr) places[i] - (guintptr) arguments);

      if (places[i] == NULL || place > size || size - place < sizeof (gpointer))
        return FALSE;
    }
  return TRUE;
}

/* Says where each object is: the pieces that there are, sorted. */
static guint
set_moves (Call *call, const void *arguments, const cl_mem *objects, const void **places,
           cl_mem *pieces)
{
  g_autofree cl_mem *each = g_new (cl_mem, call->n);
  guint n_pieces;

  for (guint i = 0; i < call->n; i++)
    {
      each[i] = pieces[i] = get_piece (objects[i], &get_moves (call)[i].offset);
      get_moves (call)[i].place = (gsize) ((guintptr) places[i] - (guintptr) arguments);
    }
  n_pieces = sort_pieces (pieces, (guint) call->n);
  for (guint i = 0; i < call->n; i++)
    get_moves (call)[i].piece
        = (guint) ((cl_mem *) bsearch (&each[i], pieces, n_pieces, sizeof *pieces, compare_pieces)
                   - pieces);
  return n_pieces;
}

static cl_int
enqueue (cl_command_queue queue, void (CL_CALLBACK *function) (void *), const void *arguments,
         gsize size, guint n, const cl_mem *objects, const void **places, cl_uint n_waits,
         const cl_event *waits, cl_event *event)
{
  gsize start = get_arguments_offset (n);
  g_autofree Call *call = g_malloc0 (start + size);
  g_autofree cl_mem *pieces = g_new (cl_mem, n);
  g_autofree const void **addresses = g_new (const void *, n);
  guint n_pieces;

  call->function = function;
  call->n = n;
  n_pieces = set_moves (call, arguments, objects, places, pieces);
  memcpy ((guchar *) call + start, arguments, size);
  for (guint i = 0; i < n_pieces; i++)
    addresses[i] = &get_addresses (call)[i];
  return _tarn_layer_driver->clEnqueueNativeKernel (queue, run, call, start + size, n_pieces,
                                                    pieces, addresses, n_waits, waits, event);
}

cl_int CL_API_CALL
layer_clEnqueueNativeKernel (cl_command_queue queue, void (CL_CALLBACK *function) (void *),
                             void *arguments, size_t size, cl_uint n, const cl_mem *objects,
                             const void **places, cl_uint n_waits, const cl_event *waits,
                             cl_event *event)
{
  gboolean right = is_right (function, arguments, size, n, objects, places);
  LayerCommand command;
  cl_int status;

  _tarn_layer_command_begin (&command, queue, right ? objects : NULL, n, &event);
  status
      = right
            ? enqueue (queue, function, arguments, size, n, objects, places, n_waits, waits, event)
            : _tarn_layer_driver->clEnqueueNativeKernel (queue, function, arguments, size, n,
                                                         objects, places, n_waits, waits, event);

  _tarn_layer_command_end (&command, status, FALSE);
  return status;
}
