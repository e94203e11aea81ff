/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * For programs that have handles: buffers that they retain, sub-buffers of blocks, blocks by their
 * buffer, pools without a queue of theirs, copies of host memory. */

#include <string.h>

#include "queues.h"

#define SIZE 100000

static TarnPool *
new_pool (OpenclState *state, TarnPoolFlags flags)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (GError) error = NULL;
  TarnPool *pool;

  options.flags = flags;
  pool = tarn_opencl_pool_new (state->queue, 0, &options, &error);
  g_assert_no_error (error);
  return pool;
}

static TarnBlock *
take (TarnPool *pool, gsize size, cl_command_queue queue)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = tarn_opencl_pool_allocate (pool, size, queue, &error);

  g_assert_no_error (error);
  return block;
}

static void
write_word (cl_command_queue queue, cl_mem buffer, gsize offset, cl_uint value)
{
  g_assert_cmpint (
      clEnqueueWriteBuffer (queue, buffer, CL_TRUE, offset, sizeof value, &value, 0, NULL, NULL),
      ==, CL_SUCCESS);
}

static cl_uint
read_word (cl_command_queue queue, cl_mem buffer, gsize offset)
{
  cl_uint value;

  g_assert_cmpint (
      clEnqueueReadBuffer (queue, buffer, CL_TRUE, offset, sizeof value, &value, 0, NULL, NULL), ==,
      CL_SUCCESS);
  return value;
}

/* A driver that is taken to count the program's references alone does so while a command uses a
 * part. */
static void
test_counts (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  g_autoptr (TarnPool) pool = NULL;
  g_autoptr (GError) error = NULL;
  TarnBlock *block;
  cl_uint zero = 0;
  cl_int status;
  cl_event gate;

  (void) memory;
  (void) data;
  options.flags = TARN_POOL_FINDABLE;
  pool = tarn_opencl_pool_new (state->queue, 0, &options, &error);
  g_assert_no_error (error);
  tarn_block_free (tarn_opencl_pool_allocate (pool, SIZE, state->queue, &error));
  gate = clCreateUserEvent (state->context, &status);
  block = tarn_opencl_pool_allocate (pool, SIZE, state->queue, &error);
  g_assert_cmpint (clEnqueueFillBuffer (state->queue, tarn_opencl_block_get_buffer (block), &zero,
                                        sizeof zero, 0, SIZE, 1, &gate, NULL),
                   ==, CL_SUCCESS);
  tarn_block_free (block);
  g_assert_cmpuint (tarn_pool_get_active_blocks (pool), ==, 0);
  clSetUserEventStatus (gate, CL_COMPLETE);
  clFinish (state->queue);
  clReleaseEvent (gate);
}

/* A program writes to a buffer that it has retained, and no other block changes. */
static void
test_retained (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnPool) pool = NULL;
  TarnBlock *block, *other;
  cl_mem buffer;

  (void) device;
  if (!opencl_counts_references (state))
    {
      g_test_skip ("the driver counts references of its own");
      return;
    }
  pool = new_pool (state, 0);
  for (guint i = 0; i < 20; i++)
    {
      block = take (pool, SIZE, state->queue);
      buffer = tarn_opencl_block_get_buffer (block);
      clRetainMemObject (buffer);
      tarn_block_free (block);
      other = take (pool, SIZE, state->queue);
      write_word (state->queue, tarn_opencl_block_get_buffer (other), 0, 1);
      write_word (state->queue, buffer, 0, 2);
      g_assert_cmpuint (read_word (state->queue, tarn_opencl_block_get_buffer (other), 0), ==, 1);
      clReleaseMemObject (buffer);
      tarn_block_free (other);
    }
  tarn_block_free (take (pool, 2 * SIZE, state->queue));
  tarn_block_free (take (pool, 2 * SIZE, state->queue));
  g_assert_cmpuint (tarn_pool_get_active_blocks (pool), ==, 0);
}

