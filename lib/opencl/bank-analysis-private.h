/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Finds the banks of local memory from the measured times of access patterns.  These functions only
 * compute, and call no driver. */

#ifndef TARN_OPENCL_BANK_ANALYSIS_PRIVATE_H
#define TARN_OPENCL_BANK_ANALYSIS_PRIVATE_H

#include <tarn/opencl.h>

#define TARN_BANK_MAX_PATTERNS 40
#define TARN_BANK_MAX_LANES 64

/* An access pattern: the word of local memory that each lane accesses.  Lanes are the work items
 * that may access local memory at the same time.  A word has 4 bytes.  Lane n accesses the word
 * with the index (n % run) * stride + (n / run) * shift: lanes of one run are @stride words apart,
 * and the runs begin @shift words apart. */
typedef struct
{
  guint run;
  guint stride;
  guint shift;
} TarnBankPattern;

guint _tarn_opencl_list_bank_patterns (guint lanes, guint64 bytes, TarnBankPattern *patterns);
guint _tarn_opencl_get_pattern_word (const TarnBankPattern *pattern, guint lane);
guint _tarn_opencl_count_bank_passes (const TarnLocalMemory *memory, const TarnBankPattern *pattern,
                                      guint lanes);
gboolean _tarn_opencl_get_bank_hypothesis (guint index, guint lanes, TarnLocalMemory *memory);
void _tarn_opencl_analyze_banks (const TarnBankPattern *patterns, const gdouble *times, guint n,
                                 guint lanes, TarnOpenclLocalMemory *result);

#endif
