/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Several queues, threads and devices. */

#include "promises.h"

#define N_QUEUES 3
#define N_THREADS 4

/* A buffer wanders from queue to queue, each waits for the one before; it is released on the way.
 */
static void
queues (World *world)
{
  enum
  {
    N = 200
  };
  cl_command_queue row[N_QUEUES];
  cl_kernel fill = promise_kernel (world, "fill"), add = promise_kernel (world, "add");
  guchar *reads[N];
  gsize wrong = 0;

  for (guint i = 0; i < N_QUEUES; i++)
    row[i] = promise_queue (world, 0);
  for (guint i = 0; i < N; i++)
    {
      gsize size = 1 + i * 61;
      cl_mem buffer = promise_buffer (world, 0, size, NULL);
      cl_event before = NULL, event = NULL;

      reads[i] = g_malloc0 (size);
      for (guint k = 0; k < 5; k++)
        {
          promise_set (k == 0 ? fill : add, buffer, size, k == 0 ? i : k);
          promise_launch (row[(i + k) % N_QUEUES], k == 0 ? fill : add, k > 0, &before, &event);
          OK (clFlush (row[(i + k) % N_QUEUES]));
          if (before != NULL)
            OK (clReleaseEvent (before));
          before = event;
        }
      OK (clEnqueueReadBuffer (row[i % N_QUEUES], buffer, CL_FALSE, 0, size, reads[i], 1, &before,
                               NULL));
      OK (clReleaseEvent (before));
      OK (clReleaseMemObject (buffer));
    }
  for (guint i = 0; i < N_QUEUES; i++)
    {
      OK (clFinish (row[i]));
      OK (clReleaseCommandQueue (row[i]));
    }
  for (guint i = 0; i < N; i++)
    {
      wrong += promise_count_wrong (reads[i], 1 + i * 61, i, 10);
      g_free (reads[i]);
    }
  printf ("%zu wrong\n", wrong);
  OK (clReleaseKernel (fill));
  OK (clReleaseKernel (add));
}

/* One queue holds a buffer behind a gate, long after its release, while another queue goes on with
 * new ones: none of them is the held one's memory. */
static void
queues_apart (World *world)
{
  cl_command_queue slow = promise_queue (world, 0), fast = promise_queue (world, 0);
  cl_kernel fill = promise_kernel (world, "fill");
  cl_event gate = promise_gate (world);
  gsize wrong = 0;
  guchar *reads[50];

  OK (clEnqueueBarrierWithWaitList (slow, 1, &gate, NULL));
  for (guint i = 0; i < G_N_ELEMENTS (reads); i++)
    {
      cl_mem buffer = promise_filled (world, 2000, i);

      reads[i] = g_malloc0 (2000);
      OK (clEnqueueReadBuffer (slow, buffer, CL_FALSE, 0, 2000, reads[i], 0, NULL, NULL));
      OK (clReleaseMemObject (buffer));
      for (guint k = 0; k < 10; k++)
        {
          cl_mem other = promise_buffer (world, 0, 2000, NULL);

          promise_run (fast, fill, other, 2000, 100 + k);
          wrong += promise_read_wrong (fast, other, 0, 2000, 100 + k, 0);
          OK (clReleaseMemObject (other));
        }
    }
  OK (clFlush (slow));
  promise_open (gate);
  OK (clFinish (slow));
  for (guint i = 0; i < G_N_ELEMENTS (reads); i++)
    {
      wrong += promise_count_wrong (reads[i], 2000, i, 0);
      g_free (reads[i]);
    }
  printf ("%zu wrong\n", wrong);
  OK (clReleaseCommandQueue (slow));
  OK (clReleaseCommandQueue (fast));
  OK (clReleaseKernel (fill));
}

/* A gate is open, and a second queue is gone: from then on there is one queue again, which holds
 * buffers long after their release. */
