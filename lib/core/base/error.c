/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Defines the error domain of TarnError, and tests whether an error means that memory has run out
 * or that a limit is reached. */

#include <tarn/error.h>

#include "common/quark-private.h"

GQuark
tarn_error_quark (void)
{
  static GQuark known; /* the cached quark; accessed atomically */

  return _tarn_quark (&known, "tarn-error-quark");
}

gboolean
tarn_error_is_no_memory (const GError *error)
{
  return g_error_matches (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY)
         || g_error_matches (error, TARN_ERROR, TARN_ERROR_LIMIT);
}
