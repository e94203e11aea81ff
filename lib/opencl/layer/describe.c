/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Answers the program's queries about its buffers: OpenCL 3.0 specification, section 5.5.5, "Memory
 * Object Queries".  The driver made the program's buffers as sub-buffers of larger buffers.  The
 * answers hide that from the program. */

#include "layer-private.h"

/* Returns the reference count that the driver would report if it had made the program's buffer as a
 * whole buffer, not as a sub-buffer. */
static cl_uint
get_references (const LayerBuffer *self)
{
  guint references = __atomic_load_n (&self->base.program_references, __ATOMIC_RELAXED);
  guint parts = __atomic_load_n (&self->parts, __ATOMIC_RELAXED);

  return _tarn_layer_ask_part_references (self->context) ? references
                                                         : references - MIN (references, parts);
}

cl_int CL_API_CALL
layer_clGetMemObjectInfo (cl_mem object, cl_mem_info name, size_t size, void *value,
                          size_t *size_ret)
{
  LAYER_AUTO LayerBuffer *self = _tarn_layer_find (LAYER_BUFFER, object);
  cl_mem whole = self != NULL && self->whole != NULL ? self->whole->base.handle : NULL;
  gsize offset = whole != NULL ? self->offset : 0;
  void *host = NULL;
  cl_uint count;

  if (self != NULL && name == CL_MEM_REFERENCE_COUNT)
    {
      count = get_references (self);
      return _tarn_layer_answer (&count, sizeof count, size, value, size_ret);
    }
  if (self != NULL && (!self->is_image || self->is_disguised))
    switch (name)
      {
      case CL_MEM_FLAGS:
        return _tarn_layer_answer (&self->flags, sizeof self->flags, size, value, size_ret);
      case CL_MEM_SIZE:
        if (self->is_image)
          break;
        return _tarn_layer_answer (&self->size, sizeof self->size, size, value, size_ret);
      case CL_MEM_MAP_COUNT:
        count = _tarn_layer_count_maps (self);
        return _tarn_layer_answer (&count, sizeof count, size, value, size_ret);
      case CL_MEM_HOST_PTR:
        return _tarn_layer_answer (&host, sizeof host, size, value, size_ret);
      case CL_MEM_ASSOCIATED_MEMOBJECT:
        return _tarn_layer_answer (&whole, sizeof whole, size, value, size_ret);
      case CL_MEM_OFFSET:
        return _tarn_layer_answer (&offset, sizeof offset, size, value, size_ret);
      default:
        break;
      }
  return _tarn_layer_driver->clGetMemObjectInfo (object, name, size, value, size_ret);
}
