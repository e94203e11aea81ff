#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# tarn-trace and tarn-view name the functions in stacks of take-stacks: static and inlined ones, and
# ones that end with a call, with their files and lines; also for a snapshot, and in other programs'
# formats.  Nothing gets a wrong name: if a program was rebuilt, has no build-id, or is missing, one
# message says that it has no names; a stripped one has none.
. "$(dirname "$0")/../lib/tap.sh"

trace=$top_builddir/tools/tarn-trace
view=$top_builddir/tools/tarn-view
here=$top_builddir/t/tools
give_up () { # REASON
  skip "names in stacks" "$1"
  done_testing
  exit
}
[ -x "$trace" ] && [ -x "$view" ] || give_up "built without json-glib"
[ "${have_libdw:-yes}" = yes ] || give_up "built without libdw"
command -v jq >/dev/null || give_up "there is no jq"
unset DEBUGINFOD_URLS TARN_TEST TARN_TRACE NO_COLOR

program=$scratch/program
record () { # FILE PROGRAM
  rm -f "$program" "$1" && cp "$2" "$program" \
    && TARN_TRACE=$1 TARN_TRACE_STACKS=16 TARN_SNAPSHOT_ON_OOM=$1.snapshot "$program" 2>/dev/null
  [ -s "$1" ] && [ -s "$1.snapshot" ]
}
line_of () { # FUNCTION
  grep -n "/\* $1 \*/" "$top_srcdir/t/tools/take-stacks.c" | cut -d : -f 1
}
# Paths are whole, unless the compiler was told to write others (-ffile-prefix-map, as in packages).
root=/
readelf --debug-dump=info "$here/take-stacks" 2>/dev/null \
  | grep -m 1 DW_AT_comp_dir | grep -q ': [^/ ][^ ]*$' && root=
runs () { # COMMAND...: in silence
  status_is 0 "$@" && [ ! -s "$scratch/err" ]
}

