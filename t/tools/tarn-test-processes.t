#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# tarn-test: many runs at once, and programs that crash, hang, flood or leave others behind.
. "$(dirname "$0")/tarn-test.sh"

needs_devices 2

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
    run="good on $device"
    echo "# Subtest: $run|ok 1 - adds|ok 2 - multiplies # SKIP no multiplier|1..2|ok - $run"
    run="crash on $device"
    printf '%s' "# Subtest: $run|ok 1 - before|not ok 2 - $run: killed by signal 11 "
    echo "(Segmentation fault)|1..2|not ok - $run"
    run="hang on $device"
    echo "# Subtest: $run|ok 1 - before|not ok 2 - $run: timed out after 1 s|1..2|not ok - $run"
    run="garbage on $device"
    echo "# Subtest: $run|not ok 1 - $run: no plan|1..1|not ok - $run"
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

dies_of () { # SIGNAL STATUS
  forget
  signal_later "$1" 2 >/dev/null 2>&1 &
  limited env $default_signals sh -c 'echo $$ >"$scratch/tester"; exec "$@"' sh \
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
check "a program that prints without end is ended" too_loud "16 MiB" long-lines
check "... also if its lines are short" too_loud "250000 lines" short-lines

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
check "SIGINT ends everything" dies_of INT 130
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
# Then nobody is told how a child ended.
with_children_ignored () {
  real=$tester
  tester=$scratch/ignoring
  printf "#!/bin/sh\nexec perl -e '\$SIG{CHLD} = q(IGNORE); exec @ARGV' '%s' \"\$@\"\n" "$real" \
    >"$tester"
  chmod +x "$tester"
  counts "1 passed, 1 failed, 0 skipped" <<'PROGRAM'
echo 1..1
echo ok 1
exit 3
PROGRAM
  result=$?
  tester=$real
  return $result
}
if command -v perl >/dev/null; then
  check "SIGCHLD that is ignored at the start is not" with_children_ignored
else
  skip "SIGCHLD that is ignored at the start is not" "no perl"
fi
for name in INT TERM HUP; do
  check "SIG$name that is ignored at the start stays so" stays_ignored $name
done
done_testing
