/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Writes recorded events into the calling thread's buffer (record-private.h). */

#define _GNU_SOURCE 1 /* makes <pthread.h> declare pthread_getname_np () */

#include "record/stream-private.h"

#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fork-private.h"

/* The largest size of an event in bytes, without its texts and properties.  Includes the events
 * that may have to come before this event, which set the thread, object, queue and tag. */
#define MAX_EVENT 512

/* The largest size of a name in an event, in bytes.  Longer names are cut. */
#define MAX_TEXT 1024

/* The largest number of properties in an event about an object, or of counters in an event about a
 * pool or heap. */
#define MAX_PROPERTIES 64

G_STATIC_ASSERT (MAX_EVENT + 2 * MAX_TEXT + 20 * MAX_PROPERTIES < TARN_RECORD_BUFFER_BYTES);

/* The formats of the kinds of events.  A format has one letter for each number of the event.  The
 * letter says how the number is written:
 *
 *     n  as it is
 *     b  the number is a block: as the difference from the latest block in the buffer
 *     a  the number is an address: as the difference from the latest address in the buffer */
static const gchar *const formats[TARN_TRACE_N_KINDS] = {
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
  [TARN_TRACE_LIMIT_REACHED] = "nnn",
};

TarnMutex _tarn_stream_others_lock = TARN_MUTEX_INIT;
static TarnStream *others; /* the stream that threads without a TarnThread share */

guint64
_tarn_record_get_time (void)
{
  struct timespec now;

  if (clock_gettime (CLOCK_MONOTONIC, &now) != 0)
    return (guint64) g_get_monotonic_time () * 1000;
  return (guint64) now.tv_sec * 1000000000 + (guint64) now.tv_nsec;
}

/* Functions that write numbers and texts as bytes */

static inline guchar *
put_number (guchar *next, guint64 number)
{
  while (number >= 0x80)
    {
      *next++ = (guchar) (number | 0x80);
      number >>= 7;
    }
  *next++ = (guchar) number;
  return next;
}

/* Writes the difference between @number and *latest (modulo 2^64), with its sign in the lowest bit
 * (zigzag encoding).  Then sets *latest to @number. */
static inline guchar *
put_difference (guchar *next, guint64 *latest, guint64 number)
{
  guint64 difference = number - *latest;

  *latest = number;
  return put_number (next, difference << 1 ^ -(difference >> 63));
}

static guchar *
put_text (guchar *next, const gchar *text)
{
  const gchar *end;
  gsize length;

  if (text == NULL)
    text = "";
  /* Write only the bytes before the first one that is not UTF-8: a name may have any bytes. */
  g_utf8_validate (text, (gssize) strnlen (text, MAX_TEXT), &end);
  length = (gsize) (end - text);
  next = put_number (next, length);
  memcpy (next, text, length);
  return next + length;
}

void
_tarn_bytes_add_number (GByteArray *bytes, guint64 number)
{
  guchar place[10];

  g_byte_array_append (bytes, place, (guint) (put_number (place, number) - place));
}

void
_tarn_bytes_add_text (GByteArray *bytes, const gchar *text)
{
  guchar place[MAX_TEXT + 10];

  g_byte_array_append (bytes, place, (guint) (put_text (place, text) - place));
}

/* Functions that write events into the calling thread's stream */

/* Returns the calling thread's number in the system (gettid ()). */
static guint64
ask_thread_number (void)
{
#ifdef SYS_gettid
  return (guint64) syscall (SYS_gettid);
#else
  return GPOINTER_TO_SIZE (g_thread_self ());
#endif
}

guint32
_tarn_record_get_thread (void)
{
  TarnThread *thread = _tarn_current_thread;

  if (!thread->is_taken)
    return (guint32) ask_thread_number ();
  if (thread->system_number == 0)
    thread->system_number = ask_thread_number ();
  return (guint32) thread->system_number;
}

/* Writes the beginning of an event: a byte for the kind of event, and the time since the previous
 * event. */
