/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The summary of a recording that tarn-trace prints: its numbers, in JSON as well, names, and lines
 * on terminals and in pipes. */

#define _GNU_SOURCE 1 /* posix_openpt () */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "tarn-trace-fixture.h"

/* Runs before exec (): gives a program a terminal as its standard output. */
static void
use_terminal (gpointer terminal)
{
  dup2 (GPOINTER_TO_INT (terminal), STDOUT_FILENO);
}

static gchar *
read_terminal (gint terminal)
{
  GString *text = g_string_new (NULL);
  gchar bytes[4096];
  gssize n;

  while ((n = read (terminal, bytes, sizeof bytes)) > 0)
    g_string_append_len (text, bytes, n);
  return g_string_free (text, FALSE);
}

/* Runs tarn-trace on a terminal of that width, which adds nothing to its output. */
static void
run_on_terminal (Fixture *self, gushort columns)
{
  g_autofree gchar *program = find_tool ("tarn-trace");
  gchar *command[] = { program, self->path, NULL };
  g_auto (GStrv) environment = g_environ_setenv (g_get_environ (), "TERM", "dumb", TRUE);
  const struct winsize size = { .ws_row = 24, .ws_col = columns };
  struct termios settings;
  gint ours = posix_openpt (O_RDWR | O_NOCTTY), theirs;

  if (ours < 0 || grantpt (ours) != 0 || unlockpt (ours) != 0
      || (theirs = open (ptsname (ours), O_RDWR | O_NOCTTY)) < 0)
    g_error ("there is no terminal: %s", g_strerror (errno));
  g_assert_cmpint (tcgetattr (theirs, &settings), ==, 0);
  cfmakeraw (&settings);
  g_assert_cmpint (tcsetattr (theirs, TCSANOW, &settings), ==, 0);
  g_assert_cmpint (ioctl (theirs, TIOCSWINSZ, &size), ==, 0);
  g_assert_true (g_spawn_sync (NULL, command, environment,
                               G_SPAWN_CHILD_INHERITS_STDIN | G_SPAWN_STDOUT_TO_DEV_NULL,
                               use_terminal, GINT_TO_POINTER (theirs), NULL, NULL, NULL, NULL));
  close (theirs);
  g_free (self->output);
  self->output = read_terminal (ours);
  close (ours);
}

/* Ends a recording, and parses the summary that tarn-trace prints of it. */
static JsonObject *
summarize (Fixture *self, TraceWriter *writer, JsonParser *parser)
{
  g_autoptr (GBytes) bytes = trace_writer_end (writer);

  save (self->path, bytes, g_bytes_get_size (bytes));
  SUCCEED ("--json", self->path);
  return parse (parser, self->output);
}

static void
test_summary (Fixture *self, gconstpointer data)
{
  (void) data;
  SUCCEED (self->path);
  g_assert_cmpstr (
      self->output, ==,
      "x.trace  process 4242\n"
      "0.000010 s, 22 events, 12 lost, complete\n"
      "   class     name        requests   hits misses fails  frees      peak    in use\n"
      " 2 heap      cuda-device        1      -      -     0      0   1.0 KiB   1.0 KiB\n"
      " 3 pool      weights            6      5      0     1      4     600 B     332 B\n"
      " 1 allocator cuda-device        0      -      -     0      0       0 B       0 B\n"
      "taken from the driver: at most 4.0 KiB\n"
      "At the peak, 600 B after 0.000001 s, by tag\n"
      "     500 B  83.3 %        1 block   plain\n"
      "     100 B  16.7 %        1 block   (no tag)\n"
      "At the peak, 600 B after 0.000001 s, by stack\n"
      "     500 B  83.3 %        1 block   f+0x4\n"
      "     100 B  16.7 %        1 block   (no stack)\n");
}

