#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# tarn-run --every: what is run, and what is found in programs that take faults badly, each in a way
# of its own: take-faults.c has them.
. "$(dirname "$0")/../lib/tap.sh"

top=$(cd "$top_builddir" && pwd -P)
runner=$top/tools/tarn-run
program=$top/t/tools/take-faults
if [ ! -x "$runner" ]; then
  skip "--every" "tarn-run is not built"
  done_testing
  exit
fi
unset OPENCL_LAYERS TARN_LAYER_LIMIT TARN_LAYER_POOL TARN_LAYER_STATS TARN_LAYER_REPORT TARN_LAYER_FAULTS
unset TARN_FAULTS TARN_FAULTS_REPORT TARN_DEBUG
mkdir "$scratch/tmp"
TMPDIR=$scratch/tmp
export TMPDIR

# ---- the command line ----

refuses () { # MESSAGE ARGUMENT...
  message=$1
  shift
  rm -f "$scratch/ran"
  status_is 2 "$runner" "$@" touch "$scratch/ran" && [ ! -e "$scratch/ran" ] \
    && [ ! -s "$scratch/out" ] && echo "tarn-run: $message" | diff - "$scratch/err"
}
for option in --limit=1G --stats --trace=x --fail=clFinish:1 --device-loss=1; do
  check "--every $option" refuses \
    "--limit, --stats, --trace, --fail and --device-loss cannot be used with --every" --every "$option"
done
check "--every --debug --no-pool" refuses \
  "--debug checks buffers of a pool: it cannot be used with --no-pool" --every --debug=all --no-pool
check "--every --debug nonsense" refuses \
  "--debug: 'nonsense' is none of these: guards, gaps, poison, quarantine[=BYTES], leaks, check[=N], exit=STATUS, stacks=N or all" \
  --every --debug=nonsense
for option in --jobs=2 --max=2 --timeout=1 --expect-status=1 --no-leaks; do
  check "$option alone" refuses \
    "--jobs, --max, --timeout, --expect-status and --no-leaks are for --every" "$option"
done
check "--jobs 0" refuses "--jobs 0: must be at least 1" --every --jobs 0
check "--max 0" refuses "--max 0: must be at least 1" --every --max 0
check "--timeout -1" refuses "--timeout -1: must be from 0 to 1000000" --every --timeout=-1
for list in "" x "1,x" 256 -1 "1,"; do
  check "--expect-status '$list'" refuses \
    "--expect-status: '${list#1,}' is no exit status, from 0 to 255" --every "--expect-status=$list"
done
check "--every=" refuses "--every: '' is none of the calls that can fail: see tarn-run(1)" --every=
check "--every=clNothing" refuses \
  "--every: 'clNothing' is none of the calls that can fail: see tarn-run(1)" --every=clFinish,clNothing

# ---- programs without OpenCL ----

leaves_nothing () { # in the folder of reports
  ls -R "$TMPDIR"
  [ -z "$(ls "$TMPDIR")" ]
}
prints () { # TEXT
  printf '%s\n' "$1" | diff - "$scratch/out" && leaves_nothing
}
has_none () {
  status_is 0 "$runner" --every true && [ ! -s "$scratch/err" ] && prints 'TAP version 13
1..0 # SKIP the program has loaded no OpenCL loader that knows layers, and allocates nothing from Tarn
0 passed, 0 failed, 0 skipped'
}
check "nothing to fail" has_none
makes_none () { # TEXT ARGUMENT...
  text=$1
  shift
  status_is 0 "$runner" --every "$@" && prints "TAP version 13
1..0 # SKIP $text
0 passed, 0 failed, 0 skipped"
}
# shellcheck disable=SC2016  # it is text here
printf '#!/bin/sh\necho "loaded $$" >>"$TARN_LAYER_REPORT"\n' >"$scratch/loaded"
chmod +x "$scratch/loaded"
check "... under the layer" makes_none "the program makes no call that can fail" "$scratch/loaded"
check "... of some names" makes_none "the program makes none of these calls
# clFinish: 0" --every=clFinish "$scratch/loaded"
is_missing () {
  status_is 127 "$runner" --every ./no-such-program && [ ! -s "$scratch/out" ] && leaves_nothing
}
check "no such program" is_missing
echo true >"$scratch/not-executable"
is_not_executed () {
  status_is 126 "$runner" --every "$scratch/not-executable" && [ ! -s "$scratch/out" ] && leaves_nothing
}
check "one that cannot be executed" is_not_executed
is_bad_already () { # WHAT PROGRAM...
  what=$1
  shift
  status_is 1 "$runner" --every --timeout 15 "$@" && grep -qx "Bail out! Without a fault: $what" "$scratch/out" \
    && grep -qx '# why' "$scratch/out" && leaves_nothing
}
check "a program that fails without a fault" is_bad_already "exit status 3" \
  sh -c 'echo why >&2; exit 3'
