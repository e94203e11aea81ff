/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Selects OpenCL and CUDA devices at once.  Each of Tarn's libraries selects only devices of its
 * own kind, OpenCL or CUDA.  A library would refuse "*:h200" if no device of its kind matches. */

#include <config.h>

#include "devices.h"

#include <string.h>
#include <tarn/tarn.h>

#ifdef HAVE_CUDA
#include <tarn/cuda.h>
#endif
#ifdef HAVE_OPENCL
#include "opencl-calls.h"
#endif

#include "driver-crash.h"
#include "text.h"

/* All platforms and devices of the machine.  A device's place is its number in its platform, from
 * 0.
 *
 * Invariant: platforms, devices and choices have one element for each platform.  The two arrays of
 * a platform, in devices and in choices, have one element for each place.  If a place has no usable
 * device, its element in devices is NULL. */
typedef struct
{
  GArray *platforms;  /* elements of type TarnSelectionPlatform */
  GPtrArray *devices; /* for each platform a GPtrArray of Devices */
  /* For each platform a GArray of TarnSelectionDevices.  Their texts belong to the Devices and to
   * names. */
  GPtrArray *choices;
  GPtrArray *names; /* strings that belong to the platforms */
} Everything;

/* Frees a device.  @data is NULL if the place never had a usable device, or if the device was moved
 * to another array. */
static void
device_free (gpointer data)
{
  Device *device = data;

  if (device == NULL)
    return;
  g_free (device->place);
  g_free (device->selector);
  g_free (device->name);
  g_free (device->platform);
  g_free (device->uuid);
  g_free (device->pci);
  g_clear_pointer (&device->owner, g_ptr_array_unref);
  g_free (device);
}

static void
everything_init (Everything *everything)
{
  everything->platforms = g_array_new (FALSE, TRUE, sizeof (TarnSelectionPlatform));
  everything->devices = g_ptr_array_new_with_free_func ((GDestroyNotify) g_ptr_array_unref);
  everything->choices = g_ptr_array_new_with_free_func ((GDestroyNotify) g_array_unref);
  everything->names = g_ptr_array_new_with_free_func (g_free);
}

static void
everything_clear (Everything *everything)
{
  g_array_unref (everything->platforms);
  g_ptr_array_unref (everything->devices);
  g_ptr_array_unref (everything->choices);
  g_ptr_array_unref (everything->names);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Everything, everything_clear)

/* Adds a platform without devices.  Takes over the strings. */
static void G_GNUC_UNUSED
add_platform (Everything *everything, const gchar *kind, gchar *name, gchar *vendor)
{
  TarnSelectionPlatform platform = { .name = name, .vendor = vendor, .kind = kind };

  g_array_append_val (everything->platforms, platform);
  g_ptr_array_add (everything->devices, g_ptr_array_new_with_free_func (device_free));
  g_ptr_array_add (everything->choices, g_array_new (FALSE, TRUE, sizeof (TarnSelectionDevice)));
  g_ptr_array_add (everything->names, name);
  g_ptr_array_add (everything->names, vendor);
}

/* Adds a device at its place in a platform, and takes the device over.  Some places stay empty,
 * because libraries leave out devices without a name, and the other devices keep their places. */
static void G_GNUC_UNUSED
add_device (Everything *everything, guint platform, guint place, Device *device,
            const gchar *vendor)
{
  TarnSelectionDevice choice
      = { .name = device->name, .vendor = vendor, .uuid = device->uuid, .pci = device->pci };
  GPtrArray *devices = g_ptr_array_index (everything->devices, platform);
  GArray *choices = g_ptr_array_index (everything->choices, platform);

  g_assert (devices->len == choices->len);
  if (place >= devices->len)
    {
      g_ptr_array_set_size (devices, (gint) place + 1);
      g_array_set_size (choices, place + 1);
    }
  g_ptr_array_index (devices, place) = device;
  g_array_index (choices, TarnSelectionDevice, place) = choice;
}

#ifdef HAVE_OPENCL
/* Asks a platform for a string.  Returns "" if the driver does not answer. */
static gchar *
get_platform_string (cl_platform_id platform, cl_platform_info info)
{
  size_t size = 0;
  gchar *text;

  if (OPENCL (clGetPlatformInfo) (platform, info, 0, NULL, &size) != CL_SUCCESS)
    size = 0;
  text = g_malloc0 (size + 1);
  if (size > 0 && OPENCL (clGetPlatformInfo) (platform, info, size, text, NULL) != CL_SUCCESS)
    text[0] = '\0';
  return text;
}

/* Adds all OpenCL platforms.  Also adds those without devices, because a platform's number is its
 * place among all platforms. */
