#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# t/README: it lists the files that are there, and no others.  README: it is short, the files that it
# names exist, and its numbers are in doc/performance; its program is built and run as it says, also
# with each of its OpenCL calls failing.
. "$(dirname "$0")/../lib/tap.sh"

readme=$top_srcdir/t/README

# Its sections "## FOLDER/: ..." and in them the lines that begin with a file's name.
listed () { # FOLDER
  awk -v folder="$1/" '
    /^## / { is_in = $2 == folder ":" }
    is_in && match ($0, /^    [a-z][a-z0-9-]*\.[a-z]+( |$)/) { print $1 }' "$readme" | sort
}

# Sources, and scripts; not programs that were built here.  A header goes with its source.
present () { # FOLDER
  (
    cd "$top_srcdir/t/$1" || exit
    for file in *; do
      case $file in
        *.c | *.cpp | *.py | *.sh | *.awk | *.patch | *.pml | *.litmus) echo "$file" ;;
        *.t) sed -n 2p "$file" | grep -q '^# Tarn: ' && echo "$file" ;;
      esac
    done
  ) | sort
}

lists_what_is_there () { # FOLDER
  present "$1" >"$scratch/present"
  listed "$1" >"$scratch/listed"
  [ -s "$scratch/present" ] && diff "$scratch/listed" "$scratch/present"
}

for folder in "$top_srcdir"/t/*/ "$top_srcdir"/t/opencl/layer/ "$top_srcdir"/t/opencl/programs/; do
  name=${folder#"$top_srcdir"/t/}
  name=${name%/}
  [ "$name" = data ] || check "$name/" lists_what_is_there "$name"
done
check "every section is a folder" sh -c '
  sed -n "s,^## \([a-z/-]*\)/: .*,\1,p" "$1/README" | while read -r name; do
    [ -d "$1/$name" ] || { echo "$name"; exit 1; }
  done' sh "$top_srcdir/t"

is_short () {
  [ "$(wc -l <"$top_srcdir/README")" -le 120 ]
}
check "README has at most 120 lines" is_short
names_files () {
  grep -o -w -E '(doc|t)/[A-Za-z0-9_./-]*[A-Za-z0-9]' "$top_srcdir/README" | sort -u >"$scratch/paths"
  [ "$(wc -l <"$scratch/paths")" -ge 10 ] || return
  while read -r path; do
    [ -e "$top_srcdir/$path" ] || { echo "no $path"; return 1; }
  done <"$scratch/paths"
}
check "README names files that exist" names_files
# Those of more than one digit, in its features and its table.
has_measured_numbers () {
  sed -n '/^## Features$/,/^## Install$/p' "$top_srcdir/README" | sed 's/\([0-9]\),\([0-9]\)/\1\2/g' \
    | grep -o -E '[0-9]+(\.[0-9]+)?' | grep .. | sort -u >"$scratch/numbers"
  [ "$(wc -l <"$scratch/numbers")" -ge 20 ] || return
  while read -r number; do
    grep -qwF "$number" "$top_srcdir/doc/performance" || { echo "no $number"; return 1; }
  done <"$scratch/numbers"
}
check "README's numbers are in doc/performance" has_measured_numbers

# In an empty folder: what README says, and what it calls $PWD is this tree.
top=$(cd "$top_builddir" && pwd -P)
in_subshell () {
  ("$@")
}
readme_program () {
  sed -n '/^```c$/,/^```$/{/^```/!p}' "$top_srcdir/README" >"$scratch/program.c"
  sed -n -e 's/^    \(export PKG_CONFIG_PATH=.*\)/\1/p' -e 's/^    \(cc program\.c .*\)/\1/p' \
    "$top_srcdir/README" >"$scratch/lines"
  [ "$(wc -l <"$scratch/lines")" -eq 2 ] || return
  sed -i "s,\$PWD,$top,g" "$scratch/lines"
  mkdir "$scratch/bin" && printf '#!/bin/sh\nPATH="%s" exec %s "$@"\n' "$PATH" "$CC $T_CC_FLAGS" \
    >"$scratch/bin/cc" && printf '#!/bin/sh\nPATH="%s" exec %s "$@"\n' "$PATH" "$PKG_CONFIG" \
    >"$scratch/bin/pkg-config" && chmod +x "$scratch/bin/cc" "$scratch/bin/pkg-config" \
    && cd "$scratch" && PATH=$scratch/bin:$PATH sh -e "$scratch/lines"
}
prints_counters () {
  "$scratch/a.out" >"$scratch/out" \
    && grep -q -x '1000 requests: 9[0-9]* served without the driver' "$scratch/out"
}
takes_faults_well () {
  TMPDIR=$scratch "$top_builddir/tools/tarn-run" --every --max 40 "$scratch/a.out"
}
if [ ! -f "$top_builddir/lib/opencl/libtarn-opencl.la" ] || [ -n "${PKG_CONFIG_SYSROOT_DIR:-}" ]; then
  skip "README's program" "built without OpenCL, or for another machine"
elif ! $PKG_CONFIG --exists OpenCL; then
  skip "README's program" "pkg-config knows no OpenCL"
else
  check "README's program is built as it says" in_subshell readme_program
  if "$top_builddir/doc/examples/vector-expression" --backend opencl --list >/dev/null 2>&1; then
    check "... and prints something" prints_counters
    if OPENCL_LAYERS=$top/lib/opencl/layer/.libs/libtarn-layer.so TARN_LAYER_STATS=1 \
      "$top_builddir/doc/examples/vector-expression" --backend opencl --list 2>&1 \
      | grep -q '^Tarn: OpenCL buffers'; then
      check "... and takes a failure of each call well" takes_faults_well
    else
      skip "... and takes a failure of each call well" "this OpenCL loader knows no layers"
    fi
  else
    skip "... and prints something" "no OpenCL device"
  fi
fi
done_testing
