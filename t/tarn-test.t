#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# tarn-test: its options, what it runs where, and how it gets on with programs that crash and hang.
. "$(dirname "$0")/tarn-test.sh"

# ---- the command line ----

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

# ---- what runs where ----

needs_devices 2

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

on_all () { # ENV-ARGUMENT...
  limited env "$@" "$tester" fine
  sound && closes "$n_devices passed, 0 failed, 0 skipped" || return
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

all_pass () { # COUNTS ARGUMENT...
  expected=$1
  shift
  tarn_test "$@"
  sound && closes "$expected"
}

finds () { # PROGRAM POINT: in the current folder, or in PATH
  limited env PATH="$scratch/path:$PATH" "$tester" --select "$first" "$1"
  gives "1 passed, 0 failed, 0 skipped" "ok 1 - $2"
}

# It cannot run; what is beside it does.
fails_alone () { # PROGRAM
  tarn_test --select "$first" "$1" good
  sound && closes "1 passed, 1 failed, 1 skipped" \
    && grep -q "^    not ok 1 - $1 on $first: " "$scratch/out" \
    && grep -q "^ok 2 - good on $first\$" "$scratch/out"
}

no_interpreter () {
  echo '#!/nonexistent/interpreter' >"$programs/no-interpreter"
  chmod +x "$programs/no-interpreter"
  fails_alone no-interpreter
}

check "--list: place, selector, name" in_shape
check "each selector chooses its device" each_chooses_its_own 2
check "each place chooses its device" each_chooses_its_own 1
check "-l and -s" short_list

check "--select 99:0" refuses 99:0 --select 99:0 mark
check "--select nosuch" refuses nosuch --select nosuch mark
check "--select nosuch, after a device that is there" refuses nosuch \
  --select "$first;nosuch" mark
check "--select nosuch --list" refuses nosuch --select nosuch --list
check "TARN_TEST=nosuch" refuses_from TARN_TEST nosuch
check "PYOPENCL_TEST=nosuch" refuses_from PYOPENCL_TEST nosuch

check "without a selection: all devices" on_all
check "an empty TARN_TEST: all devices" on_all TARN_TEST=
check "... whatever PYOPENCL_TEST says" on_all TARN_TEST= PYOPENCL_TEST="$first"
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

copies fine "two words"
check "a program with a space in its name" all_pass "1 passed, 0 failed, 0 skipped" \
  --select "$first" "two words"
mkdir "$scratch/path"
program elsewhere <<'PROGRAM'
echo 1..1
echo ok 1 - of PATH
PROGRAM
cp "$programs/elsewhere" "$scratch/path/fine"
mv "$programs/elsewhere" "$scratch/path"
check "a program of PATH" finds elsewhere "of PATH"
check "the current folder goes before PATH" finds fine fine
check "a program by its full path" all_pass "1 passed, 0 failed, 0 skipped" \
  --select "$first" "$programs/fine"
check "a program that is missing" cannot_run no-such-program
check "... with a folder" cannot_run no-such-folder/program
check "... by its full path" cannot_run "$scratch/no-such-program"
check "a folder as a program" cannot_run folder
check "... with a slash" cannot_run ./folder
check "a program that is not executable" cannot_run ./not-executable
check "a program without its interpreter fails, and no other does" no_interpreter
printf ')\001' >"$programs/nonsense"
printf 'echo 1..1\necho ok 1 - a\n' >"$programs/bare"
chmod +x "$programs/nonsense" "$programs/bare"
check "... and what is no program at all" fails_alone nonsense
check "a script without #! is run by the shell, as by other programs" all_pass \
  "1 passed, 0 failed, 0 skipped" --select "$first" bare
check "a program that is named twice runs twice" all_pass "2 passed, 0 failed, 0 skipped" \
  --select "$first" fine fine
copies fine --list
check "a program after --" all_pass "1 passed, 0 failed, 0 skipped" --select "$first" -- fine
check "... with the name of an option" all_pass "1 passed, 0 failed, 0 skipped" \
  --select "$first" -- --list

# ---- many runs ----

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

# The runs, a line each and sorted, without the numbers that depend on which ends first.
runs () {
  awk '
    /^# Subtest: / { run = $0; sub(/ \(.*/, "", run) }
    /^    [^#]/ { run = run "|" substr($0, 5) }
    /^(not )?ok / { sub(/ok [0-9]+ /, "ok "); print run "|" $0 }' "$scratch/out" | sort
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

# ---- what is left running ----

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

# It has left the process group before its program ends.
leaves_the_group () {
  rm -f "$scratch/left"
  tarn_test --select "$first" leaver
  kill -s KILL "$(cat "$scratch/left")"
  gives "1 passed, 0 failed, 0 skipped" "ok 1 - a"
}

# Nothing can be printed when the first run ends; the second is still there then.
cannot_print () {
  forget
  limited sh -c 'exec "$@" >/dev/full' sh "$tester" --jobs 2 --select "$both" pair
  [ $status -eq 1 ] && grep -q '^tarn-test: .*standard output' "$scratch/err" && nothing_left 1
}

# Nor is there anything left to be told.
cannot_print_at_once () { # ARGUMENT...
  limited sh -c 'exec "$@" >/dev/full' sh "$tester" "$@"
  [ $status -eq 1 ] && [ "$(wc -l <"$scratch/err")" -eq 1 ] \
    && grep -q '^tarn-test: .*standard output' "$scratch/err"
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

# It is sent by the program itself, so it has come before the program ends.
stays_ignored () { # SIGNAL
  limited sh -c 'trap "" "$1"; shift; exec "$@"' sh "$1" \
    env signal="$1" "$tester" --select "$both" deaf
  sound && closes "2 passed, 0 failed, 0 skipped"
}

# What was printed is as much as was allowed, and is not shown.
too_loud () { # WHAT PROGRAM
  tarn_test --jobs 2 --select "$both" "$2" >/dev/null
  sound && closes "0 passed, 2 failed, 0 skipped" \
    && [ "$(grep -c "^    not ok 1 - $2 on .*: printed more than $1\$" "$scratch/out")" -eq 2 ]
}

old_or_whole () {
  [ ! -e "$scratch/killed.xml" ] || [ "$(cat "$scratch/killed.xml")" = old ] \
    || valid "$scratch/killed.xml"
}

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

# To standard output on one device, to standard error on the other.
program long-lines <<'PROGRAM'
[ "$TARN_TEST" = "$first" ] || exec >&2
exec yes "$(head -c 60000 /dev/zero | tr '\000' x)"
PROGRAM
program short-lines <<'PROGRAM'
[ "$TARN_TEST" = "$first" ] || exec >&2
exec yes
PROGRAM
check "a program that prints without end is ended" too_loud "64 MiB" long-lines
check "... also if its lines are short" too_loud "1000000 lines" short-lines

# A child as it is, and one that ignores what can be ignored.
program family <<'PROGRAM'
sleep 60 &
children=$!
(trap '' TERM INT HUP; exec sleep 60) &
echo $$ $children $! >"$pids/.$$" && mv "$pids/.$$" "$pids/$$"
wait
PROGRAM
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
if command -v setsid >/dev/null; then
  program leaver <<'PROGRAM'
setsid sh -c 'echo $$ >"$scratch/.left" && mv "$scratch/.left" "$scratch/left"; exec sleep 60' &
until [ -e "$scratch/left" ]; do
  sleep 0.05
done
echo 1..1
echo ok 1 - a
PROGRAM
  check "... but not waited for if it has left the process group" leaves_the_group
else
  skip "a child that has left the process group" "no setsid"
fi
if [ -c /dev/full ]; then
  program pair <<'PROGRAM'
[ "$TARN_TEST" = "$first" ] || exec ./family
until [ "$(ls "$pids")" ]; do
  sleep 0.05
done
echo 1..1
echo ok 1 - a
PROGRAM
  check "where nothing can be printed, everything is ended" cannot_print
  check "... and at the end it is said, too" cannot_print_at_once --select "$first" fine
  check "... and of --list" cannot_print_at_once --list
  check "... and of --version" cannot_print_at_once --version
else
  skip "where nothing can be printed" "no /dev/full"
fi
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
program deaf <<'PROGRAM'
kill -s "$signal" $PPID
echo 1..1
echo ok 1 - a
PROGRAM
for name in INT TERM HUP; do
  check "SIG$name that is ignored at the start stays so" stays_ignored $name
done
done_testing
