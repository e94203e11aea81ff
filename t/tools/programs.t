#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# The installed programs' --help, manual pages and completion: one as complete as the other.  They
# and the examples fail where what they print cannot be written.
. "$(dirname "$0")/../lib/tap.sh"

help_fits () { # PROGRAM
  "$top_builddir/tools/$1" --help >"$scratch/help" && cat "$scratch/help"
  [ "$(wc -l <"$scratch/help")" -le 24 ] \
    && [ "$(awk '{ if (length > n) n = length } END { print n }' "$scratch/help")" -le 80 ]
}

says_version () { # PROGRAM
  [ "$("$top_builddir/tools/$1" --version)" = "$1 $(sed -n 's/^AC_INIT(\[tarn\], \[\(.*\)\])$/\1/p' \
    "$top_srcdir/configure.ac")" ]
}

options () { # PROGRAM
  "$top_builddir/tools/$1" --help | grep -o -e '--[a-z][a-z-]*' | sort -u
}

manual_has_options () { # PROGRAM
  for option in $(options "$1"); do
    sed 's/\\-/-/g' "$top_srcdir/doc/man/$1.1" | grep -A 1 '^\.TP' | grep -q "^\.B.*$option\b" || {
      echo "$option has no paragraph of its own"
      return 1
    }
  done
}

manual_names_version () { # PROGRAM
  grep -q "\"Tarn $("$top_builddir/tools/$1" --version | cut -d ' ' -f 2)\"" \
    "$top_srcdir/doc/man/$1.1"
}

manual_has_keys () { # [COMMAND...]
  "$@" "$top_builddir/tools/tarn-info" --json --measure >"$scratch/json"
  [ $? -le 1 ] && grep -q '"place"' "$scratch/json" && manual_has_keys_of tarn-info
}

manual_has_keys_of () { # PROGRAM: that has printed $scratch/json
  for key in $(grep -o '^ *"[a-z_]*" :' "$scratch/json" | tr -d ' ":' | sort -u); do
    grep -q "\b$key\b" "$top_srcdir/doc/man/$1.1" || {
      echo "$key is missing"
      return 1
    }
  done
}

manual_has_bench_keys () {
  "$top_builddir/tools/tarn-bench" --json --kinds null --measure hits,overhead --seconds 0.001 \
    >"$scratch/json" && grep -q '"ratio"' "$scratch/json" && manual_has_keys_of tarn-bench
}

# Completion and the manual know each name of a list that the program takes.
names_are_known () { # OPTION BEFORE: what is completed in a list after BEFORE
  names=$("$top_builddir/tools/tarn-bench" "$1" nothing 2>&1 | sed 's/.*is none of these: //; s/,//g')
  [ -n "$names" ] || return
  complete_word tarn-bench "$1" "$2" >"$scratch/offered"
  for name in $names; do
    grep -qx -e "$2$name" "$scratch/offered" || { echo "$2$name is not offered"; return 1; }
    sed 's/\\-/-/g' "$top_srcdir/doc/man/tarn-bench.1" | grep -q "^\.BR* .*\b$name\b" || {
      echo "the manual does not have $name"
      return 1
    }
  done
}

lint () {
  mandoc -Tlint -W warning "$top_srcdir/doc/man/$1.1"
}

# What bash would offer: WORD is being typed, after --select if BEFORE is that.
complete_word () { # PROGRAM BEFORE WORD
  PATH=$top_builddir/tools:$PATH bash -c '
    . "$0/tools/completion/tarn-test"
    COMP_WORDS=("$1" "$2" "$3") COMP_CWORD=2
    _tarn_tools "$1" "$3" "$2"
    printf "%s\n" "${COMPREPLY[@]}"' "$top_srcdir" "$1" "$2" "$3"
}

offers_options () { # PROGRAM
  complete_word "$1" "" -- | sort -u >"$scratch/offered"
  options "$1" | diff - "$scratch/offered"
}

offers_devices () {
  tools=$top_builddir/tools
  env -u TARN_TEST -u PYOPENCL_TEST "$tools/tarn-test" --list 2>/dev/null | cut -f 1 >"$scratch/places"
  complete_word tarn-test --select "" | grep . | diff "$scratch/places" -
}

# A word behind others.
complete_line () { # PROGRAM WORD...
  PATH=$top_builddir/tools:$PATH bash -c '
    . "$0/tools/completion/tarn-test"
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _tarn_tools "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf "%s\n" "${COMPREPLY[@]}"' "$top_srcdir" "$@"
}

