/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The OpenCL devices of this machine, and what a test needs on one of them. */

#ifndef TARN_OPENCL_DEVICE_H
#define TARN_OPENCL_DEVICE_H

#include <tarn/opencl.h>

#include "conformance.h"
#include "opencl-layer.h"

/* Those that TARN_TEST or PYOPENCL_TEST choose, else all, for the rest of the process: each once. A
 * choice that cannot be made ends the program. */
GPtrArray *opencl_devices (void);

/* "/opencl/0:1" and what follows it; free it with g_free (). */
gchar *opencl_path (const TarnOpenclDevice *device, const gchar *rest);

/* A context and an in-order queue of their own. */
typedef struct
{
  cl_context context;
  cl_command_queue queue;
} OpenclState;

/* As in Backend: open is given a TarnOpenclDevice, close ends the test if anything still holds on
 * to the context. */
gpointer opencl_open (gconstpointer device, gchar **reason);
void opencl_close (gpointer state);
const gchar *opencl_no_threads (gconstpointer device);
TarnAllocator *opencl_deferred_new (gpointer state, GError **error);
TarnAllocator *opencl_immediate_new (gpointer state, GError **error);

/* An immediate one, made without an error. */
TarnAllocator *opencl_allocator (OpenclState *state);

/* One test for each device, with a state opened for it. */
typedef void (*OpenclTestFunc) (const TarnOpenclDevice *device, OpenclState *state);
void opencl_add (const TarnOpenclDevice *device, const gchar *rest, OpenclTestFunc func);

/* The layer, or NULL if the loader takes none or there is no device.  Call it before any other. */
const OpenclLayer *opencl_layer_load (void);

/* Where there is no device: one test that is skipped and says so. */
void opencl_add_no_device (void);

#endif
