/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The fixture of the tests of tarn-trace. */

#include "tarn-trace-fixture.h"

#include <glib/gstdio.h>

#define MAX_ARGUMENTS 10

void
trace_test_init (int *argc, char ***argv)
{
  g_setenv ("LC_ALL", "C.UTF-8", TRUE);
  g_unsetenv ("NO_COLOR");
  g_test_init (argc, argv, NULL);
}

/* Recordings */

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

void
save (const gchar *path, GBytes *bytes, gsize length)
{
  g_autoptr (GError) error = NULL;

  g_file_set_contents (path, g_bytes_get_data (bytes, NULL), (gssize) length, &error);
  g_assert_no_error (error);
}

void
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

void
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

gchar *
find_tool (const gchar *name)
{
  return g_build_filename (g_test_get_dir (G_TEST_BUILT), "..", "..", "tools", name, NULL);
}

void
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

void
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

void
has_failed (const Fixture *self, gint status, const gchar *message)
{
  g_autofree gchar *line = g_strdup_printf ("tarn-trace: %s\n", message);

  g_assert_cmpstr (self->errors, ==, line);
  g_assert_cmpstr (self->output, ==, "");
  g_assert_cmpint (self->status, ==, status);
}

/* JSON */

JsonObject *
parse (JsonParser *parser, const gchar *text)
{
  g_autoptr (GError) error = NULL;

  json_parser_load_from_data (parser, text, -1, &error);
  g_assert_no_error (error);
  return json_node_get_object (json_parser_get_root (parser));
}

/* The number of a member. */
gint64
number (JsonObject *object, const gchar *key)
{
  g_assert_true (json_object_has_member (object, key));
  return json_object_get_int_member (object, key);
}

const gchar *
text (JsonObject *object, const gchar *key)
{
  g_assert_true (json_object_has_member (object, key));
  return json_object_get_null_member (object, key) ? NULL
                                                   : json_object_get_string_member (object, key);
}

JsonObject *
element (JsonObject *object, const gchar *key, guint i)
{
  JsonArray *array = json_object_get_array_member (object, key);

  g_assert_nonnull (array);
  g_assert_cmpuint (i, <, json_array_get_length (array));
  return json_array_get_object_element (array, i);
}

guint
length (JsonObject *object, const gchar *key)
{
  return json_array_get_length (json_object_get_array_member (object, key));
}
