#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# Every block of code in doc/guide is compiled and run, and so is every line for the shell.  The
# programs there and in doc/examples run under tarn-run --every as well.  What a block is, its first
# line says:
#   ```c NAME.c         a program: compiled by itself, and saved under that name for the shell; one that
#                       includes CL/cl.h needs nothing of ours
#   ```cpp NAME.cpp     the same in C++
#   ```make NAME, ```cmake NAME
#                       a file: saved under that name
#   ```c                a fragment: the body of a function.  All of a page are one program, behind
#                       what the page has in comments <!-- c ... -->, where begin () is defined,
#                       which comes first when the program runs
#   ```c functions      the same, outside functions
#   ```c doc/examples/NAME.c, ```cpp doc/examples/NAME.cpp
#                       a quotation of that file, which make compiles, and the shell finds
#   ```python doc/examples/NAME.py
#                       the same of a program that t/cuda/python.t runs
#   ```sh               run by a shell, in a folder with those files
#   ```output           what that prints: these lines, among others; ... stands for anything
#   ```console          for a shell, and not run; <!-- not run: WHY --> stands before it
. "$(dirname "$0")/../lib/tap.sh"

guide=$top_srcdir/doc/guide
if [ ! -f "$top_builddir/pkgconfig/tarn-uninstalled.pc" ] || [ -n "${PKG_CONFIG_SYSROOT_DIR:-}" ]; then
  skip "guide" "this tree is not configured, or pkg-config is for another one"
  done_testing
  exit
fi

# Programs are built with this tree, as t/tree/pkg-config.t is; those for CUDA run on the fake driver.
PKG_CONFIG_PATH=$top_builddir/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_PATH
# Nobody else builds kernels into it meanwhile.
POCL_CACHE_DIR=$scratch/kernels
export POCL_CACHE_DIR
bin=$scratch/bin
# By names that a user writes, whatever they are here.
mkdir "$bin" "$scratch/include"
cat >"$bin/cc" <<CODE
#!/bin/sh
PATH='$PATH' && export PATH
exec $CC $T_CC_FLAGS -I'$scratch/include' "\$@" -L'$fake'
CODE
cat >"$bin/c++" <<CODE
#!/bin/sh
PATH='$PATH' && export PATH
exec $CXX $T_CXX_FLAGS -I'$scratch/include' "\$@" -L'$fake'
CODE
cat >"$bin/pkg-config" <<CODE
#!/bin/sh
PATH='$PATH' && export PATH
exec $PKG_CONFIG "\$@"
CODE
chmod +x "$bin/cc" "$bin/c++" "$bin/pkg-config"
PATH=$bin:$top_builddir/tools:$PATH

# What a page wants of <cuda.h> is what the fake driver has.
{
  echo '#include "fake-cuda.h"'
  echo 'typedef unsigned int CUresult;'
  echo '#define CUDA_SUCCESS 0'
  echo '#define CU_STREAM_CAPTURE_MODE_GLOBAL 0'
  sed -n 's/^.*F (\(cu[A-Za-z0-9_]*\), \(cu[A-Za-z0-9_]*\),.*/#define \1 \2/p' \
    "$top_srcdir/lib/testing/cuda/fake-cuda.h"
} >"$scratch/include/cuda.h"
cp "$top_srcdir/lib/testing/cuda/fake-cuda.h" "$scratch/include"

has_opencl=no
! "$top_builddir/doc/examples/vector-expression" --backend opencl --list >/dev/null 2>&1 \
  || has_opencl=yes
has_layers=no
! OPENCL_LAYERS=$top_builddir/lib/opencl/layer/.libs/libtarn-layer.so TARN_LAYER_STATS=1 \
  "$top_builddir/doc/examples/vector-expression" --backend opencl --list 2>&1 \
  | grep -q '^Tarn: OpenCL buffers' || has_layers=yes
has_cuda=no
[ ! -e "$fake/libcuda.so.1" ] || has_cuda=yes
has_cxx=no
printf '#include <memory_resource>\n#include <variant>\n' >"$scratch/cxx17.cc"
! c++ -std=c++17 -fsyntax-only "$scratch/cxx17.cc" 2>/dev/null || has_cxx=yes

