#!/bin/bash
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# Puts Tarn into programs that Debian has, and compares their results with those without Tarn.
#   t/opencl/programs/real-programs.sh [PROGRAM...]      programs: gegl clblast opencv (default: all)
# It wants Tarn built in this tree, an OpenCL device, a network, apt-get, cmake, meson, ninja, CBLAS,
# libbabl-dev, libjson-glib-dev, libpng-dev and libjpeg-dev.  Each program is built twice: with two
# processors, GEGL takes about 5 minutes, CLBlast about 20, OpenCV about 30.
# REAL_PROGRAMS_DIR=FOLDER keeps what it gets and builds (default: a temporary folder).
# GEGL_USE_OPENCL=cpu|gpu is GEGL's device (default: cpu), CLBLAST_DEVICE=N CLBlast's of platform 0;
# CLBLAST_ROUTINES="xgemm xtrsm" names the routines of CLBlast that are tested.
# OPENCV_OPENCL_DEVICE=:CPU: and its like choose OpenCV's device (default: the CPU),
# OPENCV_TESTS='UMat*' its tests.
# The last line says what failed.
set -u -o pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../.." && pwd)
keep=${REAL_PROGRAMS_DIR:-}
work=${keep:-$(mktemp -d "${TMPDIR:-/tmp}/real-programs.XXXXXX")}
mkdir -p "$work" && work=$(cd "$work" && pwd) || exit
[ -n "$keep" ] || trap 'rm -rf "$work"' EXIT
failures=()
n_compared=0

fail () {
  echo "not ok: $*"
  failures+=("$*")
}

# Debian's upstream tarballs.  The lists are our own, because the system's may have no sources.
get_tarball () { # PACKAGE VERSION FILE
  local suite apt=(-o "Dir::Etc::sourcelist=$work/apt/sources.list" -o Dir::Etc::sourceparts=-
                   -o "Dir::State::lists=$work/apt/lists")
  [ ! -e "$work/$3" ] || return 0
  if [ ! -e "$work/apt/sources.list" ]; then
    mkdir -p "$work/apt/lists/partial"
    for suite in bookworm trixie; do
      echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
           "http://deb.debian.org/debian $suite main"
    done >"$work/apt/sources.list"
    apt-get "${apt[@]}" -qq update || return
  fi
  # The newest revision of that upstream version
  local version
  version=$(apt-cache "${apt[@]}" showsrc "$1" | sed -n 's/^Version: //p' | grep -F "$2-" |
              sort -V | tail -n 1)
  (cd "$work" && apt-get "${apt[@]}" -qq source --download-only --tar-only "$1=$version")
  [ -e "$work/$3" ]
}

# A source as it is, and one with our patch.
unpack () { # PROGRAM FILE
  local version
  for version in plain tarn; do
    [ ! -e "$work/$1-$version-source" ] || continue
    mkdir "$work/$1-$version-source" &&
      tar xf "$work/$2" --strip-components=1 -C "$work/$1-$version-source" || return
    [ $version = plain ] || patch -s -p1 -d "$work/$1-$version-source" <"$here/$1.patch" || return
  done
}

