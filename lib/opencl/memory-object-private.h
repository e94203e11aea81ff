/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What the allocators of buffers and of images share. */

#ifndef TARN_OPENCL_MEMORY_OBJECT_PRIVATE_H
#define TARN_OPENCL_MEMORY_OBJECT_PRIVATE_H

#include <tarn/opencl.h>

/* The command that has the driver allocate the memory of a new memory object. */
typedef enum
{
  TARN_OPENCL_MIGRATE,
  TARN_OPENCL_FILL,
  TARN_OPENCL_WRITE
} TarnOpenclCommand;

/* How Tarn has to treat memory objects of a device's driver. */
typedef struct
{
  TarnOpenclCommand command;
  /* TRUE: it counts the program's references alone, on whole memory objects and on parts. */
  gboolean trusts_whole, trusts_parts;
} TarnOpenclTraits;

gboolean _tarn_opencl_find_traits (cl_device_id device, TarnOpenclTraits *traits, GError **error);

/* Refuses flags that want a host pointer. */
gboolean _tarn_opencl_check_flags (cl_mem_flags flags, GError **error);

/* Tells whether the program retains a memory object that it frees. */
gboolean _tarn_opencl_is_retained (cl_mem object, const TarnOpenclTraits *traits);

/* Logs a message if it fails: @what, such as "a buffer", may be lost. */
void _tarn_opencl_release_memory (cl_mem object, const gchar *what, gsize size);

#endif