# Or that of the same name for C++, tarn/opencl.hpp for tarn/opencl.h, which includes it.
includes () { # HEADER FILE...
  header=$1
  shift
  cat "$@" | grep -q "^#include <$header\(pp\)\?>"
}
is_cxx () { # FILE...
  cat "$@" | grep -q '^#include <tarn/.*\.hpp>'
}

# Why what includes these headers can be neither built nor run; nothing if it can.
cannot_build () { # FILE...
  if is_cxx "$@" && [ $has_cxx = no ]; then
    echo "there is no compiler for C++17"
  elif includes tarn/opencl.h "$@" && [ ! -f "$top_builddir/lib/opencl/libtarn-opencl.la" ]; then
    echo "built without OpenCL"
  elif includes tarn/cuda.h "$@" && [ ! -f "$top_builddir/lib/cuda/libtarn-cuda.la" ]; then
    echo "built without CUDA"
  elif includes cuda.h "$@" && [ $has_cuda = no ]; then
    echo "built without the fake CUDA driver"
  elif { includes CL/cl.h "$@" || includes tarn/opencl.h "$@"; } \
    && ! $PKG_CONFIG --exists OpenCL; then
    echo "pkg-config knows no OpenCL"
  fi
}
cannot_run () { # FILE...
  if { includes tarn/opencl.h "$@" || includes CL/cl.h "$@"; } && [ $has_opencl = no ]; then
    echo "no OpenCL device"
  elif includes tarn/cuda.h "$@" && [ $has_cuda = no ]; then
    echo "built without the fake CUDA driver"
  fi
}

calls_opencl () { # SOURCE
  includes tarn/opencl.h "$1" && grep -q '\<cl[A-Z][A-Za-z]* (' "$1"
}
build () { # SOURCE PROGRAM
  modules=tarn
  ! includes tarn/opencl.h "$1" || modules="$modules tarn-opencl"
  ! includes tarn/cuda.h "$1" || modules="$modules tarn-cuda"
  ! { includes tarn/testing.h "$1" || includes tarn/testing/cuda.h "$1"; } \
    || modules="$modules tarn-testing"
  ! includes CL/cl.h "$1" || modules=OpenCL
  ! calls_opencl "$1" || modules="$modules OpenCL"
  libraries=
  ! includes cuda.h "$1" || libraries=-lcuda
  if is_cxx "$1"; then
    # shellcheck disable=SC2046,SC2086  # flags are words
    c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -x c++ "$1" -x none -o "$2" \
      $(pkg-config --cflags --libs $modules) $libraries
    return
  fi
  # Clang counts what only a cleanup uses as unused.
  # shellcheck disable=SC2046,SC2086  # flags are words
  cc -std=gnu11 -Wall -Wextra -Wno-unused-function -Wno-unused-variable -Werror \
    -x c "$1" -x none -o "$2" $(pkg-config --cflags --libs $modules) $libraries
}

run () { # COMMAND...: in the page's folder
  (
    cd "$page/files" || exit
    ! includes tarn/cuda.h "$page"/all || { HOME=$scratch && export HOME; }
    unset CUDA_DEVICE
    ! includes tarn/cuda.h "$page"/all || LD_LIBRARY_PATH=$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
    # Fragments free nothing at the end of the page.
    [ "${1##*/}" != fragments ] || ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
    export ASAN_OPTIONS
    unset MAKEFLAGS MFLAGS MAKELEVEL
    CC=cc && export CC
    timeout 300 "$@" </dev/null
  )
}

build_and_run () { # DESCRIPTION SOURCE PROGRAM
  why=$(cannot_build "$2")
  if [ -n "$why" ]; then
    skip "$1" "$why"
    return
  fi
  check "$1 is compiled" build "$2" "$3"
  # shellcheck disable=SC2046  # flags are words
  if includes cuda.h "$2" && [ "${cuda_headers:-no}" != no ] && is_cxx "$2"; then
    check "... with <cuda.h>, too" c++ -std=c++17 -fsyntax-only -I"$cuda_headers" -x c++ "$2" \
      $(pkg-config --cflags tarn-cuda)
  elif includes cuda.h "$2" && [ "${cuda_headers:-no}" != no ]; then
    check "... with <cuda.h>, too" cc -std=gnu11 -fsyntax-only -I"$cuda_headers" -x c "$2" \
      $(pkg-config --cflags tarn-cuda)
  fi
  why=$(cannot_run "$2")
  if [ -n "$why" ]; then
    skip "... and runs" "$why"
  else
    check "... and runs" run "$3"
  fi
}

