/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Measures the cost of buffers in a program that does not use Tarn, alone and under the layer
 * (tarn-run layer-cost).  Each thread has a queue; it creates a buffer, fills it, lets a kernel
 * change it and releases it, again and again.  Every 16th one is read back.  Times depend on the
 * machine: read the ratios. */

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS

#include <CL/cl.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK_EVERY 16 /* buffers */

static gint n_threads = 8, n_buffers = 500, platform_number, kibibytes = 1024;
static gboolean is_mixed, is_kept;

static const GOptionEntry entries[] = {
  { "threads", 't', 0, G_OPTION_ARG_INT, &n_threads, "Threads, with a queue each [8]", "N" },
  { "buffers", 'b', 0, G_OPTION_ARG_INT, &n_buffers, "Buffers that each makes [500]", "N" },
  { "size", 's', 0, G_OPTION_ARG_INT, &kibibytes, "KiB of each [1024]", "N" },
  { "mixed", 'm', 0, G_OPTION_ARG_NONE, &is_mixed, "Of 1 KiB up to this size", NULL },
  { "keep", 'k', 0, G_OPTION_ARG_NONE, &is_kept, "One buffer a thread: what the rest costs", NULL },
  { "platform", 'p', 0, G_OPTION_ARG_INT, &platform_number, "Whose first device it is [0]", "N" },
  { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL }
};

#define OK(call) check ((call), #call)

static void
check (cl_int status, const gchar *call)
{
  if (status == CL_SUCCESS)
    return;
  fprintf (stderr, "layer-cost: %s: %d\n", call, status);
  exit (1);
}

typedef struct
{
  cl_context context;
  cl_command_queue queue;
  cl_kernel kernel;
  guint32 random;
  gint64 microseconds; /* for making and releasing buffers */
  gint64 first;        /* ... for their first commands */
  guint64 n_wrong;     /* words */
} Worker;

static gsize
choose_words (Worker *self)
{
  gsize most = (gsize) kibibytes * 256;

  if (!is_mixed)
    return most;
  self->random = self->random * 1664525u + 1013904223u;
  return 256 + (gsize) (self->random >> 8) % (most - 255);
}

/* Checks that each word has the value that the fill and the kernel give it. */
static void
read_back (Worker *self, cl_mem buffer, gsize n_words, cl_uint expected)
{
  g_autofree cl_uint *words = g_new (cl_uint, n_words);

  OK (clEnqueueReadBuffer (self->queue, buffer, CL_TRUE, 0, n_words * sizeof *words, words, 0, NULL,
                           NULL));
  for (gsize i = 0; i < n_words; i++)
    self->n_wrong += words[i] != expected;
}

static void
use (Worker *self, cl_mem buffer, gsize n_words, cl_uint value, gboolean is_read)
{
  gint64 start = g_get_monotonic_time ();

  OK (clEnqueueFillBuffer (self->queue, buffer, &value, sizeof value, 0, n_words * sizeof value, 0,
                           NULL, NULL));
  self->first += g_get_monotonic_time () - start;
  OK (clSetKernelArg (self->kernel, 0, sizeof buffer, &buffer));
  OK (clEnqueueNDRangeKernel (self->queue, self->kernel, 1, NULL, &n_words, NULL, 0, NULL, NULL));
  if (is_read)
    read_back (self, buffer, n_words, value + 1);
}

static cl_mem
make (Worker *self, gsize n_words)
{
  gint64 start = g_get_monotonic_time ();
  cl_int status = CL_SUCCESS;
  cl_mem buffer = clCreateBuffer (self->context, CL_MEM_READ_WRITE, 4 * n_words, NULL, &status);

  self->microseconds += g_get_monotonic_time () - start;
  check (status, "clCreateBuffer");
  return buffer;
}

static void
release (Worker *self, cl_mem buffer)
{
  gint64 start = g_get_monotonic_time ();

  OK (clReleaseMemObject (buffer));
  self->microseconds += g_get_monotonic_time () - start;
}

