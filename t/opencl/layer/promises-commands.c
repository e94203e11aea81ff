/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Commands that take buffers: boxes, patterns, and what is refused. */

#include "promises.h"

#define BOX_BYTES 4096

/* A box of bytes in a buffer or in the host's memory. */
typedef struct
{
  size_t origin[3], row, slice;
} Place;

static void
random_place (GRand *rand, const size_t *region, Place *place)
{
  place->row = region[0] + g_rand_int_range (rand, 0, 4);
  place->slice = place->row * (region[1] + g_rand_int_range (rand, 0, 3));
  place->origin[0] = g_rand_int_range (rand, 0, 1 + place->row - region[0]);
  place->origin[1] = g_rand_int_range (rand, 0, 1 + place->slice / place->row - region[1]);
  place->origin[2] = g_rand_int_range (rand, 0, 3);
}

static gsize
place_offset (const Place *place, gsize x, gsize y, gsize z)
{
  return (place->origin[2] + z) * place->slice + (place->origin[1] + y) * place->row
         + place->origin[0] + x;
}

static void
copy_box (const guchar *from, const Place *from_place, guchar *to, const Place *to_place,
          const size_t *region)
{
  for (gsize z = 0; z < region[2]; z++)
    for (gsize y = 0; y < region[1]; y++)
      for (gsize x = 0; x < region[0]; x++)
        to[place_offset (to_place, x, y, z)] = from[place_offset (from_place, x, y, z)];
}

/* One command on boxes, and the same on the host's models. */
static void
move_box (World *world, GRand *rand, cl_mem *buffers, guchar (*models)[BOX_BYTES], guchar *host,
          guint n_kinds)
{
  cl_command_queue queue = world->queue;
  const size_t region[3] = { g_rand_int_range (rand, 1, 16), g_rand_int_range (rand, 1, 9),
                             g_rand_int_range (rand, 1, 6) };
  guint kind = g_rand_int_range (rand, 0, n_kinds), i = g_rand_int_range (rand, 0, 4);
  guint to = (i + g_rand_int_range (rand, 1, 4)) % 4;
  Place a, b;

  random_place (rand, region, &a);
  random_place (rand, region, &b);
  if (kind == 0)
    {
      OK (clEnqueueReadBufferRect (queue, buffers[i], CL_TRUE, a.origin, b.origin, region, a.row,
                                   a.slice, b.row, b.slice, host, 0, NULL, NULL));
      for (gsize z = 0; z < region[2]; z++)
        for (gsize y = 0; y < region[1]; y++)
          if (memcmp (&models[i][place_offset (&a, 0, y, z)], &host[place_offset (&b, 0, y, z)],
                      region[0])
              != 0)
            printf ("read %zu, %zu: wrong\n", y, z);
    }
  else if (kind == 1)
    {
      OK (clEnqueueWriteBufferRect (queue, buffers[i], CL_TRUE, a.origin, b.origin, region, a.row,
                                    a.slice, b.row, b.slice, host, 0, NULL, NULL));
      copy_box (host, &b, models[i], &a, region);
    }
  else
    {
      OK (clEnqueueCopyBufferRect (queue, buffers[i], buffers[to], a.origin, b.origin, region,
                                   a.row, a.slice, b.row, b.slice, 0, NULL, NULL));
      copy_box (models[i], &a, models[to], &b, region);
    }
}

/* The last @n_parts buffers are parts of one; the last of the kinds of commands are copies. */
static void
try_rects (World *world, guint n_parts, guint n_kinds)
{
  cl_mem whole = promise_filled (world, 4 * BOX_BYTES, 9), buffers[4];
  g_autoptr (GRand) rand = g_rand_new_with_seed (3);
  guchar models[4][BOX_BYTES], host[BOX_BYTES], read[BOX_BYTES];

  for (guint i = 0; i < 4; i++)
    {
      g_autofree guchar *bytes = promise_pattern (i, BOX_BYTES);

      buffers[i] = i + n_parts < 4 ? promise_buffer (world, 0, BOX_BYTES, NULL)
                                   : promise_part (whole, 0, i * BOX_BYTES, BOX_BYTES);
      promise_write (world->queue, buffers[i], 0, BOX_BYTES, i);
      memcpy (models[i], bytes, BOX_BYTES);
      memcpy (host, bytes, BOX_BYTES);
    }
  for (guint round = 0; round < 1000; round++)
    move_box (world, rand, buffers, models, host, n_kinds);
  for (guint i = 0; i < 4; i++)
    {
      OK (clEnqueueReadBuffer (world->queue, buffers[i], CL_TRUE, 0, BOX_BYTES, read, 0, NULL,
                               NULL));
      printf ("%s\n", memcmp (read, models[i], BOX_BYTES) == 0 ? "right" : "wrong");
      OK (clReleaseMemObject (buffers[i]));
    }
  OK (clReleaseMemObject (whole));
}

