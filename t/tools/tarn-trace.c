/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * tarn-trace, as people and programs read it, on recordings of which everything is known: the
 * events that it prints, which of them are meant, and how it ends.  tarn-trace-*.c test its other
 * output. */

#include <string.h>

#include "tarn-trace-fixture.h"

/* Events */

static void
test_print (Fixture *self, gconstpointer data)
{
  (void) data;
  SUCCEED ("--print", self->path);
  g_assert_cmpstr (
      self->output, ==,
      "0.000000000      10 #1 object class=\"allocator\" type=\"cuda-device\" upstream=0 "
      "alignment=256\n"
      "0.000000000      10 #2 object class=\"heap\" type=\"cuda-device\" upstream=1 "
      "growth_bytes=4096\n"
      "0.000000000      10 #3 weights object class=\"pool\" type=\"cuda-device\" name=\"weights\" "
      "upstream=2\n"
      "0.000000000      10 #2 piece address=0x10000 size=4096\n"
      "0.000000000      10 #2 extent address=0x10000 size=1024\n"
      "0.000000001      10 #3 weights block block=1 size=100 alloc_size=128 address=0x10000 "
      "in_use=true\n"
      "0.000001000      10 #3 weights miss block=2 size=500 alloc_size=512 address=0x10080 "
      "queue=0x50 "
      "stack=1 tag=\"plain\" frames=[\"libtarn.so.0+0x30\", ...]\n"
      "0.000002000      10 #3 weights free block=2\n"
      "0.000002500      11 #3 weights fail size=9999 error=limit\n"
      "0.000003000      10 #3 weights hit block=2 size=300 queue=0x50 tag=\"plain\"\n"
      "0.000004000      10 #3 weights miss block=3 size=64 alloc_size=64 address=0x20000 "
      "queue=0x50 "
      "tag=\"plain\"\n"
      "0.000004500      11 #3 weights free block=1\n"
      "0.000005000      10 #3 weights free block=3\n"
      "0.000005500      11 #3 weights lent block=9 size=32 alloc_size=64 address=0x10300 "
      "stack=2 tag=\"a \\\"b\\\"\\u000a\\\\\\u001b[1m\" frames=[\"0x500\", ...]\n"
      "0.000006000      10 #3 weights hit block=3 size=60 queue=0x50 tag=\"plain\"\n"
      "0.000006500      10 #3 weights free block=3\n"
      "0.000007000      10 #3 weights gone block=3\n"
      "0.000008000      11 #1 allocated size=4096 address=0x10000 duration=700\n"
      "0.000008100      11 #1 wait queue=0x50 duration=5\n"
      "0.000009000      11 #3 weights out-of-memory wanted_bytes=1048576 active_bytes=332 "
      "held_bytes=7\n"
      "0.000009000      11 #0 lost events=12\n"
      "0.000010000      11 #0 stop\n");
}

static void
test_print_json (Fixture *self, gconstpointer data)
{
  g_auto (GStrv) lines = NULL;
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonObject *event;

  (void) data;
  SUCCEED ("--print", "--json", self->path);
  lines = g_strsplit (self->output, "\n", -1);
  g_assert_cmpuint (g_strv_length (lines), ==, 22 + 1);
  for (guint i = 0; i < 22; i++)
    g_assert_true (json_object_has_member (parse (parser, lines[i]), "kind"));
  event = parse (parser, lines[6]);
  g_assert_cmpint (number (event, "time"), ==, 1000);
  g_assert_cmpstr (text (event, "kind"), ==, "miss");
  g_assert_cmpint (number (event, "thread"), ==, 10);
  g_assert_cmpint (number (event, "stream"), ==, 0);
  g_assert_cmpint (number (event, "object"), ==, 3);
  g_assert_cmpint (number (event, "address"), ==, 0x10080);
  g_assert_cmpint (number (event, "queue"), ==, 0x50);
  g_assert_cmpuint (length (event, "frames"), ==, 2);
  event = parse (parser, lines[13]);
  g_assert_cmpstr (text (event, "tag"), ==, ODD_TAG);
  g_assert_cmpstr (text (parse (parser, lines[8]), "error"), ==, "limit");
  g_assert_null (text (parse (parser, lines[17]), "error"));
}

