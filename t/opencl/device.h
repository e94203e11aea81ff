/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The OpenCL devices of this machine, and what a test needs on one of them. */

#ifndef TARN_OPENCL_DEVICE_H
#define TARN_OPENCL_DEVICE_H

#include <tarn/opencl.h>

#include "layer.h"
#include "lib/conformance.h"

/* A context and an in-order queue of their own. */
typedef struct
{
  cl_context context;
  cl_command_queue queue;
} OpenclState;

/* As in Backend, for each chosen device: open is given a TarnOpenclDevice, close ends the test if
 * anything still holds on to the context. */
void opencl_add_conformance (const gchar *path, gconstpointer test);
gpointer opencl_open (gconstpointer device, gchar **reason);
void opencl_close (gpointer state);

/* Waits for a queue that is to be released next.  Where clFinish () has to wait for a command, a
 * thread of PoCL 6.0 uses the queue once more when the call has returned. */
void opencl_finish (cl_command_queue queue);
const gchar *opencl_no_threads (gconstpointer device);
const gchar *opencl_no_threads_on_queue (gconstpointer device);

/* Whether whoever flushes a queue of the device runs its commands. */
gboolean opencl_runs_in_caller (const TarnOpenclDevice *device);

TarnAllocator *opencl_deferred_new (gpointer state, GError **error);
TarnAllocator *opencl_immediate_new (gpointer state, GError **error);

/* An immediate one, made without an error. */
TarnAllocator *opencl_allocator (OpenclState *state);

/* Ends the test if anything but the caller holds on to a context.  A driver's own threads may
 * release what a command used a moment after clFinish () has returned: that long, it waits. */
void opencl_assert_sole_reference (cl_context context);

/* Without an error; the release asserts that nobody else has a reference. */
cl_context opencl_context_new (const TarnOpenclDevice *device);
void opencl_context_release (cl_context context);

/* A test with a state of its own. */
typedef struct
{
  const gchar *path;
  void (*func) (const TarnOpenclDevice *device, OpenclState *state);
} OpenclCase;

/* Each of them for each chosen device; @cases are not copied. */
void opencl_add (const OpenclCase *cases, gsize n_cases);

/* The layer, or NULL if the loader takes none or there is no device.  Call it before any other. */
const OpenclLayer *opencl_layer_load (void);

/* The same, with a layer of the project's between it and the program. */
const OpenclLayer *opencl_layer_load_under (const gchar *library);

/* As in Backend, for a layer that was loaded. */
gboolean opencl_layer_stop_failing (gpointer unused);

/* In place of the tests that need a layer: one that says that there is none. */
void opencl_add_no_layer (const gchar *path);

/* Messages of the libraries' are kept from the test's output from now on. */
void opencl_ignore_messages (void);

#endif
