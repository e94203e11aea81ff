/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Detects that this process is a child of fork ().  Tarn installs a pthread_atfork () handler
 * right before it first calls a driver, not when the library is loaded.  So a daemon that forks
 * first and opens its device afterwards does not count as a child. */

#include "base/fork-private.h"

#include <pthread.h>
#include <tarn/allocator.h>

#include "base/message-private.h"
#include "base/thread-private.h"

gboolean _tarn_is_forked = FALSE;

/* Marks this process as a child of fork ().  Separates the child's only thread from its TarnThread,
 * the record that has the thread's caches of pools.  Without a cache, no request can be a cache
 * hit, so the code for hits need not check for fork (). */
static void
in_child (void)
{
  _tarn_is_forked = TRUE;
  _tarn_current_thread = &_tarn_no_thread;
}

static void
install (void)
{
  /* Makes the quark now, because in a child of fork () GLib's lock for quarks may stay locked. */
  tarn_error_quark ();
  if (pthread_atfork (NULL, NULL, in_child) != 0)
    _tarn_message ("pthread_atfork failed: a child of fork () may hang in the driver");
}

/* Installs the handler that detects children of fork (), on the first call only. */
void
_tarn_watch_fork (void)
{
  static TarnOnce once = TARN_ONCE_INIT;

  _tarn_once_with_messages (&once, install);
}

gboolean
tarn_check_fork (GError **error)
{
  if (!_tarn_forked ())
    {
      _tarn_watch_fork ();
      return TRUE;
    }
  g_set_error_literal (error, TARN_ERROR, TARN_ERROR_FORKED,
                       "this process was forked from one that had called a driver, and drivers do "
                       "not survive that: fork before, or leave the driver to the parent");
  return FALSE;
}
