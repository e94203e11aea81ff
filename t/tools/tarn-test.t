#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# tarn-test: its options, the devices that it chooses, the programs that it finds.
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

check "--select 99:0" refuses "--select: there is no platform 99; platforms:" --select 99:0 mark
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
done_testing
