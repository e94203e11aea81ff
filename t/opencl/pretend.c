/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "pretend.h"

#include <string.h>

/* cl_nv_device_attribute_query */
#define COMPUTE_CAPABILITY_MAJOR_NV 0x4000
#define COMPUTE_CAPABILITY_MINOR_NV 0x4001
#define WARP_SIZE_NV 0x4003

#define NVIDIA "NVIDIA Corporation"
#define AMD "Advanced Micro Devices, Inc."
#define CPU CL_DEVICE_TYPE_CPU
#define GPU CL_DEVICE_TYPE_GPU
#define ACCELERATOR CL_DEVICE_TYPE_ACCELERATOR

static const gsize shape[] = { 16, 16 };

static const OpenclLayer *layer;

static void
pretend_text (cl_device_info name, const gchar *text)
{
  layer->set_device_info (name, text, strlen (text) + 1);
}

static void
pretend_platform (cl_platform_info name, const gchar *text)
{
  layer->set_platform_info (name, text, strlen (text) + 1);
}

static void
pretend_number (cl_device_info name, cl_uint value)
{
  layer->set_device_info (name, &value, sizeof value);
}

static void
pretend_type (cl_device_type type)
{
  layer->set_device_info (CL_DEVICE_TYPE, &type, sizeof type);
}

/* The driver is said not to know what only NVIDIA's know. */
static void
pretend_no_nvidia (void)
{
  layer->reset ();
  layer->refuse_info ("clGetDeviceInfo", COMPUTE_CAPABILITY_MAJOR_NV, CL_INVALID_VALUE);
  layer->refuse_info ("clGetDeviceInfo", COMPUTE_CAPABILITY_MINOR_NV, CL_INVALID_VALUE);
  layer->refuse_info ("clGetDeviceInfo", WARP_SIZE_NV, CL_INVALID_VALUE);
}

/* What local memory is judged by; compute capability 0.0: none. */
static void
pretend_architecture (cl_uint major, cl_uint minor, cl_device_type type,
                      cl_device_local_mem_type local)
{
  pretend_no_nvidia ();
  if (major > 0)
    {
      pretend_number (COMPUTE_CAPABILITY_MAJOR_NV, major);
      pretend_number (COMPUTE_CAPABILITY_MINOR_NV, minor);
    }
  pretend_type (type);
  pretend_number (CL_DEVICE_LOCAL_MEM_TYPE, local);
}

/* What all kernels are said to prefer. */
static void
pretend_multiple (gsize multiple)
{
  layer->set_info ("clGetKernelWorkGroupInfo", CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE,
                   &multiple, sizeof multiple);
}

void
opencl_assert_nothing_leaked (const OpenclState *state)
{
  g_assert_cmpuint (layer->get_live (OPENCL_LAYER_KERNEL, NULL, 0), ==, 0);
  g_assert_cmpuint (layer->get_live (OPENCL_LAYER_PROGRAM, NULL, 0), ==, 0);
  g_assert_cmpuint (layer->get_live (OPENCL_LAYER_CONTEXT, NULL, 0), ==, 1);
  g_assert_cmpuint (layer->get_references (state->context), ==, 1);
}

/* As it is where the answer is a guess: a sentence that has that in it; NULL: none. */
static void
assert_guess (const gchar *guess, const gchar *expected)
{
  if (expected == NULL)
    g_assert_null (guess);
  else
    {
      g_assert_nonnull (guess);
      g_test_message ("%s", guess);
      g_assert_nonnull (strstr (guess, expected));
    }
}

