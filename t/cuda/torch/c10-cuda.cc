/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * A libc10_cuda.so, for torch-throw.t: the class of errors for want of memory is there, as somebody
 * there throws one. */

#include "c10.h"

namespace c10
{
void
throw_out_of_memory ()
{
  throw OutOfMemoryError ({ __func__, __FILE__, __LINE__ }, "for the class's own sake");
}
}