/* Commands that still use a buffer are no reason not to have it again. */
static void
test_in_flight (const TarnOpenclDevice *device, OpenclState *state)
{
  TarnPool *pools[] = { new_pool (state, 0), new_pool (state, TARN_POOL_WHOLE_BUFFERS) };
  const cl_uint zero = 0;

  (void) device;
  for (guint i = 0; i < G_N_ELEMENTS (pools); i++)
    {
      for (guint j = 0; j < 100; j++)
        {
          TarnBlock *block = take (pools[i], SIZE, state->queue);

          g_assert_cmpint (clEnqueueFillBuffer (state->queue, tarn_opencl_block_get_buffer (block),
                                                &zero, sizeof zero, 0, SIZE, 0, NULL, NULL),
                           ==, CL_SUCCESS);
          tarn_block_free (block);
          g_assert_cmpuint (tarn_pool_get_active_blocks (pools[i]), ==, 0);
        }
      clFinish (state->queue);
      tarn_pool_unref (pools[i]);
    }
}

/* Some drivers take any offset. */
static void
check_misaligned (TarnBlock *block)
{
  g_autoptr (GError) error = NULL;
  cl_mem part = tarn_opencl_block_create_sub_buffer (block, 0, 1, 8, &error);

  if (part != NULL)
    {
      clReleaseMemObject (part);
      return;
    }
  g_assert_true (g_error_matches (error, TARN_OPENCL_ERROR, CL_MISALIGNED_SUB_BUFFER_OFFSET)
                 || g_error_matches (error, TARN_OPENCL_ERROR, CL_INVALID_VALUE));
  g_assert_nonnull (strstr (error->message, "8 bytes at 1 of a block"));
}

/* A part of a block is a part of its memory, and keeps the memory until it is released. */
static void
check_sub_buffer (OpenclState *state, TarnPool *pool)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *block = take (pool, SIZE, state->queue);
  cl_mem buffer = tarn_opencl_block_get_buffer (block), part;
  gsize size = 0;

  part = tarn_opencl_block_create_sub_buffer (block, 0, 4096, 1024, &error);
  g_assert_no_error (error);
  clGetMemObjectInfo (part, CL_MEM_SIZE, sizeof size, &size, NULL);
  g_assert_cmpuint (size, ==, 1024);
  write_word (state->queue, part, 8, 4711);
  g_assert_cmpuint (read_word (state->queue, buffer, 4096 + 8), ==, 4711);
  check_misaligned (block);
  g_assert_null (tarn_opencl_block_create_sub_buffer (block, 0, 4096, G_MAXSIZE, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);
  g_assert_null (tarn_opencl_block_create_sub_buffer (block, 0, 0, 0, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  if (opencl_counts_references (state))
    {
      tarn_block_free (block);
      block = take (pool, SIZE, state->queue);
      write_word (state->queue, tarn_opencl_block_get_buffer (block), 4096 + 8, 1);
      write_word (state->queue, part, 8, 2);
      g_assert_cmpuint (read_word (state->queue, tarn_opencl_block_get_buffer (block), 4096 + 8),
                        ==, 1);
    }
  clReleaseMemObject (part);
  tarn_block_free (block);
}

static void
test_sub_buffer (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnPool) pool = new_pool (state, 0);

  (void) device;
  for (guint i = 0; i < 3; i++)
    check_sub_buffer (state, pool);
  clFinish (state->queue);
}

/* Whole buffers are none of a larger one's parts. */
static void
test_whole_buffers (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnPool) pool = new_pool (state, TARN_POOL_WHOLE_BUFFERS);
  TarnBlock *block = take (pool, SIZE, state->queue);
  const cl_buffer_region region = { 0, 1024 };
  cl_mem whole = NULL, part;
  cl_int status;

  (void) device;
  clGetMemObjectInfo (tarn_opencl_block_get_buffer (block), CL_MEM_ASSOCIATED_MEMOBJECT,
                      sizeof whole, &whole, NULL);
  g_assert_null (whole);
  part = clCreateSubBuffer (tarn_opencl_block_get_buffer (block), 0, CL_BUFFER_CREATE_TYPE_REGION,
                            &region, &status);
  g_assert_cmpint (status, ==, CL_SUCCESS);
  clReleaseMemObject (part);
  tarn_block_free (block);
  clFinish (state->queue);
}

