/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Lists the devices of the CUDA driver, and chooses some of them.  If the driver cannot open a
 * device or state its name, Tarn logs the error and leaves the device out.  If the driver does not
 * state another fact, such as the UUID, the field is NULL or 0. */

#define _GNU_SOURCE 1 /* makes <stdlib.h> declare secure_getenv () */

#include <stdlib.h>

#include "driver-private.h"

static void
device_free (gpointer data)
{
  TarnCudaDevice *device = data;

  g_free (device->name);
  g_free (device->uuid);
  g_free (device->pci);
  g_free (device->selector);
  g_free (device);
}

static gboolean
check (const TarnCudaDriver *driver, guint index, const gchar *call, unsigned int status)
{
  g_autoptr (GError) error = NULL;

  if (status == TARN_CUDA_SUCCESS)
    return TRUE;
  _tarn_cuda_set_error (&error, driver, call, status);
  g_message ("CUDA device %u: %s", index, error->message);
  return FALSE;
}

/* Calls one of the driver's functions for a device's UUID.  Returns NULL if the driver lacks that
 * function, or if the call fails. */
static gchar *
call_uuid (unsigned int (*get) (TarnCudaUuid *, CUdevice), CUdevice device)
{
  TarnCudaUuid uuid;

  if (get == NULL || get (&uuid, device) != TARN_CUDA_SUCCESS)
    return NULL;
  return tarn_selection_format_uuid ((const guint8 *) uuid.bytes);
}

/* Returns a device's UUID as text.  If the device is a part of a GPU (MIG), the text is "MIG-" and
 * the part's UUID.  If not, the text is "GPU-" and the GPU's UUID.  For a part, the driver's newer
 * function returns the UUID of the part, and the older function the UUID of the GPU.  So the device
 * is a part if the two UUIDs differ. */
static gchar *
get_uuid (const TarnCudaDriver *driver, CUdevice device)
{
  g_autofree gchar *own = call_uuid (driver->cuDeviceGetUuid, device);
  g_autofree gchar *gpu = call_uuid (driver->cuDeviceGetUuid_v1, device);

  if (own == NULL && gpu == NULL)
    return NULL;
  if (own != NULL && gpu != NULL && !g_str_equal (own, gpu))
    return g_strconcat ("MIG-", own, NULL);
  return g_strconcat ("GPU-", own != NULL ? own : gpu, NULL);
}

/* Returns a device's PCI address, of at most 16 characters: "00000000:00:00.0". */
static gchar *
get_pci (const TarnCudaDriver *driver, CUdevice device)
{
  gchar id[32] = "";

  if (driver->cuDeviceGetPCIBusId == NULL
      || driver->cuDeviceGetPCIBusId (id, sizeof id - 1, device) != TARN_CUDA_SUCCESS)
    return NULL;
  return g_ascii_strdown (id, -1);
}

/* Asks the driver about a device.  Returns NULL if the driver cannot open or name the device. */
static TarnCudaDevice *
ask_device (const TarnCudaDriver *driver, guint index)
{
  gchar name[256] = "";
  CUdevice id;
  TarnCudaDevice *device;

  if (!check (driver, index, "cuDeviceGet", driver->cuDeviceGet (&id, (int) index))
      || !check (driver, index, "cuDeviceGetName",
                 driver->cuDeviceGetName (name, sizeof name - 1, id)))
    return NULL;
  device = g_new0 (TarnCudaDevice, 1);
  device->device = id;
  device->device_index = index;
  device->name = g_strdup (name);
  device->uuid = get_uuid (driver, id);
  device->pci = get_pci (driver, id);
  if (driver->cuDeviceTotalMem == NULL
      || driver->cuDeviceTotalMem (&device->bytes, id) != TARN_CUDA_SUCCESS)
    device->bytes = 0;
  return device;
}

/* Lists all devices, each at its index.  If ask_device () fails for a device, the device's entry is
 * NULL.  If there is no driver, which is normal, the list is empty, and no message is logged.
 * Fails in a child of fork (). */
