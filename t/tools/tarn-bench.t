#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# tarn-bench: what it refuses, traces of which the overhead is known, and its results as text, JSON,
# CSV and SVG; without a device, on this machine's, and on the fake CUDA driver.  What it measures is
# for people to read.
. "$(dirname "$0")/../lib/tap.sh"

program=$top_builddir/tools/tarn-bench
if [ ! -x "$program" ]; then
  skip "tarn-bench" "built without json-glib"
  done_testing
  exit
fi
case ${DEBUG_FLAGS-} in
  *TARN_DEBUG_LEVEL=2*)
    skip "tarn-bench" "each of its 100,000 blocks would be checked after each operation"
    done_testing
    exit
    ;;
esac
HOME=$scratch # it may choose a device
export HOME
unset TARN_TEST PYOPENCL_TEST NO_COLOR CUDA_DEVICE
# Other drivers leak where they only are asked for devices, which is for their own tests to find.
if [ -z "${OCL_ICD_VENDORS:-}" ] && [ -e /etc/OpenCL/vendors/pocl.icd ]; then
  OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
  export OCL_ICD_VENDORS
fi

# PoCL's other device deadlocks now and then where queues wait for one another: doc/drivers.
POCL_DEVICES=pthread
export POCL_DEVICES

# As short as it can be.
quick () {
  "$program" --seconds 0.001 --repetitions 2 "$@"
}

quick_null () {
  quick --kinds null "$@"
}

# One line on standard error that says so, nothing on standard output.
fails () { # STATUS MESSAGE ARGUMENT...
  expected_status=$1
  message=$2
  shift 2
  status_is "$expected_status" quick "$@" && [ ! -s "$scratch/out" ] \
    && [ "$(wc -l <"$scratch/err")" -eq 1 ] && grep -qF -e "$message" "$scratch/err"
}

# Nothing on standard error.
runs () { # COMMAND...
  status_is 0 "$@" && [ ! -s "$scratch/err" ]
}

# ---- no threads ----

# Threads have stacks as large as that limit, so that memory for few of them is left.
with_stacks () { # KIB COMMAND...
  (
    ulimit -s "$1" && ulimit -v 4500000 || exit
    shift
    "$@"
  )
}

if with_stacks 1048576 "$program" --version >"$scratch/out" 2>&1; then
  check "no thread for signals" with_stacks 8000000 \
    fails 1 "Error creating thread" --kinds null --measure hits --threads 2
  check "not so many threads" with_stacks 1048576 \
    status_is 1 quick_null --measure hits --threads 8
else
  skip "no threads" "limits on memory cannot be set, or a sanitizer needs more"
fi

# ---- bad usage ----

check "--frobnicate" fails 2 --frobnicate --frobnicate
check "a surplus argument" fails 2 "'surplus'" surplus
check "--kinds that there is not" fails 2 "'nil'" --kinds null,nil
check "... it says which there are" grep -q 'is none of these: null' "$scratch/err"
check "--kinds, empty" fails 2 "'' is none of these: " --kinds ''
check "--kinds, empty after a comma" fails 2 "'' is none of these: " --kinds null,
check "--kinds, the start of a name" fails 2 "'nul'" --kinds nul
check "--measure that there is not" fails 2 "'speed'" --measure hits,speed
check "--threads 0" fails 2 "'0'" --threads 0
check "--threads 257" fails 2 "'257'" --threads 1,257
check "--threads two" fails 2 "'two'" --threads two
check "--threads, empty" fails 2 "''" --threads ''
check "--threads that go down" fails 2 "1 comes after 2" --threads 2,1
check "--threads twice the same" fails 2 "2 comes after 2" --threads 2,2
check "--seconds 0" fails 2 "--seconds 0:" --seconds 0
check "--seconds -1" fails 2 "--seconds -1:" --seconds=-1
check "--seconds nan" fails 2 "nan" --seconds nan
check "--repetitions 0" fails 2 "--repetitions 0:" --repetitions 0
check "--repetitions 1001" fails 2 "--repetitions 1001:" --repetitions 1001
check "--json and --csv" fails 2 "only one" --json --csv
is_told_of_trace () {
  TARN_TRACE=/nowhere/file quick_null --measure hits 2>"$scratch/err" >/dev/null \
    && grep -q "TARN_TRACE: /nowhere/file: No such file" "$scratch/err"
}
check "a recording that cannot be written" is_told_of_trace
check "--select that is none" fails 2 "--select: there is an empty name in ':::'" --select :::
check "... also where no device is needed" fails 2 "--select: there is an empty name" --kinds null --select :::
check "--plot onto a folder" fails 2 "--plot $scratch: is a folder" --plot "$scratch"
check "--plot into a missing folder" fails 2 "there is no folder '$scratch/no'" \
  --plot "$scratch/no/plot.svg"
check "--plot without a name" fails 2 "--plot: there is no name" --plot=
printf 'time,thread,action,id,size,queue\n0,0,allocate,1,64,\n' >"$scratch/kept.csv"
ln -s kept.csv "$scratch/kept"
check "--plot onto a trace" fails 2 "--plot is the file of --trace $scratch/kept" \
  --trace "$scratch/kept" --plot "$scratch/kept.csv"
check "... which is as it was" grep -q "^0,0,allocate,1,64,$" "$scratch/kept.csv"
check "--trace that is not there" fails 2 "--trace $scratch/no: " --trace "$scratch/no"
check "... says why" grep -q "No such file" "$scratch/err"
check "--trace of a folder" fails 2 "--trace $scratch: " --trace "$scratch"
check "... says why" grep -q "Is a directory" "$scratch/err"

# ---- bad traces ----

header=time,thread,action,id,size,queue
trace () { # LINE...: into $scratch/trace.csv, below the header
  printf '%s\n' "$header" "$@" >"$scratch/trace.csv"
}