# Why a program is not run with failing calls; nothing if it is.
why_no_faults () { # NAME SOURCE
  case $1 in
    number.c)
      echo "it ignores errors on purpose"
      return
      ;;
    overrun.c | plain.c)
      echo "it writes beside its buffer on purpose"
      return
      ;;
  esac
  why=$(cannot_build "$2")
  [ -n "$why" ] || why=$(cannot_run "$2")
  if [ -n "$why" ]; then
    echo "$why"
  elif ! command -v tarn-run >/dev/null; then
    echo "there is no tarn-run"
  elif { includes tarn/opencl.h "$2" || includes CL/cl.h "$2"; } && [ $has_layers = no ]; then
    echo "this OpenCL loader knows no layers"
  fi
}

# Each function of the fake CUDA driver that the program calls itself fails.
sees_driver_errors () { # SOURCE PROGRAM
  grep -o -w 'cu[A-Z][A-Za-z0-9]*' "$1" | sort -u | while read -r function; do
    echo "$function:"
    (TARN_TESTING_CUDA_FAIL=$function:999 && export TARN_TESTING_CUDA_FAIL && run "$2")
    [ $? -eq 1 ] || return 1
  done
}

# Has calls fail in turn, the first ones of each name: OpenCL's, and what pools ask of their driver.
takes_faults () { # NAME SOURCE PROGRAM [ARGUMENT]...
  why=$(why_no_faults "$1" "$2")
  if [ -n "$why" ]; then
    skip "$1 takes failures well" "$why"
    return
  fi
  subject=$1
  # A failed assertion ends the program by abort ().  Lines of GLib's tests are not to be compared, nor
  # is a table of how often the driver was called, which is more often where a call fails.
  statuses=
  [ "$1" != doc/examples/vector-expression ] || statuses=--expect-status=0,1
  ! grep -q g_assert_ "$2" || statuses=--expect-status=134
  ! grep -q g_test_run "$2" || statuses=--expect-status=0,134
  ! includes cuda.h "$2" || check "$1 sees each error of the driver" sees_driver_errors "$2" "$3"
  shift 2
  # shellcheck disable=SC2086  # empty for other programs
  check "$subject takes failures well" run tarn-run --every --max 30 $statuses "$@"
}

# All of a page's fragments, in its order.
write_fragments () { # PAGE
  calls=
  while read -r number kind _; do
    case $kind in
      preamble | functions)
        echo "#line $number \"$1\""
        cat "$page/$number"
        ;;
      fragment)
        printf 'static void\nblock_%s (void)\n{\n#line %s "%s"\n' "$number" "$number" "$1"
        cat "$page/$number"
        echo '}'
        calls="$calls  block_$number ();
"
        ;;
    esac
  done <"$page/list"
  printf 'int\nmain (void)\n{\n  begin ();\n%s  return 0;\n}\n' "$calls"
}

is_quoted () { # NUMBER FILE
  awk 'NR == FNR { text = text $0 "\n"; next } { all = all $0 "\n" }
       END { exit !(text != "" && index (all, text)) }' "$page/$1" "$top_srcdir/$2" \
    || { echo "this is not in $2:"; cat "$page/$1"; return 1; }
}

# Each line of the first file is in the second, in that order.
prints () { # EXPECTED PRINTED
  awk 'NR == FNR {
         gsub (/[][\\.^$*+?(){}|]/, "\\\\&")
         gsub (/\\\.\\\.\\\./, ".*")
         expected[++n] = "^" $0 "$"
         next
       }
       i < n && $0 ~ expected[i + 1] { i++ }
       END { if (i < n) { print "no line " expected[i + 1]; exit 1 } }' "$1" "$2" \
    || { cat "$2"; return 1; }
}

why_no_shell () { # NUMBER
  for tool in cmake tarn-info tarn-bench tarn-run tarn-trace tarn-view; do
    if grep -q "^$tool\>" "$page/$1" && ! command -v "$tool" >/dev/null; then
      echo "there is no $tool"
      return
    fi
  done
  if grep -q "^tarn-run\>" "$page/$1" && [ $has_layers = no ]; then
    echo "this OpenCL loader knows no layers"
    return
  fi
  cannot_build "$page/all"
  cannot_run "$page/all"
}

