/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

#include <tarn/error.h>

/**
 * Gets the domain of TarnError codes: write TARN_ERROR.
 *
 * @return the quark, the same for the life of the process; any thread may call it
 * @since 0.1
 */
GQuark
tarn_error_quark (void)
{
  return g_quark_from_static_string ("tarn-error-quark");
}
