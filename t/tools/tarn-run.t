#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# tarn-run: its options, what it sets for a program, that it is else as good as not there, and what it
# says at the end: without OpenCL, and on this machine's.
. "$(dirname "$0")/../lib/tap.sh"

top=$(cd "$top_builddir" && pwd -P)
runner=$top/tools/tarn-run
layer=$top/lib/opencl/layer/.libs/libtarn-layer.so
promises=$top/t/opencl/layer/promises
if [ ! -x "$runner" ]; then
  skip "tarn-run" "not built"
  done_testing
  exit
fi
unset OPENCL_LAYERS TARN_LAYER_LIMIT TARN_LAYER_POOL TARN_LAYER_STATS TARN_LAYER_REPORT TARN_DEBUG
mkdir "$scratch/tmp"
TMPDIR=$scratch/tmp
export TMPDIR

silent () { # after status_is
  [ ! -s "$scratch/err" ]
}
prints () { # TEXT
  printf '%s\n' "$1" | diff - "$scratch/out"
}
says () { # MESSAGE: that, and nothing else
  printf 'tarn-run: %s\n' "$1" | diff - "$scratch/err"
}

# What is said of a program that has nothing to do with OpenCL.
unused () { # PROGRAM
  says "$1 has loaded no OpenCL loader that knows layers: see MESSAGES in tarn-run(1)"
}

program () { # NAME: its lines are read
  { echo '#!/bin/sh'; cat; } >"$scratch/$1"
  chmod +x "$scratch/$1"
}

# ---- the command line ----

refuses () { # VALUE ARGUMENT...
  value=$1
  shift
  rm -f "$scratch/ran"
  status_is 2 "$runner" "$@" touch "$scratch/ran" && [ ! -s "$scratch/out" ] \
    && [ "$(wc -l <"$scratch/err")" -eq 1 ] && grep -q -F -e "$value" "$scratch/err" \
    && grep -q '^tarn-run: ' "$scratch/err" && [ ! -e "$scratch/ran" ]
}
needs_program () { # ARGUMENT...
  status_is 2 "$runner" "$@" && grep -q '^tarn-run: no program to run' "$scratch/err"
}
check "no program" needs_program
check "options and no program" needs_program --stats --limit 1G --
check "an unknown option" refuses --frobnicate --frobnicate
check "an unknown letter" refuses -Q -Q
for size in 3x 0 0% 101% "" -1 1e9 99999999999G; do
  check "--limit '$size'" refuses "'$size'" "--limit=$size"
done

for words in x guards,x leaks=1 check=0 exit=256 quarantine=; do
  check "--debug $words" refuses "--debug: '${words#guards,}' is none of these: guards, " "--debug=$words"
done
check "--debug ''" refuses "--debug names nothing to look for" --debug=
check "--debug exit=9" refuses "--debug names nothing to look for" --debug exit=9
check "--debug --no-pool" refuses "--no-pool" --debug all --no-pool
check "--trace ''" refuses "--trace: there is no name" --trace=
check "--trace of no folder" refuses "--trace $scratch/none/x: there is no folder '$scratch/none'" \
  --trace "$scratch/none/x"
lacks_value () { # OPTION: that takes the program for its value
  status_is 2 "$runner" "$1" ./program && grep -q -F -e "$1: './program' is " "$scratch/err"
}
for option in --debug --limit; do
  check "$option without a value" lacks_value $option
done

sees () { # EXPECTED ARGUMENT...: of the variables
  wanted=$1
  shift
  # shellcheck disable=SC2016
  status_is 0 "$runner" "$@" sh -c \
    'echo "${TARN_LAYER_LIMIT-unset} ${TARN_LAYER_POOL-unset} ${TARN_LAYER_STATS-unset}"' \
    && prints "$wanted"
}
check "no option sets nothing" sees "unset unset unset"
check "--limit" sees "2G unset unset" --limit 2G
check "--limit=80%" sees "80% unset unset" --limit=80%
check "--no-pool" sees "unset 0 unset" --no-pool
check "--stats" sees "unset unset 1" --stats
check "all of them" sees "1000 0 1" --stats --no-pool --limit 1000 --
keeps_settings () {
  TARN_LAYER_LIMIT=3G TARN_LAYER_STATS=1 TARN_LAYER_POOL=0 sees "3G 0 1"
}
check "what is set already stays without options" keeps_settings
looks () {
  # shellcheck disable=SC2016
  status_is 0 "$runner" --debug guards,exit=9 sh -c 'echo "$TARN_DEBUG"' && prints guards,exit=9
}
check "--debug" looks
is_absolute () {
  # shellcheck disable=SC2016
  status_is 0 "$runner" --trace some-file sh -c 'echo "$TARN_TRACE"' && prints "$(pwd -P)/some-file"
}
check "--trace is where we are" is_absolute
overrides_settings () {
  TARN_LAYER_LIMIT=3G TARN_LAYER_STATS=0 TARN_LAYER_POOL=1 sees "2G 0 1" --limit 2G --no-pool --stats
}
check "... and not with them" overrides_settings