/* A buffer's offset is aligned, and it is usable. */
static void
check_aligned (const OpenclState *state, TarnPool *pool)
{
  g_autoptr (GError) error = NULL;
  TarnBlock *blocks[8];
  size_t offset;

  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    {
      blocks[i] = tarn_pool_allocate_aligned (pool, 5000, 1 << 16, state->queue, &error);
      g_assert_no_error (error);
      clGetMemObjectInfo (tarn_opencl_block_get_buffer (blocks[i]), CL_MEM_OFFSET, sizeof offset,
                          &offset, NULL);
      g_assert_cmpuint (offset % (1 << 16), ==, 0);
      write_word (state->queue, tarn_opencl_block_get_buffer (blocks[i]), 4096, i);
    }
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    {
      g_assert_cmpuint (read_word (state->queue, tarn_opencl_block_get_buffer (blocks[i]), 4096),
                        ==, i);
      tarn_block_free (blocks[i]);
    }
  clFinish (state->queue);
}

/* With and without a heap, also if mistakes are looked for. */
static void
test_aligned (const TarnOpenclDevice *device, OpenclState *state)
{
  static const gchar *const words[] = { NULL, "leaks", "guards" };

  (void) device;
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    {
      TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
      g_autoptr (GError) error = NULL;
      g_autoptr (TarnAllocator) allocator
          = tarn_opencl_immediate_allocator_new (state->queue, 0, &error);
      g_autoptr (TarnPool) pool = NULL, whole = NULL;

      g_assert_no_error (error);
      options.debug = words[i];
      pool = tarn_opencl_pool_new (state->queue, 0, &options, &error);
      g_assert_no_error (error);
      whole = tarn_pool_new (allocator, &options, &error);
      g_assert_no_error (error);
      check_aligned (state, pool);
      check_aligned (state, whole);
    }
}

/* Without a block: a program that has the buffer alone. */
static void
test_find (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (TarnPool) pool = new_pool (state, TARN_POOL_FINDABLE);
  g_autoptr (GError) error = NULL;

  (void) device;
  for (guint i = 0; i < 50; i++)
    {
      TarnBlock *block = take (pool, 100 + 7000 * (i % 10), state->queue);
      cl_mem buffer = tarn_opencl_block_get_buffer (block);

      g_assert_true (tarn_opencl_pool_find (pool, buffer) == block);
      write_word (state->queue, buffer, 0, i);
      if (i % 2 == 0)
        tarn_pool_free_memory (pool, (TarnMemory){ .pointer = buffer }, state->queue, &error);
      else
        tarn_opencl_block_free_on (block, state->queue);
      g_assert_no_error (error);
      g_assert_null (tarn_opencl_pool_find (pool, buffer));
    }
  g_assert_null (tarn_opencl_pool_find (pool, NULL));
  clFinish (state->queue);
}

/* Fresh memory is ready for any queue, although the pool's own makes it so. */
static void
test_for_device (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TarnPool) pool
      = tarn_opencl_pool_new_for_device (state->context, device->device, 0, NULL, &error);

  g_assert_no_error (error);
  for (guint i = 0; i < 10; i++)
    {
      TarnBlock *block = take (pool, (gsize) SIZE << i % 5, state->queue);

      write_word (state->queue, tarn_opencl_block_get_buffer (block), 0, i);
      g_assert_cmpuint (read_word (state->queue, tarn_opencl_block_get_buffer (block), 0), ==, i);
      tarn_opencl_block_free_on (block, state->queue);
    }
  clFinish (state->queue);
}

