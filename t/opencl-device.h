/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The OpenCL devices of this machine, and what a test needs on one of them. */

#ifndef TARN_OPENCL_DEVICE_H
#define TARN_OPENCL_DEVICE_H

#include <tarn/opencl.h>

#include "conformance.h"

typedef struct
{
  guint platform_index, device_index;
  cl_device_id id;
} OpenclDevice;

/* Every device of every platform, for the rest of the process.  A platform that cannot be asked is
 * passed over by name. */
GPtrArray *opencl_devices (void);

/* "/opencl/0:1" and what follows it; free it with g_free (). */
gchar *opencl_path (const OpenclDevice *device, const gchar *rest);

/* A context and an in-order queue of their own. */
typedef struct
{
  cl_context context;
  cl_command_queue queue;
} OpenclState;

/* As in Backend: open is given an OpenclDevice, close ends the test if anything still holds on to
 * the context. */
gpointer opencl_open (gconstpointer device, gchar **reason);
void opencl_close (gpointer state);
const gchar *opencl_no_threads (gconstpointer device);
TarnAllocator *opencl_deferred_new (gpointer state, GError **error);
TarnAllocator *opencl_immediate_new (gpointer state, GError **error);

/* One test for each device, with a state opened for it. */
typedef void (*OpenclTestFunc) (const OpenclDevice *device, OpenclState *state);
void opencl_add (const OpenclDevice *device, const gchar *rest, OpenclTestFunc func);

/* Where there is no device: one test that is skipped and says so. */
void opencl_add_no_device (void);

#endif
