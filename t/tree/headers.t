#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# Every public header stands alone, in every C and in C++, without a warning of its own; and so do its
# macros where they are used.
. "$(dirname "$0")/../lib/tap.sh"

system_flags=$(echo "$T_CFLAGS $T_OPENCL_CFLAGS" | sed 's/-I/-isystem /g')
flags="-Wall -Wextra -pedantic -Werror -fsyntax-only $system_flags
  -UCL_TARGET_OPENCL_VERSION -DCL_TARGET_OPENCL_VERSION=120
  -I$top_srcdir/include -I$top_builddir/include"

# Warnings that not every compiler has.
cxx_flags=
for flag in -Wold-style-cast -Wuseless-cast; do
  ! $CXX -Werror $flag -fsyntax-only -x c++ /dev/null 2>/dev/null || cxx_flags="$cxx_flags $flag"
done

# Every macro that something starts from, with its type: the first field says it.
list_inits () {
  sed -n 's/^#define \(TARN_[A-Z_]*_INIT\) .*/\1/p
    s/^ *sizeof (\(Tarn[A-Za-z]*\)),.*struct_size.*/\1/p' "$top_srcdir"/include/tarn/*.h | paste - -
}

use_inits () {
  list_inits | while read -r macro type; do
    printf '#ifdef %s\n  {\n    %s start = %s;\n' "$macro" "$type" "$macro"
    printf '    total += start.struct_size - sizeof start;\n  }\n#endif\n'
  done
}

use_inits >"$scratch/use-inits.h"
check "each _INIT has its type" test "$(list_inits | grep -c '^TARN_[A-Z_]*_INIT.Tarn[A-Za-z]*$')" \
  = "$(cat "$top_srcdir"/include/tarn/*.h | grep -c '^#define TARN_.*_INIT ')"

# Every struct whose size a caller says has callers of other versions.
list_sized () {
  awk '/^typedef struct$/ { is_sized = 0 }
    /^[a-z ]* struct_size;/ { is_sized = 1 }
    /^} Tarn[A-Za-z]*;$/ { if (is_sized) print $2; is_sized = 0 }' "$top_srcdir"/include/tarn/*.h \
    | tr -d ';' | sort
}

list_tested () {
  sed -n 's/^STRUCT_SIZES_VERSIONS (\(Tarn[A-Za-z]*\),.*/\1/p' "$top_srcdir"/t/*/struct-sizes.c | sort
}

each_has_its_tests () {
  list_sized >"$scratch/sized"
  list_tested | diff "$scratch/sized" - && list_inits | cut -f 2 | sort | diff "$scratch/sized" -
}
check "each struct with a size is in a struct-sizes.c" each_has_its_tests

for name in $(cd "$top_srcdir/include" && ls tarn/*.h tarn/*.h.in tarn/*/*.h | sed 's/\.in$//' | sort -u); do
  [ "$name,$have_opencl" != tarn/opencl.h,no ] || continue
  cat >"$scratch/alone.c" <<CODE
#include <$name>
#include <$name>

int main (void);

int
main (void)
{
  gsize total = 0;
#include "use-inits.h"
#ifdef TARN_POOL_H
  {
    TarnPool *pool = NULL;
    TarnAllocator *allocator = TARN_ALLOCATOR (pool);
    total += allocator != NULL;
  }
#endif
#ifdef TARN_MEMO_H
  {
    TarnMemoKeyPart parts[] = { tarn_memo_key_integer (1), tarn_memo_key_string ("a") };
    total += parts[0].type == parts[1].type;
  }
#endif
#ifdef TARN_ERROR
  total += TARN_ERROR == 0;
#endif
#ifdef TARN_OPENCL_ERROR
  total += TARN_OPENCL_ERROR == 0;
#endif
#ifdef TARN_CUDA_ERROR
  total += TARN_CUDA_ERROR == 0;
#endif
#ifdef TARN_CHECK_VERSION
  total += TARN_CHECK_VERSION (TARN_MAJOR_VERSION, TARN_MINOR_VERSION, TARN_MICRO_VERSION) ? 0 : 1;
  total += TARN_VERSION_STRING[0] == 0;
#endif
  return total != 0;
}
CODE
  cp "$scratch/alone.c" "$scratch/alone.cc"
  for std in c99 c11 c17; do
    check "$name as $std" $CC -std=$std $flags "$scratch/alone.c"
  done
  if $CXX --version >/dev/null 2>&1; then
    for std in c++11 c++17; do
      check "$name as $std" $CXX -std=$std $flags $cxx_flags "$scratch/alone.cc"
    done
  else
    skip "$name as c++17" "no C++ compiler"
  fi
done

# Headers for C++, but those that need somebody else's.
for name in $(cd "$top_srcdir/include" && ls tarn/*.hpp); do
  [ "$name,$have_opencl" != tarn/opencl.hpp,no ] || continue
  ! grep -q '^#include <\(cuda\|thrust\)/' "$top_srcdir/include/$name" || continue
  printf '#include <%s>\n#include <%s>\nint main () {}\n' "$name" "$name" >"$scratch/alone.cc"
  if ! $CXX -std=c++17 -fsyntax-only -x c++ /dev/null 2>/dev/null; then
    skip "$name as c++17" "no C++17 compiler"
    continue
  fi
  for std in c++17 c++20; do
    check "$name as $std" $CXX -std=$std -Wshadow $flags $cxx_flags "$scratch/alone.cc"
    check "$name as $std, without exceptions" \
      $CXX -std=$std -fno-exceptions -fno-rtti -Wshadow $flags $cxx_flags "$scratch/alone.cc"
  done
done
done_testing
