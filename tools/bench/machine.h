/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The machine on which results were measured. */

#ifndef MACHINE_H
#define MACHINE_H

#include <glib.h>

/* Describes the machine, as in "Intel(R) Core(TM) i5-9500, 6 processors".  If /proc/cpuinfo does
 * not name the model, takes the machine's type from uname(2), as in "aarch64, 64 processors".  Free
 * it with g_free (). */
gchar *machine_describe (void);

#endif
