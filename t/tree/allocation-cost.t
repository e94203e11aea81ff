#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# doc/examples/allocation-cost, on the fake driver, and on this machine's if it has a device.
. "$(dirname "$0")/../lib/tap.sh"

program=$top_builddir/doc/examples/allocation-cost
if [ ! -x "$program" ]; then
  skip "allocation-cost" "built without CUDA"
  done_testing
  exit
fi
HOME=$scratch # it may choose a device
export HOME
unset CUDA_DEVICE

# One line on standard error that says so, nothing on standard output.
fails () { # STATUS MESSAGE COMMAND...
  expected_status=$1
  message=$2
  shift 2
  status_is "$expected_status" "$@" && [ ! -s "$scratch/out" ] \
    && [ "$(wc -l <"$scratch/err")" -eq 1 ] && grep -qF -e "$message" "$scratch/err"
}

help_fits () {
  "$program" --help && [ "$("$program" --help | wc -l)" -le 24 ] \
    && [ "$("$program" --help | awk '{ if (length > n) n = length } END { print n }')" -le 80 ]
}

# A row that begins so ends with three times and a ratio; or else says why not.
has_row () { # LABEL
  grep -q -E "^$1( +[0-9.]+ [num]s){3} +[0-9.]+\$|^$1 +\(the .*\)\$" "$scratch/table"
}

has_table () {
  grep -q '^device   cuda:[0-9]' "$scratch/table" && grep -q '/ malloc$' "$scratch/table" || return
  for row in 'malloc \(64\) \+ free' "Tarn's pool, device memory" "Tarn's pool, page-locked memory" \
    'cuMemAlloc \+ cuMemFree' 'cuMemHostAlloc \+ cuMemFreeHost' \
    'cuMemAllocAsync \+ cuMemFreeAsync' '\.\.\. with freed memory kept'; do
    has_row "$row" || { echo "no row $row"; return 1; }
  done
}

fits () {
  [ "$(awk '{ if (length > n) n = length } END { print n }' "$scratch/table")" -le 80 ]
}

runs () { # COMMAND...
  status_is 0 "$@" && [ ! -s "$scratch/err" ] && cp "$scratch/out" "$scratch/table"
}

check "--help fits a screen" help_fits
check "--frobnicate" fails 2 --frobnicate "$program" --frobnicate
check "--repetitions 0" fails 2 "'0'" "$program" --repetitions 0
check "--size -5" fails 2 "'-5'" "$program" --size=-5
check "--size beyond 64 MiB" fails 2 "'67108865'" "$program" --size 67108865
check "a surplus argument" fails 2 surplus "$program" surplus

if [ -e "$fake/libcuda.so.1" ]; then
  check "it runs" runs with_fake "$program" --repetitions 3
  check "... with a row for each way" has_table
  check "... and says what the driver lacks" \
    grep -q 'kept *(the driver has no cuMemPoolSetAttribute)' "$scratch/table"
  check "... in 80 columns" fits
  check "one repetition, one size" runs with_fake "$program" --repetitions 1 --size 1000
  CUDA_DEVICE=1
  export CUDA_DEVICE
  check "CUDA_DEVICE chooses" runs with_fake "$program" --repetitions 1
  check "... what it says" grep -q '^device   cuda:1 Fake GPU B$' "$scratch/table"
  unset CUDA_DEVICE
  TARN_TESTING_CUDA_DEVICES=0
  export TARN_TESTING_CUDA_DEVICES
  check "no device" fails 1 "there is no CUDA device" with_fake "$program"
  unset TARN_TESTING_CUDA_DEVICES
  TARN_TESTING_CUDA_FAIL=cuMemHostAlloc:2
  export TARN_TESTING_CUDA_FAIL
  check "a call that fails" status_is 1 with_fake "$program" --repetitions 1
  check "... is named" grep -q 'cuMemHostAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)' "$scratch/err"
  unset TARN_TESTING_CUDA_FAIL
else
  skip "it runs on the fake driver" "built without it"
fi

# The driver that this machine has.
"$program" --repetitions 1 >"$scratch/out" 2>"$scratch/err"
if grep -q "there is no CUDA" "$scratch/err"; then
  skip "a real device" "$(sed 's/^allocation-cost: //' "$scratch/err")"
else
  check "a real device" runs "$program" --repetitions 3
  check "... with a row for each way" has_table
fi
done_testing
