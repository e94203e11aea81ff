/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Checks for arguments that are NULL: a context, a queue, a pool.  The program got them from a call
 * that failed, and did not check it.  A function that has a GError reports them there, as that call
 * reported its failure.  All of the libraries include this. */

#ifndef TARN_ARGUMENT_PRIVATE_H
#define TARN_ARGUMENT_PRIVATE_H

#include <tarn/error.h>

static __attribute__ ((noinline, cold, unused)) void
_tarn_set_null_error (GError **error, const gchar *function, const gchar *argument)
{
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
               "%s(): %s is NULL; did the call fail that was to give it?", function, argument);
}

/* Returns a value from the calling function, and sets its parameter error, if an argument is NULL.
 */
#define TARN_REFUSE_NULL(argument, value)                                                          \
  G_STMT_START                                                                                     \
  {                                                                                                \
    if (G_UNLIKELY ((argument) == NULL))                                                           \
      {                                                                                            \
        _tarn_set_null_error (error, G_STRFUNC, #argument);                                        \
        return value;                                                                              \
      }                                                                                            \
  }                                                                                                \
  G_STMT_END

#endif
