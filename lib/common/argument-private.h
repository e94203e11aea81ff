/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Checks for NULL arguments, such as a context, a queue or a pool.  A program passes NULL if it did
 * not check an earlier call that failed.  A function with a GError sets that error then, as for any
 * other failure.  All libraries of the project include this file. */

#ifndef TARN_ARGUMENT_PRIVATE_H
#define TARN_ARGUMENT_PRIVATE_H

#include <tarn/error.h>

static __attribute__ ((noinline, cold, unused)) void
_tarn_set_null_error (GError **error, const gchar *function, const gchar *argument)
{
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
               "%s(): %s is NULL; did the call fail that was to give it?", function, argument);
}

/* Makes the surrounding function set its parameter @error and return @value if @argument is
 * NULL. */
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
