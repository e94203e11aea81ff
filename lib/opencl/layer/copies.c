/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Copies of boxes (three-dimensional regions of buffers), and copies between buffers and images:
 * OpenCL 3.0 specification, sections 5.2.2, "Reading, Writing and Copying Buffer Objects", and
 * 5.3.5, "Copying between Image and Buffer Objects".
 *
 * A buffer of the program is the driver's sub-buffer of a piece, a large buffer of the driver.
 * Some drivers check that a box is within the piece, but not that it is within the sub-buffer.
 * Other buffers of the program come after the sub-buffer, so the layer checks itself that the box
 * is within the program's buffer.  Some drivers cannot copy boxes of sub-buffers at all.  For
 * these, the layer enqueues a copy from piece to piece. */

#include "layer-private.h"

/* The position of a box in a buffer.  @row and @slice are the row pitch and the slice pitch in
 * bytes.  If the program passed 0 for a pitch, the field has the pitch that OpenCL computes from
 * the size of the box instead.  So a pitch is 0 only if the box is empty. */
typedef struct
{
  cl_mem object;
  size_t origin[3];
  size_t row;
  size_t slice;
} Box;

/* Adds the product of @a and @b to *sum.  Returns FALSE if the result does not fit into a gsize. */
static gboolean
add_product (gsize *sum, gsize a, gsize b)
{
  gsize product;

  return !__builtin_mul_overflow (a, b, &product) && !__builtin_add_overflow (*sum, product, sum);
}

/* Returns TRUE if a box ends at most @size bytes after the start of its buffer. */
static gboolean
ends_within (gsize size, const Box *box, const size_t *region)
{
  gsize end = 0;

  return add_product (&end, box->origin[0], 1) && add_product (&end, box->origin[1], box->row)
         && add_product (&end, box->origin[2], box->slice) && add_product (&end, region[0], 1)
         && add_product (&end, region[1] - 1, box->row)
         && add_product (&end, region[2] - 1, box->slice) && end <= size;
}

/* Sets @box from the arguments of a command.  Returns FALSE if the arguments are invalid.  Then the
 * caller passes the command to the driver, which returns the error. */
static gboolean
read_box (Box *box, cl_mem object, const size_t *origin, const size_t *region, size_t row,
          size_t slice)
{
  if (origin == NULL || region == NULL)
    return FALSE;
  *box = (Box){ object, { origin[0], origin[1], origin[2] }, row, slice };
  if (row == 0)
    box->row = region[0];
  if (slice == 0 && __builtin_mul_overflow (region[1], box->row, &box->slice))
    return FALSE;
  return TRUE;
}

/* Returns TRUE if the layer finds no fault with the position of a box in @buffer.  There are three
 * kinds of @buffer:
 * - An image, or NULL for an object that is not from a pool: returns TRUE, because the driver
 *   checks the box.
 * - A buffer from a pool: returns TRUE if the box is within the buffer.
 * - A sub-buffer that the program made: returns TRUE if the box ends within the buffer of which the
 *   sub-buffer is made.  The driver checks the rest.  But if the layer copies within the piece, the
 *   driver's large buffer (copies_by_pieces), the driver cannot check the rest.  So this function
 *   then returns TRUE only if the box ends within the sub-buffer. */
static gboolean
is_within (const LayerBuffer *buffer, const Box *box, const size_t *region)
{
  if (buffer == NULL || buffer->is_image)
    return TRUE;
  if (region[0] == 0 || region[1] == 0 || region[2] == 0)
    return FALSE;
  if (buffer->whole == NULL || buffer->context->copies_by_pieces)
    return ends_within (buffer->size, box, region);
  return ends_within (buffer->whole->size - buffer->offset, box, region);
}

/* Returns TRUE if the layer finds no fault with the box of a program's command (see is_within ()).
 * Also returns TRUE if the arguments are invalid, because the driver then returns the error. */
static gboolean
box_is_within (const LayerBuffer *buffer, const size_t *origin, const size_t *region, size_t row,
               size_t slice)
{
  Box box;

  return !read_box (&box, NULL, origin, region, row, slice) || is_within (buffer, &box, region);
}

