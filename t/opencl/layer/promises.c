/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * promises --list prints the names of the promises, --platforms the numbers of the platforms that
 * have a device, and --platform NUMBER NAME runs one on the first device of a platform: exit status
 * 77 says that the device has not what it needs, 78 that it is broken. */

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "promises.h"

static const Promise *const tables[]
    = { promises_info,          promises_references, promises_parts,          promises_kernels,
        promises_contents,      promises_commands,   promises_maps,           promises_queues,
        promises_waits,         promises_images,     promises_image_contents, promises_svm,
        promises_buffer_images, promises_contexts };

const cl_mem_flags promise_access[ACCESS_FLAGS]
    = { 0, CL_MEM_READ_WRITE, CL_MEM_READ_ONLY, CL_MEM_WRITE_ONLY };
const cl_mem_flags promise_host_access[HOST_FLAGS]
    = { 0, CL_MEM_HOST_WRITE_ONLY, CL_MEM_HOST_READ_ONLY, CL_MEM_HOST_NO_ACCESS };

/* All have a fixed number of work-items, which share the bytes: PoCL compiles a kernel once for
 * each local size. */
static const gchar source[]
    = "uchar byte_at (uint seed, ulong i)\n"
      "{\n"
      "  uint x = seed * 2654435761u ^ (uint) i * 2246822519u;\n"
      "  return (uchar) ((x ^ x >> 15) >> 3);\n"
      "}\n"
      "#define EACH(i, n) for (ulong i = get_global_id (0); i < n; i += get_global_size (0))\n"
      "kernel void fill (global uchar *b, ulong n, uint seed)\n"
      "{ EACH (i, n) b[i] = byte_at (seed, i); }\n"
      "kernel void add (global uchar *b, ulong n, uint by)\n"
      "{ EACH (i, n) b[i] += (uchar) by; }\n"
      "kernel void copy (global const uchar *from, global uchar *to, ulong n)\n"
      "{ EACH (i, n) to[i] = from[i]; }\n"
      "kernel void check (global const uchar *b, ulong n, uint seed, global uint *wrong)\n"
      "{ EACH (i, n) if (b[i] != byte_at (seed, i)) atomic_inc (wrong); }\n"
      "kernel void is_null (global const uchar *b, global uint *answer)\n"
      "{ if (get_global_id (0) == 0) answer[0] = b == 0; }\n"
      "kernel void value (ulong value, global ulong *answer)\n"
      "{ if (get_global_id (0) == 0) answer[0] = value; }\n"
      "kernel void address (global const uchar *b, ulong modulus, global ulong *answer)\n"
      "{ if (get_global_id (0) == 0) answer[0] = (ulong) b % modulus; }\n"
      "kernel void scratch (local uint *words, uint n, global uint *answer)\n"
      "{\n"
      "  if (get_local_id (0) < n) words[get_local_id (0)] = get_local_id (0);\n"
      "  barrier (CLK_LOCAL_MEM_FENCE);\n"
      "  if (get_global_id (0) == 0) answer[0] = words[n - 1];\n"
      "}\n";

#define GLOBAL_SIZE 64
#define LOCAL_SIZE 16

#define NAME(status)                                                                               \
  {                                                                                                \
    status, #status                                                                                \
  }

