/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Choosing devices by a text: what PyOpenCL chose, and the strict syntax. */

#include <string.h>
#include <tarn/tarn.h>

#include "lib/locale-fixture.h"

/* Platforms, as data/test-selection.tsv lists them */

typedef struct
{
  GArray *platforms;  /* of TarnSelectionPlatform */
  GPtrArray *devices; /* of GArray of TarnSelectionDevice, one for each platform */
  GPtrArray *strings; /* that they point to */
  GStrv lines;
} Data;

static const gchar *
keep (Data *data, const gchar *text)
{
  g_ptr_array_add (data->strings, g_strdup (text));
  return g_ptr_array_index (data->strings, data->strings->len - 1);
}

static void
add_line (Data *data, const gchar *line)
{
  g_auto (GStrv) fields = g_strsplit (line, "\t", -1);

  if (g_str_has_prefix (line, "#platform\t"))
    {
      TarnSelectionPlatform platform = { 0 };

      platform.name = keep (data, fields[2]);
      platform.vendor = keep (data, fields[3]);
      g_array_append_val (data->platforms, platform);
      g_ptr_array_add (data->devices, g_array_new (FALSE, TRUE, sizeof (TarnSelectionDevice)));
    }
  else if (g_str_has_prefix (line, "#device\t"))
    {
      GArray *devices = g_ptr_array_index (data->devices, data->devices->len - 1);
      TarnSelectionDevice device = { 0 };

      device.name = keep (data, fields[2]);
      device.vendor = keep (data, fields[3]);
      g_array_append_val (devices, device);
    }
}

static void
set_up (Data *data, gconstpointer unused)
{
  g_autofree gchar *path
      = g_test_build_filename (G_TEST_DIST, "..", "data", "test-selection.tsv", NULL);
  g_autofree gchar *text = NULL;
  g_autoptr (GError) error = NULL;

  (void) unused;
  g_file_get_contents (path, &text, NULL, &error);
  g_assert_no_error (error);
  data->platforms = g_array_new (FALSE, TRUE, sizeof (TarnSelectionPlatform));
  data->devices = g_ptr_array_new_with_free_func ((GDestroyNotify) g_array_unref);
  data->strings = g_ptr_array_new_with_free_func (g_free);
  data->lines = g_strsplit (text, "\n", -1);
  for (gsize i = 0; data->lines[i] != NULL; i++)
    add_line (data, data->lines[i]);
  for (guint i = 0; i < data->platforms->len; i++)
    {
      TarnSelectionPlatform *platform = &g_array_index (data->platforms, TarnSelectionPlatform, i);
      GArray *devices = g_ptr_array_index (data->devices, i);

      platform->devices = (const TarnSelectionDevice *) (gpointer) devices->data;
      platform->n_devices = devices->len;
    }
  g_assert_cmpuint (data->platforms->len, ==, 4);
}

static void
tear_down (Data *data, gconstpointer unused)
{
  (void) unused;
  g_array_unref (data->platforms);
  g_ptr_array_unref (data->devices);
  g_ptr_array_unref (data->strings);
  g_strfreev (data->lines);
}

/* "0:0 0:1 1:0", or "error: " and the message */
static gchar *
resolve (const gchar *selection, TarnSelectionSyntax syntax, const TarnSelectionPlatform *platforms,
         gsize n_platforms)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GArray) items
      = tarn_selection_resolve (selection, syntax, platforms, n_platforms, &error);
  g_autoptr (GString) text = g_string_new (NULL);

  g_assert_true ((items == NULL) == (error != NULL));
  if (items == NULL)
    {
      g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_SELECTION);
      return g_strconcat ("error: ", error->message, NULL);
    }
  for (guint i = 0; i < items->len; i++)
    {
      TarnSelectionItem item = g_array_index (items, TarnSelectionItem, i);

      g_string_append_printf (text, "%s%u:%u", i > 0 ? " " : "", item.platform, item.device);
    }
  return g_string_free (g_steal_pointer (&text), FALSE);
}