check "... that crashes" is_bad_already 'killed by signal 11 (Segmentation fault)' \
  sh -c 'echo why >&2; ulimit -c 0; kill -s SEGV $$'
check "... that hangs" is_bad_already "hung: not at its end after 15 s" \
  sh -c 'echo why >&2; exec sleep 600'

# What the layer and the core report is written by the program here, which is told what is to fail.
cat >"$scratch/fake" <<'PROGRAM'
#!/bin/sh
echo "calls $$ clFinish 2" >>"$TARN_LAYER_REPORT"
echo "requests $$ 1 100" >>"$TARN_FAULTS_REPORT"
echo "$TARN_LAYER_POOL $TARN_LAYER_FAULTS ${TARN_FAULTS-unset}" >>"$1"
case $TARN_LAYER_FAULTS,$TARN_FAULTS in
  *clFinish=1,*) echo "failed $$ clFinish 1" >>"$TARN_LAYER_REPORT"; exit 4 ;;
  *clFinish=2,*) ;; # never comes there
  *,nth=*)
    echo "refused $$ 1" >>"$TARN_FAULTS_REPORT"
    echo "requests $$ 1 40" >>"$TARN_FAULTS_REPORT" # of another process
    ;;
esac
PROGRAM
chmod +x "$scratch/fake"
takes_reports () {
  rm -f "$scratch/told"
  status_is 1 "$runner" --every "$scratch/fake" "$scratch/told" && prints "TAP version 13
1..3
# clFinish: 2
# tarn: 1
ok 1 - clFinish:1, exit status 4
not ok 2 - tarn:1+, leaked: 40 bytes of Tarn's
# again: tarn-run --no-pool --fail tarn:1+ -- $scratch/fake $scratch/told
ok 3 - clFinish:2 # SKIP the program did not make that call
1 passed, 1 failed, 1 skipped" && printf '%s\n' '0 count unset' '0 count unset' '0 count,clFinish=1 unset' \
    '0 count nth=1+' '0 count,clFinish=2 unset' | diff - "$scratch/told"
}
check "reports of the core and the layer" takes_reports
quotes_words () {
  rm -f "$scratch/a b"
  status_is 1 "$runner" --every=tarn --budget 1G "$scratch/fake" "$scratch/a b" \
    && grep -q -F -x -e "# again: tarn-run --no-pool --fail tarn:1+ --budget 1G -- $scratch/fake '$scratch/a b'" \
      "$scratch/out"
}
check "the command that does it again is for a shell" quotes_words

