#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# What a C++ program is thrown that has PyTorch's libraries, here stand-ins for them, and what one is
# told that has none.
. "$(dirname "$0")/../lib/tap.sh"

sources=$top_srcdir/t/cuda/torch
libraries="$top_builddir/lib/cuda/.libs $top_builddir/lib/core/.libs"
reason=
[ -e "$fake/libcuda.so.1" ] || reason="built without the fake driver"
$CXX --version >/dev/null 2>&1 || reason="no C++ compiler"
[ "$SANITIZER" = no ] || reason="the stand-ins are built without the sanitizer"
if [ -n "$reason" ]; then
  skip "PyTorch's exceptions" "$reason"
  done_testing
  exit
fi

flags="-I$top_srcdir/include -I$top_builddir/include $T_CFLAGS -O1 -g -Wall -Wextra"
links=
for folder in $libraries; do
  links="$links -L$folder -Wl,-rpath-link,$folder"
done
links="$links -ltarn-cuda -ltarn $($PKG_CONFIG --libs glib-2.0)"

build () {
  $CXX $flags -fPIC -shared -Wl,-soname,libc10.so -o "$scratch/libc10.so" "$sources/c10.cc" \
    && $CXX $flags -fPIC -shared -Wl,-soname,libc10_cuda.so -o "$scratch/libc10_cuda.so" \
      "$sources/c10-cuda.cc" -L"$scratch" -lc10 \
    && $CXX $flags -DWITH_C10 -o "$scratch/with" "$sources/program.cc" -Wl,--no-as-needed \
      -L"$scratch" -lc10_cuda -lc10 $links \
    && $CXX $flags -DWITH_C10 -o "$scratch/half" "$sources/program.cc" -Wl,--no-as-needed \
      -L"$scratch" -lc10 $links \
    && $CXX $flags -o "$scratch/without" "$sources/program.cc" $links
}

runs () { # PROGRAM ARGUMENT...
  program=$1
  shift
  LD_LIBRARY_PATH=$(echo "$scratch $libraries" | tr ' ' :)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export LD_LIBRARY_PATH
  G_MESSAGES_DEBUG=Tarn-CUDA TARN_TESTING_CUDA_TOTAL_MEMORY=100000000 with_fake "$scratch/$program" "$@" >"$scratch/out" 2>"$scratch/err"
}

# Each line of standard input three times, as the program calls thrice, and none left.
prints () { # PROGRAM ARGUMENT...
  cat >"$scratch/expected"
  (runs "$@") || return
  cat "$scratch/out" "$scratch/err"
  while IFS= read -r line; do
    [ "$(grep -cF -e "$line" "$scratch/out" "$scratch/err" | awk -F: '{ n += $2 } END { print n }')" \
      -eq 3 ] || { echo "not thrice: $line"; return 1; }
  done <"$scratch/expected"
  grep -qx '0 left' "$scratch/out"
}

check "stand-ins for PyTorch's libraries" build
check "memory is no exception" prints with 1000000 <<'EOF'
returned memory
EOF
check "no memory is an OutOfMemoryError, whose message begins as PyTorch's" prints with 300000000 <<'EOF'
OutOfMemoryError: CUDA out of memory. Tried to allocate 286.10 MiB on device 0. 0.00 KiB are in use by 0 tensors of this process, which has 0.00 KiB of the device's 95.37 MiB
from tarn_cuda_torch_malloc of libtarn-cuda
EOF
check "anything else is an Error" prints with <<'EOF'
Error: Tarn: a fraction of 1.5 of the device's memory is not between 0 and 1
EOF
check "without PyTorch it is a message, and NULL" prints without 300000000 <<'EOF'
returned NULL
CUDA out of memory. Tried to allocate 286.10 MiB
EOF
check "with half of it, too" prints half 300000000 <<'EOF'
returned NULL
CUDA out of memory. Tried to allocate 286.10 MiB
EOF
done_testing
