/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads environment variables.  An empty variable counts as unset.  In a set-user-ID program, every
 * variable counts as unset.  A file that includes this one must define _GNU_SOURCE before its first
 * #include, for secure_getenv (). */

#ifndef TARN_VARIABLE_PRIVATE_H
#define TARN_VARIABLE_PRIVATE_H

#include <glib.h>
#include <stdlib.h>

/* Returns the value of an environment variable, or NULL if it is unset or empty. */
static inline const gchar *
_tarn_get_variable (const gchar *name)
{
  const gchar *text = secure_getenv (name);

  return text != NULL && *text != '\0' ? text : NULL;
}

/* Returns @by_default if a variable is unset or empty, FALSE if it is "0", and TRUE for other
 * values. */
static inline gboolean
_tarn_get_switch (const gchar *name, gboolean by_default)
{
  const gchar *text = _tarn_get_variable (name);

  return text != NULL ? !g_str_equal (text, "0") : by_default;
}

#endif