# Tarn where pkg-config finds it, and the adapters beside it.
install_tarn () {
  local adapter library lines
  make -s -C "$top" install DESTDIR="$work/installed" >"$work/install.log" 2>&1 || return
  library_dir=$(dirname "$(find "$work/installed" -name libtarn-opencl.so)")
  [ -e "$library_dir/pkgconfig/tarn-opencl.pc" ] || return
  sed -i -E "s|^prefix=($work/installed)?|prefix=$work/installed|" "$library_dir"/pkgconfig/tarn*.pc
  for adapter in "$here"/*-tarn.c; do
    library=$library_dir/lib$(basename "$adapter" .c).so
    # shellcheck disable=SC2046  # options
    cc -shared -fPIC -O2 -Wall -Wextra -Werror "$adapter" -o "$library" \
       $(PKG_CONFIG_PATH=$library_dir/pkgconfig pkg-config --cflags --libs tarn-opencl) || return
    lines=$(sed '1,/\*\/$/d' "$adapter" | grep -c .)
    echo "$(basename "$adapter"): $lines lines"
    [ "$lines" -le 40 ] || fail "$(basename "$adapter") has more than 40 lines"
    # That of a library that is not found is no answer.
    if LD_LIBRARY_PATH=$library_dir ldd "$library" | grep -E 'libOpenCL|not found'; then
      fail "$(basename "$adapter") needs more than Tarn"
    fi
  done
}

# Runs a command with Tarn or without: without, no library of Tarn's may be loaded.
in_version () { # plain|tarn COMMAND...
  local version=$1
  shift
  if [ "$version" = tarn ]; then
    LD_LIBRARY_PATH=$library_dir "$@"
  else
    "$@"
  fi
}

# How many buffers a command makes with the driver: Tarn's layer counts them.
count_buffers () { # plain|tarn COMMAND...
  local version=$1
  shift
  in_version "$version" "$top/tools/tarn-run" --no-pool --stats -- "$@" 2>&1 >/dev/null |
    sed -n '/^Tarn: OpenCL buffers/{n;n;p;q}' | awk '{ print $1 }'
}

say_buffers () { # NAME COMMAND-WITHOUT-VERSION...: "VERSION" in it stands for plain or tarn
  local name=$1 plain tarn
  shift
  plain=$(count_buffers plain "${@//VERSION/plain}")
  tarn=$(count_buffers tarn "${@//VERSION/tarn}")
  echo "   $name: the driver makes ${plain:-?} buffers without Tarn, ${tarn:-?} with it"
  all_plain=$((all_plain + ${plain:-0})) all_tarn=$((all_tarn + ${tarn:-0}))
}

# Looks whether a library that was built calls Tarn: with the patch it does, and without it does not.
check_linked () { # PROGRAM LIBRARY, in the build's folder
  in_version tarn ldd "$work/$1-tarn/$2" | grep -q 'libtarn-opencl.*=> /' || fail "$1 with Tarn has no Tarn"
  ! in_version plain ldd "$work/$1-plain/$2" | grep libtarn || fail "$1 without Tarn has it"
}

# GEGL's tests of OpenCL, and a chain of filters.  Each makes an image, which has to be the same to the
# byte with Tarn and without.
run_gegl () {
  local version test name i chain=(-- )
  local targets=(bin/gegl tools/gegl-imgcmp operations/common/gegl-common.so operations/core/gegl-core.so
                 operations/external/png-load.so operations/external/png-save.so
                 operations/generated/gegl-generated.so operations/transform/transformops.so)
  local source=$work/gegl-plain-source
  get_tarball gegl 0.4.42 gegl_0.4.42.orig.tar.xz && unpack gegl gegl_0.4.42.orig.tar.xz &&
    cp "$here/gegl-tarn.c" "$work/gegl-tarn-source/gegl/opencl/gegl-cl-tarn.c" || return
  for version in plain tarn; do
    (cd "$work/gegl-$version-source" || exit
     [ $version = plain ] || export PKG_CONFIG_PATH=$library_dir/pkgconfig
     [ -e "$work/gegl-$version/build.ninja" ] ||
       meson setup "$work/gegl-$version" -Dauto_features=disabled -Dintrospection=false -Ddocs=false \
         -Dgtk-doc=false -Dworkshop=false || exit
     ninja -C "$work/gegl-$version" "${targets[@]}") >"$work/gegl-$version.log" 2>&1 || return
    mkdir -p "$work/gegl-$version/images"
  done
  check_linked gegl gegl/libgegl-0.4.so.0

  for i in 3 5 7 9 11; do
    chain+=(box-blur "radius=$i" brightness-contrast contrast=1.1 edge-sobel)
  done
  export GEGL_USE_OPENCL=${GEGL_USE_OPENCL:-cpu} GEGL_SWAP=RAM
  for test in "$source"/tests/opencl/*.xml chain; do
    name=$(basename "$test" .xml)
    for version in plain tarn; do
      set -- env "GEGL_PATH=$work/gegl-VERSION/operations" "$work/gegl-VERSION/bin/gegl"
      if [ "$test" = chain ]; then
        set -- "$@" "$source/tests/compositions/data/car-stack.png" \
          -o "$work/gegl-VERSION/images/chain.png" "${chain[@]}"
      else
        set -- "$@" "$test" -o "$work/gegl-VERSION/images/$name.png"
      fi
      rm -f "$work/gegl-$version/images/$name.png"
      in_version $version "${@//VERSION/$version}" >"$work/gegl-$version/images/$name.log" 2>&1 ||
        fail "gegl $name ($version)"
    done
    cmp "$work"/gegl-{plain,tarn}/images/"$name.png" || fail "gegl $name: another image with Tarn"
    n_compared=$((n_compared + 1))
    say_buffers "gegl $name" "$@"
    # Memory that is poisoned too early makes another image.
    in_version tarn env TARN_DEBUG=guards,poison "${@//VERSION/tarn}" \
      >"$work/gegl-tarn/images/$name.log" 2>&1 ||
      fail "gegl $name with TARN_DEBUG"
    ! grep -aw Tarn "$work/gegl-tarn/images/$name.log" || fail "gegl $name: TARN_DEBUG finds a mistake"
    cmp "$work"/gegl-{plain,tarn}/images/"$name.png" || fail "gegl $name: another image with TARN_DEBUG"
  done
}

# What CLBlast's tests print, without what differs from run to run.
results_of () { sed -E 's/\x1b\[[0-9;]*m//g; s/[0-9.]+ ms//g' "$1"; }

# CLBlast's tests of some routines that use temporary buffers.  Each compares its results with CBLAS's;
# it has to print the same with Tarn and without.
run_clblast () {
  local version routine
  local routines
  read -r -a routines <<<"${CLBLAST_ROUTINES:-xdot xsyrk xgemmbatched}"
  get_tarball clblast 1.6.3 clblast_1.6.3.orig.tar.gz && unpack clblast clblast_1.6.3.orig.tar.gz || return
  for version in plain tarn; do
    { [ -e "$work/clblast-$version/build.ninja" ] ||
        cmake -G Ninja -S "$work/clblast-$version-source" -B "$work/clblast-$version" -DTUNERS=OFF -DTESTS=ON \
          -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS=-O0 \
          -DCLBLAST_TARN="$library_dir/libclblast-tarn.so"; } >"$work/clblast-$version.log" 2>&1 &&
      ninja -C "$work/clblast-$version" "${routines[@]/#/clblast_test_}" >>"$work/clblast-$version.log" 2>&1 ||
      return
  done
  check_linked clblast libclblast.so
  for routine in "${routines[@]}"; do
    set -- "$work/clblast-VERSION/clblast_test_$routine" -precision 32 -platform 0 -device "${CLBLAST_DEVICE:-0}"
    for version in plain tarn; do
      in_version $version "${@//VERSION/$version}" >"$work/clblast-$version/$routine.log" 2>&1 ||
        fail "clblast $routine ($version) exits with $?"
      grep -q 'passed' "$work/clblast-$version/$routine.log" || fail "clblast $routine ($version) passed nothing"
    done
    diff <(results_of "$work/clblast-plain/$routine.log") <(results_of "$work/clblast-tarn/$routine.log") ||
      fail "clblast $routine: other results with Tarn"
    n_compared=$((n_compared + 1))
    say_buffers "clblast $routine" "$@"
  done
}

# OpenCV's lines about tests, without what differs from run to run.
opencv_results_of () { sed -E 's/ \([0-9]+ ms[^)]*\)//' "$1" | grep -aE '^\[ *(OK|FAILED|PASSED|SKIPPED)'; }

# OpenCV's tests of buffers that a device has, with its pools on.  Tests are built once, and run with
# either library: some fail without their images, which Debian's tarball has not, and have to fail in
# the same way.
run_opencv () {
  local version options tests lines
  local source=$work/opencv-plain-source adapter=$here/opencv-tarn.hpp
  tests=${OPENCV_TESTS:-UMat.*:OCL_OpenCL*:OCL_Context*:Image2D*:UMat/UMatBasic*:UMat/UMatTestRoi*:UMat/UMatTestReshape*:UMat/Core_DivideRules*}
  lines=$(sed '1,/\*\/$/d' "$adapter" | grep -c .)
  echo "opencv-tarn.hpp: $lines lines"
  [ "$lines" -le 40 ] || fail "opencv-tarn.hpp has more than 40 lines"
  get_tarball opencv 4.6.0+dfsg opencv_4.6.0+dfsg.orig.tar.xz &&
    unpack opencv opencv_4.6.0+dfsg.orig.tar.xz &&
    cp "$adapter" "$work/opencv-tarn-source/modules/core/src/" || return
  mapfile -t options < <(grep -oE 'OCV_OPTION\(WITH_[A-Z0-9_]+' "$source/CMakeLists.txt" |
                           sed 's/.*(//' | sort -u | sed '/^WITH_OPENCL$/d; s/.*/-D&=OFF/')
  for version in plain tarn; do
    { [ -e "$work/opencv-$version/build.ninja" ] ||
        cmake -G Ninja -S "$work/opencv-$version-source" -B "$work/opencv-$version" "${options[@]}" \
          -DBUILD_LIST=core,ts -DBUILD_PERF_TESTS=OFF -DBUILD_opencv_apps=OFF -DBUILD_ZLIB=OFF \
          -DCMAKE_BUILD_TYPE=Release -DCPU_DISPATCH= -DCPU_BASELINE=SSE2 -DCMAKE_SKIP_RPATH=ON \
          "-Dtarn_DIR=$library_dir/cmake/tarn" \
          "-DCMAKE_DISABLE_FIND_PACKAGE_tarn=$([ $version = tarn ] || echo ON)"; } \
      >"$work/opencv-$version.log" 2>&1 || return
  done
  ninja -C "$work/opencv-plain" opencv_test_core >>"$work/opencv-plain.log" 2>&1 &&
    ninja -C "$work/opencv-tarn" opencv_core >>"$work/opencv-tarn.log" 2>&1 || return
  check_linked opencv lib/libopencv_core.so
  ! in_version tarn ldd "$work/opencv-tarn/lib/libopencv_core.so" | grep libOpenCL ||
    fail "opencv with Tarn needs libOpenCL"

  export OPENCV_OPENCL_DEVICE=${OPENCV_OPENCL_DEVICE:-:CPU:} OPENCV_OPENCL_BUFFERPOOL_LIMIT=134217728
  set -- env "LD_LIBRARY_PATH=$work/opencv-VERSION/lib:$library_dir:$work/opencv-plain/lib" \
    "$work/opencv-plain/bin/opencv_test_core" "--gtest_filter=$tests"
  for version in plain tarn; do
    in_version $version "${@//VERSION/$version}" >"$work/opencv-$version/results.log" 2>&1
    opencv_results_of "$work/opencv-$version/results.log" >"$work/opencv-$version/results"
  done
  grep -q '\[ *OK' "$work/opencv-plain/results" || fail "opencv passed nothing"
  cmp "$work"/opencv-{plain,tarn}/results || fail "opencv: other results with Tarn"
  n_compared=$((n_compared + 1))
  say_buffers "opencv core" "$@"

  c++ -std=c++11 -O2 -Wall -I"$work/opencv-plain" -I"$source/modules/core/include" \
    "$here/opencv-test.cpp" -o "$work/opencv-test" -L"$work/opencv-plain/lib" -lopencv_core \
    -lOpenCL -pthread >>"$work/opencv-plain.log" 2>&1 || return
  set -- env "LD_LIBRARY_PATH=$work/opencv-VERSION/lib:$library_dir" "$work/opencv-test"
  for version in plain tarn; do
    in_version $version "${@//VERSION/$version}" >"$work/opencv-$version/test" 2>&1 ||
      fail "opencv-test ($version) exits with $?"
  done
  cmp "$work"/opencv-{plain,tarn}/test || fail "opencv-test: other results with Tarn"
  n_compared=$((n_compared + 1))
}

install_tarn || { echo "Tarn could not be installed: see $work/install.log"; exit 1; }
[ $# -gt 0 ] || set -- gegl clblast opencv
for program; do
  all_plain=0 all_tarn=0
  case $program in
    gegl | clblast | opencv)
      "run_$program" ||
        fail "$program could not be got or built: $(tail -q -n 3 "$work/$program"-{plain,tarn}.log 2>/dev/null)"
      ;;
    *)
      fail "there is no program $program: gegl, clblast, opencv"
      continue
      ;;
  esac
  echo "$program: the driver made $all_plain buffers without Tarn, $all_tarn with it"
  # Otherwise the program did not use OpenCL, or not Tarn.
  if [ "$all_tarn" -eq 0 ] || [ "$all_tarn" -ge "$all_plain" ]; then
    fail "$program has no fewer buffers with Tarn"
  fi
done
if [ ${#failures[@]} -gt 0 ]; then
  printf 'failed: %s\n' "$(IFS=';'; echo "${failures[*]}" | tr '\n' ' ')"
  exit 1
fi
echo "ok: $n_compared results are the same with Tarn"
