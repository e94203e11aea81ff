#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# Runs a test program by automake's driver for TAP, which prints a line for each result, and prints one
# line for all of them, and the names of those that failed.  The log goes into test-suite.log only if
# something failed.  A program that hangs is ended, with what it has started.
#   log-driver.sh TAP-DRIVER OPTION... -- PROGRAM...
# TARN_TEST_SECONDS: how long a program may take (default: 1200)
driver=$1
shift
seconds=${TARN_TEST_SECONDS:-1200}
case $seconds in
  *[!0-9]*)
    echo "log-driver.sh: TARN_TEST_SECONDS is '$seconds', which is no number" >&2
    exit 2
    ;;
esac
previous=
for word; do
  case $previous in
    --test-name) name=$word ;;
    --log-file) log=$word ;;
    --trs-file) trs=$word ;;
  esac
  shift
  set -- "$@" "$word"
  if [ "$word" = -- ] && [ "$previous" != -- ]; then
    set -- "$@" timeout --kill-after=10 "$seconds"
  fi
  [ "$previous" = -- ] || previous=$word
done
start=$(date +%s)
sh "$driver" --color-tests no "$@" >/dev/null || exit
echo ":seconds: $(($(date +%s) - start)) $name" >>"$trs" # for t/tree/count-results

count () { # RESULTS
  grep -cE "^:test-result: ($1)" "$trs"
}

passed=$(count 'PASS|XFAIL')
failed=$(count 'FAIL|XPASS|ERROR')
skipped=$(count SKIP)
result=$(sed -n 's/^:global-test-result: //p' "$trs")
line="$result: $name ($passed passed"
[ "$failed" -eq 0 ] || line="$line, $failed failed"
[ "$skipped" -eq 0 ] || line="$line, $skipped skipped"
line="$line)"
if [ "$failed" -eq 0 ]; then
  sed 's/^:copy-in-global-log: .*/:copy-in-global-log: no/' "$trs" >"$trs.new" \
    && mv "$trs.new" "$trs"
else
  line="$line
$(sed -n -E -e "/ exited with status 124/s/- .*/- ended after $seconds s/" \
    -e 's/^(FAIL|XPASS|ERROR): [^ ]* /    /p' "$log")"
fi
printf '%s\n' "$line"
