#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# t/README: it lists the files that are there, and no others.
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
        *.c | *.sh | *.awk | *.pml | *.litmus) echo "$file" ;;
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

for folder in "$top_srcdir"/t/*/ "$top_srcdir"/t/opencl/layer/; do
  name=${folder#"$top_srcdir"/t/}
  name=${name%/}
  [ "$name" = data ] || check "$name/" lists_what_is_there "$name"
done
check "every section is a folder" sh -c '
  sed -n "s,^## \([a-z/-]*\)/: .*,\1,p" "$1/README" | while read -r name; do
    [ -d "$1/$name" ] || { echo "$name"; exit 1; }
  done' sh "$top_srcdir/t"
done_testing