/* "0:0,1 1:0" becomes "0:0 0:1 1:0". */
static gchar *
spell_out (const gchar *expected)
{
  g_auto (GStrv) groups = g_strsplit (expected, " ", -1);
  g_autoptr (GString) text = g_string_new (NULL);

  for (gsize i = 0; groups[i] != NULL; i++)
    {
      g_auto (GStrv) sides = g_strsplit (groups[i], ":", 2);
      g_auto (GStrv) devices = g_strsplit (sides[1], ",", -1);

      for (gsize j = 0; devices[j] != NULL; j++)
        g_string_append_printf (text, "%s%s:%s", text->len > 0 ? " " : "", sides[0], devices[j]);
    }
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static void
test_pyopencl (Data *data, gconstpointer unused)
{
  guint rows = 0;

  (void) unused;
  for (gsize i = 0; data->lines[i] != NULL; i++)
    {
      g_auto (GStrv) fields = g_strsplit (data->lines[i], "\t", 2);
      g_autofree gchar *selection = NULL;
      g_autofree gchar *chosen = NULL;
      g_autofree gchar *expected = NULL;

      if (data->lines[i][0] != '"')
        continue;
      rows++;
      selection = g_strndup (fields[0] + 1, strlen (fields[0]) - 2);
      chosen = resolve (selection, TARN_SELECTION_PYOPENCL,
                        (const TarnSelectionPlatform *) (gpointer) data->platforms->data,
                        data->platforms->len);
      if (g_str_has_prefix (fields[1], "error: "))
        {
          g_test_message ("%s: %s", fields[0], chosen);
          g_assert_true (g_str_has_prefix (chosen, fields[1]));
          continue;
        }
      expected = spell_out (fields[1]);
      g_assert_cmpstr (chosen, ==, expected);
    }
  g_assert_cmpuint (rows, ==, 36);
}

/* Platforms for the strict syntax: two of OpenCL's, one with a name in need of marks, and CUDA's.
 */

static const TarnSelectionDevice opencl_0[] = {
  { "cpu-skylake", "GenuineIntel", NULL, NULL, { NULL } },
  { "cpu-basic", "GenuineIntel", NULL, NULL, { NULL } },
};
static const TarnSelectionDevice opencl_1[] = {
  { "NVIDIA H200", "NVIDIA Corporation", "GPU-aaaa", "0000:65:00.0", { NULL } },
  { "gfx90a:sramecc+;xnack-, *", "AMD", "bbbb", "0001:0a:1f.7", { NULL } },
};
static const TarnSelectionDevice cuda_0[] = {
  { "NVIDIA H200", "NVIDIA Corporation", "GPU-aaaa", "0000:65:00.0", { NULL } },
  { "NVIDIA H100", "NVIDIA Corporation", "GPU-cccc", "0000:66:00.0", { NULL } },
};
static const TarnSelectionPlatform platforms[] = {
  { "Portable Computing Language", "The pocl project", opencl_0, 2, NULL, { NULL } },
  { "CUDA", "NVIDIA Corporation", cuda_0, 2, "cuda", { NULL } },
  { "NVIDIA CUDA", "NVIDIA Corporation", opencl_1, 2, "opencl", { NULL } },
};

static const struct
{
  const gchar *selection, *expected;
} strict_rows[] = {
  { NULL, "0:0 0:1 1:0 1:1 2:0 2:1" },
  { "", "0:0 0:1 1:0 1:1 2:0 2:1" },
  { "0", "0:0 0:1" },
  { "1:0", "2:0" }, /* the second of OpenCL's */
  { "-1:-1", "2:1" },
  { "cuda", "1:0 1:1" },
  { "CUDA:1,0", "1:1 1:0" },
  { "cuda:h100", "1:1" },
  { "nvidia cuda:0", "2:0" },
  { "\"cuda\":0", "2:0" }, /* in marks it is a part of a name */
  { "pocl=basic", "0:1" },
  { " pocl : basic , 0 ; cuda:0", "0:1 0:0 1:0" },
  { "0:*", "0:0 0:1" },
  { "*", "0:0 0:1 1:0 1:1 2:0 2:1" },
  { "*:1", "0:1 1:1 2:1" },
  { "*:h200", "1:0 2:0" },
  { "*:h200,basic", "1:0 2:0 0:1" },
  { "*:uuid=gpu-AAAA", "1:0 2:0" },
  { "1:uuid=bbbb", "2:1" },
  { "cuda:uuid=cccc", "1:1" },
  { "*:uuid=GPU-aa", "1:0 2:0" }, /* one device, under two platforms */
  { "cuda:uuid=c", "1:1" },
  { "1:uuid=B,0", "2:1 2:0" },
  { "uuid=GPU-aaaa", "1:0 2:0" },
  { " uuid=c ; uuid=\"bb\",pci=66:00", "1:1 2:1 1:1" },
  { "pci=65:00", "1:0 2:0" },
  { "cuda:pci=0000:66:00.0", "1:1" },
  { "cuda:pci=66:00", "1:1" },
  { "*:pci=00000000:65:00.0", "1:0 2:0" },
  { "1:pci=\"0001:0A:1F.7\",0", "2:1 2:0" },
  { "1:\"gfx90a:sramecc+;xnack-, *\"", "2:1" },
  { "1:\"*\"", "2:1" },
  { "0:0;0:0", "0:0 0:0" },
  { "\v\t0 \v:\f\v1\n", "0:1" },
  { "\vpocl\v:\vbasic\v", "0:1" },
  { "\"0\":0", "error: no platform matches '0'; platforms: 0 = 'Portable Computing Language', 1 = "
               "'NVIDIA CUDA'" },
  { "intle",
    "error: no platform matches 'intle'; platforms: 0 = 'Portable Computing Language', 1 = "
    "'NVIDIA CUDA'" },
  { "0:h200", "error: no device matches 'h200'; devices of 'Portable Computing Language': 0 = "
              "'cpu-skylake', 1 = 'cpu-basic'" },
  { "2", "error: there is no platform 2; platforms: 0 = 'Portable Computing Language', 1 = 'NVIDIA "
         "CUDA'" },
  { "cuda:99999999999999999999", "error: there is no device 99999999999999999999; devices of "
                                 "'CUDA': 0 = 'NVIDIA H200', 1 = 'NVIDIA H100'" },
  { "*:b200", "error: no device matches 'b200'; devices of all platforms: 'cpu-skylake', "
              "'cpu-basic', 'NVIDIA H200', 'NVIDIA H100', 'NVIDIA H200', 'gfx90a:sramecc+;xnack-, "
              "*'" },
  { "0:0;", "error: there is an empty name in '0:0;'" },
  { "0:", "error: there is an empty name in '0:'" },
  { ":", "error: there is an empty name in ':'" },
  { "0:1,,0", "error: there is an empty name in '0:1,,0'" },
  { "0:\"\"", "error: there is an empty name in '0:\"\"'" },
  { "0:uuid=", "error: there is an empty name in '0:uuid='" },
  { "uuid=", "error: there is an empty name in 'uuid='" },
  { "cuda:uuid=GPU-", "error: no device matches 'uuid=GPU-'; devices of 'CUDA': 0 = 'NVIDIA H200', "
                      "1 = 'NVIDIA H100'" },
  { "cuda:uuid=b", "error: no device matches 'uuid=b'; devices of 'CUDA': 0 = 'NVIDIA H200', 1 = "
                   "'NVIDIA H100'" },
  { "0:\"a", "error: a '\"' is missing in '0:\"a'" },
  { "0:a\"b\"", "error: misplaced '\"' in '0:a\"b\"'" },
  { "0:1:2", "error: more than one ':' in '0:1:2'" },
  { "cuda:pci=zz:00", "error: no device matches 'pci=zz:00'; devices of 'CUDA': 0 = 'NVIDIA H200', "
                      "1 = 'NVIDIA H100'" },
};

static void
test_strict (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (strict_rows); i++)
    {
      g_autofree gchar *chosen = resolve (strict_rows[i].selection, TARN_SELECTION_STRICT,
                                          platforms, G_N_ELEMENTS (platforms));

      g_test_message ("%s", strict_rows[i].selection);
      g_assert_cmpstr (chosen, ==, strict_rows[i].expected);
    }
}

