/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * What results were measured on. */

#ifndef MACHINE_H
#define MACHINE_H

#include <glib.h>

/* "Intel(R) Core(TM) i5-9500, 6 processors"; where the kernel does not name the model, what uname
 * (2) says, "aarch64, 64 processors".  Free it with g_free (). */
gchar *machine_describe (void);

#endif
