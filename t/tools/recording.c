/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The reader of recorded traces: what it says of files that are put together here, which errors
 * wrong ones have, and that no file is too short or too odd for it. */

#include "trace/recording.h"

#include <glib/gstdio.h>
#include <string.h>
#include <tarn/tarn.h>

#include "lib/trace-writer.h"

#define NAME "x.trace"

static Recording *
open_written (TraceWriter *writer)
{
  g_autoptr (GBytes) bytes = trace_writer_end (writer);
  g_autoptr (GError) error = NULL;
  Recording *recording = recording_open_bytes (bytes, NAME, &error);

  g_assert_no_error (error);
  return recording;
}

static RecordedEvent
next (Recording *recording, TarnTraceKind kind, guint64 time)
{
  g_autoptr (GError) error = NULL;
  RecordedEvent event;

  g_assert_true (recording_next (recording, &event, &error));
  g_assert_no_error (error);
  g_assert_cmpint (event.kind, ==, kind);
  g_assert_cmpuint (event.time, ==, time);
  return event;
}

static void
has_ended (Recording *recording)
{
  g_autoptr (GError) error = NULL;
  RecordedEvent event;

  g_assert_false (recording_next (recording, &event, &error));
  g_assert_no_error (error);
}

/* What each kind says */

static void
test_blocks (void)
{
  TraceWriter *writer = trace_writer_new ();
  g_autoptr (Recording) recording = NULL;
  RecordedEvent event;

  trace_writer_packet (writer, 0, TARN_TRACE_FIRST, 1000);
  trace_writer_add_thread (writer, 99, "main");
  trace_writer_add_object (writer, 3, TARN_TRACE_POOL, 2, "cuda-device", "weights",
                           TARN_TRACE_HOLD_BYTES, 1 << 20);
  trace_writer_add (writer, TARN_TRACE_USE, 1, 3);
  trace_writer_add (writer, TARN_TRACE_QUEUE, 1, G_MAXUINT64 - 1);
  trace_writer_add (writer, TARN_TRACE_TAG, 1, 7);
  trace_writer_add (writer, TARN_TRACE_SET_STACK, 1, 8);
  trace_writer_add (writer, TARN_TRACE_BLOCK, 1, 40, 100, 128, 0x7000, 1);
  trace_writer_add (writer, TARN_TRACE_MISS, 1, 41, 200, 256, 0x6000);
  trace_writer_add (writer, TARN_TRACE_HIT, 1, 39, 300);
  trace_writer_add (writer, TARN_TRACE_LENT, 1, G_MAXUINT64, 400, 512, 0x8000);
  trace_writer_add (writer, TARN_TRACE_FAIL, 1, G_MAXUINT64, 1);
  trace_writer_add (writer, TARN_TRACE_FREE, 300, 5);
  trace_writer_add (writer, TARN_TRACE_FREE, 1, 6);
  trace_writer_add (writer, TARN_TRACE_GONE, 1, 7);
  recording = open_written (writer);

  event = next (recording, TARN_TRACE_OBJECT, 1000);
  g_assert_cmpuint (event.object, ==, 3);
  g_assert_cmpint (event.object_class, ==, TARN_TRACE_POOL);
  g_assert_cmpuint (event.upstream, ==, 2);
  g_assert_cmpstr (event.text, ==, "cuda-device");
  g_assert_cmpstr (event.name, ==, "weights");
  g_assert_cmpuint (event.n_properties, ==, 1);
  g_assert_cmpuint (event.properties[0].property, ==, TARN_TRACE_HOLD_BYTES);
  g_assert_cmpuint (event.properties[0].number, ==, 1 << 20);
  g_assert_cmpuint (event.thread, ==, 99);

  event = next (recording, TARN_TRACE_BLOCK, 1005);
  g_assert_cmpuint (event.object, ==, 3);
  g_assert_cmpuint (event.queue, ==, G_MAXUINT64 - 1);
  g_assert_cmpuint (event.tag, ==, 7);
  g_assert_cmpuint (event.stack, ==, 8);
  g_assert_cmpuint (event.block, ==, 40);
  g_assert_cmpuint (event.size, ==, 100);
  g_assert_cmpuint (event.alloc_size, ==, 128);
  g_assert_cmpuint (event.address, ==, 0x7000);
  g_assert_cmpuint (event.other, ==, 1);
  g_assert_cmpuint (event.thread, ==, 99);
  g_assert_cmpstr (event.text, ==, "main");

  event = next (recording, TARN_TRACE_MISS, 1006);
  g_assert_cmpuint (event.block, ==, 41);
  g_assert_cmpuint (event.alloc_size, ==, 256);
  g_assert_cmpuint (event.address, ==, 0x6000);
  g_assert_cmpuint (event.tag, ==, 7);
  g_assert_cmpuint (event.stack, ==, 0); /* it was for one request */
  event = next (recording, TARN_TRACE_HIT, 1007);
  g_assert_cmpuint (event.block, ==, 39);
  g_assert_cmpuint (event.size, ==, 300);
  event = next (recording, TARN_TRACE_LENT, 1008);
  g_assert_cmpuint (event.block, ==, G_MAXUINT64);
  g_assert_cmpuint (event.address, ==, 0x8000);
  event = next (recording, TARN_TRACE_FAIL, 1009);
  g_assert_cmpuint (event.size, ==, G_MAXUINT64);
  g_assert_cmpuint (event.other, ==, 1);
  event = next (recording, TARN_TRACE_FREE, 1309);
  g_assert_cmpuint (event.block, ==, 5);
  g_assert_cmpuint (event.queue, ==, 0);
  g_assert_cmpuint (event.tag, ==, 0);
  g_assert_cmpuint (next (recording, TARN_TRACE_FREE, 1310).block, ==, 6);
  g_assert_cmpuint (next (recording, TARN_TRACE_GONE, 1311).block, ==, 7);
  has_ended (recording);
  g_assert_cmpuint (recording_get_n_events (recording), ==, 9);
}

