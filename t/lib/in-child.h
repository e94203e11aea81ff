/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Children of fork () that check something.  In one a failed assertion must not run the parent's
 * test on: steps are numbered, and the status is the number of the one that failed. */

#ifndef IN_CHILD_H
#define IN_CHILD_H

#include <tarn/tarn.h>
#include <unistd.h>

/* 1 to 255 */
#define STEP(number, condition)                                                                    \
  G_STMT_START                                                                                     \
  {                                                                                                \
    if (!(condition))                                                                              \
      _exit (number);                                                                              \
  }                                                                                                \
  G_STMT_END

/* Calls fork () and returns its result; a child that hangs ends with SIGALRM after so many seconds.
 * A test calls this in place of fork () if other threads may be inside malloc (): with
 * AddressSanitizer the child could hang there after a plain fork (). */
pid_t begin_child (guint seconds);

/* The test fails if a step does, and if the child hangs. */
void in_child (void (*body) (gpointer), gpointer data);

/* Clears an error; TRUE if it was that something is not for a child. */
gboolean take_forked (GError **error);

#endif
