/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What OpenCL promises to a program about its buffers, seen from outside: each promise is a
 * function that prints what a program can see, and nothing that may differ from run to run, or that
 * the specification leaves open. A driver's output is compared with that of the same driver under a
 * layer that puts buffers into a pool. */

#ifndef PROMISES_H
#define PROMISES_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS

#include <CL/cl.h>
#include <glib.h>
#include <stdio.h>
#include <string.h>

#define MIB ((gsize) 1 << 20)
#define ACCESS_FLAGS 4
#define HOST_FLAGS 4

typedef struct
{
  cl_platform_id platform;
  cl_device_id device;    /* the platform's first */
  cl_context context;     /* of the device alone */
  cl_command_queue queue; /* in order */
  cl_program program;     /* NULL: no kernel was asked for yet */
  gboolean is_broken;     /* the driver has been seen to break the promise */
} World;

typedef struct
{
  const gchar *name;
  void (*run) (World *world);
  gboolean in_child; /* some drivers die of it: what they do then is seen, too */
} Promise;

/* Each ends with a row without a name. */
extern const Promise promises_info[];
extern const Promise promises_references[];
extern const Promise promises_parts[];
extern const Promise promises_kernels[];
extern const Promise promises_contents[];
extern const Promise promises_commands[];
extern const Promise promises_maps[];
extern const Promise promises_queues[];
extern const Promise promises_waits[];
extern const Promise promises_images[];
extern const Promise promises_image_contents[];
extern const Promise promises_svm[];
extern const Promise promises_buffer_images[];
extern const Promise promises_contexts[];

/* For calls that have to succeed: anything else ends the program. */
#define OK(call) promise_check ((call), #call)

/* What the specification leaves no choice in; where it is not so, what the driver shows is no
 * measure for the layer. */
void promise_expect (World *world, gboolean is_so);

void promise_check (cl_int status, const gchar *call);
const gchar *promise_status (cl_int status);
G_NORETURN void promise_skip (const gchar *why);
guint promise_get_version (cl_device_id device); /* 10 * major + minor */
cl_device_id *promise_get_devices (cl_platform_id platform, cl_uint *n);

/* Flags: the names are to be freed. */
extern const cl_mem_flags promise_access[ACCESS_FLAGS];
extern const cl_mem_flags promise_host_access[HOST_FLAGS];
gchar *promise_flags (cl_mem_flags flags);

/* Objects; each is the caller's. */
cl_context promise_context (World *world);
cl_command_queue promise_queue (World *world, cl_command_queue_properties properties);
cl_mem promise_buffer (World *world, cl_mem_flags flags, gsize size, gpointer host);
cl_mem promise_filled (World *world, gsize size, guint seed);
cl_mem promise_part (cl_mem whole, cl_mem_flags flags, gsize offset, gsize size);
cl_kernel promise_kernel (World *world, const gchar *name);
void promise_need_images (World *world);   /* skips where there are none */
cl_uint promise_get_count (cl_mem memory); /* never used by a command */
cl_uint promise_wait_count (cl_mem memory, cl_uint expected);
gsize promise_get_alignment (World *world); /* bytes, of sub-buffers */

/* A closed gate is a user event that commands wait for; opening it frees it. */
cl_event promise_gate (World *world);
void promise_open (cl_event gate);

/* Patterns of bytes, each with a seed, on the host and in kernels. */
guchar promise_byte (guint seed, gsize i);
guchar *promise_pattern (guint seed, gsize size);
gsize promise_count_wrong (const guchar *bytes, gsize size, guint seed, guint added);
void promise_write (cl_command_queue queue, cl_mem buffer, gsize offset, gsize size, guint seed);
gsize promise_read_wrong (cl_command_queue queue, cl_mem buffer, gsize offset, gsize size,
                          guint seed, guint added);

/* Kernels "fill" and "add": (bytes, how many, seed or what to add). Sets the arguments. */
void promise_set (cl_kernel kernel, cl_mem buffer, gsize size, guint number);
void promise_launch (cl_command_queue queue, cl_kernel kernel, cl_uint n_waits,
                     const cl_event *waits, cl_event *event);
void promise_run (cl_command_queue queue, cl_kernel kernel, cl_mem buffer, gsize size,
                  guint number);

#endif