static void
write_others (TraceWriter *writer)
{
  trace_writer_packet (writer, 0, TARN_TRACE_FIRST, 0);
  trace_writer_add (writer, TARN_TRACE_USE, 0, 5);
  trace_writer_add (writer, TARN_TRACE_ALLOCATED, 1, 10, 20, 30, 40);
  trace_writer_add (writer, TARN_TRACE_FREED, 1, 11, 21, 31);
  trace_writer_add (writer, TARN_TRACE_MARK, 1, 12, 22);
  trace_writer_add (writer, TARN_TRACE_WAIT, 1, 13, 23);
  trace_writer_add (writer, TARN_TRACE_RECORD_USE, 1, 14, 24);
  trace_writer_add (writer, TARN_TRACE_MOVE, 1, 15, 25);
  trace_writer_add (writer, TARN_TRACE_FORGET, 1, 16);
  trace_writer_add (writer, TARN_TRACE_TRIM, 1, 17, 1);
  trace_writer_add (writer, TARN_TRACE_LIMIT, 1, 18);
  trace_writer_add (writer, TARN_TRACE_RECLAIM, 1, 19, 1, 29);
  trace_writer_add (writer, TARN_TRACE_OUT_OF_MEMORY, 1, 20, 30, 40);
  trace_writer_add (writer, TARN_TRACE_PIECE, 1, 21, 31, 41);
  trace_writer_add (writer, TARN_TRACE_PIECE_GONE, 1, 22, 32);
  trace_writer_add (writer, TARN_TRACE_PIECE_MOVED, 1, 23, 33, 43, 53);
  trace_writer_add (writer, TARN_TRACE_EXTENT, 1, 24, 34);
  trace_writer_add (writer, TARN_TRACE_EXTENT_FREE, 1, 25, 35);
  trace_writer_add (writer, TARN_TRACE_PART, 1, 27, 37);
  trace_writer_add (writer, TARN_TRACE_LOST, 1, 26);
  trace_writer_add (writer, TARN_TRACE_LIMIT_REACHED, 0, 28, 38, 48);
  trace_writer_add (writer, TARN_TRACE_END, 1, 5);
  trace_writer_add (writer, TARN_TRACE_STOP, 1, 0);
}

