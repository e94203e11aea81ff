# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# For the tests of tarn-test: programs for it to run, and what holds for every run.
. "$(dirname "$0")/../lib/tap.sh"

tester=$(cd "$top_builddir" && pwd)/tools/tarn-test
if [ ! -x "$tester" ]; then
  skip "tarn-test" "not built"
  done_testing
  exit
fi
unset TARN_TEST PYOPENCL_TEST NO_COLOR
# Seconds after which tarn-test itself hangs.
limit=20
[ "$SANITIZER" = no ] || limit=100
POCL_DEVICES="pthread basic"
CUDA_VISIBLE_DEVICES=-1 # what a real driver goes by
TARN_TESTING_CUDA_DEVICES=0     # and the fake one
export POCL_DEVICES CUDA_VISIBLE_DEVICES TARN_TESTING_CUDA_DEVICES first second both
if [ -e /etc/OpenCL/vendors/pocl.icd ]; then
  OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
  export OCL_ICD_VENDORS
fi
(ulimit -c 0) 2>/dev/null && ulimit -c 0 # programs below crash on purpose

# Programs find here what they write for the checks to see.
programs=$scratch/programs
pids=$scratch/pids
export scratch pids tester
mkdir "$programs" "$pids"
tab=$(printf '\t')

# ---- the devices ----

n_devices=0
first=
second=
if "$tester" --list >"$scratch/list" 2>/dev/null; then
  n_devices=$(wc -l <"$scratch/list")
  first=$(sed -n 1p "$scratch/list" | cut -f 1)
  second=$(sed -n 2p "$scratch/list" | cut -f 1)
fi
both="$first;$second"
at="program on $first"

needs_devices () { # NUMBER: the rest of the script
  [ "$n_devices" -ge "$1" ] && return
  skip "tests on devices" "fewer than $1 OpenCL devices"
  done_testing
  exit
}

# ---- what checks are made of ----

program () { # NAME: a program under test; standard input is what it does
  { echo '#!/bin/sh'; cat; } >"$programs/$1" && chmod +x "$programs/$1"
}

copies () { # PROGRAM COPY...
  original=$programs/$1
  shift
  for copy; do
    cp "$original" "$programs/$copy"
  done
}

# Leaves what it prints in out and err, its exit status in $status.  A tarn-test that hangs is a
# failure, not a hang of this script; sleeps in programs are longer than this limit.
tarn_test () {
  limited "$tester" "$@"
}

limited () {
  (cd "$programs" && exec timeout -k 2 $limit "$@") >"$scratch/out" 2>"$scratch/err"
  status=$?
  cat "$scratch/out" "$scratch/err"
  echo "exit status: $status"
}

