/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * tarn-info as a program reads it: what it says is what clinfo says, wherever both say something,
 * and bad input is refused. */

#include <json-glib/json-glib.h>
#include <string.h>

/* What a command printed; its exit status in *status. */
static gchar *
run (const gchar *const *command, gint *status, gchar **errors)
{
  g_autoptr (GError) error = NULL;
  gchar *output = NULL;
  gint wait_status;

  g_spawn_sync (NULL, (gchar **) command, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, &output, errors,
                &wait_status, &error);
  g_assert_no_error (error);
  *status = -1;
  if (g_spawn_check_exit_status (wait_status, &error))
    *status = 0;
  else if (error->domain == G_SPAWN_EXIT_ERROR)
    *status = error->code;
  g_clear_error (&error);
  return output;
}

static const gchar *
program (void)
{
  static gchar *path;

  if (path == NULL)
    path = g_build_filename (g_test_get_dir (G_TEST_BUILT), "..", "..", "tools", "tarn-info", NULL);
  return path;
}

/* Of the driver's own faults there may be some: exit status 1. */
static JsonParser *
read_json (const gchar *selection)
{
  const gchar *command[] = { program (), "--json", "--select", selection, NULL };
  gint status;
  g_autofree gchar *errors = NULL;
  g_autofree gchar *text = run (command, &status, &errors);
  g_autoptr (GError) error = NULL;
  JsonParser *parser = json_parser_new ();

  g_assert_cmpint (status, >=, 0);
  g_assert_cmpint (status, <=, 1);
  json_parser_load_from_data (parser, text, -1, &error);
  g_assert_no_error (error);
  return parser;
}

static JsonArray *
get_devices (JsonParser *parser)
{
  JsonObject *root = json_node_get_object (json_parser_get_root (parser));

  return json_object_get_array_member (root, "devices");
}

/* clinfo */

/* What clinfo says of one device, by place and property: "0:1 CL_DEVICE_NAME". */
static GHashTable *
read_clinfo (void)
{
  const gchar *command[] = { "clinfo", "--raw", NULL };
  g_autoptr (GRegex) regex
      = g_regex_new ("^\\[[^\\]/]*/(\\*|\\d+)\\]\\s+([A-Z][A-Z0-9_]+)\\s*(.*)$", 0, 0, NULL);
  GHashTable *facts = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  gint platform = -1, status;
  g_autofree gchar *errors = NULL;
  g_autofree gchar *text = run (command, &status, &errors);
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);

  for (gsize i = 0; lines[i] != NULL; i++)
    {
      g_autoptr (GMatchInfo) match = NULL;
      g_autofree gchar *device = NULL;
      g_autofree gchar *property = NULL;
      gchar *key;

      if (!g_regex_match (regex, lines[i], 0, &match))
        continue;
      device = g_match_info_fetch (match, 1);
      property = g_match_info_fetch (match, 2);
      platform += g_str_equal (device, "*") && g_str_equal (property, "CL_PLATFORM_NAME");
      key = g_strdup_printf ("%d:%s %s", platform, device, property);
      /* The first: what follows at the end is of contexts. */
      if (g_hash_table_contains (facts, key))
        g_free (key);
      else
        g_hash_table_insert (facts, key, g_strstrip (g_match_info_fetch (match, 3)));
    }
  return facts;
}

/* How clinfo writes what tarn-info does */

static gchar *
as_text (JsonNode *node)
{
  return g_strstrip (g_strdup (json_node_get_string (node)));
}

static gchar *
as_pci (JsonNode *node)
{
  return g_strconcat ("PCI-E, ", json_node_get_string (node), NULL);
}

static gchar *
as_number (JsonNode *node)
{
  return g_strdup_printf ("%" G_GINT64_FORMAT, json_node_get_int (node));
}

static gchar *
as_hexadecimal (JsonNode *node)
{
  return g_strdup_printf ("%#" G_GINT64_MODIFIER "x", json_node_get_int (node));
}

static gchar *
as_bits (JsonNode *node)
{
  return g_strdup_printf ("%" G_GINT64_FORMAT, json_node_get_int (node) * 8);
}

static gchar *
as_boolean (JsonNode *node)
{
  return g_strdup (json_node_get_boolean (node) ? "CL_TRUE" : "CL_FALSE");
}

