#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# A recording that was made before 0.1.0, at cab5f2f, by two pools over a heap of virtual memory: the
# tools read it as they read new ones.  It has a request that a thread's scratch served, which there
# is no more.
. "$(dirname "$0")/../lib/tap.sh"

trace=$top_builddir/tools/tarn-trace
bench=$top_builddir/tools/tarn-bench
view=$top_builddir/tools/tarn-view
for program in "$trace" "$bench" "$view"; do
  if [ ! -x "$program" ]; then
    skip "a recording of cab5f2f" "$(basename "$program") was not built"
    done_testing
    exit
  fi
done
if ! command -v jq >/dev/null; then
  skip "a recording of cab5f2f" "there is no jq"
  done_testing
  exit
fi
HOME=$scratch # it may choose a device
export HOME
unset TARN_TEST PYOPENCL_TEST NO_COLOR CUDA_DEVICE TARN_TRACE
gunzip -c "$top_srcdir/t/data/recording-cab5f2f.gz" >"$scratch/old" || exit 1

summary_is_right () {
  status_is 0 "$trace" --json "$scratch/old" \
    && jq -e '.events == 2163 and .lost == 0 and .complete
      and ([.objects[] | [.object, .class, .requests, .hits, .misses, .frees]]
           | sort == [[1, "allocator", 0, 0, 0, 0], [2, "heap", 421, 0, 0, 346],
                      [3, "pool", 261, 255, 6, 261], [4, "pool", 260, 252, 8, 230]])' "$scratch/out"
}
check "tarn-trace: what each object did" summary_is_right
events_are_there () {
  status_is 0 "$trace" --print "$scratch/old" && [ "$(wc -l <"$scratch/out")" -eq 2163 ] \
    && status_is 0 "$trace" --print --kind lent "$scratch/old" && grep -q ' lent ' "$scratch/out"
}
check "... and each event" events_are_there
is_replayed () {
  status_is 0 "$bench" --kinds null --repetitions 1 --json --trace "$scratch/old" \
    && [ ! -s "$scratch/err" ] \
    && jq -e '.what_if[0] | .steps == 1017 and .compared == 29
      and (.alternatives[0] | .failures == 0 and .peak_active_bytes == 20022575)' "$scratch/out"
}
check "tarn-bench replays it" is_replayed
is_shown () {
  status_is 0 "$view" -o "$scratch/page.html" "$scratch/old" && grep -q '</html>' "$scratch/page.html"
}
check "tarn-view makes a page of it" is_shown

# ---- the same, compressed ----

bytes=$(wc -c <"$scratch/old")
head -c $((bytes / 2)) "$scratch/old" | gzip >"$scratch/compressed"
tail -c +$((bytes / 2 + 1)) "$scratch/old" | gzip >>"$scratch/compressed"
head -c 200 "$scratch/compressed" >"$scratch/cut"
mv "$scratch/compressed" "$scratch/old" # any name will do
check "tarn-trace reads it compressed, in two parts" summary_is_right
check "... and so does tarn-bench" is_replayed
check "... and so does tarn-view" is_shown
is_refused () { # STATUS COMMAND...
  expected=$1
  shift
  status_is "$expected" "$@" && grep -q "cut: the compressed file is cut off$" "$scratch/err"
}
check "tarn-trace refuses a compressed recording that is cut off" is_refused 1 "$trace" "$scratch/cut"
check "... and so does tarn-view" is_refused 1 "$view" -o "$scratch/page.html" "$scratch/cut"
check "... and so does tarn-bench" is_refused 2 "$bench" --kinds null --trace "$scratch/cut"
done_testing