static void
test_extensions (const TarnOpenclDevice *device, OpenclState *state)
{
  static const struct
  {
    const gchar *extensions;
    gboolean doubles, amd_doubles;
  } rows[] = {
    { "cl_khr_fp64", TRUE, FALSE },
    { "cl_khr_icd cl_khr_fp64 ", TRUE, FALSE },
    { "cl_khr_fp64 cl_amd_fp64", TRUE, TRUE },
    { "cl_amd_fp64 cl_khr_icd", FALSE, TRUE },
    { "cl_khr_fp64_of_another_kind xcl_khr_fp64 cl_amd_fp640", FALSE, FALSE },
    { "cl_khr_fp16", FALSE, FALSE },
    { "", FALSE, FALSE },
  };

  (void) state;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      gboolean doubles = -1, amd_doubles = -1;

      layer->reset ();
      pretend_text (CL_DEVICE_EXTENSIONS, rows[i].extensions);
      OK (has_double_support, device->device, &doubles);
      OK (has_amd_double_support, device->device, &amd_doubles);
      g_assert_cmpint (doubles, ==, rows[i].doubles);
      g_assert_cmpint (amd_doubles, ==, rows[i].amd_doubles);
    }
  layer->reset ();
}

static void
test_compute_capability (const TarnOpenclDevice *device, OpenclState *state)
{
  static const cl_uint rows[][2] = { { 1, 0 }, { 1, 3 }, { 2, 0 }, { 9, 0 }, { 12, 1 } };
  static const cl_int unknown[] = { CL_INVALID_VALUE, CL_INVALID_OPERATION };
  guint major, minor;
  g_autoptr (GError) error = NULL;

  (void) state;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      pretend_architecture (rows[i][0], rows[i][1], GPU, CL_LOCAL);
      OK (nv_compute_capability, device->device, &major, &minor);
      g_assert_cmpuint (major, ==, rows[i][0]);
      g_assert_cmpuint (minor, ==, rows[i][1]);
    }
  for (guint i = 0; i < G_N_ELEMENTS (unknown); i++)
    {
      major = minor = 99;
      layer->refuse_info ("clGetDeviceInfo", COMPUTE_CAPABILITY_MAJOR_NV, unknown[i]);
      OK (nv_compute_capability, device->device, &major, &minor);
      g_assert_cmpuint (major, ==, 0);
      g_assert_cmpuint (minor, ==, 0);
    }
  layer->refuse_info ("clGetDeviceInfo", COMPUTE_CAPABILITY_MAJOR_NV, CL_DEVICE_NOT_AVAILABLE);
  g_assert_false (tarn_opencl_nv_compute_capability (device->device, &major, &minor, &error));
  g_assert_error (error, TARN_OPENCL_ERROR, CL_DEVICE_NOT_AVAILABLE);
  g_assert_cmpstr (error->message, ==, "clGetDeviceInfo: CL_DEVICE_NOT_AVAILABLE (-2)");
  layer->reset ();
}