static void
expect (Recording *recording, TarnTraceKind kind, guint64 time, RecordedEvent expected)
{
  RecordedEvent event = next (recording, kind, time);

  g_assert_cmpuint (event.object, ==, kind != TARN_TRACE_LOST && kind != TARN_TRACE_STOP ? 5 : 0);
  g_assert_cmpuint (event.block, ==, expected.block);
  g_assert_cmpuint (event.queue, ==, expected.queue);
  g_assert_cmpuint (event.size, ==, expected.size);
  g_assert_cmpuint (event.alloc_size, ==, expected.alloc_size);
  g_assert_cmpuint (event.address, ==, expected.address);
  g_assert_cmpuint (event.other, ==, expected.other);
  g_assert_cmpuint (event.duration, ==, expected.duration);
}

#define EXPECT(kind, time, ...)                                                                    \
  expect (recording, TARN_TRACE_##kind, time, (RecordedEvent){ __VA_ARGS__ })

static void
test_others (void)
{
  TraceWriter *writer = trace_writer_new ();
  g_autoptr (Recording) recording = NULL;

  write_others (writer);
  recording = open_written (writer);
  for (guint round = 0; round < 2; round++)
    {
      EXPECT (ALLOCATED, 1, .size = 10, .address = 20, .other = 30, .duration = 40);
      EXPECT (FREED, 2, .size = 11, .address = 21, .duration = 31);
      EXPECT (MARK, 3, .queue = 12, .duration = 22);
      EXPECT (WAIT, 4, .queue = 13, .duration = 23);
      EXPECT (RECORD_USE, 5, .block = 14, .queue = 24);
      EXPECT (MOVE, 6, .block = 15, .queue = 25);
      EXPECT (FORGET, 7, .queue = 16);
      EXPECT (TRIM, 8, .size = 17, .other = 1);
      EXPECT (LIMIT, 9, .size = 18);
      EXPECT (RECLAIM, 10, .size = 19, .other = 1, .duration = 29);
      EXPECT (OUT_OF_MEMORY, 11, .size = 20, .alloc_size = 30, .other = 40);
      EXPECT (PIECE, 12, .address = 21, .size = 31, .queue = 41);
      EXPECT (PIECE_GONE, 13, .address = 22, .size = 32);
      EXPECT (PIECE_MOVED, 14, .address = 23, .size = 33, .other = 43, .queue = 53);
      EXPECT (EXTENT, 15, .address = 24, .size = 34);
      EXPECT (EXTENT_FREE, 16, .address = 25, .size = 35);
      EXPECT (PART, 17, .address = 27, .other = 37);
      EXPECT (LOST, 18, .size = 26);
      EXPECT (LIMIT_REACHED, 18, .size = 28, .alloc_size = 38, .other = 48);
      g_assert_cmpuint (next (recording, TARN_TRACE_END, 19).object, ==, 5);
      EXPECT (STOP, 20, .size = 0);
      has_ended (recording);
      recording_rewind (recording);
    }
  g_assert_cmpuint (recording_get_n_events (recording), ==, 21);
  g_assert_cmpuint (recording_get_n_lost (recording), ==, 26);
  g_assert_cmpuint (recording_get_pid (recording), ==, 4242);
  g_assert_cmpuint (recording_get_real_time (recording), ==,
                    G_GUINT64_CONSTANT (1700000000000000000));
  g_assert_true (recording_is_complete (recording));
  g_assert_cmpint (recording_get_cut (recording), ==, 0);
}

/* They stand behind what uses them, and the first of those with a number holds. */
static void
write_definitions (TraceWriter *writer)
{
  trace_writer_packet (writer, 2, TARN_TRACE_FIRST, 0);
  trace_writer_add (writer, TARN_TRACE_TAG, 0, 7);
  trace_writer_add (writer, TARN_TRACE_SET_STACK, 0, 1);
  trace_writer_add (writer, TARN_TRACE_HIT, 5, 1, 1);
  trace_writer_packet (writer, 1, TARN_TRACE_FIRST, 0);
  trace_writer_add_string (writer, 7, "layer \xc3\xa4");
  trace_writer_add_string (writer, 7, "another");
  trace_writer_add_frame (writer, 0x400, "/lib/a.so", 0x40, "f", 4);
  trace_writer_add_frame (writer, 0x500, "", 0, "", 0);
  trace_writer_add_stack (writer, 1, 0x400, 0x500);
  trace_writer_add_module (writer, 0x3c0, "/lib/a.so", "c0ffee");
  trace_writer_add_module (writer, 0x3c0, "/lib/a.so", "beef");
  trace_writer_add_module (writer, 0x3c0, "/lib/b.so", "");
}

static void
test_definitions (void)
{
  TraceWriter *writer = trace_writer_new ();
  g_autoptr (Recording) recording = NULL;
  const guint64 *addresses;
  const RecordedModule *module;
  const RecordedFrame *frame;
  RecordedEvent event;
  gsize n;

  write_definitions (writer);
  recording = open_written (writer);
  event = next (recording, TARN_TRACE_HIT, 5);
  g_assert_cmpuint (event.stream, ==, 2);
  g_assert_cmpstr (recording_get_string (recording, event.tag), ==, "layer \xc3\xa4");
  g_assert_null (recording_get_string (recording, 8));
  addresses = recording_get_stack (recording, event.stack, &n);
  g_assert_cmpuint (n, ==, 2);
  g_assert_cmpuint (addresses[1], ==, 0x500);
  g_assert_null (recording_get_stack (recording, 2, &n));
  g_assert_cmpuint (n, ==, 0);
  frame = recording_get_frame (recording, addresses[0]);
  g_assert_cmpuint (frame->address, ==, 0x400);
  g_assert_cmpstr (frame->module, ==, "/lib/a.so");
  g_assert_cmpuint (frame->module_offset, ==, 0x40);
  g_assert_cmpstr (frame->symbol, ==, "f");
  g_assert_cmpuint (frame->symbol_offset, ==, 4);
  module = recording_get_module (recording, frame);
  g_assert_cmpuint (module->load_address, ==, 0x3c0);
  g_assert_cmpstr (module->path, ==, "/lib/a.so");
  g_assert_cmpstr (module->build_id, ==, "c0ffee");
  g_assert_cmpstr (recording_get_frame (recording, 0x500)->module, ==, "");
  g_assert_null (recording_get_module (recording, recording_get_frame (recording, 0x500)));
  g_assert_null (recording_get_frame (recording, 0x600));
  g_assert_false (recording_is_complete (recording));
  has_ended (recording);
}

/* Streams */

static void
test_carried (void)
{
  TraceWriter *writer = trace_writer_new ();
  g_autoptr (Recording) recording = NULL;
  RecordedEvent event;

  trace_writer_packet (writer, 0, TARN_TRACE_FIRST, 100);
  trace_writer_add_thread (writer, 99, "main");
  trace_writer_add (writer, TARN_TRACE_USE, 0, 3);
  trace_writer_add (writer, TARN_TRACE_QUEUE, 0, 4);
  trace_writer_add (writer, TARN_TRACE_TAG, 0, 5);
  trace_writer_add (writer, TARN_TRACE_MISS, 1, 1000, 1, 1, 0x1000);
  trace_writer_add (writer, TARN_TRACE_SET_STACK, 1, 6);
  trace_writer_packet (writer, 1, TARN_TRACE_FIRST, 0);
  trace_writer_add (writer, TARN_TRACE_MISS, 1, 1, 1, 1, 1);
  trace_writer_packet (writer, 0, 0, 0); /* whose time says nothing */
  trace_writer_packet (writer, 0, 0, 0);
  trace_writer_add (writer, TARN_TRACE_MISS, 1, 1001, 1, 1, 0x1001);
  trace_writer_packet (writer, 0, TARN_TRACE_FIRST, 200);
  trace_writer_add (writer, TARN_TRACE_MISS, 1, 1002, 1, 1, 0x1002);
  recording = open_written (writer);

  event = next (recording, TARN_TRACE_MISS, 1);
  g_assert_cmpuint (event.thread, ==, 0);
  g_assert_null (event.text);
  g_assert_cmpuint (event.object, ==, 0);
  next (recording, TARN_TRACE_MISS, 101);
  event = next (recording, TARN_TRACE_MISS, 103);
  g_assert_cmpuint (event.block, ==, 1001);
  g_assert_cmpuint (event.address, ==, 0x1001);
  g_assert_cmpuint (event.object, ==, 3);
  g_assert_cmpuint (event.queue, ==, 4);
  g_assert_cmpuint (event.tag, ==, 5);
  g_assert_cmpuint (event.stack, ==, 6);
  g_assert_cmpuint (event.thread, ==, 99);
  event = next (recording, TARN_TRACE_MISS, 201);
  g_assert_cmpuint (event.block, ==, 1002);
  g_assert_cmpuint (event.address, ==, 0x1002);
  g_assert_cmpuint (event.object, ==, 0);
  g_assert_cmpuint (event.queue, ==, 0);
  g_assert_cmpuint (event.tag, ==, 0);
  g_assert_cmpuint (event.thread, ==, 0);
  has_ended (recording);
}

/* At one time what frees comes first, and then the lower stream; in a stream nothing overtakes. */
static void
test_ties (void)
{
  static const TarnTraceKind order[]
      = { TARN_TRACE_GONE,   TARN_TRACE_PIECE_GONE, TARN_TRACE_EXTENT_FREE, TARN_TRACE_HIT,
          TARN_TRACE_EXTENT, TARN_TRACE_FREE,       TARN_TRACE_FREED,       TARN_TRACE_FORGET };
  TraceWriter *writer = trace_writer_new ();
  g_autoptr (Recording) recording = NULL;

  trace_writer_packet (writer, 6, TARN_TRACE_FIRST, 10);
  trace_writer_add (writer, TARN_TRACE_EXTENT_FREE, 0, 1, 1);
  trace_writer_add (writer, TARN_TRACE_FORGET, 0, 1);
  trace_writer_packet (writer, 2, TARN_TRACE_FIRST, 10);
  trace_writer_add (writer, TARN_TRACE_EXTENT, 0, 1, 1);
  trace_writer_add (writer, TARN_TRACE_FREE, 0, 1);
  trace_writer_packet (writer, 4, TARN_TRACE_FIRST, 10);
  trace_writer_add (writer, TARN_TRACE_PIECE_GONE, 0, 1, 1);
  trace_writer_add (writer, TARN_TRACE_FREED, 0, 1, 1, 1);
  trace_writer_packet (writer, 1, TARN_TRACE_FIRST, 10);
  trace_writer_add (writer, TARN_TRACE_HIT, 0, 1, 1);
  trace_writer_packet (writer, 3, TARN_TRACE_FIRST, 10);
  trace_writer_add (writer, TARN_TRACE_GONE, 0, 1);
  recording = open_written (writer);
  for (guint i = 0; i < G_N_ELEMENTS (order); i++)
    next (recording, order[i], 10);
  has_ended (recording);
}

/* A thousand events at random times in eight streams are in order. */
static void
test_merged (void)
{
  TraceWriter *writer = trace_writer_new ();
  g_autoptr (Recording) recording = NULL;
  RecordedEvent event;
  guint64 time = 0;
  guint n = 0;

  for (guint i = 0; i < 1000; i++)
    {
      gboolean is_first = i < TRACE_WRITER_MAX_STREAMS;

      trace_writer_packet (writer, i % TRACE_WRITER_MAX_STREAMS, is_first ? TARN_TRACE_FIRST : 0,
                           0);
      trace_writer_add (writer, TARN_TRACE_HIT, (guint64) g_test_rand_int_range (0, 300), i, 1);
    }
  recording = open_written (writer);
  for (; recording_next (recording, &event, NULL); n++)
    {
      g_assert_cmpuint (event.time, >=, time);
      g_assert_cmpuint (event.block % TRACE_WRITER_MAX_STREAMS, ==, event.stream);
      time = event.time;
    }
  g_assert_cmpuint (n, ==, 1000);
}

/* Wrong files */

static void
fails (GBytes *bytes, const gchar *message)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *expected = g_strconcat (NAME ": ", message, NULL);
  Recording *recording = recording_open_bytes (bytes, NAME, &error);

  g_assert_null (recording);
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_cmpstr (error->message, ==, expected);
}

