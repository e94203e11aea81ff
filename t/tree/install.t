#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# What is installed is enough to build and run a program outside the tree: the one in README, and
# others with the static libraries alone, by pkg-config and by CMake.
. "$(dirname "$0")/../lib/tap.sh"

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

reference=$top_builddir/doc/reference
[ -e "$reference/built" ] || reference=$top_srcdir/doc/reference # of a release

# The guide's links lead to what is installed, too: to the reference, unless configure leaves it out.
guide_is_whole () {
  guide=$(dirname "$(find "$stage" -path '*/guide/README.md')")
  absent=
  [ "$have_reference" != no ] || absent=../reference
  grep -h -o ']([^)#:]*' "$guide"/*.md | sed 's/^..//' | grep -vx "$absent" | sort -u >"$scratch/links"
  [ -s "$scratch/links" ] || return
  while read -r link; do
    [ -e "$guide/$link" ] || { echo "no $link"; return 1; }
  done <"$scratch/links"
}
check "the guide and what it links to" guide_is_whole

# As many as were made, where man(1) looks for them.
reference_is_there () {
  find "$stage" -path '*/man/man3/*.3' | wc -l >"$scratch/installed"
  ls "$reference/man3" | wc -l | diff "$scratch/installed" - \
    && diff -r "$reference/html" "$(dirname "$(find "$stage" -path '*/reference/index.html')")" \
    && find "$stage" -path '*/man/man7/tarn.7' | grep . \
    && ! find "$stage" -maxdepth 1 -type f | grep .
}
if [ "$have_reference" != no ]; then
  check "the reference and its manual pages" reference_is_there
else
  skip "the reference and its manual pages" "configured without it"
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

static gboolean
allocate (gpointer user_data, gsize size, TarnMemory *memory, GError **error)
{
  (void) user_data, (void) error;
  memory->pointer = g_malloc (size);
  return TRUE;
}

static void
give_back (gpointer user_data, TarnMemory memory, gsize size)
{
  (void) user_data, (void) size;
  g_free (memory.pointer);
}

int
main (void)
{
  TarnAllocatorOps ops = TARN_ALLOCATOR_OPS_INIT;

  ops.allocate = allocate;
  ops.free = give_back;
  g_autoptr (TarnAllocator) allocator = tarn_allocator_new (&ops, NULL, NULL);
  g_autoptr (TarnPool) pool = tarn_pool_new (allocator, NULL, NULL);
  for (int i = 0; i < 10; i++)
    tarn_block_free (tarn_pool_allocate (pool, 1000, NULL));
  g_print ("%s\n", tarn_get_version ());
  return !TARN_CHECK_VERSION (0, 1, 0) || tarn_pool_get_managed_bytes (pool) != 1023;
}
CODE
build () { # NAME MODULE [FLAG...]: flags are pkg-config's
  name=$1
  shift
  $CC $T_CC_FLAGS -Wall -Wextra -Werror "$scratch/$name.c" -o "$scratch/$name" \
    $($PKG_CONFIG --cflags --libs "$@")
}
check "a program with tarn alone" build core tarn
check "... runs" "$scratch/core"

# A test of a user's: it passes, and finds the hazard and the leak that are planted.
cp "$top_srcdir/doc/examples/testing-memory.c" "$scratch/testing.c"
says () { # PATTERN COMMAND...: which fails
  pattern=$1
  shift
  ! "$@" >"$scratch/out" 2>"$scratch/err" || { echo "it does not fail"; return 1; }
  cat "$scratch/out" "$scratch/err"
  grep -q -e "$pattern" "$scratch/out" "$scratch/err"
}
finds_what_is_planted () {
  says 'queue 1 reads memory 0x1001 of [0-9]* bytes, which queue 0 may still write' \
    "$scratch/testing" --hazard \
    && says '10 allocation(s) of [0-9]* bytes were not freed: memory 0x1001 of [0-9]* bytes' \
      "$scratch/testing" --leak
}
check "a test with tarn-testing" build testing tarn-testing
check "... passes" "$scratch/testing"
check "... finds a hazard, and a leak" finds_what_is_planted

cat >"$scratch/testing-cuda.c" <<'CODE'
#include <tarn/cuda.h>
#include <tarn/testing/cuda.h>

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  CUcontext context = tarn_cuda_make_default_context (NULL, &error);

  (void) argv;
  if (context == NULL)
    g_error ("%s", error->message);
  if (argc == 1)
    tarn_cuda_context_release (context);
  g_print ("%s\n", tarn_testing_cuda_get () != NULL ? "fake" : "real");
  tarn_testing_cuda_assert_no_leaks ();
  return 0;
}
CODE
installed_fake=$($PKG_CONFIG --variable=fakecudadir tarn-testing)
on_installed_fake () {
  LD_LIBRARY_PATH=$installed_fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} HOME=$scratch "$@"
}
is_fake () {
  status_is 0 on_installed_fake "$scratch/testing-cuda" && grep -qx fake "$scratch/out"
}
if [ ! -e "$installed_fake/libcuda.so.1" ]; then
  skip "a test with the fake CUDA driver" "built without it"
