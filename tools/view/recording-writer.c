/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Encodes events as the recorder of the library does. */

#include "recording-writer.h"

#include <string.h>

/* A packet with this many bytes is ended, and the next event begins a new one, because the size of
 * a packet has only 32 bits. */
#define PACKET_BYTES ((guint) 1 << 20)

/* The sorts of numbers that are written as differences: each as the difference from the previous
 * number of the same sort. */
enum
{
  BLOCKS,
  ADDRESSES,
  QUEUES,
  N_SORTS
};

/* A recording that is being written.
 *
 * Invariant: the current packet begins at packet, and its size is not written yet. */
struct _RecordingWriter
{
  GByteArray *bytes;
  guint packet; /* offset of the current packet's header */
  guint64 time, thread, object, queue, tag;
  guint64 latest[N_SORTS];
};

static void
put_number (RecordingWriter *self, guint64 number)
{
  guint8 bytes[10];
  guint n = 0;

  for (; number > 127; number >>= 7)
    bytes[n++] = (guint8) (number | 128);
  bytes[n++] = (guint8) number;
  g_byte_array_append (self->bytes, bytes, n);
}

static void
put_difference (RecordingWriter *self, guint sort, guint64 number)
{
  guint64 difference = number - self->latest[sort];

  self->latest[sort] = number;
  put_number (self, difference << 1 ^ (difference >> 63 != 0 ? G_MAXUINT64 : 0));
}

static void
put_text (RecordingWriter *self, const gchar *text)
{
  gsize length = text != NULL ? strlen (text) : 0;

  put_number (self, length);
  g_byte_array_append (self->bytes, (const guint8 *) text, (guint) length);
}

/* Functions that write packets and events */

static void
begin_packet (RecordingWriter *self, guint32 flags)
{
  const TarnTracePacket header
      = { .magic = GUINT32_TO_LE (TARN_TRACE_PACKET_MAGIC), .flags = GUINT32_TO_LE (flags) };

  self->packet = self->bytes->len;
  g_byte_array_append (self->bytes, (const guint8 *) &header, sizeof header);
}

static void
end_packet (RecordingWriter *self)
{
  guint size = self->bytes->len - self->packet - (guint) sizeof (TarnTracePacket);
  guint32 written = GUINT32_TO_LE (size);

  g_assert (self->packet + sizeof (TarnTracePacket) <= self->bytes->len);
  memcpy (self->bytes->data + self->packet + G_STRUCT_OFFSET (TarnTracePacket, size), &written,
          sizeof written);
}

static void
begin_event (RecordingWriter *self, TarnTraceKind kind, guint64 time)
{
  g_assert (time >= self->time);
  if (self->bytes->len - self->packet > PACKET_BYTES)
    {
      end_packet (self);
      begin_packet (self, 0);
    }
  put_number (self, kind);
  put_number (self, time - self->time);
  self->time = time;
}

/* Sets a value of the stream for the events that follow.  Writes nothing if the stream has this
 * value already. */
static void
set (RecordingWriter *self, TarnTraceKind kind, guint64 *before, guint64 number)
{
  if (*before == number)
    return;
  begin_event (self, kind, self->time);
  if (kind == TARN_TRACE_QUEUE)
    put_difference (self, QUEUES, number);
  else
    put_number (self, number);
  if (kind == TARN_TRACE_THREAD)
    put_text (self, NULL);
  *before = number;
}

RecordingWriter *
recording_writer_new (guint32 pid, guint64 real_time)
{
  RecordingWriter *self = g_new0 (RecordingWriter, 1);
  TarnTraceHeader header = { .header_size = GUINT32_TO_LE (sizeof header),
                             .pid = GUINT32_TO_LE (pid),
                             .real_time = GUINT64_TO_LE (real_time) };

  memcpy (header.magic, TARN_TRACE_MAGIC, sizeof header.magic);
  self->bytes = g_byte_array_new ();
  g_byte_array_append (self->bytes, (const guint8 *) &header, sizeof header);
  begin_packet (self, TARN_TRACE_FIRST);
  return self;
}

