#!/bin/sh
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# The programs print and find the same in every locale: German has a comma in numbers, and Turkish a
# small letter of "I" without a dot.
. "$(dirname "$0")/../lib/tap.sh"

tools=$top_builddir/tools
unset TARN_TEST PYOPENCL_TEST NO_COLOR CUDA_DEVICE
HOME=$scratch # it may choose a device
export HOME

mkdir "$scratch/locales"

is_built () { # LOCALE
  localedef -i "$1" -f UTF-8 "$scratch/locales/$1.UTF-8" >/dev/null 2>&1
}

in_locale () { # LOCALE COMMAND...
  name=$1
  shift
  LOCPATH=$scratch/locales LC_ALL=$name.UTF-8 "$@"
}

is_same () { # LOCALE COMMAND...
  name=$1
  shift
  in_locale C "$@" >"$scratch/plain" 2>&1
  in_locale "$name" "$@" >"$scratch/here" 2>&1
  diff "$scratch/plain" "$scratch/here" && [ -s "$scratch/plain" ]
}

has_no_comma () { # LOCALE COMMAND...
  in_locale "$@" >"$scratch/out" 2>&1 || { cat "$scratch/out"; return 1; }
  grep '[0-9]\.[0-9]' "$scratch/out" && ! grep '[0-9],[0-9]' "$scratch/out"
}

is_json () { # LOCALE COMMAND...
  in_locale "$@" >"$scratch/out" && jq -e . "$scratch/out"
}

has_columns () { # LOCALE COMMAND...: each line as many as the first
  in_locale "$@" >"$scratch/out" && awk -F , 'NR == 1 { n = NF } NF != n { exit 1 }' "$scratch/out"
}

times_out () { # LOCALE
  printf '#!/bin/sh\nsleep 60\n' >"$scratch/slow" && chmod +x "$scratch/slow"
  in_locale "$1" with_fake "$tools/tarn-test" --select cuda --timeout 0.25 "$scratch/slow" >"$scratch/out" 2>&1
  cat "$scratch/out"
  grep -qF 'timed out after 0.25 s' "$scratch/out"
}

lists () { # LOCALE ...
  is_same "$1" "$tools/tarn-test" --list --select 'PORTABLE COMPUTING LANGUAGE' \
    && [ "$(wc -l <"$scratch/here")" -gt 0 ] && ! grep 'no platform matches' "$scratch/here"
}

check_trace () { # LOCALE
  if [ ! -x "$tools/tarn-trace" ] || [ ! -x "$top_builddir/t/tools/make-trace" ]; then
    skip "$1: tarn-trace" "not built"
    return
  fi
  "$top_builddir/t/tools/make-trace" known "$scratch/known"
  for format in text json; do
    option=$([ $format = text ] || echo --$format)
    check "$1: tarn-trace, as $format" is_same "$1" "$tools/tarn-trace" $option "$scratch/known"
  done
  for format in print csv chrome pytorch; do
    check "$1: tarn-trace --$format" is_same "$1" "$tools/tarn-trace" --$format "$scratch/known"
  done
}

check_bench () { # LOCALE
  if [ ! -x "$tools/tarn-bench" ]; then
    skip "$1: tarn-bench" "not built"
    return
  fi
  set -- "$1" "$tools/tarn-bench" --seconds 0.001 --repetitions 2 --kinds null --measure hits,overhead
  check "$1: tarn-bench" has_no_comma "$@"
  check "$1: tarn-bench --csv" has_columns "$@" --csv
  if command -v jq >/dev/null; then
    check "$1: tarn-bench --json" is_json "$@" --json
  fi
}

for locale in de_DE tr_TR; do
  if ! is_built $locale; then
    skip "$locale" "localedef cannot build it"
    continue
  fi
  check_trace $locale
  check_bench $locale
  if [ -d "$fake" ]; then
    check "$locale: tarn-test --timeout" times_out $locale
  fi
  if [ -n "$have_opencl" ] && "$tools/tarn-test" --list 2>/dev/null | grep -q 'Portable Computing'; then
    check "$locale: --select" lists $locale
  fi
done
done_testing