# What holds for every run: the form, the numbers, that outer points, the closing line and the exit
# status are what the inner points say.
sound () {
  tr -d '\000' <"$scratch/out" | awk -v status="$status" '
    function bad (why) {
      printf "line %d: %s: %s\n", NR, why, $0
      wrong = 1
    }
    function number (line) { # of a point
      sub (/^ *(not )?ok /, "", line)
      return line + 0
    }
    NR == 1 {
      if ($0 != "TAP version 13")
        bad("not the version")
      next
    }
    closed {
      bad("after the closing line")
    }
    /^# Subtest: .+ on [^ ]+ \(.+\)$/ && !inside && !n_planned {
      inside = 1
      n = n_bad = n_skips = planned = 0
      name = $0
      sub(/^# Subtest: /, "", name)
      sub(/ \(.*/, "", name)
      next
    }
    inside && /^    #/ {
      next
    }
    inside && /^    (not )?ok [0-9]+/ {
      n++
      if (number($0) != n || planned)
        bad("out of place")
      if (/^    ok/ && tolower($0) ~ / # *skip/) {
        n_skips++
        skipped++
      } else if (/^    ok/ || tolower($0) ~ / # *todo/)
        passed++
      else {
        n_bad++
        failed++
      }
      next
    }
    inside && /^    1\.\.[0-9]+$/ {
      if ($0 != "    1.." n || planned)
        bad("not the plan of " n " points")
      planned = 1
      next
    }
    inside && /^(not )?ok [0-9]+ - / {
      k++
      inside = 0
      skip = $0 ~ / # SKIP( |$)/
      title = $0
      sub(/^(not )?ok [0-9]+ - /, "", title)
      sub(/ # SKIP.*/, "", title)
      if (number($0) != k || !planned || title != name)
        bad("not the end of " name)
      if (/^ok/ != (n_bad == 0) || skip != (n_skips == n))
        bad("not what its points say")
      next
    }
    !inside && /^1\.\.[0-9]+$/ && !n_planned {
      n_planned = 1
      if ($0 != "1.." k + 0)
        bad("not the plan of " k " runs")
      next
    }
    n_planned && /^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ {
      closed = 1
      if ($0 != passed + 0 " passed, " failed + 0 " failed, " skipped + 0 " skipped")
        bad("not the sum of the points")
      if (status != (failed > 0))
        bad("exit status " status)
      next
    }
    {
      bad("stray line")
    }
    END {
      if (!closed)
        bad("no closing line")
      exit wrong
    }'
}

closes () { # COUNTS
  [ "$(tail -n 1 "$scratch/out")" = "$1" ]
}

# Of a run that ended: the closing line, and the points of all subtests as they are printed.  How a
# point without description is printed, with a dash or without, does not matter.
gives () { # COUNTS POINT...
  sound && closes "$1" || return
  shift
  printf '%s\n' "$@" >"$scratch/expected"
  grep -E '^    (not )?ok ' "$scratch/out" | sed -e 's/^    //' -e 's/ -* *$//' \
    | diff "$scratch/expected" -
}

# What standard input does, on one device.
one () { # COUNTS POINT...
  program program && tarn_test --select "$first" program && gives "$@"
}

# The same, where the points' text is not what matters.
counts () { # COUNTS
  program program && tarn_test --select "$first" program && sound && closes "$1"
}

all_pass () { # COUNTS ARGUMENT...
  expected=$1
  shift
  tarn_test "$@"
  sound && closes "$expected"
}

times_out () { # SECONDS COUNTS POINT...: what standard input does
  program program && tarn_test --timeout "$1" --select "$first" program
  shift
  gives "$@"
}

wait_until () { # COMMAND...: until it succeeds, or for 10 seconds
  tries=0
  until "$@"; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || return 1
    sleep 0.05
  done
}

# A zombie is gone as well: it is an orphan, and when whoever adopted it waits is not our business.
gone () { # PID
  kill -s 0 "$1" 2>/dev/null || return 0
  [ "$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null)" = Z ]
}

# Programs write their processes' ids to a file in $pids, in one step when all have started.
started () { # NUMBER-OF-PROGRAMS
  [ "$(ls "$pids" | wc -l)" -eq "$1" ]
}

nothing_left () { # NUMBER-OF-PROGRAMS
  started "$1" || return
  for pid in $(cat "$pids"/*); do
    wait_until gone "$pid" || { echo "$pid is left"; return 1; }
  done
}

forget () {
  rm -f "$pids"/* "$pids"/.[!.]* "$scratch/ran" "$scratch/tester" "$scratch/log"
}

# Status 2 and nothing on standard output; nothing was run.
refused () { # VALUE MOST-LINES
  [ $status -eq 2 ] && [ ! -s "$scratch/out" ] && [ ! -e "$scratch/ran" ] \
    && [ -s "$scratch/err" ] && [ "$(wc -l <"$scratch/err")" -le "$2" ] \
    && grep -qF -e "$1" "$scratch/err"
}

# A whole report, as readers of JUnit XML expect it.
valid () { # REPORT
  grep -q '^</testsuites>' "$1" || return
  ! command -v xmllint >/dev/null \
    || xmllint --noout --relaxng "$top_srcdir/t/data/junit.rng" "$1"
}

nowhere () { # TEXT
  ! grep -q -e "$1" "$scratch/out" "$scratch/err"
}

# ---- programs ----

program mark <<'PROGRAM'
: >"$scratch/ran"
echo 1..1
echo ok 1 - it ran
PROGRAM
program good <<'PROGRAM'
echo 1..2
echo ok 1 - adds
echo "ok 2 - multiplies # SKIP no multiplier"
PROGRAM
program fine <<'PROGRAM'
echo "# good-diagnostic"
echo good-error >&2
echo 1..1
echo ok 1 - fine
PROGRAM
program crash <<'PROGRAM'
echo 1..3
echo ok 1 - before
kill -s SEGV $$
PROGRAM
program fails <<'PROGRAM'
echo 1..2
echo "# a-diagnostic"
echo an-error >&2
printf 'an-unfinished-error' >&2
echo ok 1 - first
echo not ok 2 - second
exit 1
PROGRAM
program none <<'PROGRAM'
echo "1..0 # SKIP no unicorn"
PROGRAM
