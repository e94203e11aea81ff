/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * tarn-trace --csv: traces for tarn-bench, of all of a recording or of the events that are asked
 * for. */

#include "tarn-trace-fixture.h"

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

int
main (int argc, char **argv)
{
  trace_test_init (&argc, &argv);
  ADD ("csv", test_csv);
  ADD ("csv/filters", test_csv_filters);
  ADD ("csv/direct", test_csv_direct);
  ADD ("csv/bench", test_csv_bench);
  return g_test_run ();
}
