/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Writes snapshots (files with the memory of all allocators) when memory has run out, and when a
 * signal arrives.  The signal handler wakes a thread of the library, which writes the snapshot. */

#include "snapshot/snapshot-private.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <tarn/error.h>

#include "base/fork-private.h"
#include "base/message-private.h"
#include "base/thread-private.h"
#include "record/record-private.h"

/* The shortest time between two snapshots that are written because memory is short, in
 * nanoseconds. */
#define PAUSE G_GUINT64_CONSTANT (1000000000)

static void
set_followed (TarnFollowReason reason, gboolean follows)
{
  if (_tarn_follow (reason, follows))
    _tarn_allocators_open_anew ();
}

void
tarn_snapshot_set_follow (gboolean follow)
{
  if (!_tarn_forked ())
    set_followed (TARN_FOLLOW_FOR_TAGS, follow);
}

/* The function that writes a snapshot when memory has run out */

void
_tarn_snapshot_note_out_of_memory (const gchar *message)
{
  static TarnMutex lock = TARN_MUTEX_INIT;
  static guint64 next_time;
  const gchar *pattern = _tarn_record_get_snapshot_path ();
  g_autoptr (GError) error = NULL;

  if (pattern == NULL || !_tarn_mutex_trylock (&lock))
    return;
  _tarn_messages_hold ();
  if (_tarn_record_get_time () >= next_time)
    {
      g_autofree gchar *path = _tarn_path_expand (pattern);

      if (!_tarn_snapshot_write (path, "out-of-memory", message, &error))
        _tarn_message ("TARN_SNAPSHOT_ON_OOM: %s", error->message);
      next_time = _tarn_record_get_time () + PAUSE;
    }
  _tarn_mutex_unlock (&lock);
  _tarn_messages_release ();
}

/* Functions that write a snapshot when a signal arrives */

/* The signal at which the library writes snapshots, and the thread that writes them.  watch_lock
 * guards all fields except is_ending.  To end the thread, a caller sets is_ending to TRUE and wakes
 * the thread. */
static struct
{
  gint number;             /* the signal's number; 0 if there is no such signal */
  struct sigaction former; /* the signal's action before the library handled it */
  gchar *pattern;
  GThread *thread;
  gboolean is_ending; /* atomic; TRUE if the thread has to end */
} watch;

static TarnMutex watch_lock = TARN_MUTEX_INIT;
static sem_t wake_up;

static void
handle_signal (gint number)
{
  gint before = errno;

  (void) number;
  sem_post (&wake_up);
  errno = before;
}

static void
await_wake_up (void)
{
  while (sem_wait (&wake_up) != 0)
    if (errno != EINTR)
      g_error ("sem_wait: %s", g_strerror (errno));
}

static gpointer
run (gpointer data)
{
  const gchar *pattern = data;
  guint n = 0;

  for (await_wake_up (); !__atomic_load_n (&watch.is_ending, __ATOMIC_ACQUIRE); await_wake_up ())
    {
      g_autofree gchar *number = g_strdup_printf ("%u", ++n);
      g_autofree gchar *for_process = _tarn_path_expand (pattern);
      g_auto (GStrv) parts = g_strsplit (for_process, "%n", -1);
      g_autofree gchar *path = g_strjoinv (number, parts);
      g_autoptr (GError) error = NULL;

      if (!_tarn_snapshot_write (path, "signal", NULL, &error))
        g_message ("snapshot: %s", error->message);
    }
  return NULL;
}

/* Returns TRUE if @action, the present action of a signal, is to call the library's handler. */
static gboolean
is_ours (const struct sigaction *action)
{
  return (action->sa_flags & SA_SIGINFO) == 0 && action->sa_handler == handle_signal;
}

/* Restores the action that a signal had before the library handled it: the default action, or to
 * ignore the signal.  Does nothing if the program has replaced the library's handler since then. */
