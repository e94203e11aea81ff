/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * tarn-trace, as people and programs read it, on recordings of which everything is known: what it
 * counts, prints and converts, which events are meant, and how it ends. */

#define _GNU_SOURCE 1 /* posix_openpt () */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <json-glib/json-glib.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "lib/trace-writer.h"

#define MAX_ARGUMENTS 10

/* A folder with a recording in it, and what the program said. */
typedef struct
{
  gchar *folder, *path, *cut, *snapshot, *out;
  gchar *output, *errors;
  gint status;
} Fixture;

/* Recordings */

/* A tag that would break lines, quotations and terminals. */
#define ODD_TAG "a \"b\"\n\\\x1b[1m"

static void
write_start (TraceWriter *writer)
{
  trace_writer_packet (writer, 0, TARN_TRACE_FIRST, 0);
  trace_writer_add_thread (writer, 10, "main");
  trace_writer_add_object (writer, 1, TARN_TRACE_DIRECT, 0, "cuda-device", "", TARN_TRACE_ALIGNMENT,
                           256);
  trace_writer_add_object (writer, 2, TARN_TRACE_HEAP, 1, "cuda-device", "",
                           TARN_TRACE_GROWTH_BYTES, 4096);
  trace_writer_add_object (writer, 3, TARN_TRACE_POOL, 2, "cuda-device", "weights",
                           (TarnTraceProperty) 9999, 1);
  trace_writer_add_string (writer, 1, ODD_TAG);
  trace_writer_add_string (writer, 2, "plain");
  trace_writer_add_frame (writer, 0x400, "/lib/a.so", 0x40, "f", 4);
  trace_writer_add_frame (writer, 0x300, "/usr/lib/libtarn.so.0", 0x30, "", 0);
  trace_writer_add_stack (writer, 1, 0x300, 0x400);
  trace_writer_add_stack (writer, 2, 0x500, 0x400);
  trace_writer_add (writer, TARN_TRACE_USE, 0, 2);
  trace_writer_add (writer, TARN_TRACE_PIECE, 0, 0x10000, 4096, 0);
  trace_writer_add (writer, TARN_TRACE_EXTENT, 0, 0x10000, 1024);
  trace_writer_add (writer, TARN_TRACE_USE, 0, 3);
  trace_writer_add (writer, TARN_TRACE_BLOCK, 1, 1, 100, 128, 0x10000, 1);
}

/* The memory of block 3 is in no piece of the heap. */
static void
write_first_thread (TraceWriter *writer)
{
  trace_writer_add (writer, TARN_TRACE_TAG, 0, 2);
  trace_writer_add (writer, TARN_TRACE_QUEUE, 0, 0x50);
  trace_writer_add (writer, TARN_TRACE_SET_STACK, 0, 1);
  trace_writer_add (writer, TARN_TRACE_MISS, 999, 2, 500, 512, 0x10080);
  trace_writer_add (writer, TARN_TRACE_FREE, 1000, 2);
  trace_writer_add (writer, TARN_TRACE_HIT, 1000, 2, 300);
  trace_writer_add (writer, TARN_TRACE_MISS, 1000, 3, 64, 64, 0x20000);
  trace_writer_add (writer, TARN_TRACE_FREE, 1000, 3);
  trace_writer_add (writer, TARN_TRACE_HIT, 1000, 3, 60);
  trace_writer_add (writer, TARN_TRACE_FREE, 500, 3);
  trace_writer_add (writer, TARN_TRACE_GONE, 500, 3);
}

static void
write_second_thread (TraceWriter *writer)
{
  trace_writer_packet (writer, 1, TARN_TRACE_FIRST, 2000);
  trace_writer_add_thread (writer, 11, "");
  trace_writer_add (writer, TARN_TRACE_USE, 0, 3);
  trace_writer_add (writer, TARN_TRACE_FAIL, 500, 9999, 9);
  trace_writer_add (writer, TARN_TRACE_FREE, 2000, 1);
  trace_writer_add (writer, TARN_TRACE_TAG, 0, 1);
  trace_writer_add (writer, TARN_TRACE_SET_STACK, 0, 2);
  trace_writer_add (writer, TARN_TRACE_LENT, 1000, 9, 32, 64, 0x10300);
  trace_writer_add (writer, TARN_TRACE_USE, 0, 1);
  trace_writer_add (writer, TARN_TRACE_ALLOCATED, 2500, 4096, 0x10000, 0, 700);
  trace_writer_add (writer, TARN_TRACE_WAIT, 100, 0x50, 5);
  trace_writer_add (writer, TARN_TRACE_USE, 0, 3);
  trace_writer_add (writer, TARN_TRACE_OUT_OF_MEMORY, 900, 1 << 20, 332, 7);
  trace_writer_add (writer, TARN_TRACE_LOST, 0, 12);
  trace_writer_add (writer, TARN_TRACE_STOP, 1000, 0);
}