void
recording_writer_free (RecordingWriter *self)
{
  g_byte_array_unref (self->bytes);
  g_free (self);
}

void
recording_writer_add_string (RecordingWriter *self, guint64 string, const gchar *text)
{
  begin_event (self, TARN_TRACE_STRING, self->time);
  put_number (self, string);
  put_text (self, text);
}

void
recording_writer_add_frame (RecordingWriter *self, const RecordedFrame *frame)
{
  begin_event (self, TARN_TRACE_FRAME, self->time);
  put_number (self, frame->address);
  put_text (self, frame->module);
  put_number (self, frame->module_offset);
  put_text (self, frame->symbol);
  put_number (self, frame->symbol_offset);
}

void
recording_writer_add_module (RecordingWriter *self, const RecordedModule *module)
{
  begin_event (self, TARN_TRACE_MODULE, self->time);
  put_number (self, module->load_address);
  put_text (self, module->path);
  put_text (self, module->build_id);
}

void
recording_writer_add_stack (RecordingWriter *self, guint64 stack, const GArray *addresses)
{
  begin_event (self, TARN_TRACE_STACK, self->time);
  put_number (self, stack);
  put_number (self, addresses->len);
  for (guint i = 0; i < addresses->len; i++)
    put_number (self, g_array_index (addresses, guint64, i));
}

void
recording_writer_add_object (RecordingWriter *self, const RecordedEvent *event)
{
  begin_event (self, TARN_TRACE_OBJECT, self->time);
  put_number (self, event->object);
  put_number (self, event->object_class);
  put_number (self, event->upstream);
  put_text (self, event->text);
  put_text (self, event->name);
  put_number (self, event->n_properties);
  for (gsize i = 0; i < event->n_properties; i++)
    {
      put_number (self, event->properties[i].property);
      put_number (self, event->properties[i].number);
    }
}

void
recording_writer_add_piece (RecordingWriter *self, const RecordedEvent *event)
{
  set (self, TARN_TRACE_USE, &self->object, event->object);
  begin_event (self, TARN_TRACE_PIECE, self->time);
  put_difference (self, ADDRESSES, event->address);
  put_number (self, event->size);
  put_number (self, event->queue);
}

void
recording_writer_add_extent (RecordingWriter *self, const RecordedEvent *event)
{
  set (self, TARN_TRACE_USE, &self->object, event->object);
  begin_event (self, TARN_TRACE_EXTENT, self->time);
  put_difference (self, ADDRESSES, event->address);
  put_number (self, event->size);
}

void
recording_writer_add_part (RecordingWriter *self, const RecordedEvent *event)
{
  set (self, TARN_TRACE_USE, &self->object, event->object);
  begin_event (self, TARN_TRACE_PART, self->time);
  put_difference (self, ADDRESSES, event->address);
  put_difference (self, ADDRESSES, event->other);
}

void
recording_writer_add_block (RecordingWriter *self, const RecordedEvent *event)
{
  guint64 none = 0;

  set (self, TARN_TRACE_THREAD, &self->thread, event->thread);
  set (self, TARN_TRACE_USE, &self->object, event->object);
  set (self, TARN_TRACE_QUEUE, &self->queue, event->queue);
  set (self, TARN_TRACE_TAG, &self->tag, event->tag);
  set (self, TARN_TRACE_SET_STACK, &none, event->stack);
  begin_event (self, event->kind, event->time);
  put_difference (self, BLOCKS, event->block);
  put_number (self, event->size);
  put_number (self, event->alloc_size);
  put_difference (self, ADDRESSES, event->address);
  if (event->kind == TARN_TRACE_BLOCK)
    put_number (self, event->other);
}

Recording *
recording_writer_end (RecordingWriter *self, guint64 time, const gchar *name, GError **error)
{
  g_autoptr (GBytes) bytes = NULL;

  begin_event (self, TARN_TRACE_STOP, time);
  end_packet (self);
  bytes = g_byte_array_free_to_bytes (g_steal_pointer (&self->bytes));
  self->bytes = g_byte_array_new ();
  return recording_open_bytes (bytes, name, error);
}