refuses () { # MESSAGE LINE...
  expected_message="--trace $scratch/trace.csv: $1"
  shift
  trace "$@"
  fails 2 "$expected_message" --kinds null --measure overhead --trace "$scratch/trace.csv"
}

check "a trace without lines" refuses "line 2: it is empty"
printf '0,0,allocate,1,100,0\n' >"$scratch/trace.csv"
check "a trace without a header" fails 2 "line 1: '0,0,allocate,1,100,0' is not the header" \
  --trace "$scratch/trace.csv"
: >"$scratch/trace.csv"
check "an empty trace" fails 2 "it is empty" --trace "$scratch/trace.csv"
check "a line with too few columns" refuses "line 3: 5 columns instead of 6" \
  0,0,allocate,1,100,0 1,0,free,1,
check "... and with too many" refuses "line 2: 7 columns instead of 6" 0,0,allocate,1,100,0,0
check "no time" refuses "line 2: there is no time" ,0,allocate,1,100,0
check "a time that is none" refuses "line 2: time '1.5' is not a number" 1.5,0,allocate,1,100,0
check "an action that is none" refuses "line 2: action 'alloc' is neither" 0,0,alloc,1,100,0
check "no size" refuses "line 2: there is no size" 0,0,allocate,1,,0
check "a size below 0" refuses "line 2: size '-1' is not a number" 0,0,allocate,1,-1,0
check "a size that no number holds" refuses "line 2: size '99999999999999999999' is not a number" \
  0,0,allocate,1,99999999999999999999,0
check "a size that no memory holds" refuses "line 2: size 9223372036854775807 is too large" \
  0,0,allocate,1,9223372036854775807,0
check "a size of a free" refuses "line 3: size '100': a free has none" \
  0,0,allocate,1,100,0 1,0,free,1,100,0
check "a thread that is none" refuses "line 2: thread 'main' is not a number" 0,main,allocate,1,100,0
check "a queue that is none" refuses "line 2: queue 'x' is not a number" 0,,allocate,1,100,x
check "an id that is none" refuses "line 2: id '0x1' is not a number" 0,,allocate,0x1,100,
check "a block that is allocated twice" refuses "line 3: block 1 is allocated already" \
  0,0,allocate,1,100,0 1,0,allocate,1,100,0
check "a block that is freed twice" refuses "line 4: block 1 is not allocated" \
  0,0,allocate,1,100,0 1,0,free,1,,0 2,0,free,1,,0
check "a block that is freed before, by the times" refuses "line 3: block 1 is not allocated" \
  5,0,allocate,1,100,0 4,0,free,1,,0
check "a control character is not printed" refuses 'line 2: action '"'"'\x1b[31m' \
  "$(printf '0,0,\033[31m,1,100,0')"
printf '%s\n0,0,allocate,1,100,0\n1,0,\0free' "$header" >"$scratch/trace.csv"
check "zero bytes" fails 2 "line 3: it has a zero byte" --trace "$scratch/trace.csv"

# ---- traces of known overhead ----

# A block of 1000 bytes is one of 1023, and one of 1024 is of 1087, with 4 leading bits.
overhead_is () { # RATIO MANAGED ACTIVE
  runs quick_null --measure overhead --json --trace "$scratch/trace.csv" || return
  [ "$(jq -r '.results[] | select (.parameter == "trace.csv") | .median * 100000 | round' \
    "$scratch/out")" = "$1" ] \
    && [ "$(jq -r '.traces[] | select (.name == "trace.csv")
      | "\(.peak_managed_bytes) \(.peak_active_bytes)"' "$scratch/out")" = "$2 $3" ]
}

if command -v jq >/dev/null; then
  trace 0,0,allocate,1,1000,0 10,0,allocate,2,1024,0 20,0,free,1,,0 30,0,free,2,,0
  check "two blocks: rounding is all the overhead" overhead_is 104249 2110 2024
  trace 0,,allocate,1,1000, 10,,free,1,, 20,,allocate,1,1023, 30,,free,1,,
  check "one after the other in the same memory" overhead_is 100000 1023 1023
  trace 30,1,free,2,,1 10,1,allocate,2,1024,1 0,2,allocate,1,1000,2 30,1,free,1,,1
  check "lines in any order" overhead_is 104249 2110 2024
  trace 5,0,allocate,1,1000,0 5,0,free,1,,0 5,0,allocate,1,1000,0
  check "the same time: the order of the lines; and a block that stays" overhead_is 102300 1023 1000
  trace ' 0, , allocate, 1, 1000, ' '' '1,0,free,1,,0'
  sed -i 's/$/\r/' "$scratch/trace.csv"
  check "blanks, an empty line, ends of lines as on Windows" overhead_is 102300 1023 1000
  trace 0,0,allocate,18446744073709551615,0,0
  check "a block of 0 bytes: no overhead can be told" status_is 0 quick_null --measure overhead \
    --trace "$scratch/trace.csv"
  check "... which it says" grep -q 'trace.csv *(it never has a byte in use)' "$scratch/out"
  trace 0,0,allocate,1,1000000000000000000,0 1,0,free,1,,0
  refuses_too_large () {
    status_is 1 "$program" --kinds null+heap --seconds 0.002 --repetitions 1 --measure replay \
      --trace "$scratch/trace.csv" && grep -q "trace.csv .*bytes left" "$scratch/out"
  }
  check "on memory that is none, any size" status_is 0 quick_null --measure overhead,replay \
    --trace "$scratch/trace.csv"
  if [ "$SANITIZER" = no ]; then
    check "the memory of blocks that a limit refuses" status_is 1 env TARN_LIMIT=10M "$program" \
      --kinds null --measure memory
    check "... says so" grep -q '^memory .*bytes asked for' "$scratch/out"
  fi
  # Above a heap of virtual memory the request would take billions of segments.
  check "... and on virtual memory, as much as a device may have" refuses_too_large
else
  skip "traces of known overhead" "there is no jq"
fi

# ---- compressed traces ----

if command -v jq >/dev/null && command -v gzip >/dev/null; then
  trace 0,0,allocate,1,1000,0 10,0,allocate,2,1024,0 20,0,free,1,,0 30,0,free,2,,0
  gzip -c "$scratch/trace.csv" >"$scratch/compressed"
  mv "$scratch/compressed" "$scratch/trace.csv"
  check "a compressed trace, whatever its name" overhead_is 104249 2110 2024
  head -c 60 "$scratch/trace.csv" >"$scratch/cut.csv.gz"
  check "... that is cut off" fails 2 "--trace $scratch/cut.csv.gz: " --trace "$scratch/cut.csv.gz"
  trace 0,0,allocate,1,x,0
  gzip -f "$scratch/trace.csv"
  check "... with a bad line" fails 2 "$scratch/trace.csv.gz: line 2: size 'x' is not a number" \
    --trace "$scratch/trace.csv.gz"
  # A small file may be a large one: 1.5 GiB of lines, of which 256 MiB are read.
  { echo "time,thread,action,id,size,queue"; yes 0,0,allocate,1,1000,0 | head -c 1500000000; } \
    | gzip -1 >"$scratch/bomb.csv.gz"
  fails_within () { # KIB-OF-MEMORY ARGUMENT...
    (if [ "$SANITIZER" = no ]; then ulimit -v "$1"; fi && shift && fails "$@")
  }
  check "... that is too large" fails_within 2000000 2 "MiB of text" --trace "$scratch/bomb.csv.gz"
  check "... and names the line" grep -q "bomb.csv.gz: line [0-9]*: more than 256 MiB of text" \
    "$scratch/err"
else
  skip "compressed traces" "there is no gzip, or no jq"
fi

# ---- queues and threads ----

# The second queue asks for what the first one has just freed, and once more after 2 N events.
ask_again_after () { # N
  awk -v n="$1" 'BEGIN {
    print "0,,allocate,1,1000,1\n1,,free,1,,\n2,,allocate,2,1000,2"
    for (i = 3; i < n + 3; i++)
      printf "%d,,allocate,3,100,1\n%d,,free,3,,\n", i, i
    print n + 3 ",,allocate,4,1000,2" }'
}

