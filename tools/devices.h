/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The devices that the programs choose from, of every kind that Tarn was built for. */

#ifndef DEVICES_H
#define DEVICES_H

#include <glib.h>

typedef struct
{
  const gchar *kind; /* "opencl" or "cuda" */
  gchar *place;      /* "0:1", "cuda:0": chooses it in this environment */
  gchar *selector;   /* goes on choosing it where devices come and go */
  gchar *name;
  gchar *platform;
  gchar *uuid, *pci;    /* nullable */
  gconstpointer opencl; /* its TarnOpenclDevice; NULL: it is of another kind */
  gconstpointer cuda;   /* its TarnCudaDevice; likewise */
  GPtrArray *owner;     /* of that */
} Device;

/* Those that a text chooses, or the environment where it is NULL, each once; an array of Device, or
 * NULL with an error that names the option --select or the variable. */
GPtrArray *devices_select (const gchar *selection, GError **error);

/* Says on standard error of each kind that has no device why: no platform, platforms without one,
 * no driver. */
void devices_explain_none (void);

/* Whether they are the same hardware, as far as that is known: OpenCL's and CUDA's view of a GPU.
 */
gboolean devices_are_one (const Device *left, const Device *right);

#endif
