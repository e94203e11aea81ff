/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The recorder: functions that start and stop a recording, the buffers of events, and the thread
 * that writes the buffers to the file. */

#define _GNU_SOURCE 1

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <tarn/error.h>
#include <unistd.h>

#include "base/clock-private.h"
#include "base/fork-private.h"
#include "base/message-private.h"
#include "common/shorten-private.h"
#include "common/whole-private.h"
#include "record/stream-private.h"

/* The longest time between two writes to the file, in microseconds.  If the program is killed, only
 * the events since the last write are lost. */
#define WRITE_TIME (100 * G_TIME_SPAN_MILLISECOND)

G_STATIC_ASSERT (sizeof (off_t) == sizeof (gint64)); /* for recordings of more than 2 GiB */

TarnDoor _tarn_record_door = TARN_DOOR_CLOSED;

/* The state of the recorder.  The mutex "lock" guards the fields, except fields that are constant
 * while a recording is active.  Invariant: n_buffers buffers exist, and each of them is in the list
 * spare, in the list full, in a stream, or being written to the file by the recorder's thread. */
static struct
{
  /* start: the time at which the recording began.  stack_depth: the largest number of frames of a
   * recorded call stack.  Both fields are atomic, because a thread may read them while one
   * recording ends and another begins. */
  guint64 start TARN_WHOLE;
  guint stack_depth;

  /* The file's descriptor; -1 if no file is open.  To close the file, a child of fork () reads this
   * field without the lock. */
  gint file;
  gchar *path;
  GThread *thread; /* the recorder's thread; NULL if no recording is active */

  gsize n_buffers, max_buffers;
  TarnRecordBuffer *spare;            /* a list of empty buffers */
  TarnRecordBuffer *full, **full_end; /* a list of full buffers; its head became full first */
  TarnStream *streams;                /* all streams, the newest first */
  guint n_streams;
  gboolean is_ending;

  /* The errno value of the write that failed; 0 if no write has failed.  Only the recorder's thread
   * uses this field while it runs. */
  gint failure;

  /* Atomic: the numbers of events in the file, of events that could not be written, and of bytes
   * in the file. */
  guint64 n_written TARN_WHOLE, n_failed TARN_WHOLE, written_bytes TARN_WHOLE;
} recorder = { .file = -1 };

static TarnMutex lock = TARN_MUTEX_INIT;
/* Signalled when a buffer is full, or when the recorder's thread has to end. */
static TarnCond changed = TARN_COND_INIT;

/* Atomic: the function that _tarn_record_stop () calls just before it ends a recording. */
static void (*last_words) (void);

/* A lock that a thread holds while it starts or stops a recording, so that other threads wait.  The
 * thread takes this lock before any other lock. */
static TarnMutex session_lock = TARN_MUTEX_INIT;

guint64
_tarn_recorder_get_start (void)
{
  return __atomic_load_n (&recorder.start, __ATOMIC_RELAXED);
}

guint
_tarn_recorder_get_stack_depth (void)
{
  return __atomic_load_n (&recorder.stack_depth, __ATOMIC_RELAXED);
}

/* Functions that make streams, and exchange full buffers for empty buffers */

TarnStream *
_tarn_recorder_add_stream (void)
{
  TarnStream *stream = g_new0 (TarnStream, 1);

  _tarn_mutex_lock (&lock);
  stream->number = ++recorder.n_streams;
  stream->next = recorder.streams;
  recorder.streams = stream;
  _tarn_mutex_unlock (&lock);
  return stream;
}

static void
push_full (TarnRecordBuffer *buffer)
{
  _tarn_assert_locked (&lock);
  buffer->next = NULL;
  *recorder.full_end = buffer;
  recorder.full_end = &buffer->next;
}

/* Returns an empty buffer, a new one if necessary.  Returns NULL if the recorder already has
 * max_buffers buffers, or if there is no memory for a new buffer. */
static TarnRecordBuffer *
take_buffer (void)
{
  TarnRecordBuffer *buffer = recorder.spare;

  _tarn_assert_locked (&lock);
  if (buffer != NULL)
    recorder.spare = buffer->next;
  else if (recorder.n_buffers < recorder.max_buffers && (buffer = malloc (sizeof *buffer)) != NULL)
    recorder.n_buffers++;
  if (buffer == NULL)
    return NULL;
  buffer->committed = buffer->written = buffer->n_events = buffer->n_written = 0;
  return buffer;
}

