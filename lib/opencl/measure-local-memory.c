/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Measures how many banks a device's local memory has.  A kernel of one work-group accesses local
 * memory in several patterns, and this file times each pattern.  In some patterns, several lanes
 * (work items that run in step) access the same bank.  Such accesses wait for each other, so the
 * pattern takes longer.  From the times, bank-analysis.c finds the layout of the banks.  The kernel
 * has as many loads in flight as possible, because the time would otherwise be the latency of the
 * loads, and would not show how long accesses wait for each other. */

#include "bank-analysis-private.h"
#include "common/argument-private.h"
#include "common/struct-private.h"
#include "device-private.h"
#include "driver-private.h"
#include "program-private.h"
#include "status-private.h"

#define MIN_LANES 16 /* with fewer lanes, layouts of banks cannot be told apart */
#define MAX_ITEMS 1024
#define MIN_PATTERNS 16
#define RESERVED_BYTES 256 /* some drivers keep a few bytes of local memory for themselves */

#define ROUNDS 7
/* the least time of a launch, in seconds: much longer than a kernel's start or a clock tick */
#define LAUNCH_SECONDS 0.5e-3
#define MAX_STEPS (1u << 20)
#define MAX_CALIBRATION_TIME G_TIME_SPAN_SECOND
/* the time limit of the calibration and all rounds; the first round runs to its end in any case */
#define MAX_TIME (2 * G_TIME_SPAN_SECOND)

/* The kernel that is timed.  Each work item follows eight chains of loads: each load gets the index
 * of the chain's next load.  Every word contains its own index, so a chain loads the same word
 * again and again.  @apart is always 0, so all chains are the same.  The compiler cannot know this,
 * so the kernel executes the loads of all chains. */
static const gchar source[]
    = "__kernel void\n"
      "chase (__global uint *results, __local uint *memory, uint lanes, uint run, uint stride,\n"
      "       uint shift, uint steps, uint apart)\n"
      "{\n"
      "  uint item = get_local_id (0);\n"
      "  uint lane = item % lanes;\n"
      "  uint first = lane % run * stride + lane / run * shift;\n"
      "  uint8 at = first + apart * (uint8) (0, 1, 2, 3, 4, 5, 6, 7);\n"
      "\n"
      "  if (item < lanes)\n"
      "    memory[first] = first;\n"
      "  barrier (CLK_LOCAL_MEM_FENCE);\n"
      "  for (uint step = 0; step < steps; step++)\n"
      "    at = (uint8) (memory[at.s0], memory[at.s1], memory[at.s2], memory[at.s3],\n"
      "                  memory[at.s4], memory[at.s5], memory[at.s6], memory[at.s7]);\n"
      "  results[item] = at.s0 + at.s1 + at.s2 + at.s3 + at.s4 + at.s5 + at.s6 + at.s7;\n"
      "}\n";

/* The objects of a measurement; NULL until they are made. */
typedef struct
{
  cl_device_id device; /* the caller's device, without a reference */
  cl_context context;
  cl_command_queue queue;
  cl_program program;
  cl_kernel kernel;
  cl_mem results;
  guint lanes;  /* the number of lanes; a power of two */
  size_t items; /* the number of work items; a multiple of lanes */
  /* The bytes of local memory that each launch of the kernel has: enough for every pattern.  All
   * launches have the same number, because a device may have to be reconfigured when the number
   * changes, and that would take time in some launches. */
  guint local_bytes;
  guint steps;
} Bench;

static void
bench_clear (Bench *bench)
{
  if (bench->results != NULL)
    _tarn_cl.clReleaseMemObject (bench->results);
  if (bench->kernel != NULL)
    _tarn_cl.clReleaseKernel (bench->kernel);
  if (bench->program != NULL)
    _tarn_cl.clReleaseProgram (bench->program);
  if (bench->queue != NULL)
    _tarn_cl.clReleaseCommandQueue (bench->queue);
  if (bench->context != NULL)
    _tarn_cl.clReleaseContext (bench->context);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Bench, bench_clear)

static gboolean
not_supported (GError **error, const gchar *reason)
{
  g_set_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED,
               "local memory cannot be measured on this device: %s", reason);
  return FALSE;
}

/* Functions that query the device, and choose work items and patterns */

static gboolean
get_kernel_info (const Bench *bench, cl_kernel_work_group_info name, size_t *value, GError **error)
{
  return _tarn_opencl_check (_tarn_cl.clGetKernelWorkGroupInfo (bench->kernel, bench->device, name,
                                                                sizeof *value, value, NULL),
                             "clGetKernelWorkGroupInfo", error);
}

static gboolean
check_can_measure (cl_device_id device, GError **error)
{
  cl_command_queue_properties properties = 0;
  cl_bool has_compiler = CL_FALSE;

  if (!_tarn_opencl_get_device_value (device, CL_DEVICE_QUEUE_PROPERTIES, &properties,
                                      sizeof properties, error)
      || !_tarn_opencl_get_device_value (device, CL_DEVICE_COMPILER_AVAILABLE, &has_compiler,
                                         sizeof has_compiler, error))
    return FALSE;
  if ((properties & CL_QUEUE_PROFILING_ENABLE) == 0)
    return not_supported (error, "its queues cannot time commands");
  if (!has_compiler)
    return not_supported (error, "it has no compiler");
  return TRUE;
}

