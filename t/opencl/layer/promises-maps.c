/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Buffers in the host's address space. */

#include <stdlib.h>

#include "promises.h"

#define SIZE 5000

static guchar *
map_buffer (World *world, cl_mem buffer, cl_bool blocking, cl_map_flags flags, gsize offset,
            gsize size, const cl_event *gate, cl_event *event)
{
  cl_int status = 99;
  gpointer map = clEnqueueMapBuffer (world->queue, buffer, blocking, flags, offset, size,
                                     gate != NULL, gate, event, &status);

  promise_check (status, "clEnqueueMapBuffer");
  return map;
}

static void
unmap (World *world, cl_mem buffer, gpointer map)
{
  OK (clEnqueueUnmapMemObject (world->queue, buffer, map, 0, NULL, NULL));
}

static cl_uint
get_maps (cl_mem buffer)
{
  cl_uint n = 99;

  OK (clGetMemObjectInfo (buffer, CL_MEM_MAP_COUNT, sizeof n, &n, NULL));
  return n;
}

/* Bytes of a pattern, seen through a map that begins at @offset of it. */
static gsize
count_wrong (const guchar *map, gsize offset, gsize size, guint seed)
{
  gsize n = 0;

  for (gsize i = 0; i < size; i++)
    n += map[i] != promise_byte (seed, offset + i);
  return n;
}

static void
put (guchar *map, gsize offset, gsize size, guint seed)
{
  for (gsize i = 0; i < size; i++)
    map[i] = promise_byte (seed, offset + i);
}

/* Reads, writes and writes anew, blocking and not, with offset and without. */
static void
maps (World *world)
{
  static const cl_map_flags flags[]
      = { CL_MAP_READ, CL_MAP_WRITE, CL_MAP_READ | CL_MAP_WRITE, CL_MAP_WRITE_INVALIDATE_REGION };
  static const gsize places[][2]
      = { { 0, SIZE }, { 0, 1 }, { 1, 1 }, { 127, 1000 }, { 128, 128 }, { SIZE - 1, 1 } };

  for (guint i = 0; i < G_N_ELEMENTS (flags) * G_N_ELEMENTS (places) * 2; i++)
    {
      cl_map_flags how = flags[i / 2 % G_N_ELEMENTS (flags)];
      gsize offset = places[i / 2 / G_N_ELEMENTS (flags)][0];
      gsize size = places[i / 2 / G_N_ELEMENTS (flags)][1];
      cl_mem before = promise_filled (world, SIZE, 1), buffer = promise_filled (world, SIZE, 2);
      cl_mem after = promise_filled (world, SIZE, 3);
      cl_event event = NULL;
      guchar *map = map_buffer (world, buffer, i % 2, how, offset, size, NULL, &event);

      OK (clWaitForEvents (1, &event));
      OK (clReleaseEvent (event));
      printf ("%u, %u: %u maps", i, (guint) how, get_maps (buffer));
      promise_expect (world, get_maps (buffer) == 1);
      if (how & CL_MAP_READ)
        printf (", %zu wrong", count_wrong (map, offset, size, 2));
      if (how != CL_MAP_READ)
        put (map, offset, size, 4);
      unmap (world, buffer, map);
      OK (clFinish (world->queue));
      if (how != CL_MAP_READ)
        {
          g_autofree guchar *read = g_malloc0 (SIZE);

          OK (clEnqueueReadBuffer (world->queue, buffer, CL_TRUE, 0, SIZE, read, 0, NULL, NULL));
          printf (", %zu wrong, beside %zu, %zu", count_wrong (read + offset, offset, size, 4),
                  count_wrong (read, 0, offset, 2),
                  count_wrong (read + offset + size, offset + size, SIZE - offset - size, 2));
        }
      printf (", %u maps, neighbours %zu, %zu\n", get_maps (buffer),
              promise_read_wrong (world->queue, before, 0, SIZE, 1, 0),
              promise_read_wrong (world->queue, after, 0, SIZE, 3, 0));
      OK (clReleaseMemObject (before));
      OK (clReleaseMemObject (buffer));
      OK (clReleaseMemObject (after));
    }
}

