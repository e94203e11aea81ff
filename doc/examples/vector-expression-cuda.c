/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * vector-expression on CUDA.  Its build needs no toolkit: Tarn opens the driver, and so does this
 * file for functions that Tarn does not use.  The kernels are text for the driver's compiler.
 */

#include <dlfcn.h>
#include <stdio.h>
#include <tarn/cuda.h>

#include "vector-expression.h"

/* The driver */

typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;

/* X (name, "symbol", arguments): the driver functions that this file calls.  Enums, such as a
 * status, are unsigned int. */
#define FUNCTIONS(X)                                                                               \
  X (cuLaunchKernel, "cuLaunchKernel",                                                             \
     (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,          \
      unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, \
      CUstream stream, void **arguments, void **extra))                                            \
  X (cuModuleLoadDataEx, "cuModuleLoadDataEx",                                                     \
     (CUmodule * module, const void *image, unsigned int n_options, unsigned int *options,         \
      void **values))                                                                              \
  X (cuModuleGetFunction, "cuModuleGetFunction",                                                   \
     (CUfunction * function, CUmodule module, const char *name))                                   \
  X (cuModuleUnload, "cuModuleUnload", (CUmodule module))                                          \
  X (cuMemcpyDtoH, "cuMemcpyDtoH_v2", (void *to, CUdeviceptr from, size_t size))                   \
  X (cuCtxSynchronize, "cuCtxSynchronize", (void) )                                                \
  X (cuDeviceTotalMem, "cuDeviceTotalMem_v2", (size_t * bytes, CUdevice device))                   \
  X (cuGetErrorName, "cuGetErrorName", (unsigned int status, const char **name))

#define JIT_ERROR_LOG_BUFFER 5 /* CU_JIT_... in <cuda.h> */
#define JIT_ERROR_LOG_BUFFER_SIZE_BYTES 6

static struct
{
#define X(name, symbol, arguments) unsigned int (*name) arguments;
  FUNCTIONS (X)
#undef X
} cuda;

static gboolean
find_function (gpointer library, const gchar *symbol, gpointer *function, GError **error)
{
  *function = dlsym (library, symbol);
  if (*function != NULL)
    return TRUE;
  g_set_error (error, TARN_ERROR, TARN_ERROR_NO_DRIVER,
               "the CUDA driver, libcuda.so.1, cannot run kernels: it has no function %s", symbol);
  return FALSE;
}

