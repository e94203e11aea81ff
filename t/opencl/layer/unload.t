#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# A program may unload its OpenCL loader while commands still run, open it again, or have two of them.
. "$(dirname "$0")/../../lib/tap.sh"

program=$top_builddir/t/opencl/layer/unload
layer=$top_builddir/lib/opencl/layer/.libs/libtarn-layer.so
loader=libOpenCL.so.1

if [ ! -x "$program" ]; then
  skip "a loader that is unloaded" "built without OpenCL, or without layers"
  done_testing
  exit
fi
"$program" "$loader" >/dev/null 2>"$scratch/err"
case $? in
  0) ;;
  77)
    skip "a loader that is unloaded" "there is no OpenCL device"
    done_testing
    exit
    ;;
  *)
    skip "a loader that is unloaded" "the driver does not survive it: $(head -n 1 "$scratch/err")"
    done_testing
    exit
    ;;
esac

ends_well () { # LOADER...
  status_is 0 env OPENCL_LAYERS="$layer" TARN_LAYER_STATS=1 "$program" "$@"
}
made () { # what --stats counts, for each time that it is printed
  sed -n '/^ *made /{n;s/^ *\([0-9]*\) .*/\1/p;}' "$scratch/err" | tr '\n' ' '
}

ends_well "$loader" >/dev/null
if [ -z "$(made)" ] && grep -q 'still there' "$scratch/out"; then
  skip "a loader that is unloaded" "this OpenCL loader knows no layers"
  done_testing
  exit
fi
check "the loader is unloaded while commands run" ends_well "$loader"
check "... each buffer is counted" [ "$(made)" = "8 " ]
check "the loader is unloaded, and opened again" ends_well "$loader" "$loader"
check "... the buffers of both are counted, once" [ "$(made)" = "16 " ]

file=$("$program" --where "$loader")
if [ -n "$file" ] && cp -L "$file" "$scratch/other.so"; then
  check "a process has two loaders" ends_well "$loader" "$scratch/other.so"
  check "... the buffers of both are counted, once" [ "$(made)" = "16 " ]
else
  skip "a process has two loaders" "the loader's file was not found"
fi
done_testing
