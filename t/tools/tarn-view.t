#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# tarn-view: what it refuses, the pages that it makes of traces of which everything is known, and of
# a program's snapshots; with Chromium and Python each view of them, where keys and the mouse do what
# they do, and numbers are what make-trace has made, or the snapshot says (browse.py).
. "$(dirname "$0")/../lib/tap.sh"

program=$top_builddir/tools/tarn-view
if [ ! -x "$program" ]; then
  skip "tarn-view" "built without json-glib"
  done_testing
  exit
fi
make_trace=$top_builddir/t/tools/make-trace
make_snapshot=$top_builddir/t/tools/make-snapshot
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
  for trace in known lossy empty odd pools; do
    "$make_trace" $trace "$scratch/$trace" || return
  done
  "$make_trace" $large "$scratch/large"
}
check "the traces" makes

# Both with their memory as parts that have addresses of their own, and without.
makes_snapshots () {
  "$make_snapshot" virtual "$scratch/asked" >/dev/null \
    && "$make_snapshot" parts "$scratch/parts" >/dev/null \
    && TARN_TRACE_STACKS=8 TARN_SNAPSHOT_ON_OOM=$scratch/oom "$make_snapshot" virtual >/dev/null \
    && [ -s "$scratch/oom" ]
}
check "the snapshots" makes_snapshots

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

# ---- bad snapshots ----

cat >"$scratch/small" <<'END'
{"tarn-snapshot":1,"date":"2026-11-25T08:32:29Z","pid":7,"followed":true,"allocators":[
{"id":1,"class":"heap","options":{"alignment":9223372036854775807,"limit_bytes":null},"pieces":[
{"address":"0x1000","size":4096,"queue":"0xbeef"}],"extents":[
{"address":"0x1000","size":100}]},
{"id":2,"class":"pool","upstream":1,"blocks":[
{"address":"0x1000","active":true,"size":90,"alloc_size":100,"tag":"t","stack":3,"age":5},
{"address":"0x1080","active":false,"alloc_size":50}]}],"stacks":[
{"stack":3,"frames":[{"address":"0x10"}]}]}
END

refuses () { # MESSAGE SED-SCRIPT
  rm -f "$scratch/wrong.html"
  sed "$2" "$scratch/small" >"$scratch/wrong"
  ! cmp -s "$scratch/small" "$scratch/wrong" && fails 1 "$scratch/wrong: $1" "$scratch/wrong" \
    && [ ! -e "$scratch/wrong.html" ]
}

# At whichever byte it ends: an error, and no page.
refuses_cuts () {
  size=$(wc -c <"$scratch/small")
  for n in $(seq 0 $((size - 2))); do
    head -c "$n" "$scratch/small" >"$scratch/cut"
    fails 1 "$scratch/cut" -o "$scratch/cut.html" "$scratch/cut" || { echo "$n"; return 1; }
  done
  [ ! -e "$scratch/cut.html" ]
}

refuses_lists () { # TEXT: very often
  awk -v text="$1" 'BEGIN {
    printf "{\"tarn-snapshot\":1,\"allocators\":"
    for (i = 0; i < 100000; i++) printf "%s", text
  }' >"$scratch/deep"
  fails 1 "$scratch/deep: line 1: more than 32 lists in one another" "$scratch/deep"
}

check "a small snapshot" runs "$scratch/small"

# Nothing at all; pools that are each other's upstream, and a heap that is its own, of numbers that no
# memory has.
cat >"$scratch/none.json" <<'END'
{"tarn-snapshot":1,"pid":0,"followed":false,"allocators":[]}
END
cat >"$scratch/odd.json" <<'END'
{"tarn-snapshot":1,"pid":4294967295,"followed":true,"reason":"whim","allocators":[
{"id":1,"class":"pool","upstream":2,"blocks":[
{"address":"0x1","active":true,"size":0,"alloc_size":0,"age":9223372036854775807},
{"address":"0x9","active":true,"size":7,"alloc_size":9223372036854775807,"age":0}]},
{"id":2,"class":"pool","upstream":1},
{"id":9223372036854775807,"class":"heap","upstream":9223372036854775807,"pieces":[
{"address":null,"size":10}],"extents":[
{"address":null,"size":100,"part":"0xffffffffffffffff"},
{"address":"0x1","size":100,"part":"0xffffffffffffffff"}]}]}
END
check "a snapshot of nothing" runs "$scratch/none.json"
check "a snapshot of numbers that no memory has" runs "$scratch/odd.json"
while IFS='|' read -r what message script; do
  check "a snapshot with $what" refuses "$message" "$script"
