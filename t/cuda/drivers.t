#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# No CUDA driver, and drivers that are of no use: what a program is told.
. "$(dirname "$0")/../lib/tap.sh"

program=$top_builddir/t/cuda/ranks
each=$top_builddir/t/cuda/no-driver # every function
if [ ! -x "$program" ]; then
  skip "drivers" "built without the fake driver"
  done_testing
  exit
fi
HOME=$scratch
export HOME
unset CUDA_DEVICE

# A libcuda.so.1 in a folder of its own; standard input is its source.
driver () { # NAME
  mkdir -p "$scratch/$1" && cat >"$scratch/$1.c" \
    && $CC -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$scratch/$1/libcuda.so.1" "$scratch/$1.c"
}

# Exit status 1, nothing on standard output, and that text.
says () { # TEXT COMMAND...
  text=$1
  shift
  "$@" >"$scratch/out" 2>"$scratch/err"
  status=$?
  cat "$scratch/out" "$scratch/err"
  [ $status -eq 1 ] && [ ! -s "$scratch/out" ] && grep -qF -e "$text" "$scratch/err"
}

with () { # DRIVER COMMAND...
  folder=$scratch/$1
  shift
  LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$@"
}

echo 'this is no library' >"$scratch/text"
mkdir "$scratch/no-library" && cp "$scratch/text" "$scratch/no-library/libcuda.so.1"
check "a file that is no library" says "there is no CUDA driver: " with no-library "$program"
check "... and which one was tried" grep -q 'libcuda\.so\.1' "$scratch/err"
check "... by each function" with no-library "$each" 0 "there is no CUDA driver: "
if "$program" 2>&1 | grep -q 'libcuda\.so\.1: cannot open shared object file'; then
  check "no file at all" "$each" 0 "there is no CUDA driver: libcuda.so.1: cannot open"
else
  skip "no file at all" "this machine has a libcuda.so.1"
fi
if [ "$SANITIZER" = no ]; then
  driver old <<'CODE'
unsigned int cuInit (unsigned int flags) { return flags; }
unsigned int cuDriverGetVersion (int *version) { *version = 6050; return 0; }
CODE
  check "a driver that is too old" says "it has no function cuDeviceGet; it is of version 6.5" \
    with old "$program"
  check "... by each function" \
    with old "$each" 1 "it has no function cuDeviceGet; it is of version 6.5"
  driver nameless <<'CODE'
unsigned int cuInit (unsigned int flags) { return flags; }
CODE
  check "... and does not say its version" says "it has no function cuDeviceGet" \
    with nameless "$program"
  # All that is required but one function, which is not the first.
  sed -n 's/^  X (cu[A-Za-z]*, \(cu[A-Za-z0-9_]*\),.*/\1/p; /define TARN_CUDA_OPTIONAL/q' \
    "$top_srcdir/lib/cuda/driver-private.h" | grep -v '^cuMemFreeHost$' \
    | sed 's/.*/int & (void) { return 0; }/' | driver almost
  check "a driver that has all functions but the last" says \
    "it has no function cuMemFreeHost" with almost "$program"
  check "... by each function" with almost "$each" 1 "it has no function cuMemFreeHost"
else
  skip "a driver that is too old" "what is compiled here has no sanitizer"
fi
check "no device" says "there is no CUDA device" \
  with_fake env TARN_TESTING_CUDA_DEVICES=0 "$program"
check "CUDA_DEVICE=99" says "CUDA_DEVICE: there is no CUDA device 99; there are 3, from 0 on" \
  with_fake env TARN_TESTING_CUDA_DEVICES=3 CUDA_DEVICE=99 "$program"
check "no device gives a context" says "device 1: cuDevicePrimaryCtxRetain: CUDA_ERROR" \
  with_fake env TARN_TESTING_CUDA_DEVICES=2 TARN_TESTING_CUDA_REFUSE_CONTEXTS=0,1 "$program"
check "cuInit fails" says "cuInit: CUDA_ERROR_INVALID_VALUE (1)" \
  with_fake env TARN_TESTING_CUDA_FAIL=cuInit:1 "$program"
done_testing
