/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Messages of what is done once, or under a lock.  A program's log handler may call Tarn: it would
 * wait for itself if it was called before that is over.  So a message waits until its thread holds
 * none back any more. */

#ifndef TARN_MESSAGE_PRIVATE_H
#define TARN_MESSAGE_PRIVATE_H

#include <glib.h>

#include "common/lock-private.h"

/* Logs a message, as g_message () does, once the calling thread holds none back. */
void _tarn_message (const gchar *format, ...) G_GNUC_PRINTF (1, 2);

/* From here on the calling thread holds its messages back.  _tarn_messages_release () must follow,
 * which logs them, while the thread has no lock of Tarn's.  Pairs may nest: the outermost counts.
 */
void _tarn_messages_hold (void);
void _tarn_messages_release (void);

/* Calls a function once, and then logs its messages. */
static inline void
_tarn_once_with_messages (TarnOnce *once, void (*func) (void))
{
  _tarn_messages_hold ();
  _tarn_once (once, func);
  _tarn_messages_release ();
}

#endif
