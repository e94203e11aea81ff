/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT */

/**
 * @file
 * Errors: the codes that are the same whatever the driver.
 */

#ifndef TARN_ERROR_H
#define TARN_ERROR_H

#include <glib.h>

G_BEGIN_DECLS

/**
 * The domain of errors that are the same whatever the driver. Its codes are those of TarnError; a
 * backend has a domain of its own for the driver's other statuses.
 *
 * @since 0.1
 */
#define TARN_ERROR (tarn_error_quark ())

/**
 * The codes of TARN_ERROR.
 *
 * @since 0.1
 */
typedef enum
{
  TARN_ERROR_OUT_OF_MEMORY, /**< the driver has no memory left, and the pool no cached memory */
  TARN_ERROR_INVALID_SIZE,  /**< a size that is too large to be counted in bytes */
  /**
   * An argument or option outside its range. In functions with a GError, also an object (a context,
   * queue, pool, allocator, block) that is NULL, for example because the call that should have
   * returned it failed.
   */
  TARN_ERROR_INVALID_ARGUMENT,
  TARN_ERROR_INVALID_SELECTION, /**< a choice of devices that cannot be read or matches none */
  TARN_ERROR_NO_DEVICE,         /**< no such device */
  TARN_ERROR_NO_DRIVER,         /**< the driver's library is missing or too old */
  TARN_ERROR_NO_CONTEXT,        /**< no context is current */
  TARN_ERROR_NOT_SUPPORTED,     /**< the device or the driver cannot do it */
  TARN_ERROR_LIMIT,             /**< a limit that the program set for itself */
  TARN_ERROR_CONTEXT_LOST,      /**< the context was destroyed */
  TARN_ERROR_FORKED,            /**< a child of fork (), where no driver may be called */
  TARN_ERROR_RECURSION,         /**< a computation asked for its own result, or a function of the
                                     backend made a call that would have waited for this function */
  TARN_ERROR_FAILED             /**< anything else */
} TarnError;

/**
 * Gets the domain of TarnError codes: write TARN_ERROR.
 *
 * @return the quark, the same for the life of the process; any thread may call it
 * @since 0.1
 */
GQuark tarn_error_quark (void);

/**
 * Tells whether a request failed because there is too little memory. A smaller request may then
 * succeed: a program that works in tiles retries with smaller ones, and a program with a cache
 * empties it and retries.
 *
 * The codes are TARN_ERROR_OUT_OF_MEMORY and TARN_ERROR_LIMIT. If a driver returns one of these
 * statuses to Tarn, the error is TARN_ERROR_OUT_OF_MEMORY: CL_MEM_OBJECT_ALLOCATION_FAILURE,
 * CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY, CUDA_ERROR_OUT_OF_MEMORY. An error that the program
 * makes itself from such a status, as a TARN_OPENCL_ERROR for example, is not converted. A request
 * that would fail even on an empty device has another code: TARN_ERROR_INVALID_SIZE, or
 * TARN_OPENCL_ERROR with CL_INVALID_BUFFER_SIZE.
 *
 * @param error  nullable: what a function has set; any thread may call this
 * @return TRUE if the error has one of the two codes; FALSE for any other error, and for NULL
 * @since 0.1
 */
gboolean tarn_error_is_no_memory (const GError *error);

G_END_DECLS

#endif