/* A driver may have a platform, and no device.  Whoever names it wants one. */
static void
test_without_device (void)
{
  static const TarnSelectionPlatform empty[] = {
    { "Portable Computing Language", "The pocl project", NULL, 0, NULL, { NULL } },
  };
  static const struct
  {
    const gchar *selection;
    TarnSelectionSyntax syntax;
    const gchar *expected;
  } rows[] = {
    { "pocl", TARN_SELECTION_STRICT,
      "error: platform 'Portable Computing Language' has no device" },
    { "0", TARN_SELECTION_STRICT, "error: platform 'Portable Computing Language' has no device" },
    { "pocl:*", TARN_SELECTION_STRICT,
      "error: no device matches '*'; devices of 'Portable Computing Language': none" },
    { "", TARN_SELECTION_STRICT, "" },
    { "*", TARN_SELECTION_STRICT, "" },
    { "cuda", TARN_SELECTION_STRICT, "" },
    { "pocl", TARN_SELECTION_PYOPENCL, "" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *chosen = resolve (rows[i].selection, rows[i].syntax, empty, 1);

      g_test_message ("%s", rows[i].selection);
      g_assert_cmpstr (chosen, ==, rows[i].expected);
    }
}

/* A beginning of a UUID has to be that of one device, unless it is all of one. */
static void
test_beginnings (void)
{
  static const TarnSelectionDevice devices[] = {
    { "a", "x", "GPU-ab12", NULL, { NULL } }, { "b", "x", "GPU-ab34", NULL, { NULL } },
    { "c", "x", "GPU-ab", NULL, { NULL } },   { "d", "x", NULL, NULL, { NULL } },
    { "e", "x", "MIG-abc", NULL, { NULL } },
  };
  static const TarnSelectionPlatform two[] = {
    { "one", "x", devices, G_N_ELEMENTS (devices), NULL, { NULL } },
    { "two", "x", devices, 1, NULL, { NULL } },
  };
  static const struct
  {
    const gchar *selection, *expected;
  } rows[] = {
    { "0:uuid=ab1", "0:0" },
    { "uuid=ab1", "0:0 1:0" },
    { "0:uuid=ab3", "0:1" },
    { "0:uuid=AB", "0:2" },
    { "0:uuid=abc", "0:4" },
    { "1:uuid=a", "1:0" },
    { "0:uuid=a", "error: 'a' is the beginning of more than one device's UUID: 'GPU-ab12', "
                  "'GPU-ab34'" },
    { "uuid=ab1,GPU-a",
      "error: no device matches 'GPU-a'; devices of all platforms: 'a', 'b', 'c', "
      "'d', 'e', 'a'" },
    { "uuid=GPU-a", "error: 'GPU-a' is the beginning of more than one device's UUID: 'GPU-ab12', "
                    "'GPU-ab34'" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *chosen
          = resolve (rows[i].selection, TARN_SELECTION_STRICT, two, G_N_ELEMENTS (two));

      g_assert_cmpstr (chosen, ==, rows[i].expected);
    }
}

/* Each library has platforms of its own kind, and is given the whole text. */
static void
test_other_kinds (void)
{
  g_autofree gchar *opencl = resolve ("cuda:0;0:1", TARN_SELECTION_STRICT, platforms, 1);
  g_autofree gchar *cuda = resolve ("cuda:0;0:1", TARN_SELECTION_STRICT, platforms + 1, 1);
  g_autofree gchar *none = resolve ("cuda:0", TARN_SELECTION_STRICT, NULL, 0);
  g_autofree gchar *nothing = resolve ("*", TARN_SELECTION_STRICT, NULL, 0);
  g_autofree gchar *missing = resolve ("0", TARN_SELECTION_STRICT, NULL, 0);
  g_autofree gchar *upstream = resolve ("0;1", TARN_SELECTION_PYOPENCL, platforms, 3);
  g_autofree gchar *everything = resolve (NULL, TARN_SELECTION_PYOPENCL, platforms, 3);

  g_assert_cmpstr (opencl, ==, "0:1");
  g_assert_cmpstr (cuda, ==, "0:0");
  g_assert_cmpstr (none, ==, "");
  g_assert_cmpstr (nothing, ==, "");
  g_assert_cmpstr (missing, ==, "error: there is no platform 0; platforms: none");
  g_assert_cmpstr (upstream, ==, "0:0 0:1 2:0 2:1");
  g_assert_cmpstr (everything, ==, "0:0 0:1 2:0 2:1");
}

/* Kinds of other backends': their names are no parts of others', and all their platforms are one.
 */

static const TarnSelectionDevice hip_0[] = { { "MI300X", "AMD", NULL, NULL, { NULL } } };
static const TarnSelectionDevice hip_1[] = {
  { "MI300X", "AMD", NULL, NULL, { NULL } },
  { "MI210", "AMD", "GPU-dddd", NULL, { NULL } },
};
static const TarnSelectionPlatform many_kinds[] = {
  { "Hip OpenCL", "CUDA, Inc.", opencl_0, 2, NULL, { NULL } },
  { "ROCm", "AMD", hip_0, 1, "hip", { NULL } },
  { "CUDA", "NVIDIA Corporation", cuda_0, 2, "cuda", { NULL } },
  { "ROCm on the other side", "AMD", hip_1, 2, "HIP", { NULL } },
  { "Level Zero", "Intel", NULL, 0, "level-zero", { NULL } },
};

static void
test_any_kind (void)
{
  static const struct
  {
    const gchar *selection, *expected;
  } rows[] = {
    { "hip", "1:0 3:0 3:1" },
    { "hip:0", "1:0" },
    { "Hip:-1,1", "3:1 3:0" },
    { "hip:mi300x,mi2", "1:0 3:1" },
    { "hip:uuid=dddd;cuda:1", "3:1 2:1" },
    { "\"hip\":0", "0:0" },
    { "hip opencl:0", "0:0" },
    { "opencl:1", "0:1" }, /* a part of a name */
    { "\"opencl\":1", "0:1" },
    { "level-zero", "" },
    { "0:1", "0:1" },
    { "*:0", "0:0 1:0 2:0 3:0" },
    { "amd", "error: no platform matches 'amd'; platforms: 0 = 'Hip OpenCL'" },
    { "1", "error: there is no platform 1; platforms: 0 = 'Hip OpenCL'" },
    { "hip:3", "error: there is no device 3; devices of 'ROCm': 0 = 'MI300X', 1 = 'MI300X', 2 = "
               "'MI210'" },
    { "level-zero:0", "error: there is no device 0; devices of 'Level Zero': none" },
  };
  g_autofree gchar *own = resolve ("cuda:0;hip:0;0:0", TARN_SELECTION_STRICT, many_kinds + 1, 1);
  g_autofree gchar *upstream = resolve (NULL, TARN_SELECTION_PYOPENCL, many_kinds, 5);
  g_autofree gchar *part = resolve ("hip;cuda", TARN_SELECTION_PYOPENCL, many_kinds, 5);

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *chosen = resolve (rows[i].selection, TARN_SELECTION_STRICT, many_kinds,
                                          G_N_ELEMENTS (many_kinds));

      g_test_message ("%s", rows[i].selection);
      g_assert_cmpstr (chosen, ==, rows[i].expected);
    }
  g_assert_cmpstr (own, ==, "0:0");
  g_assert_cmpstr (upstream, ==, "0:0 0:1");
  g_assert_cmpstr (part, ==, "0:0 0:1 0:0 0:1");
}

/* A name that differs from a kind by one letter is a mistake where no OpenCL platform can have it.
 */
static void
test_misspelt_kinds (void)
{
  static const struct
  {
    const gchar *selection, *expected;
  } rows[] = {
    { "cudda:0", "error: no platform matches 'cudda'; did you mean 'cuda'?" },
    { "cda:0", "error: no platform matches 'cda'; did you mean 'cuda'?" },
    { "guda", "error: no platform matches 'guda'; did you mean 'cuda'?" },
    { "Ucda:9", "error: no platform matches 'Ucda'; did you mean 'cuda'?" },
    { "cuda0", "error: no platform matches 'cuda0'; did you mean 'cuda'?" },
    { "hipp;hip:0", "error: no platform matches 'hipp'; did you mean 'hip'?" },
    { "ihp", "error: no platform matches 'ihp'; did you mean 'hip'?" },
    { "hip:0;levelzero:0", "error: no platform matches 'levelzero'; did you mean 'level-zero'?" },
    { "\"cudda\":0", "" },
    { "cdua2:0", "" }, /* two letters */
    { "pocl:0;hip:0;intel", "0:0" },
    { "0;-1:0;123", "" },
  };
  const TarnSelectionPlatform own[] = { many_kinds[1], many_kinds[4], many_kinds[3] };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *chosen
          = resolve (rows[i].selection, TARN_SELECTION_STRICT, own, G_N_ELEMENTS (own));

      g_test_message ("%s", rows[i].selection);
      g_assert_cmpstr (chosen, ==, rows[i].expected);
    }
}