/* Finds the number of work items that the device runs in step, such as the size of its warps. */
static gboolean
get_multiple (const Bench *bench, size_t *multiple, GError **error)
{
  cl_uint warp;

  if (!_tarn_opencl_get_device_extra (bench->device, TARN_DEVICE_WARP_SIZE_NV, &warp, error))
    return FALSE;
  *multiple = warp;
  if (warp > 0)
    return TRUE;
  return get_kernel_info (bench, CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, multiple, error);
}

static gboolean
choose_items (Bench *bench, GError **error)
{
  size_t multiple, most;

  if (!get_multiple (bench, &multiple, error)
      || !get_kernel_info (bench, CL_KERNEL_WORK_GROUP_SIZE, &most, error))
    return FALSE;
  if (most < MIN_LANES)
    return not_supported (error, "its work-groups are too small");
  most = MIN (most, MAX_ITEMS);
  bench->lanes = MIN_LANES;
  while (bench->lanes * 2 <= MIN (MIN (multiple, most), TARN_BANK_MAX_LANES))
    bench->lanes *= 2;
  bench->items = most / bench->lanes * bench->lanes;
  return TRUE;
}

/* Lists the access patterns that the kernel can run because their data fits into local memory. Sets
 * local_bytes to the number of bytes that the largest of these patterns needs. */
static gboolean
choose_patterns (Bench *bench, TarnBankPattern *patterns, guint *n, GError **error)
{
  cl_ulong bytes = 0;

  if (!_tarn_opencl_get_device_value (bench->device, CL_DEVICE_LOCAL_MEM_SIZE, &bytes, sizeof bytes,
                                      error))
    return FALSE;
  *n = _tarn_opencl_list_bank_patterns (bench->lanes, bytes - MIN (bytes, RESERVED_BYTES),
                                        patterns);
  if (*n < MIN_PATTERNS)
    return not_supported (error, "it has too little local memory");
  for (guint i = 0; i < *n; i++)
    {
      guint last = _tarn_opencl_get_pattern_word (&patterns[i], bench->lanes - 1);

      bench->local_bytes = MAX (bench->local_bytes, (last + 1) * (guint) sizeof (cl_uint));
    }
  return TRUE;
}

/* Functions that make OpenCL objects */

static gboolean
make_program (Bench *bench, GError **error)
{
  cl_int status;

  bench->program = _tarn_opencl_build_program (bench->context, bench->device, source, "", error);
  if (bench->program == NULL)
    return FALSE;
  bench->kernel = _tarn_cl.clCreateKernel (bench->program, "chase", &status);
  return _tarn_opencl_check (status, "clCreateKernel", error);
}

static gboolean
open_queue (Bench *bench, GError **error)
{
  cl_int status;

  bench->context = _tarn_cl.clCreateContext (NULL, 1, &bench->device, NULL, NULL, &status);
  if (!_tarn_opencl_check (status, "clCreateContext", error))
    return FALSE;
  bench->queue = _tarn_cl.clCreateCommandQueue (bench->context, bench->device,
                                                CL_QUEUE_PROFILING_ENABLE, &status);
  return _tarn_opencl_check (status, "clCreateCommandQueue", error);
}

/* Makes the buffer for results, and sets the kernel's arguments that all patterns share. */
static gboolean
make_results (Bench *bench, GError **error)
{
  gsize size = bench->items * sizeof (cl_uint);
  cl_int status;

  bench->results = _tarn_cl.clCreateBuffer (bench->context, CL_MEM_WRITE_ONLY, size, NULL, &status);
  if (status != CL_SUCCESS)
    {
      _tarn_opencl_set_error_for_size (error, "clCreateBuffer", status, size);
      return FALSE;
    }
  status = _tarn_cl.clSetKernelArg (bench->kernel, 0, sizeof bench->results, &bench->results);
  if (status == CL_SUCCESS)
    status = _tarn_cl.clSetKernelArg (bench->kernel, 1, bench->local_bytes, NULL);
  return _tarn_opencl_check (status, "clSetKernelArg", error);
}

/* Functions that time the access patterns */

static gboolean
set_pattern (Bench *bench, const TarnBankPattern *pattern, GError **error)
{
  const cl_uint values[]
      = { bench->lanes, pattern->run, pattern->stride, pattern->shift, bench->steps, 0 };
  cl_int status = CL_SUCCESS;

  for (guint i = 0; i < G_N_ELEMENTS (values) && status == CL_SUCCESS; i++)
    status = _tarn_cl.clSetKernelArg (bench->kernel, 2 + i, sizeof values[i], &values[i]);
  return _tarn_opencl_check (status, "clSetKernelArg", error);
}

/* Makes the host wait for a command, and finds how long the command ran by the device's clock.  If
 * the clock shows no time between the command's start and its end, sets *seconds to 0. */
