#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# What was compiled with the last release goes on to work: abidiff compares each library with the
# one built from the last tag.  Functions may be added, enumerators, and fields at the end of a
# struct that begins with struct_size; a library of another soname is another library.
. "$(dirname "$0")/../lib/tap.sh"

skip_all () { # REASON
  skip "the ABI of the last release" "$1"
  done_testing
  exit
}

[ "$SANITIZER" = no ] || skip_all "sanitizers have an ABI of their own"
command -v abidiff >/dev/null || skip_all "there is no abidiff (abigail-tools)"
command -v autoreconf >/dev/null || skip_all "there is no autoreconf"
{ [ -e "$top_srcdir/.git" ] && command -v git >/dev/null; } || skip_all "this is no git checkout"
tag=$(git -C "$top_srcdir" describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null) \
  || skip_all "there is no tag yet"
[ -e "$top_builddir/lib/core/.libs/libtarn.so" ] || skip_all "no shared library was built"

old=$scratch/$tag
modules=core
[ ! -f "$top_builddir/lib/opencl/libtarn-opencl.la" ] || modules="$modules opencl"
[ ! -f "$top_builddir/lib/cuda/libtarn-cuda.la" ] || modules="$modules cuda"
modules="$modules testing"

library () { # MODULE: its path in a build folder
  case $1 in
    core) echo lib/core/libtarn ;;
    *) echo "lib/$1/libtarn-$1" ;;
  esac
}

build_tag () {
  mkdir -p "$old" && git -C "$top_srcdir" archive "$tag" | tar -x -C "$old" && cd "$old" || return
  unset MAKEFLAGS MFLAGS MAKELEVEL
  autoreconf -i && ./configure --quiet --disable-static --disable-tarn-info --disable-tarn-bench \
    CC="$CC" CFLAGS="-g -O2" || return
  for module in $modules; do
    [ -d "lib/$module" ] || continue # it is newer than the tag
    $MAKE -s "$(library "$module").la" || return
  done
}
build_and_log () {
  (build_tag) >"$scratch/build" 2>&1 || { tail -n 40 "$scratch/build"; return 1; }
}
check "$tag can be built" build_and_log

soname () { # LIBRARY
  objdump -p "$1" | awk '$1 == "SONAME" { print $2 }'
}

# A library of another soname is not loaded by what was compiled with the last one.
other=
for module in $modules; do
  name=$(library "$module").so
  name=${name%/*}/.libs/${name##*/}
  [ ! -e "$old/$name" ] || [ "$(soname "$old/$name")" = "$(soname "$top_builddir/$name")" ] \
    || other=$(soname "$top_builddir/$name")
done

# What a program has compiled in: the offset and size of each field, the size of each struct that
# may not grow, and the value of each enumerator that the tag's headers have.  abidiff sees no type
# that no function takes, such as TarnError, and passes over every change of a struct that has grown.
cat >"$scratch/layout.awk" <<'AWK'
/^typedef (struct|union|enum)$/ { kind = $2; n = growing = 0; next }
kind && /^} Tarn[A-Za-z]*;$/ {
  type = substr ($2, 1, length ($2) - 1)
  for (i = 1; i <= n; i++)
    if (kind == "enum")
      printf "  printf (\"%s %%d\\n\", (int) %s);\n", names[i], names[i]
    else
      printf "  printf (\"%s.%s %%zu %%zu\\n\", offsetof (%s, %s), sizeof ((%s *) 0)->%s);\n",
             type, names[i], type, names[i], type, names[i]
  if (kind != "enum" && !growing)
    printf "  printf (\"%s %%zu\\n\", sizeof (%s));\n", type, type
  if (growing)
    print type >growing_types
  kind = ""
}
kind { sub (/\/\*.*/, "") }
kind && /struct_size;/ { growing = 1 }
kind == "enum" && /^  TARN_/ { names[++n] = $1; sub (/,.*/, "", names[n]); next }
kind && /^  [A-Za-z].*\(\*[a-z_]*\)/ {
  sub (/\).*/, "")
  sub (/.*\(\*/, "")
  names[++n] = $0
  next
}
kind && /^  [A-Za-z}].*;/ {
  sub (/(\[.*)?;.*/, "")
  sub (/.*[ *]/, "")
  names[++n] = $0
}
AWK

layout () { # FOLDER-OF-HEADERS...: as the headers there have it
  $CC $T_CFLAGS $T_OPENCL_CFLAGS -UCL_TARGET_OPENCL_VERSION -DCL_TARGET_OPENCL_VERSION=120 \
    "$@" "$scratch/layout.c" -o "$scratch/layout" && "$scratch/layout"
}

layout_is_kept () {
  headers=$(find "$old/include/tarn" -name '*.h' | sort)
  case $modules in *opencl*) ;; *) headers=$(echo "$headers" | grep -v '/opencl\.h$') ;; esac
  {
    printf '#include <stddef.h>\n#include <stdio.h>\n'
    for header in $headers; do echo "#include <${header#"$old/include/"}>"; done
    echo 'int main (void) {'
    ${AWK:-awk} -v growing_types="$scratch/growing" -f "$scratch/layout.awk" $headers || return
    echo '}'
  } >"$scratch/layout.c"
  layout -I"$old/include" >"$scratch/before" || return
  layout -I"$top_srcdir/include" -I"$top_builddir/include" >"$scratch/now" || return
  for line in "TARN_ERROR_OUT_OF_MEMORY 0" "TarnPoolOptions.struct_size 0 [48]" \
    "TarnAllocatorOps.free [1-9][0-9]* [48]" "TarnSelectionItem 8"; do
    grep -qx "$line" "$scratch/before" || { echo "not seen: $line"; return 1; }
  done
  grep -qx TarnPoolOptions "$scratch/growing" && diff "$scratch/before" "$scratch/now"
}
: >"$scratch/growing"
if [ -z "$other" ]; then
  check "structs and enumerators are as they were" layout_is_kept
else
  skip "structs and enumerators are as they were" "$other is another library now"
fi

# What nobody outside sees, and structs that say how long they are, with fields at their end.
{
  printf '[suppress_type]\nname_regexp = ^_Tarn\n\n'
  while read -r name; do
    printf '[suppress_type]\ntype_kind = struct\nname = %s\nhas_data_member_inserted_at = end\n\n' \
      "$name"
  done <"$scratch/growing"
} >"$scratch/suppressions"

has_types () { # LIBRARY
  objdump -h "$1" | grep -q '\.debug_info'
}

compare () { # OLD NEW
  abidiff --no-added-syms --suppressions "$scratch/suppressions" "$1" "$2"
}

for module in $modules; do
  name=$(library "$module")
  name=${name##*/}
  before=$old/lib/$module/.libs/$name.so
  now=$top_builddir/lib/$module/.libs/$name.so
  if [ ! -e "$before" ]; then
    skip "$name works in the place of $tag's" "$tag has none"
  elif [ "$(soname "$before")" != "$(soname "$now")" ]; then
    skip "$name works in the place of $tag's" "it is $(soname "$now") now"
  elif ! has_types "$now"; then
    skip "$name works in the place of $tag's" "it was built without debugging information"
  else
    check "$name works in the place of $tag's" compare "$before" "$now"
  fi
done
done_testing
