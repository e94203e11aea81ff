/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Sub-buffers of a program's own. */

#include "promises.h"

#define N_PLACES 5

static const cl_mem_flags places[N_PLACES]
    = { 0, CL_MEM_ALLOC_HOST_PTR, CL_MEM_COPY_HOST_PTR,
        CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR, CL_MEM_USE_HOST_PTR };

/* NULL where it is refused. */
static cl_mem
try_part (cl_mem whole, cl_mem_flags flags, gsize offset, gsize size, cl_int *status)
{
  cl_buffer_region region = { offset, size };

  *status = 99;
  return clCreateSubBuffer (whole, flags, CL_BUFFER_CREATE_TYPE_REGION, &region, status);
}

static cl_mem_flags
get_flags (cl_mem memory)
{
  cl_mem_flags flags = 0;

  OK (clGetMemObjectInfo (memory, CL_MEM_FLAGS, sizeof flags, &flags, NULL));
  return flags;
}

static void
show_flags (cl_mem whole, cl_mem_flags flags)
{
  g_autofree gchar *name = promise_flags (flags);
  cl_int status;
  cl_mem part = try_part (whole, flags, 0, 100, &status);

  printf (" %s=", name);
  if (part == NULL)
    {
      printf ("%s", promise_status (status));
      return;
    }
  printf ("%#x", (guint) get_flags (part));
  OK (clReleaseMemObject (part));
}

/* Which flags a part may have, and which it gets. */
static void
part_flags (World *world)
{
  guchar host[1000];

  for (guint i = 0; i < ACCESS_FLAGS * HOST_FLAGS * N_PLACES; i++)
    {
      cl_mem_flags place = places[i / ACCESS_FLAGS / HOST_FLAGS];
      cl_mem_flags flags = promise_access[i % ACCESS_FLAGS] | place
                           | promise_host_access[i / ACCESS_FLAGS % HOST_FLAGS];
      gboolean takes_host = (place & (CL_MEM_COPY_HOST_PTR | CL_MEM_USE_HOST_PTR)) != 0;
      cl_mem whole = promise_buffer (world, flags, sizeof host, takes_host ? host : NULL);
      g_autofree gchar *name = promise_flags (flags);

      printf ("of %s:", name);
      for (guint access = 0; access < ACCESS_FLAGS; access++)
        for (guint k = 0; k < HOST_FLAGS; k++)
          show_flags (whole, promise_access[access] | promise_host_access[k]);
      for (guint k = 1; k < N_PLACES; k++)
        show_flags (whole, places[k]);
      show_flags (whole, CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY);
      show_flags (whole, CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY);
      show_flags (whole, (cl_mem_flags) 1 << 40);
      printf ("\n");
      OK (clReleaseMemObject (whole));
    }
}