static TraceWriter *
begin_events (void)
{
  TraceWriter *writer = trace_writer_new ();

  trace_writer_packet (writer, 0, TARN_TRACE_FIRST, 0);
  return writer;
}

/* Bytes of an event, as many as there are, which are all that is wrong. */
static void
fails_event (const gchar *message, const guint8 *event, gsize length)
{
  TraceWriter *writer = begin_events ();
  g_autoptr (GBytes) bytes = NULL;

  for (gsize i = 0; i < length; i++)
    trace_writer_byte (writer, event[i]);
  bytes = trace_writer_end (writer);
  fails (bytes, message);
}

#define FAILS_EVENT(message, ...)                                                                  \
  fails_event (message, (const guint8[]){ __VA_ARGS__ }, sizeof ((const guint8[]){ __VA_ARGS__ }))

static void
test_wrong_events (void)
{
  FAILS_EVENT ("at byte 96: there is no event of kind 0", 0, 0);
  FAILS_EVENT ("at byte 96: there is no event of kind 200", 200, 0);
  FAILS_EVENT ("at byte 97: time goes beyond the end of the packet", TARN_TRACE_STOP);
  FAILS_EVENT ("at byte 98: block goes beyond the end of the packet", TARN_TRACE_FREE, 0, 0x80);
  FAILS_EVENT ("at byte 98: block has more than 10 bytes", TARN_TRACE_FREE, 0, 0x80, 0x80, 0x80,
               0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0);
  FAILS_EVENT ("at byte 98: block has more than 64 bits: its last byte is 0x02", TARN_TRACE_FREE, 0,
               0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2);
  FAILS_EVENT ("at byte 100: time has more than 64 bits: 18446744073709551615 behind 1",
               TARN_TRACE_USE, 1, 0, TARN_TRACE_USE, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
               0xff, 1, 0);
  FAILS_EVENT ("at byte 102: in_use is neither 0 nor 1: 2", TARN_TRACE_BLOCK, 0, 0, 0, 0, 0, 2);
  FAILS_EVENT ("at byte 99: stops_holding is neither 0 nor 1: 128", TARN_TRACE_TRIM, 0, 0, 0x80, 1);
  FAILS_EVENT ("at byte 99: class is out of range: 0", TARN_TRACE_OBJECT, 0, 1, 0, 0, 0, 0, 0);
  FAILS_EVENT ("at byte 99: class is out of range: 4", TARN_TRACE_OBJECT, 0, 1, 4, 0, 0, 0, 0);
  FAILS_EVENT ("at byte 99: text is too large for the packet: 3", TARN_TRACE_STRING, 0, 1, 3, 'a',
               'b');
  FAILS_EVENT ("at byte 100: text is not UTF-8: 'a\\377'", TARN_TRACE_STRING, 0, 1, 2, 'a', 0xff);
  FAILS_EVENT ("at byte 100: text is not UTF-8: 'a'", TARN_TRACE_STRING, 0, 1, 2, 'a', 0);
  FAILS_EVENT ("at byte 100: name is not UTF-8: '\\200'", TARN_TRACE_THREAD, 0, 1, 1, 0x80);
  FAILS_EVENT ("at byte 100: path is not UTF-8: '\\200'", TARN_TRACE_MODULE, 0, 1, 1, 0x80, 0);
  FAILS_EVENT ("at byte 99: number of addresses is too large for the packet: 2", TARN_TRACE_STACK,
               0, 1, 2, 1);
  FAILS_EVENT ("at byte 99: number of addresses is too large for the packet: 34359738367",
               TARN_TRACE_STACK, 0, 1, 0xff, 0xff, 0xff, 0xff, 0x7f, 1);
  FAILS_EVENT ("at byte 98: number of properties is too large for the packet: 2", TARN_TRACE_STATS,
               0, 2, 1, 1, 1);
  FAILS_EVENT ("at byte 99: property is out of range: 4294967296", TARN_TRACE_STATS, 0, 1, 0x80,
               0x80, 0x80, 0x80, 0x10, 0);
}

