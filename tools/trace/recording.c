/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads a recording in two passes.  The first one goes from the beginning to the end, checks each
 * event, and finds packets and definitions.  The second one merges the streams, with a heap of
 * streams by the times of their next events.  The reader keeps a few words for each packet, stream
 * and definition, but keeps no events. */

#define _GNU_SOURCE 1 /* makes <string.h> declare memmem () */

#include "recording.h"

#include <string.h>
#include <tarn/tarn.h>

#include "decode.h"
#include "definitions.h"
#include "map.h"

#define NO_PACKET G_MAXSIZE

/* A packet: events of one stream. */
typedef struct
{
  gsize place; /* the offset of the packet's first event in the file */
  /* size: bytes of the packet's events that are in the file; flags: TARN_TRACE_FIRST or 0 */
  guint32 size, flags;
  guint64 n_missing; /* bytes beyond the end of the file; only the last packet has any */
  /* In a stream's first packet: the time to which the first event's time is relative */
  guint64 time;
  gsize next; /* the stream's next packet; NO_PACKET: none */
} Packet;

/* A stream: the events of one thread.
 *
 * Invariant: if the stream is in Recording.heap, event is the next event that recording_next ()
 * returns from the stream.  While Recording.is_given is TRUE, this does not hold for the first
 * stream of the heap: recording_next () has returned that stream's event already. */
typedef struct
{
  guint32 number;
  gsize first_packet, last_packet;
  gsize packet; /* the packet that is being read; NO_PACKET: no packet is left */
  Cursor cursor;
  StreamState state;
  GArray *properties; /* the properties of the event */
  RecordedEvent event;
} Stream;

/* A recording.
 *
 * Invariant: data and size are the data and size of bytes. */
struct _Recording
{
  GBytes *bytes;
  const guchar *data;
  gsize size;
  gchar *name;
  TarnTraceHeader header;
  Definitions *definitions;
  GArray *packets;    /* Packets, in the order of the file */
  GPtrArray *streams; /* elements of type Stream */
  GHashTable *by_number;
  guint64 n_events, n_lost;
  gboolean is_stopped;
  goffset cut;
  /* A binary heap of the streams that have an event left; the stream with the earliest event is the
   * first.  When recording_next () returns the first stream's event, it sets is_given.  That stream
   * advances only in the next call of recording_next (), because the event's properties are valid
   * until then. */
  GPtrArray *heap;
  gboolean is_given; /* recording_next () has returned the first stream's event */
  gboolean is_begun; /* begin () has filled the binary heap */
};

static gboolean G_GNUC_PRINTF (3, 4) refuse (gsize place, GError **error, const gchar *format, ...)
{
  g_autofree gchar *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, "at byte %" G_GSIZE_FORMAT ": %s",
               place, text);
  return FALSE;
}

/* Functions for streams */

static void
stream_free (gpointer data)
{
  Stream *stream = data;

  g_array_unref (stream->properties);
  g_free (stream);
}

static Stream *
get_stream (Recording *self, guint32 number)
{
  Stream *stream = g_hash_table_lookup (self->by_number, GUINT_TO_POINTER (number));

  if (stream != NULL)
    return stream;
  stream = g_new0 (Stream, 1);
  stream->number = number;
  stream->first_packet = stream->last_packet = stream->packet = NO_PACKET;
  stream->properties = g_array_new (FALSE, FALSE, sizeof (RecordedProperty));
  g_hash_table_insert (self->by_number, GUINT_TO_POINTER (number), stream);
  g_ptr_array_add (self->streams, stream);
  return stream;
}

static void
stream_begin_packet (Recording *self, Stream *stream, gsize index)
{
  stream->packet = index;
  if (index == NO_PACKET)
    return;

  g_assert (index < self->packets->len);
  const Packet *packet = &g_array_index (self->packets, Packet, index);
  const guchar *events = self->data + packet->place;

  if (packet->flags & TARN_TRACE_FIRST)
    stream->state = (StreamState){ .time = packet->time };
  stream->cursor = (Cursor){ self->data, events, events + packet->size, packet->n_missing };
}

/* Decodes the stream's next event.  Returns FALSE if there is none.  The first pass has checked the
 * file, so an error means that the file has changed since. */