/* Where there are none of a kind, it has to be known that it is one. */
static void
test_add_kind (void)
{
  g_autofree gchar *unknown = resolve ("sycl:0;0:1", TARN_SELECTION_STRICT, platforms, 1);
  g_autofree gchar *known = NULL;
  g_autofree gchar *none = NULL;
  g_autofree gchar *opencl = NULL;

  tarn_selection_add_kind ("sycl");
  tarn_selection_add_kind ("cuda");
  tarn_selection_add_kind ("Sycl");
  tarn_selection_add_kind ("OpenCL");
  known = resolve ("SYCL:0;0:1;cuda:9", TARN_SELECTION_STRICT, platforms, 1);
  none = resolve ("sycl:0", TARN_SELECTION_STRICT, NULL, 0);
  opencl = resolve ("opencl:1", TARN_SELECTION_STRICT, many_kinds, 5);

  g_assert_cmpstr (unknown, ==,
                   "error: no platform matches 'sycl'; platforms: 0 = 'Portable "
                   "Computing Language'");
  g_assert_cmpstr (known, ==, "0:1");
  g_assert_cmpstr (none, ==, "");
  g_assert_cmpstr (opencl, ==, "0:1");
}

/* What is no name of a kind, since a selection could not name it. */
static void
test_bad_kinds (void)
{
  static const gchar *const bad[] = { NULL, "", "0", "a:b", "a b", "a\"", "*", "-1", "h\xc3\xa9" };

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_test_expect_message ("Tarn", G_LOG_LEVEL_CRITICAL, "*kind*failed");
      tarn_selection_add_kind (bad[i]);
      g_test_assert_expected_messages ();
    }
}

