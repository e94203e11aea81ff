/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#ifndef TARN_NOTHING_H
#define TARN_NOTHING_H

#include <tarn/allocator.h>

/* An allocator whose memory is always NULL, in as far as its functions go. */
void nothing_ops_init (TarnAllocatorOps *ops);

#endif
