/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Several queues of a device, one of them behind a gate that only the test opens, and memory that
 * they use: buffers and shared virtual memory alike. */

#ifndef TARN_OPENCL_QUEUES_H
#define TARN_OPENCL_QUEUES_H

#include "device.h"

/* A kind of memory; its allocator is made for an OpenclState. */
typedef struct
{
  const gchar *name;
  gboolean is_svm;
  TarnAllocator *(*allocator_new) (gpointer state, GError **error);
} OpenclMemory;

/* What a test needs, and is skipped where the driver has it not. */
typedef enum
{
  OPENCL_NEEDS_GATE = 1 << 0,         /* a queue that waits for the test */
  OPENCL_NEEDS_OUT_OF_ORDER = 1 << 1, /* out-of-order queues */
  OPENCL_NEEDS_THREADS = 1 << 2,      /* threads that put commands on one queue */
  OPENCL_NEEDS_SVM = 1 << 3,          /* ... and of kinds of memory that one only */
  OPENCL_NEEDS_BUFFERS = 1 << 4       /* of kinds of memory those only */
} OpenclNeeds;

typedef struct
{
  const gchar *path;
  void (*func) (OpenclState *state, const OpenclMemory *memory, gconstpointer data);
  guint needs; /* OpenclNeeds */
  gconstpointer data;
} OpenclQueueCase;

/* Each of them for each kind of memory on each chosen device, as PATH/MEMORY; or, with no memory,
 * for each device. @cases are not copied. */
void opencl_add_for_memories (const OpenclQueueCase *cases, gsize n_cases);
void opencl_add_for_devices (const OpenclQueueCase *cases, gsize n_cases);

/* Why the device has not what is needed; NULL: it has.  Transfer full. */
gchar *opencl_why_not (const TarnOpenclDevice *device, const OpenclState *state, guint needs);

/* Shared virtual memory that is bound to the state's queue, or to none. */
TarnAllocator *opencl_svm_bound_new (gpointer state, GError **error);
TarnAllocator *opencl_svm_unbound_new (gpointer state, GError **error);

TarnPool *opencl_pool_new (OpenclState *state, const OpenclMemory *memory);

/* A function of OpenCL 2.0 that there is. */
gpointer opencl_find_function (const gchar *name);

cl_device_id opencl_get_device (const OpenclState *state);

/* Tells whether the library asks the driver for reference counts, because the driver counts the
 * program's references alone. */
gboolean opencl_counts_references (const OpenclState *state);
cl_command_queue opencl_queue_new (const OpenclState *state, gboolean out_of_order);

/* Waits for it, and ends the test if anything but the caller holds on to it. */
void opencl_queue_free (cl_command_queue queue);

/* A block that there is, from a pool that is valid afterwards; for a queue, or for none. */
TarnBlock *opencl_allocate (TarnPool *pool, gsize size, cl_command_queue queue);

/* What the commands that wait for it wait for, until it is opened; a program that forgets to open
 * it, or cannot because a call does not return, ends by a signal. */
cl_event opencl_gate_new (const OpenclState *state);
void opencl_gate_open (cl_event gate);

/* Has the device run a number of commands, which are independent of all others, on a queue of their
 * own: what it could run before them, it has had the time for. */
void opencl_pass_time (const OpenclState *state);

gboolean opencl_is_complete (cl_event event);

/* Ends the test if the command is not complete in good time; drops the event. */
void opencl_await (cl_event event);

/* Waits until events tell that all is done that was put on the queue: rusticl's clFinish () returns
 * before that. */
void opencl_settle (cl_command_queue queue);

/* Puts a command on the queue that fills the block with a value, waits for @gate if that is not
 * NULL, and is flushed.  Transfer full. */
cl_event opencl_fill (cl_command_queue queue, TarnBlock *block, guint32 value, cl_event gate);

/* Waits for the queue, and ends the test if any word of the block is another one. */
void opencl_assert_content (cl_command_queue queue, TarnBlock *block, guint32 value);

#endif
