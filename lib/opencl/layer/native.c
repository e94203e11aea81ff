/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Native kernels: commands that call functions of the host (OpenCL 3.0 specification, section 5.10,
 * "Executing Kernels").  The program's arguments for such a function contain addresses of
 * buffers.  The program passes a list of buffers, and for each buffer the place in the arguments
 * where the driver shall write its address (args_mem_loc of clEnqueueNativeKernel ()).
 *
 * The program's buffers are sub-buffers of pieces, the driver's large buffers.  Some drivers have
 * two faults with such buffers:
 *
 * - They pass the address of the piece instead of the address of the sub-buffer.
 * - They write addresses to the wrong places.  PoCL 3.1 sorts the buffers of a command by their age
 *   and drops duplicates, but leaves the list of places in the old order.
 *
 * So the layer, not the driver, writes the addresses into the program's arguments.  For each piece,
 * it enqueues a native kernel of its own that stores the piece's address.  The piece is the only
 * buffer of this native kernel.  Then the layer enqueues a native kernel that writes the buffers'
 * addresses and calls the program's function.  The layer passes the pieces to this native kernel as
 * well, so that they are on the device. */

#include "layer-private.h"

#include <stdlib.h>
#include <string.h>

/* A place in the program's arguments to which the layer writes the address of a buffer. */
typedef struct
{
  gsize place;  /* bytes from the start of the arguments to the place */
  gsize offset; /* bytes from the start of the piece to the buffer */
  guint piece;  /* index of the buffer's piece in the sorted array of pieces */
} Move;

/* The host addresses of pieces.  The layer's native kernels store these addresses. */
typedef struct
{
  guint references; /* atomic: references, one for each native kernel that has not run */
  gchar *of[];
} Addresses;

/* Allocates an array for the addresses of @n pieces. */
static Addresses *
addresses_new (guint n)
{
  Addresses *self = g_malloc0 (sizeof *self + n * sizeof *self->of);

  self->references = 1;
  return self;
}

static void
addresses_unref (Addresses *self)
{
  if (__atomic_sub_fetch (&self->references, 1, __ATOMIC_ACQ_REL) == 0)
    g_free (self);
}

/* The arguments of the layer's native kernel that stores the address of a piece.  The driver copies
 * this struct, and writes the piece's address to @address in the copy. */
typedef struct
{
  Addresses *addresses; /* a reference to the array in which the kernel stores the address */
  guint piece;
  gchar *address;
} Question;

/* A native kernel of the layer: stores the address of a piece in the array of addresses. */
static void CL_CALLBACK
note_address (void *data)
{
  Question *self = data;

  self->addresses->of[self->piece] = self->address;
  addresses_unref (self->addresses);
}

/* The arguments of the layer's native kernel that calls the program's function.  The driver copies
 * them.  Three things follow the struct in memory: @n structs Move; @n pointers, which the driver
 * sets and the layer does not read; and the program's arguments, aligned to 16 bytes like memory
 * from malloc (). */
typedef struct
{
  void (CL_CALLBACK *function) (void *);
  Addresses *addresses; /* a reference to the array of the addresses of pieces */
  gsize n;
} Call;

static Move *
get_moves (Call *call)
{
  return (Move *) (call + 1);
}

/* Returns the array of pointers that follows a Call.  The driver sets these pointers, but the layer
 * does not read them. */
static gchar **
get_places (Call *call)
{
  return (gchar **) (get_moves (call) + call->n);
}

/* Returns the offset, in bytes, of the program's arguments from the start of the struct Call that
 * they follow.  @n: the number of buffers of the Call. */
static gsize
get_arguments_offset (gsize n)
{
  return (sizeof (Call) + n * (sizeof (Move) + sizeof (gchar *)) + 15) / 16 * 16;
}

/* Writes the buffers' addresses into the program's arguments, and calls the program's function. */
static void CL_CALLBACK
run (void *data)
{
  Call *call = data;
  guchar *arguments = (guchar *) data + get_arguments_offset (call->n);

  for (gsize i = 0; i < call->n; i++)
    {
      const Move *move = &get_moves (call)[i];
      const gchar *address = call->addresses->of[move->piece] + move->offset;

      memcpy (arguments + move->place, &address, sizeof address);
    }
  addresses_unref (call->addresses);
  call->function (arguments);
}

/* Returns the piece (the driver's large buffer) that contains a buffer, and sets *offset to the
 * buffer's offset in the piece, in bytes.  If @object is not a buffer from a pool, returns @object
 * and sets *offset to 0. */
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

/* Sorts an array of pieces and removes duplicates.  Returns the number of pieces that are left. */
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

