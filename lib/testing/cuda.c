/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Gives a test access to the fake CUDA driver. Such a test loads the fake driver in place of the
 * real one. */

#include <dlfcn.h>
#include <tarn/testing/cuda.h>

#include "testing/device-private.h"

const TarnTestingCuda *
tarn_testing_cuda_get (void)
{
  /* The library is never closed, because the caller may use the returned functions at any time. */
  gpointer library = dlopen ("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const TarnTestingCuda *(*get) (void) = NULL;

  if (library != NULL)
    *(gpointer *) &get = dlsym (library, "tarn_fake_cuda");
  return get != NULL ? get () : NULL;
}

void
tarn_testing_cuda_assert_no_leaks (void)
{
  const TarnTestingCuda *fake = tarn_testing_cuda_get ();
  g_autofree gchar *live = fake != NULL ? fake->describe_live () : NULL;
  g_autofree gchar *text = g_strconcat ("the program did not release: ", live, NULL);

  if (live != NULL)
    _tarn_testing_end (G_STRFUNC, text);
}
