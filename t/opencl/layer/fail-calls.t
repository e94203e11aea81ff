#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# TARN_LAYER_FAULTS: what each call answers that is made to fail, or whose device is lost; what is
# reported; memory that is released; and values that are none.
. "$(dirname "$0")/../../lib/tap.sh"

program=$top_builddir/t/opencl/layer/fail-calls
layer=$top_builddir/lib/opencl/layer/.libs/libtarn-layer.so
: >"$scratch/report"

if [ ! -x "$program" ]; then
  skip "calls that fail" "built without OpenCL, or without layers"
  done_testing
  exit
fi

run () { # FAULTS: what is printed is in $scratch/out
  : >"$scratch/report"
  status_is 0 env OPENCL_LAYERS="$layer" TARN_LAYER_FAULTS="$1" TARN_LAYER_REPORT="$scratch/report" \
    "$program"
}
run clFinish=1 >/dev/null
if ! grep -q loaded "$scratch/report"; then
  skip "calls that fail" "this OpenCL loader knows no layers, or there is no OpenCL device"
  done_testing
  exit
fi

# ---- statuses, as drivers give them that have run out ----

on_host='clCreateContext clCreateContextFromType clCreateCommandQueue
  clCreateCommandQueueWithProperties clCreateSampler clCreateSamplerWithProperties
  clCreateProgramWithSource clCreateProgramWithBinary clCreateProgramWithBuiltInKernels
  clCreateProgramWithIL clLinkProgram clBuildProgram clCompileProgram clCreateKernel clCloneKernel
  clCreateUserEvent clSetEventCallback clSetMemObjectDestructorCallback clCreateKernelsInProgram'
of_memory='clCreateBuffer clCreateBufferWithProperties clCreateImage clCreateImageWithProperties
  clCreateImage2D clCreateImage3D clCreatePipe clCreateSubBuffer'
with_memory='clEnqueueReadBuffer clEnqueueReadBufferRect clEnqueueWriteBuffer clEnqueueWriteBufferRect
  clEnqueueFillBuffer clEnqueueCopyBuffer clEnqueueCopyBufferRect clEnqueueReadImage
  clEnqueueWriteImage clEnqueueFillImage clEnqueueCopyImage clEnqueueCopyImageToBuffer
  clEnqueueCopyBufferToImage clEnqueueMigrateMemObjects'
maps='clEnqueueMapBuffer clEnqueueMapImage'
commands='clFlush clFinish clEnqueueUnmapMemObject clEnqueueNDRangeKernel clEnqueueTask
  clEnqueueNativeKernel clEnqueueMarker clEnqueueMarkerWithWaitList clEnqueueBarrierWithWaitList
  clEnqueueSVMMemcpy clEnqueueSVMMemFill clEnqueueSVMMap clEnqueueSVMUnmap clEnqueueSVMMigrateMem
  clEnqueueBarrier clEnqueueWaitForEvents clEnqueueSVMFree'
arguments='clSetKernelArg clSetKernelArgSVMPointer clSetKernelExecInfo'

expect () { # STATUS NAME...
  wanted=$1
  shift
  for name; do echo "$name $wanted"; done
}
list_failing () {
  # shellcheck disable=SC2086  # names
  {
    expect -6 $on_host
    expect -4 $of_memory $with_memory
    expect -12 $maps
    expect -5 $commands $arguments clWaitForEvents
    expect 1 clSVMAlloc # which has no status
  } | sort
}
each_fails () {
  list_failing >"$scratch/expected"
  run "$(sed 's/ .*/=1+/' "$scratch/expected" | paste -s -d ,)" || return
  sort "$scratch/out" | diff "$scratch/expected" -
}
check "each call fails as it would with a driver" each_fails

each_is_reported () { # after it
  sed -n 's/^failed [0-9]* \(.*\) 1$/\1/p' "$scratch/report" | sort >"$scratch/failed"
  sed -n 's/^calls [0-9]* \(.*\) 1$/\1/p' "$scratch/report" | sort >"$scratch/called"
  sed 's/ .*//' "$scratch/expected" | diff - "$scratch/failed" && diff "$scratch/failed" "$scratch/called" \
    && ! grep '^left' "$scratch/report"
}
check "... and is reported, with how many calls there were" each_is_reported
all_are_tried () {
  sed -n 's/.*F (\(cl[A-Za-z0-9]*\),.*/\1/p' "$top_srcdir/lib/common/fault-calls-private.h" | sort \
    | diff "$scratch/called" -
}
check "... all that are in the layer's table" all_are_tried

