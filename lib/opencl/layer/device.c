/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Asks the driver about the only device of a new context.  The answers tell whether the context can
 * have pools, and which commands the driver cannot run on parts of buffers. */

#include "layer-private.h"

#include <stdio.h>
#include <string.h>

/* Returns a string that the device reports, or an empty string if the query fails. */
static gchar *
get_text (cl_device_id device, cl_device_info name)
{
  gchar text[1024] = "";

  _tarn_layer_driver->clGetDeviceInfo (device, name, sizeof text - 1, text, NULL);
  return g_strdup (text);
}

/* Returns a string that the device's platform reports, or an empty string if the query fails. */
static gchar *
get_platform_text (cl_device_id device, cl_platform_info name)
{
  cl_platform_id platform = NULL;
  gchar text[1024] = "";

  _tarn_layer_driver->clGetDeviceInfo (device, CL_DEVICE_PLATFORM, sizeof platform, &platform,
                                       NULL);
  _tarn_layer_driver->clGetPlatformInfo (platform, name, sizeof text - 1, text, NULL);
  return g_strdup (text);
}

/* Returns a number of 32 or 64 bits that the device reports, or 0 if the query fails. */
cl_ulong
_tarn_layer_get_number (cl_device_id device, cl_device_info name)
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

/* Returns TRUE if a device belongs to PoCL, an OpenCL driver.  Sets *version to PoCL's major
 * version, or to 0 if PoCL is older than 4.0: these versions do not report their number. */
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

/* Returns TRUE if the driver cannot copy boxes (clEnqueueCopyBufferRect ()) from or to a
 * sub-buffer, and cannot copy between a sub-buffer and an image.  PoCL 3.1 to 6.0 crash in such
 * copies (seen). */
static gboolean
copies_by_pieces (cl_device_id device)
{
  guint64 version;

  return is_pocl (device, &version) && version < 7;
}

/* Returns TRUE if the device is the host's processor. */
static gboolean
is_processor (cl_device_id device)
{
  return (_tarn_layer_get_number (device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
}

/* Returns TRUE if the layer should record the host addresses of pieces.  A piece is a large buffer
 * of the driver, from which the layer makes sub-buffers.  PoCL makes no images of sub-buffers.  So
 * the layer computes the host address of a sub-buffer from the address of its piece, makes a buffer
 * over that address, and makes the image of this buffer.  Returns FALSE if the device is not the
 * host's processor, because PoCL would copy the memory for such a device. */
static gboolean
notes_addresses (cl_device_id device)
{
  guint64 version;

  return is_pocl (device, &version) && is_processor (device);
}

/* Returns TRUE if the driver cannot copy between a sub-buffer and an image.  rusticl of Mesa 22.3
 * copies from the beginning of the whole buffer, wherever the sub-buffer begins (seen). */
static gboolean
copies_images_by_pieces (cl_device_id device)
{
  g_autofree gchar *name = get_platform_text (device, CL_PLATFORM_NAME);

  return strcmp (name, "rusticl") == 0 || copies_by_pieces (device);
}

/* Returns TRUE if a version as OpenCL states it is 1.2 or newer. */
static gboolean
is_version_1_2 (const gchar *text)
{
  guint major, minor;

  return sscanf (text, "OpenCL %u.%u", &major, &minor) == 2 && (major > 1 || minor >= 2);
}

/* Returns TRUE if the device has OpenCL 1.2 or newer, which has the marker and barrier commands
 * that the layer uses.  Asks the platform too: SOCL of StarPU 1.3 is a driver of OpenCL 1.0 that
 * passes on the versions of other drivers' devices, and newer functions are NULL in its table. */
static gboolean
has_markers (cl_device_id device)
{
  g_autofree gchar *version = get_text (device, CL_DEVICE_VERSION);
  g_autofree gchar *of_platform = get_platform_text (device, CL_PLATFORM_VERSION);

  return is_version_1_2 (version) && is_version_1_2 (of_platform);
}

/* Returns the alignment that sub-buffers need, in bytes: the larger of the alignment of buffers and
 * the alignment of images that are made of buffers.  The device states the alignment of images in
 * pixels.  A pixel has at most 16 bytes, so this function counts 16 bytes for each. */
static gsize
get_alignment (cl_device_id device)
{
  cl_ulong of_buffers = _tarn_layer_get_number (device, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8;
  cl_ulong of_images = 16 * _tarn_layer_get_number (device, CL_DEVICE_IMAGE_BASE_ADDRESS_ALIGNMENT);
  gsize wanted = (gsize) MAX (of_buffers, of_images);
  gsize alignment;

  for (alignment = 1; alignment < wanted && alignment < 1 << 16; alignment *= 2)
    ;
  return alignment;
}

/* Returns the driver's reference count of a context. */
static cl_uint
count_references (const LayerContext *context)
{
  cl_uint n = 0;

  _tarn_layer_driver->clGetContextInfo (context->base.handle, CL_CONTEXT_REFERENCE_COUNT, sizeof n,
                                        &n, NULL);
  return n;
}

/* Returns TRUE if the driver's reference count of a context includes the context's buffers.  The
 * context must be new, so that no other thread changes the count while this function runs. */
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

/* Makes the objects with which address.c finds the device addresses of pieces (the driver's large
 * buffers).  With some drivers these objects add to the context's reference count, which the
 * program can query.  Sets own_references to the number of references that they added. */
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
  cl_ulong max_bytes = _tarn_layer_get_number (device, CL_DEVICE_MAX_MEM_ALLOC_SIZE);

  if (!has_markers (device))
    return FALSE;
  context->device = device;
  context->alignment = get_alignment (device);
  context->max_bytes = (gsize) MIN (max_bytes, G_MAXSIZE / 4);
  context->counts_objects = counts_objects (context);
  begin_address (context);
  context->copies_by_pieces = copies_by_pieces (device);
  context->copies_images_by_pieces = copies_images_by_pieces (device);
  context->is_processor = is_processor (device);
  context->notes_addresses = notes_addresses (device);
  return context->max_bytes > 0;
}
