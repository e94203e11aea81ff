/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A buffer holds what was put into it, all of it, and nobody else's. */

#include "promises.h"

typedef struct
{
  gsize size;
  guint seed;
  cl_mem buffer;
} Live;

/* Many sizes are small, some odd, few large. */
static gsize
random_size (GRand *rand)
{
  guint bits = g_rand_int_range (rand, 1, 15);

  return 1 + g_rand_int_range (rand, 0, 1 << bits);
}

/* Enqueues all that is done with a short-lived buffer and lets go of it. */
static void
enqueue_round (World *world, cl_kernel fill, cl_kernel add, gsize size, guint i, guchar *read,
               const cl_event *gate)
{
  cl_mem buffer = promise_buffer (world, promise_access[i % 2], size, NULL);
  guchar byte = i;

  OK (clEnqueueFillBuffer (world->queue, buffer, &byte, 1, 0, size, gate != NULL, gate, NULL));
  if (i % 3 != 0)
    promise_run (world->queue, fill, buffer, size, i);
  promise_run (world->queue, add, buffer, size, 1);
  OK (clEnqueueReadBuffer (world->queue, buffer, CL_FALSE, 0, size, read, 0, NULL, NULL));
  OK (clReleaseMemObject (buffer));
}

/* How many of the bytes of round @i are not what they have to be. */
static gsize
check_round (const guchar *read, gsize size, guint i)
{
  gsize wrong = 0;

  if (i % 3 != 0)
    return promise_count_wrong (read, size, i, 1);
  for (gsize k = 0; k < size; k++)
    wrong += read[k] != (guchar) (i + 1);
  return wrong;
}

static void
release_rounds (World *world, guint n, cl_event gate)
{
  cl_kernel fill = promise_kernel (world, "fill"), add = promise_kernel (world, "add");
  g_autoptr (GRand) rand = g_rand_new_with_seed (n);
  g_autofree gsize *sizes = g_new (gsize, n);
  g_autofree guchar **reads = g_new (guchar *, n);
  gsize wrong = 0;

  for (guint i = 0; i < n; i++)
    {
      sizes[i] = random_size (rand);
      reads[i] = g_malloc0 (sizes[i]);
      enqueue_round (world, fill, add, sizes[i], i, reads[i], gate != NULL ? &gate : NULL);
    }
  OK (clFlush (world->queue));
  if (gate != NULL)
    promise_open (gate);
  OK (clFinish (world->queue));
  for (guint i = 0; i < n; i++)
    {
      wrong += check_round (reads[i], sizes[i], i);
      g_free (reads[i]);
    }
  if (wrong > 0) /* also what the driver dies of, with or without a layer */
    promise_skip ("what was enqueued for a buffer is lost when the buffer is released");
  printf ("%zu wrong\n", wrong);
  OK (clReleaseKernel (fill));
  OK (clReleaseKernel (add));
}

/* Created, used and released, thousands of times, before any of it was done. */
static void
released (World *world)
{
  release_rounds (world, 3000, NULL);
}

static void
released_behind (World *world)
{
  release_rounds (world, 2000, promise_gate (world));
}

#define AT_ONCE 2750000 /* bytes: 8 of them are 22,000,000 */

/* This many buffers are there at the same time. */
static void
all_at_once (World *world)
{
  cl_mem buffers[8];
  guint n = 0;

  for (guint i = 0; i < G_N_ELEMENTS (buffers); i++)
    {
      cl_int status = 99;

      buffers[i] = clCreateBuffer (world->context, 0, AT_ONCE, NULL, &status);
      if (buffers[i] != NULL)
        promise_write (world->queue, buffers[i], 0, AT_ONCE, i);
      n += buffers[i] != NULL;
    }
  for (guint i = 0; i < G_N_ELEMENTS (buffers); i++)
    if (buffers[i] != NULL)
      {
        promise_expect (world,
                        promise_read_wrong (world->queue, buffers[i], 0, AT_ONCE, i, 0) == 0);
        OK (clReleaseMemObject (buffers[i]));
      }
  printf ("%u buffers\n", n);
}

/* Buffers of all sizes up to 160 KiB, of which 128 are alive: about 10 MiB.  Each has the bytes
 * that were written to its end until it is released. */
