#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# What configure decides reaches every object: build-flags has all of it, make compiles each object
# again when build-flags changes, and configure leaves files alone that stay the same.
. "$(dirname "$0")/../lib/tap.sh"

status=$top_builddir/config.status
cd "$top_builddir" || exit
unset MAKEFLAGS MFLAGS # of the make that runs this: it may print where it is

# The variables in the makefiles' flags for compilers and linkers, which configure substitutes.
list_flags () {
  find "$top_srcdir" -path '*/_build*' -prune -o \( -name Makefile.am -o -name Makefile.am.inc \) \
    -exec awk '
      /^[A-Za-z0-9_%]*(CPPFLAGS|CFLAGS|CXXFLAGS|LDFLAGS) *\+?=/ { inside = 1 }
      inside { print }
      !/\\$/ { inside = 0 }' {} + | grep -o '\$([A-Za-z_]*)' | tr -d '$()' | sort -u
  echo CC CFLAGS CXX CXXFLAGS CPPFLAGS LDFLAGS LIBS TEST_CFLAGS | tr ' ' '\n'
}

has_all_flags () {
  missing=
  for name in $(list_flags); do
    case $name in
      top_srcdir | top_builddir | srcdir | builddir) continue ;;
    esac
    ! grep -q "^S\\[\"$name\"\\]=" "$status" || grep -q "@$name@" "$top_srcdir/build-flags.in" \
      || missing="$missing $name"
  done
  [ -z "$missing" ] || { echo "not in build-flags.in:$missing"; return 1; }
}

# How make would compile after a change of build-flags.
show_commands () { # VARIABLE=VALUE...
  $MAKE -n -f Makefile -f - -W build-flags -o config.h -o include/tarn/version.h "$@" tarn-all 2>/dev/null \
    <<'RULE'
tarn-all: all-am $(check_PROGRAMS) $(check_LTLIBRARIES) ; @:
RULE
}

# What commands compile.
list_compiled () {
  grep -o -E -e ' -c -o [^ ]*\.l?o( |$)' | sed 's/.* -c -o //; s/ $//' | sort -u
}

list_objects () { # those that are there
  $MAKE -s -f Makefile -f - tarn-print <<'RULE' | tr ' ' '\n' | sort -u
tarn-print: ; @echo $(wildcard $(foreach objects,$(filter %_OBJECTS,$(.VARIABLES)),$($(objects))))
RULE
}

# Not by make -B, which overwrites what compilers have said of headers.
compiles_all () {
  show_commands | list_compiled >"$scratch/compiled"
  list_objects >"$scratch/objects"
  [ "$(wc -l <"$scratch/objects")" -gt 100 ] && ! comm -13 "$scratch/compiled" "$scratch/objects" | grep .
}

# All C and C++ of the tests, and nothing else.
gives_test_flags () {
  show_commands TEST_CFLAGS=-DONLY_TESTS >"$scratch/commands"
  grep -e -std=gnu11 -e -std=c++17 "$scratch/commands" | list_compiled | grep '^t/' >"$scratch/tests"
  grep -e -DONLY_TESTS "$scratch/commands" | list_compiled >"$scratch/flagged"
  [ "$(wc -l <"$scratch/tests")" -gt 100 ] && diff "$scratch/tests" "$scratch/flagged"
}

# In a folder of its own: the files of the build are in use.
configure_copy () { # SED-SCRIPT
  mkdir -p "$scratch/copy/include/tarn" && cd "$scratch/copy" \
    && sed -e "s|^srcdir=.*|srcdir='$top_srcdir'|" -e "$1" "$status" >config.status \
    && sh ./config.status --quiet build-flags.new include/tarn/version.h.new
}

writes_only_changes () {
  (
    configure_copy '' && [ -s build-flags ] && touch -d 2000-01-01 build-flags include/tarn/version.h &&
      configure_copy '' && [ -z "$(find build-flags include/tarn/version.h -newermt 2001-01-01)" ] &&
      configure_copy '/^S\["TARN_PROBES"\]=/s/=.*/="3"/' &&
      [ "$(find build-flags include/tarn/version.h -newermt 2001-01-01)" = build-flags ] &&
      grep -x 'TARN_PROBES = 3' build-flags
  )
}

check "build-flags.in has each of configure's flags" has_all_flags
check "make compiles every object again when build-flags changes" compiles_all
check "TEST_CFLAGS are for the tests alone" gives_test_flags
check "configure writes build-flags and version.h only when they change" writes_only_changes
done_testing
