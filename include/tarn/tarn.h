/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Everything of libtarn: the headers of the core.
 */

#ifndef TARN_H
#define TARN_H

#include <tarn/allocator.h>
#include <tarn/block.h>
#include <tarn/error.h>
#include <tarn/local-memory.h>
#include <tarn/memo.h>
#include <tarn/pool.h>
#include <tarn/selection.h>
#include <tarn/version.h>

#endif
