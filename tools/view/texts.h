/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The files page.html, page.css and *.js as texts.  embed.sh writes them into texts.c. */

#ifndef TEXTS_H
#define TEXTS_H

#include <glib.h>

extern const gchar view_page_html[];
extern const gchar view_page_css[];
extern const gchar view_page_js[];

#endif
