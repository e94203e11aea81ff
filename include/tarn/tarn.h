/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Everything of libtarn: the headers of the core.
 *
 * - tarn/pool.h: pools, their options and counters, reclaim groups
 * - tarn/heap.h: heaps, which split and merge memory
 * - tarn/allocator.h: allocators, and the functions of a backend
 * - tarn/block.h: blocks, which are memory in use
 * - tarn/memo.h: memos, which cache results for a context, a queue or a device
 * - tarn/snapshot.h: snapshots of all blocks, pools and heaps at one moment
 * - tarn/trace.h: recordings of requests, frees and other events
 * - tarn/selection.h: choice of devices by a text
 * - tarn/local-memory.h: bank conflicts of local memory
 * - tarn/clock.h: a clock instead of the system's
 * - tarn/debug.h: detection of mistakes in the use of memory
 * - tarn/error.h: error codes
 * - tarn/version.h: versions
 */

#ifndef TARN_H
#define TARN_H

#include <tarn/allocator.h>
#include <tarn/block.h>
#include <tarn/clock.h>
#include <tarn/debug.h>
#include <tarn/error.h>
#include <tarn/heap.h>
#include <tarn/local-memory.h>
#include <tarn/memo.h>
#include <tarn/pool.h>
#include <tarn/selection.h>
#include <tarn/snapshot.h>
#include <tarn/trace.h>
#include <tarn/version.h>

#endif