/* Tarn has found devices, and so has opened the library, which it never closes. */
static gboolean
load_functions (GError **error)
{
  gpointer library = dlopen ("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

  g_assert (library != NULL);
#define X(name, symbol, arguments)                                                                 \
  if (!find_function (library, symbol, (gpointer *) &cuda.name, error))                            \
    return FALSE;
  FUNCTIONS (X)
#undef X
  return TRUE;
}

static gboolean
check_status (unsigned int status, const gchar *call, GError **error)
{
  const char *name = NULL;

  if (status == 0)
    return TRUE;
  if (cuda.cuGetErrorName (status, &name) != 0)
    name = "unknown status";
  g_set_error (error, TARN_CUDA_ERROR, (gint) status, "%s: %s (%u)", call, name, status);
  return FALSE;
}

/* Kernels
 *
 * PTX of an old version and for an old target, so that every driver and GPU of the last years
 * accepts it: the driver compiles it for the GPU that it finds.  ".rn" rounds as IEEE 754 has it,
 * and keeps the compiler from fusing operations.  A vector may have more than 2^32 elements, so
 * their indices have 64 bits.  They are shifted by 2, because a float has 4 bytes. */

#define THREADS 256 /* in each block */

static const gchar module_start[] = ".version 6.0\n"
                                    ".target sm_50\n"
                                    ".address_size 64\n";

/* The code between a kernel's name and its operation. */
static const gchar kernel_start[]
    = " (.param .u64 param_a, .param .u64 param_b, .param .f32 param_c,\n"
      "  .param .u64 param_out, .param .u64 param_length)\n"
      "{\n"
      "  .reg .pred is_outside;\n"
      "  .reg .u32 block, width, thread;\n"
      "  .reg .u64 index, length, offset, address, period;\n"
      "  .reg .f32 x, y;\n"
      "  mov.u32 block, %ctaid.x;\n"
      "  mov.u32 width, %ntid.x;\n"
      "  mov.u32 thread, %tid.x;\n"
      "  cvt.u64.u32 index, thread;\n"
      "  mad.wide.u32 index, block, width, index;\n"
      "  ld.param.u64 length, [param_length];\n"
      "  setp.ge.u64 is_outside, index, length;\n"
      "  @is_outside bra DONE;\n"
      "  shl.b64 offset, index, 2;\n";

static const gchar kernel_end[] = "  ld.param.u64 address, [param_out];\n"
                                  "  cvta.to.global.u64 address, address;\n"
                                  "  add.u64 address, address, offset;\n"
                                  "  st.global.f32 [address], x;\n"
                                  "DONE:\n"
                                  "  ret;\n"
                                  "}\n";

#define LOAD_A                                                                                     \
  "  ld.param.u64 address, [param_a];\n"                                                           \
  "  cvta.to.global.u64 address, address;\n"                                                       \
  "  add.u64 address, address, offset;\n"                                                          \
  "  ld.global.f32 x, [address];\n"
#define LOAD_B                                                                                     \
  "  ld.param.u64 address, [param_b];\n"                                                           \
  "  cvta.to.global.u64 address, address;\n"                                                       \
  "  add.u64 address, address, offset;\n"                                                          \
  "  ld.global.f32 y, [address];\n"
#define LOAD_C "  ld.param.f32 y, [param_c];\n"

/* The operations, which leave their result in x.  0f45800000 is 4096, and 0f3F800000 is 1.  No
 * kernel is called just "add", because names of instructions are reserved. */
static const struct
{
  const gchar *name, *instructions;
} kernels[N_OPERATORS] = {
  [RAMP] = { "vector_ramp", LOAD_C "  cvt.rzi.u64.f32 period, y;\n"
                                   "  rem.u64 period, index, period;\n"
                                   "  cvt.rn.f32.u64 x, period;\n"
                                   "  div.rn.f32 x, x, 0f45800000;\n"
                                   "  add.rn.f32 x, x, 0f3F800000;\n" },
  [ADD] = { "vector_add", LOAD_A LOAD_B "  add.rn.f32 x, x, y;\n" },
  [SUBTRACT] = { "vector_subtract", LOAD_A LOAD_B "  sub.rn.f32 x, x, y;\n" },
  [MULTIPLY] = { "vector_multiply", LOAD_A LOAD_B "  mul.rn.f32 x, x, y;\n" },
  [SCALE] = { "vector_scale", LOAD_A LOAD_C "  mul.rn.f32 x, x, y;\n" },
  [SQUARE_ROOT] = { "vector_square_root", LOAD_A "  sqrt.rn.f32 x, x;\n" },
};

static gchar *
write_module (void)
{
  GString *text = g_string_new (module_start);

  for (guint i = 0; i < N_OPERATORS; i++)
    g_string_append_printf (text, "\n.visible .entry %s%s%s%s", kernels[i].name, kernel_start,
                            kernels[i].instructions, kernel_end);
  return g_string_free (text, FALSE);
}

/* Devices */

static gboolean
add_device (GArray *devices, const TarnCudaDevice *info, GError **error)
{
  Device device = { .backend = &cuda_backend, .id.number = info->device_index, .is_gpu = TRUE };
  size_t bytes;

  if (!check_status (cuda.cuDeviceTotalMem (&bytes, info->device), "cuDeviceTotalMem", error))
    return FALSE;
  g_snprintf (device.selector, sizeof device.selector, "cuda:%u", info->device_index);
  g_strlcpy (device.name, info->name, sizeof device.name);
  device.max_bytes = device.total_bytes = bytes;
  g_array_append_val (devices, device);
  return TRUE;
}

/* If there is a device, the driver must be able to run kernels. */
static gboolean
find_devices (GArray *devices, GError **error)
{
  g_autoptr (GPtrArray) found = tarn_cuda_select_test_devices ("", error);

  if (found == NULL)
    return FALSE;
  if (found->len > 0 && !load_functions (error))
    return FALSE;
  for (guint i = 0; i < found->len; i++)
    if (!add_device (devices, g_ptr_array_index (found, i), error))
      return FALSE;
  return TRUE;
}

/* Sessions */

struct _Session
{
  CUcontext context; /* current in this thread, as the calls below require */
  CUmodule module;
  CUfunction functions[N_OPERATORS]; /* the kernels */
};

static void
close_session (Session *session)
{
  if (session->module != NULL)
    cuda.cuModuleUnload (session->module);
  tarn_cuda_context_release (session->context);
  g_free (session);
}

static gboolean
load_module (Session *session, GError **error)
{
  gchar log[4096] = "";
  unsigned int options[] = { JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
  gpointer values[] = { log, GSIZE_TO_POINTER (sizeof log) };
  g_autofree gchar *text = write_module ();
  unsigned int status
      = cuda.cuModuleLoadDataEx (&session->module, text, G_N_ELEMENTS (options), options, values);

  if (check_status (status, "cuModuleLoadDataEx", error))
    return TRUE;
  session->module = NULL;
  fputs (log, stderr);
  return FALSE;
}

static gboolean
fill_session (Session *session, guint index, GError **error)
{
  gchar number[16];

  /* tarn_cuda_make_default_context () reads the device from this variable. */
  g_snprintf (number, sizeof number, "%u", index);
  g_setenv ("CUDA_DEVICE", number, TRUE);
  session->context = tarn_cuda_make_default_context (NULL, error);
  if (session->context == NULL || !load_module (session, error))
    return FALSE;
  for (guint i = 0; i < N_OPERATORS; i++)
    {
      unsigned int status
          = cuda.cuModuleGetFunction (&session->functions[i], session->module, kernels[i].name);

      if (!check_status (status, "cuModuleGetFunction", error))
        return FALSE;
    }
  return TRUE;
}

static Session *
open_session (const Device *device, GError **error)
{
  Session *session = g_new0 (Session, 1);

  if (fill_session (session, device->id.number, error))
    return session;
  close_session (session);
  return NULL;
}

static TarnAllocator *
allocator_new (Session *session, GError **error)
{
  return tarn_cuda_device_allocator_new (session->context, error);
}

static TarnPool *
pool_new (Session *session, GError **error)
{
  return tarn_cuda_pool_new (session->context, NULL, error);
}

/* Launches */

static CUdeviceptr
pointer_to (const TarnBlock *vector)
{
  return vector != NULL ? tarn_cuda_block_get_device_pointer (vector) : 0;
}

/* The default stream is an in-order queue. */
static gboolean
launch (Session *session, Operator op, const TarnBlock *a, const TarnBlock *b, gfloat c,
        const TarnBlock *out, guint64 length, GError **error)
{
  CUdeviceptr a_pointer = pointer_to (a), b_pointer = pointer_to (b),
              out_pointer = pointer_to (out);
  void *arguments[] = { &a_pointer, &b_pointer, &c, &out_pointer, &length };
  /* Below 2^31, the most that a grid has: no device has memory for as many floats. */
  unsigned int n_blocks = (unsigned int) ((length + THREADS - 1) / THREADS);

  unsigned int status = cuda.cuLaunchKernel (session->functions[op], n_blocks, 1, 1, THREADS, 1, 1,
                                             0, NULL, arguments, NULL);

  return check_status (status, "cuLaunchKernel", error);
}

static gboolean
finish (Session *session, GError **error)
{
  (void) session;
  return check_status (cuda.cuCtxSynchronize (), "cuCtxSynchronize", error);
}

static gboolean
read_vector (Session *session, const TarnBlock *vector, gsize offset, gsize size, gpointer data,
             GError **error)
{
  (void) session;
  return check_status (cuda.cuMemcpyDtoH (data, pointer_to (vector) + offset, size), "cuMemcpyDtoH",
                       error);
}

const Backend cuda_backend = {
  .name = "cuda",
  .without_device = "no CUDA device; that takes a GPU of NVIDIA's, and its driver",
  .find_devices = find_devices,
  .open = open_session,
  .close = close_session,
  .allocator_new = allocator_new,
  .pool_new = pool_new,
  .launch = launch,
  .finish = finish,
  .read = read_vector,
};
