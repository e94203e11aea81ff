/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Text from programs and drivers, made fit to be shown. */

#ifndef TEXT_H
#define TEXT_H

#include <glib.h>

/* Valid UTF-8 without control characters but tab and newline: each other one is written as "\x1b",
 * so that no terminal acts on it.  Free it with g_free (). */
gchar *text_make_printable (const gchar *text, gssize length);

/* Has the program use the user's characters, but write numbers as C does in every locale: "1.5". */
void text_set_locale (void);

/* Writes a message to standard error, as printable text: what it quotes, such as the name of a file
 * or what a driver says, may have anything in it. */
void text_complain (const gchar *program, const gchar *format, ...) G_GNUC_PRINTF (2, 3);

#endif
