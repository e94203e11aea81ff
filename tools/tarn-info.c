/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Prints facts about each selected device, for people or for programs. */

#include <config.h>

#include <json-glib/json-glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "devices.h"
#include "facts.h"
#include "output.h"
#include "terminal.h"
#include "text.h"

#define PROGRAM "tarn-info"

#define EXIT_USAGE 2

/* The command line. */
typedef struct
{
  gchar *selection; /* NULL: an environment variable selects the devices */
  gboolean json, measure, version;
  gchar **surplus; /* words that are no options; nullable */
} Options;

static gboolean
check_options (const Options *options, GError **error)
{
  if (options->surplus == NULL)
    return TRUE;
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
               "'%s' is not an option; devices are selected with --select", options->surplus[0]);
  return FALSE;
}

static gboolean
parse_options (Options *options, gint *argc, gchar ***argv, GError **error)
{
  const GOptionEntry entries[] = {
    { "select", 's', 0, G_OPTION_ARG_STRING, &options->selection,
      "Devices, such as 0:0, intel:i5 or *:h200", "SPEC" },
    { "json", 'j', 0, G_OPTION_ARG_NONE, &options->json, "Print JSON", NULL },
    { "measure", 'm', 0, G_OPTION_ARG_NONE, &options->measure,
      "Measure values that are guessed otherwise (seconds)", NULL },
    { "version", 0, 0, G_OPTION_ARG_NONE, &options->version, "Print the version", NULL },
    { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_STRING_ARRAY, &options->surplus, NULL, NULL },
    { NULL, 0, 0, 0, NULL, NULL, NULL },
  };
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);

  g_option_context_set_summary (context, "Prints what Tarn knows of each device.");
  g_option_context_set_description (
      context, "Without --select, TARN_TEST or PYOPENCL_TEST selects devices; by default all.\n"
               "Exit status: 0, 1 if no device is found or a driver fails, 2 for wrong usage.\n");
  g_option_context_add_main_entries (context, entries, NULL);
  return g_option_context_parse (context, argc, argv, error)
         && (options->version || check_options (options, error));
}

/* Functions that collect the facts of each device */

static GPtrArray *
collect (const GPtrArray *devices, const Options *options)
{
  GPtrArray *all = g_ptr_array_new_with_free_func ((GDestroyNotify) g_ptr_array_unref);

  for (guint i = 0; i < devices->len; i++)
    {
      const Device *device = g_ptr_array_index (devices, i);
      g_autofree gchar *progress
          = g_strdup_printf ("[%u/%u] %s %s", i + 1, devices->len,
                             options->measure ? "measuring" : "asking", device->place);

      terminal_set_progress (progress);
      g_ptr_array_add (all, facts_collect (device, options->measure));
    }
  terminal_set_progress (NULL);
  return all;
}

static gboolean
has_errors (const GPtrArray *all)
{
  for (guint i = 0; i < all->len; i++)
    {
      const GPtrArray *facts = g_ptr_array_index (all, i);

      for (guint j = 0; j < facts->len; j++)
        {
          const Fact *fact = g_ptr_array_index (facts, j);

          if (fact->error != NULL && !fact->is_unsupported)
            return TRUE;
        }
    }
  return FALSE;
}

/* Functions that print text for people */

