/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Detects that this process is a child of fork ().  The library installs the handler before it
 * first calls a driver, not when it is loaded, so that a daemon can fork first and open its device
 * afterwards. */

#include "base/fork-private.h"

#include <pthread.h>
#include <tarn/allocator.h>

#include "base/message-private.h"
#include "base/thread-private.h"

gboolean _tarn_is_forked = FALSE;

/* Notes that this is a child of fork (). Its thread then has no record, and so no cache of any
 * pool, so that hits need no check. */
static void
in_child (void)
{
  _tarn_is_forked = TRUE;
  _tarn_current_thread = &_tarn_no_thread;
}

static void
install (void)
{
  tarn_error_quark (); /* for children */
  if (pthread_atfork (NULL, NULL, in_child) != 0)
    _tarn_message ("pthread_atfork failed: a child of fork () may hang in the driver");
}

/* Watches for children of fork (), from the first call on. */
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