static void
crowded (World *world)
{
  cl_mem buffers[128] = { NULL };
  gsize sizes[G_N_ELEMENTS (buffers)] = { 0 }, wrong = 0;
  guint32 random = 1;

  for (guint i = 0; i < 4000 + G_N_ELEMENTS (buffers); i++)
    {
      guint at = i % G_N_ELEMENTS (buffers);
      gsize tail = MIN (sizes[at], 16);

      if (buffers[at] != NULL)
        {
          wrong += promise_read_wrong (world->queue, buffers[at], sizes[at] - tail, tail,
                                       i - G_N_ELEMENTS (buffers), 0);
          OK (clReleaseMemObject (buffers[at]));
          buffers[at] = NULL;
        }
      if (i >= 4000)
        continue;
      random = random * 1664525 + 1013904223;
      sizes[at] = 1 + (random >> 8) % (160 * 1024);
      tail = MIN (sizes[at], 16);
      buffers[at] = promise_buffer (world, CL_MEM_READ_WRITE, sizes[at], NULL);
      promise_write (world->queue, buffers[at], sizes[at] - tail, tail, i);
    }
  printf ("%zu wrong\n", wrong);
}

/* One size again and again: what was just released is what a pool has at hand. */
static void
released_same (World *world)
{
  cl_kernel fill = promise_kernel (world, "fill"), add = promise_kernel (world, "add");

  for (gsize size = 1; size < 100000; size = 9 * size + 1)
    {
      g_autofree guchar *reads = g_malloc0 (300 * size);
      gsize wrong = 0;

      for (guint i = 0; i < 300; i++)
        enqueue_round (world, fill, add, size, i, reads + i * size, NULL);
      OK (clFinish (world->queue));
      for (guint i = 0; i < 300; i++)
        wrong += check_round (reads + i * size, size, i);
      printf ("%zu bytes: %zu wrong\n", size, wrong);
    }
  OK (clReleaseKernel (fill));
  OK (clReleaseKernel (add));
}

static void
live_start (World *world, Live *self, GRand *rand, cl_kernel fill)
{
  self->size = random_size (rand);
  self->seed = g_rand_int (rand);
  self->buffer = promise_buffer (world, 0, self->size, NULL);
  if (g_rand_boolean (rand))
    promise_run (world->queue, fill, self->buffer, self->size, self->seed);
  else
    promise_write (world->queue, self->buffer, 0, self->size, self->seed);
}

static gsize
live_end (World *world, Live *self)
{
  gsize wrong = promise_read_wrong (world->queue, self->buffer, 0, self->size, self->seed, 0);

  OK (clReleaseMemObject (self->buffer));
  return wrong;
}

/* 200 buffers, each with its own contents, while others come and go. */
static void
live (World *world)
{
  enum
  {
    N = 200
  };
  cl_kernel fill = promise_kernel (world, "fill");
  g_autoptr (GRand) rand = g_rand_new_with_seed (11);
  gsize wrong = 0;
  Live lives[N];

  for (guint i = 0; i < N; i++)
    live_start (world, &lives[i], rand, fill);
  for (guint i = 0; i < 5000; i++)
    {
      Live *one = &lives[g_rand_int_range (rand, N / 2, N)], other;

      if (i % 2 == 0)
        {
          wrong += live_end (world, one);
          live_start (world, one, rand, fill);
          continue;
        }
      live_start (world, &other, rand, fill);
      wrong += live_end (world, &other);
    }
  for (guint i = 0; i < N; i++)
    wrong += live_end (world, &lives[i]);
  printf ("%zu wrong\n", wrong);
  OK (clReleaseKernel (fill));
}

