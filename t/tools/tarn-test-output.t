#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# tarn-test: what it prints, and its report, as readers of them see it.
. "$(dirname "$0")/tarn-test.sh"

exactly () { # LINE...: the whole output, but for the devices' names
  sed '/^# Subtest: /s/ (.*)$/ (NAME)/' "$scratch/out" >"$scratch/nameless"
  printf '%s\n' "$@" | diff - "$scratch/nameless"
}

# ---- on no device ----

without_device () { # ARGUMENT...
  limited env OCL_ICD_VENDORS=/nonexistent "$tester" "$@"
}

no_device () {
  forget
  without_device mark fine
  [ $status -eq 0 ] && [ ! -e "$scratch/ran" ] && exactly "TAP version 13" \
    "ok 1 - mark # SKIP there is no device" "ok 2 - fine # SKIP there is no device" \
    1..2 "0 passed, 0 failed, 2 skipped"
}

no_device_flat () {
  without_device --flat mark fine
  [ $status -eq 0 ] && closes "0 passed, 0 failed, 2 skipped"
}

empty_list () {
  without_device --list
  [ $status -eq 1 ] && [ ! -s "$scratch/out" ] && grep -qi 'no .*device' "$scratch/err"
}

empty_report () {
  without_device --junit "$scratch/none.xml" mark fine
  [ $status -eq 0 ] && closes "0 passed, 0 failed, 2 skipped" && valid "$scratch/none.xml" || return
  ! command -v xmllint || [ "$(xmllint --xpath \
    'sum(//testsuite/@tests) = 2 and sum(//testsuite/@skipped) = 2' "$scratch/none.xml")" = true ]
}

check "no device: every program is skipped" no_device
check "no device: --flat" no_device_flat
check "no device: --list says so" empty_list
check "no device: --junit" empty_report
if command -v prove >/dev/null; then
  cat >"$scratch/wrapper" <<WRAPPER
#!/bin/sh
cd '$programs' && OCL_ICD_VENDORS=/nonexistent exec '$tester' mark fine
WRAPPER
  chmod +x "$scratch/wrapper"
  check "no device: prove" prove -e '' "$scratch/wrapper"
else
  skip "no device: prove" "no prove"
fi

# ---- subtests ----

needs_devices 2

program skipped <<'PROGRAM'
echo 1..2
echo "ok 1 - a # SKIP no unicorn"
echo "ok 2 - b # SKIP no unicorn"
PROGRAM

# The subtest's title has the name that --list prints for that device.
named () {
  tarn_test --select "$both" good
  sound || return
  for device in "$first" "$second"; do
    name=$(sed -n "s/^# Subtest: good on $device (\(.*\))\$/\1/p" "$scratch/out")
    grep "^$device$tab" "$scratch/list" | cut -f 3 | grep -qF -e "$name" && [ -n "$name" ] || return
  done
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

shows () { # TEXT: as a diagnostic of a subtest
  grep -q -e "^    # .*$1" "$scratch/out"
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

check "a good run, line by line" good_run
check "all points skipped: the run is" all_skipped
check "a plan of no points: the run is skipped, one point" skips_all
check "a subtest has the device's name" named
check "failing runs show standard error and diagnostics" diagnostics
check "--verbose shows those of good runs, in the subtests" verbose --verbose
check "-v does" verbose -v
check "nothing else, and nothing on standard error" quiet

# ---- on a terminal ----

escape=$(printf '\033')
return=$(printf '\r')
erase="$return$escape\\[K"
run='"$tester" --select "$first" unlucky'
program unlucky <<'PROGRAM'
echo 1..4
echo ok 1 - a
echo not ok 2 - b
echo "not ok 3 - c # TODO later"
echo "not ok 4 - d # SKIP no unicorn"
PROGRAM

# script (1) makes a terminal; all that it is sent is in out.
with_terminal () { # COMMAND-LINE
  limited env TERM=xterm SHELL=/bin/sh script -qec "$1" /dev/null </dev/null
}

has_progress () {
  grep -q "$erase\\[0/1\\] 0 passed, 0 failed: unlucky on $first" "$scratch/out"
}

# What failed is red, and nothing else.
has_red () {
  sed -n "s/^ *$escape\\[31m\\(.*\\)$escape\\[0m\$/\\1/p" "$1" >"$scratch/red"
  printf '%s\n' "not ok 2 - b" "not ok 4 - d # SKIP no unicorn" "not ok 1 - unlucky on $first" \
    | diff - "$scratch/red"
}

# Whatever was shown meanwhile, what stays is the usual output.
on_terminal () { # PROGRESS RED COMMAND-LINE: yes|no
  with_terminal "$3"
  sed -e "s/$return*\$//" -e "s/.*$erase//" "$scratch/out" >"$scratch/screen"
  case $1 in
    yes) has_progress || return ;;
    no) ! grep -q "$escape\\[K" "$scratch/out" || return ;;
  esac
  case $2 in
    yes) has_red "$scratch/screen" || return ;;
    no) ! grep -q "$escape" "$scratch/screen" || return ;;
  esac
  sed "s/$escape\\[[0-9]*m//g" "$scratch/screen" >"$scratch/out"
  sound && closes "2 passed, 2 failed, 0 skipped"
}