static void
test_summary_json (Fixture *self, gconstpointer data)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonObject *root, *object, *peak;

  (void) data;
  SUCCEED ("--json", self->path);
  root = parse (parser, self->output);
  g_assert_cmpint (number (root, "pid"), ==, 4242);
  g_assert_cmpint (number (root, "real_time"), ==, G_GINT64_CONSTANT (1700000000000000000));
  g_assert_cmpint (number (root, "duration"), ==, 10000);
  g_assert_cmpint (number (root, "events"), ==, 22);
  g_assert_cmpint (number (root, "lost"), ==, 12);
  g_assert_cmpint (number (root, "peak_driver_bytes"), ==, 4096);
  g_assert_true (json_object_get_boolean_member (root, "complete"));
  g_assert_cmpint (number (root, "cut"), ==, 0);
  g_assert_cmpuint (length (root, "objects"), ==, 3);
  object = element (root, "objects", 2);
  g_assert_cmpint (number (object, "object"), ==, 3);
  g_assert_cmpstr (text (object, "class"), ==, "pool");
  g_assert_cmpstr (text (object, "type"), ==, "cuda-device");
  g_assert_cmpstr (text (object, "name"), ==, "weights");
  g_assert_cmpint (number (object, "requests"), ==, 6);
  g_assert_cmpint (number (object, "hits"), ==, 5);
  g_assert_cmpint (number (object, "misses"), ==, 0);
  g_assert_cmpint (number (object, "failures"), ==, 1);
  g_assert_cmpint (number (object, "frees"), ==, 4);
  g_assert_cmpint (number (object, "peak_active_bytes"), ==, 600);
  g_assert_cmpint (number (object, "active_bytes"), ==, 332);
  g_assert_null (text (element (root, "objects", 0), "name"));
  peak = json_object_get_object_member (root, "peak");
  g_assert_cmpint (number (peak, "time"), ==, 1000);
  g_assert_cmpint (number (peak, "bytes"), ==, 600);
  g_assert_cmpstr (text (element (peak, "by_tag", 0), "tag"), ==, "plain");
  g_assert_cmpint (number (element (peak, "by_tag", 0), "bytes"), ==, 500);
  g_assert_cmpint (number (element (peak, "by_tag", 0), "blocks"), ==, 1);
  g_assert_null (text (element (peak, "by_tag", 1), "tag"));
  g_assert_cmpstr (text (element (peak, "by_stack", 0), "stack"), ==,
                   "/usr/lib/libtarn.so.0+0x30 < f+0x4");
}

/* A request of functions in C++, and of one that only looks as if it were. */
static void
save_names (const Fixture *self)
{
  TraceWriter *writer = trace_writer_new ();
  g_autoptr (GBytes) bytes = NULL;

  trace_writer_packet (writer, 0, TARN_TRACE_FIRST, 0);
  trace_writer_add_object (writer, 1, TARN_TRACE_POOL, 0, "", "x", 1, 1);
  trace_writer_add_frame (writer, 0x100, "/bin/a", 1, "_ZN3app4loadEi", 16);
  trace_writer_add_frame (writer, 0x200, "/bin/a", 2, "_Z", 32);
  trace_writer_add_stack (writer, 1, 0x100, 0x200);
  trace_writer_add (writer, TARN_TRACE_USE, 0, 1);
  trace_writer_add (writer, TARN_TRACE_SET_STACK, 0, 1);
  trace_writer_add (writer, TARN_TRACE_MISS, 0, 1, 100, 100, 0x1000);
  trace_writer_add (writer, TARN_TRACE_STOP, 0, 0);
  bytes = trace_writer_end (writer);
  save (self->path, bytes, g_bytes_get_size (bytes));
}

/* Names are those that people gave, in whatever is printed, as in tarn-view's pages. */
static void
test_names (Fixture *self, gconstpointer data)
{
  static const gchar *const options[] = { "--json", "--print", "--pytorch" };
  gpointer library = dlopen ("libstdc++.so.6", RTLD_LAZY);

  (void) data;
  if (library == NULL)
    {
      g_test_skip ("there is no libstdc++");
      return;
    }
  dlclose (library);
  save_names (self);
  for (guint i = 0; i < G_N_ELEMENTS (options); i++)
    {
      SUCCEED (options[i], self->path);
      g_assert_nonnull (strstr (self->output, "app::load(int)+0x10"));
      g_assert_null (strstr (self->output, "_ZN"));
    }
  SUCCEED (self->path);
  g_assert_nonnull (strstr (self->output, "  app::load(int)+0x10 < _Z+0x20\n"));
}