# Standard output is JSON of which a filter holds.
has () { # FILTER
  jq -e -s --argjson load "$(line_of load_weights)" --argjson plan "$(line_of make_plan)" \
    --argjson network "$(line_of run_network)" --argjson much "$(line_of ask_for_too_much)" \
    --argjson last "$(line_of finish)" --argjson ends "$(line_of end_by_call)" \
    --argjson main "$(line_of main)" --arg program "$program" \
    --arg root "$root" \
    "def is_source: startswith(\$root) and (\"/\" + . | endswith(\"/t/tools/take-stacks.c\"));
      def own: map(select(.file // \"\" | is_source) | [.function, .line]); $1" "$scratch/out" >/dev/null
}
prints_events () { # FILTER, of all events with a tag, or that failed
  runs "$trace" --print --json "$scratch/trace" && has "map(select(.frames)) | $1"
}

# The data of a page: its first line is JSON.
take_data () { # PAGE
  sed -n 's/.*<script type="text\/plain" id="data">\(.*\)<\/script>.*/\1/p' "$1" | base64 -d | gunzip \
    | head -n 1 >"$scratch/out" && [ -s "$scratch/out" ]
}
shows () { # FILE FILTER, of the frames of a program's functions that a page has
  runs "$view" -o "$scratch/page.html" "$1" && take_data "$scratch/page.html" \
    && has ".[0].frames | [.[] | select(.[2] == \$program) | [.[0], .[4], .[5]]] | $2"
}

check "a recording" record "$scratch/trace" "$here/take-stacks"

check "a static function, its file and line" prints_events \
  'any(.tag == "weights" and (.frames | own[0:2]) == [["load_weights", $load], ["main", $main]])'
check "... the file is a whole path" prints_events \
  'any(.[].frames[]; .function == "main" and .module == $program
    and (.file | is_source))'
check "a function that is inlined, and the one it is in" prints_events \
  'any(.tag == "plan" and (.frames | own[0:2]) == [["make_plan", $plan], ["run_network", $network]])'
check "a function that ends with a call" prints_events \
  'any(.tag == "last" and (.frames | own[0:2]) == [["finish", $last], ["end_by_call", $ends]])'
check "a request that failed" prints_events \
  'any(.kind == "fail" and (.frames | own[0]) == ["ask_for_too_much", $much])'

prints_summary () {
  runs "$trace" "$scratch/trace" && tr -s ' \n' '  ' <"$scratch/out" >"$scratch/line" \
    && grep -F "load_weights (take-stacks.c:$(line_of load_weights)) < main (take-" "$scratch/line"
}
sums_up () {
  runs "$trace" --json "$scratch/trace" && has ".[0].peak.by_stack
    | any(.stack | contains(\"/take-stacks.c:\\(\$load)) < main (\" + \$root))"
}
check "the summary as JSON, with whole paths" sums_up
# There its first frames are not left out.
if [ "${enable_shared:-yes}" = yes ]; then
  check "... and for people" prints_summary
else
  skip "... and for people" "the library is in the program"
fi
prints_first () {
  runs "$trace" --print "$scratch/trace" && grep -E 'tag="weights" frames=\["[a-z_]+ \([a-z-]+\.c:[0-9]+\)", \.\.\.\]' \
    "$scratch/out"
}
check "--print, for people" prints_first
writes_pytorch () {
  runs "$trace" --pytorch "$scratch/trace" \
    && has '[.[].device_traces[][].frames[]] | any(.name == "load_weights" and .line == $load
      and (.filename | is_source))'
}
check "--pytorch" writes_pytorch
writes_chrome () {
  runs "$trace" --chrome "$scratch/trace" \
    && has "[.[].traceEvents[].args.stack | strings]
      | any(contains(\"ask_for_too_much (take-stacks.c:\\(\$much)) < main (take-stacks.c:\"))"
}
check "--chrome" writes_chrome
check "tarn-view" shows "$scratch/trace" \
  'any(.[0] == "load_weights" and (.[1] | is_source) and .[2] == $load)
    and any(.[0] == "make_plan" and .[2] == $plan) and any(.[0] == "run_network" and .[2] == $network)'
check "... of a snapshot" shows "$scratch/trace.snapshot" \
  'any(.[0] == "load_weights" and (.[1] | is_source) and .[2] == $load)'

# ---- other files than those that ran ----

# No function of the program has a name, and there is its offset; of what it calls, all have.
has_no_names () {
  has 'map(select(.frames) | .frames[] | select(.module == $program))
    | length > 8 and all(.function == null and .file == null and .module_offset > 0)'
}
says_once () { # MESSAGE TRACE
  for format in "--json --print" --json --pytorch --chrome; do
    # shellcheck disable=SC2086  # options are words
    status_is 0 timeout 100 "$trace" $format "$2" && [ "$(cat "$scratch/err")" = "tarn-trace: $program: $1" ] \
      || return
  done
  status_is 0 "$view" -o "$scratch/page.html" "$2" \
    && [ "$(cat "$scratch/err")" = "tarn-view: $program: $1" ]
}
names_nothing () { # MESSAGE TRACE
  says_once "$1" "$2" && status_is 0 "$trace" --print --json "$2" && has_no_names
}
prints_offsets () { # TRACE
  status_is 0 "$trace" --json "$1" \
    && has 'any(.[].peak.by_stack[].stack; test("/program\\+0x[0-9a-f]+ < [^<]*/program\\+0x"))'
}

cp "$here/take-stacks-rebuilt" "$program"
check "a program that was rebuilt" names_nothing "another build than was recorded" "$scratch/trace"
check "... places in it are offsets" prints_offsets "$scratch/trace"
snapshot_says_once () {
  status_is 0 "$view" -o "$scratch/page.html" "$scratch/trace.snapshot" \
    && [ "$(cat "$scratch/err")" = "tarn-view: $program: another build than was recorded" ]
}
check "... also of a snapshot" snapshot_says_once
rm "$program"
check "a program that is gone" names_nothing "No such file or directory" "$scratch/trace"
mkdir "$program"
check "a folder in its place" names_nothing "Invalid argument" "$scratch/trace"
rmdir "$program"
mkfifo "$program"
check "a pipe in its place" names_nothing "Invalid argument" "$scratch/trace"
rm "$program"
echo nothing >"$program"
check "another file in its place" names_nothing "another build than was recorded" "$scratch/trace"
cp "$here/take-stacks" "$program"
check "the program again" runs "$trace" "$scratch/trace"

check "a recording of a program without a build-id" record "$scratch/no-id" "$here/take-stacks-without-id"
check "... nothing is named" names_nothing "no build-id was recorded, so its functions have no names" \
  "$scratch/no-id"

cp "$here/take-stacks" "$scratch/stripped"
if strip "$scratch/stripped"; then
  check "a recording of a stripped program" record "$scratch/stripped-trace" "$scratch/stripped"
  stripped_has_no_names () {
    runs "$trace" --print --json "$scratch/stripped-trace" && has_no_names
  }
  check "... it has no names, which nobody can help" stripped_has_no_names
  check "... places in it are offsets" prints_offsets "$scratch/stripped-trace"
else
  skip "a stripped program" "there is no strip"
fi

# ---- debuginfod ----

# Its client reads a folder, too, where DEBUGINFOD_URLS is one.
id=$(readelf -n "$here/take-stacks" 2>/dev/null | sed -n 's/.*Build ID: //p')
finds_by_id () {
  mkdir -p "$scratch/server/buildid/$id" \
    && cp "$here/take-stacks" "$scratch/server/buildid/$id/executable" || return
  cp "$here/take-stacks-rebuilt" "$program"
  runs env DEBUGINFOD_URLS="file://$scratch/server/" DEBUGINFOD_CACHE_PATH="$scratch/cache" \
    "$trace" --print --json "$scratch/trace" \
    && has 'any(.tag == "weights" and (.frames | own[0]) == ["load_weights", $load])'
}
if [ -n "$id" ] && PATH=$PATH:/sbin ldconfig -p 2>/dev/null | grep -q 'libdebuginfod\.so\.1'; then
  check "the build that was recorded, from debuginfod" finds_by_id
else
  skip "the build that was recorded, from debuginfod" "there is no libdebuginfod, or no readelf"
fi
done_testing