# What TARN_DEBUG finds is reported by the core.
cat >"$scratch/debugged" <<'PROGRAM'
#!/bin/sh
echo "${TARN_LAYER_POOL-unset} $TARN_DEBUG" >>"$1"
find () { echo "found $$ $*" >>"$TARN_FAULTS_REPORT"; echo "said: $*" >&2; }
echo "calls $$ clFinish 2" >>"$TARN_LAYER_REPORT"
[ "$2" != images ] || echo "images $$ 5 4 1 1" >>"$TARN_LAYER_REPORT"
[ "$2" != pool ] || echo "buffers $$ 5 4 1 1" >>"$TARN_LAYER_REPORT"
echo "requests $$ 3 0" >>"$TARN_FAULTS_REPORT"
case $TARN_LAYER_FAULTS in
  *clFinish=1*)
    echo "failed $$ clFinish 1" >>"$TARN_LAYER_REPORT"
    echo "requests $$ 3 100" >>"$TARN_FAULTS_REPORT"
    find leak one is left
    find mistake "pool 'a': is written"
    find mistake "another one"
    exit 9 ;;
  *clFinish=2*)
    echo "failed $$ clFinish 2" >>"$TARN_LAYER_REPORT"
    find leak two are left
    exit 1 ;;
esac
[ "$2" != leaks ] || find leak three are left
[ "$2" != errs ] || find mistake it is bad
PROGRAM
chmod +x "$scratch/debugged"
debugs () { # POINTS ARGUMENT...
  points=$1
  shift
  rm -f "$scratch/told"
  status_is 1 "$runner" --every --debug guards,leaks "$@" && prints "$points" \
    && [ "$(sort -u "$scratch/told")" = "unset guards,leaks" ]
}
again="# again: tarn-run --debug guards,leaks --fail"
check "--debug: findings of a run are its failures" debugs "TAP version 13
1..5
# clFinish: 2
# tarn: 3
not ok 1 - clFinish:1, found: pool 'a': is written
# said: leak one is left
# said: mistake pool 'a': is written
# said: mistake another one
$again clFinish:1 -- $scratch/debugged $scratch/told
ok 2 - tarn:1+ # SKIP the program did not make that call
not ok 3 - clFinish:2, found: two are left
# said: leak two are left
$again clFinish:2 -- $scratch/debugged $scratch/told
ok 4 - tarn:2+ # SKIP the program did not make that call
ok 5 - tarn:3+ # SKIP the program did not make that call
0 passed, 2 failed, 3 skipped" "$scratch/debugged" "$scratch/told"
check "... leaks are not with --no-leaks" debugs "TAP version 13
1..2
# clFinish: 2
not ok 1 - clFinish:1, found: pool 'a': is written
# said: leak one is left
# said: mistake pool 'a': is written
# said: mistake another one
$again clFinish:1 -- $scratch/debugged $scratch/told
ok 2 - clFinish:2, exit status 1
1 passed, 1 failed, 0 skipped" --no-leaks --every=clFinish "$scratch/debugged" "$scratch/told"
check "... what the layer's pool asks for, and keeps, is not the program's" debugs "TAP version 13
1..2
# clFinish: 2
not ok 1 - clFinish:1, found: pool 'a': is written
# said: leak one is left
# said: mistake pool 'a': is written
# said: mistake another one
$again clFinish:1 -- $scratch/debugged $scratch/told pool
ok 2 - clFinish:2, exit status 1
1 passed, 1 failed, 0 skipped" "$scratch/debugged" "$scratch/told" pool
check "... nor what its pool of images does" debugs "TAP version 13
1..2
# clFinish: 2
not ok 1 - clFinish:1, found: pool 'a': is written
# said: leak one is left
# said: mistake pool 'a': is written
# said: mistake another one
$again clFinish:1 -- $scratch/debugged $scratch/told images
ok 2 - clFinish:2, exit status 1
1 passed, 1 failed, 0 skipped" "$scratch/debugged" "$scratch/told" images
check "... leaks without a fault" debugs "TAP version 13
Bail out! Without a fault: found: three are left
# said: leak three are left" "$scratch/debugged" "$scratch/told" leaks
check "... mistakes without a fault" debugs "TAP version 13
Bail out! Without a fault: found: it is bad
# said: mistake it is bad" "$scratch/debugged" "$scratch/told" errs
looks_at_none () { # ANSWER ARGUMENT...
  answer=$1
  shift
  # shellcheck disable=SC2016
  printf '#!/bin/sh\necho "buffers $$ 3 %s 3 0" >>"$TARN_LAYER_REPORT"\n' "$1" >"$scratch/made"
  chmod +x "$scratch/made"
  shift
  status_is 0 "$runner" --every "$@" "$scratch/made" \
    && [ "$(grep -c -x '# --debug checks no buffer: none is from a pool, see NOTES in tarn-run(1)' "$scratch/out")" -eq "$answer" ]
}
check "... buffers that are all the driver's" looks_at_none 1 0 --debug=guards
check "... some of them" looks_at_none 0 2 --debug=guards
check "... without --debug" looks_at_none 0 0
debugs_from_environment () { # that of the program's own pools
  rm -f "$scratch/told"
  TARN_DEBUG=guards status_is 1 "$runner" --every=clFinish "$scratch/debugged" "$scratch/told" \
    && grep -qx "not ok 1 - clFinish:1, found: pool 'a': is written" "$scratch/out" \
    && [ "$(sort -u "$scratch/told")" = "0 guards" ]
}
check "... by TARN_DEBUG" debugs_from_environment