static void
add_opencl_platforms (Everything *everything)
{
  cl_platform_id ids[64];
  cl_uint n = 0;

  if (OPENCL (clGetPlatformIDs) (G_N_ELEMENTS (ids), ids, &n) != CL_SUCCESS)
    return;
  for (guint i = 0; i < MIN (n, G_N_ELEMENTS (ids)); i++)
    add_platform (everything, "opencl", get_platform_string (ids[i], CL_PLATFORM_NAME),
                  get_platform_string (ids[i], CL_PLATFORM_VENDOR));
}

static gboolean
add_opencl (Everything *everything, GError **error)
{
  g_autoptr (GPtrArray) all = tarn_opencl_select_test_devices ("", error);

  if (all == NULL)
    return FALSE;
  if (tarn_opencl_get_function ("clGetPlatformIDs", NULL) == NULL)
    return TRUE;
  add_opencl_platforms (everything);
  for (guint i = 0; i < all->len; i++)
    {
      const TarnOpenclDevice *found = g_ptr_array_index (all, i);
      Device *device;

      if (found->platform_index >= everything->platforms->len)
        continue;
      device = g_new0 (Device, 1);
      device->kind = "opencl";
      device->place = g_strdup_printf ("%u:%u", found->platform_index, found->device_index);
      device->selector = g_strdup (found->selector);
      device->name = g_strdup (found->name);
      device->platform = g_strdup (found->platform_name);
      device->uuid = g_strdup (found->uuid);
      device->pci = g_strdup (found->pci);
      device->opencl = found;
      device->owner = g_ptr_array_ref (all);
      add_device (everything, found->platform_index, found->device_index, device, found->vendor);
    }
  return TRUE;
}
#else
static gboolean
add_opencl (Everything *everything, GError **error)
{
  (void) everything;
  (void) error;
  return TRUE;
}
#endif

#ifdef HAVE_CUDA
static gboolean
add_cuda (Everything *everything, GError **error)
{
  g_autoptr (GPtrArray) all = tarn_cuda_select_test_devices ("", error);
  guint platform = everything->platforms->len;

  if (all == NULL)
    return FALSE;
  if (all->len > 0)
    add_platform (everything, "cuda", g_strdup ("CUDA"), g_strdup ("NVIDIA Corporation"));
  for (guint i = 0; i < all->len; i++)
    {
      const TarnCudaDevice *found = g_ptr_array_index (all, i);
      Device *device = g_new0 (Device, 1);

      device->kind = "cuda";
      device->place = g_strdup_printf ("cuda:%u", found->device_index);
      device->selector = g_strdup (found->selector);
      device->name = g_strdup (found->name);
      device->platform = g_strdup ("CUDA");
      device->uuid = g_strdup (found->uuid);
      device->pci = g_strdup (found->pci);
      device->cuda = found;
      device->owner = g_ptr_array_ref (all);
      add_device (everything, platform, found->device_index, device, "NVIDIA Corporation");
    }
  return TRUE;
}
#else
static gboolean
add_cuda (Everything *everything, GError **error)
{
  (void) everything;
  (void) error;
  return TRUE;
}
#endif

/* Asks all drivers for their devices. */
static gboolean
ask_drivers (Everything *everything, GError **error)
{
  gboolean is_listed;

  driver_crash_watch ();
  is_listed = add_opencl (everything, error) && add_cuda (everything, error);
  driver_crash_unwatch ();
  return is_listed;
}

static gboolean
find_everything (Everything *everything, GError **error)
{
  if (!ask_drivers (everything, error))
    return FALSE;
  for (guint i = 0; i < everything->platforms->len; i++)
    {
      TarnSelectionPlatform *platform
          = &g_array_index (everything->platforms, TarnSelectionPlatform, i);
      const GArray *choices = g_ptr_array_index (everything->choices, i);

      platform->devices = (const TarnSelectionDevice *) (gconstpointer) choices->data;
      platform->n_devices = choices->len;
    }
  return TRUE;
}

/* Moves the selected devices into a new array.  A device that is selected several times is in it
 * once. */
static GPtrArray *
take (Everything *everything, const GArray *items)
{
  GPtrArray *chosen = g_ptr_array_new_with_free_func (device_free);

  for (guint i = 0; i < items->len; i++)
    {
      TarnSelectionItem item = g_array_index (items, TarnSelectionItem, i);
      GPtrArray *devices = g_ptr_array_index (everything->devices, item.platform);

      g_assert (item.device < devices->len);
      if (g_ptr_array_index (devices, item.device) == NULL)
        continue;
      g_ptr_array_add (chosen, g_ptr_array_index (devices, item.device));
      g_ptr_array_index (devices, item.device) = NULL;
    }
  return chosen;
}

