/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Fault injection: TARN_FAULTS makes requests fail. */

#ifndef TARN_FAULTS_PRIVATE_H
#define TARN_FAULTS_PRIVATE_H

#include <tarn/allocator.h>

/* TRUE if the environment asks Tarn to count requests for memory, or to make some fail.  Constant
 * after the first allocator is made. */
extern gboolean _tarn_faults_are_on __attribute__ ((visibility ("hidden")));

void _tarn_faults_from_environment (void);

/* Counts a request before the backend gets it.  Returns FALSE with an error if it has to fail. */
gboolean _tarn_fault_admit (const TarnAllocator *allocator, gsize size, GError **error);

/* Subtracts the bytes of a request that _tarn_fault_admit () counted, because the backend refused
 * the request or has freed its memory. */
void _tarn_fault_settle (gsize size);

/* Adds a line to the file TARN_FAULTS_REPORT, if that variable is set: the kind of a finding of
 * TARN_DEBUG, and the first line of its message. */
void _tarn_faults_report_finding (const gchar *kind, const gchar *text);

#endif
