/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Maps: the regions of buffers and images that the program has mapped (OpenCL 3.0 specification,
 * sections 5.2.4, "Mapping Buffer Objects", and 5.5.2, "Unmapping Mapped Memory Objects").
 *
 * Some drivers record the maps of a sub-buffer as maps of the buffer that the sub-buffer is made
 * of.  Each buffer of the program is a sub-buffer of a piece, a large buffer of the driver, so with
 * such a driver all buffers in a piece would share their maps.  Therefore the layer records maps
 * itself.  The record of a program's buffer lists the maps of the buffer and of its sub-buffers,
 * because a program may map a sub-buffer and unmap the buffer, if the driver allows that. */

#include "layer-private.h"

/* The record of a mapped region of a buffer or image. */
typedef struct
{
  gpointer pointer;    /* the host address of the mapped region */
  LayerBuffer *buffer; /* the mapped object: a buffer, or an object made of a buffer; borrowed */
  /* TRUE if the map counts as a reference of the program to the object, because the driver counts
   * maps in CL_MEM_REFERENCE_COUNT */
  gboolean is_retained;
} LayerMap;

/* Returns the buffer that an object is made of.  If the object is not made of a buffer, returns the
 * object itself. */
static LayerBuffer *
get_whole (LayerBuffer *self)
{
  return self->whole != NULL ? self->whole : self;
}

cl_uint
_tarn_layer_count_maps (LayerBuffer *self)
{
  LayerBuffer *whole = get_whole (self);
  TARN_LOCKED (&whole->lock);
  cl_uint n = 0;

  for (guint i = 0; whole->maps != NULL && i < whole->maps->len; i++)
    n += g_array_index (whole->maps, LayerMap, i).buffer == self;
  return n;
}

/* Records a map of a buffer or image.  The list of maps is in the record of the buffer that the
 * object is made of, or in the object's own record if the object is not made of a buffer. */
static void
add_map (LayerBuffer *self, gpointer pointer)
{
  LayerBuffer *whole = get_whole (self);
  LayerMap map = { pointer, self, _tarn_layer_ask_map_references (self->context) };
  TARN_LOCKED (&whole->lock);

  if (map.is_retained)
    _tarn_layer_retain (self);
  if (whole->maps == NULL)
    whole->maps = g_array_new (FALSE, FALSE, sizeof map);
  g_array_append_val (whole->maps, map);
}

/* Removes a map with the host address @pointer from the list of maps that @self shares with other
 * objects made of the same buffer.  If several maps have this address, removes a map of @self
 * rather than a map of another object.  Sets *taken to the removed map, and adds a reference to the
 * record of the map's object.  Returns FALSE if the list has no map with this address. */
static gboolean
take_map (LayerBuffer *self, gpointer pointer, LayerMap *taken)
{
  LayerBuffer *whole = get_whole (self);
  TARN_LOCKED (&whole->lock);
  guint found = G_MAXUINT;

  for (guint i = 0; whole->maps != NULL && i < whole->maps->len; i++)
    {
      const LayerMap *map = &g_array_index (whole->maps, LayerMap, i);

      if (map->pointer == pointer && (found == G_MAXUINT || map->buffer == self))
        found = i;
    }
  if (found == G_MAXUINT)
    return FALSE;
  *taken = g_array_index (whole->maps, LayerMap, found);
  _tarn_layer_ref (taken->buffer);
  g_array_remove_index_fast (whole->maps, found);
  return TRUE;
}

gboolean
_tarn_layer_forget_maps (LayerBuffer *self)
{
  LayerBuffer *whole = get_whole (self);
  TARN_LOCKED (&whole->lock);
  gboolean was_mapped = FALSE;

  for (guint i = whole->maps != NULL ? whole->maps->len : 0; i > 0; i--)
    if (g_array_index (whole->maps, LayerMap, i - 1).buffer == self)
      {
        g_array_remove_index_fast (whole->maps, i - 1);
        was_mapped = TRUE;
      }
  return was_mapped;
}

/* Records the new map after a map command.  The object that the command maps is the command's only
 * object.  Does nothing if the driver's call failed, or if the layer has no record of the object.
 */
static void
note_map (LayerCommand *command, cl_int status, gpointer pointer)
{
  if (status == CL_SUCCESS && command->few[0] != NULL)
    add_map (command->few[0], pointer);
}

void *CL_API_CALL
layer_clEnqueueMapBuffer (cl_command_queue queue, cl_mem buffer, cl_bool wait, cl_map_flags flags,
                          size_t offset, size_t size, cl_uint n_waits, const cl_event *waits,
                          cl_event *event, cl_int *status_ret)
{
  LayerCommand command;
  cl_int status = CL_INVALID_VALUE;
  void *pointer = NULL;

  _tarn_layer_command_begin (&command, queue, &buffer, 1, &event);
  if (_tarn_layer_is_within (command.few[0], offset, size))
    pointer = _tarn_layer_driver->clEnqueueMapBuffer (queue, buffer, wait, flags, offset, size,
                                                      n_waits, waits, event, &status);
  note_map (&command, status, pointer);
  _tarn_layer_command_end (&command, status, wait);
  if (status_ret != NULL)
    *status_ret = status;
  return pointer;
}

void *CL_API_CALL
layer_clEnqueueMapImage (cl_command_queue queue, cl_mem image, cl_bool wait, cl_map_flags flags,
                         const size_t *origin, const size_t *region, size_t *row, size_t *slice,
                         cl_uint n_waits, const cl_event *waits, cl_event *event,
                         cl_int *status_ret)
{
  LayerCommand command;
  cl_int status = CL_SUCCESS;
  void *pointer;

  _tarn_layer_command_begin (&command, queue, &image, 1, &event);
  pointer = _tarn_layer_driver->clEnqueueMapImage (queue, image, wait, flags, origin, region, row,
                                                   slice, n_waits, waits, event, &status);
  note_map (&command, status, pointer);
  _tarn_layer_command_end (&command, status, wait);
  if (status_ret != NULL)
    *status_ret = status;
  return pointer;
}

/* Drops the references of a map that take_map () removed from the list.  If @is_mapped is TRUE, the
 * driver did not unmap the region, so this function records the map again. */
static void
end_map (LayerMap *map, gboolean is_mapped)
{
  if (is_mapped)
    add_map (map->buffer, map->pointer);
  if (map->is_retained)
    _tarn_layer_buffer_release (map->buffer);
  else
    _tarn_layer_unref (map->buffer);
}

cl_int CL_API_CALL
layer_clEnqueueUnmapMemObject (cl_command_queue queue, cl_mem object, void *pointer,
                               cl_uint n_waits, const cl_event *waits, cl_event *event)
{
  LAYER_AUTO LayerBuffer *self = _tarn_layer_find (LAYER_BUFFER, object);
  LayerCommand command;
  LayerMap map = { .buffer = NULL };
  cl_int status = CL_INVALID_VALUE;

  _tarn_layer_command_begin (&command, queue, &object, 1, &event);
  if (self == NULL || take_map (self, pointer, &map) || self->is_image)
    status = _tarn_layer_driver->clEnqueueUnmapMemObject (
        queue, map.buffer != NULL ? map.buffer->base.handle : object, pointer, n_waits, waits,
        event);
  _tarn_layer_command_end (&command, status, FALSE);
  if (map.buffer != NULL)
    end_map (&map, status != CL_SUCCESS);
  /* Check for out-of-bounds writes, which the host may have made while the region was mapped. */
  if (self != NULL && status == CL_SUCCESS)
    _tarn_layer_debug_check_guards (self->context);
  return status;
}
