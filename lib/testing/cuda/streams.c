/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Streams of the fake CUDA driver.  A stream is a queue of commands.  A command is done as soon as
 * all commands before it are done.  Only the command "work" is done later, when the test finishes
 * it.  There are no kernels.
 *
 * If the program records an event on the legacy default stream, or allocates or frees memory in the
 * order of that stream, the stream first waits for the commands of blocking streams and per-thread
 * default streams.  In turn, if the legacy default stream waits for an event, all blocking streams
 * and per-thread default streams that exist at that time wait for the event, too.  In all other
 * cases, the default streams wait for no other stream.  A call that names a destroyed stream ends
 * the test, because such a call crashes on an H200. */

#include "testing/cuda/fake-private.h"

typedef enum
{
  WORK,   /* work that is done when the test calls finish_work () or finish_all_work () */
  RECORD, /* makes the stream reach a point (Mark) */
  WAIT,   /* makes the stream wait until a point (Mark) is reached */
  DO      /* calls the function of the command */
} Action;

typedef struct
{
  Action action;
  Mark *mark; /* the point that RECORD reaches, or WAIT waits for; owned; NULL for other actions */
  /* the function that DO calls, with the lock held; NULL for other actions */
  void (*function) (gpointer);
  gpointer data; /* the argument of @function; owned, freed by g_free () */
} Command;

/* CU_STREAM_PER_THREAD as a number.  The lower numbers, 0 and 1, are NULL and CU_STREAM_LEGACY. */
#define PER_THREAD 2

/* The lock of the fake driver guards these variables. */
static HandleTable handles = { .base = FAKE_HANDLES (2) };
/* an array of Stream, owned; a destroyed stream stays while it has commands */
static GPtrArray *streams;
static TarnCond reached; /* signalled when a stream reaches a point */

static void
free_command (gpointer data)
{
  Command *command = data;

  fake_mark_unref (command->mark);
  g_free (command->data);
  g_free (command);
}

static void
free_stream (gpointer data)
{
  Stream *stream = data;

  g_queue_clear_full (&stream->commands, free_command);
  g_free (stream);
}

static void __attribute__ ((constructor)) make_streams (void)
{
  streams = g_ptr_array_new_with_free_func (free_stream);
  _tarn_cond_init (&reached);
}

/* Functions that put commands on streams and run them, and note which points streams have reached.
 * The caller of each of these functions holds the lock. */

Mark *
fake_mark_ref (Mark *mark)
{
  mark->references++;
  return mark;
}

void
fake_mark_unref (Mark *mark)
{
  if (mark != NULL && --mark->references == 0)
    g_free (mark);
}

void
fake_mark_wait (Mark *mark)
{
  fake_mark_ref (mark);
  while (!mark->is_reached)
    _tarn_cond_wait (&reached, fake_get_mutex ());
  fake_mark_unref (mark);
}

Mark *
fake_mark_new (void)
{
  Mark *mark = g_new0 (Mark, 1);

  mark->references = 1;
  return mark;
}

static void
reach_mark (Mark *mark)
{
  mark->is_reached = TRUE;
  _tarn_cond_broadcast (&reached);
}

/* Runs a stream's first command, if it can run.  Returns TRUE if the command has run. */
static gboolean
step (Stream *stream)
{
  Command *command = g_queue_peek_head (&stream->commands);

  if (command == NULL || command->action == WORK
      || (command->action == WAIT && !command->mark->is_reached))
    return FALSE;
  if (command->action == RECORD)
    reach_mark (command->mark);
  if (command->action == DO)
    command->function (command->data);
  free_command (g_queue_pop_head (&stream->commands));
  return TRUE;
}

static void
remove_done_orphans (void)
{
  for (guint i = streams->len; i > 0; i--)
    {
      Stream *stream = g_ptr_array_index (streams, i - 1);

      if (stream->handle == NULL && !stream->is_default && g_queue_is_empty (&stream->commands))
        g_ptr_array_remove_index_fast (streams, i - 1);
    }
}

/* Runs the commands that can run now, on all streams.  Repeats until no command can run, because
 * another stream may wait for a command that has just run. */
static void
advance (void)
{
  gboolean is_moving = TRUE;

  while (is_moving)
    {
      is_moving = FALSE;
      for (guint i = 0; i < streams->len; i++)
        while (step (g_ptr_array_index (streams, i)))
          is_moving = TRUE;
    }
  remove_done_orphans ();
}

void
fake_mark_reach (Mark *mark)
{
  reach_mark (mark);
  advance ();
}

static void
put_command (Stream *stream, Command command)
{
  Command *copy = g_new (Command, 1);

  *copy = command;
  g_queue_push_tail (&stream->commands, copy);
  advance ();
}

static void
put (Stream *stream, Action action, Mark *mark)
{
  put_command (stream, (Command){ action, mark != NULL ? fake_mark_ref (mark) : NULL, NULL, NULL });
}

