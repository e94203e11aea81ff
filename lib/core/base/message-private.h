/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Messages from code that runs once, or under a lock.  A program's log handler may call Tarn.  If
 * it did so before that code has ended, it would wait for itself.  So such code holds messages
 * back, and they are logged after it. */

#ifndef TARN_MESSAGE_PRIVATE_H
#define TARN_MESSAGE_PRIVATE_H

#include <glib.h>

#include "common/lock-private.h"

/* Logs a message, as g_message () does; or later, if the calling thread holds messages back. */
void _tarn_message (const gchar *format, ...) G_GNUC_PRINTF (1, 2);

/* Holds back the messages of the calling thread.  _tarn_messages_release () must follow, which logs
 * them; the thread must hold no lock of Tarn then.  Pairs may nest: the outermost counts. */
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
