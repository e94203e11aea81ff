/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include <config.h>

#include "devices.h"

#ifdef HAVE_OPENCL
#include <tarn/opencl.h>
#endif

static void
device_free (gpointer data)
{
  Device *device = data;

  g_free (device->place);
  g_free (device->selector);
  g_free (device->name);
  g_free (device->platform);
  g_clear_pointer (&device->owner, g_ptr_array_unref);
  g_free (device);
}

#ifdef HAVE_OPENCL
static gboolean
is_listed (const GPtrArray *devices, const gchar *place)
{
  for (guint i = 0; i < devices->len; i++)
    if (g_str_equal (((const Device *) g_ptr_array_index (devices, i))->place, place))
      return TRUE;
  return FALSE;
}

static gboolean
add_opencl (GPtrArray *devices, const gchar *selection, GError **error)
{
  g_autoptr (GPtrArray) chosen = tarn_opencl_select_test_devices (selection, error);

  if (chosen == NULL)
    return FALSE;
  for (guint i = 0; i < chosen->len; i++)
    {
      const TarnOpenclDevice *found = g_ptr_array_index (chosen, i);
      g_autofree gchar *place
          = g_strdup_printf ("%u:%u", found->platform_index, found->device_index);
      Device *device;

      if (is_listed (devices, place))
        continue;
      device = g_new0 (Device, 1);
      device->place = g_steal_pointer (&place);
      device->selector = g_strdup (found->selector);
      device->name = g_strdup (found->name);
      device->platform = g_strdup (found->platform_name);
      device->opencl = found;
      device->owner = g_ptr_array_ref (chosen);
      g_ptr_array_add (devices, device);
    }
  return TRUE;
}
#else
static gboolean
add_opencl (GPtrArray *devices, const gchar *selection, GError **error)
{
  (void) devices;
  (void) selection;
  (void) error;
  return TRUE;
}
#endif

GPtrArray *
devices_select (const gchar *selection, GError **error)
{
  g_autoptr (GPtrArray) devices = g_ptr_array_new_with_free_func (device_free);

  if (add_opencl (devices, selection, error))
    return g_steal_pointer (&devices);
  if (selection != NULL)
    g_prefix_error (error, "--select '%s': ", selection);
  return NULL;
}