/* Several maps of one buffer at once, and of another; the count is each one's own. */
static void
maps_many (World *world)
{
  cl_mem buffer = promise_filled (world, SIZE, 2), other = promise_filled (world, SIZE, 3);
  guchar *map[20], *of_other;

  for (guint i = 0; i < G_N_ELEMENTS (map); i++)
    {
      map[i] = map_buffer (world, buffer, CL_TRUE, CL_MAP_READ, i * 37, SIZE - i * 50, NULL, NULL);
      printf ("%u maps, %u of the other\n", get_maps (buffer), get_maps (other));
      promise_expect (world, get_maps (buffer) == i + 1);
    }
  of_other = map_buffer (world, other, CL_TRUE, CL_MAP_WRITE, 0, SIZE, NULL, NULL);
  put (of_other, 0, SIZE, 8);
  for (guint i = 0; i < G_N_ELEMENTS (map); i++)
    {
      guint k = i * 7 % G_N_ELEMENTS (map);

      printf ("%zu wrong, ", count_wrong (map[k], k * 37, SIZE - k * 50, 2));
      unmap (world, buffer, map[k]);
      OK (clFinish (world->queue));
      printf ("%u maps, %u of the other\n", get_maps (buffer), get_maps (other));
    }
  unmap (world, other, of_other);
  printf ("other: %zu wrong\n", promise_read_wrong (world->queue, other, 0, SIZE, 8, 0));
  OK (clReleaseMemObject (buffer));
  OK (clReleaseMemObject (other));
}

/* A buffer and its part are mapped at once. PoCL 3.1 counts the part's maps as the buffer's. */
static void
maps_parts (World *world)
{
  gsize alignment = promise_get_alignment (world), part_size = SIZE - alignment;
  cl_mem buffer = promise_filled (world, SIZE, 2);
  cl_mem part = promise_part (buffer, 0, alignment, part_size);
  guchar *map = map_buffer (world, buffer, CL_TRUE, CL_MAP_READ, 0, SIZE, NULL, NULL), *of_part[5];

  printf ("%u maps, %u of the part\n", get_maps (buffer), get_maps (part));
  for (guint i = 0; i < G_N_ELEMENTS (of_part); i++)
    {
      of_part[i] = map_buffer (world, part, CL_TRUE, CL_MAP_READ, i, part_size - i, NULL, NULL);
      promise_expect (world, get_maps (buffer) == 1 && get_maps (part) == i + 1);
      printf ("%zu wrong\n", count_wrong (of_part[i], alignment + i, part_size - i, 2));
    }
  unmap (world, buffer, map);
  for (guint i = 0; i < G_N_ELEMENTS (of_part); i++)
    {
      unmap (world, part, of_part[i]);
      OK (clFinish (world->queue));
      promise_expect (world,
                      get_maps (buffer) == 0 && get_maps (part) == G_N_ELEMENTS (of_part) - i - 1);
    }
  OK (clReleaseMemObject (part));
  map = map_buffer (world, buffer, CL_TRUE, CL_MAP_READ, 0, SIZE, NULL, NULL);
  printf ("%zu wrong\n", count_wrong (map, 0, SIZE, 2));
  unmap (world, buffer, map);
  OK (clReleaseMemObject (buffer));
}

/* Reads the buffer that is mapped behind a gate, and released before the map is there. */
static void
maps_released (World *world)
{
  for (guint i = 0; i < 20; i++)
    {
      gsize size = 1 + 777 * i;
      cl_event gate = promise_gate (world), second = promise_gate (world), mapped = NULL;
      cl_mem buffer = promise_filled (world, size, i), kept = promise_filled (world, size, 99);
      guchar *map = map_buffer (world, buffer, CL_FALSE, CL_MAP_READ | CL_MAP_WRITE, 0, size, &gate,
                                &mapped);

      OK (clEnqueueUnmapMemObject (world->queue, buffer, map, 1, &second, NULL));
      OK (clEnqueueCopyBuffer (world->queue, buffer, kept, 0, 0, size, 0, NULL, NULL));
      OK (clReleaseMemObject (buffer));
      OK (clFlush (world->queue));
      buffer = promise_buffer (world, 0, size, NULL);
      promise_open (gate);
      OK (clWaitForEvents (1, &mapped));
      OK (clReleaseEvent (mapped));
      printf ("%zu wrong", count_wrong (map, 0, size, i));
      put (map, 0, size, 50 + i);
      promise_open (second);
      OK (clFinish (world->queue));
      printf (", %zu wrong\n", promise_read_wrong (world->queue, kept, 0, size, 50 + i, 0));
      OK (clReleaseMemObject (buffer));
      OK (clReleaseMemObject (kept));
    }
}

