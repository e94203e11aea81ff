/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 *     unload LOADER...
 *     unload --where LOADER
 *
 * Opens each OpenCL loader in turn, puts commands on two queues, releases everything, and unloads
 * the loader while the commands still run.  unload.t runs it under the layer.  --where prints the
 * loader's file. */

#define _GNU_SOURCE /* dladdr () */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS

#include <CL/cl.h>
#include <dlfcn.h>
#include <glib.h>
#include <string.h>

#define N_QUEUES 2
#define N_BUFFERS 8
#define SIZE (32 << 20) /* bytes; a device takes some milliseconds to fill them */

#define FUNCTIONS(_)                                                                               \
  _ (clGetPlatformIDs)                                                                             \
  _ (clGetDeviceIDs)                                                                               \
  _ (clCreateContext)                                                                              \
  _ (clCreateCommandQueue)                                                                         \
  _ (clCreateBuffer)                                                                               \
  _ (clEnqueueFillBuffer)                                                                          \
  _ (clFlush)                                                                                      \
  _ (clReleaseMemObject)                                                                           \
  _ (clReleaseCommandQueue)                                                                        \
  _ (clReleaseContext)

#define MEMBER(name) __typeof__ (&name) name;
#define FIND(name)                                                                                 \
  cl->name = (__typeof__ (&name)) dlsym (library, #name);                                          \
  if (cl->name == NULL)                                                                            \
    g_error ("%s", dlerror ());

typedef struct
{
  FUNCTIONS (MEMBER)
} Functions;

static void
check (cl_int status, const gchar *call)
{
  if (status != CL_SUCCESS)
    g_error ("%s: %d", call, status);
}
#define OK(call) check ((call), #call)

static void
fill (const Functions *cl, cl_context context, cl_command_queue queue)
{
  const cl_int one = 1;
  cl_int status;
  cl_mem buffer = cl->clCreateBuffer (context, CL_MEM_READ_WRITE, SIZE, NULL, &status);

  OK (status);
  OK (cl->clEnqueueFillBuffer (queue, buffer, &one, sizeof one, 0, SIZE, 0, NULL, NULL));
  OK (cl->clFlush (queue));
  OK (cl->clReleaseMemObject (buffer));
}

/* FALSE: there is no device. */
static gboolean
compute (const Functions *cl)
{
  cl_command_queue queues[N_QUEUES];
  cl_platform_id platform;
  cl_device_id device;
  cl_context context;
  cl_int status;

  if (cl->clGetPlatformIDs (1, &platform, NULL) != CL_SUCCESS
      || cl->clGetDeviceIDs (platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS)
    return FALSE;
  context = cl->clCreateContext (NULL, 1, &device, NULL, NULL, &status);
  OK (status);
  for (guint i = 0; i < N_QUEUES; i++)
    {
      queues[i] = cl->clCreateCommandQueue (context, device, 0, &status);
      OK (status);
    }
  for (guint i = 0; i < N_BUFFERS; i++)
    fill (cl, context, queues[i % N_QUEUES]);
  for (guint i = 0; i < N_QUEUES; i++)
    OK (cl->clReleaseCommandQueue (queues[i]));
  OK (cl->clReleaseContext (context));
  return TRUE;
}

static gboolean
use (const gchar *loader)
{
  gpointer library = dlopen (loader, RTLD_NOW | RTLD_LOCAL);
  Functions functions, *cl = &functions;
  gboolean has_device;

  if (library == NULL)
    g_error ("%s", dlerror ());
  FUNCTIONS (FIND)
  has_device = compute (cl);
  dlclose (library);
  return has_device;
}

static void
print_file (const gchar *loader)
{
  gpointer library = dlopen (loader, RTLD_NOW | RTLD_LOCAL);
  Dl_info info;

  if (library == NULL)
    g_error ("%s", dlerror ());
  if (dladdr (dlsym (library, "clGetPlatformIDs"), &info) != 0)
    g_print ("%s\n", info.dli_fname);
}

int
main (int argc, char **argv)
{
  if (argc == 3 && strcmp (argv[1], "--where") == 0)
    {
      print_file (argv[2]);
      return 0;
    }
  for (int i = 1; i < argc; i++)
    {
      if (!use (argv[i]))
        return 77;
      g_usleep (G_USEC_PER_SEC); /* commands end, and the layer hears of it, or dies */
    }
  g_print ("still there\n");
  return 0;
}
