/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#ifndef DEMANGLE_H
#define DEMANGLE_H

#include <glib.h>

/* The name that a symbol has in C++, as far as it has one, and C++'s library is there; else the
 * symbol.  Free it with g_free (). */
gchar *demangle (const gchar *symbol);

#endif
