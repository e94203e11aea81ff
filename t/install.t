#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# What is installed is enough to build and run a program outside the tree: the one in README.
. "$(dirname "$0")/tap.sh"

if [ ! -f "$top_builddir/Makefile" ] || [ -z "$libdir" ]; then
  skip "install" "run by make check only"
  done_testing
  exit
fi

stage=$scratch/stage
check "make install" env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL \
  "$MAKE" -C "$top_builddir" install DESTDIR="$stage"

# CUDA's driver is opened where it is needed, and nothing of CUDA's is linked.
links_no_cuda () {
  find "$stage" -type f \( -name '*.so*' -o -perm -u+x \) | while read -r file; do
    ldd "$file" 2>/dev/null
  done >"$scratch/ldd"
  grep -q libglib "$scratch/ldd" && ! grep -i -e libcuda -e libcudart -e nvidia "$scratch/ldd"
}
if command -v ldd >/dev/null; then
  check "nothing that is installed is linked with CUDA" links_no_cuda
else
  skip "nothing that is installed is linked with CUDA" "there is no ldd"
fi

if [ -n "${PKG_CONFIG_SYSROOT_DIR:-}" ]; then
  skip "a program outside the tree" "pkg-config puts $PKG_CONFIG_SYSROOT_DIR before every path"
  done_testing
  exit
fi

# The paths in it are for after the stage was copied to /; here it is used where it is.
pkgconfig=$stage$libdir/pkgconfig
for pc in "$pkgconfig"/*.pc; do
  sed -i "s|^\([a-z_]*\)=/|\1=$stage/|" "$pc"
done
PKG_CONFIG_PATH=$pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
LD_LIBRARY_PATH=$stage$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PKG_CONFIG_PATH LD_LIBRARY_PATH

check "pkg-config tarn" $PKG_CONFIG --cflags --libs tarn
cat >"$scratch/core.c" <<'CODE'
#include <tarn/tarn.h>

int
main (void)
{
  g_print ("%s\n", tarn_get_version ());
  return !TARN_CHECK_VERSION (0, 1, 0);
}
CODE
build () { # NAME MODULE
  $CC $T_CC_FLAGS -Wall -Wextra -Werror "$scratch/$1.c" -o "$scratch/$1" \
    $($PKG_CONFIG --cflags --libs "$2")
}
check "a program with tarn alone" build core tarn
check "... runs" "$scratch/core"

sed -n '/^```c$/,/^```$/{/^```/!p}' "$top_srcdir/README" >"$scratch/readme.c"
check "README has a program" grep -q main "$scratch/readme.c"
if ! $PKG_CONFIG --exists tarn-opencl; then
  skip "the program in README" "no tarn-opencl, or no OpenCL.pc"
else
  check "the program in README" build readme tarn-opencl
  if "$top_builddir/doc/examples/vector-expression" --backend opencl --list >/dev/null 2>&1; then
    check "... runs" "$scratch/readme"
  else
    skip "... runs" "no OpenCL device"
  fi
fi
done_testing