#define SHOW(memory, query, type, format)                                                          \
  {                                                                                                \
    type value = 0;                                                                                \
    size_t size = 0;                                                                               \
                                                                                                   \
    OK (clGetMemObjectInfo (memory, CL_MEM_##query, sizeof value, &value, &size));                 \
    printf (" " #query "(%zu)=" format, size, value);                                              \
  }

/* @host is the whole's. */
static void
show_info (World *world, cl_mem part, cl_mem whole, const guchar *host, gsize offset)
{
  cl_mem associated = NULL;
  cl_context context = NULL;
  gpointer pointer = NULL;
  size_t properties = 99;

  SHOW (part, TYPE, cl_mem_object_type, "%#x");
  SHOW (part, SIZE, size_t, "%zu");
  SHOW (part, OFFSET, size_t, "%zu");
  SHOW (part, MAP_COUNT, cl_uint, "%u");
  SHOW (part, REFERENCE_COUNT, cl_uint, "%u");
  SHOW (part, USES_SVM_POINTER, cl_bool, "%u");
  OK (clGetMemObjectInfo (part, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof associated, &associated, NULL));
  OK (clGetMemObjectInfo (part, CL_MEM_CONTEXT, sizeof context, &context, NULL));
  OK (clGetMemObjectInfo (part, CL_MEM_HOST_PTR, sizeof pointer, &pointer, NULL));
  printf (" flags %#x%s%s", (guint) get_flags (part), associated == whole ? " of the whole" : "",
          context == world->context ? " in the context" : "");
  printf (" host %s", pointer == NULL                       ? "NULL"
                      : host == NULL                        ? "something"
                      : pointer == (gpointer) host          ? "the whole's"
                      : (guchar *) pointer == host + offset ? "the part's"
                                                            : "something else");
  if (clGetMemObjectInfo (part, CL_MEM_PROPERTIES, 0, NULL, &properties) == CL_SUCCESS)
    printf (" PROPERTIES(%zu)", properties);
  printf ("\n");
}

static void
part_info (World *world)
{
  gsize alignment = promise_get_alignment (world), size = 8 * alignment + 5;
  g_autofree guchar *host = g_malloc0 (size);

  for (guint i = 0; i < N_PLACES; i++)
    {
      gboolean takes_host = (places[i] & (CL_MEM_COPY_HOST_PTR | CL_MEM_USE_HOST_PTR)) != 0;
      cl_mem whole = promise_buffer (world, places[i], size, takes_host ? host : NULL);
      g_autofree gchar *name = promise_flags (places[i]);
      cl_mem parts[8];

      for (guint k = 0; k < G_N_ELEMENTS (parts); k++)
        {
          parts[k] = promise_part (whole, 0, k * alignment, size - k * alignment - k);
          printf ("%s, %u:", name, k);
          show_info (world, parts[k], whole, host, k * alignment);
          printf ("the whole's count is %u\n", promise_get_count (whole));
        }
      OK (clRetainMemObject (parts[0]));
      printf ("%u of %u\n", promise_get_count (parts[0]), promise_get_count (whole));
      OK (clReleaseMemObject (parts[0]));
      for (guint k = 0; k < G_N_ELEMENTS (parts); k++)
        {
          OK (clReleaseMemObject (parts[k]));
          printf ("%u gone: the whole's count is %u\n", k + 1, promise_get_count (whole));
        }
      OK (clReleaseMemObject (whole));
    }
}

/* A part that ends behind its whole is refused, for this or for what else is wrong with it. */
static void
show_part (World *world, cl_mem whole, gsize whole_size, gsize offset, gsize size)
{
  gboolean is_within = offset <= whole_size && size <= whole_size - offset;
  cl_int status;
  cl_mem part = try_part (whole, 0, offset, size, &status);

  if (is_within)
    printf ("%zu + %zu: %s %s\n", offset, size, promise_status (status),
            part == NULL ? "NULL" : "a part");
  else
    promise_expect (world, part == NULL && status != CL_SUCCESS);
  if (part != NULL)
    OK (clReleaseMemObject (part));
}

static void
show_odd_calls (World *world, cl_mem whole)
{
  cl_buffer_region region = { 0, 1 };
  cl_int status = 99;
  cl_mem part = promise_part (whole, 0, 0, 1);

  printf ("NULL region: %s\n",
          clCreateSubBuffer (whole, 0, CL_BUFFER_CREATE_TYPE_REGION, NULL, &status) == NULL
              ? promise_status (status)
              : "a part");
  printf ("odd type: %s\n", clCreateSubBuffer (whole, 0, 0, &region, &status) == NULL
                                ? promise_status (status)
                                : "a part");
  printf ("no buffer: %s\n",
          clCreateSubBuffer (NULL, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &status) == NULL
              ? promise_status (status)
              : "a part");
  printf ("of a part: %s\n",
          clCreateSubBuffer (part, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &status) == NULL
              ? promise_status (status)
              : "a part");
  region.size = 0;
  printf ("no status: %s\n",
          clCreateSubBuffer (whole, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, NULL) == NULL
              ? "NULL"
              : "a part");
  OK (clReleaseMemObject (part));
  (void) world;
}

static void
part_errors (World *world)
{
  gsize alignment = promise_get_alignment (world);
  const gsize sizes[] = { 1, alignment - 1, alignment, 3 * alignment, 3 * alignment + 1 };
  const gsize offsets[] = { 0,
                            1,
                            2,
                            4,
                            alignment / 2,
                            alignment - 1,
                            alignment,
                            alignment + 1,
                            2 * alignment,
                            3 * alignment,
                            4 * alignment,
                            G_MAXSIZE,
                            G_MAXSIZE - alignment + 1 };
  const gsize lengths[]
      = { 0, 1, alignment, 2 * alignment, 4 * alignment, G_MAXSIZE, G_MAXSIZE - alignment + 2 };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      cl_mem whole = promise_filled (world, sizes[i], i);

      printf ("of %zu bytes\n", sizes[i]);
      for (guint k = 0; k < G_N_ELEMENTS (offsets); k++)
        for (guint j = 0; j < G_N_ELEMENTS (lengths); j++)
          show_part (world, whole, sizes[i], offsets[k], lengths[j]);
      show_odd_calls (world, whole);
      printf ("%zu wrong, held by %u\n",
              promise_read_wrong (world->queue, whole, 0, sizes[i], i, 0),
              promise_wait_count (whole, 1));
      OK (clReleaseMemObject (whole));
    }
}

/* What is written through one is read through the other; what is released first does not matter. */
static void
part_contents (World *world)
{
  gsize alignment = promise_get_alignment (world);
  cl_kernel fill = promise_kernel (world, "fill"), add = promise_kernel (world, "add");

  for (guint i = 0; i < 30; i++)
    {
      gsize size = (2 + i) * alignment + i, offset = (1 + i / 2) * alignment, rest = size - offset;
      cl_mem whole = promise_filled (world, size, i);
      cl_mem part = promise_part (whole, 0, offset, rest);
      g_autofree guchar *got = g_malloc0 (size), *expected = promise_pattern (i, size);
      g_autofree guchar *inner = promise_pattern (100 + i, rest);

      promise_run (world->queue, fill, part, rest, 100 + i);
      promise_run (world->queue, add, whole, size, 1);
      promise_run (world->queue, add, part, rest, 1);
      memcpy (expected + offset, inner, rest);
      for (gsize k = 0; k < size; k++)
        expected[k] += k < offset ? 1 : 2;
      if (i % 2 == 0)
        OK (clReleaseMemObject (whole));
      printf ("part: %zu wrong,", promise_read_wrong (world->queue, part, 0, rest, 100 + i, 2));
      if (i % 2 == 0)
        OK (clGetMemObjectInfo (part, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof whole, &whole, NULL));
      OK (clEnqueueReadBuffer (world->queue, whole, CL_TRUE, 0, size, got, 0, NULL, NULL));
      printf (" whole: %s\n", memcmp (got, expected, size) == 0 ? "right" : "wrong");
      OK (clReleaseMemObject (part));
      if (i % 2 != 0)
        OK (clReleaseMemObject (whole));
    }
  OK (clReleaseKernel (fill));
  OK (clReleaseKernel (add));
}

/* Both are released behind a closed gate, while others of the same size come. */
static void
part_released (World *world)
{
  gsize alignment = promise_get_alignment (world), size = 16 * alignment;
  cl_kernel fill = promise_kernel (world, "fill"), add = promise_kernel (world, "add");
  cl_event gate = promise_gate (world);
  guchar *reads[16];
  cl_mem others[16];

  OK (clEnqueueBarrierWithWaitList (world->queue, 1, &gate, NULL));
  for (guint i = 0; i < G_N_ELEMENTS (reads); i++)
    {
      cl_mem whole = promise_buffer (world, 0, size, NULL);
      cl_mem part = promise_part (whole, 0, i * alignment, size - i * alignment);

      reads[i] = g_malloc0 (size);
      promise_run (world->queue, fill, part, size - i * alignment, i);
      OK (clReleaseMemObject (i % 2 == 0 ? whole : part));
      promise_run (world->queue, add, i % 2 == 0 ? part : whole, size - i * alignment, 0);
      if (i % 2 != 0)
        part = promise_part (whole, 0, i * alignment, size - i * alignment);
      OK (clEnqueueReadBuffer (world->queue, part, CL_FALSE, 0, size - i * alignment, reads[i], 0,
                               NULL, NULL));
      OK (clReleaseMemObject (part));
      if (i % 2 != 0)
        OK (clReleaseMemObject (whole));
      others[i] = promise_buffer (world, 0, size, NULL);
      promise_run (world->queue, fill, others[i], size, 50 + i);
    }
  promise_open (gate);
  OK (clFinish (world->queue));
  for (guint i = 0; i < G_N_ELEMENTS (reads); i++)
    {
      printf ("%zu and %zu wrong\n", promise_count_wrong (reads[i], size - i * alignment, i, 0),
              promise_read_wrong (world->queue, others[i], 0, size, 50 + i, 0));
      OK (clReleaseMemObject (others[i]));
      g_free (reads[i]);
    }
  OK (clReleaseKernel (fill));
  OK (clReleaseKernel (add));
}

/* Many side by side, each whole but for its neighbours; after the whole is released, too. */
static void
part_many (World *world)
{
  gsize alignment = promise_get_alignment (world);
  guint n = 500;
  cl_mem whole = promise_filled (world, n * alignment, 1);
  g_autofree cl_mem *parts = g_new (cl_mem, n);
  cl_kernel fill = promise_kernel (world, "fill");
  gsize wrong = 0;

  for (guint i = 0; i < n; i++)
    {
      parts[i] = promise_part (whole, 0, i * alignment, alignment - i % 3);
      promise_run (world->queue, fill, parts[i], alignment - i % 3, i);
    }
  printf ("the whole is held by %u\n", promise_wait_count (whole, 1 + n));
  OK (clReleaseMemObject (whole));
  for (guint i = 0; i < n; i += 2)
    {
      wrong += promise_read_wrong (world->queue, parts[i], 0, alignment - i % 3, i, 0);
      OK (clReleaseMemObject (parts[i]));
    }
  for (guint i = 1; i < n; i += 2)
    {
      wrong += promise_read_wrong (world->queue, parts[i], 0, alignment - i % 3, i, 0);
      OK (clGetMemObjectInfo (parts[i], CL_MEM_ASSOCIATED_MEMOBJECT, sizeof whole, &whole, NULL));
      if (i + 2 >= n)
        printf ("the whole is held by %u\n", promise_wait_count (whole, 1));
      OK (clReleaseMemObject (parts[i]));
    }
  printf ("%zu wrong\n", wrong);
  OK (clReleaseKernel (fill));
}

const Promise promises_parts[] = { { "part-flags", part_flags, FALSE },
                                   { "part-info", part_info, FALSE },
                                   { "part-errors", part_errors, FALSE },
                                   { "part-contents", part_contents, FALSE },
                                   { "part-released", part_released, FALSE },
                                   { "part-many", part_many, FALSE },
                                   { NULL, NULL, FALSE } };