else
  check "a test with the fake CUDA driver" build testing-cuda tarn-cuda tarn-testing
  check "... runs on it" is_fake
  check "... finds a leak" says 'the program did not release: 1 context' \
    on_installed_fake "$scratch/testing-cuda" leak
fi

sed -n '/^```c$/,/^```$/{/^```/!p}' "$top_srcdir/README" >"$scratch/readme.c"
check "README has a program" grep -q main "$scratch/readme.c"
if ! $PKG_CONFIG --exists tarn-opencl OpenCL; then
  skip "the program in README" "no tarn-opencl, or no OpenCL.pc"
else
  check "the program in README" build readme tarn-opencl OpenCL
  if "$top_builddir/doc/examples/vector-expression" --backend opencl --list >/dev/null 2>&1; then
    check "... runs" "$scratch/readme"
  else
    skip "... runs" "no OpenCL device"
  fi
  says_why_not () {
    OCL_ICD_VENDORS=/nonexistent status_is 1 "$scratch/readme" && [ ! -s "$scratch/out" ] \
      && grep -q '^OpenCL: CL_PLATFORM_NOT_FOUND_KHR$' "$scratch/err"
  }
  check "... says why it cannot, without a device" says_why_not
fi

# CMake finds the package where it is, which is not where configure meant it to be.
mkdir "$scratch/project"
cp "$scratch/core.c" "$scratch/readme.c" "$scratch/project"
cat >"$scratch/project/CMakeLists.txt" <<'CODE'
cmake_minimum_required (VERSION 3.13)
project (user C)
find_package (tarn ${version} REQUIRED COMPONENTS ${components})
add_executable (core core.c)
target_link_libraries (core PRIVATE tarn::tarn)
if (TARGET tarn::opencl AND "opencl" IN_LIST components)
  add_executable (readme readme.c)
  target_link_libraries (readme PRIVATE tarn::opencl OpenCL)
endif ()
CODE
cmake_configure () { # FOLDER VERSION COMPONENTS [FLAG]...
  folder=$1 version=$2 components=$3
  shift 3
  env PKG_CONFIG_PATH="${PKG_CONFIG_PATH#"$pkgconfig"}" CC="$CC" CFLAGS="$T_CC_FLAGS -Wall -Wextra -Werror" \
    cmake -S "$scratch/project" -B "$scratch/$folder" -Dtarn_DIR="$stage$libdir/cmake/tarn" \
    -Dversion="$version" -Dcomponents="$components" "$@"
}
cmake_build () { # FOLDER
  env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL cmake --build "$scratch/$1"
}
cmake_refuses () { # PATTERN VERSION COMPONENTS
  pattern=$1
  shift
  ! cmake_configure refused "$@" >"$scratch/out" 2>&1 || { echo "it does not fail"; return 1; }
  cat "$scratch/out"
  tr -s ' \n' ' ' <"$scratch/out" | grep -q "$pattern"
}
is_static () { # PROGRAM
  ldd "$scratch/$1" >"$scratch/needs" && grep libglib "$scratch/needs" && ! grep libtarn "$scratch/needs"
}
this_version=$($PKG_CONFIG --modversion tarn)
if ! command -v cmake >/dev/null; then
  skip "CMake" "there is no cmake"
else
  with_opencl=
  ! $PKG_CONFIG --exists tarn-opencl OpenCL || with_opencl=opencl
  check "CMake finds tarn" cmake_configure cmake 0.1 "$with_opencl"
  check "... a program is built with it" cmake_build cmake
  check "... and runs without LD_LIBRARY_PATH" env -u LD_LIBRARY_PATH "$scratch/cmake/core"
  if [ -n "$with_opencl" ]; then
    check "... and the program in README" test -x "$scratch/cmake/readme"
  else
    skip "... and the program in README" "no tarn-opencl, or no OpenCL.pc"
  fi
  check "... this very version" cmake_configure exact "$this_version;EXACT" ""
  check "... a range of versions" cmake_configure range "0.0.1...<99" ""
  check "... no later version" cmake_refuses 'requested version "99' 99 ""
  check "... no later version of this series" cmake_refuses 'requested version "0.99' 0.99 ""
  check "... no component that there is not" cmake_refuses "has no component wave" 0.1 wave
  if [ ! -e "$stage$libdir/libtarn.a" ]; then
    skip "... static libraries" "none were built"
  elif ! command -v ldd >/dev/null; then
    skip "... static libraries" "there is no ldd"
  else
    check "... static libraries" cmake_configure cmake-static 0.1 "$with_opencl" \
      -Dtarn_USE_STATIC_LIBS=ON
    check "... a program is built with them" cmake_build cmake-static
    check "... needs no shared one of ours" is_static cmake-static/core
    check "... and runs" env -u LD_LIBRARY_PATH "$scratch/cmake-static/core"
    [ -z "$with_opencl" ] || check "... and the program in README" is_static cmake-static/readme
  fi
