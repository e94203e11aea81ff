/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Runs as JUnit XML, as Jenkins, GitLab and their like read it. */

#ifndef JUNIT_H
#define JUNIT_H

#include "run.h"

/* All of a file; @runs: of Run.  Free it with g_free (). */
gchar *junit_format (const GPtrArray *runs);

#endif