/* What is long is cut between characters, and what there is many of is not listed to the end. */

static void
assert_quotes (const gchar *before, const gchar *part, guint times, TarnSelectionSyntax syntax,
               const gchar *expected)
{
  g_autoptr (GString) text = g_string_new (before);
  g_autofree gchar *chosen = NULL;

  for (guint i = 0; i < times; i++)
    g_string_append (text, part);
  chosen = resolve (text->str, syntax, platforms, 1);
  g_assert_cmpstr (chosen, ==, expected);
}

static void
test_long_text (void)
{
#define X10 "xxxxxxxxxx"
#define E10 "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
#define LIST "; platforms: 0 = 'Portable Computing Language'"
  assert_quotes ("", "x", 60, TARN_SELECTION_STRICT,
                 "error: no platform matches '" X10 X10 X10 X10 X10 X10 "'" LIST);
  assert_quotes ("", "x", 20000, TARN_SELECTION_STRICT,
                 "error: no platform matches '" X10 X10 X10 X10 X10 X10 "...'" LIST);
  assert_quotes ("", "\xc3\xa9", 61, TARN_SELECTION_STRICT,
                 "error: no platform matches '" E10 E10 E10 E10 E10 E10 "...'" LIST);
  assert_quotes ("", "x", 20000, TARN_SELECTION_PYOPENCL,
                 "error: object '" X10 X10 X10 X10 X10 X10 "...' not found" LIST);
  assert_quotes (";", "x", 20000, TARN_SELECTION_STRICT,
                 "error: there is an empty name in ';" X10 X10 X10 X10 X10 "xxxxxxxxx...'");
  assert_quotes (
      "::", "x", 20000, TARN_SELECTION_PYOPENCL,
      "error: invalid syntax of PYOPENCL_TEST: more than one ':' in '::" X10 X10 X10 X10 X10
      "xxxxxxxx...'");
  assert_quotes ("\xff", "", 0, TARN_SELECTION_STRICT,
                 "error: no platform matches '\xef\xbf\xbd'" LIST);
  assert_quotes ("\x1b[2J\a\xc2\x9b\x7f\n\xe2\x80\xae", "", 0, TARN_SELECTION_STRICT,
                 "error: no platform matches '\\x1b[2J\\x07\\x9b\\x7f\\x0a\\x202e'" LIST);
  assert_quotes ("\x1b", "x", 20000, TARN_SELECTION_STRICT,
                 "error: no platform matches '\\x1b" X10 X10 X10 X10 X10 "xxxxxxxxx...'" LIST);
#undef X10
#undef E10
#undef LIST
}