static void
save (const gchar *path, GBytes *bytes, gsize length)
{
  g_autoptr (GError) error = NULL;

  g_file_set_contents (path, g_bytes_get_data (bytes, NULL), (gssize) length, &error);
  g_assert_no_error (error);
}

static void
fixture_init (Fixture *self, gconstpointer data)
{
  TraceWriter *writer = trace_writer_new ();
  g_autoptr (GBytes) bytes = NULL;

  (void) data;
  self->folder = g_dir_make_tmp ("tarn-trace-XXXXXX", NULL);
  self->path = g_build_filename (self->folder, "x.trace", NULL);
  self->cut = g_build_filename (self->folder, "cut.trace", NULL);
  self->snapshot = g_build_filename (self->folder, "snapshot.json", NULL);
  self->out = g_build_filename (self->folder, "out", NULL);
  write_start (writer);
  write_first_thread (writer);
  write_second_thread (writer);
  bytes = trace_writer_end (writer);
  save (self->path, bytes, g_bytes_get_size (bytes));
  save (self->cut, bytes, g_bytes_get_size (bytes) - 1);
}

static void
fixture_clear (Fixture *self, gconstpointer data)
{
  (void) data;
  g_unlink (self->path);
  g_unlink (self->cut);
  g_unlink (self->snapshot);
  g_unlink (self->out);
  g_rmdir (self->folder);
  g_free (self->folder);
  g_free (self->path);
  g_free (self->cut);
  g_free (self->snapshot);
  g_free (self->out);
  g_free (self->output);
  g_free (self->errors);
}

/* Running it */

static gchar *
find_tool (const gchar *name)
{
  return g_build_filename (g_test_get_dir (G_TEST_BUILT), "..", "..", "tools", name, NULL);
}

static void
spawn (Fixture *self, const gchar *const *command)
{
  g_autoptr (GError) error = NULL;
  gint wait_status;

  g_clear_pointer (&self->output, g_free);
  g_clear_pointer (&self->errors, g_free);
  g_spawn_sync (NULL, (gchar **) command, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, &self->output,
                &self->errors, &wait_status, &error);
  g_assert_no_error (error);
  self->status = -1;
  if (g_spawn_check_exit_status (wait_status, &error))
    self->status = 0;
  else if (error->domain == G_SPAWN_EXIT_ERROR)
    self->status = error->code;
}

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

/* Arguments end with NULL. */
static void G_GNUC_NULL_TERMINATED
run (Fixture *self, ...)
{
  g_autofree gchar *program = find_tool ("tarn-trace");
  const gchar *command[MAX_ARGUMENTS + 2] = { program };
  const gchar *argument;
  va_list args;
  guint n = 1;

  va_start (args, self);
  while ((argument = va_arg (args, const gchar *)) != NULL)
    command[n++] = argument;
  va_end (args);
  g_assert_cmpuint (n, <, G_N_ELEMENTS (command));
  spawn (self, command);
}

#define SUCCEED(...)                                                                               \
  G_STMT_START                                                                                     \
  {                                                                                                \
    run (self, __VA_ARGS__, NULL);                                                                 \
    g_assert_cmpstr (self->errors, ==, "");                                                        \
    g_assert_cmpint (self->status, ==, 0);                                                         \
  }                                                                                                \
  G_STMT_END

/* One line of errors, and nothing else. */
static void
has_failed (const Fixture *self, gint status, const gchar *message)
{
  g_autofree gchar *line = g_strdup_printf ("tarn-trace: %s\n", message);

  g_assert_cmpstr (self->errors, ==, line);
  g_assert_cmpstr (self->output, ==, "");
  g_assert_cmpint (self->status, ==, status);
}

