#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# What OpenCL promises a program about its buffers: each promise is seen to be kept on the driver
# alone and under the layer, and has to look the same; there also while all calls are counted that can be
# made to fail and TARN_DEBUG looks at all buffers, which finds nothing.  ThreadSanitizer, with which it
# takes minutes, sees the layer alone.  As many promises as there are processors, and at most 8, are
# tried at a time.
. "$(dirname "$0")/../../lib/tap.sh"

promises=$top_builddir/t/opencl/layer/promises
layer=$top_builddir/lib/opencl/layer/.libs/libtarn-layer.so

if [ ! -x "$promises" ]; then
  skip "promises" "built without OpenCL, or without layers"
  done_testing
  exit
fi

# Runs a promise as a process of its own; each promise has a folder, $dir.
run () { # NAME OUTPUT [VARIABLE=VALUE...]
  name=$1 output=$2
  shift 2
  # With one thread, PoCL runs no command while a function of the program is called back.
  case $name in
    full-in-callbacks) set -- POCL_MAX_PTHREAD_COUNT=1 TARN_LAYER_LIMIT=48M "$@" ;;
    maps-in-callbacks) set -- POCL_MAX_PTHREAD_COUNT=1 "$@" ;;
  esac
  env "$@" timeout 180 "$promises" --platform "$platform" "$name" >"$dir/$output" 2>"$dir/$output.err"
  status=$?
  echo "exit status $status" >>"$dir/$output"
  return $status
}

# The loader may not know layers, or the program may be one that a sanitizer has to be loaded first in.
served () { # OUTPUT
  sed -n '/^ *made /{n;s/^ *[0-9]* *\([0-9]*\) .*/\1/p;}' "$dir/$1.err"
}

# What it looks like on the driver alone is in $dir/alone.
is_kept () { # NAME
  run "$1" layered OPENCL_LAYERS="$layer" TARN_LAYER_STATS=1
  served layered >"$dir/served"
  diff "$dir/alone" "$dir/layered" || { cat "$dir/layered.err"; return 1; }
  faults=count,budget=1T
  # NVIDIA's driver makes a buffer of as many bytes as a size can count, which no budget allows.
  ! grep -q '^all bytes, .*CL_SUCCESS' "$dir/alone" || faults=count
  run "$1" watched OPENCL_LAYERS="$layer" TARN_LAYER_FAULTS=$faults TARN_DEBUG=guards,poison,exit=99
  diff "$dir/alone" "$dir/watched" || { cat "$dir/watched.err"; return 1; }
}

has_no_race () { # NAME
  run "$1" layered OPENCL_LAYERS="$layer" TARN_LAYER_STATS=1
  ! grep -q '^WARNING: ThreadSanitizer' "$dir/layered.err" || { cat "$dir/layered.err"; return 1; }
}

# What it looks like on a broken driver is no measure.
is_mended () { # NAME
  run "$1" layered OPENCL_LAYERS="$layer" TARN_LAYER_STATS=1 || cat "$dir/layered" "$dir/layered.err"
  grep -qx 'exit status 0' "$dir/layered"
}

# Tries one promise.  What is said about it is in $dir/skipped or $dir/comment, $dir/seen and
# $dir/failed.
try () { # NAME
  comment=
  keep=is_kept
  if [ "$SANITIZER" = thread ]; then
    keep=has_no_race
  else
    run "$1" alone
    case $? in
      77) head -n 1 "$dir/alone" >"$dir/skipped" ;;
      124) echo "the driver hangs" >"$dir/skipped" ;;
      13[0-9]) echo "the driver dies" >"$dir/skipped" ;;
      78) comment=", which the driver breaks" keep=is_mended ;;
    esac
  fi
  [ ! -e "$dir/skipped" ] || return
  echo "$comment" >"$dir/comment"
  $keep "$1" >"$dir/seen" 2>&1 || touch "$dir/failed"
}

# Tries each promise that no other worker has begun.
work () {
  number=0
  while read -r name; do
    number=$((number + 1))
    dir=$folder/$number
    ! mkdir "$dir" 2>/dev/null || try "$name"
  done <"$scratch/names"
}

show_seen () {
  cat "$dir/seen" && [ ! -e "$dir/failed" ]
}

# A process takes seconds on a GPU, most of which the driver takes to begin and to end.
n_workers=$(nproc 2>/dev/null || echo 1)
[ "$n_workers" -le 8 ] || n_workers=8

try_all () {
  worker=0
  while [ $worker -lt "$n_workers" ]; do
    work &
    worker=$((worker + 1))
  done
  wait
}

# Reports the promises in their order.
report () {
  number=0 n_served=0
  while read -r name; do
    number=$((number + 1))
    dir=$folder/$number
    if [ -e "$dir/skipped" ]; then
      skip "platform $platform: $name" "$(cat "$dir/skipped")"
    else
      check "platform $platform: $name$(cat "$dir/comment")" show_seen
    fi
    n=$(cat "$dir/served" 2>/dev/null)
    n_served=$((n_served + ${n:-0}))
  done <"$scratch/names"
}

# Two devices; not the one of PoCL's that runs commands in the thread that flushes them, which cannot
# wait for the program.
POCL_DEVICES="pthread pthread"
export POCL_DEVICES

# Each platform that has a device.  PROMISES names the promises to try; all, if it is not set.
if [ -n "$PROMISES" ]; then
  printf '%s\n' "$PROMISES" | tr ' ' '\n' >"$scratch/names"
else
  "$promises" --list >"$scratch/names"
fi
n_platforms=0
for platform in $("$promises" --platforms); do
  n_platforms=$((n_platforms + 1))
  folder=$scratch/$platform
  dir=$folder
  mkdir "$folder"
  run released-same probe OPENCL_LAYERS="$layer" TARN_LAYER_STATS=1
  if [ -z "$(served probe)" ]; then
    skip "platform $platform" "this OpenCL loader knows no layers"
    continue
  fi
  try_all
  report
  [ "$SANITIZER" = thread ] || check "platform $platform: buffers were from a pool" [ "$n_served" -gt 1000 ]
done
[ $n_platforms -gt 0 ] || skip "promises" "there is no OpenCL device"
done_testing