void
fake_stream_do (Stream *stream, void (*function) (gpointer), gpointer data)
{
  put_command (stream, (Command){ DO, NULL, function, data });
}

Mark *
fake_stream_record (Stream *stream)
{
  Mark *mark = fake_mark_new ();

  put (stream, RECORD, mark);
  return mark;
}

void
fake_stream_wait (Stream *stream, Mark *mark)
{
  put (stream, WAIT, mark);
}

/* Functions that make, find and free streams, put "work" commands on them and finish these
 * commands, and make streams wait for each other.  The caller of each of these functions holds the
 * lock. */

static Stream *
make_stream (guint64 context_id)
{
  Stream *stream = g_new0 (Stream, 1);

  g_queue_init (&stream->commands);
  stream->context_id = context_id;
  g_ptr_array_add (streams, stream);
  return stream;
}

/* Returns the calling thread's number, which is never 0 and never reused. */
static guint
get_thread (void)
{
  static guint n_threads;
  static _Thread_local guint number;

  if (number == 0)
    number = ++n_threads;
  return number;
}

static Stream *
get_default_stream (guint64 context_id, guint thread)
{
  Stream *stream;

  for (guint i = 0; i < streams->len; i++)
    {
      stream = g_ptr_array_index (streams, i);
      if (stream->is_default && stream->context_id == context_id && stream->thread == thread)
        return stream;
    }
  stream = make_stream (context_id);
  stream->is_default = TRUE;
  stream->thread = thread;
  return stream;
}

Status
fake_find_stream (const gchar *function, CUstream handle, Stream **stream)
{
  Context *context;
  Status status;

  if ((guintptr) handle <= PER_THREAD)
    {
      status = fake_get_context (&context);
      if (status == FAKE_CUDA_SUCCESS)
        *stream
            = get_default_stream (context->id, (guintptr) handle == PER_THREAD ? get_thread () : 0);
      return status;
    }
  *stream = fake_handle_get (&handles, handle);
  if (*stream == NULL)
    g_error ("%s: %p is no stream, or was destroyed: a driver crashes here", function, handle);
  return FAKE_CUDA_SUCCESS;
}

static void
destroy_stream (Stream *stream)
{
  fake_handle_free (&handles, stream->handle);
  stream->handle = NULL;
  remove_done_orphans ();
}

/* Drops a command of a stream whose context is being destroyed.  If the command records a point in
 * the stream, other streams that wait for this point continue. */
static void
drop_command (Command *command)
{
  if (command->action != RECORD)
    return;
  command->mark->is_dropped = TRUE;
  reach_mark (command->mark);
}

/* Frees the streams of a context that is being destroyed.  Other streams that wait for one of these
 * streams continue. */
void
fake_free_streams_of (guint64 context_id)
{
  for (guint i = streams->len; i > 0; i--)
    {
      Stream *stream = g_ptr_array_index (streams, i - 1);

      if (stream->context_id != context_id)
        continue;
      for (GList *item = stream->commands.head; item != NULL; item = item->next)
        drop_command (item->data);
      if (stream->handle != NULL)
        fake_handle_free (&handles, stream->handle);
      fake_leave_capture (stream);
      g_ptr_array_remove_index_fast (streams, i - 1);
    }
  advance ();
}

guint
fake_count_streams (void)
{
  guint n = 0;

  for (guint i = 0; i < streams->len; i++)
    n += ((Stream *) g_ptr_array_index (streams, i))->handle != NULL;
  return n;
}

void
fake_put_work (CUstream handle)
{
  Stream *stream;

  if (fake_find_stream ("put_work", handle, &stream) != FAKE_CUDA_SUCCESS)
    g_error ("put_work: no context is current");
  put (stream, WORK, NULL);
}

void
fake_finish_work (CUstream handle)
{
  Stream *stream;
  Command *command;

  if (fake_find_stream ("finish_work", handle, &stream) != FAKE_CUDA_SUCCESS)
    g_error ("finish_work: no context is current");
  command = g_queue_peek_head (&stream->commands);
  if (command == NULL || command->action != WORK)
    g_error ("finish_work: stream %p is at no work", handle);
  free_command (g_queue_pop_head (&stream->commands));
  advance ();
}

static void
drop_work (Stream *stream)
{
  GList *next;

  for (GList *item = stream->commands.head; item != NULL; item = next)
    {
      Command *command = item->data;

      next = item->next;
      if (command->action != WORK)
        continue;
      g_queue_delete_link (&stream->commands, item);
      free_command (command);
    }
}

void
fake_finish_all_work (void)
{
  for (guint i = 0; i < streams->len; i++)
    drop_work (g_ptr_array_index (streams, i));
  advance ();
}

gboolean
fake_is_idle (CUstream handle)
{
  Stream *stream;

  if (fake_find_stream ("is_idle", handle, &stream) != FAKE_CUDA_SUCCESS)
    g_error ("is_idle: no context is current");
  return g_queue_is_empty (&stream->commands);
}