#define FAIL(exit_status, message, ...)                                                            \
  G_STMT_START                                                                                     \
  {                                                                                                \
    run (self, __VA_ARGS__, NULL);                                                                 \
    has_failed (self, exit_status, message);                                                       \
  }                                                                                                \
  G_STMT_END

/* JSON */

static JsonObject *
parse (JsonParser *parser, const gchar *text)
{
  g_autoptr (GError) error = NULL;

  json_parser_load_from_data (parser, text, -1, &error);
  g_assert_no_error (error);
  return json_node_get_object (json_parser_get_root (parser));
}

/* The number of a member. */
static gint64
number (JsonObject *object, const gchar *key)
{
  g_assert_true (json_object_has_member (object, key));
  return json_object_get_int_member (object, key);
}

static const gchar *
text (JsonObject *object, const gchar *key)
{
  g_assert_true (json_object_has_member (object, key));
  return json_object_get_null_member (object, key) ? NULL
                                                   : json_object_get_string_member (object, key);
}

static JsonObject *
element (JsonObject *object, const gchar *key, guint i)
{
  JsonArray *array = json_object_get_array_member (object, key);

  g_assert_nonnull (array);
  g_assert_cmpuint (i, <, json_array_get_length (array));
  return json_array_get_object_element (array, i);
}

static guint
length (JsonObject *object, const gchar *key)
{
  return json_array_get_length (json_object_get_array_member (object, key));
}

/* The summary */

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
      " 3 pool      weights            6      3      2     1      4     600 B     332 B\n"
      " 1 allocator cuda-device        0      -      -     0      0       0 B       0 B\n"
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
  g_assert_true (json_object_get_boolean_member (root, "complete"));
  g_assert_cmpint (number (root, "cut"), ==, 0);
  g_assert_cmpuint (length (root, "objects"), ==, 3);
  object = element (root, "objects", 2);
  g_assert_cmpint (number (object, "object"), ==, 3);
  g_assert_cmpstr (text (object, "class"), ==, "pool");
  g_assert_cmpstr (text (object, "type"), ==, "cuda-device");
  g_assert_cmpstr (text (object, "name"), ==, "weights");
  g_assert_cmpint (number (object, "requests"), ==, 6);
  g_assert_cmpint (number (object, "hits"), ==, 3);
  g_assert_cmpint (number (object, "misses"), ==, 2);
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

/* For tarn-bench */

#define CSV_HEADER "time,thread,action,id,size,queue\n"

static void
test_csv (Fixture *self, gconstpointer data)
{
  (void) data;
  SUCCEED ("--csv", self->path);
  g_assert_cmpstr (self->output, ==,
                   CSV_HEADER "0,10,allocate,1,100,\n"
                              "1000,10,allocate,2,500,80\n"
                              "2000,10,free,2,,\n"
                              "3000,10,allocate,3,300,80\n"
                              "4000,10,allocate,4,64,80\n"
                              "4500,11,free,1,,\n"
                              "5000,10,free,4,,\n"
                              "5500,11,allocate,5,32,\n"
                              "6000,10,allocate,6,60,80\n"
                              "6500,10,free,6,,\n");
}

/* A free goes with its request, whoever frees; what was there at the time, is there from then on.
 */
static void
test_csv_filters (Fixture *self, gconstpointer data)
{
  (void) data;
  SUCCEED ("--csv", "--from", "0.0000035", "--to", "0.000005", self->path);
  g_assert_cmpstr (self->output, ==,
                   CSV_HEADER "3500,10,allocate,1,100,\n"
                              "3500,10,allocate,3,300,80\n"
                              "4000,10,allocate,4,64,80\n"
                              "4500,11,free,1,,\n"
                              "5000,10,free,4,,\n");
  SUCCEED ("--csv", "--tag", ODD_TAG, self->path);
  g_assert_cmpstr (self->output, ==, CSV_HEADER "5500,11,allocate,5,32,\n");
  SUCCEED ("--csv", "--queue", "0", self->path);
  g_assert_cmpstr (self->output, ==,
                   CSV_HEADER "0,10,allocate,1,100,\n"
                              "4500,11,free,1,,\n"
                              "5500,11,allocate,5,32,\n");
  SUCCEED ("--csv", "--thread", "11", self->path);
  g_assert_cmpstr (self->output, ==, CSV_HEADER "5500,11,allocate,5,32,\n");
  SUCCEED ("--csv", "--object", "1", self->path);
  g_assert_cmpstr (self->output, ==, CSV_HEADER);
}