# A command, and then what is a file of its own; nothing for a size.
completes_command () {
  touch "$scratch/its-file"
  for before in "" --stats -- "--limit 80%" "--limit = 80%" "--no-pool --" \
    "--fail clFinish:1" "--every --jobs 2" "--every = clFinish"; do
    # shellcheck disable=SC2086  # words
    complete_line tarn-run $before prin | grep -qx printf || { echo "$before prin"; return 1; }
    # shellcheck disable=SC2086
    complete_line tarn-run $before printf "$scratch/its" | grep -qx "$scratch/its-file" \
      || { echo "$before printf"; return 1; }
    # shellcheck disable=SC2086
    complete_line tarn-run $before printf -- >"$scratch/offered"
    ! grep -e --stats "$scratch/offered" || return
  done
  [ -z "$(complete_line tarn-run --limit prin)" ] \
    && complete_line tarn-run --stats --l | grep -qx -e --limit
}

# All calls that can be made to fail, as the layer has them.
offers_calls () {
  { sed -n 's/.*F (\(cl[A-Za-z0-9]*\),.*/\1/p' "$top_srcdir/lib/common/fault-calls-private.h"; echo tarn; } \
    | sort >"$scratch/calls"
  [ "$(wc -l <"$scratch/calls")" -gt 50 ] || return
  complete_word tarn-run "" --every= | sort | diff "$scratch/calls" - || return
  complete_word tarn-run --fail "" | sed 's/:$//' | sort | diff "$scratch/calls" - || return
  complete_word tarn-run "" --every=clFinish,clFl | grep -qx clFinish,clFlush
}
manual_has_calls () { # after it
  sed 's/\\-/-/g' "$top_srcdir/doc/man/tarn-run.1" >"$scratch/manual"
  while read -r name; do
    grep -qw -e "$name" "$scratch/manual" || { echo "$name is missing"; return 1; }
  done <"$scratch/calls"
}

# With the fake driver in the place of a real one.
with_fake () {
  LD_LIBRARY_PATH=$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} TARN_TESTING_CUDA_DEVICES=3 \
    env -u TARN_TEST -u PYOPENCL_TEST "$@"
}

lists_cuda () {
  with_fake "$top_builddir/tools/tarn-test" --list | grep '^cuda:' >"$scratch/cuda"
  printf 'cuda:%s\tcuda:uuid=GPU-%s\tFake GPU %s, CUDA\n' \
    0 00112233-4455-6677-8899-aabbccddeeff A \
    1 01122334-4556-6778-899a-abbccddeef00 B \
    2 02132435-4657-6879-8a9b-acbdcedff001 C | diff - "$scratch/cuda"
}

# A program is told its device as TARN_TEST and CUDA_DEVICE; PYOPENCL_TEST is not about CUDA.
narrows_cuda () {
  printf '#!/bin/sh\necho "ok 1 - $TARN_TEST, $CUDA_DEVICE, ${PYOPENCL_TEST-unset}"\necho 1..1\n' \
    >"$scratch/program"
  chmod +x "$scratch/program"
  with_fake "$top_builddir/tools/tarn-test" --flat --select 'cuda:-1,gpu a' "$scratch/program" \
    | grep '^ok' | sed 's/.*: //' >"$scratch/told"
  printf 'cuda:2, 2, unset\ncuda:0, 0, unset\n' | diff - "$scratch/told"
}

informs_on_cuda () {
  with_fake "$top_builddir/tools/tarn-info" --json --select cuda:1 >"$scratch/json" \
    && grep '"kind" : "cuda"' "$scratch/json" && grep '"pci" : "0000:fb:00.0"' "$scratch/json" \
    && grep '"compute_capability" : "9.0"' "$scratch/json" \
    && grep '"shared_bytes" : 233472' "$scratch/json" && grep '"errors" : {      }' "$scratch/json"
}

# An exit status of 1 and one line that says why, beside what a kind of device is left out for.
fails_into () { # full|closed COMMAND...
  into=$1
  shift
  case $into in
    full) "$@" >/dev/full 2>"$scratch/err" ;;
    closed) "$@" >&- 2>"$scratch/err" ;;
  esac
  status=$?
  cat "$scratch/err"
  [ $status -eq 1 ] && [ "$(grep -v ': left out: ' "$scratch/err")" = \
    "$(basename "$1"): cannot write to standard output" ]
}