passes_arguments () { # EXPECTED ARGUMENT...: of a program that prints its own
  wanted=$1
  shift
  status_is 0 "$runner" "$@" && prints "$wanted" && unused "$scratch/arguments"
}
program arguments <<'PROGRAM'
for argument; do printf '[%s]' "$argument"; done
echo
PROGRAM
check "options after the program are its own" passes_arguments '[--stats][--limit][-h][--frobnicate]' \
  "$scratch/arguments" --stats --limit -h --frobnicate
check "... after --, too" passes_arguments '[--version][--][x]' -- "$scratch/arguments" --version -- x
check "... and options, too" passes_arguments '[--][-s]' --no-pool -- "$scratch/arguments" -- -s
check "words remain words" passes_arguments '[a b][][*][ü]' "$scratch/arguments" "a b" "" "*" "ü"

# ---- what it runs ----

ends_with () { # STATUS PROGRAM [ARGUMENT...]
  wanted=$1
  shift
  status_is "$wanted" "$runner" "$@" && unused "$1"
}
says_why () { # STATUS TEXT PROGRAM
  status_is "$1" "$runner" "$3" && says "'$3': $2" && [ ! -s "$scratch/out" ]
}
check "status 0" ends_with 0 true
check "the program's status" ends_with 3 sh -c 'exit 3'
check "... also where it looks like one of ours" ends_with 126 sh -c 'exit 126'
check "a program that does not exist" says_why 127 "No such file or directory" no-such-program
check "... with a folder" says_why 127 "No such file or directory" "$scratch/no-such/program"
echo true >"$scratch/not-executable"
check "a program that is not executable" says_why 126 "Permission denied" "$scratch/not-executable"
check "a folder" says_why 126 "Permission denied" "$scratch"
echo 'exit 7' >"$scratch/bare"
chmod +x "$scratch/bare"
check "a script without #! is run by the shell, as by other programs" ends_with 7 "$scratch/bare"

dies_of () { # SIGNAL NUMBER
  # shellcheck disable=SC2016
  status_is $((128 + $2)) with_signals "$runner" sh -c 'ulimit -c 0; kill -s "$0" $$; echo alive' "$1" \
    && silent && [ ! -s "$scratch/out" ]
}
check "128 and the signal that ends it: KILL" dies_of KILL 9
check "... SEGV" dies_of SEGV 11
check "... TERM, which is not blocked for it" dies_of TERM 15
check "... PIPE" dies_of PIPE 13

reads_input () {
  printf 'one\ntwo\n' | status_is 0 "$runner" cat && printf 'one\ntwo\n' | diff - "$scratch/out"
}
check "standard input is the program's" reads_input
writes_both () {
  status_is 0 "$runner" sh -c 'echo out; echo err >&2' && prints out \
    && [ "$(head -n 1 "$scratch/err")" = err ]
}
check "standard output and error are" writes_both
runs_without_streams () { # with all of them closed
  rm -f "$scratch/ran"
  "$runner" touch "$scratch/ran" <&- >&- 2>&- && [ -e "$scratch/ran" ]
}
check "they may be closed" runs_without_streams
opens_nothing () {
  sh -c 'ls /proc/self/fd' >"$scratch/without" \
    && status_is 0 "$runner" sh -c 'ls /proc/self/fd' && diff "$scratch/without" "$scratch/out"
}
if [ -d /proc/self/fd ]; then
  check "the program has no other file open" opens_nothing
else
  skip "the program has no other file open" "there is no /proc"