/* Gets the texts behind a column of lines, together. */
static gchar *
join_from (gchar **lines, guint n, glong column)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < n; i++)
    g_string_append (text, g_utf8_offset_to_pointer (lines[i], column));
  return g_string_free (text, FALSE);
}

/* Saves a recording of a pool and a tag with a long name. */
static gchar *
save_long_name (const Fixture *self)
{
  TraceWriter *writer = trace_writer_new ();
  g_autoptr (GBytes) bytes = NULL;
  GString *name = g_string_new (NULL);

  for (guint i = 0; i < 60; i++)
    g_string_append (name, "\xc3\xa4");
  g_string_append (name, "0123456789z");
  trace_writer_packet (writer, 0, TARN_TRACE_FIRST, 0);
  trace_writer_add_object (writer, 7, TARN_TRACE_POOL, 0, "", name->str, 1, 1);
  trace_writer_add_string (writer, 1, name->str);
  trace_writer_add (writer, TARN_TRACE_USE, 0, 7);
  trace_writer_add (writer, TARN_TRACE_TAG, 0, 1);
  trace_writer_add (writer, TARN_TRACE_MISS, 0, 1, 5, 5, 5);
  bytes = trace_writer_end (writer);
  save (self->path, bytes, g_bytes_get_size (bytes));
  return g_string_free (name, FALSE);
}

/* On a terminal lines are as wide as it is, and no name is cut. */
static void
test_summary_long (Fixture *self, gconstpointer data)
{
  g_autofree gchar *name = save_long_name (self), *pool = NULL, *tag = NULL;
  g_auto (GStrv) lines = NULL;

  (void) data;
  run_on_terminal (self, 80);
  lines = g_strsplit (self->output, "\n", -1);
  g_assert_cmpuint (g_strv_length (lines), ==, 10);
  g_assert_cmpint (g_utf8_strlen (lines[2], -1), ==, 80);
  g_assert_cmpint (g_utf8_strlen (lines[3], -1), ==, 80);
  g_assert_cmpint (g_utf8_strlen (lines[5], -1), ==, 80);
  g_assert_cmpint (g_utf8_strlen (lines[7], -1), ==, 80);
  pool = join_from (lines + 3, 2, 13);
  g_assert_cmpstr (pool, ==, name);
  tag = join_from (lines + 7, 2, 36);
  g_assert_cmpstr (tag, ==, name);
}

/* A wider terminal has longer lines, a narrow one still some text in each. */
static void
test_summary_width (Fixture *self, gconstpointer data)
{
  g_auto (GStrv) wide = NULL, narrow = NULL;

  (void) data;
  g_free (save_long_name (self));
  run_on_terminal (self, 100);
  wide = g_strsplit (self->output, "\n", -1);
  g_assert_cmpint (g_utf8_strlen (wide[3], -1), ==, 13 + 71);
  g_assert_cmpint (g_utf8_strlen (wide[6], -1), ==, 100);
  run_on_terminal (self, 10);
  narrow = g_strsplit (self->output, "\n", -1);
  g_assert_cmpint (g_utf8_strlen (narrow[3], -1), ==, 13 + 20);
}

/* In a pipe or file no line is wrapped or cut, so that programs find names. */
static void
test_summary_pipe (Fixture *self, gconstpointer data)
{
  g_autofree gchar *name = save_long_name (self);
  g_autofree gchar *row = g_strconcat (" 7 pool      ", name, "\n", NULL);
  g_autofree gchar *tag = g_strconcat (" 1 block   ", name, "\n", NULL);
  g_autofree gchar *file = NULL;

  (void) data;
  SUCCEED (self->path);
  g_assert_nonnull (strstr (self->output, row));
  g_assert_true (g_str_has_suffix (self->output, tag));
  SUCCEED ("--output", self->out, self->path);
  g_assert_true (g_file_get_contents (self->out, &file, NULL, NULL));
  g_assert_true (g_str_has_suffix (file, tag));
}

