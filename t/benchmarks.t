#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# Benchmarks run and print what they should: what they measure is for people to read.
. "$(dirname "$0")/tap.sh"

hits=$top_builddir/t/bench/memo-hits
if [ ! -x "$hits" ]; then
  skip "memo-hits" "it is not built"
  done_testing
  exit
fi
"$hits" --threads 2 --hits 1 >"$scratch/out"
check "memo-hits runs" test $? -eq 0
check "memo-hits: four rows for 1 thread and for 2" \
  test "$(grep -cE ' [12] +[0-9.]+ +[0-9.]+ +[0-9.]+$' "$scratch/out")" -eq 8
"$hits" --threads 0 2>"$scratch/err"
check "memo-hits refuses what it cannot do" test $? -eq 2
check "memo-hits says what it can" grep -q '1 to 64 threads' "$scratch/err"
done_testing