static void
queue_alone (World *world)
{
  enum
  {
    N = 100
  };
  cl_command_queue other = promise_queue (world, 0);
  cl_kernel fill = promise_kernel (world, "fill");
  cl_event gate = promise_gate (world);
  gsize wrong = 0;
  guchar reads[N][64];

  for (guint i = 0; i < 10; i++)
    {
      cl_mem buffer = promise_filled (world, 2000, i);

      OK (clEnqueueReadBuffer (other, buffer, CL_FALSE, 0, 64, reads[i], 1, &gate, NULL));
      OK (clReleaseMemObject (buffer));
    }
  OK (clFlush (other));
  promise_open (gate);
  OK (clFinish (other));
  OK (clReleaseCommandQueue (other));
  for (guint i = 0; i < 10; i++)
    wrong += promise_count_wrong (reads[i], 64, i, 0);
  for (guint i = 0; i < N; i++)
    {
      cl_mem buffer = promise_buffer (world, 0, 4 * MIB, NULL);

      promise_run (world->queue, fill, buffer, 4 * MIB, i);
      OK (clEnqueueReadBuffer (world->queue, buffer, CL_FALSE, 4 * MIB - 64, 64, reads[i], 0, NULL,
                               NULL));
      OK (clReleaseMemObject (buffer));
    }
  OK (clFinish (world->queue));
  for (guint i = 0; i < N; i++)
    for (guint k = 0; k < 64; k++)
      wrong += reads[i][k] != promise_byte (i, 4 * MIB - 64 + k);
  printf ("%zu wrong\n", wrong);
  OK (clReleaseKernel (fill));
}