/* A CPU whose local memory has no banks has 0 of them here. */
static void
test_work_items_and_banks (const TarnOpenclDevice *device, OpenclState *state)
{
  static const struct
  {
    cl_uint major, minor;
    cl_device_type type;
    cl_device_local_mem_type local;
    guint items, banks;
    const gchar *items_guess, *banks_guess;
  } rows[] = {
    { 1, 3, GPU, CL_LOCAL, 16, 16, NULL, NULL },
    { 1, 0, CPU, CL_GLOBAL, 16, 16, NULL, NULL },
    { 2, 0, GPU, CL_LOCAL, 32, 32, NULL, NULL },
    { 2, 1, GPU, CL_LOCAL, 32, 32, NULL, NULL },
    { 3, 0, GPU, CL_LOCAL, 32, 32, "has 3.0", "has 3.0" },
    { 9, 1, GPU, CL_LOCAL, 32, 32, "work items", "number of banks" },
    { 0, 0, GPU, CL_LOCAL, 16, 16, "a GPU that", "a GPU that" },
    { 0, 0, GPU, CL_GLOBAL, 16, 16, "a GPU that", "a GPU that" },
    { 0, 0, GPU | CPU, CL_GLOBAL, 16, 16, "a GPU that", "a GPU that" },
    { 0, 0, CPU, CL_LOCAL, 1, 16, NULL, "a CPU" },
    { 0, 0, CPU, CL_NONE, 1, 16, NULL, "a CPU" },
    { 0, 0, CPU | CL_DEVICE_TYPE_DEFAULT, CL_GLOBAL, 1, 0, NULL, NULL },
    { 0, 0, ACCELERATOR, CL_LOCAL, 16, 16, "neither", "neither" },
    { 0, 0, ACCELERATOR, CL_GLOBAL, 16, 16, "neither", "neither" },
    { 0, 0, CL_DEVICE_TYPE_CUSTOM, CL_NONE, 16, 16, "neither", "neither" },
  };

  (void) state;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      guint items = 99, banks = 99;
      g_autofree gchar *items_guess = NULL;
      g_autofree gchar *banks_guess = NULL;
      g_autoptr (GError) error = NULL;

      pretend_architecture (rows[i].major, rows[i].minor, rows[i].type, rows[i].local);
      OK (simultaneous_work_items_on_local_access, device->device, &items, &items_guess);
      g_assert_cmpuint (items, ==, rows[i].items);
      assert_guess (items_guess, rows[i].items_guess);
      if (tarn_opencl_local_memory_bank_count (device->device, &banks, &banks_guess, &error))
        {
          g_assert_cmpuint (banks, ==, rows[i].banks);
          assert_guess (banks_guess, rows[i].banks_guess);
          continue;
        }
      g_assert_cmpuint (rows[i].banks, ==, 0);
      g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
      g_assert_cmpuint (banks, ==, 99);
      g_assert_null (banks_guess);
    }
  layer->reset ();
}

static void
test_usable_local_memory (const TarnOpenclDevice *device, OpenclState *state)
{
  static const struct
  {
    cl_uint major, minor;
    cl_ulong all;
    gint n_args;
    gsize usable;
  } rows[] = {
    { 1, 3, 16384, -1, 16128 }, { 1, 3, 16384, -9, 16128 },     { 1, 3, 16384, 0, 16384 },
    { 1, 3, 16384, 3, 16372 },  { 1, 0, 256, -1, 0 },           { 1, 0, 100, -1, 0 },
    { 1, 0, 8, 3, 0 },          { 1, 3, 16384, G_MAXINT, 0 },   { 2, 0, 49152, -1, 49152 },
    { 2, 0, 49152, 3, 49152 },  { 9, 0, 49152, 3, 49152 },      { 0, 0, 65536, -1, 65536 },
    { 0, 0, 65536, 3, 65536 },  { 1, 3, 16384, 0x40000001, 0 },
  };

  (void) state;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      gsize usable = 99;

      pretend_architecture (rows[i].major, rows[i].minor, GPU, CL_LOCAL);
      layer->set_device_info (CL_DEVICE_LOCAL_MEM_SIZE, &rows[i].all, sizeof rows[i].all);
      OK (usable_local_mem_size, device->device, rows[i].n_args, &usable);
      g_assert_cmpuint (usable, ==, rows[i].usable);
    }
  layer->reset ();
}

