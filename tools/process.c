/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Runs a process with sources in the default main loop: for its two pipes, its end and its next
 * deadline.  The run is over when the process exits, reaches a deadline, or has printed too much.
 * Then the rest of its process group is killed, because a child that still holds the pipes would
 * keep the tool waiting. */

#include "process.h"

#include <errno.h>
#include <glib-unix.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

/* Seconds between SIGTERM and SIGKILL, and between SIGKILL and PROCESS_STUCK. */
#define GRACE 2
#define PATIENCE 5

/* The reading end of standard output or standard error.
 *
 * Invariant: source is 0 exactly if fd is -1. */
typedef struct
{
  Process *process;
  gint fd; /* -1 if the pipe is closed */
  guint source;
  gsize n_bytes;
  gsize n_lines;
  gboolean is_error;
} Pipe;

/* A process that runs, or whose end is being handled. */
struct _Process
{
  ProcessFuncs funcs;
  gpointer user_data;
  GPid pid; /* the number of the process, and of its process group */
  gint64 start;
  ProcessEnd end; /* PROCESS_EXITED, unless this tool ends the process */
  Pipe pipes[2];
  guint child_source;    /* the source for the end of the process; 0 after the end */
  guint deadline_source; /* 0: no deadline */
};

static gdouble
elapsed (const Process *process)
{
  return (gdouble) (g_get_monotonic_time () - process->start) / G_USEC_PER_SEC;
}

static void
signal_group (const Process *process, gint number)
{
  kill (-process->pid, number);
}

void
process_kill (const Process *process)
{
  signal_group (process, SIGKILL);
}

static void
pipe_close (Pipe *pipe)
{
  g_assert ((pipe->source == 0) == (pipe->fd == -1));
  if (pipe->source != 0)
    g_source_remove (pipe->source);
  pipe->source = 0;
  if (pipe->fd >= 0)
    close (pipe->fd);
  pipe->fd = -1;
}

static void set_deadline (Process *process, gdouble seconds, GSourceFunc func);
static gboolean kill_group (gpointer data);

static void
end_early (Process *process, ProcessEnd end)
{
  if (process->end != PROCESS_EXITED)
    return;
  process->end = end;
  signal_group (process, SIGTERM);
  set_deadline (process, GRACE, kill_group);
}

static gsize
count_lines (const gchar *bytes, gssize length)
{
  gsize n = 0;

  for (gssize i = 0; i < length; i++)
    n += bytes[i] == '\n';
  return n;
}

/* Reads once from a pipe.  Returns FALSE if the pipe has nothing more to read now, or is closed. */
static gboolean
pipe_read (Pipe *pipe)
{
  gchar bytes[65536];
  Process *process = pipe->process;
  gssize n = read (pipe->fd, bytes, sizeof bytes);

  if (n < 0 && errno == EINTR)
    return TRUE;
  if (n < 0 && errno == EAGAIN)
    return FALSE;
  if (n <= 0)
    {
      pipe_close (pipe);
      return FALSE;
    }
  pipe->n_bytes += (gsize) n;
  pipe->n_lines += count_lines (bytes, n);
  if (pipe->n_bytes > PROCESS_MAX_OUTPUT)
    end_early (process, PROCESS_TOO_LOUD);
  else if (pipe->n_lines > PROCESS_MAX_LINES)
    end_early (process, PROCESS_TOO_MANY_LINES);
  else
    process->funcs.output (process->user_data, pipe->is_error, bytes, (gsize) n, elapsed (process));
  return TRUE;
}

static gboolean
on_readable (gint fd, GIOCondition condition, gpointer data)
{
  Pipe *pipe = data;

  (void) fd;
  (void) condition;
  pipe_read (pipe);
  return G_SOURCE_CONTINUE; /* if the pipe was closed, its source is removed already */
}

/* Reads the rest of the output from the pipes.  The number of reads is limited: a process that has
 * left the group may print for ever. */
static void
drain (Process *process)
{
  for (guint i = 0; i < 2; i++)
    for (guint n = 0; n < 100 && process->pipes[i].fd >= 0 && pipe_read (&process->pipes[i]); n++)
      ;
}

