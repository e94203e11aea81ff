/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Prints the number of the default device, for cuda-ranks.t to run under a launcher. */

#include <stdio.h>
#include <tarn/cuda.h>

int
main (void)
{
  g_autoptr (GError) error = NULL;
  CUdevice device;
  CUcontext context = tarn_cuda_make_default_context (&device, &error);

  if (context == NULL)
    {
      fprintf (stderr, "%s\n", error->message);
      return 1;
    }
  printf ("device %d\n", device);
  tarn_cuda_context_release (context);
  return 0;
}
