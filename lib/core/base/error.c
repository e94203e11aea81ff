/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include <tarn/error.h>

#include "common/quark-private.h"

/**
 * Gets the domain of TarnError codes: write TARN_ERROR.
 *
 * @return the quark, the same for the life of the process; any thread may call it
 * @since 0.1
 */
GQuark
tarn_error_quark (void)
{
  static GQuark known; /* atomic */

  return _tarn_quark (&known, "tarn-error-quark");
}
