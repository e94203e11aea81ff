/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#ifndef TARN_OPENCL_H
#define TARN_OPENCL_H

#include <CL/cl.h>
#include <tarn/tarn.h>

G_BEGIN_DECLS

/** The domain of errors whose code is OpenCL's own status, a cl_int. */
#define TARN_OPENCL_ERROR (tarn_opencl_error_quark ())
GQuark tarn_opencl_error_quark (void);
const gchar *tarn_opencl_status_name (cl_int status);

TarnAllocator *tarn_opencl_deferred_allocator_new (cl_context context, cl_mem_flags flags,
                                                   GError **error);
TarnAllocator *tarn_opencl_immediate_allocator_new (cl_command_queue queue, cl_mem_flags flags,
                                                    GError **error);
cl_mem tarn_opencl_block_get_buffer (const TarnBlock *block);

/** A device that was chosen; the strings are its own. */
typedef struct
{
  cl_platform_id platform;
  cl_device_id device;
  guint platform_index; /**< the platform's place among those that the loader lists */
  guint device_index;   /**< the device's place among those of its platform */
  gchar *platform_name; /**< CL_PLATFORM_NAME */
  gchar *name;          /**< CL_DEVICE_NAME */
  gchar *vendor;        /**< CL_DEVICE_VENDOR */
  gchar *uuid;          /**< nullable; as cl_khr_device_uuid gives it */
  gchar *pci;           /**< nullable; as cl_khr_pci_bus_info gives it: "0000:65:00.0" */
  gchar *selector;      /**< chooses it, and goes on to: tarn_selection_make_selector() */
  gpointer reserved[4];
} TarnOpenclDevice;

GPtrArray *tarn_opencl_select_test_devices (const gchar *selection, GError **error);

/** What a test is to run on. */
typedef struct
{
  cl_platform_id platform;
  cl_device_id device;         /**< in a test per platform: the first of devices */
  const cl_device_id *devices; /**< this one; in a test per platform: all chosen ones of it */
  guint n_devices;
  const TarnOpenclDevice *info; /**< of device */
  gpointer reserved[4];
} TarnOpenclTest;

/** A test; @p data is what it was added with. */
typedef void (*TarnOpenclTestFunc) (const TarnOpenclTest *test, gconstpointer data);

void tarn_opencl_test_add (const gchar *path, TarnOpenclTestFunc func, gconstpointer data);
void tarn_opencl_test_add_per_platform (const gchar *path, TarnOpenclTestFunc func,
                                        gconstpointer data);
cl_context tarn_opencl_test_create_context (const TarnOpenclTest *test, GError **error);

G_END_DECLS

#endif