static void
test_conflicts (const TarnOpenclDevice *device, OpenclState *state)
{
  static const gsize padded[] = { 16, 17 };
  static const struct
  {
    cl_uint major;
    cl_device_type type;
    cl_device_local_mem_type local;
    gsize item_size;
    const gsize *stored_shape;
    guint multiplicity;        /* 0: not supported */
    const gchar *text, *guess; /* of the explanation, the beginning */
  } rows[] = {
    { 1, GPU, CL_LOCAL, 4, NULL, 16,
      "16x conflict on axis 1 (from right, 0-based): w.item 0 -> [0, 0], w.item 1 -> [1, 0], ",
      NULL },
    { 1, GPU, CL_LOCAL, 4, padded, 1, NULL, NULL },
    { 2, GPU, CL_LOCAL, 4, NULL, 8,
      "8x conflict on axis 1 (from right, 0-based): w.item 1 -> [1, 0], w.item 3 -> [3, 0], ",
      NULL },
    { 2, GPU, CL_LOCAL, 4, padded, 2, "2x conflict on axis 0", NULL },
    { 1, GPU, CL_LOCAL, 8, NULL, 16, "16x",
      "elements have 8 bytes, but the answer is exact for 4" },
    { 9, GPU, CL_LOCAL, 4, NULL, 8, "8x conflict on axis 1",
      "the number of work items at a time is that of compute capability 2.x, but the device has "
      "9.0; the number of banks is that of compute capability 2.x, but the device has 9.0" },
    { 0, GPU, CL_LOCAL, 2, NULL, 8, "8x", "not NVIDIA's; elements have 2" },
    { 0, ACCELERATOR, CL_LOCAL, 4, padded, 1, NULL, "a GPU nor a CPU; the number of banks" },
    { 0, CPU, CL_LOCAL, 4, NULL, 1, NULL, "number of banks" },
    { 0, CPU, CL_GLOBAL, 4, NULL, 0, NULL, NULL },
  };

  (void) state;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      guint multiplicity = 0;
      g_autofree gchar *text = NULL;
      g_autofree gchar *guess = NULL;
      g_autoptr (GError) error = NULL;

      pretend_architecture (rows[i].major, 0, rows[i].type, rows[i].local);
      if (!tarn_opencl_why_not_local_access_conflict_free (device->device, rows[i].item_size, 2,
                                                           shape, rows[i].stored_shape,
                                                           &multiplicity, &text, &guess, &error))
        g_assert_error (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED);
      g_assert_cmpuint (multiplicity, ==, rows[i].multiplicity);
      g_assert_true ((text == NULL) == (rows[i].text == NULL));
      g_assert_true (text == NULL || g_str_has_prefix (text, rows[i].text));
      assert_guess (guess, rows[i].guess);
    }
  layer->reset ();
}

static void
test_multiple (const TarnOpenclDevice *device, OpenclState *state)
{
  gsize multiple = 0;

  layer->reset ();
  pretend_number (WARP_SIZE_NV, 32);
  OK (reasonable_work_group_size_multiple, device->device, NULL, &multiple);
  g_assert_cmpuint (multiple, ==, 32);
  g_assert_cmpuint (layer->get_calls (NULL), ==, 1);

  layer->refuse_info ("clGetDeviceInfo", WARP_SIZE_NV, CL_INVALID_OPERATION);
  pretend_multiple (64);
  OK (reasonable_work_group_size_multiple, device->device, NULL, &multiple);
  g_assert_cmpuint (multiple, ==, 64);
  g_assert_cmpuint (layer->get_calls ("clCreateContext"), ==, 1);
  opencl_assert_nothing_leaked (state);

  pretend_number (WARP_SIZE_NV, 0);
  pretend_multiple (16);
  OK (reasonable_work_group_size_multiple, device->device, state->context, &multiple);
  g_assert_cmpuint (multiple, ==, 16);
  g_assert_cmpuint (layer->get_calls ("clCreateContext"), ==, 1);
  opencl_assert_nothing_leaked (state);
  layer->reset ();
}