static const gchar *
name_section (const gchar *key)
{
  static const gchar *const names[][2] = {
    { "identity", "Identity" },         { "memory", "Memory" },
    { "execution", "Execution" },       { "multiprocessor", "A multiprocessor" },
    { "svm", "Shared virtual memory" }, { "quirks", "Quirks" },
    { "measured", "Measured" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    if (g_str_equal (names[i][0], key))
      return names[i][1];
  return key;
}

static gchar *
format_value (const Fact *fact)
{
  switch (fact->type)
    {
    case FACT_NONE:
      return g_strdup (fact->error != NULL ? "unknown" : "-");
    case FACT_TEXT:
      return text_make_printable (fact->text, -1);
    case FACT_NUMBER:
      return g_strdup_printf ("%" G_GUINT64_FORMAT, fact->number);
    case FACT_BYTES:
      return g_format_size_full (fact->number, G_FORMAT_SIZE_IEC_UNITS | G_FORMAT_SIZE_LONG_FORMAT);
    case FACT_REAL:
      return g_strdup_printf ("%.3g", fact->real);
    case FACT_BOOLEAN:
      return g_strdup (fact->number != 0 ? "yes" : "no");
    }
  g_return_val_if_reached (NULL);
}

static void
print_fact (const Fact *fact)
{
  g_autofree gchar *value = format_value (fact);
  const gchar *why = fact->error != NULL ? fact->error : fact->guess;
  g_autofree gchar *remark = why != NULL ? text_make_printable (why, -1) : NULL;

  printf ("    %-26s %s", fact->label, value);
  if (remark != NULL)
    printf (" (%s%s)", fact->error == NULL ? "a guess: " : "", remark);
  printf ("\n");
}

static void
print_text (const Device *device, const GPtrArray *facts, gboolean has_color)
{
  g_autofree gchar *name = text_make_printable (device->name, -1);
  const gchar *section = "";

  printf ("%s%s  %s%s\n", has_color ? "\033[1m" : "", device->place, name,
          has_color ? "\033[0m" : "");
  printf ("    %-26s %s\n", "Selector", device->selector);
  for (guint i = 0; i < facts->len; i++)
    {
      const Fact *fact = g_ptr_array_index (facts, i);

      if (!g_str_equal (fact->section, section))
        printf ("  %s\n", name_section (fact->section));
      section = fact->section;
      print_fact (fact);
    }
}

/* Functions that print JSON for programs, and the main function */

static void
build_value (JsonBuilder *builder, const Fact *fact)
{
  switch (fact->type)
    {
    case FACT_NONE:
      json_builder_add_null_value (builder);
      break;
    case FACT_TEXT:
      {
        g_autofree gchar *valid = g_utf8_make_valid (fact->text, -1);

        json_builder_add_string_value (builder, valid);
        break;
      }
    case FACT_NUMBER:
    case FACT_BYTES:
      json_builder_add_int_value (builder, (gint64) MIN (fact->number, G_MAXINT64));
      break;
    case FACT_REAL:
      json_builder_add_double_value (builder, fact->real);
      break;
    case FACT_BOOLEAN:
      json_builder_add_boolean_value (builder, fact->number != 0);
      break;
    }
}

static void
build_string (JsonBuilder *builder, const gchar *key, const gchar *value)
{
  g_autofree gchar *valid = g_utf8_make_valid (value, -1);

  json_builder_set_member_name (builder, key);
  json_builder_add_string_value (builder, valid);
}

static void
build_sections (JsonBuilder *builder, const GPtrArray *facts)
{
  const gchar *section = NULL;

  for (guint i = 0; i < facts->len; i++)
    {
      const Fact *fact = g_ptr_array_index (facts, i);

      if (section == NULL || !g_str_equal (fact->section, section))
        {
          if (section != NULL)
            json_builder_end_object (builder);
          section = fact->section;
          json_builder_set_member_name (builder, section);
          json_builder_begin_object (builder);
        }
      json_builder_set_member_name (builder, fact->key);
      build_value (builder, fact);
    }
  if (section != NULL)
    json_builder_end_object (builder);
}

/* Adds an object that explains all guesses or, if @errors, all unknown facts.  Each key is the name
 * of a fact, such as "memory.local_banks".  Its value says why the fact is a guess or unknown. */
static void
build_remarks (JsonBuilder *builder, const gchar *key, const GPtrArray *facts, gboolean errors)
{
  json_builder_set_member_name (builder, key);
  json_builder_begin_object (builder);
  for (guint i = 0; i < facts->len; i++)
    {
      const Fact *fact = g_ptr_array_index (facts, i);
      const gchar *remark = errors ? fact->error : fact->guess;
      g_autofree gchar *path = g_strdup_printf ("%s.%s", fact->section, fact->key);

      if (remark != NULL)
        build_string (builder, path, remark);
    }
  json_builder_end_object (builder);
}

static void
build_device (JsonBuilder *builder, const Device *device, const GPtrArray *facts)
{
  json_builder_begin_object (builder);
  build_string (builder, "kind", device->kind);
  build_string (builder, "place", device->place);
  build_string (builder, "selector", device->selector);
  build_sections (builder, facts);
  build_remarks (builder, "guesses", facts, FALSE);
  build_remarks (builder, "errors", facts, TRUE);
  json_builder_end_object (builder);
}

static void
print_json (const GPtrArray *devices, const GPtrArray *all)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonGenerator) generator = json_generator_new ();
  g_autoptr (JsonNode) root = NULL;
  g_autofree gchar *text = NULL;

  json_builder_begin_object (builder);
  build_string (builder, "tarn", PACKAGE_VERSION);
  json_builder_set_member_name (builder, "devices");
  json_builder_begin_array (builder);
  for (guint i = 0; i < devices->len; i++)
    build_device (builder, g_ptr_array_index (devices, i), g_ptr_array_index (all, i));
  json_builder_end_array (builder);
  json_builder_end_object (builder);

  root = json_builder_get_root (builder);
  json_generator_set_root (generator, root);
  json_generator_set_pretty (generator, TRUE);
  text = json_generator_to_data (generator, NULL);
  printf ("%s\n", text);
}

static gint
print_devices (const Options *options, const GPtrArray *devices)
{
  g_autoptr (GPtrArray) all = collect (devices, options);
  gboolean is_fine = devices->len > 0 && !has_errors (all);

  if (options->json)
    print_json (devices, all);
  for (guint i = 0; i < devices->len && !options->json; i++)
    {
      printf ("%s", i > 0 ? "\n" : "");
      print_text (g_ptr_array_index (devices, i), g_ptr_array_index (all, i),
                  terminal_has_color (STDOUT_FILENO));
    }
  if (devices->len == 0)
    {
      text_complain (PROGRAM, "there is no device%s",
                     options->selection != NULL ? " that --select selects" : "");
      devices_explain_none ();
    }
  return is_fine ? EXIT_SUCCESS : EXIT_FAILURE;
}

static gint
run (const Options *options, GError **error)
{
  g_autoptr (GPtrArray) devices = NULL;

  if (options->version)
    {
      printf ("%s %s\n", PROGRAM, PACKAGE_VERSION);
      return EXIT_SUCCESS;
    }
  if ((devices = devices_select (options->selection, error)) == NULL)
    return EXIT_USAGE;
  return print_devices (options, devices);
}

gint
main (gint argc, gchar **argv)
{
  Options options = { NULL, FALSE, FALSE, FALSE, NULL };
  g_autoptr (GError) error = NULL;
  gint status = EXIT_USAGE;

  output_guard (PROGRAM);
  text_set_locale ();
  g_set_prgname (PROGRAM);
  if (parse_options (&options, &argc, &argv, &error))
    status = run (&options, &error);
  if (error != NULL)
    text_complain (PROGRAM, "%s", error->message);
  g_free (options.selection);
  g_strfreev (options.surplus);
  return status;
}