static gboolean
get_seconds (cl_event event, gdouble *seconds, GError **error)
{
  cl_ulong start = 0, end = 0;
  cl_int status = _tarn_cl.clWaitForEvents (1, &event);

  if (!_tarn_opencl_check (status, "clWaitForEvents", error))
    return FALSE;
  status = _tarn_cl.clGetEventProfilingInfo (event, CL_PROFILING_COMMAND_START, sizeof start,
                                             &start, NULL);
  if (status == CL_SUCCESS)
    status = _tarn_cl.clGetEventProfilingInfo (event, CL_PROFILING_COMMAND_END, sizeof end, &end,
                                               NULL);
  *seconds = end > start ? (gdouble) (end - start) * 1e-9 : 0;
  return _tarn_opencl_check (status, "clGetEventProfilingInfo", error);
}

static gboolean
run_pattern (Bench *bench, const TarnBankPattern *pattern, gdouble *seconds, GError **error)
{
  cl_event event = NULL;
  gboolean ok;
  cl_int status;

  if (!set_pattern (bench, pattern, error))
    return FALSE;
  status = _tarn_cl.clEnqueueNDRangeKernel (bench->queue, bench->kernel, 1, NULL, &bench->items,
                                            &bench->items, 0, NULL, &event);
  if (!_tarn_opencl_check (status, "clEnqueueNDRangeKernel", error))
    return FALSE;
  ok = get_seconds (event, seconds, error);
  _tarn_cl.clReleaseEvent (event);
  return ok;
}

/* Finds how many steps (loads of a chain) take LAUNCH_SECONDS, by doubling their number.  Does not
 * time the first launch, in which the driver may finish compiling and the device may wake up.
 * Gives up after MAX_STEPS or MAX_CALIBRATION_TIME, because a driver may report wrong times: with
 * rusticl on llvmpipe, every command was seen to take 1 ns. */
static gboolean
find_steps (Bench *bench, const TarnBankPattern *pattern, GError **error)
{
  gint64 deadline;
  gdouble seconds;

  bench->steps = 1;
  if (!run_pattern (bench, pattern, &seconds, error))
    return FALSE;
  deadline = g_get_monotonic_time () + MAX_CALIBRATION_TIME;
  for (;;)
    {
      if (!run_pattern (bench, pattern, &seconds, error))
        return FALSE;
      if (seconds >= LAUNCH_SECONDS)
        return TRUE;
      if (bench->steps >= MAX_STEPS || g_get_monotonic_time () >= deadline)
        return not_supported (error, "it says that a long kernel took hardly any time");
      bench->steps *= 2;
    }
}

/* Measures each pattern in up to ROUNDS rounds, and finds its least time.  Each round runs every
 * pattern one time, so that a slow phase of the machine affects all patterns. */
static gboolean
time_patterns (Bench *bench, const TarnBankPattern *patterns, guint n, gdouble *times,
               GError **error)
{
  gint64 deadline = g_get_monotonic_time () + MAX_TIME;

  if (!find_steps (bench, &patterns[0], error))
    return FALSE;
  for (guint i = 0; i < ROUNDS * n; i++)
    {
      gdouble seconds;

      if (i >= n && g_get_monotonic_time () >= deadline)
        break;
      if (!run_pattern (bench, &patterns[i % n], &seconds, error))
        return FALSE;
      if (seconds <= 0)
        return not_supported (error, "it says that a kernel took no time");
      times[i % n] = i < n ? seconds : MIN (times[i % n], seconds);
    }
  return TRUE;
}

static gboolean
measure (Bench *bench, TarnOpenclLocalMemory *result, GError **error)
{
  TarnBankPattern patterns[TARN_BANK_MAX_PATTERNS];
  gdouble times[TARN_BANK_MAX_PATTERNS];
  guint n;

  if (!check_can_measure (bench->device, error) || !open_queue (bench, error)
      || !make_program (bench, error) || !choose_items (bench, error)
      || !choose_patterns (bench, patterns, &n, error) || !make_results (bench, error)
      || !time_patterns (bench, patterns, n, times, error))
    return FALSE;
  for (guint i = 0; i < n; i++)
    g_debug ("%u lanes, run %u, stride %u, shift %u, %u steps: %.3f us", bench->lanes,
             patterns[i].run, patterns[i].stride, patterns[i].shift, bench->steps, times[i] * 1e6);
  _tarn_opencl_analyze_banks (patterns, times, n, bench->lanes, result);
  return TRUE;
}

gboolean
tarn_opencl_measure_local_memory (cl_device_id device, TarnOpenclLocalMemory *result,
                                  GError **error)
{
  g_auto (Bench) bench = { .device = device };
  TarnOpenclLocalMemory measured;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  if (!_tarn_struct_has_size_or_set_error (result, "TarnOpenclLocalMemory", error))
    return FALSE;
  TARN_REFUSE_NULL (device, FALSE);

  if (!_tarn_opencl_load (error) || !measure (&bench, &measured, error))
    return FALSE;
  _tarn_struct_write (result, &measured, sizeof measured);
  return TRUE;
}
