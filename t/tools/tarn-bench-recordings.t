#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# tarn-bench on recordings: the same counters as the program had, whatever its pools are; tables of
# alternatives, as text, JSON and CSV; what it refuses.
. "$(dirname "$0")/../lib/tap.sh"

program=$top_builddir/tools/tarn-bench
record=$top_builddir/t/tools/record-program
if [ ! -x "$program" ]; then
  skip "recordings" "built without json-glib"
  done_testing
  exit
fi
if ! command -v jq >/dev/null; then
  skip "recordings" "there is no jq"
  done_testing
  exit
fi
HOME=$scratch # it may choose a device
export HOME
unset TARN_TEST PYOPENCL_TEST NO_COLOR CUDA_DEVICE TARN_TRACE

# On null, with nothing on standard error; what it prints is in $scratch/out.
replays () { # NAME ARGUMENT...
  name=$1
  shift
  status_is 0 "$program" --kinds null --repetitions 1 --trace "$scratch/$name" "$@" \
    && [ ! -s "$scratch/err" ]
}

# One line on standard error that says so, nothing on standard output.
fails () { # MESSAGE ARGUMENT...
  message=$1
  shift
  status_is 2 "$program" --kinds null --repetitions 1 "$@" && [ ! -s "$scratch/out" ] \
    && [ "$(wc -l <"$scratch/err")" -eq 1 ] && grep -qF -e "$message" "$scratch/err"
}

# ---- the same counters ----

