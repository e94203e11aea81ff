/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * TARN_CUDA_OCCUPANCY_EXACT against the driver, on each device that there is: kernels of many
 * register counts, with shared memory of their own and without, blocks of many sizes, dynamic
 * shared memory up to what a kernel can opt in to and beyond.  The kernels are PTX, which the
 * driver translates; nothing of CUDA's is needed to build this. */

#include <dlfcn.h>
#include <string.h>
#include <tarn/cuda.h>

typedef struct CUctx_st *Context;
typedef struct CUmod_st *Module;
typedef unsigned int Status;

#define SUCCESS 0

#define SHARED_SIZE_BYTES 1
#define NUM_REGS 4
#define MAX_DYNAMIC_SHARED_SIZE_BYTES 8

#define JIT_ERROR_LOG_BUFFER 5
#define JIT_ERROR_LOG_BUFFER_SIZE_BYTES 6

#define FUNCTIONS(X)                                                                               \
  X (cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (Context *, CUdevice))                  \
  X (cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice))                        \
  X (cuCtxPushCurrent, "cuCtxPushCurrent_v2", (Context))                                           \
  X (cuCtxPopCurrent, "cuCtxPopCurrent_v2", (Context *) )                                          \
  X (cuModuleLoadDataEx, "cuModuleLoadDataEx",                                                     \
     (Module *, const void *, unsigned int, unsigned int *, void **) )                             \
  X (cuModuleUnload, "cuModuleUnload", (Module))                                                   \
  X (cuModuleGetFunction, "cuModuleGetFunction", (CUfunction *, Module, const char *) )            \
  X (cuFuncGetAttribute, "cuFuncGetAttribute", (int *, unsigned int, CUfunction))                  \
  X (cuFuncSetAttribute, "cuFuncSetAttribute", (CUfunction, unsigned int, int) )                   \
  X (cuOccupancyMaxActiveBlocksPerMultiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor",   \
     (int *, CUfunction, int, size_t))                                                             \
  X (cuOccupancyMaxPotentialBlockSize, "cuOccupancyMaxPotentialBlockSize",                         \
     (int *, int *, CUfunction, size_t (*) (int), size_t, int) )

#define X(name, symbol, arguments) static Status (*name) arguments;
FUNCTIONS (X)
#undef X

/* Why there is no driver to be asked; NULL: there is one. */
static const gchar *
load (void)
{
  gpointer library = dlopen ("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const gchar *missing = NULL;

  if (library == NULL)
    return "there is no CUDA driver";
#define X(name, symbol, arguments)                                                                 \
  *(gpointer *) &name = dlsym (library, symbol);                                                   \
  if (name == NULL)                                                                                \
    missing = "the CUDA driver has no " symbol;
  FUNCTIONS (X)
#undef X
  return missing;
}

static void
check (const gchar *call, Status status)
{
  if (status != SUCCESS)
    g_error ("%s: status %u", call, status);
}

#define CHECK(call) check (#call, call)

/* What is loaded must be kept until it is stored, because volatile accesses keep their order:
 * n_live registers and a few more, or as many as the kernel may have, if those are fewer. */
typedef struct
{
  guint n_live;
  guint max_registers;
  guint shared_bytes; /* of its own */
} Wish;

static const Wish wishes[] = {
  { 5, 255, 0 },   { 8, 255, 1000 }, { 12, 255, 0 },     { 16, 255, 0 },    { 300, 24, 1000 },
  { 300, 32, 0 },  { 300, 33, 0 },   { 300, 40, 1000 },  { 300, 48, 0 },    { 300, 56, 0 },
  { 300, 64, 20 }, { 300, 65, 0 },   { 300, 72, 0 },     { 300, 80, 1000 }, { 300, 88, 0 },
  { 300, 96, 0 },  { 300, 104, 49 }, { 300, 112, 0 },    { 300, 128, 0 },   { 300, 136, 128 },
  { 300, 160, 0 }, { 300, 168, 0 },  { 300, 192, 1000 }, { 300, 216, 0 },   { 300, 255, 0 },
};

static gchar *
write_kernel (const gchar *target, const Wish *wish)
{
  g_autoptr (GString) text = g_string_new (NULL);

  g_string_append_printf (text,
                          ".version 7.0\n.target %s\n.address_size 64\n"
                          ".visible .entry kernel (.param .u64 memory)\n.maxnreg %u\n{\n"
                          "  .reg .b32 %%r<%u>;\n  .reg .b64 %%rd<3>;\n",
                          target, wish->max_registers, wish->n_live);
  if (wish->shared_bytes > 0)
    g_string_append_printf (text, "  .shared .align 4 .b8 own[%u];\n", wish->shared_bytes);
  g_string_append (text, "  ld.param.u64 %rd1, [memory];\n  cvta.to.global.u64 %rd2, %rd1;\n");
  for (guint i = 0; i < wish->n_live; i++)
    g_string_append_printf (text, "  ld.volatile.global.u32 %%r%u, [%%rd2+%u];\n", i, i * 4);
  for (guint i = 0; i < wish->n_live; i++)
    g_string_append_printf (text, "  st.volatile.global.u32 [%%rd2+%u], %%r%u;\n", i * 4, i);
  if (wish->shared_bytes > 0)
    g_string_append (text, "  st.volatile.shared.u32 [own], %r0;\n");
  g_string_append (text, "  ret;\n}\n");
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static Status
load_kernel (const gchar *target, const Wish *wish, Module *module, gchar *log, gsize log_bytes)
{
  g_autofree gchar *text = write_kernel (target, wish);
  unsigned int options[] = { JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
  void *values[] = { log, GSIZE_TO_POINTER (log_bytes) };

  return cuModuleLoadDataEx (module, text, G_N_ELEMENTS (options), options, values);
}

/* Once more for drivers that have given up what is that old. */
static Module
make_module (const Wish *wish)
{
  static const gchar *const targets[] = { "sm_52", "sm_75" };
  gchar log[4096] = "";
  Module module = NULL;
  Status status = SUCCESS;

  for (gsize i = 0; i < G_N_ELEMENTS (targets); i++)
    {
      status = load_kernel (targets[i], wish, &module, log, sizeof log - 1);
      if (status == SUCCESS)
        return module;
    }
  g_error ("cuModuleLoadDataEx, %u registers: status %u: %s", wish->max_registers, status, log);
}

typedef struct
{
  CUfunction function;
  guint registers;
  gsize shared_bytes;
} Kernel;

static guint
get_attribute (CUfunction function, guint attribute)
{
  int value = 0;

  CHECK (cuFuncGetAttribute (&value, attribute, function));
  g_assert_cmpint (value, >=, 0);
  return (guint) value;
}

/* It opts in to all that the device has. */
static Kernel
get_kernel (Module module, const TarnCudaDeviceData *data)
{
  Kernel kernel = { NULL, 0, 0 };

  CHECK (cuModuleGetFunction (&kernel.function, module, "kernel"));
  kernel.registers = get_attribute (kernel.function, NUM_REGS);
  kernel.shared_bytes = get_attribute (kernel.function, SHARED_SIZE_BYTES);
  if (data->shared_per_block_optin > kernel.shared_bytes)
    CHECK (cuFuncSetAttribute (kernel.function, MAX_DYNAMIC_SHARED_SIZE_BYTES,
                               (int) (data->shared_per_block_optin - kernel.shared_bytes)));
  return kernel;
}

#define MAX_SHOWN 10

typedef struct
{
  CUdevice device;
  TarnCudaDeviceData data;
  guint points;
  guint refused;    /* points for which the driver has an error, and no number */
  guint mismatches; /* the first few are shown */
  gboolean is_register_count[1024];
} Sweep;

static void
report (Sweep *sweep, const Kernel *kernel, guint threads, gsize bytes,
        const TarnCudaOccupancy *found, Status status, gint blocks)
{
  if (sweep->mismatches++ < MAX_SHOWN)
    g_test_message ("%u threads, %" G_GSIZE_FORMAT " + %" G_GSIZE_FORMAT
                    " bytes, %u registers: %u blocks (limit %d), the driver says %d (status %u)",
                    threads, kernel->shared_bytes, bytes, kernel->registers, found->blocks_per_mp,
                    (gint) found->limited_by, blocks, status);
}

/* Where the driver answers with an error, there must be no block. */
static void
check_point (Sweep *sweep, const Kernel *kernel, guint threads, gsize bytes)
{
  TarnCudaOccupancy found = TARN_CUDA_OCCUPANCY_INIT;
  g_autoptr (GError) error = NULL;
  gint blocks = 0;
  Status status = cuOccupancyMaxActiveBlocksPerMultiprocessor (&blocks, kernel->function,
                                                               (int) threads, bytes);

  tarn_cuda_occupancy (&sweep->data, threads, kernel->shared_bytes + bytes, kernel->registers,
                       TARN_CUDA_OCCUPANCY_EXACT, &found, &error);
  g_assert_no_error (error);
  sweep->points++;
  if (status != SUCCESS)
    {
      sweep->refused++;
      blocks = 0;
    }
  if (blocks < 0 || found.blocks_per_mp != (guint) blocks)
    report (sweep, kernel, threads, bytes, &found, status, blocks);
}

/* What the library asks the driver is what is asked here, and the reason is that of the rules. */
static void
check_function (const Sweep *sweep, const Kernel *kernel, guint threads, gsize bytes)
{
  TarnCudaOccupancy exact = TARN_CUDA_OCCUPANCY_INIT;
  TarnCudaOccupancy found = TARN_CUDA_OCCUPANCY_INIT;
  g_autoptr (GError) error = NULL;

  tarn_cuda_occupancy (&sweep->data, threads, kernel->shared_bytes + bytes, kernel->registers,
                       TARN_CUDA_OCCUPANCY_EXACT, &exact, &error);
  g_assert_no_error (error);
  tarn_cuda_occupancy_for_function (kernel->function, threads, bytes, &found, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (found.blocks_per_mp, ==, exact.blocks_per_mp);
  g_assert_cmpuint (found.warps_per_mp, ==, exact.warps_per_mp);
  g_assert_cmpfloat (found.occupancy, ==, exact.occupancy);
  g_assert_cmpint (found.limited_by, ==, exact.limited_by);
}

static void
check_block_size (const Kernel *kernel, gsize bytes)
{
  guint grid = 0, block = 0;
  gint driver_grid = 0, driver_block = 0;
  g_autoptr (GError) error = NULL;

  CHECK (cuOccupancyMaxPotentialBlockSize (&driver_grid, &driver_block, kernel->function, NULL,
                                           bytes, 0));
  tarn_cuda_suggest_block_size (kernel->function, bytes, &grid, &block, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (grid, ==, driver_grid);
  g_assert_cmpuint (block, ==, driver_block);
}

/* In uneven steps, and on both sides of what the device allows. */
static void
sweep_kernel (Sweep *sweep, const Kernel *kernel)
{
  gsize most = MAX (sweep->data.shared_per_block_optin, sweep->data.shared_per_block);
  gsize edges[] = { most - kernel->shared_bytes - 1, most - kernel->shared_bytes,
                    most - kernel->shared_bytes + 1, most + 1 };

  sweep->is_register_count[MIN (kernel->registers, 1023)] = TRUE;
  for (guint threads = 1; threads <= 1024; threads += threads < 130 ? 7 : 37)
    {
      for (gsize bytes = 0; bytes <= most; bytes += bytes < 8192 ? 251 : 9973)
        check_point (sweep, kernel, threads, bytes);
      for (gsize i = 0; i < G_N_ELEMENTS (edges); i++)
        check_point (sweep, kernel, threads, edges[i]);
    }
  for (guint threads = 32; threads <= 1024; threads += 32)
    for (gsize bytes = 0; bytes <= most; bytes += 24571)
      check_point (sweep, kernel, threads, bytes);
  if (sweep->mismatches > 0)
    return;
  check_function (sweep, kernel, 100, 3000);
  check_function (sweep, kernel, 256, 0);
  check_block_size (kernel, 0);
  check_block_size (kernel, 5000);
}

static void
sweep_kernels (Sweep *sweep)
{
  for (gsize i = 0; i < G_N_ELEMENTS (wishes); i++)
    {
      Module module = make_module (&wishes[i]);
      Kernel kernel = get_kernel (module, &sweep->data);

      sweep_kernel (sweep, &kernel);
      CHECK (cuModuleUnload (module));
    }
}

static guint
show_registers (const Sweep *sweep)
{
  g_autoptr (GString) text = g_string_new (NULL);
  guint n = 0;

  for (guint i = 0; i < G_N_ELEMENTS (sweep->is_register_count); i++)
    if (sweep->is_register_count[i])
      {
        g_string_append_printf (text, " %u", i);
        n++;
      }
  g_test_message ("%u register counts:%s", n, text->str);
  return n;
}

static void
test_sweep (gconstpointer data)
{
  Sweep sweep = { .device = GPOINTER_TO_INT (data), .data = TARN_CUDA_DEVICE_DATA_INIT };
  Context context;
  g_autoptr (GError) error = NULL;
  guint n_registers;

  tarn_cuda_device_data_init (&sweep.data, sweep.device, &error);
  g_assert_no_error (error);
  if (sweep.data.shared_allocation_unit == 0)
    {
      g_test_skip ("the table has no row for the device's compute capability");
      return;
    }
  CHECK (cuDevicePrimaryCtxRetain (&context, sweep.device));
  CHECK (cuCtxPushCurrent (context));
  sweep_kernels (&sweep);
  CHECK (cuCtxPopCurrent (&context));
  CHECK (cuDevicePrimaryCtxRelease (sweep.device));
  n_registers = show_registers (&sweep);
  g_test_message ("compute capability %d.%d: %u points, %u of them refused by the driver, %u "
                  "mismatches",
                  sweep.data.major, sweep.data.minor, sweep.points, sweep.refused,
                  sweep.mismatches);
  g_assert_cmpuint (sweep.mismatches, ==, 0);
  g_assert_cmpuint (n_registers, >=, 6);
  g_assert_cmpuint (sweep.points - sweep.refused, >=, 20000);
}

static void
skip (gconstpointer reason)
{
  g_test_skip (reason);
}

int
main (int argc, char **argv)
{
  g_autoptr (GPtrArray) devices = NULL;
  g_autoptr (GError) error = NULL;
  const gchar *reason;

  g_test_init (&argc, &argv, NULL);
  devices = tarn_cuda_select_test_devices (NULL, &error);
  if (devices == NULL)
    g_error ("%s", error->message);
  reason = load ();
  if (reason == NULL && devices->len == 0)
    reason = "there is no CUDA device, or none is chosen";
  if (reason != NULL)
    g_test_add_data_func ("/cuda/occupancy-sweep", reason, skip);
  for (guint i = 0; reason == NULL && i < devices->len; i++)
    {
      const TarnCudaDevice *device = g_ptr_array_index (devices, i);
      g_autofree gchar *path = g_strdup_printf ("/cuda/%u/occupancy-sweep", device->device_index);

      g_test_add_data_func (path, GINT_TO_POINTER (device->device), test_sweep);
    }
  return g_test_run ();
}
