#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# The example program, as a user runs it: right results, and a clear message for bad input.
. "$(dirname "$0")/tap.sh"

demo=$top_builddir/doc/examples/vector-expression
if [ ! -x "$demo" ]; then
  skip "demo" "built without OpenCL"
  done_testing
  exit
fi

status_is () { # STATUS COMMAND...
  expected=$1
  shift
  "$@" >"$scratch/out" 2>"$scratch/err"
  status=$?
  cat "$scratch/out" "$scratch/err"
  [ $status -eq "$expected" ]
}

# Status 2, one line on standard error that names the value, nothing on standard output.
refuses () { # VALUE ARGUMENT...
  value=$1
  shift
  status_is 2 "$demo" "$@" && [ ! -s "$scratch/out" ] && [ "$(wc -l <"$scratch/err")" -eq 1 ] \
    && grep -qF -e "$value" "$scratch/err"
}

help_fits () {
  "$demo" --help && [ "$("$demo" --help | wc -l)" -le 24 ] \
    && [ "$("$demo" --help | awk '{ if (length > n) n = length } END { print n }')" -le 80 ]
}

check "--help fits a screen" help_fits
check "--frobnicate" refuses --frobnicate --frobnicate
check "--size 0" refuses "'0'" --size 0
check "--size -5" refuses "'-5'" --size=-5
check "--size abc" refuses "'abc'" --size abc
check "--size ''" refuses "''" --size=
check "--size 99999999999999999999" refuses "'99999999999999999999'" --size 99999999999999999999
check "--steps 0" refuses "'0'" --steps 0
check "a surplus argument" refuses surplus surplus

if "$demo" --list >"$scratch/list" 2>/dev/null; then
  check "--select 0" refuses "'0'" --select 0
  check "--select x:y" refuses "'x:y'" --select x:y
  check "--select 99:0" refuses "'99:0'" --select 99:0
  check "--size 1000G" refuses "1073741824000" --size 1000G
  for device in $(grep -o '^ *[0-9]*:[0-9]*' "$scratch/list"); do
    check "$device: small" status_is 0 "$demo" --select "$device" --size 1000 --steps 3
    check "$device: the last line is the ratio" sh -c \
      "tail -n 1 '$scratch/out' | grep -q '^allocations were [0-9.]* times faster'"
  done
else
  check "no device: status 2" status_is 2 "$demo"
  skip "the demo runs" "no OpenCL device"
fi
done_testing
