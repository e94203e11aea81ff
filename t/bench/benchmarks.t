#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# Benchmarks run and print what they should: what they measure is for people to read.
. "$(dirname "$0")/../lib/tap.sh"

hits=$top_builddir/t/bench/memo-hits
if [ -x "$hits" ]; then
  "$hits" --threads 2 --hits 1 >"$scratch/out"
  check "memo-hits runs" test $? -eq 0
  check "memo-hits: four rows for 1 thread and for 2" \
    test "$(grep -cE ' [12] +[0-9.]+ +[0-9.]+ +[0-9.]+$' "$scratch/out")" -eq 8
  "$hits" --threads 0 2>"$scratch/err"
  check "memo-hits refuses what it cannot do" test $? -eq 2
  check "memo-hits says what it can" grep -q '1 to 64 threads' "$scratch/err"
else
  skip "memo-hits" "it is not built"
fi

order=$top_builddir/t/bench/order-cost
HOME=$scratch # it may choose a device
export HOME
unset CUDA_DEVICE

# A row ends with three times and a ratio, or with why there are none.
has_rows () {
  test "$(grep -cE '^[a-zA-Z0-9, ]+ {2,}([0-9.]+ +){3}[0-9.]+$|^cuMem.*\(the driver has no .*\)$' \
    "$scratch/out")" -eq 7
}

if [ -x "$order" ]; then
  check "order-cost --help fits a screen" test "$("$order" --help | wc -l)" -le 24
  "$order" --rounds 0 2>"$scratch/err"
  check "order-cost refuses what it cannot do" test $? -eq 2
  check "order-cost says what it can" grep -q 'at least 1 round' "$scratch/err"
  "$order" --rounds 2 >"$scratch/out" 2>"$scratch/err"
  if [ $? -eq 77 ]; then
    check "order-cost says that there is no device" grep -q 'there is no CUDA' "$scratch/err"
  else
    check "order-cost: seven rows on this machine's device" has_rows
  fi
  if [ -e "$fake/libcuda.so.1" ]; then
    with_fake "$order" --rounds 2 >"$scratch/out"
    check "order-cost runs on the fake driver" test $? -eq 0
    check "order-cost: seven rows" has_rows
    FAKE_CUDA_DEVICES=0 with_fake "$order" 2>"$scratch/err"
    check "order-cost without a device is skipped" test $? -eq 77
  else
    skip "order-cost on the fake driver" "built without it"
  fi
else
  skip "order-cost" "it is not built"
fi
done_testing
