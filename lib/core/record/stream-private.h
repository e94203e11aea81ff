/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Streams: the events of a recording on their way to the file, in buffers of each thread. */

#ifndef TARN_STREAM_PRIVATE_H
#define TARN_STREAM_PRIVATE_H

#include "record/record-private.h"

#define TARN_RECORD_BUFFER_BYTES ((gsize) 64 << 10)

/* A buffer of events on their way to the file.
 *
 * Invariants: written <= committed <= TARN_RECORD_BUFFER_BYTES.  Only the thread of the stream
 * writes bytes, behind committed.  Only the recorder's thread reads them, before it. */
typedef struct _TarnRecordBuffer TarnRecordBuffer;
struct _TarnRecordBuffer
{
  TarnRecordBuffer *next; /* in the list of full buffers, or of spare ones */
  guint32 stream;
  guint64 time;    /* the time of the event before the first: nanoseconds since the start */
  gsize committed; /* atomic: bytes of whole events */
  gsize written;   /* committed bytes that are in the file; the recorder's thread's */
  gsize n_events;  /* committed */
  gsize n_written; /* about as many of n_events are in the file */
  guchar bytes[TARN_RECORD_BUFFER_BYTES];
};

/* The events of one thread, or of all that have no record, one after the other.  Its own thread
 * writes it inside the door, or with the lock of those; start and stop while the door is closed. */
typedef struct _TarnStream TarnStream;
struct _TarnStream
{
  TarnStream *next;         /* constant: in the list of all, which only grows */
  guint32 number;           /* constant, from 1 on */
  TarnRecordBuffer *buffer; /* atomic; NULL: none */

  /* The state that a reader has at the end of the events, since the buffer's beginning */
  guint64 time;
  guint64 block, address, queue, object, thread;
  guint32 tag;

  guint64 n_lost; /* since the last buffer was full, */
  guint64 lost;   /* and in all, of this recording */
};

/* recorder.c.  The thread is inside the door, or has the lock of others' stream. */

/* Makes a stream, in the list of all. */
TarnStream *_tarn_recorder_add_stream (void);
/* Returns an empty buffer in place of a full one (NULL: there was none).  Returns NULL if all are
 * full. */
TarnRecordBuffer *_tarn_recorder_change_buffer (TarnStream *stream, TarnRecordBuffer *full);
/* Gets the clock's time when recording began. */
guint64 _tarn_recorder_get_start (void);
guint _tarn_recorder_get_stack_depth (void);

/* stream.c */
void _tarn_streams_lock_others (void);
void _tarn_streams_unlock_others (void);

/* Writes of the recorder's own: behind the end of a string of bytes. */
void _tarn_bytes_add_number (GByteArray *bytes, guint64 number);
void _tarn_bytes_add_text (GByteArray *bytes, const gchar *text);

/* stack.c: what is known and not yet in the file, as events. */
void _tarn_stacks_add_new (GByteArray *bytes, gboolean all);
/* tag.c: the same. */
void _tarn_tags_add_new (GByteArray *bytes, gboolean all);

#endif