static void
write_blocks_of (TraceWriter *writer, guint64 object)
{
  trace_writer_add (writer, TARN_TRACE_USE, 0, object);
  trace_writer_add (writer, TARN_TRACE_MISS, 10, 1, 100, 100, 0x1000);
  trace_writer_add (writer, TARN_TRACE_FREE, 10, 1);
  trace_writer_add (writer, TARN_TRACE_MISS, 10, 1, 200, 200, 0x1000);
}

/* Without a pool, what allocators are asked for is what the program asks for; and events that were
 * lost leave no line that tarn-bench would refuse. */
static void
test_csv_direct (Fixture *self, gconstpointer data)
{
  TraceWriter *writer = trace_writer_new ();
  g_autoptr (GBytes) bytes = NULL;

  (void) data;
  trace_writer_packet (writer, 0, TARN_TRACE_FIRST, 0);
  trace_writer_add_object (writer, 7, TARN_TRACE_DIRECT, 0, "cuda-host", "", 1, 1);
  write_blocks_of (writer, 7);
  trace_writer_add (writer, TARN_TRACE_HIT, 10, 1, 300);   /* its free was lost */
  trace_writer_add (writer, TARN_TRACE_FREE, 10, 4321);    /* its request was */
  trace_writer_add (writer, TARN_TRACE_HIT, 10, 4322, 50); /* its memory's */
  bytes = trace_writer_end (writer);
  save (self->path, bytes, g_bytes_get_size (bytes));
  SUCCEED ("--csv", self->path);
  g_assert_cmpstr (self->output, ==,
                   CSV_HEADER "10,0,allocate,1,100,\n"
                              "20,0,free,1,,\n"
                              "30,0,allocate,2,200,\n"
                              "40,0,free,2,,\n"
                              "40,0,allocate,3,300,\n"
                              "60,0,allocate,4,50,\n");
}

static void
test_csv_bench (Fixture *self, gconstpointer data)
{
  g_autofree gchar *bench = find_tool ("tarn-bench");
  const gchar *command[] = { bench,       "--kinds", "null",    "--measure", "overhead",
                             "--seconds", "0.001",   "--trace", self->out,   NULL };

  (void) data;
  if (!g_file_test (bench, G_FILE_TEST_IS_EXECUTABLE))
    {
      g_test_skip ("built without tarn-bench");
      return;
    }
  SUCCEED ("--csv", "-o", self->out, self->path);
  g_assert_cmpstr (self->output, ==, "");
  spawn (self, command);
  g_assert_cmpstr (self->errors, ==, "");
  g_assert_cmpint (self->status, ==, 0);
}

/* For Perfetto */

/* The event with these; NULL: there is none. */
static JsonObject *
find_event (JsonObject *root, const gchar *phase, const gchar *name, gdouble time)
{
  for (guint i = 0; i < length (root, "traceEvents"); i++)
    {
      JsonObject *event = element (root, "traceEvents", i);

      if (g_str_equal (text (event, "ph"), phase) && g_str_equal (text (event, "name"), name)
          && (time < 0 || json_object_get_double_member (event, "ts") == time))
        return event;
    }
  return NULL;
}

static JsonObject *
get_args (JsonObject *event)
{
  g_assert_nonnull (event);
  return json_object_get_object_member (event, "args");
}

