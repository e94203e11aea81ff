#!/bin/bash
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# Runs programs that Debian has as packages, and tests of others, unmodified: without Tarn's layer, with
# it, with its debugging, and with a recording.  Every result has to be the same.
#   t/opencl/programs/packaged-programs.sh [-n TIMES] [PROGRAM...]      (default: clblast clfft)
# It wants Tarn built in this tree and an OpenCL device of platform 0.
#   clblast    tests of CLBlast's (package clblast-tests); CLBLAST_ROUTINES="xdot xtrsm" names others
#   clfft      clFFT's client, which looks at its results (clfft-client)
#   gegl       chains of filters, whose image has to be the same to the byte (gegl)
#   pyopencl   PyOpenCL's tests (python3-pyopencl python3-mako python3-pytest), which no package has:
#              PYOPENCL_TESTS is their folder, or a file there; PYOPENCL_CHOICE says what of it is run (pytest's -k)
#   cts        tests of Khronos's OpenCL-CTS that are built: CTS_BUILD is the folder; CTS_TESTS="test_api
#              test_buffers" names others, "test_basic:loop,hostptr" some of one; CTS_WITHOUT="loop hostptr" leaves
#              some out; CTS_OPTIONS="-w small_images" are options of every one; CTS_CHUNK=1 runs each of their
#              tests as a process of its own, 8 of them eight at a time.  A driver may crash in a test
#              without the layer: it has to with the layer
#   hashcat    a search for a word of four digits (hashcat)
#   darktable  nine of its filters, whose image has to be the same to the byte (darktable clinfo); it compiles all
#              its kernels first, which takes minutes: PROGRAMS_SECONDS=900
#   others     what OTHERS, a file, has: a name and a command a line; lines of standard output are the results, but
#              for those that OTHERS_VARY (an extended regular expression) fits
# -n TIMES runs each TIMES times without the layer and with it, in turns, once its kernels are compiled,
# and prints medians of the time, of processors' time and of the peak of memory (package time).  PROGRAMS_SECONDS
# (300) is the most that one run may take.
# The last line says what failed, or how many results are the same.
set -u -o pipefail
top=$(cd "$(dirname "$0")/../../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/packaged-programs.XXXXXX")
trap 'rm -rf "$work"' EXIT
times=0
seconds=${PROGRAMS_SECONDS:-300}
failures=()
n_results=0
n_recordings=0
# Kernels are compiled once, and none is what another version of a package left.
export POCL_CACHE_DIR=$work/cache
mkdir "$POCL_CACHE_DIR"
unset OPENCL_LAYERS TARN_DEBUG TARN_TRACE

fail () {
  echo "not ok: $*"
  failures+=("$*")
}

wants () { # COMMAND...
  local command
  for command; do
    command -v "$command" >/dev/null || { fail "$command is not installed"; return 1; }
  done
}

# Runs a command in a folder of its own: out, err and status are its results there.
run_as () { # HOW COMMAND...
  local how=$1 wrap=()
  shift
  case $how in
    plain) ;;
    layer) wrap=("$top/tools/tarn-run" --stats --) ;;
    debug) wrap=("$top/tools/tarn-run" --debug "guards,poison,leaks" --) ;;
    trace) wrap=("$top/tools/tarn-run" --trace "$work/trace.%p" --) ;;
  esac
  rm -rf "${work:?}/$how"
  mkdir "$work/$how"
  (cd "$work/$how" && timeout "$seconds" "${wrap[@]}" "$@" >out 2>err; echo $? >status)
}

# The numbers of a row of --stats, of all processes of a command: 1 made, 2 from a pool, 3 the driver's
# own, 4 the pool's.
sum_stats () { # HOW COLUMN
  awk -v column="$2" '/^Tarn: OpenCL buffers/ { row = NR + 2 } NR == row { sum += $column } END { print sum + 0 }' \
    "$work/$1/err"
}

median () { sort -n | awk '{ n[NR] = $1 } END { print n[int((NR + 1) / 2)] }'; }