TarnRecordBuffer *
_tarn_recorder_change_buffer (TarnStream *stream, TarnRecordBuffer *full)
{
  TarnRecordBuffer *buffer;

  _tarn_mutex_lock (&lock);
  if (full != NULL)
    {
      push_full (full);
      _tarn_cond_broadcast (&changed);
    }
  buffer = take_buffer ();
  stream->buffer = buffer;
  _tarn_mutex_unlock (&lock);
  return buffer;
}

/* Functions that write to the recording's file */

gssize
_tarn_record_write (gint file, gconstpointer bytes, gsize size)
{
  const struct timespec none = { 0, 0 };
  sigset_t broken, pending, before;
  gboolean is_mine;
  gssize n;
  gint code;

  sigemptyset (&broken);
  sigaddset (&broken, SIGPIPE);
  is_mine = sigpending (&pending) == 0 && !sigismember (&pending, SIGPIPE);
  pthread_sigmask (SIG_BLOCK, &broken, &before);
  n = write (file, bytes, size);
  code = errno;
  /* The kernel can send SIGPIPE even if write () has written some of the bytes. */
  if (n < (gssize) size && is_mine)
    while (sigtimedwait (&broken, NULL, &none) < 0 && errno == EINTR)
      ;
  pthread_sigmask (SIG_SETMASK, &before, NULL);
  errno = code;
  return n;
}

/* Writes bytes to the file.  Returns FALSE if this write or an earlier write of the recording has
 * failed. */
static gboolean
write_all (gconstpointer bytes, gsize size)
{
  const guchar *rest = bytes;

  while (size > 0 && recorder.failure == 0)
    {
      gssize n = _tarn_record_write (recorder.file, rest, size);

      if (n < 0 && errno != EINTR && errno != EAGAIN)
        recorder.failure = errno;
      if (n > 0)
        {
          rest += n;
          size -= (gsize) n;
        }
    }
  return recorder.failure == 0;
}

static gboolean
write_packet (guint32 stream, guint32 flags, guint64 time, gconstpointer bytes, gsize size)
{
  TarnTracePacket packet = { .magic = GUINT32_TO_LE (TARN_TRACE_PACKET_MAGIC),
                             .size = GUINT32_TO_LE ((guint32) size),
                             .stream = GUINT32_TO_LE (stream),
                             .flags = GUINT32_TO_LE (flags),
                             .time = GUINT64_TO_LE (time) };

  if (!write_all (&packet, sizeof packet) || !write_all (bytes, size))
    return FALSE;
  __atomic_fetch_add (&recorder.written_bytes, sizeof packet + size, __ATOMIC_RELAXED);
  return TRUE;
}

/* Writes to the file the finished events in a recording buffer that are not in the file yet. */
static void
write_buffer (TarnRecordBuffer *buffer)
{
  gsize committed = __atomic_load_n (&buffer->committed, __ATOMIC_ACQUIRE);
  gsize n_events = __atomic_load_n (&buffer->n_events, __ATOMIC_RELAXED);
  gboolean is_first = buffer->written == 0;

  if (committed == buffer->written)
    return;
  if (write_packet (buffer->stream, is_first ? TARN_TRACE_FIRST : 0, is_first ? buffer->time : 0,
                    buffer->bytes + buffer->written, committed - buffer->written))
    __atomic_fetch_add (&recorder.n_written, n_events - buffer->n_written, __ATOMIC_RELAXED);
  else
    __atomic_fetch_add (&recorder.n_failed, n_events - buffer->n_written, __ATOMIC_RELAXED);
  buffer->written = committed;
  buffer->n_written = n_events;
}

/* Writes the tags and call stacks that are not in the file yet, or all of them if @all is TRUE.  An
 * event has only the number of a tag or stack.  In the file, the tag's text and the stack's
 * addresses usually come before the first event with their number. */
static void
write_definitions (gboolean all)
{
  g_autoptr (GByteArray) bytes = g_byte_array_new ();

  _tarn_tags_add_new (bytes, all);
  _tarn_stacks_add_new (bytes, all);
  if (bytes->len > 0)
    write_packet (0, TARN_TRACE_FIRST, 0, bytes->data, bytes->len);
}

