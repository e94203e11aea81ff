/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What is said of buffers, so that nobody sees that they are parts of pieces: OpenCL 3.0
 * specification, sections 5.5.5, "Memory Object Queries", and 5.2.1, clCreateSubBuffer. */

#include "layer-private.h"

static cl_uint
get_references (const LayerBuffer *self)
{
  guint held = __atomic_load_n (&self->base.held, __ATOMIC_RELAXED);
  guint parts = __atomic_load_n (&self->parts, __ATOMIC_RELAXED);

  return _tarn_layer_context_counts_parts (self->context) ? held : held - MIN (held, parts);
}

cl_int CL_API_CALL
layer_clGetMemObjectInfo (cl_mem object, cl_mem_info name, size_t size, void *value,
                          size_t *size_ret)
{
  LAYER_AUTO LayerBuffer *self = _tarn_layer_find (LAYER_BUFFER, object);
  cl_mem whole = self != NULL && self->whole != NULL ? self->whole->base.handle : NULL;
  gsize offset = whole != NULL ? self->offset : 0;
  void *host = NULL;
  cl_uint references;

  if (self != NULL && name == CL_MEM_REFERENCE_COUNT)
    {
      references = get_references (self);
      return _tarn_layer_answer (&references, sizeof references, size, value, size_ret);
    }
  if (self != NULL && !self->is_image)
    switch (name)
      {
      case CL_MEM_FLAGS:
        if (whole != NULL)
          break;
        return _tarn_layer_answer (&self->flags, sizeof self->flags, size, value, size_ret);
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

/* Whether a part may have less access than the whole, but not other. */
static gboolean
is_within (cl_mem_flags asked, cl_mem_flags whole, cl_mem_flags all)
{
  return (asked & all) == 0 || (whole & all) == 0 || (asked & all & ~(whole & all)) == 0;
}

static gboolean
check_flags (cl_mem_flags asked, cl_mem_flags whole)
{
  const cl_mem_flags narrow = LAYER_ACCESS_FLAGS & ~(cl_mem_flags) CL_MEM_READ_WRITE;

  if ((asked & (CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR)) != 0)
    return FALSE;
  if ((whole & narrow) != 0 && !is_within (asked, whole, LAYER_ACCESS_FLAGS))
    return FALSE;
  /* No access of the host's at all is less than any. */
  return (asked & CL_MEM_HOST_NO_ACCESS) != 0 || is_within (asked, whole, LAYER_HOST_FLAGS);
}

cl_int
_tarn_layer_check_part (const LayerBuffer *whole, cl_mem_flags asked, cl_buffer_create_type type,
                        const cl_buffer_region *region, cl_mem_flags *flags)
{
  *flags = asked;
  if ((asked & LAYER_ACCESS_FLAGS) == 0)
    *flags |= whole->asked & LAYER_ACCESS_FLAGS;
  if ((asked & LAYER_HOST_FLAGS) == 0)
    *flags |= whole->asked & LAYER_HOST_FLAGS;
  if (type != CL_BUFFER_CREATE_TYPE_REGION || region == NULL || !check_flags (asked, whole->asked))
    return CL_INVALID_VALUE;
  if (region->size == 0)
    return CL_INVALID_BUFFER_SIZE;
  if (region->origin > whole->size || region->size > whole->size - region->origin)
    return CL_INVALID_VALUE;
  return CL_SUCCESS;
}
