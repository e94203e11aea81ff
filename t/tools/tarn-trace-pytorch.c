/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * tarn-trace --pytorch and --from-pytorch: a snapshot for PyTorch's viewer, and one from PyTorch;
 * wrong ones. */

#include <string.h>

#include "tarn-trace-fixture.h"

static JsonArray *
get_trace (JsonObject *root)
{
  return json_array_get_array_element (json_object_get_array_member (root, "device_traces"), 0);
}

/* One entry a line: action, address, size, stream, microseconds, names of frames. */
static gchar *
list_entries (JsonArray *trace)
{
  GString *lines = g_string_new (NULL);

  for (guint i = 0; i < json_array_get_length (trace); i++)
    {
      JsonObject *entry = json_array_get_object_element (trace, i);
      gboolean is_oom = g_str_equal (text (entry, "action"), "oom");

      g_string_append_printf (lines, "%s %x %d %d %d", text (entry, "action"),
                              (guint) number (entry, is_oom ? "device_free" : "addr"),
                              (gint) number (entry, "size"), (gint) number (entry, "stream"),
                              (gint) (number (entry, "time_us") % 1000));
      for (guint j = 0; j < length (entry, "frames"); j++)
        g_string_append_printf (lines, " %s:%s", text (element (entry, "frames", j), "filename"),
                                text (element (entry, "frames", j), "name"));
      g_string_append_c (lines, '\n');
    }
  return g_string_free (lines, FALSE);
}

static void
test_pytorch (Fixture *self, gconstpointer data)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autofree gchar *entries = NULL;
  JsonObject *root, *segment, *block;

  (void) data;
  SUCCEED ("--pytorch", self->path);
  root = parse (parser, self->output);
  entries = list_entries (get_trace (root));
  g_assert_cmpstr (
      entries, ==,
      "segment_alloc 10000 4096 0 0\n"
      "alloc 10000 100 0 0\n"
      "alloc 10080 500 80 1 :plain /usr/lib/libtarn.so.0:libtarn.so.0+0x30 /lib/a.so:f+0x4\n"
      "free_requested 10080 500 80 2\n"
      "free_completed 10080 500 80 2\n"
      "alloc 10080 300 80 3 :plain\n"
      "segment_alloc 20000 64 80 4\n"
      "alloc 20000 64 80 4 :plain\n"
      "free_requested 10000 100 0 4\n"
      "free_completed 10000 100 0 4\n"
      "free_requested 20000 64 80 5\n"
      "free_completed 20000 64 80 5\n"
      "alloc 10300 32 0 5 :" ODD_TAG " :0x500 /lib/a.so:f+0x4\n"
      "alloc 20000 60 80 6 :plain\n"
      "free_requested 20000 60 80 6\n"
      "free_completed 20000 60 80 6\n"
      "segment_free 20000 64 80 7\n"
      "oom 0 1048576 0 9\n");
  g_assert_cmpuint (length (root, "segments"), ==, 1);
  segment = element (root, "segments", 0);
  g_assert_cmpint (number (segment, "address"), ==, 0x10000);
  g_assert_cmpint (number (segment, "total_size"), ==, 4096);
  g_assert_cmpint (number (segment, "active_size"), ==, 512 + 64);
  g_assert_cmpuint (length (segment, "blocks"), ==, 5);
  g_assert_cmpstr (text (element (segment, "blocks", 0), "state"), ==, "inactive");
  g_assert_cmpint (number (element (segment, "blocks", 0), "size"), ==, 128);
  block = element (segment, "blocks", 1);
  g_assert_cmpstr (text (block, "state"), ==, "active_allocated");
  g_assert_cmpint (number (block, "address"), ==, 0x10080);
  g_assert_cmpint (number (block, "requested_size"), ==, 300);
}

/* Replaces a small file by what gzip makes of it. */
static void
compress (const gchar *path)
{
  g_autoptr (GZlibCompressor) gzip = g_zlib_compressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP, -1);
  g_autofree gchar *plain = NULL;
  gchar bytes[1 << 16];
  gsize length, n_read, n;

  g_assert_true (g_file_get_contents (path, &plain, &length, NULL));
  g_assert_cmpint (g_converter_convert (G_CONVERTER (gzip), plain, length, bytes, sizeof bytes,
                                        G_CONVERTER_INPUT_AT_END, &n_read, &n, NULL),
                   ==, G_CONVERTER_FINISHED);
  g_assert_true (g_file_set_contents (path, bytes, (gssize) n, NULL));
}

