/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Streams.  Each thread has a stream, and writes its events into the stream's buffer.  The
 * recorder's thread writes the buffers to the file. */

#ifndef TARN_STREAM_PRIVATE_H
#define TARN_STREAM_PRIVATE_H

#include "record/record-private.h"

#define TARN_RECORD_BUFFER_BYTES ((gsize) 64 << 10)

/* A buffer of events that the recorder's thread has still to write to the file.
 *
 * Invariants: written <= committed <= TARN_RECORD_BUFFER_BYTES.  Only the thread that the stream
 * belongs to writes to the array bytes, at offsets from committed on.  Only the recorder's thread
 * reads the array, at offsets below committed. */
typedef struct _TarnRecordBuffer TarnRecordBuffer;
struct _TarnRecordBuffer
{
  TarnRecordBuffer *next; /* the next buffer in the list of full buffers, or of empty ones */
  guint32 stream;         /* the number of the stream */
  guint64 time;    /* time when the buffer was begun, in nanoseconds since the recording began */
  gsize committed; /* atomic: bytes of complete events */
  gsize written;   /* the bytes that are in the file; only the recorder's thread uses the field */
  gsize n_events;  /* number of complete events */
  gsize n_written; /* number of events that are in the file; it may be wrong by a few */
  guchar bytes[TARN_RECORD_BUFFER_BYTES];
};

/* The stream of events of one thread.  Threads that have no TarnThread struct
 * (base/thread-private.h) share one stream, and take the lock of the shared stream before they use
 * it.  A thread changes its own stream only inside the recorder's door.  The functions that start
 * and stop a recording change all streams while the door is closed. */
typedef struct _TarnStream TarnStream;
struct _TarnStream
{
  TarnStream *next;         /* constant: the next stream in the list of all, which only grows */
  guint32 number;           /* constant; streams count from 1 */
  TarnRecordBuffer *buffer; /* changed only with recorder.c's lock held; NULL: none */

  /* An event stores only those values that differ from the values of the events before it in the
   * buffer.  Each of these fields has the latest such value in the buffer, or 0. */
  guint64 time;
  guint64 block, address, queue, object, thread;
  guint32 tag;

  guint64 n_lost; /* number of lost events that no event in the stream reports yet */
  guint64 lost;   /* atomic: number of all events lost in this recording */
};

/* recorder.c.  The caller of the first three functions is inside the recorder's door, or holds the
 * lock of the shared stream. */

/* Makes a stream, and adds it to the list of all streams. */
TarnStream *_tarn_recorder_add_stream (void);
/* Passes a stream's full buffer (NULL: the stream has none) to the recorder's thread, and gives the
 * stream an empty buffer.  Returns that buffer, or NULL if there is no empty buffer. */
TarnRecordBuffer *_tarn_recorder_change_buffer (TarnStream *stream, TarnRecordBuffer *full);
/* Returns the time when the recording began, as _tarn_record_get_time () counts. */
guint64 _tarn_recorder_get_start (void);
guint _tarn_recorder_get_stack_depth (void);

/* stream.c */
void _tarn_streams_lock_others (void);
void _tarn_streams_unlock_others (void);

/* These functions append a number or a text to @bytes, in which the recorder builds events of its
 * own. */
void _tarn_bytes_add_number (GByteArray *bytes, guint64 number);
void _tarn_bytes_add_text (GByteArray *bytes, const gchar *text);

/* stack.c: appends events that define the stacks that are not in the file yet; all stacks if @all.
 */
void _tarn_stacks_add_new (GByteArray *bytes, gboolean all);
/* tag.c: appends events that define the tags that are not in the file yet; all tags if @all. */
void _tarn_tags_add_new (GByteArray *bytes, gboolean all);

#endif
