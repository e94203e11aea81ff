/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Exit statuses of a program that runs another program, the same as those of env(1) and timeout(1).
 */

#ifndef EXIT_STATUS_H
#define EXIT_STATUS_H

#define EXIT_USAGE 2
#define EXIT_OURS 125
#define EXIT_NOT_EXECUTED 126
#define EXIT_NOT_FOUND 127
#define EXIT_SIGNALLED 128 /* the exit status is this number plus the signal's number */

#endif
