/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Asks the driver how it behaves with buffers of its own, so that programs see the same with the
 * layer.  A context asks when it first needs to know, with tiny buffers.
 *
 * A context caches answers about flags: the flags that the driver reports, or that it refuses them.
 * An answer that is due to a lack of memory is not cached. */

#include "layer-private.h"

#include <stdio.h>
#include <string.h>

/* The bits of flags in the keys and values of cached answers. */
#define FLAG_BITS 10
#define KNOWN_FLAGS (((cl_mem_flags) 1 << FLAG_BITS) - 1)

/* The lowest bit tells an answer from none, the next one a refusal from flags. */
#define TAKEN(flags) ((gpointer) (((gsize) (flags) << 2) | 1))
#define REFUSED ((gpointer) (gsize) 3)

/* The smallest sub-buffer. */
static const cl_buffer_region least = { 0, 1 };

/* Looks up a cached answer.  Returns FALSE if there is none. */
static gboolean
look_up (LayerContext *context, gsize key, gpointer *answer)
{
  LAYER_LOCKED (&context->lock);

  *answer = g_hash_table_lookup (context->answers, GSIZE_TO_POINTER (key));
  return *answer != NULL;
}

static void
cache_answer (LayerContext *context, gsize key, gpointer answer)
{
  LAYER_LOCKED (&context->lock);

  g_hash_table_insert (context->answers, GSIZE_TO_POINTER (key), answer);
}

/* Reads the flags from a cached answer.  Returns an error if it is a refusal. */
static cl_int
read_answer (gpointer answer, cl_mem_flags *flags)
{
  if (answer == REFUSED)
    return CL_INVALID_VALUE;
  *flags = GPOINTER_TO_SIZE (answer) >> 2;
  return CL_SUCCESS;
}

/* Reads the flags of an object, and releases it. */
static cl_int
get_flags (cl_mem object, cl_mem_flags *flags)
{
  cl_int status
      = _tarn_layer_driver->clGetMemObjectInfo (object, CL_MEM_FLAGS, sizeof *flags, flags, NULL);

  _tarn_layer_driver->clReleaseMemObject (object);
  return status;
}

/* Makes a buffer of one byte. */
static cl_mem
make_buffer (LayerContext *context, cl_mem_flags flags, cl_int *status)
{
  gchar contents = 0;

  return _tarn_layer_driver->clCreateBuffer (context->base.handle, flags, 1,
                                             (flags & CL_MEM_COPY_HOST_PTR) != 0 ? &contents : NULL,
                                             status);
}

/* Asks for the flags of a buffer that is made with @asked. */
static cl_int
ask_buffer (LayerContext *context, cl_mem_flags asked, cl_mem_flags *flags)
{
  cl_int status = CL_SUCCESS;
  cl_mem buffer = make_buffer (context, asked, &status);

  return buffer != NULL ? get_flags (buffer, flags) : status;
}

/* Asks for the flags of a sub-buffer that is made with @asked, of a buffer that is made with
 * @whole. */
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

/* Caches an answer that will be the same next time.  Returns its status. */
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

/* Returns a buffer's number of references while it has a sub-buffer, or 0 if it cannot be seen. */
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

/* Returns TRUE if something adds to a buffer's references, and caches the answer once it could be
 * seen.  @count: returns the number of references then. */
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

