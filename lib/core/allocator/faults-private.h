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

/* The backend did not grant a request that was admitted, or was given its memory back. */
void _tarn_fault_settle (gsize size);

/* Adds the first line of what TARN_DEBUG found, of a kind, to the report if there is one. */
void _tarn_faults_report_finding (const gchar *kind, const gchar *text);

#endif