static void
test_chrome (Fixture *self, gconstpointer data)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonObject *root, *event, *args;

  (void) data;
  SUCCEED ("--chrome", self->path);
  root = parse (parser, self->output);
  args = get_args (find_event (root, "M", "process_name", -1));
  g_assert_cmpstr (text (args, "name"), ==, "x.trace");
  event = find_event (root, "M", "thread_name", -1);
  g_assert_cmpint (number (event, "tid"), ==, 10);
  g_assert_cmpstr (text (get_args (event), "name"), ==, "main");
  args = get_args (find_event (root, "C", "pool 3 weights", 2));
  g_assert_cmpint (number (args, "managed"), ==, 640);
  g_assert_cmpint (number (args, "active"), ==, 100);
  g_assert_cmpint (number (args, "held"), ==, 512);
  args = get_args (find_event (root, "C", "pool 3 weights", 7));
  g_assert_cmpint (number (args, "managed"), ==, 128 + 512 + 64);
  g_assert_cmpint (number (args, "held"), ==, 128);
  args = get_args (find_event (root, "C", "heap 2 cuda-device", -1));
  g_assert_cmpint (number (args, "managed"), ==, 4096);
  event = find_event (root, "X", "upstream allocation", 7.3);
  g_assert_cmpfloat (json_object_get_double_member (event, "dur"), ==, 0.7);
  g_assert_cmpint (number (event, "pid"), ==, 4242);
  g_assert_cmpint (number (event, "tid"), ==, 11);
  g_assert_cmpint (number (get_args (event), "size"), ==, 4096);
  event = find_event (root, "X", "wait", 8.095);
  g_assert_cmpfloat (json_object_get_double_member (event, "dur"), ==, 0.005);
  args = get_args (find_event (root, "i", "out of memory", 9));
  g_assert_cmpint (number (args, "wanted"), ==, 1 << 20);
  args = get_args (find_event (root, "i", "failed request", 2.5));
  g_assert_cmpstr (text (args, "error"), ==, "limit");
}

/* Counters at the end are right, whatever came before that is asked for. */
static void
test_chrome_filters (Fixture *self, gconstpointer data)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonObject *root;

  (void) data;
  SUCCEED ("--chrome", "--from", "0.000007", "--object", "weights", self->path);
  root = parse (parser, self->output);
  g_assert_cmpuint (length (root, "traceEvents"), ==, 1 + 2 + 1); /* names, a counter, an instant */
  g_assert_cmpint (number (get_args (find_event (root, "C", "pool 3 weights", 7)), "active"), ==,
                   332);
}

/* For PyTorch's viewer, and from PyTorch */

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

/* What was written is read. */
static void
test_pytorch_back (Fixture *self, gconstpointer data)
{
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

static void
fails_snapshot (Fixture *self, const gchar *snapshot, const gchar *message)
{
  g_autofree gchar *expected = g_strdup_printf ("%s: %s", self->snapshot, message);

  g_assert_true (g_file_set_contents (self->snapshot, snapshot, -1, NULL));
  FAIL (1, expected, "--from-pytorch", self->snapshot);
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

  (void) data;
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
  FAIL (2, "the summary is of all events: see --print", "--thread", "1", self->path);
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

  (void) data;
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

#define ADD(path, function)                                                                        \
  g_test_add ("/tools/tarn-trace/" path, Fixture, NULL, fixture_init, function, fixture_clear)

int
main (int argc, char **argv)
{
  g_setenv ("LC_ALL", "C.UTF-8", TRUE);
  g_unsetenv ("NO_COLOR");
  g_test_init (&argc, &argv, NULL);
  ADD ("summary", test_summary);
  ADD ("summary/json", test_summary_json);
  ADD ("summary/long", test_summary_long);
  ADD ("summary/width", test_summary_width);
  ADD ("summary/pipe", test_summary_pipe);
  ADD ("summary/wrapped", test_summary_wrapped);
  ADD ("summary/unknown", test_summary_unknown);
  ADD ("names", test_names);
  ADD ("print", test_print);
  ADD ("print/json", test_print_json);
  ADD ("filters", test_filters);
  ADD ("csv", test_csv);
  ADD ("csv/filters", test_csv_filters);
  ADD ("csv/direct", test_csv_direct);
  ADD ("csv/bench", test_csv_bench);
  ADD ("chrome", test_chrome);
  ADD ("chrome/filters", test_chrome_filters);
  ADD ("pytorch", test_pytorch);
  ADD ("pytorch/back", test_pytorch_back);
  ADD ("pytorch/from", test_from_pytorch);
  ADD ("pytorch/wrong", test_wrong_snapshots);
  ADD ("usage", test_usage);
  ADD ("files", test_files);
  ADD ("cut", test_cut);
  ADD ("terminal", test_terminal);
  return g_test_run ();
}
