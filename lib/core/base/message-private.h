/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Messages from code that runs once, or under a lock.  A program's log handler may call Tarn.  If
 * such code logged directly, the handler would wait for the code that called it.  So the code holds
 * its messages back, and Tarn logs them when the code has ended. */

#ifndef TARN_MESSAGE_PRIVATE_H
#define TARN_MESSAGE_PRIVATE_H

#include <glib.h>

#include "common/lock-private.h"

/* Logs a message like g_message ().  If the calling thread holds messages back,
 * _tarn_messages_release () logs it later. */
void _tarn_message (const gchar *format, ...) G_GNUC_PRINTF (1, 2);

/* _tarn_messages_hold () holds back the calling thread's messages.  _tarn_messages_release () logs
 * them; the caller must hold no lock of Tarn.  Pairs may nest: only the outermost one logs. */
void _tarn_messages_hold (void);
void _tarn_messages_release (void);

/* Calls @func if no thread has called it with this @once before, and then logs its messages. */
static inline void
_tarn_once_with_messages (TarnOnce *once, void (*func) (void))
{
  _tarn_messages_hold ();
  _tarn_once (once, func);
  _tarn_messages_release ();
}

#endif