/* tarn-trace reads a PyTorch snapshot that it has written, also after gzip has compressed it. */
static void
test_pytorch_back (Fixture *self, gconstpointer data)
{
  g_autofree gchar *plain = NULL;

  (void) data;
  SUCCEED ("--pytorch", "-o", self->snapshot, self->path);
  SUCCEED ("--from-pytorch", self->snapshot);
  g_assert_cmpstr (self->output, ==,
                   CSV_HEADER "0,0,allocate,1,100,\n"
                              "1000,0,allocate,2,500,80\n"
                              "2000,0,free,2,,80\n"
                              "3000,0,allocate,3,300,80\n"
                              "4000,0,allocate,4,64,80\n"
                              "4000,0,free,1,,\n"
                              "5000,0,free,4,,80\n"
                              "5000,0,allocate,5,32,\n"
                              "6000,0,allocate,6,60,80\n"
                              "6000,0,free,6,,80\n");
  plain = g_strdup (self->output);
  compress (self->snapshot);
  SUCCEED ("--from-pytorch", self->snapshot);
  g_assert_cmpstr (self->output, ==, plain);
}

#define SNAPSHOT                                                                                   \
  "{\"segments\": [{\"device\": 1, \"address\": 1000, \"stream\": 3, \"blocks\": ["                \
  "{\"size\": 64, \"state\": \"inactive\"},"                                                       \
  "{\"size\": 512, \"requested_size\": 500, \"state\": \"active_allocated\"},"                     \
  "{\"address\": 4000, \"size\": 512, \"state\": \"active_allocated\"}]}],"                        \
  " \"device_traces\": [[], ["                                                                     \
  "{\"action\": \"free_requested\", \"addr\": 2000, \"size\": 70, \"stream\": 0, \"time_us\": "    \
  "50},"                                                                                           \
  "{\"action\": \"free_completed\", \"addr\": 2000, \"size\": 70, \"stream\": 0, \"time_us\": "    \
  "51},"                                                                                           \
  "{\"action\": \"segment_alloc\", \"addr\": 4000, \"size\": 99, \"stream\": 0, \"time_us\": 52}," \
  "{\"action\": \"alloc\", \"addr\": 4000, \"size\": 80, \"stream\": 0, \"time_us\": 53},"         \
  "{\"action\": \"oom\", \"device_free\": 4000, \"size\": 80, \"stream\": 0, \"time_us\": 54}"     \
  "]]}"

/* Blocks that no entry tells of were there at the start: one that is freed, and one that stays. */
static void
test_from_pytorch (Fixture *self, gconstpointer data)
{
  static const gchar expected[] = CSV_HEADER "0,0,allocate,1,70,\n"
                                             "0,0,allocate,3,500,3\n"
                                             "0,0,free,1,,\n"
                                             "3000,0,allocate,2,80,\n";

  (void) data;
  g_assert_true (g_file_set_contents (self->snapshot, SNAPSHOT, -1, NULL));
  SUCCEED ("--from-pytorch", self->snapshot);
  g_assert_cmpstr (self->output, ==, expected);
  SUCCEED ("--csv", "--object", "1", "--from-pytorch", self->snapshot);
  g_assert_cmpstr (self->output, ==, expected);
}

#define ENTRY(action, time)                                                                        \
  "{\"action\": \"" action "\", \"addr\": 2000, \"size\": 70, \"time_us\": " time "}"

