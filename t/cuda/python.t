#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# PyTorch and CuPy on Tarn, as doc/examples has it, on the machine's GPU, where they are installed.
. "$(dirname "$0")/../lib/tap.sh"

examples=$top_srcdir/doc/examples
core=$top_builddir/lib/core/.libs cuda=$top_builddir/lib/cuda/.libs

# Why a framework cannot be tried; nothing if it can.
reason_against () { # MODULE EXPRESSION
  if [ ! -e "$cuda/libtarn-cuda.so.0" ]; then
    echo "there is no shared library"
  elif [ "$SANITIZER" != no ]; then
    echo "Python is built without the sanitizer"
  elif ! python3 -c "import $1" 2>/dev/null; then
    echo "there is no $1 for python3"
  elif ! python3 -c "import $1, sys; sys.exit (not $2)" 2>/dev/null; then
    echo "$1 has no GPU"
  fi
}

runs () { # PROGRAM
  (
    LD_LIBRARY_PATH=$cuda:$core${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
    TARN_CUDA_STATS=1 python3 "$examples/$1" >"$scratch/out" 2>"$scratch/err"
  )
  status=$?
  cat "$scratch/out" "$scratch/err"
  return $status
}
says () { # TEXT
  cat "$scratch/out" "$scratch/err"
  grep -qF -e "$1" "$scratch/out" "$scratch/err"
}
both_losses_are_one () {
  cat "$scratch/out"
  [ "$(sed -n 's/^loss \([0-9.e-]*\).*/\1/p' "$scratch/out" | sort -u | wc -l)" -eq 1 ] \
    && [ "$(grep -c '^loss ' "$scratch/out")" -eq 2 ]
}

reason=$(reason_against torch "torch.cuda.is_available ()")
if [ -z "$reason" ]; then
  check "PyTorch" runs torch_on_tarn.py
  check "... a graph computes the same" both_losses_are_one
  check "... its own exception" says "OutOfMemoryError: CUDA out of memory. Tried to allocate"
  check "... statistics at exit" says "peak in use"
else
  skip "PyTorch" "$reason"
fi
reason=$(reason_against cupy "cupy.cuda.runtime.getDeviceCount ()")
if [ -z "$reason" ]; then
  check "CuPy" runs cupy_on_tarn.py
  check "... sorts" says "sorted True"
  check "... a stream" says "sum 999000"
  check "... its own exception" says "OutOfMemoryError: Out of memory allocating 1,125,899,906,842,624 bytes"
else
  skip "CuPy" "$reason"
fi
done_testing
