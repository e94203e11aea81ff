#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# Static probes: the library has those that doc/guide/probes.md lists, each with its arguments; and gdb
# sees a program of which all is known come by them.
. "$(dirname "$0")/../lib/tap.sh"

library=$top_builddir/lib/core/.libs/libtarn.so
program=$top_builddir/t/bench/hit-path

# The guide's lines "| `NAME` | ARGUMENT, ... | ...": each name, and how many arguments it has.
list_documented () {
  sed -n 's/^| `\([a-z_]*\)` | \([^|]*\)|.*/\1,\2/p' "$top_srcdir/doc/guide/probes.md" \
    | awk -F, '{ print $1, ($2 ~ /[a-z]/ ? NF - 1 : 0) }' | sort
}

# The same of the places in the library that have a probe.  An argument is SIZE@PLACE.
list_built () {
  readelf -n "$library" | awk '
    $1 == "Provider:" { is_ours = $2 == "tarn" }
    is_ours && $1 == "Name:" { name = $2 }
    is_ours && $1 == "Arguments:" { print name, gsub (/@/, "") }' | sort -u
}

# $TARN_PROBES, as configure has it: 0, none; 1, those that hits do not come by; 2, all.
list_expected () {
  case $TARN_PROBES in
    1) list_documented | grep -vE '^(free|hit) ' ;;
    2) list_documented ;;
  esac
}

has_what_is_documented () {
  list_expected >"$scratch/expected"
  list_built >"$scratch/built"
  diff "$scratch/expected" "$scratch/built"
}

# Has gdb print a line for each time that the program comes by a probe.
watch_for () { # PROBE FORMAT ARGUMENTS
  printf 'break -probe-stap tarn:%s\ncommands\nsilent\nprintf "%s %s\\n", %s\ncontinue\nend\n' \
    "$1" "$1" "$2" "$3"
}

watch () {
  printf 'set pagination off\nset confirm off\nbreak main\nrun\ndelete\n' # it is loaded now
  watch_for object '%lu %s' '$_probe_arg0, (char *) $_probe_arg1'
  watch_for allocated '%lu %lu %lu' '$_probe_arg0, $_probe_arg1, $_probe_arg3'
  watch_for miss '%lu %lu' '$_probe_arg0, $_probe_arg2'
  if [ "$TARN_PROBES" = 2 ]; then
    watch_for hit '%lu %lu' '$_probe_arg0, $_probe_arg2'
    watch_for free '%lu %lu' '$_probe_arg0, $_probe_arg2'
  fi
  echo continue
}

# 64 requests of 300 to 157286400 bytes, and 10 more, one after the other: each size is fresh once, and
# held from then on.
list_requests () {
  awk 'BEGIN { for (n = 0; n < 74; n++) {
    i = n < 64 ? n : n - 64
    size = 300 * 2 ^ int (i * 20 / 64)
    print (size in seen) ? "hit" : "miss", 2, size
    seen[size] = 1
    print "free", 2, size } }'
}

# The allocator is object 1, and the pool 2.
sees () { # PROBE...
  for probe; do
    grep "^$probe " "$scratch/seen" >"$scratch/got"
    list_requests | grep "^$probe " | diff - "$scratch/got" || return
    [ -s "$scratch/got" ] || return
  done
}

sees_objects () {
  grep -x 'object 1 allocator' "$scratch/seen" && grep -x 'object 2 pool' "$scratch/seen"
}

sees_calls () {
  list_requests | sed -n 's/^miss 2 \(.*\)/\1/p' | sort -n >"$scratch/wanted"
  sed -n 's/^allocated 1 \([0-9]*\) 0$/\1/p' "$scratch/seen" | sort -n >"$scratch/asked"
  # Of a size of its own each, and at least what was asked for.
  [ "$(wc -l <"$scratch/asked")" -eq "$(wc -l <"$scratch/wanted")" ] || return
  paste "$scratch/asked" "$scratch/wanted" | awk '$1 < $2 { print; bad = 1 } END { exit bad }'
}

can_be_watched () {
  [ "$SANITIZER" = no ] && [ -x "$program" ] && command -v gdb >/dev/null \
    && gdb -nx -batch -ex run --args true 2>&1 | grep -q 'exited normally'
}

if [ ! -e "$library" ] || ! command -v readelf >/dev/null; then
  skip "probes" "there is no shared library, or no readelf"
  done_testing
  exit
fi

# By hand there is nobody who says what configure was told.
if [ -z "${TARN_PROBES-}" ]; then
  TARN_PROBES=$(sed -n 's/^TARN_PROBES = //p' "$top_builddir/Makefile")
fi
check "the library has the probes that are documented for its build ($TARN_PROBES)" \
  has_what_is_documented
if [ "$TARN_PROBES" = 0 ]; then
  skip "probes are seen" "the library was built without"
elif ! can_be_watched; then
  skip "probes are seen" "there is no gdb that can watch a program, or a sanitizer"
else
  watch >"$scratch/commands"
  "$top_builddir/libtool" --mode=execute gdb -nx -batch -x "$scratch/commands" \
    --args "$program" mixed-sizes 10 >"$scratch/seen" 2>&1
  check "an allocator and a pool are made" sees_objects
  check "each size is fresh once" sees miss
  check "... and its memory the backend's" sees_calls
  if [ "$TARN_PROBES" = 2 ]; then
    check "what is held is handed out" sees hit
    check "all is freed" sees free
  else
    skip "hits are seen" "the library was built without probes of them"
  fi
fi
done_testing