GPtrArray *
devices_select (const gchar *selection, GError **error)
{
  TarnSelectionSyntax syntax = TARN_SELECTION_STRICT;
  const gchar *source = "--select";
  g_auto (Everything) everything = { NULL, NULL, NULL, NULL };
  g_autoptr (GArray) items = NULL;

  everything_init (&everything);
  if (selection == NULL && (selection = g_getenv ("TARN_TEST")) != NULL)
    source = "TARN_TEST";
  else if (selection == NULL && (selection = g_getenv ("PYOPENCL_TEST")) != NULL)
    {
      source = "PYOPENCL_TEST";
      syntax = TARN_SELECTION_PYOPENCL;
    }
  if (!find_everything (&everything, error))
    return NULL;
  items = tarn_selection_resolve (
      selection, syntax, (const TarnSelectionPlatform *) (gconstpointer) everything.platforms->data,
      everything.platforms->len, error);
  if (items != NULL)
    return take (&everything, items);
  if (selection != NULL)
    g_prefix_error (error, "%s: ", source);
  return NULL;
}

/* Functions that explain why there is no device, and compare devices */

#ifdef HAVE_OPENCL
/* Explains why OpenCL has no device.  Returns NULL if OpenCL has a device. */
static gchar *
explain_opencl (void)
{
  cl_platform_id ids[64];
  cl_uint n = 0;
  cl_int status;
  g_autoptr (GString) text = g_string_new (NULL);
  g_autoptr (GError) error = NULL;

  if (tarn_opencl_get_function ("clGetPlatformIDs", &error) == NULL)
    return g_strdup (error->message);
  status = OPENCL (clGetPlatformIDs) (G_N_ELEMENTS (ids), ids, &n);
  if (status != CL_SUCCESS || n == 0)
    return g_strdup_printf ("the loader finds no platform (%s): is a driver installed?",
                            tarn_opencl_status_name (status));
  for (guint i = 0; i < MIN (n, G_N_ELEMENTS (ids)); i++)
    {
      g_autofree gchar *name = get_platform_string (ids[i], CL_PLATFORM_NAME);
      cl_uint n_devices = 0;

      status = OPENCL (clGetDeviceIDs) (ids[i], CL_DEVICE_TYPE_ALL, 0, NULL, &n_devices);
      if (status == CL_SUCCESS && n_devices > 0)
        return NULL;
      g_string_append_printf (text, "%splatform '%s' has no device (%s)", i > 0 ? "; " : "", name,
                              tarn_opencl_status_name (status));
    }
  return g_string_free (g_steal_pointer (&text), FALSE);
}
#else
static gchar *
explain_opencl (void)
{
  return g_strdup ("Tarn was built without it");
}
#endif

#ifdef HAVE_CUDA
/* Explains why CUDA has no device.  Returns NULL if CUDA has a device. */
static gchar *
explain_cuda (void)
{
  g_autoptr (GPtrArray) all = tarn_cuda_select_test_devices ("", NULL);
  g_autoptr (GError) error = NULL;
  CUdevice device;

  if (all != NULL && all->len > 0)
    return NULL;
  if (tarn_cuda_get_default_device (0, &device, &error))
    return g_strdup ("there are devices, but they could not be listed");
  return g_strdup (error->message);
}
#else
static gchar *
explain_cuda (void)
{
  return g_strdup ("Tarn was built without it");
}
#endif

/* Prints why an API has no device.  Leaves out the beginning of the reason if it only repeats that
 * there is no such API: "there is no OpenCL: libOpenCL.so.1: cannot open ...". */
static void
complain (const gchar *api, const gchar *reason)
{
  g_autofree gchar *start = g_strdup_printf ("there is no %s: ", api);

  text_complain (g_get_prgname (), "%s: %s", api,
                 g_str_has_prefix (reason, start) ? reason + strlen (start) : reason);
}

void
devices_explain_none (void)
{
  g_autofree gchar *opencl = explain_opencl (), *cuda = explain_cuda ();

  if (opencl != NULL)
    complain ("OpenCL", opencl);
  if (cuda != NULL)
    complain ("CUDA", cuda);
}

/* Skips the "GPU-" that nvidia-smi writes before a UUID. */
static const gchar *
skip_prefix (const gchar *uuid)
{
  return g_str_has_prefix (uuid, "GPU-") ? uuid + strlen ("GPU-") : uuid;
}

gboolean
devices_are_one (const Device *left, const Device *right)
{
  if (left == right)
    return TRUE;
  if (left->uuid != NULL && right->uuid != NULL)
    return g_ascii_strcasecmp (skip_prefix (left->uuid), skip_prefix (right->uuid)) == 0;
  return left->pci != NULL && right->pci != NULL && g_ascii_strcasecmp (left->pci, right->pci) == 0;
}
