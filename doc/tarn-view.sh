#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# Makes README's picture, doc/tarn-view.png: records doc/examples/leaking and photographs tarn-view's
# page of the recording, in the view Lives.  Needs a built tree, in which it is run, and Chromium.
#   doc/tarn-view.sh [CHROMIUM]
set -eu
browser=${1:-chromium}
picture=$(cd "$(dirname "$0")" && pwd)/tarn-view.png
scratch=$(mktemp -d "${TMPDIR:-/tmp}/tarn-picture.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

# It runs out of memory, as it should.
! TARN_TRACE=$scratch/leaking.trace doc/examples/leaking 2>/dev/null
tools/tarn-view "$scratch/leaking.trace" -o "$scratch/leaking.html"

# From the first request until all is freed, in ns: the program takes longer to start.
range=$(tools/tarn-trace --print "$scratch/leaking.trace" \
  | awk '/ miss / && !first { first = $1 } { last = $1 }
         END { printf "%d-%d", first * 1e9 - 100000, last * 1e9 }')

# Chromium refuses to run as root in its sandbox.
sandbox=
[ "$(id -u)" -ne 0 ] || sandbox=--no-sandbox
# shellcheck disable=SC2086  # empty, or one word
HOME=$scratch "$browser" --headless=new $sandbox --disable-gpu --no-first-run --hide-scrollbars \
  --user-data-dir="$scratch/profile" --window-size=1200,700 --virtual-time-budget=8000 \
  --screenshot="$picture" "file://$scratch/leaking.html#view=lives&range=$range" 2>"$scratch/log" \
  || { cat "$scratch/log" >&2; exit 1; }
