/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What only a terminal is shown: a line that says how far long work has come, and is gone when it
 * is done, and colour. */

#ifndef TERMINAL_H
#define TERMINAL_H

#include <glib.h>

/* Whether standard error is a terminal that can take a line back. */
gboolean terminal_shows_progress (void);

/* Puts @text in the place of the line; NULL: nothing.  Does nothing where it is not shown. */
void terminal_set_progress (const gchar *text);

/* Whether a stream to a terminal may have colour: not with NO_COLOR (no-color.org). */
gboolean terminal_has_color (gint fd);

#endif
