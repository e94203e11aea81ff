/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Streams: each thread has a stream of events.  Their buffers hold the events until the recorder's
 * thread has written them to the file. */

#ifndef TARN_STREAM_PRIVATE_H
#define TARN_STREAM_PRIVATE_H

#include "record/record-private.h"

#define TARN_RECORD_BUFFER_BYTES ((gsize) 64 << 10)

/* A buffer of events that are not in the file yet.
 *
 * Invariants: written <= committed <= TARN_RECORD_BUFFER_BYTES.  Only the stream's own thread
 * changes bytes, from the offset committed on.  Only the recorder's thread reads bytes, and only
 * those before that offset. */
typedef struct _TarnRecordBuffer TarnRecordBuffer;
struct _TarnRecordBuffer
{
  TarnRecordBuffer *next; /* in the list of full buffers, or of spare buffers */
  guint32 stream;         /* the number of the stream */
  guint64 time;    /* the time before the first event, in nanoseconds since recording began */
  gsize committed; /* atomic: number of bytes that are whole events */
  gsize written;   /* number of these that are in the file; only the recorder's thread uses it */
  gsize n_events;  /* number of committed events */
  gsize n_written; /* about how many of these are in the file */
  guchar bytes[TARN_RECORD_BUFFER_BYTES];
};

/* The events of one thread.  Threads without a TarnThread share a stream, which has a lock.  The
 * stream's own thread changes the struct inside the door, or threads do with that lock.  Recording
 * starts and stops while the door is closed, and changes the struct then. */
typedef struct _TarnStream TarnStream;
struct _TarnStream
{
  TarnStream *next;         /* constant: in the list of all streams, which only grows */
  guint32 number;           /* constant, from 1 on */
  TarnRecordBuffer *buffer; /* atomic; NULL: none */

  /* Events say only what differs from the events before them in the buffer.  These are the values
   * that a reader of the buffer knows after the last event. */
  guint64 time;
  guint64 block, address, queue, object, thread;
  guint32 tag;

  guint64 n_lost; /* events lost since the last buffer became full */
  guint64 lost;   /* events lost in this recording */
};

/* recorder.c.  The caller is inside the door, or holds the lock of the shared stream. */

/* Makes a stream, and adds it to the list of all streams. */
TarnStream *_tarn_recorder_add_stream (void);
/* Takes a stream's full buffer (NULL: it has none), and returns an empty one.  Returns NULL if
 * there is no empty buffer. */
TarnRecordBuffer *_tarn_recorder_change_buffer (TarnStream *stream, TarnRecordBuffer *full);
/* Gets the clock's time when recording began. */
guint64 _tarn_recorder_get_start (void);
guint _tarn_recorder_get_stack_depth (void);

/* stream.c */
void _tarn_streams_lock_others (void);
void _tarn_streams_unlock_others (void);

/* For the recorder's own events: these add a number or a text to the end of @bytes. */
void _tarn_bytes_add_number (GByteArray *bytes, guint64 number);
void _tarn_bytes_add_text (GByteArray *bytes, const gchar *text);

/* stack.c: adds events for the stacks that are not in the file yet. */
void _tarn_stacks_add_new (GByteArray *bytes, gboolean all);
/* tag.c: adds events for the tags that are not in the file yet. */
void _tarn_tags_add_new (GByteArray *bytes, gboolean all);

#endif