# MANAGED ARGUMENT...: of the trace; so many bytes
managed_is () {
  managed=$1
  shift
  runs quick_null --measure overhead --json --trace "$scratch/trace.csv" "$@" || return
  [ "$(jq -r '.traces[] | select (.name == "trace.csv") | .peak_managed_bytes' "$scratch/out")" \
    = "$managed" ]
}

has_two_threads () {
  runs quick_null --measure overhead,calls,replay --queues --json --trace "$scratch/trace.csv" \
    && jq -e '.queues == true and ([.results[] | select (.parameter == "trace.csv")]
      | map ("\(.measure) \(.threads)") == ["overhead 2", "calls 2", "replay 2"]
        and all (.median > 0) and (.[2].malloc_median > 0))' "$scratch/out"
}

has_one_thread () {
  runs quick_null --measure overhead --json --trace "$scratch/trace.csv" \
    && jq -e '.queues == false and all (.results[]; .threads == 1)' "$scratch/out"
}

# What of the model is counted, on the counters; not what takes time.
count_model () { # FILE
  "$program" --kinds null,null+heap,null-plain+heap --measure overhead,calls --queues --csv >"$1"
}

counts_are_the_same () {
  count_model "$scratch/first" && count_model "$scratch/second" \
    && grep -q '^none,null+heap,calls,2,model,' "$scratch/first" \
    && diff "$scratch/first" "$scratch/second"
}

if command -v jq >/dev/null; then
  trace 0,,allocate,1,1000,1 10,,free,1,, 20,,allocate,2,1000,2 30,,free,2,,
  check "two queues: without --queues they are none" managed_is 1023
  check "... each has memory of its own" managed_is 2046 --queues
  trace 0,,allocate,1,1000,7 10,,free,1,, 20,,allocate,2,1000,7 30,,free,2,,7
  check "... and one queue has its own again" managed_is 1023 --queues
  trace 0,,allocate,1,1000,1 10,,free,1,,2 20,,allocate,2,1000,2 30,,free,2,,
  check "a free that names another queue: that has used it, too" managed_is 1023 --queues
  trace $(ask_again_after 498)
  check "another queue's memory, 996 events later: it is in use" managed_is 3172 --queues
  trace $(ask_again_after 502)
  check "... 1,004 events later: it is not" managed_is 2149 --queues
  check "... where queues are 1,010 events late: it is" managed_is 3172 --queues --late 1010
  check "... 1,000 events late" managed_is 2149 --queues --late 1000
  trace 0,1,allocate,1,1000, 10,1,free,1,, 20,2,allocate,2,1000, 30,2,free,2,,
  check "two threads: without --queues they are one" managed_is 1023
  check "... each keeps some for itself" managed_is 2046 --queues
  trace 0,1,allocate,1,1000,0 10,2,allocate,2,2000,0 20,2,free,1,,0 30,1,free,2,,0
  check "... one frees what the other has allocated" has_two_threads
  check "... the table has one, without --queues" has_one_thread
  check "the same counts in every run" counts_are_the_same
else
  skip "queues and threads" "there is no jq"
fi

runs_from_pipe () {
  cat "$scratch/trace.csv" | quick_null --measure overhead --trace /dev/stdin >"$scratch/out"
}
trace 0,,allocate,1,1000, 10,,free,1,,
check "a trace from a pipe" runs_from_pipe
check "... the same trace" grep -qE '^overhead +1 stdin' "$scratch/out"

# As many of each as there are lines; the second column or the sixth.
trace_of_many () { # THREADS QUEUES
  awk -v threads="$1" -v queues="$2" -v header="$header" 'BEGIN {
    print header
    for (i = 1; i <= (threads > queues ? threads : queues); i++)
      printf "%d,%d,allocate,%d,1,%d\n", i, 1 + i % threads, i, 1 + i % queues }'
}

