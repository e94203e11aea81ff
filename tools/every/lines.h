/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Lists of lines: grouped by their text, copied and filtered. */

#ifndef LINES_H
#define LINES_H

#include "line.h"

/* Gets the text by which lines are grouped. */
typedef const gchar *(*LineGetText) (const Line *line);

const gchar *line_get_key (const Line *line);
const gchar *line_get_skeleton (const Line *line);

/* Copies an array, but not its Lines.  The copy does not free the Lines. */
GPtrArray *lines_borrow (const GPtrArray *lines);

/* Groups lines by their text.  Returns a table from each text to a GPtrArray of its Lines, in their
 * order.  The table borrows the texts and the Lines. */
GHashTable *lines_group (const GPtrArray *lines, LineGetText get);

/* Removes from an array the lines whose texts are in a set. */
void lines_remove (GPtrArray *lines, GHashTable *texts, LineGetText get);

#endif