/* Returns a buffer's number of references while it is mapped, or 0 if it cannot be seen. */
static cl_uint
count_with_map (LayerContext *context)
{
  cl_command_queue queue = _tarn_layer_context_get_queue (context);
  cl_uint references = 0;
  cl_int status;
  cl_mem buffer = _tarn_layer_driver->clCreateBuffer (context->base.handle, CL_MEM_READ_WRITE, 1,
                                                      NULL, &status);
  gpointer map;

  if (buffer == NULL)
    return 0;
  map = queue != NULL ? _tarn_layer_driver->clEnqueueMapBuffer (queue, buffer, CL_TRUE, CL_MAP_READ,
                                                                0, 1, 0, NULL, NULL, &status)
                      : NULL;
  if (map != NULL)
    {
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

/* The device */

/* Returns a text about the device; empty if it does not say. */
static gchar *
get_text (cl_device_id device, cl_device_info name)
{
  gchar text[1024] = "";

  _tarn_layer_driver->clGetDeviceInfo (device, name, sizeof text - 1, text, NULL);
  return g_strdup (text);
}

/* Returns a number of 32 or 64 bits about the device, or 0 if it does not say. */
static cl_ulong
get_number (cl_device_id device, cl_device_info name)
{
  union
  {
    cl_ulong wide;
    cl_uint narrow;
  } number = { 0 };
  size_t size = 0;

  if (_tarn_layer_driver->clGetDeviceInfo (device, name, sizeof number, &number, &size)
      != CL_SUCCESS)
    return 0;
  return size == sizeof number.narrow ? number.narrow : number.wide;
}

/* Makes an image of one pixel of a buffer.  Returns NULL if the driver refuses. */
static cl_mem
make_image (const LayerContext *context, cl_mem buffer)
{
  const cl_image_format format = { CL_R, CL_UNSIGNED_INT8 };
  cl_image_desc desc = { .image_type = CL_MEM_OBJECT_IMAGE1D_BUFFER, .image_width = 1 };
  cl_int status;

  desc.mem_object = buffer;
  return _tarn_layer_driver->clCreateImage (context->base.handle, CL_MEM_READ_WRITE, &format, &desc,
                                            NULL, &status);
}

/* Returns TRUE if an image shows its buffer's bytes, or if nothing can be read. */
static gboolean
reads_image (cl_command_queue queue, cl_mem buffer, cl_mem image)
{
  static const size_t origin[3], region[3] = { 1, 1, 1 };
  const guchar byte = 0xA5;
  guchar read = 0;

  return _tarn_layer_driver->clEnqueueWriteBuffer (queue, buffer, CL_TRUE, 0, 1, &byte, 0, NULL,
                                                   NULL)
             != CL_SUCCESS
         || _tarn_layer_driver->clEnqueueReadImage (queue, image, CL_TRUE, origin, region, 0, 0,
                                                    &read, 0, NULL, NULL)
                != CL_SUCCESS
         || read == byte;
}

/* Returns TRUE if the driver makes an image of a buffer that shows the buffer's bytes. */
static gboolean
makes_image (LayerContext *context, cl_mem buffer)
{
  cl_command_queue queue = _tarn_layer_context_get_queue (context);
  cl_mem image = make_image (context, buffer);
  gboolean makes = image != NULL && (queue == NULL || reads_image (queue, buffer, image));

  if (image != NULL)
    _tarn_layer_driver->clReleaseMemObject (image);
  return makes;
}

/* Returns TRUE if the driver makes such an image of a sub-buffer of a buffer. */
static gboolean
makes_image_of_part (LayerContext *context, cl_mem buffer)
{
  const cl_buffer_region region = { context->alignment, context->alignment };
  cl_int status;
  cl_mem part = _tarn_layer_driver->clCreateSubBuffer (buffer, 0, CL_BUFFER_CREATE_TYPE_REGION,
                                                       &region, &status);
  gboolean makes = part != NULL && makes_image (context, part);

  if (part != NULL)
    _tarn_layer_driver->clReleaseMemObject (part);
  return makes;
}

/* Returns TRUE if the driver makes images of sub-buffers, or none of buffers either. */
static gboolean
makes_images_of_parts (LayerContext *context)
{
  cl_int status;
  cl_mem buffer;
  gboolean makes;

  if (get_number (context->device, CL_DEVICE_IMAGE_SUPPORT) == CL_FALSE)
    return TRUE;
  buffer = _tarn_layer_driver->clCreateBuffer (context->base.handle, CL_MEM_READ_WRITE,
                                               2 * context->alignment, NULL, &status);
  if (buffer == NULL)
    return TRUE;
  makes = makes_image_of_part (context, buffer) || !makes_image (context, buffer);
  _tarn_layer_driver->clReleaseMemObject (buffer);
  return makes;
}

/* Returns TRUE if a byte that is written to one buffer can be read from another. */
static gboolean
hands_byte_over (cl_command_queue queue, cl_mem from, cl_mem to, guchar byte)
{
  guchar read = 0;

  return _tarn_layer_driver->clEnqueueWriteBuffer (queue, from, CL_TRUE, 0, 1, &byte, 0, NULL, NULL)
             == CL_SUCCESS
         && _tarn_layer_driver->clEnqueueReadBuffer (queue, to, CL_TRUE, 0, 1, &read, 0, NULL, NULL)
                == CL_SUCCESS
         && read == byte;
}

/* Returns TRUE if a buffer that is not used yet shares its memory with a buffer over its host
 * address. */
static gboolean
shares_address (LayerContext *context, cl_mem buffer)
{
  cl_command_queue queue = _tarn_layer_context_get_queue (context);
  gpointer address = _tarn_layer_ask_address (context, buffer);
  gboolean shares;
  cl_int status;
  cl_mem other;

  if (queue == NULL || address == NULL)
    return FALSE;
  other = _tarn_layer_driver->clCreateBuffer (context->base.handle, CL_MEM_USE_HOST_PTR, 1, address,
                                              &status);
  if (other == NULL)
    return FALSE;
  shares = hands_byte_over (queue, buffer, other, 0xA5)
           && hands_byte_over (queue, other, buffer, 0x5A)
           && hands_byte_over (queue, buffer, other, 0x3C);
  _tarn_layer_driver->clReleaseMemObject (other);
  return shares;
}

gboolean
_tarn_layer_ask_addresses (LayerContext *context)
{
  gint known = __atomic_load_n (&context->shares_addresses, __ATOMIC_RELAXED);
  cl_int status;
  cl_mem buffer;

  if (known >= 0)
    return known;
  buffer = _tarn_layer_driver->clCreateBuffer (context->base.handle, CL_MEM_READ_WRITE, 1, NULL,
                                               &status);
  if (buffer == NULL)
    return FALSE;
  known = shares_address (context, buffer);
  _tarn_layer_driver->clReleaseMemObject (buffer);
  __atomic_store_n (&context->shares_addresses, known, __ATOMIC_RELAXED);
  return known;
}

/* PoCL up to 7.0 makes images of buffers only, and those of rusticl of Mesa 22.3 begin where the
 * whole buffer does (seen).  Asked only for programs that want such images: with PoCL 3.1, a
 * context that had one is never freed. */
gboolean
_tarn_layer_ask_images (LayerContext *context)
{
  gint known = __atomic_load_n (&context->has_images, __ATOMIC_RELAXED);

  if (known < 0 && context->device != NULL)
    {
      known = makes_images_of_parts (context);
      __atomic_store_n (&context->has_images, known, __ATOMIC_RELAXED);
    }
  return known != FALSE;
}

/* Returns TRUE if a device is PoCL's.  @version: its major version; 0 before 4.0, which does not
 * say. */
static gboolean
is_pocl (cl_device_id device, guint64 *version)
{
  g_autofree gchar *text = get_text (device, CL_DEVICE_VERSION);
  const gchar *pocl = strstr (text, "PoCL ");

  if (pocl == NULL)
    pocl = strstr (text, "pocl ");
  *version = pocl != NULL ? g_ascii_strtoull (pocl + strlen ("PoCL "), NULL, 10) : 0;
  return pocl != NULL;
}

/* Returns TRUE if a driver cannot copy boxes and images from or to a sub-buffer.  PoCL 3.1 to 6.0
 * crash there (seen). */
static gboolean
copies_by_pieces (cl_device_id device)
{
  guint64 version;

  return is_pocl (device, &version) && version < 7;
}

/* Returns TRUE if host addresses of pieces are of use.  PoCL makes no images of sub-buffers.  If
 * its device is the host's processor, an image can be made of the host address instead; for other
 * devices the driver would copy the memory. */
static gboolean
notes_addresses (cl_device_id device)
{
  guint64 version;

  return is_pocl (device, &version)
         && (get_number (device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
}

/* Returns TRUE if a driver cannot copy from a sub-buffer to an image. rusticl of Mesa 22.3 reads
 * from the beginning of the whole buffer, wherever the sub-buffer begins (seen). */
static gboolean
copies_images_by_pieces (cl_device_id device)
{
  cl_platform_id platform = NULL;
  gchar name[64] = "";

  _tarn_layer_driver->clGetDeviceInfo (device, CL_DEVICE_PLATFORM, sizeof platform, &platform,
                                       NULL);
  _tarn_layer_driver->clGetPlatformInfo (platform, CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
  return strcmp (name, "rusticl") == 0 || copies_by_pieces (device);
}

/* Returns TRUE if OpenCL is 1.2 or newer, which has markers and barriers. */
static gboolean
has_markers (cl_device_id device)
{
  g_autofree gchar *version = get_text (device, CL_DEVICE_VERSION);
  guint major, minor;

  return sscanf (version, "OpenCL %u.%u", &major, &minor) == 2 && (major > 1 || minor >= 2);
}

/* Returns the alignment of sub-buffers, in bytes.  For images that are made of buffers, the device
 * states it in pixels, which have up to 16 bytes. */
static gsize
get_alignment (cl_device_id device)
{
  gsize wanted = (gsize) MAX (get_number (device, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8,
                              16 * get_number (device, CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT));
  gsize alignment;

  for (alignment = 1; alignment < wanted && alignment < 1 << 16; alignment *= 2)
    ;
  return alignment;
}

/* Returns the driver's number of references to a context. */
static cl_uint
count_references (const LayerContext *context)
{
  cl_uint n = 0;

  _tarn_layer_driver->clGetContextInfo (context->base.handle, CL_CONTEXT_REFERENCE_COUNT, sizeof n,
                                        &n, NULL);
  return n;
}

/* Returns TRUE if a buffer adds to the references of its context.  The context is new, so no other
 * thread changes them. */
static gboolean
counts_objects (const LayerContext *context)
{
  cl_uint before = count_references (context), with_buffer;
  cl_int status;
  cl_mem buffer = _tarn_layer_driver->clCreateBuffer (context->base.handle, CL_MEM_READ_WRITE, 1,
                                                      NULL, &status);

  if (buffer == NULL)
    return FALSE;
  with_buffer = count_references (context);
  _tarn_layer_driver->clReleaseMemObject (buffer);
  return with_buffer > before;
}

/* Prepares address.c.  Counts the references to the context that its objects have with some
 * drivers. */
static void
begin_address (LayerContext *context)
{
  cl_uint before;

  if (!_tarn_layer_get_settings ()->uses_pool)
    return;
  before = count_references (context);
  _tarn_layer_address_begin (context);
  context->own_references = count_references (context) - before;
}

gboolean
_tarn_layer_ask_device (LayerContext *context, cl_device_id device)
{
  if (!has_markers (device))
    return FALSE;
  context->device = device;
  context->alignment = get_alignment (device);
  context->max_bytes
      = (gsize) MIN (get_number (device, CL_DEVICE_MAX_MEM_ALLOC_SIZE), G_MAXSIZE / 4);
  context->counts_objects = counts_objects (context);
  begin_address (context);
  context->copies_by_pieces = copies_by_pieces (device);
  context->copies_images_by_pieces = copies_images_by_pieces (device);
  context->notes_addresses = notes_addresses (device);
  return context->max_bytes > 0;
}