trace_of_many 256 256 >"$scratch/many.csv"
# How many queues two threads name.
count_queues () { # NUMBER OPTION
  TARN_TRACE=$scratch/recording quick_null --measure hits --threads 2 "$2" >/dev/null \
    && n=$("$top_builddir/tools/tarn-trace" --print --kind=hit,miss "$scratch/recording" \
      | sed -n 's/.* queue=\([^ ]*\).*/\1/p' | sort -u | wc -l) \
    && [ "$n" -eq "$1" ]
}

check "--queues: one for each thread" count_queues 2 --queues
check "--one-queue: one for both" count_queues 1 --one-queue
check "--late: less than no event" fails 2 "--late -1: must not be negative" --late -1
check "256 threads, 256 queues" status_is 0 quick_null --measure overhead,replay --queues \
  --trace "$scratch/many.csv"
check "... each one a thread" grep -qE '^replay +256 many.csv' "$scratch/out"
trace_of_many 257 1 >"$scratch/many.csv"
check "257 threads" fails 2 "--trace $scratch/many.csv: its 257 threads are too many" --queues \
  --trace "$scratch/many.csv"
check "... which are none without --queues" runs quick_null --measure overhead \
  --trace "$scratch/many.csv"
trace_of_many 1 257 >"$scratch/many.csv"
check "257 queues" fails 2 "--trace $scratch/many.csv: its 257 queues are too many" --queues \
  --trace "$scratch/many.csv"

# ---- woven traces ----

# More than threads keep for themselves; and another block of 1 byte, at the start or at the end.
burst () { # FROM TO EDGE
  awk -v from="$1" -v to="$2" -v edge="$3" -v header="$header" 'BEGIN {
    print header
    print edge ",,allocate,0,1,"
    for (i = 1; i <= 300; i++)
      printf "%d,,allocate,%d,1000,\n%d,,free,%d,,\n", from, i, to, i }'
}

