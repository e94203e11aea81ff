/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Checks for NULL arguments of public functions, such as a context, a queue or a pool.  A program
 * passes NULL if it did not check whether an earlier call failed.  The function that gets NULL sets
 * its GError argument, if it has one.  All libraries of the project include this file. */

#ifndef TARN_ARGUMENT_PRIVATE_H
#define TARN_ARGUMENT_PRIVATE_H

#include <tarn/error.h>

static __attribute__ ((noinline, cold, unused)) void
_tarn_set_null_error (GError **error, const gchar *function, const gchar *argument)
{
  g_set_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT,
               "%s(): %s is NULL; the call that should have returned it has probably failed",
               function, argument);
}

/* Checks an argument at the beginning of a function.  If @argument is NULL, sets the function's
 * GError argument, whose name must be error, and returns @value from the function. */
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