/* What a name finds is the same in every locale: for Turkish the small letter of "I" has no dot. */
static void
test_locales (void)
{
  static const gchar *const locales[] = { "C", "C.UTF-8", "tr_TR.UTF-8", "lt_LT.UTF-8" };
  static const struct
  {
    const gchar *selection, *chosen;
  } rows[] = {
    { "nvidia", "0:0" },
    { "NVIDIA", "0:0" },
    { "INTEL", "1:0" },
    { "intel:i5", "1:0" },
    { "\xc4\xb0stanbul:0", "2:0" },   /* a capital letter with a dot */
    { "i\xcc\x87stanbul:0", "2:0" },  /* ... which is two small ones in Python */
    { "\xc3\x89t\xc3\xa9:1", "2:1" }, /* accents */
  };
  const TarnSelectionDevice gpu = { "H100", "NVIDIA", NULL, NULL, { NULL } };
  const TarnSelectionDevice cpu = { "I5-6500", "Intel", NULL, NULL, { NULL } };
  const TarnSelectionDevice others[2] = { { "A", "", NULL, NULL, { NULL } } };
  const TarnSelectionPlatform capitals[]
      = { { "NVIDIA CUDA", "NVIDIA Corporation", &gpu, 1, NULL, { NULL } },
          { "Intel(R) OpenCL", "Intel", &cpu, 1, NULL, { NULL } },
          { "\xc4\xb0STANBUL \xc3\xa9T\xc3\x89", "", others, 2, NULL, { NULL } } };

  for (gsize i = 0; i < G_N_ELEMENTS (locales); i++)
    {
      g_auto (Locale) locale = { NULL };

      if (!locale_set (&locale, locales[i]))
        continue;
      for (gsize j = 0; j < G_N_ELEMENTS (rows); j++)
        {
          g_autofree gchar *chosen
              = resolve (rows[j].selection, TARN_SELECTION_STRICT, capitals, 3);

          g_test_message ("%s: %s: %s", locales[i], rows[j].selection, chosen);
          g_assert_cmpstr (chosen, ==, rows[j].chosen);
        }
    }
}