# At 60 of 100 the fast one has its large blocks, and the slow one has freed its own.
weaves () { # MANAGED ARGUMENT...
  managed=$1
  shift
  runs quick_null --measure overhead,calls,replay --json --weave --trace "$scratch/slow.csv" \
    --trace "$scratch/fast.csv.gz" "$@" && [ "$(jq -r '.traces[] | select (.name == "slow+fast")
      | "\(.peak_managed_bytes) \(.peak_active_bytes)"' "$scratch/out")" = "$managed 300002" ]
}

burst 0 50 100 >"$scratch/slow.csv"
check "--weave without a trace" fails 2 "--weave: there is no --trace" --weave
check "--weave of one" fails 2 "--weave: there is only one --trace, $scratch/slow.csv" --weave \
  --trace "$scratch/slow.csv"
if command -v jq >/dev/null && command -v gzip >/dev/null; then
  burst 13 17 7 | gzip >"$scratch/fast.csv.gz"
  check "--weave: by the times, which are scaled" weaves 306902
  check "--weave --queues: each has a queue of its own" weaves 613802 --queues
  check "... and a thread" jq -e '[.results[] | select (.parameter == "slow+fast") | .threads]
    == [2, 2, 2]' "$scratch/out"
else
  skip "woven traces" "there is no gzip, or no jq"
fi
trace 0,,allocate,1,64, 9223372036854775807,,allocate,2,64, 18446744073709551615,,free,2,,
check "woven traces of 584 years" runs quick_null --measure overhead --weave \
  --trace "$scratch/trace.csv" --trace "$scratch/trace.csv"
trace 0,,allocate,1,2000000000000000000,
check "woven traces that are too large" fails 2 \
  "--weave trace+trace: the 2000000000000000000 bytes that trace.csv has in use are too many" \
  --weave --trace "$scratch/trace.csv" --trace "$scratch/trace.csv"
trace_of_many 200 1 >"$scratch/many.csv"
check "woven traces with too many threads" fails 2 \
  "--weave many+many: its 400 threads are too many" --queues --weave \
  --trace "$scratch/many.csv" --trace "$scratch/many.csv"

check "queues in turn, without queues" fails 2 "--measure turns: only with --queues" \
  --measure hits,turns

# ---- the same results in every form ----

measures="driver hits mixed window exchange miss recovery taken overhead calls replay memory"

has_measures () {
  for measure in $measures; do
    grep -qE "^$measure +[0-9]+ .+ +[0-9.]+ +[0-9.]+ +[0-9.]+ (ns|us|ms|calls|ratio|bytes)" \
      "$scratch/text" || { [ "$measure" = memory ] && grep -q '^memory .*(the C library' "$scratch/text"; } \
      || { echo "no $measure"; return 1; }
  done
}

has_ratios () {
  for measure in driver hits mixed window exchange miss replay; do
    grep -E "^$measure " "$scratch/text" | awk '{ if ($(NF - 2) !~ /^[0-9.]+$/) exit 1 }' || return
  done
}

fits () {
  [ "$(awk '{ if (length > n) n = length } END { print n }' "$scratch/text")" -le 80 ]
}

# MEASURE THREADS, sorted: of a table, of CSV, of JSON
rows_of_text () {
  awk '/^[a-z]+ +[0-9]+ / { print $1, $2 }' "$scratch/text" | sort
}

rows_of_csv () {
  sed 1d "$scratch/csv" | awk -F , '{ print $3, $4 }' | sort
}

same_rows () { # FORM
  rows_of_text >"$scratch/rows"
  grep -q 'hits 2' "$scratch/rows" && "rows_of_$1" | diff "$scratch/rows" -
}

rows_of_json () {
  jq -r '.results[] | "\(.measure) \(.threads)"' "$scratch/json" | sort
}

csv_header=device,kind,measure,threads,parameter,median,min,max,unit,ratio,malloc,gain,malloc_gain

# As many columns everywhere; median between min and max; a ratio where there is malloc.
csv_is_sound () {
  [ "$(head -n 1 "$scratch/csv")" = "$csv_header" ] || return
  sed 1d "$scratch/csv" | awk -F , '
    NF != 13 || $1 != "none" || $2 != "null" { print; exit 1 }
    $6 != "" && !($7 <= $6 && $6 <= $8) { print; exit 1 }
    ($10 == "") != ($11 == "") { print; exit 1 }
    ($3 == "hits" && $4 == 2) != ($12 != "" && $3 == "hits") { print; exit 1 }'
}

# A ratio is a repetition's, or lies between those of two.
ratios_are_right () {
  jq -e '[.results[] | select (.ratio != null)] | length > 0
    and all (.ratio >= .min / .malloc_max and .ratio <= .max / .malloc_min)' "$scratch/json"
}

# With one repetition it is the quotient.
ratio_is_a_quotient () {
  quick_null --measure mixed --repetitions 1 --json >"$scratch/one.json" \
    && jq -e '.results[0] | (.ratio * .malloc_median / .median - 1 | fabs) < 1e-6' "$scratch/one.json"
}

# The gain of two threads is what their costs say.
gains_are_right () {
  jq -e '[.results[] | select (.measure == "mixed")] as [$one, $two]
    | ($two.gain * $two.median / (2 * $one.median) - 1 | fabs) < 1e-6
      and ($two.malloc_gain * $two.malloc_median / (2 * $one.malloc_median) - 1 | fabs) < 1e-6
      and $one.gain == null' "$scratch/json"
}

# What it has by itself is fixed: sizes are the same in every run.
made_traces_are_sound () {
  jq -e '[.results[] | select (.measure == "overhead")]
    | map (.parameter) == ["step", "window-10", "window-100", "window-1000", "model"]
      and all (.median >= 1 and .min == .median and .max == .median)
      and (.[0].median < 1.0625)' "$scratch/json"
}

hits_are_hits () {
  jq -e '[.results[] | select (.measure == "hits" and .threads == 1)] | all (.hit_share == 1)' \
    "$scratch/json"
}

misses_are_misses () {
  jq -e '[.results[] | select (.measure == "miss")] | length == 1 and all (.hit_share == 0)' \
    "$scratch/json"
}

# All that is held is not given back, but about what is wanted: 8 of 16 MiB.
recovers_in_few_calls () {
  jq -e '[.results[] | select (.measure == "recovery" and .unit == "calls")]
    | length == 1 and all (.median > 120 and .median < 140)' "$scratch/json"
}

# A heap serves the large block from what its small ones leave.
recovers_over_heaps () {
  runs quick --kinds null+heap,null-plain+heap --measure recovery --json \
    && jq -e '[.results[] | select (.unit == "calls") | .median] | length == 2 and all (. > 0 and . < 40)' \
      "$scratch/out"
}

# One thread's window is all that is in use.
takes_little () {
  runs quick --kinds null+heap --measure taken --threads 1,2 --queues --json \
    && jq -e '[.results[]] | map ("\(.threads) \(.parameter), \(.unit)")
      == ["1 of in use, ratio", "1 of own peaks, ratio", "1 later, moves",
          "2 of in use, ratio", "2 of own peaks, ratio", "2 later, moves"]
      and .[0].median == .[1].median and .[0].median >= 1 and .[0].median < 2
      and .[4].median >= 1 and .[4].median <= .[3].median and .[2].median >= 0' "$scratch/out"
}

# One thread, however many are asked for.  The pool serves nearly all without the driver.
takes_turns () {
  runs quick --kinds null+heap --measure turns --threads 2 --queues --json \
    && jq -e '[.results[]] | map ("\(.threads) \(.parameter), \(.unit)")
      == ["1 8 queues, ns", "1 64 queues, ns", "1 256 queues, ns"]
      and (map (.median > 0 and .hit_share > 0.9) | all)' "$scratch/out"
}

check "without a device" runs quick_null --threads 1,2
cp "$scratch/out" "$scratch/text"
check "... a row for each measure" has_measures
check "... with a ratio" has_ratios
check "... in 80 columns" fits
check "... under heads that say their units" \
  grep -qE '^measure +threads +blocks +median +min +max unit +malloc +pool +malloc$' "$scratch/text"
check "... no escapes" test -z "$(tr -d '\n[:print:]' <"$scratch/text")"
check "--csv" runs quick_null --threads 1,2 --csv
cp "$scratch/out" "$scratch/csv"
check "... the same rows" same_rows csv
check "... is sound" csv_is_sound
check "--json" runs quick_null --threads 1,2 --json
cp "$scratch/out" "$scratch/json"
if command -v jq >/dev/null; then
  check "... parses" jq -e .tarn "$scratch/json"
  check "... the same rows" same_rows json
  check "... ratios" ratios_are_right
  check "... one repetition" ratio_is_a_quotient
  check "... gains" gains_are_right
  check "... the traces that are made" made_traces_are_sound
  check "... hits are hits" hits_are_hits
  check "... misses are misses" misses_are_misses
  check "... recovery calls the driver as often as it must" recovers_in_few_calls
  check "... and over heaps" recovers_over_heaps
  check "what windows take from the driver" takes_little
  check "queues in turn" takes_turns
else
  skip "what is in JSON" "there is no jq"
fi

# A trace's name is whatever a file's can be.
quotes () {
  trace 0,0,allocate,1,1000,0
  mv "$scratch/trace.csv" "$scratch/a,\"b\".csv"
  runs quick_null --measure overhead --csv --trace "$scratch/a,\"b\".csv" \
    && grep -q '^none,null,overhead,1,"a,""b"".csv",1.023,1.023,1.023,ratio,,,,$' "$scratch/out"
}
check "--csv quotes what must be" quotes

counts () { # N REGEX COMMAND...: lines
  n=$1
  regex=$2
  shift 2
  runs "$@" && [ "$(grep -cE "$regex" "$scratch/out")" -eq "$n" ]
}
check "--measure: these alone" counts 2 '^(hits|miss) ' quick_null --measure hits,miss --threads 1
check "... and no others" counts 0 '^(driver|mixed|memory|overhead) ' \
  quick_null --measure hits,miss --threads 1
check "--threads 1,3: an odd one of a pair is left out" counts 1 '^exchange +2 ' \
  quick_null --measure exchange --threads 1,3
check "more threads than processors" counts 1 '^mixed +16 ' quick_null --measure mixed --threads 16

# The least of the times: on a busy machine the others may be long.
is_no_time_of_a_driver () {
  quick_null --measure driver --threads 1 --csv | awk -F , 'NR > 1 && $7 > 100 * $11 { exit 1 }'
}
[ "$SANITIZER" != no ] || check "memory that is a counter costs nothing" is_no_time_of_a_driver

# ---- a plot ----

plots () { # XPATH
  xmllint --noout "$scratch/plot.svg" \
    && [ "$(xmllint --xpath "$(echo "$1" | sed 's/@@\([a-z]*\)/*[local-name()="\1"]/g')" \
      "$scratch/plot.svg")" = true ]
}

trace 0,0,allocate,1,1000,0 10,0,free,1,,0
mv "$scratch/trace.csv" "$scratch/a<&>b.csv"
check "--plot" runs quick_null --threads 1,2 --trace "$scratch/a<&>b.csv" --plot "$scratch/plot.svg"
check "... beside the table" grep -q '^hits' "$scratch/out"
check "... without what is not a number" sh -c '! grep -iE "nan|inf[\", ]" "$1"' sh "$scratch/plot.svg"
if command -v xmllint >/dev/null; then
  check "... a chart of costs, and one for each trace" plots 'count(//@@text[@class="title"]) = 7'
  check "... lines of all measures and of malloc" plots \
    'count(//@@text[.="hits" or .="mixed" or .="window" or .="malloc (64) + free"]) = 4'
  check "... managed and active bytes" plots \
    'count(//@@text[.="managed"]) = 6 and count(//@@text[.="active"]) = 6'
  check "... the least and the most at each mark" plots \
    'count(//@@circle) > 5 and count(//@@line[@class="spread"]) = 3 * count(//@@circle)'
  check "... every vertical axis ends with a number" plots 'count(//@@text[@class="title"]) =
    count(//@@text[@text-anchor="end" and (@y - 44) mod 340 = 0])'
  check "... every horizontal axis does" plots 'count(//@@text[@class="title"]) =
    count(//@@text[@text-anchor="middle" and @y mod 340 = 305 and (@x = 580 or @x = 560)])'
  check "... ticks between powers of ten" plots 'count(//@@line[@class="minor"]) > 1'
  check "... of which some are numbered" plots \
    'count(//@@text[@text-anchor="end" and (.=2 or .=20 or .=200) and @y < 340]) > 0'
  check "... Tarn and the machine" plots "count(//@@text[@class='caption' and contains(., '$(
    "$program" --version | sed 's/tarn-bench/Tarn/') on ') and contains(., ' processor')]) = 1"
  check "... units" plots 'count(//@@text[contains(., "(ns)")]) > 1 and
    count(//@@text[contains(., "(GiB)")]) > 1'
  check "... a name with what XML takes for its own" plots \
    'count(//@@text[contains(., "a<&>b.csv")]) = 1'
  check "--plot of what is no cost" runs quick_null --measure memory --plot "$scratch/plot.svg"
  check "... says so" plots 'count(//@@text[contains(., "No measurement can be drawn")]) = 1'
else
  skip "what is in the plot" "there is no xmllint"
fi
check "a plot in another locale" runs env LC_ALL=C.UTF-8 "$program" --seconds 0.001 --kinds null \
  --measure hits --plot "$scratch/plot.svg"
if [ "$(id -u)" -ne 0 ]; then
  mkdir "$scratch/closed"
  chmod a-w "$scratch/closed"
  check "--plot where nothing can be written" fails 2 "Permission denied" \
    --plot "$scratch/closed/plot.svg"
else
  skip "--plot where nothing can be written" "root can write anywhere"
fi

# ---- where nothing can be printed ----

into_full () {
  quick_null --measure hits --plot "$scratch/kept.svg" "$@" >/dev/full 2>"$scratch/err"
  [ $? -eq 1 ] && [ "$(wc -l <"$scratch/err")" -eq 1 ] \
    && grep -q 'cannot write to standard output' "$scratch/err" && [ -s "$scratch/kept.svg" ]
}

into_nothing () {
  quick_null --measure hits >&- 2>"$scratch/err"
  [ $? -eq 1 ] && grep -q 'cannot write to standard output' "$scratch/err"
}

plot_full () {
  quick_null --measure hits --plot /dev/full >"$scratch/out" 2>"$scratch/err"
  [ $? -eq 1 ] && grep -q -e '--plot: .*No space left' "$scratch/err" && grep -q '^hits' "$scratch/out"
}

if [ -c /dev/full ]; then
  for form in "" --json --csv; do
    check "standard output that is full${form:+, $form}" into_full $form
  done
  check "a plot that has no room" plot_full
else
  skip "where nothing can be printed" "no /dev/full"
fi
check "standard output that is closed" into_nothing

# ---- interrupted ----

# When the last trace's overhead was printed; seconds of replays follow, which are last.
interrupt_later () { # SIGNAL
  until grep -q 'overhead.*model' "$scratch/out" 2>/dev/null \
    || grep -q '"model"' "$scratch/out" 2>/dev/null; do
    kill -s 0 $$ || return # this script has ended
    sleep 0.05
  done
  kill -s "$1" "$(cat "$scratch/pid")"
}

is_interrupted () { # SIGNAL STATUS ARGUMENT...
  rm -f "$scratch/out" "$scratch/cut.svg"
  interrupt_later "$1" >/dev/null 2>&1 &
  expected_status=$2
  shift 2
  with_signals sh -c 'echo $$ >"$0"; exec "$@"' "$scratch/pid" "$program" --kinds null \
    --measure overhead,replay --repetitions 1000 --plot "$scratch/cut.svg" "$@" \
    >"$scratch/out" 2>"$scratch/err"
  status=$?
  wait $!
  cat "$scratch/out" "$scratch/err"
  [ $status -eq "$expected_status" ] && ! grep '^tarn-bench' "$scratch/err" # a shell says more
}

has_half () { # OF ROWS: those of overhead, and not all of replay
  [ "$(grep -c overhead "$scratch/out")" -eq 5 ] && [ "$(grep -c replay "$scratch/out")" -lt 5 ]
}

json_is_whole () {
  jq -e '(.traces | length) == 5 and ([.results[] | select (.measure == "overhead")] | length) == 5
    and ([.results[] | select (.measure == "replay")] | length) < 5' "$scratch/out"
}

check "SIGINT" is_interrupted INT 130
check "... what was measured is printed" has_half
check "... with what explains it" grep -q '^speed-up:' "$scratch/out"
if command -v xmllint >/dev/null; then
  check "... and drawn" xmllint --noout "$scratch/cut.svg"
else
  skip "... and drawn" "there is no xmllint"
fi
check "SIGTERM, CSV" is_interrupted TERM 143 --csv
check "... what was measured is printed" has_half
check "SIGHUP, JSON" is_interrupted HUP 129 --json
check "... what was measured is printed" has_half
if command -v jq >/dev/null; then
  check "... as JSON that is whole" json_is_whole
else
  skip "... as JSON that is whole" "there is no jq"
fi

# Standard output is a pipe that is full, and nobody reads it.
is_blocked () { # PID THREADS: so many there are, and the main one writes to a pipe
  [ "$(cat /proc/"$1"/task/*/comm 2>/dev/null | wc -l)" -eq "$2" ] \
    && grep -q pipe_write /proc/"$1"/wchan
}

# Where a process sleeps is not said everywhere.
tells_where () {
  sleep 10 &
  sleeper=$!
  for i in 1 2 3 4 5; do
    [ "$(cat /proc/$sleeper/wchan 2>/dev/null || echo 0)" = 0 ] || break
    sleep 0.1
  done
  where=$(cat /proc/$sleeper/wchan 2>/dev/null || echo 0)
  kill $sleeper
  [ "$where" != 0 ]
}

# One thread waits for signals, and one ends the report after the first.
interrupt_blocked () { # SIGNAL...
  n_threads=2
  for signal in "$@"; do
    until [ -s "$scratch/pid" ] && is_blocked "$(cat "$scratch/pid")" $n_threads; do
      kill -s 0 $$ || return # this script has ended
      [ ! -e "$scratch/has-ended" ] || return
      sleep 0.05
    done
    n_threads=$((n_threads + 1))
    kill -s "$signal" "$(cat "$scratch/pid")"
  done
}

dies_blocked () { # STATUS SIGNAL...
  rm -f "$scratch/pid" "$scratch/full" "$scratch/has-ended"
  mkfifo "$scratch/full"
  exec 3<>"$scratch/full"
  dd if=/dev/zero of="$scratch/full" bs=4096 count=1024 oflag=nonblock 2>/dev/null
  expected_status=$1
  shift
  interrupt_blocked "$@" >/dev/null 2>&1 &
  status=0
  with_signals timeout -s KILL 30 sh -c 'echo $$ >"$0"; exec "$@"' "$scratch/pid" "$program" --kinds null \
    >"$scratch/full" 2>"$scratch/err" || status=$?
  exec 3>&-
  touch "$scratch/has-ended"
  wait $!
  echo "status $status"
  [ $status -eq "$expected_status" ]
}

if [ "$SANITIZER" = thread ]; then
  skip "standard output that nobody reads" "ThreadSanitizer has a thread of its own, which is counted"
elif tells_where; then
  check "standard output that nobody reads: SIGTERM" dies_blocked 143 TERM
  check "... and SIGHUP, which is not waited for" dies_blocked 129 TERM HUP
else
  skip "standard output that nobody reads" "nothing tells where a process sleeps"
fi

# ---- on a terminal ----

escape=$(printf '\033')
# script (1) makes a terminal; all that it is sent is in out.
on_terminal () { # PROGRESS COLOR ENVIRONMENT...: yes|no
  progress=$1
  color=$2
  shift 2
  env TERM=xterm SHELL=/bin/sh "$@" script -qec \
    "'$program' --kinds null --measure hits --seconds 0.001" /dev/null </dev/null >"$scratch/out" 2>&1
  sed -n l "$scratch/out"
  case $progress in
    yes) grep -q "\\[1/1\\] null: hits, 1 of 5" "$scratch/out" || return ;;
    no) ! grep -q "$escape\\[K" "$scratch/out" || return ;;
  esac
  # What stays begins with the table.
  sed "s/.*$escape\\[K//" "$scratch/out" >"$scratch/screen"
  case $color in
    yes) grep -q "^$escape\\[1mnull  no device$escape\\[0m" "$scratch/screen" ;;
    no) ! grep -q "$escape" "$scratch/screen" && grep -q '^null  no device' "$scratch/screen" ;;
  esac
}