/* A header and a packet with one event, of which one byte is another one. */
static void
fails_byte (const gchar *message, gsize place, guint8 byte)
{
  TraceWriter *writer = begin_events ();
  g_autoptr (GBytes) bytes = NULL;

  trace_writer_add (writer, TARN_TRACE_STOP, 0, 0);
  trace_writer_end_packet (writer);
  writer->bytes->data[place] = byte;
  bytes = trace_writer_end (writer);
  fails (bytes, message);
}

static void
test_wrong_headers (void)
{
  g_autoptr (GBytes) nothing = g_bytes_new_static ("", 0);
  g_autoptr (GBytes) magic = g_bytes_new_static (TARN_TRACE_MAGIC, 8);

  fails (nothing, "at byte 0: this is not a recorded trace: it does not begin with TARNTRC1");
  fails (magic, "at byte 8: the file ends in its header, which has 64 bytes");
  fails_byte ("at byte 0: this is not a recorded trace: it does not begin with TARNTRC1", 6, 'X');
  fails_byte ("at byte 7: written by a later version: format '2', not '1'", 7, '2');
  fails_byte ("at byte 8: the header cannot have 63 bytes", 8, 63);
  fails_byte ("at byte 8: the header cannot have 99 bytes", 8, 99);
  fails_byte ("at byte 64: no packet begins with 0x544b5055", 64, 'U');
  fails_byte ("at byte 72: the packet is of stream 0, which was never begun", 76, 0);
  fails_byte ("at byte 76: flags of a packet are unknown: 0x3", 76, 3);
  fails_byte ("at byte 97: time goes beyond the end of the packet", 68, 1);
}

