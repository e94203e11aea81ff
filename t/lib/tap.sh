# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# For tests that are shell scripts; make check sets the variables, and by hand these will do.

: "${top_srcdir:=$(cd "$(dirname "$0")" && until [ -e bootstrap ]; do cd ..; done && pwd)}"
: "${top_builddir:=$top_srcdir}"
: "${CC:=cc}" "${CXX:=c++}" "${NM:=nm}" "${PKG_CONFIG:=pkg-config}" "${MAKE:=make}"
: "${CLANG_FORMAT=clang-format}" "${SANITIZER:=no}" "${have_opencl=}" "${have_opencl_library=}" "${libdir=}"
: "${T_CFLAGS=$($PKG_CONFIG --cflags glib-2.0)}" "${T_OPENCL_CFLAGS=}" "${T_CC_FLAGS=}" "${T_CXX_FLAGS=}"

fake=$top_builddir/lib/testing/cuda/.libs

LC_ALL=C
export LC_ALL

n_tests=0
scratch=$(mktemp -d "${TMPDIR:-/tmp}/tarn-test.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

# check DESCRIPTION COMMAND...: passes if the command does; what it prints is shown if not.
check () {
  description=$1
  shift
  n_tests=$((n_tests + 1))
  if "$@" >"$scratch/output" 2>&1; then
    echo "ok $n_tests - $description"
  else
    sed 's/^/# /' "$scratch/output"
    echo "not ok $n_tests - $description"
  fi
}

# For check: what the command prints is in $scratch/out and $scratch/err afterwards.
status_is () { # STATUS COMMAND...
  expected=$1
  shift
  "$@" >"$scratch/out" 2>"$scratch/err"
  status=$?
  cat "$scratch/out" "$scratch/err"
  [ $status -eq "$expected" ]
}

# Runs a command on which signals act by default, whatever this script was started with: a shell
# starts what is to run in the background with SIGINT and SIGQUIT ignored, and nohup does with SIGHUP.
default_signals=--default-signal=INT,QUIT,HUP,PIPE,TERM
env $default_signals true 2>/dev/null || default_signals=
with_signals () { # COMMAND...
  # shellcheck disable=SC2086  # empty where env has no such option
  env $default_signals "$@"
}

# On the fake CUDA driver, in $fake.
with_fake () {
  LD_LIBRARY_PATH=$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$@"
}

skip () { # DESCRIPTION REASON
  n_tests=$((n_tests + 1))
  echo "ok $n_tests - $1 # SKIP $2"
}

done_testing () {
  echo "1..$n_tests"
}