static guint
count_lines (const Fixture *self)
{
  guint n = 0;

  for (const gchar *c = self->output; *c != '\0'; c++)
    n += *c == '\n';
  return n;
}

static void
test_filters (Fixture *self, gconstpointer data)
{
  (void) data;
  SUCCEED ("--print", "--object", "weights", self->path);
  g_assert_cmpuint (count_lines (self), ==, 14);
  SUCCEED ("--print", "--object", "3", self->path);
  g_assert_cmpuint (count_lines (self), ==, 14);
  SUCCEED ("--print", "--object", "2", self->path);
  g_assert_cmpuint (count_lines (self), ==, 3);
  SUCCEED ("--print", "--thread", "11", self->path);
  g_assert_cmpuint (count_lines (self), ==, 8);
  SUCCEED ("--print", "--queue", "0x50", self->path);
  g_assert_cmpuint (count_lines (self), ==, 5);
  SUCCEED ("--print", "--queue", "80", "--kind", "wait", self->path);
  g_assert_cmpuint (count_lines (self), ==, 1);
  SUCCEED ("--print", "--tag", "plain", self->path);
  g_assert_cmpuint (count_lines (self), ==, 4);
  SUCCEED ("--print", "--tag", "no such", self->path);
  g_assert_cmpuint (count_lines (self), ==, 0);
  SUCCEED ("--print", "--kind", "hit,gone", self->path);
  g_assert_cmpuint (count_lines (self), ==, 3);
  SUCCEED ("--print", "--from", "0.000005", "--to", "0.0000065", self->path);
  g_assert_cmpuint (count_lines (self), ==, 4);
}

/* How it ends */

static void
test_usage (Fixture *self, gconstpointer data)
{
  (void) data;
  run (self, NULL);
  has_failed (self, 2, "no file to read; see tarn-trace --help");
  FAIL (2, "only one file can be read at a time", self->path, self->path);
  FAIL (2, "Unknown option --frobnicate", "--frobnicate", self->path);
  FAIL (2, "only one of --print, --csv, --chrome and --pytorch can be given", "--print", "--csv",
        self->path);
  FAIL (2, "--json is for the summary and --print", "--json", "--chrome", self->path);
  FAIL (2,
        "the summary is of all events; to select some, add --print, --csv, --chrome or --pytorch",
        "--thread", "1", self->path);
  FAIL (2, "--kind is for --print", "--csv", "--kind", "hit", self->path);
  FAIL (2, "--thread: 'x' is not a number, such as 12 or 0xc", "--print", "--thread", "x",
        self->path);
  FAIL (2, "--queue: '-1' is not a number, such as 12 or 0xc", "--print", "--queue", "-1",
        self->path);
  FAIL (2, "--from: 'nan' is not a number of seconds, such as 1.5", "--print", "--from", "nan",
        self->path);
  FAIL (2, "--to: '-1' is not a number of seconds, such as 1.5", "--print", "--to=-1", self->path);
  FAIL (2, "--from 2 is after --to 1", "--print", "--from", "2", "--to", "1", self->path);
  FAIL (2, "--object: there is no 'nobody' in the recording", "--print", "--object", "nobody",
        self->path);
  FAIL (2, "--output: there is no name", "--output=", self->path);
  FAIL (2, "--output is the file that is read", "--output", self->path, self->path);
  FAIL (2, "--output is the file that is read", "-o", self->path, "--from-pytorch", self->path);
  SUCCEED ("--print", self->path); /* the file is as it was */
  FAIL (2, "--from-pytorch reads a snapshot, and no other file", "--from-pytorch", self->path,
        self->path);
  FAIL (2, "--from-pytorch makes only a trace for tarn-bench", "--print", "--from-pytorch",
        self->path);
  FAIL (2, "--from-pytorch takes only --object, the number of a device", "--tag", "x",
        "--from-pytorch", self->path);
  FAIL (2, "--object: with --from-pytorch it must be the number of a device", "--object", "x",
        "--from-pytorch", self->path);
  run (self, "--print", "--kind", "hit,string", self->path, NULL);
  g_assert_cmpint (self->status, ==, 2);
  g_assert_true (
      g_str_has_prefix (self->errors, "tarn-trace: --kind: 'string' is none of these: object, "));
}

