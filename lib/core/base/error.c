/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Errors: the domain of TarnError, and questions about errors. */

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

/**
 * Tells whether a request failed because there is too little memory. Less memory may be had then:
 * a program that works in tiles takes smaller ones, and one with a cache empties it and tries
 * again.
 *
 * That is so for TARN_ERROR_OUT_OF_MEMORY and TARN_ERROR_LIMIT. A driver's own statuses for lack of
 * memory (CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY,
 * CUDA_ERROR_OUT_OF_MEMORY) come as TARN_ERROR_OUT_OF_MEMORY already. A size that no memory of the
 * device has, however empty it is, is not meant: TARN_ERROR_INVALID_SIZE, CL_INVALID_BUFFER_SIZE.
 *
 * @param error  nullable: what a function has set; any thread may call this
 * @return TRUE if it is one of the two; FALSE for any other error, and for NULL
 * @since 0.1
 */
gboolean
tarn_error_is_no_memory (const GError *error)
{
  return g_error_matches (error, TARN_ERROR, TARN_ERROR_OUT_OF_MEMORY)
         || g_error_matches (error, TARN_ERROR, TARN_ERROR_LIMIT);
}