fi

# Static libraries, where no shared one of ours is: neither the linker nor the program finds any.
if [ ! -e "$stage$libdir/libtarn.a" ]; then
  skip "static libraries" "none were built"
  done_testing
  exit
fi
static=$scratch/static
mkdir -p "$static/pkgconfig"
cp "$stage$libdir"/*.a "$static"
for pc in "$pkgconfig"/*.pc; do
  sed "s|^libdir=.*|libdir=$static|" "$pc" >"$static/pkgconfig/${pc##*/}"
done
PKG_CONFIG_PATH=$static/pkgconfig${PKG_CONFIG_PATH#"$pkgconfig"}
LD_LIBRARY_PATH=${LD_LIBRARY_PATH#"$stage$libdir"}
LD_LIBRARY_PATH=${LD_LIBRARY_PATH#:}

needs_no_tarn () { # PROGRAM
  ldd "$scratch/$1" >"$scratch/needs" && ! grep libtarn "$scratch/needs"
}
build_statically () { # DESCRIPTION NAME MODULE...
  description=$1
  program=$2
  shift 2
  check "$description, static libraries" build "$program" --static "$@"
  if command -v ldd >/dev/null; then
    check "... needs no shared one of ours" needs_no_tarn "$program"
  else
    skip "... needs no shared one of ours" "there is no ldd"
  fi
}

build_statically "a program with tarn alone" core tarn
check "... runs" "$scratch/core"

build_statically "a test with tarn-testing" testing tarn-testing
check "... finds a hazard, and a leak" finds_what_is_planted

build_without_libraries () { # NAME MODULE
  $CC $T_CC_FLAGS -static "$scratch/$1.c" -o "$scratch/$1" \
    $($PKG_CONFIG --static --cflags --libs "$2")
}
printf '#include <glib.h>\nint main (void) { return g_strcmp0 ("", ""); }\n' >"$scratch/glib.c"
if [ "$SANITIZER" != no ]; then
  skip "a program that needs no library" "sanitizers need theirs"
elif ! build_without_libraries glib glib-2.0 >/dev/null 2>&1; then
  skip "a program that needs no library" "there is no static GLib or C library"
else
  check "a program that needs no library" build_without_libraries core tarn
  check "... runs" "$scratch/core"
fi

if $PKG_CONFIG --exists tarn-opencl OpenCL; then
  build_statically "the program in README" readme tarn-opencl OpenCL
  if "$top_builddir/doc/examples/vector-expression" --backend opencl --list >/dev/null 2>&1; then
    check "... runs" "$scratch/readme"
  else
    skip "... runs" "no OpenCL device"
  fi
else
  skip "the program in README, static libraries" "no tarn-opencl, or no OpenCL.pc"
fi

cat >"$scratch/cuda.c" <<'CODE'
#include <tarn/cuda.h>

int
main (void)
{
  g_autoptr (GError) error = NULL;
  CUcontext context = tarn_cuda_make_default_context (NULL, &error);

  if (context == NULL) {
    g_printerr ("%s\n", error->message);
    return 1;
  }
  g_autoptr (TarnPool) pool = tarn_cuda_pool_new (NULL, NULL, NULL);
  tarn_block_free (tarn_pool_allocate (pool, 1000, NULL));
  tarn_cuda_context_release (context);
  return tarn_pool_get_managed_bytes (pool) != 1024; /* a multiple of 512 */
}
CODE
if $PKG_CONFIG --exists tarn-cuda; then
  build_statically "a program with tarn-cuda" cuda tarn-cuda
  if [ -e "$fake/libcuda.so.1" ]; then
    check "... runs on the fake driver" with_fake env HOME="$scratch" "$scratch/cuda"
  else
    skip "... runs on the fake driver" "built without it"
  fi
else
  skip "a program with tarn-cuda, static libraries" "built without CUDA"
fi
done_testing