static void
rects (World *world)
{
  try_rects (world, 0, 3);
}

static void
rects_parts (World *world)
{
  try_rects (world, 3, 2);
}

/* PoCL 3.1 dies of it. */
static void
rects_parts_copies (World *world)
{
  try_rects (world, 3, 3);
}

/* Boxes that reach beyond the end, have odd pitches, or overlap. */
/* An empty box is refused, which some drivers do not do. */
static void
rect_empty (World *world)
{
  static const size_t zero[3] = { 0, 0, 0 };
  cl_mem buffer = promise_filled (world, 1000, 1), other = promise_filled (world, 1000, 1);
  guchar host[1000] = { 0 };

  for (guint i = 1; i < 8; i++)
    {
      const size_t region[3] = { i & 1 ? 0 : 10, i & 2 ? 0 : 10, i & 4 ? 0 : 10 };

#define REFUSED(call) promise_expect (world, (call) == CL_INVALID_VALUE)
      REFUSED (clEnqueueReadBufferRect (world->queue, buffer, CL_TRUE, zero, zero, region, 10, 100,
                                        10, 100, host, 0, NULL, NULL));
      REFUSED (clEnqueueWriteBufferRect (world->queue, buffer, CL_TRUE, zero, zero, region, 10, 100,
                                         10, 100, host, 0, NULL, NULL));
      REFUSED (clEnqueueCopyBufferRect (world->queue, buffer, other, zero, zero, region, 10, 100,
                                        10, 100, 0, NULL, NULL));
#undef REFUSED
    }
  printf ("%zu wrong, %zu wrong\n", promise_read_wrong (world->queue, buffer, 0, 1000, 1, 0),
          promise_read_wrong (world->queue, other, 0, 1000, 1, 0));
  OK (clReleaseMemObject (buffer));
  OK (clReleaseMemObject (other));
}

static void
rect_errors (World *world)
{
  static const struct
  {
    size_t origin[3], region[3], row, slice;
  } rows[]
      = { { { 0, 0, 0 }, { 10, 10, 10 }, 0, 0 },    { { 0, 0, 0 }, { 10, 10, 10 }, 10, 100 },
          { { 1, 0, 0 }, { 10, 10, 10 }, 10, 100 }, { { 0, 1, 0 }, { 10, 10, 10 }, 10, 100 },
          { { 0, 0, 1 }, { 10, 10, 10 }, 10, 100 }, { { 0, 0, 0 }, { 10, 10, 10 }, 9, 100 },
          { { 0, 0, 0 }, { 10, 10, 10 }, 10, 99 },  { { 0, 0, 0 }, { 10, 10, 10 }, 10, 105 },
          { { 999, 0, 0 }, { 1, 1, 1 }, 0, 0 },     { { 1000, 0, 0 }, { 1, 1, 1 }, 0, 0 },
          { { 0, 99, 0 }, { 10, 1, 1 }, 10, 0 },    { { 0, 100, 0 }, { 10, 1, 1 }, 10, 0 },
          { { 0, 0, 0 }, { 10, 10, 10 }, 11, 110 }, { { 0, 0, 0 }, { 9, 10, 10 }, 10, 100 },
          { { 0, 0, 0 }, { 1, 1, 2 }, 999, 999 },   { { 0, 0, 0 }, { 1, 1, 2 }, 1000, 1000 },
          { { 0, 0, 0 }, { 1001, 1, 1 }, 0, 0 },    { { G_MAXSIZE, 0, 0 }, { 1, 1, 1 }, 0, 0 } };
  const size_t zero[3] = { 0, 0, 0 };
  cl_mem buffer = promise_filled (world, 1000, 1), other = promise_filled (world, 1000, 1);
  guchar host[2100] = { 0 };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      const size_t *origin = rows[i].origin, *region = rows[i].region;

      printf ("%u: %s", i,
              promise_status (clEnqueueReadBufferRect (
                  world->queue, buffer, CL_TRUE, origin, zero, region, rows[i].row, rows[i].slice,
                  rows[i].row, rows[i].slice, host, 0, NULL, NULL)));
      printf (" %s", promise_status (clEnqueueWriteBufferRect (
                         world->queue, buffer, CL_TRUE, origin, zero, region, rows[i].row,
                         rows[i].slice, rows[i].row, rows[i].slice, host, 0, NULL, NULL)));
      printf (" %s", promise_status (clEnqueueCopyBufferRect (
                         world->queue, buffer, other, origin, zero, region, rows[i].row,
                         rows[i].slice, rows[i].row, rows[i].slice, 0, NULL, NULL)));
      printf (" %s", promise_status (clEnqueueCopyBufferRect (
                         world->queue, other, buffer, zero, origin, region, rows[i].row,
                         rows[i].slice, rows[i].row, rows[i].slice, 0, NULL, NULL)));
      printf (" itself %s\n", promise_status (clEnqueueCopyBufferRect (
                                  world->queue, buffer, buffer, zero, origin, region, rows[i].row,
                                  rows[i].slice, rows[i].row, rows[i].slice, 0, NULL, NULL)));
      OK (clFinish (world->queue));
    }
  OK (clReleaseMemObject (buffer));
  OK (clReleaseMemObject (other));
}