/* The bytes are copied, and no command is waited for, where the pool has memory. */
static void
check_copy (TarnPool *pool, cl_command_queue queue, OpenclState *state, gboolean is_svm)
{
  cl_uint words[1000];
  g_autoptr (GError) error = NULL;
  cl_int status;
  cl_event gate = clCreateUserEvent (state->context, &status);
  TarnBlock *block;

  tarn_block_free (take (pool, sizeof words, queue));
  g_assert_cmpint (clEnqueueBarrierWithWaitList (queue, 1, &gate, NULL), ==, CL_SUCCESS);
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    words[i] = i;
  block = tarn_opencl_pool_allocate_copy (pool, words, sizeof words, queue, &error);
  g_assert_no_error (error);
  memset (words, 0xff, sizeof words);
  clSetUserEventStatus (gate, CL_COMPLETE);
  clReleaseEvent (gate);
  clFinish (queue);
  if (is_svm)
    memcpy (words, tarn_opencl_block_get_svm (block), sizeof words);
  else
    g_assert_cmpint (clEnqueueReadBuffer (queue, tarn_opencl_block_get_buffer (block), CL_TRUE, 0,
                                          sizeof words, words, 0, NULL, NULL),
                     ==, CL_SUCCESS);
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    g_assert_cmpuint (words[i], ==, i);
  tarn_block_free (block);
  block = tarn_opencl_pool_allocate_copy (pool, NULL, 0, queue, &error);
  g_assert_no_error (error);
  tarn_block_free (block);
}

static void
test_copy (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  g_autoptr (TarnPool) pool = NULL;

  (void) memory;
  (void) data;
  pool = new_pool (state, 0);
  for (guint i = 0; i < 3; i++)
    check_copy (pool, state->queue, state, FALSE);
}

static void
test_copy_out_of_order (OpenclState *state, const OpenclMemory *memory, gconstpointer data)
{
  g_autoptr (TarnPool) pool = new_pool (state, 0);
  cl_command_queue queue = opencl_queue_new (state, TRUE);

  (void) memory;
  (void) data;
  check_copy (pool, queue, state, FALSE);
  g_clear_pointer (&pool, tarn_pool_unref);
  opencl_queue_free (queue);
}

/* A copy that fails returns an error, and leaves no block in use. */
static void
test_copy_fails (const TarnOpenclDevice *device, OpenclState *state)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TarnPool) pool
      = tarn_opencl_pool_new (state->queue, CL_MEM_HOST_NO_ACCESS, NULL, &error);

  (void) device;
  g_assert_no_error (error);
  g_assert_null (tarn_opencl_pool_allocate_copy (pool, "text", 4, state->queue, &error));
  g_assert_error (error, TARN_OPENCL_ERROR, CL_INVALID_OPERATION);
  g_assert_cmpuint (tarn_pool_get_active_blocks (pool), ==, 0);
}

int
main (int argc, char **argv)
{
  static const OpenclCase cases[] = {
    { "handles/retained", test_retained },     { "handles/in-flight", test_in_flight },
    { "handles/sub-buffer", test_sub_buffer }, { "handles/whole", test_whole_buffers },
    { "handles/aligned", test_aligned },       { "handles/find", test_find },
    { "handles/for-device", test_for_device }, { "handles/copy-fails", test_copy_fails },
  };
  static const OpenclQueueCase queue_cases[] = {
    { "handles/counts", test_counts, OPENCL_NEEDS_GATE, NULL },
    { "handles/copy", test_copy, OPENCL_NEEDS_GATE, NULL },
    { "handles/copy-out-of-order", test_copy_out_of_order,
      OPENCL_NEEDS_GATE | OPENCL_NEEDS_OUT_OF_ORDER, NULL },
  };

  g_test_init (&argc, &argv, NULL);
  opencl_add (cases, G_N_ELEMENTS (cases));
  opencl_add_for_devices (queue_cases, G_N_ELEMENTS (queue_cases));
  return g_test_run ();
}
