/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Checks standard output at the start and when the program exits. */

#include "output.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const gchar *name;

/* Ends the program if standard output failed.  This exit handler is the first to be registered, so
 * it runs last, also when GLib exits after --help.  It calls _exit () because it may run inside
 * exit (). */
static void
check_output (void)
{
  if (fcntl (STDOUT_FILENO, F_GETFD) >= 0 && fflush (stdout) == 0 && !ferror (stdout))
    return;
  fprintf (stderr, "%s: cannot write to standard output\n", name);
  _exit (EXIT_FAILURE);
}

void
output_guard (const gchar *program)
{
  name = program;
  check_output ();
  atexit (check_output);
}
