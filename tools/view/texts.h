/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What pages are made of: the files page.html, page.css and *.js, as texts.c has them, which
 * embed.sh writes. */

#ifndef TEXTS_H
#define TEXTS_H

#include <glib.h>

extern const gchar view_page_html[];
extern const gchar view_page_css[];
extern const gchar view_page_js[];

#endif
