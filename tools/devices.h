/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Devices of every kind that Tarn was built for, from which the tools let users choose. */

#ifndef DEVICES_H
#define DEVICES_H

#include <glib.h>

/* A device.
 *
 * Invariant: exactly one of opencl and cuda is not NULL. */
typedef struct
{
  const gchar *kind; /* "opencl" or "cuda" */
  gchar *place;      /* such as "0:1" or "cuda:0": selects the device in this environment */
  gchar *selector;   /* selects the device even if other devices were added or removed */
  gchar *name;
  gchar *platform;
  gchar *uuid, *pci;    /* nullable */
  gconstpointer opencl; /* the TarnOpenclDevice; NULL for other kinds */
  gconstpointer cuda;   /* the TarnCudaDevice; NULL for other kinds */
  GPtrArray *owner;     /* a reference to the array of the TarnOpenclDevice or TarnCudaDevice */
} Device;

/* Lists the devices that @selection selects, each once.  If @selection is NULL, an environment
 * variable selects the devices.  Returns an array of Devices.  Returns NULL with an error that
 * names --select or the variable. */
GPtrArray *devices_select (const gchar *selection, GError **error);

/* Explains on standard error why OpenCL has no device, and why CUDA has none: there is no driver,
 * no platform, or no platform with a device.  Prints nothing for the one of them that has a
 * device. */
void devices_explain_none (void);

/* Tells whether two devices are known to be the same hardware, such as a GPU in OpenCL and in
 * CUDA. */
gboolean devices_are_one (const Device *left, const Device *right);

#endif
