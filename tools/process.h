/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A program that is run in a process group of its own, with a time limit; nothing that it starts in
 * that group outlives it, but where this process is killed itself. */

#ifndef PROCESS_H
#define PROCESS_H

#include <glib.h>

typedef enum
{
  PROCESS_EXITED,    /* code: the exit status */
  PROCESS_SIGNALLED, /* code: the signal */
  PROCESS_TIMED_OUT,
  PROCESS_TOO_LOUD,       /* printed more than PROCESS_MAX_OUTPUT bytes */
  PROCESS_TOO_MANY_LINES, /* printed more than PROCESS_MAX_LINES */
  PROCESS_STUCK           /* and cannot be killed: a driver may hang in the kernel */
} ProcessEnd;

/* Bytes, and lines, of standard output, and of standard error: a program that loops must not fill
 * the memory, of which a short line takes many times its length. */
#define PROCESS_MAX_OUTPUT (16 << 20)
#define PROCESS_MAX_LINES 250000

typedef struct
{
  /* What standard output, or standard error, has given; @seconds after the start. */
  void (*output) (gpointer user_data, gboolean is_error, const gchar *bytes, gsize length,
                  gdouble seconds);
  /* It has ended, and everything that it printed has been given; the last call. */
  void (*ended) (gpointer user_data, ProcessEnd end, gint code, gdouble seconds);
} ProcessFuncs;

typedef struct _Process Process;

/* Runs a program, which is looked for in PATH if its name has no slash, with its arguments, in the
 * default main context, with standard input empty.  @timeout: seconds, 0: none.  The Process is
 * valid until its end. */
Process *process_start (gchar **arguments, gchar **environment, gdouble timeout,
                        const ProcessFuncs *funcs, gpointer user_data, GError **error);

/* Ends its process group at once, because this process is about to end; async-signal-safe. */
void process_kill (const Process *process);

#endif
