/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#ifndef TARN_TESTING_PAGES_PRIVATE_H
#define TARN_TESTING_PAGES_PRIVATE_H

#include <tarn/testing.h>

/* The allocator's functions, whose user_data the pages are. */
void _tarn_testing_pages_ops_init (TarnTestingPages *pages, TarnAllocatorOps *ops);

#endif