done <<'END'
another form|written by another version: form 2, not 1|s/"tarn-snapshot":1/"tarn-snapshot":2/
a form that is no number|tarn-snapshot is no whole number|s/"tarn-snapshot":1/"tarn-snapshot":"1"/
no process|there is no number pid|s/"pid":7,//
a process out of range|pid 4294967296 is out of range|s/"pid":7/"pid":4294967296/
a date that is none|date 'now' is invalid|s/2026-11-25T08:32:29Z/now/
no word on whether blocks were followed|followed is neither true nor false|s/"followed":true/"followed":1/
no allocators|there is no list allocators|s/"allocators"/"others"/
a number as its stacks|stacks is no list|$s/.*/"x":1}/;s/"stacks":\[/"stacks":7,/
an allocator that is a number|allocators[0]: this is no object|s/"allocators":\[/&5,/
a class that is unknown|allocators[0]: class 'pile' is unknown|s/"heap"/"pile"/
no class|allocators[1]: class '' is unknown|s/"class":"pool",//
no id|allocators[0]: there is no number id|s/"id":1,//
an id of 0|allocators[0]: id 0 is out of range|s/"id":1,/"id":0,/
an id that no page can have|line 2: 9223372036854775808 has more than 63 bits|s/"id":1,/"id":9223372036854775808,/
an id twice|allocators[1]: id 1 is there twice|s/"id":2,/"id":1,/
an upstream that is not there|allocators[1]: there is no allocator 9, its upstream|s/"upstream":1/"upstream":9/
options that are a list|allocators[0]: options is no object|s/"options":{[^}]*}/"options":[]/
an option that is a text|allocators[0].options[0]: alignment is no whole number|s/9223372036854775807/"x"/
a number of 64 bits|line 2: 9223372036854775808 has more than 63 bits|s/9223372036854775807/9223372036854775808/
a number of 65 bits|line 2: 18446744073709551616 has more than 63 bits|s/9223372036854775807/18446744073709551616/
a number below 0|line 6: '-' has no place outside of a text|s/"age":5/"age":-5/
a number with a fraction|allocators[1].blocks[0]: age is no whole number|s/"age":5/"age":5.5/
a number that C takes for an octal one|line 6: 05 is not a number of JSON|s/"age":5/"age":05/
a comment|line 4: '/' has no place outside of a text|s|"size":100|/* " */&|
a byte of 0xff|line 4: byte 0xff has no place outside of a text|s/"size":100/\xff&/
no size of a block|allocators[1].blocks[0]: there is no number size|s/"size":90,//
a block larger than its memory|allocators[1].blocks[0]: size 101 is more than alloc_size 100|s/"size":90/"size":101/
no size of a held block|allocators[1].blocks[1]: there is no number alloc_size|s/,"alloc_size":50//
a block that is neither in use nor held|allocators[1].blocks[1]: active is neither true nor false|s/"active":false,//
a block twice|allocators[1].blocks[1]: address 0x1000 is there twice|s/0x1080/0x1000/
a block at no address|allocators[1].blocks[1]: address '4224' is no address|s/0x1080/4224/
a block larger than any memory|line 7: 9223372036854775808 has more than 63 bits|s/"alloc_size":50/"alloc_size":9223372036854775808/
a block beyond all addresses|allocators[1].blocks[1]: no memory has 50 bytes at 0xffffffffffffffff|s/0x1080/0xffffffffffffffff/
an address that is a number|allocators[0].pieces[0]: address is no text|s/"0x1000","size":4096/4096,"size":4096/
a piece without a size|allocators[0].pieces[0]: there is no number size|s/,"size":4096//
an extent whose part is a number|allocators[0].extents[0]: part is no text|s/"size":100}/"size":100,"part":1}/
an extent twice|allocators[0].extents[1]: address 0x1000 is there twice|s/^{"address":"0x1000","size":100}/&,&/
a piece twice at 0|allocators[0].pieces[1]: address 0x0 is there twice|s/^{"address":"0x1000","size":4096,"queue":"0xbeef"}/{"address":null,"size":4096},{"address":null,"size":1}/
a stack that is not there|allocators[1].blocks[0]: there is no stack 4|s/"stack":3,"age"/"stack":4,"age"/
a stack twice|stacks[1]: stack 3 is there twice|$s/^\({.*}\)\]}$/\1,\1]}/
a frame at no address|stacks[0].frames[0]: address '0x' is no address|s/"0x10"/"0x"/
a comma too many|<data>:|s/"age":5/&,/
END
check "a snapshot that ends anywhere" refuses_cuts
check "100,000 lists in one another" refuses_lists '['
check "... objects" refuses_lists '{"a":'
check "tarn-trace says what shows a snapshot" sh -c \
  '[ ! -x "$1" ] || { ! "$1" "$2" 2>&1; } | grep -F "this is a snapshot, not a recorded trace: tarn-view(1) shows it"' \
  sh "$top_builddir/tools/tarn-trace" "$scratch/small"
