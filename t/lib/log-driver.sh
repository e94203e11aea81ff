#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# Runs a test program by automake's driver for TAP, which prints a line for each result, and prints one
# line for all of them, and the names of those that failed.  The log goes into test-suite.log only if
# something failed.
#   log-driver.sh TAP-DRIVER OPTION... -- PROGRAM...
driver=$1
shift
previous=
for word; do
  case $previous in
    --test-name) name=$word ;;
    --log-file) log=$word ;;
    --trs-file) trs=$word ;;
  esac
  [ "$word" != -- ] || break
  previous=$word
done
sh "$driver" --color-tests no "$@" >/dev/null || exit

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
$(sed -n -E 's/^(FAIL|XPASS|ERROR): [^ ]* /    /p' "$log")"
fi
printf '%s\n' "$line"
