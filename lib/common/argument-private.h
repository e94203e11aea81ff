/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Checks for NULL arguments: a context, a queue, a pool.  The program got the NULL from a call that
 * failed, and did not check it.  A function with a GError reports that there, as the failed call
 * reported its failure.  All of the libraries include this file. */

#ifndef TARN_ARGUMENT_PRIVATE_H
#define TARN_ARGUMENT_PRIVATE_H

#include <tarn/error.h>

static __attribute__ ((noinline, cold, unused)) void
_tarn_set_null_error (GError **error, const gchar *function, const gchar *argument)
{
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
               "%s(): %s is NULL; did the call fail that was to give it?", function, argument);
}

/* Makes the calling function set its parameter error and return a value if an argument is NULL. */
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