# A pool has 7 that are compared, and 6 more if it is there in the end; a heap 4 and 5.
is_same () { # NAME COUNTERS FILTER
  replays "$1" --json && jq -e --argjson counters "$2" ".what_if[0] | .differences == []
    and .compared == \$counters and (.alternatives | length) == 1
    and (.alternatives[0] | .alternative == \"as recorded\" and ($3))" "$scratch/out"
}

for kind in bins virtual parts addresses shared time late one queues threads; do
  check "a program of $kind is recorded" "$record" "$kind" "$scratch/$kind"
done
check "bins, a limit, memory that runs out" is_same bins 13 '.failures > 0'
check "a heap of virtual memory that runs out" is_same virtual 29 '.failures > 0'
check "a heap of parts that have to be given back" is_same parts 29 '.failures > 0'
check "a heap of parts that are addresses" is_same addresses 29 '.failures > 0'
check "two allocators of one device, whose memory runs out" is_same shared 26 '.failures > 0'
check "a heap that gives back what is idle for long" is_same time 22 '.failures == 0'
has_given_back () {
  "$top_builddir/tools/tarn-trace" --print --kind freed "$scratch/time" >"$scratch/out" \
    && grep -q "#1 .* freed" "$scratch/out"
}
check "... as it did" has_given_back
check "queues that are done at any time" is_same queues 13 '.failures == 0 and .hit_share < 1'
check "... as text" replays queues
check "... it says so" grep -qx "same as recorded: 13 counters" "$scratch/out"

has_nothing_to_compare () {
  status_is 0 "$program" --kinds null-plain+heap --repetitions 1 --json --trace "$scratch/bins" \
    && jq -e '.what_if[0].compared == 0' "$scratch/out"
}
check "with a heap that there was not, nothing is compared" has_nothing_to_compare

# ---- threads ----

has_as_much_in_use () { # as recorded, in the end
  replays threads --json || return
  jq -e '.what_if[0] | .threads == 4 and .alternatives[0].failures == 0
    and ([.differences[] | select (.counter == "active blocks" or .counter == "active bytes")]
         == [])
    and .compared == 13' "$scratch/out"
}
check "three threads that free each other's blocks" has_as_much_in_use
check "... it says what that means" grep -q "steps of several threads" "$scratch/out"

make_trace=$top_builddir/t/tools/make-trace
are_freed_elsewhere () {
  "$make_trace" handed "$scratch/handed" && replays handed --repetitions 100 && grep -q "2 threads" "$scratch/out"
}
check "blocks that a queue uses and another thread frees" are_freed_elsewhere

# ---- damaged recordings ----

# What the events say, no program did: nothing is to be said of it but that it is not the same.
is_damaged () {
  "$make_trace" damaged "$scratch/damaged" && replays damaged --what-if=all \
    && grep -q "^direct " "$scratch/out"
}
check "events that no program has" is_damaged

# A program that got 2^59 bytes in many small pieces: the replay ends, because no device has them.
is_huge () {
  "$make_trace" huge "$scratch/huge" && timeout 60 "$program" --kinds null --repetitions 1 --what-if=all \
    --trace "$scratch/huge" >"$scratch/out" && grep -q "failures: 1 replayed, 0 recorded" "$scratch/out"
}
check "a request that no device can serve" is_huge

# ---- what is not compared ----

is_not_compared () {
  replays late && ! grep -q "as recorded:" "$scratch/out" \
    && grep -q "is not compared: it had been used before recording began" "$scratch/out"
}
check "a recording that begins late" is_not_compared

# Its last packet is all that is not whole.
is_cut () {
  head -c "$(($(wc -c <"$scratch/bins") - 10))" "$scratch/bins" >"$scratch/cut"
  replays cut && grep -q "^note: recording was not ended" "$scratch/out" \
    && grep -qx "same as recorded: 13 counters" "$scratch/out"
}
check "a recording that was cut off" is_cut

# ---- alternatives ----

# Nothing is held, so that each request is one of the backend; 30 % are too little.
list=direct,hold=0,limit=30%,leading-bits=6,heap,heap+growth=1M,thread-cache=0
check "alternatives" replays bins --what-if "$list" --json
order_is_right () {
  jq -e '[.what_if[0].alternatives[] | [.failures, .peak_managed_bytes, .calls]]
    | length == 8 and .[1:] == (.[1:] | sort)' "$scratch/out"
}
check "... the best first" order_is_right
labels_are_right () {
  jq -e --arg list "$list" '[.what_if[0].alternatives[].alternative]
    | .[0] == "as recorded" and (.[1:] | sort) == ($list | split (",") | sort)' "$scratch/out"
}
check "... behind what was recorded" labels_are_right
get () { # ALTERNATIVE FIELD
  jq -r --arg name "$1" ".what_if[0].alternatives[] | select (.alternative == \$name) | .$2" \
    "$scratch/out"
}
direct_is_exact () {
  [ "$(get direct peak_managed_bytes)" = "$(get direct peak_active_bytes)" ] \
    && [ "$(get direct hit_share)" = null ]
}
check "... direct takes what is in use" direct_is_exact
holds_nothing () { [ "$(get hold=0 "hit_share == 0")" = true ]; }
check "... without held blocks there are no hits" holds_nothing
bits_change_something () {
  [ "$(get leading-bits=6 peak_active_bytes)" -gt 0 ] \
    && [ "$(get leading-bits=6 hit_share)" != "$(get 'as recorded' hit_share)" ]
}
check "... other bits, other hits" bits_change_something
limit_is_kept () {
  [ "$(get limit=30% peak_managed_bytes)" -le \
    $(($(get 'as recorded' peak_managed_bytes) * 3 / 10)) ] \
    && [ "$(get limit=30% failures)" -gt "$(get 'as recorded' failures)" ]
}
check "... a limit is kept" limit_is_kept
# With segments that do not suit the 20 MiB there are, two requests fail.
heap_serves () {
  [ "$(get heap failures)" -eq 0 ] && [ "$(get heap+growth=1M failures)" -le 2 ] \
    && [ "$(get heap calls)" -lt "$(get 'as recorded' calls)" ] \
    && [ "$(get heap+growth=1M calls)" -lt "$(get 'as recorded' calls)" ]
}
check "... heaps below pools" heap_serves

calls_are_counted_once () {
  replays one --what-if heap --json && [ "$(get 'as recorded' calls)" -eq 1 ] && [ "$(get heap calls)" -eq 1 ]
}
check "... the call of a heap is not its pool's, too" calls_are_counted_once

table_fits () {
  replays bins --what-if \
    && [ "$(awk '{ if (length > n) n = length } END { print n }' "$scratch/out")" -le 80 ] \
    && [ "$(sed -n 4p "$scratch/out" | cut -c 1-11)" = "as recorded" ] \
    && grep -q "^best first: fewest failed, least peak, fewest calls$" "$scratch/out"
}
check "a table of what is tried without a list" table_fits
check "... what changes nothing is not" test "$(grep -c '^no-heap\|^growth' "$scratch/out")" -eq 0
usual_is_all () {
  sed 's/ *[0-9.-]*$//' "$scratch/out" >"$scratch/usual"
  replays bins --what-if=all && sed 's/ *[0-9.-]*$//' "$scratch/out" | diff "$scratch/usual" -
}
check "... which is all" usual_is_all

csv_is_sound () {
  replays bins --what-if "$list" --csv && [ "$(wc -l <"$scratch/out")" -eq 9 ] \
    && awk -F , 'NF != 17 || (NR > 1 && ($1 != "none" || $2 != "null" || $3 != "bins")) \
                 { print; exit 1 }' "$scratch/out" \
    && [ "$(sed -n 2p "$scratch/out" | cut -d , -f 6)" = "as recorded" ]
}
check "CSV" csv_is_sound

with_each_kind () {
  status_is 0 "$program" --kinds null,null+heap,null-plain+heap --repetitions 1 --json \
    --trace "$scratch/bins" --trace "$scratch/parts" --what-if leading-bits=6 \
    && jq -e '[.what_if[] | "\(.kind) \(.recording) \(.alternatives[0].alternative)"]
      == ["null bins as recorded", "null parts as recorded",
          "null+heap bins as recorded+heap", "null+heap parts as recorded",
          "null-plain+heap bins as recorded+heap", "null-plain+heap parts as recorded"]
      and .results == []' "$scratch/out"
}
check "two recordings on three kinds" with_each_kind

# ---- what there is on this machine ----

records_itself () {
  TARN_TRACE=$scratch/itself "$program" --kinds null,null+heap --threads 1 \
    --measure overhead,calls --repetitions 1 >/dev/null \
    && replays itself --json && jq -e '.what_if[0] | .differences == [] and .compared > 150' \
      "$scratch/out"
}
check "its own overhead and calls, recorded" records_itself
records_itself_in_threads () {
  TARN_TRACE=$scratch/threads "$program" --kinds null --threads 1,2 --seconds 0.001 \
    --measure hits,exchange --repetitions 1 >/dev/null \
    && replays threads --json && jq -e '.what_if[0] | .alternatives[0].failures == 0
      and .threads > 2
      and [.differences[] | select (.counter == "active bytes")] == []' "$scratch/out"
}
check "... and threads" records_itself_in_threads

example=$top_builddir/doc/examples/vector-expression
if [ -x "$example" ] && [ -e /etc/OpenCL/vendors/pocl.icd ]; then
  records_example () {
    OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd POCL_DEVICES=pthread TARN_TRACE=$scratch/example \
      PYOPENCL_TEST=0:0 "$example" --backend=opencl >/dev/null && is_same example 11 '.failures == 0 and .calls > 0'
  }
  check "an example on OpenCL, replayed without it" records_example
  replays_on_opencl () {
    OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd POCL_DEVICES=pthread \
      status_is 0 "$program" --select 0:0 --kinds opencl-immediate --repetitions 1 --json \
      --trace "$scratch/example" && jq -e '.what_if[0] | .differences == [] and .compared == 11' \
      "$scratch/out"
  }
  check "... and on it" replays_on_opencl
else
  skip "an example on OpenCL, replayed without it" "there is no PoCL, or no example"
fi

# ---- what is refused ----

printf '{"tarn-snapshot":1}' >"$scratch/snapshot"
check "a snapshot" fails "this is a snapshot" --trace "$scratch/snapshot"
check "an alternative that there is not" fails "--what-if 'heap,speed': there is no 'speed'" \
  --trace "$scratch/bins" --what-if heap,speed
check "a value for what has none" fails "there is no 'heap='" --trace "$scratch/bins" --what-if heap=1
check "no number" fails "'x' is not a number from 0 to 26" --trace "$scratch/bins" \
  --what-if leading-bits=x
check "27 bits" fails "'27' is not a number from 0 to 26" --trace "$scratch/bins" \
  --what-if leading-bits=27
check "more than all" fails "'180%' is not bytes, such as 8G, or a share" --trace "$scratch/bins" \
  --what-if limit=180%
check "heaps and no heaps" fails "'heap+no-heap' has heaps, and has none" \
  --trace "$scratch/bins" --what-if heap+no-heap
check "an empty list" fails "--what-if '': it is empty" --trace "$scratch/bins" --what-if=
check "an empty alternative" fails "there is an empty alternative" --trace "$scratch/bins" \
  --what-if heap,,direct
check "--what-if without a recording" fails "--what-if: no --trace is a recording" --what-if heap
check "--weave" fails "--weave: recordings cannot be woven" --weave --trace "$scratch/bins" \
  --trace "$scratch/parts"
check "CSV beside other measures" fails "--csv: recordings have columns of their own" --csv \
  --measure hits,what-if --trace "$scratch/bins"

check "a drawing of nothing" fails "--plot $scratch/plot.svg: tables of recordings are not drawn" \
  --plot "$scratch/plot.svg" --trace "$scratch/bins"

printf TARNTRC2 >"$scratch/later"
check "a later version" fails "written by a later version: format '2'" --trace "$scratch/later"
head -c 40 "$scratch/bins" >"$scratch/short"
check "the start of a header" fails "at byte 40: the file ends in its header" \
  --trace "$scratch/short"
{ head -c 96 "$scratch/bins"; printf '\377\377\377'; } >"$scratch/wrong"
check "an event that there is not" fails "at byte 96: " --trace "$scratch/wrong"
head -c 64 "$scratch/bins" >"$scratch/nothing"
check "nothing in it" fails "--trace $scratch/nothing: it has no request to the objects that it describes" \
  --trace "$scratch/nothing"

done_testing
