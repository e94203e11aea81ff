/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * 64-bit fields that threads share without a lock. */

#ifndef TARN_WHOLE_PRIVATE_H
#define TARN_WHOLE_PRIVATE_H

/* Aligns an atomic 64-bit field. 32-bit processors load and store it atomically only if it does not
 * lie in two cache lines.  Their compilers align variables that way, but not fields. */
#define TARN_WHOLE __attribute__ ((aligned (8)))

#endif
