/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Finds out how the driver treats buffers that it makes itself, so that the layer can make the
 * program's buffers behave in the same way.  The program's buffers are sub-buffers of pieces, the
 * driver's large buffers.  To find out, the layer makes test buffers of a few bytes in each
 * context, when it first needs the answer for this context.
 *
 * For each set of flags that the program has asked for, a context caches the driver's answer: the
 * flags that the driver reports for such a buffer (CL_MEM_FLAGS), or the fact that the driver
 * refuses to make it (CL_INVALID_VALUE).  Other errors, such as a lack of memory, are not cached.
 */

#include "layer-private.h"

/* The number of low bits of cl_mem_flags that a cached answer and its key can store.  If the
 * program's flags or the driver's flags have a higher bit set, the layer does not cache the answer.
 */
#define FLAG_BITS 10
#define KNOWN_FLAGS (((cl_mem_flags) 1 << FLAG_BITS) - 1)

/* A cached answer tells whether the driver makes a buffer with given flags.  The answer is stored
 * as bits in a pointer.  Bit 0 is always set, so that no answer is NULL.  Bit 1 is set if the
 * driver refused.  Otherwise bit 1 is clear, and the buffer's flags (CL_MEM_FLAGS) begin at bit
 * 2. */
#define TAKEN(flags) ((gpointer) (((gsize) (flags) << 2) | 1))
#define REFUSED ((gpointer) (gsize) 3)

/* The region of the smallest possible sub-buffer: the first byte of a buffer. */
static const cl_buffer_region least = { 0, 1 };

/* Looks up a cached answer.  Returns FALSE if there is none. */
static gboolean
look_up (LayerContext *context, gsize key, gpointer *answer)
{
  TARN_LOCKED (&context->lock);

  *answer = g_hash_table_lookup (context->answers, GSIZE_TO_POINTER (key));
  return *answer != NULL;
}

static void
cache_answer (LayerContext *context, gsize key, gpointer answer)
{
  TARN_LOCKED (&context->lock);

  g_hash_table_insert (context->answers, GSIZE_TO_POINTER (key), answer);
}

/* Sets *flags from a cached answer of the driver.  If the answer is that the driver refused to make
 * the buffer, returns CL_INVALID_VALUE instead. */
static cl_int
read_answer (gpointer answer, cl_mem_flags *flags)
{
  if (answer == REFUSED)
    return CL_INVALID_VALUE;
  *flags = GPOINTER_TO_SIZE (answer) >> 2;
  return CL_SUCCESS;
}

/* Reads the flags of a memory object, and releases the object. */
static cl_int
get_flags (cl_mem object, cl_mem_flags *flags)
{
  cl_int status
      = _tarn_layer_driver->clGetMemObjectInfo (object, CL_MEM_FLAGS, sizeof *flags, flags, NULL);

  _tarn_layer_driver->clReleaseMemObject (object);
  return status;
}

/* Makes a test buffer of one byte with the flags @flags. */
static cl_mem
make_buffer (LayerContext *context, cl_mem_flags flags, cl_int *status)
{
  gchar contents = 0;

  return _tarn_layer_driver->clCreateBuffer (context->base.handle, flags, 1,
                                             (flags & CL_MEM_COPY_HOST_PTR) != 0 ? &contents : NULL,
                                             status);
}

/* Makes a test buffer with the flags @asked, sets *flags to the flags that the driver reports for
 * this buffer, and releases the buffer. */
static cl_int
ask_buffer (LayerContext *context, cl_mem_flags asked, cl_mem_flags *flags)
{
  cl_int status = CL_SUCCESS;
  cl_mem buffer = make_buffer (context, asked, &status);

  return buffer != NULL ? get_flags (buffer, flags) : status;
}

/* Makes a test buffer with the flags @whole, and a sub-buffer of it with the flags @asked.  Sets
 * *flags to the flags that the driver reports for the sub-buffer.  Releases both buffers. */
static cl_int
ask_part (LayerContext *context, cl_mem_flags whole, cl_mem_flags asked, cl_mem_flags *flags)
{
  cl_int status = CL_SUCCESS;
  cl_mem part, buffer = make_buffer (context, whole, &status);

  if (buffer == NULL)
    return status;
  part = _tarn_layer_driver->clCreateSubBuffer (buffer, asked, CL_BUFFER_CREATE_TYPE_REGION, &least,
                                                &status);
  if (part != NULL)
    status = get_flags (part, flags);
  _tarn_layer_driver->clReleaseMemObject (buffer);
  return status;
}