# ---- the device is lost ----

list_lost () { # those that go to it, after the first
  # shellcheck disable=SC2086
  {
    expect -5 clCreateContextFromType clCreateCommandQueue clCreateCommandQueueWithProperties $of_memory \
      | grep -v clCreateSubBuffer
    expect -36 $with_memory $maps $commands
    expect -14 clWaitForEvents
    expect 1 clSVMAlloc
  } | sort
}
loses_all () {
  run loss=1 || return
  head -n 1 "$scratch/out" | grep -qx 'clCreateContext -5' || return
  list_lost >"$scratch/expected"
  sort "$scratch/out" | grep -F -x -f "$scratch/expected" | diff "$scratch/expected" - || return
  # The others have no business there.
  sed -n 's/^failed [0-9]* \([A-Za-z0-9]*\) .*/\1/p' "$scratch/report" | sort >"$scratch/failed"
  { echo clCreateContext; sed 's/ .*//' "$scratch/expected"; } | sort | diff - "$scratch/failed"
}
check "a lost device: out of resources, then queues that are invalid" loses_all
loses_later () { # the 13th call that goes there: clFlush
  run loss=13 || return
  grep -qx 'clFlush -5' "$scratch/out" && grep -qx 'clFinish -36' "$scratch/out" \
    && ! grep -q 'clWaitForEvents -14' "$scratch/out"
}
check "... from the Nth call on" loses_later

# ---- memory that is released ----

below=$top_builddir/t/opencl/layer/.libs/below.so
releases () { # WAY FAULTS SVM BUFFER PART: on a driver that frees in this way
  : >"$scratch/report"
  status_is 0 env BELOW_SVM="$1" OPENCL_LAYERS="$below:$layer" TARN_LAYER_POOL=0 TARN_LAYER_FAULTS="$2" \
    TARN_LAYER_REPORT="$scratch/report" timeout 60 "$top_builddir/t/opencl/layer/free-memory" \
    && printf '%s\n' "$3" "$4" "$5" | diff - "$scratch/out" && ! grep '^left' "$scratch/report"
}
check "another thread gets freed memory at once" releases early budget=4K '0 0 1' '0 1 1' '0 1 1'
check "... without a budget" releases early count '0 1 1' '0 1 1' '0 1 1'
check "a release that fails in the driver" releases fails budget=4K '-5 0 1' '-5 0 1' '-5 0 1'
check "... without a budget" releases fails count '-5 1 1' '-5 1 1' '-5 1 1'

# A program may free memory of the host after that.
waits () { # CALL ARGUMENT STATE
  status_is 0 env OPENCL_LAYERS="$layer" TARN_LAYER_FAULTS="$1=1" timeout 120 \
    "$top_builddir/t/opencl/layer/free-memory" "$2" && echo "-5, $3" | diff - "$scratch/out"
}
check "clFinish that fails waits, too" waits clFinish finish done
check "... clWaitForEvents" waits clWaitForEvents wait done
check "... not for ever if a user event is not set" waits clFinish unset "not done"

# ---- which calls ----

fails_second () { # of one call: not
  run clFinish=2 && grep -qx 'clFinish -36' "$scratch/out" && ! grep '^failed' "$scratch/report"
}
check "a second call that does not come" fails_second
refuses () { # WORD
  run "clFinish=1,$1" && grep -qx 'clFinish -36' "$scratch/out" \
    && printf "libtarn-layer: TARN_LAYER_FAULTS: '%s' is none of CALL=3, CALL=3-5, CALL=3+, \
budget=256M, loss=100 and count: nothing is made to fail\n" "$1" | diff - "$scratch/err" \
    && ! grep '^calls' "$scratch/report"
}
for word in clFinish clFinish= clFinish=0 clFinish=x clFinish=3-2 clNothing=1 clReleaseContext=1 budget= \
  budget=0 budget=80% loss=0 loss=x counts "" " count"; do
  check "'$word' is wrong" refuses "$word"
done
does_nothing () {
  run "" && ! grep -q '^calls' "$scratch/report" && [ ! -s "$scratch/err" ]
}
check "an empty value is none" does_nothing

done_testing
