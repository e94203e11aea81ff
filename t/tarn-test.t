#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# tarn-test: programs that pass, fail, crash, hang or print garbage, once for each chosen device.
. "$(dirname "$0")/tap.sh"

tester=$(cd "$top_builddir" && pwd)/tools/tarn-test
if [ ! -x "$tester" ]; then
  skip "tarn-test" "not built"
  done_testing
  exit
fi
unset TARN_TEST PYOPENCL_TEST
POCL_DEVICES="pthread basic"
export POCL_DEVICES first second
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
  (cd "$programs" && exec timeout -k 2 20 "$@") >"$scratch/out" 2>"$scratch/err"
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
      if (tolower($0) ~ / # *skip/) {
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

# The runs, a line each and sorted, without the numbers that depend on which ends first.
runs () {
  awk '
    /^# Subtest: / { run = $0; sub(/ \(.*/, "", run) }
    /^    [^#]/ { run = run "|" substr($0, 5) }
    /^(not )?ok / { sub(/ok [0-9]+ /, "ok "); print run "|" $0 }' "$scratch/out" | sort
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

# ---- the command line ----

program mark <<'PROGRAM'
: >"$scratch/ran"
echo 1..1
echo ok 1 - it ran
PROGRAM
echo 'echo 1..0' >"$programs/not-executable"
mkdir "$programs/folder"

help_fits () { # OPTION
  limited "$tester" "$1"
  [ $status -eq 0 ] && [ ! -s "$scratch/err" ] && [ -s "$scratch/out" ] \
    && [ "$(wc -l <"$scratch/out")" -le 24 ] && awk 'length > 80 { exit 1 }' "$scratch/out"
}

help_names () { # OPTION...
  limited "$tester" --help
  for option; do
    grep -qE -e "(^|[ ,])$option([ ,=]|\$)" "$scratch/out" \
      || { echo "$option is not there"; return 1; }
  done
}

version () {
  limited "$tester" --version
  [ $status -eq 0 ] && [ "$(wc -l <"$scratch/out")" -eq 1 ] \
    && grep -qE '^tarn-test [0-9]+\.[0-9]+\.[0-9]+' "$scratch/out"
}

# Status 2 and nothing on standard output; nothing was run.
refused () { # VALUE MOST-LINES
  [ $status -eq 2 ] && [ ! -s "$scratch/out" ] && [ ! -e "$scratch/ran" ] \
    && [ -s "$scratch/err" ] && [ "$(wc -l <"$scratch/err")" -le "$2" ] \
    && grep -qF -e "$1" "$scratch/err"
}

refuses () { # VALUE ARGUMENT...
  forget
  value=$1
  shift
  tarn_test "$@"
  refused "$value" 2 && head -n 1 "$scratch/err" | grep -q '^tarn-test: '
}

refuses_from () { # VARIABLE VALUE
  forget
  limited env "$1=$2" "$tester" mark
  refused "$2" 2 && head -n 1 "$scratch/err" | grep -q '^tarn-test: '
}

cannot_run () { # PROGRAM
  forget
  tarn_test mark "$1" mark
  refused "$1" 1
}

check "--help fits a screen" help_fits --help
check "-h does" help_fits -h
check "--help names every option" help_names --select --list --jobs --timeout --junit --flat \
  --verbose --version --help -s -l -j -t -v -h
check "--version" version
check "an unknown option" refuses --frobnicate --frobnicate mark
check "an unknown letter" refuses -Q -Q mark
check "--jobs 0" refuses 0 --jobs 0 mark
check "--jobs x" refuses x --jobs x mark
check "--jobs -1" refuses -1 --jobs=-1 mark
check "--jobs 2x" refuses 2x --jobs 2x mark
check "--jobs without a number" refuses --jobs mark --jobs
check "--timeout -1" refuses -1 --timeout -1 mark
check "--timeout abc" refuses abc --timeout abc mark
check "--timeout 1x" refuses 1x --timeout 1x mark
check "--timeout nan" refuses nan --timeout nan mark
check "no PROGRAM" refuses "" --jobs 1

# ---- on devices ----

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
program hang <<'PROGRAM'
echo 1..2
echo ok 1 - before
exec sleep 60
PROGRAM
program garbage <<'PROGRAM'
for a in 0 1 2 3; do
  for b in 0 1 2 3 4 5 6 7; do
    for c in 0 1 2 3 4 5 6 7; do
      printf "\\$a$b$c"
    done
  done
done
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
program skipped <<'PROGRAM'
echo 1..2
echo "ok 1 - a # SKIP no unicorn"
echo "ok 2 - b # SKIP no unicorn"
PROGRAM
program none <<'PROGRAM'
echo "1..0 # SKIP no unicorn"
PROGRAM

in_shape () { # --list: places, selectors, names
  awk -F "$tab" '
    { print }
    NF != 3 || $1 !~ /^[0-9]+:[0-9]+$/ || $2 == "" || $3 == "" || seen[$1]++ || seen[$2]++ {
      wrong = 1
    }
    END { exit wrong }' "$scratch/list"
}

# Every selector, and every place, chooses its device and no other.
each_chooses_its_own () { # FIELD
  while read -r line; do
    chosen=$(printf '%s\n' "$line" | cut -f "$1")
    limited "$tester" --list --select "$chosen" </dev/null
    [ $status -eq 0 ] && printf '%s\n' "$line" | diff - "$scratch/out" || return
  done <"$scratch/list"
}

short_list () {
  tarn_test -l -s "$second"
  grep "^$second$tab" "$scratch/list" | diff - "$scratch/out"
}

# The subtest's title has the name that --list prints for that device.
named () {
  tarn_test --select "$both" good
  sound || return
  for device in "$first" "$second"; do
    name=$(sed -n "s/^# Subtest: good on $device (\(.*\))\$/\1/p" "$scratch/out")
    grep "^$device$tab" "$scratch/list" | cut -f 3 | grep -qF -e "$name" && [ -n "$name" ] || return
  done
}

on_all () {
  tarn_test fine && sound && closes "$n_devices passed, 0 failed, 0 skipped" || return
  sed -n 's/^ok [0-9]* - fine on //p' "$scratch/out" | sort >"$scratch/ran-on"
  cut -f 1 "$scratch/list" | sort | diff - "$scratch/ran-on"
}

ran_on () { # DEVICE...: the devices of the last run
  sound || return
  printf '%s\n' "$@" | sort >"$scratch/expected"
  sed -n 's/^ok [0-9]* - .* on //p' "$scratch/out" | sort | diff "$scratch/expected" -
}

chooses () { # SELECTION DEVICE...
  tarn_test --select "$1" fine
  shift
  ran_on "$@"
}

variable_chooses () { # DEVICE ENV-ARGUMENT...
  chosen=$1
  shift
  limited env "$@" "$tester" fine
  ran_on "$chosen"
}

option_wins () {
  limited env TARN_TEST="$first" PYOPENCL_TEST="$first" "$tester" --select "$second" fine
  ran_on "$second"
}

environment () {
  echo input >"$scratch/input"
  limited env OTHER="a b" "$tester" --select "$both" environment <"$scratch/input"
  sound && closes "6 passed, 0 failed, 0 skipped" || return
  for device in "$first" "$second"; do
    grep -qxF "    ok 1 - $device $device [a b]" "$scratch/out" || return
  done
}

exactly () { # LINE...: the whole output, but for the devices' names
  sed '/^# Subtest: /s/ (.*)$/ (NAME)/' "$scratch/out" >"$scratch/nameless"
  printf '%s\n' "$@" | diff - "$scratch/nameless"
}

good_run () {
  tarn_test --select "$first" good fine --jobs 1
  sound && exactly "TAP version 13" \
    "# Subtest: good on $first (NAME)" "    ok 1 - adds" \
    "    ok 2 - multiplies # SKIP no multiplier" "    1..2" "ok 1 - good on $first" \
    "# Subtest: fine on $first (NAME)" "    ok 1 - fine" "    1..1" "ok 2 - fine on $first" \
    1..2 "2 passed, 0 failed, 1 skipped"
}

all_skipped () {
  tarn_test --select "$first" skipped
  sound && exactly "TAP version 13" "# Subtest: skipped on $first (NAME)" \
    "    ok 1 - a # SKIP no unicorn" "    ok 2 - b # SKIP no unicorn" "    1..2" \
    "ok 1 - skipped on $first # SKIP no unicorn" 1..1 "0 passed, 0 failed, 2 skipped"
}

skips_all () {
  tarn_test --select "$first" none
  sound && exactly "TAP version 13" "# Subtest: none on $first (NAME)" \
    "    ok 1 - none on $first # SKIP no unicorn" "    1..1" \
    "ok 1 - none on $first # SKIP no unicorn" 1..1 "0 passed, 0 failed, 1 skipped"
}

# Bad programs beside a good one, on both devices.
beside () { # JOBS
  tarn_test --jobs "$1" --timeout 1 --select "$both" good crash hang garbage
  sound && closes "6 passed, 6 failed, 2 skipped" || return
  for device in "$first" "$second"; do
    at="good on $device"
    echo "# Subtest: $at|ok 1 - adds|ok 2 - multiplies # SKIP no multiplier|1..2|ok - $at"
    at="crash on $device"
    printf '%s' "# Subtest: $at|ok 1 - before|not ok 2 - $at: killed by signal 11 "
    echo "(Segmentation fault)|1..2|not ok - $at"
    at="hang on $device"
    echo "# Subtest: $at|ok 1 - before|not ok 2 - $at: timed out after 1 s|1..2|not ok - $at"
    at="garbage on $device"
    echo "# Subtest: $at|not ok 1 - $at: no plan|1..1|not ok - $at"
  done | sort >"$scratch/expected"
  runs | diff "$scratch/expected" -
}

# With one job, the second run starts after the first one's end.
one_at_a_time () { # ARGUMENT...
  forget
  tarn_test "$@" --select "$both" log log-2
  sound && [ "$(tr '\n' ' ' <"$scratch/log")" = "start end start end start end start end " ]
}

all_pass () { # COUNTS ARGUMENT...
  expected=$1
  shift
  tarn_test "$@"
  sound && closes "$expected"
}

from_path () {
  limited env PATH="$scratch/path:$PATH" "$tester" --select "$first" elsewhere
  sound && closes "1 passed, 0 failed, 0 skipped" && grep -q "ok 1 - of PATH" "$scratch/out"
}

here_first () {
  limited env PATH="$scratch/path:$PATH" "$tester" --select "$first" fine
  sound && grep -q "^    ok 1 - fine" "$scratch/out"
}

full_path () {
  tarn_test --select "$first" "$programs/fine"
  sound && closes "1 passed, 0 failed, 0 skipped"
}

no_interpreter () {
  echo '#!/nonexistent/interpreter' >"$programs/no-interpreter"
  chmod +x "$programs/no-interpreter"
  tarn_test --select "$first" no-interpreter
  [ $status -eq 1 ] || [ $status -eq 2 ]
}

shows () { # TEXT: as a diagnostic of a subtest
  grep -q -e "^    # .*$1" "$scratch/out"
}

nowhere () { # TEXT
  ! grep -q -e "$1" "$scratch/out" "$scratch/err"
}

diagnostics () {
  tarn_test --select "$first" fails fine
  sound && shows a-diagnostic && shows an-error && shows an-unfinished-error \
    && nowhere good-diagnostic && nowhere good-error
}

verbose () { # OPTION
  tarn_test "$1" --select "$first" fine
  sound && shows good-diagnostic && shows good-error && [ ! -s "$scratch/err" ]
}

quiet () {
  tarn_test --select "$both" --jobs 2 good fine
  sound && [ ! -s "$scratch/err" ] && nowhere good-diagnostic && nowhere good-error
}

times_out () { # SECONDS COUNTS POINT...: what standard input does
  program program && tarn_test --timeout "$1" --select "$first" program
  shift
  gives "$@"
}

ends_the_group () {
  forget
  tarn_test -t 1 -s "$both" -j 2 family
  sound && closes "0 passed, 2 failed, 0 skipped" && nothing_left 2
}

does_not_wait () { # PROGRAM
  forget
  tarn_test --select "$both" "$1"
  sound && closes "2 passed, 0 failed, 0 skipped" && nothing_left 2
}

# Sends a signal to tarn-test, which has written its id, when that many programs have started.
signal_later () { # SIGNAL NUMBER-OF-PROGRAMS
  wait_until started "$2"
  kill -s "$1" "$(cat "$scratch/tester")"
}

# In the foreground, as the shell makes SIGINT ignored in what runs in the background.
dies_of () { # SIGNAL STATUS
  forget
  signal_later "$1" 2 >/dev/null 2>&1 &
  limited sh -c 'echo $$ >"$scratch/tester"; exec "$@"' sh \
    "$tester" --jobs 4 --select "$both" --junit "$scratch/killed.xml" family
  wait $!
  [ $status -eq "$2" ] && nothing_left 2
}

# A shell cannot tell death by a signal from an exit status above 128; tarn-test can.
seen_from_outside () {
  forget
  signal_later TERM 1 >/dev/null 2>&1 &
  tarn_test --select "$first" inner
  wait $!
  [ $status -eq 1 ] && nothing_left 1 && grep -qE \
    "^    not ok [0-9]+ - inner on $first: killed by signal 15 \(Terminated\)\$" "$scratch/out"
}

flat () {
  tarn_test --flat --jobs 1 --timeout 1 --select "$first" "$@"
  sed '/^ *#/d' "$scratch/out" >"$scratch/points"
}

flat_points () {
  flat mixed crash
  [ $status -eq 1 ] && printf '%s\n' "TAP version 13" \
    "ok 1 - mixed on $first: a" "ok 2 - mixed on $first: b # SKIP no unicorn" \
    "not ok 3 - mixed on $first: c" "not ok 4 - mixed on $first: d # TODO later" \
    "ok 5 - crash on $first: before" \
    "not ok 6 - crash on $first: killed by signal 11 (Segmentation fault)" \
    1..6 "3 passed, 2 failed, 1 skipped" | diff - "$scratch/points"
}

flat_numbers () {
  tarn_test --flat --jobs 2 --select "$both" good fine
  [ $status -eq 0 ] && closes "4 passed, 0 failed, 2 skipped" \
    && grep -Eo '^ok [0-9]+|^1\.\.[0-9]+' "$scratch/out" | tr '\n' ' ' \
      | grep -qx 'ok 1 ok 2 ok 3 ok 4 ok 5 ok 6 1..6 '
}

flat_skip () {
  flat none
  [ $status -eq 0 ] && closes "0 passed, 0 failed, 1 skipped" \
    && grep -qE "^ok 1 - none on $first.* # SKIP no unicorn\$" "$scratch/out" \
    && grep -qx 1..1 "$scratch/out"
}

flat_diagnostics () {
  flat fails fine
  [ $status -eq 1 ] && closes "2 passed, 1 failed, 0 skipped" \
    && grep -q '^ *# .*an-error' "$scratch/out" && nowhere good-error
}

proves () { # yes|no ARGUMENT...
  expected=$1
  shift
  cat >"$scratch/wrapper" <<WRAPPER
#!/bin/sh
cd '$programs' && exec '$tester' --select '$both' $*
WRAPPER
  chmod +x "$scratch/wrapper"
  success=no
  prove -e '' "$scratch/wrapper" >"$scratch/proved" 2>&1 && success=yes
  cat "$scratch/proved"
  [ $success = "$expected" ]
}

prove_counts () { # TEXT ARGUMENT...
  text=$1
  shift
  proves "$@" && grep -qF "$text" "$scratch/proved"
}

# An expression's value in the report.
value () { # XPATH
  xmllint --xpath "$1" "$scratch/reports/report.xml"
}

holds () { # XPATH
  [ "$(value "$1")" = true ]
}

report () {
  tarn_test --junit "$scratch/reports/report.xml" --jobs 2 --select "$both" \
    mixed crash none fine loud "$rude"
  sound && closes "12 passed, 6 failed, 6 skipped"
}

replaces () {
  echo old >"$scratch/reports/report.xml"
  report && grep -q '</testsuites>' "$scratch/reports/report.xml" \
    && [ "$(ls -A "$scratch/reports")" = report.xml ]
}

no_report () { # FILE
  forget
  tarn_test --junit "$1" --select "$first" mark
  refused "$1" 2
}

old_or_whole () {
  [ ! -e "$scratch/killed.xml" ] || [ "$(cat "$scratch/killed.xml")" = old ] \
    || grep -q '</testsuites>' "$scratch/killed.xml"
}

n_devices=0
first=
second=
if "$tester" --list >"$scratch/list" 2>/dev/null; then
  n_devices=$(wc -l <"$scratch/list")
  first=$(sed -n 1p "$scratch/list" | cut -f 1)
  second=$(sed -n 2p "$scratch/list" | cut -f 1)
fi
both="$first;$second"

if [ "$n_devices" -ge 2 ]; then
  check "--list: place, selector, name" in_shape
  check "each selector chooses its device" each_chooses_its_own 2
  check "each place chooses its device" each_chooses_its_own 1
  check "-l and -s" short_list

  check "--select 99:0" refuses 99:0 --select 99:0 mark
  check "--select nosuch" refuses nosuch --select nosuch mark
  check "--select nosuch --list" refuses nosuch --select nosuch --list
  check "TARN_TEST=nosuch" refuses_from TARN_TEST nosuch
  check "PYOPENCL_TEST=nosuch" refuses_from PYOPENCL_TEST nosuch

  check "a good run, line by line" good_run
  check "all points skipped: the run is" all_skipped
  check "a plan of no points: the run is skipped, one point" skips_all
  check "a subtest has the device's name" named
  check "without a selection: all devices" on_all
  check "one device" chooses "$second" "$second"
  check "two devices" chooses "$both" "$first" "$second"
  check "a device that is named twice runs once" chooses "$second;$second" "$second"
  check "... and by two names" chooses \
    "$first;$(sed -n 1p "$scratch/list" | cut -f 2)" "$first"
  check "TARN_TEST chooses" variable_chooses "$second" TARN_TEST="$second"
  check "PYOPENCL_TEST chooses" variable_chooses "$second" PYOPENCL_TEST="$second"
  check "TARN_TEST goes before PYOPENCL_TEST" variable_chooses "$second" \
    TARN_TEST="$second" PYOPENCL_TEST="$first"
  check "--select goes before both" option_wins

  program environment <<'PROGRAM'
echo "ok 1 - $TARN_TEST $PYOPENCL_TEST [$OTHER]"
[ "$(wc -c)" -eq 0 ] || printf 'not '
echo "ok 2 - standard input is empty"
kill -s 0 -- "-$$" || printf 'not '
echo "ok 3 - leads a process group"
echo 1..3
PROGRAM
  check "device, environment, standard input and process group" environment

  program "two words" <<'PROGRAM'
echo 1..1
echo ok 1 - a
PROGRAM
  check "a program with a space in its name" all_pass "1 passed, 0 failed, 0 skipped" \
    --select "$first" "two words"
  mkdir "$scratch/path"
  for name in elsewhere fine; do
    program $name-of-path <<'PROGRAM'
echo 1..1
echo ok 1 - of PATH
PROGRAM
    mv "$programs/$name-of-path" "$scratch/path/$name"
  done
  check "a program of PATH" from_path
  check "the current folder goes before PATH" here_first
  check "a program by its full path" full_path
  check "a program that is missing" cannot_run no-such-program
  check "... with a folder" cannot_run no-such-folder/program
  check "... by its full path" cannot_run "$scratch/no-such-program"
  check "a folder as a program" cannot_run folder
  check "... with a slash" cannot_run ./folder
  check "a program that is not executable" cannot_run ./not-executable
  check "a program without its interpreter does not pass" no_interpreter

  # ---- many runs ----

  check "crash, hang and garbage beside a good one, --jobs 1" beside 1
  check "crash, hang and garbage beside a good one, --jobs 4" beside 4
  program log <<'PROGRAM'
echo start >>"$scratch/log"
sleep 0.05
echo end >>"$scratch/log"
echo 1..1
echo ok 1 - logged
PROGRAM
  copies log log-2
  check "one run at a time by default" one_at_a_time
  check "one run at a time with --jobs 1" one_at_a_time --jobs 1
  program meet <<'PROGRAM'
: >"$scratch/here.$TARN_TEST"
tries=0
until [ "$(ls "$scratch" | grep -c '^here')" -eq 2 ] || [ $tries -eq 100 ]; do
  tries=$((tries + 1))
  sleep 0.05
done
[ $tries -lt 100 ] || printf 'not '
echo ok 1 - met
echo 1..1
PROGRAM
  check "-j 2: two runs at once" all_pass "2 passed, 0 failed, 0 skipped" -j 2 --select "$both" meet
  program alone <<'PROGRAM'
mkdir "$scratch/on-$TARN_TEST" || printf 'not '
echo "ok 1 - nobody else is here"
rmdir "$scratch/on-$TARN_TEST"
echo 1..1
PROGRAM
  copies alone alone-2 alone-3
  check "never two on one device" all_pass "6 passed, 0 failed, 0 skipped" \
    --jobs 6 --select "$both" alone alone-2 alone-3
  program slow <<'PROGRAM'
[ "$TARN_TEST" != "$second" ] || { echo "ok 1 - fine"; echo 1..1; exit; }
tries=0
until grep -q "^ok 1 - slow on $second" "$scratch/out" || [ $tries -eq 100 ]; do
  tries=$((tries + 1))
  sleep 0.05
done
[ $tries -lt 100 ] || printf 'not '
echo ok 1 - the other run was printed
echo 1..1
PROGRAM
  check "a run is printed when it ends" all_pass "2 passed, 0 failed, 0 skipped" \
    --jobs 2 --select "$both" slow
  program chatty <<'PROGRAM'
for i in 1 2 3 4 5 6 7 8 9; do
  echo "ok $i - of $TARN_TEST"
done
echo 1..9
PROGRAM
  copies chatty chatty-2 chatty-3 chatty-4
  check "runs are not interleaved" all_pass "72 passed, 0 failed, 0 skipped" \
    --jobs 8 --select "$both" chatty chatty-2 chatty-3 chatty-4

  # ---- what programs print ----

  at="program on $first"
  check "the plan comes last" \
    one "2 passed, 0 failed, 0 skipped" "ok 1 - a" "ok 2 - b" <<'PROGRAM'
echo ok 1 - a
echo ok 2 - b
echo 1..2
PROGRAM
  check "TODO passes" one "2 passed, 0 failed, 0 skipped" \
    "not ok 1 - a # TODO later" "ok 2 - b # TODO soon" <<'PROGRAM'
echo 1..2
echo "not ok 1 - a # TODO later"
echo "ok 2 - b # TODO soon"
PROGRAM
  check "SKIP in any case" counts "1 passed, 0 failed, 4 skipped" <<'PROGRAM'
echo 1..5
echo "ok 1 - a # skip no unicorn"
echo "ok 2 - b # Skip no unicorn"
echo "ok 3 - c # SKIP no unicorn"
echo "ok 4 # skip"
echo "ok 5 - skip"
PROGRAM
  check "points without number, dash, description" one "5 passed, 1 failed, 0 skipped" \
    "ok 1 - a" "ok 2 - b" "ok 3 - c" "ok 4" "ok 5" "not ok 6 - f" <<'PROGRAM'
echo 1..6
echo ok - a
echo ok b
echo ok 3 c
echo ok
echo ok 5
echo not ok 6 - f
exit 1
PROGRAM
  check "an escaped hash is no directive" one "1 passed, 1 failed, 0 skipped" \
    'ok 1 - a \# SKIP b' 'not ok 2 - c \# TODO d' <<'PROGRAM'
echo 1..2
printf '%s\n' 'ok 1 - a \# SKIP b' 'not ok 2 - c \# TODO d'
PROGRAM
  check "carriage returns at line ends" one "1 passed, 0 failed, 1 skipped" \
    "ok 1 - a" "ok 2 - b # SKIP no unicorn" <<'PROGRAM'
printf '1..2\r\nok 1 - a\r\nok 2 - b # SKIP no unicorn\r\n'
PROGRAM
  check "no newline at the end" \
    one "2 passed, 0 failed, 0 skipped" "ok 1 - a" "ok 2 - b" <<'PROGRAM'
printf '1..2\nok 1 - a\nok 2 - b'
PROGRAM
  check "no newline at the end of the plan" \
    one "1 passed, 0 failed, 0 skipped" "ok 1 - a" <<'PROGRAM'
printf 'ok 1 - a\n1..1'
PROGRAM
  check "lines that are not TAP" \
    one "2 passed, 0 failed, 0 skipped" "ok 1 - a" "ok 2 - b" <<'PROGRAM'
echo TAP version 13
echo 1..2
echo okay
echo not okay
echo oklahoma 3
echo Device: ok 3
echo notok 3
echo ok 1 - a
echo
echo not
echo pocl: compiling
echo ok 2 - b
PROGRAM
  check "a program's own subtests" \
    one "2 passed, 0 failed, 0 skipped" "ok 1 - a" "ok 2 - b" <<'PROGRAM'
echo 1..2
echo '    not ok 1 - inner'
echo '    1..1'
echo ok 1 - a
echo '  ok 2 - inner'
printf '\tnot ok 2 - inner\n'
echo '    Bail out! of the inner one'
echo ok 2 - b
PROGRAM
  check "control characters, NUL and invalid UTF-8 between points" \
    one "2 passed, 0 failed, 0 skipped" "ok 1 - a" "ok 2 - b" <<'PROGRAM'
echo 1..2
printf '\001\033[31m\007\000\200\377\300\200\355\240\200\n'
echo ok 1 - a
printf '\000not ok 2\n\377ok 2\n\033[0mok 2\n'
echo ok 2 - b
printf '\000\000\377'
PROGRAM
  check "... and in points" counts "2 passed, 1 failed, 1 skipped" <<'PROGRAM'
echo 1..4
printf 'ok 1 - \001\033[31m\007\200\377\300\200\n'
printf 'ok 2 - a\000b\n'
printf 'not ok 3 - \377\n'
printf 'ok 4 - c # SKIP \377\001\n'
exit 1
PROGRAM
  check "a long line, and much on standard error" counts "1 passed, 0 failed, 0 skipped" <<'PROGRAM'
head -c 1000000 /dev/zero | tr '\000' x
echo
head -c 1000000 /dev/zero | tr '\000' y >&2
echo 1..1
echo ok 1 - a
PROGRAM
  check "2000 points" counts "2000 passed, 0 failed, 0 skipped" <<'PROGRAM'
awk 'BEGIN { for (i = 1; i <= 2000; i++) print "ok", i; print "1..2000" }'
PROGRAM
  check "what goes to standard error is no point" one "1 passed, 1 failed, 0 skipped" \
    "ok 1 - a" "not ok 2 - b" <<'PROGRAM'
echo not ok 1 - x >&2
echo 1..7 >&2
echo Bail out! >&2
echo 1..2
echo ok 1 - a
echo not ok 2 - b
PROGRAM
  check "failing runs show standard error and diagnostics" diagnostics
  check "--verbose shows those of good runs, in the subtests" verbose --verbose
  check "-v does" verbose -v
  check "nothing else, and nothing on standard error" quiet

  # ---- what goes wrong ----

  check "killed by a signal" one "1 passed, 1 failed, 0 skipped" \
    "ok 1 - a" "not ok 2 - $at: killed by signal 11 (Segmentation fault)" <<'PROGRAM'
echo 1..1
echo ok 1 - a
kill -s SEGV $$
PROGRAM
  check "killed before the first point" one "0 passed, 1 failed, 0 skipped" \
    "not ok 1 - $at: killed by signal 9 (Killed)" <<'PROGRAM'
kill -s KILL $$
PROGRAM
  check "an exit status" one "1 passed, 1 failed, 0 skipped" \
    "ok 1 - a" "not ok 2 - $at: exit status 3" <<'PROGRAM'
echo 1..1
echo ok 1 - a
exit 3
PROGRAM
  check "an exit status after a TODO" one "1 passed, 1 failed, 0 skipped" \
    "not ok 1 - a # TODO later" "not ok 2 - $at: exit status 1" <<'PROGRAM'
echo 1..1
echo "not ok 1 - a # TODO later"
exit 1
PROGRAM
  check "an exit status with a failing point is no failure more" \
    one "1 passed, 1 failed, 0 skipped" "not ok 1 - a" "ok 2 - b" <<'PROGRAM'
echo 1..2
echo not ok 1 - a
echo ok 2 - b
exit 3
PROGRAM
  check "exit status 0 with a failing point" one "0 passed, 1 failed, 0 skipped" \
    "not ok 1 - a" <<'PROGRAM'
echo 1..1
echo not ok 1 - a
PROGRAM
  check "no plan" \
    one "1 passed, 1 failed, 0 skipped" "ok 1 - a" "not ok 2 - $at: no plan" <<'PROGRAM'
echo ok 1 - a
PROGRAM
  check "no output" one "0 passed, 1 failed, 0 skipped" "not ok 1 - $at: no plan" <<'PROGRAM'
:
PROGRAM
  check "points missing" one "1 passed, 1 failed, 0 skipped" \
    "ok 1 - a" "not ok 2 - $at: planned 3 points, printed 1" <<'PROGRAM'
echo 1..3
echo ok 1 - a
PROGRAM
  check "all points missing" one "0 passed, 1 failed, 0 skipped" \
    "not ok 1 - $at: planned 3 points, printed 0" <<'PROGRAM'
echo 1..3
PROGRAM
  check "too many points" one "3 passed, 1 failed, 0 skipped" \
    "ok 1 - a" "ok 2 - b" "ok 3 - c" "not ok 4 - $at: planned 2 points, printed 3" <<'PROGRAM'
echo ok 1 - a
echo ok 2 - b
echo ok 3 - c
echo 1..2
PROGRAM
  check "points out of order" one "3 passed, 1 failed, 0 skipped" \
    "ok 1 - a" "ok 2 - c" "ok 3 - b" "not ok 4 - $at: point 3 where 2 was due" <<'PROGRAM'
echo 1..3
echo ok 1 - a
echo ok 3 - c
echo ok 2 - b
PROGRAM
  check "a point repeated" one "2 passed, 1 failed, 0 skipped" \
    "ok 1 - a" "ok 2 - a" "not ok 3 - $at: point 1 where 2 was due" <<'PROGRAM'
echo 1..2
echo ok 1 - a
echo ok 1 - a
PROGRAM
  check "a second plan" one "1 passed, 1 failed, 0 skipped" \
    "ok 1 - a" "not ok 2 - $at: a second plan" <<'PROGRAM'
echo 1..1
echo ok 1 - a
echo 1..1
PROGRAM
  check "numbers beyond counting" counts "1 passed, 1 failed, 0 skipped" <<'PROGRAM'
echo 1..99999999999999999999999999
echo ok 1 - a
PROGRAM
  check "bailing out" one "1 passed, 1 failed, 0 skipped" \
    "ok 1 - a" "not ok 2 - $at: bailed out: no memory" <<'PROGRAM'
echo 1..1
echo ok 1 - a
echo "Bail out! no memory"
PROGRAM

  # Of what applies at once, the first: timeout, signal, bail-out, TAP, exit status.
  check "timeout goes before bail-out" times_out 0.5 \
    "0 passed, 1 failed, 0 skipped" "not ok 1 - $at: timed out after 0.5 s" <<'PROGRAM'
echo "Bail out! no memory"
exec sleep 60
PROGRAM
  check "signal goes before bail-out" one "1 passed, 1 failed, 0 skipped" \
    "ok 1 - a" "not ok 2 - $at: killed by signal 11 (Segmentation fault)" <<'PROGRAM'
echo 1..2
echo ok 1 - a
echo "Bail out! no memory"
kill -s SEGV $$
PROGRAM
  check "signal goes before no plan" one "0 passed, 1 failed, 0 skipped" \
    "not ok 1 - $at: killed by signal 6 (Aborted)" <<'PROGRAM'
kill -s ABRT $$
PROGRAM
  check "bail-out goes before missing points and exit status" one "1 passed, 1 failed, 0 skipped" \
    "ok 1 - a" "not ok 2 - $at: bailed out: no memory" <<'PROGRAM'
echo 1..3
echo ok 1 - a
echo "Bail out! no memory"
exit 255
PROGRAM
  check "missing points go before exit status" one "1 passed, 1 failed, 0 skipped" \
    "ok 1 - a" "not ok 2 - $at: planned 3 points, printed 1" <<'PROGRAM'
echo 1..3
echo ok 1 - a
exit 3
PROGRAM
  check "no plan goes before exit status" one "0 passed, 1 failed, 0 skipped" \
    "not ok 1 - $at: no plan" <<'PROGRAM'
exit 3
PROGRAM

  # One cause, one failure.
  check "a failing point, bail-out, abort, as GLib's tests do" one "1 passed, 1 failed, 0 skipped" \
    "ok 1 - a" "not ok 2 - b" <<'PROGRAM'
echo 1..3
echo ok 1 - a
echo not ok 2 - b
echo "Bail out! assertion failed"
kill -s ABRT $$
PROGRAM
  check "a failing point, abort" one "0 passed, 1 failed, 0 skipped" "not ok 1 - a" <<'PROGRAM'
echo 1..3
echo not ok 1 - a
kill -s ABRT $$
PROGRAM
  check "a failing point, bail-out" one "0 passed, 1 failed, 0 skipped" "not ok 1 - a" <<'PROGRAM'
echo 1..3
echo not ok 1 - a
echo "Bail out! assertion failed"
PROGRAM
  check "a failing point, exit status, points missing" one "1 passed, 1 failed, 0 skipped" \
    "ok 1 - a" "not ok 2 - b" <<'PROGRAM'
echo 1..3
echo ok 1 - a
echo not ok 2 - b
exit 1
PROGRAM

  # Two causes.
  check "a failing point, another signal" one "0 passed, 2 failed, 0 skipped" \
    "not ok 1 - a" "not ok 2 - $at: killed by signal 11 (Segmentation fault)" <<'PROGRAM'
echo 1..3
echo not ok 1 - a
kill -s SEGV $$
PROGRAM
  check "a failing point, points missing, exit status 0" one "0 passed, 2 failed, 0 skipped" \
    "not ok 1 - a" "not ok 2 - $at: planned 3 points, printed 1" <<'PROGRAM'
echo 1..3
echo not ok 1 - a
PROGRAM
  check "a failing point, a passing one, abort" one "1 passed, 2 failed, 0 skipped" \
    "not ok 1 - a" "ok 2 - b" "not ok 3 - $at: killed by signal 6 (Aborted)" <<'PROGRAM'
echo 1..3
echo not ok 1 - a
echo ok 2 - b
kill -s ABRT $$
PROGRAM
  check "a failing point, a passing one, bail-out" one "1 passed, 2 failed, 0 skipped" \
    "not ok 1 - a" "ok 2 - b" "not ok 3 - $at: bailed out: no memory" <<'PROGRAM'
echo 1..3
echo not ok 1 - a
echo ok 2 - b
echo "Bail out! no memory"
PROGRAM
  check "a failing point, a passing one, points missing" one "1 passed, 2 failed, 0 skipped" \
    "not ok 1 - a" "ok 2 - b" "not ok 3 - $at: planned 3 points, printed 2" <<'PROGRAM'
echo 1..3
echo not ok 1 - a
echo ok 2 - b
exit 1
PROGRAM
  check "a TODO, abort" one "1 passed, 1 failed, 0 skipped" \
    "not ok 1 - a # TODO later" "not ok 2 - $at: killed by signal 6 (Aborted)" <<'PROGRAM'
echo 1..1
echo "not ok 1 - a # TODO later"
kill -s ABRT $$
PROGRAM

  # ---- what is left running ----

  check "a timeout, as given" times_out 0.5 \
    "0 passed, 1 failed, 0 skipped" "not ok 1 - $at: timed out after 0.5 s" <<'PROGRAM'
exec sleep 60
PROGRAM
  check "a timeout after a failing point" times_out 1 "0 passed, 2 failed, 0 skipped" \
    "not ok 1 - a" "not ok 2 - $at: timed out after 1 s" <<'PROGRAM'
echo 1..2
echo not ok 1 - a
exec sleep 60
PROGRAM
  check "... and of a program that then ends well" times_out 1 "1 passed, 1 failed, 0 skipped" \
    "ok 1 - a" "not ok 2 - $at: timed out after 1 s" <<'PROGRAM'
trap 'exit 0' TERM
echo 1..1
echo ok 1 - a
sleep 60 &
wait
PROGRAM
  check "... that a program ignores" times_out 0.5 \
    "0 passed, 1 failed, 0 skipped" "not ok 1 - $at: timed out after 0.5 s" <<'PROGRAM'
trap '' TERM INT HUP
sleep 60
PROGRAM
  program well <<'PROGRAM'
sleep 0.2
echo 1..1
echo ok 1 - a
PROGRAM
  check "--timeout 0 is none" all_pass "1 passed, 0 failed, 0 skipped" \
    --timeout 0 --select "$first" well

  # A child as it is, and one that ignores what can be ignored.
  program family <<'PROGRAM'
sleep 60 &
children=$!
(trap '' TERM INT HUP; exec sleep 60) &
echo $$ $children $! >"$pids/.$$" && mv "$pids/.$$" "$pids/$$"
wait
PROGRAM
  copies family family-2
  check "a timeout ends the children" ends_the_group
  program parent <<'PROGRAM'
sleep 60 &
echo $$ $! >"$pids/.$$" && mv "$pids/.$$" "$pids/$$"
echo 1..1
echo ok 1 - a
PROGRAM
  check "a child that outlives its program is ended" does_not_wait parent
  program stubborn <<'PROGRAM'
(trap '' TERM INT HUP; exec sleep 60) &
echo $$ $! >"$pids/.$$" && mv "$pids/.$$" "$pids/$$"
echo 1..1
echo ok 1 - a
PROGRAM
  check "... also if it ignores signals" does_not_wait stubborn
  echo old >"$scratch/killed.xml"
  check "SIGTERM ends everything" dies_of TERM 143
  check "... and leaves a report as it was, or whole" old_or_whole
  if (sh -c 'kill -s INT $$; exit 0') 2>/dev/null; then
    skip "SIGINT ends everything" "SIGINT is ignored here"
  else
    check "SIGINT ends everything" dies_of INT 130
  fi
  program inner <<'PROGRAM'
echo $$ >"$scratch/tester"
exec "$tester" family
PROGRAM
  check "it dies of the signal itself" seen_from_outside

  # ---- other forms ----

  program mixed <<'PROGRAM'
echo ok 1 - a
echo "ok 2 - b # SKIP no unicorn"
echo not ok 3 - c
echo "not ok 4 - d # TODO later"
echo 1..4
exit 1
PROGRAM
  check "--flat: points and counts" flat_points
  check "--flat: numbered throughout" flat_numbers
  check "--flat: a plan of no points" flat_skip
  check "--flat: standard error of failing runs" flat_diagnostics

  if command -v prove >/dev/null; then
    check "prove: good runs" proves yes good fine skipped none
    check "prove: a crash" proves no good crash
    check "prove: a failing point" proves no fails
    check "prove: which run failed" prove_counts "Failed 2/4 subtests" no good fails
    check "prove: --flat, good" prove_counts "Tests=6," yes --flat good fine
    check "prove: --flat, bad" prove_counts "Failed 2/6 subtests" no --flat crash fine
  else
    skip "prove reads it" "no prove"
  fi

  program loud <<'PROGRAM'
echo said-on-stdout
echo said-on-stderr >&2
echo 1..1
echo ok 1 - a
PROGRAM
  # All that XML cannot say or must quote; the last bytes are UTF-8, yet no characters.
  rude="it's <\"rude\"> & ]]>"
  program "$rude" <<'PROGRAM'
bytes='\001\010\013\014\033[31m\177\000\200\377\300\200\355\240\200\357\277\276\357\277\277'
echo 1..3
printf "ok 1 - <a> & \"b\" 'c' ]]> $bytes\n"
printf "not ok 2 - <a> & \"b\" 'c' ]]> $bytes\n"
printf "ok 3 - d # SKIP <a> & \"b\" 'c' ]]> $bytes\n"
printf "# <a> & \"b\" 'c' ]]> $bytes\n"
printf "<a> & \"b\" 'c' ]]>]]&gt;<![CDATA[ $bytes\n"
printf "<a> & \"b\" 'c' ]]>]]&gt;<![CDATA[ $bytes" >&2
exit 1
PROGRAM
  mkdir "$scratch/reports"
  check "--junit: the same points" report
  check "... replaces the file that was there, and leaves no other" replaces
  check "--junit into a missing folder: nothing runs" no_report "$scratch/missing/report.xml"
  check "--junit below a file: nothing runs" no_report "$programs/mark/report.xml"
  if command -v xmllint >/dev/null; then
    check "--junit: well-formed, whatever programs print" \
      xmllint --noout "$scratch/reports/report.xml"
    check "--junit: one testsuite a run" holds \
      "count(/testsuites/testsuite) = 12 and count(/*/*[not(self::testsuite)]) = 0"
    for attribute in name tests failures errors skipped time timestamp hostname; do
      check "--junit: testsuite has $attribute" holds \
        "count(//testsuite[string-length(@$attribute) > 0]) = 12"
    done
    check "--junit: times are seconds" holds "count(//@time[not(number(.) >= 0)]) = 0"
    check "--junit: when and where" holds "count(//testsuite[contains(@timestamp, 'T') and
      string-length(@timestamp) >= 19]) = 12"
    check "--junit: suites are named after program and device" holds \
      "count(//testsuite[contains(@name, 'mixed') and contains(@name, '$second')]) = 1"
    check "--junit: tests are the points" holds "sum(//testsuite/@tests) = 24 and
      count(//testcase) = 24"
    check "... in each suite" holds "count(//testsuite[@tests != count(testcase)]) = 0"
    check "--junit: failures as in the closing line" holds \
      "sum(//testsuite/@failures) + sum(//testsuite/@errors) = 6"
    check "... in each suite" holds "count(//testsuite[@failures != count(*/failure) or
      @errors != count(*/error)]) = 0"
    check "--junit: skipped as in the closing line" holds "sum(//testsuite/@skipped) = 6"
    check "... in each suite" holds "count(//testsuite[@skipped != count(*/skipped)]) = 0"
    check "--junit: every testcase has classname, name and time" holds \
      "count(//testcase[string-length(@classname) > 0 and string-length(@name) > 0 and @time]) = 24"
    check "--junit: failures have message and type" holds \
      "count(//testcase/*[self::failure or self::error][@message and @type]) = 6"
    check "--junit: what went wrong" holds "count(//testcase/*[contains(@message,
      'killed by signal 11 (Segmentation fault)')]) = 2"
    check "--junit: why it was skipped" holds \
      "count(//skipped[contains(@message, 'no unicorn')]) = 4"
    check "--junit: what was printed" holds "count(//testsuite[contains(@name, 'loud') and
      contains(system-out, 'said-on-stdout') and contains(system-err, 'said-on-stderr')]) = 2"
    check "--junit: quoted text is what it was" holds \
      "count(//testcase[contains(@name, '<a> & \"b\"') and contains(@name, ']]>')]) >= 4"
    check "... in output" holds "count(//testsuite[contains(system-out, ']]>]]&gt;<![CDATA[') and
      contains(system-err, ']]>]]&gt;<![CDATA[')]) = 2"
  else
    skip "--junit: well-formed" "no xmllint"
  fi