cl_int CL_API_CALL
layer_clEnqueueReadBufferRect (cl_command_queue queue, cl_mem buffer, cl_bool wait,
                               const size_t *origin, const size_t *host_origin,
                               const size_t *region, size_t row, size_t slice, size_t host_row,
                               size_t host_slice, void *host, cl_uint n_waits,
                               const cl_event *waits, cl_event *event)
{
  LayerCommand command;
  cl_int status = CL_INVALID_VALUE;

  _tarn_layer_command_begin (&command, queue, &buffer, 1, &event);
  if (box_is_within (command.few[0], origin, region, row, slice))
    status = _tarn_layer_driver->clEnqueueReadBufferRect (queue, buffer, wait, origin, host_origin,
                                                          region, row, slice, host_row, host_slice,
                                                          host, n_waits, waits, event);
  _tarn_layer_command_end (&command, status, wait);
  return status;
}

cl_int CL_API_CALL
layer_clEnqueueWriteBufferRect (cl_command_queue queue, cl_mem buffer, cl_bool wait,
                                const size_t *origin, const size_t *host_origin,
                                const size_t *region, size_t row, size_t slice, size_t host_row,
                                size_t host_slice, const void *host, cl_uint n_waits,
                                const cl_event *waits, cl_event *event)
{
  LayerCommand command;
  cl_int status = CL_INVALID_VALUE;

  _tarn_layer_command_begin (&command, queue, &buffer, 1, &event);
  if (box_is_within (command.few[0], origin, region, row, slice))
    status = _tarn_layer_driver->clEnqueueWriteBufferRect (queue, buffer, wait, origin, host_origin,
                                                           region, row, slice, host_row, host_slice,
                                                           host, n_waits, waits, event);
  _tarn_layer_command_end (&command, status, wait);
  return status;
}

/* Functions that copy from one box to another */

/* The arguments of a copy from one box to another. */
typedef struct
{
  cl_command_queue queue;
  Box from, to;
  const size_t *region;
  cl_uint n_waits;
  const cl_event *waits;
  cl_event
      *event; /* where the driver writes the event of the copy; NULL if the program wants none */
} BoxCopy;

/* Copies a box by a single command of the driver. */
static cl_int
copy_box (const BoxCopy *copy)
{
  return _tarn_layer_driver->clEnqueueCopyBufferRect (
      copy->queue, copy->from.object, copy->to.object, copy->from.origin, copy->to.origin,
      copy->region, copy->from.row, copy->from.slice, copy->to.row, copy->to.slice, copy->n_waits,
      copy->waits, copy->event);
}

/* Returns the offset of row @y of slice @z of a box, in bytes from the start of the buffer. */
static gsize
get_row_start (const Box *box, gsize y, gsize z)
{
  return box->origin[0] + (box->origin[1] + y) * box->row + (box->origin[2] + z) * box->slice;
}

/* Enqueues a command that copies row @i of the @n rows of a box.  The command for the last row
 * waits for the commands of all other rows, so the program gets the event of the last row as the
 * event of the whole copy.  The command's box is this row, and begins at the row's offset in the
 * buffer.
 *
 * If both boxes of a command are in one buffer, a driver may refuse a box whose origin is beyond
 * the end of a row.  So the pitches that this function passes are larger than both offsets.  They
 * have no other effect, because a box of one row uses no pitch. */
static cl_int
copy_row (const BoxCopy *copy, gsize i, gsize n, cl_event *events)
{
  const size_t region[3] = { copy->region[0], 1, 1 };
  gsize y = i % copy->region[1], z = i / copy->region[1];
  gsize from = get_row_start (&copy->from, y, z), to = get_row_start (&copy->to, y, z);
  gsize length = MAX (from, to) + region[0];
  BoxCopy row = { .queue = copy->queue,
                  .from = { copy->from.object, { from, 0, 0 }, length, length },
                  .to = { copy->to.object, { to, 0, 0 }, length, length },
                  .region = region,
                  .n_waits = copy->n_waits,
                  .waits = copy->waits,
                  .event = i == n - 1 ? copy->event : &events[i] };

  if (i == n - 1 && n > 1)
    {
      row.n_waits = (cl_uint) i;
      row.waits = events;
    }
  return copy_box (&row);
}

/* Copies a box by one command for each of its rows.  Sets *has_begun to TRUE if the driver has
 * accepted one of the commands, even if it refuses a later one. */
