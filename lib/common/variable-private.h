/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads environment variables.  An empty variable counts as unset.  A set-user-ID program reads
 * none.  A file that includes this one must define _GNU_SOURCE first, for secure_getenv (). */

#ifndef TARN_VARIABLE_PRIVATE_H
#define TARN_VARIABLE_PRIVATE_H

#include <glib.h>
#include <stdlib.h>

/* Gets the value of a variable.  Returns NULL if the variable is unset or empty. */
static inline const gchar *
_tarn_get_variable (const gchar *name)
{
  const gchar *text = secure_getenv (name);

  return text != NULL && *text != '\0' ? text : NULL;
}

/* Returns FALSE if a variable is "0", TRUE if it is another text, @by_default if unset or empty. */
static inline gboolean
_tarn_get_switch (const gchar *name, gboolean by_default)
{
  const gchar *text = _tarn_get_variable (name);

  return text != NULL ? !g_str_equal (text, "0") : by_default;
}

#endif
