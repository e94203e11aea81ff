/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Makes selectors.  A selector is a text such as cuda:uuid=... that chooses one device, and still
 * chooses the same device after other devices were added or removed.  To check whether a property
 * (UUID, PCI address or name) distinguishes the device from all others, this file resolves a
 * selection that consists of the property.  It calls no driver. */

#include "select/selection-private.h"

#include <string.h>

/* The characters that UUIDs and PCI addresses may have in a selection without quotation marks. */
#define PLAIN G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "-:."

/* Returns TRUE if a name in a selection matches the device at @index, and no other of @devices. */
static gboolean
finds_only (const TarnSelectionDevice *devices, gsize n_devices, gsize index, const gchar *name)
{
  const TarnSelectionPlatform platform = { .devices = devices, .n_devices = n_devices };
  g_autofree gchar *every = g_strconcat ("*:", name, NULL);
  g_autoptr (GArray) items
      = tarn_selection_resolve (every, TARN_SELECTION_STRICT, &platform, 1, NULL);

  return items != NULL && items->len == 1
         && g_array_index (items, TarnSelectionItem, 0).device == index;
}

/* Returns a name in quotation marks.  Returns NULL if the name is NULL or empty, or contains a
 * quotation mark, because a selection (the text that chooses devices) cannot have such a
 * name. */
static gchar *
quote (const gchar *name)
{
  if (name == NULL || name[0] == '\0' || strchr (name, '"') != NULL)
    return NULL;
  return g_strdup_printf ("\"%s\"", name);
}

/* Returns a text that names an OpenCL platform in a selection.  If the platform's name matches no
 * other OpenCL platform, the text is this name.  Otherwise the text is the platform's index among
 * the OpenCL platforms.  The function passes the platforms to finds_only () as if they were
 * devices, because a name matches platforms and devices by the same rules. */
static gchar *
name_opencl_platform (const TarnSelectionPlatform *platforms, gsize n_platforms, gsize index)
{
  g_autofree TarnSelectionDevice *others = g_new0 (TarnSelectionDevice, n_platforms);
  g_autofree gchar *name = quote (platforms[index].name);
  gsize n = 0, place = 0;

  for (gsize i = 0; i < n_platforms; i++)
    {
      if (!_tarn_selection_is_opencl (&platforms[i]))
        continue;
      if (i == index)
        place = n;
      others[n].name = platforms[i].name;
      others[n++].vendor = platforms[i].vendor;
    }
  if (name != NULL && finds_only (others, n, place, name))
    return g_steal_pointer (&name);
  return g_strdup_printf ("%" G_GSIZE_FORMAT, place);
}

/* Returns "PROPERTY=VALUE", which names a device in a selection.  Returns NULL if the value is NULL
 * or empty, or has a character that is not in PLAIN. */
static gchar *
name_property (const gchar *property, const gchar *value)
{
  if (value == NULL || value[0] == '\0' || value[strspn (value, PLAIN)] != '\0')
    return NULL;
  return g_strconcat (property, "=", value, NULL);
}

/* Returns a text that names only the device at @index in a selection.  The text is the first of
 * these that no other device has: the UUID, the PCI address, the name, the index.  (Parts of one
 * GPU may have the same UUID and the same PCI address.) */
static gchar *
name_device (const TarnSelectionDevice *devices, gsize n_devices, gsize index)
{
  const TarnSelectionDevice *device = &devices[index];
  g_autofree gchar *uuid = name_property ("uuid", device->uuid);
  g_autofree gchar *pci = name_property ("pci", device->pci);
  g_autofree gchar *name = quote (device->name);
  const gchar *const names[] = { uuid, pci, name };

  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    if (names[i] != NULL && finds_only (devices, n_devices, index, names[i]))
      return g_strdup (names[i]);
  return g_strdup_printf ("%" G_GSIZE_FORMAT, index);
}

/* Returns a selector such as cuda:uuid=... for a device.  The selector consists of the kind of the
 * device's platform, and a name that matches no other device on the platforms of this kind. */
static gchar *
name_device_of_kind (const TarnSelectionPlatform *platforms, gsize n_platforms,
                     TarnSelectionItem item)
{
  const gchar *kind = platforms[item.platform].kind;
  g_autoptr (GArray) devices = g_array_new (FALSE, TRUE, sizeof (TarnSelectionDevice));
  g_autofree gchar *device = NULL;
  gsize index = 0;

  for (gsize i = 0; i < n_platforms; i++)
    {
      if (!_tarn_selection_is_of_kind (&platforms[i], kind))
        continue;
      if (i == item.platform)
        index = devices->len + item.device;
      if (platforms[i].n_devices > 0)
        g_array_append_vals (devices, platforms[i].devices, (guint) platforms[i].n_devices);
    }
  device = name_device ((const TarnSelectionDevice *) (gconstpointer) devices->data, devices->len,
                        index);
  return g_strconcat (kind, ":", device, NULL);
}

gchar *
tarn_selection_format_uuid (const guint8 *bytes)
{
  GString *text;

  g_return_val_if_fail (bytes != NULL, NULL);

  text = g_string_sized_new (37);
  for (guint i = 0; i < 16; i++)
    g_string_append_printf (text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                            bytes[i]);
  return g_string_free (text, FALSE);
}

gchar *
tarn_selection_make_selector (const TarnSelectionPlatform *platforms, gsize n_platforms,
                              TarnSelectionItem item)
{
  g_autofree gchar *platform = NULL;
  g_autofree gchar *device = NULL;

  g_return_val_if_fail (item.platform < n_platforms, NULL);
  g_return_val_if_fail (item.device < platforms[item.platform].n_devices, NULL);

  if (!_tarn_selection_is_opencl (&platforms[item.platform]))
    return name_device_of_kind (platforms, n_platforms, item);
  platform = name_opencl_platform (platforms, n_platforms, item.platform);
  device = name_device (platforms[item.platform].devices, platforms[item.platform].n_devices,
                        item.device);
  return g_strconcat (platform, ":", device, NULL);
}