static cl_int
copy_rows (const BoxCopy *copy, gboolean *has_begun)
{
  gsize n = copy->region[1] * copy->region[2];
  g_autofree cl_event *events = g_try_new0 (cl_event, n);
  cl_int status = events != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;

  for (gsize i = 0; i < n && status == CL_SUCCESS; i++)
    {
      status = copy_row (copy, i, n, events);
      *has_begun |= status == CL_SUCCESS;
    }
  for (gsize i = 0; events != NULL && i < n - 1 && events[i] != NULL; i++)
    _tarn_layer_driver->clReleaseEvent (events[i]);
  return status;
}

/* If the driver cannot copy boxes of sub-buffers, replaces the buffer of a box by the buffer's
 * piece, the driver's large buffer, and adds the buffer's offset in the piece to the box's origin.
 */
static void
move_to_piece (const LayerBuffer *buffer, Box *box)
{
  gsize offset;

  if (buffer == NULL || buffer->is_image || !buffer->context->copies_by_pieces)
    return;
  box->object = _tarn_layer_buffer_find_piece (buffer, &offset);
  box->origin[0] += offset;
}

/* Returns TRUE if OpenCL allows the pitches of a box: rows and slices do not overlap, and the slice
 * pitch is a multiple of the row pitch. */
static gboolean
has_valid_pitches (const Box *box, const size_t *region)
{
  return box->row >= region[0] && box->slice % box->row == 0 && box->slice / box->row >= region[1];
}

/* Copies a box from one buffer to another, usually by one command.  If both buffers are parts of
 * one piece (a large buffer of the driver), and the layer copies within this piece, it copies row
 * by row in two cases:
 * - The row or slice pitches of the two boxes differ.  OpenCL does not allow that within one
 *   buffer.  The driver does not see these pitches, so the function checks them.
 * - The driver reports an overlap, although the caller knows that the boxes do not overlap
 *   (@apart).  A driver may do so if the boxes begin at different offsets in a row.
 *
 * @has_begun: set to TRUE if copy_rows () enqueued a command. */
static cl_int
copy_between (const BoxCopy *copy, gboolean apart, gboolean *has_begun)
{
  gboolean is_same = copy->from.row == copy->to.row && copy->from.slice == copy->to.slice;
  gboolean is_one = copy->from.object == copy->to.object;
  cl_int status = CL_SUCCESS;

  if (!is_one || is_same)
    status = copy_box (copy);
  else if (!has_valid_pitches (&copy->from, copy->region)
           || !has_valid_pitches (&copy->to, copy->region))
    return CL_INVALID_VALUE;
  if (is_one && (!is_same || (apart && status == CL_MEM_COPY_OVERLAP)))
    status = copy_rows (copy, has_begun);
  return status;
}

/* Returns the buffer of which the sub-buffer or image @buffer is made.  Returns @buffer itself if
 * it is made of no other object. */
static const LayerBuffer *
get_whole (const LayerBuffer *buffer)
{
  return buffer != NULL && buffer->whole != NULL ? buffer->whole : buffer;
}

cl_int CL_API_CALL
layer_clEnqueueCopyBufferRect (cl_command_queue queue, cl_mem from, cl_mem to,
                               const size_t *from_origin, const size_t *to_origin,
                               const size_t *region, size_t from_row, size_t from_slice,
                               size_t to_row, size_t to_slice, cl_uint n_waits,
                               const cl_event *waits, cl_event *event)
{
  LAYER_AUTO LayerBuffer *source = _tarn_layer_find (LAYER_BUFFER, from);
  LAYER_AUTO LayerBuffer *target = _tarn_layer_find (LAYER_BUFFER, to);
  const cl_mem objects[] = { from, to };
  LayerCommand command;
  BoxCopy copy
      = { .queue = queue, .region = region, .n_waits = n_waits, .waits = waits, .event = event };
  gboolean has_begun = FALSE;
  cl_int status = CL_INVALID_VALUE;

  _tarn_layer_command_begin (&command, queue, objects, 2, &event);
  copy.event = event;
  if (!read_box (&copy.from, from, from_origin, region, from_row, from_slice)
      || !read_box (&copy.to, to, to_origin, region, to_row, to_slice))
    status = _tarn_layer_driver->clEnqueueCopyBufferRect (queue, from, to, from_origin, to_origin,
                                                          region, from_row, from_slice, to_row,
                                                          to_slice, n_waits, waits, event);
  else if (is_within (source, &copy.from, region) && is_within (target, &copy.to, region))
    {
      move_to_piece (source, &copy.from);
      move_to_piece (target, &copy.to);
      if (from == to)
        status = copy_box (&copy);
      else
        status = copy_between (&copy, get_whole (source) != get_whole (target), &has_begun);
    }
  if (status != CL_SUCCESS)
    /* The driver has written no event: it writes the event with the last command, and it has
     * refused that command or an earlier one. */
    command.event = NULL;
  _tarn_layer_command_end (&command, has_begun ? CL_SUCCESS : status, FALSE);
  return status;
}