/* The log of a build that failed is part of the error, however odd it is. */
static void
test_build_log (const TarnOpenclDevice *device, OpenclState *state)
{
#define FAILED "clBuildProgram: CL_BUILD_PROGRAM_FAILURE (-11)"
  static const gchar *const rows[][2] = {
    { "  probe:1: no such thing\nsorry\n", FAILED ": probe:1: no such thing\nsorry" },
    { "", FAILED },
    { " \n", FAILED },
    { "caf\xe9", FAILED ": caf\xef\xbf\xbd" },
    { NULL, FAILED },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      gsize multiple = 99;
      g_autoptr (GError) error = NULL;

      pretend_no_nvidia ();
      if (rows[i][0] != NULL)
        layer->set_info ("clGetProgramBuildInfo", CL_PROGRAM_BUILD_LOG, rows[i][0],
                         strlen (rows[i][0]) + 1);
      else
        layer->refuse_info ("clGetProgramBuildInfo", CL_PROGRAM_BUILD_LOG, CL_INVALID_VALUE);
      layer->fail ("clBuildProgram", 1, FALSE, CL_BUILD_PROGRAM_FAILURE);
      g_assert_false (tarn_opencl_reasonable_work_group_size_multiple (device->device, NULL,
                                                                       &multiple, &error));
      g_assert_error (error, TARN_OPENCL_ERROR, CL_BUILD_PROGRAM_FAILURE);
      g_assert_cmpstr (error->message, ==, rows[i][1]);
      g_assert_cmpuint (multiple, ==, 99);
      opencl_assert_nothing_leaked (state);
    }
  layer->reset ();
}

static void
test_simd_group_size (const TarnOpenclDevice *device, OpenclState *state)
{
  static const struct
  {
    cl_uint warp_size; /* 0: not known to the driver */
    cl_device_type type;
    const gchar *vendor, *platform_vendor;
    guint size;
    gboolean with_kernel;
  } rows[] = {
    { 32, CPU, "x", "x", 32, FALSE },
    { 8, GPU, AMD, AMD, 8, FALSE },
    { 0, GPU, "x", NVIDIA, 32, FALSE },
    { 0, GPU, "nVidia", "x", 32, FALSE },
    { 0, CPU, "x", NVIDIA, 32, FALSE },
    { 0, GPU, AMD, "x", 64, TRUE },
    { 0, GPU, "x", "ADVANCED MICRO DEVICES", 64, TRUE },
    { 0, CPU, "GenuineIntel", AMD, 1, FALSE },
    { 0, ACCELERATOR, AMD, AMD, 0, FALSE },
    { 0, GPU, "Intel(R) Corporation", "Intel(R) Corporation", 0, FALSE },
    { 0, CPU, "GenuineIntel", "The pocl project", 1, FALSE },
    { 0, ACCELERATOR, "x Corporation", "x", 0, FALSE },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      guint size = 99;

      pretend_no_nvidia ();
      if (rows[i].warp_size > 0)
        pretend_number (WARP_SIZE_NV, rows[i].warp_size);
      pretend_type (rows[i].type);
      pretend_text (CL_DEVICE_VENDOR, rows[i].vendor);
      pretend_platform (CL_PLATFORM_VENDOR, rows[i].platform_vendor);
      pretend_multiple (64);
      OK (get_simd_group_size, device->device, &size);
      g_assert_cmpuint (size, ==, rows[i].size);
      g_assert_cmpuint (layer->get_calls ("clCreateKernel"), ==, rows[i].with_kernel ? 1 : 0);
      opencl_assert_nothing_leaked (state);
    }
  layer->reset ();
}

static void
test_options_by_vendor (const TarnOpenclDevice *device, OpenclState *state)
{
#define FAST "-cl-mad-enable -cl-fast-relaxed-math -cl-no-signed-zeros"
  static const gchar *const rows[][2] = {
    { NVIDIA, FAST " -cl-strict-aliasing" },
    { AMD, FAST " -cl-strict-aliasing" },
    { "Intel(R) Corporation", FAST },
    { "", FAST },
  };

  (void) state;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree gchar *options = NULL;

      layer->reset ();
      pretend_platform (CL_PLATFORM_VENDOR, AMD);
      pretend_text (CL_DEVICE_VENDOR, rows[i][0]);
      options = tarn_opencl_get_fast_inaccurate_build_options (device->device, &error);
      g_assert_no_error (error);
      g_assert_cmpstr (options, ==, rows[i][1]);
    }
  layer->reset ();
}