if script --version 2>/dev/null | grep -q util-linux; then
  check "on a terminal: progress, and headings are bold" on_terminal yes yes A=b
  check "... not bold, by NO_COLOR" on_terminal yes no NO_COLOR=1
  check "... bold, if that is empty" on_terminal yes yes NO_COLOR=
  check "... neither, by TERM=dumb" on_terminal no no TERM=dumb
else
  skip "on a terminal" "no script of util-linux"
fi

# ---- devices ----

without_device () {
  env OCL_ICD_VENDORS=/nonexistent CUDA_VISIBLE_DEVICES=-1 TARN_TESTING_CUDA_DEVICES=0 "$@"
}

has_null_alone () {
  [ "$(grep -cE '^(null|opencl-|cuda-)' "$scratch/out")" -eq 1 ] && grep -q '^null  no device' "$scratch/out"
}

check "no device: null is measured" runs without_device "$program" --measure hits --seconds 0.001
check "... and nothing else" has_null_alone
for backend in opencl cuda; do
  if "$program" --kinds nothing 2>&1 | grep -q "$backend-"; then
    check "no device: --kinds $backend" status_is 1 without_device "$program" --kinds $backend
    check "... says so" grep -q 'there is no device with such memory' "$scratch/err"
  fi
done

# Rows with numbers for each kind but those that the device is said not to have.
measures_kinds () { # KIND...
  for kind in "$@"; do
    sed -n "/^$kind  /,/^\$/p" "$scratch/out" >"$scratch/kind"
    grep -qE '^hits +1 .* [0-9.]+ [num]s ' "$scratch/kind" && grep -qE '^driver +1 ' "$scratch/kind" \
      || grep -q '^(.*)$' "$scratch/kind" || { echo "no $kind"; return 1; }
  done
}