/* Changes the whole of a buffer, and nothing else, by each kind of command. */
static void
change (World *world, guint kind, cl_mem buffer, cl_mem source, gsize size, cl_kernel fill)
{
  guchar byte = 0xee;
  gpointer map;
  cl_int status;

  if (kind == 0)
    promise_run (world->queue, fill, buffer, size, 1000);
  else if (kind == 1)
    promise_write (world->queue, buffer, 0, size, 1000);
  else if (kind == 2)
    OK (clEnqueueFillBuffer (world->queue, buffer, &byte, 1, 0, size, 0, NULL, NULL));
  else if (kind == 3)
    OK (clEnqueueCopyBuffer (world->queue, source, buffer, 0, 0, size, 0, NULL, NULL));
  else
    {
      map = clEnqueueMapBuffer (world->queue, buffer, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, 0,
                                size, 0, NULL, NULL, &status);
      promise_check (status, "clEnqueueMapBuffer");
      memset (map, 0x77, size);
      OK (clEnqueueUnmapMemObject (world->queue, buffer, map, 0, NULL, NULL));
    }
}

/* Buffers made one after the other are neighbours in many a pool: each is written up to its last
 * byte, and those beside it stay as they are. */
static void
guards (World *world)
{
  enum
  {
    N = 40
  };
  cl_kernel fill = promise_kernel (world, "fill");
  cl_mem source = promise_filled (world, 5000, 3);

  for (gsize size = 1; size < 5000; size = 3 * size + 1)
    for (guint kind = 0; kind < 5; kind++)
      {
        gsize wrong = 0;
        cl_mem buffers[N];

        for (guint i = 0; i < N; i++)
          buffers[i] = promise_filled (world, size, i);
        for (guint i = 0; i < N; i += 2)
          change (world, kind, buffers[i], source, size, fill);
        for (guint i = 1; i < N; i += 2)
          wrong += promise_read_wrong (world->queue, buffers[i], 0, size, i, 0);
        printf ("%zu bytes, %u: %zu wrong\n", size, kind, wrong);
        for (guint i = 0; i < N; i++)
          OK (clReleaseMemObject (buffers[i]));
      }
  OK (clReleaseMemObject (source));
  OK (clReleaseKernel (fill));
}

/* Ranges out of bounds */

#define N_RANGE_COMMANDS 8

static cl_int
try_range (World *world, guint command, cl_mem buffer, cl_mem other, gsize offset, gsize size)
{
  static guchar host[10000];
  const size_t origin[3] = { offset, 0, 0 }, zero[3] = { 0, 0, 0 }, region[3] = { size, 1, 1 };
  cl_command_queue queue = world->queue;
  cl_int status = 99;
  gpointer map;

  switch (command)
    {
    case 0:
      return clEnqueueReadBuffer (queue, buffer, CL_TRUE, offset, size, host, 0, NULL, NULL);
    case 1:
      return clEnqueueWriteBuffer (queue, buffer, CL_TRUE, offset, size, host, 0, NULL, NULL);
    case 2:
      return clEnqueueFillBuffer (queue, buffer, host, 1, offset, size, 0, NULL, NULL);
    case 3:
      return clEnqueueCopyBuffer (queue, buffer, other, offset, 0, size, 0, NULL, NULL);
    case 4:
      return clEnqueueCopyBuffer (queue, other, buffer, 0, offset, size, 0, NULL, NULL);
    case 5:
      return clEnqueueReadBufferRect (queue, buffer, CL_TRUE, origin, zero, region, 0, 0, 0, 0,
                                      host, 0, NULL, NULL);
    case 6:
      return clEnqueueCopyBufferRect (queue, other, buffer, zero, origin, region, 0, 0, 0, 0, 0,
                                      NULL, NULL);
    default:
      map = clEnqueueMapBuffer (queue, buffer, CL_TRUE, CL_MAP_READ, offset, size, 0, NULL, NULL,
                                &status);
      if (map != NULL && status == CL_SUCCESS)
        OK (clEnqueueUnmapMemObject (queue, buffer, map, 0, NULL, NULL));
      return status;
    }
}

