/* Tarn: memory pools for OpenCL and CUDA.
 * SPDX-License-Identifier: MIT
 *
 * Measures what an allocation from PyTorch's allocator and its free take, in one thread and in
 * several, each with a stream of its own.  Prints the median time of a pair in ns, beside that of
 * malloc (64) and free.  The build does not compile it, because it needs PyTorch and CUDA's
 * headers:
 *
 *     torch=$(python3 -c 'import torch; print(torch.__path__[0])')
 *     g++ -O2 -std=c++17 -I$torch/include -I$CUDA/include t/bench/torch-pairs.cpp -o torch-pairs \
 *         -L$torch/lib -lc10_cuda -lc10 -L$CUDA/lib64 -lcudart -lpthread
 *     LD_LIBRARY_PATH=$torch/lib ./torch-pairs 1 2 4 16
 *     PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True ... ./torch-pairs 1 2 4 16 */

#include <algorithm>
#include <atomic>
#include <c10/cuda/CUDACachingAllocator.h>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

constexpr size_t BYTES = 64 << 10;
constexpr int PAIRS = 20000, REPETITIONS = 5;

static void
check (cudaError_t status)
{
  if (status == cudaSuccess)
    return;
  std::fprintf (stderr, "torch-pairs: %s\n", cudaGetErrorString (status));
  std::exit (1);
}

struct Torch
{
  cudaStream_t stream;

  Torch () { check (cudaStreamCreateWithFlags (&stream, cudaStreamNonBlocking)); }

  void *
  allocate ()
  {
    return c10::cuda::CUDACachingAllocator::raw_alloc_with_stream (BYTES, stream);
  }

  void
  free (void *memory)
  {
    c10::cuda::CUDACachingAllocator::raw_delete (memory);
  }
};

struct Malloc
{
  void *
  allocate ()
  {
    void *volatile memory = std::malloc (64);

    return memory;
  }

  void
  free (void *memory)
  {
    std::free (memory);
  }
};

template <typename Allocator>
static void
use (std::atomic<int> *n_ready, int n_threads)
{
  Allocator allocator;

  allocator.free (allocator.allocate ());
  n_ready->fetch_add (1);
  while (n_ready->load () < n_threads)
    ;
  for (int i = 0; i < PAIRS; i++)
    allocator.free (allocator.allocate ());
}

/* Returns the time of a pair in ns, from the start of the first thread to the end of the last. */
template <typename Allocator>
static double
measure (int n_threads)
{
  std::vector<double> times;

  for (int r = 0; r < REPETITIONS; r++)
    {
      std::atomic<int> n_ready (0);
      std::vector<std::thread> threads;

      for (int i = 1; i < n_threads; i++)
        threads.emplace_back (use<Allocator>, &n_ready, n_threads);
      while (n_ready.load () < n_threads - 1)
        ;
      auto start = std::chrono::steady_clock::now ();
      use<Allocator> (&n_ready, n_threads);
      for (auto &thread : threads)
        thread.join ();
      std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now () - start;
      times.push_back (time.count () / (PAIRS));
    }
  std::sort (times.begin (), times.end ());
  return times[REPETITIONS / 2];
}

int
main (int argc, char **argv)
{
  int n_devices;

  if (argc < 2)
    {
      std::fprintf (stderr, "usage: torch-pairs THREADS...\n");
      return 2;
    }
  std::setvbuf (stdout, nullptr, _IOLBF, 0);
  check (cudaGetDeviceCount (&n_devices));
  check (cudaSetDevice (0));
  check (cudaFree (nullptr));
  c10::cuda::CUDACachingAllocator::init (n_devices);
  for (int i = 1; i < argc; i++)
    {
      int n = std::atoi (argv[i]);

      if (n < 1)
        {
          std::fprintf (stderr, "torch-pairs: '%s' is no number of threads\n", argv[i]);
          return 2;
        }
      std::printf ("%d threads: malloc (64) + free %.1f ns, PyTorch's allocator %.1f ns\n", n,
                   measure<Malloc> (n), measure<Torch> (n));
    }
  return 0;
}