/* The first two are not whole: what is behind the packet is not its own. */
static void
test_wrong_packets (void)
{
  TraceWriter *writer = begin_events ();
  g_autoptr (GBytes) straddling = NULL, backwards = NULL;

  trace_writer_byte (writer, TARN_TRACE_FREE);
  trace_writer_packet (writer, 0, 0, 0);
  trace_writer_byte (writer, 0);
  straddling = trace_writer_end (writer);
  fails (straddling, "at byte 97: time goes beyond the end of the packet");

  writer = begin_events ();
  trace_writer_add (writer, TARN_TRACE_FREE, 100, 1);
  trace_writer_packet (writer, 0, TARN_TRACE_FIRST, 50);
  trace_writer_add (writer, TARN_TRACE_FREE, 49, 1);
  backwards = trace_writer_end (writer);
  fails (backwards, "at byte 131: time 99 is before 100, which the stream had reached");
}

/* A larger header, as one with more in it would be, is passed over. */
static void
test_longer_header (void)
{
  TraceWriter *writer = trace_writer_new ();
  g_autoptr (Recording) recording = NULL;

  writer->bytes->data[8] = 66;
  trace_writer_byte (writer, 'x');
  trace_writer_byte (writer, 'y');
  trace_writer_packet (writer, 0, TARN_TRACE_FIRST, 0);
  trace_writer_add (writer, TARN_TRACE_STOP, 7, 0);
  recording = open_written (writer);
  next (recording, TARN_TRACE_STOP, 7);
}

