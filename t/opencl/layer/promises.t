#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# What OpenCL promises a program about its buffers: each promise is seen to be kept on the driver
# alone and under the layer, and has to look the same; there also while all calls are counted that can be
# made to fail and TARN_DEBUG looks at all buffers, which finds nothing.  ThreadSanitizer, with which it
# takes minutes, sees the layer alone.
. "$(dirname "$0")/../../lib/tap.sh"

promises=$top_builddir/t/opencl/layer/promises
layer=$top_builddir/lib/opencl/layer/.libs/libtarn-layer.so

if [ ! -x "$promises" ]; then
  skip "promises" "built without OpenCL, or without layers"
  done_testing
  exit
fi

run () { # NAME OUTPUT [VARIABLE=VALUE...]
  name=$1 output=$2
  shift 2
  env "$@" timeout 180 "$promises" --platform "$platform" "$name" >"$scratch/$output" 2>"$scratch/$output.err"
  status=$?
  echo "exit status $status" >>"$scratch/$output"
  return $status
}

# The loader may not know layers, or the program may be one that a sanitizer has to be loaded first in.
served () { # OUTPUT
  sed -n '/^ *made /{n;s/^ *[0-9]* *\([0-9]*\) .*/\1/p;}' "$scratch/$1.err"
}

# What it looks like on the driver alone is in $scratch/alone.
is_kept () { # NAME
  run "$1" layered OPENCL_LAYERS="$layer" TARN_LAYER_STATS=1
  n=$(served layered)
  n_served=$((n_served + ${n:-0}))
  diff "$scratch/alone" "$scratch/layered" || { cat "$scratch/layered.err"; return 1; }
  faults=count,budget=1T
  # NVIDIA's driver makes a buffer of as many bytes as a size can count, which no budget allows.
  ! grep -q '^all bytes, .*CL_SUCCESS' "$scratch/alone" || faults=count
  run "$1" watched OPENCL_LAYERS="$layer" TARN_LAYER_FAULTS=$faults TARN_DEBUG=guards,poison,exit=99
  diff "$scratch/alone" "$scratch/watched" || { cat "$scratch/watched.err"; return 1; }
}

races () { # NAME
  run "$1" layered OPENCL_LAYERS="$layer" TARN_LAYER_STATS=1
  grep -q '^WARNING: ThreadSanitizer' "$scratch/layered.err" && cat "$scratch/layered.err"
}

# Two devices; not the one of PoCL's that runs commands in the thread that flushes them, which cannot
# wait for the program.
POCL_DEVICES="pthread pthread"
export POCL_DEVICES

# What it looks like on a broken driver is no measure.
is_mended () { # NAME
  run "$1" layered OPENCL_LAYERS="$layer" TARN_LAYER_STATS=1 || cat "$scratch/layered" "$scratch/layered.err"
  grep -qx 'exit status 0' "$scratch/layered"
}

# Each platform that has a device.
"$promises" --list >"$scratch/names"
n_platforms=0
for platform in $("$promises" --platforms); do
  n_platforms=$((n_platforms + 1))
  run released-same probe OPENCL_LAYERS="$layer" TARN_LAYER_STATS=1
  if [ -z "$(served probe)" ]; then
    skip "platform $platform" "this OpenCL loader knows no layers"
    continue
  fi
  n_served=0
  while read -r name; do
    [ "$SANITIZER" != thread ] || { check "platform $platform: $name" eval "! races $name"; continue; }
    run "$name" alone
    case $? in
      77) skip "platform $platform: $name" "$(head -n 1 "$scratch/alone")" ;;
      124) skip "platform $platform: $name" "the driver hangs" ;;
      13[0-9]) skip "platform $platform: $name" "the driver dies" ;;
      78) check "platform $platform: $name, which the driver breaks" is_mended "$name" ;;
      *) check "platform $platform: $name" is_kept "$name" ;;
    esac
  done <"$scratch/names"
  [ "$SANITIZER" = thread ] || check "platform $platform: buffers were from a pool" [ "$n_served" -gt 1000 ]
done
[ $n_platforms -gt 0 ] || skip "promises" "there is no OpenCL device"
done_testing