/* Caches the driver's answer about a set of flags.  If @status, the status with which the driver
 * answered, is CL_SUCCESS, caches *flags if a cached answer can store them.  If it is
 * CL_INVALID_VALUE, caches that the driver refuses such buffers.  If it is another error, caches
 * nothing, because the driver may answer differently the next time.  Returns @status. */
static cl_int
note_answer (LayerContext *context, gsize key, cl_int status, const cl_mem_flags *flags)
{
  if (status == CL_SUCCESS && (*flags & ~KNOWN_FLAGS) == 0)
    cache_answer (context, key, TAKEN (*flags));
  else if (status == CL_INVALID_VALUE)
    cache_answer (context, key, REFUSED);
  return status;
}

cl_int
_tarn_layer_ask_flags (LayerContext *context, cl_mem_flags asked, cl_mem_flags *flags)
{
  gsize key = 1 + ((gsize) asked << 1);
  gpointer answer;

  if ((asked & ~KNOWN_FLAGS) != 0)
    return ask_buffer (context, asked, flags);
  if (look_up (context, key, &answer))
    return read_answer (answer, flags);
  return note_answer (context, key, ask_buffer (context, asked, flags), flags);
}

cl_int
_tarn_layer_ask_part_flags (LayerContext *context, cl_mem_flags whole, cl_mem_flags asked,
                            cl_mem_flags *flags)
{
  gsize key = ((gsize) whole << 1) + ((gsize) asked << (FLAG_BITS + 1)) + ((gsize) 1 << 30);
  gpointer answer;

  if (((whole | asked) & ~KNOWN_FLAGS) != 0)
    return ask_part (context, whole, asked, flags);
  if (look_up (context, key, &answer))
    return read_answer (answer, flags);
  return note_answer (context, key, ask_part (context, whole, asked, flags), flags);
}

/* Makes a test buffer with a sub-buffer, and returns the reference count that the driver then
 * reports for the buffer.  Returns 0 if the driver makes no buffer or no sub-buffer. */
static cl_uint
count_with_part (LayerContext *context)
{
  cl_int status;
  cl_uint references = 0;
  cl_mem part, buffer = _tarn_layer_driver->clCreateBuffer (context->base.handle, CL_MEM_READ_WRITE,
                                                            1, NULL, &status);

  if (buffer == NULL)
    return 0;
  part = _tarn_layer_driver->clCreateSubBuffer (buffer, 0, CL_BUFFER_CREATE_TYPE_REGION, &least,
                                                &status);
  if (part != NULL)
    {
      _tarn_layer_driver->clGetMemObjectInfo (buffer, CL_MEM_REFERENCE_COUNT, sizeof references,
                                              &references, NULL);
      _tarn_layer_driver->clReleaseMemObject (part);
    }
  _tarn_layer_driver->clReleaseMemObject (buffer);
  return references;
}

/* Returns TRUE if the driver counts a buffer's sub-buffers, or a buffer's maps, as references to
 * the buffer.  @count makes a test buffer with one sub-buffer, or with one map, and returns the
 * reference count of the test buffer, or 0 if that fails.  @kept points to the cached result, which
 * is negative while the layer does not know the result. */
static gboolean
ask_references (LayerContext *context, gint *kept, cl_uint (*count) (LayerContext *context))
{
  gint known = __atomic_load_n (kept, __ATOMIC_RELAXED);
  cl_uint references;

  if (known >= 0)
    return known;
  references = count (context);
  if (references > 0)
    __atomic_store_n (kept, references > 1, __ATOMIC_RELAXED);
  return references > 1;
}

gboolean
_tarn_layer_ask_part_references (LayerContext *context)
{
  return ask_references (context, &context->counts_parts, count_with_part);
}

/* Stands for an unknown answer: the layer has not asked the driver yet, or the driver's commands
 * were not done after 0.2 s. */
#define UNKNOWN (-1)

/* Waits at most 0.2 s for a command of the layer's own, and releases the command's event.  @status:
 * the result of the call that enqueued the command.  If @status is an error, returns @status.
 * Otherwise returns the state of the command: CL_COMPLETE, a larger value if the command is not
 * done, or a negative error if the command failed. */
static cl_int
await_soon (cl_command_queue queue, cl_int status, cl_event event)
{
  return status == CL_SUCCESS ? _tarn_layer_wait_briefly (queue, event) : status;
}

