#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# The door on processors that keep less order than x86's, by herd7: as C11's memory model has it, and
# as ARM's and x86's have what compilers make of that.  What must not be never is; and wherever an
# order or a fence is taken out that is needed, it is sometimes, which herd7 finds.
#
# By hand, with a drawing of how it comes to be:
#     herd7 -model rc11.cat t/model/visit.litmus
#     herd7 -show prop -o . t/model/visit-aarch64.litmus
# doc/memory-order says what comes of it.
. "$(dirname "$0")/../lib/tap.sh"

skip_all () { # REASON
  skip "the door on weak processors" "$1"
  done_testing
  exit
}
: "${HERD:=herd7}"
command -v "$HERD" >/dev/null || skip_all "there is no $HERD"

# Whether what a test is about is there, as it is once sed has changed it.  Races of plain accesses
# are undefined behaviour of C, which herd7 flags.
says () { # OBSERVATION NAME [SED-SCRIPT]
  model=
  grep -q '^C ' "$top_srcdir/t/model/$2.litmus" && model="-model rc11.cat"
  sed -e "${3-}" "$top_srcdir/t/model/$2.litmus" >"$scratch/changed.litmus" || return
  [ -z "${3-}" ] || ! cmp -s "$top_srcdir/t/model/$2.litmus" "$scratch/changed.litmus" || return
  # shellcheck disable=SC2086  # options are words
  "$HERD" $model "$scratch/changed.litmus" >"$scratch/says" 2>&1
  cat "$scratch/says"
  if [ "$1" = Never ] && grep '^Flag \*undef\*' "$scratch/says"; then return 1; fi
  grep -q "^Observation $2 $1 " "$scratch/says"
}

is_right () { # NAME [SED-SCRIPT]
  check "$1${2:+: $2}" says Never "$@"
}

finds () { # DEFECT NAME SED-SCRIPT
  check "$2, $1: herd7 finds it" says Sometimes "$2" "$3"
}

for at in 1 3 4; do
  is_right visit "s/at = 2/at = $at/"
  is_right visit-aarch64 "s/X9=2/X9=$at/"
  is_right visit-x86 "s/r9=2/r9=$at/"
done
for name in visit visit-aarch64 visit-x86 fenced open register; do
  is_right $name
done

# A writer may see the next visit's number first, which no release stored.
again="atomic_store_explicit (visits, 3, memory_order_relaxed);"
is_right visit "s/at = 2/at = 3/; /visits, 2, memory_order_release/a $again"

finds "no membarrier" visit "s/at = 2/at = 0; answer = 1/"
finds "no membarrier" visit-aarch64 "s/X9=2/X9=0; answer=1/"
finds "no membarrier" visit-x86 "s/r9=2/r9=0; answer=1/"
finds "an interrupt that is no fence" visit "/the kernel's/d"
finds "an interrupt that is no fence" visit-aarch64 "s/^ DMB ISH /NOP     /"
finds "a visit that ends relaxed" visit \
  "s/at = 2/at = 3/; s/visits, 2, memory_order_release/visits, 2, memory_order_relaxed/"
finds "a visit that ends relaxed" visit-aarch64 "s/X9=2/X9=3/; s/STLR W10/STR W10/"
finds "the first look at a reader relaxed" visit \
  "s/at = 2/at = 3/; s/visits, memory_order_seq_cst/visits, memory_order_relaxed/"
finds "the later looks at a reader relaxed" visit \
  "s/at = 2/at = 3/; s/visits, memory_order_acquire/visits, memory_order_relaxed/"

finds "a visit that begins relaxed" fenced \
  "s/visits, 1, memory_order_seq_cst/visits, 1, memory_order_relaxed/"
finds "a look at the door that acquires only" fenced \
  "s/door, memory_order_seq_cst/door, memory_order_acquire/"
finds "a door that is closed by a release only" fenced \
  "s/door, 1, memory_order_seq_cst/door, 1, memory_order_release/"
finds "a look at a reader that acquires only" fenced \
  "s/visits, memory_order_seq_cst/visits, memory_order_acquire/"
finds "a door that is opened relaxed" open \
  "s/door, 2, memory_order_release/door, 2, memory_order_relaxed/"
finds "a look at the door relaxed" open "s/door, memory_order_acquire/door, memory_order_relaxed/"
finds "a list that is walked without its lock" register \
  "s/list, 1, memory_order_release/list, 1, memory_order_relaxed/"
done_testing
