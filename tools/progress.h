/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * One line on a terminal that says how far long work has come, and is gone when it is done. */

#ifndef PROGRESS_H
#define PROGRESS_H

#include <glib.h>

/* Whether standard error is a terminal that can take a line back. */
gboolean progress_is_shown (void);

/* Puts @text in the place of the line; NULL: nothing.  Does nothing where it is not shown. */
void progress_show (const gchar *text);

/* Whether a stream to a terminal may have colour: not with NO_COLOR (no-color.org). */
gboolean progress_has_color (gint fd);

#endif