static void
finish (Process *process, ProcessEnd end, gint code)
{
  gdouble seconds = elapsed (process);

  g_assert (end == process->end || process->end == PROCESS_EXITED || end == PROCESS_STUCK);
  pipe_close (&process->pipes[0]);
  pipe_close (&process->pipes[1]);
  if (process->deadline_source != 0)
    g_source_remove (process->deadline_source);
  if (process->child_source != 0)
    g_source_remove (process->child_source);
  process->funcs.ended (process->user_data, end, code, seconds);
  g_free (process);
}

/* Handles the end of the process: kills the rest of its process group, and reads the rest of its
 * output.  The kill can hardly hit another group.  While the group has a process left, the system
 * gives its number to no other group.  If it has none left, another group could have got the number
 * only since waitpid () returned. */
static void
on_end (GPid pid, gint status, gpointer data)
{
  Process *process = data;

  (void) pid;
  g_assert (pid == process->pid && process->child_source != 0);
  process->child_source = 0;
  signal_group (process, SIGKILL);
  drain (process);
  if (process->end != PROCESS_EXITED)
    finish (process, process->end, 0);
  else if (WIFSIGNALED (status))
    finish (process, PROCESS_SIGNALLED, WTERMSIG (status));
  else
    finish (process, PROCESS_EXITED, WEXITSTATUS (status));
}

static gboolean
give_up (gpointer data)
{
  Process *process = data;

  process->deadline_source = 0;
  finish (process, PROCESS_STUCK, 0);
  return G_SOURCE_REMOVE;
}

static gboolean
kill_group (gpointer data)
{
  Process *process = data;

  process->deadline_source = 0;
  signal_group (process, SIGKILL);
  set_deadline (process, PATIENCE, give_up);
  return G_SOURCE_REMOVE;
}

static gboolean
on_timeout (gpointer data)
{
  Process *process = data;

  process->deadline_source = 0;
  end_early (process, PROCESS_TIMED_OUT);
  return G_SOURCE_REMOVE;
}

static void
set_deadline (Process *process, gdouble seconds, GSourceFunc func)
{
  gdouble milliseconds = seconds * 1000;

  if (process->deadline_source != 0)
    g_source_remove (process->deadline_source);
  process->deadline_source
      = g_timeout_add (milliseconds < G_MAXUINT ? (guint) milliseconds : G_MAXUINT, func, process);
}

/* Sets up the child: its own process group, SIGKILL when this tool dies, and default handling of
 * the signals that this tool ignores. */
static void
set_up_child (gpointer unused)
{
  (void) unused;
  setpgid (0, 0);
  signal (SIGPIPE, SIG_DFL);
  signal (SIGCHLD, SIG_DFL);
#ifdef __linux__
  prctl (PR_SET_PDEATHSIG, SIGKILL);
#endif
}

static void
pipe_open (Pipe *pipe, Process *process, gint fd, gboolean is_error)
{
  pipe->process = process;
  pipe->fd = fd;
  pipe->is_error = is_error;
  g_unix_set_fd_nonblocking (fd, TRUE, NULL);
  pipe->source = g_unix_fd_add (fd, G_IO_IN | G_IO_HUP | G_IO_ERR, on_readable, pipe);
}

Process *
process_start (gchar **arguments, gchar **environment, gdouble timeout, const ProcessFuncs *funcs,
               gpointer user_data, GError **error)
{
  Process *process;
  GPid pid;
  gint out, err;
  gint64 start = g_get_monotonic_time ();

  if (!g_spawn_async_with_pipes (NULL, arguments, environment,
                                 G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_SEARCH_PATH, set_up_child,
                                 NULL, &pid, NULL, &out, &err, error))
    return NULL;
  process = g_new0 (Process, 1);
  process->funcs = *funcs;
  process->user_data = user_data;
  process->pid = pid;
  process->start = start;
  pipe_open (&process->pipes[0], process, out, FALSE);
  pipe_open (&process->pipes[1], process, err, TRUE);
  process->child_source = g_child_watch_add (pid, on_end, process);
  if (timeout > 0)
    set_deadline (process, timeout, on_timeout);
  return process;
}
