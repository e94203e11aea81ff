#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# What pools over heaps take for traces, and how often they ask the driver: on memory that is a
# counter it is the same in every run.  The bounds are a little above what it is.
. "$(dirname "$0")/../lib/tap.sh"

program=$top_builddir/tools/tarn-bench
export G_DEBUG=fatal-criticals
resnet=$top_srcdir/t/data/resnet.csv.gz
if [ ! -x "$program" ]; then
  skip "traces" "built without json-glib"
  done_testing
  exit
fi
case ${DEBUG_FLAGS-} in
  *TARN_DEBUG_LEVEL=2*)
    skip "traces" "each pool would be checked after each operation"
    done_testing
    exit
    ;;
esac

replays () { # ARGUMENT...: rows into $scratch/rows
  "$program" --kinds null+heap,null-plain+heap --measure overhead,calls --csv "$@" >"$scratch/rows"
}

is_within () { # KIND TRACE THREADS RATIO CALLS
  awk -F , -v kind="$1" -v trace="$2" -v threads="$3" -v ratio="$4" -v calls="$5" '
    $2 == kind && $5 == trace && $4 == threads { print; value[$3] = $6 }
    END {
      if (value["overhead"] < 1 || value["overhead"] > ratio) exit 1
      if (value["calls"] < 1 || value["calls"] > calls) exit 1
    }' "$scratch/rows"
}

# A window of 100 blocks of 4 KiB to 100 MiB, whose sizes never come again: random numbers by Park and
# Miller.  With this seed, one request once moved a segment to and fro 2,000 times.
write_window () {
  awk 'BEGIN {
    print "time,thread,action,id,size,queue"
    x = 182138
    for (i = 1; i <= 4000; i++) {
      k = i - 1
      if (i > 100) {
        x = x * 16807 % 2147483647
        k = x % 100
        print ++time ",0,free," live[k] ",,0"
      }
      x = x * 16807 % 2147483647
      print ++time ",0,allocate," i "," 4096 * int(exp(log(25600) * (x % 100000) / 100000) + 1) ",0"
      live[k] = i
    }
  }' >"$scratch/random.csv"
}

check "a program that trains ResNet-50" replays --trace "$resnet"
check "... virtual memory" is_within null+heap resnet.csv.gz 1 1.02 220
check "... parts of memory" is_within null-plain+heap resnet.csv.gz 1 1.05 60
check "a language model on one queue: virtual memory" is_within null+heap model 1 1.03 75
check "a window of random sizes" write_window
check "... replayed" replays --trace "$scratch/random.csv"
check "... virtual memory" is_within null+heap random.csv 1 1.12 300
check "two of them on two queues" replays --queues --weave --trace "$resnet" --trace "$resnet"
check "... virtual memory" is_within null+heap resnet+resnet 2 1.02 440
check "... parts of memory" is_within null-plain+heap resnet+resnet 2 1.19 140
check "a language model on three queues: virtual memory" is_within null+heap model 2 1.07 55
check "... parts of memory" is_within null-plain+heap model 2 1.15 16
done_testing
