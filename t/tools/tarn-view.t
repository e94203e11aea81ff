#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# tarn-view: what it refuses, the pages that it makes of traces of which everything is known; with
# Chromium and Python each view of them, where keys and the mouse do what they do, and numbers are
# what make-trace has made (browse.py).
. "$(dirname "$0")/../lib/tap.sh"

program=$top_builddir/tools/tarn-view
if [ ! -x "$program" ]; then
  skip "tarn-view" "built without GIO"
  done_testing
  exit
fi
make_trace=$top_builddir/t/tools/make-trace
large=300000 # events

# Lines on standard error, the first of which says so; nothing on standard output.
fails () { # STATUS MESSAGE ARGUMENT...
  expected_status=$1
  message=$2
  shift 2
  status_is "$expected_status" "$program" "$@" && [ ! -s "$scratch/out" ] \
    && [ "$(wc -l <"$scratch/err")" -eq 1 ] && grep -qF -e "$message" "$scratch/err"
}

runs () { # ARGUMENT...: in silence
  status_is 0 "$program" "$@" && [ ! -s "$scratch/out" ] && [ ! -s "$scratch/err" ]
}

makes () {
  for trace in known lossy empty odd; do
    "$make_trace" $trace "$scratch/$trace" || return
  done
  "$make_trace" $large "$scratch/large"
}
check "the traces" makes

# ---- bad usage, and bad files ----

check "--frobnicate" fails 2 --frobnicate --frobnicate
check "no file" fails 2 "no file to read"
check "two files" fails 2 "more than one file" "$scratch/known" "$scratch/lossy"
check "--output onto the file itself" fails 2 "--output is the file that is read" \
  -o "$scratch/known" "$scratch/known"
ln -s known "$scratch/link"
check "... by another name" fails 2 "--output is the file that is read" \
  --output="$scratch/link" "$scratch/known"
check "--output onto a folder" fails 2 "--output $scratch: is a folder" -o "$scratch" "$scratch/known"
check "--output into a missing folder" fails 2 "there is no folder '$scratch/no'" \
  -o "$scratch/no/page.html" "$scratch/known"
check "a file that is not there" fails 1 "$scratch/missing" "$scratch/missing"
check "a folder" fails 1 "$scratch" -o "$scratch/page.html" "$scratch"
: >"$scratch/nothing"
check "an empty file" fails 1 "$scratch/nothing" "$scratch/nothing"
printf 'time,thread,action,id,size,queue\n' >"$scratch/text"
check "a file that is no trace" fails 1 "$scratch/text" "$scratch/text"
check "... there is no page of it" [ ! -e "$scratch/text.html" ]

# ---- pages ----

is_whole () { # PAGE: begins and ends as one, and asks nobody for anything
  head -n 1 "$1" | grep -qx '<!DOCTYPE html>' && tail -n 1 "$1" | grep -qx '</html>' \
    && ! grep -E '(src|href)=|@import|url\(' "$1"
}

says_what_is_missing () {
  status_is 0 "$program" "$scratch/lossy" && grep -q '12345 events were lost' "$scratch/err" \
    && grep -q 'was not ended' "$scratch/err"
}

# No text of a trace is in the page as it is but the file's name.
escapes () {
  name="</title><script>alert(1)<&'\".trace"
  mkdir -p "$scratch/$(dirname "$name")" && cp "$scratch/known" "$scratch/$name" \
    && runs "$scratch/$name" -o "$scratch/escaped.html" \
    && ! grep -F 'alert(1)' "$scratch/escaped.html" | grep -F '<script>alert' \
    && grep -c '<title>title&gt;&lt;script&gt;alert(1)&lt;&amp;' "$scratch/escaped.html" \
    && ! grep -F 'onerror' "$scratch/escaped.html"
}

# Each page is cut off somewhere; what is there is shown.
cuts () {
  size=$(wc -c <"$scratch/known")
  for n in 64 100 $((size / 2)) $((size - 40)) $((size - 1)); do
    head -c "$n" "$scratch/known" >"$scratch/cut"
    "$program" "$scratch/cut" 2>"$scratch/err"
    status=$?
    cat "$scratch/err"
    [ $status -le 1 ] && [ -s "$scratch/err" ] || { echo "$n: status $status"; return 1; }
  done
}

check "a page" runs "$scratch/known"
check "... is called as the file, with .html behind it" is_whole "$scratch/known.html"
check "--output" runs -o "$scratch/page.html" "$scratch/known"
check "... the same page" cmp "$scratch/known.html" "$scratch/page.html"
check "... again, over the old one" runs --output "$scratch/page.html" "$scratch/known"
check "lost events, and no end" says_what_is_missing
check "... the page is there" is_whole "$scratch/lossy.html"
check "names and tags that are HTML" escapes
check "files that are cut off" cuts
check "an empty trace" runs "$scratch/empty"
check "a trace of numbers that no memory has" status_is 0 "$program" "$scratch/odd"
check "a large trace" runs "$scratch/large"
check "... takes at most 8 bytes for an event" [ "$(wc -c <"$scratch/large.html")" -lt $((large * 8)) ]

# ---- the guide's examples ----

example () { # STATUS NAME [--fixed]: recorded
  page=$2${3:+-fixed}
  TARN_TRACE="$scratch/$page" TARN_TRACE_STACKS=8 status_is "$1" "$top_builddir/doc/examples/$2" ${3:+"$3"} \
    && runs -o "$scratch/$page.html" "$scratch/$page"
}
check "a program that leaks" example 1 leaking
check "... mended" example 0 leaking --fixed
check "a program that fragments memory" example 1 fragmenting
check "... mended" example 0 fragmenting --fixed

# ---- in a browser ----

for browser in chromium chromium-browser google-chrome ""; do
  ! command -v "$browser" >/dev/null || break
done
# Whether it runs here at all: it does not in every container.
starts () {
  echo '<p>it runs' >"$scratch/try.html"
  sandbox=
  [ "$(id -u)" -ne 0 ] || sandbox=--no-sandbox
  HOME=$scratch timeout 120 "$browser" --headless=new $sandbox --disable-gpu \
    --user-data-dir="$scratch/profile" --dump-dom "file://$scratch/try.html" 2>/dev/null \
    | grep -q 'it runs'
}

if [ -z "$browser" ]; then
  skip "pages in a browser" "there is no Chromium"
elif ! command -v python3 >/dev/null; then
  skip "pages in a browser" "there is no python3"
elif [ "$SANITIZER" = no ] && starts; then
  HOME=$scratch timeout 900 python3 "$top_srcdir/t/tools/browse.py" "$browser" "$scratch" \
    >"$scratch/checks" 2>"$scratch/trouble"
  status=$?
  while read -r line; do
    case $line in
      "ok "*) check "in a browser: ${line#ok }" true ;;
      "not ok "*) check "in a browser: ${line#not ok }" false ;;
      *) echo "$line" ;;
    esac
  done <"$scratch/checks"
  check "in a browser: to the end" sh -c 'cat "$1"; exit "$2"' sh "$scratch/trouble" $status
elif [ "$SANITIZER" != no ]; then
  skip "pages in a browser" "they are the same with a sanitizer"
else
  skip "pages in a browser" "$browser does not start"
fi
done_testing