static void
pretend_platforms (const gchar *name, const gchar *version)
{
  layer->reset ();
  pretend_platform (CL_PLATFORM_NAME, name);
  pretend_platform (CL_PLATFORM_VERSION, version);
}

static void
test_pocl_version (const TarnOpenclDevice *device, OpenclState *state)
{
  static const struct
  {
    const gchar *name, *version;
    guint major, minor;
    gboolean is_guess;
  } rows[] = {
    { POCL, "OpenCL 3.0 PoCL 3.1+debian", 3, 1, FALSE },
    { POCL, "OpenCL 3.0 PoCL 6.0  Linux, Release, RELOC, LLVM 17.0.6", 6, 0, FALSE },
    { POCL, "OpenCL 1.2 pocl 1.6", 1, 6, FALSE },
    { POCL, "OpenCL 2.0 pocl 0.14", 0, 14, FALSE },
    { POCL, "OpenCL 1.2 pocl 0.13, LLVM 3.8", 0, 13, FALSE },
    { POCL, "OpenCL 3.0 PoCL 12.34-rc1", 12, 34, FALSE },
    { POCL, "OpenCL 3.0 PoCL main", 7, 8, TRUE },
    { POCL, "OpenCL 3.0 PoCL 5", 7, 8, TRUE },
    { POCL, "OpenCL 3.0 PoCL 99999999999.0", 7, 8, TRUE },
    { POCL, "OpenCL 3.0 CUDA 11.4", 7, 8, TRUE },
    { POCL, "PoCL 3.1", 7, 8, TRUE },
    { POCL, "", 7, 8, TRUE },
    { "Clover", "OpenCL 1.1 Mesa 22.3.6", 0, 0, FALSE },
    { "rusticl", "OpenCL 3.0 PoCL 3.1", 0, 0, FALSE },
  };

  (void) state;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      guint major = 99, minor = 99;
      g_autofree gchar *guess = NULL;

      pretend_platforms (rows[i].name, rows[i].version);
      OK (get_pocl_version, device->platform, 7, 8, &major, &minor, &guess);
      g_assert_cmpuint (major, ==, rows[i].major);
      g_assert_cmpuint (minor, ==, rows[i].minor);
      assert_guess (guess, rows[i].is_guess ? rows[i].version : NULL);
    }
  layer->reset ();
}

static void
test_struct_bug (const TarnOpenclDevice *device, OpenclState *state)
{
  static const struct
  {
    const gchar *name, *version;
    cl_device_type type;
    cl_uint n_args; /* that the kernel is said to have; 0: none is to be built */
    const gchar *bug;
  } rows[] = {
    { "Apple", "OpenCL 1.2", CPU, 0, "apple" },
    { "Apple", "OpenCL 1.2", CPU | CL_DEVICE_TYPE_DEFAULT, 0, "apple" },
    { "Apple", "OpenCL 1.2 pocl 0.13", GPU, 0, NULL },
    { POCL, "OpenCL 1.2 pocl 0.9-pre", CPU, 0, "pocl" },
    { POCL, "OpenCL 1.2 pocl 0.13, LLVM 3.8", GPU, 0, "pocl" },
    { POCL, "OpenCL 2.0 pocl 0.14", CPU, 2, "pocl" },
    { POCL, "OpenCL 2.0 pocl 0.14", CPU, 1, NULL },
    { POCL, "unreadable", CPU, 2, "pocl" },
    { POCL, "unreadable", CPU, 1, NULL },
    { POCL, "OpenCL 2.0 pocl 0.15", CPU, 0, NULL },
    { POCL, "OpenCL 1.2 pocl 1.0", CPU, 0, NULL },
    { POCL, "OpenCL 2.0 pocl 1.14", CPU, 0, NULL },
    { POCL, "OpenCL 3.0 PoCL 3.1+debian", CPU, 0, NULL },
    { "NVIDIA CUDA", "OpenCL 1.2 pocl 0.13", CPU, 0, NULL },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      const gchar *bug = "unset";

      pretend_platforms (rows[i].name, rows[i].version);
      pretend_type (rows[i].type);
      if (rows[i].n_args > 0)
        layer->set_info ("clGetKernelInfo", CL_KERNEL_NUM_ARGS, &rows[i].n_args,
                         sizeof rows[i].n_args);
      OK (has_struct_arg_count_bug, device->device, i % 2 ? state->context : NULL, &bug);
      g_assert_cmpstr (bug, ==, rows[i].bug);
      g_assert_cmpuint (layer->get_calls ("clCreateKernel"), ==, rows[i].n_args > 0);
      opencl_assert_nothing_leaked (state);
    }
  layer->reset ();
}