/* Makes a test buffer, maps it, and returns the reference count that the driver then reports for
 * the buffer.  Returns 0 if the driver fails, or if the map command is not done after 0.2 s. */
static cl_uint
count_with_map (LayerContext *context)
{
  cl_command_queue queue = _tarn_layer_context_get_queue (context);
  cl_uint references = 0;
  cl_int status;
  cl_mem buffer = _tarn_layer_driver->clCreateBuffer (context->base.handle, CL_MEM_READ_WRITE, 1,
                                                      NULL, &status);
  cl_event event = NULL;
  gpointer map;

  if (buffer == NULL)
    return 0;
  map = queue != NULL ? _tarn_layer_driver->clEnqueueMapBuffer (
            queue, buffer, CL_FALSE, CL_MAP_READ, 0, 1, 0, NULL, &event, &status)
                      : NULL;
  if (map != NULL)
    {
      /* Read the count only after the map command is done: until then, the command itself may have
       * a reference to the buffer, too. */
      if (await_soon (queue, status, event) == CL_COMPLETE)
        _tarn_layer_driver->clGetMemObjectInfo (buffer, CL_MEM_REFERENCE_COUNT, sizeof references,
                                                &references, NULL);
      _tarn_layer_driver->clEnqueueUnmapMemObject (queue, buffer, map, 0, NULL, NULL);
      _tarn_layer_driver->clFlush (queue);
    }
  _tarn_layer_driver->clReleaseMemObject (buffer);
  return references;
}

gboolean
_tarn_layer_ask_map_references (LayerContext *context)
{
  return ask_references (context, &context->counts_maps, count_with_map);
}

/* Functions that find out facts about images, and about the addresses of buffers */

/* Makes an image of one pixel whose memory is the first byte of @buffer
 * (CL_MEM_OBJECT_IMAGE1D_BUFFER).  Returns NULL if the driver refuses.  Sets *makes to UNKNOWN if
 * the error may mean a lack of memory, because a later call may succeed.  After any other error,
 * sets *makes to FALSE. */
static cl_mem
make_image (const LayerContext *context, cl_mem buffer, gint *makes)
{
  const cl_image_format format = { CL_R, CL_UNSIGNED_INT8 };
  cl_image_desc desc = { .image_type = CL_MEM_OBJECT_IMAGE1D_BUFFER, .image_width = 1 };
  cl_int status;
  cl_mem image;

  desc.mem_object = buffer;
  image = _tarn_layer_driver->clCreateImage (context->base.handle, CL_MEM_READ_WRITE, &format,
                                             &desc, NULL, &status);
  if (image == NULL)
    *makes = _tarn_layer_is_no_memory (status) ? UNKNOWN : FALSE;
  return image;
}

/* The test bytes.  A test writes one of them to a memory object, reads a byte from another memory
 * object, and compares the two bytes. */
static const guchar patterns[] = { 0xA5, 0x5A, 0x3C };

/* Enqueues a command that writes a byte to a buffer, and waits at most 0.2 s for the command.
 * Returns CL_COMPLETE, a larger value if the command is not done, or a negative error. */
static cl_int
write_byte (cl_command_queue queue, cl_mem buffer, const guchar *byte)
{
  cl_event event = NULL;
  cl_int status = _tarn_layer_driver->clEnqueueWriteBuffer (queue, buffer, CL_FALSE, 0, 1, byte, 0,
                                                            NULL, &event);

  return await_soon (queue, status, event);
}

/* Compares two bytes: *written, which the layer wrote to one memory object, and *read, which it
 * read from another.  @state: the state of the read command, or of the write command if the layer
 * enqueued no read command after it.  Returns UNKNOWN if this command is not done, and FALSE if it
 * failed.  Otherwise returns TRUE if the bytes are equal.
 *
 * Frees @read.  But if it returns UNKNOWN, keeps @read for ever, because the command may still
 * write to it. */
static gint
compare (guchar *read, const guchar *written, cl_int state)
{
  gboolean are_equal = state == CL_COMPLETE && *read == *written;

  if (state > CL_COMPLETE)
    {
      _tarn_layer_keep_for_ever (read);
      return UNKNOWN;
    }
  g_free (read);
  return are_equal;
}

/* Writes a byte to @buffer, and reads a byte from @image, which is made of @buffer.  Returns TRUE
 * if the bytes are equal, FALSE if they differ or a command fails, and UNKNOWN if a command is not
 * done after 0.2 s. */
