#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# tarn-test: what programs print, what is counted, and what is said to have gone wrong.
. "$(dirname "$0")/tarn-test.sh"

needs_devices 1

# ---- what programs print ----

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
check "not ok that is to be skipped is a failure" one "0 passed, 1 failed, 1 skipped" \
  "not ok 1 - a # SKIP no unicorn" "ok 2 - b # SKIP no unicorn" <<'PROGRAM'
echo 1..2
echo "not ok 1 - a # SKIP no unicorn"
echo "ok 2 - b # SKIP no unicorn"
PROGRAM
check "1..0 alone is a skipped run" one "0 passed, 0 failed, 1 skipped" \
  "ok 1 - $at # SKIP" <<'PROGRAM'
echo 1..0
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
check "an exit status after a plan of nothing" one "0 passed, 1 failed, 0 skipped" \
  "not ok 1 - $at: exit status 3" <<'PROGRAM'
echo "1..0 # SKIP no unicorn"
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
check "bailing out without a reason" one "1 passed, 1 failed, 0 skipped" \
  "ok 1 - a" "not ok 2 - $at: bailed out" <<'PROGRAM'
echo 1..1
echo ok 1 - a
echo "Bail out!"
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
check "a failing point, exit status, no plan" one "0 passed, 1 failed, 0 skipped" \
  "not ok 1 - a" <<'PROGRAM'
echo not ok 1 - a
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
# Other signs that end a line elsewhere do not here.
line=$(printf 'a\342\200\250b')
check "a line separator in a description" one "1 passed, 0 failed, 0 skipped" \
  "ok 1 - $line" <<'PROGRAM'
echo 1..1
printf 'ok 1 - a\342\200\250b\n'
PROGRAM
# A name must not read as a directive.
printf '#!/bin/sh\necho 1..1\necho not ok 1\nexit 1\n' >"$programs/name # TODO x"
chmod +x "$programs/name # TODO x"
named_todo () { # ARGUMENT...
  tarn_test "$@" --select "$first" "name # TODO x"
  [ $status -eq 1 ] && ! grep -q ' # TODO' "$scratch/out" \
    && closes "0 passed, 1 failed, 0 skipped"
}
check "a program whose name has a directive in it" named_todo
check "... with --flat" named_todo --flat
check "-j4 -t5 -s" all_pass "1 passed, 0 failed, 0 skipped" -j4 -t5 "-s$first" fine
done_testing
