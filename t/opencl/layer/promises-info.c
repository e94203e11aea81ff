/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What clGetMemObjectInfo () says, and which buffers there are not. */

#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#include "promises.h"

#define N_PLACES 5

static const struct
{
  cl_mem_info query;
  const gchar *name;
} queries[] = { { CL_MEM_TYPE, "TYPE" },
                { CL_MEM_FLAGS, "FLAGS" },
                { CL_MEM_SIZE, "SIZE" },
                { CL_MEM_HOST_PTR, "HOST_PTR" },
                { CL_MEM_MAP_COUNT, "MAP_COUNT" },
                { CL_MEM_REFERENCE_COUNT, "REFERENCE_COUNT" },
                { CL_MEM_CONTEXT, "CONTEXT" },
                { CL_MEM_ASSOCIATED_MEMOBJECT, "ASSOCIATED_MEMOBJECT" },
                { CL_MEM_OFFSET, "OFFSET" },
                { CL_MEM_USES_SVM_POINTER, "USES_SVM_POINTER" },
                { CL_MEM_PROPERTIES, "PROPERTIES" },
                { CL_MEM_TYPE - 1, "TYPE - 1" },
                { CL_MEM_PROPERTIES + 1, "PROPERTIES + 1" },
                { 0, "0" } };

static const cl_mem_flags places[N_PLACES]
    = { 0, CL_MEM_ALLOC_HOST_PTR, CL_MEM_COPY_HOST_PTR,
        CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR, CL_MEM_USE_HOST_PTR };

/* Prints one query's status, size, and each 64 bits of its value: pointers as what they are. */
static void
print_value (World *world, cl_mem buffer, guint i, gconstpointer host)
{
  guint64 value[8] = { 0 };
  size_t size = 99;
  cl_int status = clGetMemObjectInfo (buffer, queries[i].query, sizeof value, value, &size);

  printf (" %s", queries[i].name);
  if (status != CL_SUCCESS)
    {
      printf ("=%s", promise_status (status));
      return;
    }
  printf ("(%zu)=", size);
  if (size > 0 && size <= 8 && value[0] != 0 && GSIZE_TO_POINTER (value[0]) == host)
    printf ("the host's");
  else if (size == 8 && GSIZE_TO_POINTER (value[0]) == world->context)
    printf ("the context");
  else if ((queries[i].query == CL_MEM_HOST_PTR || queries[i].query == CL_MEM_ASSOCIATED_MEMOBJECT)
           && value[0] != 0)
    printf ("something");
  else
    for (gsize k = 0; k < size; k += 8)
      printf ("%s%#" G_GINT64_MODIFIER "x", k == 0 ? "" : ",", value[k / 8]);
}

static void
print_all (World *world, cl_mem buffer, gconstpointer host)
{
  for (guint i = 0; i < 11; i++)
    print_value (world, buffer, i, host);
  printf ("\n");
}

static gboolean
takes_host (cl_mem_flags flags)
{
  return (flags & (CL_MEM_COPY_HOST_PTR | CL_MEM_USE_HOST_PTR)) != 0;
}

static void
show_sizes (World *world, cl_mem_flags flags)
{
  static const gsize sizes[]
      = { 1, 2, 3, 127, 128, 129, 511, 512, 513, 4095, 4096, 4097, 65537, MIB - 1, MIB, MIB + 7 };
  g_autofree gchar *name = promise_flags (flags);

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      g_autofree guchar *host = takes_host (flags) ? promise_pattern (i, sizes[i]) : NULL;
      cl_mem buffer = promise_buffer (world, flags, sizes[i], host);

      printf ("%s %zu:", name, sizes[i]);
      print_all (world, buffer, host);
      OK (clReleaseMemObject (buffer));
      OK (clFinish (world->queue));
    }
}

static void
info (World *world)
{
  for (guint access = 0; access < ACCESS_FLAGS; access++)
    for (guint host = 0; host < HOST_FLAGS; host++)
      for (guint place = 0; place < N_PLACES; place++)
        show_sizes (world, promise_access[access] | promise_host_access[host] | places[place]);
}

/* What was used before, and by whom, does not show in what comes after. */
static void
info_again (World *world)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (7);

  for (guint round = 0; round < 300; round++)
    {
      cl_mem_flags flags = promise_access[g_rand_int_range (rand, 0, ACCESS_FLAGS)]
                           | promise_host_access[g_rand_int_range (rand, 0, HOST_FLAGS)]
                           | places[g_rand_int_range (rand, 0, N_PLACES)];
      gsize size = 1 + g_rand_int_range (rand, 0, 5000);
      g_autofree guchar *host = takes_host (flags) ? promise_pattern (round, size) : NULL;
      cl_mem buffer = promise_buffer (world, flags, size, host);
      g_autofree gchar *name = promise_flags (flags);

      printf ("%s %zu:", name, size);
      print_all (world, buffer, host);
      OK (clReleaseMemObject (buffer));
    }
}