/* The layer's names are in their column; stacks go on behind a frame, and not for ever. */
static void
test_summary_wrapped (Fixture *self, gconstpointer data)
{
  TraceWriter *writer = trace_writer_new ();
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GString) tag = g_string_new ("begin");

  (void) data;
  for (guint i = 0; i < 60; i++)
    g_string_append_printf (tag, " < frame-%02u", i);
  trace_writer_packet (writer, 0, TARN_TRACE_FIRST, 0);
  trace_writer_add_object (writer, 1, TARN_TRACE_POOL, 0, "", "host buffers", 1, 1);
  trace_writer_add_string (writer, 1, tag->str);
  trace_writer_add (writer, TARN_TRACE_USE, 0, 1);
  trace_writer_add (writer, TARN_TRACE_TAG, 0, 1);
  trace_writer_add (writer, TARN_TRACE_MISS, 0, 1, 5, 5, 5);
  bytes = trace_writer_end (writer);
  save (self->path, bytes, g_bytes_get_size (bytes));
  run_on_terminal (self, 80);
  g_assert_nonnull (strstr (
      self->output,
      "   class     name        requests   hits misses fails  frees      peak    in use\n"
      " 1 pool      host buffers       1      0      1     0      0       5 B       5 B\n"));
  g_assert_nonnull (strstr (self->output, "block   begin < frame-00 < frame-01 < frame-02 <\n"
                                          "                                    frame-03 < "));
  g_assert_true (g_str_has_suffix (self->output, "...\n"));
}

/* Nobody reads that all of it has no tag; what can be done about it is said. */
static void
test_summary_unknown (Fixture *self, gconstpointer data)
{
  TraceWriter *writer = trace_writer_new ();
  g_autoptr (GBytes) bytes = NULL;

  (void) data;
  trace_writer_packet (writer, 0, TARN_TRACE_FIRST, 0);
  trace_writer_add_object (writer, 1, TARN_TRACE_POOL, 0, "", "x", 1, 1);
  trace_writer_add (writer, TARN_TRACE_USE, 0, 1);
  trace_writer_add (writer, TARN_TRACE_MISS, 0, 1, 5, 5, 5);
  bytes = trace_writer_end (writer);
  save (self->path, bytes, g_bytes_get_size (bytes));
  SUCCEED (self->path);
  g_assert_null (strstr (self->output, "(no tag)"));
  g_assert_true (g_str_has_suffix (
      self->output, "At the peak, 5 B after 0.000000 s\n"
                    "no request has a tag or a stack; TARN_TRACE_STACKS=16 records stacks\n"));
}

/* Gets the object of a number in the summary in JSON. */
static JsonObject *
get_object (JsonObject *root, guint number)
{
  return element (root, "objects", number - 1);
}

/* Two threads' requests to a pool over a heap (3) and to a pool over an allocator (4).  A request
 * is a miss if its thread has called the driver for memory since its latest request. */
