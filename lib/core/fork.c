/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Knowing that this process is a child of fork ().  The handler is installed with the first
 * allocator and not when the library is loaded, so that a daemon that forks first and opens its
 * device afterwards is not concerned. */

#include "fork-private.h"

#include <pthread.h>
#include <tarn/error.h>

#include "lock-private.h"

gboolean _tarn_is_forked = FALSE;

static void
in_child (void)
{
  _tarn_is_forked = TRUE;
}

static void
install (void)
{
  if (pthread_atfork (NULL, NULL, in_child) != 0)
    g_message ("pthread_atfork failed: a child of fork () may hang in the driver");
}

void
_tarn_watch_fork (void)
{
  static TarnOnce once = TARN_ONCE_INIT;

  _tarn_once (&once, install);
}

void
_tarn_set_forked_error (GError **error)
{
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_FORKED,
                       "this process was forked from one that used the device: allocate in the "
                       "parent, or open the device after fork ()");
}
