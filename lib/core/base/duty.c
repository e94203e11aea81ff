/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The duties of the calling thread.  A duty is a call for whose end other threads may wait: see
 * duty-private.h. */

#include "base/duty-private.h"

_Thread_local guint _tarn_duties[(TARN_MAX_LEVEL + 1) * TARN_N_DUTIES];
