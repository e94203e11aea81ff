/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Functions that the allocators of buffers and of images share. */

#ifndef TARN_OPENCL_MEMORY_OBJECT_PRIVATE_H
#define TARN_OPENCL_MEMORY_OBJECT_PRIVATE_H

#include <tarn/opencl.h>

/* The command that makes the driver allocate the memory of a new memory object. */
typedef enum
{
  TARN_OPENCL_MIGRATE,
  TARN_OPENCL_FILL,
  TARN_OPENCL_WRITE
} TarnOpenclCommand;

/* The traits of a device's driver, as far as they matter for memory objects. */
typedef struct
{
  TarnOpenclCommand command;
  /* TRUE: counts of whole objects, or of sub-buffers, count only the program's references */
  gboolean trusts_whole, trusts_parts;
} TarnOpenclTraits;

gboolean _tarn_opencl_find_traits (cl_device_id device, TarnOpenclTraits *traits, GError **error);

/* Fails for flags that need a host pointer. */
gboolean _tarn_opencl_check_flags (cl_mem_flags flags, GError **error);

/* Returns TRUE if the program still has a reference to the object of a block that it frees. */
gboolean _tarn_opencl_is_retained (cl_mem object, const TarnOpenclTraits *traits);

/* Releases a memory object.  Logs a message if that fails, with @what, such as "a buffer". */
void _tarn_opencl_release_memory (cl_mem object, const gchar *what, gsize size);

#endif
