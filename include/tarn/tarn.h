/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Everything of libtarn: the headers of the core.
 *
 * - tarn/pool.h: pools, their options and counters, groups of pools
 * - tarn/heap.h: heaps, which split and join memory
 * - tarn/allocator.h: allocators, and the functions of a backend
 * - tarn/block.h: memory in use
 * - tarn/memo.h: results that are kept for a context, a queue, a device
 * - tarn/snapshot.h: what memory there is at one moment, and who has it
 * - tarn/trace.h: recordings of what memory does
 * - tarn/selection.h: devices that are chosen by a text
 * - tarn/local-memory.h: bank conflicts
 * - tarn/clock.h: another clock than the system's
 * - tarn/debug.h: what a program does wrong with memory
 * - tarn/error.h: errors
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