static gboolean
stream_advance (Recording *self, Stream *stream, GError **error)
{
  while (stream->packet != NO_PACKET)
    {
      DecodeResult result;

      if (stream->cursor.at == stream->cursor.end)
        {
          gsize next = g_array_index (self->packets, Packet, stream->packet).next;

          stream_begin_packet (self, stream, next);
          continue;
        }
      result = decode_event (&stream->cursor, &stream->state, self->definitions, FALSE,
                             stream->properties, &stream->event, error);
      if (result == DECODE_DONE && decode_is_returned (stream->event.kind))
        {
          stream->event.stream = stream->number;
          return TRUE;
        }
      if (result != DECODE_DONE)
        stream->packet = NO_PACKET;
    }
  return FALSE;
}

/* Functions of the first pass, which checks the file */

/* Reads the file's header, whose numbers are little-endian. */
static void
read_header (TarnTraceHeader *header, const guchar *data)
{
  memcpy (header, data, sizeof *header);
  header->header_size = GUINT32_FROM_LE (header->header_size);
  header->pid = GUINT32_FROM_LE (header->pid);
  header->real_time = GUINT64_FROM_LE (header->real_time);
  header->start = GUINT64_FROM_LE (header->start);
}

/* A snapshot is a JSON object with the key "tarn-snapshot". */
gboolean
recording_is_snapshot (GBytes *bytes)
{
  static const gchar key[] = "\"tarn-snapshot\"";
  gsize size;
  const gchar *text = g_bytes_get_data (bytes, &size);

  while (size > 0 && g_ascii_isspace (*text))
    text++, size--;
  return size > 0 && *text == '{' && memmem (text, size, key, strlen (key)) != NULL;
}

static gboolean
check_header (Recording *self, GError **error)
{
  const gsize version = strlen (TARN_TRACE_MAGIC) - 1;

  if (recording_is_snapshot (self->bytes))
    return refuse (0, error, "this is a snapshot, not a recorded trace: tarn-view(1) shows it");
  if (self->size < sizeof self->header.magic || memcmp (self->data, TARN_TRACE_MAGIC, version) != 0)
    return refuse (0, error,
                   "this is not a recorded trace: it does not begin with " TARN_TRACE_MAGIC);
  if (self->data[version] != TARN_TRACE_MAGIC[version])
    {
      const gchar text[2] = { (gchar) self->data[version], '\0' };
      g_autofree gchar *shown = g_strescape (text, NULL);

      return refuse (version, error, "written by a later version: format '%s', not '%c'", shown,
                     TARN_TRACE_MAGIC[version]);
    }
  if (self->size < sizeof self->header)
    return refuse (self->size, error,
                   "the file ends in its header, which has %" G_GSIZE_FORMAT " bytes",
                   sizeof self->header);
  read_header (&self->header, self->data);
  if (self->header.header_size < sizeof self->header || self->header.header_size > self->size)
    return refuse (G_STRUCT_OFFSET (TarnTraceHeader, header_size), error,
                   "the header cannot have %u bytes", self->header.header_size);
  return TRUE;
}

static void
count (Recording *self, const RecordedEvent *event)
{
  if (decode_is_returned (event->kind))
    self->n_events++;
  if (event->kind == TARN_TRACE_LOST)
    self->n_lost += MIN (event->size, G_MAXUINT64 - self->n_lost);
  else if (event->kind == TARN_TRACE_STOP)
    self->is_stopped = TRUE;
}

static gboolean
scan_events (Recording *self, Stream *stream, guint64 latest, GError **error)
{
  Cursor *cursor = &stream->cursor;

  while (cursor->at < cursor->end)
    {
      const guchar *start = cursor->at;
      DecodeResult result = decode_event (cursor, &stream->state, self->definitions, TRUE,
                                          stream->properties, &stream->event, error);

      if (result == DECODE_FAILED)
        return FALSE;
      if (result == DECODE_CUT)
        return TRUE;
      if (stream->event.time < latest)
        return refuse ((gsize) (start - self->data), error,
                       "time %" G_GUINT64_FORMAT " is before %" G_GUINT64_FORMAT
                       ", which the stream had reached",
                       stream->event.time, latest);
      latest = stream->event.time;
      count (self, &stream->event);
    }
  return TRUE;
}

static void
add_packet (Recording *self, Stream *stream, const Packet *packet)
{
  gsize index = self->packets->len;

  g_array_append_val (self->packets, *packet);
  if (stream->first_packet == NO_PACKET)
    stream->first_packet = index;
  else
    g_array_index (self->packets, Packet, stream->last_packet).next = index;
  stream->last_packet = index;
}