ends_all () { # SIGNAL STATUS
  rm -f "$scratch/pid"
  # shellcheck disable=SC2016
  env $default_signals "$runner" --every sh -c 'echo $$ >"$0.new" && mv "$0.new" "$0"; exec sleep 60' "$scratch/pid" >/dev/null &
  runner_pid=$!
  tries=0
  until [ -e "$scratch/pid" ] || [ $tries -gt 200 ]; do sleep 0.05; tries=$((tries + 1)); done
  kill -s "$1" $runner_pid
  wait $runner_pid
  status=$?
  echo "status $status"
  tries=0 # the kernel takes a moment
  while kill -s 0 "$(cat "$scratch/pid")" 2>/dev/null && [ $tries -lt 200 ]; do
    sleep 0.05; tries=$((tries + 1))
  done
  [ $status -eq "$2" ] && [ $tries -lt 200 ] && leaves_nothing
}
check "a signal ends all of it" ends_all TERM 143
is_not_written () {
  "$runner" --every "$scratch/fake" "$scratch/told" >/dev/full 2>"$scratch/err"
  status=$?
  cat "$scratch/err"
  [ $status -eq 1 ] && grep -q '^tarn-run: ' "$scratch/err"
}
if [ -e /dev/full ]; then
  check "results that cannot be written" is_not_written
else
  skip "results that cannot be written" "there is no /dev/full"
fi

# ---- programs that take faults ----

if ! status_is 0 "$runner" "$program" good >/dev/null || [ -s "$scratch/err" ]; then
  skip "programs" "there is no OpenCL device, or its loader knows no layers"
  done_testing
  exit
fi

every () { # STATUS WAY ARGUMENT...: the points are in $scratch/points, without their numbers
  wanted=$1 way=$2
  shift 2
  status_is "$wanted" "$runner" --every "$@" "$program" "$way" || return
  sed -n 's/^\(not ok\|ok\) [0-9]* - /\1 /p' "$scratch/out" >"$scratch/points"
  [ ! -s "$scratch/err" ] && leaves_nothing
}
finds_only () { # LINE...: what is not ok, after every
  for line; do echo "not ok $line"; done >"$scratch/expected"
  grep '^not ok' "$scratch/points" | diff "$scratch/expected" -
}

