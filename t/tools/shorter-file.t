#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# tarn-trace says so if another program makes its recording shorter while it reads it.
. "$(dirname "$0")/../lib/tap.sh"

program=$top_builddir/tools/tarn-trace
if [ ! -x "$program" ]; then
  skip "a file that becomes shorter" "built without json-glib"
  done_testing
  exit
fi

# tarn-trace waits, with most events unread, until the pipe is read again.
becomes_shorter () {
  "$top_builddir/t/tools/make-trace" 300000 "$scratch/large" || return
  mkfifo "$scratch/pipe"
  {
    "$program" --print "$scratch/large" >"$scratch/pipe" 2>"$scratch/err"
    echo $? >"$scratch/status"
  } &
  {
    read -r first
    : >"$scratch/large"
    cat >/dev/null
  } <"$scratch/pipe"
  wait
  [ -n "$first" ] && [ "$(cat "$scratch/status")" -eq 1 ] \
    && grep -qx "tarn-trace: $scratch/large became shorter while it was read" "$scratch/err"
}

check "tarn-trace names the file" becomes_shorter
done_testing