fi
has_environment () {
  # shellcheck disable=SC2016
  OTHER="a b" status_is 0 "$runner" sh -c 'echo "$OTHER"; pwd' \
    && printf 'a b\n%s\n' "$(pwd)" | diff - "$scratch/out"
}
check "the rest of the environment, and the folder, stay" has_environment

# ---- signals ----

wait_for () { # COMMAND...: ten seconds at most
  tries=0
  until "$@"; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || { echo "waited in vain: $*"; return 1; }
    sleep 0.05
  done
}

# Writes down each signal, and ends a while after the first.
program trapping <<'PROGRAM'
folder=$1
shift
for signal; do trap "echo $signal >>'$folder/got'" "$signal"; done
echo $$ >"$folder/pid" && mv "$folder/pid" "$folder/ready"
n=0
until [ -s "$folder/got" ] || [ $n -gt 200 ]; do sleep 0.05; n=$((n + 1)); done
sleep 0.3
exit 9
PROGRAM

passes_on () { # SIGNAL
  rm -f "$scratch/ready" "$scratch/got"
  env --default-signal="$1" "$runner" "$scratch/trapping" "$scratch" "$1" &
  runner_pid=$!
  wait_for [ -e "$scratch/ready" ] && kill -s "$1" $runner_pid
  wait $runner_pid
  status=$?
  echo "status $status"
  [ $status -eq 9 ] && echo "$1" | diff - "$scratch/got"
}
# The shell has background programs ignore the first two, and does not trap what was ignored.
if env --default-signal=INT true 2>/dev/null; then
  for signal in INT QUIT TERM HUP USR1 USR2 TSTP TTIN TTOU; do
    check "$signal is passed on, once" passes_on $signal
  done
else
  skip "signals that are passed on" "env has no --default-signal"
fi

ends_by_signal () {
  rm -f "$scratch/ready"
  # shellcheck disable=SC2016
  env $default_signals "$runner" sh -c 'echo $$ >"$0"; exec sleep 20' "$scratch/ready" 2>"$scratch/err" &
  runner_pid=$!
  wait_for [ -s "$scratch/ready" ] && kill -s TERM $runner_pid
  wait $runner_pid
  status=$?
  cat "$scratch/err"
  echo "status $status"
  [ $status -eq 143 ] && silent && ! kill -s 0 "$(cat "$scratch/ready")" 2>/dev/null
}
check "the program ends of one that is passed on, and tarn-run with it" ends_by_signal

# What the terminal sends to both comes once.
once_from_terminal () { # CHARACTER SIGNAL
  rm -f "$scratch/ready" "$scratch/got"
  { wait_for [ -e "$scratch/ready" ] && printf '%b' "$1"; sleep 1; } | script -qec \
    "stty -echo; ulimit -c 0; exec env $default_signals '$runner' '$scratch/trapping' '$scratch' INT QUIT" "$scratch/typescript" \
    >"$scratch/out" 2>&1
  status=$?
  cat "$scratch/out"
  echo "status $status"
  [ $status -eq 9 ] && echo "$2" | diff - "$scratch/got"
}
if script -qec true /dev/null </dev/null >/dev/null 2>&1; then
  check "Ctrl-C comes once" once_from_terminal '\003' INT
  check "Ctrl-\\ comes once" once_from_terminal '\034' QUIT
else
  skip "signals of a terminal" "there is no script (1) that makes one"
fi

state_of () { # PID
  sed 's/.*) \(.\).*/\1/' "/proc/$1/stat"
}
has_state () { # PID STATE
  [ "$(state_of "$1")" = "$2" ]
}
stops_and_goes_on () {
  rm -f "$scratch/ready" "$scratch/went-on"
  # shellcheck disable=SC2016
  "$runner" sh -c 'echo $$ >"$0/ready"; kill -s STOP $$; echo >"$0/went-on"; exit 4' "$scratch" &
  runner_pid=$!
  stopped=no
  if wait_for [ -s "$scratch/ready" ] && wait_for has_state $runner_pid T \
    && has_state "$(cat "$scratch/ready")" T && [ ! -e "$scratch/went-on" ]; then
    stopped=yes
    kill -s CONT $runner_pid
  fi
  wait_for [ -e "$scratch/went-on" ] || kill -s KILL $runner_pid
  wait $runner_pid
  status=$?
  echo "stopped: $stopped; status $status"
  [ $stopped = yes ] && [ $status -eq 4 ]
}
if [ -d /proc/self/fd ]; then
  check "it stops when the program does, which goes on when it does" stops_and_goes_on
