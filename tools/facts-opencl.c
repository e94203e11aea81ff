/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Collects facts about an OpenCL device.  If the driver does not answer one query, the other
 * queries are still made. */

#include "opencl-calls.h"
#include <string.h>

#include "facts-private.h"

/* A device, and the list that is being filled. */
typedef struct
{
  Facts facts;
  const TarnOpenclDevice *device;
} Collector;

/* Functions that make queries, and add one fact for each */

static GError *
query_error (const gchar *call, cl_int status)
{
  return g_error_new (TARN_OPENCL_ERROR, status, "%s: %s (%d)", call,
                      tarn_opencl_status_name (status), status);
}

/* The type of the driver's answer. */
typedef enum
{
  QUERY_STRING,
  QUERY_UINT,
  QUERY_ULONG,
  QUERY_SIZE,
  QUERY_BOOL,
  QUERY_BITS /* a cl_uint: a number of bits, which the tool shows as bytes */
} QueryType;

/* A query of clGetDeviceInfo (), and the fact that it gives. */
typedef struct
{
  const gchar *key, *label;
  cl_device_info info;
  QueryType query;
  FactType type;
} Query;

static void
add_string_query (Collector *collector, const Query *query)
{
  g_autofree gchar *text = NULL;
  size_t size = 0;
  cl_int status = OPENCL (clGetDeviceInfo) (collector->device->device, query->info, 0, NULL, &size);
  Fact *fact;

  text = g_malloc0 (size + 1);
  if (status == CL_SUCCESS)
    status = OPENCL (clGetDeviceInfo) (collector->device->device, query->info, size, text, NULL);
  fact = facts_add (&collector->facts, query->key, query->label, query->type, NULL,
                    status != CL_SUCCESS ? query_error ("clGetDeviceInfo", status) : NULL);
  if (status == CL_SUCCESS)
    fact->text = g_steal_pointer (&text);
}

static gsize
query_size (QueryType query)
{
  switch (query)
    {
    case QUERY_ULONG:
      return sizeof (cl_ulong);
    case QUERY_SIZE:
      return sizeof (size_t);
    case QUERY_STRING:
    case QUERY_UINT:
    case QUERY_BOOL:
    case QUERY_BITS:
      break;
    }
  return sizeof (cl_uint);
}

static void
add_query (Collector *collector, const Query *query)
{
  union
  {
    cl_uint narrow;
    cl_ulong wide;
    size_t size;
  } value = { .wide = 0 };
  guint64 number;
  cl_int status;

  if (query->query == QUERY_STRING)
    {
      add_string_query (collector, query);
      return;
    }
  status = OPENCL (clGetDeviceInfo) (collector->device->device, query->info,
                                     query_size (query->query), &value, NULL);
  number = query->query == QUERY_ULONG  ? value.wide
           : query->query == QUERY_SIZE ? value.size
                                        : value.narrow;
  if (query->query == QUERY_BITS)
    number /= 8;
  facts_add_number (&collector->facts, query->key, query->label, query->type, number, NULL,
                    status != CL_SUCCESS ? query_error ("clGetDeviceInfo", status) : NULL);
}

static void
add_queries (Collector *collector, const Query *queries, gsize n_queries)
{
  for (gsize i = 0; i < n_queries; i++)
    add_query (collector, &queries[i]);
}

/* Functions that add the sections */