static gint
reads_image (cl_command_queue queue, cl_mem buffer, cl_mem image)
{
  static const size_t origin[3], region[3] = { 1, 1, 1 };
  guchar *read = g_new0 (guchar, 1);
  cl_int state = write_byte (queue, buffer, patterns);
  cl_event event = NULL;

  if (state == CL_COMPLETE)
    {
      state = _tarn_layer_driver->clEnqueueReadImage (queue, image, CL_FALSE, origin, region, 0, 0,
                                                      read, 0, NULL, &event);
      state = await_soon (queue, state, event);
    }
  return compare (read, patterns, state);
}

/* Makes an image of the sub-buffer @part.  Returns TRUE if the image is correct: the layer writes a
 * byte to the sub-buffer, and reads the same byte from the image.  Returns FALSE if the driver
 * refuses, or if the image is wrong.  Returns UNKNOWN if the layer cannot find out now. */
static gint
makes_right_image (LayerContext *context, cl_mem part)
{
  cl_command_queue queue = _tarn_layer_context_get_queue (context);
  gint makes = UNKNOWN;
  cl_mem image = queue != NULL ? make_image (context, part, &makes) : NULL;

  if (image == NULL)
    return makes;
  makes = reads_image (queue, part, image);
  /* PoCL 3.1 may free a released image although a command that uses the image is not done.  So if
   * the command that reads the image is not done, this function never releases the image. */
  if (makes != UNKNOWN)
    _tarn_layer_driver->clReleaseMemObject (image);
  return makes;
}

/* Makes a sub-buffer of @buffer, and an image of the sub-buffer.  Returns TRUE if the image is
 * correct: the layer writes a byte to the sub-buffer, and reads the same byte from the image.
 * Returns FALSE if the driver refuses the image, or if the image is wrong.  Returns UNKNOWN if the
 * layer cannot find out now, for example because the driver makes no sub-buffer. */
static gint
makes_image_of_part (LayerContext *context, cl_mem buffer)
{
  const cl_buffer_region region = { context->alignment, context->alignment };
  cl_int status;
  cl_mem part = _tarn_layer_driver->clCreateSubBuffer (buffer, 0, CL_BUFFER_CREATE_TYPE_REGION,
                                                       &region, &status);
  gint makes;

  if (part == NULL)
    return UNKNOWN;
  makes = makes_right_image (context, part);
  _tarn_layer_driver->clReleaseMemObject (part);
  return makes;
}

/* Returns TRUE if the driver makes an image of a whole buffer, even if the image is not correct:
 * this function does not read it.  Returns UNKNOWN if the driver refuses with an error that may
 * mean a lack of memory. */
static gint
makes_image_of_whole (const LayerContext *context, cl_mem buffer)
{
  gint makes = TRUE;
  cl_mem image = make_image (context, buffer, &makes);

  if (image != NULL)
    _tarn_layer_driver->clReleaseMemObject (image);
  return makes;
}

/* Returns TRUE if the driver makes correct images of sub-buffers.  Also returns TRUE if the driver
 * makes no images of buffers at all, because no program can then expect such images.  Returns
 * UNKNOWN if the layer cannot find out now: the driver lacks memory, makes no queue, or does not
 * run a command within 0.2 s. */
static gint
makes_images_of_parts (LayerContext *context)
{
  cl_int status;
  cl_mem buffer;
  gint makes;

  if (_tarn_layer_get_number (context->device, CL_DEVICE_IMAGE_SUPPORT) == CL_FALSE)
    return TRUE;
  buffer = _tarn_layer_driver->clCreateBuffer (context->base.handle, CL_MEM_READ_WRITE,
                                               2 * context->alignment, NULL, &status);
  if (buffer == NULL)
    return UNKNOWN;
  makes = makes_image_of_part (context, buffer);
  if (makes == FALSE)
    {
      makes = makes_image_of_whole (context, buffer);
      makes = makes == UNKNOWN ? UNKNOWN : !makes;
    }
  _tarn_layer_driver->clReleaseMemObject (buffer);
  return makes;
}

/* Writes a byte to buffer @from, and reads a byte from buffer @to.  Returns TRUE if the bytes are
 * equal, FALSE if they differ or a command fails, and UNKNOWN if a command is not done after 0.2 s.
 */
static gint
hands_byte_over (cl_command_queue queue, cl_mem from, cl_mem to, const guchar *byte)
{
  guchar *read = g_new0 (guchar, 1);
  cl_int state = write_byte (queue, from, byte);
  cl_event event = NULL;

  if (state == CL_COMPLETE)
    {
      state = _tarn_layer_driver->clEnqueueReadBuffer (queue, to, CL_FALSE, 0, 1, read, 0, NULL,
                                                       &event);
      state = await_soon (queue, state, event);
    }
  return compare (read, byte, state);
}

