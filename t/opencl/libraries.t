#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# No OpenCL, and libraries that are of no use: what a program is told that is linked with none.
. "$(dirname "$0")/../lib/tap.sh"

each=$top_builddir/t/opencl/no-library # every function
if [ ! -x "$each" ]; then
  skip "libraries" "built without OpenCL"
  done_testing
  exit
fi

# A libOpenCL.so.1 in a folder of its own; standard input is its source.
library () { # NAME
  mkdir -p "$scratch/$1" && cat >"$scratch/$1.c" \
    && $CC -shared -fPIC -Wl,-soname,libOpenCL.so.1 -o "$scratch/$1/libOpenCL.so.1" "$scratch/$1.c"
}

with () { # LIBRARY COMMAND...
  folder=$scratch/$1
  shift
  LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$@"
}

needs_no_opencl () { # LIBRARY
  objdump -p "$1" >"$scratch/needs" && grep 'NEEDED.*libtarn\.so' "$scratch/needs" \
    && ! grep 'NEEDED.*OpenCL' "$scratch/needs"
}
if [ -e "$top_builddir/lib/opencl/.libs/libtarn-opencl.so" ] && command -v objdump >/dev/null; then
  check "the library is linked with no OpenCL" \
    needs_no_opencl "$top_builddir/lib/opencl/.libs/libtarn-opencl.so"
else
  skip "the library is linked with no OpenCL" "no shared library, or no objdump"
fi

mkdir "$scratch/no-library" && echo 'this is no library' >"$scratch/no-library/libOpenCL.so.1"
check "each function, with a file that is no library" with no-library "$each" 0 \
  "there is no OpenCL: $scratch/no-library/libOpenCL.so.1: "
says_no_device () {
  with no-library "$top_builddir/tools/tarn-test" --list >"$scratch/out" 2>"$scratch/err"
  cat "$scratch/out" "$scratch/err"
  ! grep '^opencl' "$scratch/out"
}
check "a program of Tarn's starts, too" says_no_device
if "$each" 0 "there is no OpenCL: libOpenCL.so.1: cannot open" >"$scratch/out" 2>&1; then
  check "each function, with no file at all" true
else
  skip "each function, with no file at all" "this machine has a libOpenCL.so.1"
fi
if [ "$SANITIZER" = no ]; then
  library old <<'CODE'
int clGetPlatformIDs (unsigned int n, void *platforms, unsigned int *count)
{
  (void) n;
  (void) platforms;
  *count = 0;
  return 0;
}
CODE
  check "each function, with a library that is too old" with old "$each" 1 \
    "libOpenCL.so.1 has no function clBuildProgram of OpenCL 1.2"
else
  skip "each function, with a library that is too old" "sanitizers need theirs"
fi
done_testing
