/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "regions.h"

#include "allocator/allocator-private.h"

#define WORD sizeof (guint32)

/* Functions of OpenCL 2.0 */

typedef cl_int (*SvmFill) (cl_command_queue queue, gpointer pointer, gconstpointer pattern,
                           size_t pattern_size, size_t size, cl_uint n_waits, const cl_event *waits,
                           cl_event *event);
typedef cl_int (*SvmCopy) (cl_command_queue queue, cl_bool is_blocking, gpointer target,
                           gconstpointer source, size_t size, cl_uint n_waits,
                           const cl_event *waits, cl_event *event);
typedef cl_int (*SetSvm) (cl_kernel kernel, cl_uint index, gconstpointer pointer);

/* Parts */

gsize
opencl_get_part_alignment (TarnAllocator *allocator)
{
  return allocator->ops.part_alignment;
}

gsize
opencl_align_part (TarnAllocator *allocator, gsize bytes)
{
  gsize alignment = opencl_get_part_alignment (allocator);

  return (bytes + alignment - 1) / alignment * alignment;
}

OpenclRegion
opencl_whole_new (TarnAllocator *allocator, const OpenclMemory *memory, gsize size)
{
  OpenclRegion whole = { memory->is_svm, { NULL }, size };
  g_autoptr (GError) error = NULL;

  tarn_allocator_allocate_memory (allocator, size, &whole.memory, &error);
  g_assert_no_error (error);
  g_assert_nonnull (whole.memory.pointer);
  return whole;
}

void
opencl_whole_free (TarnAllocator *allocator, const OpenclRegion *whole)
{
  tarn_allocator_free_memory (allocator, whole->memory, whole->size);
}

gboolean
opencl_part_try (TarnAllocator *allocator, const OpenclRegion *whole, gsize offset, gsize size,
                 OpenclRegion *part, GError **error)
{
  *part = (OpenclRegion){ whole->is_svm, { NULL }, size };
  return allocator->ops.part_new (allocator->user_data, whole->memory, offset, size, &part->memory,
                                  error);
}

OpenclRegion
opencl_part_new (TarnAllocator *allocator, const OpenclRegion *whole, gsize offset, gsize size)
{
  g_autoptr (GError) error = NULL;
  OpenclRegion part;

  opencl_part_try (allocator, whole, offset, size, &part, &error);
  g_assert_no_error (error);
  g_assert_nonnull (part.memory.pointer);
  return part;
}

void
opencl_part_release (TarnAllocator *allocator, const OpenclRegion *part)
{
  if (allocator->ops.part_release != NULL)
    allocator->ops.part_release (allocator->user_data, part->memory, part->size);
}

/* Commands */

static gpointer
get_word (const OpenclRegion *region, gsize first)
{
  return (guint32 *) region->memory.pointer + first;
}

void
opencl_fill_words (cl_command_queue queue, const OpenclRegion *region, gsize first, gsize n,
                   guint32 value)
{
  SvmFill fill;
  cl_int status;

  if (region->is_svm)
    {
      *(gpointer *) &fill = opencl_find_function ("clEnqueueSVMMemFill");
      status = fill (queue, get_word (region, first), &value, WORD, n * WORD, 0, NULL, NULL);
    }
  else
    status = clEnqueueFillBuffer (queue, region->memory.pointer, &value, WORD, first * WORD,
                                  n * WORD, 0, NULL, NULL);
  g_assert_cmpint (status, ==, CL_SUCCESS);
}

static void
copy_svm (cl_command_queue queue, cl_bool is_blocking, gpointer to, gconstpointer from, gsize size)
{
  SvmCopy copy;

  *(gpointer *) &copy = opencl_find_function ("clEnqueueSVMMemcpy");
  g_assert_cmpint (copy (queue, is_blocking, to, from, size, 0, NULL, NULL), ==, CL_SUCCESS);
}

void
opencl_copy_words (cl_command_queue queue, const OpenclRegion *from, gsize from_first,
                   const OpenclRegion *to, gsize to_first, gsize n)
{
  if (to->is_svm)
    copy_svm (queue, CL_FALSE, get_word (to, to_first), get_word (from, from_first), n * WORD);
  else
    g_assert_cmpint (clEnqueueCopyBuffer (queue, from->memory.pointer, to->memory.pointer,
                                          from_first * WORD, to_first * WORD, n * WORD, 0, NULL,
                                          NULL),
                     ==, CL_SUCCESS);
}

void
opencl_write (cl_command_queue queue, const OpenclRegion *region, const guint32 *words)
{
  if (region->is_svm)
    copy_svm (queue, CL_TRUE, region->memory.pointer, words, region->size);
  else
    g_assert_cmpint (clEnqueueWriteBuffer (queue, region->memory.pointer, CL_TRUE, 0, region->size,
                                           words, 0, NULL, NULL),
                     ==, CL_SUCCESS);
}

void
opencl_read (cl_command_queue queue, const OpenclRegion *region, guint32 *words)
{
  if (region->is_svm)
    copy_svm (queue, CL_TRUE, words, region->memory.pointer, region->size);
  else
    g_assert_cmpint (clEnqueueReadBuffer (queue, region->memory.pointer, CL_TRUE, 0, region->size,
                                          words, 0, NULL, NULL),
                     ==, CL_SUCCESS);
}

void
opencl_add_value (cl_command_queue queue, cl_kernel adder, const OpenclRegion *region,
                  guint32 value, guint32 n_turns)
{
  const size_t n_words = region->size / WORD;
  cl_int status;
  SetSvm set_svm;

  if (region->is_svm)
    {
      *(gpointer *) &set_svm = opencl_find_function ("clSetKernelArgSVMPointer");
      status = set_svm (adder, 0, region->memory.pointer);
    }
  else
    status = clSetKernelArg (adder, 0, sizeof (cl_mem), &region->memory.pointer);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  g_assert_cmpint (clSetKernelArg (adder, 1, sizeof value, &value), ==, CL_SUCCESS);
  g_assert_cmpint (clSetKernelArg (adder, 2, sizeof n_turns, &n_turns), ==, CL_SUCCESS);
  g_assert_cmpint (clEnqueueNDRangeKernel (queue, adder, 1, NULL, &n_words, NULL, 0, NULL, NULL),
                   ==, CL_SUCCESS);
}

cl_kernel
opencl_adder_new (cl_context context)
{
  /* What the loop computes is added for a number of turns that nobody asks for: without that, the
   * compiler would leave it out. */
  const gchar *source = "kernel void add (global uint *words, uint value, uint n_turns)\n"
                        "{\n"
                        "  uint x = get_global_id (0);\n"
                        "  for (uint i = 0; i < n_turns; i++)\n"
                        "    x = x * 1664525 + 1013904223;\n"
                        "  words[get_global_id (0)] += n_turns == 0xffffffff ? x : value;\n"
                        "}\n";
  cl_int status;
  cl_program program = clCreateProgramWithSource (context, 1, &source, NULL, &status);
  cl_kernel kernel;

  g_assert_cmpint (status, ==, CL_SUCCESS);
  g_assert_cmpint (clBuildProgram (program, 0, NULL, NULL, NULL, NULL), ==, CL_SUCCESS);
  kernel = clCreateKernel (program, "add", &status);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  g_assert_cmpint (clReleaseProgram (program), ==, CL_SUCCESS);
  return kernel;
}