static void
test_many_choices (void)
{
  TarnSelectionDevice devices[12] = { { "GPU", "V", NULL, NULL, { NULL } } };
  const TarnSelectionPlatform platform = { "P", "V", devices, 12, NULL, { NULL } };
  g_autofree gchar *name = g_strnfill (100, 'n');
  g_autofree gchar *short_name = g_strconcat ("'", name + 40, "...'", NULL);
  g_autofree gchar *chosen = NULL;

  devices[1].name = name;
  chosen = resolve ("0:12", TARN_SELECTION_STRICT, &platform, 1);
  g_assert_true (g_str_has_prefix (
      chosen, "error: there is no device 12; devices of 'P': 0 = 'GPU', 1 = 'nnn"));
  g_assert_nonnull (strstr (chosen, short_name));
  g_assert_true (g_str_has_suffix (chosen, ", 8 = '', 9 = '' and 2 more"));
}

/* In an entry without ":", "=" stands for it: PyOpenCL's documentation writes it so. */
static void
test_equals_sign (void)
{
  g_autofree gchar *chosen
      = resolve ("pocl=basic,skylake;nvidia=0", TARN_SELECTION_PYOPENCL, platforms, 3);
  g_autofree gchar *name = resolve ("0:a=b", TARN_SELECTION_PYOPENCL, platforms, 3);

  g_assert_cmpstr (chosen, ==, "0:1 0:0 2:0");
  g_assert_true (g_str_has_prefix (name, "error: object 'a=b' not found"));
}

/* Around a number, as Python's int () has them; other digits than ASCII's are letters. */
static void
test_blanks (void)
{
  g_autofree gchar *chosen
      = resolve ("\v1\v: 0\v\t\f\n\r;1\v", TARN_SELECTION_PYOPENCL, platforms, 3);
  g_autofree gchar *underscore = resolve ("1_0", TARN_SELECTION_PYOPENCL, platforms, 3);
  g_autofree gchar *other_digit = resolve ("\xd9\xa0", TARN_SELECTION_PYOPENCL, platforms, 3);

  g_assert_cmpstr (chosen, ==, "2:0 2:0 2:1");
  g_assert_true (g_str_has_prefix (underscore, "error: object '1_0' not found; "));
  g_assert_true (g_str_has_prefix (other_digit, "error: object '\xd9\xa0' not found; "));
}