/* That the kernel can be built, and what this device says of it. */
static void
test_struct_kernel (const TarnOpenclDevice *device, OpenclState *state)
{
  const gchar *bug = "unset";

  pretend_platforms (POCL, "OpenCL 2.0 pocl 0.14");
  OK (has_struct_arg_count_bug, device->device, NULL, &bug);
  g_assert_null (bug);
  g_assert_cmpuint (layer->get_calls ("clGetKernelInfo"), ==, 1);
  opencl_assert_nothing_leaked (state);
  layer->reset ();
}

static void
test_build_cache (const TarnOpenclDevice *device, OpenclState *state)
{
  static const struct
  {
    const gchar *platform;
    TarnOpenclAnswer answer;
  } rows[] = {
    { POCL, TARN_OPENCL_YES },
    { "NVIDIA CUDA", TARN_OPENCL_YES },
    { "AMD Accelerated Parallel Processing", TARN_OPENCL_NO },
    { "Intel(R) OpenCL HD Graphics", TARN_OPENCL_UNKNOWN },
    { "AMD", TARN_OPENCL_UNKNOWN },
    { "rusticl", TARN_OPENCL_UNKNOWN },
  };

  (void) state;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      TarnOpenclAnswer answer = 99;

      layer->reset ();
      pretend_platform (CL_PLATFORM_NAME, rows[i].platform);
      OK (has_src_build_cache, device->device, &answer);
      g_assert_cmpint (answer, ==, rows[i].answer);
    }
  layer->reset ();
}

void
opencl_assert_svm (cl_device_id device, cl_bitfield capabilities)
{
  static gboolean (*const functions[]) (cl_device_id, gboolean *, GError **)
      = { tarn_opencl_has_coarse_grain_buffer_svm, tarn_opencl_has_fine_grain_buffer_svm,
          tarn_opencl_has_fine_grain_system_svm, tarn_opencl_has_fine_grain_buffer_svm_atomics,
          tarn_opencl_has_fine_grain_system_svm_atomics };
  gboolean atomics = (capabilities & 8) != 0;
  const gboolean expected[]
      = { (capabilities & 1) != 0, (capabilities & 2) != 0, (capabilities & 4) != 0,
          (capabilities & 2) != 0 && atomics, (capabilities & 4) != 0 && atomics };

  for (guint i = 0; i < G_N_ELEMENTS (functions); i++)
    {
      gboolean supported = -1;
      g_autoptr (GError) error = NULL;

      g_assert_true (functions[i](device, &supported, &error));
      g_assert_no_error (error);
      g_assert_cmpint (supported, ==, expected[i]);
    }
}