static GPtrArray *
ask_driver (GError **error)
{
  GPtrArray *devices = g_ptr_array_new ();
  g_autoptr (GError) failure = NULL;
  const TarnCudaDriver *driver = _tarn_cuda_get_driver (&failure);
  int n = 0;

  if (driver != NULL)
    _tarn_cuda_check (driver, "cuDeviceGetCount", driver->cuDeviceGetCount (&n), &failure);
  if (g_error_matches (failure, TARN_ERROR, TARN_ERROR_FORKED))
    {
      g_propagate_error (error, g_steal_pointer (&failure));
      g_ptr_array_unref (devices);
      return NULL;
    }
  if (failure != NULL && !_tarn_cuda_is_absent (failure))
    g_message ("CUDA: %s", failure->message);
  for (int i = 0; failure == NULL && i < n; i++)
    g_ptr_array_add (devices, ask_device (driver, (guint) i));
  return devices;
}

static TarnSelectionDevice *
to_selection (const GPtrArray *all)
{
  TarnSelectionDevice *devices = g_new0 (TarnSelectionDevice, all->len + 1);

  for (guint i = 0; i < all->len; i++)
    {
      const TarnCudaDevice *device = g_ptr_array_index (all, i);

      devices[i].vendor = "NVIDIA Corporation";
      devices[i].name = device != NULL ? device->name : "";
      devices[i].uuid = device != NULL ? device->uuid : NULL;
      devices[i].pci = device != NULL ? device->pci : NULL;
    }
  return devices;
}

static TarnCudaDevice *
device_copy (const TarnCudaDevice *device)
{
  TarnCudaDevice *copy = g_new0 (TarnCudaDevice, 1);

  *copy = *device;
  copy->name = g_strdup (device->name);
  copy->uuid = g_strdup (device->uuid);
  copy->pci = g_strdup (device->pci);
  copy->selector = g_strdup (device->selector);
  return copy;
}

/* Chooses devices by a selection in the syntax TARN_SELECTION_STRICT.  Returns NULL with an error
 * if the selection is invalid.  If there are no CUDA devices, chooses none and accepts any
 * selection, because the selection may be meant for other kinds of devices, or for another machine.
 */
static GPtrArray *
choose (const GPtrArray *all, const gchar *selection, GError **error)
{
  g_autofree TarnSelectionDevice *devices = to_selection (all);
  TarnSelectionPlatform platform
      = { .name = "CUDA", .vendor = "NVIDIA Corporation", .kind = "cuda" };
  g_autoptr (GArray) items = NULL;
  GPtrArray *chosen;

  if (all->len == 0)
    return g_ptr_array_new_with_free_func (device_free);
  platform.devices = devices;
  platform.n_devices = all->len;
  items = tarn_selection_resolve (selection, TARN_SELECTION_STRICT, &platform, 1, error);
  if (items == NULL)
    return NULL;
  chosen = g_ptr_array_new_with_free_func (device_free);
  for (guint i = 0; i < items->len; i++)
    {
      TarnSelectionItem item = g_array_index (items, TarnSelectionItem, i);
      TarnCudaDevice *device = g_ptr_array_index (all, item.device);

      if (device == NULL)
        continue;
      device = device_copy (device);
      device->selector = tarn_selection_make_selector (&platform, 1, item);
      g_ptr_array_add (chosen, device);
    }
  return chosen;
}

GPtrArray *
tarn_cuda_select_test_devices (const gchar *selection, GError **error)
{
  gboolean is_from_environment = selection == NULL;
  const gchar *upstream;
  g_autoptr (GPtrArray) all = NULL;
  GPtrArray *chosen;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!tarn_check_fork (error))
    return NULL;
  if (is_from_environment)
    selection = secure_getenv ("TARN_TEST");
  upstream = secure_getenv ("PYOPENCL_TEST");
  if (selection == NULL && upstream != NULL && upstream[0] != '\0')
    return g_ptr_array_new_with_free_func (device_free);
  if ((all = ask_driver (error)) == NULL)
    return NULL;
  chosen = choose (all, selection, error);
  if (chosen == NULL && is_from_environment)
    g_prefix_error (error, "TARN_TEST: ");
  for (guint i = 0; i < all->len; i++)
    if (g_ptr_array_index (all, i) != NULL)
      device_free (g_ptr_array_index (all, i));
  return chosen;
}
