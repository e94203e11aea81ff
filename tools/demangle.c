/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Demangles symbols with C++'s library, which is loaded only if a symbol needs it. */

#include "demangle.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* A symbol with this many bytes or more is not demangled.  A function hardly ever has such a long
 * symbol, but a damaged file may contain one. */
#define MAX_LENGTH 2000

/* __cxa_demangle () of the C++ ABI, section 3.4.  It returns memory from malloc (). */
typedef char *(*Demangle) (const char *symbol, char *buffer, size_t *size, int *status);

/* Finds the demangler in C++'s library.  Opens the library on the first call, and keeps it open.
 * Returns NULL if the library is not installed. */
static Demangle
find_function (void)
{
  static gsize is_done = 0;
  static Demangle function = NULL;

  if (g_once_init_enter (&is_done))
    {
      gpointer library = dlopen ("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);

      if (library != NULL)
        *(gpointer *) &function = dlsym (library, "__cxa_demangle");
      g_once_init_leave (&is_done, 1);
    }
  return function;
}

gchar *
demangle (const gchar *symbol)
{
  Demangle function = NULL;
  gchar *name, *copy;
  gint status;

  if (g_str_has_prefix (symbol, "_Z") && strnlen (symbol, MAX_LENGTH) < MAX_LENGTH)
    function = find_function ();
  name = function != NULL ? function (symbol, NULL, NULL, &status) : NULL;
  copy = g_strdup (name != NULL ? name : symbol);
  free (name);
  return copy;
}
