/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Reads environment variables.  Empty variables count as unset; in a set-user-ID program, all do.
 * A file that includes this one must define _GNU_SOURCE before its first #include, for
 * secure_getenv (). */

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

/* Returns FALSE if a variable is "0", TRUE for any other value, @by_default if it is unset or
 * empty. */
static inline gboolean
_tarn_get_switch (const gchar *name, gboolean by_default)
{
  const gchar *text = _tarn_get_variable (name);

  return text != NULL ? !g_str_equal (text, "0") : by_default;
}

#endif
