/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Lists the platforms and devices that the OpenCL loader knows, and chooses those that a selection,
 * such as the variable TARN_TEST, names.  If a driver does not answer a query, logs a message that
 * names the platform, and continues without the answer.  So one faulty driver does not keep a
 * program from using the devices of other drivers. */

#define _GNU_SOURCE 1 /* makes <stdlib.h> declare secure_getenv () */

#include <stdlib.h>

#include "common/shorten-private.h"
#include "device-private.h"
#include "driver-private.h"
#include "status-private.h"

/* Constants of cl_khr_device_uuid and cl_khr_pci_bus_info, which headers of OpenCL 1.2 lack. */
#define DEVICE_UUID_KHR 0x106A
#define DEVICE_PCI_BUS_INFO_KHR 0x410F

typedef struct
{
  cl_device_id id;
  gchar *name, *vendor; /* name and vendor of the device; NULL if the query failed */
  gchar *uuid, *pci;    /* UUID and PCI address; NULL if the driver does not report them */
} Device;

typedef struct
{
  cl_platform_id id;
  gchar *name, *vendor;
  GArray *devices; /* an array of Device */
} Platform;

static void
device_clear (gpointer item)
{
  Device *device = item;

  g_free (device->name);
  g_free (device->vendor);
  g_free (device->uuid);
  g_free (device->pci);
}

static void
platform_clear (gpointer item)
{
  Platform *platform = item;

  g_free (platform->name);
  g_free (platform->vendor);
  g_array_unref (platform->devices);
}

static void
report (guint platform, const gchar *name, const GError *error)
{
  g_autofree gchar *quoted = _tarn_shorten (name != NULL ? name : "");

  g_message ("OpenCL platform %u '%s': %s", platform, quoted, error->message);
}

static gchar *
get_uuid (cl_device_id device)
{
  guint8 bytes[16];

  if (_tarn_cl.clGetDeviceInfo (device, DEVICE_UUID_KHR, sizeof bytes, bytes, NULL) != CL_SUCCESS)
    return NULL;
  return tarn_selection_format_uuid (bytes);
}

static gchar *
get_pci (cl_device_id device)
{
  cl_uint address[4]; /* the numbers of the PCI domain, bus, device and function */

  if (_tarn_cl.clGetDeviceInfo (device, DEVICE_PCI_BUS_INFO_KHR, sizeof address, address, NULL)
      != CL_SUCCESS)
    return NULL;
  return g_strdup_printf ("%04x:%02x:%02x.%x", address[0], address[1], address[2], address[3]);
}

static void
ask_device (Device *device, guint platform, const gchar *platform_name)
{
  g_autofree gchar *extensions = NULL;
  g_autoptr (GError) error = NULL;

  device->name = _tarn_opencl_get_device_string (device->id, CL_DEVICE_NAME, &error);
  if (device->name != NULL)
    device->vendor = _tarn_opencl_get_device_string (device->id, CL_DEVICE_VENDOR, &error);
  if (device->vendor != NULL)
    extensions = _tarn_opencl_get_device_string (device->id, CL_DEVICE_EXTENSIONS, &error);
  if (extensions == NULL)
    {
      report (platform, platform_name, error);
      return;
    }
  if (_tarn_opencl_has_extension (extensions, "cl_khr_device_uuid"))
    device->uuid = get_uuid (device->id);
  if (_tarn_opencl_has_extension (extensions, "cl_khr_pci_bus_info"))
    device->pci = get_pci (device->id);
}

static void
ask_platform (Platform *platform, guint index)
{
  g_autofree cl_device_id *ids = NULL;
  cl_uint n_ids = 0;
  cl_int status;
  g_autoptr (GError) error = NULL;

  platform->name = _tarn_opencl_get_platform_string (platform->id, CL_PLATFORM_NAME, &error);
  if (platform->name != NULL)
    platform->vendor = _tarn_opencl_get_platform_string (platform->id, CL_PLATFORM_VENDOR, &error);
  if (platform->vendor == NULL)
    report (index, platform->name, error);
  g_clear_error (&error);

  status = _tarn_cl.clGetDeviceIDs (platform->id, CL_DEVICE_TYPE_ALL, 0, NULL, &n_ids);
  ids = g_new0 (cl_device_id, n_ids + 1);
  if (status == CL_SUCCESS && n_ids > 0)
    status = _tarn_cl.clGetDeviceIDs (platform->id, CL_DEVICE_TYPE_ALL, n_ids, ids, NULL);
  /* A platform may have no device now (CL_DEVICE_NOT_FOUND).  That is normal, and needs no
   * message. */
  if (status != CL_SUCCESS && status != CL_DEVICE_NOT_FOUND)
    {
      _tarn_opencl_set_error (&error, "clGetDeviceIDs", status);
      report (index, platform->name, error);
    }
  for (guint i = 0; status == CL_SUCCESS && i < n_ids; i++)
    {
      Device device = { .id = ids[i] };

      ask_device (&device, index, platform->name);
      g_array_append_val (platform->devices, device);
    }
}

/* Returns all platforms and their devices, as an array of Platform, transfer full.  The array is
 * empty if the loader knows no platform or if the machine has no OpenCL.  Both are normal. */
