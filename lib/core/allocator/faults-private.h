/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Fault injection: the environment variable TARN_FAULTS makes requests for memory fail. */

#ifndef TARN_FAULTS_PRIVATE_H
#define TARN_FAULTS_PRIVATE_H

#include <tarn/allocator.h>

/* TRUE if environment variables ask Tarn to count requests for memory, or to make some of them fail
 * (fault injection).  Constant after the program has made its first allocator. */
extern gboolean _tarn_faults_are_on __attribute__ ((visibility ("hidden")));

void _tarn_faults_from_environment (void);

/* Counts a request for memory, before the backend is called for it.  Returns FALSE with an error if
 * fault injection makes the request fail. */
gboolean _tarn_fault_admit (const TarnAllocator *allocator, gsize size, GError **error);

/* Subtracts the bytes of a request from the number of bytes in use, to which _tarn_fault_admit ()
 * added them.  Call this if the backend refused the request, or after it has freed the request's
 * memory. */
void _tarn_fault_settle (gsize size);

/* Adds a finding of TARN_DEBUG, a mistake or leak of the program, to the file that the variable
 * TARN_FAULTS_REPORT names.  Writes one line: @kind, and the first line of @text.  Does nothing if
 * the variable is not set. */
void _tarn_faults_report_finding (const gchar *kind, const gchar *text);

#endif