static inline guchar *
put_kind (TarnStream *stream, guchar *next, TarnTraceKind kind, guint64 time)
{
  *next++ = (guchar) kind;
  next = put_number (next, time - stream->time);
  stream->time = time;
  return next;
}

static guchar *
put_thread (TarnStream *stream, guchar *next, guint64 number, guint64 time)
{
  gchar name[16] = "";

  pthread_getname_np (pthread_self (), name, sizeof name);
  stream->thread = number;
  next = put_kind (stream, next, TARN_TRACE_THREAD, time);
  next = put_number (next, number);
  return put_text (next, name);
}

/* Begins to fill an empty buffer.  Sets the stream's latest values to 0, because a reader of the
 * file decodes each buffer on its own.  If events were lost, writes an event with their number. */
static guchar *
begin_buffer (TarnStream *stream, TarnRecordBuffer *buffer, guint64 time)
{
  guchar *next = buffer->bytes;

  buffer->stream = stream->number;
  buffer->time = stream->time = time;
  stream->block = stream->address = stream->queue = stream->object = stream->thread = 0;
  stream->tag = 0;
  if (stream->n_lost > 0)
    {
      next = put_kind (stream, next, TARN_TRACE_LOST, time);
      next = put_number (next, stream->n_lost);
      stream->n_lost = 0;
    }
  return next;
}

/* Returns the place in the stream's buffer for an event of at most @size bytes.  If the buffer has
 * too little room, replaces it by an empty one.  If there is no empty buffer, counts the event as
 * lost and returns NULL. */
static inline guchar *
find_room (TarnStream *stream, guint64 time, gsize size)
{
  TarnRecordBuffer *buffer = stream->buffer;

  if (TARN_LIKELY (buffer != NULL && buffer->committed + size <= TARN_RECORD_BUFFER_BYTES))
    return buffer->bytes + buffer->committed;
  buffer = _tarn_recorder_change_buffer (stream, buffer);
  if (buffer != NULL)
    return begin_buffer (stream, buffer, time);
  stream->n_lost++;
  __atomic_store_n (&stream->lost, stream->lost + 1, __ATOMIC_RELAXED);
  return NULL;
}

/* Makes a finished event, which ends before @next, visible to the recorder's thread. */
static inline void
commit (TarnStream *stream, const guchar *next)
{
  TarnRecordBuffer *buffer = stream->buffer;

  __atomic_store_n (&buffer->n_events, buffer->n_events + 1, __ATOMIC_RELAXED);
  __atomic_store_n (&buffer->committed, (gsize) (next - buffer->bytes), __ATOMIC_RELEASE);
}

/* An event that is being written. */
typedef struct
{
  /* The calling thread, if it is in a read section of the recorder.  NULL if the thread instead
   * holds _tarn_stream_others_lock, the lock of the stream that several threads share. */
  TarnThread *visitor;
  TarnStream *stream;
  guint64 thread; /* the calling thread's number in the system */
  guint64 now;    /* the event's time on the clock of _tarn_record_get_time () */
  guint64 time;   /* the event's time since the recording began, in nanoseconds */
  guchar *next;   /* the place for the event's next byte; NULL if there is no room */
} Writer;

static gboolean
enter_others (Writer *self)
{
  _tarn_mutex_lock (&_tarn_stream_others_lock);
  if (!_tarn_door_is_open_to_others (&_tarn_record_door))
    {
      _tarn_mutex_unlock (&_tarn_stream_others_lock);
      return FALSE;
    }
  if (others == NULL)
    others = _tarn_recorder_add_stream ();
  self->visitor = NULL;
  self->stream = others;
  self->thread = ask_thread_number ();
  return TRUE;
}

/* Begins a read section of the recorder, and finds the stream of the calling thread.  Returns FALSE
 * if no recording is active.  If this function returns TRUE, the caller calls leave () later. */
