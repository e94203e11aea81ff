/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Functions that the allocators of buffers and of images share. */

#ifndef TARN_OPENCL_MEMORY_OBJECT_PRIVATE_H
#define TARN_OPENCL_MEMORY_OBJECT_PRIVATE_H

#include <tarn/opencl.h>

/* The command that makes the driver allocate the memory of a new buffer or image. */
typedef enum
{
  TARN_OPENCL_MIGRATE,
  TARN_OPENCL_FILL,
  TARN_OPENCL_WRITE
} TarnOpenclCommand;

/* The properties of a device's driver on which the allocators of buffers and images depend. */
typedef struct
{
  TarnOpenclCommand command;
  /* trusts_whole: TRUE if the driver's reference count of a whole buffer or image counts only the
   * program's references, and not the commands that use the object.  trusts_parts: the same for
   * sub-buffers. */
  gboolean trusts_whole, trusts_parts;
} TarnOpenclTraits;

gboolean _tarn_opencl_find_traits (cl_device_id device, TarnOpenclTraits *traits, GError **error);

/* Returns FALSE with an error if @flags need a host pointer, because an allocator has none. */
gboolean _tarn_opencl_check_flags (cl_mem_flags flags, GError **error);

/* Returns TRUE if the program still has a reference to the memory object of a block that the
 * program frees.  Returns FALSE if the program has none, or if the driver's reference counts do not
 * show whether it has one. */
gboolean _tarn_opencl_is_retained (cl_mem object, const TarnOpenclTraits *traits);

/* Releases a memory object.  If that fails, logs a message with @what, such as "a buffer". */
void _tarn_opencl_release_memory (cl_mem object, const gchar *what, gsize size);

#endif
