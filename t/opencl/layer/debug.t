#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# A program's mistakes with its buffers, found by TARN_DEBUG under the layer: with the right size, offset
# and place, and nothing where there is none.
. "$(dirname "$0")/../../lib/tap.sh"

mistakes=$top_builddir/t/opencl/layer/mistakes
promises=$top_builddir/t/opencl/layer/promises
layer=$top_builddir/lib/opencl/layer/.libs/libtarn-layer.so

if [ ! -x "$mistakes" ]; then
  skip "mistakes" "built without OpenCL, or without layers"
  done_testing
  exit
fi
unset OPENCL_LAYERS TARN_DEBUG TARN_LAYER_POOL TARN_LAYER_LIMIT

# Not a device that runs commands in the thread that flushes them, which cannot wait for the program.
POCL_DEVICES=pthread
export POCL_DEVICES

run () { # NAME WORDS
  OPENCL_LAYERS=$layer TARN_DEBUG=$2,exit=9 timeout 60 "$mistakes" "$platform" "$1" >"$scratch/out" 2>&1
  status=$?
  cat "$scratch/out"
  [ $status -ne 124 ] || echo "$1 had not ended after 60 s"
  [ $status -ne 77 ]
}

n_findings () {
  grep -cE 'CRITICAL|blocks? (is|are) in use' "$scratch/out"
}

is_right () { # NAME
  run "$1" guards,poison,leaks
  [ $status -eq 0 ] && [ ! -s "$scratch/out" ]
}

# One message, with what the block is, and who made it.
is_found () { # NAME TEXT
  run "$1" guards,poison
  [ $status -eq 9 ] && [ "$(n_findings)" -eq 1 ] && grep -q -e "$2" "$scratch/out" \
    && grep -A 1 '^  allocated by thread ' "$scratch/out" | grep -q '#0 .*/mistakes+0x'
}

is_named () { # NAME TEXT: and no more was asked for
  run "$1" leaks
  [ $status -eq 9 ] && [ "$(n_findings)" -eq 1 ] && grep -q -e "$2" "$scratch/out"
}

has_stacks () { # NAME FRAMES: the program's, not the library's
  run "$1" "leaks,stacks=$2"
  [ "$(grep -c '^ *#[0-9]* 0x' "$scratch/out")" -eq "$2" ] && { [ "$2" -eq 0 ] || grep -q '#0 .*/mistakes+0x' "$scratch/out"; }
}

names_who_freed () {
  grep -A 1 '^  freed by thread ' "$scratch/out" | grep -q '#0 .*/mistakes+0x'
}

dies_alone () { # NAME STATUS
  timeout 60 "$mistakes" "$platform" "$1" >"$scratch/out" 2>&1
  status=$?
  cat "$scratch/out"
  [ $status -eq "$2" ]
}

# The program dies as it does alone, and one message says what was written.
dies () { # NAME STATUS TEXT
  dies_alone "$1" "$2" && dies_with_layer "$@"
}

# The same for a program that, alone, may destroy the driver's own memory, and die of that.
dies_with_layer () { # NAME STATUS TEXT
  run "$1" guards
  [ $status -eq "$2" ] && [ "$(n_findings)" -eq 1 ] && grep -q -e "$3" "$scratch/out"
}

dies_silently () { # NAME STATUS
  dies_alone "$1" "$2" || return 1
  run "$1" guards
  [ $status -eq "$2" ] && [ "$(n_findings)" -eq 0 ]
}

block='block at 0x[0-9a-f]* of 1000 bytes'