static GArray *
ask_loader (void)
{
  GArray *platforms = g_array_new (FALSE, TRUE, sizeof (Platform));
  g_autofree cl_platform_id *ids = NULL;
  cl_uint n_ids = 0;
  cl_int status;
  g_autoptr (GError) error = NULL;

  g_array_set_clear_func (platforms, platform_clear);
  if (!_tarn_opencl_load (&error))
    {
      if (!_tarn_opencl_is_absent (error))
        g_message ("OpenCL: %s", error->message);
      return platforms;
    }
  status = _tarn_cl.clGetPlatformIDs (0, NULL, &n_ids);
  ids = g_new0 (cl_platform_id, n_ids + 1);
  if (status == CL_SUCCESS && n_ids > 0)
    status = _tarn_cl.clGetPlatformIDs (n_ids, ids, NULL);
  for (guint i = 0; status == CL_SUCCESS && i < n_ids; i++)
    {
      Platform platform = { .id = ids[i] };

      platform.devices = g_array_new (FALSE, TRUE, sizeof (Device));
      g_array_set_clear_func (platform.devices, device_clear);
      ask_platform (&platform, i);
      g_array_append_val (platforms, platform);
    }
  return platforms;
}

static void
opencl_device_free (gpointer item)
{
  TarnOpenclDevice *device = item;

  g_free (device->platform_name);
  g_free (device->name);
  g_free (device->vendor);
  g_free (device->uuid);
  g_free (device->pci);
  g_free (device->selector);
  g_free (device);
}

static TarnOpenclDevice *
opencl_device_new (const GArray *platforms, const TarnSelectionPlatform *choices,
                   TarnSelectionItem item)
{
  const Platform *platform = &g_array_index (platforms, Platform, item.platform);
  const Device *found = &g_array_index (platform->devices, Device, item.device);
  TarnOpenclDevice *device = g_new0 (TarnOpenclDevice, 1);

  device->platform = platform->id;
  device->device = found->id;
  device->platform_index = item.platform;
  device->device_index = item.device;
  device->platform_name = g_strdup (platform->name != NULL ? platform->name : "");
  device->name = g_strdup (found->name);
  device->vendor = g_strdup (found->vendor != NULL ? found->vendor : "");
  device->uuid = g_strdup (found->uuid);
  device->pci = g_strdup (found->pci);
  device->selector = tarn_selection_make_selector (choices, platforms->len, item);
  return device;
}

/* Makes the array of TarnOpenclDevice for the chosen items.  Leaves out devices whose name the
 * driver did not state.  ask_device () has already logged a message about them. */
static GPtrArray *
collect (const GArray *platforms, const TarnSelectionPlatform *choices, const GArray *items)
{
  GPtrArray *devices = g_ptr_array_new_with_free_func (opencl_device_free);

  for (guint i = 0; i < items->len; i++)
    {
      TarnSelectionItem item = g_array_index (items, TarnSelectionItem, i);

      if (choices[item.platform].devices[item.device].name != NULL)
        g_ptr_array_add (devices, opencl_device_new (platforms, choices, item));
    }
  return devices;
}

/* Fills in @selection with descriptions of the platforms, for tarn_selection_resolve ().  Returns
 * the array of the devices' descriptions, to which @selection points, transfer full. */
static TarnSelectionDevice *
to_selection (const GArray *platforms, TarnSelectionPlatform *selection)
{
  TarnSelectionDevice *devices, *next;
  gsize n = 0;

  for (guint i = 0; i < platforms->len; i++)
    n += g_array_index (platforms, Platform, i).devices->len;
  devices = next = g_new0 (TarnSelectionDevice, n + 1);
  for (guint i = 0; i < platforms->len; i++)
    {
      const Platform *platform = &g_array_index (platforms, Platform, i);

      selection[i].name = platform->name;
      selection[i].vendor = platform->vendor;
      selection[i].devices = next;
      selection[i].n_devices = platform->devices->len;
      for (guint j = 0; j < platform->devices->len; j++, next++)
        {
          const Device *device = &g_array_index (platform->devices, Device, j);

          next->name = device->name;
          next->vendor = device->vendor;
          next->uuid = device->uuid;
          next->pci = device->pci;
        }
    }
  return devices;
}

GPtrArray *
tarn_opencl_select_test_devices (const gchar *selection, GError **error)
{
  TarnSelectionSyntax syntax = TARN_SELECTION_STRICT;
  const gchar *variable = NULL;
  g_autoptr (GArray) platforms = NULL;
  g_autofree TarnSelectionPlatform *choices = NULL;
  g_autofree TarnSelectionDevice *devices = NULL;
  g_autoptr (GArray) items = NULL;
  g_autoptr (GError) why = NULL;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!tarn_check_fork (error))
    return NULL;
  if (selection == NULL && (selection = secure_getenv ("TARN_TEST")) != NULL)
    variable = "TARN_TEST";
  else if (selection == NULL && (selection = secure_getenv ("PYOPENCL_TEST")) != NULL)
    {
      variable = "PYOPENCL_TEST";
      syntax = TARN_SELECTION_PYOPENCL;
    }

  platforms = ask_loader ();
  choices = g_new0 (TarnSelectionPlatform, platforms->len + 1);
  devices = to_selection (platforms, choices);
  items = tarn_selection_resolve (selection, syntax, choices, platforms->len, error);
  if (items != NULL)
    return collect (platforms, choices, items);
  if (!_tarn_opencl_load (&why))
    g_prefix_error (error, "%s: ", why->message);
  if (variable != NULL)
    g_prefix_error (error, "%s: ", variable);
  return NULL;
}