/* One query with a value of @size bytes: what is written, and that nothing is beyond it. */
static void
show_query (cl_mem buffer, guint i, gsize size, gboolean with_value, gboolean with_size)
{
  guchar value[64];
  size_t size_ret = 99;
  cl_int status;
  gsize written = 0;

  memset (value, 0xa5, sizeof value);
  status = clGetMemObjectInfo (buffer, queries[i].query, size, with_value ? value : NULL,
                               with_size ? &size_ret : NULL);
  for (gsize k = 0; k < sizeof value; k++)
    written = value[k] != 0xa5 ? k + 1 : written;
  printf (" [%zu%s] %s", size, with_value ? "" : ", NULL", promise_status (status));
  if (status == CL_SUCCESS && with_size)
    printf (" says %zu", size_ret);
  /* Of addresses any byte may be 0xa5. */
  printf (written > 8 ? " wrote beyond" : status != CL_SUCCESS && written > 0 ? " wrote" : "");
}

static void
info_queries (World *world)
{
  static const gsize sizes[] = { 0, 1, 3, 4, 5, 7, 8, 9, 16, 64 };
  cl_mem buffer = promise_buffer (world, CL_MEM_READ_WRITE, 513, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (queries); i++)
    {
      printf ("%s:", queries[i].name);
      for (guint k = 0; k < G_N_ELEMENTS (sizes); k++)
        {
          show_query (buffer, i, sizes[k], TRUE, TRUE);
          show_query (buffer, i, sizes[k], TRUE, FALSE);
        }
      show_query (buffer, i, 0, FALSE, TRUE);
      show_query (buffer, i, 8, FALSE, TRUE);
      show_query (buffer, i, 0, FALSE, FALSE);
      printf ("\n");
    }
  OK (clReleaseMemObject (buffer));
}

/* What a buffer's host pointer gives to it is there, whatever its flags; of write-only ones, too.
 */
static void
host_contents (World *world)
{
  static const gsize sizes[] = { 1, 3, 511, 513, 4097, MIB + 7 };

  for (guint place = 2; place < N_PLACES; place++)
    for (guint i = 0; i < 2 * G_N_ELEMENTS (sizes); i++)
      {
        gsize size = sizes[i / 2];
        g_autofree guchar *host = promise_pattern (i, size);
        cl_mem_flags flags = places[place] | (i % 2 == 0 ? 0 : CL_MEM_WRITE_ONLY);
        g_autofree gchar *name = promise_flags (flags);
        cl_mem buffer = promise_buffer (world, flags, size, host);

        if (flags & CL_MEM_COPY_HOST_PTR)
          memset (host, 0, size);
        printf ("%s %zu: %zu wrong\n", name, size,
                promise_read_wrong (world->queue, buffer, 0, size, i, 0));
        OK (clReleaseMemObject (buffer));
      }
}

/* Buffers that are refused */

static void
show_buffer (cl_context context, cl_mem_flags flags, gsize size, gpointer host, const gchar *what)
{
  g_autofree gchar *name = promise_flags (flags);
  cl_int status = 99;
  cl_mem buffer = clCreateBuffer (context, flags, size, host, &status);
  cl_mem silent = clCreateBuffer (context, flags, size, host, NULL);

  printf ("%s, %s: %s, %s, %s\n", what, name, promise_status (status),
          buffer == NULL ? "NULL" : "a buffer", silent == NULL ? "NULL" : "a buffer");
  if (buffer != NULL)
    OK (clReleaseMemObject (buffer));
  if (silent != NULL)
    OK (clReleaseMemObject (silent));
}

static void
show_flags (World *world)
{
  static const cl_mem_flags bits[]
      = { CL_MEM_READ_WRITE,      CL_MEM_WRITE_ONLY,     CL_MEM_READ_ONLY,
          CL_MEM_USE_HOST_PTR,    CL_MEM_ALLOC_HOST_PTR, CL_MEM_COPY_HOST_PTR,
          CL_MEM_HOST_WRITE_ONLY, CL_MEM_HOST_READ_ONLY, CL_MEM_HOST_NO_ACCESS };
  guchar host[100] = { 0 };

  for (guint set = 0; set < 1u << G_N_ELEMENTS (bits); set++)
    {
      cl_mem_flags flags = 0;

      for (guint i = 0; i < G_N_ELEMENTS (bits); i++)
        flags |= set >> i & 1 ? bits[i] : 0;
      show_buffer (world->context, flags, sizeof host, NULL, "no host pointer");
      show_buffer (world->context, flags, sizeof host, host, "a host pointer");
    }
}