is_run () { # NUMBER
  run sh -e "$page/$1" >"$page/printed" 2>&1 || { cat "$page/printed"; return 1; }
}

# Splits the page, and tests each block.
page () { # FILE
  name=$(basename "$1")
  page=$scratch/pages/$name
  mkdir -p "$page/files"
  awk -v dir="$page" -f "$top_srcdir/t/tree/guide.awk" "$1" >"$page/list"
  sed -n '/ file /s/^\([0-9]*\) file \(.*\)/\1 \2/p' "$page/list" | while read -r number file; do
    cp "$page/$number" "$page/files/$file"
  done
  sed -n 's/^[0-9]* quotation //p' "$page/list" | sort -u | while read -r file; do
    cp "$top_srcdir/$file" "$page/files"
  done
  sed -n 's/^\([0-9]*\) \(preamble\|functions\|file\).*/\1/p' "$page/list" \
    | (cd "$page" && xargs -r cat /dev/null) >"$page/all"
  if grep -q '^[0-9]* fragment' "$page/list"; then
    write_fragments "$name" >"$page/fragments.c"
    build_and_run "$name: what is between the lines" "$page/fragments.c" "$page/fragments"
  fi
  while read -r number kind argument <&3; do
    where=$name:$number
    case $kind in
      fault) check "$where: $argument" false ;;
      file)
        case $argument in
          *.c | *.cpp)
            build_and_run "$where: $argument" "$page/$number" "$page/program"
            takes_faults "$argument" "$page/$number" "$page/program"
            ;;
        esac
        ;;
      quotation) check "$where: it is in $argument" is_quoted "$number" "$argument" ;;
      sh)
        why=$(why_no_shell "$number")
        if [ -n "$why" ]; then
          skip "$where: for the shell" "$why"
        else
          check "$where: for the shell" is_run "$number"
        fi
        ;;
      output)
        if [ -n "$why" ]; then
          skip "$where: what that prints" "$why"
        else
          check "$where: what that prints" prints "$page/$number" "$page/printed"
        fi
        ;;
      console) check "$where: for another shell" sh -n "$page/$number" ;;
    esac
  done 3<"$page/list"
}