/* Waits until a buffer is full, until WRITE_TIME has passed, or until the recorder's thread has to
 * end.  Returns TRUE if the thread has to end. */
static gboolean
await_work (void)
{
  gint64 end_time = g_get_monotonic_time () + WRITE_TIME;

  _tarn_assert_locked (&lock);
  while (recorder.full == NULL && !recorder.is_ending)
    if (!_tarn_cond_wait_until (&changed, &lock, end_time))
      break;
  return recorder.is_ending;
}

/* Takes the list of full buffers from the recorder and returns it.  Adds to @unfinished the buffers
 * that threads are still filling.  The caller writes the full buffers to the file first, because
 * their events are older. */
static TarnRecordBuffer *
take_work (GPtrArray *unfinished)
{
  TarnRecordBuffer *full = recorder.full;

  _tarn_assert_locked (&lock);
  recorder.full = NULL;
  recorder.full_end = &recorder.full;
  for (const TarnStream *stream = recorder.streams; stream != NULL; stream = stream->next)
    if (stream->buffer != NULL)
      g_ptr_array_add (unfinished, stream->buffer);
  return full;
}

static void
write_work (TarnRecordBuffer *full, const GPtrArray *unfinished)
{
  write_definitions (FALSE);
  while (full != NULL)
    {
      TarnRecordBuffer *buffer = full;

      full = buffer->next;
      write_buffer (buffer);
      _tarn_mutex_lock (&lock);
      buffer->next = recorder.spare;
      recorder.spare = buffer;
      _tarn_mutex_unlock (&lock);
    }
  for (guint i = 0; i < unfinished->len; i++)
    write_buffer (g_ptr_array_index (unfinished, i));
}

static gpointer
run (gpointer data)
{
  g_autoptr (GPtrArray) unfinished = g_ptr_array_new ();
  gboolean is_ending;

  (void) data;
  write_definitions (TRUE);
  do
    {
      TarnRecordBuffer *full;

      g_ptr_array_set_size (unfinished, 0);
      _tarn_mutex_lock (&lock);
      is_ending = await_work ();
      full = take_work (unfinished);
      _tarn_mutex_unlock (&lock);
      write_work (full, unfinished);
    }
  while (!is_ending);
  return NULL;
}

/* Functions that start a recording */

gboolean
_tarn_record_set_error (GError **error, const gchar *path)
{
  gint code = errno;
  g_autofree gchar *quoted = _tarn_shorten_path (path);

  g_set_error (error, G_FILE_ERROR, (gint) g_file_error_from_errno (code), "%s: %s", quoted,
               g_strerror (code));
  return FALSE;
}

/* Locks the recording's file for this process.  Does nothing if the file is not a regular file,
 * because processes may share devices such as /dev/null.  Returns FALSE if another process has
 * locked the file. */