static void
errors (World *world)
{
  static const cl_mem_flags odd[] = {
    (cl_mem_flags) 1 << 40, (cl_mem_flags) 1 << 63,       1 << 6,     CL_MEM_SVM_FINE_GRAIN_BUFFER,
    CL_MEM_SVM_ATOMICS,     CL_MEM_KERNEL_READ_AND_WRITE, G_MAXUINT64
  };
  cl_ulong max = 0;
  guchar host[16] = { 0 };

  OK (clGetDeviceInfo (world->device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof max, &max, NULL));
  for (guint i = 0; i < ACCESS_FLAGS; i++)
    {
      show_buffer (world->context, promise_access[i], 0, NULL, "0 bytes");
      show_buffer (world->context, promise_access[i], max + 1, NULL, "one byte too many");
      show_buffer (world->context, promise_access[i], G_MAXSIZE, NULL, "all bytes");
      show_buffer (world->context, promise_access[i], G_MAXSIZE - 127, NULL, "all but 127 bytes");
      show_buffer (NULL, promise_access[i], 16, NULL, "no context");
    }
  show_buffer (world->context, CL_MEM_COPY_HOST_PTR, 0, host, "0 bytes, a host pointer");
  show_buffer (NULL, CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, 0, host, "all wrong");
  for (guint i = 0; i < G_N_ELEMENTS (odd); i++)
    show_buffer (world->context, odd[i], 16, NULL, "odd flags");
  show_flags (world);
}

static void
show_properties (World *world, const cl_mem_properties *properties, cl_mem_flags flags, gsize size,
                 const gchar *what)
{
  cl_int status = 99;
  cl_mem buffer
      = clCreateBufferWithProperties (world->context, properties, flags, size, NULL, &status);

  printf ("%s, flags %u, %zu bytes: %s %s", what, (guint) flags, size, promise_status (status),
          buffer == NULL ? "NULL" : "a buffer");
  if (buffer == NULL)
    printf ("\n");
  else
    {
      print_all (world, buffer, NULL);
      promise_write (world->queue, buffer, 0, size, 5);
      printf ("%zu wrong\n", promise_read_wrong (world->queue, buffer, 0, size, 5, 0));
      OK (clReleaseMemObject (buffer));
    }
}

static void
properties (World *world)
{
  static const cl_mem_properties none[] = { 0 }, unknown[] = { 0x7fff, 1, 0 },
                                 later[] = { 0x7ffe, 0, 0x7fff, 1, 0 };
  cl_int status = 99;

  if (promise_get_version (world->device) < 30)
    promise_skip ("clCreateBufferWithProperties is of OpenCL 3.0");
  for (gsize size = 0; size < 1000; size += 333)
    {
      show_properties (world, NULL, CL_MEM_READ_WRITE, size, "NULL");
      show_properties (world, none, CL_MEM_READ_WRITE, size, "{0}");
      show_properties (world, none, CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, size, "{0}");
      show_properties (world, unknown, CL_MEM_READ_WRITE, size, "unknown");
      show_properties (world, later, CL_MEM_READ_WRITE, size, "two unknown");
    }
  printf ("no context: %s\n",
          clCreateBufferWithProperties (NULL, none, 0, 16, NULL, &status) == NULL
              ? promise_status (status)
              : "a buffer");
}

/* A kernel sees a buffer's address, which is as aligned as a sub-buffer's offset has to be. */
static void
alignment (World *world)
{
  cl_kernel kernel = promise_kernel (world, "address");
  cl_ulong modulus = promise_get_alignment (world), rest = 99;
  cl_mem answer = promise_buffer (world, 0, sizeof rest, NULL);

  OK (clSetKernelArg (kernel, 1, sizeof modulus, &modulus));
  OK (clSetKernelArg (kernel, 2, sizeof answer, &answer));
  for (gsize size = 1; size < 2 * MIB; size = 3 * size + 1)
    {
      cl_mem buffers[3];

      for (guint i = 0; i < 3; i++)
        buffers[i] = promise_buffer (world, 0, size, NULL);
      for (guint i = 0; i < 3; i++)
        {
          OK (clSetKernelArg (kernel, 0, sizeof buffers[i], &buffers[i]));
          promise_launch (world->queue, kernel, 0, NULL, NULL);
          OK (clEnqueueReadBuffer (world->queue, answer, CL_TRUE, 0, sizeof rest, &rest, 0, NULL,
                                   NULL));
          printf ("%zu bytes: %u\n", size, (guint) rest);
          promise_expect (world, rest == 0);
          OK (clReleaseMemObject (buffers[i]));
        }
    }
  OK (clReleaseMemObject (answer));
  OK (clReleaseKernel (kernel));
}

/* A driver that knows a function of this name may use buffers in it: see BELOW_KNOWS in below.c. */
static void
old_functions (World *world)
{
  cl_mem buffer;

  clGetExtensionFunctionAddress ("clEnqueueSomethingPOCL");
  buffer = promise_filled (world, 100, 4);
  printf ("%zu wrong\n", promise_read_wrong (world->queue, buffer, 0, 100, 4, 0));
  OK (clReleaseMemObject (buffer));
}

const Promise promises_info[] = { { "info", info, FALSE },
                                  { "info-again", info_again, FALSE },
                                  { "info-queries", info_queries, FALSE },
                                  { "host-contents", host_contents, FALSE },
                                  { "errors", errors, FALSE },
                                  { "properties", properties, FALSE },
                                  { "alignment", alignment, FALSE },
                                  { "old-functions", old_functions, FALSE },
                                  { NULL, NULL, FALSE } };
