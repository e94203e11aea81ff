/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The version of the library. */

#include <tarn/version.h>

const gchar *
tarn_get_version (void)
{
  return TARN_VERSION_STRING;
}