# As GLib's option parser ends the program by itself.
fails_without_output () { # COMMAND...
  for into in full closed; do
    if [ $into = full ] && [ ! -c /dev/full ]; then
      skip "$(basename "$1") ${2-}: standard output that is full" "no /dev/full"
    else
      check "$(basename "$1") ${2-}: standard output that is $into" fails_into $into "$@"
    fi
  done
}

# Why there is no device is said of each kind that has none, and of no other.
explains () { # PROGRAM OPENCL CUDA ARGUMENT...: texts; empty: nothing
  explained=$1
  opencl=$2
  cuda=$3
  shift 3
  env -u TARN_TEST -u PYOPENCL_TEST CUDA_VISIBLE_DEVICES=-1 TARN_TESTING_CUDA_DEVICES=0 \
    "$top_builddir/tools/$explained" "$@" >"$scratch/out" 2>"$scratch/err"
  status=$?
  cat "$scratch/out" "$scratch/err"
  [ $status -eq 1 ] && head -n 1 "$scratch/err" | grep -q "^$explained: there is no device" \
    && says_of OpenCL "$opencl" && says_of CUDA "$cuda"
}

says_of () { # KIND TEXT
  if [ -n "$2" ]; then
    grep -q "^$explained: $1: $2" "$scratch/err" \
      || grep -q "^$explained: $1: Tarn was built without it" "$scratch/err"
  else
    ! grep -q "^$explained: $1" "$scratch/err"
  fi
}

with_pocl () { # POCL_DEVICES COMMAND...
  devices=$1
  shift
  (
    OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
    POCL_DEVICES=$devices
    export OCL_ICD_VENDORS POCL_DEVICES
    "$@"
  )
}

# A terminal acts on nothing in what a message quotes.
complains_without_escapes () { # PROGRAM
  escape=$(printf '\033')
  for argument in "--no$escape[2J" "$scratch/no$escape[2J"; do
    "$top_builddir/tools/$1" "$argument" >"$scratch/out" 2>"$scratch/err" </dev/null && return 1
    cat -v "$scratch/err"
    grep -qF '\x1b[2J' "$scratch/err" && ! grep -qF "$escape" "$scratch/err" || return 1
  done
}

programs=tarn-test
for program in tarn-info tarn-bench tarn-run tarn-trace tarn-view; do
  [ ! -x "$top_builddir/tools/$program" ] || programs="$programs $program"
done
for program in $programs; do
  check "$program: --help fits a screen" help_fits "$program"
  check "$program: --version" says_version "$program"
  for option in --help --version; do
    fails_without_output "$top_builddir/tools/$program" $option
  done
  check "$program: control characters in a message" complains_without_escapes "$program"
  check "$program: the manual has every option" manual_has_options "$program"
  check "$program: the manual is of this version" manual_names_version "$program"
  if command -v mandoc >/dev/null; then
    check "$program: the manual has no fault" lint "$program"
  else
    skip "$program: the manual has no fault" "there is no mandoc"
  fi
  if command -v bash >/dev/null; then
    check "$program: completion of options" offers_options "$program"
  else
    skip "$program: completion of options" "there is no bash"
  fi
done
case $programs in
  *tarn-bench*)
    check "tarn-bench: the manual has every key" manual_has_bench_keys
    if command -v bash >/dev/null; then
      check "tarn-bench: kinds are completed, and in the manual" names_are_known --kinds ""
      check "tarn-bench: measures are, too, also after a comma" names_are_known --measure driver,
    else
      skip "tarn-bench: completion of kinds and measures" "there is no bash"
    fi
    ;;
  *) skip "tarn-bench: the manual has every key" "built without json-glib" ;;
esac
case $programs in
  *tarn-run*)
    if command -v bash >/dev/null; then
      check "tarn-run: completion of a command" completes_command
      check "tarn-run: completion of calls" offers_calls
      check "tarn-run: the manual has every call" manual_has_calls
    else
      skip "tarn-run: completion of a command" "there is no bash"
    fi
    ;;
esac
for example in vector-expression allocation-cost; do
  if [ -x "$top_builddir/doc/examples/$example" ]; then
    fails_without_output "$top_builddir/doc/examples/$example" --help
  else
    skip "$example: standard output that is full or closed" "not built"
  fi
done
fails_without_output "$top_builddir/doc/examples/mapped-files"
if ! "$top_builddir/tools/tarn-test" --list >"$scratch/list"; then
  skip "what needs a device" "there is none"
