/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Runs a program in its own process group, with a time limit.  When the program ends, its whole
 * group is killed.  Processes of the group may outlive the tool only if the tool itself is killed
 * with SIGKILL. */

#ifndef PROCESS_H
#define PROCESS_H

#include <glib.h>

/* How a program ended. */
typedef enum
{
  PROCESS_EXITED,    /* code: the exit status */
  PROCESS_SIGNALLED, /* code: the signal */
  PROCESS_TIMED_OUT,
  PROCESS_TOO_LOUD,       /* printed more than PROCESS_MAX_OUTPUT bytes */
  PROCESS_TOO_MANY_LINES, /* printed more than PROCESS_MAX_LINES */
  PROCESS_STUCK           /* timed out, and cannot be killed: a driver may hang in the kernel */
} ProcessEnd;

/* Limits for the bytes and lines of standard output, and of standard error.  Without a limit, a
 * program that prints in a loop would fill the memory.  Lines have a limit of their own, because a
 * short line takes many times its bytes in memory. */
#define PROCESS_MAX_OUTPUT (16 << 20)
#define PROCESS_MAX_LINES 250000

/* Callbacks of a process. */
typedef struct
{
  /* Receives bytes that the process wrote to standard output or standard error, @seconds after the
   * start. */
  void (*output) (gpointer user_data, gboolean is_error, const gchar *bytes, gsize length,
                  gdouble seconds);
  /* Handles the end of the process.  It is called after all output, and no callback is called after
   * it. */
  void (*ended) (gpointer user_data, ProcessEnd end, gint code, gdouble seconds);
} ProcessFuncs;

typedef struct _Process Process;

/* Starts a program with its arguments.  Searches PATH for the program if its name has no slash.
 * The program's standard input is empty.  Callbacks run in the default main context.  @timeout is
 * in seconds; 0: none.  The Process is valid until funcs->ended was called. */
Process *process_start (gchar **arguments, gchar **environment, gdouble timeout,
                        const ProcessFuncs *funcs, gpointer user_data, GError **error);

/* Kills the process group at once, because this tool is about to end.  Async-signal-safe. */
void process_kill (const Process *process);

#endif
