#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# The instructions of one hit and its free, of a miss beside any number of other queues, also after
# no event could be recorded on one of them, of a queue that is used and forgotten beside any number
# of blocks, of a miss over a heap, of queues in turn over a heap, and of a memo with many first
# arguments, counted by callgrind: no noise, so that one too many is seen.
# data/instructions.tsv has what they were, and with which compiler and flags; elsewhere there is
# nothing to compare.  To renew it:
# t/bench/instructions.t --print >t/data/instructions.tsv
. "$(dirname "$0")/../lib/tap.sh"

: "${DEBUG_FLAGS=-DTARN_DEBUG_LEVEL=1}"
data=$top_srcdir/t/data/instructions.tsv
program=$top_builddir/t/bench/hit-path
ways='one-size mixed-sizes one-queue new-queues forgotten-queues failed-event heap-misses queues-in-turn first-arguments'

compiler () {
  printf '%s' "$($CC --version 2>&1 | sed -n 1p); $T_CC_FLAGS${T_TEST_CFLAGS:+ $T_TEST_CFLAGS} $DEBUG_FLAGS"
}

collect () { # WAY N
  LD_BIND_NOW=1 "$top_builddir/libtool" --mode=execute valgrind --tool=callgrind \
    --callgrind-out-file=/dev/null "$program" "$1" "$2" 2>&1 \
    | sed -n 's/.*Collected : *//p'
}

# What the loop takes for each block; what comes before and after it is in both.
count () { # WAY
  few=$(collect "$1" 1000)
  many=$(collect "$1" 11000)
  [ -n "$few" ] && [ -n "$many" ] && echo $(((many - few) / 10000))
}

print () {
  printf 'compiler\t%s\n' "$(compiler)"
  for way in $ways; do
    printf '%s\t%s\n' "$way" "$(count "$way")"
  done
}

is_at_most () { # COUNTED BEFORE
  echo "$1 instructions, $2 before"
  [ "$1" -gt 0 ] && [ $((10 * $1)) -le $((11 * $2)) ]
}

why_not () {
  if [ ! -x "$program" ]; then
    echo "hit-path is not built"
  elif [ "$SANITIZER" != no ]; then
    echo "a sanitizer counts, too"
  elif ! command -v valgrind >/dev/null; then
    echo "there is no valgrind"
  elif [ "$(compiler)" != "$(sed -n 's/^compiler	//p' "$data")" ]; then
    echo "the file is of another compiler or other flags: $(compiler)"
  fi
}

if [ "${1-}" = --print ]; then
  print
  exit
fi

reason=$(why_not)
for way in $ways; do
  if [ -n "$reason" ]; then
    skip "$way" "$reason"
  else
    before=$(sed -n "s/^$way	//p" "$data")
    counted=$(count "$way")
    check "$way: no more than a tenth above ${before:-nothing}, which it was" \
      is_at_most "${counted:-0}" "${before:-0}"
  fi
done
done_testing
