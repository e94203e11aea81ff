/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Turns C++ symbols into names for people. */

#ifndef DEMANGLE_H
#define DEMANGLE_H

#include <glib.h>

/* Gets the name that a symbol has in C++.  Returns the symbol itself if the symbol has no such
 * name, or if C++'s library is not installed.  Free it with g_free (). */
gchar *demangle (const gchar *symbol);

#endif