if ! "$top_builddir/tools/tarn-test" --list >"$scratch/list" 2>/dev/null; then
  skip "this machine's devices" "there is none"
else
  place=$(sed -n '1s/\t.*//p' "$scratch/list")
  check "this machine's first device" status_is 0 quick --select "$place" --threads 1 \
    --measure driver,hits,miss,recovery
  case $place in
    cuda:*) check "... its kinds" measures_kinds null cuda-device cuda-host cuda-managed ;;
    *) check "... its kinds" measures_kinds null opencl-deferred opencl-immediate opencl-svm ;;
  esac
  trace 0,1,allocate,1,1000,1 10,2,allocate,2,1000,2 20,2,free,1,,2 30,1,free,2,,1
  check "... its queues" status_is 0 quick --select "$place" --measure overhead,replay --queues \
    --trace "$scratch/trace.csv"
  check "... by two threads" grep -qE '^replay +2 trace.csv +[0-9.]+' "$scratch/out"
  check "a device that is not there" fails 2 "--select: there is no platform 97; platforms:" --select 97:0
fi

counts_rows () { # N REGEX
  [ "$(grep -c "$2" "$scratch/out")" -eq "$1" ]
}

# What it costs is measured on the device that was meant, and that alone; the other gives no context.
chooses () {
  TARN_TESTING_CUDA_REFUSE_CONTEXTS=0 runs with_fake "$program" --select 'cuda:gpu b' --kinds cuda --measure hits --seconds 0.001 --csv \
    && [ "$(sed 1d "$scratch/out" | cut -d , -f 1 | sort -u)" = cuda:1 ]
}

