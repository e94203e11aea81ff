/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Streams of recorded events (not CUDA streams).  Each thread has a stream, and writes its events
 * into the stream's buffer.  The recorder's thread writes the buffers to the file. */

#ifndef TARN_STREAM_PRIVATE_H
#define TARN_STREAM_PRIVATE_H

#include "record/record-private.h"

#define TARN_RECORD_BUFFER_BYTES ((gsize) 64 << 10)

/* A buffer of events, which the recorder's thread writes to the file.
 *
 * Invariants: written <= committed <= TARN_RECORD_BUFFER_BYTES.  Only the thread that owns the
 * stream writes to the array "bytes", at offsets from committed on.  Only the recorder's thread
 * reads this array, at offsets below committed. */
typedef struct _TarnRecordBuffer TarnRecordBuffer;
struct _TarnRecordBuffer
{
  TarnRecordBuffer *next; /* the next buffer in the list of full buffers or of empty buffers */
  guint32 stream;         /* the number of the stream whose events are in the buffer */
  /* The time when the buffer got its first event, in nanoseconds since the recording began. */
  guint64 time;
  gsize committed; /* atomic; the number of bytes of the events in the buffer that are complete */
  /* The number of bytes that are in the file.  Only the recorder's thread uses this field. */
  gsize written;
  gsize n_events; /* the number of events in the buffer that are complete */
  /* The number of events that are in the file.  May already count a few events that the next write
   * adds to the file. */
  gsize n_written;
  guchar bytes[TARN_RECORD_BUFFER_BYTES];
};

/* A stream of recorded events: the events of one thread.  Threads that have no TarnThread struct
 * (base/thread-private.h) share one stream, and take the lock of this stream before they use it.
 * Any other thread changes its stream only in a read section of the recorder.  The functions that
 * start and stop a recording change all streams while no thread is in such a read section. */
typedef struct _TarnStream TarnStream;
struct _TarnStream
{
  TarnStream *next; /* constant: the next stream in the list of all streams */
  guint32 number;   /* constant: the stream's number; the first stream has 1 */
  /* The buffer that the thread fills; NULL if there is none.  A thread changes this field only
   * while it holds the lock of recorder.c. */
  TarnRecordBuffer *buffer;

  /* The latest values in the buffer.  An event stores the difference from the latest value, or
   * omits a value that has not changed.  At the beginning of a buffer, all values except time are
   * 0. */
  guint64 time;
  guint64 block, address, queue, object, thread;
  guint32 tag;

  guint64 n_lost; /* number of lost events that the stream has not reported yet */
  guint64 lost;   /* atomic: number of events that the stream has lost in this recording */
};

/* Functions of recorder.c.  A caller of _tarn_recorder_add_stream () or
 * _tarn_recorder_change_buffer () is in a read section of the recorder, or holds the lock of the
 * stream that several threads share. */

/* Makes a stream, and adds it to the list of all streams. */
TarnStream *_tarn_recorder_add_stream (void);
/* Passes a stream's full buffer @full to the recorder's thread, and gives the stream an empty
 * buffer.  @full is NULL if the stream has no buffer.  Returns the empty buffer, or NULL if there
 * is none. */
TarnRecordBuffer *_tarn_recorder_change_buffer (TarnStream *stream, TarnRecordBuffer *full);
/* Returns the time when the recording began, on the clock of _tarn_record_get_time (). */
guint64 _tarn_recorder_get_start (void);
guint _tarn_recorder_get_stack_depth (void);

/* Functions of stream.c */

/* The lock of the stream that all threads without a TarnThread struct share.  A thread has no
 * TarnThread before it first calls a function of Tarn that registers the thread, and while the
 * thread is ending. */
extern TarnMutex _tarn_stream_others_lock __attribute__ ((visibility ("hidden")));

/* Functions that append a number or a text to @bytes, in the format of events.  The recorder's
 * thread uses them for events that it writes itself. */
void _tarn_bytes_add_number (GByteArray *bytes, guint64 number);
void _tarn_bytes_add_text (GByteArray *bytes, const gchar *text);

/* stack.c: adds to @bytes the events that define the call stacks which are not in the file yet, or
 * all call stacks if @all is TRUE. */
void _tarn_stacks_add_new (GByteArray *bytes, gboolean all);
/* tag.c: adds to @bytes the events that define the tags which are not in the file yet, or all tags
 * if @all is TRUE. */
void _tarn_tags_add_new (GByteArray *bytes, gboolean all);

#endif
