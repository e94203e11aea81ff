/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A program that nobody changed, with one mistake in what it does with its buffers, or none:
 *     mistakes NUMBER MISTAKE, on the first device of the platform of that number
 *     mistakes NUMBER name, which prints that platform's name
 * It ends with 0 whatever comes of its mistake, and with 77 where a device has not what it needs.
 */

#include <CL/cl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define SIZE 1000

static cl_platform_id platform;
static cl_device_id device;
static cl_context context;
static cl_command_queue queue;
static cl_program program;

static void
check (cl_int status, int line)
{
  if (status == CL_SUCCESS)
    return;
  fprintf (stderr, "mistakes.c:%d: %d\n", line, status);
  abort ();
}

#define OK(call) check ((call), __LINE__)

static cl_mem
make (cl_mem_flags flags, size_t size, void *host)
{
  cl_int status;
  cl_mem buffer = clCreateBuffer (context, flags, size, host, &status);

  OK (status);
  return buffer;
}

static cl_command_queue
make_queue (cl_command_queue_properties properties)
{
  cl_int status;
  cl_command_queue made = clCreateCommandQueue (context, device, properties, &status);

  if (status == CL_INVALID_QUEUE_PROPERTIES)
    exit (77);
  OK (status);
  return made;
}

/* One work item writes one byte, behind what the event stands for. */
static void
write_after (cl_command_queue on, cl_mem buffer, cl_int at, cl_event *before)
{
  const size_t one = 1;
  cl_int status;
  cl_kernel kernel = clCreateKernel (program, "write_byte", &status);

  OK (status);
  OK (clSetKernelArg (kernel, 0, sizeof buffer, &buffer));
  OK (clSetKernelArg (kernel, 1, sizeof at, &at));
  OK (clEnqueueNDRangeKernel (on, kernel, 1, NULL, &one, NULL, before != NULL ? 1 : 0, before,
                              NULL));
  OK (clReleaseKernel (kernel));
}

static void
write_byte (cl_mem buffer, cl_int at)
{
  write_after (queue, buffer, at, NULL);
}

static void
print_name (void)
{
  char name[256];

  OK (clGetPlatformInfo (platform, CL_PLATFORM_NAME, sizeof name, name, NULL));
  puts (name);
}

/* The mistakes */

static void
right (void)
{
  unsigned char host[SIZE];
  cl_mem buffer = make (CL_MEM_READ_WRITE, SIZE, NULL), copy;

  write_byte (buffer, 0);
  write_byte (buffer, SIZE - 1);
  OK (clEnqueueReadBuffer (queue, buffer, CL_TRUE, 0, SIZE, host, 0, NULL, NULL));
  copy = make (CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, SIZE, host);
  memset (host, 0, sizeof host);
  OK (clEnqueueReadBuffer (queue, copy, CL_TRUE, 0, SIZE, host, 0, NULL, NULL));
  if (host[0] != 7 || host[SIZE - 1] != 7)
    abort ();
  OK (clReleaseMemObject (copy));
  OK (clReleaseMemObject (buffer));
}

static void
write_and_release (cl_mem buffer, cl_int at)
{
  write_byte (buffer, at);
  OK (clReleaseMemObject (buffer));
}

static void
behind (void)
{
  write_and_release (make (CL_MEM_READ_WRITE, SIZE, NULL), SIZE);
}

static void
before (void)
{
  write_and_release (make (CL_MEM_READ_WRITE, SIZE, NULL), -1);
}

static void
of_host (void)
{
  write_and_release (make (CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, SIZE, NULL), SIZE);
}

static void
copied (void)
{
  unsigned char host[SIZE] = { 0 };

  write_and_release (make (CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, SIZE, host), SIZE + 2);
}

/* What is behind a part is the rest of the whole, but for the last one. */
static void
part (void)
{
  cl_uint bits;
  cl_buffer_region region = { 0, SIZE };
  cl_mem whole, last;
  cl_int status;

  OK (clGetDeviceInfo (device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof bits, &bits, NULL));
  region.origin = bits / 8;
  whole = make (CL_MEM_READ_WRITE, region.origin + SIZE, NULL);
  last = clCreateSubBuffer (whole, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &status);
  OK (status);
  OK (clReleaseMemObject (whole));
  write_and_release (last, SIZE);
}