static inline gboolean
enter (Writer *self)
{
  TarnThread *thread = _tarn_current_thread;

  if (TARN_UNLIKELY (!thread->is_taken))
    return enter_others (self);
  if (!_tarn_thread_enter (thread, &_tarn_record_door, FALSE))
    return FALSE;
  if (TARN_UNLIKELY (thread->stream == NULL))
    thread->stream = _tarn_recorder_add_stream ();
  if (TARN_UNLIKELY (thread->system_number == 0))
    thread->system_number = ask_thread_number ();
  self->visitor = thread;
  self->stream = thread->stream;
  self->thread = thread->system_number;
  return TRUE;
}

static inline void
leave (const Writer *self)
{
  if (self->next != NULL)
    commit (self->stream, self->next);
  if (TARN_LIKELY (self->visitor != NULL))
    _tarn_thread_leave (self->visitor);
  else
    _tarn_mutex_unlock (&_tarn_stream_others_lock);
}

/* Returns TRUE if an event of this kind is a step: it records a call by the program.  Other events
 * record Tarn's own actions during a call by the program.  Requests are steps, too;
 * _tarn_record_request () records them without asking this function. */
static inline gboolean
is_step (TarnTraceKind kind)
{
  switch (kind)
    {
    case TARN_TRACE_FREE:
    case TARN_TRACE_RECORD_USE:
    case TARN_TRACE_MOVE:
    case TARN_TRACE_FORGET:
    case TARN_TRACE_TRIM:
    case TARN_TRACE_LIMIT:
      return TRUE;
    default:
      return FALSE;
    }
}

/* Sets the time of the thread's latest step (a recorded call by the program) to the time of the
 * event that @writer has written, in microseconds.  Computes the time only from numbers that are in
 * the recording's file, so a replay of the recording gets the same time. */
static inline void
note_step (const Writer *writer)
{
  if (writer->visitor != NULL)
    writer->visitor->step_time
        = (gint64) (_tarn_recorder_get_start () / 1000 + writer->time / 1000);
}

/* Returns the time of the calling thread's latest step in microseconds, or the current time if the
 * thread has made no step since the recording began.  While events are recorded, all code that
 * decides by the time uses this time, which changes only at a step.  So a replay of the recording
 * decides in the same way, even if it makes the steps a little earlier or later. */
gint64
_tarn_record_get_step_time (void)
{
  gint64 start = (gint64) (_tarn_recorder_get_start () / 1000);
  gint64 time = _tarn_current_thread->step_time;

  /* If the latest step is older than the recording, the recording has no step of this thread. */
  return time >= start ? time : (gint64) (_tarn_record_get_time () / 1000);
}

/* Begins to write an event of at most @size bytes.  Returns FALSE if no recording is active, or if
 * there is no room for the event. */
static inline gboolean
begin (Writer *self, gsize size)
{
  if (_tarn_forked () || !enter (self))
    return FALSE;
  self->now = _tarn_record_get_time ();
  self->time = self->now - _tarn_recorder_get_start ();
  self->next = find_room (self->stream, self->time, size);
  if (TARN_UNLIKELY (self->next == NULL))
    {
      leave (self);
      return FALSE;
    }
  if (TARN_UNLIKELY (self->stream->thread != self->thread))
    self->next = put_thread (self->stream, self->next, self->thread, self->time);
  return TRUE;
}

/* Makes @object the stream's current object, to which the following events in the stream belong.
 * If another object was current, writes an event that makes @object the current object. */
static inline void
use (Writer *self, guint64 object)
{
  TarnStream *stream = self->stream;

  if (TARN_LIKELY (stream->object == object))
    return;
  self->next = put_kind (stream, self->next, TARN_TRACE_USE, self->time);
  self->next = put_number (self->next, object);
  stream->object = object;
}

/* Writes an event: its kind, its time, and its numbers in the format of its kind. */
static inline void
put_event (Writer *self, TarnTraceKind kind, const guint64 *numbers)
{
  TarnStream *stream = self->stream;
  guchar *next = put_kind (stream, self->next, kind, self->time);

  for (const gchar *format = formats[kind]; *format != '\0'; format++, numbers++)
    if (*format == 'b')
      next = put_difference (next, &stream->block, *numbers);
    else if (*format == 'a')
      next = put_difference (next, &stream->address, *numbers);
    else
      next = put_number (next, *numbers);
  self->next = next;
}