/* Pitches of the two boxes of a copy that differ, and that only one box may have. */
static void
rect_pitches (World *world)
{
  static const struct
  {
    size_t region[3], row, slice, other_row, other_slice;
  } rows[] = { { { 10, 5, 5 }, 10, 50, 11, 55 }, { { 10, 5, 5 }, 9, 45, 10, 50 },
               { { 10, 5, 5 }, 9, 0, 0, 0 },     { { 10, 5, 5 }, 10, 40, 10, 50 },
               { { 10, 5, 5 }, 10, 55, 10, 50 }, { { 10, 5, 5 }, 10, 60, 10, 50 },
               { { 10, 5, 1 }, 10, 1, 10, 50 },  { { 10, 5, 1 }, 20, 0, 0, 0 },
               { { 10, 1, 1 }, 1, 0, 10, 0 },    { { 10, 1, 1 }, 0, 1, 0, 10 } };
  const size_t zero[3] = { 0, 0, 0 };
  cl_mem buffer = promise_filled (world, 1000, 1), other = promise_filled (world, 1000, 2);
  guchar read[1000];

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      cl_int one = clEnqueueCopyBufferRect (world->queue, buffer, other, zero, zero, rows[i].region,
                                            rows[i].row, rows[i].slice, rows[i].other_row,
                                            rows[i].other_slice, 0, NULL, NULL);
      cl_int back = clEnqueueCopyBufferRect (world->queue, buffer, other, zero, zero,
                                             rows[i].region, rows[i].other_row, rows[i].other_slice,
                                             rows[i].row, rows[i].slice, 0, NULL, NULL);

      printf ("%u: %s", i, promise_status (one));
      printf (" %s", promise_status (back));
      OK (clEnqueueReadBuffer (world->queue, other, CL_TRUE, 0, sizeof read, read, 0, NULL, NULL));
      printf (", %zu bytes differ\n", promise_count_wrong (read, sizeof read, 2, 0));
    }
  OK (clReleaseMemObject (buffer));
  OK (clReleaseMemObject (other));
}

/* A copy that the driver may refuse, after it has accepted a part of the copy: its event is not
 * there.  below.t makes a driver do so. */