/* Makes a stream wait for the commands that are now on the other streams of its context.  If
 * @are_blocking is TRUE, waits only for the commands of blocking streams and default streams. */
static void
wait_for_others (Stream *self, gboolean are_blocking)
{
  for (guint i = 0; i < streams->len; i++)
    {
      Stream *stream = g_ptr_array_index (streams, i);
      Mark *mark;

      if (stream == self || stream->context_id != self->context_id
          || g_queue_is_empty (&stream->commands)
          || (are_blocking && !stream->is_blocking && !stream->is_default))
        continue;
      mark = fake_stream_record (stream);
      put (self, WAIT, mark);
      fake_mark_unref (mark);
    }
}

void
fake_wait_for_blocking (Stream *legacy)
{
  wait_for_others (legacy, TRUE);
}

void
fake_let_blocking_wait (const Stream *legacy, Mark *mark)
{
  for (guint i = 0; i < streams->len; i++)
    {
      Stream *stream = g_ptr_array_index (streams, i);

      if (stream != legacy && stream->context_id == legacy->context_id
          && (stream->is_blocking || stream->is_default))
        put (stream, WAIT, mark);
    }
}

/* Returns a point that is reached when all present commands of a context's streams are done.  The
 * point is on a new stream without a handle, which waits for each of these streams. */
Mark *
fake_context_record (guint64 context_id)
{
  Stream *all = make_stream (context_id);

  put (all, WORK, NULL); /* puts a command on the new stream: an empty stream would be freed */
  wait_for_others (all, FALSE);
  free_command (g_queue_pop_head (&all->commands));
  return fake_stream_record (all);
}

void
fake_wait_for_context (guint64 context_id)
{
  Mark *mark = fake_context_record (context_id);

  fake_mark_wait (mark);
  fake_mark_unref (mark);
}

/* Functions of CUDA's driver API, which the program calls */

#define NON_BLOCKING 1 /* CU_STREAM_NON_BLOCKING */

Status
cuStreamCreate (CUstream *handle, unsigned int flags)
{
  Context *context;
  Stream *stream;
  Status status;
  ENTER (cuStreamCreate);
  LOCKED;
  REQUIRE (handle != NULL && flags <= NON_BLOCKING, FAKE_CUDA_INVALID_VALUE);

  status = fake_get_context (&context);
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  stream = make_stream (context->id);
  stream->is_blocking = flags != NON_BLOCKING;
  *handle = stream->handle = fake_handle_new (&handles, stream);
  return FAKE_CUDA_SUCCESS;
}

Status
cuStreamDestroy_v2 (CUstream handle)
{
  Stream *stream;
  ENTER (cuStreamDestroy);
  LOCKED;
  REQUIRE ((guintptr) handle > 2, FAKE_CUDA_INVALID_HANDLE);

  fake_find_stream ("cuStreamDestroy", handle, &stream);
  if (fake_get_capture (stream) != NULL)
    g_error ("cuStreamDestroy: stream %p is captured: a driver may crash here", handle);
  destroy_stream (stream);
  return FAKE_CUDA_SUCCESS;
}

Status
cuStreamSynchronize (CUstream handle)
{
  Stream *stream;
  Mark *mark;
  Status status;
  ENTER (cuStreamSynchronize);
  LOCKED;

  status = fake_find_stream ("cuStreamSynchronize", handle, &stream);
  if (status == FAKE_CUDA_SUCCESS)
    status = fake_check_legacy (stream);
  if (status == FAKE_CUDA_SUCCESS)
    status = fake_end_captures ();
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  mark = fake_stream_record (stream);
  fake_mark_wait (mark);
  fake_mark_unref (mark);
  return FAKE_CUDA_SUCCESS;
}

Status
cuStreamQuery (CUstream handle)
{
  Stream *stream;
  Status status;
  ENTER (cuStreamQuery);
  LOCKED;

  status = fake_find_stream ("cuStreamQuery", handle, &stream);
  if (status == FAKE_CUDA_SUCCESS)
    status = fake_check_legacy (stream);
  if (status == FAKE_CUDA_SUCCESS)
    status = fake_end_captures ();
  REQUIRE (status == FAKE_CUDA_SUCCESS, status);
  return g_queue_is_empty (&stream->commands) ? FAKE_CUDA_SUCCESS : FAKE_CUDA_NOT_READY;
}

Status
cuStreamGetCtx (CUstream handle, CUcontext *context)
{
  Stream *stream;
  Status status;
  ENTER (cuStreamGetCtx);
  LOCKED;
  REQUIRE (context != NULL, FAKE_CUDA_INVALID_VALUE);

  status = fake_find_stream ("cuStreamGetCtx", handle, &stream);
  if (status == FAKE_CUDA_SUCCESS)
    *context = fake_find_context (stream->context_id)->handle;
  return status;
}
