/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Words of 64 bits that threads share without a lock. */

#ifndef TARN_WHOLE_PRIVATE_H
#define TARN_WHOLE_PRIVATE_H

/* For a field of 64 bits that is atomic.  Processors of 32 bits load and store it whole only where
 * it does not lie in two cache lines; compilers for them align variables to that, but not fields.
 */
#define TARN_WHOLE __attribute__ ((aligned (8)))

#endif