/* One that is still there when the program ends, as all that OpenCL has of it. */
static void
kept (void)
{
  write_byte (make (CL_MEM_READ_WRITE, SIZE, NULL), SIZE);
}

static void
unreleased (void)
{
  make (CL_MEM_READ_WRITE, SIZE, NULL);
  make (CL_MEM_READ_WRITE, 2 * SIZE, NULL);
}

static cl_bool
has_images (void)
{
  cl_bool has = CL_FALSE;

  OK (clGetDeviceInfo (device, CL_DEVICE_IMAGE_SUPPORT, sizeof has, &has, NULL));
  return has;
}

static cl_mem
make_image (cl_context in, unsigned width)
{
  const cl_image_format format = { CL_RGBA, CL_UNSIGNED_INT8 };
  const cl_image_desc desc
      = { .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = width, .image_height = 10 };
  cl_int status;
  cl_mem image;

  if (!has_images ())
    exit (77);
  image = clCreateImage (in, CL_MEM_READ_WRITE, &format, &desc, NULL, &status);
  OK (status);
  return image;
}

static void
fill_image (cl_mem image)
{
  const cl_uint colour[4] = { 1, 2, 3, 4 };
  const size_t origin[3] = { 0, 0, 0 }, region[3] = { 10, 10, 1 };

  OK (clEnqueueFillImage (queue, image, colour, origin, region, 0, NULL, NULL));
}

static void
right_images (void)
{
  for (unsigned i = 0; i < 20; i++)
    {
      cl_mem image = make_image (context, 10 + i % 2);

      fill_image (image);
      OK (clReleaseMemObject (image));
    }
}

/* Makes an image of each of the three kinds, and one more that is released. */
static void
unreleased_images (void)
{
  for (unsigned i = 0; i < 3; i++)
    fill_image (make_image (context, 10 + 5 * i));
  right_images ();
}

static void
other_queue (void)
{
  cl_command_queue other = make_queue (0);
  cl_mem buffer = make (CL_MEM_READ_WRITE, SIZE, NULL);

  write_after (other, buffer, 0, NULL);
  OK (clFinish (other));
  write_and_release (buffer, SIZE);
  OK (clReleaseCommandQueue (other));
}