else
  skip "stopping" "there is no /proc"
fi

keeps_ignored () {
  # shellcheck disable=SC2016
  status_is 0 sh -c 'trap "" HUP; exec "$@"' sh "$runner" sh -c 'kill -s HUP $$; echo alive' \
    && prints alive
}
check "a signal that was ignored stays so" keeps_ignored

# ---- where the layer is ----

layers_are () { # EXPECTED COMMAND...: that runs tarn-run
  wanted=$1
  shift
  # shellcheck disable=SC2016
  status_is 0 "$@" sh -c 'echo "$OPENCL_LAYERS"' && prints "$wanted"
}
check "the layer of a build tree" layers_are "$layer" "$runner"
check "... is before others" layers_are "$layer:/a/b.so:c.so" env OPENCL_LAYERS=/a/b.so:c.so "$runner"
check "... and alone without any" layers_are "$layer" env OPENCL_LAYERS= "$runner"
check "... once, where tarn-run runs itself" layers_are "$layer:x" \
  env OPENCL_LAYERS=x "$runner" "$runner" -- "$runner"
check "one that is there stays" layers_are "a:libtarn-layer.so" \
  env OPENCL_LAYERS=a:libtarn-layer.so "$runner"
check "... wherever it is" layers_are "/x/libtarn-layer.so:a" \
  env OPENCL_LAYERS=/x/libtarn-layer.so:a "$runner"
check "... and a name that is like it is another" layers_are "$layer:libtarn-layer.so.old" \
  env OPENCL_LAYERS=libtarn-layer.so.old "$runner"

# A tree of its own; or, in bin, an installed program that is elsewhere than it was meant for.
copy () { # ROOT FOLDER
  mkdir -p "$1/$2" "$1/lib/opencl/layer/.libs" && cp "$top/tools/.libs/tarn-run" "$1/$2" \
    && cp "$layer" "$1/lib/opencl/layer/.libs"
}
at () { # ROOT FOLDER [ARGUMENT...]
  copied=$1/$2/tarn-run
  shift 2
  # shellcheck disable=SC2086  # words, or none
  ${limited-} env ${ignoring-} LD_LIBRARY_PATH="$top/lib/core/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$copied" "$@"
}
root=$(cd "$scratch" && pwd -P)
refuses_colon () {
  rm -f "$scratch/ran"
  status_is 125 at "$root/a:b" tools touch "$scratch/ran" && [ ! -e "$scratch/ran" ] \
    && says "OPENCL_LAYERS cannot name a path with a colon: '$root/a:b/lib/opencl/layer/.libs/libtarn-layer.so'"
}
if [ -e "$top/tools/.libs/tarn-run" ]; then
  copy "$root/one" tools
  copy "$root/one" tools/.libs
  copy "$root/one" bin
  copy "$root/a:b" tools
  check "the layer of another tree" layers_are "$root/one/lib/opencl/layer/.libs/libtarn-layer.so" \
    at "$root/one" tools
  check "... from .libs" layers_are "$root/one/lib/opencl/layer/.libs/libtarn-layer.so" \
    at "$root/one" tools/.libs
  check "a path with a colon cannot be" refuses_colon
  # Not by libtool's script: a shell does not leave SIGCHLD ignored.
  if env --ignore-signal=CHLD true 2>/dev/null; then
    limited="timeout -s KILL 20" # or it waits for ever
    ignoring=--ignore-signal=CHLD
    check "started with SIGCHLD ignored, it learns the status" status_is 3 \
      at "$root/one" tools sh -c 'exit 3'
    unset limited ignoring
  else
    skip "started with SIGCHLD ignored" "env has no --ignore-signal"
  fi
  if [ -z "$libdir" ]; then
    skip "an installed layer" "run by make check only"
  elif [ -e "$libdir/libtarn-layer.so" ]; then
    check "an installed layer" layers_are "$libdir/libtarn-layer.so" at "$root/one" bin
  else
    check "none: its name" layers_are libtarn-layer.so at "$root/one" bin
  fi
else
  skip "the layer of another tree" "libtool has put the program elsewhere"
