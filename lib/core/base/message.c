/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Holds back the messages of a thread that must not log now, such as one that holds a lock, and
 * logs them later. */

#include "base/message-private.h"

/* The number of nested _tarn_messages_hold () calls of this thread, and its held messages. */
static _Thread_local guint n_holds;
static _Thread_local GSList *held; /* the texts of this thread's held messages, the latest first */

void
_tarn_messages_hold (void)
{
  n_holds++;
}

static void
log_and_free (gpointer text)
{
  g_message ("%s", (const gchar *) text);
  g_free (text);
}

/* Decrements n_holds before the log handlers run, so that a message of a handler itself is logged
 * at once. */
void
_tarn_messages_release (void)
{
  g_assert (n_holds > 0);
  if (--n_holds > 0 || held == NULL)
    return;
  _tarn_assert_no_locks ();
  g_slist_free_full (g_slist_reverse (g_steal_pointer (&held)), log_and_free);
}

void
_tarn_message (const gchar *format, ...)
{
  va_list args;

  va_start (args, format);
  _tarn_messages_hold ();
  held = g_slist_prepend (held, g_strdup_vprintf (format, args));
  _tarn_messages_release ();
  va_end (args);
}
