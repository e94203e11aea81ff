/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Alignment of 64-bit fields that several threads access without a lock. */

#ifndef TARN_WHOLE_PRIVATE_H
#define TARN_WHOLE_PRIVATE_H

/* Aligns an atomic 64-bit field to 8 bytes.  A 32-bit processor loads and stores such a field
 * atomically only if the field lies in one cache line.  Compilers for such processors align 64-bit
 * variables to 8 bytes, but not 64-bit fields of structs. */
#define TARN_WHOLE __attribute__ ((aligned (8)))

#endif