measure () { # HOW COMMAND...
  local how=$1
  (cd "$work/plain" && /usr/bin/time -q -a -o "$work/$how.times" -f '%e %M %U %S' "${@:2}" >/dev/null 2>&1)
}

# Medians of runs in turns, as the machine may be busy with other things.
compare_times () { # NAME COMMAND...
  local name=$1 i how
  shift
  rm -f "$work"/*.times
  for ((i = 0; i < times; i++)); do
    measure plain "$@"
    measure layer "$top/tools/tarn-run" "$@"
  done
  for how in plain layer; do
    printf -v "time_$how" %s "$(awk '{ print $1 }' "$work/$how.times" | median)"
    printf -v "processor_$how" %s "$(awk '{ print $3 + $4 }' "$work/$how.times" | median)"
    printf -v "peak_$how" %s "$(awk '{ print int ($2 / 1024) }' "$work/$how.times" | median)"
  done
  # shellcheck disable=SC2154  # set above
  echo "   $name: $time_plain s without the layer, $time_layer s with it;" \
    "of processors $processor_plain and $processor_layer s; peaks of $peak_plain and $peak_layer MiB"
}

# What is compared of a run of the current program; each line is a result.
results () { # HOW
  "results_of_$program" "$1" && echo "exit status $(cat "$work/$1/status")"
}

# Runs a command in each way, and compares.
compare () { # NAME COMMAND...
  local name=$1 how n trace ending
  shift
  run_as plain "$@"
  if [ "$(cat "$work/plain/status")" -eq 124 ]; then
    fail "$name takes longer than $seconds s (PROGRAMS_SECONDS)"
    return
  fi
  results plain >"$work/plain.results"
  n=$(($(wc -l <"$work/plain.results") - 1))
  if [ "$n" -lt 1 ]; then
    fail "$name has no results: $(tail -n 3 "$work"/plain/{out,err} | tr '\n' ' ')"
    return
  fi
  for how in layer debug trace; do
    run_as $how "$@"
    if [ "$(cat "$work/$how/status")" -eq 124 ]; then
      fail "$name takes longer than $seconds s ($how; PROGRAMS_SECONDS)"
      continue
    fi
    results $how >"$work/$how.results"
    diff "$work"/{plain,$how}.results | head -n 20 && continue
    fail "$name: other results ($how)"
    grep -a '^Tarn' "$work/$how/err" | head -n 20
  done
  # The layer says nothing, but for numbers that were asked for, unless something is wrong.
  if grep -aE '^\(?Tarn|Tarn-(WARNING|CRITICAL)|^\*\*( |$)|\*\*:' "$work/debug/err" | grep -v '^Tarn: OpenCL buffers'; then
    fail "$name: debugging finds a mistake"
  fi
  for trace in "$work"/trace.[0-9]*; do
    [ -e "$trace" ] || continue
    # A driver that crashes ends the recording.
    ending=complete
    [ "$(cat "$work/plain/status")" -lt 128 ] || ending='(complete|not ended)'
    if "$top/tools/tarn-trace" "$trace" >"$work/said" 2>&1 && grep -qE "0 lost, $ending" "$work/said"; then
      n_recordings=$((n_recordings + 1))
    else
      fail "$name: the recording cannot be read, or is not complete: $(head -n 2 "$work/said")"
    fi
    rm -f "$trace"
  done
  local made pooled own pools
  made=$(sum_stats layer 1) pooled=$(sum_stats layer 2) own=$(sum_stats layer 3) pools=$(sum_stats layer 4)
  echo "$name: $n results; $made buffers, $pooled of them from a pool; the driver makes $((own + pools))"
  all_made=$((all_made + made)) all_pooled=$((all_pooled + pooled)) all_driver=$((all_driver + own + pools))
  n_results=$((n_results + n))
  [ "$times" -eq 0 ] || compare_times "$name" "$@"
}

# CLBlast's tests compare their results with a CBLAS.  Colours go, and each test's mark is a line.
results_of_clblast () {
  grep -q passed "$work/$1/out" || return
  sed -E 's/\x1b\[[0-9;]*m//g; s/[0-9.]+ ms//g; s/^ +([:.X\/\\o-]+)$/\1/' "$work/$1/out" |
    awk '/^[:.X\/\\o-]+$/ { for (i = 1; i <= length ($0); i++) print ++n, substr ($0, i, 1); next } /passed|failed|Starting/'
}

run_clblast () {
  local routine
  local routines
  read -r -a routines <<<"${CLBLAST_ROUTINES:-xamax xaxpybatched xdot xger xhad xher2 xher2k xomatcopy}"
  wants "${routines[@]/#/clblast_test_}" || return
  for routine in "${routines[@]}"; do
    compare "clblast $routine" "clblast_test_$routine" -precision 32 -platform 0 -device 0
  done
}

# The client prints what it thinks of its results.
results_of_clfft () { grep -aE '(PASS|FAIL)' "$work/$1/out"; }

run_clfft () {
  wants clFFT-client || return
  compare "clfft 1D" clFFT-client -a -x 1024 -b 8
  compare "clfft 2D, planar, in place or not" clFFT-client -a -o -x 64 -y 48 --inLayout 2 --outLayout 2 -b 3
  compare "clfft 3D, real" clFFT-client -a -o -x 16 -y 15 -z 8 --inLayout 5 --outLayout 3
}

results_of_gegl () { [ -s "$work/$1/image.png" ] && sha256sum <"$work/$1/image.png"; }

run_gegl () {
  local chain='' radius crop
  export GEGL_USE_OPENCL=${GEGL_USE_OPENCL:-cpu} GEGL_SWAP=RAM
  wants gegl || return
  crop="<node operation='gegl:crop'><params><param name='width'>1024</param><param name='height'>768</param></params></node>"
  for radius in 3 5 7 9; do
    chain+="<node operation='gegl:edge-sobel'/>
            <node operation='gegl:box-blur'><params><param name='radius'>$radius</param></params></node>
            <node operation='gegl:brightness-contrast'><params><param name='contrast'>1.1</param></params></node>"
  done
  compare "gegl chain" gegl -x "<gegl>$chain$crop<node operation='gegl:checkerboard'/></gegl>" -o image.png
}

# Devices have their addresses in the names of tests.
results_of_pyopencl () {
  grep -aE '^(PASSED|FAILED|ERROR|SKIPPED|XFAIL)' "$work/$1/out" | sed -E 's/ at 0x[0-9a-f]+//; s/ - .*//' | sort
}

