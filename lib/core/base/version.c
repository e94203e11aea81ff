/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * The version of the library. */

#include <tarn/version.h>

/**
 * Gets the version of the library that is running. It is a string such as "0.1.0";
 * TARN_VERSION_STRING is the one that the program was compiled with.
 *
 * @return (transfer none): a constant string; any thread may call it
 * @since 0.1
 */
const gchar *
tarn_get_version (void)
{
  return TARN_VERSION_STRING;
}