static void
test_files (Fixture *self, gconstpointer data)
{
  g_autofree gchar *missing = g_build_filename (self->folder, "missing", "x", NULL);
  g_autofree gchar *no_output = g_strdup_printf ("%s: No such file or directory", missing);
  g_autofree gchar *no_trace = g_strdup_printf (
      "%s: at byte 0: this is not a recorded trace: it does not begin with TARNTRC1",
      self->snapshot);
  g_autofree gchar *no_file = g_strdup_printf (
      "Failed to open file “%s”: open() failed: No such file or directory", missing);
  g_autofree gchar *folder = g_strdup_printf ("%s: is a folder", self->folder);

  (void) data;
  FAIL (1, folder, self->folder);
  FAIL (1, "/dev/null: is not a regular file", "/dev/null");
  FAIL (1, no_file, missing);
  FAIL (1, no_output, "-o", missing, self->path);
  g_assert_true (g_file_set_contents (self->snapshot, CSV_HEADER, -1, NULL));
  FAIL (1, no_trace, self->snapshot);
}

static void
test_cut (Fixture *self, gconstpointer data)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autofree gchar *warning = NULL;
  gsize size;
  g_autofree gchar *contents = NULL;
  JsonObject *root;

  (void) data;
  g_assert_true (g_file_get_contents (self->cut, &contents, &size, NULL));
  warning = g_strdup_printf ("tarn-trace: %s: the file ends inside a packet, at byte %u: the rest "
                             "of the packet was not written\n",
                             self->cut, (guint) size);
  run (self, "--json", self->cut, NULL);
  g_assert_cmpstr (self->errors, ==, warning);
  g_assert_cmpint (self->status, ==, 0);
  root = parse (parser, self->output);
  g_assert_false (json_object_get_boolean_member (root, "complete"));
  g_assert_cmpint (number (root, "cut"), ==, (gint64) size);
  g_assert_cmpint (number (root, "events"), ==, 21);
}

static void
on_terminal (Fixture *self, const gchar *setting, gboolean has_color)
{
  g_autofree gchar *program = find_tool ("tarn-trace");
  g_autofree gchar *line = g_strdup_printf ("'%s' '%s'", program, self->path);
  const gchar *command[] = { "env",  "TERM=xterm", "SHELL=/bin/sh", setting, "script",
                             "-qec", line,         "/dev/null",     NULL };

  spawn (self, command);
  g_assert_nonnull (strstr (self->output, "process 4242"));
  g_assert_true ((strstr (self->output, "\033[1mx.trace") != NULL) == has_color);
  g_assert_true ((strchr (self->output, '\033') != NULL) == has_color);
}

static void
test_terminal (Fixture *self, gconstpointer data)
{
  g_autofree gchar *script = g_find_program_in_path ("script");

  (void) data;
  if (script == NULL)
    {
      g_test_skip ("there is no script (1)");
      return;
    }
  on_terminal (self, "A=b", TRUE);
  on_terminal (self, "NO_COLOR=1", FALSE);
  on_terminal (self, "TERM=dumb", FALSE);
}

int
main (int argc, char **argv)
{
  trace_test_init (&argc, &argv);
  ADD ("print", test_print);
  ADD ("print/json", test_print_json);
  ADD ("filters", test_filters);
  ADD ("usage", test_usage);
  ADD ("files", test_files);
  ADD ("cut", test_cut);
  ADD ("terminal", test_terminal);
  return g_test_run ();
}