is_well () {
  every 0 good && prints 'TAP version 13
1..10
# clCreateContext: 1
# clCreateCommandQueue: 1
# clCreateBuffer: 2
# clFinish: 1
# clEnqueueFillBuffer: 2
# clEnqueueCopyBuffer: 1
# clEnqueueMapBuffer: 1
# clEnqueueUnmapMemObject: 1
ok 1 - clCreateContext:1, exit status 1
ok 2 - clCreateCommandQueue:1, exit status 1
ok 3 - clCreateBuffer:1, exit status 1
ok 4 - clFinish:1, exit status 1
ok 5 - clEnqueueFillBuffer:1, exit status 1
ok 6 - clEnqueueCopyBuffer:1, exit status 1
ok 7 - clEnqueueMapBuffer:1, exit status 1
ok 8 - clEnqueueUnmapMemObject:1, exit status 1
ok 9 - clCreateBuffer:2, exit status 1
ok 10 - clEnqueueFillBuffer:2, exit status 1
10 passed, 0 failed, 0 skipped'
}
check "a program that notices all" is_well
recovers () {
  every 0 recover && [ "$(grep -c 'exit status 0$' "$scratch/points")" -eq 5 ]
}
check "one that tries again" recovers
crashes () {
  every 1 crash && grep -qx \
    'not ok clCreateBuffer:2, killed by signal 11 (Segmentation fault)' "$scratch/points" \
    && grep -qx 'not ok clEnqueueMapBuffer:1, killed by signal 11 (Segmentation fault)' "$scratch/points"
}
again_crashes () { # after it
  command=$(sed -n 's/^# again: tarn-run \(.* clEnqueueMapBuffer:1 .*\)/\1/p' "$scratch/out")
  echo "$command"
  # shellcheck disable=SC2086  # words
  [ -n "$command" ] && status_is 139 "$runner" $command
}
if [ "$SANITIZER" = no ]; then
  check "one that crashes" crashes
  check "... and does so again by the command that is printed" again_crashes
else
  skip "one that crashes" "a sanitizer comes before the signal"
fi
aborts () {
  every 1 abort --max 1 && finds_only 'clCreateContext:1, killed by signal 6 (Aborted)' \
    && grep -qx '# context: -6' "$scratch/out"
}
check "one that aborts, and what it said" aborts
is_to_abort () {
  every 0 abort --expect-status 134,1
}
check "... as is expected" is_to_abort
ignored='ignored: exit status 0, and another output than without a fault'
ignores () {
  every 1 ignore && finds_only "clEnqueueFillBuffer:1, $ignored" "clEnqueueCopyBuffer:1, $ignored" \
    "clEnqueueFillBuffer:2, $ignored" && [ "$(grep -c "^# line 1: '2' expected, '.*' printed" "$scratch/out")" -eq 3 ]
}
check "one that ignores errors" ignores
leaks () {
  every 1 leak && finds_only "clCreateBuffer:2, leaked: 1 cl_mem"
}
check "one that leaks" leaks
check "... with --no-leaks" every 0 leak --no-leaks
leaks_references () {
  every 1 leak-reference && finds_only "clCreateBuffer:2, leaked: 2 references to cl_mem"
}
check "one that leaks two references to a buffer" leaks_references
# As long as the slowest machine takes for one that does not hang.
hangs () {
  every 1 hang --fail-all --timeout 15 --jobs 2 \
    && finds_only "clCreateBuffer:1+, hung: not at its end after 15 s" \
    "clCreateBuffer:2+, hung: not at its end after 15 s"
}
check "one that hangs while a call fails" hangs
check "... once is not for ever" every 0 hang
sanitizes () {
  every 1 sanitize --every=clFinish && finds_only "clFinish:1, ERROR: AddressSanitizer: heap-use-after-free"
}
check "one in which a sanitizer finds something" sanitizes
differs () {
  every 0 noise && grep -qx \
    '# standard output varies from run to run; lines compared: 1 whole, 1 in part, of 2' "$scratch/out"
}
check "one that prints something else each time" differs
is_wrong_elsewhere () {
  every 1 vary && finds_only "clEnqueueFillBuffer:1, $ignored" "clEnqueueCopyBuffer:1, $ignored" \
    "clEnqueueFillBuffer:2, $ignored" && [ "$(grep -c "^# line 2: '2' expected, '.*' printed" "$scratch/out")" -eq 3 ]
}
check "... and ignores errors" is_wrong_elsewhere
overruns () {
  every 0 overrun && every 1 overrun --debug guards,leaks && grep -q \
    "^not ok clEnqueueCopyBuffer:1, found: pool 'buffers' over .* of 4096 bytes: written behind its end, at offset 4096" \
    "$scratch/points" && [ "$(grep -c '^not ok' "$scratch/points")" -eq 3 ] \
    && grep -q '^#   allocated by thread' "$scratch/out"
}
check "--debug: one that writes behind a buffer" overruns
overruns_always () {
  status_is 1 "$runner" --every --debug guards "$program" always \
    && grep -q "^Bail out! Without a fault: found: pool 'buffers' over .*: written behind its end" "$scratch/out"
}
check "... also without a fault" overruns_always
check "... one that notices all" every 0 good --debug all
leaks_debugged () {
  every 1 leak --debug all && finds_only "clCreateBuffer:2, leaked: 1 cl_mem" \
    && grep -q '1 block is in use when the program ends, 4096 bytes' "$scratch/out"
}
check "... one that leaks" leaks_debugged
is_unexpected () {
  every 1 recover --expect-status 1 --every=clFinish,clCreateBuffer \
    && finds_only "clCreateBuffer:1, exit status 0, which is not expected" \
      "clCreateBuffer:2, exit status 0, which is not expected" && [ "$(wc -l <"$scratch/points")" -eq 3 ]
}
check "one that ends in a way that is not expected; some calls only" is_unexpected
ends_early () {
  every 0 good --max 4 && grep -qx '1..4' "$scratch/out" && [ "$(wc -l <"$scratch/points")" -eq 4 ]
}
check "--max" ends_early
is_the_same () {
  every 1 ignore && mv "$scratch/out" "$scratch/one" && every 1 ignore --jobs 4 \
    && diff "$scratch/one" "$scratch/out"
}
check "--jobs: the same results in the same order" is_the_same
runs_at_once () { # each waits for another one
  cat >"$scratch/waits" <<'PROGRAM'
#!/bin/sh
echo "calls $$ clFinish 2" >>"$TARN_LAYER_REPORT"
case $TARN_LAYER_FAULTS in
  *clFinish=1) own=$1/first other=$1/second ;;
  *clFinish=2) own=$1/second other=$1/first ;;
  *) exit 0 ;;