static void
test_svm (const TarnOpenclDevice *device, OpenclState *state)
{
  static const gchar *const new_versions[]
      = { "OpenCL 2.0 x", "OpenCL 2.1", "OpenCL 3.0 y", "OpenCL 10.0" };
  static const gchar *const old_versions[] = { "OpenCL 1.0", "OpenCL 1.1 x", "OpenCL 1.2 2.0" };
  g_autoptr (GError) error = NULL;

  (void) state;
  for (guint i = 0; i < G_N_ELEMENTS (new_versions); i++)
    for (cl_bitfield capabilities = 0; capabilities < 32; capabilities++)
      {
        pretend_text (CL_DEVICE_VERSION, new_versions[i]);
        pretend_platform (CL_PLATFORM_VERSION, new_versions[i]);
        layer->set_device_info (SVM_CAPABILITIES, &capabilities, sizeof capabilities);
        opencl_assert_svm (device->device, capabilities);
      }
  /* These do not know the question, and are not asked. */
  for (guint i = 0; i < G_N_ELEMENTS (old_versions); i++)
    {
      pretend_text (CL_DEVICE_VERSION, old_versions[i]);
      layer->refuse_info ("clGetDeviceInfo", SVM_CAPABILITIES, CL_INVALID_VALUE);
      opencl_assert_svm (device->device, 0);
    }
  pretend_text (CL_DEVICE_VERSION, "not OpenCL");
  g_assert_false (tarn_opencl_has_coarse_grain_buffer_svm (device->device, NULL, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_FAILED);
  layer->reset ();
}

/* What a driver says when it has no memory left is one error, whatever was asked. */
static void
test_out_of_memory (const TarnOpenclDevice *device, OpenclState *state)
{
  static const gchar *const functions[]
      = { "clCreateContext", "clCreateProgramWithSource", "clBuildProgram", "clCreateKernel",
          "clGetKernelWorkGroupInfo" };

  for (guint i = 0; i < G_N_ELEMENTS (functions); i++)
    {
      g_autoptr (GError) error = NULL;

      pretend_no_nvidia ();
      layer->fail (functions[i], 1, FALSE, CL_OUT_OF_HOST_MEMORY);
      g_assert_false (
          tarn_opencl_reasonable_work_group_size_multiple (device->device, NULL, NULL, &error));
      g_assert_error (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY);
      g_assert_true (g_str_has_prefix (error->message, functions[i]));
      opencl_assert_nothing_leaked (state);
    }
  layer->reset ();
}

void
opencl_pretend_to_be_asked (void)
{
  const cl_bitfield capabilities = 15;

  pretend_no_nvidia ();
  pretend_platform (CL_PLATFORM_NAME, POCL);
  pretend_platform (CL_PLATFORM_VERSION, "OpenCL 2.0 pocl 0.14");
  pretend_text (CL_DEVICE_VENDOR, AMD);
  pretend_text (CL_DEVICE_VERSION, "OpenCL 2.0");
  pretend_type (GPU);
  layer->set_device_info (SVM_CAPABILITIES, &capabilities, sizeof capabilities);
}

void
opencl_pretend_add (const OpenclLayer *loaded)
{
  static const OpenclCase cases[] = {
    { "characterize/pretend/extensions", test_extensions },
    { "characterize/pretend/compute-capability", test_compute_capability },
    { "characterize/pretend/work-items-and-banks", test_work_items_and_banks },
    { "characterize/pretend/usable-local-memory", test_usable_local_memory },
    { "characterize/pretend/conflicts", test_conflicts },
    { "characterize/pretend/multiple", test_multiple },
    { "characterize/pretend/build-log", test_build_log },
    { "characterize/pretend/simd-group-size", test_simd_group_size },
    { "characterize/pretend/options-by-vendor", test_options_by_vendor },
    { "characterize/pretend/pocl-version", test_pocl_version },
    { "characterize/pretend/struct-bug", test_struct_bug },
    { "characterize/pretend/struct-kernel", test_struct_kernel },
    { "characterize/pretend/build-cache", test_build_cache },
    { "characterize/pretend/svm", test_svm },
    { "characterize/pretend/out-of-memory", test_out_of_memory },
  };

  layer = loaded;
  opencl_add (cases, G_N_ELEMENTS (cases));
}