static gboolean
lock_file (gint file)
{
  struct stat info;

  if (fstat (file, &info) != 0 || !S_ISREG (info.st_mode))
    return TRUE;
  return flock (file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

/* Unlocks and closes the file.  Returns FALSE with errno set if it could not be closed.
 *
 * A child of fork () closes the file whose number is in recorder.file.  So this function clears the
 * field before the close, because another file may get the number afterwards.  If another thread
 * calls fork () meanwhile, the child may keep the file open, but the file is unlocked. */
static gboolean
close_file (void)
{
  gint file = recorder.file;

  flock (file, LOCK_UN);
  recorder.file = -1;
  return close (file) == 0;
}

/* Opens the file and makes it empty.  Fails if another process records to the file.  Only the user
 * can read a new file, because its events show what the program does.  Fails if @path is a symbolic
 * link: in a folder such as /tmp, another user may have made the link to one of this user's own
 * files, which would be overwritten. */
static gboolean
open_file (const gchar *path, GError **error)
{
  g_autofree gchar *quoted = _tarn_shorten_path (path);

  recorder.file = open (path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (recorder.file < 0)
    return _tarn_record_set_error (error, path);
  if (!lock_file (recorder.file))
    g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                 "%s: another process records to this file", quoted);
  else if (ftruncate (recorder.file, 0) != 0 && errno != EINVAL) /* EINVAL: @path is a pipe */
    _tarn_record_set_error (error, path);
  else
    return TRUE;
  close_file ();
  return FALSE;
}

static gboolean
write_header (GError **error)
{
  guint64 real = (guint64) g_get_real_time () * 1000;
  guint64 start = _tarn_record_get_time ();
  TarnTraceHeader header = { .magic = { 'T', 'A', 'R', 'N', 'T', 'R', 'C', '1' },
                             .header_size = GUINT32_TO_LE ((guint32) sizeof header),
                             .pid = GUINT32_TO_LE ((guint32) getpid ()),
                             .real_time = GUINT64_TO_LE (real),
                             .start = GUINT64_TO_LE (start) };

  __atomic_store_n (&recorder.start, start, __ATOMIC_RELAXED);
  recorder.failure = 0;
  if (write_all (&header, sizeof header))
    return TRUE;
  errno = recorder.failure;
  return _tarn_record_set_error (error, recorder.path);
}

/* Stops the recording when the process exits.  Logs write errors and the number of lost events,
 * because the program can no longer ask for them. */
static void
stop_at_exit (void)
{
  g_autoptr (GError) error = NULL;
  TarnTraceStats stats;

  if (_tarn_forked () || !_tarn_records ())
    return;
  if (!_tarn_record_stop (&error))
    g_message ("recording: %s", error->message);
  _tarn_record_get_stats (&stats);
  if (stats.lost_events > 0)
    g_message ("recording: %s: %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " events were lost",
               recorder.path, stats.lost_events, stats.lost_events + stats.events);
}

/* Closes the file in a child of fork ().  The file stays locked as long as the parent or the child
 * has it open.  If the child did not close it, other processes could not record to the file even
 * after the parent has ended.  Checks recorder.file, not recorder.thread: while the parent begins a
 * recording, the file is open before there is a thread. */
static void
close_in_child (void)
{
  if (recorder.file >= 0)
    close (recorder.file);
  /* A child of this child must not close the descriptor again: by then, another file may have the
   * same descriptor. */
  recorder.file = -1;
}

static void
watch_process (void)
{
  atexit (stop_at_exit);
  if (pthread_atfork (NULL, NULL, close_in_child) != 0)
    _tarn_message ("pthread_atfork failed: a child of fork () may keep a recording's file locked");
}

static gboolean
start (const gchar *path, const TarnTraceOptions *options, GError **error)
{
  static TarnOnce process_once = TARN_ONCE_INIT;

  _tarn_assert_locked (&session_lock);
  if (recorder.thread != NULL)
    {
      g_autofree gchar *quoted = _tarn_shorten_path (path);
      g_autofree gchar *other = _tarn_shorten_path (recorder.path);

      g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                   "%s: events are being recorded already, to %s", quoted, other);
      return FALSE;
    }
  _tarn_once (&process_once, watch_process);
  if (!open_file (path, error))
    return FALSE;
  g_free (recorder.path);
  recorder.path = g_strdup (path);
  __atomic_store_n (&recorder.stack_depth, options->stack_depth, __ATOMIC_RELAXED);
  recorder.max_buffers = MAX (options->buffer_bytes / sizeof (TarnRecordBuffer), 4);
  recorder.full_end = &recorder.full;
  recorder.is_ending = FALSE;
  recorder.n_written = recorder.n_failed = recorder.written_bytes = 0;
  for (TarnStream *stream = recorder.streams; stream != NULL; stream = stream->next)
    stream->n_lost = stream->lost = 0;
  if (write_header (error))
    recorder.thread = _tarn_own_thread_new ("tarn-recorder", run, NULL, error);
  if (recorder.thread == NULL)
    {
      close_file ();
      return FALSE;
    }
  _tarn_clock_set_recorder (_tarn_record_get_step_time);
  _tarn_door_open (&_tarn_record_door);
  return TRUE;
}

static gboolean
fork_error (GError **error)
{
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_FORKED,
                       "a child of fork () does not record what its parent began");
  return FALSE;
}

/* Begins to record to a file. */
gboolean
_tarn_record_start (const gchar *path, const TarnTraceOptions *options, GError **error)
{
  gboolean is_started;

  if (_tarn_forked ())
    return fork_error (error);
  _tarn_watch_fork ();
  _tarn_messages_hold ();
  _tarn_mutex_lock (&session_lock);
  is_started = start (path, options, error);
  _tarn_mutex_unlock (&session_lock);
  _tarn_messages_release ();
  return is_started;
}

