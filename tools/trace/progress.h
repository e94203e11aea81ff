/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Events of a recording, one after the other; on a terminal a line says how far that is, once it
 * takes long. */

#ifndef PROGRESS_H
#define PROGRESS_H

#include "recording.h"

typedef struct
{
  Recording *recording;
  const gchar *verb; /* what is being done */
  guint64 n;         /* events so far */
  gint64 start;      /* microseconds, of the monotonic clock */
  gint percent;      /* that is shown; -1: none */
} Progress;

/* From the first event on. */
void progress_begin (Progress *self, Recording *recording, const gchar *verb);

/* As recording_next (); the line is gone at the end. */
gboolean progress_next (Progress *self, RecordedEvent *event, GError **error);

/* Takes the line back before the end. */
void progress_end (Progress *self);

#endif