fi

# ---- what it says ----

# The program is the layer here: its lines are documented in tarn(7).
reports () { # MESSAGE LINE...: empty: none
  message=$1
  shift
  # shellcheck disable=SC2016
  status_is 0 "$runner" sh -c 'printf "%s\n" "$@" >>"$TARN_LAYER_REPORT"' sh "$@" || return
  if [ -n "$message" ]; then says "$message"; else silent; fi
}
check "no buffer" reports "sh created no buffer" "loaded 1" "buffers 1 0 0 0 0"
check "... of several processes" reports "sh created no buffer" \
  "loaded 1" "loaded 2" "buffers 2 0 0 0 0" "buffers 1 0 0 0 0"
check "all buffers were the driver's" \
  reports "none of the 12 buffers of sh was from a pool: see NOTES in tarn-run(1)" \
  "loaded 1" "loaded 2" "buffers 2 5 0 5 0" "buffers 1 7 0 7 0"
reports_nothing_looked_for () {
  TARN_DEBUG=guards reports \
    "none of the 12 buffers of sh was from a pool, so nothing was checked: see NOTES in tarn-run(1)" \
    "loaded 1" "buffers 1 12 0 12 0"
}
check "... which --debug does not look at" reports_nothing_looked_for
check "... and the layer says why" \
  reports "none of the 12 buffers of sh was from a pool: 3 of a kind; 9 of another" \
  "loaded 1" "loaded 2" "buffers 2 5 0 5 0" "own 2 5 of another" \
  "buffers 1 7 0 7 0" "own 1 4 of another" "own 1 3 of a kind"
check "some were from a pool" reports "" \
  "loaded 1" "loaded 2" "buffers 2 5 1 4 1" "buffers 1 7 0 7 0"
check "all images were the driver's" \
  reports "none of the 3 images of sh was from a pool: see NOTES in tarn-run(1)" \
  "loaded 1" "buffers 1 0 0 0 0" "images 1 3 0 3 0"
check "some images were from a pool" reports "" "loaded 1" "buffers 1 2 0 2 0" "images 1 3 1 2 1"
check "a process that was killed" reports "" "loaded 1"
check "... beside others" reports "" "loaded 1" "loaded 2" "buffers 2 0 0 0 0"
reports_without_pool () { # ARGUMENT...
  # shellcheck disable=SC2016
  status_is 0 "$@" sh -c 'printf "loaded 1\nbuffers 1 5 0 5 0\n" >>"$TARN_LAYER_REPORT"' && silent
}
check "--no-pool: the driver's buffers are what was asked for" reports_without_pool "$runner" --no-pool
check "... by the environment, too" reports_without_pool env TARN_LAYER_POOL=0 "$runner"
check "nothing is said of a program that was killed" dies_of KILL 9

report_is_private () {
  # shellcheck disable=SC2016
  status_is 0 "$runner" sh -c \
    'stat -c "%a %F" "${TARN_LAYER_REPORT%/*}"; stat -c "%a %F" "$TARN_LAYER_REPORT"; echo "$TARN_LAYER_REPORT"' \
    && sed 2q "$scratch/out" | grep -qx '700 directory' && sed -n 3p "$scratch/out" | grep "^$TMPDIR/" \
    && [ -z "$(ls "$TMPDIR")" ]
}
check "the report is in a folder of its own, which is removed" report_is_private
finds_relative () {
  # shellcheck disable=SC2016
  (cd "$scratch" && TMPDIR=tmp "$runner" sh -c 'cd / && echo "loaded 1" >>"$TARN_LAYER_REPORT"') \
    2>"$scratch/err"
  cat "$scratch/err"
  silent
}
check "... also where the program is in another one" finds_relative
goes_on_without () {
  TMPDIR=$scratch/no-such status_is 3 "$runner" sh -c 'exit 3' \
    && grep -q '^tarn-run: the layer cannot report: ' "$scratch/err" \
    && [ "$(wc -l <"$scratch/err")" -eq 1 ]
}
check "... and which the program can do without" goes_on_without
one_message () {
  status_is 3 "$runner" "$runner" sh -c 'exit 3' && unused "$runner"
}
check "within another one it says nothing" one_message

# ---- with OpenCL ----

