/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * GEGL's buffers from pools. GEGL calls OpenCL through variables such as gegl_clCreateBuffer, so
 * none of its calls has to be changed. It has one in-order queue, which is the pools', so it need
 * not name it again. */

#define CL_TARGET_OPENCL_VERSION 120
#include <tarn/opencl.h>

typedef __typeof__ (&clCreateBuffer) Create;
typedef __typeof__ (&clReleaseMemObject) Release;

static TarnPool *pools[2]; /* of plain buffers, and of those that the host maps */
static Create create_plain;
static Release release_plain;

static cl_mem
create_buffer (cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *status)
{
  TarnPool *pool = pools[(flags & CL_MEM_ALLOC_HOST_PTR) != 0];
  g_autoptr (GError) error = NULL;
  TarnBlock *block;

  if (pool == NULL || host != NULL)
    return create_plain (context, flags, size, host, status);
  block = tarn_opencl_pool_allocate (pool, size, NULL, &error);
  *status = tarn_opencl_error_to_status (error);
  return block != NULL ? tarn_opencl_block_get_buffer (block) : NULL;
}

static cl_int
release_buffer (cl_mem buffer)
{
  for (guint i = 0; i < G_N_ELEMENTS (pools); i++)
    if (pools[i] != NULL
        && tarn_pool_free_memory (pools[i], (TarnMemory){ .pointer = buffer }, NULL, NULL))
      return CL_SUCCESS;
  return release_plain (buffer);
}

void
gegl_cl_tarn_init (cl_command_queue queue, Create *create, Release *release)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;

  options.flags = TARN_POOL_FINDABLE;
  for (guint i = 0; i < G_N_ELEMENTS (pools); i++)
    pools[i] = tarn_opencl_pool_new (queue, i * CL_MEM_ALLOC_HOST_PTR, &options, NULL);
  create_plain = *create;
  release_plain = *release;
  *create = create_buffer;
  *release = release_buffer;
}