static void
read_packet_header (TarnTracePacket *packet, const guchar *data)
{
  memcpy (packet, data, sizeof *packet);
  packet->magic = GUINT32_FROM_LE (packet->magic);
  packet->size = GUINT32_FROM_LE (packet->size);
  packet->stream = GUINT32_FROM_LE (packet->stream);
  packet->flags = GUINT32_FROM_LE (packet->flags);
  packet->time = GUINT64_FROM_LE (packet->time);
}

static gboolean
check_packet (Recording *self, const TarnTracePacket *packet, gsize place, GError **error)
{
  if (packet->magic != TARN_TRACE_PACKET_MAGIC)
    return refuse (place, error, "no packet begins with 0x%08x", packet->magic);
  if (packet->flags & ~TARN_TRACE_FIRST)
    return refuse (place + G_STRUCT_OFFSET (TarnTracePacket, flags), error,
                   "flags of a packet are unknown: 0x%x", packet->flags);
  if (!(packet->flags & TARN_TRACE_FIRST)
      && !g_hash_table_contains (self->by_number, GUINT_TO_POINTER (packet->stream)))
    return refuse (place + G_STRUCT_OFFSET (TarnTracePacket, stream), error,
                   "the packet is of stream %u, which was never begun", packet->stream);
  return TRUE;
}

/* Scans the packet at @place, and moves @place to the next one. */
static gboolean
scan_packet (Recording *self, gsize *place, GError **error)
{
  TarnTracePacket header;
  gsize n_left = self->size - *place;
  Packet packet;
  Stream *stream;
  guint64 latest;

  if (n_left < sizeof header)
    {
      self->cut = (goffset) self->size;
      *place = self->size;
      return TRUE;
    }
  read_packet_header (&header, self->data + *place);
  if (!check_packet (self, &header, *place, error))
    return FALSE;
  *place += sizeof header;
  n_left -= sizeof header;
  packet = (Packet){ *place,       (guint32) MIN (header.size, n_left),
                     header.flags, header.size - MIN (header.size, n_left),
                     header.time,  NO_PACKET };
  if (packet.n_missing > 0)
    self->cut = (goffset) self->size;
  *place += packet.size;
  stream = get_stream (self, header.stream);
  latest = stream->event.time;
  add_packet (self, stream, &packet);
  stream_begin_packet (self, stream, stream->last_packet);
  return scan_events (self, stream, latest, error);
}

static gboolean
scan (Recording *self, GError **error)
{
  gsize place;

  if (!check_header (self, error))
    return FALSE;
  for (place = self->header.header_size; place < self->size;)
    if (!scan_packet (self, &place, error))
      return FALSE;
  return TRUE;
}

Recording *
recording_open_bytes (GBytes *bytes, const gchar *name, GError **error)
{
  g_autoptr (Recording) self = g_new0 (Recording, 1);

  self->bytes = g_bytes_ref (bytes);
  self->data = g_bytes_get_data (bytes, &self->size);
  self->name = g_strdup (name);
  self->definitions = definitions_new ();
  self->packets = g_array_new (FALSE, FALSE, sizeof (Packet));
  self->streams = g_ptr_array_new_with_free_func (stream_free);
  self->by_number = g_hash_table_new (NULL, NULL);
  self->heap = g_ptr_array_new ();
  if (scan (self, error))
    return g_steal_pointer (&self);
  g_prefix_error (error, "%s: ", name);
  return NULL;
}

Recording *
recording_open (const gchar *path, GError **error)
{
  g_autoptr (GBytes) bytes = map_file (path, error);

  return bytes != NULL ? recording_open_bytes (bytes, path, error) : NULL;
}

void
recording_free (Recording *self)
{
  if (self == NULL)
    return;
  g_ptr_array_unref (self->heap);
  g_hash_table_unref (self->by_number);
  g_ptr_array_unref (self->streams);
  g_array_unref (self->packets);
  definitions_free (self->definitions);
  g_bytes_unref (self->bytes);
  g_free (self->name);
  g_free (self);
}

/* Functions of the second pass, which merges the streams */