platform=
[ ! -x "$promises" ] || platform=$("$promises" --platforms | head -n 1)
if [ -z "$platform" ]; then
  skip "programs of OpenCL" "there is no OpenCL device"
  done_testing
  exit
fi
POCL_DEVICES="pthread pthread"
export POCL_DEVICES
# The loader may not know layers, or the program may be one that a sanitizer has to be loaded first in.
OPENCL_LAYERS=$layer TARN_LAYER_STATS=1 "$promises" --platforms >/dev/null 2>"$scratch/stats"
if ! grep -q made "$scratch/stats"; then
  check "a loader that knows no layers" ends_with 0 "$promises" --platforms
  skip "programs under the layer" "this OpenCL loader knows none"
  done_testing
  exit
fi

numbers () { # what --stats printed: made, from a pool, driver's own, pool's, failed
  sed -n '/^ *made /{n;p;}' "$scratch/err"
}
is_served () {
  status_is 0 "$runner" --stats "$promises" --platform "$platform" info || return
  # shellcheck disable=SC2046
  set -- $(numbers)
  [ $# -eq 5 ] && [ "$1" -gt 0 ] && [ "$2" -gt 0 ] && [ "$4" -gt 0 ] && [ "$5" -eq 0 ] \
    && [ "$(grep -vc "^driver's own: [1-9][0-9]* over memory of the host" "$scratch/err")" -eq 3 ]
}
check "buffers are from a pool, and --stats says so" is_served
is_silent () {
  status_is 0 "$runner" "$promises" --platform "$platform" info && silent
}
check "... and nothing else does" is_silent
is_passed_on () {
  status_is 0 "$runner" --no-pool --stats "$promises" --platform "$platform" info || return
  # shellcheck disable=SC2046
  set -- $(numbers)
  [ $# -eq 5 ] && [ "$1" -gt 0 ] && [ "$2" -eq 0 ] && [ "$3" -eq "$1" ] && [ "$4" -eq 0 ] \
    && [ "$(wc -l <"$scratch/err")" -eq 3 ]
}
check "--no-pool: they are the driver's, and counted" is_passed_on

# As many requests of pools are in the file as buffers were served from them.
is_recorded () {
  status_is 0 "$runner" --stats --trace "$scratch/run-%p.trace" "$promises" --platform "$platform" info \
    || return
  # shellcheck disable=SC2046
  set -- $(numbers)
  "$top_builddir/tools/tarn-trace" --print --kind hit,miss,lent "$scratch"/run-*.trace >"$scratch/events"
  echo "$2 served, $(wc -l <"$scratch/events") requests"
  [ "$2" -gt 0 ] && [ "$(wc -l <"$scratch/events")" -ge "$2" ]
}
# Buffers that are made and released again and again: each is a request of its own, and a free, and the
# sizes are the program's.
counts_events () { # KINDS
  "$top_builddir/tools/tarn-trace" --print --object buffers --kind "$1" "$scratch/same.trace" | wc -l
}
is_each_recorded () {
  status_is 0 "$runner" --stats --trace "$scratch/same.trace" "$promises" --platform "$platform" \
    released-same || return
  # shellcheck disable=SC2046
  set -- $(numbers)
  echo "$2 served, $(counts_events hit,miss,lent) requests, $(counts_events free) frees"
  [ "$2" -gt 1000 ] && [ "$(counts_events hit,miss,lent)" -eq "$2" ] \
    && [ "$(counts_events free)" -eq "$2" ]
}
if [ -x "$top_builddir/tools/tarn-trace" ]; then
  check "--trace records" is_recorded
  check "... each buffer, also where it has the memory of one before" is_each_recorded
else
  skip "--trace records, and each buffer" "tarn-trace is not built"
fi
is_limited () {
  status_is 0 "$runner" --limit 80% "$promises" --platform "$platform" released-same && silent || return
  ! status_is 0 "$runner" --limit 1 "$promises" --platform "$platform" released-same \
    && grep -q CL_MEM_OBJECT_ALLOCATION_FAILURE "$scratch/err"
}
check "--limit: no more than that" is_limited
fits () { # LIMIT NUMBER
  status_is 0 "$runner" --limit "$1" "$promises" --platform "$platform" all-at-once
  grep -qx "$2 buffers" "$scratch/out"
}
fill_up () {
  fits 22000000 8 && fits 21999999 7 && fits 22M 8 && fits 5500000 2
}
check "... and no less: buffers fit to the last byte" fill_up
# all-at-once asks for 8 buffers of 2,750,000 bytes, and accepts failures.
counts_failed () { # NUMBER OPTION...
  n_failed=$1
  shift
  status_is 0 "$runner" --stats "$@" "$promises" --platform "$platform" all-at-once
  # shellcheck disable=SC2046
  set -- $(numbers)
  [ $# -eq 5 ] && [ "$5" -eq "$n_failed" ]
}
counts_each_failed () {
  counts_failed 6 --limit 5500000 && counts_failed 6 --budget 5500000 \
    && counts_failed 1 --fail clCreateBuffer:3
}
check "--stats counts the buffers that failed" counts_each_failed
# With the heap's pieces nine of ten buffers, of 4,000, of which 10 of 22 MiB are alive, cost no call of the
# driver's.  If pieces were as large as without a limit, the first ones would fill it, and nearly each
# later buffer would need a piece of its own.
is_fitted_to_limit () {
  status_is 0 "$runner" --limit 22M --stats "$promises" --platform "$platform" crowded || return
  # shellcheck disable=SC2046
  set -- $(numbers)
  [ "$2" -eq 4000 ] && [ "$3" -eq 0 ] && [ "$4" -gt 0 ] && [ "$4" -le 400 ]
}
check "... and with few buffers of the driver's" is_fitted_to_limit
# 100 buffers of 4 MiB, whose commands run long after the release, have one piece of memory in turn.
is_reused_early () {
  status_is 0 "$runner" --stats "$promises" --platform "$platform" queue-alone || return
  # shellcheck disable=SC2046
  set -- $(numbers)
  [ "$2" -ge 100 ] && [ "$4" -gt 0 ] && [ "$4" -le 3 ]
}
check "one queue again: memory is reused before its commands are done" is_reused_early
# The most bytes of the driver's buffers at a time.
most_bytes () { # TRACE
  "$top_builddir/tools/tarn-trace" --print --json --object layer --kind allocated,freed "$1" \
    | sed -n -e '/"error":"/d' -e 's/.*"kind":"allocated".*"size":\([0-9]*\).*/\1/p' \
      -e 's/.*"kind":"freed".*"size":\([0-9]*\).*/-\1/p' \
    | awk '{ bytes += $1; if (bytes > most) most = bytes } END { print most + 0 }'
}
is_within_limit () {
  status_is 0 "$runner" --limit 22M --trace "$scratch/crowded.trace" "$promises" --platform "$platform" \
    crowded || return
  most=$(most_bytes "$scratch/crowded.trace")
  echo "at most $most bytes"
  [ "$most" -gt 10000000 ] && [ "$most" -le $((22 << 20)) ]
}
if [ -x "$top_builddir/tools/tarn-trace" ]; then
  check "... which are within it" is_within_limit
else
  skip "... which are within it" "tarn-trace is not built"
fi

# What is said of images: made, from a pool, the driver's own, made for the pool, failed,
# share of bytes.
image_numbers () {
  sed -n '/^ *images /{n;p;}' "$scratch/err"
}
counts_images () {
  status_is 0 "$runner" --stats "$promises" --platform "$platform" pooled-images-early || return
  # shellcheck disable=SC2046
  set -- $(image_numbers)
  [ $# -eq 6 ] && [ "$1" -gt 100 ] && [ "$2" -eq "$1" ] && [ "$3" -eq 0 ] && [ "$4" -lt "$1" ] \
    && [ "$5" -eq 0 ] && [ "$6" = 50.0% ]
}
passes_images_on () {
  status_is 0 "$runner" --no-pool --stats "$promises" --platform "$platform" pooled-images-early || return
  # shellcheck disable=SC2046
  set -- $(image_numbers)
  [ $# -eq 6 ] && [ "$1" -gt 100 ] && [ "$2" -eq 0 ] && [ "$3" -eq "$1" ] && [ "$4" -eq 0 ] \
    && [ "$5" -eq 0 ] && [ "$6" = 50.0% ]
}
limits_images () {
  ! status_is 0 "$runner" --limit 1 "$promises" --platform "$platform" pooled-images-older \
    && grep -q 'clCreateImage: CL_MEM_OBJECT_ALLOCATION_FAILURE' "$scratch/err"
}
# images-released makes an image, and then asks for too much shared virtual memory.
counts_failed_images () {
  status_is 0 "$runner" --stats --fail clCreateImage:1 "$promises" --platform "$platform" images-released
  # shellcheck disable=SC2046
  set -- $(image_numbers)
  [ $# -eq 6 ] && [ "$5" -eq 1 ] || return
  status_is 0 "$runner" --stats --fail clSVMAlloc:1 "$promises" --platform "$platform" images-released
  grep -qx 'failed requests for shared virtual memory: 1' "$scratch/err"
}
"$promises" --platform "$platform" pooled-images-older >/dev/null 2>&1
if [ $? -eq 0 ]; then
  check "--stats: images are from a pool" counts_images
  check "... or with --no-pool the driver's" passes_images_on
  check "--limit: no image beyond it either" limits_images
  check "--stats: images and shared virtual memory that failed" counts_failed_images
else
  skip "images" "the device has none"
fi
makes_none () {
  status_is 0 "$runner" "$promises" --platforms && says "$promises created no buffer"
}
check "a program without a buffer" makes_none
loads_none () {
  status_is 0 "$runner" "$promises" --list && unused "$promises"
}
check "a program that could, and does not use OpenCL" loads_none
none_is_served () { # a limit that is none leaves all to the driver
  TARN_LAYER_LIMIT=nonsense status_is 0 "$runner" "$promises" --platform "$platform" info \
    && tail -n 1 "$scratch/err" | grep -qx \
      "tarn-run: none of the [1-9][0-9]* buffers of $promises was from a pool: [1-9][0-9]* made where there was no pool.*"
}
check "a program all of whose buffers are the driver's" none_is_served
others_count () {
  # shellcheck disable=SC2016
  status_is 0 "$runner" sh -c '"$@" --platforms; "$@" --platform "$0" info' "$platform" "$promises" \
    && silent
}
check "processes that the program starts count" others_count
chain_counts () {
  # shellcheck disable=SC2016
  status_is 0 "$runner" "$runner" sh -c 'exec "$@"' sh env \
    sh -c 'exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; exec "$@"' sh "$promises" --platform "$platform" info \
    && silent
}
check "... behind programs that become others, and close files, within two tarn-run" chain_counts

# The report itself, as tarn(7) has it.
report_is () { # PATTERN PROGRAM [ARGUMENT...]: twice; what is in it, each number as N
  pattern=$1
  shift
  # shellcheck disable=SC2016
  status_is 0 "$runner" sh -c '"$@" >/dev/null && "$@" >/dev/null; cat "$TARN_LAYER_REPORT"' sh "$@" || return
  [ "$(sed 's/^\([a-z]*\) [0-9]*/\1/; s/[1-9][0-9]*/N/g' "$scratch/out" | tr '\n' ,)" = "$pattern,$pattern," ]
}
check "each process has two lines" report_is "loaded,buffers 0 0 0 0 0" "$promises" --platforms
check "... with its buffers, and why some were the driver's" report_is \
  "loaded,buffers N N N N 0,own N over memory of the host, or filled from it (CL_MEM_USE_HOST_PTR, CL_MEM_COPY_HOST_PTR)" \
  "$promises" --platform "$platform" info
cat >"$scratch/forks.c" <<'CODE'
#include <CL/cl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int
main (void)
{
  cl_uint n;

  clGetPlatformIDs (0, NULL, &n);
  if (fork () == 0)
    exit (0);
  wait (NULL);
  return 0;
}
CODE
# shellcheck disable=SC2086  # flags are words
if $CC $T_CC_FLAGS $T_OPENCL_CFLAGS -DCL_TARGET_OPENCL_VERSION=120 "$scratch/forks.c" -lOpenCL \
  -o "$scratch/forks" >/dev/null 2>&1; then
  check "... and a child of fork () none" report_is "loaded,buffers 0 0 0 0 0" "$scratch/forks"
else
  skip "... and a child of fork () none" "there is no -lOpenCL"
fi
makes_no_file () {
  status_is 0 env OPENCL_LAYERS="$layer" TARN_LAYER_REPORT="$scratch/absent" "$promises" --platforms \
    && silent && [ ! -e "$scratch/absent" ]
}
check "a report that is gone is not made again" makes_no_file

done_testing