run_pyopencl () {
  wants /usr/bin/python3 && [ -e "${PYOPENCL_TESTS:-}" ] || { fail "PYOPENCL_TESTS is no folder, and no file"; return; }
  export PYOPENCL_TEST=${PYOPENCL_TEST:-0:0} PYOPENCL_NO_CACHE=1
  compare pyopencl /usr/bin/python3 -m pytest -q -rA -p no:cacheprovider -k "${PYOPENCL_CHOICE:-}" \
    "$PYOPENCL_TESTS"
}

# A test ends with a line of its own, by the name; the rest has addresses and times.  One that began and
# has no such line is a result, too: the driver crashed.  A warning of events' test ends without a newline.
results_of_cts () {
  local ends='passed|failed|FAILED|skipped|SKIPPED|test not supported|test currently not implemented'
  sed -E 's/^WARNING: Events completed .* try again\.//' "$work/$1/out" |
    grep -aE "^(\S+ ($ends)\$|\S+ skipped \(|(PASSED|FAILED|SKIPPED)( |\$)|\S+\.\.\.\$)" |
    awk '
      sub (/\.\.\.$/, "") { began = $1; next }
      $1 == began { began = "" }
      { print }
      END { if (began != "") print began, "has no end" }'
}

# How the tests that are named ended without the layer, and what the driver made, in one line.
sum_cts () { # TEST MADE POOLED DRIVER NAME...
  local test=$1 made=$((all_made - $2)) pooled=$((all_pooled - $3)) driver=$((all_driver - $4))
  shift 4
  awk -v test="$test" -v names="$*" -v buffers="$made buffers, $pooled of them from a pool; the driver makes $driver" '
    BEGIN { n_names = split (names, list, " "); for (i = 1; i <= n_names; i++) is_name[list[i]] = 1 }
    !is_name[$1] { next }
    $2 == "passed" { passed++; next }
    tolower ($2) == "failed" { failed++; next }
    / has no end$/ { crashed++; next }
    { skipped++ }
    END {
      printf "cts %s: %d tests: %d passed, %d failed, %d skipped, %d crashed without the layer; %s\n", test,
        passed + failed + skipped + crashed, passed, failed, skipped, crashed, buffers
    }' "$work/cts.results"
}

