/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Runs as JUnit XML, which Jenkins, GitLab and others read. */

#ifndef JUNIT_H
#define JUNIT_H

#include "run.h"

/* Formats Runs as a whole file.  Free it with g_free (). */
gchar *junit_format (const GPtrArray *runs);

#endif