static void
test_files (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *folder = g_dir_make_tmp ("tarn-recording-XXXXXX", NULL);
  g_autofree gchar *path = g_build_filename (folder, "x", NULL);
  g_autofree gchar *expected = g_strconcat (
      path, ": at byte 0: this is not a recorded trace: it does not begin with TARNTRC1", NULL);
  TraceWriter *writer = trace_writer_new ();
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (Recording) recording = NULL;

  g_assert_null (recording_open (path, &error));
  g_assert_error (error, G_FILE_ERROR, G_FILE_ERROR_NOENT);
  g_clear_error (&error);
  g_assert_true (g_file_set_contents (path, "", 0, NULL));
  g_assert_null (recording_open (path, &error));
  g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);
  g_assert_cmpstr (error->message, ==, expected);

  write_others (writer);
  bytes = trace_writer_end (writer);
  g_assert_true (g_file_set_contents (path, g_bytes_get_data (bytes, NULL),
                                      (gssize) g_bytes_get_size (bytes), NULL));
  recording = recording_open (path, NULL);
  g_assert_nonnull (recording);
  EXPECT (ALLOCATED, 1, .size = 10, .address = 20, .other = 30, .duration = 40);
  g_unlink (path);
  g_rmdir (folder);
}

/* Files that end early */

static GBytes *
write_all (void)
{
  TraceWriter *writer = trace_writer_new ();

  write_definitions (writer);
  write_others (writer);
  trace_writer_packet (writer, 3, TARN_TRACE_FIRST, 0);
  trace_writer_add_thread (writer, 300, "worker");
  trace_writer_add_object (writer, 300, TARN_TRACE_HEAP, 0, "kind", "", 1, 1000);
  trace_writer_add (writer, TARN_TRACE_MISS, 5, 1000, 1000, 1000, 1000);
  return trace_writer_end (writer);
}

static guint
count_events (Recording *recording)
{
  g_autoptr (GError) error = NULL;
  RecordedEvent event;
  guint n = 0;

  while (recording_next (recording, &event, &error))
    n++;
  g_assert_no_error (error);
  return n;
}

