/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Text from programs and drivers, made printable. */

#ifndef TEXT_H
#define TEXT_H

#include <glib.h>

/* Makes text printable: valid UTF-8 in which control characters other than tab and newline are
 * written out, as in "\x1b", so that no terminal acts on them.  Free it with g_free (). */
gchar *text_make_printable (const gchar *text, gssize length);

/* Sets the locale: the user's character encoding, but numbers as in C, such as "1.5". */
void text_set_locale (void);

/* Writes a message to standard error, and makes it printable: file names and drivers' texts in it
 * may have control characters. */
void text_complain (const gchar *program, const gchar *format, ...) G_GNUC_PRINTF (2, 3);

#endif
