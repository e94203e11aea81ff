#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# For each library: what its map lists, what it exports, what its header declares, what is documented there
# and what its Debian package says is the same.
. "$(dirname "$0")/../lib/tap.sh"

mapped () { # MAP
  sed -n 's/^ *\(tarn_[a-z0-9_]*\);$/\1/p' "$1"
}

exported () { # LIBRARY
  $NM -D --defined-only "$1" | awk '$2 ~ /[TDBRV]/ { sub (/@.*/, "", $3); print $3 }' | sort -u
}

declared () { # HEADER: inline functions are in no library
  printf '#include <%s>\n' "$1" >"$scratch/header.c"
  $CC $T_CFLAGS $T_OPENCL_CFLAGS -UCL_TARGET_OPENCL_VERSION -DCL_TARGET_OPENCL_VERSION=120 \
    -I"$top_srcdir/include" -I"$top_builddir/include" -E -P "$scratch/header.c" \
    | tr '\n' ' ' | sed 's/static inline Tarn[A-Za-z]* tarn_[a-z0-9_]*//g' \
    | grep -o '\<tarn_[a-z0-9_]* *(' | tr -d ' (' | sort -u
}

packaged () { # PACKAGE: with the version node of each function
  sed -n 's/^ \(tarn_[a-z0-9_]*@[A-Z0-9_.]*\) .*/\1/p' "$top_srcdir/debian/$1.symbols"
}

exported_with_nodes () { # LIBRARY
  $NM -D --defined-only "$1" | awk '$2 ~ /[TDBRV]/ { sub (/@+/, "@", $3); print $3 }' \
    | grep -v '^TARN_' | sort -u
}

# Prints the functions that have a comment with two stars right above their declaration, and before
# each what the comment says of it: "owns" if the caller owns what is returned, else "-".  Inline
# functions are in no library.
list_documented () {
  cat "$top_srcdir"/include/tarn/*.h "$top_srcdir"/include/tarn/*/*.h "$top_srcdir"/include/tarn/*.h.in | awk '
    /^\/\*\*$/ { open = 1; note = "-" }
    open && /@return \(transfer full\)/ { note = "owns" }
    /^ \*\/$/ && open { open = 0; documented = 1; next }
    /^(static|typedef|#|$)/ { documented = 0 }
    documented && match ($0, /tarn_[a-z0-9_]* \(/) {
      print note, substr ($0, RSTART, RLENGTH - 2)
      documented = 0
    }'
}

documented () {
  list_documented | cut -d ' ' -f 2 | sort -u
}

# Functions whose documentation says that what they return is the caller's; but a reference that is
# taken need not be used.
owning () {
  list_documented | sed -n 's/^owns //p' | grep -v '_ref$' | sort -u
}

# Declarations that have the compiler warn where the result is not used.
warning () { # HEADER...
  cat "$@" | tr '\n' ' ' | tr ';' '\n' \
    | sed -n 's/.*[ *]\(tarn_[a-z0-9_]*\) (.*) G_GNUC_WARN_UNUSED_RESULT$/\1/p' | sort -u
}

same () { # LIST LIST
  diff "$scratch/$1" "$scratch/$2"
}

library () { # NAME FOLDER HEADER: of names that begin with the header's
  mapped "$top_srcdir/$2/lib$1.map" >"$scratch/map"
  sort "$scratch/map" >"$scratch/mapped"
  exported "$top_builddir/$2/.libs/lib$1.so" | grep -v '^TARN_' >"$scratch/exported"
  declared "$3" >"$scratch/all"
  if [ "$1" = tarn ]; then
    cp "$scratch/all" "$scratch/declared"
  else
    grep "^$(echo "$1" | tr - _)_" "$scratch/all" >"$scratch/declared"
  fi
  documented | grep -Fx -f "$scratch/declared" >"$scratch/documented"
  check "lib$1: the map lists something" test -s "$scratch/mapped"
  check "lib$1: the map is sorted" same map mapped
  check "lib$1: mapped = exported" same mapped exported
  check "lib$1: mapped = declared" same mapped declared
  check "lib$1: mapped = documented" same mapped documented
  if [ -f "$top_srcdir/debian/lib${1}0.symbols" ]; then
    packaged "lib${1}0" | sort >"$scratch/packaged"
    exported_with_nodes "$top_builddir/$2/.libs/lib$1.so" >"$scratch/nodes"
    check "lib$1: exported = packaged, each with its version node" same nodes packaged
  else
    skip "lib$1: exported = packaged" "a release has no packages"
  fi
}

if [ ! -e "$top_builddir/lib/core/.libs/libtarn.so" ]; then
  skip symbols "no shared library was built"
  done_testing
  exit
fi
library tarn lib/core tarn/tarn.h
if [ -f "$top_builddir/lib/opencl/libtarn-opencl.la" ]; then
  library tarn-opencl lib/opencl tarn/opencl.h
else
  skip libtarn-opencl "not built"
fi
if [ -f "$top_builddir/lib/cuda/libtarn-cuda.la" ]; then
  library tarn-cuda lib/cuda tarn/cuda.h
else
  skip libtarn-cuda "not built"
fi
library tarn-testing lib/testing tarn/testing/cuda.h
owning >"$scratch/owning"
warning "$top_srcdir"/include/tarn/*.h "$top_srcdir"/include/tarn/*/*.h >"$scratch/warning"
check "there are functions that give ownership" test -s "$scratch/owning"
check "what gives ownership warns where it is not used" same owning warning

# Two comments for one function would differ one day.
documented_at_definition () {
  find "$top_srcdir/lib" -name '*.c' -exec awk '
    FNR == 1 { end = 0 }
    /^\/\*\*$/ { open = 1 }
    /^ \*\/$/ && open { end = FNR; open = 0 }
    /^tarn_[a-z0-9_]* \(/ { if (end && FNR - end <= 3) print FILENAME ": " $1; end = 0 }' {} +
}
check "the headers have the documentation, and not the sources" \
  test -z "$(documented_at_definition)"
done_testing
