/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A play: steps that several threads make.  A thread lives from the first step to its last one, so
 * that its cache of a pool lives as long as in the program. */

#ifndef PLAY_H
#define PLAY_H

#include <glib.h>

/* The steps of a play, and who makes them. */
typedef struct
{
  guint n_threads;
  guint n_steps;
  guint (*get_thread) (gconstpointer data, guint step);
  gboolean (*make) (gpointer data, guint step); /* returns FALSE to end the play */
  gpointer data;
  gboolean has_ends; /* in turns: a thread ends after its last step, not with the play */
} Play;

/* Makes all steps in their order, each in its thread.  Returns FALSE if a step ended the play; or
 * with an error, before the first step, if a thread cannot be created. */
gboolean play_in_turns (const Play *play, GError **error);

/* Makes the steps of all threads at the same time, those of each thread in their order.  Stores the
 * nanoseconds from the first start to the last end.  Returns FALSE as play_in_turns () does. */
gboolean play_together (const Play *play, gint64 *ns, GError **error);

#endif