run_cts () {
  local test binary names name options chunk i made pooled driver
  [ -d "${CTS_BUILD:-}" ] || { fail "CTS_BUILD is no folder"; return; }
  read -r -a options <<<"${CTS_OPTIONS:-}"
  for test in ${CTS_TESTS:-test_api test_basic test_buffers test_allocations test_mem_host_flags test_events \
    test_profiling test_svm test_multiples}; do
    names=()
    [[ $test != *:* ]] || IFS=, read -r -a names <<<"${test#*:}"
    test=${test%%:*}
    binary=$(find "$CTS_BUILD" -name "$test" -type f -perm -u+x | head -n 1)
    [ -n "$binary" ] || { fail "$CTS_BUILD has no $test"; continue; }
    [ ${#names[@]} -gt 0 ] || mapfile -t names < <("$binary" --list | sed -n 's/^\t//p')
    for ((i = ${#names[@]} - 1; i >= 0; i--)); do
      [[ " ${CTS_WITHOUT:-} " != *" ${names[i]} "* ]] || unset "names[i]"
    done
    names=("${names[@]}")
    chunk=${CTS_CHUNK:-${#names[@]}}
    made=$all_made pooled=$all_pooled driver=$all_driver
    : >"$work/cts.results"
    for ((i = 0; i < ${#names[@]}; i += chunk)); do
      name=''
      [ "$chunk" -ge ${#names[@]} ] || name=" ${names[*]:i:chunk}"
      : >"$work/plain.results"
      compare "cts $test$name" "$binary" "${options[@]}" "${names[@]:i:chunk}"
      cat "$work/plain.results" >>"$work/cts.results"
    done
    sum_cts "$test" "$made" "$pooled" "$driver" "${names[@]}"
  done
}

results_of_hashcat () { grep -aE '^[0-9a-f]{32}:' "$work/$1/out"; }

run_hashcat () {
  wants hashcat || return
  export XDG_DATA_HOME=$work/data XDG_CACHE_HOME=$work/cache
  mkdir -p "$XDG_DATA_HOME/hashcat" "$XDG_CACHE_HOME/hashcat" # not $HOME/.hashcat
  compare "hashcat MD5" hashcat -m 0 -a 3 -D 1 -d 1 -w 1 --potfile-disable --quiet --restore-disable \
    "$(printf 3141 | md5sum | cut -c 1-32)" '?d?d?d?d'
}

# It says of each filter where it ran: on the processor without OpenCL, too, if something is wrong.
results_of_darktable () {
  [ -s "$work/$1/image.pfm" ] && grep -o "processed .* on GPU" "$work/$1/out" && sha256sum <"$work/$1/image.pfm"
}

# A 32-bit integer, or a float by its bits, as the parameters of darktable's filters have them.
hex () { local n; for n; do printf '%02x%02x%02x%02x' $((n & 255)) $((n >> 8 & 255)) $((n >> 16 & 255)) $((n >> 24 & 255)); done; }

filter () { # NUMBER NAME VERSION PARAMETERS...
  printf '<rdf:li darktable:num="%d" darktable:operation="%s" darktable:enabled="1" darktable:modversion="%d"' "${@:1:3}"
  printf ' darktable:params="%s" darktable:multi_name="" darktable:multi_priority="0"/>\n' "$(hex "${@:4}")"
}

# darktable takes no processor as a device, unless the settings know it: cldevice_v4_ and the name's letters.
# PoCL does not find darktable's headers by the quoted path that it gives, but in the current folder.  Sums of
# numbers vary in their last digits unless one thread makes them.
run_darktable () {
  local name
  wants darktable-cli clinfo awk || return
  export POCL_MAX_PTHREAD_COUNT=1
  name=$(clinfo --raw | sed -n 's/.*CL_DEVICE_NAME *//p' | head -n 1 | tr -cd '[:alnum:]' | tr '[:upper:]' '[:lower:]')
  awk 'BEGIN { print "P3\n320 240\n255"
    for (y = 0; y < 240; y++) for (x = 0; x < 320; x++) {
      v = 128 + 80 * sin (x / 17) * cos (y / 11) + (int (x / 20) + int (y / 20)) % 2 * 40
      print int (v), int (v * 0.8), int (255 - v) } }' >"$work/image.ppm"
  {
    echo '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
      <rdf:Description rdf:about="" xmlns:darktable="http://darktable.sf.net/" darktable:xmp_version="5"
      darktable:raw_params="0" darktable:auto_presets_applied="1" darktable:history_end="9"
      darktable:iop_order_version="2"><darktable:history><rdf:Seq>'
    filter 0 shadhi 5 0 0x42c80000 0x42480000 0 0xc2480000 0 0x42480000 0x42c80000 0x42480000 127 0x358637bd 1
    filter 1 bilat 3 0 0x3f000000 0x41a00000 0x3fc00000 0x3f000000
    filter 2 nlmeans 2 0x40000000 0x42480000 0x3f000000 0x3f800000
    filter 3 hazeremoval 1 0x3e99999a 0x3e4ccccd
    filter 4 colorreconstruct 3 0x42480000 0x43c80000 0x41200000 0x3f28f5c3 0
    filter 5 lowpass 4 0 0x41200000 0x3f800000 0 0x3f800000 1 1
    filter 6 bloom 1 0x41a00000 0x42b40000 0x41c80000
    filter 7 soften 1 0x42480000 0x42c80000 0x3ea8f5c3 0x42480000
    filter 8 sharpen 1 0x40000000 0x3f000000 0x3f000000
    echo '</rdf:Seq></darktable:history></rdf:Description></rdf:RDF></x:xmpmeta>'
  } >"$work/filters.xmp"
  compare "darktable filters" bash -c "ln -sf /usr/share/darktable/kernels/*.{cl,h} . && rm -f image.pfm &&
    exec darktable-cli '$work/image.ppm' '$work/filters.xmp' image.pfm --core --configdir '$work/config' \
    --cachedir '$work/darktable' --library :memory: --conf 'cldevice_v4_$name=0 250 0 16 16 128 0 0 0.000' -d perf"
  unset POCL_MAX_PTHREAD_COUNT
}

results_of_others () { grep -aEv "${OTHERS_VARY:-^$}" "$work/$1/out"; }

run_others () {
  local name command
  [ -e "${OTHERS:-}" ] || { fail "OTHERS is no file"; return; }
  while read -r name command; do
    [ -z "$command" ] || compare "$name" sh -c "exec $command" </dev/null
  done <"$OTHERS"
}

while getopts n: option; do
  case $option in
    n) times=$OPTARG && wants /usr/bin/time || exit ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- clblast clfft
all_made=0 all_pooled=0 all_driver=0
for program; do
  case $program in
    clblast | clfft | gegl | pyopencl | cts | hashcat | darktable | others) "run_$program" ;;
    *) fail "there is no program $program: clblast, clfft, gegl, pyopencl, cts, hashcat, darktable, others" ;;
  esac
done
# Otherwise the layer was not there.  Tests of images alone make no buffer, but are recorded.
[ "$all_pooled" -gt 0 ] || { [ "$*" = cts ] && [ "$n_recordings" -gt 0 ]; } || fail "the layer served none of $all_made buffers"
if [ ${#failures[@]} -gt 0 ]; then
  printf 'failed: %s\n' "$(IFS=';'; echo "${failures[*]}" | tr '\n' ' ')"
  exit 1
fi
echo "$n_results results are the same with the layer; the driver made $all_driver of $all_made buffers"
