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

record_cost=$top_builddir/t/bench/record-cost
if [ -x "$record_cost" ]; then
  "$record_cost" --threads 2 --pairs 1 >"$scratch/out"
  check "record-cost runs" test $? -eq 0
  check "record-cost: recorded, with tags and with stacks, for 1 thread and for 2, and nothing lost" \
    test "$(grep -cE '^(recorded|with [a-z0-9 ]+) +[12] +[0-9.]+ +[0-9.]+ +-?[0-9.]+ +0$' \
      "$scratch/out")" -eq 8
  "$record_cost" --pairs 0 2>"$scratch/err"
  check "record-cost refuses what it cannot do" test $? -eq 2
  check "record-cost says what it can" grep -q '1 to 100000 thousand pairs' "$scratch/err"
  "$record_cost" --directory /nonexistent 2>"$scratch/err"
  check "record-cost says where it cannot write" grep -q '^/nonexistent/' "$scratch/err"
else
  skip "record-cost" "it is not built"
fi

layer_cost=$top_builddir/t/bench/layer-cost
if [ -x "$layer_cost" ]; then
  "$layer_cost" --threads 0 2>"$scratch/err"
  check "layer-cost refuses what it cannot do" test $? -eq 2
  check "layer-cost says what it can" grep -q '1 to 64 threads' "$scratch/err"
  for layers in "" "$top_builddir/lib/opencl/layer/.libs/libtarn-layer.so"; do
    OPENCL_LAYERS=$layers "$layer_cost" --threads 2 --buffers 20 --size 64 >"$scratch/out" \
      2>"$scratch/err"
    if [ $? -eq 77 ]; then
      skip "layer-cost" "there is no OpenCL platform"
    else
      check "layer-cost${layers:+, on the layer}: no word is wrong" grep -q ' 0$' "$scratch/out"
    fi
  done
else
  skip "layer-cost" "it is not built"
fi

HOME=$scratch # it may choose a device
export HOME
unset CUDA_DEVICE

# A row ends with three times and six numbers, each of which may be missing, or with why there are
# none.
has_rows () { # N
  test "$(grep -cE '^[a-zA-Z0-9(), '\'']+( +[0-9]+){2} +(([0-9.]+ +){3}([0-9.-]+ *){6}|\(the driver has no .*\))$' \
    "$scratch/out")" -eq "$1"
}

# Rows that it takes to see that the table is whole: two of each that has threads.
glance () { # COMMAND...
  "$@" --rounds 2 --repetitions 2 --threads 1,2 >"$scratch/out" 2>"$scratch/err"
}

plain=$top_builddir/t/bench/plain-order-cost
check "plain-order-cost --help fits a screen" test "$("$plain" --help | wc -l)" -le 24
"$plain" --threads 2,4 2>"$scratch/err"
check "plain-order-cost refuses what it cannot do" test $? -eq 2
check "plain-order-cost says what it can" grep -q '1 to 64 threads' "$scratch/err"
glance "$plain"
check "plain-order-cost runs" test $? -eq 0
check "plain-order-cost: 27 rows" has_rows 27
"$plain" --rounds 2 --threads 1 --only 'its own size' --json >"$scratch/out"
check "plain-order-cost --only --json: malloc and four numbers of queues" \
  test "$(grep -c '"queues": [0-9]*, "median": [0-9.]*, ' "$scratch/out")" -eq 5
"$plain" --seconds 0.001 --repetitions 1 --threads 1 --only without >"$scratch/out"
check "plain-order-cost: by the clock" has_rows 2

order=$top_builddir/t/bench/order-cost
if [ -x "$order" ]; then
  check "order-cost --help fits a screen" test "$("$order" --help | wc -l)" -le 24
  glance "$order"
  if [ $? -eq 77 ]; then
    check "order-cost says that there is no device" grep -q 'there is no CUDA' "$scratch/err"
  else
    check "order-cost: 35 rows on this machine's device" has_rows 35
  fi
  if [ -e "$fake/libcuda.so.1" ]; then
    glance with_fake "$order"
    check "order-cost runs on the fake driver" test $? -eq 0
    check "order-cost: 35 rows" has_rows 35
    TARN_TESTING_CUDA_DEVICES=0 with_fake "$order" 2>"$scratch/err"
    check "order-cost without a device is skipped" test $? -eq 77
  else
    skip "order-cost on the fake driver" "built without it"
  fi
else
  skip "order-cost" "it is not built"
fi

opencl=$top_builddir/t/bench/opencl-order-cost
if [ -x "$opencl" ]; then
  POCL_DEVICES=pthread # its other device deadlocks where threads enqueue: doc/drivers
  export POCL_DEVICES
  check "opencl-order-cost --help fits a screen" test "$("$opencl" --help | wc -l)" -le 24
  glance "$opencl"
  if [ $? -eq 77 ]; then
    skip "opencl-order-cost on a device" "$(cat "$scratch/err")"
  else
    check "opencl-order-cost: 35 rows on this machine's device" has_rows 35
  fi
else
  skip "opencl-order-cost" "it is not built"
fi
done_testing