static gboolean
is_release (TarnTraceKind kind)
{
  return kind == TARN_TRACE_FREE || kind == TARN_TRACE_GONE || kind == TARN_TRACE_EXTENT_FREE
         || kind == TARN_TRACE_PIECE_GONE;
}

static gboolean
comes_before (const Stream *a, const Stream *b)
{
  gboolean a_releases = is_release (a->event.kind), b_releases = is_release (b->event.kind);

  if (a->event.time != b->event.time)
    return a->event.time < b->event.time;
  if (a_releases != b_releases)
    return a_releases;
  return a->number < b->number;
}

static void
swap (gpointer *a, gpointer *b)
{
  gpointer saved = *a;

  *a = *b;
  *b = saved;
}

/* Restores the order of the binary heap.  Only the stream at @i may be out of order, and it moves
 * only towards the end of the array. */
static void
sift_down (GPtrArray *heap, guint i)
{
  for (;;)
    {
      guint first = i;

      for (guint child = 2 * i + 1; child <= 2 * i + 2 && child < heap->len; child++)
        if (comes_before (heap->pdata[child], heap->pdata[first]))
          first = child;
      if (first == i)
        return;
      swap (&heap->pdata[i], &heap->pdata[first]);
      i = first;
    }
}

static gboolean
begin (Recording *self, GError **error)
{
  g_assert (self->heap->len == 0 && !self->is_given);
  self->is_begun = TRUE;
  for (guint i = 0; i < self->streams->len; i++)
    {
      Stream *stream = self->streams->pdata[i];
      g_autoptr (GError) stream_error = NULL;

      stream_begin_packet (self, stream, stream->first_packet);
      if (stream_advance (self, stream, &stream_error))
        g_ptr_array_add (self->heap, stream);
      else if (stream_error != NULL)
        {
          g_propagate_prefixed_error (error, g_steal_pointer (&stream_error), "%s: ", self->name);
          return FALSE;
        }
    }
  for (guint i = self->heap->len / 2; i > 0; i--)
    sift_down (self->heap, i - 1);
  return TRUE;
}

/* Advances the first stream of the binary heap, whose event recording_next () has returned. */
static gboolean
move_on (Recording *self, GError **error)
{
  g_autoptr (GError) stream_error = NULL;

  g_assert (self->is_begun && self->heap->len > 0);
  self->is_given = FALSE;
  if (!stream_advance (self, self->heap->pdata[0], &stream_error))
    g_ptr_array_remove_index_fast (self->heap, 0);
  sift_down (self->heap, 0);
  if (stream_error == NULL)
    return TRUE;
  g_propagate_prefixed_error (error, g_steal_pointer (&stream_error), "%s: ", self->name);
  return FALSE;
}

gboolean
recording_next (Recording *self, RecordedEvent *event, GError **error)
{
  if (!self->is_begun && !begin (self, error))
    return FALSE;
  if (self->is_given && !move_on (self, error))
    return FALSE;
  if (self->heap->len == 0)
    return FALSE;
  *event = ((Stream *) self->heap->pdata[0])->event;
  self->is_given = TRUE;
  return TRUE;
}

void
recording_rewind (Recording *self)
{
  g_ptr_array_set_size (self->heap, 0);
  self->is_begun = FALSE;
  self->is_given = FALSE;
}

/* Functions that get properties of the recording */

guint64
recording_get_n_events (const Recording *self)
{
  return self->n_events;
}

guint64
recording_get_n_lost (const Recording *self)
{
  return self->n_lost;
}

guint64
recording_get_real_time (const Recording *self)
{
  return self->header.real_time;
}

guint32
recording_get_pid (const Recording *self)
{
  return self->header.pid;
}

gboolean
recording_is_complete (const Recording *self)
{
  return self->is_stopped && self->cut == 0;
}

goffset
recording_get_cut (const Recording *self)
{
  return self->cut;
}

const gchar *
recording_get_string (const Recording *self, guint64 string)
{
  return definitions_get_string (self->definitions, string);
}

const guint64 *
recording_get_stack (const Recording *self, guint64 stack, gsize *n_frames)
{
  return definitions_get_stack (self->definitions, stack, n_frames);
}

const RecordedFrame *
recording_get_frame (const Recording *self, guint64 address)
{
  return definitions_get_frame (self->definitions, address);
}

const RecordedModule *
recording_get_module (const Recording *self, const RecordedFrame *frame)
{
  return definitions_get_module (self->definitions, frame);
}