/* Entries keep their order, even if their times go back. */
static void
test_times (Fixture *self, gconstpointer data)
{
  static const gchar *const entries[] = {
    ENTRY ("alloc", "50"),
    ENTRY ("free_requested", "53"),
    ENTRY ("alloc", "55"),
    ENTRY ("free_requested", "49"),
    ENTRY ("alloc", "9223372036854775807"),
    ENTRY ("free_requested", "9200000000000000000"),
    NULL,
  };
  g_autofree gchar *list = g_strjoinv (",", (gchar **) entries);
  g_autofree gchar *snapshot = g_strdup_printf ("{\"device_traces\": [[%s]]}", list);

  (void) data;
  g_assert_true (g_file_set_contents (self->snapshot, snapshot, -1, NULL));
  SUCCEED ("--from-pytorch", self->snapshot);
  g_assert_cmpstr (self->output, ==,
                   CSV_HEADER "0,0,allocate,1,70,\n"
                              "3000,0,free,1,,\n"
                              "5000,0,allocate,2,70,\n"
                              "5000,0,free,2,,\n"
                              "18446744073709551000,0,allocate,3,70,\n"
                              "18446744073709551000,0,free,3,,\n");
}

static void
fails_snapshot (Fixture *self, const gchar *snapshot, const gchar *message)
{
  g_autofree gchar *expected = g_strdup_printf ("%s: %s", self->snapshot, message);

  g_assert_true (g_file_set_contents (self->snapshot, snapshot, -1, NULL));
  FAIL (1, expected, "--from-pytorch", self->snapshot);
  FAIL (1, expected, "--from-pytorch", self->snapshot, "--output", self->out);
}

static gchar *
repeat (const gchar *text, guint times)
{
  GString *all = g_string_new (NULL);

  for (guint i = 0; i < times; i++)
    g_string_append (all, text);
  return g_string_free (all, FALSE);
}

static void
test_wrong_snapshots (Fixture *self, gconstpointer data)
{
  static const gchar *const nested[] = { "[", "{\"a\":", "{\"]\":[" };
  const gchar *no_array = "this is no snapshot: it has no array device_traces";
  g_autofree gchar *kept = NULL;

  (void) data;
  g_assert_true (g_file_set_contents (self->out, "kept", -1, NULL));
  fails_snapshot (self, "[]", no_array);
  fails_snapshot (self, "{}", no_array);
  fails_snapshot (self, "{\"device_traces\": 1}", no_array);
  fails_snapshot (self, "", no_array);
  fails_snapshot (self, "{\"device_traces\": []}", "its device_traces are empty");
  fails_snapshot (self, "{\"device_traces\": [1, []]}", "its device_traces are empty");
  fails_snapshot (self, "{\"device_traces\": [[1]]}", "entry 0 of the trace has no action");
  fails_snapshot (self, "{\"device_traces\": [[{\"action\": 1}]]}",
                  "entry 0 of the trace has no action");
  fails_snapshot (self, "{\"device_traces\": [[{\"action\": \"alloc\", \"addr\": 1}]]}",
                  "entry 0 of the trace has no addr or no size");
  fails_snapshot (self,
                  "{\"device_traces\": [[{\"action\": \"alloc\", \"addr\": \"1\", \"size\": 1}]]}",
                  "entry 0 of the trace has no addr or no size");
  for (guint i = 0; i < G_N_ELEMENTS (nested); i++)
    {
      g_autofree gchar *deep = repeat (nested[i], 200000);

      fails_snapshot (self, deep, "line 1: more than 64 lists in one another");
    }
  fails_snapshot (self, "\n/*\"*/ [[[", "line 2: byte 0x2f has no place outside of a text");
  g_assert_true (g_file_set_contents (self->snapshot, "\x80\x02}q", -1, NULL)); /* a pickle */
  run (self, "--from-pytorch", self->snapshot, NULL);
  g_assert_cmpint (self->status, ==, 1);
  g_assert_nonnull (strstr (self->errors, self->snapshot));
  g_assert_true (g_file_get_contents (self->out, &kept, NULL, NULL));
  g_assert_cmpstr (kept, ==, "kept");
}

int
main (int argc, char **argv)
{
  trace_test_init (&argc, &argv);
  ADD ("pytorch", test_pytorch);
  ADD ("pytorch/back", test_pytorch_back);
  ADD ("pytorch/from", test_from_pytorch);
  ADD ("pytorch/times", test_times);
  ADD ("pytorch/wrong", test_wrong_snapshots);
  return g_test_run ();
}