printf '{"tarn":1}\n' >"$scratch/other"
check "another file of JSON" fails 1 "this is not a recorded trace" "$scratch/other"

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
check "a program's snapshot" runs "$scratch/asked"
check "... the page is whole" is_whole "$scratch/asked.html"
check "... when memory ran out" runs "$scratch/oom"
check "... of memory that the driver has other addresses for" grep -q '"part":"0x' "$scratch/parts"
check "... a page of it" runs "$scratch/parts"
check "a large trace" runs "$scratch/large"
check "... takes at most 8 bytes for an event" [ "$(wc -c <"$scratch/large.html")" -lt $((large * 8)) ]
check "many pools that end beside many blocks: in seconds, not minutes" \
  status_is 0 timeout 30 "$program" "$scratch/pools"

# Only the pool above has a life, of two events, and the free of the block below is not unknown.
counts_once () {
  "$make_trace" nested "$scratch/nested" && runs -o "$scratch/nested.html" "$scratch/nested" || return
  sed -n 's/.*id="data">\([^<]*\).*/\1/p' "$scratch/nested.html" | base64 -d | gzip -dc >"$scratch/data"
  grep -aq '"unknown":0[,}]' "$scratch/data" && grep -aqE '"name":"event_time","code":[0-9]+,"n":2,' "$scratch/data"
}
if command -v base64 >/dev/null && command -v gzip >/dev/null; then
  check "a pool whose backend gets memory from another pool: bytes are shown once" counts_once
else
  skip "a pool whose backend gets memory from another pool" "there is no base64, or no gzip"
fi

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

# ---- addresses ----

# What a page says of the part behind # in its address; the scripts of a page need no browser for it.
cat >"$scratch/address.js" <<'END'
const fs = require('fs'), vm = require('vm');
const page = fs.readFileSync(process.argv[2], 'utf8');
const script = page.slice(page.indexOf("'use strict'"), page.indexOf('</script>', page.indexOf("'use strict'")));
vm.runInThisContext(script + '; globalThis.find = findAddressFaults; globalThis.count = formatCountOf;');
const trace = { isSnapshot: process.argv[3] === 'snapshot', pools: [1], heaps: [2] };
const of = address => find(new URLSearchParams(address), trace).join(' ');
for (const address of process.argv.slice(4))
  console.log(address.startsWith('count=') ? count(Number(address.slice(6)), 'block') : of(address));
END
says_of () { # KIND ADDRESS EXPECTED
  node "$scratch/address.js" "$scratch/known.html" "$1" "$2" >"$scratch/said" || return
  cat "$scratch/said"
  [ "$(cat "$scratch/said")" = "$3" ]
}
if command -v node >/dev/null && runs -o "$scratch/known.html" "$scratch/known"; then
  check "an address" says_of trace 'view=lives&t=2000000&object=2&by=stack&range=0-1000&theme=dark' ''
  check "... whose view is unknown" says_of trace view=nothing \
    '#view=nothing is unknown; there are bytes, lives, heap, peak, cursor, leaks, calls.'
  check "... of a snapshot" says_of snapshot view=lives \
    '#view=lives is unknown; there are objects, heap, cursor.'
  check "... whose groups are unknown" says_of trace by=age \
    '#by=age is unknown; there are tag, caller, stack, size, queue, thread, pool, sort.'
  check "... whose time is no number" says_of trace t=1.5s '#t=1.5s is not a number.'
  check "... whose range is none" says_of trace range=5 '#range=5 is not two numbers, such as 0-1000.'
  check "... of an object that is not there" says_of trace object=3 \
    '#object=3: there is no such pool or heap.'
  check "... with another word" says_of trace moment=1 \
    '#moment= is unknown; there are view, t, object, by, range, theme.'
  check "one block" says_of trace count=1 '1 block'
  check "two blocks" says_of trace count=2 '2 blocks'
else
  skip "addresses of pages" "there is no node"
fi
# shellcheck disable=SC2016  # troff
check "the manual has all views" sh -c 'for view in bytes lives heap peak cursor leaks calls objects; do
  sed -n "/^.BI view=/,/^.TP/p" "$1" | grep -qw "$view" || exit; done' sh \
  "$top_srcdir/doc/man/tarn-view.1"

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
