/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Delays messages of code that runs only once, or that holds a lock.  A message can run a log
 * handler of the program, and that handler may call Tarn.  If the handler ran at once, its call
 * could wait for the lock, or for the end of the code that runs only once: a deadlock, because that
 * code waits for the handler.  So Tarn logs the messages of such code only after the code has
 * ended. */

#ifndef TARN_MESSAGE_PRIVATE_H
#define TARN_MESSAGE_PRIVATE_H

#include <glib.h>

#include "common/lock-private.h"

/* Logs a message like g_message ().  If the calling thread is holding messages back, the message
 * waits until _tarn_messages_release () logs it. */
void _tarn_message (const gchar *format, ...) G_GNUC_PRINTF (1, 2);

/* _tarn_messages_hold () begins to hold back the calling thread's messages. _tarn_messages_release
 * () logs them; its caller must hold no lock of Tarn.  Pairs of these calls may nest: only the
 * outermost _tarn_messages_release () logs. */
void _tarn_messages_hold (void);
void _tarn_messages_release (void);

/* Calls @func if no thread has called a function with this @once before.  Logs the messages of
 * @func after @func has returned. */
static inline void
_tarn_once_with_messages (TarnOnce *once, void (*func) (void))
{
  _tarn_messages_hold ();
  _tarn_once (once, func);
  _tarn_messages_release ();
}

#endif