static void
rect_refused (World *world)
{
  const size_t zero[3] = { 0, 0, 0 }, region[3] = { 10, 5, 5 };
  cl_mem buffer = promise_filled (world, 1000, 1), other = promise_filled (world, 1000, 2);
  const cl_event nothing = (cl_event) (gpointer) 16; /* no event, and no memory */
  cl_event event = nothing;
  cl_command_queue_properties can = 0;
  cl_command_queue queue;
  cl_int status;

  OK (clGetDeviceInfo (world->device, CL_DEVICE_QUEUE_PROPERTIES, sizeof can, &can, NULL));
  if (!(can & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE))
    promise_skip ("all queues are in order");
  queue = promise_queue (world, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  status = clEnqueueCopyBufferRect (queue, buffer, other, zero, zero, region, 10, 50, 11, 55, 0,
                                    NULL, &event);
  printf ("%s%s\n", promise_status (status), event != nothing ? ", an event" : "");
  OK (clReleaseMemObject (buffer));
  OK (clReleaseMemObject (other));
  if (event != nothing)
    OK (clReleaseEvent (event));
  OK (clFinish (queue));
  OK (clReleaseCommandQueue (queue));
}

/* Patterns of each size, at each place where they may be, and where they may not. */
static void
fills (World *world)
{
  enum
  {
    N = 1280
  };
  static const gsize sizes[] = { 0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,  12,  13,  14,
                                 15, 16, 17, 24, 31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 256 };
  g_autofree guchar *pattern = promise_pattern (8, 256);
  cl_mem before = promise_filled (world, N, 1), buffer = promise_filled (world, N, 2);
  cl_mem after = promise_filled (world, N, 3);
  guchar model[N], read[N];

  OK (clEnqueueReadBuffer (world->queue, buffer, CL_TRUE, 0, N, model, 0, NULL, NULL));
  for (guint k = 0; k < 6 * G_N_ELEMENTS (sizes); k++)
    {
      gsize size = sizes[k / 6];
      const gsize offsets[6] = { 0, 1, size / 2, size, 3 * size, 3 * size + 1 };
      gsize offset = offsets[k % 6], length = 4 * size + k % 5 / 4;
      cl_int status = clEnqueueFillBuffer (world->queue, buffer, pattern, size, offset, length, 0,
                                           NULL, NULL);

      printf ("%zu at %zu, %zu bytes: %s\n", size, offset, length, promise_status (status));
      for (gsize i = 0; status == CL_SUCCESS && i < length; i++)
        model[offset + i] = pattern[i % size];
    }
  for (gsize size = 1; size <= 128; size *= 2)
    {
      OK (clEnqueueFillBuffer (world->queue, buffer, pattern, size, N - 128 - size, size + 128, 0,
                               NULL, NULL));
      memset (pattern, (int) size, size); /* the command has its own */
      OK (clEnqueueReadBuffer (world->queue, buffer, CL_TRUE, 0, N, read, 0, NULL, NULL));
      printf ("%zu: %#x\n", size, read[N - 1]);
    }
  printf ("%zu, %s, %zu\n", promise_read_wrong (world->queue, before, 0, N, 1, 0),
          memcmp (read, model, N - 256) == 0 ? "right" : "wrong",
          promise_read_wrong (world->queue, after, 0, N, 3, 0));
  printf ("no pattern: %s\n", promise_status (clEnqueueFillBuffer (world->queue, buffer, NULL, 1, 0,
                                                                   N, 0, NULL, NULL)));
  OK (clReleaseMemObject (before));
  OK (clReleaseMemObject (buffer));
  OK (clReleaseMemObject (after));
}

/* What the host may do with buffers that say what it may do. */
static void
host_access (World *world)
{
  const size_t zero[3] = { 0, 0, 0 }, region[3] = { 100, 1, 1 };
  static const cl_map_flags maps[] = { CL_MAP_READ,
                                       CL_MAP_WRITE,
                                       CL_MAP_WRITE_INVALIDATE_REGION,
                                       CL_MAP_READ | CL_MAP_WRITE,
                                       CL_MAP_READ | CL_MAP_WRITE_INVALIDATE_REGION,
                                       1 << 10,
                                       0 };
  cl_command_queue queue = world->queue;
  cl_mem other = promise_filled (world, 100, 1);
  guchar host[100] = { 0 };

  for (guint i = 0; i < 2 * ACCESS_FLAGS * HOST_FLAGS; i++)
    {
      cl_mem_flags flags
          = promise_access[i / 2 % ACCESS_FLAGS] | promise_host_access[i / 2 / ACCESS_FLAGS];
      g_autofree gchar *name = promise_flags (flags);
      cl_mem whole = promise_buffer (world, flags, 100, NULL);
      cl_mem b = i % 2 == 0 ? whole : promise_part (whole, 0, 0, 100);

#define SHOW(call) printf (" %s", promise_status (call))
      printf ("%s%s:", name, i % 2 == 0 ? "" : ", a part");
      SHOW (clEnqueueReadBuffer (queue, b, CL_TRUE, 0, 100, host, 0, NULL, NULL));
      SHOW (clEnqueueWriteBuffer (queue, b, CL_TRUE, 0, 100, host, 0, NULL, NULL));
      SHOW (clEnqueueReadBufferRect (queue, b, CL_TRUE, zero, zero, region, 0, 0, 0, 0, host, 0,
                                     NULL, NULL));
      SHOW (clEnqueueWriteBufferRect (queue, b, CL_TRUE, zero, zero, region, 0, 0, 0, 0, host, 0,
                                      NULL, NULL));
      SHOW (clEnqueueFillBuffer (queue, b, host, 1, 0, 100, 0, NULL, NULL));
      SHOW (clEnqueueCopyBuffer (queue, b, other, 0, 0, 100, 0, NULL, NULL));
      SHOW (clEnqueueCopyBuffer (queue, other, b, 0, 0, 100, 0, NULL, NULL));
      SHOW (clEnqueueMigrateMemObjects (queue, 1, &b, 0, 0, NULL, NULL));
#undef SHOW
      for (guint k = 0; k < G_N_ELEMENTS (maps); k++)
        {
          cl_int status = 99;
          gpointer map
              = clEnqueueMapBuffer (queue, b, CL_TRUE, maps[k], 0, 100, 0, NULL, NULL, &status);

          printf (" map %u %s", (guint) maps[k], promise_status (status));
          if (map != NULL)
            printf (", unmap %s",
                    promise_status (clEnqueueUnmapMemObject (queue, b, map, 0, NULL, NULL)));
        }
      printf ("\n");
      OK (clFinish (queue));
      if (b != whole)
        OK (clReleaseMemObject (b));
      OK (clReleaseMemObject (whole));
    }
  OK (clReleaseMemObject (other));
}

static void
migrate (World *world)
{
  static const cl_mem_migration_flags flags[]
      = { 0, CL_MIGRATE_MEM_OBJECT_HOST, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED,
          CL_MIGRATE_MEM_OBJECT_HOST | CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 1 << 10 };
  cl_mem buffers[4];

  for (guint i = 0; i < G_N_ELEMENTS (flags); i++)
    {
      cl_event event = NULL;
      cl_int status;

      for (guint k = 0; k < 4; k++)
        buffers[k] = k == 3 ? promise_part (buffers[2], 0, 0, 300)
                            : promise_filled (world, 1 + 3000 * k, k);
      status = clEnqueueMigrateMemObjects (world->queue, 4, buffers, flags[i], 0, NULL, &event);
      printf ("%u: %s%s", (guint) flags[i], promise_status (status),
              event == NULL ? "" : ", an event");
      if (event != NULL)
        OK (clReleaseEvent (event));
      printf (", none %s", promise_status (clEnqueueMigrateMemObjects (world->queue, 0, buffers,
                                                                       flags[i], 0, NULL, NULL)));
      printf (", no list %s\n", promise_status (clEnqueueMigrateMemObjects (
                                    world->queue, 1, NULL, flags[i], 0, NULL, NULL)));
      for (guint k = 0; k < 3; k++)
        if (flags[i] != 0 && flags[i] & CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED)
          promise_write (world->queue, buffers[k], 0, 1 + 3000 * k, k);
      for (guint k = 0; k < 4; k++)
        printf ("%zu wrong, held by %u\n",
                promise_read_wrong (world->queue, buffers[k], 0, k == 3 ? 300 : 1 + 3000 * k,
                                    MIN (k, 2), 0),
                promise_wait_count (buffers[k], k == 2 ? 2 : 1));
      for (guint k = 4; k > 0; k--)
        OK (clReleaseMemObject (buffers[k - 1]));
    }
  buffers[0] = promise_filled (world, 10, 1);
  buffers[1] = NULL;
  printf ("one is NULL: %s\n",
          promise_status (clEnqueueMigrateMemObjects (world->queue, 2, buffers, 0, 0, NULL, NULL)));
  OK (clReleaseMemObject (buffers[0]));
}

/* Each function that takes a buffer is given none, with @queue, which may be NULL, too. */
static void
show_nulls (cl_command_queue queue, cl_mem good, gboolean first)
{
  const size_t zero[3] = { 0, 0, 0 }, region[3] = { 1, 1, 1 };
  cl_mem a = first ? NULL : good, b = first ? good : NULL, null = NULL;
  cl_int status = 99;
  guchar host[4] = { 0 };

#define SHOW(call) printf (#call ": %s\n", promise_status (call))
  SHOW (clEnqueueReadBuffer (queue, null, CL_TRUE, 0, 1, host, 0, NULL, NULL));
  SHOW (clEnqueueWriteBuffer (queue, null, CL_TRUE, 0, 1, host, 0, NULL, NULL));
  SHOW (clEnqueueFillBuffer (queue, null, host, 1, 0, 1, 0, NULL, NULL));
  SHOW (clEnqueueCopyBuffer (queue, a, b, 0, 0, 1, 0, NULL, NULL));
  SHOW (clEnqueueReadBufferRect (queue, null, CL_TRUE, zero, zero, region, 0, 0, 0, 0, host, 0,
                                 NULL, NULL));
  SHOW (clEnqueueWriteBufferRect (queue, null, CL_TRUE, zero, zero, region, 0, 0, 0, 0, host, 0,
                                  NULL, NULL));
  SHOW (clEnqueueMigrateMemObjects (queue, 1, &null, 0, 0, NULL, NULL));
  SHOW (clEnqueueUnmapMemObject (queue, null, host, 0, NULL, NULL));
  printf ("map: %s",
          clEnqueueMapBuffer (queue, null, CL_TRUE, CL_MAP_READ, 0, 1, 0, NULL, NULL, &status)
                  == NULL
              ? "NULL "
              : "a pointer ");
  printf ("%s\n", promise_status (status));
#undef SHOW
}

static void
nulls (World *world)
{
  cl_mem good = promise_filled (world, 4, 1);
  cl_uint value = 99;

  for (guint i = 0; i < 2; i++)
    {
      show_nulls (world->queue, good, i == 0);
      show_nulls (NULL, good, i == 0);
    }
  printf ("info: %s\n",
          promise_status (clGetMemObjectInfo (NULL, CL_MEM_MAP_COUNT, sizeof value, &value, NULL)));
  printf ("a good one is still %zu wrong\n", promise_read_wrong (world->queue, good, 0, 4, 1, 0));
  OK (clReleaseMemObject (good));
}

/* PoCL 3.1 dies of it. */
static void
nulls_rects (World *world)
{
  const size_t zero[3] = { 0, 0, 0 }, region[3] = { 1, 1, 1 };
  cl_mem good = promise_filled (world, 4, 1);

#define SHOW(from, to)                                                                             \
  printf (#from " to " #to ": %s\n",                                                               \
          promise_status (clEnqueueCopyBufferRect (world->queue, from, to, zero, zero, region, 0,  \
                                                   0, 0, 0, 0, NULL, NULL)))
  SHOW (NULL, good);
  SHOW (good, NULL);
  SHOW (NULL, NULL);
#undef SHOW
  OK (clReleaseMemObject (good));
}

/* The status of each command with one wait list. */
static void
show_waits (World *world, cl_mem a, cl_mem b, cl_uint n, const cl_event *waits, const gchar *what)
{
  const size_t zero[3] = { 0, 0, 0 }, region[3] = { 1, 1, 1 };
  cl_command_queue queue = world->queue;
  cl_int status = 99;
  guchar host[4] = { 0 };

#define SHOW(call) printf (" %s", promise_status (call))
  printf ("%s:", what);
  SHOW (clEnqueueReadBuffer (queue, a, CL_FALSE, 0, 1, host, n, waits, NULL));
  SHOW (clEnqueueWriteBuffer (queue, a, CL_FALSE, 0, 1, host, n, waits, NULL));
  SHOW (clEnqueueFillBuffer (queue, a, host, 1, 0, 1, n, waits, NULL));
  SHOW (clEnqueueCopyBuffer (queue, a, b, 0, 0, 1, n, waits, NULL));
  SHOW (clEnqueueReadBufferRect (queue, a, CL_FALSE, zero, zero, region, 0, 0, 0, 0, host, n, waits,
                                 NULL));
  SHOW (clEnqueueWriteBufferRect (queue, a, CL_FALSE, zero, zero, region, 0, 0, 0, 0, host, n,
                                  waits, NULL));
  SHOW (clEnqueueCopyBufferRect (queue, a, b, zero, zero, region, 0, 0, 0, 0, n, waits, NULL));
  SHOW (clEnqueueMigrateMemObjects (queue, 1, &a, 0, n, waits, NULL));
  if (clEnqueueMapBuffer (queue, a, CL_FALSE, CL_MAP_READ, 0, 1, n, waits, NULL, &status) != NULL)
    printf (" a pointer");
  printf (" %s\n", promise_status (status));
#undef SHOW
  OK (clFinish (queue));
}

/* Wait lists that are refused; the buffers' counts are as before. */
static void
wait_lists (World *world)
{
  cl_mem a = promise_filled (world, 4, 1), b = promise_filled (world, 4, 2);
  World other = { .device = world->device };
  cl_event waits[2];

  other.context = promise_context (world);
  waits[0] = promise_gate (world);
  waits[1] = NULL;
  show_waits (world, a, b, 1, NULL, "a count without a list");
  show_waits (world, a, b, 0, waits, "a list without a count");
  show_waits (world, a, b, 2, waits, "one is NULL");
  waits[1] = promise_gate (&other);
  show_waits (world, a, b, 2, waits, "one of another context");
  promise_open (waits[0]);
  promise_open (waits[1]);
  OK (clReleaseContext (other.context));
  printf ("held by %u, %u\n", promise_wait_count (a, 1), promise_wait_count (b, 1));
  printf ("%zu wrong\n", promise_read_wrong (world->queue, b, 0, 4, 2, 0));
  OK (clReleaseMemObject (a));
  OK (clReleaseMemObject (b));
}

/* PoCL 3.1 dies of the last. */
static void
wait_lists_kernels (World *world)
{
  const size_t global = 64, local = 16;
  cl_kernel kernel = promise_kernel (world, "add");
  cl_mem buffer = promise_filled (world, 4, 1);
  cl_event gate = promise_gate (world), null = NULL;

  promise_set (kernel, buffer, 4, 1);
#define SHOW(n, waits)                                                                             \
  printf (#n " in " #waits ": %s\n",                                                               \
          promise_status (clEnqueueNDRangeKernel (world->queue, kernel, 1, NULL, &global, &local,  \
                                                  n, waits, NULL)))
  SHOW (0, &gate);
  SHOW (1, &null);
  SHOW (1, NULL);
#undef SHOW
  promise_open (gate);
  OK (clReleaseMemObject (buffer));
  OK (clReleaseKernel (kernel));
}

static void
print_event (cl_event event, World *world, const gchar *what)
{
  cl_command_type type = 0;
  cl_context context = NULL;
  cl_command_queue queue = NULL;
  cl_int status = 99;

  OK (clWaitForEvents (1, &event));
  OK (clGetEventInfo (event, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL));
  OK (clGetEventInfo (event, CL_EVENT_CONTEXT, sizeof context, &context, NULL));
  OK (clGetEventInfo (event, CL_EVENT_COMMAND_QUEUE, sizeof queue, &queue, NULL));
  OK (clGetEventInfo (event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL));
  printf ("%s: %#x, %d%s%s\n", what, type, status, context == world->context ? ", context" : "",
          queue == world->queue ? ", queue" : "");
  OK (clReleaseEvent (event));
}

/* Each command's event says which command it is, whatever the buffer's pool makes of it. */
static void
events (World *world)
{
  const size_t zero[3] = { 0, 0, 0 }, region[3] = { 10, 1, 1 };
  cl_command_queue queue = world->queue;
  cl_mem a = promise_filled (world, 100, 1), b = promise_filled (world, 100, 1);
  cl_kernel kernel = promise_kernel (world, "fill");
  guchar host[100] = { 0 };
  cl_int status = 99;
  gpointer map;
  cl_event e;

  OK (clEnqueueReadBuffer (queue, a, CL_FALSE, 0, 100, host, 0, NULL, &e));
  print_event (e, world, "read");
  OK (clEnqueueReadBuffer (queue, a, CL_TRUE, 0, 100, host, 0, NULL, &e));
  print_event (e, world, "blocking read");
  OK (clEnqueueWriteBuffer (queue, a, CL_FALSE, 0, 100, host, 0, NULL, &e));
  print_event (e, world, "write");
  OK (clEnqueueFillBuffer (queue, a, host, 1, 0, 100, 0, NULL, &e));
  print_event (e, world, "fill");
  OK (clEnqueueCopyBuffer (queue, a, b, 0, 0, 100, 0, NULL, &e));
  print_event (e, world, "copy");
  OK (clEnqueueReadBufferRect (queue, a, CL_FALSE, zero, zero, region, 0, 0, 0, 0, host, 0, NULL,
                               &e));
  print_event (e, world, "read rect");
  OK (clEnqueueWriteBufferRect (queue, a, CL_FALSE, zero, zero, region, 0, 0, 0, 0, host, 0, NULL,
                                &e));
  print_event (e, world, "write rect");
  OK (clEnqueueCopyBufferRect (queue, a, b, zero, zero, region, 0, 0, 0, 0, 0, NULL, &e));
  print_event (e, world, "copy rect");
  OK (clEnqueueMigrateMemObjects (queue, 1, &a, 0, 0, NULL, &e));
  print_event (e, world, "migrate");
  map = clEnqueueMapBuffer (queue, a, CL_FALSE, CL_MAP_READ, 0, 100, 0, NULL, &e, &status);
  promise_check (status, "clEnqueueMapBuffer");
  print_event (e, world, "map");
  OK (clEnqueueUnmapMemObject (queue, a, map, 0, NULL, &e));
  print_event (e, world, "unmap");
  promise_set (kernel, a, 100, 1);
  promise_launch (queue, kernel, 0, NULL, &e);
  OK (clReleaseMemObject (a));
  print_event (e, world, "kernel");
  OK (clReleaseMemObject (b));
  OK (clReleaseKernel (kernel));
}

/* A command that cannot run as what it waits for has failed; the buffer is released all the same.
 */
static void
events_failed (World *world)
{
  for (guint i = 0; i < 3; i++)
    {
      cl_command_queue queue = promise_queue (world, 0);
      cl_mem buffer = promise_filled (world, 1000, 1), after;
      cl_event gate = promise_gate (world), event = NULL;
      guchar host[1000] = { 0 };
      cl_kernel kernel = promise_kernel (world, "fill");
      cl_int status = 99;

      promise_set (kernel, buffer, 1000, 5);
      if (i == 0)
        OK (clEnqueueReadBuffer (queue, buffer, CL_FALSE, 0, 1000, host, 1, &gate, &event));
      else if (i == 1)
        OK (clEnqueueWriteBuffer (queue, buffer, CL_FALSE, 0, 1000, host, 1, &gate, &event));
      else
        promise_launch (queue, kernel, 1, &gate, &event);
      OK (clFlush (queue));
      OK (clSetUserEventStatus (gate, -5));
      OK (clReleaseEvent (gate));
      printf ("%u: waited %s,", i, promise_status (clWaitForEvents (1, &event)));
      OK (clGetEventInfo (event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL));
      printf (" failed %u\n", status < 0);
      OK (clReleaseEvent (event));
      if (i > 0)
        printf ("%zu wrong\n", promise_read_wrong (world->queue, buffer, 0, 1000, 1, 0));
      OK (clReleaseMemObject (buffer));
      after = promise_filled (world, 1000, 7);
      printf ("after: %zu wrong\n", promise_read_wrong (world->queue, after, 0, 1000, 7, 0));
      OK (clReleaseMemObject (after));
      OK (clReleaseKernel (kernel));
      OK (clReleaseCommandQueue (queue));
    }
}

/* Buffers of sizes that a pool can hardly hold all, each of which is copied by boxes to a buffer
 * that stays. */
static void
rects_large (World *world)
{
  static const guint mebibytes[] = { 8,  16, 8,  16, 8,  16,  32, 8,  16,  32, 16,  32, 32,
                                     64, 32, 64, 32, 64, 128, 32, 64, 128, 64, 128, 32 };
  const size_t to_origin[3] = { 0, 0, 0 }, region[3] = { 64, 64, 1 };
  cl_mem copy = promise_filled (world, 4096, 99);

  for (guint i = 0; i < G_N_ELEMENTS (mebibytes); i++)
    {
      gsize size = (gsize) mebibytes[i] << 20;
      const size_t origin[3] = { 0, size / 64 - 64, 0 };
      cl_mem buffer = promise_buffer (world, CL_MEM_READ_WRITE, size, NULL);

      promise_write (world->queue, buffer, size - 4096, 4096, i);
      OK (clEnqueueCopyBufferRect (world->queue, buffer, copy, origin, to_origin, region, 64, 0, 64,
                                   0, 0, NULL, NULL));
      OK (clFinish (world->queue));
      printf ("%u MiB: %zu wrong\n", mebibytes[i],
              promise_read_wrong (world->queue, copy, 0, 4096, i, 0));
      OK (clReleaseMemObject (buffer));
    }
  OK (clReleaseMemObject (copy));
}

const Promise promises_commands[] = { { "rects", rects, FALSE },
                                      { "rects-large", rects_large, FALSE },
                                      { "rects-parts", rects_parts, FALSE },
                                      { "rects-parts-copies", rects_parts_copies, TRUE },
                                      { "rect-empty", rect_empty, FALSE },
                                      { "rect-errors", rect_errors, FALSE },
                                      { "rect-pitches", rect_pitches, FALSE },
                                      { "rect-refused", rect_refused, FALSE },
                                      { "fills", fills, FALSE },
                                      { "host-access", host_access, FALSE },
                                      { "migrate", migrate, FALSE },
                                      { "nulls", nulls, FALSE },
                                      { "nulls-rects", nulls_rects, TRUE },
                                      { "wait-lists", wait_lists, FALSE },
                                      { "wait-lists-kernels", wait_lists_kernels, TRUE },
                                      { "events", events, FALSE },
                                      { "events-failed", events_failed, FALSE },
                                      { NULL, NULL, FALSE } };