if [ -e "$fake/libcuda.so.1" ]; then
  check "the fake CUDA driver" runs with_fake "$program" --kinds cuda --select cuda:0 \
    --seconds 0.001 --threads 1,2
  check "... every kind" measures_kinds cuda-device cuda-host cuda-managed
  check "... it has no pool of its own, which is no fault" \
    grep -q '^(the driver has no cuMem' "$scratch/out"
  check "--select" chooses
  trace 0,1,allocate,1,1000,1 10,2,allocate,2,1000,2 20,2,free,1,,2 30,1,free,2,,1
  check "streams" status_is 0 with_fake "$program" --select cuda:0 --kinds cuda,cuda-device+heap \
    --measure overhead,calls,replay --repetitions 2 --queues --trace "$scratch/trace.csv"
  check "... of every kind" counts_rows 12 ' 2 trace.csv  '
  TARN_TESTING_CUDA_FAIL=cuStreamCreate:2
  export TARN_TESTING_CUDA_FAIL
  check "a stream that there is not" status_is 1 with_fake "$program" --select cuda:0 \
    --kinds cuda-device --measure overhead --queues --trace "$scratch/trace.csv"
  unset TARN_TESTING_CUDA_FAIL
  check "... says so" grep -q 'trace.csv *(cuStreamCreate: ' "$scratch/out"
  trace 0,1,allocate,1,1000000000000000,0 10,2,free,1,,0
  check "a thread that fails where another one waits for it" status_is 1 with_fake "$program" \
    --select cuda:0 --kinds cuda-device --measure overhead,replay --queues \
    --trace "$scratch/trace.csv"
  check "... says so" counts_rows 2 'trace.csv *(.*OUT_OF_MEMORY'
  TARN_TESTING_CUDA_REFUSE_CONTEXTS=1
  export TARN_TESTING_CUDA_REFUSE_CONTEXTS
  check "a device without a context" status_is 1 with_fake "$program" --kinds cuda-device \
    --measure hits --seconds 0.001 --threads 1
  unset TARN_TESTING_CUDA_REFUSE_CONTEXTS
  check "... is said to have none" grep -q '^(.*CUDA_ERROR_DEVICE_UNAVAILABLE' "$scratch/out"
  check "... and the other is measured" grep -qE '^hits +1 .* [num]s ' "$scratch/out"
  TARN_TESTING_CUDA_FAIL=cuMemHostAlloc:2
  export TARN_TESTING_CUDA_FAIL
  check "a driver's call that fails" status_is 1 with_fake "$program" --kinds cuda-host,null \
    --select cuda:0 --seconds 0.001 --measure driver
  unset TARN_TESTING_CUDA_FAIL
  check "... is in its row" grep -qE '^driver .*\(.*cuMemHostAlloc.*CUDA_ERROR_OUT_OF_MEMORY' \
    "$scratch/out"
  check "... and the rest is measured" grep -qE '^driver +1 .* [num]s ' "$scratch/out"
else
  skip "the fake CUDA driver" "built without it"
fi
done_testing
