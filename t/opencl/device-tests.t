#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# A test program of a user, doc/examples/saxpy-test: once for each chosen device and platform.
. "$(dirname "$0")/../lib/tap.sh"

program=$top_builddir/doc/examples/saxpy-test
if [ ! -x "$program" ]; then
  skip "tests per device" "built without OpenCL"
  done_testing
  exit
fi
unset TARN_TEST PYOPENCL_TEST

# The paths alone, which GLib 2.84 puts behind "# "; what else -l prints differs, too.
list () {
  "$program" -l >"$scratch/all" && sed -n 's|^\(# \)\{0,1\}/|/|p' "$scratch/all" >"$scratch/list"
}

lists () { # EXPECTED-PATHS...
  list || return
  printf '%s\n' "$@" | diff - "$scratch/list"
}

# Whether it succeeds, and one line of the output.
runs () { # yes|no REGEX ARGUMENT...
  success=no expected=$1 regex=$2
  shift 2
  "$program" "$@" >"$scratch/run" 2>&1 && success=yes
  cat "$scratch/run"
  [ $success = "$expected" ] && [ "$(grep -c -e "$regex" "$scratch/run")" -eq 1 ]
}

on_each () {
  list || return
  cat "$scratch/list"
  [ "$(grep -c '^/opencl/[0-9]*:[0-9]*/saxpy/two$' "$scratch/list")" -eq "$n_devices" ] \
    && [ "$(grep -c '^/opencl/[0-9]*:[0-9]*/saxpy/three$' "$scratch/list")" -eq "$n_devices" ] \
    && [ "$(grep -c '^/opencl/[0-9]*/context$' "$scratch/list")" -eq "$n_platforms" ] \
    && [ "$(wc -l <"$scratch/list")" -eq $((2 * n_devices + n_platforms)) ]
}

no_device () {
  lists /opencl/no-device && runs yes "^ok 1 /opencl/no-device # SKIP there is no OpenCL device$"
}

list
grep -o '^/opencl/[0-9:]*/' "$scratch/list" | sort -u >"$scratch/targets"
n_devices=$(grep -c : "$scratch/targets")
n_platforms=$(grep -vc : "$scratch/targets")
if [ "$n_devices" -gt 0 ]; then
  one=$(sed -n 's|/opencl/\([0-9]*:[0-9]*\)/|\1|p' "$scratch/targets" | head -n 1)
  two="/opencl/$one/saxpy/two"
  three="/opencl/$one/saxpy/three"
  context="/opencl/${one%:*}/context"

  check "once for each of $n_devices devices and $n_platforms platforms" on_each
  TARN_TEST=$one
  export TARN_TEST
  check "TARN_TEST=$one" lists "$two" "$three" "$context"
  check "they pass" runs yes "^ok 1 $two"
  for path in "$two" "/opencl/$one/saxpy"; do
    check "-p $path" runs yes "^ok .* $two" -p "$path"
  done
  for path in /opencl/9:9 /opencl/saxpy/two /saxpy "/opencl/${one%:*}/contex" "$two/"; do
    check "-p $path, which is no path, fails and lists those that are" runs no "^  $two\$" -p "$path"
    check "... and names it" runs no "^-p $path: no test of a device has this path\$" -p "$path"
  done
  check "-p ${two#/}, without its slash" runs no "^-p ${two#/}: a path begins with '/'\$" -p "${two#/}"
  check "-p /opencl, a folder of folders" runs no "^-p /opencl: this path has no test, only folders" -p /opencl
  check "-p $two -l lists" runs yes "$two" -p "$two" -l
  check "-p of another kind of test" runs yes '^1\.\.0' -p /other
  TARN_TEST="$one;$one"
  check "a device that is named twice is one test" lists "$two" "$three" "$context"
  TARN_TEST=cuda:0
  check "TARN_TEST=cuda:0 is one test" lists /opencl/no-device
  check "... that says why" runs yes "# SKIP TARN_TEST='cuda:0' chooses no OpenCL device$"
  TARN_TEST=cuda:$(printf '%0200d' 0)
  check "... and only the beginning of a long one" runs yes \
    "# SKIP TARN_TEST='cuda:0\\{55\\}\.\.\.' chooses no OpenCL device$"
  TARN_TEST=nosuch
  check "a wrong TARN_TEST is a test" lists /opencl/selection-error
  check "... that fails and says why" runs no "^# TARN_TEST: no platform matches 'nosuch'; platforms: 0 = '"
  unset TARN_TEST
  PYOPENCL_TEST=$one
  export PYOPENCL_TEST
  check "PYOPENCL_TEST=$one" lists "$two" "$three" "$context"
  unset PYOPENCL_TEST
else
  # Where there is a device, to find none is a failure.
  check "no device: one test, skipped, that says so" no_device
fi
OCL_ICD_VENDORS=/nonexistent
export OCL_ICD_VENDORS
check "no platform: one test, skipped, that says so" no_device
done_testing
