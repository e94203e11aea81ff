/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#ifndef TARN_BIN_PRIVATE_H
#define TARN_BIN_PRIVATE_H

#include <glib.h>

/* 6 bits for the position of a 64-bit size's leading bit leave 26 of a 32-bit bin number. */
#define TARN_MAX_LEADING_BITS 26

guint32 _tarn_bin_number (gsize size, guint leading_bits);
gsize _tarn_bin_alloc_size (guint32 bin, guint leading_bits);

#endif