static void
test_summary_misses (Fixture *self, gconstpointer data)
{
  TraceWriter *writer = trace_writer_new ();
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonObject *root;

  (void) data;
  trace_writer_packet (writer, 0, TARN_TRACE_FIRST, 0);
  trace_writer_add_thread (writer, 10, "");
  trace_writer_add_object (writer, 1, TARN_TRACE_DIRECT, 0, "", "", 1, 1);
  trace_writer_add_object (writer, 2, TARN_TRACE_HEAP, 1, "", "", 1, 1);
  trace_writer_add_object (writer, 3, TARN_TRACE_POOL, 2, "", "", 1, 1);
  trace_writer_add_object (writer, 4, TARN_TRACE_POOL, 1, "", "", 1, 1);
  trace_writer_add (writer, TARN_TRACE_USE, 0, 1);
  trace_writer_add (writer, TARN_TRACE_ALLOCATED, 0, 4096, 0x10000, 0, 1);
  trace_writer_add (writer, TARN_TRACE_USE, 0, 3);
  trace_writer_add (writer, TARN_TRACE_MISS, 0, 1, 8, 8, 0x10000); /* a miss */
  trace_writer_add (writer, TARN_TRACE_MISS, 0, 2, 8, 8, 0x10008); /* a hit */
  trace_writer_add (writer, TARN_TRACE_USE, 0, 1);
  trace_writer_add (writer, TARN_TRACE_ALLOCATED, 0, 4096, 0, 1, 1);
  trace_writer_add (writer, TARN_TRACE_USE, 0, 3);
  trace_writer_add (writer, TARN_TRACE_FAIL, 0, 4096, 1);
  trace_writer_add (writer, TARN_TRACE_MISS, 0, 5, 8, 8, 0x10018); /* a hit */
  trace_writer_add (writer, TARN_TRACE_USE, 0, 4);
  trace_writer_add (writer, TARN_TRACE_MISS, 0, 1, 8, 8, 0x10000); /* a miss */
  trace_writer_add (writer, TARN_TRACE_MISS, 0, 2, 8, 8, 0x10008); /* a miss */
  trace_writer_add (writer, TARN_TRACE_USE, 0, 1);
  trace_writer_add (writer, TARN_TRACE_ALLOCATED, 0, 4096, 0x30000, 0, 1);
  trace_writer_packet (writer, 1, TARN_TRACE_FIRST, 10);
  trace_writer_add_thread (writer, 11, "");
  trace_writer_add (writer, TARN_TRACE_USE, 0, 3);
  trace_writer_add (writer, TARN_TRACE_MISS, 0, 3, 8, 8, 0x10010); /* a hit */
  trace_writer_packet (writer, 2, TARN_TRACE_FIRST, 20);
  trace_writer_add_thread (writer, 10, "");
  trace_writer_add (writer, TARN_TRACE_USE, 0, 3);
  trace_writer_add (writer, TARN_TRACE_MISS, 0, 4, 8, 8, 0x30000); /* a miss */
  root = summarize (self, writer, parser);
  g_assert_cmpint (number (root, "peak_driver_bytes"), ==, 8192);
  g_assert_cmpint (number (get_object (root, 3), "hits"), ==, 3);
  g_assert_cmpint (number (get_object (root, 3), "misses"), ==, 2);
  g_assert_cmpint (number (get_object (root, 4), "hits"), ==, 0);
  g_assert_cmpint (number (get_object (root, 4), "misses"), ==, 2);
}

/* A heap serves the program without a pool, beside a pool of it.  The pool has no name. */
static void
test_summary_heap (Fixture *self, gconstpointer data)
{
  TraceWriter *writer = trace_writer_new ();
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonObject *root;

  (void) data;
  trace_writer_packet (writer, 0, TARN_TRACE_FIRST, 0);
  trace_writer_add_object (writer, 1, TARN_TRACE_DIRECT, 0, "allocator", "cuda-device", 1, 1);
  trace_writer_add_object (writer, 2, TARN_TRACE_HEAP, 1, "heap", "", 1, 1);
  trace_writer_add_object (writer, 3, TARN_TRACE_POOL, 2, "pool", "", 1, 1);
  trace_writer_add_string (writer, 1, "own");
  trace_writer_add (writer, TARN_TRACE_USE, 0, 2);
  trace_writer_add (writer, TARN_TRACE_PIECE, 0, 0x10000, 4096, 0);
  trace_writer_add (writer, TARN_TRACE_EXTENT, 0, 0x10000, 1024);
  trace_writer_add (writer, TARN_TRACE_TAG, 0, 1);
  trace_writer_add (writer, TARN_TRACE_MISS, 0, 1, 1000, 1024, 0x10000);
  trace_writer_add (writer, TARN_TRACE_TAG, 0, 0);
  trace_writer_add (writer, TARN_TRACE_EXTENT, 0, 0x10400, 512);
  trace_writer_add (writer, TARN_TRACE_USE, 0, 3);
  trace_writer_add (writer, TARN_TRACE_MISS, 0, 2, 500, 512, 0x10400);
  trace_writer_add (writer, TARN_TRACE_USE, 0, 2);
  trace_writer_add (writer, TARN_TRACE_FREE, 0, 1);
  trace_writer_add (writer, TARN_TRACE_EXTENT_FREE, 0, 0x10000, 1024);
  root = summarize (self, writer, parser);
  g_assert_cmpint (number (json_object_get_object_member (root, "peak"), "bytes"), ==, 1500);
  g_assert_cmpint (number (get_object (root, 2), "active_bytes"), ==, 512);
  SUCCEED (self->path);
  g_assert_nonnull (strstr (self->output, " 3 pool      over cuda-device\n"));
  g_assert_nonnull (strstr (self->output, "1 block   own\n"));
  SUCCEED ("--csv", self->path);
  g_assert_nonnull (
      strstr (self->output, "0,0,allocate,1,1000,\n0,0,allocate,2,500,\n0,0,free,1,,\n"));
}

