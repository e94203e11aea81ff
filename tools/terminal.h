/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Output for terminals only: colour, and a line that shows the progress of long work and disappears
 * at the end. */

#ifndef TERMINAL_H
#define TERMINAL_H

#include <glib.h>

/* Tells whether progress is shown: standard error is a terminal that can erase a line. */
gboolean terminal_shows_progress (void);

/* Shows @text as the progress line; NULL erases it.  Does nothing if progress is not shown. */
void terminal_set_progress (const gchar *text);

/* Gets the width of a terminal in characters.  Returns 0 if @fd is no terminal. */
guint terminal_get_columns (gint fd);

/* Tells whether output to a file descriptor may have colour: it is a terminal, and NO_COLOR is not
 * set (no-color.org). */
gboolean terminal_has_color (gint fd);

#endif
