/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "lib/trace-writer.h"

#include <string.h>

/* n: a number; b, a, q: a difference, of blocks, addresses and queues. */
static const gchar *const layouts[TARN_TRACE_N_KINDS] = {
  [TARN_TRACE_USE] = "n",
  [TARN_TRACE_QUEUE] = "q",
  [TARN_TRACE_TAG] = "n",
  [TARN_TRACE_SET_STACK] = "n",
  [TARN_TRACE_END] = "n",
  [TARN_TRACE_BLOCK] = "bnnan",
  [TARN_TRACE_HIT] = "bn",
  [TARN_TRACE_MISS] = "bnna",
  [TARN_TRACE_LENT] = "bnna",
  [TARN_TRACE_FAIL] = "nn",
  [TARN_TRACE_FREE] = "b",
  [TARN_TRACE_GONE] = "b",
  [TARN_TRACE_ALLOCATED] = "nann",
  [TARN_TRACE_FREED] = "nan",
  [TARN_TRACE_MARK] = "nn",
  [TARN_TRACE_WAIT] = "nn",
  [TARN_TRACE_RECORD_USE] = "bn",
  [TARN_TRACE_MOVE] = "bn",
  [TARN_TRACE_FORGET] = "n",
  [TARN_TRACE_TRIM] = "nn",
  [TARN_TRACE_LIMIT] = "n",
  [TARN_TRACE_RECLAIM] = "nnn",
  [TARN_TRACE_OUT_OF_MEMORY] = "nnn",
  [TARN_TRACE_PIECE] = "ann",
  [TARN_TRACE_PIECE_GONE] = "an",
  [TARN_TRACE_PIECE_MOVED] = "anan",
  [TARN_TRACE_EXTENT] = "an",
  [TARN_TRACE_EXTENT_FREE] = "an",
  [TARN_TRACE_PART] = "aa",
  [TARN_TRACE_LOST] = "n",
  [TARN_TRACE_STOP] = "",
  [TARN_TRACE_LIMIT_REACHED] = "nnn",
  [TARN_TRACE_NESTED] = "",
};

static void
put_32 (guint8 *bytes, guint32 number)
{
  number = GUINT32_TO_LE (number);
  memcpy (bytes, &number, sizeof number);
}

static void
put_64 (guint8 *bytes, guint64 number)
{
  number = GUINT64_TO_LE (number);
  memcpy (bytes, &number, sizeof number);
}

TraceWriter *
trace_writer_new (void)
{
  TraceWriter *self = g_new0 (TraceWriter, 1);
  guint8 header[64] = TARN_TRACE_MAGIC;

  put_32 (header + 8, sizeof header);
  put_32 (header + 12, 4242);
  put_64 (header + 16, 1700000000 * G_GUINT64_CONSTANT (1000000000));
  put_64 (header + 24, 777);
  self->bytes = g_byte_array_new ();
  g_byte_array_append (self->bytes, header, sizeof header);
  return self;
}

void
trace_writer_end_packet (TraceWriter *self)
{
  if (self->packet != 0)
    put_32 (self->bytes->data + self->packet + 4, (guint32) (self->bytes->len - self->packet - 32));
  self->packet = 0;
}

void
trace_writer_packet (TraceWriter *self, guint32 stream, guint32 flags, guint64 time)
{
  guint8 header[32] = "TPKT";

  trace_writer_end_packet (self);
  put_32 (header + 8, stream);
  put_32 (header + 12, flags);
  put_64 (header + 16, time);
  self->packet = self->bytes->len;
  self->stream = stream % TRACE_WRITER_MAX_STREAMS;
  if (flags & TARN_TRACE_FIRST)
    memset (self->latest[self->stream], 0, sizeof self->latest[self->stream]);
  g_byte_array_append (self->bytes, header, sizeof header);
}

void
trace_writer_byte (TraceWriter *self, guint8 byte)
{
  g_byte_array_append (self->bytes, &byte, 1);
}

