#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# What is tested on each device, once for each that TARN_TEST or PYOPENCL_TEST chooses, else on all:
# each run in a process of its own, so that a driver that crashes ends one.
. "$(dirname "$0")/../lib/tap.sh"

if [ "$have_opencl_library" != yes ]; then
  skip "tests on each device" "there is no OpenCL to link tests with"
  done_testing
  exit
fi
# Automake's driver sees no subtests.
cd "$top_builddir" || exit
# shellcheck disable=SC2086  # programs are words
tools/tarn-test --flat --jobs 16 --timeout 600 $device_tests