/* Chains of events in a queue out of order, many at once. */
static void
out_of_order (World *world)
{
  enum
  {
    N = 100
  };
  cl_command_queue_properties can = 0;
  cl_kernel fill = promise_kernel (world, "fill"), add = promise_kernel (world, "add");
  cl_command_queue queue;
  guchar *reads[N];
  gsize wrong = 0;

  OK (clGetDeviceInfo (world->device, CL_DEVICE_QUEUE_ON_HOST_PROPERTIES, sizeof can, &can, NULL));
  if (!(can & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE))
    promise_skip ("all queues are in order");
  queue = promise_queue (world, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  for (guint i = 0; i < N; i++)
    {
      gsize size = 1 + i * 131 % 9000;
      cl_mem buffer = promise_buffer (world, 0, size, NULL);
      cl_event chain[6];

      reads[i] = g_malloc0 (size);
      promise_set (fill, buffer, size, i);
      promise_launch (queue, fill, 0, NULL, &chain[0]);
      for (guint k = 1; k < 5; k++)
        {
          promise_set (add, buffer, size, k);
          promise_launch (queue, add, 1, &chain[k - 1], &chain[k]);
        }
      OK (clEnqueueReadBuffer (queue, buffer, CL_FALSE, 0, size, reads[i], 1, &chain[4],
                               &chain[5]));
      OK (clReleaseMemObject (buffer));
      for (guint k = 0; k < G_N_ELEMENTS (chain); k++)
        OK (clReleaseEvent (chain[k]));
    }
  OK (clFinish (queue));
  for (guint i = 0; i < N; i++)
    {
      wrong += promise_count_wrong (reads[i], 1 + i * 131 % 9000, i, 10);
      g_free (reads[i]);
    }
  printf ("%zu wrong\n", wrong);
  OK (clReleaseCommandQueue (queue));
  OK (clReleaseKernel (fill));
  OK (clReleaseKernel (add));
}

/* Threads */

typedef struct
{
  World *world;
  guint id;
  gsize wrong;
  cl_mem shared; /* all threads' */
} Worker;

typedef struct
{
  gsize size;
  guint seed;
  cl_mem buffer;
} Live;

static void
worker_start (Worker *self, Live *one, cl_command_queue queue, cl_kernel fill, GRand *rand)
{
  one->size = 1 + g_rand_int_range (rand, 0, 1 << g_rand_int_range (rand, 1, 14));
  one->seed = g_rand_int (rand);
  one->buffer = promise_buffer (self->world, 0, one->size, NULL);
  if (g_rand_boolean (rand))
    promise_run (queue, fill, one->buffer, one->size, one->seed);
  else
    promise_write (queue, one->buffer, 0, one->size, one->seed);
}

static gpointer
worker_run (gpointer data)
{
  Worker *self = data;
  cl_command_queue queue = promise_queue (self->world, 0);
  cl_kernel fill = promise_kernel (self->world, "fill");
  g_autoptr (GRand) rand = g_rand_new_with_seed (self->id);
  Live lives[16] = { { .buffer = NULL } };

  for (guint i = 0; i < 1500; i++)
    {
      Live *one = &lives[g_rand_int_range (rand, 0, G_N_ELEMENTS (lives))];

      if (one->buffer == NULL)
        {
          worker_start (self, one, queue, fill, rand);
          continue;
        }
      self->wrong += promise_read_wrong (queue, one->buffer, 0, one->size, one->seed, 0);
      if (g_rand_boolean (rand)) /* goes while it is used */
        promise_run (queue, fill, one->buffer, one->size, 1);
      OK (clReleaseMemObject (one->buffer));
      one->buffer = NULL;
    }
  for (guint i = 0; i < G_N_ELEMENTS (lives); i++)
    if (lives[i].buffer != NULL)
      OK (clReleaseMemObject (lives[i].buffer));
  OK (clFinish (queue));
  OK (clReleaseKernel (fill));
  OK (clReleaseCommandQueue (queue));
  return NULL;
}

static void
run_workers (World *world, GThreadFunc run, cl_mem shared)
{
  GThread *row[N_THREADS];
  Worker workers[N_THREADS];
  gsize wrong = 0;

  OK (clReleaseKernel (
      promise_kernel (world, "fill"))); /* builds the program before there are threads */
  for (guint i = 0; i < N_THREADS; i++)
    {
      workers[i] = (Worker){ .world = world, .id = i, .shared = shared };
      row[i] = g_thread_new ("worker", run, &workers[i]);
    }
  for (guint i = 0; i < N_THREADS; i++)
    {
      g_thread_join (row[i]);
      wrong += workers[i].wrong;
    }
  printf (wrong == 0 ? "all was right\n" : "something was wrong\n");
}

static void
threads (World *world)
{
  run_workers (world, worker_run, NULL);
}

static gpointer
worker_share (gpointer data)
{
  Worker *self = data;
  cl_command_queue queue = promise_queue (self->world, 0);
  gsize alignment = promise_get_alignment (self->world);

  for (guint i = 0; i < 1000; i++)
    {
      cl_mem part;

      OK (clRetainMemObject (self->shared));
      part = promise_part (self->shared, 0, self->id * alignment, alignment);
      OK (clReleaseMemObject (self->shared));
      promise_write (queue, part, 0, alignment, i + self->id);
      self->wrong += promise_read_wrong (queue, part, 0, alignment, i + self->id, 0);
      OK (clReleaseMemObject (part));
    }
  OK (clReleaseCommandQueue (queue));
  return NULL;
}

/* All have the same buffer, each a part of its own. */
static void
threads_share (World *world)
{
  gsize size = (N_THREADS + 1) * promise_get_alignment (world);
  cl_mem shared = promise_filled (world, size, 1);

  run_workers (world, worker_share, shared);
  printf ("held by %u\n", promise_wait_count (shared, 1));
  OK (clReleaseMemObject (shared));
}

static gpointer
worker_end (gpointer data)
{
  cl_mem *buffers = data;

  for (guint i = 0; buffers[i] != NULL; i++)
    OK (clReleaseMemObject (buffers[i]));
  return NULL;
}

/* One thread makes and uses what another, which ends, lets go of. */
static void
threads_pass (World *world)
{
  enum
  {
    N = 100
  };
  gsize wrong = 0;

  for (guint round = 0; round < 20; round++)
    {
      cl_mem buffers[N + 1] = { NULL };
      guchar *reads[N];
      GThread *thread;

      for (guint i = 0; i < N; i++)
        {
          reads[i] = g_malloc0 (1 + 11 * i);
          buffers[i] = promise_filled (world, 1 + 11 * i, i);
          OK (clEnqueueReadBuffer (world->queue, buffers[i], CL_FALSE, 0, 1 + 11 * i, reads[i], 0,
                                   NULL, NULL));
        }
      thread = g_thread_new ("end", worker_end, buffers);
      OK (clFinish (world->queue));
      g_thread_join (thread);
      for (guint i = 0; i < N; i++)
        {
          wrong += promise_count_wrong (reads[i], 1 + 11 * i, i, 0);
          g_free (reads[i]);
        }
    }
  printf ("%zu wrong\n", wrong);
}

/* Devices */

typedef struct
{
  World world; /* its queue is the first device's */
  cl_uint n;
  cl_command_queue queues[8];
} Devices;

static void
devices_open (World *world, Devices *self)
{
  cl_uint n = 0;
  g_autofree cl_device_id *devices = promise_get_devices (world->platform, &n);
  cl_int status = 99;

  if (n < 2)
    promise_skip ("the platform has one device");
  memset (self, 0, sizeof *self);
  self->n = MIN (n, G_N_ELEMENTS (self->queues));
  self->world.platform = world->platform;
  self->world.device = devices[0];
  self->world.context = clCreateContext (NULL, self->n, devices, NULL, NULL, &status);
  promise_check (status, "clCreateContext");
  for (cl_uint i = 0; i < self->n; i++)
    {
      self->queues[i] = clCreateCommandQueue (self->world.context, devices[i], 0, &status);
      promise_check (status, "clCreateCommandQueue");
    }
  self->world.queue = self->queues[0];
}

static void
devices_close (Devices *self)
{
  for (cl_uint i = 0; i < self->n; i++)
    {
      OK (clFinish (self->queues[i]));
      OK (clReleaseCommandQueue (self->queues[i]));
    }
  if (self->world.program != NULL)
    OK (clReleaseProgram (self->world.program));
  OK (clReleaseContext (self->world.context));
}

/* A buffer is used on each device in turn: its contents go with it. */
static void
devices (World *world)
{
  static const gsize sizes[] = { 1, 513, 70001 };
  cl_kernel add;
  Devices all;

  devices_open (world, &all);
  add = promise_kernel (&all.world, "add");
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      cl_mem buffer = promise_filled (&all.world, sizes[i], i);

      for (guint k = 0; k < 20; k++)
        {
          promise_run (all.queues[k % all.n], add, buffer, sizes[i], 1);
          OK (clFinish (all.queues[k % all.n]));
          if (k % 5 == 4)
            OK (clEnqueueMigrateMemObjects (all.queues[k / 5 % all.n], 1, &buffer, 0, 0, NULL,
                                            NULL));
          printf ("%zu wrong\n", promise_read_wrong (all.queues[(k + k / 7) % all.n], buffer, 0,
                                                     sizes[i], i, 1 + k));
        }
      OK (clReleaseMemObject (buffer));
    }
  OK (clReleaseKernel (add));
  devices_close (&all);
}