void
trace_writer_number (TraceWriter *self, guint64 number)
{
  for (; number > 127; number /= 128)
    trace_writer_byte (self, (guint8) (number % 128 + 128));
  trace_writer_byte (self, (guint8) number);
}

void
trace_writer_text (TraceWriter *self, const gchar *text)
{
  trace_writer_number (self, strlen (text));
  g_byte_array_append (self->bytes, (const guint8 *) text, (guint) strlen (text));
}

/* 0, -1, 1, -2, 2 ... are 0, 1, 2, 3, 4 ... */
static void
write_difference (TraceWriter *self, guint sort, guint64 number)
{
  guint64 *latest = &self->latest[self->stream][sort];
  gint64 difference = (gint64) (number - *latest);

  *latest = number;
  trace_writer_number (self, difference < 0 ? 2 * (guint64) - (difference + 1) + 1
                                            : 2 * (guint64) difference);
}

static void
begin_event (TraceWriter *self, TarnTraceKind kind, guint64 delay)
{
  trace_writer_byte (self, (guint8) kind);
  trace_writer_number (self, delay);
}

void
trace_writer_add_numbers (TraceWriter *self, TarnTraceKind kind, guint64 delay,
                          const guint64 *numbers)
{
  const gchar *sorts = "baq";

  begin_event (self, kind, delay);
  for (const gchar *c = layouts[kind]; *c != '\0'; c++, numbers++)
    if (*c == 'n')
      trace_writer_number (self, *numbers);
    else
      write_difference (self, (guint) (strchr (sorts, *c) - sorts), *numbers);
}

void
trace_writer_add_string (TraceWriter *self, guint64 string, const gchar *text)
{
  begin_event (self, TARN_TRACE_STRING, 0);
  trace_writer_number (self, string);
  trace_writer_text (self, text);
}

void
trace_writer_add_frame (TraceWriter *self, guint64 address, const gchar *module,
                        guint64 module_offset, const gchar *symbol, guint64 symbol_offset)
{
  begin_event (self, TARN_TRACE_FRAME, 0);
  trace_writer_number (self, address);
  trace_writer_text (self, module);
  trace_writer_number (self, module_offset);
  trace_writer_text (self, symbol);
  trace_writer_number (self, symbol_offset);
}

void
trace_writer_add_module (TraceWriter *self, guint64 load_address, const gchar *path,
                         const gchar *build_id)
{
  begin_event (self, TARN_TRACE_MODULE, 0);
  trace_writer_number (self, load_address);
  trace_writer_text (self, path);
  trace_writer_text (self, build_id);
}

void
trace_writer_add_stack (TraceWriter *self, guint64 stack, guint64 inner, guint64 outer)
{
  begin_event (self, TARN_TRACE_STACK, 0);
  trace_writer_number (self, stack);
  trace_writer_number (self, 2);
  trace_writer_number (self, inner);
  trace_writer_number (self, outer);
}

void
trace_writer_add_thread (TraceWriter *self, guint64 thread, const gchar *name)
{
  begin_event (self, TARN_TRACE_THREAD, 0);
  trace_writer_number (self, thread);
  trace_writer_text (self, name);
}

void
trace_writer_add_object (TraceWriter *self, guint64 object, TarnTraceClass object_class,
                         guint64 upstream, const gchar *kind, const gchar *name,
                         TarnTraceProperty property, guint64 number)
{
  begin_event (self, TARN_TRACE_OBJECT, 0);
  trace_writer_number (self, object);
  trace_writer_number (self, object_class);
  trace_writer_number (self, upstream);
  trace_writer_text (self, kind);
  trace_writer_text (self, name);
  trace_writer_number (self, 1);
  trace_writer_number (self, property);
  trace_writer_number (self, number);
}

GBytes *
trace_writer_end (TraceWriter *self)
{
  GBytes *bytes;

  trace_writer_end_packet (self);
  bytes = g_byte_array_free_to_bytes (self->bytes);
  g_free (self);
  return bytes;
}
