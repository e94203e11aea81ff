/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Calls Tarn's functions for PyTorch as PyTorch does, and says what was thrown, for torch-throw.t:
 *
 *     program SIZE   bytes
 *     program        a limit that is none */

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include <tarn/cuda.h>

#ifdef WITH_C10
#include "c10.h"
#define COUNT c10::n_errors
#else
#define COUNT 0
#endif

/* By way of a frame that has something to clean up. */
static void *
call (const std::function<void *()> &function)
{
  std::string name (100, 'x');

  return function ();
}

static void
run (const std::function<void *()> &function)
{
#ifdef WITH_C10
  try
    {
      std::printf ("returned %s\n", call (function) == nullptr ? "NULL" : "memory");
    }
  catch (const c10::OutOfMemoryError &error)
    {
      std::printf ("OutOfMemoryError: %s\n", error.what_without_backtrace ());
      std::printf ("%s\n", error.what ());
    }
  catch (const c10::Error &error)
    {
      std::printf ("Error: %s\n", error.what_without_backtrace ());
    }
#else
  std::printf ("returned %s\n", call (function) == nullptr ? "NULL" : "memory");
#endif
}

int
main (int argc, char **argv)
{
  gssize size = argc > 1 ? static_cast<gssize> (std::strtoll (argv[1], nullptr, 10)) : 0;

  for (int round = 0; round < 3; round++)
    run ([=] () -> void * {
      if (argc > 1)
        return tarn_cuda_torch_malloc (size, 0, nullptr);
      tarn_cuda_torch_set_memory_fraction (1.5, 0);
      return nullptr;
    });
  std::printf ("%d left\n", COUNT);
  return 0;
}
