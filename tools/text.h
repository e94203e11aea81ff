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

#endif