static void
out_of_order (void)
{
  cl_command_queue other = make_queue (CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  cl_mem buffer = make (CL_MEM_READ_WRITE, SIZE, NULL);

  write_after (other, buffer, SIZE, NULL);
  OK (clReleaseMemObject (buffer));
  OK (clReleaseCommandQueue (other));
}

/* It is released before the program lets the command run. */
static void
gated (void)
{
  cl_mem buffer = make (CL_MEM_READ_WRITE, SIZE, NULL);
  cl_int status;
  cl_event gate = clCreateUserEvent (context, &status);

  OK (status);
  write_after (queue, buffer, SIZE, &gate);
  OK (clReleaseMemObject (buffer));
  OK (clReleaseMemObject (make (CL_MEM_READ_WRITE, SIZE, NULL)));
  OK (clSetUserEventStatus (gate, CL_COMPLETE));
  OK (clReleaseEvent (gate));
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int is_released; /* behind the lock */

static void CL_CALLBACK
release_late (cl_event event, cl_int status, void *buffer)
{
  (void) event;
  (void) status;
  clReleaseMemObject (buffer);
  pthread_mutex_lock (&lock);
  is_released = 1;
  pthread_cond_signal (&changed);
  pthread_mutex_unlock (&lock);
}

/* The last reference goes in a callback of the driver's, where nobody may wait.  clFinish () need
 * not wait for the callback. */
static void
called_back (void)
{
  cl_mem buffer = make (CL_MEM_READ_WRITE, SIZE, NULL);
  cl_event event;

  write_byte (buffer, SIZE);
  OK (clEnqueueMarkerWithWaitList (queue, 0, NULL, &event));
  OK (clSetEventCallback (event, CL_COMPLETE, release_late, buffer));
  OK (clFinish (queue));
  pthread_mutex_lock (&lock);
  while (!is_released)
    pthread_cond_wait (&changed, &lock);
  pthread_mutex_unlock (&lock);
  OK (clReleaseEvent (event));
}

static unsigned char *
map (cl_mem buffer)
{
  cl_int status;
  unsigned char *pointer
      = clEnqueueMapBuffer (queue, buffer, CL_TRUE, CL_MAP_WRITE, 0, SIZE, 0, NULL, NULL, &status);

  OK (status);
  return pointer;
}

/* By the host: found where what is mapped is the buffer itself. */
static void
mapped (void)
{
  cl_mem buffer = make (CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, SIZE, NULL);
  unsigned char *pointer = map (buffer);

  pointer[SIZE + 1] = 7;
  OK (clEnqueueUnmapMemObject (queue, buffer, pointer, 0, NULL, NULL));
  OK (clReleaseMemObject (buffer));
}

static int
is_filled (const volatile unsigned char *bytes)
{
  for (int i = 0; i < SIZE; i++)
    if (bytes[i] != 0xff)
      return 0;
  return 1;
}

static void
after_release (void)
{
  cl_mem buffer = make (CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, SIZE, NULL);
  unsigned char *pointer = map (buffer);

  memset (pointer, 7, SIZE);
  OK (clEnqueueUnmapMemObject (queue, buffer, pointer, 0, NULL, NULL));
  OK (clFinish (queue));
  OK (clReleaseMemObject (buffer));
  /* From then on nobody may write there. */
  while (!is_filled (pointer))
    OK (clFlush (queue));
  pointer[3] = 7;
}

#define N_THREADS 4
#define LARGE ((size_t) 512 << 10)

static void *
release_many (void *unused)
{
  const unsigned char byte = 7;

  (void) unused;
  for (int i = 0; i < 400; i++)
    {
      cl_mem buffer = make (CL_MEM_READ_WRITE, LARGE, NULL);

      OK (clEnqueueFillBuffer (queue, buffer, &byte, 1, 0, LARGE, 0, NULL, NULL));
      OK (clReleaseMemObject (buffer));
    }
  return NULL;
}

/* 800 MiB of them, a few at a time, by threads that are faster than who looks at them. */
static void
many (void)
{
  pthread_t threads[N_THREADS];
  struct rusage before, after;

  getrusage (RUSAGE_SELF, &before);
  for (int i = 0; i < N_THREADS; i++)
    OK (pthread_create (&threads[i], NULL, release_many, NULL));
  for (int i = 0; i < N_THREADS; i++)
    pthread_join (threads[i], NULL);
  getrusage (RUSAGE_SELF, &after);
  if (after.ru_maxrss - before.ru_maxrss > 400 << 10)
    fprintf (stderr, "%ld KiB more are in use\n", after.ru_maxrss - before.ru_maxrss);
}

/* Contexts that end while another thread looks at all blocks, theirs as well. */

#define N_ENDING 300
#define MAX_ENDING 10 /* seconds; a driver may take a third of a second for one context */

static int is_over; /* atomic */

static void *
look_again_and_again (void *unused)
{
  (void) unused;
  while (!__atomic_load_n (&is_over, __ATOMIC_ACQUIRE))
    OK (clFinish (queue));
  return NULL;
}

/* Makes a context with released buffers of all kinds, and releases it. */
static void
end_context (void)
{
  cl_int status;
  cl_context ending = clCreateContext (NULL, 1, &device, NULL, NULL, &status);

  OK (status);
  for (int i = 0; i < 8; i++)
    {
      cl_mem buffer = clCreateBuffer (ending, i % 2 == 0 ? 0 : CL_MEM_ALLOC_HOST_PTR, LARGE / 8,
                                      NULL, &status);

      OK (status);
      OK (clReleaseMemObject (buffer));
    }
  if (has_images ())
    OK (clReleaseMemObject (make_image (ending, 10)));
  OK (clReleaseContext (ending));
}

static void
ending_contexts (void)
{
  cl_mem looked_at = make (CL_MEM_READ_WRITE, SIZE, NULL);
  time_t end = time (NULL) + MAX_ENDING;
  pthread_t thread;

  OK (pthread_create (&thread, NULL, look_again_and_again, NULL));
  for (int i = 0; i < N_ENDING && time (NULL) < end; i++)
    end_context ();
  __atomic_store_n (&is_over, 1, __ATOMIC_RELEASE);
  pthread_join (thread, NULL);
  OK (clReleaseMemObject (looked_at));
}

/* Makes a buffer, and a command that uses it and waits for @gate: the layer keeps the memory until
 * the command is done. */
static cl_mem
make_gated (cl_event *gate)
{
  static const unsigned char zero;
  cl_int status;
  cl_mem buffer = make (CL_MEM_READ_WRITE, SIZE, NULL);

  *gate = clCreateUserEvent (context, &status);
  OK (status);
  OK (clEnqueueFillBuffer (queue, buffer, &zero, 1, 0, SIZE, 1, gate, NULL));
  OK (clFlush (queue));
  return buffer;
}

static void
open_gate (cl_event gate)
{
  OK (clSetUserEventStatus (gate, CL_COMPLETE));
  OK (clFinish (queue));
  OK (clReleaseEvent (gate));
}

static void
read_after_release (void)
{
  unsigned char byte;
  cl_event gate;
  cl_mem buffer = make_gated (&gate);

  OK (clReleaseMemObject (buffer));
  clEnqueueReadBuffer (queue, buffer, CL_FALSE, 0, 1, &byte, 0, NULL, NULL);
  open_gate (gate);
}

static cl_kernel
make_kernel (cl_mem buffer)
{
  cl_int status, at = 3;
  cl_kernel kernel = clCreateKernel (program, "write_byte", &status);

  OK (status);
  clSetKernelArg (kernel, 0, sizeof buffer, &buffer);
  OK (clSetKernelArg (kernel, 1, sizeof at, &at));
  return kernel;
}

/* Its kernel still has it as an argument. */
static void
launched_after_release (void)
{
  const size_t one = 1;
  cl_event gate;
  cl_mem buffer = make_gated (&gate);
  cl_kernel kernel = make_kernel (buffer);

  OK (clReleaseMemObject (buffer));
  clEnqueueNDRangeKernel (queue, kernel, 1, NULL, &one, NULL, 0, NULL, NULL);
  open_gate (gate);
  OK (clReleaseKernel (kernel));
}

static void
set_after_release (void)
{
  cl_event gate;
  cl_mem buffer = make_gated (&gate);

  OK (clReleaseMemObject (buffer));
  OK (clReleaseKernel (make_kernel (buffer)));
  open_gate (gate);
}

static void
released_twice (void)
{
  cl_event gate;
  cl_mem buffer = make_gated (&gate);

  OK (clReleaseMemObject (buffer));
  if (clReleaseMemObject (buffer) != CL_INVALID_MEM_OBJECT)
    abort ();
  open_gate (gate);
}

/* The commands are done, and nothing looked at the buffer since: clFinish () does. */
static void
write_and_wait (cl_mem buffer, cl_int at)
{
  unsigned char byte;

  write_byte (buffer, at);
  OK (clEnqueueReadBuffer (queue, buffer, CL_TRUE, 0, 1, &byte, 0, NULL, NULL));
}

static void
behind_and_abort (void)
{
  write_and_wait (make (CL_MEM_READ_WRITE, SIZE, NULL), SIZE + 2);
  abort ();
}

/* PoCL has LLVM, which handles these signals: here nobody does. */
static void
behind_and_raise (void)
{
  signal (SIGILL, SIG_DFL);
  write_and_wait (make (CL_MEM_READ_WRITE, SIZE, NULL), SIZE);
  raise (SIGILL);
}

static void
behind_and_fault (void)
{
  volatile int *volatile nowhere = NULL;

  signal (SIGSEGV, SIG_DFL);
  write_and_wait (make (CL_MEM_READ_WRITE, SIZE, NULL), SIZE);
  *nowhere = 1;
}

static void
before_and_fault (void)
{
  volatile int *volatile nowhere = NULL;

  write_and_wait (make (CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, SIZE, NULL), -1);
  *nowhere = 1;
}

static void
right_and_fault (void)
{
  volatile int *volatile nowhere = NULL;

  write_and_wait (make (CL_MEM_READ_WRITE, SIZE, NULL), SIZE - 1);
  *nowhere = 1;
}

static void
exit_by_handler (int number)
{
  (void) number;
  _exit (55);
}

/* The program's own handler, of before its first buffer, has the last word. */
static void
behind_and_handled (void)
{
  struct sigaction action = { .sa_handler = exit_by_handler };

  sigaction (SIGABRT, &action, NULL);
  behind_and_abort ();
}

static void
behind_and_finish (void)
{
  write_byte (make (CL_MEM_READ_WRITE, SIZE, NULL), SIZE);
  OK (clFinish (queue));
  kill (getpid (), SIGKILL);
}

static void
mapped_and_killed (void)
{
  cl_mem buffer = make (CL_MEM_READ_WRITE, SIZE, NULL);
  unsigned char *pointer = map (buffer);

  pointer[SIZE + 1] = 7;
  OK (clEnqueueUnmapMemObject (queue, buffer, pointer, 0, NULL, NULL));
  kill (getpid (), SIGKILL);
}

static const struct
{
  const char *name;
  void (*func) (void);
} mistakes[] = { { "name", print_name },
                 { "right", right },
                 { "many", many },
                 { "ending-contexts", ending_contexts },
                 { "behind", behind },
                 { "before", before },
                 { "of-host", of_host },
                 { "copied", copied },
                 { "part", part },
                 { "kept", kept },
                 { "unreleased", unreleased },
                 { "right-images", right_images },
                 { "unreleased-images", unreleased_images },
                 { "other-queue", other_queue },
                 { "out-of-order", out_of_order },
                 { "gated", gated },
                 { "called-back", called_back },
                 { "mapped", mapped },
                 { "after-release", after_release },
                 { "read-after-release", read_after_release },
                 { "launched-after-release", launched_after_release },
                 { "set-after-release", set_after_release },
                 { "released-twice", released_twice },
                 { "behind-and-abort", behind_and_abort },
                 { "behind-and-raise", behind_and_raise },
                 { "behind-and-fault", behind_and_fault },
                 { "before-and-fault", before_and_fault },
                 { "right-and-fault", right_and_fault },
                 { "behind-and-handled", behind_and_handled },
                 { "behind-and-finish", behind_and_finish },
                 { "mapped-and-killed", mapped_and_killed } };

static void
begin (cl_uint number)
{
  static const char *const source
      = "kernel void write_byte (global uchar *bytes, int at) { bytes[at] = 7; }";
  const char *text = source;
  cl_platform_id platforms[16];
  cl_uint n;
  cl_int status;

  OK (clGetPlatformIDs (16, platforms, &n));
  if (number >= n)
    exit (2);
  platform = platforms[number];
  OK (clGetDeviceIDs (platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
  context = clCreateContext (NULL, 1, &device, NULL, NULL, &status);
  OK (status);
  queue = make_queue (0);
  program = clCreateProgramWithSource (context, 1, &text, NULL, &status);
  OK (status);
  OK (clBuildProgram (program, 1, &device, NULL, NULL, NULL));
}

static void
end (void)
{
  OK (clReleaseProgram (program));
  OK (clReleaseCommandQueue (queue));
  OK (clReleaseContext (context));
}

int
main (int argc, char **argv)
{
  if (argc != 3)
    return 2;
  begin ((cl_uint) strtoul (argv[1], NULL, 10));
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
    if (strcmp (argv[2], mistakes[i].name) == 0)
      {
        mistakes[i].func ();
        if (mistakes[i].func != kept)
          end ();
        return 0;
      }
  return 2;
}
