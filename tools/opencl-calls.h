/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Lets tools call OpenCL without being linked with it, as in OPENCL (clFinish) (queue). */

#ifndef OPENCL_CALLS_H
#define OPENCL_CALLS_H

#include <tarn/opencl.h>

/* Gets an OpenCL function, or aborts if OpenCL is not installed.  A tool that has found an OpenCL
 * device need not check this: OpenCL is installed then. */
#define OPENCL(name) ((__typeof__ (&(name))) opencl_find (#name))

static inline gpointer
opencl_find (const gchar *name)
{
  g_autoptr (GError) error = NULL;
  gpointer function = tarn_opencl_get_function (name, &error);

  if (function == NULL)
    g_error ("%s", error->message);
  return function;
}

#endif
