/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The parts of one program of tests, each of which adds its own. */

#ifndef CUDA_ORDER_H
#define CUDA_ORDER_H

void order_add_captures (void);
void order_add_streams (void);
void order_add_threads (void);

#endif