/* The backend of the program's pool gets its memory from another pool, as buffers of a program
 * under tarn-run do: each byte counts once.  The other pool serves the program, too. */
static void
test_summary_nested (Fixture *self, gconstpointer data)
{
  TraceWriter *writer = trace_writer_new ();
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonObject *root;

  (void) data;
  trace_writer_packet (writer, 0, TARN_TRACE_FIRST, 0);
  trace_writer_add_object (writer, 1, TARN_TRACE_DIRECT, 0, "allocator", "layer", 1, 1);
  trace_writer_add_object (writer, 2, TARN_TRACE_POOL, 1, "pool", "buffers", 1, 1);
  trace_writer_add_object (writer, 3, TARN_TRACE_DIRECT, 0, "allocator", "opencl", 1, 1);
  trace_writer_add_object (writer, 4, TARN_TRACE_POOL, 3, "pool", "mine", 1, 1);
  trace_writer_add (writer, TARN_TRACE_USE, 0, 1);
  trace_writer_add (writer, TARN_TRACE_ALLOCATED, 1, 1024, 0x10000, 0, 1);
  trace_writer_add (writer, TARN_TRACE_USE, 0, 2);
  trace_writer_add (writer, TARN_TRACE_NESTED, 0, 0);
  trace_writer_add (writer, TARN_TRACE_MISS, 0, 1, 1024, 1024, 0x10000);
  trace_writer_add (writer, TARN_TRACE_USE, 0, 3);
  trace_writer_add (writer, TARN_TRACE_ALLOCATED, 1, 1024, 0x20000, 0, 1);
  trace_writer_add (writer, TARN_TRACE_USE, 0, 4);
  trace_writer_add (writer, TARN_TRACE_MISS, 0, 1, 1000, 1024, 0x20000);
  trace_writer_add (writer, TARN_TRACE_USE, 0, 1);
  trace_writer_add (writer, TARN_TRACE_ALLOCATED, 1, 512, 0x30000, 0, 1);
  trace_writer_add (writer, TARN_TRACE_USE, 0, 2);
  trace_writer_add (writer, TARN_TRACE_MISS, 0, 2, 500, 512, 0x30000);
  trace_writer_add (writer, TARN_TRACE_USE, 0, 3);
  trace_writer_add (writer, TARN_TRACE_FREED, 1, 1024, 0x20000, 1);
  trace_writer_add (writer, TARN_TRACE_USE, 0, 2);
  trace_writer_add (writer, TARN_TRACE_FREE, 0, 1);
  trace_writer_add (writer, TARN_TRACE_USE, 0, 1);
  trace_writer_add (writer, TARN_TRACE_ALLOCATED, 1, 256, 0x40000, 0, 1);
  root = summarize (self, writer, parser);
  g_assert_cmpint (number (json_object_get_object_member (root, "peak"), "bytes"), ==, 1500);
  g_assert_cmpint (number (root, "peak_driver_bytes"), ==, 1024 + 512 + 256);
  g_assert_cmpint (number (get_object (root, 2), "peak_active_bytes"), ==, 1524);
  SUCCEED ("--csv", self->path);
  g_assert_null (strstr (self->output, ",1024,"));
}

int
main (int argc, char **argv)
{
  trace_test_init (&argc, &argv);
  ADD ("summary", test_summary);
  ADD ("summary/json", test_summary_json);
  ADD ("summary/misses", test_summary_misses);
  ADD ("summary/heap", test_summary_heap);
  ADD ("summary/nested", test_summary_nested);
  ADD ("summary/long", test_summary_long);
  ADD ("summary/width", test_summary_width);
  ADD ("summary/pipe", test_summary_pipe);
  ADD ("summary/wrapped", test_summary_wrapped);
  ADD ("summary/unknown", test_summary_unknown);
  ADD ("names", test_names);
  return g_test_run ();
}