for file in "$guide"/*.md; do
  page "$file"
done

# Programs that use memory, each on a few small vectors or as it is when it is right.
for file in "$top_srcdir"/doc/examples/*.c "$top_srcdir"/doc/examples/*.cpp; do
  grep -q '^main (' "$file" || continue
  name=$(basename "${file%.*}")
  page=$scratch/pages/$name
  mkdir -p "$page/files"
  case $name in
    allocation-cost) set -- --repetitions 2 --size 1000 ;;
    fragmenting | leaking) set -- --fixed ;;
    mapped-files) set -- "$scratch" ;;
    vector-expression)
      set -- --backend opencl --size 1K --steps 2
      file=$top_srcdir/doc/examples/vector-expression-opencl.c
      ;;
    *) set -- ;;
  esac
  cp "$file" "$page/all"
  takes_faults "doc/examples/$name" "$file" "$top_builddir/doc/examples/$name" "$@"
done

# The page about it runs it as it should be; and as it should not:
fails_without_folder () {
  status_is 1 "$top_builddir/doc/examples/mapped-files" "$scratch/no-such-folder" \
    && [ ! -s "$scratch/out" ] && grep -q '^mapped-files: .*open: No such file' "$scratch/err"
}
check "doc/examples/mapped-files, no folder" fails_without_folder

# The guide's own index has every page, and every link leads to something.
is_listed () { # NAME
  grep -qF "]($1)" "$guide/README.md"
}
# Whatever is called as our names are is in a public header, or a variable in tarn(7).
names_exist () { # FILE
  grep -o -w -E '(tarn|TARN)_[A-Za-z0-9_]+[A-Za-z0-9]|Tarn[A-Z][A-Za-z]+' "$1" | sort -u \
    | grep -v -x -f "$scratch/public" >"$scratch/unknown"
  cat "$scratch/unknown"
  [ ! -s "$scratch/unknown" ]
}
cat "$top_srcdir"/include/tarn/*.h "$top_srcdir"/include/tarn/*/*.h "$top_builddir/include/tarn/version.h" "$top_srcdir/doc/man/tarn.7" \
  "$top_srcdir"/pkgconfig/*.cmake.in \
  | grep -o -w -E '(tarn|TARN)_[A-Za-z0-9_]+|Tarn[A-Z][A-Za-z]+' | sort -u >"$scratch/public"
links_lead_somewhere () { # FILE
  grep -o ']([^)#:]*' "$1" | sed 's/^..//' | sort -u | while read -r link; do
    [ -e "$guide/$link" ] || [ -z "$link" ] || echo "$link"
  done >"$scratch/dead"
  cat "$scratch/dead"
  [ ! -s "$scratch/dead" ]
}
for file in "$guide"/*.md; do
  name=$(basename "$file")
  [ "$name" = README.md ] || check "$name is in the index" is_listed "$name"
  check "$name: links" links_lead_somewhere "$file"
  check "$name: our names" names_exist "$file"
done

# Each fault is seen: of a page that has it, one block fails.
try () { # LINE...: @ is three backquotes
  printf '%s\n' "$@" | sed 's/^@/```/' >"$scratch/fault.md"
  (page "$scratch/fault.md") >"$scratch/tap"
  rm -rf "$scratch/pages/fault.md"
}
fault () { # DESCRIPTION LINE...
  description=$1
  shift
  try "$@"
  check "a fault is seen: $description" grep -q '^not ok' "$scratch/tap"
}
no_fault () {
  cat "$scratch/tap"
  [ "$(grep -c '^ok' "$scratch/tap")" -ge 6 ] && ! grep '^not ok' "$scratch/tap"
}
echo 'tarn_pool_allocate (), TarnPool, tarn_pool_alocate ()' >"$scratch/fault.md"
names_exist "$scratch/fault.md" >"$scratch/names"
check "a fault is seen: a name that does not exist" grep -q -x tarn_pool_alocate "$scratch/names"
includes='#include <tarn/tarn.h>'
start='static void begin (void) { }'
fault "a fragment that is not compiled" '<!-- c' "$includes" "$start" '-->' \
  '@c' 'tarn_no_such_function ();' '@'
fault "a fragment that ends in an error" '<!-- c' "$includes" "$start" '-->' \
  '@c' 'g_assert_cmpuint (1, ==, 2);' '@'
fault "a program that is not compiled" '@c x.c' "$includes" 'int main (void) { return x; }' '@'
fault "a program that fails" '@c x.c' "$includes" 'int main (void) { return 1; }' '@'
if [ $has_layers = yes ]; then
  fault "a program that ignores an error of OpenCL's" '@c x.c' '#define CL_TARGET_OPENCL_VERSION 120' \
    '#include <CL/cl.h>' '#include <stdio.h>' 'int main (void) {' \
    'cl_platform_id platform; cl_device_id device;' \
    'if (clGetPlatformIDs (1, &platform, NULL) != CL_SUCCESS) return 1;' \
    'clGetDeviceIDs (platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL);' \
    'cl_context context = clCreateContext (NULL, 1, &device, NULL, NULL, NULL);' \
    'puts (context != NULL ? "a context" : "none");' \
    'return context != NULL ? clReleaseContext (context) : 0; }' '@'
else
  skip "a fault is seen: a program that ignores an error of OpenCL's" "no layers"
fi
fault "a quotation of something else" '@c doc/examples/saxpy-test.c' 'int x;' '@'
fault "a line for the shell that fails" '@sh' 'false' 'true' '@'
fault "what is printed is something else" '@sh' 'echo 1 2 3' '@' '@output' '1 ... 4' '@'
fault "lines that are printed in another order" '@sh' 'echo 1; echo 2' '@' '@output' 2 1 '@'
fault "a block that is not run without a reason" '@console' true '@'
fault "a block of no kind" '@' true '@'
fault "a block without an end" '@sh' true
try '<!-- c' "$includes" "$start" '-->' '@c' 'g_print ("%s\n", tarn_get_version ());' '@' \
  '@c x.c' "$includes" 'int main (void) { return 0; }' '@' '@sh' 'echo 1 2 3; echo 4' '@' \
  '@output' '1 ... 3' '4' '@'
check "... and nothing where there is none" no_fault
done_testing
