/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Checks calls with a NULL argument, as after a failed call whose result was not checked. */

#ifndef NULL_ARGUMENT_H
#define NULL_ARGUMENT_H

#include <string.h>
#include <tarn/error.h>

/* Checks a call with a NULL argument.  It names error as its GError, fails with an error that names
 * the argument, and logs nothing. */
#define REFUSES_NULL(call, argument)                                                               \
  G_STMT_START                                                                                     \
  {                                                                                                \
    GError *error = NULL;                                                                          \
                                                                                                   \
    g_assert_false (call);                                                                         \
    g_assert_error (error, TARN_ERROR, TARN_ERROR_INVALID_ARGUMENT);                               \
    g_assert_nonnull (strstr (error->message, argument));                                          \
    g_clear_error (&error);                                                                        \
  }                                                                                                \
  G_STMT_END

#endif