static void
assert_selectors (const TarnSelectionPlatform *all, guint n, const gchar *const *expected)
{
  for (guint i = 0; i < n; i++)
    for (guint j = 0; j < all[i].n_devices; j++, expected++)
      {
        TarnSelectionItem item = { i, j };
        g_autofree gchar *selector = tarn_selection_make_selector (all, n, item);
        g_autofree gchar *chosen = resolve (selector, TARN_SELECTION_STRICT, all, n);
        g_autofree gchar *place = g_strdup_printf ("%u:%u", i, j);

        g_assert_cmpstr (selector, ==, *expected);
        g_assert_cmpstr (chosen, ==, place);
      }
  g_assert_null (*expected);
}

/* By what tells a device from the others; by places where nothing else does. */
static void
test_selectors (void)
{
  static const TarnSelectionDevice twins[] = {
    { "GPU", "V", NULL, "0000:01:00.0", { NULL } }, { "GPU", "V", NULL, NULL, { NULL } },
    { "GPU X", "V", NULL, NULL, { NULL } },         { "a\"b", "V", NULL, NULL, { NULL } },
    { "part", "V", "u", "0000:02:00.0", { NULL } }, { "part", "V", "u", "0000:02:00.0", { NULL } },
    { NULL, NULL, NULL, NULL, { NULL } },           { "cuda", "V", NULL, NULL, { NULL } },
  };
  static const TarnSelectionDevice one[] = { { "GPU", "V", NULL, NULL, { NULL } } };
  static const TarnSelectionPlatform others[] = {
    { "P", "W", one, 1, NULL, { NULL } },    { "P Q", "W", twins, 8, NULL, { NULL } },
    { "none", "", NULL, 0, NULL, { NULL } }, { "cuda", "", one, 1, NULL, { NULL } },
    { "\"", "", one, 1, NULL, { NULL } },
  };
  static const gchar *const expected[] = {
    "\"Portable Computing Language\":\"cpu-skylake\"",
    "\"Portable Computing Language\":\"cpu-basic\"",
    "cuda:uuid=GPU-aaaa",
    "cuda:uuid=GPU-cccc",
    "\"NVIDIA CUDA\":uuid=GPU-aaaa",
    "\"NVIDIA CUDA\":uuid=bbbb",
    NULL,
  };
  static const gchar *const expected_others[] = {
    "0:\"GPU\"",        "\"P Q\":pci=0000:01:00.0",
    "\"P Q\":1",        "\"P Q\":\"GPU X\"",
    "\"P Q\":3",        "\"P Q\":4",
    "\"P Q\":5",        "\"P Q\":6",
    "\"P Q\":\"cuda\"", "\"cuda\":\"GPU\"",
    "4:\"GPU\"",        NULL,
  };
  static const gchar *const expected_kinds[] = {
    "\"Hip OpenCL\":\"cpu-skylake\"",
    "\"Hip OpenCL\":\"cpu-basic\"",
    "hip:0", /* another one has its name */
    "cuda:uuid=GPU-aaaa",
    "cuda:uuid=GPU-cccc",
    "HIP:1",
    "HIP:uuid=GPU-dddd",
    NULL,
  };

  assert_selectors (platforms, 3, expected);
  assert_selectors (others, 5, expected_others);
  assert_selectors (many_kinds, 5, expected_kinds);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add ("/core/selection/pyopencl", Data, NULL, set_up, test_pyopencl, tear_down);
  g_test_add_func ("/core/selection/strict", test_strict);
  g_test_add_func ("/core/selection/without-device", test_without_device);
  g_test_add_func ("/core/selection/beginnings", test_beginnings);
  g_test_add_func ("/core/selection/other-kinds", test_other_kinds);
  g_test_add_func ("/core/selection/any-kind", test_any_kind);
  g_test_add_func ("/core/selection/misspelt-kinds", test_misspelt_kinds);
  g_test_add_func ("/core/selection/add-kind", test_add_kind);
  g_test_add_func ("/core/selection/bad-kinds", test_bad_kinds);
  g_test_add_func ("/core/selection/long-text", test_long_text);
  g_test_add_func ("/core/selection/locales", test_locales);
  g_test_add_func ("/core/selection/many-choices", test_many_choices);
  g_test_add_func ("/core/selection/blanks", test_blanks);
  g_test_add_func ("/core/selection/equals-sign", test_equals_sign);
  g_test_add_func ("/core/selection/selectors", test_selectors);
  return g_test_run ();
}
