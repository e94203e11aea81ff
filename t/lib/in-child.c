/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include "in-child.h"

#include <sys/wait.h>

void
in_child (void (*body) (gpointer), gpointer data)
{
  gint status;
  pid_t child = fork ();

  g_assert_cmpint (child, >=, 0);
  if (child == 0)
    {
      alarm (20); /* a child that hangs ends with SIGALRM */
      body (data);
      _exit (0);
    }
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_true (WIFEXITED (status));
  g_assert_cmpint (WEXITSTATUS (status), ==, 0);
}

gboolean
take_forked (GError **error)
{
  gboolean is_forked = g_error_matches (*error, TARN_ERROR, TARN_ERROR_FORKED);

  g_clear_error (error);
  return is_forked;
}