/* Returns TRUE if two buffers share their memory: each test byte that the layer writes to one
 * buffer, it can read from the other.  Returns FALSE if it reads a different value or a command
 * fails, and UNKNOWN if a command is not done after 0.2 s.  The layer writes the first and the
 * third test byte to @one, and the second to @other. */
static gint
hand_over_to_each_other (cl_command_queue queue, cl_mem one, cl_mem other)
{
  gint hand_over = TRUE;

  for (guint i = 0; hand_over == TRUE && i < G_N_ELEMENTS (patterns); i++)
    hand_over = i % 2 == 0 ? hands_byte_over (queue, one, other, &patterns[i])
                           : hands_byte_over (queue, other, one, &patterns[i]);
  return hand_over;
}

/* Makes the driver keep @buffer until all commands that are now in @queue are done, so that the
 * caller may release its reference to @buffer at once.  To this end, enqueues one more command,
 * which reads @buffer: the driver keeps a buffer until the commands that use it are done.  If the
 * driver refuses this command, adds a reference to @buffer that is never dropped. */
static void
keep_until_done (cl_command_queue queue, cl_mem buffer)
{
  static guchar nowhere;

  if (_tarn_layer_driver->clEnqueueReadBuffer (queue, buffer, CL_FALSE, 0, 1, &nowhere, 0, NULL,
                                               NULL)
      != CL_SUCCESS)
    _tarn_layer_driver->clRetainMemObject (buffer);
  _tarn_layer_driver->clFlush (queue);
}

/* Makes a second buffer over the host address of @buffer (CL_MEM_USE_HOST_PTR).  Returns TRUE if
 * the two buffers share their memory, FALSE if they do not or if a call fails, and UNKNOWN if a
 * command is not done after 0.2 s.  The caller ensures that no command uses @buffer yet. */
static gint
shares_address (LayerContext *context, cl_mem buffer)
{
  cl_command_queue queue = _tarn_layer_context_get_queue (context);
  gpointer address = _tarn_layer_ask_address (context, buffer);
  gint shares;
  cl_int status;
  cl_mem other;

  if (queue == NULL || address == NULL)
    return FALSE;
  other = _tarn_layer_driver->clCreateBuffer (context->base.handle, CL_MEM_USE_HOST_PTR, 1, address,
                                              &status);
  if (other == NULL)
    return FALSE;
  shares = hand_over_to_each_other (queue, buffer, other);
  /* The commands on @other may still run.  They use the memory of @buffer, so keep @buffer. */
  if (shares == UNKNOWN)
    keep_until_done (queue, buffer);
  _tarn_layer_driver->clReleaseMemObject (other);
  return shares;
}

gboolean
_tarn_layer_ask_addresses (LayerContext *context)
{
  gint known = __atomic_load_n (&context->shares_addresses, __ATOMIC_RELAXED);
  cl_int status;
  cl_mem buffer;

  if (known != UNKNOWN)
    return known;
  buffer = _tarn_layer_driver->clCreateBuffer (context->base.handle, CL_MEM_READ_WRITE, 1, NULL,
                                               &status);
  if (buffer == NULL)
    return FALSE;
  known = shares_address (context, buffer);
  _tarn_layer_driver->clReleaseMemObject (buffer);
  __atomic_store_n (&context->shares_addresses, known, __ATOMIC_RELAXED);
  return known == TRUE;
}

/* Finds out whether the driver makes correct images of sub-buffers.  Two drivers were seen to fail.
 * PoCL up to 7.0 makes images of whole buffers, but none of sub-buffers.  rusticl of Mesa 22.3
 * makes an image of a sub-buffer, but the image begins where the whole buffer begins.  Call this
 * function only for programs that want images of buffers, because it makes an image of a buffer,
 * and PoCL 3.1 never frees a context in which such an image was made. */
gboolean
_tarn_layer_ask_images (LayerContext *context)
{
  gint known = __atomic_load_n (&context->has_images, __ATOMIC_RELAXED);

  if (context->device == NULL)
    return TRUE;
  if (known == UNKNOWN)
    {
      known = makes_images_of_parts (context);
      __atomic_store_n (&context->has_images, known, __ATOMIC_RELAXED);
    }
  return known == TRUE;
}