/* In memory of its own, so that it is seen if more of it is read. */
static guint8 *
copy_bytes (GBytes *bytes, gsize length)
{
  guint8 *copy = g_malloc (length);

  if (length > 0)
    memcpy (copy, g_bytes_get_data (bytes, NULL), length);
  return copy;
}

/* Whatever is left of a file, its whole events are there. */
static void
test_cut (void)
{
  g_autoptr (GBytes) bytes = write_all ();
  const gchar *seed = g_getenv ("TARN_RECORDING_SEED");
  gsize size = g_bytes_get_size (bytes);
  guint n_before = 0, n_whole = 0;

  /* For fuzz-recording.c to begin with. */
  if (seed != NULL)
    g_assert_true (g_file_set_contents (seed, g_bytes_get_data (bytes, NULL), (gssize) size, NULL));
  for (gsize length = 0; length <= size; length++)
    {
      g_autofree guint8 *copy = copy_bytes (bytes, length);
      g_autoptr (GBytes) part = g_bytes_new_static (copy, length);
      g_autoptr (GError) error = NULL;
      g_autoptr (Recording) recording = recording_open_bytes (part, NAME, &error);
      guint n;

      g_assert_true ((length < 64) == (recording == NULL));
      g_assert_true ((recording == NULL) == (error != NULL));
      if (recording == NULL)
        continue;
      g_assert_true (recording_get_cut (recording) == 0
                     || recording_get_cut (recording) == (goffset) length);
      n_whole += recording_get_cut (recording) == 0;
      n = count_events (recording);
      g_assert_cmpuint (n, ==, recording_get_n_events (recording));
      g_assert_cmpuint (n, >=, n_before);
      g_assert_cmpuint (n, <=, n_before + 1);
      n_before = n;
    }
  g_assert_cmpuint (n_before, ==, 1 + 21 + 2);
  g_assert_cmpuint (n_whole, ==, 1 + 4); /* behind the header, and each packet */
}

static void
test_cut_is_not_complete (void)
{
  TraceWriter *writer = begin_events ();
  g_autoptr (Recording) recording = NULL;

  trace_writer_add (writer, TARN_TRACE_STOP, 0, 0);
  trace_writer_end_packet (writer);
  trace_writer_byte (writer, 'T');
  recording = open_written (writer);
  g_assert_false (recording_is_complete (recording));
  g_assert_cmpint (recording_get_cut (recording), ==, 99);
}

/* Each byte in turn is another one: there is an error, or there are events. */
static void
test_changed (void)
{
  static const guint8 others[] = { 0, 1, 0x7f, 0x80, 0xff };
  g_autoptr (GBytes) bytes = write_all ();
  gsize size = g_bytes_get_size (bytes);

  for (gsize i = 0; i < size * G_N_ELEMENTS (others); i++)
    {
      g_autofree guint8 *copy = copy_bytes (bytes, size);
      g_autoptr (GBytes) changed = g_bytes_new_static (copy, size);
      g_autoptr (GError) error = NULL;
      g_autoptr (Recording) recording = NULL;

      copy[i / G_N_ELEMENTS (others)] = others[i % G_N_ELEMENTS (others)];
      recording = recording_open_bytes (changed, NAME, &error);
      g_assert_true ((recording == NULL) == (error != NULL));
      if (recording != NULL)
        g_assert_cmpuint (count_events (recording), ==, recording_get_n_events (recording));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/tools/recording/blocks", test_blocks);
  g_test_add_func ("/tools/recording/others", test_others);
  g_test_add_func ("/tools/recording/definitions", test_definitions);
  g_test_add_func ("/tools/recording/carried", test_carried);
  g_test_add_func ("/tools/recording/ties", test_ties);
  g_test_add_func ("/tools/recording/merged", test_merged);
  g_test_add_func ("/tools/recording/wrong/events", test_wrong_events);
  g_test_add_func ("/tools/recording/wrong/headers", test_wrong_headers);
  g_test_add_func ("/tools/recording/wrong/packets", test_wrong_packets);
  g_test_add_func ("/tools/recording/longer-header", test_longer_header);
  g_test_add_func ("/tools/recording/files", test_files);
  g_test_add_func ("/tools/recording/cut", test_cut);
  g_test_add_func ("/tools/recording/cut/is-not-complete", test_cut_is_not_complete);
  g_test_add_func ("/tools/recording/changed", test_changed);
  return g_test_run ();
}
