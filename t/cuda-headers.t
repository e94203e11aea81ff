#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# What we declare of CUDA's driver, compared with <cuda.h>, where there is one: a function with a
# size of 32 bits in it links and runs as well as the right one.
. "$(dirname "$0")/tap.sh"

if [ "${cuda_headers:-no}" = no ]; then
  skip "our declarations are those of <cuda.h>" "there is no <cuda.h>: --with-cuda-headers=DIR"
  done_testing
  exit
fi
flags="-Wall -Wextra -Werror -fsyntax-only -isystem $cuda_headers
  $(echo "$T_CFLAGS" | sed 's/-I/-isystem /g')
  -I$top_srcdir/include -I$top_builddir/include -I$top_srcdir/lib/cuda"

printf '#include <tarn/cuda.h>\n#include <cuda.h>\nint main (void) { return 0; }\n' \
  >"$scratch/before.c"
printf '#include <cuda.h>\n#include <tarn/cuda.h>\nint main (void) { return 0; }\n' \
  >"$scratch/after.c"
for order in before after; do
  cp "$scratch/$order.c" "$scratch/$order.cc"
  check "<tarn/cuda.h> $order <cuda.h>, C11" $CC -std=c11 $flags "$scratch/$order.c"
  if $CXX --version >/dev/null 2>&1; then
    check "<tarn/cuda.h> $order <cuda.h>, C++17" $CXX -std=c++17 $flags "$scratch/$order.cc"
  else
    skip "<tarn/cuda.h> $order <cuda.h>, C++17" "no C++ compiler"
  fi
done

# The versions of the functions themselves: without that, its macros give cuCtxCreate the name of
# whichever is the newest.
cat >"$scratch/table.c" <<'CODE'
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include "driver-private.h"
#define SAME(name, symbol, arguments)                                                               \
  _Static_assert (__builtin_types_compatible_p (__typeof__ (&symbol), unsigned int (*) arguments), \
                  #symbol " is declared otherwise");
TARN_CUDA_REQUIRED (SAME)
TARN_CUDA_OPTIONAL (SAME)
#define EQUAL(ours, theirs) _Static_assert ((int) ours == (int) theirs, #ours);
EQUAL (TARN_CUDA_SUCCESS, CUDA_SUCCESS)
EQUAL (TARN_CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE)
EQUAL (TARN_CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY)
EQUAL (TARN_CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED)
EQUAL (TARN_CUDA_ERROR_NO_DEVICE, CUDA_ERROR_NO_DEVICE)
EQUAL (TARN_CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT)
EQUAL (TARN_CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED)
EQUAL (TARN_CUDA_MEM_ATTACH_GLOBAL, CU_MEM_ATTACH_GLOBAL)
CODE
check "the table of functions, and constants" $CC -std=gnu11 $flags "$scratch/table.c"

# The comparison itself sees a difference.
sed 's/TARN_CUDA_REQUIRED (SAME)/SAME (, cuMemAlloc_v2, (CUdeviceptr *, unsigned int))/' \
  "$scratch/table.c" >"$scratch/wrong.c"
sees_difference () {
  ! $CC -std=gnu11 $flags "$scratch/wrong.c" 2>"$scratch/why" \
    && grep -q "cuMemAlloc.* is declared otherwise" "$scratch/why"
}
check "... and a wrong one is seen" sees_difference
done_testing