/* Functions that stop a recording */

/* Makes the recorder's thread write the last buffer of each thread's stream to the file, and then
 * end.  Call this after closing the recorder's readers-writer lock, so that no thread fills a
 * buffer any more. */
static void
end_streams (void)
{
  _tarn_mutex_lock (&lock);
  for (TarnStream *stream = recorder.streams; stream != NULL; stream = stream->next)
    if (stream->buffer != NULL)
      {
        push_full (stream->buffer);
        stream->buffer = NULL;
      }
  recorder.is_ending = TRUE;
  _tarn_cond_broadcast (&changed);
  _tarn_mutex_unlock (&lock);
}

/* Writes the last events to the file.  If a stream has lost events that it has not reported yet,
 * writes an event with their number.  Then writes the event that ends the recording. */
static void
write_end (void)
{
  guint64 time = _tarn_record_get_time () - recorder.start;
  const guchar lost[2] = { TARN_TRACE_LOST, 0 };
  guchar stop[2] = { TARN_TRACE_STOP, 0 };

  for (const TarnStream *stream = recorder.streams; stream != NULL; stream = stream->next)
    if (stream->n_lost > 0)
      {
        g_autoptr (GByteArray) bytes = g_byte_array_new ();

        g_byte_array_append (bytes, lost, sizeof lost);
        _tarn_bytes_add_number (bytes, stream->n_lost);
        write_packet (stream->number, TARN_TRACE_FIRST, time, bytes->data, bytes->len);
      }
  write_packet (0, TARN_TRACE_FIRST, time, stop, sizeof stop);
}

void
_tarn_record_set_last_words (void (*func) (void))
{
  __atomic_store_n (&last_words, func, __ATOMIC_RELEASE);
}

static gboolean
stop (GError **error)
{
  TarnRecordBuffer *buffer;

  _tarn_assert_locked (&session_lock);
  if (recorder.thread == NULL)
    {
      g_set_error_literal (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                           "nothing is being recorded");
      return FALSE;
    }
  _tarn_mutex_lock (&_tarn_stream_others_lock);
  _tarn_door_close (&_tarn_record_door);
  _tarn_mutex_unlock (&_tarn_stream_others_lock);
  _tarn_clock_set_recorder (NULL);
  end_streams ();
  g_thread_join (recorder.thread);
  recorder.thread = NULL;
  write_end ();
  if (!close_file () && recorder.failure == 0)
    recorder.failure = errno;
  while ((buffer = recorder.spare) != NULL)
    {
      recorder.spare = buffer->next;
      free (buffer);
      recorder.n_buffers--;
    }
  g_assert (recorder.n_buffers == 0);
  if (recorder.failure == 0)
    return TRUE;
  errno = recorder.failure;
  _tarn_record_set_error (error, recorder.path);
  g_prefix_error (error, "%" G_GUINT64_FORMAT " events were not written: ", recorder.n_failed);
  return FALSE;
}

/* Ends the active recording.  Returns after all events have been written to the file.  Returns
 * FALSE with an error if no recording is active, or if some events could not be written. */
gboolean
_tarn_record_stop (GError **error)
{
  gboolean is_stopped;
  void (*func) (void) = __atomic_load_n (&last_words, __ATOMIC_ACQUIRE);

  if (_tarn_forked ())
    return fork_error (error);
  if (func != NULL && _tarn_records ())
    func ();
  _tarn_mutex_lock (&session_lock);
  is_stopped = stop (error);
  _tarn_mutex_unlock (&session_lock);
  return is_stopped;
}

/* Gets the counters of the active recording, or of the last recording if none is active. */
void
_tarn_record_get_stats (TarnTraceStats *stats)
{
  _tarn_mutex_lock (&lock);
  stats->events = __atomic_load_n (&recorder.n_written, __ATOMIC_RELAXED);
  stats->lost_events = __atomic_load_n (&recorder.n_failed, __ATOMIC_RELAXED);
  stats->written_bytes = __atomic_load_n (&recorder.written_bytes, __ATOMIC_RELAXED);
  for (const TarnStream *stream = recorder.streams; stream != NULL; stream = stream->next)
    stats->lost_events += __atomic_load_n (&stream->lost, __ATOMIC_RELAXED);
  _tarn_mutex_unlock (&lock);
}
