/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "output.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const gchar *name;

/* Runs last, as the first that was registered, and also where GLib ends the program after --help;
 * not with exit (), which is where we may be called from. */
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