/* Functions that copy between buffers and images */

/* Computes the number of bytes that a region of an image needs in a buffer.  Returns FALSE if the
 * arguments are invalid.  Then the caller passes the command to the driver, which returns the
 * error. */
static gboolean
get_image_bytes (cl_mem image, const size_t *region, gsize *bytes)
{
  size_t size = 0;
  gsize n;

  if (region == NULL
      || _tarn_layer_driver->clGetImageInfo (image, CL_IMAGE_ELEMENT_SIZE, sizeof size, &size, NULL)
             != CL_SUCCESS)
    return FALSE;
  *bytes = 0;
  return !__builtin_mul_overflow (region[0], region[1], &n)
         && !__builtin_mul_overflow (n, region[2], &n) && add_product (bytes, n, size);
}

/* Checks and prepares the buffer of a copy between a buffer and an image.  Returns FALSE if the
 * copied region ends after the program's buffer: the driver might not see that, because its
 * sub-buffer may be larger.  If the driver cannot copy between sub-buffers and images, replaces
 * *object by the buffer's piece, the driver's large buffer, and adjusts *offset. */
static gboolean
place_in_piece (cl_mem *object, gsize *offset, cl_mem image, const size_t *region)
{
  LAYER_AUTO LayerBuffer *buffer = _tarn_layer_find (LAYER_BUFFER, *object);
  gsize bytes, start;

  if (buffer == NULL || buffer->is_image
      || (buffer->whole != NULL && !buffer->context->copies_images_by_pieces)
      || !get_image_bytes (image, region, &bytes))
    return TRUE;
  if (*offset > buffer->size || bytes > buffer->size - *offset)
    return FALSE;
  if (!buffer->context->copies_images_by_pieces)
    return TRUE;
  *object = _tarn_layer_buffer_find_piece (buffer, &start);
  *offset += start;
  return TRUE;
}

cl_int CL_API_CALL
layer_clEnqueueCopyImageToBuffer (cl_command_queue queue, cl_mem image, cl_mem buffer,
                                  const size_t *origin, const size_t *region, size_t offset,
                                  cl_uint n_waits, const cl_event *waits, cl_event *event)
{
  const cl_mem objects[] = { image, buffer };
  LayerCommand command;
  cl_int status = CL_INVALID_VALUE;

  _tarn_layer_command_begin (&command, queue, objects, 2, &event);
  if (place_in_piece (&buffer, &offset, image, region))
    status = _tarn_layer_driver->clEnqueueCopyImageToBuffer (queue, image, buffer, origin, region,
                                                             offset, n_waits, waits, event);
  _tarn_layer_command_end (&command, status, FALSE);
  return status;
}

cl_int CL_API_CALL
layer_clEnqueueCopyBufferToImage (cl_command_queue queue, cl_mem buffer, cl_mem image,
                                  size_t offset, const size_t *origin, const size_t *region,
                                  cl_uint n_waits, const cl_event *waits, cl_event *event)
{
  const cl_mem objects[] = { buffer, image };
  LayerCommand command;
  cl_int status = CL_INVALID_VALUE;

  _tarn_layer_command_begin (&command, queue, objects, 2, &event);
  if (place_in_piece (&buffer, &offset, image, region))
    status = _tarn_layer_driver->clEnqueueCopyBufferToImage (queue, buffer, image, offset, origin,
                                                             region, n_waits, waits, event);
  _tarn_layer_command_end (&command, status, FALSE);
  return status;
}
