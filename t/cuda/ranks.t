#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# The ranks of one node spread over its devices, under a real launcher, on the fake driver.
. "$(dirname "$0")/../lib/tap.sh"

program=$top_builddir/t/cuda/ranks
fake=$top_builddir/lib/testing/cuda/.libs
if [ ! -x "$program" ] || [ ! -e "$fake/libcuda.so.1" ]; then
  skip "ranks" "built without the fake driver"
  done_testing
  exit
fi
LD_LIBRARY_PATH=$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
HOME=$scratch
export LD_LIBRARY_PATH HOME
unset CUDA_DEVICE OMPI_COMM_WORLD_LOCAL_RANK MPI_LOCALRANKID SLURM_LOCALID PMI_LOCAL_RANK

prints () { # DEVICES-IN-ORDER COMMAND...
  expected=$1
  shift
  "$@" >"$scratch/out" || return
  [ "$(sort "$scratch/out" | sed 's/device //' | tr '\n' ' ')" = "$expected " ]
}

TARN_TESTING_CUDA_DEVICES=4
export TARN_TESTING_CUDA_DEVICES
check "one process" prints 0 "$program"
if command -v mpirun >/dev/null; then
  # A launcher that cannot start here has nothing to say about us.
  if mpirun --allow-run-as-root --oversubscribe -n 2 true >"$scratch/mpirun" 2>&1; then
    check "mpirun -n 4 on four devices" prints "0 1 2 3" \
      mpirun --allow-run-as-root --oversubscribe -n 4 "$program"
    TARN_TESTING_CUDA_DEVICES=2
    check "mpirun -n 4 on two devices" prints "0 0 1 1" \
      mpirun --allow-run-as-root --oversubscribe -n 4 "$program"
    TARN_TESTING_CUDA_DEVICES=4
    CUDA_DEVICE=2
    export CUDA_DEVICE
    check "CUDA_DEVICE goes before the rank" prints "2 2" \
      mpirun --allow-run-as-root --oversubscribe -n 2 "$program"
  else
    skip "mpirun" "it cannot start: $(head -n 1 "$scratch/mpirun")"
  fi
else
  skip "mpirun" "there is none"
fi
done_testing
