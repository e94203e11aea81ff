#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# The floors of lib: a file includes, and calls, what stands in its own folder or on a floor below.
# Folders on one floor know nothing of one another.
. "$(dirname "$0")/../lib/tap.sh"

# From below.
floors='
  0 common
  1 core/base
  2 core/record
  3 core/allocator core/memo core/select
  4 core/debug core/heap core/snapshot
  5 core/pool
  6 core/upstream
  7 core/order
  8 core/trace
  9 opencl cuda testing
  10 cuda/frameworks opencl/layer testing/cuda'

cd "$top_srcdir/lib" || exit
echo "$floors" | awk '{ for (i = 2; i <= NF; i++) print $i, $1 }' >"$scratch/floors"

# Each arrow is a line FILE FOLDER TARGET-FOLDER WHAT.
print_includes () {
  find . -name '*.[ch]' | sed 's,^\./,,' | while read -r file; do
    folder=${file%/*}
    sed -n 's/^#include "\(.*\)"/\1/p' "$file" | while read -r header; do
      case $header in
        common/*) target=common ;;
        cuda/* | opencl/* | testing/*) target=${header%/*} ;;
        */*) target=core/${header%/*} ;;
        *) target=$folder ;;
      esac
      echo "$file $folder $target $header"
    done
  done
}

# What an object of the core needs of another one.
print_calls () {
  find core -name '*.c' | sed 's,[^/]*\.c$,libtarn_internal_la-&,; s,\.c$,.o,' \
    | while read -r object; do
      folder=${object%/*}
      [ -e "$top_builddir/lib/$object" ] || object=$folder/.libs/${object##*/} # no static ones
      $NM "$top_builddir/lib/$object" | awk -v folder="$folder" -v file="$(basename "$object")" '
        $2 ~ /^[TDBR]$/ && NF == 3 { print "has", $3, folder }
        $1 == "U" { print "needs", $2, folder, file }'
    done | awk '
      $1 == "has" { home[$2] = $3 }
      $1 == "needs" { wants[++n] = $0 }
      END {
        for (i = 1; i <= n; i++) {
          split (wants[i], want)
          if (want[2] in home) print want[4], want[3], home[want[2]], want[2]
        }
      }'
}

# Those that lead to another folder which is not below.
print_arrows_up () {
  awk '
    NR == FNR { floor[$1] = $2; next }
    !($2 in floor) || !($3 in floor) { print "no floor:", $0; next }
    $2 != $3 && floor[$3] >= floor[$2]' "$scratch/floors" -
}

has_no_arrow_up () { # PRINT-ARROWS AT-LEAST
  "$1" >"$scratch/arrows"
  echo "$(wc -l <"$scratch/arrows") arrows"
  [ "$(wc -l <"$scratch/arrows")" -ge "$2" ] && ! print_arrows_up <"$scratch/arrows" | grep .
}

check "includes" has_no_arrow_up print_includes 100
check "the core's calls" has_no_arrow_up print_calls 100

# Backends reach the core through what is installed.
backends_are_outside () {
  print_includes | awk '$2 ~ /^(opencl|cuda|testing)/ && $3 ~ /^core/' | grep . && return 1
  [ -n "$(ls opencl/*.c cuda/*.c testing/*.c)" ]
}
check "backends include installed headers of the core only" backends_are_outside

only_makefile_and_map () {
  find core -maxdepth 1 -type f ! -name Makefile.am.inc ! -name libtarn.map ! -name '*.l[ao]' \
    ! -name '*.dirstamp' ! -name '*.o' | grep . && return 1
  [ -f core/libtarn.map ]
}
check "lib/core's own folder has its makefile and map only" only_makefile_and_map

# What is tracked; in a release, which has no stray files, what is there.
list_names () { # FOLDER
  if [ -e "$1/.git" ] && tracked=$(git -C "$1" ls-files t 2>/dev/null); then
    echo "$tracked" | cut -d / -f 2 | sort -u
  else
    ls "$1/t"
  fi
}

at_most_15_names () {
  list_names "$top_srcdir" >"$scratch/names"
  [ "$(wc -l <"$scratch/names")" -ge 10 ] && [ "$(wc -l <"$scratch/names")" -le 15 ]
}
check "t has at most 15 names" at_most_15_names

does_not_count_strays () {
  mkdir -p "$scratch/tree/t" && git init -q "$scratch/tree" && touch "$scratch/tree/t/x" \
    && git -C "$scratch/tree" add t && touch "$scratch/tree/t/stray" \
    && [ "$(list_names "$scratch/tree")" = x ]
}
if command -v git >/dev/null; then
  check "a file that is not tracked is none of them" does_not_count_strays
else
  skip "a file that is not tracked is none of them" "there is no git"
fi

# An arrow up is found: this test can fail.
finds_an_arrow_up () {
  echo "base/x.c core/base core/pool pool/pool-private.h" | print_arrows_up | grep -q pool
}
check "an arrow up is found" finds_an_arrow_up
done_testing
