/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A play: steps that several threads make.  If Play.has_ends, each thread ends after its last step,
 * while the play goes on.  When a thread ends, the pool takes back the blocks in the thread's
 * cache.  This then happens at the same step as in the recorded program. */

#ifndef PLAY_H
#define PLAY_H

#include <glib.h>

/* A play: its steps, and the threads that make them. */
typedef struct
{
  guint n_threads;
  guint n_steps;
  guint (*get_thread) (gconstpointer data, guint step);
  gboolean (*make) (gpointer data, guint step); /* returns FALSE to end the play */
  gpointer data;
  /* Only for play_in_turns (): each thread ends after its last step.  FALSE: all threads live until
   * the play is over. */
  gboolean has_ends;
} Play;

/* Makes all steps in their order, each in its thread.  Returns FALSE without an error if a step
 * ended the play.  Returns FALSE with an error, before the first step, if a thread cannot be
 * created. */
gboolean play_in_turns (const Play *play, GError **error);

/* Runs all threads at the same time.  Each thread makes its own steps in their order.  Stores the
 * nanoseconds from the first start to the last end.  Returns FALSE as play_in_turns () does. */
gboolean play_together (const Play *play, gint64 *ns, GError **error);

#endif