/* One byte beyond the end is refused, though there is a neighbour; so is what overflows. */
static void
ranges (World *world)
{
  static const gchar *const names[N_RANGE_COMMANDS]
      = { "read", "write", "fill", "copy from", "copy to", "read rect", "copy rect to", "map" };
  static const gsize sizes[] = { 1, 128, 513, 4097 };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      gsize n = sizes[i];
      const gsize pairs[][2] = { { 0, n },
                                 { 0, n + 1 },
                                 { 1, n },
                                 { n - 1, 1 },
                                 { n - 1, 2 },
                                 { n, 1 },
                                 { n + 1, 1 },
                                 { n, 0 },
                                 { 0, 0 },
                                 { n + 1, 0 },
                                 { 1, G_MAXSIZE },
                                 { G_MAXSIZE, 1 },
                                 { G_MAXSIZE, 2 },
                                 { G_MAXSIZE - 127, 128 },
                                 { G_MAXSIZE - 127, 129 },
                                 { (gsize) 1 << 32, 1 },
                                 { 0, (gsize) 1 << 32 },
                                 { (gsize) 1 << 63, (gsize) 1 << 63 } };
      cl_mem before = promise_filled (world, n, 1), buffer = promise_filled (world, n, 2);
      cl_mem after = promise_filled (world, n, 3), other = promise_filled (world, 10000, 4);

      for (guint k = 0; k < G_N_ELEMENTS (pairs); k++)
        for (guint command = 0; command < N_RANGE_COMMANDS; command++)
          printf (
              "%s %zu + %zu of %zu: %s\n", names[command], pairs[k][0], pairs[k][1], n,
              promise_status (try_range (world, command, buffer, other, pairs[k][0], pairs[k][1])));
      printf ("neighbours: %zu, %zu wrong\n", promise_read_wrong (world->queue, before, 0, n, 1, 0),
              promise_read_wrong (world->queue, after, 0, n, 3, 0));
      OK (clReleaseMemObject (before));
      OK (clReleaseMemObject (buffer));
      OK (clReleaseMemObject (after));
      OK (clReleaseMemObject (other));
    }
}

/* Copies that overlap */

typedef cl_int (*Copy) (cl_command_queue queue, cl_mem from, cl_mem to, gsize offset,
                        gsize to_offset, gsize size);

static cl_int
copy_plainly (cl_command_queue queue, cl_mem from, cl_mem to, gsize offset, gsize to_offset,
              gsize size)
{
  return clEnqueueCopyBuffer (queue, from, to, offset, to_offset, size, 0, NULL, NULL);
}

static cl_int
copy_box (cl_command_queue queue, cl_mem from, cl_mem to, gsize offset, gsize to_offset, gsize size)
{
  const size_t origin[3] = { offset, 0, 0 }, to_origin[3] = { to_offset, 0, 0 };
  const size_t region[3] = { size, 1, 1 };

  return clEnqueueCopyBufferRect (queue, from, to, origin, to_origin, region, 0, 0, 0, 0, 0, NULL,
                                  NULL);
}

