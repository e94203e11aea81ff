/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads events, and shows the progress on a terminal. */

#include "progress.h"

#include "../terminal.h"

#define LONG_TIME G_USEC_PER_SEC
/* The number of events between two reads of the clock.  Reading this many events takes a few
 * milliseconds. */
#define EVENTS_AT_A_TIME 65536

void
progress_begin (Progress *self, Recording *recording, const gchar *verb)
{
  recording_rewind (recording);
  *self = (Progress){ recording, verb, 0, g_get_monotonic_time (), -1 };
}

void
progress_end (Progress *self)
{
  if (self->percent >= 0)
    terminal_set_progress (NULL);
  self->percent = -1;
}

static void
show (Progress *self)
{
  guint64 n_events = MAX (recording_get_n_events (self->recording), 1);
  gint percent = (gint) (100 * self->n / n_events);
  g_autofree gchar *text = NULL;

  if (percent == self->percent || g_get_monotonic_time () - self->start < LONG_TIME)
    return;
  g_assert (percent > self->percent);
  self->percent = percent;
  text = g_strdup_printf ("%s: %d %%", self->verb, percent);
  terminal_set_progress (text);
}

gboolean
progress_next (Progress *self, RecordedEvent *event, GError **error)
{
  if (recording_next (self->recording, event, error))
    {
      if (++self->n % EVENTS_AT_A_TIME == 0)
        show (self);
      return TRUE;
    }
  progress_end (self);
  return FALSE;
}