else
  skip "tests on devices" "fewer than two OpenCL devices"
fi

# ---- on no device ----

OCL_ICD_VENDORS=/nonexistent
export OCL_ICD_VENDORS

no_device () {
  forget
  tarn_test mark fine
  [ $status -eq 0 ] && [ ! -e "$scratch/ran" ] && exactly "TAP version 13" \
    "ok 1 - mark # SKIP there is no device" "ok 2 - fine # SKIP there is no device" \
    1..2 "0 passed, 0 failed, 2 skipped"
}

no_device_flat () {
  tarn_test --flat mark fine
  [ $status -eq 0 ] && closes "0 passed, 0 failed, 2 skipped"
}

empty_list () {
  tarn_test --list
  [ $status -eq 1 ] && [ ! -s "$scratch/out" ] && grep -qi 'no .*device' "$scratch/err"
}

empty_report () {
  tarn_test --junit "$scratch/none.xml" mark fine
  [ $status -eq 0 ] && closes "0 passed, 0 failed, 2 skipped" || return
  ! command -v xmllint || {
    xmllint --noout "$scratch/none.xml" && [ "$(xmllint --xpath \
      'sum(//testsuite/@tests) = 2 and sum(//testsuite/@skipped) = 2' "$scratch/none.xml")" = true ]
  }
}

check "no device: every program is skipped" no_device
check "no device: --flat" no_device_flat
check "no device: --list says so" empty_list
check "no device: --junit" empty_report
if command -v prove >/dev/null; then
  cat >"$scratch/wrapper" <<WRAPPER
#!/bin/sh
cd '$programs' && exec '$tester' mark fine
WRAPPER
  chmod +x "$scratch/wrapper"
  check "no device: prove" prove -e '' "$scratch/wrapper"
else
  skip "no device: prove" "no prove"
fi
done_testing
