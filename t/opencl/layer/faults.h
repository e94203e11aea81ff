/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Shared by the parts of the tests of the layer over a driver that fails: an OpenCL program, what
 * the driver has of it, and its calls failing in turn. */

#ifndef LAYER_FAULTS_H
#define LAYER_FAULTS_H

#include "opencl/device.h"

#define SIZE 4096
#define LARGE ((gsize) 1 << 20)
#define WAIT (10 * G_TIME_SPAN_SECOND)
#define SHORT_WAIT (G_TIME_SPAN_SECOND / 5) /* where there may be nothing to wait for */

extern const OpenclLayer *layer;

/* What a program has of OpenCL; NULL: not made. */
typedef struct
{
  cl_context context;
  cl_command_queue queues[2];
  cl_mem buffers[3];
  cl_mem part; /* or an image */
} Program;

/* Each goes on where the one before has left the status at CL_SUCCESS. */
void make_buffer (Program *self, guint i, gsize size, cl_int *status);
void make_queue (Program *self, guint i, cl_device_id device, cl_int *status);
cl_mem make_image (Program *self, gsize width, cl_int *status);
void program_fill (Program *self, guint queue, guint i, gsize size, guint8 value, cl_int *status);
void program_release (cl_mem *memory, cl_int *status);

/* Releases all that there is. */
void program_end (Program *self);

/* FALSE: the device has no images, and the test is skipped. */
gboolean has_images (const TarnOpenclDevice *device);

/* Objects that the driver has.  Its own threads may release some a moment later: that long, the
 * second one waits until there are as many as expected. */
guint count_live (void);
guint wait_live (guint expected, gint64 wait);

/* Fails each call of the driver in turn until there is none that was to fail. */
void fail_each (const TarnOpenclDevice *device, gboolean for_ever,
                cl_int (*run_program) (Program *program, cl_device_id device));

/* Advances the clock that the layer reads. */
void faults_advance_clock (gint64 microseconds);

/* The parts, each of which adds its tests. */
void faults_add_images (void);
void faults_add_budgets (void);

#endif