elsewhere_is () { # LAST-LINE
  sed -n l "$scratch/elsewhere" # ends in a newline
  ! grep -q "$escape" "$scratch/elsewhere" && [ "$(tail -n 1 "$scratch/elsewhere")" = "$1" ]
}

shows_progress () { # COMMAND-LINE
  with_terminal "$1"
  [ $status -eq 1 ] && has_progress
}

# A line that wraps could not be erased.
cuts_progress () {
  with_terminal "stty cols 20; $run"
  grep -q "$erase\\[0/1\\] 0 passed, 0 f$erase" "$scratch/out"
}

no_terminal () {
  limited env TERM=xterm sh -c "$run"
  sound && [ ! -s "$scratch/err" ] && ! grep -q "$escape" "$scratch/out"
}

if script --version 2>/dev/null | grep -q util-linux; then
  check "on a terminal: progress, and failures in red" on_terminal yes yes "$run"
  check "... without red, by NO_COLOR" on_terminal yes no "NO_COLOR=1 $run"
  check "... with it, if that is empty" on_terminal yes yes "NO_COLOR= $run"
  check "... neither, by TERM=dumb" on_terminal no no "TERM=dumb $run"
  check "... neither, without TERM" on_terminal no no "unset TERM; $run"
  check "... no progress, if standard error is elsewhere" on_terminal no yes \
    "$run 2>\"\$scratch/elsewhere\""
  check "... nor there" elsewhere_is ""
  check "... progress, if standard output is elsewhere" shows_progress \
    "$run >\"\$scratch/elsewhere\""
  check "... and no red there" elsewhere_is "2 passed, 2 failed, 0 skipped"
  check "progress is one line of a narrow terminal, too" cuts_progress
else
  skip "on a terminal" "no script of util-linux"
fi
check "on no terminal: neither" no_terminal

# ---- other forms ----

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

holds () { # XPATH: of the report
  [ "$(xmllint --xpath "$1" "$scratch/reports/report.xml")" = true ]
}

report () {
  tarn_test --junit "$scratch/reports/report.xml" --jobs 2 --select "$both" \
    mixed crash none fine loud "$rude"
  sound && closes "12 passed, 6 failed, 6 skipped" && valid "$scratch/reports/report.xml"
}

# Of runs that end in every way, and of points that have no text.
odd_report () {
  tarn_test --junit "$scratch/odd.xml" --timeout 0.5 --select "$first" \
    odd odd bare-plan no-interpreter silent hang
  sound && closes "4 passed, 7 failed, 5 skipped" && valid "$scratch/odd.xml"
}

replaces () {
  echo old >"$scratch/reports/report.xml"
  report && [ "$(ls -A "$scratch/reports")" = report.xml ]
}

no_report () { # FILE
  forget
  tarn_test --junit "$1" --select "$first" mark
  refused "$1" 2
}

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
# What a link points to is written, and keeps its mode; a pipe stays one.
through_link () {
  echo old >"$scratch/reports/target.xml"
  chmod 600 "$scratch/reports/target.xml"
  ln -s target.xml "$scratch/reports/link.xml"
  tarn_test --junit "$scratch/reports/link.xml" --select "$first" fine
  [ -L "$scratch/reports/link.xml" ] && valid "$scratch/reports/target.xml" \
    && [ "$(stat -c %a "$scratch/reports/target.xml")" = 600 ]
}
into_pipe () {
  mkfifo "$scratch/reports/pipe" && cat "$scratch/reports/pipe" >"$scratch/piped.xml" &
  tries=0
  until [ -p "$scratch/reports/pipe" ] || [ $tries -eq 100 ]; do
    tries=$((tries + 1))
    sleep 0.05
  done
  tarn_test --junit "$scratch/reports/pipe" --select "$first" fine
  wait $!
  [ -p "$scratch/reports/pipe" ] && valid "$scratch/piped.xml"
}
check "... through a link" through_link
check "... into a pipe" into_pipe
rm -f "$scratch/reports/pipe" "$scratch/reports/link.xml" "$scratch/reports/target.xml"
program odd <<'PROGRAM'
echo ok
echo not ok
echo ok '# SKIP'
echo 'ok # TODO'
echo 'not ok # SKIP'
echo ok 6 '# skipped it'
echo 1..6
PROGRAM
echo echo 1..0 | program bare-plan
echo : | program silent
echo exec sleep 60 | program hang
echo '#!/nonexistent/interpreter' >"$programs/no-interpreter"
chmod +x "$programs/no-interpreter"
check "... of odd runs" odd_report
no_name () {
  forget
  tarn_test --junit= --select "$first" mark
  refused "--junit: there is no name" 1
}
check "--junit without a name: nothing runs" no_name
check "--junit into a missing folder: nothing runs" no_report "$scratch/missing/report.xml"
check "--junit onto a folder: nothing runs" no_report "$scratch/reports"
check "--junit below a file: nothing runs" no_report "$programs/mark/report.xml"
if command -v xmllint >/dev/null; then
  check "--junit: as the schemas say, whatever programs print" valid "$scratch/reports/report.xml"
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
done_testing