const gchar *
promise_status (cl_int status)
{
  static const struct
  {
    cl_int status;
    const gchar *name;
  } names[] = { NAME (CL_SUCCESS),
                NAME (CL_MEM_OBJECT_ALLOCATION_FAILURE),
                NAME (CL_OUT_OF_RESOURCES),
                NAME (CL_OUT_OF_HOST_MEMORY),
                NAME (CL_MEM_COPY_OVERLAP),
                NAME (CL_MAP_FAILURE),
                NAME (CL_MISALIGNED_SUB_BUFFER_OFFSET),
                NAME (CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
                NAME (CL_INVALID_VALUE),
                NAME (CL_INVALID_DEVICE),
                NAME (CL_INVALID_CONTEXT),
                NAME (CL_INVALID_QUEUE_PROPERTIES),
                NAME (CL_INVALID_COMMAND_QUEUE),
                NAME (CL_INVALID_HOST_PTR),
                NAME (CL_INVALID_MEM_OBJECT),
                NAME (CL_INVALID_IMAGE_FORMAT_DESCRIPTOR),
                NAME (CL_INVALID_IMAGE_SIZE),
                NAME (CL_INVALID_IMAGE_DESCRIPTOR),
                NAME (CL_INVALID_KERNEL),
                NAME (CL_INVALID_ARG_INDEX),
                NAME (CL_INVALID_ARG_VALUE),
                NAME (CL_INVALID_ARG_SIZE),
                NAME (CL_INVALID_KERNEL_ARGS),
                NAME (CL_INVALID_EVENT_WAIT_LIST),
                NAME (CL_INVALID_EVENT),
                NAME (CL_INVALID_OPERATION),
                NAME (CL_INVALID_BUFFER_SIZE),
                NAME (CL_INVALID_PROPERTY) };
  static gchar number[16]; /* a status without a name here; one thread prints */

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (names[i].status == status)
      return names[i].name;
  g_snprintf (number, sizeof number, "%d", status);
  return number;
}

void
promise_check (cl_int status, const gchar *call)
{
  if (status != CL_SUCCESS)
    g_error ("%s: %s (%d)", call, promise_status (status), status);
}

void
promise_expect (World *world, gboolean is_so)
{
  world->is_broken |= !is_so;
}

void
promise_skip (const gchar *why)
{
  printf ("%s\n", why);
  exit (77);
}

/* Flags */

gchar *
promise_flags (cl_mem_flags flags)
{
  static const struct
  {
    cl_mem_flags flag;
    const gchar *name;
  } names[] = { { CL_MEM_READ_WRITE, "READ_WRITE" },
                { CL_MEM_WRITE_ONLY, "WRITE_ONLY" },
                { CL_MEM_READ_ONLY, "READ_ONLY" },
                { CL_MEM_HOST_WRITE_ONLY, "HOST_WRITE_ONLY" },
                { CL_MEM_HOST_READ_ONLY, "HOST_READ_ONLY" },
                { CL_MEM_HOST_NO_ACCESS, "HOST_NO_ACCESS" },
                { CL_MEM_USE_HOST_PTR, "USE" },
                { CL_MEM_ALLOC_HOST_PTR, "ALLOC" },
                { CL_MEM_COPY_HOST_PTR, "COPY" } };
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (flags & names[i].flag)
      {
        g_string_append_printf (text, "%s%s", text->len == 0 ? "" : "|", names[i].name);
        flags &= ~names[i].flag;
      }
  if (flags != 0 || text->len == 0)
    g_string_append_printf (text, "%s%#" G_GINT64_MODIFIER "x", text->len == 0 ? "" : "|",
                            (guint64) flags);
  return g_strdup (text->str);
}

/* Objects */

guint
promise_get_version (cl_device_id device)
{
  gchar text[256] = "";
  guint major = 0, minor = 0;

  OK (clGetDeviceInfo (device, CL_DEVICE_VERSION, sizeof text, text, NULL));
  if (sscanf (text, "OpenCL %u.%u", &major, &minor) != 2)
    g_error ("CL_DEVICE_VERSION is \"%s\"", text);
  return 10 * major + minor;
}

cl_context
promise_context (World *world)
{
  cl_int status = 1;
  cl_context context = clCreateContext (NULL, 1, &world->device, NULL, NULL, &status);

  promise_check (status, "clCreateContext");
  return context;
}

cl_command_queue
promise_queue (World *world, cl_command_queue_properties properties)
{
  cl_int status = 1;
  cl_command_queue queue
      = clCreateCommandQueue (world->context, world->device, properties, &status);

  promise_check (status, "clCreateCommandQueue");
  return queue;
}

cl_mem
promise_buffer (World *world, cl_mem_flags flags, gsize size, gpointer host)
{
  cl_int status = 1;
  cl_mem buffer = clCreateBuffer (world->context, flags, size, host, &status);

  promise_check (status, "clCreateBuffer");
  return buffer;
}

cl_mem
promise_filled (World *world, gsize size, guint seed)
{
  cl_mem buffer = promise_buffer (world, CL_MEM_READ_WRITE, size, NULL);

  promise_write (world->queue, buffer, 0, size, seed);
  return buffer;
}

cl_mem
promise_part (cl_mem whole, cl_mem_flags flags, gsize offset, gsize size)
{
  cl_buffer_region region = { offset, size };
  cl_int status = 1;
  cl_mem part = clCreateSubBuffer (whole, flags, CL_BUFFER_CREATE_TYPE_REGION, &region, &status);

  promise_check (status, "clCreateSubBuffer");
  return part;
}

cl_kernel
promise_kernel (World *world, const gchar *name)
{
  const gchar *text = source;
  cl_int status = 1;
  cl_kernel kernel;

  if (world->program == NULL)
    {
      world->program = clCreateProgramWithSource (world->context, 1, &text, NULL, &status);
      promise_check (status, "clCreateProgramWithSource");
      OK (clBuildProgram (world->program, 0, NULL, "", NULL, NULL));
    }
  kernel = clCreateKernel (world->program, name, &status);
  promise_check (status, "clCreateKernel");
  return kernel;
}

void
promise_need_images (World *world)
{
  cl_bool has = CL_FALSE;

  OK (clGetDeviceInfo (world->device, CL_DEVICE_IMAGE_SUPPORT, sizeof has, &has, NULL));
  if (!has)
    promise_skip ("the device has no images");
}

cl_uint
promise_get_count (cl_mem memory)
{
  cl_uint count = G_MAXUINT;

  OK (clGetMemObjectInfo (memory, CL_MEM_REFERENCE_COUNT, sizeof count, &count, NULL));
  return count;
}

/* Gets the reference count of @memory. A driver has references to the memory that a command uses,
 * and releases them at any time after the command has completed. So this waits for up to 2 seconds
 * until the count is @expected or less: some drivers count no reference for a sub-buffer. */
cl_uint
promise_wait_count (cl_mem memory, cl_uint expected)
{
  gint64 end = g_get_monotonic_time () + 2 * G_TIME_SPAN_SECOND;

  while (promise_get_count (memory) > expected && g_get_monotonic_time () < end)
    g_thread_yield ();
  return promise_get_count (memory);
}

gsize
promise_get_alignment (World *world)
{
  cl_uint bits = 0;

  OK (clGetDeviceInfo (world->device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof bits, &bits, NULL));
  return MAX (bits / 8, 1);
}

cl_event
promise_gate (World *world)
{
  cl_int status = 1;
  cl_event gate = clCreateUserEvent (world->context, &status);

  promise_check (status, "clCreateUserEvent");
  return gate;
}

void
promise_open (cl_event gate)
{
  OK (clSetUserEventStatus (gate, CL_COMPLETE));
  OK (clReleaseEvent (gate));
}

/* Patterns */

guchar
promise_byte (guint seed, gsize i)
{
  guint32 x = seed * 2654435761u ^ (guint32) i * 2246822519u;

  return (guchar) ((x ^ x >> 15) >> 3);
}

guchar *
promise_pattern (guint seed, gsize size)
{
  guchar *bytes = g_malloc (size);

  for (gsize i = 0; i < size; i++)
    bytes[i] = promise_byte (seed, i);
  return bytes;
}

gsize
promise_count_wrong (const guchar *bytes, gsize size, guint seed, guint added)
{
  gsize n = 0;

  for (gsize i = 0; i < size; i++)
    n += bytes[i] != (guchar) (promise_byte (seed, i) + added);
  return n;
}

void
promise_write (cl_command_queue queue, cl_mem buffer, gsize offset, gsize size, guint seed)
{
  g_autofree guchar *bytes = promise_pattern (seed, size);

  OK (clEnqueueWriteBuffer (queue, buffer, CL_TRUE, offset, size, bytes, 0, NULL, NULL));
}

gsize
promise_read_wrong (cl_command_queue queue, cl_mem buffer, gsize offset, gsize size, guint seed,
                    guint added)
{
  g_autofree guchar *bytes = g_malloc0 (size);

  OK (clEnqueueReadBuffer (queue, buffer, CL_TRUE, offset, size, bytes, 0, NULL, NULL));
  return promise_count_wrong (bytes, size, seed, added);
}

/* Kernels */

void
promise_set (cl_kernel kernel, cl_mem buffer, gsize size, guint number)
{
  cl_ulong n = size;
  cl_uint value = number;

  OK (clSetKernelArg (kernel, 0, sizeof buffer, &buffer));
  OK (clSetKernelArg (kernel, 1, sizeof n, &n));
  OK (clSetKernelArg (kernel, 2, sizeof value, &value));
}

void
promise_launch (cl_command_queue queue, cl_kernel kernel, cl_uint n_waits, const cl_event *waits,
                cl_event *event)
{
  const size_t global = GLOBAL_SIZE, local = LOCAL_SIZE;

  OK (clEnqueueNDRangeKernel (queue, kernel, 1, NULL, &global, &local, n_waits, waits, event));
}

void
promise_run (cl_command_queue queue, cl_kernel kernel, cl_mem buffer, gsize size, guint number)
{
  promise_set (kernel, buffer, size, number);
  promise_launch (queue, kernel, 0, NULL, NULL);
}

/* The program */

cl_device_id *
promise_get_devices (cl_platform_id platform, cl_uint *n)
{
  cl_device_id *devices;

  *n = 0;
  if (clGetDeviceIDs (platform, CL_DEVICE_TYPE_ALL, 0, NULL, n) != CL_SUCCESS || *n == 0)
    return NULL;
  devices = g_new0 (cl_device_id, *n);
  OK (clGetDeviceIDs (platform, CL_DEVICE_TYPE_ALL, *n, devices, NULL));
  return devices;
}

static cl_platform_id *
get_platforms (cl_uint *n)
{
  cl_platform_id *platforms;

  *n = 0;
  if (clGetPlatformIDs (0, NULL, n) != CL_SUCCESS || *n == 0)
    return NULL;
  platforms = g_new0 (cl_platform_id, *n);
  OK (clGetPlatformIDs (*n, platforms, NULL));
  return platforms;
}

static void
list_platforms (void)
{
  cl_uint n, n_devices;
  g_autofree cl_platform_id *platforms = get_platforms (&n);

  for (cl_uint i = 0; i < n; i++)
    {
      g_autofree cl_device_id *devices = promise_get_devices (platforms[i], &n_devices);

      if (devices != NULL)
        printf ("%u\n", i);
    }
}

static void
open_world (World *world, const gchar *number)
{
  cl_uint n, n_devices;
  g_autofree cl_platform_id *platforms = get_platforms (&n);
  g_autofree cl_device_id *devices = NULL;
  guint64 i;

  if (!g_ascii_string_to_unsigned (number, 10, 0, G_MAXUINT, &i, NULL) || i >= n)
    g_error ("there is no platform %s", number);
  world->platform = platforms[i];
  devices = promise_get_devices (world->platform, &n_devices);
  if (devices == NULL)
    g_error ("platform %s has no device", number);
  world->device = devices[0];
  world->context = promise_context (world);
  world->queue = promise_queue (world, 0);
}

static void
close_world (World *world)
{
  OK (clFinish (world->queue));
  if (world->program != NULL)
    OK (clReleaseProgram (world->program));
  OK (clReleaseCommandQueue (world->queue));
  OK (clReleaseContext (world->context));
}

static void
list_promises (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (tables); i++)
    for (const Promise *promise = tables[i]; promise->name != NULL; promise++)
      printf ("%s\n", promise->name);
}