else
  fails_without_output "$top_builddir/tools/tarn-test" --list
  [ ! -x "$top_builddir/tools/tarn-info" ] || fails_without_output "$top_builddir/tools/tarn-info"
  fails_without_output "$top_builddir/doc/examples/vector-expression" --list
  case $programs in
    *tarn-info*) check "tarn-info: the manual has every key" manual_has_keys ;;
    *) skip "tarn-info: the manual has every key" "built without json-glib" ;;
  esac
  if command -v bash >/dev/null; then
    check "completion of devices" offers_devices
  else
    skip "completion of devices" "there is no bash"
  fi
fi
no_cuda=".*there is no CUDA d" # driver, or device: a driver is named with its call
no_platform="the loader finds no platform (CL_PLATFORM_NOT_FOUND_KHR)"
[ "$(OCL_ICD_VENDORS=/nonexistent "$top_builddir/tools/tarn-test" --list 2>&1 \
  | grep -c 'OpenCL: libOpenCL.so.1: ')" -eq 0 ] \
  || no_platform="libOpenCL.so.1: cannot open shared object file: No such file or directory"
# Devices whose names the driver does not say are of no use, and not none.
explains_unnamed () {
  status_is 1 env OCL_ICD_VENDORS=/nonexistent TARN_TESTING_CUDA_FAIL=cuDeviceGetName:101 \
    LD_LIBRARY_PATH="$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
    env -u TARN_TEST -u PYOPENCL_TEST "$top_builddir/tools/tarn-test" --list \
    && grep -q '^tarn-test: CUDA: there are devices, but they could not be listed' "$scratch/err"
}
if [ -e "$fake/libcuda.so.1" ]; then
  check "tarn-test: devices that cannot be listed" explains_unnamed
else
  skip "tarn-test: devices that cannot be listed" "built without the fake CUDA driver"
fi
# A driver that crashes ends the tool, and the user reads why.
explains_crash () { # PROGRAM ARGUMENT...
  crashing=$1
  mkdir -p "$scratch/vendors"
  echo "$(cd "$top_builddir" && pwd)/t/tools/.libs/crashing-driver.so" >"$scratch/vendors/crashing.icd"
  (
    ulimit -c 0
    status_is 134 env -u OCL_ICD_FILENAMES "OCL_ICD_VENDORS=$scratch/vendors" \
      "$top_builddir/tools/$@"
  ) && grep -q "^$crashing: a driver crashed when it was asked for its devices" "$scratch/err"
}
if [ -e "$top_builddir/t/tools/.libs/crashing-driver.so" ]; then
  check "tarn-test: a driver that crashes" explains_crash tarn-test --list
  case $programs in
    *tarn-info*) check "tarn-info: a driver that crashes" explains_crash tarn-info ;;
  esac
else
  skip "a driver that crashes" "built without OpenCL"
fi
explains_nothing () { # ARGUMENT...
  OCL_ICD_VENDORS=/nonexistent explains "$1" "$no_platform" "$no_cuda" $2
}
check "tarn-test: why there is no device" explains_nothing tarn-test --list
case $programs in
  *tarn-info*)
    check "tarn-info: why there is no device" explains_nothing tarn-info
    if [ -e /etc/OpenCL/vendors/pocl.icd ]; then
      check "tarn-info: a platform without a device" with_pocl " " explains tarn-info \
        "platform 'Portable Computing Language' has no device (CL_DEVICE_NOT_FOUND)" "$no_cuda"
      check "tarn-info: the other kind has one" with_pocl "${POCL_DEVICES-pthread}" \
        explains tarn-info "" "$no_cuda" --select cuda:0
    else
      skip "tarn-info: a platform without a device" "there is no PoCL"
    fi
    ;;
esac
fake=$top_builddir/lib/testing/cuda/.libs
if [ -e "$fake/libcuda.so.1" ]; then
  check "tarn-test: lists CUDA's devices" lists_cuda
  check "tarn-test: runs a program on a CUDA device" narrows_cuda
  if [ -x "$top_builddir/tools/tarn-info" ]; then
    TARN_TESTING_CUDA_DEVICES=0
    export TARN_TESTING_CUDA_DEVICES
    OCL_ICD_VENDORS=/nonexistent LD_LIBRARY_PATH=$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
      check "tarn-info: a CUDA driver without a device" \
      explains tarn-info "$no_platform" "cuInit: there is no CUDA device"
    unset TARN_TESTING_CUDA_DEVICES
    check "tarn-info: a CUDA device" informs_on_cuda
    check "tarn-info: the manual has every key of a CUDA device" manual_has_keys with_fake
  fi
else
  skip "CUDA's devices" "built without the fake driver"
fi
done_testing
