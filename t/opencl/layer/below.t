#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# Tarn's layer over one that stands for other drivers (below.c): if the driver has no memory, a failed
# command's event is released once; if it has none just when the layer asks whether images of
# sub-buffers are right, the program gets right images; no sub-buffer is released while a later one
# has a part of its memory; and if it fails to wait for a write of the layer's, the layer waits
# again, because the write still reads the host's memory; and if it refuses a part of a copy, the
# layer looks for no event of the copy; and if the program asks for an unknown function of an
# extension by the call that names no platform, its buffers are the driver's; and if a platform is
# older than its devices say, so are all buffers, and the layer calls no newer function.
. "$(dirname "$0")/../../lib/tap.sh"

program=$top_builddir/t/opencl/layer/promises
layer=$top_builddir/lib/opencl/layer/.libs/libtarn-layer.so
below=$top_builddir/t/opencl/layer/.libs/below.so

if [ ! -x "$program" ] || [ ! -e "$below" ]; then
  skip "other drivers" "built without OpenCL, or without layers"
  done_testing
  exit
fi

POCL_DEVICES=pthread
export POCL_DEVICES
n_platforms=0
for platform in $("$program" --platforms); do
  n_platforms=$((n_platforms + 1))
  # The loader puts the layer that is named last before the others.
  BELOW_FAILS=1 OPENCL_LAYERS=$below:$layer timeout 180 "$program" --platform "$platform" released-same \
    >"$scratch/out" 2>"$scratch/err"
  if ! grep -q "failed [1-9]" "$scratch/err"; then
    skip "platform $platform" "this OpenCL loader knows no layers, or the driver is asked nothing"
    continue
  fi
  check "platform $platform: events" grep -q "misused 0 " "$scratch/err"
  OPENCL_LAYERS=$below:$layer timeout 180 "$program" --platform "$platform" crowded \
    >"$scratch/out" 2>"$scratch/err"
  TARN_DEBUG=guards TARN_LAYER_STATS=1 BELOW_WAITS=1 OPENCL_LAYERS=$below:$layer timeout 180 "$program" \
    --platform "$platform" references-used >"$scratch/out" 2>"$scratch/waits"
  check "platform $platform: waits" grep -q "gated 1 unfinished 0 " "$scratch/waits"
  check "... the pool has the buffer" grep -qE "^ +([1-9][0-9]*) +\1 +0 " "$scratch/waits"
  BELOW_BOXES=1 OPENCL_LAYERS=$below:$layer timeout 180 "$program" --platform "$platform" rect-refused \
    >"$scratch/out" 2>"$scratch/boxes"
  status=$?
  # Only on PoCL does the layer copy more than one box.
  if [ $status -eq 77 ] || grep -q "boxes [01] " "$scratch/boxes"; then
    skip "platform $platform: a copy that is refused in part" "the layer copies it at once"
  else
    check "platform $platform: a copy that is refused in part" \
      grep -q '^CL_OUT_OF_RESOURCES$' "$scratch/out"
  fi
  BELOW_KNOWS=1 TARN_LAYER_STATS=1 OPENCL_LAYERS=$below:$layer timeout 180 "$program" \
    --platform "$platform" old-functions >"$scratch/out" 2>"$scratch/knows"
  check "platform $platform: a function of an extension, without a platform" \
    grep -qE "^ +([1-9][0-9]*) +0 +\1 " "$scratch/knows"
  BELOW_IS_OLD=1 TARN_LAYER_STATS=1 OPENCL_LAYERS=$below:$layer timeout 180 "$program" \
    --platform "$platform" old-functions >"$scratch/out" 2>"$scratch/old"
  check "platform $platform: older than its devices say" \
    grep -qE "^ +([1-9][0-9]*) +0 +\1 " "$scratch/old"
  check "... the program works" grep -q "^0 wrong$" "$scratch/out"
  check "platform $platform: sub-buffers" grep -q "^made [1-9][0-9]* cut 0 " "$scratch/err"
done
# The layer asks with a buffer of two of the device's alignments, which are 128 bytes on PoCL.
for refused in 0 256; do
  BELOW_REFUSES=$refused OPENCL_LAYERS=$below:$layer timeout 180 "$program" --platform 0 images-asked-about \
    >"$scratch/$refused" 2>"$scratch/err"
done
if grep -q "refused 1$" "$scratch/err"; then
  check "no memory for the question about images" diff "$scratch/0" "$scratch/256"
else
  skip "no memory for the question about images" "the layer asks with another size, or not at all"
fi
[ $n_platforms -gt 0 ] || skip "other drivers" "there is no OpenCL device"
done_testing
