/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * tarn-trace --chrome: events and counters for Perfetto. */

#include "tarn-trace-fixture.h"

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

int
main (int argc, char **argv)
{
  trace_test_init (&argc, &argv);
  ADD ("chrome", test_chrome);
  ADD ("chrome/filters", test_chrome_filters);
  return g_test_run ();
}