static gpointer
work (gpointer data)
{
  Worker *self = data;
  cl_mem kept = is_kept ? make (self, (gsize) kibibytes * 256) : NULL;

  for (gint i = 0; i < n_buffers; i++)
    {
      gsize n_words = choose_words (self);
      cl_mem buffer = is_kept ? kept : make (self, n_words);

      use (self, buffer, n_words, (cl_uint) i * 7, i % CHECK_EVERY == 0);
      if (!is_kept)
        release (self, buffer);
    }
  OK (clFinish (self->queue));
  if (is_kept)
    release (self, kept);
  return NULL;
}

static cl_device_id
choose_device (void)
{
  cl_platform_id platforms[16];
  cl_device_id device = NULL;
  cl_uint n = 0;

  OK (clGetPlatformIDs (G_N_ELEMENTS (platforms), platforms, &n));
  if (platform_number < 0 || (guint) platform_number >= n)
    {
      fprintf (stderr, "layer-cost: there is no OpenCL platform %d\n", platform_number);
      exit (77);
    }
  OK (clGetDeviceIDs (platforms[platform_number], CL_DEVICE_TYPE_ALL, 1, &device, NULL));
  return device;
}

static void
set_up (Worker *workers, cl_device_id device)
{
  const gchar *source = "kernel void add (global uint *words) { words[get_global_id (0)]++; }";
  cl_int status = CL_SUCCESS;
  cl_context context = clCreateContext (NULL, 1, &device, NULL, NULL, &status);
  cl_program program;

  check (status, "clCreateContext");
  program = clCreateProgramWithSource (context, 1, &source, NULL, &status);
  check (status, "clCreateProgramWithSource");
  OK (clBuildProgram (program, 1, &device, "", NULL, NULL));
  for (gint i = 0; i < n_threads; i++)
    {
      workers[i].context = context;
      workers[i].random = (guint32) i + 1;
      workers[i].queue = clCreateCommandQueue (context, device, 0, &status);
      check (status, "clCreateCommandQueue");
      workers[i].kernel = clCreateKernel (program, "add", &status);
      check (status, "clCreateKernel");
    }
}

static void
report (const Worker *workers, gint64 wall)
{
  gdouble n = (gdouble) n_threads * n_buffers, microseconds = 0, first = 0;
  guint64 n_wrong = 0;

  for (gint i = 0; i < n_threads; i++)
    {
      microseconds += (gdouble) workers[i].microseconds;
      first += (gdouble) workers[i].first;
      n_wrong += workers[i].n_wrong;
    }
  printf ("%8s %8s %14s %14s %14s %8s\n", "threads", "KiB", "us a buffer", "first command",
          "all, threads", "wrong");
  printf ("%8d %8d %14.3f %14.3f %14.3f %8" G_GUINT64_FORMAT "\n", n_threads, kibibytes,
          microseconds / n, first / n, (gdouble) wall / n_buffers, n_wrong);
}

int
main (int argc, char **argv)
{
  g_autoptr (GOptionContext) options = g_option_context_new (NULL);
  g_autoptr (GPtrArray) threads = g_ptr_array_new ();
  g_autoptr (GError) error = NULL;
  g_autofree Worker *workers = NULL;
  gint64 start;

  g_option_context_add_main_entries (options, entries, NULL);
  if (!g_option_context_parse (options, &argc, &argv, &error) || n_threads < 1 || n_threads > 64
      || n_buffers < 1 || kibibytes < 1 || kibibytes > 1 << 20)
    {
      fprintf (stderr, "layer-cost: %s\n",
               error != NULL ? error->message : "1 to 64 threads, buffers of 1 KiB to 1 GiB");
      return 2;
    }
  workers = g_new0 (Worker, n_threads);
  set_up (workers, choose_device ());
  start = g_get_monotonic_time ();
  for (gint i = 0; i < n_threads; i++)
    g_ptr_array_add (threads, g_thread_new ("worker", work, &workers[i]));
  for (gint i = 0; i < n_threads; i++)
    g_thread_join (g_ptr_array_index (threads, i));
  report (workers, g_get_monotonic_time () - start);
  return 0;
}
