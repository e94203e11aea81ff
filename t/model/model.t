#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# The models of the door and of threads' caches, by Spin: every order of their steps, and of stores
# that reach memory late.  As the library is they have no error, and with each of the defects that
# they can be given they have one, which Spin finds.
#
# By hand, for the steps that lead to an error:
#     spin -a -DNO_FENCE t/model/door.pml && cc -DSAFETY -o pan pan.c && ./pan -i
#     spin -t -p -g -DNO_FENCE t/model/door.pml
# and more than fits here: -DTHREADS=3, with cc -DBITSTATE.
. "$(dirname "$0")/../lib/tap.sh"

skip_all () { # REASON
  skip "the models" "$1"
  done_testing
  exit
}
[ "$top_srcdir" -ef "$top_builddir" ] || skip_all "they are the same in a build in the source tree"
[ "$SANITIZER" = no ] || skip_all "they are the same in builds without sanitizers"
: "${SPIN:=spin}"
command -v "$SPIN" >/dev/null || skip_all "there is no $SPIN"

# What pan found is in ./log; DEFINES are for the model.
verify () { # MODEL OPTIONS-OF-CC OPTIONS-OF-PAN [DEFINES]
  rm -rf "$scratch/run" && mkdir "$scratch/run" && cd "$scratch/run" || return
  # shellcheck disable=SC2086  # options are words
  "$SPIN" -a ${4-} "$top_srcdir/t/model/$1" && $CC -w $2 -o pan pan.c && ./pan $3 >log 2>&1
  cat log
  ! grep -E '^error:|out of memory' log # such as a depth that was not reached
}

has_none () { # as verify
  verify "$@" && grep -q 'errors: 0$' log
}

has () { # ERROR, and as verify
  error=$1
  shift
  verify "$@"
  grep "^pan:1: $error" log
}

# Nor is there a step that is never taken: then its errors would not be seen.
is_reached () {
  grep -A 1 '^unreached in proctype Thread' "$scratch/run/log" | grep '(0 of [0-9]* states)'
}

deep=-m3000000 # steps
loops='-DLIVENESS'

check "the door" has_none door.pml "-O2 -DSAFETY" $deep
check "... every step is taken" is_reached
check "... closing ends" has_none door.pml "-O1 -DNOREDUCE" "$deep -a -f" $loops
check "... readers bring a fence, for lack of membarrier" \
  has_none door.pml "-O1 -DSAFETY" $deep -DFENCED_DOOR
for more in "" -DFENCED_DOOR; do
  check "... the list of threads is walked without a lock $more" \
    has_none door.pml "-O1 -DSAFETY" $deep "-DWALK_UNLOCKED $more"
  check "... ... closing ends" \
    has_none door.pml "-O1 -DNOREDUCE" "$deep -a -f" "-DWALK_UNLOCKED $more $loops"
done

check "caches, two blocks" has_none caches.pml "-O2 -DSAFETY -DCOLLAPSE" $deep
check "... every step is taken" is_reached
for more in -DFENCED_DOOR -DWALK_UNLOCKED; do
  check "caches, one block, $more" \
    has_none caches.pml "-O1 -DSAFETY -DCOLLAPSE" $deep "-DBLOCKS=1 $more"
done

# Defects; each is said in the model.
finds () { # MODEL DEFINES [ERROR]
  check "${1%.pml}, $2: Spin finds it" has "${3:-assertion violated}" "$1" "-O0 -DSAFETY" $deep "$2"
}
for define in NO_FENCE NO_WAIT LOOK_FIRST NO_LOCK LIST_READ_FIRST; do
  finds door.pml -D$define
done
finds door.pml "-DFENCED_DOOR -DNO_FENCE"
finds door.pml "-DFENCED_DOOR -DWALK_UNLOCKED -DCLOSED_LATE"
finds door.pml -DLOCK_INSIDE "invalid end state"
check "door, -DAWAIT_EVEN: Spin finds it" \
  has "acceptance cycle" door.pml "-O0 -DNOREDUCE" "$deep -a -f" "-DAWAIT_EVEN $loops"
for define in NO_FENCE NO_WAIT LOOK_FIRST NO_RECHECK ABANDONED_UNLOCKED SEARCH_UNLOCKED \
  STILL_ABANDONED TAKEN_OVER_EMPTY IDLE_UNCLOSED NOT_ABANDONED USED_AFTER_END; do
  finds caches.pml "-DBLOCKS=1 -D$define"
done
finds caches.pml "-DBLOCKS=1 -DITEM_SET_LOCKED" "invalid end state"
done_testing
