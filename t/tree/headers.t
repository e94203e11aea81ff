#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# Every public header stands alone, in every C and in C++, without a warning of its own.
. "$(dirname "$0")/../lib/tap.sh"

system_flags=$(echo "$T_CFLAGS $T_OPENCL_CFLAGS" | sed 's/-I/-isystem /g')
flags="-Wall -Wextra -pedantic -Werror -fsyntax-only $system_flags
  -UCL_TARGET_OPENCL_VERSION -DCL_TARGET_OPENCL_VERSION=120
  -I$top_srcdir/include -I$top_builddir/include"

for name in $(cd "$top_srcdir/include" && ls tarn/*.h tarn/*.h.in | sed 's/\.in$//' | sort -u); do
  [ "$name,$have_opencl" != tarn/opencl.h,no ] || continue
  cat >"$scratch/alone.c" <<CODE
#include <$name>
#include <$name>

int main (void);

int
main (void)
{
#ifdef TARN_POOL_OPTIONS_INIT
  TarnPoolOptions options = TARN_POOL_OPTIONS_INIT;
  TarnPoolStats stats = TARN_POOL_STATS_INIT;
  if (options.struct_size == stats.struct_size)
    return 1;
#endif
#ifdef TARN_ALLOCATOR_OPS_INIT
  {
    TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;
    if (ops.struct_size == 0)
      return 1;
  }
#endif
#ifdef TARN_MEMO_OPS_INIT
  {
    TarnMemoOps ops = TARN_MEMO_OPS_INIT;
    TarnMemoStats memo_stats = TARN_MEMO_STATS_INIT;
    TarnMemoKeyPart parts[] = { tarn_memo_key_integer (1), tarn_memo_key_string ("a") };
    if (ops.struct_size == memo_stats.struct_size || parts[0].type == parts[1].type)
      return 1;
  }
#endif
#ifdef TARN_CUDA_DEVICE_DATA_INIT
  {
    TarnCudaDeviceData data = TARN_CUDA_DEVICE_DATA_INIT;
    TarnCudaOccupancy occupancy = TARN_CUDA_OCCUPANCY_INIT;
    if (data.struct_size == occupancy.struct_size)
      return 1;
  }
#endif
  return 0;
}
CODE
  cp "$scratch/alone.c" "$scratch/alone.cc"
  for std in c99 c11 c17; do
    check "$name as $std" $CC -std=$std $flags "$scratch/alone.c"
  done
  if $CXX --version >/dev/null 2>&1; then
    for std in c++11 c++17; do
      check "$name as $std" $CXX -std=$std $flags "$scratch/alone.cc"
    done
  else
    skip "$name as c++17" "no C++ compiler"
  fi
done
done_testing