/* Names the types of a device, such as "GPU, CPU": some simulators have several. */
static gchar *
name_types (cl_device_type types)
{
  static const struct
  {
    cl_device_type bit;
    const gchar *name;
  } names[] = {
    { CL_DEVICE_TYPE_CUSTOM, "custom" },   { CL_DEVICE_TYPE_ACCELERATOR, "accelerator" },
    { CL_DEVICE_TYPE_GPU, "GPU" },         { CL_DEVICE_TYPE_CPU, "CPU" },
    { CL_DEVICE_TYPE_DEFAULT, "default" },
  };
  g_autoptr (GString) text = g_string_new (NULL);

  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    if ((types & names[i].bit) != 0)
      g_string_append_printf (text, "%s%s", text->len > 0 ? ", " : "", names[i].name);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static void
add_type (Collector *collector)
{
  cl_device_type types = 0;
  cl_int status = OPENCL (clGetDeviceInfo) (collector->device->device, CL_DEVICE_TYPE, sizeof types,
                                            &types, NULL);
  Fact *fact = facts_add (&collector->facts, "type", "Type", FACT_TEXT, NULL,
                          status != CL_SUCCESS ? query_error ("clGetDeviceInfo", status) : NULL);

  fact->text = name_types (types);
}

static void
add_platform (Collector *collector)
{
  gchar version[256] = "";
  cl_int status = OPENCL (clGetPlatformInfo) (collector->device->platform, CL_PLATFORM_VERSION,
                                              sizeof version - 1, version, NULL);
  Fact *fact;

  facts_add_text (&collector->facts, "platform", "Platform", collector->device->platform_name);
  fact = facts_add (&collector->facts, "platform_version", "Platform version", FACT_TEXT, NULL,
                    status != CL_SUCCESS ? query_error ("clGetPlatformInfo", status) : NULL);
  fact->text = g_strdup (version);
}

static void
add_identity (Collector *collector)
{
  static const Query queries[] = {
    { "vendor_id", "Vendor ID", CL_DEVICE_VENDOR_ID, QUERY_UINT, FACT_NUMBER },
    { "driver_version", "Driver version", CL_DRIVER_VERSION, QUERY_STRING, FACT_TEXT },
    { "version", "Version", CL_DEVICE_VERSION, QUERY_STRING, FACT_TEXT },
    { "c_version", "C version", CL_DEVICE_OPENCL_C_VERSION, QUERY_STRING, FACT_TEXT },
  };

  collector->facts.section = "identity";
  facts_add_text (&collector->facts, "name", "Name", collector->device->name);
  facts_add_text (&collector->facts, "vendor", "Vendor", collector->device->vendor);
  add_type (collector);
  add_queries (collector, queries, G_N_ELEMENTS (queries));
  add_platform (collector);
  facts_add_text (&collector->facts, "uuid", "UUID", collector->device->uuid);
  facts_add_text (&collector->facts, "pci", "PCI address", collector->device->pci);
}

static void
add_local_memory_type (Collector *collector)
{
  cl_device_local_mem_type type = CL_NONE;
  cl_int status = OPENCL (clGetDeviceInfo) (collector->device->device, CL_DEVICE_LOCAL_MEM_TYPE,
                                            sizeof type, &type, NULL);
  Fact *fact = facts_add (&collector->facts, "local_type", "Local memory is", FACT_TEXT, NULL,
                          status != CL_SUCCESS ? query_error ("clGetDeviceInfo", status) : NULL);

  fact->text = g_strdup (type == CL_LOCAL ? "local" : type == CL_GLOBAL ? "global" : "none");
}

static void
add_usable_local_memory (Collector *collector)
{
  GError *error = NULL;
  gsize bytes = 0;

  tarn_opencl_usable_local_mem_size (collector->device->device, -1, &bytes, &error);
  facts_add_number (&collector->facts, "usable_local_bytes", "Usable local", FACT_BYTES, bytes,
                    NULL, error);
}

static void
add_banks (Collector *collector)
{
  GError *error = NULL;
  gchar *guess = NULL;
  guint count = 0;

  if (!tarn_opencl_local_memory_bank_count (collector->device->device, &count, &guess, &error)
      && g_error_matches (error, TARN_ERROR, TARN_ERROR_NOT_SUPPORTED))
    {
      g_clear_error (&error);
      facts_add (&collector->facts, "local_banks", "Local memory banks", FACT_NONE, NULL, NULL);
      return;
    }
  facts_add_number (&collector->facts, "local_banks", "Local memory banks", FACT_NUMBER, count,
                    guess, error);
}

static void
add_memory (Collector *collector)
{
  static const Query queries[] = {
    { "global_bytes", "Global", CL_DEVICE_GLOBAL_MEM_SIZE, QUERY_ULONG, FACT_BYTES },
    { "max_allocation_bytes", "Largest allocation", CL_DEVICE_MAX_MEM_ALLOC_SIZE, QUERY_ULONG,
      FACT_BYTES },
    { "constant_bytes", "Constant", CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE, QUERY_ULONG, FACT_BYTES },
    { "cache_bytes", "Cache", CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, QUERY_ULONG, FACT_BYTES },
    { "cache_line_bytes", "Cache line", CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE, QUERY_UINT,
      FACT_BYTES },
    { "base_alignment_bytes", "Base alignment", CL_DEVICE_MEM_BASE_ADDR_ALIGN, QUERY_BITS,
      FACT_BYTES },
    { "unified", "Shared with the host", CL_DEVICE_HOST_UNIFIED_MEMORY, QUERY_BOOL, FACT_BOOLEAN },
    { "local_bytes", "Local", CL_DEVICE_LOCAL_MEM_SIZE, QUERY_ULONG, FACT_BYTES },
  };

  collector->facts.section = "memory";
  add_queries (collector, queries, G_N_ELEMENTS (queries));
  add_usable_local_memory (collector);
  add_local_memory_type (collector);
  add_banks (collector);
}

static void
add_compute_capability (Collector *collector)
{
  GError *error = NULL;
  guint major = 0, minor = 0;
  Fact *fact;

  tarn_opencl_nv_compute_capability (collector->device->device, &major, &minor, &error);
  fact = facts_add (&collector->facts, "compute_capability", "Compute capability",
                    major > 0 ? FACT_TEXT : FACT_NONE, NULL, error);
  if (major > 0)
    fact->text = g_strdup_printf ("%u.%u", major, minor);
}

static void
add_sizes (Collector *collector)
{
  GError *error = NULL;
  gchar *guess = NULL;
  gsize multiple = 0;
  guint size = 0, count = 0;

  tarn_opencl_reasonable_work_group_size_multiple (collector->device->device, NULL, &multiple,
                                                   &error);
  facts_add_number (&collector->facts, "preferred_multiple", "Preferred multiple", FACT_NUMBER,
                    multiple, NULL, g_steal_pointer (&error));
  tarn_opencl_get_simd_group_size (collector->device->device, &size, &error);
  facts_add_number (&collector->facts, "simd_group_size", "SIMD group size",
                    size > 0 ? FACT_NUMBER : FACT_NONE, size, NULL, g_steal_pointer (&error));
  tarn_opencl_simultaneous_work_items_on_local_access (collector->device->device, &count, &guess,
                                                       &error);
  facts_add_number (&collector->facts, "local_access_work_items", "Work items on local access",
                    FACT_NUMBER, count, guess, error);
}

static void
add_execution (Collector *collector)
{
  static const Query queries[] = {
    { "compute_units", "Compute units", CL_DEVICE_MAX_COMPUTE_UNITS, QUERY_UINT, FACT_NUMBER },
    { "clock_mhz", "Clock in MHz", CL_DEVICE_MAX_CLOCK_FREQUENCY, QUERY_UINT, FACT_NUMBER },
    { "max_work_group_size", "Largest work-group", CL_DEVICE_MAX_WORK_GROUP_SIZE, QUERY_SIZE,
      FACT_NUMBER },
  };
  GError *error = NULL;
  gboolean has = FALSE;

  collector->facts.section = "execution";
  add_queries (collector, queries, G_N_ELEMENTS (queries));
  add_sizes (collector);
  add_compute_capability (collector);
  tarn_opencl_has_double_support (collector->device->device, &has, &error);
  facts_add_number (&collector->facts, "doubles", "Doubles", FACT_BOOLEAN, has, NULL, error);
}

static void
add_svm (Collector *collector)
{
  static const struct
  {
    const gchar *key, *label;
    gboolean (*has) (cl_device_id device, gboolean *supported, GError **error);
  } kinds[] = {
    { "coarse_grain_buffer", "Coarse-grain buffer", tarn_opencl_has_coarse_grain_buffer_svm },
    { "fine_grain_buffer", "Fine-grain buffer", tarn_opencl_has_fine_grain_buffer_svm },
    { "fine_grain_buffer_atomics", "... with atomics",
      tarn_opencl_has_fine_grain_buffer_svm_atomics },
    { "fine_grain_system", "Fine-grain system", tarn_opencl_has_fine_grain_system_svm },
    { "fine_grain_system_atomics", "... with atomics",
      tarn_opencl_has_fine_grain_system_svm_atomics },
  };

  collector->facts.section = "svm";
  for (gsize i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      GError *error = NULL;
      gboolean has = FALSE;

      kinds[i].has (collector->device->device, &has, &error);
      facts_add_number (&collector->facts, kinds[i].key, kinds[i].label, FACT_BOOLEAN, has, NULL,
                        error);
    }
}

static void
add_pocl_version (Collector *collector)
{
  GError *error = NULL;
  gchar *guess = NULL;
  guint major = 0, minor = 0;
  gboolean has_version;
  Fact *fact;

  tarn_opencl_get_pocl_version (collector->device->platform, 0, 0, &major, &minor, &guess, &error);
  has_version = major > 0 || minor > 0;
  fact = facts_add (&collector->facts, "pocl_version", "PoCL", has_version ? FACT_TEXT : FACT_NONE,
                    guess, error);
  if (has_version)
    fact->text = g_strdup_printf ("%u.%u", major, minor);
}

static void
add_quirks (Collector *collector)
{
  GError *error = NULL;
  const gchar *bug = NULL;
  TarnOpenclAnswer cached = TARN_OPENCL_UNKNOWN;
  Fact *fact;

  collector->facts.section = "quirks";
  add_pocl_version (collector);
  tarn_opencl_has_struct_arg_count_bug (collector->device->device, NULL, &bug, &error);
  fact = facts_add (&collector->facts, "struct_arg_count_bug", "Miscounts struct arguments",
                    bug != NULL ? FACT_TEXT : FACT_NONE, NULL, g_steal_pointer (&error));
  fact->text = g_strdup (bug);
  tarn_opencl_has_src_build_cache (collector->device->device, &cached, &error);
  facts_add_number (&collector->facts, "src_build_cache", "Caches builds",
                    cached != TARN_OPENCL_UNKNOWN ? FACT_BOOLEAN : FACT_NONE,
                    cached == TARN_OPENCL_YES, NULL, g_steal_pointer (&error));
  fact = facts_add (&collector->facts, "fast_inaccurate_build_options", "Fast, inaccurate builds",
                    FACT_TEXT, NULL, NULL);
  fact->text = tarn_opencl_get_fast_inaccurate_build_options (collector->device->device, &error);
  if (error != NULL)
    {
      fact->type = FACT_NONE;
      fact->error = g_strdup (error->message);
      g_error_free (error);
    }
}

/* Measures local memory, and adds the results.  Without measuring, some of these facts are only
 * guesses. */
static void
add_measured (Collector *collector)
{
  TarnOpenclLocalMemory memory = TARN_OPENCL_LOCAL_MEMORY_INIT;
  GError *error = NULL;
  FactType number, real;
  Fact *fact;

  collector->facts.section = "measured";
  tarn_opencl_measure_local_memory (collector->device->device, &memory, &error);
  number = memory.has_banks ? FACT_NUMBER : FACT_NONE;
  real = error == NULL ? FACT_REAL : FACT_NONE;
  fact = facts_add (&collector->facts, "local_has_banks", "Local memory has banks", FACT_BOOLEAN,
                    NULL, error);
  fact->number = memory.has_banks;
  facts_add_number (&collector->facts, "local_banks", "Local memory banks", number,
                    memory.bank_count, NULL, NULL);
  facts_add_number (&collector->facts, "local_bank_bytes", "Width of a bank",
                    memory.has_banks ? FACT_BYTES : FACT_NONE, memory.bank_bytes, NULL, NULL);
  facts_add_number (&collector->facts, "local_access_work_items", "Work items on local access",
                    number, memory.work_items, NULL, NULL);
  fact = facts_add (&collector->facts, "local_confidence", "Confidence, 0 to 1", real, NULL, NULL);
  fact->real = memory.confidence;
}

void
facts_add_opencl (GPtrArray *list, const Device *device, gboolean measure)
{
  Collector collector = { { list, NULL }, device->opencl };

  add_identity (&collector);
  add_memory (&collector);
  add_execution (&collector);
  add_svm (&collector);
  add_quirks (&collector);
  if (measure)
    add_measured (&collector);
}