/* Of @n bytes each. */
static void
show_copies (World *world, Copy copy, cl_mem from, cl_mem to, gsize n, const gchar *what)
{
  const gsize rows[][3] = { { 0, 0, n },
                            { 0, 0, 1 },
                            { 0, 1, 1 },
                            { 0, n / 2, n / 2 },
                            { n / 2, 0, n / 2 },
                            { 0, n / 2 - 1, n / 2 },
                            { n / 2 - 1, 0, n / 2 },
                            { 1, 1, n - 1 },
                            { n - 1, n - 1, 1 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      printf ("%s, %zu to %zu, %zu bytes: ", what, rows[i][0], rows[i][1], rows[i][2]);
      printf ("%s\n",
              promise_status (copy (world->queue, from, to, rows[i][0], rows[i][1], rows[i][2])));
      OK (clFinish (world->queue));
    }
}

static void
show_overlap (World *world, Copy copy)
{
  gsize n = promise_get_alignment (world);
  cl_mem a = promise_filled (world, 4 * n, 1), b = promise_filled (world, 4 * n, 2);

  show_copies (world, copy, a, a, 2 * n, "a buffer and itself");
  show_copies (world, copy, a, b, 2 * n, "two buffers");
  show_copies (world, copy, b, a, 2 * n, "two buffers, back");
  OK (clReleaseMemObject (a));
  OK (clReleaseMemObject (b));
}

static void
show_overlap_parts (World *world, Copy copy)
{
  gsize n = promise_get_alignment (world);
  cl_mem a = promise_filled (world, 4 * n, 1), b = promise_filled (world, 4 * n, 2);
  cl_mem part = promise_part (a, 0, 0, 2 * n), next = promise_part (a, 0, 2 * n, 2 * n);
  cl_mem middle = promise_part (a, 0, n, 2 * n), of_b = promise_part (b, 0, n, 2 * n);
  cl_mem same = promise_part (a, 0, 0, 2 * n);

  show_copies (world, copy, a, part, 2 * n, "a buffer and its part");
  show_copies (world, copy, middle, a, 2 * n, "a part and its buffer");
  show_copies (world, copy, part, next, 2 * n, "two parts");
  show_copies (world, copy, part, middle, 2 * n, "two parts that overlap");
  show_copies (world, copy, middle, next, 2 * n, "two parts that overlap, later");
  show_copies (world, copy, part, same, 2 * n, "two parts that are the same");
  show_copies (world, copy, part, part, 2 * n, "a part and itself");
  show_copies (world, copy, middle, of_b, 2 * n, "parts of two buffers");
  show_copies (world, copy, b, part, 2 * n, "a buffer and another's part");
  OK (clReleaseMemObject (part));
  OK (clReleaseMemObject (next));
  OK (clReleaseMemObject (middle));
  OK (clReleaseMemObject (of_b));
  OK (clReleaseMemObject (same));
  OK (clReleaseMemObject (a));
  OK (clReleaseMemObject (b));
}

static void
overlap (World *world)
{
  show_overlap (world, copy_plainly);
}

static void
overlap_rects (World *world)
{
  show_overlap (world, copy_box);
}

static void
overlap_parts (World *world)
{
  show_overlap_parts (world, copy_plainly);
}

/* PoCL 3.1 dies of it. */
static void
overlap_parts_rects (World *world)
{
  show_overlap_parts (world, copy_box);
}

/* Copies among many small buffers, as a pool has them in one, are as those among any two. */
static void
copies (World *world)
{
  enum
  {
    N = 60
  };
  g_autoptr (GRand) rand = g_rand_new_with_seed (5);
  guchar model[N][700];
  gsize wrong = 0;
  cl_mem buffers[N];

  for (guint i = 0; i < N; i++)
    {
      g_autofree guchar *bytes = promise_pattern (i, sizeof model[i]);

      memcpy (model[i], bytes, sizeof model[i]);
      buffers[i] = promise_buffer (world, CL_MEM_COPY_HOST_PTR, sizeof model[i], bytes);
    }
  for (guint i = 0; i < 3000; i++)
    {
      guint a = g_rand_int_range (rand, 0, N), b = g_rand_int_range (rand, 0, N);
      gsize size = g_rand_int_range (rand, 1, 700), from = g_rand_int_range (rand, 0, 701 - size);
      gsize to = g_rand_int_range (rand, 0, 701 - size);
      cl_int status = clEnqueueCopyBuffer (world->queue, buffers[a], buffers[b], from, to, size, 0,
                                           NULL, NULL);

      if (status == CL_SUCCESS)
        memmove (model[b] + to, model[a] + from, size);
      if ((status != CL_SUCCESS) != (a == b && from < to + size && to < from + size))
        printf ("%u to %u, %zu to %zu, %zu bytes: %s\n", a, b, from, to, size,
                promise_status (status));
    }
  for (guint i = 0; i < N; i++)
    {
      guchar read[sizeof model[i]];

      OK (clEnqueueReadBuffer (world->queue, buffers[i], CL_TRUE, 0, sizeof read, read, 0, NULL,
                               NULL));
      wrong += memcmp (read, model[i], sizeof read) != 0;
      OK (clReleaseMemObject (buffers[i]));
    }
  printf ("%zu wrong\n", wrong);
}

const Promise promises_contents[] = { { "released", released, FALSE },
                                      { "released-behind", released_behind, FALSE },
                                      { "released-same", released_same, FALSE },
                                      { "all-at-once", all_at_once, FALSE },
                                      { "crowded", crowded, FALSE },
                                      { "live", live, FALSE },
                                      { "guards", guards, FALSE },
                                      { "ranges", ranges, FALSE },
                                      { "overlap", overlap, FALSE },
                                      { "overlap-rects", overlap_rects, FALSE },
                                      { "overlap-parts", overlap_parts, FALSE },
                                      { "overlap-parts-rects", overlap_parts_rects, TRUE },
                                      { "copies", copies, FALSE },
                                      { NULL, NULL, FALSE } };