n_platforms=0
for platform in $("$promises" --platforms); do
  n_platforms=$((n_platforms + 1))
  on="platform $platform"
  OPENCL_LAYERS=$layer TARN_LAYER_STATS=1 "$mistakes" "$platform" right 2>"$scratch/stats"
  if ! grep -q 'from a pool' "$scratch/stats"; then
    skip "$on" "this OpenCL loader knows no layers"
    continue
  fi
  check "$on: nothing is said of a right program" is_right right
  check "$on: a byte behind" is_found behind "pool 'buffers' over .*: $block: written behind its end, at offset 1000: 0x07, and up to offset 1000\$"
  check "$on: a byte before" is_found before "$block: written before its beginning, at offset -1, and from offset -1 on: 0x07\$"
  check "$on: CL_MEM_ALLOC_HOST_PTR" is_found of-host "pool 'host buffers' over .*: $block: written behind its end, at offset 1000"
  check "$on: CL_MEM_COPY_HOST_PTR" is_found copied "$block: written behind its end, at offset 1002"
  check "$on: the last part of a buffer" is_found part "of [0-9]* bytes: written behind its end, at offset [0-9]*: 0x07"
  check "$on: a buffer that is there when the program ends" is_found kept "$block: written behind its end, at offset 1000"
  check "$on: ... as another queue's" is_found other-queue "$block: written behind its end, at offset 1000"
  check "$on: one whose command waits for the program" is_found gated "$block: written behind its end, at offset 1000"
  check "$on: one that is released in a callback" is_found called-back "$block: written behind its end, at offset 1000"
  run out-of-order guards >/dev/null
  if [ $status -eq 77 ]; then
    skip "$on: a queue out of order" "the device has none"
  else
    check "$on: a queue out of order" is_found out-of-order "$block: written behind its end, at offset 1000"
  fi
  check "$on: nothing is said of images" is_right right-images
  check "$on: contexts that end while another thread looks at their blocks" is_right ending-contexts
  used="$block: used after it was freed\$"
  check "$on: read by a command after its release" is_found read-after-release "$used"
  check "$on: ... with who released it" names_who_freed
  check "$on: an argument of a kernel that is launched after its release" is_named launched-after-release "$used"
  check "$on: made an argument of a kernel after its release" is_named set-after-release "$used"
  check "$on: released twice" is_named released-twice "$used"
  check "$on: images that nobody releases" is_named unreleased-images "pool 'images' over .*: 3 blocks are in use when the program ends, 1800 bytes\$"
  check "$on: a byte behind, at clFinish" dies behind-and-finish 137 "$block: written behind its end, at offset 1000"
  check "$on: buffers that nobody releases" is_named unreleased ": 2 blocks are in use when the program ends, 3000 bytes\$"
  check "$on: ... of a context that nobody releases" is_named kept ": 1 block is in use when the program ends, 1000 bytes\$"
  for depth in 0 1 3; do
    check "$on: ... with $depth frames of the stack" has_stacks kept $depth
  done
  # Elsewhere it is a copy, in memory that may be gone.
  if "$mistakes" "$platform" name | grep -qx 'Portable Computing Language'; then
    if [ "$SANITIZER" = no ]; then
      check "$on: what is released by many threads does not add up" is_right many
    else
      skip "$on: what is released by many threads" "the sanitizer has memory of its own"
    fi
    if [ "$SANITIZER" = no ]; then
      check "$on: ... before abort ()" dies behind-and-abort 134 "pool 'buffers' over .*: block of 1000 bytes: written behind its end, at offset 1002: 0x07, and up to offset 1002; found when signal 6 came\$"
      check "$on: ... before a signal that the program sends itself" dies behind-and-raise 132 "written behind its end, at offset 1000"
      check "$on: ... before a fault that nobody handles" dies behind-and-fault 139 "written behind its end, at offset 1000"
      check "$on: ... before a fault" dies_with_layer before-and-fault 139 "pool 'host buffers' over .*: block of 1000 bytes: written before its beginning, at offset -1, and from offset -1 on: 0x07; found when signal 11 came\$"
      check "$on: a fault of a program that wrote where it may" dies_silently right-and-fault 139
      check "$on: ... before a handler of the program's own" dies behind-and-handled 55 "written behind its end, at offset 1002"
    else
      skip "$on: ... before a signal" "the sanitizer has handlers of its own"
    fi
    check "$on: a byte behind, by the host" is_found mapped "$block: written behind its end, at offset 1001"
    check "$on: ... as it is unmapped" dies mapped-and-killed 137 "$block: written behind its end, at offset 1001"
    check "$on: after its release, by the host" is_found after-release "$block: written after it was freed, at offset 3: 0x07, and up to offset 3\$"
    check "$on: ... with who released it" names_who_freed
  else
    skip "$on: by the host" "what is mapped may be a copy"
  fi
done
[ $n_platforms -gt 0 ] || skip "mistakes" "there is no OpenCL device"
done_testing
