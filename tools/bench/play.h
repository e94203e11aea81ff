/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Steps by threads, from the first one to the last: what threads keep of a pool is theirs as long
 * as it would be in the program. */

#ifndef PLAY_H
#define PLAY_H

#include <glib.h>

typedef struct
{
  guint n_threads;
  guint n_steps;
  guint (*get_thread) (gconstpointer data, guint step);
  gboolean (*make) (gpointer data, guint step); /* FALSE: the play is over */
  gpointer data;
  gboolean has_ends; /* in turns: a thread ends behind its last step, and not with the play */
} Play;

/* Makes all steps in their order, each by its thread.  FALSE: one of them ended it; or with an
 * error, and no step made: there cannot be so many threads. */
gboolean play_in_turns (const Play *play, GError **error);

/* Each thread makes its steps in their order, and all of them go at once; stores the nanoseconds
 * from the first one's start to the last one's end.  FALSE: as above. */
gboolean play_together (const Play *play, gint64 *ns, GError **error);

#endif