/* Several buffers on different devices at once, neighbours in many a pool. */
static void
devices_apart (World *world)
{
  enum
  {
    N = 24
  };
  cl_kernel add;
  Devices all;

  devices_open (world, &all);
  add = promise_kernel (&all.world, "add");
  for (guint round = 0; round < 10; round++)
    {
      gsize wrong = 0;
      cl_mem buffers[N];

      for (guint i = 0; i < N; i++)
        buffers[i] = promise_filled (&all.world, 700 + i, i);
      for (guint k = 0; k < 20; k++)
        for (guint i = 0; i < N; i++)
          promise_run (all.queues[i % all.n], add, buffers[i], 700 + i, 1);
      for (guint i = 0; i < all.n; i++)
        OK (clFinish (all.queues[i]));
      for (guint i = 0; i < N; i++)
        promise_run (all.queues[(i + 1) % all.n], add, buffers[i], 700 + i, 1);
      for (guint i = 0; i < all.n; i++)
        OK (clFinish (all.queues[i]));
      for (guint i = 0; i < N; i++)
        {
          wrong += promise_read_wrong (all.queues[round % all.n], buffers[i], 0, 700 + i, i, 21);
          OK (clReleaseMemObject (buffers[i]));
        }
      printf ("%zu wrong\n", wrong);
    }
  OK (clReleaseKernel (add));
  devices_close (&all);
}

/* Released right after a command on one device was enqueued, made anew for the other. */
static void
devices_released (World *world)
{
  enum
  {
    N = 400
  };
  cl_kernel fill;
  guchar *reads[N];
  gsize wrong = 0;
  Devices all;

  devices_open (world, &all);
  fill = promise_kernel (&all.world, "fill");
  for (guint i = 0; i < N; i++)
    {
      cl_command_queue queue = all.queues[i % all.n];
      gsize size = 1 + 37 * (i / 10);
      cl_mem buffer = promise_buffer (&all.world, 0, size, NULL);

      reads[i] = g_malloc0 (size);
      promise_run (queue, fill, buffer, size, i);
      OK (clEnqueueReadBuffer (queue, buffer, CL_FALSE, 0, size, reads[i], 0, NULL, NULL));
      OK (clReleaseMemObject (buffer));
    }
  for (guint i = 0; i < all.n; i++)
    OK (clFinish (all.queues[i]));
  for (guint i = 0; i < N; i++)
    {
      wrong += promise_count_wrong (reads[i], 1 + 37 * (i / 10), i, 0);
      g_free (reads[i]);
    }
  printf ("%zu wrong\n", wrong);
  OK (clReleaseKernel (fill));
  devices_close (&all);
}

const Promise promises_queues[] = { { "queues", queues, FALSE },
                                    { "queues-apart", queues_apart, FALSE },
                                    { "queue-alone", queue_alone, FALSE },
                                    { "out-of-order", out_of_order, FALSE },
                                    { "threads", threads, FALSE },
                                    { "threads-share", threads_share, FALSE },
                                    { "threads-pass", threads_pass, FALSE },
                                    { "devices", devices, FALSE },
                                    { "devices-apart", devices_apart, FALSE },
                                    { "devices-released", devices_released, FALSE },
                                    { NULL, NULL, FALSE } };