static const Promise *
find_promise (const gchar *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (tables); i++)
    for (const Promise *promise = tables[i]; promise->name != NULL; promise++)
      if (g_str_equal (promise->name, name))
        return promise;
  return NULL;
}

/* Ends in the child; in the parent when the child ended by itself, with what it says. */
static void
run_in_child (void)
{
  int status = 0;
  pid_t child = fork ();

  if (child == 0)
    return;
  if (child < 0 || waitpid (child, &status, 0) != child)
    g_error ("no child");
  if (WIFEXITED (status)
      && (WEXITSTATUS (status) == 0 || WEXITSTATUS (status) == 77 || WEXITSTATUS (status) == 78))
    exit (WEXITSTATUS (status));
  printf ("the driver dies\n"); /* which a sanitizer makes an exit status */
  exit (77);
}

static int
run (const Promise *promise, const gchar *platform)
{
  World world = { .device = NULL };

  setvbuf (stdout, NULL, _IOLBF, 0); /* what was seen before the end of a driver is printed */
  if (promise->in_child)
    run_in_child ();
  open_world (&world, platform);
  promise->run (&world);
  close_world (&world);
  return world.is_broken ? 78 : 0;
}

int
main (int argc, char **argv)
{
  const Promise *promise
      = argc == 4 && g_str_equal (argv[1], "--platform") ? find_promise (argv[3]) : NULL;

  if (promise != NULL)
    return run (promise, argv[2]);
  if (argc == 2 && g_str_equal (argv[1], "--list"))
    list_promises ();
  else if (argc == 2 && g_str_equal (argv[1], "--platforms"))
    list_platforms ();
  else
    {
      fprintf (stderr, "usage: promises --list | --platforms | --platform NUMBER NAME\n");
      return 2;
    }
  return 0;
}