static void
restore_effect (gint number)
{
  struct sigaction present;

  _tarn_assert_locked (&watch_lock);
  if (sigaction (number, NULL, &present) == 0 && is_ours (&present))
    sigaction (number, &watch.former, NULL);
}

/* Returns TRUE if a signal can be handled and has no handler, or if its handler is the library's.
 * Otherwise returns FALSE with an error. */
static gboolean
is_free (gint number, GError **error)
{
  struct sigaction action;

  _tarn_assert_locked (&watch_lock);
  if (sigaction (number, NULL, &action) != 0)
    g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, "%d is no signal", number);
  else if (number == SIGKILL || number == SIGSTOP)
    g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, "signal %d (%s) cannot be handled",
                 number, g_strsignal (number));
  else if (is_ours (&action))
    return TRUE;
  else if (action.sa_flags & SA_SIGINFO
           || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN))
    g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
                 "signal %d (%s) has a handler already", number, g_strsignal (number));
  else
    return TRUE;
  return FALSE;
}

/* Stops watching for the signal whose number is watch.number: when this signal arrives, the library
 * no longer writes a snapshot.  @next: the signal to watch instead, 0 if there is none.  If @next
 * is the same signal, leaves its handler installed, because a signal that arrives while there is no
 * handler would end the process. */
static void
end_watch (gint next)
{
  _tarn_assert_locked (&watch_lock);
  if (watch.number == 0)
    return;
  if (watch.number != next)
    restore_effect (watch.number);
  __atomic_store_n (&watch.is_ending, TRUE, __ATOMIC_RELEASE);
  sem_post (&wake_up);
  g_thread_join (watch.thread);
  g_clear_pointer (&watch.pattern, g_free);
  watch.number = 0;
}

static gboolean
begin_watch (gint number, const gchar *path, GError **error)
{
  struct sigaction ours = { .sa_handler = handle_signal, .sa_flags = SA_RESTART }, before;

  _tarn_assert_locked (&watch_lock);
  while (sem_trywait (&wake_up) == 0)
    ; /* the loop drops the signals that arrived before this call */
  __atomic_store_n (&watch.is_ending, FALSE, __ATOMIC_RELEASE);
  watch.pattern = g_strdup (path);
  watch.thread = _tarn_own_thread_new ("tarn-snapshot", run, watch.pattern, error);
  if (watch.thread == NULL)
    {
      g_clear_pointer (&watch.pattern, g_free);
      /* If the library watched this signal before, end_watch () has left the handler installed.
       * The handler must not stay, because there is no thread that it could wake. */
      restore_effect (number);
      return FALSE;
    }
  watch.number = number;
  sigemptyset (&ours.sa_mask);
  if (sigaction (number, &ours, &before) == 0)
    {
      if (!is_ours (&before))
        watch.former = before;
      return TRUE;
    }
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT, "signal %d (%s): %s", number,
               g_strsignal (number), g_strerror (errno));
  end_watch (0);
  return FALSE;
}

gboolean
tarn_snapshot_on_signal (gint number, const gchar *path, GError **error)
{
  static gboolean has_semaphore; /* TRUE if wake_up is initialized; guarded by watch_lock */
  gboolean is_done;

  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  if (_tarn_forked ())
    {
      g_set_error_literal (error, TARN_ERROR, TARN_ERROR_FORKED,
                           "a child of fork () has no snapshots: its pools are its parent's");
      return FALSE;
    }
  _tarn_watch_fork ();
  _tarn_mutex_lock (&watch_lock);
  if (!has_semaphore)
    has_semaphore = sem_init (&wake_up, 0, 0) == 0;
  is_done = path == NULL || is_free (number, error);
  if (is_done)
    end_watch (path != NULL ? number : 0);
  if (is_done && path != NULL)
    is_done = begin_watch (number, path, error);
  set_followed (TARN_FOLLOW_FOR_SIGNAL, watch.number != 0);
  _tarn_mutex_unlock (&watch_lock);
  return is_done;
}
