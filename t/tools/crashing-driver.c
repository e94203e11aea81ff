/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * An OpenCL driver that aborts as soon as the OpenCL loader asks it for a function. */

#include <stdlib.h>

void *clGetExtensionFunctionAddress (const char *name);

void *
clGetExtensionFunctionAddress (const char *name)
{
  (void) name;
  abort ();
}
