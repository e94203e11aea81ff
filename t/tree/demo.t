#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# The example program, as a user runs it: right results, and a clear message for bad input.
. "$(dirname "$0")/../lib/tap.sh"

demo=$top_builddir/doc/examples/vector-expression
if [ ! -x "$demo" ]; then
  skip "demo" "built without OpenCL and CUDA"
  done_testing
  exit
fi

# Each request was served with a call of the driver or without one, and the line about the pool says
# the same; the pool made fewer calls than there were requests.
adds_up () { # FILE
  awk '/^requests/ { n = $3 } /^  without a driver call/ { without = $6; none = $5 }
       /^driver calls/ { alone = $3; pooled = $4 }
       /^the pool: / { line = $3 " " $5 " " $10 }
       END { print n, without, pooled, line
             exit !(n > 0 && none == 0 && alone == n && pooled < n && without >= n - pooled &&
                    line == n " " without " " pooled) }' "$1"
}

# script (1) makes a terminal, which shows how far the demo is while it runs.
shows_progress () {
  script -qec "'$demo' --size 1000 --steps 3" /dev/null </dev/null >"$scratch/out" 2>&1
  grep -q 'with the pool: 0 of 3' "$scratch/out" && grep -q 'without the pool: 0 of 3' "$scratch/out"
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
check "--backend vulkan" refuses "'vulkan'" --backend vulkan
check "a surplus argument" refuses surplus surplus

if "$demo" --list >"$scratch/list" 2>/dev/null; then
  check "--select 0" refuses "'0'" --select 0
  check "--select x:y" refuses "'x:y'" --select x:y
  check "--select 99:0" refuses "'99:0'" --select 99:0
  check "--size 1000G" refuses "1073741824000" --size 1000G
  for device in $(grep -o -E '^ *(cuda|[0-9]+):[0-9]+' "$scratch/list"); do
    check "$device: small" status_is 0 "$demo" --select "$device" --size 1000 --steps 3
    check "$device: it ends with what was saved" sh -c \
      "tail -n 3 '$scratch/out' | grep -q '^allocations were [0-9.]* times faster'
       tail -n 3 '$scratch/out' | grep -q '^a step took .* without: .* saved, [0-9]* %$'"
    check "... and the pool's counters" adds_up "$scratch/out"
    check "... where no terminal is there is no progress" [ ! -s "$scratch/err" ]
    check "$device: too large for a pool to hold" \
      status_is 0 "$demo" --select "$device" --size 128K --steps 3
    check "... and yet the driver allocates less often" \
      awk '/^driver calls/ { n++; exit $4 >= $3 } END { if (n != 1) exit 1 }' "$scratch/out"
    check "... and nearly all requests are served without it" adds_up "$scratch/out"
  done
  if command -v script >/dev/null; then
    check "a terminal shows progress" shows_progress
  else
    skip "a terminal shows progress" "there is no script (1)"
  fi
else
  check "no device: status 2" status_is 2 "$demo"
  skip "the demo runs" "no device"
fi

# The fake driver has memory, and runs no kernels.
fails_without_kernels () { # ARGUMENT...
  status_is 1 with_fake "$demo" "$@" && [ ! -s "$scratch/out" ] \
    && [ "$(wc -l <"$scratch/err")" -eq 1 ] && grep -q 'no function cuLaunchKernel' "$scratch/err"
}

# Every device but CUDA's is there, and standard error says why.
lists_without_cuda () {
  "$demo" --backend opencl --list >"$scratch/expected" && with_fake status_is 0 "$demo" --list \
    && diff "$scratch/expected" "$scratch/out" \
    && grep -q 'left out: .* no function cuLaunchKernel' "$scratch/err"
}

# Nothing about CUDA.
runs_on_opencl () {
  with_fake status_is 0 "$demo" --backend opencl --size 1000 --steps 3 && [ ! -s "$scratch/err" ]
}

if [ -e "$fake/libcuda.so.1" ]; then
  check "--backend cuda, a driver without kernels" fails_without_kernels --backend cuda
  check "--select cuda:0, a driver without kernels" fails_without_kernels --select cuda:0
  TARN_TESTING_CUDA_DEVICES=0
  export TARN_TESTING_CUDA_DEVICES
  check "--backend cuda, no device" with_fake refuses "no CUDA device" --backend cuda
  check "--select cuda:0, no device" with_fake refuses "no CUDA device" --select cuda:0
  unset TARN_TESTING_CUDA_DEVICES
  if "$demo" --backend opencl --list >/dev/null 2>&1; then
    check "a driver without kernels is left out" lists_without_cuda
    check "... and another device taken" with_fake status_is 0 "$demo" --size 1000 --steps 3
    check "--backend opencl beside it" runs_on_opencl
    check "--backend opencl --select cuda:0" refuses "'cuda:0'" --backend opencl --select cuda:0
  else
    check "a driver without kernels, and no other" fails_without_kernels
  fi
else
  skip "a driver without kernels" "built without the fake driver"
fi
done_testing