static gchar *
as_memory_type (JsonNode *node)
{
  g_autofree gchar *upper = g_ascii_strup (json_node_get_string (node), -1);

  return g_strconcat ("CL_", upper, NULL);
}

static gchar *
as_types (JsonNode *node)
{
  g_auto (GStrv) types = g_strsplit (json_node_get_string (node), ", ", -1);
  g_autoptr (GString) text = g_string_new (NULL);

  for (gsize i = 0; types[i] != NULL; i++)
    {
      g_autofree gchar *upper = g_ascii_strup (types[i], -1);

      g_string_append_printf (text, "%sCL_DEVICE_TYPE_%s", i > 0 ? " | " : "", upper);
    }
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static const struct
{
  const gchar *section, *key, *property;
  gchar *(*format) (JsonNode *node);
} pairs[] = {
  { "identity", "name", "CL_DEVICE_NAME", as_text },
  { "identity", "vendor", "CL_DEVICE_VENDOR", as_text },
  { "identity", "vendor_id", "CL_DEVICE_VENDOR_ID", as_hexadecimal },
  { "identity", "type", "CL_DEVICE_TYPE", as_types },
  { "identity", "driver_version", "CL_DRIVER_VERSION", as_text },
  { "identity", "version", "CL_DEVICE_VERSION", as_text },
  { "identity", "c_version", "CL_DEVICE_OPENCL_C_VERSION", as_text },
  { "identity", "uuid", "CL_DEVICE_UUID_KHR", as_text },
  { "identity", "pci", "CL_DEVICE_PCI_BUS_INFO_KHR", as_pci },
  { "memory", "global_bytes", "CL_DEVICE_GLOBAL_MEM_SIZE", as_number },
  { "memory", "max_allocation_bytes", "CL_DEVICE_MAX_MEM_ALLOC_SIZE", as_number },
  { "memory", "constant_bytes", "CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE", as_number },
  { "memory", "cache_bytes", "CL_DEVICE_GLOBAL_MEM_CACHE_SIZE", as_number },
  { "memory", "cache_line_bytes", "CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE", as_number },
  { "memory", "base_alignment_bytes", "CL_DEVICE_MEM_BASE_ADDR_ALIGN", as_bits },
  { "memory", "unified", "CL_DEVICE_HOST_UNIFIED_MEMORY", as_boolean },
  { "memory", "local_bytes", "CL_DEVICE_LOCAL_MEM_SIZE", as_number },
  { "memory", "local_type", "CL_DEVICE_LOCAL_MEM_TYPE", as_memory_type },
  { "execution", "compute_units", "CL_DEVICE_MAX_COMPUTE_UNITS", as_number },
  { "execution", "clock_mhz", "CL_DEVICE_MAX_CLOCK_FREQUENCY", as_number },
  { "execution", "max_work_group_size", "CL_DEVICE_MAX_WORK_GROUP_SIZE", as_number },
  { "execution", "preferred_multiple", "CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE", as_number },
  { "execution", "simd_group_size", "CL_DEVICE_WARP_SIZE_NV", as_number },
};

static gboolean
is_opencl (JsonObject *device)
{
  return g_str_equal (json_object_get_string_member (device, "kind"), "opencl");
}

static const gchar *
look_up (GHashTable *clinfo, JsonObject *device, const gchar *property)
{
  g_autofree gchar *key
      = g_strdup_printf ("%s %s", json_object_get_string_member (device, "place"), property);

  return g_hash_table_lookup (clinfo, key);
}

/* "..." and 0 where a driver does not answer: clinfo leaves the property out, or says so */
static gboolean
is_answer (const gchar *text)
{
  return text != NULL && text[0] != '\0' && text[0] != '<' && strstr (text, "rror") == NULL;
}

/* What differs, in words; NULL: nothing.  What clinfo itself says differently from one time to the
 * next (PoCL's memory is what the machine has left) is passed over. */
static gchar *
find_difference (GHashTable *before, GHashTable *after, JsonObject *device, guint *n_compared)
{
  for (gsize i = 0; i < G_N_ELEMENTS (pairs); i++)
    {
      JsonObject *section = json_object_get_object_member (device, pairs[i].section);
      const gchar *expected = look_up (before, device, pairs[i].property);
      JsonNode *node = json_object_get_member (section, pairs[i].key);
      g_autofree gchar *text = NULL;

      g_assert_nonnull (node);
      if (!is_answer (expected) || JSON_NODE_HOLDS_NULL (node)
          || g_strcmp0 (expected, look_up (after, device, pairs[i].property)) != 0)
        continue;
      text = pairs[i].format (node);
      g_test_message ("%s.%s: %s", pairs[i].section, pairs[i].key, text);
      if (!g_str_equal (text, expected))
        return g_strdup_printf ("%s.%s: '%s', to clinfo '%s'", pairs[i].section, pairs[i].key, text,
                                expected);
      ++*n_compared;
    }
  return NULL;
}

static void
compare_svm (GHashTable *clinfo, JsonObject *device)
{
  static const struct
  {
    const gchar *key, *bits[2];
  } kinds[] = {
    { "coarse_grain_buffer", { "COARSE_GRAIN_BUFFER", "" } },
    { "fine_grain_buffer", { "FINE_GRAIN_BUFFER", "" } },
    { "fine_grain_system", { "FINE_GRAIN_SYSTEM", "" } },
    { "fine_grain_buffer_atomics", { "FINE_GRAIN_BUFFER", "ATOMICS" } },
    { "fine_grain_system_atomics", { "FINE_GRAIN_SYSTEM", "ATOMICS" } },
  };
  JsonObject *svm = json_object_get_object_member (device, "svm");
  const gchar *capabilities = look_up (clinfo, device, "CL_DEVICE_SVM_CAPABILITIES");

  for (gsize i = 0; i < G_N_ELEMENTS (kinds); i++)
    g_assert_true (json_object_get_boolean_member (svm, kinds[i].key)
                   == (capabilities != NULL && strstr (capabilities, kinds[i].bits[0]) != NULL
                       && strstr (capabilities, kinds[i].bits[1]) != NULL));
}

static gchar *
compare_devices (guint *n_devices)
{
  g_autoptr (GHashTable) before = read_clinfo ();
  g_autoptr (JsonParser) parser = read_json ("*");
  g_autoptr (GHashTable) after = read_clinfo ();
  JsonArray *devices = get_devices (parser);

  *n_devices = 0;
  for (guint i = 0; i < json_array_get_length (devices); i++)
    {
      JsonObject *device = json_array_get_object_element (devices, i);
      guint n_compared = 0;
      gchar *difference;

      if (!is_opencl (device))
        continue;
      ++*n_devices;
      g_test_message ("%s", json_object_get_string_member (device, "place"));
      difference = find_difference (before, after, device, &n_compared);
      if (difference != NULL)
        return difference;
      compare_svm (before, device);
      g_assert_cmpuint (n_compared, >=, 15);
    }
  return NULL;
}

static void
test_clinfo (void)
{
  g_autofree gchar *path = g_find_program_in_path ("clinfo");
  g_autofree gchar *difference = NULL;
  guint n_devices = 0;

  if (path == NULL)
    {
      g_test_skip ("clinfo is not installed");
      return;
    }
  /* What changes may change between any two looks at it, but not each time. */
  for (guint i = 0; i < 5 && (i == 0 || difference != NULL); i++)
    {
      g_free (difference);
      difference = compare_devices (&n_devices);
    }
  g_assert_cmpstr (difference, ==, NULL);
  if (n_devices == 0)
    g_test_skip ("there is no OpenCL device");
}

/* Every device has every key; what it selects itself by, selects it. */
static void
test_keys (void)
{
  static const gchar *const members[] = { "kind",      "place", "selector", "identity", "memory",
                                          "execution", "svm",   "quirks",   "guesses",  "errors" };
  g_autoptr (JsonParser) parser = read_json ("*");
  JsonArray *devices = get_devices (parser);

  if (json_array_get_length (devices) == 0)
    g_test_skip ("there is no OpenCL device");
  for (guint i = 0; i < json_array_get_length (devices); i++)
    {
      JsonObject *device = json_array_get_object_element (devices, i);
      const gchar *selector = json_object_get_string_member (device, "selector");
      g_autoptr (JsonParser) again = read_json (selector);
      JsonArray *selected = get_devices (again);

      for (gsize j = 0; j < G_N_ELEMENTS (members); j++)
        g_assert_true (json_object_has_member (device, members[j]) || !is_opencl (device));
      g_assert_false (json_object_has_member (device, "measured"));
      g_assert_cmpuint (json_array_get_length (selected), ==, 1);
      g_assert_cmpstr (
          json_object_get_string_member (json_array_get_object_element (selected, 0), "place"), ==,
          json_object_get_string_member (device, "place"));
    }
}

static void
assert_refused (const gchar *option, const gchar *value, gint expected, const gchar *named)
{
  const gchar *command[] = { program (), option, value, NULL };
  g_autofree gchar *errors = NULL;
  gint status;
  g_autofree gchar *output = run (command, &status, &errors);

  g_test_message ("%s", errors);
  g_assert_cmpint (status, ==, expected);
  g_assert_cmpstr (output, ==, "");
  g_assert_true (g_str_has_prefix (errors, "tarn-info: "));
  g_assert_nonnull (strstr (errors, named));
}

static void
test_refused (void)
{
  assert_refused ("--frobnicate", NULL, 2, "--frobnicate");
  assert_refused ("surplus", NULL, 2, "'surplus'");
  assert_refused ("--select", "nosuch", 2, "'nosuch'");
  assert_refused ("--select", "99", 2, "99");
  assert_refused ("--select", ";", 2, ";");
  assert_refused ("--select", "*:*:*", 2, "':'");
}

/* Of each kind that the program was built with. */
static void
assert_explained (const gchar *opencl, const gchar *cuda)
{
  const gchar *command[] = { program (), NULL };
  g_autofree gchar *errors = NULL;
  gint status;
  g_autofree gchar *output = run (command, &status, &errors);

  g_test_message ("%s%s", output, errors);
  g_assert_cmpint (status, ==, 1);
  g_assert_nonnull (strstr (errors, "\ntarn-info: OpenCL: "));
  g_assert_nonnull (strstr (errors, "\ntarn-info: CUDA: "));
  g_assert_true (strstr (errors, opencl) != NULL
                 || strstr (errors, "OpenCL: libOpenCL.so.1: ") != NULL
                 || strstr (errors, "OpenCL: Tarn was built without it") != NULL);
  g_assert_true (strstr (errors, cuda) != NULL
                 || strstr (errors, "CUDA: Tarn was built without it") != NULL);
}

static void
test_no_device (void)
{
  g_autofree gchar *vendors = g_strdup (g_getenv ("OCL_ICD_VENDORS"));
  g_autofree gchar *choice = g_strdup (g_getenv ("TARN_TEST"));
  g_autoptr (JsonParser) parser = NULL;

  g_setenv ("OCL_ICD_VENDORS", "/nonexistent", TRUE);
  g_setenv ("CUDA_VISIBLE_DEVICES", "-1", TRUE); /* what a real driver goes by */
  g_setenv ("TARN_TESTING_CUDA_DEVICES", "0", TRUE);
  g_unsetenv ("TARN_TEST");
  g_unsetenv ("PYOPENCL_TEST");
  assert_refused (NULL, NULL, 1, "there is no device");
  assert_explained ("the loader finds no platform (CL_PLATFORM_NOT_FOUND_KHR)",
                    "there is no CUDA d" /* driver, or device */);
  parser = read_json ("*");
  g_assert_cmpuint (json_array_get_length (get_devices (parser)), ==, 0);
  if (vendors != NULL)
    g_setenv ("OCL_ICD_VENDORS", vendors, TRUE);
  else
    g_unsetenv ("OCL_ICD_VENDORS");
  g_unsetenv ("CUDA_VISIBLE_DEVICES");
  g_unsetenv ("TARN_TESTING_CUDA_DEVICES");
  if (choice != NULL)
    g_setenv ("TARN_TEST", choice, TRUE);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/tarn-info/clinfo", test_clinfo);
  g_test_add_func ("/tarn-info/keys", test_keys);
  g_test_add_func ("/tarn-info/refused", test_refused);
  g_test_add_func ("/tarn-info/no-device", test_no_device);
  return g_test_run ();
}
