#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# tarn-run's --budget, --fail, --fail-all and --device-loss: what they set for a program, and what
# becomes of one, on a pool and without one.
. "$(dirname "$0")/../lib/tap.sh"

top=$(cd "$top_builddir" && pwd -P)
runner=$top/tools/tarn-run
program=$top/t/tools/take-faults
if [ ! -x "$runner" ]; then
  skip "faults" "tarn-run is not built"
  done_testing
  exit
fi
unset OPENCL_LAYERS TARN_LAYER_LIMIT TARN_LAYER_POOL TARN_LAYER_STATS TARN_LAYER_REPORT TARN_LAYER_FAULTS
unset TARN_FAULTS TARN_FAULTS_REPORT
mkdir "$scratch/tmp"
TMPDIR=$scratch/tmp
export TMPDIR

# ---- what is set ----

sets () { # LAYER TARN ARGUMENT...: the two variables
  wanted="$1|$2"
  shift 2
  # shellcheck disable=SC2016
  status_is 0 "$runner" "$@" sh -c 'echo "${TARN_LAYER_FAULTS-unset}|${TARN_FAULTS-unset}"' \
    && echo "$wanted" | diff - "$scratch/out"
}
check "no option sets nothing" sets unset unset
check "--budget is for both" sets budget=256M budget=256M --budget 256M
check "--fail" sets clCreateBuffer=3 unset --fail clCreateBuffer:3
check "... again and again" sets clFinish=1-2,clFlush=4+ unset --fail clFinish:1-2 --fail clFlush:4+
check "... of Tarn's own requests" sets unset nth=3 --fail tarn:3
check "... both" sets clFinish=1 nth=2,nth=4+ --fail tarn:2 --fail clFinish:1 --fail tarn:4+
check "--fail-all" sets clFinish=2+,clFlush=1+ nth=3+ --fail-all --fail clFinish:2 --fail clFlush:1-3 \
  --fail tarn:3
check "--device-loss" sets loss=100 unset --device-loss=100
check "all of them" sets clFinish=1,budget=1G,loss=2 nth=1,budget=1G \
  --device-loss 2 --budget 1G --fail tarn:1 --fail clFinish:1
keeps_settings () {
  TARN_FAULTS=nth=1 TARN_LAYER_FAULTS=loss=2 sets loss=2 nth=1
}
check "what is set already stays without options" keeps_settings

refuses () { # MESSAGE ARGUMENT...
  message=$1
  shift
  rm -f "$scratch/ran"
  status_is 2 "$runner" "$@" touch "$scratch/ran" && [ ! -e "$scratch/ran" ] \
    && echo "tarn-run: $message" | diff - "$scratch/err"
}
for size in "" 0 x 80% 3x; do
  check "--budget '$size'" refuses "--budget: '$size' is not bytes, such as 256M" "--budget=$size"
done
for call in "" clFinish clFinish: clFinish:0 clFinish:3-2 clFinish:x :3; do
  check "--fail '$call'" refuses \
    "--fail: '$call' is not CALL:N, such as clCreateBuffer:3, :3-5 or :3+" "--fail=$call"
done
check "--fail with another name" refuses \
  "--fail: 'clReleaseContext' is none of the calls that can fail: see tarn-run(1)" \
  --fail clReleaseContext:1
check "--fail-all alone" refuses "--fail-all is for --fail, or --every" --fail-all
for number in "" 0 -1 x; do
  check "--device-loss '$number'" refuses "--device-loss: '$number' is not a number from 1 on" \
    "--device-loss=$number"
done

# ---- programs ----

if ! status_is 0 "$runner" "$program" good >/dev/null || [ -s "$scratch/err" ]; then
  skip "programs" "there is no OpenCL device, or its loader knows no layers"
  done_testing
  exit
fi
ends () { # STATUS MESSAGE ARGUMENT...: of the program, as it takes faults well
  wanted=$1 message=$2
  shift 2
  status_is "$wanted" "$runner" "$@" "$program" good \
    && if [ -n "$message" ]; then echo "$message" | diff - "$scratch/err"; else [ ! -s "$scratch/err" ]; fi
}
for pool in "" --no-pool; do
  # shellcheck disable=SC2086  # or none
  ends_there () {
    status=$1 said=$2
    shift 2
    ends "$status" "$said" $pool "$@"
  }
  on=${pool:-on a pool}
  check "$on: a call that fails" ends_there 1 "buffer: -4" --fail clCreateBuffer:2
  check "$on: one that never comes" ends_there 0 "" --fail clCreateBuffer:3
  check "$on: another status" ends_there 1 "finish: -5" --fail clFinish:1
  check "$on: a map" ends_there 1 "map: -12" --fail clEnqueueMapBuffer:1
  check "$on: a budget that is enough" ends_there 0 "" --budget 8K
  check "$on: one that is not" ends_there 1 "buffer: -4" --budget 8191
  check "$on: a device that is lost" ends_there 1 "commands: -5" --device-loss 5
  recovers () {
    # shellcheck disable=SC2086
    status_is 0 "$runner" $pool "$@" "$program" recover && echo 2 | diff - "$scratch/out"
  }
  check "$on: the program's second try passes" recovers --fail clCreateBuffer:1
  stays () {
    # shellcheck disable=SC2086
    status_is 1 "$runner" $pool "$@" "$program" recover
  }
  check "$on: with --fail-all it fails, too" stays --fail clCreateBuffer:1 --fail-all
  check "$on: ... and with N-M" stays --fail clCreateBuffer:1-2
done

# Memory is the program's by its references: parts keep the whole, and a release gives it back.
cat >"$scratch/budget.c" <<'CODE'
#include <CL/cl.h>
#include <stdio.h>

#define SIZE (1 << 20)

static cl_context context;

static cl_mem
make (void)
{
  return clCreateBuffer (context, CL_MEM_READ_WRITE, SIZE, NULL, NULL);
}

int
main (void)
{
  const cl_buffer_region region = { 0, SIZE / 2 };
  cl_platform_id platform;
  cl_device_id device;
  cl_mem one, two, part;

  if (clGetPlatformIDs (1, &platform, NULL) != CL_SUCCESS
      || clGetDeviceIDs (platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS)
    return 2;
  context = clCreateContext (NULL, 1, &device, NULL, NULL, NULL);
  one = make ();
  two = make ();
  printf ("%d", make () != NULL); /* there are two */
  clRetainMemObject (one);
  clReleaseMemObject (one);
  printf ("%d", make () != NULL); /* there are two */
  part = clCreateSubBuffer (one, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, NULL);
  printf ("%d", part != NULL); /* which is no memory of its own */
  clReleaseMemObject (one);
  printf ("%d", make () != NULL); /* the part keeps it */
  clReleaseMemObject (part);
  one = make ();
  printf ("%d", one != NULL);
  clReleaseMemObject (one);
  clReleaseMemObject (two);
  one = make ();
  two = make ();
  printf ("%d\n", one != NULL && two != NULL);
  return 0;
}
CODE
counts_references () { # ARGUMENT...
  status_is 0 "$runner" --budget 2M "$@" "$scratch/budget" && echo 001011 | diff - "$scratch/out"
}
# shellcheck disable=SC2086  # flags are words
if $CC $T_CC_FLAGS $T_OPENCL_CFLAGS -DCL_TARGET_OPENCL_VERSION=120 "$scratch/budget.c" -lOpenCL \
  -o "$scratch/budget" >/dev/null 2>&1; then
  check "a budget is of what the program has references to" counts_references
  check "... without a pool, too" counts_references --no-pool
else
  skip "a budget is of what the program has references to" "there is no -lOpenCL"
fi

done_testing
