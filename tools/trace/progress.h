/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads events of a recording one after the other.  If that takes more than a second, a terminal
 * shows the progress. */

#ifndef PROGRESS_H
#define PROGRESS_H

#include "recording.h"

/* The progress of reading a recording. */
typedef struct
{
  Recording *recording;
  const gchar *verb; /* for the terminal, such as "writing" */
  guint64 n;         /* number of events that were read so far */
  gint64 start;      /* the time of the start by the monotonic clock, in microseconds */
  gint percent;      /* the percentage that the terminal shows; -1: none */
} Progress;

/* Begins to read the recording, at its first event. */
void progress_begin (Progress *self, Recording *recording, const gchar *verb);

/* Gets the next event like recording_next ().  Erases the progress if there is no next
 * event. */
gboolean progress_next (Progress *self, RecordedEvent *event, GError **error);

/* Erases the progress, for a caller that stops before the last event. */
void progress_end (Progress *self);

#endif