/* Returns TRUE if the arguments of clEnqueueNativeKernel () that this file uses are valid.  If they
 * are not, the layer passes the program's call on to the driver unchanged. */
static gboolean
is_valid_call (void (CL_CALLBACK *function) (void *), const void *arguments, gsize size, guint n,
               const cl_mem *objects, const void **places, guint n_waits, const cl_event *waits)
{
  if (function == NULL || arguments == NULL || n == 0 || objects == NULL || places == NULL
      || (n_waits > 0) != (waits != NULL))
    return FALSE;
  for (guint i = 0; i < n; i++)
    {
      gsize place = (gsize) ((guintptr) places[i] - (guintptr) arguments);

      if (places[i] == NULL || place > size || size - place < sizeof (gpointer))
        return FALSE;
    }
  return TRUE;
}

/* Fills in a Call's array of structs Move.  A Move says where in the arguments the layer writes
 * the address of a buffer.  Fills @pieces with the pieces (the driver's buffers) that contain the
 * buffers, sorted and without duplicates.  Returns the number of pieces. */
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

/* Enqueues, for each piece, the native kernel that stores the piece's address.  Adds the events of
 * these commands to @events. */
static cl_int
ask (cl_command_queue queue, Addresses *addresses, const cl_mem *pieces, guint n, GArray *events)
{
  for (guint i = 0; i < n; i++)
    {
      Question question = { addresses, i, NULL };
      const void *place = &question.address;
      cl_event event;
      cl_int status;

      __atomic_add_fetch (&addresses->references, 1, __ATOMIC_RELAXED);
      status = _tarn_layer_driver->clEnqueueNativeKernel (
          queue, note_address, &question, sizeof question, 1, &pieces[i], &place, 0, NULL, &event);
      if (status != CL_SUCCESS)
        {
          addresses_unref (addresses);
          return status;
        }
      g_array_append_val (events, event);
    }
  return CL_SUCCESS;
}

/* Releases all events in an array, and the array. */
static void
release_events (GArray *events)
{
  for (guint i = 0; i < events->len; i++)
    _tarn_layer_release_event (g_array_index (events, cl_event, i));
  g_array_unref (events);
}

/* Enqueues the native kernel that calls the program's function.  This kernel waits for the commands
 * in @events, which store the addresses of pieces, and for the events that the program passed in
 * @waits. */
static cl_int
enqueue_call (cl_command_queue queue, Call *call, gsize size, const cl_mem *pieces, guint n_pieces,
              GArray *events, cl_uint n_waits, const cl_event *waits, cl_event *event)
{
  g_autofree const void **places = g_new (const void *, n_pieces);

  for (guint i = 0; i < n_pieces; i++)
    places[i] = &get_places (call)[i];
  if (n_waits > 0)
    g_array_append_vals (events, waits, n_waits);
  return _tarn_layer_driver->clEnqueueNativeKernel (
      queue, run, call, size, n_pieces, pieces, places, events->len,
      (const cl_event *) (gpointer) events->data, event);
}

/* Enqueues the layer's native kernels that together execute one native kernel of the program. */
static cl_int
enqueue (cl_command_queue queue, void (CL_CALLBACK *function) (void *), const void *arguments,
         gsize size, guint n, const cl_mem *objects, const void **places, cl_uint n_waits,
         const cl_event *waits, cl_event *event)
{
  gsize start = get_arguments_offset (n);
  g_autofree Call *call = g_malloc0 (start + size);
  g_autofree cl_mem *pieces = g_new (cl_mem, n);
  GArray *events = g_array_new (FALSE, FALSE, sizeof (cl_event));
  guint n_pieces, n_asked;
  cl_int status;

  call->function = function;
  call->n = n;
  n_pieces = set_moves (call, arguments, objects, places, pieces);
  call->addresses = addresses_new (n_pieces);
  memcpy ((guchar *) call + start, arguments, size);
  status = ask (queue, call->addresses, pieces, n_pieces, events);
  n_asked = events->len;
  if (status == CL_SUCCESS)
    status
        = enqueue_call (queue, call, start + size, pieces, n_pieces, events, n_waits, waits, event);
  if (status != CL_SUCCESS)
    addresses_unref (call->addresses);
  g_array_set_size (events, n_asked);
  release_events (events);
  return status;
}

cl_int CL_API_CALL
layer_clEnqueueNativeKernel (cl_command_queue queue, void (CL_CALLBACK *function) (void *),
                             void *arguments, size_t size, cl_uint n, const cl_mem *objects,
                             const void **places, cl_uint n_waits, const cl_event *waits,
                             cl_event *event)
{
  gboolean right = is_valid_call (function, arguments, size, n, objects, places, n_waits, waits);
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
