/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Alignment for 64-bit fields that threads share without a lock. */

#ifndef TARN_WHOLE_PRIVATE_H
#define TARN_WHOLE_PRIVATE_H

/* Aligns an atomic 64-bit field to 8 bytes.  A 32-bit processor loads and stores such a field
 * atomically only if it lies in one cache line.  Compilers for such processors align variables that
 * way, but not fields of structs. */
#define TARN_WHOLE __attribute__ ((aligned (8)))

#endif