esac
: >"$own"
until [ -e "$other" ]; do sleep 0.05; done
echo "failed $$ clFinish 1" >>"$TARN_LAYER_REPORT"
PROGRAM
  chmod +x "$scratch/waits"
  mkdir "$scratch/meet"
  status_is 0 "$runner" --every --jobs 2 --timeout 30 "$scratch/waits" "$scratch/meet" \
    && grep -qx '2 passed, 0 failed, 0 skipped' "$scratch/out"
}
check "... at once" runs_at_once
shows_progress () {
  script -qec "stty -echo; exec '$runner' --every=clFinish '$program' good >/dev/null" "$scratch/typescript" \
    >"$scratch/out" 2>&1 </dev/null
  cat "$scratch/out"
  grep -q '\[0/1\] 0 passed, 0 failed' "$scratch/out"
}
if TERM=xterm script -qec true /dev/null </dev/null >/dev/null 2>&1; then
  TERM=xterm check "progress on a terminal" shows_progress
else
  skip "progress on a terminal" "there is no script (1) that makes one"
fi

# Tarn's own requests, of a program with a pool.
example=$top/doc/examples/vector-expression
takes_own () {
  status_is 0 "$runner" --every=tarn --max 3 "$example" --backend opencl --size 1K --steps 1 \
    && grep -qx 'ok 1 - tarn:1+, exit status 1' "$scratch/out" \
    && grep -qx '3 passed, 0 failed, 0 skipped' "$scratch/out"
}
if [ -x "$example" ]; then
  check "requests of a program with a pool" takes_own
else
  skip "requests of a program with a pool" "the examples are not built"
fi

done_testing
