/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Fault injection: TARN_FAULTS makes requests fail. */

#ifndef TARN_FAULTS_PRIVATE_H
#define TARN_FAULTS_PRIVATE_H

#include <tarn/allocator.h>

/* Returns TRUE if requests are counted, or made to fail, as the environment says.  Constant once an
 * allocator was made. */
extern gboolean _tarn_faults_are_on __attribute__ ((visibility ("hidden")));

void _tarn_faults_from_environment (void);

/* Counts a request before the backend gets it.  Returns FALSE with an error if it is to fail. */
gboolean _tarn_fault_admit (const TarnAllocator *allocator, gsize size, GError **error);

/* Uncounts the bytes of an admitted request, because the backend refused it or has freed its
 * memory. */
void _tarn_fault_settle (gsize size);

/* Adds a finding of TARN_DEBUG to the report, if there is one: its kind and its first line. */
void _tarn_faults_report_finding (const gchar *kind, const gchar *text);

#endif