/* Records an event of an allocator, pool or heap.  @object is the number of the allocator, pool or
 * heap.  @numbers are the numbers of the event, as many as an event of this kind has. */
void
_tarn_record (TarnTraceKind kind, guint64 object, const guint64 *numbers)
{
  Writer writer;

  if (!begin (&writer, MAX_EVENT))
    return;
  use (&writer, object);
  put_event (&writer, kind, numbers);
  if (is_step (kind))
    note_step (&writer);
  leave (&writer);
}

static _Thread_local gint n_backend_calls = 0;

void
_tarn_record_nest (gint change)
{
  n_backend_calls += change;
}

/* Records the result of a request, the request's queue (NULL: none), the calling thread's tag, and
 * the number of the thread's call stack (0: not known). */
guint64
_tarn_record_request (TarnTraceKind kind, guint64 object, gconstpointer queue, guint32 stack,
                      const guint64 *numbers)
{
  guint64 handle = GPOINTER_TO_SIZE (queue);
  guint32 tag = _tarn_tag_get_current ();
  TarnStream *stream;
  Writer writer;

  if (!begin (&writer, MAX_EVENT))
    return 0;
  use (&writer, object);
  stream = writer.stream;
  if (stream->queue != handle)
    {
      writer.next = put_kind (stream, writer.next, TARN_TRACE_QUEUE, writer.time);
      writer.next = put_difference (writer.next, &stream->queue, handle);
    }
  if (stream->tag != tag)
    {
      writer.next = put_kind (stream, writer.next, TARN_TRACE_TAG, writer.time);
      writer.next = put_number (writer.next, tag);
      stream->tag = tag;
    }
  if (n_backend_calls > 0)
    writer.next = put_kind (stream, writer.next, TARN_TRACE_NESTED, writer.time);
  if (stack != 0)
    {
      writer.next = put_kind (stream, writer.next, TARN_TRACE_SET_STACK, writer.time);
      writer.next = put_number (writer.next, stack);
    }
  put_event (&writer, kind, numbers);
  note_step (&writer);
  leave (&writer);
  return writer.now;
}

static guchar *
put_properties (guchar *next, const guint64 *properties, gsize n_properties)
{
  g_assert (n_properties <= MAX_PROPERTIES);
  next = put_number (next, n_properties);
  for (gsize i = 0; i < 2 * n_properties; i++)
    next = put_number (next, properties[i]);
  return next;
}

/* Records that an allocator, pool or heap exists, because it was just made, or because the
 * recording has just begun.  @properties: pairs of a TarnTraceProperty and a number. */
void
_tarn_record_object (guint64 object, TarnTraceClass class, guint64 upstream, const gchar *kind,
                     const gchar *name, const guint64 *properties, gsize n_properties)
{
  Writer writer;

  if (!begin (&writer, MAX_EVENT + 2 * MAX_TEXT + 20 * n_properties))
    return;
  writer.next = put_kind (writer.stream, writer.next, TARN_TRACE_OBJECT, writer.time);
  writer.next = put_number (writer.next, object);
  writer.next = put_number (writer.next, class);
  writer.next = put_number (writer.next, upstream);
  writer.next = put_text (writer.next, kind);
  writer.next = put_text (writer.next, name);
  writer.next = put_properties (writer.next, properties, n_properties);
  leave (&writer);
}

/* Records the counters of a pool or heap.  @properties: pairs of TarnTraceProperty and number. */
void
_tarn_record_stats (guint64 object, const guint64 *properties, gsize n_properties)
{
  Writer writer;

  if (!begin (&writer, MAX_EVENT + 20 * n_properties))
    return;
  use (&writer, object);
  writer.next = put_kind (writer.stream, writer.next, TARN_TRACE_STATS, writer.time);
  writer.next = put_properties (writer.next, properties, n_properties);
  leave (&writer);
}