/* What a kernel does to a buffer between maps is seen in them, whatever its memory. */
static void
maps_kernels (World *world)
{
  static const cl_mem_flags flags[] = { 0, CL_MEM_ALLOC_HOST_PTR, CL_MEM_USE_HOST_PTR };
  cl_kernel add = promise_kernel (world, "add");

  for (guint i = 0; i < G_N_ELEMENTS (flags); i++)
    {
      gpointer host = NULL;
      cl_mem buffer;
      gsize wrong = 0;

      if (flags[i] & CL_MEM_USE_HOST_PTR && posix_memalign (&host, 4096, SIZE) != 0)
        g_error ("no memory");
      buffer = promise_buffer (world, flags[i], SIZE, host);
      promise_write (world->queue, buffer, 0, SIZE, i);
      for (guint k = 0; k < 100; k++)
        {
          gsize offset = k * 13 % 1000;
          guchar *map = map_buffer (world, buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, offset,
                                    SIZE - offset, NULL, NULL);

          for (gsize j = 0; j < SIZE - offset; j++)
            {
              wrong += map[j] != (guchar) (promise_byte (i, offset + j) + k);
              map[j] -= 2;
            }
          if (host != NULL && map != (guchar *) host + offset)
            printf ("not the host's\n");
          unmap (world, buffer, map);
          promise_run (world->queue, add, buffer, SIZE, 2);
          promise_run (world->queue, add, buffer, SIZE, 1);
          if (offset > 0)
            promise_run (world->queue, add, buffer, offset, (guint) -2);
        }
      printf ("%u: %zu wrong\n", i, wrong);
      OK (clReleaseMemObject (buffer));
      OK (clFinish (world->queue));
      free (host);
    }
  OK (clReleaseKernel (add));
}

static void
show_map (World *world, cl_mem buffer, cl_map_flags flags, gsize offset, gsize size)
{
  cl_int status = 99;
  gpointer map = clEnqueueMapBuffer (world->queue, buffer, CL_TRUE, flags, offset, size, 0, NULL,
                                     NULL, &status);

  printf ("%u, %zu + %zu: %s %s, %u maps\n", (guint) flags, offset, size,
          map == NULL ? "NULL" : "a pointer", promise_status (status), get_maps (buffer));
  if (map != NULL)
    unmap (world, buffer, map);
  OK (clFinish (world->queue));
}

static void
show_unmap (World *world, cl_mem buffer, gpointer map, const gchar *what)
{
  printf ("%s: %s", what,
          promise_status (clEnqueueUnmapMemObject (world->queue, buffer, map, 0, NULL, NULL)));
  OK (clFinish (world->queue));
  printf (", %u maps\n", get_maps (buffer));
}

/* Maps that are refused, and unmaps of what is not a map of this buffer. */
static void
maps_errors (World *world)
{
  cl_mem buffer = promise_filled (world, SIZE, 2), other = promise_filled (world, SIZE, 3);
  guchar host[16], *map, *of_other;

  show_map (world, buffer, CL_MAP_READ, 0, SIZE + 1);
  show_map (world, buffer, CL_MAP_WRITE, SIZE, 1);
  show_map (world, buffer, CL_MAP_READ, SIZE - 1, 2);
  show_map (world, buffer, CL_MAP_READ, 0, 0);
  show_map (world, buffer, CL_MAP_READ, SIZE, 0);
  show_map (world, buffer, CL_MAP_READ, G_MAXSIZE, 1);
  show_map (world, buffer, CL_MAP_READ, 1, G_MAXSIZE);
  show_map (world, buffer, CL_MAP_READ | CL_MAP_WRITE_INVALIDATE_REGION, 0, 1);
  show_map (world, buffer, CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION, 0, 1);
  show_map (world, buffer, 1 << 10, 0, 1);
  show_unmap (world, buffer, NULL, "NULL, never mapped");
  show_unmap (world, buffer, host, "never mapped");
  map = map_buffer (world, buffer, CL_TRUE, CL_MAP_WRITE, 0, SIZE, NULL, NULL);
  of_other = map_buffer (world, other, CL_TRUE, CL_MAP_WRITE, 0, SIZE, NULL, NULL);
  show_unmap (world, buffer, of_other, "the other's");
  show_unmap (world, other, map, "this in the other");
  show_unmap (world, buffer, host, "another pointer");
  show_unmap (world, buffer, NULL, "NULL");
  show_unmap (world, other, of_other, "the other's, rightly");
  show_unmap (world, other, of_other, "the other's, again");
  show_unmap (world, buffer, map, "this");
  show_unmap (world, buffer, map, "this, again");
  OK (clReleaseMemObject (buffer));
  OK (clReleaseMemObject (other));
}

const Promise promises_maps[] = { { "maps", maps, FALSE },
                                  { "maps-many", maps_many, FALSE },
                                  { "maps-parts", maps_parts, FALSE },
                                  { "maps-released", maps_released, FALSE },
                                  { "maps-kernels", maps_kernels, FALSE },
                                  { "maps-errors", maps_errors, FALSE },
                                  { NULL, NULL, FALSE } };
