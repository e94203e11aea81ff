/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Checks of invariants, for functions that look for violations in the structs of a pool or a
 * heap. */

#ifndef TARN_CHECK_PRIVATE_H
#define TARN_CHECK_PRIVATE_H

#include <glib.h>

/* Checks that @holds is TRUE.  If it is FALSE, sets the field violation of the struct @walk to a
 * text, which is printed as by printf () from the other arguments.  The owner of the struct frees
 * the text.  If the field has a text already, evaluates neither @holds nor the other arguments,
 * because after a violation they may read invalid memory. */
#define TARN_DEMAND(walk, holds, ...)                                                              \
  G_STMT_START                                                                                     \
  {                                                                                                \
    if ((walk)->violation == NULL && !(holds))                                                     \
      (walk)->violation = g_strdup_printf (__VA_ARGS__);                                           \
  }                                                                                                \
  G_STMT_END

#endif
